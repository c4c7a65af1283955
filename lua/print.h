/* print.h - tensors and other values as text.
 *
 * Tensors print as in PyTorch (aligned, four digits, scientific when magnitudes differ much, long
 * ones summarised), with shape, dtype and device behind. Nothing here changes a tensor or records
 * anything; the length of the text is bounded by the print options. */
#ifndef MT_LUA_PRINT_H
#define MT_LUA_PRINT_H

#include "bind.h"

/* lua_CFunction: the text of the tensor at 1. */
int mt_print_tostring(lua_State *L);
/* moth.set_printoptions{precision=, threshold=, edgeitems=, linewidth=, sci_mode=} */
int mt_print_set_options(lua_State *L);
/* moth.inspect(value): the text that the prompt shows. */
int mt_print_inspect_fn(lua_State *L);

/* Pushes the text of the tensor at idx. Can raise. */
void mt_print_tensor(lua_State *L, int idx);
/* Pushes one line that describes a tensor: "<tensor float32 (2, 3)>". */
void mt_print_brief(lua_State *L, const moth_tensor *t);
/* Pushes the text of any value for the prompt (inspect.c). */
void mt_print_inspect(lua_State *L, int idx);

#endif
