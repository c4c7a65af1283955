/* ctc.c - connectionist temporal classification.
 *
 * The gradient is a kernel that works the sums out again; it is not differentiable itself. */
#include <string.h>

#include "rules.h"

#define FLOAT {MT_REALFLOATS, MT_FIRST, MT_COMMON}
#define G b->g[0]

static bool whole(const mt_view *v) {
  return mt_dtype_category((mt_dtype)v->dtype) == MT_CAT_INT;
}

static int shape_ctc(mt_call *c) {
  const mt_view *p = c->inv[0], *t = c->inv[1];
  if (p->ndim != 3)
    return mt_fail(c->rt, MT_ERROR, "argument 'log_probs': expected (T, N, C), got %s",
                   mt_tensor_str(c->in[0]));
  int64_t n = p->size[1];
  if (!whole(t) || (t->ndim != 1 && (t->ndim != 2 || t->size[0] != n)))
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'targets': expected integers (%lld, S) or all in one dim, got %s",
                   (long long)n, mt_tensor_str(c->in[1]));
  for (int i = 2; i < 4; i++)
    if (!whole(c->inv[i]) || c->inv[i]->ndim != 1 || c->inv[i]->size[0] != n)
      return mt_fail(c->rt, MT_ERROR, "argument '%s': expected %lld integers, got %s",
                     c->op->arg[i].name, (long long)n, mt_tensor_str(c->in[i]));
  if (mt_ci(c, 4) < 0 || mt_ci(c, 4) >= p->size[2])
    return mt_fail(c->rt, MT_ERROR, "argument 'blank': %lld is not one of %lld classes",
                   (long long)mt_ci(c, 4) + mt_base(c->rt), (long long)p->size[2]);
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

static int shape_ctc_back(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[1]);
  return MT_OK;
}

static void back_ctc(mt_back *b) {
  moth_tensor *g = MT_DO(b->c, "contiguous", mt_t(G));
  mt_grad(b, 0, MT_DO(b->c, "_ctc_loss_back", mt_t(g), b->arg[0], b->arg[1], b->arg[2], b->arg[3],
                      mt_t(b->out[0]), b->arg[4], b->arg[5]));
}

/* One sample without the batch dim becomes a batch of one. */
static void compose_ctc(mt_ctx *c, const mt_value *arg) {
  moth_tensor *p = arg[0].u.t, *t[3];
  const char *how = arg[5].u.s;
  bool single = p->v.ndim == 2;
  if (strcmp(how, "mean") != 0 && strcmp(how, "sum") != 0 && strcmp(how, "none") != 0) {
    mt_ctx_fail(c, "argument 'reduction': expected 'mean', 'sum' or 'none', got '%.20s'", how);
    return;
  }
  if (single) p = MT_DO(c, "unsqueeze", mt_t(p), mt_i(1));
  for (int i = 0; i < 3; i++) {
    t[i] = arg[i + 1].u.t;
    if (i > 0 && t[i] && t[i]->v.ndim == 0) t[i] = mt_op1(c, "ravel", t[i]);
  }
  moth_tensor *l = MT_DO(c, "_ctc_loss", mt_t(p), mt_t(t[0]), mt_t(t[1]), mt_t(t[2]), arg[4],
                         arg[6]);
  if (arg[6].u.i)
    l = MT_DO(c, "where", mt_t(mt_op1(c, "isposinf", l)), mt_i(0), mt_t(l));
  if (strcmp(how, "mean") == 0)
    l = mt_op1(c, "mean", mt_op2(c, "div", l, MT_DO(c, "clamp_min", mt_t(t[2]), mt_i(1))));
  else if (strcmp(how, "sum") == 0)
    l = mt_op1(c, "sum", l);
  else if (single)
    l = mt_op1(c, "squeeze", l);
  mt_return(c, l);
}

static const mt_op ops[] = {
    {.schema = "ctc_loss(tensor log_probs, index targets, tensor input_lengths, tensor "
               "target_lengths, pos blank=0, str reduction=\"mean\", bool zero_infinity=false) -> "
               "tensor",
     .help = "The loss of label sequences under all their alignments to the frames (T, N, C); "
             "'mean' divides by the target lengths first.",
     .types = FLOAT, .compose = compose_ctc},
    {.schema = "_ctc_loss(tensor log_probs, index targets, tensor input_lengths, tensor "
               "target_lengths, pos blank, bool zero_infinity) -> tensor",
     .help = "ctc_loss of every sample.", .types = FLOAT, .shape = shape_ctc, MT_CPU_S(ctc_loss),
     .backward = back_ctc, .save = MT_IN(0) | MT_IN(1) | MT_IN(2) | MT_IN(3) | MT_OUT(0),
     .flags = MT_HIDDEN},
    {.schema = "_ctc_loss_back(tensor g, tensor log_probs, index targets, tensor input_lengths, "
               "tensor target_lengths, tensor loss, pos blank, bool zero_infinity) -> tensor",
     .help = "The gradient of ctc_loss.", .types = FLOAT, .shape = shape_ctc_back,
     MT_CPU_S(ctc_loss_back), .flags = MT_HIDDEN},
};
MT_FAMILY(ctc, ops);
