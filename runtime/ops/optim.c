/* optim.c - optimiser steps for the standard library: one call for all parameters, in place.
 *
 * Parameters are leaves that require a gradient; steps write to them without being recorded, and
 * raise their versions. */
#include "rules.h"

#define FLOATS {MT_REALFLOATS, MT_FIRST, MT_COMMON}

static int length(const mt_value *v) { return v->kind == MT_TENSORS ? v->n : v->kind == MT_TENSOR; }

/* Every list is empty (where it may be) or has a tensor for each parameter, of its shape and
 * dtype. */
static int check_lists(mt_call *c, int roles, unsigned may_be_empty) {
  int n = length(&c->arg[0]), at = 0;
  for (int r = 0; r < roles; r++) {
    int own = length(&c->arg[r]);
    if (own == 0 && (may_be_empty >> r & 1)) continue;
    if (own != n)
      return mt_fail(c->rt, MT_ERROR, "argument '%s': expected %d tensors, got %d",
                     c->op->arg[r].name, n, own);
    for (int i = 0; i < n; i++) {
      const mt_view *p = c->inv[i], *v = c->inv[at + i];
      if (!mt_shape_equal(p, v) || p->dtype != v->dtype)
        return mt_fail(c->rt, MT_ERROR, "argument '%s': tensor %d is %s, its parameter %s",
                       c->op->arg[r].name, i + mt_base(c->rt), mt_tensor_str(c->in[at + i]),
                       mt_tensor_str(c->in[i]));
      if (!mt_dtype_is_float((mt_dtype)p->dtype) ||
          (r != 1 && mt_shape_overlaps(v->ndim, v->size, v->stride)))
        return mt_fail(c->rt, MT_ERROR, "argument '%s': tensor %d, %s, cannot be written",
                       c->op->arg[r].name, i + mt_base(c->rt), mt_tensor_str(c->in[at + i]));
    }
    at += n;
  }
  return MT_OK;
}

static int shape_sgd(mt_call *c) { return check_lists(c, 3, 1u << 2); }
static int shape_adam(mt_call *c) { return check_lists(c, 5, mt_ci(c, 11) ? 0 : 1u << 4); }
static int shape_scale(mt_call *c) { return check_lists(c, 1, 0); }

static int shape_norm(mt_call *c) {
  double p = mt_argf(&c->arg[1]);
  if (!(p > 0)) return mt_fail(c->rt, MT_ERROR, "argument 'p': expected a positive number");
  mt_spec_set(&c->out[0], 0, NULL);
  return MT_OK;
}

static const mt_op ops[] = {
    {.schema = "_sgd_step(tensor[] params, tensor[] grads, tensor[] momentum, float lr, float "
               "momentum_coef, float dampening, float weight_decay, bool nesterov, bool maximize, "
               "bool first) -> ()",
     .help = "One step of stochastic gradient descent; first: momentum holds nothing yet.",
     .types = FLOATS, .shape = shape_sgd, MT_CPU(sgd_step), .mutates = MT_IN(0) | MT_IN(2),
     .flags = MT_HIDDEN | MT_NOGRAD},
    {.schema = "_adam_step(tensor[] params, tensor[] grads, tensor[] exp_avg, tensor[] exp_avg_sq, "
               "tensor[] max_exp_avg_sq, float lr, float beta1, float beta2, float eps, float "
               "weight_decay, bool decoupled, bool amsgrad, bool maximize, int step) -> ()",
     .help = "One step of Adam, or with decoupled decay of AdamW; step counts from 1.",
     .types = FLOATS, .shape = shape_adam, MT_CPU(adam_step),
     .mutates = MT_IN(0) | MT_IN(2) | MT_IN(3) | MT_IN(4), .flags = MT_HIDDEN | MT_NOGRAD},
    {.schema = "_total_norm(tensor[] tensors, float p=2.0) -> tensor",
     .help = "The p-norm of all elements of all tensors together.", .types = FLOATS,
     .shape = shape_norm, MT_CPU_S(total_norm), .flags = MT_HIDDEN | MT_NOGRAD},
    {.schema = "_scale_all(tensor[] tensors, operand factor) -> ()",
     .help = "Multiplies every tensor in place by one number.", .types = FLOATS,
     .shape = shape_scale, MT_CPU(scale_all), .mutates = MT_IN(0),
     .flags = MT_HIDDEN | MT_NOGRAD},
};
MT_FAMILY(optim, ops);
