/* join.c - putting tensors together and taking them apart.
 *
 * cat is the only one that computes; splitting gives views. Views made by one operation share one
 * tensor, so writing to them while gradients are recorded raises. */
#include <string.h>

#include "rules.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define TOGETHER \
  { MT_ALL, MT_PROMOTE, MT_COMMON }
#define MAX_LIST 1024

/* ---- cat ---- */

/* 1-d tensors without elements join anything, as in PyTorch. */
static bool is_nothing(const mt_view *v) { return v->ndim == 1 && v->size[0] == 0; }

static int shape_cat(mt_call *c) {
  mt_spec *s = &c->out[0];
  const mt_view *like = NULL;
  int dim = (int)mt_ci(c, 1);
  if (c->nin == 0) return mt_fail(c->rt, MT_ERROR, "argument 'tensors': the list is empty");
  for (int i = 0; i < c->nin && !like; i++)
    if (!is_nothing(c->inv[i])) like = c->inv[i];
  if (!like) like = c->inv[0];
  if (like->ndim == 0) return mt_fail(c->rt, MT_ERROR, "0-d tensors cannot be joined; use stack");
  if (dim >= like->ndim) dim = 0; /* wrapped by a first tensor that is nothing */
  mt_spec_set(s, like->ndim, like->size);
  s->size[dim] = 0;
  for (int i = 0; i < c->nin; i++) {
    const mt_view *v = c->inv[i];
    bool fits = v->ndim == like->ndim;
    if (is_nothing(v) && !fits) continue;
    for (int d = 0; d < like->ndim && fits; d++) fits = d == dim || v->size[d] == like->size[d];
    if (!fits)
      return mt_fail(
          c->rt, MT_ERROR,
          "argument 'tensors': element %d of shape %s does not fit shape %s but for dim %d",
          i + mt_base(c->rt), mt_shape_str(c->rt, v->ndim, v->size),
          mt_shape_str(c->rt, like->ndim, like->size), dim + mt_base(c->rt));
    s->size[dim] += v->size[dim];
  }
  return mt_shape_numel(s->ndim, s->size) < 0
             ? mt_fail(c->rt, MT_ERROR, "the result has too many elements")
             : MT_OK;
}

static void back_cat(mt_back *b) {
  int64_t at = 0, dim = b->arg[1].u.i;
  for (int i = 0; i < b->nin; i++) {
    const mt_meta *m = &b->meta[i];
    if (m->ndim != b->g[0]->v.ndim) { /* nothing */
      if (b->need[i]) mt_grad(b, i, mt_zeros_meta(b, i));
      continue;
    }
    if (b->need[i])
      mt_grad(b, i, MT_DO(b->c, "narrow", mt_t(b->g[0]), mt_i(dim), mt_i(at), mt_i(m->size[dim])));
    at += m->size[dim];
  }
}

/* Calls f on every tensor of the list and joins the results along dim. */
static void join(mt_ctx *c, const mt_value *list, moth_tensor *(*f)(mt_ctx *, moth_tensor *, int),
                 int dim) {
  moth_tensor *t[MAX_LIST], *const *from = list->kind == MT_TENSOR ? &list->u.t : list->u.tensors;
  int n = list->kind == MT_TENSOR ? 1 : list->n;
  if (n > MAX_LIST) {
    mt_ctx_fail(c, "argument 'tensors': at most %d can be joined at once", MAX_LIST);
    return;
  }
  for (int i = 0; i < n; i++) t[i] = f(c, from[i], dim);
  if (c->status) return;
  mt_return(c, MT_DO(c, "cat", mt_ts(t, n), mt_i(dim)));
}

static moth_tensor *add_dim(mt_ctx *c, moth_tensor *x, int dim) {
  return MT_DO(c, "unsqueeze", mt_t(x), mt_i(dim));
}
static moth_tensor *least_1d(mt_ctx *c, moth_tensor *x, int dim) {
  (void)dim;
  return x->v.ndim ? x : add_dim(c, x, 0);
}
static moth_tensor *least_2d(mt_ctx *c, moth_tensor *x, int dim) {
  x = least_1d(c, x, dim);
  return x && x->v.ndim < 2 ? add_dim(c, x, 0) : x;
}
static moth_tensor *least_3d(mt_ctx *c, moth_tensor *x, int dim) {
  x = least_2d(c, x, dim);
  return x && x->v.ndim < 3 ? add_dim(c, x, 2) : x;
}
static moth_tensor *as_column(mt_ctx *c, moth_tensor *x, int dim) {
  x = least_1d(c, x, dim);
  return x && x->v.ndim < 2 ? add_dim(c, x, 1) : x;
}

static bool is_empty(mt_ctx *c, const mt_value *list) {
  if (list->kind == MT_TENSOR || list->n > 0) return false;
  mt_ctx_fail(c, "argument 'tensors': the list is empty");
  return true;
}

static const moth_tensor *first_of(const mt_value *list) {
  return list->kind == MT_TENSOR ? list->u.t : list->u.tensors[0];
}

static void compose_stack(mt_ctx *c, const mt_value *arg) {
  const mt_value *list = &arg[0];
  if (is_empty(c, list)) return;
  const mt_view *a = &first_of(list)->v;
  for (int i = 1; list->kind == MT_TENSORS && i < list->n; i++) {
    const mt_view *v = &list->u.tensors[i]->v;
    if (mt_shape_equal(a, v)) continue;
    mt_ctx_fail(c, "argument 'tensors': element %d has shape %s, the first %s", i + c->index_base,
                mt_shape_str(c->rt, v->ndim, v->size), mt_shape_str(c->rt, a->ndim, a->size));
    return;
  }
  join(c, list, add_dim, (int)arg[1].u.i);
}

static void compose_hstack(mt_ctx *c, const mt_value *arg) {
  if (!is_empty(c, &arg[0])) join(c, &arg[0], least_1d, first_of(&arg[0])->v.ndim > 1);
}
static void compose_vstack(mt_ctx *c, const mt_value *arg) {
  if (!is_empty(c, &arg[0])) join(c, &arg[0], least_2d, 0);
}
static void compose_dstack(mt_ctx *c, const mt_value *arg) {
  if (!is_empty(c, &arg[0])) join(c, &arg[0], least_3d, 2);
}
static void compose_column_stack(mt_ctx *c, const mt_value *arg) {
  if (!is_empty(c, &arg[0])) join(c, &arg[0], as_column, 1);
}

/* ---- parts ---- */

static void part(mt_ctx *c, const mt_value *x, int64_t dim, int64_t begin, int64_t end) {
  mt_return(c, MT_DO(c, "narrow", *x, mt_i(dim), mt_i(begin), mt_i(end - begin)));
}

static bool has_dims(mt_ctx *c, const mt_value *x) {
  if (x->u.t->v.ndim > 0) return true;
  mt_ctx_fail(c, "a 0-d tensor cannot be split");
  return false;
}

static void in_steps(mt_ctx *c, const mt_value *x, int64_t dim, int64_t step) {
  int64_t size = x->u.t->v.size[dim];
  if (step < 1 && size > 0) {
    mt_ctx_fail(c, "expected a positive size of parts, got %lld", (long long)step);
    return;
  }
  if (size == 0) part(c, x, dim, 0, 0);
  for (int64_t at = 0; at < size && !c->status; at += step)
    part(c, x, dim, at, at + step < size ? at + step : size);
}

static void compose_split(mt_ctx *c, const mt_value *arg) {
  const mt_value *sizes = &arg[1];
  int64_t at = 0, dim = arg[2].u.i;
  if (!has_dims(c, &arg[0])) return;
  int64_t size = arg[0].u.t->v.size[dim];
  if (sizes->n == 1) {
    in_steps(c, &arg[0], dim, sizes->u.ints[0]);
    return;
  }
  for (int i = 0; i < sizes->n; i++) {
    at = sizes->u.ints[i] < 0 || at < 0 ? -1 : at + sizes->u.ints[i];
  }
  if (at != size) {
    mt_ctx_fail(c,
                "argument 'split_size': the sizes do not add up to the %lld positions of dim %lld",
                (long long)size, (long long)dim + c->index_base);
    return;
  }
  at = 0;
  for (int i = 0; i < sizes->n; i++) {
    part(c, &arg[0], dim, at, at + sizes->u.ints[i]);
    at += sizes->u.ints[i];
  }
}

static void compose_chunk(mt_ctx *c, const mt_value *arg) {
  int64_t n = arg[1].u.i, dim = arg[2].u.i;
  if (!has_dims(c, &arg[0])) return;
  if (n < 1) {
    mt_ctx_fail(c, "argument 'chunks': expected a positive number, got %lld", (long long)n);
    return;
  }
  int64_t size = arg[0].u.t->v.size[dim];
  if (size > 0) {
    in_steps(c, &arg[0], dim, (size + n - 1) / n);
  } else {
    for (int64_t i = 0; i < n && !c->status; i++) part(c, &arg[0], dim, 0, 0);
  }
}

/* n parts that differ by at most one position. */
static void in_sections(mt_ctx *c, const mt_value *x, int64_t dim, int64_t n) {
  int64_t size = x->u.t->v.size[dim], at = 0;
  if (n < 1) {
    mt_ctx_fail(c, "expected a positive number of parts, got %lld", (long long)n);
    return;
  }
  for (int64_t i = 0; i < n && !c->status; i++) {
    int64_t step = size / n + (i < size % n);
    part(c, x, dim, at, at + step);
    at += step;
  }
}

static void at_cuts(mt_ctx *c, const mt_value *x, int64_t dim, const mt_value *cuts) {
  int64_t size = x->u.t->v.size[dim], begin = 0;
  for (int i = 0; i <= cuts->n; i++) {
    int64_t end = i < cuts->n ? cuts->u.ints[i] : size;
    if (end < 0) end = end + size < 0 ? 0 : end + size;
    if (end > size) end = size;
    part(c, x, dim, begin, end > begin ? end : begin);
    begin = end;
  }
}

/* One number is how many parts, several are where to cut: the positions before each cut. */
static void split_at(mt_ctx *c, const mt_value *arg, int64_t dim) {
  if (!has_dims(c, &arg[0])) return;
  if (arg[1].n == 1)
    in_sections(c, &arg[0], dim, arg[1].u.ints[0]);
  else
    at_cuts(c, &arg[0], dim, &arg[1]);
}
static void compose_tensor_split(mt_ctx *c, const mt_value *arg) { split_at(c, arg, arg[2].u.i); }
static void compose_hsplit(mt_ctx *c, const mt_value *arg) {
  split_at(c, arg, arg[0].u.t->v.ndim > 1);
}
static void compose_vsplit(mt_ctx *c, const mt_value *arg) {
  if (arg[0].u.t->v.ndim < 2)
    mt_ctx_fail(c, "expected at least 2 dims, got %s", mt_tensor_str(arg[0].u.t));
  else
    split_at(c, arg, 0);
}

static void compose_unbind(mt_ctx *c, const mt_value *arg) {
  if (!has_dims(c, &arg[0])) return;
  int64_t n = arg[0].u.t->v.size[arg[1].u.i];
  for (int64_t i = 0; i < n && !c->status; i++)
    mt_return(c, MT_DO(c, "select", arg[0], arg[1], mt_i(i)));
}

/* ---- grids ---- */

static void compose_meshgrid(mt_ctx *c, const mt_value *arg) {
  moth_tensor *const *t = arg[0].kind == MT_TENSOR ? &arg[0].u.t : arg[0].u.tensors;
  int n = arg[0].kind == MT_TENSOR ? 1 : arg[0].n;
  bool xy = strcmp(arg[1].u.s, "xy") == 0;
  int64_t size[MT_MAX_DIM], own[MT_MAX_DIM];
  if (n < 1 || n > MT_MAX_DIM || (!xy && strcmp(arg[1].u.s, "ij") != 0)) {
    mt_ctx_fail(c, "expected 1 to %d tensors and indexing 'ij' or 'xy'", MT_MAX_DIM);
    return;
  }
  for (int i = 0; i < n; i++) {
    if (t[i]->v.ndim > 1) {
      mt_ctx_fail(c, "expected tensors of at most 1 dim, got %s", mt_tensor_str(t[i]));
      return;
    }
    size[i] = t[i]->v.numel;
  }
  for (int i = 0; i < n; i++) {
    for (int d = 0; d < n; d++) own[d] = d == i ? size[i] : 1;
    moth_tensor *g = MT_DO(c, "reshape", mt_t(t[i]), mt_ints(own, n));
    g = MT_DO(c, "expand", mt_t(g), mt_ints(size, n));
    mt_return(c, xy && n > 1 ? MT_DO(c, "transpose", mt_t(g), mt_i(0), mt_i(1)) : g);
  }
}

static void compose_cartesian_prod(mt_ctx *c, const mt_value *arg) {
  moth_tensor *t[MT_MAX_DIM];
  int n = arg[0].kind == MT_TENSOR ? 1 : arg[0].n;
  moth_tensor *first = MT_DO(c, "meshgrid", arg[0]);
  if (!first) return;
  for (int i = 0; i < n; i++) t[i] = mt_nth(c, i);
  for (int i = 0; i < n; i++) t[i] = mt_op1(c, "ravel", t[i]);
  mt_return(c, n == 1 ? t[0] : MT_DO(c, "stack", mt_ts(t, n), mt_i(1)));
}

/* All choices of r positions in ascending order: positions of a grid that ascends. */
static void compose_combinations(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *at[MT_MAX_DIM], *keep = NULL;
  int r = (int)arg[1].u.i;
  if (x->v.ndim != 1 || r < 1 || r > MT_MAX_DIM) {
    mt_ctx_fail(c, "expected a 1-d tensor and r from 1 to %d", MT_MAX_DIM);
    return;
  }
  int64_t n = x->v.numel;
  moth_tensor *line = MT_DO(c, "arange", mt_i(0), mt_i(n));
  for (int i = 0; i < r; i++) at[i] = line;
  moth_tensor *grid[MT_MAX_DIM];
  if (!MT_DO(c, "meshgrid", mt_ts(at, r))) return;
  for (int i = 0; i < r; i++) grid[i] = mt_nth(c, i);
  for (int i = 1; i < r; i++) {
    moth_tensor *up = mt_op2(c, arg[2].u.i ? "le" : "lt", grid[i - 1], grid[i]);
    keep = keep ? mt_op2(c, "logical_and", keep, up) : up;
  }
  moth_tensor *cols[MT_MAX_DIM];
  for (int i = 0; i < r; i++) {
    moth_tensor *pos =
        keep ? mt_op2(c, "masked_select", grid[i], keep) : mt_op1(c, "ravel", grid[i]);
    if (c->index_base) pos = MT_DO(c, "add", mt_t(pos), mt_i(c->index_base));
    cols[i] = MT_DO(c, "index_select", mt_t(x), mt_i(0), mt_t(pos));
  }
  mt_return(c, MT_DO(c, "stack", mt_ts(cols, r), mt_i(1)));
}

#define PARTS (MT_METHOD | MT_MULTIVIEW)

static const mt_op ops[] = {
    {.schema = "cat(tensor[] tensors, dim dim=0) -> tensor",
     .help = "The tensors one after the other along dim; dtypes are promoted.",
     .types = TOGETHER,
     .shape = shape_cat,
     MT_CPU(concat),
     .backward = back_cat,
     .onnx = "Concat:13",
     .sample = "[{2,3} {1,3}]; 1"},
    {.schema = "stack(tensor[] tensors, newdim dim=0) -> tensor",
     .help = "Tensors of one shape side by side along a new dim.",
     .types = TOGETHER,
     .compose = compose_stack,
     .sample = "[{2,3} {2,3}]; 1"},
    {.schema = "hstack(tensor[] tensors) -> tensor",
     .help = "Joined along the second dim (1-d: the first).",
     .types = TOGETHER,
     .compose = compose_hstack,
     .sample = "[{2,3} {2,1}]"},
    {.schema = "vstack(tensor[] tensors) -> tensor",
     .help = "Joined along the first dim, 1-d tensors as rows.",
     .types = TOGETHER,
     .compose = compose_vstack,
     .sample = "[{2,3} {1,3}]"},
    {.schema = "dstack(tensor[] tensors) -> tensor",
     .help = "Joined along the third dim.",
     .types = TOGETHER,
     .compose = compose_dstack,
     .sample = "[{2,3} {2,3}]"},
    {.schema = "column_stack(tensor[] tensors) -> tensor",
     .help = "Joined along the second dim, 1-d tensors as columns.",
     .types = TOGETHER,
     .compose = compose_column_stack,
     .sample = "[{2,3} {2}]"},
    {.schema = "split(tensor self, int[] split_size, dim dim=0) -> tensor[]",
     .help = "Views of consecutive parts: of one size, or of the sizes listed.",
     .types = ANY,
     .compose = compose_split,
     .sample = "{5,2}; 2; 1",
     .flags = PARTS},
    {.schema = "chunk(tensor self, int chunks, dim dim=0) -> tensor[]",
     .help = "Views of at most so many parts of one size; the last may be smaller.",
     .types = ANY,
     .compose = compose_chunk,
     .sample = "{5,2}; 2; 1",
     .flags = PARTS},
    {.schema = "tensor_split(tensor self, int[] indices_or_sections, dim dim=0) -> tensor[]",
     .help = "Views: so many parts (one number), or cut behind the numbers of positions listed.",
     .types = ANY,
     .compose = compose_tensor_split,
     .sample = "{5,2}; {2}; 1",
     .flags = PARTS},
    {.schema = "hsplit(tensor self, int[] indices_or_sections) -> tensor[]",
     .help = "tensor_split along the second dim (1-d: the first).",
     .types = ANY,
     .compose = compose_hsplit,
     .sample = "{2,4}; {2}",
     .flags = PARTS},
    {.schema = "vsplit(tensor self, int[] indices_or_sections) -> tensor[]",
     .help = "tensor_split along the first dim.",
     .types = ANY,
     .compose = compose_vsplit,
     .sample = "{4,2}; {2}",
     .flags = PARTS},
    {.schema = "unbind(tensor self, dim dim=0) -> tensor[]",
     .help = "A view for each position of a dim, without that dim.",
     .types = ANY,
     .compose = compose_unbind,
     .sample = "{2,3}; 2",
     .flags = PARTS},
    {.schema = "meshgrid(tensor[] tensors, *, str indexing=\"ij\") -> tensor[]",
     .help = "1-d tensors expanded to the grid of all their combinations.",
     .types = ANY,
     .compose = compose_meshgrid,
     .sample = "[{2} {3}]"},
    {.schema = "cartesian_prod(tensor[] tensors) -> tensor",
     .help = "All combinations of the elements of 1-d tensors, one a row.",
     .types = ANY,
     .compose = compose_cartesian_prod,
     .sample = "[{2} {3}]"},
    {.schema = "combinations(tensor self, int r=2, bool with_replacement=false) -> tensor",
     .help = "All choices of r elements of a 1-d tensor, one a row.",
     .types = ANY,
     .compose = compose_combinations,
     .sample = "{4}; 2",
     .flags = MT_METHOD},
};
MT_FAMILY(join, ops);
