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
