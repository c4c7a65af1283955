/* tensor.c - methods of tensors that are no operations: geometry, conversions, autograd's switches,
 * and the operators that are not arithmetic. See tensor.h. */
#include "tensor.h"

#include <string.h>

#include "../runtime/shape.h"
#include "../runtime/tape.h"
#include "../runtime/types.h"
#include "autograd.h"
#include "index.h"
#include "print.h"
#include "read.h"

static moth_tensor *self(lua_State *L, mt_lua *S, const char *func) {
  return mt_handle_check(L, S, 1, "self", func);
}

void mt_tensor_push_ints(lua_State *L, const int64_t *v, int n) {
  int64_t copy[MT_MAX_DIM]; /* creating the table may free the tensor that v belongs to */
  memcpy(copy, v, sizeof(int64_t) * (size_t)n);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, copy[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

int mt_tensor_dim(lua_State *L, mt_lua *S, int idx, int ndim, const char *func) {
  int64_t d;
  if (!mt_read_int(L, idx, &d))
    return mt_error_raise(L, S, mt_error_arg(L, S, idx, "dim", func, "an integer"));
  if (d == 0)
    return mt_error_throw(L, "bad argument 'dim' to %s: got 0, but indices start at 1", func);
  if (d < -ndim || d > ndim || ndim == 0)
    return mt_error_throw(L, "bad argument 'dim' to %s: dim %I of a tensor with %d dims", func,
                          (lua_Integer)d, ndim);
  return (int)(d > 0 ? d - 1 : d + ndim);
}

/* ---- geometry ---- */

static int sizes_or_one(lua_State *L, const char *func, bool strides) {
  mt_lua *S = mt_lua_enter(L);
  const moth_tensor *t = self(L, S, func);
  const int64_t *v = strides ? t->v.stride : t->v.size;
  if (lua_isnoneornil(L, 2)) {
    mt_tensor_push_ints(L, v, t->v.ndim);
  } else {
    lua_pushinteger(L, v[mt_tensor_dim(L, S, 2, t->v.ndim, func)]);
  }
  return 1;
}
static int size(lua_State *L) { return sizes_or_one(L, "size", false); }
static int stride(lua_State *L) { return sizes_or_one(L, "stride", true); }

static int dim(lua_State *L) {
  lua_pushinteger(L, self(L, mt_lua_of(L), "dim")->v.ndim);
  return 1;
}
static int numel(lua_State *L) {
  lua_pushinteger(L, self(L, mt_lua_of(L), "numel")->v.numel);
  return 1;
}
static int storage_offset(lua_State *L) {
  lua_pushinteger(L, mt_tensor_offset(self(L, mt_lua_of(L), "storage_offset")));
  return 1;
}
static int is_contiguous(lua_State *L) {
  lua_pushboolean(L, self(L, mt_lua_of(L), "is_contiguous")->v.contiguous);
  return 1;
}
static int element_size(lua_State *L) {
  lua_pushinteger(L, mt_dtype_size((mt_dtype)self(L, mt_lua_of(L), "element_size")->v.dtype));
  return 1;
}
static int is_floating_point(lua_State *L) {
  lua_pushboolean(L,
                  mt_dtype_is_float((mt_dtype)self(L, mt_lua_of(L), "is_floating_point")->v.dtype));
  return 1;
}
static int is_complex(lua_State *L) {
  mt_dtype d = (mt_dtype)self(L, mt_lua_of(L), "is_complex")->v.dtype;
  lua_pushboolean(L, mt_dtype_category(d) == MT_CAT_COMPLEX);
  return 1;
}
static int is_same_size(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  const moth_tensor *a = self(L, S, "is_same_size");
  lua_pushboolean(L, mt_shape_equal(&a->v, &mt_handle_check(L, S, 2, "other", "is_same_size")->v));
  return 1;
}
static int is_set_to(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  const moth_tensor *a = self(L, S, "is_set_to");
  lua_pushboolean(L, a->storage == mt_handle_check(L, S, 2, "other", "is_set_to")->storage);
  return 1;
}

/* ---- dtype and device ---- */

static int convert(lua_State *L, mt_lua *S, moth_tensor *t, mt_dtype d, bool copy) {
  if (d == (mt_dtype)t->v.dtype && !copy) {
    lua_settop(L, 1);
    return 1;
  }
  mt_value v[3] = {mt_t(t), mt_i(d), mt_b(copy)};
  return mt_bind_call_name(L, S, "to", 3, v, false);
}

/* One argument of `to`: a dtype, a device or a tensor to be like. */
static int read_to(lua_State *L, mt_lua *S, int idx, mt_dtype *d) {
  moth_tensor *like = mt_handle_tensor(L, S, idx);
  if (like) {
    *d = (mt_dtype)like->v.dtype;
    return MT_OK;
  }
  if (lua_type(L, idx) != LUA_TSTRING)
    return mt_error_arg(L, S, idx, "dtype", "to", "a dtype, a device or a tensor");
  const char *name = lua_tostring(L, idx);
  bool device = strncmp(name, "cpu", 3) == 0 || strncmp(name, "cuda", 4) == 0;
  return device ? mt_read_device(L, S, idx, "to") : mt_read_dtype(L, S, idx, "dtype", "to", d);
}

static int read_to_keywords(lua_State *L, mt_lua *S, mt_dtype *d, bool *copy) {
  int status = MT_OK, table = lua_gettop(L);
  lua_pushnil(L);
  while (!status && lua_next(L, table)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    int value = lua_gettop(L);
    if (strcmp(key, "dtype") == 0) {
      status = mt_read_dtype(L, S, value, "dtype", "to", d);
    } else if (strcmp(key, "device") == 0) {
      status = mt_read_device(L, S, value, "to");
    } else if (strcmp(key, "copy") == 0) {
      *copy = lua_toboolean(L, value);
    } else if (strcmp(key, "non_blocking") != 0) {
      status =
          mt_fail(S->rt, MT_ERROR,
                  "to has no argument '%.60s' (there are: dtype, device, copy, non_blocking)", key);
    }
    lua_pop(L, 1);
  }
  return status;
}

static int to(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  moth_tensor *t = self(L, S, "to");
  mt_dtype d = (mt_dtype)t->v.dtype;
  bool copy = false;
  int status = MT_OK, top = lua_gettop(L);
  for (int i = 2; i <= top && !status; i++) {
    if (i == top && lua_type(L, i) == LUA_TTABLE) {
      status = read_to_keywords(L, S, &d, &copy);
    } else if (lua_type(L, i) == LUA_TBOOLEAN) {
      copy = lua_toboolean(L, i);
    } else if (!lua_isnil(L, i)) {
      status = read_to(L, S, i, &d);
    }
  }
  return status ? mt_error_raise(L, S, status) : convert(L, S, t, d, copy);
}

/* x:float(), x:long() ...: the dtype is the upvalue. */
static int cast(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_dtype d = (mt_dtype)lua_tointeger(L, lua_upvalueindex(1));
  return convert(L, S, self(L, S, mt_dtypes[d].name), d, false);
}

static int cpu(lua_State *L) {
  self(L, mt_lua_of(L), "cpu");
  lua_settop(L, 1);
  return 1;
}
static int cuda(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  self(L, S, "cuda");
  lua_pushliteral(L, "cuda");
  return mt_error_raise(L, S, mt_read_device(L, S, lua_gettop(L), "cuda"));
}

/* ---- autograd ---- */

static int requires_grad_(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  moth_tensor *t = self(L, S, "requires_grad_");
  int status = moth_set_requires_grad(t, lua_isnoneornil(L, 2) || lua_toboolean(L, 2));
  if (status) return mt_error_raise(L, S, status);
  lua_settop(L, 1);
  return 1;
}

static int detach_(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  moth_tensor *t = self(L, S, "detach_");
  if (t->is_view)
    return mt_error_throw(L, "bad argument 'self' to detach_: it is a view; use detach()");
  mt_tape_set_node(t, NULL, 0);
  if (t->leaf) t->leaf->wants = false;
  lua_settop(L, 1);
  return 1;
}

/* ---- life ---- */

static int free_(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  mt_handle *h = mt_handle_at(L, S, 1);
  if (!h) self(L, S, "free");
  mt_handle_empty(S, h);
  return 0;
}

/* Also called by scripts through the metatable, with anything. */
static int collect(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  mt_handle *h = mt_handle_at(L, S, 1);
  if (h) mt_handle_empty(S, h);
  return 0;
}

void mt_handle_use_finalizers(lua_State *L) {
  if (!lua_checkstack(L, 3)) return;
  mt_handle_push_metatable(L);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

/* ---- operators ---- */

static int length(lua_State *L) {
  const moth_tensor *t = self(L, mt_lua_of(L), "#");
  if (t->v.ndim == 0) return mt_error_throw(L, "a tensor without dims has no length");
  lua_pushinteger(L, t->v.size[0]);
  return 1;
}

/* Whether both are the same tensor; elements are compared by x:eq(y), x:equal(y). */
static int same(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  const moth_tensor *a = mt_handle_tensor(L, S, 1);
  lua_pushboolean(L, a && a == mt_handle_tensor(L, S, 2));
  return 1;
}

static int no_order(lua_State *L, const char *sign, const char *method) {
  return mt_error_throw(L, "use x:%s(y) to compare tensors: Lua's %s can only give true or false",
                        method, sign);
}
static int less(lua_State *L) { return no_order(L, "<", "lt"); }
static int less_equal(lua_State *L) { return no_order(L, "<=", "le"); }

static int concat(lua_State *L) {
  return mt_error_throw(L,
                        "tensors cannot be joined with '..': use tostring(x), or moth.cat for "
                        "their elements");
}

/* ---- tables ---- */

#define T "tensor self"
static const mt_luafn methods[] = {
    {"size", size, "size(" T ", dim? dim=nil) -> int",
     "The size of a dim, or a list of all sizes."},
    {"stride", stride, "stride(" T ", dim? dim=nil) -> int",
     "The stride of a dim in elements, or a list of all strides."},
    {"dim", dim, "dim(" T ") -> int", "How many dims the tensor has."},
    {"numel", numel, "numel(" T ") -> int", "How many elements the tensor has."},
    {"nelement", numel, "nelement(" T ") -> int", "The same as numel."},
    {"storage_offset", storage_offset, "storage_offset(" T ") -> int",
     "Elements in the storage in front of the tensor's first one."},
    {"is_contiguous", is_contiguous, "is_contiguous(" T ") -> bool",
     "Whether the elements lie row by row without gaps."},
    {"element_size", element_size, "element_size(" T ") -> int", "Bytes of one element."},
    {"is_floating_point", is_floating_point, "is_floating_point(" T ") -> bool",
     "Whether the dtype is float64, float32, float16 or bfloat16."},
    {"is_complex", is_complex, "is_complex(" T ") -> bool", "Whether the dtype is complex."},
    {"is_same_size", is_same_size, "is_same_size(" T ", tensor other) -> bool",
     "Whether both have the same shape."},
    {"is_set_to", is_set_to, "is_set_to(" T ", tensor other) -> bool",
     "Whether both share one storage."},
    {"to", to, "to(" T ", dtype? dtype=nil, str? device=nil, bool copy=false) -> tensor",
     "The tensor with another dtype, on another device, or like another tensor. The tensor itself "
     "when there is nothing to do and copy is false."},
    {"cpu", cpu, "cpu(" T ") -> tensor", "The tensor in main memory."},
    {"cuda", cuda, "cuda(" T ") -> tensor", "The tensor on a GPU."},
    {"item", mt_build_item, "item(" T ") -> number",
     "The only element as a Lua number: an integer for integer dtypes, a boolean for bool."},
    {"tolist", mt_build_tolist, "tolist(" T ") -> table", "The elements as nested tables."},
    {"new_tensor", mt_build_new_tensor,
     "new_tensor(" T ", table data, *, dtype? dtype=nil) -> tensor",
     "A tensor of Lua values with the dtype of this one."},
    {"backward", mt_autograd_backward,
     "backward(" T ", tensor? gradient=nil, bool retain_graph=false, bool create_graph=false)",
     "Adds the derivative of this tensor to the grad of every leaf it was computed from. A tensor "
     "with more than one element needs a gradient."},
    {"requires_grad_", requires_grad_, "requires_grad_(" T ", bool requires_grad=true) -> tensor",
     "Switches whether gradients are computed for this leaf."},
    {"retain_grad", mt_autograd_retain_grad, "retain_grad(" T ")",
     "Keeps the gradient of a tensor that is not a leaf in x.grad."},
    {"register_hook", mt_autograd_register_hook, "register_hook(" T ", function hook) -> handle",
     "Calls hook(grad) whenever the gradient of this tensor is computed; what it returns replaces "
     "the gradient. handle:remove() takes the hook away."},
    {"detach_", detach_, "detach_(" T ") -> tensor", "Cuts the tensor off its graph, in place."},
    {"free", free_, "free(" T ")",
     "Gives the memory back now. The tensor cannot be used afterwards; views and graphs that share "
     "its storage can."},
    {NULL, NULL, NULL, NULL}};

static const luaL_Reg operators[] = {{"__len", length},
                                     {"__eq", same},
                                     {"__lt", less},
                                     {"__le", less_equal},
                                     {"__concat", concat},
                                     {"__close", collect},
                                     {"__tostring", mt_print_tostring},
                                     {NULL, NULL}};

/* Described here, set below: they share one function. */
#define CAST(name, type) \
  { name, NULL, name "(" T ") -> tensor", "The tensor as " type "." }
static const mt_luafn casts[] = {
    CAST("double", "float64"),    CAST("float", "float32"), CAST("half", "float16"),
    CAST("bfloat16", "bfloat16"), CAST("long", "int64"),    CAST("int", "int32"),
    CAST("short", "int16"),       CAST("char", "int8"),     CAST("byte", "uint8"),
    CAST("bool", "bool"),         {NULL, NULL, NULL, NULL}};

void mt_tensor_open(lua_State *L, mt_lua *S) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  mt_handle_push_metatable(L);
  luaL_setfuncs(L, operators, 0);
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0); /* getmetatable(x): the metatable is ours alone */
  lua_setfield(L, -2, "__metatable");
  lua_getfield(L, top, "_C");
  lua_getfield(L, -1, "methods");
  mt_help_setfuncs(L, methods, "tensor:");
  mt_help_setfuncs(L, casts, "tensor:");
  for (const mt_luafn *c = casts; c->name; c++) {
    lua_pushinteger(L, mt_dtype_by_name(c->name));
    lua_pushcclosure(L, cast, 1);
    lua_setfield(L, -2, c->name);
  }
  mt_fields_open(L, S, top + 1, top + 3);
  if (S->finalizers) mt_handle_use_finalizers(L);
  lua_settop(L, top);
}
