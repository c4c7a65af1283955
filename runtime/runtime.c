/* runtime.c - opening, settings and closing of a runtime; the public functions about it. */
#include <string.h>

#include "pool.h"
#include "tape.h"
#include "tensor.h"

moth_runtime *moth_open(const moth_options *options) {
  static const moth_options none;
  const moth_options *o = options ? options : &none;
  mt_alloc alloc;
  mt_alloc_init(&alloc, o->alloc, o->alloc_ud);
  if (mt_op_init() != NULL) return NULL;
  moth_runtime *rt = alloc.fn(alloc.ud, NULL, 0, sizeof *rt);
  if (!rt) return NULL;
  memset(rt, 0, sizeof *rt);
  rt->alloc = alloc;
  rt->alloc.mem.limit = o->memory_limit;
  rt->refs = 1;
  rt->seq = 1; /* 0 is for leaves, which are last in a walk */
  rt->grad_enabled = true;
  rt->default_float = MT_F32;
  rt->isa = mt_isa_choose();
  moth_set_threads(rt, o->threads);
  moth_seed(rt, 5489);
  return rt;
}

void moth_close(moth_runtime *rt) {
  if (!rt) return;
  rt->closing = true;
  rt->where = NULL;
  rt->reclaim = NULL;
  mt_runtime_release(rt);
}

void mt_runtime_retain(moth_runtime *rt) { rt->refs++; }

/* Scratch is the library's own: it does not count as live while it is held. */
static void scratch_free(moth_runtime *rt, mt_alloc *a) {
  if (!rt->scratch) return;
  a->mem.live += (int64_t)rt->scratch_size;
  mt_elements_free(a, rt->scratch);
  rt->scratch = NULL;
}

void mt_runtime_release(moth_runtime *rt) {
  if (--rt->refs > 0) return;
  mt_alloc alloc = rt->alloc;
  scratch_free(rt, &alloc);
  mt_alloc_close(&alloc);
  alloc.fn(alloc.ud, rt, sizeof *rt, 0);
}

void *mt_runtime_elements(moth_runtime *rt, size_t bytes) {
  void *p = mt_elements_new(&rt->alloc, bytes);
  if (MT_LIKELY(p != NULL) || !rt->reclaim || !rt->reclaim(rt->reclaim_ud)) return p;
  return mt_elements_new(&rt->alloc, bytes);
}

void *mt_runtime_scratch(moth_runtime *rt, size_t size) {
  if (size <= rt->scratch_size && rt->scratch) return rt->scratch;
  void *p = mt_runtime_elements(rt, size);
  if (!p) return NULL;
  scratch_free(rt, &rt->alloc);
  rt->scratch = p;
  rt->scratch_size = mt_elements_size(p);
  rt->alloc.mem.live -= (int64_t)rt->scratch_size;
  return p;
}

int moth_set_threads(moth_runtime *rt, int threads) {
  int most = mt_pool_processors();
  rt->threads = threads > 0 ? threads : most;
  mt_pool_attach(&rt->par, rt->threads, &rt->interrupted);
  return MT_OK;
}

int moth_threads(const moth_runtime *rt) { return rt->par.nthreads; }

void moth_interrupt(moth_runtime *rt) { rt->interrupted = 1; }
void moth_resume(moth_runtime *rt) { rt->interrupted = 0; }

void moth_seed(moth_runtime *rt, uint64_t seed) {
  rt->seed = seed;
  rt->offset = 0;
}

void moth_memory_stats(const moth_runtime *rt, moth_memory *out) { *out = rt->alloc.mem; }
void moth_memory_reset_peak(moth_runtime *rt) { rt->alloc.mem.peak = rt->alloc.mem.live; }
void moth_memory_set_limit(moth_runtime *rt, int64_t bytes) { rt->alloc.mem.limit = bytes; }
void moth_memory_empty_cache(moth_runtime *rt) { mt_elements_trim(&rt->alloc); }

bool moth_set_grad_enabled(moth_runtime *rt, bool on) {
  bool was = rt->grad_enabled;
  rt->grad_enabled = on;
  return was;
}
