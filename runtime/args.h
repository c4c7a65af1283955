/* args.h - arguments of an operation made ready: defaults, kinds, lists, dims; inputs collected.
 *
 * What invoke.c and the composites work on. The frame lives on the stack of one invocation; only
 * lists of more tensors than MT_INLINE_INPUTS need a record. */
#ifndef MT_ARGS_H
#define MT_ARGS_H

#include "tensor.h"

#define MT_INLINE_INPUTS 12
#define MT_LISTBUF 48

typedef struct mt_number { /* a number given as operand: a view of its own */
  mt_view view;
  union {
    double f;
    int64_t i;
  } u;
} mt_number;

typedef struct mt_frame {
  mt_call c;
  mt_value arg[MT_MAX_ARGS];
  moth_tensor *in_buf[MT_INLINE_INPUTS];
  const mt_view *inv_buf[MT_INLINE_INPUTS];
  moth_tensor **in;        /* in_buf, or a record for long lists */
  const mt_view **inv;
  size_t record;           /* bytes of that record, 0: none */
  int nnum, nlist;
  mt_number num[3];
  int64_t list[MT_LISTBUF]; /* lists that were made from single numbers, wrapped dims */
} mt_frame;

/* Fills f from `n` given arguments. On failure nothing has to be freed. */
int mt_args_fill(mt_frame *f, moth_runtime *rt, const mt_opinfo *op, int n, const mt_value *arg,
                 int base);
void mt_args_free(mt_frame *f);

#endif
