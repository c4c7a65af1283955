/* softmax.c - plain softmax; see ../softmax.c for the arguments. */
#include <math.h>

#include "ref.h"

/* The element of v that shares the coordinates of position p but for `i` along dim. */
static long double at(const mt_view *v, int64_t p, int dim, int64_t i) {
  int64_t c[MT_MAX_DIM];
  mt_ref_coords(v, p, c);
  if (v->ndim) c[dim] = i;
  return mt_ref_load(v, mt_ref_position(v, c)).re;
}

static long double log_sum_exp(const mt_view *x, int64_t p, int dim, int64_t n) {
  long double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    long double v = at(x, p, dim, i);
    if (v > max || isnan(v)) max = v;
    if (isnan(max)) return max;
  }
  for (int64_t i = 0; i < n; i++) sum += expl(at(x, p, dim, i) - max);
  return max + logl(sum);
}

static int forward(const mt_kargs *k, bool log) {
  const mt_view *x = k->in[0];
  int dim = (int)MT_KARG_INT(k, 1);
  for (int64_t p = 0; p < x->numel; p++) {
    long double y = mt_ref_load(x, p).re - log_sum_exp(x, p, dim, x->ndim ? x->size[dim] : 1);
    mt_ref_store(k->out[0], p, (mt_num){log ? y : expl(y), 0});
  }
  return MT_OK;
}
int mt_ref_softmax(const mt_kargs *k) { return forward(k, false); }
int mt_ref_log_softmax(const mt_kargs *k) { return forward(k, true); }

static int backward(const mt_kargs *k, bool log) {
  const mt_view *g = k->in[0], *y = k->in[1];
  int dim = (int)MT_KARG_INT(k, 2);
  for (int64_t p = 0; p < g->numel; p++) {
    long double sum = 0, gp = mt_ref_load(g, p).re, yp = mt_ref_load(y, p).re;
    for (int64_t i = 0; i < (g->ndim ? g->size[dim] : 1); i++)
      sum += at(g, p, dim, i) * (log ? 1 : at(y, p, dim, i));
    mt_ref_store(k->out[0], p, (mt_num){log ? gp - expl(yp) * sum : yp * (gp - sum), 0});
  }
  return MT_OK;
}
int mt_ref_softmax_back(const mt_kargs *k) { return backward(k, false); }
int mt_ref_log_softmax_back(const mt_kargs *k) { return backward(k, true); }

/* The element of mask that broadcasts to position p of x, which sees column `col` of its row. */
static bool sees(const mt_kargs *k, int64_t p, int64_t col, long double *score) {
  const mt_view *x = k->in[0], *mask = k->in[1];
  int64_t c[MT_MAX_DIM];
  mt_ref_coords(x, p, c);
  if (k->arg[2].u.i && x->ndim > 1 && col > c[x->ndim - 2]) return false;
  if (x->ndim) c[x->ndim - 1] = col;
  int64_t q = mt_ref_position(x, c);
  *score = mt_ref_load(x, q).re;
  if (!mask) return true;
  long double m = mt_ref_load(mask, mt_ref_broadcast(mask, x, q)).re;
  if (mask->dtype == MT_BOOL) return m != 0;
  *score += m;
  return true;
}

int mt_ref_masked_softmax(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  int64_t n = x->ndim ? x->size[x->ndim - 1] : 1;
  for (int64_t p = 0; p < x->numel; p++) {
    long double max = -INFINITY, sum = 0, mine = -INFINITY, v = 0;
    int64_t c[MT_MAX_DIM] = {0};
    mt_ref_coords(x, p, c);
    for (int64_t i = 0; i < n; i++)
      if (sees(k, p, i, &v) && !(v <= max)) max = v;
    for (int64_t i = 0; i < n && max != -INFINITY; i++)
      if (sees(k, p, i, &v)) sum += expl(v - max);
    if (sees(k, p, x->ndim ? c[x->ndim - 1] : 0, &v)) mine = v;
    mt_ref_store(k->out[0], p, (mt_num){max == -INFINITY ? 0 : expl(mine - max) / sum, 0});
  }
  return MT_OK;
}
