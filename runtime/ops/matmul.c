/* matmul.c - matrix products.
 *
 * One kernel multiplies (.., m, k) by (.., k, n) with a broadcast batch; the forms for vectors,
 * single matrices and batches bring their operands into that shape with views. Mixed dtypes raise.
 * The gradient of a product is two products. */
#include <string.h>

#include "rules.h"

#define MATRIX {MT_NUMBERS, MT_EQUAL, MT_COMMON}
#define FLOAT {MT_REALFLOATS, MT_EQUAL, MT_COMMON}

#define G b->g[0]

static moth_tensor *transposed(mt_back *b, moth_tensor *t) {
  if (t && t->v.dtype == MT_C64) t = mt_op1(b->c, "conj", t);
  return mt_op1(b->c, "mT", t);
}

/* ---- the kernel's product: both operands with at least two dims ---- */

static int no_product(mt_call *c, int i, int j) {
  return mt_fail(c->rt, MT_ERROR, "cannot multiply %s by %s: %s is not %s",
                 mt_tensor_str(c->in[i]), mt_tensor_str(c->in[j]), "the inner size",
                 "the same on both sides");
}

/* Checks the inner sizes and broadcasts the batch of inputs i and j into spec (.., m, n). */
static int product_spec(mt_call *c, int i, int j, mt_spec *s) {
  const mt_view *x = c->inv[i], *y = c->inv[j];
  if (x->ndim < 2 || y->ndim < 2 || x->size[x->ndim - 1] != y->size[y->ndim - 2])
    return no_product(c, i, j);
  mt_view a = *x, e = *y;
  a.ndim = (int8_t)(x->ndim - 2);
  e.ndim = (int8_t)(y->ndim - 2);
  const mt_view *batch[2] = {&a, &e};
  int status = mt_shape_broadcast(c->rt, s, 2, batch);
  if (status) return no_product(c, i, j);
  s->size[s->ndim++] = x->size[x->ndim - 2];
  s->size[s->ndim++] = y->size[y->ndim - 1];
  return MT_OK;
}
static int shape_matmul(mt_call *c) { return product_spec(c, 0, 1, &c->out[0]); }

/* v with its batch dims expanded to those of a result with `ndim` dims. */
static mt_view batched(const mt_view *v, const mt_view *out) {
  mt_view r = *v;
  int lead = out->ndim - v->ndim;
  for (int d = 0; d < out->ndim; d++) {
    int from = d - lead;
    bool matrix = d >= out->ndim - 2;
    r.size[d] = matrix ? v->size[from] : out->size[d];
    bool spread = from < 0 || (!matrix && v->size[from] == 1);
    r.stride[d] = spread ? 0 : v->stride[from];
  }
  r.ndim = out->ndim;
  mt_view_finish(&r);
  return r;
}

static int kernel_matmul(const mt_kargs *k) {
  mt_view a = batched(k->in[0], k->out[0]), e = batched(k->in[1], k->out[0]);
  const mt_view *in[2] = {&a, &e};
  mt_kargs one = *k;
  one.in = in;
  return mt_cpu_matmul(&one);
}
static size_t scratch_matmul(const mt_kargs *k) {
  mt_view a = batched(k->in[0], k->out[0]), e = batched(k->in[1], k->out[0]);
  const mt_view *in[2] = {&a, &e};
  mt_kargs one = *k;
  one.in = in;
  return mt_cpu_matmul_scratch(&one);
}

static void back_matmul(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, mt_op2(b->c, "_matmul", G, transposed(b, b->in[1])));
  if (b->need[1]) mt_grad(b, 1, mt_op2(b->c, "_matmul", transposed(b, b->in[0]), G));
}

/* ---- matmul: vectors as rows or columns ---- */

static void compose_matmul(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *y = arg[1].u.t;
  int n = x->v.ndim, m = y->v.ndim;
  if (n == 0 || m == 0) {
    mt_ctx_fail(c, "both tensors need at least one dim, got %s and %s", mt_tensor_str(x),
                mt_tensor_str(y));
    return;
  }
  if (n == 1) x = MT_DO(c, "unsqueeze", mt_t(x), mt_i(0));
  if (m == 1) y = MT_DO(c, "unsqueeze", mt_t(y), mt_i(1));
  moth_tensor *r = mt_op2(c, "_matmul", x, y);
  int64_t last = -1, row = -2;
  if (m == 1) r = MT_DO(c, "squeeze", mt_t(r), mt_ints(&last, 1));
  if (n == 1) r = MT_DO(c, "squeeze", mt_t(r), mt_ints(m == 1 ? &last : &row, 1));
  mt_return(c, r);
}

static bool dims_are(mt_ctx *c, const mt_value *v, const char *name, int ndim) {
  if (v->u.t->v.ndim == ndim) return true;
  mt_ctx_fail(c, "argument '%s': expected %d dims, got %s", name, ndim, mt_tensor_str(v->u.t));
  return false;
}
static void compose_mm(mt_ctx *c, const mt_value *arg) {
  if (dims_are(c, &arg[0], "self", 2) && dims_are(c, &arg[1], "mat2", 2))
    mt_return(c, MT_DO(c, "_matmul", arg[0], arg[1]));
}
static void compose_bmm(mt_ctx *c, const mt_value *arg) {
  if (!dims_are(c, &arg[0], "self", 3) || !dims_are(c, &arg[1], "mat2", 3)) return;
  if (arg[0].u.t->v.size[0] != arg[1].u.t->v.size[0])
    mt_ctx_fail(c, "expected batches of one size, got %s and %s", mt_tensor_str(arg[0].u.t),
                mt_tensor_str(arg[1].u.t));
  mt_return(c, MT_DO(c, "_matmul", arg[0], arg[1]));
}
static void compose_mv(mt_ctx *c, const mt_value *arg) {
  if (dims_are(c, &arg[0], "self", 2) && dims_are(c, &arg[1], "vec", 1)) compose_matmul(c, arg);
}
static void compose_dot(mt_ctx *c, const mt_value *arg) {
  if (dims_are(c, &arg[0], "self", 1) && dims_are(c, &arg[1], "tensor", 1)) compose_matmul(c, arg);
}
static void compose_vdot(mt_ctx *c, const mt_value *arg) {
  mt_value v[2] = {mt_t(mt_op1(c, "conj", arg[0].u.t)), arg[1]};
  if (!c->status) compose_dot(c, v);
}
static void compose_outer(mt_ctx *c, const mt_value *arg) {
  if (!dims_are(c, &arg[0], "self", 1) || !dims_are(c, &arg[1], "vec2", 1)) return;
  mt_return(c, MT_DO(c, "mul", mt_t(MT_DO(c, "unsqueeze", arg[0], mt_i(1))), arg[1]));
}
static void compose_inner(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *y = arg[1].u.t;
  if (x->v.ndim == 0 || y->v.ndim == 0) {
    mt_return(c, mt_op2(c, "mul", x, y));
    return;
  }
  int64_t last[1] = {-1};
  mt_return(c, MT_DO(c, "tensordot", arg[0], arg[1], mt_ints(last, 1), mt_ints(last, 1)));
}

/* ---- with a summand: beta * self + alpha * (a @ b) ---- */

static int check_scale(mt_call *c, int j) {
  if (c->arg[j].kind == MT_FLOAT && mt_dtype_category(c->common) < MT_CAT_FLOAT)
    return mt_fail(c->rt, MT_ERROR, "argument '%s': expected an integer for %s",
                   c->op->arg[j].name, mt_dtypes[c->common].name);
  return MT_OK;
}
static int shape_add_product(mt_call *c, int ndim) {
  for (int i = 1; i < 3; i++)
    if (c->inv[i]->ndim != ndim)
      return mt_fail(c->rt, MT_ERROR, "argument '%s': expected %d dims, got %s",
                     c->op->arg[i].name, ndim, mt_tensor_str(c->in[i]));
  if (ndim == 3 && c->inv[1]->size[0] != c->inv[2]->size[0]) return no_product(c, 1, 2);
  int status = product_spec(c, 1, 2, &c->out[0]);
  if (!status) status = check_scale(c, 3);
  if (!status) status = check_scale(c, 4);
  if (status) return status;
  if (!mt_shape_expands(c->inv[0], c->out[0].ndim, c->out[0].size))
    return mt_fail(c->rt, MT_ERROR, "argument '%s': %s does not broadcast to %s",
                   c->op->arg[0].name, mt_tensor_str(c->in[0]),
                   mt_shape_str(c->rt, c->out[0].ndim, c->out[0].size));
  return MT_OK;
}
static int shape_addmm(mt_call *c) { return shape_add_product(c, 2); }
static int shape_baddbmm(mt_call *c) { return shape_add_product(c, 3); }

static moth_tensor *scaled(mt_back *b, moth_tensor *g, const mt_value *s) {
  return mt_argf(s) == 1 ? g : MT_DO(b->c, "mul", mt_t(g), *s);
}
static void back_addmm(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, scaled(b, G, &b->arg[3]));
  if (!b->need[1] && !b->need[2]) return;
  moth_tensor *g = scaled(b, G, &b->arg[4]);
  if (b->need[1]) mt_grad(b, 1, mt_op2(b->c, "_matmul", g, transposed(b, b->in[2])));
  if (b->need[2]) mt_grad(b, 2, mt_op2(b->c, "_matmul", transposed(b, b->in[1]), g));
}

/* addmv, addr and addbmm: the product, then the sum; beta 0 ignores self. */
static void add_scaled(mt_ctx *c, const mt_value *arg, moth_tensor *product) {
  double beta = mt_argf(&arg[3]), alpha = mt_argf(&arg[4]);
  if (alpha != 1) product = MT_DO(c, "mul", mt_t(product), arg[4]);
  if (beta == 0) {
    moth_tensor *zero = MT_DO(c, "zeros_like", arg[0]);
    mt_return(c, mt_op2(c, "add", zero, product));
    return;
  }
  moth_tensor *self = beta == 1 ? arg[0].u.t : MT_DO(c, "mul", arg[0], arg[3]);
  mt_return(c, mt_op2(c, "add", self, product));
}
static void compose_addmv(mt_ctx *c, const mt_value *arg) {
  if (dims_are(c, &arg[1], "mat", 2) && dims_are(c, &arg[2], "vec", 1))
    add_scaled(c, arg, MT_DO(c, "matmul", arg[1], arg[2]));
}
static void compose_addr(mt_ctx *c, const mt_value *arg) {
  add_scaled(c, arg, MT_DO(c, "outer", arg[1], arg[2]));
}
static void compose_addbmm(mt_ctx *c, const mt_value *arg) {
  int64_t first = 0;
  moth_tensor *p = MT_DO(c, "bmm", arg[1], arg[2]);
  add_scaled(c, arg, MT_DO(c, "sum", mt_t(p), mt_ints(&first, 1)));
}

/* ---- linear ---- */

static int shape_linear(mt_call *c) {
  const mt_view *x = c->inv[0], *w = c->inv[1], *bias = c->inv[2];
  if (x->ndim < 1 || w->ndim != 2 || x->size[x->ndim - 1] != w->size[1])
    return mt_fail(c->rt, MT_ERROR, "input %s does not fit weight %s (expected (.., %lld))",
                   mt_tensor_str(c->in[0]), mt_tensor_str(c->in[1]),
                   (long long)(w->ndim == 2 ? w->size[1] : 0));
  if (bias && (bias->ndim != 1 || bias->size[0] != w->size[0]))
    return mt_fail(c->rt, MT_ERROR, "argument 'bias': expected (%lld), got %s",
                   (long long)w->size[0], mt_tensor_str(c->in[2]));
  mt_spec_like(&c->out[0], x);
  c->out[0].size[x->ndim - 1] = w->size[0];
  return MT_OK;
}

/* All leading dims are rows of one matrix. */
static moth_tensor *rows(mt_ctx *c, moth_tensor *t) {
  if (!t || t->v.ndim == 2) return t;
  int64_t n = t->v.size[t->v.ndim - 1], size[2] = {n ? t->v.numel / n : 1, n};
  if (!n)
    for (int d = 0; d < t->v.ndim - 1; d++) size[0] *= t->v.size[d];
  return MT_DO(c, "reshape", mt_t(t), mt_ints(size, 2));
}
static void back_linear(mt_back *b) {
  mt_ctx *c = b->c;
  if (b->need[0]) mt_grad(b, 0, mt_op2(c, "matmul", G, b->in[1]));
  moth_tensor *g = rows(c, G);
  int64_t first = 0;
  if (b->need[1]) mt_grad(b, 1, mt_op2(c, "_matmul", mt_op1(c, "t", g), rows(c, b->in[0])));
  if (b->need[2]) mt_grad(b, 2, MT_DO(c, "sum", mt_t(g), mt_ints(&first, 1)));
}

/* y[n, o] = sum x1[n, i] W[o, i, j] x2[n, j] + b[o] */
static void compose_bilinear(mt_ctx *c, const mt_value *arg) {
  if (!dims_are(c, &arg[2], "weight", 3)) return;
  moth_tensor *in[3] = {arg[0].u.t, arg[2].u.t, arg[1].u.t};
  moth_tensor *y = MT_DO(c, "einsum", mt_s("...i,oij,...j->...o"), mt_ts(in, 3));
  mt_return(c, mt_given(&arg[3]) ? MT_DO(c, "add", mt_t(y), arg[3]) : y);
}

/* Products over the pairs of dims given; the lists are dims of each operand. */
static void compose_tensordot(mt_ctx *c, const mt_value *arg) {
  const mt_view *x = &arg[0].u.t->v, *y = &arg[1].u.t->v;
  int64_t px[MT_MAX_DIM], py[MT_MAX_DIM], size[2 * MT_MAX_DIM], inner = 1;
  int n = arg[2].n, nx = 0, ny = n, ns = 0;
  unsigned mx = 0, my = 0;
  if (arg[3].n != n || n > x->ndim || n > y->ndim) {
    mt_ctx_fail(c, "expected as many dims of one tensor as of the other");
    return;
  }
  for (int i = 0; i < n; i++) {
    int dx, dy;
    c->status = mt_shape_dim(c->rt, &dx, "dims", arg[2].u.ints[i], x->ndim);
    if (!c->status) c->status = mt_shape_dim(c->rt, &dy, "dims", arg[3].u.ints[i], y->ndim);
    if (c->status) return;
    if (x->size[dx] != y->size[dy]) {
      mt_ctx_fail(c, "paired dims differ: %lld and %lld", (long long)x->size[dx],
                  (long long)y->size[dy]);
      return;
    }
    mx |= 1u << dx;
    my |= 1u << dy;
    inner *= x->size[dx];
    px[x->ndim - n + i] = dx;
    py[i] = dy;
  }
  for (int d = 0; d < x->ndim; d++)
    if (!(mx >> d & 1)) size[ns++] = x->size[px[nx++] = d];
  for (int d = 0; d < y->ndim; d++)
    if (!(my >> d & 1)) size[ns++] = y->size[py[ny++] = d];
  int64_t left = 1, right = 1;
  for (int i = 0; i < nx; i++) left *= size[i];
  for (int i = nx; i < ns; i++) right *= size[i];
  int64_t a[2] = {left, inner}, e[2] = {inner, right};
  moth_tensor *l = MT_DO(c, "permute", arg[0], mt_ints(px, x->ndim));
  moth_tensor *r = MT_DO(c, "permute", arg[1], mt_ints(py, y->ndim));
  l = MT_DO(c, "reshape", mt_t(l), mt_ints(a, 2));
  r = MT_DO(c, "reshape", mt_t(r), mt_ints(e, 2));
  mt_return(c, MT_DO(c, "reshape", mt_t(mt_op2(c, "_matmul", l, r)), mt_ints(size, ns)));
}

/* ---- distances ---- */

static void compose_cosine(mt_ctx *c, const mt_value *arg) {
  double eps = arg[3].u.f;
  mt_value dim = arg[2], floor2 = mt_f(eps * eps);
  moth_tensor *x = arg[0].u.t, *y = arg[1].u.t, *pair[2] = {x, y};
  if (x->v.dtype != y->v.dtype) {
    mt_ctx_fail(c, "expected tensors of one dtype, got %s and %s", mt_tensor_str(x),
                mt_tensor_str(y));
    return;
  }
  x = MT_DO(c, "broadcast_tensors", mt_ts(pair, 2));
  y = mt_nth(c, 1);
  moth_tensor *xy = MT_DO(c, "sum", mt_t(mt_op2(c, "mul", x, y)), dim);
  moth_tensor *xx = MT_DO(c, "sum", mt_t(mt_op2(c, "mul", x, x)), dim);
  moth_tensor *yy = MT_DO(c, "sum", mt_t(mt_op2(c, "mul", y, y)), dim);
  xx = mt_op1(c, "sqrt", MT_DO(c, "clamp_min", mt_t(xx), floor2));
  yy = mt_op1(c, "sqrt", MT_DO(c, "clamp_min", mt_t(yy), floor2));
  mt_return(c, mt_op2(c, "div", xy, mt_op2(c, "mul", xx, yy)));
}
static void compose_pairwise(mt_ctx *c, const mt_value *arg) {
  int64_t last = -1;
  moth_tensor *d = mt_ops(c, "add", MT_DO(c, "sub", arg[0], arg[1]), arg[3].u.f);
  mt_return(c, MT_DO(c, "norm", mt_t(d), arg[2], mt_ints(&last, 1), arg[4]));
}

static const mt_op ops[] = {
    {.schema = "_matmul(tensor self, tensor other) -> tensor",
     .help = "(.., m, k) by (.., k, n) with broadcast batches.",
     .types = MATRIX,
     .shape = shape_matmul,
     .cpu = kernel_matmul,
     .scratch = scratch_matmul,
     .backward = back_matmul,
     .save = MT_IN(0) | MT_IN(1),
     .onnx = "MatMul:13",
     .flags = MT_HIDDEN | MT_CROSS},
    {.schema = "matmul(tensor self, tensor other) -> tensor",
     .help = "The matrix product; vectors count as a row or a column, leading dims broadcast.",
     .types = MATRIX,
     .compose = compose_matmul,
     .sample = "{2,3}; {3,4}",
     .flags = MT_METHOD},
    {.schema = "mm(tensor self, tensor mat2) -> tensor",
     .help = "The product of two matrices.",
     .types = MATRIX,
     .compose = compose_mm,
     .sample = "{2,3}; {3,4}",
     .flags = MT_METHOD},
    {.schema = "bmm(tensor self, tensor mat2) -> tensor",
     .help = "The products of two batches of matrices.",
     .types = MATRIX,
     .compose = compose_bmm,
     .sample = "{2,3,2}; {2,2,3}",
     .flags = MT_METHOD},
    {.schema = "mv(tensor self, tensor vec) -> tensor",
     .help = "A matrix by a vector.",
     .types = MATRIX,
     .compose = compose_mv,
     .sample = "{2,3}; {3}",
     .flags = MT_METHOD},
    {.schema = "dot(tensor self, tensor tensor) -> tensor",
     .help = "The scalar product of two vectors.",
     .types = MATRIX,
     .compose = compose_dot,
     .sample = "{3}; {3}",
     .flags = MT_METHOD},
    {.schema = "vdot(tensor self, tensor other) -> tensor",
     .help = "The scalar product with the first vector conjugated.",
     .types = MATRIX,
     .compose = compose_vdot,
     .sample = "{3}; {3}",
     .flags = MT_METHOD},
    {.schema = "outer(tensor self, tensor vec2) -> tensor",
     .help = "All products of the elements of two vectors.",
     .types = {MT_NUMBERS, MT_PROMOTE, MT_COMMON},
     .compose = compose_outer,
     .sample = "{2}; {3}",
     .flags = MT_METHOD},
    {.schema = "inner(tensor self, tensor other) -> tensor",
     .help = "Scalar products over the last dims.",
     .types = MATRIX,
     .compose = compose_inner,
     .sample = "{2,3}; {4,3}",
     .flags = MT_METHOD},
    {.schema = "addmm(tensor self, tensor mat1, tensor mat2, *, number beta=1, number alpha=1) -> "
               "tensor",
     .help = "beta * self + alpha * (mat1 @ mat2); beta 0 ignores self, NaN too.",
     .types = MATRIX,
     .shape = shape_addmm,
     MT_CPU_S(addmm),
     .backward = back_addmm,
     .save = MT_IN(1) | MT_IN(2),
     .onnx = "Gemm:13",
     .sample = "{2,4}; {2,3}; {3,4}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema = "baddbmm(tensor self, tensor batch1, tensor batch2, *, number beta=1, number "
               "alpha=1) -> tensor",
     .help = "beta * self + alpha * (batch1 @ batch2) over a batch.",
     .types = MATRIX,
     .shape = shape_baddbmm,
     MT_CPU_S(addmm),
     .backward = back_addmm,
     .save = MT_IN(1) | MT_IN(2),
     .sample = "{2,2,3}; {2,2,2}; {2,2,3}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema = "addmv(tensor self, tensor mat, tensor vec, *, number beta=1, number alpha=1) -> "
               "tensor",
     .help = "beta * self + alpha * (mat @ vec).",
     .types = MATRIX,
     .compose = compose_addmv,
     .sample = "{2}; {2,3}; {3}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema = "addr(tensor self, tensor vec1, tensor vec2, *, number beta=1, number alpha=1) -> "
               "tensor",
     .help = "beta * self + alpha * outer(vec1, vec2).",
     .types = {MT_NUMBERS, MT_PROMOTE, MT_COMMON},
     .compose = compose_addr,
     .sample = "{2,3}; {2}; {3}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema =
         "addbmm(tensor self, tensor batch1, tensor batch2, *, number beta=1, number alpha=1) "
         "-> tensor",
     .help = "beta * self + alpha * the sum of the products of a batch.",
     .types = MATRIX,
     .compose = compose_addbmm,
     .sample = "{2,3}; {2,2,2}; {2,2,3}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema = "linear(tensor input, tensor weight, tensor? bias=nil) -> tensor",
     .help = "input @ weight^T + bias; weight is (out, in).",
     .types = MATRIX,
     .shape = shape_linear,
     MT_CPU_S(linear),
     .backward = back_linear,
     .save = MT_IN(0) | MT_IN(1),
     .onnx = "Gemm:13",
     .sample = "{2,3}; {4,3}; {4}",
     .flags = MT_CROSS},
    {.schema = "bilinear(tensor input1, tensor input2, tensor weight, tensor? bias=nil) -> tensor",
     .help = "input1^T W input2 + bias for each output.",
     .types = FLOAT,
     .compose = compose_bilinear,
     .sample = "{2,3}; {2,4}; {5,3,4}; {5}"},
    {.schema = "tensordot(tensor a, tensor b, int[] dims_a, int[] dims_b) -> tensor",
     .help = "Products summed over pairs of dims.",
     .types = MATRIX,
     .compose = compose_tensordot,
     .flags = MT_HIDDEN},
    {.schema = "cosine_similarity(tensor x1, tensor x2, dim[] dim=1, float eps=1e-08) -> tensor",
     .help = "The cosine of the angle between vectors along a dim.",
     .types = FLOAT,
     .compose = compose_cosine,
     .sample = "{2,3}; {2,3}"},
    {.schema = "pairwise_distance(tensor x1, tensor x2, float p=2.0, float eps=1e-06, bool "
               "keepdim=false) -> tensor",
     .help = "The p-norm of the difference along the last dim.",
     .types = FLOAT,
     .compose = compose_pairwise,
     .sample = "{2,3}; {2,3}"},
};
MT_FAMILY(matmul, ops);
