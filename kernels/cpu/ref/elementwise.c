/* elementwise.c - the formulas of elementwise.def one element at a time, in double.
 *
 * Floats are computed in double with the C library's functions, so nothing of math.h takes part;
 * parameters are rounded to the compute type first, as the loops do. Integers are exact and wrap.
 * Complex numbers use the same functions as the loops: here only their driver is on trial. */
#include <math.h>

#include "../ew.h"
#include "../ew_ops.h"
#include "ref.h"

#define NAME(name, suffix) MT_CAT(name##_, suffix)
#define ONE(name, ...)                                      \
  static T NAME(name, SUFFIX)(T x, T y, T z, const PT *p) { \
    (void)x, (void)y, (void)z, (void)p;                     \
    return (T)(__VA_ARGS__);                                \
  }
#define FORMULA(name, types, ...) HAS(types)(ONE(name, __VA_ARGS__))
#define MT_UNARY FORMULA
#define MT_BINARY FORMULA
#define MT_TERNARY FORMULA
#define MT_TEST FORMULA
#define MT_COMPARE FORMULA
#define MT_SELECT FORMULA
#define K(number) ((PT)(number))
#define P(i) p[i]

#define T double
#define PT double
#define SUFFIX f64
#define M(f) mt_##f##_f64
#define HAS(types) MT_CAT(MT_HAS_F_, types)
#include "../../elementwise.def"
#undef T
#undef PT
#undef SUFFIX
#undef M
#undef HAS

#ifdef __GNUC__
#pragma GCC optimize("wrapv")
#endif
#define T int64_t
#define PT int64_t
#define SUFFIX i64
#define M(f) mt_##f##_i64
#define HAS(types) MT_CAT(MT_HAS_I_, types)
#include "../../elementwise.def"
#undef T
#undef PT
#undef SUFFIX
#undef M
#undef HAS

#define T mt_complex
#define PT float
#define SUFFIX c64
#define M(f) mt_##f##_c64
#define HAS(types) MT_CAT(MT_HAS_C_, types)
#include "../../elementwise.def"

#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_TEST
#undef MT_COMPARE
#undef MT_SELECT

typedef struct row {
  double (*f64)(double, double, double, const double *);
  int64_t (*i64)(int64_t, int64_t, int64_t, const int64_t *);
  mt_complex (*c64)(mt_complex, mt_complex, mt_complex, const float *);
  int arity;
  bool test, select;
} row;

static const row rows[MT_NEW] = {
#define ROW(name, types, n, is_test, is_select)                           \
  [MT_EW_##name] = {MT_CAT(MT_HAS_F_, types)(.f64 = name##_f64, )         \
                        MT_CAT(MT_HAS_I_, types)(.i64 = name##_i64, )     \
                            MT_CAT(MT_HAS_C_, types)(.c64 = name##_c64, ) \
                                .arity = n,                               \
                    .test = is_test, .select = is_select},
#define MT_UNARY(name, types, ...) ROW(name, types, 1, false, false)
#define MT_BINARY(name, types, ...) ROW(name, types, 2, false, false)
#define MT_TERNARY(name, types, ...) ROW(name, types, 3, false, false)
#define MT_TEST(name, types, ...) ROW(name, types, 1, true, false)
#define MT_COMPARE(name, types, ...) ROW(name, types, 2, true, false)
#define MT_SELECT(name, types, ...) ROW(name, types, 3, false, true)
#include "../../elementwise.def"
};

/* An element as the compute type has it. */
static mt_num operand(const mt_kargs *k, const mt_view *v, int64_t p) {
  mt_num x = mt_ref_load(v, mt_ref_broadcast(v, k->out[0], p));
  if (k->compute == MT_F32 || k->compute == MT_C64) x = (mt_num){(float)x.re, (float)x.im};
  if (k->compute == MT_F64) x.re = (double)x.re;
  return x;
}

static mt_num element(const mt_kargs *k, const row *r, const double *param, int64_t p) {
  mt_num x[3] = {{0, 0}, {0, 0}, {0, 0}};
  for (int i = 0; i < r->arity; i++) x[i] = operand(k, k->in[i], p);
  if (r->select) x[0].re = x[0].re != 0;
  if (k->compute == MT_I64) {
    int64_t q[MT_EW_PARAMS];
    for (int i = 0; i < MT_EW_PARAMS; i++) q[i] = isnan(param[i]) ? 0 : (int64_t)param[i];
    return (mt_num){r->i64((int64_t)x[0].re, (int64_t)x[1].re, (int64_t)x[2].re, q), 0};
  }
  if (k->compute == MT_C64) {
    mt_complex z[3];
    float q[MT_EW_PARAMS];
    for (int i = 0; i < MT_EW_PARAMS; i++) q[i] = (float)param[i];
    for (int i = 0; i < 3; i++) z[i] = mt_complex_parts((float)x[i].re, (float)x[i].im);
    mt_complex y = r->c64(z[0], z[1], z[2], q);
    return (mt_num){crealf(y), cimagf(y)};
  }
  double q[MT_EW_PARAMS];
  for (int i = 0; i < MT_EW_PARAMS; i++)
    q[i] = k->compute == MT_F32 ? (double)(float)param[i] : param[i];
  return (mt_num){r->f64((double)x[0].re, (double)x[1].re, (double)x[2].re, q), 0};
}

/* The numbers behind the operands; nil counts, other kinds do not. */
static void read_params(const mt_kargs *k, int first, double *param) {
  int n = 0;
  for (int i = 0; i < MT_EW_PARAMS; i++) param[i] = 0;
  for (int j = first; j < k->narg && n < MT_EW_PARAMS; j++) {
    mt_kind kind = k->arg[j].kind;
    if (kind == MT_INT || kind == MT_FLOAT || kind == MT_BOOL_ARG) param[n++] = mt_karg_f(k, j);
    if (kind == MT_NIL) param[n++] = (double)NAN;
  }
}

static bool divides_by_zero(const mt_kargs *k) {
  bool divides = k->ew == MT_EW_floor_divide || k->ew == MT_EW_trunc_divide ||
                 k->ew == MT_EW_remainder || k->ew == MT_EW_fmod;
  if (k->compute != MT_I64 || !divides || k->out[0]->numel == 0) return false;
  for (int64_t p = 0; p < k->in[1]->numel; p++)
    if (mt_ref_load(k->in[1], p).re == 0) return true;
  return false;
}

int mt_ref_elementwise(const mt_kargs *k) {
  const row *r = &rows[k->ew];
  if (k->ew == MT_EW_bitwise_not && k->out[0]->dtype == MT_BOOL) r = &rows[MT_EW_logical_not];
  const mt_view *out = k->out[0];
  double param[MT_EW_PARAMS];
  bool has = k->compute == MT_I64 ? r->i64 != 0 : k->compute == MT_C64 ? r->c64 != 0 : r->f64 != 0;
  if (!has) return MT_NOKERNEL;
  if (divides_by_zero(k)) return MT_ERROR;
  read_params(k, r->arity, param);
  for (int64_t p = 0; p < out->numel; p++) {
    mt_num y = element(k, r, param, p);
    if (r->test) y.re = y.re != 0;
    mt_ref_store(out, p, y);
  }
  return MT_OK;
}
