// Float32 in the matrix unit, which multiplies bfloat16. A number is split into a sum of three
// bfloat16 parts. A product is the sum of the products of six pairs of parts, which together reach
// the precision of float32 (Henry et al. 2019, "Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations", arXiv 1904.06376).

#pragma once

#include <atomic>

#include "tiles.h"

constexpr long LINE = 64, TILE = 1024;  // bytes
constexpr long SPLIT_ROWS = 256;        // rows that are multiplied together

// Splits 32 numbers into three lines, `next` bytes apart: the first, the second and the third
// parts. Numbers that are 16 apart are neighbours in a line.
INLINE void split(Floats even, Floats odd, char* out, long next) {
#pragma GCC unroll 3
  for (long part = 0; part < 3; part++, out += next) {
    const Words low = (Words)even & 0xFFFF0000, high = (Words)odd & 0xFFFF0000;
    const Words line = low >> 16 | high;
    std::memcpy(out, &line, LINE);
    even -= (Floats)low;  // exact, because a part has 8 of the 24 bits
    odd -= (Floats)high;
  }
}

INLINE void split_row(const float* x, long width, Thirds* row) {
  auto* out = reinterpret_cast<char*>(row);
  for (long d = 0; d < width; d += 32, out += 3 * LINE)
    split(load(x + d), load(x + d + 16), out, LINE);
}

// A stretch: some steps of 32 numbers of two panels; no steps after the last columns.
struct Stretch {
  long column, start, count;
};

// The parts of the current stretch and of the next stretch.
class SplitColumns {
 public:
  static constexpr long MOST = 4;         // steps of a stretch: both fit the first-level cache
  static constexpr long STEP = 6 * TILE;  // bytes: two tiles of each part

  const char* now() const { return parts_[now_]; }
  void swap() {
    // The compiler does not know which memory tile instructions read.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    now_ = 1 - now_;
  }
  // Splits a quarter of a step of the next stretch, for panels that are `next` bytes apart.
  INLINE void split_quarter(const char* lines, long next, long quarter) {
    const long step = quarter / 4, panel = quarter / 2 % 2, half = quarter % 2 * 8 * LINE;
    const char* in = lines + panel * next + step * 32 * LINE + half;
    char* out = parts_[1 - now_] + step * STEP + panel * TILE + half;
#pragma GCC unroll 8
    for (long i = 0; i < 8; i++, in += LINE, out += LINE)
      split((Floats)load_ints(in), (Floats)load_ints(in + 16 * LINE), out, 2 * TILE);
  }

 private:
  alignas(64) char parts_[2][MOST * STEP];
  long now_ = 0;
};

// Multiplies up to SPLIT_ROWS rows. All rows use a stretch before any row uses the next stretch,
// which is split meanwhile.
template <typename Done>
class SplitProduct {
 public:
  SplitProduct(const char* a, long stride, long rows, const Panels<SplitFloat32>& b, long depth,
               Range columns, Done& done)
      : a_(a),
        stride_(stride),
        rows_(rows),
        steps_(depth / 32),
        b_(b),
        columns_(columns),
        behind_(done) {}

  INLINE void run() {
    Stretch now = stretch(columns_.first, 0);
    for (long quarter = 0; quarter < 4 * now.count; quarter++)
      split_.split_quarter(lines(now), b_.bytes(), quarter);
    while (now.count) {
      const Stretch next = after(now);
      split_.swap();
      if (now.start == 0) ahead_ = Prefetch(lines(now), 2 * b_.bytes(), blocks(), 6 * steps_);
      multiply(now, next);
      now = next;
    }
    behind_.finish();
  }

 private:
  bool one() const { return rows_ <= 32; }  // one block, whose sums stay in the unit
  long blocks() const { return (rows_ + 31) / 32; }
  const char* lines(const Stretch& of) const {
    return b_.after(of.column).lines() + of.start * 32 * LINE;
  }
  bool last(const Stretch& of) const { return of.start + of.count == steps_; }
  Stretch after(const Stretch& now) const {
    return last(now) ? stretch(now.column + 32, 0) : stretch(now.column, now.start + now.count);
  }
  Stretch stretch(long column, long start) const {
    const long most = one() ? 1 : SplitColumns::MOST;
    return {column, start, column < columns_.last ? std::min(most, steps_ - start) : 0};
  }

  INLINE void multiply(const Stretch& now, const Stretch& next) {
    const long quarters = 4 * next.count, turns = 6 * now.count * blocks();
    const char* coming = lines(next);
    long quarter = 0, due = 0;
    const auto aside = [&]() __attribute__((always_inline)) {
      ahead_.fetch();
      for (due += quarters; due >= turns; due -= turns)
        split_.split_quarter(coming, b_.bytes(), quarter++);
      behind_.turn();
    };
    for (long row = 0; row < rows_; row += 32) {
      const long rows = std::min(rows_ - row, 32L);
      rows > 16 ? block<true>(now, row, aside) : block<false>(now, row, aside);
      if (last(now))
        behind_.follow(sums_ + row, row, now.column, rows, 6 * (one() ? steps_ : now.count));
    }
  }

  template <bool two, typename Aside>
  INLINE void block(const Stretch& now, long row, Aside&& aside) {
    char* sums = reinterpret_cast<char*>(sums_ + row);
    if (now.start == 0)
      zero_sums();
    else if (!one())
      load_sums<two>(sums);
    const char *a = a_ + row * stride_ + now.start * 3 * LINE, *b = split_.now();
    for (long step = 0; step < now.count; step++, a += 3 * LINE, b += SplitColumns::STEP)
      multiply_step<two>(a, b, aside);
    if (last(now) || !one()) store_sums<two>(sums);
  }

  // The small products come first. Calls aside() six times.
  template <bool two, typename Aside>
  INLINE void multiply_step(const char* a, const char* b, Aside&& aside) {
    const auto multiply = [&]() __attribute__((always_inline)) {
      multiply_tiles<SplitFloat32, two>();
      aside();
    };
    load_rows<two>(a, stride_);
    load_columns(b + 4 * TILE, TILE);
    multiply();
    load_columns(b + 2 * TILE, TILE);
    multiply();
    load_rows<two>(a + LINE, stride_);
    multiply();
    load_columns(b, TILE);
    multiply();
    load_rows<two>(a + 2 * LINE, stride_);
    multiply();
    load_rows<two>(a, stride_);
    multiply();
  }

  const char* a_;
  const long stride_, rows_, steps_;  // stride in bytes
  const Panels<SplitFloat32>& b_;
  const Range columns_;
  Behind<Floats, Done> behind_;
  Prefetch ahead_;
  alignas(64) Floats sums_[SPLIT_ROWS][2];
  SplitColumns split_;
};

template <typename Done>
INLINE void split_multiply(const Thirds* a, long stride, long rows, const Panels<SplitFloat32>& b,
                           long depth, Range columns, Done&& done) {
  for (long row = 0; row < rows; row += SPLIT_ROWS) {
    const auto below = [&](long r, long column, Floats y)
                           __attribute__((always_inline)) { done(row + r, column, y); };
    const auto* from = reinterpret_cast<const char*>(a + row * stride);
    SplitProduct(from, stride * sizeof(Thirds), std::min(rows - row, SPLIT_ROWS), b, depth, columns,
                 below)
        .run();
  }
}
