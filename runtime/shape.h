/* shape.h - sizes and strides: overflow-checked products, contiguity, broadcasting, overlap. */
#ifndef MT_SHAPE_H
#define MT_SHAPE_H

#include "../kernels/kernel.h"
#include "op.h"

/* Product of sizes; -1 when it does not fit or a size is negative. */
int64_t mt_shape_numel(int ndim, const int64_t *size);
void mt_shape_contiguous(int ndim, const int64_t *size, int64_t *stride);
bool mt_shape_is_contiguous(int ndim, const int64_t *size, const int64_t *stride);
/* No two positions share an element and there are no gaps (any order of dims). */
bool mt_shape_is_dense(int ndim, const int64_t *size, const int64_t *stride);
/* Whether two positions may share an element (expanded, as_strided windows). */
bool mt_shape_overlaps(int ndim, const int64_t *size, const int64_t *stride);
/* Fills numel and contiguous of v from its sizes and strides. */
void mt_view_finish(mt_view *v);
/* Broadcasts the shapes of `n` views (NULL ones are skipped) into spec; fails with shapes named. */
int mt_shape_broadcast(moth_runtime *rt, mt_spec *spec, int n, const mt_view *const *v);
bool mt_shape_equal(const mt_view *a, const mt_view *b);
/* Whether v broadcasts to the given shape. */
bool mt_shape_expands(const mt_view *v, int ndim, const int64_t *size);
/* A dim as the caller counts it, negative from the end, to 0..ndim-1; fails naming the range. For a
 * 0-d tensor ndim counts as 1. */
int mt_shape_dim(moth_runtime *rt, int *out, const char *arg, int64_t dim, int ndim);
/* A position along a dim of that size, the same way. */
int mt_shape_pos(moth_runtime *rt, int64_t *out, const char *arg, int64_t pos, int64_t size);
/* Strides that view `size` on the elements of v, if there are some (numel must agree). */
bool mt_shape_view_strides(const mt_view *v, int ndim, const int64_t *size, int64_t *stride);

/* ---- helpers for shape rules ---- */
/* out[i] = sizes given, contiguous. */
void mt_spec_set(mt_spec *s, int ndim, const int64_t *size);
/* out[i] = shape of a view. */
void mt_spec_like(mt_spec *s, const mt_view *v);
/* The list at argument j as up to MT_MAX_DIM sizes; an int counts as a list of one. */
int mt_arg_list(const mt_call *c, int j, int64_t *out, int *n);
/* The rule of elementwise rows: broadcast, keeping the layout of the inputs (invoke.c). */
int mt_shape_elementwise(mt_call *c);
/* The shape left after reducing `dims` (list of n wrapped dims, n 0: all). */
void mt_spec_reduce(mt_spec *s, const mt_view *v, const int64_t *dims, int n, bool keepdim);

#endif
