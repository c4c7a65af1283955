/* support.c - see support.h. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>

/* ---- arena ---- */

static void *blocks[65536];
static int nblocks;

static void *grab(size_t size) {
  void *p = NULL;
  if (nblocks == (int)(sizeof blocks / sizeof *blocks)) abort();
  if (posix_memalign(&p, 64, size ? size : 1) != 0) abort();
  blocks[nblocks++] = p;
  return p;
}

void test_free(void) {
  while (nblocks > 0) free(blocks[--nblocks]);
}

/* ---- threads ---- */

typedef struct pool {
  mt_parallel par;
  pthread_mutex_t lock;
  int64_t next, n, grain;
  mt_range_fn fn;
  void *ctx;
  int worker;
} pool;

static void *work(void *arg) {
  pool *p = arg;
  pthread_mutex_lock(&p->lock);
  int worker = p->worker++, piece = 0;
  for (;;) {
    int64_t begin = p->next, end = begin + p->grain * (1 + (piece++ + worker) % 3);
    if (end > p->n || p->n - end < p->grain) end = p->n;
    if (begin >= p->n) break;
    p->next = end;
    pthread_mutex_unlock(&p->lock);
    p->fn(p->ctx, begin, end, worker);
    pthread_mutex_lock(&p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static void run(mt_parallel *self, int64_t n, int64_t grain, mt_range_fn fn, void *ctx) {
  pool *p = (pool *)self;
  pthread_t thread[64];
  p->next = 0;
  p->n = n;
  p->grain = grain;
  p->fn = fn;
  p->ctx = ctx;
  p->worker = 0;
  for (int i = 1; i < self->nthreads; i++) pthread_create(&thread[i], NULL, work, p);
  work(p);
  for (int i = 1; i < self->nthreads; i++) pthread_join(thread[i], NULL);
}

mt_parallel *test_threads(int n) {
  static pool pools[65];
  static const int never = 0;
  pool *p = &pools[n];
  if (p->par.nthreads == 0) {
    p->par = (mt_parallel){n, run, &never};
    pthread_mutex_init(&p->lock, NULL);
  }
  return &p->par;
}

/* ---- numbers ---- */

static uint64_t state = 1;

void test_seed(uint64_t seed) { state = seed * 0x9e3779b97f4a7c15u + 1; }

uint64_t test_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545f4914f6cdd1du;
}

int64_t test_below(int64_t n) {
  return n <= 1 ? 0 : (int64_t)((test_random() >> 11) % (uint64_t)n);
}

/* ---- views ---- */

mt_view *test_view(mt_dtype dtype, int ndim, const int64_t *size, test_layout layout) {
  mt_view *v = grab(sizeof *v);
  int order[MT_MAX_DIM];
  int64_t step = 1;
  memset(v, 0, sizeof *v);
  v->ndim = (int8_t)ndim;
  v->dtype = (int8_t)dtype;
  v->numel = 1;
  for (int d = 0; d < ndim; d++) {
    v->numel *= size[d];
    order[d] = layout == TEST_PERMUTED ? (d + 1) % ndim : d;
  }
  for (int i = ndim - 1; i >= 0; i--) {
    int d = order[i];
    v->size[d] = size[d];
    v->stride[d] = step * (layout == TEST_GAPS ? 2 : 1);
    step *= (size[d] ? size[d] : 1) * (layout == TEST_GAPS ? 2 : 1);
  }
  int64_t last = 0, dense = 1;
  for (int d = 0; d < ndim; d++) last += (size[d] ? size[d] - 1 : 0) * v->stride[d];
  v->contiguous = true;
  for (int d = ndim - 1; d >= 0 && v->numel > 1; d--) {
    if (size[d] != 1 && v->stride[d] != dense) v->contiguous = false;
    dense *= size[d];
  }
  size_t bytes = v->numel ? (size_t)(last + 1) * (size_t)mt_dtype_size(dtype) : 0;
  v->data = grab(bytes);
  memset(v->data, 0, bytes);
  return v;
}

mt_view *test_values(mt_dtype dtype, int ndim, const int64_t *size, test_layout layout) {
  mt_view *v = test_view(dtype, ndim, size, layout);
  bool whole = mt_dtype_category(dtype) <= MT_CAT_INT;
  for (int64_t p = 0; p < v->numel; p++) {
    long double re = (long double)test_below(41) - 20, im = (long double)test_below(41) - 20;
    if (dtype == MT_U8) re += 20;
    if (dtype == MT_BOOL) re = (long double)test_below(2);
    mt_ref_store(v, p, whole ? (mt_num){re, 0} : (mt_num){re / 8, im / 8});
  }
  return v;
}

mt_view *test_index(int ndim, const int64_t *size, int64_t limit, int base, test_layout layout) {
  mt_view *v = test_view(MT_I64, ndim, size, layout);
  for (int64_t p = 0; p < v->numel; p++) mt_ref_store(v, p, (mt_num){test_below(limit) + base, 0});
  return v;
}

mt_view *test_list(mt_dtype dtype, int ndim, const int64_t *size, const double *values) {
  mt_view *v = test_view(dtype, ndim, size, TEST_CONTIGUOUS);
  for (int64_t p = 0; p < v->numel; p++) mt_ref_store(v, p, (mt_num){values[p], 0});
  return v;
}

mt_view *test_copy(const mt_view *v) {
  mt_view *c = test_view((mt_dtype)v->dtype, v->ndim, v->size, TEST_CONTIGUOUS);
  for (int64_t p = 0; p < v->numel; p++) mt_ref_store(c, p, mt_ref_load(v, p));
  return c;
}

mt_view *test_like(const mt_view *v, test_layout layout) {
  mt_view *c = test_view((mt_dtype)v->dtype, v->ndim, v->size, layout);
  for (int64_t p = 0; p < v->numel; p++) mt_ref_store(c, p, (mt_num){77, 77});
  return c;
}

double test_at(const mt_view *v, int64_t p) { return (double)mt_ref_load(v, p).re; }

static bool near(long double a, long double b, double rtol, double atol) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (a == b) return true;
  return fabsl(a - b) <= (long double)atol + (long double)rtol * fabsl(b);
}

void test_close(const mt_view *a, const mt_view *b, double rtol, double atol, const char *what) {
  ck_assert_msg(a->dtype == b->dtype && a->ndim == b->ndim, "%s: dtype or dims differ", what);
  for (int d = 0; d < a->ndim; d++) {
    ck_assert_msg(a->size[d] == b->size[d], "%s: size of dim %d differs", what, d);
  }
  for (int64_t p = 0; p < a->numel; p++) {
    mt_num x = mt_ref_load(a, p), y = mt_ref_load(b, p);
    if (near(x.re, y.re, rtol, atol) && near(x.im, y.im, rtol, atol)) continue; /* Check is slow */
    ck_abort_msg("%s: %s, element %lld: got %.17g, expected %.17g", what, mt_dtypes[a->dtype].name,
                 (long long)p, (double)x.re, (double)y.re);
  }
}

int test_run(test_call *c, int nin, int nout, int narg, mt_kernel_fn fn, mt_scratch_fn scratch,
             mt_parallel *par) {
  mt_kargs *k = &c->k;
  k->in = c->in;
  k->out = c->out;
  k->arg = c->arg;
  k->nin = nin;
  k->nout = nout;
  k->narg = narg;
  k->par = par;
  k->isa = mt_isa_choose();
  k->error = &c->error;
  k->scratch_size = scratch ? scratch(k) : 0;
  if (k->scratch_size == SIZE_MAX) return MT_NOMEM;
  void *block = NULL;
  if (posix_memalign(&block, 64, k->scratch_size ? k->scratch_size : 1) != 0) return MT_NOMEM;
  memset(block, 0xa5, k->scratch_size);
  k->scratch = scratch ? block : NULL;
  int status = fn(k);
  free(block);
  return status;
}
