/* ew_trig.c - sine, cosine and tangent of floats.
 *
 * The vector code of math_more.h holds up to MT_TRIG_LIMIT. A block that has a larger argument is
 * computed the same way, from a copy since the result may replace it, and its large elements
 * once more, one by one. So an element's result does not depend on its neighbours. */
/* gcc's own choice for x86-64-v4 is 256 bits. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

#include <string.h>

#include "../../math_more.h"
#include "../ew.h"

#define BLOCK 256

static bool any_far(const float *x, int64_t n) {
  uint32_t far = 0;
  for (int64_t i = 0; i < n; i++) far |= mt_abs_f32(x[i]) > MT_TRIG_LIMIT;
  return far != 0;
}

#define TRIG(name)                                                                             \
  static void name##_block(float *out, const float *x, int64_t n) {                            \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) out[i] = mt_##name##_f32(x[i]);       \
  }                                                                                            \
  static void name##_fix(float *out, const float *x, int64_t n) {                              \
    float copy[BLOCK];                                                                         \
    memcpy(copy, x, sizeof(float) * (size_t)n);                                                \
    name##_block(out, copy, n);                                                                \
    for (int64_t i = 0; i < n; i++)                                                            \
      if (mt_abs_f32(copy[i]) > MT_TRIG_LIMIT) out[i] = mt_##name##_far_f32(copy[i]);          \
  }                                                                                            \
  void MT_ISA_NAME(mt_ew_##name##_f32)(void *out, const void *a, const void *b, const void *c, \
                                       int64_t n, const void *p);                              \
  void MT_ISA_NAME(mt_ew_##name##_f32)(void *out, const void *a, const void *b, const void *c, \
                                       int64_t n, const void *p) {                             \
    const float *x = a;                                                                        \
    float *o = out;                                                                            \
    (void)b, (void)c, (void)p;                                                                 \
    for (int64_t i = 0; i < n; i += BLOCK) {                                                   \
      int64_t m = n - i < BLOCK ? n - i : BLOCK;                                               \
      if (any_far(x + i, m))                                                                   \
        name##_fix(o + i, x + i, m);                                                           \
      else                                                                                     \
        name##_block(o + i, x + i, m);                                                         \
    }                                                                                          \
  }

TRIG(sin)
TRIG(cos)
TRIG(tan)
