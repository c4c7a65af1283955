/* softmax.c - softmax and log_softmax along any dim, and their backward.
 *
 * Where the dim is the innermost, or nothing else is contiguous, rows are worked on one by one;
 * where another dim is contiguous, tiles of columns side by side. Halves and strided data pass
 * through a buffer that a worker owns. Every result belongs to one worker, so the bits do not
 * depend on the thread count.
 *
 * Arguments: softmax(x, dim), log_softmax(x, dim); softmax_back(g, y, dim), log_softmax_back
 * (g, y, dim), where y is the result of the forward. All of one shape and float dtype. */
#include "softmax.h"

#include "isa.h"
#include "walk.h"

enum {
  TILE_ELEMENTS = 1 << 15, /* of a tile of columns that is buffered */
  GRAIN = 1 << 13          /* elements worth a thread */
};

typedef struct operand {
  char *data;
  int64_t step; /* elements from one to the next along the dim */
  int64_t col;  /* columns: elements from one column to the next */
  bool direct;  /* is worked on where it lies */
  mt_dtype dtype;
  int size; /* bytes of an element */
} operand;

typedef struct plan {
  const mt_kargs *k;
  mt_smkind kind;
  mt_lane lane;
  int nop; /* 1 or 2 inputs, then the output */
  operand op[3];
  int64_t n;    /* along the dim */
  mt_walk rest; /* the other dims, one step per operand */
  bool by_cols;
  int64_t cols, tile, ntiles;
  size_t buffer; /* bytes of one operand's buffer; 0: no operand needs one */
} plan;

static void split(plan *p, const mt_view *const *v, int dim) {
  const mt_view *x = v[0];
  mt_walk_begin(&p->rest, p->nop);
  p->n = x->ndim ? x->size[dim] : 1;
  for (int d = 0; d < x->ndim; d++) {
    int64_t s[3];
    if (d == dim) continue;
    for (int i = 0; i < p->nop; i++) s[i] = v[i]->stride[d] * p->op[i].size;
    mt_walk_dim(&p->rest, x->size[d], s);
  }
  mt_walk_end(&p->rest);
}

static void make_plan(plan *p, const mt_kargs *k, mt_smkind kind, int dim) {
  const mt_view *v[3];
  p->k = k;
  p->kind = kind;
  p->nop = k->nin + 1;
  p->lane = mt_lane_of((mt_dtype)k->out[0]->dtype);
  for (int i = 0; i < p->nop; i++) {
    v[i] = i < k->nin ? k->in[i] : k->out[0];
    p->op[i].data = v[i]->data;
    p->op[i].dtype = (mt_dtype)v[i]->dtype;
    p->op[i].size = mt_dtype_size(p->op[i].dtype);
    p->op[i].step = v[i]->ndim ? v[i]->stride[dim] : 1;
  }
  split(p, v, dim);
  p->cols = p->rest.size[p->rest.ndim - 1];
  p->by_cols = p->rest.step[0] == p->op[0].size && p->op[0].step != 1 && p->cols >= 4 && p->n > 1;
  p->tile = MT_SM_COLS;
  while (p->tile > 8 && p->tile * p->n > TILE_ELEMENTS) p->tile /= 2;
  p->ntiles = (p->cols + p->tile - 1) / p->tile;
  bool all_direct = true;
  for (int i = 0; i < p->nop; i++) {
    operand *o = &p->op[i];
    o->col = p->rest.step[i] / o->size;
    o->direct = mt_lane_native(p->lane, o->dtype) && (p->by_cols ? o->col : o->step) == 1;
    if (!o->direct) all_direct = false;
  }
  size_t row = (size_t)mt_lane_size(p->lane) * (p->by_cols ? (size_t)p->tile : 1);
  if (__builtin_mul_overflow(row, (size_t)p->n, &p->buffer)) p->buffer = SIZE_MAX / 2;
  p->buffer = all_direct ? 0 : (p->buffer + 63) / 64 * 64;
}

static size_t scratch_size(const mt_kargs *k, mt_smkind kind, int dim) {
  plan p;
  size_t n = 3 * (size_t)(k->par ? k->par->nthreads : 1);
  make_plan(&p, k, kind, dim);
  return __builtin_mul_overflow(n, p.buffer, &n) ? SIZE_MAX : n;
}

/* The worker's buffer for operand i. */
static char *buffer_of(const plan *p, int worker, int i) {
  return (char *)p->k->scratch + ((size_t)worker * 3 + (size_t)i) * p->buffer;
}

static void do_row(const plan *p, const int64_t *off, int worker) {
  const struct mt_lane_table *lanes = p->k->isa->lane;
  int out = p->nop - 1;
  char *at[3];
  for (int i = 0; i < p->nop; i++) {
    const operand *o = &p->op[i];
    at[i] = o->data + off[i];
    if (o->direct) continue;
    char *buf = buffer_of(p, worker, i);
    if (i < out) lanes->load[p->lane][o->dtype](buf, at[i], p->n, o->step);
    at[i] = buf;
  }
  p->k->isa->softmax->lane[p->lane]->row[p->kind](at[0], at[out - 1], at[out], p->n);
  const operand *o = &p->op[out];
  if (!o->direct) lanes->store[p->lane][o->dtype](o->data + off[out], at[out], p->n, o->step);
}

static void row_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const plan *p = ctx;
  mt_cursor c;
  mt_cursor_seek(&p->rest, &c, begin, end);
  while (mt_cursor_next(&p->rest, &c)) {
    for (int64_t i = 0; i < c.n; i++) {
      int64_t off[3];
      for (int j = 0; j < p->nop; j++) off[j] = c.off[j] + i * p->rest.step[j];
      do_row(p, off, worker);
    }
  }
}

static void do_cols(const plan *p, const int64_t *off, int64_t cols, int worker) {
  const struct mt_lane_table *lanes = p->k->isa->lane;
  int out = p->nop - 1, lsize = mt_lane_size(p->lane);
  char *at[3];
  int64_t step[3];
  for (int i = 0; i < p->nop; i++) {
    const operand *o = &p->op[i];
    at[i] = o->data + off[i];
    step[i] = o->step;
    if (o->direct) continue;
    char *buf = buffer_of(p, worker, i);
    for (int64_t r = 0; i < out && r < p->n; r++) {
      lanes->load[p->lane][o->dtype](buf + r * cols * lsize, at[i] + r * o->step * o->size, cols,
                                     o->col);
    }
    at[i] = buf;
    step[i] = cols;
  }
  p->k->isa->softmax->lane[p->lane]->col[p->kind](at[0], step[0], at[out - 1], step[out - 1],
                                                  at[out], step[out], p->n, cols);
  const operand *o = &p->op[out];
  for (int64_t r = 0; !o->direct && r < p->n; r++) {
    lanes->store[p->lane][o->dtype](o->data + off[out] + r * o->step * o->size,
                                    at[out] + r * cols * lsize, cols, o->col);
  }
}

static void col_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const plan *p = ctx;
  for (int64_t t = begin; t < end; t++) {
    int64_t first = t / p->ntiles * p->cols + t % p->ntiles * p->tile;
    int64_t cols = p->cols - t % p->ntiles * p->tile;
    mt_cursor c;
    mt_cursor_seek(&p->rest, &c, first, first + 1);
    do_cols(p, c.off, cols < p->tile ? cols : p->tile, worker);
  }
}

static int run(const mt_kargs *k, mt_smkind kind, int dim) {
  plan p;
  if (k->out[0]->numel == 0) return MT_OK;
  make_plan(&p, k, kind, dim);
  if (p.by_cols) {
    int64_t outer = p.rest.numel / p.cols;
    mt_parallel_for(k->par, outer * p.ntiles, GRAIN / (p.n * p.tile) + 1, col_tasks, &p);
  } else {
    mt_parallel_for(k->par, p.rest.numel, GRAIN / p.n + 1, row_tasks, &p);
  }
  return MT_OK;
}

#define SOFTMAX(name, kind, arg)                                                          \
  int mt_cpu_##name(const mt_kargs *k) { return run(k, kind, (int)MT_KARG_INT(k, arg)); } \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) {                                     \
    return scratch_size(k, kind, (int)MT_KARG_INT(k, arg));                               \
  }
SOFTMAX(softmax, MT_SM_SOFTMAX, 1)
SOFTMAX(log_softmax, MT_SM_LOG_SOFTMAX, 1)
SOFTMAX(softmax_back, MT_SM_BACK, 2)
SOFTMAX(log_softmax_back, MT_SM_LOG_BACK, 2)
