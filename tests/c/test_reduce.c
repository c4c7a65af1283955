/* test_reduce.c - reductions against plain ones: every dtype, every subset of dims, permuted,
 * gapped, expanded and empty inputs, NaN, ties, long sums, and the same bits for any number of
 * threads. */
#include "support.h"

Suite *reduce_suite(void);

typedef struct reduction {
  const char *name;
  mt_kernel_fn fn, ref;
  mt_scratch_fn scratch;
  enum {
    ANY_TYPE,
    NOT_COMPLEX,
    FLOATS
  } takes;
  enum {
    SAME,
    WIDE,
    POSITIONS,
    TRUTH,
    COUNT,
    REAL
  } gives;
  int nout, nparam; /* parameters in front of the dims (norm) or behind (var) */
  double param;
  bool front, exact; /* exact: integers and small sums agree to the bit */
} reduction;

#define R(name) #name, mt_cpu_##name, mt_ref_##name, mt_cpu_##name##_scratch
static const reduction table[] = {
    {R(sum), ANY_TYPE, WIDE, 1, 0, 0, false, false},
    {R(mean), FLOATS, SAME, 1, 0, 0, false, false},
    {R(nansum), NOT_COMPLEX, WIDE, 1, 0, 0, false, false},
    {R(prod), ANY_TYPE, WIDE, 1, 0, 0, false, false},
    {R(amax), NOT_COMPLEX, SAME, 1, 0, 0, false, true},
    {R(amin), NOT_COMPLEX, SAME, 1, 0, 0, false, true},
    {R(argmax), NOT_COMPLEX, POSITIONS, 1, 0, 0, false, true},
    {R(argmin), NOT_COMPLEX, POSITIONS, 1, 0, 0, false, true},
    {R(max_dim), NOT_COMPLEX, SAME, 2, 0, 0, false, true},
    {R(min_dim), NOT_COMPLEX, SAME, 2, 0, 0, false, true},
    {R(any), ANY_TYPE, TRUTH, 1, 0, 0, false, true},
    {R(all), ANY_TYPE, TRUTH, 1, 0, 0, false, true},
    {R(count_nonzero), ANY_TYPE, COUNT, 1, 0, 0, false, true},
    {R(logsumexp), FLOATS, SAME, 1, 0, 0, false, false},
    {R(sum_squares), FLOATS, SAME, 1, 0, 0, false, false},
    {R(var), FLOATS, SAME, 1, 1, 1, false, false},
    {R(var), FLOATS, SAME, 1, 1, 0, false, false},
    {R(std), FLOATS, SAME, 1, 1, 1, false, false},
    {R(var_mean), FLOATS, SAME, 2, 1, 1, false, false},
    {R(std_mean), FLOATS, SAME, 2, 1, 1, false, false},
    {R(norm), FLOATS, REAL, 1, 1, 2, true, false},
    {R(norm), FLOATS, REAL, 1, 1, 1, true, false},
    {R(norm), FLOATS, REAL, 1, 1, 0, true, true},
    {R(norm), FLOATS, REAL, 1, 1, 3, true, false},
    {R(norm), FLOATS, REAL, 1, 1, 0.5, true, false},
    {R(norm), FLOATS, REAL, 1, 1, INFINITY, true, true},
    {R(norm), FLOATS, REAL, 1, 1, -INFINITY, true, true},
};
enum {
  NTABLE = sizeof table / sizeof *table
};

static double epsilon(mt_dtype d) {
  return d == MT_F16 ? 0x1p-10 : d == MT_BF16 ? 0x1p-7 : d == MT_F64 ? 0x1p-52 : 0x1p-23;
}

static bool takes(const reduction *r, mt_dtype d) {
  if (r->takes == FLOATS) return mt_dtype_is_float(d);
  return d != MT_C64 || r->takes == ANY_TYPE;
}

static mt_dtype gives(const reduction *r, mt_dtype d, int nth) {
  if (nth == 1) return r->gives == SAME && r->exact ? MT_I64 : d;
  switch (r->gives) {
    case WIDE:
      return mt_dtype_category(d) <= MT_CAT_INT ? MT_I64 : d;
    case POSITIONS:
    case COUNT:
      return MT_I64;
    case TRUTH:
      return d == MT_U8 ? MT_U8 : MT_BOOL;
    default:
      return d;
  }
}

/* The shape without the dims in mask, or with 1 in their place. */
static mt_view *result(mt_dtype d, const mt_view *x, unsigned mask, bool keep, test_layout layout) {
  int64_t size[MT_MAX_DIM];
  int n = 0;
  for (int e = 0; e < x->ndim; e++) {
    if (!(mask >> e & 1))
      size[n++] = x->size[e];
    else if (keep)
      size[n++] = 1;
  }
  mt_view *v = test_view(d, n, size, layout);
  return test_like(v, layout);
}

static void compare(const reduction *r, const mt_view *got, const mt_view *right) {
  mt_dtype d = (mt_dtype)right->dtype;
  bool exact = r->exact || mt_dtype_category(d) <= MT_CAT_INT;
  double eps = exact ? 0 : epsilon(d) * (r->ref == mt_ref_prod ? 64 : 8);
  test_close(got, right, eps, eps, r->name);
}

static void check(const reduction *r, const mt_view *x, unsigned mask) {
  static const int threads[] = {1, 2, 6};
  int64_t dims[MT_MAX_DIM];
  int n = 0;
  for (int d = 0; d < x->ndim; d++)
    if (mask >> d & 1) dims[n++] = d;
  mt_value list = n == x->ndim && mask % 2 ? test_nil() : test_ints(dims, n);
  if (n == 1) list = test_int(dims[0]);
  if (n == 0) mask = ~0u; /* an empty list reduces everything */
  test_call c = {.in = {x}, .k = {.index_base = 1}};
  c.arg[r->front ? 2 : 1] = list;
  if (r->nparam) c.arg[r->front ? 1 : 2] = test_float(r->param);
  mt_view *right[2], *got[2], *before[2] = {NULL, NULL};
  for (int o = 0; o < r->nout; o++) {
    mt_dtype d = gives(r, (mt_dtype)x->dtype, o);
    if (r->gives == REAL && d == MT_C64) d = MT_F32;
    c.out[o] = right[o] = result(d, x, mask, false, TEST_CONTIGUOUS);
  }
  ck_assert_int_eq(test_run(&c, 1, r->nout, 3, r->ref, NULL, NULL), MT_OK);
  for (int t = 0; t < 5; t++) { /* contiguous results, then other layouts */
    for (int o = 0; o < r->nout; o++) {
      c.out[o] = got[o] = result((mt_dtype)right[o]->dtype, x, mask, t == 1 || t == 4,
                                 (test_layout)(t < 3 ? 0 : t - 2));
    }
    ck_assert_int_eq(test_run(&c, 1, r->nout, 3, r->fn, r->scratch, test_threads(threads[t % 3])),
                     MT_OK);
    for (int o = 0; o < r->nout; o++) {
      mt_view *flat = test_like(right[o], TEST_CONTIGUOUS);
      for (int64_t i = 0; i < flat->numel; i++) mt_ref_store(flat, i, mt_ref_load(got[o], i));
      compare(r, flat, right[o]);
      if (before[o] && t < 3) test_same(flat, before[o], "another number of threads");
      before[o] = flat;
    }
  }
}

static bool has_identity(const reduction *r) {
  return !(r->exact && (r->gives == SAME || r->gives == POSITIONS || isinf(r->param)));
}

START_TEST(every_dtype_every_subset_of_dims) {
  const reduction *r = &table[_i];
  static const int64_t sizes[][4] = {{3, 4, 5, 6}, {2, 3, 1, 20}, {7, 2, 3, 2}, {2, 1, 33, 4}};
  for (int d = 0; d < MT_NDTYPES; d++) {
    if (!takes(r, (mt_dtype)d)) continue;
    for (unsigned mask = 0; mask < 16; mask++) {
      test_seed(mask * 31 + (unsigned)d);
      test_layout l = (test_layout)((mask + mask / 4 + (unsigned)d) % TEST_LAYOUTS);
      check(r, test_values((mt_dtype)d, 4, sizes[(mask + (unsigned)d) % 4], l), mask);
      test_free();
    }
  }
}
END_TEST

START_TEST(expanded_scalar_and_empty_inputs) {
  const reduction *r = &table[_i];
  int64_t none[1] = {0}, some[4] = {3, 0, 2, 5}, row[3] = {4, 1, 6};
  mt_view *x = test_values(MT_F32, 3, row, TEST_CONTIGUOUS);
  x->size[1] = 40; /* expanded: stride 0 */
  x->stride[1] = 0;
  x->numel *= 40;
  x->contiguous = false;
  for (unsigned mask = 0; mask < 8; mask++) check(r, x, mask);
  check(r, test_values(MT_F32, 0, none, TEST_CONTIGUOUS), 0);
  check(r, test_values(MT_F32, 0, none, TEST_CONTIGUOUS), 1);
  for (unsigned mask = 0; mask < 16; mask++) {
    bool nothing = mask == 0 || (mask & 2);
    if (nothing && !has_identity(r)) continue;
    check(r, test_values(MT_F32, 4, some, TEST_CONTIGUOUS), mask);
  }
  if (has_identity(r)) check(r, test_values(MT_F32, 1, none, TEST_CONTIGUOUS), 1);
  test_free();
}
END_TEST

/* Long rows, long columns, narrow columns, a few long results: every path of the driver. */
START_TEST(long_inputs_are_cut_alike_for_any_number_of_threads) {
  const reduction *r = &table[_i];
  static const struct {
    int64_t size[3];
    unsigned mask;
  } job[] = {{{1, 1, 70000}, 7}, {{2, 1, 66000}, 4}, {{1, 9000, 3}, 2}, {{1, 9000, 1}, 2},
             {{2, 300, 130}, 2},  {{1, 30, 1030}, 2}, {{70, 5, 64}, 2},  {{70, 5, 64}, 5},
             {{1, 1, 8193}, 4},   {{900, 3, 4}, 4},   {{900, 3, 4}, 1},  {{1, 3000, 40}, 2}};
  for (size_t j = 0; j < sizeof job / sizeof *job; j++) {
    static const mt_dtype types[] = {MT_F32, MT_F64, MT_BF16, MT_U8};
    for (int t = 0; t < 4; t++) {
      if (r->nout == 2 && r->nparam) continue; /* as var */
      if (!takes(r, types[t]) || (t > 0 && j < 4 && t != (int)j)) continue;
      test_seed(j);
      mt_view *x = test_values(types[t], 3, job[j].size, TEST_CONTIGUOUS);
      if (r->ref == mt_ref_prod) /* stays 1 or -1 */
        for (int64_t i = 0; i < x->numel; i++)
          mt_ref_store(x, i, (mt_num){test_below(2) || t > 2 ? 1 : -1, 0});
      check(r, x, job[j].mask);
      test_free();
    }
  }
}
END_TEST

START_TEST(nan_wins_and_the_first_of_ties_is_named) {
  static const int64_t sizes[][2] = {{3, 5}, {2, 100}, {100, 2}, {40, 40}, {2, 9000}, {9000, 2}};
  for (size_t s = 0; s < 6; s++) {
    for (int d = 0; d <= MT_I64; d++) {
      test_seed(s * 16 + (size_t)d);
      mt_view *x = test_view((mt_dtype)d, 2, sizes[s], (test_layout)(s % TEST_LAYOUTS));
      for (int64_t i = 0; i < x->numel; i++) {
        long double v = (long double)test_below(3);
        if (mt_dtype_is_float((mt_dtype)d) && test_below(x->numel / 3) == 0) v = NAN;
        if (mt_dtype_is_float((mt_dtype)d) && test_below(50) == 0) v = INFINITY;
        mt_ref_store(x, i, (mt_num){v, 0});
      }
      for (int i = 4; i < NTABLE; i++) {
        if (takes(&table[i], (mt_dtype)d) && table[i].exact)
          for (unsigned mask = 1; mask < 4; mask++)
            if (sizes[s][0] * sizes[s][1] < 5000 || mask == 3 || sizes[s][mask == 1 ? 1 : 0] == 2)
              check(&table[i], x, mask);
      }
      check(&table[2], x, 3); /* nansum */
      test_free();
    }
  }
}
END_TEST

static double one(mt_kernel_fn fn, mt_scratch_fn scratch, const mt_view *x, mt_dtype out,
                  double param) {
  test_call c = {.in = {x}, .arg = {test_nil(), test_nil(), test_float(param)}};
  mt_view *y = test_view(out, 0, NULL, TEST_CONTIGUOUS);
  c.out[0] = y;
  ck_assert_int_eq(test_run(&c, 1, 1, 3, fn, scratch, test_threads(2)), MT_OK);
  return test_at(y, 0);
}
#define ONE(name, x, out, param) one(mt_cpu_##name, mt_cpu_##name##_scratch, x, out, param)

static mt_view *full(mt_dtype d, int64_t n, double v) {
  mt_view *x = test_view(d, 1, &n, TEST_CONTIGUOUS);
  for (int64_t i = 0; i < n; i++) mt_ref_store(x, i, (mt_num){v, 0});
  return x;
}

START_TEST(halves_are_summed_in_single_and_rounded_once) {
  ck_assert(ONE(sum, full(MT_F16, 4096, 1), MT_F16, 0) == 4096);
  ck_assert(ONE(sum, full(MT_F16, 20000, 1), MT_F16, 0) == 20000);
  ck_assert(ONE(sum, full(MT_BF16, 70000, 1), MT_BF16, 0) == 70144);
  ck_assert(ONE(mean, full(MT_BF16, 70000, 1), MT_BF16, 0) == 1);
  ck_assert(ONE(mean, full(MT_F16, 100000, 1), MT_F16, 0) == 1);
  ck_assert(isinf(ONE(sum, full(MT_F16, 100000, 1), MT_F16, 0)));
  test_free();
}
END_TEST

START_TEST(long_sums_are_exact_to_rounding) {
  int64_t n = 20000000;
  mt_view *x = test_view(MT_F32, 1, &n, TEST_CONTIGUOUS);
  for (int64_t i = 0; i < n; i++) ((float *)x->data)[i] = 0.1f;
  double right = (double)n * (double)0.1f;
  ck_assert(fabs(ONE(sum, x, MT_F32, 0) - right) <= right * 0x1p-22);
  ck_assert(fabs(ONE(mean, x, MT_F32, 0) - (double)0.1f) < 1e-9);
  ck_assert(ONE(var, x, MT_F32, 1) < 1e-15);
  test_free();
}
END_TEST

START_TEST(variance_does_not_cancel) {
  int64_t n = 100000;
  mt_view *x = test_view(MT_F32, 1, &n, TEST_CONTIGUOUS);
  for (int64_t i = 0; i < n; i++) mt_ref_store(x, i, (mt_num){1e6L + (i % 2), 0});
  ck_assert(fabs(ONE(var, x, MT_F32, 0) - 0.25) < 1e-6);
  ck_assert(isnan(ONE(var, full(MT_F32, 1, 5), MT_F32, 1)));
  ck_assert(ONE(std, full(MT_F32, 1, 5), MT_F32, 0) == 0);
  ck_assert(isnan(ONE(std, full(MT_F32, 0, 5), MT_F32, 1)));
  test_free();
}
END_TEST

START_TEST(logsumexp_of_infinities) {
  static const double in[][2] = {{-INFINITY, -INFINITY}, {INFINITY, 1},  {INFINITY, -INFINITY},
                                 {INFINITY, INFINITY},   {NAN, 1},       {1000, 1000},
                                 {-1000, -1000},         {NAN, INFINITY}};
  static const double out[] = {-INFINITY, INFINITY,          INFINITY,           INFINITY,
                               NAN,       1000.693147180560, -999.3068528194400, NAN};
  int64_t n = 2;
  for (int i = 0; i < 8; i++) {
    double y = ONE(logsumexp, test_list(MT_F64, 1, &n, in[i]), MT_F64, 0);
    ck_assert(isnan(out[i]) ? isnan(y) : y == out[i] || fabs(y - out[i]) < 1e-9);
  }
  ck_assert(ONE(logsumexp, full(MT_F64, 0, 0), MT_F64, 0) == -INFINITY);
  test_free();
}
END_TEST

START_TEST(sums_take_the_asked_type_and_integers_wrap) {
  ck_assert(ONE(sum, full(MT_U8, 256, 1), MT_I64, 0) == 256);
  ck_assert(ONE(sum, full(MT_BOOL, 3, 1), MT_I64, 0) == 3);
  ck_assert(ONE(sum, full(MT_I8, 2, 100), MT_I64, 0) == 200);
  ck_assert(ONE(sum, full(MT_F32, 4, 1.75), MT_I64, 0) == 4);
  ck_assert(ONE(sum, full(MT_I32, 4, 3), MT_F32, 0) == 12);
  ck_assert(ONE(mean, full(MT_I32, 4, 3), MT_F64, 0) == 3);
  ck_assert(ONE(sum, full(MT_I64, 2, 0x1p62), MT_I64, 0) == -0x1p63);
  ck_assert(isnan(ONE(mean, full(MT_F32, 0, 0), MT_F32, 0)));
  test_free();
}
END_TEST

Suite *reduce_suite(void) {
  Suite *s = suite_create("reduce");
  TCase *t = tcase_create("against plain");
  tcase_set_timeout(t, 120);
  tcase_add_checked_fixture(t, NULL, test_free);
  tcase_add_loop_test(t, every_dtype_every_subset_of_dims, 0, NTABLE);
  tcase_add_loop_test(t, expanded_scalar_and_empty_inputs, 0, NTABLE);
  tcase_add_loop_test(t, long_inputs_are_cut_alike_for_any_number_of_threads, 0, NTABLE);
  suite_add_tcase(s, t);
  t = tcase_create("values");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, NULL, test_free);
  tcase_add_test(t, nan_wins_and_the_first_of_ties_is_named);
  tcase_add_test(t, halves_are_summed_in_single_and_rounded_once);
  tcase_add_test(t, long_sums_are_exact_to_rounding);
  tcase_add_test(t, variance_does_not_cancel);
  tcase_add_test(t, logsumexp_of_infinities);
  tcase_add_test(t, sums_take_the_asked_type_and_integers_wrap);
  suite_add_tcase(s, t);
  return s;
}
