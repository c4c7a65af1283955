/* safetensors_save.c - writing; see safetensors.h.
 *
 * Tensors are laid out by falling element size, so that each is aligned to its elements; the header
 * lists them in the order given and is padded with spaces to a multiple of 8 bytes. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../invoke.h"
#include "names.h"
#include "reader.h"
#include "safetensors.h"
#include "writer.h"

static int no_memory(const mt_bundle *b) {
  return mt_fail(b->rt, MT_NOMEM, "out of memory for the header");
}

static json_t *describe(const moth_tensor *t, int64_t first, int64_t end) {
  json_t *shape = json_array();
  for (int d = 0; d < t->v.ndim; d++) json_array_append_new(shape, json_integer(t->v.size[d]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", mt_names[t->v.dtype], "shape", shape,
                   "data_offsets", (json_int_t)first, (json_int_t)end);
}

static int64_t bytes_of(const moth_tensor *t) {
  return t->v.numel * mt_dtype_size((mt_dtype)t->v.dtype);
}

static int add_notes(const mt_bundle *b, json_t *root) {
  json_t *notes = json_object();
  if (!notes) return no_memory(b);
  for (size_t i = 0; i < b->nnote; i++)
    if (json_object_set_new(notes, b->note[i].key, json_string(b->note[i].value)) != 0) {
      json_decref(notes);
      return mt_fail(b->rt, MT_ERROR, "metadata '%.100s': not valid UTF-8", b->note[i].key);
    }
  return json_object_set_new(root, "__metadata__", notes) == 0 ? MT_OK : no_memory(b);
}

static int add_tensors(const mt_bundle *b, json_t *root) {
  int64_t at = 0;
  for (size_t i = 0; i < b->nitem; i++) /* the order of the names */
    if (strcmp(b->item[i].name, "__metadata__") == 0 ||
        json_object_set_new(root, b->item[i].name, json_null()) != 0)
      return mt_fail(b->rt, MT_ERROR, "'%.100s' cannot be the name of a tensor",
                     b->item[i].name);
  if (json_object_size(root) != b->nitem + (b->nnote > 0))
    return mt_fail(b->rt, MT_ERROR, "two tensors have the same name");
  for (int width = 8; width >= 1; width /= 2)
    for (size_t i = 0; i < b->nitem; i++) {
      const moth_tensor *t = b->item[i].t;
      if (mt_dtype_size((mt_dtype)t->v.dtype) != width) continue;
      json_t *v = describe(t, at, at + bytes_of(t));
      if (json_object_set_new(root, b->item[i].name, v) != 0) return no_memory(b);
      at += bytes_of(t);
    }
  return MT_OK;
}

static int write_header(const mt_bundle *b, mt_writer *w) {
  json_t *root = json_object();
  int status = root ? MT_OK : no_memory(b);
  if (!status && b->nnote > 0) status = add_notes(b, root);
  if (!status) status = add_tensors(b, root);
  char *text = status ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (status) return status;
  if (!text) return no_memory(b);
  size_t n = strlen(text), padded = (n + 7) / 8 * 8;
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)padded >> (8 * i));
  status = mt_writer_bytes(w, length, 8);
  if (!status) status = mt_writer_bytes(w, text, n);
  if (!status) status = mt_writer_bytes(w, "       ", padded - n);
  free(text); /* jansson's own */
  return status;
}

/* A strided view is copied first: only its own elements are written. */
static int write_tensor(mt_writer *w, moth_tensor *t) {
  if (t->v.contiguous) return mt_writer_bytes(w, t->v.data, (size_t)bytes_of(t));
  mt_results r;
  mt_value v = mt_t(t);
  bool was = moth_set_grad_enabled(w->rt, false);
  int status = mt_invoke(&r, w->rt, mt_op_find("contiguous"), 1, &v, 0, false);
  moth_set_grad_enabled(w->rt, was);
  if (status) return status;
  status = mt_writer_bytes(w, r.t[0]->v.data, (size_t)bytes_of(t));
  mt_results_free(&r);
  return status;
}

int mt_safetensors_save(const mt_bundle *b, const char *path) {
  mt_writer w;
  int status = mt_writer_open(&w, b->rt, path);
  if (status) return status;
  status = write_header(b, &w);
  for (int width = 8; width >= 1; width /= 2)
    for (size_t i = 0; i < b->nitem && !status; i++)
      if (mt_dtype_size((mt_dtype)b->item[i].t->v.dtype) == width)
        status = write_tensor(&w, b->item[i].t);
  if (!status) return mt_writer_finish(&w);
  mt_writer_drop(&w);
  return status;
}
