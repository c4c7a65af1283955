/* parallel.h - the one parallel-for.
 *
 * A kernel never starts a thread: it is lent an mt_parallel by its caller and cuts its work into
 * ranges. Where the ranges are cut may depend on the thread count only if every range owns its
 * results alone; a sum must be cut by size, never by thread, so that results are the same for any
 * number of threads. The pool behind it belongs to the process (runtime/pool.c). */
#ifndef MT_PARALLEL_H
#define MT_PARALLEL_H

#include <stdint.h>

/* Works on [begin, end). `worker` is in [0, nthreads) and unique among ranges running at the same
 * time: it selects a private part of the scratch block. */
typedef void (*mt_range_fn)(void *ctx, int64_t begin, int64_t end, int worker);

typedef struct mt_parallel mt_parallel;
struct mt_parallel {
  int nthreads; /* most workers that will ever run at once, at least 1 */
  void (*run)(mt_parallel *self, int64_t n, int64_t grain, mt_range_fn fn, void *ctx);
  const volatile int *interrupted; /* non-zero: stop early, results do not matter any more */
};

/* Runs fn over [0, n) in ranges of at least `grain` items; below two grains it is a plain call.
 * About 50 us of work is worth a second thread: choose the grain so. */
static inline void mt_parallel_for(mt_parallel *par, int64_t n, int64_t grain, mt_range_fn fn,
                                   void *ctx) {
  if (n <= 0) return;
  if (par == 0 || par->nthreads <= 1 || n < 2 * grain) {
    fn(ctx, 0, n, 0);
    return;
  }
  par->run(par, n, grain, fn, ctx);
}

#endif
