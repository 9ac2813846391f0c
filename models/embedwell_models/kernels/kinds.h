// The operands of matrix products in each precision, and their memory layout.
// In a product a (rows, depth) times b (depth, columns), b is packed in panels of 16 columns:
// (columns / 16, depth / group, 16, group), where a group is 32 bits of elements of one column.

#pragma once

#include <cstring>
#include <type_traits>

#include "types.h"
#include "vector.h"

// clang 14 uses another name for the unit's macro, and would compile the kernels without the unit.
#if defined(__clang__) && (defined(__AMX_TILE__) || defined(__AMXTILE__))
#error "the kernels for the matrix unit have been tested as GCC compiles them alone"
#endif

struct Float32 {
  using Operand = float;
  using Weight = float;
  using Sums = Floats;
  static constexpr long group = 1;
  static constexpr bool exact = true;
};

#ifdef BFLOAT16_PRODUCTS
struct BFloats {
  using Operand = BFloat16;
  using Weight = BFloat16;
  using Sums = Floats;
  static constexpr long group = 2;
  static constexpr bool exact = false;
};
#endif

#ifdef __AMX_TILE__
// Float32 for the matrix unit, see split.h: 32 numbers of a row are three lines of bfloat16.
struct Thirds {
  BFloat16 parts[3];
};
struct SplitFloat32 {
  using Operand = Thirds;
  using Weight = float;
  using Sums = Floats;
  static constexpr bool exact = true;
};
using Single = SplitFloat32;
#else
using Single = Float32;
#endif

struct Int8 {
  using Operand = uint8_t;
  using Weight = int8_t;
  using Sums = Ints;
  static constexpr long group = 4;
  static constexpr bool exact = false;
};

#ifdef __AVX512F__
constexpr int ROWS = 14;  // with two vectors for each row, 28 of 32 registers hold sums
#elif defined(__AVX2__)
constexpr int ROWS = 6;  // 12 of 16
#else
constexpr int ROWS = 8;  // 16 of 32: rows take four to eight, and columns two to four
#endif
#if defined(__AMX_TILE__)
constexpr long TILE_ROWS = 32;  // rows of a product that are computed together
constexpr long FETCHED = 2;     // blocks of rows for which weights are prefetched
#else
constexpr long TILE_ROWS = W == 4 ? 32 : 28;
constexpr long FETCHED = 1;
#endif
constexpr long PANEL = 16;    // columns
constexpr long STEP = 8;      // the number of groups of a depth is a multiple of this
constexpr long COLUMNS = 32;  // columns are multiples of this, depths of 64 bytes
constexpr long SLACK = 32;    // unused rows after the last row of a that may be read

// Packed columns of b. A product may read only the first rows.
template <typename OfKind>
struct Panels {
  using Kind = OfKind;
  using Weight = typename Kind::Weight;
  const Weight* data;
  long height;  // rows

  long bytes() const { return height * PANEL * static_cast<long>(sizeof(Weight)); }  // of a panel
  const char* lines() const { return reinterpret_cast<const char*>(data); }
  Panels after(long columns) const {
    return {reinterpret_cast<const Weight*>(lines() + columns / PANEL * bytes()), height};
  }
  Panels below(long rows) const { return {data + rows * PANEL, height}; }
  Panels whole() const { return *this; }
};

// How weights are stored: as a product reads them, or in half of that, see unpacking.h.
enum class Stored : int64_t { WHOLE, FOUR_BITS, BFLOAT16, FLOAT16 };

// Packed columns of a model's matrix.
template <typename OfKind>
struct Weights {
  using Kind = OfKind;
  const char* data;
  long height;  // rows
  Stored stored;
  const int8_t* levels;  // of weights that take four bits each

  // Of a panel, as it is stored.
  long bytes() const { return whole().bytes() / (stored == Stored::WHOLE ? 1 : 2); }
  const char* lines() const { return data; }
  Weights after(long columns) const {
    return {data + columns / PANEL * bytes(), height, stored, levels};
  }
  Panels<Kind> whole() const {
    return {reinterpret_cast<const typename Kind::Weight*>(data), height};
  }
};

// Prefetches the panels after the two current panels into the second-level cache, some lines at
// each step, while the current panels are multiplied with every block of rows. With a single block
// (a query) the processor itself prefetches too late, because it does not look beyond a page of
// memory.
class Prefetch {
 public:
  Prefetch() = default;  // nothing
  Prefetch(const char* panels, long bytes, long blocks, long steps) : next_(panels + bytes) {
    constexpr long near = 16384;  // so few bytes arrive in time anyway
    if (blocks >= FETCHED && bytes > near)
      lines_ = (bytes / 64 + blocks * steps - 1) / (blocks * steps);
  }
  INLINE void fetch() {
#pragma GCC unroll 8
    for (long i = 0; i < lines_; i++, next_ += 64) __builtin_prefetch(next_, 0, 2);
  }

 private:
  const char* next_ = nullptr;
  long lines_ = 0;
};
