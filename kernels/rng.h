/* rng.h - the counter-based generator Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw,
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 *
 * A draw is a pure function of a seed, a counter and a place in the counter's four words: the same
 * bits on any device, for any number of threads, in any order. Element i of a kernel that uses w
 * words an element takes the counter offset + i * w / 4; `stream` separates what one counter is
 * used for (retries of rejection methods). The caller advances offset by at least the counters
 * used.
 *
 * Floats are made with operations that every device rounds alike, products and sums separately, so
 * that results are the same bits everywhere; this header forbids the compiler to contract them. */
#ifndef MT_RNG_H
#define MT_RNG_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define MT_RNG_FN static __host__ __device__ inline
#else
#define MT_RNG_FN static inline __attribute__((always_inline))
#endif

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__CUDACC__)
#pragma GCC optimize("fp-contract=off")
#endif

typedef struct mt_philox {
  uint32_t w[4];
} mt_philox;

MT_RNG_FN mt_philox mt_philox_stream(uint64_t seed, uint64_t counter, uint64_t stream) {
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
  uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(q >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)q;
    c3 = (uint32_t)p;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  mt_philox r = {{c0, c1, c2, c3}};
  return r;
}

MT_RNG_FN mt_philox mt_philox_at(uint64_t seed, uint64_t counter) {
  return mt_philox_stream(seed, counter, 0);
}

/* ---- uniform ---- */

/* In [0, 1): 24 bits of one word, 53 bits of two. */
MT_RNG_FN float mt_unit_f32(uint32_t w) { return (float)(int32_t)(w >> 8) * 0x1p-24f; }
MT_RNG_FN double mt_unit_f64(uint32_t hi, uint32_t lo) {
  return (double)(int64_t)(((uint64_t)hi << 32 | lo) >> 11) * 0x1p-53;
}
/* 0 .. n-1; the bias is below n / 2^64. */
MT_RNG_FN uint64_t mt_unit_below(uint32_t hi, uint32_t lo, uint64_t n) {
  uint64_t c = n >> 32, d = (uint32_t)n; /* the high half of (hi, lo) * n */
  uint64_t mid = (lo * d >> 32) + (uint32_t)(hi * d) + (uint32_t)(lo * c);
  return hi * c + (hi * d >> 32) + (lo * c >> 32) + (mid >> 32);
}

/* ---- normal: the method of Box and Muller ---- */

/* -2 log(u) for 0 < u < 1 of 24 leading bits of w, down to 2^-33. log m = 2 atanh(s) with
 * s = (m - 1) / (m + 1) for m in [sqrt(1/2), sqrt(2)). */
MT_RNG_FN float mt_minus_2_log_f32(uint32_t w) {
  float u = (float)(int32_t)(w >> 9) * 0x1p-23f + 0x1p-24f; /* never rounded up to 1 */
  float low = (float)(int32_t)(w & 0x1ffu) * 0x1p-32f + 0x1p-33f;
  u = w < 0x200u ? low : u;
  uint32_t bits;
  memcpy(&bits, &u, sizeof bits);
  int32_t e = (int32_t)(bits - 0x3f3504f3u) >> 23;
  bits -= (uint32_t)e << 23;
  float m;
  memcpy(&m, &bits, sizeof m);
  float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float p = 0x1.c71c72p-4f;   /* 1/9 */
  p = p * z + 0x1.24924ap-3f; /* 1/7 */
  p = p * z + 0x1.99999ap-3f; /* 1/5 */
  p = p * z + 0x1.555556p-2f; /* 1/3 */
  float log_m = 2.0f * s + (2.0f * s) * (z * p);
  return -2.0f * ((float)e * 0x1.62e43p-1f + log_m);
}

/* cos and sin of 2 pi w / 2^32. Quarter turns are taken off exactly; Taylor polynomials of what is
 * left, at most an eighth. */
MT_RNG_FN void mt_circle_f32(uint32_t w, float *cosine, float *sine) {
  uint32_t quarter = (w + 0x20000000u) >> 30;
  int32_t rest = (int32_t)(w - (quarter << 30));  /* -2^29 .. 2^29 */
  float x = (float)(rest >> 5) * 0x1.921fb6p-25f; /* radians: pi/2 / 2^25 */
  float z = x * x;
  float s = 0x1.71de3ap-19f; /* 1/9! */
  s = s * z + -0x1.a01a02p-13f;
  s = s * z + 0x1.111112p-7f;
  s = s * z + -0x1.555556p-3f;
  s = x + x * (z * s);
  float c = 0x1.a01a02p-16f; /* 1/8! */
  c = c * z + -0x1.6c16c2p-10f;
  c = c * z + 0x1.555556p-5f;
  c = c * z + -0.5f;
  c = 1.0f + z * c;
  float a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
  *cosine = (quarter + 1) & 2 ? -a : a;
  *sine = quarter & 2 ? -b : b;
}

/* Two independent normals of two words. */
MT_RNG_FN void mt_normal_f32(uint32_t w0, uint32_t w1, float *x, float *y) {
  float r = sqrtf(mt_minus_2_log_f32(w0)), c, s;
  mt_circle_f32(w1, &c, &s);
  *x = r * c;
  *y = r * s;
}

/* The same in double: two words for the radius, two for the angle. */
MT_RNG_FN double mt_minus_2_log_f64(uint32_t hi, uint32_t lo) {
  uint64_t w = ((uint64_t)hi << 32 | lo) >> 11, bits;
  double u = (double)(int64_t)w * 0x1p-53 + 0x1p-54;
  memcpy(&bits, &u, sizeof bits);
  int64_t e = (int64_t)(bits - 0x3fe6a09e667f3bcdu) >> 52;
  bits -= (uint64_t)e << 52;
  double m;
  memcpy(&m, &bits, sizeof m);
  double s = (m - 1.0) / (m + 1.0), z = s * s, p = 1.0 / 23;
  p = p * z + 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  double log_m = 2.0 * s + (2.0 * s) * (z * p);
  return -2.0 * ((double)e * 0x1.62e42fefa39efp-1 + log_m);
}

MT_RNG_FN void mt_circle_f64(uint32_t hi, uint32_t lo, double *cosine, double *sine) {
  uint64_t w = (uint64_t)hi << 32 | lo, quarter = (w + 0x2000000000000000u) >> 62;
  int64_t rest = (int64_t)(w - (quarter << 62));
  double x = (double)(rest >> 9) * 0x1.921fb54442d18p-53, z = x * x; /* pi/2 / 2^53 */
  double s = -0x1.ae7f3e733b81fp-41;                                 /* -1/15! */
  s = s * z + 0x1.6124613a86d09p-33;
  s = s * z + -0x1.ae64567f544e4p-26;
  s = s * z + 0x1.71de3a556c734p-19;
  s = s * z + -0x1.a01a01a01a01ap-13;
  s = s * z + 0x1.1111111111111p-7;
  s = s * z + -0x1.5555555555555p-3;
  s = x + x * (z * s);
  double c = 0x1.ae7f3e733b81fp-45; /* 1/16! */
  c = c * z + -0x1.93974a8c07c9dp-37;
  c = c * z + 0x1.1eed8eff8d898p-29;
  c = c * z + -0x1.27e4fb7789f5cp-22;
  c = c * z + 0x1.a01a01a01a01ap-16;
  c = c * z + -0x1.6c16c16c16c17p-10;
  c = c * z + 0x1.5555555555555p-5;
  c = c * z + -0.5;
  c = 1.0 + z * c;
  double a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
  *cosine = (quarter + 1) & 2 ? -a : a;
  *sine = quarter & 2 ? -b : b;
}

#endif
