/* conv.c - convolution and transposed convolution in one to three dims.
 *
 * Three operations are the kernels' own, and each is the gradient of the others:
 *   _conv              y from x and w
 *   _conv_back_input   x' from y' and w, of a given size: also the transposed convolution
 *   _conv_back_weight  w' from y' and x
 * So gradients of any order are again these three. The public forms bring their arguments into
 * shape: a missing batch dim, padding by name, the size that a transposed convolution gives. */
#include <string.h>

#include "rules.h"

#define FLOAT {MT_REALFLOATS, MT_EQUAL, MT_COMMON}
#define G b->g[0]

/* ---- sizes ---- */

/* How far a kernel of that size reaches. */
static int64_t reach(int64_t kernel, int64_t dilation) { return dilation * (kernel - 1) + 1; }

/* Argument j as one number per spatial dim. */
static int64_t at(const mt_value *arg, int j, int d) {
  return arg[j].u.ints[arg[j].n == 1 ? 0 : d];
}

static int check_numbers(mt_call *c, int dims) {
  static const int lowest[] = {1, 0, 1}; /* stride, padding, dilation */
  for (int j = 3; j < 6; j++) {
    if (c->arg[j].n != 1 && c->arg[j].n != dims)
      return mt_fail(c->rt, MT_ERROR, "argument '%s': expected %d integers, got %d",
                     c->op->arg[j].name, dims, c->arg[j].n);
    for (int d = 0; d < c->arg[j].n; d++)
      if (c->arg[j].u.ints[d] < lowest[j - 3] || c->arg[j].u.ints[d] > INT32_MAX)
        return mt_fail(c->rt, MT_ERROR, "argument '%s': expected at least %d, got %lld",
                       c->op->arg[j].name, lowest[j - 3], (long long)c->arg[j].u.ints[d]);
  }
  if (mt_ci(c, 6) < 1)
    return mt_fail(c->rt, MT_ERROR, "argument 'groups': expected at least 1, got %lld",
                   (long long)mt_ci(c, 6));
  return MT_OK;
}

static int no_fit(mt_call *c, int i, int j) {
  return mt_fail(c->rt, MT_ERROR, "%s %s does not fit %s %s with %lld group%s", c->op->arg[i].name,
                 mt_tensor_str(c->in[i]), c->op->arg[j].name, mt_tensor_str(c->in[j]),
                 (long long)mt_ci(c, 6), mt_ci(c, 6) == 1 ? "" : "s");
}

static int shape_conv(mt_call *c) {
  const mt_view *x = c->inv[0], *w = c->inv[1], *bias = c->inv[2];
  int dims = w->ndim - 2, status;
  int64_t groups = mt_ci(c, 6), size[MT_MAX_DIM];
  if (dims < 1 || dims > 3 || x->ndim != w->ndim) return no_fit(c, 0, 1);
  if ((status = check_numbers(c, dims))) return status;
  if (x->size[1] != w->size[1] * groups || w->size[0] % groups != 0) return no_fit(c, 0, 1);
  if (bias && (bias->ndim != 1 || bias->size[0] != w->size[0]))
    return mt_fail(c->rt, MT_ERROR, "argument 'bias': expected (%lld), got %s",
                   (long long)w->size[0], mt_tensor_str(c->in[2]));
  size[0] = x->size[0];
  size[1] = w->size[0];
  for (int d = 0; d < dims; d++) {
    int64_t kernel = reach(w->size[2 + d], at(c->arg, 5, d));
    int64_t room = x->size[2 + d] + 2 * at(c->arg, 4, d);
    if (w->size[2 + d] < 1 || kernel > room)
      return mt_fail(c->rt, MT_ERROR, "the kernel %s reaches over %lld, the padded input has %lld",
                     mt_shape_str(c->rt, dims, w->size + 2), (long long)kernel, (long long)room);
    size[2 + d] = (room - kernel) / at(c->arg, 3, d) + 1;
  }
  mt_spec_set(&c->out[0], w->ndim, size);
  return MT_OK;
}

static int shape_back_input(mt_call *c) {
  const mt_view *g = c->inv[0], *w = c->inv[1];
  int dims = w->ndim - 2, status;
  if (dims < 1 || dims > 3 || g->ndim != w->ndim || c->arg[2].n != w->ndim) return no_fit(c, 0, 1);
  if ((status = check_numbers(c, dims))) return status;
  if (g->size[1] != w->size[0] || w->size[0] % mt_ci(c, 6) != 0) return no_fit(c, 0, 1);
  mt_spec_set(&c->out[0], w->ndim, c->arg[2].u.ints);
  return MT_OK;
}

static int shape_back_weight(mt_call *c) {
  const mt_view *g = c->inv[0], *x = c->inv[1];
  int dims = g->ndim - 2, status;
  if (dims < 1 || dims > 3 || x->ndim != g->ndim || c->arg[2].n != g->ndim) return no_fit(c, 0, 1);
  if ((status = check_numbers(c, dims))) return status;
  if (x->size[0] != g->size[0]) return no_fit(c, 0, 1);
  mt_spec_set(&c->out[0], g->ndim, c->arg[2].u.ints);
  return MT_OK;
}

/* ---- gradients ---- */

static moth_tensor *conv(mt_back *b, moth_tensor *x, moth_tensor *w) {
  return MT_DO(b->c, "_conv", mt_t(x), mt_t(w), mt_nil(), b->arg[3], b->arg[4], b->arg[5],
               b->arg[6]);
}
static moth_tensor *back_input(mt_back *b, moth_tensor *g, moth_tensor *w, mt_value size) {
  return MT_DO(b->c, "_conv_back_input", mt_t(g), mt_t(w), size, b->arg[3], b->arg[4], b->arg[5],
               b->arg[6]);
}
static moth_tensor *back_weight(mt_back *b, moth_tensor *g, moth_tensor *x, mt_value size) {
  return MT_DO(b->c, "_conv_back_weight", mt_t(g), mt_t(x), size, b->arg[3], b->arg[4], b->arg[5],
               b->arg[6]);
}

static void back_conv(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, back_input(b, G, b->in[1], mt_meta_size(b, 0)));
  if (b->need[1]) mt_grad(b, 1, back_weight(b, G, b->in[0], mt_meta_size(b, 1)));
  if (!b->need[2]) return;
  int64_t dims[] = {0, 2, 3, 4};
  mt_grad(b, 2, MT_DO(b->c, "sum", mt_t(G), mt_ints(dims, b->meta[0].ndim - 1)));
}

/* Where output_padding exceeds the stride, a convolution of the result has more positions than the
 * operand had: those saw nothing of it. */
static moth_tensor *cropped(mt_back *b, moth_tensor *t, int i) {
  for (int d = 2; t && d < t->v.ndim; d++)
    if (t->v.size[d] > b->meta[i].size[d])
      t = MT_DO(b->c, "narrow", mt_t(t), mt_i(d), mt_i(0), mt_i(b->meta[i].size[d]));
  return t;
}
static void back_back_input(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, cropped(b, conv(b, G, b->in[1]), 0));
  if (b->need[1]) mt_grad(b, 1, back_weight(b, b->in[0], G, mt_meta_size(b, 1)));
}
static void back_back_weight(mt_back *b) {
  if (b->need[0]) mt_grad(b, 0, cropped(b, conv(b, b->in[1], G), 0));
  if (b->need[1]) mt_grad(b, 1, back_input(b, b->in[0], G, mt_meta_size(b, 1)));
}

/* ---- the public forms ---- */

/* Checks input and weight of an operation of `dims` dims; adds the batch dim that is missing. */
static bool start(mt_ctx *c, const mt_value *arg, int dims, moth_tensor **x) {
  *x = arg[0].u.t;
  const moth_tensor *w = arg[1].u.t;
  if (w->v.ndim != dims + 2) {
    mt_ctx_fail(c, "argument 'weight': expected %d dims, got %s", dims + 2, mt_tensor_str(w));
    return false;
  }
  if ((*x)->v.ndim != dims + 2 && (*x)->v.ndim != dims + 1) {
    mt_ctx_fail(c, "argument 'input': expected %d dims, or %d without a batch, got %s", dims + 2,
                dims + 1, mt_tensor_str(*x));
    return false;
  }
  if ((*x)->v.ndim == dims + 1) *x = MT_DO(c, "unsqueeze", arg[0], mt_i(0));
  return c->status == MT_OK;
}

static void finish(mt_ctx *c, const mt_value *arg, int dims, moth_tensor *y) {
  int64_t first = 0;
  if (arg[0].u.t->v.ndim == dims + 1) y = MT_DO(c, "squeeze", mt_t(y), mt_ints(&first, 1));
  mt_return(c, y);
}

/* padding="same": an odd sum leaves one more behind. Both sides get the larger half, and what the
 * surplus in front gives is cut off. */
static moth_tensor *same(mt_ctx *c, const mt_value *arg, moth_tensor *x, int dims) {
  int64_t padding[3], cut[3];
  for (int d = 0; d < dims; d++) {
    if (at(arg, 3, d) != 1) {
      mt_ctx_fail(c, "argument 'padding': 'same' needs stride 1");
      return NULL;
    }
    int64_t sum = reach(arg[1].u.t->v.size[2 + d], at(arg, 5, d)) - 1;
    padding[d] = (sum + 1) / 2;
    cut[d] = sum % 2;
  }
  moth_tensor *y = MT_DO(c, "_conv", mt_t(x), arg[1], arg[2], arg[3], mt_ints(padding, dims),
                         arg[5], arg[6]);
  bool any = false;
  for (int d = 0; d < dims; d++) {
    if (!cut[d]) continue;
    y = MT_DO(c, "narrow", mt_t(y), mt_i(2 + d), mt_i(1), mt_i(x->v.size[2 + d]));
    any = true;
  }
  return any ? mt_op1(c, "contiguous", y) : y;
}

static void compose_conv(mt_ctx *c, const mt_value *arg, int dims) {
  moth_tensor *x, *y;
  if (!start(c, arg, dims, &x)) return;
  mt_value padding = arg[4];
  int64_t none = 0;
  if (padding.kind == MT_STR && strcmp(padding.u.s, "same") == 0) {
    y = same(c, arg, x, dims);
  } else {
    if (padding.kind == MT_STR && strcmp(padding.u.s, "valid") != 0) {
      mt_ctx_fail(c, "argument 'padding': expected integers, 'same' or 'valid', got '%.20s'",
                  padding.u.s);
      return;
    }
    if (padding.kind == MT_STR) padding = mt_ints(&none, 1);
    y = MT_DO(c, "_conv", mt_t(x), arg[1], arg[2], arg[3], padding, arg[5], arg[6]);
  }
  finish(c, arg, dims, y);
}
static void compose_conv1d(mt_ctx *c, const mt_value *arg) { compose_conv(c, arg, 1); }
static void compose_conv2d(mt_ctx *c, const mt_value *arg) { compose_conv(c, arg, 2); }
static void compose_conv3d(mt_ctx *c, const mt_value *arg) { compose_conv(c, arg, 3); }

/* Arguments: input, weight, bias, stride, padding, output_padding, groups, dilation. */
static bool transposed_size(mt_ctx *c, const mt_value *arg, const moth_tensor *x, int dims,
                            int64_t *size) {
  const mt_view *w = &arg[1].u.t->v;
  size[0] = x->v.size[0];
  size[1] = w->size[1] * arg[6].u.i;
  for (int d = 0; d < dims; d++) {
    int64_t stride = at(arg, 3, d), extra = at(arg, 5, d), dilation = at(arg, 7, d);
    if (extra < 0 || (extra >= stride && extra >= dilation)) {
      mt_ctx_fail(c, "argument 'output_padding': expected less than stride or dilation, got %lld",
                  (long long)extra);
      return false;
    }
    size[2 + d] = (x->v.size[2 + d] - 1) * stride - 2 * at(arg, 4, d) +
                  reach(w->size[2 + d], dilation) + extra;
    if (size[2 + d] < 1 || x->v.size[2 + d] < 1) {
      mt_ctx_fail(c, "the result would have size %lld along dim %d", (long long)size[2 + d],
                  2 + d + c->index_base);
      return false;
    }
  }
  return true;
}

static void compose_transpose(mt_ctx *c, const mt_value *arg, int dims) {
  moth_tensor *x;
  int64_t size[MT_MAX_DIM], spread[4] = {0, 1, 1, 1};
  if (!start(c, arg, dims, &x) || !transposed_size(c, arg, x, dims, size)) return;
  moth_tensor *y = MT_DO(c, "_conv_back_input", mt_t(x), arg[1], mt_ints(size, dims + 2), arg[3],
                         arg[4], arg[7], arg[6]);
  if (mt_given(&arg[2])) {
    const mt_view *bias = &arg[2].u.t->v;
    if (bias->ndim != 1 || bias->size[0] != size[1]) {
      mt_ctx_fail(c, "argument 'bias': expected (%lld), got %s", (long long)size[1],
                  mt_tensor_str(arg[2].u.t));
      return;
    }
    spread[0] = size[1];
    y = mt_op2(c, "add", y, MT_DO(c, "view", arg[2], mt_ints(spread, dims + 1)));
  }
  finish(c, arg, dims, y);
}
static void compose_transpose1d(mt_ctx *c, const mt_value *arg) { compose_transpose(c, arg, 1); }
static void compose_transpose2d(mt_ctx *c, const mt_value *arg) { compose_transpose(c, arg, 2); }
static void compose_transpose3d(mt_ctx *c, const mt_value *arg) { compose_transpose(c, arg, 3); }

static const mt_op ops[] = {
    {.schema = "_conv(tensor input, tensor weight, tensor? bias, int[] stride, int[] padding, "
               "int[] dilation, int groups) -> tensor",
     .help = "Convolution in one to three dims.", .types = FLOAT, .shape = shape_conv,
     MT_CPU_S(conv), .backward = back_conv, .save = MT_IN(0) | MT_IN(1), .onnx = "Conv:11",
     .flags = MT_HIDDEN | MT_CROSS},
    {.schema = "_conv_back_input(tensor grad, tensor weight, int[] size, int[] stride, int[] "
               "padding, int[] dilation, int groups) -> tensor",
     .help = "What reaches the input of a convolution; its transpose.", .types = FLOAT,
     .shape = shape_back_input, MT_CPU_S(conv_back_input), .backward = back_back_input,
     .save = MT_IN(0) | MT_IN(1), .onnx = "ConvTranspose:11", .flags = MT_HIDDEN | MT_CROSS},
    {.schema = "_conv_back_weight(tensor grad, tensor input, int[] size, int[] stride, int[] "
               "padding, int[] dilation, int groups) -> tensor",
     .help = "What reaches the weights of a convolution.", .types = FLOAT,
     .shape = shape_back_weight, MT_CPU_S(conv_back_weight), .backward = back_back_weight,
     .save = MT_IN(0) | MT_IN(1), .flags = MT_HIDDEN | MT_CROSS},
    {.schema = "conv1d(tensor input, tensor weight, tensor? bias=nil, int[1] stride=1, padding[1] "
               "padding=0, int[1] dilation=1, int groups=1) -> tensor",
     .help = "Convolution of (N, C, L) by (out, C/groups, K); padding may be 'same' or 'valid'.",
     .types = FLOAT, .compose = compose_conv1d, .sample = "{2,4,7}; {6,2,3}; {6}; 2; 1; 1; 2"},
    {.schema = "conv2d(tensor input, tensor weight, tensor? bias=nil, int[2] stride=1, padding[2] "
               "padding=0, int[2] dilation=1, int groups=1) -> tensor",
     .help = "Convolution of (N, C, H, W) by (out, C/groups, KH, KW); padding may be 'same' or "
             "'valid'.",
     .types = FLOAT, .compose = compose_conv2d, .sample = "{1,2,5,4}; {3,2,3,3}; {3}; 1; 1"},
    {.schema = "conv3d(tensor input, tensor weight, tensor? bias=nil, int[3] stride=1, padding[3] "
               "padding=0, int[3] dilation=1, int groups=1) -> tensor",
     .help = "Convolution of (N, C, D, H, W) by (out, C/groups, KD, KH, KW).", .types = FLOAT,
     .compose = compose_conv3d, .sample = "{1,2,3,4,3}; {2,2,2,2,2}; {2}"},
    {.schema = "conv_transpose1d(tensor input, tensor weight, tensor? bias=nil, int[1] stride=1, "
               "int[1] padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> "
               "tensor",
     .help = "The transpose of conv1d: (N, C, L) by (C, out/groups, K).", .types = FLOAT,
     .compose = compose_transpose1d, .sample = "{1,2,4}; {2,3,3}; {3}; 2"},
    {.schema = "conv_transpose2d(tensor input, tensor weight, tensor? bias=nil, int[2] stride=1, "
               "int[2] padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> "
               "tensor",
     .help = "The transpose of conv2d: (N, C, H, W) by (C, out/groups, KH, KW).", .types = FLOAT,
     .compose = compose_transpose2d, .sample = "{1,2,3,3}; {2,3,2,2}; {3}; 2"},
    {.schema = "conv_transpose3d(tensor input, tensor weight, tensor? bias=nil, int[3] stride=1, "
               "int[3] padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> "
               "tensor",
     .help = "The transpose of conv3d.", .types = FLOAT, .compose = compose_transpose3d,
     .sample = "{1,2,2,2,2}; {2,2,2,2,2}; {2}; 2"},
};
MT_FAMILY(conv, ops);
