/* half.h - float16 and bfloat16, which are stored as bit patterns and computed in f32.
 *
 * Conversions to the narrow types round to nearest, ties to even, as the hardware does; overflow
 * gives infinity, denormals are kept, a NaN stays a (quiet) NaN with its upper payload bits. The
 * functions have no branches, so loops over them become vector code on every instruction set, and
 * their results equal those of the F16C instructions bit for bit. */
#ifndef MT_HALF_H
#define MT_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define MT_HALF_FN static __host__ __device__ inline
#else
#define MT_HALF_FN static inline
#endif

MT_HALF_FN uint32_t mt_float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

MT_HALF_FN float mt_bits_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

MT_HALF_FN float mt_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
  uint32_t normal = (a << 13) + 0x38000000u; /* rebias the exponent: 127 - 15 */
  uint32_t denormal = mt_float_bits((float)(int32_t)a * 0x1p-24f);
  uint32_t special = 0x7f800000u | (a << 13) | (a > 0x7c00u ? 0x400000u : 0u);
  uint32_t u = a < 0x400u ? denormal : normal;
  return mt_bits_float(sign | (a >= 0x7c00u ? special : u));
}

MT_HALF_FN uint16_t mt_f32_to_f16(float x) {
  uint32_t u = mt_float_bits(x), a = u & 0x7fffffffu;
  uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
  /* Below 2^-14: adding 0.5, whose last bit is 2^-24, lets the adder do the rounding. */
  uint32_t denormal = mt_float_bits(mt_bits_float(a) + 0.5f) - 0x3f000000u;
  uint32_t special = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : 0x7c00u;
  uint32_t h = a < 0x38800000u ? denormal : normal;
  h = a >= 0x477ff000u ? special : h; /* 65520 is the first that rounds to infinity */
  return (uint16_t)(h | ((u >> 16) & 0x8000u));
}

MT_HALF_FN float mt_bf16_to_f32(uint16_t h) { return mt_bits_float((uint32_t)h << 16); }

MT_HALF_FN uint16_t mt_f32_to_bf16(float x) {
  uint32_t u = mt_float_bits(x);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t nan = (u >> 16) | 0x40u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

#endif
