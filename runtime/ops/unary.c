/* unary.c - pointwise functions of one tensor.
 *
 * The formulas are in kernels/elementwise.def. Rules that need only the result save that (exp,
 * sqrt, tanh ...): it is alive anyway. */
#include "rules.h"

#define FLOATS {MT_FLOATS_C | MT_INTEGERS | MT_BIT(BOOL), MT_PROMOTE_FLOAT, MT_COMMON}
#define REAL_FLOATS {MT_REALFLOATS, MT_PROMOTE_FLOAT, MT_COMMON}
#define SAME {MT_NUMBERS, MT_FIRST, MT_COMMON}
#define SAME_REAL {MT_REALS, MT_FIRST, MT_COMMON}
#define TEST {MT_ALL, MT_FIRST, MT_IS_BOOL}
#define FORM (MT_METHOD | MT_INPLACE)

#define G b->g[0]
#define X b->in[0]
#define Y b->out[0]

static moth_tensor *mul(mt_back *b, moth_tensor *a, moth_tensor *t) {
  return mt_op2(b->c, "mul", a, t);
}
static moth_tensor *conjugate(mt_back *b, moth_tensor *t) {
  return t && t->v.dtype == MT_C64 ? mt_op1(b->c, "conj", t) : t;
}

static void back_neg(mt_back *b) { mt_grad(b, 0, mt_op1(b->c, "neg", G)); }
static void back_abs(mt_back *b) { mt_grad(b, 0, mul(b, G, mt_op1(b->c, "sgn", X))); }
static void back_exp(mt_back *b) { mt_grad(b, 0, mul(b, G, conjugate(b, Y))); }
static void back_exp2(mt_back *b) {
  mt_grad(b, 0, mt_ops(b->c, "mul", mul(b, G, Y), 0.693147180559945309));
}
static void back_expm1(mt_back *b) { mt_grad(b, 0, mul(b, G, mt_ops(b->c, "add", Y, 1))); }
static void back_log(mt_back *b) { mt_grad(b, 0, mt_op2(b->c, "div", G, conjugate(b, X))); }

/* g / (x * ln base) */
static void back_log_base(mt_back *b, double ln) {
  mt_grad(b, 0, mt_op2(b->c, "div", G, mt_ops(b->c, "mul", X, ln)));
}
static void back_log2(mt_back *b) { back_log_base(b, 0.693147180559945309); }
static void back_log10(mt_back *b) { back_log_base(b, 2.302585092994045684); }
static void back_log1p(mt_back *b) {
  mt_grad(b, 0, mt_op2(b->c, "div", G, mt_ops(b->c, "add", X, 1)));
}
static void back_sqrt(mt_back *b) {
  mt_grad(b, 0, mt_op2(b->c, "div", G, mt_ops(b->c, "mul", conjugate(b, Y), 2)));
}
/* -g/2 * y^3 */
static void back_rsqrt(mt_back *b) {
  moth_tensor *y3 = mul(b, mul(b, Y, Y), Y);
  mt_grad(b, 0, mt_ops(b->c, "mul", mul(b, G, conjugate(b, y3)), -0.5));
}
static void back_square(mt_back *b) {
  mt_grad(b, 0, mul(b, G, mt_ops(b->c, "mul", conjugate(b, X), 2)));
}
static void back_reciprocal(mt_back *b) {
  mt_grad(b, 0, mt_op1(b->c, "neg", mul(b, G, conjugate(b, mul(b, Y, Y)))));
}
static void back_sin(mt_back *b) { mt_grad(b, 0, mul(b, G, conjugate(b, mt_op1(b->c, "cos", X)))); }
static void back_cos(mt_back *b) {
  mt_grad(b, 0, mt_op1(b->c, "neg", mul(b, G, conjugate(b, mt_op1(b->c, "sin", X)))));
}
static void back_tan(mt_back *b) {
  mt_grad(b, 0, mul(b, G, mt_ops(b->c, "add", mul(b, Y, Y), 1)));
}
static void back_sinh(mt_back *b) { mt_grad(b, 0, mul(b, G, mt_op1(b->c, "cosh", X))); }
static void back_cosh(mt_back *b) { mt_grad(b, 0, mul(b, G, mt_op1(b->c, "sinh", X))); }
static void back_tanh(mt_back *b) {
  if (G && G->v.dtype == MT_C64) {
    mt_grad(b, 0, mul(b, G, conjugate(b, MT_DO(b->c, "rsub", mt_t(mul(b, Y, Y)), mt_i(1)))));
    return;
  }
  mt_grad(b, 0, mt_op2(b->c, "_tanh_back", G, Y));
}
static void back_sigmoid(mt_back *b) { mt_grad(b, 0, mt_op2(b->c, "_sigmoid_back", G, Y)); }

/* g * rsqrt(s*x^2 + k) */
static moth_tensor *over_root(mt_back *b, double s, double k) {
  moth_tensor *q = mt_ops(b->c, "add", mt_ops(b->c, "mul", mul(b, X, X), s), k);
  return mul(b, G, mt_op1(b->c, "rsqrt", q));
}
static void back_asin(mt_back *b) { mt_grad(b, 0, over_root(b, -1, 1)); }
static void back_acos(mt_back *b) { mt_grad(b, 0, mt_op1(b->c, "neg", over_root(b, -1, 1))); }
static void back_asinh(mt_back *b) { mt_grad(b, 0, over_root(b, 1, 1)); }
static void back_acosh(mt_back *b) { mt_grad(b, 0, over_root(b, 1, -1)); }
static void back_atan(mt_back *b) {
  mt_grad(b, 0, mt_op2(b->c, "div", G, mt_ops(b->c, "add", mul(b, X, X), 1)));
}
static void back_atanh(mt_back *b) {
  mt_grad(b, 0, mt_op2(b->c, "div", G, MT_DO(b->c, "rsub", mt_t(mul(b, X, X)), mt_i(1))));
}
/* g * k * exp(-x^2) */
static void back_gauss(mt_back *b, double k) {
  moth_tensor *e = mt_op1(b->c, "exp", mt_op1(b->c, "neg", mul(b, X, X)));
  mt_grad(b, 0, mt_ops(b->c, "mul", mul(b, G, e), k));
}
static void back_erf(mt_back *b) { back_gauss(b, 1.128379167095512574); }
/* g * sqrt(pi)/2 * exp(y^2) */
static void back_erfinv(mt_back *b) {
  moth_tensor *e = mt_op1(b->c, "exp", mul(b, Y, Y));
  mt_grad(b, 0, mt_ops(b->c, "mul", mul(b, G, e), 0.886226925452758014));
}
static void back_erfc(mt_back *b) { back_gauss(b, -1.128379167095512574); }
static void back_deg2rad(mt_back *b) {
  mt_grad(b, 0, mt_ops(b->c, "mul", G, 0.017453292519943295));
}
static void back_rad2deg(mt_back *b) { mt_grad(b, 0, mt_ops(b->c, "mul", G, 57.29577951308232)); }
static void back_nan_to_num(mt_back *b) {
  moth_tensor *fine = mt_op1(b->c, "isfinite", X);
  mt_grad(b, 0, MT_DO(b->c, "where", mt_t(fine), mt_t(G), mt_f(0)));
}

/* Real: flat. Complex, y = x/|x|: (g - y Re(conj(y) g)) / |x|, 0 at 0. */
static void back_sgn(mt_back *b) {
  mt_ctx *c = b->c;
  if (b->meta[0].dtype != MT_C64) {
    mt_back_zero(b);
    return;
  }
  moth_tensor *along = mt_op1(c, "real", mul(b, conjugate(b, Y), G));
  moth_tensor *r = mt_op1(c, "abs", X);
  moth_tensor *d = mt_op2(c, "div", mt_op2(c, "sub", G, mul(b, Y, along)), r);
  mt_grad(b, 0, MT_DO(c, "where", mt_t(MT_DO(c, "eq", mt_t(r), mt_i(0))), mt_i(0), mt_t(d)));
}

static void back_conj(mt_back *b) { mt_grad(b, 0, mt_op1(b->c, "conj", G)); }
static void back_real(mt_back *b) { mt_grad(b, 0, G); }
static void back_imag(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "complex", mt_t(mt_ops(b->c, "mul", G, 0)), mt_t(G)));
}

/* Of complex numbers a real result: the kernel's store keeps the real part. */
static int shape_to_real(mt_call *c) {
  if (c->common == MT_C64) c->out[0].dtype = MT_F32;
  return mt_shape_elementwise(c);
}

static int shape_square(mt_call *c) {
  if (c->common != MT_BOOL) c->out[0].dtype = c->common;
  return mt_shape_elementwise(c);
}

/* round(decimals): scaled, rounded, scaled back. */
static void compose_round(mt_ctx *c, const mt_value *arg) {
  int64_t n = arg[1].u.i;
  moth_tensor *x = arg[0].u.t;
  if (n == 0 || !mt_dtype_is_float((mt_dtype)x->v.dtype)) {
    mt_return(c, mt_op1(c, "_round", x));
    return;
  }
  double scale = 1;
  for (int64_t i = 0; i < (n < 0 ? -n : n); i++) scale *= 10;
  const char *up = n > 0 ? "mul" : "div", *down = n > 0 ? "div" : "mul";
  mt_return(c, mt_ops(c, down, mt_op1(c, "_round", mt_ops(c, up, x, scale)), scale));
}

/* Missing replacements are the largest numbers of the dtype; PyTorch's defaults. */
static void compose_nan_to_num(mt_ctx *c, const mt_value *arg) {
  static const double largest[] = {1.7976931348623157e308, 3.4028234663852886e38, 65504,
                                   3.3895313892515355e38};
  moth_tensor *x = arg[0].u.t;
  if (!mt_dtype_is_float((mt_dtype)x->v.dtype)) {
    mt_return(c, mt_op1(c, "clone", x));
    return;
  }
  double big = largest[x->v.dtype];
  mt_return(c, MT_DO(c, "_nan_to_num", arg[0], mt_f(mt_given(&arg[1]) ? arg[1].u.f : 0),
                     mt_f(mt_given(&arg[2]) ? arg[2].u.f : big),
                     mt_f(mt_given(&arg[3]) ? arg[3].u.f : -big)));
}

static void compose_logit(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  if (x->v.dtype == MT_BOOL) x = MT_DO(c, "to", mt_t(x), mt_i(c->rt->default_float));
  if (mt_given(&arg[1])) x = MT_DO(c, "clamp", mt_t(x), arg[1], mt_f(1 - arg[1].u.f));
  moth_tensor *other = MT_DO(c, "rsub", mt_t(x), mt_i(1));
  mt_return(c, mt_op1(c, "log", mt_op2(c, "div", x, other)));
}

static void compose_frac(mt_ctx *c, const mt_value *arg) {
  mt_return(c, mt_op2(c, "sub", arg[0].u.t, mt_op1(c, "trunc", arg[0].u.t)));
}

static void compose_positive(mt_ctx *c, const mt_value *arg) { mt_return(c, arg[0].u.t); }

/* Integers are always finite: their tests need no formula of their own. */
static const mt_op ops[] = {
    {.schema = "neg(tensor self) -> tensor",
     .help = "-x.",
     .types = SAME,
     MT_ELEMENTWISE(neg),
     .backward = back_neg,
     .onnx = "Neg:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "abs(tensor self) -> tensor",
     .help = "|x|; the gradient at 0 is 0.",
     .types = SAME,
     .shape = shape_to_real,
     MT_ELEMENTWISE(abs),
     .backward = back_abs,
     .save = MT_IN(0),
     .onnx = "Abs:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "exp(tensor self) -> tensor",
     .help = "e^x.",
     .types = FLOATS,
     MT_ELEMENTWISE(exp),
     .backward = back_exp,
     .save = MT_OUT(0),
     .onnx = "Exp:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "exp2(tensor self) -> tensor",
     .help = "2^x.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(exp2),
     .backward = back_exp2,
     .save = MT_OUT(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "expm1(tensor self) -> tensor",
     .help = "e^x - 1, exact near 0.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(expm1),
     .backward = back_expm1,
     .save = MT_OUT(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "log(tensor self) -> tensor",
     .help = "The natural logarithm.",
     .types = FLOATS,
     MT_ELEMENTWISE(log),
     .backward = back_log,
     .save = MT_IN(0),
     .onnx = "Log:13",
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "log2(tensor self) -> tensor",
     .help = "The logarithm to base 2.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(log2),
     .backward = back_log2,
     .save = MT_IN(0),
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "log10(tensor self) -> tensor",
     .help = "The logarithm to base 10.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(log10),
     .backward = back_log10,
     .save = MT_IN(0),
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "log1p(tensor self) -> tensor",
     .help = "log(1 + x), exact near 0.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(log1p),
     .backward = back_log1p,
     .save = MT_IN(0),
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "sqrt(tensor self) -> tensor",
     .help = "The square root.",
     .types = FLOATS,
     MT_ELEMENTWISE(sqrt),
     .backward = back_sqrt,
     .save = MT_OUT(0),
     .onnx = "Sqrt:13",
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "rsqrt(tensor self) -> tensor",
     .help = "1 / sqrt(x).",
     .types = FLOATS,
     MT_ELEMENTWISE(rsqrt),
     .backward = back_rsqrt,
     .save = MT_OUT(0),
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "square(tensor self) -> tensor",
     .help = "x * x; bool gives int64.",
     .types = {MT_ALL, MT_FIRST, MT_SUM_TYPE},
     .shape = shape_square,
     MT_ELEMENTWISE(square),
     .backward = back_square,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "reciprocal(tensor self) -> tensor",
     .help = "1 / x.",
     .types = FLOATS,
     MT_ELEMENTWISE(reciprocal),
     .backward = back_reciprocal,
     .save = MT_OUT(0),
     .onnx = "Reciprocal:13",
     .sample = "{2,3}+",
     .flags = FORM},
    {.schema = "sin(tensor self) -> tensor",
     .help = "The sine of radians.",
     .types = FLOATS,
     MT_ELEMENTWISE(sin),
     .backward = back_sin,
     .save = MT_IN(0),
     .onnx = "Sin:7",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "cos(tensor self) -> tensor",
     .help = "The cosine of radians.",
     .types = FLOATS,
     MT_ELEMENTWISE(cos),
     .backward = back_cos,
     .save = MT_IN(0),
     .onnx = "Cos:7",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "tan(tensor self) -> tensor",
     .help = "The tangent of radians.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(tan),
     .backward = back_tan,
     .save = MT_OUT(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "asin(tensor self) -> tensor",
     .help = "The arc sine.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(asin),
     .backward = back_asin,
     .save = MT_IN(0),
     .sample = "{2,3}u",
     .flags = FORM},
    {.schema = "acos(tensor self) -> tensor",
     .help = "The arc cosine.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(acos),
     .backward = back_acos,
     .save = MT_IN(0),
     .sample = "{2,3}u",
     .flags = FORM},
    {.schema = "atan(tensor self) -> tensor",
     .help = "The arc tangent.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(atan),
     .backward = back_atan,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "sinh(tensor self) -> tensor",
     .help = "The hyperbolic sine.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(sinh),
     .backward = back_sinh,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "cosh(tensor self) -> tensor",
     .help = "The hyperbolic cosine.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(cosh),
     .backward = back_cosh,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "asinh(tensor self) -> tensor",
     .help = "The inverse hyperbolic sine.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(asinh),
     .backward = back_asinh,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "acosh(tensor self) -> tensor",
     .help = "The inverse hyperbolic cosine.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(acosh),
     .backward = back_acosh,
     .save = MT_IN(0),
     .sample = "{2,3}>1",
     .flags = FORM},
    {.schema = "atanh(tensor self) -> tensor",
     .help = "The inverse hyperbolic tangent.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(atanh),
     .backward = back_atanh,
     .save = MT_IN(0),
     .sample = "{2,3}u",
     .flags = FORM},
    {.schema = "tanh(tensor self) -> tensor",
     .help = "The hyperbolic tangent.",
     .types = FLOATS,
     MT_ELEMENTWISE(tanh),
     .backward = back_tanh,
     .save = MT_OUT(0),
     .onnx = "Tanh:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "sigmoid(tensor self) -> tensor",
     .help = "1 / (1 + e^-x).",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(sigmoid),
     .backward = back_sigmoid,
     .save = MT_OUT(0),
     .onnx = "Sigmoid:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "erf(tensor self) -> tensor",
     .help = "The error function.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(erf),
     .backward = back_erf,
     .save = MT_IN(0),
     .onnx = "Erf:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "erfc(tensor self) -> tensor",
     .help = "1 - erf(x), exact for large x.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(erfc),
     .backward = back_erfc,
     .save = MT_IN(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "erfinv(tensor self) -> tensor", .help = "The inverse of erf on -1..1.",
     .types = REAL_FLOATS, MT_ELEMENTWISE(erfinv), .backward = back_erfinv, .save = MT_OUT(0),
     .sample = "{2,3}u", .flags = FORM},
    {.schema = "sign(tensor self) -> tensor",
     .help = "-1, 0 or 1.",
     .types = {MT_REALS_B, MT_FIRST, MT_COMMON},
     MT_ELEMENTWISE(sign),
     .backward = mt_back_zero,
     .onnx = "Sign:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "sgn(tensor self) -> tensor",
     .help = "The sign; of complex numbers x/|x|.",
     .types = {MT_ALL, MT_FIRST, MT_COMMON},
     MT_ELEMENTWISE(sgn),
     .backward = back_sgn,
     .save = MT_IN(0) | MT_OUT(0),
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "conj(tensor self) -> tensor",
     .help = "The complex conjugate.",
     .types = {MT_ALL, MT_FIRST, MT_COMMON},
     MT_ELEMENTWISE(conj),
     .backward = back_conj,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "real(tensor self) -> tensor",
     .help = "The real part.",
     .types = {MT_ALL, MT_FIRST, MT_COMMON},
     .shape = shape_to_real,
     MT_ELEMENTWISE(real),
     .backward = back_real,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "imag(tensor self) -> tensor",
     .help = "The imaginary part of complex numbers.",
     .types = {MT_BIT(C64), MT_FIRST, MT_COMMON},
     .shape = shape_to_real,
     MT_ELEMENTWISE(imag),
     .backward = back_imag,
     .flags = MT_METHOD},
    {.schema = "floor(tensor self) -> tensor",
     .help = "The next integer below.",
     .types = SAME_REAL,
     MT_ELEMENTWISE(floor),
     .backward = mt_back_zero,
     .onnx = "Floor:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "ceil(tensor self) -> tensor",
     .help = "The next integer above.",
     .types = SAME_REAL,
     MT_ELEMENTWISE(ceil),
     .backward = mt_back_zero,
     .onnx = "Ceil:13",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "trunc(tensor self) -> tensor",
     .help = "The integer towards 0.",
     .types = SAME_REAL,
     MT_ELEMENTWISE(trunc),
     .backward = mt_back_zero,
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "_round(tensor self) -> tensor",
     .help = "The nearest integer, halves to even.",
     .types = SAME_REAL,
     MT_ELEMENTWISE(round),
     .backward = mt_back_zero,
     .onnx = "Round:11",
     .flags = MT_HIDDEN},
    {.schema = "round(tensor self, *, int decimals=0) -> tensor",
     .help = "The nearest number with so many decimals, halves to even.",
     .types = SAME_REAL,
     .compose = compose_round,
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "frac(tensor self) -> tensor",
     .help = "The fraction, with the sign of x.",
     .types = REAL_FLOATS,
     .compose = compose_frac,
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "positive(tensor self) -> tensor",
     .help = "x itself.",
     .types = SAME,
     .compose = compose_positive,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "deg2rad(tensor self) -> tensor",
     .help = "Degrees to radians.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(deg2rad),
     .backward = back_deg2rad,
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "rad2deg(tensor self) -> tensor",
     .help = "Radians to degrees.",
     .types = REAL_FLOATS,
     MT_ELEMENTWISE(rad2deg),
     .backward = back_rad2deg,
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "logit(tensor self, float? eps=nil) -> tensor",
     .help = "log(x / (1 - x)); x is first clamped to eps..1-eps when eps is given.",
     .types = REAL_FLOATS,
     .compose = compose_logit,
     .sample = "{2,3}p",
     .flags = FORM},
    {.schema = "_nan_to_num(tensor self, float nan, float posinf, float neginf) -> tensor",
     .help = "Replaces NaN and infinities.",
     .types = {MT_REALFLOATS, MT_FIRST, MT_COMMON},
     MT_ELEMENTWISE(nan_to_num),
     .backward = back_nan_to_num,
     .save = MT_IN(0),
     .flags = MT_HIDDEN},
    {.schema = "nan_to_num(tensor self, float? nan=nil, float? posinf=nil, float? neginf=nil) -> "
               "tensor",
     .help = "Replaces NaN by 0 and infinities by the largest numbers, or by those given.",
     .types = SAME,
     .compose = compose_nan_to_num,
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "isnan(tensor self) -> tensor",
     .help = "Whether an element is NaN.",
     .types = TEST,
     MT_ELEMENTWISE(isnan),
     .onnx = "IsNaN:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "isinf(tensor self) -> tensor",
     .help = "Whether an element is infinite.",
     .types = TEST,
     MT_ELEMENTWISE(isinf),
     .onnx = "IsInf:10",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "isfinite(tensor self) -> tensor",
     .help = "Whether an element is neither infinite nor NaN.",
     .types = TEST,
     MT_ELEMENTWISE(isfinite),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "isposinf(tensor self) -> tensor",
     .help = "Whether an element is +infinity.",
     .types = {MT_REALS_B, MT_FIRST, MT_IS_BOOL},
     MT_ELEMENTWISE(isposinf),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "isneginf(tensor self) -> tensor",
     .help = "Whether an element is -infinity.",
     .types = {MT_REALS_B, MT_FIRST, MT_IS_BOOL},
     MT_ELEMENTWISE(isneginf),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "signbit(tensor self) -> tensor",
     .help = "Whether the sign bit is set; true for -0.",
     .types = {MT_REALS_B, MT_FIRST, MT_IS_BOOL},
     MT_ELEMENTWISE(signbit),
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "logical_not(tensor self) -> tensor",
     .help = "Whether an element is 0.",
     .types = TEST,
     MT_ELEMENTWISE(logical_not),
     .onnx = "Not:1",
     .sample = "{2,3}",
     .flags = FORM},
    {.schema = "bitwise_not(tensor self) -> tensor",
     .help = "All bits inverted.",
     .types = {MT_INTEGERS | MT_BIT(BOOL), MT_FIRST, MT_COMMON},
     MT_ELEMENTWISE(bitwise_not),
     .flags = FORM},
};
MT_FAMILY(unary, ops);
