/* ctx.h - writing operations with operations.
 *
 * Composite operations and backward rules call other operations by name. An mt_ctx owns every
 * tensor made on the way and frees them at its end; an error sticks, and from then on every call
 * does nothing and returns NULL. So a rule is written as plain expressions, without a check
 * between them, and cannot leak:
 *
 *     static void back_mul(mt_back *b) {
 *       if (b->need[0]) mt_grad(b, 0, MT_DO(b->c, "mul", mt_t(b->g[0]), b->arg[1]));
 *       if (b->need[1]) mt_grad(b, 1, MT_DO(b->c, "mul", mt_t(b->g[0]), b->arg[0]));
 *     }
 *
 * What a rule computes is recorded when the caller asked for gradients of gradients; a rule does
 * nothing for it but to use operations that are themselves differentiable. */
#ifndef MT_CTX_H
#define MT_CTX_H

#include "config.h"
#include "op.h"

typedef struct mt_ctx {
  moth_runtime *rt;
  int status;            /* MT_OK until something failed */
  int index_base;        /* handed on to every operation called */
  moth_tensor **owned;   /* arena; grows */
  int nowned, cap;
  moth_tensor *inl[24];
  int lastn;             /* results of the last call: owned[nowned-lastn ..] */
  moth_tensor **ret;     /* results of a composite: mt_return */
  int nret, capret;
  moth_tensor *inlret[MT_MAX_OUT];
} mt_ctx;

void mt_ctx_init(mt_ctx *c, moth_runtime *rt);
void mt_ctx_free(mt_ctx *c);

/* Values as arguments. */
static inline mt_value mt_t(moth_tensor *t) {
  return (mt_value){.kind = t ? MT_TENSOR : MT_NIL, .u.t = t};
}
static inline mt_value mt_i(int64_t i) { return (mt_value){.kind = MT_INT, .u.i = i}; }
static inline mt_value mt_f(double f) { return (mt_value){.kind = MT_FLOAT, .u.f = f}; }
static inline mt_value mt_b(bool b) { return (mt_value){.kind = MT_BOOL_ARG, .u.i = b}; }
mt_value mt_s(const char *s);
static inline mt_value mt_nil(void) { return (mt_value){.kind = MT_NIL}; }
static inline mt_value mt_ints(const int64_t *v, int n) {
  return (mt_value){.kind = MT_INTS, .n = n, .u.ints = v};
}
static inline mt_value mt_ts(moth_tensor *const *v, int n) {
  return (mt_value){.kind = MT_TENSORS, .n = n, .u.tensors = v};
}

/* Calls an operation; returns its first result (borrowed from c), NULL after an error. A NULL
 * tensor for a `tensor` argument (not `tensor?`) after an error is expected and ignored. */
moth_tensor *mt_do(mt_ctx *c, const char *op, int n, const mt_value *arg);
#define MT_DO(c, op, ...)                                                     \
  mt_do((c), (op), (int)(sizeof((mt_value[]){__VA_ARGS__}) / sizeof(mt_value)), \
        (const mt_value[]){__VA_ARGS__})
/* The in-place twin `name_`. */
#define MT_DO_ MT_DO
/* Result number i of the last call. */
moth_tensor *mt_nth(mt_ctx *c, int i);
/* Makes c own a reference; returns t. */
moth_tensor *mt_own(mt_ctx *c, moth_tensor *t);
/* Adds a result of the composite (borrowed from c, or an argument itself). */
void mt_return(mt_ctx *c, moth_tensor *t);
/* Makes the error, as mt_fail. */
void mt_ctx_fail(mt_ctx *c, const char *fmt, ...) MT_PRINTF(2, 3);

/* Short forms. */
static inline moth_tensor *mt_op1(mt_ctx *c, const char *op, moth_tensor *a) {
  return MT_DO(c, op, mt_t(a));
}
static inline moth_tensor *mt_op2(mt_ctx *c, const char *op, moth_tensor *a, moth_tensor *b) {
  return MT_DO(c, op, mt_t(a), mt_t(b));
}
static inline moth_tensor *mt_ops(mt_ctx *c, const char *op, moth_tensor *a, double s) {
  return MT_DO(c, op, mt_t(a), mt_f(s));
}

/* ---- Backward rules ---- */

typedef struct mt_meta { /* what is known of an input without keeping it */
  int8_t ndim, dtype;
  int64_t size[MT_MAX_DIM];
} mt_meta;

typedef struct mt_back {
  mt_ctx *c;
  const mt_opinfo *op;
  moth_tensor **g;      /* gradient of each result; NULL: nothing came (g[0] is never NULL when
                           there is one result) */
  int ng;
  moth_tensor **in;     /* saved inputs (row's `save`), NULL otherwise */
  moth_tensor **out;    /* saved results */
  const mt_value *arg;  /* all arguments; tensors are the saved ones or MT_NIL, numbers are there */
  const mt_meta *meta;  /* shape and dtype of each input */
  int nin, narg;
  const bool *need;     /* whether input i wants a gradient */
  moth_tensor **grad;   /* what mt_grad stores */
} mt_back;

/* Sets the gradient of input i. A gradient of a shape to which the input was broadcast is summed,
 * a different dtype is cast, by the engine. NULL is allowed: none. */
static inline void mt_grad(mt_back *b, int i, moth_tensor *t) { b->grad[i] = t; }
/* The number at argument j as a double. */
double mt_argf(const mt_value *v);
/* Shape of input i as a list value. */
static inline mt_value mt_meta_size(const mt_back *b, int i) {
  return mt_ints(b->meta[i].size, b->meta[i].ndim);
}

#endif
