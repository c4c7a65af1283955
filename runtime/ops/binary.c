/* binary.c - pointwise functions of two and three tensors, arithmetic and where.
 *
 * Either side may be a number (`operand`). Gradients need no care for broadcasting: the engine sums
 * what was spread. A rule reads a side as b->arg[i], which is the tensor or the number. */
#include <string.h>

#include "rules.h"

#define PROMOTE {MT_NUMBERS, MT_PROMOTE, MT_COMMON}
#define PROMOTE_B {MT_ALL, MT_PROMOTE, MT_COMMON}
#define PROMOTE_REAL {MT_REALS, MT_PROMOTE, MT_COMMON}
#define PROMOTE_REAL_B {MT_REALS_B, MT_PROMOTE, MT_COMMON}
#define PROMOTE_FLOAT {MT_FLOATS_C, MT_PROMOTE_FLOAT, MT_COMMON}
#define PROMOTE_REALFLOAT {MT_REALFLOATS, MT_PROMOTE_FLOAT, MT_COMMON}
#define FLOAT {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}
#define BITS {MT_INTEGERS | MT_BIT(BOOL), MT_PROMOTE, MT_COMMON}
#define FORM (MT_METHOD | MT_INPLACE)

#define G b->g[0]
#define A b->arg[0]
#define B b->arg[1]

static moth_tensor *conjugate(mt_back *b, moth_tensor *t) {
  return t && t->v.dtype == MT_C64 ? mt_op1(b->c, "conj", t) : t;
}
/* g * v, with v a tensor (conjugated) or a number. */
static moth_tensor *times(mt_back *b, moth_tensor *g, mt_value v) {
  if (v.kind == MT_TENSOR) v = mt_t(conjugate(b, v.u.t));
  return MT_DO(b->c, "mul", mt_t(g), v);
}
static moth_tensor *neg(mt_back *b, moth_tensor *t) { return mt_op1(b->c, "neg", t); }
/* g where the condition holds, else 0. */
static moth_tensor *masked(mt_back *b, moth_tensor *mask, moth_tensor *g) {
  return MT_DO(b->c, "where", mt_t(mask), mt_t(g), mt_i(0));
}

/* ---- sums ---- */

static bool is_one(const mt_value *v) { return mt_argf(v) == 1; }

/* A float alpha would silently be cut for integers. */
static int check_alpha(mt_call *c) {
  const mt_value *alpha = &c->arg[2];
  if (alpha->kind == MT_FLOAT && mt_dtype_category(c->common) < MT_CAT_FLOAT)
    return mt_fail(c->rt, MT_ERROR, "argument 'alpha': expected an integer for %s, got %.14g",
                   mt_dtypes[c->common].name, alpha->u.f);
  return mt_shape_elementwise(c);
}

static int check_no_bool(mt_call *c) {
  for (int i = 0; i < 2; i++)
    if (c->inv[i] && c->inv[i]->dtype == MT_BOOL)
      return mt_fail(c->rt, MT_ERROR, "bool cannot be subtracted; use logical_xor or logical_not");
  return check_alpha(c);
}

static void back_add(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, G);
  if (b->need[1])
    mt_grad(b, 1, is_one(&b->arg[2]) ? G : MT_DO(b->c, "mul", mt_t(G), b->arg[2]));
}
static void back_sub(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, G);
  if (!b->need[1]) return;
  moth_tensor *g = neg(b, G);
  mt_grad(b, 1, is_one(&b->arg[2]) ? g : MT_DO(b->c, "mul", mt_t(g), b->arg[2]));
}
static void back_rsub(mt_back *b) {
  if (b->need[0])
    mt_grad(b, 0, neg(b, is_one(&b->arg[2]) ? G : MT_DO(b->c, "mul", mt_t(G), b->arg[2])));
  if (b->need[1]) mt_grad(b, 1, G);
}

/* ---- products ---- */

static void back_mul(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, times(b, G, B));
  if (b->need[1]) mt_grad(b, 1, times(b, G, A));
}
static void back_div(mt_back *b) {
  mt_value den = B;
  if (den.kind == MT_TENSOR) den = mt_t(conjugate(b, den.u.t));
  moth_tensor *q = MT_DO(b->c, "div", mt_t(G), den);
  if (b->need[0]) mt_grad(b, 0, q);
  if (!b->need[1]) return;
  moth_tensor *r = MT_DO(b->c, "div", A, B); /* -g/y * x/y */
  mt_grad(b, 1, neg(b, times(b, q, mt_t(r))));
}

static void compose_div(mt_ctx *c, const mt_value *arg) {
  const char *mode = mt_given(&arg[2]) ? arg[2].u.s : "";
  if (!*mode) {
    mt_return(c, MT_DO(c, "_div", arg[0], arg[1]));
  } else if (strcmp(mode, "floor") == 0) {
    mt_return(c, MT_DO(c, "floor_divide", arg[0], arg[1]));
  } else if (strcmp(mode, "trunc") == 0) {
    mt_return(c, MT_DO(c, "_trunc_divide", arg[0], arg[1]));
  } else {
    mt_ctx_fail(c, "argument 'rounding_mode': expected 'floor' or 'trunc', got '%.20s'", mode);
  }
}

/* x - q*y with q flat: d/dx = g, d/dy = -g*q. */
static void back_remainder_with(mt_back *b, const char *divide) {
  if (b->need[0]) mt_grad(b, 0, G);
  if (b->need[1])
    mt_grad(b, 1, neg(b, mt_op2(b->c, "mul", G, MT_DO(b->c, divide, A, B))));
}
static void back_remainder(mt_back *b) { back_remainder_with(b, "floor_divide"); }
static void back_fmod(mt_back *b) { back_remainder_with(b, "_trunc_divide"); }

/* ---- powers ---- */

static bool number_is(const mt_value *v, double x) {
  return v->kind != MT_TENSOR && v->kind != MT_NIL && mt_argf(v) == x;
}

/* d/dx = y * x^(y-1), 0 where y is 0 whatever x is. */
static moth_tensor *pow_base(mt_back *b) {
  if (B.kind != MT_TENSOR) {
    double y = mt_argf(&B);
    if (y == 0) return mt_zeros_meta(b, 0);
    if (y == 1) return G;
    mt_value less = B.kind == MT_INT ? mt_i(B.u.i - 1) : mt_f(B.u.f - 1);
    moth_tensor *p = y == 2 ? A.u.t : MT_DO(b->c, "pow", A, less);
    return times(b, times(b, G, B), mt_t(p));
  }
  moth_tensor *p = MT_DO(b->c, "pow", A, mt_t(MT_DO(b->c, "sub", B, mt_i(1))));
  moth_tensor *d = times(b, times(b, G, B), mt_t(p));
  return MT_DO(b->c, "where", mt_t(MT_DO(b->c, "eq", B, mt_i(0))), mt_i(0), mt_t(d));
}

/* d/dy = x^y * log x, 0 where x is 0 and y >= 0. */
static moth_tensor *pow_exponent(mt_back *b) {
  moth_tensor *out = b->out[0], *l;
  if (A.kind == MT_TENSOR) {
    l = mt_op1(b->c, "log", A.u.t);
  } else {
    l = mt_op1(b->c, "log", MT_DO(b->c, "full", mt_ints(NULL, 0), mt_f(mt_argf(&A)),
                                  mt_i(b->meta[1].dtype)));
  }
  moth_tensor *d = times(b, G, mt_t(mt_op2(b->c, "mul", out, l)));
  moth_tensor *flat = MT_DO(b->c, "ge", B, mt_i(0));
  if (A.kind == MT_TENSOR) {
    flat = mt_op2(b->c, "logical_and", MT_DO(b->c, "eq", A, mt_i(0)), flat);
  } else if (!number_is(&A, 0)) {
    return d;
  }
  return MT_DO(b->c, "where", mt_t(flat), mt_i(0), mt_t(d));
}

static void back_pow(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, pow_base(b));
  if (b->need[1]) mt_grad(b, 1, pow_exponent(b));
}

static int shape_pow(mt_call *c) {
  if (c->compute == MT_I64 && c->arg[1].kind == MT_INT && c->arg[1].u.i < 0)
    return mt_fail(c->rt, MT_ERROR,
                   "an integer tensor cannot be raised to the negative integer %lld",
                   (long long)c->arg[1].u.i);
  return mt_shape_elementwise(c);
}

static void compose_float_power(mt_ctx *c, const mt_value *arg) {
  mt_value v[2] = {arg[0], arg[1]};
  for (int i = 0; i < 2; i++)
    if (v[i].kind == MT_TENSOR && v[i].u.t->v.dtype != MT_C64)
      v[i] = mt_t(MT_DO(c, "to", v[i], mt_i(MT_F64)));
  mt_return(c, mt_do(c, "pow", 2, v));
}

/* ---- choices ---- */

/* Ties share the gradient. */
static void back_extreme(mt_back *b, const char *wins) {
  moth_tensor *half = mt_ops(b->c, "mul", G, 0.5);
  moth_tensor *tie = MT_DO(b->c, "eq", A, B);
  moth_tensor *shared = MT_DO(b->c, "where", mt_t(tie), mt_t(half), mt_t(G));
  moth_tensor *first = MT_DO(b->c, wins, A, B); /* also true on a tie */
  if (b->need[0]) mt_grad(b, 0, masked(b, first, shared));
  if (!b->need[1]) return;
  moth_tensor *second = MT_DO(b->c, wins, B, A);
  mt_grad(b, 1, masked(b, second, shared));
}
static void back_maximum(mt_back *b) { back_extreme(b, "ge"); }
static void back_minimum(mt_back *b) { back_extreme(b, "le"); }

/* NaN loses: the other side gets the gradient; on a tie the first. */
static void back_fextreme(mt_back *b, const char *wins) {
  moth_tensor *nan = MT_DO(b->c, "ne", B, B);
  moth_tensor *first = mt_op2(b->c, "logical_or", MT_DO(b->c, wins, A, B), nan);
  if (b->need[0]) mt_grad(b, 0, masked(b, first, G));
  if (b->need[1]) mt_grad(b, 1, MT_DO(b->c, "where", mt_t(first), mt_i(0), mt_t(G)));
}
static void back_fmax(mt_back *b) { back_fextreme(b, "ge"); }
static void back_fmin(mt_back *b) { back_fextreme(b, "le"); }

static void back_where(mt_back *b) {
  moth_tensor *cond = b->in[0];
  if (b->need[1]) mt_grad(b, 1, masked(b, cond, G));
  if (b->need[2]) mt_grad(b, 2, MT_DO(b->c, "where", mt_t(cond), mt_i(0), mt_t(G)));
}

static void back_clamp_min(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, masked(b, MT_DO(b->c, "ge", A, B), G));
  if (b->need[1]) mt_grad(b, 1, masked(b, MT_DO(b->c, "lt", A, B), G));
}
static void back_clamp_max(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, masked(b, MT_DO(b->c, "le", A, B), G));
  if (b->need[1]) mt_grad(b, 1, masked(b, MT_DO(b->c, "gt", A, B), G));
}

/* The gradient passes at the bounds too; where min > max, max wins. */
static void back_clamp(mt_back *b) {
  moth_tensor *inside = mt_op2(b->c, "logical_and", MT_DO(b->c, "ge", A, B),
                               MT_DO(b->c, "le", A, b->arg[2]));
  if (b->need[0]) mt_grad(b, 0, masked(b, inside, G));
  moth_tensor *order = MT_DO(b->c, "lt", B, b->arg[2]);
  if (b->need[1])
    mt_grad(b, 1, masked(b, mt_op2(b->c, "logical_and", MT_DO(b->c, "lt", A, B), order), G));
  if (!b->need[2]) return;
  moth_tensor *above = MT_DO(b->c, "gt", A, b->arg[2]);
  mt_grad(b, 2, masked(b, mt_op2(b->c, "logical_or", above, MT_DO(b->c, "ge", B, b->arg[2])), G));
}

static void compose_clamp(mt_ctx *c, const mt_value *arg) {
  bool lo = mt_given(&arg[1]), hi = mt_given(&arg[2]);
  if (!lo && !hi) mt_ctx_fail(c, "at least one of 'min' and 'max' is needed");
  else if (!hi) mt_return(c, MT_DO(c, "clamp_min", arg[0], arg[1]));
  else if (!lo) mt_return(c, MT_DO(c, "clamp_max", arg[0], arg[2]));
  else mt_return(c, MT_DO(c, "_clamp", arg[0], arg[1], arg[2]));
}

/* ---- others ---- */

static void back_atan2(mt_back *b) {
  moth_tensor *r2 = mt_op2(b->c, "add", MT_DO(b->c, "mul", A, A), MT_DO(b->c, "mul", B, B));
  moth_tensor *q = mt_op2(b->c, "div", G, r2);
  if (b->need[0]) mt_grad(b, 0, times(b, q, B));
  if (b->need[1]) mt_grad(b, 1, neg(b, times(b, q, A)));
}
static void back_hypot(mt_back *b) {
  moth_tensor *q = mt_op2(b->c, "div", G, b->out[0]);
  if (b->need[0]) mt_grad(b, 0, times(b, q, A));
  if (b->need[1]) mt_grad(b, 1, times(b, q, B));
}
static void back_copysign(mt_back *b) {
  moth_tensor *ratio = MT_DO(b->c, "div", mt_t(b->out[0]), A);
  moth_tensor *zero = MT_DO(b->c, "eq", A, mt_i(0));
  if (b->need[0])
    mt_grad(b, 0, mt_op2(b->c, "mul", G, MT_DO(b->c, "where", mt_t(zero), mt_i(0), mt_t(ratio))));
  if (b->need[1]) mt_grad(b, 1, mt_zeros_meta(b, 1));
}
static void back_logaddexp(mt_back *b) {
  for (int i = 0; i < 2; i++) {
    if (!b->need[i]) continue;
    moth_tensor *d = MT_DO(b->c, "sub", b->arg[i], mt_t(b->out[0]));
    mt_grad(b, i, mt_op2(b->c, "mul", G, mt_op1(b->c, "exp", d)));
  }
}
static void back_xlogy(mt_back *b) {
  moth_tensor *zero = mt_op2(b->c, "logical_and", MT_DO(b->c, "eq", A, mt_i(0)),
                             MT_DO(b->c, "le", B, mt_i(0)));
  if (b->need[0]) {
    moth_tensor *l = MT_DO(b->c, "xlogy", mt_i(1), B);
    mt_grad(b, 0, mt_op2(b->c, "mul", G, MT_DO(b->c, "where", mt_t(zero), mt_i(0), mt_t(l))));
  }
  if (b->need[1]) mt_grad(b, 1, mt_op2(b->c, "mul", G, MT_DO(b->c, "div", A, B)));
}

/* self + value * t1 * t2 */
static void back_addcmul(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, G);
  moth_tensor *g = MT_DO(b->c, "mul", mt_t(G), b->arg[3]);
  if (b->need[1]) mt_grad(b, 1, times(b, g, b->arg[2]));
  if (b->need[2]) mt_grad(b, 2, times(b, g, b->arg[1]));
}
/* self + value * t1 / t2 */
static void back_addcdiv(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, G);
  moth_tensor *g = MT_DO(b->c, "mul", mt_t(G), b->arg[3]);
  moth_tensor *q = MT_DO(b->c, "div", mt_t(g), mt_t(conjugate(b, b->in[2])));
  if (b->need[1]) mt_grad(b, 1, q);
  if (b->need[2])
    mt_grad(b, 2, neg(b, times(b, q, mt_t(MT_DO(b->c, "div", b->arg[1], b->arg[2])))));
}
/* a + w * (e - a) */
static void back_lerp(mt_back *b) {
  mt_value w = b->arg[2];
  if (b->need[0])
    mt_grad(b, 0, MT_DO(b->c, "sub", mt_t(G), mt_t(times(b, G, w))));
  if (b->need[1]) mt_grad(b, 1, times(b, G, w));
  if (b->need[2])
    mt_grad(b, 2, times(b, G, mt_t(mt_op2(b->c, "sub", b->in[1], b->in[0]))));
}

static const mt_op ops[] = {
    {.schema = "add(operand self, operand other, *, number alpha=1) -> tensor",
     .help = "self + alpha * other.", .types = PROMOTE_B, .shape = check_alpha,
     MT_ELEMENTWISE(add), .backward = back_add, .onnx = "Add:14", .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "sub(operand self, operand other, *, number alpha=1) -> tensor",
     .help = "self - alpha * other.", .types = PROMOTE, .shape = check_no_bool,
     MT_ELEMENTWISE(sub), .backward = back_sub, .onnx = "Sub:14", .sample = "{2,3}; {3}",
     .flags = FORM},
    {.schema = "rsub(tensor self, operand other, *, number alpha=1) -> tensor",
     .help = "other - alpha * self.", .types = PROMOTE, .shape = check_no_bool,
     MT_ELEMENTWISE(rsub), .backward = back_rsub, .sample = "{2,3}; {3}", .flags = MT_METHOD},
    {.schema = "mul(operand self, operand other) -> tensor", .help = "self * other.",
     .types = PROMOTE_B, MT_ELEMENTWISE(mul), .backward = back_mul,
     .save = MT_IN(0) | MT_IN(1), .onnx = "Mul:14", .sample = "{2,3}; {2,1}",
     .flags = FORM | MT_CROSS},
    {.schema = "_div(operand self, operand other) -> tensor", .help = "self / other.",
     .types = PROMOTE_FLOAT, MT_ELEMENTWISE(div), .backward = back_div,
     .save = MT_IN(0) | MT_IN(1), .onnx = "Div:14", .flags = MT_HIDDEN | MT_INPLACE},
    {.schema = "div(operand self, operand other, *, str? rounding_mode=nil) -> tensor",
     .help = "self / other; rounding_mode 'floor' or 'trunc' keeps integers.",
     .types = PROMOTE_FLOAT, .compose = compose_div, .sample = "{2,3}; {2,3}+", .flags = FORM},
    {.schema = "true_divide(operand self, operand other) -> tensor", .help = "self / other.",
     .types = PROMOTE_FLOAT, MT_ELEMENTWISE(div), .backward = back_div,
     .save = MT_IN(0) | MT_IN(1), .sample = "{2,3}; {2,3}+", .flags = FORM},
    {.schema = "floor_divide(operand self, operand other) -> tensor",
     .help = "self / other rounded to minus infinity (Lua's //).", .types = PROMOTE_REAL,
     MT_ELEMENTWISE(floor_divide), .backward = mt_back_zero, .sample = "{2,3}; {2,3}+",
     .flags = FORM},
    {.schema = "_trunc_divide(operand self, operand other) -> tensor",
     .help = "self / other rounded to 0.", .types = PROMOTE_REAL, MT_ELEMENTWISE(trunc_divide),
     .backward = mt_back_zero, .flags = MT_HIDDEN},
    {.schema = "remainder(operand self, operand other) -> tensor",
     .help = "The remainder with the sign of other (Lua's %).", .types = PROMOTE_REAL,
     MT_ELEMENTWISE(remainder), .backward = back_remainder, .save = MT_IN(0) | MT_IN(1),
     .onnx = "Mod:13", .sample = "{2,3}; {2,3}+", .flags = FORM},
    {.schema = "fmod(operand self, operand other) -> tensor",
     .help = "The remainder with the sign of self.", .types = PROMOTE_REAL,
     MT_ELEMENTWISE(fmod), .backward = back_fmod, .save = MT_IN(0) | MT_IN(1),
     .sample = "{2,3}; {2,3}+", .flags = FORM},
    {.schema = "pow(operand self, operand exponent) -> tensor", .help = "self ^ exponent.",
     .types = PROMOTE, .shape = shape_pow, MT_ELEMENTWISE(pow), .backward = back_pow,
     .save = MT_IN(0) | MT_IN(1) | MT_OUT(0), .onnx = "Pow:15", .sample = "{2,3}+; {2,3}",
     .flags = FORM},
    {.schema = "float_power(operand self, operand exponent) -> tensor",
     .help = "self ^ exponent in float64.", .types = PROMOTE, .compose = compose_float_power,
     .sample = "{2,3}+; 2", .flags = MT_METHOD},
    {.schema = "maximum(operand self, operand other) -> tensor",
     .help = "The larger of two; NaN wins; ties share the gradient.", .types = PROMOTE_REAL_B,
     MT_ELEMENTWISE(maximum), .backward = back_maximum, .save = MT_IN(0) | MT_IN(1),
     .onnx = "Max:13", .sample = "{2,3}; {2,3}", .flags = MT_METHOD},
    {.schema = "minimum(operand self, operand other) -> tensor",
     .help = "The smaller of two; NaN wins; ties share the gradient.", .types = PROMOTE_REAL_B,
     MT_ELEMENTWISE(minimum), .backward = back_minimum, .save = MT_IN(0) | MT_IN(1),
     .onnx = "Min:13", .sample = "{2,3}; {2,3}", .flags = MT_METHOD},
    {.schema = "fmax(operand self, operand other) -> tensor",
     .help = "The larger of two; NaN loses.", .types = PROMOTE_REAL_B, MT_ELEMENTWISE(fmax),
     .backward = back_fmax, .save = MT_IN(0) | MT_IN(1), .sample = "{2,3}; {2,3}",
     .flags = MT_METHOD},
    {.schema = "fmin(operand self, operand other) -> tensor",
     .help = "The smaller of two; NaN loses.", .types = PROMOTE_REAL_B, MT_ELEMENTWISE(fmin),
     .backward = back_fmin, .save = MT_IN(0) | MT_IN(1), .sample = "{2,3}; {2,3}",
     .flags = MT_METHOD},
    {.schema = "where(tensor condition, operand self, operand other) -> tensor",
     .help = "self where the condition holds, other elsewhere; the branch not taken has no "
             "gradient even where it is NaN.",
     .types = PROMOTE_B, MT_ELEMENTWISE(where), .backward = back_where, .save = MT_IN(0),
     .onnx = "Where:9", .sample = "{2,3}?; {2,3}; {2,3}"},
    {.schema = "_clamp(operand self, operand min, operand max) -> tensor",
     .help = "self within min..max.", .types = PROMOTE_REAL, MT_ELEMENTWISE(clamp),
     .backward = back_clamp, .save = MT_IN(0) | MT_IN(1) | MT_IN(2), .onnx = "Clip:13",
     .flags = MT_HIDDEN | MT_INPLACE},
    {.schema = "clamp(tensor self, operand? min=nil, operand? max=nil) -> tensor",
     .help = "self within min..max (numbers or tensors); NaN stays; max wins when min > max.",
     .types = PROMOTE_REAL, .compose = compose_clamp, .sample = "{2,3}; -0.5; 0.5",
     .flags = FORM},
    {.schema = "clamp_min(tensor self, operand min) -> tensor", .help = "At least min.",
     .types = PROMOTE_REAL, MT_ELEMENTWISE(clamp_min), .backward = back_clamp_min,
     .save = MT_IN(0) | MT_IN(1), .sample = "{2,3}; 0.1", .flags = FORM},
    {.schema = "clamp_max(tensor self, operand max) -> tensor", .help = "At most max.",
     .types = PROMOTE_REAL, MT_ELEMENTWISE(clamp_max), .backward = back_clamp_max,
     .save = MT_IN(0) | MT_IN(1), .sample = "{2,3}; 0.1", .flags = FORM},
    {.schema = "atan2(operand self, operand other) -> tensor",
     .help = "The angle of the point (other, self).", .types = PROMOTE_REALFLOAT,
     MT_ELEMENTWISE(atan2), .backward = back_atan2, .save = MT_IN(0) | MT_IN(1),
     .sample = "{2,3}; {2,3}", .flags = FORM},
    {.schema = "hypot(operand self, operand other) -> tensor",
     .help = "sqrt(self^2 + other^2) without overflow.", .types = FLOAT, MT_ELEMENTWISE(hypot),
     .backward = back_hypot, .save = MT_IN(0) | MT_IN(1) | MT_OUT(0), .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "copysign(operand self, operand other) -> tensor",
     .help = "|self| with the sign of other.", .types = PROMOTE_REALFLOAT,
     MT_ELEMENTWISE(copysign), .backward = back_copysign, .save = MT_IN(0) | MT_OUT(0),
     .sample = "{2,3}; {2,3}", .flags = FORM},
    {.schema = "logaddexp(operand self, operand other) -> tensor",
     .help = "log(e^self + e^other).", .types = FLOAT, MT_ELEMENTWISE(logaddexp),
     .backward = back_logaddexp, .save = MT_IN(0) | MT_IN(1) | MT_OUT(0),
     .sample = "{2,3}; {2,3}", .flags = MT_METHOD},
    {.schema = "xlogy(operand self, operand other) -> tensor",
     .help = "self * log(other); 0 where self is 0 and other is not NaN.",
     .types = PROMOTE_REALFLOAT, MT_ELEMENTWISE(xlogy), .backward = back_xlogy,
     .save = MT_IN(0) | MT_IN(1), .sample = "{2,3}; {2,3}+", .flags = FORM},
    {.schema = "addcmul(tensor self, tensor tensor1, tensor tensor2, *, number value=1) -> tensor",
     .help = "self + value * tensor1 * tensor2.", .types = PROMOTE, MT_ELEMENTWISE(addcmul),
     .backward = back_addcmul, .save = MT_IN(1) | MT_IN(2), .sample = "{2,3}; {2,3}; {3}",
     .flags = FORM},
    {.schema = "addcdiv(tensor self, tensor tensor1, tensor tensor2, *, number value=1) -> tensor",
     .help = "self + value * tensor1 / tensor2.", .types = PROMOTE_FLOAT,
     MT_ELEMENTWISE(addcdiv), .backward = back_addcdiv, .save = MT_IN(1) | MT_IN(2),
     .sample = "{2,3}; {2,3}; {2,3}+", .flags = FORM},
    {.schema = "lerp(tensor self, tensor end, operand weight) -> tensor",
     .help = "self + weight * (end - self).", .types = {MT_FLOATS_C, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(lerp), .backward = back_lerp, .save = MT_IN(0) | MT_IN(1) | MT_IN(2),
     .sample = "{2,3}; {2,3}; 0.3", .flags = FORM},
    {.schema = "bitwise_and(operand self, operand other) -> tensor", .help = "Bits set in both.",
     .types = BITS, MT_ELEMENTWISE(bitwise_and), .flags = FORM},
    {.schema = "bitwise_or(operand self, operand other) -> tensor", .help = "Bits set in either.",
     .types = BITS, MT_ELEMENTWISE(bitwise_or), .flags = FORM},
    {.schema = "bitwise_xor(operand self, operand other) -> tensor", .help = "Bits set in one.",
     .types = BITS, MT_ELEMENTWISE(bitwise_xor), .flags = FORM},
    {.schema = "bitwise_left_shift(operand self, operand other) -> tensor",
     .help = "self * 2^other.", .types = {MT_INTEGERS, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(bitwise_left_shift), .flags = FORM},
    {.schema = "bitwise_right_shift(operand self, operand other) -> tensor",
     .help = "self / 2^other, rounded down.", .types = {MT_INTEGERS, MT_PROMOTE, MT_COMMON},
     MT_ELEMENTWISE(bitwise_right_shift), .flags = FORM},
};
MT_FAMILY(binary, ops);
