/* shape.c - see shape.h. */
#include "shape.h"

#include <string.h>

#include "status.h"

int64_t mt_shape_numel(int ndim, const int64_t *size) {
  int64_t n = 1;
  bool zero = false;
  for (int i = 0; i < ndim; i++) {
    if (size[i] < 0) return -1;
    if (size[i] == 0) {
      zero = true;
    } else if (__builtin_mul_overflow(n, size[i], &n)) {
      return -1;
    }
  }
  return zero ? 0 : n;
}

void mt_shape_contiguous(int ndim, const int64_t *size, int64_t *stride) {
  int64_t n = 1;
  for (int i = ndim - 1; i >= 0; i--) {
    stride[i] = n;
    if (size[i] > 1) n *= size[i];
  }
}

bool mt_shape_is_contiguous(int ndim, const int64_t *size, const int64_t *stride) {
  int64_t want = 1;
  for (int i = 0; i < ndim; i++)
    if (size[i] == 0) return true;
  for (int i = ndim - 1; i >= 0; i--) {
    if (size[i] != 1 && stride[i] != want) return false;
    want *= size[i];
  }
  return true;
}

/* The dims with more than one element, by rising stride. */
static int by_stride(int ndim, const int64_t *size, const int64_t *stride, int *order) {
  int n = 0;
  for (int i = ndim - 1; i >= 0; i--) {
    if (size[i] == 1) continue;
    int j = n++;
    for (; j > 0 && stride[order[j - 1]] > stride[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  return n;
}

bool mt_shape_is_dense(int ndim, const int64_t *size, const int64_t *stride) {
  int order[MT_MAX_DIM], n = by_stride(ndim, size, stride, order);
  int64_t want = 1;
  for (int i = 0; i < n; i++) {
    if (stride[order[i]] != want) return false;
    want *= size[order[i]];
  }
  return true;
}

bool mt_shape_overlaps(int ndim, const int64_t *size, const int64_t *stride) {
  int order[MT_MAX_DIM], n = by_stride(ndim, size, stride, order);
  int64_t reach = 0; /* farthest element of the dims before */
  for (int i = 0; i < ndim; i++)
    if (size[i] == 0) return false;
  for (int i = 0; i < n; i++) {
    if (stride[order[i]] <= reach) return true;
    reach += stride[order[i]] * (size[order[i]] - 1);
  }
  return false;
}

void mt_view_finish(mt_view *v) {
  v->numel = mt_shape_numel(v->ndim, v->size);
  v->contiguous = mt_shape_is_contiguous(v->ndim, v->size, v->stride);
}

static int broadcast_fail(moth_runtime *rt, int n, const mt_view *const *v) {
  char text[400] = "";
  size_t len = 0;
  for (int i = 0; i < n; i++) {
    if (!v[i]) continue;
    const char *s = mt_shape_str(rt, v[i]->ndim, v[i]->size);
    if (len + strlen(s) + 6 >= sizeof text) break;
    if (len) len += (size_t)(stpcpy(text + len, " and ") - (text + len));
    len += (size_t)(stpcpy(text + len, s) - (text + len));
  }
  return mt_fail(rt, MT_ERROR, "shapes %s do not broadcast together", text);
}

int mt_shape_broadcast(moth_runtime *rt, mt_spec *spec, int n, const mt_view *const *v) {
  int ndim = 0;
  for (int i = 0; i < n; i++)
    if (v[i] && v[i]->ndim > ndim) ndim = v[i]->ndim;
  spec->ndim = ndim;
  for (int d = 0; d < ndim; d++) spec->size[d] = 1;
  for (int i = 0; i < n; i++) {
    if (!v[i]) continue;
    int off = ndim - v[i]->ndim;
    for (int d = 0; d < v[i]->ndim; d++) {
      int64_t s = v[i]->size[d], *o = &spec->size[d + off];
      if (s == *o || s == 1) continue;
      if (*o != 1) return broadcast_fail(rt, n, v);
      *o = s;
    }
  }
  if (mt_shape_numel(ndim, spec->size) < 0)
    return mt_fail(rt, MT_ERROR, "a result of shape %s has too many elements",
                   mt_shape_str(rt, ndim, spec->size));
  return MT_OK;
}

bool mt_shape_equal(const mt_view *a, const mt_view *b) {
  return a->ndim == b->ndim &&
         memcmp(a->size, b->size, sizeof(int64_t) * (size_t)a->ndim) == 0;
}

bool mt_shape_expands(const mt_view *v, int ndim, const int64_t *size) {
  if (v->ndim > ndim) return false;
  for (int d = 0; d < v->ndim; d++) {
    int64_t want = size[d + ndim - v->ndim];
    if (v->size[d] != want && v->size[d] != 1) return false;
  }
  return true;
}

int mt_shape_dim(moth_runtime *rt, int *out, const char *arg, int64_t dim, int ndim) {
  int n = ndim ? ndim : 1, base = mt_base(rt);
  int64_t d = dim < 0 ? dim + n : dim;
  if (d < 0 || d >= n)
    return mt_fail(rt, MT_ERROR,
                   "argument '%s': dim %lld is out of range for a tensor with %d dims "
                   "(expected %d..%d or -%d..-1)",
                   arg, (long long)(dim < 0 ? dim : dim + base), ndim, base, n - 1 + base, n);
  *out = (int)d;
  return MT_OK;
}

int mt_shape_pos(moth_runtime *rt, int64_t *out, const char *arg, int64_t pos, int64_t size) {
  int base = mt_base(rt);
  int64_t p = pos < 0 ? pos + size : pos;
  if (p < 0 || p >= size)
    return mt_fail(rt, MT_ERROR,
                   "argument '%s': position %lld is out of range for a dim of size %lld "
                   "(expected %d..%lld or -%lld..-1)",
                   arg, (long long)(pos < 0 ? pos : pos + base), (long long)size, base,
                   (long long)(size - 1 + base), (long long)size);
  *out = p;
  return MT_OK;
}

/* Each run of v's dims that is contiguous in itself must be matched by whole new dims. */
bool mt_shape_view_strides(const mt_view *v, int ndim, const int64_t *size, int64_t *stride) {
  if (v->numel == 0 || v->contiguous) {
    mt_shape_contiguous(ndim, size, stride);
    return true;
  }
  int d = ndim - 1;
  int64_t run = 1, filled = 1, base = v->ndim ? v->stride[v->ndim - 1] : 1;
  for (int i = v->ndim - 1; i >= 0; i--) {
    run *= v->size[i];
    bool last = i == 0 || (v->size[i - 1] != 1 && v->stride[i - 1] != run * base);
    if (!last) continue;
    while (d >= 0 && (filled < run || size[d] == 1)) {
      stride[d] = filled * base;
      filled *= size[d];
      d--;
    }
    if (filled != run) return false;
    if (i > 0) {
      base = v->stride[i - 1];
      run = filled = 1;
    }
  }
  return d == -1;
}

void mt_spec_set(mt_spec *s, int ndim, const int64_t *size) {
  s->ndim = ndim;
  if (ndim) memcpy(s->size, size, sizeof(int64_t) * (size_t)ndim);
}

void mt_spec_like(mt_spec *s, const mt_view *v) { mt_spec_set(s, v->ndim, v->size); }

int mt_arg_list(const mt_call *c, int j, int64_t *out, int *n) {
  const mt_value *a = &c->arg[j];
  if (a->kind == MT_INT) {
    out[0] = a->u.i;
    *n = 1;
    return MT_OK;
  }
  if (a->kind != MT_INTS) {
    *n = 0;
    return MT_OK;
  }
  if (a->n > MT_MAX_DIM)
    return mt_fail(c->rt, MT_ERROR, "argument '%s': at most %d dims, got %d", c->op->arg[j].name,
                   MT_MAX_DIM, a->n);
  memcpy(out, a->u.ints, sizeof(int64_t) * (size_t)a->n);
  *n = a->n;
  return MT_OK;
}

void mt_spec_reduce(mt_spec *s, const mt_view *v, const int64_t *dims, int n, bool keepdim) {
  unsigned mask = n ? 0 : ~0u;
  for (int i = 0; i < n; i++) mask |= 1u << dims[i];
  s->ndim = 0;
  for (int d = 0; d < v->ndim; d++) {
    bool gone = mask >> d & 1;
    if (!gone || keepdim) s->size[s->ndim++] = gone ? 1 : v->size[d];
  }
}
