/* sort.c - plain sorting and searching: insertion by comparison. */
#include <math.h>

#include "ref.h"

/* Whether a comes strictly before b in ascending order; NaN is the largest. */
static bool before(long double a, long double b) {
  if (isnan(a)) return false;
  return isnan(b) || a < b;
}

/* Position of item i of line `line` along dim. */
static int64_t item(const mt_view *x, int dim, int64_t line, int64_t i) {
  int64_t at[MT_MAX_DIM] = {0};
  for (int d = x->ndim - 1; d >= 0; d--) {
    if (d == dim) continue;
    at[d] = line % x->size[d];
    line /= x->size[d];
  }
  at[dim] = i;
  return mt_ref_position(x, at);
}

/* Writes results first .. first+n-1 of every sorted line. */
static int sorted(const mt_kargs *k, int dim, bool descending, int64_t first, bool keep) {
  const mt_view *x = k->in[0], *v = k->out[0], *index = k->out[1];
  int64_t n = x->ndim ? x->size[dim] : 1, lines = x->numel / (n ? n : 1), order[512];
  int64_t take = v->numel / (lines ? lines : 1);
  if (n > 512) return MT_ERROR;
  for (int64_t line = 0; line < lines; line++) {
    for (int64_t i = 0; i < n; i++) {
      int64_t j = i;
      long double a = mt_ref_load(x, x->ndim ? item(x, dim, line, i) : 0).re;
      for (; j > 0; j--) {
        long double b = mt_ref_load(x, item(x, dim, line, order[j - 1])).re;
        if (!(descending ? before(b, a) : before(a, b))) break;
        order[j] = order[j - 1];
      }
      order[j] = i;
    }
    for (int64_t i = 0; i < take; i++) {
      int64_t from = order[first + i], to = keep && x->ndim ? item(v, dim, line, i) : line;
      mt_ref_store(v, to, mt_ref_load(x, x->ndim ? item(x, dim, line, from) : 0));
      mt_ref_store(index, to, (mt_num){(long double)(from + k->index_base), 0});
    }
  }
  return MT_OK;
}

int mt_ref_sort(const mt_kargs *k) {
  return sorted(k, (int)MT_KARG_INT(k, 1), MT_KARG_INT(k, 2) != 0, 0, true);
}

int mt_ref_topk(const mt_kargs *k) {
  return sorted(k, (int)MT_KARG_INT(k, 2), MT_KARG_INT(k, 3) != 0, 0, true);
}

int mt_ref_kthvalue(const mt_kargs *k) {
  return sorted(k, (int)MT_KARG_INT(k, 2), false, MT_KARG_INT(k, 1) - 1, MT_KARG_INT(k, 3) != 0);
}

int mt_ref_searchsorted(const mt_kargs *k) {
  const mt_view *s = k->in[0], *values = k->in[1];
  int64_t n = s->size[s->ndim - 1];
  for (int64_t p = 0; p < values->numel; p++) {
    int64_t line = s->ndim > 1 ? p / values->size[values->ndim - 1] : 0, i = 0;
    long double x = mt_ref_load(values, p).re;
    for (; i < n; i++) {
      long double a = mt_ref_load(s, line * n + i).re;
      if (MT_KARG_INT(k, 2) ? before(x, a) : !before(a, x)) break;
    }
    mt_ref_store(k->out[0], p, (mt_num){(long double)(i + k->index_base), 0});
  }
  return MT_OK;
}
