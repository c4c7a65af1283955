/* reduce.c - every reduction over any set of dims: sum, mean, prod, max, argmax, var, norm ...
 *
 * The dims are sorted into reduced and kept ones and merged. Where the nearest elements belong to
 * a reduced dim, each result folds its elements along rows; where they belong to a kept dim, many
 * results fold row after row side by side. Elements that are not contiguous in the compute type
 * are converted block by block. Work is cut into tasks by shape alone: a long reduction becomes
 * chunks whose accumulators meet in scratch and are joined in order.
 * The kernels by name are in reductions.c. */
#include "reduce.h"

#include <math.h>
#include <string.h>

#include "../half.h"
#include "isa.h"
#include "walk.h"

enum {
  CHUNK = 1 << 16,      /* elements of one task along a row */
  CHUNK_COLS = 1 << 18, /* elements of one task of columns */
  FEW = 64,             /* below so many tasks a reduction is cut into chunks */
  GRAIN = 1 << 16       /* elements worth a thread */
};

typedef struct plan {
  const mt_kargs *k;
  mt_rjob job;
  mt_lane lane;
  mt_dtype in, out[2];
  char *data, *to[2];
  mt_rrow_fn row;
  mt_rcol_fn col;
  mt_load_fn load;
  int esize, lsize; /* bytes of an element of the input, of the lane */
  mt_walk red;      /* the reduced positions */
  mt_walk kept;     /* the results: input, out[0], out[1] */
  bool by_cols, direct;
  int64_t outer, cols, tile, ntiles; /* by_cols: kept positions outside the inner dim, its size */
  int64_t fold;                      /* by_cols: so many rows are read as one */
  int64_t chunk, nchunks;
  mt_racc *part; /* nchunks accumulators for every result, if more than one */
} plan;

/* ---- Accumulators ---- */

static mt_racc empty_acc(mt_rkind kind) {
  mt_racc a = {0, 0, 0, -1};
  if (kind == MT_R_PROD) a.f = 1, a.i = 1;
  if (kind == MT_R_LSE) a.f = -INFINITY;
  return a;
}

static bool join_better(mt_rkind kind, mt_lane lane, const mt_racc *a, const mt_racc *b) {
  bool max = kind == MT_R_MAX || kind == MT_R_ARGMAX;
  if (b->pos < 0) return false;
  if (a->pos < 0) return true;
  if (lane == MT_LI64) {
    if (a->i != b->i) return max ? b->i > a->i : b->i < a->i;
  } else if (mt_racc_better(max, b->f, a)) {
    return true;
  } else if (a->f != b->f && (a->f == a->f || b->f == b->f)) {
    return false;
  }
  return b->pos < a->pos;
}

void mt_racc_join(mt_rkind kind, mt_lane lane, mt_racc *a, const mt_racc *b) {
  if (kind >= MT_R_MAX && kind <= MT_R_ARGMIN) {
    if (join_better(kind, lane, a, b)) *a = *b;
  } else if (kind == MT_R_VAR) {
    mt_racc_var(a, (double)b->i, b->f, b->g);
  } else if (kind == MT_R_LSE) {
    mt_racc_lse(a, b->f, b->g);
  } else if (kind == MT_R_PROD) {
    a->f *= b->f;
    a->i = (int64_t)((uint64_t)a->i * (uint64_t)b->i);
  } else {
    mt_racc_add(a, b->f);
    a->g += b->g;
    a->i = (int64_t)((uint64_t)a->i + (uint64_t)b->i);
  }
}

static void put(mt_dtype d, char *to, double f, int64_t i, bool whole) {
  if (!whole && !mt_dtype_is_float(d)) i = fabs(f) < 9.2e18 ? (int64_t)f : INT64_MIN;
  if (whole) f = (double)i;
  switch (d) {
    case MT_F64:
      *(double *)to = f;
      break;
    case MT_F32:
      *(float *)to = (float)f;
      break;
    case MT_F16:
      *(uint16_t *)to = mt_f32_to_f16((float)f);
      break;
    case MT_BF16:
      *(uint16_t *)to = mt_f32_to_bf16((float)f);
      break;
    case MT_I64:
      *(int64_t *)to = i;
      break;
    case MT_I32:
      *(int32_t *)to = (int32_t)i;
      break;
    case MT_I16:
      *(int16_t *)to = (int16_t)i;
      break;
    case MT_I8:
      *(int8_t *)to = (int8_t)i;
      break;
    case MT_U8:
      *(uint8_t *)to = (uint8_t)i;
      break;
    case MT_BOOL:
      *(uint8_t *)to = whole ? i != 0 : f != 0;
      break;
    default:
      break;
  }
}

/* The compensation of an infinite sum is NaN and says nothing. */
static double total(const mt_racc *a) { return isfinite(a->f) ? a->f + a->g : a->f; }

static double variance(const mt_racc *a, double correction) {
  double n = (double)a->i - correction;
  return a->g / (n > 0 ? n : 0);
}

static double root_of(double sum, double p) {
  return p == 2 ? sqrt(sum) : p == 1 ? sum : pow(sum, 1 / p);
}

static void finish(const plan *p, const mt_racc *a, const int64_t *off) {
  char *o = p->to[0] + off[1], *o2 = p->to[1] ? p->to[1] + off[2] : NULL;
  bool whole = p->lane == MT_LI64;
  int64_t n = p->red.numel, at = a->pos + p->k->index_base;
  double v;
  switch (p->job.result) {
    case MT_RR_VALUE:
      v = p->job.kind <= MT_R_SUMSQ ? total(a) : a->f;
      put(p->out[0], o, v, a->i, whole || p->job.kind == MT_R_COUNT);
      break;
    case MT_RR_MEAN:
      put(p->out[0], o, (whole ? (double)a->i : total(a)) / (double)n, 0, false);
      break;
    case MT_RR_ROOT:
      put(p->out[0], o, root_of(total(a), p->job.p), 0, false);
      break;
    case MT_RR_ANY:
      put(p->out[0], o, 0, a->i > 0, true);
      break;
    case MT_RR_ALL:
      put(p->out[0], o, 0, a->i == n, true);
      break;
    case MT_RR_POSITION:
      put(p->out[0], o, 0, at, true);
      break;
    case MT_RR_VALUE_AND_POSITION:
      put(p->out[0], o, a->f, a->i, whole);
      put(p->out[1], o2, 0, at, true);
      break;
    case MT_RR_VAR_AND_MEAN:
    case MT_RR_STD_AND_MEAN:
      put(p->out[1], o2, a->i > 0 ? a->f : NAN, 0, false); /* fall through */
    case MT_RR_VAR:
    case MT_RR_STD:
      v = variance(a, p->job.p);
      if (p->job.result == MT_RR_STD || p->job.result == MT_RR_STD_AND_MEAN) v = sqrt(v);
      put(p->out[0], o, v, 0, false);
      break;
    case MT_RR_MOMENTS:
      *(double *)o = a->f;
      *(double *)o2 = a->g;
      break;
    case MT_RR_LOGSUMEXP:
      put(p->out[0], o, a->f + (isfinite(a->f) ? log(a->g) : 0), 0, false);
      break;
  }
}

/* ---- Along rows ---- */

static void apply_map(const plan *p, void *buf, int64_t n) {
  float *f = buf;
  double *d = buf;
  bool single = p->lane == MT_LF32;
  for (int64_t i = 0; i < n; i++) {
    double v = single ? f[i] : d[i];
    if (p->job.map == MT_RMAP_ABS) v = fabs(v);
    if (p->job.map == MT_RMAP_NAN0) v = v == v ? v : 0;
    if (p->job.map == MT_RMAP_POW) v = pow(fabs(v), p->job.p);
    if (single)
      f[i] = (float)v;
    else
      d[i] = v;
  }
}

static void flush_row(const plan *p, void *buf, int64_t n, int64_t first, mt_racc *acc) {
  if (n == 0) return;
  if (p->job.map) apply_map(p, buf, n);
  p->row(buf, n, first, acc);
}

/* Folds the reduced positions [first, first + count) of the result whose data begins at x. */
static void fold_buffered(const plan *p, const char *x, int64_t first, int64_t count,
                          mt_racc *acc) {
  double buf[MT_RBLOCK];
  mt_cursor c;
  int64_t have = 0, stride = p->red.step[0] / p->esize;
  mt_cursor_seek(&p->red, &c, first, first + count);
  while (mt_cursor_next(&p->red, &c)) {
    for (int64_t i = 0, take; i < c.n; i += take) {
      take = c.n - i < MT_RBLOCK - have ? c.n - i : MT_RBLOCK - have;
      p->load((char *)buf + have * p->lsize, x + c.off[0] + i * p->red.step[0], take, stride);
      have += take;
      if (have < MT_RBLOCK) continue;
      flush_row(p, buf, have, first, acc);
      first += have;
      have = 0;
    }
  }
  flush_row(p, buf, have, first, acc);
}

static void fold_row(const plan *p, const char *x, int64_t first, int64_t count, mt_racc *acc) {
  mt_cursor c;
  if (!p->direct) {
    fold_buffered(p, x, first, count, acc);
    return;
  }
  mt_cursor_seek(&p->red, &c, first, first + count);
  while (mt_cursor_next(&p->red, &c)) {
    for (int64_t i = 0; i < c.n; i += MT_RBLOCK) {
      int64_t n = c.n - i < MT_RBLOCK ? c.n - i : MT_RBLOCK;
      p->row(x + c.off[0] + i * p->esize, n, first, acc);
      first += n;
    }
  }
}

static void row_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const plan *p = ctx;
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(&p->kept, &c, begin, end);
  while (mt_cursor_next(&p->kept, &c)) {
    for (int64_t i = 0; i < c.n; i++) {
      int64_t off[3];
      mt_racc acc = empty_acc(p->job.kind);
      for (int j = 0; j < 3; j++) off[j] = c.off[j] + i * p->kept.step[j];
      fold_row(p, p->data + off[0], 0, p->red.numel, &acc);
      finish(p, &acc, off);
    }
  }
}

static void row_chunks(void *ctx, int64_t begin, int64_t end, int worker) {
  const plan *p = ctx;
  (void)worker;
  for (int64_t t = begin; t < end; t++) {
    mt_cursor c;
    int64_t first = t % p->nchunks * p->chunk, count = p->red.numel - first;
    mt_cursor_seek(&p->kept, &c, t / p->nchunks, t / p->nchunks + 1);
    p->part[t] = empty_acc(p->job.kind);
    fold_row(p, p->data + c.off[0], first, count < p->chunk ? count : p->chunk, &p->part[t]);
  }
}

/* ---- Columns ---- */

static void flush_cols(const plan *p, void *buf, int64_t rows, int64_t cols, int64_t first,
                       mt_racc *acc) {
  if (rows == 0) return;
  if (p->job.map) apply_map(p, buf, rows * cols);
  p->col(buf, cols, rows, cols, first, acc);
}

/* Folds the rows [first, first + count) of w into acc[cols]; a row begins at x + its offset. */
static void fold_cols(const plan *p, const mt_walk *w, const char *x, int64_t cols, int64_t stride,
                      int64_t first, int64_t count, mt_racc *acc) {
  double buf[MT_RROWS * MT_RTILE];
  mt_cursor c;
  int64_t have = 0;
  mt_cursor_seek(w, &c, first, first + count);
  while (mt_cursor_next(w, &c)) {
    for (int64_t i = 0, n; i < c.n; i += n) {
      const char *row = x + c.off[0] + i * w->step[0];
      n = c.n - i < MT_RROWS ? c.n - i : MT_RROWS;
      if (p->direct) {
        p->col(row, w->step[0] / p->esize, n, cols, first, acc);
        first += n;
        continue;
      }
      n = 1;
      p->load((char *)buf + have * cols * p->lsize, row, cols, stride);
      if (++have < MT_RROWS) continue;
      flush_cols(p, buf, have, cols, first, acc);
      first += have;
      have = 0;
    }
  }
  if (!p->direct) flush_cols(p, buf, have, cols, first, acc);
}

/* Narrow contiguous rows: `fold` of them are read as one long row, whose parts are joined. */
static void fold_narrow(const plan *p, const char *x, int64_t first, int64_t count, mt_racc *acc) {
  mt_racc wide[MT_RTILE];
  int64_t q = p->fold, long_rows = count / q, cols = p->cols, done = long_rows * q;
  mt_walk w;
  int64_t step = p->red.step[0] * q;
  mt_walk_begin(&w, 1);
  mt_walk_dim(&w, long_rows, &step);
  mt_walk_end(&w);
  for (int64_t j = 0; j < q * cols; j++) wide[j] = empty_acc(p->job.kind);
  fold_cols(p, &w, x + first * p->red.step[0], q * cols, 1, 0, long_rows, wide);
  for (int64_t j = 0; j < q * cols; j++) {
    if (wide[j].pos >= 0) wide[j].pos = first + wide[j].pos * q + j / cols;
    mt_racc_join(p->job.kind, p->lane, &acc[j % cols], &wide[j]);
  }
  fold_cols(p, &p->red, x, cols, 1, first + done, count - done, acc);
}

static void finish_cols(const plan *p, int64_t kept, int64_t n, const mt_racc *acc, int64_t step) {
  mt_cursor c;
  mt_cursor_seek(&p->kept, &c, kept, kept + n);
  while (mt_cursor_next(&p->kept, &c)) {
    for (int64_t i = 0; i < c.n; i++, acc += step) {
      int64_t off[3];
      for (int j = 0; j < 3; j++) off[j] = c.off[j] + i * p->kept.step[j];
      finish(p, acc, off);
    }
  }
}

static void col_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  const plan *p = ctx;
  mt_racc local[MT_RCOLS];
  (void)worker;
  for (int64_t t = begin; t < end; t++) {
    int64_t chunk = t % p->nchunks, tile = t / p->nchunks % p->ntiles;
    int64_t outer = t / p->nchunks / p->ntiles, first = chunk * p->chunk;
    int64_t cols = p->cols - tile * p->tile, count = p->red.numel - first;
    int64_t kept = outer * p->cols + tile * p->tile;
    mt_cursor c;
    if (cols > p->tile) cols = p->tile;
    if (count > p->chunk) count = p->chunk;
    mt_cursor_seek(&p->kept, &c, kept, kept + 1);
    mt_racc *acc = p->nchunks > 1 ? p->part + chunk * p->kept.numel + kept : local;
    for (int64_t j = 0; j < cols; j++) acc[j] = empty_acc(p->job.kind);
    if (p->fold > 1)
      fold_narrow(p, p->data + c.off[0], first, count, acc);
    else
      fold_cols(p, &p->red, p->data + c.off[0], cols, p->kept.step[0] / p->esize, first, count,
                acc);
    if (p->nchunks == 1) finish_cols(p, kept, cols, acc, 1);
  }
}

/* ---- Joining chunks ---- */

static void join_chunks(void *ctx, int64_t begin, int64_t end, int worker) {
  const plan *p = ctx;
  int64_t next = p->by_cols ? p->kept.numel : 1, each = p->by_cols ? 1 : p->nchunks;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    mt_racc *a = p->part + i * each;
    for (int64_t c = 1; c < p->nchunks; c++) mt_racc_join(p->job.kind, p->lane, a, a + c * next);
    finish_cols(p, i, 1, a, 1);
  }
}

/* ---- Planning ---- */

typedef struct dim {
  int64_t size, stride[3]; /* bytes: input, out[0], out[1] */
} dim;

/* Largest steps first, so that the nearest elements are the innermost. Broadcast dims go outside.
 */
static void sort_dims(dim *d, int n) {
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0; j--) {
      int64_t a = d[j - 1].stride[0], b = d[j].stride[0];
      if (a == 0 || (b != 0 && a >= b)) break;
      dim t = d[j];
      d[j] = d[j - 1];
      d[j - 1] = t;
    }
}

static int64_t out_stride(const mt_view *o, const mt_view *x, int d, int nth) {
  if (!o) return 0;
  int e = o->ndim == x->ndim ? d : nth;
  return e < o->ndim ? o->stride[e] * mt_dtype_size((mt_dtype)o->dtype) : 0;
}

static void split_dims(plan *p, const mt_view *x, unsigned mask, const mt_view *o0,
                       const mt_view *o1) {
  dim red[MT_MAX_DIM], kept[MT_MAX_DIM + 1];
  int nr = 0, nk = 0;
  for (int d = 0; d < x->ndim; d++) {
    int64_t s = x->stride[d] * mt_dtype_size((mt_dtype)x->dtype);
    if (mask >> d & 1)
      red[nr++] = (dim){x->size[d], {s, 0, 0}};
    else
      kept[nk] = (dim){x->size[d], {s, out_stride(o0, x, d, nk), out_stride(o1, x, d, nk)}}, nk++;
  }
  if (p->in == MT_C64 && p->out[0] == MT_C64) { /* pairs of floats: one more kept dim */
    kept[nk++] = (dim){2, {4, 4, 4}};
    p->in = p->out[0] = MT_F32;
  }
  bool ordered = p->job.kind == MT_R_ARGMAX || p->job.kind == MT_R_ARGMIN;
  if (!ordered) sort_dims(red, nr);
  sort_dims(kept, nk);
  mt_walk_begin(&p->red, 1);
  for (int i = 0; i < nr; i++) mt_walk_dim(&p->red, red[i].size, red[i].stride);
  mt_walk_end(&p->red);
  mt_walk_begin(&p->kept, 3);
  for (int i = 0; i < nk; i++) mt_walk_dim(&p->kept, kept[i].size, kept[i].stride);
  mt_walk_end(&p->kept);
}

/* Rows or columns? */
static void choose_form(plan *p) {
  int64_t rs = p->red.step[0], ks = p->kept.step[0], n = p->red.numel;
  int64_t last = p->red.size[p->red.ndim - 1], cols = p->kept.size[p->kept.ndim - 1];
  bool native = mt_lane_native(p->lane, p->in) && p->job.map == MT_RMAP_NONE;
  bool narrow = p->red.ndim == 1 && ks == p->esize && rs == cols * p->esize && n >= 2;
  p->cols = cols;
  p->outer = cols ? p->kept.numel / cols : 0;
  p->fold = 1;
  p->by_cols = n > 1 && ks != 0 && cols > 1 && (rs > ks || rs == 0) && (cols >= 16 || narrow);
  if (n > 1 && n <= 16 && cols >= 16 && ks != 0) p->by_cols = true;
  if (p->by_cols) {
    p->direct = native && ks == p->esize;
    bool twice = p->job.kind == MT_R_VAR || p->job.kind == MT_R_LSE;
    p->tile = p->direct && !twice ? MT_RCOLS : MT_RTILE;
    if (narrow && cols <= MT_RTILE / 2) p->fold = MT_RTILE / cols;
    if (p->fold > n) p->fold = n;
    p->ntiles = (cols + p->tile - 1) / p->tile;
  } else {
    p->direct = native && rs == p->esize && (p->red.ndim == 1 || last >= 32);
  }
}

static void choose_chunks(plan *p) {
  int64_t n = p->red.numel, tasks = p->by_cols ? p->outer * p->ntiles : p->kept.numel;
  p->chunk = CHUNK;
  if (p->by_cols) {
    int64_t wide = p->cols < p->tile ? p->cols : p->tile;
    p->chunk = (CHUNK_COLS / wide + MT_RROWS - 1) / MT_RROWS * MT_RROWS;
    if (p->fold > 1) p->chunk = (p->chunk + p->fold - 1) / p->fold * p->fold;
  }
  p->nchunks = 1;
  if (tasks < FEW && n > p->chunk) p->nchunks = (n + p->chunk - 1) / p->chunk;
  if (p->nchunks == 1) p->chunk = n;
}

/* The type to compute in: wide enough for input and result. */
static mt_lane choose_lane(mt_rkind kind, mt_dtype in, mt_dtype out) {
  if ((kind >= MT_R_MAX && kind <= MT_R_ARGMIN) || kind == MT_R_COUNT) return mt_lane_of(in);
  if (in == MT_C64) return MT_LF32;
  if (in == MT_F64 || out == MT_F64) return MT_LF64;
  if (!mt_dtype_is_float(out)) return MT_LI64;
  if (!mt_dtype_is_float(in) || kind == MT_R_PROD) return MT_LF64;
  return MT_LF32;
}

static void make_plan(plan *p, const mt_kargs *k, mt_rjob j, const mt_view *x, unsigned mask,
                      const mt_view *o0, const mt_view *o1) {
  p->k = k;
  p->job = j;
  p->in = (mt_dtype)x->dtype;
  p->out[0] = (mt_dtype)o0->dtype;
  p->out[1] = o1 ? (mt_dtype)o1->dtype : MT_NODTYPE;
  p->data = x->data;
  p->to[0] = o0->data;
  p->to[1] = o1 ? o1->data : NULL;
  p->lane = choose_lane(j.kind, p->in, p->out[0]);
  if (p->lane == MT_LI64) p->job.map = MT_RMAP_NONE;
  split_dims(p, x, mask, o0, o1);
  p->esize = mt_dtype_size(p->in);
  p->lsize = mt_lane_size(p->lane);
  p->part = NULL;
  choose_form(p);
  choose_chunks(p);
}

static void run_plan(plan *p, void *scratch) {
  const struct mt_isa *isa = p->k->isa;
  mt_parallel *par = p->k->par;
  int64_t n = p->red.numel, each;
  p->row = isa->reduce->lane[p->lane]->row[p->job.kind];
  p->col = isa->reduce->lane[p->lane]->col[p->job.kind];
  p->load = isa->lane->load[p->lane][p->in];
  p->part = scratch;
  if (p->job.kind == MT_R_COUNT && p->esize == 1 && p->red.step[0] == 1 && !p->by_cols) {
    p->row = isa->reduce->count_bytes;
    p->direct = true;
  }
  if (p->by_cols) {
    each = (p->cols < p->tile ? p->cols : p->tile) * p->chunk;
    mt_parallel_for(par, p->outer * p->ntiles * p->nchunks, GRAIN / (each + 1) + 1, col_tasks, p);
  } else if (p->nchunks > 1) {
    mt_parallel_for(par, p->kept.numel * p->nchunks, GRAIN / p->chunk + 1, row_chunks, p);
  } else {
    mt_parallel_for(par, p->kept.numel, GRAIN / (n + 16) + 1, row_tasks, p);
  }
  if (p->nchunks > 1) mt_parallel_for(par, p->kept.numel, GRAIN / 64, join_chunks, p);
}

/* One block, one result, nothing to plan: what a loss or a small metric is. */
static bool run_small(const mt_kargs *k, mt_rjob job, const mt_view *x, unsigned mask,
                      const mt_view *o0, const mt_view *o1) {
  static const int64_t off[3] = {0, 0, 0};
  mt_dtype in = (mt_dtype)x->dtype;
  unsigned all = (1u << x->ndim) - 1;
  mt_lane lane = choose_lane(job.kind, in, (mt_dtype)o0->dtype);
  if (!x->contiguous || (mask & all) != all || x->numel > MT_RBLOCK || x->numel == 0) return false;
  if (!mt_lane_native(lane, in) || job.map != MT_RMAP_NONE) return false;
  plan p;
  mt_racc acc = empty_acc(job.kind);
  p.k = k;
  p.job = job;
  p.lane = lane;
  p.out[0] = (mt_dtype)o0->dtype;
  p.out[1] = o1 ? (mt_dtype)o1->dtype : MT_NODTYPE;
  p.to[0] = o0->data;
  p.to[1] = o1 ? o1->data : NULL;
  p.red.numel = x->numel;
  k->isa->reduce->lane[lane]->row[job.kind](x->data, x->numel, 0, &acc);
  finish(&p, &acc, off);
  return true;
}

int mt_reduce_run(const mt_kargs *k, mt_rjob job, const mt_view *x, unsigned mask,
                  const mt_view *o0, const mt_view *o1, void *scratch) {
  plan p;
  if (run_small(k, job, x, mask, o0, o1)) return MT_OK;
  make_plan(&p, k, job, x, mask, o0, o1);
  if (p.kept.numel == 0) return MT_OK;
  if (p.red.numel == 0 && job.kind >= MT_R_MAX && job.kind <= MT_R_ARGMIN) return MT_ERROR;
  run_plan(&p, scratch);
  return MT_OK;
}

size_t mt_reduce_scratch(const mt_kargs *k, mt_rjob job, const mt_view *x, unsigned mask,
                         const mt_view *o0, const mt_view *o1) {
  plan p;
  size_t n;
  if (x->numel <= CHUNK) return 0;
  make_plan(&p, k, job, x, mask, o0, o1);
  if (p.nchunks == 1) return 0;
  if (__builtin_mul_overflow((size_t)p.kept.numel, (size_t)p.nchunks, &n)) return SIZE_MAX;
  return __builtin_mul_overflow(n, sizeof(mt_racc), &n) ? SIZE_MAX : n;
}
