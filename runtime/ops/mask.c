/* mask.c - masks and positions found from data: masked_fill, masked_select, nonzero, bincount.
 *
 * Where the size of a result depends on the data, a first kernel counts, and the count is read
 * before the result is allocated. */
#include <string.h>

#include "positions.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define SAME \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define G b->g[0]
#define FORM (MT_METHOD | MT_INPLACE)

static int shape_scalar(mt_call *c) {
  mt_spec_set(&c->out[0], 0, NULL);
  c->out[0].dtype = MT_I64;
  return MT_OK;
}

int64_t mt_count_nonzero(mt_ctx *c, moth_tensor *x) {
  int64_t n = 0;
  double f;
  moth_tensor *count = mt_op1(c, "_count_nonzero", x);
  if (count) mt_tensor_item(count, &n, &f);
  return n;
}

static bool is_mask(mt_ctx *c, const mt_value *v) {
  if (c->status || !v->u.t) return false;
  if (v->u.t->v.dtype == MT_BOOL) return true;
  mt_ctx_fail(c, "argument 'mask': expected a bool tensor, got %s", mt_tensor_str(v->u.t));
  return false;
}

/* ---- masked_fill ---- */

static void compose_masked_fill(mt_ctx *c, const mt_value *arg) {
  const moth_tensor *x = arg[0].u.t;
  mt_value v = arg[2];
  mt_category cat = mt_dtype_category((mt_dtype)x->v.dtype);
  if (!is_mask(c, &arg[1])) return;
  if (v.kind == MT_TENSOR && v.u.t->v.ndim != 0) {
    mt_ctx_fail(c, "argument 'value': expected a number or a 0-d tensor, got %s",
                mt_tensor_str(v.u.t));
    return;
  }
  if (v.kind == MT_TENSOR) v = mt_t(mt_op2(c, "type_as", v.u.t, arg[0].u.t));
  if (v.kind == MT_FLOAT && cat < MT_CAT_FLOAT) {
    mt_ctx_fail(c, "argument 'value': expected an integer for %s, got %.14g",
                mt_dtypes[x->v.dtype].name, v.u.f);
    return;
  }
  if (v.kind == MT_INT && cat == MT_CAT_BOOL) v = mt_b(v.u.i != 0);
  mt_return(c, MT_DO(c, "where", arg[1], v, arg[0]));
}

/* ---- masked_select, masked_scatter ---- */

static void compose_masked_select(mt_ctx *c, const mt_value *arg) {
  mt_spec s;
  const mt_view *v[2] = {&arg[0].u.t->v, &arg[1].u.t->v};
  if (!is_mask(c, &arg[1])) return;
  c->status = mt_shape_broadcast(c->rt, &s, 2, v);
  moth_tensor *mask = MT_DO(c, "expand", arg[1], mt_ints(s.size, s.ndim));
  int64_t n = mask ? mt_count_nonzero(c, mask) : 0;
  mt_return(c, MT_DO(c, "_masked_select", arg[0], mt_t(mask), mt_i(n)));
}

static int shape_masked_select(mt_call *c) {
  int64_t n = mt_ci(c, 2);
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

/* The mask has the common shape; what was broadcast is summed by the engine. */
static void back_masked_select(mt_back *b) {
  const moth_tensor *mask = b->in[1];
  moth_tensor *zero =
      MT_DO(b->c, "zeros", mt_ints(mask->v.size, mask->v.ndim), mt_i(b->meta[0].dtype));
  mt_grad(b, 0, MT_DO(b->c, "_masked_scatter", mt_t(zero), b->arg[1], mt_t(G)));
}

static void compose_masked_scatter(mt_ctx *c, const mt_value *arg) {
  const moth_tensor *x = arg[0].u.t, *src = arg[2].u.t;
  if (!is_mask(c, &arg[1])) return;
  if (src->v.dtype != x->v.dtype) {
    mt_ctx_fail(c, "argument 'source': expected dtype %s, got %s", mt_dtypes[x->v.dtype].name,
                mt_tensor_str(src));
    return;
  }
  moth_tensor *mask = MT_DO(c, "expand", arg[1], mt_ints(x->v.size, x->v.ndim));
  int64_t n = mask ? mt_count_nonzero(c, mask) : 0;
  if (n > src->v.numel)
    mt_ctx_fail(c, "the mask takes %lld elements, source has %lld", (long long)n,
                (long long)src->v.numel);
  mt_return(c, MT_DO(c, "_masked_scatter", arg[0], mt_t(mask), arg[2]));
}

static int shape_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  c->out[0].strided = false;
  return MT_OK;
}

static void back_masked_scatter(mt_back *b) {
  mt_ctx *c = b->c;
  if (b->need[0]) mt_grad(b, 0, MT_DO(c, "masked_fill", mt_t(G), b->arg[1], mt_i(0)));
  if (!b->need[2]) return;
  moth_tensor *s = MT_DO(c, "masked_select", mt_t(G), b->arg[1]), *zero = mt_zeros_meta(b, 2);
  if (!s || !zero) return;
  int64_t used = s->v.numel, all = zero->v.numel;
  if (used < all) {
    moth_tensor *rest =
        MT_DO(c, "narrow", mt_t(mt_op1(c, "ravel", zero)), mt_i(0), mt_i(used), mt_i(all - used));
    s = MT_DO(c, "cat", mt_ts((moth_tensor *[]){s, rest}, 2), mt_i(0));
  }
  mt_grad(b, 2, MT_DO(c, "reshape", mt_t(s), mt_meta_size(b, 2)));
}

/* ---- positions found ---- */

static void compose_nonzero(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "_nonzero", arg[0], mt_i(mt_count_nonzero(c, arg[0].u.t))));
}

static int shape_nonzero(mt_call *c) {
  int64_t size[2] = {mt_ci(c, 1), c->inv[0]->ndim};
  mt_spec_set(&c->out[0], 2, size);
  return MT_OK;
}

static void compose_bincount(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *w = arg[1].u.t;
  bool weighted = mt_given(&arg[1]);
  int64_t n = mt_largest_position(c, x) + 1;
  if (x->v.ndim != 1 || (weighted && (w->v.ndim != 1 || w->v.numel != x->v.numel))) {
    mt_ctx_fail(c, "expected 1-d tensors of one length");
    return;
  }
  if (weighted && w->v.dtype != MT_F32) w = MT_DO(c, "to", mt_t(w), mt_i(MT_F64));
  if (n < arg[2].u.i) n = arg[2].u.i;
  mt_return(c, MT_DO(c, "_bincount", mt_t(x), weighted ? mt_t(w) : mt_nil(), mt_i(n)));
}

static int shape_bincount(mt_call *c) {
  int64_t n = mt_ci(c, 2);
  mt_spec_set(&c->out[0], 1, &n);
  c->out[0].dtype = c->in[1] ? (mt_dtype)c->inv[1]->dtype : MT_I64;
  return MT_OK;
}

static const mt_op ops[] = {
    {.schema = "masked_fill(tensor self, tensor mask, operand value) -> tensor",
     .help = "value where mask is true, self elsewhere.",
     .types = SAME,
     .compose = compose_masked_fill,
     .sample = "{2,3}; {2,3}?; 0.5",
     .flags = FORM},
    {.schema = "masked_select(tensor self, tensor mask) -> tensor",
     .help = "The elements where mask is true, in one dim.",
     .types = ANY,
     .compose = compose_masked_select,
     .sample = "{2,3}; {2,3}?",
     .flags = MT_METHOD},
    {.schema = "_masked_select(tensor self, tensor mask, int n) -> tensor",
     .help = "masked_select of n elements.",
     .types = ANY,
     .shape = shape_masked_select,
     MT_CPU_S(masked_select),
     .backward = back_masked_select,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "masked_scatter(tensor self, tensor mask, tensor source) -> tensor",
     .help = "self with the elements of source, in order, where mask is true.",
     .types = ANY,
     .compose = compose_masked_scatter,
     .sample = "{2,3}; {2,3}?; {6}",
     .flags = FORM},
    {.schema = "_masked_scatter(tensor self, tensor mask, tensor source) -> tensor",
     .help = "masked_scatter with a source that is long enough.",
     .types = ANY,
     .shape = shape_self,
     MT_CPU_S(masked_scatter),
     .backward = back_masked_scatter,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "nonzero(tensor self) -> index",
     .help = "The positions of all elements that are not 0, one row each.",
     .types = ANY,
     .compose = compose_nonzero,
     .onnx = "NonZero:13",
     .sample = "{2,3}?",
     .flags = MT_METHOD},
    {.schema = "argwhere(tensor self) -> index",
     .help = "The same as nonzero.",
     .types = ANY,
     .compose = compose_nonzero,
     .sample = "{2,3}?",
     .flags = MT_METHOD},
    {.schema = "_nonzero(tensor self, int n) -> index",
     .help = "nonzero of n elements.",
     .types = ANY,
     .shape = shape_nonzero,
     MT_CPU_S(nonzero),
     .flags = MT_HIDDEN},
    {.schema = "_count_nonzero(tensor self) -> tensor",
     .help = "How many elements are not 0.",
     .types = ANY,
     .shape = shape_scalar,
     MT_CPU_S(nonzero_count),
     .flags = MT_HIDDEN},
    {.schema = "bincount(index self, tensor? weights=nil, int minlength=0) -> tensor",
     .help = "How often each position occurs, or the sum of its weights.",
     .types = ANY,
     .compose = compose_bincount,
     .sample = "{5}i4",
     .flags = MT_METHOD},
    {.schema = "_bincount(index self, tensor? weights, int n) -> tensor",
     .help = "bincount with n results.",
     .types = ANY,
     .shape = shape_bincount,
     MT_CPU_S(bincount),
     .flags = MT_HIDDEN | MT_NOGRAD},
};
MT_FAMILY(mask, ops);
