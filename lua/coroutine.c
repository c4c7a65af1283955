/* coroutine.c - see coroutine.h.
 *
 * A hook belongs to one thread, and Lua does not say which thread runs: a signal handler that sets
 * a hook in the main thread does not stop a loop inside a coroutine. So resume and wrap keep the
 * answer. They call the originals; results, errors and messages are theirs.
 *
 * Invariant: S->running is NULL or a thread that is alive, because the function that set it keeps
 * it and restores the previous one whatever happens. */
#include "coroutine.h"

#include <lauxlib.h>

#define STATE lua_upvalueindex(1)
#define ORIGINAL lua_upvalueindex(2)
#define COROUTINE lua_upvalueindex(3)

/* Calls ORIGINAL with all arguments while co counts as running. */
static int call_original(lua_State *L, lua_State *co) {
  mt_lua *S = lua_touserdata(L, STATE);
  lua_State *before = S->running;
  lua_pushvalue(L, ORIGINAL);
  lua_insert(L, 1);
  S->running = co;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  S->running = before;
  return status;
}

static int resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "thread");
  return call_original(L, co) == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* The original puts the caller's position in front of a message, but its caller is this function.
 */
static int resume_wrapped(lua_State *L) {
  int status = call_original(L, lua_tothread(L, COROUTINE));
  if (status == LUA_OK) return lua_gettop(L);
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* The function that the original makes has its coroutine as its only upvalue. */
static int wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_pushvalue(L, STATE);
  lua_pushvalue(L, ORIGINAL);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  if (!lua_getupvalue(L, -1, 1) || !lua_isthread(L, -1)) {
    lua_settop(L, 3); /* another library than we know: as it is */
    return 1;
  }
  lua_pushcclosure(L, resume_wrapped, 3);
  return 1;
}

static void replace(lua_State *L, mt_lua *S, const char *name, lua_CFunction fn) {
  lua_pushlightuserdata(L, S);
  lua_getfield(L, -2, name);
  lua_pushcclosure(L, fn, 2);
  lua_setfield(L, -2, name);
}

void mt_coroutine_open(lua_State *L, mt_lua *S) {
  lua_getglobal(L, "coroutine");
  replace(L, S, "resume", resume);
  replace(L, S, "wrap", wrap);
  lua_pop(L, 1);
}
