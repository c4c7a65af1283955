/* window.c - windows for spectra: Hann, Hamming, Blackman, Bartlett, Kaiser.
 *
 * A periodic window is a symmetric one of one more point without its last: the form that Fourier
 * transforms want. All are computed in float64 and rounded once. */
#include <math.h>

#include "rules.h"

#define NEW \
  { MT_REALFLOATS, MT_DEFAULT, MT_COMMON }

/* Places 0 .. n-1 over the last point of the symmetric window; NULL when the answer is short. */
static moth_tensor *places(mt_ctx *c, const mt_value *arg, int64_t *n) {
  bool periodic = arg[1].u.i != 0;
  *n = arg[0].u.i;
  if (*n < 0) {
    mt_ctx_fail(c, "argument 'window_length': cannot be negative");
    return NULL;
  }
  moth_tensor *k = MT_DO(c, "arange", mt_i(0), mt_i(*n), mt_i(1), mt_i(MT_F64));
  double last = (double)(*n - !periodic);
  return mt_ops(c, "div", k, last > 0 ? last : 1);
}

static void rounded(mt_ctx *c, moth_tensor *w, int64_t n, mt_value dtype) {
  if (n == 1) w = mt_op1(c, "ones_like", w);
  if (!mt_given(&dtype)) dtype = mt_i(c->rt->default_float);
  mt_return(c, MT_DO(c, "to", mt_t(w), dtype));
}

/* a0 - a1 cos(2 pi x) + a2 cos(4 pi x) */
static void cosines(mt_ctx *c, const mt_value *arg, double a0, double a1, double a2,
                    mt_value dtype) {
  const double turn = 6.283185307179586;
  int64_t n;
  moth_tensor *x = places(c, arg, &n);
  moth_tensor *one = mt_op1(c, "cos", mt_ops(c, "mul", x, turn));
  moth_tensor *w = mt_ops(c, "add", mt_ops(c, "mul", one, -a1), a0);
  if (a2 != 0) {
    moth_tensor *two = mt_op1(c, "cos", mt_ops(c, "mul", x, 2 * turn));
    w = mt_op2(c, "add", w, mt_ops(c, "mul", two, a2));
  }
  rounded(c, w, n, dtype);
}

static void compose_hann(mt_ctx *c, const mt_value *arg) { cosines(c, arg, 0.5, 0.5, 0, arg[2]); }
static void compose_hamming(mt_ctx *c, const mt_value *arg) {
  cosines(c, arg, mt_argf(&arg[2]), mt_argf(&arg[3]), 0, arg[4]);
}
static void compose_blackman(mt_ctx *c, const mt_value *arg) {
  cosines(c, arg, 0.42, 0.5, 0.08, arg[2]);
}

static void compose_bartlett(mt_ctx *c, const mt_value *arg) {
  int64_t n;
  moth_tensor *x = places(c, arg, &n);
  moth_tensor *away = mt_op1(c, "abs", mt_ops(c, "sub", mt_ops(c, "mul", x, 2), 1));
  rounded(c, mt_ops(c, "add", mt_op1(c, "neg", away), 1), n, arg[2]);
}

/* The Bessel function I0 of sqrt(z) by its power series, whose terms fall fast for windows. */
static moth_tensor *bessel(mt_ctx *c, moth_tensor *z, double largest) {
  moth_tensor *sum = mt_op1(c, "ones_like", z), *term = sum;
  double bound = 1;
  for (int k = 1; k < 500 && !c->status; k++) {
    double factor = 0.25 / ((double)k * k);
    term = mt_ops(c, "mul", mt_op2(c, "mul", term, z), factor);
    sum = mt_op2(c, "add", sum, term);
    bound *= largest * factor;
    if (k > 4 && bound < 1e-17) break;
  }
  return sum;
}

static void compose_kaiser(mt_ctx *c, const mt_value *arg) {
  double beta = mt_argf(&arg[2]);
  int64_t n;
  moth_tensor *x = places(c, arg, &n);
  moth_tensor *t = mt_ops(c, "sub", mt_ops(c, "mul", x, 2), 1);
  moth_tensor *inside = mt_ops(c, "add", mt_op1(c, "neg", mt_op1(c, "square", t)), 1);
  moth_tensor *z = mt_ops(c, "mul", inside, beta * beta);
  moth_tensor *whole = MT_DO(c, "_full", mt_ints(NULL, 0), mt_f(beta * beta), mt_i(MT_F64));
  moth_tensor *w = mt_op2(c, "div", bessel(c, z, beta * beta), bessel(c, whole, beta * beta));
  rounded(c, w, n, arg[3]);
}

static const mt_op ops[] = {
    {.schema = "hann_window(int window_length, bool periodic=true, *, dtype? dtype=nil) -> tensor",
     .help = "0.5 - 0.5 cos(2 pi k / N).",
     .types = NEW,
     .compose = compose_hann,
     .sample = "6"},
    {.schema = "hamming_window(int window_length, bool periodic=true, float alpha=0.54, float "
               "beta=0.46, *, dtype? dtype=nil) -> tensor",
     .help = "alpha - beta cos(2 pi k / N).",
     .types = NEW,
     .compose = compose_hamming,
     .sample = "6"},
    {.schema =
         "blackman_window(int window_length, bool periodic=true, *, dtype? dtype=nil) -> tensor",
     .help = "0.42 - 0.5 cos(2 pi k / N) + 0.08 cos(4 pi k / N).",
     .types = NEW,
     .compose = compose_blackman,
     .sample = "6"},
    {.schema =
         "bartlett_window(int window_length, bool periodic=true, *, dtype? dtype=nil) -> tensor",
     .help = "A triangle.",
     .types = NEW,
     .compose = compose_bartlett,
     .sample = "6"},
    {.schema = "kaiser_window(int window_length, bool periodic=true, float beta=12.0, *, dtype? "
               "dtype=nil) -> tensor",
     .help = "I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1.",
     .types = NEW,
     .compose = compose_kaiser,
     .sample = "6"},
};
MT_FAMILY(window, ops);
