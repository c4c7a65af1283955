/* library.h - the standard library inside the program.
 *
 * embed.lua makes the table of sources. A searcher in package.searchers finds "moth.nn" there; a
 * module is compiled when it is required for the first time. With MOTH_STDLIB=DIR in the
 * environment the files are read from that directory instead. Chunks are called
 * "=moth/nn/init.lua", by which error.c knows them. */
#ifndef MT_LUA_LIBRARY_H
#define MT_LUA_LIBRARY_H

#include "bind.h"

struct mt_stdlib_file {
  const char *name, *path, *source; /* "moth.nn", "nn/init.lua" */
  size_t size;
};
extern const struct mt_stdlib_file mt_stdlib[]; /* ends with a NULL name */

/* Whether there is such a module. */
bool mt_library_has(lua_State *L, const char *name);
/* Pushes what require(name) returns. Can raise. */
void mt_library_require(lua_State *L, const char *name);
/* Loads moth.tensor once, which adds methods and functions written in Lua; false: done before. */
bool mt_library_extend(lua_State *L);
/* Adds the searcher, and the metatable of the module table on top of the stack, through which
 * moth.nn loads when it is first used; moth.autograd gets its part written in Lua likewise. */
void mt_library_open(lua_State *L);

#endif
