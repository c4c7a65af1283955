/* source.h - the comments of Lua functions, classes and modules, from their sources. */
#ifndef MT_LUA_SOURCE_H
#define MT_LUA_SOURCE_H

#include "bind.h"

/* Pushes the comment block above the Lua function at idx as readable text, "" if there is none:
 * dashes removed, annotations (---@param x T what) turned into lines. Only comments are ever
 * shown, whatever file the function claims to come from. */
void mt_source_push_comment(lua_State *L, int idx);
/* The same for the line that says `("NAME"`, as declarations of classes do, in the source of the
 * Lua function at idx. */
void mt_source_push_declaration(lua_State *L, int idx, const char *name);
/* The comment at the top of a module of the standard library. */
void mt_source_push_header(lua_State *L, const char *module);

#endif
