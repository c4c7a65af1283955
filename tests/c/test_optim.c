/* test_optim.c - optimiser steps over lists of tensors against plain versions: all options, all
 * float types, strided parameters, empty tensors, the same bits for any thread count. */
#include "support.h"

Suite *optim_suite(void);

enum {
  TENSORS = 4
};

typedef struct lists {
  mt_view *v[5][TENSORS];
} lists;

static lists make(mt_dtype d, bool strided) {
  static const int64_t sizes[TENSORS][2] = {{3, 5}, {1, 1}, {0, 4}, {40, 501}};
  lists l;
  for (int r = 0; r < 5; r++) {
    for (int i = 0; i < TENSORS; i++) {
      test_layout layout = strided ? (test_layout)((r + i) % 3) : TEST_CONTIGUOUS;
      l.v[r][i] = test_values(d, 2, sizes[i], layout);
      for (int64_t p = 0; r >= 3 && p < l.v[r][i]->numel; p++) { /* squares are positive */
        mt_ref_store(l.v[r][i], p, (mt_num){fabs(test_at(l.v[r][i], p)), 0});
      }
    }
  }
  return l;
}

/* Copies of all, in the same layouts or (contiguous) others. */
static lists twin(const lists *l) {
  lists c;
  for (int r = 0; r < 5; r++) {
    for (int i = 0; i < TENSORS; i++) c.v[r][i] = test_copy(l->v[r][i]);
  }
  return c;
}

static int step(const lists *l, int roles, bool skip, const mt_value *arg, int narg,
                mt_kernel_fn fn, mt_parallel *par) {
  test_call c = {.error = {0}};
  int n = 0;
  for (int r = 0; r < roles; r++) {
    bool empty = skip && r == roles - 1;
    c.arg[r] = test_tensors(empty ? 0 : TENSORS);
    for (int i = 0; i < TENSORS && !empty; i++) c.in[n++] = l->v[r][i];
  }
  memcpy(c.arg + roles, arg, sizeof(mt_value) * (size_t)narg);
  return test_run(&c, n, 0, roles + narg, fn, NULL, par);
}

static double tolerance(mt_dtype d) {
  return d == MT_F64 ? 1e-14 : d == MT_F32 ? 1e-6 : d == MT_F16 ? 2e-3 : 2e-2;
}

static void check(mt_dtype d, int roles, bool skip, const mt_value *arg, int narg, mt_kernel_fn fn,
                  mt_kernel_fn ref) {
  lists right = make(d, true);
  lists same = twin(&right);
  lists got[3] = {make(d, false), make(d, false), make(d, false)};
  for (int t = 0; t < 3; t++) {
    for (int r = 0; r < 5; r++) {
      for (int i = 0; i < TENSORS; i++) {
        for (int64_t p = 0; p < same.v[r][i]->numel; p++) {
          mt_ref_store(got[t].v[r][i], p, mt_ref_load(same.v[r][i], p));
        }
      }
    }
  }
  ck_assert_int_eq(step(&right, roles, skip, arg, narg, ref, NULL), MT_OK);
  ck_assert_int_eq(step(&same, roles, skip, arg, narg, fn, NULL), MT_OK);
  static const int threads[] = {1, 2, 6};
  for (int t = 0; t < 3; t++) {
    ck_assert_int_eq(step(&got[t], roles, skip, arg, narg, fn, test_threads(threads[t])), MT_OK);
  }
  for (int r = 0; r < roles; r++) {
    for (int i = 0; i < TENSORS; i++) {
      test_close(same.v[r][i], right.v[r][i], tolerance(d), tolerance(d), "step");
      for (int t = 0; t < 3; t++) test_same(got[t].v[r][i], got[0].v[r][i], "step, threads");
      test_close(got[0].v[r][i], right.v[r][i], tolerance(d), tolerance(d), "step, contiguous");
    }
  }
  test_free();
}

START_TEST(sgd_steps_agree_with_plain_ones) {
  for (int o = 0; o < 32; o++) {
    bool momentum = o & 1, nesterov = momentum && (o & 2), decay = o & 4, maximize = o & 8;
    mt_value arg[] = {test_float(0.125),
                      test_float(0.9),
                      test_float(nesterov ? 0 : 0.25),
                      test_float(decay ? 0.5 : 0),
                      test_bool(nesterov),
                      test_bool(maximize),
                      test_bool(o & 16)};
    test_seed((uint64_t)(o + 40 * _i));
    check((mt_dtype)_i, 3, !momentum, arg, 7, mt_cpu_sgd_step, mt_ref_sgd_step);
  }
}
END_TEST

START_TEST(adam_steps_agree_with_plain_ones) {
  for (int o = 0; o < 16; o++) {
    bool decay = o & 1, decoupled = o & 2, amsgrad = o & 4, maximize = o & 8;
    mt_value arg[] = {test_float(0.125),
                      test_float(0.75),
                      test_float(0.875),
                      test_float(1e-3),
                      test_float(decay ? 0.5 : 0),
                      test_bool(decoupled),
                      test_bool(amsgrad),
                      test_bool(maximize),
                      test_int(1 + o)};
    test_seed((uint64_t)(o + 40 * _i));
    check((mt_dtype)_i, 5, !amsgrad, arg, 9, mt_cpu_adam_step, mt_ref_adam_step);
  }
}
END_TEST

START_TEST(norms_and_scales_cover_all_tensors) {
  mt_dtype d = (mt_dtype)_i;
  static const double ps[] = {1, 2, 3, INFINITY};
  for (int q = 0; q < 4; q++) {
    lists l = make(d, q & 1);
    long double right = 0;
    for (int i = 0; i < TENSORS; i++) {
      for (int64_t p = 0; p < l.v[0][i]->numel; p++) {
        long double x = fabsl(mt_ref_load(l.v[0][i], p).re);
        right = isinf(ps[q]) ? fmaxl(right, x) : right + powl(x, ps[q]);
      }
    }
    if (!isinf(ps[q])) right = powl(right, 1 / (long double)ps[q]);
    mt_view *out[3];
    for (int t = 0; t < 3; t++) {
      out[t] = test_view(d, 0, NULL, TEST_CONTIGUOUS);
      test_call c = {.out = {out[t]}, .arg = {test_tensors(TENSORS), test_float(ps[q])}};
      for (int i = 0; i < TENSORS; i++) c.in[i] = l.v[0][i];
      ck_assert_int_eq(test_run(&c, TENSORS, 1, 2, mt_cpu_total_norm, mt_cpu_total_norm_scratch,
                                test_threads(1 + t)),
                       MT_OK);
      test_same(out[t], out[0], "norm, threads");
    }
    ck_assert_double_le(fabs(test_at(out[0], 0) - (double)right), tolerance(d) * (double)right);
    lists before = twin(&l);
    double half = 0.5;
    test_call c = {.arg = {test_tensors(TENSORS), test_nil()}};
    for (int i = 0; i < TENSORS; i++) c.in[i] = l.v[0][i];
    c.in[TENSORS] = test_list(MT_F64, 0, NULL, &half);
    ck_assert_int_eq(test_run(&c, TENSORS + 1, 0, 2, mt_cpu_scale_all, NULL, test_threads(2)),
                     MT_OK);
    for (int i = 0; i < TENSORS; i++) {
      for (int64_t p = 0; p < l.v[0][i]->numel; p++) {
        ck_assert(test_at(l.v[0][i], p) == test_at(before.v[0][i], p) / 2);
      }
    }
    test_free();
  }
}
END_TEST

START_TEST(nan_in_a_gradient_is_seen) {
  int64_t n = 40;
  mt_view *v[5];
  for (int i = 0; i < 5; i++) v[i] = test_view(MT_F32, 1, &n, TEST_CONTIGUOUS);
  mt_ref_store(v[1], 33, (mt_num){NAN, 0});
  test_call c = {.in = {v[1]},
                 .out = {test_view(MT_F32, 0, NULL, TEST_CONTIGUOUS)},
                 .arg = {test_tensors(1), test_float(INFINITY)}};
  ck_assert_int_eq(test_run(&c, 1, 1, 2, mt_cpu_total_norm, mt_cpu_total_norm_scratch, NULL),
                   MT_OK);
  ck_assert(isnan(test_at(c.out[0], 0)));
  test_call a = {.in = {v[0], v[1], v[2], v[3], v[4]}};
  for (int i = 0; i < 5; i++) a.arg[i] = test_tensors(1);
  static const double number[] = {0.1, 0.9, 0.99, 1e-8, 0};
  for (int i = 0; i < 5; i++) a.arg[5 + i] = test_float(number[i]);
  a.arg[10] = test_bool(false);
  a.arg[11] = test_bool(true);
  a.arg[12] = test_bool(false);
  a.arg[13] = test_int(1);
  ck_assert_int_eq(test_run(&a, 5, 0, 14, mt_cpu_adam_step, NULL, NULL), MT_OK);
  ck_assert(isnan(test_at(v[0], 33)) && isnan(test_at(v[4], 33)) && test_at(v[0], 32) == 0);
  test_free();
}
END_TEST

Suite *optim_suite(void) {
  Suite *s = suite_create("optim");
  TCase *t = tcase_create("optim");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, sgd_steps_agree_with_plain_ones, 0, MT_BF16 + 1);
  tcase_add_loop_test(t, adam_steps_agree_with_plain_ones, 0, MT_BF16 + 1);
  tcase_add_loop_test(t, norms_and_scales_cover_all_tensors, 0, MT_BF16 + 1);
  tcase_add_test(t, nan_in_a_gradient_is_seen);
  suite_add_tcase(s, t);
  return s;
}
