/* pad.c - padding and interpolation, composed of selections.
 *
 * Both are separable: along one dim every result is a selection of positions, or a weighted sum of a
 * few. So a mode is a function from a place in the result to positions and weights; the gradients, of
 * any order, are those of index_select, mul and add. */
#include <math.h>
#include <string.h>

#include "rules.h"

#define ANY {MT_ALL, MT_FIRST, MT_COMMON}
#define FLOAT {MT_REALFLOATS, MT_FIRST, MT_COMMON}

/* ---- selections along a dim ---- */

/* A 1-d int64 tensor for positions of the result; owned by c. */
static int64_t *new_positions(mt_ctx *c, moth_tensor **t, int64_t n) {
  *t = MT_DO(c, "empty", mt_ints(&n, 1), mt_i(MT_I64));
  return *t ? (int64_t *)(void *)(*t)->v.data : NULL;
}
static moth_tensor *pick(mt_ctx *c, moth_tensor *x, int dim, moth_tensor *positions) {
  return MT_DO(c, "index_select", mt_t(x), mt_i(dim), mt_t(positions));
}

/* ---- pad ---- */

typedef enum mode {
  REFLECT,
  REPLICATE,
  CIRCULAR
} mode;

static int64_t padded_from(mode m, int64_t i, int64_t n) {
  if (m == REPLICATE) return i < 0 ? 0 : i >= n ? n - 1 : i;
  if (m == CIRCULAR) return ((i % n) + n) % n;
  if (i < 0) i = -i;
  return i >= n ? 2 * (n - 1) - i : i;
}

static moth_tensor *pad_dim(mt_ctx *c, moth_tensor *x, int dim, int64_t before, int64_t after,
                            mode m) {
  moth_tensor *at;
  int64_t n = x->v.size[dim], total = n + before + after;
  int64_t most = m == REFLECT ? n - 1 : m == CIRCULAR ? n : INT64_MAX;
  if (before > most || after > most || total < 1 || n < 1) {
    mt_ctx_fail(c, "argument 'pad': %lld and %lld do not fit a dim of size %lld in this mode",
                (long long)before, (long long)after, (long long)n);
    return NULL;
  }
  int64_t *p = new_positions(c, &at, total);
  for (int64_t i = 0; p && i < total; i++) p[i] = padded_from(m, i - before, n) + c->index_base;
  return pick(c, x, dim, at);
}

/* Negative amounts crop. */
static moth_tensor *pad_constant(mt_ctx *c, moth_tensor *x, const mt_value *pad, double value) {
  int64_t size[MT_MAX_DIM];
  moth_tensor *inner = x, *y, *window;
  int n = pad->n / 2;
  memcpy(size, x->v.size, sizeof size);
  for (int i = 0; i < n && !c->status; i++) {
    int dim = x->v.ndim - 1 - i;
    int64_t a = pad->u.ints[2 * i], z = pad->u.ints[2 * i + 1];
    int64_t from = a < 0 ? -a : 0, len = size[dim] - from + (z < 0 ? z : 0);
    size[dim] += a + z;
    if (size[dim] < 0 || len < 0) {
      mt_ctx_fail(c, "argument 'pad': dim %d would get size %lld", dim + c->index_base,
                  (long long)size[dim]);
      return NULL;
    }
    if (a < 0 || z < 0) inner = MT_DO(c, "narrow", mt_t(inner), mt_i(dim), mt_i(from), mt_i(len));
  }
  y = window = MT_DO(c, "full", mt_ints(size, x->v.ndim), mt_f(value), mt_i(x->v.dtype));
  for (int i = 0; i < n && !c->status; i++) {
    int dim = x->v.ndim - 1 - i;
    int64_t a = pad->u.ints[2 * i];
    window = MT_DO(c, "narrow", mt_t(window), mt_i(dim), mt_i(a > 0 ? a : 0),
                   mt_i(inner->v.size[dim]));
  }
  MT_DO(c, "copy_", mt_t(window), mt_t(inner));
  return y;
}

static void compose_pad(mt_ctx *c, const mt_value *arg) {
  static const char *const names[] = {"reflect", "replicate", "circular"};
  moth_tensor *x = arg[0].u.t;
  int n = arg[1].n;
  if (n % 2 || n / 2 > x->v.ndim) {
    mt_ctx_fail(c, "argument 'pad': %d amounts do not fit %s (two for each dim, last dim first)", n,
                mt_tensor_str(x));
    return;
  }
  if (strcmp(arg[2].u.s, "constant") == 0) {
    mt_return(c, pad_constant(c, x, &arg[1], mt_given(&arg[3]) ? arg[3].u.f : 0));
    return;
  }
  for (int m = 0; m < 3; m++) {
    if (strcmp(arg[2].u.s, names[m]) != 0) continue;
    int spatial = x->v.ndim - n / 2;
    if (spatial < 1 || spatial > 2 || n / 2 > 3 || mt_given(&arg[3])) {
      mt_ctx_fail(c, "mode '%s' pads the last dims of a batch without a value, got %s", names[m],
                  mt_tensor_str(x));
      return;
    }
    for (int i = 0; i < n / 2 && !c->status; i++)
      x = pad_dim(c, x, x->v.ndim - 1 - i, arg[1].u.ints[2 * i], arg[1].u.ints[2 * i + 1], (mode)m);
    mt_return(c, x);
    return;
  }
  mt_ctx_fail(c, "argument 'mode': expected 'constant', 'reflect', 'replicate' or 'circular', got "
              "'%.20s'", arg[2].u.s);
}

/* ---- interpolate ---- */

#define MAX_TAPS 256

/* How a dim is resampled. */
typedef struct resample {
  const char *mode;
  int64_t in, out;
  double scale; /* source steps per result step */
  bool align, antialias;
} resample;

typedef struct taps { /* of one result: positions first .. first + n - 1, clamped to the source */
  int64_t first;
  int n;
  double w[MAX_TAPS];
} taps;

static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static bool is(const resample *r, const char *name) { return strcmp(r->mode, name) == 0; }
static bool is_cubic(const resample *r) { return is(r, "bicubic"); }

static void taps_nearest(const resample *r, int64_t i, taps *t) {
  float s = (float)r->scale;
  float at = is(r, "nearest") ? (float)i * s : ((float)i + 0.5f) * s;
  t->first = (int64_t)floorf(at);
  t->n = 1;
  t->w[0] = 1;
}

static void taps_area(const resample *r, int64_t i, taps *t) {
  int64_t end = ((i + 1) * r->in + r->out - 1) / r->out;
  t->first = i * r->in / r->out;
  t->n = (int)(end - t->first);
  for (int k = 0; k < t->n && k < MAX_TAPS; k++) t->w[k] = 1.0 / t->n;
}

/* The filter is widened when the result is smaller than the source, and its weights sum to 1. */
static void taps_antialias(const resample *r, int64_t i, taps *t) {
  double half = is_cubic(r) ? 2 : 1, wide = r->scale > 1 ? r->scale : 1;
  double support = half * wide, centre = r->scale * ((double)i + 0.5), sum = 0;
  int64_t lo = (int64_t)(centre - support + 0.5), hi = (int64_t)(centre + support + 0.5);
  if (lo < 0) lo = 0;
  if (hi > r->in) hi = r->in;
  t->first = lo;
  t->n = (int)(hi - lo);
  for (int k = 0; k < t->n && k < MAX_TAPS; k++) {
    double x = ((double)(lo + k) - centre + 0.5) / wide;
    t->w[k] = is_cubic(r) ? cubic(x, -0.5) : fabs(x) < 1 ? 1 - fabs(x) : 0;
    sum += t->w[k];
  }
  for (int k = 0; k < t->n && k < MAX_TAPS; k++) t->w[k] /= sum;
}

static void taps_smooth(const resample *r, int64_t i, taps *t) {
  double at = r->align ? (double)i * r->scale : r->scale * ((double)i + 0.5) - 0.5;
  if (!is_cubic(r) && at < 0) at = 0;
  double low = floor(at), f = at - low;
  t->first = (int64_t)low - is_cubic(r);
  t->n = is_cubic(r) ? 4 : 2;
  for (int k = 0; k < t->n; k++)
    t->w[k] = is_cubic(r) ? cubic(f + 1 - k, -0.75) : k ? f : 1 - f;
}

static void taps_at(const resample *r, int64_t i, taps *t) {
  if (is(r, "nearest") || is(r, "nearest-exact")) taps_nearest(r, i, t);
  else if (is(r, "area")) taps_area(r, i, t);
  else if (r->antialias) taps_antialias(r, i, t);
  else taps_smooth(r, i, t);
}

static int most_taps(const resample *r) {
  taps t;
  int most = 1;
  for (int64_t i = 0; i < r->out; i++) {
    taps_at(r, i, &t);
    if (t.n > most) most = t.n;
  }
  return most;
}

/* Number `k` of the taps of every result: positions, and weights as a column for dim `dim`. */
static moth_tensor *one_tap(mt_ctx *c, moth_tensor *x, int dim, const resample *r, int k,
                            bool weighted) {
  moth_tensor *at, *w;
  taps t;
  int64_t size[MT_MAX_DIM];
  for (int d = 0; d < x->v.ndim; d++) size[d] = d == dim ? r->out : 1;
  int64_t *p = new_positions(c, &at, r->out);
  w = MT_DO(c, "empty", mt_ints(size, x->v.ndim), mt_i(MT_F64));
  for (int64_t i = 0; p && w && i < r->out; i++) {
    taps_at(r, i, &t);
    int64_t pos = t.first + (k < t.n ? k : 0);
    p[i] = (pos < 0 ? 0 : pos >= r->in ? r->in - 1 : pos) + c->index_base;
    ((double *)(void *)w->v.data)[i] = k < t.n ? t.w[k] : 0;
  }
  moth_tensor *y = pick(c, x, dim, at);
  if (!weighted) return y;
  return mt_op2(c, "mul", y, MT_DO(c, "to", mt_t(w), mt_i(x->v.dtype)));
}

static moth_tensor *resample_dim(mt_ctx *c, moth_tensor *x, int dim, const resample *r) {
  int n = most_taps(r);
  moth_tensor *sum = NULL;
  if (n > MAX_TAPS) {
    mt_ctx_fail(c, "more than %d positions would go into one", MAX_TAPS);
    return NULL;
  }
  for (int k = 0; k < n && !c->status; k++) {
    moth_tensor *part = one_tap(c, x, dim, r, k, n > 1);
    sum = sum ? mt_op2(c, "add", sum, part) : part;
  }
  return sum;
}

static bool mode_fits(mt_ctx *c, const mt_value *arg, int spatial) {
  static const struct {
    const char *name;
    int spatial;
    bool aligns;
  } modes[] = {{"nearest", 0, false}, {"nearest-exact", 0, false}, {"area", 0, false},
               {"linear", 1, true},   {"bilinear", 2, true},       {"bicubic", 2, true},
               {"trilinear", 3, true}};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    if (strcmp(arg[3].u.s, modes[i].name) != 0) continue;
    if (spatial < 1 || spatial > 3 || (modes[i].spatial && modes[i].spatial != spatial))
      mt_ctx_fail(c, "mode '%s' does not fit %s", modes[i].name, mt_tensor_str(arg[0].u.t));
    else if (mt_given(&arg[4]) && !modes[i].aligns)
      mt_ctx_fail(c, "argument 'align_corners': has no meaning in mode '%s'", modes[i].name);
    else if (arg[6].u.i && modes[i].spatial != 2)
      mt_ctx_fail(c, "argument 'antialias': only for bilinear and bicubic");
    return !c->status;
  }
  mt_ctx_fail(c, "argument 'mode': unknown mode '%.20s'", arg[3].u.s);
  return false;
}

/* Sizes given, or the source's times the factors; and the step between results in the source. */
static bool plan_dim(mt_ctx *c, const mt_value *arg, int i, int spatial, resample *r) {
  double factor = 0;
  if (mt_given(&arg[1])) {
    if (arg[1].n != 1 && arg[1].n != spatial) {
      mt_ctx_fail(c, "argument 'size': expected %d sizes, got %d", spatial, arg[1].n);
      return false;
    }
    r->out = arg[1].u.ints[arg[1].n == 1 ? 0 : i];
  } else {
    if (arg[2].n != 1 && arg[2].n != spatial) {
      mt_ctx_fail(c, "argument 'scale_factor': expected %d numbers, got %d", spatial, arg[2].n);
      return false;
    }
    factor = arg[2].u.floats[arg[2].n == 1 ? 0 : i];
    r->out = (int64_t)floor((double)r->in * factor);
    if (mt_given(&arg[5]) && arg[5].u.i) factor = 0;
  }
  if (r->out < 1 || r->in < 1) {
    mt_ctx_fail(c, "sizes must be positive, got %lld from %lld", (long long)r->out,
                (long long)r->in);
    return false;
  }
  if (r->align) r->scale = r->out > 1 ? (double)(r->in - 1) / (double)(r->out - 1) : 0;
  else r->scale = factor > 0 ? 1 / factor : (double)r->in / (double)r->out;
  return true;
}

static void compose_interpolate(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int spatial = x->v.ndim - 2;
  if (mt_given(&arg[1]) == mt_given(&arg[2])) {
    mt_ctx_fail(c, "give either size or scale_factor");
    return;
  }
  if (!mode_fits(c, arg, spatial)) return;
  for (int i = 0; i < spatial && !c->status; i++) {
    int dim = i + 2;
    resample r = {.mode = arg[3].u.s, .in = x->v.size[dim]};
    r.align = mt_given(&arg[4]) && arg[4].u.i;
    r.antialias = arg[6].u.i;
    if (!plan_dim(c, arg, i, spatial, &r)) return;
    if (r.out != r.in || (r.scale != 1 && !r.align)) x = resample_dim(c, x, dim, &r);
  }
  mt_return(c, x == arg[0].u.t ? mt_op1(c, "clone", x) : x);
}

static const mt_op ops[] = {
    {.schema = "pad(tensor input, int[] pad, str mode=\"constant\", float? value=nil) -> tensor",
     .help = "Adds elements around the last dims, last dim first: two amounts a dim. Modes: "
             "constant, reflect, replicate, circular; negative amounts crop.",
     .types = ANY,
     .compose = compose_pad,
     .onnx = "Pad:13",
     .sample = "{2,3}; {1,2}"},
    {.schema = "interpolate(tensor input, int[]? size=nil, float[]? scale_factor=nil, str "
               "mode=\"nearest\", bool? align_corners=nil, bool? recompute_scale_factor=nil, bool "
               "antialias=false) -> tensor",
     .help = "Resamples the dims behind the second. Modes: nearest, nearest-exact, linear, "
             "bilinear, bicubic, trilinear, area.",
     .types = FLOAT,
     .compose = compose_interpolate,
     .onnx = "Resize:13",
     .sample = "{1,2,3}; {5}"},
};
MT_FAMILY(pad, ops);
