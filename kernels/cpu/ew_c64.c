/* ew_c64.c - loops of complex numbers, for all instruction sets: they mostly call the C library. */
#define MT_EW_ISA all
#define T mt_complex
#define PT float
#define SUFFIX c64
#define M(f) mt_##f##_c64
#define HAS(types) MT_CAT(MT_HAS_C_, types)
#include "arch/ew_loops.h"
