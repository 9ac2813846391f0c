// Scores that approach a limit, as in Gemma 2 (arXiv 2408.00118).

#pragma once

#include "vector.h"

// Scales some scores, whose number is a multiple of W, and turns each x to cap * tanh(x / cap).
APART inline void cap_scores(float* scores, long count, float scale, float cap) {
  const Floats share = splat(scale / cap);
  for (long i = 0; i < count; i += W) store(scores + i, tangent(load(scores + i) * share) * cap);
}
