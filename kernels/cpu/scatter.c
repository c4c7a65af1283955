/* scatter.c - writing at positions: scatter and its reductions, index_add/copy/fill, index_put,
 * put, the gradient of embedding, and sums over overlapping windows.
 *
 * Every one is: copy x to the result, then combine values into places given by checked byte offsets
 * (offsets.h, accumulate.h). Indices are checked before the result is touched, so an operation in
 * place that fails leaves its tensor unchanged. */
#include <math.h>
#include <string.h>

#include "accumulate.h"
#include "move.h"
#include "offsets.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

/* Scratch: offsets first, then the float32 copy of a half result. */
static size_t scratch_for(int64_t noffsets, const mt_view *out) {
  size_t a = mt_offsets_bytes(noffsets);
  return a == SIZE_MAX ? SIZE_MAX : (a + 63) / 64 * 64 + mt_accumulate_bytes(out);
}

static void *behind_offsets(const mt_kargs *k, int64_t noffsets) {
  return (char *)k->scratch + (mt_offsets_bytes(noffsets) + 63) / 64 * 64;
}

/* Stride in bytes of dim d of v among ndim dims; 0 where it broadcasts. */
static int64_t stride_of(const mt_view *v, int d, int ndim) {
  int e = d - (ndim - v->ndim);
  return e < 0 || v->size[e] == 1 ? 0 : v->stride[e] * bytes(v);
}

/* A number or 0-d tensor of any dtype as the bit pattern of an element of dtype d. */
static const void *scalar(const mt_kargs *k, const mt_view *v, int8_t dtype, uint64_t *bits) {
  mt_view one = {.data = (char *)bits, .numel = 1, .dtype = dtype, .contiguous = true};
  *bits = 0;
  mt_convert_view(k, &one, v);
  return bits;
}

/* ---- scatter(x, dim, index, src): the places of different lines along dim never meet ---- */

typedef struct place {
  const mt_view *index, *src; /* src NULL: `value` */
  const void *value;
  int dim;
} place;

static void plan(mt_scatter *s, const place *p, const mt_view *acc, const int64_t *offs,
                 mt_combine_fn fn) {
  const mt_view *index = p->index;
  int64_t inner = index->numel;
  mt_walk_begin(&s->line, 3);
  mt_walk_begin(&s->other, 3);
  for (int d = 0; d < index->ndim; d++) {
    int64_t src = p->src ? p->src->stride[d] * bytes(p->src) : 0;
    inner /= index->size[d];
    mt_walk_dim(d == p->dim ? &s->line : &s->other, index->size[d],
                (const int64_t[]){d == p->dim ? 0 : acc->stride[d] * bytes(acc), inner * 8, src});
  }
  mt_walk_end(&s->line);
  mt_walk_end(&s->other);
  s->dst = acc->data;
  s->offs = offs;
  s->src = p->src ? p->src->data : p->value;
  s->fn = fn;
}

/* Bytes between positions along dim in what is accumulated to. */
static int64_t acc_step(const mt_view *out, int dim) {
  if (out->ndim == 0) return 0;
  if (out->dtype != MT_F16 && out->dtype != MT_BF16) return out->stride[dim] * bytes(out);
  int64_t step = 4;
  for (int d = out->ndim - 1; d > dim; d--) step *= out->size[d];
  return step;
}

/* The whole of scatter: check, copy, combine, copy back. For MT_COMBINE_SET no float32 copy is
 * needed. `identity` (may be NULL): what each place is set to first. */
static int scatter(const mt_kargs *k, place *p, mt_combine how, const uint64_t *identity) {
  const mt_view *x = k->in[0], *out = k->out[0], *index = p->index;
  mt_combine_fn fn = mt_combine_find(how, (mt_dtype)out->dtype);
  int64_t *offs = k->scratch, limit = x->ndim ? x->size[p->dim] : 1;
  bool set = how == MT_COMBINE_SET;
  mt_scatter s;
  if (!fn) return MT_NOKERNEL;
  int64_t step = !set ? acc_step(out, p->dim) : out->ndim ? out->stride[p->dim] * bytes(out) : 0;
  int status = mt_offsets_own(k, 1, limit, step, offs);
  if (status != MT_OK) return status;
  mt_view acc = *out;
  if (set) {
    if (x->data != out->data) mt_move_copy(k->par, out, x);
  } else {
    acc = mt_accumulate_begin(k, x, out, behind_offsets(k, index->numel));
  }
  if (identity && index->numel) {
    place first = {.index = index, .value = identity, .dim = p->dim};
    plan(&s, &first, &acc, offs, mt_combine_find(MT_COMBINE_SET, (mt_dtype)acc.dtype));
    mt_scatter_run(k->par, &s);
  }
  if (index->numel) {
    plan(&s, p, &acc, offs, fn);
    mt_scatter_run(k->par, &s);
  }
  return set ? MT_OK : mt_accumulate_end(k, &acc, out);
}

/* scatter(x, dim, index, operand src): src a tensor of x's dtype, at least of index's shape, or a
 * number */
int mt_cpu_scatter(const mt_kargs *k) {
  const mt_view *src = k->in[2];
  place p = {.index = k->in[1], .dim = (int)MT_KARG_INT(k, 1)};
  uint64_t bits;
  if (src->ndim == 0 && k->in[0]->ndim > 0) {
    p.value = scalar(k, src, k->out[0]->dtype, &bits);
  } else {
    p.src = src;
  }
  return scatter(k, &p, MT_COMBINE_SET, NULL);
}

size_t mt_cpu_scatter_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[1]->numel); }

int mt_cpu_scatter_add(const mt_kargs *k) {
  place p = {.index = k->in[1], .src = k->in[2], .dim = (int)MT_KARG_INT(k, 1)};
  return scatter(k, &p, MT_COMBINE_ADD, NULL);
}

size_t mt_cpu_scatter_add_scratch(const mt_kargs *k) {
  return scratch_for(k->in[1]->numel, k->out[0]);
}

/* The bit pattern that a reduction to dtype d starts from. */
static uint64_t identity_of(mt_combine how, mt_dtype d) {
  static const int bits[MT_NDTYPES] = {[MT_I64] = 64, [MT_I32] = 32, [MT_I16] = 16, [MT_I8] = 8};
  union {
    double f;
    float s;
    int64_t i;
    uint64_t u;
  } x = {.u = 0};
  bool max = how == MT_COMBINE_MAX, limit = max || how == MT_COMBINE_MIN;
  double f = limit ? (max ? -(double)INFINITY : (double)INFINITY) : how == MT_COMBINE_MUL;
  if (d == MT_F64) {
    x.f = f;
  } else if (mt_dtype_is_float(d) || d == MT_C64) {
    x.s = (float)f;
  } else if (!limit) {
    x.i = how == MT_COMBINE_MUL;
  } else if (d == MT_U8 || d == MT_BOOL) {
    x.i = max ? 0 : d == MT_U8 ? 255 : 1;
  } else {
    x.i = (int64_t)(UINT64_MAX >> (65 - bits[d]));
    if (max) x.i = -x.i - 1;
  }
  return x.u;
}

/* scatter_reduce(x, dim, index, src, reduce, include_self): sum, prod, amax, amin */
int mt_cpu_scatter_reduce(const mt_kargs *k) {
  place p = {.index = k->in[1], .src = k->in[2], .dim = (int)MT_KARG_INT(k, 1)};
  const char *name = k->arg[4].u.s;
  mt_combine how = strcmp(name, "sum") == 0    ? MT_COMBINE_ADD
                   : strcmp(name, "prod") == 0 ? MT_COMBINE_MUL
                   : strcmp(name, "amax") == 0 ? MT_COMBINE_MAX
                                               : MT_COMBINE_MIN;
  uint64_t start = identity_of(how, (mt_dtype)k->out[0]->dtype);
  return scatter(k, &p, how, MT_KARG_INT(k, 5) ? NULL : &start);
}

size_t mt_cpu_scatter_reduce_scratch(const mt_kargs *k) { return mt_cpu_scatter_add_scratch(k); }

/* ---- index_add, index_copy, index_fill: a 1-d index along one dim ---- */

/* The index seen as one of the source's shape: zero strides along the other dims. */
static int along_dim(const mt_kargs *k, const mt_view *src, const void *value, mt_combine how) {
  const mt_view *x = k->in[0], *index = k->in[1], *out = k->out[0];
  int dim = (int)MT_KARG_INT(k, 1);
  int64_t *offs = k->scratch, limit = x->ndim ? x->size[dim] : 1;
  bool set = how == MT_COMBINE_SET;
  mt_scatter s = {.offs = offs, .fn = mt_combine_find(how, (mt_dtype)out->dtype)};
  if (!s.fn) return MT_NOKERNEL;
  int64_t step = !set ? acc_step(out, dim) : out->ndim ? out->stride[dim] * bytes(out) : 0;
  int status = mt_offsets_own(k, 1, limit, step, offs);
  if (status != MT_OK) return status;
  mt_view acc = *out;
  if (set && x->data != out->data) mt_move_copy(k->par, out, x);
  if (!set) acc = mt_accumulate_begin(k, x, out, behind_offsets(k, index->numel));
  mt_walk_begin(&s.line, 3);
  mt_walk_begin(&s.other, 3);
  for (int d = 0; d < x->ndim; d++) {
    int64_t from = src && src->ndim == x->ndim ? src->stride[d] * bytes(src) : 0;
    if (d == dim) continue;
    mt_walk_dim(&s.other, x->size[d], (const int64_t[]){acc.stride[d] * bytes(&acc), 0, from});
  }
  int64_t from = src && src->ndim > 0 ? src->stride[dim] * bytes(src) : 0;
  mt_walk_dim(&s.line, index->numel, (const int64_t[]){0, 8, from});
  mt_walk_end(&s.line);
  mt_walk_end(&s.other);
  s.dst = acc.data;
  s.src = src ? src->data : value;
  mt_scatter_run(k->par, &s);
  return set ? MT_OK : mt_accumulate_end(k, &acc, out);
}

int mt_cpu_index_add(const mt_kargs *k) { return along_dim(k, k->in[2], NULL, MT_COMBINE_ADD); }

size_t mt_cpu_index_add_scratch(const mt_kargs *k) { return mt_cpu_scatter_add_scratch(k); }

int mt_cpu_index_copy(const mt_kargs *k) { return along_dim(k, k->in[2], NULL, MT_COMBINE_SET); }

size_t mt_cpu_index_copy_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[1]->numel); }

/* index_fill(x, dim, index, operand value) */
int mt_cpu_index_fill(const mt_kargs *k) {
  uint64_t bits;
  return along_dim(k, NULL, scalar(k, k->in[2], k->out[0]->dtype, &bits), MT_COMBINE_SET);
}

size_t mt_cpu_index_fill_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[1]->numel); }

/* embedding_back(g, index, int rows, int padding): padding < 0: none. The gradient of the rows. */
int mt_cpu_embedding_back(const mt_kargs *k) {
  const mt_view *g = k->in[0], *index = k->in[1], *out = k->out[0];
  int64_t *offs = k->scratch, padding = MT_KARG_INT(k, 3), width = out->size[1];
  int status = mt_offsets_own(k, 1, out->size[0], acc_step(out, 0), offs);
  if (status != MT_OK) return status;
  mt_view acc = mt_accumulate_begin(k, NULL, out, behind_offsets(k, index->numel));
  mt_scatter s = {.dst = acc.data,
                  .offs = offs,
                  .src = g->data,
                  .fn = mt_combine_find(MT_COMBINE_ADD, (mt_dtype)out->dtype)};
  int64_t inner = index->numel;
  mt_walk_begin(&s.line, 3);
  for (int d = 0; d < index->ndim && inner > 0; d++) {
    inner /= index->size[d];
    mt_walk_dim(&s.line, index->size[d], (const int64_t[]){0, inner * 8, g->stride[d] * bytes(g)});
  }
  mt_walk_end(&s.line);
  mt_walk_begin(&s.other, 3);
  mt_walk_dim(&s.other, width,
              (const int64_t[]){acc.stride[1] * bytes(&acc), 0, g->stride[g->ndim - 1] * bytes(g)});
  mt_walk_end(&s.other);
  if (index->numel) mt_scatter_run(k->par, &s);
  if (padding >= 0 && padding < out->size[0]) {
    mt_view row = {.data = acc.data + padding * acc.stride[0] * bytes(&acc),
                   .size = {width},
                   .stride = {acc.stride[1]},
                   .numel = width,
                   .ndim = 1,
                   .dtype = acc.dtype};
    mt_move_fill(k->par, &row, &(const uint64_t){0});
  }
  return mt_accumulate_end(k, &acc, out);
}

size_t mt_cpu_embedding_back_scratch(const mt_kargs *k) {
  return scratch_for(k->in[1]->numel, k->out[0]);
}

/* ---- x[i, j, ..] = v ---- */

/* What is put: for a different dtype a converted copy in scratch. */
static int put_values(const mt_kargs *k, const mt_view *v, int8_t dtype, void *room, mt_view *as) {
  int64_t step = 1;
  *as = *v;
  if (v->dtype == dtype) return MT_OK;
  as->data = room;
  as->dtype = dtype;
  as->contiguous = true;
  for (int d = v->ndim - 1; d >= 0; d--) {
    as->stride[d] = step;
    step *= v->size[d];
  }
  return mt_convert_view(k, as, v);
}

/* Bytes of scratch for offsets and a float32 copy, up to where put_values may begin. */
static size_t before_values(const mt_kargs *k, const mt_index_plan *p) {
  size_t n = scratch_for(p->numel + 1, k->out[0]);
  return n == SIZE_MAX ? n : (n + 63) / 64 * 64;
}

static void put_plan(mt_scatter *s, const mt_index_plan *p, const mt_view *acc,
                     const mt_view *values) {
  int rd = 0, nd = p->ndim + p->nfree;
  mt_walk_begin(&s->line, 3);
  mt_walk_begin(&s->other, 3);
  for (int i = 0; i <= p->nfree; i++) {
    int64_t inner = p->numel;
    for (int e = 0; i == p->at && e < p->ndim; e++, rd++) {
      inner /= p->size[e];
      mt_walk_dim(&s->line, p->size[e], (const int64_t[]){0, inner * 8, stride_of(values, rd, nd)});
    }
    if (i == p->nfree) break;
    int d = p->free[i];
    mt_walk_dim(&s->other, acc->size[d],
                (const int64_t[]){acc->stride[d] * bytes(acc), 0, stride_of(values, rd++, nd)});
  }
  mt_walk_end(&s->line);
  mt_walk_end(&s->other);
  s->dst = acc->data;
  s->src = values->data;
}

/* index_put(x, indices, operand values, dims, accumulate): values of any dtype broadcast to the
 * shape that index(x, indices, dims) has. */
int mt_cpu_index_put(const mt_kargs *k) {
  const mt_view *x = k->in[0], *out = k->out[0];
  int nindex = mt_karg_len(k, 1);
  mt_combine how = MT_KARG_INT(k, 4) ? MT_COMBINE_ADD : MT_COMBINE_SET;
  mt_index_plan p;
  mt_view values, acc = *out;
  mt_scatter s = {.offs = k->scratch, .fn = mt_combine_find(how, (mt_dtype)out->dtype)};
  mt_index_plan_make(&p, k, nindex, k->arg[3].u.ints);
  if (how == MT_COMBINE_ADD && mt_accumulate_bytes(out)) { /* offsets in the float32 copy */
    acc.dtype = MT_F32;
    for (int d = acc.ndim - 1; d >= 0; d--) acc.stride[d] = acc_step(out, d) / 4;
  }
  int status = mt_index_plan_offsets(&p, k, &acc, k->scratch);
  if (status == MT_OK) {
    status = put_values(k, k->in[1 + nindex], out->dtype, (char *)k->scratch + before_values(k, &p),
                        &values);
  }
  if (status != MT_OK) return status;
  if (how == MT_COMBINE_ADD) {
    acc = mt_accumulate_begin(k, x, out, behind_offsets(k, p.numel + 1));
  } else if (x->data != out->data) {
    mt_move_copy(k->par, out, x);
  }
  if (p.numel) {
    put_plan(&s, &p, &acc, &values);
    mt_scatter_run(k->par, &s);
  }
  return how == MT_COMBINE_ADD ? mt_accumulate_end(k, &acc, out) : MT_OK;
}

size_t mt_cpu_index_put_scratch(const mt_kargs *k) {
  mt_index_plan p;
  mt_index_plan_make(&p, k, mt_karg_len(k, 1), k->arg[3].u.ints);
  const mt_view *v = k->in[1 + p.nindex];
  size_t n = before_values(k, &p);
  if (n == SIZE_MAX || v->dtype == k->out[0]->dtype) return n;
  return n + (size_t)v->numel * (size_t)bytes(k->out[0]);
}

/* put(x, index, source, accumulate): positions in x flattened */
int mt_cpu_put(const mt_kargs *k) {
  const mt_view *x = k->in[0], *index = k->in[1], *src = k->in[2], *out = k->out[0];
  bool add = MT_KARG_INT(k, 3) != 0;
  mt_scatter s = {
      .offs = k->scratch,
      .fn = mt_combine_find(add ? MT_COMBINE_ADD : MT_COMBINE_SET, (mt_dtype)out->dtype)};
  mt_view flat = *out;
  if (add && mt_accumulate_bytes(out)) flat = (mt_view){.dtype = MT_F32, .contiguous = true};
  mt_offsets o = {.input = 1,
                  .ndim = index->ndim,
                  .size = index->size,
                  .limit = x->numel,
                  .flat = &flat,
                  .wrap = true};
  int status = mt_offsets_fill(k, &o, k->scratch);
  if (status != MT_OK) return status;
  mt_view acc = *out;
  if (!add && x->data != out->data) mt_move_copy(k->par, out, x);
  if (add) acc = mt_accumulate_begin(k, x, out, behind_offsets(k, index->numel));
  int64_t inner = index->numel;
  mt_walk_begin(&s.line, 3);
  mt_walk_begin(&s.other, 3);
  for (int d = 0; d < index->ndim && inner > 0; d++) { /* source has the shape of the index */
    inner /= index->size[d];
    mt_walk_dim(&s.line, index->size[d],
                (const int64_t[]){0, inner * 8, stride_of(src, d, index->ndim)});
  }
  mt_walk_end(&s.line);
  mt_walk_end(&s.other);
  s.dst = acc.data;
  s.src = src->data;
  if (index->numel) mt_scatter_run(k->par, &s);
  return add ? mt_accumulate_end(k, &acc, out) : MT_OK;
}

size_t mt_cpu_put_scratch(const mt_kargs *k) { return scratch_for(k->in[1]->numel, k->out[0]); }

/* ---- sums over overlaps ---- */

/* as_strided_back(g, int[] stride, int offset, int n): out is flat with n elements; each element of
 * g is added where as_strided with these strides read it. */
int mt_cpu_as_strided_back(const mt_kargs *k) {
  const mt_view *g = k->in[0], *out = k->out[0];
  const int64_t *stride = k->arg[1].u.ints, zero = 0;
  mt_combine_fn fn = mt_combine_find(MT_COMBINE_ADD, (mt_dtype)out->dtype);
  mt_view acc = mt_accumulate_begin(k, NULL, out, k->scratch);
  mt_walk w;
  mt_cursor c;
  mt_walk_begin(&w, 2);
  for (int d = 0; d < g->ndim; d++) {
    mt_walk_dim(
        &w, g->size[d],
        (const int64_t[]){stride[d] * acc.stride[0] * bytes(&acc), g->stride[d] * bytes(g)});
  }
  mt_walk_end(&w);
  mt_cursor_seek(&w, &c, 0, w.numel);
  char *first = acc.data + MT_KARG_INT(k, 2) * acc.stride[0] * bytes(&acc);
  while (mt_cursor_next(&w, &c)) {
    fn(first + c.off[0], w.step[0], (const char *)&zero, 0, g->data + c.off[1], w.step[1], c.n);
  }
  return mt_accumulate_end(k, &acc, out);
}

size_t mt_cpu_as_strided_back_scratch(const mt_kargs *k) { return mt_accumulate_bytes(k->out[0]); }

/* bincount(index, tensor? weights, int n): out[n] counts, or sums weights of out's dtype */
int mt_cpu_bincount(const mt_kargs *k) {
  const mt_view *index = k->in[0], *weights = k->nin > 1 ? k->in[1] : NULL, *out = k->out[0];
  const int64_t one = 1;
  int status = mt_offsets_own(k, 0, out->numel, acc_step(out, 0), k->scratch);
  if (status != MT_OK) return status;
  mt_view acc = mt_accumulate_begin(k, NULL, out, behind_offsets(k, index->numel));
  mt_combine_fn fn = mt_combine_find(MT_COMBINE_ADD, (mt_dtype)out->dtype);
  fn(acc.data, 0, k->scratch, 8, weights ? weights->data : (const char *)&one,
     weights ? weights->stride[0] * bytes(weights) : 0, index->numel);
  return mt_accumulate_end(k, &acc, out);
}

size_t mt_cpu_bincount_scratch(const mt_kargs *k) {
  return scratch_for(k->in[0]->numel, k->out[0]);
}
