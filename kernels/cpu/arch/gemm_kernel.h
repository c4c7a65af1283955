/* gemm_kernel.h - the inner loops of matrix products, one text for every type and instruction set.
 *
 * Included by gemm_f32.c and gemm_f64.c with REAL defined; the vector length follows from the
 * instruction set. A tile of C is m rows by nv vectors, both compile-time constants of an inlined
 * function, so that all accumulators stay in registers (check: no stack access in the loop of
 * packed_6_2). Every m from 1 up has an instance; rows are dealt evenly and only the last vector
 * of a row is ever partial.
 *
 * Invariant: an element of C is acc = sum over k ascending from 0 in one accumulator per tile call
 * (`dot`: one vector accumulator, lanes added in a fixed tree), then fma(acc, alpha, base) with
 * base = col bias + row bias + [C]. All instances do exactly this, so which one computes an
 * element does not change its bits. */
#include "../../half.h"
#include "../gemm.h"
#include "../isa.h"
#include "vector.h"

#if defined __AVX512F__
#define MR 14
#define DR 8
#define DOTR 4
#elif defined __aarch64__
#define MR 12
#define DR 8
#define DOTR 4
#else
#define MR 6
#define DR 6
#define DOTR 3
#endif

/* ---- Tiles ---- */

/* Absent biases are read from here: adding zeros costs less than testing. */
static const REAL zeros[8 * VL];

/* The end of a tile of which not all columns exist: from a buffer, so that this code is there
 * once and not in every instance. */
static void finish_part(const struct mt_tile *t, const REAL *buf, int nv) {
  REAL alpha = (REAL)t->alpha;
  for (int64_t i = 0; i < t->m; i++, buf += nv * VL) {
    REAL *c = (REAL *)t->c + i * t->crs;
    REAL rb = t->row_bias ? ((const REAL *)t->row_bias)[i] : 0;
    const REAL *cb = t->col_bias ? t->col_bias : zeros;
    for (int64_t j = 0; j < t->n; j += VL) {
      int64_t n = t->n - j < VL ? t->n - j : VL;
      vec base = load_part(cb + j, first(n)) + splat(rb);
      if (t->accumulate) base += load_part(c + j, first(n));
      store_part(c + j, fused(load(buf + j), splat(alpha), base), n);
    }
  }
}

AI void finish(const struct mt_tile *t, vec acc[MT_GEMM_MAXMR][8], const int m, const int nv) {
  if (__builtin_expect(t->n < nv * VL, 0)) {
    REAL buf[MT_GEMM_MAXMR * 2 * VL] __attribute__((aligned(VBYTES)));
    UNROLL for (int i = 0; i < m; i++) {
      UNROLL for (int v = 0; v < nv; v++) store(buf + (i * nv + v) * VL, acc[i][v]);
    }
    finish_part(t, buf, nv);
    return;
  }
  const REAL *rb = t->row_bias ? t->row_bias : zeros, *cb = t->col_bias ? t->col_bias : zeros;
  const int64_t rbs = t->row_bias != NULL;
  REAL *c = t->c, alpha = (REAL)t->alpha;
  if (t->accumulate) {
    UNROLL for (int i = 0; i < m; i++, c += t->crs, rb += rbs) {
      UNROLL for (int v = 0; v < nv; v++) {
        vec base = load(cb + v * VL) + splat(*rb) + load(c + v * VL);
        store(c + v * VL, fused(acc[i][v], splat(alpha), base));
      }
    }
  } else {
    UNROLL for (int i = 0; i < m; i++, c += t->crs, rb += rbs) {
      UNROLL for (int v = 0; v < nv; v++) {
        vec base = load(cb + v * VL) + splat(*rb);
        store(c + v * VL, fused(acc[i][v], splat(alpha), base));
      }
    }
  }
}

/* packed: A is a panel of m elements per k. part: the last vector of B's rows ends early. */
AI void tile(const struct mt_tile *t, const int m, const int nv, const bool packed,
             const bool part) {
  vec acc[MT_GEMM_MAXMR][8];
  UNROLL for (int i = 0; i < m; i++) {
    UNROLL for (int v = 0; v < nv; v++) acc[i][v] = (vec){0};
    if (packed) __builtin_prefetch((REAL *)t->c + i * t->crs, 1);
  }
  const REAL *a = t->a, *b = t->b;
  const int64_t ars = packed ? 1 : t->ars, acs = packed ? m : t->acs, brs = t->brs;
  mask lanes;
  if (part) lanes = first(t->n - (nv - 1) * VL);
  for (int64_t k = t->k; k > 0; k--, a += acs, b += brs) {
    vec row[8];
    UNROLL for (int v = 0; v < nv; v++) {
      row[v] = part && v == nv - 1 ? load_part(b + v * VL, lanes) : load(b + v * VL);
    }
    UNROLL for (int i = 0; i < m; i++) {
      vec x = splat(a[i * ars]);
      UNROLL for (int v = 0; v < nv; v++) acc[i][v] = fused(x, row[v], acc[i][v]);
    }
  }
  finish(t, acc, m, nv);
}

#define PACKED_TILE(m)                                                         \
  static void packed_##m##_1(const struct mt_tile *t) { tile(t, m, 1, 1, 0); } \
  static void packed_##m##_2(const struct mt_tile *t) { tile(t, m, 2, 1, 0); }
#define DIRECT_TILE(m, nv)                                                         \
  static void direct_##m##_##nv(const struct mt_tile *t) { tile(t, m, nv, 0, 0); } \
  static void direct_##m##_##nv##_part(const struct mt_tile *t) { tile(t, m, nv, 0, 1); }
#define DIRECT_TILES(m) DIRECT_TILE(m, 1) DIRECT_TILE(m, 2)

#define ROWS_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define ROWS_8(X) ROWS_6(X) X(7) X(8)
#define ROWS_12(X) ROWS_8(X) X(9) X(10) X(11) X(12)
#define ROWS_14(X) ROWS_12(X) X(13) X(14)
#if defined __AVX512F__
#define ROWS_MR ROWS_14
#define ROWS_DR ROWS_8
#elif defined __aarch64__
#define ROWS_MR ROWS_12
#define ROWS_DR ROWS_8
#else
#define ROWS_MR ROWS_6
#define ROWS_DR ROWS_6
#endif

ROWS_MR(PACKED_TILE)
ROWS_DR(DIRECT_TILES)
DIRECT_TILE(1, 4)
DIRECT_TILE(1, 8)
DIRECT_TILE(2, 4)
DIRECT_TILE(3, 4)

/* ---- Dots: both operands run along k ---- */

/* m rows of A by nb (4 or 8) columns of C, whose rows of B are given one by one. */
AI void dot_tile(const struct mt_tile *t, int64_t i0, int64_t j0, const int m, const int nb) {
  const REAL *a = (const REAL *)t->a + i0 * t->ars, *b[8];
  int64_t nj = t->n - j0 < nb ? t->n - j0 : nb, k = 0;
  UNROLL for (int j = 0; j < nb; j++) { /* columns that do not exist repeat the last one */
    b[j] = (const REAL *)t->b + (j0 + (j < nj ? j : nj - 1)) * t->brs;
  }
  vec acc[4][8];
  UNROLL for (int i = 0; i < m; i++) { UNROLL for (int j = 0; j < nb; j++) acc[i][j] = (vec){0}; }
  for (; k + VL <= t->k; k += VL) {
    vec x[4];
    UNROLL for (int i = 0; i < m; i++) x[i] = load(a + i * t->ars + k);
    UNROLL for (int j = 0; j < nb; j++) {
      vec y = load(b[j] + k);
      UNROLL for (int i = 0; i < m; i++) acc[i][j] = fused(x[i], y, acc[i][j]);
    }
  }
  if (k < t->k) {
    mask lanes = first(t->k - k);
    vec x[4];
    UNROLL for (int i = 0; i < m; i++) x[i] = load_part(a + i * t->ars + k, lanes);
    UNROLL for (int j = 0; j < nb; j++) {
      vec y = load_part(b[j] + k, lanes);
      UNROLL for (int i = 0; i < m; i++) acc[i][j] = fused(x[i], y, acc[i][j]);
    }
  }
  const REAL *rb = t->row_bias, *cb = t->col_bias;
  UNROLL for (int i = 0; i < m; i++) {
    REAL sum[8], *c = (REAL *)t->c + (i0 + i) * t->crs + j0;
    sum4(sum, acc[i]);
    if (nb == 8) sum4(sum + 4, acc[i] + 4);
    for (int j = 0; j < nj; j++) {
      REAL base = (cb ? cb[j0 + j] : 0) + (rb ? rb[i0 + i] : 0);
      if (t->accumulate) base += c[j];
      c[j] = fused_one(sum[j], (REAL)t->alpha, base);
    }
  }
}

/* A single dot product: eight chains hide the latency of the addition. */
AI REAL one_dot(const REAL *a, const REAL *b, int64_t n) {
  vec acc[8];
  int64_t k = 0;
  UNROLL for (int i = 0; i < 8; i++) acc[i] = (vec){0};
  for (; k + 8 * VL <= n; k += 8 * VL) {
    UNROLL for (int i = 0; i < 8; i++) {
      acc[i] = fused(load(a + k + i * VL), load(b + k + i * VL), acc[i]);
    }
  }
  for (; k + VL <= n; k += VL) acc[0] = fused(load(a + k), load(b + k), acc[0]);
  if (k < n) {
    acc[1] = fused(load_part(a + k, first(n - k)), load_part(b + k, first(n - k)), acc[1]);
  }
  vec r[4];
  UNROLL for (int i = 0; i < 4; i++) r[i] = acc[i] + acc[i + 4];
  REAL sum[4];
  sum4(sum, r);
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static void dot1(const struct mt_tile *t) {
  const REAL *rb = t->row_bias, *cb = t->col_bias;
  REAL *c = t->c, base = (cb ? *cb : 0) + (rb ? *rb : 0);
  if (t->accumulate) base += *c;
  *c = fused_one(one_dot(t->a, t->b, t->k), (REAL)t->alpha, base);
}

static void dot(const struct mt_tile *t) {
  int64_t j = 0;
  if (t->m == 1) {
    for (; j + 4 < t->n; j += 8) dot_tile(t, 0, j, 1, 8);
  }
  for (; j < t->n; j += 4) {
    int64_t i = 0;
    for (; i + DOTR <= t->m; i += DOTR) dot_tile(t, i, j, DOTR, 4);
    switch (t->m - i) {
      case 1:
        dot_tile(t, i, j, 1, 4);
        break;
      case 2:
        dot_tile(t, i, j, 2, 4);
        break;
      case 3:
        dot_tile(t, i, j, 3, 4);
        break;
      default:
        break;
    }
  }
}

/* ---- Packing ---- */

/* What a packer reads: the type itself or a 16-bit float. */
enum source {
  SAME,
  FROM_F16,
  FROM_BF16
};

#if REAL_IS_F32
typedef uint16_t hvec __attribute__((vector_size(VBYTES / 2)));
typedef uint16_t uhvec __attribute__((vector_size(VBYTES / 2), aligned(2), may_alias));

AI REAL widen_one(uint16_t h, const bool bf16) {
  return bf16 ? mt_bf16_to_f32(h) : mt_f16_to_f32(h);
}
AI vec widen_vec(const uint16_t *p, const bool bf16) {
  hvec h = *(const uhvec *)p;
  if (bf16) return (vec)(__builtin_convertvector(h, ivec) << 16);
#if defined __AVX512F__
  return (vec)_mm512_cvtph_ps((__m256i)h);
#elif defined __F16C__
  return (vec)_mm256_cvtph_ps((__m128i)h);
#else
  vec x;
  UNROLL for (int i = 0; i < VL; i++) x[i] = mt_f16_to_f32(h[i]);
  return x;
#endif
}

#define SRC_SIZE(src) ((src) == SAME ? (int64_t)sizeof(REAL) : 2)
AI vec load_src(const char *p, const enum source src) {
  return src == SAME ? load((const REAL *)p) : widen_vec((const uint16_t *)p, src == FROM_BF16);
}
AI REAL load_one(const char *p, const enum source src) {
  if (src == SAME) return *(const REAL *)p;
  return widen_one(*(const uint16_t *)p, src == FROM_BF16);
}
AI vec load_src_part(const char *p, mask lanes, int64_t n, const enum source src) {
  if (src == SAME) return load_part((const REAL *)p, lanes);
  uint16_t buf[VL] = {0};
  for (int64_t i = 0; i < n; i++) buf[i] = ((const uint16_t *)p)[i];
  return widen_vec(buf, src == FROM_BF16);
}
#else
#define SRC_SIZE(src) ((int64_t)sizeof(REAL))
AI vec load_src(const char *p, const enum source src) { return (void)src, load((const REAL *)p); }
AI REAL load_one(const char *p, const enum source src) { return (void)src, *(const REAL *)p; }
AI vec load_src_part(const char *p, mask lanes, int64_t n, const enum source src) {
  return (void)src, (void)n, load_part((const REAL *)p, lanes);
}
#endif

/* Slices lie along the source: copy. Stores of whole vectors run past a slice; the next one
 * overwrites that, and behind the last there is slack. */
AI void pack_copy(REAL *dst, const char *s, int64_t ks, int64_t w, int64_t wpad, int64_t k,
                  const enum source src) {
  const int64_t size = SRC_SIZE(src), whole = w / VL, rest = w % VL;
  mask lanes = first(rest ? rest : VL);
  for (int64_t p = 0; p < k; p++, s += ks * size, dst += wpad) {
    int64_t i = 0;
    for (; i < whole * VL; i += VL) store(dst + i, load_src(s + i * size, src));
    if (rest) store(dst + i, load_src_part(s + i * size, lanes, rest, src)), i += VL;
    for (; i < wpad; i += VL) store(dst + i, (vec){0});
  }
}

/* Slices lie across the source, k along it: VL by VL transposes in registers. */
AI void pack_transpose(REAL *dst, const char *s, int64_t ps, int64_t w, int64_t wpad, int64_t k,
                       const enum source src) {
  const int64_t size = SRC_SIZE(src);
  int64_t p = 0;
  for (; p + VL <= k; p += VL) {
    for (int64_t i0 = 0; i0 < wpad; i0 += VL) {
      vec r[VL];
      UNROLL for (int i = 0; i < VL; i++) {
        r[i] = i0 + i < w ? load_src(s + ((i0 + i) * ps + p) * size, src) : (vec){0};
      }
      transpose(r);
      /* In ascending order: what runs past a slice is overwritten, except by a later block of the
       * same slices, which exists only when wpad is a multiple of VL and nothing runs past. */
      UNROLL for (int i = 0; i < VL; i++) store(dst + (p + i) * wpad + i0, r[i]);
    }
  }
  for (; p < k; p++) {
    for (int64_t i = 0; i < wpad; i++) {
      dst[p * wpad + i] = i < w ? load_one(s + (i * ps + p) * size, src) : 0;
    }
  }
}

AI void pack_any(void *dstv, const void *srcv, int64_t ps, int64_t ks, int64_t w, int64_t wpad,
                 int64_t k, const enum source src) {
  REAL *dst = dstv;
  const char *s = srcv;
  const int64_t size = SRC_SIZE(src);
  if (ps == 1 || w == 1) {
    pack_copy(dst, s, ks, w, wpad, k, src);
  } else if (ks == 1 && (wpad <= VL || wpad % VL == 0)) {
    pack_transpose(dst, s, ps, w, wpad, k, src);
  } else {
    for (int64_t p = 0; p < k; p++, dst += wpad) {
      for (int64_t i = 0; i < wpad; i++) {
        dst[i] = i < w ? load_one(s + (i * ps + p * ks) * size, src) : 0;
      }
    }
  }
}

static void pack_same(void *dst, const void *src, int64_t ps, int64_t ks, int64_t w, int64_t wpad,
                      int64_t k) {
  pack_any(dst, src, ps, ks, w, wpad, k, SAME);
}
#if REAL_IS_F32
static void pack_f16(void *dst, const void *src, int64_t ps, int64_t ks, int64_t w, int64_t wpad,
                     int64_t k) {
  pack_any(dst, src, ps, ks, w, wpad, k, FROM_F16);
}
static void pack_bf16(void *dst, const void *src, int64_t ps, int64_t ks, int64_t w, int64_t wpad,
                      int64_t k) {
  pack_any(dst, src, ps, ks, w, wpad, k, FROM_BF16);
}
#endif

/* ---- The table ---- */

#define PACKED_ROW(m) [m - 1] = {packed_##m##_1, packed_##m##_2},
#define MIXED_ROW(m) [m - 1] = {direct_##m##_1, direct_##m##_2},
#define DIRECT_ROW(m)                                                              \
  {                                                                                \
    {direct_##m##_1, direct_##m##_1_part}, { direct_##m##_2, direct_##m##_2_part } \
  }

const struct mt_gemm_fns GEMM_FNS = {
    .size = sizeof(REAL),
    .vl = VL,
    .mr = MR,
    .dr = DR,
    .dotr = DOTR,
    .packed = {ROWS_MR(PACKED_ROW)},
    .mixed = {ROWS_DR(MIXED_ROW)},
    .direct =
        {
            [0] = {{direct_1_1, direct_1_1_part},
                   {direct_1_2, direct_1_2_part},
                   {direct_1_4, direct_1_4_part},
                   {direct_1_8, direct_1_8_part}},
            [1] = {{direct_2_1, direct_2_1_part},
                   {direct_2_2, direct_2_2_part},
                   {direct_2_4, direct_2_4_part}},
            [2] = {{direct_3_1, direct_3_1_part},
                   {direct_3_2, direct_3_2_part},
                   {direct_3_4, direct_3_4_part}},
            [3] = DIRECT_ROW(4),
            [4] = DIRECT_ROW(5),
            [5] = DIRECT_ROW(6),
#if defined __AVX512F__ || defined __aarch64__
            [6] = DIRECT_ROW(7),
            [7] = DIRECT_ROW(8),
#endif
        },
    .dot = dot,
    .dot1 = dot1,
#if REAL_IS_F32
    .pack = {pack_same, pack_f16, pack_bf16},
#else
    .pack = {pack_same},
#endif
};
