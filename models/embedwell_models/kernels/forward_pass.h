// A forward pass of one thread: table lookup, layers and pooling.

#pragma once

#include "feed_forward.h"
#include "mixers.h"

namespace {

template <typename Kind>
void embed_rows(const Pass<Kind>& pass) {
  const auto& team = pass.team;
  const long width = pass.config.hidden_size;
  const auto [first, last] = pass.me.share(pass.part.tokens);
  const int64_t* ids = pass.call.token_ids + pass.part.offset;
  const EmbeddingTables& tables = *pass.call.embedding_tables;
  long row = 0;
  for (long i = pass.part.first; i < pass.part.last; i++) {
    const long end = std::min<long>(last, row + pass.call.lengths[i]);
    long next = tables.padding_id < 0 ? 0 : 1;
    for (; row < end; row++) {
      const long position = ids[row] == tables.padding_id ? 0 : next++;
      if (row >= first) embed(tables, ids[row], position, width, pass.eps(), team.x + row * width);
    }
  }
  if (!pass.call.num_layers) return;  // without layers there is no memory for the rest
  const long bytes = (last - first) * width * static_cast<long>(sizeof(float));
  if (team.output_sum != team.x) std::memset(team.output_sum + first * width, 0, bytes);
  if (pass.config.gate_size)
    std::memcpy(team.inputs + first * width, team.x + first * width, bytes);
}

// The reader of the rows before a layer, or of the last states.
template <typename Kind>
Reader layer_reader(const Pass<Kind>& pass, long index) {
  if (index == pass.call.num_layers) return {pass.call.final_norm, nullptr};
  const Layer& layer = pass.call.layers[index];
  return {&layer.attention_norms.input, &layer.qkv};
}

// Adds the rows to the output of a part before it is normalised.
template <typename Kind>
void add_input(const Pass<Kind>& pass) {
  const long width = pass.config.hidden_size;
  const auto [first, last] = pass.me.share(pass.num_rows);
  float* output_sum = pass.team.output_sum;
  for (long i = first * width; i < last * width; i += W)
    store(output_sum + i, load(output_sum + i) + load(pass.team.x + i));
}

// The rows that the feed-forward network reads. Experts read the rows themselves, which are in
// post-norm layers also the part's input.
template <typename Kind>
void settle_mixed(const Pass<Kind>& pass, const Layer& layer) {
  const Reader network{&layer.ffn_norms.input, layer.experts.count ? nullptr : &layer.up};
  if (in_parallel(pass.config.arrangement)) return pass.read_rows(network, pass.team.x);
  if (pass.config.arrangement == Arrangement::double_post) add_input(pass);
  pass.settle_rows(layer.attention_norms, network);
}

template <typename Kind>
void run_layer(Pass<Kind>& pass, long index) {
  const Layer& layer = pass.call.layers[index];
  const Reader next = layer_reader(pass, index + 1);
  mix_tokens(pass, layer, index + 1 == pass.call.num_layers && pass.call.pools_one_row());
  settle_mixed(pass, layer);
  if (layer.experts.count)
    run_experts(pass, layer.experts);
  else
    run_network(pass, layer);
  if (!pass.config.gate_size) return pass.settle_rows(layer.ffn_norms, next);
  compute_features(pass, layer.gate);
  pass.settle_rows(layer.ffn_norms, {&layer.gate.norms.input, &layer.gate.down});
  multiply_gate(pass, layer.gate);
  pass.settle_rows(layer.gate.norms, next, static_cast<float>(layer.gate.scale));
}

template <typename Kind>
void copy_states(const Pass<Kind>& pass) {
  const long width = pass.config.hidden_size;
  const auto [first, last] = pass.me.share(pass.part.tokens);
  std::memcpy(pass.call.states + (pass.part.offset + first) * width, pass.team.x + first * width,
              (last - first) * width * sizeof(float));
}

template <typename Kind>
void pool_sequences(const Pass<Kind>& pass) {
  const ForwardCall& call = pass.call;
  const Part& part = pass.part;
  const bool whole = pass.num_rows == part.tokens;  // or one row of each sequence
  const long width = pass.config.hidden_size, units = width / COLUMNS;
  auto [first, last] = pass.me.share((part.last - part.first) * units);
  const float* rows = pass.team.x;
  if (pass.rows_apart) pass.me.wait();
  for (long i = part.first; i < part.last; i++, first -= units, last -= units) {
    const Range columns{std::max(first, 0L) * COLUMNS, std::min(last, units) * COLUMNS};
    const long length = whole ? call.lengths[i] : 1;
    for (long j = 0; j < call.num_poolings && columns.first < columns.last; j++)
      pool(rows, length, width, columns, call.poolings[j],
           call.vectors + (i * call.num_poolings + j) * width);
    rows += length * width;
  }
}

template <typename Kind>
void run_pass(Pass<Kind> pass) {
  embed_rows(pass);
  pass.read_rows(layer_reader(pass, 0), pass.team.x);
  for (long i = 0; i < pass.call.num_layers; i++) run_layer(pass, i);
  if (pass.call.states) copy_states(pass);
  pool_sequences(pass);
}

}  // namespace
