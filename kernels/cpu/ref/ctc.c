/* ctc.c - plain connectionist temporal classification; see ../ctc.c for the arguments.
 *
 * By the definition: every path of classes is listed, and those that collapse to the labels are
 * added up. Exponential, so for a few frames and classes only. The gradient follows from the share
 * of the paths that are in a class at a frame. */
#include <math.h>
#include <stdlib.h>

#include "ref.h"

enum {
  MOST = 16
}; /* frames */

typedef struct sample {
  const mt_kargs *k;
  const mt_view *probs;
  int64_t n, frames, classes, blank, label[64], labels;
  int64_t path[MOST];
} sample;

static long double prob(const sample *s, int64_t t, int64_t c) {
  int64_t at[3] = {t, s->n, c};
  return expl(mt_ref_load(s->probs, mt_ref_position(s->probs, at)).re);
}

/* Does the path give the labels: repeats joined, blanks dropped? */
static bool collapses(const sample *s) {
  int64_t n = 0;
  for (int64_t t = 0; t < s->frames; t++) {
    int64_t c = s->path[t];
    if (c == s->blank || (t && c == s->path[t - 1])) continue;
    if (n == s->labels || c != s->label[n++]) return false;
  }
  return n == s->labels;
}

/* The weight of all paths that agree with the first `t` frames; adds to share[frame][class]. */
static long double walk(sample *s, int64_t t, long double weight, long double *share) {
  long double sum = 0;
  if (t == s->frames) {
    if (!collapses(s)) return 0;
    for (int64_t i = 0; i < t; i++) share[i * s->classes + s->path[i]] += weight;
    return weight;
  }
  for (int64_t c = 0; c < s->classes; c++) {
    s->path[t] = c;
    sum += walk(s, t + 1, weight * prob(s, t, c), share);
  }
  return sum;
}

static sample sample_of(const mt_kargs *k, int in, int blank, int64_t n) {
  const mt_view *targets = k->in[in + 1];
  sample s = {.k = k, .probs = k->in[in], .n = n, .blank = MT_KARG_INT(k, blank)};
  int64_t first = targets->ndim == 2 ? n * targets->size[1] : 0;
  s.classes = s.probs->size[2];
  s.frames = mt_ref_int(k->in[in + 2], n);
  s.labels = mt_ref_int(k->in[in + 3], n);
  for (int64_t i = 0; i < n && targets->ndim == 1; i++) first += mt_ref_int(k->in[in + 3], i);
  for (int64_t j = 0; j < s.labels; j++)
    s.label[j] = mt_ref_int(targets, first + j) - k->index_base;
  return s;
}

int mt_ref_ctc_loss(const mt_kargs *k) {
  long double share[MOST * 64] = {0};
  for (int64_t n = 0; n < k->in[0]->size[1]; n++) {
    sample s = sample_of(k, 0, 4, n);
    if (s.frames > MOST || s.classes > 64) return MT_ERROR;
    mt_ref_store(k->out[0], n, (mt_num){-logl(walk(&s, 0, 1, share)), 0});
  }
  return MT_OK;
}

int mt_ref_ctc_loss_back(const mt_kargs *k) {
  for (int64_t n = 0; n < k->in[1]->size[1]; n++) {
    sample s = sample_of(k, 1, 6, n);
    long double share[MOST * 64] = {0}, g = mt_ref_load(k->in[0], n).re;
    if (s.frames > MOST || s.classes > 64) return MT_ERROR;
    long double all = walk(&s, 0, 1, share);
    for (int64_t t = 0; t < k->in[1]->size[0]; t++)
      for (int64_t c = 0; c < s.classes; c++) {
        int64_t at[3] = {t, n, c};
        long double d = t < s.frames ? prob(&s, t, c) - share[t * s.classes + c] / all : 0;
        if (all == 0 && t < s.frames) d = k->arg[7].u.i ? 0 : NAN;
        mt_ref_store(k->out[0], mt_ref_position(k->out[0], at), (mt_num){d * g, 0});
      }
  }
  return MT_OK;
}
