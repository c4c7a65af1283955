/* element.c - one element at a time, of any dtype, at any stride. */
#include "ref.h"

#include "../../half.h"

static char *address(const mt_view *v, int64_t p) {
  int64_t off = 0;
  for (int d = v->ndim - 1; d >= 0; d--) {
    off += p % v->size[d] * v->stride[d];
    p /= v->size[d];
  }
  return v->data + off * mt_dtype_size((mt_dtype)v->dtype);
}

int64_t mt_ref_int(const mt_view *v, int64_t p) {
  const void *a = address(v, p);
  switch (v->dtype) {
    case MT_I64:
      return *(const int64_t *)a;
    case MT_I32:
      return *(const int32_t *)a;
    case MT_I16:
      return *(const int16_t *)a;
    case MT_I8:
      return *(const int8_t *)a;
    default:
      return *(const uint8_t *)a;
  }
}

mt_num mt_ref_load(const mt_view *v, int64_t p) {
  const void *a = address(v, p);
  switch (v->dtype) {
    case MT_F64:
      return (mt_num){*(const double *)a, 0};
    case MT_F32:
      return (mt_num){*(const float *)a, 0};
    case MT_F16:
      return (mt_num){mt_f16_to_f32(*(const uint16_t *)a), 0};
    case MT_BF16:
      return (mt_num){mt_bf16_to_f32(*(const uint16_t *)a), 0};
    case MT_C64:
      return (mt_num){((const mt_c64 *)a)->re, ((const mt_c64 *)a)->im};
    default:
      return (mt_num){(long double)mt_ref_int(v, p), 0};
  }
}

/* Integers wrap to their width. */
void mt_ref_store(const mt_view *v, int64_t p, mt_num x) {
  void *a = address(v, p);
  switch (v->dtype) {
    case MT_F64:
      *(double *)a = (double)x.re;
      return;
    case MT_F32:
      *(float *)a = (float)x.re;
      return;
    case MT_F16:
      *(uint16_t *)a = mt_f32_to_f16((float)x.re);
      return;
    case MT_BF16:
      *(uint16_t *)a = mt_f32_to_bf16((float)x.re);
      return;
    case MT_C64:
      *(mt_c64 *)a = (mt_c64){(float)x.re, (float)x.im};
      return;
    case MT_I64:
      *(int64_t *)a = (int64_t)x.re;
      return;
    case MT_I32:
      *(int32_t *)a = (int32_t)(int64_t)x.re;
      return;
    case MT_I16:
      *(int16_t *)a = (int16_t)(int64_t)x.re;
      return;
    case MT_I8:
      *(int8_t *)a = (int8_t)(int64_t)x.re;
      return;
    case MT_U8:
      *(uint8_t *)a = (uint8_t)(int64_t)x.re;
      return;
    default:
      *(uint8_t *)a = x.re != 0;
      return;
  }
}

void mt_ref_coords(const mt_view *v, int64_t p, int64_t *at) {
  for (int d = v->ndim - 1; d >= 0; d--) {
    at[d] = p % v->size[d];
    p /= v->size[d];
  }
}

int64_t mt_ref_position(const mt_view *v, const int64_t *at) {
  int64_t p = 0;
  for (int d = 0; d < v->ndim; d++) p = p * v->size[d] + at[d];
  return p;
}

int64_t mt_ref_broadcast(const mt_view *small, const mt_view *big, int64_t p) {
  int64_t at[MT_MAX_DIM], own[MT_MAX_DIM];
  mt_ref_coords(big, p, at);
  for (int d = 0; d < small->ndim; d++) {
    own[d] = small->size[d] == 1 ? 0 : at[d + big->ndim - small->ndim];
  }
  return mt_ref_position(small, own);
}
