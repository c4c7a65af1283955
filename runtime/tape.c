/* tape.c - recording: nodes, what they save, and their release. See tape.h. */
#include "tape.h"

#include <string.h>

#include "status.h"

/* ---- memory of a node: one record with all its arrays ---- */

static size_t node_bytes(int nin, int nout, int narg) {
  size_t n = (size_t)(nin + nout);
  return sizeof(mt_node) + (size_t)nin * (sizeof(mt_edge) + sizeof(mt_meta)) +
         (size_t)narg * sizeof(mt_value) + n * (sizeof(moth_tensor *) + sizeof(uint32_t));
}

static mt_node *node_new(moth_runtime *rt, int nin, int nout, int narg) {
  size_t bytes = node_bytes(nin, nout, narg);
  mt_node *n = mt_record_new(&rt->alloc, bytes);
  if (!n) return NULL;
  memset(n, 0, sizeof *n);
  n->refs = 1;
  n->nin = (int16_t)nin;
  n->nout = (int16_t)nout;
  n->narg = (int16_t)narg;
  n->rt = rt;
  n->bytes = bytes;
  char *p = (char *)(n + 1);
  n->edge = (mt_edge *)(void *)p;
  p += (size_t)nin * sizeof *n->edge;
  n->meta = (mt_meta *)(void *)p;
  p += (size_t)nin * sizeof *n->meta;
  n->arg = (mt_value *)(void *)p;
  p += (size_t)narg * sizeof *n->arg;
  n->saved = (moth_tensor **)(void *)p;
  p += (size_t)(nin + nout) * sizeof *n->saved;
  n->version = (uint32_t *)(void *)p;
  memset(n->edge, 0, (size_t)nin * sizeof *n->edge);
  memset(n->saved, 0, (size_t)(nin + nout) * sizeof *n->saved);
  rt->refs++;
  return n;
}

void mt_node_retain(mt_node *n) { n->refs++; }

void mt_node_drop_saved(mt_node *n) {
  for (int i = 0; i < n->nin + n->nout; i++) {
    moth_tensor *t = n->saved[i];
    n->saved[i] = NULL;
    if (t) mt_tensor_release(t);
  }
  n->used = true;
}

static void node_free(mt_node *n) {
  moth_runtime *rt = n->rt;
  if (n->extra) mt_record_free(&rt->alloc, n->extra, n->extra_bytes);
  if (n->where) mt_record_free(&rt->alloc, n->where, strlen(n->where) + 1);
  if (n->retain)
    mt_record_free(&rt->alloc, n->retain, (size_t)n->nout * sizeof *n->retain);
  if (n->hooks) {
    for (int i = 0; i < n->nout; i++)
      if (n->hooks[i] && rt->free_hooks) rt->free_hooks(rt->hooks_ud, n->hooks[i]);
    mt_record_free(&rt->alloc, n->hooks, (size_t)n->nout * sizeof *n->hooks);
  }
  if (n->custom) {
    n->custom->release(n->custom->ud, rt);
    mt_record_free(&rt->alloc, n->custom, sizeof *n->custom);
  }
  if (n->leaf && n->leaf->leaf) n->leaf->leaf->accumulate = NULL;
  mt_record_free(&rt->alloc, n, n->bytes);
  mt_runtime_release(rt);
}

/* Frees a node and all that only it keeps alive, with a work list threaded through `task` in place
 * of recursion: a graph may be a million nodes deep. Saved tensors may own nodes in turn; their
 * release comes back here, and finds `pending` through the runtime's list. */
void mt_node_release(mt_node *n) {
  if (!n || --n->refs > 0) return;
  moth_runtime *rt = n->rt;
  if (rt->dying_active) { /* inside a release: leave it to the loop below us */
    n->task = rt->dying;
    rt->dying = (struct mt_task *)(void *)n;
    return;
  }
  rt->dying_active = true;
  rt->refs++;
  n->task = NULL;
  rt->dying = (struct mt_task *)(void *)n;
  while (rt->dying) {
    n = (mt_node *)(void *)rt->dying;
    rt->dying = n->task;
    n->task = NULL;
    mt_node_drop_saved(n);
    for (int i = 0; i < n->nin; i++)
      if (n->edge[i].node) mt_node_release(n->edge[i].node);
    node_free(n);
  }
  rt->dying_active = false;
  mt_runtime_release(rt);
}

/* ---- leaves ---- */

/* The node that adds to a leaf's gradient; one per leaf while some graph uses it. Owned result. */
static int accumulate_node(mt_node **out, moth_tensor *t) {
  mt_leaf *leaf = t->leaf;
  if (leaf->accumulate) {
    mt_node_retain(leaf->accumulate);
    *out = leaf->accumulate;
    return MT_OK;
  }
  mt_node *n = node_new(t->rt, 0, 1, 0);
  if (!n) return mt_fail(t->rt, MT_NOMEM, "out of memory for a graph node");
  n->seq = 0; /* last: when every gradient has come */
  n->leaf = t;
  leaf->accumulate = n;
  *out = n;
  return MT_OK;
}

/* Owned edge. */
int mt_tape_own_edge(mt_edge *out, moth_tensor *t) {
  out->node = NULL;
  out->out = 0;
  if (t->base && t->graph_gen != t->base->graph_gen) {
    int status = mt_inplace_refresh(t);
    if (status) return status;
  }
  if (t->node) {
    mt_node_retain(t->node);
    out->node = t->node;
    out->out = t->out;
    return MT_OK;
  }
  if (t->leaf && t->leaf->wants) return accumulate_node(&out->node, t);
  return MT_OK;
}

/* ---- recording ---- */

static void meta_of(mt_meta *m, const moth_tensor *t) {
  if (!t) {
    m->ndim = 0;
    m->dtype = MT_NODTYPE;
    return;
  }
  m->ndim = t->v.ndim;
  m->dtype = t->v.dtype;
  for (int d = 0; d < t->v.ndim; d++) m->size[d] = t->v.size[d];
}

static size_t list_bytes(const mt_value *v) {
  switch (v->kind) {
    case MT_INTS:
    case MT_FLOATS:
      return (size_t)v->n * 8;
    case MT_STR:
      return ((size_t)v->n + 8) / 8 * 8;
    default:
      return 0;
  }
}

/* Copies arguments with their lists and strings; tensors become MT_NIL (they are in `saved`). */
static int copy_args(mt_node *n, const mt_call *c) {
  size_t bytes = 0;
  for (int j = 0; j < c->narg; j++) bytes += list_bytes(&c->arg[j]);
  if (bytes) {
    n->extra = mt_record_new(&n->rt->alloc, bytes);
    if (!n->extra) return MT_NOMEM;
    n->extra_bytes = bytes;
  }
  char *p = n->extra;
  for (int j = 0; j < c->narg; j++) {
    const mt_value *v = &c->arg[j];
    n->arg[j] = *v;
    size_t len = list_bytes(v);
    if (len) {
      memcpy(p, v->u.s, v->kind == MT_STR ? (size_t)v->n : len);
      if (v->kind == MT_STR) p[v->n] = 0;
      n->arg[j].u.s = p;
      p += len;
    } else if (v->kind == MT_TENSOR || v->kind == MT_TENSORS) {
      n->arg[j].u.t = NULL;
      if (v->kind == MT_TENSOR) n->arg[j].kind = MT_NIL;
    }
  }
  return MT_OK;
}

static int note_place(mt_node *n) {
  char text[256] = "";
  moth_runtime *rt = n->rt;
  rt->where(rt->where_ud, text, sizeof text);
  n->where = mt_record_new(&rt->alloc, strlen(text) + 1);
  if (!n->where) return MT_NOMEM;
  strcpy(n->where, text);
  return MT_OK;
}

/* Which inputs to keep: MT_CROSS keeps one of a pair only for the sake of the other. */
static uint32_t save_mask(const mt_call *c) {
  const mt_op *row = c->op->row;
  uint32_t save = row->save;
  if ((row->flags & MT_CROSS) && c->nin >= 2) {
    bool need0 = c->in[0] && mt_tensor_needs_grad(c->in[0]);
    bool need1 = c->in[1] && mt_tensor_needs_grad(c->in[1]);
    if (!need0) save &= ~MT_IN(1);
    if (!need1) save &= ~MT_IN(0);
  }
  return save;
}

/* The bit in `save` of input i of an operation with a list: all elements of the list share the bit
 * of the list's place in the schema. */
static uint32_t row_bit(const mt_call *c, int i) {
  int at = 0;
  for (int j = 0; j < c->narg; j++) {
    if (c->op->arg[j].in < 0) continue;
    at += c->arg[j].kind == MT_TENSORS ? c->arg[j].n : 1;
    if (i < at) return MT_IN(c->op->arg[j].in);
  }
  return 0;
}

static void save_inputs(mt_node *n, const mt_call *c) {
  uint32_t save = save_mask(c) & 0xffff;
  for (int i = 0; save && i < c->nin; i++) {
    /* A list of tensors is saved whole by its first bit. */
    bool keep = c->op->has_list ? (row_bit(c, i) & save) != 0 : (save >> i & 1) != 0;
    if (!keep || !c->in[i]) continue;
    n->saved[i] = mt_tensor_retain(c->in[i]);
    n->version[i] = c->in[i]->storage->version;
  }
}

/* A result is saved as a bare alias: owning its node would be a cycle. */
int mt_tape_save_outputs(mt_node *n, moth_tensor *const *out) {
  uint32_t save = n->op->row->save >> 16;
  for (int i = 0; i < n->nout; i++) {
    if (!(save >> i & 1)) continue;
    moth_tensor *t = out[i], **slot = &n->saved[n->nin + i];
    int status = mt_tensor_alias(slot, t, t->v.ndim, t->v.size, t->v.stride, 0);
    if (status) return status;
    n->version[n->nin + i] = t->storage->version;
  }
  return MT_OK;
}

int mt_tape_make(mt_node **out, const mt_call *c) {
  moth_runtime *rt = c->rt;
  mt_node *n = node_new(rt, c->nin, c->nout, c->narg);
  int status = n ? MT_OK : mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  if (status) return status;
  n->op = c->op;
  n->index_base = (int8_t)c->index_base;
  for (int i = 0; i < c->nin && !status; i++) {
    meta_of(&n->meta[i], c->in[i]);
    if (c->in[i]) status = mt_tape_own_edge(&n->edge[i], c->in[i]);
  }
  n->seq = rt->seq++; /* after the edges: refreshing a view makes a node as well */
  if (!status && copy_args(n, c) != MT_OK)
    status = mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  if (!status && rt->anomaly && rt->where && note_place(n) != MT_OK)
    status = mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  if (status) {
    mt_node_release(n);
    return status;
  }
  save_inputs(n, c);
  *out = n;
  return MT_OK;
}

int mt_tape_retain(moth_tensor *t) {
  mt_node *n = t->node;
  mt_leaf *leaf = mt_tensor_leaf(t);
  if (leaf && n && !n->retain) {
    n->retain = mt_record_new(&n->rt->alloc, (size_t)n->nout * sizeof *n->retain);
    if (n->retain) memset(n->retain, 0, (size_t)n->nout * sizeof *n->retain);
  }
  if (!leaf || (n && !n->retain)) return mt_fail(t->rt, MT_NOMEM, "out of memory for a graph node");
  leaf->retain = true;
  if (n) n->retain[t->out] = t;
  return MT_OK;
}

void mt_tape_set_node(moth_tensor *t, mt_node *n, int out) {
  mt_node *old = t->node;
  bool retained = old && old->retain && old->retain[t->out] == t;
  if (retained) old->retain[t->out] = NULL; /* it does not own t: it must not outlive it */
  t->node = n;
  t->out = (int16_t)out;
  if (retained && n) mt_tape_retain(t); /* without memory the gradient is not kept */
  if (old) mt_node_release(old);
}

void mt_tape_attach(mt_node *n, int i, moth_tensor *t) {
  mt_dtype d = (mt_dtype)t->v.dtype;
  if (!mt_dtype_is_float(d) && d != MT_C64) return;
  mt_node_retain(n);
  mt_tape_set_node(t, n, i);
}

bool mt_tape_wanted(const mt_call *c) {
  if (!c->rt->grad_enabled) return false;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && mt_tensor_needs_grad(c->in[i])) return true;
  return false;
}

int mt_tape_record_custom(moth_runtime *rt, mt_custom *custom, int nin, moth_tensor *const *in,
                          int nout, moth_tensor *const *out) {
  mt_node *n = node_new(rt, nin, nout, 0);
  int status = n ? MT_OK : mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  if (status) return status;
  for (int i = 0; i < nin && !status; i++) {
    meta_of(&n->meta[i], in[i]);
    if (in[i]) status = mt_tape_own_edge(&n->edge[i], in[i]);
  }
  n->seq = rt->seq++;
  if (!status) {
    n->custom = mt_record_new(&rt->alloc, sizeof *n->custom);
    if (n->custom) *n->custom = *custom;
    else status = mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  }
  if (!status && rt->anomaly && rt->where && note_place(n) != MT_OK)
    status = mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  for (int i = 0; i < nout && !status; i++)
    if (out[i]) mt_tape_attach(n, i, out[i]);
  mt_node_release(n);
  return status;
}
