/* ref/gemm.c - the plain matrix product: the truth for tests, and the path of integers and c64.
 *
 * Floats are summed in double, integers modulo 2^64, complex numbers as pairs of double; every
 * element is one chain over k and is rounded once, at its end. Any strides. */
#include "../gemm.h"

#include "../../half.h"

static double load_f64(const double *p) { return *p; }
static double load_f32(const float *p) { return *p; }
static double load_f16(const uint16_t *p) { return mt_f16_to_f32(*p); }
static double load_bf16(const uint16_t *p) { return mt_bf16_to_f32(*p); }
static void store_f64(double *p, double x) { *p = x; }
static void store_f32(float *p, double x) { *p = (float)x; }
static void store_f16(uint16_t *p, double x) { *p = mt_f32_to_f16((float)x); }
static void store_bf16(uint16_t *p, double x) { *p = mt_f32_to_bf16((float)x); }

/* The bias of an element; it is f64 for an f64 product and f32 for all others. */
static double bias(const mt_gemm *g, int64_t i, int64_t j) {
  double sum = 0;
  if (g->row_bias) {
    sum += g->dtype == MT_F64 ? ((const double *)g->row_bias)[i] : ((const float *)g->row_bias)[i];
  }
  if (g->col_bias) {
    sum += g->dtype == MT_F64 ? ((const double *)g->col_bias)[j] : ((const float *)g->col_bias)[j];
  }
  return sum;
}

#define REF_FLOAT(name, type)                                                            \
  static void ref_##name(const mt_gemm *g) {                                             \
    for (int64_t i = 0; i < g->m; i++) {                                                 \
      for (int64_t j = 0; j < g->n; j++) {                                               \
        const type *a = (const type *)g->a + i * g->ars;                                 \
        const type *b = (const type *)g->b + j * g->bcs;                                 \
        double sum = 0;                                                                  \
        for (int64_t k = 0; k < g->k; k++) {                                             \
          sum += load_##name(a + k * g->acs) * load_##name(b + k * g->brs);              \
        }                                                                                \
        sum = g->alpha * sum + bias(g, i, j);                                            \
        if (g->beta != 0) {                                                              \
          sum += g->beta * load_##name((const type *)g->c0 + i * g->c0rs + j * g->c0cs); \
        }                                                                                \
        store_##name((type *)g->c + i * g->crs + j * g->ccs, sum);                       \
      }                                                                                  \
    }                                                                                    \
  }
REF_FLOAT(f64, double)
REF_FLOAT(f32, float)
REF_FLOAT(f16, uint16_t)
REF_FLOAT(bf16, uint16_t)

#define REF_INT(name, type)                                                           \
  static void ref_##name(const mt_gemm *g) {                                          \
    uint64_t alpha = (uint64_t)(int64_t)g->alpha, beta = (uint64_t)(int64_t)g->beta;  \
    for (int64_t i = 0; i < g->m; i++) {                                              \
      for (int64_t j = 0; j < g->n; j++) {                                            \
        const type *a = (const type *)g->a + i * g->ars;                              \
        const type *b = (const type *)g->b + j * g->bcs;                              \
        uint64_t sum = 0;                                                             \
        for (int64_t k = 0; k < g->k; k++) {                                          \
          sum += (uint64_t)(int64_t)a[k * g->acs] * (uint64_t)(int64_t)b[k * g->brs]; \
        }                                                                             \
        sum *= alpha;                                                                 \
        if (beta) {                                                                   \
          const type *c0 = (const type *)g->c0 + i * g->c0rs + j * g->c0cs;           \
          sum += beta * (uint64_t)(int64_t)*c0;                                       \
        }                                                                             \
        ((type *)g->c)[i * g->crs + j * g->ccs] = (type)sum;                          \
      }                                                                               \
    }                                                                                 \
  }
REF_INT(i64, int64_t)
REF_INT(i32, int32_t)
REF_INT(i16, int16_t)
REF_INT(i8, int8_t)
REF_INT(u8, uint8_t)

static void ref_c64(const mt_gemm *g) {
  for (int64_t i = 0; i < g->m; i++) {
    for (int64_t j = 0; j < g->n; j++) {
      const mt_c64 *a = (const mt_c64 *)g->a + i * g->ars;
      const mt_c64 *b = (const mt_c64 *)g->b + j * g->bcs;
      double re = 0, im = 0;
      for (int64_t k = 0; k < g->k; k++) {
        mt_c64 x = a[k * g->acs], y = b[k * g->brs];
        re += (double)x.re * y.re - (double)x.im * y.im;
        im += (double)x.re * y.im + (double)x.im * y.re;
      }
      re *= g->alpha, im *= g->alpha;
      if (g->beta != 0) {
        mt_c64 c0 = ((const mt_c64 *)g->c0)[i * g->c0rs + j * g->c0cs];
        re += g->beta * c0.re, im += g->beta * c0.im;
      }
      ((mt_c64 *)g->c)[i * g->crs + j * g->ccs] = (mt_c64){(float)re, (float)im};
    }
  }
}

void mt_ref_gemm(const mt_gemm *g) {
  static void (*const by_type[MT_NDTYPES])(const mt_gemm *) = {
      [MT_F64] = ref_f64, [MT_F32] = ref_f32, [MT_F16] = ref_f16, [MT_BF16] = ref_bf16,
      [MT_I64] = ref_i64, [MT_I32] = ref_i32, [MT_I16] = ref_i16, [MT_I8] = ref_i8,
      [MT_U8] = ref_u8,   [MT_C64] = ref_c64};
  if (by_type[g->dtype]) by_type[g->dtype](g);
}
