/* compare.c - comparisons, logic and tests of closeness. Results are bool. */
#include "rules.h"

#define COMPARE {MT_ALL, MT_PROMOTE, MT_IS_BOOL}
#define ORDER {MT_REALS_B, MT_PROMOTE, MT_IS_BOOL}
#define FORM (MT_METHOD | MT_INPLACE)

/* |a-b| <= atol + rtol*|b|, or equal (infinities), or both NaN when asked. */
static void compose_isclose(mt_ctx *c, const mt_value *arg) {
  moth_tensor *a = arg[0].u.t, *o = arg[1].u.t;
  if (a->v.dtype != o->v.dtype) {
    mt_ctx_fail(c, "expected two tensors of one dtype, got %s and %s", mt_tensor_str(a),
                mt_tensor_str(o));
    return;
  }
  moth_tensor *close = mt_op2(c, "eq", a, o);
  if (mt_dtype_is_float((mt_dtype)a->v.dtype) || arg[2].u.f != 0 || arg[3].u.f != 0) {
    moth_tensor *x = a, *y = o;
    if (!mt_dtype_is_float((mt_dtype)a->v.dtype)) {
      x = MT_DO(c, "to", mt_t(a), mt_i(MT_F64));
      y = MT_DO(c, "to", mt_t(o), mt_i(MT_F64));
    }
    moth_tensor *room = mt_ops(c, "add", mt_ops(c, "mul", mt_op1(c, "abs", y), arg[2].u.f),
                               arg[3].u.f);
    moth_tensor *gap = mt_op1(c, "abs", mt_op2(c, "sub", x, y));
    moth_tensor *near = mt_op2(c, "logical_and", mt_op1(c, "isfinite", gap),
                               mt_op2(c, "le", gap, room));
    close = mt_op2(c, "logical_or", close, near);
  }
  if (arg[4].u.i)
    close = mt_op2(c, "logical_or", close,
                   mt_op2(c, "logical_and", mt_op1(c, "isnan", a), mt_op1(c, "isnan", o)));
  mt_return(c, close);
}

static void compose_allclose(mt_ctx *c, const mt_value *arg) {
  mt_return(c, mt_op1(c, "all", mt_do(c, "isclose", 5, arg)));
}

static void compose_equal(mt_ctx *c, const mt_value *arg) {
  moth_tensor *a = arg[0].u.t, *o = arg[1].u.t;
  if (!mt_shape_equal(&a->v, &o->v)) {
    moth_tensor *no;
    c->status = mt_tensor_scalar(&no, c->rt, MT_BOOL, 0);
    if (!c->status) mt_return(c, mt_own(c, no));
    return;
  }
  mt_return(c, mt_op1(c, "all", mt_op2(c, "eq", a, o)));
}

static const mt_op ops[] = {
    {.schema = "eq(operand self, operand other) -> tensor", .help = "self == other.",
     .types = COMPARE, MT_ELEMENTWISE(eq), .onnx = "Equal:13", .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "ne(operand self, operand other) -> tensor", .help = "self ~= other.",
     .types = COMPARE, MT_ELEMENTWISE(ne), .sample = "{2,3}; {2,3}", .flags = FORM},
    {.schema = "lt(operand self, operand other) -> tensor", .help = "self < other.",
     .types = ORDER, MT_ELEMENTWISE(lt), .onnx = "Less:13", .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "le(operand self, operand other) -> tensor", .help = "self <= other.",
     .types = ORDER, MT_ELEMENTWISE(le), .onnx = "LessOrEqual:16", .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "gt(operand self, operand other) -> tensor", .help = "self > other.",
     .types = ORDER, MT_ELEMENTWISE(gt), .onnx = "Greater:13", .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "ge(operand self, operand other) -> tensor", .help = "self >= other.",
     .types = ORDER, MT_ELEMENTWISE(ge), .onnx = "GreaterOrEqual:16", .sample = "{2,3}; {2,3}",
     .flags = FORM},
    {.schema = "logical_and(operand self, operand other) -> tensor",
     .help = "Whether both are not 0.", .types = COMPARE, MT_ELEMENTWISE(logical_and),
     .onnx = "And:7", .sample = "{2,3}; {2,3}", .flags = FORM},
    {.schema = "logical_or(operand self, operand other) -> tensor",
     .help = "Whether one is not 0.", .types = COMPARE, MT_ELEMENTWISE(logical_or),
     .onnx = "Or:7", .sample = "{2,3}; {2,3}", .flags = FORM},
    {.schema = "logical_xor(operand self, operand other) -> tensor",
     .help = "Whether exactly one is not 0.", .types = COMPARE, MT_ELEMENTWISE(logical_xor),
     .onnx = "Xor:7", .sample = "{2,3}; {2,3}", .flags = FORM},
    {.schema = "isclose(tensor self, tensor other, float rtol=1e-05, float atol=1e-08, bool "
               "equal_nan=false) -> tensor",
     .help = "Whether |self - other| <= atol + rtol * |other|.", .types = COMPARE,
     .compose = compose_isclose, .sample = "{2,3}; {2,3}", .flags = MT_METHOD},
    {.schema = "allclose(tensor self, tensor other, float rtol=1e-05, float atol=1e-08, bool "
               "equal_nan=false) -> bool",
     .help = "Whether all elements are close (see isclose).", .types = COMPARE,
     .compose = compose_allclose, .sample = "{2,3}; {2,3}", .flags = MT_METHOD},
    {.schema = "equal(tensor self, tensor other) -> bool",
     .help = "Whether shapes and all elements are equal.", .types = COMPARE,
     .compose = compose_equal, .sample = "{2,3}; {2,3}", .flags = MT_METHOD},
};
MT_FAMILY(compare, ops);
