/* ref/conv.c - plain convolution and its gradients; the arguments of their twins in conv.c.
 *
 * Every element of a result loops over all that could contribute to it and asks whether it does. */
#include "ref.h"

struct geometry {
  int dims;
  int64_t stride[3], padding[3], dilation[3], groups;
};

static int64_t list_at(const mt_value *v, int i) {
  if (v->kind != MT_INTS) return v->u.i;
  return v->u.ints[v->n == 1 ? 0 : i];
}

static struct geometry read_geometry(const mt_kargs *k) {
  struct geometry g = {.dims = k->in[1]->ndim - 2, .groups = mt_karg_i(k, 6)};
  for (int d = 0; d < g.dims; d++) {
    g.stride[d] = list_at(&k->arg[3], d);
    g.padding[d] = list_at(&k->arg[4], d);
    g.dilation[d] = list_at(&k->arg[5], d);
  }
  return g;
}

/* The next triple below `size`; false after the last. */
static bool next(int dims, const int64_t *size, int64_t *at) {
  for (int d = dims - 1; d >= 0; d--) {
    if (++at[d] < size[d]) return true;
    at[d] = 0;
  }
  return false;
}

/* Input position of output position `y` and tap `t`; false outside of the input. */
static bool input_at(const struct geometry *g, const int64_t *in, const int64_t *y,
                     const int64_t *t, int64_t *x) {
  bool inside = true;
  for (int d = 0; d < g->dims; d++) {
    x[d] = y[d] * g->stride[d] + t[d] * g->dilation[d] - g->padding[d];
    inside = inside && x[d] >= 0 && x[d] < in[d];
  }
  return inside;
}

/* Element (n, c, at..) or (o, i, at..) of a view. */
static long double element(const mt_view *v, int64_t a, int64_t b, const int64_t *at) {
  int64_t p[MT_MAX_DIM] = {a, b, at[0], v->ndim > 3 ? at[1] : 0, v->ndim > 4 ? at[2] : 0};
  return mt_ref_load(v, mt_ref_position(v, p)).re;
}

int mt_ref_conv(const mt_kargs *k) {
  const mt_view *x = k->in[0], *w = k->in[1], *out = k->out[0];
  struct geometry g = read_geometry(k);
  int64_t per_group = w->size[0] / g.groups, at[MT_MAX_DIM], from[3];
  for (int64_t p = 0; p < out->numel; p++) {
    mt_ref_coords(out, p, at);
    long double sum = 0;
    for (int64_t i = 0; i < w->size[1]; i++) {
      int64_t t[3] = {0, 0, 0}, c = at[1] / per_group * w->size[1] + i;
      do {
        if (!input_at(&g, x->size + 2, at + 2, t, from)) continue;
        sum += element(x, at[0], c, from) * element(w, at[1], i, t);
      } while (next(g.dims, w->size + 2, t));
    }
    if (k->nin > 2 && k->in[2]) sum += mt_ref_load(k->in[2], at[1]).re;
    mt_ref_store(out, p, (mt_num){sum, 0});
  }
  return MT_OK;
}

/* The output position that reads input position x through tap t, if there is one. */
static bool output_at(const struct geometry *g, const int64_t *out, const int64_t *x,
                      const int64_t *t, int64_t *y) {
  for (int d = 0; d < g->dims; d++) {
    int64_t at = x[d] + g->padding[d] - t[d] * g->dilation[d];
    if (at < 0 || at % g->stride[d] != 0 || at / g->stride[d] >= out[d]) return false;
    y[d] = at / g->stride[d];
  }
  return true;
}

int mt_ref_conv_back_input(const mt_kargs *k) {
  const mt_view *dy = k->in[0], *w = k->in[1], *out = k->out[0];
  struct geometry g = read_geometry(k);
  int64_t per_group = w->size[0] / g.groups, at[MT_MAX_DIM], y[3];
  for (int64_t p = 0; p < out->numel; p++) {
    mt_ref_coords(out, p, at);
    long double sum = 0;
    int64_t group = at[1] / w->size[1], i = at[1] % w->size[1], t[3] = {0, 0, 0};
    do {
      if (!output_at(&g, dy->size + 2, at + 2, t, y)) continue;
      for (int64_t o = group * per_group; o < (group + 1) * per_group; o++) {
        sum += element(dy, at[0], o, y) * element(w, o, i, t);
      }
    } while (next(g.dims, w->size + 2, t));
    mt_ref_store(out, p, (mt_num){sum, 0});
  }
  return MT_OK;
}

int mt_ref_conv_back_weight(const mt_kargs *k) {
  const mt_view *dy = k->in[0], *x = k->in[1], *out = k->out[0];
  struct geometry g = read_geometry(k);
  int64_t per_group = out->size[0] / g.groups, at[MT_MAX_DIM], from[3];
  for (int64_t p = 0; p < out->numel; p++) {
    mt_ref_coords(out, p, at);
    long double sum = 0;
    int64_t c = at[0] / per_group * out->size[1] + at[1];
    for (int64_t n = 0; n < x->size[0] && dy->numel > 0; n++) {
      int64_t y[3] = {0, 0, 0};
      do {
        if (!input_at(&g, x->size + 2, y, at + 2, from)) continue;
        sum += element(dy, n, at[0], y) * element(x, n, c, from);
      } while (next(g.dims, dy->size + 2, y));
    }
    mt_ref_store(out, p, (mt_num){sum, 0});
  }
  return MT_OK;
}
