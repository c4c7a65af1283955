/* rearrange.c - results that hold the input's elements in another order: flip, roll, concat, tril
 * and triu, repeated positions. Each element is copied once; nothing is computed. */
#include "accumulate.h"
#include "move.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

/* flip(x, dims): the same view with negative strides, copied */
int mt_cpu_flip(const mt_kargs *k) {
  const mt_value *dims = &k->arg[1];
  mt_view v = *k->in[0];
  for (int i = 0; i < dims->n && v.numel > 0; i++) {
    int d = (int)dims->u.ints[i];
    if (v.ndim == 0) break;
    v.data += (v.size[d] - 1) * v.stride[d] * bytes(&v);
    v.stride[d] = -v.stride[d];
  }
  mt_move_copy(k->par, k->out[0], &v);
  return MT_OK;
}

/* Copies with each dim from `d` on turned by its shift: two pieces a dim. */
static void roll_from(const mt_kargs *k, mt_view out, mt_view x, const int64_t *shift, int d) {
  while (d < x.ndim && shift[d] == 0) d++;
  if (d == x.ndim) {
    mt_move_copy(k->par, &out, &x);
    return;
  }
  int64_t n = x.size[d], s = shift[d];
  mt_view o = out, v = x;
  o.size[d] = v.size[d] = s;
  v.data = x.data + (n - s) * x.stride[d] * bytes(&x);
  roll_from(k, o, v, shift, d + 1);
  o.size[d] = v.size[d] = n - s;
  v.data = x.data;
  o.data = out.data + s * out.stride[d] * bytes(&out);
  roll_from(k, o, v, shift, d + 1);
}

/* roll(x, int[] shifts, dim[] dims), as many of one as of the other */
int mt_cpu_roll(const mt_kargs *k) {
  const mt_view *x = k->in[0];
  int64_t shift[MT_MAX_DIM] = {0};
  if (x->numel == 0) return MT_OK;
  for (int i = 0; i < k->arg[2].n && x->ndim > 0; i++) {
    int d = (int)k->arg[2].u.ints[i];
    int64_t n = x->size[d], s = (shift[d] + k->arg[1].u.ints[i] % n) % n;
    shift[d] = s < 0 ? s + n : s;
  }
  roll_from(k, *k->out[0], *x, shift, 0);
  return MT_OK;
}

/* concat(tensors, dim): any dtypes; 1-d tensors without elements are skipped */
int mt_cpu_concat(const mt_kargs *k) {
  const mt_view *out = k->out[0];
  int dim = (int)MT_KARG_INT(k, 1);
  int64_t at = 0;
  for (int i = 0; i < mt_karg_len(k, 0); i++) {
    const mt_view *x = k->in[i];
    if (x->ndim != out->ndim) continue;
    mt_view part = *out;
    part.size[dim] = x->size[dim];
    part.numel = x->numel;
    part.contiguous = out->contiguous && (dim == 0 || x->numel == out->numel);
    part.data = out->data + at * out->stride[dim] * bytes(out);
    at += x->size[dim];
    if (x->numel == 0) continue;
    if (x->dtype == out->dtype) {
      mt_move_copy(k->par, &part, x);
      continue;
    }
    int status = mt_convert_view(k, &part, x);
    if (status != MT_OK) return status;
  }
  return MT_OK;
}

/* ---- tril, triu ---- */

typedef struct job {
  const mt_view *x, *out;
  mt_walk w; /* of all dims but the last */
  int64_t diagonal;
  bool lower;
} job;

static void triangle_rows(void *ctx, int64_t begin, int64_t end, int worker) {
  const job *j = ctx;
  const int size = (int)bytes(j->x), last = j->x->ndim - 1;
  const int64_t rows = j->x->size[last - 1], cols = j->x->size[last];
  const int64_t xs = j->x->stride[last] * size, os = j->out->stride[last] * size;
  const uint64_t zero = 0;
  int64_t at = begin;
  mt_cursor c;
  (void)worker;
  mt_cursor_seek(&j->w, &c, begin, end);
  while (mt_cursor_next(&j->w, &c)) {
    for (int64_t r = 0; r < c.n; r++, at++) {
      const char *x = j->x->data + c.off[1] + r * j->w.step[1];
      char *out = j->out->data + c.off[0] + r * j->w.step[0];
      /* columns [0, cut) are below or on the diagonal (lower), or strictly below (upper) */
      int64_t cut = at % rows + j->diagonal + j->lower;
      cut = cut < 0 ? 0 : cut > cols ? cols : cut;
      int64_t from = j->lower ? 0 : cut, n = j->lower ? cut : cols - cut;
      int64_t blank = j->lower ? cut : 0;
      if (x != out) mt_move_row(size, out + from * os, os, x + from * xs, xs, n);
      mt_move_set(size, out + blank * os, os, (const char *)&zero, cols - n);
    }
  }
}

static int triangle(const mt_kargs *k, bool lower) {
  const mt_view *x = k->in[0], *out = k->out[0];
  job j = {.x = x, .out = out, .diagonal = MT_KARG_INT(k, 1), .lower = lower};
  if (x->numel == 0) return MT_OK;
  mt_walk_begin(&j.w, 2);
  for (int d = 0; d < x->ndim - 1; d++) {
    mt_walk_dim(&j.w, x->size[d],
                (const int64_t[]){out->stride[d] * bytes(out), x->stride[d] * bytes(x)});
  }
  mt_walk_end(&j.w);
  mt_parallel_for(k->par, j.w.numel, MT_MOVE_GRAIN / x->size[x->ndim - 1] + 1, triangle_rows, &j);
  return MT_OK;
}

/* tril(x, int diagonal), triu(x, int diagonal) */
int mt_cpu_tril(const mt_kargs *k) { return triangle(k, true); }
int mt_cpu_triu(const mt_kargs *k) { return triangle(k, false); }

/* repeat_positions(repeats, int n): position i as often as repeats[i] says, n in all. A negative
 * count, or a sum that is not n, is an error. */
int mt_cpu_repeat_positions(const mt_kargs *k) {
  const mt_view *r = k->in[0], *out = k->out[0];
  int64_t n = 0, os = out->stride[0];
  int64_t *to = (int64_t *)(void *)out->data;
  for (int64_t i = 0; i < r->numel; i++) {
    int64_t times = *(const int64_t *)(const void *)(r->data + mt_view_at(r, i));
    if (times < 0 || times > out->numel - n) return MT_ERROR;
    for (int64_t t = 0; t < times; t++) to[n++ * os] = i + k->index_base;
  }
  return n == out->numel ? MT_OK : MT_ERROR;
}
