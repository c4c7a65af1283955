/* test_sort.c - sorting and selection against plain versions: every dtype, any dim and layout, NaN
 * and signed zeros, ties, long lines (radix passes), and the same results for 1, 2 and 6 threads.
 */
#include "support.h"

Suite *sort_suite(void);

static void agrees(test_call *c, int narg, mt_kernel_fn fn, mt_scratch_fn scratch, mt_kernel_fn ref,
                   const mt_view *shape, const char *what) {
  mt_view like = *shape;
  like.dtype = MT_I64;
  mt_view *v = test_like(shape, TEST_CONTIGUOUS), *i = test_like(&like, TEST_CONTIGUOUS);
  c->out[0] = v;
  c->out[1] = i;
  ck_assert_int_eq(test_run(c, 1, 2, narg, ref, NULL, NULL), MT_OK);
  static const int threads[] = {1, 2, 6};
  for (int t = 0; t < 3; t++) {
    mt_view *gv = test_like(shape, (test_layout)(t % 3)),
            *gi = test_like(&like, (test_layout)(t % 3));
    c->out[0] = gv;
    c->out[1] = gi;
    ck_assert_int_eq(test_run(c, 1, 2, narg, fn, scratch, test_threads(threads[t])), MT_OK);
    test_same(gi, i, what);
    test_same(gv, v, what);
  }
}

#define CHECK(c, narg, name, shape) \
  agrees(c, narg, mt_cpu_##name, mt_cpu_##name##_scratch, mt_ref_##name, shape, #name)

START_TEST(sorting_agrees_with_plain_one) {
  for (int round = 0; round < 10; round++) {
    test_seed((uint64_t)(round * 50 + _i));
    int ndim = 1 + round % 3, dim = (int)test_below(ndim);
    int64_t size[3] = {1 + test_below(7), 1 + test_below(7), 1 + test_below(7)}, few[3];
    size[dim] = round < 7 ? 1 + test_below(50) : 130;
    mt_view *x = test_values((mt_dtype)_i, ndim, size, (test_layout)(round % 3));
    if (round % 2 && mt_dtype_is_float((mt_dtype)_i)) {
      for (int64_t p = 0; p < x->numel; p += 5) {
        static const double odd[] = {NAN, -0.0, 0.0, INFINITY, -INFINITY};
        mt_ref_store(x, p, (mt_num){odd[p % 25 / 5], 0});
      }
    }
    test_call c = {.in = {x}, .k = {.index_base = round & 1}};
    for (int down = 0; down < 2; down++) {
      c.arg[1] = test_int(dim);
      c.arg[2] = test_bool(down);
      CHECK(&c, 4, sort, x);
      memcpy(few, size, sizeof few);
      few[dim] = 1 + test_below(round < 7 ? size[dim] : 8);
      c.arg[1] = test_int(few[dim]);
      c.arg[2] = test_int(dim);
      c.arg[3] = test_bool(down);
      CHECK(&c, 5, topk, test_view((mt_dtype)_i, ndim, few, TEST_CONTIGUOUS));
    }
    few[dim] = 1;
    c.arg[1] = test_int(1 + test_below(size[dim]));
    c.arg[3] = test_bool(true);
    CHECK(&c, 4, kthvalue, test_view((mt_dtype)_i, ndim, few, TEST_CONTIGUOUS));
    for (int d = dim; d + 1 < ndim; d++) few[d] = size[d + 1];
    c.arg[3] = test_bool(false);
    CHECK(&c, 4, kthvalue, test_view((mt_dtype)_i, ndim - 1, few, TEST_CONTIGUOUS));
    test_free();
  }
}
END_TEST

START_TEST(long_lines_are_in_order) {
  int64_t n = 20000;
  mt_view *x = test_view((mt_dtype)_i, 1, &n, TEST_CONTIGUOUS), *v = test_like(x, TEST_CONTIGUOUS);
  mt_view *at = test_view(MT_I64, 1, &n, TEST_CONTIGUOUS);
  test_seed(3);
  for (int64_t p = 0; p < n; p++) {
    mt_ref_store(x, p, (mt_num){(long double)(int64_t)(test_random() >> 20) / 1024, 0});
  }
  for (int down = 0; down < 2; down++) {
    test_call c = {.in = {x}, .out = {v, at}, .arg = {test_nil(), test_int(0), test_bool(down)}};
    ck_assert_int_eq(test_run(&c, 1, 2, 4, mt_cpu_sort, mt_cpu_sort_scratch, NULL), MT_OK);
    for (int64_t p = 0; p < n; p++) {
      int64_t from = mt_ref_int(at, p);
      ck_assert(from >= 0 && from < n && test_at(x, from) == test_at(v, p));
      if (p == 0) continue;
      double a = test_at(v, p - 1), b = test_at(v, p);
      ck_assert(down ? a >= b : a <= b);
      ck_assert(a != b || mt_ref_int(at, p - 1) < from);
    }
    int64_t k = 500;
    mt_view *tv = test_view((mt_dtype)_i, 1, &k, TEST_CONTIGUOUS);
    mt_view *ti = test_view(MT_I64, 1, &k, TEST_CONTIGUOUS);
    c = (test_call){
        .in = {x}, .out = {tv, ti}, .arg = {test_nil(), test_int(k), test_int(0), test_bool(down)}};
    ck_assert_int_eq(test_run(&c, 1, 2, 5, mt_cpu_topk, mt_cpu_topk_scratch, NULL), MT_OK);
    for (int64_t p = 0; p < k; p++) ck_assert_int_eq(mt_ref_int(ti, p), mt_ref_int(at, p));
  }
  /* The middle one. */
  mt_view *m = test_view((mt_dtype)_i, 0, NULL, TEST_CONTIGUOUS);
  mt_view *mi = test_view(MT_I64, 0, NULL, TEST_CONTIGUOUS);
  test_call c = {.in = {x}, .out = {m, mi}, .arg = {test_nil(), test_int(0), test_bool(false)}};
  ck_assert_int_eq(test_run(&c, 1, 2, 3, mt_cpu_median, mt_cpu_median_scratch, NULL), MT_OK);
  ck_assert(test_at(m, 0) == test_at(v, n - 1 - (n - 1) / 2)); /* v is descending */
  test_free();
}
END_TEST

START_TEST(median_and_nan) {
  static const double values[] = {3, NAN, 1, 2, NAN};
  int64_t n = 5;
  mt_dtype d = (mt_dtype)_i;
  mt_view *m = test_view(d, 0, NULL, TEST_CONTIGUOUS),
          *at = test_view(MT_I64, 0, NULL, TEST_CONTIGUOUS);
  test_call c = {.in = {test_list(d, 1, &n, values)},
                 .out = {m, at},
                 .arg = {test_nil(), test_int(0), test_bool(false)},
                 .k = {.index_base = 1}};
  ck_assert_int_eq(test_run(&c, 1, 2, 3, mt_cpu_median, mt_cpu_median_scratch, NULL), MT_OK);
  ck_assert(isnan(test_at(m, 0)) && mt_ref_int(at, 0) == 2);
  ck_assert_int_eq(test_run(&c, 1, 2, 3, mt_cpu_nanmedian, mt_cpu_nanmedian_scratch, NULL), MT_OK);
  ck_assert(test_at(m, 0) == 2 && mt_ref_int(at, 0) == 4);
  test_free();
}
END_TEST

START_TEST(zeros_keep_their_sign_and_order) {
  static const double values[] = {0.0, -0.0, 0.0, -1};
  int64_t n = 4;
  mt_view *v = test_view(MT_F32, 1, &n, TEST_CONTIGUOUS),
          *at = test_view(MT_I64, 1, &n, TEST_CONTIGUOUS);
  test_call c = {.in = {test_list(MT_F32, 1, &n, values)},
                 .out = {v, at},
                 .arg = {test_nil(), test_int(0), test_bool(false)}};
  ck_assert_int_eq(test_run(&c, 1, 2, 4, mt_cpu_sort, mt_cpu_sort_scratch, NULL), MT_OK);
  ck_assert(mt_ref_int(at, 1) == 0 && mt_ref_int(at, 2) == 1 && mt_ref_int(at, 3) == 2);
  ck_assert(!signbit(test_at(v, 1)) && signbit(test_at(v, 2)) && !signbit(test_at(v, 3)));
  test_free();
}
END_TEST

START_TEST(searching_agrees_with_plain_one) {
  for (int round = 0; round < 8; round++) {
    test_seed((uint64_t)(round * 50 + _i));
    int64_t rows = 3, lines[2] = {rows, 1 + test_below(20)}, many[2] = {rows, 1 + test_below(20)};
    bool flat = round & 1;
    mt_view *s = test_values((mt_dtype)_i, flat ? 1 : 2, flat ? lines + 1 : lines, TEST_CONTIGUOUS);
    mt_view *v = test_values((mt_dtype)_i, 2, many, (test_layout)(round % 3));
    mt_view *sorted = test_like(s, TEST_GAPS), *at = test_view(MT_I64, s->ndim, s->size, TEST_GAPS);
    test_call c = {.in = {s}, .out = {sorted, at}, .arg = {test_nil(), test_int(s->ndim - 1)}};
    c.arg[2] = test_bool(false);
    ck_assert_int_eq(test_run(&c, 1, 2, 4, mt_cpu_sort, mt_cpu_sort_scratch, NULL), MT_OK);
    if (mt_dtype_is_float((mt_dtype)_i)) mt_ref_store(v, 0, (mt_num){NAN, 0});
    for (int right = 0; right < 2; right++) {
      mt_view *a = test_view(MT_I64, 2, many, TEST_CONTIGUOUS), *b = test_like(a, TEST_PERMUTED);
      test_call e = {.in = {sorted, v},
                     .out = {a},
                     .arg = {test_nil(), test_nil(), test_bool(right)},
                     .k = {.index_base = 1}};
      ck_assert_int_eq(test_run(&e, 2, 1, 3, mt_ref_searchsorted, NULL, NULL), MT_OK);
      e.out[0] = b;
      ck_assert_int_eq(test_run(&e, 2, 1, 3, mt_cpu_searchsorted, NULL, test_threads(2)), MT_OK);
      test_same(b, a, "searchsorted");
    }
    test_free();
  }
}
END_TEST

START_TEST(runs_are_counted_and_mapped_back) {
  static const double values[] = {1, 1, 2, 5, 5, 5}, order[] = {3, 6, 1, 2, 4, 5};
  int64_t n = 6, m = 3;
  mt_view *x = test_list(MT_F32, 1, &n, values), *runs = test_view(MT_I64, 1, &n, TEST_GAPS);
  test_call c = {.in = {x}, .out = {runs}};
  ck_assert_int_eq(test_run(&c, 1, 1, 1, mt_cpu_unique_mark, NULL, NULL), MT_OK);
  ck_assert_int_eq(mt_ref_int(runs, 5), 2);
  mt_view *first = test_view(MT_I64, 1, &m, TEST_CONTIGUOUS), *count = test_like(first, TEST_GAPS);
  mt_view *inverse = test_view(MT_I64, 1, &n, TEST_GAPS);
  c = (test_call){.in = {runs, test_list(MT_I64, 1, &n, order)},
                  .out = {first, count, inverse},
                  .k = {.index_base = 1}};
  ck_assert_int_eq(test_run(&c, 2, 3, 3, mt_cpu_unique_fill, NULL, NULL), MT_OK);
  static const int64_t starts[] = {1, 3, 4}, lengths[] = {2, 1, 3}, back[] = {2, 3, 1, 3, 3, 1};
  for (int i = 0; i < 3; i++) {
    ck_assert(mt_ref_int(first, i) == starts[i] && mt_ref_int(count, i) == lengths[i]);
  }
  for (int i = 0; i < 6; i++) ck_assert_int_eq(mt_ref_int(inverse, i), back[i]);
  test_free();
}
END_TEST

Suite *sort_suite(void) {
  Suite *s = suite_create("sort");
  TCase *t = tcase_create("sort");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, sorting_agrees_with_plain_one, 0, MT_C64);
  tcase_add_loop_test(t, long_lines_are_in_order, 0, MT_C64);
  tcase_add_loop_test(t, median_and_nan, 0, MT_BF16 + 1);
  tcase_add_test(t, zeros_keep_their_sign_and_order);
  tcase_add_loop_test(t, searching_agrees_with_plain_one, 0, MT_C64);
  tcase_add_test(t, runs_are_counted_and_mapped_back);
  suite_add_tcase(s, t);
  return s;
}
