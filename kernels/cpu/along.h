/* along.h - work along one dim (or several merged ones) of tensors of one shape.
 *
 * Softmax, scans, normalisations and losses look at runs: all elements that differ in some inner
 * dims only. This driver finds the runs, hands them out to threads, and lets the caller's function
 * see contiguous data of a compute type, whatever the tensors are: a run that is not, passes
 * through a buffer of the worker's. A run belongs to one worker alone, so results do not depend on
 * the number of threads.
 *
 * Where another dim is the contiguous one, runs are worked on side by side, as columns of a tile; a
 * caller without a function for columns gets single runs. */
#ifndef MT_CPU_ALONG_H
#define MT_CPU_ALONG_H

#include "lane.h"
#include "walk.h"

#define MT_ALONG_COLS 256 /* most columns of a tile */

typedef struct mt_along_operand {
  const mt_view *v;
  mt_lane lane;
  bool out;      /* written, not read */
  bool direct;   /* worked on where it lies */
  mt_walk inner; /* its elements along the run */
  int64_t step;  /* elements from one to the next along the run, if that is one number */
  size_t buffer; /* offset of its buffer in the worker's block */
} mt_along_operand;

/* Operand i of the run begins at at[i]. `run`: its number, counting the other dims in row-major
 * order. n elements. */
typedef void (*mt_along_row_fn)(void *ctx, char *const *at, int64_t run, int64_t n);
/* Runs [run, run + cols): element e of column j of operand i is at[i] element e * step[i] + j. */
typedef void (*mt_along_col_fn)(void *ctx, char *const *at, const int64_t *step, int64_t run,
                                int64_t n, int64_t cols);

typedef struct mt_along {
  const mt_kargs *k;
  void *ctx;
  mt_along_row_fn row;
  mt_along_col_fn col; /* may be NULL */
  int nop;
  mt_along_operand op[MT_WALK_OPS];
  int64_t n;    /* length of a run */
  mt_walk rest; /* the other dims, one step per operand */
  bool by_cols;
  int64_t cols, tile, ntiles;
  size_t block;  /* bytes of a worker's buffers */
  int64_t group; /* so many neighbouring runs go to one worker, in order. Rows only */
} mt_along;

/* Begins a description. (It is large: fields are set one by one, not cleared.) */
static inline void mt_along_begin(mt_along *a, const mt_kargs *k, void *ctx, mt_along_row_fn row,
                                  mt_along_col_fn col) {
  a->k = k;
  a->ctx = ctx;
  a->row = row;
  a->col = col;
  a->nop = 0;
  a->group = 1;
}

/* Adds an operand; all have one shape. */
static inline void mt_along_add(mt_along *a, const mt_view *v, mt_lane lane, bool out) {
  mt_along_operand *o = &a->op[a->nop++];
  o->v = v;
  o->lane = lane;
  o->out = out;
}

/* Plans the work: bit d of `inner` set: dim d is in the run. The operands are there. */
void mt_along_plan(mt_along *a, unsigned inner);
/* Bytes of scratch for a plan; SIZE_MAX on overflow. */
size_t mt_along_scratch(const mt_along *a);
/* Runs it. `grain`: elements worth a thread. */
void mt_along_run(mt_along *a, void *scratch, int64_t grain);

#endif
