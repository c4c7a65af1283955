/* read.c - see read.h. */
#include "read.h"

#include <stdio.h>
#include <string.h>

#include "../runtime/types.h"

/* ---- shared with functions written by hand ---- */

bool mt_read_is_keywords(lua_State *L, int idx) {
  if (lua_type(L, idx) != LUA_TTABLE) return false;
  if (lua_getmetatable(L, idx)) {
    lua_pop(L, 1);
    return false;
  }
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
      lua_pop(L, 1);
      return true;
    }
  }
  return false;
}

bool mt_read_int(lua_State *L, int idx, int64_t *out) {
  int ok;
  lua_Integer v = lua_tointegerx(L, idx, &ok);
  *out = v;
  return ok && lua_type(L, idx) == LUA_TNUMBER;
}

int mt_read_sizes(lua_State *L, mt_lua *S, int idx, int top, const char *name, const char *func,
                  int64_t *out, int *n) {
  *n = 0;
  bool list = lua_type(L, idx) == LUA_TTABLE;
  lua_Integer len = list ? (lua_Integer)lua_rawlen(L, idx) : top - idx + 1;
  for (lua_Integer i = 0; i < len; i++) {
    if (list) lua_rawgeti(L, idx, i + 1);
    int at = list ? lua_gettop(L) : idx + (int)i;
    if (!list && i > 0 && lua_type(L, at) != LUA_TNUMBER) return (int)i;
    if (*n == MT_MAX_DIM)
      return mt_fail(S->rt, MT_ERROR, "bad argument '%s' to %s: at most %d dims", name, func,
                     MT_MAX_DIM);
    if (!mt_read_int(L, at, &out[*n])) return mt_error_arg(L, S, at, name, func, "integer sizes");
    ++*n;
    if (list) lua_pop(L, 1);
  }
  return list ? 1 : (int)len;
}

int mt_read_dtype(lua_State *L, mt_lua *S, int idx, const char *name, const char *func,
                  mt_dtype *out) {
  if (lua_type(L, idx) != LUA_TSTRING)
    return mt_error_arg(L, S, idx, name, func, "the name of a dtype");
  *out = mt_dtype_by_name(lua_tostring(L, idx));
  if (*out == MT_NODTYPE)
    return mt_fail(S->rt, MT_ERROR, "bad argument '%s' to %s: '%.40s' is not a dtype", name, func,
                   lua_tostring(L, idx));
  return MT_OK;
}

int mt_read_device(lua_State *L, mt_lua *S, int idx, const char *func) {
  if (lua_type(L, idx) != LUA_TSTRING)
    return mt_error_arg(L, S, idx, "device", func, "the name of a device");
  const char *name = lua_tostring(L, idx);
  if (strcmp(name, "cpu") == 0) return MT_OK;
  if (strncmp(name, "cuda", 4) == 0)
    return mt_fail(S->rt, MT_ERROR,
                   "bad argument 'device' to %s: %.20s is not available: this build has no CUDA "
                   "backend",
                   func, name);
  return mt_fail(S->rt, MT_ERROR, "bad argument 'device' to %s: there is no device '%.40s'", func,
                 name);
}

/* ---- one argument ---- */

static int wrong(mt_read *r, int j, int idx, const char *expected) {
  return mt_error_arg(r->L, r->S, idx, r->op->arg[j].name, r->op->name, expected);
}

/* Room for n elements of 8 bytes; NULL: no memory. */
static void *room(mt_read *r, size_t n) {
  if ((size_t)r->nsmall + n <= MT_READ_SMALL) {
    r->nsmall += (int)n;
    return r->small + r->nsmall - n;
  }
  if (r->nextra == MT_READ_EXTRA) return NULL;
  void *p = mt_record_new(&r->S->rt->alloc, n * 8);
  if (!p) return NULL;
  r->extra[r->nextra].p = p;
  r->extra[r->nextra++].size = n * 8;
  return p;
}

static int no_room(mt_read *r, int j) {
  return mt_fail(r->S->rt, MT_NOMEM, "out of memory for argument '%s' of %s", r->op->arg[j].name,
                 r->op->name);
}

/* 1-based to 0-based; negative ones count from the end and stay. */
static int shift(mt_read *r, int j, int64_t *v) {
  if (*v == 0)
    return mt_fail(r->S->rt, MT_ERROR, "bad argument '%s' to %s: got 0, but indices start at 1",
                   r->op->arg[j].name, r->op->name);
  if (*v > 0) --*v;
  return MT_OK;
}

static int read_int(mt_read *r, int j, int idx, bool position) {
  int64_t i;
  if (!mt_read_int(r->L, idx, &i)) return wrong(r, j, idx, "an integer");
  int status = position ? shift(r, j, &i) : MT_OK;
  r->v[j] = mt_i(i);
  return status;
}

static int read_number(mt_read *r, int j, int idx, const char *expected) {
  lua_State *L = r->L;
  switch (lua_type(L, idx)) {
    case LUA_TNUMBER:
      r->v[j] = lua_isinteger(L, idx) ? mt_i(lua_tointeger(L, idx)) : mt_f(lua_tonumber(L, idx));
      return MT_OK;
    case LUA_TBOOLEAN:
      if (r->op->arg[j].kind == MT_A_FLOAT) break;
      r->v[j] = mt_b(lua_toboolean(L, idx));
      return MT_OK;
    default:
      break;
  }
  return wrong(r, j, idx, expected);
}

static int read_tensor(mt_read *r, int j, int idx) {
  moth_tensor *t = mt_handle_tensor(r->L, r->S, idx);
  if (MT_LIKELY(t != NULL)) {
    r->v[j] = mt_t(t);
    return MT_OK;
  }
  if (r->op->arg[j].kind == MT_A_OPERAND && !mt_handle_at(r->L, r->S, idx))
    return read_number(r, j, idx, "tensor or number");
  return wrong(r, j, idx, "tensor");
}

static int read_tensors(mt_read *r, int j, int idx) {
  lua_State *L = r->L;
  if (lua_type(L, idx) != LUA_TTABLE) return wrong(r, j, idx, "list of tensors");
  size_t n = lua_rawlen(L, idx);
  moth_tensor **t = room(r, n);
  if (!t) return no_room(r, j);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, idx, (lua_Integer)i + 1);
    t[i] = mt_handle_tensor(L, r->S, -1);
    if (!t[i])
      return mt_fail(r->S->rt, MT_ERROR,
                     "bad argument '%s' to %s: expected a list of tensors, got %s as element %d",
                     r->op->arg[j].name, r->op->name, mt_error_type(L, r->S, -1), (int)i + 1);
    lua_pop(L, 1);
  }
  r->v[j] = mt_ts(t, (int)n);
  return MT_OK;
}

static int read_ints(mt_read *r, int j, int idx) {
  lua_State *L = r->L;
  bool position = r->op->arg[j].kind == MT_A_DIMS;
  if (lua_type(L, idx) != LUA_TTABLE) {
    if (lua_type(L, idx) == LUA_TSTRING) return wrong(r, j, idx, "integer or list of integers");
    return read_int(r, j, idx, position);
  }
  size_t n = lua_rawlen(L, idx);
  int64_t *v = room(r, n);
  if (!v) return no_room(r, j);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, idx, (lua_Integer)i + 1);
    if (lua_type(L, -1) == LUA_TBOOLEAN && !position) {
      v[i] = -1; /* false: no size of its own */
    } else if (!mt_read_int(L, -1, &v[i])) {
      return wrong(r, j, lua_gettop(L), "a list of integers");
    }
    int status = position ? shift(r, j, &v[i]) : MT_OK;
    if (status) return status;
    lua_pop(L, 1);
  }
  r->v[j] = mt_ints(v, (int)n);
  return MT_OK;
}

static int read_floats(mt_read *r, int j, int idx) {
  lua_State *L = r->L;
  if (lua_type(L, idx) != LUA_TTABLE) return read_number(r, j, idx, "number or list of numbers");
  size_t n = lua_rawlen(L, idx);
  double *v = room(r, n);
  if (!v) return no_room(r, j);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, idx, (lua_Integer)i + 1);
    if (lua_type(L, -1) != LUA_TNUMBER) return wrong(r, j, lua_gettop(L), "a list of numbers");
    v[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  r->v[j] = (mt_value){.kind = MT_FLOATS, .n = (int)n, .u.floats = v};
  return MT_OK;
}

static int read_string(mt_read *r, int j, int idx) {
  size_t len;
  if (lua_type(r->L, idx) != LUA_TSTRING) return wrong(r, j, idx, "string");
  const char *s = lua_tolstring(r->L, idx, &len);
  r->v[j] = (mt_value){.kind = MT_STR, .n = (int)len, .u.s = s};
  return MT_OK;
}

static int read_dtype(mt_read *r, int j, int idx) {
  mt_dtype d = MT_NODTYPE;
  int status = mt_read_dtype(r->L, r->S, idx, r->op->arg[j].name, r->op->name, &d);
  r->v[j] = mt_i(d);
  return status;
}

static int read_kind(mt_read *r, int j, int idx) {
  switch (r->op->arg[j].kind) {
    case MT_A_TENSOR:
    case MT_A_INDEX:
    case MT_A_OPERAND:
      return read_tensor(r, j, idx);
    case MT_A_TENSORS:
      return read_tensors(r, j, idx);
    case MT_A_INT:
      return read_int(r, j, idx, false);
    case MT_A_DIM:
    case MT_A_NEWDIM:
    case MT_A_POS:
      return read_int(r, j, idx, true);
    case MT_A_FLOAT:
    case MT_A_NUMBER:
      return read_number(r, j, idx, "number");
    case MT_A_BOOL:
      r->v[j] = mt_b(lua_toboolean(r->L, idx));
      return lua_type(r->L, idx) == LUA_TBOOLEAN ? MT_OK : wrong(r, j, idx, "boolean");
    case MT_A_STR:
      return read_string(r, j, idx);
    case MT_A_INTS:
    case MT_A_SIZE:
    case MT_A_DIMS:
      return read_ints(r, j, idx);
    case MT_A_PADDING:
      return lua_type(r->L, idx) == LUA_TSTRING ? read_string(r, j, idx) : read_ints(r, j, idx);
    case MT_A_FLOATS:
      return read_floats(r, j, idx);
    case MT_A_DTYPE:
      return read_dtype(r, j, idx);
  }
  return MT_ERROR;
}

/* Reads the value at idx as argument j. */
static int read_arg(mt_read *r, int j, int idx) {
  const mt_arginfo *a = &r->op->arg[j];
  if (MT_UNLIKELY(!lua_toboolean(r->L, idx))) { /* nil or false */
    if (lua_type(r->L, idx) == LUA_TNIL && (a->has_default || a->optional)) return MT_OK;
    if (a->optional && a->kind != MT_A_BOOL) return MT_OK;
  }
  r->given |= 1u << j;
  return read_kind(r, j, idx);
}

/* ---- positional arguments ---- */

static int too_many(mt_read *r, int most, int idx) {
  if (lua_type(r->L, idx) == LUA_TNIL) return MT_OK;
  if (most < r->op->narg)
    return mt_fail(
        r->S->rt, MT_ERROR,
        "too many arguments to %s: at most %d without keyword ('%s' is given by keyword, "
        "in a table)",
        r->op->name, most, r->op->arg[most].name);
  return mt_fail(r->S->rt, MT_ERROR, "too many arguments to %s: expected at most %d", r->op->name,
                 most);
}

/* Numbers one after the other as one list; returns the number of places, negative after an error.
 */
static int read_spread(mt_read *r, int j, int idx, int last) {
  int64_t *v = room(r, MT_MAX_DIM);
  int n;
  if (!v) return no_room(r, j);
  const char *name = r->op->arg[j].name;
  int used = mt_read_sizes(r->L, r->S, idx, last, name, r->op->name, v, &n);
  for (int i = 0; i < n && r->op->arg[j].kind == MT_A_DIMS; i++) {
    int status = shift(r, j, &v[i]);
    if (status) return status;
  }
  r->v[j] = mt_ints(v, n);
  r->given |= 1u << j;
  return used;
}

/* Whether numbers from idx on are one list: sizes always, other lists when nothing may follow them,
 * as in x:permute(2, 1). */
static bool spreads(mt_read *r, int j, int idx, int last) {
  const mt_opinfo *op = r->op;
  const mt_arginfo *a = &op->arg[j];
  if (lua_type(r->L, idx) != LUA_TNUMBER) return false;
  if (a->kind == MT_A_SIZE) return true;
  if ((a->kind != MT_A_DIMS && a->kind != MT_A_INTS) || a->fixed || idx == last) return false;
  return (j + 1 == op->narg || op->arg[j + 1].keyword) && lua_type(r->L, idx + 1) == LUA_TNUMBER;
}

/* Tensors one after the other as one list. */
static int read_spread_tensors(mt_read *r, int j, int idx, int last) {
  int n = 0;
  while (idx + n <= last && mt_handle_at(r->L, r->S, idx + n)) n++;
  moth_tensor **t = room(r, (size_t)n);
  if (!t) return no_room(r, j);
  for (int i = 0; i < n; i++) {
    t[i] = mt_handle_tensor(r->L, r->S, idx + i);
    if (!t[i]) return wrong(r, j, idx + i, "tensor");
  }
  r->v[j] = mt_ts(t, n);
  r->given |= 1u << j;
  return n;
}

/* Reads the stack from `idx` to `last` as arguments from *j on. */
static int read_positional(mt_read *r, int *j, int idx, int last) {
  const mt_opinfo *op = r->op;
  while (idx <= last) {
    if (MT_UNLIKELY(*j >= op->narg || op->arg[*j].keyword)) {
      int status = too_many(r, *j, idx++);
      if (status) return status;
      continue;
    }
    int used = 1;
    mt_argkind kind = op->arg[*j].kind;
    moth_tensor *t = kind <= MT_A_INDEX ? mt_handle_tensor(r->L, r->S, idx) : NULL;
    if (MT_LIKELY(t != NULL)) { /* by far the most common */
      r->v[*j] = mt_t(t);
      r->given |= 1u << *j;
    } else if (spreads(r, *j, idx, last)) {
      used = read_spread(r, *j, idx, last);
    } else if (kind == MT_A_TENSORS && mt_handle_at(r->L, r->S, idx)) {
      used = read_spread_tensors(r, *j, idx, last);
    } else {
      int status = read_arg(r, *j, idx);
      if (status) return status;
    }
    if (used < 0) return used;
    idx += used;
    ++*j;
  }
  return MT_OK;
}

/* ---- keyword arguments ---- */

static int find_arg(const mt_opinfo *op, const char *name) {
  for (int j = 0; j < op->narg; j++)
    if (strcmp(op->arg[j].name, name) == 0) return j;
  return -1;
}

/* Functions that make tensors from nothing, or from the shape of one, take device and
 * requires_grad as well. */
static bool creates(const mt_opinfo *op) {
  size_t n = strlen(op->name);
  return op->row->types.rule == MT_DEFAULT || strncmp(op->name, "new_", 4) == 0 ||
         (n > 5 && strcmp(op->name + n - 5, "_like") == 0);
}

static int unknown_keyword(mt_read *r, const char *name) {
  char known[400] = "";
  size_t n = 0;
  for (int j = 0; j < r->op->narg && n + 32 < sizeof known; j++)
    n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", j ? ", " : "", r->op->arg[j].name);
  if (creates(r->op)) snprintf(known + n, sizeof known - n, ", device, requires_grad");
  return mt_fail(r->S->rt, MT_ERROR, "%s has no argument '%.60s' (there are: %s)", r->op->name,
                 name, known);
}

/* The value is on top of the stack. */
static int read_extra(mt_read *r, const char *name) {
  int idx = lua_gettop(r->L);
  if (!creates(r->op)) return unknown_keyword(r, name);
  if (strcmp(name, "device") == 0) return mt_read_device(r->L, r->S, idx, r->op->name);
  if (strcmp(name, "requires_grad") != 0) return unknown_keyword(r, name);
  if (lua_type(r->L, idx) != LUA_TBOOLEAN)
    return mt_error_arg(r->L, r->S, idx, name, r->op->name, "boolean");
  r->requires_grad = lua_toboolean(r->L, idx);
  return MT_OK;
}

static int read_keywords(mt_read *r, int t) {
  lua_State *L = r->L;
  lua_pushnil(L);
  while (lua_next(L, t)) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      const char *name = lua_tostring(L, -2);
      int status, j = find_arg(r->op, name);
      if (j < 0) {
        status = read_extra(r, name);
      } else if (r->given >> j & 1) {
        status =
            mt_fail(r->S->rt, MT_ERROR, "argument '%s' to %s is given twice", name, r->op->name);
      } else {
        status = read_arg(r, j, lua_gettop(L));
        if (j >= r->n) r->n = j + 1;
      }
      if (status) return status;
    } else if (lua_type(L, -2) != LUA_TNUMBER) {
      return mt_fail(r->S->rt, MT_ERROR, "keyword arguments to %s: keys must be names",
                     r->op->name);
    }
    lua_pop(L, 1);
  }
  return MT_OK;
}

/* Pushes the positions of a keyword table as further positional arguments. */
static int read_keyword_positions(mt_read *r, int *j, int t) {
  lua_State *L = r->L;
  int n = (int)lua_rawlen(L, t), base = lua_gettop(L);
  if (n == 0) return MT_OK;
  if (n > 2 * MT_MAX_ARGS || !lua_checkstack(L, n + 8))
    return mt_fail(r->S->rt, MT_ERROR, "too many arguments to %s", r->op->name);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, t, i);
  return read_positional(r, j, base + 1, base + n);
}

int mt_read_args(mt_read *r, lua_State *L, mt_lua *S, const mt_opinfo *op, int top) {
  int j = 0, status;
  r->L = L;
  r->S = S;
  r->op = op;
  r->given = 0;
  r->requires_grad = false;
  r->nsmall = r->nextra = 0;
  for (int i = 0; i < op->narg; i++) r->v[i].kind = MT_NIL;
  bool keywords = top > 0 && lua_type(L, top) == LUA_TTABLE && mt_read_is_keywords(L, top);
  status = read_positional(r, &j, 1, top - keywords);
  r->n = j;
  if (keywords && !status) {
    int before = lua_gettop(L);
    status = read_keyword_positions(r, &j, top);
    r->n = j;
    if (!status) status = read_keywords(r, top);
    if (!status) lua_settop(L, before);
  }
  if (status) mt_read_drop(r);
  return status;
}
