/* safetensors.c - reading; see safetensors.h. */
#include "safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../shape.h"
#include "names.h"
#include "reader.h"

#define MAX_HEADER 100000000u

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elements in the files are little-endian"
#endif

typedef struct entry {
  const char *name; /* in the JSON tree */
  mt_dtype dtype;
  int ndim;
  int64_t size[MT_MAX_DIM];
  int64_t first, end;
  int order;        /* in the header */
  moth_tensor *t;
} entry;

/* ---- the header ---- */

static int read_text(mt_reader *r, char **text, size_t *n) {
  unsigned char b[8];
  int status = mt_reader_bytes(r, b, 8, "the header's length");
  if (status) return status;
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | b[i];
  if (length > MAX_HEADER || length > mt_reader_left(r))
    return mt_reader_fail(r, "not a safetensors file: a header of %llu bytes in a file of %llu "
                             "(%u are allowed)",
                          (unsigned long long)length, (unsigned long long)r->length, MAX_HEADER);
  *n = (size_t)length;
  *text = mt_record_new(&r->rt->alloc, *n + 1);
  if (!*text) return mt_fail(r->rt, MT_NOMEM, "%.300s: out of memory", r->path);
  status = mt_reader_bytes(r, *text, *n, "the header");
  if (!status && (*n == 0 || (*text)[0] != '{'))
    status = mt_reader_fail(r, "not a safetensors file: the header does not start with '{'");
  if (status) mt_record_free(&r->rt->alloc, *text, *n + 1);
  return status;
}

static int parse(mt_reader *r, json_t **root) {
  char *text = NULL;
  size_t n = 0;
  json_error_t error;
  int status = read_text(r, &text, &n);
  if (status) return status;
  *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  mt_record_free(&r->rt->alloc, text, n + 1);
  if (!*root) return mt_reader_fail(r, "the header is not valid: %s", error.text);
  if (json_is_object(*root)) return MT_OK;
  json_decref(*root);
  return mt_reader_fail(r, "the header is no JSON object");
}

static int bad_entry(mt_reader *r, const entry *e, const char *what) {
  return mt_reader_fail(r, "tensor '%.100s': %s", e->name, what);
}

static int read_shape(mt_reader *r, entry *e, const json_t *shape) {
  if (!json_is_array(shape)) return bad_entry(r, e, "no list of sizes in 'shape'");
  if (json_array_size(shape) > MT_MAX_DIM) return bad_entry(r, e, "too many dimensions");
  e->ndim = (int)json_array_size(shape);
  for (int d = 0; d < e->ndim; d++) {
    const json_t *v = json_array_get(shape, (size_t)d);
    if (!json_is_integer(v) || json_integer_value(v) < 0)
      return bad_entry(r, e, "a size in 'shape' is no integer from 0");
    e->size[d] = json_integer_value(v);
  }
  return MT_OK;
}

static int read_offsets(mt_reader *r, entry *e, const json_t *offsets) {
  if (!json_is_array(offsets) || json_array_size(offsets) != 2)
    return bad_entry(r, e, "'data_offsets' is no list of two numbers");
  const json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);
  if (!json_is_integer(a) || !json_is_integer(b))
    return bad_entry(r, e, "'data_offsets' is no list of two integers");
  e->first = json_integer_value(a);
  e->end = json_integer_value(b);
  if (e->first < 0 || e->end < e->first) return bad_entry(r, e, "'data_offsets' run backwards");
  return MT_OK;
}

static int read_entry(mt_reader *r, entry *e, const json_t *v) {
  if (!json_is_object(v)) return bad_entry(r, e, "its description is no JSON object");
  const char *type = json_string_value(json_object_get(v, "dtype"));
  if (!type) return bad_entry(r, e, "'dtype' is missing");
  e->dtype = mt_names_dtype(type);
  if (e->dtype == MT_NODTYPE)
    return mt_reader_fail(r, "tensor '%.100s': unknown dtype '%.20s'", e->name, type);
  int status = read_shape(r, e, json_object_get(v, "shape"));
  if (!status) status = read_offsets(r, e, json_object_get(v, "data_offsets"));
  if (status) return status;
  int64_t bytes;
  if (!mt_reader_product(e->ndim, e->size, mt_dtype_size(e->dtype), &bytes))
    return bad_entry(r, e, "its sizes are too large");
  if (bytes != e->end - e->first)
    return mt_reader_fail(r, "tensor '%.100s': %s of shape %s takes %lld bytes, 'data_offsets' "
                             "[%lld, %lld] hold %lld",
                          e->name, type, mt_shape_str(r->rt, e->ndim, e->size), (long long)bytes,
                          (long long)e->first, (long long)e->end, (long long)(e->end - e->first));
  if ((uint64_t)e->end > mt_reader_left(r))
    return mt_reader_fail(r, "tensor '%.100s': its elements end at byte %lld, there are %llu",
                          e->name, (long long)e->end, (unsigned long long)mt_reader_left(r));
  return MT_OK;
}

static int read_notes(mt_reader *r, mt_bundle *out, json_t *notes) {
  const char *key;
  json_t *v;
  if (!json_is_object(notes)) return mt_reader_fail(r, "'__metadata__' is no JSON object");
  json_object_foreach(notes, key, v) {
    if (!json_is_string(v))
      return mt_reader_fail(r, "'__metadata__': the value of '%.100s' is no text", key);
    int status = mt_bundle_note(out, key, json_string_value(v));
    if (status) return status;
  }
  return MT_OK;
}

/* ---- the elements ---- */

static int by_offset(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->order - y->order;
}

static int by_order(const void *a, const void *b) {
  return ((const entry *)a)->order - ((const entry *)b)->order;
}

/* Entries sorted by offset must follow each other to the file's end. */
static int check_layout(mt_reader *r, const entry *e, int n) {
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    if (e[i].first < at) return bad_entry(r, &e[i], "its elements lie over those of another");
    if (e[i].first > at) return bad_entry(r, &e[i], "there is a hole in front of its elements");
    at = e[i].end;
  }
  if ((uint64_t)at != mt_reader_left(r))
    return mt_reader_fail(r, "the tensors take %lld bytes, there are %llu", (long long)at,
                          (unsigned long long)mt_reader_left(r));
  return MT_OK;
}

static int read_tensor(mt_reader *r, entry *e) {
  int status = mt_tensor_new(&e->t, r->rt, e->dtype, e->ndim, e->size, NULL);
  if (status) return status;
  status = mt_reader_bytes(r, e->t->v.data, (size_t)(e->end - e->first), e->name);
  if (!status && e->dtype == MT_BOOL)
    for (int64_t i = 0; i < e->t->v.numel; i++) e->t->v.data[i] = e->t->v.data[i] != 0;
  return status;
}

static int read_entries(mt_reader *r, mt_bundle *out, json_t *root, entry *e) {
  const char *name;
  json_t *v;
  int n = 0, status = MT_OK;
  json_object_foreach(root, name, v) {
    if (strcmp(name, "__metadata__") == 0) {
      status = read_notes(r, out, v);
    } else {
      e[n] = (entry){.name = name, .order = n};
      status = read_entry(r, &e[n++], v);
    }
    if (status) return status;
  }
  qsort(e, (size_t)n, sizeof *e, by_offset);
  status = check_layout(r, e, n);
  for (int i = 0; i < n && !status; i++) status = read_tensor(r, &e[i]);
  qsort(e, (size_t)n, sizeof *e, by_order);
  for (int i = 0; i < n && !status; i++) status = mt_bundle_add(out, e[i].name, e[i].t);
  for (int i = 0; i < n; i++)
    if (e[i].t) mt_tensor_release(e[i].t);
  return status;
}

static int read_all(mt_reader *r, mt_bundle *out) {
  json_t *root;
  int status = parse(r, &root);
  if (status) return status;
  size_t bytes = (json_object_size(root) + 1) * sizeof(entry);
  entry *e = mt_record_new(&r->rt->alloc, bytes);
  if (e) {
    memset(e, 0, bytes);
    status = read_entries(r, out, root, e);
    mt_record_free(&r->rt->alloc, e, bytes);
  } else {
    status = mt_fail(r->rt, MT_NOMEM, "%.300s: out of memory", r->path);
  }
  json_decref(root);
  return status;
}

int mt_safetensors_load(mt_bundle *out, const char *path) {
  mt_reader r;
  int status = mt_reader_open(&r, out->rt, path, false);
  if (status) return status;
  status = read_all(&r, out);
  mt_reader_close(&r);
  if (status) mt_bundle_free(out);
  return status;
}
