/* test_conv.c - convolution in all three directions against plain loops: strides, uneven kernels,
 * padding, dilation, groups, one to three dims, layouts, types, empty sizes; the same bits for 1,
 * 2 and 6 threads. Values are multiples of 1/8, whose sums are exact, so results must be equal. */
#include "support.h"

#include <stdio.h>

Suite *conv_suite(void);

/* A random convolution: tensors by the names they have forward. */
typedef struct conv {
  mt_dtype type;
  int dims;
  int64_t x[5], w[5], y[5], bias;
  int64_t stride[3], padding[3], dilation[3], groups;
} conv;

static bool set_output(conv *c) {
  c->y[0] = c->x[0], c->y[1] = c->w[0];
  for (int d = 0; d < c->dims; d++) {
    int64_t reach = c->dilation[d] * (c->w[2 + d] - 1) + 1;
    int64_t room = c->x[2 + d] + 2 * c->padding[d] - reach;
    if (room < 0) return false;
    c->y[2 + d] = room / c->stride[d] + 1;
  }
  return true;
}

static conv random_conv(mt_dtype type) {
  conv c = {.type = type};
  do {
    c.dims = test_below(4) ? 2 : 1 + (int)test_below(3);
    c.groups = test_below(3) ? 1 : 1 + test_below(4);
    int64_t ci = 1 + test_below(test_below(4) ? 4 : 20),
            co = 1 + test_below(test_below(4) ? 4 : 20);
    if (c.groups > 1 && test_below(2)) ci = 1, co = 1 + test_below(2);
    c.x[0] = test_below(15) ? 1 + test_below(4) : 0;
    c.x[1] = ci * c.groups, c.w[0] = co * c.groups, c.w[1] = ci;
    bool point = test_below(6) == 0;
    for (int d = 0; d < c.dims; d++) {
      c.x[2 + d] = 1 + test_below(c.dims == 3 ? 6 : test_below(5) ? 12 : 30);
      c.w[2 + d] = point ? 1 : 1 + test_below(4);
      c.stride[d] = test_below(2) ? 1 : 1 + test_below(3);
      c.padding[d] = test_below(3), c.dilation[d] = test_below(3) ? 1 : 1 + test_below(3);
      if (point && test_below(2)) c.stride[d] = 1, c.padding[d] = 0;
    }
  } while (!set_output(&c));
  return c;
}

static double tolerance(mt_dtype t) { return t == MT_BF16 ? 8e-3 : t == MT_F16 ? 1e-3 : 1e-6; }

/* Runs a kernel and its plain twin; everything is in layouts at random. */
static void check(const conv *c, mt_view *a, mt_view *b, mt_view *bias, const mt_value *second,
                  const int64_t *out, mt_kernel_fn fn, mt_scratch_fn scratch, mt_kernel_fn ref,
                  const char *what) {
  test_call call = {.in = {a, b, bias}};
  call.arg[2] = *second;
  call.arg[3] = test_ints(c->stride, c->dims);
  call.arg[4] = test_ints(c->padding, c->dims);
  call.arg[5] = test_ints(c->dilation, c->dims);
  call.arg[6] = test_int(c->groups);
  mt_view *want = test_view(c->type, c->dims + 2, out, TEST_CONTIGUOUS);
  call.out[0] = want;
  ck_assert_int_eq(test_run(&call, 3, 1, 7, ref, NULL, NULL), MT_OK);
  mt_view *got = test_like(want, (test_layout)(test_below(3) ? 0 : test_below(TEST_LAYOUTS)));
  call.out[0] = got;
  mt_parallel *par = test_threads(1 + (int)test_below(3));
  ck_assert_int_eq(test_run(&call, 3, 1, 7, fn, scratch, par), MT_OK);
  test_close(got, want, tolerance(c->type), 1e-9, what);
}

static mt_view *values(const conv *c, const int64_t *size) {
  return test_values(c->type, c->dims + 2, size, (test_layout)test_below(TEST_LAYOUTS));
}

static void check_all(const conv *c) {
  char what[200];
  snprintf(what, sizeof what,
           "x %ld,%ld,%ld,%ld,%ld w %ld,%ld,%ld,%ld,%ld stride %ld,%ld,%ld padding %ld,%ld,%ld "
           "dilation %ld,%ld,%ld groups %ld",
           (long)c->x[0], (long)c->x[1], (long)c->x[2], (long)c->x[3], (long)c->x[4], (long)c->w[0],
           (long)c->w[1], (long)c->w[2], (long)c->w[3], (long)c->w[4], (long)c->stride[0],
           (long)c->stride[1], (long)c->stride[2], (long)c->padding[0], (long)c->padding[1],
           (long)c->padding[2], (long)c->dilation[0], (long)c->dilation[1], (long)c->dilation[2],
           (long)c->groups);
  mt_view *x = values(c, c->x), *w = values(c, c->w), *dy = values(c, c->y), *bias = NULL;
  mt_value nothing = test_nil(), x_size = test_ints(c->x, c->dims + 2);
  mt_value w_size = test_ints(c->w, c->dims + 2);
  if (test_below(3)) bias = test_values(c->type, 1, &c->w[0], (test_layout)test_below(3));
  check(c, x, w, bias, &nothing, c->y, mt_cpu_conv, mt_cpu_conv_scratch, mt_ref_conv, what);
  check(c, dy, w, NULL, &x_size, c->x, mt_cpu_conv_back_input, mt_cpu_conv_back_input_scratch,
        mt_ref_conv_back_input, what);
  check(c, dy, x, NULL, &w_size, c->w, mt_cpu_conv_back_weight, mt_cpu_conv_back_weight_scratch,
        mt_ref_conv_back_weight, what);
  test_free();
}

static const mt_dtype types[] = {MT_F32, MT_F64, MT_F16, MT_BF16};

START_TEST(random_convolutions_equal_plain_ones) {
  test_seed(100 + (uint64_t)_i);
  for (int round = 0; round < (_i < 2 ? 150 : 60); round++) {
    conv c = random_conv(types[_i]);
    check_all(&c);
  }
}
END_TEST

/* Larger ones, that reach several bands, k-blocks, column blocks and chunks. */
START_TEST(blocked_convolutions_equal_plain_ones) {
  static const conv shapes[] = {
      {.dims = 2, .x = {2, 70, 9, 9}, .w = {20, 70, 3, 3}, .padding = {1, 1}},
      {.dims = 2, .x = {9, 1, 28, 28}, .w = {6, 1, 5, 5}, .padding = {2, 2}},
      {.dims = 2, .x = {9, 6, 14, 14}, .w = {16, 6, 5, 5}},
      {.dims = 2, .x = {1, 3, 60, 60}, .w = {8, 3, 7, 7}, .padding = {3, 3}, .stride = {2, 2}},
      {.dims = 2, .x = {7, 40, 4, 4}, .w = {30, 40, 3, 3}, .padding = {1, 1}},
      {.dims = 2, .x = {2, 24, 12, 12}, .w = {24, 1, 3, 3}, .padding = {1, 1}, .groups = 24},
      {.dims = 2, .x = {2, 30, 11, 13}, .w = {50, 30, 1, 1}},
      {.dims = 2, .x = {2, 30, 11, 13}, .w = {50, 30, 1, 1}, .stride = {2, 2}},
      {.dims = 1, .x = {2, 12, 700}, .w = {9, 12, 11}, .padding = {5}},
      {.dims = 2, .x = {1, 2, 300, 20}, .w = {3, 2, 3, 3}, .padding = {1, 1}}};
  test_seed(200 + (uint64_t)_i);
  conv c = shapes[_i / 2];
  c.type = _i % 2 ? MT_F64 : MT_F32;
  if (c.groups == 0) c.groups = 1;
  for (int d = 0; d < 3; d++) {
    if (c.stride[d] == 0) c.stride[d] = 1;
    c.dilation[d] = 1;
  }
  ck_assert(set_output(&c));
  check_all(&c);
}
END_TEST

static void run(const conv *c, mt_view *a, mt_view *b, const mt_value *second, mt_view *out,
                mt_kernel_fn fn, mt_scratch_fn scratch, int threads) {
  test_call call = {.in = {a, b}, .out = {out}};
  call.arg[2] = *second;
  call.arg[3] = test_ints(c->stride, c->dims);
  call.arg[4] = test_ints(c->padding, c->dims);
  call.arg[5] = test_ints(c->dilation, c->dims);
  call.arg[6] = test_int(c->groups);
  ck_assert_int_eq(test_run(&call, 2, 1, 7, fn, scratch, test_threads(threads)), MT_OK);
}

static mt_view *thirds(const conv *c, const int64_t *size) {
  mt_view *v = test_view(c->type, c->dims + 2, size, TEST_CONTIGUOUS);
  for (int64_t p = 0; p < v->numel; p++) {
    mt_ref_store(v, p, (mt_num){(long double)(test_below(2001) - 1000) / 333, 0});
  }
  return v;
}

START_TEST(bits_do_not_depend_on_threads) {
  static const conv shapes[] = {
      {.dims = 2, .x = {8, 3, 20, 20}, .w = {12, 3, 3, 3}, .padding = {1, 1}, .stride = {1, 1}},
      {.dims = 2, .x = {8, 40, 14, 14}, .w = {50, 40, 3, 3}, .padding = {1, 1}, .stride = {2, 2}},
      {.dims = 2, .x = {12, 30, 5, 5}, .w = {30, 30, 3, 3}, .padding = {1, 1}, .stride = {1, 1}},
      {.dims = 2, .x = {4, 64, 20, 20}, .w = {80, 64, 1, 1}, .stride = {1, 1}},
      {.dims = 2, .x = {4, 32, 30, 30}, .w = {32, 1, 3, 3}, .stride = {1, 1}, .groups = 32}};
  test_seed(300 + (uint64_t)_i);
  conv c = shapes[_i / 2];
  c.type = _i % 2 ? MT_F64 : MT_F32;
  if (c.groups == 0) c.groups = 1;
  c.dilation[0] = c.dilation[1] = 1;
  ck_assert(set_output(&c));
  mt_view *x = thirds(&c, c.x), *w = thirds(&c, c.w), *dy = thirds(&c, c.y);
  mt_value nothing = test_nil(), x_size = test_ints(c.x, 4), w_size = test_ints(c.w, 4);
  static const int counts[] = {1, 2, 6};
  mt_view *out[3][3];
  for (int t = 0; t < 3; t++) {
    out[0][t] = test_like(dy, TEST_CONTIGUOUS), out[1][t] = test_like(x, TEST_CONTIGUOUS);
    out[2][t] = test_like(w, TEST_CONTIGUOUS);
    run(&c, x, w, &nothing, out[0][t], mt_cpu_conv, mt_cpu_conv_scratch, counts[t]);
    run(&c, dy, w, &x_size, out[1][t], mt_cpu_conv_back_input, mt_cpu_conv_back_input_scratch,
        counts[t]);
    run(&c, dy, x, &w_size, out[2][t], mt_cpu_conv_back_weight, mt_cpu_conv_back_weight_scratch,
        counts[t]);
    for (int i = 0; i < 3 && t > 0; i++) {
      size_t bytes = (size_t)(out[i][0]->numel * mt_dtype_size(c.type));
      ck_assert_msg(memcmp(out[i][0]->data, out[i][t]->data, bytes) == 0,
                    "result %d differs with %d threads", i, counts[t]);
    }
  }
  test_free();
}
END_TEST

START_TEST(other_types_have_no_convolution) {
  int64_t size[3] = {1, 1, 3}, one = 1;
  mt_view *x = test_view(MT_I64, 3, size, TEST_CONTIGUOUS);
  conv c = {.dims = 1, .stride = {1}, .dilation = {1}, .groups = 1};
  test_call call = {.in = {x, x}, .out = {test_like(x, TEST_CONTIGUOUS)}};
  call.arg[3] = call.arg[5] = test_ints(&one, 1);
  call.arg[4] = test_ints(c.padding, 1), call.arg[6] = test_int(1);
  ck_assert_int_eq(test_run(&call, 2, 1, 7, mt_cpu_conv, NULL, NULL), MT_NOKERNEL);
  test_free();
}
END_TEST

Suite *conv_suite(void) {
  Suite *s = suite_create("conv");
  TCase *t = tcase_create("conv");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, random_convolutions_equal_plain_ones, 0, 4);
  tcase_add_loop_test(t, blocked_convolutions_equal_plain_ones, 0, 20);
  tcase_add_loop_test(t, bits_do_not_depend_on_threads, 0, 10);
  tcase_add_test(t, other_types_have_no_convolution);
  suite_add_tcase(s, t);
  return s;
}
