/* scatter.c - writing at positions: scatter and its reductions, index_add and its relatives,
 * index_put, put, parts replaced.
 *
 * Sums over repeated positions are done in the order of the index by one thread per line, so they
 * are the same for any thread count. */
#include <string.h>

#include "positions.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define SAME \
  { MT_ALL, MT_EQUAL, MT_COMMON }
#define G b->g[0]
#define FORM (MT_METHOD | MT_INPLACE)

static int like_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  c->out[0].strided = false;
  return MT_OK;
}

static int64_t size_at(const mt_view *v, int d) { return v->ndim ? v->size[d] : 1; }

/* ---- scatter ---- */

/* index: not longer than src anywhere, nor than self but along dim. */
static int shape_scatter(mt_call *c) {
  const mt_view *x = c->inv[0], *index = c->inv[1], *src = c->in[2] ? c->inv[2] : NULL;
  int dim = (int)mt_ci(c, 1), n = x->ndim ? x->ndim : 1;
  bool fits = (index->ndim ? index->ndim : 1) == n;
  if (src && src->ndim == 0 && x->ndim > 0 && index->numel != 0) fits = false;
  for (int d = 0; fits && d < n; d++) {
    int64_t i = size_at(index, d);
    fits = (d == dim || i <= size_at(x, d)) && (!src || i <= size_at(src, d));
  }
  if (src && src->ndim != x->ndim && (src->ndim ? src->ndim : 1) != n) fits = false;
  if (!fits && index->numel != 0)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'index': shape %s does not fit self of shape %s and src of shape %s",
                   mt_shape_str(c->rt, index->ndim, index->size),
                   mt_shape_str(c->rt, x->ndim, x->size),
                   src ? mt_shape_str(c->rt, src->ndim, src->size) : "any");
  return like_self(c);
}

static moth_tensor *gathered(mt_back *b, moth_tensor *t) {
  return MT_DO(b->c, "gather", mt_t(t), b->arg[1], b->arg[2]);
}

/* The gradient of src: read where it was written. src may be larger than the index. */
static void grad_src(mt_back *b, moth_tensor *g) {
  const mt_meta *m = &b->meta[2];
  if (!g) return;
  if (m->ndim == g->v.ndim && memcmp(m->size, g->v.size, sizeof(int64_t) * (size_t)m->ndim) != 0) {
    moth_tensor *whole = mt_zeros_meta(b, 2), *part = whole;
    for (int d = 0; d < m->ndim && part; d++)
      part = MT_DO(b->c, "narrow", mt_t(part), mt_i(d), mt_i(0), mt_i(g->v.size[d]));
    MT_DO(b->c, "copy_", mt_t(part), mt_t(g));
    g = whole;
  }
  mt_grad(b, 2, g);
}

static moth_tensor *blanked(mt_back *b, moth_tensor *t) {
  return MT_DO(b->c, "scatter", mt_t(t), b->arg[1], b->arg[2], mt_i(0));
}

static void back_scatter(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, blanked(b, G));
  if (b->need[2]) grad_src(b, gathered(b, G));
}

static void back_scatter_add(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, G);
  if (b->need[2]) grad_src(b, gathered(b, G));
}

/* ---- scatter_reduce ---- */

static int shape_reduce(mt_call *c) {
  static const char *const names[] = {"sum", "prod", "amax", "amin"};
  for (int i = 0; i < 4; i++)
    if (strcmp(c->arg[4].u.s, names[i]) == 0) return shape_scatter(c);
  return mt_fail(c->rt, MT_ERROR,
                 "argument 'reduce': expected sum, prod, mean, amax or amin, got '%s'",
                 c->arg[4].u.s);
}

/* src cut to the shape of the index. */
static moth_tensor *used_src(mt_back *b) {
  moth_tensor *s = b->in[2], *index = b->in[1];
  for (int d = 0; s && d < index->v.ndim; d++)
    if (s->v.size[d] != index->v.size[d])
      s = MT_DO(b->c, "narrow", mt_t(s), mt_i(d), mt_i(0), mt_i(index->v.size[d]));
  return s;
}

static moth_tensor *reduce_again(mt_back *b, moth_tensor *self, moth_tensor *src) {
  return MT_DO(b->c, "_scatter_reduce", mt_t(self), b->arg[1], b->arg[2], mt_t(src), b->arg[4],
               b->arg[5]);
}

static moth_tensor *fill_where(mt_ctx *c, moth_tensor *mask, double v, moth_tensor *t) {
  return MT_DO(c, "where", mt_t(mask), mt_f(v), mt_t(t));
}

/* The product of the others, also where factors are 0. */
static void back_prod(mt_back *b, moth_tensor *src) {
  mt_ctx *c = b->c;
  moth_tensor *self = b->in[0];
  if (b->need[0]) {
    moth_tensor *safe = fill_where(c, mt_ops(c, "eq", self, 0), 1, self);
    moth_tensor *rest = mt_op2(c, "div", reduce_again(b, safe, src), safe);
    moth_tensor *g = mt_op2(c, "mul", G, rest);
    mt_grad(b, 0, b->arg[5].u.i ? g : blanked(b, g));
  }
  if (!b->need[2]) return;
  moth_tensor *zero = mt_ops(c, "eq", src, 0), *as_number = mt_op2(c, "type_as", zero, src);
  moth_tensor *none = mt_op1(c, "zeros_like", self);
  moth_tensor *count =
      gathered(b, MT_DO(c, "scatter_add", mt_t(none), b->arg[1], b->arg[2], mt_t(as_number)));
  moth_tensor *single = mt_op2(c, "logical_and", zero, mt_ops(c, "eq", count, 1));
  moth_tensor *others = reduce_again(b, self, fill_where(c, single, 1, src));
  moth_tensor *plain =
      mt_op2(c, "div", gathered(b, mt_op2(c, "mul", G, b->out[0])), fill_where(c, zero, 1, src));
  grad_src(b, MT_DO(c, "where", mt_t(single), mt_t(gathered(b, mt_op2(c, "mul", G, others))),
                    mt_t(plain)));
}

/* All that equal the result share. */
static void back_extreme(mt_back *b, moth_tensor *src) {
  mt_ctx *c = b->c;
  moth_tensor *self = mt_op2(c, "type_as", mt_op2(c, "eq", b->in[0], b->out[0]), G);
  moth_tensor *from = mt_op2(c, "type_as", mt_op2(c, "eq", src, gathered(b, b->out[0])), G);
  if (!b->arg[5].u.i) self = blanked(b, self);
  moth_tensor *n = MT_DO(c, "scatter_add", mt_t(self), b->arg[1], b->arg[2], mt_t(from));
  moth_tensor *share = mt_op2(c, "div", G, MT_DO(c, "clamp", mt_t(n), mt_i(1)));
  /* A place that nothing reached keeps self, whose comparison was blanked only where reached. */
  if (b->need[0]) mt_grad(b, 0, mt_op2(c, "mul", self, share));
  if (b->need[2]) grad_src(b, mt_op2(c, "mul", from, gathered(b, share)));
}

static void back_scatter_reduce(mt_back *b) {
  const char *how = b->arg[4].u.s;
  if (strcmp(how, "sum") == 0) {
    if (b->need[0]) mt_grad(b, 0, b->arg[5].u.i ? G : blanked(b, G));
    if (b->need[2]) grad_src(b, gathered(b, G));
  } else if (strcmp(how, "prod") == 0) {
    back_prod(b, used_src(b));
  } else {
    back_extreme(b, used_src(b));
  }
}

/* Half sums would overflow before they are divided. */
static void compose_mean(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *src = arg[3].u.t;
  mt_dtype d = (mt_dtype)x->v.dtype;
  bool half = d == MT_F16 || d == MT_BF16, self = arg[5].u.i != 0;
  if (half) {
    x = MT_DO(c, "to", mt_t(x), mt_i(MT_F32));
    src = MT_DO(c, "to", mt_t(src), mt_i(MT_F32));
  }
  moth_tensor *sum =
      MT_DO(c, "_scatter_reduce", mt_t(x), arg[1], arg[2], mt_t(src), mt_s("sum"), arg[5]);
  moth_tensor *n = MT_DO(c, self ? "ones_like" : "zeros_like", mt_t(x), mt_i(MT_I64));
  moth_tensor *one = MT_DO(c, "ones_like", mt_t(src), mt_i(MT_I64));
  n = MT_DO(c, "scatter_add", mt_t(n), arg[1], arg[2], mt_t(one));
  n = MT_DO(c, "clamp", mt_t(n), mt_i(1));
  bool whole = mt_dtype_category(d) <= MT_CAT_INT;
  moth_tensor *y = whole ? mt_op2(c, "floor_divide", sum, mt_op2(c, "type_as", n, x))
                         : mt_op2(c, "div", sum, mt_op2(c, "type_as", n, sum));
  mt_return(c, half ? MT_DO(c, "to", mt_t(y), mt_i(d)) : y);
}

static void compose_scatter_reduce(mt_ctx *c, const mt_value *arg) {
  if (strcmp(arg[4].u.s, "mean") == 0)
    compose_mean(c, arg);
  else
    mt_return(c, mt_do(c, "_scatter_reduce", 6, arg));
}

/* ---- a 1-d index along one dim ---- */

static int shape_index_dim(mt_call *c) {
  const mt_view *x = c->inv[0], *index = c->inv[1], *src = c->in[2] ? c->inv[2] : NULL;
  int dim = (int)mt_ci(c, 1);
  if (index->ndim > 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'index': expected at most 1 dim, got %s",
                   mt_tensor_str(c->in[1]));
  bool fits = !src || src->ndim == x->ndim || (src->ndim == 0 && x->ndim == 1);
  for (int d = 0; src && fits && d < src->ndim; d++)
    fits = src->size[d] == (d == dim ? index->numel : x->size[d]);
  if (src && src->ndim == 0 && index->numel != 1) fits = false;
  if (!fits)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'source': shape %s does not fit self of shape %s with %lld positions "
                   "along dim %d",
                   mt_shape_str(c->rt, src->ndim, src->size), mt_shape_str(c->rt, x->ndim, x->size),
                   (long long)index->numel, dim + mt_base(c->rt));
  return like_self(c);
}

static int shape_index_fill(mt_call *c) {
  if (c->in[2] && c->inv[2]->ndim != 0)
    return mt_fail(c->rt, MT_ERROR, "argument 'value': expected a number or a 0-d tensor, got %s",
                   mt_tensor_str(c->in[2]));
  if (c->inv[1]->ndim > 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'index': expected at most 1 dim, got %s",
                   mt_tensor_str(c->in[1]));
  return like_self(c);
}

static moth_tensor *selected(mt_back *b) {
  moth_tensor *s = MT_DO(b->c, "index_select", mt_t(G), b->arg[1], b->arg[2]);
  return s && s->v.ndim != b->meta[2].ndim ? MT_DO(b->c, "reshape", mt_t(s), mt_meta_size(b, 2))
                                           : s;
}

static moth_tensor *zero_rows(mt_back *b) {
  return MT_DO(b->c, "index_fill", mt_t(G), b->arg[1], b->arg[2], mt_i(0));
}

static void compose_index_add(mt_ctx *c, const mt_value *arg) {
  moth_tensor *src = arg[3].u.t;
  if (mt_argf(&arg[4]) != 1) src = MT_DO(c, "mul", arg[3], arg[4]);
  mt_return(c, MT_DO(c, "_index_add", arg[0], arg[1], arg[2], mt_t(src)));
}

static void back_index_add(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, G);
  if (b->need[2]) mt_grad(b, 2, selected(b));
}

static void back_index_copy(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, zero_rows(b));
  if (b->need[2]) mt_grad(b, 2, selected(b));
}

static void back_index_fill(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, zero_rows(b));
  if (b->need[2])
    mt_grad(b, 2, mt_op1(b->c, "sum", MT_DO(b->c, "index_select", mt_t(G), b->arg[1], b->arg[2])));
}

/* ---- x[i, j, ..] = v ---- */

static int shape_index_put(mt_call *c) {
  mt_spec place;
  int status = mt_shape_indexed(c, &place, 1, &c->arg[3]);
  if (status) return status;
  const mt_view *v = c->inv[c->nin - 1];
  if (!mt_shape_expands(v, place.ndim, place.size))
    return mt_fail(c->rt, MT_ERROR, "values of shape %s do not fit a place of shape %s",
                   mt_shape_str(c->rt, v->ndim, v->size),
                   mt_shape_str(c->rt, place.ndim, place.size));
  return like_self(c);
}

static void back_index_put(mt_back *b) {
  mt_ctx *c = b->c;
  int v = b->nin - 1;
  if (b->need[0])
    mt_grad(b, 0,
            b->arg[4].u.i
                ? G
                : MT_DO(c, "_index_put", mt_t(G), b->arg[1], mt_i(0), b->arg[3], mt_b(false)));
  if (b->need[v]) mt_grad(b, v, MT_DO(c, "index", mt_t(G), b->arg[1], b->arg[3]));
}

/* index_put(self, indices, values): the indices address the leading dims; a mask stands for as many
 * as it has. */
static void compose_index_put(mt_ctx *c, const mt_value *arg) {
  moth_tensor *const *t = arg[1].kind == MT_TENSOR ? &arg[1].u.t : arg[1].u.tensors;
  moth_tensor *index[MT_MAX_DIM];
  int64_t dims[MT_MAX_DIM];
  int n = 0, given = arg[1].kind == MT_TENSOR ? 1 : arg[1].n;
  for (int i = 0; i < given && !c->status; i++) {
    bool mask = t[i]->v.dtype == MT_BOOL;
    int covers = mask ? t[i]->v.ndim : 1;
    if (n + covers > arg[0].u.t->v.ndim) {
      mt_ctx_fail(c, "argument 'indices': more than the %d dims of self", arg[0].u.t->v.ndim);
      return;
    }
    moth_tensor *at = mask ? mt_op1(c, "nonzero", t[i]) : t[i];
    for (int d = 0; d < covers; d++) {
      dims[n] = n;
      index[n++] = mask ? MT_DO(c, "select", mt_t(at), mt_i(1), mt_i(d)) : at;
    }
  }
  mt_return(c, MT_DO(c, "_index_put", arg[0], mt_ts(index, n), arg[2], mt_ints(dims, n), arg[3]));
}

static int shape_put(mt_call *c) {
  if (c->inv[1]->numel != c->inv[2]->numel)
    return mt_fail(c->rt, MT_ERROR, "%lld positions for %lld elements of source",
                   (long long)c->inv[1]->numel, (long long)c->inv[2]->numel);
  return like_self(c);
}

static void compose_put(mt_ctx *c, const mt_value *arg) {
  moth_tensor *src = arg[2].u.t, *index = arg[1].u.t;
  if (src->v.numel == index->v.numel)
    src = MT_DO(c, "reshape", arg[2], mt_ints(index->v.size, index->v.ndim));
  mt_return(c, MT_DO(c, "_put", arg[0], arg[1], mt_t(src), arg[3]));
}

static void back_put(mt_back *b) {
  mt_ctx *c = b->c;
  moth_tensor *g = b->need[0] && !b->arg[3].u.i ? MT_DO(c, "_put", mt_t(G), b->arg[1],
                                                        mt_t(mt_zeros_meta(b, 2)), mt_b(false))
                                                : G;
  if (b->need[0]) mt_grad(b, 0, g);
  if (b->need[2]) mt_grad(b, 2, MT_DO(c, "take", mt_t(G), b->arg[1]));
}

/* ---- a copy with a part replaced ---- */

static void replaced(mt_ctx *c, moth_tensor *whole, moth_tensor *part, mt_value src) {
  if (part && src.u.t &&
      (part->v.ndim != src.u.t->v.ndim ||
       memcmp(part->v.size, src.u.t->v.size, sizeof(int64_t) * (size_t)part->v.ndim) != 0))
    mt_ctx_fail(c, "argument 'src': shape %s does not fit a part of shape %s",
                mt_shape_str(c->rt, src.u.t->v.ndim, src.u.t->v.size),
                mt_shape_str(c->rt, part->v.ndim, part->v.size));
  MT_DO(c, "copy_", mt_t(part), src);
  mt_return(c, whole);
}

static void compose_select_scatter(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = mt_op1(c, "clone", arg[0].u.t);
  replaced(c, x, MT_DO(c, "select", mt_t(x), arg[2], arg[3]), arg[1]);
}

static void compose_slice_scatter(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = mt_op1(c, "clone", arg[0].u.t);
  int64_t n = size_at(&arg[0].u.t->v, (int)arg[2].u.i);
  int64_t first = mt_given(&arg[3]) ? arg[3].u.i : 0, last = mt_given(&arg[4]) ? arg[4].u.i : n - 1;
  if (first < 0) first += n;
  if (last < 0) last += n;
  replaced(c, x, MT_DO(c, "_slice", mt_t(x), arg[2], mt_i(first), mt_i(last + 1), arg[5]), arg[1]);
}

static void compose_diagonal_scatter(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = mt_op1(c, "clone", arg[0].u.t);
  replaced(c, x, MT_DO(c, "diagonal", mt_t(x), arg[2], arg[3], arg[4]), arg[1]);
}

static const mt_op ops[] = {
    {.schema = "scatter(tensor self, dim dim, index index, operand src) -> tensor",
     .help =
         "self with the elements of src (or a number) written to the positions that index names "
         "along dim.",
     .types = SAME,
     .shape = shape_scatter,
     MT_CPU_S(scatter),
     .backward = back_scatter,
     .save = MT_IN(1),
     .onnx = "ScatterElements:13",
     .sample = "{3,4}; 2; {3,1}i4; {3,1}",
     .flags = FORM},
    {.schema = "scatter_add(tensor self, dim dim, index index, tensor src) -> tensor",
     .help = "As scatter, but adds.",
     .types = SAME,
     .shape = shape_scatter,
     MT_CPU_S(scatter_add),
     .backward = back_scatter_add,
     .save = MT_IN(1),
     .sample = "{3,4}; 2; {3,2}i4; {3,2}",
     .flags = FORM},
    {.schema = "scatter_reduce(tensor self, dim dim, index index, tensor src, str reduce, *, bool "
               "include_self=true) -> tensor",
     .help = "As scatter, with all that meet combined by sum, prod, mean, amax or amin.",
     .types = SAME,
     .compose = compose_scatter_reduce,
     .sample = "{3,4}; 2; {3,2}i4; {3,2}; sum",
     .flags = FORM},
    {.schema = "_scatter_reduce(tensor self, dim dim, index index, tensor src, str reduce, bool "
               "include_self) -> tensor",
     .help = "scatter_reduce without mean.",
     .types = SAME,
     .shape = shape_reduce,
     MT_CPU_S(scatter_reduce),
     .backward = back_scatter_reduce,
     .save = MT_IN(0) | MT_IN(1) | MT_IN(2) | MT_OUT(0),
     .flags = MT_HIDDEN},
    {.schema = "index_add(tensor self, dim dim, index index, tensor source, *, number alpha=1) -> "
               "tensor",
     .help = "self with alpha times the parts of source added at positions along dim.",
     .types = SAME,
     .compose = compose_index_add,
     .sample = "{3,4}; 1; {2}i3; {2,4}",
     .flags = FORM},
    {.schema = "_index_add(tensor self, dim dim, index index, tensor source) -> tensor",
     .help = "index_add with alpha 1.",
     .types = SAME,
     .shape = shape_index_dim,
     MT_CPU_S(index_add),
     .backward = back_index_add,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "index_copy(tensor self, dim dim, index index, tensor source) -> tensor",
     .help = "self with the parts of source written at positions along dim.",
     .types = SAME,
     .shape = shape_index_dim,
     MT_CPU_S(index_copy),
     .backward = back_index_copy,
     .save = MT_IN(1),
     .sample = "{3,4}; 1; {2}i3; {2,4}",
     .flags = FORM},
    {.schema = "index_fill(tensor self, dim dim, index index, operand value) -> tensor",
     .help = "self with a number at positions along dim.",
     .types = ANY,
     .shape = shape_index_fill,
     MT_CPU_S(index_fill),
     .backward = back_index_fill,
     .save = MT_IN(1),
     .sample = "{3,4}; 1; {2}i3; 0.5",
     .flags = FORM},
    {.schema = "_index_put(tensor self, tensor[] indices, operand values, int[] dims, bool "
               "accumulate=false) -> tensor",
     .help = "self with values written (or added) where index(self, indices, dims) reads.",
     .types = ANY,
     .shape = shape_index_put,
     MT_CPU_S(index_put),
     .backward = back_index_put,
     .save = MT_IN(1),
     .flags = MT_HIDDEN | MT_INPLACE},
    {.schema = "index_put(tensor self, tensor[] indices, operand values, bool accumulate=false) -> "
               "tensor",
     .help = "self with values written (or added) at positions (or masks) of its leading dims.",
     .types = ANY,
     .compose = compose_index_put,
     .sample = "{3,2}; [{2}i3]; {2,2}; true",
     .flags = FORM},
    {.schema = "put(tensor self, index index, tensor source, bool accumulate=false) -> tensor",
     .help = "self with elements written (or added) at positions in self flattened.",
     .types = SAME,
     .compose = compose_put,
     .sample = "{2,3}; {2}i6; {2}",
     .flags = FORM},
    {.schema = "_put(tensor self, index index, tensor source, bool accumulate) -> tensor",
     .help = "put with source of the shape of index.",
     .types = SAME,
     .shape = shape_put,
     MT_CPU_S(put),
     .backward = back_put,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "select_scatter(tensor self, tensor src, dim dim, pos index) -> tensor",
     .help = "A copy of self with src at one position of dim.",
     .types = SAME,
     .compose = compose_select_scatter,
     .sample = "{3,4}; {4}; 1; 2",
     .flags = MT_METHOD},
    {.schema = "slice_scatter(tensor self, tensor src, dim dim=0, pos? first=nil, pos? last=nil, "
               "int step=1) -> tensor",
     .help = "A copy of self with src at positions first to last of dim.",
     .types = SAME,
     .compose = compose_slice_scatter,
     .sample = "{3,4}; {2,4}; 1; 1; 2",
     .flags = MT_METHOD},
    {.schema = "diagonal_scatter(tensor self, tensor src, int offset=0, dim dim1=0, dim dim2=1) -> "
               "tensor",
     .help = "A copy of self with src on the diagonal.",
     .types = SAME,
     .compose = compose_diagonal_scatter,
     .sample = "{3,3}; {3}",
     .flags = MT_METHOD},
};
MT_FAMILY(scatter, ops);
