/* autograd.h - gradients from Lua: modes, backward, hooks.
 *
 * Lua functions that the graph refers to (hooks, Functions) are kept in the registry and named by
 * an mt_hooks record. The graph may die inside the collector's sweep, where Lua must not be called;
 * so the record only goes to S->dead, and mt_autograd_drain drops the reference later. */
#ifndef MT_LUA_AUTOGRAD_H
#define MT_LUA_AUTOGRAD_H

#include "state.h"

typedef struct mt_hooks {
  struct mt_hooks *next;
  int ref; /* in the registry */
} mt_hooks;

/* A record for the value on top of the stack, which it pops; NULL: no memory. Can raise. */
mt_hooks *mt_hooks_new(lua_State *L, mt_lua *S);
/* Gives the record up; calls no Lua. */
void mt_hooks_free(mt_lua *S, mt_hooks *h);

/* Sets and clears the runtime's callbacks. */
void mt_autograd_attach(mt_lua *S);
void mt_autograd_detach(mt_lua *S);
/* Drops references of graphs that died. */
void mt_autograd_drain(lua_State *L, mt_lua *S);

/* x:backward, x:register_hook, x:retain_grad. */
int mt_autograd_backward(lua_State *L);
int mt_autograd_register_hook(lua_State *L);
int mt_autograd_retain_grad(lua_State *L);
/* The module table is on top: no_grad and friends, moth.autograd. */
void mt_autograd_open(lua_State *L, mt_lua *S);

/* function.c: moth.autograd.Function(name). */
int mt_function_new(lua_State *L);

#endif
