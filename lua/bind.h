/* bind.h - operations as Lua functions, and what other files of the binding build on.
 *
 * mt_bind_open makes, from every row of the operation tables, `moth.NAME`, the method, the in-place
 * form and the metamethod, and puts hidden operations into moth._C. Files that add functions by
 * hand export a luaL_Reg and are called from module.c.
 *
 * Every function that may allocate begins with mt_lua_enter. */
#ifndef MT_LUA_BIND_H
#define MT_LUA_BIND_H

#include <lauxlib.h>

#include "../runtime/invoke.h"
#include "error.h"
#include "handle.h"
#include "pace.h"

/* First call of each binding function: paces the collector (script finalizers may run), stops an
 * interrupted script, remembers the running coroutine. */
static inline mt_lua *mt_lua_enter(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  if (MT_UNLIKELY(S->L != L)) mt_lua_switch(L, S);
  if (MT_UNLIKELY(S->pace.debt > S->pace.limit)) mt_pace_collect(L, S);
  if (MT_UNLIKELY(S->rt->interrupted)) mt_error_check_interrupt(L, S);
  return S;
}

/* Calls an operation with C values (dims and positions 0-based, index tensors 1-based) and pushes
 * its results; returns their number, raises on errors. The tensors in `v` must be kept by the Lua
 * stack. It does not pace: the calling function did. */
int mt_bind_call(lua_State *L, mt_lua *S, const mt_opinfo *op, int n, const mt_value *v,
                 bool inplace);
/* The same by name; an unknown name is an error. */
int mt_bind_call_name(lua_State *L, mt_lua *S, const char *name, int n, const mt_value *v,
                      bool inplace);

/* The module table is on top of the stack; adds operations, the tensor metatable and methods. */
void mt_bind_open(lua_State *L, mt_lua *S);

#endif
