/* norm_loops.h - the loops of the normalisations for one compute type; see ../norm.h.
 *
 * Included by norm_f32.c and norm_f64.c with T, TI, MT_RFLOAT, MT_NORMLOOPS (the name of the table)
 * and, for f32, MT_RF32 defined. Products that have to be summed are put into a short array first:
 * it stays in L1, and the sum is the blocked one of runs.h. */
#include "runs.h"

extern const struct mt_norm_loops MT_ISA_NAME(mt_norm_f32), MT_ISA_NAME(mt_norm_f64);

enum {
  PIECE = 512
};

static void moments(const void *x, int64_t n, double *mean, double *m2) {
  run_moments(x, n, mean, m2);
}

static double squares(const void *x, int64_t n) { return run_sum(x, n, true); }

static void scale_vec(const void *xv, void *yv, int64_t n, double mean, double scale,
                      const void *wv, const void *bv) {
  const T *restrict x = xv, *restrict w = wv, *restrict b = bv;
  T *restrict y = yv;
  T m = (T)mean, s = (T)scale, low = (T)((m - mean) * scale);
  if (w && b)
    for (int64_t i = 0; i < n; i++) y[i] = ((x[i] - m) * s + low) * w[i] + b[i];
  else if (w)
    for (int64_t i = 0; i < n; i++) y[i] = ((x[i] - m) * s + low) * w[i];
  else if (b)
    for (int64_t i = 0; i < n; i++) y[i] = ((x[i] - m) * s + low) + b[i];
  else
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * s + low;
}

static void scale_one(const void *xv, void *yv, int64_t n, double mean, double scale,
                      double shift) {
  const T *restrict x = xv;
  T *restrict y = yv;
  T m = (T)mean, s = (T)scale, b = (T)(shift + (m - mean) * scale);
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * s + b;
}

static void scale_each(const void *xv, void *yv, int64_t n, const void *mv, const void *sv,
                       const void *bv) {
  const T *restrict x = xv, *restrict m = mv, *restrict s = sv, *restrict b = bv;
  T *restrict y = yv;
  for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m[i]) * s[i] + b[i];
}

static void dots_vec(const void *gv, const void *xv, int64_t n, double mean, double rstd,
                     const void *wv, void *dwv, void *dbv, double *sums) {
  const T *restrict g = gv, *restrict x = xv, *restrict w = wv;
  T *restrict dw = dwv, *restrict db = dbv;
  T t[PIECE], u[PIECE], m = (T)mean, r = (T)rstd;
  sums[0] = sums[1] = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t c = n - i < PIECE ? n - i : PIECE;
    for (int64_t j = 0; j < c; j++) {
      T h = (x[i + j] - m) * r, gj = g[i + j];
      T a = w ? gj * w[i + j] : gj;
      t[j] = a;
      u[j] = a * h;
      dw[i + j] += gj * h;
      db[i + j] += gj;
    }
    sums[0] += run_sum(t, c, false);
    sums[1] += run_sum(u, c, false);
  }
}

static void dots_one(const void *gv, const void *xv, int64_t n, double mean, double *sums) {
  const T *g = gv, *x = xv;
  T t[PIECE], m = (T)mean;
  sums[0] = sums[1] = 0;
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t c = n - i < PIECE ? n - i : PIECE;
    for (int64_t j = 0; j < c; j++) t[j] = g[i + j] * (x[i + j] - m);
    sums[0] += run_sum(g + i, c, false);
    sums[1] += run_sum(t, c, false);
  }
}

static void dots_each(const void *gv, const void *xv, int64_t n, const void *mv, void *sgv,
                      void *shv) {
  const T *restrict g = gv, *restrict x = xv, *restrict m = mv;
  T *restrict sg = sgv, *restrict sh = shv;
  for (int64_t i = 0; i < n; i++) {
    sg[i] += g[i];
    sh[i] += g[i] * (x[i] - m[i]);
  }
}

static void back_vec(const void *gv, const void *xv, void *ov, int64_t n, double mean, double rstd,
                     const void *wv, double c0, double c1) {
  const T *restrict g = gv, *restrict x = xv, *restrict w = wv;
  T *restrict out = ov;
  T m = (T)mean, r = (T)rstd, a = (T)(rstd * c0), b = (T)(rstd * rstd * c1);
  if (w)
    for (int64_t i = 0; i < n; i++) out[i] = g[i] * w[i] * r - (x[i] - m) * b - a;
  else
    for (int64_t i = 0; i < n; i++) out[i] = g[i] * r - (x[i] - m) * b - a;
}

static void back_one(const void *gv, const void *xv, void *ov, int64_t n, double mean, double ga,
                     double xb, double c) {
  const T *restrict g = gv, *restrict x = xv;
  T *restrict out = ov;
  T m = (T)mean, a = (T)ga, b = (T)xb, d = (T)c;
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * a + (x[i] - m) * b + d;
}

static void back_each(const void *gv, const void *xv, void *ov, int64_t n, const void *mv,
                      const void *av, const void *bv, const void *cv) {
  const T *restrict g = gv, *restrict x = xv, *restrict m = mv, *restrict a = av;
  const T *restrict b = bv, *restrict c = cv;
  T *restrict out = ov;
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * a[i] + (x[i] - m[i]) * b[i] + c[i];
}

const struct mt_norm_loops MT_ISA_NAME(MT_NORMLOOPS) = {
    moments,  squares,   scale_vec, scale_one, scale_each, dots_vec,
    dots_one, dots_each, back_vec,  back_one,  back_each,
};
