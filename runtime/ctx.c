/* ctx.c - see ctx.h. */
#include "ctx.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "invoke.h"

#define NINL ((int)(sizeof((mt_ctx *)0)->inl / sizeof(moth_tensor *)))

void mt_ctx_init(mt_ctx *c, moth_runtime *rt) {
  c->rt = rt;
  c->status = MT_OK;
  c->index_base = 0;
  c->owned = c->inl;
  c->nowned = 0;
  c->cap = NINL;
  c->lastn = 0;
  c->ret = c->inlret;
  c->nret = 0;
  c->capret = MT_MAX_OUT;
}

void mt_ctx_free(mt_ctx *c) {
  mt_alloc *a = &c->rt->alloc;
  for (int i = 0; i < c->nowned; i++) mt_tensor_release(c->owned[i]);
  if (c->owned != c->inl) mt_record_free(a, c->owned, (size_t)c->cap * sizeof *c->owned);
  if (c->ret != c->inlret) mt_record_free(a, c->ret, (size_t)c->capret * sizeof *c->ret);
  c->nowned = c->nret = 0;
}

static void no_memory(mt_ctx *c) {
  c->status = mt_fail(c->rt, MT_NOMEM, "out of memory for a list of tensors");
}

/* Room for one more pointer in an array that starts in place. */
static bool grow(mt_ctx *c, moth_tensor ***v, moth_tensor **inl, int n, int *cap) {
  if (n < *cap) return true;
  size_t osize = (size_t)*cap * sizeof **v;
  moth_tensor **q = mt_record_new(&c->rt->alloc, osize * 2);
  if (!q) {
    no_memory(c);
    return false;
  }
  memcpy(q, *v, osize);
  if (*v != inl) mt_record_free(&c->rt->alloc, *v, osize);
  *v = q;
  *cap *= 2;
  return true;
}

static void take(mt_ctx *c, moth_tensor *t) {
  if (grow(c, &c->owned, c->inl, c->nowned, &c->cap))
    c->owned[c->nowned++] = t;
  else
    mt_tensor_release(t);
}

moth_tensor *mt_own(mt_ctx *c, moth_tensor *t) {
  if (t) take(c, t);
  return c->status ? NULL : t;
}

mt_value mt_s(const char *s) {
  return (mt_value){.kind = MT_STR, .n = (int)strlen(s), .u.s = s};
}

double mt_argf(const mt_value *v) { return v->kind == MT_FLOAT ? v->u.f : (double)v->u.i; }

/* "add_" is the in-place form of "add", unless a row has that very name. */
static const mt_opinfo *find(const char *name, bool *inplace) {
  const mt_opinfo *op = mt_op_find(name);
  size_t n = strlen(name);
  char plain[40];
  *inplace = false;
  if (op || n < 2 || n >= sizeof plain || name[n - 1] != '_') return op;
  memcpy(plain, name, n - 1);
  plain[n - 1] = 0;
  *inplace = true;
  return mt_op_find(plain);
}

moth_tensor *mt_do(mt_ctx *c, const char *name, int n, const mt_value *arg) {
  mt_results r;
  bool inplace;
  c->lastn = 0;
  if (c->status) return NULL;
  const mt_opinfo *op = find(name, &inplace);
  if (!op) {
    c->status = mt_fail(c->rt, MT_ERROR, "there is no operation '%s'", name);
    return NULL;
  }
  c->status = mt_invoke(&r, c->rt, op, n, arg, c->index_base, inplace);
  if (c->status) return NULL;
  moth_tensor **t = mt_results_all(&r);
  int before = c->nowned;
  for (int i = 0; i < r.n; i++) take(c, t[i]);
  c->lastn = c->nowned - before;
  mt_results_taken(&r);
  return c->status || c->lastn == 0 ? NULL : c->owned[before];
}

moth_tensor *mt_nth(mt_ctx *c, int i) {
  return c->status || i >= c->lastn ? NULL : c->owned[c->nowned - c->lastn + i];
}

void mt_return(mt_ctx *c, moth_tensor *t) {
  if (c->status) return;
  if (grow(c, &c->ret, c->inlret, c->nret, &c->capret)) c->ret[c->nret++] = t;
}

int mt_ctx_take_returns(mt_ctx *c, mt_results *out) {
  if (c->nret > MT_MAX_OUT) {
    out->list = mt_record_new(&c->rt->alloc, (size_t)c->nret * sizeof *out->list);
    if (!out->list) return mt_fail(c->rt, MT_NOMEM, "out of memory for a list of tensors");
  }
  moth_tensor **t = mt_results_all(out);
  for (int i = 0; i < c->nret; i++) t[i] = c->ret[i] ? mt_tensor_retain(c->ret[i]) : NULL;
  out->n = c->nret;
  return MT_OK;
}

void mt_ctx_fail(mt_ctx *c, const char *fmt, ...) {
  char text[MT_MESSAGE / 2];
  va_list ap;
  if (c->status) return;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  c->status = mt_fail(c->rt, MT_ERROR, "%s", text);
}
