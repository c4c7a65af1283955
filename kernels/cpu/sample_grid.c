/* sample_grid.c - grid_sample: values of images at given places, and its gradients.
 *
 * A place becomes a list of taps: positions in the plane with their weights and the slopes of the
 * weights, which serve all channels, forward and back. Coordinates are computed in double. Places
 * that are not finite lie outside. */
#include <math.h>
#include <string.h>

#include "../half.h"
#include "accumulate.h"

#define MOST 16

typedef enum method {
  BILINEAR,
  NEAREST,
  BICUBIC
} method;
typedef enum border {
  ZEROS,
  BORDER,
  REFLECTION
} border;

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

static inline double load(const mt_view *v, int64_t off) {
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

static inline void store(const mt_view *v, int64_t off, double x) {
  void *p = v->data + off;
  switch (v->dtype) {
    case MT_F64:
      *(double *)p = x;
      break;
    case MT_F32:
      *(float *)p = (float)x;
      break;
    case MT_F16:
      *(uint16_t *)p = mt_f32_to_f16((float)x);
      break;
    default:
      *(uint16_t *)p = mt_f32_to_bf16((float)x);
      break;
  }
}

typedef struct job {
  const mt_view *x, *grid, *out; /* out: the result, or the gradient of it */
  const mt_view *gx, *ggrid;     /* back: where to, or NULL */
  int nd;
  method m;
  border b;
  bool align;
} job;

/* Taps of one dim. */
typedef struct line {
  int n;
  int64_t at[4]; /* -1: outside */
  double w[4], slope[4];
} line;

/* Taps of a place. */
typedef struct taps {
  int n;
  int64_t off[MOST]; /* bytes in a plane of x */
  int64_t goff[MOST];
  double w[MOST], slope[3][MOST];
} taps;

/* ---- coordinates ---- */

static double clip(double x, int64_t n, double *slope) {
  double last = (double)(n - 1);
  if (x <= 0 || x >= last) *slope = 0;
  return x <= 0 ? 0 : x >= last ? last : x;
}

/* Reflected at low and high until inside. */
static double reflect(double x, double low, double high, double *slope) {
  double span = high - low, sign = 1;
  if (span <= 0) {
    *slope = 0;
    return 0;
  }
  x -= low;
  if (x < 0) {
    sign = -1;
    x = -x;
  }
  double turns = floor(x / span), rest = x - turns * span;
  if (fmod(turns, 2) == 0) {
    *slope *= sign;
    return rest + low;
  }
  *slope *= -sign;
  return span - rest + low;
}

/* x, a position, moved into the plane as the padding says. */
static double bounded(const job *j, double x, int64_t n, double *slope) {
  if (!(fabs(x) < 1e15)) x = -100;
  if (j->b == ZEROS) return x;
  if (j->b == REFLECTION) {
    x = j->align ? reflect(x, 0, (double)(n - 1), slope) : reflect(x, -0.5, (double)n - 0.5, slope);
  }
  return clip(x, n, slope);
}

static int64_t inside(int64_t i, int64_t n) { return i >= 0 && i < n ? i : -1; }

/* The cubic convolution weights of Keys (a = -0.75) and their slopes, for the four taps around. */
static void cubic(double t, double *w, double *slope) {
  const double a = -0.75;
  for (int i = 0; i < 4; i++) {
    double x = fabs(t + 1 - i), sign = t + 1 - i < 0 ? -1 : 1;
    bool near = x < 1;
    w[i] = near ? ((a + 2) * x - (a + 3)) * x * x + 1 : (((x - 5) * x + 8) * x - 4) * a;
    slope[i] = sign * (near ? (3 * (a + 2) * x - 2 * (a + 3)) * x : ((3 * x - 10) * x + 8) * a);
  }
}

static line line_at(const job *j, double g, int64_t n) {
  line l = {.n = 0};
  double scale = j->align ? (double)(n - 1) / 2 : (double)n / 2, slope = scale;
  double x = j->align ? (g + 1) * scale : (g + 1) * scale - 0.5;
  if (j->m == BICUBIC) {
    if (!(fabs(x) < 1e15)) x = -100;
    double base = floor(x), none = 1;
    l.n = 4;
    cubic(x - base, l.w, l.slope);
    for (int i = 0; i < 4; i++) {
      l.at[i] = inside((int64_t)bounded(j, base - 1 + i, n, &none), n);
      l.slope[i] *= scale;
    }
    return l;
  }
  x = bounded(j, x, n, &slope);
  if (j->m == NEAREST) {
    l.n = 1;
    l.at[0] = inside((int64_t)nearbyint(x), n);
    l.w[0] = 1;
    return l;
  }
  int64_t i = (int64_t)floor(x);
  l.n = 2;
  l.at[0] = inside(i, n);
  l.at[1] = inside(i + 1, n);
  l.w[1] = x - (double)i;
  l.w[0] = 1 - l.w[1];
  l.slope[0] = -slope;
  l.slope[1] = slope;
  return l;
}

/* The product of the lines of all dims; the grid's last dim lists the innermost dim first. */
static void taps_at(const job *j, int64_t grid_off, taps *t) {
  const mt_view *x = j->x, *gx = j->gx ? j->gx : x;
  line l[3];
  int count[3] = {1, 1, 1};
  t->n = 0;
  for (int d = 0; d < j->nd; d++) {
    int64_t step = j->grid->stride[j->grid->ndim - 1] * bytes(j->grid);
    l[d] = line_at(j, load(j->grid, grid_off + d * step), x->size[x->ndim - 1 - d]);
    count[d] = l[d].n;
  }
  for (int i = 0; i < count[0] * count[1] * count[2]; i++) {
    int at[3] = {i % count[0], i / count[0] % count[1], i / count[0] / count[1]};
    int64_t off = 0, goff = 0;
    double w = 1, slope[3] = {1, 1, 1};
    bool in = true;
    for (int d = 0; d < j->nd; d++) {
      int64_t p = l[d].at[at[d]];
      int e = x->ndim - 1 - d;
      in = in && p >= 0;
      off += p * x->stride[e] * bytes(x);
      goff += p * gx->stride[e] * bytes(gx);
      w *= l[d].w[at[d]];
      for (int s = 0; s < 3; s++) slope[s] *= s == d ? l[d].slope[at[d]] : l[d].w[at[d]];
    }
    if (!in) continue;
    t->off[t->n] = off;
    t->goff[t->n] = goff;
    t->w[t->n] = w;
    for (int s = 0; s < 3; s++) t->slope[s][t->n] = slope[s];
    t->n++;
  }
}

/* ---- places ---- */

/* Bytes to place p in a view whose places begin at dim `first`. */
static int64_t place_at(const job *j, const mt_view *v, int first, int64_t p) {
  int64_t off = 0;
  for (int d = j->nd - 1; d >= 0; d--) {
    off += p % v->size[first + d] * v->stride[first + d];
    p /= v->size[first + d];
  }
  return off * bytes(v);
}

static int64_t places(const job *j) {
  int64_t n = 1;
  for (int d = 0; d < j->nd; d++) n *= j->grid->size[1 + d];
  return n;
}

static void forward_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_view *x = j->x, *out = j->out;
  const int64_t per = places(j);
  taps t;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    int64_t n = i / per, p = i % per;
    taps_at(j, n * j->grid->stride[0] * bytes(j->grid) + place_at(j, j->grid, 1, p), &t);
    int64_t from = n * x->stride[0] * bytes(x);
    int64_t to = n * out->stride[0] * bytes(out) + place_at(j, out, 2, p);
    for (int64_t c = 0; c < x->size[1]; c++) {
      double sum = 0;
      for (int k = 0; k < t.n; k++) sum += t.w[k] * load(x, from + t.off[k]);
      store(out, to, sum);
      from += x->stride[1] * bytes(x);
      to += out->stride[1] * bytes(out);
    }
  }
}

static job job_of(const mt_kargs *k, int first, int args) {
  const char *m = k->arg[args].u.s, *b = k->arg[args + 1].u.s;
  return (job){.x = k->in[first],
               .grid = k->in[first + 1],
               .nd = k->in[first]->ndim - 2,
               .m = strcmp(m, "nearest") == 0   ? NEAREST
                    : strcmp(m, "bicubic") == 0 ? BICUBIC
                                                : BILINEAR,
               .b = strcmp(b, "border") == 0       ? BORDER
                    : strcmp(b, "reflection") == 0 ? REFLECTION
                                                   : ZEROS,
               .align = MT_KARG_INT(k, args + 2) != 0};
}

/* grid_sample(x, grid, mode, padding_mode, align_corners) */
int mt_cpu_grid_sample(const mt_kargs *k) {
  job j = job_of(k, 0, 2);
  j.out = k->out[0];
  if (!mt_dtype_is_float((mt_dtype)j.x->dtype)) return MT_NOKERNEL;
  if (j.out->numel == 0) return MT_OK;
  mt_parallel_for(k->par, places(&j) * j.x->size[0], 2048 / (j.x->size[1] + 1) + 1, forward_range,
                  &j);
  return MT_OK;
}

/* Batches are independent; within one, places add in order. */
static void back_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_view *x = j->x, *g = j->out, *gx = j->gx, *gg = j->ggrid;
  const int64_t per = places(j);
  taps t;
  (void)worker;
  for (int64_t i = begin * per; i < end * per; i++) {
    int64_t n = i / per, p = i % per;
    double slope[3] = {0, 0, 0};
    taps_at(j, n * j->grid->stride[0] * bytes(j->grid) + place_at(j, j->grid, 1, p), &t);
    int64_t from = n * x->stride[0] * bytes(x), to = n * gx->stride[0] * bytes(gx);
    int64_t at = n * g->stride[0] * bytes(g) + place_at(j, g, 2, p);
    for (int64_t c = 0; c < x->size[1]; c++) {
      double d = load(g, at);
      for (int k = 0; k < t.n; k++) {
        store(gx, to + t.goff[k], load(gx, to + t.goff[k]) + t.w[k] * d);
        double v = load(x, from + t.off[k]) * d;
        for (int s = 0; s < j->nd; s++) slope[s] += t.slope[s][k] * v;
      }
      from += x->stride[1] * bytes(x);
      to += gx->stride[1] * bytes(gx);
      at += g->stride[1] * bytes(g);
    }
    int64_t place = n * gg->stride[0] * bytes(gg) + place_at(j, gg, 1, p);
    for (int s = 0; s < j->nd; s++) {
      store(gg, place + s * gg->stride[gg->ndim - 1] * bytes(gg), j->m == NEAREST ? 0 : slope[s]);
    }
  }
}

/* grid_sample_back(g, x, grid, mode, padding_mode, align_corners) -> gradients of x and of grid */
int mt_cpu_grid_sample_back(const mt_kargs *k) {
  job j = job_of(k, 1, 3);
  if (!mt_dtype_is_float((mt_dtype)j.x->dtype)) return MT_NOKERNEL;
  mt_view acc = mt_accumulate_begin(k, NULL, k->out[0], k->scratch);
  j.out = k->in[0];
  j.gx = &acc;
  j.ggrid = k->out[1];
  if (j.grid->numel > 0) mt_parallel_for(k->par, j.x->size[0], 1, back_range, &j);
  return mt_accumulate_end(k, &acc, k->out[0]);
}

size_t mt_cpu_grid_sample_back_scratch(const mt_kargs *k) { return mt_accumulate_bytes(k->out[0]); }
