/* error.h - the one place where a status of the runtime becomes a Lua error.
 *
 * Every message starts with the position of the script: of the innermost Lua function that is not
 * part of the embedded standard library (whose chunks are called "=moth/..."), so an error inside
 * nn.Linear points at the line of the user who called the layer. Errors are strings. */
#ifndef MT_LUA_ERROR_H
#define MT_LUA_ERROR_H

#include <lua.h>

#include "state.h"

/* Makes the registry's place for errors that are kept. */
void mt_error_open(lua_State *L);
/* Raises the runtime's last error (mt_fail made it); never returns. A Lua error that passed through
 * the runtime (from a hook or a Function) is raised again as it was. */
int mt_error_raise(lua_State *L, mt_lua *S, int status);
/* Raises a message of the binding's own, lua_pushfstring formats (%s %d %f %I %p %c %U %%). */
int mt_error_throw(lua_State *L, const char *fmt, ...);
/* Writes "file:line" of the script into buf, "" when no Lua function is running. */
void mt_error_where(lua_State *L, char *buf, size_t size);
/* "tensor", "number", "string" ...: for messages. */
const char *mt_error_type(lua_State *L, const mt_lua *S, int idx);
/* Sets the runtime's error to "bad argument 'NAME' to FUNC: expected WHAT, got TYPE". */
int mt_error_arg(lua_State *L, mt_lua *S, int idx, const char *name, const char *func,
                 const char *expected);
/* Keeps the Lua error on top of the stack (and pops it) while the runtime unwinds; returns the
 * status to hand on. */
int mt_error_keep(lua_State *L, mt_lua *S);
/* Stops the script when the host asked for it. */
void mt_error_check_interrupt(lua_State *L, mt_lua *S);
/* The hook that stops running Lua code. */
void mt_error_hook(lua_State *L, lua_Debug *ar);

#endif
