/* status.h - where every error is born.
 *
 * One breakpoint on mt_fail sees them all. The text lives in a fixed buffer of the runtime, so
 * that reporting an error never allocates. Messages name argument, expected and got; invoke.c puts
 * the operation's name in front. Dims and positions are said as the caller counts them: print
 * them with `+ mt_base(rt)`. */
#ifndef MT_STATUS_H
#define MT_STATUS_H

#include "moth.h"
#include "../kernels/kernel.h"
#include "config.h"

/* Formats the message of rt's last error and returns `status`. */
int mt_fail(moth_runtime *rt, int status, const char *fmt, ...)
    MT_PRINTF(3, 4);
/* 1 while the operation was called from Lua, 0 from C. */
int mt_base(const moth_runtime *rt);
/* "(2, 3)" into a ring of static-free buffers of the runtime: up to 8 may be alive in one
 * message. */
const char *mt_shape_str(moth_runtime *rt, int ndim, const int64_t *size);
const char *mt_tensor_str(const moth_tensor *t); /* "float32 (2, 3)" */

#endif
