/* inplace.c - writing to tensors that autograd knows.
 *
 * A write to tensor t recorded as node N makes N the node of t. When t is a view, its base changes
 * too: the base's new value is as_strided_scatter(old base, new view), which is recorded as any
 * other operation, and views of the base are brought up to date when somebody looks (their
 * generation then differs): a view's value is as_strided(base). So nothing here is a special case
 * of the walk, and gradients of gradients come for free. */
#include <string.h>

#include "invoke.h"
#include "tape.h"

int mt_inplace_check(moth_tensor *t, bool recording) {
  moth_runtime *rt = t->rt;
  moth_tensor *base = t->base ? t->base : t;
  if (!rt->grad_enabled) return MT_OK;
  if (base->leaf && base->leaf->wants && !base->node)
    return mt_fail(rt, MT_ERROR,
                   t->base ? "a view of a leaf that requires a gradient cannot be written in place"
                           : "a leaf that requires a gradient cannot be written in place (use "
                             "moth.no_grad, or detach it)");
  if (t->multiview && (recording || mt_tensor_needs_grad(base)))
    return mt_fail(rt, MT_ERROR,
                   "one of several views made by one operation (split, chunk, unbind) cannot be "
                   "written in place while gradients are recorded; use clone() first");
  return MT_OK;
}

/* The geometries of t and of its base in their storage, as arguments of _as_strided. */
static void geometry(const moth_tensor *t, mt_value *arg) {
  const moth_tensor *of[2] = {t, t->base};
  for (int i = 0; i < 2; i++) {
    arg[3 * i] = mt_ints(of[i]->v.size, of[i]->v.ndim);
    arg[3 * i + 1] = mt_ints(of[i]->v.stride, of[i]->v.ndim);
    arg[3 * i + 2] = mt_i(mt_tensor_offset(of[i]));
  }
}

/* Makes the node of `op` called on `in` with the geometry of t, without computing anything: the
 * storage already holds the values. */
static int symbolic(mt_node **out, const char *op, int nin, moth_tensor *const *in,
                    const moth_tensor *t) {
  mt_value arg[8];
  const mt_view *views[2];
  for (int i = 0; i < nin; i++) {
    arg[i] = mt_t(in[i]);
    views[i] = &in[i]->v;
  }
  geometry(t, arg + nin);
  mt_call c = {.rt = t->rt,
               .op = mt_op_find(op),
               .arg = arg,
               .in = in,
               .inv = views,
               .narg = nin + 6,
               .nin = nin,
               .nout = 1};
  return mt_tape_make(out, &c);
}

/* Gives the base of t the node of as_strided_scatter(base, t). */
static int rebase(moth_tensor *t) {
  moth_tensor *base = t->base, *in[2] = {base, t};
  mt_node *n;
  int status = symbolic(&n, "_written_view", 2, in, t);
  if (status) return status;
  mt_tape_set_node(base, n, 0);
  base->graph_gen++;
  return MT_OK;
}

int mt_inplace_refresh(moth_tensor *t) {
  moth_tensor *base = t->base;
  mt_node *n = NULL;
  if (base->node || (base->leaf && base->leaf->wants)) {
    int status = symbolic(&n, "_as_strided", 1, &base, t);
    if (status) return status;
  }
  mt_tape_set_node(t, n, 0);
  t->graph_gen = base->graph_gen;
  return MT_OK;
}

int mt_inplace_commit(moth_tensor *t, mt_node *made) {
  if (!made) return MT_OK;
  mt_tape_set_node(t, made, 0);
  if (!t->base) {
    t->graph_gen++; /* views of t are out of date */
    return MT_OK;
  }
  t->graph_gen = t->base->graph_gen; /* t itself is up to date: its node is the value written */
  int status = rebase(t);
  if (!status) status = mt_inplace_refresh(t);
  return status;
}
