/* bundle.c - see bundle.h. */
#include "bundle.h"

#include <string.h>

static char *copy_text(moth_runtime *rt, const char *s) {
  size_t n = strlen(s) + 1;
  char *p = mt_record_new(&rt->alloc, n);
  if (p) memcpy(p, s, n);
  return p;
}

static void free_text(moth_runtime *rt, char *s) {
  if (s) mt_record_free(&rt->alloc, s, strlen(s) + 1);
}

/* Room for one more in an array of records of `size` bytes. */
static bool room(moth_runtime *rt, void **array, size_t n, size_t *cap, size_t size) {
  if (n < *cap) return true;
  size_t more = *cap ? 2 * *cap : 16;
  void *p = mt_record_grow(&rt->alloc, *array, *cap * size, more * size);
  if (!p) return false;
  *array = p;
  *cap = more;
  return true;
}

static int no_memory(moth_runtime *rt, const char *name) {
  return mt_fail(rt, MT_NOMEM, "out of memory for the entry '%.100s'", name);
}

int mt_bundle_add(mt_bundle *b, const char *name, moth_tensor *t) {
  void *array = b->item;
  if (!room(b->rt, &array, b->nitem, &b->capitem, sizeof *b->item)) return no_memory(b->rt, name);
  b->item = array;
  char *copy = copy_text(b->rt, name);
  if (!copy) return no_memory(b->rt, name);
  b->item[b->nitem++] = (mt_named){copy, mt_tensor_retain(t)};
  return MT_OK;
}

int mt_bundle_note(mt_bundle *b, const char *key, const char *value) {
  void *array = b->note;
  if (!room(b->rt, &array, b->nnote, &b->capnote, sizeof *b->note)) return no_memory(b->rt, key);
  b->note = array;
  mt_note n = {copy_text(b->rt, key), copy_text(b->rt, value)};
  if (!n.key || !n.value) {
    free_text(b->rt, n.key);
    free_text(b->rt, n.value);
    return no_memory(b->rt, key);
  }
  b->note[b->nnote++] = n;
  return MT_OK;
}

void mt_bundle_free(mt_bundle *b) {
  for (size_t i = 0; i < b->nitem; i++) {
    free_text(b->rt, b->item[i].name);
    mt_tensor_release(b->item[i].t);
  }
  for (size_t i = 0; i < b->nnote; i++) {
    free_text(b->rt, b->note[i].key);
    free_text(b->rt, b->note[i].value);
  }
  if (b->item) mt_record_free(&b->rt->alloc, b->item, b->capitem * sizeof *b->item);
  if (b->note) mt_record_free(&b->rt->alloc, b->note, b->capnote * sizeof *b->note);
  *b = (mt_bundle){.rt = b->rt};
}
