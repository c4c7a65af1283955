/* index.h - x[...] and x[...] = v.
 *
 * Called by the tensor's __index and __newindex for keys that are not strings: positions, ranges
 * and lists in a table, index tensors, masks, moth.newaxis. The arguments of the metamethod are at
 * 1 (tensor), 2 (key) and 3 (value); the caller has already called mt_lua_enter. */
#ifndef MT_LUA_INDEX_H
#define MT_LUA_INDEX_H

#include "bind.h"

int mt_index_get(lua_State *L, mt_lua *S);
int mt_index_set(lua_State *L, mt_lua *S);

#endif
