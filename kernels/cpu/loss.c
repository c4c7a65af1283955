/* loss.c - cross entropy of logits and class targets, and the negative log likelihood.
 *
 * The logits are read once forward and once backward; no probabilities are kept, but two numbers
 * per sample. Targets are checked before anything is computed: the lowest bad one is reported in
 * k->error. A target equal to ignore_index, as stored, takes no part: its loss and gradient are 0.
 *
 *   cross_entropy(x, target, weight?, reduction, ignore_index) -> loss, stats, total
 *   cross_entropy_back(g, x, target, weight?, stats, total, reduction, ignore_index) -> gx
 *   nll_loss(x, target, weight?, reduction, ignore_index) -> loss, total
 *   nll_loss_back(g, target, weight?, total, reduction, ignore_index, ...) -> gx
 *
 * x: (C), (N, C) or (N, C, ...). reduction "none", "sum" or "mean" (over the weights of the
 * targets; NaN if they sum to 0). stats: (2, shape of target), the maximum and the log of the sum
 * of exponentials above it; total: the sum of the weights; both of the compute type, contiguous. */
#include <math.h>
#include <string.h>

#include "along.h"
#include "isa.h"
#include "softmax.h"

enum {
  GRAIN = 1 << 13
}; /* elements worth a thread */

typedef struct loss {
  const mt_kargs *k;
  const struct mt_softmax_loops *loops;
  mt_lane lane;
  const mt_view *target, *weight, *g;
  int64_t classes, samples;
  char reduction; /* n, s, m */
  int64_t *class; /* of every sample, 0-based; -1: ignored */
  double *each;   /* loss of every sample; backward: scale of its gradient */
  char *stats;
  void *scratch; /* of the driver */
  /* From here on large, and set when used. */
  mt_along along;
} loss;

static size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static double get1(const mt_kargs *k, const mt_view *v, int64_t i) {
  double x;
  mt_dtype d = (mt_dtype)v->dtype;
  k->isa->lane->load[MT_LF64][d](&x, v->data + i * mt_dtype_size(d), 1, 1);
  return x;
}
static void put1(const mt_kargs *k, const mt_view *v, double x) {
  k->isa->lane->store[MT_LF64][v->dtype](v->data, &x, 1, 1);
}

static double weight_of(const loss *p, int64_t class) {
  return p->weight ? get1(p->k, p->weight, class * (p->weight->ndim ? p->weight->stride[0] : 1))
                   : 1;
}

static double stat(const loss *p, int which, int64_t i) {
  int64_t at = which * p->samples + i;
  return p->lane == MT_LF32 ? (double)((float *)(void *)p->stats)[at]
                            : ((double *)(void *)p->stats)[at];
}

static void *stat_at(const loss *p, int which, int64_t i) {
  return p->stats + (which * p->samples + i) * mt_lane_size(p->lane);
}

/* Reads a view in row-major order as n contiguous elements of the lane. */
static void read_all(const mt_kargs *k, const mt_view *v, mt_lane lane, void *to) {
  char *out = to;
  mt_walk w;
  mt_cursor c;
  mt_dtype d = (mt_dtype)v->dtype;
  mt_walk_views(&w, v->ndim, v->size, 1, &v);
  mt_cursor_seek(&w, &c, 0, v->numel);
  while (mt_cursor_next(&w, &c)) {
    k->isa->lane->load[lane][d](out, v->data + c.off[0], c.n, w.step[0] / mt_dtype_size(d));
    out += c.n * mt_lane_size(lane);
  }
}

static int read_targets(loss *p, int input, int64_t ignore) {
  const mt_kargs *k = p->k;
  read_all(k, p->target, MT_LI64, p->class);
  for (int64_t i = 0; i < p->samples; i++) {
    int64_t v = p->class[i];
    if (v == ignore) {
      p->class[i] = -1;
      continue;
    }
    p->class[i] = v - k->index_base;
    if (v >= k->index_base && v < k->index_base + p->classes) continue;
    *k->error = (mt_kerror){input, i, v, k->index_base, k->index_base + p->classes - 1};
    return MT_BADINDEX;
  }
  return MT_OK;
}

/* ---- forward ---- */

static void one_loss(loss *p, int64_t i, double x) {
  int64_t c = p->class[i];
  double w = c < 0 ? 0 : weight_of(p, c);
  p->each[i] = c < 0 ? 0 : w * (stat(p, 1, i) - (x - stat(p, 0, i)));
}

static double element(const loss *p, const char *at, int64_t i) {
  return p->lane == MT_LF32 ? (double)((const float *)(const void *)at)[i]
                            : ((const double *)(const void *)at)[i];
}

static void forward_row(void *ctx, char *const *at, int64_t run, int64_t n) {
  loss *p = ctx;
  p->loops->stats_row(at[0], n, stat_at(p, 0, run), stat_at(p, 1, run));
  one_loss(p, run, p->class[run] < 0 ? 0 : element(p, at[0], p->class[run]));
}

static void forward_col(void *ctx, char *const *at, const int64_t *step, int64_t run, int64_t n,
                        int64_t cols) {
  loss *p = ctx;
  p->loops->stats_col(at[0], step[0], n, cols, stat_at(p, 0, run), stat_at(p, 1, run));
  for (int64_t j = 0; j < cols; j++) {
    int64_t c = p->class[run + j];
    one_loss(p, run + j, c < 0 ? 0 : element(p, at[0], c * step[0] + j));
  }
}

/* Sums in pieces of a fixed length, so that a long sum keeps its digits. */
static double sum_of(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += 256) {
    double s = 0;
    for (int64_t j = i; j < n && j < i + 256; j++) s += x[j];
    sum += s;
  }
  return sum;
}

static double total_weight(const loss *p) {
  double sum = 0;
  for (int64_t i = 0; i < p->samples; i += 256) {
    double s = 0;
    for (int64_t j = i; j < p->samples && j < i + 256; j++)
      s += p->class[j] < 0 ? 0 : weight_of(p, p->class[j]);
    sum += s;
  }
  return sum;
}

static void write_loss(const loss *p, const mt_view *out, const mt_view *total) {
  double sum, w = total_weight(p);
  put1(p->k, total, w);
  if (p->reduction == 'n') {
    mt_walk v;
    mt_cursor c;
    const double *x = p->each;
    mt_walk_views(&v, out->ndim, out->size, 1, &out);
    mt_cursor_seek(&v, &c, 0, out->numel);
    for (; mt_cursor_next(&v, &c); x += c.n)
      p->k->isa->lane->store[MT_LF64][out->dtype](out->data + c.off[0], x, c.n,
                                                  v.step[0] / mt_dtype_size((mt_dtype)out->dtype));
    return;
  }
  sum = sum_of(p->each, p->samples);
  put1(p->k, out, p->reduction == 'm' ? sum / w : sum);
}

/* Scratch: classes, values of every sample, the driver's buffers. */
static void lay_out(loss *p, const mt_kargs *k, const mt_view *x) {
  p->k = k;
  p->lane = mt_lane_of((mt_dtype)x->dtype);
  p->loops = k->isa->softmax->lane[p->lane];
  p->samples = p->target->numel;
  p->classes = x->size[x->ndim > 1];
  p->class = k->scratch;
  p->each = (double *)((char *)k->scratch + padded((size_t)p->samples * 8));
  p->scratch = (char *)p->each + padded((size_t)p->samples * 8);
}

static size_t scratch_of(const loss *p, size_t more) {
  size_t n = (size_t)p->samples;
  if (n > SIZE_MAX / 64 || more > SIZE_MAX / 2) return SIZE_MAX;
  return 2 * padded(n * 8) + more;
}

static void plan_forward(loss *p, const mt_kargs *k) {
  memset(p, 0, offsetof(loss, along));
  p->target = k->in[1];
  p->weight = k->in[2];
  p->reduction = k->arg[3].u.s[0];
  lay_out(p, k, k->in[0]);
  p->stats = k->out[1]->data;
  mt_along_begin(&p->along, k, p, forward_row, forward_col);
  mt_along_add(&p->along, k->in[0], p->lane, false);
  mt_along_plan(&p->along, k->in[0]->ndim > 1 ? 2u : 1u);
}

size_t mt_cpu_cross_entropy_scratch(const mt_kargs *k) {
  loss p;
  plan_forward(&p, k);
  return scratch_of(&p, mt_along_scratch(&p.along));
}

int mt_cpu_cross_entropy(const mt_kargs *k) {
  loss p;
  plan_forward(&p, k);
  int status = read_targets(&p, 1, MT_KARG_INT(k, 4));
  if (status != MT_OK) return status;
  memset(p.each, 0, (size_t)p.samples * sizeof(double)); /* no classes: nothing is run */
  mt_along_run(&p.along, p.scratch, GRAIN);
  write_loss(&p, k->out[0], k->out[2]);
  return MT_OK;
}

/* ---- backward ---- */

/* each: what the gradient of every sample is multiplied with. */
static void scales(loss *p, const mt_view *total, int64_t sign) {
  double g = 0, all = get1(p->k, total, 0);
  if (p->reduction == 'n')
    read_all(p->k, p->g, MT_LF64, p->each);
  else
    g = get1(p->k, p->g, 0) / (p->reduction == 'm' ? all : 1);
  for (int64_t i = 0; i < p->samples; i++) {
    double gi = p->reduction == 'n' ? p->each[i] : g;
    p->each[i] = p->class[i] < 0 ? 0 : (double)sign * gi * weight_of(p, p->class[i]);
  }
}

static void add_to(const loss *p, char *at, int64_t i, double x) {
  if (p->lane == MT_LF32)
    ((float *)(void *)at)[i] += (float)x;
  else
    ((double *)(void *)at)[i] += x;
}

static void back_row(void *ctx, char *const *at, int64_t run, int64_t n) {
  const loss *p = ctx;
  float single = (float)p->each[run];
  const void *scale = p->lane == MT_LF32 ? (const void *)&single : &p->each[run];
  p->loops->prob_row(at[0], at[1], n, stat_at(p, 0, run), stat_at(p, 1, run), scale);
  if (p->class[run] >= 0) add_to(p, at[1], p->class[run], -p->each[run]);
}

static void back_col(void *ctx, char *const *at, const int64_t *step, int64_t run, int64_t n,
                     int64_t cols) {
  const loss *p = ctx;
  float single[MT_ALONG_COLS];
  const void *scale = p->lane == MT_LF32 ? (const void *)single : p->each + run;
  for (int64_t j = 0; j < cols; j++) single[j] = (float)p->each[run + j];
  p->loops->prob_col(at[0], step[0], at[1], step[1], n, cols, stat_at(p, 0, run),
                     stat_at(p, 1, run), scale);
  for (int64_t j = 0; j < cols; j++) {
    int64_t c = p->class[run + j];
    if (c >= 0) add_to(p, at[1], c * step[1] + j, -p->each[run + j]);
  }
}

static void plan_back(loss *p, const mt_kargs *k) {
  memset(p, 0, offsetof(loss, along));
  p->g = k->in[0];
  p->target = k->in[2];
  p->weight = k->in[3];
  p->reduction = k->arg[6].u.s[0];
  lay_out(p, k, k->in[1]);
  p->stats = k->in[4]->data;
  mt_along_begin(&p->along, k, p, back_row, back_col);
  mt_along_add(&p->along, k->in[1], p->lane, false);
  mt_along_add(&p->along, k->out[0], p->lane, true);
  mt_along_plan(&p->along, k->in[1]->ndim > 1 ? 2u : 1u);
}

size_t mt_cpu_cross_entropy_back_scratch(const mt_kargs *k) {
  loss p;
  plan_back(&p, k);
  return scratch_of(&p, mt_along_scratch(&p.along));
}

int mt_cpu_cross_entropy_back(const mt_kargs *k) {
  loss p;
  plan_back(&p, k);
  int status = read_targets(&p, 2, MT_KARG_INT(k, 7));
  if (status != MT_OK) return status;
  scales(&p, k->in[5], 1);
  mt_along_run(&p.along, p.scratch, GRAIN);
  return MT_OK;
}

/* ---- negative log likelihood: the input holds log-probabilities ---- */

/* Calls f for the element of v that belongs to every sample's class; it begins at `at`. */
static void each_target(loss *p, const mt_view *v, void (*f)(loss *p, int64_t i, char *at)) {
  int dim = v->ndim > 1;
  int64_t i = 0, size = mt_dtype_size((mt_dtype)v->dtype), step = v->stride[dim] * size;
  mt_walk w;
  mt_cursor c;
  mt_walk_begin(&w, 1);
  for (int d = 0; d < v->ndim; d++) {
    int64_t s = v->stride[d] * size;
    if (d != dim) mt_walk_dim(&w, v->size[d], &s);
  }
  mt_walk_end(&w);
  mt_cursor_seek(&w, &c, 0, w.numel);
  while (mt_cursor_next(&w, &c))
    for (int64_t j = 0; j < c.n; j++, i++)
      if (p->class[i] >= 0) f(p, i, v->data + c.off[0] + j * w.step[0] + p->class[i] * step);
}

static void pick(loss *p, int64_t i, char *at) {
  double x;
  p->k->isa->lane->load[MT_LF64][p->k->in[0]->dtype](&x, at, 1, 1);
  p->each[i] = -x * weight_of(p, p->class[i]);
}

static void drop(loss *p, int64_t i, char *at) {
  p->k->isa->lane->store[MT_LF64][p->k->out[0]->dtype](at, &p->each[i], 1, 1);
}

static void plan_nll(loss *p, const mt_kargs *k, const mt_view *x, int target) {
  memset(p, 0, offsetof(loss, along));
  p->target = k->in[target];
  p->weight = k->in[target + 1];
  lay_out(p, k, x);
}

size_t mt_cpu_nll_loss_scratch(const mt_kargs *k) {
  loss p;
  plan_nll(&p, k, k->in[0], 1);
  return scratch_of(&p, 0);
}

int mt_cpu_nll_loss(const mt_kargs *k) {
  loss p;
  plan_nll(&p, k, k->in[0], 1);
  p.reduction = k->arg[3].u.s[0];
  int status = read_targets(&p, 1, MT_KARG_INT(k, 4));
  if (status != MT_OK) return status;
  memset(p.each, 0, (size_t)p.samples * sizeof(double));
  each_target(&p, k->in[0], pick);
  write_loss(&p, k->out[0], k->out[1]);
  return MT_OK;
}

size_t mt_cpu_nll_loss_back_scratch(const mt_kargs *k) {
  loss p;
  plan_nll(&p, k, k->out[0], 1);
  return scratch_of(&p, 0);
}

int mt_cpu_nll_loss_back(const mt_kargs *k) {
  loss p;
  const mt_view *out = k->out[0];
  plan_nll(&p, k, out, 1);
  p.g = k->in[0];
  p.reduction = k->arg[4].u.s[0];
  int status = read_targets(&p, 1, MT_KARG_INT(k, 5));
  if (status != MT_OK) return status;
  scales(&p, k->in[3], -1);
  mt_walk w;
  mt_cursor c;
  int64_t size = mt_dtype_size((mt_dtype)out->dtype);
  mt_walk_views(&w, out->ndim, out->size, 1, &out);
  mt_cursor_seek(&w, &c, 0, out->numel);
  while (mt_cursor_next(&w, &c))
    for (int64_t i = 0; i < c.n; i++) memset(out->data + c.off[0] + i * w.step[0], 0, (size_t)size);
  each_target(&p, out, drop);
  return MT_OK;
}
