/* optim.h - the element loops of optimiser steps. p: parameters, g: gradients; other arrays are the
 * state. All contiguous, n elements. */
#ifndef MT_CPU_OPTIM_H
#define MT_CPU_OPTIM_H

#include "../kernel.h"

typedef struct mt_sgd {
  double lr, momentum, dampening, decay;
  bool nesterov, maximize, first; /* first: m holds nothing yet */
} mt_sgd;

typedef struct mt_adam {
  double lr, beta1, beta2, eps, decay;
  double step_size, root; /* lr / (1 - beta1^t), sqrt(1 - beta2^t) */
  bool decoupled, amsgrad, maximize;
} mt_adam;

struct mt_optim_table {
  void (*sgd_f32)(const mt_sgd *h, int64_t n, float *p, const float *g, float *m);
  void (*sgd_f64)(const mt_sgd *h, int64_t n, double *p, const double *g, double *m);
  /* m: mean, v: mean of squares, top: the largest v so far (amsgrad) or NULL */
  void (*adam_f32)(const mt_adam *h, int64_t n, float *p, const float *g, float *m, float *v,
                   float *top);
  void (*adam_f64)(const mt_adam *h, int64_t n, double *p, const double *g, double *m, double *v,
                   double *top);
  double (*squares_f32)(const float *x, int64_t n);
  double (*squares_f64)(const double *x, int64_t n);
  void (*scale_f32)(float *x, int64_t n, float factor);
  void (*scale_f64)(double *x, int64_t n, double factor);
};

#endif
