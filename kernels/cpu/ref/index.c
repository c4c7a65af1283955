/* index.c - plain versions of the kernels that read and write at positions. They assume that all
 * positions are in range; what happens otherwise is tested directly. */
#include <math.h>
#include <string.h>

#include "ref.h"

static int64_t where(const mt_kargs *k, const mt_view *index, int64_t p, int64_t limit) {
  int64_t x = mt_ref_int(index, p);
  return x < 0 ? x + limit : x - k->index_base;
}

/* Position in x of element p of the index, placed along dim. */
static int64_t along(const mt_kargs *k, const mt_view *x, const mt_view *index, int64_t p,
                     int dim) {
  int64_t at[MT_MAX_DIM];
  if (x->ndim == 0) return 0;
  mt_ref_coords(index, p, at);
  at[dim] = where(k, index, p, x->size[dim]);
  return mt_ref_position(x, at);
}

int mt_ref_gather(const mt_kargs *k) {
  for (int64_t p = 0; p < k->in[1]->numel; p++) {
    int64_t from = along(k, k->in[0], k->in[1], p, (int)MT_KARG_INT(k, 1));
    mt_ref_store(k->out[0], p, mt_ref_load(k->in[0], from));
  }
  return MT_OK;
}

static int select(const mt_kargs *k, const mt_view *x, const mt_view *index, int dim) {
  const mt_view *out = k->out[0];
  for (int64_t p = 0; p < out->numel; p++) {
    int64_t at[MT_MAX_DIM] = {0}, from[MT_MAX_DIM] = {0}, i = 0;
    mt_ref_coords(out, p, at);
    for (int d = 0; d < index->ndim; d++) i = i * index->size[d] + at[dim + d];
    for (int d = 0; d < x->ndim; d++) {
      from[d] = d < dim    ? at[d]
                : d == dim ? where(k, index, i, x->size[dim])
                           : at[d + index->ndim - 1];
    }
    mt_ref_store(out, p, mt_ref_load(x, mt_ref_position(x, from)));
  }
  return MT_OK;
}

int mt_ref_index_select(const mt_kargs *k) {
  return select(k, k->in[0], k->in[1], (int)MT_KARG_INT(k, 1));
}

int mt_ref_embedding(const mt_kargs *k) { return select(k, k->in[1], k->in[0], 0); }

int mt_ref_take(const mt_kargs *k) {
  for (int64_t p = 0; p < k->in[1]->numel; p++) {
    mt_ref_store(k->out[0], p, mt_ref_load(k->in[0], where(k, k->in[1], p, k->in[0]->numel)));
  }
  return MT_OK;
}

/* Position in x of element p of x[indices]; `shape` has the shape of the result. */
static int64_t indexed(const mt_kargs *k, const mt_view *shape, int64_t p, int nindex,
                       const int64_t *dims) {
  const mt_view *x = k->in[0];
  int64_t at[MT_MAX_DIM], from[MT_MAX_DIM];
  int nb = shape->ndim - (x->ndim - nindex), first = (int)dims[0];
  for (int i = 1; i < nindex; i++) {
    if (dims[i] != dims[i - 1] + 1) first = 0;
  }
  mt_view block = {.ndim = (int8_t)nb, .numel = 1};
  for (int d = 0; d < nb; d++) block.numel *= block.size[d] = shape->size[first + d];
  mt_ref_coords(shape, p, at);
  for (int d = 0, i = 0, f = 0; d < x->ndim; d++) {
    if (i < nindex && dims[i] == d) {
      const mt_view *index = k->in[1 + i++];
      int64_t b = mt_ref_position(&block, at + first);
      from[d] = where(k, index, mt_ref_broadcast(index, &block, b), x->size[d]);
    } else {
      from[d] = at[f < first ? f : f + nb];
      f++;
    }
  }
  return mt_ref_position(x, from);
}

int mt_ref_index(const mt_kargs *k) {
  for (int64_t p = 0; p < k->out[0]->numel; p++) {
    int64_t from = indexed(k, k->out[0], p, k->arg[1].n, k->arg[2].u.ints);
    mt_ref_store(k->out[0], p, mt_ref_load(k->in[0], from));
  }
  return MT_OK;
}

/* ---- writing ---- */

static void copy(const mt_view *out, const mt_view *x) {
  for (int64_t p = 0; p < out->numel; p++) {
    mt_ref_store(out, p, x ? mt_ref_load(x, p) : (mt_num){0, 0});
  }
}

static mt_num combine(const char *how, mt_num a, mt_num b, int dtype) {
  bool logic = dtype == MT_BOOL;
  if (strcmp(how, "sum") == 0)
    return logic ? (mt_num){a.re || b.re, 0} : (mt_num){a.re + b.re, a.im + b.im};
  if (strcmp(how, "prod") == 0) {
    return (mt_num){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  if (isnan(a.re) || isnan(b.re)) return (mt_num){NAN, 0};
  if (strcmp(how, "amax") == 0) return a.re > b.re ? a : b;
  return a.re < b.re ? a : b;
}

static void scatter(const mt_kargs *k, const char *how, bool self) {
  const mt_view *x = k->in[0], *index = k->in[1], *src = k->in[2], *out = k->out[0];
  int dim = (int)MT_KARG_INT(k, 1);
  copy(out, x);
  for (int64_t p = 0; p < index->numel; p++) {
    int64_t at[MT_MAX_DIM], to = along(k, x, index, p, dim);
    mt_ref_coords(index, p, at);
    bool first = !self;
    for (int64_t q = 0; first && q < p; q++) first = along(k, x, index, q, dim) != to;
    mt_num v = mt_ref_load(src, src->ndim ? mt_ref_position(src, at) : 0);
    mt_num old = mt_ref_load(out, to);
    mt_ref_store(out, to, how && !first ? combine(how, old, v, out->dtype) : v);
  }
}

int mt_ref_scatter(const mt_kargs *k) {
  scatter(k, NULL, true);
  return MT_OK;
}
int mt_ref_scatter_add(const mt_kargs *k) {
  scatter(k, "sum", true);
  return MT_OK;
}
int mt_ref_scatter_reduce(const mt_kargs *k) {
  scatter(k, k->arg[4].u.s, MT_KARG_INT(k, 5) != 0);
  return MT_OK;
}

static void index_dim(const mt_kargs *k, bool add, bool fill) {
  const mt_view *x = k->in[0], *index = k->in[1], *src = k->in[2], *out = k->out[0];
  int dim = (int)MT_KARG_INT(k, 1);
  mt_view shape = *x;
  shape.size[dim] = index->numel;
  shape.numel = 1;
  for (int d = 0; d < x->ndim; d++) shape.numel *= shape.size[d];
  copy(out, x);
  for (int64_t p = 0; p < shape.numel; p++) {
    int64_t at[MT_MAX_DIM];
    mt_ref_coords(&shape, p, at);
    at[dim] = where(k, index, at[dim], x->size[dim]);
    int64_t to = mt_ref_position(x, at);
    mt_num v = mt_ref_load(src, fill ? 0 : p), old = mt_ref_load(out, to);
    mt_ref_store(out, to, add ? combine("sum", old, v, out->dtype) : v);
  }
}

int mt_ref_index_add(const mt_kargs *k) {
  index_dim(k, true, false);
  return MT_OK;
}
int mt_ref_index_copy(const mt_kargs *k) {
  index_dim(k, false, false);
  return MT_OK;
}
int mt_ref_index_fill(const mt_kargs *k) {
  index_dim(k, false, true);
  return MT_OK;
}

int mt_ref_embedding_back(const mt_kargs *k) {
  const mt_view *g = k->in[0], *index = k->in[1], *out = k->out[0];
  int64_t width = out->size[1];
  copy(out, NULL);
  for (int64_t p = 0; p < g->numel; p++) {
    int64_t row = where(k, index, p / width, out->size[0]), to = row * width + p % width;
    if (row == MT_KARG_INT(k, 3)) continue;
    mt_ref_store(out, to, combine("sum", mt_ref_load(out, to), mt_ref_load(g, p), out->dtype));
  }
  return MT_OK;
}

int mt_ref_index_put(const mt_kargs *k) {
  int nindex = k->arg[1].n;
  const mt_view *values = k->in[1 + nindex], *out = k->out[0];
  mt_view shape = *values; /* tests give values of the full shape */
  copy(out, k->in[0]);
  for (int64_t p = 0; p < shape.numel; p++) {
    int64_t to = indexed(k, &shape, p, nindex, k->arg[3].u.ints);
    mt_num v = mt_ref_load(values, p), old = mt_ref_load(out, to);
    mt_ref_store(out, to, MT_KARG_INT(k, 4) ? combine("sum", old, v, out->dtype) : v);
  }
  return MT_OK;
}

int mt_ref_put(const mt_kargs *k) {
  const mt_view *out = k->out[0];
  copy(out, k->in[0]);
  for (int64_t p = 0; p < k->in[1]->numel; p++) {
    int64_t to = where(k, k->in[1], p, out->numel);
    mt_num v = mt_ref_load(k->in[2], p), old = mt_ref_load(out, to);
    mt_ref_store(out, to, MT_KARG_INT(k, 3) ? combine("sum", old, v, out->dtype) : v);
  }
  return MT_OK;
}

/* ---- masks and order ---- */

int mt_ref_nonzero(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  int64_t row = 0, at[MT_MAX_DIM];
  for (int64_t p = 0; p < x->numel; p++) {
    mt_num v = mt_ref_load(x, p);
    if (v.re == 0 && v.im == 0) continue;
    mt_ref_coords(x, p, at);
    for (int d = 0; d < x->ndim; d++) {
      mt_ref_store(k->out[0], row * x->ndim + d, (mt_num){(long double)(at[d] + k->index_base), 0});
    }
    row++;
  }
  return MT_OK;
}

int mt_ref_flip(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  int64_t at[MT_MAX_DIM];
  for (int64_t p = 0; p < x->numel; p++) {
    mt_ref_coords(x, p, at);
    for (int i = 0; i < k->arg[1].n; i++) {
      int d = (int)k->arg[1].u.ints[i];
      at[d] = x->size[d] - 1 - at[d];
    }
    mt_ref_store(k->out[0], p, mt_ref_load(x, mt_ref_position(x, at)));
  }
  return MT_OK;
}

int mt_ref_roll(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  int64_t at[MT_MAX_DIM];
  for (int64_t p = 0; p < x->numel; p++) {
    mt_ref_coords(x, p, at);
    for (int i = 0; i < k->arg[2].n; i++) {
      int d = (int)k->arg[2].u.ints[i];
      int64_t n = x->size[d];
      at[d] = ((at[d] - k->arg[1].u.ints[i]) % n + n) % n;
    }
    mt_ref_store(k->out[0], p, mt_ref_load(x, mt_ref_position(x, at)));
  }
  return MT_OK;
}

static int triangle(const mt_kargs *k, bool lower) {
  const mt_view *x = k->in[0];
  int64_t at[MT_MAX_DIM];
  for (int64_t p = 0; p < x->numel; p++) {
    mt_ref_coords(x, p, at);
    int64_t above = at[x->ndim - 1] - at[x->ndim - 2] - MT_KARG_INT(k, 1);
    bool keep = lower ? above <= 0 : above >= 0;
    mt_ref_store(k->out[0], p, keep ? mt_ref_load(x, p) : (mt_num){0, 0});
  }
  return MT_OK;
}

int mt_ref_tril(const mt_kargs *k) { return triangle(k, true); }
int mt_ref_triu(const mt_kargs *k) { return triangle(k, false); }
