/* statistics.c - quantiles, covariance, histograms, trapezoids: composed of other operations. */
#include <math.h>
#include <string.h>

#include "rules.h"

#define FLOAT \
  { MT_REALFLOATS, MT_FIRST, MT_COMMON }

static moth_tensor *along_last(mt_ctx *c, const char *op, moth_tensor *t) {
  int64_t last = -1;
  return MT_DO(c, op, mt_t(t), mt_ints(&last, 1), mt_b(true));
}

/* ---- quantiles ---- */

/* q as a 1-d tensor of the dtype of x; fails outside 0..1. */
static moth_tensor *levels(mt_ctx *c, const mt_value *q, const moth_tensor *x) {
  int64_t one = 1, i;
  moth_tensor *t = q->kind == MT_TENSOR
                       ? mt_op1(c, "ravel", q->u.t)
                       : MT_DO(c, "full", mt_ints(&one, 1), mt_f(mt_argf(q)), mt_i(x->v.dtype));
  if (!t) return NULL;
  if (t->v.dtype != x->v.dtype || (q->kind == MT_TENSOR && q->u.t->v.ndim > 1)) {
    mt_ctx_fail(c, "argument 'q': expected a number or up to 1 dim of %s, got %s",
                mt_dtypes[x->v.dtype].name, mt_tensor_str(q->u.t));
    return NULL;
  }
  for (int64_t p = 0; p < t->v.numel; p++) {
    double v = 0;
    mt_tensor_read(t, p, &i, &v);
    if (v >= 0 && v <= 1) continue;
    mt_ctx_fail(c, "argument 'q': %g is not within 0 and 1", v);
    return NULL;
  }
  return t;
}

/* Elements of sorted rows at whole places. */
static moth_tensor *pick(mt_ctx *c, moth_tensor *sorted, moth_tensor *place) {
  moth_tensor *at = MT_DO(c, "to", mt_t(place), mt_i(MT_I64));
  return MT_DO(c, "gather", mt_t(sorted), mt_i(-1),
               mt_t(MT_DO(c, "add", mt_t(at), mt_i(c->index_base))));
}

/* The values at fractional places: (..., k) from sorted rows (..., n). */
static moth_tensor *interpolate(mt_ctx *c, moth_tensor *sorted, moth_tensor *place,
                                const char *how) {
  if (strcmp(how, "lower") == 0) return pick(c, sorted, mt_op1(c, "floor", place));
  if (strcmp(how, "higher") == 0) return pick(c, sorted, mt_op1(c, "ceil", place));
  if (strcmp(how, "nearest") == 0) return pick(c, sorted, mt_op1(c, "round", place));
  bool linear = strcmp(how, "linear") == 0;
  if (!linear && strcmp(how, "midpoint") != 0) {
    mt_ctx_fail(c,
                "argument 'interpolation': expected 'linear', 'lower', 'higher', 'midpoint' or "
                "'nearest', got '%.20s'",
                how);
    return NULL;
  }
  moth_tensor *low = mt_op1(c, "floor", place);
  moth_tensor *weight = mt_op2(c, "sub", place, low);
  return MT_DO(c, "lerp", mt_t(pick(c, sorted, low)),
               mt_t(pick(c, sorted, mt_op1(c, "ceil", place))), linear ? mt_t(weight) : mt_f(0.5));
}

/* (..., k) in the shape of the result: the levels in front if they were a list, the reduced dim
 * dropped, or kept with size 1. */
static void return_levels(mt_ctx *c, moth_tensor *y, const mt_value *arg) {
  bool list = arg[1].kind == MT_TENSOR && arg[1].u.t->v.ndim == 1, keep = arg[3].u.i;
  int ndim = arg[0].u.t->v.ndim;
  int64_t last = -1, first = 0, dim = mt_given(&arg[2]) ? arg[2].u.i + list : 0;
  if (list)
    y = MT_DO(c, "movedim", mt_t(y), mt_ints(&last, 1), mt_ints(&first, 1));
  else
    y = MT_DO(c, "squeeze", mt_t(y), mt_ints(&last, 1));
  for (int i = 0; keep && ndim && i < (mt_given(&arg[2]) ? 1 : ndim); i++)
    y = MT_DO(c, "unsqueeze", mt_t(y), mt_i(mt_given(&arg[2]) ? dim : -1));
  mt_return(c, y);
}

static void quantile(mt_ctx *c, const mt_value *arg, bool skip_nan) {
  moth_tensor *x = arg[0].u.t, *q = levels(c, &arg[1], x);
  int64_t last = -1;
  if (x->v.numel == 0) {
    mt_ctx_fail(c, "there is no quantile of no elements: %s", mt_tensor_str(x));
    return;
  }
  if (mt_given(&arg[2]) && x->v.ndim)
    x = MT_DO(c, "movedim", mt_t(x), mt_ints(&arg[2].u.i, 1), mt_ints(&last, 1));
  else
    x = mt_op1(c, "ravel", x);
  moth_tensor *sorted = MT_DO(c, "sort", mt_t(x), mt_i(-1)), *nan = mt_op1(c, "isnan", sorted);
  if (c->status) return;
  int64_t n = x->v.size[x->v.ndim - 1];
  moth_tensor *place, *count = along_last(c, "sum", nan); /* NaN are at the end */
  if (skip_nan) {
    moth_tensor *top = MT_DO(c, "rsub", mt_t(count), mt_i(n - 1));
    place = mt_op2(c, "mul", q, MT_DO(c, "clamp_min", mt_t(top), mt_i(0)));
  } else {
    moth_tensor *any = MT_DO(c, "gt", mt_t(count), mt_i(0));
    place = MT_DO(c, "where", mt_t(any), mt_i(n - 1), mt_t(mt_ops(c, "mul", q, (double)(n - 1))));
  }
  return_levels(c, interpolate(c, sorted, place, arg[4].u.s), arg);
}
static void compose_quantile(mt_ctx *c, const mt_value *arg) { quantile(c, arg, false); }
static void compose_nanquantile(mt_ctx *c, const mt_value *arg) { quantile(c, arg, true); }

/* ---- covariance: variables along the first dim, observations along the last ---- */

static void compose_cov(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *w = arg[2].u.t, *total = NULL, *mean;
  bool fweights = mt_given(&arg[2]), aweights = mt_given(&arg[3]);
  double correction = mt_argf(&arg[1]);
  if (x->v.ndim > 2) {
    mt_ctx_fail(c, "argument 'self': expected up to 2 dims, got %s", mt_tensor_str(x));
    return;
  }
  bool single = x->v.ndim < 2;
  if (single) x = MT_DO(c, "reshape", mt_t(x), mt_ints((const int64_t[]){1, -1}, 2));
  if (!fweights) w = NULL;
  if (aweights) w = w ? MT_DO(c, "mul", mt_t(w), arg[3]) : arg[3].u.t;
  if (!x) return;
  int64_t n = x->v.size[1];
  if (w) {
    w = mt_op2(c, "type_as", w, x);
    total = mt_op1(c, "sum", w);
    mean = mt_op2(c, "div", along_last(c, "sum", mt_op2(c, "mul", x, w)), total);
  } else {
    mean = along_last(c, "mean", x);
  }
  moth_tensor *d = mt_op2(c, "sub", x, mean);
  moth_tensor *y = mt_op2(c, "matmul", w ? mt_op2(c, "mul", d, w) : d, mt_op1(c, "mT", d));
  if (!w) {
    y = mt_ops(c, "div", y, (double)n > correction ? (double)n - correction : 0);
  } else {
    moth_tensor *less = mt_ops(c, "mul", total, 0);
    if (aweights)
      less = mt_op2(c, "div", mt_op1(c, "sum", MT_DO(c, "mul", mt_t(w), arg[3])), total);
    else
      less = mt_ops(c, "add", less, 1);
    less = mt_op2(c, "sub", total, mt_ops(c, "mul", less, correction));
    y = mt_op2(c, "div", y, MT_DO(c, "clamp_min", mt_t(less), mt_i(0)));
  }
  mt_return(c, single ? mt_op1(c, "squeeze", y) : y);
}

static void compose_corrcoef(mt_ctx *c, const mt_value *arg) {
  moth_tensor *y = MT_DO(c, "cov", arg[0]);
  if (!y) return;
  if (y->v.ndim == 0) {
    mt_return(c, mt_op2(c, "div", y, y));
    return;
  }
  moth_tensor *s = mt_op1(c, "sqrt", mt_op1(c, "diagonal", y));
  y = mt_op2(c, "div", y, MT_DO(c, "unsqueeze", mt_t(s), mt_i(1)));
  y = mt_op2(c, "div", y, MT_DO(c, "unsqueeze", mt_t(s), mt_i(0)));
  mt_return(c, MT_DO(c, "clamp", mt_t(y), mt_i(-1), mt_i(1)));
}

/* ---- trapezoids: y, x, dx, dim ---- */

static moth_tensor *trapezoids(mt_ctx *c, const mt_value *arg) {
  moth_tensor *y = arg[0].u.t;
  int dim = (int)arg[3].u.i;
  if (y->v.ndim == 0) {
    mt_ctx_fail(c, "argument 'y': expected 1 dim or more");
    return NULL;
  }
  int64_t n = y->v.size[dim] > 0 ? y->v.size[dim] - 1 : 0, size[MT_MAX_DIM];
  moth_tensor *left = MT_DO(c, "narrow", mt_t(y), mt_i(dim), mt_i(0), mt_i(n));
  moth_tensor *right = MT_DO(c, "narrow", mt_t(y), mt_i(dim), mt_i(y->v.size[dim] - n), mt_i(n));
  moth_tensor *sum = mt_ops(c, "div", mt_op2(c, "add", left, right), 2);
  if (!mt_given(&arg[1])) return MT_DO(c, "mul", mt_t(sum), arg[2]);
  moth_tensor *x = arg[1].u.t;
  bool flat = x->v.ndim == 1;
  moth_tensor *step = MT_DO(c, "diff", mt_t(x), mt_i(1), mt_i(flat ? 0 : dim));
  for (int d = 0; d < y->v.ndim; d++) size[d] = d == dim ? n : 1;
  if (flat) step = MT_DO(c, "reshape", mt_t(step), mt_ints(size, y->v.ndim));
  return mt_op2(c, "mul", sum, step);
}
static void compose_trapezoid(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "sum", mt_t(trapezoids(c, arg)), arg[3]));
}
static void compose_cumulative_trapezoid(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "cumsum", mt_t(trapezoids(c, arg)), arg[3]));
}

static void compose_dist(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "norm", mt_t(MT_DO(c, "sub", arg[0], arg[1])), arg[2]));
}

/* ---- histogram ---- */

static double end_of(mt_ctx *c, const char *op, moth_tensor *x) {
  int64_t i;
  double v = 0;
  moth_tensor *t = mt_op1(c, op, x);
  if (t) mt_tensor_read(t, 0, &i, &v);
  return v;
}

/* What lies outside is counted in one more bin, which is dropped. */
static void compose_histc(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = mt_op1(c, "ravel", arg[0].u.t);
  int64_t bins = arg[1].u.i;
  double min = mt_argf(&arg[2]), max = mt_argf(&arg[3]);
  if (!x) return;
  if (min == max && x->v.numel) min = end_of(c, "amin", x), max = end_of(c, "amax", x);
  if (min == max) min -= 1, max += 1;
  if (bins < 1 || !(min < max) || !isfinite(max - min)) {
    mt_ctx_fail(c, "expected bins from 1 and finite min below max, got %lld, %g and %g",
                (long long)bins, min, max);
    return;
  }
  moth_tensor *in = mt_op2(c, "logical_and", MT_DO(c, "ge", mt_t(x), mt_f(min)),
                           MT_DO(c, "le", mt_t(x), mt_f(max)));
  moth_tensor *p = mt_ops(c, "mul", mt_ops(c, "sub", x, min), (double)bins / (max - min));
  p = MT_DO(c, "clamp", mt_t(mt_op1(c, "floor", p)), mt_i(0), mt_i(bins - 1));
  p = MT_DO(c, "to", mt_t(MT_DO(c, "where", mt_t(in), mt_t(p), mt_f((double)bins))), mt_i(MT_I64));
  p = MT_DO(c, "_bincount", mt_t(MT_DO(c, "add", mt_t(p), mt_i(c->index_base))), mt_nil(),
            mt_i(bins + 1));
  p = MT_DO(c, "narrow", mt_t(p), mt_i(0), mt_i(0), mt_i(bins));
  mt_return(c, MT_DO(c, "to", mt_t(p), mt_i(x->v.dtype)));
}

static const mt_op ops[] = {
    {.schema = "quantile(tensor self, operand q, dim? dim=nil, bool keepdim=false, *, str "
               "interpolation=\"linear\") -> tensor",
     .help = "The value below which a part q of the elements lies; NaN if there is one.",
     .types = FLOAT,
     .compose = compose_quantile,
     .sample = "{2,3}; 0.4",
     .flags = MT_METHOD},
    {.schema = "nanquantile(tensor self, operand q, dim? dim=nil, bool keepdim=false, *, str "
               "interpolation=\"linear\") -> tensor",
     .help = "The quantile of what is not NaN.",
     .types = FLOAT,
     .compose = compose_nanquantile,
     .sample = "{2,3}; 0.4",
     .flags = MT_METHOD},
    {.schema = "cov(tensor self, *, int correction=1, tensor? fweights=nil, tensor? aweights=nil) "
               "-> tensor",
     .help = "The covariance matrix; variables are rows, observations columns.",
     .types = FLOAT,
     .compose = compose_cov,
     .sample = "{3,5}",
     .flags = MT_METHOD},
    {.schema = "corrcoef(tensor self) -> tensor",
     .help = "The matrix of correlation coefficients; variables are rows.",
     .types = FLOAT,
     .compose = compose_corrcoef,
     .sample = "{3,5}",
     .flags = MT_METHOD},
    {.schema = "trapezoid(tensor y, tensor? x=nil, *, number dx=1, dim dim=-1) -> tensor",
     .help = "The integral along a dim by the trapezoidal rule.",
     .types = FLOAT,
     .compose = compose_trapezoid,
     .sample = "{2,4}"},
    {.schema =
         "cumulative_trapezoid(tensor y, tensor? x=nil, *, number dx=1, dim dim=-1) -> tensor",
     .help = "The running integral along a dim by the trapezoidal rule.",
     .types = FLOAT,
     .compose = compose_cumulative_trapezoid,
     .sample = "{2,4}"},
    {.schema = "dist(tensor self, tensor other, number p=2) -> tensor",
     .help = "The p-norm of self - other.",
     .types = {MT_FLOATS_C, MT_PROMOTE, MT_COMMON},
     .compose = compose_dist,
     .sample = "{2,3}; {2,3}",
     .flags = MT_METHOD},
    {.schema = "histc(tensor self, int bins=100, number min=0, number max=0) -> tensor",
     .help = "How many elements lie in each of `bins` equal parts of min..max (0, 0: of the data).",
     .types = FLOAT,
     .compose = compose_histc,
     .sample = "{12}; 4",
     .flags = MT_METHOD | MT_NOGRAD},
};
MT_FAMILY(statistics, ops);
