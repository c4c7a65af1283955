/* reductions.c - the reductions by name; reduce.c does the work.
 *
 * in[0] is reduced over the dims in the argument that is named beside each kernel (a dim, a list,
 * or nothing; nothing and an empty list mean all). The results have the reduced dims with size 1
 * or not at all, as their views say. Integers are summed modulo 2^64. Reductions without an
 * identity (max, min, argmax, argmin) fail on nothing. */
#include <math.h>

#include "../half.h"
#include "isa.h"
#include "reduce.h"
#include "walk.h"

static unsigned dims_of(const mt_kargs *k, int arg) {
  const mt_value *v = &k->arg[arg];
  unsigned mask = 0;
  if (v->kind == MT_INT) return 1u << v->u.i;
  if (v->kind != MT_INTS || v->n == 0) return ~0u;
  for (int i = 0; i < v->n; i++) mask |= 1u << v->u.ints[i];
  return mask;
}

static int run(const mt_kargs *k, int dims, mt_rjob job) {
  const mt_view *o1 = k->nout > 1 ? k->out[1] : NULL;
  return mt_reduce_run(k, job, k->in[0], dims_of(k, dims), k->out[0], o1, k->scratch);
}

static size_t query(const mt_kargs *k, int dims, mt_rjob job) {
  const mt_view *o1 = k->nout > 1 ? k->out[1] : NULL;
  return mt_reduce_scratch(k, job, k->in[0], dims_of(k, dims), k->out[0], o1);
}

/* (x, dims, ...) and its scratch query, for a job that depends on no other argument. */
#define REDUCTION(name, kind, result, map)                                        \
  int mt_cpu_##name(const mt_kargs *k) {                                          \
    return run(k, 1, (mt_rjob){MT_R_##kind, MT_RR_##result, MT_RMAP_##map, 0});   \
  }                                                                               \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) {                             \
    return query(k, 1, (mt_rjob){MT_R_##kind, MT_RR_##result, MT_RMAP_##map, 0}); \
  }

REDUCTION(sum, SUM, VALUE, NONE)
REDUCTION(mean, SUM, MEAN, NONE)
REDUCTION(nansum, SUM, VALUE, NAN0)
REDUCTION(amax, MAX, VALUE, NONE)
REDUCTION(amin, MIN, VALUE, NONE)
REDUCTION(argmax, ARGMAX, POSITION, NONE)
REDUCTION(argmin, ARGMIN, POSITION, NONE)
REDUCTION(max_dim, ARGMAX, VALUE_AND_POSITION, NONE) /* out: values, positions */
REDUCTION(min_dim, ARGMIN, VALUE_AND_POSITION, NONE)
REDUCTION(any, COUNT, ANY, NONE)
REDUCTION(all, COUNT, ALL, NONE)
REDUCTION(count_nonzero, COUNT, VALUE, NONE)
REDUCTION(logsumexp, LSE, LOGSUMEXP, NONE)
REDUCTION(sum_squares, SUMSQ, VALUE, NONE)

/* (x, dims, correction, ...) */
#define VARIANCE(name, result)                                                      \
  int mt_cpu_##name(const mt_kargs *k) {                                            \
    return run(k, 1, (mt_rjob){MT_R_VAR, result, MT_RMAP_NONE, mt_karg_f(k, 2)});   \
  }                                                                                 \
  size_t mt_cpu_##name##_scratch(const mt_kargs *k) {                               \
    return query(k, 1, (mt_rjob){MT_R_VAR, result, MT_RMAP_NONE, mt_karg_f(k, 2)}); \
  }

VARIANCE(var, MT_RR_VAR)
VARIANCE(std, MT_RR_STD)
VARIANCE(var_mean, MT_RR_VAR_AND_MEAN) /* out: variance, mean */
VARIANCE(std_mean, MT_RR_STD_AND_MEAN)

static mt_rjob norm_job(const mt_kargs *k) {
  double p = mt_karg_f(k, 1);
  bool complex = k->in[0]->dtype == MT_C64; /* which is read as its modulus */
  if (p == 0) return (mt_rjob){MT_R_COUNT, MT_RR_VALUE, MT_RMAP_NONE, 0};
  if (isinf(p)) {
    return (mt_rjob){p > 0 ? MT_R_MAX : MT_R_MIN, MT_RR_VALUE, MT_RMAP_ABS, 0};
  }
  if (p == 2) return (mt_rjob){MT_R_SUMSQ, MT_RR_ROOT, MT_RMAP_NONE, 2};
  if (p == 1) return (mt_rjob){MT_R_SUM, MT_RR_ROOT, complex ? MT_RMAP_NONE : MT_RMAP_ABS, 1};
  return (mt_rjob){MT_R_SUM, MT_RR_ROOT, MT_RMAP_POW, p};
}

/* (x, p, dims, ...): the p-norm; 0 counts, inf and -inf are the extreme moduli. An empty extreme
 * fails. */
int mt_cpu_norm(const mt_kargs *k) { return run(k, 2, norm_job(k)); }
size_t mt_cpu_norm_scratch(const mt_kargs *k) { return query(k, 2, norm_job(k)); }

/* Complex products are rare: one plain loop per result. */
static void prod_complex(const mt_kargs *k, unsigned mask) {
  const mt_view *x = k->in[0], *o = k->out[0];
  mt_walk red, kept;
  mt_cursor c, r;
  mt_walk_begin(&red, 1);
  mt_walk_begin(&kept, 1);
  for (int d = 0; d < x->ndim; d++) {
    int64_t s = x->stride[d] * (int64_t)sizeof(mt_c64);
    mt_walk_dim(mask >> d & 1 ? &red : &kept, x->size[d], &s);
  }
  mt_walk_end(&red);
  mt_walk_end(&kept);
  int64_t at = 0;
  mt_cursor_seek(&kept, &c, 0, kept.numel);
  while (mt_cursor_next(&kept, &c)) {
    for (int64_t i = 0; i < c.n; i++) {
      double re = 1, im = 0, t;
      mt_cursor_seek(&red, &r, 0, red.numel);
      while (mt_cursor_next(&red, &r)) {
        for (int64_t j = 0; j < r.n; j++) {
          const mt_c64 *z =
              (const mt_c64 *)(x->data + c.off[0] + i * kept.step[0] + r.off[0] + j * red.step[0]);
          t = re * z->re - im * z->im;
          im = re * z->im + im * z->re;
          re = t;
        }
      }
      *(mt_c64 *)(o->data + mt_view_at(o, at++)) = (mt_c64){(float)re, (float)im};
    }
  }
}

static const mt_rjob prod_job = {MT_R_PROD, MT_RR_VALUE, MT_RMAP_NONE, 0};

/* (x, dims, ...) */
int mt_cpu_prod(const mt_kargs *k) {
  if (k->in[0]->dtype != MT_C64) return run(k, 1, prod_job);
  if (k->out[0]->dtype != MT_C64) return MT_NOKERNEL;
  prod_complex(k, dims_of(k, 1));
  return MT_OK;
}
size_t mt_cpu_prod_scratch(const mt_kargs *k) {
  return k->in[0]->dtype == MT_C64 ? 0 : query(k, 1, prod_job);
}
