/* source.h - the comment above a Lua function, from its source. */
#ifndef MT_LUA_SOURCE_H
#define MT_LUA_SOURCE_H

#include "bind.h"

/* Pushes the comment block above the Lua function at idx as readable text, "" if there is none:
 * dashes removed, annotations (---@param x T what) turned into lines. Only comments are ever
 * shown, whatever file the function claims to come from. */
void mt_source_push_comment(lua_State *L, int idx);

#endif
