/* lane.h - from any dtype to the type that a kernel computes in, and back.
 *
 * Reductions, softmax, normalisations, scans and losses are written for contiguous runs of three
 * compute types; whatever else the data is (halves, small integers, strided) is converted run by
 * run through a small buffer that stays in cache. That keeps the number of compiled loops at
 * three and not at eleven, for a pass over L1. Complex numbers are not lanes. */
#ifndef MT_CPU_LANE_H
#define MT_CPU_LANE_H

#include "../kernel.h"

typedef enum mt_lane {
  MT_LF32,
  MT_LF64,
  MT_LI64,
  MT_LANES
} mt_lane;

/* Reads n elements, `stride` elements apart, to a contiguous run of the lane's type. */
typedef void (*mt_load_fn)(void *to, const void *from, int64_t n, int64_t stride);
/* Writes a contiguous run of the lane's type to n elements, `stride` apart. Floats are rounded to
 * nearest even; to bool: not 0. */
typedef void (*mt_store_fn)(void *to, const void *from, int64_t n, int64_t stride);

struct mt_lane_table {
  mt_load_fn load[MT_LANES][MT_NDTYPES];   /* C64: its modulus, floats only */
  mt_store_fn store[MT_LANES][MT_NDTYPES]; /* C64: NULL */
};

static inline int mt_lane_size(mt_lane l) { return l == MT_LF32 ? 4 : 8; }
/* The lane in which a dtype is computed when nothing else is asked for. */
static inline mt_lane mt_lane_of(mt_dtype d) {
  return d == MT_F64 ? MT_LF64 : mt_dtype_is_float(d) || d == MT_C64 ? MT_LF32 : MT_LI64;
}
/* Is the dtype stored exactly as the lane computes it? */
static inline bool mt_lane_native(mt_lane l, mt_dtype d) {
  return d == (l == MT_LF32 ? MT_F32 : l == MT_LF64 ? MT_F64 : MT_I64);
}

#endif
