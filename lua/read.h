/* read.h - the arguments of an operation, from the Lua stack to mt_value[].
 *
 * Positional arguments come in schema order. A last argument that is a plain table with a string
 * key holds keyword arguments (its positions, if any, are further positional ones: x:sum{1, keepdim
 * = true}); a table without is a list. Sizes may be spread: zeros(2, 3). Dims and positions are
 * shifted to 0-based here and nowhere else. nil, and false for what may be nothing, mean "not
 * given".
 *
 * Reading never allocates Lua memory and never raises, so the tensors in `v` stay those of the
 * stack's handles; long lists live in records, which mt_read_free gives back. */
#ifndef MT_LUA_READ_H
#define MT_LUA_READ_H

#include "bind.h"

#define MT_READ_SMALL 32
#define MT_READ_EXTRA 6

typedef struct mt_read {
  lua_State *L;
  mt_lua *S;
  const mt_opinfo *op;
  int n;              /* arguments in v, those not given as MT_NIL */
  uint32_t given;     /* bit j: argument j was given */
  bool requires_grad; /* keyword of functions that create tensors */
  int nsmall, nextra;
  mt_value v[MT_MAX_ARGS];
  int64_t small[MT_READ_SMALL];
  struct {
    void *p;
    size_t size;
  } extra[MT_READ_EXTRA];
} mt_read;

/* Reads the arguments at 1..top. After a failure nothing has to be freed. */
int mt_read_args(mt_read *r, lua_State *L, mt_lua *S, const mt_opinfo *op, int top);
static inline void mt_read_drop(mt_read *r) {
  while (r->nextra > 0) {
    r->nextra--;
    mt_record_free(&r->S->rt->alloc, r->extra[r->nextra].p, r->extra[r->nextra].size);
  }
}

/* For functions written by hand; they do not raise either. */

/* Whether the value is a plain table with a string key. */
bool mt_read_is_keywords(lua_State *L, int idx);
/* An integer, also a float without a fraction. */
bool mt_read_int(lua_State *L, int idx, int64_t *out);
/* The sizes at idx (a list) or idx..top (numbers); returns how many stack places it took, negative
 * after an error. */
int mt_read_sizes(lua_State *L, mt_lua *S, int idx, int top, const char *name, const char *func,
                  int64_t *out, int *n);
/* A dtype by its name at idx; MT_NIL-like absence is the caller's business. */
int mt_read_dtype(lua_State *L, mt_lua *S, int idx, const char *name, const char *func,
                  mt_dtype *out);
/* A device name at idx: "cpu" is accepted, others say why they are not there. */
int mt_read_device(lua_State *L, mt_lua *S, int idx, const char *func);

#endif
