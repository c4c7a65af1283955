/* error.c - see error.h. */
#include "error.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "handle.h"

#define LIBRARY "=moth/" /* how chunk names of the standard library begin */

static const char key_kept; /* registry: the error value that waits */

/* The innermost Lua function outside the standard library, or inside it when there is no other. */
static bool find_position(lua_State *L, lua_Debug *found) {
  lua_Debug ar;
  bool any = false;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (!lua_getinfo(L, "Sl", &ar) || ar.currentline <= 0) continue;
    bool library = strncmp(ar.source, LIBRARY, sizeof LIBRARY - 1) == 0;
    if (!any || !library) *found = ar;
    any = true;
    if (!library) break;
  }
  return any;
}

void mt_error_where(lua_State *L, char *buf, size_t size) {
  lua_Debug ar;
  if (L && find_position(L, &ar)) {
    snprintf(buf, size, "%s:%d", ar.short_src, ar.currentline);
  } else if (size) {
    buf[0] = 0;
  }
}

static void push_position(lua_State *L) {
  lua_Debug ar;
  if (find_position(L, &ar)) {
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  } else {
    lua_pushliteral(L, "");
  }
}

int mt_error_throw(lua_State *L, const char *fmt, ...) {
  va_list ap;
  luaL_checkstack(L, 4, NULL);
  push_position(L);
  va_start(ap, fmt);
  lua_pushvfstring(L, fmt, ap);
  va_end(ap);
  lua_concat(L, 2);
  return lua_error(L);
}

int mt_error_raise(lua_State *L, mt_lua *S, int status) {
  luaL_checkstack(L, 4, NULL);
  if (S->pending) {
    S->pending = false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kept);
    lua_pushboolean(L, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kept);
    return lua_error(L);
  }
  if (status == MT_INTERRUPTED) mt_error_check_interrupt(L, S);
  const char *text = moth_error(S->rt);
  return mt_error_throw(L, "%s", text[0] ? text : "unknown error");
}

void mt_error_open(lua_State *L) {
  lua_pushboolean(L, 0);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kept);
}

int mt_error_keep(lua_State *L, mt_lua *S) {
  /* A message for C callers; an object that is no string has none (tostring could run Lua). */
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "error in Lua code";
  int status = mt_fail(S->rt, S->rt->interrupted ? MT_INTERRUPTED : MT_ERROR, "%s", text);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kept);
  S->pending = true;
  return status;
}

const char *mt_error_type(lua_State *L, const mt_lua *S, int idx) {
  mt_handle *h = mt_handle_at(L, S, idx);
  if (h) return h->t ? "tensor" : "a tensor that was freed";
  int type = lua_type(L, idx);
  return type == LUA_TNONE ? "nothing" : lua_typename(L, type);
}

int mt_error_arg(lua_State *L, mt_lua *S, int idx, const char *name, const char *func,
                 const char *expected) {
  char got[64];
  if (lua_isinteger(L, idx)) {
    snprintf(got, sizeof got, "%lld", (long long)lua_tointeger(L, idx));
  } else if (lua_type(L, idx) == LUA_TNUMBER) {
    snprintf(got, sizeof got, "%.14g", lua_tonumber(L, idx));
  } else {
    snprintf(got, sizeof got, "%s", mt_error_type(L, S, idx));
  }
  return mt_fail(S->rt, MT_ERROR, "bad argument '%s' to %s: expected %s, got %s", name, func,
                 expected, got);
}

/* ---- interruption ---- */

void mt_error_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  mt_lua *S = mt_lua_find(L);
  if (!S || !S->rt->interrupted) {
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  mt_error_throw(L, "interrupted");
}

/* The hook goes on raising when a pcall caught the error, until the host says moth_resume. */
void mt_error_check_interrupt(lua_State *L, mt_lua *S) {
  if (!S->rt->interrupted) return;
  lua_sethook(L, mt_error_hook, LUA_MASKCOUNT, 1); /* no call hook: message handlers must run */
  if (S->main && S->main != L) lua_sethook(S->main, mt_error_hook, LUA_MASKCOUNT, 1);
  mt_error_throw(L, "interrupted");
}
