/* idx.c - see idx.h. */
#include "idx.h"

#include "../shape.h"
#include "reader.h"

static mt_dtype dtype_of(unsigned char code) {
  switch (code) {
    case 0x08:
      return MT_U8;
    case 0x09:
      return MT_I8;
    case 0x0b:
      return MT_I16;
    case 0x0c:
      return MT_I32;
    case 0x0d:
      return MT_F32;
    case 0x0e:
      return MT_F64;
    default:
      return MT_NODTYPE;
  }
}

static int read_header(mt_reader *r, mt_dtype *dtype, int *ndim, int64_t *size) {
  unsigned char head[4], b[4];
  int status = mt_reader_bytes(r, head, 4, "the header");
  if (status) return status;
  *dtype = dtype_of(head[2]);
  if (head[0] || head[1] || *dtype == MT_NODTYPE)
    return mt_reader_fail(r, "not an IDX file: it starts with %02x %02x %02x %02x", head[0],
                          head[1], head[2], head[3]);
  if (head[3] > MT_MAX_DIM)
    return mt_reader_fail(r, "%d dimensions; there can be %d at most", head[3], MT_MAX_DIM);
  *ndim = head[3];
  for (int d = 0; d < *ndim; d++) {
    status = mt_reader_bytes(r, b, 4, "the header");
    if (status) return status;
    size[d] = (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
  }
  return MT_OK;
}

static void swap_bytes(char *p, int64_t n, int width) {
  for (int64_t i = 0; i < n; i++, p += width)
    for (int a = 0, b = width - 1; a < b; a++, b--) {
      char c = p[a];
      p[a] = p[b];
      p[b] = c;
    }
}

static int read_elements(moth_tensor **out, mt_reader *r) {
  mt_dtype dtype = MT_U8;
  int ndim = 0;
  int64_t size[MT_MAX_DIM], bytes;
  int status = read_header(r, &dtype, &ndim, size);
  if (status) return status;
  if (!mt_reader_product(ndim, size, mt_dtype_size(dtype), &bytes) ||
      (uint64_t)bytes > mt_reader_left(r) || (!r->gz && (uint64_t)bytes < mt_reader_left(r)))
    return mt_reader_fail(r, "the header promises %s of shape %s, the file has %s%llu bytes",
                          mt_dtypes[dtype].name, mt_shape_str(r->rt, ndim, size),
                          r->gz ? "at most " : "", (unsigned long long)mt_reader_left(r));
  moth_tensor *t;
  status = mt_tensor_new(&t, r->rt, dtype, ndim, size, NULL);
  if (status) return status;
  status = mt_reader_bytes(r, t->v.data, (size_t)bytes, "the elements");
  if (!status) status = mt_reader_end(r);
  if (status) {
    mt_tensor_release(t);
    return status;
  }
  swap_bytes(t->v.data, t->v.numel, mt_dtype_size(dtype));
  *out = t;
  return MT_OK;
}

int mt_idx_read(moth_tensor **out, moth_runtime *rt, const char *path) {
  mt_reader r;
  int status = mt_reader_open(&r, rt, path, true);
  if (status) return status;
  status = read_elements(out, &r);
  mt_reader_close(&r);
  return status;
}
