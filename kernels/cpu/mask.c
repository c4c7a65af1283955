/* mask.c - results whose size depends on the data: nonzero, masked_select, masked_scatter.
 *
 * The caller counts first (nonzero_count), allocates, and then fills. Filling needs to know where
 * each piece of the input starts in the result: the input is cut into pieces of fixed size, their
 * counts are summed up in scratch, and then all pieces are filled independently. */
#include <string.h>

#include "move.h"

#define PIECE 16384

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

/* Whether the element at p is not 0; NaN is not. */
static inline bool truth(const char *p, int dtype) {
  switch (dtype) {
    case MT_F64:
      return *(const double *)(const void *)p != 0;
    case MT_F32:
      return *(const float *)(const void *)p != 0;
    case MT_F16:
    case MT_BF16:
      return (*(const uint16_t *)(const void *)p & 0x7fff) != 0;
    case MT_I64:
      return *(const int64_t *)(const void *)p != 0;
    case MT_I32:
      return *(const int32_t *)(const void *)p != 0;
    case MT_I16:
      return *(const int16_t *)(const void *)p != 0;
    case MT_C64: {
      const mt_c64 *c = (const mt_c64 *)(const void *)p;
      return c->re != 0 || c->im != 0;
    }
    default:
      return *p != 0;
  }
}

static int64_t count_row(const char *p, int64_t step, int64_t n, int dtype) {
  int64_t count = 0;
  if (mt_dtype_size((mt_dtype)dtype) == 1) {
    for (int64_t i = 0; i < n; i++) count += p[i * step] != 0;
  } else {
    for (int64_t i = 0; i < n; i++) count += truth(p + i * step, dtype);
  }
  return count;
}

typedef struct job {
  const mt_walk *w; /* mask first; others as the operation needs */
  const mt_view *mask, *x, *out;
  int64_t *start; /* per piece */
  int64_t base;
} job;

static void count_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  (void)worker;
  for (int64_t p = begin; p < end; p++) {
    int64_t last = (p + 1) * PIECE < j->w->numel ? (p + 1) * PIECE : j->w->numel, count = 0;
    mt_cursor c;
    mt_cursor_seek(j->w, &c, p * PIECE, last);
    while (mt_cursor_next(j->w, &c)) {
      count += count_row(j->mask->data + c.off[0], j->w->step[0], c.n, j->mask->dtype);
    }
    j->start[p] = count;
  }
}

static int64_t pieces(int64_t n) { return (n + PIECE - 1) / PIECE; }

/* Fills j->start with running sums; returns the total. */
static int64_t count(const mt_kargs *k, job *j) {
  int64_t n = pieces(j->w->numel), sum = 0;
  j->start = k->scratch;
  mt_parallel_for(k->par, n, 4, count_pieces, j);
  for (int64_t p = 0; p < n; p++) {
    int64_t own = j->start[p];
    j->start[p] = sum;
    sum += own;
  }
  return sum;
}

static size_t piece_bytes(int64_t numel) { return ((size_t)pieces(numel) + 1) * sizeof(int64_t); }

/* nonzero_count(x) -> 0-d int64 */
int mt_cpu_nonzero_count(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  mt_walk w;
  mt_walk_views(&w, x->ndim, x->size, 1, &x);
  job j = {.w = &w, .mask = x};
  *(int64_t *)(void *)k->out[0]->data = count(k, &j);
  return MT_OK;
}

size_t mt_cpu_nonzero_count_scratch(const mt_kargs *k) { return piece_bytes(k->in[0]->numel); }

static void nonzero_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_view *x = j->mask, *out = j->out;
  (void)worker;
  for (int64_t p = begin; p < end; p++) {
    int64_t pos = p * PIECE, row = j->start[p], at[MT_MAX_DIM] = {0}, rest = pos;
    int64_t last = pos + PIECE < x->numel ? pos + PIECE : x->numel;
    for (int d = x->ndim - 1; d >= 0; d--) {
      at[d] = rest % x->size[d];
      rest /= x->size[d];
    }
    const char *from = x->data + mt_view_at(x, pos);
    for (; pos < last; pos++) {
      if (truth(from, x->dtype) && row < out->size[0]) {
        char *to = out->data + row++ * out->stride[0] * 8;
        for (int d = 0; d < x->ndim; d++) {
          *(int64_t *)(void *)(to + d * out->stride[1] * 8) = at[d] + j->base;
        }
      }
      for (int d = x->ndim - 1; d >= 0; d--) {
        from += x->stride[d] * bytes(x);
        if (++at[d] < x->size[d] || d == 0) break;
        from -= x->size[d] * x->stride[d] * bytes(x);
        at[d] = 0;
      }
    }
  }
}

/* nonzero(x, int n) -> (n, ndim) positions */
int mt_cpu_nonzero(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  mt_walk w;
  mt_walk_views(&w, x->ndim, x->size, 1, &x);
  job j = {.w = &w, .mask = x, .out = k->out[0], .base = k->index_base};
  count(k, &j);
  mt_parallel_for(k->par, pieces(x->numel), 2, nonzero_pieces, &j);
  return MT_OK;
}

size_t mt_cpu_nonzero_scratch(const mt_kargs *k) { return piece_bytes(k->in[0]->numel); }

/* ---- masked_select, masked_scatter ---- */

static void select_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const int size = (int)bytes(j->x);
  const int64_t ms = j->w->step[0], xs = j->w->step[1], os = j->out->stride[0] * size;
  (void)worker;
  for (int64_t p = begin; p < end; p++) {
    int64_t last = (p + 1) * PIECE < j->w->numel ? (p + 1) * PIECE : j->w->numel;
    int64_t room = j->out->size[0] - j->start[p];
    char *to = j->out->data + j->start[p] * os;
    mt_cursor c;
    mt_cursor_seek(j->w, &c, p * PIECE, last);
    while (mt_cursor_next(j->w, &c)) {
      const char *m = j->mask->data + c.off[0], *x = j->x->data + c.off[1];
      for (int64_t i = 0; i < c.n && room > 0; i++, m += ms, x += xs) {
        if (*m == 0) continue;
        memcpy(to, x, (size_t)size);
        to += os;
        room--;
      }
    }
  }
}

/* Shape that x and mask broadcast to. */
static int common_shape(const mt_view *a, const mt_view *b, int64_t *size) {
  int n = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int d = 0; d < n; d++) {
    int i = d - (n - a->ndim), j = d - (n - b->ndim);
    size[d] = i >= 0 && a->size[i] != 1 ? a->size[i] : j >= 0 ? b->size[j] : 1;
  }
  return n;
}

/* masked_select(x, mask, int n) -> (n): x and mask (bool) broadcast together */
int mt_cpu_masked_select(const mt_kargs *k) {
  const mt_view *x = k->in[0], *mask = k->in[1];
  int64_t size[MT_MAX_DIM];
  int ndim = common_shape(x, mask, size);
  mt_walk w;
  mt_walk_views(&w, ndim, size, 2, (const mt_view *const[]){mask, x});
  job j = {.w = &w, .mask = mask, .x = x, .out = k->out[0]};
  count(k, &j);
  mt_parallel_for(k->par, pieces(w.numel), 2, select_pieces, &j);
  return MT_OK;
}

size_t mt_cpu_masked_select_scratch(const mt_kargs *k) {
  int64_t size[MT_MAX_DIM], n = 1;
  int ndim = common_shape(k->in[0], k->in[1], size);
  for (int d = 0; d < ndim; d++) n *= size[d];
  return piece_bytes(n);
}

static void scatter_pieces(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const int size = (int)bytes(j->out);
  const int64_t ms = j->w->step[0], os = j->w->step[1];
  (void)worker;
  for (int64_t p = begin; p < end; p++) {
    int64_t last = (p + 1) * PIECE < j->w->numel ? (p + 1) * PIECE : j->w->numel;
    int64_t next = j->start[p];
    mt_cursor c;
    mt_cursor_seek(j->w, &c, p * PIECE, last);
    while (mt_cursor_next(j->w, &c)) {
      const char *m = j->mask->data + c.off[0];
      char *to = j->out->data + c.off[1];
      for (int64_t i = 0; i < c.n && next < j->x->numel; i++, m += ms, to += os) {
        if (*m != 0) memcpy(to, j->x->data + mt_view_at(j->x, next++), (size_t)size);
      }
    }
  }
}

/* masked_scatter(x, mask, source): mask broadcasts to x; source is read in row-major order. What
 * source is too short for keeps x: the caller compares nonzero_count with source's numel. */
int mt_cpu_masked_scatter(const mt_kargs *k) {
  const mt_view *x = k->in[0], *mask = k->in[1], *out = k->out[0];
  mt_walk w;
  mt_walk_views(&w, out->ndim, out->size, 2, (const mt_view *const[]){mask, out});
  job j = {.w = &w, .mask = mask, .x = k->in[2], .out = out};
  if (x->data != out->data) mt_move_copy(k->par, out, x);
  count(k, &j);
  mt_parallel_for(k->par, pieces(w.numel), 2, scatter_pieces, &j);
  return MT_OK;
}

size_t mt_cpu_masked_scatter_scratch(const mt_kargs *k) { return piece_bytes(k->out[0]->numel); }
