// Products in the registers of ARM64. One step of the innermost loop takes four groups of each row
// of a times four 64-byte lines of b.

#pragma once

#include "unpacking.h"

template <int lane>
INLINE Floats dot(Float32, Floats sums, Ints columns, Ints row) {
  return dot_floats<lane>(sums, columns, row);
}
#ifdef INT8_PRODUCTS
template <int lane>
INLINE Ints dot(Int8, Ints sums, Ints columns, Ints row) {
  return dot_bytes<lane>(sums, columns, row);
}
#endif
#ifdef MATRIX_PRODUCTS
INLINE Floats multiply(BFloats, Floats sums, Ints rows, Ints columns) {
  return multiply_bfloats(sums, rows, columns);
}
INLINE Ints multiply(Int8, Ints sums, Ints rows, Ints columns) {
  return multiply_bytes(sums, rows, columns);
}
#endif

// Calls step with each of some numbers, as constants.
template <typename Step, int... number>
INLINE void with_each(std::integer_sequence<int, number...>, Step&& step) {
  (step(std::integral_constant<int, number>{}), ...);
}

// The first and the last halves of two vectors, and their lanes by turns.
template <typename Vector>
INLINE Vector first_halves(Vector a, Vector b) {
  return shuffle(a, b, std::integer_sequence<int, 0, 1, 4, 5>{});
}
template <typename Vector>
INLINE Vector last_halves(Vector a, Vector b) {
  return shuffle(a, b, std::integer_sequence<int, 2, 3, 6, 7>{});
}
INLINE Ints first_by_turns(Ints a, Ints b) {
  return shuffle(a, b, std::integer_sequence<int, 0, 4, 1, 5>{});
}
INLINE Ints last_by_turns(Ints a, Ints b) {
  return shuffle(a, b, std::integer_sequence<int, 2, 6, 3, 7>{});
}

// The product of R rows and V vectors of columns, in registers.
template <typename Kind, int R, int V>
class DotTile {
 public:
  INLINE void add(const char* a, long bytes, const char* lines) {
    Ints rows[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) rows[r] = load_ints(a + r * bytes);
    with_each(Numbers{}, [&](auto lane) __attribute__((always_inline)) {
      Ints columns[V];
#pragma GCC unroll 4
      for (int j = 0; j < V; j++) columns[j] = load_ints(lines + 64 * lane + 16 * j);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int j = 0; j < V; j++)
          sums_[r][j] = dot<decltype(lane)::value>(Kind{}, sums_[r][j], columns[j], rows[r]);
    });
  }
  template <typename Done>
  INLINE void finish(Done&& done) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
      for (int j = 0; j < V; j++) done(r, j * W, sums_[r][j]);
  }

 private:
  typename Kind::Sums sums_[R][V] = {};
};

#ifdef MATRIX_PRODUCTS
// The same, of which every vector of sums holds two rows of two columns.
template <typename Kind, int R, int V>
class MatrixTile {
 public:
  INLINE void add(const char* a, long bytes, const char* lines) {
    Ints rows[2][R / 2];
#pragma GCC unroll 4
    for (int r = 0; r < R / 2; r++) {
      const Ints above = load_ints(a + 2 * r * bytes), below = load_ints(a + (2 * r + 1) * bytes);
      rows[0][r] = first_halves(above, below);
      rows[1][r] = last_halves(above, below);
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++, lines += 128) {
      Ints columns[2 * V];
#pragma GCC unroll 4
      for (int j = 0; j < V; j++) {
        const Ints first = load_ints(lines + 16 * j), second = load_ints(lines + 64 + 16 * j);
        columns[2 * j] = first_by_turns(first, second);
        columns[2 * j + 1] = last_by_turns(first, second);
      }
#pragma GCC unroll 4
      for (int r = 0; r < R / 2; r++)
#pragma GCC unroll 8
        for (int j = 0; j < 2 * V; j++)
          sums_[r][j] = multiply(Kind{}, sums_[r][j], rows[half][r], columns[j]);
    }
  }
  template <typename Done>
  INLINE void finish(Done&& done) const {
#pragma GCC unroll 4
    for (int r = 0; r < R / 2; r++)
#pragma GCC unroll 4
      for (int j = 0; j < V; j++) {
        done(2 * r, j * W, first_halves(sums_[r][2 * j], sums_[r][2 * j + 1]));
        done(2 * r + 1, j * W, last_halves(sums_[r][2 * j], sums_[r][2 * j + 1]));
      }
  }

 private:
  typename Kind::Sums sums_[R / 2][2 * V] = {};
};
template <typename Kind, int R, int V>
using Tile = std::conditional_t<(Kind::group > 1), MatrixTile<Kind, R, V>, DotTile<Kind, R, V>>;
#else
template <typename Kind, int R, int V>
using Tile = DotTile<Kind, R, V>;
#endif

template <typename Kind, int R, int V, typename Done>
INLINE void tile(const char* a, long bytes, const char* lines, long groups, Prefetch& ahead,
                 Done&& done) {
  Tile<Kind, R, V> sums;
  for (long start = 0; start < groups; start += STEP) {
    ahead.fetch();
    for (long k = start; k < start + STEP; k += 4, a += 16, lines += 256) sums.add(a, bytes, lines);
  }
  sums.finish(done);
}

// Up to ROWS rows times a panel: a few with all its columns, more with one half after the other.
template <typename Kind, int R, typename Done>
INLINE void fitting(long rows, const char* a, long bytes, const char* lines, long groups,
                    Prefetch& ahead, Done&& done) {
  if constexpr (R > 2) {
    if (rows <= R - 2) return fitting<Kind, R - 2>(rows, a, bytes, lines, groups, ahead, done);
  }
  if constexpr (R <= 4)
    tile<Kind, R, 4>(a, bytes, lines, groups, ahead, done);
  else
    for (long half = 0; half < PANEL; half += PANEL / 2)
      tile<Kind, R, 2>(a, bytes, lines + 4 * half, groups, ahead,
                       [&](long r, long j, typename Kind::Sums sums)
                           __attribute__((always_inline)) { done(r, half + j, sums); });
}

// Copies the first rows of a panel.
template <typename Half>
Panels<Float32> widen(const Weights<Float32>& b, long depth) {
  auto* const copy = reinterpret_cast<float*>(own_lines(depth * PANEL / 16));
  const auto* in = reinterpret_cast<const Half*>(b.lines());
  for (long i = 0; i < depth * PANEL; i += W) store(copy + i, load(in + i));
  return {copy, depth};
}

template <typename B>
INLINE Panels<typename B::Kind> panel_of(const B& b, long depth) {
  if constexpr (std::is_same_v<B, Weights<Float32>>) {
    if (b.stored == Stored::BFLOAT16) return widen<BFloat16>(b, depth);
    if (b.stored == Stored::FLOAT16) return widen<Float16>(b, depth);
  }
  return unpacked(b, depth, PANEL);
}

template <typename B, typename Done>
INLINE void vector_multiply(const typename B::Kind::Operand* a, long stride, long rows, const B& b,
                            long depth, Range columns, Done&& done) {
  using Kind = typename B::Kind;
  const long blocks = (rows + ROWS - 1) / ROWS, step = ((rows + blocks - 1) / blocks + 1) / 2 * 2;
  const long groups = depth / Kind::group, steps = groups / STEP * (step > 4 ? 2 : 1);
  const long bytes = stride * static_cast<long>(sizeof(*a));
  for (long column = columns.first; column < columns.last; column += PANEL) {
    const auto stored = b.after(column);
    Prefetch ahead(stored.lines(), stored.bytes(), blocks, steps);
    const auto panel = panel_of(stored, depth);
    for (long row = 0; row < rows; row += step) {
      const long left = rows - row < step ? rows - row : step;
      fitting<Kind, ROWS>(
          left, reinterpret_cast<const char*>(a + row * stride), bytes, panel.lines(), groups,
          ahead, [&](long r, long j, typename Kind::Sums sums) __attribute__((always_inline)) {
            if (r < left) done(row + r, column + j, sums);
          });
    }
  }
}
