/* gemm.c - matrix products: which path, which blocks, which thread.
 *
 * The path follows from the whole shape and the strides, never from a thread's share:
 *   DOT     few rows, both operands along k: vectors along k (Linear with a small batch)
 *   DIRECT  small B with unit columns: no packing
 *   SKINNY  few rows, large B with unit columns: B is read along its rows, 16 of them at a time
 *   PACKED  blocks of A and B are packed into panels (Goto and van de Geijn, 2008)
 *   WIDEN   small f16 and bf16: the whole product in f32; large ones are widened while packing
 *   BLAS    large f64, when a BLAS is lent
 *
 * C is cut into a grid of parts, one task each, which pack what they need themselves: at few
 * threads packing twice costs less than a barrier. Invariant: the border of a part moves no border
 * of a k-block, so the grid cannot change a bit of C. */
#include "gemm.h"

#include <string.h>

#include "../half.h"
#include "isa.h"

enum path {
  DOT,
  DOT1,
  DIRECT,
  SKINNY,
  PACKED,
  WIDEN,
  BLAS
};

enum {
  KC_BYTES = 2048,  /* a k-block's length */
  NC_BYTES = 8192,  /* a block of B's width */
  MC_PANELS = 16,   /* a block of A's height */
  HALF_ROWS = 1024, /* f16, bf16: a block of C that stays f32 over all k-blocks */
  HALF_COLUMNS = 512,
  SKINNY_K = 16,         /* k-block of SKINNY */
  DIRECT_BYTES = 131072, /* largest B that is not packed */
  WIDEN_MOST = 65536,    /* elements */
  BLAS_TILE = 512,
  FORK_WORK = 1 << 20 /* multiply-adds that are worth a thread */
};

struct plan {
  mt_gemm g;    /* columns of C have unit stride, unless copy_c */
  bool swapped; /* g is the transposed problem */
  const struct mt_isa *isa;
  const struct mt_gemm_fns *f;
  enum path path;
  int half;    /* 0, or 1 and 2 for f16 and bf16: the packer's number */
  bool copy_c; /* C is computed in scratch and copied */
  bool mixed;  /* A is not packed */
  int64_t kc, mc, nc, mb;
  int64_t rows, columns; /* grid of parts */
  size_t c_bytes, b_bytes, a_bytes, c32_bytes, worker_bytes;
};

/* ---- Small helpers ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Part i of n things dealt evenly to `parts`: where it starts. */
static int64_t deal(int64_t n, int64_t parts, int64_t i) {
  int64_t each = n / parts, extra = n % parts;
  return i * each + least(i, extra);
}

static size_t mul_size(int64_t a, int64_t b, size_t size) {
  size_t out;
  if (__builtin_mul_overflow((size_t)a, (size_t)b, &out)) return SIZE_MAX;
  if (__builtin_mul_overflow(out, size, &out) || out > SIZE_MAX / 4) return SIZE_MAX;
  return (out + MT_GEMM_SLACK + 63) & ~(size_t)63;
}

static size_t add_size(size_t a, size_t b) {
  return a > SIZE_MAX / 2 || b > SIZE_MAX / 2 ? SIZE_MAX : a + b;
}

static const void *at(const void *p, int64_t elements, int64_t size) {
  return (const char *)p + elements * size;
}
static void *at_out(void *p, int64_t elements, int64_t size) { return (char *)p + elements * size; }

const struct mt_gemm_fns *mt_gemm_fns_of(const struct mt_isa *isa, mt_dtype dtype) {
  return dtype == MT_F64 ? isa->gemm->f64 : isa->gemm->f32;
}

bool mt_gemm_wants_blas(mt_dtype dtype, int64_t m, int64_t n, int64_t k) {
  return (dtype == MT_F64 || dtype == MT_F32) && m > 1 && n > 1 &&
         (double)m * (double)n * (double)k >= 64. * 64. * 64.;
}

/* ---- Planning ---- */

static void swap_operands(mt_gemm *g) {
  mt_gemm t = *g;
  g->m = t.n, g->n = t.m;
  g->a = t.b, g->ars = t.bcs, g->acs = t.brs;
  g->b = t.a, g->brs = t.acs, g->bcs = t.ars;
  g->crs = t.ccs, g->ccs = t.crs;
  g->c0rs = t.c0cs, g->c0cs = t.c0rs;
  g->row_bias = t.col_bias, g->col_bias = t.row_bias;
}

/* Gives C unit columns where it can, one row rather than one column, and strides of dims of one
 * element the value that helps. */
static void normalise(struct plan *p) {
  mt_gemm *g = &p->g;
  p->swapped = false;
  if (g->m == 1 && g->n == 1) {
    g->crs = g->ccs = 1;
  } else if (g->n == 1 || (g->ccs != 1 && g->crs == 1)) {
    swap_operands(g);
    p->swapped = true;
  }
  if (g->n == 1) g->ccs = g->bcs = 1;
  if (g->m == 1) g->crs = g->n, g->ars = g->k;
  if (g->k <= 1) g->acs = 1, g->brs = g->n;
  if (g->k <= 1 && g->bcs != 1) g->brs = 1;
  p->copy_c = g->ccs != 1;
}

static bool blas_can(const mt_gemm *g) {
  if (!g->blas || !mt_gemm_wants_blas(g->dtype, g->m, g->n, g->k)) return false;
  if (g->dtype == MT_F32 && !g->blas->use_f32) return false;
  bool a = (g->acs == 1 && g->ars >= g->k) || (g->ars == 1 && g->acs >= g->m);
  bool b = (g->bcs == 1 && g->brs >= g->n) || (g->brs == 1 && g->bcs >= g->k);
  const int64_t most = INT32_MAX;
  return a && b && g->ars <= most && g->acs <= most && g->brs <= most && g->bcs <= most &&
         g->crs <= most && g->k <= most;
}

static enum path choose(const mt_gemm *g, int64_t size) {
  bool a_along_k = g->acs == 1, b_along_k = g->brs == 1, b_rows = g->bcs == 1;
  if (g->k == 0) return DIRECT;
  if (a_along_k && b_along_k) {
    if (g->m == 1 && g->n == 1) return DOT1;
    if (g->m <= 4 || (g->m <= 24 && g->k >= 128)) return DOT;
  }
  if (b_rows && (double)g->k * (double)g->n * (double)size <= DIRECT_BYTES) return DIRECT;
  if (b_rows && g->m <= 8) return SKINNY;
  return PACKED;
}

static void plan_blocks(struct plan *p) {
  const struct mt_gemm_fns *f = p->f;
  const mt_gemm *g = &p->g;
  int64_t nr = 2 * f->vl, blocks = ceil_div(g->k, KC_BYTES / f->size);
  p->kc = blocks ? ceil_div(g->k, blocks) : 0;
  p->mc = MC_PANELS * f->mr;
  p->nc = p->half ? HALF_COLUMNS : NC_BYTES / f->size;
  p->mb = p->half ? HALF_ROWS : INT64_MAX / 2;
  p->mixed = !p->half && (g->m <= 16 || g->n <= 8 * nr);
  p->nc = ceil_div(least(p->nc, g->n), nr) * nr;
  p->b_bytes = mul_size(p->kc, p->nc, (size_t)f->size);
  p->a_bytes = p->mixed ? 0 : mul_size(p->kc, least(p->mc, g->m), (size_t)f->size);
  p->c32_bytes = p->half ? mul_size(least(p->mb, g->m), p->nc, sizeof(float)) : 0;
}

/* Parts of about equal sides, never more than threads or than the work is worth. */
static void plan_grid(struct plan *p, int threads) {
  const mt_gemm *g = &p->g;
  double work = (double)g->m * (double)g->n * (double)g->k;
  p->rows = p->columns = 1;
  if (p->path == BLAS) {
    p->rows = ceil_div(g->m, BLAS_TILE), p->columns = ceil_div(g->n, BLAS_TILE);
    return;
  }
  if (threads <= 1 || work < 2. * FORK_WORK || p->path == WIDEN || p->path == DOT1) return;
  int64_t parts = work / FORK_WORK < threads ? (int64_t)(work / FORK_WORK) : threads;
  int64_t most_rows = p->path == DOT || p->path == SKINNY ? 1 : ceil_div(g->m, p->f->mr);
  int64_t most_columns = ceil_div(g->n, 2 * p->f->vl);
  double best = -1;
  for (int64_t r = 1; r <= parts && r <= most_rows; r++) {
    int64_t c = least(parts / r, most_columns);
    /* Time of the largest part, plus the packing of its sides. */
    double h = (double)ceil_div(g->m, r), w = (double)ceil_div(most_columns, c) * 2 * p->f->vl;
    double cost = h * w + 4 * (h + w);
    if (best < 0 || cost < best) best = cost, p->rows = r, p->columns = c;
  }
}

/* A small product of 16-bit floats, widened: C is computed plainly, without c0. B keeps its unit
 * stride, so that the choice of path is that of f32. */
static mt_gemm widened(const struct plan *p, float *a, float *b, float *c) {
  mt_gemm g = p->g;
  bool along_k = g.brs == 1 && g.bcs != 1;
  g.dtype = MT_F32;
  g.a = a, g.ars = g.k, g.acs = 1;
  g.b = b, g.brs = along_k ? 1 : g.n, g.bcs = along_k ? g.k : 1;
  g.c = c, g.crs = g.n, g.ccs = 1;
  if (g.beta != 0) g.c0 = c, g.c0rs = g.n, g.c0cs = 1, g.beta = 1;
  return g;
}

static void plan_make(struct plan *p, const struct mt_isa *isa, const mt_gemm *g, int threads) {
  p->g = *g;
  p->isa = isa;
  p->f = mt_gemm_fns_of(isa, g->dtype);
  p->half = g->dtype == MT_F16 ? 1 : g->dtype == MT_BF16 ? 2 : 0;
  normalise(p);
  p->mixed = false;
  p->c_bytes = p->b_bytes = p->a_bytes = p->c32_bytes = 0;
  int64_t m = p->g.m, n = p->g.n, k = p->g.k;
  if (p->copy_c) p->c_bytes = mul_size(m, n, (size_t)mt_dtype_size(g->dtype));
  if (p->half) {
    double all = (double)m * (double)k + (double)k * (double)n + (double)m * (double)n;
    p->path = all <= WIDEN_MOST ? WIDEN : PACKED;
  } else {
    p->path = blas_can(&p->g) ? BLAS : choose(&p->g, p->f->size);
  }
  if (p->path == PACKED) plan_blocks(p);
  size_t inner_bytes = 0;
  if (p->path == WIDEN) {
    p->a_bytes = mul_size(m, k, sizeof(float));
    p->b_bytes = mul_size(k, n, sizeof(float));
    p->c32_bytes = mul_size(m, n, sizeof(float));
    struct plan inner;
    mt_gemm wide = widened(p, NULL, NULL, NULL);
    plan_make(&inner, isa, &wide, 1);
    inner_bytes = inner.worker_bytes;
  }
  plan_grid(p, threads);
  p->worker_bytes = add_size(add_size(inner_bytes, p->b_bytes), add_size(p->a_bytes, p->c32_bytes));
}

/* ---- The start and the end of C ---- */

#define INIT(name, type, from, widen)                                                       \
  static void init_##name(const mt_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1, \
                          type *c, int64_t crs) {                                           \
    type beta = (type)g->beta;                                                              \
    for (int64_t i = i0; i < i1; i++, c += crs) {                                           \
      const from *c0 = (const from *)g->c0 + i * g->c0rs;                                   \
      for (int64_t j = j0; j < j1; j++) c[j - j0] = beta * widen(c0[j * g->c0cs]);          \
    }                                                                                       \
  }
#define AS_IS(x) (x)
INIT(f32, float, float, AS_IS)
INIT(f64, double, double, AS_IS)
INIT(f16, float, uint16_t, mt_f16_to_f32)
INIT(bf16, float, uint16_t, mt_bf16_to_f32)

/* Writes beta * c0 to this part of C, which is at c and of the accumulator's type; whether C then
 * holds something to add to. */
static bool init_c(const struct plan *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1, void *c,
                   int64_t crs) {
  const mt_gemm *g = &p->g;
  if (g->beta == 0) return false;
  bool same = g->c0 == g->c && g->c0rs == g->crs && (g->c0cs == 1 || g->n == 1) && !p->half;
  if (same && g->beta == 1) return true;
  if (p->half == 1)
    init_f16(g, i0, i1, j0, j1, c, crs);
  else if (p->half == 2)
    init_bf16(g, i0, i1, j0, j1, c, crs);
  else if (g->dtype == MT_F64)
    init_f64(g, i0, i1, j0, j1, c, crs);
  else
    init_f32(g, i0, i1, j0, j1, c, crs);
  return true;
}

/* A tile record for the part of C from (i0, j0); `c` points there. */
static struct mt_tile start_tile(const struct plan *p, int64_t i0, int64_t j0) {
  const mt_gemm *g = &p->g;
  int64_t size = p->f->size;
  struct mt_tile t = {.ars = g->ars, .acs = g->acs, .brs = g->brs, .crs = g->crs, .k = g->k};
  t.alpha = g->alpha;
  t.c = p->half ? NULL : at_out(g->c, i0 * g->crs + j0, size);
  if (g->row_bias) t.row_bias = at(g->row_bias, i0, size);
  if (g->col_bias) t.col_bias = at(g->col_bias, j0, size);
  return t;
}

static void move_tile(struct mt_tile *t, const struct mt_tile *origin, int64_t i, int64_t j,
                      int64_t size) {
  t->c = at_out(origin->c, i * t->crs + j, size);
  if (origin->row_bias) t->row_bias = at(origin->row_bias, i, size);
  if (origin->col_bias) t->col_bias = at(origin->col_bias, j, size);
}

/* ---- DIRECT and SKINNY: B as it is ---- */

/* One group of rows by n columns: the widest tiles that there are. */
static void strip(const struct mt_gemm_fns *f, const struct mt_tile *origin, int64_t n) {
  struct mt_tile t = *origin;
  const mt_tile_fn(*tiles)[2] = f->direct[t.m - 1];
  int widest = t.m == 1 ? 3 : t.m <= 3 ? 2 : 1;
  for (int64_t j = 0; j < n;) {
    int lg = widest;
    int64_t vectors = ceil_div(n - j, f->vl);
    while ((1 << lg) > vectors) lg--;
    t.n = least((int64_t)f->vl << lg, n - j);
    t.b = at(origin->b, j, f->size);
    move_tile(&t, origin, 0, j, f->size);
    tiles[lg][t.n < (int64_t)f->vl << lg](&t);
    j += t.n;
  }
}

static void direct_task(const struct plan *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  const struct mt_gemm_fns *f = p->f;
  int64_t size = f->size, nr = 2 * f->vl, groups = ceil_div(i1 - i0, f->dr);
  struct mt_tile origin = start_tile(p, i0, j0), t = origin;
  origin.b = at(p->g.b, j0, size);
  t.accumulate = origin.accumulate = init_c(p, i0, i1, j0, j1, origin.c, origin.crs);
  if (groups == 1) {
    origin.m = i1 - i0;
    origin.a = at(p->g.a, i0 * t.ars, size);
    strip(f, &origin, j1 - j0);
    return;
  }
  for (int64_t j = j0; j < j1; j += nr) {
    t.n = least(nr, j1 - j);
    t.b = at(p->g.b, j, size);
    int lg = t.n > f->vl;
    for (int64_t q = 0, i = i0; q < groups; q++, i += t.m) {
      t.m = i0 + deal(i1 - i0, groups, q + 1) - i;
      t.a = at(p->g.a, i * t.ars, size);
      move_tile(&t, &origin, i - i0, j - j0, size);
      f->direct[t.m - 1][lg][t.n < (int64_t)f->vl << lg](&t);
    }
  }
}

static void skinny_task(const struct plan *p, int64_t j0, int64_t j1) {
  const mt_gemm *g = &p->g;
  const struct mt_gemm_fns *f = p->f;
  int64_t size = f->size, groups = ceil_div(g->m, f->dr);
  struct mt_tile origin = start_tile(p, 0, j0), t = origin;
  t.accumulate = init_c(p, 0, g->m, j0, j1, origin.c, origin.crs);
  for (int64_t k = 0; k < g->k; k += SKINNY_K) {
    bool last = k + SKINNY_K >= g->k;
    t.k = least(SKINNY_K, g->k - k);
    for (int64_t q = 0, i = 0; q < groups; q++, i += t.m) {
      t.m = deal(g->m, groups, q + 1) - i;
      t.a = at(g->a, i * g->ars + k * g->acs, size);
      t.b = at(g->b, k * g->brs + j0, size);
      move_tile(&t, &origin, i, 0, size);
      if (!last) t.row_bias = t.col_bias = NULL;
      strip(f, &t, j1 - j0);
    }
    t.accumulate = true;
  }
}

/* ---- PACKED ---- */

static void pack_b(const struct plan *p, char *dst, int64_t k0, int64_t k1, int64_t j0,
                   int64_t j1) {
  const mt_gemm *g = &p->g;
  const struct mt_gemm_fns *f = p->f;
  int64_t nr = 2 * f->vl, source = mt_dtype_size(g->dtype);
  for (int64_t j = j0; j < j1; j += nr) {
    int64_t w = least(nr, j1 - j), wpad = w > f->vl ? nr : f->vl;
    f->pack[p->half](dst, at(g->b, k0 * g->brs + j * g->bcs, source), g->bcs, g->brs, w, wpad,
                     k1 - k0);
    dst += wpad * (k1 - k0) * f->size;
  }
}

static void pack_a(const struct plan *p, char *dst, int64_t k0, int64_t k1, int64_t i0,
                   int64_t i1) {
  const mt_gemm *g = &p->g;
  const struct mt_gemm_fns *f = p->f;
  int64_t panels = ceil_div(i1 - i0, f->mr), source = mt_dtype_size(g->dtype);
  for (int64_t q = 0; q < panels; q++) {
    int64_t i = deal(i1 - i0, panels, q), m = deal(i1 - i0, panels, q + 1) - i;
    f->pack[p->half](dst, at(g->a, (i0 + i) * g->ars + k0 * g->acs, source), g->ars, g->acs, m, m,
                     k1 - k0);
    dst += m * (k1 - k0) * f->size;
  }
}

/* All tiles of a block: packed B by packed A, or by A where it is. `block` has the block's C,
 * biases, k, and in a and b the packed panels (a: the first element of A when mixed). */
static void block_tiles(const struct plan *p, const struct mt_tile *block, int64_t rows,
                        int64_t columns) {
  const struct mt_gemm_fns *f = p->f;
  int64_t nr = 2 * f->vl, size = f->size, panels = ceil_div(rows, p->mixed ? f->dr : f->mr);
  struct mt_tile t = *block;
  for (int64_t j = 0; j < columns; j += nr) {
    t.n = least(nr, columns - j);
    int two = t.n > f->vl;
    t.brs = two ? nr : f->vl;
    t.b = at(block->b, j * t.k, size);
    for (int64_t q = 0, i = 0; q < panels; q++, i += t.m) {
      t.m = deal(rows, panels, q + 1) - i;
      t.a = at(block->a, i * (p->mixed ? t.ars : t.k), size);
      move_tile(&t, block, i, j, size);
      if (p->mixed)
        f->mixed[t.m - 1][two](&t);
      else
        f->packed[t.m - 1][two](&t);
    }
  }
}

/* Rows i0..i1 by columns j0..j1, no more than one block of B wide and, for 16-bit floats, one
 * block of C: over all k-blocks. */
static void packed_block(const struct plan *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                         char *scratch, bool b_is_packed, const mt_parallel *par) {
  const mt_gemm *g = &p->g;
  int64_t size = p->f->size, blocks = p->kc ? ceil_div(g->k, p->kc) : 1;
  int64_t strips = ceil_div(i1 - i0, p->mc);
  char *b = scratch, *a = b + p->b_bytes;
  struct mt_tile origin = start_tile(p, i0, j0), t = origin;
  if (p->half) t.c = origin.c = a + p->a_bytes, t.crs = origin.crs = p->nc;
  t.accumulate = init_c(p, i0, i1, j0, j1, origin.c, origin.crs);
  for (int64_t q = 0; q < blocks && !mt_stopped(par); q++) {
    int64_t k0 = q * p->kc, k1 = least(k0 + p->kc, g->k);
    if (!b_is_packed) pack_b(p, b, k0, k1, j0, j1);
    for (int64_t s = 0; s < strips; s++) {
      int64_t i = deal(i1 - i0, strips, s), m = deal(i1 - i0, strips, s + 1) - i;
      t.k = k1 - k0, t.b = b, t.a = a;
      if (p->mixed)
        t.a = at(g->a, (i0 + i) * g->ars + k0 * g->acs, size);
      else
        pack_a(p, a, k0, k1, i0 + i, i0 + i + m);
      move_tile(&t, &origin, i, 0, size);
      if (q < blocks - 1) t.row_bias = t.col_bias = NULL;
      block_tiles(p, &t, m, j1 - j0);
    }
    t.accumulate = true;
  }
}

static void packed_task(const struct plan *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                        char *scratch, const mt_parallel *par) {
  const mt_gemm *g = &p->g;
  const float *c32 = (const float *)(void *)(scratch + p->b_bytes + p->a_bytes);
  bool one_k_block = g->k <= p->kc;
  for (int64_t j = j0; j < j1; j += p->nc) {
    int64_t je = least(j + p->nc, j1);
    for (int64_t i = i0; i < i1; i += p->mb) {
      int64_t ie = least(i + p->mb, i1);
      packed_block(p, i, ie, j, je, scratch, one_k_block && i > i0, par);
      if (mt_stopped(par)) return;
      for (int64_t r = i; p->half && r < ie; r++) {
        p->isa->gemm->narrow[p->half - 1]((uint16_t *)g->c + r * g->crs + j, c32 + (r - i) * p->nc,
                                          je - j);
      }
    }
  }
}

/* ---- WIDEN ---- */

static void widen_matrix(const struct plan *p, float *dst, const uint16_t *src, int64_t rows,
                         int64_t columns, int64_t rs, int64_t cs) {
  if (cs == 1) {
    for (int64_t i = 0; i < rows; i++) {
      p->isa->gemm->widen[p->half - 1](dst + i * columns, src + i * rs, columns);
    }
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      uint16_t h = src[i * rs + j * cs];
      dst[i * columns + j] = p->half == 1 ? mt_f16_to_f32(h) : mt_bf16_to_f32(h);
    }
  }
}

static void run_plan(const struct plan *p, mt_parallel *par, char *scratch);

static void widen_task(const struct plan *p, char *scratch) {
  const mt_gemm *g = &p->g;
  float *b = (float *)(void *)scratch;
  float *a = (float *)(void *)(scratch + p->b_bytes);
  float *c = (float *)(void *)(scratch + p->b_bytes + p->a_bytes);
  mt_gemm wide = widened(p, a, b, c);
  widen_matrix(p, a, g->a, g->m, g->k, g->ars, g->acs);
  if (wide.bcs == 1)
    widen_matrix(p, b, g->b, g->k, g->n, g->brs, g->bcs);
  else
    widen_matrix(p, b, g->b, g->n, g->k, g->bcs, g->brs);
  init_c(p, 0, g->m, 0, g->n, c, g->n);
  struct plan inner;
  plan_make(&inner, p->isa, &wide, 1);
  run_plan(&inner, NULL, (char *)c + p->c32_bytes);
  for (int64_t i = 0; i < g->m; i++) {
    p->isa->gemm->narrow[p->half - 1]((uint16_t *)g->c + i * g->crs, c + i * g->n, g->n);
  }
}

/* ---- BLAS ---- */

static void add_biases(const mt_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  for (int64_t i = i0; i < i1; i++) {
    for (int64_t j = j0; j < j1; j++) {
      if (g->dtype == MT_F64) {
        const double *rb = g->row_bias, *cb = g->col_bias;
        ((double *)g->c)[i * g->crs + j] += (rb ? rb[i] : 0) + (cb ? cb[j] : 0);
      } else {
        const float *rb = g->row_bias, *cb = g->col_bias;
        ((float *)g->c)[i * g->crs + j] += (rb ? rb[i] : 0) + (cb ? cb[j] : 0);
      }
    }
  }
}

static void blas_task(const struct plan *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  enum {
    ROW_MAJOR = 101,
    NO_TRANS = 111,
    TRANS = 112
  };
  const mt_gemm *g = &p->g;
  int64_t size = p->f->size;
  bool ta = g->acs != 1, tb = g->bcs != 1;
  const void *a = at(g->a, i0 * g->ars, size), *b = at(g->b, j0 * g->bcs, size);
  void *c = at_out(g->c, i0 * g->crs + j0, size);
  double beta = init_c(p, i0, i1, j0, j1, c, g->crs);
  int m = (int)(i1 - i0), n = (int)(j1 - j0), k = (int)g->k;
  int lda = (int)(ta ? g->acs : g->ars), ldb = (int)(tb ? g->bcs : g->brs), ldc = (int)g->crs;
  if (g->dtype == MT_F64) {
    g->blas->dgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, m, n, k, g->alpha, a,
                   lda, b, ldb, beta, c, ldc);
  } else {
    g->blas->sgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, m, n, k,
                   (float)g->alpha, a, lda, b, ldb, (float)beta, c, ldc);
  }
  if (g->row_bias || g->col_bias) add_biases(g, i0, i1, j0, j1);
}

/* ---- Tasks ---- */

static void dot_task(const struct plan *p, int64_t j0, int64_t j1) {
  const mt_gemm *g = &p->g;
  struct mt_tile t = start_tile(p, 0, j0);
  t.a = g->a, t.b = at(g->b, j0 * g->bcs, p->f->size);
  t.brs = g->bcs;
  t.m = g->m, t.n = j1 - j0;
  t.accumulate = init_c(p, 0, g->m, j0, j1, t.c, t.crs);
  if (p->path == DOT1)
    p->f->dot1(&t);
  else
    p->f->dot(&t);
}

struct grid {
  const struct plan *p;
  const mt_parallel *par;
  char *scratch;
};

static void run_parts(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct grid *grid = ctx;
  const struct plan *p = grid->p;
  const mt_gemm *g = &p->g;
  char *scratch = grid->scratch + p->worker_bytes * (size_t)worker;
  int64_t unit = p->path == BLAS ? BLAS_TILE : 2 * p->f->vl, units = ceil_div(g->n, unit);
  for (int64_t q = begin; q < end && !mt_stopped(grid->par); q++) {
    int64_t r = q / p->columns, c = q % p->columns;
    int64_t i0 = deal(g->m, p->rows, r), i1 = deal(g->m, p->rows, r + 1);
    int64_t j0 = deal(units, p->columns, c) * unit;
    int64_t j1 = least(deal(units, p->columns, c + 1) * unit, g->n);
    if (p->path == BLAS) i0 = r * BLAS_TILE, i1 = least(i0 + BLAS_TILE, g->m);
    switch (p->path) {
      case DOT:
      case DOT1:
        dot_task(p, j0, j1);
        break;
      case DIRECT:
        direct_task(p, i0, i1, j0, j1);
        break;
      case SKINNY:
        skinny_task(p, j0, j1);
        break;
      case WIDEN:
        widen_task(p, scratch);
        break;
      case BLAS:
        blas_task(p, i0, i1, j0, j1);
        break;
      default:
        packed_task(p, i0, i1, j0, j1, scratch, grid->par);
        break;
    }
  }
}

/* The scratch of worker w starts at scratch + w * worker_bytes. */
static void run_plan(const struct plan *p, mt_parallel *par, char *scratch) {
  struct grid grid = {p, par, scratch};
  int64_t parts = p->rows * p->columns;
  if (parts == 1 || (p->path == BLAS && !p->g.blas->serial))
    run_parts(&grid, 0, parts, 0);
  else
    mt_parallel_for(par, parts, 1, run_parts, &grid);
}

/* ---- Whole products ---- */

/* C has no unit stride: it is computed in scratch and copied. */
static void run_copied(const struct plan *p, mt_parallel *par, char *scratch) {
  struct plan q = *p;
  size_t size = (size_t)mt_dtype_size(p->g.dtype);
  q.g.c = scratch, q.g.crs = p->g.n, q.g.ccs = 1;
  run_plan(&q, par, scratch + p->c_bytes);
  for (int64_t i = 0; i < p->g.m; i++) {
    for (int64_t j = 0; j < p->g.n; j++) {
      memcpy(at_out(p->g.c, i * p->g.crs + j * p->g.ccs, (int64_t)size),
             at(scratch, i * p->g.n + j, (int64_t)size), size);
    }
  }
}

static void run_one(const struct plan *p, mt_parallel *par, char *scratch) {
  if (p->copy_c)
    run_copied(p, par, scratch);
  else
    run_plan(p, par, scratch);
}

struct batch_run {
  const struct plan *p;
  const mt_gemm_batch *batch;
  mt_parallel *par; /* for the parts of one product; NULL when products run side by side */
  const mt_parallel *outer;
  char *scratch;
};

static void run_products(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct batch_run *r = ctx;
  const mt_gemm_batch *batch = r->batch;
  char *scratch = r->scratch + (r->p->c_bytes + r->p->worker_bytes) * (size_t)worker;
  int64_t size = mt_dtype_size(r->p->g.dtype);
  struct plan p = *r->p;
  for (int64_t q = begin; q < end && !mt_stopped(r->outer); q++) {
    int64_t a = 0, b = 0, c = 0, c0 = 0, rest = q;
    for (int d = batch->ndim - 1; d >= 0; d--) {
      int64_t i = rest % batch->size[d];
      rest /= batch->size[d];
      a += i * batch->a[d], b += i * batch->b[d], c += i * batch->c[d], c0 += i * batch->c0[d];
    }
    p.g.a = at(r->p->g.a, p.swapped ? b : a, size);
    p.g.b = at(r->p->g.b, p.swapped ? a : b, size);
    p.g.c = at_out(r->p->g.c, c, size);
    if (p.g.beta != 0) p.g.c0 = at(r->p->g.c0, c0, size);
    run_one(&p, r->par, scratch);
  }
}

/* Products run side by side when there are plenty or when they are too small to cut. */
static bool side_by_side(struct plan *p, const mt_gemm_batch *batch, int threads) {
  if (!batch || (batch->count < 2 * threads && p->rows * p->columns > 1)) return false;
  plan_grid(p, 1);
  return true;
}

size_t mt_gemm_scratch(const struct mt_isa *isa, const mt_gemm *g, const mt_gemm_batch *batch,
                       int threads) {
  if (g->m == 0 || g->n == 0) return 0;
  struct plan p;
  plan_make(&p, isa, g, threads);
  size_t bytes = add_size(p.c_bytes, p.worker_bytes);
  if (bytes <= 4 * (size_t)MT_GEMM_SLACK && p.path != PACKED && p.path != WIDEN && !p.copy_c)
    return 0;
  bool alone = !side_by_side(&p, batch, threads) && p.rows * p.columns == 1;
  return bytes == SIZE_MAX ? bytes : mul_size((int64_t)bytes, alone ? 1 : threads, 1);
}

void mt_gemm_run(const struct mt_isa *isa, const mt_gemm *g, const mt_gemm_batch *batch,
                 mt_parallel *par, void *scratch) {
  if (g->m == 0 || g->n == 0) return;
  int threads = par ? par->nthreads : 1;
  struct plan p;
  plan_make(&p, isa, g, threads);
  if (!batch) {
    run_one(&p, par, scratch);
    return;
  }
  bool many = side_by_side(&p, batch, threads) && (p.path != BLAS || g->blas->serial);
  struct batch_run run = {&p, batch, many ? NULL : par, par, scratch};
  double work = (double)g->m * (double)g->n * (double)(g->k + 1);
  int64_t grain = work >= FORK_WORK ? 1 : (int64_t)(FORK_WORK / work);
  if (many)
    mt_parallel_for(par, batch->count, grain, run_products, &run);
  else
    run_products(&run, 0, batch->count, 0);
}
