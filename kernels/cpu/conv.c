/* conv.c - the kernels of convolution: from views and arguments to problems that conv_band.c,
 * conv_depth.c, conv_weight.c and gemm.c solve.
 *
 * conv             out (n, k, ..) = in[0] (n, c, ..) * in[1] (k, c/groups, ..) + in[2] (k) or
 * nothing conv_back_input  out (n, c, ..) from in[0] = dL/dout (n, k, ..) and in[1] as above; also
 * the forward pass of transposed convolution conv_back_weight out (k, c/groups, ..) from in[0] =
 * dL/dout and in[1] = the input
 *
 * One to three spatial dims. Arguments of all: (.., .., bias or size, stride[], padding[],
 * dilation[], groups), lists of one element stand for all dims. Sizes agree: the caller checked.
 * f32 and f64; f16 and bf16 with f32 sums, rounded once. Any strides. */
#include "conv.h"

#include <string.h>

#include "isa.h"

struct geometry {
  int dims; /* spatial */
  int64_t stride[3], padding[3], dilation[3], kernel[3], groups;
};

/* A problem, and what of it is prepared in scratch: weights and bias in the form it needs. */
struct job {
  struct mt_conv c;
  struct geometry geo;
  size_t w_bytes, bias_bytes;
};

static int64_t list_at(const mt_value *v, int i) {
  if (v->kind != MT_INTS) return v->u.i;
  return v->u.ints[v->n == 1 ? 0 : i];
}

static int acc_size(mt_dtype dtype) { return dtype == MT_F64 ? 8 : 4; }

/* The three sizes (or strides) of a view's spatial dims; those that it lacks are 1 (or 0). */
static void spatial(const mt_view *v, int64_t *size, int64_t *stride) {
  int lead = 3 - (v->ndim - 2);
  for (int d = 0; d < 3; d++) {
    if (size) size[d] = d < lead ? 1 : v->size[2 + d - lead];
    if (stride) stride[d] = d < lead ? 0 : v->stride[2 + d - lead];
  }
}

static struct geometry read_geometry(const mt_kargs *k, const mt_view *weight) {
  struct geometry g = {.dims = weight->ndim - 2};
  int lead = 3 - g.dims;
  for (int d = 0; d < 3; d++) {
    bool there = d >= lead;
    g.stride[d] = there ? list_at(&k->arg[3], d - lead) : 1;
    g.padding[d] = there ? list_at(&k->arg[4], d - lead) : 0;
    g.dilation[d] = there ? list_at(&k->arg[5], d - lead) : 1;
    g.kernel[d] = there ? weight->size[2 + d - lead] : 1;
  }
  g.groups = mt_karg_i(k, 6);
  return g;
}

static void set_src(struct mt_conv *c, const mt_view *v) {
  c->src = v->data, c->src_n = v->stride[0], c->src_c = v->stride[1];
  spatial(v, c->in, c->src_s);
}

static void set_dst(struct mt_conv *c, const mt_view *v) {
  c->dst = v->data, c->dst_n = v->stride[0], c->dst_c = v->stride[1];
  spatial(v, c->out, c->dst_s);
  for (int d = 0; d < 3; d++) {
    /* The stride of a dim of one element is free; this one lets planes pass as dense. */
    if (c->out[d] == 1) c->dst_s[d] = d == 2 ? 1 : c->out[2] * (d == 1 ? 1 : c->out[1]);
  }
}

static bool dense(const mt_view *v) {
  return v->contiguous && (v->dtype == MT_F32 || v->dtype == MT_F64);
}

static bool is_depthwise(const struct mt_conv *c) {
  return c->groups > 1 && c->ci == 1 && c->co <= 4;
}

static size_t solve_scratch(const struct mt_isa *isa, const struct mt_conv *c, int threads) {
  return is_depthwise(c) ? mt_conv_depth_scratch(isa, c, threads)
                         : mt_conv_band_scratch(isa, c, threads);
}

static void solve(const struct mt_isa *isa, const struct mt_conv *c, mt_parallel *par,
                  void *scratch) {
  if (is_depthwise(c))
    mt_conv_depth_run(isa, c, par, scratch);
  else
    mt_conv_band_run(isa, c, par, scratch);
}

static int threads_of(const mt_kargs *k) { return k->par ? k->par->nthreads : 1; }

/* ---- Weights ---- */

/* One run of taps of weight w[o][i], to the accumulator's type. */
static void read_taps(const mt_kargs *k, const mt_view *w, int64_t o, int64_t i, char *dst) {
  int64_t size[3], stride[3], item = mt_dtype_size((mt_dtype)w->dtype);
  int64_t acc = acc_size((mt_dtype)w->dtype);
  spatial(w, size, stride);
  const char *src = w->data + (o * w->stride[0] + i * w->stride[1]) * item;
  for (int64_t z = 0; z < size[0]; z++) {
    for (int64_t y = 0; y < size[1]; y++, dst += size[2] * acc) {
      mt_conv_read(dst, src + (z * stride[0] + y * stride[1]) * item, size[2], stride[2],
                   (mt_dtype)w->dtype, k->isa);
    }
  }
}

/* All weights, contiguous. */
static void read_weights(const mt_kargs *k, const mt_view *w, int64_t taps, char *dst) {
  for (int64_t o = 0; o < w->size[0]; o++) {
    for (int64_t i = 0; i < w->size[1]; i++) {
      read_taps(k, w, o, i, dst);
      dst += taps * acc_size((mt_dtype)w->dtype);
    }
  }
}

/* ---- A kernel of one tap: a product per image ---- */

/* Whether out[n] = W x[n] with planes as long rows; small planes are better packed together. */
static bool is_pointwise(const struct geometry *g, const mt_view *x, const mt_view *w,
                         const mt_view *out) {
  for (int d = 0; d < 3; d++) {
    if (g->kernel[d] != 1 || g->stride[d] != 1 || g->padding[d] != 0) return false;
  }
  int64_t plane = 1;
  for (int d = 2; d < x->ndim; d++) plane *= x->size[d];
  if (plane < 64 || g->groups != 1 || x->size[0] == 0 || w->numel == 0) return false;
  const mt_view *both[] = {x, out};
  for (int i = 0; i < 2; i++) {
    int64_t step = 1;
    for (int d = x->ndim - 1; d >= 2; d--) {
      if (both[i]->size[d] != 1 && both[i]->stride[d] != step) return false;
      step *= both[i]->size[d];
    }
  }
  return true;
}

/* `transposed`: out has the weights' second dim as channels. */
static mt_gemm pointwise(const mt_view *x, const mt_view *w, const mt_view *out, bool transposed,
                         mt_gemm_batch *batch) {
  int64_t plane = 1;
  for (int d = 2; d < x->ndim; d++) plane *= x->size[d];
  *batch = (mt_gemm_batch){.ndim = 1,
                           .count = x->size[0],
                           .size = {x->size[0]},
                           .b = {x->stride[0]},
                           .c = {out->stride[0]}};
  return (mt_gemm){.dtype = (mt_dtype)x->dtype,
                   .m = out->size[1],
                   .n = plane,
                   .k = x->size[1],
                   .a = w->data,
                   .ars = w->stride[transposed],
                   .acs = w->stride[!transposed],
                   .b = x->data,
                   .brs = x->stride[1],
                   .bcs = 1,
                   .c = out->data,
                   .crs = out->stride[1],
                   .ccs = 1,
                   .alpha = 1};
}

/* ---- Forward ---- */

static void set_forward(struct job *j, const mt_kargs *k) {
  const mt_view *x = k->in[0], *w = k->in[1], *bias = k->nin > 2 ? k->in[2] : NULL;
  struct mt_conv *c = &j->c;
  struct geometry *g = &j->geo;
  *g = read_geometry(k, w);
  *c = (struct mt_conv){.dtype = (mt_dtype)x->dtype,
                        .batch = x->size[0],
                        .groups = g->groups,
                        .ci = w->size[1],
                        .co = w->size[0] / g->groups,
                        .ntaps = 1};
  set_src(c, x);
  set_dst(c, k->out[0]);
  for (int d = 0; d < 3; d++) {
    c->step[d] = g->stride[d];
    c->tap[d] = (struct mt_taps){g->kernel[d], -g->padding[d], g->dilation[d]};
    c->ntaps *= g->kernel[d];
  }
  int acc = acc_size(c->dtype);
  j->w_bytes = dense(w) ? 0 : mt_bytes((double)w->numel, acc);
  j->bias_bytes = !bias || dense(bias) ? 0 : mt_bytes((double)bias->numel, acc);
  c->w = w->data;
  c->bias = bias ? bias->data : NULL;
}

/* Puts weights and bias into scratch where needed; returns the rest of it. */
static char *prepare(struct job *j, const mt_kargs *k) {
  char *at = k->scratch;
  struct mt_conv *c = &j->c;
  if (j->w_bytes) {
    read_weights(k, k->in[1], c->ntaps, at);
    c->w = at;
    at += j->w_bytes;
  }
  if (j->bias_bytes) {
    const mt_view *bias = k->in[2];
    mt_conv_read(at, bias->data, bias->numel, bias->stride[0], c->dtype, k->isa);
    c->bias = at;
    at += j->bias_bytes;
  }
  return at;
}

static bool forward_is_pointwise(const struct job *j, const mt_kargs *k) {
  return is_pointwise(&j->geo, k->in[0], k->in[1], k->out[0]);
}

size_t mt_cpu_conv_scratch(const mt_kargs *k) {
  struct job j;
  if (k->out[0]->numel == 0) return 0;
  set_forward(&j, k);
  size_t bytes = mt_bytes_add(j.w_bytes, j.bias_bytes);
  if (forward_is_pointwise(&j, k)) {
    mt_gemm_batch batch;
    mt_gemm g = pointwise(k->in[0], k->in[1], k->out[0], false, &batch);
    return mt_bytes_add(bytes, mt_gemm_scratch(k->isa, &g, &batch, threads_of(k)));
  }
  return mt_bytes_add(bytes, solve_scratch(k->isa, &j.c, threads_of(k)));
}

int mt_cpu_conv(const mt_kargs *k) {
  struct job j;
  if (!mt_dtype_is_float((mt_dtype)k->out[0]->dtype)) return MT_NOKERNEL;
  if (k->out[0]->numel == 0) return MT_OK;
  set_forward(&j, k);
  bool product = forward_is_pointwise(&j, k);
  if (product) j.w_bytes = 0;
  char *rest = prepare(&j, k);
  if (product) {
    mt_gemm_batch batch;
    mt_gemm g = pointwise(k->in[0], k->in[1], k->out[0], false, &batch);
    g.row_bias = j.c.bias;
    mt_gemm_run(k->isa, &g, &batch, k->par, rest);
  } else {
    solve(k->isa, &j.c, k->par, rest);
  }
  return mt_stopped(k->par) ? MT_INTERRUPTED : MT_OK;
}

/* ---- Backward to the input ---- */

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* Position p = phase + stride * y of the input gets, from tap i of the kernel, output position
 * (p + padding - i * dilation) / stride where that is whole: those i are a progression, which
 * starts at *first with distance *delta. */
static struct mt_taps phase_taps(const struct geometry *g, int d, int64_t phase, int64_t *first,
                                 int64_t *delta) {
  int64_t s = g->stride[d], i = 0;
  *delta = s / gcd(s, g->dilation[d]);
  while (i < *delta && (phase + g->padding[d] - i * g->dilation[d]) % s != 0) i++;
  *first = i;
  if (i >= *delta || i >= g->kernel[d]) return (struct mt_taps){0, 0, 0};
  return (struct mt_taps){(g->kernel[d] - 1 - i) / *delta + 1,
                          (phase + g->padding[d] - i * g->dilation[d]) / s,
                          -*delta * g->dilation[d] / s};
}

/* The problem of one phase of the strides: a convolution of dL/dout with step 1. */
struct phase {
  int64_t at[3], first[3], delta[3];
};

static void set_back_input(struct job *j, const mt_kargs *k) {
  const mt_view *dy = k->in[0], *w = k->in[1];
  struct mt_conv *c = &j->c;
  j->geo = read_geometry(k, w);
  *c = (struct mt_conv){.dtype = (mt_dtype)dy->dtype, .batch = dy->size[0]};
  c->groups = j->geo.groups;
  c->ci = w->size[0] / c->groups, c->co = w->size[1];
  set_src(c, dy);
  j->bias_bytes = 0;
}

/* False when this phase has no positions. */
static bool set_phase(struct job *j, const mt_kargs *k, struct phase *f) {
  const mt_view *dx = k->out[0];
  struct mt_conv *c = &j->c;
  int64_t offset = 0;
  set_dst(c, dx);
  c->ntaps = 1;
  for (int d = 0; d < 3; d++) {
    int64_t stride = j->geo.stride[d];
    if (f->at[d] >= c->out[d]) return false;
    offset += f->at[d] * c->dst_s[d];
    c->out[d] = (c->out[d] - f->at[d] + stride - 1) / stride;
    c->dst_s[d] *= stride;
    c->step[d] = 1;
    c->tap[d] = phase_taps(&j->geo, d, f->at[d], &f->first[d], &f->delta[d]);
    c->ntaps *= c->tap[d].n;
  }
  c->dst = dx->data + offset * mt_dtype_size(c->dtype);
  j->w_bytes =
      mt_bytes((double)c->groups * (double)c->co * (double)(c->ci * c->ntaps), acc_size(c->dtype));
  return true;
}

static bool next_phase(const struct job *j, struct phase *f) {
  for (int d = 2; d >= 0; d--) {
    if (++f->at[d] < j->geo.stride[d]) return true;
    f->at[d] = 0;
  }
  return false;
}

/* Weights of a phase as [group][input channel][output channel][tap]. */
static void phase_weights(const struct job *j, const mt_kargs *k, const struct phase *f,
                          char *dst) {
  const struct mt_conv *c = &j->c;
  const mt_view *w = k->in[1];
  int64_t size[3], stride[3], item = mt_dtype_size(c->dtype), acc = acc_size(c->dtype);
  spatial(w, size, stride);
  for (int64_t q = 0; q < c->groups * c->co; q++) {
    int64_t g = q / c->co, i = q % c->co;
    for (int64_t o = g * c->ci; o < (g + 1) * c->ci; o++) {
      const char *src = w->data + (o * w->stride[0] + i * w->stride[1] + f->first[0] * stride[0] +
                                   f->first[1] * stride[1] + f->first[2] * stride[2]) *
                                      item;
      for (int64_t z = 0; z < c->tap[0].n; z++) {
        for (int64_t y = 0; y < c->tap[1].n; y++, dst += c->tap[2].n * acc) {
          mt_conv_read(dst,
                       src + (z * f->delta[0] * stride[0] + y * f->delta[1] * stride[1]) * item,
                       c->tap[2].n, f->delta[2] * stride[2], c->dtype, k->isa);
        }
      }
    }
  }
}

size_t mt_cpu_conv_back_input_scratch(const mt_kargs *k) {
  struct job j;
  if (k->out[0]->numel == 0) return 0;
  set_back_input(&j, k);
  if (is_pointwise(&j.geo, k->in[0], k->in[1], k->out[0])) {
    mt_gemm_batch batch;
    mt_gemm g = pointwise(k->in[0], k->in[1], k->out[0], true, &batch);
    return mt_gemm_scratch(k->isa, &g, &batch, threads_of(k));
  }
  size_t most = 0;
  struct phase f = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
  do {
    if (!set_phase(&j, k, &f)) continue;
    size_t bytes = mt_bytes_add(j.w_bytes, solve_scratch(k->isa, &j.c, threads_of(k)));
    if (bytes > most) most = bytes;
  } while (next_phase(&j, &f));
  return most;
}

int mt_cpu_conv_back_input(const mt_kargs *k) {
  struct job j;
  if (!mt_dtype_is_float((mt_dtype)k->out[0]->dtype)) return MT_NOKERNEL;
  if (k->out[0]->numel == 0) return MT_OK;
  set_back_input(&j, k);
  if (is_pointwise(&j.geo, k->in[0], k->in[1], k->out[0])) {
    mt_gemm_batch batch;
    mt_gemm g = pointwise(k->in[0], k->in[1], k->out[0], true, &batch);
    mt_gemm_run(k->isa, &g, &batch, k->par, k->scratch);
  } else {
    struct phase f = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    do {
      if (!set_phase(&j, k, &f)) continue;
      phase_weights(&j, k, &f, k->scratch);
      j.c.w = k->scratch;
      solve(k->isa, &j.c, k->par, (char *)k->scratch + j.w_bytes);
    } while (next_phase(&j, &f) && !mt_stopped(k->par));
  }
  return mt_stopped(k->par) ? MT_INTERRUPTED : MT_OK;
}

/* ---- Backward to the weights ---- */

/* The forward problem with dL/dout as its result. */
static void set_back_weight(struct job *j, const mt_kargs *k) {
  const mt_view *in[] = {k->in[1], k->out[0]}, *out[] = {k->in[0]};
  mt_kargs forward = *k;
  forward.in = in, forward.out = out, forward.nin = 2;
  set_forward(j, &forward);
  j->w_bytes = dense(k->out[0]) ? 0 : mt_bytes((double)k->out[0]->numel, acc_size(j->c.dtype));
}

size_t mt_cpu_conv_back_weight_scratch(const mt_kargs *k) {
  struct job j;
  if (k->out[0]->numel == 0) return 0;
  set_back_weight(&j, k);
  if (k->in[0]->numel == 0) return j.w_bytes;
  size_t work = is_depthwise(&j.c) ? mt_conv_depth_scratch(k->isa, &j.c, threads_of(k))
                                   : mt_conv_weight_scratch(k->isa, &j.c, threads_of(k));
  return mt_bytes_add(j.w_bytes, work);
}

/* From [output channel][input channel][tap] to the view. */
static void write_weights(const mt_kargs *k, const mt_view *w, const char *src) {
  int64_t size[3], stride[3], item = mt_dtype_size((mt_dtype)w->dtype);
  int64_t acc = acc_size((mt_dtype)w->dtype);
  spatial(w, size, stride);
  for (int64_t q = 0; q < w->size[0] * w->size[1]; q++) {
    int64_t at = q / w->size[1] * w->stride[0] + q % w->size[1] * w->stride[1];
    for (int64_t z = 0; z < size[0]; z++) {
      for (int64_t y = 0; y < size[1]; y++, src += size[2] * acc) {
        mt_conv_write(w->data + (at + z * stride[0] + y * stride[1]) * item, src, size[2],
                      stride[2], (mt_dtype)w->dtype, k->isa);
      }
    }
  }
}

int mt_cpu_conv_back_weight(const mt_kargs *k) {
  struct job j;
  const mt_view *dw = k->out[0];
  if (!mt_dtype_is_float((mt_dtype)dw->dtype)) return MT_NOKERNEL;
  if (dw->numel == 0) return MT_OK;
  set_back_weight(&j, k);
  char *sums = j.w_bytes ? k->scratch : dw->data, *rest = (char *)k->scratch + j.w_bytes;
  if (k->in[0]->numel == 0)
    memset(sums, 0, (size_t)dw->numel * (size_t)acc_size(j.c.dtype));
  else if (is_depthwise(&j.c))
    mt_conv_depth_weight_run(k->isa, &j.c, sums, k->par, rest);
  else
    mt_conv_weight_run(k->isa, &j.c, sums, k->par, rest);
  if (j.w_bytes) write_weights(k, dw, sums);
  return mt_stopped(k->par) ? MT_INTERRUPTED : MT_OK;
}
