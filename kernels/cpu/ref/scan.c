/* scan.c - plain running results; see ../scan.c for the arguments. */
#include <math.h>

#include "ref.h"

/* The position of the element before p along dim, -1 if p is the first. */
static int64_t before(const mt_view *x, int64_t p, int dim) {
  int64_t at[MT_MAX_DIM];
  if (x->ndim == 0) return -1;
  mt_ref_coords(x, p, at);
  return at[dim]-- == 0 ? -1 : mt_ref_position(x, at);
}

/* Integers wrap. */
static mt_num total(const mt_kargs *k, int64_t p, int dim, bool product) {
  bool whole = mt_dtype_category((mt_dtype)k->in[0]->dtype) <= MT_CAT_INT;
  uint64_t w = product ? 1 : 0;
  mt_num s = {product ? 1 : 0, 0};
  for (; p >= 0; p = before(k->in[0], p, dim)) {
    mt_num x = mt_ref_load(k->in[0], p);
    uint64_t i = whole ? (uint64_t)mt_ref_int(k->in[0], p) : 0;
    w = product ? w * i : w + i;
    s = product ? (mt_num){s.re * x.re - s.im * x.im, s.re * x.im + s.im * x.re}
                : (mt_num){s.re + x.re, s.im + x.im};
  }
  return whole ? (mt_num){(long double)(int64_t)w, 0} : s;
}
static mt_num sum_of(const mt_kargs *k, int64_t p, int dim) { return total(k, p, dim, false); }
static mt_num prod_of(const mt_kargs *k, int64_t p, int dim) { return total(k, p, dim, true); }
static mt_num lse_of(const mt_kargs *k, int64_t p, int dim) {
  long double max = -INFINITY, sum = 0;
  for (int64_t q = p; q >= 0; q = before(k->in[0], q, dim)) {
    long double x = mt_ref_load(k->in[0], q).re;
    if (!(x <= max)) max = x;
    if (isnan(max)) break;
  }
  if (!isfinite(max)) return (mt_num){max, 0};
  for (; p >= 0; p = before(k->in[0], p, dim)) sum += expl(mt_ref_load(k->in[0], p).re - max);
  return (mt_num){max + logl(sum), 0};
}

static int each(const mt_kargs *k, mt_num (*f)(const mt_kargs *, int64_t, int)) {
  for (int64_t p = 0; p < k->in[0]->numel; p++)
    mt_ref_store(k->out[0], p, f(k, p, (int)MT_KARG_INT(k, 1)));
  return MT_OK;
}
int mt_ref_cumsum(const mt_kargs *k) { return each(k, sum_of); }
int mt_ref_cumprod(const mt_kargs *k) { return each(k, prod_of); }
int mt_ref_logcumsumexp(const mt_kargs *k) { return each(k, lse_of); }

/* Looking back from p, a value replaces the best only if it beats it: the last of ties stays. */
static int extreme(const mt_kargs *k, bool max) {
  const mt_view *x = k->in[0];
  int dim = (int)MT_KARG_INT(k, 1);
  for (int64_t p = 0; p < x->numel; p++) {
    int64_t at[MT_MAX_DIM] = {0};
    long double best = mt_ref_load(x, p).re;
    int64_t where = p;
    for (int64_t q = before(x, p, dim); q >= 0 && !isnan(best); q = before(x, q, dim)) {
      long double v = mt_ref_load(x, q).re;
      if (isnan(v) || (max ? v > best : v < best)) best = v, where = q;
    }
    mt_ref_coords(x, where, at);
    mt_ref_store(k->out[0], p, (mt_num){best, 0});
    mt_ref_store(k->out[1], p, (mt_num){(long double)(at[dim] + k->index_base), 0});
  }
  return MT_OK;
}
int mt_ref_cummax(const mt_kargs *k) { return extreme(k, true); }
int mt_ref_cummin(const mt_kargs *k) { return extreme(k, false); }
