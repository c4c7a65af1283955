/* alloc.c - see alloc.h.
 *
 * Element blocks carry a 64-byte header, so that a block knows its size and where it came from.
 * Size classes: 64-byte steps to 1 KiB, then four per power of two, then 2 MiB steps found by best
 * fit, because a quarter of a large block is too much to waste. */
#include "alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLAB 16384
#define HEADER 64
#define SMALL 1024
#define LARGE_CLASS (MT_NBLOCK - 1)
#define KEEP ((int64_t)64 << 20) /* bytes always worth keeping */

static void *host_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  (void)ud;
  (void)osize;
  if (nsize) return realloc(ptr, nsize);
  free(ptr);
  return NULL;
}

void mt_alloc_init(mt_alloc *a, moth_alloc_fn fn, void *ud) {
  memset(a, 0, sizeof *a);
  a->fn = fn ? fn : host_alloc;
  a->ud = ud;
}

void mt_alloc_close(mt_alloc *a) {
  mt_elements_trim(a);
  while (a->slab) {
    mt_free *next = a->slab->next;
    a->fn(a->ud, a->slab, SLAB, 0);
    a->slab = next;
  }
}

/* ---- records ---- */

#ifdef MT_NOPOOL

void *mt_record_new(mt_alloc *a, size_t size) { return a->fn(a->ud, NULL, 0, size ? size : 1); }
void mt_record_free(mt_alloc *a, void *p, size_t size) {
  if (p) a->fn(a->ud, p, size ? size : 1, 0);
}

#else

/* Cuts a new slab into records of one class and returns the first of them. */
static void *slab_new(mt_alloc *a, size_t class) {
  size_t step = class * 32, at = sizeof(mt_free) < 32 ? 32 : sizeof(mt_free);
  mt_free *slab = a->fn(a->ud, NULL, 0, SLAB);
  if (!slab) return NULL;
  slab->next = a->slab;
  a->slab = slab;
  void *first = (char *)slab + at;
  mt_free **tail = &a->record[class];
  for (at += step; at + step <= SLAB; at += step) {
    mt_free *r = (mt_free *)(void *)((char *)slab + at);
    *tail = r;
    tail = &r->next;
  }
  *tail = NULL;
  return first;
}

void *mt_record_new(mt_alloc *a, size_t size) {
  size_t class = (size + 31) / 32;
  if (class > MT_NCLASS) return a->fn(a->ud, NULL, 0, size);
  if (class == 0) class = 1;
  mt_free *r = a->record[class];
  if (MT_UNLIKELY(!r)) return slab_new(a, class);
  a->record[class] = r->next;
  return r;
}

void mt_record_free(mt_alloc *a, void *p, size_t size) {
  size_t class = (size + 31) / 32;
  if (!p) return;
  if (class > MT_NCLASS) {
    a->fn(a->ud, p, size, 0);
    return;
  }
  if (class == 0) class = 1;
  mt_free *r = p;
  r->next = a->record[class];
  a->record[class] = r;
}

#endif

void *mt_record_grow(mt_alloc *a, void *p, size_t osize, size_t nsize) {
  void *q = mt_record_new(a, nsize);
  if (!q) return NULL;
  if (p) {
    memcpy(q, p, osize < nsize ? osize : nsize);
    mt_record_free(a, p, osize);
  }
  return q;
}

/* ---- elements ---- */

/* The class of a request and the bytes that blocks of the class have. */
static int class_of(size_t bytes, size_t *rounded) {
  if (bytes <= SMALL) {
    size_t c = bytes == 0 ? 1 : (bytes + 63) / 64;
    *rounded = c * 64;
    return (int)c;
  }
  if (bytes >= MT_HUGE - HEADER) { /* header included, whole huge pages */
    *rounded = (bytes + HEADER + MT_HUGE - 1) / MT_HUGE * MT_HUGE - HEADER;
    return LARGE_CLASS;
  }
  int log = 63 - __builtin_clzll(bytes - 1);
  size_t step = (size_t)1 << (log - 2), q = (bytes - 1 - ((size_t)1 << log)) / step;
  *rounded = ((size_t)1 << log) + (q + 1) * step;
  return 17 + (log - 10) * 4 + (int)q;
}

static void block_release(mt_alloc *a, mt_block *b) {
  if (b->mapped) {
    munmap(b->raw, b->mapped);
  } else {
    a->fn(a->ud, b->raw, b->size + HEADER + MT_ALIGN, 0);
  }
}

/* Large blocks start on a huge-page border; what is in front and behind is given back. */
static mt_block *block_map(size_t size) {
  size_t want = size + HEADER, span = want + MT_HUGE;
  char *raw = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return NULL;
  size_t lead = (size_t)(-(intptr_t)raw) & (MT_HUGE - 1);
  if (lead) munmap(raw, lead);
  if (span - lead > want) munmap(raw + lead + want, span - lead - want);
  raw += lead;
  madvise(raw, want, MADV_HUGEPAGE);
  mt_block *b = (mt_block *)(void *)raw;
  *b = (mt_block){.size = size, .mapped = want, .raw = raw};
  return b;
}

static mt_block *block_new(mt_alloc *a, size_t size) {
  if (size >= MT_HUGE - HEADER) return block_map(size);
  char *raw = a->fn(a->ud, NULL, 0, size + HEADER + MT_ALIGN);
  if (!raw) return NULL;
  char *at = (char *)(((uintptr_t)raw + MT_ALIGN - 1) & ~(uintptr_t)(MT_ALIGN - 1));
  mt_block *b = (mt_block *)(void *)at;
  *b = (mt_block){.size = size, .raw = raw};
  return b;
}

/* Takes the smallest cached large block that wastes at most an eighth. */
static mt_block *large_take(mt_alloc *a, size_t size) {
  mt_block **best = NULL;
  for (mt_block **p = &a->block[LARGE_CLASS]; *p; p = &(*p)->next)
    if ((*p)->size >= size && (*p)->size - size <= size / 8 &&
        (!best || (*p)->size < (*best)->size))
      best = p;
  if (!best) return NULL;
  mt_block *b = *best;
  *best = b->next;
  return b;
}

static mt_block *cache_take(mt_alloc *a, int class, size_t size) {
  mt_block *b;
  if (class == LARGE_CLASS) {
    b = large_take(a, size);
  } else {
    b = a->block[class];
    if (b) a->block[class] = b->next;
  }
  if (b) a->mem.cached -= (int64_t)b->size;
  return b;
}

void *mt_elements_new(mt_alloc *a, size_t bytes) {
  size_t size;
  if (bytes > (size_t)INT64_MAX / 2) return NULL;
  int class = class_of(bytes, &size);
  if (a->mem.limit && a->mem.live + (int64_t)size > a->mem.limit) return NULL;
  mt_block *b = cache_take(a, class, size);
  if (!b) {
    b = block_new(a, size);
    if (!b) {
      mt_elements_trim(a);
      b = block_new(a, size);
    }
    if (!b) return NULL;
  }
  a->mem.live += (int64_t)b->size;
  a->mem.allocated += (int64_t)b->size;
  if (a->mem.live > a->mem.peak) a->mem.peak = a->mem.live;
  return (char *)b + HEADER;
}

size_t mt_elements_size(const void *p) {
  return ((const mt_block *)(const void *)((const char *)p - HEADER))->size;
}

/* Whether keeping this block would hold more than was ever needed at once. */
static bool worth_keeping(const mt_alloc *a, const mt_block *b) {
#ifdef MT_NOPOOL
  (void)a;
  (void)b;
  return false;
#else
  int64_t idle = a->mem.cached + (int64_t)b->size;
  return idle <= KEEP || a->mem.live + idle <= a->mem.peak + a->mem.peak / 8;
#endif
}

void mt_elements_free(mt_alloc *a, void *p) {
  if (!p) return;
  mt_block *b = (mt_block *)(void *)((char *)p - HEADER);
  size_t size;
  a->mem.live -= (int64_t)b->size;
  if (!worth_keeping(a, b)) {
    block_release(a, b);
    return;
  }
  int class = class_of(b->size, &size);
  b->next = a->block[class];
  a->block[class] = b;
  a->mem.cached += (int64_t)b->size;
}

void mt_elements_trim(mt_alloc *a) {
  for (int c = 0; c < MT_NBLOCK; c++) {
    while (a->block[c]) {
      mt_block *b = a->block[c];
      a->block[c] = b->next;
      a->mem.cached -= (int64_t)b->size;
      block_release(a, b);
    }
  }
}
