/* matmul.c - the kernels matmul, addmm and linear: from views to products.
 *
 * matmul  out (.., m, n) = in[0] (.., m, k) @ in[1] (.., k, n), the dims of the batch already
 *         broadcast (stride 0)
 * addmm   out = arg[3] * in[0] + arg[4] * (in[1] @ in[2]); in[0] broadcasts to out; a batch as
 * above linear  out (.., n) = in[0] (.., k) @ in[1]^T (n, k) + in[2] (n), which may be absent
 *
 * f32 and f64 go to gemm.c, f16 and bf16 with f32 sums; integers wrap; c64 and they take the plain
 * loop. k = 0 gives beta * in[0], or zeros. Dims of the batch are merged, and become rows of one
 * large product where B is the same for all of them. */
#include "gemm.h"

#include "../half.h"
#include "isa.h"

#include <string.h>

struct product {
  mt_gemm g;
  mt_gemm_batch batch;
  bool batched;        /* batch.count != 1 */
  const mt_view *bias; /* linear: in[2] */
};

/* ---- From views to a product ---- */

/* Adds a dim of the batch outside of those that are there: merged with the outermost if in every
 * operand it continues that one. */
static void add_outer(mt_gemm_batch *batch, int64_t size, int64_t a, int64_t b, int64_t c,
                      int64_t c0) {
  batch->count *= size;
  if (size == 1) return;
  int i = batch->ndim - 1;
  if (i >= 0) {
    int64_t n = batch->size[i];
    if (a == n * batch->a[i] && b == n * batch->b[i] && c == n * batch->c[i] &&
        c0 == n * batch->c0[i]) {
      batch->size[i] *= size;
      return;
    }
  }
  i = batch->ndim++;
  batch->size[i] = size, batch->a[i] = a, batch->b[i] = b, batch->c[i] = c, batch->c0[i] = c0;
}

/* The innermost dim of the batch becomes rows where B does not change along it. */
static void fold_rows(struct product *p) {
  mt_gemm *g = &p->g;
  mt_gemm_batch *t = &p->batch;
  if (t->ndim == 0 || t->b[0] != 0) return;
  bool c0 = g->beta != 0;
  if (g->m == 1) {
    g->ars = t->a[0], g->crs = t->c[0], g->c0rs = t->c0[0];
  } else if (t->a[0] != g->m * g->ars || t->c[0] != g->m * g->crs ||
             (c0 && t->c0[0] != g->m * g->c0rs)) {
    return;
  }
  int64_t n = t->size[0];
  g->m *= n;
  t->count /= n;
  t->ndim--;
  for (int i = 0; i < t->ndim; i++) {
    t->size[i] = t->size[i + 1], t->a[i] = t->a[i + 1], t->b[i] = t->b[i + 1];
    t->c[i] = t->c[i + 1], t->c0[i] = t->c0[i + 1];
  }
}

/* gemm.c wants the outermost dim first. */
static void finish_batch(struct product *p) {
  mt_gemm_batch *t = &p->batch;
  if (t->count > 0) fold_rows(p);
  for (int i = 0, j = t->ndim - 1; i < j; i++, j--) {
    mt_gemm_batch old = *t;
    t->size[i] = old.size[j], t->a[i] = old.a[j], t->b[i] = old.b[j];
    t->c[i] = old.c[j], t->c0[i] = old.c0[j];
    t->size[j] = old.size[i], t->a[j] = old.a[i], t->b[j] = old.b[i];
    t->c[j] = old.c[i], t->c0[j] = old.c0[i];
  }
  p->batched = t->ndim > 0;
}

/* The stride along out's dim d of a view that broadcasts to out. */
static int64_t stride_to(const mt_view *v, const mt_view *out, int d) {
  int e = d - (out->ndim - v->ndim);
  return e < 0 || v->size[e] == 1 ? 0 : v->stride[e];
}

static void start(struct product *p, const mt_kargs *k, const mt_view *a, const mt_view *b) {
  const mt_view *out = k->out[0];
  p->g = (mt_gemm){
      .dtype = (mt_dtype)out->dtype, .alpha = 1, .a = a->data, .b = b->data, .c = out->data};
  p->batch.ndim = 0, p->batch.count = 1;
  p->bias = NULL;
}

/* Products of the last two dims of a, b and out. */
static void set_matrices(struct product *p, const mt_kargs *k, const mt_view *a, const mt_view *b,
                         const mt_view *c0) {
  const mt_view *out = k->out[0];
  int i = out->ndim - 2, j = out->ndim - 1;
  mt_gemm *g = &p->g;
  g->m = out->size[i], g->n = out->size[j], g->k = a->size[a->ndim - 1];
  g->ars = a->stride[a->ndim - 2], g->acs = a->stride[a->ndim - 1];
  g->brs = b->stride[b->ndim - 2], g->bcs = b->stride[b->ndim - 1];
  g->crs = out->stride[i], g->ccs = out->stride[j];
  if (c0) g->c0 = c0->data, g->c0rs = stride_to(c0, out, i), g->c0cs = stride_to(c0, out, j);
  for (int d = i - 1; d >= 0; d--) {
    add_outer(&p->batch, out->size[d], stride_to(a, out, d), stride_to(b, out, d), out->stride[d],
              c0 ? stride_to(c0, out, d) : 0);
  }
  finish_batch(p);
}

static void set_matmul(struct product *p, const mt_kargs *k) {
  start(p, k, k->in[0], k->in[1]);
  set_matrices(p, k, k->in[0], k->in[1], NULL);
}

static void set_addmm(struct product *p, const mt_kargs *k) {
  start(p, k, k->in[1], k->in[2]);
  p->g.beta = mt_karg_f(k, 3), p->g.alpha = mt_karg_f(k, 4);
  set_matrices(p, k, k->in[1], k->in[2], p->g.beta != 0 ? k->in[0] : NULL);
}

/* All dims but the last are rows, one by one until finish_batch folds them. A bias becomes c0,
 * unless gemm.c adds it at the end. */
static void set_linear(struct product *p, const mt_kargs *k) {
  const mt_view *a = k->in[0], *w = k->in[1], *out = k->out[0];
  start(p, k, a, w);
  int last = out->ndim - 1;
  mt_gemm *g = &p->g;
  g->m = 1, g->n = out->size[last], g->k = w->size[1];
  g->acs = a->stride[last];
  g->brs = w->stride[1], g->bcs = w->stride[0];
  g->ccs = out->stride[last];
  if (k->nin > 2) p->bias = k->in[2];
  if (p->bias && !mt_dtype_is_float(g->dtype)) {
    g->beta = 1, g->c0 = p->bias->data, g->c0cs = p->bias->stride[0];
    p->bias = NULL;
  }
  for (int d = last - 1; d >= 0; d--) {
    add_outer(&p->batch, out->size[d], a->stride[d], 0, out->stride[d], 0);
  }
  finish_batch(p);
}

/* ---- Running it ---- */

static const mt_gemm_batch *batch_of(const struct product *p) {
  return p->batched ? &p->batch : NULL;
}

static void lend_blas(struct product *p, const mt_kargs *k) {
  mt_gemm *g = &p->g;
  if (k->blas && mt_gemm_wants_blas(g->dtype, g->m, g->n, g->k)) g->blas = k->blas(g->dtype);
}

static bool empty(const struct product *p) {
  return p->batch.count == 0 || p->g.m == 0 || p->g.n == 0;
}

/* A bias in another type or with gaps is copied first. */
static size_t bias_bytes(const struct product *p) {
  const mt_view *b = p->bias;
  if (!b || ((b->dtype == MT_F32 || b->dtype == MT_F64) && (b->stride[0] == 1 || p->g.n == 1))) {
    return 0;
  }
  size_t size = b->dtype == MT_F64 ? sizeof(double) : sizeof(float);
  return ((size_t)p->g.n * size + 63) & ~(size_t)63;
}

static size_t scratch(struct product *p, const mt_kargs *k) {
  if (empty(p) || !mt_dtype_is_float(p->g.dtype)) return 0;
  lend_blas(p, k);
  size_t bias = bias_bytes(p);
  size_t bytes = mt_gemm_scratch(k->isa, &p->g, batch_of(p), k->par ? k->par->nthreads : 1);
  return bytes > SIZE_MAX - bias ? SIZE_MAX : bytes + bias;
}

static void set_bias(struct product *p, void *buf) {
  const mt_view *b = p->bias;
  p->g.col_bias = b->data;
  if (bias_bytes(p) == 0) return;
  p->g.col_bias = buf;
  for (int64_t j = 0; j < p->g.n; j++) {
    int64_t i = j * b->stride[0];
    switch (b->dtype) {
      case MT_F64:
        ((double *)buf)[j] = ((const double *)(const void *)b->data)[i];
        break;
      case MT_F32:
        ((float *)buf)[j] = ((const float *)(const void *)b->data)[i];
        break;
      case MT_F16:
        ((float *)buf)[j] = mt_f16_to_f32(((const uint16_t *)(const void *)b->data)[i]);
        break;
      default:
        ((float *)buf)[j] = mt_bf16_to_f32(((const uint16_t *)(const void *)b->data)[i]);
        break;
    }
  }
}

/* Integers and c64: rows of all products, in ranges. */
struct plain {
  const struct product *p;
  const mt_parallel *par;
  int64_t size;
};

static void plain_rows(void *ctx, int64_t begin, int64_t end, int worker) {
  const struct plain *r = ctx;
  const mt_gemm_batch *batch = &r->p->batch;
  (void)worker;
  for (int64_t q = begin; q < end && !mt_stopped(r->par); q++) {
    mt_gemm g = r->p->g;
    int64_t i = q % g.m, rest = q / g.m;
    int64_t a = i * g.ars, b = 0, c = i * g.crs, c0 = i * g.c0rs;
    for (int d = batch->ndim - 1; d >= 0; d--) {
      int64_t at = rest % batch->size[d];
      rest /= batch->size[d];
      a += at * batch->a[d], b += at * batch->b[d], c += at * batch->c[d], c0 += at * batch->c0[d];
    }
    g.m = 1;
    g.a = (const char *)g.a + a * r->size;
    g.b = (const char *)g.b + b * r->size;
    g.c = (char *)g.c + c * r->size;
    if (g.beta != 0) g.c0 = (const char *)g.c0 + c0 * r->size;
    mt_ref_gemm(&g);
  }
}

static int run(struct product *p, const mt_kargs *k) {
  if (p->g.dtype == MT_BOOL) return MT_NOKERNEL;
  if (empty(p)) return MT_OK;
  if (!mt_dtype_is_float(p->g.dtype)) {
    struct plain plain = {p, k->par, mt_dtype_size(p->g.dtype)};
    int64_t row = p->g.n * (p->g.k + 1), grain = row >= 50000 ? 1 : 50000 / row;
    mt_parallel_for(k->par, p->batch.count * p->g.m, grain, plain_rows, &plain);
  } else {
    lend_blas(p, k);
    if (p->bias) set_bias(p, k->scratch);
    char *rest = (char *)k->scratch + bias_bytes(p);
    mt_gemm_run(k->isa, &p->g, batch_of(p), k->par, rest);
  }
  return mt_stopped(k->par) ? MT_INTERRUPTED : MT_OK;
}

int mt_cpu_matmul(const mt_kargs *k) {
  struct product p;
  set_matmul(&p, k);
  return run(&p, k);
}

size_t mt_cpu_matmul_scratch(const mt_kargs *k) {
  struct product p;
  set_matmul(&p, k);
  return scratch(&p, k);
}

int mt_cpu_addmm(const mt_kargs *k) {
  struct product p;
  set_addmm(&p, k);
  return run(&p, k);
}

size_t mt_cpu_addmm_scratch(const mt_kargs *k) {
  struct product p;
  set_addmm(&p, k);
  return scratch(&p, k);
}

int mt_cpu_linear(const mt_kargs *k) {
  struct product p;
  set_linear(&p, k);
  return run(&p, k);
}

size_t mt_cpu_linear_scratch(const mt_kargs *k) {
  struct product p;
  set_linear(&p, k);
  return scratch(&p, k);
}
