/* tensor.h - what a tensor does in Lua beside its operations: methods, fields, operators. */
#ifndef MT_LUA_TENSOR_H
#define MT_LUA_TENSOR_H

#include "bind.h"
#include "help.h"

/* Methods written by hand; the row of each stands in tensor.c. */
void mt_tensor_open(lua_State *L, mt_lua *S);
/* fields.c: __index and __newindex, x.shape and the like. The metatable is at `mt`, the method
 * table at `methods`. */
void mt_fields_open(lua_State *L, mt_lua *S, int mt, int methods);
/* Pushes the tensor's sizes (or strides) as a list. */
void mt_tensor_push_ints(lua_State *L, const int64_t *v, int n);
/* A dim as scripts count it at idx, to 0-based; raises. */
int mt_tensor_dim(lua_State *L, mt_lua *S, int idx, int ndim, const char *func);

/* build.c: moth.tensor, from_buffer, item, tolist. */
int mt_build_tensor(lua_State *L);
int mt_build_from_buffer(lua_State *L);
int mt_build_item(lua_State *L);
int mt_build_tolist(lua_State *L);
int mt_build_new_tensor(lua_State *L);

/* settings.c: random seed, default dtype, threads, memory, devices, constants. The module table is
 * on top. */
void mt_settings_open(lua_State *L, mt_lua *S);

#endif
