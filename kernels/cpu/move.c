/* move.c - copies, fills and gathers by element size.
 *
 * The inner loops exist once per size; a row that is contiguous on both sides is a memcpy. The
 * types are marked may_alias because a float is moved here as a number of the same size. */
#include "move.h"

#include <string.h>

typedef uint8_t __attribute__((may_alias)) u1;
typedef uint16_t __attribute__((may_alias)) u2;
typedef uint32_t __attribute__((may_alias)) u4;
typedef uint64_t __attribute__((may_alias)) u8;

#define ROW_LOOPS(T)                                                                    \
  static void row_##T(char *d, int64_t ds, const char *s, int64_t ss, int64_t n) {      \
    for (int64_t i = 0; i < n; i++) *(T *)(d + i * ds) = *(const T *)(s + i * ss);      \
  }                                                                                     \
  static void set_##T(char *d, int64_t ds, const char *v, int64_t n) {                  \
    const T x = *(const T *)v;                                                          \
    for (int64_t i = 0; i < n; i++) *(T *)(d + i * ds) = x;                             \
  }                                                                                     \
  static void gather_##T(char *d, int64_t ds, const char *o, int64_t os, const char *s, \
                         int64_t ss, int64_t n) {                                       \
    for (int64_t i = 0; i < n; i++) {                                                   \
      *(T *)(d + i * ds) = *(const T *)(s + *(const int64_t *)(o + i * os) + i * ss);   \
    }                                                                                   \
  }
ROW_LOOPS(u1)
ROW_LOOPS(u2)
ROW_LOOPS(u4)
ROW_LOOPS(u8)

void mt_move_row(int size, char *d, int64_t ds, const char *s, int64_t ss, int64_t n) {
  if (ds == size && ss == size) {
    memcpy(d, s, (size_t)(n * size));
    return;
  }
  switch (size) {
    case 1:
      row_u1(d, ds, s, ss, n);
      break;
    case 2:
      row_u2(d, ds, s, ss, n);
      break;
    case 4:
      row_u4(d, ds, s, ss, n);
      break;
    default:
      row_u8(d, ds, s, ss, n);
      break;
  }
}

void mt_move_set(int size, char *d, int64_t ds, const char *value, int64_t n) {
  bool zero = true;
  for (int i = 0; i < size; i++) zero = zero && value[i] == 0;
  if (ds == size && (zero || size == 1)) {
    memset(d, value[0], (size_t)(n * size));
    return;
  }
  switch (size) {
    case 1:
      set_u1(d, ds, value, n);
      break;
    case 2:
      set_u2(d, ds, value, n);
      break;
    case 4:
      set_u4(d, ds, value, n);
      break;
    default:
      set_u8(d, ds, value, n);
      break;
  }
}

typedef struct job {
  const mt_walk *w;
  int size;
  char *dst;
  const char *src, *offs;
} job;

static void copy_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(j->w, &c, begin, end);
  while (mt_cursor_next(j->w, &c)) {
    mt_move_row(j->size, j->dst + c.off[0], j->w->step[0], j->src + c.off[1], j->w->step[1], c.n);
  }
}

void mt_move_copy(mt_parallel *par, const mt_view *dst, const mt_view *src) {
  mt_walk w;
  mt_walk_views(&w, dst->ndim, dst->size, 2, (const mt_view *const[]){dst, src});
  job j = {&w, mt_dtype_size((mt_dtype)dst->dtype), dst->data, src->data, NULL};
  mt_parallel_for(par, w.numel, MT_MOVE_GRAIN, copy_range, &j);
}

static void fill_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(j->w, &c, begin, end);
  while (mt_cursor_next(j->w, &c)) {
    mt_move_set(j->size, j->dst + c.off[0], j->w->step[0], j->src, c.n);
  }
}

void mt_move_fill(mt_parallel *par, const mt_view *dst, const void *value) {
  mt_walk w;
  mt_walk_views(&w, dst->ndim, dst->size, 1, &dst);
  job j = {&w, mt_dtype_size((mt_dtype)dst->dtype), dst->data, value, NULL};
  mt_parallel_for(par, w.numel, 2 * MT_MOVE_GRAIN, fill_range, &j);
}

static void gather_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const int64_t ds = j->w->step[0], os = j->w->step[1], ss = j->w->step[2];
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(j->w, &c, begin, end);
  while (mt_cursor_next(j->w, &c)) {
    char *d = j->dst + c.off[0];
    const char *o = j->offs + c.off[1], *s = j->src + c.off[2];
    if (os == 0) {
      mt_move_row(j->size, d, ds, s + *(const int64_t *)o, ss, c.n);
      continue;
    }
    switch (j->size) {
      case 1:
        gather_u1(d, ds, o, os, s, ss, c.n);
        break;
      case 2:
        gather_u2(d, ds, o, os, s, ss, c.n);
        break;
      case 4:
        gather_u4(d, ds, o, os, s, ss, c.n);
        break;
      default:
        gather_u8(d, ds, o, os, s, ss, c.n);
        break;
    }
  }
}

void mt_move_gather(mt_parallel *par, const mt_walk *w, int size, char *dst, const int64_t *offs,
                    const char *src) {
  job j = {w, size, dst, src, (const char *)offs};
  mt_parallel_for(par, w->numel, MT_MOVE_GRAIN / 2, gather_range, &j);
}
