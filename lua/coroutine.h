/* coroutine.h - knows which coroutine runs, so that an interrupt reaches it. */
#ifndef MT_LUA_COROUTINE_H
#define MT_LUA_COROUTINE_H

#include "state.h"

/* Replaces coroutine.resume and coroutine.wrap in a state of our own by ones that note in
 * S->running which coroutine they resume. Can raise. */
void mt_coroutine_open(lua_State *L, mt_lua *S);

#endif
