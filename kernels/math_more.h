/* math_more.h - the rarer functions of floats: trigonometry, hyperbolics, powers.
 *
 * The same promises as math.h: straight-line code that becomes vector code, within 2 ULP over the
 * whole range. Most of these compute in double between loading and storing: half as many lanes,
 * but one rounding at the end, no care for overflow, and short code.
 *
 * Exception: sin, cos and tan hold for |x| <= MT_TRIG_LIMIT. A loop hands larger arguments, which
 * need hundreds of bits of pi, to mt_*_far_f32. */
#ifndef MT_MATH_MORE_H
#define MT_MATH_MORE_H

#include "math.h"

#define MT_ROUND_MAGIC_F64 0x1.8p52
#define MT_LOG2E_F64 0x1.71547652b82fep0
#define MT_LN2_F64 0x1.62e42fefa39efp-1
#define MT_PI_F64 0x1.921fb54442d18p1

MT_MATH_FN uint64_t mt_double_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

MT_MATH_FN double mt_bits_double(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* 2^t for |t| < 1000, to 34 bits. */
MT_MATH_FN double mt_exp2_core(double t) {
  double m = t + MT_ROUND_MAGIC_F64;
  double r = t - (m - MT_ROUND_MAGIC_F64);
  double p = 0x1.fe22442d54a62p-17;
  p = p * r + 0x1.446b036d213a4p-13;
  p = p * r + 0x1.5d8a769b7d864p-10;
  p = p * r + 0x1.3b29dc0386d55p-7;
  p = p * r + 0x1.c6b08aace39b1p-5;
  p = p * r + 0x1.ebfbe0a4f8177p-3;
  p = p * r + 0x1.62e42ff117657p-1;
  p = p * r + 0x1.ffffffffab98cp-1;
  return p * mt_bits_double((mt_double_bits(m) << 52) + 0x3ff0000000000000u);
}

/* v = 2^e * m, m in [sqrt(1/2), sqrt(2)], for normal finite v > 0. Returns m. */
MT_MATH_FN double mt_log_split_f64(double v, double *e) {
  uint64_t u = mt_double_bits(v) + (0x3ff0000000000000u - 0x3fe6a09e00000000u);
  *e = mt_bits_double(0x4330000000000000u | (u >> 52)) - (0x1p52 + 1023.0);
  return mt_bits_double((u & 0xfffffffffffffu) + 0x3fe6a09e00000000u);
}

/* log(v), to 45 bits. */
MT_MATH_FN double mt_log_core(double v) {
  double e, m = mt_log_split_f64(v, &e);
  double s = (m - 1.0) / (m + 1.0), u = s * s;
  double p = 0x1.91a97b0d8c4f8p-3;
  p = p * u + 0x1.c61f655dc95c3p-3;
  p = p * u + 0x1.24943cc35b678p-2;
  p = p * u + 0x1.99999620a9931p-2;
  p = p * u + 0x1.5555555676196p-1;
  p = p * u + 0x1.fffffffffff0dp0;
  return p * s + e * MT_LN2_F64;
}

MT_MATH_FN float mt_erfc_f32(float x) {
  double z = mt_abs_f32(x);
  z = z > 10.1 ? 10.1 : z;
  double e = mt_exp2_core(z * z * -MT_LOG2E_F64);
  double r = 1.0 / (z + 3.0), q = (z - 3.0) * r;
  double p = -0x1.5510af168f3d4p-12;
  p = p * q - 0x1.fa8ad296211bbp-12;
  p = p * q + 0x1.93b90f68febeep-9;
  p = p * q - 0x1.418abe598a40fp-10;
  p = p * q - 0x1.b7bde4ebdfda3p-6;
  p = p * q + 0x1.e997578df6c6dp-4;
  p = p * q - 0x1.3deacf9a38a07p-2;
  p = p * q + 0x1.2e3267824fc23p-1;
  p = p * q - 0x1.c44c482e4fb22p-1;
  p = p * q + 0x1.12f21de041462p0;
  p = p * r * e;
  return (float)(x < 0.0f ? 2.0 - p : p);
}

/* ---- trigonometry ---- */

#define MT_TRIG_LIMIT 131072.0f

/* x = n * pi/2 + r; returns r, n in the low bits of *quadrant. Pi/2 is split so that n times the
 * upper part is exact in a double. */
MT_MATH_FN double mt_trig_reduce(float x, uint32_t *quadrant) {
  float t = x * 0x1.45f306p-1f + MT_ROUND_MAGIC;
  double n = t - MT_ROUND_MAGIC;
  *quadrant = mt_float_bits(t);
  return (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
}

MT_MATH_FN float mt_sin_poly_f32(float r, float s) {
  float p = -0x1.990f9p-13f;
  p = p * s + 0x1.1106aep-7f;
  p = p * s - 0x1.555544p-3f;
  return (r * s) * p + r;
}

MT_MATH_FN float mt_cos_poly_f32(float s) {
  float p = 0x1.99d83cp-16f;
  p = p * s - 0x1.6c0c08p-10f;
  p = p * s + 0x1.55554ap-5f;
  return (s * s) * p + (1.0f - 0.5f * s);
}

/* sin(x + k * pi/2) */
MT_MATH_FN float mt_sin_shifted_f32(float x, uint32_t k) {
  uint32_t q;
  float r = (float)mt_trig_reduce(x, &q), s = r * r;
  q += k;
  float y = (q & 1u) ? mt_cos_poly_f32(s) : mt_sin_poly_f32(r, s);
  return mt_bits_float(mt_float_bits(y) ^ ((q & 2u) << 30));
}

MT_MATH_FN float mt_sin_f32(float x) { return x == 0.0f ? x : mt_sin_shifted_f32(x, 0); }
MT_MATH_FN float mt_cos_f32(float x) { return mt_sin_shifted_f32(x, 1); }

MT_MATH_FN float mt_tan_f32(float x) {
  uint32_t q;
  double r = mt_trig_reduce(x, &q), s = r * r;
  double p = 0x1.7a8aa8p-19;
  p = p * s - 0x1.a053fap-13;
  p = p * s + 0x1.11117p-7;
  p = p * s - 0x1.555556p-3;
  double sine = r * s * p + r;
  p = -0x1.35277cp-22;
  p = p * s + 0x1.a06ecep-16;
  p = p * s - 0x1.6c175cp-10;
  p = p * s + 0x1.555556p-5;
  double cosine = s * s * p + (1.0 - 0.5 * s);
  double up = (q & 1u) ? -cosine : sine, down = (q & 1u) ? sine : cosine;
  return x == 0.0f ? x : (float)(up / down);
}

static inline float mt_sin_far_f32(float x) { return (float)sin((double)x); }
static inline float mt_cos_far_f32(float x) { return (float)cos((double)x); }
static inline float mt_tan_far_f32(float x) { return (float)tan((double)x); }

/* atan(a) for 0 <= a <= 1 */
MT_MATH_FN float mt_atan_unit_f32(float a) {
  float s = a * a;
  float p = 0x1.7ea1ap-9f;
  p = p * s - 0x1.0c15c6p-6f;
  p = p * s + 0x1.61ed58p-5f;
  p = p * s - 0x1.35506cp-4f;
  p = p * s + 0x1.b4de8ep-4f;
  p = p * s - 0x1.230a92p-3f;
  p = p * s + 0x1.9978ecp-3f;
  p = p * s - 0x1.5554dcp-2f;
  return (a * s) * p + a;
}

/* pi/2 - p and pi - p, pi being more than a float holds. */
#define MT_HALF_PI_MINUS(p) (0x1.921fb6p0f - ((p) + 0x1.777a5cp-25f))
#define MT_PI_MINUS(p) (0x1.921fb6p1f - ((p) + 0x1.777a5cp-24f))

MT_MATH_FN float mt_atan_f32(float x) {
  float a = mt_abs_f32(x);
  float p = mt_atan_unit_f32(a > 1.0f ? 1.0f / a : a);
  return mt_copysign_f32(a > 1.0f ? MT_HALF_PI_MINUS(p) : p, x);
}

MT_MATH_FN float mt_atan2_f32(float y, float x) {
  float a = mt_abs_f32(y), b = mt_abs_f32(x);
  float up = a > b ? b : a, down = a > b ? a : b;
  float q = down == 0.0f ? 0.0f : up / down;
  q = up == INFINITY ? 1.0f : q;
  float p = mt_atan_unit_f32(q);
  p = a > b ? MT_HALF_PI_MINUS(p) : p;
  p = mt_float_bits(x) >> 31 ? MT_PI_MINUS(p) : p;
  p = mt_copysign_f32(p, y);
  return (x != x) | (y != y) ? x + y : p;
}

/* asin(a) for 0 <= a <= 1, as that of a below 1/2 and of sqrt((1 - a) / 2) above. */
MT_MATH_FN double mt_asin_parts(double a) {
  double s = a > 0.5 ? 0.5 - 0.5 * a : a * a;
  double r = a > 0.5 ? sqrt(s) : a;
  double p = 0x1.59709d5c72539p-5;
  p = p * s + 0x1.8c24a8ac985d5p-6;
  p = p * s + 0x1.747e966b6bfb3p-5;
  p = p * s + 0x1.3301e2366ba4ap-4;
  p = p * s + 0x1.5555c88770d24p-3;
  return r * s * p + r;
}

MT_MATH_FN float mt_asin_f32(float x) {
  float a = mt_abs_f32(x);
  double p = mt_asin_parts(a);
  return mt_copysign_f32((float)(a > 0.5f ? MT_PI_F64 / 2 - 2.0 * p : p), x);
}

MT_MATH_FN float mt_acos_f32(float x) {
  float a = mt_abs_f32(x);
  double p = mt_asin_parts(a);
  double far = x < 0.0f ? MT_PI_F64 - 2.0 * p : 2.0 * p;
  return (float)(a > 0.5f ? far : MT_PI_F64 / 2 - (x < 0.0f ? -p : p));
}

/* ---- hyperbolics ---- */

MT_MATH_FN float mt_sinh_f32(float x) {
  float a = mt_abs_f32(x), s = x * x;
  double c = a > 90.0f ? 90.0f : a;
  double e = mt_exp2_core(c * MT_LOG2E_F64);
  float p = 0x1.769662p-19f;
  p = p * s + 0x1.a01c5ep-13f;
  p = p * s + 0x1.1110e8p-7f;
  p = p * s + 0x1.555556p-3f;
  return mt_copysign_f32(a < 1.0f ? (a * s) * p + a : (float)(0.5 * (e - 1.0 / e)), x);
}

MT_MATH_FN float mt_cosh_f32(float x) {
  float a = mt_abs_f32(x);
  double c = a > 90.0f ? 90.0f : a;
  double e = mt_exp2_core(c * MT_LOG2E_F64);
  return (float)(0.5 * (e + 1.0 / e));
}

MT_MATH_FN float mt_asinh_f32(float x) {
  float a = mt_abs_f32(x);
  double d = a < INFINITY ? a : 1.0f;
  float far = (float)mt_log_core(d + sqrt(d * d + 1.0));
  float near = a - a * a * a * 0x1.555556p-3f;
  far = a < INFINITY ? far : a;
  return mt_copysign_f32(a < 0x1p-12f ? near : far, x);
}

MT_MATH_FN float mt_acosh_f32(float x) {
  double d = (x >= 1.0f) & (x < INFINITY) ? x : 1.0f;
  float y = (float)mt_log_core(d + sqrt(d * d - 1.0));
  y = x < INFINITY ? y : x;
  return x >= 1.0f ? y : NAN;
}

MT_MATH_FN float mt_atanh_f32(float x) {
  float a = mt_abs_f32(x);
  double d = a < 1.0f ? a : 0.0f;
  float far = (float)(0.5 * mt_log_core((1.0 + d) / (1.0 - d)));
  float near = a + a * a * a * 0x1.555556p-2f;
  float y = a < 0x1p-12f ? near : far;
  y = a < 1.0f ? y : (a == 1.0f ? INFINITY : NAN);
  return mt_copysign_f32(y, x);
}

/* ---- powers ---- */

MT_MATH_FN float mt_hypot_f32(float x, float y) {
  float a = mt_abs_f32(x), b = mt_abs_f32(y);
  float r = (float)sqrt((double)x * x + (double)y * y);
  return (a == INFINITY) | (b == INFINITY) ? INFINITY : r;
}

/* |x|^y for finite |x| > 0 */
MT_MATH_FN float mt_pow_core_f32(float a, float y) {
  double e, m = mt_log_split_f64((double)a, &e);
  double s = (m - 1.0) / (m + 1.0), u = s * s;
  double p = 0x1.21bbdbf0be1e2p-2;
  p = p * u + 0x1.47949c6f3c7cep-2;
  p = p * u + 0x1.a61a330bf723p-2;
  p = p * u + 0x1.2776c28e394edp-1;
  p = p * u + 0x1.ec709dc540761p-1;
  p = p * u + 0x1.71547652b824fp1;
  double t = y * (p * s + e); /* log2 of the result */
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  return (float)mt_exp2_core(t);
}

MT_MATH_FN float mt_pow_f32(float x, float y) {
  float a = mt_abs_f32(x);
  int edge = (a == 0.0f) | (a == INFINITY);
  float r = mt_pow_core_f32(edge | (a != a) ? 1.0f : a, y);
  float at_edge = (a == 0.0f) == (y > 0.0f) ? 0.0f : INFINITY;
  r = edge ? at_edge : r;
  r = a == 1.0f ? 1.0f : r;
  float half = 0.5f * y;
  int whole = truncf(y) == y, odd = whole & (truncf(half) != half);
  uint32_t flip = mt_float_bits(x) & (odd ? 0x80000000u : 0u);
  r = mt_bits_float(mt_float_bits(r) ^ flip);
  r = (x < 0.0f) & (a < INFINITY) & !whole ? NAN : r;
  r = (x != x) | (y != y) ? x + y : r;
  return (x == 1.0f) | (y == 0.0f) ? 1.0f : r;
}

#endif
