/* complete.h - completion of Lua names at the prompt. */
#ifndef MT_LUA_COMPLETE_H
#define MT_LUA_COMPLETE_H

#include "bind.h"

/* lua_CFunction (text): the sorted list of names that continue `text`, which is a name or a path of
 * names such as "moth.nn.Li" or "x:re". Runs no code of the script's. */
int mt_complete_fn(lua_State *L);

#endif
