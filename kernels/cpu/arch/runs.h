/* runs.h - vectors of one compute type, and the sum and the extreme value of a contiguous run.
 *
 * Included with T (float, double, int64_t), TI (the signed integer of its size), MT_RFLOAT (1 for
 * the floats) and, for float, MT_RF32 defined. The width follows the instruction set that the
 * object is compiled for; results may differ between instruction sets in the last bits, never
 * between calls. */
#ifndef MT_ARCH_RUNS_H
#define MT_ARCH_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define VBYTES 64
#elif defined(__AVX__)
#define VBYTES 32
#else
#define VBYTES 16
#endif
#define W ((int64_t)(VBYTES / sizeof(T)))
#define INLINE static inline __attribute__((always_inline))

#if MT_RFLOAT
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) ((x)&0)
#endif

typedef T vec __attribute__((vector_size(VBYTES)));
typedef TI ivec __attribute__((vector_size(VBYTES)));
typedef T uvec __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));

INLINE vec vload(const T *p) { return *(const uvec *)p; }
INLINE vec vset(T x) { return (vec){0} + x; }
INLINE vec vselect(ivec mask, vec a, vec b) { return (vec)((mask & (ivec)a) | (~mask & (ivec)b)); }

/* ---- The sum of a run (of integers: modulo 2^64, so unsigned) ---- */

/* Eight vectors are added as a tree, in their own type; what runs on is f64. That is as fast as
 * adding them up one by one, and the error stays at three roundings however long the block is. */

#if MT_RFLOAT
typedef T sum_t;
typedef double wide_t;
#else
typedef uint64_t sum_t;
typedef uint64_t wide_t;
#endif
typedef sum_t svec __attribute__((vector_size(VBYTES)));
typedef wide_t wvec __attribute__((vector_size(VBYTES)));
typedef struct wide { /* one lane for every lane of a vector of T */
  wvec low, high;
} wide;

#if !defined(MT_RF32)
INLINE void widen(wide *a, svec v) { a->low += v; }
#elif __GNUC__ >= 12 || defined(__clang__)
typedef double dvec __attribute__((vector_size(2 * VBYTES)));
#if VBYTES == 64
#define LOW(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#elif VBYTES == 32
#define LOW(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define HIGH(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#else
#define LOW(v) __builtin_shufflevector(v, v, 0, 1)
#define HIGH(v) __builtin_shufflevector(v, v, 2, 3)
#endif
/* A double-width vector that is only taken apart stays in registers; as an accumulator it does
 * not. */
INLINE void widen(wide *a, svec v) {
  dvec d = __builtin_convertvector(v, dvec);
  a->low += LOW(d);
  a->high += HIGH(d);
}
#else
INLINE void widen(wide *a, svec v) {
  for (int j = 0; j < W / 2; j++) a->low[j] += v[j], a->high[j] += v[j + W / 2];
}
#endif

/* Adds the lanes pairwise. */
INLINE wide_t vsum(const wide *a) {
  enum {
    N = VBYTES / sizeof(wide_t)
  };
  wvec v = a->low + a->high;
  wide_t t[N];
  __builtin_memcpy(t, &v, sizeof t);
  for (int h = N / 2; h > 0; h /= 2)
    for (int j = 0; j < h; j++) t[j] += t[j + h];
  return t[0];
}

INLINE svec term(const T *x, bool square) {
  svec v = (svec)vload(x);
  return square ? v * v : v;
}

INLINE wide_t run_sum(const T *x, int64_t n, bool square) {
  wide s = {{0}, {0}};
  svec rest = {0};
  wide_t tail = 0;
  int64_t i = 0;
  for (; i + 8 * W <= n; i += 8 * W) {
    svec t[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) t[j] = term(x + i + j * W, square);
    t[0] = ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
    widen(&s, t[0]);
  }
  if (i + W <= n) {
    for (; i + W <= n; i += W) rest += term(x + i, square);
    widen(&s, rest);
  }
  for (; i < n; i++) tail += square ? (wide_t)x[i] * (wide_t)x[i] : (wide_t)x[i];
  return n < W ? tail : vsum(&s) + tail;
}

/* ---- The largest or smallest of a run, n >= 1; NaN if there is one ---- */

INLINE T run_best(const T *x, int64_t n, bool max) {
  int64_t i = 0;
  T best = x[0];
  if (n >= W) {
    vec b0 = vload(x), b1 = b0;
    ivec nan = (ivec)IS_NAN(b0);
    for (; i + 2 * W <= n; i += 2 * W) {
      vec a = vload(x + i), b = vload(x + i + W);
      b0 = vselect(max ? a > b0 : a < b0, a, b0);
      b1 = vselect(max ? b > b1 : b < b1, b, b1);
      nan |= (ivec)IS_NAN(a) | (ivec)IS_NAN(b);
    }
    for (; i + W <= n; i += W) {
      vec a = vload(x + i);
      b0 = vselect(max ? a > b0 : a < b0, a, b0);
      nan |= (ivec)IS_NAN(a);
    }
    b0 = vselect(max ? b1 > b0 : b1 < b0, b1, b0);
    best = b0[0];
    for (int64_t j = 0; j < W; j++) {
      if (max ? b0[j] > best : b0[j] < best) best = b0[j];
#if MT_RFLOAT
      if (nan[j]) return (T)__builtin_nan("");
#endif
    }
  }
  for (; i < n; i++) {
    if (IS_NAN(x[i])) return x[i];
    if (max ? x[i] > best : x[i] < best) best = x[i];
  }
  return best;
}

/* ---- Mean and sum of squared distances from it, n >= 1 ---- */

#if MT_RFLOAT
/* Two passes over data that is in cache; what the rounded mean is off by is put right. */
INLINE void run_moments(const T *x, int64_t n, double *mean, double *m2) {
  T rounded = (T)(run_sum(x, n, false) / (double)n);
  vec m = vset(rounded);
  wide dw = {{0}, {0}}, qw = {{0}, {0}};
  double d = 0, q = 0;
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    vec a = vload(x + i) - m, b = vload(x + i + W) - m;
    vec c = vload(x + i + 2 * W) - m, e = vload(x + i + 3 * W) - m;
    widen(&dw, (a + b) + (c + e));
    widen(&qw, (a * a + b * b) + (c * c + e * e));
  }
  for (; i + W <= n; i += W) {
    vec a = vload(x + i) - m;
    widen(&dw, a);
    widen(&qw, a * a);
  }
  for (; i < n; i++) {
    double e = (double)x[i] - rounded;
    d += e;
    q += e * e;
  }
  if (n >= W) {
    d += vsum(&dw);
    q += vsum(&qw);
  }
  *mean = rounded + d / (double)n;
  *m2 = q - d * (d / (double)n);
}
#endif

#endif
