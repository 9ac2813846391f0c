// Weights that are stored in half of the memory that a product reads, which reads a copy of its
// panels with the weights themselves. So it is that of such weights.
//
// Four bits: numbers of a table of 16 levels, which are 8-bit integers. Each line of 64 bytes holds
// two lines of the panel: the lower halves of its bytes are the numbers of the first one.
// 16 bits: floats that all are numbers of a shorter type; registers.h and neon.h widen them.

#pragma once

#include <vector>

#include "kinds.h"

struct alignas(64) Line {
  char bytes[64];
};

// Memory of the calling thread for lines of panels.
inline char* own_lines(long count) {
  static thread_local std::vector<Line> lines;
  if (static_cast<long>(lines.size()) < count) lines.resize(count);
  return lines.data()->bytes;
}

// Copies the first rows of some columns.
inline Panels<Int8> unpack(const Weights<Int8>& b, long depth, long columns) {
  char* const copy = own_lines(depth * columns / 64);
  const Ints levels = repeat_16(b.levels), mask = Ints{} + 0x0f0f0f0f;
  char* out = copy;
  for (long column = 0; column < columns; column += PANEL) {
    const char* in = b.after(column).lines();
    for (long line = 0; line < depth / 8; line++, in += 64, out += 128)
#pragma GCC unroll 4
      for (long i = 0; i < 64; i += 4 * W) {
        const Ints pairs = load_ints(in + i);
        store_ints(out + i, look_up(levels, pairs & mask));
        store_ints(out + 64 + i, look_up(levels, (pairs >> 4) & mask));
      }
  }
  return {reinterpret_cast<const int8_t*>(copy), depth};
}

// Panels as a product reads them.
template <typename Kind>
INLINE Panels<Kind> unpacked(const Panels<Kind>& b, long, long) {
  return b;
}
template <typename Kind>
INLINE Panels<Kind> unpacked(const Weights<Kind>& b, [[maybe_unused]] long depth,
                             [[maybe_unused]] long columns) {
  if constexpr (std::is_same_v<Kind, Int8>)
    if (b.stored == Stored::FOUR_BITS) return unpack(b, depth, columns);
  return b.whole();
}
