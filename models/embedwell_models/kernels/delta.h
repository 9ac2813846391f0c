// Gated DeltaNet, a linear attention in place of attention (Yang et al. 2024, arXiv 2412.06464).
// The memory S (Dk, Dv) of a head is multiplied by a decay for each token, then
// S += k (strength (v - S^T k))^T, and the result is S^T q.

#pragma once

#include <algorithm>
#include <cmath>

#include "rows.h"

struct DeltaHeads {
  int64_t count, key_count;  // H, heads of queries and keys, each shared by several heads of values
  int64_t size, key_size;    // Dv, Dk

  long width() const { return count * size; }  // of the results
  long keys() const { return key_count * key_size; }
  // Of a row: queries, keys and values; then the gates of the results, strengths and decays.
  long convolved() const { return 2 * keys() + width(); }
  long row_width() const {
    return (convolved() + width() + 2 * count + COLUMNS - 1) / COLUMNS * COLUMNS;
  }
};

struct DeltaNet {
  const float* convolution;  // (tokens, convolved features), in the order of the tokens
  const float* rates;        // (H,) of the decays, below zero
  int64_t tokens;            // a token and those before it; 0 for no such layer
  DeltaHeads heads;
  Norm norm;  // of the results of a head

  explicit operator bool() const { return tokens; }
};

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
// log(1 + e^x)
inline float softplus(float x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }

// Multiplies a query or key by a factor, after its length became 1.
INLINE void scale_to(float factor, float* x, long size) {
  Floats squares{};
  for (long d = 0; d < size; d += W) squares = fma(load(x + d), load(x + d), squares);
  factor /= std::sqrt(sum(squares) + 1e-6f);
  for (long d = 0; d < size; d += W) store(x + d, load(x + d) * factor);
}

// Working memory of a thread: the memory of a head, by blocks of COLUMNS values, and a few tokens,
// which read and change one block after another while the cache of the core holds it.
struct DeltaMemory {
  static constexpr long TOKENS = 8;
  float *memory, *queries, *keys, *values;  // the last three: (TOKENS, Dk or Dv)
  float decays[TOKENS], strengths[TOKENS];

  template <typename Arena>
  DeltaMemory(Arena& arena, const DeltaHeads& heads)
      : memory(arena.template take<float>(heads.key_size * heads.size)),
        queries(arena.template take<float>(TOKENS * heads.key_size)),
        keys(arena.template take<float>(TOKENS * heads.key_size)),
        values(arena.template take<float>(TOKENS * heads.size)) {}
};

// A head of a sequence, whose rows are as DeltaHeads states.
template <typename Value>
class DeltaHead {
 public:
  DeltaHead(const DeltaNet& net, long head, const Value* rows, const DeltaMemory& space)
      : net_(net), heads_(net.heads), head_(head), rows_(rows), space_(space) {
    std::fill_n(space_.memory, heads_.key_size * heads_.size, 0.0f);
  }

  // Calls done with each row below `end` and its result, which is normalised and gated.
  template <typename Done>
  void run(long end, float eps, Done&& done) {
    for (long first = 0; first < end; first += DeltaMemory::TOKENS) {
      const long count = std::min(end - first, DeltaMemory::TOKENS);
      for (long i = 0; i < count; i++) read_token(first + i, i);
      for (long column = 0; column < heads_.size; column += COLUMNS)
        for (long i = 0; i < count; i++) update(column, i);
      for (long i = 0; i < count; i++) {
        float* result = space_.values + i * heads_.size;
        normalise(result, heads_.size, net_.norm, eps, result);
        gate(row(first + i), result);
        done(first + i, result);
      }
    }
  }

 private:
  static constexpr long VECTORS = COLUMNS / W, SUMS = VECTORS < 8 ? 8 / VECTORS : 1;

  const Value* row(long index) const { return rows_ + index * heads_.row_width(); }

  void read_token(long index, long i) {
    const long size = heads_.key_size, key = head_ * heads_.key_count / heads_.count * size;
    float *query = space_.queries + i * size, *own_key = space_.keys + i * size;
    convolve(index, key, size, query);
    convolve(index, heads_.keys() + key, size, own_key);
    convolve(index, 2 * heads_.keys() + head_ * heads_.size, heads_.size,
             space_.values + i * heads_.size);
    scale_to(1.0f / std::sqrt(static_cast<float>(size)), query, size);
    scale_to(1.0f, own_key, size);
    const Value* others = row(index) + heads_.convolved() + heads_.width();
    space_.strengths[i] = sigmoid(number(others + head_));
    space_.decays[i] =
        std::exp(net_.rates[head_] * softplus(number(others + heads_.count + head_)));
  }

  static float number(const float* x) { return *x; }
  static float number(const BFloat16* x) {
    const uint32_t bits = static_cast<uint32_t>(x->bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  INLINE void convolve(long index, long column, long count, float* out) const {
    const long first = std::max<long>(net_.tokens - 1 - index, 0);
    for (long d = column; d < column + count; d += W) {
      Floats total{};
      for (long k = first; k < net_.tokens; k++)
        total = fma(load(row(index - net_.tokens + 1 + k) + d),
                    load(net_.convolution + k * heads_.convolved() + d), total);
      store(out + d - column, activate<true>(total, Activation::silu));
    }
  }

  // Replaces COLUMNS values of a token by what it reads, after it changed the memory.
  INLINE void update(long column, long i) {
    const long size = heads_.key_size;
    const float *query = space_.queries + i * size, *key = space_.keys + i * size;
    float *value = space_.values + i * heads_.size + column, *block = space_.memory + column * size;
    const float decay = space_.decays[i];
    Floats sums[SUMS][VECTORS] = {}, change[VECTORS], results[SUMS][VECTORS] = {};
    for (long d = 0; d < size; d += SUMS)
#pragma GCC unroll 8
      for (long s = 0; s < SUMS; s++)
#pragma GCC unroll 8
        for (long j = 0; j < VECTORS; j++)
          sums[s][j] = fma(load(block + (d + s) * COLUMNS + j * W), splat(key[d + s]), sums[s][j]);
    for (long j = 0; j < VECTORS; j++)
      change[j] = fma(total(sums, j), splat(-decay), load(value + j * W)) * space_.strengths[i];
    for (long d = 0; d < size; d += SUMS)
#pragma GCC unroll 8
      for (long s = 0; s < SUMS; s++)
#pragma GCC unroll 8
        for (long j = 0; j < VECTORS; j++) {
          float* place = block + (d + s) * COLUMNS + j * W;
          const Floats changed = fma(change[j], splat(key[d + s]), load(place) * decay);
          store(place, changed);
          results[s][j] = fma(changed, splat(query[d + s]), results[s][j]);
        }
    for (long j = 0; j < VECTORS; j++) store(value + j * W, total(results, j));
  }

  static INLINE Floats total(const Floats (&sums)[SUMS][VECTORS], long j) {
    Floats all = sums[0][j];
    for (long s = 1; s < SUMS; s++) all += sums[s][j];
    return all;
  }

  INLINE void gate(const Value* row, float* result) const {
    const Value* gates = row + heads_.convolved() + head_ * heads_.size;
    for (long d = 0; d < heads_.size; d += W)
      store(result + d, load(result + d) * activate<true>(load(gates + d), Activation::silu));
  }

  const DeltaNet& net_;
  const DeltaHeads& heads_;
  const long head_;
  const Value* rows_;
  DeltaMemory space_;
};
