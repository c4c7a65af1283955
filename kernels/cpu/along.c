/* along.c - see along.h. */
#include "along.h"

#include "isa.h"

enum {
  TILE_ELEMENTS = 1 << 15
}; /* of a tile, so that a few operands stay in L2 */

static void split(mt_along *a, unsigned inner) {
  const mt_view *x = a->op[0].v;
  a->n = 1;
  mt_walk_begin(&a->rest, a->nop);
  for (int i = 0; i < a->nop; i++) mt_walk_begin(&a->op[i].inner, 1);
  for (int d = 0; d < x->ndim; d++) {
    int64_t s[MT_WALK_OPS];
    for (int i = 0; i < a->nop; i++)
      s[i] = a->op[i].v->stride[d] * mt_dtype_size((mt_dtype)a->op[i].v->dtype);
    if (inner >> d & 1) {
      a->n *= x->size[d];
      for (int i = 0; i < a->nop; i++) mt_walk_dim(&a->op[i].inner, x->size[d], &s[i]);
    } else {
      mt_walk_dim(&a->rest, x->size[d], s);
    }
  }
  for (int i = 0; i < a->nop; i++) mt_walk_end(&a->op[i].inner);
  mt_walk_end(&a->rest);
}

static int size_of(const mt_along_operand *o) { return mt_dtype_size((mt_dtype)o->v->dtype); }

/* Columns: nothing is nearer than the next column, and there are some. */
static bool want_cols(const mt_along *a) {
  const mt_along_operand *o = &a->op[0];
  if (!a->col || a->n < 2 || a->cols < 4 || a->rest.step[0] != size_of(o)) return false;
  for (int i = 0; i < a->nop; i++)
    if (a->op[i].inner.ndim != 1) return false;
  return o->step != 1;
}

/* A tile stays in cache for the passes over it. One that cannot is wide instead: long pieces of
 * rows spare misses of the address translation. In buffers it is narrow: they are short. */
static void choose_tile(mt_along *a, bool direct) {
  a->tile = 64;
  if (a->tile * a->n > TILE_ELEMENTS) {
    if (direct) a->tile = MT_ALONG_COLS;
    while (!direct && a->tile > 16 && a->tile * a->n > TILE_ELEMENTS) a->tile /= 2;
  }
  a->ntiles = (a->cols + a->tile - 1) / a->tile;
}

void mt_along_plan(mt_along *a, unsigned inner) {
  split(a, inner);
  a->cols = a->rest.size[a->rest.ndim - 1];
  for (int i = 0; i < a->nop; i++) {
    mt_along_operand *o = &a->op[i];
    o->step = o->inner.step[0] / size_of(o);
    if (a->n == 1) o->step = 1;
  }
  a->by_cols = want_cols(a);
  bool direct = true;
  for (int i = 0; i < a->nop; i++) {
    mt_along_operand *o = &a->op[i];
    bool unit = a->by_cols ? a->rest.step[i] == size_of(o) : o->inner.ndim == 1 && o->step == 1;
    o->direct = unit && mt_lane_native(o->lane, (mt_dtype)o->v->dtype);
    if (!o->direct) direct = false;
  }
  choose_tile(a, direct);
  a->block = 0;
  for (int i = 0; i < a->nop; i++) {
    mt_along_operand *o = &a->op[i];
    if (o->direct) continue;
    size_t bytes = (size_t)mt_lane_size(o->lane) * (size_t)(a->by_cols ? a->tile : 1);
    o->buffer = a->block;
    if (__builtin_mul_overflow(bytes, (size_t)a->n, &bytes)) bytes = SIZE_MAX / 16;
    a->block += (bytes + 63) / 64 * 64;
  }
}

size_t mt_along_scratch(const mt_along *a) {
  size_t n = (size_t)(a->k->par ? a->k->par->nthreads : 1);
  return __builtin_mul_overflow(n, a->block, &n) ? SIZE_MAX : n;
}

typedef struct job {
  mt_along *a;
  char *scratch;
} job;

/* Between the run at `data` and a buffer. */
static void transfer_row(const mt_along *a, const mt_along_operand *o, char *data, char *buf,
                         bool store) {
  const struct mt_lane_table *lanes = a->k->isa->lane;
  mt_dtype d = (mt_dtype)o->v->dtype;
  int64_t step = o->inner.step[0] / size_of(o);
  mt_cursor c;
  mt_cursor_seek(&o->inner, &c, 0, a->n);
  while (mt_cursor_next(&o->inner, &c)) {
    if (store)
      lanes->store[o->lane][d](data + c.off[0], buf, c.n, step);
    else
      lanes->load[o->lane][d](buf, data + c.off[0], c.n, step);
    buf += c.n * mt_lane_size(o->lane);
  }
}

static void do_row(const job *j, const int64_t *off, int64_t run, int worker) {
  const mt_along *a = j->a;
  char *at[MT_WALK_OPS];
  for (int i = 0; i < a->nop; i++) {
    const mt_along_operand *o = &a->op[i];
    at[i] = o->v->data + off[i];
    if (o->direct) continue;
    char *buf = j->scratch + (size_t)worker * a->block + o->buffer;
    if (!o->out) transfer_row(a, o, at[i], buf, false);
    at[i] = buf;
  }
  a->row(a->ctx, at, run, a->n);
  for (int i = 0; i < a->nop; i++) {
    const mt_along_operand *o = &a->op[i];
    if (o->out && !o->direct) transfer_row(a, o, o->v->data + off[i], at[i], true);
  }
}

static void row_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_walk *w = &j->a->rest;
  mt_cursor c;
  begin *= j->a->group;
  end *= j->a->group;
  mt_cursor_seek(w, &c, begin, end < w->numel ? end : w->numel);
  while (mt_cursor_next(w, &c)) {
    for (int64_t i = 0; i < c.n; i++) {
      int64_t off[MT_WALK_OPS];
      for (int o = 0; o < w->nop; o++) off[o] = c.off[o] + i * w->step[o];
      do_row(j, off, begin++, worker);
    }
  }
}

/* Between a tile at `data` and a buffer of `cols` wide rows. */
static void transfer_cols(const mt_along *a, int i, char *data, char *buf, int64_t cols,
                          bool store) {
  const mt_along_operand *o = &a->op[i];
  const struct mt_lane_table *lanes = a->k->isa->lane;
  mt_dtype d = (mt_dtype)o->v->dtype;
  int64_t col = a->rest.step[i] / size_of(o), step = o->inner.step[0];
  for (int64_t e = 0; e < a->n; e++, data += step, buf += cols * mt_lane_size(o->lane)) {
    if (store)
      lanes->store[o->lane][d](data, buf, cols, col);
    else
      lanes->load[o->lane][d](buf, data, cols, col);
  }
}

static void do_cols(const job *j, const int64_t *off, int64_t run, int64_t cols, int worker) {
  const mt_along *a = j->a;
  char *at[MT_WALK_OPS];
  int64_t step[MT_WALK_OPS];
  for (int i = 0; i < a->nop; i++) {
    const mt_along_operand *o = &a->op[i];
    at[i] = o->v->data + off[i];
    step[i] = o->step;
    if (o->direct) continue;
    char *buf = j->scratch + (size_t)worker * a->block + o->buffer;
    if (!o->out) transfer_cols(a, i, at[i], buf, cols, false);
    at[i] = buf;
    step[i] = cols;
  }
  a->col(a->ctx, at, step, run, a->n, cols);
  for (int i = 0; i < a->nop; i++) {
    const mt_along_operand *o = &a->op[i];
    if (o->out && !o->direct) transfer_cols(a, i, o->v->data + off[i], at[i], cols, true);
  }
}

static void col_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_along *a = j->a;
  for (int64_t t = begin; t < end; t++) {
    int64_t first = t / a->ntiles * a->cols + t % a->ntiles * a->tile;
    int64_t cols = a->cols - t % a->ntiles * a->tile;
    mt_cursor c;
    mt_cursor_seek(&a->rest, &c, first, first + 1);
    do_cols(j, c.off, first, cols < a->tile ? cols : a->tile, worker);
  }
}

void mt_along_run(mt_along *a, void *scratch, int64_t grain) {
  job j = {a, scratch};
  if (a->rest.numel == 0 || a->n == 0) return;
  if (a->by_cols) {
    int64_t tasks = a->rest.numel / a->cols * a->ntiles;
    mt_parallel_for(a->k->par, tasks, grain / (a->n * a->tile) + 1, col_tasks, &j);
  } else {
    int64_t groups = (a->rest.numel + a->group - 1) / a->group;
    mt_parallel_for(a->k->par, groups, grain / (a->n * a->group) + 1, row_tasks, &j);
  }
}
