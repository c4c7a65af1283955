/* backward.c - the walk from results to leaves.
 *
 * A heap ordered by node number holds the nodes that have received a gradient. The highest number
 * goes first: everything that could still add to it has a higher number and is done. Gradients wait
 * in the node's task; tasks nest, so that a rule written in Lua may itself call backward. When only
 * some inputs are asked for, a search first marks the nodes that lead to them and the rest is not
 * computed. */
#include <string.h>

#include "invoke.h"
#include "shape.h"
#include "tape.h"

typedef struct mt_task {
  struct mt_task *outer; /* task of an enclosing walk on the same node */
  int walk;              /* which walk it belongs to */
  bool queued, wanted;
  moth_tensor *g[];      /* nout gradients so far; owned */
} mt_task;

typedef struct walk {
  moth_runtime *rt;
  const mt_backward_args *a;
  int id, status;
  mt_node **heap;   /* nodes to run */
  size_t n, cap;
  mt_node **seen;   /* all nodes with a task, retained: to clean up */
  size_t nseen, capseen;
  bool prune;
} walk;

static bool reserve(walk *w, mt_node ***v, size_t n, size_t *cap) {
  if (n < *cap) return true;
  size_t ncap = *cap ? *cap * 2 : 64;
  void *p = mt_record_grow(&w->rt->alloc, *v, *cap * sizeof **v, ncap * sizeof **v);
  if (!p) {
    w->status = mt_fail(w->rt, MT_NOMEM, "out of memory while walking the graph");
    return false;
  }
  *v = p;
  *cap = ncap;
  return true;
}

static size_t task_bytes(const mt_node *n) {
  return sizeof(mt_task) + (size_t)n->nout * sizeof(moth_tensor *);
}

/* The node's task in this walk, made when missing. */
static mt_task *task_of(walk *w, mt_node *n) {
  if (n->task && n->task->walk == w->id) return n->task;
  if (!reserve(w, &w->seen, w->nseen, &w->capseen)) return NULL;
  mt_task *t = mt_record_new(&w->rt->alloc, task_bytes(n));
  if (!t) {
    w->status = mt_fail(w->rt, MT_NOMEM, "out of memory while walking the graph");
    return NULL;
  }
  memset(t, 0, task_bytes(n));
  t->outer = n->task;
  t->walk = w->id;
  t->wanted = !w->prune;
  n->task = t;
  mt_node_retain(n);
  w->seen[w->nseen++] = n;
  return t;
}

/* ---- heap ---- */

static void heap_push(walk *w, mt_node *n) {
  if (!reserve(w, &w->heap, w->n, &w->cap)) return;
  size_t i = w->n++;
  for (; i > 0 && w->heap[(i - 1) / 2]->seq < n->seq; i = (i - 1) / 2)
    w->heap[i] = w->heap[(i - 1) / 2];
  w->heap[i] = n;
}

static mt_node *heap_pop(walk *w) {
  mt_node *top = w->heap[0], *last = w->heap[--w->n];
  size_t i = 0;
  for (;;) {
    size_t k = 2 * i + 1;
    if (k >= w->n) break;
    if (k + 1 < w->n && w->heap[k + 1]->seq > w->heap[k]->seq) k++;
    if (w->heap[k]->seq <= last->seq) break;
    w->heap[i] = w->heap[k];
    i = k;
  }
  w->heap[i] = last;
  return top;
}

/* ---- gradients ---- */

/* *slot += g. The sum is in place when nobody else can see the tensor in the slot. */
static int add_gradient(walk *w, moth_tensor **slot, moth_tensor *g) {
  if (!*slot) {
    *slot = mt_tensor_retain(g);
    return MT_OK;
  }
  moth_tensor *old = *slot;
  bool own = old->refs == 1 && !w->a->create_graph && !old->is_view &&
             atomic_load(&old->storage->refs) == 1 && old->v.contiguous;
  mt_results r;
  mt_value arg[2] = {mt_t(old), mt_t(g)};
  int status = mt_invoke(&r, w->rt, mt_op_find("add"), 2, arg, 0, own);
  if (status) return status;
  *slot = r.t[0];
  mt_tensor_release(old);
  return MT_OK;
}

/* Sends g along an edge. */
static int send(walk *w, const mt_edge *e, moth_tensor *g) {
  mt_task *t = task_of(w, e->node);
  if (!t) return w->status;
  if (!t->wanted) return MT_OK;
  int status = add_gradient(w, &t->g[e->out], g);
  if (!status && !t->queued) {
    t->queued = true;
    heap_push(w, e->node);
    status = w->status;
  }
  return status;
}

/* Sums and casts a gradient to the shape and dtype that its input had. */
static moth_tensor *fit(mt_ctx *c, moth_tensor *g, const mt_meta *m) {
  int64_t dims[MT_MAX_DIM];
  int n = 0, lead = g->v.ndim - m->ndim;
  if (g->v.ndim == m->ndim && g->v.dtype == m->dtype &&
      memcmp(g->v.size, m->size, sizeof(int64_t) * (size_t)m->ndim) == 0)
    return g;
  if (lead < 0) return MT_DO(c, "expand", mt_t(g), mt_ints(m->size, m->ndim));
  for (int d = 0; d < g->v.ndim; d++)
    if (d < lead || (m->size[d - lead] == 1 && g->v.size[d] != 1)) dims[n++] = d;
  if (n) g = MT_DO(c, "sum", mt_t(g), mt_ints(dims, n), mt_b(true));
  if (g && lead) g = MT_DO(c, "reshape", mt_t(g), mt_ints(m->size, m->ndim));
  if (g && g->v.dtype != m->dtype) {
    if (mt_dtype_category((mt_dtype)g->v.dtype) == MT_CAT_COMPLEX &&
        mt_dtype_category((mt_dtype)m->dtype) != MT_CAT_COMPLEX)
      g = mt_op1(c, "real", g);
    if (g && g->v.dtype != m->dtype) g = MT_DO(c, "to", mt_t(g), mt_i(m->dtype));
  }
  return g;
}

static int shape_ok(moth_runtime *rt, const mt_node *n, int i, const moth_tensor *g) {
  const mt_meta *m = &n->meta[i];
  if (!g || (g->v.ndim == m->ndim &&
             memcmp(g->v.size, m->size, sizeof(int64_t) * (size_t)m->ndim) == 0))
    return MT_OK;
  return mt_fail(rt, MT_ERROR,
                 "backward of %s gave a gradient of shape %s for an input of shape %s",
                 n->op ? n->op->name : n->custom->name, mt_shape_str(rt, g->v.ndim, g->v.size),
                 mt_shape_str(rt, m->ndim, m->size));
}

/* ---- running a node ---- */

static int saved_ok(moth_runtime *rt, const mt_node *n) {
  if (n->used)
    return mt_fail(rt, MT_ERROR,
                   "the graph was already used by a backward (at '%s'); pass retain_graph=true to "
                   "the first one to walk it again",
                   n->op->name);
  for (int i = 0; i < n->nin + n->nout; i++) {
    const moth_tensor *t = n->saved[i];
    if (t && t->storage->version != n->version[i])
      return mt_fail(rt, MT_ERROR,
                     "a tensor that '%s' saved for its gradient was changed in place: %s, "
                     "expected version %u, found version %u",
                     n->op->name, mt_tensor_str(t), n->version[i], t->storage->version);
  }
  return MT_OK;
}

/* Arguments as the rule sees them: saved tensors back in their places. */
static void args_for_rule(const mt_node *n, mt_value *arg) {
  int at = 0;
  for (int j = 0; j < n->narg; j++) {
    arg[j] = n->arg[j];
    if (n->op->arg[j].in < 0) continue;
    if (arg[j].kind == MT_TENSORS) {
      arg[j].u.tensors = n->saved + at;
      at += arg[j].n;
    } else {
      if (n->saved[at]) arg[j] = mt_t(n->saved[at]);
      at++;
    }
  }
}

/* Saved results get their node for the time of the rule, so that what it computes from them is
 * differentiable. */
static void lend_node(mt_node *n, bool on) {
  for (int i = 0; i < n->nout; i++) {
    moth_tensor *t = n->saved[n->nin + i];
    if (!t) continue;
    if (on) {
      mt_tape_attach(n, i, t);
    } else if (t->node) {
      mt_node *held = t->node;
      t->node = NULL;
      mt_node_release(held);
    }
  }
}

typedef struct frame { /* inputs of one node; on the stack up to 16 */
  bool need_buf[16];
  moth_tensor *grad_buf[16];
  bool *need;
  moth_tensor **grad;
} frame;

static int frame_open(walk *w, const mt_node *n, frame *f) {
  f->need = f->need_buf;
  f->grad = f->grad_buf;
  if (n->nin > 16) {
    f->need = mt_record_new(&w->rt->alloc, (size_t)n->nin);
    f->grad = mt_record_new(&w->rt->alloc, (size_t)n->nin * sizeof *f->grad);
  }
  if (!f->need || !f->grad) return mt_fail(w->rt, MT_NOMEM, "out of memory in backward");
  for (int i = 0; i < n->nin; i++) {
    mt_node *to = n->edge[i].node;
    f->need[i] = to && (!w->prune || (to->task && to->task->walk == w->id && to->task->wanted));
    f->grad[i] = NULL;
  }
  return MT_OK;
}

static void frame_close(walk *w, const mt_node *n, frame *f) {
  if (n->nin <= 16) return;
  if (f->need) mt_record_free(&w->rt->alloc, f->need, (size_t)n->nin);
  if (f->grad) mt_record_free(&w->rt->alloc, f->grad, (size_t)n->nin * sizeof *f->grad);
}

static int run_rule(walk *w, mt_node *n, mt_task *task, frame *f) {
  mt_value arg[MT_MAX_ARGS];
  mt_ctx c;
  int status = saved_ok(w->rt, n);
  if (status) return status;
  mt_ctx_init(&c, w->rt);
  c.index_base = n->index_base;
  args_for_rule(n, arg);
  mt_back b = {.c = &c,
               .op = n->op,
               .g = task->g,
               .ng = n->nout,
               .in = n->saved,
               .out = n->saved + n->nin,
               .arg = arg,
               .meta = n->meta,
               .nin = n->nin,
               .narg = n->narg,
               .need = f->need,
               .grad = f->grad};
  lend_node(n, true);
  n->op->row->backward(&b);
  for (int i = 0; i < n->nin && !c.status; i++) {
    if (!f->grad[i] || !f->need[i]) continue;
    moth_tensor *g = fit(&c, f->grad[i], &n->meta[i]);
    if (!g) break;
    c.status = shape_ok(w->rt, n, i, g);
    if (!c.status) c.status = send(w, &n->edge[i], g);
  }
  lend_node(n, false);
  status = c.status;
  mt_ctx_free(&c);
  if (!w->a->retain_graph) mt_node_drop_saved(n);
  return status;
}

static int run_custom(walk *w, mt_node *n, mt_task *task, frame *f) {
  if (n->used)
    return mt_fail(w->rt, MT_ERROR, "the graph was already used by a backward (at '%s')",
                   n->custom->name);
  int status = n->custom->backward(n->custom->ud, w->rt, n->nout, task->g, n->nin, f->grad);
  mt_ctx c;
  mt_ctx_init(&c, w->rt);
  for (int i = 0; i < n->nin; i++) {
    moth_tensor *g = mt_own(&c, f->grad[i]);
    if (status || !g || !f->need[i]) continue;
    g = fit(&c, g, &n->meta[i]);
    status = c.status;
    if (!status) status = shape_ok(w->rt, n, i, g);
    if (!status) status = send(w, &n->edge[i], g);
  }
  mt_ctx_free(&c);
  if (!w->a->retain_graph) n->used = true;
  return status;
}

/* grad += g. A gradient that nobody else holds is taken as it is. */
static int accumulate(walk *w, moth_tensor *leaf, moth_tensor **g) {
  mt_leaf *l = leaf->leaf;
  if (l->grad) {
    mt_results r;
    mt_value arg[2] = {mt_t(l->grad), mt_t(*g)};
    bool inplace = !w->a->create_graph && !mt_tensor_needs_grad(l->grad);
    int status = mt_invoke(&r, w->rt, mt_op_find("add"), 2, arg, 0, inplace);
    if (status) return status;
    moth_tensor *old = l->grad;
    l->grad = r.t[0];
    mt_tensor_release(old);
    return MT_OK;
  }
  moth_tensor *t = *g;
  bool own = t->refs == 1 && !t->is_view && atomic_load(&t->storage->refs) == 1 &&
             t->v.contiguous && leaf->v.contiguous;
  if (own || w->a->create_graph) {
    l->grad = mt_tensor_retain(t);
    return MT_OK;
  }
  mt_results r;
  mt_value arg[1] = {mt_t(t)};
  int status = mt_invoke(&r, w->rt, mt_op_find("clone"), 1, arg, 0, false);
  if (!status) l->grad = r.t[0];
  return status;
}

/* Gradients of results asked for by retain_grad. */
static int keep_retained(walk *w, mt_node *n, mt_task *task) {
  int status = MT_OK;
  for (int i = 0; n->retain && i < n->nout && !status; i++)
    if (n->retain[i] && task->g[i]) status = accumulate(w, n->retain[i], &task->g[i]);
  return status;
}

static int run_hooks(walk *w, mt_node *n, mt_task *task) {
  moth_runtime *rt = w->rt;
  if (!rt->run_hooks) return MT_OK;
  if (n->leaf && n->leaf->leaf->hooks && task->g[0])
    return rt->run_hooks(rt->hooks_ud, n->leaf, n->leaf->leaf->hooks, &task->g[0]);
  int status = MT_OK;
  for (int i = 0; n->hooks && i < n->nout && !status; i++)
    if (n->hooks[i] && task->g[i])
      status = rt->run_hooks(rt->hooks_ud, NULL, n->hooks[i], &task->g[i]);
  return status;
}

/* Gradients of the inputs asked for by name are taken where they arrive. */
static int capture(walk *w, mt_node *n, mt_task *task) {
  const mt_backward_args *a = w->a;
  for (int i = 0; i < a->ninputs; i++) {
    moth_tensor *t = a->input[i];
    bool here = n->leaf ? n->leaf == t : t->node == n;
    moth_tensor *g = here ? task->g[n->leaf ? 0 : t->out] : NULL;
    if (g) a->result[i] = mt_tensor_retain(g);
  }
  return MT_OK;
}

/* Anomaly mode: the first NaN is reported with the operation and the place that recorded it. */
static int check_anomaly(walk *w, mt_node *n, const frame *f) {
  moth_runtime *rt = w->rt;
  for (int i = 0; i < n->nin; i++) {
    moth_tensor *g = f->grad[i];
    mt_node *to = n->edge[i].node;
    if (!g || !to || !to->task || to->task->walk != w->id) continue;
    g = to->task->g[n->edge[i].out];
    if (!g || !mt_dtype_is_float((mt_dtype)g->v.dtype)) continue;
    mt_ctx c;
    int64_t any = 0;
    double unused;
    mt_ctx_init(&c, rt);
    moth_tensor *bad = mt_op1(&c, "any", mt_op1(&c, "isnan", g));
    if (bad) mt_tensor_read(bad, 0, &any, &unused);
    int status = c.status;
    mt_ctx_free(&c);
    if (status) return status;
    if (any)
      return mt_fail(rt, MT_ERROR,
                     "backward of '%s' gave NaN for its input number %d; recorded at %s",
                     n->op ? n->op->name : n->custom->name, i + 1, n->where ? n->where : "?");
  }
  return MT_OK;
}

static int run_node(walk *w, mt_node *n) {
  mt_task *task = n->task;
  task->queued = false;
  int status = run_hooks(w, n, task);
  if (!status && w->a->ninputs) status = capture(w, n, task);
  if (!status && !w->a->ninputs) status = keep_retained(w, n, task);
  if (!status && n->leaf && !w->a->ninputs) status = accumulate(w, n->leaf, &task->g[0]);
  if (!status && (n->op || n->custom)) {
    frame f;
    status = frame_open(w, n, &f);
    if (!status) status = n->op ? run_rule(w, n, task, &f) : run_custom(w, n, task, &f);
    if (!status && w->rt->anomaly) status = check_anomaly(w, n, &f);
    frame_close(w, n, &f);
  }
  for (int i = 0; i < n->nout; i++) {
    moth_tensor *g = task->g[i];
    task->g[i] = NULL;
    if (g) mt_tensor_release(g);
  }
  return status;
}

/* ---- pruning ---- */

/* Marks the nodes from which an input can be reached. Depth first on an explicit stack; a node is
 * decided after all its edges, so each is visited once. */
typedef struct visit {
  mt_node *node;
  int next;
} visit;

static bool is_input(const walk *w, const mt_node *n) {
  for (int i = 0; i < w->a->ninputs; i++) {
    const moth_tensor *t = w->a->input[i];
    if (n->leaf ? n->leaf == t : t->node == n) return true;
  }
  return false;
}

static int mark(walk *w, mt_node *root) {
  visit *stack = NULL;
  size_t n = 0, cap = 0;
  mt_alloc *al = &w->rt->alloc;
  for (mt_node *enter = root; enter;) {
    if (n == cap) {
      size_t ncap = cap ? cap * 2 : 64;
      visit *p = mt_record_grow(al, stack, cap * sizeof *p, ncap * sizeof *p);
      if (!p) {
        w->status = mt_fail(w->rt, MT_NOMEM, "out of memory while walking the graph");
        break;
      }
      stack = p;
      cap = ncap;
    }
    mt_task *t = task_of(w, enter);
    if (!t) break;
    t->wanted = is_input(w, enter);
    stack[n++] = (visit){enter, 0};
    enter = NULL;
    while (n && !enter) {
      visit *top = &stack[n - 1];
      mt_node *at = top->node;
      if (top->next == at->nin) {
        bool wanted = at->task->wanted;
        n--;
        if (n && wanted) stack[n - 1].node->task->wanted = true;
        continue;
      }
      mt_node *to = at->edge[top->next++].node;
      if (!to) continue;
      if (to->task && to->task->walk == w->id) at->task->wanted |= to->task->wanted;
      else enter = to;
    }
  }
  mt_record_free(al, stack, cap * sizeof *stack);
  return w->status;
}

/* ---- the walk ---- */

static int ones_like(moth_tensor **out, moth_tensor *t) {
  mt_results r;
  mt_value arg[1] = {mt_t(t)};
  if (t->v.numel != 1)
    return mt_fail(t->rt, MT_ERROR,
                   "backward needs a gradient for a tensor with more than one element: %s",
                   mt_tensor_str(t));
  int status = mt_invoke(&r, t->rt, mt_op_find("ones_like"), 1, arg, 0, false);
  if (!status) *out = r.t[0];
  return status;
}

static int start_root(walk *w, int i) {
  moth_tensor *t = w->a->root[i], *g = w->a->grad ? w->a->grad[i] : NULL;
  mt_edge e;
  if (!mt_tensor_needs_grad(t))
    return mt_fail(w->rt, MT_ERROR, "the tensor does not require a gradient: nothing was recorded");
  if (g && !mt_shape_equal(&g->v, &t->v))
    return mt_fail(w->rt, MT_ERROR, "gradient: expected shape %s, got %s",
                   mt_shape_str(w->rt, t->v.ndim, t->v.size),
                   mt_shape_str(w->rt, g->v.ndim, g->v.size));
  int status = g ? MT_OK : ones_like(&g, t);
  if (status) return status;
  if (w->a->grad && w->a->grad[i]) mt_tensor_retain(g);
  status = mt_tape_own_edge(&e, t);
  if (!status && w->prune && !(e.node->task && e.node->task->walk == w->id))
    status = mark(w, e.node);
  if (!status) status = send(w, &e, g);
  mt_node_release(e.node);
  mt_tensor_release(g);
  return status;
}

static void clean_up(walk *w) {
  mt_alloc *al = &w->rt->alloc;
  for (size_t i = 0; i < w->nseen; i++) {
    mt_node *n = w->seen[i];
    mt_task *t = n->task;
    for (int k = 0; k < n->nout; k++)
      if (t->g[k]) mt_tensor_release(t->g[k]);
    n->task = t->outer;
    mt_record_free(al, t, task_bytes(n));
    mt_node_release(n);
  }
  mt_record_free(al, w->seen, w->capseen * sizeof *w->seen);
  mt_record_free(al, w->heap, w->cap * sizeof *w->heap);
}

static int unused_inputs(const walk *w) {
  const mt_backward_args *a = w->a;
  for (int i = 0; i < a->ninputs; i++)
    if (!a->result[i] && !a->allow_unused)
      return mt_fail(
          w->rt, MT_ERROR,
          "input %d was not used to compute the outputs; pass allow_unused=true to get nil", i + 1);
  return MT_OK;
}

int mt_tape_backward(moth_runtime *rt, const mt_backward_args *a) {
  bool was = rt->grad_enabled;
  const char *outer = rt->op_name;
  walk w = {.rt = rt, .a = a, .id = ++rt->walks, .prune = a->ninputs > 0};
  rt->op_name = NULL;
  for (int i = 0; i < a->ninputs; i++) a->result[i] = NULL;
  for (int i = 0; i < a->ninputs && !w.status; i++)
    if (!mt_tensor_needs_grad(a->input[i]))
      w.status = mt_fail(rt, MT_ERROR, "input %d does not require a gradient", i + 1);
  rt->grad_enabled = a->create_graph;
  for (int i = 0; i < a->nroots && !w.status; i++) {
    int status = start_root(&w, i);
    if (status) w.status = status;
  }
  while (w.n && !w.status) {
    int status = run_node(&w, heap_pop(&w));
    if (status) w.status = status;
  }
  clean_up(&w);
  rt->grad_enabled = was;
  rt->op_name = outer;
  int status = w.status ? w.status : unused_inputs(&w);
  for (int i = 0; i < a->ninputs && status; i++) {
    mt_tensor_release(a->result[i]);
    a->result[i] = NULL;
  }
  return status;
}
