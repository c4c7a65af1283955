/* pool.c - pooling: maximum, average, adaptive, power average, and back from positions.
 *
 * The public operations for 1, 2 and 3 dims share hidden ones that take lists. Positions count the
 * elements of a plane in row-major order. The gradient of every one is linear, so its own gradient
 * is the pooling again (averages) or reading at the positions (maxima). */
#include <string.h>

#include "rules.h"

#define FLOATS \
  { MT_REALFLOATS, MT_FIRST, MT_COMMON }
#define G b->g[0]

/* ---- shapes ---- */

/* The result of pooling nd dims begins as the input, with or without a batch. */
static int begin(mt_call *c, int nd) {
  const mt_view *x = c->inv[0];
  if (x->ndim != nd + 1 && x->ndim != nd + 2)
    return mt_fail(c->rt, MT_ERROR, "expected %d or %d dims, got %s", nd + 1, nd + 2,
                   mt_tensor_str(c->in[0]));
  for (int d = x->ndim == nd + 2; d < x->ndim; d++)
    if (x->size[d] == 0)
      return mt_fail(c->rt, MT_ERROR, "only the batch may be empty, got %s",
                     mt_tensor_str(c->in[0]));
  mt_spec_like(&c->out[0], x);
  c->out[0].strided = false;
  return MT_OK;
}

/* Kernel, stride, padding at arguments 1 to 3; dilation a list or NULL. */
static int windows(mt_call *c, const mt_value *dilation, bool ceil_mode) {
  const mt_value *kernel = &c->arg[1], *stride = &c->arg[2], *padding = &c->arg[3];
  int nd = kernel->n, status = begin(c, nd), lead = c->inv[0]->ndim - nd;
  if (status) return status;
  for (int d = 0; d < nd; d++) {
    int64_t k = kernel->u.ints[d], s = stride->u.ints[d], p = padding->u.ints[d];
    int64_t step = dilation ? dilation->u.ints[d] : 1, in = c->inv[0]->size[lead + d];
    if (k < 1 || s < 1 || step < 1)
      return mt_fail(c->rt, MT_ERROR, "kernel_size, stride and dilation must be positive");
    if (p < 0 || p > k / 2)
      return mt_fail(c->rt, MT_ERROR,
                     "argument 'padding': expected at most half of the kernel size %lld, got %lld",
                     (long long)k, (long long)p);
    int64_t room = in + 2 * p - step * (k - 1) - 1;
    int64_t out = room < 0 ? 0 : (room + (ceil_mode ? s - 1 : 0)) / s + 1;
    if (ceil_mode && (out - 1) * s >= in + p) out--;
    if (out < 1)
      return mt_fail(c->rt, MT_ERROR, "a window of %lld does not fit %lld elements (dim %d)",
                     (long long)(step * (k - 1) + 1), (long long)(in + 2 * p),
                     lead + d + mt_base(c->rt));
    c->out[0].size[lead + d] = out;
  }
  return MT_OK;
}

/* The last dims of the result are listed at argument j. */
static int listed(mt_call *c, int j) {
  const mt_value *size = &c->arg[j];
  int status = begin(c, size->n), lead = c->inv[0]->ndim - size->n;
  for (int d = 0; d < size->n && !status; d++) {
    if (size->u.ints[d] < 1)
      status =
          mt_fail(c->rt, MT_ERROR, "argument '%s': expected positive sizes", c->op->arg[j].name);
    c->out[0].size[lead + d] = size->u.ints[d];
  }
  return status;
}

static int with_positions(mt_call *c, int status) {
  if (!status) mt_spec_set(&c->out[1], c->out[0].ndim, c->out[0].size);
  return status;
}

/* The sizes of the last nd dims of input 0, for the gradient. */
static mt_value last_sizes(const mt_back *b, int nd) {
  return mt_ints(b->meta[0].size + b->meta[0].ndim - nd, nd);
}

/* ---- maximum ---- */

static int shape_max(mt_call *c) {
  return with_positions(c, windows(c, &c->arg[4], c->arg[5].u.i != 0));
}
static void back_max(mt_back *b) {
  if (G)
    mt_grad(b, 0,
            MT_DO(b->c, "_max_pool_back", mt_t(G), mt_t(b->out[1]), last_sizes(b, b->arg[1].n)));
}
static int shape_adaptive_max(mt_call *c) { return with_positions(c, listed(c, 1)); }

static int shape_positions(mt_call *c) {
  if (!mt_shape_equal(c->inv[0], c->inv[1]))
    return mt_fail(c->rt, MT_ERROR, "argument 'indices': expected shape %s, got %s",
                   mt_shape_str(c->rt, c->inv[0]->ndim, c->inv[0]->size),
                   mt_shape_str(c->rt, c->inv[1]->ndim, c->inv[1]->size));
  return listed(c, 2);
}

/* What stands at the positions of each plane of G: the gradient of writing or adding there. */
static void back_positions(mt_back *b) {
  mt_ctx *c = b->c;
  int nd = b->arg[2].n, lead = b->meta[0].ndim - nd;
  int64_t size[MT_MAX_DIM];
  memcpy(size, b->meta[0].size, sizeof size);
  size[lead] = -1;
  for (int d = 0; d < lead; d++)
    if (size[d] == 0) {
      mt_grad(b, 0, mt_zeros_meta(b, 0));
      return;
    }
  moth_tensor *g = MT_DO(c, "reshape", mt_t(G), mt_ints(size, lead + 1));
  moth_tensor *at = MT_DO(c, "reshape", b->arg[1], mt_ints(size, lead + 1));
  moth_tensor *y = MT_DO(c, "gather", mt_t(g), mt_i(lead), mt_t(at));
  mt_grad(b, 0, MT_DO(c, "reshape", mt_t(y), mt_meta_size(b, 0)));
}

static mt_value or_else(const mt_value *v, mt_value other) { return mt_given(v) ? *v : other; }

/* arg: input, kernel, stride, padding, dilation, ceil_mode, return_indices */
static void compose_max(mt_ctx *c, const mt_value *arg) {
  mt_return(
      c, MT_DO(c, "_max_pool", arg[0], arg[1], or_else(&arg[2], arg[1]), arg[3], arg[4], arg[5]));
  if (arg[6].u.i) mt_return(c, mt_nth(c, 1));
}

/* Sizes of which -1 keeps that of the input. */
static mt_value sizes_of(const mt_value *arg, int64_t *room) {
  const mt_view *v = &arg[0].u.t->v;
  int nd = arg[1].n;
  for (int d = 0; d < nd; d++) {
    int64_t s = arg[1].u.ints[d];
    room[d] = s == -1 && v->ndim >= nd ? v->size[v->ndim - nd + d] : s;
  }
  return mt_ints(room, nd);
}

static void compose_adaptive_max(mt_ctx *c, const mt_value *arg) {
  int64_t size[3];
  mt_return(c, MT_DO(c, "_adaptive_max_pool", arg[0], sizes_of(arg, size)));
  if (arg[2].u.i) mt_return(c, mt_nth(c, 1));
}

/* arg: input, indices, kernel, stride, padding, output_size. The size may come with all dims. */
static void compose_unpool(mt_ctx *c, const mt_value *arg) {
  const mt_view *v = &arg[0].u.t->v;
  const mt_value *kernel = &arg[2], stride = or_else(&arg[3], arg[2]), *given = &arg[5];
  int nd = kernel->n;
  int64_t size[3];
  if (v->ndim < nd) {
    mt_ctx_fail(c, "expected %d or %d dims, got %s", nd + 1, nd + 2, mt_tensor_str(arg[0].u.t));
    return;
  }
  if (mt_given(given) && given->n < nd) {
    mt_ctx_fail(c, "argument 'output_size': expected %d sizes, got %d", nd, given->n);
    return;
  }
  for (int d = 0; d < nd; d++) {
    size[d] = (v->size[v->ndim - nd + d] - 1) * stride.u.ints[d] - 2 * arg[4].u.ints[d] +
              kernel->u.ints[d];
    if (mt_given(given)) size[d] = given->u.ints[given->n - nd + d];
  }
  mt_return(c, MT_DO(c, "_max_unpool", arg[0], arg[1], mt_ints(size, nd)));
}

/* ---- average ---- */

/* _avg_pool: x, kernel, stride, padding, count_include_pad, divisor, ceil_mode */
static int shape_avg(mt_call *c) {
  if (mt_given(&c->arg[5]) && c->arg[5].u.i == 0)
    return mt_fail(c->rt, MT_ERROR, "argument 'divisor_override': cannot be 0");
  return windows(c, NULL, c->arg[6].u.i != 0);
}
static void back_avg(mt_back *b) {
  const mt_value *a = b->arg;
  mt_grad(b, 0,
          MT_DO(b->c, "_avg_pool_back", mt_t(G), last_sizes(b, a[1].n), a[1], a[2], a[3], a[4],
                a[5], a[6]));
}
static int shape_back(mt_call *c) { return listed(c, 1); }
static void back_avg_back(mt_back *b) {
  const mt_value *a = b->arg;
  mt_grad(b, 0, MT_DO(b->c, "_avg_pool", mt_t(G), a[2], a[3], a[4], a[5], a[6], a[7]));
}

static int shape_adaptive(mt_call *c) { return listed(c, 1); }
static void back_adaptive(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_adaptive_avg_pool_back", mt_t(G), last_sizes(b, b->arg[1].n)));
}
static void back_adaptive_back(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, "_adaptive_avg_pool", mt_t(G), last_sizes(b, b->arg[1].n)));
}

static void average(mt_ctx *c, const mt_value *arg, mt_value divisor) {
  mt_return(c, MT_DO(c, "_avg_pool", arg[0], arg[1], or_else(&arg[2], arg[1]), arg[3], arg[5],
                     divisor, arg[4]));
}
static void compose_avg1d(mt_ctx *c, const mt_value *arg) { average(c, arg, mt_nil()); }
static void compose_avg(mt_ctx *c, const mt_value *arg) { average(c, arg, arg[6]); }
static void compose_adaptive_avg(mt_ctx *c, const mt_value *arg) {
  int64_t size[3];
  mt_return(c, MT_DO(c, "_adaptive_avg_pool", arg[0], sizes_of(arg, size)));
}

/* The p-norm of each window: arg: input, norm_type, kernel, stride, ceil_mode */
static void compose_lp(mt_ctx *c, const mt_value *arg) {
  static const int64_t zero[3] = {0};
  double n = 1, p = mt_argf(&arg[1]);
  int nd = arg[2].n;
  for (int d = 0; d < nd; d++) n *= (double)arg[2].u.ints[d];
  moth_tensor *y = MT_DO(c, "pow", arg[0], arg[1]);
  y = MT_DO(c, "_avg_pool", mt_t(y), arg[2], or_else(&arg[3], arg[2]), mt_ints(zero, nd),
            mt_b(true), mt_nil(), arg[4]);
  y = mt_op2(c, "mul", mt_op1(c, "sign", y), mt_op1(c, "relu", mt_op1(c, "abs", y)));
  mt_return(c, mt_ops(c, "pow", mt_ops(c, "mul", y, n), 1 / p));
}

#define MAX_POOL(n, example)                                                                    \
  {                                                                                             \
    .schema = "max_pool" #n "d(tensor input, int[" #n "] kernel_size, int[" #n                  \
              "]? stride=nil, int[" #n "] padding=0, int[" #n                                   \
              "] dilation=1, bool "                                                             \
              "ceil_mode=false, bool return_indices=false) -> (tensor output, index indices)",  \
    .help =                                                                                     \
        "The largest element of each window; padding never counts. Positions count the plane.", \
    .types = FLOATS, .compose = compose_max, .sample = example                                  \
  }
#define ADAPTIVE_MAX_POOL(n, example)                                                        \
  {                                                                                          \
    .schema = "adaptive_max_pool" #n "d(tensor input, int[" #n                               \
              "] output_size, bool return_indices=false) -> (tensor output, index indices)", \
    .help = "Maxima of windows that cut the input into output_size parts; -1 keeps a size.", \
    .types = FLOATS, .compose = compose_adaptive_max, .sample = example                      \
  }
#define ADAPTIVE_AVG_POOL(n, example)                                                       \
  {                                                                                         \
    .schema = "adaptive_avg_pool" #n "d(tensor input, int[" #n "] output_size) -> tensor",  \
    .help = "Means of windows that cut the input into output_size parts; -1 keeps a size.", \
    .types = FLOATS, .compose = compose_adaptive_avg, .sample = example                     \
  }
#define MAX_UNPOOL(n, example)                                                                  \
  {                                                                                             \
    .schema = "max_unpool" #n "d(tensor input, index indices, int[" #n "] kernel_size, int[" #n \
              "]? stride=nil, int[" #n "] padding=0, int[]? output_size=nil) -> tensor",        \
    .help = "Zeros with the elements of input at the positions that maximum pooling reported.", \
    .types = FLOATS, .compose = compose_unpool, .sample = example                               \
  }

static const mt_op ops[] = {
    MAX_POOL(1, "{1,2,6}; 2"),
    MAX_POOL(2, "{1,2,4,4}; 2"),
    MAX_POOL(3, "{1,1,2,4,2}; 2"),
    {.schema =
         "_max_pool(tensor x, int[] kernel, int[] stride, int[] padding, int[] dilation, bool "
         "ceil_mode) -> (tensor output, index indices)",
     .help = "Maximum pooling of the last dims.",
     .types = FLOATS,
     .shape = shape_max,
     MT_CPU_S(max_pool),
     .backward = back_max,
     .save = MT_OUT(1),
     .onnx = "MaxPool:12",
     .flags = MT_HIDDEN},
    {.schema = "_max_pool_back(tensor g, index indices, int[] in_size) -> tensor",
     .help = "Zeros with g added at positions.",
     .types = FLOATS,
     .shape = shape_positions,
     MT_CPU_S(max_pool_back),
     .backward = back_positions,
     .save = MT_IN(1),
     .flags = MT_HIDDEN},
    ADAPTIVE_MAX_POOL(1, "{1,2,6}; {3}"),
    ADAPTIVE_MAX_POOL(2, "{1,2,4,4}; {2,3}"),
    ADAPTIVE_MAX_POOL(3, "{1,1,3,4,2}; {2,2,1}"),
    {.schema = "_adaptive_max_pool(tensor x, int[] size) -> (tensor output, index indices)",
     .help = "Adaptive maximum pooling of the last dims.",
     .types = FLOATS,
     .shape = shape_adaptive_max,
     MT_CPU_S(adaptive_max_pool),
     .backward = back_max,
     .save = MT_OUT(1),
     .flags = MT_HIDDEN},
    MAX_UNPOOL(1, "{1,2,2}; {1,2,2}i2; 2"),
    MAX_UNPOOL(2, "{1,2,2,1}; {1,2,2,1}i2; 2"),
    MAX_UNPOOL(3, "{1,1,1,2,1}; {1,1,1,2,1}i2; 2"),
    {.schema = "_max_unpool(tensor x, index indices, int[] size) -> tensor",
     .help = "Zeros with x written at positions.",
     .types = FLOATS,
     .shape = shape_positions,
     MT_CPU_S(max_unpool),
     .backward = back_positions,
     .save = MT_IN(1),
     .onnx = "MaxUnpool:11",
     .flags = MT_HIDDEN},
    {.schema =
         "avg_pool1d(tensor input, int[1] kernel_size, int[1]? stride=nil, int[1] padding=0, bool "
         "ceil_mode=false, bool count_include_pad=true) -> tensor",
     .help = "The mean of each window.",
     .types = FLOATS,
     .compose = compose_avg1d,
     .sample = "{1,2,6}; 2"},
    {.schema =
         "avg_pool2d(tensor input, int[2] kernel_size, int[2]? stride=nil, int[2] padding=0, bool "
         "ceil_mode=false, bool count_include_pad=true, int? divisor_override=nil) -> tensor",
     .help = "The mean of each window.",
     .types = FLOATS,
     .compose = compose_avg,
     .sample = "{1,2,4,4}; 2"},
    {.schema =
         "avg_pool3d(tensor input, int[3] kernel_size, int[3]? stride=nil, int[3] padding=0, bool "
         "ceil_mode=false, bool count_include_pad=true, int? divisor_override=nil) -> tensor",
     .help = "The mean of each window.",
     .types = FLOATS,
     .compose = compose_avg,
     .sample = "{1,1,2,4,2}; 2"},
    {.schema =
         "_avg_pool(tensor x, int[] kernel, int[] stride, int[] padding, bool include_pad, int? "
         "divisor, bool ceil_mode) -> tensor",
     .help = "Average pooling of the last dims.",
     .types = FLOATS,
     .shape = shape_avg,
     MT_CPU_S(avg_pool),
     .backward = back_avg,
     .onnx = "AveragePool:11",
     .flags = MT_HIDDEN},
    {.schema =
         "_avg_pool_back(tensor g, int[] in_size, int[] kernel, int[] stride, int[] padding, bool "
         "include_pad, int? divisor, bool ceil_mode) -> tensor",
     .help = "The gradient of _avg_pool.",
     .types = FLOATS,
     .shape = shape_back,
     MT_CPU_S(avg_pool_back),
     .backward = back_avg_back,
     .flags = MT_HIDDEN},
    ADAPTIVE_AVG_POOL(1, "{1,2,6}; {3}"),
    ADAPTIVE_AVG_POOL(2, "{1,2,4,4}; {2,3}"),
    ADAPTIVE_AVG_POOL(3, "{1,1,3,4,2}; {2,2,1}"),
    {.schema = "_adaptive_avg_pool(tensor x, int[] size) -> tensor",
     .help = "Adaptive average pooling of the last dims.",
     .types = FLOATS,
     .shape = shape_adaptive,
     MT_CPU_S(adaptive_avg_pool),
     .backward = back_adaptive,
     .flags = MT_HIDDEN},
    {.schema = "_adaptive_avg_pool_back(tensor g, int[] in_size) -> tensor",
     .help = "The gradient of _adaptive_avg_pool.",
     .types = FLOATS,
     .shape = shape_back,
     MT_CPU_S(adaptive_avg_pool_back),
     .backward = back_adaptive_back,
     .flags = MT_HIDDEN},
    {.schema =
         "lp_pool1d(tensor input, float norm_type, int[1] kernel_size, int[1]? stride=nil, bool "
         "ceil_mode=false) -> tensor",
     .help = "The p-norm of each window.",
     .types = FLOATS,
     .compose = compose_lp,
     .sample = "{1,2,6}+; 2.0; 2"},
    {.schema =
         "lp_pool2d(tensor input, float norm_type, int[2] kernel_size, int[2]? stride=nil, bool "
         "ceil_mode=false) -> tensor",
     .help = "The p-norm of each window.",
     .types = FLOATS,
     .compose = compose_lp,
     .sample = "{1,2,4,4}+; 2.0; 2"},
};
MT_FAMILY(pool, ops);
