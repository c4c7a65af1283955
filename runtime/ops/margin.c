/* margin.c - hinge losses over classes: multi_margin_loss, multilabel_margin_loss.
 *
 * Composed; targets are positions as the caller counts them. */
#include <string.h>

#include "rules.h"

#define FLOAT {MT_REALFLOATS, MT_FIRST, MT_COMMON}

static void reduced(mt_ctx *c, moth_tensor *t, const mt_value *how) {
  const char *name = how->u.s;
  if (strcmp(name, "mean") == 0) mt_return(c, mt_op1(c, "mean", t));
  else if (strcmp(name, "sum") == 0) mt_return(c, mt_op1(c, "sum", t));
  else if (strcmp(name, "none") == 0) mt_return(c, t);
  else mt_ctx_fail(c, "argument 'reduction': expected 'mean', 'sum' or 'none', got '%.20s'", name);
}

/* The last dim holds the classes; one row stays one row. */
static bool fits(mt_ctx *c, const moth_tensor *x, const moth_tensor *t, int target_dims) {
  bool right = x->v.ndim >= 1 && x->v.ndim <= 2 && t->v.ndim == target_dims;
  for (int d = 0; right && d < target_dims; d++) right = t->v.size[d] == x->v.size[d];
  if (!right)
    mt_ctx_fail(c, "argument 'target': %s does not fit input %s", mt_tensor_str(t),
                mt_tensor_str(x));
  return right;
}

/* sum over j != y of max(0, margin - x_y + x_j)^p / classes. The term of y itself is margin^p. */
static void compose_multi_margin(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t;
  int64_t p = arg[2].u.i, last = -1;
  double margin = mt_argf(&arg[3]), own = margin > 0 ? (p == 1 ? margin : margin * margin) : 0;
  if (!fits(c, x, t, x->v.ndim - 1)) return;
  if (p != 1 && p != 2) {
    mt_ctx_fail(c, "argument 'p': expected 1 or 2, got %lld", (long long)p);
    return;
  }
  moth_tensor *at = MT_DO(c, "unsqueeze", mt_t(t), mt_i(-1));
  moth_tensor *mine = MT_DO(c, "gather", mt_t(x), mt_i(-1), mt_t(at));
  moth_tensor *z = mt_ops(c, "add", mt_op2(c, "sub", x, mine), margin);
  z = MT_DO(c, "clamp_min", mt_t(z), mt_i(0));
  if (p == 2) z = mt_op1(c, "square", z);
  z = mt_ops(c, "sub", MT_DO(c, "sum", mt_t(z), mt_ints(&last, 1)), own);
  if (mt_given(&arg[4])) {
    moth_tensor *w = MT_DO(c, "index_select", arg[4], mt_i(0), mt_t(mt_op1(c, "ravel", t)));
    z = mt_op2(c, "mul", z, MT_DO(c, "view_as", mt_t(w), mt_t(t)));
  }
  reduced(c, mt_ops(c, "div", z, (double)x->v.size[x->v.ndim - 1]), &arg[5]);
}

/* sum over labels y and non-labels i of max(0, 1 - x_y + x_i) / classes. A negative entry ends the
 * list of a row's labels. */
static void compose_multilabel_margin(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t;
  if (!fits(c, x, t, x->v.ndim)) return;
  moth_tensor *real = MT_DO(c, "to", mt_t(MT_DO(c, "ge", mt_t(t), mt_i(c->index_base))),
                            mt_i(x->v.dtype));
  real = MT_DO(c, "cumprod", mt_t(real), mt_i(-1)); /* 1 up to the end of the list */
  moth_tensor *at = MT_DO(c, "clamp_min", mt_t(t), mt_i(c->index_base));
  moth_tensor *hits = MT_DO(c, "scatter_add", mt_t(mt_op1(c, "zeros_like", x)), mt_i(-1), mt_t(at),
                            mt_t(real));
  moth_tensor *other = MT_DO(c, "to", mt_t(MT_DO(c, "eq", mt_t(hits), mt_i(0))),
                             mt_i(x->v.dtype));
  moth_tensor *labels = MT_DO(c, "gather", mt_t(x), mt_i(-1), mt_t(at));
  moth_tensor *d = mt_op2(c, "sub", MT_DO(c, "unsqueeze", mt_t(x), mt_i(-2)),
                          MT_DO(c, "unsqueeze", mt_t(labels), mt_i(-1)));
  d = MT_DO(c, "clamp_min", mt_t(mt_ops(c, "add", d, 1)), mt_i(0));
  d = mt_op2(c, "mul", d, MT_DO(c, "unsqueeze", mt_t(other), mt_i(-2)));
  d = mt_op2(c, "mul", d, MT_DO(c, "unsqueeze", mt_t(real), mt_i(-1)));
  moth_tensor *s = MT_DO(c, "sum", mt_t(d), mt_ints((const int64_t[]){-2, -1}, 2));
  reduced(c, mt_ops(c, "div", s, (double)x->v.size[x->v.ndim - 1]), &arg[2]);
}

static const mt_op ops[] = {
    {.schema = "multi_margin_loss(tensor input, index target, int p=1, float margin=1.0, tensor? "
               "weight=nil, str reduction=\"mean\") -> tensor",
     .help = "Hinge loss of the other classes against the target's.", .types = FLOAT,
     .compose = compose_multi_margin},
    {.schema = "multilabel_margin_loss(tensor input, index target, str reduction=\"mean\") -> "
               "tensor",
     .help = "Hinge loss of the other classes against every label; -1 ends a row's labels.",
     .types = FLOAT, .compose = compose_multilabel_margin},
};
MT_FAMILY(margin, ops);
