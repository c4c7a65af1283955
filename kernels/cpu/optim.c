/* optim.c - optimiser steps and norms over lists of tensors, one call for all of them.
 *
 * A step sees the elements of all tensors as one long line, cut for threads by position, so many
 * small parameters cost one fork. Contiguous float32 and float64 tensors are stepped in place;
 * others go through buffers, half precision as float32. */
#include "optim.h"

#include <math.h>

#include "../half.h"
#include "isa.h"
#include "walk.h"

#define ROLES 5
#define BUFFER 512

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

typedef struct task task;
/* Steps n elements; ptr[r] are floats, or doubles when wide; NULL: the list is empty. */
typedef void (*step_fn)(const task *t, bool wide, int64_t n, void *const *ptr);

struct task {
  const mt_kargs *k;
  int n, roles;     /* tensors in a list; lists */
  int first[ROLES]; /* input where list r starts, -1: empty */
  bool writes[ROLES];
  step_fn step;
  const void *hyper;
};

static const mt_view *view_of(const task *t, int role, int i) {
  return t->k->in[t->first[role] + i];
}

/* ---- one tensor ---- */

static bool direct(const task *t, int i) {
  for (int r = 0; r < t->roles; r++) {
    if (t->first[r] < 0) continue;
    const mt_view *v = view_of(t, r, i);
    if (!v->contiguous || (v->dtype != MT_F32 && v->dtype != MT_F64)) return false;
  }
  return true;
}

static void pass(const mt_view *v, int64_t at, int64_t n, float *f, double *d, bool store) {
  for (int64_t i = 0; i < n; i++) {
    void *p = v->data + mt_view_at(v, at + i);
    switch (v->dtype) {
      case MT_F64:
        if (store)
          *(double *)p = d[i];
        else
          d[i] = *(const double *)p;
        break;
      case MT_F32:
        if (store)
          *(float *)p = f[i];
        else
          f[i] = *(const float *)p;
        break;
      case MT_F16:
        if (store)
          *(uint16_t *)p = mt_f32_to_f16(f[i]);
        else
          f[i] = mt_f16_to_f32(*(const uint16_t *)p);
        break;
      default:
        if (store)
          *(uint16_t *)p = mt_f32_to_bf16(f[i]);
        else
          f[i] = mt_bf16_to_f32(*(const uint16_t *)p);
    }
  }
}

static void one_buffered(const task *t, int i, int64_t begin, int64_t end) {
  double room[ROLES][BUFFER];
  bool wide = view_of(t, 0, i)->dtype == MT_F64;
  for (int64_t at = begin; at < end; at += BUFFER) {
    int64_t n = end - at < BUFFER ? end - at : BUFFER;
    void *ptr[ROLES] = {0};
    for (int r = 0; r < t->roles; r++) {
      if (t->first[r] < 0) continue;
      ptr[r] = room[r];
      pass(view_of(t, r, i), at, n, ptr[r], ptr[r], false);
    }
    t->step(t, wide, n, ptr);
    for (int r = 0; r < t->roles; r++) {
      if (ptr[r] && t->writes[r]) pass(view_of(t, r, i), at, n, ptr[r], ptr[r], true);
    }
  }
}

static void one(const task *t, int i, int64_t begin, int64_t end) {
  void *ptr[ROLES] = {0};
  if (!direct(t, i)) {
    one_buffered(t, i, begin, end);
    return;
  }
  for (int r = 0; r < t->roles; r++) {
    if (t->first[r] < 0) continue;
    const mt_view *v = view_of(t, r, i);
    ptr[r] = v->data + begin * bytes(v);
  }
  t->step(t, view_of(t, 0, i)->dtype == MT_F64, end - begin, ptr);
}

/* ---- all tensors as one line ---- */

static void line(void *ctx, int64_t begin, int64_t end, int worker) {
  const task *t = ctx;
  (void)worker;
  for (int i = 0; i < t->n && end > 0; i++) {
    int64_t n = view_of(t, 0, i)->numel;
    int64_t a = begin > 0 ? begin : 0, z = end < n ? end : n;
    if (a < z) one(t, i, a, z);
    begin -= n;
    end -= n;
  }
}

static int run(task *t) {
  int64_t total = 0;
  for (int i = 0; i < t->n; i++) {
    total += view_of(t, 0, i)->numel;
    if (!mt_dtype_is_float((mt_dtype)view_of(t, 0, i)->dtype)) return MT_NOKERNEL;
  }
  mt_parallel_for(t->k->par, total, 16384, line, t);
  return MT_OK;
}

/* Places of the first `roles` lists; lists may be empty. */
static task begin(const mt_kargs *k, int roles, step_fn step, const void *hyper) {
  task t = {.k = k, .n = mt_karg_len(k, 0), .roles = roles, .step = step, .hyper = hyper};
  for (int r = 0, at = 0; r < roles; r++) {
    int n = mt_karg_len(k, r);
    t.first[r] = n ? at : -1;
    t.writes[r] = r != 1; /* all but the gradients */
    at += n;
  }
  return t;
}

/* ---- steps ---- */

static void step_sgd(const task *t, bool wide, int64_t n, void *const *ptr) {
  const struct mt_optim_table *f = t->k->isa->optim;
  if (wide)
    f->sgd_f64(t->hyper, n, ptr[0], ptr[1], ptr[2]);
  else
    f->sgd_f32(t->hyper, n, ptr[0], ptr[1], ptr[2]);
}

/* sgd_step(params, grads, momentum, lr, momentum_coef, dampening, decay, nesterov, maximize,
 * first): the momentum list may be empty */
int mt_cpu_sgd_step(const mt_kargs *k) {
  mt_sgd h = {.lr = mt_karg_f(k, 3),
              .momentum = mt_karg_f(k, 4),
              .dampening = mt_karg_f(k, 5),
              .decay = mt_karg_f(k, 6),
              .nesterov = MT_KARG_INT(k, 7) != 0,
              .maximize = MT_KARG_INT(k, 8) != 0,
              .first = MT_KARG_INT(k, 9) != 0};
  task t = begin(k, 3, step_sgd, &h);
  return run(&t);
}

static void step_adam(const task *t, bool wide, int64_t n, void *const *ptr) {
  const struct mt_optim_table *f = t->k->isa->optim;
  if (wide)
    f->adam_f64(t->hyper, n, ptr[0], ptr[1], ptr[2], ptr[3], ptr[4]);
  else
    f->adam_f32(t->hyper, n, ptr[0], ptr[1], ptr[2], ptr[3], ptr[4]);
}

/* b^n for n >= 0; pow would cost more than a small step. */
static double power(double b, int64_t n) {
  double y = 1;
  for (; n > 0; n >>= 1, b *= b) {
    if (n & 1) y *= b;
  }
  return y;
}

/* adam_step(params, grads, mean, square, top, lr, beta1, beta2, eps, decay, decoupled, amsgrad,
 * maximize, step): step counts from 1 */
int mt_cpu_adam_step(const mt_kargs *k) {
  mt_adam h = {.lr = mt_karg_f(k, 5),
               .beta1 = mt_karg_f(k, 6),
               .beta2 = mt_karg_f(k, 7),
               .eps = mt_karg_f(k, 8),
               .decay = mt_karg_f(k, 9),
               .decoupled = MT_KARG_INT(k, 10) != 0,
               .amsgrad = MT_KARG_INT(k, 11) != 0,
               .maximize = MT_KARG_INT(k, 12) != 0};
  h.step_size = h.lr / (1 - power(h.beta1, MT_KARG_INT(k, 13)));
  h.root = sqrt(1 - power(h.beta2, MT_KARG_INT(k, 13)));
  task t = begin(k, 5, step_adam, &h);
  if (h.amsgrad && t.first[4] < 0) return MT_ERROR;
  return run(&t);
}

/* ---- norms and scales over lists ---- */

#define PIECE 8192

typedef struct norm {
  const mt_kargs *k;
  double p, *sum;
  int n;
} norm;

static double element(const mt_view *v, int64_t at) {
  float f;
  double d;
  pass(v, at, 1, &f, &d, false);
  return v->dtype == MT_F64 ? d : f;
}

static double piece_norm(const norm *s, const mt_view *v, int64_t begin, int64_t n) {
  double sum = 0;
  if (s->p == 2 && v->contiguous && v->dtype == MT_F32) {
    return s->k->isa->optim->squares_f32((const float *)(const void *)v->data + begin, n);
  }
  if (s->p == 2 && v->contiguous && v->dtype == MT_F64) {
    return s->k->isa->optim->squares_f64((const double *)(const void *)v->data + begin, n);
  }
  for (int64_t i = 0; i < n; i++) {
    double x = fabs(element(v, begin + i));
    if (isinf(s->p))
      sum = x > sum || x != x ? x : sum;
    else
      sum += s->p == 2 ? x * x : s->p == 1 ? x : pow(x, s->p);
  }
  return sum;
}

static int64_t pieces(const mt_view *v) { return (v->numel + PIECE - 1) / PIECE; }

static void norm_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const norm *s = ctx;
  int64_t first = 0;
  (void)worker;
  for (int i = 0; i < s->n; i++) {
    const mt_view *v = s->k->in[i];
    int64_t n = pieces(v), a = begin > first ? begin : first, z = end < first + n ? end : first + n;
    for (int64_t p = a; p < z; p++) {
      int64_t at = (p - first) * PIECE, left = v->numel - at;
      s->sum[p] = piece_norm(s, v, at, left < PIECE ? left : PIECE);
    }
    first += n;
  }
}

static int64_t all_pieces(const mt_kargs *k) {
  int64_t n = 0;
  for (int i = 0; i < mt_karg_len(k, 0); i++) n += pieces(k->in[i]);
  return n;
}

/* total_norm(tensors, p) -> 0-d: the p-norm of all elements together; p may be inf */
int mt_cpu_total_norm(const mt_kargs *k) {
  norm s = {.k = k, .p = mt_karg_f(k, 1), .sum = k->scratch, .n = mt_karg_len(k, 0)};
  int64_t n = all_pieces(k);
  double sum = 0;
  for (int i = 0; i < s.n; i++) {
    if (!mt_dtype_is_float((mt_dtype)k->in[i]->dtype)) return MT_NOKERNEL;
  }
  mt_parallel_for(k->par, n, 4, norm_range, &s);
  for (int64_t i = 0; i < n; i++) {
    double x = s.sum[i];
    if (isinf(s.p))
      sum = x > sum || x != x ? x : sum;
    else
      sum += x;
  }
  if (!isinf(s.p)) sum = s.p == 2 ? sqrt(sum) : s.p == 1 ? sum : pow(sum, 1 / s.p);
  float f = (float)sum;
  pass(k->out[0], 0, 1, &f, &sum, true);
  return MT_OK;
}

size_t mt_cpu_total_norm_scratch(const mt_kargs *k) {
  return ((size_t)all_pieces(k) + 1) * sizeof(double);
}

static void step_scale(const task *t, bool wide, int64_t n, void *const *ptr) {
  const double factor = *(const double *)t->hyper;
  if (wide)
    t->k->isa->optim->scale_f64(ptr[0], n, factor);
  else
    t->k->isa->optim->scale_f32(ptr[0], n, (float)factor);
}

/* scale_all(tensors, factor): each is multiplied in place by a number or 0-d tensor */
int mt_cpu_scale_all(const mt_kargs *k) {
  const mt_view *f = k->in[mt_karg_len(k, 0)];
  if (f->dtype != MT_I64 && !mt_dtype_is_float((mt_dtype)f->dtype)) return MT_NOKERNEL;
  double factor =
      f->dtype == MT_I64 ? (double)*(const int64_t *)(const void *)f->data : element(f, 0);
  task t = begin(k, 1, step_scale, &factor);
  return run(&t);
}
