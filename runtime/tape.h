/* tape.h - the recorded graph and the walk back through it.
 *
 * Each recorded operation is a node that owns what its backward rule needs and edges to the nodes
 * of its inputs. Tensors own the node that made them; so a graph lives exactly as long as a result
 * of it, and dropping the loss frees everything (iteratively: chains may be a million long). A
 * node's number is higher than those of all nodes it depends on, therefore a heap of numbers walks
 * the graph in a valid order without counting dependencies first.
 *
 * Saved results do not own their node (that would be a cycle): they are kept as bare aliases and
 * get the node back when a rule reads them. Every saved tensor carries the version of its storage;
 * a write in between is an error that names the operation. */
#ifndef MT_TAPE_H
#define MT_TAPE_H

#include "ctx.h"
#include "tensor.h"

typedef struct mt_edge {
  mt_node *node; /* NULL: no gradient wanted */
  int32_t out;
} mt_edge;

/* A backward written outside (a Lua Function). g: gradients of the results, NULL where none came;
 * grad: takes owned gradients of the inputs. */
typedef struct mt_custom {
  int (*backward)(void *ud, moth_runtime *rt, int ng, moth_tensor *const *g, int nin,
                  moth_tensor **grad);
  void (*release)(void *ud, moth_runtime *rt);
  void *ud;
  const char *name;
} mt_custom;

struct mt_task;

struct mt_node {
  int refs;
  int16_t nin, nout, narg;
  bool used;               /* saved tensors were dropped by a backward */
  int8_t index_base;
  moth_runtime *rt;
  const mt_opinfo *op;     /* NULL: accumulates into a leaf, or custom */
  uint64_t seq;
  mt_edge *edge;           /* nin */
  mt_meta *meta;           /* nin */
  mt_value *arg;           /* narg, deep copies; tensors in `saved` */
  moth_tensor **saved;     /* nin inputs, then nout results; NULL where not saved */
  uint32_t *version;       /* of the saved ones */
  size_t bytes;            /* of the record with all the arrays above */
  void *extra;             /* lists and strings of arg */
  size_t extra_bytes;
  moth_tensor *leaf;       /* accumulate: weak, cleared when the leaf dies */
  mt_custom *custom;
  void **hooks;            /* nout, for the binding; NULL: none */
  moth_tensor **retain;    /* nout: weak tensors that asked for retain_grad; NULL: none */
  char *where;             /* anomaly mode: script line */
  struct mt_task *task;    /* the walk under way */
};

/* Whether an invocation has to be recorded: gradients are on and an input needs one. */
bool mt_tape_wanted(const mt_call *c);
/* A node for the invocation with edges, arguments and saved inputs; owned. Made before the kernel
 * runs, so that nothing can fail after it. */
int mt_tape_make(mt_node **out, const mt_call *c);
/* Saves the results that the rule reads, once they have their storage. */
int mt_tape_save_outputs(mt_node *n, moth_tensor *const *out);
/* Makes t the result number i of n (retains n), unless its dtype cannot have a gradient. */
void mt_tape_attach(mt_node *n, int i, moth_tensor *t);
/* Replaces the node of t, NULL: none; takes the reference to n. What retain_grad asked for
 * moves. */
void mt_tape_set_node(moth_tensor *t, mt_node *n, int out);
/* Keeps the gradient of t, which is no leaf, when a walk passes. */
int mt_tape_retain(moth_tensor *t);
/* Releases what the rule needed: the graph cannot be walked again. */
void mt_node_drop_saved(mt_node *n);
/* Records a custom node; takes `custom` on success. Inputs may be NULL. */
int mt_tape_record_custom(moth_runtime *rt, mt_custom *custom, int nin, moth_tensor *const *in,
                          int nout, moth_tensor *const *out);
/* The edge that leads gradients of t to where they belong, with a reference to its node; refreshes
 * stale views. */
int mt_tape_own_edge(mt_edge *out, moth_tensor *t);
void mt_node_retain(mt_node *n);
void mt_node_release(mt_node *n);

typedef struct mt_backward_args {
  int nroots;
  moth_tensor *const *root;
  moth_tensor *const *grad; /* may be NULL, or have NULLs: ones, for one element */
  int ninputs;              /* 0: accumulate into leaves */
  moth_tensor *const *input;
  moth_tensor **result;     /* ninputs: owned gradients, NULL where unused */
  bool retain_graph, create_graph, allow_unused;
} mt_backward_args;
int mt_tape_backward(moth_runtime *rt, const mt_backward_args *a);

/* In-place writes (inplace.c). Checks that writing to t is allowed in the present grad mode; `in`
 * are the other inputs. */
int mt_inplace_check(moth_tensor *t, bool recording);
/* After the kernel wrote to t: raises the version and rebases the graph of t, and of its base when
 * it is a view. `made` holds the node recorded for the written value (taken), or NULL. */
int mt_inplace_commit(moth_tensor *t, mt_node *made);
/* A view whose base was written to since: gives it the node of as_strided(base). */
int mt_inplace_refresh(moth_tensor *t);

#endif
