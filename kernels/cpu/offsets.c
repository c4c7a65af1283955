/* offsets.c - see offsets.h.
 *
 * Reading and checking is one pass, in parallel; each range stops at its first bad position and the
 * lowest of all ranges wins, so what is reported does not depend on the thread count. */
#include "offsets.h"

#include <limits.h>
#include <stdatomic.h>

int64_t mt_offsets_read(const mt_view *v, int64_t off) {
  const char *p = v->data + off;
  switch (v->dtype) {
    case MT_I64:
      return *(const int64_t *)p;
    case MT_I32:
      return *(const int32_t *)p;
    case MT_I16:
      return *(const int16_t *)p;
    case MT_I8:
      return *(const int8_t *)p;
    default:
      return *(const uint8_t *)p;
  }
}

size_t mt_offsets_bytes(int64_t n) {
  return n < 0 || n > (INT64_MAX >> 4) ? SIZE_MAX : (size_t)n * sizeof(int64_t);
}

typedef struct job {
  const mt_offsets *o;
  const mt_view *v;
  const mt_walk *w;
  int64_t base, *out;
  atomic_llong bad;
} job;

static void report(job *j, int64_t pos) {
  long long seen = atomic_load(&j->bad);
  while (pos < seen && !atomic_compare_exchange_weak(&j->bad, &seen, pos)) {
  }
}

/* The position meant by the stored value x, -1 if it is out of range. */
static inline int64_t position(const mt_offsets *o, int64_t base, int64_t x) {
  if (o->wrap && x < 0) {
    return x >= -o->limit ? x + o->limit : -1;
  }
  return x >= base && x - base < o->limit ? x - base : -1;
}

static void fill_range(void *ctx, int64_t begin, int64_t end, int worker) {
  job *j = ctx;
  const mt_offsets *o = j->o;
  int64_t at = begin, *out = j->out;
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(j->w, &c, begin, end);
  while (mt_cursor_next(j->w, &c)) {
    for (int64_t i = 0; i < c.n; i++, at++) {
      int64_t x = mt_offsets_read(j->v, c.off[0] + i * j->w->step[0]);
      int64_t p = position(o, j->base, x);
      if (p < 0) {
        report(j, at);
        return;
      }
      p = o->flat ? mt_view_at(o->flat, p) : p * o->step;
      out[at] = o->add ? out[at] + p : p;
    }
  }
}

static void fill_range_i64(void *ctx, int64_t begin, int64_t end, int worker) {
  job *j = ctx;
  const int64_t base = j->base, step = j->o->step, es = j->w->step[0];
  const uint64_t limit = (uint64_t)j->o->limit;
  int64_t at = begin;
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(j->w, &c, begin, end);
  while (mt_cursor_next(j->w, &c)) {
    const char *p = j->v->data + c.off[0];
    for (int64_t i = 0; i < c.n; i++, at++) {
      uint64_t x = (uint64_t) * (const int64_t *)(p + i * es) - (uint64_t)base;
      if (x >= limit) {
        report(j, at);
        return;
      }
      j->out[at] = (int64_t)x * step;
    }
  }
}

int mt_offsets_bad(const mt_kargs *k, int input, int64_t pos, int64_t limit) {
  const mt_view *v = k->in[input];
  if (k->error) {
    *k->error = (mt_kerror){.input = input,
                            .position = pos,
                            .value = mt_offsets_read(v, mt_view_at(v, pos)),
                            .first = k->index_base,
                            .last = k->index_base + limit - 1};
  }
  return MT_BADINDEX;
}

/* Position in v of position `pos` of the shape it was broadcast to. */
static int64_t own_position(const mt_offsets *o, const mt_view *v, int64_t pos) {
  int64_t own = 0, step = 1;
  for (int d = o->ndim - 1; d >= 0; d--) {
    int e = d - (o->ndim - v->ndim);
    int64_t at = pos % o->size[d];
    pos /= o->size[d];
    if (e < 0) continue;
    if (v->size[e] != 1) own += at * step;
    step *= v->size[e];
  }
  return own;
}

int mt_offsets_fill(const mt_kargs *k, const mt_offsets *o, int64_t *out) {
  const mt_view *v = k->in[o->input];
  mt_walk w;
  mt_walk_views(&w, o->ndim, o->size, 1, &v);
  job j = {.o = o, .v = v, .w = &w, .base = k->index_base, .out = out};
  atomic_init(&j.bad, LLONG_MAX);
  bool plain = v->dtype == MT_I64 && !o->wrap && !o->add && !o->flat;
  mt_parallel_for(k->par, w.numel, 65536, plain ? fill_range_i64 : fill_range, &j);
  int64_t bad = atomic_load(&j.bad);
  if (bad == LLONG_MAX) return MT_OK;
  return mt_offsets_bad(k, o->input, own_position(o, v, bad), o->limit);
}

int mt_offsets_own(const mt_kargs *k, int input, int64_t limit, int64_t step, int64_t *out) {
  const mt_view *v = k->in[input];
  mt_offsets o = {.input = input, .ndim = v->ndim, .size = v->size, .limit = limit, .step = step};
  return mt_offsets_fill(k, &o, out);
}
