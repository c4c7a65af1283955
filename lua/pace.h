/* pace.h - when to collect. The only file with lua_gc calls is pace.c.
 *
 * Lua counts its own bytes; a handle is tiny and its tensor may be 100 MB. So every new handle
 * adds its storage to a debt, and when the debt is large enough binding functions ask for a minor
 * collection, or for a full one when the bytes held by handles have grown since the last. */
#ifndef MT_LUA_PACE_H
#define MT_LUA_PACE_H

#include "moth_lua.h"
#include "state.h"

void mt_pace_init(mt_lua *S);
/* After the standard library is loaded: generational mode, in a state of our own. */
void mt_pace_start(lua_State *L, mt_lua *S);
/* Collects as the policy says; may run finalizers, never raises. */
void mt_pace_collect(lua_State *L, mt_lua *S);
/* A full collection that runs finalizers. */
void mt_pace_full(lua_State *L, mt_lua *S);
/* Recomputes the limit after `big` or a constant changed. */
void mt_pace_limit(mt_lua *S);
/* moth.gc */
int mt_pace_gc(lua_State *L);

#endif
