/* describe.h - text about Lua functions, classes, modules and other tables, for help(). */
#ifndef MT_LUA_DESCRIBE_H
#define MT_LUA_DESCRIBE_H

#include "bind.h"

enum {
  MT_HELP_LINE = 78
};

/* Pushes signature and comment of the function at the absolute index idx; `name` may be NULL. */
void mt_describe_function(lua_State *L, int idx, const char *name);
/* Pushes what the table at idx is: a class, a module, or a list of fields. */
void mt_describe_table(lua_State *L, int idx, const char *name);
/* Pushes `head` and the sorted fields of the table at idx. */
void mt_describe_fields(lua_State *L, int idx, const char *head);
/* Adds the strings of the sorted list at idx as filled lines. */
void mt_describe_names(lua_State *L, luaL_Buffer *b, int idx, int indent);
/* Pushes the string key under which the table at `in` holds the value at idx; false: none. */
bool mt_describe_key(lua_State *L, int in, int idx);

#endif
