/* alloc.h - memory of the runtime: small records and tensor elements.
 *
 * Records (tensors, nodes, argument copies) come from size-class free lists on top of the host's
 * allocator; a record is returned with the size it was asked with. Elements come from a caching
 * allocator: 64-byte aligned blocks in size classes at most a quarter apart, reused last-in
 * first-out, mapped with huge pages from 2 MiB up, because touching fresh pages can cost more than
 * the arithmetic. Every byte of elements is counted; a limit can be set.
 *
 * With MT_NOPOOL (fault injection, sanitizers) every request goes to the host's allocator. */
#ifndef MT_ALLOC_H
#define MT_ALLOC_H

#include "config.h"
#include "moth.h"

#define MT_NCLASS 32 /* record classes of 32 bytes: up to 1024 */
#define MT_NBLOCK 256

typedef struct mt_free {
  struct mt_free *next;
} mt_free;

typedef struct mt_block { /* header in front of every element block; 64 bytes */
  size_t size;            /* usable bytes behind the header */
  size_t mapped;          /* bytes mapped, 0: from the host's allocator */
  void *raw;              /* what to give back */
  struct mt_block *next;
} mt_block;

typedef struct mt_alloc {
  moth_alloc_fn fn;
  void *ud;
  mt_free *record[MT_NCLASS + 1];
  mt_free *slab;             /* slabs, chained */
  mt_block *block[MT_NBLOCK]; /* cached blocks by class */
  moth_memory mem;
} mt_alloc;

void mt_alloc_init(mt_alloc *a, moth_alloc_fn fn, void *ud);
void mt_alloc_close(mt_alloc *a);

/* A record; NULL when there is no memory. Contents undefined. */
void *mt_record_new(mt_alloc *a, size_t size);
void mt_record_free(mt_alloc *a, void *p, size_t size);
/* A growing array of records: returns the new block or NULL (the old one is then intact). */
void *mt_record_grow(mt_alloc *a, void *p, size_t osize, size_t nsize);

/* At least `bytes` of element memory, 64-byte aligned; NULL: out of memory or over the limit. */
void *mt_elements_new(mt_alloc *a, size_t bytes);
void mt_elements_free(mt_alloc *a, void *p);
size_t mt_elements_size(const void *p); /* usable bytes */
void mt_elements_trim(mt_alloc *a);     /* gives the cache back to the system */

#endif
