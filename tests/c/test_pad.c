/* test_pad.c - padding against a plain version; resampling by what it must satisfy: constants stay
 * constant, the gradient is the transpose, straight lines are met exactly, results do not depend on
 * threads or layouts. */
#include "support.h"

Suite *pad_suite(void);

static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};

static void agree(test_call *c, int narg, mt_kernel_fn fn, mt_scratch_fn scratch, mt_kernel_fn ref,
                  const mt_view *like, const char *what) {
  mt_view *right = test_like(like, TEST_CONTIGUOUS);
  c->out[0] = right;
  ck_assert_int_eq(test_run(c, 1, 1, narg, ref, NULL, NULL), MT_OK);
  static const int threads[] = {1, 2, 6};
  for (int t = 0; t < 3; t++) {
    mt_view *got = test_like(like, (test_layout)t);
    c->out[0] = got;
    ck_assert_int_eq(test_run(c, 1, 1, narg, fn, scratch, test_threads(threads[t])), MT_OK);
    test_same(got, right, what);
  }
}

START_TEST(padding_agrees_with_plain_one) {
  mt_dtype d = (mt_dtype)_i;
  for (int round = 0; round < 40; round++) {
    int m = round % 4, ndim, given;
    int64_t in[4], out[4], pad[8];
    test_seed((uint64_t)(round * 13 + _i));
    ndim = 1 + (int)test_below(4);
    given = 1 + (int)test_below(ndim);
    for (int e = 0; e < ndim; e++) out[e] = in[e] = 1 + test_below(6);
    for (int i = 0; i < given; i++) {
      int e = ndim - 1 - i;
      int64_t most = m == 1 ? in[e] - 1 : m == 3 ? in[e] : 4;
      for (int s = 0; s < 2; s++) {
        pad[2 * i + s] = test_below(most + 1);
        if (test_below(5) == 0) pad[2 * i + s] = -test_below(in[e] / 2 + 1);
      }
      out[e] += pad[2 * i] + pad[2 * i + 1];
    }
    mt_view *x = test_values(d, ndim, in, (test_layout)(round % 3));
    mt_view *y = test_values(d, ndim, out, (test_layout)((round + 1) % 3));
    test_call c = {.in = {x},
                   .arg = {test_nil(), test_ints(pad, 2 * given), test_str(modes[m]),
                           d == MT_F32 ? test_float(0.5) : test_int(1)}};
    agree(&c, 4, mt_cpu_pad, NULL, mt_ref_pad, y, modes[m]);
    c.in[0] = y;
    c.arg[3] = test_ints(in, ndim);
    agree(&c, 4, mt_cpu_pad_back, mt_cpu_pad_back_scratch, mt_ref_pad_back, x, "back");
    test_free();
  }
}
END_TEST

/* ---- interpolate ---- */

typedef struct resample {
  int nd, ndim;
  int64_t in[5], out[5];
  mt_value arg[5]; /* mode, align, antialias, scales */
} resample;

static resample draw(int round) {
  static const char *const names[] = {"nearest", "nearest-exact", "linear", "bicubic"};
  resample r = {.nd = 1 + round % 3};
  int f = round / 3 % 4;
  if (f == 3) r.nd = 2;
  r.ndim = r.nd + 2;
  r.in[0] = r.out[0] = 2;
  r.in[1] = r.out[1] = 3;
  for (int d = 2; d < r.ndim; d++) {
    r.in[d] = 1 + test_below(9);
    r.out[d] = test_below(4) == 0 ? r.in[d] : 1 + test_below(14);
  }
  bool align = f >= 2 && test_below(2), anti = f >= 2 && r.nd == 2 && test_below(2);
  r.arg[0] = test_str(names[f]);
  r.arg[1] = test_bool(align);
  r.arg[2] = test_bool(anti);
  r.arg[3] = test_nil();
  return r;
}

static mt_view *apply(const resample *r, const mt_view *x, bool back, test_layout layout,
                      int threads) {
  const int64_t *size = back ? r->in : r->out;
  mt_view *y = test_view((mt_dtype)x->dtype, r->ndim, size, layout);
  test_call c = {
      .in = {x},
      .out = {y},
      .arg = {test_nil(), test_ints(size + 2, r->nd), r->arg[0], r->arg[1], r->arg[2], r->arg[3]}};
  ck_assert_int_eq(test_run(&c, 1, 1, 6, back ? mt_cpu_interpolate_back : mt_cpu_interpolate,
                            back ? mt_cpu_interpolate_back_scratch : mt_cpu_interpolate_scratch,
                            test_threads(threads)),
                   MT_OK);
  return y;
}

static double dot(const mt_view *a, const mt_view *b) {
  double sum = 0;
  for (int64_t p = 0; p < a->numel; p++) sum += test_at(a, p) * test_at(b, p);
  return sum;
}

START_TEST(resampling_and_its_gradient_are_transposes) {
  mt_dtype d = (mt_dtype)_i;
  double tol = d == MT_F64 ? 1e-12 : d == MT_F32 ? 1e-4 : d == MT_F16 ? 0.05 : 0.4;
  for (int round = 0; round < 48; round++) {
    test_seed((uint64_t)round + 5);
    resample r = draw(round);
    mt_view *x = test_values(d, r.ndim, r.in, (test_layout)(round % 3));
    mt_view *g = test_values(d, r.ndim, r.out, (test_layout)((round + 1) % 3));
    mt_view *y = apply(&r, x, false, TEST_CONTIGUOUS, 1),
            *b = apply(&r, g, true, TEST_CONTIGUOUS, 1);
    double size = sqrt(dot(x, x) * dot(b, b)) + 1;
    ck_assert_double_le(fabs(dot(y, g) - dot(x, b)), tol * size);
    test_same(apply(&r, x, false, TEST_GAPS, 2), y, "resample, threads");
    test_same(apply(&r, x, false, TEST_PERMUTED, 6), y, "resample, threads");
    test_same(apply(&r, g, true, TEST_GAPS, 6), b, "resample back, threads");
    /* Weights add up to one. */
    for (int64_t p = 0; p < x->numel; p++) mt_ref_store(x, p, (mt_num){3, 0});
    y = apply(&r, x, false, TEST_CONTIGUOUS, 1);
    for (int64_t p = 0; p < y->numel; p++) {
      ck_assert_double_le(fabs(test_at(y, p) - 3), d == MT_F64 ? 1e-13 : d == MT_F32 ? 2e-6 : 0.02);
    }
    test_free();
  }
}
END_TEST

START_TEST(aligned_corners_meet_a_straight_line) {
  resample r = {.nd = 1,
                .ndim = 3,
                .in = {1, 1, 5},
                .out = {1, 1, 9},
                .arg = {test_str("linear"), test_bool(true), test_bool(false), test_nil()}};
  static const double ramp[] = {0, 2, 4, 6, 8};
  mt_view *y = apply(&r, test_list(MT_F32, 3, r.in, ramp), false, TEST_CONTIGUOUS, 1);
  for (int64_t p = 0; p < 9; p++) ck_assert(test_at(y, p) == (double)p);
  test_free();
}
END_TEST

/* ---- grid_sample ---- */

START_TEST(sampling_is_the_transpose_of_its_gradient_and_survives_odd_places) {
  static const char *const names[] = {"bilinear", "nearest", "bicubic"};
  static const char *const borders[] = {"zeros", "border", "reflection"};
  static const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -1e30, 1, -1, 5, -7};
  mt_dtype d = (mt_dtype)_i;
  for (int round = 0; round < 36; round++) {
    test_seed((uint64_t)round);
    int nd = round % 3 < 2 && round / 18 ? 3 : 2;
    int64_t in[5] = {2, 3, 4, 5, 3}, at[5] = {2, 3, 4, nd, nd}, out[5] = {2, 3, 3, 4, 2};
    if (nd == 3) at[3] = 2;
    mt_view *x = test_values(d, nd + 2, in, (test_layout)(round % 3));
    mt_view *grid = test_values(d, nd + 2, at, (test_layout)((round + 1) % 3));
    for (int64_t p = 0; p < grid->numel; p++) {
      mt_ref_store(grid, p, (mt_num){(long double)test_below(2001) / 800 - 1.25L, 0});
    }
    for (int i = 0; i < 9 && round % 2; i++) mt_ref_store(grid, i * 2, (mt_num){odd[i], 0});
    mt_view *y = test_view(d, nd + 2, out, TEST_GAPS),
            *g = test_values(d, nd + 2, out, TEST_PERMUTED);
    test_call c = {.in = {x, grid},
                   .out = {y},
                   .arg = {test_nil(), test_nil(), test_str(names[round % 3]),
                           test_str(borders[round / 3 % 3]), test_bool(round / 9 % 2)}};
    ck_assert_int_eq(test_run(&c, 2, 1, 5, mt_cpu_grid_sample, NULL, test_threads(2)), MT_OK);
    mt_view *gx = test_like(x, TEST_GAPS), *gg = test_like(grid, TEST_CONTIGUOUS);
    test_call b = {.in = {g, x, grid}, .out = {gx, gg}};
    for (int i = 0; i < 3; i++) b.arg[3 + i] = c.arg[2 + i];
    ck_assert_int_eq(test_run(&b, 3, 2, 6, mt_cpu_grid_sample_back, mt_cpu_grid_sample_back_scratch,
                              test_threads(2)),
                     MT_OK);
    double size = sqrt(dot(x, x) * dot(gx, gx)) + 1;
    double tol = d == MT_F64 ? 1e-13 : d == MT_F32 ? 1e-6 : d == MT_F16 ? 4e-3 : 3e-2;
    ck_assert_double_le(fabs(dot(y, g) - dot(x, gx)), tol * size);
    test_free();
  }
}
END_TEST

Suite *pad_suite(void) {
  Suite *s = suite_create("pad");
  TCase *t = tcase_create("pad");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, padding_agrees_with_plain_one, 0, MT_NDTYPES);
  tcase_add_loop_test(t, resampling_and_its_gradient_are_transposes, 0, MT_BF16 + 1);
  tcase_add_test(t, aligned_corners_meet_a_straight_line);
  tcase_add_loop_test(t, sampling_is_the_transpose_of_its_gradient_and_survives_odd_places, 0,
                      MT_BF16 + 1);
  suite_add_tcase(s, t);
  return s;
}
