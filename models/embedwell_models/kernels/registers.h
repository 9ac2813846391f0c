// Products in the vector registers of x86-64. One step of the innermost loop takes one group of each
// row of a times one 64-byte line of b.

#pragma once

#include "four_bits.h"

INLINE Floats dot(Float32, Floats sums, Ints a, Ints b) {
  return fma((Floats)a, (Floats)b, sums);
}
#ifdef BFLOAT16_PRODUCTS
INLINE Floats dot(BFloats, Floats sums, Ints a, Ints b) { return dot_bfloats(sums, a, b); }
#endif
INLINE Ints dot(Int8, Ints sums, Ints a, Ints b) { return dot_bytes(sums, a, b); }

// The product of R rows and two vectors of columns, in registers.
template <typename Kind, int R, typename Done>
INLINE void tile(const typename Kind::Operand* a, long stride, const Panels<Kind>& b, long depth,
                 Ahead& ahead, Done&& done) {
  // One pointer serves three rows, by the address arithmetic of the processor.
  const char* base[(R + 2) / 3];
  const long bytes = stride * static_cast<long>(sizeof(*a));
  for (int i = 0; i < (R + 2) / 3; i++) base[i] = reinterpret_cast<const char*>(a) + 3 * i * bytes;
  const char* line = b.lines();
  const long second = W == PANEL ? b.bytes() : 4 * W;  // offset of the second vector
  typename Kind::Sums held[R][2] = {};
  for (long start = 0; start < depth / Kind::group; start += STEP) {
    ahead.fetch();
    for (long k = start; k < start + STEP; k++, line += 64) {
      Ints columns[2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; j++) columns[j] = load_ints(line + j * second);
#pragma GCC unroll 16
      for (int r = 0; r < R; r++) {
        int32_t four;
        std::memcpy(&four, base[r / 3] + (r % 3) * bytes + 4 * k, 4);
        const Ints row = Ints{} + four;
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) held[r][j] = dot(Kind{}, held[r][j], row, columns[j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) done(r, j * W, held[r][j]);
}

// The smallest tile of an even number of rows that holds `rows`.
template <typename Kind, int R, typename Done>
INLINE void fitting(long rows, const typename Kind::Operand* a, long stride, const Panels<Kind>& b,
                    long depth, Ahead& ahead, Done&& done) {
  if constexpr (R > 2) {
    if (rows <= R - 2) return fitting<Kind, R - 2>(rows, a, stride, b, depth, ahead, done);
  }
  tile<Kind, R>(a, stride, b, depth, ahead, done);
}

template <typename Kind, typename Done>
INLINE void vector_multiply(const typename Kind::Operand* a, long stride, long rows,
                            const Panels<Kind>& b, long depth, Range columns, Done&& done) {
  const long blocks = (rows + ROWS - 1) / ROWS, step = ((rows + blocks - 1) / blocks + 1) / 2 * 2;
  const long steps = depth / Kind::group / STEP;
  for (long column = columns.first; column < columns.last; column += 2 * W) {
    const auto stored = b.after(column);
    Ahead ahead(stored.lines(), 2 * W * stored.bytes() / PANEL, blocks, steps);
    const auto panels = unpacked(stored, depth, 2 * W);
    for (long row = 0; row < rows; row += step) {
      const long left = rows - row < step ? rows - row : step;
      fitting<Kind, ROWS>(left, a + row * stride, stride, panels, depth, ahead,
                          [&](long r, long j, typename Kind::Sums sums) {
                            if (r < left) done(row + r, column + j, sums);
                          });
    }
  }
}
