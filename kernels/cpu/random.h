/* random.h - the loops of the random kernels that pay as vector code. All give the same bits on
 * every instruction set (rng.h). */
#ifndef MT_CPU_RANDOM_H
#define MT_CPU_RANDOM_H

#include "../kernel.h"

struct mt_random_table {
  /* The words of `n` counters, in order. */
  void (*words)(uint32_t *w, int64_t n, uint64_t seed, uint64_t counter);
  /* from + u * (to - from), below `to`. One word an element, two for f64. */
  void (*uniform_f32)(float *out, const uint32_t *w, int64_t n, float from, float to);
  void (*uniform_f64)(double *out, const uint32_t *w, int64_t n, double from, double to);
  /* n is even: elements come in pairs. One word an element, two for f64. */
  void (*normal_f32)(float *out, const uint32_t *w, int64_t n, float mean, float std);
  void (*normal_f64)(double *out, const uint32_t *w, int64_t n, double mean, double std);
  /* -log(u) / rate */
  void (*exponential_f32)(float *out, const uint32_t *w, int64_t n, float rate);
  void (*exponential_f64)(double *out, const uint32_t *w, int64_t n, double rate);
  /* y = x * scale where the element's word is not below the bound, else 0. One word an element. */
  void (*drop_f32)(float *y, const float *x, const uint32_t *w, int64_t n, uint32_t bound,
                   float scale);
  void (*drop_f64)(double *y, const double *x, const uint32_t *w, int64_t n, uint32_t bound,
                   double scale);
};

#endif
