// What vectors do by instructions of x86-64: AVX2, AVX-512 and their extensions.

#pragma once

#include <immintrin.h>

#include "types.h"

#define INT8_PRODUCTS  // precisions that there are instructions for, in addition to float32
#ifdef __AVX512BF16__
#define BFLOAT16_PRODUCTS
#endif

INLINE Floats fma(Floats a, Floats b, Floats c) {
#ifdef __AVX512F__
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#endif
}

// a > b ? a : b and a < b ? a : b, each in one instruction.
INLINE Floats larger(Floats a, Floats b) {
#ifdef __AVX512F__
  return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#else
  return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#endif
}
INLINE Floats smaller(Floats a, Floats b) {
#ifdef __AVX512F__
  return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
#else
  return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
#endif
}

// The bytes of a product are unsigned, and its weights are signed.
constexpr int32_t BYTE_SHIFT = 0;          // what a stored byte is less than its number
INLINE void store(uint8_t* p, Floats x) {  // rounded to nearest, ties to even, from 0 to 255
#ifdef __AVX512F__
  const __m512i whole = _mm512_cvtps_epi32((__m512)larger(x, splat(0.0f)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(whole));
#else
  const __m256i whole = _mm256_cvtps_epi32((__m256)x);
  const __m128i low = _mm256_castsi256_si128(whole), high = _mm256_extracti128_si256(whole, 1);
  const __m128i halves = _mm_packs_epi32(low, high);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
#endif
}

#ifdef BFLOAT16_PRODUCTS
INLINE void store_rounded(BFloat16* p, Floats x) {
  const __m256bh halves = _mm512_cvtneps_pbh((__m512)x);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)halves);
}
#endif

INLINE Floats load(const Float16* p) {
#ifdef __AVX512F__
  return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#else
  return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#endif
}

// Numbers of a table, by their columns.
INLINE Floats gather(const float* table, Ints columns) {
#ifdef __AVX512F__
  return (Floats)_mm512_i32gather_ps((__m512i)columns, table, 4);
#else
  return (Floats)_mm256_i32gather_ps(table, (__m256i)columns, 4);
#endif
}

// 16 bytes in each quarter or half of a vector, and of these bytes those with some numbers.
INLINE Ints repeat_16(const void* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
#ifdef __AVX512F__
  return (Ints)_mm512_broadcast_i32x4(bytes);
#else
  return (Ints)_mm256_broadcastsi128_si256(bytes);
#endif
}
INLINE Ints look_up(Ints bytes, Ints numbers) {
#ifdef __AVX512F__
  return (Ints)_mm512_shuffle_epi8((__m512i)bytes, (__m512i)numbers);
#else
  return (Ints)_mm256_shuffle_epi8((__m256i)bytes, (__m256i)numbers);
#endif
}

// Adds the products of two neighbours, or four, to each sum.
#ifdef BFLOAT16_PRODUCTS
INLINE Floats dot_bfloats(Floats sums, Ints a, Ints b) {
  return (Floats)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
}
#endif
INLINE Ints dot_bytes(Ints sums, Ints a, Ints b) {
#if defined(__AVX512VNNI__)
  return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
#elif defined(__AVXVNNI__)
  return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)a, (__m256i)b);
#elif defined(__AVX512F__)
  // Two neighbouring products are added in 16 bits, which the weights are small enough for: see
  // models/embedwell_models/cpu_backend/quantization.py.
  const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
  return sums + (Ints)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#else
  const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
  return sums + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}
