// Rows of activations: operands of each precision, normalisation and quantisation.

#pragma once

#include <vector>

#include "multiply.h"

struct Norm {  // a null norm leaves a row unchanged
  const float *weight, *bias;
  int64_t subtract_mean;
  int64_t padding;  // zeros at the end of a row, which do not count

  explicit operator bool() const { return weight; }
};

struct Matrix {  // (depth, columns), packed
  const void* panels;
  const float* bias;
  Stored stored;
  const int8_t* levels;    // of weights that take four bits each, or null
  const float* scales;     // of each column's 8-bit integers
  const int32_t* sums;     // of each column's 8-bit integers
  const float* smoothing;  // factor of each element of a row before rotation and quantisation
  double* observed;  // (depth + 1,) sums of the rows' fourth powers and number of rows, or null

  template <typename Kind>
  Weights<Kind> read(long depth) const {
    return {static_cast<const char*>(panels), depth, stored, levels};
  }
};

// The left operand of a product: rows, and the mapping of quantised rows to numbers.
template <typename Kind>
struct Rows {
  typename Kind::Operand* data;
  float* scales;
  int32_t* zeros;
};

// Ba et al. 2016, "Layer Normalization", arXiv 1607.06450, and without subtracted mean, Zhang
// and Sennrich 2019, "Root Mean Square Layer Normalization", arXiv 1910.07467. `out` may be x.
INLINE void normalise(const float* x, long width, const Norm& norm, float eps, float* out) {
  if (!norm) {
    if (out != x) std::memcpy(out, x, width * sizeof(float));
    return;
  }
  Floats total{}, squares{};
  if (norm.subtract_mean)
    for (long d = 0; d < width; d += W) total += load(x + d);
  const auto padding = static_cast<float>(norm.padding);
  const auto count = static_cast<float>(width - norm.padding);
  const float mean = sum(total) / count;
  for (long d = 0; d < width; d += W) {
    const Floats centred = load(x + d) - mean;
    squares = fma(centred, centred, squares);
  }
  const float counted = sum(squares) - padding * mean * mean;
  const float scale = 1.0f / std::sqrt(counted / count + eps);
  for (long d = 0; d < width; d += W)
    store(out + d, fma((load(x + d) - mean) * scale, load(norm.weight + d), load(norm.bias + d)));
}

// Adds a row to the statistics that 8-bit integers are calibrated with. Only one thread may do so.
INLINE void observe(const float* x, long width, const Matrix& matrix) {
  if (!matrix.observed) return;
  for (long d = 0; d < width; d++) {
    const double square = static_cast<double>(x[d]) * static_cast<double>(x[d]);
    matrix.observed[d] += square * square;
  }
  matrix.observed[width] += 1;
}

// Converts floats to row `row` of `rows`. In float32 the operands are the floats themselves.
INLINE void prepare(const float* x, long width, const Matrix& matrix, const Rows<Float32>&, long) {
  observe(x, width, matrix);
}

// Converts sums of products to floats, and adds the bias.
template <typename Kind>
INLINE Floats finish(Floats sums, const Matrix& matrix, const Rows<Kind>&, long, long column) {
  return sums + load(matrix.bias + column);
}

#ifdef BFLOAT16_PRODUCTS
INLINE void prepare(const float* x, long width, const Matrix&, const Rows<BFloats>& rows,
                    long row) {
  for (long d = 0; d < width; d += W) store(rows.data + row * width + d, load(x + d));
}
#endif

#ifdef __AMX_TILE__
INLINE void prepare(const float* x, long width, const Matrix& matrix,
                    const Rows<SplitFloat32>& rows, long row) {
  observe(x, width, matrix);
  split_row(x, width, rows.data + row * width);
}
#endif

// The Walsh-Hadamard transform of each four neighbours.
INLINE Floats mix_fours(Floats x) {
  const Ints lane = lanes();
  x = fma(x, (lane & 1) == 0 ? splat(1.0f) : splat(-1.0f), exchange<1>(x));
  return fma(x, (lane & 2) == 0 ? splat(1.0f) : splat(-1.0f), exchange<2>(x));
}

// Spreads large numbers of a row, so that fewer of the 8 bits are for them alone (QuaRot, Ashkboos
// et al. 2024, arXiv 2404.00456): with fours mixed already, the transform over units of 16 numbers,
// in the longest parts of a power of two of units that fill the row. quantization.py rotates the
// weights.
INLINE void rotate(float* x, long width) {
  const long units = width / PANEL, end = (units & -units) * PANEL;
  long gap = PANEL;
  for (; 2 * gap < end; gap *= 4)  // two steps at once
    for (long first = 0; first < width; first += 4 * gap)
      for (float* p = x + first; p < x + first + gap; p += W) {
        const Floats a = load(p), b = load(p + gap), c = load(p + 2 * gap), d = load(p + 3 * gap);
        const Floats e = a + b, f = a - b, g = c + d, h = c - d;
        store(p, e + g);
        store(p + gap, f + h);
        store(p + 2 * gap, e - g);
        store(p + 3 * gap, f - h);
      }
  for (long first = 0; gap < end && first < width; first += 2 * gap)
    for (float* p = x + first; p < x + first + gap; p += W) {
      const Floats a = load(p), b = load(p + gap);
      store(p, a + b);
      store(p + gap, a - b);
    }
}

// Memory of the calling thread for a row.
inline float* own_row(long width) {
  static thread_local std::vector<float> row;
  if (static_cast<long>(row.size()) < width) row.resize(width);
  return row.data();
}

// Asymmetric quantisation of each token: from the minimum of the row to its maximum, zero included.
// NaN or infinity in a row makes all its results NaN.
INLINE void prepare(const float* x, long width, const Matrix& matrix, const Rows<Int8>& rows,
                    long row) {
  float* rotated = own_row(width);
  for (long d = 0; d < width; d += W)
    store(rotated + d, mix_fours(load(x + d) * load(matrix.smoothing + d)));
  rotate(rotated, width);
  Floats least{}, most{}, faults{};
  for (long d = 0; d < width; d += W) {
    const Floats y = load(rotated + d);
    faults = fma(y, splat(0.0f), faults);
    least = smaller(least, y);
    most = larger(most, y);
  }
  const float low = smallest(least), range = largest(most) - low;
  const float scale = range > 1e-30f ? range / 255.0f : 1e-30f, inverse = 1.0f / scale;
  const float zero = std::nearbyint(-low * inverse);
  for (long d = 0; d < width; d += W)
    store(rows.data + row * width + d, fma(load(rotated + d), splat(inverse), splat(zero)));
  rows.scales[row] = scale + sum(faults);
  rows.zeros[row] = static_cast<int32_t>(zero) - BYTE_SHIFT;
}

INLINE Floats finish(Ints sums, const Matrix& matrix, const Rows<Int8>& rows, long row,
                     long column) {
  const Ints centred = sums - rows.zeros[row] * load_ints(matrix.sums + column);
  const Floats scale = load(matrix.scales + column) * rows.scales[row];
  return fma(__builtin_convertvector(centred, Floats), scale, load(matrix.bias + column));
}
