/* planes.h - the last dims of a tensor as contiguous floats or doubles.
 *
 * Pooling and resampling work on one plane (the last 1 to 3 dims) at a time. A plane that is
 * contiguous float32 or float64 is used where it lies; any other is copied to a buffer and half
 * precision widened, so that the loops exist for two types and one layout. */
#ifndef MT_CPU_PLANES_H
#define MT_CPU_PLANES_H

#include "../kernel.h"

typedef struct mt_planes {
  const mt_view *v;
  int nd;          /* dims of a plane */
  int64_t n;       /* planes */
  int64_t numel;   /* elements of a plane */
  int64_t size[3]; /* depth, height, width; leading ones are 1 */
  bool direct;     /* used in place */
  bool wide;       /* doubles */
} mt_planes;

mt_planes mt_planes_of(const mt_view *v, int nd);
/* Bytes of a buffer for one plane, a multiple of 64; 0 when it is used in place. */
size_t mt_planes_buffer(const mt_planes *p);
/* Plane i to read, in `buf` unless direct. */
const void *mt_planes_read(const mt_planes *p, int64_t i, void *buf);
/* Where to write plane i; then mt_planes_done. */
void *mt_planes_write(const mt_planes *p, int64_t i, void *buf);
void mt_planes_done(const mt_planes *p, int64_t i, const void *buf);
/* Bytes from the view's first element to plane i. */
int64_t mt_planes_at(const mt_planes *p, int64_t i);

#endif
