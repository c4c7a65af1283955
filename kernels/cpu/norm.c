/* norm.c - layer_norm, rms_norm and group_norm, forward and backward.
 *
 * One run is what is normalised together: the last dims (layer, rms) or one group of channels of
 * one sample. A run is read from memory once and stays in cache for its three passes. Gradients of
 * weight and bias are summed over chunks of runs, whose number depends on the shape alone, and the
 * chunks are added in order: the bits do not depend on the thread count.
 *
 * Statistics (mean, rstd) are results and inputs of the compute type (f32; f64 for f64),
 * contiguous; so are the gradients of weight and bias, in the dtype of their views. Arguments:
 *   layer_norm(x, shape, weight?, bias?, eps) -> y, mean, rstd        mean, rstd: one per run
 *   rms_norm(x, shape, weight?, eps) -> y, rstd
 *   group_norm(x, groups, weight?, bias?, eps) -> y, mean, rstd
 *   layer_norm_back(g, x, mean, rstd, weight?, shape) -> gx, gw, gb
 *   rms_norm_back(g, x, rstd, weight?, shape) -> gx, gw
 *   group_norm_back(g, x, mean, rstd, weight?, groups) -> gx, gw, gb */
#include "norm.h"

#include <math.h>
#include <string.h>

#include "along.h"
#include "isa.h"

enum {
  GRAIN = 1 << 14, /* elements worth a thread */
  CHUNK = 64       /* runs whose gradients of the weight are summed in the compute type */
};

void *mt_arena_take(mt_arena *a, int64_t n, size_t size) {
  void *p = a->base ? a->base + a->used : NULL;
  size_t bytes;
  if (a->used == SIZE_MAX || __builtin_mul_overflow((size_t)n, size, &bytes) ||
      bytes > SIZE_MAX / 4) {
    a->used = SIZE_MAX;
    return NULL;
  }
  a->used += (bytes + 63) / 64 * 64;
  return p;
}

const void *mt_norm_param(const mt_kargs *k, const mt_view *v, mt_lane lane, mt_arena *a) {
  if (!v) return NULL;
  mt_dtype d = (mt_dtype)v->dtype;
  if (v->contiguous && mt_lane_native(lane, d)) return v->data;
  char *p = mt_arena_take(a, v->numel, (size_t)mt_lane_size(lane)), *to = p;
  if (!p) return NULL;
  mt_walk w;
  mt_cursor c;
  mt_walk_views(&w, v->ndim, v->size, 1, &v);
  mt_cursor_seek(&w, &c, 0, v->numel);
  while (mt_cursor_next(&w, &c)) {
    k->isa->lane->load[lane][d](to, v->data + c.off[0], c.n, w.step[0] / mt_dtype_size(d));
    to += c.n * mt_lane_size(lane);
  }
  return p;
}

typedef struct norm {
  const mt_kargs *k;
  const struct mt_norm_loops *loops;
  mt_lane lane;
  int64_t groups, channels; /* per sample; per group. Layer: 1, n */
  bool by_channel, rms;
  const void *w, *b;
  void *mean, *rstd, *scratch; /* scratch: of the driver */
  double eps;
  char *part; /* backward: layer: dw and db of every chunk; group: see there */
  /* From here on large, and set when used. */
  mt_along along;
  mt_view split[3]; /* group_norm: the operands with the channel dim cut in two */
} norm;

/* Elements of one channel in a run. */
static int64_t spatial(const norm *p, int64_t n) { return n / p->channels; }

/* ---- forward ---- */

static void forward_row(void *ctx, char *const *at, int64_t run, int64_t n) {
  const norm *p = ctx;
  double mean = 0, m2;
  if (p->rms)
    m2 = p->loops->squares(at[0], n);
  else
    p->loops->moments(at[0], n, &mean, &m2);
  double rstd = 1 / sqrt(m2 / (double)n + p->eps);
  if (p->mean) mt_lane_set(p->lane, p->mean, run, mean);
  mt_lane_set(p->lane, p->rstd, run, rstd);
  if (!p->by_channel) {
    p->loops->scale_vec(at[0], at[1], n, mean, rstd, p->w, p->b);
    return;
  }
  int64_t s = spatial(p, n), first = run % p->groups * p->channels,
          step = s * mt_lane_size(p->lane);
  for (int64_t c = 0; c < p->channels; c++) {
    double w = p->w ? mt_lane_get(p->lane, p->w, first + c) : 1;
    double b = p->b ? mt_lane_get(p->lane, p->b, first + c) : 0;
    p->loops->scale_one(at[0] + c * step, at[1] + c * step, s, mean, rstd * w, b);
  }
}

/* Dims from the one where the shape argument begins. */
static unsigned last_dims(const mt_view *x, const mt_value *shape) {
  int n = shape->kind == MT_INTS ? shape->n : 1;
  return n >= x->ndim ? ~0u : ~0u << (x->ndim - n);
}

static const mt_view *split_channels(norm *p, int i, const mt_view *v, int64_t groups) {
  mt_view *s = &p->split[i];
  *s = *v;
  s->ndim = (int8_t)(v->ndim + 1);
  for (int d = v->ndim; d > 2; d--) {
    s->size[d] = v->size[d - 1];
    s->stride[d] = v->stride[d - 1];
  }
  s->size[1] = groups;
  s->size[2] = groups ? v->size[1] / groups : 0;
  s->stride[2] = v->stride[1];
  s->stride[1] = v->stride[1] * s->size[2];
  return s;
}

static void begin(norm *p, const mt_kargs *k, mt_along_row_fn row) {
  memset(p, 0, offsetof(norm, along));
  p->k = k;
  p->lane = mt_lane_of((mt_dtype)k->in[0]->dtype);
  p->loops = k->isa->norm->lane[p->lane];
  p->groups = 1;
  mt_along_begin(&p->along, k, p, row, NULL);
}

/* Layer and rms: operands as they are. */
static void operands(norm *p, int n, const mt_view *const *v, const mt_value *shape) {
  for (int i = 0; i < n; i++) mt_along_add(&p->along, v[i], p->lane, i == n - 1);
  mt_along_plan(&p->along, last_dims(v[0], shape));
  p->channels = p->along.n;
}

static void group_operands(norm *p, int n, const mt_view *const *v, int64_t groups) {
  p->by_channel = true;
  p->groups = groups;
  p->channels = v[0]->size[1] / groups;
  for (int i = 0; i < n; i++)
    mt_along_add(&p->along, split_channels(p, i, v[i], groups), p->lane, i == n - 1);
  mt_along_plan(&p->along, ~3u);
}

static void lay_out(norm *p, const mt_view *w, const mt_view *b, mt_arena *a) {
  p->scratch = mt_arena_take(a, 1, mt_along_scratch(&p->along));
  p->w = mt_norm_param(p->k, w, p->lane, a);
  p->b = mt_norm_param(p->k, b, p->lane, a);
}

static void plan_layer(norm *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[2] = {k->in[0], k->out[0]};
  begin(p, k, forward_row);
  operands(p, 2, v, &k->arg[1]);
  p->eps = mt_karg_f(k, 4);
  p->mean = k->out[1]->data;
  p->rstd = k->out[2]->data;
  lay_out(p, k->in[1], k->in[2], a);
}

static void plan_rms(norm *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[2] = {k->in[0], k->out[0]};
  begin(p, k, forward_row);
  operands(p, 2, v, &k->arg[1]);
  p->rms = true;
  p->eps = mt_karg_f(k, 3);
  p->rstd = k->out[1]->data;
  lay_out(p, k->in[1], NULL, a);
}

static void plan_group(norm *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[2] = {k->in[0], k->out[0]};
  begin(p, k, forward_row);
  group_operands(p, 2, v, MT_KARG_INT(k, 1));
  p->eps = mt_karg_f(k, 4);
  p->mean = k->out[1]->data;
  p->rstd = k->out[2]->data;
  lay_out(p, k->in[1], k->in[2], a);
}

static void run_forward(norm *p) {
  if (p->along.n == 0) { /* nothing to normalise: the statistics are still results */
    for (int o = 1; o < p->k->nout; o++)
      memset(p->k->out[o]->data, 0, (size_t)(p->k->out[o]->numel * mt_lane_size(p->lane)));
  }
  mt_along_run(&p->along, p->scratch, GRAIN);
}

/* ---- backward: layer and rms ---- */

static char *part_of(const norm *p, int64_t chunk) {
  return p->part + chunk * 2 * p->along.n * mt_lane_size(p->lane);
}

static void layer_row(void *ctx, char *const *at, int64_t run, int64_t n) {
  const norm *p = ctx;
  char *dw = part_of(p, run / CHUNK), *db = dw + n * mt_lane_size(p->lane);
  double mean = p->mean ? mt_lane_get(p->lane, p->mean, run) : 0, sums[2];
  double rstd = mt_lane_get(p->lane, p->rstd, run);
  if (run % CHUNK == 0) memset(dw, 0, (size_t)(2 * n * mt_lane_size(p->lane)));
  p->loops->dots_vec(at[0], at[1], n, mean, rstd, p->w, dw, db, sums);
  if (p->rms) sums[0] = 0; /* no mean was taken away */
  p->loops->back_vec(at[0], at[1], at[2], n, mean, rstd, p->w, sums[0] / (double)n,
                     sums[1] / (double)n);
}

static int64_t nchunks(const norm *p) { return (p->along.rest.numel + CHUNK - 1) / CHUNK; }

/* Adds up the chunks of element j of dw and db. */
static void join_layer(void *ctx, int64_t first, int64_t end, int worker) {
  const norm *p = ctx;
  const mt_kargs *k = p->k;
  int64_t n = p->along.n, chunks = nchunks(p);
  (void)worker;
  for (int o = 1; o < k->nout; o++) {
    mt_dtype d = (mt_dtype)k->out[o]->dtype;
    for (int64_t j = first; j < end; j++) {
      double sum = 0;
      for (int64_t c = 0; c < chunks; c++)
        sum += mt_lane_get(p->lane, part_of(p, c), (o - 1) * n + j);
      k->isa->lane->store[MT_LF64][d](k->out[o]->data + j * mt_dtype_size(d), &sum, 1, 1);
    }
  }
}

static void plan_layer_back(norm *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[3] = {k->in[0], k->in[1], k->out[0]};
  begin(p, k, layer_row);
  p->rms = k->nout == 2;
  int stat = p->rms ? 2 : 3;
  operands(p, 3, v, &k->arg[stat + 2]);
  p->along.group = CHUNK;
  p->mean = p->rms ? NULL : k->in[2]->data;
  p->rstd = k->in[stat]->data;
  lay_out(p, k->in[stat + 1], NULL, a);
  p->part = mt_arena_take(a, nchunks(p) * 2 * p->along.n, (size_t)mt_lane_size(p->lane));
}

static void run_layer_back(norm *p) {
  mt_along_run(&p->along, p->scratch, GRAIN);
  mt_parallel_for(p->k->par, p->along.n, GRAIN / (2 * nchunks(p) + 1) + 1, join_layer, p);
}

/* ---- backward: group ---- */

/* part: for every channel of every sample sum(g), sum(g * h) with h the normalised input. */
static void group_row(void *ctx, char *const *at, int64_t run, int64_t n) {
  const norm *p = ctx;
  double mean = mt_lane_get(p->lane, p->mean, run), rstd = mt_lane_get(p->lane, p->rstd, run);
  double(*part)[2] = (double(*)[2])(void *)p->part + run * p->channels;
  double sum = 0, dot = 0;
  int64_t s = spatial(p, n), first = run % p->groups * p->channels,
          step = s * mt_lane_size(p->lane);
  for (int64_t c = 0; c < p->channels; c++) {
    double w = p->w ? mt_lane_get(p->lane, p->w, first + c) : 1;
    p->loops->dots_one(at[0] + c * step, at[1] + c * step, s, mean, part[c]);
    part[c][1] *= rstd;
    sum += w * part[c][0];
    dot += w * part[c][1];
  }
  sum /= (double)n;
  dot /= (double)n;
  for (int64_t c = 0; c < p->channels; c++) {
    double w = p->w ? mt_lane_get(p->lane, p->w, first + c) : 1;
    p->loops->back_one(at[0] + c * step, at[1] + c * step, at[2] + c * step, s, mean, rstd * w,
                       -rstd * rstd * dot, -rstd * sum);
  }
}

static void join_group(void *ctx, int64_t first, int64_t end, int worker) {
  const norm *p = ctx;
  const mt_kargs *k = p->k;
  const double *part = (const double *)(void *)p->part;
  int64_t all = p->groups * p->channels, samples = k->in[0]->size[0];
  (void)worker;
  for (int o = 1; o < 3; o++) { /* gw: sum(g * h), gb: sum(g) */
    mt_dtype d = (mt_dtype)k->out[o]->dtype;
    for (int64_t c = first; c < end; c++) {
      double sum = 0;
      for (int64_t i = 0; i < samples && p->along.n; i++)
        sum += part[2 * (i * all + c) + (o == 1 ? 1 : 0)];
      k->isa->lane->store[MT_LF64][d](k->out[o]->data + c * mt_dtype_size(d), &sum, 1, 1);
    }
  }
}

static void plan_group_back(norm *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[3] = {k->in[0], k->in[1], k->out[0]};
  begin(p, k, group_row);
  group_operands(p, 3, v, MT_KARG_INT(k, 5));
  p->mean = k->in[2]->data;
  p->rstd = k->in[3]->data;
  lay_out(p, k->in[4], NULL, a);
  p->part = mt_arena_take(a, k->in[0]->size[0] * k->in[0]->size[1], 2 * sizeof(double));
}

static void run_group_back(norm *p) {
  mt_along_run(&p->along, p->scratch, GRAIN);
  mt_parallel_for(p->k->par, p->groups * p->channels, GRAIN / (p->k->in[0]->size[0] + 1) + 1,
                  join_group, p);
}

/* ---- entries ---- */

#define NORM(name, plan, run)                         \
  int mt_cpu_##name(const mt_kargs *k) {              \
    norm p;                                           \
    mt_arena a = {k->scratch, 0};                     \
    plan(&p, k, &a);                                  \
    run(&p);                                          \
    return MT_OK;                                     \
  }                                                   \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) { \
    norm p;                                           \
    mt_arena a = {NULL, 0};                           \
    plan(&p, k, &a);                                  \
    return a.used;                                    \
  }
NORM(layer_norm, plan_layer, run_forward)
NORM(rms_norm, plan_rms, run_forward)
NORM(group_norm, plan_group, run_forward)
NORM(layer_norm_back, plan_layer_back, run_layer_back)
NORM(rms_norm_back, plan_layer_back, run_layer_back)
NORM(group_norm_back, plan_group_back, run_group_back)
