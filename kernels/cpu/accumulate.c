/* accumulate.c - the inner loops of all scatter kernels, and the walk that feeds them.
 *
 * Loops exist per dtype and operation. The walk has two nests, `other` and `line`, and makes the
 * row of one of them the inner loop: the one whose memory lies closer together. The order along a
 * line is the same either way. */
#include "accumulate.h"

#include "../half.h"
#include "move.h"

typedef uint8_t __attribute__((may_alias)) u1;
typedef uint16_t __attribute__((may_alias)) u2;
typedef uint32_t __attribute__((may_alias)) u4;
typedef uint64_t __attribute__((may_alias)) u8;

#define LOAD(x) (x)
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define KEEP_MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define KEEP_MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define OR(a, b) ((a) | (b))
#define AND(a, b) ((a) & (b))
#define SECOND(a, b) (b)

/* D: type of the destination, S: of the source, W: in which the operation is done. A row without
 * offsets of its own is a plain vector operation. */
#define LOOP(name, D, S, W, load, op)                                                         \
  static void name(char *d, int64_t ds, const char *o, int64_t os, const char *s, int64_t ss, \
                   int64_t n) {                                                               \
    if (os == 0 && ds == sizeof(D) && ss == sizeof(S)) {                                      \
      D *restrict p = (D *)(void *)(d + *(const int64_t *)o);                                 \
      const S *restrict q = (const S *)(const void *)s;                                       \
      for (int64_t i = 0; i < n; i++) p[i] = (D)op((W)p[i], (W)load(q[i]));                   \
      return;                                                                                 \
    }                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                         \
      D *p = (D *)(void *)(d + i * ds + *(const int64_t *)(o + i * os));                      \
      *p = (D)op((W)*p, (W)load(*(const S *)(const void *)(s + i * ss)));                     \
    }                                                                                         \
  }
#define LOOPS(t, D, S, W, load)          \
  LOOP(add_##t, D, S, W, load, ADD)      \
  LOOP(mul_##t, D, S, W, load, MUL)      \
  LOOP(max_##t, D, S, W, load, KEEP_MAX) \
  LOOP(min_##t, D, S, W, load, KEEP_MIN)

LOOP(set_1, u1, u1, u1, LOAD, SECOND)
LOOP(set_2, u2, u2, u2, LOAD, SECOND)
LOOP(set_4, u4, u4, u4, LOAD, SECOND)
LOOP(set_8, u8, u8, u8, LOAD, SECOND)
LOOPS(f64, double, double, double, LOAD)
LOOPS(f32, float, float, float, LOAD)
LOOPS(f16, float, uint16_t, float, mt_f16_to_f32)
LOOPS(bf16, float, uint16_t, float, mt_bf16_to_f32)
LOOP(add_i64, uint64_t, uint64_t, uint64_t, LOAD, ADD)
LOOP(mul_i64, uint64_t, uint64_t, uint64_t, LOAD, MUL)
LOOP(max_i64, int64_t, int64_t, int64_t, LOAD, KEEP_MAX)
LOOP(min_i64, int64_t, int64_t, int64_t, LOAD, KEEP_MIN)
LOOPS(i32, int32_t, int32_t, int64_t, LOAD)
LOOPS(i16, int16_t, int16_t, int64_t, LOAD)
LOOPS(i8, int8_t, int8_t, int64_t, LOAD)
LOOPS(u8, uint8_t, uint8_t, int64_t, LOAD)
LOOP(or_bool, uint8_t, uint8_t, uint8_t, LOAD, OR)
LOOP(and_bool, uint8_t, uint8_t, uint8_t, LOAD, AND)

/* Complex numbers: the only two that make sense. */
static void add_c64(char *d, int64_t ds, const char *o, int64_t os, const char *s, int64_t ss,
                    int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    mt_c64 *p = (mt_c64 *)(void *)(d + i * ds + *(const int64_t *)(o + i * os));
    const mt_c64 *q = (const mt_c64 *)(const void *)(s + i * ss);
    p->re += q->re;
    p->im += q->im;
  }
}

static void mul_c64(char *d, int64_t ds, const char *o, int64_t os, const char *s, int64_t ss,
                    int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    mt_c64 *p = (mt_c64 *)(void *)(d + i * ds + *(const int64_t *)(o + i * os));
    const mt_c64 *q = (const mt_c64 *)(const void *)(s + i * ss);
    *p = (mt_c64){p->re * q->re - p->im * q->im, p->re * q->im + p->im * q->re};
  }
}

#define ROW(t) \
  { add_##t, mul_##t, max_##t, min_##t }
static const mt_combine_fn table[MT_NDTYPES][4] = {
    [MT_F64] = ROW(f64),
    [MT_F32] = ROW(f32),
    [MT_F16] = ROW(f16),
    [MT_BF16] = ROW(bf16),
    [MT_I64] = ROW(i64),
    [MT_I32] = ROW(i32),
    [MT_I16] = ROW(i16),
    [MT_I8] = ROW(i8),
    [MT_U8] = ROW(u8),
    [MT_BOOL] = {or_bool, and_bool, or_bool, and_bool},
    [MT_C64] = {add_c64, mul_c64, NULL, NULL}};

mt_combine_fn mt_combine_find(mt_combine how, mt_dtype dtype) {
  if (how != MT_COMBINE_SET) return table[dtype][how - MT_COMBINE_ADD];
  switch (mt_dtype_size(dtype)) {
    case 1:
      return set_1;
    case 2:
      return set_2;
    case 4:
      return set_4;
    default:
      return set_8;
  }
}

static inline int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Whether the inner loop runs along a line rather than across lines. */
static bool line_inner(const mt_scatter *s) {
  int64_t lines = s->other.size[s->other.ndim - 1], length = s->line.size[s->line.ndim - 1];
  if (lines <= 1 || length <= 1) return lines <= 1;
  int64_t across = magnitude(s->other.step[2]) + magnitude(s->other.step[1]);
  int64_t along = magnitude(s->line.step[2]) + magnitude(s->line.step[1]);
  return along < across;
}

static void across_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const mt_scatter *s = ctx;
  const mt_walk *a = &s->other, *b = &s->line;
  mt_cursor i, j;
  (void)worker;
  mt_cursor_seek(a, &i, begin, end);
  while (mt_cursor_next(a, &i)) {
    mt_cursor_seek(b, &j, 0, b->numel);
    while (mt_cursor_next(b, &j)) {
      char *d = s->dst + i.off[0] + j.off[0];
      const char *o = (const char *)s->offs + i.off[1] + j.off[1];
      const char *v = s->src + i.off[2] + j.off[2];
      for (int64_t r = 0; r < j.n; r++) {
        s->fn(d + r * b->step[0], a->step[0], o + r * b->step[1], a->step[1], v + r * b->step[2],
              a->step[2], i.n);
      }
    }
  }
}

static void along_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const mt_scatter *s = ctx;
  const mt_walk *a = &s->other, *b = &s->line;
  mt_cursor i, j;
  (void)worker;
  mt_cursor_seek(a, &i, begin, end);
  while (mt_cursor_next(a, &i)) {
    for (int64_t r = 0; r < i.n; r++) {
      char *d = s->dst + i.off[0] + r * a->step[0];
      const char *o = (const char *)s->offs + i.off[1] + r * a->step[1];
      const char *v = s->src + i.off[2] + r * a->step[2];
      mt_cursor_seek(b, &j, 0, b->numel);
      while (mt_cursor_next(b, &j)) {
        s->fn(d + j.off[0], b->step[0], o + j.off[1], b->step[1], v + j.off[2], b->step[2], j.n);
      }
    }
  }
}

void mt_scatter_run(mt_parallel *par, const mt_scatter *s) {
  if (s->line.numel == 0 || s->other.numel == 0) return;
  int64_t grain = 16384 / s->line.numel + 1;
  mt_scatter copy = *s;
  mt_parallel_for(par, s->other.numel, grain, line_inner(s) ? along_range : across_range, &copy);
}

/* ---- where to accumulate ---- */

int mt_convert_view(const mt_kargs *k, const mt_view *dst, const mt_view *src) {
  const mt_view *in[1] = {src}, *out[1] = {dst};
  mt_kargs sub = *k;
  sub.in = in;
  sub.out = out;
  sub.nin = sub.nout = 1;
  sub.narg = 0;
  return mt_cpu_copy(&sub);
}

static bool is_half(const mt_view *v) { return v->dtype == MT_F16 || v->dtype == MT_BF16; }

mt_view mt_accumulate_begin(const mt_kargs *k, const mt_view *x, const mt_view *out,
                            void *scratch) {
  mt_view acc = *out;
  if (is_half(out)) {
    int64_t stride = 1;
    acc.data = scratch;
    acc.dtype = MT_F32;
    acc.contiguous = true;
    for (int d = acc.ndim - 1; d >= 0; d--) {
      acc.stride[d] = stride;
      stride *= acc.size[d];
    }
    if (x) mt_convert_view(k, &acc, x);
  } else if (x && x->data != out->data) {
    mt_move_copy(k->par, out, x);
  }
  if (!x) mt_move_fill(k->par, &acc, &(const uint64_t){0});
  return acc;
}

int mt_accumulate_end(const mt_kargs *k, const mt_view *acc, const mt_view *out) {
  return is_half(out) ? mt_convert_view(k, out, acc) : MT_OK;
}

size_t mt_accumulate_bytes(const mt_view *out) {
  return is_half(out) ? ((size_t)out->numel * 4 + 63) / 64 * 64 : 0;
}
