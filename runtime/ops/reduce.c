/* reduce.c - reductions: sums, extremes, moments, norms.
 *
 * Every rule first brings what belongs to the result back to the shape of the input (`widen`); from
 * there gradients are pointwise. */
#include <math.h>

#include "rules.h"

#define SUMS {MT_ALL, MT_FIRST, MT_SUM_TYPE}
#define FLOATS {MT_FLOATS_C, MT_FIRST, MT_COMMON}
#define REAL_FLOATS {MT_REALFLOATS, MT_FIRST, MT_COMMON}
#define ORDERED {MT_REALS_B, MT_FIRST, MT_COMMON}

#define G b->g[0]
#define X b->in[0]
#define Y b->out[0]

/* ---- shapes: dims at argument 1, keepdim at 2 ---- */

static int shape_with(mt_call *c, int dims, int keepdim) {
  int64_t list[MT_MAX_DIM];
  int n = 0, status = mt_arg_list(c, dims, list, &n);
  if (c->inv[0]->ndim == 0) n = 0;
  for (int i = 0; i < c->nout && !status; i++)
    mt_spec_reduce(&c->out[i], c->inv[0], list, n, mt_ci(c, keepdim));
  return status;
}
static int shape_reduce(mt_call *c) { return shape_with(c, 1, 2); }

/* Elements that go into one result. */
static int64_t run_length(const int64_t *size, int ndim, const mt_value *dims) {
  int64_t n = 1;
  bool all = dims->kind == MT_NIL || (dims->kind == MT_INTS && dims->n == 0) || ndim == 0;
  if (dims->kind == MT_INT && ndim) return size[dims->u.i];
  for (int d = 0; all && d < ndim; d++) n *= size[d];
  for (int i = 0; !all && i < dims->n; i++) n *= size[dims->u.ints[i]];
  return n;
}

/* Extremes of nothing do not exist. */
static int shape_extreme(mt_call *c) {
  int status = shape_reduce(c);
  if (!status && run_length(c->inv[0]->size, c->inv[0]->ndim, &c->arg[1]) == 0 &&
      mt_shape_numel(c->out[0].ndim, c->out[0].size) != 0)
    status = mt_fail(c->rt, MT_ERROR, "there is no extreme of no elements: %s",
                     mt_tensor_str(c->in[0]));
  return status;
}
/* Positions: of nothing neither, even when the result is empty only because of other dims. */
static int shape_position(mt_call *c) {
  int status = shape_reduce(c);
  if (!status && run_length(c->inv[0]->size, c->inv[0]->ndim, &c->arg[1]) == 0)
    status = mt_fail(c->rt, MT_ERROR, "there is no extreme of no elements: %s",
                     mt_tensor_str(c->in[0]));
  return status;
}
/* uint8 stays uint8, as in PyTorch. */
static int shape_test(mt_call *c) {
  if (c->common == MT_U8) c->out[0].dtype = MT_U8;
  return shape_reduce(c);
}

static int shape_count(mt_call *c) {
  c->out[0].dtype = MT_I64;
  return shape_reduce(c);
}

/* ---- back to the shape of the input ---- */

/* t has the shape of the result; dims and keepdim are those of the operation. */
static moth_tensor *widen_as(mt_back *b, moth_tensor *t, const mt_value *dims, bool keepdim) {
  const mt_meta *m = &b->meta[0];
  int64_t kept[MT_MAX_DIM];
  unsigned mask = dims->kind == MT_NIL || (dims->kind == MT_INTS && dims->n == 0) ? ~0u : 0;
  if (dims->kind == MT_INT) mask = 1u << dims->u.i;
  if (dims->kind == MT_INTS)
    for (int i = 0; i < dims->n; i++) mask |= 1u << dims->u.ints[i];
  for (int d = 0; d < m->ndim; d++) kept[d] = mask >> d & 1 ? 1 : m->size[d];
  if (!keepdim && m->ndim) t = MT_DO(b->c, "reshape", mt_t(t), mt_ints(kept, m->ndim));
  return t;
}
static moth_tensor *widen(mt_back *b, moth_tensor *t) {
  return widen_as(b, t, &b->arg[1], b->arg[2].u.i);
}
static moth_tensor *expand(mt_back *b, moth_tensor *t) {
  return MT_DO(b->c, "expand", mt_t(t), mt_meta_size(b, 0));
}

static moth_tensor *mul(mt_back *b, moth_tensor *a, moth_tensor *t) {
  return mt_op2(b->c, "mul", a, t);
}

/* ---- sums ---- */

static void back_sum(mt_back *b) { mt_grad(b, 0, expand(b, widen(b, G))); }
static void back_nansum(mt_back *b) {
  moth_tensor *fine = mt_op1(b->c, "logical_not", mt_op1(b->c, "isnan", X));
  mt_grad(b, 0, MT_DO(b->c, "where", mt_t(fine), mt_t(widen(b, G)), mt_i(0)));
}
static void back_mean(mt_back *b) {
  double n = (double)run_length(b->meta[0].size, b->meta[0].ndim, &b->arg[1]);
  mt_grad(b, 0, expand(b, widen(b, mt_ops(b->c, "div", G, n))));
}
static void compose_nanmean(mt_ctx *c, const mt_value *arg) {
  moth_tensor *fine = mt_op1(c, "logical_not", mt_op1(c, "isnan", arg[0].u.t));
  moth_tensor *s = MT_DO(c, "nansum", arg[0], arg[1], arg[2], arg[3]);
  mt_return(c, mt_op2(c, "div", s, MT_DO(c, "sum", mt_t(fine), arg[1], arg[2])));
}

/* ---- products ---- */

/* Along one dim: the product of all before times the product of all behind. Right with zeros. */
static moth_tensor *others_product(mt_back *b, moth_tensor *x, int64_t dim) {
  mt_ctx *c = b->c;
  int64_t n = x ? x->v.size[dim] : 0;
  moth_tensor *one = MT_DO(c, "ones_like", mt_t(MT_DO(c, "narrow", mt_t(x), mt_i(dim), mt_i(0),
                                                     mt_i(1))));
  moth_tensor *head = MT_DO(c, "narrow", mt_t(x), mt_i(dim), mt_i(0), mt_i(n - 1));
  moth_tensor *tail = MT_DO(c, "narrow", mt_t(x), mt_i(dim), mt_i(1), mt_i(n - 1));
  tail = MT_DO(c, "flip", mt_t(tail), mt_ints(&dim, 1));
  moth_tensor *fore[2] = {one, head}, *aft[2] = {one, tail};
  if (c->status) return NULL;
  moth_tensor *f = MT_DO(c, "cumprod", mt_t(MT_DO(c, "cat", mt_ts(fore, 2), mt_i(dim))), mt_i(dim));
  moth_tensor *a = MT_DO(c, "cumprod", mt_t(MT_DO(c, "cat", mt_ts(aft, 2), mt_i(dim))), mt_i(dim));
  return mt_op2(c, "mul", f, MT_DO(c, "flip", mt_t(a), mt_ints(&dim, 1)));
}

static bool has_zero(mt_ctx *c, moth_tensor *x) {
  int64_t i = 0;
  double f;
  moth_tensor *t = mt_op1(c, "any", MT_DO(c, "eq", mt_t(x), mt_i(0)));
  if (t) mt_tensor_read(t, 0, &i, &f);
  return i != 0;
}

static void back_prod(mt_back *b) {
  mt_ctx *c = b->c;
  if (X && X->v.numel == 0) {
    mt_grad(b, 0, mt_zeros_meta(b, 0));
    return;
  }
  if (!has_zero(c, X)) {
    mt_grad(b, 0, mt_op2(c, "div", widen(b, mul(b, G, Y)), X));
    return;
  }
  moth_tensor *d;
  if (mt_given(&b->arg[1]) && b->meta[0].ndim) {
    d = others_product(b, X, b->arg[1].u.i);
  } else {
    d = others_product(b, mt_op1(c, "ravel", X), 0);
    d = MT_DO(c, "reshape", mt_t(d), mt_meta_size(b, 0));
  }
  mt_grad(b, 0, mul(b, widen(b, G), d));
}

/* ---- extremes ---- */

/* All ties share. The count is an integer: it may exceed what a float counts. */
static void back_amax(mt_back *b) {
  mt_ctx *c = b->c;
  moth_tensor *mask = mt_op2(c, "eq", X, widen(b, Y));
  moth_tensor *count = MT_DO(c, "sum", mt_t(mask), b->arg[1], mt_b(true));
  moth_tensor *g = widen(b, G);
  if (b->meta[0].ndim == 0) count = mt_op1(c, "sum", mask);
  mt_grad(b, 0, MT_DO(c, "where", mt_t(mask), mt_t(mt_op2(c, "div", g, count)), mt_i(0)));
}

/* The form with a dim gives the gradient to the position it reported. */
static void back_max_dim(mt_back *b) {
  mt_ctx *c = b->c;
  if (!G) return;
  if (b->meta[0].ndim == 0) {
    mt_grad(b, 0, G);
    return;
  }
  moth_tensor *zero = mt_zeros_meta(b, 0);
  mt_grad(b, 0, MT_DO(c, "scatter", mt_t(zero), b->arg[1], mt_t(widen(b, b->out[1])),
                      mt_t(widen(b, G))));
}

/* max(x), max(x, dim), max(x, other) */
static void extreme(mt_ctx *c, const mt_value *arg, const char *all, const char *along,
                    const char *pair) {
  if (arg[1].kind == MT_TENSOR) {
    mt_return(c, MT_DO(c, pair, arg[0], arg[1]));
  } else if (!mt_given(&arg[1])) {
    mt_return(c, MT_DO(c, all, arg[0]));
  } else {
    /* The argument may be a tensor, so its kind is not `dim`: it comes as the caller counts. */
    int64_t d = arg[1].kind == MT_INT ? arg[1].u.i : (int64_t)mt_argf(&arg[1]);
    if (d == 0 && c->index_base) {
      mt_ctx_fail(c, "argument 'dim': indices start at 1");
      return;
    }
    if (d > 0) d -= c->index_base;
    moth_tensor *v = MT_DO(c, along, arg[0], mt_i(d), arg[2]);
    mt_return(c, v);
    mt_return(c, mt_nth(c, 1));
  }
}
static void compose_max(mt_ctx *c, const mt_value *arg) {
  extreme(c, arg, "amax", "_max_dim", "maximum");
}
static void compose_min(mt_ctx *c, const mt_value *arg) {
  extreme(c, arg, "amin", "_min_dim", "minimum");
}
static void compose_aminmax(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "amin", arg[0], arg[1], arg[2]));
  mt_return(c, MT_DO(c, "amax", arg[0], arg[1], arg[2]));
}

/* ---- moments: dims at 1, correction at 2, keepdim at 3 ---- */

static int shape_moment(mt_call *c) { return shape_with(c, 1, 3); }

static double freedom(const mt_back *b) {
  double n = (double)run_length(b->meta[0].size, b->meta[0].ndim, &b->arg[1]);
  double f = n - mt_argf(&b->arg[2]);
  return f > 0 ? f : 0;
}
static moth_tensor *centred(mt_back *b) {
  moth_tensor *m = MT_DO(b->c, "mean", mt_t(X), b->meta[0].ndim ? b->arg[1] : mt_nil(), mt_b(true));
  return mt_op2(b->c, "sub", X, m);
}
static moth_tensor *moment_widen(mt_back *b, moth_tensor *t) {
  return widen_as(b, t, &b->arg[1], b->arg[3].u.i);
}
static moth_tensor *var_grad(mt_back *b, moth_tensor *g) {
  moth_tensor *scaled = mt_ops(b->c, "mul", moment_widen(b, g), 2 / freedom(b));
  return mul(b, scaled, centred(b));
}
/* g / (2 std), 0 where the spread is 0 */
static moth_tensor *std_slope(mt_back *b, moth_tensor *g) {
  moth_tensor *q = mt_op2(b->c, "div", g, mt_ops(b->c, "mul", Y, 2));
  return MT_DO(b->c, "where", mt_t(MT_DO(b->c, "eq", mt_t(Y), mt_i(0))), mt_i(0), mt_t(q));
}
static void back_var(mt_back *b) { mt_grad(b, 0, var_grad(b, G)); }
static void back_std(mt_back *b) { mt_grad(b, 0, var_grad(b, std_slope(b, G))); }

/* Complex: the spread of both parts together. */
static moth_tensor *moment(mt_ctx *c, const char *op, mt_value x, mt_value dims,
                           mt_value correction, mt_value keepdim) {
  if (x.u.t->v.dtype != MT_C64) return MT_DO(c, op, x, dims, correction, keepdim);
  moth_tensor *re = mt_op1(c, "real", x.u.t), *im = mt_op1(c, "imag", x.u.t);
  moth_tensor *v = mt_op2(c, "add", MT_DO(c, "_var", mt_t(re), dims, correction, keepdim),
                          MT_DO(c, "_var", mt_t(im), dims, correction, keepdim));
  return op[1] == 's' ? mt_op1(c, "sqrt", v) : v;
}

/* `unbiased` is an older name of correction 1 or 0. */
static void moments(mt_ctx *c, const mt_value *arg, const char *op, bool mean) {
  mt_value correction = mt_given(&arg[4]) ? mt_i(arg[4].u.i ? 1 : 0) : arg[2];
  mt_value dims = arg[0].u.t->v.ndim ? arg[1] : mt_nil();
  mt_return(c, moment(c, op, arg[0], dims, correction, arg[3]));
  if (mean) mt_return(c, MT_DO(c, "mean", arg[0], dims, arg[3]));
}
static void compose_var(mt_ctx *c, const mt_value *arg) { moments(c, arg, "_var", false); }
static void compose_std(mt_ctx *c, const mt_value *arg) { moments(c, arg, "_std", false); }
static void compose_var_mean(mt_ctx *c, const mt_value *arg) { moments(c, arg, "_var", true); }
static void compose_std_mean(mt_ctx *c, const mt_value *arg) { moments(c, arg, "_std", true); }

/* ---- logsumexp ---- */

/* exp(x - y). Where y is -inf every weight is 0; where it is inf the infinite terms have 1. */
static void back_logsumexp(mt_back *b) {
  mt_ctx *c = b->c;
  moth_tensor *y = widen(b, Y);
  moth_tensor *none = MT_DO(c, "isneginf", mt_t(y)), *inf = MT_DO(c, "isposinf", mt_t(y));
  moth_tensor *from = MT_DO(c, "where", mt_t(none), mt_i(0), mt_t(y));
  moth_tensor *d = mt_op2(c, "sub", X, from);
  moth_tensor *top = mt_op2(c, "logical_and", mt_op2(c, "eq", X, y), inf);
  d = MT_DO(c, "where", mt_t(top), mt_i(0), mt_t(d));
  mt_grad(b, 0, mul(b, widen(b, G), mt_op1(c, "exp", d)));
}

/* ---- norms: p at 1, dims at 2, keepdim at 3 ---- */

static int shape_norm(mt_call *c) {
  if (c->common == MT_C64) c->out[0].dtype = MT_F32;
  int status = shape_with(c, 2, 3);
  if (!status && isinf(mt_argf(&c->arg[1])) &&
      run_length(c->inv[0]->size, c->inv[0]->ndim, &c->arg[2]) == 0 &&
      mt_shape_numel(c->out[0].ndim, c->out[0].size) != 0)
    status = mt_fail(c->rt, MT_ERROR, "there is no extreme of no elements: %s",
                     mt_tensor_str(c->in[0]));
  return status;
}

static moth_tensor *zero_where(mt_back *b, moth_tensor *at, moth_tensor *t) {
  return MT_DO(b->c, "where", mt_t(MT_DO(b->c, "eq", mt_t(at), mt_i(0))), mt_i(0), mt_t(t));
}

/* Extremes share among ties; otherwise x |x|^(p-2) g / y^(p-1), 0 where y is 0. */
static void back_norm(mt_back *b) {
  mt_ctx *c = b->c;
  double p = mt_argf(&b->arg[1]);
  bool keep = b->arg[3].u.i;
  moth_tensor *g = widen_as(b, G, &b->arg[2], keep), *y = widen_as(b, Y, &b->arg[2], keep);
  moth_tensor *d;
  if (p == 0) {
    d = mt_zeros_meta(b, 0);
  } else if (p == 1) {
    d = mul(b, g, mt_op1(c, "sgn", X));
  } else if (isinf(p)) {
    moth_tensor *mask = mt_op2(c, "eq", mt_op1(c, "abs", X), y);
    moth_tensor *count = MT_DO(c, "sum", mt_t(mask), b->arg[2], mt_b(true));
    moth_tensor *share = mt_op2(c, "div", g, count);
    d = mul(b, mt_op1(c, "sgn", X), MT_DO(c, "where", mt_t(mask), mt_t(share), mt_i(0)));
  } else if (p == 2) {
    d = zero_where(b, y, mul(b, X, mt_op2(c, "div", g, y)));
  } else {
    moth_tensor *a = mt_op1(c, "abs", X);
    moth_tensor *power = MT_DO(c, "pow", mt_t(a), mt_f(p - 1));
    moth_tensor *up = zero_where(b, X, mul(b, mt_op1(c, "sgn", X), power));
    moth_tensor *down = MT_DO(c, "pow", mt_t(y), mt_f(p - 1));
    d = zero_where(b, y, mul(b, up, mt_op2(c, "div", g, down)));
  }
  mt_grad(b, 0, d);
}

static void compose_vector_norm(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  if (mt_given(&arg[4])) x = MT_DO(c, "to", arg[0], arg[4]);
  mt_return(c, MT_DO(c, "norm", mt_t(x), arg[1], arg[2], arg[3]));
}

static const mt_op ops[] = {
    {.schema =
         "sum(tensor self, dim[]? dim=nil, bool keepdim=false, *, dtype? dtype=nil) -> tensor",
     .help = "The sum over all elements or over dims; integers and bool give int64.",
     .types = SUMS,
     .shape = shape_reduce,
     MT_CPU_S(sum),
     .backward = back_sum,
     .onnx = "ReduceSum:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "nansum(tensor self, dim[]? dim=nil, bool keepdim=false, *, dtype? dtype=nil) -> "
               "tensor",
     .help = "The sum in which NaN counts as 0.",
     .types = {MT_REALS_B, MT_FIRST, MT_SUM_TYPE},
     .shape = shape_reduce,
     MT_CPU_S(nansum),
     .backward = back_nansum,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "mean(tensor self, dim[]? dim=nil, bool keepdim=false, *, dtype? dtype=nil) -> "
               "tensor",
     .help = "The mean over all elements or over dims.",
     .types = FLOATS,
     .shape = shape_reduce,
     MT_CPU_S(mean),
     .backward = back_mean,
     .onnx = "ReduceMean:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "nanmean(tensor self, dim[]? dim=nil, bool keepdim=false, *, dtype? dtype=nil) -> "
               "tensor",
     .help = "The mean of what is not NaN.",
     .types = REAL_FLOATS,
     .compose = compose_nanmean,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "prod(tensor self, dim? dim=nil, bool keepdim=false, *, dtype? dtype=nil) -> tensor",
     .help = "The product over all elements or over a dim.",
     .types = SUMS,
     .shape = shape_reduce,
     MT_CPU_S(prod),
     .backward = back_prod,
     .save = MT_IN(0) | MT_OUT(0),
     .onnx = "ReduceProd:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "amax(tensor self, dim[] dim={}, bool keepdim=false) -> tensor",
     .help = "The largest element; NaN wins; ties share the gradient.",
     .types = ORDERED,
     .shape = shape_extreme,
     MT_CPU_S(amax),
     .backward = back_amax,
     .save = MT_IN(0) | MT_OUT(0),
     .onnx = "ReduceMax:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "amin(tensor self, dim[] dim={}, bool keepdim=false) -> tensor",
     .help = "The smallest element; NaN wins; ties share the gradient.",
     .types = ORDERED,
     .shape = shape_extreme,
     MT_CPU_S(amin),
     .backward = back_amax,
     .save = MT_IN(0) | MT_OUT(0),
     .onnx = "ReduceMin:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "aminmax(tensor self, *, dim? dim=nil, bool keepdim=false) -> (tensor min, tensor "
               "max)",
     .help = "Smallest and largest element.",
     .types = ORDERED,
     .compose = compose_aminmax,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "_max_dim(tensor self, dim dim, bool keepdim=false) -> (tensor values, index "
               "indices)",
     .help = "Largest elements along a dim and their positions.",
     .types = ORDERED,
     .shape = shape_extreme,
     MT_CPU_S(max_dim),
     .backward = back_max_dim,
     .save = MT_OUT(1),
     .flags = MT_HIDDEN},
    {.schema = "_min_dim(tensor self, dim dim, bool keepdim=false) -> (tensor values, index "
               "indices)",
     .help = "Smallest elements along a dim and their positions.",
     .types = ORDERED,
     .shape = shape_extreme,
     MT_CPU_S(min_dim),
     .backward = back_max_dim,
     .save = MT_OUT(1),
     .flags = MT_HIDDEN},
    {.schema = "argmax(tensor self, dim? dim=nil, bool keepdim=false) -> index",
     .help = "The position of the largest element, the first of ties; NaN counts as largest.",
     .types = {MT_REALS_B, MT_FIRST, MT_COMMON},
     .shape = shape_position,
     MT_CPU_S(argmax),
     .onnx = "ArgMax:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "argmin(tensor self, dim? dim=nil, bool keepdim=false) -> index",
     .help = "The position of the smallest element, the first of ties; NaN counts as smallest.",
     .types = {MT_REALS_B, MT_FIRST, MT_COMMON},
     .shape = shape_position,
     MT_CPU_S(argmin),
     .onnx = "ArgMin:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "any(tensor self, dim[]? dim=nil, bool keepdim=false) -> tensor",
     .help = "Whether an element is not 0.",
     .types = {MT_ALL, MT_FIRST, MT_IS_BOOL},
     .shape = shape_test,
     MT_CPU_S(any),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "all(tensor self, dim[]? dim=nil, bool keepdim=false) -> tensor",
     .help = "Whether no element is 0.",
     .types = {MT_ALL, MT_FIRST, MT_IS_BOOL},
     .shape = shape_test,
     MT_CPU_S(all),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "count_nonzero(tensor self, dim[]? dim=nil, bool keepdim=false) -> tensor",
     .help = "How many elements are not 0.",
     .types = {MT_ALL, MT_FIRST, MT_COMMON},
     .shape = shape_count,
     MT_CPU_S(count_nonzero),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "_var(tensor self, dim[]? dim, number correction, bool keepdim) -> tensor",
     .help = "The variance.",
     .types = REAL_FLOATS,
     .shape = shape_moment,
     MT_CPU_S(var),
     .backward = back_var,
     .save = MT_IN(0),
     .flags = MT_HIDDEN},
    {.schema = "_std(tensor self, dim[]? dim, number correction, bool keepdim) -> tensor",
     .help = "The standard deviation.",
     .types = REAL_FLOATS,
     .shape = shape_moment,
     MT_CPU_S(std),
     .backward = back_std,
     .save = MT_IN(0) | MT_OUT(0),
     .flags = MT_HIDDEN},
    {.schema = "var(tensor self, dim[]? dim=nil, *, number correction=1, bool keepdim=false, bool? "
               "unbiased=nil) -> tensor",
     .help = "The variance: squared distances from the mean over (n - correction).",
     .types = REAL_FLOATS,
     .compose = compose_var,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "std(tensor self, dim[]? dim=nil, *, number correction=1, bool keepdim=false, bool? "
               "unbiased=nil) -> tensor",
     .help = "The square root of the variance.",
     .types = REAL_FLOATS,
     .compose = compose_std,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "var_mean(tensor self, dim[]? dim=nil, *, number correction=1, bool keepdim=false, "
               "bool? unbiased=nil) -> (tensor var, tensor mean)",
     .help = "Variance and mean.",
     .types = REAL_FLOATS,
     .compose = compose_var_mean,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "std_mean(tensor self, dim[]? dim=nil, *, number correction=1, bool keepdim=false, "
               "bool? unbiased=nil) -> (tensor std, tensor mean)",
     .help = "Standard deviation and mean.",
     .types = REAL_FLOATS,
     .compose = compose_std_mean,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "logsumexp(tensor self, dim[] dim, bool keepdim=false) -> tensor",
     .help = "log(sum(exp(x))) without overflow; all -inf gives -inf.",
     .types = {MT_REALFLOATS, MT_PROMOTE_FLOAT, MT_COMMON},
     .shape = shape_reduce,
     MT_CPU_S(logsumexp),
     .backward = back_logsumexp,
     .save = MT_IN(0) | MT_OUT(0),
     .onnx = "ReduceLogSumExp:13",
     .sample = "{2,3}; {2}",
     .flags = MT_METHOD},
    {.schema = "norm(tensor self, number p=2, dim[]? dim=nil, bool keepdim=false) -> tensor",
     .help = "The p-norm over all elements or over dims; the gradient at 0 is 0.",
     .types = FLOATS,
     .shape = shape_norm,
     MT_CPU_S(norm),
     .backward = back_norm,
     .save = MT_IN(0) | MT_OUT(0),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "linalg_vector_norm(tensor self, number ord=2, dim[]? dim=nil, bool keepdim=false, "
               "*, dtype? dtype=nil) -> tensor",
     .help = "The norm of order `ord` over all elements or over dims.",
     .types = FLOATS,
     .compose = compose_vector_norm,
     .sample = "{2,3}"},
    {.schema = "max(tensor self, operand? dim=nil, bool keepdim=false) -> (tensor values, index "
               "indices)",
     .help = "The largest element; with a dim, the largest along it and their positions; with a "
             "tensor, maximum.",
     .types = ORDERED,
     .compose = compose_max,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "min(tensor self, operand? dim=nil, bool keepdim=false) -> (tensor values, index "
               "indices)",
     .help = "The smallest element; with a dim, the smallest along it and their positions; with a "
             "tensor, minimum.",
     .types = ORDERED,
     .compose = compose_min,
     .sample = "{2,3}",
     .flags = MT_METHOD},
};
MT_FAMILY(reduce, ops);
