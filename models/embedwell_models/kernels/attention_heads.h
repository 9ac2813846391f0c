// Attention of all heads of a layer: queries, keys and values of the rows, and each thread's share
// of the heads and queries.

#pragma once

#include "pass.h"

namespace {

// Writes columns of a product to rows of `stride` columns.
template <typename Kind>
void write_columns(const Pass<Kind>& pass, const Matrix& matrix, Range rows, long stride,
                   Range columns) {
  auto* out = pass.team.qkv;
  pass.product(matrix, pass.team.narrow, rows, pass.config.hidden_size, columns,
               [=](long row, long column, Floats y) { store(out + row * stride + column, y); });
}

template <typename Kind>
void write_rotated(const Pass<Kind>& pass, const Layer& layer, const Rotation& rotation, Range rows,
                   Range columns) {
  const auto size = static_cast<uint32_t>(layer.heads.size);
  const long stride = layer.heads.qkv_width();
  const int64_t* positions = pass.call.positions + pass.part.offset;
  auto* out = pass.team.qkv;
  pass.product(layer.qkv, pass.team.narrow, rows, pass.config.hidden_size, columns,
               [=, turning = rotation](long row, long column, Floats y) {
                 const long feature = static_cast<uint32_t>(column) % size;
                 store(out + row * stride + column,
                       turning.turn(y, positions[row] * size + feature));
               });
}

template <typename Kind>
void write_normalised_head(const Pass<Kind>& pass, const Layer& layer, const Norm& norm,
                           const Rotation& rotation, Range rows, long head) {
  const long size = layer.heads.size, stride = layer.heads.qkv_width(), before = head * size;
  float* aside = pass.own.aside - rows.first * size;
  pass.multiply_rows(
      layer.qkv, pass.team.narrow, rows, pass.config.hidden_size, {before, before + size},
      [&](long row, long column, Floats y) { store(aside + row * size + column - before, y); });
  for (long row = rows.first; row < rows.last; row++) {
    float* x = aside + row * size;
    normalise(x, size, norm, pass.eps(), x);
    const long start = rotation ? pass.call.positions[pass.part.offset + row] * size : 0;
    auto* out = pass.team.qkv + row * stride + before;
    for (long d = 0; d < size; d += W)
      store(out + d, rotation ? rotation.turn(load(x + d), start + d) : load(x + d));
  }
}

template <typename Kind>
void write_normalised(const Pass<Kind>& pass, const Layer& layer, const Norm& norm,
                      const Rotation& rotation, Range rows, Range heads) {
  Portions mine(rows.last - rows.first, heads.last - heads.first, pass.group());
  while (mine.next())
    for (long head = mine.units.first; head < mine.units.last; head++)
      write_normalised_head(pass, layer, norm, rotation,
                            {rows.first + mine.rows.first, rows.first + mine.rows.last},
                            heads.first + head);
}

// Writes some heads of queries, keys or values, normalised and rotated if the model does.
template <typename Kind>
void write_heads(const Pass<Kind>& pass, const Layer& layer, const Norm& norm,
                 const Rotation& rotation, Range rows, Range heads) {
  if (norm) return write_normalised(pass, layer, norm, rotation, rows, heads);
  const Range columns{heads.first * layer.heads.size, heads.last * layer.heads.size};
  if (rotation) return write_rotated(pass, layer, rotation, rows, columns);
  write_columns(pass, layer.qkv, rows, layer.heads.qkv_width(), columns);
}

// Queries, keys and values of all heads, and the gates of their results.
template <typename Kind>
void project(const Pass<Kind>& pass, const Layer& layer) {
  const long keys = layer.heads.count, values = keys + layer.heads.kv_count;
  const long gates = values + layer.heads.kv_count;
  const Rotation& rotation = pass.call.rotations[layer.rotation_index];
  const Rotation none{nullptr, nullptr};
  pass.each_block([&](Range rows) {
    write_heads(pass, layer, layer.query_norm, rotation, rows, {0, keys});
    write_heads(pass, layer, layer.key_norm, rotation, rows, {keys, values});
    write_heads(pass, layer, layer.value_norm, none, rows, {values, gates});
    if (layer.heads.gated) write_heads(pass, layer, {}, none, rows, {gates, gates + keys});
  });
  pass.me.wait();
}

// A head's queries, keys and values of a sequence.
template <typename Value>
struct HeadRows {
  const Value *queries, *keys, *values;
  long stride;
};

// Attention of the wanted queries of a head. packed: the first of the keys that are packed.
template <typename Kind, typename Out>
INLINE void attend_head(const Pass<Kind>& pass, const Layer& layer, long head,
                        const HeadRows<typename Pass<Kind>::Value>& rows, Range wanted,
                        const AttentionMask& mask,
                        const Head<typename Pass<Kind>::Attention>& space, long& packed,
                        Out&& out) {
  const KernelConfig& config = pass.config;
  Relation<typename Pass<Kind>::Attention> relation(
      layer.relative, head, space.size, config.buckets, pass.call.distances, pass.own.relative);
  const bool relative{layer.relative};
  const long step = relative ? RelativeMemory::QUERIES : space.QUERIES;
  const auto scale = static_cast<float>(config.scale), cap = static_cast<float>(config.softcap);
  for (long t = wanted.first; t < wanted.last; t += step) {
    const Range some{t, std::min(t + step, wanted.last)}, seen = mask.multiplied(some);
    const auto add = [&](long first, long count, Range keys, float* scores) {
      if (relative) relation.add(rows.queries, rows.stride, first, count, keys, scores);
      if (cap) cap_scores(scores, count * (keys.last - keys.first), scale, cap);
    };
    long key = seen.first / PACKED * PACKED;
    do {  // without keys, too
      const Range keys{key, std::min(key + PACKED, mask.keys)};
      if (packed != key) space.pack(rows.keys, rows.values, rows.stride, keys);
      packed = key;
      if (relative) relation.score_keys(rows.keys, rows.stride, some, keys);
      const auto attend_block = [&](auto whole) {
        attend<whole>(rows.queries, rows.stride, some, keys, mask, layer.first_bias + head,
                      pass.call.position_bias, cap ? 1.0f : scale, space, add, out);
      };
      if (mask.keys <= PACKED)
        attend_block(std::true_type{});
      else
        attend_block(std::false_type{});
    } while ((key += PACKED) < seen.last);
  }
}

template <typename Stage, typename Value>
void gate_result(Stage* y, const Value* gates, long size) {
  for (long d = 0; d < size; d += W)
    store(y + d, load(y + d) / (1.0f + exponential(-load(gates + d))));
}

// This thread's queries of the heads that share a head of keys, within a sequence.
template <typename Kind>
void attend_key_head(const Pass<Kind>& pass, const Layer& layer, long key,
                     const AttentionCost& cost, Range costs, const typename Pass<Kind>::Value* rows,
                     typename Pass<Kind>::Stage* out) {
  const Heads& heads = layer.heads;
  const long stride = heads.qkv_width(), size = heads.size, width = heads.width();
  const auto *keys = rows + width + key * size, *values = keys + heads.kv_count * size;
  const auto* gates = rows + width + 2 * heads.kv_count * size;
  auto space = pass.own.head;
  space.size = size;
  long packed = -1;
  const long first = key * heads.shared(), last = first + heads.shared();
  for (long head = first; head < last; head++) {
    const Range mine = cost.queries(costs);
    costs = {costs.first - cost.total(), costs.last - cost.total()};
    auto* const results = out + head * size - cost.wanted().first * width;
    attend_head(pass, layer, head, {rows + head * size, keys, values, stride}, mine, cost.mask(),
                space, packed,
                [=](long row, long d, Floats y) { store(results + row * width + d, y); });
    if (!heads.gated) continue;
    for (long row = mine.first; row < mine.last; row++)
      gate_result(results + row * width, gates + row * stride + head * size, size);
  }
}

template <typename Kind>
void attend_heads(const Pass<Kind>& pass, const Layer& layer, bool single) {
  const ForwardCall& call = pass.call;
  project(pass, layer);
  const auto cost_of = [&](long i) {
    const AttentionMask mask{call.key_count(i), layer.window, pass.config.causal != 0};
    return AttentionCost(mask, call.wanted_rows(i, single));
  };
  long total = 0;
  for (long i = pass.part.first; i < pass.part.last; i++) total += cost_of(i).total();
  const Range costs = pass.me.share(total * layer.heads.count);
  long cost = 0;
  for (long key = 0; key < layer.heads.kv_count; key++) {
    const auto* rows = pass.team.qkv;
    auto* out = pass.team.stage;
    for (long i = pass.part.first; i < pass.part.last; i++) {
      const AttentionCost each = cost_of(i);
      const Range wanted = each.wanted();
      attend_key_head(pass, layer, key, each, {costs.first - cost, costs.last - cost}, rows, out);
      cost += layer.heads.shared() * each.total();
      rows += call.lengths[i] * layer.heads.qkv_width();
      out += (wanted.last - wanted.first) * layer.heads.width();
    }
  }
}

}  // namespace
