/* cross_entropy.c - cross entropy and negative log likelihood of class targets.
 *
 * The kernels read the logits once forward and once backward. The gradient of the gradient is
 * composed: with p the softmax, e the target's unit vector and c the coefficient of a sample
 * (weight, reduction, incoming gradient), gx = c (p - e). Targets are positions; ignore_index is
 * compared as it is written, so -100 is never a class and 2 is the second one in Lua. */
#include <string.h>

#include "rules.h"

#define FLOAT {MT_REALFLOATS, MT_FIRST, MT_COMMON}
#define PAIR {MT_REALFLOATS, MT_PROMOTE, MT_COMMON}

#define G b->g[0]

/* ---- shapes ---- */

static int class_dim(int ndim) { return ndim > 1; }

/* target has the shape of the logits without the class dim. */
static int check_target(mt_call *c, int x, int t) {
  const mt_view *v = c->inv[x], *w = c->inv[t];
  int d = class_dim(v->ndim), ok = v->ndim >= 1 && w->ndim == v->ndim - 1;
  for (int i = 0; ok && i < w->ndim; i++) ok = w->size[i] == v->size[i < d ? i : i + 1];
  if (!ok)
    return mt_fail(c->rt, MT_ERROR, "argument 'target': %s does not fit input %s",
                   mt_tensor_str(c->in[t]), mt_tensor_str(c->in[x]));
  return MT_OK;
}

static int check_reduction(mt_call *c, const mt_value *how) {
  const char *s = how->u.s;
  if (strcmp(s, "mean") == 0 || strcmp(s, "sum") == 0 || strcmp(s, "none") == 0) return MT_OK;
  return mt_fail(c->rt, MT_ERROR,
                 "argument 'reduction': expected 'mean', 'sum' or 'none', got '%.20s'", s);
}

static int check_weight(mt_call *c, int x, int w) {
  const mt_view *v = c->inv[x];
  int64_t classes = v->size[class_dim(v->ndim)];
  if (!c->inv[w] || (c->inv[w]->ndim == 1 && c->inv[w]->size[0] == classes)) return MT_OK;
  return mt_fail(c->rt, MT_ERROR, "argument 'weight': expected (%lld), got %s", (long long)classes,
                 mt_tensor_str(c->in[w]));
}

/* (x, target, weight?, reduction, ignore): the loss, then what the kernel keeps. */
static int shape_loss(mt_call *c, bool stats) {
  mt_dtype keep = c->common == MT_F64 ? MT_F64 : MT_F32;
  int status = check_target(c, 0, 1);
  if (!status) status = check_weight(c, 0, 2);
  if (!status) status = check_reduction(c, &c->arg[3]);
  if (status) return status;
  c->out[0].ndim = 0;
  if (strcmp(c->arg[3].u.s, "none") == 0) mt_spec_like(&c->out[0], c->inv[1]);
  if (stats) {
    mt_spec *s = &c->out[1];
    mt_spec_like(s, c->inv[1]);
    if (s->ndim == MT_MAX_DIM) return mt_fail(c->rt, MT_ERROR, "too many dims");
    memmove(s->size + 1, s->size, sizeof(int64_t) * (size_t)s->ndim);
    s->size[0] = 2;
    s->ndim++;
    s->dtype = keep;
  }
  c->out[stats ? 2 : 1].ndim = 0;
  c->out[stats ? 2 : 1].dtype = keep;
  return MT_OK;
}
static int shape_cross_entropy(mt_call *c) { return shape_loss(c, true); }
static int shape_nll(mt_call *c) { return shape_loss(c, false); }

/* Gradients: like input 1, or the sizes at the last argument. */
static int shape_back(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[1]);
  return MT_OK;
}
static int shape_nll_back(mt_call *c) {
  int64_t size[MT_MAX_DIM];
  int n, status = mt_arg_list(c, 6, size, &n);
  mt_spec_set(&c->out[0], n, size);
  return status;
}

/* ---- gradients ---- */

static void back_cross_entropy(mt_back *b) {
  if (G)
    mt_grad(b, 0, MT_DO(b->c, "_cross_entropy_back", mt_t(G), b->arg[0], b->arg[1], b->arg[2],
                        mt_t(b->out[1]), mt_t(b->out[2]), b->arg[3], b->arg[4]));
}

/* What each sample's gradient is scaled by, with a dim of size 1 where the classes are. Arguments
 * as _cross_entropy_back has them. */
static moth_tensor *coefficients(mt_back *b) {
  mt_ctx *c = b->c;
  const mt_value *a = b->arg;
  moth_tensor *keep = MT_DO(c, "ne", a[2], a[7]);
  moth_tensor *w = MT_DO(c, "to", mt_t(keep), mt_i(b->meta[1].dtype));
  if (mt_given(&a[3])) {
    moth_tensor *at = MT_DO(c, "where", mt_t(keep), a[2], mt_i(c->index_base));
    moth_tensor *flat = MT_DO(c, "index_select", a[3], mt_i(0), mt_t(mt_op1(c, "ravel", at)));
    moth_tensor *each = MT_DO(c, "view_as", mt_t(flat), a[2]);
    w = mt_op2(c, "mul", w, each);
  }
  if (strcmp(a[6].u.s, "mean") == 0) w = MT_DO(c, "div", mt_t(w), a[5]);
  w = MT_DO(c, "mul", mt_t(w), a[0]);
  return MT_DO(c, "unsqueeze", mt_t(w), mt_i(class_dim(b->meta[1].ndim)));
}

/* gx = g c (p - e): by g a sum over what the gradient multiplies, by x the gradient of softmax. */
static void back_cross_entropy_back(mt_back *b) {
  mt_ctx *c = b->c;
  const mt_value *a = b->arg;
  mt_value dim = mt_i(class_dim(b->meta[1].ndim));
  if (b->need[0]) {
    moth_tensor *unit = MT_DO(c, "ones_like", a[0]);
    moth_tensor *slope = MT_DO(c, "_cross_entropy_back", mt_t(unit), a[1], a[2], a[3], a[4], a[5],
                               a[6], a[7]);
    moth_tensor *s = mt_op2(c, "mul", G, slope);
    bool each = strcmp(a[6].u.s, "none") == 0;
    mt_grad(b, 0, each ? MT_DO(c, "sum", mt_t(s), mt_ints(&dim.u.i, 1)) : mt_op1(c, "sum", s));
  }
  if (!b->need[1]) return;
  moth_tensor *p = MT_DO(c, "softmax", a[1], dim);
  moth_tensor *q = mt_op2(c, "mul", G, coefficients(b));
  mt_grad(b, 1, MT_DO(c, "_softmax_back", mt_t(q), mt_t(p), dim));
}

static void back_nll(mt_back *b) {
  if (G)
    mt_grad(b, 0, MT_DO(b->c, "_nll_loss_back", mt_t(G), b->arg[1], b->arg[2], mt_t(b->out[1]),
                        b->arg[3], b->arg[4], mt_meta_size(b, 0)));
}
/* Linear in g: the loss of the gradient that came. */
static void back_nll_back(mt_back *b) {
  const mt_value *a = b->arg;
  if (b->need[0]) mt_grad(b, 0, MT_DO(b->c, "_nll_loss", mt_t(G), a[1], a[2], a[4], a[5]));
}

/* ---- what is called ---- */

static bool ignore_ok(mt_ctx *c, const mt_value *v) {
  if (v->u.i != 0 || c->index_base == 0) return true;
  mt_ctx_fail(c, "argument 'ignore_index': got 0, but classes start at 1");
  return false;
}

static moth_tensor *class_weights(mt_ctx *c, moth_tensor *t, moth_tensor *w, int dim) {
  int64_t size[MT_MAX_DIM];
  for (int d = 0; t && d < t->v.ndim; d++) size[d] = d == dim ? w->v.numel : 1;
  return t ? mt_op2(c, "mul", t, MT_DO(c, "view", mt_t(w), mt_ints(size, t->v.ndim))) : NULL;
}

static void finish(mt_ctx *c, moth_tensor *t, const char *how, double n) {
  if (strcmp(how, "none") == 0) mt_return(c, t);
  else if (strcmp(how, "sum") == 0) mt_return(c, mt_op1(c, "sum", t));
  else mt_return(c, mt_ops(c, "div", mt_op1(c, "sum", t), n));
}

/* Targets that are probabilities of all classes. */
static void soft_targets(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *t = arg[1].u.t;
  int dim = class_dim(x->v.ndim);
  int64_t at = dim, classes = x->v.size[dim];
  double smooth = arg[5].u.f;
  if (!mt_shape_equal(&x->v, &t->v)) {
    mt_ctx_fail(c, "argument 'target': expected probabilities of shape %s, got %s",
                mt_shape_str(c->rt, x->v.ndim, x->v.size), mt_tensor_str(t));
    return;
  }
  if (smooth > 0)
    t = mt_ops(c, "add", mt_ops(c, "mul", t, 1 - smooth), smooth / (double)classes);
  moth_tensor *l = mt_op2(c, "mul", MT_DO(c, "log_softmax", mt_t(x), mt_i(dim)), t);
  if (mt_given(&arg[2])) l = class_weights(c, l, arg[2].u.t, dim);
  l = mt_op1(c, "neg", MT_DO(c, "sum", mt_t(l), mt_ints(&at, 1)));
  finish(c, l, arg[4].u.s, classes ? (double)(x->v.numel / classes) : 0);
}

/* (1-s) nll + s/C * the sum over all classes, both over the weights of the targets. */
static void smoothed(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int dim = class_dim(x->v.ndim);
  int64_t at = dim;
  double smooth = arg[5].u.f, classes = (double)x->v.size[dim];
  mt_value none = mt_s("none");
  moth_tensor *logp = MT_DO(c, "log_softmax", mt_t(x), mt_i(dim));
  moth_tensor *hard = MT_DO(c, "_nll_loss", mt_t(logp), arg[1], arg[2], none, arg[3]);
  moth_tensor *all = logp;
  if (mt_given(&arg[2])) all = class_weights(c, all, arg[2].u.t, dim);
  all = mt_op1(c, "neg", MT_DO(c, "sum", mt_t(all), mt_ints(&at, 1)));
  moth_tensor *keep = MT_DO(c, "ne", arg[1], arg[3]);
  all = MT_DO(c, "where", mt_t(keep), mt_t(all), mt_i(0));
  moth_tensor *l = mt_op2(c, "add", mt_ops(c, "mul", hard, 1 - smooth),
                          mt_ops(c, "mul", all, smooth / classes));
  if (strcmp(arg[4].u.s, "mean") != 0) {
    finish(c, l, arg[4].u.s, 1);
    return;
  }
  /* The mean is over the weights of the targets: those of a loss of -1 everywhere. */
  moth_tensor *ones = mt_op1(c, "neg", MT_DO(c, "ones_like", mt_t(mt_op1(c, "detach", x))));
  moth_tensor *total = MT_DO(c, "_nll_loss", mt_t(ones), arg[1], arg[2], mt_s("sum"), arg[3]);
  mt_return(c, mt_op2(c, "div", mt_op1(c, "sum", l), total));
}

/* (input, target, weight?, ignore_index, reduction, label_smoothing) */
static void compose_cross_entropy(mt_ctx *c, const mt_value *arg) {
  moth_tensor *t = arg[1].u.t;
  double smooth = arg[5].u.f;
  if (!(smooth >= 0 && smooth <= 1)) mt_ctx_fail(c, "argument 'label_smoothing': expected 0..1");
  if (arg[0].u.t->v.ndim == 0) mt_ctx_fail(c, "argument 'input': expected at least one dim");
  if (c->status || !ignore_ok(c, &arg[3])) return;
  if (mt_dtype_is_float((mt_dtype)t->v.dtype)) soft_targets(c, arg);
  else if (smooth > 0) smoothed(c, arg);
  else
    mt_return(c, MT_DO(c, "_cross_entropy", arg[0], arg[1], arg[2], arg[4], arg[3]));
}
static void compose_nll(mt_ctx *c, const mt_value *arg) {
  if (ignore_ok(c, &arg[3]))
    mt_return(c, MT_DO(c, "_nll_loss", arg[0], arg[1], arg[2], arg[4], arg[3]));
}

static const mt_op ops[] = {
    {.schema = "_cross_entropy(tensor input, index target, tensor? weight, str reduction, int "
               "ignore_index) -> (tensor loss, tensor stats, tensor total)",
     .help = "Cross entropy of logits and classes.",
     .types = FLOAT,
     .shape = shape_cross_entropy,
     MT_CPU_S(cross_entropy),
     .backward = back_cross_entropy,
     .save = MT_IN(0) | MT_IN(1) | MT_IN(2) | MT_OUT(1) | MT_OUT(2),
     .onnx = "SoftmaxCrossEntropyLoss:13",
     .flags = MT_HIDDEN},
    {.schema = "_cross_entropy_back(tensor g, tensor input, index target, tensor? weight, tensor "
               "stats, tensor total, str reduction, int ignore_index) -> tensor",
     .help = "The gradient of cross entropy.",
     .types = FLOAT,
     .shape = shape_back,
     MT_CPU_S(cross_entropy_back),
     .backward = back_cross_entropy_back,
     .save = MT_IN(0) | MT_IN(1) | MT_IN(2) | MT_IN(3) | MT_IN(4) | MT_IN(5),
     .flags = MT_HIDDEN},
    {.schema = "_nll_loss(tensor input, index target, tensor? weight, str reduction, int "
               "ignore_index) -> (tensor loss, tensor total)",
     .help = "Negative log likelihood of classes.",
     .types = FLOAT,
     .shape = shape_nll,
     MT_CPU_S(nll_loss),
     .backward = back_nll,
     .save = MT_IN(1) | MT_IN(2) | MT_OUT(1),
     .onnx = "NegativeLogLikelihoodLoss:13",
     .flags = MT_HIDDEN},
    {.schema =
         "_nll_loss_back(tensor g, index target, tensor? weight, tensor total, str reduction, "
         "int ignore_index, int[] size) -> tensor",
     .help = "The gradient of nll_loss.",
     .types = FLOAT,
     .shape = shape_nll_back,
     MT_CPU_S(nll_loss_back),
     .backward = back_nll_back,
     .save = MT_IN(1) | MT_IN(2),
     .flags = MT_HIDDEN},
    {.schema = "cross_entropy(tensor input, tensor target, tensor? weight=nil, int "
               "ignore_index=-100, str reduction=\"mean\", float label_smoothing=0.0) -> tensor",
     .help = "Cross entropy of logits; target holds class positions, or probabilities. The mean is "
             "over the weights of the targets.",
     .types = FLOAT,
     .compose = compose_cross_entropy},
    {.schema = "nll_loss(tensor input, tensor target, tensor? weight=nil, int ignore_index=-100, "
               "str reduction=\"mean\") -> tensor",
     .help = "Negative log likelihood; input holds log-probabilities, target class positions.",
     .types = FLOAT,
     .compose = compose_nll},
};
MT_FAMILY(cross_entropy, ops);
