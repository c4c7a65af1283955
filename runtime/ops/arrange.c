/* arrange.c - the same elements in another order or several times: flip, roll, repeat, tril ... */
#include <string.h>

#include "positions.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }
#define G b->g[0]

static int shape_self(mt_call *c) {
  mt_spec_like(&c->out[0], c->inv[0]);
  c->out[0].strided = false;
  return MT_OK;
}

/* ---- flip, roll, rot90 ---- */

static void back_flip(mt_back *b) { mt_grad(b, 0, MT_DO(b->c, "flip", mt_t(G), b->arg[1])); }

static void flip_dim(mt_ctx *c, const mt_value *arg, int64_t dim, int least) {
  if (arg[0].u.t->v.ndim < least)
    mt_ctx_fail(c, "expected at least %d dims, got %s", least, mt_tensor_str(arg[0].u.t));
  mt_return(c, MT_DO(c, "flip", arg[0], mt_ints(&dim, 1)));
}
static void compose_fliplr(mt_ctx *c, const mt_value *arg) { flip_dim(c, arg, 1, 2); }
static void compose_flipud(mt_ctx *c, const mt_value *arg) { flip_dim(c, arg, 0, 1); }

/* Without dims the flattened tensor is rolled. */
static void compose_roll(mt_ctx *c, const mt_value *arg) {
  const mt_value *shifts = &arg[1], *dims = &arg[2];
  if (dims->n == 0 && shifts->n == 1) {
    int64_t zero = 0;
    moth_tensor *flat = mt_op1(c, "ravel", arg[0].u.t);
    moth_tensor *y = MT_DO(c, "_roll", mt_t(flat), *shifts, mt_ints(&zero, 1));
    mt_return(c, MT_DO(c, "view_as", mt_t(y), arg[0]));
    return;
  }
  if (shifts->n != dims->n) {
    mt_ctx_fail(c, "%d shifts for %d dims", shifts->n, dims->n);
    return;
  }
  mt_return(c, mt_do(c, "_roll", 3, arg));
}

static void back_roll(mt_back *b) {
  int64_t shift[MT_MAX_DIM];
  for (int i = 0; i < b->arg[1].n; i++) shift[i] = -b->arg[1].u.ints[i];
  mt_grad(b, 0, MT_DO(b->c, "_roll", mt_t(G), mt_ints(shift, b->arg[1].n), b->arg[2]));
}

static void compose_rot90(mt_ctx *c, const mt_value *arg) {
  const int64_t two[2] = {0, 1}, *d = mt_given(&arg[2]) ? arg[2].u.ints : two;
  int64_t k = (arg[1].u.i % 4 + 4) % 4;
  moth_tensor *x = arg[0].u.t;
  if ((mt_given(&arg[2]) && arg[2].n != 2) || x->v.ndim < 2) {
    mt_ctx_fail(c, "argument 'dims': expected two dims");
    return;
  }
  if (k == 0) x = mt_op1(c, "clone", x);
  if (k == 1 || k == 2) x = MT_DO(c, "flip", mt_t(x), mt_ints(d + 1, 1));
  if (k == 2 || k == 3) x = MT_DO(c, "flip", mt_t(x), mt_ints(d, 1));
  if (k == 3) x = MT_DO(c, "transpose", mt_t(x), mt_i(d[0]), mt_i(d[1]));
  if (k == 1) x = MT_DO(c, "transpose", mt_t(x), mt_i(d[0]), mt_i(d[1]));
  mt_return(c, k & 1 ? mt_op1(c, "contiguous", x) : x);
}

/* ---- triangles ---- */

static int shape_triangle(mt_call *c) {
  if (c->inv[0]->ndim < 2)
    return mt_fail(c->rt, MT_ERROR, "expected at least 2 dims, got %s", mt_tensor_str(c->in[0]));
  return shape_self(c);
}

static void back_triangle(mt_back *b) {
  mt_grad(b, 0, MT_DO(b->c, b->op->name, mt_t(G), b->arg[1]));
}

static void triangle_positions(mt_ctx *c, const mt_value *arg, const char *part) {
  int64_t size[2] = {arg[0].u.i, arg[1].u.i};
  moth_tensor *one = MT_DO(c, "ones", mt_ints(size, 2), mt_i(MT_BOOL));
  moth_tensor *at = mt_op1(c, "nonzero", MT_DO(c, part, mt_t(one), arg[2]));
  mt_return(c, mt_op1(c, "contiguous", mt_op1(c, "t", at)));
}
static void compose_tril_indices(mt_ctx *c, const mt_value *arg) {
  triangle_positions(c, arg, "tril");
}
static void compose_triu_indices(mt_ctx *c, const mt_value *arg) {
  triangle_positions(c, arg, "triu");
}

/* ---- repetition ---- */

/* x with dim d repeated as a whole, or (each) every position for itself. */
static moth_tensor *repeat_dim(mt_ctx *c, moth_tensor *x, int d, int64_t times, bool each) {
  if (!x || times == 1) return x;
  int64_t size[MT_MAX_DIM];
  int n = x->v.ndim, at = each ? d + 1 : d;
  if (n == MT_MAX_DIM) {
    mt_ctx_fail(c, "cannot repeat a tensor of %d dims", n);
    return NULL;
  }
  for (int i = 0; i <= n; i++) size[i] = i == at ? times : x->v.size[i < at ? i : i - 1];
  moth_tensor *y = MT_DO(c, "unsqueeze", mt_t(x), mt_i(at));
  y = MT_DO(c, "expand", mt_t(y), mt_ints(size, n + 1));
  memcpy(size, x->v.size, sizeof size);
  size[d] *= times;
  return MT_DO(c, "reshape", mt_t(y), mt_ints(size, n));
}

/* repeats: one number per dim of the result; missing leading dims of x count as 1. */
static void repeat(mt_ctx *c, moth_tensor *x, int n, const int64_t *repeats) {
  int64_t size[MT_MAX_DIM];
  int lead = n - x->v.ndim;
  bool once = true;
  for (int d = 0; d < n; d++) {
    size[d] = d < lead ? 1 : x->v.size[d - lead];
    if (repeats[d] < 0) mt_ctx_fail(c, "cannot repeat %lld times", (long long)repeats[d]);
    once = once && repeats[d] == 1;
  }
  moth_tensor *y = lead ? MT_DO(c, "reshape", mt_t(x), mt_ints(size, n)) : x;
  for (int d = n - 1; d >= 0; d--) y = repeat_dim(c, y, d, repeats[d], false);
  mt_return(c, once ? mt_op1(c, "clone", y) : y);
}

static void compose_repeat(mt_ctx *c, const mt_value *arg) {
  if (arg[1].n < arg[0].u.t->v.ndim || arg[1].n > MT_MAX_DIM) {
    mt_ctx_fail(c, "argument 'repeats': expected a number for each dim of %s, got %d",
                mt_tensor_str(arg[0].u.t), arg[1].n);
    return;
  }
  repeat(c, arg[0].u.t, arg[1].n, arg[1].u.ints);
}

static void compose_tile(mt_ctx *c, const mt_value *arg) {
  int64_t times[MT_MAX_DIM];
  int n = arg[0].u.t->v.ndim, given = arg[1].n, lead = n > given ? n - given : 0;
  if (given > MT_MAX_DIM) {
    mt_ctx_fail(c, "argument 'dims': at most %d", MT_MAX_DIM);
    return;
  }
  for (int d = 0; d < lead; d++) times[d] = 1;
  memcpy(times + lead, arg[1].u.ints, sizeof(int64_t) * (size_t)given);
  repeat(c, arg[0].u.t, lead + given, times);
}

static void compose_repeat_interleave(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int d = mt_given(&arg[2]) ? (int)arg[2].u.i : 0;
  if (!mt_given(&arg[2])) x = mt_op1(c, "ravel", x);
  if (arg[1].kind != MT_TENSOR) {
    int64_t times = arg[1].kind == MT_INT ? arg[1].u.i : (int64_t)mt_argf(&arg[1]);
    if (times < 0) mt_ctx_fail(c, "argument 'repeats': cannot be negative");
    moth_tensor *y = repeat_dim(c, x, d, times, true);
    mt_return(c, times == 1 ? mt_op1(c, "clone", y) : y);
    return;
  }
  moth_tensor *r = MT_DO(c, "to", arg[1], mt_i(MT_I64));
  if (!r || !x) return;
  int64_t n = 0, size = x->v.size[d];
  double f;
  if (r->v.numel == 1) r = MT_DO(c, "expand", mt_t(mt_op1(c, "ravel", r)), mt_ints(&size, 1));
  if (r && (r->v.ndim != 1 || r->v.numel != size))
    mt_ctx_fail(c, "argument 'repeats': expected %lld numbers, got %s", (long long)size,
                mt_tensor_str(r));
  moth_tensor *sum = mt_op1(c, "sum", r);
  if (sum) mt_tensor_item(sum, &n, &f);
  moth_tensor *at = MT_DO(c, "_repeat_positions", mt_t(r), mt_i(n < 0 ? 0 : n));
  mt_return(c, MT_DO(c, "index_select", mt_t(x), mt_i(d), mt_t(at)));
}

static int shape_positions(mt_call *c) {
  int64_t n = mt_ci(c, 1);
  mt_spec_set(&c->out[0], 1, &n);
  return MT_OK;
}

static const mt_op ops[] = {
    {.schema = "flip(tensor self, dim[] dims) -> tensor",
     .help = "The elements in reverse order along dims.",
     .types = ANY,
     .shape = shape_self,
     MT_CPU(flip),
     .backward = back_flip,
     .sample = "{2,3}; {1,2}",
     .flags = MT_METHOD},
    {.schema = "fliplr(tensor self) -> tensor",
     .help = "The second dim reversed.",
     .types = ANY,
     .compose = compose_fliplr,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "flipud(tensor self) -> tensor",
     .help = "The first dim reversed.",
     .types = ANY,
     .compose = compose_flipud,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "roll(tensor self, int[] shifts, dim[] dims={}) -> tensor",
     .help = "Elements moved along dims; what leaves at the end comes in at the start.",
     .types = ANY,
     .compose = compose_roll,
     .sample = "{2,3}; {1}; {2}",
     .flags = MT_METHOD},
    {.schema = "_roll(tensor self, int[] shifts, dim[] dims) -> tensor",
     .help = "roll with dims.",
     .types = ANY,
     .shape = shape_self,
     MT_CPU(roll),
     .backward = back_roll,
     .flags = MT_HIDDEN},
    {.schema = "rot90(tensor self, int k=1, dim[]? dims=nil) -> tensor",
     .help = "Turned by k right angles in the plane of two dims, from the first to the second.",
     .types = ANY,
     .compose = compose_rot90,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "tril(tensor self, int diagonal=0) -> tensor",
     .help = "0 above the diagonal of the last two dims.",
     .types = ANY,
     .shape = shape_triangle,
     MT_CPU(tril),
     .backward = back_triangle,
     .onnx = "Trilu:14",
     .sample = "{3,3}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema = "triu(tensor self, int diagonal=0) -> tensor",
     .help = "0 below the diagonal of the last two dims.",
     .types = ANY,
     .shape = shape_triangle,
     MT_CPU(triu),
     .backward = back_triangle,
     .onnx = "Trilu:14",
     .sample = "{3,3}",
     .flags = MT_METHOD | MT_INPLACE},
    {.schema = "tril_indices(int row, int col, int offset=0) -> index",
     .help = "The positions on and below the diagonal: rows in the first, columns in the second "
             "row.",
     .types = {MT_ALL, MT_DEFAULT, MT_COMMON},
     .compose = compose_tril_indices,
     .sample = "3; 4"},
    {.schema = "triu_indices(int row, int col, int offset=0) -> index",
     .help = "The positions on and above the diagonal.",
     .types = {MT_ALL, MT_DEFAULT, MT_COMMON},
     .compose = compose_triu_indices,
     .sample = "3; 4"},
    {.schema = "repeat(tensor self, size repeats) -> tensor",
     .help = "Copies of self side by side, so many along each dim.",
     .types = ANY,
     .compose = compose_repeat,
     .onnx = "Tile:13",
     .sample = "{2,3}; {2,1}",
     .flags = MT_METHOD},
    {.schema = "tile(tensor self, size dims) -> tensor",
     .help = "As repeat; missing leading numbers count as 1.",
     .types = ANY,
     .compose = compose_tile,
     .sample = "{2,3}; {2}",
     .flags = MT_METHOD},
    {.schema = "repeat_interleave(tensor self, operand repeats, dim? dim=nil) -> tensor",
     .help = "Every position several times in a row; repeats is one number or one for each.",
     .types = ANY,
     .compose = compose_repeat_interleave,
     .sample = "{2,3}; 2; 1",
     .flags = MT_METHOD},
    {.schema = "_repeat_positions(index repeats, int n) -> index",
     .help = "Each position as often as repeats says, n in all.",
     .types = ANY,
     .shape = shape_positions,
     MT_CPU(repeat_positions),
     .flags = MT_HIDDEN},
};
MT_FAMILY(arrange, ops);
