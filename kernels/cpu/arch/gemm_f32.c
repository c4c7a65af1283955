/* gemm_f32.c - the matrix kernels of f32, and the conversion of 16-bit floats to and from it. */
#define REAL float
#define REAL_IS_F32 1
#define LANE int32_t
#define GEMM_FNS MT_ISA_NAME(mt_gemm_f32)
#include "gemm_arch.h"
#include "gemm_kernel.h"

void MT_ISA_NAME(mt_widen_f16)(float *dst, const uint16_t *src, int64_t n) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) store(dst + i, widen_vec(src + i, false));
  for (; i < n; i++) dst[i] = widen_one(src[i], false);
}

void MT_ISA_NAME(mt_widen_bf16)(float *dst, const uint16_t *src, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i] = mt_bf16_to_f32(src[i]);
}

void MT_ISA_NAME(mt_narrow_f16)(uint16_t *dst, const float *src, int64_t n) {
  int64_t i = 0;
#if defined __F16C__
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128((__m128i *)(void *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), 0));
  }
#endif
  for (; i < n; i++) dst[i] = mt_f32_to_f16(src[i]);
}

void MT_ISA_NAME(mt_narrow_bf16)(uint16_t *dst, const float *src, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i] = mt_f32_to_bf16(src[i]);
}
