/* copy.c - copies between any dtypes and strides, and fills with one number or a ramp.
 *
 * The same dtype moves as it is (move.c); a transpose goes in square blocks, so that both sides use
 * whole cache lines. Other dtypes are converted in tiles through double, int64 or complex, whichever
 * holds every value of the source exactly. Floats become integers by truncation; what does not fit
 * (NaN, infinities) becomes the smallest int64, cut to the integer's width, as the processor's
 * own conversion does. Anything but 0 is true. */
#include <string.h>

#include "../half.h"
#include "move.h"

#define TILE 256
#define BLOCK 32 /* elements on a side of a transposed block */

typedef union tile {
  double f[TILE];
  int64_t i[TILE];
  mt_c64 c[TILE];
} tile;

typedef enum form {
  FORM_F,
  FORM_I,
  FORM_C
} form;

static form form_of(mt_dtype d) {
  mt_category c = mt_dtype_category(d);
  return c == MT_CAT_COMPLEX ? FORM_C : c == MT_CAT_FLOAT ? FORM_F : FORM_I;
}

/* ---- loads ---- */

#define LOAD(T, field, expr)                              \
  for (int64_t k = 0; k < n; k++) {                       \
    const T v = *(const T *)(const void *)(p + k * step); \
    t->field[k] = (expr);                                 \
  }                                                       \
  break

static void load(mt_dtype d, tile *t, const char *p, int64_t step, int64_t n) {
  switch (d) {
    case MT_F64:
      LOAD(double, f, v);
    case MT_F32:
      LOAD(float, f, v);
    case MT_F16:
      LOAD(uint16_t, f, mt_f16_to_f32(v));
    case MT_BF16:
      LOAD(uint16_t, f, mt_bf16_to_f32(v));
    case MT_I64:
      LOAD(int64_t, i, v);
    case MT_I32:
      LOAD(int32_t, i, v);
    case MT_I16:
      LOAD(int16_t, i, v);
    case MT_I8:
      LOAD(int8_t, i, v);
    case MT_C64:
      LOAD(mt_c64, c, v);
    default:
      LOAD(uint8_t, i, v);
  }
}

/* ---- changes of form ---- */

static int64_t truncated(double x) {
  return x > -9.2233720368547758e18 && x < 9.2233720368547758e18 ? (int64_t)x : INT64_MIN;
}

/* In place; each form is at least as wide as what it replaces, element by element. */
static void reform(tile *t, form from, form to, bool to_bool, int64_t n) {
  if (from == FORM_C && to_bool) {
    for (int64_t k = 0; k < n; k++) t->i[k] = t->c[k].re != 0 || t->c[k].im != 0;
    return;
  }
  if (from == FORM_F && to_bool) {
    for (int64_t k = 0; k < n; k++) t->i[k] = t->f[k] != 0;
    return;
  }
  if (from == to) return;
  for (int64_t k = 0; k < n; k++) {
    double x = from == FORM_F ? t->f[k] : from == FORM_C ? t->c[k].re : (double)t->i[k];
    if (to == FORM_F) t->f[k] = x;
    else if (to == FORM_I) t->i[k] = truncated(x);
    else t->c[k] = (mt_c64){(float)x, 0};
  }
}

/* ---- stores ---- */

#define STORE(T, field, expr)                                          \
  for (int64_t k = 0; k < n; k++) {                                    \
    *(T *)(void *)(p + k * step) = (T)(expr);                          \
  }                                                                    \
  break

static void store(mt_dtype d, const tile *t, char *p, int64_t step, int64_t n) {
  switch (d) {
    case MT_F64:
      STORE(double, f, t->f[k]);
    case MT_F32:
      STORE(float, f, t->f[k]);
    case MT_F16:
      STORE(uint16_t, f, mt_f32_to_f16((float)t->f[k]));
    case MT_BF16:
      STORE(uint16_t, f, mt_f32_to_bf16((float)t->f[k]));
    case MT_I64:
      STORE(int64_t, i, t->i[k]);
    case MT_I32:
      STORE(int32_t, i, (uint32_t)t->i[k]);
    case MT_I16:
      STORE(int16_t, i, (uint16_t)t->i[k]);
    case MT_I8:
      STORE(int8_t, i, (uint8_t)t->i[k]);
    case MT_U8:
      STORE(uint8_t, i, t->i[k]);
    case MT_C64:
      for (int64_t k = 0; k < n; k++) *(mt_c64 *)(void *)(p + k * step) = t->c[k];
      break;
    default:
      STORE(uint8_t, i, t->i[k] != 0);
  }
}

/* ---- conversion ---- */

typedef struct job {
  mt_walk w;
  const mt_view *dst, *src;
} job;

static void convert_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_dtype dd = (mt_dtype)j->dst->dtype, sd = (mt_dtype)j->src->dtype;
  const int64_t ds = j->w.step[0], ss = j->w.step[1];
  mt_cursor c;
  tile t;
  (void)worker;
  mt_cursor_seek(&j->w, &c, begin, end);
  while (mt_cursor_next(&j->w, &c)) {
    for (int64_t at = 0; at < c.n; at += TILE) {
      int64_t n = c.n - at < TILE ? c.n - at : TILE;
      load(sd, &t, j->src->data + c.off[1] + at * ss, ss, n);
      reform(&t, form_of(sd), form_of(dd), dd == MT_BOOL, n);
      store(dd, &t, j->dst->data + c.off[0] + at * ds, ds, n);
    }
  }
}

/* ---- transposes ---- */

/* Rows [begin, end) of a 2-d copy in which the source runs along the other dim. */
static void transpose_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const mt_view *d = j->dst, *s = j->src;
  const int size = mt_dtype_size((mt_dtype)d->dtype);
  const int64_t cols = d->size[1];
  (void)worker;
  for (int64_t r0 = begin * BLOCK; r0 < end * BLOCK && r0 < d->size[0]; r0 += BLOCK) {
    int64_t rows = d->size[0] - r0 < BLOCK ? d->size[0] - r0 : BLOCK;
    for (int64_t c0 = 0; c0 < cols; c0 += BLOCK) {
      int64_t n = cols - c0 < BLOCK ? cols - c0 : BLOCK;
      for (int64_t r = r0; r < r0 + rows; r++)
        mt_move_row(size, d->data + (r * d->stride[0] + c0) * size, size,
                    s->data + (r * s->stride[0] + c0 * s->stride[1]) * size, s->stride[1] * size,
                    n);
    }
  }
}

static bool is_transpose(const mt_view *d, const mt_view *s) {
  return d->ndim == 2 && s->ndim == 2 && d->size[0] == s->size[0] && d->size[1] == s->size[1] &&
         d->stride[1] == 1 && s->stride[0] == 1 && s->stride[1] > 1 && d->size[0] > 4 &&
         d->size[1] > 4;
}

int mt_cpu_copy(const mt_kargs *k) {
  const mt_view *d = k->out[0], *s = k->in[0];
  if (d->numel == 0) return MT_OK;
  if (d->dtype == s->dtype) {
    if (s->numel == 1) {
      mt_move_fill(k->par, d, s->data);
    } else if (is_transpose(d, s)) {
      job j = {.dst = d, .src = s};
      int64_t rows = (d->size[0] + BLOCK - 1) / BLOCK;
      int64_t grain = 1 + MT_MOVE_GRAIN / (BLOCK * d->size[1] + 1);
      mt_parallel_for(k->par, rows, grain, transpose_range, &j);
    } else {
      mt_move_copy(k->par, d, s);
    }
    return MT_OK;
  }
  if (s->numel == 1) { /* convert once, then fill */
    tile t;
    int64_t one = 0;
    load((mt_dtype)s->dtype, &t, s->data, 0, 1);
    reform(&t, form_of((mt_dtype)s->dtype), form_of((mt_dtype)d->dtype), d->dtype == MT_BOOL, 1);
    store((mt_dtype)d->dtype, &t, (char *)&one, 0, 1);
    mt_move_fill(k->par, d, &one);
    return MT_OK;
  }
  job j = {.dst = d, .src = s};
  mt_walk_views(&j.w, d->ndim, d->size, 2, (const mt_view *const[]){d, s});
  mt_parallel_for(k->par, j.w.numel, MT_MOVE_GRAIN / 4, convert_range, &j);
  return MT_OK;
}

/* ---- fills ---- */

/* out[0] = the number at argument 1. */
int mt_cpu_fill(const mt_kargs *k) {
  const mt_value *v = &k->arg[1];
  mt_view number = {.data = (char *)(uintptr_t)&v->u, .ndim = 0, .numel = 1, .contiguous = true};
  number.dtype = (int8_t)(v->kind == MT_FLOAT ? MT_F64 : MT_I64);
  const mt_view *in[1] = {&number};
  mt_kargs one = *k;
  one.in = in;
  return mt_cpu_copy(&one);
}

/* out[0] (1-d, contiguous) = start + i * step for numbers at arguments 0 and 2, in double or, when
 * all are integers, exactly. */
int mt_cpu_arange(const mt_kargs *k) {
  const mt_view *d = k->out[0];
  const mt_value *a = &k->arg[0], *s = &k->arg[2];
  bool whole = a->kind == MT_INT && s->kind == MT_INT;
  int size = mt_dtype_size((mt_dtype)d->dtype);
  tile t;
  for (int64_t at = 0; at < d->numel; at += TILE) {
    int64_t n = d->numel - at < TILE ? d->numel - at : TILE;
    for (int64_t i = 0; i < n; i++) {
      if (whole) t.i[i] = (int64_t)((uint64_t)a->u.i + (uint64_t)(at + i) * (uint64_t)s->u.i);
      else t.f[i] = mt_karg_f(k, 0) + (double)(at + i) * mt_karg_f(k, 2);
    }
    reform(&t, whole ? FORM_I : FORM_F, form_of((mt_dtype)d->dtype), d->dtype == MT_BOOL, n);
    store((mt_dtype)d->dtype, &t, d->data + at * size, size, n);
  }
  return MT_OK;
}

/* out[0] (1-d, contiguous): argument 2 evenly spaced numbers from argument 0 to argument 1, both
 * included; counted from the nearer end, so that the last is exact. */
int mt_cpu_linspace(const mt_kargs *k) {
  const mt_view *d = k->out[0];
  double a = mt_karg_f(k, 0), b = mt_karg_f(k, 1);
  int64_t total = d->numel;
  double step = total > 1 ? (b - a) / (double)(total - 1) : 0;
  int size = mt_dtype_size((mt_dtype)d->dtype);
  tile t;
  for (int64_t at = 0; at < total; at += TILE) {
    int64_t n = total - at < TILE ? total - at : TILE;
    for (int64_t i = 0; i < n; i++) {
      int64_t pos = at + i;
      t.f[i] = pos < total / 2 || total == 1 ? a + (double)pos * step
                                             : b - (double)(total - 1 - pos) * step;
    }
    reform(&t, FORM_F, form_of((mt_dtype)d->dtype), d->dtype == MT_BOOL, n);
    store((mt_dtype)d->dtype, &t, d->data + at * size, size, n);
  }
  return MT_OK;
}

/* out[0] (2-d): ones on the diagonal, zeros elsewhere. */
int mt_cpu_eye(const mt_kargs *k) {
  const mt_view *d = k->out[0];
  const int64_t zero = 0;
  int64_t n = d->size[0] < d->size[1] ? d->size[0] : d->size[1];
  int size = mt_dtype_size((mt_dtype)d->dtype);
  tile t;
  t.i[0] = 1;
  reform(&t, FORM_I, form_of((mt_dtype)d->dtype), d->dtype == MT_BOOL, 1);
  mt_move_fill(k->par, d, &zero);
  for (int64_t i = 0; i < n; i++)
    store((mt_dtype)d->dtype, &t, d->data + i * (d->stride[0] + d->stride[1]) * size, 0, 1);
  return MT_OK;
}
