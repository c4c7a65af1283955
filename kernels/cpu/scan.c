/* scan.c - running results along a dim: cumsum, cumprod, logcumsumexp, cummax, cummin.
 *
 * Floats run on in f64 and are rounded once per element, integers wrap. A run is one chain from
 * its first element to its last, so the bits do not depend on the thread count.
 *
 * Arguments: (x, dim, ...). The result's dtype decides what is computed (integers: i64). cummax
 * and cummin have values and positions as results; the last of ties is named, and once a NaN was
 * met it stays. */
#include <math.h>

#include "along.h"
#include "isa.h"

enum {
  GRAIN = 1 << 15
}; /* elements worth a thread */

/* A running value s of type A, begun with `init`; `step` takes x into it. */
#define SCAN(name, T, A, init, step)                                                            \
  static void name##_row(void *ctx, char *const *at, int64_t run, int64_t n) {                  \
    const T *in = (const T *)at[0];                                                             \
    T *out = (T *)at[1];                                                                        \
    A s = init;                                                                                 \
    (void)ctx, (void)run;                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                           \
      A x = (A)in[i];                                                                           \
      s = step;                                                                                 \
      out[i] = (T)s;                                                                            \
    }                                                                                           \
  }                                                                                             \
  static void name##_col(void *ctx, char *const *at, const int64_t *by, int64_t run, int64_t n, \
                         int64_t cols) {                                                        \
    A acc[MT_ALONG_COLS];                                                                       \
    (void)ctx, (void)run;                                                                       \
    for (int64_t j = 0; j < cols; j++) acc[j] = init;                                           \
    for (int64_t i = 0; i < n; i++) {                                                           \
      const T *in = (const T *)at[0] + i * by[0];                                               \
      T *out = (T *)at[1] + i * by[1];                                                          \
      for (int64_t j = 0; j < cols; j++) {                                                      \
        A x = (A)in[j], s = acc[j];                                                             \
        acc[j] = step;                                                                          \
        out[j] = (T)acc[j];                                                                     \
      }                                                                                         \
    }                                                                                           \
  }

/* log(exp(s) + exp(x)) */
static double log_add(double s, double x) {
  double high = s > x || s != s ? s : x, low = s > x || s != s ? x : s;
  if (high != high || low != low) return NAN;
  if (isinf(high)) return high;
  return high + log1p(exp(low - high));
}

SCAN(sum_f32, float, double, 0, s + x)
SCAN(sum_f64, double, double, 0, s + x)
SCAN(sum_i64, int64_t, uint64_t, 0, s + x)
SCAN(prod_f32, float, double, 1, s *x)
SCAN(prod_f64, double, double, 1, s *x)
SCAN(prod_i64, int64_t, uint64_t, 1, s *x)
SCAN(lse_f32, float, double, -INFINITY, log_add(s, x))
SCAN(lse_f64, double, double, -INFINITY, log_add(s, x))

typedef struct scan {
  mt_along_row_fn row[MT_LANES];
  mt_along_col_fn col[MT_LANES];
} scan;
static const scan sums = {{sum_f32_row, sum_f64_row, sum_i64_row},
                          {sum_f32_col, sum_f64_col, sum_i64_col}};
static const scan prods = {{prod_f32_row, prod_f64_row, prod_i64_row},
                           {prod_f32_col, prod_f64_col, prod_i64_col}};
static const scan lses = {{lse_f32_row, lse_f64_row, NULL}, {lse_f32_col, lse_f64_col, NULL}};

/* Complex numbers are rare: one plain loop along every run, pairs of floats. */
static void complex_run(const mt_kargs *k, int dim, bool product) {
  const mt_view *x = k->in[0], *y = k->out[0];
  int64_t n = x->ndim ? x->size[dim] : 1, size = (int64_t)sizeof(mt_c64);
  mt_walk w;
  mt_cursor c;
  mt_walk_begin(&w, 2);
  for (int d = 0; d < x->ndim; d++) {
    int64_t s[2] = {x->stride[d] * size, y->stride[d] * size};
    if (d != dim) mt_walk_dim(&w, x->size[d], s);
  }
  mt_walk_end(&w);
  mt_cursor_seek(&w, &c, 0, w.numel);
  while (mt_cursor_next(&w, &c)) {
    for (int64_t r = 0; r < c.n; r++) {
      const char *in = x->data + c.off[0] + r * w.step[0];
      char *out = y->data + c.off[1] + r * w.step[1];
      double re = product ? 1 : 0, im = 0;
      for (int64_t i = 0; i < n; i++) {
        const mt_c64 *z = (const mt_c64 *)(in + i * (x->ndim ? x->stride[dim] : 0) * size);
        double a = product ? re * z->re - im * z->im : re + z->re;
        im = product ? re * z->im + im * z->re : im + z->im;
        re = a;
        *(mt_c64 *)(out + i * (x->ndim ? y->stride[dim] : 0) * size) =
            (mt_c64){(float)re, (float)im};
      }
    }
  }
}

/* The type to compute in: as for sums. */
static mt_lane lane_for(mt_dtype in, mt_dtype out) {
  if (!mt_dtype_is_float(out)) return MT_LI64;
  return out == MT_F64 || in == MT_F64 || !mt_dtype_is_float(in) ? MT_LF64 : MT_LF32;
}

static void plan(mt_along *a, const mt_kargs *k, const scan *s) {
  mt_lane lane = lane_for((mt_dtype)k->in[0]->dtype, (mt_dtype)k->out[0]->dtype);
  mt_along_begin(a, k, NULL, s->row[lane], s->col[lane]);
  mt_along_add(a, k->in[0], lane, false);
  mt_along_add(a, k->out[0], lane, true);
  mt_along_plan(a, 1u << MT_KARG_INT(k, 1));
}

static int run(const mt_kargs *k, const scan *s) {
  mt_along a;
  if (k->in[0]->dtype == MT_C64) {
    if (s == &lses || k->out[0]->dtype != MT_C64) return MT_NOKERNEL;
    complex_run(k, (int)MT_KARG_INT(k, 1), s == &prods);
    return MT_OK;
  }
  plan(&a, k, s);
  mt_along_run(&a, k->scratch, GRAIN);
  return MT_OK;
}

static size_t query(const mt_kargs *k, const scan *s) {
  mt_along a;
  if (k->in[0]->dtype == MT_C64) return 0;
  plan(&a, k, s);
  return mt_along_scratch(&a);
}

int mt_cpu_cumsum(const mt_kargs *k) { return run(k, &sums); }
size_t mt_cpu_cumsum_scratch(const mt_kargs *k) { return query(k, &sums); }
int mt_cpu_cumprod(const mt_kargs *k) { return run(k, &prods); }
size_t mt_cpu_cumprod_scratch(const mt_kargs *k) { return query(k, &prods); }
int mt_cpu_logcumsumexp(const mt_kargs *k) { return run(k, &lses); }
size_t mt_cpu_logcumsumexp_scratch(const mt_kargs *k) { return query(k, &lses); }

/* ---- cummax, cummin ---- */

typedef struct extreme {
  bool max;
  int64_t base;
} extreme;

#define EXTREME(name, T)                                                 \
  static void name(void *ctx, char *const *at, int64_t run, int64_t n) { \
    const extreme *e = ctx;                                              \
    const T *in = (const T *)at[0];                                      \
    T *values = (T *)at[1];                                              \
    int64_t *positions = (int64_t *)at[2], where = 0;                    \
    T best = in[0];                                                      \
    (void)run;                                                           \
    for (int64_t i = 0; i < n; i++) {                                    \
      bool nan = !(in[i] >= in[i]), stuck = !(best >= best);             \
      if (nan || (!stuck && (e->max ? in[i] >= best : in[i] <= best))) { \
        best = in[i];                                                    \
        where = i;                                                       \
      }                                                                  \
      values[i] = best;                                                  \
      positions[i] = where + e->base;                                    \
    }                                                                    \
  }
EXTREME(extreme_f32, float)
EXTREME(extreme_f64, double)
EXTREME(extreme_i64, int64_t)

static void plan_extreme(mt_along *a, extreme *e, const mt_kargs *k, bool max) {
  static const mt_along_row_fn rows[MT_LANES] = {extreme_f32, extreme_f64, extreme_i64};
  mt_lane lane = mt_lane_of((mt_dtype)k->in[0]->dtype);
  *e = (extreme){max, k->index_base};
  mt_along_begin(a, k, e, rows[lane], NULL);
  mt_along_add(a, k->in[0], lane, false);
  mt_along_add(a, k->out[0], lane, true);
  mt_along_add(a, k->out[1], MT_LI64, true);
  mt_along_plan(a, 1u << MT_KARG_INT(k, 1));
}

#define CUMULATIVE(name, max)                         \
  int mt_cpu_##name(const mt_kargs *k) {              \
    mt_along a;                                       \
    extreme e;                                        \
    plan_extreme(&a, &e, k, max);                     \
    mt_along_run(&a, k->scratch, GRAIN);              \
    return MT_OK;                                     \
  }                                                   \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) { \
    mt_along a;                                       \
    extreme e;                                        \
    plan_extreme(&a, &e, k, max);                     \
    return mt_along_scratch(&a);                      \
  }
CUMULATIVE(cummax, true)
CUMULATIVE(cummin, false)
