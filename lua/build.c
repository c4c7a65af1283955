/* build.c - tensors from Lua values and back.
 *
 * Nested tables are walked twice: first to find shape and dtype and to complain about ragged or
 * foreign elements, then to fill. Access is raw and nothing is allocated in Lua meanwhile, so the
 * tables cannot change between the walks. Integers give int64, any float the default float dtype,
 * booleans bool; mixed kinds take the highest. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../runtime/shape.h"
#include "read.h"
#include "tensor.h"

/* ---- finding the shape ---- */

typedef struct scan {
  lua_State *L;
  mt_lua *S;
  const char *func;
  int ndim;
  int64_t size[MT_MAX_DIM];
  int64_t at[MT_MAX_DIM]; /* where the walk is, 1-based: for messages */
  mt_category kind;
} scan;

static int fail_at(scan *s, int depth, const char *what) {
  char place[200] = "";
  size_t n = 0;
  for (int d = 0; d < depth && n < sizeof place - 24; d++)
    n += (size_t)snprintf(place + n, sizeof place - n, "[%lld]", (long long)s->at[d]);
  return mt_fail(s->S->rt, MT_ERROR, "bad argument 'data' to %s: %s%s%s", s->func, what,
                 depth ? " at " : "", place);
}

/* Follows first elements down. The value is on top of the stack and stays there. */
static int find_shape(scan *s) {
  lua_State *L = s->L;
  int top = lua_gettop(L);
  while (lua_type(L, -1) == LUA_TTABLE) {
    if (s->ndim == MT_MAX_DIM) return fail_at(s, 0, "the table is nested too deeply");
    int64_t n = (int64_t)lua_rawlen(L, -1);
    s->size[s->ndim] = n;
    s->at[s->ndim++] = 1;
    if (n == 0) break;
    lua_rawgeti(L, -1, 1);
  }
  lua_settop(L, top);
  return MT_OK;
}

static int see_kind(scan *s, mt_category kind) {
  if (kind > s->kind) s->kind = kind;
  return MT_OK;
}

static int check_leaf(scan *s, int depth) {
  char text[80];
  lua_State *L = s->L;
  switch (lua_type(L, -1)) {
    case LUA_TNUMBER:
      return see_kind(s, lua_isinteger(L, -1) ? MT_CAT_INT : MT_CAT_FLOAT);
    case LUA_TBOOLEAN:
      return see_kind(s, MT_CAT_BOOL);
    case LUA_TUSERDATA: {
      const moth_tensor *t = mt_handle_tensor(L, s->S, -1);
      if (t && t->v.numel == 1) return see_kind(s, mt_dtype_category((mt_dtype)t->v.dtype));
    } /* fall through */
    default:
      snprintf(text, sizeof text, "expected a number, got %s", mt_error_type(L, s->S, -1));
      return fail_at(s, depth, text);
  }
}

static int check(scan *s, int depth) {
  char text[80];
  lua_State *L = s->L;
  if (depth == s->ndim) {
    if (lua_type(L, -1) == LUA_TTABLE) return fail_at(s, depth, "expected a number, got a table");
    return check_leaf(s, depth);
  }
  if (lua_type(L, -1) != LUA_TTABLE) {
    snprintf(text, sizeof text, "expected a table of %lld elements, got %s",
             (long long)s->size[depth], mt_error_type(L, s->S, -1));
    return fail_at(s, depth, text);
  }
  int64_t n = (int64_t)lua_rawlen(L, -1);
  if (n != s->size[depth]) {
    snprintf(text, sizeof text, "ragged table: expected %lld elements, got %lld",
             (long long)s->size[depth], (long long)n);
    return fail_at(s, depth, text);
  }
  for (int64_t i = 1; i <= n; i++) {
    s->at[depth] = i;
    lua_rawgeti(L, -1, i);
    int status = check(s, depth + 1);
    if (status) return status;
    lua_pop(L, 1);
  }
  return MT_OK;
}

/* ---- filling ---- */

typedef struct filler {
  lua_State *L;
  mt_lua *S;
  char *at;
  mt_dtype dtype; /* F64, F32, I64 or BOOL */
  bool bad;       /* a float without integer value for an integer tensor */
} filler;

static void store(filler *f, bool isint, int64_t i, double d) {
  switch (f->dtype) {
    case MT_F64:
      *(double *)(void *)f->at = isint ? (double)i : d;
      break;
    case MT_F32:
      *(float *)(void *)f->at = isint ? (float)i : (float)d;
      break;
    case MT_BOOL:
      *(uint8_t *)f->at = isint ? i != 0 : d != 0;
      break;
    default:
      if (!isint && !(d > -9.2e18 && d < 9.2e18)) {
        f->bad = true;
        d = 0;
      }
      *(int64_t *)(void *)f->at = isint ? i : (int64_t)d;
      break;
  }
  f->at += mt_dtype_size(f->dtype);
}

static void fill(filler *f) {
  lua_State *L = f->L;
  switch (lua_type(L, -1)) {
    case LUA_TTABLE:
      for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n; i++) {
        lua_rawgeti(L, -1, i);
        fill(f);
        lua_pop(L, 1);
      }
      break;
    case LUA_TNUMBER:
      store(f, lua_isinteger(L, -1), lua_tointeger(L, -1), lua_tonumber(L, -1));
      break;
    case LUA_TBOOLEAN:
      store(f, true, lua_toboolean(L, -1), 0);
      break;
    default: {
      int64_t i = 0;
      double d = 0;
      bool isint = mt_tensor_read(mt_handle_tensor(L, f->S, -1), 0, &i, &d);
      store(f, isint, i, d);
    }
  }
}

/* The dtype in which elements are stored before they are cast to `d`. */
static mt_dtype stored_as(mt_dtype d) {
  switch (mt_dtype_category(d)) {
    case MT_CAT_BOOL:
      return MT_BOOL;
    case MT_CAT_INT:
      return MT_I64;
    default:
      return d == MT_F64 ? MT_F64 : MT_F32;
  }
}

static mt_dtype natural(const scan *s) {
  if (s->ndim > 0 && s->size[s->ndim - 1] == 0) return s->S->rt->default_float;
  switch (s->kind) {
    case MT_CAT_BOOL:
      return MT_BOOL;
    case MT_CAT_INT:
      return MT_I64;
    default:
      return s->S->rt->default_float;
  }
}

/* Casts *t in its place, outside of any graph. */
static int cast(mt_lua *S, moth_tensor **t, mt_dtype d) {
  mt_results r;
  mt_value v[2] = {mt_t(*t), mt_i(d)};
  if ((mt_dtype)(*t)->v.dtype == d) return MT_OK;
  int status = mt_invoke(&r, S->rt, mt_op_find("to"), 2, v, 1, false);
  if (status) return status;
  mt_tensor_release(*t);
  *t = r.t[0];
  return MT_OK;
}

/* The value on top of the stack as a tensor; MT_NODTYPE: as the elements say. */
static int build(moth_tensor **out, lua_State *L, mt_lua *S, const char *func, mt_dtype dtype) {
  scan s = {.L = L, .S = S, .func = func, .kind = MT_CAT_BOOL};
  moth_tensor *t;
  int status = find_shape(&s);
  if (!status) status = check(&s, 0);
  if (status) return status;
  if (dtype == MT_NODTYPE) dtype = natural(&s);
  status = mt_tensor_new(&t, S->rt, stored_as(dtype), s.ndim, s.size, NULL);
  if (status) return status;
  filler f = {.L = L, .S = S, .at = t->v.data, .dtype = stored_as(dtype)};
  fill(&f);
  status = f.bad ? mt_fail(S->rt, MT_ERROR,
                           "bad argument 'data' to %s: a number does not fit %s (NaN, inf or too "
                           "large)",
                           func, mt_dtypes[dtype].name)
                 : cast(S, &t, dtype);
  if (status) {
    mt_tensor_release(t);
  } else {
    *out = t;
  }
  return status;
}

/* A copy of a tensor without graph. */
static int copy(moth_tensor **out, mt_lua *S, moth_tensor *t, mt_dtype dtype) {
  mt_results r;
  mt_value v[3] = {mt_t(t), mt_i(dtype == MT_NODTYPE ? t->v.dtype : (int)dtype), mt_b(true)};
  bool was = moth_set_grad_enabled(S->rt, false);
  int status = mt_invoke(&r, S->rt, mt_op_find("to"), 3, v, 1, false);
  moth_set_grad_enabled(S->rt, was);
  if (!status) *out = r.t[0];
  return status;
}

/* ---- functions ---- */

/* Options in the table at idx: dtype, device, requires_grad. */
static int read_options(lua_State *L, mt_lua *S, int idx, const char *func, mt_dtype *dtype,
                        bool *requires_grad) {
  int status = MT_OK;
  if (lua_isnoneornil(L, idx)) return MT_OK;
  if (lua_type(L, idx) != LUA_TTABLE)
    return mt_error_arg(L, S, idx, "options", func, "a table of options");
  lua_pushnil(L);
  while (!status && lua_next(L, idx)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    int value = lua_gettop(L);
    if (strcmp(key, "dtype") == 0) {
      status = mt_read_dtype(L, S, value, "dtype", func, dtype);
    } else if (strcmp(key, "device") == 0) {
      status = mt_read_device(L, S, value, func);
    } else if (strcmp(key, "requires_grad") == 0) {
      *requires_grad = lua_toboolean(L, value);
    } else {
      status = mt_fail(S->rt, MT_ERROR,
                       "%s has no argument '%.60s' (there are: dtype, device, requires_grad)", func,
                       key);
    }
    lua_pop(L, 1);
  }
  return status;
}

static int make(lua_State *L, mt_lua *S, const char *func, int data, mt_dtype dtype) {
  bool requires_grad = false;
  moth_tensor *t = NULL;
  int status = read_options(L, S, data + 1, func, &dtype, &requires_grad);
  if (lua_isnoneornil(L, data))
    return mt_error_throw(L, "bad argument 'data' to %s: expected numbers, got nothing", func);
  mt_handle *h = mt_handle_new(L, S);
  lua_pushvalue(L, data);
  moth_tensor *given = mt_handle_tensor(L, S, -1);
  if (!status) status = given ? copy(&t, S, given, dtype) : build(&t, L, S, func, dtype);
  if (!status && requires_grad) {
    status = moth_set_requires_grad(t, true);
    if (status) mt_tensor_release(t);
  }
  if (status) return mt_error_raise(L, S, status);
  lua_settop(L, lua_gettop(L) - 1);
  mt_handle_fill(S, h, t);
  return 1;
}

int mt_build_tensor(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 2);
  return make(L, S, "tensor", 1, MT_NODTYPE);
}

int mt_build_new_tensor(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 3);
  mt_dtype dtype = (mt_dtype)mt_handle_check(L, S, 1, "self", "new_tensor")->v.dtype;
  return make(L, S, "new_tensor", 2, dtype);
}

int mt_build_from_buffer(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_dtype dtype = S->rt->default_float;
  bool requires_grad = false;
  int64_t size[MT_MAX_DIM];
  int n = 0;
  moth_tensor *t = NULL;
  lua_settop(L, 3);
  mt_handle *h = mt_handle_new(L, S);
  if (lua_type(L, 1) != LUA_TSTRING)
    return mt_error_raise(L, S, mt_error_arg(L, S, 1, "data", "from_buffer", "a string of bytes"));
  size_t len;
  const char *bytes = lua_tolstring(L, 1, &len);
  int status = mt_read_sizes(L, S, 2, 2, "size", "from_buffer", size, &n);
  status = status < 0 ? status : read_options(L, S, 3, "from_buffer", &dtype, &requires_grad);
  if (!status) {
    int64_t numel = mt_shape_numel(n, size);
    if (numel < 0 || (size_t)numel > len / (size_t)mt_dtype_size(dtype) ||
        (size_t)numel * (size_t)mt_dtype_size(dtype) != len)
      status = mt_fail(S->rt, MT_ERROR, "from_buffer: %s of shape %s does not have %zu bytes",
                       mt_dtypes[dtype].name, mt_shape_str(S->rt, n, size), len);
  }
  if (!status) status = mt_tensor_new(&t, S->rt, dtype, n, size, NULL);
  if (!status && len) memcpy(t->v.data, bytes, len);
  if (!status && dtype == MT_BOOL)
    for (size_t i = 0; i < len; i++) t->v.data[i] = t->v.data[i] != 0;
  if (!status && requires_grad && (status = moth_set_requires_grad(t, true)) != MT_OK)
    mt_tensor_release(t);
  if (status) return mt_error_raise(L, S, status);
  mt_handle_fill(S, h, t);
  return 1;
}

/* ---- back to Lua ---- */

static void push_element(lua_State *L, const moth_tensor *t, int64_t pos) {
  int64_t i = 0;
  double d = 0;
  bool isint = mt_tensor_read(t, pos, &i, &d);
  if (t->v.dtype == MT_BOOL) {
    lua_pushboolean(L, i != 0);
  } else if (isint) {
    lua_pushinteger(L, i);
  } else {
    lua_pushnumber(L, d);
  }
}

int mt_build_item(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  const moth_tensor *t = mt_handle_check(L, S, 1, "self", "item");
  if (t->v.numel != 1)
    return mt_error_throw(L, "item: expected a tensor with one element, got %s", mt_tensor_str(t));
  push_element(L, t, 0);
  if (t->v.dtype != MT_C64) return 1;
  lua_pushnumber(L, ((const mt_c64 *)(const void *)t->v.data)->im);
  return 2;
}

static void push_nested(lua_State *L, const moth_tensor *t, int d, int64_t pos) {
  if (d == t->v.ndim) {
    push_element(L, t, pos);
    return;
  }
  int64_t n = t->v.size[d];
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (int64_t i = 0; i < n; i++) {
    push_nested(L, t, d + 1, pos + i * t->v.stride[d]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Tables are allocated on the way: a handle of our own keeps the tensor, whatever scripts do. */
int mt_build_tolist(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  luaL_checkstack(L, MT_MAX_DIM + 4, NULL);
  mt_handle *h = mt_handle_new(L, S);
  moth_tensor *t = mt_handle_check(L, S, 1, "self", "tolist");
  mt_handle_fill(S, h, mt_tensor_retain(t));
  push_nested(L, t, 0, 0);
  return 1;
}
