/* fields.c - x.shape, x.grad = nil: the tensor's __index and __newindex.
 *
 * A string names a method or a field, in this order of frequency; anything else is a position and
 * goes to index.c. A name that neither has is looked up again after moth.tensor, which adds methods
 * written in Lua, was loaded; then it is nil. */
#include <string.h>

#include "../runtime/tape.h"
#include "autograd.h"
#include "index.h"
#include "library.h"
#include "tensor.h"

typedef struct field {
  const char *name;
  void (*push)(lua_State *L, mt_lua *S, moth_tensor *t); /* one value */
  int (*set)(lua_State *L, mt_lua *S, moth_tensor *t);   /* value at 3; a status; NULL: read only */
} field;

#define METHODS lua_upvalueindex(1)
#define FIELDS lua_upvalueindex(2)

/* ---- reading ---- */

static void push_shape(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  mt_tensor_push_ints(L, t->v.size, t->v.ndim);
}
static void push_dtype(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushstring(L, mt_dtypes[t->v.dtype].name);
}
static void push_device(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  (void)t;
  lua_pushliteral(L, "cpu");
}
static void push_ndim(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushinteger(L, t->v.ndim);
}
static void push_requires_grad(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushboolean(L, mt_tensor_needs_grad(t));
}
static void push_is_leaf(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushboolean(L, mt_tensor_is_leaf(t));
}
static void push_false(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  (void)t;
  lua_pushboolean(L, 0);
}
static void push_itemsize(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushinteger(L, mt_dtype_size((mt_dtype)t->v.dtype));
}
static void push_nbytes(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushinteger(L, t->v.numel * mt_dtype_size((mt_dtype)t->v.dtype));
}
static void push_version(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  lua_pushinteger(L, t->storage->version);
}
static void push_grad(lua_State *L, mt_lua *S, moth_tensor *t) {
  if (t->leaf && t->leaf->grad) {
    mt_handle_push(L, S, mt_tensor_retain(t->leaf->grad));
  } else {
    lua_pushnil(L);
  }
}
static void push_base(lua_State *L, mt_lua *S, moth_tensor *t) {
  if (t->base) {
    mt_handle_push(L, S, mt_tensor_retain(t->base));
  } else {
    lua_pushnil(L);
  }
}
static void push_grad_fn(lua_State *L, mt_lua *S, moth_tensor *t) {
  (void)S;
  if (!t->node) {
    lua_pushnil(L);
  } else {
    const char *name = t->node->op ? t->node->op->name : t->node->custom->name;
    lua_pushstring(L, *name == '_' ? name + 1 : name);
  }
}
static void push_data(lua_State *L, mt_lua *S, moth_tensor *t) {
  moth_tensor *alias;
  int status = mt_tensor_alias(&alias, t, t->v.ndim, t->v.size, t->v.stride, 0);
  if (status) mt_error_raise(L, S, status);
  mt_handle_push(L, S, alias);
}
static void push_T(lua_State *L, mt_lua *S, moth_tensor *t) {
  int64_t dims[MT_MAX_DIM];
  for (int i = 0; i < t->v.ndim; i++) dims[i] = t->v.ndim - 1 - i;
  mt_value v[2] = {mt_t(t), mt_ints(dims, t->v.ndim)};
  mt_bind_call_name(L, S, "permute", 2, v, false);
}
static void push_mT(lua_State *L, mt_lua *S, moth_tensor *t) {
  mt_value v[1] = {mt_t(t)};
  mt_bind_call_name(L, S, "mT", 1, v, false);
}

/* ---- writing ---- */

static int set_requires_grad(lua_State *L, mt_lua *S, moth_tensor *t) {
  if (lua_type(L, 3) != LUA_TBOOLEAN)
    return mt_fail(S->rt, MT_ERROR, "requires_grad is true or false, got %s",
                   mt_error_type(L, S, 3));
  return moth_set_requires_grad(t, lua_toboolean(L, 3));
}

static int set_grad(lua_State *L, mt_lua *S, moth_tensor *t) {
  if (lua_isnil(L, 3)) {
    moth_zero_grad(t);
    return MT_OK;
  }
  moth_tensor *g = mt_handle_tensor(L, S, 3);
  if (!g)
    return mt_fail(S->rt, MT_ERROR, "grad is a tensor or nil, got %s", mt_error_type(L, S, 3));
  if (g == t) return mt_fail(S->rt, MT_ERROR, "a tensor cannot be its own grad");
  if (g->v.dtype != t->v.dtype || g->v.ndim != t->v.ndim ||
      memcmp(g->v.size, t->v.size, sizeof(int64_t) * (size_t)t->v.ndim) != 0)
    return mt_fail(S->rt, MT_ERROR, "grad must have dtype and shape of its tensor, %s; got %s",
                   mt_tensor_str(t), mt_tensor_str(g));
  mt_leaf *leaf = mt_tensor_leaf(t);
  if (!leaf) return mt_fail(S->rt, MT_NOMEM, "out of memory for a tensor record");
  moth_tensor *old = leaf->grad;
  leaf->grad = mt_tensor_retain(g);
  mt_tensor_release(old);
  return MT_OK;
}

/* x.data = y: the elements change, the graph does not notice. */
static int set_data(lua_State *L, mt_lua *S, moth_tensor *t) {
  moth_tensor *from = mt_handle_tensor(L, S, 3), *alias;
  if (!from) return mt_fail(S->rt, MT_ERROR, "data is a tensor, got %s", mt_error_type(L, S, 3));
  int status = mt_tensor_alias(&alias, t, t->v.ndim, t->v.size, t->v.stride, 0);
  if (status) return status;
  uint32_t version = t->storage->version;
  mt_results r;
  mt_value v[2] = {mt_t(alias), mt_t(from)};
  bool was = moth_set_grad_enabled(S->rt, false);
  status = mt_invoke(&r, S->rt, mt_op_find("copy"), 2, v, 1, true);
  moth_set_grad_enabled(S->rt, was);
  if (!status) mt_results_free(&r);
  t->storage->version = version;
  mt_tensor_release(alias);
  return status;
}

static const field fields[] = {{"shape", push_shape, NULL},
                               {"dtype", push_dtype, NULL},
                               {"device", push_device, NULL},
                               {"ndim", push_ndim, NULL},
                               {"requires_grad", push_requires_grad, set_requires_grad},
                               {"grad", push_grad, set_grad},
                               {"data", push_data, set_data},
                               {"is_leaf", push_is_leaf, NULL},
                               {"grad_fn", push_grad_fn, NULL},
                               {"is_cuda", push_false, NULL},
                               {"itemsize", push_itemsize, NULL},
                               {"nbytes", push_nbytes, NULL},
                               {"T", push_T, NULL},
                               {"mT", push_mT, NULL},
                               {"_version", push_version, NULL},
                               {"_base", push_base, NULL}};

/* ---- metamethods ---- */

static const field *field_at(lua_State *L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, FIELDS);
  const field *f = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return f;
}

static int method(lua_State *L) {
  lua_pushvalue(L, 2);
  return lua_rawget(L, METHODS) != LUA_TNIL;
}

static int get(lua_State *L) {
  if (MT_LIKELY(lua_type(L, 2) == LUA_TSTRING)) {
    if (MT_LIKELY(method(L))) return 1;
    const field *f = field_at(L);
    if (f) {
      mt_lua *S = mt_lua_enter(L);
      f->push(L, S, mt_handle_check(L, S, 1, "self", f->name));
      return 1;
    }
    const char *name = lua_tostring(L, 2);
    if (strcmp(name, "...") != 0 && strcmp(name, "newaxis") != 0) {
      if (mt_library_extend(L)) method(L);
      return 1;
    }
  }
  return mt_index_get(L, mt_lua_enter(L));
}

static int put(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  if (lua_type(L, 2) != LUA_TSTRING || strcmp(lua_tostring(L, 2), "...") == 0 ||
      strcmp(lua_tostring(L, 2), "newaxis") == 0)
    return mt_index_set(L, S);
  const field *f = field_at(L);
  if (!f || !f->set)
    return mt_error_throw(L, "a tensor's field '%s' cannot be set", lua_tostring(L, 2));
  int status = f->set(L, S, mt_handle_check(L, S, 1, "self", f->name));
  return status ? mt_error_raise(L, S, status) : 0;
}

void mt_fields_open(lua_State *L, mt_lua *S, int mt, int methods) {
  (void)S;
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, 0, (int)(sizeof fields / sizeof fields[0]));
  int table = lua_gettop(L);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)&fields[i]);
    lua_setfield(L, table, fields[i].name);
    lua_pushnil(L); /* a field wins over an operation of the same name */
    lua_setfield(L, methods, fields[i].name);
  }
  for (int i = 0; i < 2; i++) {
    lua_pushvalue(L, methods);
    lua_pushvalue(L, table);
    lua_pushcclosure(L, i ? put : get, 2);
    lua_setfield(L, mt, i ? "__newindex" : "__index");
  }
  lua_pop(L, 1);
}
