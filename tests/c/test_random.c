/* test_random.c - the generator against published vectors, distributions against their moments and
 * distribution functions, and the promise that bits depend on seed and offset alone: not on
 * threads, strides or the instruction set. Bounds are five standard errors of what is measured. */
#include "support.h"

#include "../../kernels/rng.h"

Suite *random_suite(void);

static mt_view *run_fill(mt_dtype d, int64_t n, uint64_t seed, uint64_t offset, mt_kernel_fn fn,
                         double a, double b, test_layout layout, mt_parallel *par) {
  mt_view *out = test_view(d, 1, &n, layout);
  test_call c = {.in = {out},
                 .out = {out},
                 .arg = {test_nil(), test_float(a), test_float(b)},
                 .k = {.seed = seed, .offset = offset}};
  ck_assert_int_eq(test_run(&c, 1, 1, 3, fn, NULL, par), MT_OK);
  return out;
}

START_TEST(philox_gives_the_published_words) {
  mt_philox a = mt_philox_stream(0, 0, 0);
  ck_assert(a.w[0] == 0x6627e8d5 && a.w[1] == 0xe169c58d && a.w[2] == 0xbc57ac4c &&
            a.w[3] == 0x9b00dbd8);
  mt_philox b = mt_philox_stream(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  ck_assert(b.w[0] == 0x408f276d && b.w[1] == 0x41c83b0e && b.w[2] == 0xa20bc7c6 &&
            b.w[3] == 0x6d5451fd);
  mt_philox c = mt_philox_stream(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu);
  ck_assert(c.w[0] == 0xd16cfe09 && c.w[1] == 0x94fdcceb && c.w[2] == 0x5001e420 &&
            c.w[3] == 0x24126ea1);
}
END_TEST

START_TEST(elements_follow_from_counter_and_lane) {
  mt_view *v = run_fill(MT_F32, 10, 7, 3, mt_cpu_rand, 0, 0, TEST_CONTIGUOUS, NULL);
  for (int64_t i = 0; i < 10; i++) {
    mt_philox w = mt_philox_at(7, 3 + (uint64_t)i / 4);
    ck_assert(test_at(v, i) == (double)(w.w[i % 4] >> 8) / 16777216);
  }
  test_free();
}
END_TEST

static const struct {
  mt_kernel_fn fn;
  double a, b;
} fills[] = {{mt_cpu_rand, 0, 0},
             {mt_cpu_uniform, -2, 5},
             {mt_cpu_randn, 0, 0},
             {mt_cpu_normal, 3, 2},
             {mt_cpu_exponential, 1.5, 0}};

START_TEST(bits_depend_on_seed_and_offset_alone) {
  for (int d = MT_F64; d <= MT_BF16; d++) {
    for (int f = 0; f < 5; f++) {
      int64_t n = 100003;
      setenv("MOTH_ISA", "v2", 1);
      mt_view *base = run_fill((mt_dtype)d, n, 11, 5, fills[f].fn, fills[f].a, fills[f].b,
                               TEST_CONTIGUOUS, NULL);
      unsetenv("MOTH_ISA");
      for (int t = 1; t < 7; t += 2) {
        mt_view *v = run_fill((mt_dtype)d, n, 11, 5, fills[f].fn, fills[f].a, fills[f].b,
                              t == 3 ? TEST_GAPS : TEST_CONTIGUOUS, test_threads(t));
        test_same(v, base, "random fill");
      }
      test_free();
    }
  }
}
END_TEST

typedef struct moments {
  double mean, var, low, high, ks;
} moments;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Moments, range and the largest distance to the distribution function. */
static moments measure(const mt_view *v, double (*cdf)(double)) {
  int64_t n = v->numel;
  double *x = malloc(sizeof(double) * (size_t)n);
  moments m = {0, 0, INFINITY, -INFINITY, 0};
  for (int64_t i = 0; i < n; i++) {
    x[i] = test_at(v, i);
    m.mean += x[i] / (double)n;
  }
  for (int64_t i = 0; i < n; i++) m.var += (x[i] - m.mean) * (x[i] - m.mean) / (double)(n - 1);
  qsort(x, (size_t)n, sizeof(double), compare);
  m.low = x[0];
  m.high = x[n - 1];
  for (int64_t i = 0; cdf && i < n; i++) {
    double f = cdf(x[i]), a = fabs(f - (double)i / (double)n);
    if (a > m.ks) m.ks = a;
  }
  free(x);
  return m;
}

static double cdf_unit(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static double cdf_normal(double x) { return 0.5 * erfc(-x / sqrt(2)); }
static double cdf_exponential(double x) { return 1 - exp(-2 * x); }

START_TEST(distributions_are_right) {
  mt_dtype d = (mt_dtype)_i;
  int64_t n = 200000;
  double root = sqrt((double)n), coarse = d == MT_BF16 ? 4e-3 : d == MT_F16 ? 5e-4 : 0;
  moments u = measure(run_fill(d, n, 1, 0, mt_cpu_rand, 0, 0, TEST_CONTIGUOUS, NULL), cdf_unit);
  ck_assert(u.low >= 0 && u.high < 1);
  ck_assert_double_lt(fabs(u.mean - 0.5), 5 * sqrt(1.0 / 12) / root + coarse);
  ck_assert_double_lt(fabs(u.var - 1.0 / 12), 5 * 0.075 / root + coarse);
  ck_assert_double_lt(u.ks, 2 / root + coarse);
  moments g = measure(run_fill(d, n, 2, 9, mt_cpu_randn, 0, 0, TEST_CONTIGUOUS, NULL), cdf_normal);
  ck_assert_double_lt(fabs(g.mean), 5 / root);
  ck_assert_double_lt(fabs(g.var - 1), 5 * sqrt(2) / root);
  ck_assert_double_lt(g.ks, 2 / root + coarse);
  ck_assert(g.high > 4 && g.high < 6 && g.low < -4 && g.low > -6);
  moments e = measure(run_fill(d, n, 3, 0, mt_cpu_exponential, 2, 0, TEST_CONTIGUOUS, NULL),
                      cdf_exponential);
  ck_assert(e.low > 0);
  ck_assert_double_lt(fabs(e.mean - 0.5), 2.5 / root + coarse);
  ck_assert_double_lt(e.ks, 2 / root + coarse);
  moments w = measure(run_fill(d, n, 3, 0, mt_cpu_uniform, 4, 4.5, TEST_CONTIGUOUS, NULL), NULL);
  ck_assert(w.low >= 4 && w.high < 4.5);
  test_free();
}
END_TEST

START_TEST(neighbours_are_independent) {
  int64_t n = 200000;
  mt_view *v = run_fill(MT_F32, n, 5, 0, mt_cpu_randn, 0, 0, TEST_CONTIGUOUS, NULL);
  for (int64_t lag = 1; lag <= 8; lag++) {
    double r = 0, s = 0;
    for (int64_t i = 0; i + lag < n; i++) {
      double a = test_at(v, i), b = test_at(v, i + lag);
      r += a * b;
      s += a * a * b * b;
    }
    ck_assert_double_lt(fabs(r) / (double)n, 5 / sqrt((double)n));
    ck_assert_double_lt(fabs(s / (double)n - 1), 5 * sqrt(8) / sqrt((double)n));
  }
  test_free();
}
END_TEST

START_TEST(logarithm_and_circle_are_accurate) {
  for (uint64_t i = 0; i < 300000; i++) {
    uint32_t w = (uint32_t)(i * 14321) ^ (uint32_t)(i << 20), v = (uint32_t)(i * 2654435761u);
    float c, s;
    double u = w < 512 ? ((double)w + 0.5) / 4294967296 : ((double)(w >> 9) + 0.5) / 8388608;
    double right = -2 * log(u), dc, ds;
    ck_assert_double_lt(fabs(mt_minus_2_log_f32(w) - right), 5e-7 * fmax(right, 1e-6));
    mt_circle_f32(w, &c, &s);
    ck_assert_double_lt(fabs(c - cos(2 * M_PI * w / 4294967296)), 2e-7);
    ck_assert_double_lt(fabs(s - sin(2 * M_PI * w / 4294967296)), 2e-7);
    mt_circle_f64(w, v, &dc, &ds);
    double angle = 2 * M_PI * ((double)w / 4294967296 + (double)v / 18446744073709551616.0);
    ck_assert_double_lt(fabs(dc - cos(angle)), 1e-15);
    ck_assert_double_lt(fabs(ds - sin(angle)), 1e-15);
    right = -2 * log(((double)(((uint64_t)w << 32 | v) >> 11) + 0.5) / 9007199254740992.0);
    ck_assert_double_lt(fabs(mt_minus_2_log_f64(w, v) - right), 4e-15 * fmax(right, 1e-12));
  }
}
END_TEST

START_TEST(integers_fill_their_range) {
  int64_t n = 70000, counts[7] = {0};
  for (int d = 0; d < MT_BOOL; d++) {
    mt_view *v = test_view((mt_dtype)d, 1, &n, TEST_GAPS);
    test_call c = {.out = {v},
                   .arg = {test_int(d == MT_U8 ? 3 : -3), test_int(d == MT_U8 ? 10 : 4)},
                   .k = {.seed = 4, .offset = (uint64_t)d}};
    ck_assert_int_eq(test_run(&c, 0, 1, 2, mt_cpu_randint, NULL, test_threads(2)), MT_OK);
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++) counts[(int)test_at(v, i) + (d == MT_U8 ? -3 : 3)]++;
    for (int i = 0; i < 7; i++) ck_assert_double_lt(fabs((double)counts[i] - 10000), 5 * 93);
    test_free();
  }
  n = 1000;
  mt_view *v = test_view(MT_I64, 1, &n, TEST_CONTIGUOUS);
  test_call c = {.out = {v}, .arg = {test_int(INT64_MIN), test_int(INT64_MAX)}, .k = {.seed = 1}};
  ck_assert_int_eq(test_run(&c, 0, 1, 2, mt_cpu_randint, NULL, NULL), MT_OK);
  bool low = false, high = false;
  for (int64_t i = 0; i < n; i++) {
    low = low || mt_ref_int(v, i) < -(INT64_MAX / 2);
    high = high || mt_ref_int(v, i) > INT64_MAX / 2;
  }
  ck_assert(low && high);
  test_free();
}
END_TEST

START_TEST(bernoulli_follows_its_probabilities) {
  int64_t n = 40000;
  mt_view *p = test_view(MT_F32, 1, &n, TEST_CONTIGUOUS), *v = test_view(MT_F32, 1, &n, TEST_GAPS);
  for (int64_t i = 0; i < n; i++) mt_ref_store(p, i, (mt_num){(long double)(i % 4) / 3, 0});
  test_call c = {.in = {p}, .out = {v}, .k = {.seed = 8}};
  ck_assert_int_eq(test_run(&c, 1, 1, 1, mt_cpu_bernoulli, NULL, test_threads(2)), MT_OK);
  double sum[4] = {0};
  for (int64_t i = 0; i < n; i++) sum[i % 4] += test_at(v, i);
  ck_assert(sum[0] == 0 && sum[3] == 10000);
  ck_assert_double_lt(fabs(sum[1] - 10000.0 / 3), 5 * 47.2);
  mt_ref_store(p, 17, (mt_num){1.5L, 0});
  ck_assert_int_eq(test_run(&c, 1, 1, 1, mt_cpu_bernoulli, NULL, NULL), MT_ERROR);
  mt_ref_store(p, 17, (mt_num){NAN, 0});
  ck_assert_int_eq(test_run(&c, 1, 1, 1, mt_cpu_bernoulli, NULL, NULL), MT_ERROR);
  test_free();
}
END_TEST

START_TEST(dropout_scales_and_its_mask_comes_back) {
  mt_dtype d = (mt_dtype)_i;
  int64_t size[2] = {501, 101}, two = 2;
  mt_view *x = test_view(d, 2, size, TEST_PERMUTED), *y = test_like(x, TEST_CONTIGUOUS);
  for (int64_t i = 0; i < x->numel; i++) mt_ref_store(x, i, (mt_num){1, 0});
  mt_view *state = test_view(MT_I64, 1, &two, TEST_CONTIGUOUS);
  test_call c = {.in = {x},
                 .out = {y, state},
                 .arg = {test_nil(), test_float(0.2)},
                 .k = {.seed = 0, .offset = 0}};
  ck_assert_int_eq(test_run(&c, 1, 2, 2, mt_cpu_dropout, NULL, test_threads(2)), MT_OK);
  double kept = 0, one = d == MT_BF16 ? 1.25 : 1.25;
  for (int64_t i = 0; i < x->numel; i++) {
    ck_assert(test_at(y, i) == 0 || test_at(y, i) == one);
    kept += test_at(y, i) != 0;
  }
  ck_assert_double_lt(fabs(kept / (double)x->numel - 0.8), 5 * 0.4 / sqrt((double)x->numel));
  mt_view *back = test_like(x, TEST_GAPS);
  test_call b = {.in = {x, state},
                 .out = {back},
                 .arg = {test_nil(), test_nil(), test_float(0.2)},
                 .k = {.seed = 99, .offset = 12345}};
  ck_assert_int_eq(test_run(&b, 2, 1, 3, mt_cpu_dropout_back, NULL, test_threads(6)), MT_OK);
  test_same(back, y, "mask drawn again");
  c.arg[1] = test_float(1);
  ck_assert_int_eq(test_run(&c, 1, 2, 2, mt_cpu_dropout, NULL, NULL), MT_OK);
  for (int64_t i = 0; i < x->numel; i++) ck_assert(test_at(y, i) == 0);
  test_free();
}
END_TEST

START_TEST(permutations_are_permutations) {
  int64_t n = 6, first[6] = {0};
  for (uint64_t seed = 0; seed < 6000; seed++) {
    mt_view *v = test_view(MT_I64, 1, &n, TEST_GAPS);
    test_call c = {.out = {v}, .arg = {test_int(n)}, .k = {.seed = seed, .index_base = 1}};
    ck_assert_int_eq(test_run(&c, 0, 1, 1, mt_cpu_randperm, mt_cpu_randperm_scratch, NULL), MT_OK);
    int seen = 0;
    for (int64_t i = 0; i < n; i++) seen |= 1 << (mt_ref_int(v, i) - 1);
    ck_assert_int_eq(seen, 63);
    first[mt_ref_int(v, 0) - 1]++;
    test_free();
  }
  for (int i = 0; i < 6; i++) ck_assert_double_lt(fabs((double)first[i] - 1000), 5 * 29);
  n = 300000; /* long ones are sorted, with keys that meet */
  mt_view *v = test_view(MT_I64, 1, &n, TEST_GAPS);
  test_call c = {.out = {v}, .arg = {test_int(n)}, .k = {.seed = 5, .offset = 1}};
  ck_assert_int_eq(test_run(&c, 0, 1, 1, mt_cpu_randperm, mt_cpu_randperm_scratch, NULL), MT_OK);
  char *seen = calloc(1, (size_t)n);
  double apart = 0;
  for (int64_t i = 0; i < n; i++) {
    ck_assert(!seen[mt_ref_int(v, i)]);
    seen[mt_ref_int(v, i)] = 1;
    apart += fabs((double)(mt_ref_int(v, i) - i)) / (double)n / (double)n;
  }
  free(seen);
  ck_assert_double_lt(fabs(apart - 1.0 / 3), 0.003);
  test_free();
}
END_TEST

static int multinomial(mt_view *w, mt_view *out, int64_t n, bool replace, uint64_t seed) {
  test_call c = {.in = {w},
                 .out = {out},
                 .arg = {test_nil(), test_int(n), test_bool(replace)},
                 .k = {.seed = seed, .index_base = 1}};
  return test_run(&c, 1, 1, 3, mt_cpu_multinomial, mt_cpu_multinomial_scratch, test_threads(2));
}

START_TEST(multinomial_draws_by_weight_and_never_weight_zero) {
  static const double weights[] = {0.33, 0.34, 0, 0.33};
  int64_t four = 4, n = 100000, three = 3, two = 2;
  mt_view *w = test_list(MT_F32, 1, &four, weights), *v = test_view(MT_I64, 1, &n, TEST_GAPS);
  ck_assert_int_eq(multinomial(w, v, n, true, 1), MT_OK);
  double counts[5] = {0};
  for (int64_t i = 0; i < n; i++) counts[mt_ref_int(v, i)]++;
  ck_assert(counts[0] == 0 && counts[3] == 0);
  ck_assert_double_lt(fabs(counts[1] - 33000), 5 * 149);
  ck_assert_double_lt(fabs(counts[2] - 34000), 5 * 150);
  /* Without replacement: distinct, by weight, zero weights left out. */
  double lead[5] = {0};
  mt_view *u = test_view(MT_I64, 1, &three, TEST_CONTIGUOUS);
  for (uint64_t seed = 0; seed < 5000; seed++) {
    ck_assert_int_eq(multinomial(w, u, 3, false, seed), MT_OK);
    int seen = 0;
    for (int i = 0; i < 3; i++) seen |= 1 << mt_ref_int(u, i);
    ck_assert_int_eq(seen, 1 << 1 | 1 << 2 | 1 << 4);
    lead[mt_ref_int(u, 0)]++;
  }
  ck_assert_double_lt(fabs(lead[2] - 1700), 5 * 34);
  static const double some[] = {1, 0, 1}, none[] = {0, 0}, negative[] = {1, -1},
                      inf[] = {1, INFINITY};
  ck_assert_int_eq(multinomial(test_list(MT_F64, 1, &three, some), u, 3, false, 0), MT_ERROR);
  mt_view *t = test_view(MT_I64, 1, &two, TEST_CONTIGUOUS);
  ck_assert_int_eq(multinomial(test_list(MT_F64, 1, &two, none), t, 2, true, 0), MT_ERROR);
  ck_assert_int_eq(multinomial(test_list(MT_F64, 1, &two, negative), t, 2, true, 0), MT_ERROR);
  ck_assert_int_eq(multinomial(test_list(MT_F64, 1, &two, inf), t, 2, true, 0), MT_ERROR);
  test_free();
}
END_TEST

START_TEST(poisson_has_mean_and_variance_of_its_rate) {
  static const double rates[] = {0, 0.3, 4, 9.9, 10.1, 50, 3000};
  int64_t n = 20000;
  for (int r = 0; r < 7; r++) {
    mt_view *x = test_view(MT_F64, 1, &n, TEST_CONTIGUOUS), *v = test_like(x, TEST_GAPS);
    for (int64_t i = 0; i < n; i++) mt_ref_store(x, i, (mt_num){rates[r], 0});
    test_call c = {.in = {x}, .out = {v}, .k = {.seed = 3}};
    ck_assert_int_eq(test_run(&c, 1, 1, 1, mt_cpu_poisson, NULL, test_threads(2)), MT_OK);
    moments m = measure(v, NULL);
    double se = sqrt(rates[r] / (double)n);
    ck_assert_double_le(fabs(m.mean - rates[r]), 5 * se);
    ck_assert_double_le(fabs(m.var - rates[r]),
                        5 * sqrt((2 * rates[r] * rates[r] + rates[r]) / (double)n));
    ck_assert(m.low >= 0 && m.high == floor(m.high));
    mt_ref_store(x, 3, (mt_num){-1, 0});
    ck_assert_int_eq(test_run(&c, 1, 1, 1, mt_cpu_poisson, NULL, NULL), MT_ERROR);
    test_free();
  }
}
END_TEST

Suite *random_suite(void) {
  Suite *s = suite_create("random");
  TCase *t = tcase_create("random");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, philox_gives_the_published_words);
  tcase_add_test(t, elements_follow_from_counter_and_lane);
  tcase_add_test(t, bits_depend_on_seed_and_offset_alone);
  tcase_add_loop_test(t, distributions_are_right, 0, MT_BF16 + 1);
  tcase_add_test(t, neighbours_are_independent);
  tcase_add_test(t, logarithm_and_circle_are_accurate);
  tcase_add_test(t, integers_fill_their_range);
  tcase_add_test(t, bernoulli_follows_its_probabilities);
  tcase_add_loop_test(t, dropout_scales_and_its_mask_comes_back, 0, MT_BF16 + 1);
  tcase_add_test(t, permutations_are_permutations);
  tcase_add_test(t, multinomial_draws_by_weight_and_never_weight_zero);
  tcase_add_test(t, poisson_has_mean_and_variance_of_its_rate);
  suite_add_tcase(s, t);
  return s;
}
