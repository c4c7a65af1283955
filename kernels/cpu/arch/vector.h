/* vector.h - vectors of REAL of whatever length the instruction set has, for arch/.
 *
 * Included once per object with REAL, REAL_IS_F32 and LANE (an integer of REAL's width) defined.
 * GCC's vector types do most; intrinsics stand only where they cannot: parts of vectors, and the
 * fused multiply-add, whose rounding must not depend on what the compiler thinks of a loop. */
#include <stdint.h>

#if defined __x86_64__
#include <immintrin.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#if defined __AVX512F__
#define VBYTES 64
#elif defined __AVX2__
#define VBYTES 32
#else
#define VBYTES 16
#endif
#define VLANES (VBYTES / (REAL_IS_F32 ? 4 : 8))
#define VL ((int64_t)VLANES)

typedef REAL vec __attribute__((vector_size(VBYTES)));
typedef REAL uvec __attribute__((vector_size(VBYTES), aligned(sizeof(REAL)), may_alias));
/* Integers of the same width, for shuffles. */
typedef LANE ivec __attribute__((vector_size(VBYTES)));

#define AI static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

AI vec load(const REAL *p) { return *(const uvec *)p; }
AI void store(REAL *p, vec v) { *(uvec *)p = v; }
AI vec splat(REAL x) { return x - (vec){0}; }

/* a * b + c, rounded once wherever the instruction set can: written out, because whether a compiler
 * contracts an expression may differ from one instance to the next, and with it the bits. */
#if defined __AVX512F__ && REAL_IS_F32
AI vec fused(vec a, vec b, vec c) { return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined __AVX512F__
AI vec fused(vec a, vec b, vec c) {
  return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined __AVX2__ && REAL_IS_F32
AI vec fused(vec a, vec b, vec c) { return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined __AVX2__
AI vec fused(vec a, vec b, vec c) {
  return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined __aarch64__ && REAL_IS_F32
AI vec fused(vec a, vec b, vec c) {
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#elif defined __aarch64__
AI vec fused(vec a, vec b, vec c) {
  return (vec)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
AI vec fused(vec a, vec b, vec c) { return a * b + c; }
#endif
#if defined __FMA__ || defined __aarch64__
AI REAL fused_one(REAL a, REAL b, REAL c) {
  return REAL_IS_F32 ? (REAL)__builtin_fmaf((float)a, (float)b, (float)c)
                     : (REAL)__builtin_fma(a, b, c);
}
#else
AI REAL fused_one(REAL a, REAL b, REAL c) { return a * b + c; }
#endif

/* ---- The first n lanes of a vector, 0 < n <= VL ---- */

#if defined __AVX512F__ && REAL_IS_F32
typedef __mmask16 mask;
AI mask first(int64_t n) { return (mask)((1u << n) - 1); }
AI vec load_part(const REAL *p, mask m) { return (vec)_mm512_maskz_loadu_ps(m, p); }
AI void store_part(REAL *p, vec v, int64_t n) { _mm512_mask_storeu_ps(p, first(n), (__m512)v); }
#elif defined __AVX512F__
typedef __mmask8 mask;
AI mask first(int64_t n) { return (mask)((1u << n) - 1); }
AI vec load_part(const REAL *p, mask m) { return (vec)_mm512_maskz_loadu_pd(m, p); }
AI void store_part(REAL *p, vec v, int64_t n) { _mm512_mask_storeu_pd(p, first(n), (__m512d)v); }
#elif defined __AVX2__
typedef __m256i mask;
static const LANE first_lanes[2 * VL] = {
#if REAL_IS_F32
    -1, -1, -1, -1,
#endif
    -1, -1, -1, -1,
};
AI mask first(int64_t n) { return _mm256_loadu_si256((const __m256i *)(first_lanes + VL - n)); }
#if REAL_IS_F32
AI vec load_part(const REAL *p, mask m) { return (vec)_mm256_maskload_ps(p, m); }
#else
AI vec load_part(const REAL *p, mask m) { return (vec)_mm256_maskload_pd(p, m); }
#endif
/* Masked stores take dozens of micro-operations on AMD; three halving ones do not. */
AI void store_part(REAL *p, vec v, int64_t n) {
#if REAL_IS_F32
  __m256 x = (__m256)v;
  if (n == 8) {
    _mm256_storeu_ps(p, x);
    return;
  }
  __m128 lo = _mm256_castps256_ps128(x);
  if (n & 4) _mm_storeu_ps(p, lo), p += 4, lo = _mm256_extractf128_ps(x, 1);
  if (n & 2) _mm_storel_pi((__m64 *)(void *)p, lo), p += 2, lo = _mm_movehl_ps(lo, lo);
  if (n & 1) _mm_store_ss(p, lo);
#else
  __m256d x = (__m256d)v;
  if (n == 4) {
    _mm256_storeu_pd(p, x);
    return;
  }
  __m128d lo = _mm256_castpd256_pd128(x);
  if (n & 2) _mm_storeu_pd(p, lo), p += 2, lo = _mm256_extractf128_pd(x, 1);
  if (n & 1) _mm_store_sd(p, lo);
#endif
}
#else
typedef int64_t mask;
AI mask first(int64_t n) { return n; }
AI vec load_part(const REAL *p, mask n) {
  REAL buf[VL] __attribute__((aligned(VBYTES))) = {0};
  for (int64_t i = 0; i < n; i++) buf[i] = p[i];
  return *(const vec *)buf;
}
AI void store_part(REAL *p, vec v, int64_t n) {
  for (int64_t i = 0; i < n; i++) p[i] = v[i];
}
#endif

/* ---- Transposition and sums of lanes by shuffles ---- */

/* Lane l of stage s: the first of a pair takes its own lanes without bit s and its partner's moved
 * up; the second the rest. Three to four stages transpose VL vectors. */
#define LO(l, s) ((l) & (s) ? VL + (l) - (s) : (l))
#define HI(l, s) ((l) & (s) ? VL + (l) : (l) + (s))
#define SEQ2(F, s) F(0, s), F(1, s)
#define SEQ4(F, s) SEQ2(F, s), F(2, s), F(3, s)
#define SEQ8(F, s) SEQ4(F, s), F(4, s), F(5, s), F(6, s), F(7, s)
#define SEQ16(F, s) \
  SEQ8(F, s), F(8, s), F(9, s), F(10, s), F(11, s), F(12, s), F(13, s), F(14, s), F(15, s)
#if VLANES == 16
#define SEQ SEQ16
#elif VLANES == 8
#define SEQ SEQ8
#elif VLANES == 4
#define SEQ SEQ4
#else
#define SEQ SEQ2
#endif

#define PAIR_LO(a, b, s) __builtin_shuffle(a, b, (ivec){SEQ(LO, s)})
#define PAIR_HI(a, b, s) __builtin_shuffle(a, b, (ivec){SEQ(HI, s)})

#define STAGE(s)                                 \
  UNROLL for (int i = 0; i < VL; i++) {          \
    if (!(i & (s))) {                            \
      vec lo = PAIR_LO(r[i], r[i + (s)], s);     \
      r[i + (s)] = PAIR_HI(r[i], r[i + (s)], s); \
      r[i] = lo;                                 \
    }                                            \
  }

AI void transpose(vec r[VL]) {
  STAGE(1)
#if VLANES > 2
  STAGE(2)
#endif
#if VLANES > 4
  STAGE(4)
#endif
#if VLANES > 8
  STAGE(8)
#endif
}

#define FOLD(a, b, s) (PAIR_LO(a, b, s) + PAIR_HI(a, b, s))

/* out[i] = sum of the lanes of r[i]; the same tree for each. */
AI void sum4(REAL *out, const vec r[4]) {
#if VLANES == 2
  store(out, FOLD(r[0], r[1], 1));
  store(out + 2, FOLD(r[2], r[3], 1));
#else
  vec x = FOLD(FOLD(r[0], r[1], 1), FOLD(r[2], r[3], 1), 2);
#if VLANES > 4
  x += PAIR_HI(x, x, 4);
#endif
#if VLANES > 8
  x += PAIR_HI(x, x, 8);
#endif
  UNROLL for (int i = 0; i < 4; i++) out[i] = x[i];
#endif
}
