/* move.h - moving elements without knowing what they are.
 *
 * Copies, gathers and scatters look at nothing but the size of an element (1, 2, 4 or 8 bytes).
 * Places come as byte offsets (offsets.h). Every function works on whole views of equal shape, cut
 * for threads; each result element is written by one thread only. */
#ifndef MT_CPU_MOVE_H
#define MT_CPU_MOVE_H

#include "walk.h"

/* Items to copy that are worth a second thread. */
#define MT_MOVE_GRAIN 32768

/* n elements of `size` bytes from s to d; strides in bytes. */
void mt_move_row(int size, char *d, int64_t ds, const char *s, int64_t ss, int64_t n);
/* Sets n elements to the one at `value`. */
void mt_move_set(int size, char *d, int64_t ds, const char *value, int64_t n);
/* dst = src, same dtype, src broadcast to dst. */
void mt_move_copy(mt_parallel *par, const mt_view *dst, const mt_view *src);
/* Every element of dst = the one at `value`. */
void mt_move_fill(mt_parallel *par, const mt_view *dst, const void *value);
/* dst[i] = *(src + off[i]) along a walk of (dst, offsets, src). */
void mt_move_gather(mt_parallel *par, const mt_walk *w, int size, char *dst, const int64_t *offs,
                    const char *src);

#endif
