// Products in the vector registers of x86-64. One step of the innermost loop takes one group of
// each row of a times one 64-byte line of b.

#pragma once

#include <algorithm>

#include "unpacking.h"

INLINE Floats dot(Float32, Floats sums, Ints a, Ints b) { return fma((Floats)a, (Floats)b, sums); }
#ifdef BFLOAT16_PRODUCTS
INLINE Floats dot(BFloats, Floats sums, Ints a, Ints b) { return dot_bfloats(sums, a, b); }
#endif
INLINE Ints dot(Int8, Ints sums, Ints a, Ints b) { return dot_bytes(sums, a, b); }

// The lines of two vectors of columns, one after the other.
template <typename Kind>
class Lines {
 public:
  explicit Lines(const Panels<Kind>& b)
      : line_(b.lines()), second_(W == PANEL ? b.bytes() : 4 * W) {}

  INLINE Ints columns(int j) const { return load_ints(line_ + j * second_); }
  INLINE void advance() { line_ += 64; }

 private:
  const char* line_;
  const long second_;  // offset of the second vector
};

// The same, of floats that are stored in 16 bits. Each line is copied for the blocks of rows that
// follow; without such blocks, over the line before it.
class WidenedLines {
 public:
  WidenedLines(const Weights<Float32>& b, float* copy, bool reread)
      : line_(b.lines()),
        copy_(copy),
        second_(W == PANEL ? b.bytes() : 2 * W),
        second_copy_(reread && W == PANEL ? b.height * PANEL : W),
        step_(reread ? PANEL : 0),
        bfloats_(b.stored == Stored::BFLOAT16) {}

  INLINE Ints columns(int j) const {
    const char* p = line_ + j * second_;
    const Floats x = bfloats_ ? load(reinterpret_cast<const BFloat16*>(p))
                              : load(reinterpret_cast<const Float16*>(p));
    store(copy_ + j * second_copy_, x);
    return (Ints)x;
  }
  INLINE void advance() {
    line_ += 2 * PANEL;
    copy_ += step_;
  }

 private:
  const char* line_;
  float* copy_;
  const long second_, second_copy_, step_;
  const bool bfloats_;
};

// The product of R rows and two vectors of columns, in registers.
template <typename Kind, int R, typename Source, typename Done>
INLINE void tile(const typename Kind::Operand* a, long stride, Source lines, long depth,
                 Prefetch& ahead, Done&& done) {
  // One pointer serves three rows, by the address arithmetic of the processor.
  const char* base[(R + 2) / 3];
  const long bytes = stride * static_cast<long>(sizeof(*a));
  for (int i = 0; i < (R + 2) / 3; i++) base[i] = reinterpret_cast<const char*>(a) + 3 * i * bytes;
  typename Kind::Sums held[R][2] = {};
  for (long start = 0; start < depth / Kind::group; start += STEP) {
    ahead.fetch();
    for (long k = start; k < start + STEP; k++, lines.advance()) {
      Ints columns[2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; j++) columns[j] = lines.columns(j);
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
template <typename Kind, int R, typename Source, typename Done>
INLINE void fitting(long rows, const typename Kind::Operand* a, long stride, const Source& lines,
                    long depth, Prefetch& ahead, Done&& done) {
  if constexpr (R > 2) {
    if (rows <= R - 2) return fitting<Kind, R - 2>(rows, a, stride, lines, depth, ahead, done);
  }
  tile<Kind, R>(a, stride, lines, depth, ahead, done);
}

// Multiplies a block of rows by floats that are stored in 16 bits; returns their copy, which has
// all lines if `reread`. Apart, because it would double the code of every product.
APART inline Panels<Float32> widen_and_multiply(const float* a, long stride, long rows,
                                                const Weights<Float32>& b, long depth, bool reread,
                                                Prefetch& ahead, Floats (*sums)[2]) {
  auto* const copy = reinterpret_cast<float*>(own_lines(2 * W * (reread ? depth : 1) / 16));
  fitting<Float32, ROWS>(rows, a, stride, WidenedLines(b, copy, reread), depth, ahead,
                         [&](long r, long j, Floats x) { sums[r][j / W] = x; });
  return {copy, depth};
}

template <typename B, typename Done>
INLINE void vector_multiply(const typename B::Kind::Operand* a, long stride, long rows, const B& b,
                            long depth, Range columns, Done&& done) {
  using Kind = typename B::Kind;
  const long blocks = (rows + ROWS - 1) / ROWS, step = ((rows + blocks - 1) / blocks + 1) / 2 * 2;
  const long steps = depth / Kind::group / STEP;
  for (long column = columns.first; column < columns.last; column += 2 * W) {
    const auto stored = b.after(column);
    Prefetch ahead(stored.lines(), 2 * W * stored.bytes() / PANEL, blocks, steps);
    auto panels = unpacked(stored, depth, 2 * W);
    long row = 0;
    if constexpr (std::is_same_v<B, Weights<Float32>>) {
      if (b.stored != Stored::WHOLE) {
        Floats sums[ROWS][2];
        const long first = std::min(step, rows);
        panels = widen_and_multiply(a, stride, first, stored, depth, rows > step, ahead, sums);
        for (; row < first; row++)
          for (long j = 0; j < 2; j++) done(row, column + j * W, sums[row][j]);
      }
    }
    for (; row < rows; row += step) {
      const long left = rows - row < step ? rows - row : step;
      fitting<Kind, ROWS>(left, a + row * stride, stride, Lines(panels), depth, ahead,
                          [&](long r, long j, typename Kind::Sums sums) {
                            if (r < left) done(row + r, column + j, sums);
                          });
    }
  }
}
