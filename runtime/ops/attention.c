/* attention.c - scaled dot-product attention, composed.
 *
 * A query whose keys are all masked gives zeros, with no NaN in any gradient: its scores are
 * replaced before the softmax and its weights after. */
#include <math.h>

#include "rules.h"

/* scores with what the mask leaves out at -inf; bool: true takes part. */
static moth_tensor *masked(mt_ctx *c, moth_tensor *scores, moth_tensor *mask) {
  if (mask->v.dtype != MT_BOOL) return mt_op2(c, "add", scores, mask);
  return MT_DO(c, "where", mt_t(mask), mt_t(scores), mt_f(-INFINITY));
}

static moth_tensor *causal(mt_ctx *c, const moth_tensor *q, const moth_tensor *k) {
  int64_t size[2] = {q->v.size[q->v.ndim - 2], k->v.size[k->v.ndim - 2]};
  return mt_op1(c, "tril", MT_DO(c, "ones", mt_ints(size, 2), mt_i(MT_BOOL)));
}

static moth_tensor *weights_of(mt_ctx *c, moth_tensor *scores, bool may_be_dead) {
  int64_t last = -1;
  if (!may_be_dead) return MT_DO(c, "softmax", mt_t(scores), mt_i(-1));
  moth_tensor *top = MT_DO(c, "amax", mt_t(mt_op1(c, "detach", scores)), mt_ints(&last, 1),
                           mt_b(true));
  moth_tensor *dead = mt_op1(c, "isneginf", top);
  scores = MT_DO(c, "where", mt_t(dead), mt_i(0), mt_t(scores));
  moth_tensor *w = MT_DO(c, "softmax", mt_t(scores), mt_i(-1));
  return MT_DO(c, "where", mt_t(dead), mt_i(0), mt_t(w));
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
  if (arg[5].u.i) scores = masked(c, scores, causal(c, q, k));
  if (mask) scores = masked(c, scores, arg[3].u.t);
  if (c->status) return;
  moth_tensor *w = weights_of(c, scores, mask || arg[5].u.i);
  if (dropout > 0) w = MT_DO(c, "dropout", mt_t(w), mt_f(dropout), mt_b(true));
  mt_return(c, mt_op2(c, "matmul", w, v));
}

static const mt_op ops[] = {
    {.schema = "scaled_dot_product_attention(tensor query, tensor key, tensor value, tensor? "
               "attn_mask=nil, float dropout_p=0.0, bool is_causal=false, *, float? scale=nil) -> "
               "tensor",
     .help = "softmax(query key' * scale + mask) value; in a bool mask true takes part.",
     .types = {MT_REALFLOATS, MT_FIRST, MT_COMMON}, .compose = compose_attention,
     .sample = "{2,3,4}; {2,5,4}; {2,5,4}"},
};
MT_FAMILY(attention, ops);
