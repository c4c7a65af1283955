/* attention.c - scaled dot-product attention: two products around a softmax that knows masks.
 *
 * A query whose keys are all masked gives zeros, with no NaN in any gradient. */
#include <math.h>

#include "rules.h"

#define G b->g[0]

/* The mask broadcasts to the scores and is bool or of their dtype. */
static int shape_masked(mt_call *c) {
  const mt_view *x = c->inv[0], *mask = c->inv[1];
  if (mask && !mt_shape_expands(mask, x->ndim, x->size))
    return mt_fail(c->rt, MT_ERROR, "argument 'attn_mask': %s does not broadcast to %s",
                   mt_shape_str(c->rt, mask->ndim, mask->size),
                   mt_shape_str(c->rt, x->ndim, x->size));
  mt_spec_like(&c->out[0], x);
  return MT_OK;
}

/* A weight of 0 passes no gradient, so masked scores get none. */
static void back_masked(mt_back *b) {
  moth_tensor *g = MT_DO(b->c, "_softmax_back", mt_t(G), mt_t(b->out[0]), mt_i(-1));
  mt_grad(b, 0, g);
  if (b->need[1]) mt_grad(b, 1, g); /* the engine sums the broadcast dims */
}

static void compose_attention(mt_ctx *c, const mt_value *arg) {
  moth_tensor *q = arg[0].u.t, *k = arg[1].u.t, *v = arg[2].u.t;
  bool mask = mt_given(&arg[3]);
  double dropout = arg[4].u.f;
  if (q->v.ndim < 2 || k->v.ndim < 2 || v->v.ndim < 2) {
    mt_ctx_fail(c, "query, key and value need at least 2 dims, got %s, %s and %s", mt_tensor_str(q),
                mt_tensor_str(k), mt_tensor_str(v));
    return;
  }
  if (mask && arg[5].u.i) {
    mt_ctx_fail(c, "give either attn_mask or is_causal");
    return;
  }
  int64_t width = q->v.size[q->v.ndim - 1];
  double scale = mt_given(&arg[6]) ? arg[6].u.f : 1 / sqrt((double)width);
  moth_tensor *scores = mt_op2(c, "matmul", mt_ops(c, "mul", q, scale), mt_op1(c, "mT", k));
  moth_tensor *w = MT_DO(c, "_masked_softmax", mt_t(scores), arg[3], arg[5]);
  if (dropout > 0) w = MT_DO(c, "dropout", mt_t(w), mt_f(dropout), mt_b(true));
  mt_return(c, mt_op2(c, "matmul", w, v));
}

static const mt_op ops[] = {
    {.schema = "_masked_softmax(tensor scores, tensor? mask, bool causal) -> tensor",
     .help = "softmax along the last dim of what the mask leaves; rows without anything are 0.",
     .types = {MT_REALFLOATS, MT_FIRST, MT_COMMON}, .shape = shape_masked,
     MT_CPU_S(masked_softmax), .backward = back_masked, .save = MT_OUT(0), .flags = MT_HIDDEN},
    {.schema = "scaled_dot_product_attention(tensor query, tensor key, tensor value, tensor? "
               "attn_mask=nil, float dropout_p=0.0, bool is_causal=false, *, float? scale=nil) -> "
               "tensor",
     .help = "softmax(query key' * scale + mask) value; in a bool mask true takes part.",
     .types = {MT_REALFLOATS, MT_FIRST, MT_COMMON}, .compose = compose_attention,
     .sample = "{2,3,4}; {2,5,4}; {2,5,4}"},
};
MT_FAMILY(attention, ops);
