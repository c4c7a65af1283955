/* embed.c - rows of a table by position: embedding, and bags of them.
 *
 * The gradient of the table is a sum over equal positions, done in the order of the positions; the
 * padding row gets none. Tables are not sparse: a gradient has the shape of the table. */
#include <math.h>
#include <string.h>

#include "positions.h"

#define TABLE \
  { MT_ALL, MT_EQUAL, MT_COMMON }
#define G b->g[0]

/* ---- embedding ---- */

static int shape_embedding(mt_call *c) {
  const mt_view *index = c->inv[0], *w = c->inv[1];
  mt_spec *s = &c->out[0];
  if (w->ndim != 2 || index->ndim == MT_MAX_DIM)
    return mt_fail(c->rt, MT_ERROR, "argument 'weight': expected 2 dims, got %s",
                   mt_tensor_str(c->in[1]));
  mt_spec_set(s, index->ndim, index->size);
  s->size[s->ndim++] = w->size[1];
  return mt_shape_numel(s->ndim, s->size) < 0
             ? mt_fail(c->rt, MT_ERROR, "the result has too many elements")
             : MT_OK;
}

/* Each row's gradient divided by how often the row was asked for. */
static moth_tensor *by_frequency(mt_back *b, moth_tensor *g) {
  mt_ctx *c = b->c;
  moth_tensor *flat = mt_op1(c, "ravel", b->in[0]);
  moth_tensor *n = MT_DO(c, "_bincount", mt_t(flat), mt_nil(), mt_i(b->meta[1].size[0]));
  moth_tensor *own = MT_DO(c, "index_select", mt_t(n), mt_i(0), mt_t(flat));
  own = mt_op2(c, "type_as", MT_DO(c, "view_as", mt_t(own), mt_t(b->in[0])), g);
  return mt_op2(c, "div", g, MT_DO(c, "unsqueeze", mt_t(own), mt_i(-1)));
}

static void back_embedding(mt_back *b) {
  moth_tensor *g = b->arg[3].u.i ? by_frequency(b, G) : G;
  mt_grad(b, 1,
          MT_DO(b->c, "_embedding_back", mt_t(g), b->arg[0], mt_i(b->meta[1].size[0]), b->arg[2]));
}

static int shape_embedding_back(mt_call *c) {
  const mt_view *g = c->inv[0];
  int64_t size[2] = {mt_ci(c, 2), g->size[g->ndim - 1]};
  mt_spec_set(&c->out[0], 2, size);
  return MT_OK;
}

/* Linear in g: its gradient looks up rows, of which the padding row counts as 0. */
static void back_embedding_back(mt_back *b) {
  moth_tensor *table = G;
  int64_t padding = b->arg[3].u.i;
  if (padding >= 0) {
    table = mt_op1(b->c, "clone", G);
    MT_DO(b->c, "zero_", mt_t(MT_DO(b->c, "select", mt_t(table), mt_i(0), mt_i(padding))));
  }
  mt_grad(b, 0, MT_DO(b->c, "_embedding", b->arg[1], mt_t(table), mt_i(-1), mt_b(false)));
}

/* -1 for none, else a row. */
static int64_t padding_row(mt_ctx *c, const mt_value *v, const moth_tensor *w) {
  if (!mt_given(v) || w->v.ndim != 2) return -1;
  int64_t rows = w->v.size[0], p = v->u.i < 0 ? v->u.i + rows : v->u.i;
  if (p < 0 || p >= rows)
    mt_ctx_fail(c, "argument 'padding_idx': %lld is not one of %lld rows",
                (long long)v->u.i + (v->u.i >= 0) * c->index_base, (long long)rows);
  return p;
}

/* Rows asked for whose norm is above max_norm are scaled down, in the table itself. */
static void limit_norm(mt_ctx *c, moth_tensor *index, moth_tensor *w, const mt_value *max,
                       mt_value p) {
  moth_tensor *rows = mt_op1(c, "unique", index);
  moth_tensor *plain = mt_op1(c, "detach", w);
  moth_tensor *own = MT_DO(c, "index_select", mt_t(plain), mt_i(0), mt_t(rows));
  int64_t last = 1;
  moth_tensor *n = MT_DO(c, "norm", mt_t(own), p, mt_ints(&last, 1), mt_b(true));
  moth_tensor *scale = MT_DO(c, "div", *max, mt_t(mt_ops(c, "add", n, 1e-7)));
  moth_tensor *big = MT_DO(c, "gt", mt_t(n), *max);
  moth_tensor *f = MT_DO(c, "where", mt_t(big), mt_t(scale), mt_f(1.0));
  MT_DO(c, "index_copy_", mt_t(plain), mt_i(0), mt_t(rows), mt_t(mt_op2(c, "mul", own, f)));
}

static void compose_embedding(mt_ctx *c, const mt_value *arg) {
  moth_tensor *w = arg[1].u.t;
  int64_t padding = padding_row(c, &arg[2], w);
  if (mt_given(&arg[3])) limit_norm(c, arg[0].u.t, w, &arg[3], arg[4]);
  mt_return(c, MT_DO(c, "_embedding", arg[0], arg[1], mt_i(padding), arg[5]));
}

/* ---- embedding_bag ---- */

/* The bag (position) of every element of a 1-d index with bags starting at `offsets`. */
static moth_tensor *bag_of(mt_ctx *c, moth_tensor *offsets, int64_t n) {
  moth_tensor *at = MT_DO(c, "arange", mt_i(c->index_base), mt_i(n + c->index_base));
  at = MT_DO(c, "searchsorted", mt_t(offsets), mt_t(at), mt_b(true));
  return MT_DO(c, "sub", mt_t(at), mt_i(1));
}

typedef struct bags {
  moth_tensor *rows, *bag; /* [n, width] and [n] */
  moth_tensor *keep;       /* [n, 1]: 0 for padding, NULL: none */
  int64_t n, width;        /* bags */
} bags;

static moth_tensor *into_bags(mt_ctx *c, const bags *g, moth_tensor *x, int64_t width) {
  int64_t size[2] = {g->n, width};
  moth_tensor *zero = x ? MT_DO(c, "zeros", mt_ints(size, 2), mt_i(x->v.dtype)) : NULL;
  return MT_DO(c, "index_add", mt_t(zero), mt_i(0), mt_t(g->bag), mt_t(x));
}

static moth_tensor *max_bags(mt_ctx *c, const bags *g) {
  int64_t size[2] = {g->n, g->width}, all[2] = {g->bag ? g->bag->v.numel : 0, g->width};
  if (!g->rows) return NULL;
  moth_tensor *rows = g->rows, *bag = g->bag;
  if (g->keep) { /* padding never wins, and an all-padding bag is 0 */
    moth_tensor *out = MT_DO(c, "eq", mt_t(g->keep), mt_i(0));
    rows = MT_DO(c, "masked_fill", mt_t(rows), mt_t(out), mt_f(-INFINITY));
  }
  moth_tensor *zero = MT_DO(c, "zeros", mt_ints(size, 2), mt_i(g->rows->v.dtype));
  moth_tensor *at =
      MT_DO(c, "expand", mt_t(MT_DO(c, "unsqueeze", mt_t(bag), mt_i(1))), mt_ints(all, 2));
  moth_tensor *y = MT_DO(c, "scatter_reduce", mt_t(zero), mt_i(0), mt_t(at), mt_t(rows),
                         mt_s("amax"), mt_b(false));
  return MT_DO(c, "masked_fill", mt_t(y), mt_t(MT_DO(c, "eq", mt_t(y), mt_f(-INFINITY))), mt_i(0));
}

static moth_tensor *sum_bags(mt_ctx *c, const bags *g, bool mean, moth_tensor *weights) {
  moth_tensor *rows = g->rows;
  if (weights) rows = mt_op2(c, "mul", rows, MT_DO(c, "unsqueeze", mt_t(weights), mt_i(1)));
  if (g->keep) rows = mt_op2(c, "mul", rows, g->keep);
  moth_tensor *sum = into_bags(c, g, rows, g->width);
  if (!mean || !sum) return sum;
  int64_t one[2] = {g->bag->v.numel, 1};
  moth_tensor *each = g->keep ? g->keep : MT_DO(c, "ones", mt_ints(one, 2), mt_i(sum->v.dtype));
  moth_tensor *n = into_bags(c, g, each, 1);
  return mt_op2(c, "div", sum, MT_DO(c, "clamp", mt_t(n), mt_i(1)));
}

/* arg: input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
 * per_sample_weights, include_last_offset, padding_idx */
static void compose_embedding_bag(mt_ctx *c, const mt_value *arg) {
  moth_tensor *index = arg[0].u.t, *w = arg[1].u.t, *offsets = arg[2].u.t;
  const char *mode = arg[6].u.s;
  bool mean = strcmp(mode, "mean") == 0, max = strcmp(mode, "max") == 0;
  moth_tensor *weights = mt_given(&arg[8]) ? mt_op1(c, "ravel", arg[8].u.t) : NULL;
  int64_t padding = padding_row(c, &arg[10], w);
  bags g = {.width = w->v.ndim == 2 ? w->v.size[1] : 0};
  if (!mean && !max && strcmp(mode, "sum") != 0)
    mt_ctx_fail(c, "argument 'mode': expected sum, mean or max, got '%s'", mode);
  if ((index->v.ndim == 1) != mt_given(&arg[2]) || index->v.ndim < 1 || index->v.ndim > 2)
    mt_ctx_fail(c, "expected an index with 2 dims, or with 1 dim and offsets");
  if (weights && (mean || max))
    mt_ctx_fail(c, "argument 'per_sample_weights': only with mode 'sum'");
  if (c->status) return;
  if (index->v.ndim == 2) {
    g.n = index->v.size[0];
    offsets = MT_DO(c, "arange", mt_i(c->index_base), mt_i(index->v.numel + c->index_base),
                    mt_i(index->v.size[1] ? index->v.size[1] : 1));
  } else {
    g.n = offsets->v.numel - (arg[9].u.i != 0);
    if (arg[9].u.i) offsets = MT_DO(c, "narrow", mt_t(offsets), mt_i(0), mt_i(0), mt_i(g.n));
  }
  index = mt_op1(c, "ravel", index);
  if (!index) return;
  g.rows = MT_DO(c, "embedding", mt_t(index), arg[1], mt_nil(), arg[3], arg[4], arg[5]);
  if (padding >= 0 && g.rows) {
    moth_tensor *own = MT_DO(c, "ne", mt_t(index), mt_i(padding + c->index_base));
    g.keep = MT_DO(c, "unsqueeze", mt_t(mt_op2(c, "type_as", own, g.rows)), mt_i(1));
  }
  g.bag = bag_of(c, offsets, index->v.numel);
  mt_return(c, max ? max_bags(c, &g) : sum_bags(c, &g, mean, weights));
}

static const mt_op ops[] = {
    {.schema = "embedding(index input, tensor weight, pos? padding_idx=nil, float? max_norm=nil, "
               "float norm_type=2.0, bool scale_grad_by_freq=false, bool sparse=false) -> tensor",
     .help = "The rows of weight at the positions in input. The row padding_idx gets no gradient.",
     .types = TABLE,
     .compose = compose_embedding,
     .sample = "{4,3}; {2,2}i4"},
    {.schema = "_embedding(index input, tensor weight, int padding, bool by_freq) -> tensor",
     .help = "Rows of weight.",
     .types = TABLE,
     .shape = shape_embedding,
     MT_CPU_S(embedding),
     .backward = back_embedding,
     .save = MT_IN(0),
     .onnx = "Gather:13",
     .flags = MT_HIDDEN},
    {.schema = "_embedding_back(tensor g, index input, int rows, int padding) -> tensor",
     .help = "The gradient of the table.",
     .types = {MT_ALL, MT_FIRST, MT_COMMON},
     .shape = shape_embedding_back,
     MT_CPU_S(embedding_back),
     .backward = back_embedding_back,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "embedding_bag(index input, tensor weight, index? offsets=nil, float? max_norm=nil, "
               "float norm_type=2.0, bool scale_grad_by_freq=false, str mode=\"mean\", bool "
               "sparse=false, tensor? per_sample_weights=nil, bool include_last_offset=false, pos? "
               "padding_idx=nil) -> tensor",
     .help =
         "The sum, mean or maximum of the rows of each bag; bags are the rows of input, or start "
         "at the positions in offsets.",
     .types = TABLE,
     .compose = compose_embedding_bag,
     .sample = "{2,3}i4; {4,3}"},
};
MT_FAMILY(embed, ops);
