/* test_math.c - the elementary functions of floats against the C library in double.
 *
 * The loops of every instruction set that this processor has are swept over the whole range of
 * floats: every STEP-th bit pattern, and the edges. The error is counted in units in the last
 * place of the true result. */
#include <math.h>

#include "../../kernels/cpu/ew.h"
#include "../../kernels/half.h"
#include "support.h"

Suite *math_suite(void);

#define STEP 2053 /* prime: all low bits occur */
#define BLOCK 4096

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double gelu(double x) { return x < -40 ? -0.0 : x * 0.5 * erfc(-x * 0.70710678118654752); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double reciprocal(double x) { return 1 / x; }

static const struct {
  const char *name;
  int ew;
  double (*truth)(double);
  double ulp;
} unary[] = {
    {"exp", MT_EW_exp, exp, 1.1},       {"exp2", MT_EW_exp2, exp2, 1.1},
    {"expm1", MT_EW_expm1, expm1, 2},   {"log", MT_EW_log, log, 1},
    {"log2", MT_EW_log2, log2, 2},      {"log10", MT_EW_log10, log10, 2},
    {"log1p", MT_EW_log1p, log1p, 2},   {"sin", MT_EW_sin, sin, 2},
    {"cos", MT_EW_cos, cos, 2},         {"tan", MT_EW_tan, tan, 2},
    {"asin", MT_EW_asin, asin, 2},      {"acos", MT_EW_acos, acos, 2},
    {"atan", MT_EW_atan, atan, 2},      {"sinh", MT_EW_sinh, sinh, 2},
    {"cosh", MT_EW_cosh, cosh, 2},      {"tanh", MT_EW_tanh, tanh, 2},
    {"asinh", MT_EW_asinh, asinh, 2},   {"acosh", MT_EW_acosh, acosh, 2},
    {"atanh", MT_EW_atanh, atanh, 2},   {"erf", MT_EW_erf, erf, 2},
    {"erfc", MT_EW_erfc, erfc, 2},      {"sigmoid", MT_EW_sigmoid, sigmoid, 2},
    {"gelu", MT_EW_gelu, gelu, 5},      {"sqrt", MT_EW_sqrt, sqrt, 0.51},
    {"rsqrt", MT_EW_rsqrt, rsqrt, 1.6}, {"reciprocal", MT_EW_reciprocal, reciprocal, 0.51}};

static const struct {
  const char *name;
  int ew;
  double (*truth)(double, double);
  double ulp;
} binary[] = {{"pow", MT_EW_pow, pow, 2},
              {"atan2", MT_EW_atan2, atan2, 2},
              {"hypot", MT_EW_hypot, hypot, 2},
              {"fmod", MT_EW_fmod, fmod, 0}};

static const float edges[] = {0.0f,
                              -0.0f,
                              INFINITY,
                              -INFINITY,
                              NAN,
                              1.0f,
                              -1.0f,
                              0x1p-149f,
                              0.5f,
                              -0.5f,
                              2.0f,
                              -2.0f,
                              3.0f,
                              -3.0f,
                              2.5f,
                              -0x1p-149f,
                              1e10f,
                              -1e10f,
                              1e30f,
                              -1e30f,
                              16777215.f,
                              -16777217.f,
                              0x1p-126f,
                              -0x1p-126f,
                              88.722f,
                              -103.97f,
                              131072.0f,
                              131073.0f,
                              -131073.f,
                              0x1.8p127f,
                              0x1.fffffep127f,
                              0.3f,
                              0.8f,
                              0.9f,
                              -0.9f,
                              15.0f,
                              -15.0f,
                              10.1f,
                              -0x1.fffffep127f};
#define EDGES ((int)(sizeof edges / sizeof *edges))

/* The distance of y from the truth in units in its last place; huge for a wrong NaN, infinity or
 * sign of zero. */
static double error_of(float y, double truth) {
  int e;
  if (isnan(truth) || isnan(y)) return isnan(truth) && isnan(y) ? 0 : 1e30;
  if (truth == 0) return y == 0 && !signbit(y) == !signbit(truth) ? 0 : 1e30;
  if (fabs(truth) >= 0x1.ffffffp127)
    return isinf(y) && signbit(y) == signbit((float)truth) ? 0
           : fabs(y) > 0x1.fffffcp127                      ? 1
                                                           : 1e30;
  if (isinf(y)) return 1e30;
  frexp(truth, &e);
  return fabs(y - truth) / ldexp(1, e < -125 ? -149 : e - 24);
}

/* The variants to try; the same one twice where there is only one. */
static int variants(const struct mt_isa **isa) {
  setenv("MOTH_ISA", "v2", 1);
  isa[0] = mt_isa_choose();
  setenv("MOTH_ISA", "v3", 1);
  isa[1] = mt_isa_choose();
  unsetenv("MOTH_ISA");
  isa[2] = mt_isa_choose();
  return 3;
}

static const float no_params[MT_EW_PARAMS];

static void check_block(int i, const float *x, int64_t n) {
  static float y[BLOCK];
  static double truth[BLOCK];
  const struct mt_isa *isa[3], *last = NULL;
  int count = variants(isa);
  for (int64_t j = 0; j < n; j++) truth[j] = unary[i].truth((double)x[j]);
  for (int v = 0; v < count; v++) {
    if (isa[v] == last) continue;
    last = isa[v];
    isa[v]->ew->loop[unary[i].ew][MT_EW_F32](y, x, NULL, NULL, n, no_params);
    for (int64_t j = 0; j < n; j++) {
      double e = error_of(y[j], truth[j]);
      if (e <= unary[i].ulp) continue;
      ck_abort_msg("%s(%a) on %s: got %a, expected %a: %.3g ULP", unary[i].name, (double)x[j],
                   mt_isa_name(isa[v]), (double)y[j], truth[j], e);
    }
  }
}

START_TEST(unary_functions_are_within_their_ulps) {
  static float x[BLOCK];
  uint64_t bits = 0;
  while (bits < 1ull << 32) {
    int64_t n = 0;
    for (; n < BLOCK && bits < 1ull << 32; bits += STEP) x[n++] = mt_bits_float((uint32_t)bits);
    check_block(_i, x, n);
  }
  check_block(_i, edges, EDGES);
}
END_TEST

/* Ordinary pairs, and any bits at all. */
static float sample(int kind) {
  if (kind == 0) return mt_bits_float((uint32_t)test_random());
  if (kind == 1) return (float)(test_below(200000) - 100000) * 1e-3f;
  return 1 + (float)(test_below(100000) - 50000) * 1e-5f;
}

START_TEST(binary_functions_are_within_their_ulps) {
  static float x[BLOCK], y[BLOCK], z[BLOCK];
  const struct mt_isa *isa[3];
  int count = variants(isa);
  test_seed(1);
  for (int round = 0; round < 200; round++) {
    for (int j = 0; j < BLOCK; j++) {
      x[j] = round == 0 ? edges[j / EDGES % EDGES] : sample(round % 3);
      y[j] = round == 0 ? edges[j % EDGES] : sample(round % 2);
    }
    const struct mt_isa *v = isa[round % count];
    v->ew->loop[binary[_i].ew][MT_EW_F32](z, x, y, NULL, BLOCK, no_params);
    for (int j = 0; j < BLOCK; j++) {
      double truth = binary[_i].truth((double)x[j], (double)y[j]), e = error_of(z[j], truth);
      if (e > binary[_i].ulp)
        ck_abort_msg("%s(%a, %a) on %s: got %a, expected %a: %.3g ULP", binary[_i].name,
                     (double)x[j], (double)y[j], mt_isa_name(v), (double)z[j], truth, e);
    }
  }
}
END_TEST

/* What the F16C instructions give, spelled out. */
START_TEST(halves_round_to_nearest_even) {
  static const struct {
    float x;
    uint16_t f16, bf16;
  } t[] = {{1.0f, 0x3c00, 0x3f80},        {-2.0f, 0xc000, 0xc000},
           {65504.0f, 0x7bff, 0x4780},    {65519.99f, 0x7bff, 0x4780},
           {65520.0f, 0x7c00, 0x4780},    {INFINITY, 0x7c00, 0x7f80},
           {0x1p-24f, 0x0001, 0x3380},    {0x1p-25f, 0x0000, 0x3300},
           {0x1.8p-25f, 0x0001, 0x3340},  {0x1.ffcp-15f, 0x0400, 0x3880},
           {0x1.002p0f, 0x3c00, 0x3f80},  {0x1.006p0f, 0x3c02, 0x3f80},
           {0x1.01p0f, 0x3c04, 0x3f80},   {0x1.03p0f, 0x3c0c, 0x3f82},
           {-0.0f, 0x8000, 0x8000},       {0x1.fffffep127f, 0x7c00, 0x7f80},
           {-0x1.fep127f, 0xfc00, 0xff7f}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    ck_assert_uint_eq(mt_f32_to_f16(t[i].x), t[i].f16);
    ck_assert_uint_eq(mt_f32_to_bf16(t[i].x), t[i].bf16);
  }
  for (uint32_t h = 0; h < 65536; h++) {
    float x = mt_f16_to_f32((uint16_t)h), y = mt_bf16_to_f32((uint16_t)h);
    uint32_t quiet16 = (h & 0x7fff) > 0x7c00 ? 0x200 : 0, quietb = (h & 0x7fff) > 0x7f80 ? 0x40 : 0;
    if (mt_f32_to_f16(x) != (h | quiet16) || mt_f32_to_bf16(y) != (h | quietb)) /* Check is slow */
      ck_abort_msg("the half %x does not survive a round trip", h);
  }
}
END_TEST

/* The conversion loops have instructions of their own for some of this. */
START_TEST(conversion_loops_agree_with_scalar_code) {
  static float x[BLOCK];
  static uint16_t h[BLOCK];
  const struct mt_isa *isa[3];
  int count = variants(isa);
  for (uint64_t bits = 0; bits < 1ull << 32; bits += 65521ull * BLOCK / 16) {
    for (int j = 0; j < BLOCK; j++) x[j] = mt_bits_float((uint32_t)(bits + (uint64_t)j * 4093));
    for (int v = 0; v < count; v++) {
      isa[v]->ew->store[MT_EW_F32][MT_F16](h, x, BLOCK - 3);
      for (int j = 0; j < BLOCK - 3; j++)
        if (h[j] != mt_f32_to_f16(x[j])) ck_abort_msg("%a as float16: %x", (double)x[j], h[j]);
      isa[v]->ew->store[MT_EW_F32][MT_BF16](h, x, BLOCK - 3);
      for (int j = 0; j < BLOCK - 3; j++)
        if (h[j] != mt_f32_to_bf16(x[j])) ck_abort_msg("%a as bfloat16: %x", (double)x[j], h[j]);
    }
  }
}
END_TEST

Suite *math_suite(void) {
  Suite *s = suite_create("math");
  TCase *c = tcase_create("math");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, unary_functions_are_within_their_ulps, 0,
                      (int)(sizeof unary / sizeof *unary));
  tcase_add_loop_test(c, binary_functions_are_within_their_ulps, 0,
                      (int)(sizeof binary / sizeof *binary));
  tcase_add_test(c, halves_round_to_nearest_even);
  tcase_add_test(c, conversion_loops_agree_with_scalar_code);
  suite_add_tcase(s, c);
  return s;
}
