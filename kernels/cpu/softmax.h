/* softmax.h - the loops of softmax, log_softmax and their backward, one table per instruction set.
 *
 * Along rows a softmax is three short passes over data that is in cache; down columns the same
 * passes run over many columns side by side. Sums of exponentials are taken in f64. */
#ifndef MT_CPU_SOFTMAX_H
#define MT_CPU_SOFTMAX_H

#include "lane.h"

#define MT_SM_COLS 256 /* most columns of one call: MT_ALONG_COLS */

typedef enum mt_smkind {
  MT_SM_SOFTMAX, /* a: input */
  MT_SM_LOG_SOFTMAX,
  MT_SM_BACK,     /* a: gradient, b: result of softmax */
  MT_SM_LOG_BACK, /* a: gradient, b: result of log_softmax */
  MT_SM_KINDS
} mt_smkind;

/* n contiguous elements each; out may be a or b. */
typedef void (*mt_smrow_fn)(const void *a, const void *b, void *out, int64_t n);
/* n rows of cols contiguous elements each; as, bs, os: elements from row to row. out may be a or
 * b if the strides agree. */
typedef void (*mt_smcol_fn)(const void *a, int64_t as, const void *b, int64_t bs, void *out,
                            int64_t os, int64_t n, int64_t cols);

struct mt_softmax_loops {
  mt_smrow_fn row[MT_SM_KINDS];
  mt_smcol_fn col[MT_SM_KINDS];
  /* For attention: softmax of the first `visible` of n scores, the others get 0. mask, of T, may be
   * NULL; it is added (additive) or leaves out where it is 0. Nothing left to see: all 0. */
  void (*masked_row)(const void *x, const void *mask, void *out, int64_t n, int64_t visible,
                     bool additive);
  /* For cross entropy. The maximum and log(sum(exp(x - maximum))), kept apart: their sum would lose
   * digits where logits are large. */
  void (*stats_row)(const void *x, int64_t n, void *max, void *log_sum);
  void (*stats_col)(const void *x, int64_t xs, int64_t n, int64_t cols, void *max, void *log_sum);
  /* out = exp((x - max) - log_sum) * scale; all 0 where scale is 0, whatever x is. */
  void (*prob_row)(const void *x, void *out, int64_t n, const void *max, const void *log_sum,
                   const void *scale);
  void (*prob_col)(const void *x, int64_t xs, void *out, int64_t os, int64_t n, int64_t cols,
                   const void *max, const void *log_sum, const void *scale);
};
struct mt_softmax_table {
  const struct mt_softmax_loops *lane[2]; /* MT_LF32, MT_LF64 */
};

#endif
