/* rules.h - small pieces that the family files share. */
#ifndef MT_RULES_H
#define MT_RULES_H

#include "../ctx.h"
#include "../shape.h"
#include "../status.h"
#include "../tensor.h"

/* Argument j of a call as an integer or a flag. */
static inline int64_t mt_ci(const mt_call *c, int j) { return c->arg[j].u.i; }
static inline bool mt_given(const mt_value *v) { return v->kind != MT_NIL; }

/* The gradient goes through unchanged (the engine sums broadcast dims and casts). */
void mt_back_pass(mt_back *b);
/* The gradient takes the shape of the input. */
void mt_back_reshape(mt_back *b);
/* No gradient reaches any input: floor, sign ... are flat. */
void mt_back_zero(mt_back *b);
/* A tensor of zeros like input i was, with the dtype of the first gradient. */
moth_tensor *mt_zeros_meta(mt_back *b, int i);

#endif
