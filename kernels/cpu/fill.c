/* fill.c - tensors made from numbers: a constant, a ramp, the diagonal.
 *
 * Ramps are counted, not summed: element i is computed from i, so errors do not add up and any
 * part can be made alone. */
#include "ew.h"
#include "move.h"

/* out[0] = the number at argument 1. */
int mt_cpu_fill(const mt_kargs *k) {
  const mt_value *v = &k->arg[1];
  char value[8];
  mt_convert(k->isa->ew, (mt_dtype)k->out[0]->dtype, value, v->kind == MT_FLOAT ? MT_F64 : MT_I64,
             &v->u, 1);
  mt_move_fill(k->par, k->out[0], value);
  return MT_OK;
}

typedef struct ramp {
  const mt_kargs *k;
  bool whole; /* integers, exactly */
  int64_t first, step;
  double a, b, by; /* from a by steps of `by`; from `half` on backwards from b */
  int64_t n, half;
} ramp;

static void ramp_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const ramp *r = ctx;
  const mt_view *out = r->k->out[0];
  const mt_dtype d = (mt_dtype)out->dtype;
  union {
    double f[MT_TILE];
    int64_t i[MT_TILE];
  } x;
  (void)worker;
  for (int64_t at = begin; at < end; at += MT_TILE) {
    int64_t n = end - at < MT_TILE ? end - at : MT_TILE;
    for (int64_t j = 0; j < n; j++) {
      int64_t i = at + j;
      if (r->whole)
        x.i[j] = (int64_t)((uint64_t)r->first + (uint64_t)i * (uint64_t)r->step);
      else if (i < r->half)
        x.f[j] = r->a + (double)i * r->by;
      else
        x.f[j] = r->b - (double)(r->n - 1 - i) * r->by;
    }
    mt_convert(r->k->isa->ew, d, out->data + at * mt_dtype_size(d), r->whole ? MT_I64 : MT_F64, &x,
               n);
  }
}

/* out[0] (1-d, contiguous) = start + i * step for numbers at arguments 0 and 2: in double, or
 * exactly when both are integers. */
int mt_cpu_arange(const mt_kargs *k) {
  const int64_t n = k->out[0]->numel;
  ramp r = {.k = k, .n = n, .half = n, .a = mt_karg_f(k, 0), .by = mt_karg_f(k, 2)};
  r.whole = k->arg[0].kind == MT_INT && k->arg[2].kind == MT_INT;
  if (r.whole) {
    r.first = k->arg[0].u.i;
    r.step = k->arg[2].u.i;
  }
  mt_parallel_for(k->par, n, 32768, ramp_range, &r);
  return MT_OK;
}

/* out[0] (1-d, contiguous): argument 2 evenly spaced numbers from argument 0 to argument 1, both
 * included; counted from the nearer end, so that the last is exact. */
int mt_cpu_linspace(const mt_kargs *k) {
  const int64_t n = k->out[0]->numel;
  ramp r = {.k = k, .n = n, .half = n / 2, .a = mt_karg_f(k, 0), .b = mt_karg_f(k, 1)};
  if (n > 1)
    r.by = (r.b - r.a) / (double)(n - 1);
  else
    r.half = n;
  mt_parallel_for(k->par, n, 32768, ramp_range, &r);
  return MT_OK;
}

/* out[0] (2-d): ones on the diagonal, zeros elsewhere. */
int mt_cpu_eye(const mt_kargs *k) {
  const mt_view *d = k->out[0];
  const int size = mt_dtype_size((mt_dtype)d->dtype);
  const int64_t n = d->size[0] < d->size[1] ? d->size[0] : d->size[1], zero = 0, unit = 1;
  char one[8];
  mt_convert(k->isa->ew, (mt_dtype)d->dtype, one, MT_I64, &unit, 1);
  mt_move_fill(k->par, d, &zero);
  for (int64_t i = 0; i < n; i++)
    mt_move_set(size, d->data + i * (d->stride[0] + d->stride[1]) * size, size, one, 1);
  return MT_OK;
}
