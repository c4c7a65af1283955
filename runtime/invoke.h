/* invoke.h - the one path of every operation.
 *
 * check -> promote -> shape -> allocate -> kernel -> record -> observe. On any error nothing has
 * happened: no input was changed, nothing is leaked, the message is in the runtime. Everything is
 * allocated before anything is written. */
#ifndef MT_INVOKE_H
#define MT_INVOKE_H

#include "ctx.h"
#include "tensor.h"

typedef struct mt_results {
  int n;
  moth_tensor *t[MT_MAX_OUT]; /* owned by the caller */
  moth_tensor **list; /* when n > MT_MAX_OUT: all of them instead; free with mt_results_free */
  moth_runtime *rt;
} mt_results;

static inline moth_tensor **mt_results_all(mt_results *r) { return r->list ? r->list : r->t; }
/* Releases the tensors and the list. */
void mt_results_free(mt_results *r);
/* Frees the list only: the tensors were taken. */
void mt_results_taken(mt_results *r);

/* Calls `op` with `n` arguments in schema order (missing ones take their defaults). `base` is what
 * the first position is called in index tensors (0 or 1); dims and positions in `arg` are already
 * 0-based. With `inplace`, the result is written to the first tensor, which is also the result. */
int mt_invoke(mt_results *out, moth_runtime *rt, const mt_opinfo *op, int n, const mt_value *arg,
              int base, bool inplace);

/* Hands the results of a composite over, with a reference each. */
int mt_ctx_take_returns(mt_ctx *c, mt_results *out);

#endif
