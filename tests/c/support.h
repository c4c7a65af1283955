/* support.h - what kernel tests share: a small thread pool, views of every layout, comparison.
 *
 * Everything made here lives in an arena that test_free (the checked fixture's teardown) empties.
 * Views are made on blocks of exactly their size, so that the address sanitizer sees every step
 * outside. Random numbers come from a fixed seed per test: a failure repeats. */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/cpu/ref/ref.h"

/* An mt_parallel that starts `n` threads for every run and hands out small uneven ranges. */
mt_parallel *test_threads(int n);

/* Deterministic numbers. */
uint64_t test_random(void);
int64_t test_below(int64_t n); /* 0 .. n-1 */
void test_seed(uint64_t seed);

typedef enum {
  TEST_CONTIGUOUS,
  TEST_PERMUTED,
  TEST_GAPS,
  TEST_LAYOUTS
} test_layout;

/* A view with elements set to 0. TEST_PERMUTED: dims in another order in memory; TEST_GAPS: unused
 * elements between the used ones. */
mt_view *test_view(mt_dtype dtype, int ndim, const int64_t *size, test_layout layout);
/* The same with small random values: floats multiples of 1/8, so that sums are exact. */
mt_view *test_values(mt_dtype dtype, int ndim, const int64_t *size, test_layout layout);
/* int64 positions in [base, base + limit). */
mt_view *test_index(int ndim, const int64_t *size, int64_t limit, int base, test_layout layout);
/* A view from listed values. */
mt_view *test_list(mt_dtype dtype, int ndim, const int64_t *size, const double *values);
/* A contiguous copy; a view of the same shape and dtype filled with garbage. */
mt_view *test_copy(const mt_view *v);
mt_view *test_like(const mt_view *v, test_layout layout);
double test_at(const mt_view *v, int64_t p);
void test_free(void);

/* Equal to within rtol and atol; NaN equals NaN. On failure says where, with `what`. */
void test_close(const mt_view *a, const mt_view *b, double rtol, double atol, const char *what);
#define test_same(a, b, what) test_close(a, b, 0, 0, what)

/* A call of a kernel: fill in, then run. */
typedef struct test_call {
  const mt_view *in[24], *out[8];
  mt_value arg[16];
  mt_kargs k;
  mt_kerror error;
} test_call;

/* Runs with scratch of exactly the size asked for, filled with garbage. nin, nout, narg are counted
 * from in, out (up to the last that is not NULL) and given. */
int test_run(test_call *c, int nin, int nout, int narg, mt_kernel_fn fn, mt_scratch_fn scratch,
             mt_parallel *par);

static inline mt_value test_int(int64_t i) { return (mt_value){.kind = MT_INT, .u.i = i}; }
static inline mt_value test_float(double f) { return (mt_value){.kind = MT_FLOAT, .u.f = f}; }
static inline mt_value test_bool(bool b) { return (mt_value){.kind = MT_BOOL_ARG, .u.i = b}; }
static inline mt_value test_str(const char *s) {
  return (mt_value){.kind = MT_STR, .n = (int)strlen(s), .u.s = s};
}
static inline mt_value test_ints(const int64_t *v, int n) {
  return (mt_value){.kind = MT_INTS, .n = n, .u.ints = v};
}
static inline mt_value test_tensors(int n) { return (mt_value){.kind = MT_TENSORS, .n = n}; }
static inline mt_value test_nil(void) { return (mt_value){.kind = MT_NIL}; }

#endif
