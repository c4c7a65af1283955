/* creation.c - tensors from sizes and numbers.
 *
 * The dtype of `full` and `arange` follows the numbers given (integers int64, floats the default
 * float dtype), unless a dtype argument decides. */
#include <math.h>
#include <string.h>

#include "rules.h"

#define NEW {MT_ALL, MT_DEFAULT, MT_COMMON}

static int shape_size(mt_call *c) {
  int64_t size[MT_MAX_DIM];
  int n, status = mt_arg_list(c, 0, size, &n);
  if (status) return status;
  for (int d = 0; d < n; d++)
    if (size[d] < 0)
      return mt_fail(c->rt, MT_ERROR, "argument 'size': sizes cannot be negative, got %s",
                     mt_shape_str(c->rt, n, size));
  mt_spec_set(&c->out[0], n, size);
  return MT_OK;
}

static int kernel_zeros(const mt_kargs *k) {
  mt_value arg[2] = {mt_nil(), mt_i(0)};
  mt_kargs one = *k;
  one.arg = arg;
  return mt_cpu_fill(&one);
}
static int kernel_ones(const mt_kargs *k) {
  mt_value arg[2] = {mt_nil(), mt_i(1)};
  mt_kargs one = *k;
  one.arg = arg;
  return mt_cpu_fill(&one);
}
static int kernel_empty(const mt_kargs *k) {
  (void)k;
  return MT_OK;
}

/* The dtype that numbers give when none was asked for. */
static mt_dtype number_dtype(const mt_call *c, int first, int n) {
  for (int j = first; j < first + n; j++)
    if (c->arg[j].kind == MT_FLOAT) return c->rt->default_float;
  return MT_I64;
}

static void default_dtype(mt_call *c, mt_dtype d) {
  if (c->arg[c->op->dtype_arg].kind == MT_NIL) c->out[0].dtype = d;
}

static int shape_full(mt_call *c) {
  default_dtype(c, number_dtype(c, 1, 1));
  return shape_size(c);
}

static void compose_full(mt_ctx *c, const mt_value *arg) {
  mt_value v = arg[1], dtype = arg[2];
  if (v.kind == MT_BOOL_ARG) { /* a boolean asks for bool */
    v = mt_i(v.u.i);
    if (!mt_given(&dtype)) dtype = mt_i(MT_BOOL);
  } else if (v.kind == MT_TENSOR) {
    int64_t i = 0;
    double f = 0;
    int whole = v.u.t->v.numel == 1 ? mt_tensor_read(v.u.t, 0, &i, &f) : -1;
    if (whole < 0) {
      mt_ctx_fail(c, "argument 'fill_value': expected a number or a tensor with one element");
      return;
    }
    if (!mt_given(&dtype)) dtype = mt_i(v.u.t->v.dtype);
    v = whole ? mt_i(i) : mt_f(f);
  }
  mt_return(c, MT_DO(c, "_full", arg[0], v, dtype));
}

/* x_like: size and dtype of x unless a dtype is given. */
static mt_value like_dtype(const mt_value *arg, int j) {
  return mt_given(&arg[j]) ? arg[j] : mt_i(arg[0].u.t->v.dtype);
}
static mt_value like_size(const mt_value *arg) {
  const mt_view *v = &arg[0].u.t->v;
  return mt_ints(v->size, v->ndim);
}
static void compose_zeros_like(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "zeros", like_size(arg), like_dtype(arg, 1)));
}
static void compose_ones_like(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "ones", like_size(arg), like_dtype(arg, 1)));
}
static void compose_empty_like(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "empty", like_size(arg), like_dtype(arg, 1)));
}
static void compose_full_like(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "full", like_size(arg), arg[1], like_dtype(arg, 2)));
}
static void compose_new_zeros(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "zeros", arg[1], like_dtype(arg, 2)));
}
static void compose_new_ones(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "ones", arg[1], like_dtype(arg, 2)));
}
static void compose_new_empty(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "empty", arg[1], like_dtype(arg, 2)));
}
static void compose_new_full(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "full", arg[1], arg[2], like_dtype(arg, 3)));
}

/* arange(end), arange(start, end), arange(start, end, step): a missing end means that the first
 * number is the end. */
static void compose_arange(mt_ctx *c, const mt_value *arg) {
  mt_value start = arg[0], end = arg[1];
  if (!mt_given(&end)) {
    end = start;
    start = mt_i(0);
  }
  mt_return(c, MT_DO(c, "_arange", start, end, arg[2], arg[3]));
}

static int shape_arange(mt_call *c) {
  double a = mt_argf(&c->arg[0]), z = mt_argf(&c->arg[1]), s = mt_argf(&c->arg[2]);
  if (!(isfinite(a) && isfinite(z) && isfinite(s)) || s == 0)
    return mt_fail(c->rt, MT_ERROR, "needs finite numbers and a step that is not 0");
  if ((z - a) * s < 0 && z != a)
    return mt_fail(c->rt, MT_ERROR, "cannot reach %.14g from %.14g with step %.14g", z, a, s);
  double n = ceil((z - a) / s);
  if (n >= 9e18) return mt_fail(c->rt, MT_ERROR, "too many elements");
  mt_dtype d = number_dtype(c, 0, 3);
  if (d == MT_I64) { /* exact where doubles are not */
    int64_t span = c->arg[1].u.i - c->arg[0].u.i, step = c->arg[2].u.i;
    n = (double)(span / step + (span % step != 0));
  }
  int64_t size = (int64_t)n;
  default_dtype(c, d);
  mt_spec_set(&c->out[0], 1, &size);
  return MT_OK;
}

static int shape_steps(mt_call *c) {
  int64_t n = mt_ci(c, 2);
  if (n < 0) return mt_fail(c->rt, MT_ERROR, "argument 'steps': cannot be negative");
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

static void compose_logspace(mt_ctx *c, const mt_value *arg) {
  moth_tensor *e = MT_DO(c, "linspace", arg[0], arg[1], arg[2], mt_i(MT_F64));
  moth_tensor *p = MT_DO(c, "pow", arg[3], mt_t(e));
  mt_return(c, MT_DO(c, "to", mt_t(p), mt_given(&arg[4]) ? arg[4] : mt_i(c->rt->default_float)));
}

static int shape_eye(mt_call *c) {
  int64_t size[2] = {mt_ci(c, 0), mt_given(&c->arg[1]) ? mt_ci(c, 1) : mt_ci(c, 0)};
  if (size[0] < 0 || size[1] < 0)
    return mt_fail(c->rt, MT_ERROR, "sizes cannot be negative");
  mt_spec_set(&c->out[0], 2, size);
  return MT_OK;
}

/* fill_(self, value): a number, or a tensor with one element (differentiable). */
static int kernel_fill(const mt_kargs *k) {
  mt_kargs one = *k;
  one.in = k->in + 1;
  one.nin = 1;
  return mt_cpu_copy(&one);
}
static int shape_fill(mt_call *c) {
  if (c->in[1] && c->in[1]->v.ndim != 0)
    return mt_fail(c->rt, MT_ERROR, "argument 'value': expected a number or a 0-d tensor, got %s",
                   mt_tensor_str(c->in[1]));
  mt_spec_like(&c->out[0], c->inv[0]);
  return MT_OK;
}
static void back_fill(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, mt_zeros_meta(b, 0));
  if (b->need[1]) mt_grad(b, 1, MT_DO(b->c, "sum", mt_t(b->g[0])));
}
static int shape_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  return MT_OK;
}

#define LIKE {MT_ALL, MT_FIRST, MT_COMMON}

static const mt_op ops[] = {
    {.schema = "zeros(size size, *, dtype? dtype=nil) -> tensor", .help = "Filled with 0.",
     .types = NEW, .shape = shape_size, .cpu = kernel_zeros, .sample = "{2,3}="},
    {.schema = "ones(size size, *, dtype? dtype=nil) -> tensor", .help = "Filled with 1.",
     .types = NEW, .shape = shape_size, .cpu = kernel_ones, .sample = "{2,3}="},
    {.schema = "empty(size size, *, dtype? dtype=nil) -> tensor",
     .help = "With elements that are not set.", .types = NEW, .shape = shape_size,
     .cpu = kernel_empty},
    {.schema = "_full(int[] size, number fill_value, *, dtype? dtype=nil) -> tensor",
     .help = "Filled with a number.", .types = NEW, .shape = shape_full, MT_CPU(fill),
     .flags = MT_HIDDEN},
    {.schema = "full(int[] size, operand fill_value, *, dtype? dtype=nil) -> tensor",
     .help = "Filled with a number, whose kind gives the dtype: int64, the default float dtype or "
             "bool.",
     .types = NEW, .compose = compose_full},
    {.schema = "zeros_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "Zeros of the shape and dtype of self.", .types = LIKE,
     .compose = compose_zeros_like, .sample = "{2,3}"},
    {.schema = "ones_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "Ones of the shape and dtype of self.", .types = LIKE, .compose = compose_ones_like,
     .sample = "{2,3}"},
    {.schema = "empty_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "Unset elements, of the shape and dtype of self.", .types = LIKE,
     .compose = compose_empty_like},
    {.schema = "full_like(tensor self, operand fill_value, *, dtype? dtype=nil) -> tensor",
     .help = "Filled with a number, of the shape and dtype of self.", .types = LIKE,
     .compose = compose_full_like, .sample = "{2,3}; 1.5"},
    {.schema = "new_zeros(tensor self, size size, *, dtype? dtype=nil) -> tensor",
     .help = "Zeros of a shape with the dtype of self.", .types = LIKE,
     .compose = compose_new_zeros, .flags = MT_METHOD},
    {.schema = "new_ones(tensor self, size size, *, dtype? dtype=nil) -> tensor",
     .help = "Ones of a shape with the dtype of self.", .types = LIKE,
     .compose = compose_new_ones, .flags = MT_METHOD},
    {.schema = "new_empty(tensor self, size size, *, dtype? dtype=nil) -> tensor",
     .help = "Unset elements of a shape with the dtype of self.", .types = LIKE,
     .compose = compose_new_empty, .flags = MT_METHOD},
    {.schema = "new_full(tensor self, int[] size, operand fill_value, *, dtype? dtype=nil) -> "
               "tensor",
     .help = "Filled with a number, of a shape with the dtype of self.", .types = LIKE,
     .compose = compose_new_full, .flags = MT_METHOD},
    {.schema = "arange(number start, number? end=nil, number step=1, *, dtype? dtype=nil) -> "
               "tensor",
     .help = "Numbers from start (0 when only one number is given) to end, end excluded.",
     .types = NEW, .compose = compose_arange},
    {.schema = "_arange(number start, number end, number step, *, dtype? dtype=nil) -> tensor",
     .help = "start + i * step before end.", .types = NEW, .shape = shape_arange, MT_CPU(arange),
     .onnx = "Range:11", .flags = MT_HIDDEN},
    {.schema = "linspace(number start, number end, int steps, *, dtype? dtype=nil) -> tensor",
     .help = "Evenly spaced numbers from start to end, both included.", .types = NEW,
     .shape = shape_steps, MT_CPU(linspace)},
    {.schema = "logspace(number start, number end, int steps, float base=10.0, *, dtype? "
               "dtype=nil) -> tensor",
     .help = "Powers of base, evenly spaced from base^start to base^end.", .types = NEW,
     .compose = compose_logspace},
    {.schema = "eye(int n, int? m=nil, *, dtype? dtype=nil) -> tensor",
     .help = "Ones on the diagonal of n rows and m (n) columns.", .types = NEW,
     .shape = shape_eye, MT_CPU(eye)},
    {.schema = "fill(tensor self, operand value) -> tensor",
     .help = "fill_ sets every element to a number or a 0-d tensor.", .types = LIKE,
     .shape = shape_fill, .cpu = kernel_fill, .backward = back_fill,
     .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
    {.schema = "zero(tensor self) -> tensor", .help = "zero_ sets every element to 0.",
     .types = LIKE, .shape = shape_self, .cpu = kernel_zeros, .backward = mt_back_zero,
     .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
};
MT_FAMILY(creation, ops);
