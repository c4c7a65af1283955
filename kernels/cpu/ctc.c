/* ctc.c - connectionist temporal classification: the loss of a sequence whose alignment is unknown.
 *
 * The label sequence is read with blanks around every label (length L = 2 S + 1); alpha sums, in
 * logarithms, the alignments of its beginning to the first frames, beta those of its end to the
 * last ones (Graves et al. 2006). All in f64: T steps of log-add lose nothing worth mentioning. One
 * sample is one task. A label sequence that does not fit the frames has loss inf.
 *
 *   ctc_loss(log_probs, targets, input_lengths, target_lengths, blank) -> loss (N)
 *   ctc_loss_back(g, log_probs, targets, input_lengths, target_lengths, loss, blank, zero_infinity)
 *     -> gradient of log_probs, which are assumed to come from log_softmax
 *
 * log_probs: (T, N, C). targets: (N, S), or 1-d with the sequences one after the other; positions.
 * Lengths: (N), integers. blank is 0-based. loss and g: contiguous. */
#include <math.h>
#include <string.h>

#include "isa.h"
#include "lane.h"

typedef struct ctc {
  const mt_kargs *k;
  const mt_view *probs, *targets, *g, *loss, *out;
  int64_t frames, samples, classes, blank;
  int64_t *frame_count, *label_count, *first; /* of every sample; first: position in targets */
  int64_t longest;                            /* most labels of a sample */
  char *work;                                 /* of the workers */
  size_t each;                                /* bytes of one */
  bool zero_infinity;
} ctc;

/* What a worker has: log-probabilities of a frame, labels with blanks, alpha of all frames, two
 * rows of beta, the sums over the places of each class. */
typedef struct desk {
  double *frame, *alpha, *beta, *next, *sum;
  int64_t *labels, length;
} desk;

static double log_add(double a, double b) {
  if (a < b) {
    double t = a;
    a = b;
    b = t;
  }
  return b == -INFINITY ? a : a + log1p(exp(b - a));
}

static int64_t whole(const mt_kargs *k, const mt_view *v, int64_t i) {
  int64_t x;
  mt_dtype d = (mt_dtype)v->dtype;
  int64_t step = v->ndim ? v->stride[v->ndim - 1] : 0;
  k->isa->lane->load[MT_LI64][d](&x, v->data + i * step * mt_dtype_size(d), 1, 1);
  return x;
}

/* The label number j of sample n, as stored. */
static int64_t stored_label(const ctc *p, int64_t n, int64_t j) {
  const mt_view *t = p->targets;
  mt_view row = *t;
  if (t->ndim == 1) return whole(p->k, t, p->first[n] + j);
  row.data += n * t->stride[0] * mt_dtype_size((mt_dtype)t->dtype);
  return whole(p->k, &row, j);
}

static size_t desk_size(const ctc *p) {
  size_t l = 2 * (size_t)p->longest + 1, c = (size_t)p->classes, t = (size_t)p->frames, rows, n;
  if (l > SIZE_MAX / 256 || c > SIZE_MAX / 256) return SIZE_MAX;
  if (__builtin_mul_overflow(l, p->out ? t : 2, &rows)) return SIZE_MAX;
  n = 2 * c + 3 * l;
  if (__builtin_add_overflow(n, rows, &n) || n > SIZE_MAX / 16) return SIZE_MAX;
  return (n * sizeof(double) + 63) / 64 * 64;
}

/* Inputs from `at` on: log_probs, targets, input_lengths, target_lengths. */
static void describe(ctc *p, const mt_kargs *k, int at) {
  memset(p, 0, sizeof *p);
  p->k = k;
  p->probs = k->in[at];
  p->targets = k->in[at + 1];
  p->frames = p->probs->size[0];
  p->samples = p->probs->size[1];
  p->classes = p->probs->size[2];
  p->longest = p->targets->ndim == 2 ? p->targets->size[1] : p->targets->numel;
  if (p->targets->ndim == 1 && p->samples > 1) { /* the sum of all is too much for one */
    int64_t most = 0;
    for (int64_t n = 0; n < p->samples; n++) {
      int64_t l = whole(k, k->in[at + 3], n);
      if (l > most) most = l;
    }
    if (most < p->longest) p->longest = most;
  }
}

static size_t scratch_size(ctc *p) {
  size_t workers = (size_t)(p->k->par ? p->k->par->nthreads : 1), n, each = desk_size(p);
  if (each == SIZE_MAX || __builtin_mul_overflow(workers, each, &n)) return SIZE_MAX;
  return n > SIZE_MAX / 2 ? SIZE_MAX : n + 3 * (size_t)p->samples * 8 + 64;
}

static int bad(const ctc *p, int input, int64_t pos, int64_t value, int64_t first, int64_t last) {
  *p->k->error = (mt_kerror){input, pos, value, first, last};
  return MT_BADINDEX;
}

/* Reads lengths and checks everything before any of it is used. */
static int prepare(ctc *p, int at) {
  const mt_kargs *k = p->k;
  int64_t base = k->index_base, used = 0;
  p->each = desk_size(p);
  p->work = k->scratch;
  p->frame_count =
      (int64_t *)((char *)k->scratch + p->each * (size_t)(k->par ? k->par->nthreads : 1));
  p->label_count = p->frame_count + p->samples;
  p->first = p->label_count + p->samples;
  for (int64_t n = 0; n < p->samples; n++) {
    int64_t t = whole(k, k->in[at + 2], n), l = whole(k, k->in[at + 3], n);
    int64_t room = p->targets->ndim == 1 ? p->targets->numel - used : p->longest;
    if (t < 0 || t > p->frames) return bad(p, at + 2, n, t, 0, p->frames);
    if (l < 0 || l > room) return bad(p, at + 3, n, l, 0, room);
    p->frame_count[n] = t;
    p->label_count[n] = l;
    p->first[n] = p->targets->ndim == 1 ? used : n * p->longest;
    used += l;
    for (int64_t j = 0; j < l; j++) {
      int64_t v = stored_label(p, n, j);
      if (v < base || v >= base + p->classes)
        return bad(p, at + 1, p->first[n] + j, v, base, base + p->classes - 1);
    }
  }
  return MT_OK;
}

static void sit_down(const ctc *p, desk *d, int64_t n, int worker) {
  double *at = (double *)(void *)(p->work + (size_t)worker * p->each);
  int64_t l = 2 * p->longest + 1;
  d->frame = at;
  d->sum = d->frame + p->classes;
  d->beta = d->sum + p->classes;
  d->next = d->beta + l;
  d->labels = (int64_t *)(void *)(d->next + l);
  d->alpha = (double *)(void *)(d->labels + l);
  d->length = 2 * p->label_count[n] + 1;
  for (int64_t s = 0; s < d->length; s++)
    d->labels[s] = s % 2 ? stored_label(p, n, s / 2) - p->k->index_base : p->blank;
}

static void read_frame(const ctc *p, desk *d, int64_t t, int64_t n) {
  const mt_view *v = p->probs;
  mt_dtype e = (mt_dtype)v->dtype;
  p->k->isa->lane->load[MT_LF64][e](
      d->frame, v->data + (t * v->stride[0] + n * v->stride[1]) * mt_dtype_size(e), p->classes,
      v->stride[2]);
}

/* Two equal labels need the blank between them. */
static bool may_skip(const desk *d, int64_t s) {
  return s >= 2 && s % 2 && d->labels[s] != d->labels[s - 2];
}

/* One frame of alpha from the one before (NULL: the first frame). */
static void step_alpha(const desk *d, const double *before, double *now) {
  for (int64_t s = 0; s < d->length; s++) {
    double a = -INFINITY;
    if (!before) {
      a = s < 2 ? 0 : a;
    } else {
      a = before[s];
      if (s >= 1) a = log_add(a, before[s - 1]);
      if (may_skip(d, s)) a = log_add(a, before[s - 2]);
    }
    now[s] = a + d->frame[d->labels[s]];
  }
}

static void forward(void *ctx, int64_t begin, int64_t end, int worker) {
  const ctc *p = ctx;
  for (int64_t n = begin; n < end; n++) {
    desk d;
    int64_t frames = p->frame_count[n];
    sit_down(p, &d, n, worker);
    double *row[2] = {d.alpha, d.alpha + d.length}, loss;
    for (int64_t t = 0; t < frames; t++) {
      read_frame(p, &d, t, n);
      step_alpha(&d, t ? row[(t - 1) % 2] : NULL, row[t % 2]);
    }
    if (frames == 0) {
      loss = d.length == 1 ? 0 : INFINITY;
    } else {
      const double *last = row[(frames - 1) % 2];
      loss = last[d.length - 1];
      if (d.length > 1) loss = log_add(loss, last[d.length - 2]);
      loss = -loss;
    }
    p->k->isa->lane->store[MT_LF64][p->k->out[0]->dtype](
        p->k->out[0]->data + n * mt_dtype_size((mt_dtype)p->k->out[0]->dtype), &loss, 1, 1);
  }
}

size_t mt_cpu_ctc_loss_scratch(const mt_kargs *k) {
  ctc p;
  describe(&p, k, 0);
  return scratch_size(&p);
}

int mt_cpu_ctc_loss(const mt_kargs *k) {
  ctc p;
  describe(&p, k, 0);
  p.blank = MT_KARG_INT(k, 4);
  int status = prepare(&p, 0);
  if (status == MT_OK) mt_parallel_for(k->par, p.samples, 1, forward, &p);
  return status;
}

/* ---- backward ---- */

/* One frame of beta from the one behind it (NULL: the last frame). */
static void step_beta(const desk *d, const double *behind, double *now) {
  int64_t l = d->length;
  for (int64_t s = 0; s < l; s++) {
    double b = -INFINITY;
    if (!behind) {
      b = s >= l - 2 ? 0 : b;
    } else {
      b = behind[s];
      if (s + 1 < l) b = log_add(b, behind[s + 1]);
      if (s + 2 < l && may_skip(d, s + 2)) b = log_add(b, behind[s + 2]);
    }
    now[s] = b + d->frame[d->labels[s]];
  }
}

static void write_frame(const ctc *p, const desk *d, int64_t t, int64_t n) {
  const mt_view *v = p->out;
  mt_dtype e = (mt_dtype)v->dtype;
  p->k->isa->lane->store[MT_LF64][e](
      v->data + (t * v->stride[0] + n * v->stride[1]) * mt_dtype_size(e), d->sum, p->classes,
      v->stride[2]);
}

/* sum := the gradient of one frame, of which d->frame, alpha and beta are there. */
static void frame_gradient(const ctc *p, desk *d, const double *alpha, const double *beta,
                           double loss, double g) {
  for (int64_t c = 0; c < p->classes; c++) d->sum[c] = -INFINITY;
  for (int64_t s = 0; s < d->length; s++) {
    double *sum = &d->sum[d->labels[s]];
    *sum = log_add(*sum, alpha[s] + beta[s]);
  }
  for (int64_t c = 0; c < p->classes; c++) {
    double lp = d->frame[c], hit = d->sum[c] == -INFINITY ? 0 : exp(d->sum[c] + loss - lp);
    d->sum[c] = (exp(lp) - hit) * g;
    if (loss == INFINITY) d->sum[c] = p->zero_infinity ? 0 : NAN;
  }
}

static double get(const ctc *p, const mt_view *v, int64_t n) {
  double x;
  mt_dtype d = (mt_dtype)v->dtype;
  p->k->isa->lane->load[MT_LF64][d](&x, v->data + n * v->stride[0] * mt_dtype_size(d), 1, 1);
  return x;
}

static void backward(void *ctx, int64_t begin, int64_t end, int worker) {
  const ctc *p = ctx;
  for (int64_t n = begin; n < end; n++) {
    desk d;
    int64_t frames = p->frame_count[n];
    double loss = get(p, p->loss, n), g = get(p, p->g, n);
    sit_down(p, &d, n, worker);
    for (int64_t t = 0; t < frames; t++) {
      double *now = d.alpha + t * d.length;
      read_frame(p, &d, t, n);
      step_alpha(&d, t ? now - d.length : NULL, now);
    }
    for (int64_t t = p->frames - 1; t >= 0; t--) {
      if (t >= frames) { /* padding */
        memset(d.sum, 0, (size_t)p->classes * sizeof(double));
      } else {
        double *now = t % 2 ? d.beta : d.next, *behind = t % 2 ? d.next : d.beta;
        read_frame(p, &d, t, n);
        step_beta(&d, t == frames - 1 ? NULL : behind, now);
        frame_gradient(p, &d, d.alpha + t * d.length, now, loss, g);
      }
      write_frame(p, &d, t, n);
    }
  }
}

static void describe_back(ctc *p, const mt_kargs *k) {
  describe(p, k, 1);
  p->out = k->out[0];
  p->g = k->in[0];
  p->loss = k->in[5];
}

size_t mt_cpu_ctc_loss_back_scratch(const mt_kargs *k) {
  ctc p;
  describe_back(&p, k);
  return scratch_size(&p);
}

int mt_cpu_ctc_loss_back(const mt_kargs *k) {
  ctc p;
  describe_back(&p, k);
  p.blank = MT_KARG_INT(k, 6);
  p.zero_infinity = k->arg[7].u.i;
  int status = prepare(&p, 1);
  if (status == MT_OK) mt_parallel_for(k->par, p.samples, 1, backward, &p);
  return status;
}
