/* sort.c - order: sort, topk, kthvalue, median; positions in sorted tensors; unique.
 *
 * NaN is the largest. Sorting is always stable. Gradients go back to the positions that the result
 * came from. */
#include <string.h>

#include "positions.h"

#define REAL \
  { MT_REALS_B, MT_FIRST, MT_COMMON }
#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define G b->g[0]

static int shape_sort(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  c->out[0].strided = false;
  mt_spec_set(&c->out[1], c->out[0].ndim, c->out[0].size);
  return MT_OK;
}

/* The gradient of values[i] goes to position index[i] along dim. */
static moth_tensor *returned(mt_back *b, moth_tensor *index, moth_tensor *g, mt_value dim) {
  if (b->meta[0].ndim == 0) return MT_DO(b->c, "reshape", mt_t(g), mt_meta_size(b, 0));
  return MT_DO(b->c, "scatter", mt_t(mt_zeros_meta(b, 0)), dim, mt_t(index), mt_t(g));
}

static void back_sort(mt_back *b) {
  if (G) mt_grad(b, 0, returned(b, b->out[1], G, b->arg[1]));
}

static void compose_argsort(mt_ctx *c, const mt_value *arg) {
  MT_DO(c, "sort", arg[0], arg[1], arg[2], arg[3]);
  mt_return(c, mt_nth(c, 1));
}

static void compose_msort(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "sort", arg[0], mt_i(0)));
}

static int shape_topk(mt_call *c) {
  const mt_view *x = c->inv[0];
  int64_t k = mt_ci(c, 1), n = x->ndim ? x->size[mt_ci(c, 2)] : 1;
  if (k < 0 || k > n)
    return mt_fail(c->rt, MT_ERROR, "argument 'k': expected 0 to %lld, got %lld", (long long)n,
                   (long long)k);
  shape_sort(c);
  for (int i = 0; i < 2 && x->ndim; i++) c->out[i].size[mt_ci(c, 2)] = k;
  return MT_OK;
}

static void back_topk(mt_back *b) {
  if (G) mt_grad(b, 0, returned(b, b->out[1], G, b->arg[2]));
}

/* ---- one of each line ---- */

static int shape_select(mt_call *c, int dim_arg) {
  const mt_view *x = c->inv[0];
  int64_t dim = mt_ci(c, dim_arg);
  if (x->ndim && x->size[dim] == 0)
    return mt_fail(c->rt, MT_ERROR, "nothing to select from: %s has no positions along dim %lld",
                   mt_tensor_str(c->in[0]), (long long)dim + mt_base(c->rt));
  for (int i = 0; i < 2; i++) {
    mt_spec *s = &c->out[i];
    s->ndim = 0;
    s->strided = false;
    for (int d = 0; d < x->ndim; d++) {
      if (d == dim && !mt_ci(c, dim_arg + 1)) continue;
      s->size[s->ndim++] = d == dim ? 1 : x->size[d];
    }
  }
  return MT_OK;
}

static void back_select(mt_back *b, int dim_arg) {
  moth_tensor *index = b->out[1], *g = G;
  if (!g) return;
  if (!b->arg[dim_arg + 1].u.i && b->meta[0].ndim) {
    index = MT_DO(b->c, "unsqueeze", mt_t(index), b->arg[dim_arg]);
    g = MT_DO(b->c, "unsqueeze", mt_t(g), b->arg[dim_arg]);
  }
  mt_grad(b, 0, returned(b, index, g, b->arg[dim_arg]));
}

static int shape_kthvalue(mt_call *c) {
  const mt_view *x = c->inv[0];
  int64_t k = mt_ci(c, 1), n = x->ndim ? x->size[mt_ci(c, 2)] : 1;
  if (k < 1 || k > n)
    return mt_fail(c->rt, MT_ERROR, "argument 'k': expected 1 to %lld, got %lld", (long long)n,
                   (long long)k);
  return shape_select(c, 2);
}
static void back_kthvalue(mt_back *b) { back_select(b, 2); }
static int shape_median(mt_call *c) { return shape_select(c, 1); }
static void back_median(mt_back *b) { back_select(b, 1); }

/* median(x) is one value, median(x, dim) values and positions. */
static void median(mt_ctx *c, const mt_value *arg, const char *op) {
  if (mt_given(&arg[1])) {
    mt_return(c, MT_DO(c, op, arg[0], arg[1], arg[2]));
    mt_return(c, mt_nth(c, 1));
    return;
  }
  moth_tensor *x = mt_op1(c, "ravel", arg[0].u.t);
  if (x && x->v.numel == 0 && mt_dtype_is_float((mt_dtype)x->v.dtype)) {
    mt_return(c, MT_DO(c, "sum", mt_t(mt_ops(c, "div", x, 0.0))));
    return;
  }
  mt_return(c, MT_DO(c, op, mt_t(x), mt_i(0), mt_b(false)));
}
static void compose_median(mt_ctx *c, const mt_value *arg) { median(c, arg, "_median"); }
static void compose_nanmedian(mt_ctx *c, const mt_value *arg) { median(c, arg, "_nanmedian"); }

/* ---- positions in sorted tensors ---- */

static int shape_searchsorted(mt_call *c) {
  const mt_view *s = c->inv[0], *v = c->inv[1];
  bool fits = s->ndim == 1 || s->ndim == v->ndim;
  for (int d = 0; s->ndim > 1 && d + 1 < s->ndim; d++) fits = fits && s->size[d] == v->size[d];
  if (!fits || s->ndim == 0)
    return mt_fail(c->rt, MT_ERROR,
                   "sorted_sequence of shape %s: expected 1 dim, or those of values %s but for the "
                   "last",
                   mt_shape_str(c->rt, s->ndim, s->size), mt_shape_str(c->rt, v->ndim, v->size));
  mt_spec_set(&c->out[0], v->ndim, v->size);
  return MT_OK;
}

static void compose_bucketize(mt_ctx *c, const mt_value *arg) {
  if (arg[1].u.t->v.ndim != 1) {
    mt_ctx_fail(c, "argument 'boundaries': expected 1 dim, got %s", mt_tensor_str(arg[1].u.t));
    return;
  }
  mt_return(c, MT_DO(c, "searchsorted", arg[1], arg[0], arg[2]));
}

static void compose_isin(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = MT_DO(c, "unsqueeze", arg[0], mt_i(-1));
  moth_tensor *same = MT_DO(c, "eq", mt_t(x), mt_t(mt_op1(c, "ravel", arg[1].u.t)));
  moth_tensor *in = MT_DO(c, "any", mt_t(same), mt_i(-1));
  mt_return(c, arg[2].u.i ? mt_op1(c, "logical_not", in) : in);
}

/* ---- unique ---- */

static int shape_mark(mt_call *c) {
  mt_spec_set(&c->out[0], 1, c->inv[0]->size);
  c->out[0].dtype = MT_I64;
  return MT_OK;
}

static int shape_runs(mt_call *c) {
  int64_t n = mt_ci(c, 2);
  mt_spec_set(&c->out[0], 1, &n);
  mt_spec_set(&c->out[1], 1, &n);
  mt_spec_set(&c->out[2], 1, c->inv[0]->size);
  return MT_OK;
}

/* Positions that put the rows of x (2-d) in lexicographic order: stable sorts from the last
 * column. */
static moth_tensor *row_order(mt_ctx *c, moth_tensor *x) {
  moth_tensor *order = NULL;
  for (int64_t i = x->v.size[1] - 1; i >= 0 && !c->status; i--) {
    moth_tensor *col = MT_DO(c, "select", mt_t(x), mt_i(1), mt_i(i));
    if (order) col = MT_DO(c, "index_select", mt_t(col), mt_i(0), mt_t(order));
    moth_tensor *by = MT_DO(c, "argsort", mt_t(col));
    order = order ? MT_DO(c, "index_select", mt_t(order), mt_i(0), mt_t(by)) : by;
  }
  return order;
}

/* Items along the first dim of `items`; gives results in their order. */
static void unique_items(mt_ctx *c, moth_tensor *items, bool sort, bool inverse, bool counts,
                         int64_t dim, const mt_value *shape) {
  int64_t n = 0, size[2] = {0, -1};
  double f;
  moth_tensor *order = NULL;
  if (!items) return;
  size[0] = items->v.size[0];
  if (items->v.ndim > 1 && items->v.numel > 0)
    items = MT_DO(c, "reshape", mt_t(items), mt_ints(size, 2));
  if (sort && items && items->v.numel > 0)
    order = items->v.ndim == 1 ? MT_DO(c, "argsort", mt_t(items)) : row_order(c, items);
  moth_tensor *x = order ? MT_DO(c, "index_select", mt_t(items), mt_i(0), mt_t(order)) : items;
  moth_tensor *runs = mt_op1(c, "_unique_mark", x);
  if (runs && runs->v.numel > 0) {
    mt_tensor_item(MT_DO(c, "select", mt_t(runs), mt_i(0), mt_i(-1)), &n, &f);
    n++;
  }
  moth_tensor *first =
      MT_DO(c, "_unique_fill", mt_t(runs), order ? mt_t(order) : mt_nil(), mt_i(n));
  moth_tensor *count = mt_nth(c, 1), *back = mt_nth(c, 2);
  moth_tensor *y = MT_DO(c, "index_select", mt_t(x), mt_i(0), mt_t(first));
  if (shape && y) { /* the dim goes back to its place */
    int64_t full[MT_MAX_DIM];
    memcpy(full, shape->u.ints, sizeof(int64_t) * (size_t)shape->n);
    full[0] = n;
    y = MT_DO(c, "reshape", mt_t(y), mt_ints(full, shape->n));
    y = MT_DO(c, "transpose", mt_t(y), mt_i(0), mt_i(dim));
    y = mt_op1(c, "contiguous", y);
  }
  mt_return(c, y);
  if (inverse) mt_return(c, back);
  if (counts) mt_return(c, count);
}

/* unique(x, sorted, inverse, counts, dim) from argument `flags` on. */
static void unique(mt_ctx *c, const mt_value *arg, bool sort, const mt_value *flags) {
  moth_tensor *x = arg[0].u.t;
  bool inverse = flags[0].u.i != 0, counts = flags[1].u.i != 0;
  if (!mt_given(&flags[2]) || x->v.ndim == 0) {
    moth_tensor *flat = mt_op1(c, "ravel", x);
    unique_items(c, flat, sort, inverse, counts, 0, NULL);
    if (inverse && !c->status) c->ret[1] = MT_DO(c, "view_as", mt_t(c->ret[1]), mt_t(x));
    return;
  }
  int64_t dim = flags[2].u.i;
  moth_tensor *t = MT_DO(c, "transpose", arg[0], mt_i(0), mt_i(dim));
  if (!t) return;
  mt_value shape = mt_ints(t->v.size, t->v.ndim);
  unique_items(c, mt_op1(c, "contiguous", t), sort, inverse, counts, dim, &shape);
}
static void compose_unique(mt_ctx *c, const mt_value *arg) { unique(c, arg, true, arg + 2); }
static void compose_unique_consecutive(mt_ctx *c, const mt_value *arg) {
  unique(c, arg, false, arg + 1);
}

static const mt_op ops[] = {
    {.schema = "sort(tensor self, dim dim=-1, bool descending=false, bool stable=false) -> (tensor "
               "values, index indices)",
     .help = "Sorted along dim, and where each element was. Always stable.",
     .types = REAL,
     .shape = shape_sort,
     MT_CPU_S(sort),
     .backward = back_sort,
     .save = MT_OUT(1),
     .sample = "{2,5}; 2",
     .flags = MT_METHOD},
    {.schema =
         "argsort(tensor self, dim dim=-1, bool descending=false, bool stable=false) -> index",
     .help = "The positions that sort self along dim.",
     .types = REAL,
     .compose = compose_argsort,
     .flags = MT_METHOD},
    {.schema = "msort(tensor self) -> tensor",
     .help = "Sorted along the first dim.",
     .types = REAL,
     .compose = compose_msort,
     .sample = "{4,3}",
     .flags = MT_METHOD},
    {.schema =
         "topk(tensor self, int k, dim dim=-1, bool largest=true, bool sorted=true) -> (tensor "
         "values, index indices)",
     .help = "The k largest (or smallest) elements along dim, in order, and their positions.",
     .types = REAL,
     .shape = shape_topk,
     MT_CPU_S(topk),
     .backward = back_topk,
     .save = MT_OUT(1),
     .onnx = "TopK:11",
     .flags = MT_METHOD},
    {.schema = "kthvalue(tensor self, int k, dim dim=-1, bool keepdim=false) -> (tensor values, "
               "index indices)",
     .help = "The k-th smallest element along dim and its position.",
     .types = REAL,
     .shape = shape_kthvalue,
     MT_CPU_S(kthvalue),
     .backward = back_kthvalue,
     .save = MT_OUT(1),
     .sample = "{2,5}; 3; 2",
     .flags = MT_METHOD},
    {.schema = "median(tensor self, dim? dim=nil, bool keepdim=false) -> (tensor values, index "
               "indices)",
     .help = "The middle one, the lower of two; with dim along it and with positions. NaN wins.",
     .types = REAL,
     .compose = compose_median,
     .sample = "{2,5}; 2",
     .flags = MT_METHOD},
    {.schema = "nanmedian(tensor self, dim? dim=nil, bool keepdim=false) -> (tensor values, index "
               "indices)",
     .help = "median of what is not NaN.",
     .types = REAL,
     .compose = compose_nanmedian,
     .sample = "{2,5}; 2",
     .flags = MT_METHOD},
    {.schema = "_median(tensor self, dim dim, bool keepdim) -> (tensor values, index indices)",
     .help = "median along a dim.",
     .types = REAL,
     .shape = shape_median,
     MT_CPU_S(median),
     .backward = back_median,
     .save = MT_OUT(1),
     .flags = MT_HIDDEN},
    {.schema = "_nanmedian(tensor self, dim dim, bool keepdim) -> (tensor values, index indices)",
     .help = "nanmedian along a dim.",
     .types = REAL,
     .shape = shape_median,
     MT_CPU_S(nanmedian),
     .backward = back_median,
     .save = MT_OUT(1),
     .flags = MT_HIDDEN},
    {.schema = "searchsorted(tensor sorted_sequence, operand values, *, bool right=false) -> index",
     .help = "The positions at which values go into an ascending sequence; right: behind equals.",
     .types = {MT_REALS_B, MT_PROMOTE, MT_COMMON},
     .sample = "{5}+; {3}",
     .shape = shape_searchsorted,
     MT_CPU(searchsorted)},
    {.schema = "bucketize(operand self, tensor boundaries, *, bool right=false) -> index",
     .help = "The bucket of each value between ascending boundaries.",
     .types = {MT_REALS_B, MT_PROMOTE, MT_COMMON},
     .sample = "{3}; {5}+",
     .compose = compose_bucketize,
     .flags = MT_METHOD},
    {.schema = "isin(tensor elements, tensor test_elements, *, bool invert=false) -> tensor",
     .help = "Whether each element occurs among test_elements.",
     .types = {MT_ALL, MT_PROMOTE, MT_IS_BOOL},
     .sample = "{5}i4; {2}i3",
     .compose = compose_isin},
    {.schema =
         "unique(tensor self, bool sorted=true, bool return_inverse=false, bool "
         "return_counts=false, dim? dim=nil) -> (tensor values, index inverse, tensor counts)",
     .help = "The different elements (or parts along dim), sorted; where each one went; how often "
             "each occurs.",
     .types = ANY,
     .compose = compose_unique,
     .flags = MT_METHOD},
    {.schema =
         "unique_consecutive(tensor self, bool return_inverse=false, bool "
         "return_counts=false, dim? dim=nil) -> (tensor values, index inverse, tensor counts)",
     .help = "As unique, without sorting: only neighbours are compared.",
     .types = ANY,
     .compose = compose_unique_consecutive,
     .flags = MT_METHOD},
    {.schema = "_unique_mark(tensor self) -> tensor",
     .help = "The number of the run of equal parts that each position belongs to.",
     .types = ANY,
     .shape = shape_mark,
     MT_CPU(unique_mark),
     .flags = MT_HIDDEN},
    {.schema = "_unique_fill(tensor runs, tensor? order, int n) -> (index first, tensor counts, "
               "index inverse)",
     .help = "Where runs start, how long they are, and the run of each position.",
     .types = ANY,
     .shape = shape_runs,
     MT_CPU(unique_fill),
     .flags = MT_HIDDEN},
};
MT_FAMILY(sort, ops);
