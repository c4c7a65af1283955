/* ew_i64.c - loops of integers, which wrap. */
#ifdef __GNUC__
#pragma GCC optimize("wrapv")
#endif
#define T int64_t
#define PT int64_t
#define SUFFIX i64
#define M(f) mt_##f##_i64
#define HAS(types) MT_CAT(MT_HAS_I_, types)
#include "ew_loops.h"
