// Vectors of floats and the functions of vectors that a transformer needs.
// The code uses the compiler's vector type, which is compiled to the instructions of each
// instruction set. Multiplications and additions are fused only by fma(), so that a value has the
// same bits wherever the compiler inlines the expression.

#pragma once

#include <cmath>
#include <utility>

#if defined(__x86_64__)
#include "x86.h"
#elif defined(__aarch64__)
#include "arm.h"
#else
#error "there are no kernels for this processor"
#endif

INLINE Floats load(const float* p) { return *reinterpret_cast<const LooseFloats*>(p); }
INLINE Floats load(const BFloat16* p) {
  const Halves halves = *reinterpret_cast<const LooseHalves*>(p);
  return (Floats)(__builtin_convertvector(halves, Words) << 16);
}
INLINE Ints load_ints(const void* p) { return *reinterpret_cast<const LooseInts*>(p); }
INLINE void store_ints(void* p, Ints x) { *reinterpret_cast<LooseInts*>(p) = x; }
INLINE void store(float* p, Floats x) { *reinterpret_cast<LooseFloats*>(p) = x; }
INLINE void store(BFloat16* p, Floats x) {  // rounded to nearest, ties to even
#ifdef BFLOAT16_PRODUCTS
  store_rounded(p, x);
#else
  Words bits = (Words)x;
  bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  *reinterpret_cast<LooseHalves*>(p) = __builtin_convertvector(bits, Halves);
#endif
}

INLINE Ints lanes() {  // 0, 1, 2 ...
  Ints numbers;
  for (int i = 0; i < W; i++) numbers[i] = i;
  return numbers;
}

// Selects lanes of two vectors by constant numbers; the lanes of b follow the lanes of a.
template <typename Vector, int... from>
INLINE Vector shuffle(Vector a, Vector b, std::integer_sequence<int, from...>) {
#ifdef __clang__
  return __builtin_shufflevector(a, b, from...);
#else  // which GCC also has before version 12
  return __builtin_shuffle(a, b, Ints{from...});
#endif
}
using Numbers = std::make_integer_sequence<int, W>;  // 0, 1, 2 ...

template <int step, int... lane>
constexpr auto exchanged(std::integer_sequence<int, lane...>) {
  return std::integer_sequence<int, (lane ^ step)...>{};
}
// Swaps lanes that are `step` apart.
template <int step>
INLINE Floats exchange(Floats x) {
  return shuffle(x, x, exchanged<step>(Numbers{}));
}

// Combines the lanes of one vector by halves, always in the same order.
template <long step = W / 2, typename Combine>
INLINE float reduce(Floats x, Combine&& combine) {
  if constexpr (step == 0)
    return x[0];
  else
    return reduce<step / 2>(combine(x, exchange<step>(x)), combine);
}
INLINE float sum(Floats x) {
  return reduce(x, [](Floats a, Floats b) { return a + b; });
}
INLINE float largest(Floats x) { return reduce(x, larger); }
INLINE float smallest(Floats x) { return reduce(x, smaller); }

template <int N>
INLINE Floats polynomial(Floats x, const float (&coefficients)[N]) {
  Floats y = splat(coefficients[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; i--) y = fma(y, x, splat(coefficients[i]));
  return y;
}

// e^x for |x| <= 87 (outside, the value at the border), to about one unit in the last place: 2^n
// times a polynomial of the remainder (the reduction and coefficients of Cephes' expf).
INLINE Floats exponential(Floats x) {
  x = larger(smaller(x, splat(87.0f)), splat(-87.0f));
  const Floats magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Floats shifted = fma(x, splat(1.44269504f), magic);
  const Floats n = shifted - magic;
  x = fma(n, splat(-0.693359375f), x);
  x = fma(n, splat(2.12194440e-4f), x);
  const float coefficients[] = {5.0000001201e-1f, 1.6666665459e-1f, 4.1665795894e-2f,
                                8.3334519073e-3f, 1.3981999507e-3f, 1.9875691500e-4f};
  const Floats y = fma(polynomial(x, coefficients), x * x, x) + 1.0f;
  return (Floats)((Ints)y + ((Ints)shifted << 23));
}

// e^x within 8e-5 for x <= 0, as 2^n times a cubic, for results that are rounded to bfloat16.
INLINE Floats exponential_roughly(Floats x) {
  x = larger(x * 1.44269504f, splat(-126.0f));
  const Floats magic = splat(12582912.0f), shifted = x + magic;
  const float coefficients[] = {0.999928127f, 0.693260979f, 0.242610268f, 0.055171208f};
  const Floats y = polynomial(x - (shifted - magic), coefficients);
  return (Floats)((Ints)y + ((Ints)shifted << 23));
}

// The cumulative normal distribution, 1/2 + x P(x^2) / Q(x^2), within 2e-7.
INLINE Floats cumulative(Floats x) {
  constexpr float end = 5.3f;
  const Floats clamped = larger(smaller(x, splat(end)), splat(-end)), square = clamped * clamped;
  const float p[] = {0.398942266f,    0.0328629215f,   0.00462344526f,
                     0.000159569853f, 6.37187831e-06f, 2.40982084e-08f};
  const float q[] = {1.0f,           0.249041471f,    0.0280968574f,
                     0.00183231707f, 7.10950114e-05f, 1.23801633e-06f};
  const Floats y = fma(clamped, polynomial(square, p) / polynomial(square, q), splat(0.5f));
  return x > end ? splat(1.0f) : x < -end ? splat(0.0f) : y;
}

// The same within 2e-5 and without a division, for results that are rounded to 8 bits.
INLINE Floats cumulative_roughly(Floats x) {
  constexpr float end = 4.2f;
  const Floats clamped = larger(smaller(x, splat(end)), splat(-end));
  const float p[] = {0.398508668f,    -0.0655992984f,   0.00933742885f,  -0.000960755027f,
                     6.82655921e-05f, -3.13983664e-06f, 8.32968779e-08f, -9.61295089e-10f};
  const Floats y = fma(clamped, polynomial(clamped * clamped, p), splat(0.5f));
  return larger(smaller(y, splat(1.0f)), splat(0.0f));
}

// The hyperbolic tangent. Near zero, where the quotient loses digits, the polynomial of Cephes'
// tanhf is used.
INLINE Floats tangent(Floats x) {
  const float coefficients[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f,
                                2.06390887954e-2f, -5.70498872745e-3f};
  const Floats square = x * x, near = fma(x * square, polynomial(square, coefficients), x);
  const Floats far = 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
  return square > 0.390625f ? far : near;
}

enum class Activation : int64_t { none, gelu, gelu_tanh, relu, silu, gelu_sigmoid, tanh };

// Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", arXiv 1606.08415.
template <bool exact>
INLINE Floats activate(Floats x, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return x * (exact ? cumulative(x) : cumulative_roughly(x));
    case Activation::gelu_tanh: {  // x (1 + tanh u) / 2 = x / (1 + e^-2u)
      const Floats u = 0.7978845608f * x * fma(x * x, splat(0.044715f), splat(1.0f));
      return x / (1.0f + exponential(-2.0f * u));
    }
    case Activation::relu:
      return larger(splat(0.0f), x);  // this order keeps NaN
    case Activation::silu:
      return x / (1.0f + exponential(-x));
    case Activation::gelu_sigmoid:
      return x / (1.0f + exponential(-1.702f * x));
    case Activation::tanh:
      return tangent(x);
    default:
      return x;
  }
}
