/* pool.c - pooling, tap by tap. */
#include <math.h>

#include "ref.h"

/* What one position of the result looks at in one dim. */
typedef struct span {
  int64_t start, taps, step, padded; /* padded: taps not beyond the padding */
} span;

typedef struct rule {
  int nd;
  bool adaptive;
  const int64_t *kernel, *stride, *padding, *dilation; /* NULL: 1, 1, 0, 1 */
} rule;

static span span_of(const rule *r, int d, int64_t in, int64_t out, int64_t o) {
  if (r->adaptive) {
    int64_t a = (int64_t)floor((double)(o * in) / (double)out);
    int64_t z = (int64_t)ceil((double)((o + 1) * in) / (double)out);
    return (span){a, z - a, 1, z - a};
  }
  int64_t pad = r->padding ? r->padding[d] : 0, step = r->dilation ? r->dilation[d] : 1;
  span s = {o * r->stride[d] - pad, r->kernel[d], step, 0};
  for (int64_t k = 0; k < s.taps; k++) s.padded += s.start + k * step < in + pad;
  return s;
}

typedef void (*tap_fn)(void *ctx, int64_t out, int64_t in, int64_t in_plane);

/* Calls f for every tap inside the input of result element p; returns the taps with padding. */
static int64_t taps(const rule *r, const mt_view *in, const mt_view *out, int64_t p, tap_fn f,
                    void *ctx) {
  int64_t at[MT_MAX_DIM], from[MT_MAX_DIM], all = 1, padded = 1;
  int lead = out->ndim - r->nd;
  span s[3];
  mt_ref_coords(out, p, at);
  for (int d = 0; d < lead; d++) from[d] = at[d];
  for (int d = 0; d < r->nd; d++) {
    s[d] = span_of(r, d, in->size[lead + d], out->size[lead + d], at[lead + d]);
    all *= s[d].taps;
    padded *= s[d].padded;
  }
  for (int64_t t = 0; t < all; t++) {
    int64_t rest = t, plane = 0;
    bool inside = true;
    for (int d = r->nd - 1; d >= 0; d--) {
      from[lead + d] = s[d].start + rest % s[d].taps * s[d].step;
      rest /= s[d].taps;
      inside = inside && from[lead + d] >= 0 && from[lead + d] < in->size[lead + d];
    }
    for (int d = 0; d < r->nd; d++) plane = plane * in->size[lead + d] + from[lead + d];
    if (inside) f(ctx, p, mt_ref_position(in, from), plane);
  }
  return padded;
}

typedef struct state {
  const mt_view *in, *out;
  long double value, add;
  int64_t at, count;
} state;

static void tap_max(void *ctx, int64_t out, int64_t in, int64_t plane) {
  state *s = ctx;
  long double v = mt_ref_load(s->in, in).re;
  (void)out;
  if (s->count++ == 0) s->at = plane;
  if (v > s->value || isnan(v)) {
    s->value = v;
    s->at = plane;
  }
}

static int maximum(const mt_kargs *k, const rule *r) {
  for (int64_t p = 0; p < k->out[0]->numel; p++) {
    state s = {.in = k->in[0], .value = -INFINITY};
    taps(r, k->in[0], k->out[0], p, tap_max, &s);
    mt_ref_store(k->out[0], p, (mt_num){s.value, 0});
    mt_ref_store(k->out[1], p, (mt_num){(long double)(s.at + k->index_base), 0});
  }
  return MT_OK;
}

static void tap_sum(void *ctx, int64_t out, int64_t in, int64_t plane) {
  state *s = ctx;
  (void)out;
  (void)plane;
  s->count++;
  if (s->in) s->value += mt_ref_load(s->in, in).re;
  if (s->out) mt_ref_store(s->out, in, (mt_num){mt_ref_load(s->out, in).re + s->add, 0});
}

static long double divide_by(const state *s, int64_t padded, bool include, const mt_value *given) {
  if (given && given->kind != MT_NIL) return (long double)given->u.i;
  return (long double)(include ? padded : s->count);
}

static int average(const mt_kargs *k, const rule *r, bool include, const mt_value *given) {
  for (int64_t p = 0; p < k->out[0]->numel; p++) {
    state s = {.in = k->in[0]};
    int64_t padded = taps(r, k->in[0], k->out[0], p, tap_sum, &s);
    mt_ref_store(k->out[0], p, (mt_num){s.value / divide_by(&s, padded, include, given), 0});
  }
  return MT_OK;
}

/* in[0] is the gradient of the result, out[0] that of the input. */
static int average_back(const mt_kargs *k, const rule *r, bool include, const mt_value *given) {
  const mt_view *g = k->in[0], *out = k->out[0];
  for (int64_t p = 0; p < out->numel; p++) mt_ref_store(out, p, (mt_num){0, 0});
  for (int64_t p = 0; p < g->numel; p++) {
    state count = {.add = 0}, s = {.out = out};
    int64_t padded = taps(r, out, g, p, tap_sum, &count);
    s.add = mt_ref_load(g, p).re / divide_by(&count, padded, include, given);
    taps(r, out, g, p, tap_sum, &s);
  }
  return MT_OK;
}

static rule regular(const mt_kargs *k, int first, bool dilated) {
  const mt_value *a = k->arg + first;
  return (rule){.nd = a[0].n,
                .kernel = a[0].u.ints,
                .stride = a[1].u.ints,
                .padding = a[2].u.ints,
                .dilation = dilated ? a[3].u.ints : NULL};
}

int mt_ref_max_pool(const mt_kargs *k) {
  rule r = regular(k, 1, true);
  return maximum(k, &r);
}
int mt_ref_adaptive_max_pool(const mt_kargs *k) {
  rule r = {.nd = k->arg[1].n, .adaptive = true};
  return maximum(k, &r);
}
int mt_ref_avg_pool(const mt_kargs *k) {
  rule r = regular(k, 1, false);
  return average(k, &r, MT_KARG_INT(k, 4) != 0, &k->arg[5]);
}
int mt_ref_avg_pool_back(const mt_kargs *k) {
  rule r = regular(k, 2, false);
  return average_back(k, &r, MT_KARG_INT(k, 5) != 0, &k->arg[6]);
}
int mt_ref_adaptive_avg_pool(const mt_kargs *k) {
  rule r = {.nd = k->arg[1].n, .adaptive = true};
  return average(k, &r, false, NULL);
}
int mt_ref_adaptive_avg_pool_back(const mt_kargs *k) {
  rule r = {.nd = k->arg[1].n, .adaptive = true};
  return average_back(k, &r, false, NULL);
}

static int at_positions(const mt_kargs *k, bool add) {
  const mt_view *x = k->in[0], *out = k->out[0];
  int64_t small = 1, large = 1;
  for (int d = 0; d < k->arg[2].n; d++) {
    small *= x->size[x->ndim - 1 - d];
    large *= out->size[out->ndim - 1 - d];
  }
  for (int64_t p = 0; p < out->numel; p++) mt_ref_store(out, p, (mt_num){0, 0});
  for (int64_t p = 0; p < x->numel; p++) {
    int64_t to = p / small * large + mt_ref_int(k->in[1], p) - k->index_base;
    long double v = mt_ref_load(x, p).re;
    mt_ref_store(out, to, (mt_num){add ? mt_ref_load(out, to).re + v : v, 0});
  }
  return MT_OK;
}
int mt_ref_max_pool_back(const mt_kargs *k) { return at_positions(k, true); }
int mt_ref_max_unpool(const mt_kargs *k) { return at_positions(k, false); }
