/* test_pool.c - pooling against plain versions: 1 to 3 dims, all options, layouts and float types,
 * NaN and ties, borders of every kind; the same bits for 1, 2 and 6 threads. */
#include "support.h"

Suite *pool_suite(void);

typedef struct shape {
  int nd, ndim;
  int64_t in[5], out[5], kernel[3], stride[3], padding[3], dilation[3];
} shape;

/* Random geometry with at least one result; `dilated` as maximum pooling allows. */
static shape draw(int nd, bool dilated) {
  shape s = {.nd = nd, .ndim = nd + 2};
  s.in[0] = s.out[0] = 1 + test_below(3);
  s.in[1] = s.out[1] = 1 + test_below(3);
  for (int d = 0; d < nd; d++) {
    s.kernel[d] = 1 + test_below(nd == 1 ? 12 : 4);
    s.stride[d] = 1 + test_below(4);
    s.padding[d] = test_below(s.kernel[d] / 2 + 1);
    s.dilation[d] = dilated ? 1 + test_below(3) : 1;
    int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    int64_t low = reach - 2 * s.padding[d] > 1 ? reach - 2 * s.padding[d] : 1;
    s.in[2 + d] = low + test_below(nd == 3 ? 6 : 25);
    int64_t n = s.in[2 + d] + 2 * s.padding[d] - reach, ceil_mode = test_below(2);
    s.out[2 + d] = (n + (ceil_mode ? s.stride[d] - 1 : 0)) / s.stride[d] + 1;
    if (ceil_mode && (s.out[2 + d] - 1) * s.stride[d] >= s.in[2 + d] + s.padding[d]) s.out[2 + d]--;
  }
  return s;
}

static double tolerance(mt_dtype d) {
  return d == MT_F64 ? 1e-13 : d == MT_F32 ? 1e-5 : d == MT_F16 ? 2e-3 : 1.6e-2;
}

/* Runs the plain and the fast version with 1, 2, 6 threads; results in other layouts. */
static void agree(test_call *c, int nin, int nout, int narg, mt_kernel_fn fn, mt_scratch_fn scratch,
                  mt_kernel_fn ref, const mt_view *const *like, const char *what) {
  mt_view *right[2], *got[3][2];
  double tol = tolerance((mt_dtype)like[0]->dtype);
  for (int i = 0; i < nout; i++) c->out[i] = right[i] = test_like(like[i], TEST_CONTIGUOUS);
  ck_assert_int_eq(test_run(c, nin, nout, narg, ref, NULL, NULL), MT_OK);
  static const int threads[] = {1, 2, 6};
  for (int t = 0; t < 3; t++) {
    for (int i = 0; i < nout; i++) {
      c->out[i] = got[t][i] = test_like(like[i], i ? TEST_CONTIGUOUS : (test_layout)t);
    }
    ck_assert_int_eq(test_run(c, nin, nout, narg, fn, scratch, test_threads(threads[t])), MT_OK);
    test_close(got[t][0], right[0], tol, tol, what);
    test_same(got[t][0], got[0][0], what);
    if (nout > 1) test_same(got[t][1], right[1], what);
  }
}
#define AGREE(c, nin, nout, narg, name, ...)                                       \
  agree(c, nin, nout, narg, mt_cpu_##name, mt_cpu_##name##_scratch, mt_ref_##name, \
        (const mt_view *const[]){__VA_ARGS__}, #name)

START_TEST(maximum_agrees_with_plain_one) {
  mt_dtype d = (mt_dtype)_i;
  for (int round = 0; round < 30; round++) {
    test_seed((uint64_t)(round * 7 + _i));
    shape s = draw(1 + round % 3, true);
    mt_view *x = test_values(d, s.ndim, s.in, (test_layout)(round % 3));
    if (round % 4 == 1) mt_ref_store(x, test_below(x->numel), (mt_num){NAN, 0});
    if (round % 4 == 2) {
      for (int64_t p = 0; p < x->numel; p++) mt_ref_store(x, p, (mt_num){-INFINITY, 0});
    }
    mt_view *y = test_view(d, s.ndim, s.out, TEST_CONTIGUOUS);
    mt_view *at = test_view(MT_I64, s.ndim, s.out, TEST_CONTIGUOUS);
    test_call c = {.in = {x},
                   .arg = {test_nil(), test_ints(s.kernel, s.nd), test_ints(s.stride, s.nd),
                           test_ints(s.padding, s.nd), test_ints(s.dilation, s.nd)},
                   .k = {.index_base = round & 1}};
    AGREE(&c, 1, 2, 5, max_pool, y, at);
    mt_view *g = test_values(d, s.ndim, s.out, (test_layout)((round + 1) % 3));
    test_call b = {.in = {g, c.out[1]},
                   .arg = {test_nil(), test_nil(), test_ints(s.in + 2, s.nd)},
                   .k = {.index_base = round & 1}};
    AGREE(&b, 2, 1, 3, max_pool_back, x);
    AGREE(&b, 2, 1, 3, max_unpool, x);
    test_free();
  }
}
END_TEST

START_TEST(average_agrees_with_plain_one) {
  mt_dtype d = (mt_dtype)_i;
  for (int round = 0; round < 30; round++) {
    test_seed((uint64_t)(round * 7 + _i + 1000));
    shape s = draw(1 + round % 3, false);
    mt_view *x = test_values(d, s.ndim, s.in, (test_layout)(round % 3));
    mt_view *y = test_values(d, s.ndim, s.out, (test_layout)((round + 1) % 3));
    mt_value given = round % 5 == 4 ? test_int(3) : test_nil();
    test_call c = {.in = {x},
                   .arg = {test_nil(), test_ints(s.kernel, s.nd), test_ints(s.stride, s.nd),
                           test_ints(s.padding, s.nd), test_bool(round & 1), given}};
    AGREE(&c, 1, 1, 6, avg_pool, y);
    test_call b = {.in = {y},
                   .arg = {test_nil(), test_ints(s.in + 2, s.nd), test_ints(s.kernel, s.nd),
                           test_ints(s.stride, s.nd), test_ints(s.padding, s.nd),
                           test_bool(round & 1), given}};
    AGREE(&b, 1, 1, 7, avg_pool_back, x);
    test_free();
  }
}
END_TEST

START_TEST(adaptive_pooling_agrees_with_plain_one) {
  mt_dtype d = (mt_dtype)_i;
  for (int round = 0; round < 24; round++) {
    test_seed((uint64_t)(round * 7 + _i + 2000));
    int nd = 1 + round % 3;
    int64_t in[5] = {2, 3}, out[5] = {2, 3};
    for (int e = 2; e < nd + 2; e++) {
      in[e] = 1 + test_below(nd == 3 ? 6 : 20);
      out[e] = round % 4 == 0 ? 1 : 1 + test_below(nd == 3 ? 5 : 9);
    }
    mt_view *x = test_values(d, nd + 2, in, (test_layout)(round % 3));
    mt_view *y = test_values(d, nd + 2, out, (test_layout)((round + 1) % 3));
    mt_view *at = test_view(MT_I64, nd + 2, out, TEST_CONTIGUOUS);
    test_call c = {.in = {x}, .arg = {test_nil(), test_ints(out + 2, nd)}, .k = {.index_base = 1}};
    AGREE(&c, 1, 2, 2, adaptive_max_pool, y, at);
    AGREE(&c, 1, 1, 2, adaptive_avg_pool, y);
    test_call b = {.in = {y}, .arg = {test_nil(), test_ints(in + 2, nd)}};
    AGREE(&b, 1, 1, 2, adaptive_avg_pool_back, x);
    test_free();
  }
}
END_TEST

START_TEST(the_first_of_equals_wins) {
  int64_t in[1] = {6}, out[1] = {2}, kernel = 3, none = 0, one = 1;
  static const double values[] = {1, 5, 5, 2, 2, 2};
  mt_view *at = test_view(MT_I64, 1, out, TEST_CONTIGUOUS);
  test_call c = {.in = {test_list(MT_F32, 1, in, values)},
                 .out = {test_view(MT_F32, 1, out, TEST_CONTIGUOUS), at},
                 .arg = {test_nil(), test_ints(&kernel, 1), test_ints(&kernel, 1),
                         test_ints(&none, 1), test_ints(&one, 1)}};
  ck_assert_int_eq(test_run(&c, 1, 2, 5, mt_cpu_max_pool, mt_cpu_max_pool_scratch, NULL), MT_OK);
  ck_assert_int_eq(mt_ref_int(at, 0), 1);
  ck_assert_int_eq(mt_ref_int(at, 1), 3);
  test_free();
}
END_TEST

START_TEST(unpooling_refuses_positions_outside_the_plane) {
  int64_t size[3] = {2, 1, 2}, large[3] = {2, 2, 3}, plane[2] = {2, 3};
  static const double places[] = {1, 6, 2, 7};
  mt_view *out = test_view(MT_F32, 3, large, TEST_CONTIGUOUS), *before = test_copy(out);
  test_call c = {
      .in = {test_values(MT_F32, 3, size, TEST_CONTIGUOUS), test_list(MT_I64, 3, size, places)},
      .out = {out},
      .arg = {test_nil(), test_nil(), test_ints(plane, 2)},
      .k = {.index_base = 1}};
  ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_max_unpool, mt_cpu_max_unpool_scratch, NULL),
                   MT_BADINDEX);
  ck_assert(c.error.position == 3 && c.error.value == 7 && c.error.last == 6);
  test_same(out, before, "unchanged");
  test_free();
}
END_TEST

Suite *pool_suite(void) {
  Suite *s = suite_create("pool");
  TCase *t = tcase_create("pool");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, maximum_agrees_with_plain_one, 0, MT_BF16 + 1);
  tcase_add_loop_test(t, average_agrees_with_plain_one, 0, MT_BF16 + 1);
  tcase_add_loop_test(t, adaptive_pooling_agrees_with_plain_one, 0, MT_BF16 + 1);
  tcase_add_test(t, the_first_of_equals_wins);
  tcase_add_test(t, unpooling_refuses_positions_outside_the_plane);
  suite_add_tcase(s, t);
  return s;
}
