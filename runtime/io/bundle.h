/* bundle.h - named tensors with a few strings: what a file of tensors holds.
 *
 * A bundle owns a reference to each tensor and copies of all names, in records of the runtime. */
#ifndef MT_BUNDLE_H
#define MT_BUNDLE_H

#include "../tensor.h"

typedef struct mt_named {
  char *name;
  moth_tensor *t;
} mt_named;

typedef struct mt_note {
  char *key, *value;
} mt_note;

typedef struct mt_bundle {
  moth_runtime *rt;
  mt_named *item;
  mt_note *note;
  size_t nitem, capitem, nnote, capnote;
} mt_bundle;

/* A bundle {.rt = rt} is empty. Takes a reference of its own. */
int mt_bundle_add(mt_bundle *b, const char *name, moth_tensor *t);
int mt_bundle_note(mt_bundle *b, const char *key, const char *value);
void mt_bundle_free(mt_bundle *b);

#endif
