/* unpool.c - from the positions that maximum pooling reports back to planes: its gradient adds
 * there, unpooling writes there. Positions are checked before anything is written. */
#include <string.h>

#include "offsets.h"
#include "planes.h"

typedef struct job {
  mt_planes small, large;
  const int64_t *at; /* checked positions, contiguous, in elements */
  bool add;
  char *scratch;
  size_t part;
} job;

static void planes(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  char *small_buf = j->scratch + (size_t)worker * j->part;
  char *large_buf = small_buf + mt_planes_buffer(&j->small);
  const int64_t n = j->small.numel, size = j->large.wide ? 8 : 4;
  for (int64_t i = begin; i < end; i++) {
    const void *from = mt_planes_read(&j->small, i, small_buf);
    void *to = mt_planes_write(&j->large, i, large_buf);
    const int64_t *at = j->at + i * n;
    memset(to, 0, (size_t)(j->large.numel * size));
    if (j->large.wide) {
      const double *f = from;
      double *t = to;
      for (int64_t e = 0; e < n; e++) t[at[e]] = j->add ? t[at[e]] + f[e] : f[e];
    } else {
      const float *f = from;
      float *t = to;
      for (int64_t e = 0; e < n; e++) t[at[e]] = j->add ? t[at[e]] + f[e] : f[e];
    }
    mt_planes_done(&j->large, i, large_buf);
  }
}

static size_t part_bytes(const mt_kargs *k) {
  mt_planes a = mt_planes_of(k->in[0], k->arg[2].n), b = mt_planes_of(k->out[0], k->arg[2].n);
  return mt_planes_buffer(&a) + mt_planes_buffer(&b);
}

static size_t offsets_bytes(const mt_kargs *k) {
  return (mt_offsets_bytes(k->in[1]->numel) + 63) / 64 * 64;
}

static size_t need(const mt_kargs *k) {
  return offsets_bytes(k) + part_bytes(k) * (size_t)(k->par ? k->par->nthreads : 1);
}

static int unpool(const mt_kargs *k, bool add) {
  job j = {.small = mt_planes_of(k->in[0], k->arg[2].n),
           .large = mt_planes_of(k->out[0], k->arg[2].n),
           .at = k->scratch,
           .add = add,
           .part = part_bytes(k),
           .scratch = (char *)k->scratch + offsets_bytes(k)};
  if (!mt_dtype_is_float((mt_dtype)k->in[0]->dtype)) return MT_NOKERNEL;
  int status = mt_offsets_own(k, 1, j.large.numel, 1, k->scratch);
  if (status != MT_OK || k->out[0]->numel == 0) return status;
  mt_parallel_for(k->par, j.large.n, 32768 / (j.large.numel + 1) + 1, planes, &j);
  return MT_OK;
}

/* max_pool_back(g, index, int[] in_size): g added at its positions */
int mt_cpu_max_pool_back(const mt_kargs *k) { return unpool(k, true); }
size_t mt_cpu_max_pool_back_scratch(const mt_kargs *k) { return need(k); }

/* max_unpool(x, index, int[] size): x written at its positions, 0 elsewhere; the last of several
 * wins */
int mt_cpu_max_unpool(const mt_kargs *k) { return unpool(k, false); }
size_t mt_cpu_max_unpool_scratch(const mt_kargs *k) { return need(k); }
