/* pad.c - padding, element by element. */
#include <string.h>

#include "ref.h"

/* The position of dim size n that x shows, by walking back into it step by step; -1: none. */
static int64_t shown(const char *mode, int64_t x, int64_t n) {
  while (x < 0 || x >= n) {
    if (strcmp(mode, "constant") == 0) return -1;
    if (strcmp(mode, "replicate") == 0)
      x += x < 0 ? 1 : -1;
    else if (strcmp(mode, "circular") == 0)
      x += x < 0 ? n : -n;
    else
      x = x < 0 ? -x : 2 * (n - 1) - x;
  }
  return x;
}

/* Position in `small` of element p of `large`, -1: none. */
static int64_t source(const mt_kargs *k, const mt_view *small, const mt_view *large, int64_t p) {
  int64_t at[MT_MAX_DIM];
  const mt_value *pad = &k->arg[1];
  mt_ref_coords(large, p, at);
  for (int d = 0; d < small->ndim; d++) {
    int i = 2 * (small->ndim - 1 - d);
    at[d] = shown(k->arg[2].u.s, at[d] - (i < pad->n ? pad->u.ints[i] : 0), small->size[d]);
    if (at[d] < 0) return -1;
  }
  return mt_ref_position(small, at);
}

int mt_ref_pad(const mt_kargs *k) {
  for (int64_t p = 0; p < k->out[0]->numel; p++) {
    int64_t from = source(k, k->in[0], k->out[0], p);
    mt_num value = {mt_karg_f(k, 3), 0};
    mt_ref_store(k->out[0], p, from < 0 ? value : mt_ref_load(k->in[0], from));
  }
  return MT_OK;
}

int mt_ref_pad_back(const mt_kargs *k) {
  const mt_view *g = k->in[0], *out = k->out[0];
  for (int64_t p = 0; p < out->numel; p++) mt_ref_store(out, p, (mt_num){0, 0});
  for (int64_t p = 0; p < g->numel; p++) {
    int64_t to = source(k, out, g, p);
    if (to < 0) continue;
    mt_num a = mt_ref_load(out, to), b = mt_ref_load(g, p);
    bool logic = out->dtype == MT_BOOL;
    mt_ref_store(out, to, logic ? (mt_num){a.re || b.re, 0} : (mt_num){a.re + b.re, a.im + b.im});
  }
  return MT_OK;
}
