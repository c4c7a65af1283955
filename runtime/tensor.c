/* tensor.c - see tensor.h. Small tensors keep storage and elements in one record. */
#include "tensor.h"

#include <stdio.h>
#include <string.h>

#include "../kernels/half.h"
#include "shape.h"
#include "tape.h"

#define INLINE_BYTES 512 /* elements up to here lie behind the storage record */
#define STORAGE_HEAD ((sizeof(mt_storage) + MT_ALIGN - 1) / MT_ALIGN * MT_ALIGN)

/* ---- storages ---- */

static size_t inline_size(size_t bytes) { return STORAGE_HEAD + (bytes ? bytes : 8) + 32; }

/* Records are 16-byte aligned at least; elements in them start at the next 32-byte border. */
static char *inline_data(mt_storage *s) {
  return (char *)(((uintptr_t)s + sizeof(mt_storage) + 31) & ~(uintptr_t)31);
}

static int storage_new(mt_storage **out, moth_runtime *rt, size_t bytes) {
  bool inl = bytes <= INLINE_BYTES;
  mt_storage *s = mt_record_new(&rt->alloc, inl ? inline_size(bytes) : sizeof *s);
  if (!s) return MT_NOMEM;
  atomic_init(&s->refs, 1);
  s->version = 0;
  s->handles = 0;
  s->inl = inl;
  s->foreign = false;
  s->bytes = bytes;
  s->rt = rt;
  s->release = NULL;
  s->ud = NULL;
  if (inl) {
    s->data = inline_data(s);
    rt->alloc.mem.live += (int64_t)bytes;
    rt->alloc.mem.allocated += (int64_t)bytes;
    if (rt->alloc.mem.live > rt->alloc.mem.peak) rt->alloc.mem.peak = rt->alloc.mem.live;
  } else {
    s->data = mt_runtime_elements(rt, bytes);
    if (!s->data) {
      mt_record_free(&rt->alloc, s, sizeof *s);
      return MT_NOMEM;
    }
  }
  rt->refs++;
  *out = s;
  return MT_OK;
}

mt_storage *mt_storage_retain(mt_storage *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void mt_storage_release(mt_storage *s) {
  /* The only owner needs no atomic exchange: nobody else can raise the count. */
  if (atomic_load_explicit(&s->refs, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
    return;
  moth_runtime *rt = s->rt;
  size_t record = sizeof *s;
  if (s->foreign) {
    if (s->release) s->release(s->ud);
    record = inline_size(0);
  } else if (s->inl) {
    record = inline_size(s->bytes);
    rt->alloc.mem.live -= (int64_t)s->bytes;
  } else if (s->data) {
    mt_elements_free(&rt->alloc, s->data);
  }
  mt_record_free(&rt->alloc, s, record);
  mt_runtime_release(rt);
}

void mt_storage_wrap(mt_storage *s, void *data, size_t bytes, void (*release)(void *), void *ud) {
  s->foreign = true;
  s->data = data;
  s->bytes = bytes;
  s->release = release;
  s->ud = ud;
}

/* ---- tensors ---- */

/* A record with everything but the view and the storage filled in. */
static moth_tensor *tensor_record(moth_runtime *rt) {
  moth_tensor *t = mt_record_new(&rt->alloc, sizeof *t);
  if (!t) return NULL;
  t->refs = 1;
  t->out = 0;
  t->is_view = t->multiview = false;
  t->rt = rt;
  t->storage = NULL;
  t->node = NULL;
  t->leaf = NULL;
  t->base = NULL;
  t->graph_gen = 0;
  rt->refs++;
  return t;
}

static int no_memory(moth_runtime *rt, mt_dtype dtype, int ndim, const int64_t *size,
                     size_t bytes) {
  const moth_memory *m = &rt->alloc.mem;
  char limit[64] = "";
  if (m->limit) snprintf(limit, sizeof limit, ", limit %lld", (long long)m->limit);
  return mt_fail(rt, MT_NOMEM,
                 "out of memory: %s %s needs %zu bytes; %lld in use, %lld cached%s",
                 mt_dtypes[dtype].name, mt_shape_str(rt, ndim, size), bytes, (long long)m->live,
                 (long long)m->cached, limit);
}

/* Elements that strides reach: one past the farthest. */
static int64_t extent(int ndim, const int64_t *size, const int64_t *stride) {
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) {
    if (size[i] == 0) return 0;
    n += (size[i] - 1) * stride[i];
  }
  return n;
}

int mt_tensor_new(moth_tensor **out, moth_runtime *rt, mt_dtype dtype, int ndim,
                  const int64_t *size, const int64_t *stride) {
  int64_t numel = mt_shape_numel(ndim, size), bytes;
  if (numel < 0 || __builtin_mul_overflow(numel, mt_dtype_size(dtype), &bytes))
    return mt_fail(rt, MT_ERROR, "shape %s is negative or too large",
                   mt_shape_str(rt, ndim, size));
  if (stride) bytes = extent(ndim, size, stride) * mt_dtype_size(dtype);
  moth_tensor *t = tensor_record(rt);
  if (!t || storage_new(&t->storage, rt, (size_t)bytes) != MT_OK) {
    if (t) mt_tensor_release(t);
    return no_memory(rt, dtype, ndim, size, (size_t)bytes);
  }
  mt_view *v = &t->v;
  v->data = t->storage->data;
  v->dtype = (int8_t)dtype;
  v->ndim = (int8_t)ndim;
  v->numel = numel;
  for (int i = 0; i < ndim; i++) v->size[i] = size[i];
  if (stride) {
    memcpy(v->stride, stride, sizeof(int64_t) * (size_t)ndim);
    v->contiguous = mt_shape_is_contiguous(ndim, size, stride);
  } else {
    mt_shape_contiguous(ndim, size, v->stride);
    v->contiguous = true;
  }
  *out = t;
  return MT_OK;
}

int mt_tensor_alias(moth_tensor **out, moth_tensor *src, int ndim, const int64_t *size,
                    const int64_t *stride, int64_t offset) {
  moth_tensor *t = tensor_record(src->rt);
  if (!t) return mt_fail(src->rt, MT_NOMEM, "out of memory for a tensor record");
  t->storage = mt_storage_retain(src->storage);
  t->v.data = src->v.data + offset * mt_dtype_size((mt_dtype)src->v.dtype);
  t->v.dtype = src->v.dtype;
  t->v.ndim = (int8_t)ndim;
  memcpy(t->v.size, size, sizeof(int64_t) * (size_t)ndim);
  memcpy(t->v.stride, stride, sizeof(int64_t) * (size_t)ndim);
  mt_view_finish(&t->v);
  *out = t;
  return MT_OK;
}

moth_tensor *mt_tensor_retain(moth_tensor *t) {
  t->refs++;
  return t;
}

static void leaf_free(moth_tensor *t) {
  mt_leaf *leaf = t->leaf;
  moth_runtime *rt = t->rt;
  if (leaf->accumulate) leaf->accumulate->leaf = NULL;
  if (leaf->hooks && rt->free_hooks) rt->free_hooks(rt->hooks_ud, leaf->hooks);
  if (leaf->grad) mt_tensor_release(leaf->grad);
  mt_record_free(&rt->alloc, leaf, sizeof *leaf);
}

void mt_tensor_release(moth_tensor *t) {
  if (!t || --t->refs > 0) return;
  moth_runtime *rt = t->rt;
  moth_tensor *base = t->base;
  if (t->node) {
    if (t->node->retain && t->node->retain[t->out] == t) t->node->retain[t->out] = NULL;
    mt_node_release(t->node);
  }
  if (t->leaf) leaf_free(t);
  if (t->storage) mt_storage_release(t->storage);
  mt_record_free(&rt->alloc, t, sizeof *t);
  if (base) mt_tensor_release(base);
  mt_runtime_release(rt);
}

bool mt_tensor_needs_grad(const moth_tensor *t) {
  /* A view whose base was rebased by a write follows the base. */
  if (t->base && t->graph_gen != t->base->graph_gen) return t->base->node != NULL;
  return t->node || (t->leaf && t->leaf->wants);
}

bool mt_tensor_is_leaf(const moth_tensor *t) { return t->node == NULL; }

int64_t mt_tensor_offset(const moth_tensor *t) {
  return (t->v.data - t->storage->data) / mt_dtype_size((mt_dtype)t->v.dtype);
}

mt_leaf *mt_tensor_leaf(moth_tensor *t) {
  if (t->leaf) return t->leaf;
  t->leaf = mt_record_new(&t->rt->alloc, sizeof *t->leaf);
  if (t->leaf) memset(t->leaf, 0, sizeof *t->leaf);
  return t->leaf;
}

int mt_tensor_read(const moth_tensor *t, int64_t pos, int64_t *i, double *f) {
  const char *p = t->v.data + pos * mt_dtype_size((mt_dtype)t->v.dtype);
  switch ((mt_dtype)t->v.dtype) {
    case MT_F64: return *f = *(const double *)(const void *)p, 0;
    case MT_F32: return *f = *(const float *)(const void *)p, 0;
    case MT_F16: return *f = mt_f16_to_f32(*(const uint16_t *)(const void *)p), 0;
    case MT_BF16: return *f = mt_bf16_to_f32(*(const uint16_t *)(const void *)p), 0;
    case MT_C64: return *f = ((const mt_c64 *)(const void *)p)->re, 0;
    case MT_I64: return *i = *(const int64_t *)(const void *)p, 1;
    case MT_I32: return *i = *(const int32_t *)(const void *)p, 1;
    case MT_I16: return *i = *(const int16_t *)(const void *)p, 1;
    case MT_I8: return *i = *(const int8_t *)p, 1;
    default: return *i = *(const uint8_t *)p, 1;
  }
}

int mt_tensor_item(const moth_tensor *t, int64_t *i, double *f) {
  if (t->v.numel != 1)
    return mt_fail(t->rt, MT_ERROR, "expected a tensor with one element, got %s",
                   mt_tensor_str(t));
  return mt_tensor_read(t, 0, i, f);
}

int mt_tensor_scalar(moth_tensor **out, moth_runtime *rt, mt_dtype dtype, double value) {
  int status = mt_tensor_new(out, rt, dtype, 0, NULL, NULL);
  if (status) return status;
  char *p = (*out)->v.data;
  switch (dtype) {
    case MT_F64: *(double *)(void *)p = value; break;
    case MT_F32: *(float *)(void *)p = (float)value; break;
    case MT_F16: *(uint16_t *)(void *)p = mt_f32_to_f16((float)value); break;
    case MT_BF16: *(uint16_t *)(void *)p = mt_f32_to_bf16((float)value); break;
    case MT_C64: *(mt_c64 *)(void *)p = (mt_c64){(float)value, 0}; break;
    case MT_I64: *(int64_t *)(void *)p = (int64_t)value; break;
    case MT_I32: *(int32_t *)(void *)p = (int32_t)value; break;
    case MT_I16: *(int16_t *)(void *)p = (int16_t)value; break;
    case MT_I8: *(int8_t *)p = (int8_t)value; break;
    case MT_U8: *(uint8_t *)p = (uint8_t)value; break;
    default: *p = value != 0; break;
  }
  return MT_OK;
}
