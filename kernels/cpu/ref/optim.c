/* optim.c - optimiser steps, an element at a time in long double. */
#include <math.h>

#include "ref.h"

typedef struct place { /* one element of the i-th tensor of every list */
  const mt_view *v[5];
  int64_t p;
} place;

static long double get(const place *e, int r) { return mt_ref_load(e->v[r], e->p).re; }
static void put(const place *e, int r, long double x) {
  mt_ref_store(e->v[r], e->p, (mt_num){x, 0});
}

typedef void (*element_fn)(const mt_kargs *k, const place *e);

static int each(const mt_kargs *k, int roles, element_fn fn) {
  for (int i = 0; i < mt_karg_len(k, 0); i++) {
    place e = {.p = 0};
    for (int r = 0, at = 0; r < roles; r++) {
      int n = mt_karg_len(k, r);
      if (n) e.v[r] = k->in[at + i];
      at += n;
    }
    for (; e.p < e.v[0]->numel; e.p++) fn(k, &e);
  }
  return MT_OK;
}

static void sgd(const mt_kargs *k, const place *e) {
  long double p = get(e, 0), g = get(e, 1);
  if (MT_KARG_INT(k, 8)) g = -g;
  g += mt_karg_f(k, 6) * p;
  if (e->v[2]) {
    long double mu = mt_karg_f(k, 4);
    long double b = MT_KARG_INT(k, 9) ? g : get(e, 2) * mu + (1 - (long double)mt_karg_f(k, 5)) * g;
    put(e, 2, b);
    g = MT_KARG_INT(k, 7) ? g + mu * b : b;
  }
  put(e, 0, p - mt_karg_f(k, 3) * g);
}

int mt_ref_sgd_step(const mt_kargs *k) { return each(k, 3, sgd); }

static void adam(const mt_kargs *k, const place *e) {
  long double lr = mt_karg_f(k, 5), b1 = mt_karg_f(k, 6), b2 = mt_karg_f(k, 7);
  long double wd = mt_karg_f(k, 9), t = mt_karg_f(k, 13), p = get(e, 0), g = get(e, 1);
  if (MT_KARG_INT(k, 12)) g = -g;
  if (MT_KARG_INT(k, 10))
    p *= 1 - lr * wd;
  else
    g += wd * p;
  long double m = get(e, 2) * b1 + (1 - b1) * g, v = get(e, 3) * b2 + (1 - b2) * g * g;
  put(e, 2, m);
  put(e, 3, v);
  if (MT_KARG_INT(k, 11)) {
    if (get(e, 4) > v) v = get(e, 4);
    put(e, 4, v);
  }
  long double root = sqrtl(v) / sqrtl(1 - powl(b2, t)) + mt_karg_f(k, 8);
  put(e, 0, p - lr / (1 - powl(b1, t)) * m / root);
}

int mt_ref_adam_step(const mt_kargs *k) { return each(k, 5, adam); }
