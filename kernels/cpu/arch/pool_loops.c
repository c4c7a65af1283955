/* pool_loops.c - see pool.h. Strides of 1 and 2 are constants, which makes vector loads of them. */
#include "../pool.h"

#include "../isa.h"

#define INLINE static inline __attribute__((always_inline))

#define BY_STRIDE(call)     \
  if (stride == 1) {        \
    call(1);                \
  } else if (stride == 2) { \
    call(2);                \
  } else {                  \
    call(stride);           \
  }

#define MAX(T, I, name)                                                                         \
  INLINE void name##_as(T *restrict best, I *restrict pos, const T *restrict src, int64_t s,    \
                        int64_t n, I first, I step) {                                           \
    for (I i = 0; i < (I)n; i++) {                                                              \
      T v = src[i * s], b = best[i];                                                            \
      I old = pos[i], here = first + i * step;                                                  \
      bool take = !(v <= b); /* larger, or one of them is NaN */                                \
      take = take & !((b != b) & (v == v));                                                     \
      best[i] = take ? v : b;                                                                   \
      pos[i] = take ? here : old;                                                               \
    }                                                                                           \
  }                                                                                             \
  static void name(T *best, I *pos, const T *src, int64_t stride, int64_t n, I first, I step) { \
    BY_STRIDE(name##_CALL)                                                                      \
  }
#define max_f32_CALL(s) max_f32_as(best, pos, src, s, n, first, step)
#define max_f64_CALL(s) max_f64_as(best, pos, src, s, n, first, step)
MAX(float, int32_t, max_f32)
MAX(double, int64_t, max_f64)

#define ADD(T, name)                                                                    \
  INLINE void name##_as(T *restrict acc, const T *restrict src, int64_t s, int64_t n) { \
    for (int64_t i = 0; i < n; i++) acc[i] += src[i * s];                               \
  }                                                                                     \
  static void name(T *acc, const T *src, int64_t stride, int64_t n) { BY_STRIDE(name##_CALL) }
#define add_f32_CALL(s) add_f32_as(acc, src, s, n)
#define add_f64_CALL(s) add_f64_as(acc, src, s, n)
ADD(float, add_f32)
ADD(double, add_f64)

#define SPREAD(T, name)                                                               \
  INLINE void name##_as(T *restrict dst, int64_t s, const T *restrict g, int64_t n) { \
    for (int64_t i = 0; i < n; i++) dst[i * s] += g[i];                               \
  }                                                                                   \
  static void name(T *dst, int64_t stride, const T *g, int64_t n) { BY_STRIDE(name##_CALL) }
#define spread_f32_CALL(s) spread_f32_as(dst, s, g, n)
#define spread_f64_CALL(s) spread_f64_as(dst, s, g, n)
SPREAD(float, spread_f32)
SPREAD(double, spread_f64)

#define SUM(T, name)                                      \
  static T name(const T *src, int64_t n) {                \
    T lane[16] = {0}, sum = 0;                            \
    int64_t i = 0;                                        \
    for (; i + 16 <= n; i += 16) {                        \
      for (int j = 0; j < 16; j++) lane[j] += src[i + j]; \
    }                                                     \
    for (; i < n; i++) sum += src[i];                     \
    for (int j = 0; j < 16; j++) sum += lane[j];          \
    return sum;                                           \
  }
SUM(float, sum_f32)
SUM(double, sum_f64)

#define AXPY(T, name)                                                        \
  static void name(T *restrict acc, const T *restrict src, int64_t n, T w) { \
    for (int64_t i = 0; i < n; i++) acc[i] += w * src[i];                    \
  }
AXPY(float, axpy_f32)
AXPY(double, axpy_f64)

const struct mt_pool_table MT_ISA_NAME(mt_pool_table) = {max_f32,    max_f64,    add_f32, add_f64,
                                                         spread_f32, spread_f64, sum_f32, sum_f64,
                                                         axpy_f32,   axpy_f64};
