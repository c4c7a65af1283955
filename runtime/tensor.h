/* tensor.h - tensors, their storages and the runtime they belong to.
 *
 * A tensor is a reference-counted record: a view on a storage, and what autograd knows of it. A
 * storage is a block of elements with its own (atomic) count and a version, which every write
 * raises; a view shares the storage, hence the version, of its base. Tensors belong to the thread
 * of their runtime; storages may be shared between runtimes.
 *
 * Invariants: v.data == storage->data + offset * size; a tensor with `node` or `leaf->wants` needs
 * a gradient; `base` is never itself a view. */
#ifndef MT_TENSOR_H
#define MT_TENSOR_H

#include <stdatomic.h>

#include "../kernels/kernel.h"
#include "alloc.h"
#include "op.h"
#include "status.h"

typedef struct mt_node mt_node;
struct mt_task;

typedef struct mt_storage {
  atomic_int refs;
  uint32_t version;
  int32_t handles;         /* Lua handles on it: what only the collector can free */
  bool inl;                /* elements lie behind this record */
  bool foreign;            /* the host's memory: `release` is called instead of freeing */
  size_t bytes;
  char *data;
  moth_runtime *rt;
  void (*release)(void *ud);
  void *ud;
} mt_storage;

/* What only leaves, and tensors with hooks, need. */
typedef struct mt_leaf {
  bool wants;         /* requires_grad */
  bool retain;        /* retain_grad() on a non-leaf */
  moth_tensor *grad;
  mt_node *accumulate; /* weak: the node that adds to grad, while a graph uses it */
  void *hooks;         /* for the binding: hooks of this tensor, 0: none */
} mt_leaf;

struct moth_tensor {
  mt_view v;
  int refs;
  int16_t out;           /* which result of node */
  bool is_view, multiview;
  moth_runtime *rt;
  mt_storage *storage;
  mt_node *node;         /* what computed it, NULL: a leaf, or nothing recorded */
  mt_leaf *leaf;
  moth_tensor *base;     /* views: the tensor whose graph they follow */
  uint32_t graph_gen;    /* bases: how often the graph was rebased by a write;
                            views: that of the base when `node` was made */
};

/* Called on every op by tracers, profilers, autocast ...; stand on the one path in invoke.c. */
typedef struct mt_observer {
  struct mt_observer *next;
  void (*after)(struct mt_observer *self, const mt_call *c, moth_tensor *const *out);
} mt_observer;

struct moth_runtime {
  mt_alloc alloc;
  int refs;               /* 1 while open, plus one per live tensor and node */
  bool grad_enabled, anomaly, closing;
  int base;               /* index base of the operation under way, for messages */
  mt_dtype default_float;
  volatile int interrupted;
  uint64_t seed, offset;  /* the default generator */
  uint64_t seq;           /* numbers nodes */
  int threads;
  mt_parallel par;
  const struct mt_isa *isa;
  void *scratch;          /* kept between kernels */
  size_t scratch_size;
  mt_observer *observers;
  int64_t held;           /* bytes of storages that have a handle */
  /* anomaly mode: describes where the running script is */
  void (*where)(void *ud, char *buf, size_t size);
  void *where_ud;
  /* called before an out-of-memory error: collect garbage; true: worth a retry */
  bool (*reclaim)(void *ud);
  void *reclaim_ud;
  /* runs the hooks of a tensor on a gradient: may replace it (owned result in *g) */
  int (*run_hooks)(void *ud, moth_tensor *t_or_null, void *hooks, moth_tensor **g);
  void (*free_hooks)(void *ud, void *hooks);
  void *hooks_ud;
  struct mt_task *dying;  /* nodes waiting to be freed; see tape.c */
  bool dying_active;
  int walks;              /* numbers backward walks */
  const char *op_name;    /* of the operation under way, for messages */
  int shape_slot;
  char shape_buf[8][160];
  char error[MT_MESSAGE];
};

/* A tensor of its own storage, elements undefined. `stride` NULL: contiguous. */
int mt_tensor_new(moth_tensor **out, moth_runtime *rt, mt_dtype dtype, int ndim,
                  const int64_t *size, const int64_t *stride);
/* A new tensor on t's storage, without graph. offset counts elements from t's first one. */
int mt_tensor_alias(moth_tensor **out, moth_tensor *t, int ndim, const int64_t *size,
                    const int64_t *stride, int64_t offset);
int mt_tensor_scalar(moth_tensor **out, moth_runtime *rt, mt_dtype dtype, double value);
moth_tensor *mt_tensor_retain(moth_tensor *t);
void mt_tensor_release(moth_tensor *t);
/* Whether gradients flow into it. */
bool mt_tensor_needs_grad(const moth_tensor *t);
bool mt_tensor_is_leaf(const moth_tensor *t);
/* Elements from the storage's first to this tensor's first. */
int64_t mt_tensor_offset(const moth_tensor *t);
/* The leaf record, made when missing; NULL when there is no memory. */
mt_leaf *mt_tensor_leaf(moth_tensor *t);
/* Reads element `pos` (elements from v.data) as a number: integer kinds in *i (returns 1), floats
 * in
 * *f (returns 0). */
int mt_tensor_read(const moth_tensor *t, int64_t pos, int64_t *i, double *f);
/* The only element of a one-element tensor. */
int mt_tensor_item(const moth_tensor *t, int64_t *i, double *f);

mt_storage *mt_storage_retain(mt_storage *s);
void mt_storage_release(mt_storage *s);
/* Points an empty storage at foreign memory; `release` is called when nobody uses it any more. */
void mt_storage_wrap(mt_storage *s, void *data, size_t bytes, void (*release)(void *), void *ud);

void mt_runtime_retain(moth_runtime *rt);
void mt_runtime_release(moth_runtime *rt);
/* mt_elements_new, with a collection of garbage and a second attempt. */
void *mt_runtime_elements(moth_runtime *rt, size_t bytes);
/* At least `size` bytes, 64-byte aligned, valid until the next kernel; NULL: no memory. */
void *mt_runtime_scratch(moth_runtime *rt, size_t size);

#endif
