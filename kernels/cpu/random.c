/* random.c - numbers drawn: uniform, normal, exponential, integers, Bernoulli, dropout.
 *
 * Work is cut into blocks of 1024 elements whose counters follow from their position (rng.h), so
 * results do not depend on threads, vectors or strides. Kernels take seed and offset from k;
 * dropout reports them, so that its backward draws the same mask again instead of keeping one. */
#include "random.h"

#include "../half.h"
#include "../rng.h"
#include "isa.h"
#include "walk.h"

#define BLOCK 1024

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

typedef struct job job;
/* Makes n elements, the first at position `at`; f holds floats (f64: doubles). */
typedef void (*make_fn)(const job *j, void *f, const uint32_t *w, int64_t n);

struct job {
  const struct mt_random_table *t;
  const mt_view *out, *x; /* x: an input of out's shape, or NULL */
  mt_walk w;              /* out, x */
  uint64_t seed, offset;
  int words; /* per element: 1 or 2 */
  make_fn make;
  double a, b;
  uint32_t bound;
  bool wide; /* elements are made as doubles */
};

/* ---- moving elements between views and buffers ---- */

static void load_row(const job *j, void *buf, int64_t at, const char *p, int64_t step, int64_t n) {
  float *f = (float *)buf + at;
  double *d = (double *)buf + at;
  switch (j->x->dtype) {
    case MT_F64:
      for (int64_t i = 0; i < n; i++) d[i] = *(const double *)(const void *)(p + i * step);
      break;
    case MT_F32:
      for (int64_t i = 0; i < n; i++) f[i] = *(const float *)(const void *)(p + i * step);
      break;
    case MT_F16:
      for (int64_t i = 0; i < n; i++) {
        f[i] = mt_f16_to_f32(*(const uint16_t *)(const void *)(p + i * step));
      }
      break;
    default:
      for (int64_t i = 0; i < n; i++) {
        f[i] = mt_bf16_to_f32(*(const uint16_t *)(const void *)(p + i * step));
      }
  }
}

#define STORE(T, from, expr)                    \
  for (int64_t i = 0; i < n; i++) {             \
    const from v = ((const from *)buf)[at + i]; \
    *(T *)(void *)(p + i * step) = (T)(expr);   \
  }                                             \
  break

static void store_row(const job *j, const void *buf, int64_t at, char *p, int64_t step, int64_t n) {
  switch (j->out->dtype) {
    case MT_F64:
      STORE(double, double, v);
    case MT_F32:
      STORE(float, float, v);
    case MT_F16:
      STORE(uint16_t, float, mt_f32_to_f16(v));
    case MT_BF16:
      STORE(uint16_t, float, mt_f32_to_bf16(v));
    case MT_I64:
      STORE(int64_t, double, v);
    case MT_I32:
      STORE(int32_t, double, v);
    case MT_I16:
      STORE(int16_t, double, v);
    case MT_I8:
      STORE(int8_t, double, v);
    default:
      STORE(uint8_t, double, v);
  }
}

/* One block: words, elements, and out with them. Contiguous f32 and f64 are made in place. */
static void block(const job *j, int64_t begin, int64_t n) {
  uint32_t w[2 * BLOCK];
  double buf[BLOCK];
  uint64_t counter = j->offset + (uint64_t)(begin * j->words / 4);
  int64_t whole = (n * j->words + 3) / 4;
  j->t->words(w, whole, j->seed, counter);
  mt_cursor c;
  int64_t at = 0;
  if (j->x) {
    mt_cursor_seek(&j->w, &c, begin, begin + n);
    for (; mt_cursor_next(&j->w, &c); at += c.n) {
      load_row(j, buf, at, j->x->data + c.off[1], j->w.step[1], c.n);
    }
  }
  bool direct = j->out->contiguous && n == BLOCK && !j->x &&
                (j->out->dtype == MT_F32 || j->out->dtype == MT_F64);
  void *to = direct ? j->out->data + begin * bytes(j->out) : (char *)buf;
  j->make(j, to, w, (n + 1) / 2 * 2);
  if (direct) return;
  at = 0;
  mt_cursor_seek(&j->w, &c, begin, begin + n);
  for (; mt_cursor_next(&j->w, &c); at += c.n) {
    store_row(j, buf, at, j->out->data + c.off[0], j->w.step[0], c.n);
  }
}

static void blocks(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * BLOCK, left = j->out->numel - at;
    block(j, at, left < BLOCK ? left : BLOCK);
  }
}

static int draw_at(const mt_kargs *k, job *j, make_fn make, uint64_t seed, uint64_t offset) {
  const mt_view *out = k->out[0];
  j->t = k->isa->random;
  j->out = out;
  j->seed = seed;
  j->offset = offset;
  j->make = make;
  mt_walk_views(&j->w, out->ndim, out->size, 2, (const mt_view *const[]){out, j->x ? j->x : out});
  mt_parallel_for(k->par, (out->numel + BLOCK - 1) / BLOCK, 16, blocks, j);
  return MT_OK;
}

static int draw(const mt_kargs *k, job *j, make_fn make) {
  return draw_at(k, j, make, k->seed, k->offset);
}

/* ---- floats ---- */

static void make_uniform(const job *j, void *f, const uint32_t *w, int64_t n) {
  if (j->wide)
    j->t->uniform_f64(f, w, n, j->a, j->b);
  else
    j->t->uniform_f32(f, w, n, (float)j->a, (float)j->b);
}

/* float16 and bfloat16 have fewer bits: u is cut to them, so that [0, 1) needs no rounding; what is
 * rounded up to another end becomes the start, as for a float that reaches the end. */
static void make_uniform_half(const job *j, void *f, const uint32_t *w, int64_t n) {
  const float from = (float)j->a, to = (float)j->b;
  const bool f16 = j->out->dtype == MT_F16;
  uint32_t cut[BLOCK] = {0};
  float *x = f;
  for (int64_t i = 0; i < n; i++) cut[i] = w[i] & (f16 ? 0xffe00000u : 0xff000000u);
  j->t->uniform_f32(x, cut, n, from, to);
  for (int64_t i = 0; i < n; i++) {
    float stored = f16 ? mt_f16_to_f32(mt_f32_to_f16(x[i])) : mt_bf16_to_f32(mt_f32_to_bf16(x[i]));
    x[i] = stored >= to ? from : stored;
  }
}

static int uniform(const mt_kargs *k, double from, double to) {
  int d = k->out[0]->dtype;
  job j = {.a = from, .b = to, .wide = d == MT_F64, .words = d == MT_F64 ? 2 : 1};
  if (!mt_dtype_is_float((mt_dtype)d)) return MT_NOKERNEL;
  return draw(k, &j, d == MT_F16 || d == MT_BF16 ? make_uniform_half : make_uniform);
}

/* rand(...): out uniform in [0, 1) */
int mt_cpu_rand(const mt_kargs *k) { return uniform(k, 0, 1); }
/* uniform(x, from, to): out uniform in [from, to) */
int mt_cpu_uniform(const mt_kargs *k) { return uniform(k, mt_karg_f(k, 1), mt_karg_f(k, 2)); }

static void make_normal(const job *j, void *f, const uint32_t *w, int64_t n) {
  if (j->wide)
    j->t->normal_f64(f, w, n, j->a, j->b);
  else
    j->t->normal_f32(f, w, n, (float)j->a, (float)j->b);
}

static int normal(const mt_kargs *k, double mean, double std) {
  int d = k->out[0]->dtype;
  job j = {.a = mean, .b = std, .wide = d == MT_F64, .words = d == MT_F64 ? 2 : 1};
  return mt_dtype_is_float((mt_dtype)d) ? draw(k, &j, make_normal) : MT_NOKERNEL;
}

/* randn(...) */
int mt_cpu_randn(const mt_kargs *k) { return normal(k, 0, 1); }
/* normal(x, mean, std) */
int mt_cpu_normal(const mt_kargs *k) { return normal(k, mt_karg_f(k, 1), mt_karg_f(k, 2)); }

static void make_exponential(const job *j, void *f, const uint32_t *w, int64_t n) {
  if (j->wide)
    j->t->exponential_f64(f, w, n, j->a);
  else
    j->t->exponential_f32(f, w, n, (float)j->a);
}

/* exponential(x, rate) */
int mt_cpu_exponential(const mt_kargs *k) {
  int d = k->out[0]->dtype;
  job j = {.a = mt_karg_f(k, 1), .wide = d == MT_F64, .words = d == MT_F64 ? 2 : 1};
  return mt_dtype_is_float((mt_dtype)d) ? draw(k, &j, make_exponential) : MT_NOKERNEL;
}

/* ---- integers ---- */

typedef struct range {
  const mt_view *out;
  int64_t low;
  uint64_t n, seed, offset;
} range;

static void put_int(const mt_view *out, int64_t at, int64_t v) {
  void *p = out->data + mt_view_at(out, at);
  switch (out->dtype) {
    case MT_F64:
      *(double *)p = (double)v;
      break;
    case MT_F32:
      *(float *)p = (float)v;
      break;
    case MT_F16:
      *(uint16_t *)p = mt_f32_to_f16((float)v);
      break;
    case MT_BF16:
      *(uint16_t *)p = mt_f32_to_bf16((float)v);
      break;
    case MT_I64:
      *(int64_t *)p = v;
      break;
    case MT_I32:
      *(int32_t *)p = (int32_t)v;
      break;
    case MT_I16:
      *(int16_t *)p = (int16_t)v;
      break;
    case MT_I8:
      *(int8_t *)p = (int8_t)v;
      break;
    default:
      *(uint8_t *)p = (uint8_t)v;
      break;
  }
}

static void integers(void *ctx, int64_t begin, int64_t end, int worker) {
  const range *r = ctx;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    mt_philox w = mt_philox_at(r->seed, r->offset + (uint64_t)i / 2);
    int h = (int)(i & 1) * 2;
    put_int(r->out, i, (int64_t)((uint64_t)r->low + mt_unit_below(w.w[h], w.w[h + 1], r->n)));
  }
}

/* randint(low, high, ...): out in low .. high-1 */
int mt_cpu_randint(const mt_kargs *k) {
  range r = {.out = k->out[0],
             .low = MT_KARG_INT(k, 0),
             .seed = k->seed,
             .offset = k->offset,
             .n = (uint64_t)MT_KARG_INT(k, 1) - (uint64_t)MT_KARG_INT(k, 0)};
  if (k->out[0]->dtype == MT_C64) return MT_NOKERNEL;
  mt_parallel_for(k->par, k->out[0]->numel, 4096, integers, &r);
  return MT_OK;
}

/* ---- Bernoulli ---- */

typedef struct coins {
  const mt_view *out, *p; /* p has out's shape or is 0-d */
  uint64_t seed, offset;
  volatile int *bad;
} coins;

static double probability(const mt_view *p, int64_t at) {
  const void *a = p->data + (p->ndim ? mt_view_at(p, at) : 0);
  switch (p->dtype) {
    case MT_F64:
      return *(const double *)a;
    case MT_F32:
      return *(const float *)a;
    case MT_F16:
      return mt_f16_to_f32(*(const uint16_t *)a);
    case MT_BF16:
      return mt_bf16_to_f32(*(const uint16_t *)a);
    case MT_I64:
      return (double)*(const int64_t *)a;
    default:
      return -1;
  }
}

static void toss(void *ctx, int64_t begin, int64_t end, int worker) {
  const coins *c = ctx;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    mt_philox w = mt_philox_at(c->seed, c->offset + (uint64_t)i / 4);
    double p = probability(c->p, i);
    if (!(p >= 0 && p <= 1)) *c->bad = 1;
    put_int(c->out, i, (double)w.w[i & 3] < p * 0x1p32);
  }
}

static int bernoulli(const mt_kargs *k, const mt_view *p) {
  volatile int bad = 0;
  coins c = {.out = k->out[0], .p = p, .seed = k->seed, .offset = k->offset, .bad = &bad};
  if (k->out[0]->dtype == MT_C64) return MT_NOKERNEL;
  mt_parallel_for(k->par, k->out[0]->numel, 4096, toss, &c);
  return bad ? MT_ERROR : MT_OK;
}

/* bernoulli(p): 1 with probability p, element by element */
int mt_cpu_bernoulli(const mt_kargs *k) { return bernoulli(k, k->in[0]); }
/* bernoulli_p(x, p): one p (0-d) or one for each element of x */
int mt_cpu_bernoulli_p(const mt_kargs *k) { return bernoulli(k, k->in[1]); }

/* ---- dropout ---- */

static void make_drop(const job *j, void *f, const uint32_t *w, int64_t n) {
  if (j->wide)
    j->t->drop_f64(f, f, w, n, j->bound, j->a);
  else
    j->t->drop_f32(f, f, w, n, j->bound, (float)j->a);
}

static int drop(const mt_kargs *k, double p, uint64_t seed, uint64_t offset) {
  const mt_view *x = k->in[0];
  job j = {.x = x, .a = p < 1 ? 1 / (1 - p) : 0, .words = 1, .wide = x->dtype == MT_F64};
  double bound = p * 0x1p32;
  j.bound = bound >= 0x1p32 ? UINT32_MAX : (uint32_t)bound;
  if (!mt_dtype_is_float((mt_dtype)x->dtype)) return MT_NOKERNEL;
  return draw_at(k, &j, make_drop, seed, offset);
}

/* dropout(x, p) -> x / (1-p) with probability 1-p, else 0; and what drew the mask: int64 (seed,
 * offset) */
int mt_cpu_dropout(const mt_kargs *k) {
  int64_t *state = (int64_t *)(void *)k->out[1]->data;
  state[0] = (int64_t)k->seed;
  state[k->out[1]->stride[0]] = (int64_t)k->offset;
  return drop(k, mt_karg_f(k, 1), k->seed, k->offset);
}

/* dropout_back(g, state, p): the same mask on g */
int mt_cpu_dropout_back(const mt_kargs *k) {
  const int64_t *state = (const int64_t *)(const void *)k->in[1]->data;
  return drop(k, mt_karg_f(k, 2), (uint64_t)state[0], (uint64_t)state[k->in[1]->stride[0]]);
}
