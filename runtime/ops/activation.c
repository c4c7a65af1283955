/* activation.c - pointwise activations and the fused forms of their gradients.
 *
 * A hot activation has a kernel for its gradient (`_x_back`), which is an operation like any other
 * with a rule of its own: so second derivatives exist. */
#include <string.h>

#include "rules.h"

#define FLOAT {MT_REALFLOATS, MT_EQUAL, MT_COMMON}
#define SAME {MT_REALS, MT_FIRST, MT_COMMON}
#define FORM (MT_METHOD | MT_INPLACE)

#define G b->g[0]
#define X b->in[0]
#define Y b->out[0]

static moth_tensor *mul(mt_back *b, moth_tensor *a, moth_tensor *t) {
  return mt_op2(b->c, "mul", a, t);
}
static moth_tensor *scaled(mt_back *b, moth_tensor *a, double s) {
  return mt_ops(b->c, "mul", a, s);
}
static moth_tensor *plus(mt_back *b, moth_tensor *a, double s) { return mt_ops(b->c, "add", a, s); }
/* 1 - x */
static moth_tensor *rest(mt_back *b, moth_tensor *a) {
  return MT_DO(b->c, "rsub", mt_t(a), mt_i(1));
}
static moth_tensor *where0(mt_back *b, moth_tensor *mask, moth_tensor *g) {
  return MT_DO(b->c, "where", mt_t(mask), mt_t(g), mt_i(0));
}

/* ---- tanh and sigmoid: gradients of unary.c ---- */

/* h = g (1 - y^2): dg = q (1 - y^2), dy = -2 q g y */
static void back_tanh_back(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_tanh_back", G, b->in[1]));
  if (b->need[1]) mt_grad(b, 1, scaled(b, mul(b, mul(b, G, X), b->in[1]), -2));
}
/* h = g y (1 - y): dg = q y (1 - y), dy = q g (1 - 2y) */
static void back_sigmoid_back(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_sigmoid_back", G, b->in[1]));
  if (b->need[1]) mt_grad(b, 1, mul(b, mul(b, G, X), rest(b, scaled(b, b->in[1], 2))));
}

/* ---- relu and its relatives ---- */

static void back_relu(mt_back *b) { mt_grad(b, 0, mt_op2(b->c, "_relu_back", G, Y)); }
/* Linear in g; flat in y. */
static void back_relu_back(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_relu_back", G, b->in[1]));
}
static void back_leaky_relu(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_leaky_relu_back", mt_t(G), mt_t(X), b->arg[1]));
}
static void back_leaky_relu_back(mt_back *b) {
  if (b->need[0])
    mt_grad(b, 0, MT_DO(b->c, "_leaky_relu_back", mt_t(G), mt_t(b->in[1]), b->arg[2]));
}
/* The gradient passes strictly inside min..max. */
static void back_hardtanh(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_inside_back", mt_t(G), mt_t(X), b->arg[1], b->arg[2]));
}
static void back_inside_back(mt_back *b) {
  if (b->need[0])
    mt_grad(b, 0, MT_DO(b->c, "_inside_back", mt_t(G), mt_t(b->in[1]), b->arg[2], b->arg[3]));
}
static void compose_relu6(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "hardtanh", arg[0], mt_i(0), mt_i(6)));
}
static void back_threshold(mt_back *b) {
  mt_grad(b, 0, where0(b, MT_DO(b->c, "gt", mt_t(X), b->arg[1]), G));
}

/* One weight, or one per channel (second dim). */
static void compose_prelu(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *w = arg[1].u.t;
  if (w->v.dtype != x->v.dtype) {
    mt_ctx_fail(c, "expected a weight of dtype %s, got %s", mt_dtypes[x->v.dtype].name,
                mt_tensor_str(w));
    return;
  }
  if (w->v.numel != 1) {
    int64_t size[MT_MAX_DIM], channels = x->v.ndim < 2 ? 1 : x->v.size[1];
    if (w->v.ndim != 1 || w->v.numel != channels) {
      mt_ctx_fail(c, "argument 'weight': expected 1 or %lld elements, got %s",
                  (long long)channels, mt_tensor_str(w));
      return;
    }
    for (int d = 0; d < x->v.ndim; d++) size[d] = d == 1 ? channels : 1;
    w = MT_DO(c, "view", mt_t(w), mt_ints(size, x->v.ndim));
  } else if (w->v.ndim > 0) {
    w = MT_DO(c, "reshape", mt_t(w), mt_ints(NULL, 0));
  }
  moth_tensor *positive = MT_DO(c, "gt", mt_t(x), mt_i(0));
  mt_return(c, MT_DO(c, "where", mt_t(positive), mt_t(x), mt_t(mt_op2(c, "mul", w, x))));
}

/* ---- exponentials ---- */

/* elu(x) = scale * (x > 0 ? x : alpha * (exp(input_scale x) - 1)) */
static void back_elu(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_elu_back", mt_t(G), mt_t(X), b->arg[1], b->arg[2], b->arg[3]));
}
static void back_elu_back(mt_back *b) {
  const mt_value *a = b->arg;
  if (b->need[0])
    mt_grad(b, 0, MT_DO(b->c, "_elu_back", mt_t(G), mt_t(b->in[1]), a[2], a[3], a[4]));
  if (!b->need[1]) return;
  double k = mt_argf(&a[2]) * mt_argf(&a[3]) * mt_argf(&a[4]) * mt_argf(&a[4]);
  moth_tensor *x = b->in[1];
  moth_tensor *e = mt_op1(b->c, "exp", scaled(b, x, mt_argf(&a[4])));
  moth_tensor *d = scaled(b, mul(b, mul(b, G, X), e), k);
  mt_grad(b, 1, where0(b, MT_DO(b->c, "le", mt_t(x), mt_i(0)), d));
}
static void compose_selu(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "elu", arg[0], mt_f(1.6732632423543772848), mt_f(1.0507009873554804934),
                     mt_i(1)));
}
static void compose_celu(mt_ctx *c, const mt_value *arg) {
  double alpha = mt_argf(&arg[1]);
  if (alpha == 0) mt_ctx_fail(c, "argument 'alpha': must not be 0");
  mt_return(c, MT_DO(c, "elu", arg[0], mt_f(alpha), mt_i(1), mt_f(1 / alpha)));
}

/* softplus(x) = log(1 + exp(beta x)) / beta, x where beta x > threshold */
static void back_softplus(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_softplus_back", mt_t(G), mt_t(X), b->arg[1], b->arg[2]));
}
static void back_softplus_back(mt_back *b) {
  const mt_value *a = b->arg;
  moth_tensor *x = b->in[1];
  if (b->need[0])
    mt_grad(b, 0, MT_DO(b->c, "_softplus_back", mt_t(G), mt_t(x), a[2], a[3]));
  if (!b->need[1]) return;
  moth_tensor *bx = scaled(b, x, mt_argf(&a[2])), *s = mt_op1(b->c, "sigmoid", bx);
  moth_tensor *d = scaled(b, mul(b, mul(b, G, X), mul(b, s, rest(b, s))), mt_argf(&a[2]));
  mt_grad(b, 1, where0(b, MT_DO(b->c, "le", mt_t(bx), a[3]), d));
}

static void back_logsigmoid(mt_back *b) {
  mt_grad(b, 0, mul(b, G, mt_op1(b->c, "sigmoid", mt_op1(b->c, "neg", X))));
}

/* ---- gelu, silu, mish ---- */

static const char *gelu_form(mt_ctx *c, const mt_value *how) {
  if (strcmp(how->u.s, "none") == 0) return "_gelu";
  if (strcmp(how->u.s, "tanh") == 0) return "_gelu_tanh";
  mt_ctx_fail(c, "argument 'approximate': expected 'none' or 'tanh', got '%.20s'", how->u.s);
  return "_gelu";
}
static void compose_gelu(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, gelu_form(c, &arg[1]), arg[0]));
}

static void back_gelu(mt_back *b) { mt_grad(b, 0, mt_op2(b->c, "_gelu_back", G, X)); }
static void back_gelu_tanh(mt_back *b) { mt_grad(b, 0, mt_op2(b->c, "_gelu_tanh_back", G, X)); }

/* d2 gelu = (2 - x^2) phi(x) */
static void back_gelu_back(mt_back *b) {
  moth_tensor *x = b->in[1];
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_gelu_back", G, x));
  if (!b->need[1]) return;
  moth_tensor *x2 = mul(b, x, x);
  moth_tensor *phi = scaled(b, mt_op1(b->c, "exp", scaled(b, x2, -0.5)), 0.39894228040143267794);
  moth_tensor *d = mul(b, phi, MT_DO(b->c, "rsub", mt_t(x2), mt_i(2)));
  mt_grad(b, 1, mul(b, mul(b, G, X), d));
}

/* With u = k (x + a x^3), t = tanh u: d2 = (1 - t^2) (u' + x u''/2 - x t u'^2) */
static void back_gelu_tanh_back(mt_back *b) {
  const double k = 0.79788456080286535588, a = 0.044715;
  moth_tensor *x = b->in[1];
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_gelu_tanh_back", G, x));
  if (!b->need[1]) return;
  moth_tensor *x2 = mul(b, x, x);
  moth_tensor *u = scaled(b, mul(b, x, plus(b, scaled(b, x2, a), 1)), k);
  moth_tensor *t = mt_op1(b->c, "tanh", u);
  moth_tensor *u1 = scaled(b, plus(b, scaled(b, x2, 3 * a), 1), k);
  moth_tensor *half_xu2 = scaled(b, x2, 3 * a * k);
  moth_tensor *sum = mt_op2(b->c, "sub", mt_op2(b->c, "add", u1, half_xu2),
                            mul(b, mul(b, x, t), mul(b, u1, u1)));
  moth_tensor *d = mul(b, rest(b, mul(b, t, t)), sum);
  mt_grad(b, 1, mul(b, mul(b, G, X), d));
}

static void back_silu(mt_back *b) { mt_grad(b, 0, mt_op2(b->c, "_silu_back", G, X)); }
/* d2 silu = s (1-s) (2 + x (1 - 2s)) */
static void back_silu_back(mt_back *b) {
  moth_tensor *x = b->in[1];
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_silu_back", G, x));
  if (!b->need[1]) return;
  moth_tensor *s = mt_op1(b->c, "sigmoid", x);
  moth_tensor *inner = plus(b, mul(b, x, rest(b, scaled(b, s, 2))), 2);
  mt_grad(b, 1, mul(b, mul(b, G, X), mul(b, mul(b, s, rest(b, s)), inner)));
}

static void compose_mish(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  mt_return(c, mt_op2(c, "mul", x, mt_op1(c, "tanh", mt_op1(c, "softplus", x))));
}

/* ---- piecewise ---- */

static void compose_softsign(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  mt_return(c, mt_op2(c, "div", x, mt_ops(c, "add", mt_op1(c, "abs", x), 1)));
}
static void compose_tanhshrink(mt_ctx *c, const mt_value *arg) {
  mt_return(c, mt_op2(c, "sub", arg[0].u.t, mt_op1(c, "tanh", arg[0].u.t)));
}
/* relu6(x + 3) / 6 */
static moth_tensor *hard_gate(mt_ctx *c, moth_tensor *x) {
  moth_tensor *r = MT_DO(c, "hardtanh", mt_t(mt_ops(c, "add", x, 3)), mt_i(0), mt_i(6));
  return mt_ops(c, "div", r, 6);
}
static void compose_hardsigmoid(mt_ctx *c, const mt_value *arg) {
  mt_return(c, hard_gate(c, arg[0].u.t));
}
static void compose_hardswish(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "_hardswish", arg[0]));
}
/* 0 below -3, g above 3, g (x/3 + 1/2) between (bounds included, as PyTorch) */
static void back_hardswish(mt_back *b) {
  moth_tensor *slope = plus(b, mt_ops(b->c, "div", X, 3), 0.5);
  moth_tensor *mid = mul(b, G, slope);
  moth_tensor *low = MT_DO(b->c, "lt", mt_t(X), mt_i(-3)),
              *high = MT_DO(b->c, "gt", mt_t(X), mt_i(3));
  moth_tensor *upper = MT_DO(b->c, "where", mt_t(high), mt_t(G), mt_t(mid));
  mt_grad(b, 0, MT_DO(b->c, "where", mt_t(low), mt_i(0), mt_t(upper)));
}
static void back_shrink(mt_back *b) {
  moth_tensor *y = mt_op1(b->c, "abs", X);
  mt_grad(b, 0, where0(b, MT_DO(b->c, "gt", mt_t(y), b->arg[1]), G));
}

static void compose_glu(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int dim = (int)arg[1].u.i;
  if (x->v.ndim == 0 || x->v.size[dim] % 2 != 0) {
    mt_ctx_fail(c, "the dim must have an even size, got %s", mt_tensor_str(x));
    return;
  }
  int64_t half = x->v.size[dim] / 2;
  moth_tensor *a = MT_DO(c, "narrow", mt_t(x), mt_i(dim), mt_i(0), mt_i(half));
  moth_tensor *g = MT_DO(c, "narrow", mt_t(x), mt_i(dim), mt_i(half), mt_i(half));
  mt_return(c, mt_op2(c, "mul", a, mt_op1(c, "sigmoid", g)));
}

/* x / max(norm, eps) */
static void compose_normalize(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  moth_tensor *n = MT_DO(c, "norm", arg[0], arg[1], arg[2], mt_b(true));
  mt_return(c, mt_op2(c, "div", x, MT_DO(c, "clamp_min", mt_t(n), arg[3])));
}

static const mt_op ops[] = {
    {.schema = "_tanh_back(tensor g, tensor y) -> tensor", .help = "g * (1 - y^2).",
     .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}, MT_ELEMENTWISE(tanh_back),
     .backward = back_tanh_back, .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "_sigmoid_back(tensor g, tensor y) -> tensor", .help = "g * y * (1 - y).",
     .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}, MT_ELEMENTWISE(sigmoid_back),
     .backward = back_sigmoid_back, .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "relu(tensor self) -> tensor", .help = "max(x, 0); the gradient at 0 is 0.",
     .types = SAME, MT_ELEMENTWISE(relu), .backward = back_relu, .save = MT_OUT(0),
     .onnx = "Relu:14", .sample = "{2,3}", .flags = FORM},
    {.schema = "_relu_back(tensor g, tensor y) -> tensor", .help = "g where y > 0.",
     .types = {MT_REALS, MT_PROMOTE, MT_COMMON}, MT_ELEMENTWISE(relu_back),
     .backward = back_relu_back, .save = MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "relu6(tensor input) -> tensor", .help = "x within 0..6.", .types = SAME,
     .compose = compose_relu6, .sample = "{2,3}", .flags = FORM},
    {.schema = "leaky_relu(tensor self, number negative_slope=0.01) -> tensor",
     .help = "x where x > 0, negative_slope * x elsewhere.", .types = FLOAT,
     MT_ELEMENTWISE(leaky_relu), .backward = back_leaky_relu, .save = MT_IN(0),
     .onnx = "LeakyRelu:6", .sample = "{2,3}", .flags = FORM},
    {.schema = "_leaky_relu_back(tensor g, tensor x, number slope) -> tensor",
     .help = "g where x > 0, slope * g elsewhere.",
     .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}, MT_ELEMENTWISE(leaky_relu_back),
     .backward = back_leaky_relu_back, .save = MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "prelu(tensor self, tensor weight) -> tensor",
     .help = "x where x > 0, weight * x elsewhere; one weight, or one per channel (second dim).",
     .types = FLOAT, .compose = compose_prelu, .onnx = "PRelu:16", .sample = "{2,3}; {3}",
     .flags = MT_METHOD},
    {.schema = "hardtanh(tensor self, number min_val=-1, number max_val=1) -> tensor",
     .help = "x within min_val..max_val; the gradient is 0 at the bounds.", .types = SAME,
     MT_ELEMENTWISE(hardtanh), .backward = back_hardtanh, .save = MT_IN(0), .onnx = "Clip:13",
     .sample = "{2,3}", .flags = FORM},
    {.schema = "_inside_back(tensor g, tensor x, number min, number max) -> tensor",
     .help = "g where min < x < max.", .types = {MT_REALS, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(hardtanh_back), .backward = back_inside_back, .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "threshold(tensor self, number threshold, number value) -> tensor",
     .help = "x where x > threshold, value elsewhere.", .types = SAME, MT_ELEMENTWISE(threshold),
     .backward = back_threshold, .save = MT_IN(0), .sample = "{2,3}; 0.1; 20", .flags = FORM},
    {.schema = "elu(tensor self, number alpha=1, number scale=1, number input_scale=1) -> tensor",
     .help = "scale * (x where x > 0, alpha * (exp(input_scale * x) - 1) elsewhere).",
     .types = FLOAT, MT_ELEMENTWISE(elu), .backward = back_elu, .save = MT_IN(0),
     .onnx = "Elu:6", .sample = "{2,3}", .flags = FORM},
    {.schema = "_elu_back(tensor g, tensor x, number alpha, number scale, number input_scale) -> "
               "tensor",
     .help = "The gradient of elu.", .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(elu_back), .backward = back_elu_back, .save = MT_IN(0) | MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "selu(tensor self) -> tensor", .help = "The self-normalising elu.", .types = FLOAT,
     .compose = compose_selu, .onnx = "Selu:6", .sample = "{2,3}", .flags = FORM},
    {.schema = "celu(tensor self, number alpha=1.0) -> tensor",
     .help = "x where x > 0, alpha * (exp(x / alpha) - 1) elsewhere.", .types = FLOAT,
     .compose = compose_celu, .onnx = "Celu:12", .sample = "{2,3}", .flags = FORM},
    {.schema = "gelu(tensor self, *, str approximate=\"none\") -> tensor",
     .help = "x * Phi(x); approximate 'tanh' uses the tanh formula.", .types = FLOAT,
     .compose = compose_gelu, .onnx = "Gelu:20", .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "_gelu(tensor self) -> tensor", .help = "x * Phi(x).", .types = FLOAT,
     MT_ELEMENTWISE(gelu), .backward = back_gelu, .save = MT_IN(0), .flags = MT_HIDDEN},
    {.schema = "_gelu_tanh(tensor self) -> tensor", .help = "x * Phi(x) by tanh.", .types = FLOAT,
     MT_ELEMENTWISE(gelu_tanh), .backward = back_gelu_tanh, .save = MT_IN(0),
     .flags = MT_HIDDEN},
    {.schema = "_gelu_back(tensor g, tensor x) -> tensor", .help = "The gradient of gelu.",
     .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}, MT_ELEMENTWISE(gelu_back),
     .backward = back_gelu_back, .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "_gelu_tanh_back(tensor g, tensor x) -> tensor",
     .help = "The gradient of gelu by tanh.", .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(gelu_tanh_back), .backward = back_gelu_tanh_back,
     .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "silu(tensor self) -> tensor", .help = "x * sigmoid(x).", .types = FLOAT,
     MT_ELEMENTWISE(silu), .backward = back_silu, .save = MT_IN(0), .sample = "{2,3}",
     .flags = FORM},
    {.schema = "_silu_back(tensor g, tensor x) -> tensor", .help = "The gradient of silu.",
     .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}, MT_ELEMENTWISE(silu_back),
     .backward = back_silu_back, .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "mish(tensor self) -> tensor", .help = "x * tanh(softplus(x)).", .types = FLOAT,
     .compose = compose_mish, .onnx = "Mish:18", .sample = "{2,3}", .flags = FORM},
    {.schema = "softplus(tensor self, number beta=1, number threshold=20) -> tensor",
     .help = "log(1 + exp(beta x)) / beta; x where beta x > threshold.", .types = FLOAT,
     MT_ELEMENTWISE(softplus), .backward = back_softplus, .save = MT_IN(0),
     .onnx = "Softplus:1", .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "_softplus_back(tensor g, tensor x, number beta, number threshold) -> tensor",
     .help = "The gradient of softplus.", .types = {MT_REALFLOATS, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(softplus_back), .backward = back_softplus_back,
     .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "logsigmoid(tensor input) -> tensor", .help = "log(sigmoid(x)), without overflow.",
     .types = FLOAT, MT_ELEMENTWISE(logsigmoid), .backward = back_logsigmoid, .save = MT_IN(0),
     .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "softsign(tensor input) -> tensor", .help = "x / (1 + |x|).", .types = FLOAT,
     .compose = compose_softsign, .onnx = "Softsign:1", .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "tanhshrink(tensor input) -> tensor", .help = "x - tanh(x).", .types = FLOAT,
     .compose = compose_tanhshrink, .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "hardsigmoid(tensor self) -> tensor", .help = "relu6(x + 3) / 6.", .types = FLOAT,
     .compose = compose_hardsigmoid, .onnx = "HardSigmoid:6", .sample = "{2,3}", .flags = FORM},
    {.schema = "_hardswish(tensor self) -> tensor", .help = "x * relu6(x + 3) / 6.",
     .types = FLOAT, MT_ELEMENTWISE(hardswish), .backward = back_hardswish, .save = MT_IN(0),
     .flags = MT_HIDDEN},
    {.schema = "hardswish(tensor self) -> tensor", .help = "x * relu6(x + 3) / 6.",
     .types = FLOAT, .compose = compose_hardswish, .onnx = "HardSwish:14", .sample = "{2,3}",
     .flags = FORM},
    {.schema = "hardshrink(tensor self, number lambd=0.5) -> tensor",
     .help = "x where |x| > lambd, else 0.", .types = FLOAT, MT_ELEMENTWISE(hardshrink),
     .backward = back_shrink, .save = MT_IN(0), .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "softshrink(tensor self, number lambd=0.5) -> tensor",
     .help = "x moved towards 0 by lambd.", .types = FLOAT, MT_ELEMENTWISE(softshrink),
     .backward = back_shrink, .save = MT_IN(0), .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "glu(tensor self, dim dim=-1) -> tensor",
     .help = "The first half of a dim times the sigmoid of the second.", .types = FLOAT,
     .compose = compose_glu, .sample = "{2,4}", .flags = MT_METHOD},
    {.schema = "normalize(tensor input, number p=2.0, dim[] dim=1, float eps=1e-12) -> tensor",
     .help = "x / max(norm of x along dim, eps).", .types = FLOAT, .compose = compose_normalize,
     .sample = "{2,3}", .flags = MT_METHOD},
};
MT_FAMILY(activation, ops);
