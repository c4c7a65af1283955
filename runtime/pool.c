/* pool.c - see pool.h.
 *
 * A loop is published under the lock as a job; workers and the caller take chunks from an atomic
 * counter. Workers spin for a few microseconds after a job, because training steps follow each
 * other closely, then sleep. The worker number given to a chunk is that of the thread, so it is
 * unique. */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORKERS 63
#define SPIN 2000

typedef struct job {
  mt_range_fn fn;
  void *ctx;
  int64_t n, chunk;
  const volatile int *interrupted;
  atomic_llong next;
} job;

/* The pool: process-wide by nature; everything is guarded by `lock` or atomic. */
static struct {
  pthread_mutex_t lock;    /* guards what follows */
  pthread_mutex_t busy;    /* held by the loop that owns the workers */
  pthread_cond_t wake;
  int started;             /* workers that exist */
  pid_t pid;               /* a forked child has no workers */
  atomic_ullong ticket;    /* number of the present job << 8 | workers it wants: one word, so that a
                              late worker cannot mix two jobs up */
  atomic_int running;      /* workers still inside it */
  atomic_ullong first_seen[MAX_WORKERS + 1]; /* the ticket when a worker was started */
  job job;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .busy = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER};

static void work(job *j, int worker) {
  for (;;) {
    int64_t at = atomic_fetch_add_explicit(&j->next, j->chunk, memory_order_relaxed);
    if (at >= j->n) return;
    if (j->interrupted && *j->interrupted) continue;
    int64_t end = at + j->chunk < j->n ? at + j->chunk : j->n;
    j->fn(j->ctx, at, end, worker);
  }
}

/* Waits until the job changes; returns its number. */
static unsigned long long next_job(unsigned long long seen) {
  for (int i = 0; i < SPIN; i++) {
    unsigned long long g = atomic_load_explicit(&pool.ticket, memory_order_acquire);
    if (g != seen) return g;
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
  }
  pthread_mutex_lock(&pool.lock);
  unsigned long long g;
  while ((g = atomic_load_explicit(&pool.ticket, memory_order_acquire)) == seen)
    pthread_cond_wait(&pool.wake, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
  return g;
}

static void *worker_main(void *arg) {
  int worker = (int)(intptr_t)arg;
  unsigned long long seen = atomic_load_explicit(&pool.first_seen[worker], memory_order_acquire);
  for (;;) {
    seen = next_job(seen);
    if (worker <= (int)(seen & 255)) {
      work(&pool.job, worker);
      atomic_fetch_sub_explicit(&pool.running, 1, memory_order_acq_rel);
    }
  }
  return NULL;
}

/* Starts workers up to `n`; returns how many there are. Called with `busy` held. */
static int start_workers(int n) {
  sigset_t all, old;
  if (pool.pid != getpid()) {
    pool.pid = getpid();
    pool.started = 0;
  }
  if (pool.started >= n) return pool.started;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  while (pool.started < n && pool.started < MAX_WORKERS) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 1 << 20);
    atomic_store(&pool.first_seen[pool.started + 1], atomic_load(&pool.ticket));
    int failed = pthread_create(&thread, &attr, worker_main, (void *)(intptr_t)(pool.started + 1));
    pthread_attr_destroy(&attr);
    if (failed) break;
    pool.started++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return pool.started;
}

static void run_alone(mt_parallel *self, int64_t n, mt_range_fn fn, void *ctx) {
  (void)self;
  fn(ctx, 0, n, 0);
}

/* Chunks small enough to balance two uneven cores, large enough to be worth taking. */
static int64_t chunk_size(int64_t n, int64_t grain, int threads) {
  int64_t c = (n + threads * 4 - 1) / (threads * 4);
  return c > grain ? c : grain;
}

static void run(mt_parallel *self, int64_t n, int64_t grain, mt_range_fn fn, void *ctx) {
  int64_t most = n / grain;
  int threads = self->nthreads < most ? self->nthreads : (int)most;
  if (threads < 2 || pthread_mutex_trylock(&pool.busy) != 0) {
    run_alone(self, n, fn, ctx);
    return;
  }
  int helpers = start_workers(threads - 1);
  if (helpers > threads - 1) helpers = threads - 1;
  if (helpers < 1) {
    pthread_mutex_unlock(&pool.busy);
    run_alone(self, n, fn, ctx);
    return;
  }
  pthread_mutex_lock(&pool.lock);
  pool.job.fn = fn;
  pool.job.ctx = ctx;
  pool.job.n = n;
  pool.job.chunk = chunk_size(n, grain, threads);
  pool.job.interrupted = self->interrupted;
  atomic_store_explicit(&pool.job.next, 0, memory_order_relaxed);
  atomic_store_explicit(&pool.running, helpers, memory_order_relaxed);
  unsigned long long number = (atomic_load(&pool.ticket) >> 8) + 1;
  atomic_store_explicit(&pool.ticket, number << 8 | (unsigned)helpers, memory_order_release);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  work(&pool.job, 0);
  for (int i = 0; atomic_load_explicit(&pool.running, memory_order_acquire) > 0; i++)
    if (i > SPIN) sched_yield();
  pthread_mutex_unlock(&pool.busy);
}

/* The CPU quota of the process's cgroup, 0: none. */
static int cgroup_limit(void) {
  long long quota = 0, period = 0;
  char word[32] = "";
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (f) {
    if (fscanf(f, "%31s %lld", word, &period) == 2 && strcmp(word, "max") != 0)
      sscanf(word, "%lld", &quota);
    fclose(f);
  }
  return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int mt_pool_processors(void) {
  cpu_set_t set;
  int n = 1, limit = cgroup_limit();
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  if (limit && limit < n) n = limit;
  return n < 1 ? 1 : n > MAX_WORKERS + 1 ? MAX_WORKERS + 1 : n;
}

void mt_pool_attach(mt_parallel *par, int threads, const volatile int *interrupted) {
  par->nthreads = threads < 1 ? 1 : threads > MAX_WORKERS + 1 ? MAX_WORKERS + 1 : threads;
  par->run = run;
  par->interrupted = interrupted;
}
