// Attention of one head within one sequence: softmax(q k^T / sqrt(Dh) + bias) v
// (Vaswani et al. 2017, arXiv 1706.03762).

#pragma once

#include <algorithm>

#include "arena.h"
#include "multiply.h"

// The bias that is added to the scores.
struct PositionBias {
  const float* values;  // (rows, 2 * max_length - 1) by key minus query position, or null
  int64_t max_length;   // distances are 0 to max_length - 1, in both directions

  // A row of the biases for a query, by the position of the key.
  const float* row(long index, long query) const {
    return values ? values + index * (2 * max_length - 1) + max_length - 1 - query : nullptr;
  }
};

// Scales some scores, whose number is a multiple of W, and turns each x to cap * tanh(x / cap), as
// in Gemma 2 (arXiv 2408.00118).
APART inline void cap_scores(float* scores, long count, float scale, float cap) {
  const Floats share = splat(scale / cap);
  for (long i = 0; i < count; i += W) store(scores + i, tangent(load(scores + i) * share) * cap);
}

// The keys that a query attends to: keys within a window and, if causal, no later keys. If there
// are fewer keys than queries, a window may be empty.
struct AttentionMask {
  long keys, window;
  bool causal;

  Range visible(long query) const {
    const long last = query + (causal ? 0 : window), end = std::min(last + 1, keys);
    return {std::min(std::max(query - window, 0L), end), end};
  }
  // The keys that some queries are multiplied with.
  Range multiplied(Range queries) const {
    return {std::min(visible(queries.first).first, keys - 1) / COLUMNS * COLUMNS,
            round_up(visible(queries.last - 1).last, COLUMNS)};
  }
};

// The attention of a head in a sequence costs the number of its products, and some for each block
// of queries.
class AttentionCost {
 public:
  AttentionCost(const AttentionMask& mask, Range wanted)
      : mask_(mask), wanted_(wanted), total_(of(wanted)) {}

  long total() const { return total_; }
  const AttentionMask& mask() const { return mask_; }
  Range wanted() const { return wanted_; }
  // Of the blocks of some queries, the first of which starts a block.
  long of(Range queries) const {
    long cost = 0;
    for (long t = queries.first; t < queries.last; t += TILE_ROWS) cost += of_block(t);
    return cost;
  }
  // The queries of the blocks that start within a range of costs.
  Range queries(Range costs) const {
    if (costs.first <= 0 && costs.last >= total_) return wanted_;
    long cost = 0, first = wanted_.last, t = wanted_.first;
    for (; t < wanted_.last && cost < costs.last; cost += of_block(t), t += TILE_ROWS)
      if (cost >= costs.first) first = std::min(first, t);
    return {first, std::max(first, std::min(t, wanted_.last))};
  }

 private:
  long of_block(long query) const {
    const Range keys = mask_.multiplied({query, std::min(query + TILE_ROWS, wanted_.last)});
    return keys.last - keys.first + COLUMNS;
  }

  const AttentionMask mask_;
  const Range wanted_;
  const long total_;
};

// Lane numbers that alternate `step` lanes of a and `step` lanes of b; with `second`, the lanes
// that the first result leaves out.
template <int step, bool second, int... lane>
constexpr auto merged(std::integer_sequence<int, lane...>) {
  constexpr int width = W;
  return std::integer_sequence<int, (lane & step ? lane + width - (second ? 0 : step)
                                                 : lane + (second ? step : 0))...>{};
}

// Transposes W vectors of W lanes: lane j of vector i becomes lane i of vector j.
template <int step = 1>
INLINE void transpose(Ints (&rows)[W]) {
  if constexpr (step < W) {
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
      if (!(i & step)) {
        const Ints a = rows[i], b = rows[i + step];
        rows[i] = shuffle(a, b, merged<step, false>(Numbers{}));
        rows[i + step] = shuffle(a, b, merged<step, true>(Numbers{}));
      }
    transpose<2 * step>(rows);
  }
}

// Packs keys (length, size) to panels of k^T; columns after the last key are zero.
template <typename Value>
INLINE void pack_keys(const Value* keys, long stride, long length, long size, Value* out) {
  constexpr long group = 4 / sizeof(Value);
  for (long t = 0; t < round_up(length, COLUMNS); t += W)
    for (long d = 0; d < size; d += W * group) {
      Ints rows[W];
#pragma GCC unroll 16
      for (int i = 0; i < W; i++)
        rows[i] = t + i < length ? load_ints(keys + (t + i) * stride + d) : Ints{};
      transpose(rows);
      Value* lines = out + t / PANEL * PANEL * size + d * PANEL + t % PANEL * group;
#pragma GCC unroll 16
      for (int i = 0; i < W; i++) std::memcpy(lines + i * PANEL * group, &rows[i], sizeof(Ints));
    }
}

// Packs values (length, size) to panels; rows after the last value are zero.
INLINE void pack_values(const float* values, long stride, long length, long depth, long size,
                        float* out) {
  for (long t = 0; t < depth; t++)
    for (long d = 0; d < size; d += W)
      store(out + d / PANEL * PANEL * depth + t * PANEL + d % PANEL,
            t < length ? load(values + t * stride + d) : Floats{});
}
INLINE void pack_values(const BFloat16* values, long stride, long length, long depth, long size,
                        BFloat16* out) {  // two rows interleaved
  for (long t = 0; t < depth; t += 2)
    for (long d = 0; d < size; d += W) {
      Words even{}, odd{};
      if (t < length) even = (Words)load(values + t * stride + d);
      if (t + 1 < length) odd = (Words)load(values + (t + 1) * stride + d);
      const Words pairs = even >> 16 | odd;
      std::memcpy(out + d / PANEL * PANEL * depth + t * PANEL + 2 * (d % PANEL), &pairs,
                  sizeof(pairs));
    }
}

// e^x, as exact as the type that stores it.
INLINE Floats weigh(Floats x, float*) { return exponential(x); }
INLINE Floats weigh(Floats x, BFloat16*) { return exponential_roughly(x); }

// The softmax of a row over the keys so far.
struct Softmax {
  float peak = -1e30f;  // the largest score, scaled
  float sum = 0.0f;     // of e^(score - peak)
  float factor = 1.0f;  // of the results until the last keys, because their peak was another
};

// Converts a row of scores to weights that are not yet divided by their sum. Without keys the
// weights are zero.
template <typename Value>
INLINE void soften(float* scores, Range seen, long columns, float scale, const float* bias,
                   Softmax& softmax, Value* out) {
  if (seen.first >= seen.last) {
    for (long j = 0; j < columns; j += W) store(out + j, Floats{});
    softmax.factor = 1.0f;
    return;
  }
  const long start = seen.first / W * W, end = round_up(seen.last, W), whole = seen.last / W * W;
  if (bias) {
    for (long j = start; j < end; j += W)
      store(scores + j, fma(load(scores + j), splat(scale), load(bias + j)));
    scale = 1.0f;
  }
  // Hidden keys in the outer vectors weigh at most e^-87, which does not change a sum of 1 or more.
  if (start < seen.first) {
    const Floats x = load(scores + start);
    store(scores + start, lanes() < static_cast<int>(seen.first - start) ? splat(-1e30f) : x);
  }
  if (whole < end) {
    const Floats x = load(scores + whole);
    store(scores + whole, lanes() < static_cast<int>(seen.last - whole) ? x : splat(-1e30f));
  }
  Floats peaks = splat(-1e30f), total{};
  for (long j = start; j < end; j += W) peaks = larger(peaks, load(scores + j));
  const float before = softmax.peak, highest = scale * largest(peaks);
  softmax.peak = before > highest ? before : highest;
  const Floats peak = splat(-softmax.peak);
  for (long j = 0; j < start; j += W) store(out + j, Floats{});
  for (long j = start; j < end; j += W) {
    const Floats x = weigh(fma(load(scores + j), splat(scale), peak), out);
    store(out + j, x);
    total += x;
  }
  for (long j = end; j < columns; j += W) store(out + j, Floats{});
  if (softmax.sum && before == softmax.peak)
    softmax.factor = 1.0f;
  else
    softmax.factor = softmax.sum ? exponential(splat(before - softmax.peak))[0] : 0.0f;
  softmax.sum = softmax.sum * softmax.factor + sum(total);
}

constexpr long PACKED = 1024;  // keys of a long text that are packed together

// Working memory of one thread for one head. Its size does not depend on long texts: their keys are
// multiplied in blocks, after each of which the softmax is corrected (Milakov and Gimelshein 2018,
// arXiv 1805.02867).
template <typename Kind>
struct Head {
  using Value = typename Kind::Operand;
  Value *keys, *values, *weights;  // (Dh, columns), (depth, Dh), (BLOCK + SLACK, depth)
  float *scores, *sums;            // (BLOCK, columns), (QUERIES, Dh) of earlier blocks of keys
  Softmax* softmax;                // (QUERIES,)
  long size;                       // Dh
  static constexpr long BLOCK = TILE_ROWS;
  static constexpr long QUERIES = 4096;  // for which a block of keys is packed

  static long columns(long length) { return round_up(length, COLUMNS); }

  Head(Arena& arena, long length, long width)
      : keys(arena.take<Value>(columns(std::min(length, PACKED)) * width)),
        values(arena.take<Value>(columns(std::min(length, PACKED)) * width)),
        weights(arena.take<Value>((BLOCK + SLACK) * columns(std::min(length, PACKED)))),
        scores(arena.take<float>(BLOCK * columns(std::min(length, PACKED)))),
        sums(arena.take<float>(length > PACKED ? std::min(length, QUERIES) * width : 0)),
        softmax(arena.take<Softmax>(std::min(length, QUERIES))),
        size(width) {}

  INLINE void pack(const Value* key, const Value* value, long stride, Range block) const {
    const long length = block.last - block.first;
    pack_keys(key + block.first * stride, stride, length, size, keys);
    pack_values(value + block.first * stride, stride, length, columns(length), size, values);
  }
};

// Attention of the wanted queries, in rows of a stride, to a block of packed keys and values. Calls
// out with row, column and W results after the last block of keys. Multiplies only keys that a
// query of the block of queries attends to. Before the softmax it calls add with a block's first
// row, its number of rows, its keys and unscaled scores. whole: whether all keys are packed, as in
// most texts, for which compilers leave out the rest.
template <bool whole, typename Kind, typename Add, typename Out>
INLINE void attend(const typename Kind::Operand* queries, long stride, Range wanted, Range packed,
                   const AttentionMask& mask, long bias_row, const PositionBias& bias, float scale,
                   const Head<Kind>& space, Add&& add, Out&& out) {
  const long size = space.size, height = space.columns(packed.last - packed.first);
  const Panels<Kind> keys{space.keys, size}, values{space.values, height};
  for (long t = wanted.first; t < wanted.last; t += space.BLOCK) {
    const long rows = std::min(wanted.last - t, space.BLOCK);
    const Range multiplied = mask.multiplied({t, t + rows});
    const long start = std::max(multiplied.first, packed.first);
    const long end = std::min(multiplied.last, packed.first + height), columns = end - start;
    const bool first = whole || start == multiplied.first, last = whole || end == multiplied.last;
    if (columns < 0 || (columns == 0 && !(first && last))) continue;
    const long below = start - packed.first;
    // Copies, which compilers keep in registers.
    float* const scores = space.scores - below;
    multiply(queries + t * stride, stride, rows, keys, size, {below, below + columns},
             [=](long r, long j, Floats x) { store(scores + r * columns + j, x); });
    add(t, rows, Range{start, end}, space.scores);
    Softmax* softmax = space.softmax + t - wanted.first;
    for (long r = 0; r < rows; r++) {
      const Range visible = mask.visible(t + r);
      const float* near = bias.row(bias_row, t + r);
      Softmax so_far = first ? Softmax{} : softmax[r];
      soften(space.scores + r * columns,
             {std::max(visible.first, start) - start, std::min(visible.last, end) - start}, columns,
             scale, near ? near + start : nullptr, so_far, space.weights + r * columns);
      // Without keys the result is zero, as in torch.
      if (last && !so_far.sum) so_far.sum = 1.0f;
      softmax[r] = so_far;
    }
    float* const sums = space.sums + (t - wanted.first) * size;
    multiply(space.weights, columns, rows, values.below(below), columns, {0, size},
             [=](long r, long d, Floats x) {
               float* kept = sums + r * size + d;
               if (!first) x = fma(load(kept), splat(softmax[r].factor), x);
               if (last)
                 out(t + r, d, x / softmax[r].sum);
               else
                 store(kept, x);
             });
  }
}
