/* moth_lua.h - Moth in a Lua 5.4 state: the one header for C programs that run Lua.
 *
 * Two ways in. A program that wants its own interpreter calls moth_lua_open: a new state with the
 * standard libraries, `moth` loaded, the collector paced by tensor bytes. A program that has a
 * state calls luaopen_moth (luaL_requiref(L, "moth", luaopen_moth, 0)), or the script says require
 * "moth" and finds moth.so. A state and its runtime belong to one thread at a time.
 *
 * Functions here that take a lua_State work in the main thread and in coroutines. What "can raise"
 * raises a Lua error, so call it in a protected call. Inside Lua, positions and dims are 1-based; C
 * sees 0-based ones. */
#ifndef MOTH_LUA_H
#define MOTH_LUA_H

#include <lua.h>

#include "moth.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A new state with a runtime of its own; options->alloc serves both. NULL: no memory. */
MOTH_API lua_State *moth_lua_open(const moth_options *options);
/* Closes a state of moth_lua_open and its runtime. Tensors that the host retained stay readable. */
MOTH_API void moth_lua_close(lua_State *L);
/* Loads Moth into any Lua 5.4 state and pushes the module table. Can raise. In a foreign state the
 * allocator is wrapped (every request is handed on) and unwrapped never: the state must be closed
 * with lua_close, after which nothing of Moth is left. */
MOTH_API int luaopen_moth(lua_State *L);

/* The runtime of a state; NULL when Moth is not loaded there. */
MOTH_API moth_runtime *moth_lua_runtime(lua_State *L);

/* Pushes a tensor; the handle takes a reference of its own. Can raise (memory). */
MOTH_API void moth_lua_push(lua_State *L, moth_tensor *t);
/* The tensor at idx, borrowed: valid while the value stays on the stack and the script does not
 * free it. NULL when the value is no tensor, or one that was freed. */
MOTH_API moth_tensor *moth_lua_to(lua_State *L, int idx);
/* The same, but raises a Lua error that names argument idx. */
MOTH_API moth_tensor *moth_lua_check(lua_State *L, int idx);
/* Raises the runtime's last error as a Lua error with the script's position. Never returns. */
MOTH_API int moth_lua_raise(lua_State *L, int status);

/* Stops the script that runs in L: moth_interrupt, and in addition a hook that stops Lua code which
 * calls no operation. For a signal handler on the state's thread, as lua.c does; from another
 * thread use moth_interrupt(moth_lua_runtime(L)), which stops at the next operation or allocation.
 * The script's pcall cannot hold the error: it is raised again until moth_lua_resume. */
MOTH_API void moth_lua_interrupt(lua_State *L);
MOTH_API void moth_lua_resume(lua_State *L);

/* For hosts with a frame loop: collects for about that long, now, so that later operations need
 * not. Returns whether there is nothing more to do. Can run script finalizers. */
MOTH_API bool moth_lua_step(lua_State *L, int microseconds);

#ifdef __cplusplus
}
#endif
#endif
