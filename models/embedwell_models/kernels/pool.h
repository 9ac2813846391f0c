// Table lookup before the first layer, and pooling after the last one.

#pragma once

#include <cstring>

#include "rows.h"

struct EmbeddingTables {
  const float* tokens;      // (vocabulary, D)
  const float* positions;   // (segments, positions, D), with one row for each position or for all
  int64_t position_stride;  // between the rows of two positions: D, or 0
  int64_t padding_id;       // id of the padding token, which has the first row; -1 for none
  int64_t vocab_size;       // ids from here on are tokens of the second segment
  int64_t num_positions;    // rows of a segment
  double token_scale;       // factor of token vectors
  Norm norm;
};

INLINE void embed(const EmbeddingTables& tables, long id, long row, long width, float eps,
                  float* out) {
  const bool second = id >= tables.vocab_size;
  const float* token = tables.tokens + (second ? id - tables.vocab_size : id) * width;
  const float* segment = tables.positions + (second ? tables.num_positions * width : 0);
  const float* position = segment + row * tables.position_stride;
  const Floats scale = splat(static_cast<float>(tables.token_scale));
  for (long d = 0; d < width; d += W)
    store(out + d, fma(scale, load(token + d), load(position + d)));
  normalise(out, width, tables.norm, eps, out);
}

// The order of POOLINGS in models/embedwell_models/encoder/pooling.py.
enum class Pooling : int64_t { cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken };

// The divisor of a sum over tokens.
INLINE float divisor(Pooling pooling, float count) {
  switch (pooling) {
    case Pooling::mean:
      return count;
    case Pooling::mean_sqrt_len_tokens:
      return std::sqrt(count);
    case Pooling::weightedmean:
      return count * (count + 1) / 2;
    case Pooling::cls:
    case Pooling::max:
    case Pooling::lasttoken:
      break;
  }
  return 1.0f;
}

// Pools some columns of rows (length, D) to `out` (D,), which is zero without rows.
INLINE void pool(const float* rows, long length, long width, Range columns, Pooling pooling,
                 float* out) {
  const long bytes = (columns.last - columns.first) * static_cast<long>(sizeof(float));
  if (length == 0) {
    std::memset(out + columns.first, 0, bytes);
    return;
  }
  const float* first = pooling == Pooling::lasttoken ? rows + (length - 1) * width : rows;
  std::memcpy(out + columns.first, first + columns.first, bytes);
  if (pooling == Pooling::cls || pooling == Pooling::lasttoken) return;
  for (long t = 1; t < length; t++) {
    const float weight = pooling == Pooling::weightedmean ? static_cast<float>(t + 1) : 1.0f;
    for (long d = columns.first; d < columns.last; d += W) {
      const Floats x = load(rows + t * width + d), y = load(out + d);
      if (pooling == Pooling::max)
        store(out + d, x == x ? larger(x, y) : x);  // keeps NaN
      else
        store(out + d, fma(splat(weight), x, y));
    }
  }
  const float scale = divisor(pooling, static_cast<float>(length));
  for (long d = columns.first; d < columns.last; d += W) store(out + d, load(out + d) / scale);
}
