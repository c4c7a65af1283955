/* view.c - views: results that share the storage of their first argument.
 *
 * A view rule fills sizes, strides and the offset of the result; nothing is computed. Backward of
 * a view that shows a part puts the gradient into zeros of the whole. */
#include <string.h>

#include "rules.h"

/* ---- shared ---- */

void mt_back_pass(mt_back *b) {
  for (int i = 0; i < b->nin; i++)
    if (b->need[i]) mt_grad(b, i, b->g[0]);
}

void mt_back_reshape(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "reshape", mt_t(b->g[0]), mt_meta_size(b, 0)));
}

void mt_back_zero(mt_back *b) {
  for (int i = 0; i < b->nin; i++)
    if (b->need[i]) mt_grad(b, i, mt_zeros_meta(b, i));
}

moth_tensor *mt_zeros_meta(mt_back *b, int i) {
  return MT_DO(b->c, "zeros", mt_meta_size(b, i), mt_i(b->meta[i].dtype));
}

static void strided(mt_spec *s, const mt_view *v) {
  s->ndim = v->ndim;
  s->strided = true;
  memcpy(s->size, v->size, sizeof v->size);
  memcpy(s->stride, v->stride, sizeof v->stride);
}

/* ---- sizes given ---- */

/* Fills one -1 among the sizes from numel. */
static int infer(moth_runtime *rt, int n, int64_t *size, int64_t numel) {
  int hole = -1;
  int64_t known = 1;
  for (int i = 0; i < n; i++) {
    if (size[i] == -1) {
      if (hole >= 0) return mt_fail(rt, MT_ERROR, "only one size can be -1");
      hole = i;
    } else if (size[i] < 0 || __builtin_mul_overflow(known, size[i], &known)) {
      return mt_fail(rt, MT_ERROR, "invalid shape %s", mt_shape_str(rt, n, size));
    }
  }
  if (hole >= 0 && known > 0 && numel % known == 0) {
    size[hole] = numel / known;
    known *= size[hole];
  } else if (hole >= 0) {
    known = -1;
  }
  if (known != numel)
    return mt_fail(rt, MT_ERROR, "shape %s does not fit %lld elements", mt_shape_str(rt, n, size),
                   (long long)numel);
  return MT_OK;
}

static int view_sizes(mt_call *c, int64_t *size, int *n) {
  int status = mt_arg_list(c, 1, size, n);
  return status ? status : infer(c->rt, *n, size, c->inv[0]->numel);
}

static int view_view(mt_call *c) {
  int64_t size[MT_MAX_DIM];
  int n, status = view_sizes(c, size, &n);
  if (status) return status;
  mt_spec *s = &c->out[0];
  mt_spec_set(s, n, size);
  if (!mt_shape_view_strides(c->inv[0], n, size, s->stride))
    return mt_fail(c->rt, MT_ERROR,
                   "%s with strides %s cannot be viewed as %s without a copy; use reshape",
                   mt_tensor_str(c->in[0]),
                   mt_shape_str(c->rt, c->inv[0]->ndim, c->inv[0]->stride),
                   mt_shape_str(c->rt, n, size));
  return MT_OK;
}

static void compose_reshape(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int64_t size[MT_MAX_DIM], stride[MT_MAX_DIM];
  int n = arg[1].n;
  if (n > MT_MAX_DIM) {
    mt_ctx_fail(c, "argument 'shape': at most %d dims, got %d", MT_MAX_DIM, n);
    return;
  }
  memcpy(size, arg[1].u.ints, sizeof(int64_t) * (size_t)n);
  if (c->status == MT_OK) c->status = infer(c->rt, n, size, x->v.numel);
  if (c->status) return;
  if (!mt_shape_view_strides(&x->v, n, size, stride)) x = mt_op1(c, "contiguous", x);
  mt_return(c, MT_DO(c, "view", mt_t(x), mt_ints(size, n)));
}

static void compose_like(mt_ctx *c, const mt_value *arg) {
  const moth_tensor *o = arg[1].u.t;
  mt_return(c, MT_DO(c, "reshape", arg[0], mt_ints(o->v.size, o->v.ndim)));
}

static void compose_flatten(mt_ctx *c, const mt_value *arg) {
  const mt_view *v = &arg[0].u.t->v;
  int64_t a = arg[1].u.i, z = arg[2].u.i, size[MT_MAX_DIM], n = 0, run = 1;
  if (a > z) {
    mt_ctx_fail(c, "start_dim comes after end_dim");
    return;
  }
  for (int64_t d = 0; d < v->ndim; d++) {
    run *= v->size[d];
    if (d >= a && d < z) continue;
    size[n++] = run;
    run = 1;
  }
  if (v->ndim == 0) size[n++] = 1;
  mt_return(c, MT_DO(c, "reshape", arg[0], mt_ints(size, (int)n)));
}

static void compose_ravel(mt_ctx *c, const mt_value *arg) {
  int64_t n = -1;
  if (arg[0].u.t->v.numel == 0) n = 0;
  mt_return(c, MT_DO(c, "reshape", arg[0], mt_ints(&n, 1)));
}

static void compose_unflatten(mt_ctx *c, const mt_value *arg) {
  const mt_view *v = &arg[0].u.t->v;
  int64_t size[MT_MAX_DIM], part[MT_MAX_DIM];
  int d = (int)arg[1].u.i, k = arg[2].n;
  if (v->ndim == 0 || k < 1 || v->ndim - 1 + k > MT_MAX_DIM) {
    mt_ctx_fail(c, "argument 'sizes': cannot make %d dims of one", k);
    return;
  }
  memcpy(part, arg[2].u.ints, sizeof(int64_t) * (size_t)k);
  c->status = infer(c->rt, k, part, v->size[d]);
  if (c->status) return;
  memcpy(size, v->size, sizeof(int64_t) * (size_t)d);
  memcpy(size + d, part, sizeof(int64_t) * (size_t)k);
  memcpy(size + d + k, v->size + d + 1, sizeof(int64_t) * (size_t)(v->ndim - d - 1));
  mt_return(c, MT_DO(c, "reshape", arg[0], mt_ints(size, v->ndim - 1 + k)));
}

/* ---- order of dims ---- */

static void swap(mt_spec *s, int a, int b) {
  int64_t t = s->size[a];
  s->size[a] = s->size[b];
  s->size[b] = t;
  t = s->stride[a];
  s->stride[a] = s->stride[b];
  s->stride[b] = t;
}

static int view_transpose(mt_call *c) {
  strided(&c->out[0], c->inv[0]);
  if (c->inv[0]->ndim) swap(&c->out[0], (int)mt_ci(c, 1), (int)mt_ci(c, 2));
  return MT_OK;
}

static void back_transpose(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "transpose", mt_t(b->g[0]), b->arg[1], b->arg[2]));
}

static int view_t(mt_call *c) {
  if (c->inv[0]->ndim > 2)
    return mt_fail(c->rt, MT_ERROR, "expected at most 2 dims, got %s; use transpose or mT",
                   mt_tensor_str(c->in[0]));
  strided(&c->out[0], c->inv[0]);
  if (c->inv[0]->ndim == 2) swap(&c->out[0], 0, 1);
  return MT_OK;
}

static int view_mT(mt_call *c) {
  int n = c->inv[0]->ndim;
  if (n < 2)
    return mt_fail(c->rt, MT_ERROR, "expected at least 2 dims, got %s", mt_tensor_str(c->in[0]));
  strided(&c->out[0], c->inv[0]);
  swap(&c->out[0], n - 2, n - 1);
  return MT_OK;
}

static void back_t(mt_back *b) { mt_grad(b, 0, mt_op1(b->c, b->op->name, b->g[0])); }

static int view_permute(mt_call *c) {
  const mt_view *v = c->inv[0];
  const mt_value *dims = &c->arg[1];
  mt_spec *s = &c->out[0];
  if (dims->n != v->ndim)
    return mt_fail(c->rt, MT_ERROR, "argument 'dims': expected %d dims, got %d", v->ndim, dims->n);
  s->ndim = v->ndim;
  s->strided = true;
  for (int i = 0; i < v->ndim; i++) {
    s->size[i] = v->size[dims->u.ints[i]];
    s->stride[i] = v->stride[dims->u.ints[i]];
  }
  return MT_OK;
}

static void back_permute(mt_back *b) {
  int64_t inverse[MT_MAX_DIM];
  for (int i = 0; i < b->arg[1].n; i++) inverse[b->arg[1].u.ints[i]] = i;
  mt_grad(b, 0, MT_DO(b->c, "permute", mt_t(b->g[0]), mt_ints(inverse, b->arg[1].n)));
}

static void compose_movedim(mt_ctx *c, const mt_value *arg) {
  int64_t order[MT_MAX_DIM];
  int n = arg[0].u.t->v.ndim, at = 0;
  unsigned moved = 0;
  if (arg[1].n != arg[2].n) {
    mt_ctx_fail(c, "source has %d dims, destination %d", arg[1].n, arg[2].n);
    return;
  }
  for (int i = 0; i < n; i++) order[i] = -1;
  for (int i = 0; i < arg[1].n; i++) {
    order[arg[2].u.ints[i]] = arg[1].u.ints[i];
    moved |= 1u << arg[1].u.ints[i];
  }
  for (int i = 0; i < n; i++) {
    if (order[i] >= 0) continue;
    while (moved >> at & 1) at++;
    order[i] = at++;
  }
  mt_return(c, MT_DO(c, "permute", arg[0], mt_ints(order, n)));
}

/* ---- dims of size one ---- */

static int view_squeeze(mt_call *c) {
  const mt_view *v = c->inv[0];
  mt_spec *s = &c->out[0];
  const mt_value *dims = &c->arg[1];
  unsigned mask = mt_given(dims) ? 0 : ~0u;
  if (mt_given(dims))
    for (int i = 0; i < dims->n; i++) mask |= 1u << dims->u.ints[i];
  s->ndim = 0;
  s->strided = true;
  for (int d = 0; d < v->ndim; d++) {
    if (v->size[d] == 1 && (mask >> d & 1)) continue;
    s->size[s->ndim] = v->size[d];
    s->stride[s->ndim++] = v->stride[d];
  }
  return MT_OK;
}

static int view_unsqueeze(mt_call *c) {
  const mt_view *v = c->inv[0];
  mt_spec *s = &c->out[0];
  int at = (int)mt_ci(c, 1), n = 0;
  if (v->ndim == MT_MAX_DIM)
    return mt_fail(c->rt, MT_ERROR, "a tensor has at most %d dims", MT_MAX_DIM);
  s->strided = true;
  for (int d = 0; d <= v->ndim; d++) {
    if (d == at) {
      s->size[n] = 1;
      s->stride[n++] = d < v->ndim ? v->size[d] * v->stride[d] : 1;
    }
    if (d == v->ndim) break;
    s->size[n] = v->size[d];
    s->stride[n++] = v->stride[d];
  }
  s->ndim = n;
  return MT_OK;
}

/* ---- broadcasting ---- */

static int view_expand(mt_call *c) {
  const mt_view *v = c->inv[0];
  mt_spec *s = &c->out[0];
  int64_t size[MT_MAX_DIM];
  int n, status = mt_arg_list(c, 1, size, &n);
  if (status) return status;
  int lead = n - v->ndim;
  bool fits = lead >= 0;
  for (int d = 0; d < n && fits; d++) {
    int from = d - lead;
    if (size[d] == -1 && from >= 0) size[d] = v->size[from];
    fits = size[d] >= 0 && (from < 0 || v->size[from] == size[d] || v->size[from] == 1);
    s->size[d] = size[d];
    s->stride[d] = from >= 0 && v->size[from] == size[d] ? v->stride[from] : 0;
  }
  s->ndim = n;
  s->strided = true;
  if (!fits || mt_shape_numel(n, size) < 0)
    return mt_fail(c->rt, MT_ERROR, "%s does not expand to %s", mt_tensor_str(c->in[0]),
                   mt_shape_str(c->rt, n, size));
  return MT_OK;
}

static void compose_expand_as(mt_ctx *c, const mt_value *arg) {
  const moth_tensor *o = arg[1].u.t;
  mt_return(c, MT_DO(c, "expand", arg[0], mt_ints(o->v.size, o->v.ndim)));
}

static void compose_broadcast_to(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "expand", arg[0], arg[1]));
}

static void compose_broadcast_tensors(mt_ctx *c, const mt_value *arg) {
  const mt_view *v[64];
  mt_spec s;
  int n = arg[0].n;
  if (n < 1 || n > 64) {
    mt_ctx_fail(c, "expected 1 to 64 tensors, got %d", n);
    return;
  }
  for (int i = 0; i < n; i++) v[i] = &arg[0].u.tensors[i]->v;
  c->status = mt_shape_broadcast(c->rt, &s, n, v);
  for (int i = 0; i < n; i++)
    mt_return(c, MT_DO(c, "expand", mt_t(arg[0].u.tensors[i]), mt_ints(s.size, s.ndim)));
}

/* ---- parts ---- */

static int no_dims(mt_call *c) {
  return mt_fail(c->rt, MT_ERROR, "a 0-d tensor has no dims to take a part of");
}

static int view_select(mt_call *c) {
  const mt_view *v = c->inv[0];
  mt_spec *s = &c->out[0];
  int dim = (int)mt_ci(c, 1);
  int64_t pos;
  if (v->ndim == 0) return no_dims(c);
  int status = mt_shape_pos(c->rt, &pos, "index", mt_ci(c, 2), v->size[dim]);
  if (status) return status;
  s->ndim = 0;
  s->strided = true;
  s->offset = pos * v->stride[dim];
  for (int d = 0; d < v->ndim; d++) {
    if (d == dim) continue;
    s->size[s->ndim] = v->size[d];
    s->stride[s->ndim++] = v->stride[d];
  }
  return MT_OK;
}

static int view_narrow(mt_call *c) {
  const mt_view *v = c->inv[0];
  int dim = (int)mt_ci(c, 1);
  int64_t start = mt_ci(c, 2), length = mt_ci(c, 3);
  if (v->ndim == 0) return no_dims(c);
  int64_t size = v->size[dim];
  int base = mt_base(c->rt);
  if (start < 0) start += size;
  if (length < 0 || start < 0 || start > size || length > size - start)
    return mt_fail(c->rt, MT_ERROR,
                   "%lld elements from position %lld do not fit a dim of size %lld",
                   (long long)length, (long long)(start + base), (long long)size);
  strided(&c->out[0], v);
  c->out[0].size[dim] = length;
  c->out[0].offset = length ? start * v->stride[dim] : 0;
  return MT_OK;
}

/* Bounds beyond the ends are clamped, as in PyTorch; an empty range gives size 0. */
static int view_slice(mt_call *c) {
  const mt_view *v = c->inv[0];
  int dim = (int)mt_ci(c, 1);
  if (v->ndim == 0) return no_dims(c);
  int64_t size = v->size[dim], step = mt_ci(c, 4), a = mt_ci(c, 2), z = mt_ci(c, 3);
  if (step < 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'step': expected a positive step, got %lld",
                   (long long)step);
  if (a < 0) a = a + size < 0 ? 0 : a + size;
  if (z < 0) z += size;
  if (z > size) z = size;
  int64_t n = z > a ? (z - a + step - 1) / step : 0;
  strided(&c->out[0], v);
  c->out[0].size[dim] = n;
  c->out[0].stride[dim] *= step;
  c->out[0].offset = n ? a * v->stride[dim] : 0;
  return MT_OK;
}

static int view_diagonal(mt_call *c) {
  const mt_view *v = c->inv[0];
  mt_spec *s = &c->out[0];
  int a = (int)mt_ci(c, 2), b = (int)mt_ci(c, 3);
  int64_t off = mt_ci(c, 1);
  if (v->ndim < 2 || a == b)
    return mt_fail(c->rt, MT_ERROR, "needs two different dims of a tensor, got %s",
                   mt_tensor_str(c->in[0]));
  int64_t rows = v->size[a] + (off < 0 ? off : 0), cols = v->size[b] - (off > 0 ? off : 0);
  int64_t n = rows < cols ? rows : cols;
  if (n < 0) n = 0;
  s->ndim = 0;
  s->strided = true;
  s->offset = n ? (off < 0 ? -off * v->stride[a] : off * v->stride[b]) : 0;
  for (int d = 0; d < v->ndim; d++) {
    if (d == a || d == b) continue;
    s->size[s->ndim] = v->size[d];
    s->stride[s->ndim++] = v->stride[d];
  }
  s->size[s->ndim] = n;
  s->stride[s->ndim++] = v->stride[a] + v->stride[b];
  return MT_OK;
}

static int view_unfold(mt_call *c) {
  const mt_view *v = c->inv[0];
  int dim = (int)mt_ci(c, 1), n = v->ndim;
  int64_t window = mt_ci(c, 2), step = mt_ci(c, 3), size = n ? v->size[dim] : 1;
  if (window < 0 || window > size || step < 1 || n == MT_MAX_DIM)
    return mt_fail(c->rt, MT_ERROR,
                   "windows of %lld elements every %lld do not fit a dim of size %lld",
                   (long long)window, (long long)step, (long long)size);
  strided(&c->out[0], v);
  mt_spec *s = &c->out[0];
  s->ndim = n + 1;
  s->size[n] = window;
  s->stride[n] = n ? v->stride[dim] : 1;
  if (n) {
    s->size[dim] = (size - window) / step + 1;
    s->stride[dim] *= step;
  } else {
    s->ndim = 1;
  }
  return MT_OK;
}

/* Zeros like the input, into whose same part the gradient is written. */
static void back_part(mt_back *b) {
  mt_value arg[MT_MAX_ARGS];
  moth_tensor *whole = mt_zeros_meta(b, 0);
  memcpy(arg, b->arg, sizeof(mt_value) * (size_t)b->narg);
  arg[0] = mt_t(whole);
  if (!whole) return;
  moth_tensor *part = mt_do(b->c, b->op->name, b->narg, arg);
  MT_DO(b->c, "copy_", mt_t(part), mt_t(b->g[0]));
  mt_grad(b, 0, whole);
}

/* Windows overlap: their gradients add up. */
static void back_unfold(mt_back *b) {
  const mt_meta *m = &b->meta[0];
  int64_t stride[MT_MAX_DIM + 1], size[MT_MAX_DIM + 1];
  int dim = (int)b->arg[1].u.i, n = m->ndim;
  if (n == 0) {
    mt_back_reshape(b);
    return;
  }
  mt_shape_contiguous(n, m->size, stride);
  memcpy(size, b->g[0]->v.size, sizeof(int64_t) * (size_t)(n + 1));
  stride[n] = stride[dim];
  stride[dim] *= b->arg[3].u.i;
  moth_tensor *flat =
      MT_DO(b->c, "_as_strided_add", mt_t(b->g[0]), mt_ints(stride, n + 1), mt_i(0),
            mt_i(mt_shape_numel(n, m->size)));
  mt_grad(b, 0, MT_DO(b->c, "view", mt_t(flat), mt_meta_size(b, 0)));
}

/* ---- the graph ends here ---- */

static int view_detach(mt_call *c) {
  strided(&c->out[0], c->inv[0]);
  return MT_OK;
}

#define VIEW_TYPES {MT_ALL, MT_FIRST, MT_COMMON}

static const mt_op ops[] = {
    {.schema = "view(tensor self, size size) -> tensor",
     .help = "The same elements with another shape; one size may be -1. Raises when the strides do "
             "not allow it.",
     .types = VIEW_TYPES, .view = view_view, .backward = mt_back_reshape, .onnx = "Reshape:13",
     .sample = "{2,3}; {3,2}", .flags = MT_METHOD},
    {.schema = "reshape(tensor self, size shape) -> tensor",
     .help = "The same elements with another shape; a view when the strides allow it, else a copy.",
     .types = VIEW_TYPES, .compose = compose_reshape, .sample = "{2,3}; {6}", .flags = MT_METHOD},
    {.schema = "view_as(tensor self, tensor other) -> tensor",
     .help = "The elements of self with the shape of other.",
     .types = VIEW_TYPES, .compose = compose_like, .flags = MT_METHOD},
    {.schema = "reshape_as(tensor self, tensor other) -> tensor",
     .help = "The elements of self with the shape of other.",
     .types = VIEW_TYPES, .compose = compose_like, .flags = MT_METHOD},
    {.schema = "flatten(tensor self, dim start_dim=0, dim end_dim=-1) -> tensor",
     .help = "Merges the dims from start_dim to end_dim into one.",
     .types = VIEW_TYPES, .compose = compose_flatten, .onnx = "Flatten:13", .sample = "{2,3,2}",
     .flags = MT_METHOD},
    {.schema = "ravel(tensor self) -> tensor", .help = "All elements in one dim.",
     .types = VIEW_TYPES, .compose = compose_ravel, .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "unflatten(tensor self, dim dim, size sizes) -> tensor",
     .help = "Splits one dim into several.", .types = VIEW_TYPES, .compose = compose_unflatten,
     .sample = "{6}; 1; {2,3}", .flags = MT_METHOD},
    {.schema = "transpose(tensor self, dim dim0, dim dim1) -> tensor",
     .help = "Swaps two dims; a view.", .types = VIEW_TYPES, .view = view_transpose,
     .backward = back_transpose, .onnx = "Transpose:13", .sample = "{2,3}; 1; 2",
     .flags = MT_METHOD},
    {.schema = "swapaxes(tensor self, dim axis0, dim axis1) -> tensor",
     .help = "Swaps two dims; a view.", .types = VIEW_TYPES, .view = view_transpose,
     .backward = back_transpose, .sample = "{2,3}; 1; 2", .flags = MT_METHOD},
    {.schema = "t(tensor self) -> tensor", .help = "The transpose of a matrix; a view.",
     .types = VIEW_TYPES, .view = view_t, .backward = back_t, .onnx = "Transpose:13",
     .sample = "{2,3}", .flags = MT_METHOD},
    {.schema = "mT(tensor self) -> tensor", .help = "Swaps the last two dims; a view.",
     .types = VIEW_TYPES, .view = view_mT, .backward = back_t, .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "permute(tensor self, dim[] dims) -> tensor",
     .help = "Reorders the dims; a view.", .types = VIEW_TYPES, .view = view_permute,
     .backward = back_permute, .onnx = "Transpose:13", .sample = "{2,3,2}; {3,1,2}",
     .flags = MT_METHOD},
    {.schema = "movedim(tensor self, dim[] source, dim[] destination) -> tensor",
     .help = "Moves dims to other places; a view.", .types = VIEW_TYPES,
     .compose = compose_movedim, .sample = "{2,3,2}; {1}; {3}", .flags = MT_METHOD},
    {.schema = "squeeze(tensor self, dim[]? dim=nil) -> tensor",
     .help = "Drops dims of size one, all or those given; a view.", .types = VIEW_TYPES,
     .view = view_squeeze, .backward = mt_back_reshape, .onnx = "Squeeze:13",
     .sample = "{2,1,3}", .flags = MT_METHOD},
    {.schema = "unsqueeze(tensor self, newdim dim) -> tensor",
     .help = "Adds a dim of size one; a view.", .types = VIEW_TYPES, .view = view_unsqueeze,
     .backward = mt_back_reshape, .onnx = "Unsqueeze:13", .sample = "{2,3}; 2",
     .flags = MT_METHOD},
    {.schema = "expand(tensor self, size size) -> tensor",
     .help = "Repeats dims of size one without copying; -1 keeps a size; a view.",
     .types = VIEW_TYPES, .view = view_expand, .backward = mt_back_pass, .onnx = "Expand:13",
     .sample = "{2,1}; {2,3}", .flags = MT_METHOD},
    {.schema = "expand_as(tensor self, tensor other) -> tensor",
     .help = "Expands self to the shape of other.", .types = VIEW_TYPES,
     .compose = compose_expand_as, .flags = MT_METHOD},
    {.schema = "broadcast_to(tensor self, size size) -> tensor",
     .help = "Expands self to a shape.", .types = VIEW_TYPES, .compose = compose_broadcast_to,
     .sample = "{2,1}; {2,3}", .flags = MT_METHOD},
    {.schema = "broadcast_tensors(tensor[] tensors) -> tensor[]",
     .help = "Expands all tensors to their common shape.", .types = VIEW_TYPES,
     .compose = compose_broadcast_tensors},
    {.schema = "select(tensor self, dim dim, pos index) -> tensor",
     .help = "The part at one position of a dim; a view without that dim.", .types = VIEW_TYPES,
     .view = view_select, .backward = back_part, .onnx = "Gather:13", .sample = "{2,3}; 2; 2",
     .flags = MT_METHOD},
    {.schema = "narrow(tensor self, dim dim, pos start, int length) -> tensor",
     .help = "`length` positions of a dim from `start` on; a view.", .types = VIEW_TYPES,
     .view = view_narrow, .backward = back_part, .onnx = "Slice:13", .sample = "{4,3}; 1; 2; 2",
     .flags = MT_METHOD},
    {.schema = "_slice(tensor self, dim dim, int first, int past, int step=1) -> tensor",
     .help = "Positions first, first+step ... before past (0-based); a view.",
     .types = VIEW_TYPES, .view = view_slice, .backward = back_part, .onnx = "Slice:13",
     .flags = MT_HIDDEN},
    {.schema = "diagonal(tensor self, int offset=0, dim dim1=0, dim dim2=1) -> tensor",
     .help = "The diagonal of two dims as a last dim; a view.", .types = VIEW_TYPES,
     .view = view_diagonal, .backward = back_part, .sample = "{3,3}", .flags = MT_METHOD},
    {.schema = "unfold(tensor self, dim dimension, int size, int step) -> tensor",
     .help = "Windows of `size` elements every `step` along a dim, as a last dim; a view.",
     .types = VIEW_TYPES, .view = view_unfold, .backward = back_unfold,
     .sample = "{5}; 1; 3; 1", .flags = MT_METHOD},
    {.schema = "detach(tensor self) -> tensor",
     .help = "The same storage without graph; writes to it count for both.", .types = VIEW_TYPES,
     .view = view_detach, .flags = MT_METHOD | MT_NOGRAD},
};
MT_FAMILY(view, ops);
