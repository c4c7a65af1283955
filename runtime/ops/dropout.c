/* dropout.c - dropout of elements and of whole channels.
 *
 * _dropout reports the seed and counter it drew from, and its gradient draws the same mask again:
 * no mask is kept, and the gradient is linear, so it is its own gradient. */
#include <math.h>

#include "rules.h"

#define FLOATS \
  { MT_REALFLOATS, MT_FIRST, MT_COMMON }
#define G b->g[0]

static int shape_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  c->out[0].strided = false;
  return MT_OK;
}

static int shape_dropout(mt_call *c) {
  int64_t two = 2;
  mt_spec_set(&c->out[1], 1, &two);
  c->out[1].dtype = MT_I64;
  return shape_self(c);
}

static void back_dropout(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_dropout_back", mt_t(G), mt_t(b->out[1]), b->arg[1]));
}

static void back_dropout_back(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_dropout_back", mt_t(G), b->arg[1], b->arg[2]));
}

/* True when there is nothing to do: x itself is the result. */
static bool idle(mt_ctx *c, const mt_value *arg) {
  double p = arg[1].u.f;
  if (!(p >= 0 && p <= 1)) {
    mt_ctx_fail(c, "argument 'p': expected a probability, got %.14g", p);
    return true;
  }
  if (arg[2].u.i && p > 0) return false;
  mt_return(c, arg[0].u.t);
  return true;
}

static void compose_dropout(mt_ctx *c, const mt_value *arg) {
  if (!idle(c, arg)) mt_return(c, MT_DO(c, "_dropout", arg[0], arg[1]));
}

/* One draw for each of the first dims (batch and channel), broadcast over `inner` others. */
static moth_tensor *channel_mask(mt_ctx *c, const mt_value *arg, int inner, double p) {
  const mt_view *v = &arg[0].u.t->v;
  int64_t size[MT_MAX_DIM];
  for (int d = 0; d < v->ndim; d++) size[d] = d < v->ndim - inner ? v->size[d] : 1;
  moth_tensor *m = MT_DO(c, "empty", mt_ints(size, v->ndim), mt_i(v->dtype));
  return MT_DO(c, "_bernoulli_fill_", mt_t(m), mt_f(1 - p));
}

static void channels(mt_ctx *c, const mt_value *arg, int inner) {
  const mt_view *v = &arg[0].u.t->v;
  double p = arg[1].u.f;
  if (v->ndim != inner + 1 && v->ndim != inner + 2) {
    mt_ctx_fail(c, "expected %d or %d dims, got %s", inner + 1, inner + 2,
                mt_tensor_str(arg[0].u.t));
    return;
  }
  if (idle(c, arg)) return;
  moth_tensor *m = channel_mask(c, arg, inner, p);
  mt_return(c, MT_DO(c, "mul", arg[0], mt_t(mt_ops(c, "mul", m, p < 1 ? 1 / (1 - p) : 0.0))));
}
static void compose_dropout1d(mt_ctx *c, const mt_value *arg) { channels(c, arg, 1); }
static void compose_dropout2d(mt_ctx *c, const mt_value *arg) { channels(c, arg, 2); }
static void compose_dropout3d(mt_ctx *c, const mt_value *arg) { channels(c, arg, 3); }

/* Dropped elements become the value that selu approaches; an affine map then restores mean 0 and
 * variance 1 (Klambauer et al., 2017). */
static void alpha(mt_ctx *c, const mt_value *arg, moth_tensor *keep) {
  const double low = -1.7580993408473766; /* -scale * alpha of selu */
  double p = arg[1].u.f, a = p < 1 ? 1 / sqrt((1 - p) * (1 + p * low * low)) : 0;
  moth_tensor *kept = MT_DO(c, "mul", arg[0], mt_t(keep));
  moth_tensor *rest = mt_ops(c, "mul", mt_ops(c, "sub", keep, 1), -low); /* low where dropped */
  moth_tensor *y = mt_ops(c, "mul", mt_op2(c, "add", kept, rest), a);
  mt_return(c, mt_ops(c, "add", y, -a * low * p));
}

static void compose_alpha_dropout(mt_ctx *c, const mt_value *arg) {
  if (!idle(c, arg)) alpha(c, arg, channel_mask(c, arg, 0, arg[1].u.f));
}
static void compose_feature_alpha_dropout(mt_ctx *c, const mt_value *arg) {
  int n = arg[0].u.t->v.ndim;
  if (!idle(c, arg)) alpha(c, arg, channel_mask(c, arg, n > 2 ? n - 2 : 0, arg[1].u.f));
}

#define FORM (MT_METHOD | MT_INPLACE)

static const mt_op ops[] = {
    {.schema = "dropout(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "In training 0 with probability p, else input / (1 - p).",
     .types = FLOATS,
     .compose = compose_dropout,
     .sample = "{3,4}; 0.4",
     .flags = FORM},
    {.schema = "_dropout(tensor input, float p) -> (tensor output, tensor state)",
     .help = "dropout, and what its mask was drawn from.",
     .types = FLOATS,
     .shape = shape_dropout,
     MT_CPU(dropout),
     .backward = back_dropout,
     .save = MT_OUT(1),
     .onnx = "Dropout:13",
     .flags = MT_HIDDEN | MT_RANDOM},
    {.schema = "_dropout_back(tensor g, tensor state, float p) -> tensor",
     .help = "The mask of a _dropout on g.",
     .types = FLOATS,
     .shape = shape_self,
     MT_CPU(dropout_back),
     .backward = back_dropout_back,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    {.schema = "dropout1d(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Drops whole channels of (N, C, L) or (C, L).",
     .types = FLOATS,
     .compose = compose_dropout1d,
     .sample = "{2,3,4}; 0.4"},
    {.schema = "dropout2d(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Drops whole channels of (N, C, H, W) or (C, H, W).",
     .types = FLOATS,
     .compose = compose_dropout2d,
     .sample = "{2,3,2,2}; 0.4"},
    {.schema = "dropout3d(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Drops whole channels of (N, C, D, H, W) or (C, D, H, W).",
     .types = FLOATS,
     .compose = compose_dropout3d,
     .sample = "{2,3,2,2,2}; 0.4"},
    {.schema = "alpha_dropout(tensor input, float p=0.5, bool training=false) -> tensor",
     .help = "Dropout that keeps mean 0 and variance 1, for selu networks.",
     .types = FLOATS,
     .compose = compose_alpha_dropout,
     .sample = "{3,4}; 0.4"},
    {.schema = "feature_alpha_dropout(tensor input, float p=0.5, bool training=false) -> tensor",
     .help = "alpha_dropout of whole channels.",
     .types = FLOATS,
     .compose = compose_feature_alpha_dropout,
     .sample = "{2,3,4}; 0.4"},
};
MT_FAMILY(dropout, ops);
