/* module.c - luaopen_moth, states of our own, and the C functions of moth_lua.h. */
#include "moth_lua.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "autograd.h"
#include "bind.h"
#include "coroutine.h"
#include "help.h"
#include "io.h"
#include "library.h"
#include "print.h"
#include "tensor.h"

static const char key_module; /* registry: the module table */

/* Keys are made here so that setting them later, where Lua may not throw, allocates nothing. */
static void prepare_registry(lua_State *L) {
  lua_createtable(L, 0, 24); /* the tensor metatable */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &mt_handle_key);
}

int luaopen_moth(lua_State *L) {
  luaL_checkstack(L, 16, NULL);
  luaL_checkversion(L);
  mt_lua *S = mt_lua_find(L);
  if (!S) S = mt_lua_attach(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_module) == LUA_TTABLE) return 1;
  lua_pop(L, 1);
  prepare_registry(L);
  mt_error_open(L);
  lua_newtable(L);
  lua_createtable(L, 0, 8);
  lua_newtable(L);
  lua_setfield(L, -2, "methods");
  lua_setfield(L, -2, "_C");
  mt_bind_open(L, S);
  mt_settings_open(L, S);
  mt_tensor_open(L, S);
  mt_autograd_open(L, S);
  mt_help_open(L, S);
  mt_io_open(L, S);
  mt_library_open(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_module);
  mt_pace_start(L, S);
  return 1;
}

/* ---- states of our own ---- */

static int open_all(lua_State *L) {
  mt_lua *S = lua_touserdata(L, 1);
  mt_lua_setup(L, S);
  luaL_openlibs(L);
  mt_coroutine_open(L, S);
  luaL_requiref(L, "moth", luaopen_moth, 0);
  return 0;
}

static void close_state(mt_lua *S, lua_State *L) {
  moth_runtime *rt = S->rt;
  if (L) lua_close(L);
  mt_lua_detach(S);
  mt_lua_unref(S, rt);
  moth_close(rt);
}

lua_State *moth_lua_open(const moth_options *options) {
  moth_runtime *rt = moth_open(options);
  if (!rt) return NULL;
  mt_lua *S = mt_lua_create(rt);
  if (!S) {
    moth_close(rt);
    return NULL;
  }
  S->own = true;
  lua_State *L = lua_newstate(mt_lua_alloc, S);
  if (L) {
    lua_pushcfunction(L, open_all);
    lua_pushlightuserdata(L, S);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK) return L;
  }
  close_state(S, L);
  return NULL;
}

void moth_lua_close(lua_State *L) {
  mt_lua *S = L ? mt_lua_find(L) : NULL;
  if (S && S->own) {
    close_state(S, S->main);
  } else if (L) {
    lua_close(L);
  }
}

/* ---- for hosts ---- */

moth_runtime *moth_lua_runtime(lua_State *L) {
  const mt_lua *S = mt_lua_find(L);
  return S ? S->rt : NULL;
}

void moth_lua_push(lua_State *L, moth_tensor *t) {
  mt_lua *S = mt_lua_enter(L);
  mt_handle *h = mt_handle_new(L, S);
  mt_handle_fill(S, h, mt_tensor_retain(t));
}

moth_tensor *moth_lua_to(lua_State *L, int idx) {
  const mt_lua *S = mt_lua_find(L);
  return S ? mt_handle_tensor(L, S, idx) : NULL;
}

moth_tensor *moth_lua_check(lua_State *L, int idx) {
  mt_lua *S = mt_lua_of(L);
  moth_tensor *t = mt_handle_tensor(L, S, idx);
  if (!t) luaL_error(L, "bad argument #%d: expected tensor, got %s", idx, mt_error_type(L, S, idx));
  return t;
}

int moth_lua_raise(lua_State *L, int status) { return mt_error_raise(L, mt_lua_of(L), status); }

void moth_lua_interrupt(lua_State *L) {
  mt_lua *S = mt_lua_find(L);
  if (!S) return;
  moth_interrupt(S->rt);
  if (S->main) lua_sethook(S->main, mt_error_hook, LUA_MASKCOUNT, 1);
  lua_State *co = S->running;
  if (co) lua_sethook(co, mt_error_hook, LUA_MASKCOUNT, 1);
}

void moth_lua_resume(lua_State *L) {
  mt_lua *S = mt_lua_find(L);
  if (!S) return;
  moth_resume(S->rt);
  lua_sethook(L, NULL, 0, 0);
  if (S->main) lua_sethook(S->main, NULL, 0, 0);
}
