/* ew_real.h - the functions of ew_ops.h that read the same for float and double.
 *
 * Included once for each by ew_ops.h, with REAL the type, R(name) the function's name and
 * LIBM(name) that of the C library. No include guard. */

static inline REAL R(sqrt)(REAL x) { return LIBM(sqrt)(x); }
static inline REAL R(floor)(REAL x) { return LIBM(floor)(x); }
static inline REAL R(ceil)(REAL x) { return LIBM(ceil)(x); }
static inline REAL R(trunc)(REAL x) { return LIBM(trunc)(x); }
static inline REAL R(round)(REAL x) { return LIBM(rint)(x); } /* halves to even */
static inline REAL R(nextafter)(REAL x, REAL y) { return LIBM(nextafter)(x, y); }
static inline REAL R(inf)(void) { return (REAL)INFINITY; }
static inline REAL R(conj)(REAL x) { return x; }
static inline REAL R(real)(REAL x) { return x; }
static inline REAL R(imag)(REAL x) { return (void)x, 0; }
static inline int R(isnan)(REAL x) { return x != x; }
static inline int R(isfinite)(REAL x) { return x - x == 0; }
static inline int R(isinf)(REAL x) { return (x == (REAL)INFINITY) | (x == -(REAL)INFINITY); }
static inline int R(isreal)(REAL x) { return (void)x, 1; }
static inline int R(signbit)(REAL x) { return R(copysign)(1, x) < 0; }
static inline REAL R(sgn)(REAL x) { return (REAL)((x > 0) - (x < 0)); }
static inline REAL R(maximum)(REAL x, REAL y) { return x > y ? x : (x != x ? x : y); }
static inline REAL R(angle)(REAL x) {
  return x != x ? x : (x < 0 ? (REAL)3.14159265358979323846 : 0);
}
static inline REAL R(trunc_divide)(REAL x, REAL y) { return LIBM(trunc)(x / y); }

/* Any NaN among the three gives NaN. */
static inline REAL R(clamp)(REAL x, REAL lo, REAL hi) {
  REAL r = x < lo ? lo : x;
  r = r > hi ? hi : r;
  return lo != lo ? lo : (hi != hi ? hi : r);
}

/* From the nearer end, so that a weight of 1 gives y exactly. */
static inline REAL R(lerp)(REAL x, REAL y, REAL w) {
  REAL d = y - x;
  return w < (REAL)0.5 ? x + w * d : y - d * (1 - w);
}

static inline int R(within)(REAL x, REAL y, REAL rtol, REAL atol) {
  return LIBM(fabs)(x - y) <= atol + rtol * LIBM(fabs)(y);
}

/* Derivatives, given s, the sigmoid in the function. */
static inline REAL R(silu_slope)(REAL x, REAL s) { return s * (1 + x * (1 - s)); }
static inline REAL R(gelu_tanh_slope)(REAL x, REAL s) {
  REAL u = (REAL)1.5957691216057307118 * (1 + (REAL)0.134145 * x * x);
  return s + x * s * (1 - s) * u;
}
