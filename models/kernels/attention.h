// Attention of one head within one sequence: softmax(q k^T / sqrt(Dh) + bias) v
// (Vaswani et al. 2017, arXiv 1706.03762).

#pragma once

#include "memory.h"
#include "multiply.h"

// What is added to the scores, and who sees whom.
struct Bias {
  const float* offsets;  // (H, 2 * reach - 1) by key's minus query's position, or null
  int64_t reach;         // the distances that the table has: 0 to reach - 1, both ways
  int64_t causal;        // a query sees no later key
};

// W vectors of W lanes, turned over: lane j of vector i becomes lane i of vector j.
INLINE void transpose(Ints (&rows)[W]) {
#pragma GCC unroll 4
  for (int step = 1; step < W; step *= 2) {
    const Ints upper = (lanes() & step) != 0;  // all ones in lanes that are to be exchanged
    const Ints low = upper ? lanes() + static_cast<int>(W) - step : lanes();
    const Ints high = upper ? lanes() + static_cast<int>(W) : lanes() + step;
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
      if (!(i & step)) {
        const Ints a = rows[i], b = rows[i + step];
        rows[i] = __builtin_shuffle(a, b, low);
        rows[i + step] = __builtin_shuffle(a, b, high);
      }
  }
}

// Keys (length, size) to panels of k^T; columns after the last key are zero.
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

// Values (length, size) to panels; rows after the last one are zero.
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

// e^x as exactly as what it is stored in.
INLINE Floats weigh(Floats x, float*) { return exponential(x); }
INLINE Floats weigh(Floats x, BFloat16*) { return exponential_roughly(x); }

// A row of scores to weights that are not divided by their sum yet; returns the sum.
template <typename Value>
INLINE float soften(float* scores, long seen, long columns, float scale, const float* bias,
                    Value* out) {
  const long end = round_up(seen, W), whole = seen / W * W;
  if (bias) {
    for (long j = 0; j < end; j += W)
      store(scores + j, fma(load(scores + j), splat(scale), load(bias + j)));
    scale = 1.0f;
  }
  // Unseen keys in the last vector weigh e^-87 at most, which a sum of at least 1 does not notice.
  if (whole < end) {
    const Floats x = load(scores + whole);
    store(scores + whole, lanes() < static_cast<int>(seen - whole) ? x : splat(-1e30f));
  }
  Floats peaks = splat(-1e30f), total{};
  for (long j = 0; j < end; j += W) peaks = larger(peaks, load(scores + j));
  const Floats peak = splat(-scale * largest(peaks));
  for (long j = 0; j < end; j += W) {
    const Floats x = weigh(fma(load(scores + j), splat(scale), peak), out);
    store(out + j, x);
    total += x;
  }
  for (long j = end; j < columns; j += W) store(out + j, Floats{});
  return sum(total);
}

// One thread's working space for one head.
template <typename Value>
struct Head {
  Value *keys, *values, *weights;  // (Dh, columns), (depth, Dh), (BLOCK + SLACK, depth)
  float *scores, *sums;            // (BLOCK, columns), (BLOCK,)
  static constexpr long BLOCK = TILE_ROWS;

  static long columns(long length) { return round_up(length, COLUMNS); }

  Head(Arena& arena, long length, long size)
      : keys(arena.take<Value>(columns(length) * size)),
        values(arena.take<Value>(columns(length) * size)),
        weights(arena.take<Value>((BLOCK + SLACK) * columns(length))),
        scores(arena.take<float>(BLOCK * columns(length))),
        sums(arena.take<float>(BLOCK)) {}
};

// q, k and v are D apart in rows of 3 D; out is called with row, column and 16 results.
template <typename Kind, typename Out>
INLINE void attend(const typename Kind::Operand* qkv, long width, long length, long size, long head,
                   const Bias& bias, const Head<typename Kind::Operand>& space, Out&& out) {
  const long stride = 3 * width, columns = round_up(length, COLUMNS);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  pack_keys(qkv + width, stride, length, size, space.keys);
  pack_values(qkv + 2 * width, stride, length, columns, size, space.values);
  for (long t = 0; t < length; t += space.BLOCK) {
    const long rows = length - t < space.BLOCK ? length - t : space.BLOCK;
    multiply<Kind>(qkv + t * stride, stride, rows, space.keys, size, 0, columns,
                   [&](long r, long j, Floats x) { store(space.scores + r * columns + j, x); });
    for (long r = 0; r < rows; r++) {
      const float* near = bias.offsets;
      if (near) near += head * (2 * bias.reach - 1) + bias.reach - 1 - (t + r);
      space.sums[r] = soften(space.scores + r * columns, bias.causal ? t + r + 1 : length, columns,
                             scale, near, space.weights + r * columns);
    }
    multiply<Kind>(space.weights, columns, rows, space.values, columns, 0, size,
                   [&](long r, long d, Floats x) { out(t + r, d, x / space.sums[r]); });
  }
}
