/* softmax.c - softmax and log_softmax along any dim, and their backward.
 *
 * Arguments: softmax(x, dim), log_softmax(x, dim); softmax_back(g, y, dim), log_softmax_back
 * (g, y, dim), where y is the result of the forward. All of one shape and float dtype.
 *   masked_softmax(x, mask?, causal): along the last dim; mask broadcasts to x and is bool (true:
 * takes part) or a float that is added; causal: row i of the last two dims sees the columns up to
 * i. A row that sees nothing is 0. */
#include "softmax.h"

#include <string.h>

#include "along.h"
#include "isa.h"

enum {
  GRAIN = 1 << 13
}; /* elements worth a thread */

typedef struct functions {
  mt_smrow_fn row;
  mt_smcol_fn col;
  int out; /* number of the output operand */
} functions;

static void row(void *ctx, char *const *at, int64_t run, int64_t n) {
  const functions *f = ctx;
  (void)run;
  f->row(at[0], at[f->out - 1], at[f->out], n);
}

static void col(void *ctx, char *const *at, const int64_t *step, int64_t run, int64_t n,
                int64_t cols) {
  const functions *f = ctx;
  (void)run;
  f->col(at[0], step[0], at[f->out - 1], step[f->out - 1], at[f->out], step[f->out], n, cols);
}

static void plan(mt_along *a, functions *f, const mt_kargs *k, mt_smkind kind, int dim) {
  mt_lane lane = mt_lane_of((mt_dtype)k->out[0]->dtype);
  const struct mt_softmax_loops *loops = k->isa->softmax->lane[lane];
  *f = (functions){loops->row[kind], loops->col[kind], k->nin};
  mt_along_begin(a, k, f, row, col);
  for (int i = 0; i < k->nin; i++) mt_along_add(a, k->in[i], lane, false);
  mt_along_add(a, k->out[0], lane, true);
  mt_along_plan(a, 1u << dim);
}

#define SOFTMAX(name, kind, arg)                      \
  int mt_cpu_##name(const mt_kargs *k) {              \
    mt_along a;                                       \
    functions f;                                      \
    plan(&a, &f, k, kind, (int)MT_KARG_INT(k, arg));  \
    mt_along_run(&a, k->scratch, GRAIN);              \
    return MT_OK;                                     \
  }                                                   \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) { \
    mt_along a;                                       \
    functions f;                                      \
    plan(&a, &f, k, kind, (int)MT_KARG_INT(k, arg));  \
    return mt_along_scratch(&a);                      \
  }
SOFTMAX(softmax, MT_SM_SOFTMAX, 1)
SOFTMAX(log_softmax, MT_SM_LOG_SOFTMAX, 1)
SOFTMAX(softmax_back, MT_SM_BACK, 2)
SOFTMAX(log_softmax_back, MT_SM_LOG_BACK, 2)

/* ---- attention ---- */

typedef struct masked {
  const struct mt_softmax_loops *loops;
  mt_view mask; /* expanded to the shape of x */
  bool given, additive;
  int64_t rows; /* causal: the last but one size; 0: not causal */
} masked;

static void masked_row(void *ctx, char *const *at, int64_t run, int64_t n) {
  const masked *m = ctx;
  int64_t visible = m->rows ? run % m->rows + 1 : n;
  m->loops->masked_row(at[0], m->given ? at[1] : NULL, at[m->given ? 2 : 1], n,
                       visible < n ? visible : n, m->additive);
}

static void expand(mt_view *to, const mt_view *v, const mt_view *shape) {
  int lead = shape->ndim - v->ndim;
  *to = *v;
  to->ndim = shape->ndim;
  to->numel = shape->numel;
  to->contiguous = false;
  for (int d = 0; d < shape->ndim; d++) {
    to->size[d] = shape->size[d];
    to->stride[d] = d < lead || v->size[d - lead] == 1 ? 0 : v->stride[d - lead];
  }
}

static void plan_masked(mt_along *a, masked *m, const mt_kargs *k) {
  const mt_view *x = k->in[0], *mask = k->in[1];
  mt_lane lane = mt_lane_of((mt_dtype)x->dtype);
  memset(m, 0, sizeof *m);
  m->loops = k->isa->softmax->lane[lane];
  m->given = mask != NULL;
  m->additive = mask && mask->dtype != MT_BOOL;
  if (k->arg[2].u.i && x->ndim > 1) m->rows = x->size[x->ndim - 2];
  mt_along_begin(a, k, m, masked_row, NULL);
  mt_along_add(a, x, lane, false);
  if (mask) {
    expand(&m->mask, mask, x);
    mt_along_add(a, &m->mask, lane, false);
  }
  mt_along_add(a, k->out[0], lane, true);
  mt_along_plan(a, 1u << (x->ndim ? x->ndim - 1 : 0));
}

int mt_cpu_masked_softmax(const mt_kargs *k) {
  mt_along a;
  masked m;
  plan_masked(&a, &m, k);
  mt_along_run(&a, k->scratch, GRAIN);
  return MT_OK;
}

size_t mt_cpu_masked_softmax_scratch(const mt_kargs *k) {
  mt_along a;
  masked m;
  plan_masked(&a, &m, k);
  return mt_along_scratch(&a);
}
