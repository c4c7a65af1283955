/* names.h - how safetensors files call the dtypes. */
#ifndef MT_NAMES_H
#define MT_NAMES_H

#include <string.h>

#include "../../kernels/kernel.h"

static const char *const mt_names[MT_NDTYPES] = {
    [MT_F64] = "F64", [MT_F32] = "F32", [MT_F16] = "F16", [MT_BF16] = "BF16",
    [MT_I64] = "I64", [MT_I32] = "I32", [MT_I16] = "I16", [MT_I8] = "I8",
    [MT_U8] = "U8",   [MT_BOOL] = "BOOL", [MT_C64] = "C64"};

static inline mt_dtype mt_names_dtype(const char *name) {
  for (int d = 0; d < MT_NDTYPES; d++)
    if (strcmp(mt_names[d], name) == 0) return (mt_dtype)d;
  return MT_NODTYPE;
}

#endif
