/* test_index.c - gather, scatter and their relatives against plain versions: every dtype, layouts
 * with permuted and gapped strides, repeated and bad positions, empty tensors, 1, 2 and 6 threads.
 */
#include "support.h"

Suite *index_suite(void);

static void same_for_threads(test_call *c, int nin, int narg, mt_kernel_fn fn,
                             mt_scratch_fn scratch, mt_kernel_fn ref, const mt_view *out,
                             const char *what) {
  mt_view *right = test_like(out, TEST_CONTIGUOUS);
  c->out[0] = right;
  ck_assert_int_eq(test_run(c, nin, 1, narg, ref, NULL, NULL), MT_OK);
  static const int threads[] = {1, 2, 6};
  for (int t = 0; t < 3; t++) {
    mt_view *got = test_like(out, (test_layout)(t % TEST_LAYOUTS));
    c->out[0] = got;
    ck_assert_int_eq(test_run(c, nin, 1, narg, fn, scratch, test_threads(threads[t])), MT_OK);
    test_same(got, right, what);
  }
}

#define CHECK(c, nin, narg, name, out) \
  same_for_threads(c, nin, narg, mt_cpu_##name, mt_cpu_##name##_scratch, mt_ref_##name, out, #name)
#define CHECK0(c, nin, narg, name, out) \
  same_for_threads(c, nin, narg, mt_cpu_##name, NULL, mt_ref_##name, out, #name)

START_TEST(gather_and_scatter_agree_with_plain_ones) {
  for (int round = 0; round < 12; round++) {
    mt_dtype d = (mt_dtype)_i;
    test_seed((uint64_t)(round * 100 + _i));
    int ndim = 1 + round % 4, dim = (int)test_below(ndim), base = round & 1;
    int64_t size[4], small[4];
    for (int e = 0; e < ndim; e++) {
      size[e] = 1 + test_below(round == 11 ? 30 : 5);
      small[e] = e == dim ? 1 + test_below(9) : 1 + test_below(size[e]);
    }
    test_layout layout = (test_layout)(round % TEST_LAYOUTS);
    mt_view *x = test_values(d, ndim, size, layout);
    mt_view *index = test_index(ndim, small, size[dim], base, (test_layout)((round + 1) % 3));
    mt_view *src = test_values(d, ndim, small, (test_layout)((round + 2) % 3));
    test_call c = {.in = {x, index}, .arg = {test_nil(), test_int(dim)}, .k = {.index_base = base}};
    CHECK(&c, 2, 3, gather, index->numel ? src : x);
    c.in[2] = src;
    CHECK(&c, 3, 4, scatter, x);
    CHECK(&c, 3, 4, scatter_add, x);
    for (int self = 0; self < 2 && round < 11; self++) {
      static const char *const how[] = {"sum", "prod", "amax", "amin"};
      for (int h = 0; h < 4; h++) {
        if (d == MT_C64 && h > 1) continue;
        if (h == 1 && mt_dtype_size(d) < 8) continue; /* products are rounded; see below */
        c.arg[4] = test_str(how[h]);
        c.arg[5] = test_bool(self);
        if (h == 1 && !(d == MT_F64 || d == MT_I64)) continue;
        CHECK(&c, 3, 6, scatter_reduce, x);
      }
    }
    double v = 1;
    c.in[2] = test_list(MT_F64, 0, NULL, &v);
    CHECK(&c, 3, 4, scatter, x);
    test_free();
  }
}
END_TEST

START_TEST(index_along_a_dim_agrees_with_plain_ones) {
  for (int round = 0; round < 12; round++) {
    mt_dtype d = (mt_dtype)_i;
    test_seed((uint64_t)(round * 100 + _i + 7));
    int ndim = 1 + round % 4, dim = (int)test_below(ndim), base = round & 1;
    int64_t size[4], small[4], n = 1 + test_below(round > 8 ? 60 : 9);
    for (int e = 0; e < ndim; e++) small[e] = size[e] = 1 + test_below(7);
    small[dim] = n;
    mt_view *x = test_values(d, ndim, size, (test_layout)(round % 3));
    mt_view *index = test_index(1, &n, size[dim], base, round % 2 ? TEST_GAPS : TEST_CONTIGUOUS);
    mt_view *src = test_values(d, ndim, small, (test_layout)((round + 1) % 3));
    test_call c = {.in = {x, index}, .arg = {test_nil(), test_int(dim)}, .k = {.index_base = base}};
    CHECK(&c, 2, 3, index_select, src);
    c.in[2] = src;
    CHECK(&c, 3, 4, index_add, x);
    CHECK(&c, 3, 4, index_copy, x);
    double one = 1;
    c.in[2] = test_list(MT_I64, 0, NULL, &one);
    CHECK(&c, 3, 4, index_fill, x);
    test_free();
  }
}
END_TEST

START_TEST(advanced_indexing_agrees_with_plain_ones) {
  static const int64_t which[][3] = {{0, -1, -1}, {1, -1, -1}, {0, 1, -1}, {1, 2, -1},
                                     {0, 2, -1},  {1, 3, -1},  {0, 1, 2},  {0, 2, 3}};
  for (int round = 0; round < 16; round++) {
    mt_dtype d = (mt_dtype)_i;
    const int64_t *dims = which[round % 8];
    test_seed((uint64_t)(round * 100 + _i + 31));
    int nindex = 0, base = round & 1, nb = 1 + round % 2;
    int64_t size[4], block[2] = {1 + test_below(4), 1 + test_below(5)}, shape[8];
    for (int e = 0; e < 4; e++) size[e] = 2 + test_below(4);
    while (nindex < 3 && dims[nindex] >= 0) nindex++;
    test_call c = {.in = {test_values(d, 4, size, (test_layout)(round % 3))},
                   .arg = {test_nil(), test_tensors(nindex), test_ints(dims, nindex), test_nil()},
                   .k = {.index_base = base}};
    bool together = true;
    for (int i = 0; i < nindex; i++) {
      int64_t own[2] = {i == 1 && round > 8 ? 1 : block[0], block[1]};
      mt_view *index =
          test_index(nb, nb == 1 ? block + 1 : own, size[dims[i]], base, TEST_CONTIGUOUS);
      if (index->numel > 1) mt_ref_store(index, 1, (mt_num){-1, 0});
      c.in[1 + i] = index;
      together = together && (i == 0 || dims[i] == dims[i - 1] + 1);
    }
    int nd = 0, at = together ? (int)dims[0] : 0;
    for (int e = 0, i = 0, f = 0; e <= 4; e++) {
      if (f == at && nd == at) {
        for (int b = 0; b < nb; b++) shape[nd++] = nb == 1 ? block[1] : block[b];
      }
      if (e == 4) break;
      if (i < nindex && dims[i] == e) {
        i++;
        continue;
      }
      shape[nd++] = size[e];
      f++;
    }
    mt_view *v = test_values(d, nd, shape, (test_layout)((round + 1) % 3));
    CHECK(&c, 1 + nindex, 3, index, v);
    c.in[1 + nindex] = v;
    for (int add = 0; add < 2; add++) {
      c.arg[3] = test_ints(dims, nindex);
      c.arg[4] = test_bool(add);
      CHECK(&c, 2 + nindex, 5, index_put, c.in[0]);
    }
    test_free();
  }
}
END_TEST

START_TEST(take_put_embedding_agree_with_plain_ones) {
  for (int round = 0; round < 6; round++) {
    mt_dtype d = (mt_dtype)_i;
    test_seed((uint64_t)(round * 100 + _i + 57));
    int base = round & 1;
    int64_t size[3] = {2 + test_below(5), 3, 4}, shape[2] = {3, 1 + test_below(30)};
    mt_view *x = test_values(d, 3, size, (test_layout)(round % 3));
    mt_view *index = test_index(2, shape, x->numel, base, (test_layout)((round + 1) % 3));
    mt_ref_store(index, 0, (mt_num){-2, 0});
    mt_view *src = test_values(d, 2, shape, (test_layout)((round + 1) % 3));
    test_call c = {.in = {x, index}, .k = {.index_base = base}};
    CHECK(&c, 2, 2, take, src);
    c.in[2] = src;
    for (int add = 0; add < 2; add++) {
      c.arg[3] = test_bool(add);
      CHECK(&c, 3, 4, put, x);
    }
    int64_t table[2] = {size[0], 5}, rows[3] = {shape[0], shape[1], 5};
    mt_view *w = test_values(d, 2, table, (test_layout)(round % 3));
    mt_view *ids = test_index(2, shape, size[0], base, TEST_CONTIGUOUS);
    mt_view *g = test_values(d, 3, rows, TEST_CONTIGUOUS);
    test_call e = {.in = {ids, w}, .k = {.index_base = base}};
    CHECK(&e, 2, 2, embedding, g);
    e.in[0] = g;
    e.in[1] = ids;
    e.arg[2] = test_int(size[0]);
    e.arg[3] = test_int(round % 2 ? 1 : -1);
    CHECK(&e, 2, 4, embedding_back, w);
    test_free();
  }
}
END_TEST

START_TEST(rearranging_agrees_with_plain_ones) {
  for (int round = 0; round < 6; round++) {
    mt_dtype d = (mt_dtype)_i;
    test_seed((uint64_t)(round * 100 + _i + 91));
    int64_t size[3] = {1 + test_below(5), 1 + test_below(6), 1 + test_below(60)};
    int64_t dims[2] = {2, 0}, shift[2] = {test_below(40) - 20, test_below(9) - 4};
    mt_view *x = test_values(d, 3, size, (test_layout)(round % 3));
    test_call c = {.in = {x}, .arg = {test_nil(), test_ints(dims, 1 + round % 2)}};
    CHECK0(&c, 1, 2, flip, x);
    c.arg[1] = test_int(test_below(9) - 4);
    CHECK0(&c, 1, 2, tril, x);
    CHECK0(&c, 1, 2, triu, x);
    c.arg[1] = test_ints(shift, 2);
    c.arg[2] = test_ints(dims, 2);
    CHECK0(&c, 1, 3, roll, x);
    test_free();
  }
}
END_TEST

START_TEST(masks_select_in_order_for_any_thread_count) {
  for (int round = 0; round < 5; round++) {
    test_seed((uint64_t)round + 5);
    int64_t size[2] = {round == 4 ? 300 : 7, round == 4 ? 250 : 9};
    mt_view *x = test_values((mt_dtype)_i, 2, size, (test_layout)(round % 3));
    for (int64_t p = 0; p < x->numel; p += 3) mt_ref_store(x, p, (mt_num){0, 0});
    int64_t n = 0, none = 0;
    for (int64_t p = 0; p < x->numel; p++) n += test_at(x, p) != 0 || mt_ref_load(x, p).im != 0;
    test_call c = {.in = {x}, .k = {.index_base = 1}};
    mt_view *count = test_view(MT_I64, 0, NULL, TEST_CONTIGUOUS);
    c.out[0] = count;
    ck_assert_int_eq(
        test_run(&c, 1, 1, 1, mt_cpu_nonzero_count, mt_cpu_nonzero_count_scratch, test_threads(2)),
        MT_OK);
    ck_assert_int_eq((int64_t)test_at(count, 0), n);
    int64_t shape[2] = {n, 2};
    CHECK(&c, 1, 2, nonzero, test_view(MT_I64, 2, shape, TEST_CONTIGUOUS));

    mt_view *mask = test_values(MT_BOOL, 2, size, (test_layout)((round + 1) % 3));
    int64_t m = 0;
    for (int64_t p = 0; p < x->numel; p++) m += test_at(mask, p) != 0;
    for (int t = 1; t < 7; t += 5) {
      mt_view *got = test_view((mt_dtype)_i, 1, &m, TEST_GAPS);
      c = (test_call){.in = {x, mask}, .out = {got}};
      ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_masked_select, mt_cpu_masked_select_scratch,
                                test_threads(t)),
                       MT_OK);
      for (int64_t p = 0, q = 0; p < x->numel; p++) {
        if (test_at(mask, p) != 0) ck_assert(test_at(got, q++) == test_at(x, p));
      }
      mt_view *back = test_like(x, TEST_CONTIGUOUS);
      c = (test_call){.in = {x, mask, got}, .out = {back}};
      ck_assert_int_eq(test_run(&c, 3, 1, 3, mt_cpu_masked_scatter, mt_cpu_masked_scatter_scratch,
                                test_threads(t)),
                       MT_OK);
      test_same(back, x, "masked_scatter of masked_select");
    }
    (void)none;
    test_free();
  }
}
END_TEST

START_TEST(bad_positions_name_the_lowest_and_change_nothing) {
  int64_t size[2] = {3, 4}, n = 200000;
  mt_view *x = test_values(MT_F32, 2, size, TEST_CONTIGUOUS), *before = test_copy(x);
  mt_view *index = test_index(1, &n, 4, 1, TEST_CONTIGUOUS);
  mt_ref_store(index, 150001, (mt_num){0, 0});
  mt_ref_store(index, 70003, (mt_num){5, 0});
  mt_ref_store(index, 199999, (mt_num){-1, 0});
  int64_t shape[2] = {3, n};
  mt_view *src = test_values(MT_F32, 2, shape, TEST_CONTIGUOUS);
  for (int t = 1; t < 7; t += 5) {
    test_call c = {.in = {x, index, src},
                   .out = {x},
                   .arg = {test_nil(), test_int(1)},
                   .k = {.index_base = 1}};
    ck_assert_int_eq(
        test_run(&c, 3, 1, 4, mt_cpu_index_add, mt_cpu_index_add_scratch, test_threads(t)),
        MT_BADINDEX);
    ck_assert_int_eq(c.error.input, 1);
    ck_assert_int_eq(c.error.position, 70003);
    ck_assert_int_eq(c.error.value, 5);
    ck_assert_int_eq(c.error.first, 1);
    ck_assert_int_eq(c.error.last, 4);
    test_same(x, before, "unchanged");
  }
  /* Negative positions and 0 in an index that wraps. */
  static const struct {
    double value;
    int base, status;
  } cases[] = {{-4, 1, MT_OK}, {-5, 1, MT_BADINDEX}, {0, 1, MT_BADINDEX}, {4, 1, MT_OK},
               {0, 0, MT_OK},  {4, 0, MT_BADINDEX},  {-4, 0, MT_OK}};
  int64_t one = 1, dims[1] = {1}, picked[2] = {3, 1};
  for (int i = 0; i < 7; i++) {
    test_call c = {.in = {x, test_list(MT_I64, 1, &one, &cases[i].value)},
                   .out = {test_view(MT_F32, 2, picked, TEST_CONTIGUOUS)},
                   .arg = {test_nil(), test_tensors(1), test_ints(dims, 1)},
                   .k = {.index_base = cases[i].base}};
    ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_index, mt_cpu_index_scratch, NULL),
                     cases[i].status);
  }
  test_free();
}
END_TEST

START_TEST(empty_tensors_and_indices_are_fine) {
  int64_t size[2] = {0, 3}, none[2] = {0, 3}, zero = 0, full[2] = {2, 3};
  mt_view *x = test_view(MT_F32, 2, size, TEST_CONTIGUOUS);
  mt_view *index = test_view(MT_I64, 2, none, TEST_CONTIGUOUS);
  test_call c = {.in = {x, index, x}, .out = {x}, .arg = {test_nil(), test_int(0)}};
  ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_gather, mt_cpu_gather_scratch, NULL), MT_OK);
  ck_assert_int_eq(test_run(&c, 3, 1, 4, mt_cpu_scatter_add, mt_cpu_scatter_add_scratch, NULL),
                   MT_OK);
  c.in[1] = test_view(MT_I64, 1, &zero, TEST_CONTIGUOUS);
  ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_index_select, mt_cpu_index_select_scratch, NULL),
                   MT_OK);
  mt_view *y = test_values(MT_F32, 2, full, TEST_CONTIGUOUS), *z = test_like(y, TEST_CONTIGUOUS);
  c.in[0] = y;
  c.out[0] = z;
  ck_assert_int_eq(test_run(&c, 3, 1, 4, mt_cpu_index_add, mt_cpu_index_add_scratch, NULL), MT_OK);
  test_same(z, y, "nothing added");
  /* A position in an empty dim is an error, not a read. */
  double first = 0;
  int64_t one = 1;
  c = (test_call){.in = {x, test_list(MT_I64, 1, &one, &first)},
                  .out = {test_view(MT_F32, 2, (int64_t[]){1, 3}, TEST_CONTIGUOUS)},
                  .arg = {test_nil(), test_int(0)}};
  ck_assert_int_eq(test_run(&c, 2, 1, 3, mt_cpu_index_select, mt_cpu_index_select_scratch, NULL),
                   MT_BADINDEX);
  ck_assert_int_lt(c.error.last, c.error.first);
  test_free();
}
END_TEST

START_TEST(half_sums_are_collected_in_float32) {
  /* 4096 ones into one float16: adding in float16 would stop at 2048. */
  int64_t one = 1, n = 4096;
  mt_view *x = test_view(MT_F16, 1, &one, TEST_CONTIGUOUS), *out = test_like(x, TEST_CONTIGUOUS);
  mt_view *src = test_view(MT_F16, 1, &n, TEST_CONTIGUOUS);
  for (int64_t p = 0; p < n; p++) mt_ref_store(src, p, (mt_num){1, 0});
  test_call c = {.in = {x, test_view(MT_I64, 1, &n, TEST_CONTIGUOUS), src},
                 .out = {out},
                 .arg = {test_nil(), test_int(0)}};
  ck_assert_int_eq(test_run(&c, 3, 1, 4, mt_cpu_scatter_add, mt_cpu_scatter_add_scratch, NULL),
                   MT_OK);
  ck_assert(test_at(out, 0) == 4096);
  test_free();
}
END_TEST

START_TEST(extremes_of_integers_survive_scatter_reduce) {
  int64_t one = 1;
  static const char *const how[] = {"amin", "amax"};
  for (int h = 0; h < 2; h++) {
    mt_view *x = test_view(MT_I64, 1, &one, TEST_CONTIGUOUS), *src = test_like(x, TEST_CONTIGUOUS);
    *(int64_t *)(void *)src->data = h ? INT64_MIN : INT64_MAX;
    mt_view *out = test_like(x, TEST_CONTIGUOUS);
    test_call c = {.in = {x, test_view(MT_I64, 1, &one, TEST_CONTIGUOUS), src},
                   .out = {out},
                   .arg = {test_nil(), test_int(0), test_nil(), test_nil(), test_str(how[h]),
                           test_bool(false)}};
    ck_assert_int_eq(
        test_run(&c, 3, 1, 6, mt_cpu_scatter_reduce, mt_cpu_scatter_reduce_scratch, NULL), MT_OK);
    ck_assert(*(int64_t *)(void *)out->data == (h ? INT64_MIN : INT64_MAX));
  }
  test_free();
}
END_TEST

Suite *index_suite(void) {
  Suite *s = suite_create("index");
  TCase *t = tcase_create("index");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, gather_and_scatter_agree_with_plain_ones, 0, MT_NDTYPES);
  tcase_add_loop_test(t, index_along_a_dim_agrees_with_plain_ones, 0, MT_NDTYPES);
  tcase_add_loop_test(t, advanced_indexing_agrees_with_plain_ones, 0, MT_NDTYPES);
  tcase_add_loop_test(t, take_put_embedding_agree_with_plain_ones, 0, MT_NDTYPES);
  tcase_add_loop_test(t, rearranging_agrees_with_plain_ones, 0, MT_NDTYPES);
  tcase_add_loop_test(t, masks_select_in_order_for_any_thread_count, 0, MT_NDTYPES);
  tcase_add_test(t, bad_positions_name_the_lowest_and_change_nothing);
  tcase_add_test(t, empty_tensors_and_indices_are_fine);
  tcase_add_test(t, half_sums_are_collected_in_float32);
  tcase_add_test(t, extremes_of_integers_survive_scatter_reduce);
  suite_add_tcase(s, t);
  return s;
}
