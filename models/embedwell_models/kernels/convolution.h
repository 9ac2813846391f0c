// A gated convolution of a token with its neighbours, in place of attention (LFM2, Amini et al.
// 2025, arXiv 2511.23404).

#pragma once

#include <algorithm>

#include "types.h"
#include "vector.h"

struct Convolution {
  const float* weight;  // (width, D), in the order of the tokens
  const float* bias;    // (D,)
  int64_t width;        // tokens, of which `before` come before the token; 0 for no convolution
  int64_t before;

  explicit operator bool() const { return width; }
};

// The rows of a sequence, each with the gates before and after the convolution, and its input.
template <typename Value>
struct GatedRows {
  Value* rows;         // (length, 3 * D)
  long length, width;  // D

  Value* row(long index) const { return rows + index * 3 * width; }

  // W features of a row after the convolution. Outside the sequence there are zeros.
  INLINE Floats convolve(const Convolution& convolution, long index, long column) const {
    const long start = index - convolution.before;
    const Range inside{std::max(-start, 0L), std::min<long>(length - start, convolution.width)};
    Floats total = load(convolution.bias + column);
    for (long k = inside.first; k < inside.last; k++) {
      const Value* from = row(start + k) + column;
      const Floats gated = load(from) * load(from + 2 * width);
      total = fma(gated, load(convolution.weight + k * width + column), total);
    }
    return total * load(row(index) + width + column);
  }

  // Writes what a row of zeros has, the bias (3 * D,), to rows from `first` on.
  void clear(long first, const float* bias, Range columns) const {
    for (long index = first; index < length; index++)
      for (long start = 0; start < 3 * width; start += width)
        for (long d = start + columns.first; d < start + columns.last; d += W)
          store(row(index) + d, load(bias + d));
  }
};
