/* reduce.h - accumulators and inner loops of the reductions.
 *
 * A reduction folds blocks of elements into accumulators. A block is at most MT_RBLOCK elements of
 * one of three compute types (f32 for f32, f16, bf16; f64; i64 for integers and bool); inside a
 * block sums run in many short lanes of the compute type, between blocks in f64, compensated.
 * So a sum of 1e8 floats is as exact as its last rounding, and because blocks are cut by position
 * alone, the result does not depend on the thread count. The driver in reduce.c finds the blocks;
 * the loops over one block are here, one table per instruction set.
 *
 * NaN: max and min keep the first NaN they meet, and argmax and argmin its place. */
#ifndef MT_CPU_REDUCE_H
#define MT_CPU_REDUCE_H

#include "../kernel.h"
#include "lane.h"

#define MT_RBLOCK 4096 /* most elements of one block along a row */
#define MT_RROWS 64    /* most rows of one block of columns */
#define MT_RCOLS 1024  /* most columns of one block, read where they lie */
#define MT_RTILE 128   /* most columns of one block that is buffered or read twice */

typedef enum mt_rkind {
  MT_R_SUM,   /* sum of x */
  MT_R_SUMSQ, /* sum of x*x */
  MT_R_COUNT, /* how many are not zero (NaN is not) */
  MT_R_PROD,  /* product; f64 and i64 only */
  MT_R_MAX,   /* largest value */
  MT_R_MIN,
  MT_R_ARGMAX, /* largest value and the position of its first occurrence */
  MT_R_ARGMIN,
  MT_R_VAR, /* mean and sum of squared distances from it */
  MT_R_LSE, /* maximum and sum of exp(x - maximum) */
  MT_R_KINDS
} mt_rkind;

/* What is known of the elements seen so far. */
typedef struct mt_racc {
  double f;  /* SUM*: sum; PROD; MAX..ARGMIN: value; VAR: mean; LSE: maximum */
  double g;  /* SUM*: what f lacks; VAR: sum of squares about the mean; LSE: sum of exponentials */
  int64_t i; /* integers: the sum, product or extreme value; COUNT, VAR: how many */
  int64_t pos; /* MAX..ARGMIN: position of the value, -1: nothing seen yet */
} mt_racc;

/* Folds n contiguous elements, 1 <= n <= MT_RBLOCK; first is the position of x[0]. */
typedef void (*mt_rrow_fn)(const void *x, int64_t n, int64_t first, mt_racc *acc);
/* Folds a block of columns: acc[j] takes x[i*stride + j] for all i < rows. cols <= MT_RCOLS, and
 * <= MT_RTILE for VAR and LSE; rows <= MT_RROWS. Row i has the position first + i. */
typedef void (*mt_rcol_fn)(const void *x, int64_t stride, int64_t rows, int64_t cols, int64_t first,
                           mt_racc *acc);

struct mt_reduce_loops {
  mt_rrow_fn row[MT_R_KINDS]; /* NULL: no such reduction in this compute type */
  mt_rcol_fn col[MT_R_KINDS];
};
struct mt_reduce_table {
  const struct mt_reduce_loops *lane[MT_LANES];
  mt_rrow_fn count_bytes; /* MT_R_COUNT of a byte type */
};

/* Joins b, whose elements come after those of a, to a. */
void mt_racc_join(mt_rkind kind, mt_lane lane, mt_racc *a, const mt_racc *b);

/* What is done to an element before it is folded (floats only). */
typedef enum mt_rmap {
  MT_RMAP_NONE,
  MT_RMAP_ABS,
  MT_RMAP_NAN0,
  MT_RMAP_POW
} mt_rmap;

/* What becomes of the accumulator. */
typedef enum mt_rresult {
  MT_RR_VALUE,
  MT_RR_MEAN,
  MT_RR_ROOT, /* of a sum of |x|^p */
  MT_RR_ANY,
  MT_RR_ALL,
  MT_RR_POSITION,
  MT_RR_VALUE_AND_POSITION,
  MT_RR_VAR,
  MT_RR_STD,
  MT_RR_VAR_AND_MEAN,
  MT_RR_STD_AND_MEAN,
  MT_RR_MOMENTS, /* mean, sum of squares about it; both results are f64 */
  MT_RR_LOGSUMEXP
} mt_rresult;

typedef struct mt_rjob {
  mt_rkind kind;
  mt_rresult result;
  mt_rmap map;
  double p; /* exponent of a norm, correction of a variance */
} mt_rjob;

/* Reduces the dims in `mask` of x. o0, o1: results of the remaining shape, with the reduced dims or
 * without; o1 NULL if there is one. scratch as the query says for the same arguments. */
int mt_reduce_run(const mt_kargs *k, mt_rjob job, const mt_view *x, unsigned mask,
                  const mt_view *o0, const mt_view *o1, void *scratch);
size_t mt_reduce_scratch(const mt_kargs *k, mt_rjob job, const mt_view *x, unsigned mask,
                         const mt_view *o0, const mt_view *o1);

static inline void mt_racc_add(mt_racc *a, double v) { /* Neumaier's compensated sum */
  double t = a->f + v;
  double big = a->f, small = v;
  if (__builtin_fabs(v) > __builtin_fabs(a->f)) big = v, small = a->f;
  a->g += (big - t) + small;
  a->f = t;
}

/* Does a value come before the one in the accumulator? NaN does, when it is the first. */
static inline bool mt_racc_better(bool max, double v, const mt_racc *a) {
  if (a->pos < 0) return true;
  if (v != v) return a->f == a->f;
  return max ? v > a->f : v < a->f;
}

static inline void mt_racc_var(mt_racc *a, double n, double mean, double m2) { /* Chan et al. */
  double total = (double)a->i + n, delta = mean - a->f;
  if (a->i == 0) {
    a->f = mean;
    a->g = m2;
  } else if (n > 0) {
    a->f += delta * (n / total);
    a->g += m2 + delta * delta * ((double)a->i * (n / total));
  }
  a->i += (int64_t)n;
}

/* Joins a block whose elements are max, and the sum of exp(x - max), to a. An accumulator that
 * saw nothing has f = -inf, g = 0. */
static inline void mt_racc_lse(mt_racc *a, double max, double sum) {
  if (a->f != a->f || max != max) {
    a->f = a->g = __builtin_nan("");
  } else if (max == a->f) {
    a->g += sum;
  } else if (max > a->f) {
    a->g = sum + (a->g > 0 ? a->g * __builtin_exp(a->f - max) : 0);
    a->f = max;
  } else if (sum > 0) {
    a->g += sum * __builtin_exp(max - a->f);
  }
}

#endif
