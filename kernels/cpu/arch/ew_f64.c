/* ew_f64.c - loops of doubles. The elementary functions are the C library's. */
#define T double
#define PT double
#define SUFFIX f64
#define M(f) mt_##f##_f64
#define HAS(types) MT_CAT(MT_HAS_F_, types)
#include "ew_loops.h"
