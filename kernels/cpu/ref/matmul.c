/* ref/matmul.c - plain matmul, addmm and linear; the arguments of their twins in matmul.c. */
#include "ref.h"

/* sum over k of a[.., i, k] * b[.., k, j] for the coordinates of an element of out; b is transposed
 * and has no batch for linear. */
static mt_num dot_at(const mt_view *a, const mt_view *b, const int64_t *at, int ndim, bool linear) {
  int64_t pa[MT_MAX_DIM] = {0}, pb[MT_MAX_DIM] = {0}, n = a->size[a->ndim - 1];
  for (int d = 0; d < a->ndim - 1; d++) pa[d] = at[d];
  for (int d = 0; d < b->ndim && !linear; d++) pb[d] = at[d];
  if (linear) pb[0] = at[ndim - 1];
  mt_num sum = {0, 0};
  for (int64_t i = 0; i < n; i++) {
    pa[a->ndim - 1] = pb[linear ? 1 : b->ndim - 2] = i;
    mt_num x = mt_ref_load(a, mt_ref_position(a, pa)), y = mt_ref_load(b, mt_ref_position(b, pb));
    sum.re += x.re * y.re - x.im * y.im;
    sum.im += x.re * y.im + x.im * y.re;
  }
  return sum;
}

static int product(const mt_view *a, const mt_view *b, const mt_view *out, bool linear,
                   const mt_view *c0, double alpha, double beta) {
  if (out->dtype == MT_BOOL) return MT_NOKERNEL;
  for (int64_t p = 0; p < out->numel; p++) {
    int64_t at[MT_MAX_DIM];
    mt_ref_coords(out, p, at);
    mt_num x = dot_at(a, b, at, out->ndim, linear);
    x.re *= alpha, x.im *= alpha;
    if (beta != 0) {
      mt_num y = mt_ref_load(c0, mt_ref_broadcast(c0, out, p));
      x.re += beta * y.re, x.im += beta * y.im;
    }
    mt_ref_store(out, p, x);
  }
  return MT_OK;
}

int mt_ref_matmul(const mt_kargs *k) {
  return product(k->in[0], k->in[1], k->out[0], false, NULL, 1, 0);
}

int mt_ref_addmm(const mt_kargs *k) {
  return product(k->in[1], k->in[2], k->out[0], false, k->in[0], mt_karg_f(k, 4), mt_karg_f(k, 3));
}

int mt_ref_linear(const mt_kargs *k) {
  const mt_view *bias = k->nin > 2 ? k->in[2] : NULL;
  return product(k->in[0], k->in[1], k->out[0], true, bias, 1, bias ? 1 : 0);
}
