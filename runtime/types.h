/* types.h - type promotion, exactly PyTorch's.
 *
 * Tensors with dims decide first, then 0-d tensors, then numbers: a lower rank changes the dtype
 * only when its category (bool < integer < float < complex) is higher. A Lua integer counts as
 * int64, a Lua float as the default float dtype. */
#ifndef MT_TYPES_H
#define MT_TYPES_H

#include "op.h"

mt_dtype mt_promote(mt_dtype a, mt_dtype b);
/* Whether a result of dtype `from` may be stored in place into `to`. */
bool mt_can_cast(mt_dtype from, mt_dtype to);
/* Sets c->common, c->compute and the dtypes of c->out by the row's rule; fails naming dtypes. */
int mt_types_apply(mt_call *c);
/* By name ("float32", "float", "long" ...); MT_NODTYPE if there is none. */
/* The type that an elementwise kernel computes results of dtype d in. */
mt_dtype mt_compute_type(mt_dtype d);
mt_dtype mt_dtype_by_name(const char *name);

#endif
