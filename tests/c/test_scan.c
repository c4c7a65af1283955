/* test_scan.c - running sums, products, logsumexps and extremes against plain ones: every dtype,
 * dim and layout, NaN, and the same bits for any number of threads. */
#include "support.h"

Suite *scan_suite(void);

typedef struct scan {
  const char *name;
  mt_kernel_fn fn, ref;
  mt_scratch_fn scratch;
  bool wide, floats, pair; /* integers give int64; floats only; positions as second result */
} scan;
#define S(name) #name, mt_cpu_##name, mt_ref_##name, mt_cpu_##name##_scratch
static const scan table[] = {{S(cumsum), true, false, false},
                             {S(cumprod), true, false, false},
                             {S(logcumsumexp), false, true, false},
                             {S(cummax), false, false, true},
                             {S(cummin), false, false, true}};

static double epsilon(mt_dtype d) {
  return d == MT_F16 ? 0x1p-10 : d == MT_BF16 ? 0x1p-7 : d == MT_F64 ? 0x1p-50 : 0x1p-22;
}

static mt_view *shaped(const mt_view *x, mt_dtype d, test_layout l) {
  return test_like(test_view(d, x->ndim, x->size, l), l);
}

static void check(const scan *s, const mt_view *x, int dim, test_layout out) {
  static const int threads[] = {1, 2, 6};
  mt_dtype d = (mt_dtype)x->dtype;
  if (s->wide && mt_dtype_category(d) <= MT_CAT_INT) d = MT_I64;
  test_call c = {.in = {x}, .arg = {test_nil(), test_int(dim)}, .k = {.index_base = 1}};
  mt_view *right[2] = {shaped(x, d, TEST_CONTIGUOUS), shaped(x, MT_I64, TEST_CONTIGUOUS)};
  mt_view *first[2] = {NULL, NULL};
  int nout = s->pair ? 2 : 1;
  for (int o = 0; o < nout; o++) c.out[o] = right[o];
  ck_assert_int_eq(test_run(&c, 1, nout, 2, s->ref, NULL, NULL), MT_OK);
  for (int t = 0; t < 3; t++) {
    mt_view *got[2] = {shaped(x, d, out), shaped(x, MT_I64, out)};
    for (int o = 0; o < nout; o++) c.out[o] = got[o];
    ck_assert_int_eq(test_run(&c, 1, nout, 2, s->fn, s->scratch, test_threads(threads[t])), MT_OK);
    double eps = s->pair || mt_dtype_category(d) <= MT_CAT_INT ? 0 : epsilon(d) * 4;
    for (int o = 0; o < nout; o++) {
      test_close(got[o], right[o], eps, eps, s->name);
      if (t) test_same(got[o], first[o], "another number of threads");
      first[o] = got[o];
    }
  }
}

START_TEST(every_dtype_dim_and_layout) {
  static const int64_t size[][3] = {{4, 5, 6}, {9, 1, 7}, {2, 12, 70}, {3, 0, 4}};
  const scan *s = &table[_i];
  for (int d = 0; d < MT_NDTYPES; d++) {
    if (d == MT_C64 && (s->floats || s->pair)) continue;
    if (s->floats && !mt_dtype_is_float((mt_dtype)d)) continue;
    for (int dim = 0; dim < 3; dim++)
      for (int i = 0; i < 4; i++) {
        test_seed((uint64_t)(d * 16 + dim * 4 + i));
        mt_view *x = test_values((mt_dtype)d, 3, size[i], (test_layout)((dim + i + d) % 3));
        check(s, x, dim, (test_layout)((i + d) % 3));
      }
    test_free();
  }
  check(s, test_values(MT_F32, 0, NULL, TEST_CONTIGUOUS), 0, TEST_CONTIGUOUS);
}
END_TEST

START_TEST(nan_stays_and_the_last_of_ties_is_named) {
  static const double v[] = {1, 3, 3, 2, NAN, 5, NAN, 7, -INFINITY, -INFINITY, 0, INFINITY, 1, 1};
  int64_t n = 14, two[2] = {7, 2};
  for (int i = 2; i < 5; i++) {
    for (int64_t k = 0; k < 14; k++) { /* every rotation */
      double w[14];
      for (int64_t j = 0; j < 14; j++) w[j] = v[(j + k) % 14];
      check(&table[i], test_list(MT_F64, 1, &n, w), 0, TEST_CONTIGUOUS);
      check(&table[i], test_list(MT_F32, 2, two, w), 0, TEST_CONTIGUOUS);
    }
  }
}
END_TEST

START_TEST(long_runs_and_many_runs) {
  static const int64_t size[][2] = {{2, 900}, {200, 70}, {70, 200}};
  for (int i = 0; i < 5; i++)
    for (int s = 0; s < 3; s++)
      for (int dim = 0; dim < 2; dim++) {
        if (table[i].wide && i == 1) continue; /* products overflow */
        check(&table[i], test_values(MT_F32, 2, size[s], TEST_CONTIGUOUS), dim, TEST_CONTIGUOUS);
        test_free();
      }
}
END_TEST

Suite *scan_suite(void) {
  Suite *s = suite_create("scan");
  TCase *t = tcase_create("scan");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, NULL, test_free);
  tcase_add_loop_test(t, every_dtype_dim_and_layout, 0, 5);
  tcase_add_test(t, nan_stays_and_the_last_of_ties_is_named);
  tcase_add_test(t, long_runs_and_many_runs);
  suite_add_tcase(s, t);
  return s;
}
