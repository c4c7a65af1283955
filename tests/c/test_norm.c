/* test_norm.c - layer, rms, group and batch norm, forward and backward, against plain ones: every
 * float dtype and layout, with and without weight and bias, empty inputs, data far from zero, and
 * the same bits for any number of threads. */
#include "support.h"

Suite *norm_suite(void);

static double epsilon(mt_dtype d) {
  return d == MT_F16 ? 0x1p-10 : d == MT_BF16 ? 0x1p-7 : d == MT_F64 ? 0x1p-48 : 0x1p-20;
}

/* Runs c's plain kernel, then the fast one with 1, 2 and 6 threads on results of the layouts given;
 * inputs from `changed` on are written by both, and compared too. */
static void compare(test_call *c, int nin, int nout, int narg, mt_kernel_fn fn, mt_kernel_fn ref,
                    mt_scratch_fn scratch, test_layout layout, int changed, const char *what) {
  static const int threads[] = {1, 2, 6};
  const mt_view *shape[4], *in[24], *right[4], *first[4] = {0}, *right_in[24];
  for (int i = 0; i < nin; i++) in[i] = c->in[i];
  for (int i = changed; i < nin; i++) c->in[i] = right_in[i] = in[i] ? test_copy(in[i]) : NULL;
  for (int o = 0; o < nout; o++) {
    shape[o] = c->out[o];
    c->out[o] = right[o] = test_like(shape[o], TEST_CONTIGUOUS);
  }
  ck_assert_int_eq(test_run(c, nin, nout, narg, ref, NULL, NULL), MT_OK);
  for (int t = 0; t < 3; t++) {
    for (int i = changed; i < nin; i++) c->in[i] = in[i] ? test_copy(in[i]) : NULL;
    for (int o = 0; o < nout; o++) c->out[o] = test_like(shape[o], o ? TEST_CONTIGUOUS : layout);
    ck_assert_int_eq(test_run(c, nin, nout, narg, fn, scratch, test_threads(threads[t])), MT_OK);
    for (int o = 0; o < nout; o++) {
      double eps = epsilon((mt_dtype)right[o]->dtype);
      test_close(c->out[o], right[o], eps * 4, eps * 8, what);
      if (t) test_same(c->out[o], first[o], "another number of threads");
      first[o] = c->out[o];
    }
    for (int i = changed; i < nin; i++)
      if (in[i]) test_close(c->in[i], right_in[i], 1e-5, 1e-5, what);
  }
  for (int i = 0; i < nin; i++) c->in[i] = in[i];
  for (int o = 0; o < nout; o++) c->out[o] = shape[o];
}
#define COMPARE(c, nin, nout, narg, name, layout, changed)                                   \
  compare(c, nin, nout, narg, mt_cpu_##name, mt_ref_##name, mt_cpu_##name##_scratch, layout, \
          changed, #name)

static mt_dtype stat_type(mt_dtype d) { return d == MT_F64 ? MT_F64 : MT_F32; }

static mt_view *positive(mt_dtype d, int ndim, const int64_t *size) {
  mt_view *v = test_view(d, ndim, size, TEST_CONTIGUOUS);
  for (int64_t i = 0; i < v->numel; i++)
    mt_ref_store(v, i, (mt_num){0.25L + (long double)test_below(8) / 8, 0});
  return v;
}

static void check_layer(mt_dtype d, int ndim, const int64_t *size, int ninner, int seed) {
  int64_t runs = 1;
  for (int e = 0; e < ndim - ninner; e++) runs *= size[e];
  const int64_t *inner = size + ndim - ninner;
  test_layout l = (test_layout)(seed % 3), l2 = (test_layout)(seed / 3 % 3);
  mt_view *x = test_values(d, ndim, size, l), *g = test_values(d, ndim, size, l2);
  mt_view *w = seed & 1 ? test_values(d, ninner, inner, (test_layout)(seed / 2 % 3)) : NULL;
  mt_view *b = seed & 2 ? test_values(d, ninner, inner, TEST_CONTIGUOUS) : NULL;
  mt_view *mean = test_values(stat_type(d), 1, &runs, TEST_CONTIGUOUS);
  mt_view *rstd = positive(stat_type(d), 1, &runs);
  mt_value shape = test_ints(inner, ninner);
  test_call c = {.in = {x, w, b}, .out = {x, mean, rstd}, .arg = {test_nil(), shape}};
  c.arg[4] = test_float(1e-3);
  COMPARE(&c, 3, 3, 5, layer_norm, l2, 3);
  c.in[2] = NULL;
  c.out[1] = rstd;
  c.arg[3] = test_float(1e-3);
  COMPARE(&c, 2, 2, 4, rms_norm, l, 3);
  mt_view *gw = test_view(d, ninner, inner, TEST_CONTIGUOUS);
  test_call back = {.in = {g, x, mean, rstd, w}, .out = {x, gw, gw}};
  back.arg[5] = shape;
  COMPARE(&back, 5, 3, 6, layer_norm_back, l, 5);
  test_call rms = {.in = {g, x, rstd, w}, .out = {x, gw}};
  rms.arg[4] = shape;
  COMPARE(&rms, 4, 2, 5, rms_norm_back, l2, 4);
}

START_TEST(layer_and_rms) {
  static const int64_t size[][4] = {{3, 2, 4, 5}, {1, 7, 3, 11}, {5, 3, 1, 2}};
  for (int d = MT_F64; d <= MT_BF16; d++)
    for (int i = 0; i < 18; i++) {
      test_seed((uint64_t)(d * 32 + i));
      check_layer((mt_dtype)d, 4, size[i % 3], 1 + i / 3 % 4, i);
      test_free();
    }
  int64_t many[2] = {300, 9}, wide[2] = {3, 1500}, none[2] = {0, 4};
  check_layer(MT_F32, 2, many, 1, 3);
  check_layer(MT_F32, 2, wide, 1, 3);
  check_layer(MT_F32, 2, none, 1, 3);
}
END_TEST

static void check_group(mt_dtype d, int ndim, const int64_t *size, int64_t groups, int seed) {
  int64_t runs = size[0] * groups, channels = size[1];
  test_layout l = (test_layout)(seed % 3), l2 = (test_layout)(seed / 3 % 3);
  mt_view *x = test_values(d, ndim, size, l), *g = test_values(d, ndim, size, l2);
  mt_view *w = seed & 1 ? test_values(d, 1, &channels, (test_layout)(seed % 3)) : NULL;
  mt_view *b = seed & 2 ? test_values(d, 1, &channels, TEST_CONTIGUOUS) : NULL;
  mt_view *mean = test_values(stat_type(d), 1, &runs, TEST_CONTIGUOUS);
  mt_view *rstd = positive(stat_type(d), 1, &runs);
  test_call c = {.in = {x, w, b}, .out = {x, mean, rstd}, .arg = {test_nil(), test_int(groups)}};
  c.arg[4] = test_float(1e-2);
  COMPARE(&c, 3, 3, 5, group_norm, l2, 3);
  mt_view *gw = test_view(d, 1, &channels, TEST_CONTIGUOUS);
  test_call back = {.in = {g, x, mean, rstd, w}, .out = {x, gw, gw}};
  back.arg[5] = test_int(groups);
  COMPARE(&back, 5, 3, 6, group_norm_back, l, 5);
}

START_TEST(group) {
  static const int64_t size[][4] = {{3, 4, 2, 5}, {2, 6, 1, 1}, {1, 2, 3, 40}, {0, 4, 2, 2}};
  for (int d = MT_F64; d <= MT_BF16; d++)
    for (int i = 0; i < 18; i++) {
      test_seed((uint64_t)(d * 32 + i));
      check_group((mt_dtype)d, 2 + i % 3, size[i % 4], i & 4 ? 2 : i & 8 ? size[i % 4][1] : 1, i);
      test_free();
    }
}
END_TEST

static void check_batch(mt_dtype d, int ndim, const int64_t *size, int seed) {
  int64_t channels = size[1];
  bool training = seed / 2 % 2;
  test_layout l = (test_layout)(seed % 3), l2 = (test_layout)(seed / 3 % 3);
  mt_view *x = test_values(d, ndim, size, l), *g = test_values(d, ndim, size, l2);
  mt_view *w = seed & 1 ? test_values(d, 1, &channels, l2) : NULL;
  mt_view *b = seed & 4 ? test_values(d, 1, &channels, TEST_CONTIGUOUS) : NULL;
  mt_view *rm = seed & 8 && training ? NULL : test_values(stat_type(d), 1, &channels, l);
  mt_view *rv = rm ? positive(stat_type(d), 1, &channels) : NULL;
  mt_view *mean = test_values(stat_type(d), 1, &channels, TEST_CONTIGUOUS);
  mt_view *rstd = positive(stat_type(d), 1, &channels);
  test_call c = {.in = {x, rm, rv, w, b}, .out = {x, mean, rstd}};
  c.arg[5] = test_bool(training);
  c.arg[6] = test_float(0.2);
  c.arg[7] = test_float(1e-2);
  COMPARE(&c, 5, 3, 8, batch_norm, l2, 1);
  mt_view *gw = test_view(d, 1, &channels, TEST_CONTIGUOUS);
  test_call back = {.in = {g, x, mean, rstd, w}, .out = {x, gw, gw}};
  back.arg[5] = test_bool(training);
  COMPARE(&back, 5, 3, 6, batch_norm_back, l, 5);
}

START_TEST(batch) {
  static const int64_t size[][4] = {{3, 4, 2, 5}, {6, 3, 5, 4}, {7, 5, 3, 1}, {2, 2, 9, 9}};
  for (int d = MT_F64; d <= MT_BF16; d++)
    for (int i = 0; i < 24; i++) {
      test_seed((uint64_t)(d * 32 + i));
      check_batch((mt_dtype)d, 2 + i % 3, size[(i + d) % 4], i);
      test_free();
    }
  int64_t many[2] = {400, 7};
  check_batch(MT_F32, 2, many, 3);
  check_batch(MT_F32, 2, many, 1);
}
END_TEST

START_TEST(data_far_from_zero_keeps_its_shape) {
  int64_t size[2] = {2, 64}, runs = 2;
  mt_view *x = test_view(MT_F32, 2, size, TEST_CONTIGUOUS);
  for (int64_t i = 0; i < 128; i++) mt_ref_store(x, i, (mt_num){1e6L + (i % 2), 0});
  mt_view *y = test_like(x, TEST_CONTIGUOUS), *s = test_view(MT_F32, 1, &runs, TEST_CONTIGUOUS);
  test_call c = {.in = {x, NULL, NULL}, .out = {y, test_copy(s), s}};
  c.arg[1] = test_ints(size + 1, 1);
  c.arg[4] = test_float(0);
  ck_assert_int_eq(test_run(&c, 3, 3, 5, mt_cpu_layer_norm, mt_cpu_layer_norm_scratch, NULL),
                   MT_OK);
  for (int64_t i = 0; i < 128; i++) ck_assert(fabs(test_at(y, i) - (i % 2 ? 1 : -1)) < 1e-5);
}
END_TEST

START_TEST(running_statistics_take_the_unbiased_variance) {
  static const double v[] = {1, 3};
  int64_t size[2] = {2, 1}, one = 1;
  double zero = 0, unit = 1;
  mt_view *x = test_list(MT_F32, 2, size, v), *y = test_like(x, TEST_CONTIGUOUS);
  mt_view *rm = test_list(MT_F32, 1, &one, &zero), *rv = test_list(MT_F32, 1, &one, &unit);
  test_call c = {.in = {x, rm, rv, NULL, NULL},
                 .out = {y, test_list(MT_F32, 1, &one, &zero), test_list(MT_F32, 1, &one, &zero)}};
  c.arg[5] = test_bool(true);
  c.arg[6] = test_float(0.1);
  c.arg[7] = test_float(1e-5);
  ck_assert_int_eq(test_run(&c, 5, 3, 8, mt_cpu_batch_norm, mt_cpu_batch_norm_scratch, NULL),
                   MT_OK);
  ck_assert(fabs(test_at(y, 0) + 0.999995) < 1e-6 && fabs(test_at(y, 1) - 0.999995) < 1e-6);
  ck_assert(fabs(test_at(rm, 0) - 0.2) < 1e-6 && fabs(test_at(rv, 0) - 1.1) < 1e-6);
}
END_TEST

Suite *norm_suite(void) {
  Suite *s = suite_create("norm");
  TCase *t = tcase_create("norm");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, NULL, test_free);
  tcase_add_test(t, layer_and_rms);
  tcase_add_test(t, group);
  tcase_add_test(t, batch);
  tcase_add_test(t, data_far_from_zero_keeps_its_shape);
  tcase_add_test(t, running_statistics_take_the_unbiased_variance);
  suite_add_tcase(s, t);
  return s;
}
