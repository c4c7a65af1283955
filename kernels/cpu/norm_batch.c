/* norm_batch.c - batch_norm, forward and backward.
 *
 * Statistics of a channel come from the reductions (one pass, any layout); what follows is y = (x -
 * mean) * scale + shift with one of each per channel. Where a channel has a long piece of every
 * sample (images), runs are such pieces; where it has not (2-d inputs), runs are samples and the
 * factors are arrays as long as a sample. Sums of the backward are cut by shape alone.
 *
 *   batch_norm(x, running_mean?, running_var?, weight?, bias?, training, momentum, eps)
 *     -> y, mean, rstd      of the compute type, one per channel, contiguous; training also
 *                           moves the running statistics (the variance by its unbiased estimate)
 *   batch_norm_back(g, x, mean, rstd, weight?, training) -> gx, gw, gb */
#include <math.h>
#include <string.h>

#include "along.h"
#include "isa.h"
#include "norm.h"
#include "reduce.h"

enum {
  GRAIN = 1 << 14,
  LONG = 16, /* elements of a channel in one sample that are worth a run of their own */
  CHUNK = 64 /* samples whose sums are taken in the compute type */
};

typedef struct batch {
  const mt_kargs *k;
  const struct mt_norm_loops *loops;
  mt_lane lane;
  const mt_view *x;
  int64_t samples, channels, spatial;
  bool pieces; /* runs are pieces of one channel */
  void *sums_scratch, *apply_scratch;
  double *mean, *m2, *scale; /* forward: of every channel */
  double (*factor)[3];       /* backward, of every channel: gx = g*f0 + (x - mean)*f1 + f2 */
  void *reduce_scratch;
  const void *w, *b;
  void *each[4]; /* runs are samples: mean and factors of every element */
  char *part;    /* backward: sums of pieces, or of chunks of samples */
  /* From here on large, and set when used. */
  mt_along sums, apply;
} batch;

static double channel(const batch *p, const void *v, int64_t c, double none) {
  return v ? mt_lane_get(p->lane, v, c) : none;
}

static void begin(batch *p, const mt_kargs *k, const mt_view *x) {
  memset(p, 0, offsetof(batch, sums));
  p->k = k;
  p->x = x;
  p->lane = mt_lane_of((mt_dtype)x->dtype);
  p->loops = k->isa->norm->lane[p->lane];
  p->samples = x->size[0];
  p->channels = x->size[1];
  p->spatial = 1;
  for (int d = 2; d < x->ndim; d++) p->spatial *= x->size[d];
  p->pieces = p->spatial >= LONG;
}

/* A run: a piece of one channel, or a whole sample. */
static void plan_runs(batch *p, mt_along *a, mt_along_row_fn row, int n, const mt_view *const *v,
                      bool writes) {
  mt_along_begin(a, p->k, p, row, NULL);
  for (int i = 0; i < n; i++) mt_along_add(a, v[i], p->lane, writes && i == n - 1);
  mt_along_plan(a, p->pieces ? ~3u : ~1u);
}

static void take_each(batch *p, mt_arena *a, int n) {
  for (int i = 0; i < n && !p->pieces; i++)
    p->each[i] = mt_arena_take(a, p->channels * p->spatial, (size_t)mt_lane_size(p->lane));
}

/* Sets factor i of channel c, for all its elements in a sample. */
static void set_each(const batch *p, int i, int64_t c, double x) {
  for (int64_t s = 0; s < p->spatial; s++) mt_lane_set(p->lane, p->each[i], c * p->spatial + s, x);
}

/* ---- forward ---- */

static void forward_piece(void *ctx, char *const *at, int64_t run, int64_t n) {
  const batch *p = ctx;
  int64_t c = run % p->channels;
  p->loops->scale_one(at[0], at[1], n, p->mean[c], p->scale[c], channel(p, p->b, c, 0));
}

static void forward_sample(void *ctx, char *const *at, int64_t run, int64_t n) {
  const batch *p = ctx;
  (void)run;
  p->loops->scale_each(at[0], at[1], n, p->each[0], p->each[1], p->each[2]);
}

static const mt_rjob moments = {MT_R_VAR, MT_RR_MOMENTS, MT_RMAP_NONE, 0};

/* The moments as views that a reduction writes to. */
static mt_view moments_view(const batch *p, double *data) {
  mt_view v = {
      .data = (char *)data, .ndim = 1, .dtype = MT_F64, .numel = p->channels, .contiguous = true};
  v.size[0] = p->channels;
  v.stride[0] = 1;
  return v;
}

static void plan_forward(batch *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[2] = {k->in[0], k->out[0]};
  begin(p, k, k->in[0]);
  plan_runs(p, &p->apply, p->pieces ? forward_piece : forward_sample, 2, v, true);
  p->apply_scratch = mt_arena_take(a, 1, mt_along_scratch(&p->apply));
  p->mean = mt_arena_take(a, p->channels, sizeof(double));
  p->m2 = mt_arena_take(a, p->channels, sizeof(double));
  p->scale = mt_arena_take(a, p->channels, sizeof(double));
  mt_view mean = moments_view(p, p->mean), m2 = moments_view(p, p->m2);
  p->reduce_scratch = mt_arena_take(a, 1, mt_reduce_scratch(k, moments, p->x, ~2u, &mean, &m2));
  p->w = mt_norm_param(k, k->in[3], p->lane, a);
  p->b = mt_norm_param(k, k->in[4], p->lane, a);
  take_each(p, a, 3);
}

static double read1(const mt_kargs *k, const mt_view *v, int64_t i) {
  double x;
  mt_dtype d = (mt_dtype)v->dtype;
  k->isa->lane->load[MT_LF64][d](&x, v->data + i * v->stride[0] * mt_dtype_size(d), 1, 1);
  return x;
}
static void write1(const mt_kargs *k, const mt_view *v, int64_t i, double x) {
  mt_dtype d = (mt_dtype)v->dtype;
  k->isa->lane->store[MT_LF64][d](v->data + i * v->stride[0] * mt_dtype_size(d), &x, 1, 1);
}

/* running = (1 - momentum) * running + momentum * now */
static void move(const mt_kargs *k, const mt_view *v, int64_t c, double now) {
  double m = mt_karg_f(k, 6);
  if (v) write1(k, v, c, (1 - m) * read1(k, v, c) + m * now);
}

static void statistics(batch *p) {
  const mt_kargs *k = p->k;
  bool training = k->arg[5].u.i || !k->in[1];
  double n = (double)(p->samples * p->spatial), eps = mt_karg_f(k, 7);
  if (training) {
    mt_view mean = moments_view(p, p->mean), m2 = moments_view(p, p->m2);
    mt_reduce_run(k, moments, p->x, ~2u, &mean, &m2, p->reduce_scratch);
  }
  for (int64_t c = 0; c < p->channels; c++) {
    if (!training) p->mean[c] = read1(k, k->in[1], c);
    double var = training ? p->m2[c] / n : read1(k, k->in[2], c), rstd = 1 / sqrt(var + eps);
    mt_lane_set(p->lane, k->out[1]->data, c, p->mean[c]);
    mt_lane_set(p->lane, k->out[2]->data, c, rstd);
    if (training && n > 0) {
      move(k, k->in[1], c, p->mean[c]);
      move(k, k->in[2], c, p->m2[c] / (n - 1));
    }
    double scale = rstd * channel(p, p->w, c, 1), shift = channel(p, p->b, c, 0);
    p->scale[c] = scale;
    if (p->pieces) continue;
    set_each(p, 0, c, p->mean[c]);
    set_each(p, 1, c, scale);
    double rounded = p->lane == MT_LF32 ? (double)(float)p->mean[c] : p->mean[c];
    set_each(p, 2, c, shift + (rounded - p->mean[c]) * scale);
  }
}

static void run_forward(batch *p) {
  statistics(p);
  mt_along_run(&p->apply, p->apply_scratch, GRAIN);
}

/* ---- backward ---- */

static double mean_of(const batch *p, int64_t c) {
  return mt_lane_get(p->lane, p->k->in[2]->data, c);
}

/* part: sum(g), sum(g * (x - mean)) of every piece. */
static void sum_piece(void *ctx, char *const *at, int64_t run, int64_t n) {
  const batch *p = ctx;
  double *part = (double *)(void *)p->part + 2 * run;
  p->loops->dots_one(at[0], at[1], n, mean_of(p, run % p->channels), part);
}

/* part: the same sums of every element, over CHUNK samples. */
static void sum_sample(void *ctx, char *const *at, int64_t run, int64_t n) {
  const batch *p = ctx;
  size_t bytes = (size_t)(n * mt_lane_size(p->lane));
  char *sg = p->part + (size_t)(run / CHUNK) * 2 * bytes;
  if (run % CHUNK == 0) memset(sg, 0, 2 * bytes);
  p->loops->dots_each(at[0], at[1], n, p->each[0], sg, sg + bytes);
}

static int64_t nchunks(const batch *p) { return (p->samples + CHUNK - 1) / CHUNK; }

static void channel_sums(const batch *p, int64_t c, double *sums) {
  sums[0] = sums[1] = 0;
  if (p->samples * p->spatial == 0) return;
  if (p->pieces) {
    const double *part = (const double *)(const void *)p->part;
    for (int64_t i = 0; i < p->samples; i++) {
      sums[0] += part[2 * (i * p->channels + c)];
      sums[1] += part[2 * (i * p->channels + c) + 1];
    }
    return;
  }
  int64_t n = p->channels * p->spatial;
  for (int64_t i = 0; i < nchunks(p); i++)
    for (int64_t s = 0; s < p->spatial; s++) {
      sums[0] += mt_lane_get(p->lane, p->part, 2 * i * n + c * p->spatial + s);
      sums[1] += mt_lane_get(p->lane, p->part, (2 * i + 1) * n + c * p->spatial + s);
    }
}

static void factors(void *ctx, int64_t first, int64_t end, int worker) {
  const batch *p = ctx;
  const mt_kargs *k = p->k;
  bool training = k->arg[5].u.i;
  double n = (double)(p->samples * p->spatial);
  (void)worker;
  for (int64_t c = first; c < end; c++) {
    double sums[2], rstd = mt_lane_get(p->lane, k->in[3]->data, c);
    channel_sums(p, c, sums);
    write1(k, k->out[1], c, sums[1] * rstd);
    write1(k, k->out[2], c, sums[0]);
    double a = rstd * channel(p, p->w, c, 1);
    double b = training ? -a * rstd * rstd * sums[1] / n : 0, d = training ? -a * sums[0] / n : 0;
    if (p->pieces) {
      p->factor[c][0] = a;
      p->factor[c][1] = b;
      p->factor[c][2] = d;
    } else {
      set_each(p, 1, c, a);
      set_each(p, 2, c, b);
      set_each(p, 3, c, d);
    }
  }
}

static void back_piece(void *ctx, char *const *at, int64_t run, int64_t n) {
  const batch *p = ctx;
  int64_t c = run % p->channels;
  const double *f = p->factor[c];
  p->loops->back_one(at[0], at[1], at[2], n, mean_of(p, c), f[0], f[1], f[2]);
}

static void back_sample(void *ctx, char *const *at, int64_t run, int64_t n) {
  const batch *p = ctx;
  (void)run;
  p->loops->back_each(at[0], at[1], at[2], n, p->each[0], p->each[1], p->each[2], p->each[3]);
}

static void plan_back(batch *p, const mt_kargs *k, mt_arena *a) {
  const mt_view *v[3] = {k->in[0], k->in[1], k->out[0]};
  begin(p, k, k->in[1]);
  plan_runs(p, &p->sums, p->pieces ? sum_piece : sum_sample, 2, v, false);
  p->sums.group = p->pieces ? 1 : CHUNK;
  plan_runs(p, &p->apply, p->pieces ? back_piece : back_sample, 3, v, true);
  p->sums_scratch = mt_arena_take(a, 1, mt_along_scratch(&p->sums));
  p->apply_scratch = mt_arena_take(a, 1, mt_along_scratch(&p->apply));
  p->w = mt_norm_param(k, k->in[4], p->lane, a);
  p->factor = mt_arena_take(a, p->channels, sizeof *p->factor);
  take_each(p, a, 4);
  if (p->pieces)
    p->part = mt_arena_take(a, p->samples * p->channels, 2 * sizeof(double));
  else
    p->part =
        mt_arena_take(a, nchunks(p) * 2 * p->channels * p->spatial, (size_t)mt_lane_size(p->lane));
}

static void run_back(batch *p) {
  for (int64_t c = 0; c < p->channels && !p->pieces; c++) set_each(p, 0, c, mean_of(p, c));
  mt_along_run(&p->sums, p->sums_scratch, GRAIN);
  mt_parallel_for(p->k->par, p->channels, GRAIN / (p->samples + 1) + 1, factors, p);
  mt_along_run(&p->apply, p->apply_scratch, GRAIN);
}

#define BATCH(name, plan, run)                        \
  int mt_cpu_##name(const mt_kargs *k) {              \
    batch p;                                          \
    mt_arena a = {k->scratch, 0};                     \
    plan(&p, k, &a);                                  \
    run(&p);                                          \
    return MT_OK;                                     \
  }                                                   \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) { \
    batch p;                                          \
    mt_arena a = {NULL, 0};                           \
    plan(&p, k, &a);                                  \
    return a.used;                                    \
  }
BATCH(batch_norm, plan_forward, run_forward)
BATCH(batch_norm_back, plan_back, run_back)
