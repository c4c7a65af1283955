/* bind.c - see bind.h. One C function serves all operations; its upvalues say which.
 *
 * Order in a call: pace, create the results' handles empty, read the arguments, compute, fill. Lua
 * may throw in the first two steps only, when nothing is held; from the reading on no Lua memory is
 * allocated, hence no finalizer can free a tensor that is being used. */
#include "bind.h"

#include <string.h>

#include "read.h"

#define OP lua_upvalueindex(1)
#define METATABLE lua_upvalueindex(2)

/* ---- results ---- */

/* Whether all results are tensors, so that their handles can be made before the call. */
static bool only_tensors(const mt_opinfo *op) {
  for (int i = 0; i < op->nout; i++)
    if (op->res[i] != MT_R_TENSOR && op->res[i] != MT_R_INDEX) return false;
  return true;
}

/* What pushes results of any kind, under protection. */
typedef struct pusher {
  mt_lua *S;
  const mt_opinfo *op;
  mt_results *r;
} pusher;

static void push_tensor(lua_State *L, mt_lua *S, moth_tensor **slot) {
  if (!*slot) {
    lua_pushnil(L);
    return;
  }
  mt_handle *h = mt_handle_new(L, S);
  mt_handle_fill(S, h, *slot);
  *slot = NULL;
}

static void push_bool(lua_State *L, moth_tensor *t) {
  int64_t i = 0;
  double f = 0;
  lua_pushboolean(L, mt_tensor_read(t, 0, &i, &f) ? i != 0 : f != 0);
}

static int push_results(lua_State *L) {
  pusher *p = lua_touserdata(L, 1);
  moth_tensor **t = mt_results_all(p->r);
  if (p->op->res[0] == MT_R_LIST) {
    lua_createtable(L, p->r->n, 0);
    for (int i = 0; i < p->r->n; i++) {
      push_tensor(L, p->S, &t[i]);
      lua_rawseti(L, -2, i + 1);
    }
    return 1;
  }
  luaL_checkstack(L, p->r->n + 2, NULL);
  for (int i = 0; i < p->r->n; i++) {
    if (i < p->op->nout && p->op->res[i] == MT_R_BOOL && t[i])
      push_bool(L, t[i]);
    else
      push_tensor(L, p->S, &t[i]);
  }
  return p->r->n;
}

/* Pushes results of any kind; takes them whatever happens. */
static int push_any(lua_State *L, mt_lua *S, const mt_opinfo *op, mt_results *r) {
  pusher p = {S, op, r};
  int top = lua_gettop(L);
  bool room = lua_checkstack(L, 4);
  int failed = LUA_ERRMEM;
  if (room) {
    lua_pushcfunction(L, push_results);
    lua_pushlightuserdata(L, &p);
    failed = lua_pcall(L, 1, LUA_MULTRET, 0);
  }
  mt_results_free(r);
  if (!room) return luaL_error(L, "stack overflow");
  return failed ? lua_error(L) : lua_gettop(L) - top;
}

/* ---- calling ---- */

/* Reads and invokes; when there is no memory, once more after a full collection. */
static int invoke(mt_read *a, mt_results *r, lua_State *L, mt_lua *S, const mt_opinfo *op, int top,
                  bool inplace) {
  for (int attempt = 0;; attempt++) {
    int status = mt_read_args(a, L, S, op, top);
    if (MT_LIKELY(!status)) {
      status = mt_invoke(r, S->rt, op, a->n, a->v, 1, inplace);
      mt_read_drop(a);
    }
    if (MT_LIKELY(status != MT_NOMEM) || attempt > 0) return status;
    mt_pace_full(L, S);
    moth_memory_empty_cache(S->rt);
  }
}

static int fill_results(lua_State *L, mt_lua *S, mt_read *a, mt_results *r, mt_handle **h,
                        int first) {
  const mt_opinfo *op = a->op;
  if (MT_UNLIKELY(r->n != op->nout)) return push_any(L, S, op, r);
  if (MT_UNLIKELY(a->requires_grad)) {
    int status = moth_set_requires_grad(r->t[0], true);
    if (status) {
      mt_results_free(r);
      return mt_error_raise(L, S, status);
    }
  }
  for (int i = 0; i < op->nout; i++) {
    moth_tensor *t = r->t[i];
    if (MT_UNLIKELY(!t)) {
      lua_pushnil(L);
      lua_replace(L, first + i);
    } else if (MT_UNLIKELY(a->v[0].kind == MT_TENSOR && t == a->v[0].u.t &&
                           t == mt_handle_tensor(L, S, 1))) {
      mt_tensor_release(t); /* x:contiguous() is x */
      lua_pushvalue(L, 1);
      lua_replace(L, first + i);
    } else {
      mt_handle_fill(S, h[i], t);
    }
  }
  return op->nout;
}

/* The operation in upvalue 1, with the arguments at 1..top. */
static int call_with(lua_State *L, mt_lua *S, int top) {
  const mt_opinfo *op = lua_touserdata(L, OP);
  mt_read a;
  mt_results r;
  mt_handle *h[MT_MAX_OUT];
  if (MT_UNLIKELY(!only_tensors(op))) {
    int failed = invoke(&a, &r, L, S, op, top, false);
    return failed ? mt_error_raise(L, S, failed) : push_any(L, S, op, &r);
  }
  for (int i = 0; i < op->nout; i++) h[i] = mt_handle_new_with(L, S, METATABLE);
  int status = invoke(&a, &r, L, S, op, top, false);
  if (MT_UNLIKELY(status)) return mt_error_raise(L, S, status);
  return fill_results(L, S, &a, &r, h, top + 1);
}

static int call(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  return call_with(L, S, lua_gettop(L));
}

/* Metamethods of unary operators get their operand twice. */
static int call_unary(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 1);
  return call_with(L, S, 1);
}

/* x:name_(...) returns x itself. */
static int call_inplace(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_read a;
  mt_results r;
  int status = invoke(&a, &r, L, S, lua_touserdata(L, OP), lua_gettop(L), true);
  if (MT_UNLIKELY(status)) return mt_error_raise(L, S, status);
  if (MT_UNLIKELY(r.t[0] != mt_handle_tensor(L, S, 1))) return push_any(L, S, a.op, &r);
  mt_results_free(&r);
  lua_settop(L, 1);
  return 1;
}

int mt_bind_call(lua_State *L, mt_lua *S, const mt_opinfo *op, int n, const mt_value *v,
                 bool inplace) {
  mt_results r;
  int status = mt_invoke(&r, S->rt, op, n, v, 1, inplace);
  return status ? mt_error_raise(L, S, status) : push_any(L, S, op, &r);
}

int mt_bind_call_name(lua_State *L, mt_lua *S, const char *name, int n, const mt_value *v,
                      bool inplace) {
  const mt_opinfo *op = mt_op_find(name);
  if (!op) return mt_error_throw(L, "there is no operation '%s'", name);
  return mt_bind_call(L, S, op, n, v, inplace);
}

/* ---- registering ---- */

static const struct {
  const char *event, *op;
  bool unary;
} operators[] = {{"__add", "add", false},
                 {"__sub", "sub", false},
                 {"__mul", "mul", false},
                 {"__div", "div", false},
                 {"__idiv", "floor_divide", false},
                 {"__mod", "remainder", false},
                 {"__pow", "pow", false},
                 {"__unm", "neg", true},
                 {"__band", "bitwise_and", false},
                 {"__bor", "bitwise_or", false},
                 {"__bxor", "bitwise_xor", false},
                 {"__bnot", "bitwise_not", true},
                 {"__shl", "bitwise_left_shift", false},
                 {"__shr", "bitwise_right_shift", false}};

/* Stack indices of the tables that operations go to. */
typedef struct tables {
  int module, hidden, methods, metatable;
} tables;

static void push_op(lua_State *L, const tables *t, const mt_opinfo *op, lua_CFunction f) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)op);
  lua_pushvalue(L, t->metatable);
  lua_pushcclosure(L, f, 2);
}

/* Sets the function on top of the stack in a table and keeps it there. */
static void set(lua_State *L, int table, const char *name, bool on) {
  if (!on) return;
  lua_pushvalue(L, -1);
  lua_setfield(L, table, name);
}

/* Words of the language cannot be written behind a dot: x:repeat_(2, 3). */
static bool reserved(const char *name) {
  static const char *const words[] = {"and", "end", "for", "in", "not", "or", "repeat"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(name, words[i]) == 0) return true;
  return false;
}

/* Registers the function on top of the stack under `name` and pops it. */
static void add_name(lua_State *L, const tables *t, const mt_opinfo *op, const char *name) {
  uint32_t flags = op->row->flags;
  bool shown = !(flags & MT_HIDDEN), function = shown && !(flags & MT_NOFUNC);
  set(L, t->hidden, name, true);
  set(L, t->module, name, function);
  set(L, t->methods, name, function && (flags & MT_METHOD));
  lua_pop(L, 1);
}

static void add_op(lua_State *L, const tables *t, const mt_opinfo *op) {
  uint32_t flags = op->row->flags;
  bool shown = !(flags & MT_HIDDEN), function = shown && !(flags & MT_NOFUNC);
  push_op(L, t, op, call);
  add_name(L, t, op, op->name);
  lua_pushfstring(L, "%s_", op->name);
  const char *name = lua_tostring(L, -1);
  if (reserved(op->name)) {
    push_op(L, t, op, call);
    add_name(L, t, op, name);
  }
  if (!(flags & MT_INPLACE)) {
    lua_pop(L, 1);
    return;
  }
  push_op(L, t, op, call_inplace);
  set(L, t->hidden, name, true);
  set(L, t->module, name, function);
  set(L, t->methods, name, shown && (flags & (MT_METHOD | MT_NOFUNC)));
  lua_pop(L, 2);
}

/* Methods whose plain name belongs to a function of another kind: moth.normal(mean, std, size)
 * makes a tensor, x:normal_(mean, std) fills one. */
static const char *const fills[][2] = {{"_normal_fill_", "normal_"},
                                       {"_bernoulli_fill_", "bernoulli_"}};

static void add_fills(lua_State *L, const tables *t) {
  for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
    lua_getfield(L, t->hidden, fills[i][0]);
    set(L, t->methods, fills[i][1], true);
    set(L, t->hidden, fills[i][1], true);
    lua_pop(L, 1);
  }
}

void mt_bind_open(lua_State *L, mt_lua *S) {
  (void)S;
  luaL_checkstack(L, 12, NULL);
  tables t = {.module = lua_gettop(L)};
  mt_handle_push_metatable(L);
  t.metatable = lua_gettop(L);
  lua_getfield(L, t.module, "_C");
  t.hidden = lua_gettop(L);
  lua_getfield(L, t.hidden, "methods");
  t.methods = lua_gettop(L);
  for (int i = 0; i < mt_op_count(); i++) add_op(L, &t, mt_op_at(i));
  add_fills(L, &t);
  for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
    const mt_opinfo *op = mt_op_find(operators[i].op);
    if (!op) continue;
    push_op(L, &t, op, operators[i].unary ? call_unary : call);
    lua_setfield(L, t.metatable, operators[i].event);
  }
  lua_settop(L, t.module);
}
