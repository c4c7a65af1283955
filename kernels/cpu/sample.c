/* sample.c - positions and counts drawn: randperm, multinomial, poisson.
 *
 * With replacement a draw is a search in running sums; without, every category gets an exponential
 * time divided by its weight and the earliest ones win, which is the same distribution (Efraimidis
 * and Spirakis, 2006) and needs no sums to be updated. A category of weight 0 is never drawn. */
#include <math.h>
#include <string.h>

#include "../half.h"
#include "../rng.h"
#include "order.h"
#include "walk.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

static double load(const mt_view *v, int64_t off) {
  const void *p = v->data + off;
  switch (v->dtype) {
    case MT_F64:
      return *(const double *)p;
    case MT_F32:
      return *(const float *)p;
    case MT_F16:
      return mt_f16_to_f32(*(const uint16_t *)p);
    default:
      return mt_bf16_to_f32(*(const uint16_t *)p);
  }
}

/* ---- randperm ---- */

/* The shuffle of Fisher and Yates on p[0 .. n-1]; element i draws from counter `first` + i / 2. */
static void shuffle(const mt_kargs *k, uint64_t first, int64_t *p, int64_t s, int64_t n) {
  for (int64_t i = n - 1; i > 0; i--) {
    mt_philox w = mt_philox_at(k->seed, first + (uint64_t)i / 2);
    int h = (int)(i & 1) * 2;
    int64_t j = (int64_t)mt_unit_below(w.w[h], w.w[h + 1], (uint64_t)i + 1), t = p[i * s];
    p[i * s] = p[j * s];
    p[j * s] = t;
  }
}

#define SORTED 8192 /* from here on sorting random keys is faster than jumping through memory */

static bool by_sorting(int64_t n) { return n >= SORTED && n < UINT32_MAX; }

/* Positions in the order of random keys; equal keys, which are rare, are shuffled among themselves.
 */
static void permute_by_sorting(const mt_kargs *k, int64_t *p, int64_t s, int64_t n) {
  uint64_t *key = k->scratch;
  for (int64_t i = 0; i < n; i += 4) {
    mt_philox w = mt_philox_at(k->seed, k->offset + (uint64_t)i / 4);
    for (int64_t l = 0; l < 4 && i + l < n; l++)
      key[i + l] = (uint64_t)w.w[l] << 32 | (uint64_t)(i + l);
  }
  mt_order_sort32(key, key + n, n);
  for (int64_t i = 0; i < n; i++) p[i * s] = (int64_t)(uint32_t)key[i] + k->index_base;
  for (int64_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && key[end] >> 32 == key[i] >> 32; end++) {
    }
    if (end - i > 1) shuffle(k, k->offset + (uint64_t)(n / 2 + i / 2), p + i * s, s, end - i);
  }
}

/* randperm(n) -> positions 0 .. n-1 in random order */
int mt_cpu_randperm(const mt_kargs *k) {
  const mt_view *out = k->out[0];
  int64_t n = out->numel, s = n ? out->stride[0] : 1;
  int64_t *p = (int64_t *)(void *)out->data;
  if (by_sorting(n)) {
    permute_by_sorting(k, p, s, n);
    return MT_OK;
  }
  for (int64_t i = 0; i < n; i++) p[i * s] = i + k->index_base;
  shuffle(k, k->offset, p, s, n);
  return MT_OK;
}

size_t mt_cpu_randperm_scratch(const mt_kargs *k) {
  return by_sorting(k->out[0]->numel) ? (size_t)k->out[0]->numel * 16 : 0;
}

/* ---- multinomial ---- */

typedef struct lines {
  const mt_kargs *k;
  int64_t n, draws, lines; /* categories, results of a line, lines */
  bool replace;
  char *scratch;
  size_t part; /* of one worker */
  volatile int *bad;
} lines;

static double uniform(const lines *l, int64_t line, int64_t i) {
  uint64_t at = (uint64_t)(line * l->draws + i);
  mt_philox w = mt_philox_at(l->k->seed, l->k->offset + at / 2);
  int h = (int)(at & 1) * 2;
  return mt_unit_f64(w.w[h], w.w[h + 1]);
}

static void emit(const lines *l, int64_t line, int64_t i, int64_t pos) {
  const mt_view *out = l->k->out[0];
  int last = out->ndim - 1;
  int64_t off = i * out->stride[last] + (last ? line * out->stride[0] : 0);
  ((int64_t *)(void *)out->data)[off] = pos + l->k->index_base;
}

/* The first category whose running sum is above u * total; weights of 0 do not raise the sum. */
static int64_t search(const double *sum, int64_t n, double x) {
  int64_t begin = 0, end = n - 1;
  while (begin < end) {
    int64_t mid = begin + (end - begin) / 2;
    if (sum[mid] > x)
      end = mid;
    else
      begin = mid + 1;
  }
  return begin;
}

static void with_replacement(const lines *l, int64_t line, double *sum, int64_t top) {
  for (int64_t i = 0; i < l->draws; i++) {
    double x = uniform(l, line, i) * sum[l->n - 1];
    int64_t pos = search(sum, l->n, x);
    emit(l, line, i, sum[pos] > x ? pos : top); /* rounding may reach the total: the last one */
  }
}

/* Keys are times, as bits of positive doubles, which order as the numbers do. */
static void without(const lines *l, int64_t line, const char *w, int64_t step, mt_pair *heap) {
  const mt_view *x = l->k->in[0];
  int64_t held = 0;
  for (int64_t i = 0; i < l->n; i++) {
    double weight = load(x, w - x->data + i * step);
    if (!(weight > 0)) continue;
    uint64_t at = (uint64_t)(line * l->n + i);
    mt_philox r = mt_philox_at(l->k->seed, l->k->offset + at / 2);
    int h = (int)(at & 1) * 2;
    double time = mt_minus_2_log_f64(r.w[h], r.w[h + 1]) / weight;
    mt_pair p = {0, (uint64_t)i};
    memcpy(&p.key, &time, sizeof time);
    if (held < l->draws) {
      heap[held++] = p;
      if (held == l->draws) mt_order_heap64(heap, held);
    } else if (p.key < heap[0].key) {
      mt_order_sift64(heap, held, p);
    }
  }
  mt_order_sort64(heap, heap + l->draws, held);
  for (int64_t i = 0; i < held; i++) emit(l, line, i, (int64_t)heap[i].at);
}

static void draw_lines(void *ctx, int64_t begin, int64_t end, int worker) {
  const lines *l = ctx;
  const mt_view *x = l->k->in[0];
  char *scratch = l->scratch + (size_t)worker * l->part;
  int64_t step = x->stride[x->ndim - 1] * bytes(x);
  for (int64_t line = begin; line < end; line++) {
    const char *w = x->data + (x->ndim > 1 ? line * x->stride[0] * bytes(x) : 0);
    double total = 0, *sum = (double *)(void *)scratch;
    int64_t positive = 0, top = 0;
    bool bad = false;
    for (int64_t i = 0; i < l->n; i++) {
      double weight = load(x, w - x->data + i * step);
      bad = bad || !(weight >= 0 && weight <= 1.7976931348623157e308);
      total += weight;
      if (weight > 0) {
        positive++;
        top = i;
      }
      if (l->replace) sum[i] = total;
    }
    if (bad || !(total > 0) || (!l->replace && positive < l->draws)) {
      *l->bad = 1;
      return;
    }
    if (l->replace)
      with_replacement(l, line, sum, top);
    else
      without(l, line, w, step, (mt_pair *)(void *)scratch);
  }
}

static size_t part_bytes(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  size_t n = (size_t)x->size[x->ndim - 1], draws = (size_t)MT_KARG_INT(k, 1);
  bool replace = MT_KARG_INT(k, 2) != 0 || draws == 1;
  return ((replace ? n * sizeof(double) : draws * 2 * sizeof(mt_pair)) + 63) / 64 * 64;
}

/* multinomial(weights, int n, bool replacement) -> positions. Weights that are negative, not finite
 * or all 0, and more draws without replacement than there are positive weights, are errors. */
int mt_cpu_multinomial(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  volatile int bad = 0;
  int64_t draws = MT_KARG_INT(k, 1);
  lines l = {.k = k,
             .n = x->size[x->ndim - 1],
             .draws = draws,
             .scratch = k->scratch,
             .lines = x->ndim > 1 ? x->size[0] : 1,
             .part = part_bytes(k),
             .bad = &bad,
             .replace = MT_KARG_INT(k, 2) != 0 || draws == 1};
  if (k->out[0]->numel == 0) return MT_OK;
  mt_parallel_for(k->par, l.lines, 4096 / (l.n + l.draws) + 1, draw_lines, &l);
  return bad ? MT_ERROR : MT_OK;
}

size_t mt_cpu_multinomial_scratch(const mt_kargs *k) {
  return part_bytes(k) * (k->par ? (size_t)k->par->nthreads : 1);
}

/* ---- poisson ---- */

typedef struct stream { /* uniforms in (0, 1) of one element, as many as it takes */
  uint64_t seed, counter, n;
} stream;

static double next(stream *s) {
  mt_philox w = mt_philox_stream(s->seed, s->counter, s->n / 2);
  int h = (int)(s->n++ & 1) * 2;
  return mt_unit_f64(w.w[h], w.w[h + 1]) + 0x1p-54;
}

static double poisson_small(stream *s, double rate) {
  double limit = exp(-rate), p = next(s);
  double n = 0;
  for (; p > limit; n++) p *= next(s);
  return n;
}

/* Transformed rejection (PTRS; Hoermann, 1993). */
static double poisson_large(stream *s, double rate) {
  double root = sqrt(rate), log_rate = log(rate), b = 0.931 + 2.53 * root;
  double a = -0.059 + 0.02483 * b, inverse = 1.1239 + 1.1328 / (b - 3.4);
  double accept = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    double u = next(s) - 0.5, v = next(s), us = 0.5 - fabs(u);
    double n = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= accept) return n;
    if (n < 0 || (us < 0.013 && v > us)) continue;
    int sign;
    double density = n * log_rate - rate - lgamma_r(n + 1, &sign);
    if (log(v) + log(inverse) - log(a / (us * us) + b) <= density) return n;
  }
}

static void count_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const lines *l = ctx;
  const mt_view *x = l->k->in[0], *out = l->k->out[0];
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    double rate = load(x, mt_view_at(x, i)), n = NAN;
    stream s = {l->k->seed, l->k->offset + (uint64_t)i, 1};
    if (rate >= 0 && rate < 1e15)
      n = rate < 10 ? poisson_small(&s, rate) : poisson_large(&s, rate);
    else if (!(rate != rate))
      *l->bad = 1;
    void *p = out->data + mt_view_at(out, i);
    switch (out->dtype) {
      case MT_F64:
        *(double *)p = n;
        break;
      case MT_F32:
        *(float *)p = (float)n;
        break;
      case MT_F16:
        *(uint16_t *)p = mt_f32_to_f16((float)n);
        break;
      default:
        *(uint16_t *)p = mt_f32_to_bf16((float)n);
        break;
    }
  }
}

/* poisson(rate): counts, element by element; a NaN stays, a negative rate is an error */
int mt_cpu_poisson(const mt_kargs *k) {
  volatile int bad = 0;
  lines l = {.k = k, .bad = &bad};
  if (!mt_dtype_is_float((mt_dtype)k->in[0]->dtype)) return MT_NOKERNEL;
  mt_parallel_for(k->par, k->out[0]->numel, 1024, count_range, &l);
  return bad ? MT_ERROR : MT_OK;
}
