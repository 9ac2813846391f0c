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

#include "range.h"
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
constexpr long STEP = 8;      // groups of a depth, of which there are a multiple of it
constexpr long COLUMNS = 32;  // columns are multiples of this, depths of 64 bytes
constexpr long SLACK = 32;    // rows after the last one of a that may be read, and are not used

// Packed columns of b. A product may read fewer rows of them than there are, the first ones.
template <typename Kind>
struct Panels {
  const typename Kind::Weight* data;
  long height;  // rows

  long bytes() const { return height * PANEL * static_cast<long>(sizeof(*data)); }  // of a panel
  const char* lines() const { return reinterpret_cast<const char*>(data); }
  Panels after(long columns) const { return {data + columns * height, height}; }
  Panels below(long rows) const { return {data + rows * PANEL, height}; }
};

// The panels after the two that are read, on their way into the second-level cache while these are
// multiplied with every block of rows: some lines at each step.
class Ahead {
 public:
  Ahead(const char* panels, long bytes, long blocks, long steps) : next_(panels + bytes) {
    constexpr long near = 16384;  // so little is there in time anyway
    if (blocks > 1 && bytes > near) lines_ = (bytes / 64 + blocks * steps - 1) / (blocks * steps);
  }
  INLINE void fetch() {
    for (long i = 0; i < lines_; i++, next_ += 64) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const char* next_;
  long lines_ = 0;
};

// R rows times two vectors of columns, in registers.
template <typename Kind, int R, typename Done>
INLINE void tile(const typename Kind::Operand* a, long stride, const Panels<Kind>& b, long depth,
                 Ahead& ahead, Done&& done) {
  // Three rows to a pointer: the others are reached by the processor's own address arithmetic.
  const char* base[(R + 2) / 3];
  const long bytes = stride * static_cast<long>(sizeof(*a));
  for (int i = 0; i < (R + 2) / 3; i++) base[i] = reinterpret_cast<const char*>(a) + 3 * i * bytes;
  const char* line = b.lines();
  const long second = W == PANEL ? b.bytes() : 4 * W;  // where the second vector is
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
        for (int j = 0; j < 2; j++) held[r][j] = Kind::dot(held[r][j], row, columns[j]);
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
    const auto panels = b.after(column);
    Ahead ahead(panels.lines(), 2 * W * panels.bytes() / PANEL, blocks, steps);
    for (long row = 0; row < rows; row += step) {
      const long left = rows - row < step ? rows - row : step;
      fitting<Kind, ROWS>(left, a + row * stride, stride, panels, depth, ahead,
                          [&](long r, long j, typename Kind::Sums sums) {
                            if (r < left) done(row + r, column + j, sums);
                          });
    }
  }
}

#ifdef __AMX_TILE__
// The matrix unit: tiles of 16 rows of 64 bytes. Sums of 32 rows and 32 columns are tiles 0 to 3.

struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// A constant, for the compiler believes that the instruction reads only its first 8 bytes.
constexpr TileShapes SHAPES;

struct Tiles {  // configures the unit for this thread as long as it lives
  Tiles() { _tile_loadconfig(&SHAPES); }
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

// Up to 32 rows times two panels; aside(step) is called at each step.
template <typename Kind, bool two, typename Aside>
INLINE void matrix_tile(const char* a, long stride, const Panels<Kind>& panels, long depth,
                        void* sums, Aside&& aside) {
  const char* b = panels.lines();
  const long next = panels.bytes();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (long step = 0; step < depth / Kind::group / 16; step++) {
    if constexpr (Kind::group == 4)
      TILE_STEP(_tile_dpbusd, two);
    else
      TILE_STEP(_tile_dpbf16ps, two);
    a += 64;
    b += 1024;
    aside(step);
  }
  char* out = static_cast<char*>(sums);
  _tile_stored(0, out, 128);
  _tile_stored(1, out + 64, 128);
  if constexpr (two) {
    _tile_stored(2, out + 2048, 128);
    _tile_stored(3, out + 2048 + 64, 128);
  }
}

// While the unit multiplies a block, the rest of the processor finishes the one before.
template <typename Kind, typename Done>
INLINE void matrix_multiply(const typename Kind::Operand* a, long stride, long rows,
                            const Panels<Kind>& b, long depth, Range columns, Done&& done) {
  alignas(64) typename Kind::Sums sums[2][32][2];
  const long steps = depth / Kind::group / 16, blocks = (rows + 31) / 32;
  const long bytes = stride * static_cast<long>(sizeof(*a));
  long now = 0, old_row = 0, old_column = 0, old_rows = 0;
  const auto finish = [&](long from, long to) __attribute__((always_inline)) {
    for (long r = from; r < to && r < old_rows; r++) {
      done(old_row + r, old_column, sums[1 - now][r][0]);
      done(old_row + r, old_column + W, sums[1 - now][r][1]);
    }
  };
  for (long column = columns.first; column < columns.last; column += 32) {
    const auto panels = b.after(column);
    Ahead ahead(panels.lines(), 2 * panels.bytes(), blocks, steps);
    for (long row = 0; row < rows; row += 32, now = 1 - now) {
      const auto* from = reinterpret_cast<const char*>(a + row * stride);
      const long share = (old_rows + steps - 1) / steps;
      const auto aside = [&](long step) __attribute__((always_inline)) {
        ahead.fetch();
        finish(step * share, (step + 1) * share);
      };
      if (rows - row > 16)
        matrix_tile<Kind, true>(from, bytes, panels, depth, sums[now], aside);
      else
        matrix_tile<Kind, false>(from, bytes, panels, depth, sums[now], aside);
      old_row = row, old_column = column, old_rows = rows - row < 32 ? rows - row : 32;
    }
  }
  finish(0, 32);
}
#else
struct Tiles {
  Tiles() {}  // not trivial, so that one that is only there for its effect is no unused variable
};
#endif

// Some columns of the product, from and to multiples of COLUMNS.
template <typename Kind, typename Done>
INLINE void multiply(const typename Kind::Operand* a, long stride, long rows, const Panels<Kind>& b,
                     long depth, Range columns, Done&& done) {
#ifdef __AMX_TILE__
  if constexpr (Kind::group > 1)
    return matrix_multiply<Kind>(a, stride, rows, b, depth, columns, done);
#endif
  vector_multiply<Kind>(a, stride, rows, b, depth, columns, done);
}
