/* pad.c - padding, and resampling: interpolate, grid_sample, affine_grid.
 *
 * Padding and interpolation are linear: the gradient of their gradient is the operation itself. */
#include <math.h>
#include <string.h>

#include "rules.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define FLOATS \
  { MT_REALFLOATS, MT_FIRST, MT_COMMON }
#define SAME_FLOATS \
  { MT_REALFLOATS, MT_EQUAL, MT_COMMON }
#define G b->g[0]

/* ---- pad ---- */

static bool is(const mt_value *v, const char *name) { return strcmp(v->u.s, name) == 0; }

/* Whether dim size n can be padded by p on one side. */
static bool allowed(const char *mode, int64_t n, int64_t p) {
  if (p <= 0 || strcmp(mode, "constant") == 0) return true;
  if (strcmp(mode, "reflect") == 0) return p < n;
  return strcmp(mode, "circular") == 0 ? p <= n : n > 0;
}

static int shape_pad(mt_call *c) {
  const mt_view *x = c->inv[0];
  const mt_value *pad = &c->arg[1];
  const char *mode = c->arg[2].u.s;
  if (!is(&c->arg[2], "constant") && !is(&c->arg[2], "reflect") && !is(&c->arg[2], "replicate") &&
      !is(&c->arg[2], "circular"))
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'mode': expected constant, reflect, replicate or circular, got '%s'",
                   mode);
  if (pad->n % 2 != 0 || pad->n > 2 * x->ndim)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'pad': expected pairs for at most %d dims, got %d numbers", x->ndim,
                   pad->n);
  mt_spec_like(&c->out[0], x);
  c->out[0].strided = false;
  for (int i = 0; i + 1 < pad->n; i += 2) {
    int d = x->ndim - 1 - i / 2;
    int64_t a = pad->u.ints[i], z = pad->u.ints[i + 1], n = x->size[d];
    if (!allowed(mode, n, a) || !allowed(mode, n, z))
      return mt_fail(
          c->rt, MT_ERROR,
          "argument 'pad': dim %d of size %lld cannot be padded by %lld and %lld in mode '%s'",
          d + mt_base(c->rt), (long long)n, (long long)a, (long long)z, mode);
    c->out[0].size[d] = n + a + z;
    if (n + a + z < 0 || (a < 0 && -a > n) || (z < 0 && -z > n))
      return mt_fail(c->rt, MT_ERROR,
                     "argument 'pad': dim %d of size %lld cannot lose so many elements",
                     d + mt_base(c->rt), (long long)n);
  }
  return mt_shape_numel(x->ndim, c->out[0].size) < 0
             ? mt_fail(c->rt, MT_ERROR, "the result has too many elements")
             : MT_OK;
}

static void back_pad(mt_back *b) {
  mt_ctx *c = b->c;
  const mt_value *pad = &b->arg[1];
  int64_t crop[2 * MT_MAX_DIM];
  if (!is(&b->arg[2], "constant")) {
    mt_grad(b, 0, MT_DO(c, "_pad_back", mt_t(G), *pad, b->arg[2], mt_meta_size(b, 0)));
    return;
  }
  for (int i = 0; i < pad->n; i++) crop[i] = -pad->u.ints[i];
  mt_grad(b, 0, MT_DO(c, "_pad", mt_t(G), mt_ints(crop, pad->n), mt_s("constant"), mt_i(0)));
}

static int shape_pad_back(mt_call *c) {
  mt_spec_set(&c->out[0], c->arg[3].n, c->arg[3].u.ints);
  return MT_OK;
}
static void back_pad_back(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_pad", mt_t(G), b->arg[1], b->arg[2], mt_i(0)));
}

static void compose_pad(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "_pad", arg[0], arg[1], arg[2], mt_given(&arg[3]) ? arg[3] : mt_i(0)));
}

/* ---- interpolate ---- */

static int shape_interpolate(mt_call *c) {
  const mt_view *x = c->inv[0];
  const mt_value *size = &c->arg[1];
  mt_spec *s = &c->out[0];
  mt_spec_like(s, x);
  s->strided = false;
  for (int d = 0; d < size->n; d++) {
    int e = x->ndim - size->n + d;
    if (size->u.ints[d] < 1 || x->size[e] < 1)
      return mt_fail(c->rt, MT_ERROR, "cannot resample a dim of size %lld to %lld",
                     (long long)x->size[e], (long long)size->u.ints[d]);
    s->size[e] = size->u.ints[d];
  }
  return MT_OK;
}

static mt_value last_sizes(const mt_back *b, int nd) {
  return mt_ints(b->meta[0].size + b->meta[0].ndim - nd, nd);
}
static void back_interpolate(mt_back *b) {
  const mt_value *a = b->arg;
  mt_grad(b, 0,
          MT_DO(b->c, "_interpolate_back", mt_t(G), last_sizes(b, a[1].n), a[2], a[3], a[4], a[5]));
}
static void back_interpolate_back(mt_back *b) {
  const mt_value *a = b->arg;
  mt_grad(b, 0,
          MT_DO(b->c, "_interpolate", mt_t(G), last_sizes(b, a[1].n), a[2], a[3], a[4], a[5]));
}

typedef struct resample {
  int nd;
  int64_t size[3];
  double scale[3];
  bool scaled; /* scale is what positions are computed with */
} resample;

/* Sizes from `size` or `scale_factor`; arg: input, size, scale_factor, mode, align_corners,
 * recompute_scale_factor, antialias */
static bool read_sizes(mt_ctx *c, const mt_value *arg, resample *r) {
  const mt_view *v = &arg[0].u.t->v;
  const mt_value *size = &arg[1], *scale = &arg[2];
  r->nd = v->ndim - 2;
  r->scaled = mt_given(scale) && !(mt_given(&arg[5]) && arg[5].u.i);
  if (r->nd < 1 || r->nd > 3) {
    mt_ctx_fail(c, "argument 'input': expected 3 to 5 dims, got %s", mt_tensor_str(arg[0].u.t));
    return false;
  }
  if (mt_given(size) == mt_given(scale)) {
    mt_ctx_fail(c, "expected either size or scale_factor");
    return false;
  }
  int n = mt_given(size) ? size->n : scale->n;
  if (n != 1 && n != r->nd) {
    mt_ctx_fail(c, "argument '%s': expected 1 or %d numbers, got %d",
                mt_given(size) ? "size" : "scale_factor", r->nd, n);
    return false;
  }
  for (int d = 0; d < r->nd; d++) {
    int i = n == 1 ? 0 : d;
    double in = (double)v->size[2 + d];
    r->scale[d] = mt_given(scale) ? scale->u.floats[i] : 0;
    r->size[d] = mt_given(size) ? size->u.ints[i] : (int64_t)floor(in * r->scale[d]);
  }
  return true;
}

static void compose_interpolate(mt_ctx *c, const mt_value *arg) {
  static const char *const linear[] = {"linear", "bilinear", "trilinear"};
  static const char *const adaptive[] = {"adaptive_avg_pool1d", "adaptive_avg_pool2d",
                                         "adaptive_avg_pool3d"};
  const mt_value *mode = &arg[3];
  bool align = mt_given(&arg[4]) && arg[4].u.i, antialias = arg[6].u.i != 0;
  resample r;
  if (!read_sizes(c, arg, &r)) return;
  bool line = is(mode, linear[r.nd - 1]), cube = is(mode, "bicubic") && r.nd == 2;
  bool near = is(mode, "nearest") || is(mode, "nearest-exact");
  if (!line && !cube && !near && !is(mode, "area")) {
    mt_ctx_fail(
        c, "argument 'mode': '%s' is not for %s (expected nearest, nearest-exact, area, %s%s)",
        mode->u.s, mt_tensor_str(arg[0].u.t), linear[r.nd - 1], r.nd == 2 ? " or bicubic" : "");
    return;
  }
  if ((align && !line && !cube) || (antialias && !(line && r.nd == 2) && !cube)) {
    mt_ctx_fail(c, "argument '%s': not for mode '%s'", align ? "align_corners" : "antialias",
                mode->u.s);
    return;
  }
  mt_value size = mt_ints(r.size, r.nd);
  if (is(mode, "area")) {
    mt_return(c, MT_DO(c, adaptive[r.nd - 1], arg[0], size));
    return;
  }
  mt_value scales = mt_nil();
  if (r.scaled) scales = (mt_value){.kind = MT_FLOATS, .n = r.nd, .u.floats = r.scale};
  mt_return(c, MT_DO(c, "_interpolate", arg[0], size, *mode, mt_b(align), mt_b(antialias), scales));
}

/* ---- grid_sample ---- */

static int shape_grid(mt_call *c, int first) {
  const mt_view *x = c->inv[first], *grid = c->inv[first + 1];
  int nd = x->ndim - 2;
  bool fits = (nd == 2 || nd == 3) && grid->ndim == nd + 2 && grid->size[nd + 1] == nd &&
              grid->size[0] == x->size[0];
  const mt_value *mode = &c->arg[first + 2], *pad = &c->arg[first + 3];
  if (!fits)
    return mt_fail(c->rt, MT_ERROR,
                   "a grid of shape %s does not fit input of shape %s: it has its batch and a last "
                   "dim with a number for each of 2 or 3 dims",
                   mt_shape_str(c->rt, grid->ndim, grid->size),
                   mt_shape_str(c->rt, x->ndim, x->size));
  for (int d = 2; d < x->ndim; d++)
    if (x->size[d] == 0) return mt_fail(c->rt, MT_ERROR, "the input has no elements to sample");
  if (!is(mode, "bilinear") && !is(mode, "nearest") && !(is(mode, "bicubic") && nd == 2))
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'mode': expected bilinear, nearest or (2 dims) bicubic, got '%s'",
                   mode->u.s);
  if (!is(pad, "zeros") && !is(pad, "border") && !is(pad, "reflection"))
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'padding_mode': expected zeros, border or reflection, got '%s'",
                   pad->u.s);
  return MT_OK;
}

static int shape_grid_sample(mt_call *c) {
  int status = shape_grid(c, 0), nd = c->inv[0]->ndim - 2;
  int64_t size[5];
  if (status) return status;
  memcpy(size, c->inv[0]->size, 2 * sizeof(int64_t));
  memcpy(size + 2, c->inv[1]->size + 1, (size_t)nd * sizeof(int64_t));
  mt_spec_set(&c->out[0], nd + 2, size);
  return MT_OK;
}

static void back_grid_sample(mt_back *b) {
  moth_tensor *gx = MT_DO(b->c, "_grid_sample_back", mt_t(G), b->arg[0], b->arg[1], b->arg[2],
                          b->arg[3], b->arg[4]);
  if (b->need[0]) mt_grad(b, 0, gx);
  if (b->need[1]) mt_grad(b, 1, mt_nth(b->c, 1));
}

static int shape_grid_back(mt_call *c) {
  int status = shape_grid(c, 1);
  mt_spec_set(&c->out[0], c->inv[1]->ndim, c->inv[1]->size);
  mt_spec_set(&c->out[1], c->inv[2]->ndim, c->inv[2]->size);
  return status;
}

static void back_grid_back(mt_back *b) {
  mt_ctx_fail(b->c, "grid_sample has no second derivative");
}

static void compose_grid_sample(mt_ctx *c, const mt_value *arg) {
  bool align = mt_given(&arg[4]) && arg[4].u.i;
  mt_return(c, MT_DO(c, "_grid_sample", arg[0], arg[1], arg[2], arg[3], mt_b(align)));
}

/* Coordinates -1 .. 1 of n places: the outer ones at the borders (align) or half a place inside. */
static moth_tensor *axis(mt_ctx *c, int64_t n, bool align, int dtype) {
  double end = n < 2 ? 0 : align ? 1 : 1 - 1.0 / (double)n;
  return MT_DO(c, "linspace", mt_f(-end), mt_f(end), mt_i(n), mt_i(dtype));
}

/* affine_grid(theta, size, align_corners): every place of the result times the matrices. */
static void compose_affine_grid(mt_ctx *c, const mt_value *arg) {
  const mt_view *v = &arg[0].u.t->v;
  const mt_value *size = &arg[1];
  int nd = size->n - 2;
  bool align = mt_given(&arg[2]) && arg[2].u.i;
  if ((nd != 2 && nd != 3) || v->ndim != 3 || v->size[0] != size->u.ints[0] || v->size[1] != nd ||
      v->size[2] != nd + 1) {
    mt_ctx_fail(c, "argument 'theta': shape %s does not fit a size of %d dims",
                mt_shape_str(c->rt, v->ndim, v->size), size->n);
    return;
  }
  moth_tensor *line[3], *col[4];
  for (int d = 0; d < nd; d++) line[d] = axis(c, size->u.ints[2 + d], align, v->dtype);
  if (!MT_DO(c, "meshgrid", mt_ts(line, nd))) return;
  for (int d = 0; d < nd; d++) col[nd - 1 - d] = mt_nth(c, d); /* the innermost dim comes first */
  col[nd] = mt_op1(c, "ones_like", col[0]);
  moth_tensor *places = MT_DO(c, "stack", mt_ts(col, nd + 1), mt_i(nd));
  int64_t flat[2] = {-1, nd + 1}, full[5];
  places = MT_DO(c, "reshape", mt_t(places), mt_ints(flat, 2));
  moth_tensor *y = mt_op2(c, "matmul", places, MT_DO(c, "transpose", arg[0], mt_i(1), mt_i(2)));
  full[0] = size->u.ints[0];
  for (int d = 0; d < nd; d++) full[1 + d] = size->u.ints[2 + d];
  full[nd + 1] = nd;
  mt_return(c, MT_DO(c, "reshape", mt_t(y), mt_ints(full, nd + 2)));
}

static const mt_op ops[] = {
    {.schema = "pad(tensor input, int[] pad, str mode=\"constant\", number? value=nil) -> tensor",
     .help =
         "Adds elements at the ends of dims: pairs (before, after) from the last dim on; negative "
         "ones crop. Modes: constant, reflect, replicate, circular.",
     .types = ANY,
     .compose = compose_pad,
     .sample = "{2,3}; {1,2}"},
    {.schema = "_pad(tensor x, int[] pad, str mode, number value) -> tensor",
     .help = "pad.",
     .types = ANY,
     .shape = shape_pad,
     MT_CPU(pad),
     .backward = back_pad,
     .onnx = "Pad:13",
     .flags = MT_HIDDEN},
    {.schema = "_pad_back(tensor g, int[] pad, str mode, int[] in_size) -> tensor",
     .help = "The gradient of _pad.",
     .types = ANY,
     .shape = shape_pad_back,
     MT_CPU_S(pad_back),
     .backward = back_pad_back,
     .flags = MT_HIDDEN},
    {.schema = "interpolate(tensor input, int[]? size=nil, float[]? scale_factor=nil, str "
               "mode=\"nearest\", bool? align_corners=nil, bool? recompute_scale_factor=nil, bool "
               "antialias=false) -> tensor",
     .help = "Resamples the last dims to size, or by scale_factor: nearest, nearest-exact, linear, "
             "bilinear, trilinear, bicubic, area.",
     .types = FLOATS,
     .compose = compose_interpolate,
     .sample = "{1,2,3,3}; {5,4}"},
    {.schema = "_interpolate(tensor x, int[] size, str mode, bool align_corners, bool antialias, "
               "float[]? scales) -> tensor",
     .help = "Resampling of the last dims.",
     .types = FLOATS,
     .shape = shape_interpolate,
     MT_CPU_S(interpolate),
     .backward = back_interpolate,
     .onnx = "Resize:13",
     .flags = MT_HIDDEN},
    {.schema = "_interpolate_back(tensor g, int[] in_size, str mode, bool align_corners, bool "
               "antialias, float[]? scales) -> tensor",
     .help = "The gradient of _interpolate.",
     .types = FLOATS,
     .shape = shape_interpolate,
     MT_CPU_S(interpolate_back),
     .backward = back_interpolate_back,
     .flags = MT_HIDDEN},
    {.schema = "grid_sample(tensor input, tensor grid, str mode=\"bilinear\", str "
               "padding_mode=\"zeros\", bool? align_corners=nil) -> tensor",
     .help = "The values of images at places given as coordinates from -1 to 1.",
     .types = SAME_FLOATS,
     .compose = compose_grid_sample},
    {.schema =
         "_grid_sample(tensor x, tensor grid, str mode, str padding_mode, bool align_corners) -> "
         "tensor",
     .help = "grid_sample.",
     .types = SAME_FLOATS,
     .shape = shape_grid_sample,
     MT_CPU(grid_sample),
     .backward = back_grid_sample,
     .save = MT_IN(0) | MT_IN(1),
     .onnx = "GridSample:16",
     .flags = MT_HIDDEN},
    {.schema =
         "_grid_sample_back(tensor g, tensor x, tensor grid, str mode, str padding_mode, bool "
         "align_corners) -> (tensor x, tensor grid)",
     .help = "The gradients of _grid_sample.",
     .types = SAME_FLOATS,
     .shape = shape_grid_back,
     MT_CPU_S(grid_sample_back),
     .backward = back_grid_back,
     .flags = MT_HIDDEN},
    {.schema = "affine_grid(tensor theta, int[] size, bool? align_corners=nil) -> tensor",
     .help = "The places that affine maps theta send the places of a result of that size to.",
     .types = FLOATS,
     .compose = compose_affine_grid,
     .sample = "{1,2,3}; {1,1,2,3}"},
};
MT_FAMILY(pad, ops);
