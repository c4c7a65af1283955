/* walk.h - N-d loops over several operands at once.
 *
 * A walk is a list of dims with one byte stride per operand, adjacent dims merged wherever every
 * operand allows it. A cursor goes through a range of its positions (row-major) in rows: pieces of
 * the last dim, for which the caller has a plain strided loop. Ranges may start and end anywhere,
 * so a walk is cut for threads by position.
 *
 *     mt_cursor c;
 *     mt_cursor_seek(&w, &c, begin, end);
 *     while (mt_cursor_next(&w, &c)) loop(dst + c.off[0], w.step[0], c.n);
 *
 * Strides may be zero (broadcast) or negative (flipped). */
#ifndef MT_CPU_WALK_H
#define MT_CPU_WALK_H

#include "../kernel.h"

#define MT_WALK_OPS 4

typedef struct mt_walk {
  int ndim, nop;
  int64_t numel;
  int64_t size[MT_MAX_DIM * 2];
  int64_t stride[MT_WALK_OPS][MT_MAX_DIM * 2]; /* bytes */
  int64_t step[MT_WALK_OPS];                   /* bytes between items of a row */
} mt_walk;

typedef struct mt_cursor {
  int64_t at[MT_MAX_DIM * 2];
  int64_t off[MT_WALK_OPS]; /* bytes from the operand's base to the first item of the row */
  int64_t n, left;          /* items of this row, items behind it */
} mt_cursor;

static inline void mt_walk_begin(mt_walk *w, int nop) {
  w->ndim = 0;
  w->nop = nop;
  w->numel = 1;
}

/* Appends an inner dim; stride: bytes, one per operand. */
static inline void mt_walk_dim(mt_walk *w, int64_t size, const int64_t *stride) {
  w->numel *= size;
  if (size == 1) return;
  int last = w->ndim - 1;
  bool merge = last >= 0;
  for (int i = 0; merge && i < w->nop; i++) merge = w->stride[i][last] == size * stride[i];
  if (!merge) {
    last = w->ndim++;
    w->size[last] = 1;
  }
  w->size[last] *= size;
  for (int i = 0; i < w->nop; i++) w->stride[i][last] = stride[i];
}

static inline void mt_walk_end(mt_walk *w) {
  if (w->ndim == 0) {
    w->ndim = 1;
    w->size[0] = w->numel;
    for (int i = 0; i < w->nop; i++) w->stride[i][0] = 0;
  }
  for (int i = 0; i < w->nop; i++) w->step[i] = w->stride[i][w->ndim - 1];
}

/* All dims of views of one shape; missing leading dims and sizes of 1 broadcast. */
static inline void mt_walk_views(mt_walk *w, int ndim, const int64_t *size, int nop,
                                 const mt_view *const *v) {
  mt_walk_begin(w, nop);
  for (int d = 0; d < ndim; d++) {
    int64_t s[MT_WALK_OPS];
    for (int i = 0; i < nop; i++) {
      int e = d - (ndim - v[i]->ndim);
      bool fixed = e < 0 || v[i]->size[e] == 1;
      s[i] = fixed ? 0 : v[i]->stride[e] * mt_dtype_size((mt_dtype)v[i]->dtype);
    }
    mt_walk_dim(w, size[d], s);
  }
  mt_walk_end(w);
}

static inline void mt_cursor_seek(const mt_walk *w, mt_cursor *c, int64_t begin, int64_t end) {
  int64_t rest = begin;
  c->n = 0;
  c->left = end - begin;
  for (int i = 0; i < w->nop; i++) c->off[i] = 0;
  if (c->left <= 0) return;
  for (int d = w->ndim - 1; d >= 0; d--) {
    c->at[d] = d > 0 ? rest % w->size[d] : rest;
    if (d > 0) rest /= w->size[d];
    for (int i = 0; i < w->nop; i++) c->off[i] += c->at[d] * w->stride[i][d];
  }
}

static inline bool mt_cursor_next(const mt_walk *w, mt_cursor *c) {
  int d = w->ndim - 1;
  if (c->left <= 0) return false;
  if (c->n > 0) {
    c->at[d] += c->n;
    for (int i = 0; i < w->nop; i++) c->off[i] += c->n * w->stride[i][d];
    for (; d > 0 && c->at[d] == w->size[d]; d--) {
      for (int i = 0; i < w->nop; i++) {
        c->off[i] += w->stride[i][d - 1] - w->size[d] * w->stride[i][d];
      }
      c->at[d] = 0;
      c->at[d - 1]++;
    }
    d = w->ndim - 1;
  }
  c->n = w->size[d] - c->at[d];
  if (c->n > c->left) c->n = c->left;
  c->left -= c->n;
  return true;
}

/* Bytes from v's first element to the one at row-major position p. */
static inline int64_t mt_view_at(const mt_view *v, int64_t p) {
  int64_t off = 0;
  if (v->contiguous) return p * mt_dtype_size((mt_dtype)v->dtype);
  for (int d = v->ndim - 1; d >= 0; d--) {
    off += p % v->size[d] * v->stride[d];
    p /= v->size[d];
  }
  return off * mt_dtype_size((mt_dtype)v->dtype);
}

#endif
