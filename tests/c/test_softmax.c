/* test_softmax.c - softmax and log_softmax, forward and backward, against plain ones: every float
 * dtype, dim and layout, long rows, many columns, infinities, and the same bits for any number of
 * threads. */
#include "support.h"

Suite *softmax_suite(void);

typedef struct kernel {
  const char *name;
  mt_kernel_fn fn, ref;
  mt_scratch_fn scratch;
  int nin;
} kernel;
#define K(name, nin) \
  { #name, mt_cpu_##name, mt_ref_##name, mt_cpu_##name##_scratch, nin }
static const kernel table[] = {K(softmax, 1), K(log_softmax, 1), K(softmax_back, 2),
                               K(log_softmax_back, 2)};

static double epsilon(mt_dtype d) {
  return d == MT_F16 ? 0x1p-10 : d == MT_BF16 ? 0x1p-7 : d == MT_F64 ? 0x1p-52 : 0x1p-23;
}

static void check(const kernel *f, const mt_view *a, const mt_view *b, int dim, test_layout out) {
  static const int threads[] = {1, 2, 6};
  test_call c = {.in = {a, b}, .arg = {test_nil()}};
  c.arg[f->nin] = test_int(dim);
  mt_view *right = test_like(a, TEST_CONTIGUOUS), *before = NULL;
  c.out[0] = right;
  ck_assert_int_eq(test_run(&c, f->nin, 1, f->nin + 1, f->ref, NULL, NULL), MT_OK);
  double eps = epsilon((mt_dtype)a->dtype) * 8;
  for (int t = 0; t < 3; t++) {
    mt_view *got = test_like(a, out);
    c.out[0] = got;
    ck_assert_int_eq(
        test_run(&c, f->nin, 1, f->nin + 1, f->fn, f->scratch, test_threads(threads[t])), MT_OK);
    test_close(got, right, eps, eps, f->name);
    if (before) test_same(got, before, "another number of threads");
    before = got;
  }
}

START_TEST(every_dtype_dim_and_layout) {
  static const int64_t size[][4] = {{2, 3, 4, 5}, {3, 1, 17, 2}, {1, 9, 2, 33}};
  for (int i = 0; i < 4; i++)
    for (int d = MT_F64; d <= MT_BF16; d++)
      for (int dim = 0; dim < 4; dim++)
        for (int l = 0; l < 9; l++) {
          test_seed((uint64_t)(l * 4 + dim));
          mt_view *a = test_values((mt_dtype)d, 4, size[(l + dim) % 3], (test_layout)(l % 3));
          mt_view *b = test_values((mt_dtype)d, 4, size[(l + dim) % 3], (test_layout)(l / 3));
          check(&table[i], a, b, dim, (test_layout)((l + l / 3) % 3));
        }
}
END_TEST

START_TEST(long_rows_and_many_columns) {
  static const int64_t size[][2] = {{40, 900}, {900, 40}, {3, 5000}, {5000, 3}, {1, 1}, {300, 20}};
  for (int i = 0; i < 4; i++)
    for (int s = 0; s < 6; s++)
      for (int dim = 0; dim < 2; dim++) {
        if (size[s][dim] > 1000 && size[s][1 - dim] > 10) continue;
        if (size[s][dim] >= 900 && s < 2) continue; /* the plain one is quadratic */
        mt_dtype d = s % 2 ? MT_F32 : MT_BF16;
        test_seed((uint64_t)(s * 2 + dim));
        mt_view *a = test_values(d, 2, size[s], TEST_CONTIGUOUS);
        mt_view *b = test_values(d, 2, size[s], TEST_CONTIGUOUS);
        if (size[s][dim] <= 1000) check(&table[i], a, b, dim, TEST_CONTIGUOUS);
      }
}
END_TEST

START_TEST(masked_rows_and_causal_rows) {
  static const int64_t size[][4] = {{2, 3, 5, 7}, {1, 2, 40, 40}, {3, 1, 4, 6}};
  for (int i = 0; i < 72; i++) {
    const int64_t *s = size[i % 3];
    int64_t small[4] = {i & 8 ? s[0] : 1, i & 4 ? s[1] : 1, s[2], i & 16 ? s[3] : 1};
    int ndim = 2 + i % 2 * 2, kind = i / 3 % 3; /* no mask, bool, float */
    mt_dtype d = (mt_dtype)(i % 4);
    test_seed((uint64_t)i);
    mt_view *x = test_values(d, 4, s, (test_layout)(i % 3));
    mt_view *mask = kind == 0 ? NULL
                              : test_values(kind == 1 ? MT_BOOL : d, ndim, small + 4 - ndim,
                                            (test_layout)(i / 2 % 3));
    for (int64_t j = 0; kind == 2 && j < mask->numel; j++)
      if (test_below(2)) mt_ref_store(mask, j, (mt_num){-INFINITY, 0});
    mt_view *right = test_like(x, TEST_CONTIGUOUS), *got = test_like(x, (test_layout)(i / 4 % 3));
    test_call c = {.in = {x, mask}, .out = {right}};
    c.arg[2] = test_bool(i % 5 < 3);
    ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_ref_masked_softmax, NULL, NULL), MT_OK);
    c.out[0] = got;
    ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_masked_softmax, mt_cpu_masked_softmax_scratch,
                              test_threads(2)),
                     MT_OK);
    test_close(got, right, epsilon(d) * 4, epsilon(d), "masked_softmax");
  }
}
END_TEST

START_TEST(scalar_and_empty) {
  int64_t empty[3] = {2, 0, 3};
  for (int i = 0; i < 4; i++) {
    mt_view *x = test_values(MT_F32, 0, empty, TEST_CONTIGUOUS);
    check(&table[i], x, x, 0, TEST_CONTIGUOUS);
    x = test_values(MT_F32, 3, empty, TEST_CONTIGUOUS);
    for (int dim = 0; dim < 3; dim++) check(&table[i], x, x, dim, TEST_CONTIGUOUS);
  }
}
END_TEST

static mt_view *run1(mt_kernel_fn fn, mt_scratch_fn scratch, const mt_view *x, int dim) {
  test_call c = {.in = {x}, .arg = {test_nil(), test_int(dim)}};
  mt_view *y = test_like(x, TEST_CONTIGUOUS);
  c.out[0] = y;
  ck_assert_int_eq(test_run(&c, 1, 1, 2, fn, scratch, NULL), MT_OK);
  return y;
}

START_TEST(rows_of_minus_infinity_are_nan) {
  static const double v[] = {-INFINITY, -INFINITY, 0, -INFINITY, 1000, 1000, -1e30, 1e30};
  static const double y[] = {NAN, NAN, 1, 0, 0.5, 0.5, 0, 1};
  static const double ly[] = {NAN,   NAN, 0, -INFINITY, -0.6931471824645996, -0.6931471824645996,
                              -2e30, 0};
  int64_t size[2] = {4, 2};
  for (int d = MT_F64; d <= MT_F32; d++) {
    mt_view *x = test_list((mt_dtype)d, 2, size, v);
    mt_view *e = test_list((mt_dtype)d, 2, size, y), *le = test_list((mt_dtype)d, 2, size, ly);
    for (int t = 0; t < 2; t++) {
      if (t == 1) { /* the same in columns */
        mt_view *w = test_view((mt_dtype)d, 2, size, TEST_PERMUTED);
        for (int64_t i = 0; i < 8; i++) mt_ref_store(w, i, mt_ref_load(x, i));
        x = w;
      }
      test_close(run1(mt_cpu_softmax, mt_cpu_softmax_scratch, x, 1), e, 1e-7, 0, "softmax");
      test_close(run1(mt_cpu_log_softmax, mt_cpu_log_softmax_scratch, x, 1), le, 1e-6, 0, "log");
    }
  }
}
END_TEST

Suite *softmax_suite(void) {
  Suite *s = suite_create("softmax");
  TCase *t = tcase_create("softmax");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, NULL, test_free);
  tcase_add_test(t, every_dtype_dim_and_layout);
  tcase_add_test(t, long_rows_and_many_columns);
  tcase_add_test(t, masked_rows_and_causal_rows);
  tcase_add_test(t, scalar_and_empty);
  tcase_add_test(t, rows_of_minus_infinity_are_nan);
  suite_add_tcase(s, t);
  return s;
}
