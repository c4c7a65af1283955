/* loss.c - plain cross entropy and negative log likelihood; see ../loss.c for the arguments. */
#include <math.h>

#include "ref.h"

typedef struct sample {
  int64_t class, value; /* class -1: ignored, -2: bad */
  long double w;
} sample;

/* The element of x for class c of sample i. */
static int64_t position(const mt_view *x, const mt_view *target, int64_t i, int64_t c) {
  int64_t at[MT_MAX_DIM], full[MT_MAX_DIM];
  mt_ref_coords(target, i, at);
  if (x->ndim == 1) {
    full[0] = c;
  } else {
    full[0] = at[0];
    full[1] = c;
    for (int d = 2; d < x->ndim; d++) full[d] = at[d - 1];
  }
  return mt_ref_position(x, full);
}

static sample sample_of(const mt_kargs *k, const mt_view *target, const mt_view *weight, int64_t i,
                        int64_t ignore, int64_t classes) {
  sample s = {-1, mt_ref_int(target, i), 0};
  if (s.value == ignore) return s;
  s.class = s.value - k->index_base;
  if (s.class < 0 || s.class >= classes)
    s.class = -2;
  else
    s.w = weight ? mt_ref_load(weight, s.class).re : 1;
  return s;
}

static int bad(const mt_kargs *k, int input, int64_t i, sample s, int64_t classes) {
  *k->error = (mt_kerror){input, i, s.value, k->index_base, k->index_base + classes - 1};
  return MT_BADINDEX;
}

static void put(const mt_view *v, int64_t i, long double x) { mt_ref_store(v, i, (mt_num){x, 0}); }

static int forward(const mt_kargs *k, bool logits, const mt_view *total) {
  const mt_view *x = k->in[0], *target = k->in[1], *stats = logits ? k->out[1] : NULL;
  int64_t classes = x->size[x->ndim > 1];
  char how = k->arg[3].u.s[0];
  long double sum = 0, weights = 0;
  for (int64_t i = 0; i < target->numel; i++) {
    sample s = sample_of(k, target, k->in[2], i, MT_KARG_INT(k, 4), classes);
    if (s.class == -2) return bad(k, 1, i, s, classes);
    long double max = -INFINITY, e = 0, y = 0;
    for (int64_t c = 0; c < classes; c++) {
      long double v = mt_ref_load(x, position(x, target, i, c)).re;
      max = v > max || isnan(v) ? v : max;
      if (c == s.class) y = v;
    }
    for (int64_t c = 0; c < classes; c++)
      e += expl(mt_ref_load(x, position(x, target, i, c)).re - max);
    if (stats) {
      put(stats, i, max);
      put(stats, target->numel + i, logl(e));
    }
    long double one = s.class < 0 ? 0 : s.w * (logits ? max + logl(e) - y : -y);
    if (how == 'n') put(k->out[0], i, one);
    sum += one;
    weights += s.w;
  }
  put(total, 0, weights);
  if (how != 'n') put(k->out[0], 0, how == 'm' ? sum / weights : sum);
  return MT_OK;
}
int mt_ref_cross_entropy(const mt_kargs *k) { return forward(k, true, k->out[2]); }
int mt_ref_nll_loss(const mt_kargs *k) { return forward(k, false, k->out[1]); }

static long double scale_of(const mt_kargs *k, const mt_view *total, char how, int64_t i,
                            sample s) {
  if (how == 'n') return mt_ref_load(k->in[0], i).re * s.w;
  return mt_ref_load(k->in[0], 0).re * s.w / (how == 'm' ? mt_ref_load(total, 0).re : 1);
}

int mt_ref_cross_entropy_back(const mt_kargs *k) {
  const mt_view *x = k->in[1], *target = k->in[2], *stats = k->in[4];
  int64_t classes = x->size[x->ndim > 1];
  for (int64_t i = 0; i < target->numel; i++) {
    sample s = sample_of(k, target, k->in[3], i, MT_KARG_INT(k, 7), classes);
    if (s.class == -2) return bad(k, 2, i, s, classes);
    for (int64_t c = 0; c < classes; c++) {
      int64_t p = position(x, target, i, c);
      long double y = expl(mt_ref_load(x, p).re - mt_ref_load(stats, i).re -
                           mt_ref_load(stats, target->numel + i).re);
      long double g = (y - (c == s.class)) * scale_of(k, k->in[5], k->arg[6].u.s[0], i, s);
      put(k->out[0], p, s.class < 0 ? 0 : g);
    }
  }
  return MT_OK;
}

int mt_ref_nll_loss_back(const mt_kargs *k) {
  const mt_view *x = k->out[0], *target = k->in[1];
  int64_t classes = x->size[x->ndim > 1];
  for (int64_t i = 0; i < x->numel; i++) put(x, i, 0);
  for (int64_t i = 0; i < target->numel; i++) {
    sample s = sample_of(k, target, k->in[2], i, MT_KARG_INT(k, 5), classes);
    if (s.class == -2) return bad(k, 1, i, s, classes);
    if (s.class >= 0)
      put(x, position(x, target, i, s.class), -scale_of(k, k->in[3], k->arg[4].u.s[0], i, s));
  }
  return MT_OK;
}
