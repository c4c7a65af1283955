/* invoke.c - the one path of every operation; see invoke.h.
 *
 * Order: arguments, types, shape, results, node, kernel, graph. Whatever can fail comes before the
 * kernel; after it only counters change. */
#include "invoke.h"

#include <string.h>

#include "args.h"
#include "shape.h"
#include "tape.h"
#include "types.h"

/* ---- results ---- */

void mt_results_free(mt_results *r) {
  moth_tensor **t = mt_results_all(r);
  for (int i = 0; i < r->n; i++) mt_tensor_release(t[i]);
  mt_results_taken(r);
}

void mt_results_taken(mt_results *r) {
  if (r->list) mt_record_free(&r->rt->alloc, r->list, (size_t)r->n * sizeof *r->list);
  r->list = NULL;
  r->n = 0;
}

/* ---- shapes ---- */

/* Elementwise results keep the layout of their inputs when all of the result's shape agree. */
static void keep_layout(mt_call *c) {
  mt_spec *s = &c->out[0];
  const mt_view *like = NULL;
  bool all_contiguous = true;
  for (int i = 0; i < c->nin; i++) {
    const mt_view *v = c->inv[i];
    if (!v || v->numel == 1) continue;
    all_contiguous &= v->contiguous;
    if (v->ndim != s->ndim || memcmp(v->size, s->size, sizeof(int64_t) * (size_t)s->ndim) != 0)
      continue;
    if (!like) like = v;
    else if (memcmp(v->stride, like->stride, sizeof(int64_t) * (size_t)s->ndim) != 0) return;
  }
  if (all_contiguous || !like || !mt_shape_is_dense(like->ndim, like->size, like->stride)) return;
  s->strided = true;
  memcpy(s->stride, like->stride, sizeof(int64_t) * (size_t)s->ndim);
}

/* Two tensors of one shape, both contiguous: by far the most common case. */
static bool same_shape(const mt_call *c) {
  const mt_view *a = c->inv[0];
  if (!a || !a->contiguous) return false;
  for (int i = 1; i < c->nin; i++) {
    const mt_view *b = c->inv[i];
    if (!b || (b->ndim == 0 && b->contiguous)) continue;
    if (!b->contiguous || !mt_shape_equal(a, b)) return false;
  }
  return true;
}

int mt_shape_elementwise(mt_call *c) {
  if (MT_LIKELY(same_shape(c))) {
    mt_spec_like(&c->out[0], c->inv[0]);
    return MT_OK;
  }
  int status = mt_shape_broadcast(c->rt, &c->out[0], c->nin, c->inv);
  if (!status) keep_layout(c);
  return status;
}

static int describe(mt_call *c) {
  const mt_op *row = c->op->row;
  for (int i = 0; i < c->nout; i++) {
    c->out[i].strided = false;
    c->out[i].offset = 0;
  }
  int status = mt_types_apply(c);
  if (status) return status;
  if (row->shape) return row->shape(c);
  return row->view ? MT_OK : mt_shape_elementwise(c);
}

/* ---- kernels ---- */

static int index_error(const mt_call *c, const mt_kerror *e) {
  int input = e->input, j = 0;
  for (j = 0; j < c->op->narg - 1; j++)
    if (c->op->arg[j].in == input) break;
  if (e->last < e->first)
    return mt_fail(c->rt, MT_BADINDEX, "argument '%s': index %lld in an empty range",
                   c->op->arg[j].name, (long long)e->value);
  return mt_fail(
      c->rt, MT_BADINDEX,
      "argument '%s': index %lld at position %lld is out of range (expected %lld..%lld)%s",
      c->op->arg[j].name, (long long)e->value, (long long)(e->position + c->index_base),
      (long long)e->first, (long long)e->last,
      e->value == 0 && c->index_base ? "; indices start at 1" : "");
}

static int kernel_failed(const mt_call *c, int status, const mt_kerror *e) {
  moth_runtime *rt = c->rt;
  switch (status) {
    case MT_BADINDEX:
      return index_error(c, e);
    case MT_NOKERNEL:
      return mt_fail(rt, MT_NOKERNEL, "not implemented on cpu for %s", mt_dtypes[c->common].name);
    case MT_INTERRUPTED:
      return mt_fail(rt, MT_INTERRUPTED, "interrupted");
    case MT_NOMEM:
      return mt_fail(rt, MT_NOMEM, "out of memory for scratch space");
    default:
      if (c->op->row->ew)
        return mt_fail(rt, MT_ERROR, "integer division by zero");
      return mt_fail(rt, MT_ERROR, "%s", c->op->row->flags & MT_RANDOM
                                             ? "the values given do not describe probabilities"
                                             : "invalid values");
  }
}

/* How many counters a random operation uses up: every kernel draws at most four words an element,
 * and one counter gives four. */
static uint64_t draws(const mt_call *c, const mt_view *const *out) {
  uint64_t n = 0;
  for (int i = 0; i < c->nout; i++)
    if (out[i] && out[i]->numel > (int64_t)n) n = (uint64_t)out[i]->numel;
  for (int i = 0; i < c->nin; i++)
    if (c->inv[i] && c->inv[i]->numel > (int64_t)n) n = (uint64_t)c->inv[i]->numel;
  return n + 4;
}

static int run_kernel(const mt_call *c, const mt_view *const *in, const mt_view *const *out) {
  moth_runtime *rt = c->rt;
  const mt_op *row = c->op->row;
  mt_kerror e = {0, 0, 0, 0, 0};
  mt_kargs k = {.in = in,
                .out = out,
                .arg = c->arg,
                .nin = c->nin,
                .nout = c->nout,
                .narg = c->narg,
                .index_base = c->index_base,
                .compute = c->compute,
                .ew = row->ew,
                .seed = rt->seed,
                .offset = rt->offset,
                .par = &rt->par,
                .isa = rt->isa,
                .error = &e};
  if (MT_UNLIKELY(rt->interrupted)) return kernel_failed(c, MT_INTERRUPTED, &e);
  if (row->scratch) {
    k.scratch_size = row->scratch(&k);
    if (k.scratch_size) {
      if (k.scratch_size < SIZE_MAX / 2) k.scratch = mt_runtime_scratch(rt, k.scratch_size);
      if (!k.scratch) return kernel_failed(c, MT_NOMEM, &e);
    }
  }
  if (row->flags & MT_RANDOM) rt->offset += draws(c, out);
  int status = row->cpu(&k);
  if (MT_LIKELY(status == MT_OK)) {
    if (MT_UNLIKELY(rt->interrupted)) return kernel_failed(c, MT_INTERRUPTED, &e);
    return MT_OK;
  }
  return kernel_failed(c, status, &e);
}

/* ---- inputs that a kernel cannot take as they are ---- */

/* Copies `src` to a new tensor of that dtype, outside of any graph. */
static int converted(moth_tensor **out, moth_runtime *rt, const mt_view *src, mt_dtype dtype) {
  int status = mt_tensor_new(out, rt, dtype, src->ndim, src->size, NULL);
  if (status) return status;
  const mt_view *in[1] = {src}, *res[1] = {&(*out)->v};
  mt_kargs k = {.in = in, .out = res, .nin = 1, .nout = 1, .par = &rt->par, .isa = rt->isa};
  status = mt_cpu_copy(&k);
  if (status) {
    mt_tensor_release(*out);
    return mt_fail(rt, status, "cannot convert %s to %s", mt_dtypes[src->dtype].name,
                   mt_dtypes[dtype].name);
  }
  return MT_OK;
}

typedef struct casts {
  int n;
  moth_tensor *t[MT_INLINE_INPUTS];
  const mt_view *in[MT_INLINE_INPUTS];
} casts;

static void casts_free(casts *s) {
  for (int i = 0; i < s->n; i++) mt_tensor_release(s->t[i]);
  s->n = 0;
}

/* Kernels other than elementwise ones get promoted operands, and a dtype argument applied. */
static bool needs_cast(const mt_call *c, int i) {
  const mt_op *row = c->op->row;
  const mt_view *v = c->inv[i];
  if (!v || row->ew || i >= MT_INLINE_INPUTS) return false;
  if (row->types.rule == MT_PROMOTE || row->types.rule == MT_PROMOTE_FLOAT)
    return v->dtype != c->common;
  return i == 0 && c->op->dtype_arg >= 0 && c->arg[c->op->dtype_arg].kind == MT_INT &&
         row->types.result != MT_IS_BOOL && v->dtype != c->out[0].dtype &&
         row->types.rule == MT_FIRST;
}

static int cast_inputs(const mt_call *c, casts *s, const mt_view *const **in) {
  s->n = 0;
  bool any = false;
  for (int i = 0; i < c->nin; i++) any |= needs_cast(c, i);
  if (MT_LIKELY(!any)) return MT_OK;
  for (int i = 0; i < c->nin && i < MT_INLINE_INPUTS; i++) {
    s->in[i] = c->inv[i];
    if (!needs_cast(c, i)) continue;
    mt_dtype to = c->op->row->types.rule == MT_FIRST ? c->out[0].dtype : c->common;
    int status = converted(&s->t[s->n], c->rt, c->inv[i], to);
    if (status) {
      casts_free(s);
      return status;
    }
    s->in[i] = &s->t[s->n++]->v;
  }
  *in = s->in;
  return MT_OK;
}

/* ---- the three kinds of row ---- */

static void bump_mutated(const mt_call *c) {
  uint32_t m = c->op->row->mutates;
  if (!m) return;
  if (c->op->has_list) { /* optimiser steps: all lists that the mask names */
    int at = 0;
    for (int j = 0; j < c->narg; j++) {
      if (c->op->arg[j].in < 0) continue;
      int n = c->arg[j].kind == MT_TENSORS ? c->arg[j].n : 1;
      for (int i = 0; i < n; i++, at++)
        if ((m >> c->op->arg[j].in & 1) && c->in[at]) c->in[at]->storage->version++;
    }
    return;
  }
  for (int i = 0; i < c->nin; i++)
    if ((m >> i & 1) && c->in[i]) c->in[i]->storage->version++;
}

static int results_new(const mt_call *c, mt_results *out) {
  for (int i = 0; i < c->nout; i++) {
    const mt_spec *s = &c->out[i];
    int status = mt_tensor_new(&out->t[i], c->rt, s->dtype, s->ndim, s->size,
                               s->strided ? s->stride : NULL);
    if (status) {
      mt_results_free(out);
      return status;
    }
    out->n++;
  }
  return MT_OK;
}

static int invoke_kernel(mt_call *c, mt_results *out) {
  mt_node *node = NULL;
  casts s;
  const mt_view *const *in = c->inv;
  int status = results_new(c, out);
  if (!status) status = cast_inputs(c, &s, &in);
  if (status) {
    mt_results_free(out);
    return status;
  }
  if (c->op->row->backward && !(c->op->row->flags & MT_NOGRAD) && mt_tape_wanted(c)) {
    status = mt_tape_make(&node, c);
    if (!status) status = mt_tape_save_outputs(node, out->t);
  }
  const mt_view *views[MT_MAX_OUT];
  for (int i = 0; i < c->nout; i++) views[i] = &out->t[i]->v;
  if (!status) status = run_kernel(c, in, views);
  casts_free(&s);
  if (MT_UNLIKELY(status)) {
    if (node) mt_node_release(node);
    mt_results_free(out);
    return status;
  }
  bump_mutated(c);
  if (node) {
    for (int i = 0; i < c->nout; i++) mt_tape_attach(node, i, out->t[i]);
    mt_node_release(node);
  }
  return MT_OK;
}

static int invoke_view(mt_call *c, mt_results *out) {
  moth_tensor *src = c->in[0];
  mt_node *node = NULL;
  int status = c->op->row->view(c);
  if (status) return status;
  const mt_spec *s = &c->out[0];
  bool graph = !(c->op->row->flags & MT_NOGRAD);
  if (graph && mt_tape_wanted(c)) status = mt_tape_make(&node, c);
  if (!status) status = mt_tensor_alias(&out->t[0], src, s->ndim, s->size, s->stride, s->offset);
  if (status) {
    if (node) mt_node_release(node);
    return status;
  }
  moth_tensor *t = out->t[0];
  out->n = 1;
  t->is_view = true;
  if (graph) {
    t->base = mt_tensor_retain(src->base ? src->base : src);
    t->graph_gen = t->base->graph_gen;
    t->multiview = src->multiview;
  }
  if (node) {
    mt_tape_attach(node, 0, t);
    mt_node_release(node);
  }
  return MT_OK;
}

static int invoke_composite(mt_call *c, mt_results *out) {
  mt_ctx ctx;
  mt_ctx_init(&ctx, c->rt);
  ctx.index_base = c->index_base;
  c->op->row->compose(&ctx, c->arg);
  int status = ctx.status;
  if (!status) status = mt_ctx_take_returns(&ctx, out);
  mt_ctx_free(&ctx);
  if (!status && (c->op->row->flags & MT_MULTIVIEW)) {
    moth_tensor **t = mt_results_all(out);
    for (int i = 0; i < out->n; i++) t[i]->multiview = true;
  }
  return status;
}

/* ---- in place ---- */

static int inplace_fits(mt_call *c) {
  moth_tensor *self = c->in[0];
  const mt_spec *s = &c->out[0];
  if (!mt_can_cast(s->dtype, (mt_dtype)self->v.dtype))
    return mt_fail(c->rt, MT_ERROR, "a result of dtype %s cannot be stored in place in %s",
                   mt_dtypes[s->dtype].name, mt_tensor_str(self));
  if (s->ndim != self->v.ndim ||
      memcmp(s->size, self->v.size, sizeof(int64_t) * (size_t)s->ndim) != 0)
    return mt_fail(c->rt, MT_ERROR, "a result of shape %s cannot be stored in place in %s",
                   mt_shape_str(c->rt, s->ndim, s->size), mt_tensor_str(self));
  if (mt_shape_overlaps(self->v.ndim, self->v.size, self->v.stride))
    return mt_fail(c->rt, MT_ERROR,
                   "cannot write in place to %s: several positions share one element; use clone() "
                   "first",
                   mt_tensor_str(self));
  return MT_OK;
}

static void reach(const mt_view *v, const char **lo, const char **hi) {
  int64_t n = 1;
  for (int d = 0; d < v->ndim; d++) n += (v->size[d] - 1) * v->stride[d];
  *lo = v->data;
  *hi = v->data + n * mt_dtype_size((mt_dtype)v->dtype);
}

/* Whether reading `in` while writing `self` would see elements already written. */
static bool clashes(const mt_view *self, const mt_view *in) {
  const char *a, *b, *x, *y;
  if (self->numel == 0 || in->numel == 0) return false;
  if (self->data == in->data && self->dtype == in->dtype && mt_shape_equal(self, in) &&
      memcmp(self->stride, in->stride, sizeof(int64_t) * (size_t)self->ndim) == 0)
    return false;
  reach(self, &a, &b);
  reach(in, &x, &y);
  return a < y && x < b;
}

/* Elementwise: the kernel writes to self; inputs that overlap it are copied first. */
static int write_elementwise(mt_call *c) {
  const mt_view *in[MT_INLINE_INPUTS], *out[1] = {&c->in[0]->v};
  casts s = {.n = 0};
  int status = MT_OK;
  for (int i = 0; i < c->nin && !status; i++) {
    in[i] = c->inv[i];
    if (in[i] && clashes(&c->in[0]->v, in[i])) {
      status = converted(&s.t[s.n], c->rt, in[i], (mt_dtype)in[i]->dtype);
      if (!status) in[i] = &s.t[s.n++]->v;
    }
  }
  if (!status) status = run_kernel(c, in, out);
  casts_free(&s);
  return status;
}

/* Any other kernel: compute beside, then copy. */
static int write_result(mt_call *c) {
  mt_results r = {.rt = c->rt};
  casts s;
  const mt_view *const *in = c->inv;
  int status = results_new(c, &r);
  if (status) return status;
  status = cast_inputs(c, &s, &in);
  const mt_view *views[MT_MAX_OUT], *self[1] = {&c->in[0]->v};
  for (int i = 0; i < c->nout; i++) views[i] = &r.t[i]->v;
  if (!status) {
    status = run_kernel(c, in, views);
    casts_free(&s);
  }
  if (!status) {
    mt_kargs k = {.in = views, .out = self, .nin = 1, .nout = 1, .par = &c->rt->par,
                  .isa = c->rt->isa};
    status = mt_cpu_copy(&k);
  }
  mt_results_free(&r);
  return status;
}

static int invoke_inplace(mt_call *c, mt_results *out) {
  moth_tensor *self = c->in[0];
  mt_node *node = NULL;
  bool record = mt_tape_wanted(c) && !(c->op->row->flags & MT_NOGRAD);
  int status = mt_inplace_check(self, record);
  if (!status) status = inplace_fits(c);
  if (!status && record) {
    if (!c->op->row->backward) /* not differentiable: as if the value came from nowhere */
      record = false;
    else
      status = mt_tape_make(&node, c);
  }
  if (!status && node) status = mt_tape_save_outputs(node, &self);
  if (!status) status = c->op->row->ew ? write_elementwise(c) : write_result(c);
  if (status) {
    if (node) mt_node_release(node);
    return status;
  }
  self->storage->version++;
  if (node && (c->op->row->save >> 16 & 1)) node->version[node->nin] = self->storage->version;
  status = mt_inplace_commit(self, node);
  if (!status) {
    out->t[0] = mt_tensor_retain(self);
    out->n = 1;
  }
  return status;
}

/* A composite computes its result, which copy_ then writes: the graph follows by itself. */
static int composite_inplace(mt_call *c, mt_results *out) {
  mt_results r = {.rt = c->rt};
  int status = invoke_composite(c, &r);
  if (status) return status;
  mt_value arg[2] = {mt_t(c->in[0]), mt_t(mt_results_all(&r)[0])};
  if (!mt_can_cast((mt_dtype)arg[1].u.t->v.dtype, (mt_dtype)c->in[0]->v.dtype))
    status = mt_fail(c->rt, MT_ERROR, "a result of dtype %s cannot be stored in place in %s",
                     mt_dtypes[arg[1].u.t->v.dtype].name, mt_tensor_str(c->in[0]));
  else
    status = mt_invoke(out, c->rt, mt_op_find("copy"), 2, arg, c->index_base, true);
  mt_results_free(&r);
  return status;
}

/* ---- the path ---- */

static int dispatch(mt_call *c, mt_results *out, bool inplace) {
  const mt_op *row = c->op->row;
  if (row->compose) return inplace ? composite_inplace(c, out) : invoke_composite(c, out);
  int status = describe(c);
  if (status) return status;
  if (inplace) return invoke_inplace(c, out);
  return row->view ? invoke_view(c, out) : invoke_kernel(c, out);
}

int mt_invoke(mt_results *out, moth_runtime *rt, const mt_opinfo *op, int n, const mt_value *arg,
              int base, bool inplace) {
  mt_frame f;
  const char *outer = rt->op_name;
  int outer_base = rt->base;
  out->n = 0;
  out->list = NULL;
  out->rt = rt;
  /* Composites keep the name the caller used: that is the one that means something to him. */
  if (!outer) rt->op_name = op->name;
  rt->base = base;
  int status = mt_args_fill(&f, rt, op, n, arg, base);
  if (!status && inplace && !f.c.in[0])
    status = mt_fail(rt, MT_ERROR, "argument '%s': expected tensor to write to", op->arg[0].name);
  if (!status) {
    status = dispatch(&f.c, out, inplace);
    for (mt_observer *o = rt->observers; o && !status; o = o->next)
      o->after(o, &f.c, mt_results_all(out));
    mt_args_free(&f);
  }
  rt->op_name = outer;
  rt->base = outer_base;
  return status;
}
