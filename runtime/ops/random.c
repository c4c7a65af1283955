/* random.c - random numbers, and dropout.
 *
 * Draws come from the runtime's generator: a seed and a counter that every draw advances. */
#include <math.h>

#include "rules.h"

#define NEW {MT_REALFLOATS, MT_DEFAULT, MT_COMMON}
#define FLOAT {MT_REALFLOATS, MT_FIRST, MT_COMMON}
#define FILL (MT_METHOD | MT_INPLACE | MT_NOFUNC | MT_RANDOM)

static int shape_size(mt_call *c) {
  int64_t size[MT_MAX_DIM];
  int n, status = mt_arg_list(c, 0, size, &n);
  mt_spec_set(&c->out[0], n, size);
  return status;
}
static int shape_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  return MT_OK;
}

/* ---- like another ---- */

static void like(mt_ctx *c, const char *op, const mt_value *arg) {
  const mt_view *v = &arg[0].u.t->v;
  mt_return(c, MT_DO(c, op, mt_ints(v->size, v->ndim), mt_given(&arg[1]) ? arg[1] : mt_i(v->dtype)));
}
static void compose_rand_like(mt_ctx *c, const mt_value *arg) { like(c, "rand", arg); }
static void compose_randn_like(mt_ctx *c, const mt_value *arg) { like(c, "randn", arg); }

/* ---- by the inverse of their distribution function ---- */

static moth_tensor *uniform_as(mt_ctx *c, const mt_value *arg) {
  moth_tensor *u = mt_op1(c, "empty_like", arg[0].u.t);
  if (u && !mt_dtype_is_float((mt_dtype)u->v.dtype))
    u = MT_DO(c, "empty_like", arg[0], mt_i(c->rt->default_float));
  return MT_DO(c, "uniform_", mt_t(u));
}
static void compose_cauchy(mt_ctx *c, const mt_value *arg) {
  moth_tensor *u = mt_ops(c, "mul", mt_ops(c, "sub", uniform_as(c, arg), 0.5), 3.14159265358979324);
  moth_tensor *t = MT_DO(c, "mul", mt_t(mt_op1(c, "tan", u)), arg[2]);
  mt_return(c, MT_DO(c, "add", mt_t(t), arg[1]));
}
static void compose_log_normal(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = mt_op1(c, "empty_like", arg[0].u.t);
  mt_return(c, mt_op1(c, "exp", MT_DO(c, "_normal_fill_", mt_t(x), arg[1], arg[2])));
}
/* Trials up to the first success: ceil(log(1 - u) / log(1 - p)), at least 1. */
static void compose_geometric(mt_ctx *c, const mt_value *arg) {
  double p = arg[1].u.f;
  if (!(p > 0 && p < 1)) mt_ctx_fail(c, "argument 'p': expected 0 < p < 1, got %.14g", p);
  moth_tensor *l = mt_op1(c, "log1p", mt_op1(c, "neg", uniform_as(c, arg)));
  moth_tensor *n = mt_op1(c, "ceil", mt_ops(c, "div", l, log1p(-p)));
  moth_tensor *x = MT_DO(c, "clamp_min", mt_t(n), mt_i(1));
  mt_return(c, MT_DO(c, "to", mt_t(x), mt_i(arg[0].u.t->v.dtype)));
}

/* ---- integers ---- */

/* randint(high, size) or randint(low, high, size) */
static void compose_randint(mt_ctx *c, const mt_value *arg) {
  mt_value lo = arg[0], size = arg[2];
  int64_t high;
  if (mt_given(&size)) {
    if (arg[1].n != 1) {
      mt_ctx_fail(c, "argument 'high': expected one integer");
      return;
    }
    high = arg[1].u.ints[0];
  } else {
    size = arg[1];
    high = lo.u.i;
    lo = mt_i(0);
  }
  if (high <= lo.u.i) {
    mt_ctx_fail(c, "argument 'high': expected more than %lld, got %lld", (long long)lo.u.i,
                (long long)high);
    return;
  }
  mt_return(c, MT_DO(c, "_randint", lo, mt_i(high), size, arg[3]));
}
static int shape_randint(mt_call *c) {
  int64_t size[MT_MAX_DIM];
  int n, status = mt_arg_list(c, 2, size, &n);
  mt_spec_set(&c->out[0], n, size);
  return status;
}
/* random_(from=0, to): integers; without `to` as many as the dtype counts exactly. */
static void compose_random(mt_ctx *c, const mt_value *arg) {
  static const int64_t most[] = {(int64_t)1 << 53, 1 << 24, 1 << 11, 1 << 8, INT64_MAX,
                                 INT32_MAX,        32767,   127,     255,    1};
  const mt_view *v = &arg[0].u.t->v;
  mt_value lo = arg[1];
  int64_t high = mt_given(&arg[2]) ? arg[2].u.i : v->dtype == MT_C64 ? 1 << 24 : most[v->dtype] + 1;
  if (v->dtype == MT_I64 && !mt_given(&arg[2])) high = INT64_MAX;
  if (high <= lo.u.i) {
    mt_ctx_fail(c, "argument 'to': expected more than %lld, got %lld", (long long)lo.u.i,
                (long long)high);
    return;
  }
  mt_return(c, MT_DO(c, "_randint", lo, mt_i(high), mt_ints(v->size, v->ndim), mt_i(v->dtype)));
}
static int shape_randperm(mt_call *c) {
  int64_t n = mt_ci(c, 0);
  if (n < 0) return mt_fail(c->rt, MT_ERROR, "argument 'n': cannot be negative");
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

/* ---- normal(mean, std, size) with tensors or numbers ---- */

static void compose_normal(mt_ctx *c, const mt_value *arg) {
  mt_value size = arg[2];
  moth_tensor *m = arg[0].kind == MT_TENSOR ? arg[0].u.t : NULL;
  moth_tensor *s = arg[1].kind == MT_TENSOR ? arg[1].u.t : NULL;
  moth_tensor *z;
  if (m || s) {
    moth_tensor *shape = m && s ? MT_DO(c, "add", mt_t(m), mt_t(s)) : m ? m : s;
    z = mt_op1(c, "randn_like", shape);
  } else if (mt_given(&size)) {
    z = MT_DO(c, "randn", size, arg[3]);
  } else {
    mt_ctx_fail(c, "argument 'size': is needed when mean and std are numbers");
    return;
  }
  mt_return(c, MT_DO(c, "add", mt_t(MT_DO(c, "mul", mt_t(z), arg[1])), arg[0]));
}

/* ---- choices ---- */

static int shape_multinomial(mt_call *c) {
  const mt_view *v = c->inv[0];
  int64_t n = mt_ci(c, 1);
  if (v->ndim < 1 || v->ndim > 2)
    return mt_fail(c->rt, MT_ERROR, "expected weights with 1 or 2 dims, got %s",
                   mt_tensor_str(c->in[0]));
  int64_t have = v->size[v->ndim - 1];
  if (n < 1 || (n > have && !mt_ci(c, 2)) || have == 0)
    return mt_fail(c->rt, MT_ERROR, "argument 'num_samples': cannot draw %lld of %lld", (long long)n,
                   (long long)have);
  mt_spec_like(&c->out[0], v);
  c->out[0].size[v->ndim - 1] = n;
  return MT_OK;
}
/* bernoulli_(p): p a number or a tensor that broadcasts. */
static void compose_bernoulli_fill(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  mt_value p = arg[1];
  if (p.kind == MT_TENSOR) p = mt_t(MT_DO(c, "expand", p, mt_ints(x->v.size, x->v.ndim)));
  mt_return(c, MT_DO(c, "_bernoulli_p", arg[0], p));
}

/* ---- dropout ---- */

static int shape_dropout(mt_call *c) {
  double p = mt_argf(&c->arg[1]);
  if (!(p >= 0 && p <= 1))
    return mt_fail(c->rt, MT_ERROR, "argument 'p': expected 0..1, got %.14g", p);
  mt_spec_like(&c->out[0], c->inv[0]);
  int64_t two = 2;
  mt_spec_set(&c->out[1], 1, &two);
  c->out[1].dtype = MT_I64;
  return MT_OK;
}
/* The mask is not kept: it is drawn again from the same counters. */
static void back_dropout(mt_back *b) {
  if (b->g[0])
    mt_grad(b, 0, MT_DO(b->c, "_dropout_back", mt_t(b->g[0]), mt_t(b->out[1]), b->arg[1]));
}
static void back_dropout_back(mt_back *b) {
  if (b->need[0])
    mt_grad(b, 0, MT_DO(b->c, "_dropout_back", mt_t(b->g[0]), mt_t(b->in[1]), b->arg[2]));
}
static bool check_p(mt_ctx *c, double p) {
  if (p >= 0 && p <= 1) return true;
  mt_ctx_fail(c, "argument 'p': expected 0..1, got %.14g", p);
  return false;
}
static void compose_dropout(mt_ctx *c, const mt_value *arg) {
  if (!check_p(c, arg[1].u.f)) return;
  bool off = !arg[2].u.i || arg[1].u.f == 0;
  mt_return(c, off ? arg[0].u.t : MT_DO(c, "_dropout", arg[0], arg[1]));
}

/* Whole channels: one draw for all that lies behind the first `lead` dims. */
static moth_tensor *channel_mask(mt_ctx *c, moth_tensor *x, int lead, double p) {
  int64_t size[MT_MAX_DIM];
  for (int d = 0; d < x->v.ndim; d++) size[d] = d < lead ? x->v.size[d] : 1;
  moth_tensor *m = MT_DO(c, "empty", mt_ints(size, x->v.ndim), mt_i(x->v.dtype));
  return MT_DO(c, "_bernoulli_fill_", mt_t(m), mt_f(1 - p));
}
static void channels(mt_ctx *c, const mt_value *arg, int spatial) {
  moth_tensor *x = arg[0].u.t;
  double p = arg[1].u.f;
  if (!check_p(c, p)) return;
  if (!arg[2].u.i || p == 0) {
    mt_return(c, x);
    return;
  }
  int lead = x->v.ndim - spatial;
  if (lead < 1) {
    mt_ctx_fail(c, "expected at least %d dims, got %s", spatial + 1, mt_tensor_str(x));
    return;
  }
  moth_tensor *m = channel_mask(c, x, lead, p);
  mt_return(c, mt_op2(c, "mul", x, mt_ops(c, "mul", m, p < 1 ? 1 / (1 - p) : 0)));
}
static void compose_dropout1d(mt_ctx *c, const mt_value *arg) { channels(c, arg, 1); }
static void compose_dropout2d(mt_ctx *c, const mt_value *arg) { channels(c, arg, 2); }
static void compose_dropout3d(mt_ctx *c, const mt_value *arg) { channels(c, arg, 3); }

/* Keeps mean 0 and variance 1: dropped elements become the negative saturation of selu. */
static void alpha(mt_ctx *c, const mt_value *arg, bool whole) {
  const double sat = -1.7580993408473766;
  moth_tensor *x = arg[0].u.t;
  double p = arg[1].u.f;
  if (!check_p(c, p)) return;
  if (!arg[2].u.i || p == 0) {
    mt_return(c, x);
    return;
  }
  if (p == 1) {
    mt_return(c, mt_ops(c, "mul", x, 0));
    return;
  }
  double a = 1 / sqrt((1 - p) * (1 + p * sat * sat)), shift = -a * p * sat;
  moth_tensor *m = channel_mask(c, x, whole && x->v.ndim > 2 ? 2 : x->v.ndim, p);
  moth_tensor *kept = MT_DO(c, "where", mt_t(MT_DO(c, "to", mt_t(m), mt_i(MT_BOOL))), mt_t(x),
                            mt_f(sat));
  mt_return(c, mt_ops(c, "add", mt_ops(c, "mul", kept, a), shift));
}
static void compose_alpha(mt_ctx *c, const mt_value *arg) { alpha(c, arg, false); }
static void compose_feature_alpha(mt_ctx *c, const mt_value *arg) { alpha(c, arg, true); }

static const mt_op ops[] = {
    {.schema = "rand(size size, *, dtype? dtype=nil) -> tensor", .help = "Uniform in [0, 1).",
     .types = NEW, .shape = shape_size, MT_CPU(rand), .flags = MT_RANDOM},
    {.schema = "randn(size size, *, dtype? dtype=nil) -> tensor",
     .help = "Normal with mean 0 and standard deviation 1.", .types = NEW, .shape = shape_size,
     MT_CPU(randn), .flags = MT_RANDOM},
    {.schema = "rand_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "Uniform in [0, 1), of the shape and dtype of self.", .types = FLOAT,
     .compose = compose_rand_like},
    {.schema = "randn_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "Standard normal, of the shape and dtype of self.", .types = FLOAT,
     .compose = compose_randn_like},
    {.schema = "randint(int low, int[] high, int[]? size=nil, *, dtype dtype=int64) -> tensor",
     .help = "Integers in [low, high): randint(high, size) or randint(low, high, size).",
     .types = {MT_REALS, MT_DEFAULT, MT_COMMON}, .compose = compose_randint},
    {.schema = "_randint(int low, int high, int[] size, dtype dtype) -> tensor",
     .help = "Integers in [low, high).", .types = {MT_REALS_B, MT_DEFAULT, MT_COMMON},
     .shape = shape_randint, MT_CPU(randint), .flags = MT_HIDDEN | MT_RANDOM},
    {.schema = "randperm(int n) -> index", .help = "The positions 1..n in random order.",
     .types = {MT_ALL, MT_DEFAULT, MT_COMMON}, .shape = shape_randperm, MT_CPU(randperm),
     .flags = MT_RANDOM},
    {.schema = "normal(operand mean, operand std=1.0, int[]? size=nil, *, dtype? dtype=nil) -> tensor",
     .help = "Normal with means and standard deviations given as tensors or numbers.",
     .types = {MT_REALFLOATS, MT_DEFAULT, MT_COMMON}, .compose = compose_normal},
    {.schema = "_normal_fill(tensor self, float mean=0, float std=1) -> tensor",
     .help = "Normal numbers of the shape of self.", .types = FLOAT, .shape = shape_self,
     MT_CPU(normal), .backward = mt_back_zero, .flags = MT_HIDDEN | MT_INPLACE | MT_RANDOM},
    {.schema = "uniform(tensor self, float from=0, float to=1) -> tensor",
     .help = "uniform_ fills self with uniform numbers in [from, to).", .types = FLOAT,
     .shape = shape_self, MT_CPU(uniform), .backward = mt_back_zero, .flags = FILL},
    {.schema = "exponential(tensor self, float lambd=1) -> tensor",
     .help = "exponential_ fills self with exponential numbers of rate lambd.", .types = FLOAT,
     .shape = shape_self, MT_CPU(exponential), .backward = mt_back_zero, .flags = FILL},
    {.schema = "cauchy(tensor self, float median=0, float sigma=1) -> tensor",
     .help = "cauchy_ fills self with Cauchy numbers.", .types = FLOAT,
     .compose = compose_cauchy, .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
    {.schema = "log_normal(tensor self, float mean=1, float std=2) -> tensor",
     .help = "log_normal_ fills self with numbers whose logarithm is normal.", .types = FLOAT,
     .compose = compose_log_normal, .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
    {.schema = "geometric(tensor self, float p) -> tensor",
     .help = "geometric_ fills self with the number of trials up to the first success.",
     .types = {MT_REALS, MT_FIRST, MT_COMMON}, .compose = compose_geometric,
     .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
    {.schema = "random(tensor self, int from=0, int? to=nil) -> tensor",
     .help = "random_ fills self with integers in [from, to).",
     .types = {MT_REALS_B, MT_FIRST, MT_COMMON}, .compose = compose_random,
     .flags = MT_METHOD | MT_INPLACE | MT_NOFUNC},
    {.schema = "_bernoulli_fill(tensor self, operand p=0.5) -> tensor",
     .help = "1 with probability p, else 0.", .types = {MT_REALS_B, MT_FIRST, MT_COMMON},
     .compose = compose_bernoulli_fill, .flags = MT_HIDDEN | MT_INPLACE},
    {.schema = "_bernoulli_p(tensor self, operand p) -> tensor",
     .help = "1 with probability p, else 0.", .types = {MT_REALS_B, MT_FIRST, MT_COMMON},
     .shape = shape_self, MT_CPU(bernoulli_p), .flags = MT_HIDDEN | MT_RANDOM},
    {.schema = "bernoulli(tensor self) -> tensor",
     .help = "1 with the probability that self holds, else 0.", .types = FLOAT,
     .shape = shape_self, MT_CPU(bernoulli), .backward = mt_back_zero,
     .flags = MT_METHOD | MT_RANDOM},
    {.schema = "multinomial(tensor self, int num_samples, bool replacement=false) -> index",
     .help = "Positions drawn with the weights in the last dim of self.", .types = FLOAT,
     .shape = shape_multinomial, MT_CPU_S(multinomial), .flags = MT_METHOD | MT_RANDOM},
    {.schema = "_dropout(tensor self, float p) -> (tensor output, tensor state)",
     .help = "Dropout and the counters that drew its mask.", .types = FLOAT, .shape = shape_dropout,
     MT_CPU(dropout), .backward = back_dropout, .save = MT_OUT(1), .onnx = "Dropout:13",
     .flags = MT_HIDDEN | MT_RANDOM},
    {.schema = "_dropout_back(tensor g, tensor state, float p) -> tensor",
     .help = "The mask of a dropout, drawn again, on g.", .types = FLOAT, .shape = shape_self,
     MT_CPU(dropout_back), .backward = back_dropout_back, .save = MT_IN(1), .flags = MT_HIDDEN},
    {.schema = "poisson(tensor self) -> tensor",
     .help = "Counts of events at the rates that self holds.", .types = FLOAT,
     .shape = shape_self, MT_CPU(poisson), .backward = mt_back_zero,
     .flags = MT_METHOD | MT_RANDOM},
    {.schema = "dropout(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Zeroes elements with probability p and scales the others by 1/(1-p).",
     .types = FLOAT, .compose = compose_dropout, .flags = MT_METHOD | MT_INPLACE},
    {.schema = "dropout1d(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Dropout of whole channels.", .types = FLOAT, .compose = compose_dropout1d},
    {.schema = "dropout2d(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Dropout of whole channels.", .types = FLOAT, .compose = compose_dropout2d},
    {.schema = "dropout3d(tensor input, float p=0.5, bool training=true) -> tensor",
     .help = "Dropout of whole channels.", .types = FLOAT, .compose = compose_dropout3d},
    {.schema = "alpha_dropout(tensor input, float p=0.5, bool training=false) -> tensor",
     .help = "Dropout that keeps mean 0 and variance 1.", .types = FLOAT,
     .compose = compose_alpha},
    {.schema = "feature_alpha_dropout(tensor input, float p=0.5, bool training=false) -> tensor",
     .help = "alpha_dropout of whole channels.", .types = FLOAT,
     .compose = compose_feature_alpha},
};
MT_FAMILY(random, ops);
