// What vectors do by instructions of ARM64: NEON, and its extensions for dot products and for
// products of small matrices.

#pragma once

#include <arm_neon.h>

#include <cstring>

#include "types.h"

#ifdef __ARM_FEATURE_DOTPROD
#define INT8_PRODUCTS  // precisions that there are instructions for, in addition to float32
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define BFLOAT16_PRODUCTS
#define MATRIX_PRODUCTS  // of two rows and two columns, by one instruction
#endif

INLINE Floats fma(Floats a, Floats b, Floats c) {
  return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

// a > b ? a : b and a < b ? a : b, each in one instruction; NaN if either is.
INLINE Floats larger(Floats a, Floats b) {
  return (Floats)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}
INLINE Floats smaller(Floats a, Floats b) {
  return (Floats)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

// The bytes of a product are signed, as its weights are: the instructions for unsigned ones came
// later.
constexpr int32_t BYTE_SHIFT = 128;        // what a stored byte is less than its number
INLINE void store(uint8_t* p, Floats x) {  // rounded to nearest, ties to even, from 0 to 255
  const uint16x4_t halves = vqmovn_u32(vcvtnq_u32_f32((float32x4_t)x));
  const uint8x8_t bytes = vqmovn_u16(vcombine_u16(halves, halves));
  const uint8x8_t shifted = veor_u8(bytes, vdup_n_u8(BYTE_SHIFT));
  std::memcpy(p, &shifted, W);
}

#ifdef BFLOAT16_PRODUCTS
INLINE void store_rounded(BFloat16* p, Floats x) {
  const bfloat16x4_t halves = vcvt_bf16_f32((float32x4_t)x);
  std::memcpy(p, &halves, sizeof halves);
}
#endif

INLINE Floats load(const Float16* p) {
  return (Floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits)));
}

// Numbers of a table, by their columns.
INLINE Floats gather(const float* table, Ints columns) {
  return Floats{table[columns[0]], table[columns[1]], table[columns[2]], table[columns[3]]};
}

// 16 bytes, and of these those with some numbers.
INLINE Ints repeat_16(const void* p) { return (Ints)vld1q_s8(static_cast<const int8_t*>(p)); }
INLINE Ints look_up(Ints bytes, Ints numbers) {
  return (Ints)vqtbl1q_s8((int8x16_t)bytes, (uint8x16_t)numbers);
}

// Adds the products of four columns with one group of a row, which has four.
template <int lane>
INLINE Floats dot_floats(Floats sums, Ints columns, Ints row) {
  return (Floats)vfmaq_laneq_f32((float32x4_t)sums, (float32x4_t)columns, (float32x4_t)row, lane);
}
#ifdef INT8_PRODUCTS
template <int lane>
INLINE Ints dot_bytes(Ints sums, Ints columns, Ints row) {
  return (Ints)vdotq_laneq_s32((int32x4_t)sums, (int8x16_t)columns, (int8x16_t)row, lane);
}
#endif

#ifdef MATRIX_PRODUCTS
// Adds the products of two rows with two columns, each half a vector: the sums of the first row,
// then those of the second.
INLINE Floats multiply_bfloats(Floats sums, Ints rows, Ints columns) {
  return (Floats)vbfmmlaq_f32((float32x4_t)sums, (bfloat16x8_t)rows, (bfloat16x8_t)columns);
}
INLINE Ints multiply_bytes(Ints sums, Ints rows, Ints columns) {
  return (Ints)vmmlaq_s32((int32x4_t)sums, (int8x16_t)rows, (int8x16_t)columns);
}
#endif
