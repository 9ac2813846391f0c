// Rotation of queries and keys by their positions (Su et al. 2021, arXiv 2104.09864).

#pragma once

#include "vector.h"

// Features 2i and 2i + 1 of a head are a pair: the columns of the products are packed in this
// order, whatever order the model has. Scores do not depend on the order of features.
struct Rotation {
  const float *cos, *sin;  // (positions, Dh), negated sine for a pair's first feature; or null

  explicit operator bool() const { return cos; }
  INLINE Floats turn(Floats x, long index) const {  // index: position * Dh + feature
    const Floats other = exchange<1>(x);
    return fma(x, load(cos + index), other * load(sin + index));
  }
};
