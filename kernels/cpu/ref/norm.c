/* norm.c - plain normalisations; see ../norm.c and ../norm_batch.c for the arguments.
 *
 * Everything follows from two questions: which set of elements does position p belong to, and
 * which element of weight and bias is its own? */
#include <math.h>

#include "ref.h"

typedef struct layout {
  enum {
    LAYER,
    GROUP,
    BATCH
  } kind;
  const mt_view *x;
  int first;      /* LAYER: the first normalised dim */
  int64_t groups; /* GROUP */
} layout;

static int64_t set_of(const layout *l, int64_t p) {
  int64_t at[MT_MAX_DIM], s = 0;
  mt_ref_coords(l->x, p, at);
  if (l->kind == BATCH) return at[1];
  if (l->kind == GROUP) return at[0] * l->groups + at[1] / (l->x->size[1] / l->groups);
  for (int d = 0; d < l->first; d++) s = s * l->x->size[d] + at[d];
  return s;
}

static int64_t param_of(const layout *l, int64_t p) {
  int64_t at[MT_MAX_DIM], s = 0;
  mt_ref_coords(l->x, p, at);
  if (l->kind != LAYER) return at[1];
  for (int d = l->first; d < l->x->ndim; d++) s = s * l->x->size[d] + at[d];
  return s;
}

static layout layer_layout(const mt_view *x, const mt_value *shape) {
  int n = shape->kind == MT_INTS ? shape->n : 1;
  return (layout){LAYER, x, n >= x->ndim ? 0 : x->ndim - n, 1};
}

static long double get(const mt_view *v, int64_t i, long double none) {
  return v ? mt_ref_load(v, i).re : none;
}
static void put(const mt_view *v, int64_t i, long double x) { mt_ref_store(v, i, (mt_num){x, 0}); }

/* Count, mean and sum of squares about the mean (about 0 for rms) of a set. */
static int64_t moments(const layout *l, int64_t set, bool rms, long double *mean, long double *m2) {
  int64_t n = 0;
  *mean = *m2 = 0;
  for (int64_t p = 0; p < l->x->numel; p++)
    if (set_of(l, p) == set) *mean += get(l->x, p, 0), n++;
  *mean = rms ? 0 : *mean / (long double)n;
  for (int64_t p = 0; p < l->x->numel; p++)
    if (set_of(l, p) == set) *m2 += powl(get(l->x, p, 0) - *mean, 2);
  return n;
}

static void apply(const layout *l, int64_t set, const mt_view *y, const mt_view *w,
                  const mt_view *b, long double mean, long double rstd) {
  for (int64_t p = 0; p < l->x->numel; p++) {
    if (set_of(l, p) != set) continue;
    int64_t i = param_of(l, p);
    put(y, p, (get(l->x, p, 0) - mean) * rstd * get(w, i, 1) + get(b, i, 0));
  }
}

static int forward(const mt_kargs *k, layout l, bool rms, const mt_view *b, double eps) {
  const mt_view *mean_out = rms ? NULL : k->out[1], *rstd_out = k->out[rms ? 1 : 2];
  for (int64_t s = 0; s < rstd_out->numel; s++) {
    long double mean, m2;
    int64_t n = moments(&l, s, rms, &mean, &m2);
    long double rstd = 1 / sqrtl(m2 / (long double)n + (long double)eps);
    if (mean_out) put(mean_out, s, mean);
    put(rstd_out, s, rstd);
    apply(&l, s, k->out[0], k->in[1], b, mean, rstd);
  }
  return MT_OK;
}

int mt_ref_layer_norm(const mt_kargs *k) {
  return forward(k, layer_layout(k->in[0], &k->arg[1]), false, k->in[2], mt_karg_f(k, 4));
}
int mt_ref_rms_norm(const mt_kargs *k) {
  return forward(k, layer_layout(k->in[0], &k->arg[1]), true, NULL, mt_karg_f(k, 3));
}
int mt_ref_group_norm(const mt_kargs *k) {
  layout l = {GROUP, k->in[0], 0, MT_KARG_INT(k, 1)};
  return forward(k, l, false, k->in[2], mt_karg_f(k, 4));
}

static void move(const mt_view *v, int64_t c, long double m, long double now) {
  if (v) put(v, c, (1 - m) * get(v, c, 0) + m * now);
}

int mt_ref_batch_norm(const mt_kargs *k) {
  layout l = {BATCH, k->in[0], 0, 1};
  long double momentum = (long double)mt_karg_f(k, 6), eps = (long double)mt_karg_f(k, 7);
  for (int64_t c = 0; c < k->in[0]->size[1]; c++) {
    long double mean, m2;
    int64_t n = moments(&l, c, false, &mean, &m2);
    long double var = m2 / (long double)n;
    if (k->arg[5].u.i) {
      move(k->in[1], c, momentum, mean);
      move(k->in[2], c, momentum, m2 / (long double)(n - 1));
    } else {
      mean = get(k->in[1], c, 0);
      var = get(k->in[2], c, 0);
    }
    long double rstd = 1 / sqrtl(var + eps);
    put(k->out[1], c, mean);
    put(k->out[2], c, rstd);
    apply(&l, c, k->out[0], k->in[3], k->in[4], mean, rstd);
  }
  return MT_OK;
}

/* The definition: gx = rstd * (a - mean(a) - h * mean(a * h)), a = g * w, h = (x - mean) * rstd;
 * the means vanish where statistics are constants, the first also for rms. */
static int backward(const mt_kargs *k, layout l, const mt_view *mean_in, const mt_view *rstd_in,
                    const mt_view *w, bool constant) {
  const mt_view *g = k->in[0], *gw = k->out[1], *gb = k->nout > 2 ? k->out[2] : NULL;
  for (int64_t s = 0; s < rstd_in->numel; s++) {
    long double mean = get(mean_in, s, 0), rstd = get(rstd_in, s, 0), sum = 0, dot = 0, n = 0;
    for (int64_t p = 0; p < g->numel; p++) {
      if (set_of(&l, p) != s) continue;
      long double a = get(g, p, 0) * get(w, param_of(&l, p), 1);
      sum += mean_in ? a : 0;
      dot += a * (get(l.x, p, 0) - mean) * rstd;
      n++;
    }
    for (int64_t p = 0; p < g->numel; p++) {
      if (set_of(&l, p) != s) continue;
      long double h = (get(l.x, p, 0) - mean) * rstd;
      long double a = get(g, p, 0) * get(w, param_of(&l, p), 1);
      put(k->out[0], p, rstd * (constant ? a : a - sum / n - h * dot / n));
    }
  }
  for (int64_t i = 0; i < gw->numel; i++) {
    long double sw = 0, sb = 0;
    for (int64_t p = 0; p < g->numel; p++) {
      if (param_of(&l, p) != i) continue;
      int64_t s = set_of(&l, p);
      sw += get(g, p, 0) * (get(l.x, p, 0) - get(mean_in, s, 0)) * get(rstd_in, s, 0);
      sb += get(g, p, 0);
    }
    put(gw, i, sw);
    if (gb) put(gb, i, sb);
  }
  return MT_OK;
}

int mt_ref_layer_norm_back(const mt_kargs *k) {
  return backward(k, layer_layout(k->in[1], &k->arg[5]), k->in[2], k->in[3], k->in[4], false);
}
int mt_ref_rms_norm_back(const mt_kargs *k) {
  return backward(k, layer_layout(k->in[1], &k->arg[4]), NULL, k->in[2], k->in[3], false);
}
int mt_ref_group_norm_back(const mt_kargs *k) {
  layout l = {GROUP, k->in[1], 0, MT_KARG_INT(k, 5)};
  return backward(k, l, k->in[2], k->in[3], k->in[4], false);
}
int mt_ref_batch_norm_back(const mt_kargs *k) {
  layout l = {BATCH, k->in[1], 0, 1};
  return backward(k, l, k->in[2], k->in[3], k->in[4], !k->arg[5].u.i);
}
