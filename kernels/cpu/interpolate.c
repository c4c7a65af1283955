/* interpolate.c - resampling of the last 1 to 3 dims: nearest, linear, cubic, with and without
 * antialiasing, and the gradient.
 *
 * All modes are sums of taps: position o of a dim is a weighted sum of n[o] positions of the input.
 * The taps of every dim are put into tables first; then a plane is resampled one dim after the
 * other, columns first. The gradient goes the same way back with the tables transposed. */
#include <math.h>
#include <string.h>

#include "isa.h"
#include "planes.h"
#include "pool.h"

typedef enum filter {
  NEAREST,
  NEAREST_EXACT,
  LINEAR,
  CUBIC
} filter;

typedef struct taps {
  int64_t in, out;
  int most;    /* taps of one position */
  bool same;   /* nothing changes in this dim */
  int32_t *n;  /* [out] */
  int64_t *at; /* [out][most] */
  double *w;
} taps;

typedef struct job {
  const mt_kargs *k;
  const struct mt_pool_table *t;
  mt_planes in, out;
  taps d[3];
  char *scratch;
  size_t part;
} job;

/* ---- tables ---- */

typedef struct rule {
  filter f;
  bool align, antialias;
  double scale; /* output over input as given, 0: from the sizes */
} rule;

/* Input positions from one output position to the next. */
static double ratio(const rule *r, int64_t in, int64_t out) {
  if (r->align && r->f >= LINEAR) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
  return r->scale > 0 ? 1 / r->scale : (double)in / (double)out;
}

static double cubic(double x, double a) {
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

static double tent(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

static int64_t clamp(int64_t x, int64_t n) { return x < 0 ? 0 : x >= n ? n - 1 : x; }

/* The position nearest to output position o, in float32 as in PyTorch, whatever the dtype. */
static int64_t nearest(const rule *r, int64_t in, int64_t out, int64_t o) {
  if (out == in && r->f == NEAREST) return o;
  if (out == 2 * in && r->f == NEAREST) return o / 2;
  float step = r->scale > 0 ? (float)(1 / r->scale) : (float)in / (float)out;
  float x = r->f == NEAREST ? (float)o * step : ((float)o + 0.5f) * step;
  return clamp((int64_t)floorf(x), in);
}

static int antialiased(const rule *r, int64_t in, int64_t out, int64_t o, int64_t *at, double *w) {
  double step = ratio(r, in, out), wide = step > 1 ? step : 1, sum = 0;
  double support = (r->f == CUBIC ? 2 : 1) * wide, centre = step * ((double)o + 0.5);
  int64_t first = (int64_t)(centre - support + 0.5), past = (int64_t)(centre + support + 0.5);
  if (first < 0) first = 0;
  if (past > in) past = in;
  for (int64_t i = first; i < past; i++) {
    double x = ((double)i - centre + 0.5) / wide;
    at[i - first] = i;
    w[i - first] = r->f == CUBIC ? cubic(x, -0.5) : tent(x);
    sum += w[i - first];
  }
  for (int64_t i = 0; i < past - first; i++) w[i] /= sum;
  return (int)(past - first);
}

/* Fills the taps of output position o; returns how many. */
static int fill_taps(const rule *r, int64_t in, int64_t out, int64_t o, int64_t *at, double *w) {
  if (r->f <= NEAREST_EXACT) {
    at[0] = nearest(r, in, out, o);
    w[0] = 1;
    return 1;
  }
  if (r->antialias) return antialiased(r, in, out, o, at, w);
  double step = ratio(r, in, out), x = r->align ? step * (double)o : step * ((double)o + 0.5) - 0.5;
  if (r->f == LINEAR && x < 0) x = 0;
  int64_t i = (int64_t)floor(x);
  double t = x - (double)i;
  if (r->f == CUBIC) {
    for (int j = 0; j < 4; j++) {
      at[j] = clamp(i - 1 + j, in);
      w[j] = cubic(t + 1 - j, -0.75);
    }
    return 4;
  }
  if (i >= in - 1) {
    i = in - 1;
    t = 0;
  }
  at[0] = i;
  at[1] = clamp(i + 1, in);
  w[0] = 1 - t;
  w[1] = t;
  return 2;
}

static int most_taps(const rule *r, int64_t in, int64_t out) {
  if (r->f <= NEAREST_EXACT) return 1;
  if (!r->antialias) return r->f == CUBIC ? 4 : 2;
  double step = ratio(r, in, out), n = 2 * (r->f == CUBIC ? 2 : 1) * (step > 1 ? step : 1) + 3;
  return n < (double)in + 1 ? (int)n : (int)in + 1;
}

/* ---- layout of the scratch ---- */

static size_t round64(size_t n) { return (n + 63) / 64 * 64; }

static size_t table_bytes(const taps *t) {
  if (t->same) return 0;
  size_t n = (size_t)t->out;
  return round64(n * sizeof(int32_t)) +
         round64(n * (size_t)t->most * (sizeof(int64_t) + sizeof(double)));
}

static rule rule_of(const mt_kargs *k, int d, int nd) {
  const char *m = k->arg[2].u.s;
  rule r = {.f = strcmp(m, "nearest") == 0         ? NEAREST
                 : strcmp(m, "nearest-exact") == 0 ? NEAREST_EXACT
                 : strcmp(m, "bicubic") == 0       ? CUBIC
                                                   : LINEAR,
            .align = MT_KARG_INT(k, 3) != 0,
            .antialias = MT_KARG_INT(k, 4) != 0};
  const mt_value *s = &k->arg[5];
  if (s->kind == MT_FLOATS && d >= 3 - nd) r.scale = s->u.floats[d - (3 - nd)];
  return r;
}

static void measure(job *j, const mt_kargs *k, const mt_view *in, const mt_view *out) {
  int nd = k->arg[1].n;
  *j = (job){.k = k,
             .t = k->isa ? k->isa->pool : NULL,
             .in = mt_planes_of(in, nd),
             .out = mt_planes_of(out, nd)};
  for (int d = 0; d < 3; d++) {
    rule r = rule_of(k, d, nd);
    taps *t = &j->d[d];
    t->in = j->in.size[d];
    t->out = j->out.size[d];
    t->same = d < 3 - nd || (t->in == t->out && r.f != NEAREST_EXACT && !r.antialias &&
                             (r.f != CUBIC || r.scale <= 0 || r.scale == 1));
    t->most = most_taps(&r, t->in, t->out);
  }
}

/* Planes between the passes: columns resampled; columns and rows resampled. */
static size_t stage(const job *j, int s) {
  const mt_planes *i = &j->in, *o = &j->out;
  int64_t n = s == 0 ? i->size[0] * i->size[1] * o->size[2] : i->size[0] * o->size[1] * o->size[2];
  return round64((size_t)n * (i->wide ? sizeof(double) : sizeof(float)));
}

static size_t part_bytes(const job *j) {
  return mt_planes_buffer(&j->in) + mt_planes_buffer(&j->out) + stage(j, 0) + stage(j, 1);
}

static size_t need(const mt_kargs *k, const mt_view *in, const mt_view *out) {
  job j;
  measure(&j, k, in, out);
  size_t n = 0;
  for (int d = 0; d < 3; d++) n += table_bytes(&j.d[d]);
  return n + part_bytes(&j) * (size_t)(k->par ? k->par->nthreads : 1);
}

static void plan(job *j, const mt_kargs *k, const mt_view *in, const mt_view *out) {
  int nd = k->arg[1].n;
  char *p = k->scratch;
  measure(j, k, in, out);
  for (int d = 0; d < 3; d++) {
    taps *t = &j->d[d];
    rule r = rule_of(k, d, nd);
    if (t->same) continue;
    t->n = (int32_t *)(void *)p;
    t->at = (int64_t *)(void *)(p + round64((size_t)t->out * sizeof(int32_t)));
    t->w = (double *)(t->at + t->out * t->most);
    p += table_bytes(t);
    for (int64_t o = 0; o < t->out; o++) {
      t->n[o] = fill_taps(&r, t->in, t->out, o, t->at + o * t->most, t->w + o * t->most);
    }
  }
  j->scratch = p;
  j->part = part_bytes(j);
}

/* ---- one dim ---- */

/* Columns of `rows` rows: to[r][o] = sum of w * from[r][at]; back: from[r][at] += w * to[r][o]. */
#define COLUMNS(T, name)                                                     \
  static void name(const taps *t, int64_t rows, T *from, T *to, bool back) { \
    for (int64_t r = 0; r < rows; r++, from += t->in, to += t->out) {        \
      for (int64_t o = 0; o < t->out; o++) {                                 \
        const int64_t *at = t->at + o * t->most;                             \
        const double *w = t->w + o * t->most;                                \
        T sum = 0;                                                           \
        if (t->most == 1) {                                                  \
          if (back)                                                          \
            from[at[0]] += to[o];                                            \
          else                                                               \
            to[o] = from[at[0]];                                             \
          continue;                                                          \
        }                                                                    \
        for (int i = 0; i < t->n[o]; i++) {                                  \
          if (back)                                                          \
            from[at[i]] += (T)w[i] * to[o];                                  \
          else                                                               \
            sum += (T)w[i] * from[at[i]];                                    \
        }                                                                    \
        if (!back) to[o] = sum;                                              \
      }                                                                      \
    }                                                                        \
  }
COLUMNS(float, columns_f32)
COLUMNS(double, columns_f64)

/* The same for rows of n elements, `blocks` of them: to[b][o][:] and from[b][at][:]. */
#define ROWS(T, name, axpy)                                                                \
  static void name(const job *j, const taps *t, int64_t blocks, int64_t n, T *from, T *to, \
                   bool back) {                                                            \
    for (int64_t b = 0; b < blocks; b++, from += t->in * n, to += t->out * n) {            \
      for (int64_t o = 0; o < t->out; o++) {                                               \
        const int64_t *at = t->at + o * t->most;                                           \
        const double *w = t->w + o * t->most;                                              \
        if (t->most == 1 && !back) {                                                       \
          memcpy(to + o * n, from + at[0] * n, (size_t)n * sizeof(T));                     \
          continue;                                                                        \
        }                                                                                  \
        if (!back) memset(to + o * n, 0, (size_t)n * sizeof(T));                           \
        for (int i = 0; i < t->n[o]; i++) {                                                \
          if (back)                                                                        \
            j->t->axpy(from + at[i] * n, to + o * n, n, (T)w[i]);                          \
          else                                                                             \
            j->t->axpy(to + o * n, from + at[i] * n, n, (T)w[i]);                          \
        }                                                                                  \
      }                                                                                    \
    }                                                                                      \
  }
ROWS(float, rows_f32, axpy_f32)
ROWS(double, rows_f64, axpy_f64)

/* Resamples dim d from `from` to `to`, or back (from is zeroed first). */
static void pass(const job *j, int d, void *from, void *to, bool back) {
  const taps *t = &j->d[d];
  const int64_t *a = j->in.size, *z = j->out.size;
  int64_t size = j->in.wide ? 8 : 4;
  int64_t blocks = d == 2   ? a[0] * a[1]
                   : d == 1 ? a[0]
                            : 1,
          n = d == 2   ? 1
              : d == 1 ? z[2]
                       : z[1] * z[2];
  if (back) memset(from, 0, (size_t)(blocks * t->in * n * size));
  if (d == 2 && j->in.wide)
    columns_f64(t, blocks, from, to, back);
  else if (d == 2)
    columns_f32(t, blocks, from, to, back);
  else if (j->in.wide)
    rows_f64(j, t, blocks, n, from, to, back);
  else
    rows_f32(j, t, blocks, n, from, to, back);
}

/* Where the plane lies before dim 2, between, and after dim 0; passes that do nothing share. */
static void stations(const job *j, void *in, void *out, char *buf, void **at) {
  int last = -1;
  at[0] = in;
  at[1] = buf;
  at[2] = buf + stage(j, 0);
  at[3] = out;
  for (int p = 0; p < 3; p++) { /* p: 0 columns, 1 rows, 2 depth */
    if (!j->d[2 - p].same) last = p;
  }
  for (int p = 0; p < 3; p++) {
    if (j->d[2 - p].same)
      at[p + 1] = at[p];
    else if (p == last)
      at[p + 1] = out;
  }
}

static void planes(const job *j, int64_t begin, int64_t end, int worker, bool back) {
  char *in_buf = j->scratch + (size_t)worker * j->part,
       *out_buf = in_buf + mt_planes_buffer(&j->in);
  char *buf = out_buf + mt_planes_buffer(&j->out);
  size_t size = j->in.wide ? 8 : 4;
  void *at[4];
  for (int64_t i = begin; i < end; i++) {
    void *in = back ? mt_planes_write(&j->in, i, in_buf)
                    : (void *)(uintptr_t)mt_planes_read(&j->in, i, in_buf);
    void *out = back ? (void *)(uintptr_t)mt_planes_read(&j->out, i, out_buf)
                     : mt_planes_write(&j->out, i, out_buf);
    stations(j, in, out, buf, at);
    if (at[3] == in) memcpy(back ? in : out, back ? out : in, (size_t)j->in.numel * size);
    for (int s = 0; s < 3; s++) {
      int p = back ? 2 - s : s;
      if (!j->d[2 - p].same) pass(j, 2 - p, at[p], at[p + 1], back);
    }
    if (back)
      mt_planes_done(&j->in, i, in_buf);
    else
      mt_planes_done(&j->out, i, out_buf);
  }
}

static void forward_range(void *ctx, int64_t begin, int64_t end, int worker) {
  planes(ctx, begin, end, worker, false);
}

static void back_range(void *ctx, int64_t begin, int64_t end, int worker) {
  planes(ctx, begin, end, worker, true);
}

static int run(const mt_kargs *k, const mt_view *in, const mt_view *out, mt_range_fn fn) {
  job j;
  if (!mt_dtype_is_float((mt_dtype)in->dtype)) return MT_NOKERNEL;
  if (in->numel == 0 || out->numel == 0) return MT_OK;
  plan(&j, k, in, out);
  mt_parallel_for(k->par, j.in.n, 16384 / (j.in.numel + j.out.numel) + 1, fn, &j);
  return MT_OK;
}

/* interpolate(x, int[] size, str mode, bool align_corners, bool antialias, float[]? scales): mode
 * nearest, nearest-exact, linear (of any number of dims) or bicubic; scales: what positions are
 * computed with, 0 or nothing: the ratio of the sizes */
int mt_cpu_interpolate(const mt_kargs *k) { return run(k, k->in[0], k->out[0], forward_range); }
size_t mt_cpu_interpolate_scratch(const mt_kargs *k) { return need(k, k->in[0], k->out[0]); }

/* interpolate_back(g, int[] in_size, and as interpolate) */
int mt_cpu_interpolate_back(const mt_kargs *k) { return run(k, k->out[0], k->in[0], back_range); }
size_t mt_cpu_interpolate_back_scratch(const mt_kargs *k) { return need(k, k->out[0], k->in[0]); }
