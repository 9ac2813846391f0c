// A mixture of experts: feed-forward networks of which each row passes a few, by the largest logits
// of a router (Shazeer et al. 2017, arXiv 1701.06538).

#pragma once

#include <algorithm>

#include "rows.h"

struct Expert {
  Matrix up, down;
};

struct Experts {
  const float* router;  // (count, D), in every precision float32: all choose the same experts
  const Expert* each;   // (count,)
  const float* bias;    // (D,), added to the sum of a row's experts
  int64_t count, top;   // experts, and those that a row passes; zeros for a single network
};

// A row that passes an expert, with the expert's share of the result.
struct Place {
  int32_t row;
  float share;
};

constexpr float UNUSED = -1.0f;  // share of an expert that a row does not pass

INLINE float dot(const float* a, const float* b, long width) {
  Floats sums{};
  for (long d = 0; d < width; d += W) sums = fma(load(a + d), load(b + d), sums);
  return sum(sums);
}

// Whether fewer than `top` experts come before an expert: larger shares, and equal ones of lower
// number. Among nothing but NaN the first are chosen, so that a row never has more than `top`.
INLINE bool chosen(const float* shares, const Experts& experts, long expert) {
  long before = 0;
  for (long other = 0; other < experts.count; other++) {
    const bool equal = !(shares[other] > shares[expert]) && !(shares[other] < shares[expert]);
    before += shares[other] > shares[expert] || (equal && other < expert);
  }
  return before < experts.top;
}

// Writes the shares of a row's experts, a softmax over all: (count,). memory: (count,)
INLINE void route(const float* x, long width, const Experts& experts, float* memory, float* out) {
  float total = 0;
  for (long i = 0; i < experts.count; i++) memory[i] = dot(x, experts.router + i * width, width);
  const float most = *std::max_element(memory, memory + experts.count);
  for (long i = 0; i < experts.count; i++) total += memory[i] = std::exp(memory[i] - most);
  for (long i = 0; i < experts.count; i++)
    out[i] = chosen(memory, experts, i) ? memory[i] / total : UNUSED;
}

// Lists the rows of each expert, in the order of the experts, by the shares (rows, count), and the
// ends of the experts' rows in the list: (count,).
inline void sort_rows(const float* shares, long rows, const Experts& experts, Place* places,
                      int32_t* ends) {
  int32_t count = 0;
  for (long i = 0; i < experts.count; i++) {
    for (long row = 0; row < rows; row++) {
      const float share = shares[row * experts.count + i];
      if (share != UNUSED) places[count++] = {static_cast<int32_t>(row), share};
    }
    ends[i] = count;
  }
}
