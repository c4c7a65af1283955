/* loss.c - losses that are pointwise and then reduced.
 *
 * Written with operations, so that every derivative exists; the two whose gradient has a form of
 * its own near the edges (binary cross entropy) have a rule. */
#include <math.h>
#include <string.h>

#include "rules.h"

#define PROMOTE {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}
#define FLOAT {MT_REALFLOATS, MT_EQUAL, MT_COMMON}

#define G b->g[0]

static moth_tensor *mul(mt_ctx *c, moth_tensor *a, moth_tensor *t) {
  return mt_op2(c, "mul", a, t);
}
static moth_tensor *sub(mt_ctx *c, moth_tensor *a, moth_tensor *t) {
  return mt_op2(c, "sub", a, t);
}
static moth_tensor *one_minus(mt_ctx *c, moth_tensor *t) {
  return MT_DO(c, "rsub", mt_t(t), mt_i(1));
}
static moth_tensor *at_least_0(mt_ctx *c, moth_tensor *t) {
  return MT_DO(c, "clamp_min", mt_t(t), mt_i(0));
}

/* The mean, the sum or the elements themselves. */
static void reduced(mt_ctx *c, moth_tensor *t, const mt_value *how) {
  const char *name = how->u.s;
  if (strcmp(name, "mean") == 0) mt_return(c, mt_op1(c, "mean", t));
  else if (strcmp(name, "sum") == 0) mt_return(c, mt_op1(c, "sum", t));
  else if (strcmp(name, "none") == 0) mt_return(c, t);
  else mt_ctx_fail(c, "argument 'reduction': expected 'mean', 'sum' or 'none', got '%.20s'", name);
}

/* ---- distances ---- */

static void compose_mse(mt_ctx *c, const mt_value *arg) {
  reduced(c, mt_op1(c, "square", MT_DO(c, "sub", arg[0], arg[1])), &arg[2]);
}
static void compose_l1(mt_ctx *c, const mt_value *arg) {
  reduced(c, mt_op1(c, "abs", MT_DO(c, "sub", arg[0], arg[1])), &arg[2]);
}
/* Quadratic up to `knee`, then linear with slope `slope`: curve * z^2 / 2, slope * (z - knee /
 * 2). */
static moth_tensor *knee_loss(mt_ctx *c, const mt_value *arg, double knee, double curve,
                              double slope) {
  moth_tensor *z = mt_op1(c, "abs", MT_DO(c, "sub", arg[0], arg[1]));
  moth_tensor *bowl = mt_ops(c, "mul", mul(c, z, z), 0.5 * curve);
  moth_tensor *line = mt_ops(c, "mul", mt_ops(c, "sub", z, 0.5 * knee), slope);
  return MT_DO(c, "where", mt_t(MT_DO(c, "lt", mt_t(z), mt_f(knee))), mt_t(bowl), mt_t(line));
}
static void compose_smooth_l1(mt_ctx *c, const mt_value *arg) {
  double beta = arg[3].u.f;
  if (beta < 0) mt_ctx_fail(c, "argument 'beta': cannot be negative");
  else if (beta == 0) compose_l1(c, arg);
  else reduced(c, knee_loss(c, arg, beta, 1 / beta, 1), &arg[2]);
}
static void compose_huber(mt_ctx *c, const mt_value *arg) {
  double delta = arg[3].u.f;
  if (!(delta > 0)) mt_ctx_fail(c, "argument 'delta': must be positive");
  reduced(c, knee_loss(c, arg, delta, 1, delta), &arg[2]);
}

/* ---- binary cross entropy ---- */

static bool any(mt_ctx *c, moth_tensor *t) {
  int64_t i = 0;
  double f;
  t = mt_op1(c, "any", t);
  if (t) mt_tensor_read(t, 0, &i, &f);
  return i != 0;
}

static void compose_bce(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  if (!mt_shape_equal(&x->v, &arg[1].u.t->v)) {
    mt_ctx_fail(c, "argument 'target': expected the shape of input %s, got %s", mt_tensor_str(x),
                mt_tensor_str(arg[1].u.t));
    return;
  }
  moth_tensor *low = MT_DO(c, "lt", mt_t(x), mt_i(0)), *high = MT_DO(c, "gt", mt_t(x), mt_i(1));
  if (any(c, mt_op2(c, "logical_or", low, high))) {
    mt_ctx_fail(c, "argument 'input': all elements must be between 0 and 1");
    return;
  }
  moth_tensor *l = MT_DO(c, "_bce", arg[0], arg[1]);
  if (mt_given(&arg[2])) l = MT_DO(c, "mul", mt_t(l), arg[2]);
  reduced(c, l, &arg[3]);
}

/* max(x (1-x), 1e-12): the slope is bounded as the logarithm was. */
static moth_tensor *spread(mt_back *b, moth_tensor *x) {
  return MT_DO(b->c, "clamp_min", mt_t(mul(b->c, x, one_minus(b->c, x))), mt_f(1e-12));
}
static moth_tensor *log_at_least(mt_ctx *c, moth_tensor *x) {
  return MT_DO(c, "clamp_min", mt_t(mt_op1(c, "log", x)), mt_f(-100));
}
static void back_bce(mt_back *b) {
  mt_ctx *c = b->c;
  moth_tensor *x = b->in[0], *t = b->in[1];
  if (b->need[0])
    mt_grad(b, 0, mul(c, G, mt_op2(c, "div", sub(c, x, t), spread(b, x))));
  if (b->need[1])
    mt_grad(b, 1, mul(c, G, sub(c, log_at_least(c, one_minus(c, x)), log_at_least(c, x))));
}

static void back_bce_logits(mt_back *b) {
  mt_ctx *c = b->c;
  if (b->need[0])
    mt_grad(b, 0, mul(c, G, sub(c, mt_op1(c, "sigmoid", b->in[0]), b->in[1])));
  if (b->need[1]) mt_grad(b, 1, mt_op1(c, "neg", mul(c, G, b->in[0])));
}

/* (1-t) x - (1 + (w-1) t) logsigmoid(x) */
static void compose_bce_logits(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t, *l;
  if (!mt_shape_equal(&x->v, &t->v)) {
    mt_ctx_fail(c, "argument 'target': expected the shape of input %s, got %s", mt_tensor_str(x),
                mt_tensor_str(t));
    return;
  }
  if (mt_given(&arg[4])) {
    moth_tensor *w = mt_ops(c, "add", mul(c, mt_ops(c, "sub", arg[4].u.t, 1), t), 1);
    l = sub(c, mul(c, one_minus(c, t), x), mul(c, w, mt_op1(c, "logsigmoid", x)));
  } else {
    l = mt_op2(c, "_bce_with_logits", x, t);
  }
  if (mt_given(&arg[2])) l = MT_DO(c, "mul", mt_t(l), arg[2]);
  reduced(c, l, &arg[3]);
}

/* ---- divergences and likelihoods ---- */

static void compose_kl_div(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t, *l;
  if (arg[3].u.i) l = mul(c, mt_op1(c, "exp", t), sub(c, t, x));
  else l = sub(c, mt_op2(c, "xlogy", t, t), mul(c, t, x));
  if (strcmp(arg[2].u.s, "batchmean") != 0) {
    reduced(c, l, &arg[2]);
    return;
  }
  double n = x->v.ndim ? (double)x->v.size[0] : 1;
  mt_return(c, mt_ops(c, "div", mt_op1(c, "sum", l), n));
}
static void compose_poisson_nll(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t, *l;
  if (arg[2].u.i) l = sub(c, mt_op1(c, "exp", x), mul(c, t, x));
  else l = sub(c, x, mul(c, t, mt_op1(c, "log", mt_ops(c, "add", x, arg[4].u.f))));
  if (arg[3].u.i) { /* Stirling's term where target > 1 */
    moth_tensor *s = mt_op2(c, "add", sub(c, mul(c, t, mt_op1(c, "log", t)), t),
                            mt_ops(c, "mul", mt_op1(c, "log", mt_ops(c, "mul", t, 2 * M_PI)), 0.5));
    moth_tensor *on = MT_DO(c, "gt", mt_t(t), mt_i(1));
    l = mt_op2(c, "add", l, MT_DO(c, "where", mt_t(on), mt_t(s), mt_i(0)));
  }
  reduced(c, l, &arg[5]);
}
static void compose_gaussian_nll(mt_ctx *c, const mt_value *arg) {
  moth_tensor *d = MT_DO(c, "sub", arg[0], arg[1]), *var = arg[2].u.t;
  if (any(c, MT_DO(c, "lt", mt_t(var), mt_i(0)))) {
    mt_ctx_fail(c, "argument 'var': cannot be negative");
    return;
  }
  if (c->status) return;
  if (var->v.ndim + 1 == d->v.ndim) var = MT_DO(c, "unsqueeze", mt_t(var), mt_i(-1));
  /* The floor acts on the value only: its gradient passes. */
  moth_tensor *lift = MT_DO(c, "clamp_min", mt_t(mt_op1(c, "detach", var)), mt_f(arg[4].u.f));
  var = mt_op2(c, "add", var, sub(c, lift, mt_op1(c, "detach", var)));
  moth_tensor *l = mt_op2(c, "add", mt_op1(c, "log", var), mt_op2(c, "div", mul(c, d, d), var));
  l = mt_ops(c, "mul", l, 0.5);
  if (arg[3].u.i) l = mt_ops(c, "add", l, 0.5 * log(2 * M_PI));
  reduced(c, l, &arg[5]);
}

/* ---- margins ---- */

static void compose_hinge_embedding(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t;
  moth_tensor *far = at_least_0(c, MT_DO(c, "rsub", mt_t(x), arg[2]));
  moth_tensor *a = MT_DO(c, "where", mt_t(MT_DO(c, "ne", mt_t(t), mt_i(1))), mt_t(far), mt_i(0));
  moth_tensor *e = MT_DO(c, "where", mt_t(MT_DO(c, "ne", mt_t(t), mt_i(-1))), mt_t(x), mt_i(0));
  reduced(c, mt_op2(c, "add", a, e), &arg[3]);
}
static void compose_margin_ranking(mt_ctx *c, const mt_value *arg) {
  moth_tensor *d = mul(c, mt_op1(c, "neg", arg[2].u.t), MT_DO(c, "sub", arg[0], arg[1]));
  reduced(c, at_least_0(c, MT_DO(c, "add", mt_t(d), arg[3])), &arg[4]);
}
static void compose_cosine_embedding(mt_ctx *c, const mt_value *arg) {
  int64_t dim = arg[0].u.t->v.ndim - 1;
  const double eps = 1e-12;
  moth_tensor *x = arg[0].u.t, *y = arg[1].u.t;
  moth_tensor *xy = MT_DO(c, "sum", mt_t(mul(c, x, y)), mt_ints(&dim, 1));
  moth_tensor *xx = mt_ops(c, "add", MT_DO(c, "sum", mt_t(mul(c, x, x)), mt_ints(&dim, 1)), eps);
  moth_tensor *yy = mt_ops(c, "add", MT_DO(c, "sum", mt_t(mul(c, y, y)), mt_ints(&dim, 1)), eps);
  moth_tensor *cosine = mt_op2(c, "div", xy, mt_op1(c, "sqrt", mul(c, xx, yy)));
  moth_tensor *apart = at_least_0(c, MT_DO(c, "sub", mt_t(cosine), arg[3]));
  moth_tensor *same = MT_DO(c, "eq", arg[2], mt_i(1)), *other = MT_DO(c, "eq", arg[2], mt_i(-1));
  moth_tensor *l = MT_DO(c, "where", mt_t(same), mt_t(one_minus(c, cosine)), mt_i(0));
  reduced(c, mt_op2(c, "add", l, MT_DO(c, "where", mt_t(other), mt_t(apart), mt_i(0))), &arg[4]);
}
static void compose_triplet_margin(mt_ctx *c, const mt_value *arg) {
  mt_value p = arg[4], eps = arg[5];
  moth_tensor *near = MT_DO(c, "pairwise_distance", arg[0], arg[1], p, eps);
  moth_tensor *far = MT_DO(c, "pairwise_distance", arg[0], arg[2], p, eps);
  if (arg[6].u.i)
    far = mt_op2(c, "minimum", far, MT_DO(c, "pairwise_distance", arg[1], arg[2], p, eps));
  reduced(c, at_least_0(c, MT_DO(c, "add", mt_t(sub(c, near, far)), arg[3])), &arg[7]);
}
static void compose_soft_margin(mt_ctx *c, const mt_value *arg) {
  moth_tensor *yx = mul(c, mt_op1(c, "neg", arg[1].u.t), arg[0].u.t);
  reduced(c, mt_op1(c, "log1p", mt_op1(c, "exp", yx)), &arg[2]);
}
static void compose_multilabel_soft_margin(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t;
  int64_t last = -1;
  moth_tensor *on = mul(c, t, mt_op1(c, "logsigmoid", x));
  moth_tensor *off = mul(c, one_minus(c, t), mt_op1(c, "logsigmoid", mt_op1(c, "neg", x)));
  moth_tensor *l = mt_op1(c, "neg", mt_op2(c, "add", on, off));
  if (mt_given(&arg[2])) l = MT_DO(c, "mul", mt_t(l), arg[2]);
  reduced(c, MT_DO(c, "mean", mt_t(l), mt_ints(&last, 1)), &arg[3]);
}

static const mt_op ops[] = {
    {.schema = "mse_loss(tensor input, tensor target, str reduction=\"mean\") -> tensor",
     .help = "Squared distances.",
     .types = PROMOTE,
     .compose = compose_mse,
     .sample = "{2,3}; {2,3}"},
    {.schema = "l1_loss(tensor input, tensor target, str reduction=\"mean\") -> tensor",
     .help = "Absolute distances; the gradient at equality is 0.",
     .types = PROMOTE,
     .compose = compose_l1,
     .sample = "{2,3}; {2,3}"},
    {.schema =
         "smooth_l1_loss(tensor input, tensor target, str reduction=\"mean\", float beta=1.0) "
         "-> tensor",
     .help = "Quadratic below beta, absolute distances above.",
     .types = PROMOTE,
     .compose = compose_smooth_l1,
     .sample = "{2,3}; {2,3}"},
    {.schema =
         "huber_loss(tensor input, tensor target, str reduction=\"mean\", float delta=1.0) -> "
         "tensor",
     .help = "Quadratic below delta, linear above.",
     .types = PROMOTE,
     .compose = compose_huber,
     .sample = "{2,3}; {2,3}"},
    {.schema = "_bce(tensor input, tensor target) -> tensor",
     .help = "Binary cross entropy of probabilities, logarithms at least -100.",
     .types = FLOAT,
     MT_ELEMENTWISE(bce),
     .backward = back_bce,
     .save = MT_IN(0) | MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "binary_cross_entropy(tensor input, tensor target, tensor? weight=nil, str "
               "reduction=\"mean\") -> tensor",
     .help = "Binary cross entropy of probabilities; logarithms are at least -100.",
     .types = FLOAT,
     .compose = compose_bce,
     .sample = "{2,3}p; {2,3}p"},
    {.schema = "_bce_with_logits(tensor input, tensor target) -> tensor",
     .help = "Binary cross entropy of logits.",
     .types = PROMOTE,
     MT_ELEMENTWISE(bce_with_logits),
     .backward = back_bce_logits,
     .save = MT_IN(0) | MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "binary_cross_entropy_with_logits(tensor input, tensor target, tensor? weight=nil, "
               "str reduction=\"mean\", tensor? pos_weight=nil) -> tensor",
     .help = "Binary cross entropy of logits; pos_weight weighs the positive targets.",
     .types = PROMOTE,
     .compose = compose_bce_logits,
     .sample = "{2,3}; {2,3}p"},
    {.schema = "kl_div(tensor input, tensor target, str reduction=\"mean\", bool log_target=false) "
               "-> tensor",
     .help = "Kullback-Leibler divergence; input holds log-probabilities. Also reduction "
             "'batchmean'.",
     .types = FLOAT,
     .compose = compose_kl_div,
     .sample = "{2,3}; {2,3}p"},
    {.schema =
         "poisson_nll_loss(tensor input, tensor target, bool log_input=true, bool full=false, "
         "float eps=1e-08, str reduction=\"mean\") -> tensor",
     .help = "Negative log likelihood of counts.",
     .types = PROMOTE,
     .compose = compose_poisson_nll,
     .sample = "{2,3}; {2,3}+"},
    {.schema = "gaussian_nll_loss(tensor input, tensor target, tensor var, bool full=false, float "
               "eps=1e-06, str reduction=\"mean\") -> tensor",
     .help = "Negative log likelihood of normal numbers with variances var.",
     .types = PROMOTE,
     .compose = compose_gaussian_nll,
     .sample = "{2,3}; {2,3}; {2,3}+"},
    {.schema = "hinge_embedding_loss(tensor input, tensor target, float margin=1.0, str "
               "reduction=\"mean\") -> tensor",
     .help = "input where target is 1, max(0, margin - input) where it is -1.",
     .types = PROMOTE,
     .compose = compose_hinge_embedding},
    {.schema = "margin_ranking_loss(tensor input1, tensor input2, tensor target, float margin=0, "
               "str reduction=\"mean\") -> tensor",
     .help = "max(0, -target * (input1 - input2) + margin).",
     .types = PROMOTE,
     .compose = compose_margin_ranking},
    {.schema = "cosine_embedding_loss(tensor input1, tensor input2, tensor target, float margin=0, "
               "str reduction=\"mean\") -> tensor",
     .help = "1 - cosine where target is 1, max(0, cosine - margin) where it is -1.",
     .types = PROMOTE,
     .compose = compose_cosine_embedding},
    {.schema =
         "triplet_margin_loss(tensor anchor, tensor positive, tensor negative, float "
         "margin=1.0, float p=2, float eps=1e-06, bool swap=false, str reduction=\"mean\") -> "
         "tensor",
     .help = "max(0, |anchor - positive| - |anchor - negative| + margin).",
     .types = PROMOTE,
     .compose = compose_triplet_margin},
    {.schema = "soft_margin_loss(tensor input, tensor target, str reduction=\"mean\") -> tensor",
     .help = "log(1 + exp(-target * input)).",
     .types = PROMOTE,
     .compose = compose_soft_margin},
    {.schema = "multilabel_soft_margin_loss(tensor input, tensor target, tensor? weight=nil, str "
               "reduction=\"mean\") -> tensor",
     .help = "Binary cross entropy of logits, averaged over the classes.",
     .types = PROMOTE,
     .compose = compose_multilabel_soft_margin},
};
MT_FAMILY(loss, ops);
