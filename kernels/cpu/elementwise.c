/* elementwise.c - the driver of every elementwise formula.
 *
 * out[0] = formula(in[0], ...), operands broadcast to out[0]. The loops (ew.h) know only contiguous
 * elements of the compute type; the driver brings everything else into that form:
 *
 *   - all operands contiguous and of that type: the loop runs on them as they are;
 *   - otherwise the dims are ordered by the strides of the result, merged where all operands allow
 *     it, and walked in tiles of rows x cols <= MT_TILE. An operand whose part of a tile is
 *     contiguous and of the right type is used in place; any other is loaded, with its conversion,
 *     into a buffer on the stack. Results go through a buffer in the same way.
 *
 * A buffer is kept while the operand's place does not move, so a number is loaded once, and a bias
 * once for the whole matrix. Where an operand runs across the result (a transpose) tiles are
 * blocks, so that each of its cache lines is used whole. Conversion on load and store makes
 * promotion free of copies, and narrow integers wrap as they should.
 *
 * Operands come first in a schema: what follows them are the parameters P(i) of the formula. */
#include <math.h>
#include <string.h>

#include "ew.h"
#include "move.h"

#define OPS 4         /* the result and at most three operands */
#define CHUNK 16384   /* elements in a tile when nothing is buffered */
#define BLOCK_ROWS 16 /* a transposed operand: one cache line of floats */
#define NARROW 256    /* rows shorter than this share a tile */

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

/* ---- conversion ---- */

static int pivot_of(mt_dtype d) {
  return d == MT_F64 ? MT_EW_F64 : mt_dtype_is_float(d) || d == MT_C64 ? MT_EW_F32 : MT_EW_I64;
}

static const mt_dtype pivot_dtype[] = {
    [MT_EW_F32] = MT_F32, [MT_EW_F64] = MT_F64, [MT_EW_I64] = MT_I64};

void mt_convert(const struct mt_ew_table *t, mt_dtype to, void *out, mt_dtype from, const void *in,
                int64_t n) {
  char buffer[MT_TILE * 8] __attribute__((aligned(64)));
  int via = pivot_of(from);
  if (to == from) {
    memcpy(out, in, (size_t)(n * mt_dtype_size(to)));
  } else if (to == pivot_dtype[pivot_of(to)] && t->load[pivot_of(to)][from]) {
    t->load[pivot_of(to)][from](out, in, n);
  } else if (from == pivot_dtype[via]) {
    t->store[via][to](out, in, n);
  } else if (to == pivot_dtype[via]) {
    t->load[via][from](out, in, n);
  } else {
    t->load[via][from](buffer, in, n);
    t->store[via][to](out, buffer, n);
  }
}

/* ---- a run: operands laid out on dims ---- */

typedef struct run {
  const struct mt_ew_table *t;
  mt_ew_fn fn;
  const void *p;
  int nop;
  char *data[OPS];                /* 0: the result */
  mt_dtype dtype[OPS], want[OPS]; /* as stored, as the loop takes it */
  int size[OPS];                  /* bytes as stored */
  bool direct[OPS];               /* used in place */
  mt_walk w;                      /* merged dims, byte strides; the last two make tiles */
  int64_t n0, n1, rows, cols;     /* their sizes; a tile's */
  int64_t s0[OPS], s1[OPS];       /* their strides */
  int64_t tiles0, tiles1;
} run;

/* Orders the dims by the strides of the result, outermost first, and merges them. */
static void lay_out(run *r, const mt_view *const *v) {
  const mt_view *out = v[0];
  int order[MT_MAX_DIM], n = 0;
  for (int d = 0; d < out->ndim; d++) {
    if (out->size[d] == 1) continue;
    int at = n++;
    if (!out->contiguous)
      for (; at > 0 && out->stride[order[at - 1]] < out->stride[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  mt_walk_begin(&r->w, r->nop);
  for (int j = 0; j < n; j++) {
    int64_t s[OPS];
    for (int i = 0; i < r->nop; i++) {
      int e = order[j] - (out->ndim - v[i]->ndim);
      s[i] = e < 0 || v[i]->size[e] == 1 ? 0 : v[i]->stride[e] * r->size[i];
    }
    mt_walk_dim(&r->w, out->size[order[j]], s);
  }
  mt_walk_end(&r->w);
  if (r->w.numel == 1)
    for (int i = 0; i < r->nop; i++) r->w.stride[i][0] = r->size[i];
}

/* If an operand is strided along the last dim and contiguous along another, that one becomes the
 * second last, so that tiles can be blocks of both. */
static bool find_transpose(run *r) {
  mt_walk *w = &r->w;
  int last = w->ndim - 1;
  for (int i = 0; i < r->nop; i++) {
    if (w->stride[i][last] == 0 || w->stride[i][last] == r->size[i]) continue;
    for (int d = 0; d < last; d++) {
      if (w->stride[i][d] != r->size[i] || w->size[d] < 4 || w->size[last] < 4) continue;
      int64_t t = w->size[d];
      w->size[d] = w->size[last - 1];
      w->size[last - 1] = t;
      for (int j = 0; j < r->nop; j++) {
        t = w->stride[j][d];
        w->stride[j][d] = w->stride[j][last - 1];
        w->stride[j][last - 1] = t;
      }
      return true;
    }
  }
  return false;
}

static void choose_tile(run *r) {
  bool blocks = find_transpose(r), inplace = true;
  int last = r->w.ndim - 1;
  r->n1 = r->w.size[last];
  r->n0 = last > 0 ? r->w.size[last - 1] : 1;
  for (int i = 0; i < r->nop; i++) {
    r->s1[i] = r->w.stride[i][last];
    r->s0[i] = last > 0 ? r->w.stride[i][last - 1] : 0;
    inplace = inplace && r->dtype[i] == r->want[i] && r->s1[i] == r->size[i];
  }
  if (blocks) {
    r->rows = BLOCK_ROWS;
    r->cols = MT_TILE / BLOCK_ROWS;
  } else if (r->n1 >= NARROW || r->n0 == 1) {
    r->rows = 1;
    r->cols = inplace ? CHUNK : MT_TILE;
  } else {
    r->rows = MT_TILE / r->n1;
    r->cols = r->n1;
  }
  if (r->rows > r->n0) r->rows = r->n0;
  if (r->cols > r->n1) r->cols = r->n1;
  r->tiles0 = (r->n0 + r->rows - 1) / r->rows;
  r->tiles1 = (r->n1 + r->cols - 1) / r->cols;
  for (int i = 0; i < r->nop; i++) {
    bool dense = r->rows == 1 || (r->cols == r->n1 && r->s0[i] == r->n1 * r->size[i]);
    r->direct[i] = dense && r->dtype[i] == r->want[i] && r->s1[i] == r->size[i];
  }
}

/* ---- tiles ---- */

/* Moves rows x cols elements between a place with strides and a dense tile. */
static void spread(int size, char *tile, char *place, int64_t s0, int64_t s1, int64_t rows,
                   int64_t cols, bool load) {
  int64_t t0 = cols * size, t1 = size;
  if (rows > 1 && s0 == size && s1 != size) { /* along its lines */
    int64_t n = rows, s = s0, t = t0;
    rows = cols, s0 = s1, t0 = t1;
    cols = n, s1 = s, t1 = t;
  }
  for (int64_t i = 0; i < rows; i++) {
    if (load)
      mt_move_row(size, tile + i * t0, t1, place + i * s0, s1, cols);
    else
      mt_move_row(size, place + i * s0, s1, tile + i * t0, t1, cols);
  }
}

static void load_tile(const run *r, int i, void *to, const char *from, int64_t rows, int64_t cols) {
  char raw[MT_TILE * 8] __attribute__((aligned(64)));
  const int size = r->size[i];
  const int64_t n = rows * cols, s0 = r->s0[i], s1 = r->s1[i];
  if (s1 == 0 && (rows == 1 || s0 == 0)) {
    mt_convert(r->t, r->want[i], raw, r->dtype[i], from, 1);
    int wide = mt_dtype_size(r->want[i]);
    mt_move_set(wide, to, wide, raw, n);
    return;
  }
  bool dense = s1 == size && (rows == 1 || s0 == cols * size), same = r->dtype[i] == r->want[i];
  const char *source = from;
  if (!dense) {
    source = same ? to : raw;
    spread(size, same ? to : raw, (char *)(uintptr_t)from, s0, s1, rows, cols, true);
    if (same) return;
  }
  mt_convert(r->t, r->want[i], to, r->dtype[i], source, n);
}

static void store_tile(const run *r, const void *from, char *to, int64_t rows, int64_t cols) {
  char raw[MT_TILE * 8] __attribute__((aligned(64)));
  const int size = r->size[0];
  const int64_t n = rows * cols, s0 = r->s0[0], s1 = r->s1[0];
  bool dense = s1 == size && (rows == 1 || s0 == cols * size), same = r->dtype[0] == r->want[0];
  if (dense) {
    mt_convert(r->t, r->dtype[0], to, r->want[0], from, n);
    return;
  }
  if (!same) mt_convert(r->t, r->dtype[0], raw, r->want[0], from, n);
  spread(size, same ? (char *)(uintptr_t)from : raw, to, s0, s1, rows, cols, false);
}

/* Byte offsets of the tiles' outer position number o. */
static void outer_offsets(const run *r, int64_t o, int64_t *base) {
  for (int i = 0; i < r->nop; i++) base[i] = 0;
  for (int d = r->w.ndim - 3; d >= 0; d--) {
    int64_t at = d > 0 ? o % r->w.size[d] : o;
    o /= r->w.size[d];
    for (int i = 0; i < r->nop; i++) base[i] += at * r->w.stride[i][d];
  }
}

static void run_tiles(void *ctx, int64_t begin, int64_t end, int worker) {
  const run *r = ctx;
  char buffer[OPS][MT_TILE * 8] __attribute__((aligned(64)));
  const char *held[OPS] = {0};
  int64_t held_rows = 0, held_cols = 0, base[OPS], outer = -1;
  (void)worker;
  for (int64_t at = begin; at < end; at++) {
    int64_t t1 = at % r->tiles1, rest = at / r->tiles1, t0 = rest % r->tiles0;
    if (rest / r->tiles0 != outer) outer_offsets(r, outer = rest / r->tiles0, base);
    int64_t rows = r->n0 - t0 * r->rows, cols = r->n1 - t1 * r->cols;
    if (rows > r->rows) rows = r->rows;
    if (cols > r->cols) cols = r->cols;
    bool moved = rows != held_rows || cols != held_cols;
    held_rows = rows;
    held_cols = cols;
    char *place[OPS], *arg[OPS] = {0};
    for (int i = 0; i < r->nop; i++) {
      place[i] = r->data[i] + base[i] + t0 * r->rows * r->s0[i] + t1 * r->cols * r->s1[i];
      arg[i] = r->direct[i] ? place[i] : buffer[i];
      if (i == 0 || r->direct[i] || (!moved && held[i] == place[i])) continue;
      load_tile(r, i, buffer[i], place[i], rows, cols);
      held[i] = place[i];
    }
    r->fn(arg[0], arg[1], arg[2], arg[3], rows * cols, r->p);
    if (!r->direct[0]) store_tile(r, buffer[0], place[0], rows, cols);
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

/* The same result by a cheaper formula: powers with a number that has one. `bitwise_not` of a bool
 * is its negation. */
static int cheaper(const mt_kargs *k, const struct mt_ew_table *t) {
  if (k->ew == MT_EW_bitwise_not && k->out[0]->dtype == MT_BOOL) return MT_EW_logical_not;
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
  const mt_view *v[OPS] = {k->out[0]};
  run r = {.t = k->isa->ew, .fn = fn, .p = p, .nop = f->arity + 1};
  for (int i = 0; i < f->arity; i++) v[i + 1] = k->in[i];
  for (int i = 0; i < r.nop; i++) {
    bool flag = i == 0 ? f->test : i == 1 && f->select;
    r.data[i] = v[i]->data;
    r.dtype[i] = (mt_dtype)v[i]->dtype;
    r.size[i] = mt_dtype_size(r.dtype[i]);
    r.want[i] = flag ? MT_BOOL : k->compute;
  }
  lay_out(&r, v);
  choose_tile(&r);
  int64_t outer = r.w.numel / (r.n0 * r.n1), tile = r.rows * r.cols;
  int64_t grain = (grain_of(f, type) / 2 + tile - 1) / tile;
  mt_parallel_for(k->par, outer * r.tiles0 * r.tiles1, grain, run_tiles, &r);
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
  const int ew = k->ew == MT_EW_pow || k->ew == MT_EW_bitwise_not ? cheaper(k, t) : k->ew;
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
  const int64_t grain = grain_of(f, type);
  if (n < 2 * grain || !k->par || k->par->nthreads <= 1) {
    fn(out->data, in[0], in[1], in[2], n, &p);
    return MT_OK;
  }
  int size = mt_dtype_size(k->compute);
  flat fl = {fn,  &p, out->data, {in[0], in[1], in[2]}, f->test ? 1 : size, f->select ? 1 : size,
             size};
  mt_parallel_for(k->par, n, grain, run_flat, &fl);
  return MT_OK;
}
