/* index.c - reading at positions: gather, index_select, take, advanced indexing, embedding.
 *
 * All of them are one loop: out[i] = *(x + offset[i]), walked over the shape of the result with x's
 * stride set to zero along the dims that the offsets address. Where the offset is constant along a
 * row and the row is contiguous, that loop is a memcpy, so selecting rows of a matrix needs no code
 * of its own. */
#include "move.h"
#include "offsets.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

/* gather(x, dim, index): index has x's number of dims and may be smaller along the others. */
int mt_cpu_gather(const mt_kargs *k) {
  const mt_view *x = k->in[0], *index = k->in[1], *out = k->out[0];
  int dim = (int)MT_KARG_INT(k, 1);
  int64_t *offs = k->scratch;
  mt_walk w;
  if (index->numel == 0) return MT_OK;
  int64_t limit = x->ndim ? x->size[dim] : 1, step = x->ndim ? x->stride[dim] * bytes(x) : 0;
  int status = mt_offsets_own(k, 1, limit, step, offs);
  if (status != MT_OK) return status;
  mt_walk_begin(&w, 3);
  int64_t inner = index->numel;
  for (int d = 0; d < index->ndim; d++) {
    inner /= index->size[d];
    int64_t along = d == dim || x->ndim == 0 ? 0 : x->stride[d] * bytes(x);
    mt_walk_dim(&w, index->size[d],
                (const int64_t[]){out->stride[d] * bytes(out), inner * 8, along});
  }
  mt_walk_end(&w);
  mt_move_gather(k->par, &w, (int)bytes(x), out->data, offs, x->data);
  return MT_OK;
}

size_t mt_cpu_gather_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[1]->numel); }

/* out[.., i.., ..] = x[.., at(i..), ..] where the dims of `index` replace dim `dim` of x. */
static int select_rows(const mt_kargs *k, const mt_view *x, int index_input, int dim) {
  const mt_view *index = k->in[index_input], *out = k->out[0];
  int64_t *offs = k->scratch;
  mt_walk w;
  int64_t limit = x->ndim ? x->size[dim] : 1, step = x->ndim ? x->stride[dim] * bytes(x) : 0;
  int status = mt_offsets_own(k, index_input, limit, step, offs);
  if (status != MT_OK || out->numel == 0) return status;
  int scalar = x->ndim == 0; /* a 0-d tensor is selected from as one of size 1 */
  mt_walk_begin(&w, 3);
  int od = 0;
  for (int d = 0; d < x->ndim + scalar; d++) {
    if (d != dim) {
      mt_walk_dim(&w, x->size[d],
                  (const int64_t[]){out->stride[od] * bytes(out), 0, x->stride[d] * bytes(x)});
      od++;
      continue;
    }
    int64_t inner = index->numel;
    for (int e = 0; e < index->ndim && od < out->ndim; e++, od++) {
      inner /= index->size[e];
      mt_walk_dim(&w, index->size[e],
                  (const int64_t[]){out->stride[od] * bytes(out), inner * 8, 0});
    }
  }
  mt_walk_end(&w);
  mt_move_gather(k->par, &w, (int)bytes(x), out->data, offs, x->data);
  return MT_OK;
}

/* index_select(x, dim, index), index 1-d or 0-d */
int mt_cpu_index_select(const mt_kargs *k) {
  const mt_view *x = k->in[0], *index = k->in[1], *out = k->out[0];
  if (index->ndim == 0 && x->ndim == out->ndim && x->ndim > 0) { /* the dim stays, with size 1 */
    mt_view one = *index;
    one.ndim = 1;
    one.size[0] = 1;
    one.stride[0] = 1;
    const mt_view *in[2] = {x, &one};
    mt_kargs sub = *k;
    sub.in = in;
    return select_rows(&sub, x, 1, (int)MT_KARG_INT(k, 1));
  }
  return select_rows(k, x, 1, (int)MT_KARG_INT(k, 1));
}

size_t mt_cpu_index_select_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[1]->numel); }

/* embedding(index, weight): rows of weight */
int mt_cpu_embedding(const mt_kargs *k) { return select_rows(k, k->in[1], 0, 0); }

size_t mt_cpu_embedding_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[0]->numel); }

/* take(x, index): positions in x flattened, negative ones from the end */
int mt_cpu_take(const mt_kargs *k) {
  const mt_view *x = k->in[0], *index = k->in[1], *out = k->out[0];
  int64_t *offs = k->scratch;
  mt_walk w;
  mt_offsets o = {.input = 1,
                  .ndim = index->ndim,
                  .size = index->size,
                  .limit = x->numel,
                  .flat = x,
                  .wrap = true};
  int status = mt_offsets_fill(k, &o, offs);
  if (status != MT_OK) return status;
  mt_walk_begin(&w, 3);
  int64_t inner = index->numel;
  for (int d = 0; d < out->ndim && inner > 0; d++) {
    inner /= out->size[d];
    mt_walk_dim(&w, out->size[d], (const int64_t[]){out->stride[d] * bytes(out), inner * 8, 0});
  }
  mt_walk_end(&w);
  if (out->numel) mt_move_gather(k->par, &w, (int)bytes(x), out->data, offs, x->data);
  return MT_OK;
}

size_t mt_cpu_take_scratch(const mt_kargs *k) { return mt_offsets_bytes(k->in[1]->numel); }

/* ---- x[i, j, ..]: several index tensors, broadcast together ---- */

void mt_index_plan_make(mt_index_plan *p, const mt_kargs *k, int nindex, const int64_t *dims) {
  const mt_view *x = k->in[0];
  bool together = true;
  *p = (mt_index_plan){.nindex = nindex, .dims = dims, .numel = 1};
  for (int i = 0; i < nindex; i++) {
    if (k->in[1 + i]->ndim > p->ndim) p->ndim = k->in[1 + i]->ndim;
    if (i > 0 && dims[i] != dims[i - 1] + 1) together = false;
  }
  for (int d = 0; d < p->ndim; d++) {
    p->size[d] = 1;
    for (int i = 0; i < nindex; i++) {
      const mt_view *v = k->in[1 + i];
      int e = d - (p->ndim - v->ndim);
      if (e >= 0 && v->size[e] != 1) p->size[d] = v->size[e];
    }
    p->numel *= p->size[d];
  }
  for (int d = 0, i = 0; d < x->ndim; d++) {
    if (i < nindex && dims[i] == d) {
      i++;
    } else {
      p->free[p->nfree++] = d;
    }
  }
  p->at = together && nindex ? (int)dims[0] : 0;
}

int mt_index_plan_offsets(const mt_index_plan *p, const mt_kargs *k, const mt_view *x,
                          int64_t *offs) {
  if (p->nindex == 0) offs[0] = 0;
  for (int i = 0; i < p->nindex; i++) {
    int d = (int)p->dims[i];
    mt_offsets o = {.input = 1 + i,
                    .ndim = p->ndim,
                    .size = p->size,
                    .limit = x->size[d],
                    .step = x->stride[d] * bytes(x),
                    .wrap = true,
                    .add = i > 0};
    int status = mt_offsets_fill(k, &o, offs);
    if (status != MT_OK) return status;
  }
  return MT_OK;
}

/* index(x, indices, dims): dims ascending. Where the indexed dims are neighbours the broadcast
 * shape takes their place, otherwise it comes first. */
int mt_cpu_index(const mt_kargs *k) {
  const mt_view *x = k->in[0], *out = k->out[0];
  mt_index_plan p;
  mt_walk w;
  mt_index_plan_make(&p, k, mt_karg_len(k, 1), k->arg[2].u.ints);
  int status = mt_index_plan_offsets(&p, k, x, k->scratch);
  if (status != MT_OK || out->numel == 0) return status;
  mt_walk_begin(&w, 3);
  for (int i = 0, od = 0; i <= p.nfree; i++) {
    int64_t inner = p.numel;
    for (int e = 0; i == p.at && e < p.ndim; e++, od++) {
      inner /= p.size[e];
      mt_walk_dim(&w, p.size[e], (const int64_t[]){out->stride[od] * bytes(out), inner * 8, 0});
    }
    if (i == p.nfree) break;
    int d = p.free[i];
    mt_walk_dim(&w, x->size[d],
                (const int64_t[]){out->stride[od] * bytes(out), 0, x->stride[d] * bytes(x)});
    od++;
  }
  mt_walk_end(&w);
  mt_move_gather(k->par, &w, (int)bytes(x), out->data, k->scratch, x->data);
  return MT_OK;
}

size_t mt_cpu_index_scratch(const mt_kargs *k) {
  mt_index_plan p;
  mt_index_plan_make(&p, k, mt_karg_len(k, 1), k->arg[2].u.ints);
  return mt_offsets_bytes(p.numel + 1);
}
