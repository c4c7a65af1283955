/* status.c - see status.h. The message is formatted in place; nothing here allocates. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor.h"

int mt_fail(moth_runtime *rt, int status, const char *fmt, ...) {
  va_list ap;
  int n = 0;
  /* The text may quote the previous message: build beside it. */
  char text[MT_MESSAGE];
  if (rt->op_name) n = snprintf(text, sizeof text, "%s: ", rt->op_name);
  va_start(ap, fmt);
  vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
  va_end(ap);
  memcpy(rt->error, text, sizeof text);
  return status;
}

int mt_base(const moth_runtime *rt) { return rt->base; }

const char *mt_shape_str(moth_runtime *rt, int ndim, const int64_t *size) {
  char *buf = rt->shape_buf[rt->shape_slot++ & 7];
  size_t cap = sizeof rt->shape_buf[0], n = 1;
  buf[0] = '(';
  for (int i = 0; i < ndim && n < cap - 24; i++)
    n += (size_t)snprintf(buf + n, cap - n, i ? ", %lld" : "%lld", (long long)size[i]);
  snprintf(buf + n, cap - n, ")");
  return buf;
}

const char *mt_tensor_str(const moth_tensor *t) {
  moth_runtime *rt = t->rt;
  const char *shape = mt_shape_str(rt, t->v.ndim, t->v.size);
  char *buf = rt->shape_buf[rt->shape_slot++ & 7];
  snprintf(buf, sizeof rt->shape_buf[0], "%s %.140s", mt_dtypes[t->v.dtype].name, shape);
  return buf;
}

const char *moth_error(const moth_runtime *rt) { return rt->error; }
