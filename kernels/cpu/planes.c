/* planes.c - see planes.h. */
#include "planes.h"

#include "../half.h"
#include "move.h"

static inline int64_t bytes(const mt_view *v) { return mt_dtype_size((mt_dtype)v->dtype); }

mt_planes mt_planes_of(const mt_view *v, int nd) {
  mt_planes p = {.v = v,
                 .nd = nd,
                 .n = 1,
                 .numel = 1,
                 .size = {1, 1, 1},
                 .direct = v->dtype == MT_F32 || v->dtype == MT_F64,
                 .wide = v->dtype == MT_F64};
  int64_t step = 1;
  for (int d = v->ndim - 1; d >= 0; d--) {
    int from_end = v->ndim - 1 - d;
    if (from_end >= nd) {
      p.n *= v->size[d];
      continue;
    }
    p.size[2 - from_end] = v->size[d];
    p.numel *= v->size[d];
    if (v->size[d] != 1 && v->stride[d] != step) p.direct = false;
    step *= v->size[d];
  }
  return p;
}

size_t mt_planes_buffer(const mt_planes *p) {
  size_t n = (size_t)p->numel * (p->wide ? sizeof(double) : sizeof(float));
  return p->direct ? 0 : (n + 63) / 64 * 64;
}

int64_t mt_planes_at(const mt_planes *p, int64_t i) {
  int64_t off = 0;
  for (int d = p->v->ndim - 1 - p->nd; d >= 0; d--) {
    off += i % p->v->size[d] * p->v->stride[d];
    i /= p->v->size[d];
  }
  return off * bytes(p->v);
}

static void widen(float *to, const char *from, int64_t step, int64_t n, bool f16) {
  for (int64_t i = 0; i < n; i++) {
    uint16_t h = *(const uint16_t *)(const void *)(from + i * step);
    to[i] = f16 ? mt_f16_to_f32(h) : mt_bf16_to_f32(h);
  }
}

static void narrow(char *to, int64_t step, const float *from, int64_t n, bool f16) {
  for (int64_t i = 0; i < n; i++) {
    *(uint16_t *)(void *)(to + i * step) = f16 ? mt_f32_to_f16(from[i]) : mt_f32_to_bf16(from[i]);
  }
}

/* Moves plane i between the view and buf, row by row. */
static void transfer(const mt_planes *p, int64_t i, char *buf, bool store) {
  const mt_view *v = p->v;
  int64_t stride[3] = {0, 0, 0}, at = mt_planes_at(p, i), rows = p->size[0] * p->size[1];
  int64_t width = p->size[2], size = p->wide ? 8 : 4;
  bool half = v->dtype == MT_F16 || v->dtype == MT_BF16;
  for (int d = 0; d < p->nd; d++) stride[2 - d] = v->stride[v->ndim - 1 - d] * bytes(v);
  for (int64_t r = 0; r < rows; r++) {
    char *row = v->data + at + r / p->size[1] * stride[0] + r % p->size[1] * stride[1];
    char *b = buf + r * width * size;
    if (half && store)
      narrow(row, stride[2], (const float *)(void *)b, width, v->dtype == MT_F16);
    else if (half)
      widen((float *)(void *)b, row, stride[2], width, v->dtype == MT_F16);
    else if (store)
      mt_move_row((int)size, row, stride[2], b, size, width);
    else
      mt_move_row((int)size, b, size, row, stride[2], width);
  }
}

const void *mt_planes_read(const mt_planes *p, int64_t i, void *buf) {
  if (p->direct) return p->v->data + mt_planes_at(p, i);
  transfer(p, i, buf, false);
  return buf;
}

void *mt_planes_write(const mt_planes *p, int64_t i, void *buf) {
  return p->direct ? p->v->data + mt_planes_at(p, i) : buf;
}

void mt_planes_done(const mt_planes *p, int64_t i, const void *buf) {
  if (!p->direct) transfer(p, i, (char *)(uintptr_t)buf, true);
}
