/* norm.h - the inner loops of the normalisations, one table per instruction set.
 *
 * All work on contiguous runs of the compute type T (f32 or f64). Statistics come and go as f64; a
 * mean is applied as its rounded value, and what the rounding lost is put into the shift, so that
 * data far from zero loses nothing. */
#ifndef MT_CPU_NORM_H
#define MT_CPU_NORM_H

#include "lane.h"

struct mt_norm_loops {
  /* Mean of x and sum of squared distances from it; n >= 1. */
  void (*moments)(const void *x, int64_t n, double *mean, double *m2);
  double (*squares)(const void *x, int64_t n);

  /* y = (x - mean) * scale * w + b; w and b may be NULL. */
  void (*scale_vec)(const void *x, void *y, int64_t n, double mean, double scale, const void *w,
                    const void *b);
  /* y = (x - mean) * scale + shift, for one of each, or for one of each per element. */
  void (*scale_one)(const void *x, void *y, int64_t n, double mean, double scale, double shift);
  void (*scale_each)(const void *x, void *y, int64_t n, const void *mean, const void *scale,
                     const void *shift);

  /* With h = (x - mean) * rstd: sums[0] = sum(g*w), sums[1] = sum(g*w*h); dw += g*h, db += g. w may
   * be NULL (ones); dw and db are T. */
  void (*dots_vec)(const void *g, const void *x, int64_t n, double mean, double rstd, const void *w,
                   void *dw, void *db, double *sums);
  /* sums[0] = sum(g), sums[1] = sum(g * (x - mean)) */
  void (*dots_one)(const void *g, const void *x, int64_t n, double mean, double *sums);
  /* The same element by element: sg += g, sh += g * (x - mean). All T. */
  void (*dots_each)(const void *g, const void *x, int64_t n, const void *mean, void *sg, void *sh);

  /* out = rstd * (g*w - c0 - h*c1) */
  void (*back_vec)(const void *g, const void *x, void *out, int64_t n, double mean, double rstd,
                   const void *w, double c0, double c1);
  /* out = g*a + (x - mean)*b + c */
  void (*back_one)(const void *g, const void *x, void *out, int64_t n, double mean, double a,
                   double b, double c);
  void (*back_each)(const void *g, const void *x, void *out, int64_t n, const void *mean,
                    const void *a, const void *b, const void *c);
};
struct mt_norm_table {
  const struct mt_norm_loops *lane[2]; /* MT_LF32, MT_LF64 */
};

/* ---- what norm.c and norm_batch.c share ---- */

/* Lays out the scratch block: the same calls find its size (base NULL) and its parts. */
typedef struct mt_arena {
  char *base;
  size_t used; /* SIZE_MAX after an overflow */
} mt_arena;
void *mt_arena_take(mt_arena *a, int64_t n, size_t size);

/* The 1-d (or flattened) contents of v as n contiguous elements of the lane: v's own memory where
 * it is so already, or a copy in the arena. NULL if v is NULL. */
const void *mt_norm_param(const mt_kargs *k, const mt_view *v, mt_lane lane, mt_arena *a);

static inline double mt_lane_get(mt_lane l, const void *p, int64_t i) {
  return l == MT_LF32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}
static inline void mt_lane_set(mt_lane l, void *p, int64_t i, double x) {
  if (l == MT_LF32)
    ((float *)p)[i] = (float)x;
  else
    ((double *)p)[i] = x;
}

#endif
