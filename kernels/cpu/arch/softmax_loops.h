/* softmax_loops.h - the loops of softmax for one compute type; see ../softmax.h.
 *
 * Included by softmax_f32.c and softmax_f64.c with T, TI, MT_RFLOAT, MT_SMLOOPS (the name of the
 * table), EXP, LOG and, for f32, MT_RF32 defined. A row of -inf, or with +inf or NaN in it, gives
 * NaN, as the formula does. */
#include "runs.h"

#define IVDEP _Pragma("GCC ivdep")

extern const struct mt_softmax_loops MT_ISA_NAME(mt_softmax_f32), MT_ISA_NAME(mt_softmax_f64);

enum {
  PIECE = 512
}; /* elements whose exponentials are summed while they are in L1 */

/* out[i] = exp(x[i] - max), their sum returned. */
static double row_exp(const T *x, T *out, int64_t n, T max) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = n - i < PIECE ? n - i : PIECE;
    IVDEP for (int64_t j = 0; j < m; j++) out[i + j] = EXP(x[i + j] - max);
    sum += run_sum(out + i, m, false);
  }
  return sum;
}

static void row_softmax(const void *a, const void *b, void *o, int64_t n) {
  const T *x = a;
  T *out = o;
  (void)b;
  T scale = (T)(1 / row_exp(x, out, n, run_best(x, n, true)));
  for (int64_t i = 0; i < n; i++) out[i] *= scale;
}

static void row_log_softmax(const void *a, const void *b, void *o, int64_t n) {
  const T *x = a;
  T *out = o, e[PIECE], max = run_best(x, n, true);
  double sum = 0;
  (void)b;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = n - i < PIECE ? n - i : PIECE;
    for (int64_t j = 0; j < m; j++) e[j] = EXP(x[i + j] - max);
    sum += run_sum(e, m, false);
  }
  T log_sum = (T)LOG(sum);
  IVDEP for (int64_t i = 0; i < n; i++) out[i] = (x[i] - max) - log_sum;
}

/* y * (g - sum(g * y)) */
static void row_back(const void *a, const void *b, void *o, int64_t n) {
  const T *g = a, *y = b;
  T *out = o, t[PIECE];
  double dot = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = n - i < PIECE ? n - i : PIECE;
    for (int64_t j = 0; j < m; j++) t[j] = g[i + j] * y[i + j];
    dot += run_sum(t, m, false);
  }
  T d = (T)dot;
  IVDEP for (int64_t i = 0; i < n; i++) out[i] = (g[i] - d) * y[i];
}

/* g - exp(y) * sum(g) */
static void row_log_back(const void *a, const void *b, void *o, int64_t n) {
  const T *g = a, *y = b;
  T *out = o, sum = (T)run_sum(g, n, false);
  IVDEP for (int64_t i = 0; i < n; i++) out[i] = g[i] - EXP(y[i]) * sum;
}

static void masked_row(const void *xv, const void *mv, void *ov, int64_t n, int64_t visible,
                       bool additive) {
  const T *x = xv, *mask = mv;
  T *out = ov;
  if (mask && additive)
    IVDEP for (int64_t i = 0; i < visible; i++) out[i] = x[i] + mask[i];
  else if (mask)
    IVDEP for (int64_t i = 0; i < visible; i++) out[i] = mask[i] != 0 ? x[i] : -INFINITY;
  const T *from = mask ? out : x;
  T max = visible ? run_best(from, visible, true) : -INFINITY;
  if (max == -INFINITY) visible = 0;
  if (visible) {
    T scale = (T)(1 / row_exp(from, out, visible, max));
    for (int64_t i = 0; i < visible; i++) out[i] *= scale;
  }
  for (int64_t i = visible; i < n; i++) out[i] = 0;
}

/* ---- Columns ---- */

/* Rows far apart: the processor's own prefetching stops at the end of a page. Softmax of (4096,
 * 1024) along dim 0 runs two to three times as fast with it. */
INLINE void fetch_ahead(const T *row, int64_t step, int64_t left, int64_t cols) {
  enum {
    AHEAD = 3
  };
  if (left <= AHEAD) return;
  for (int64_t j = 0; j < cols; j += 64 / (int64_t)sizeof(T))
    __builtin_prefetch(row + AHEAD * step + j);
}

static void col_max(const T *x, int64_t xs, int64_t n, int64_t cols, T *max) {
  for (int64_t j = 0; j < cols; j++) max[j] = x[j];
  for (int64_t i = 1; i < n; i++) {
    const T *r = x + i * xs;
    fetch_ahead(r, xs, n - i, cols);
    for (int64_t j = 0; j < cols; j++) max[j] = (r[j] > max[j]) | IS_NAN(r[j]) ? r[j] : max[j];
  }
}

static void col_softmax(const void *a, int64_t as, const void *b, int64_t bs, void *o, int64_t os,
                        int64_t n, int64_t cols) {
  T max[MT_SM_COLS], scale[MT_SM_COLS];
  double sum[MT_SM_COLS];
  (void)b, (void)bs;
  col_max(a, as, n, cols, max);
  for (int64_t j = 0; j < cols; j++) sum[j] = 0;
  for (int64_t i = 0; i < n; i++) {
    const T *x = (const T *)a + i * as;
    T *out = (T *)o + i * os;
    fetch_ahead(x, as, n - i, cols);
    fetch_ahead(out, os, n - i, cols);
    IVDEP for (int64_t j = 0; j < cols; j++) out[j] = EXP(x[j] - max[j]);
    for (int64_t j = 0; j < cols; j++) sum[j] += out[j];
  }
  for (int64_t j = 0; j < cols; j++) scale[j] = (T)(1 / sum[j]);
  for (int64_t i = 0; i < n; i++) {
    T *out = (T *)o + i * os;
    fetch_ahead(out, os, n - i, cols);
    for (int64_t j = 0; j < cols; j++) out[j] *= scale[j];
  }
}

static void col_log_softmax(const void *a, int64_t as, const void *b, int64_t bs, void *o,
                            int64_t os, int64_t n, int64_t cols) {
  T max[MT_SM_COLS], e[MT_SM_COLS], log_sum[MT_SM_COLS];
  double sum[MT_SM_COLS];
  (void)b, (void)bs;
  col_max(a, as, n, cols, max);
  for (int64_t j = 0; j < cols; j++) sum[j] = 0;
  for (int64_t i = 0; i < n; i++) {
    const T *x = (const T *)a + i * as;
    fetch_ahead(x, as, n - i, cols);
    for (int64_t j = 0; j < cols; j++) e[j] = EXP(x[j] - max[j]);
    for (int64_t j = 0; j < cols; j++) sum[j] += e[j];
  }
  for (int64_t j = 0; j < cols; j++) log_sum[j] = (T)LOG(sum[j]);
  for (int64_t i = 0; i < n; i++) {
    const T *x = (const T *)a + i * as;
    T *out = (T *)o + i * os;
    fetch_ahead(x, as, n - i, cols);
    IVDEP for (int64_t j = 0; j < cols; j++) out[j] = (x[j] - max[j]) - log_sum[j];
  }
}

static void col_back(const void *a, int64_t as, const void *b, int64_t bs, void *o, int64_t os,
                     int64_t n, int64_t cols) {
  double dot[MT_SM_COLS];
  T d[MT_SM_COLS];
  for (int64_t j = 0; j < cols; j++) dot[j] = 0;
  for (int64_t i = 0; i < n; i++) {
    const T *g = (const T *)a + i * as, *y = (const T *)b + i * bs;
    fetch_ahead(g, as, n - i, cols);
    fetch_ahead(y, bs, n - i, cols);
    for (int64_t j = 0; j < cols; j++) dot[j] += g[j] * y[j];
  }
  for (int64_t j = 0; j < cols; j++) d[j] = (T)dot[j];
  for (int64_t i = 0; i < n; i++) {
    const T *g = (const T *)a + i * as, *y = (const T *)b + i * bs;
    T *out = (T *)o + i * os;
    fetch_ahead(g, as, n - i, cols);
    fetch_ahead(y, bs, n - i, cols);
    IVDEP for (int64_t j = 0; j < cols; j++) out[j] = (g[j] - d[j]) * y[j];
  }
}

static void col_log_back(const void *a, int64_t as, const void *b, int64_t bs, void *o, int64_t os,
                         int64_t n, int64_t cols) {
  double sum[MT_SM_COLS];
  T s[MT_SM_COLS];
  for (int64_t j = 0; j < cols; j++) sum[j] = 0;
  for (int64_t i = 0; i < n; i++) {
    const T *g = (const T *)a + i * as;
    fetch_ahead(g, as, n - i, cols);
    for (int64_t j = 0; j < cols; j++) sum[j] += g[j];
  }
  for (int64_t j = 0; j < cols; j++) s[j] = (T)sum[j];
  for (int64_t i = 0; i < n; i++) {
    const T *g = (const T *)a + i * as, *y = (const T *)b + i * bs;
    T *out = (T *)o + i * os;
    fetch_ahead(g, as, n - i, cols);
    fetch_ahead(y, bs, n - i, cols);
    IVDEP for (int64_t j = 0; j < cols; j++) out[j] = g[j] - EXP(y[j]) * s[j];
  }
}

/* ---- Cross entropy ---- */

static void stats_row(const void *xv, int64_t n, void *max_out, void *log_sum) {
  const T *x = xv;
  T e[PIECE], max = run_best(x, n, true);
  double sum = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t m = n - i < PIECE ? n - i : PIECE;
    for (int64_t j = 0; j < m; j++) e[j] = EXP(x[i + j] - max);
    sum += run_sum(e, m, false);
  }
  *(T *)max_out = max;
  *(T *)log_sum = (T)LOG(sum);
}

static void stats_col(const void *xv, int64_t xs, int64_t n, int64_t cols, void *max_out,
                      void *log_sum) {
  T *max = max_out, *ls = log_sum, e[MT_SM_COLS];
  double sum[MT_SM_COLS];
  col_max(xv, xs, n, cols, max);
  for (int64_t j = 0; j < cols; j++) sum[j] = 0;
  for (int64_t i = 0; i < n; i++) {
    const T *x = (const T *)xv + i * xs;
    fetch_ahead(x, xs, n - i, cols);
    for (int64_t j = 0; j < cols; j++) e[j] = EXP(x[j] - max[j]);
    for (int64_t j = 0; j < cols; j++) sum[j] += e[j];
  }
  for (int64_t j = 0; j < cols; j++) ls[j] = (T)LOG(sum[j]);
}

static void prob_row(const void *xv, void *ov, int64_t n, const void *max, const void *log_sum,
                     const void *scale) {
  const T *x = xv, m = *(const T *)max, l = *(const T *)log_sum, s = *(const T *)scale;
  T *out = ov;
  if (s == 0)
    for (int64_t i = 0; i < n; i++) out[i] = 0;
  else
    IVDEP for (int64_t i = 0; i < n; i++) out[i] = EXP((x[i] - m) - l) * s;
}

static void prob_col(const void *xv, int64_t xs, void *ov, int64_t os, int64_t n, int64_t cols,
                     const void *max, const void *log_sum, const void *scale) {
  const T *m = max, *l = log_sum, *s = scale;
  for (int64_t i = 0; i < n; i++) {
    const T *x = (const T *)xv + i * xs;
    T *out = (T *)ov + i * os;
    fetch_ahead(x, xs, n - i, cols);
    IVDEP for (int64_t j = 0; j < cols; j++) {
      T p = EXP((x[j] - m[j]) - l[j]) * s[j];
      out[j] = s[j] == 0 ? 0 : p;
    }
  }
}

const struct mt_softmax_loops MT_ISA_NAME(MT_SMLOOPS) = {
    {row_softmax, row_log_softmax, row_back, row_log_back},
    {col_softmax, col_log_softmax, col_back, col_log_back},
    masked_row,
    stats_row,
    stats_col,
    prob_row,
    prob_col,
};
