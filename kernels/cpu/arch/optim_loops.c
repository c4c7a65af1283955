/* optim_loops.c - see optim.h. The arithmetic is that of PyTorch's single-tensor optimisers,
 * operation by operation; all state of an element is read and written once, so a step runs at the
 * speed of memory. What is constant in a call is a constant of the loop. */
#include "../optim.h"

#include <math.h>

#include "../isa.h"

#define INLINE static inline __attribute__((always_inline))
enum {
  PLAIN,
  FIRST,
  MOMENTUM,
  NESTEROV
};

#define SGD(T, name)                                                                    \
  INLINE void name##_as(const mt_sgd *h, int64_t n, T *restrict p, const T *restrict g, \
                        T *restrict m, int mode, bool decay) {                          \
    const T lr = (T)h->lr, mu = (T)h->momentum, wd = (T)h->decay;                       \
    const T share = (T)(1 - h->dampening), sign = h->maximize ? -1 : 1;                 \
    for (int64_t i = 0; i < n; i++) {                                                   \
      T d = sign * g[i];                                                                \
      if (decay) d += wd * p[i];                                                        \
      if (mode != PLAIN) {                                                              \
        T b = mode == FIRST ? d : m[i] * mu + share * d;                                \
        m[i] = b;                                                                       \
        d = h->nesterov ? d + mu * b : b;                                               \
      }                                                                                 \
      p[i] -= lr * d;                                                                   \
    }                                                                                   \
  }                                                                                     \
  static void name(const mt_sgd *h, int64_t n, T *p, const T *g, T *m) {                \
    bool decay = h->decay != 0;                                                         \
    if (!m && decay)                                                                    \
      name##_as(h, n, p, g, 0, PLAIN, true);                                            \
    else if (!m)                                                                        \
      name##_as(h, n, p, g, 0, PLAIN, false);                                           \
    else if (h->first)                                                                  \
      name##_as(h, n, p, g, m, FIRST, decay);                                           \
    else if (decay)                                                                     \
      name##_as(h, n, p, g, m, MOMENTUM, true);                                         \
    else                                                                                \
      name##_as(h, n, p, g, m, MOMENTUM, false);                                        \
  }
SGD(float, sgd_f32)
SGD(double, sgd_f64)

/* NaN in a gradient must stay visible in the largest mean of squares. */
#define ADAM(T, name, root_of)                                                                 \
  INLINE void name##_as(const mt_adam *h, int64_t n, T *restrict p, const T *restrict g,       \
                        T *restrict m, T *restrict v, T *restrict top, bool decay, bool ams) { \
    const T b1 = (T)h->beta1, b2 = (T)h->beta2, c1 = (T)(1 - h->beta1);                        \
    const T c2 = (T)(1 - h->beta2), eps = (T)h->eps, step = (T)h->step_size;                   \
    const T root = (T)h->root, shrink = (T)(1 - h->lr * h->decay), wd = (T)h->decay;           \
    const T sign = h->maximize ? -1 : 1;                                                       \
    const bool decoupled = h->decoupled;                                                       \
    for (int64_t i = 0; i < n; i++) {                                                          \
      T x = p[i], d = sign * g[i];                                                             \
      if (decay) {                                                                             \
        d = decoupled ? d : d + wd * x;                                                        \
        x = decoupled ? x * shrink : x;                                                        \
      }                                                                                        \
      T mean = m[i] * b1 + c1 * d, square = v[i] * b2 + c2 * d * d;                            \
      m[i] = mean;                                                                             \
      v[i] = square;                                                                           \
      if (ams) {                                                                               \
        square = top[i] >= square ? top[i] : square;                                           \
        top[i] = square;                                                                       \
      }                                                                                        \
      p[i] = x - step * mean / (root_of(square) / root + eps);                                 \
    }                                                                                          \
  }                                                                                            \
  static void name(const mt_adam *h, int64_t n, T *p, const T *g, T *m, T *v, T *top) {        \
    if (h->amsgrad)                                                                            \
      name##_as(h, n, p, g, m, v, top, h->decay != 0, true);                                   \
    else if (h->decay != 0)                                                                    \
      name##_as(h, n, p, g, m, v, 0, true, false);                                             \
    else                                                                                       \
      name##_as(h, n, p, g, m, v, 0, false, false);                                            \
  }
ADAM(float, adam_f32, sqrtf)
ADAM(double, adam_f64, sqrt)

/* Sixteen sums side by side, added up in a fixed order. */
#define SQUARES(T, name)                                   \
  static double name(const T *x, int64_t n) {              \
    double lane[16] = {0}, sum = 0;                        \
    int64_t i = 0;                                         \
    for (; i + 16 <= n; i += 16) {                         \
      for (int j = 0; j < 16; j++) {                       \
        double v = (double)x[i + j];                       \
        lane[j] += v * v;                                  \
      }                                                    \
    }                                                      \
    for (int j = 0; j < 16; j++) sum += lane[j];           \
    for (; i < n; i++) sum += (double)x[i] * (double)x[i]; \
    return sum;                                            \
  }
SQUARES(float, squares_f32)
SQUARES(double, squares_f64)

static void scale_f32(float *x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}
static void scale_f64(double *x, int64_t n, double factor) {
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

const struct mt_optim_table MT_ISA_NAME(mt_optim_table) = {
    sgd_f32, sgd_f64, adam_f32, adam_f64, squares_f32, squares_f64, scale_f32, scale_f64};
