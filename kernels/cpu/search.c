/* search.c - positions in sorted tensors, and runs of equal elements.
 *
 * unique is composed by the caller: sort, mark the runs, read how many there are, then list where
 * each starts, how long it is and to which one every element belongs. */
#include "../half.h"
#include "walk.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

/* Any dtype but int64 and complex fits a double exactly. */
static inline double load(const char *p, int dtype) {
  switch (dtype) {
    case MT_F64:
      return *(const double *)(const void *)p;
    case MT_F32:
      return *(const float *)(const void *)p;
    case MT_F16:
      return mt_f16_to_f32(*(const uint16_t *)(const void *)p);
    case MT_BF16:
      return mt_bf16_to_f32(*(const uint16_t *)(const void *)p);
    case MT_I32:
      return *(const int32_t *)(const void *)p;
    case MT_I16:
      return *(const int16_t *)(const void *)p;
    case MT_I8:
      return *(const int8_t *)(const void *)p;
    default:
      return *(const uint8_t *)(const void *)p;
  }
}

/* ---- searchsorted ---- */

/* Elements of the ascending line in front of where x goes. A NaN goes behind everything. */
static int64_t search(const char *line, int64_t step, int64_t n, const char *x, int dtype,
                      bool right) {
  int64_t begin = 0, end = n;
  while (begin < end) {
    int64_t mid = begin + (end - begin) / 2;
    const char *m = line + mid * step;
    bool before;
    if (dtype == MT_I64) {
      int64_t a = *(const int64_t *)(const void *)m, b = *(const int64_t *)(const void *)x;
      before = right ? a <= b : a < b;
    } else {
      double a = load(m, dtype), b = load(x, dtype);
      before = right ? !(a > b) : !(a >= b);
    }
    if (before) {
      begin = mid + 1;
    } else {
      end = mid;
    }
  }
  return begin;
}

typedef struct job {
  const mt_kargs *k;
  mt_walk w; /* values, out, lines of the sorted tensor */
  int64_t n, step;
  bool right;
} job;

static void search_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_view *sorted = j->k->in[0], *values = j->k->in[1], *out = j->k->out[0];
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(&j->w, &c, begin, end);
  while (mt_cursor_next(&j->w, &c)) {
    for (int64_t i = 0; i < c.n; i++) {
      const char *line = sorted->data + c.off[2] + i * j->w.step[2];
      const char *x = values->data + c.off[0] + i * j->w.step[0];
      *(int64_t *)(void *)(out->data + c.off[1] + i * j->w.step[1]) =
          search(line, j->step, j->n, x, sorted->dtype, j->right) + j->k->index_base;
    }
  }
}

/* searchsorted(sorted, values, right): sorted is 1-d, or has values' dims but for the last; both of
 * one dtype */
int mt_cpu_searchsorted(const mt_kargs *k) {
  const mt_view *sorted = k->in[0], *values = k->in[1], *out = k->out[0];
  int last = sorted->ndim - 1;
  job j = {.k = k,
           .n = sorted->size[last],
           .step = sorted->stride[last] * bytes(sorted),
           .right = MT_KARG_INT(k, 2) != 0};
  if (sorted->dtype == MT_C64) return MT_NOKERNEL;
  mt_walk_begin(&j.w, 3);
  for (int d = 0; d < values->ndim; d++) {
    bool own = last > 0 && d < last;
    mt_walk_dim(&j.w, values->size[d],
                (const int64_t[]){values->stride[d] * bytes(values), out->stride[d] * 8,
                                  own ? sorted->stride[d] * bytes(sorted) : 0});
  }
  mt_walk_end(&j.w);
  mt_parallel_for(k->par, j.w.numel, 2048, search_range, &j);
  return MT_OK;
}

/* ---- runs ---- */

static bool differ(const char *a, const char *b, int dtype) {
  if (dtype == MT_C64) {
    const mt_c64 *x = (const mt_c64 *)(const void *)a, *y = (const mt_c64 *)(const void *)b;
    return x->re != y->re || x->im != y->im;
  }
  if (dtype == MT_I64)
    return *(const int64_t *)(const void *)a != *(const int64_t *)(const void *)b;
  return load(a, dtype) != load(b, dtype);
}

/* unique_mark(x) -> int64 per item along the first dim: the number (from 0) of its run of equal
 * items. NaN is equal to nothing. */
int mt_cpu_unique_mark(const mt_kargs *k) {
  const mt_view *x = k->in[0], *out = k->out[0];
  int64_t run = 0, step = x->stride[0] * bytes(x);
  mt_walk w;
  mt_walk_begin(&w, 1);
  for (int d = 1; d < x->ndim; d++)
    mt_walk_dim(&w, x->size[d], (const int64_t[]){x->stride[d] * bytes(x)});
  mt_walk_end(&w);
  for (int64_t i = 0; i < x->size[0]; i++) {
    const char *item = x->data + i * step;
    bool other = false;
    mt_cursor c;
    mt_cursor_seek(&w, &c, 0, i > 0 ? w.numel : 0);
    while (!other && mt_cursor_next(&w, &c)) {
      for (int64_t r = 0; !other && r < c.n; r++) {
        const char *p = item + c.off[0] + r * w.step[0];
        other = differ(p, p - step, x->dtype);
      }
    }
    run += other;
    *(int64_t *)(void *)(out->data + i * out->stride[0] * 8) = run;
  }
  return MT_OK;
}

static inline int64_t *item(const mt_view *v, int64_t i) {
  return (int64_t *)(void *)(v->data + i * v->stride[0] * 8);
}

/* unique_fill(runs, tensor? order, int n) -> where each of the n runs starts (positions), how long
 * it is, and the run of every item (positions; with `order`, of the items before they were sorted
 * by it) */
int mt_cpu_unique_fill(const mt_kargs *k) {
  const mt_view *runs = k->in[0], *order = k->nin > 1 ? k->in[1] : NULL;
  const mt_view *first = k->out[0], *count = k->out[1], *inverse = k->out[2];
  for (int64_t i = 0; i < count->numel; i++) *item(count, i) = 0;
  for (int64_t i = 0; i < runs->numel; i++) {
    int64_t run = *item(runs, i);
    if ((*item(count, run))++ == 0) *item(first, run) = i + k->index_base;
    int64_t at = order ? *item(order, i) - k->index_base : i;
    *item(inverse, at) = run + k->index_base;
  }
  return MT_OK;
}
