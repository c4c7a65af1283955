/* io.h - files: moth.save, moth.load and moth.io. */
#ifndef MT_LUA_IO_H
#define MT_LUA_IO_H

#include "bind.h"

/* The module table is on top of the stack. */
void mt_io_open(lua_State *L, mt_lua *S);

#endif
