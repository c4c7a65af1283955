/* index.c - reading at positions: gather, index_select, take, advanced indexing, one_hot.
 *
 * Kernels check every position before they read; messages name position, value and range. The
 * gradient of reading is adding at the same positions, whose gradient is reading again. */
#include <string.h>

#include "positions.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define G b->g[0]

/* ---- along one dim ---- */

static int64_t size_at(const mt_view *v, int d) { return v->ndim ? v->size[d] : 1; }

static int shape_gather(mt_call *c) {
  const mt_view *x = c->inv[0], *index = c->inv[1];
  int dim = (int)mt_ci(c, 1);
  int nx = x->ndim ? x->ndim : 1, ni = index->ndim ? index->ndim : 1;
  bool fits = nx == ni;
  for (int d = 0; fits && d < ni; d++) fits = d == dim || size_at(index, d) <= size_at(x, d);
  if (!fits)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'index': shape %s does not fit self of shape %s: it needs as many "
                   "dims, none longer but dim %d",
                   mt_shape_str(c->rt, index->ndim, index->size),
                   mt_shape_str(c->rt, x->ndim, x->size), dim + mt_base(c->rt));
  mt_spec_set(&c->out[0], index->ndim, index->size);
  return MT_OK;
}

static void back_gather(mt_back *b) {
  mt_grad(b, 0,
          MT_DO(b->c, "scatter_add", mt_t(mt_zeros_meta(b, 0)), b->arg[1], b->arg[2], mt_t(G)));
}

static int shape_index_select(mt_call *c) {
  const mt_view *x = c->inv[0], *index = c->inv[1];
  mt_spec *s = &c->out[0];
  if (index->ndim > 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'index': expected at most 1 dim, got %s",
                   mt_tensor_str(c->in[1]));
  mt_spec_like(s, x);
  s->strided = false;
  if (x->ndim) s->size[mt_ci(c, 1)] = index->numel;
  if (x->ndim == 0 && index->numel != 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'index': a 0-d tensor has one element to select");
  return MT_OK;
}

static void back_index_select(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "index_add", mt_t(mt_zeros_meta(b, 0)), b->arg[1], b->arg[2], mt_t(G)));
}

static int shape_take(mt_call *c) {
  mt_spec_set(&c->out[0], c->inv[1]->ndim, c->inv[1]->size);
  return MT_OK;
}

static void back_take(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "put", mt_t(mt_zeros_meta(b, 0)), b->arg[1], mt_t(G), mt_b(true)));
}

/* take_along_dim(self, indices, dim): both broadcast on the other dims; no dim: flattened. */
static void compose_take_along_dim(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *index = arg[1].u.t;
  if (!mt_given(&arg[2])) {
    mt_return(c, MT_DO(c, "gather", mt_t(mt_op1(c, "ravel", x)), mt_i(0),
                       mt_t(mt_op1(c, "ravel", index))));
    return;
  }
  int n = x->v.ndim, dim = (int)arg[2].u.i;
  int64_t xs[MT_MAX_DIM], is[MT_MAX_DIM];
  if (n != index->v.ndim) {
    mt_ctx_fail(c, "self has %d dims, indices %d", n, index->v.ndim);
    return;
  }
  for (int d = 0; d < n; d++) {
    xs[d] = is[d] = x->v.size[d] == 1 ? index->v.size[d] : x->v.size[d];
    if (d != dim) continue;
    xs[d] = x->v.size[d];
    is[d] = index->v.size[d];
  }
  mt_return(c, MT_DO(c, "gather", mt_t(MT_DO(c, "expand", mt_t(x), mt_ints(xs, n))), arg[2],
                     mt_t(MT_DO(c, "expand", mt_t(index), mt_ints(is, n)))));
}

/* ---- x[i, j, ..] ---- */

int mt_shape_indexed(mt_call *c, mt_spec *s, int list, const mt_value *dims) {
  const mt_view *x = c->inv[0];
  int n = c->arg[list].kind == MT_TENSORS ? c->arg[list].n : 1, nfree = 0, last = -1;
  mt_spec block;
  bool together = true;
  if (n != dims->n || n > x->ndim)
    return mt_fail(c->rt, MT_ERROR, "%d indices for %d dims of %s", n, dims->n,
                   mt_tensor_str(c->in[0]));
  for (int i = 0; i < n; i++) {
    int64_t d = dims->u.ints[i];
    if (d <= last || d >= x->ndim)
      return mt_fail(c->rt, MT_ERROR, "argument 'dims': expected ascending dims of self");
    if (mt_dtype_category((mt_dtype)c->inv[1 + i]->dtype) != MT_CAT_INT)
      return mt_fail(c->rt, MT_ERROR, "argument 'indices': expected integer positions, got %s",
                     mt_tensor_str(c->in[1 + i]));
    together = together && (i == 0 || d == last + 1);
    last = (int)d;
  }
  int status = mt_shape_broadcast(c->rt, &block, n, c->inv + 1);
  if (status) return status;
  if (x->ndim - n + block.ndim > MT_MAX_DIM)
    return mt_fail(c->rt, MT_ERROR, "the result would have more than %d dims", MT_MAX_DIM);
  int64_t keep[MT_MAX_DIM];
  for (int d = 0, i = 0; d < x->ndim; d++) {
    if (i < n && dims->u.ints[i] == d)
      i++;
    else
      keep[nfree++] = x->size[d];
  }
  int at = together && n ? (int)dims->u.ints[0] : 0; /* kept dims in front of the block */
  s->ndim = nfree + block.ndim;
  s->strided = false;
  memcpy(s->size, keep, sizeof(int64_t) * (size_t)at);
  memcpy(s->size + at, block.size, sizeof(int64_t) * (size_t)block.ndim);
  memcpy(s->size + at + block.ndim, keep + at, sizeof(int64_t) * (size_t)(nfree - at));
  return MT_OK;
}

static int shape_index(mt_call *c) { return mt_shape_indexed(c, &c->out[0], 1, &c->arg[2]); }

static void back_index(mt_back *b) {
  mt_grad(b, 0,
          MT_DO(b->c, "_index_put", mt_t(mt_zeros_meta(b, 0)), b->arg[1], mt_t(G), b->arg[2],
                mt_b(true)));
}

/* ---- made of others ---- */

int64_t mt_largest_position(mt_ctx *c, moth_tensor *x) {
  int64_t i = -1;
  double f;
  if (c->status || !x || x->v.numel == 0) return -1;
  moth_tensor *m = mt_op1(c, "amax", x), *least = mt_op1(c, "amin", x);
  if (!m || !least) return -1;
  mt_tensor_item(least, &i, &f);
  if (i < c->index_base) {
    mt_ctx_fail(c, "found position %lld; positions start at %d", (long long)i, c->index_base);
    return -1;
  }
  mt_tensor_item(m, &i, &f);
  return i - c->index_base;
}

static void compose_one_hot(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int64_t size[MT_MAX_DIM], n = arg[1].u.i;
  if (n < 0) n = mt_largest_position(c, x) + 1;
  if (x->v.ndim == MT_MAX_DIM || (n == 0 && x->v.numel == 0 && arg[1].u.i < 0)) {
    mt_ctx_fail(c, "argument 'num_classes': cannot be found from %s", mt_tensor_str(x));
    return;
  }
  memcpy(size, x->v.size, sizeof size);
  size[x->v.ndim] = n;
  moth_tensor *zero = MT_DO(c, "zeros", mt_ints(size, x->v.ndim + 1), mt_i(MT_I64));
  moth_tensor *at = MT_DO(c, "unsqueeze", mt_t(x), mt_i(-1));
  mt_return(c, MT_DO(c, "scatter", mt_t(zero), mt_i(-1), mt_t(at), mt_i(1)));
}

static const mt_op ops[] = {
    {.schema = "gather(tensor self, dim dim, index index) -> tensor",
     .help = "The elements of self at the positions that index names along dim; the result has the "
             "shape of index.",
     .types = ANY,
     .shape = shape_gather,
     MT_CPU_S(gather),
     .backward = back_gather,
     .save = MT_IN(1),
     .onnx = "GatherElements:13",
     .sample = "{3,4}; 2; {3,2}i4",
     .flags = MT_METHOD},
    {.schema = "index_select(tensor self, dim dim, index index) -> tensor",
     .help = "The parts of self at the positions of a 1-d index along dim.",
     .types = ANY,
     .shape = shape_index_select,
     MT_CPU_S(index_select),
     .backward = back_index_select,
     .save = MT_IN(1),
     .onnx = "Gather:13",
     .sample = "{3,4}; 2; {5}i4",
     .flags = MT_METHOD},
    {.schema = "take(tensor self, index index) -> tensor",
     .help = "The elements at positions in self flattened; negative ones count from the end.",
     .types = ANY,
     .shape = shape_take,
     MT_CPU_S(take),
     .backward = back_take,
     .save = MT_IN(1),
     .sample = "{3,4}; {5}i9",
     .flags = MT_METHOD},
    {.schema = "take_along_dim(tensor self, index indices, dim? dim=nil) -> tensor",
     .help = "As gather, with shapes broadcast; without dim both are flattened.",
     .types = ANY,
     .compose = compose_take_along_dim,
     .sample = "{3,4}; {3,2}i4; 2",
     .flags = MT_METHOD},
    {.schema = "index(tensor self, tensor[] indices, int[] dims) -> tensor",
     .help = "x[{...}] with index tensors, broadcast together, for the dims listed (0-based, "
             "ascending).",
     .types = ANY,
     .shape = shape_index,
     MT_CPU_S(index),
     .backward = back_index,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "one_hot(index self, int num_classes=-1) -> tensor",
     .help = "int64 rows with a 1 at the position of each class; -1: as many classes as occur.",
     .types = ANY,
     .compose = compose_one_hot,
     .sample = "{4}i3; 3",
     .flags = MT_METHOD},
};
MT_FAMILY(index, ops);
