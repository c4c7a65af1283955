/* tiles.c - see tiles.h. */
#include "tiles.h"

#include <string.h>

#include "move.h"

#define CHUNK 16384 /* elements in a tile when nothing is buffered */
#define BLOCK 16    /* rows of a block: a cache line of floats */
#define SQUARE 64   /* a block of a copy */
#define NARROW 256  /* rows shorter than this share a tile */

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
  if (from == MT_C64 && to == MT_BOOL) {
    const mt_c64 *z = in;
    for (int64_t i = 0; i < n; i++) ((uint8_t *)out)[i] = z[i].re != 0 || z[i].im != 0;
    return;
  }
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

/* ---- layout ---- */

/* Orders the dims by the strides of the result, outermost first, and merges them. */
static void lay_out(mt_tiles *r, const mt_view *const *v) {
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
    int64_t s[MT_WALK_OPS];
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
static bool find_transpose(mt_tiles *r) {
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

static void choose_tile(mt_tiles *r, bool blocks, bool inplace, bool buffered) {
  r->group = 1;
  if (blocks) {
    r->rows = buffered ? BLOCK : SQUARE;
    r->cols = buffered ? MT_TILE / BLOCK : SQUARE;
    if (buffered) r->group = SQUARE / BLOCK;
  } else if (r->n1 >= NARROW || r->n0 == 1) {
    r->rows = 1;
    r->cols = inplace || !buffered ? CHUNK : MT_TILE;
  } else {
    r->rows = (buffered ? MT_TILE : CHUNK) / r->n1;
    r->cols = r->n1;
  }
  if (r->rows > r->n0) r->rows = r->n0;
  if (r->cols > r->n1) r->cols = r->n1;
  r->tiles0 = (r->n0 + r->rows - 1) / r->rows;
  r->tiles1 = (r->n1 + r->cols - 1) / r->cols;
}

void mt_tiles_make(mt_tiles *r, const struct mt_ew_table *t, int nop, const mt_view *const *v,
                   const mt_dtype *want, bool buffered) {
  r->t = t;
  r->nop = nop;
  for (int i = 0; i < nop; i++) {
    r->data[i] = v[i]->data;
    r->dtype[i] = (mt_dtype)v[i]->dtype;
    r->size[i] = mt_dtype_size(r->dtype[i]);
    r->want[i] = want[i];
  }
  lay_out(r, v);
  bool blocks = find_transpose(r), inplace = true;
  int last = r->w.ndim - 1;
  r->n1 = r->w.size[last];
  r->n0 = last > 0 ? r->w.size[last - 1] : 1;
  for (int i = 0; i < nop; i++) {
    r->s1[i] = r->w.stride[i][last];
    r->s0[i] = last > 0 ? r->w.stride[i][last - 1] : 0;
    inplace = inplace && r->dtype[i] == want[i] && r->s1[i] == r->size[i];
  }
  choose_tile(r, blocks, inplace, buffered);
  int64_t outer = last > 1 ? r->w.numel / (r->n0 * r->n1) : 1;
  r->count = outer * r->tiles0 * r->tiles1;
  for (int i = 0; i < nop; i++) {
    bool dense = r->rows == 1 || (r->cols == r->n1 && r->s0[i] == r->n1 * r->size[i]);
    r->direct[i] = dense && r->dtype[i] == want[i] && r->s1[i] == r->size[i];
  }
}

/* ---- tiles ---- */

/* Byte offsets of outer position number o. */
static void outer_offsets(const mt_tiles *r, int64_t o, int64_t *base) {
  for (int i = 0; i < r->nop; i++) base[i] = 0;
  for (int d = r->w.ndim - 3; d >= 0; d--) {
    int64_t at = d > 0 ? o % r->w.size[d] : o;
    o /= r->w.size[d];
    for (int i = 0; i < r->nop; i++) base[i] += at * r->w.stride[i][d];
  }
}

/* Tiles are numbered along the rows; in blocks, `group` rows of tiles go together, downwards
 * first. */
void mt_tile_seek(const mt_tiles *r, mt_tile *at, int64_t number) {
  int64_t t0 = 0, t1 = number, outer = 0;
  if (r->tiles0 > 1 || r->w.ndim > 2) {
    int64_t plane = r->tiles0 * r->tiles1;
    outer = number / plane;
    number -= outer * plane;
    int64_t band = number / (r->group * r->tiles1), first = band * r->group;
    int64_t height = r->tiles0 - first < r->group ? r->tiles0 - first : r->group;
    number -= first * r->tiles1;
    t1 = number / height;
    t0 = first + number % height;
  }
  if (outer != at->outer) outer_offsets(r, at->outer = outer, at->base);
  at->rows = r->n0 - t0 * r->rows;
  at->cols = r->n1 - t1 * r->cols;
  if (at->rows > r->rows) at->rows = r->rows;
  if (at->cols > r->cols) at->cols = r->cols;
  for (int i = 0; i < r->nop; i++)
    at->place[i] = r->data[i] + at->base[i] + t0 * r->rows * r->s0[i] + t1 * r->cols * r->s1[i];
}

/* Moves rows x cols elements, strides in bytes, along the dim in which it touches fewer lines. */
static void move_tile(int size, char *d, int64_t d0, int64_t d1, const char *s, int64_t s0,
                      int64_t s1, int64_t rows, int64_t cols) {
  if (rows > 1 && d1 != size && s1 != size && (d0 == size || s0 == size)) {
    int64_t t = rows;
    rows = cols, cols = t;
    t = d0, d0 = d1, d1 = t;
    t = s0, s0 = s1, s1 = t;
  }
  for (int64_t i = 0; i < rows; i++) mt_move_row(size, d + i * d0, d1, s + i * s0, s1, cols);
}

/* From lines along the rows of the tile to lines along its columns, or back. */
static void transpose_tile(const struct mt_ew_table *t, char *d, int64_t d0, const char *s,
                           int64_t s1, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r += BLOCK)
    for (int64_t c = 0; c < cols; c += BLOCK) {
      int h = (int)(rows - r < BLOCK ? rows - r : BLOCK);
      int w = (int)(cols - c < BLOCK ? cols - c : BLOCK);
      t->transpose4(d + r * d0 + c * 4, d0 / 4, s + r * 4 + c * s1, s1 / 4, w, h);
    }
}

static void move_any(const mt_tiles *r, int size, char *d, int64_t d0, int64_t d1, const char *s,
                     int64_t s0, int64_t s1, const mt_tile *at) {
  if (size == 4 && d1 == 4 && s0 == 4 && s1 != 4 && at->rows > 1 && !((d0 | s1) & 3))
    transpose_tile(r->t, d, d0, s, s1, at->rows, at->cols);
  else if (size == 4 && d0 == 4 && s1 == 4 && d1 != 4 && at->rows > 1 && !((s0 | d1) & 3))
    transpose_tile(r->t, d, d1, s, s0, at->cols, at->rows);
  else
    move_tile(size, d, d0, d1, s, s0, s1, at->rows, at->cols);
}

static bool is_dense(const mt_tiles *r, const mt_tile *at, int i) {
  return r->s1[i] == r->size[i] && (at->rows == 1 || r->s0[i] == at->cols * r->size[i]);
}

void mt_tile_load(const mt_tiles *r, const mt_tile *at, int i, void *to) {
  char raw[MT_TILE * 8] __attribute__((aligned(64)));
  const int size = r->size[i];
  const int64_t n = at->rows * at->cols, s0 = r->s0[i], s1 = r->s1[i];
  const mt_dtype want = r->want[i], dtype = r->dtype[i];
  if (s1 == 0 && (at->rows == 1 || s0 == 0)) {
    mt_convert(r->t, want, raw, dtype, at->place[i], 1);
    mt_move_set(mt_dtype_size(want), to, mt_dtype_size(want), raw, n);
  } else if (is_dense(r, at, i)) {
    mt_convert(r->t, want, to, dtype, at->place[i], n);
  } else {
    char *dense = dtype == want ? to : raw;
    move_any(r, size, dense, at->cols * size, size, at->place[i], s0, s1, at);
    if (dtype != want) mt_convert(r->t, want, to, dtype, raw, n);
  }
}

void mt_tile_store(const mt_tiles *r, const mt_tile *at, const void *from) {
  char raw[MT_TILE * 8] __attribute__((aligned(64)));
  const int size = r->size[0];
  const int64_t n = at->rows * at->cols;
  const void *dense = from;
  if (is_dense(r, at, 0)) {
    mt_convert(r->t, r->dtype[0], at->place[0], r->want[0], from, n);
    return;
  }
  if (r->dtype[0] != r->want[0]) {
    mt_convert(r->t, r->dtype[0], raw, r->want[0], from, n);
    dense = raw;
  }
  move_any(r, size, at->place[0], r->s0[0], r->s1[0], dense, at->cols * size, size, at);
}

void mt_tile_copy(const mt_tiles *r, const mt_tile *at) {
  const int size = r->size[0];
  if (is_dense(r, at, 0) && is_dense(r, at, 1))
    memcpy(at->place[0], at->place[1], (size_t)(at->rows * at->cols * size));
  else
    move_any(r, size, at->place[0], r->s0[0], r->s1[0], at->place[1], r->s0[1], r->s1[1], at);
}
