/* test_elementwise.c - every formula and its driver against the plain reference.
 *
 * All formulas in every type they have; then a few of them through every dtype, layout, broadcast,
 * size and thread count; what must be the same bits is compared as bits. */
#include <math.h>

#include "../../kernels/cpu/ew.h"
#include "support.h"

Suite *elementwise_suite(void);

static const struct {
  const char *name;
  int arity;
  bool test, select;
} rows[MT_NEW] = {
#define MT_UNARY(name, ...) [MT_EW_##name] = {#name, 1, false, false},
#define MT_BINARY(name, ...) [MT_EW_##name] = {#name, 2, false, false},
#define MT_TERNARY(name, ...) [MT_EW_##name] = {#name, 3, false, false},
#define MT_TEST(name, ...) [MT_EW_##name] = {#name, 1, true, false},
#define MT_COMPARE(name, ...) [MT_EW_##name] = {#name, 2, true, false},
#define MT_SELECT(name, ...) [MT_EW_##name] = {#name, 3, false, true},
#include "../../kernels/elementwise.def"
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_TEST
#undef MT_COMPARE
#undef MT_SELECT
};

static const mt_dtype compute_of[MT_NDTYPES] = {
    [MT_F64] = MT_F64, [MT_F32] = MT_F32,  [MT_F16] = MT_F32, [MT_BF16] = MT_F32,
    [MT_I64] = MT_I64, [MT_I32] = MT_I64,  [MT_I16] = MT_I64, [MT_I8] = MT_I64,
    [MT_U8] = MT_I64,  [MT_BOOL] = MT_I64, [MT_C64] = MT_C64};

/* A call of formula ew on in[] with the parameters 0.75, 1.5, 0.5 (1, 2, 0 for integers). */
static int call(const struct mt_isa *isa, int ew, mt_dtype compute, mt_view *out,
                mt_view *const *in, mt_parallel *par, mt_kernel_fn fn) {
  mt_value arg[8];
  const mt_view *views[3], *outs[1] = {out};
  memset(arg, 0, sizeof arg);
  const int n = rows[ew].arity;
  for (int i = 0; i < n; i++) {
    views[i] = in[i];
    arg[i].kind = MT_TENSOR;
  }
  for (int i = 0; i < 3; i++)
    arg[n + i] = compute == MT_I64 ? test_int((int64_t[]){1, 2, 0}[i])
                                   : test_float((double[]){0.75, 1.5, 0.5}[i]);
  mt_kargs k = {.in = views,
                .out = outs,
                .arg = arg,
                .nin = n,
                .nout = 1,
                .narg = n + 3,
                .compute = compute,
                .ew = ew,
                .par = par,
                .isa = isa};
  return fn(&k);
}

static const struct mt_isa *variant(const char *name) {
  setenv("MOTH_ISA", name, 1);
  const struct mt_isa *isa = mt_isa_choose();
  unsetenv("MOTH_ISA");
  return isa;
}

/* ---- every formula ---- */

static void fill(mt_view *v, bool special) {
  static const double odd[] = {0, -0.0, 1, -1, 2, -2, 0.5, 3, 6, -3, INFINITY, -INFINITY, NAN, 8};
  for (int64_t p = 0; p < v->numel; p++) {
    mt_num x = {(long double)(test_below(64) - 32) / 8, (long double)(test_below(64) - 32) / 8};
    if (special && p % 5 == 0) x.re = odd[test_below(14)];
    if (!mt_dtype_is_float((mt_dtype)v->dtype) && !(x.re == x.re && fabsl(x.re) < 1e9)) x.re = 7;
    mt_ref_store(v, p, x);
  }
}

/* The reference is in double: where a float formula subtracts nearly equal numbers an absolute
 * error is right. */
static void tolerance(int ew, mt_dtype d, double *rtol, double *atol) {
  (void)ew;
  *rtol = d == MT_F64 ? 1e-12 : d == MT_F32 ? 4e-6 : d == MT_C64 ? 1e-4 : 0;
  *atol = d == MT_F64 ? 1e-12 : d == MT_F32 ? 4e-6 : d == MT_C64 ? 1e-4 : 0;
}

START_TEST(formulas_agree_with_the_reference) {
  static const mt_dtype types[] = {MT_F32, MT_F64, MT_I64, MT_C64};
  const int ew = _i;
  const int64_t size[1] = {1003};
  if (ew == MT_EW_nextafter) return; /* the next double is not the next float */
  test_seed((uint64_t)ew);
  bool any = false;
  for (int t = 0; t < 4; t++) {
    const mt_dtype d = types[t];
    mt_view *in[3], *want = test_view(rows[ew].test ? MT_BOOL : d, 1, size, TEST_CONTIGUOUS);
    for (int i = 0; i < 3; i++) {
      in[i] = test_view(i == 0 && rows[ew].select ? MT_BOOL : d, 1, size, TEST_CONTIGUOUS);
      fill(in[i], d != MT_C64);
    }
    if (d == MT_I64) /* division */
      for (int64_t p = 0; p < size[0]; p++)
        if (test_at(in[1], p) == 0) mt_ref_store(in[1], p, (mt_num){5, 0});
    for (int v = 0; v < 2; v++) {
      mt_view *out = test_like(want, TEST_CONTIGUOUS);
      int status = call(variant(v ? "v3" : "v2"), ew, d, out, in, NULL, mt_cpu_elementwise);
      ck_assert_int_eq(status, call(NULL, ew, d, want, in, NULL, mt_ref_elementwise));
      if (status == MT_NOKERNEL) continue;
      ck_assert_int_eq(status, MT_OK);
      any = true;
      double rtol, atol;
      tolerance(ew, (mt_dtype)out->dtype, &rtol, &atol);
      test_close(out, want, rtol, atol, rows[ew].name);
    }
  }
  ck_assert_msg(any, "%s has no type", rows[ew].name);
}
END_TEST

/* The vector code and what is left over at its end are the same code. */
START_TEST(results_do_not_depend_on_the_position) {
  enum {
    N = 77
  };
  const int ew = _i;
  test_seed(3);
  for (int round = 0; round < 40; round++) {
    float x[3][N], y[2][N];
    uint8_t flag[N];
    const void *in[3];
    const float p[MT_EW_PARAMS] = {0.75f, 1.5f, 0.5f, 0};
    for (int i = 0; i < 3; i++) {
      float v = (float)(test_below(2000000) - 1000000) * 1.1e-5f;
      for (int j = 0; j < N; j++) x[i][j] = v;
      in[i] = x[i];
    }
    memset(flag, round & 1, sizeof flag);
    if (rows[ew].select) in[0] = flag;
    for (int v = 0; v < 2; v++) {
      mt_ew_fn fn = variant(v ? "v3" : "v2")->ew->loop[ew][MT_EW_F32];
      if (!fn) return;
      int size = rows[ew].test ? 1 : 4;
      fn(y[0], in[0], in[1], in[2], N, p);
      for (int j = 1; j < N; j++)
        if (memcmp(y[0], (char *)y[0] + j * size, (size_t)size) != 0)
          ck_abort_msg("%s(%a, %a, %a): element 0 is %a, element %d is %a", rows[ew].name,
                       (double)x[0][0], (double)x[1][0], (double)x[2][0], (double)y[0][0], j,
                       (double)y[0][j]);
    }
  }
}
END_TEST

/* ---- the driver ---- */

static const int sampled[] = {MT_EW_add,  MT_EW_mul_add, MT_EW_where,        MT_EW_gt,
                              MT_EW_relu, MT_EW_exp,     MT_EW_floor_divide, MT_EW_logical_and};
enum {
  SAMPLED = sizeof sampled / sizeof *sampled
};

/* Sizes with the result's dim d dropped to 1 if bit d is set; leading ones vanish if `cut`. */
static mt_view *operand(mt_dtype d, int ndim, const int64_t *size, unsigned drop, bool cut,
                        test_layout layout) {
  int64_t s[MT_MAX_DIM];
  int first = 0;
  for (int i = 0; i < ndim; i++) s[i] = drop >> i & 1 ? 1 : size[i];
  while (cut && first < ndim && s[first] == 1) first++;
  mt_view *v = test_view(d, ndim - first, s + first, layout);
  fill(v, false);
  for (int64_t p = 0; p < v->numel; p++)
    if (test_at(v, p) == 0 && d != MT_BOOL) mt_ref_store(v, p, (mt_num){1, 0});
  return v;
}

static void driver_case(int ew, mt_dtype compute, mt_dtype to, const mt_dtype *from, int ndim,
                        const int64_t *size, const unsigned *drop, mt_parallel *par) {
  mt_view *in[3] = {0};
  bool cut = test_below(2);
  for (int i = 0; i < rows[ew].arity; i++)
    in[i] = operand(i == 0 && rows[ew].select ? MT_BOOL : from[i], ndim, size, drop[i], cut,
                    (test_layout)test_below(TEST_LAYOUTS));
  mt_view *out =
      test_view(rows[ew].test ? MT_BOOL : to, ndim, size, (test_layout)test_below(TEST_LAYOUTS));
  mt_view *want = test_like(out, TEST_CONTIGUOUS);
  int status = call(mt_isa_choose(), ew, compute, out, in, par, mt_cpu_elementwise);
  ck_assert_int_eq(status, call(NULL, ew, compute, want, in, NULL, mt_ref_elementwise));
  if (status != MT_OK) return; /* no such type, or a divisor is false */
  bool half = to == MT_F16 || to == MT_BF16;
  double tol = half && ew == MT_EW_exp ? 0.008 : 2e-6; /* exp: a half may round the other way */
  test_close(out, want, tol, tol * 1e-2, rows[ew].name);
}

START_TEST(any_dtypes_layouts_and_broadcasts) {
  test_seed((uint64_t)_i + 100);
  const int ew = sampled[_i];
  for (int round = 0; round < 300; round++) {
    int64_t size[5];
    int ndim = (int)test_below(5);
    unsigned drop[3] = {0, 0, 0};
    for (int d = 0; d < ndim; d++) size[d] = 1 + test_below(d == ndim - 1 && round % 3 ? 40 : 9);
    for (int i = 0; i < 3; i++)
      if (test_below(2)) drop[i] = (unsigned)test_below(32);
    mt_dtype to = (mt_dtype)test_below(MT_NDTYPES), from[3], compute = compute_of[to];
    for (int i = 0; i < 3; i++) { /* nothing of a higher kind than the result */
      do from[i] = (mt_dtype)test_below(MT_NDTYPES);
      while (mt_dtype_category(from[i]) > mt_dtype_category(to));
    }
    driver_case(ew, compute, to, from, ndim, size, drop, NULL);
    test_free();
  }
}
END_TEST

START_TEST(large_and_awkward_shapes) {
  static const int64_t shapes[][3] = {{1, 1, 70000}, {1, 200, 200}, {2, 70, 515}, {300, 10, 10},
                                      {2, 5000, 3},  {20, 30, 40},  {1, 1, 512},  {1, 513, 2},
                                      {5, 16, 32},   {0, 4, 4},     {2, 2, 0},    {1, 1000, 17}};
  test_seed((uint64_t)_i + 200);
  const int ew = sampled[_i];
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int round = (int)s % 2; round < 6; round += 2) {
      mt_dtype d = (mt_dtype[]){MT_F32, MT_F32, MT_F64, MT_I16, MT_BF16, MT_I64}[round];
      mt_dtype from[3] = {d, d, round == 1 ? MT_F64 : d};
      unsigned drop[3] = {0, (unsigned)test_below(8), (unsigned)test_below(8)};
      driver_case(ew, compute_of[d], d, from, 3, shapes[s], drop, test_threads(1 + round % 3));
      test_free();
    }
}
END_TEST

START_TEST(thread_counts_give_the_same_bits) {
  static const int ews[] = {MT_EW_add, MT_EW_exp, MT_EW_mul_add, MT_EW_where, MT_EW_gt};
  static const int threads[] = {1, 2, 6};
  const int64_t size[2] = {500, 700};
  const int ew = ews[_i];
  test_seed(5);
  for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
    mt_view *in[3], *out[3];
    for (int i = 0; i < 3; i++) {
      bool flag = i == 0 && rows[ew].select;
      in[i] = test_view(flag ? MT_BOOL : MT_F32, 2, size, (test_layout)layout);
      fill(in[i], true);
    }
    for (int t = 0; t < 3; t++) {
      out[t] = test_view(rows[ew].test ? MT_BOOL : MT_F32, 2, size, TEST_CONTIGUOUS);
      call(mt_isa_choose(), ew, MT_F32, out[t], in, test_threads(threads[t]), mt_cpu_elementwise);
      size_t bytes = (size_t)out[t]->numel * (rows[ew].test ? 1 : 4);
      ck_assert(memcmp(out[0]->data, out[t]->data, bytes) == 0);
    }
  }
}
END_TEST

/* Written past the caches. */
START_TEST(results_larger_than_the_caches) {
  const int64_t n = (32 << 20) / 8 + 1234;
  for (int shift = 0; shift < 3; shift++) {
    mt_view *x = test_view(MT_F64, 1, (int64_t[]){n + 3}, TEST_CONTIGUOUS), *y = test_copy(x);
    for (int64_t i = 0; i < n + 3; i++) ((double *)(void *)x->data)[i] = (double)i;
    x->size[0] = y->size[0] = x->numel = y->numel = n;
    y->data += shift * 8;
    call(mt_isa_choose(), MT_EW_neg, MT_F64, y, &x, test_threads(1 + shift), mt_cpu_elementwise);
    const double *r = (const double *)(const void *)y->data;
    for (int64_t i = 0; i < n; i++)
      if (r[i] != -(double)i) ck_abort_msg("element %lld is %g", (long long)i, r[i]);
    if (shift < 2) ck_assert(r[n] == 0);
    test_free();
  }
}
END_TEST

/* Without a multiplication that feeds an addition there is nothing that could be fused. */
START_TEST(instruction_sets_give_the_same_bits) {
  static const int ews[] = {MT_EW_mul,   MT_EW_div,  MT_EW_sqrt, MT_EW_maximum, MT_EW_floor,
                            MT_EW_round, MT_EW_fmod, MT_EW_relu, MT_EW_clamp,   MT_EW_eq};
  const int64_t size[1] = {1017};
  const int ew = ews[_i];
  test_seed(6);
  mt_view *in[3], *out[2];
  for (int i = 0; i < 3; i++) fill(in[i] = test_view(MT_F32, 1, size, TEST_CONTIGUOUS), true);
  for (int v = 0; v < 2; v++) {
    out[v] = test_view(rows[ew].test ? MT_BOOL : MT_F32, 1, size, TEST_CONTIGUOUS);
    call(variant(v ? "v3" : "v2"), ew, MT_F32, out[v], in, NULL, mt_cpu_elementwise);
  }
  test_same(out[0], out[1], rows[ew].name);
}
END_TEST

START_TEST(in_place_equals_out_of_place) {
  const int64_t size[2] = {37, 53};
  test_seed(7);
  for (int s = 0; s < SAMPLED; s++) {
    const int ew = sampled[s];
    if (rows[ew].test || rows[ew].select) continue;
    for (int d = 0; d < MT_NDTYPES; d++)
      for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
        mt_view *in[3];
        for (int i = 0; i < 3; i++)
          in[i] = operand((mt_dtype)d, 2, size, 0, false, (test_layout)layout);
        mt_view *out = test_like(in[0], TEST_CONTIGUOUS);
        int status = call(mt_isa_choose(), ew, compute_of[d], out, in, NULL, mt_cpu_elementwise);
        if (status == MT_OK) {
          call(mt_isa_choose(), ew, compute_of[d], in[0], in, NULL, mt_cpu_elementwise);
          test_same(in[0], out, rows[ew].name);
        }
        test_free();
      }
  }
}
END_TEST

/* ---- rules ---- */

static double one(int ew, mt_dtype d, double x, double y) {
  mt_view *in[2] = {test_list(d, 0, NULL, &x), test_list(d, 0, NULL, &y)};
  mt_view *out = test_view(rows[ew].test ? MT_BOOL : d, 0, NULL, TEST_CONTIGUOUS);
  if (call(mt_isa_choose(), ew, compute_of[d], out, in, NULL, mt_cpu_elementwise)) return -12345;
  return test_at(out, 0);
}

START_TEST(integer_division_rounds_as_lua_does) {
  static const struct {
    int ew;
    double x, y, want;
  } t[] = {{MT_EW_remainder, -1, 3, 2},     {MT_EW_remainder, -2, 3, 1},
           {MT_EW_remainder, 5, -3, -1},    {MT_EW_remainder, -5, -3, -2},
           {MT_EW_fmod, -1, 3, -1},         {MT_EW_fmod, -5, 3, -2},
           {MT_EW_floor_divide, -7, 2, -4}, {MT_EW_floor_divide, 7, -2, -4},
           {MT_EW_floor_divide, -7, -2, 3}, {MT_EW_trunc_divide, -7, 2, -3},
           {MT_EW_trunc_divide, 7, -2, -3}, {MT_EW_floor_divide, 6, -2, -3}};
  static const mt_dtype types[] = {MT_I64, MT_I32, MT_I16, MT_I8, MT_F32, MT_F64};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++)
    for (int d = 0; d < 6; d++) ck_assert(one(t[i].ew, types[d], t[i].x, t[i].y) == t[i].want);
}
END_TEST

START_TEST(integer_division_by_zero_is_an_error) {
  static const int ews[] = {MT_EW_remainder, MT_EW_fmod, MT_EW_floor_divide, MT_EW_trunc_divide};
  const int64_t size[2] = {30, 40};
  for (int i = 0; i < 4; i++) {
    for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
      mt_view *in[2], *out = test_view(MT_I16, 2, size, TEST_CONTIGUOUS);
      for (int j = 0; j < 2; j++) in[j] = operand(MT_I16, 2, size, 0, false, (test_layout)layout);
      ck_assert_int_eq(call(mt_isa_choose(), ews[i], MT_I64, out, in, NULL, mt_cpu_elementwise), 0);
      mt_ref_store(in[1], 777, (mt_num){0, 0});
      ck_assert_int_eq(call(mt_isa_choose(), ews[i], MT_I64, out, in, NULL, mt_cpu_elementwise),
                       MT_ERROR);
    }
    ck_assert(one(ews[i], MT_I64, -0x1p63, -1) ==
              (ews[i] == MT_EW_remainder || ews[i] == MT_EW_fmod ? 0 : -0x1p63));
  }
}
END_TEST

START_TEST(remainders_of_floats) {
  for (int d = 0; d < 2; d++) {
    mt_dtype t = d ? MT_F64 : MT_F32;
    ck_assert(!signbit(one(MT_EW_remainder, t, -1, 1)));
    ck_assert(signbit(one(MT_EW_remainder, t, 2, -1)));
    ck_assert(one(MT_EW_remainder, t, -1e-20, 1) == 1);
    ck_assert(isinf(one(MT_EW_remainder, t, -5, INFINITY)));
    ck_assert(isnan(one(MT_EW_remainder, t, 5, 0)));
    ck_assert(isinf(one(MT_EW_floor_divide, t, 5, 0)));
    ck_assert(one(MT_EW_floor_divide, t, -5, INFINITY) == -1);
  }
  ck_assert(one(MT_EW_floor_divide, MT_F64, -1, 1.0 / 3) == -4);
  ck_assert(one(MT_EW_fmod, MT_F32, 0x1p100, 3) == 1);
}
END_TEST

START_TEST(nan_wins_or_loses_by_rule) {
  for (int d = 0; d < 2; d++) {
    mt_dtype t = d ? MT_F64 : MT_F32;
    ck_assert(isnan(one(MT_EW_maximum, t, NAN, 1)) && isnan(one(MT_EW_maximum, t, 1, NAN)));
    ck_assert(isnan(one(MT_EW_minimum, t, NAN, 1)) && isnan(one(MT_EW_minimum, t, 1, NAN)));
    ck_assert(one(MT_EW_fmax, t, NAN, 1) == 1 && one(MT_EW_fmax, t, 1, NAN) == 1);
    ck_assert(one(MT_EW_fmin, t, NAN, 1) == 1 && one(MT_EW_fmin, t, 1, NAN) == 1);
    ck_assert(isnan(one(MT_EW_relu, t, NAN, 0)) && isnan(one(MT_EW_clamp_min, t, NAN, 0)));
    ck_assert(isnan(one(MT_EW_hardtanh, t, NAN, 0)) && isnan(one(MT_EW_threshold, t, NAN, 0)));
    ck_assert(one(MT_EW_xlogy, t, 0, 0) == 0 && isnan(one(MT_EW_xlogy, t, 0, NAN)));
    ck_assert(one(MT_EW_logaddexp, t, -INFINITY, -INFINITY) == -INFINITY);
    ck_assert(one(MT_EW_logaddexp, t, INFINITY, INFINITY) == INFINITY);
    ck_assert(one(MT_EW_pow, t, NAN, 0) == 1 && one(MT_EW_pow, t, 1, NAN) == 1);
    ck_assert(one(MT_EW_pow, t, -8, 3) == -512 && isnan(one(MT_EW_pow, t, -8, 2.5)));
    ck_assert(one(MT_EW_pow, t, 0, -1) == INFINITY);
    ck_assert(one(MT_EW_ne, t, NAN, NAN) == 1 && one(MT_EW_eq, t, NAN, NAN) == 0);
  }
}
END_TEST

START_TEST(integers_wrap) {
  ck_assert(one(MT_EW_add, MT_I8, 100, 100) == -56);
  ck_assert(one(MT_EW_mul, MT_U8, 16, 17) == 16);
  ck_assert(one(MT_EW_sub, MT_U8, 3, 5) == 254);
  ck_assert(one(MT_EW_add, MT_I64, 0x1.fffffffffffffp62, 0x1p62 + 0x1p61) < 0);
  ck_assert(one(MT_EW_neg, MT_I64, -0x1p63, 0) == -0x1p63);
  ck_assert(one(MT_EW_pow, MT_I64, 3, 5) == 243 && one(MT_EW_pow, MT_I64, -1, -3) == -1);
  ck_assert(one(MT_EW_pow, MT_I64, 2, -1) == 0 && one(MT_EW_pow, MT_I64, 2, 64) == 0);
  ck_assert(one(MT_EW_add, MT_BOOL, 1, 1) == 1 && one(MT_EW_bitwise_not, MT_BOOL, 1, 0) == 0);
  ck_assert(one(MT_EW_bitwise_left_shift, MT_I64, 1, 64) == 0);
  ck_assert(one(MT_EW_bitwise_right_shift, MT_I64, -8, 100) == -1);
  ck_assert(one(MT_EW_bitwise_right_shift, MT_U8, 255, 4) == 15);
}
END_TEST

START_TEST(special_functions) {
  static const struct {
    int ew;
    double x, want;
  } t[] = {{MT_EW_erfinv, 0.5, 0.47693627620446987338},
           {MT_EW_erfinv, 0, 0},
           {MT_EW_erfinv, -0.984375, -1.70947237429951148},
           {MT_EW_erfinv, 1e-10, 8.8622692545275805e-11},
           {MT_EW_erfinv, 1, INFINITY},
           {MT_EW_digamma, 1, -0.57721566490153286061},
           {MT_EW_digamma, 0.5, -1.96351002602142347944},
           {MT_EW_digamma, -0.5, 0.03648997397857652056},
           {MT_EW_digamma, 100, 4.60016185273808740},
           {MT_EW_lgamma, 0.5, 0.57236494292470008707},
           {MT_EW_sinc, 0.5, 0.63661977236758134308},
           {MT_EW_logit, 0.25, -1.09861228866810969140}};
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    double y = one(t[i].ew, MT_F64, t[i].x, 0), f = one(t[i].ew, MT_F32, t[i].x, 0);
    ck_assert(y == t[i].want || fabs(y - t[i].want) < 1e-14 * fabs(t[i].want) + 1e-16);
    ck_assert(f == t[i].want || fabs(f - t[i].want) < 1e-6 * fabs(t[i].want) + 1e-7);
  }
  ck_assert(isnan(one(MT_EW_erfinv, MT_F64, 1.5, 0)) && isnan(one(MT_EW_digamma, MT_F64, -2, 0)));
}
END_TEST

START_TEST(powers_with_a_number) {
  static const double ys[] = {2, 3, 0.5, -1, -0.5, 4, 0, 1, -2};
  const int64_t size[1] = {700};
  test_seed(9);
  for (int i = 0; i < 9; i++)
    for (int d = 0; d < 2; d++) {
      mt_dtype t = d ? MT_F64 : MT_F32;
      mt_view *in[2] = {test_values(t, 1, size, TEST_CONTIGUOUS),
                        test_list(MT_F64, 0, NULL, &ys[i])};
      mt_view *out = test_like(in[0], TEST_CONTIGUOUS), *want = test_like(in[0], TEST_CONTIGUOUS);
      ck_assert_int_eq(call(mt_isa_choose(), MT_EW_pow, t, out, in, NULL, mt_cpu_elementwise), 0);
      call(NULL, MT_EW_pow, t, want, in, NULL, mt_ref_elementwise);
      test_close(out, want, 1e-6, 0, "pow");
    }
}
END_TEST

/* ---- copies and fills ---- */

static int copy(mt_view *out, const mt_view *in, mt_parallel *par) {
  const mt_view *ins[1] = {in}, *outs[1] = {out};
  mt_kargs k = {.in = ins, .out = outs, .nin = 1, .nout = 1, .par = par, .isa = mt_isa_choose()};
  return mt_cpu_copy(&k);
}

/* What mt_ref_store leaves open: complex to bool, and floats that no integer holds. */
static mt_num converted(const mt_view *in, int64_t p, mt_dtype to) {
  mt_num x = mt_ref_load(in, p);
  if (to == MT_BOOL) return (mt_num){x.re != 0 || x.im != 0, 0};
  if (mt_dtype_category(to) == MT_CAT_INT && mt_dtype_category((mt_dtype)in->dtype) > MT_CAT_INT)
    x.re = x.re >= -0x1p63L && x.re < 0x1p63L ? truncl(x.re) : -0x1p63L;
  return x;
}

START_TEST(copies_convert_between_all_dtypes_and_layouts) {
  static const int64_t shapes[][3] = {{1, 1, 1},    {7, 5, 33},  {1, 70, 130}, {3, 40, 40},
                                      {1, 1, 3000}, {2, 600, 2}, {0, 3, 3},    {17, 1, 19}};
  const mt_dtype to = (mt_dtype)_i;
  test_seed((uint64_t)_i + 300);
  for (int from = 0; from < MT_NDTYPES; from++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int round = 0; round < 3; round++) {
        unsigned drop = round ? (unsigned)test_below(8) & (unsigned)test_below(8) : 0;
        mt_view *in = operand((mt_dtype)from, 3, shapes[s], drop, test_below(2),
                              (test_layout)test_below(TEST_LAYOUTS));
        if (in->numel > 4) {
          static const double odd[] = {NAN, 300.7, -1.5, 1e30};
          for (int i = 0; i < 4; i++)
            mt_ref_store(in, i, converted(test_list(MT_F64, 0, NULL, &odd[i]), 0, (mt_dtype)from));
        }
        mt_view *out = test_view(to, 3, shapes[s], (test_layout)test_below(TEST_LAYOUTS));
        mt_view *want = test_like(out, TEST_CONTIGUOUS);
        ck_assert_int_eq(copy(out, in, test_threads(1 + round)), MT_OK);
        for (int64_t p = 0; p < want->numel; p++) {
          mt_num x = converted(in, mt_ref_broadcast(in, want, p), to);
          if (to == MT_F16 || to == MT_BF16) x.re = (float)x.re;
          mt_ref_store(want, p, x);
        }
        test_same(out, want, mt_dtypes[from].name);
        test_free();
      }
}
END_TEST

START_TEST(large_transposes) {
  static const int64_t shapes[][4] = {{1, 1, 300, 517}, {2, 3, 64, 64}, {1, 9, 100, 33}};
  static const mt_dtype types[] = {MT_F32, MT_F64, MT_I16, MT_U8};
  test_seed(11);
  for (int s = 0; s < 3; s++)
    for (int d = 0; d < 4; d++)
      for (int swap = 0; swap < 2; swap++) {
        mt_view *in = test_values(types[d], 4, shapes[s], TEST_CONTIGUOUS), *v = test_copy(in);
        mt_view *out = test_like(in, TEST_PERMUTED), *want = test_copy(in);
        for (int64_t p = 0; p < 4; p++) v->size[p] = in->size[p];
        if (swap)
          copy(out, in, test_threads(2)), copy(v, out, test_threads(2));
        else
          copy(out, in, NULL);
        test_same(swap ? v : out, want, "transpose");
        test_free();
      }
}
END_TEST

START_TEST(ramps_and_fills) {
  const int64_t n[1] = {1001}, square[2] = {3, 5};
  mt_value arg[3] = {test_int(0), test_int(0), test_int(3)};
  const mt_view *outs[1] = {test_view(MT_I32, 1, n, TEST_CONTIGUOUS)};
  mt_kargs k = {.out = outs, .arg = arg, .nout = 1, .narg = 3, .isa = mt_isa_choose()};
  arg[0] = test_int(-7);
  ck_assert_int_eq(mt_cpu_arange(&k), MT_OK);
  for (int i = 0; i < 1001; i++) ck_assert(test_at(outs[0], i) == 3 * i - 7);
  outs[0] = test_view(MT_F64, 1, n, TEST_CONTIGUOUS);
  arg[0] = test_float(0.1);
  arg[2] = test_float(0.05);
  ck_assert_int_eq(mt_cpu_arange(&k), MT_OK);
  for (int i = 0; i < 1001; i++) ck_assert(test_at(outs[0], i) == 0.1 + i * 0.05);
  arg[1] = test_float(0.7);
  ck_assert_int_eq(mt_cpu_linspace(&k), MT_OK);
  ck_assert(test_at(outs[0], 0) == 0.1 && test_at(outs[0], 1000) == 0.7);
  ck_assert(fabs(test_at(outs[0], 500) - 0.4) < 1e-15);
  for (int layout = 0; layout < TEST_LAYOUTS; layout++) {
    outs[0] = test_view(MT_F16, 2, square, (test_layout)layout);
    arg[1] = test_float(1.5);
    ck_assert_int_eq(mt_cpu_fill(&k), MT_OK);
    for (int i = 0; i < 15; i++) ck_assert(test_at(outs[0], i) == 1.5);
    ck_assert_int_eq(mt_cpu_eye(&k), MT_OK);
    for (int i = 0; i < 15; i++) ck_assert(test_at(outs[0], i) == (i % 6 == 0));
  }
}
END_TEST

/* Arguments of no number kind between the parameters are passed over. */
START_TEST(parameters_follow_the_operands) {
  double x = 3;
  const mt_view *in[1] = {test_list(MT_F32, 0, NULL, &x)};
  mt_view *out = test_view(MT_F32, 0, NULL, TEST_CONTIGUOUS);
  const mt_view *outs[1] = {out};
  mt_value arg[4] = {{.kind = MT_TENSOR}, test_int(-1), test_str("x"), test_float(2.5)};
  mt_kargs k = {.in = in,
                .out = outs,
                .arg = arg,
                .nin = 1,
                .nout = 1,
                .narg = 4,
                .compute = MT_F32,
                .ew = MT_EW_hardtanh,
                .isa = mt_isa_choose()};
  ck_assert_int_eq(mt_cpu_elementwise(&k), MT_OK);
  ck_assert(test_at(out, 0) == 2.5);
  double seven = 7;
  const mt_view *whole[2] = {test_list(MT_I32, 0, NULL, &x), test_list(MT_I8, 0, NULL, &seven)};
  mt_value more[3] = {{.kind = MT_TENSOR}, {.kind = MT_TENSOR}, test_int(-2)};
  k.in = whole;
  k.arg = more;
  k.narg = 3;
  k.nin = 2;
  k.compute = MT_I64;
  k.ew = MT_EW_add;
  ck_assert_int_eq(mt_cpu_elementwise(&k), MT_OK);
  ck_assert(test_at(out, 0) == -11);
}
END_TEST

Suite *elementwise_suite(void) {
  Suite *s = suite_create("elementwise");
  TCase *c = tcase_create("elementwise");
  tcase_add_checked_fixture(c, NULL, test_free);
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, formulas_agree_with_the_reference, 1, MT_NEW);
  tcase_add_loop_test(c, results_do_not_depend_on_the_position, 1, MT_NEW);
  tcase_add_loop_test(c, any_dtypes_layouts_and_broadcasts, 0, SAMPLED);
  tcase_add_loop_test(c, large_and_awkward_shapes, 0, SAMPLED);
  tcase_add_loop_test(c, thread_counts_give_the_same_bits, 0, 5);
  tcase_add_loop_test(c, instruction_sets_give_the_same_bits, 0, 10);
  tcase_add_test(c, results_larger_than_the_caches);
  tcase_add_test(c, in_place_equals_out_of_place);
  tcase_add_test(c, integer_division_rounds_as_lua_does);
  tcase_add_test(c, integer_division_by_zero_is_an_error);
  tcase_add_test(c, remainders_of_floats);
  tcase_add_test(c, nan_wins_or_loses_by_rule);
  tcase_add_test(c, integers_wrap);
  tcase_add_test(c, powers_with_a_number);
  tcase_add_test(c, special_functions);
  tcase_add_test(c, parameters_follow_the_operands);
  tcase_add_loop_test(c, copies_convert_between_all_dtypes_and_layouts, 0, MT_NDTYPES);
  tcase_add_test(c, large_transposes);
  tcase_add_test(c, ramps_and_fills);
  suite_add_tcase(s, c);
  return s;
}
