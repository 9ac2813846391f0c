// Vectors of the compiler, as wide as a register of the instruction set, and other basic types.

#pragma once

#include <cstdint>

#define INLINE inline __attribute__((always_inline))
// For code of activations: inlined copies for every sum of every tile size would take megabytes.
#define APART __attribute__((noinline))

#if defined(__AVX512F__)
constexpr long W = 16;  // floats in a vector
#elif defined(__AVX2__)
constexpr long W = 8;
#else
constexpr long W = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * W)));
typedef int32_t Ints __attribute__((vector_size(4 * W)));
typedef uint32_t Words __attribute__((vector_size(4 * W)));
typedef uint16_t Halves __attribute__((vector_size(2 * W)));
typedef float LooseFloats __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t LooseInts __attribute__((vector_size(4 * W), aligned(1), may_alias));
typedef uint16_t LooseHalves __attribute__((vector_size(2 * W), aligned(2), may_alias));

struct Range {       // of columns, heads, rows or keys
  long first, last;  // last is exclusive
};

struct BFloat16 {  // the upper half of a float
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

INLINE Floats splat(float x) { return Floats{} + x; }
