/* norm.c - normalisations: layer, rms, group, batch, instance and local response norm.
 *
 * The operation with a name is composed of a hidden one whose further results (mean and 1/std) the
 * backward needs. A gradient is one fused kernel; only when gradients of gradients are wanted is it
 * written out in differentiable operations (`explicit_grad`). */
#include "rules.h"

#define FLOAT \
  { MT_REALFLOATS, MT_FIRST, MT_COMMON }

#define G b->g[0]

/* Statistics are kept in the type that the kernels compute in. */
static mt_dtype stat_type(mt_dtype d) { return d == MT_F64 ? MT_F64 : MT_F32; }

/* A weight or bias must have exactly this shape. */
static int check_param(mt_call *c, int arg, int in, int ndim, const int64_t *size) {
  const mt_view *v = c->inv[in];
  bool right = !v || v->ndim == ndim;
  for (int d = 0; v && right && d < ndim; d++) right = v->size[d] == size[d];
  if (right) return MT_OK;
  return mt_fail(c->rt, MT_ERROR, "argument '%s': expected shape %s, got %s", c->op->arg[arg].name,
                 mt_shape_str(c->rt, ndim, size), mt_shape_str(c->rt, v->ndim, v->size));
}

/* ---- gradients that can be differentiated again ---- */

typedef struct explicit_norm {
  mt_ctx *c;
  moth_tensor *g, *x; /* of the shape in which `dims` are normalised */
  moth_tensor *w;     /* broadcasts to g, or NULL */
  mt_value dims, eps;
  bool rms;
  moth_tensor *mean, *rstd; /* given when they are constants */
  moth_tensor *gx, *gh;     /* out: gradient of x; g times the normalised x */
} explicit_norm;

static moth_tensor *mean_of(explicit_norm *e, moth_tensor *t) {
  return MT_DO(e->c, "mean", mt_t(t), e->dims, mt_b(true));
}

/* gx = rstd (a - mean(a) - h mean(a h)), a = g w, h = (x - mean) rstd. */
static void explicit_grad(explicit_norm *e) {
  mt_ctx *c = e->c;
  bool constant = e->rstd != NULL;
  moth_tensor *xc = e->x, *rstd = e->rstd, *a = e->g;
  if (!e->rms) xc = mt_op2(c, "sub", xc, constant ? e->mean : mean_of(e, e->x));
  if (!constant) {
    moth_tensor *var = mean_of(e, mt_op1(c, "square", xc));
    rstd = mt_op1(c, "rsqrt", MT_DO(c, "add", mt_t(var), e->eps));
  }
  moth_tensor *h = mt_op2(c, "mul", xc, rstd);
  if (e->w) a = mt_op2(c, "mul", a, e->w);
  e->gh = mt_op2(c, "mul", e->g, h);
  if (!constant) {
    moth_tensor *pull = mt_op2(c, "mul", h, mean_of(e, mt_op2(c, "mul", a, h)));
    if (!e->rms) pull = mt_op2(c, "add", pull, mean_of(e, a));
    a = mt_op2(c, "sub", a, pull);
  }
  e->gx = mt_op2(c, "mul", a, rstd);
}

/* A view of a per-channel tensor that broadcasts over (N, C, ...). */
static moth_tensor *per_channel(mt_ctx *c, moth_tensor *t, int ndim) {
  int64_t size[MT_MAX_DIM];
  if (!t) return NULL;
  for (int d = 0; d < ndim; d++) size[d] = d == 1 ? t->v.numel : 1;
  return MT_DO(c, "reshape", mt_t(t), mt_ints(size, ndim));
}

/* Sums what is (N, C, ...) over all dims but the channels. */
static moth_tensor *channel_sum(mt_ctx *c, moth_tensor *t) {
  int64_t dims[MT_MAX_DIM];
  int n = 0;
  for (int d = 0; t && d < t->v.ndim; d++)
    if (d != 1) dims[n++] = d;
  return MT_DO(c, "sum", mt_t(t), mt_ints(dims, n));
}

/* ---- layer and rms norm: x, shape, weight ... ---- */

static int shape_rows(mt_call *c, int nstats) {
  const mt_view *x = c->inv[0];
  int64_t size[MT_MAX_DIM];
  int n = 0, status = mt_arg_list(c, 1, size, &n);
  bool right = n > 0 && n <= x->ndim;
  for (int d = 0; right && d < n; d++) right = x->size[x->ndim - n + d] == size[d];
  if (status) return status;
  if (!right)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'normalized_shape': %s are not the last sizes of the input, %s",
                   mt_shape_str(c->rt, n, size), mt_shape_str(c->rt, x->ndim, x->size));
  for (int in = 1; in < c->nin && !status; in++) status = check_param(c, in + 1, in, n, size);
  mt_spec_like(&c->out[0], x);
  for (int o = 1; o <= nstats; o++) {
    mt_spec_set(&c->out[o], x->ndim - n, x->size);
    c->out[o].dtype = stat_type(c->common);
  }
  return status;
}
static int shape_layer(mt_call *c) { return shape_rows(c, 2); }
static int shape_rms(mt_call *c) { return shape_rows(c, 1); }

static int shape_layer_back(mt_call *c) {
  int64_t size[MT_MAX_DIM];
  int n = 0, status = mt_arg_list(c, c->narg - 1, size, &n);
  mt_spec_like(&c->out[0], c->inv[1]);
  for (int o = 1; o < c->nout; o++) mt_spec_set(&c->out[o], n, size);
  return status;
}

/* The last n dims of input 0. */
static mt_value last_dims(const mt_back *b, int64_t *dims) {
  int n = b->arg[1].kind == MT_INTS ? b->arg[1].n : 1;
  for (int i = 0; i < n; i++) dims[i] = b->meta[0].ndim - n + i;
  return mt_ints(dims, n);
}

static void explicit_rows(mt_back *b, bool rms) {
  int64_t dims[MT_MAX_DIM];
  explicit_norm e = {.c = b->c, .g = G, .x = b->in[0], .w = b->in[1], .rms = rms};
  e.dims = last_dims(b, dims);
  e.eps = b->arg[rms ? 3 : 4];
  explicit_grad(&e);
  mt_grad(b, 0, e.gx);
  if (b->need[1]) mt_grad(b, 1, e.gh); /* the engine sums the broadcast dims */
  if (!rms && b->need[2]) mt_grad(b, 2, G);
}

static void back_layer_norm(mt_back *b) {
  mt_ctx *c = b->c;
  if (!G) return;
  if (c->rt->grad_enabled) {
    explicit_rows(b, false);
    return;
  }
  mt_grad(b, 0,
          MT_DO(c, "_layer_norm_back", mt_t(G), mt_t(b->in[0]), mt_t(b->out[1]), mt_t(b->out[2]),
                mt_t(b->in[1]), b->arg[1]));
  if (b->need[1]) mt_grad(b, 1, mt_nth(c, 1));
  if (b->need[2]) mt_grad(b, 2, mt_nth(c, 2));
}

static void back_rms_norm(mt_back *b) {
  mt_ctx *c = b->c;
  if (!G) return;
  if (c->rt->grad_enabled) {
    explicit_rows(b, true);
    return;
  }
  mt_grad(b, 0,
          MT_DO(c, "_rms_norm_back", mt_t(G), mt_t(b->in[0]), mt_t(b->out[1]), mt_t(b->in[1]),
                b->arg[1]));
  if (b->need[1]) mt_grad(b, 1, mt_nth(c, 1));
}

static void compose_layer_norm(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "_layer_norm", arg[0], arg[1], arg[2], arg[3], arg[4]));
}

/* The default eps is the spacing of the dtype at 1. */
static void compose_rms_norm(mt_ctx *c, const mt_value *arg) {
  mt_dtype d = (mt_dtype)arg[0].u.t->v.dtype;
  double eps = d == MT_F64 ? 0x1p-52 : d == MT_F32 ? 0x1p-23 : d == MT_F16 ? 0x1p-10 : 0x1p-7;
  if (mt_given(&arg[3])) eps = mt_argf(&arg[3]);
  mt_return(c, MT_DO(c, "_rms_norm", arg[0], arg[1], arg[2], mt_f(eps)));
}

/* ---- group norm: x, groups, weight, bias, eps ---- */

static int check_channels(mt_call *c, const mt_view *x, int least) {
  if (x->ndim >= least) return MT_OK;
  return mt_fail(c->rt, MT_ERROR, "argument 'input': expected (N, C, ...), got %s",
                 mt_tensor_str(c->in[0]));
}

static int shape_group(mt_call *c) {
  const mt_view *x = c->inv[0];
  int64_t groups = mt_ci(c, 1), size[2];
  int status = check_channels(c, x, 2);
  if (status) return status;
  if (x->ndim == MT_MAX_DIM)
    return mt_fail(c->rt, MT_ERROR, "argument 'input': at most %d dims", MT_MAX_DIM - 1);
  if (groups < 1 || x->size[1] % groups != 0)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'num_groups': %lld channels are not %lld equal groups",
                   (long long)x->size[1], (long long)groups);
  for (int in = 1; in < 3 && !status; in++) status = check_param(c, in + 1, in, 1, &x->size[1]);
  size[0] = x->size[0];
  size[1] = groups;
  mt_spec_like(&c->out[0], x);
  for (int o = 1; o < 3; o++) {
    mt_spec_set(&c->out[o], 2, size);
    c->out[o].dtype = stat_type(c->common);
  }
  return status;
}

static int shape_channels_back(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[1]);
  for (int o = 1; o < 3; o++) mt_spec_set(&c->out[o], 1, &c->inv[1]->size[1]);
  return MT_OK;
}

/* (N, C, ...) as (N, groups, rest), so that one dim is normalised. */
static moth_tensor *grouped(mt_back *b, moth_tensor *t, int64_t groups) {
  const mt_meta *m = &b->meta[0];
  int64_t rest = groups ? m->size[1] / groups : 0;
  for (int d = 2; d < m->ndim; d++) rest *= m->size[d];
  int64_t size[3] = {m->size[0], groups, rest};
  return t ? MT_DO(b->c, "reshape", mt_t(t), mt_ints(size, 3)) : NULL;
}

static void explicit_group(mt_back *b) {
  mt_ctx *c = b->c;
  int64_t groups = b->arg[1].u.i, dim = 2;
  moth_tensor *w = per_channel(c, b->in[1], b->meta[0].ndim);
  moth_tensor *ones = w ? MT_DO(c, "expand", mt_t(w), mt_meta_size(b, 0)) : NULL;
  explicit_norm e = {.c = c, .g = grouped(b, G, groups), .x = grouped(b, b->in[0], groups)};
  e.w = grouped(b, ones, groups);
  e.dims = mt_ints(&dim, 1);
  e.eps = b->arg[4];
  explicit_grad(&e);
  mt_grad(b, 0, MT_DO(c, "reshape", mt_t(e.gx), mt_meta_size(b, 0)));
  if (b->need[1])
    mt_grad(b, 1, channel_sum(c, MT_DO(c, "reshape", mt_t(e.gh), mt_meta_size(b, 0))));
  if (b->need[2]) mt_grad(b, 2, channel_sum(c, G));
}

static void back_group_norm(mt_back *b) {
  mt_ctx *c = b->c;
  if (!G) return;
  if (c->rt->grad_enabled) {
    explicit_group(b);
    return;
  }
  mt_grad(b, 0,
          MT_DO(c, "_group_norm_back", mt_t(G), mt_t(b->in[0]), mt_t(b->out[1]), mt_t(b->out[2]),
                mt_t(b->in[1]), b->arg[1]));
  if (b->need[1]) mt_grad(b, 1, mt_nth(c, 1));
  if (b->need[2]) mt_grad(b, 2, mt_nth(c, 2));
}

static void compose_group_norm(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "_group_norm", arg[0], arg[1], arg[2], arg[3], arg[4]));
}

/* ---- batch norm: x, running_mean, running_var, weight, bias, training, momentum, eps ---- */

static int shape_batch(mt_call *c) {
  const mt_view *x = c->inv[0];
  bool training = c->arg[5].u.i;
  int status = check_channels(c, x, 2);
  if (status) return status;
  for (int in = 1; in < 5 && !status; in++) status = check_param(c, in, in, 1, &x->size[1]);
  if (status) return status;
  if (!training && (!c->inv[1] || !c->inv[2]))
    return mt_fail(c->rt, MT_ERROR, "running_mean and running_var are needed when not training");
  if (!c->inv[1] != !c->inv[2])
    return mt_fail(c->rt, MT_ERROR, "running_mean and running_var come together or not at all");
  if (training && x->numel == x->size[1] && x->numel > 0)
    return mt_fail(c->rt, MT_ERROR,
                   "argument 'input': more than 1 value per channel is needed in training, got %s",
                   mt_shape_str(c->rt, x->ndim, x->size));
  mt_spec_like(&c->out[0], x);
  for (int o = 1; o < 3; o++) {
    mt_spec_set(&c->out[o], 1, &x->size[1]);
    c->out[o].dtype = stat_type(c->common);
  }
  return MT_OK;
}

static void explicit_batch(mt_back *b) {
  mt_ctx *c = b->c;
  int ndim = b->meta[0].ndim, n = 0;
  int64_t dims[MT_MAX_DIM];
  for (int d = 0; d < ndim; d++)
    if (d != 1) dims[n++] = d;
  explicit_norm e = {.c = c, .g = G, .x = b->in[0], .dims = mt_ints(dims, n), .eps = b->arg[7]};
  e.w = per_channel(c, b->in[3], ndim);
  if (!b->arg[5].u.i) {
    e.mean = per_channel(c, mt_op1(c, "detach", b->out[1]), ndim); /* constants */
    e.rstd = per_channel(c, mt_op1(c, "detach", b->out[2]), ndim);
  }
  explicit_grad(&e);
  mt_grad(b, 0, e.gx);
  if (b->need[3]) mt_grad(b, 3, channel_sum(c, e.gh));
  if (b->need[4]) mt_grad(b, 4, channel_sum(c, G));
}

static void back_batch_norm(mt_back *b) {
  mt_ctx *c = b->c;
  if (!G) return;
  if (c->rt->grad_enabled) {
    explicit_batch(b);
    return;
  }
  mt_grad(b, 0,
          MT_DO(c, "_batch_norm_back", mt_t(G), mt_t(b->in[0]), mt_t(b->out[1]), mt_t(b->out[2]),
                mt_t(b->in[3]), b->arg[5]));
  if (b->need[3]) mt_grad(b, 3, mt_nth(c, 1));
  if (b->need[4]) mt_grad(b, 4, mt_nth(c, 2));
}

static void compose_batch_norm(mt_ctx *c, const mt_value *arg) {
  const char *op = arg[5].u.i && mt_given(&arg[1]) ? "_batch_norm_train" : "_batch_norm";
  mt_return(c, MT_DO(c, op, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5], arg[6], arg[7]));
}

/* ---- instance norm: x, running_mean, running_var, weight, bias, use_input_stats, ... ---- */

/* running = (1 - momentum) running + momentum * mean over the samples of `now` (N, C). */
static void move_running(mt_ctx *c, const mt_value *running, moth_tensor *now, mt_value momentum) {
  moth_tensor *mean = MT_DO(c, "mean", mt_t(now), mt_i(0));
  moth_tensor *plain = running->u.t ? mt_op1(c, "detach", running->u.t) : NULL;
  mean = plain ? mt_op2(c, "type_as", mt_op1(c, "detach", mean), plain) : NULL;
  MT_DO(c, "lerp_", mt_t(plain), mt_t(mean), momentum);
}

static void compose_instance_norm(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  if (!arg[5].u.i) {
    mt_return(c, MT_DO(c, "batch_norm", arg[0], arg[1], arg[2], arg[3], arg[4], mt_b(false), arg[6],
                       arg[7]));
    return;
  }
  if (x->v.ndim < 3 || x->v.numel == x->v.size[0] * x->v.size[1]) {
    mt_ctx_fail(c, "argument 'input': more than 1 spatial element is needed in training, got %s",
                mt_shape_str(c->rt, x->v.ndim, x->v.size));
    return;
  }
  if (mt_given(&arg[1]) && mt_given(&arg[2])) {
    int64_t dims[MT_MAX_DIM];
    for (int d = 2; d < x->v.ndim; d++) dims[d - 2] = d;
    moth_tensor *plain = mt_op1(c, "detach", x);
    moth_tensor *var = MT_DO(c, "var_mean", mt_t(plain), mt_ints(dims, x->v.ndim - 2));
    moth_tensor *mean = mt_nth(c, 1);
    move_running(c, &arg[1], mean, arg[6]);
    move_running(c, &arg[2], var, arg[6]);
  }
  mt_return(c, MT_DO(c, "group_norm", arg[0], mt_i(x->v.size[1]), arg[3], arg[4], arg[7]));
}

/* ---- local response norm ---- */

static void compose_local_response_norm(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t, *sum = NULL;
  int64_t size = arg[1].u.i;
  if (x->v.ndim < 2 || size < 1) {
    mt_ctx_fail(c, "expected an input of 2 dims or more and a size from 1, got %s and %lld",
                mt_shape_str(c->rt, x->v.ndim, x->v.size), (long long)size);
    return;
  }
  int64_t n = x->v.size[1], before = size / 2, after = (size - 1) / 2;
  int64_t shape[MT_MAX_DIM];
  for (int d = 0; d < x->v.ndim; d++) shape[d] = d == 1 ? before : x->v.size[d];
  moth_tensor *left = MT_DO(c, "zeros", mt_ints(shape, x->v.ndim), mt_i(x->v.dtype));
  shape[1] = after;
  moth_tensor *right = MT_DO(c, "zeros", mt_ints(shape, x->v.ndim), mt_i(x->v.dtype));
  moth_tensor *all[3] = {left, mt_op1(c, "square", x), right};
  if (c->status) return;
  moth_tensor *padded = MT_DO(c, "cat", mt_ts(all, 3), mt_i(1));
  for (int64_t i = 0; i < size; i++) {
    moth_tensor *part = MT_DO(c, "narrow", mt_t(padded), mt_i(1), mt_i(i), mt_i(n));
    sum = sum ? mt_op2(c, "add", sum, part) : part;
  }
  moth_tensor *scaled = mt_ops(c, "mul", sum, mt_argf(&arg[2]) / (double)size);
  moth_tensor *base = MT_DO(c, "add", mt_t(scaled), arg[4]);
  mt_return(c, mt_op2(c, "div", x, MT_DO(c, "pow", mt_t(base), arg[3])));
}

static const mt_op ops[] = {
    {.schema = "layer_norm(tensor input, int[] normalized_shape, tensor? weight=nil, tensor? "
               "bias=nil, float eps=1e-05) -> tensor",
     .help = "(x - mean) / std over the last dims, times weight, plus bias.",
     .types = FLOAT,
     .compose = compose_layer_norm,
     .onnx = "LayerNormalization:17",
     .sample = "{2,3}; {3}"},
    {.schema = "_layer_norm(tensor input, int[] normalized_shape, tensor? weight, tensor? bias, "
               "float eps) -> (tensor output, tensor mean, tensor rstd)",
     .help = "layer_norm with its statistics.",
     .types = FLOAT,
     .shape = shape_layer,
     MT_CPU_S(layer_norm),
     .backward = back_layer_norm,
     .save = MT_IN(0) | MT_IN(1) | MT_OUT(1) | MT_OUT(2),
     .flags = MT_HIDDEN},
    {.schema = "_layer_norm_back(tensor g, tensor input, tensor mean, tensor rstd, tensor? weight, "
               "int[] normalized_shape) -> (tensor gx, tensor gw, tensor gb)",
     .help = "The gradient of layer_norm.",
     .types = FLOAT,
     .shape = shape_layer_back,
     MT_CPU_S(layer_norm_back),
     .flags = MT_HIDDEN},
    {.schema = "rms_norm(tensor input, int[] normalized_shape, tensor? weight=nil, float? eps=nil) "
               "-> tensor",
     .help = "x / sqrt(mean(x^2) + eps) over the last dims, times weight.",
     .types = FLOAT,
     .compose = compose_rms_norm,
     .sample = "{2,3}; {3}"},
    {.schema = "_rms_norm(tensor input, int[] normalized_shape, tensor? weight, float eps) -> "
               "(tensor output, tensor rstd)",
     .help = "rms_norm with its statistics.",
     .types = FLOAT,
     .shape = shape_rms,
     MT_CPU_S(rms_norm),
     .backward = back_rms_norm,
     .save = MT_IN(0) | MT_IN(1) | MT_OUT(1),
     .flags = MT_HIDDEN},
    {.schema = "_rms_norm_back(tensor g, tensor input, tensor rstd, tensor? weight, int[] "
               "normalized_shape) -> (tensor gx, tensor gw)",
     .help = "The gradient of rms_norm.",
     .types = FLOAT,
     .shape = shape_layer_back,
     MT_CPU_S(rms_norm_back),
     .flags = MT_HIDDEN},
    {.schema = "group_norm(tensor input, int num_groups, tensor? weight=nil, tensor? bias=nil, "
               "float eps=1e-05) -> tensor",
     .help = "(x - mean) / std over groups of channels of one sample, times weight, plus bias.",
     .types = FLOAT,
     .compose = compose_group_norm,
     .sample = "{2,4,3}; 2"},
    {.schema = "_group_norm(tensor input, int num_groups, tensor? weight, tensor? bias, float eps) "
               "-> (tensor output, tensor mean, tensor rstd)",
     .help = "group_norm with its statistics.",
     .types = FLOAT,
     .shape = shape_group,
     MT_CPU_S(group_norm),
     .backward = back_group_norm,
     .save = MT_IN(0) | MT_IN(1) | MT_OUT(1) | MT_OUT(2),
     .flags = MT_HIDDEN},
    {.schema = "_group_norm_back(tensor g, tensor input, tensor mean, tensor rstd, tensor? weight, "
               "int num_groups) -> (tensor gx, tensor gw, tensor gb)",
     .help = "The gradient of group_norm.",
     .types = FLOAT,
     .shape = shape_channels_back,
     MT_CPU_S(group_norm_back),
     .flags = MT_HIDDEN},
    {.schema =
         "batch_norm(tensor input, tensor? running_mean=nil, tensor? running_var=nil, tensor? "
         "weight=nil, tensor? bias=nil, bool training=false, float momentum=0.1, float "
         "eps=1e-05) -> tensor",
     .help = "(x - mean) / std per channel, of the batch in training (which moves the running "
             "statistics), else of the running statistics; times weight, plus bias.",
     .types = FLOAT,
     .compose = compose_batch_norm,
     .onnx = "BatchNormalization:15",
     .sample = "{4,3}; nil; nil; nil; nil; true"},
    {.schema = "_batch_norm(tensor input, tensor? running_mean, tensor? running_var, tensor? "
               "weight, tensor? bias, bool training, float momentum, float eps) -> (tensor output, "
               "tensor mean, tensor rstd)",
     .help = "batch_norm with its statistics; running ones are read only.",
     .types = FLOAT,
     .shape = shape_batch,
     MT_CPU_S(batch_norm),
     .backward = back_batch_norm,
     .save = MT_IN(0) | MT_IN(3) | MT_OUT(1) | MT_OUT(2),
     .flags = MT_HIDDEN},
    {.schema = "_batch_norm_train(tensor input, tensor? running_mean, tensor? running_var, tensor? "
               "weight, tensor? bias, bool training, float momentum, float eps) -> (tensor output, "
               "tensor mean, tensor rstd)",
     .help = "batch_norm with its statistics; moves the running ones.",
     .types = FLOAT,
     .shape = shape_batch,
     MT_CPU_S(batch_norm),
     .backward = back_batch_norm,
     .save = MT_IN(0) | MT_IN(3) | MT_OUT(1) | MT_OUT(2),
     .mutates = MT_IN(1) | MT_IN(2),
     .flags = MT_HIDDEN},
    {.schema = "_batch_norm_back(tensor g, tensor input, tensor mean, tensor rstd, tensor? weight, "
               "bool training) -> (tensor gx, tensor gw, tensor gb)",
     .help = "The gradient of batch_norm.",
     .types = FLOAT,
     .shape = shape_channels_back,
     MT_CPU_S(batch_norm_back),
     .flags = MT_HIDDEN},
    {.schema = "instance_norm(tensor input, tensor? running_mean=nil, tensor? running_var=nil, "
               "tensor? weight=nil, tensor? bias=nil, bool use_input_stats=true, float "
               "momentum=0.1, float eps=1e-05) -> tensor",
     .help = "(x - mean) / std per channel of one sample, times weight, plus bias.",
     .types = FLOAT,
     .compose = compose_instance_norm,
     .sample = "{2,3,4}"},
    {.schema = "local_response_norm(tensor input, int size, float alpha=0.0001, float beta=0.75, "
               "float k=1.0) -> tensor",
     .help = "x / (k + alpha * mean of squares over `size` neighbouring channels) ^ beta.",
     .types = FLOAT,
     .compose = compose_local_response_norm,
     .sample = "{2,4,3}; 2"},
};
MT_FAMILY(norm, ops);
