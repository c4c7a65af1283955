/* pool.h - the process's worker threads behind mt_parallel.
 *
 * One pool per process, started by the first loop that is worth it and bounded by the processors
 * that the process may really use (affinity and cgroup). A caller that finds the pool busy works
 * alone: two runtimes never oversubscribe the machine. Workers sleep between loops and block all
 * signals. */
#ifndef MT_POOL_H
#define MT_POOL_H

#include "../kernels/parallel.h"

/* Processors this process may use, at least 1. */
int mt_pool_processors(void);
/* Fills par so that loops use up to `threads` threads. */
void mt_pool_attach(mt_parallel *par, int threads, const volatile int *interrupted);

#endif
