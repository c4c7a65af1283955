/* print.h - a tensor as text: the tensor's __tostring and the options of moth.set_printoptions. */
#ifndef MT_LUA_PRINT_H
#define MT_LUA_PRINT_H

#include "bind.h"

/* lua_CFunction: the text of the tensor at 1. */
int mt_print_tostring(lua_State *L);

#endif
