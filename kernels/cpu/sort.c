/* sort.c - sort, topk, kthvalue and median along a dim.
 *
 * Elements become unsigned keys of the same order: NaN is the largest, -0 equals 0, descending
 * order complements the key (so it is stable as well). Then order.h sorts or selects, and values
 * are fetched by position, which keeps the sign of zeros and the payload of NaN.
 *
 * Measured on 1M random float32, one Zen 3 core: 17 ms for sort with positions; topk(50) of 50257:
 * 14 us. */
#include <string.h>

#include "../half.h"
#include "move.h"
#include "order.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

/* ---- keys ---- */

static inline uint32_t key_f32(float x) {
  uint32_t u = mt_float_bits(x);
  if (x != x) return UINT32_MAX;
  if (x == 0) u = 0;
  return u ^ ((uint32_t)((int32_t)u >> 31) | 0x80000000u);
}

static inline uint64_t key_f64(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  if (x != x) return UINT64_MAX;
  if (x == 0) u = 0;
  return u ^ ((uint64_t)((int64_t)u >> 63) | 0x8000000000000000u);
}

static inline bool is_wide(const mt_view *v) { return v->dtype == MT_F64 || v->dtype == MT_I64; }

/* Keys of n elements, packed with their positions; `flip` (all ones or 0) is xored to the key. */
#define PACK(T, expr)                                                         \
  for (int64_t i = 0; i < n; i++) {                                           \
    const T x = *(const T *)(const void *)(p + i * step);                     \
    a[i] = (uint64_t)((uint32_t)(expr) ^ flip) << 32 | (uint64_t)(first + i); \
  }                                                                           \
  break
static void pack32(uint64_t *a, const char *p, int64_t step, int64_t first, int64_t n, int dtype,
                   uint32_t flip) {
  switch (dtype) {
    case MT_F32:
      PACK(float, key_f32(x));
    case MT_F16:
      PACK(uint16_t, key_f32(mt_f16_to_f32(x)));
    case MT_BF16:
      PACK(uint16_t, key_f32(mt_bf16_to_f32(x)));
    case MT_I32:
      PACK(uint32_t, x ^ 0x80000000u);
    case MT_I16:
      PACK(int16_t, x + 0x8000);
    case MT_I8:
      PACK(int8_t, x + 0x80);
    default:
      PACK(uint8_t, x);
  }
}

static void pack64(mt_pair *a, const char *p, int64_t step, int64_t first, int64_t n, int dtype,
                   uint64_t flip) {
  for (int64_t i = 0; i < n; i++) {
    const char *q = p + i * step;
    uint64_t key = dtype == MT_F64 ? key_f64(*(const double *)(const void *)q)
                                   : *(const uint64_t *)(const void *)q ^ 0x8000000000000000u;
    a[i] = (mt_pair){key ^ flip, (uint64_t)(first + i)};
  }
}

/* ---- lines along a dim ---- */

typedef struct job {
  const mt_view *x, *values, *index; /* values and index: results */
  mt_walk w;                         /* of all other dims: x, values, index */
  int64_t n, take, kth;              /* length of a line; how many results; position to select */
  int64_t xs, vs, is;                /* bytes along the dim */
  int64_t base;
  bool descending, wide, skip_nan, find_nan;
  char *scratch;
  size_t part; /* of one worker */
} job;

static void plan(job *j, const mt_kargs *k, int dim, bool dim_stays) {
  const mt_view *x = k->in[0], *v = k->out[0], *i = k->out[1];
  *j = (job){.x = x, .values = v, .index = i, .n = 1, .base = k->index_base, .wide = is_wide(x)};
  mt_walk_begin(&j->w, 3);
  for (int d = 0, o = 0; d < x->ndim; d++) {
    if (d == dim) {
      j->n = x->size[d];
      j->xs = x->stride[d] * bytes(x);
      if (dim_stays) {
        j->vs = v->stride[o] * bytes(v);
        j->is = i->stride[o] * 8;
        o++;
      }
      continue;
    }
    mt_walk_dim(
        &j->w, x->size[d],
        (const int64_t[]){x->stride[d] * bytes(x), v->stride[o] * bytes(v), i->stride[o] * 8});
    o++;
  }
  mt_walk_end(&j->w);
  j->scratch = k->scratch;
}

/* Elements and a copy of them, or (topk) a heap. */
static size_t part_bytes(const mt_view *x, int dim) {
  int64_t n = x->ndim ? x->size[dim] : 1;
  if (n > INT64_MAX / 64) return SIZE_MAX / 1024;
  return ((size_t)n * 2 * (is_wide(x) ? sizeof(mt_pair) : sizeof(uint64_t)) + 63) / 64 * 64;
}

static size_t all_parts(const mt_kargs *k, int dim) {
  size_t part = part_bytes(k->in[0], dim);
  size_t n = k->par ? (size_t)k->par->nthreads : 1;
  return part > SIZE_MAX / 2 / n ? SIZE_MAX : part * n;
}

typedef uint16_t __attribute__((may_alias)) u2;
typedef uint32_t __attribute__((may_alias)) u4;
typedef uint64_t __attribute__((may_alias)) u8;

/* Results 0 .. n-1 of a line: the elements at the positions in `at` (every `jump`-th uint64, of
 * which the bits in `mask` count) and the positions themselves. */
static void emit(const job *j, const char *x, char *v, char *idx, const uint64_t *at, int jump,
                 uint64_t mask, int64_t n) {
  const int64_t xs = j->xs, vs = j->vs;
#define VALUES(T)                                                            \
  for (int64_t r = 0; r < n; r++) {                                          \
    *(T *)(void *)(v + r * vs) =                                             \
        *(const T *)(const void *)(x + (int64_t)(at[r * jump] & mask) * xs); \
  }                                                                          \
  break
  switch (bytes(j->x)) {
    case 1:
      VALUES(uint8_t);
    case 2:
      VALUES(u2);
    case 4:
      VALUES(u4);
    default:
      VALUES(u8);
  }
#undef VALUES
  for (int64_t r = 0; r < n; r++) {
    *(int64_t *)(void *)(idx + r * j->is) = (int64_t)(at[r * jump] & mask) + j->base;
  }
}

static void emit32(const job *j, const char *x, char *v, char *idx, const uint64_t *a) {
  emit(j, x, v, idx, a, 1, UINT32_MAX, j->take);
}

static void emit64(const job *j, const char *x, char *v, char *idx, const mt_pair *a) {
  emit(j, x, v, idx, &a->at, 2, UINT64_MAX, j->take);
}

/* v and idx: results of one line; x: its elements. */
typedef void (*line_fn)(const job *j, const char *x, char *v, char *idx, void *scratch);

typedef struct lines {
  const job *j;
  line_fn fn;
} lines;

static void each_line(void *ctx, int64_t begin, int64_t end, int worker) {
  const lines *l = ctx;
  const job *j = l->j;
  mt_cursor c;
  mt_cursor_seek(&j->w, &c, begin, end);
  while (mt_cursor_next(&j->w, &c)) {
    for (int64_t r = 0; r < c.n; r++) {
      l->fn(j, j->x->data + c.off[0] + r * j->w.step[0],
            j->values->data + c.off[1] + r * j->w.step[1],
            j->index->data + c.off[2] + r * j->w.step[2], j->scratch + (size_t)worker * j->part);
    }
  }
}

static void run(const mt_kargs *k, const job *j, line_fn fn) {
  lines l = {j, fn};
  mt_parallel_for(k->par, j->w.numel, 4096 / (j->n + 1) + 1, each_line, &l);
}

/* ---- sort ---- */

static void sort_line(const job *j, const char *x, char *v, char *idx, void *scratch) {
  if (j->wide) {
    mt_pair *a = scratch;
    pack64(a, x, j->xs, 0, j->n, j->x->dtype, j->descending ? UINT64_MAX : 0);
    mt_order_sort64(a, a + j->n, j->n);
    emit64(j, x, v, idx, a);
  } else {
    uint64_t *a = scratch;
    pack32(a, x, j->xs, 0, j->n, j->x->dtype, j->descending ? UINT32_MAX : 0);
    mt_order_sort32(a, a + j->n, j->n);
    emit32(j, x, v, idx, a);
  }
}

static int too_long(const job *j) { return !j->wide && j->n > UINT32_MAX ? MT_ERROR : MT_OK; }

/* sort(x, dim, descending, stable) -> values, positions. Always stable. */
int mt_cpu_sort(const mt_kargs *k) {
  job j;
  plan(&j, k, (int)MT_KARG_INT(k, 1), true);
  j.descending = MT_KARG_INT(k, 2) != 0;
  j.take = j.n;
  j.part = part_bytes(j.x, (int)MT_KARG_INT(k, 1));
  if (j.x->numel == 0) return MT_OK;
  if (j.x->dtype == MT_C64) return MT_NOKERNEL;
  if (too_long(&j)) return MT_ERROR;
  run(k, &j, sort_line);
  return MT_OK;
}

size_t mt_cpu_sort_scratch(const mt_kargs *k) { return all_parts(k, (int)MT_KARG_INT(k, 1)); }

/* ---- topk ---- */

typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int64_t i2 __attribute__((vector_size(16)));

/* The first of n contiguous floats from `at` on that might beat the bound; n if there is none. */
static int64_t skip_f32(const float *x, int64_t at, int64_t n, float bound, bool largest) {
  const v4 b = {bound, bound, bound, bound};
  for (; at + 8 <= n; at += 8) {
    v4 p = *(const v4 *)(x + at), q = *(const v4 *)(x + at + 4);
    i2 small = largest ? (i2)(p <= b) & (i2)(q <= b) : (i2)(p >= b) & (i2)(q >= b);
    if ((small[0] & small[1]) != -1) break;
  }
  return at;
}

/* Sorting is stable, so equal keys need ascending positions: sort by position first. */
static void heap_sort32(uint64_t *heap, int64_t k) {
  for (int64_t i = 0; i < k; i++) heap[i] = heap[i] << 32 | heap[i] >> 32;
  mt_order_sort32(heap, heap + k, k);
  for (int64_t i = 0; i < k; i++) heap[i] = heap[i] << 32 | heap[i] >> 32;
  mt_order_sort32(heap, heap + k, k);
}

static void heap_sort64(mt_pair *heap, int64_t k) {
  for (int64_t i = 0; i < k; i++) heap[i] = (mt_pair){heap[i].at, heap[i].key};
  mt_order_sort64(heap, heap + k, k);
  for (int64_t i = 0; i < k; i++) heap[i] = (mt_pair){heap[i].at, heap[i].key};
  mt_order_sort64(heap, heap + k, k);
}

static void topk32(const job *j, const char *x, uint64_t *heap) {
  const uint32_t flip = j->descending ? UINT32_MAX : 0;
  const int64_t k = j->take;
  const bool scan = j->x->dtype == MT_F32 && j->xs == sizeof(float);
  uint64_t block[64];
  pack32(heap, x, j->xs, 0, k, j->x->dtype, flip);
  mt_order_heap32(heap, k);
  for (int64_t i = k; i < j->n;) {
    if (scan) {
      const float *f = (const float *)(const void *)x;
      i = skip_f32(f, i, j->n, f[heap[0] & UINT32_MAX], j->descending);
      if (i == j->n) break;
    }
    int64_t m = scan ? 8 : 64;
    if (m > j->n - i) m = j->n - i;
    pack32(block, x + i * j->xs, j->xs, i, m, j->x->dtype, flip);
    for (int64_t b = 0; b < m; b++) {
      if (block[b] < heap[0]) mt_order_sift32(heap, k, block[b]);
    }
    i += m;
  }
  heap_sort32(heap, k);
}

static void topk64(const job *j, const char *x, mt_pair *heap) {
  const uint64_t flip = j->descending ? UINT64_MAX : 0;
  const int64_t k = j->take;
  mt_pair block[64];
  pack64(heap, x, j->xs, 0, k, j->x->dtype, flip);
  mt_order_heap64(heap, k);
  for (int64_t i = k; i < j->n; i += 64) {
    int64_t m = j->n - i < 64 ? j->n - i : 64;
    pack64(block, x + i * j->xs, j->xs, i, m, j->x->dtype, flip);
    for (int64_t b = 0; b < m; b++) {
      if (block[b].key < heap[0].key) mt_order_sift64(heap, k, block[b]);
    }
  }
  heap_sort64(heap, k);
}

static void topk_line(const job *j, const char *x, char *v, char *idx, void *scratch) {
  if (j->take * 16 > j->n) { /* the heap pays when few are wanted of many */
    sort_line(j, x, v, idx, scratch);
  } else if (j->wide) {
    mt_pair *a = scratch;
    topk64(j, x, a);
    emit64(j, x, v, idx, a);
  } else {
    uint64_t *a = scratch;
    topk32(j, x, a);
    emit32(j, x, v, idx, a);
  }
}

/* topk(x, k, dim, largest, sorted) -> values, positions; sorted in any case, the lower position
 * first among equals */
int mt_cpu_topk(const mt_kargs *k) {
  job j;
  plan(&j, k, (int)MT_KARG_INT(k, 2), true);
  j.descending = MT_KARG_INT(k, 3) != 0;
  j.take = MT_KARG_INT(k, 1);
  j.part = part_bytes(j.x, (int)MT_KARG_INT(k, 2));
  if (j.values->numel == 0) return MT_OK;
  if (j.x->dtype == MT_C64) return MT_NOKERNEL;
  if (too_long(&j)) return MT_ERROR;
  run(k, &j, topk_line);
  return MT_OK;
}

size_t mt_cpu_topk_scratch(const mt_kargs *k) { return all_parts(k, (int)MT_KARG_INT(k, 2)); }

/* ---- kthvalue, median ---- */

static uint64_t select_at32(const job *j, uint64_t *a) {
  int64_t nans = 0, first = j->n, kth = j->kth;
  const bool real = mt_dtype_is_float((mt_dtype)j->x->dtype);
  for (int64_t i = j->n - 1; real && i >= 0; i--) {
    if (a[i] >> 32 != UINT32_MAX) continue;
    nans++;
    first = i;
  }
  if (nans > 0 && j->find_nan) return (uint64_t)first;
  if (j->skip_nan && nans < j->n) kth = (j->n - nans - 1) / 2;
  return mt_order_select32(a, a + j->n, j->n, kth) & UINT32_MAX;
}

static uint64_t select_at64(const job *j, mt_pair *a) {
  int64_t nans = 0, first = j->n, kth = j->kth;
  for (int64_t i = j->n - 1; j->x->dtype == MT_F64 && i >= 0; i--) {
    if (a[i].key != UINT64_MAX) continue;
    nans++;
    first = i;
  }
  if (nans > 0 && j->find_nan) return (uint64_t)first;
  if (j->skip_nan && nans < j->n) kth = (j->n - nans - 1) / 2;
  return mt_order_select64(a, a + j->n, j->n, kth).at;
}

static void select_line(const job *j, const char *x, char *v, char *idx, void *scratch) {
  uint64_t at;
  if (j->wide) {
    pack64(scratch, x, j->xs, 0, j->n, j->x->dtype, 0);
    at = select_at64(j, scratch);
  } else {
    pack32(scratch, x, j->xs, 0, j->n, j->x->dtype, 0);
    at = select_at32(j, scratch);
  }
  emit(j, x, v, idx, &at, 1, UINT64_MAX, 1);
}

/* dim: of x, at argument number `arg`; keepdim behind it. */
static int select(const mt_kargs *k, int arg, job *j, int64_t kth, bool find_nan, bool skip_nan) {
  int dim = (int)MT_KARG_INT(k, arg);
  plan(j, k, dim, MT_KARG_INT(k, arg + 1) != 0);
  j->kth = kth >= 0 ? kth : (j->n - 1) / 2;
  j->find_nan = find_nan;
  j->skip_nan = skip_nan;
  j->part = part_bytes(j->x, dim);
  if (j->values->numel == 0) return MT_OK;
  if (j->x->dtype == MT_C64) return MT_NOKERNEL;
  if (too_long(j)) return MT_ERROR;
  run(k, j, select_line);
  return MT_OK;
}

/* kthvalue(x, k, dim, keepdim): k counts from 1 */
int mt_cpu_kthvalue(const mt_kargs *k) {
  job j;
  return select(k, 2, &j, MT_KARG_INT(k, 1) - 1, false, false);
}
size_t mt_cpu_kthvalue_scratch(const mt_kargs *k) { return all_parts(k, (int)MT_KARG_INT(k, 2)); }

/* median(x, dim, keepdim): the lower of two middle ones; the first NaN if there is one */
int mt_cpu_median(const mt_kargs *k) {
  job j;
  return select(k, 1, &j, -1, true, false);
}
size_t mt_cpu_median_scratch(const mt_kargs *k) { return all_parts(k, (int)MT_KARG_INT(k, 1)); }

/* nanmedian(x, dim, keepdim): of what is not NaN; NaN when nothing is left */
int mt_cpu_nanmedian(const mt_kargs *k) {
  job j;
  return select(k, 1, &j, -1, false, true);
}
size_t mt_cpu_nanmedian_scratch(const mt_kargs *k) { return all_parts(k, (int)MT_KARG_INT(k, 1)); }
