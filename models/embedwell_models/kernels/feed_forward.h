// The parts of a layer after the mixing of tokens, which compute each row by itself: a feed-forward
// network, a mixture of them, and an input gate.

#pragma once

#include "pass.h"

namespace {

// Rows from the first one on of a product with `up`, activated, to the stage.
template <typename Kind>
void activate_rows(const Pass<Kind>& pass, const Matrix& up, const Rows<Kind>& from, Range rows) {
  const long inner = pass.config.intermediate_size;
  const Activation activation = pass.config.activation;
  auto* out = pass.stage();
  pass.product(up, from, rows, pass.config.hidden_size, {0, inner},
               [=](long row, long column, Floats y) APART {
                 store(out + (row - rows.first) * inner + column,
                       activate<Kind::exact>(y, activation));
               });
}

// A panel of gates waits for the following panel of up (GLU, Shazeer 2020, arXiv 2002.05202).
template <typename Kind>
void gate_rows(const Pass<Kind>& pass, const Matrix& up, Range rows) {
  const long inner = pass.config.intermediate_size;
  const Activation activation = pass.config.activation;
  float* gates = pass.own.aside;
  auto* out = pass.stage();
  pass.product(up, pass.team.narrow, rows, pass.config.hidden_size, {0, 2 * inner},
               [=](long row, long column, Floats y) APART {
                 const long r = row - rows.first;
                 float* gate = gates + r % BLOCK * PANEL + column % PANEL;
                 if (column / PANEL % 2 == 0)
                   return store(gate, activate<Kind::exact>(y, activation));
                 const long feature = column / (2 * PANEL) * PANEL + column % PANEL;
                 store(out + r * inner + feature, load(gate) * y);
               });
}

template <typename Kind>
void run_network(const Pass<Kind>& pass, const Layer& layer) {
  pass.each_block([&](Range rows) {
    if (pass.config.gated)
      gate_rows(pass, layer.up, rows);
    else
      activate_rows(pass, layer.up, pass.team.narrow, rows);
    pass.group().wait();
    const long inner = pass.config.intermediate_size;
    if (layer.inner_norm)
      pass.normalise_staged(layer.inner_norm, pass.stage(), rows.last - rows.first, inner,
                            static_cast<float>(pass.config.inner_norm_eps));
    pass.add(layer.down, pass.stage(), rows, inner);
  });
}

template <typename Kind>
void route_rows(const Pass<Kind>& pass, const Experts& experts) {
  const auto& team = pass.team;
  const long width = pass.config.hidden_size;
  const auto [first, last] = pass.me.share(pass.num_rows);
  for (long row = first; row < last; row++)
    route(team.x + row * width, width, experts, pass.own.logits, team.shares + row * experts.count);
  pass.me.wait();
  if (pass.me.rank == 0) sort_rows(team.shares, pass.num_rows, experts, team.places, team.ends);
  pass.me.wait();
}

// The operands of all experts, before the first adds its results to the rows.
template <typename Kind>
void gather_rows(const Pass<Kind>& pass, const Experts& experts) {
  const auto& team = pass.team;
  const long width = pass.config.hidden_size;
  const auto places = pass.me.share(pass.num_rows * experts.top);
  const auto rows = pass.me.share(pass.num_rows);
  for (long place = places.first, i = 0; place < places.last; place++) {
    while (place >= team.ends[i]) i++;
    const float* x = team.x + team.places[place].row * width;
    if constexpr (std::is_same_v<typename Kind::Operand, float>)
      std::memcpy(team.routed.data + place * width, x, width * sizeof(float));
    prepare(x, width, experts.each[i].up, team.routed, place);
  }
  pass.me.wait();
  for (float* x = team.x + rows.first * width; x < team.x + rows.last * width; x += width)
    for (long d = 0; d < width; d += W) store(x + d, load(x + d) + load(experts.bias + d));
}

template <typename Kind>
void add_shares(const Pass<Kind>& pass, const Matrix& down, const Rows<Kind>& from,
                const Place* places, long rows) {
  const long width = pass.config.hidden_size;
  float* x = pass.team.x;
  pass.product(down, from, {0, rows}, pass.config.intermediate_size, {0, width},
               [=](long r, long column, Floats y) {
                 float* sum = x + places[r].row * width + column;
                 store(sum, fma(y, splat(places[r].share), load(sum)));
               });
  pass.me.wait();
}

// The rows of some places through an expert.
template <typename Kind>
void run_expert(const Pass<Kind>& pass, const Expert& expert, long first, long last) {
  const long inner = pass.config.intermediate_size;
  const long block = pass.me.size == 1 ? BLOCK : pass.num_rows;
  for (long place = first; place < last; place += block) {
    const long rows = std::min(last - place, block);
    activate_rows(pass, expert.up, pass.team.routed, {place, place + rows});
    pass.me.wait();
    add_shares(pass, expert.down, pass.operands(expert.down, pass.stage(), rows, inner),
               pass.team.places + place, rows);
  }
}

// A row adds up its experts in their order, whatever the other rows choose.
template <typename Kind>
void run_experts(Pass<Kind>& pass, const Experts& experts) {
  route_rows(pass, experts);
  gather_rows(pass, experts);
  const bool rows_apart = pass.rows_apart;
  pass.rows_apart = pass.me.size == 1;
  for (long i = 0, first = 0; i < experts.count; first = pass.team.ends[i++])
    run_expert(pass, experts.each[i], first, pass.team.ends[i]);
  pass.rows_apart = rows_apart;
}

// The features of the tokens, which are the factors of the gate.
template <typename Kind>
void compute_features(const Pass<Kind>& pass, const InputGate& gate) {
  const long inner = pass.config.gate_size;
  float* out = pass.team.features;
  pass.read_rows({&gate.norms.input, &gate.features}, pass.team.inputs);
  pass.each_block([&](Range rows) {
    pass.product(gate.features, pass.team.narrow, rows, pass.config.hidden_size, {0, inner},
                 [=](long row, long column, Floats y) { store(out + row * inner + column, y); });
  });
  pass.group().wait();
  const auto [first, last] = pass.me.share(pass.num_rows);
  for (long row = first; row < last; row++)
    normalise(out + row * inner, inner, gate.features_norm, pass.eps(), out + row * inner);
}

template <typename Kind>
void multiply_gate(const Pass<Kind>& pass, const InputGate& gate) {
  const long inner = pass.config.gate_size;
  const Activation activation = pass.config.activation;
  auto* out = pass.stage();
  pass.each_block([&](Range rows) {
    const float* features = pass.team.features + rows.first * inner;
    pass.product(gate.down, pass.team.narrow, rows, pass.config.hidden_size, {0, inner},
                 [=](long row, long column, Floats y) APART {
                   const long place = (row - rows.first) * inner + column;
                   store(out + place,
                         activate<Kind::exact>(y, activation) * load(features + place));
                 });
    pass.group().wait();
    pass.add(gate.up, out, rows, inner);
  });
}

}  // namespace
