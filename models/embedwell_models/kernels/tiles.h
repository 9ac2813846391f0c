// Products in the matrix unit, with tiles of 16 rows of 64 bytes. Tiles 0 to 3 hold the sums of 32
// rows and 32 columns.

#pragma once

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "unpacking.h"

struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// A constant, because the compiler assumes that the instruction reads only its first 8 bytes.
constexpr TileShapes SHAPES;

struct Tiles {  // configures the unit for this thread during its lifetime
  Tiles() { _tile_loadconfig(&SHAPES); }
  ~Tiles() { _tile_release(); }
};

INLINE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
// Loads one tile for up to 16 rows, or `two` tiles for more rows.
template <bool two>
INLINE void load_sums(const char* in) {
  _tile_loadd(0, in, 128);
  _tile_loadd(1, in + 64, 128);
  if constexpr (two) _tile_loadd(2, in + 2048, 128);
  if constexpr (two) _tile_loadd(3, in + 2048 + 64, 128);
}
template <bool two>
INLINE void store_sums(char* out) {
  _tile_stored(0, out, 128);
  _tile_stored(1, out + 64, 128);
  if constexpr (two) _tile_stored(2, out + 2048, 128);
  if constexpr (two) _tile_stored(3, out + 2048 + 64, 128);
}
INLINE void load_columns(const char* panel, long next) {
  _tile_loadd(6, panel, 64);
  _tile_loadd(7, panel + next, 64);
}
template <bool two>
INLINE void load_rows(const char* rows, long stride) {
  _tile_loadd(4, rows, stride);
  if constexpr (two) _tile_loadd(5, rows + 16 * stride, stride);
}

#define MULTIPLY_TILES(instruction, two) \
  do {                                   \
    instruction(0, 4, 6);                \
    instruction(1, 4, 7);                \
    if constexpr (two) {                 \
      instruction(2, 5, 6);              \
      instruction(3, 5, 7);              \
    }                                    \
  } while (0)
template <typename Kind, bool two>
INLINE void multiply_tiles() {
  if constexpr (std::is_same_v<Kind, Int8>)
    MULTIPLY_TILES(_tile_dpbusd, two);
  else
    MULTIPLY_TILES(_tile_dpbf16ps, two);
}

// Sums of a block of rows, which are finished some rows at a time while the unit multiplies.
template <typename Sums, typename Done>
class Behind {
 public:
  explicit Behind(Done& done) : done_(done) {}

  INLINE void turn() {
    for (const long end = std::min(row_ + share_, rows_); row_ < end; row_++)
      for (long j = 0; j < 2; j++) done_(first_ + row_, column_ + j * W, sums_[row_][j]);
  }
  // Number of turns until all sums are finished.
  INLINE void follow(const Sums (*sums)[2], long row, long column, long rows, long turns) {
    sums_ = sums, first_ = row, column_ = column, rows_ = rows, row_ = 0;
    share_ = (rows + turns - 1) / turns;
  }
  INLINE void finish() {
    share_ = rows_;
    turn();
  }

 private:
  Done& done_;
  const Sums (*sums_)[2] = nullptr;
  long first_ = 0, column_ = 0, rows_ = 0, row_ = 0, share_ = 0;
};

// Multiplies up to 32 rows with two panels; calls aside() at each step.
template <typename Kind, bool two, typename Aside>
INLINE void matrix_tile(const char* a, long stride, const Panels<Kind>& panels, long steps,
                        void* sums, Aside&& aside) {
  const char* b = panels.lines();
  zero_sums();
  for (long step = 0; step < steps; step++, a += 64, b += 1024) {
    load_columns(b, panels.bytes());
    load_rows<two>(a, stride);
    multiply_tiles<Kind, two>();
    aside();
  }
  store_sums<two>(static_cast<char*>(sums));
}

template <typename B, typename Done>
INLINE void matrix_multiply(const typename B::Kind::Operand* a, long stride, long rows, const B& b,
                            long depth, Range columns, Done&& done) {
  using Kind = typename B::Kind;
  alignas(64) typename Kind::Sums sums[2][32][2];
  const long steps = depth / Kind::group / 16, blocks = (rows + 31) / 32;
  const long bytes = stride * static_cast<long>(sizeof(*a));
  long now = 0;
  Behind<typename Kind::Sums, Done> behind(done);
  for (long column = columns.first; column < columns.last; column += 32) {
    const auto stored = b.after(column);
    Prefetch ahead(stored.lines(), 2 * stored.bytes(), blocks, steps);
    const auto panels = unpacked(stored, depth, 32);
    // A compiler barrier, because compilers do not know that loading a tile reads memory.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const auto aside = [&]() __attribute__((always_inline)) {
      ahead.fetch();
      behind.turn();
    };
    for (long row = 0; row < rows; row += 32, now = 1 - now) {
      const auto* from = reinterpret_cast<const char*>(a + row * stride);
      if (rows - row > 16)
        matrix_tile<Kind, true>(from, bytes, panels, steps, sums[now], aside);
      else
        matrix_tile<Kind, false>(from, bytes, panels, steps, sums[now], aside);
      behind.follow(sums[now], row, column, std::min(rows - row, 32L), steps);
    }
  }
  behind.finish();
}
