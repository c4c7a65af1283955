/* safetensors.h - files of named tensors in the safetensors format.
 *
 *     8 bytes, little-endian: length n of the header
 *     n bytes of JSON: {"__metadata__": {text: text},
 *                       name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [first, end]}, ...}
 *     the elements, row-major and little-endian; offsets count from here
 *
 * Reading checks the whole header before it allocates a tensor: shapes against offsets, offsets
 * against the file, no tensor over another, no byte unused. Writing makes a new file beside the old
 * one, syncs it and renames it, so that a crash leaves the old file or the new one. A view writes
 * its own elements only; views of one storage are independent tensors when they are loaded. */
#ifndef MT_SAFETENSORS_H
#define MT_SAFETENSORS_H

#include "bundle.h"

/* Adds what the file holds to the empty bundle; after a failure the bundle is empty. */
int mt_safetensors_load(mt_bundle *out, const char *path);
int mt_safetensors_save(const mt_bundle *b, const char *path);

#endif
