/* offsets.h - from index tensors to checked byte offsets.
 *
 * Every kernel that takes positions turns them into byte offsets first: the one place where base,
 * index dtype, negative positions and the allowed range are looked at. Nothing is read or written
 * at a position before all of them were found good; the lowest bad one is reported in k->error. The
 * inner loops that follow only add. */
#ifndef MT_CPU_OFFSETS_H
#define MT_CPU_OFFSETS_H

#include "walk.h"

typedef struct mt_offsets {
  int input; /* number of the index tensor among k->in */
  int ndim;  /* the shape it is broadcast to ... */
  const int64_t *size;
  int64_t limit;       /* positions: 0 <= p < limit */
  int64_t step;        /* bytes from one position to the next */
  const mt_view *flat; /* or: p counts the elements of this view, in row-major order */
  bool wrap;           /* negative positions count from the end */
  bool add;            /* out += instead of out = */
} mt_offsets;

/* Fills out[numel of the shape], contiguous. MT_OK or MT_BADINDEX. */
int mt_offsets_fill(const mt_kargs *k, const mt_offsets *o, int64_t *out);
/* The common case: the tensor's own shape. */
int mt_offsets_own(const mt_kargs *k, int input, int64_t limit, int64_t step, int64_t *out);
/* Bytes of scratch for n offsets; SIZE_MAX on overflow. */
size_t mt_offsets_bytes(int64_t n);
/* Reports position `pos` of input `input`, whose stored value is bad. Returns MT_BADINDEX. */
int mt_offsets_bad(const mt_kargs *k, int input, int64_t pos, int64_t limit);
/* The element of an integer view at byte offset `off`. */
int64_t mt_offsets_read(const mt_view *v, int64_t off);

/* ---- x[i, j, ..]: several index tensors (inputs 1 .. nindex), broadcast together ---- */
typedef struct mt_index_plan {
  int nindex;
  const int64_t *dims; /* which dims of x they address, ascending */
  int ndim;            /* the shape they broadcast to */
  int64_t size[MT_MAX_DIM], numel;
  int nfree; /* the other dims of x */
  int free[MT_MAX_DIM];
  int at; /* free dims in front of the broadcast shape in the result */
} mt_index_plan;

void mt_index_plan_make(mt_index_plan *p, const mt_kargs *k, int nindex, const int64_t *dims);
/* The sum of all offsets, p->numel of them (at least one). */
int mt_index_plan_offsets(const mt_index_plan *p, const mt_kargs *k, const mt_view *x,
                          int64_t *offs);

#endif
