/* math.h - elementary functions of one float, for loops that the compiler turns into vector code.
 *
 * Every function is straight-line code: no branches, no tables, no library calls. Inlined into a
 * loop at -O3 it becomes vector code on every instruction set, and an element's result depends on
 * nothing but the element. Each is within 2 ULP of the true value over the whole range, denormals,
 * infinities, NaN and -0 included (tests/c/test_math.c sweeps it); math_more.h has the rarer ones.
 *
 * Two idioms carry most of it. Adding 1.5*2^23 rounds a float to an integer and leaves that
 * integer in the low bits, which spares conversions. A comparison is written so that a NaN takes
 * the branch that keeps it. Products that must be exact have operands with enough trailing zeros,
 * so that it does not matter whether the compiler fuses them with the addition that follows. The
 * polynomials are minimax fits made for the ranges named, with coefficients rounded one by one. */
#ifndef MT_MATH_H
#define MT_MATH_H

#include <math.h>

#include "half.h"

#define MT_MATH_FN static inline __attribute__((always_inline))

#define MT_ROUND_MAGIC 0x1.8p23f
#define MT_LOG2E 0x1.715476p0f
#define MT_LN2_HI 0x1.62e4p-1f /* 15 bits: products with an exponent are exact */
#define MT_LN2_LO 0x1.7f7d1cp-20f

/* a * b + c, for sums of two products: which of them the compiler fuses could differ between the
 * body of a loop and its end. */
MT_MATH_FN float mt_mad_f32(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/* Where arguments are clamped. The compiler must not see the numbers (math.c has them): it would
 * compute the function of a bound beforehand and trade one minimum for three selections. */
struct mt_math_bounds {
  float exp_max, exp_min, exp2_max, exp2_min, expm1_min, sigmoid_max, sigmoid_min, tanh_max;
  float tail_max;
};
extern const struct mt_math_bounds mt_math_bounds;

/* A NaN stays. */
MT_MATH_FN float mt_at_most_f32(float x, float bound) { return bound < x ? bound : x; }
MT_MATH_FN float mt_at_least_f32(float x, float bound) { return bound > x ? bound : x; }

MT_MATH_FN float mt_abs_f32(float x) { return mt_bits_float(mt_float_bits(x) & 0x7fffffffu); }

/* |x| with the sign bit of s. */
MT_MATH_FN float mt_copysign_f32(float x, float s) {
  return mt_bits_float((mt_float_bits(x) & 0x7fffffffu) | (mt_float_bits(s) & 0x80000000u));
}

/* ---- exponentials ---- */

/* p * 2^n, where `magic` is MT_ROUND_MAGIC + n and |n| <= 250. Two factors, so that results in the
 * denormal range are rounded once and those above 2^127 reach infinity only when they must. */
MT_MATH_FN float mt_scale_f32(float p, float magic) {
  uint32_t bits = mt_float_bits(magic);
  int32_t half = (int32_t)(bits << 10) >> 11; /* n / 2 */
  float s1 = mt_bits_float(((uint32_t)half << 23) + 0x3f800000u);
  float s2 = mt_bits_float(((bits - (uint32_t)half) << 23) + 0x3f800000u);
  return p * s1 * s2;
}

/* exp(r) for |r| <= ln(2)/2 and a little more. */
MT_MATH_FN float mt_exp_small_f32(float r) {
  float s = r * r;
  float low = 0x1.55548cp-3f * r + 0x1.fffffcp-2f;
  float high = 0x1.123d5cp-7f * r + 0x1.55585ap-5f;
  high = 0x1.6ab6bap-10f * s + high;
  return s * (high * s + low) + r + 1.0f;
}

/* x = n * ln(2) + r for |x| < 170. Returns r; *magic = MT_ROUND_MAGIC + n. */
MT_MATH_FN float mt_exp_reduce_f32(float x, float *magic) {
  float t = x * MT_LOG2E + MT_ROUND_MAGIC;
  float n = t - MT_ROUND_MAGIC;
  float r = x - n * MT_LN2_HI;
  *magic = t;
  return r - n * MT_LN2_LO;
}

MT_MATH_FN float mt_exp_f32(float x) {
  float c = mt_at_most_f32(x, mt_math_bounds.exp_max), magic;
  float r = mt_exp_reduce_f32(mt_at_least_f32(c, mt_math_bounds.exp_min), &magic);
  return mt_scale_f32(mt_exp_small_f32(r), magic);
}

MT_MATH_FN float mt_exp2_f32(float x) {
  float c = mt_at_most_f32(x, mt_math_bounds.exp2_max);
  c = mt_at_least_f32(c, mt_math_bounds.exp2_min);
  float t = c + MT_ROUND_MAGIC;
  float r = c - (t - MT_ROUND_MAGIC);
  float p = 0x1.df977p-17f;
  p = p * r + 0x1.440a6cp-13f;
  p = p * r + 0x1.5da6p-10f;
  p = p * r + 0x1.3b2a6p-7f;
  p = p * r + 0x1.c6b06ep-5f;
  p = p * r + 0x1.ebfbep-3f;
  p = p * r + 0x1.62e43p-1f;
  return mt_scale_f32(p * r + 1.0f, t);
}

/* expm1(r) for |r| <= ln(2)/2, good relative to the result. */
MT_MATH_FN float mt_expm1_small_f32(float r) {
  float s = r * r;
  float p0 = 0x1.55552cp-3f * r + 0.5f;
  float p1 = 0x1.1155a6p-7f * r + 0x1.555502p-5f;
  float p2 = 0x1.3b2b94p-13f * r + 0x1.6d2a86p-10f;
  p1 = p2 * s + p1;
  return s * (p1 * s + p0) + r;
}

/* (exp(x) - 1) / 2 for -26 <= x <= 89: half, because 2^128 is not a float. */
MT_MATH_FN float mt_expm1_half_f32(float x) {
  float t, r = mt_exp_reduce_f32(x, &t);
  float half = mt_bits_float((mt_float_bits(t) << 23) + 0x3f000000u); /* 2^n / 2 */
  return half * mt_expm1_small_f32(r) + (half - 0.5f);
}

MT_MATH_FN float mt_expm1_f32(float x) {
  float c = mt_at_most_f32(x, mt_math_bounds.exp_max);
  c = mt_at_least_f32(c, mt_math_bounds.expm1_min);
  return mt_copysign_f32(2.0f * mt_expm1_half_f32(c), x);
}

MT_MATH_FN float mt_tanh_f32(float x) {
  float a = mt_abs_f32(x), s = x * x;
  float c = mt_at_most_f32(a, mt_math_bounds.tanh_max);
  float h = mt_expm1_half_f32(2.0f * c);
  float p = -0x1.9c9368p-5f;
  p = p * s + 0x1.10afe8p-3f;
  p = p * s - 0x1.55549ep-2f;
  return mt_copysign_f32(a < 0.3f ? (a * s) * p + a : h / (h + 1.0f), x);
}

/* 1 / (1 + exp(-x)). The sum is formed as (1 + 2^n) + 2^n * expm1(r), which rounds once, and in
 * units of 2^24, so that it does not overflow before the result underflows. `lost` is what the
 * inner sum rounds away, zero but for n near 24. */
MT_MATH_FN float mt_sigmoid_f32(float x) {
  float c = mt_at_most_f32(-x, mt_math_bounds.sigmoid_max), t;
  float r = mt_exp_reduce_f32(mt_at_least_f32(c, mt_math_bounds.sigmoid_min), &t);
  float s = mt_bits_float((mt_float_bits(t) << 23) + 0x33800000u); /* 2^(n - 24) */
  float sum = s + 0x1p-24f, lost = 0x1p-24f - (sum - s);
  return 0x1p-24f / ((s * mt_expm1_small_f32(r) + lost) + sum);
}

/* ---- logarithms ---- */

/* x = 2^e * (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1], for finite x > 0. Returns f. */
MT_MATH_FN float mt_log_split_f32(float x, float *e) {
  int tiny = x < 0x1p-126f;
  uint32_t u = mt_float_bits(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
  *e = (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f);
  return mt_bits_float((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
}

/* log(1 + f) - f for such an f. */
MT_MATH_FN float mt_log1p_rest_f32(float f) {
  float s = f * f, q = s * s;
  float p0 = -0x1.000024p-2f * f + 0x1.555548p-2f;
  float p1 = -0x1.55506cp-3f * f + 0x1.99a478p-3f;
  float p2 = -0x1.fd95cp-4f * f + 0x1.2335f6p-3f;
  float p3 = -0x1.d6f15p-4f * f + 0x1.e8395cp-4f;
  p2 = 0x1.09a4ccp-4f * q + (p3 * s + p2);
  float p = p2 * q + (p1 * s + p0);
  return (f * s) * p - 0.5f * s;
}

/* What a logarithm gives outside of (0, infinity): y is its value inside. */
MT_MATH_FN float mt_log_edges_f32(float x, float y) {
  float r = x < INFINITY ? y : x;
  return x > 0.0f ? r : (x == 0.0f ? -INFINITY : NAN);
}

MT_MATH_FN float mt_log_f32(float x) {
  float e, f = mt_log_split_f32(x, &e);
  float y = mt_log1p_rest_f32(f) + e * MT_LN2_LO;
  return mt_log_edges_f32(x, (f + y) + e * MT_LN2_HI);
}

MT_MATH_FN float mt_log2_f32(float x) {
  float e, f = mt_log_split_f32(x, &e);
  float t = mt_log1p_rest_f32(f);
  float y = mt_mad_f32(t, 0x1.c551d94p-2f, f * 0x1.c551d94p-2f); /* log2(e) - 1 */
  return mt_log_edges_f32(x, ((y + t) + f) + e);
}

MT_MATH_FN float mt_log10_f32(float x) {
  float e, f = mt_log_split_f32(x, &e);
  float t = mt_log1p_rest_f32(f);
  float y = mt_mad_f32(e, 0x1.04d42p-12f, f * 0x1.6f62a4p-11f); /* low parts of log10(2), (e) */
  y = y + t * 0x1.bcb7b2p-2f;
  return mt_log_edges_f32(x, (y + f * 0x1.bcp-2f) + e * 0x1.34p-2f);
}

MT_MATH_FN float mt_log1p_f32(float x) {
  uint32_t bits = mt_float_bits(x);
  int32_t e = (int32_t)(mt_float_bits(1.0f + x) - 0x3f3504f3u) >> 23;
  /* x * 2^-e by its exponent, and 2^-e - 1: their sum is f, rounded once. */
  float xs = mt_bits_float(bits - ((uint32_t)e << 23));
  float s = mt_bits_float((uint32_t)(127 - (e > 127 ? 127 : e)) << 23);
  float f = xs + (s - 1.0f), n = (float)e;
  float y = (f + (mt_log1p_rest_f32(f) + n * MT_LN2_LO)) + n * MT_LN2_HI;
  y = x < INFINITY ? mt_copysign_f32(y, x) : x;
  return x > -1.0f ? y : (x == -1.0f ? -INFINITY : NAN);
}

/* log(1 + exp(-a)) for a >= 0, what log-sum-exp adds to the larger of two: with u = exp(-a) it is
 * 2 atanh(u / (2 + u)), which is shorter than a logarithm. */
MT_MATH_FN float mt_log1p_exp_f32(float a) {
  float magic, c = mt_at_most_f32(a, mt_math_bounds.sigmoid_max);
  float r = mt_exp_reduce_f32(-c, &magic);
  float u = mt_scale_f32(mt_exp_small_f32(r), magic);
  float t = u / (2.0f + u), s = t * t;
  float p0 = 0x1.99d1cep-2f * s + 0x1.555502p-1f;
  float p1 = 0x1.1ecbcep-2f * s + 0x1.1ec002p-2f;
  return (t * s) * (p1 * (s * s) + p0) + 2.0f * t;
}

/* ---- the error function and the normal distribution ---- */

/* x*x = high + low, high exact or nearest. */
MT_MATH_FN float mt_square_parts_f32(float x, float *low) {
#ifdef __FMA__
  float high = x * x;
  *low = __builtin_fmaf(x, x, -high);
#else
  float h = mt_bits_float(mt_float_bits(x) & 0xfffff000u);
  float high = h * h;
  *low = (x - h) * (x + h);
#endif
  return high;
}

/* erfc(a / sqrt(2)) / 2, the upper tail of the normal distribution, for 0.78 <= a <= 15 and with
 * half the digits from 0, as tail * 2^n; exp(-a^2 / 2) = *density * 2^n. The map to q makes what
 * is left beside the exponential smooth over the whole range. */
MT_MATH_FN float mt_normal_tail_f32(float a, float *density, float *magic) {
  float low, high = mt_square_parts_f32(a, &low);
  float e = mt_exp_small_f32(mt_exp_reduce_f32(-0.5f * high, magic) - 0.5f * low);
  float r = 1.0f / (a + 3.53125f), q = (a - 3.53125f) * r;
  float s = q * q, s2 = s * s;
  float p0 = -0x1.231b36p-1f * q + 0x1.7d8ba6p-1f;
  float p1 = -0x1.ed805cp-4f * q + 0x1.47fd2ap-2f;
  float p2 = 0x1.88d552p-8f * q + 0x1.4337p-6f;
  float p3 = -0x1.33068ap-12f * q - 0x1.b7f418p-9f;
  p2 = 0x1.bc2afep-12f * s2 + (p3 * s + p2);
  float p = p2 * s2 + (p1 * s + p0);
  *density = e;
  return e * (p * r);
}

/* (normal_cdf(x) - 1/2) / x for |x| < 0.82, of s = x^2. */
MT_MATH_FN float mt_normal_center_f32(float s) {
  float p = 0x1.9acf12p-14f;
  p = p * s - 0x1.33fa62p-10f;
  p = p * s + 0x1.46af1ap-7f;
  p = p * s - 0x1.1057aep-4f;
  return p * s + 0x1.988452p-2f;
}

/* x * normal_cdf(x): within 2 ULP above -0.8; below, where erf-based formulas lose all digits,
 * within 5. */
MT_MATH_FN float mt_gelu_f32(float x) {
  float e, magic, a = mt_abs_f32(x);
  float c = mt_at_most_f32(a, mt_math_bounds.tail_max);
  float q = c * mt_normal_tail_f32(c, &e, &magic);
  float t = mt_scale_f32(q, magic);
  float far = x < 0.0f ? -t : x - t;
  float near = x * (x * mt_normal_center_f32(x * x) + 0.5f);
  return a < 0.8f ? near : far;
}

/* Its derivative, normal_cdf(x) + x * normal_density(x). */
MT_MATH_FN float mt_gelu_slope_f32(float x) {
  float e, magic, a = mt_abs_f32(x);
  float c = mt_at_most_f32(a, mt_math_bounds.tail_max);
  float q = mt_normal_tail_f32(c, &e, &magic);
  float d = e * 0x1.988454p-2f; /* 1 / sqrt(2 pi) */
  float t = mt_scale_f32(q - c * d, magic);
  float far = x < 0.0f ? t : 1.0f - t;
  float near = x * (mt_normal_center_f32(x * x) + mt_scale_f32(d, magic)) + 0.5f;
  return a < 0.8f ? near : far;
}

/* Beyond 0.9, 1 - erfc(z); the tail is small there, so that its last digits do not count. */
MT_MATH_FN float mt_erf_f32(float x) {
  float e, magic, z = mt_abs_f32(x);
  float a = z * 0x1.6a09e6p0f;
  a = mt_at_most_f32(a, mt_math_bounds.tail_max);
  float tail = 2.0f * mt_normal_tail_f32(a, &e, &magic);
  float far = 1.0f - mt_scale_f32(tail, magic);
  float s = x * x;
  float q = 0x1.4d2994p-14f;
  q = q * s - 0x1.a583eep-11f;
  q = q * s + 0x1.543f2cp-8f;
  q = q * s - 0x1.b80062p-6f;
  q = q * s + 0x1.ce2d6p-4f;
  q = q * s - 0x1.81274p-2f;
  q = q * s + 0x1.06eba8p-3f;
  return mt_copysign_f32(z < 0.9f ? z * q + z : far, x);
}

#endif
