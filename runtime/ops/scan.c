/* scan.c - running sums, products and extremes along a dim, and softmax. */
#include "rules.h"

#define FLOAT {MT_REALFLOATS, MT_FIRST, MT_COMMON}
#define PAIR {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}
#define SUMS {MT_ALL, MT_FIRST, MT_SUM_TYPE}
#define FORM (MT_METHOD | MT_INPLACE)

#define G b->g[0]
#define X b->in[0]
#define Y b->out[0]

static int shape_same(mt_call *c) {
  for (int i = 0; i < c->nout; i++) mt_spec_like(&c->out[i], c->inv[0]);
  return MT_OK;
}
static moth_tensor *mul(mt_back *b, moth_tensor *a, moth_tensor *t) {
  return mt_op2(b->c, "mul", a, t);
}
static moth_tensor *along(mt_back *b, const char *op, moth_tensor *t) {
  return MT_DO(b->c, op, mt_t(t), b->arg[1]);
}
static moth_tensor *flipped(mt_back *b, moth_tensor *t) {
  return MT_DO(b->c, "flip", mt_t(t), mt_ints(&b->arg[1].u.i, 1));
}
/* The scan from the other end. */
static moth_tensor *reversed(mt_back *b, const char *op, moth_tensor *t) {
  return flipped(b, along(b, op, flipped(b, t)));
}
static moth_tensor *sum_kept(mt_back *b, moth_tensor *t, const mt_value *dim) {
  return MT_DO(b->c, "sum", mt_t(t), mt_ints(&dim->u.i, 1), mt_b(true));
}

/* ---- scans ---- */

static void back_cumsum(mt_back *b) {
  mt_grad(b, 0, b->meta[0].ndim ? reversed(b, "cumsum", G) : G);
}

/* Position k of a running product with zeros: all before it times the gradients of what comes
 * after, weighted by the products in between. */
static moth_tensor *cumprod_at(mt_back *b, int64_t k, int64_t n) {
  mt_ctx *c = b->c;
  mt_value dim = b->arg[1];
  moth_tensor *g = MT_DO(c, "narrow", mt_t(G), dim, mt_i(k), mt_i(n - k));
  moth_tensor *tail = MT_DO(c, "narrow", mt_t(X), dim, mt_i(k + 1), mt_i(n - k - 1));
  moth_tensor *one =
      MT_DO(c, "ones_like", mt_t(MT_DO(c, "narrow", mt_t(X), dim, mt_i(k), mt_i(1))));
  moth_tensor *both[2] = {one, along(b, "cumprod", tail)};
  if (c->status) return NULL;
  moth_tensor *w = MT_DO(c, "cat", mt_ts(both, 2), dim);
  moth_tensor *s = sum_kept(b, mul(b, g, w), &dim);
  if (k == 0) return s;
  moth_tensor *head = MT_DO(c, "narrow", mt_t(X), dim, mt_i(0), mt_i(k));
  return mul(b, s, MT_DO(c, "prod", mt_t(head), dim, mt_b(true)));
}

static bool has_zero(mt_ctx *c, moth_tensor *x) {
  int64_t i = 0;
  double f;
  moth_tensor *t = mt_op1(c, "any", MT_DO(c, "eq", mt_t(x), mt_i(0)));
  if (t) mt_tensor_read(t, 0, &i, &f);
  return i != 0;
}

static void back_cumprod(mt_back *b) {
  mt_ctx *c = b->c;
  if (b->meta[0].ndim == 0) {
    mt_grad(b, 0, G);
    return;
  }
  int64_t n = b->meta[0].size[b->arg[1].u.i];
  if (n == 0 || !has_zero(c, X)) {
    mt_grad(b, 0, mt_op2(c, "div", reversed(b, "cumsum", mul(b, G, Y)), X));
    return;
  }
  moth_tensor *all = NULL;
  for (int64_t k = 0; k < n && !c->status; k++) {
    moth_tensor *part = cumprod_at(b, k, n), *both[2] = {all, part};
    if (c->status) return;
    all = all ? MT_DO(c, "cat", mt_ts(both, 2), b->arg[1]) : part;
  }
  mt_grad(b, 0, all);
}

/* exp(x_k) * sum over j >= k of g_j exp(-y_j), the two signs of g apart so that it stays in
 * logarithms. */
static void back_logcumsumexp(mt_back *b) {
  mt_ctx *c = b->c;
  moth_tensor *part[2];
  if (b->meta[0].ndim == 0) {
    mt_grad(b, 0, G);
    return;
  }
  for (int i = 0; i < 2; i++) {
    moth_tensor *g = i ? mt_op1(c, "neg", G) : G;
    moth_tensor *on = MT_DO(c, "gt", mt_t(g), mt_i(0));
    moth_tensor *l = mt_op1(c, "log", MT_DO(c, "where", mt_t(on), mt_t(g), mt_i(1)));
    /* Masked behind the difference: where both are -inf nothing may flow back. */
    l = mt_op2(c, "sub", l, Y);
    l = MT_DO(c, "where", mt_t(on), mt_t(l), mt_f(-__builtin_inf()));
    moth_tensor *run = reversed(b, "logcumsumexp", l);
    part[i] = mt_op1(c, "exp", mt_op2(c, "add", run, X));
  }
  mt_grad(b, 0, mt_op2(c, "sub", part[0], part[1]));
}

static void back_cumextreme(mt_back *b) {
  if (!G) return;
  if (b->meta[0].ndim == 0) {
    mt_grad(b, 0, G);
    return;
  }
  mt_grad(b, 0, MT_DO(b->c, "scatter_add", mt_t(mt_zeros_meta(b, 0)), b->arg[1],
                      mt_t(b->out[1]), mt_t(G)));
}

/* ---- softmax ---- */

static void back_softmax(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_softmax_back", mt_t(G), mt_t(Y), b->arg[1]));
}
/* h = y (g - sum(g y)) */
static void back_softmax_back(mt_back *b) {
  moth_tensor *y = b->in[1];
  if (b->need[0]) mt_grad(b, 0, MT_DO(b->c, "_softmax_back", mt_t(G), mt_t(y), b->arg[2]));
  if (!b->need[1]) return;
  moth_tensor *inner = mt_op2(b->c, "sub", X, sum_kept(b, mul(b, X, y), &b->arg[2]));
  moth_tensor *outer = mul(b, X, sum_kept(b, mul(b, G, y), &b->arg[2]));
  mt_grad(b, 1, mt_op2(b->c, "sub", mul(b, G, inner), outer));
}
static void back_log_softmax(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_log_softmax_back", mt_t(G), mt_t(Y), b->arg[1]));
}
/* h = g - exp(y) sum(g) */
static void back_log_softmax_back(mt_back *b) {
  moth_tensor *e = mt_op1(b->c, "exp", b->in[1]);
  if (b->need[0])
    mt_grad(b, 0, mt_op2(b->c, "sub", G, sum_kept(b, mul(b, G, e), &b->arg[2])));
  if (!b->need[1]) return;
  moth_tensor *s = mul(b, e, sum_kept(b, X, &b->arg[2]));
  mt_grad(b, 1, mt_op1(b->c, "neg", mul(b, G, s)));
}
static void compose_softmin(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "softmax", mt_t(mt_op1(c, "neg", arg[0].u.t)), arg[1], arg[2]));
}

static const mt_op ops[] = {
    {.schema = "cumsum(tensor self, dim dim, *, dtype? dtype=nil) -> tensor",
     .help = "Running sums along a dim.", .types = SUMS, .shape = shape_same, MT_CPU_S(cumsum),
     .backward = back_cumsum, .onnx = "CumSum:14", .sample = "{2,3}; 2", .flags = FORM},
    {.schema = "cumprod(tensor self, dim dim, *, dtype? dtype=nil) -> tensor",
     .help = "Running products along a dim.", .types = SUMS, .shape = shape_same,
     MT_CPU_S(cumprod), .backward = back_cumprod, .save = MT_IN(0) | MT_OUT(0),
     .sample = "{2,3}; 2", .flags = FORM},
    {.schema = "logcumsumexp(tensor self, dim dim) -> tensor",
     .help = "The logarithm of running sums of exponentials along a dim.", .types = FLOAT,
     .shape = shape_same, MT_CPU_S(logcumsumexp), .backward = back_logcumsumexp,
     .save = MT_IN(0) | MT_OUT(0), .sample = "{2,3}; 2", .flags = MT_METHOD},
    {.schema = "cummax(tensor self, dim dim) -> (tensor values, index indices)",
     .help = "Running maxima along a dim and their positions, the last of ties.",
     .types = {MT_REALS_B, MT_FIRST, MT_COMMON}, .shape = shape_same, MT_CPU_S(cummax),
     .backward = back_cumextreme, .save = MT_OUT(1), .sample = "{2,3}; 2", .flags = MT_METHOD},
    {.schema = "cummin(tensor self, dim dim) -> (tensor values, index indices)",
     .help = "Running minima along a dim and their positions, the last of ties.",
     .types = {MT_REALS_B, MT_FIRST, MT_COMMON}, .shape = shape_same, MT_CPU_S(cummin),
     .backward = back_cumextreme, .save = MT_OUT(1), .sample = "{2,3}; 2", .flags = MT_METHOD},
    {.schema = "softmax(tensor input, dim dim, *, dtype? dtype=nil) -> tensor",
     .help = "exp(x) / sum(exp(x)) along a dim; a row of -inf gives NaN.", .types = FLOAT,
     .shape = shape_same, MT_CPU_S(softmax), .backward = back_softmax, .save = MT_OUT(0),
     .onnx = "Softmax:13", .sample = "{2,3}; 2", .flags = MT_METHOD},
    {.schema = "_softmax_back(tensor g, tensor y, dim dim) -> tensor",
     .help = "The gradient of softmax.", .types = PAIR, .shape = shape_same,
     MT_CPU_S(softmax_back), .backward = back_softmax_back, .save = MT_IN(0) | MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "log_softmax(tensor input, dim dim, *, dtype? dtype=nil) -> tensor",
     .help = "x - logsumexp(x) along a dim.", .types = FLOAT, .shape = shape_same,
     MT_CPU_S(log_softmax), .backward = back_log_softmax, .save = MT_OUT(0),
     .onnx = "LogSoftmax:13", .sample = "{2,3}; 2", .flags = MT_METHOD},
    {.schema = "_log_softmax_back(tensor g, tensor y, dim dim) -> tensor",
     .help = "The gradient of log_softmax.", .types = PAIR, .shape = shape_same,
     MT_CPU_S(log_softmax_back), .backward = back_log_softmax_back,
     .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "softmin(tensor input, dim dim, *, dtype? dtype=nil) -> tensor",
     .help = "softmax of -x.", .types = FLOAT, .compose = compose_softmin, .sample = "{2,3}; 2"},
};
MT_FAMILY(scan, ops);
