/* accumulate.h - combining rows of values into places given by byte offsets.
 *
 * A destination may be hit many times. Its line (all positions that can reach it) is always walked
 * in order by one thread, so the result is the same for any thread count. float16 and bfloat16 are
 * collected in a float32 copy of the destination and rounded once at the end. */
#ifndef MT_CPU_ACCUMULATE_H
#define MT_CPU_ACCUMULATE_H

#include "walk.h"

typedef enum mt_combine {
  MT_COMBINE_SET,
  MT_COMBINE_ADD,
  MT_COMBINE_MUL,
  MT_COMBINE_MAX,
  MT_COMBINE_MIN
} mt_combine;

/* d[i] = combine(d[i], s[i]) with d[i] = d + i*ds + offset i. */
typedef void (*mt_combine_fn)(char *d, int64_t ds, const char *o, int64_t os, const char *s,
                              int64_t ss, int64_t n);
/* NULL when the dtype does not have it. For the half types d is float32 (not for MT_COMBINE_SET).
 */
mt_combine_fn mt_combine_find(mt_combine how, mt_dtype dtype);

/* Operands of both walks: dst, offsets, src. `line` holds the dims along which destinations may
 * meet, `other` the rest: different items of `other` never write the same place. */
typedef struct mt_scatter {
  mt_walk line, other;
  char *dst;
  const int64_t *offs;
  const char *src;
  mt_combine_fn fn;
} mt_scatter;

void mt_scatter_run(mt_parallel *par, const mt_scatter *s);

/* Where to accumulate for a result: out itself, holding a copy of x, or for half types a float32
 * copy of x in `scratch`. Then the copy back. */
mt_view mt_accumulate_begin(const mt_kargs *k, const mt_view *x, const mt_view *out, void *scratch);
int mt_accumulate_end(const mt_kargs *k, const mt_view *acc, const mt_view *out);
size_t mt_accumulate_bytes(const mt_view *out);
/* dst = src, any dtypes: the copy kernel. */
int mt_convert_view(const mt_kargs *k, const mt_view *dst, const mt_view *src);

#endif
