/* help.h - help(), and the rows of functions that are written by hand.
 *
 * Operations carry usage and help in their rows (runtime/op.h). A function of the binding's own
 * does the same with an mt_luafn; mt_help_setfuncs takes such rows where luaL_setfuncs takes a
 * luaL_Reg. From both come help(), completion, the reference pages and the editor's annotations. */
#ifndef MT_LUA_HELP_H
#define MT_LUA_HELP_H

#include "bind.h"

typedef struct mt_luafn {
  const char *name;
  lua_CFunction fn;   /* NULL: set by other means, only described here */
  const char *schema; /* "tensor(data, *, dtype dtype=nil, bool requires_grad=false) -> tensor" */
  const char *help;   /* sentences; "" for metamethods */
} mt_luafn;

/* Sets the functions (up to a NULL name) into the table on top of the stack, and remembers their
 * rows. `where` is what a caller writes in front of the name: "moth." or "tensor:". Can raise. */
void mt_help_setfuncs(lua_State *L, const mt_luafn *rows, const char *where);

/* Adds help, inspect and set_printoptions to the module table on top, docs and complete to _C. */
void mt_help_open(lua_State *L, mt_lua *S);
/* Pushes the table of tensor methods. */
void mt_help_push_methods(lua_State *L);

#endif
