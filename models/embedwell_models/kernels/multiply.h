// Matrix products, a (rows, depth) times b (depth, columns), by precision and instruction set.
//
// Every element of the result is summed in an order that does not depend on the number of rows.
// Each kernel calls done(row, column, sums) once for each row and each vector of columns.

#pragma once

#ifdef __aarch64__
#include "neon.h"
#else
#include "registers.h"
#endif
#ifdef __AMX_TILE__
#include "split.h"
#else
struct Tiles {
  Tiles() {}  // not trivial, so that an object that exists for its effect is not an unused variable
};
#endif

// A range of columns of the product, whose ends are multiples of COLUMNS.
// b: Panels or Weights.
template <typename B, typename Done>
INLINE void multiply(const typename B::Kind::Operand* a, long stride, long rows, const B& b,
                     long depth, Range columns, Done&& done) {
#ifdef __AMX_TILE__
  using Kind = typename B::Kind;
  if constexpr (std::is_same_v<Kind, SplitFloat32>)
    split_multiply(a, stride, rows, b.whole(), depth, columns, done);
  else if constexpr (Kind::group > 1)
    matrix_multiply(a, stride, rows, b, depth, columns, done);
  else
#endif
    vector_multiply(a, stride, rows, b, depth, columns, done);
}
