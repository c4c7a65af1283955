/* function.c - moth.autograd.Function: operations whose forward and backward are written in Lua.
 *
 *     local Square = moth.autograd.Function("Square")
 *     function Square.forward(ctx, x) ctx:save_for_backward(x); return x * x end
 *     function Square.backward(ctx, g) return 2 * ctx.saved_tensors[1] * g end
 *     local y = Square.apply(x)
 *
 * forward runs without recording; then one node stands for all of it. The node refers to the ctx
 * table by the registry, and ctx keeps what was saved. A saved result is kept as an alias without
 * its node and gets the node back when it is read, since node, ctx and result would hold each other
 * otherwise. backward is recorded when a graph of the gradients is wanted, so it can be
 * differentiated again. */
#include <stdio.h>
#include <string.h>

#include "../runtime/shape.h"
#include "../runtime/tape.h"
#include "autograd.h"
#include "bind.h"

enum {
  MOST = 64
}; /* arguments and results of a Function */

/* What node and ctx both know; the rest is in ctx. */
typedef struct function {
  mt_lua *S;
  mt_hooks *ctx; /* NULL once the node is gone */
  mt_node *node; /* weak */
  int refs;      /* of the node, and of the holder in ctx */
  int nin, nout;
  uint64_t tensors; /* bit i: argument i wants a gradient */
  uint64_t results; /* bit i: result i has one */
  char name[40];
  mt_meta meta[]; /* of the results: for gradients that did not come */
} function;

/* Owns a reference to a function from Lua's side. It has a __gc, because ctx may outlive the node.
 */
typedef struct holder {
  function *f;
  uint64_t mark; /* as that of a handle, inverted */
} holder;

static const char key_ctx, key_holder; /* registry: metatables */
/* Private places in ctx: saved values, their versions, the numbers of saved results, the class, the
 * holder, lists of marked tensors. */
static const char key_saved, key_versions, key_results, key_class, key_function, key_fixed,
    key_dirty;

static size_t function_bytes(int nout) { return sizeof(function) + (size_t)nout * sizeof(mt_meta); }

static void unref(function *f, moth_runtime *rt) {
  mt_lua *S = f->S;
  if (--f->refs > 0) return;
  mt_record_free(&rt->alloc, f, function_bytes(f->nout));
  mt_lua_unref(S, rt);
}

/* The node is gone; perhaps inside the collector's sweep. */
static void release(void *ud, moth_runtime *rt) {
  function *f = ud;
  if (f->ctx) mt_hooks_free(f->S, f->ctx);
  f->ctx = NULL;
  f->node = NULL;
  unref(f, rt);
}

static uint64_t holder_mark(const mt_lua *S, const holder *h) {
  return ~(S->secret ^ (uint64_t)(uintptr_t)h);
}

/* The function of the value at idx, NULL if it is no holder, or an empty one. */
static function *holder_at(lua_State *L, const mt_lua *S, int idx) {
  holder *h = lua_touserdata(L, idx);
  if (!h || lua_rawlen(L, idx) != sizeof *h || h->mark != holder_mark(S, h)) return NULL;
  return h->f;
}

static int holder_gc(lua_State *L) {
  mt_lua *S = mt_lua_of(L);
  function *f = holder_at(L, S, 1);
  if (!f) return 0;
  ((holder *)lua_touserdata(L, 1))->f = NULL;
  unref(f, S->rt);
  return 0;
}

/* ---- ctx ---- */

static void push_list(lua_State *L, int ctx, const void *key) {
  if (lua_rawgetp(L, ctx, key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, ctx, key);
}

static int save_for_backward(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  int n = lua_gettop(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, n, 1);
  lua_createtable(L, n, 0);
  for (int i = 2; i <= n; i++) {
    const moth_tensor *t =
        lua_isnil(L, i) ? NULL : mt_handle_check(L, S, i, "tensor", "save_for_backward");
    lua_pushinteger(L, t ? (lua_Integer)t->storage->version : 0);
    lua_rawseti(L, n + 2, i - 1);
    if (t)
      lua_pushvalue(L, i);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, n + 1, i - 1);
  }
  lua_pushinteger(L, n - 1);
  lua_setfield(L, n + 1, "n");
  lua_rawsetp(L, 1, &key_versions);
  lua_rawsetp(L, 1, &key_saved);
  return 0;
}

/* ctx:mark_non_differentiable(...), ctx:mark_dirty(...): remembers the tensors. */
static int mark(lua_State *L, const void *key, const char *func) {
  mt_lua *S = mt_lua_enter(L);
  int n = lua_gettop(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  push_list(L, 1, key);
  for (int i = 2; i <= n; i++) {
    mt_handle_check(L, S, i, "tensor", func);
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  return 0;
}
static int mark_non_differentiable(lua_State *L) {
  return mark(L, &key_fixed, "mark_non_differentiable");
}
static int mark_dirty(lua_State *L) { return mark(L, &key_dirty, "mark_dirty"); }

static int set_materialize_grads(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_pushboolean(L, lua_toboolean(L, 2));
  lua_setfield(L, 1, "materialize_grads");
  return 0;
}

/* Whether tensor t is in the list of marked ones. */
static bool marked(lua_State *L, mt_lua *S, int ctx, const void *key, const moth_tensor *t) {
  bool found = false;
  if (lua_rawgetp(L, ctx, key) == LUA_TTABLE) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= n && !found; i++) {
      lua_rawgeti(L, -1, i);
      found = mt_handle_tensor(L, S, -1) == t;
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  return found;
}

static void check_version(lua_State *L, const function *f, const moth_tensor *t, lua_Integer i) {
  lua_rawgetp(L, 1, &key_versions);
  if (!lua_istable(L, -1)) return;
  lua_rawgeti(L, -1, i);
  if (lua_tointeger(L, -1) != (lua_Integer)t->storage->version)
    mt_error_throw(L, "a tensor that '%s' saved for its gradient was changed in place: %s", f->name,
                   mt_tensor_str(t));
}

/* The number of the result that saved value i is, -1: none. */
static int saved_result(lua_State *L, const function *f, lua_Integer i) {
  lua_rawgetp(L, 1, &key_results);
  if (!lua_istable(L, -1) || lua_rawgeti(L, -1, i) != LUA_TNUMBER) return -1;
  lua_Integer out = lua_tointeger(L, -1);
  return out >= 0 && out < f->nout ? (int)out : -1;
}

/* Pushes saved value i of the ctx at 1; a saved result gets its node back. */
static void push_saved(lua_State *L, mt_lua *S, function *f, lua_Integer i) {
  moth_tensor *alias;
  lua_rawgetp(L, 1, &key_saved);
  lua_rawgeti(L, -1, i);
  lua_remove(L, -2);
  int at = lua_gettop(L);
  if (!mt_handle_at(L, S, at)) return;
  check_version(L, f, mt_handle_check(L, S, at, "saved tensor", f->name), i);
  int out = saved_result(L, f, i);
  lua_settop(L, at);
  if (out < 0 || !f->node) return;
  mt_handle *h = mt_handle_new(L, S);
  moth_tensor *t = mt_handle_check(L, S, at, "saved tensor", f->name);
  int status = mt_tensor_alias(&alias, t, t->v.ndim, t->v.size, t->v.stride, 0);
  if (status) mt_error_raise(L, S, status);
  mt_tape_attach(f->node, out, alias);
  mt_handle_fill(S, h, alias);
  lua_replace(L, at);
}

static int saved_tensors(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 1);
  luaL_checkstack(L, 12, NULL);
  lua_rawgetp(L, 1, &key_function);
  function *f = holder_at(L, S, -1);
  lua_rawgetp(L, 1, &key_saved);
  lua_Integer n = 0;
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "n");
    n = lua_tointeger(L, -1);
  }
  lua_settop(L, 1);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n && f; i++) {
    push_saved(L, S, f, i);
    lua_rawseti(L, 2, i);
  }
  return 1;
}

static int ctx_index(lua_State *L) {
  if (lua_type(L, 1) != LUA_TTABLE || lua_type(L, 2) != LUA_TSTRING) return 0;
  if (strcmp(lua_tostring(L, 2), "saved_tensors") == 0) return saved_tensors(L);
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

/* ---- backward ---- */

typedef struct back_call {
  function *f;
  int ng, nin;
  moth_tensor *const *g;
  moth_tensor **grad;
} back_call;

static void push_gradient(lua_State *L, const back_call *c, int i, bool materialize) {
  mt_lua *S = c->f->S;
  const mt_meta *m = &c->f->meta[i];
  moth_tensor *t;
  if (!(c->f->results >> i & 1) || (!c->g[i] && !materialize)) {
    lua_pushnil(L);
    return;
  }
  mt_handle *h = mt_handle_new(L, S);
  if (c->g[i]) {
    mt_handle_fill(S, h, mt_tensor_retain(c->g[i]));
    return;
  }
  int status = mt_tensor_new(&t, S->rt, (mt_dtype)m->dtype, m->ndim, m->size, NULL);
  if (status) mt_error_raise(L, S, status);
  memset(t->v.data, 0, (size_t)(t->v.numel * mt_dtype_size((mt_dtype)m->dtype)));
  mt_handle_fill(S, h, t);
}

/* Takes what backward returned, from stack index `first` on. */
static int take_gradients(lua_State *L, const back_call *c, int first) {
  function *f = c->f;
  int n = lua_gettop(L) - first + 1;
  for (int i = 0; i < n || i < c->nin; i++) {
    bool given = i < n && lua_toboolean(L, first + i);
    if (given && i >= c->nin)
      return mt_error_throw(L, "backward of '%s' gave %d gradients for %d arguments", f->name, n,
                            c->nin);
    if (i >= n && (f->tensors >> i & 1))
      return mt_error_throw(L,
                            "backward of '%s' gave %d gradients, but argument %d needs one "
                            "(return nil when it is zero)",
                            f->name, n, i + 1);
    if (!given) continue;
    moth_tensor *t = mt_handle_tensor(L, f->S, first + i);
    if (!t)
      return mt_error_throw(L,
                            "backward of '%s' must return tensors or nil, got %s for argument %d",
                            f->name, mt_error_type(L, f->S, first + i), i + 1);
    if (f->tensors >> i & 1) c->grad[i] = mt_tensor_retain(t);
  }
  return 0;
}

static int backward_protected(lua_State *L) {
  back_call *c = lua_touserdata(L, 1);
  function *f = c->f;
  luaL_checkstack(L, c->ng + 8, NULL);
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->ctx->ref);
  lua_getfield(L, 2, "materialize_grads");
  bool materialize = lua_isnil(L, -1) || lua_toboolean(L, -1);
  lua_rawgetp(L, 2, &key_class);
  if (lua_getfield(L, -1, "backward") != LUA_TFUNCTION)
    return mt_error_throw(L, "Function '%s' has no backward", f->name);
  lua_pushvalue(L, 2);
  for (int i = 0; i < c->ng; i++) push_gradient(L, c, i, materialize);
  lua_call(L, c->ng + 1, LUA_MULTRET);
  take_gradients(L, c, 5);
  if (f->S->drop_saved) { /* the walk will not come back */
    lua_pushnil(L);
    lua_rawsetp(L, 2, &key_saved);
  }
  return 0;
}

static int backward(void *ud, moth_runtime *rt, int ng, moth_tensor *const *g, int nin,
                    moth_tensor **grad) {
  function *f = ud;
  mt_lua *S = f->S;
  back_call c = {f, ng, nin, g, grad};
  lua_State *L = S->L;
  if (S->closed)
    return mt_fail(rt, MT_ERROR, "backward of '%s': its Lua state was closed", f->name);
  if (!lua_checkstack(L, 8)) return mt_fail(rt, MT_ERROR, "stack overflow in backward");
  lua_pushcfunction(L, backward_protected);
  lua_pushlightuserdata(L, &c);
  int failed = lua_pcall(L, 1, 0, 0);
  if (S->L != L) mt_lua_switch(L, S);
  return failed ? mt_error_keep(L, S) : MT_OK;
}

/* ---- forward ---- */

/* Stack of apply: arguments 1..n, ctx, results. */
typedef struct frame {
  lua_State *L;
  mt_lua *S;
  int nin, ctx, nout;
  uint64_t wants;
  moth_tensor *in[MOST], *out[MOST];
} frame;

static void push_ctx(lua_State *L, mt_lua *S, frame *f) {
  lua_createtable(L, 0, 6);
  f->ctx = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ctx);
  lua_setmetatable(L, f->ctx);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_rawsetp(L, f->ctx, &key_class);
  lua_createtable(L, f->nin, 0);
  for (int i = 0; i < f->nin; i++) {
    const moth_tensor *t = mt_handle_tensor(L, S, i + 1);
    bool wants = t && mt_tensor_needs_grad(t);
    lua_pushboolean(L, wants);
    lua_rawseti(L, -2, i + 1);
    if (wants) f->wants |= (uint64_t)1 << i;
  }
  lua_setfield(L, f->ctx, "needs_input_grad");
}

/* Calls forward without recording; the results are left behind ctx. */
static void call_forward(lua_State *L, mt_lua *S, frame *f) {
  if (lua_getfield(L, lua_upvalueindex(1), "forward") != LUA_TFUNCTION)
    mt_error_throw(L, "Function '%s' has no forward", lua_tostring(L, lua_upvalueindex(2)));
  lua_pushvalue(L, f->ctx);
  for (int i = 1; i <= f->nin; i++) lua_pushvalue(L, i);
  bool was = moth_set_grad_enabled(S->rt, false);
  int failed = lua_pcall(L, f->nin + 1, LUA_MULTRET, 0);
  moth_set_grad_enabled(S->rt, was);
  if (S->L != L) mt_lua_switch(L, S);
  if (failed) lua_error(L);
  f->nout = lua_gettop(L) - f->ctx;
  if (f->nout > MOST) mt_error_throw(L, "a Function has at most %d results", MOST);
}

static bool differentiable(const moth_tensor *t) {
  mt_dtype d = (mt_dtype)t->v.dtype;
  return mt_dtype_is_float(d) || d == MT_C64;
}

/* Replaces results that are arguments, or belong to a graph, by aliases that can be given a node;
 * fills in and out. Afterwards every tensor is kept by the stack. */
static void collect_tensors(frame *f) {
  lua_State *L = f->L;
  mt_lua *S = f->S;
  for (int i = 0; i < f->nout; i++) {
    int at = f->ctx + 1 + i;
    moth_tensor *t = mt_handle_tensor(L, S, at), *alias;
    bool fixed = t && marked(L, S, f->ctx, &key_fixed, t);
    if (!t || fixed || !differentiable(t) || marked(L, S, f->ctx, &key_dirty, t)) continue;
    bool argument = false;
    for (int k = 1; k <= f->nin; k++) argument |= mt_handle_tensor(L, S, k) == t;
    if (!argument && !t->node && !t->leaf) continue;
    mt_handle *h = mt_handle_new(L, S);
    t = mt_handle_check(L, S, at, "result", "apply");
    int status = mt_tensor_alias(&alias, t, t->v.ndim, t->v.size, t->v.stride, 0);
    if (status) mt_error_raise(L, S, status);
    mt_handle_fill(S, h, alias);
    lua_replace(L, at);
  }
  for (int i = 0; i < f->nin; i++) f->in[i] = mt_handle_tensor(L, S, i + 1);
  for (int i = 0; i < f->nout; i++) {
    moth_tensor *t = mt_handle_tensor(L, S, f->ctx + 1 + i);
    f->out[i] = t && differentiable(t) && !marked(L, S, f->ctx, &key_fixed, t) ? t : NULL;
  }
}

/* Saved results become aliases without node. */
static void detach_saved(frame *f) {
  lua_State *L = f->L;
  if (lua_rawgetp(L, f->ctx, &key_saved) != LUA_TTABLE) {
    lua_pop(L, 1);
    return;
  }
  int saved = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, saved);
  push_list(L, f->ctx, &key_results);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, saved, i);
    moth_tensor *t = mt_handle_tensor(L, f->S, -1), *alias;
    int out = -1;
    for (int k = 0; t && k < f->nout; k++)
      if (f->out[k] == t) out = k;
    if (out >= 0) {
      mt_handle *h = mt_handle_new(L, f->S);
      int status = mt_tensor_alias(&alias, t, t->v.ndim, t->v.size, t->v.stride, 0);
      if (status) mt_error_raise(L, f->S, status);
      mt_handle_fill(f->S, h, alias);
      lua_rawseti(L, saved, i);
      lua_pushinteger(L, out);
      lua_rawseti(L, saved + 1, i);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, saved - 1);
}

/* Puts an empty holder into ctx. */
static holder *make_holder(frame *f) {
  holder *h = lua_newuserdatauv(f->L, sizeof *h, 0);
  h->f = NULL;
  h->mark = holder_mark(f->S, h);
  lua_rawgetp(f->L, LUA_REGISTRYINDEX, &key_holder);
  lua_setmetatable(f->L, -2);
  lua_rawsetp(f->L, f->ctx, &key_function);
  return h;
}

/* The record that node and holder share; NULL: no memory. */
static function *make_function(frame *f, mt_hooks *ctx, const char *name) {
  mt_lua *S = f->S;
  function *fn = mt_record_new(&S->rt->alloc, function_bytes(f->nout));
  if (!fn) return NULL;
  memset(fn, 0, function_bytes(f->nout));
  fn->S = S;
  S->refs++;
  fn->refs = 1;
  fn->ctx = ctx;
  fn->nin = f->nin;
  fn->nout = f->nout;
  fn->tensors = f->wants;
  snprintf(fn->name, sizeof fn->name, "%s", name);
  for (int i = 0; i < f->nout; i++) {
    const moth_tensor *t = f->out[i];
    if (!t) continue;
    fn->results |= (uint64_t)1 << i;
    fn->meta[i].ndim = t->v.ndim;
    fn->meta[i].dtype = t->v.dtype;
    memcpy(fn->meta[i].size, t->v.size, sizeof(int64_t) * (size_t)t->v.ndim);
  }
  return fn;
}

/* Makes the node. Lua may throw up to mt_hooks_new, when only the empty holder exists. */
static int record(frame *f) {
  lua_State *L = f->L;
  moth_runtime *rt = f->S->rt;
  holder *h = make_holder(f);
  const char *name = lua_tostring(L, lua_upvalueindex(2));
  lua_pushvalue(L, f->ctx);
  mt_hooks *ctx = mt_hooks_new(L, f->S);
  function *fn = ctx ? make_function(f, ctx, name) : NULL;
  if (!fn) {
    if (ctx) mt_hooks_free(f->S, ctx);
    return mt_fail(rt, MT_NOMEM, "out of memory for a graph node");
  }
  h->f = fn;
  fn->refs++;
  mt_custom custom = {.backward = backward, .release = release, .ud = fn, .name = fn->name};
  int status = mt_tape_record_custom(rt, &custom, f->nin, f->in, f->nout, f->out);
  if (status) {
    if (fn->ctx) release(fn, rt); /* unless the node was that far already */
    return status;
  }
  for (int i = 0; i < f->nout && !fn->node; i++)
    if (f->out[i]) fn->node = f->out[i]->node;
  return MT_OK;
}

static int apply(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  frame f = {.L = L, .S = S, .nin = lua_gettop(L)};
  if (f.nin > MOST) return mt_error_throw(L, "a Function has at most %d arguments", MOST);
  luaL_checkstack(L, f.nin + 12, NULL);
  push_ctx(L, S, &f);
  call_forward(L, S, &f);
  luaL_checkstack(L, 12, NULL);
  if (!f.wants || !S->rt->grad_enabled) return f.nout;
  collect_tensors(&f);
  detach_saved(&f);
  bool any = false;
  for (int i = 0; i < f.nout; i++) {
    any |= f.out[i] != NULL;
    if (f.out[i] && f.out[i]->leaf && f.out[i]->leaf->wants)
      return mt_error_throw(L, "a leaf that requires a gradient cannot be marked dirty");
  }
  int top = lua_gettop(L), status = any ? record(&f) : MT_OK;
  if (status) return mt_error_raise(L, S, status);
  lua_settop(L, top);
  return f.nout;
}

/* Square(x) is Square.apply(x). */
static int call_class(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_getfield(L, 1, "apply");
  lua_replace(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static const luaL_Reg ctx_methods[] = {{"save_for_backward", save_for_backward},
                                       {"mark_non_differentiable", mark_non_differentiable},
                                       {"mark_dirty", mark_dirty},
                                       {"set_materialize_grads", set_materialize_grads},
                                       {NULL, NULL}};

static void open_ctx(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ctx) == LUA_TNIL) {
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, holder_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_holder);
    lua_createtable(L, 0, 1);
    luaL_newlib(L, ctx_methods);
    lua_pushcclosure(L, ctx_index, 1);
    lua_setfield(L, -2, "__index");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_ctx);
  }
  lua_pop(L, 1);
}

int mt_function_new(lua_State *L) {
  const char *name = luaL_optstring(L, 1, "Function");
  luaL_checkstack(L, 8, NULL);
  open_ctx(L);
  lua_createtable(L, 0, 4);
  lua_pushstring(L, name);
  lua_setfield(L, -2, "name");
  lua_pushvalue(L, -1);
  lua_pushstring(L, name);
  lua_pushcclosure(L, apply, 2);
  lua_setfield(L, -2, "apply");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, call_class);
  lua_setfield(L, -2, "__call");
  lua_setmetatable(L, -2);
  return 1;
}
