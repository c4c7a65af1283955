/* random.c - numbers drawn from the runtime's generator (moth.manual_seed).
 *
 * The same seed gives the same numbers on any number of threads and with any instruction set.
 * Nothing drawn has a gradient; normal(mean, std) and gumbel_softmax are differentiable in their
 * arguments because they are composed. */
#include <math.h>

#include "positions.h"

#define NEW \
  { MT_ALL, MT_DEFAULT, MT_COMMON }
#define NEW_FLOAT \
  { MT_REALFLOATS, MT_DEFAULT, MT_COMMON }
#define FLOATS \
  { MT_REALFLOATS, MT_FIRST, MT_COMMON }
#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define INPLACE (MT_METHOD | MT_INPLACE | MT_NOFUNC)

/* ---- new tensors ---- */

static int shape_size_at(mt_call *c, int j) {
  int64_t size[MT_MAX_DIM];
  int n, status = mt_arg_list(c, j, size, &n);
  if (status) return status;
  if (mt_shape_numel(n, size) < 0)
    return mt_fail(c->rt, MT_ERROR, "argument 'size': invalid shape %s",
                   mt_shape_str(c->rt, n, size));
  mt_spec_set(&c->out[0], n, size);
  return MT_OK;
}
static int shape_size(mt_call *c) { return shape_size_at(c, 0); }

static mt_value like_dtype(const mt_value *arg, int j) {
  return mt_given(&arg[j]) ? arg[j] : mt_i(arg[0].u.t->v.dtype);
}
static mt_value like_size(const mt_value *arg) {
  return mt_ints(arg[0].u.t->v.size, arg[0].u.t->v.ndim);
}
static void compose_rand_like(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "rand", like_size(arg), like_dtype(arg, 1)));
}
static void compose_randn_like(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "randn", like_size(arg), like_dtype(arg, 1)));
}

/* randint(high, size) or randint(low, high, size) */
static void compose_randint(mt_ctx *c, const mt_value *arg) {
  mt_value low = arg[0], high = arg[1], size = arg[2];
  if (!mt_given(&size)) {
    if (high.kind != MT_INTS) {
      mt_ctx_fail(c, "expected randint(high, size) or randint(low, high, size)");
      return;
    }
    size = high;
    high = low;
    low = mt_i(0);
  } else if (high.n == 1) {
    high = mt_i(high.u.ints[0]);
  } else {
    mt_ctx_fail(c, "argument 'high': expected an integer");
    return;
  }
  mt_return(c, MT_DO(c, "_randint", low, high, size, mt_given(&arg[3]) ? arg[3] : mt_i(MT_I64)));
}

static int shape_randint(mt_call *c) {
  if (mt_ci(c, 0) >= mt_ci(c, 1))
    return mt_fail(c->rt, MT_ERROR, "nothing to draw from: low %lld, high %lld",
                   (long long)mt_ci(c, 0), (long long)mt_ci(c, 1));
  return shape_size_at(c, 2);
}

static void compose_randint_like(mt_ctx *c, const mt_value *arg) {
  mt_value low = arg[1], high = arg[2];
  if (!mt_given(&high)) {
    high = low;
    low = mt_i(0);
  }
  mt_return(c, MT_DO(c, "_randint", low, high, like_size(arg), like_dtype(arg, 3)));
}

static int shape_randperm(mt_call *c) {
  int64_t n = mt_ci(c, 0);
  if (n < 0) return mt_fail(c->rt, MT_ERROR, "argument 'n': cannot be negative");
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

/* normal(mean, std, size): tensors broadcast; with two numbers the size is given. */
static void compose_normal(mt_ctx *c, const mt_value *arg) {
  bool a = arg[0].kind == MT_TENSOR, b = arg[1].kind == MT_TENSOR;
  moth_tensor *noise;
  if (!a && !b) {
    if (!mt_given(&arg[2])) {
      mt_ctx_fail(c, "argument 'size': needed when mean and std are numbers");
      return;
    }
    noise = MT_DO(c, "randn", arg[2]);
  } else {
    mt_spec s;
    const mt_view *v[2] = {a ? &arg[0].u.t->v : NULL, b ? &arg[1].u.t->v : NULL};
    c->status = mt_shape_broadcast(c->rt, &s, 2, v);
    mt_dtype d = (mt_dtype)(a ? v[0] : v[1])->dtype;
    noise = MT_DO(c, "randn", mt_ints(s.size, s.ndim), mt_i(d));
  }
  moth_tensor *y = MT_DO(c, "mul", mt_t(noise), arg[1]);
  mt_return(c, MT_DO(c, "add", mt_t(y), arg[0]));
}

/* ---- tensors filled ---- */

static int shape_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  c->out[0].strided = false;
  return MT_OK;
}
static int shape_uniform(mt_call *c) {
  if (!(mt_argf(&c->arg[1]) <= mt_argf(&c->arg[2])))
    return mt_fail(c->rt, MT_ERROR, "from %.14g is above to %.14g", mt_argf(&c->arg[1]),
                   mt_argf(&c->arg[2]));
  return shape_self(c);
}
static int shape_normal(mt_call *c) {
  if (!(mt_argf(&c->arg[2]) >= 0))
    return mt_fail(c->rt, MT_ERROR, "argument 'std': cannot be negative, got %.14g",
                   mt_argf(&c->arg[2]));
  return shape_self(c);
}
static int shape_exponential(mt_call *c) {
  if (!(mt_argf(&c->arg[1]) > 0))
    return mt_fail(c->rt, MT_ERROR, "argument 'lambd': expected a positive number, got %.14g",
                   mt_argf(&c->arg[1]));
  return shape_self(c);
}
static int shape_bernoulli_p(mt_call *c) {
  const mt_view *p = c->inv[1];
  if (p->ndim != 0 && !mt_shape_equal(p, c->inv[0]))
    return mt_fail(c->rt, MT_ERROR, "argument 'p': expected a number or a tensor of shape %s",
                   mt_shape_str(c->rt, c->inv[0]->ndim, c->inv[0]->size));
  return shape_self(c);
}

static moth_tensor *unit(mt_ctx *c, const mt_value *arg) {
  return MT_DO(c, "rand", like_size(arg), mt_i(arg[0].u.t->v.dtype));
}
/* The in-place twin writes the result to self; it has self's dtype. */
static void filled(mt_ctx *c, const mt_value *arg, moth_tensor *y) {
  mt_return(c, y ? MT_DO(c, "to", mt_t(y), mt_i(arg[0].u.t->v.dtype)) : NULL);
}

/* ceil(log(1-u) / log(1-p)), computed in float64 whatever self holds */
static void compose_geometric(mt_ctx *c, const mt_value *arg) {
  double p = mt_argf(&arg[1]);
  if (!(p > 0 && p < 1)) {
    mt_ctx_fail(c, "argument 'p': expected a number between 0 and 1, got %.14g", p);
    return;
  }
  moth_tensor *e = MT_DO(c, "zeros", like_size(arg), mt_i(MT_F64));
  e = MT_DO(c, "exponential_", mt_t(e), mt_f(-log1p(-p)));
  filled(c, arg, mt_op1(c, "ceil", e));
}

static void compose_cauchy(mt_ctx *c, const mt_value *arg) {
  moth_tensor *u = mt_ops(c, "sub", unit(c, arg), 0.5);
  moth_tensor *t = mt_op1(c, "tan", mt_ops(c, "mul", u, 3.14159265358979323846));
  filled(c, arg, MT_DO(c, "add", mt_t(MT_DO(c, "mul", mt_t(t), arg[2])), arg[1]));
}

static void compose_log_normal(mt_ctx *c, const mt_value *arg) {
  moth_tensor *z = MT_DO(c, "randn", like_size(arg), mt_i(arg[0].u.t->v.dtype));
  z = MT_DO(c, "add", mt_t(MT_DO(c, "mul", mt_t(z), arg[2])), arg[1]);
  filled(c, arg, mt_op1(c, "exp", z));
}

/* random_(): integers that the dtype holds exactly; random_(to); random_(from, to) */
static void compose_random(mt_ctx *c, const mt_value *arg) {
  static const int bits[MT_NDTYPES] = {
      [MT_F64] = 53, [MT_F32] = 24, [MT_F16] = 11, [MT_BF16] = 8, [MT_I64] = 62, [MT_I32] = 31,
      [MT_I16] = 15, [MT_I8] = 7,   [MT_U8] = 8,   [MT_BOOL] = 1, [MT_C64] = 24};
  mt_value low = arg[1], high = arg[2];
  if (!mt_given(&high)) {
    high = low;
    low = mt_i(0);
  }
  if (!mt_given(&high)) high = mt_i((int64_t)1 << bits[arg[0].u.t->v.dtype]);
  filled(c, arg, MT_DO(c, "_randint", low, high, like_size(arg), mt_i(MT_I64)));
}

/* A normal cut to [a, b] by inverting its distribution function. */
static void compose_trunc_normal(mt_ctx *c, const mt_value *arg) {
  double mean = arg[1].u.f, std = arg[2].u.f, a = arg[3].u.f, b = arg[4].u.f;
  double low = erf((a - mean) / std / sqrt(2)), high = erf((b - mean) / std / sqrt(2));
  if (!(std > 0 && a < b)) {
    mt_ctx_fail(c, "expected a positive std and a below b");
    return;
  }
  moth_tensor *u = MT_DO(c, "zeros", like_size(arg), mt_i(MT_F64));
  u = MT_DO(c, "uniform_", mt_t(u), mt_f(low), mt_f(high));
  moth_tensor *z = mt_ops(c, "mul", mt_op1(c, "erfinv", u), std * sqrt(2));
  filled(c, arg, MT_DO(c, "clamp", mt_t(mt_ops(c, "add", z, mean)), arg[3], arg[4]));
}

/* ---- samples ---- */

static int shape_multinomial(mt_call *c) {
  const mt_view *x = c->inv[0];
  int64_t n = mt_ci(c, 1), size[2];
  if (x->ndim < 1 || x->ndim > 2 || x->size[x->ndim - 1] < 1)
    return mt_fail(c->rt, MT_ERROR, "expected weights of 1 or 2 dims, got %s",
                   mt_tensor_str(c->in[0]));
  if (n < 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'num_samples': expected a positive number, got %lld",
                   (long long)n);
  if (!mt_ci(c, 2) && n > x->size[x->ndim - 1])
    return mt_fail(c->rt, MT_ERROR, "cannot draw %lld of %lld categories without replacement",
                   (long long)n, (long long)x->size[x->ndim - 1]);
  size[0] = x->size[0];
  size[x->ndim - 1] = n;
  mt_spec_set(&c->out[0], x->ndim, size);
  return MT_OK;
}

/* softmax((logits + noise) / tau), with noise -log(exponential); hard: the winner, with the
 * gradient of the soft one. */
static void compose_gumbel_softmax(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  moth_tensor *e = MT_DO(c, "exponential_", mt_t(mt_op1(c, "empty_like", x)));
  moth_tensor *z = MT_DO(c, "sub", arg[0], mt_t(mt_op1(c, "log", e)));
  moth_tensor *soft = MT_DO(c, "softmax", mt_t(MT_DO(c, "div", mt_t(z), arg[1])), arg[3]);
  if (!arg[2].u.i) {
    mt_return(c, soft);
    return;
  }
  moth_tensor *at = MT_DO(c, "argmax", mt_t(soft), arg[3], mt_b(true));
  moth_tensor *one =
      MT_DO(c, "scatter", mt_t(mt_op1(c, "zeros_like", soft)), arg[3], mt_t(at), mt_i(1));
  moth_tensor *rest = mt_op2(c, "sub", one, mt_op1(c, "detach", soft));
  mt_return(c, mt_op2(c, "add", rest, soft));
}

static const mt_op ops[] = {
    {.schema = "rand(size size, *, dtype? dtype=nil) -> tensor",
     .help = "Uniform numbers in [0, 1).",
     .types = NEW_FLOAT,
     .shape = shape_size,
     MT_CPU(rand),
     .onnx = "RandomUniform:1",
     .sample = "{2,3}",
     .flags = MT_RANDOM},
    {.schema = "randn(size size, *, dtype? dtype=nil) -> tensor",
     .help = "Normal numbers of mean 0 and deviation 1.",
     .types = NEW_FLOAT,
     .shape = shape_size,
     MT_CPU(randn),
     .onnx = "RandomNormal:1",
     .sample = "{2,3}",
     .flags = MT_RANDOM},
    {.schema = "randint(int low, int[] high, int[]? size=nil, *, dtype? dtype=nil) -> tensor",
     .help = "Integers low, low+1 .. high-1 (int64 unless a dtype is given); low may be left out.",
     .types = NEW,
     .compose = compose_randint,
     .sample = "1; 7; {2,3}"},
    {.schema = "_randint(int low, int high, int[] size, *, dtype? dtype=nil) -> tensor",
     .help = "Integers low .. high-1.",
     .types = NEW,
     .shape = shape_randint,
     MT_CPU(randint),
     .flags = MT_RANDOM | MT_HIDDEN},
    {.schema = "randperm(int n) -> index",
     .help = "The positions 1 to n in random order.",
     .types = NEW,
     .shape = shape_randperm,
     MT_CPU_S(randperm),
     .sample = "6",
     .flags = MT_RANDOM},
    {.schema = "rand_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "rand of the shape and dtype of self.",
     .types = ANY,
     .compose = compose_rand_like,
     .sample = "{2,3}"},
    {.schema = "randn_like(tensor self, *, dtype? dtype=nil) -> tensor",
     .help = "randn of the shape and dtype of self.",
     .types = ANY,
     .compose = compose_randn_like,
     .sample = "{2,3}"},
    {.schema = "randint_like(tensor self, int low, int? high=nil, *, dtype? dtype=nil) -> tensor",
     .help = "randint of the shape and dtype of self.",
     .types = ANY,
     .compose = compose_randint_like,
     .sample = "{2,3}; 1; 7"},
    {.schema = "normal(operand mean, operand std, int[]? size=nil) -> tensor",
     .help = "Normal numbers around mean with deviation std, numbers or tensors.",
     .types = {MT_REALFLOATS, MT_PROMOTE_FLOAT, MT_COMMON},
     .compose = compose_normal,
     .sample = "{2,3}; {3}+"},
    {.schema = "uniform(tensor self, float from=0.0, float to=1.0) -> tensor",
     .help = "uniform_ fills self with numbers in [from, to).",
     .types = FLOATS,
     .shape = shape_uniform,
     MT_CPU(uniform),
     .sample = "{2,3}",
     .flags = INPLACE | MT_RANDOM},
    {.schema = "_normal_fill(tensor self, float mean=0.0, float std=1.0) -> tensor",
     .help = "x:normal_(mean, std) fills x with normal numbers.",
     .types = FLOATS,
     .shape = shape_normal,
     MT_CPU(normal),
     .flags = MT_HIDDEN | MT_INPLACE | MT_RANDOM},
    {.schema = "exponential(tensor self, float lambd=1.0) -> tensor",
     .help = "exponential_ fills self with exponential numbers of rate lambd.",
     .types = FLOATS,
     .shape = shape_exponential,
     MT_CPU(exponential),
     .sample = "{2,3}",
     .flags = INPLACE | MT_RANDOM},
    {.schema = "geometric(tensor self, float p) -> tensor",
     .help = "geometric_ fills self with numbers of tries until a success of probability p.",
     .types = ANY,
     .compose = compose_geometric,
     .sample = "{2,3}; 0.5",
     .flags = INPLACE},
    {.schema = "cauchy(tensor self, float median=0.0, float sigma=1.0) -> tensor",
     .help = "cauchy_ fills self with numbers of a Cauchy distribution.",
     .types = FLOATS,
     .compose = compose_cauchy,
     .sample = "{2,3}",
     .flags = INPLACE},
    {.schema = "log_normal(tensor self, float mean=1.0, float std=2.0) -> tensor",
     .help = "log_normal_ fills self with exponentials of normal numbers.",
     .types = FLOATS,
     .compose = compose_log_normal,
     .sample = "{2,3}",
     .flags = INPLACE},
    {.schema = "random(tensor self, int? from=nil, int? to=nil) -> tensor",
     .help =
         "random_ fills self with integers from .. to-1; without bounds with what its dtype holds.",
     .types = ANY,
     .compose = compose_random,
     .sample = "{2,3}; 1; 9",
     .flags = INPLACE},
    {.schema =
         "trunc_normal(tensor self, float mean=0.0, float std=1.0, float a=-2.0, float b=2.0) "
         "-> tensor",
     .help = "trunc_normal_ fills self with normal numbers cut to [a, b].",
     .types = FLOATS,
     .compose = compose_trunc_normal,
     .flags = INPLACE},
    {.schema = "bernoulli(tensor self) -> tensor",
     .help = "1 with the probability that self holds, else 0.",
     .types = FLOATS,
     .shape = shape_self,
     MT_CPU(bernoulli),
     .backward = mt_back_zero,
     .sample = "{2,3}p",
     .flags = MT_METHOD | MT_RANDOM},
    {.schema = "_bernoulli_fill(tensor self, operand p=0.5) -> tensor",
     .help = "x:bernoulli_(p) fills x with 1 with probability p, else 0.",
     .types = ANY,
     .shape = shape_bernoulli_p,
     MT_CPU(bernoulli_p),
     .flags = MT_HIDDEN | MT_INPLACE | MT_RANDOM},
    {.schema = "multinomial(tensor self, int num_samples, bool replacement=false) -> index",
     .help =
         "Positions drawn with probabilities proportional to the weights in self (in each row).",
     .types = FLOATS,
     .shape = shape_multinomial,
     MT_CPU_S(multinomial),
     .sample = "{2,5}p; 3",
     .flags = MT_METHOD | MT_RANDOM},
    {.schema = "poisson(tensor self) -> tensor",
     .help = "Counts of a Poisson distribution with the rates in self.",
     .types = FLOATS,
     .shape = shape_self,
     MT_CPU(poisson),
     .backward = mt_back_zero,
     .sample = "{2,3}+",
     .flags = MT_RANDOM},
    {.schema =
         "gumbel_softmax(tensor logits, float tau=1.0, bool hard=false, dim dim=-1) -> tensor",
     .help = "A differentiable sample of categories; hard: one-hot, with the soft gradient.",
     .types = FLOATS,
     .compose = compose_gumbel_softmax},
};
MT_FAMILY(random, ops);
