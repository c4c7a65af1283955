/* copy.c - copies and conversions: clone, contiguous, to, copy_, and as_strided with its
 * inverse. */
#include <string.h>

#include "rules.h"

/* ---- copies ---- */

static int shape_clone(mt_call *c) {
  const mt_view *v = c->inv[0];
  mt_spec *s = &c->out[0];
  mt_spec_like(s, v);
  if (!v->contiguous && mt_shape_is_dense(v->ndim, v->size, v->stride)) {
    s->strided = true;
    memcpy(s->stride, v->stride, sizeof v->stride);
  }
  return MT_OK;
}

static int shape_same(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  return MT_OK;
}

static void compose_contiguous(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  mt_return(c, x->v.contiguous ? x : mt_op1(c, "_contiguous", x));
}

static int shape_cast(mt_call *c) {
  c->out[0].dtype = (mt_dtype)mt_ci(c, 1);
  return shape_clone(c);
}

static void compose_to(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  mt_dtype d = mt_given(&arg[1]) ? (mt_dtype)arg[1].u.i : (mt_dtype)x->v.dtype;
  if (d == x->v.dtype && !arg[2].u.i) {
    mt_return(c, x);
    return;
  }
  mt_return(c, MT_DO(c, "_cast", arg[0], mt_i(d)));
}

static void compose_type_as(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "to", arg[0], mt_i(arg[1].u.t->v.dtype)));
}

/* copy_(self, src): src broadcast and cast to self. self is only written. */
static int kernel_copy(const mt_kargs *k) {
  mt_kargs one = *k;
  one.in = k->in + 1;
  one.nin = 1;
  return mt_cpu_copy(&one);
}

static int shape_copy(mt_call *c) {
  const mt_view *self = c->inv[0], *src = c->inv[1];
  if (!mt_shape_expands(src, self->ndim, self->size))
    return mt_fail(c->rt, MT_ERROR, "shape %s does not expand to %s",
                   mt_shape_str(c->rt, src->ndim, src->size),
                   mt_shape_str(c->rt, self->ndim, self->size));
  mt_spec_like(&c->out[0], self);
  return MT_OK;
}

static void back_copy(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, mt_zeros_meta(b, 0));
  if (b->need[1]) mt_grad(b, 1, b->g[0]);
}

/* ---- as_strided ---- */

static int check_reach(mt_call *c, int64_t offset, int n, const int64_t *size,
                       const int64_t *stride) {
  const moth_tensor *t = c->in[0];
  int64_t last = offset;
  for (int d = 0; d < n; d++) {
    if (size[d] < 0 || stride[d] < 0)
      return mt_fail(c->rt, MT_ERROR, "sizes and strides cannot be negative");
    int64_t span;
    if (size[d] && (__builtin_mul_overflow(size[d] - 1, stride[d], &span) ||
                    __builtin_add_overflow(last, span, &last)))
      return mt_fail(c->rt, MT_ERROR, "sizes and strides are too large");
  }
  int64_t held = (int64_t)t->storage->bytes / mt_dtype_size((mt_dtype)t->v.dtype);
  if (offset < 0 || (mt_shape_numel(n, size) != 0 && last >= held))
    return mt_fail(c->rt, MT_ERROR,
                   "size %s with strides %s from offset %lld leaves a storage of %lld elements",
                   mt_shape_str(c->rt, n, size), mt_shape_str(c->rt, n, stride),
                   (long long)offset, (long long)held);
  return MT_OK;
}

/* Arguments: self, size, stride, offset in the storage, and the geometry of self for backward. */
static int view_as_strided(mt_call *c) {
  mt_spec *s = &c->out[0];
  int n, m, status = mt_arg_list(c, 1, s->size, &n);
  if (!status) status = mt_arg_list(c, 2, s->stride, &m);
  if (status) return status;
  if (n != m) return mt_fail(c->rt, MT_ERROR, "%d sizes but %d strides", n, m);
  int64_t offset = mt_ci(c, 3);
  status = check_reach(c, offset, n, s->size, s->stride);
  s->ndim = n;
  s->strided = true;
  s->offset = offset - mt_tensor_offset(c->in[0]);
  return status;
}

static void compose_as_strided(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int64_t own = mt_tensor_offset(x);
  mt_return(c, MT_DO(c, "_as_strided", arg[0], arg[1], arg[2],
                     mt_given(&arg[3]) ? arg[3] : mt_i(own), mt_ints(x->v.size, x->v.ndim),
                     mt_ints(x->v.stride, x->v.ndim), mt_i(own)));
}

/* Elements that a geometry reaches from the start of the storage. */
static int64_t extent(const mt_value *size, const mt_value *stride, int64_t offset) {
  int64_t n = offset + 1;
  for (int d = 0; d < size->n; d++) {
    if (size->u.ints[d] == 0) return 0;
    n += (size->u.ints[d] - 1) * stride->u.ints[d];
  }
  return n;
}

/* What backward knows of the two geometries: the view's and that of its base. */
typedef struct geometry {
  mt_value size, stride, offset, in_size, in_stride, in_offset;
  int64_t span;
} geometry;

static geometry geometry_of(const mt_value *arg) {
  geometry q = {arg[0], arg[1], arg[2], arg[3], arg[4], arg[5], 0};
  int64_t a = extent(&q.size, &q.stride, q.offset.u.i);
  int64_t b = extent(&q.in_size, &q.in_stride, q.in_offset.u.i);
  q.span = a > b ? a : b;
  return q;
}

static moth_tensor *flat_zeros(mt_ctx *c, int64_t n, int dtype) {
  return MT_DO(c, "zeros", mt_ints(&n, 1), mt_i(dtype));
}

static moth_tensor *window(mt_ctx *c, moth_tensor *flat, mt_value size, mt_value stride,
                           mt_value offset) {
  return MT_DO(c, "as_strided", mt_t(flat), size, stride, offset);
}

/* The gradient of the base: the view's gradient added up in storage, read as the base. */
static void back_as_strided(mt_back *b) {
  geometry q = geometry_of(b->arg + 1);
  mt_ctx *c = b->c;
  moth_tensor *flat;
  if (mt_shape_overlaps(q.size.n, q.size.u.ints, q.stride.u.ints)) {
    flat = MT_DO(c, "_as_strided_add", mt_t(b->g[0]), q.stride, q.offset, mt_i(q.span));
  } else {
    flat = flat_zeros(c, q.span, b->g[0]->v.dtype);
    MT_DO(c, "copy_", mt_t(window(c, flat, q.size, q.stride, q.offset)), mt_t(b->g[0]));
  }
  mt_grad(b, 0, window(c, flat, q.in_size, q.in_stride, q.in_offset));
}

/* as_strided_scatter(self, src, geometry): self with the window replaced by src. */
static void compose_scatter(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = mt_op1(c, "clone", arg[0].u.t);
  MT_DO(c, "copy_", mt_t(MT_DO(c, "as_strided", mt_t(x), arg[2], arg[3], arg[4])), arg[1]);
  mt_return(c, x);
}

/* Only ever recorded by a write to a view (inplace.c); never run. */
static int kernel_never(const mt_kargs *k) {
  (void)k;
  return MT_NOKERNEL;
}

static void back_scatter(mt_back *b) {
  geometry q = geometry_of(b->arg + 2);
  mt_ctx *c = b->c;
  moth_tensor *flat = flat_zeros(c, q.span, b->g[0]->v.dtype);
  MT_DO(c, "copy_", mt_t(window(c, flat, q.in_size, q.in_stride, q.in_offset)), mt_t(b->g[0]));
  if (b->need[1])
    mt_grad(b, 1, mt_op1(c, "clone", window(c, flat, q.size, q.stride, q.offset)));
  if (!b->need[0]) return;
  MT_DO(c, "zero_", mt_t(window(c, flat, q.size, q.stride, q.offset)));
  mt_grad(b, 0, window(c, flat, q.in_size, q.in_stride, q.in_offset));
}

/* Adds self into n zeros at the places that strides and offset say. */
static int shape_strided_add(mt_call *c) {
  int64_t n = mt_ci(c, 3);
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

static void back_strided_add(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "as_strided", mt_t(mt_op1(b->c, "contiguous", b->g[0])),
                      mt_meta_size(b, 0), b->arg[1], b->arg[2]));
}

#define ANY {MT_ALL, MT_FIRST, MT_COMMON}

static const mt_op ops[] = {
    {.schema = "clone(tensor self) -> tensor",
     .help = "A copy with its own storage.",
     .types = ANY,
     .shape = shape_clone,
     MT_CPU(copy),
     .backward = mt_back_pass,
     .onnx = "Identity:13",
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "_contiguous(tensor self) -> tensor",
     .help = "A row-major copy.",
     .types = ANY,
     .shape = shape_same,
     MT_CPU(copy),
     .backward = mt_back_pass,
     .flags = MT_HIDDEN},
    {.schema = "contiguous(tensor self) -> tensor",
     .help = "self if its elements lie in row-major order, else a copy that does.",
     .types = ANY,
     .compose = compose_contiguous,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "_cast(tensor self, dtype dtype) -> tensor",
     .help = "A copy with another dtype.",
     .types = ANY,
     .shape = shape_cast,
     MT_CPU(copy),
     .backward = mt_back_pass,
     .onnx = "Cast:13",
     .flags = MT_HIDDEN},
    {.schema = "to(tensor self, dtype? dtype=nil, bool copy=false) -> tensor",
     .help = "self with another dtype; self itself when nothing changes. Floats are truncated to "
             "integers.",
     .types = ANY,
     .compose = compose_to,
     .sample = "{2,3}; float64",
     .flags = MT_METHOD},
    {.schema = "type_as(tensor self, tensor other) -> tensor",
     .help = "self with the dtype of other.",
     .types = ANY,
     .compose = compose_type_as,
     .flags = MT_METHOD},
    {.schema = "copy(tensor self, tensor src) -> tensor",
     .help = "copy_ writes src, broadcast and cast, to self.",
     .types = ANY,
     .shape = shape_copy,
     .cpu = kernel_copy,
     .backward = back_copy,
     .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
    {.schema =
         "as_strided(tensor self, size size, int[] stride, int? storage_offset=nil) -> tensor",
     .help = "A view with any sizes and strides on the storage of self; storage_offset counts "
             "elements.",
     .types = ANY,
     .compose = compose_as_strided,
     .sample = "{6}; {2,2}; {2,1}",
     .flags = MT_METHOD},
    {.schema = "_as_strided(tensor self, size size, int[] stride, int offset, int[] in_size, int[] "
               "in_stride, int in_offset) -> tensor",
     .help = "as_strided with the geometry of self, for its gradient.",
     .types = ANY,
     .view = view_as_strided,
     .backward = back_as_strided,
     .flags = MT_HIDDEN},
    {.schema = "as_strided_scatter(tensor self, tensor src, size size, int[] stride, int "
               "storage_offset) -> tensor",
     .help = "A copy of self with the window of as_strided replaced by src.",
     .types = ANY,
     .compose = compose_scatter,
     .flags = MT_METHOD},
    {.schema = "_written_view(tensor self, tensor src, size size, int[] stride, int offset, int[] "
               "in_size, int[] in_stride, int in_offset) -> tensor",
     .help = "What self became when its view src was written.",
     .types = ANY,
     .shape = shape_same,
     .cpu = kernel_never,
     .backward = back_scatter,
     .flags = MT_HIDDEN},
    {.schema = "_as_strided_add(tensor self, int[] stride, int offset, int n) -> tensor",
     .help = "n zeros with self added at the places of as_strided.",
     .types = ANY,
     .shape = shape_strided_add,
     MT_CPU_S(as_strided_back),
     .backward = back_strided_add,
     .flags = MT_HIDDEN},
};
MT_FAMILY(copy, ops);
