/* reduce_loops.h - the loops over one block of a reduction, for one compute type.
 *
 * Included by reduce_f32.c, reduce_f64.c and reduce_i64.c with T (the type), TI (the signed
 * integer of its size), MT_RFLOAT (1 for the floats), MT_RLOOPS (the name of its table), EXP (for
 * the floats) and, for f32, MT_RF32 defined. Along a row, sums run
 * in eight vectors; down columns, the loops run over the columns and the compiler vectorises
 * them. What each function promises stands at mt_rrow_fn and mt_rcol_fn. */

extern const struct mt_reduce_loops MT_ISA_NAME(mt_reduce_f32), MT_ISA_NAME(mt_reduce_f64),
    MT_ISA_NAME(mt_reduce_i64);

#include "runs.h"

/* ---- Sums ---- */

INLINE void cols_sum(const T *xv, int64_t stride, int64_t rows, int64_t cols, sum_t *restrict s,
                     bool square) {
  const sum_t *x = (const sum_t *)xv;
  int64_t i = 0;
  for (int64_t j = 0; j < cols; j++) s[j] = 0;
  for (; i + 8 <= rows; i += 8, x += 8 * stride) {
    const sum_t *a = x, *b = a + stride, *c = b + stride, *d = c + stride;
    const sum_t *e = d + stride, *f = e + stride, *g = f + stride, *h = g + stride;
    if (square)
      for (int64_t j = 0; j < cols; j++)
        s[j] += ((a[j] * a[j] + b[j] * b[j]) + (c[j] * c[j] + d[j] * d[j])) +
                ((e[j] * e[j] + f[j] * f[j]) + (g[j] * g[j] + h[j] * h[j]));
    else
      for (int64_t j = 0; j < cols; j++)
        s[j] += ((a[j] + b[j]) + (c[j] + d[j])) + ((e[j] + f[j]) + (g[j] + h[j]));
  }
  for (; i < rows; i++, x += stride)
    for (int64_t j = 0; j < cols; j++) s[j] += square ? x[j] * x[j] : x[j];
}

INLINE void add(mt_racc *a, wide_t v) {
#if MT_RFLOAT
  mt_racc_add(a, v);
#else
  a->i = (int64_t)((uint64_t)a->i + v);
#endif
}

static void row_sum(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  (void)first;
  add(acc, run_sum(x, n, false));
}

static void col_sum(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                    mt_racc *acc) {
  sum_t s[MT_RCOLS];
  (void)first;
  cols_sum(x, stride, rows, cols, s, false);
  for (int64_t j = 0; j < cols; j++) add(&acc[j], s[j]);
}

/* ---- How many are not zero ---- */

static void row_count(const void *xv, int64_t n, int64_t first, mt_racc *acc) {
  const T *x = xv;
  ivec c0 = {0}, c1 = {0};
  int64_t i = 0, count = 0;
  (void)first;
  for (; i + 2 * W <= n; i += 2 * W) {
    c0 += vload(x + i) != vset(0);
    c1 += vload(x + i + W) != vset(0);
  }
  c0 += c1;
  for (int64_t j = 0; j < W; j++) count -= c0[j];
  for (; i < n; i++) count += x[i] != 0;
  acc->i += count;
}

static void col_count(const void *xv, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                      mt_racc *acc) {
  const T *x = xv;
  TI s[MT_RCOLS];
  (void)first;
  for (int64_t j = 0; j < cols; j++) s[j] = 0;
  for (int64_t i = 0; i < rows; i++, x += stride)
    for (int64_t j = 0; j < cols; j++) s[j] += x[j] != 0;
  for (int64_t j = 0; j < cols; j++) acc[j].i += s[j];
}

/* ---- Extreme values ---- */

INLINE bool better(bool max, T v, const mt_racc *a) {
#if MT_RFLOAT
  return mt_racc_better(max, v, a);
#else
  return a->pos < 0 || (max ? v > a->i : v < a->i);
#endif
}

INLINE void take(mt_racc *a, T v, int64_t pos) {
#if MT_RFLOAT
  a->f = v;
#else
  a->i = v;
#endif
  a->pos = pos;
}

/* The first position of v (of any NaN when v is one); it is there. */
static int64_t find(const T *x, int64_t n, T v) {
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    vec a = vload(x + i), b = vload(x + i + W);
    ivec hit = IS_NAN(v) ? (ivec)IS_NAN(a) | (ivec)IS_NAN(b) : (a == vset(v)) | (b == vset(v));
    TI any = 0;
    for (int64_t j = 0; j < W; j++) any |= hit[j];
    if (any) break;
  }
  while (i < n - 1 && !(x[i] == v || (IS_NAN(v) && IS_NAN(x[i])))) i++;
  return i;
}

INLINE void row_best(const T *x, int64_t n, int64_t first, mt_racc *acc, bool max, bool where) {
  T v = run_best(x, n, max);
  if (better(max, v, acc)) take(acc, v, where ? first + find(x, n, v) : first);
}

INLINE void col_best(const T *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                     mt_racc *acc, bool max) {
  T best[MT_RCOLS];
  for (int64_t j = 0; j < cols; j++) best[j] = x[j];
  for (int64_t i = 1; i < rows; i++) {
    const T *y = x + i * stride;
    for (int64_t j = 0; j < cols; j++) {
      bool win = (max ? y[j] > best[j] : y[j] < best[j]) | IS_NAN(y[j]);
      best[j] = win ? y[j] : best[j];
    }
  }
  for (int64_t j = 0; j < cols; j++)
    if (better(max, best[j], &acc[j])) take(&acc[j], best[j], first);
}

INLINE void col_arg(const T *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                    mt_racc *acc, bool max) {
  T best[MT_RCOLS];
  TI at[MT_RCOLS];
  for (int64_t j = 0; j < cols; j++) best[j] = x[j], at[j] = 0;
  for (int64_t i = 1; i < rows; i++) {
    const T *y = x + i * stride;
    for (int64_t j = 0; j < cols; j++) {
      T v = y[j], b = best[j];
      bool win = (max ? v > b : v < b) | (IS_NAN(v) & !IS_NAN(b));
      best[j] = win ? v : b;
      at[j] = win ? (TI)i : at[j];
    }
  }
  for (int64_t j = 0; j < cols; j++)
    if (better(max, best[j], &acc[j])) take(&acc[j], best[j], first + at[j]);
}

static void row_max(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  row_best(x, n, first, acc, true, false);
}
static void row_min(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  row_best(x, n, first, acc, false, false);
}
static void row_argmax(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  row_best(x, n, first, acc, true, true);
}
static void row_argmin(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  row_best(x, n, first, acc, false, true);
}
static void col_max(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                    mt_racc *acc) {
  col_best(x, stride, rows, cols, first, acc, true);
}
static void col_min(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                    mt_racc *acc) {
  col_best(x, stride, rows, cols, first, acc, false);
}
static void col_argmax(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                       mt_racc *acc) {
  col_arg(x, stride, rows, cols, first, acc, true);
}
static void col_argmin(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                       mt_racc *acc) {
  col_arg(x, stride, rows, cols, first, acc, false);
}

/* ---- Products (f32 is multiplied in f64) ---- */

#if !defined(MT_RF32)
static void row_prod(const void *xv, int64_t n, int64_t first, mt_racc *acc) {
  const T *x = xv;
  sum_t p[4] = {1, 1, 1, 1};
  int64_t i = 0;
  (void)first;
  for (; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; j++) p[j] *= (sum_t)x[i + j];
  for (; i < n; i++) p[0] *= (sum_t)x[i];
#if MT_RFLOAT
  acc->f *= (p[0] * p[1]) * (p[2] * p[3]);
#else
  acc->i = (int64_t)((uint64_t)acc->i * (p[0] * p[1]) * (p[2] * p[3]));
#endif
}

static void col_prod(const void *xv, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                     mt_racc *acc) {
  const T *x = xv;
  sum_t p[MT_RCOLS];
  (void)first;
  for (int64_t j = 0; j < cols; j++) p[j] = (sum_t)x[j];
  for (int64_t i = 1; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) p[j] *= (sum_t)x[i * stride + j];
  for (int64_t j = 0; j < cols; j++) {
#if MT_RFLOAT
    acc[j].f *= p[j];
#else
    acc[j].i = (int64_t)((uint64_t)acc[j].i * p[j]);
#endif
  }
}
#endif

/* ---- Sums of squares, variance, logsumexp: floats only ---- */

#if MT_RFLOAT
static void row_sumsq(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  (void)first;
  add(acc, run_sum(x, n, true));
}

static void col_sumsq(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                      mt_racc *acc) {
  sum_t s[MT_RCOLS];
  (void)first;
  cols_sum(x, stride, rows, cols, s, true);
  for (int64_t j = 0; j < cols; j++) add(&acc[j], s[j]);
}

static void row_var(const void *x, int64_t n, int64_t first, mt_racc *acc) {
  double mean, m2;
  (void)first;
  run_moments(x, n, &mean, &m2);
  mt_racc_var(acc, (double)n, mean, m2);
}

static void col_var(const void *xv, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                    mt_racc *acc) {
  const T *x = xv;
  T mean[MT_RTILE], d[MT_RTILE], q[MT_RTILE];
  (void)first;
  cols_sum(x, stride, rows, cols, mean, false);
  for (int64_t j = 0; j < cols; j++) mean[j] /= (T)rows, d[j] = q[j] = 0;
  for (int64_t i = 0; i < rows; i++, x += stride)
    for (int64_t j = 0; j < cols; j++) {
      T e = x[j] - mean[j];
      d[j] += e;
      q[j] += e * e;
    }
  for (int64_t j = 0; j < cols; j++) {
    double shift = (double)d[j] / (double)rows;
    mt_racc_var(&acc[j], (double)rows, mean[j] + shift, q[j] - d[j] * shift);
  }
}

static void row_lse(const void *xv, int64_t n, int64_t first, mt_racc *acc) {
  const T *x = xv;
  T max = run_best(x, n, true);
  double sum = 0;
  (void)first;
  if (__builtin_isfinite(max)) {
    T e[256];
    for (int64_t i = 0; i < n; i += 256) {
      int64_t m = n - i < 256 ? n - i : 256;
      for (int64_t j = 0; j < m; j++) e[j] = EXP(x[i + j] - max);
      sum += run_sum(e, m, false);
    }
  } else {
    sum = max > 0; /* +inf: infinite whatever the others are; -inf: nothing there */
  }
  mt_racc_lse(acc, max, sum);
}

static void col_lse(const void *xv, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                    mt_racc *acc) {
  const T *x = xv;
  T max[MT_RTILE], shift[MT_RTILE], sum[MT_RTILE];
  (void)first;
  for (int64_t j = 0; j < cols; j++) max[j] = x[j];
  for (int64_t i = 1; i < rows; i++) {
    const T *y = x + i * stride;
    for (int64_t j = 0; j < cols; j++) max[j] = (y[j] > max[j]) | IS_NAN(y[j]) ? y[j] : max[j];
  }
  for (int64_t j = 0; j < cols; j++) {
    shift[j] = max[j] - max[j] == 0 ? max[j] : 0; /* an infinite one would make NaN */
    sum[j] = 0;
  }
  for (int64_t i = 0; i < rows; i++) {
    const T *y = x + i * stride;
    for (int64_t j = 0; j < cols; j++) sum[j] += EXP(y[j] - shift[j]);
  }
  for (int64_t j = 0; j < cols; j++)
    mt_racc_lse(&acc[j], max[j], max[j] - max[j] == 0 ? sum[j] : max[j] > 0);
}
#endif

const struct mt_reduce_loops MT_ISA_NAME(MT_RLOOPS) = {
    .row =
        {
            [MT_R_SUM] = row_sum,
            [MT_R_COUNT] = row_count,
            [MT_R_MAX] = row_max,
            [MT_R_MIN] = row_min,
            [MT_R_ARGMAX] = row_argmax,
            [MT_R_ARGMIN] = row_argmin,
#if MT_RFLOAT
            [MT_R_SUMSQ] = row_sumsq,
            [MT_R_VAR] = row_var,
            [MT_R_LSE] = row_lse,
#endif
#if !defined(MT_RF32)
            [MT_R_PROD] = row_prod,
#endif
        },
    .col =
        {
            [MT_R_SUM] = col_sum,
            [MT_R_COUNT] = col_count,
            [MT_R_MAX] = col_max,
            [MT_R_MIN] = col_min,
            [MT_R_ARGMAX] = col_argmax,
            [MT_R_ARGMIN] = col_argmin,
#if MT_RFLOAT
            [MT_R_SUMSQ] = col_sumsq,
            [MT_R_VAR] = col_var,
            [MT_R_LSE] = col_lse,
#endif
#if !defined(MT_RF32)
            [MT_R_PROD] = col_prod,
#endif
        },
};
