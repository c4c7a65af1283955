/* test_gemm.c - matrix products against plain ones: every path, type, transpose and layout, tiny
 * and odd sizes, exact-size buffers, and the same bits for 1, 2 and 6 threads.
 *
 * Most values are multiples of 1/8, whose sums are exact in f32, so results must be equal, not
 * close. Where rounding matters (threads), values are arbitrary. */
#include "support.h"

#include "../../kernels/cpu/gemm.h"

Suite *gemm_suite(void);

/* ---- Random products ---- */

/* A matrix in a block of exactly the size its strides need. */
typedef struct matrix {
  char *data;
  int64_t rs, cs;
  size_t bytes;
} matrix;

enum layout {
  ROWS,
  COLUMNS,
  GAPS,
  REPEATED
};

static matrix make(mt_dtype type, int64_t rows, int64_t columns, enum layout layout, int64_t pad) {
  matrix m = {NULL, columns + pad, 1, 0};
  if (layout == COLUMNS) m.rs = 1, m.cs = rows + pad;
  if (layout == GAPS) m.rs = 2 * columns + 1 + pad, m.cs = 2;
  if (layout == REPEATED) m.rs = 0;
  int64_t last = (rows - 1) * m.rs + (columns - 1) * m.cs + 1;
  m.bytes = rows > 0 && columns > 0 ? (size_t)(last * mt_dtype_size(type)) : 0;
  m.data = malloc(m.bytes ? m.bytes : 1);
  return m;
}

static void put(mt_dtype type, char *data, int64_t i, double x) {
  mt_view v = {.data = data, .dtype = (int8_t)type, .ndim = 1, .contiguous = true};
  v.size[0] = v.numel = i + 1, v.stride[0] = 1;
  mt_ref_store(&v, i, (mt_num){x, -x / 2});
}

static double get(mt_dtype type, const char *data, int64_t i) {
  mt_view v = {.data = (char *)data, .dtype = (int8_t)type, .ndim = 1, .contiguous = true};
  v.size[0] = v.numel = i + 1, v.stride[0] = 1;
  mt_num x = mt_ref_load(&v, i);
  return (double)(x.re + 3 * x.im);
}

static double eighth(void) { return (double)(test_below(41) - 20) / 8; }
static double whole(void) { return (double)(test_below(11) - 5); }

static void randomise(mt_dtype type, matrix *m, double (*draw)(void)) {
  int64_t n = (int64_t)m->bytes / mt_dtype_size(type);
  for (int64_t i = 0; i < n; i++) put(type, m->data, i, draw());
}

static void *run_with_scratch(const mt_gemm *g, const mt_gemm_batch *batch, int threads) {
  mt_parallel *par = test_threads(threads);
  size_t size = mt_gemm_scratch(mt_isa_choose(), g, batch, threads);
  void *block = NULL;
  ck_assert(size != SIZE_MAX && posix_memalign(&block, 64, size ? size : 1) == 0);
  memset(block, 0xff, size); /* NaN in every type */
  mt_gemm_run(mt_isa_choose(), g, batch, par, block);
  free(block);
  return g->c;
}

static int64_t some_size(void) {
  static const int64_t odd[] = {0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 64, 65};
  if (test_below(12) == 0) return 1 + test_below(150);
  return odd[test_below(sizeof odd / sizeof *odd)];
}

/* One random product; shapes are those given, where not negative. */
static void one_product(mt_dtype type, int64_t m, int64_t n, int64_t k, int threads) {
  bool is_float = mt_dtype_is_float(type);
  double (*draw)(void) = is_float || type == MT_C64 ? eighth : whole;
  mt_dtype acc = type == MT_F64 ? MT_F64 : MT_F32;
  m = m < 0 ? some_size() : m, n = n < 0 ? some_size() : n, k = k < 0 ? some_size() : k;
  int64_t pad = test_below(3) ? 0 : test_below(5);
  int layouts = test_below(5) ? 2 : 4;
  matrix a = make(type, m, k, (enum layout)test_below(layouts), pad);
  matrix b = make(type, k, n, (enum layout)test_below(layouts), pad);
  matrix c0 = make(type, m, n, (enum layout)test_below(4), pad);
  matrix c = make(type, m, n, (enum layout)(test_below(6) ? 0 : test_below(3)), pad), want = c;
  matrix rb = make(acc, m, 1, ROWS, 0), cb = make(acc, 1, n, ROWS, 0);
  want.data = malloc(c.bytes ? c.bytes : 1);
  randomise(type, &a, draw), randomise(type, &b, draw), randomise(type, &c0, draw);
  randomise(type, &c, draw), randomise(acc, &rb, eighth), randomise(acc, &cb, eighth);
  memcpy(want.data, c.data, c.bytes);
  static const double alphas[] = {1, 1, 1, 0.5, -2, 0}, betas[] = {0, 0, 1, -0.5, 2};
  mt_gemm g = {.dtype = type,
               .m = m,
               .n = n,
               .k = k,
               .a = a.data,
               .b = b.data,
               .c = c.data,
               .ars = a.rs,
               .acs = a.cs,
               .brs = b.rs,
               .bcs = b.cs,
               .crs = c.rs,
               .ccs = c.cs,
               .alpha = alphas[test_below(6)],
               .beta = betas[test_below(5)],
               .c0 = c0.data,
               .c0rs = c0.rs,
               .c0cs = c0.cs};
  bool in_place = test_below(3) == 0;
  if (is_float && test_below(3) == 0) g.row_bias = rb.data;
  if (is_float && test_below(3) == 0) g.col_bias = cb.data;
  if (in_place) g.c0 = c.data, g.c0rs = c.rs, g.c0cs = c.cs;
  mt_gemm right = g;
  right.c = want.data;
  if (in_place) right.c0 = want.data;
  mt_ref_gemm(&right);
  if (is_float)
    run_with_scratch(&g, NULL, threads);
  else
    mt_ref_gemm(&g);
  int64_t size = mt_dtype_size(type);
  for (int64_t i = 0; i < (int64_t)c.bytes / size; i++) {
    double x = get(type, c.data, i), y = get(type, want.data, i);
    ck_assert_msg(x == y || fabs(x - y) <= 1e-6 * fabs(y),
                  "%s %ldx%ldx%ld, A %ld %ld, B %ld %ld, C %ld %ld, alpha %g beta %g: "
                  "element %ld is %.9g, not %.9g",
                  mt_dtypes[type].name, (long)m, (long)k, (long)n, (long)a.rs, (long)a.cs,
                  (long)b.rs, (long)b.cs, (long)c.rs, (long)c.cs, g.alpha, g.beta, (long)i, x, y);
  }
  free(a.data), free(b.data), free(c.data), free(c0.data), free(want.data);
  free(rb.data), free(cb.data);
}

static const mt_dtype float_types[] = {MT_F32, MT_F64, MT_F16, MT_BF16};

START_TEST(random_products_equal_plain_ones) {
  test_seed(10 + (uint64_t)_i);
  for (int round = 0; round < 300; round++) one_product(float_types[_i], -1, -1, -1, 1 + round % 3);
}
END_TEST

START_TEST(every_path_equals_the_plain_product) {
  static const int64_t shape[][3] = {
      {1, 700, 600},  {1, 1, 1000},   {1, 1, 17},     {3, 50, 300},    {20, 40, 200},
      {5, 300, 200},  {8, 513, 300},  {100, 40, 70},  {130, 200, 300}, {40, 300, 1100},
      {97, 131, 530}, {300, 10, 600}, {2, 2100, 100}, {260, 30, 40},   {700, 1, 33},
      {1100, 20, 70}, {30, 600, 90},  {64, 128, 784}, {64, 10, 128},   {1, 64, 64}};
  test_seed(20 + (uint64_t)_i);
  for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
    for (int round = 0; round < 6; round++) {
      one_product(float_types[_i], shape[s][0], shape[s][1], shape[s][2], 1 + round % 3);
    }
  }
}
END_TEST

/* ---- The same bits for any number of threads ---- */

static double arbitrary(void) { return (double)(int64_t)(test_random() >> 12) * 0x1p-50 - 2; }

START_TEST(bits_do_not_depend_on_threads) {
  static const int64_t shape[][3] = {{150, 170, 180}, {3, 2000, 900}, {40, 5000, 60},
                                     {5000, 40, 60},  {7, 900, 900},  {20, 700, 400},
                                     {1, 3000, 1300}, {500, 17, 700}, {1000, 65, 129}};
  mt_dtype type = float_types[_i];
  test_seed(30 + (uint64_t)_i);
  for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
    for (int transposes = 0; transposes < 4; transposes++) {
      int64_t m = shape[s][0], n = shape[s][1], k = shape[s][2];
      matrix a = make(type, m, k, (enum layout)(transposes & 1), 0);
      matrix b = make(type, k, n, (enum layout)(transposes >> 1), 0);
      matrix c = make(type, m, n, ROWS, 0), first = c;
      first.data = malloc(c.bytes);
      randomise(type, &a, arbitrary), randomise(type, &b, arbitrary);
      mt_gemm g = {.dtype = type,
                   .m = m,
                   .n = n,
                   .k = k,
                   .a = a.data,
                   .b = b.data,
                   .c = first.data,
                   .ars = a.rs,
                   .acs = a.cs,
                   .brs = b.rs,
                   .bcs = b.cs,
                   .crs = c.rs,
                   .ccs = c.cs,
                   .alpha = 0.7};
      run_with_scratch(&g, NULL, 1);
      g.c = c.data;
      for (int threads = 2; threads <= 6; threads += 4) {
        run_with_scratch(&g, NULL, threads);
        ck_assert_msg(memcmp(first.data, c.data, c.bytes) == 0, "%ldx%ldx%ld, %d threads", (long)m,
                      (long)k, (long)n, threads);
      }
      free(a.data), free(b.data), free(c.data), free(first.data);
    }
  }
}
END_TEST

/* ---- Batches ---- */

START_TEST(batches_equal_single_products) {
  test_seed(40);
  for (int round = 0; round < 60; round++) {
    mt_dtype type = float_types[round % 4];
    int64_t m = 1 + test_below(9), n = 1 + test_below(40), k = 1 + test_below(30);
    int64_t outer = 1 + test_below(3), inner = 1 + test_below(5), count = outer * inner;
    if (round % 6 == 0) m = 60, n = 70, k = 80;
    bool same_b = round & 1;
    matrix a = make(type, count * m, k, ROWS, 0), c = make(type, count * m, n, ROWS, 0), want = c;
    matrix b = make(type, (same_b ? outer : count) * k, n, ROWS, 0);
    want.data = malloc(c.bytes);
    randomise(type, &a, eighth), randomise(type, &b, eighth);
    mt_gemm g = {.dtype = type,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = a.data,
                 .b = b.data,
                 .c = c.data,
                 .ars = k,
                 .acs = 1,
                 .brs = n,
                 .bcs = 1,
                 .crs = n,
                 .ccs = 1,
                 .alpha = 1};
    mt_gemm_batch batch = {.ndim = 2,
                           .count = count,
                           .size = {outer, inner},
                           .a = {inner * m * k, m * k},
                           .c = {inner * m * n, m * n},
                           .b = {(same_b ? 1 : inner) * k * n, same_b ? 0 : k * n}};
    run_with_scratch(&g, &batch, 1 + round % 3);
    int64_t size = mt_dtype_size(type);
    for (int64_t q = 0; q < count; q++) {
      mt_gemm one = g;
      one.a = a.data + q * m * k * size;
      one.b = b.data + (same_b ? q / inner : q) * k * n * size;
      one.c = want.data + q * m * n * size;
      mt_ref_gemm(&one);
    }
    for (int64_t i = 0; i < count * m * n; i++) {
      ck_assert(fabs(get(type, c.data, i) - get(type, want.data, i)) < 1e-6);
    }
    free(a.data), free(b.data), free(c.data), free(want.data);
  }
}
END_TEST

/* ---- A lent BLAS ---- */

static void plain_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha,
                        const double *a, int lda, const double *b, int ldb, double beta, double *c,
                        int ldc) {
  ck_assert_int_eq(order, 101);
  bool at = ta == 112, bt = tb == 112;
  mt_gemm g = {.dtype = MT_F64,
               .m = m,
               .n = n,
               .k = k,
               .a = a,
               .b = b,
               .c = c,
               .ars = at ? 1 : lda,
               .acs = at ? lda : 1,
               .brs = bt ? 1 : ldb,
               .bcs = bt ? ldb : 1,
               .crs = ldc,
               .ccs = 1,
               .alpha = alpha,
               .beta = beta,
               .c0 = c,
               .c0rs = ldc,
               .c0cs = 1};
  mt_ref_gemm(&g);
}

START_TEST(a_lent_blas_gets_the_right_tiles) {
  static const struct mt_blas blas = {NULL, plain_dgemm, true, false};
  test_seed(50);
  for (int round = 0; round < 8; round++) {
    int64_t m = 600 + round, n = 530, k = 5 + round;
    matrix a = make(MT_F64, m, k, (enum layout)(round & 1), 3);
    matrix b = make(MT_F64, k, n, (enum layout)(round >> 1 & 1), 2);
    matrix c = make(MT_F64, m, n, round & 4 ? COLUMNS : ROWS, 1), want = c;
    matrix cb = make(MT_F64, 1, n, ROWS, 0);
    want.data = malloc(c.bytes);
    randomise(MT_F64, &a, eighth), randomise(MT_F64, &b, eighth);
    randomise(MT_F64, &c, eighth), randomise(MT_F64, &cb, eighth);
    memcpy(want.data, c.data, c.bytes);
    mt_gemm g = {.dtype = MT_F64,
                 .m = m,
                 .n = n,
                 .k = k,
                 .a = a.data,
                 .b = b.data,
                 .c = c.data,
                 .ars = a.rs,
                 .acs = a.cs,
                 .brs = b.rs,
                 .bcs = b.cs,
                 .crs = c.rs,
                 .ccs = c.cs,
                 .alpha = 2,
                 .beta = round & 1 ? 0.5 : 0,
                 .c0 = c.data,
                 .c0rs = c.rs,
                 .c0cs = c.cs,
                 .col_bias = cb.data,
                 .blas = &blas};
    mt_gemm right = g;
    right.c = want.data, right.c0 = want.data;
    mt_ref_gemm(&right);
    run_with_scratch(&g, NULL, 1 + round % 3);
    ck_assert(memcmp(c.data, want.data, c.bytes) == 0);
    free(a.data), free(b.data), free(c.data), free(want.data), free(cb.data);
  }
}
END_TEST

/* ---- The kernels ---- */

static const mt_dtype all_types[] = {MT_F32, MT_F64, MT_F16, MT_BF16, MT_I64,
                                     MT_I32, MT_I16, MT_I8,  MT_U8,   MT_C64};
enum {
  NTYPES = sizeof all_types / sizeof *all_types
};

static void check(test_call *c, int nin, int narg, mt_kernel_fn fn, mt_scratch_fn scratch,
                  mt_kernel_fn ref, mt_dtype type, int ndim, const int64_t *size,
                  const char *what) {
  mt_view *want = test_view(type, ndim, size, TEST_CONTIGUOUS);
  mt_view *got = test_like(want, (test_layout)test_below(TEST_LAYOUTS));
  c->out[0] = want;
  ck_assert_int_eq(test_run(c, nin, 1, narg, ref, NULL, NULL), MT_OK);
  c->out[0] = got;
  mt_parallel *par = test_threads(1 + (int)test_below(3));
  ck_assert_int_eq(test_run(c, nin, 1, narg, fn, scratch, par), MT_OK);
  test_close(got, want, type == MT_BF16 ? 8e-3 : type == MT_F16 ? 1e-3 : 1e-6, 1e-9, what);
}

/* A view whose dims of size 1 repeat to those of `size`. */
static mt_view *expanded(mt_dtype type, int ndim, const int64_t *size, int keep) {
  int64_t own[MT_MAX_DIM];
  for (int d = 0; d < ndim; d++) own[d] = d < ndim - keep && test_below(2) ? 1 : size[d];
  mt_view *v = test_values(type, ndim, own, (test_layout)test_below(TEST_LAYOUTS));
  for (int d = 0; d < ndim; d++) {
    if (own[d] == 1 && size[d] != 1) v->size[d] = size[d], v->stride[d] = 0, v->contiguous = false;
    if (own[d] == 1 && size[d] != 1) v->numel *= size[d];
  }
  return v;
}

START_TEST(matmul_and_addmm_for_every_type_and_layout) {
  mt_dtype type = all_types[_i];
  test_seed(60 + (uint64_t)_i);
  for (int round = 0; round < 40; round++) {
    int ndim = 2 + round % 3;
    int64_t sa[4], sb[4], sc[4], k = test_below(20);
    for (int d = 0; d < ndim; d++) sa[d] = sb[d] = sc[d] = test_below(9) ? 1 + test_below(5) : 0;
    if (round % 5 == 0) sc[ndim - 1] = sb[ndim - 1] = 1 + test_below(40);
    sa[ndim - 1] = sb[ndim - 2] = k;
    mt_view *a = expanded(type, ndim, sa, 2), *b = expanded(type, ndim, sb, 2);
    test_call c = {.in = {a, b}};
    check(&c, 2, 2, mt_cpu_matmul, mt_cpu_matmul_scratch, mt_ref_matmul, type, ndim, sc, "matmul");
    int drop = (int)test_below(ndim);
    mt_view *c0 = test_values(type, ndim - drop, sc + drop, (test_layout)test_below(TEST_LAYOUTS));
    test_call add = {.in = {c0, a, b}};
    add.arg[3] = test_int(test_below(4) - 1), add.arg[4] = test_float((double)test_below(4) - 1);
    check(&add, 3, 5, mt_cpu_addmm, mt_cpu_addmm_scratch, mt_ref_addmm, type, ndim, sc, "addmm");
    test_free();
  }
}
END_TEST

START_TEST(linear_for_every_type_and_layout) {
  mt_dtype type = all_types[_i];
  test_seed(80 + (uint64_t)_i);
  for (int round = 0; round < 40; round++) {
    int ndim = 1 + round % 4;
    int64_t size[4], k = test_below(30), n = test_below(12) ? 1 + test_below(30) : 0;
    for (int d = 0; d < ndim - 1; d++) size[d] = test_below(9) ? 1 + test_below(6) : 0;
    size[ndim - 1] = k;
    mt_view *x = test_values(type, ndim, size, (test_layout)test_below(TEST_LAYOUTS));
    int64_t ws[2] = {n, k};
    mt_view *w = test_values(type, 2, ws, (test_layout)test_below(TEST_LAYOUTS));
    mt_view *bias = test_values(type, 1, &n, (test_layout)test_below(TEST_LAYOUTS));
    size[ndim - 1] = n;
    test_call c = {.in = {x, w, round % 3 ? bias : NULL}};
    check(&c, 3, 3, mt_cpu_linear, mt_cpu_linear_scratch, mt_ref_linear, type, ndim, size,
          "linear");
    test_free();
  }
}
END_TEST

START_TEST(beta_zero_ignores_nan_and_no_terms_give_zeros) {
  int64_t size[2] = {3, 5}, none_a[2] = {3, 0}, none_b[2] = {0, 5};
  for (int t = 0; t < 4; t++) {
    mt_dtype type = float_types[t];
    mt_view *c0 = test_view(type, 2, size, TEST_CONTIGUOUS);
    for (int64_t p = 0; p < 15; p++) mt_ref_store(c0, p, (mt_num){(long double)NAN, 0});
    mt_view *a = test_view(type, 2, none_a, TEST_CONTIGUOUS);
    mt_view *b = test_view(type, 2, none_b, TEST_CONTIGUOUS);
    test_call c = {.in = {c0, a, b}, .arg = {[3] = test_int(0), [4] = test_int(1)}};
    mt_view *out = test_like(c0, TEST_GAPS);
    c.out[0] = out;
    ck_assert_int_eq(test_run(&c, 3, 1, 5, mt_cpu_addmm, mt_cpu_addmm_scratch, NULL), MT_OK);
    for (int64_t p = 0; p < 15; p++) ck_assert(test_at(out, p) == 0);
    test_call mm = {.in = {a, b}, .out = {out}};
    ck_assert_int_eq(test_run(&mm, 2, 1, 2, mt_cpu_matmul, mt_cpu_matmul_scratch, NULL), MT_OK);
    for (int64_t p = 0; p < 15; p++) ck_assert(test_at(out, p) == 0);
    test_free();
  }
}
END_TEST

START_TEST(bool_has_no_product) {
  int64_t size[2] = {2, 2};
  mt_view *a = test_view(MT_BOOL, 2, size, TEST_CONTIGUOUS);
  test_call c = {.in = {a, a}, .out = {test_like(a, TEST_CONTIGUOUS)}};
  ck_assert_int_eq(test_run(&c, 2, 1, 2, mt_cpu_matmul, mt_cpu_matmul_scratch, NULL), MT_NOKERNEL);
  test_free();
}
END_TEST

Suite *gemm_suite(void) {
  Suite *s = suite_create("gemm");
  TCase *t = tcase_create("gemm");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, random_products_equal_plain_ones, 0, 4);
  tcase_add_loop_test(t, every_path_equals_the_plain_product, 0, 4);
  tcase_add_loop_test(t, bits_do_not_depend_on_threads, 0, 4);
  tcase_add_test(t, batches_equal_single_products);
  tcase_add_test(t, a_lent_blas_gets_the_right_tiles);
  tcase_add_loop_test(t, matmul_and_addmm_for_every_type_and_layout, 0, NTYPES);
  tcase_add_loop_test(t, linear_for_every_type_and_layout, 0, NTYPES);
  tcase_add_test(t, beta_zero_ignores_nan_and_no_terms_give_zeros);
  tcase_add_test(t, bool_has_no_product);
  suite_add_tcase(s, t);
  return s;
}
