// The first part of a layer, which mixes the tokens of a sequence: attention, or what a layer has
// in its place.

#pragma once

#include "attention_heads.h"

namespace {

// A thread computes some features of all rows, and reads no others.
template <typename Kind>
void convolve(const Pass<Kind>& pass, const Layer& layer, bool single) {
  const long width = pass.config.hidden_size, stride = 3 * width;
  const auto [first, last] = pass.me.share(width / COLUMNS);
  const Range mine{first * COLUMNS, last * COLUMNS};
  auto* rows = pass.team.qkv;
  if (pass.rows_apart) pass.me.wait();
  for (long start = 0; start < stride; start += width)
    pass.multiply_rows(
        layer.qkv, pass.team.narrow, {0, pass.part.tokens}, width,
        {start + mine.first, start + mine.last},
        [&](long row, long column, Floats y) { store(rows + row * stride + column, y); });
  auto* out = pass.team.stage;
  for (long i = pass.part.first; i < pass.part.last; i++) {
    const GatedRows<typename Pass<Kind>::Value> sequence{rows, pass.call.lengths[i], width};
    // Tokens that are not attended to count as zeros; a centred convolution reads them.
    if (pass.config.causal) sequence.clear(pass.call.key_count(i), layer.qkv.bias, mine);
    const Range wanted = pass.call.wanted_rows(i, single);
    for (long row = wanted.first; row < wanted.last; row++, out += width)
      for (long d = mine.first; d < mine.last; d += W)
        store(out + d, sequence.convolve(layer.convolution, row, d));
    rows += sequence.length * stride;
  }
}

// Computes the results of the wanted rows of a sequence, of which the first `attended` are attended
// to. The results of others are zeros.
template <typename Kind>
void run_delta_head(const Pass<Kind>& pass, const DeltaNet& net, long head,
                    const typename Pass<Kind>::Value* rows, Range wanted, long attended,
                    typename Pass<Kind>::Stage* out) {
  const long width = net.heads.width(), size = net.heads.size;
  const auto write = [&](long row, auto&& result) {
    if (row < wanted.first) return;
    auto* place = out + (row - wanted.first) * width + head * size;
    for (long d = 0; d < size; d += W) store(place + d, result(d));
  };
  const long end = std::min(wanted.last, attended);
  DeltaHead<typename Pass<Kind>::Value>(net, head, rows, pass.own.delta)
      .run(end, pass.eps(), [&](long row, const float* result) {
        write(row, [&](long d) { return load(result + d); });
      });
  for (long row = std::max(wanted.first, end); row < wanted.last; row++)
    write(row, [](long) { return Floats{}; });
}

// A thread computes whole heads of sequences.
template <typename Kind>
void run_delta_net(const Pass<Kind>& pass, const Layer& layer, bool single) {
  const DeltaHeads& heads = layer.delta_net.heads;
  const long stride = heads.row_width(), width = heads.width();
  auto* rows = pass.team.qkv;
  pass.each_block([&](Range some) { write_columns(pass, layer.qkv, some, stride, {0, stride}); });
  pass.me.wait();
  const auto [first, last] = pass.me.share(pass.part.tokens * heads.count);
  auto* out = pass.team.stage;
  long cost = 0;
  for (long i = pass.part.first; i < pass.part.last; i++) {
    const Range wanted = pass.call.wanted_rows(i, single);
    for (long head = 0; head < heads.count; head++, cost += pass.call.lengths[i])
      if (cost >= first && cost < last)
        run_delta_head(pass, layer.delta_net, head, rows, wanted, pass.call.key_count(i), out);
    rows += pass.call.lengths[i] * stride;
    out += (wanted.last - wanted.first) * width;
  }
}

// Keeps of each sequence the row of the pooled token alone.
template <typename Kind>
void keep_pooled(const Pass<Kind>& pass, float* all) {
  const long width = pass.config.hidden_size;
  const float* rows = all;
  for (long i = pass.part.first; i < pass.part.last; rows += pass.call.lengths[i++] * width)
    std::memmove(all + (i - pass.part.first) * width, rows + pass.call.pooled_row(i).first * width,
                 width * sizeof(float));
}
template <typename Kind>
void keep_pooled(Pass<Kind>& pass) {
  if (pass.me.rank == 0) {
    keep_pooled(pass, pass.team.x);
    if (pass.config.gate_size) keep_pooled(pass, pass.team.inputs);
  }
  pass.set_rows(pass.part.last - pass.part.first);
  pass.me.wait();
}

// Width of the results of a layer's mixer.
inline long mixed_width(const Layer& layer, const KernelConfig& config) {
  if (layer.convolution) return config.hidden_size;
  return layer.delta_net ? layer.delta_net.heads.width() : layer.heads.width();
}

// Single: of each sequence only the row of the pooled token continues.
template <typename Kind>
void mix_tokens(Pass<Kind>& pass, const Layer& layer, bool single) {
  const long width = mixed_width(layer, pass.config);
  if (layer.convolution)
    convolve(pass, layer, single);
  else if (layer.delta_net)
    run_delta_net(pass, layer, single);
  else
    attend_heads(pass, layer, single);
  pass.me.wait();
  if (single) keep_pooled(pass);
  pass.each_block([&](Range rows) {
    auto* staged = pass.team.stage + rows.first * width;
    if (layer.mixed_norm)
      pass.normalise_staged(layer.mixed_norm, staged, rows.last - rows.first, width, pass.eps());
    // Of a model with massive activations, see quantization.py.
    if constexpr (std::is_same_v<Kind, Int8>)
      if (!layer.output.scales)
        return pass.template add<typename Pass<Kind>::Attention>(layer.output, staged, rows, width);
    pass.add(layer.output, staged, rows, width);
  });
}

}  // namespace
