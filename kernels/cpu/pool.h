/* pool.h - the row loops of pooling and resampling. Rows of results are made tap by tap, all
 * columns at once: the source of column i is src[i * stride]. */
#ifndef MT_CPU_POOL_H
#define MT_CPU_POOL_H

#include "../kernel.h"

struct mt_pool_table {
  /* Where the source is larger or NaN: best = source, pos = first + i * step. */
  void (*max_f32)(float *best, int32_t *pos, const float *src, int64_t stride, int64_t n,
                  int32_t first, int32_t step);
  void (*max_f64)(double *best, int64_t *pos, const double *src, int64_t stride, int64_t n,
                  int64_t first, int64_t step);
  /* acc[i] += src[i * stride] */
  void (*add_f32)(float *acc, const float *src, int64_t stride, int64_t n);
  void (*add_f64)(double *acc, const double *src, int64_t stride, int64_t n);
  /* dst[i * stride] += g[i] */
  void (*spread_f32)(float *dst, int64_t stride, const float *g, int64_t n);
  void (*spread_f64)(double *dst, int64_t stride, const double *g, int64_t n);
  /* the sum of n neighbours, in an order that depends on n alone */
  float (*sum_f32)(const float *src, int64_t n);
  double (*sum_f64)(const double *src, int64_t n);
  /* acc[i] += w * src[i] */
  void (*axpy_f32)(float *acc, const float *src, int64_t n, float w);
  void (*axpy_f64)(double *acc, const double *src, int64_t n, double w);
};

#endif
