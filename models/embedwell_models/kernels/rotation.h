// Rotation of queries and keys by their positions (Su et al. 2021, arXiv 2104.09864).

#pragma once

#include "vector.h"

// Features 2i and 2i + 1 of a head are a pair, in whatever order the model has them: the columns
// of its products are packed so. Scores of queries and keys do not depend on their order.
struct Rotation {
  const float *cos, *sin;  // (positions, Dh), the sine of a pair's first feature negative; or null

  explicit operator bool() const { return cos; }
  INLINE Floats turn(Floats x, long index) const {  // of position * Dh + feature
    const Floats other = exchange<1>(x);
    return fma(x, load(cos + index), other * load(sin + index));
  }
};
