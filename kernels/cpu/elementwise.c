/* elementwise.c - the driver of every elementwise formula.
 *
 * out[0] = formula(in[0], ...), operands broadcast to out[0]. The loops (ew.h) know only contiguous
 * elements of the compute type; the driver brings everything else into that form:
 *
 *   - all operands contiguous and of that type: the loop runs on them as they are;
 *   - otherwise in tiles (tiles.h), where an operand that cannot be used in place goes through a
 *     buffer on the stack. A buffer is kept while the operand's place does not move, so a number
 *     is loaded once, and a bias once for the whole matrix.
 *
 * Conversion on load and store makes promotion free of copies, and narrow integers wrap as they
 * should.
 *
 * Operands come first in a schema: what follows them are the parameters P(i) of the formula. */
#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "move.h"
#include "tiles.h"

/* ---- what is known of each formula ---- */

typedef struct formula {
  uint8_t arity;
  bool test, select; /* the result is bool; the first operand is */
  uint8_t part;      /* as MT_PART: how dear it is */
} formula;

static const formula formulas[MT_NEW] = {
#define MT_UNARY(name, ...) [MT_EW_##name] = {1, false, false, MT_PART},
#define MT_BINARY(name, ...) [MT_EW_##name] = {2, false, false, MT_PART},
#define MT_TERNARY(name, ...) [MT_EW_##name] = {3, false, false, MT_PART},
#define MT_TEST(name, ...) [MT_EW_##name] = {1, true, false, MT_PART},
#define MT_COMPARE(name, ...) [MT_EW_##name] = {2, true, false, MT_PART},
#define MT_SELECT(name, ...) [MT_EW_##name] = {3, false, true, MT_PART},
#define MT_PART 1
#include "../elementwise.def"
#undef MT_PART
#define MT_PART 2
#include "../elementwise.def"
#undef MT_PART
#define MT_PART 3
#include "../elementwise.def"
#undef MT_PART
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_TEST
#undef MT_COMPARE
#undef MT_SELECT
};

/* Elements worth a thread's while. */
static int64_t grain_of(const formula *f, int type) {
  if (f->part == 1) return type == MT_EW_C64 ? 16384 : 65536;
  return type == MT_EW_F32 ? 24576 : 4096;
}

typedef union params {
  float f[MT_EW_PARAMS];
  double d[MT_EW_PARAMS];
  int64_t i[MT_EW_PARAMS];
} params;

static void params_read(params *p, const mt_kargs *k, int first, int type) {
  int at = 0;
  memset(p, 0, sizeof *p);
  for (int j = first; j < k->narg && at < MT_EW_PARAMS; j++) {
    const mt_value *v = &k->arg[j];
    bool given = v->kind == MT_INT || v->kind == MT_FLOAT || v->kind == MT_BOOL_ARG;
    if (!given && v->kind != MT_NIL) continue;
    double d = given ? mt_karg_f(k, j) : (double)NAN;
    if (type == MT_EW_I64) {
      bool fits = d >= -0x1p63 && d < 0x1p63;
      p->i[at++] = !given ? 0 : v->kind != MT_FLOAT ? v->u.i : fits ? (int64_t)d : INT64_MIN;
    } else if (type == MT_EW_F64) {
      p->d[at++] = d;
    } else {
      p->f[at++] = (float)d;
    }
  }
}

/* ---- in tiles ---- */

typedef struct run {
  mt_tiles tiles;
  mt_ew_fn fn;
  const void *p;
} run;

static void run_tiles(void *ctx, int64_t begin, int64_t end, int worker) {
  const run *r = ctx;
  const mt_tiles *t = &r->tiles;
  char buffer[MT_WALK_OPS][MT_TILE * 8] __attribute__((aligned(64)));
  const char *held[MT_WALK_OPS] = {0}; /* what a buffer was loaded from */
  int64_t held_rows = 0, held_cols = 0;
  mt_tile at;
  (void)worker;
  mt_tile_begin(&at);
  for (int64_t i = begin; i < end; i++) {
    char *arg[MT_WALK_OPS] = {0};
    mt_tile_seek(t, &at, i);
    bool resized = at.rows != held_rows || at.cols != held_cols;
    held_rows = at.rows;
    held_cols = at.cols;
    for (int j = 0; j < t->nop; j++) {
      arg[j] = t->direct[j] ? at.place[j] : buffer[j];
      if (j == 0 || t->direct[j] || (!resized && held[j] == at.place[j])) continue;
      mt_tile_load(t, &at, j, buffer[j]);
      held[j] = at.place[j];
    }
    r->fn(arg[0], arg[1], arg[2], arg[3], at.rows * at.cols, r->p);
    if (!t->direct[0]) mt_tile_store(t, &at, buffer[0]);
  }
}

/* ---- everything contiguous ---- */

typedef struct flat {
  mt_ew_fn fn;
  const void *p;
  char *out;
  const char *in[3];
  int out_size, size0, size;
} flat;

static void run_flat(void *ctx, int64_t begin, int64_t end, int worker) {
  const flat *f = ctx;
  (void)worker;
  f->fn(f->out + begin * f->out_size, f->in[0] + begin * f->size0, f->in[1] + begin * f->size,
        f->in[2] + begin * f->size, end - begin, f->p);
}

/* Results from this size on leave the caches before they are used again. Written past the caches
 * they spare reading every line first: a sum of 16M floats took 0.75 of the time. */
#define STREAM_BYTES ((int64_t)32 << 20)

#ifdef __SSE2__
static void stream(char *to, const char *from, int64_t bytes) {
  int64_t i = 0;
  for (; i + 64 <= bytes; i += 64)
    for (int j = 0; j < 64; j += 16)
      _mm_stream_si128((__m128i *)(to + i + j), _mm_load_si128((const __m128i *)(from + i + j)));
  memcpy(to + i, from + i, (size_t)(bytes - i));
}

static void run_streaming(void *ctx, int64_t begin, int64_t end, int worker) {
  const flat *f = ctx;
  char buffer[MT_TILE * 8] __attribute__((aligned(64)));
  (void)worker;
  while (begin < end) { /* the first piece ends on a line of the result */
    char *to = f->out + begin * f->out_size;
    int64_t n = (int64_t)((sizeof buffer - ((uintptr_t)to & 63)) / (size_t)f->out_size);
    if (n > end - begin) n = end - begin;
    f->fn(buffer, f->in[0] + begin * f->size0, f->in[1] + begin * f->size,
          f->in[2] + begin * f->size, n, f->p);
    if (((uintptr_t)to & 63) == 0)
      stream(to, buffer, n * f->out_size);
    else
      memcpy(to, buffer, (size_t)(n * f->out_size));
    begin += n;
  }
  _mm_sfence();
}
#endif

static mt_range_fn flat_fn(const flat *f, int64_t n) {
#ifdef __SSE2__
  bool inplace = f->out == f->in[0] || f->out == f->in[1] || f->out == f->in[2];
  if (n * f->out_size >= STREAM_BYTES && !inplace) return run_streaming;
#endif
  (void)n;
  return run_flat;
}

/* ---- integer division by zero ---- */

static bool divides(int ew) {
  return ew == MT_EW_floor_divide || ew == MT_EW_trunc_divide || ew == MT_EW_remainder ||
         ew == MT_EW_fmod;
}

static bool has_zero(const struct mt_ew_table *t, const mt_view *v) {
  mt_walk w;
  mt_cursor c;
  char raw[MT_TILE * 8];
  int64_t x[MT_TILE];
  const mt_dtype d = (mt_dtype)v->dtype;
  const int size = mt_dtype_size(d);
  mt_walk_views(&w, v->ndim, v->size, 1, &v);
  mt_cursor_seek(&w, &c, 0, w.numel);
  while (mt_cursor_next(&w, &c)) {
    for (int64_t i = 0; i < c.n; i += MT_TILE) {
      int64_t n = c.n - i < MT_TILE ? c.n - i : MT_TILE, zeros = 0;
      mt_move_row(size, raw, size, v->data + c.off[0] + i * w.step[0], w.step[0], n);
      mt_convert(t, MT_I64, x, d, raw, n);
      for (int64_t j = 0; j < n; j++) zeros += x[j] == 0;
      if (zeros) return true;
    }
  }
  return false;
}

/* ---- the kernel ---- */

/* The same result by a cheaper formula: powers with a number that has one, integer sums without a
 * factor (there is no vector product of int64). `bitwise_not` of a bool is its negation. */
static int cheaper(const mt_kargs *k, const struct mt_ew_table *t) {
  if (k->ew == MT_EW_bitwise_not && k->out[0]->dtype == MT_BOOL) return MT_EW_logical_not;
  if (k->compute == MT_I64 && (k->ew == MT_EW_add || k->ew == MT_EW_sub)) {
    bool one = k->narg == 3 && k->arg[2].kind == MT_INT && k->arg[2].u.i == 1;
    return !one ? k->ew : k->ew == MT_EW_add ? MT_EW_plus : MT_EW_minus;
  }
  if (k->ew != MT_EW_pow || k->in[1]->numel != 1 || k->in[1]->dtype == MT_C64) return k->ew;
  double y;
  mt_convert(t, MT_F64, &y, (mt_dtype)k->in[1]->dtype, k->in[1]->data, 1);
  if (y == 2) return MT_EW_square;
  if (y == 3) return MT_EW_cube;
  if (k->compute == MT_I64) return k->ew;
  return y == 0.5 ? MT_EW_sqrt : y == -1 ? MT_EW_reciprocal : y == -0.5 ? MT_EW_rsqrt : k->ew;
}

static int run_general(const mt_kargs *k, const formula *f, mt_ew_fn fn, const params *p,
                       int type) {
  const mt_view *v[MT_WALK_OPS] = {k->out[0]};
  mt_dtype want[MT_WALK_OPS] = {f->test ? MT_BOOL : k->compute};
  run r;
  r.fn = fn;
  r.p = p;
  for (int i = 0; i < f->arity; i++) {
    v[i + 1] = k->in[i];
    want[i + 1] = i == 0 && f->select ? MT_BOOL : k->compute;
  }
  mt_tiles_make(&r.tiles, k->isa->ew, f->arity + 1, v, want, true);
  int64_t tile = r.tiles.rows * r.tiles.cols;
  int64_t grain = (grain_of(f, type) / 2 + tile - 1) / tile;
  mt_parallel_for(k->par, r.tiles.count, grain, run_tiles, &r);
  return MT_OK;
}

/* A number beside a small contiguous tensor is spread on the stack. */
static bool spread_number(const mt_kargs *k, const mt_view *v, mt_dtype want, int64_t n, char *to) {
  if (v->numel != 1 || n > MT_TILE) return false;
  char value[8];
  mt_convert(k->isa->ew, want, value, (mt_dtype)v->dtype, v->data, 1);
  mt_move_set(mt_dtype_size(want), to, mt_dtype_size(want), value, n);
  return true;
}

int mt_cpu_elementwise(const mt_kargs *k) {
  const struct mt_ew_table *t = k->isa->ew;
  const mt_view *out = k->out[0];
  const int ew = k->compute == MT_I64 || k->ew == MT_EW_pow ? cheaper(k, t) : k->ew;
  const formula *f = &formulas[ew];
  const int type = mt_ew_type(k->compute), arity = f->arity;
  const int64_t n = out->numel;
  const mt_ew_fn fn = t->loop[ew][type];
  if (!fn) return MT_NOKERNEL;
  if (n == 0) return MT_OK;
  if (type == MT_EW_I64 && divides(ew) && has_zero(t, k->in[1])) return MT_ERROR;
  params p;
  const int own = formulas[k->ew].arity;
  if (k->narg > own)
    params_read(&p, k, own, type);
  else
    memset(&p, 0, sizeof p);

  char number[3][MT_TILE * 8] __attribute__((aligned(64)));
  const char *in[3] = {0};
  bool simple = out->contiguous && out->dtype == (f->test ? MT_BOOL : k->compute);
  for (int i = 0; simple && i < arity; i++) {
    const mt_view *v = k->in[i];
    mt_dtype want = i == 0 && f->select ? MT_BOOL : k->compute;
    in[i] = v->data;
    if (v->contiguous && v->numel == n && v->dtype == want) continue;
    simple = spread_number(k, v, want, n, number[i]);
    in[i] = number[i];
  }
  if (!simple) return run_general(k, f, fn, &p, type);
  int size = mt_dtype_size(k->compute);
  if (n < 8192) {
    fn(out->data, in[0], in[1], in[2], n, &p);
    return MT_OK;
  }
  flat fl = {.fn = fn, .p = &p, .out = out->data, .in = {in[0], in[1], in[2]}, .size = size};
  fl.out_size = f->test ? 1 : size;
  fl.size0 = f->select ? 1 : size;
  mt_parallel_for(k->par, n, grain_of(f, type), flat_fn(&fl, n), &fl);
  return MT_OK;
}
