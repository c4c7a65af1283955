/* test_loss.c - cross entropy and negative log likelihood against plain ones: every float dtype,
 * layout and reduction, weights, ignored and bad targets, and the same bits for any number of
 * threads. */
#include "support.h"

Suite *loss_suite(void);

static double epsilon(mt_dtype d) {
  return d == MT_F16 ? 0x1p-10 : d == MT_BF16 ? 0x1p-7 : d == MT_F64 ? 0x1p-50 : 0x1p-21;
}

static void compare(test_call *c, int nin, int nout, int narg, mt_kernel_fn fn, mt_kernel_fn ref,
                    mt_scratch_fn scratch, test_layout layout, const char *what) {
  static const int threads[] = {1, 2, 6};
  const mt_view *shape[4], *right[4], *first[4] = {0};
  for (int o = 0; o < nout; o++) {
    shape[o] = c->out[o];
    c->out[o] = right[o] = test_like(shape[o], TEST_CONTIGUOUS);
  }
  ck_assert_int_eq(test_run(c, nin, nout, narg, ref, NULL, NULL), MT_OK);
  for (int t = 0; t < 3; t++) {
    for (int o = 0; o < nout; o++) c->out[o] = test_like(shape[o], o ? TEST_CONTIGUOUS : layout);
    ck_assert_int_eq(test_run(c, nin, nout, narg, fn, scratch, test_threads(threads[t])), MT_OK);
    for (int o = 0; o < nout; o++) {
      double eps = epsilon((mt_dtype)right[o]->dtype);
      test_close(c->out[o], right[o], eps * 4, eps * 4, what);
      if (t) test_same(c->out[o], first[o], "another number of threads");
      first[o] = c->out[o];
    }
  }
  for (int o = 0; o < nout; o++) c->out[o] = right[o];
}
#define COMPARE(c, nin, nout, narg, name, layout) \
  compare(c, nin, nout, narg, mt_cpu_##name, mt_ref_##name, mt_cpu_##name##_scratch, layout, #name)

static void check(mt_dtype d, int ndim, const int64_t *size, const char *how, int seed) {
  int64_t sample[MT_MAX_DIM], stat[MT_MAX_DIM], classes = size[ndim > 1];
  int n = 0, base = seed & 1, ignore = seed & 4 ? base + (int)test_below(classes) : -100;
  for (int e = 0; e < ndim; e++)
    if (e != (ndim > 1)) sample[n++] = size[e];
  stat[0] = 2;
  for (int e = 0; e < n; e++) stat[e + 1] = sample[e];
  test_layout l = (test_layout)(seed % 3);
  mt_dtype sd = d == MT_F64 ? MT_F64 : MT_F32;
  mt_view *x = test_values(d, ndim, size, l);
  mt_view *target = test_index(n, sample, classes, base, (test_layout)(seed / 3 % 3));
  if (n && ignore == -100 && target->numel) mt_ref_store(target, 0, (mt_num){-100, 0});
  mt_view *w = seed & 2 ? test_values(d, 1, &classes, l) : NULL;
  for (int64_t i = 0; w && i < classes; i++) mt_ref_store(w, i, (mt_num){0.25L * (i % 3 + 1), 0});
  mt_view *total = test_view(sd, 0, NULL, TEST_CONTIGUOUS);
  mt_view *y = how[0] == 'n' ? test_view(d, n, sample, TEST_CONTIGUOUS)
                             : test_view(d, 0, NULL, TEST_CONTIGUOUS);
  mt_view *g = test_values(d, y->ndim, y->size, l);
  test_call c = {.in = {x, target, w}, .k = {.index_base = base}};
  c.out[0] = y, c.out[1] = test_view(sd, n + 1, stat, TEST_CONTIGUOUS), c.out[2] = total;
  c.arg[3] = test_str(how), c.arg[4] = test_int(ignore);
  COMPARE(&c, 3, 3, 5, cross_entropy, l);
  const mt_view *sum = c.out[2];
  test_call b = {.in = {g, x, target, w, c.out[1], sum}, .k = {.index_base = base}};
  b.out[0] = x;
  b.arg[6] = test_str(how), b.arg[7] = test_int(ignore);
  COMPARE(&b, 6, 1, 8, cross_entropy_back, (test_layout)(seed / 2 % 3));
  test_call l1 = {.in = {x, target, w}, .out = {y, total}, .k = {.index_base = base}};
  l1.arg[3] = test_str(how), l1.arg[4] = test_int(ignore);
  COMPARE(&l1, 3, 2, 5, nll_loss, l);
  test_call l2 = {.in = {g, target, w, sum}, .out = {x}, .k = {.index_base = base}};
  l2.arg[4] = test_str(how), l2.arg[5] = test_int(ignore);
  COMPARE(&l2, 4, 1, 6, nll_loss_back, (test_layout)(seed / 2 % 3));
}

START_TEST(every_dtype_layout_and_reduction) {
  static const char *const how[] = {"none", "sum", "mean"};
  static const int64_t size[][4] = {{5, 3, 2, 4}, {2, 7, 5, 3}, {40, 12, 1, 9}};
  for (int d = MT_F64; d <= MT_BF16; d++)
    for (int i = 0; i < 36; i++) {
      test_seed((uint64_t)(d * 64 + i));
      check((mt_dtype)d, 1 + i % 4, size[i / 4 % 3], how[i / 12], i);
      test_free();
    }
  int64_t many[2] = {3000, 10}, wide[2] = {3, 5000}, none[2] = {0, 4}, map[3] = {2, 5, 700};
  check(MT_F32, 2, many, "mean", 2);
  check(MT_F32, 2, wide, "mean", 2);
  check(MT_F32, 3, map, "mean", 2);
  check(MT_F32, 2, none, "mean", 2);
  check(MT_F32, 2, none, "none", 2);
}
END_TEST

static int run(mt_view *x, mt_view *target, int base, int64_t ignore, test_call *c) {
  int64_t stat[2] = {2, target->numel};
  *c = (test_call){.in = {x, target, NULL}, .k = {.index_base = base}};
  c->out[0] = test_view(MT_F32, 0, NULL, TEST_CONTIGUOUS);
  c->out[1] = test_view(MT_F32, 2, stat, TEST_CONTIGUOUS);
  c->out[2] = test_view(MT_F32, 0, NULL, TEST_CONTIGUOUS);
  c->arg[3] = test_str("mean"), c->arg[4] = test_int(ignore);
  return test_run(c, 3, 3, 5, mt_cpu_cross_entropy, mt_cpu_cross_entropy_scratch, NULL);
}

START_TEST(bad_targets_are_reported) {
  static const double values[][2] = {{1, 4}, {0, 1}, {2, -4}, {1, -1}};
  int64_t size[2] = {2, 3}, n = 2;
  test_call c;
  mt_view *x = test_values(MT_F32, 2, size, TEST_CONTIGUOUS);
  for (int i = 0; i < 3; i++) {
    int at = values[i][0] >= 1 && values[i][0] <= 3;
    ck_assert_int_eq(run(x, test_list(MT_I64, 1, &n, values[i]), 1, -1, &c), MT_BADINDEX);
    ck_assert(c.error.input == 1 && c.error.position == at);
    ck_assert(c.error.value == (int64_t)values[i][at] && c.error.first == 1 && c.error.last == 3);
  }
  ck_assert_int_eq(run(x, test_list(MT_I64, 1, &n, values[3]), 1, -1, &c), MT_OK);
}
END_TEST

START_TEST(all_ignored_gives_nan_and_a_gradient_of_zero) {
  static const double values[] = {-100, -100};
  int64_t size[2] = {2, 3}, n = 2;
  test_call c;
  mt_view *x = test_values(MT_F32, 2, size, TEST_CONTIGUOUS), *t = test_list(MT_I64, 1, &n, values);
  mt_ref_store(x, 1, (mt_num){INFINITY, 0});
  ck_assert_int_eq(run(x, t, 1, -100, &c), MT_OK);
  ck_assert(isnan(test_at(c.out[0], 0)));
  test_call b = {
      .in = {test_values(MT_F32, 0, NULL, TEST_CONTIGUOUS), x, t, NULL, c.out[1], c.out[2]},
      .out = {test_like(x, TEST_CONTIGUOUS)}};
  b.arg[6] = test_str("mean"), b.arg[7] = test_int(-100);
  ck_assert_int_eq(
      test_run(&b, 6, 1, 8, mt_cpu_cross_entropy_back, mt_cpu_cross_entropy_back_scratch, NULL),
      MT_OK);
  for (int64_t i = 0; i < 6; i++) ck_assert(test_at(b.out[0], i) == 0);
}
END_TEST

START_TEST(large_logits_keep_their_digits) {
  static const double v[] = {10000, 10000.5, 9999}, cls[] = {2};
  int64_t size[2] = {1, 3}, n = 1;
  test_call c;
  ck_assert_int_eq(run(test_list(MT_F32, 2, size, v), test_list(MT_I64, 1, &n, cls), 1, -100, &c),
                   MT_OK);
  ck_assert(fabs(test_at(c.out[0], 0) - log(1 + exp(-0.5) + exp(-1.5))) < 1e-6);
}
END_TEST

/* Log-probabilities of (T, N, C); the sums over classes are 1. */
static mt_view *log_probs(mt_dtype d, int64_t t, int64_t n, int64_t classes, test_layout l) {
  int64_t size[3] = {t, n, classes};
  mt_view *v = test_values(d, 3, size, l);
  for (int64_t r = 0; r < t * n; r++) {
    long double sum = 0;
    for (int64_t c = 0; c < classes; c++) sum += expl(mt_ref_load(v, r * classes + c).re);
    for (int64_t c = 0; c < classes; c++)
      mt_ref_store(v, r * classes + c, (mt_num){mt_ref_load(v, r * classes + c).re - logl(sum), 0});
  }
  return v;
}

static void check_ctc(mt_dtype d, int seed) {
  enum {
    T = 5,
    N = 4,
    C = 3,
    S = 3
  };
  int64_t n = N, shape[2] = {N, S};
  int base = seed & 1;
  test_seed((uint64_t)seed);
  mt_view *p = log_probs(d, T, N, C, (test_layout)(seed % 3));
  mt_view *frames = test_index(1, &n, 3, T - 2, TEST_CONTIGUOUS);
  mt_view *counts = test_index(1, &n, S + 1, 0, TEST_GAPS);
  int64_t all = 0;
  for (int64_t i = 0; i < N; i++) all += mt_ref_int(counts, i);
  mt_view *labels = seed & 2 ? test_index(1, &all, C - 1, base + 1, TEST_GAPS)
                             : test_index(2, shape, C - 1, base + 1, TEST_PERMUTED);
  mt_view *loss = test_view(d, 1, &n, TEST_CONTIGUOUS), *g = test_values(d, 1, &n, TEST_GAPS);
  test_call c = {.in = {p, labels, frames, counts}, .out = {loss}, .k = {.index_base = base}};
  c.arg[4] = test_int(0);
  COMPARE(&c, 4, 1, 6, ctc_loss, TEST_CONTIGUOUS);
  test_call b = {.in = {g, p, labels, frames, counts, c.out[0]}, .out = {p}};
  b.k.index_base = base;
  b.arg[6] = test_int(0);
  b.arg[7] = test_bool(seed & 4);
  COMPARE(&b, 6, 1, 8, ctc_loss_back, (test_layout)(seed / 2 % 3));
}

START_TEST(ctc_is_the_sum_over_all_alignments) {
  for (int i = 0; i < 32; i++) check_ctc(i % 3 ? MT_F64 : MT_F32, i);
}
END_TEST

START_TEST(ctc_checks_labels_and_lengths) {
  static const double labels[] = {2, 3}, wrong[] = {2, 4}, two[] = {2}, nine[] = {9}, zero[] = {0};
  int64_t shape[2] = {1, 2}, n = 1;
  mt_view *p = log_probs(MT_F32, 4, 1, 3, TEST_CONTIGUOUS);
  mt_view *four = test_index(1, &n, 1, 4, TEST_CONTIGUOUS);
  mt_view *good = test_list(MT_I64, 2, shape, labels);
  test_call c = {.out = {test_view(MT_F32, 1, &n, TEST_CONTIGUOUS)}, .k = {.index_base = 1}};
  c.arg[4] = test_int(0);
  const mt_view *in[4][3] = {
      {test_list(MT_I64, 2, shape, wrong), four, test_list(MT_I64, 1, &n, two)},
      {good, test_list(MT_I64, 1, &n, nine), test_list(MT_I64, 1, &n, two)},
      {good, four, test_list(MT_I64, 1, &n, nine)},
      {good, test_list(MT_I64, 1, &n, zero), test_list(MT_I64, 1, &n, two)}};
  for (int i = 0; i < 4; i++) {
    c.in[0] = p;
    for (int j = 0; j < 3; j++) c.in[j + 1] = in[i][j];
    int status = test_run(&c, 4, 1, 6, mt_cpu_ctc_loss, mt_cpu_ctc_loss_scratch, NULL);
    ck_assert_int_eq(status, i < 3 ? MT_BADINDEX : MT_OK);
    if (i < 3)
      ck_assert_int_eq(c.error.input, i + 1);
    else
      ck_assert(isinf(test_at(c.out[0], 0)));
  }
}
END_TEST

Suite *loss_suite(void) {
  Suite *s = suite_create("loss");
  TCase *t = tcase_create("loss");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, NULL, test_free);
  tcase_add_test(t, every_dtype_layout_and_reduction);
  tcase_add_test(t, bad_targets_are_reported);
  tcase_add_test(t, all_ignored_gives_nan_and_a_gradient_of_zero);
  tcase_add_test(t, large_logits_keep_their_digits);
  tcase_add_test(t, ctc_is_the_sum_over_all_alignments);
  tcase_add_test(t, ctc_checks_labels_and_lengths);
  suite_add_tcase(s, t);
  return s;
}
