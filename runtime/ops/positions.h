/* positions.h - what the families about positions share. */
#ifndef MT_POSITIONS_H
#define MT_POSITIONS_H

#include "rules.h"

/* The shape of x[indices] with x the first input, the index tensors at argument `list` and the dims
 * they address; checks all of it. */
int mt_shape_indexed(mt_call *c, mt_spec *s, int list, const mt_value *dims);
/* The largest position in a tensor of them, 0-based; -1 if it is empty. Positions before the first
 * are an error. */
int64_t mt_largest_position(mt_ctx *c, moth_tensor *x);
/* How many elements are not 0. */
int64_t mt_count_nonzero(mt_ctx *c, moth_tensor *x);

#endif
