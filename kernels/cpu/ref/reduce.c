/* reduce.c - plain reductions; see ../reductions.c for the arguments.
 *
 * For every result, a loop over the elements that belong to it, in row-major order. */
#include <math.h>

#include "ref.h"

typedef struct group { /* the elements of one result, in row-major order */
  const mt_view *x;
  unsigned mask;
  int64_t kept[MT_MAX_DIM]; /* coordinates in the dims that are kept */
} group;

static unsigned dims_of(const mt_kargs *k, int arg) {
  const mt_value *v = &k->arg[arg];
  unsigned mask = 0;
  if (v->kind == MT_INT) return 1u << v->u.i;
  if (v->kind != MT_INTS || v->n == 0) return ~0u;
  for (int i = 0; i < v->n; i++) mask |= 1u << v->u.ints[i];
  return mask;
}

static group group_of(const mt_kargs *k, int dims, int64_t result) {
  group g = {.x = k->in[0], .mask = dims_of(k, dims)};
  for (int d = g.x->ndim - 1; d >= 0; d--) {
    if (g.mask >> d & 1) continue;
    g.kept[d] = result % g.x->size[d];
    result /= g.x->size[d];
  }
  return g;
}

static int64_t count_of(const group *g) {
  int64_t n = 1;
  for (int d = 0; d < g->x->ndim; d++)
    if (g->mask >> d & 1) n *= g->x->size[d];
  return n;
}

/* Element number (*p)++ of the group; false when there is none. */
static bool next(const group *g, int64_t *p, mt_num *x, int64_t *position) {
  int64_t at[MT_MAX_DIM], rest = *p;
  if (rest >= count_of(g)) return false;
  for (int d = g->x->ndim - 1; d >= 0; d--) {
    at[d] = g->kept[d];
    if (!(g->mask >> d & 1)) continue;
    at[d] = rest % g->x->size[d];
    rest /= g->x->size[d];
  }
  int64_t here = mt_ref_position(g->x, at);
  *x = mt_ref_load(g->x, here);
  if (position) *position = here;
  ++*p;
  return true;
}

/* A sum of integers wraps as the fast one does. */
static mt_num total(const group *g, bool skip_nan) {
  int64_t p = 0, at;
  bool whole = mt_dtype_category((mt_dtype)g->x->dtype) <= MT_CAT_INT;
  uint64_t wrapped = 0;
  mt_num x, sum = {0, 0};
  while (next(g, &p, &x, &at)) {
    if (skip_nan && isnan(x.re)) continue;
    sum.re += x.re;
    sum.im += x.im;
    if (whole) wrapped += (uint64_t)mt_ref_int(g->x, at);
  }
  if (whole) sum.re = (long double)(int64_t)wrapped;
  return sum;
}

#define EACH(k, dims, ...)                           \
  for (int64_t r = 0; r < (k)->out[0]->numel; r++) { \
    group g = group_of(k, dims, r);                  \
    __VA_ARGS__;                                     \
  }                                                  \
  return MT_OK

int mt_ref_sum(const mt_kargs *k) { EACH(k, 1, mt_ref_store(k->out[0], r, total(&g, false))); }
int mt_ref_nansum(const mt_kargs *k) { EACH(k, 1, mt_ref_store(k->out[0], r, total(&g, true))); }

static mt_num mean(const group *g) {
  mt_num s = total(g, false);
  long double n = (long double)count_of(g);
  return (mt_num){s.re / n, s.im / n};
}
int mt_ref_mean(const mt_kargs *k) { EACH(k, 1, mt_ref_store(k->out[0], r, mean(&g))); }

static mt_num product(const group *g) {
  int64_t p = 0, at;
  uint64_t wrapped = 1;
  bool whole = mt_dtype_category((mt_dtype)g->x->dtype) <= MT_CAT_INT;
  mt_num x, y = {1, 0};
  while (next(g, &p, &x, &at)) {
    y = (mt_num){y.re * x.re - y.im * x.im, y.re * x.im + y.im * x.re};
    if (whole) wrapped *= (uint64_t)mt_ref_int(g->x, at);
  }
  return whole ? (mt_num){(long double)(int64_t)wrapped, 0} : y;
}
int mt_ref_prod(const mt_kargs *k) { EACH(k, 1, mt_ref_store(k->out[0], r, product(&g))); }

/* The extreme value; *at: its number among the elements of the group. */
static mt_num extreme(const group *g, bool max, int64_t *at) {
  int64_t p = 0, n = 0;
  mt_num x, best = {0, 0};
  *at = -1;
  for (; next(g, &p, &x, NULL); n++) {
    bool better = *at < 0 || (isnan(x.re) ? !isnan(best.re)
                              : max       ? x.re > best.re
                                          : x.re < best.re);
    if (!better) continue;
    best = x;
    *at = n;
  }
  return best;
}

static int best(const mt_kargs *k, bool max, const mt_view *values, const mt_view *positions) {
  EACH(k, 1, {
    int64_t at;
    mt_num v = extreme(&g, max, &at);
    if (at < 0) return MT_ERROR;
    if (values) mt_ref_store(values, r, v);
    if (positions) mt_ref_store(positions, r, (mt_num){(long double)(at + k->index_base), 0});
  });
}
int mt_ref_amax(const mt_kargs *k) { return best(k, true, k->out[0], NULL); }
int mt_ref_amin(const mt_kargs *k) { return best(k, false, k->out[0], NULL); }
int mt_ref_argmax(const mt_kargs *k) { return best(k, true, NULL, k->out[0]); }
int mt_ref_argmin(const mt_kargs *k) { return best(k, false, NULL, k->out[0]); }
int mt_ref_max_dim(const mt_kargs *k) { return best(k, true, k->out[0], k->out[1]); }
int mt_ref_min_dim(const mt_kargs *k) { return best(k, false, k->out[0], k->out[1]); }

static int64_t nonzero(const group *g) {
  int64_t p = 0, n = 0;
  mt_num x;
  while (next(g, &p, &x, NULL)) n += x.re != 0 || x.im != 0;
  return n;
}
int mt_ref_count_nonzero(const mt_kargs *k) {
  EACH(k, 1, mt_ref_store(k->out[0], r, (mt_num){(long double)nonzero(&g), 0}));
}
int mt_ref_any(const mt_kargs *k) {
  EACH(k, 1, mt_ref_store(k->out[0], r, (mt_num){nonzero(&g) > 0, 0}));
}
int mt_ref_all(const mt_kargs *k) {
  EACH(k, 1, mt_ref_store(k->out[0], r, (mt_num){nonzero(&g) == count_of(&g), 0}));
}

static long double logsumexp(const group *g) {
  int64_t p = 0, at;
  long double max = extreme(g, true, &at).re, sum = 0;
  mt_num x;
  if (at < 0) return -INFINITY;
  if (!isfinite(max)) return max;
  while (next(g, &p, &x, NULL)) sum += expl(x.re - max);
  return max + logl(sum);
}
int mt_ref_logsumexp(const mt_kargs *k) {
  EACH(k, 1, mt_ref_store(k->out[0], r, (mt_num){logsumexp(&g), 0}));
}

/* Sum of |x - c|^p. */
static long double powers(const group *g, long double c, long double e) {
  int64_t p = 0;
  long double sum = 0;
  mt_num x;
  while (next(g, &p, &x, NULL)) {
    long double m = hypotl(x.re - c, x.im);
    sum += e == 2 ? m * m : powl(m, e);
  }
  return sum;
}
int mt_ref_sum_squares(const mt_kargs *k) {
  EACH(k, 1, mt_ref_store(k->out[0], r, (mt_num){powers(&g, 0, 2), 0}));
}

static int variance(const mt_kargs *k, bool root, bool with_mean) {
  EACH(k, 1, {
    long double n = (long double)count_of(&g) - (long double)mt_karg_f(k, 2);
    long double v = powers(&g, mean(&g).re, 2) / (n > 0 ? n : 0);
    mt_ref_store(k->out[0], r, (mt_num){root ? sqrtl(v) : v, 0});
    if (with_mean) mt_ref_store(k->out[1], r, mean(&g));
  });
}
int mt_ref_var(const mt_kargs *k) { return variance(k, false, false); }
int mt_ref_std(const mt_kargs *k) { return variance(k, true, false); }
int mt_ref_var_mean(const mt_kargs *k) { return variance(k, false, true); }
int mt_ref_std_mean(const mt_kargs *k) { return variance(k, true, true); }

static int norm_of(const group *g, double p, long double *out) {
  int64_t i = 0, n = 0;
  mt_num x;
  if (p == 0)
    *out = (long double)nonzero(g);
  else if (!isinf(p))
    *out = powl(powers(g, 0, p), 1 / (long double)p);
  else {
    for (*out = 0; next(g, &i, &x, NULL); n++) {
      long double m = hypotl(x.re, x.im);
      if (n == 0 || isnan(m) || (p > 0 ? m > *out : m < *out)) *out = m;
      if (isnan(m)) break;
    }
    if (n == 0 && !isnan(*out)) return MT_ERROR;
  }
  return MT_OK;
}
int mt_ref_norm(const mt_kargs *k) {
  EACH(k, 2, {
    long double v;
    if (norm_of(&g, mt_karg_f(k, 1), &v) != MT_OK) return MT_ERROR;
    mt_ref_store(k->out[0], r, (mt_num){v, 0});
  });
}
