/* matrix.c - diagonals of matrices, differences, and sequences padded to one length. */
#include <string.h>

#include "rules.h"

#define ANY \
  { MT_ALL, MT_FIRST, MT_COMMON }

/* The last dim becomes the diagonal of a square of two dims. */
static void compose_diag_embed(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  int64_t off = arg[1].u.i, size[MT_MAX_DIM];
  int n = x->v.ndim, d1, d2;
  if (n == 0 || n == MT_MAX_DIM) {
    mt_ctx_fail(c, "expected 1 to %d dims, got %s", MT_MAX_DIM - 1, mt_tensor_str(x));
    return;
  }
  c->status = mt_shape_dim(c->rt, &d1, "dim1", arg[2].u.i, n + 1);
  if (!c->status) c->status = mt_shape_dim(c->rt, &d2, "dim2", arg[3].u.i, n + 1);
  if (!c->status && d1 == d2) mt_ctx_fail(c, "dim1 and dim2 must differ");
  if (c->status) return;
  int64_t side = x->v.size[n - 1] + (off < 0 ? -off : off);
  for (int d = 0, at = 0; d <= n; d++) size[d] = d == d1 || d == d2 ? side : x->v.size[at++];
  moth_tensor *y = MT_DO(c, "zeros", mt_ints(size, n + 1), mt_i(x->v.dtype));
  moth_tensor *view = MT_DO(c, "diagonal", mt_t(y), mt_i(off), mt_i(d1), mt_i(d2));
  MT_DO(c, "copy_", mt_t(view), arg[0]);
  mt_return(c, y);
}

static void compose_diag(mt_ctx *c, const mt_value *arg) {
  moth_tensor *x = arg[0].u.t;
  if (x->v.ndim == 1)
    mt_return(c, MT_DO(c, "diag_embed", arg[0], arg[1]));
  else if (x->v.ndim == 2)
    mt_return(c, mt_op1(c, "clone", MT_DO(c, "diagonal", arg[0], arg[1])));
  else
    mt_ctx_fail(c, "expected 1 or 2 dims, got %s", mt_tensor_str(x));
}

static void compose_diagflat(mt_ctx *c, const mt_value *arg) {
  mt_return(c, MT_DO(c, "diag_embed", mt_t(mt_op1(c, "ravel", arg[0].u.t)), arg[1]));
}

static void compose_trace(mt_ctx *c, const mt_value *arg) {
  if (arg[0].u.t->v.ndim != 2)
    mt_ctx_fail(c, "expected a matrix, got %s", mt_tensor_str(arg[0].u.t));
  mt_return(c, mt_op1(c, "sum", mt_op1(c, "diagonal", arg[0].u.t)));
}

/* Differences of neighbours, n times. */
static void compose_diff(mt_ctx *c, const mt_value *arg) {
  moth_tensor *part[3], *x = arg[0].u.t;
  int k = 0;
  if (mt_given(&arg[3])) part[k++] = arg[3].u.t;
  part[k++] = x;
  if (mt_given(&arg[4])) part[k++] = arg[4].u.t;
  if (k > 1) x = MT_DO(c, "cat", mt_ts(part, k), arg[2]);
  if (x && x->v.ndim == 0) mt_ctx_fail(c, "expected at least one dim");
  for (int64_t i = 0; i < arg[1].u.i && !c->status; i++) {
    int64_t n = x->v.size[arg[2].u.i];
    if (n == 0) break;
    moth_tensor *a = MT_DO(c, "narrow", mt_t(x), arg[2], mt_i(1), mt_i(n - 1));
    moth_tensor *b = MT_DO(c, "narrow", mt_t(x), arg[2], mt_i(0), mt_i(n - 1));
    x = mt_op2(c, a && a->v.dtype == MT_BOOL ? "logical_xor" : "sub", a, b);
  }
  mt_return(c, x);
}

/* Sequences (length, ...) of different lengths as one tensor, filled up behind. */
static void compose_pad_sequence(mt_ctx *c, const mt_value *arg) {
  int n = arg[0].n;
  int64_t longest = 0, size[MT_MAX_DIM];
  if (n < 1) {
    mt_ctx_fail(c, "argument 'sequences': expected at least one tensor");
    return;
  }
  moth_tensor *first = arg[0].u.tensors[0];
  for (int i = 0; i < n; i++) {
    const mt_view *v = &arg[0].u.tensors[i]->v;
    if (v->ndim < 1 || v->ndim == MT_MAX_DIM || v->ndim != first->v.ndim ||
        memcmp(v->size + 1, first->v.size + 1, sizeof(int64_t) * (size_t)(v->ndim - 1)) != 0) {
      mt_ctx_fail(c, "argument 'sequences': %s beside %s", mt_tensor_str(arg[0].u.tensors[i]),
                  mt_tensor_str(first));
      return;
    }
    if (v->size[0] > longest) longest = v->size[0];
  }
  size[0] = n;
  size[1] = longest;
  memcpy(size + 2, first->v.size + 1, sizeof(int64_t) * (size_t)(first->v.ndim - 1));
  moth_tensor *y = MT_DO(c, "full", mt_ints(size, first->v.ndim + 1), arg[2], mt_i(first->v.dtype));
  for (int i = 0; i < n && !c->status; i++) {
    moth_tensor *t = arg[0].u.tensors[i], *row = MT_DO(c, "select", mt_t(y), mt_i(0), mt_i(i));
    row = MT_DO(c, "narrow", mt_t(row), mt_i(0), mt_i(0), mt_i(t->v.size[0]));
    MT_DO(c, "copy_", mt_t(row), mt_t(t));
  }
  mt_return(c, arg[1].u.i ? y : MT_DO(c, "transpose", mt_t(y), mt_i(0), mt_i(1)));
}

static const mt_op ops[] = {
    {.schema = "diag_embed(tensor self, int offset=0, pos dim1=-2, pos dim2=-1) -> tensor",
     .help = "Matrices with the last dim of self on a diagonal.",
     .types = ANY,
     .compose = compose_diag_embed,
     .sample = "{2,3}",
     .flags = MT_METHOD},
    {.schema = "diag(tensor self, int diagonal=0) -> tensor",
     .help = "The diagonal of a matrix, or the matrix with that diagonal.",
     .types = ANY,
     .compose = compose_diag,
     .sample = "{3,3}",
     .flags = MT_METHOD},
    {.schema = "diagflat(tensor self, int offset=0) -> tensor",
     .help = "The matrix with all elements of self on a diagonal.",
     .types = ANY,
     .compose = compose_diagflat,
     .sample = "{3}",
     .flags = MT_METHOD},
    {.schema = "trace(tensor self) -> tensor",
     .help = "The sum of the diagonal of a matrix.",
     .types = ANY,
     .compose = compose_trace,
     .sample = "{3,3}",
     .flags = MT_METHOD},
    {.schema = "diff(tensor self, int n=1, dim dim=-1, tensor? prepend=nil, tensor? append=nil) -> "
               "tensor",
     .help = "Differences of neighbours along a dim, n times.",
     .types = ANY,
     .compose = compose_diff,
     .sample = "{2,4}",
     .flags = MT_METHOD},
    {.schema =
         "pad_sequence(tensor[] sequences, bool batch_first=false, float padding_value=0.0) -> "
         "tensor",
     .help = "Sequences of different lengths as one tensor (time, batch, ...).",
     .types = ANY,
     .compose = compose_pad_sequence},
};
MT_FAMILY(matrix, ops);
