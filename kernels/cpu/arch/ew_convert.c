/* ew_convert.c - conversions between dtypes, contiguous to contiguous.
 *
 * Floats are cut to integers towards zero; what no int64 can hold, NaN included, gives the
 * smallest int64, on every device. Narrower integers take its low bits, so everything wraps.
 * Bool is "not 0", of which NaN is an example. */
#include "ew_convert.h"

#include "../../half.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

static inline int64_t to_i64(double v) {
  return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
static inline mt_c64 to_c64(float re) { return (mt_c64){re, 0.0f}; }

#define X(name, FROM, TO, expression)                                 \
  void MT_ISA_NAME(mt_##name)(void *out, const void *in, int64_t n) { \
    const FROM *from = in;                                            \
    TO *to = out;                                                     \
    for (int64_t i = 0; i < n; i++) {                                 \
      const FROM v = from[i];                                         \
      to[i] = expression;                                             \
    }                                                                 \
  }
MT_CONVERSIONS(X)
#undef X

void MT_ISA_NAME(mt_f32_from_f16)(void *out, const void *in, int64_t n) {
  const uint16_t *from = in;
  float *to = out;
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
  for (; i < n; i++) to[i] = mt_f16_to_f32(from[i]);
}

void MT_ISA_NAME(mt_f32_to_f16)(void *out, const void *in, int64_t n) {
  const float *from = in;
  uint16_t *to = out;
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
#endif
  for (; i < n; i++) to[i] = mt_f32_to_f16(from[i]);
}

void MT_ISA_NAME(mt_f32_from_bf16)(void *out, const void *in, int64_t n) {
  const uint16_t *from = in;
  float *to = out;
  for (int64_t i = 0; i < n; i++) to[i] = mt_bf16_to_f32(from[i]);
}

void MT_ISA_NAME(mt_f32_to_bf16)(void *out, const void *in, int64_t n) {
  const float *from = in;
  uint16_t *to = out;
  for (int64_t i = 0; i < n; i++) to[i] = mt_f32_to_bf16(from[i]);
}
