/* ew_ops.h - what M(f) of elementwise.def means on the CPU, beside math.h.
 *
 * mt_NAME_f32, _f64, _i64 and _c64. The real ones come in pairs from ew_real.h. Integers wrap and
 * nothing traps: division by zero gives 0 here (the driver has raised it before). */
#ifndef MT_CPU_EW_OPS_H
#define MT_CPU_EW_OPS_H

#include <complex.h>

#include "../math_more.h"

/* <complex.h> takes two names that elementwise.def uses. */
#undef I
#undef complex
typedef float _Complex mt_complex;

/* ---- f32 and f64 ---- */

#define REAL float
#define R(name) mt_##name##_f32
#define LIBM(name) name##f
#include "ew_real.h"
#undef REAL
#undef R
#undef LIBM

static inline double mt_copysign_f64(double x, double s) { return copysign(x, s); }
static inline double mt_abs_f64(double x) { return fabs(x); }
#define REAL double
#define R(name) mt_##name##_f64
#define LIBM(name) name
#include "ew_real.h"
#undef REAL
#undef R
#undef LIBM

/* The quotient of two floats is exact enough in double to be truncated while it is below 2^26, and
 * quotient times divisor is exact then. Otherwise, and for y of 0, the library's long division. */
static inline float mt_fmod_f32(float x, float y) {
  double q = trunc((double)x / (double)y);
  if (q == 0.0) return x;
  if (fabs(q) < 0x1p26) return mt_copysign_f32((float)(x - q * y), x);
  return (float)fmod((double)x, (double)y);
}
static inline double mt_mad_f64(double a, double b, double c) {
#ifdef __FMA__
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}
static inline double mt_fmod_f64(double x, double y) { return fmod(x, y); }

/* The result has the sign of y, a zero as well: the rule of Lua and Python. */
static inline float mt_remainder_f32(float x, float y) {
  float r = mt_fmod_f32(x, y);
  if (r == 0.0f) return mt_copysign_f32(0.0f, y);
  return (r < 0.0f) != (y < 0.0f) ? r + y : r;
}
static inline double mt_remainder_f64(double x, double y) {
  double r = fmod(x, y);
  if (r == 0.0) return copysign(0.0, y);
  return (r < 0.0) != (y < 0.0) ? r + y : r;
}

/* The floor of the exact quotient: floor(x / y) is wrong where x / y rounds up to an integer. */
static inline double mt_floor_divide_f64(double x, double y) {
  if (y == 0.0) return x / y;
  double m = fmod(x, y), q = (x - m) / y;
  if (m != 0.0 && (y < 0.0) != (m < 0.0)) q -= 1.0;
  if (q == 0.0) return copysign(0.0, x / y);
  double f = floor(q);
  return q - f > 0.5 ? f + 1.0 : f;
}
static inline float mt_floor_divide_f32(float x, float y) {
  if (y == 0.0f) return x / y;
  float m = mt_fmod_f32(x, y), q = (x - m) / y;
  if (m != 0.0f && (y < 0.0f) != (m < 0.0f)) q -= 1.0f;
  if (q == 0.0f) return mt_copysign_f32(0.0f, x / y);
  float f = floorf(q);
  return q - f > 0.5f ? f + 1.0f : f;
}

/* lgamma writes a global; lgamma_r does not. */
static inline double mt_lgamma_f64(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
static inline float mt_lgamma_f32(float x) { return (float)mt_lgamma_f64((double)x); }

/* The inverse of erf: a first guess of three digits, then two steps of Halley's method. From 0.5 on
 * the equation is written with erfc, which keeps the digits of 1 - |x|. */
static inline double mt_erfinv_f64(double x) {
  double a = fabs(x);
  if (!(a < 1.0)) return a == 1.0 ? copysign((double)INFINITY, x) : (double)NAN;
  double w = log((1.0 - a) * (1.0 + a)), t = 4.3307467508 + 0.5 * w; /* 2 / (0.147 pi) */
  double y = sqrt(fmax(0.0, sqrt(t * t - w * (1.0 / 0.147)) - t));
  for (int i = 0; i < 2; i++) {
    double f = a < 0.5 ? erf(y) - a : (1.0 - a) - erfc(y);
    double e = f / (1.12837916709551257390 * exp(-y * y));
    y -= e / (1.0 + y * e);
  }
  return copysign(y, x);
}
static inline float mt_erfinv_f32(float x) { return (float)mt_erfinv_f64((double)x); }

/* The derivative of lgamma: reflected to x > 0, raised to x >= 10, then the asymptotic series. */
static inline double mt_digamma_f64(double x) {
  double sum = 0.0;
  if (x == 0.0) return copysign((double)INFINITY, -x);
  if (x < 0.0) {
    double f = x - floor(x);
    if (f == 0.0) return (double)NAN;
    sum = -MT_PI_F64 / tan(MT_PI_F64 * f);
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) sum -= 1.0 / x;
  double z = 1.0 / (x * x);
  double p = 1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760)));
  return sum + log(x) - 0.5 / x - z * (1.0 / 12 - z * (1.0 / 120 - z * p));
}
static inline float mt_digamma_f32(float x) { return (float)mt_digamma_f64((double)x); }

#define MT_LIBM_F64(name) \
  static inline double mt_##name##_f64(double x) { return name(x); }
MT_LIBM_F64(exp)
MT_LIBM_F64(exp2)
MT_LIBM_F64(expm1)
MT_LIBM_F64(log)
MT_LIBM_F64(log2)
MT_LIBM_F64(log10)
MT_LIBM_F64(log1p)
MT_LIBM_F64(sin)
MT_LIBM_F64(cos)
MT_LIBM_F64(tan)
MT_LIBM_F64(asin)
MT_LIBM_F64(acos)
MT_LIBM_F64(atan)
MT_LIBM_F64(sinh)
MT_LIBM_F64(cosh)
MT_LIBM_F64(tanh)
MT_LIBM_F64(asinh)
MT_LIBM_F64(acosh)
MT_LIBM_F64(atanh)
MT_LIBM_F64(erf)
MT_LIBM_F64(erfc)
#undef MT_LIBM_F64
static inline double mt_pow_f64(double x, double y) { return pow(x, y); }
static inline double mt_atan2_f64(double y, double x) { return atan2(y, x); }
static inline double mt_hypot_f64(double x, double y) { return hypot(x, y); }
static inline double mt_sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }
static inline double mt_log1p_exp_f64(double a) { return log1p(exp(-a)); }
static inline double mt_gelu_f64(double x) {
  return x < -40.0 ? -0.0 : 0.5 * x * erfc(x * -0.70710678118654752440);
}
static inline double mt_gelu_slope_f64(double x) {
  double d = exp(-0.5 * x * x) * 0.39894228040143267794;
  return 0.5 * erfc(x * -0.70710678118654752440) + (d == 0.0 ? 0.0 : x * d);
}

/* ---- i64 ---- */

static inline int64_t mt_abs_i64(int64_t x) { return x < 0 ? -x : x; }
static inline int64_t mt_sgn_i64(int64_t x) { return (x > 0) - (x < 0); }
static inline int64_t mt_floor_i64(int64_t x) { return x; }
static inline int64_t mt_ceil_i64(int64_t x) { return x; }
static inline int64_t mt_trunc_i64(int64_t x) { return x; }
static inline int64_t mt_round_i64(int64_t x) { return x; }
static inline int64_t mt_conj_i64(int64_t x) { return x; }
static inline int64_t mt_real_i64(int64_t x) { return x; }
static inline int64_t mt_imag_i64(int64_t x) { return (void)x, 0; }
static inline int mt_isnan_i64(int64_t x) { return (void)x, 0; }
static inline int mt_isinf_i64(int64_t x) { return (void)x, 0; }
static inline int mt_isfinite_i64(int64_t x) { return (void)x, 1; }
static inline int mt_isreal_i64(int64_t x) { return (void)x, 1; }
static inline int mt_signbit_i64(int64_t x) { return x < 0; }
static inline int mt_within_i64(int64_t x, int64_t y, int64_t rtol, int64_t atol) {
  return mt_abs_i64(x - y) <= atol + rtol * mt_abs_i64(y);
}
static inline int64_t mt_clamp_i64(int64_t x, int64_t lo, int64_t hi) {
  int64_t r = x < lo ? lo : x;
  return r > hi ? hi : r;
}

/* Dividing the smallest integer by -1 wraps like everything else. */
static inline int64_t mt_trunc_divide_i64(int64_t x, int64_t y) {
  if (y == 0) return 0;
  return y == -1 ? -x : x / y;
}
static inline int64_t mt_fmod_i64(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
static inline int64_t mt_remainder_i64(int64_t x, int64_t y) {
  int64_t r = mt_fmod_i64(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static inline int64_t mt_floor_divide_i64(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return -x;
  int64_t q = x / y;
  return q * y != x && (x < 0) != (y < 0) ? q - 1 : q;
}

/* A negative exponent leaves 1, -1 or 0. */
static inline int64_t mt_pow_i64(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0;
  uint64_t r = 1, b = (uint64_t)x;
  for (uint64_t e = (uint64_t)y; e; e >>= 1, b *= b)
    if (e & 1) r *= b;
  return (int64_t)r;
}

/* Counts outside of 0..63 shift everything out. */
static inline int64_t mt_shift_left_i64(int64_t x, int64_t y) {
  return y < 0 || y > 63 ? 0 : (int64_t)((uint64_t)x << y);
}
static inline int64_t mt_shift_right_i64(int64_t x, int64_t y) {
  return x >> (y < 0 || y > 63 ? 63 : y);
}

static inline int64_t mt_gcd_i64(int64_t x, int64_t y) {
  uint64_t a = (uint64_t)(x < 0 ? -x : x), b = (uint64_t)(y < 0 ? -y : y);
  while (b) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return (int64_t)a;
}
static inline int64_t mt_lcm_i64(int64_t x, int64_t y) {
  int64_t g = mt_gcd_i64(x, y);
  return g == 0 ? 0 : mt_abs_i64(mt_trunc_divide_i64(x, g) * y);
}

/* ---- c64 ---- */

static inline mt_complex mt_complex_parts(float re, float im) {
  union {
    float part[2];
    mt_complex z;
  } u = {{re, im}};
  return u.z;
}
static inline int mt_isnan_c64(mt_complex x) {
  return mt_isnan_f32(crealf(x)) | mt_isnan_f32(cimagf(x));
}
static inline int mt_isinf_c64(mt_complex x) {
  return mt_isinf_f32(crealf(x)) | mt_isinf_f32(cimagf(x));
}
static inline int mt_isfinite_c64(mt_complex x) {
  return mt_isfinite_f32(crealf(x)) & mt_isfinite_f32(cimagf(x));
}
static inline int mt_isreal_c64(mt_complex x) { return cimagf(x) == 0.0f; }
static inline mt_complex mt_abs_c64(mt_complex x) { return mt_hypot_f32(crealf(x), cimagf(x)); }
static inline mt_complex mt_sgn_c64(mt_complex x) {
  float a = mt_hypot_f32(crealf(x), cimagf(x));
  return a == 0.0f ? 0.0f : mt_complex_parts(crealf(x) / a, cimagf(x) / a);
}
static inline mt_complex mt_conj_c64(mt_complex x) { return conjf(x); }
static inline mt_complex mt_real_c64(mt_complex x) { return crealf(x); }
static inline mt_complex mt_imag_c64(mt_complex x) { return cimagf(x); }
static inline mt_complex mt_angle_c64(mt_complex x) { return mt_atan2_f32(cimagf(x), crealf(x)); }
static inline mt_complex mt_complex_c64(mt_complex x, mt_complex y) {
  return mt_complex_parts(crealf(x), crealf(y));
}
static inline mt_complex mt_polar_c64(mt_complex x, mt_complex y) {
  float r = crealf(x), a = crealf(y);
  return mt_complex_parts(r * cosf(a), r * sinf(a));
}
static inline mt_complex mt_lerp_c64(mt_complex x, mt_complex y, mt_complex w) {
  return x + w * (y - x);
}
static inline int mt_within_c64(mt_complex x, mt_complex y, float rtol, float atol) {
  return cabsf(x - y) <= atol + rtol * cabsf(y);
}
static inline mt_complex mt_sigmoid_c64(mt_complex x) { return 1 / (1 + cexpf(-x)); }
static inline mt_complex mt_exp2_c64(mt_complex x) { return cexpf(0.69314718056f * x); }
static inline mt_complex mt_log2_c64(mt_complex x) { return clogf(x) * 1.44269504089f; }
static inline mt_complex mt_log10_c64(mt_complex x) { return clogf(x) * 0.43429448190f; }
static inline mt_complex mt_pow_c64(mt_complex x, mt_complex y) {
  if (y == 0) return 1;
  return x == 0 ? (crealf(y) > 0 ? 0.0f : NAN) : cpowf(x, y);
}
#define MT_LIBM_C64(name) \
  static inline mt_complex mt_##name##_c64(mt_complex x) { return c##name##f(x); }
MT_LIBM_C64(exp)
MT_LIBM_C64(log)
MT_LIBM_C64(sqrt)
MT_LIBM_C64(sin)
MT_LIBM_C64(cos)
MT_LIBM_C64(tan)
MT_LIBM_C64(asin)
MT_LIBM_C64(acos)
MT_LIBM_C64(atan)
MT_LIBM_C64(sinh)
MT_LIBM_C64(cosh)
MT_LIBM_C64(tanh)
MT_LIBM_C64(asinh)
MT_LIBM_C64(acosh)
MT_LIBM_C64(atanh)
#undef MT_LIBM_C64

#endif
