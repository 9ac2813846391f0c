// Matrix products, a (rows, depth) times b (depth, columns), by precision and instruction set.
//
// b is packed in panels of 16 columns: (columns / 16, depth / group, 16, group), where a group is
// as many elements of one column as make 32 bits. One step of the innermost loop takes one group of
// each row of a times one 64-byte line of b. Every element of the result is summed in an order that
// does not depend on the number of rows.
//
// done(row, column, sums) is called once for each row and each vector of columns.

#pragma once

#include <cstring>

#include "vector.h"

struct Float32 {
  using Operand = float;
  using Weight = float;
  using Sums = Floats;
  static constexpr long group = 1;
  static constexpr bool exact = true;
  static INLINE Sums dot(Sums sums, Ints a, Ints b) { return fma((Floats)a, (Floats)b, sums); }
};

#ifdef __AVX512BF16__
struct BFloats {
  using Operand = BFloat16;
  using Weight = BFloat16;
  using Sums = Floats;
  static constexpr long group = 2;
  static constexpr bool exact = false;
  static INLINE Sums dot(Sums sums, Ints a, Ints b) {
    return (Floats)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
  }
};
#endif

#ifdef __AVX512VNNI__
struct Int8 {
  using Operand = uint8_t;
  using Weight = int8_t;
  using Sums = Ints;
  static constexpr long group = 4;
  static constexpr bool exact = false;
  static INLINE Sums dot(Sums sums, Ints a, Ints b) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
  }
};
#endif

#ifdef __AVX512F__
constexpr int ROWS = 14;  // with two vectors to a row, 28 of 32 registers hold sums
#else
constexpr int ROWS = 6;  // 12 of 16
#endif
#ifdef __AMX_TILE__
constexpr long TILE_ROWS = 32;  // rows of a product that are computed together, or a few such
#else
constexpr long TILE_ROWS = 28;
#endif
constexpr long PANEL = 16;    // columns
constexpr long COLUMNS = 32;  // columns are multiples of this, depths of 64 bytes
constexpr long SLACK = 32;    // rows after the last one of a that may be read, and are not used

template <typename Kind>
constexpr long panel(long depth) {  // bytes
  return depth * PANEL * static_cast<long>(sizeof(typename Kind::Weight));
}

// R rows times two vectors of columns, in registers.
template <typename Kind, int R, typename Done>
INLINE void tile(const typename Kind::Operand* a, long stride, const typename Kind::Weight* b,
                 long depth, Done&& done) {
  // Three rows to a pointer: the others are reached by the processor's own address arithmetic.
  const char* base[(R + 2) / 3];
  const long bytes = stride * static_cast<long>(sizeof(*a));
  for (int i = 0; i < (R + 2) / 3; i++) base[i] = reinterpret_cast<const char*>(a) + 3 * i * bytes;
  const auto* line = reinterpret_cast<const char*>(b);
  const long second = W == PANEL ? panel<Kind>(depth) : 4 * W;  // where the second vector is
  typename Kind::Sums held[R][2] = {};
  for (long k = 0; k < depth / Kind::group; k++, line += 64) {
    Ints columns[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) columns[j] = load_ints(line + j * second);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      int32_t four;
      std::memcpy(&four, base[r / 3] + (r % 3) * bytes + 4 * k, 4);
      const Ints row = Ints{} + four;
#pragma GCC unroll 2
      for (int j = 0; j < 2; j++) held[r][j] = Kind::dot(held[r][j], row, columns[j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) done(r, j * W, held[r][j]);
}

// The smallest tile of an even number of rows that holds `rows`.
template <typename Kind, int R, typename Done>
INLINE void fitting(long rows, const typename Kind::Operand* a, long stride,
                    const typename Kind::Weight* b, long depth, Done&& done) {
  if constexpr (R > 2) {
    if (rows <= R - 2) return fitting<Kind, R - 2>(rows, a, stride, b, depth, done);
  }
  tile<Kind, R>(a, stride, b, depth, done);
}

template <typename Kind, typename Done>
INLINE void vector_multiply(const typename Kind::Operand* a, long stride, long rows,
                            const typename Kind::Weight* b, long depth, long first, long last,
                            Done&& done) {
  const long blocks = (rows + ROWS - 1) / ROWS, step = ((rows + blocks - 1) / blocks + 1) / 2 * 2;
  for (long column = first; column < last; column += 2 * W)
    for (long row = 0; row < rows; row += step) {
      const long left = rows - row;
      fitting<Kind, ROWS>(step, a + row * stride, stride, b + column * depth, depth,
                          [&](long r, long j, typename Kind::Sums sums) {
                            if (r < left) done(row + r, column + j, sums);
                          });
    }
}

#ifdef __AMX_TILE__
// The matrix unit: tiles of 16 rows of 64 bytes. Sums of 32 rows and 32 columns are tiles 0 to 3.

struct Tiles {  // configures the unit for this thread as long as it lives
  Tiles() {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    _tile_loadconfig(&shape);
  }
  ~Tiles() { _tile_release(); }
};

#define TILE_STEP(instruction, two)                 \
  do {                                              \
    _tile_loadd(6, b, 64);                          \
    _tile_loadd(7, b + next, 64);                   \
    _tile_loadd(4, a, stride);                      \
    instruction(0, 4, 6);                           \
    instruction(1, 4, 7);                           \
    if constexpr (two) {                            \
      _tile_loadd(5, a + 16 * stride, stride);      \
      instruction(2, 5, 6);                         \
      instruction(3, 5, 7);                         \
    }                                               \
  } while (0)

template <typename Kind, bool two>
INLINE void matrix_tile(const char* a, long stride, const char* b, long depth, void* sums) {
  const long next = panel<Kind>(depth);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (long k = 0; k < depth * static_cast<long>(sizeof(typename Kind::Operand)); k += 64) {
    if constexpr (Kind::group == 4)
      TILE_STEP(_tile_dpbusd, two);
    else
      TILE_STEP(_tile_dpbf16ps, two);
    a += 64;
    b += 1024;
  }
  char* out = static_cast<char*>(sums);
  _tile_stored(0, out, 128);
  _tile_stored(1, out + 64, 128);
  if constexpr (two) {
    _tile_stored(2, out + 2048, 128);
    _tile_stored(3, out + 2048 + 64, 128);
  }
}

template <typename Kind, typename Done>
INLINE void matrix_multiply(const typename Kind::Operand* a, long stride, long rows,
                     const typename Kind::Weight* b, long depth, long first, long last,
                     Done&& done) {
  alignas(64) typename Kind::Sums sums[32][2];
  const long bytes = stride * static_cast<long>(sizeof(*a));
  for (long column = first; column < last; column += 32)
    for (long row = 0; row < rows; row += 32) {
      const auto* from = reinterpret_cast<const char*>(a + row * stride);
      const auto* panels = reinterpret_cast<const char*>(b + column * depth);
      if (rows - row > 16)
        matrix_tile<Kind, true>(from, bytes, panels, depth, sums);
      else
        matrix_tile<Kind, false>(from, bytes, panels, depth, sums);
      for (long r = 0; r < 32 && r < rows - row; r++) {
        done(row + r, column, sums[r][0]);
        done(row + r, column + W, sums[r][1]);
      }
    }
}
#else
struct Tiles {
  Tiles() {}  // not trivial, so that one that is only there for its effect is no unused variable
};
#endif

// Columns first to last of the product, both multiples of COLUMNS.
template <typename Kind, typename Done>
INLINE void multiply(const typename Kind::Operand* a, long stride, long rows,
                     const typename Kind::Weight* b, long depth, long first, long last,
                     Done&& done) {
#ifdef __AMX_TILE__
  if constexpr (Kind::group > 1)
    return matrix_multiply<Kind>(a, stride, rows, b, depth, first, last, done);
#endif
  vector_multiply<Kind>(a, stride, rows, b, depth, first, last, done);
}
