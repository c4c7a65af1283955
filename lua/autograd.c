/* autograd.c - see autograd.h.
 *
 * Hooks run Lua in the middle of a walk through the graph. They are called in protected mode: an
 * error is kept in the registry (error.h), the walk unwinds as after any other error, and the
 * binding function that started it raises the error again. Tensors that a walk works on are
 * retained for its time, because a hook may free any handle. */
#include "autograd.h"

#include <string.h>

#include "../runtime/shape.h"
#include "../runtime/tape.h"
#include "bind.h"
#include "help.h"
#include "read.h"

/* ---- references from the graph to Lua ---- */

mt_hooks *mt_hooks_new(lua_State *L, mt_lua *S) {
  int ref = luaL_ref(L, LUA_REGISTRYINDEX);
  mt_hooks *h = mt_record_new(&S->rt->alloc, sizeof *h);
  if (!h) {
    luaL_unref(L, LUA_REGISTRYINDEX, ref);
    return NULL;
  }
  h->next = NULL;
  h->ref = ref;
  return h;
}

void mt_hooks_free(mt_lua *S, mt_hooks *h) {
  if (S->closed) {
    mt_record_free(&S->rt->alloc, h, sizeof *h);
  } else {
    h->next = S->dead;
    S->dead = h;
  }
}

void mt_autograd_drain(lua_State *L, mt_lua *S) {
  while (S->dead) {
    mt_hooks *h = S->dead;
    S->dead = h->next;
    luaL_unref(L, LUA_REGISTRYINDEX, h->ref); /* only writes to places that exist */
    mt_record_free(&S->rt->alloc, h, sizeof *h);
  }
}

static void free_hooks(void *ud, void *hooks) { mt_hooks_free(ud, hooks); }

/* After the Lua state is gone: `ud` is the runtime. */
static void free_hooks_late(void *ud, void *hooks) {
  moth_runtime *rt = ud;
  mt_record_free(&rt->alloc, hooks, sizeof(mt_hooks));
}

/* ---- running hooks ---- */

typedef struct hook_call {
  mt_lua *S;
  int ref;
  moth_tensor **g;
} hook_call;

static void check_replacement(lua_State *L, const moth_tensor *g, const moth_tensor *with) {
  if (!mt_shape_equal(&g->v, &with->v) || g->v.dtype != with->v.dtype)
    mt_error_throw(L, "a hook must return a gradient of the same shape and dtype, %s; got %s",
                   mt_tensor_str(g), mt_tensor_str(with));
}

static int run_protected(lua_State *L) {
  hook_call *c = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->ref);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  for (lua_Integer i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 2, i) != LUA_TFUNCTION) { /* removed */
      lua_settop(L, 2);
      continue;
    }
    mt_handle *h = mt_handle_new(L, c->S);
    mt_handle_fill(c->S, h, mt_tensor_retain(*c->g));
    lua_call(L, 1, 1);
    moth_tensor *with = mt_handle_tensor(L, c->S, -1);
    if (with) {
      check_replacement(L, *c->g, with);
      moth_tensor *old = *c->g;
      *c->g = mt_tensor_retain(with);
      mt_tensor_release(old);
    } else if (!lua_isnil(L, -1)) {
      return mt_error_throw(L, "a hook must return a tensor or nothing, got %s",
                            mt_error_type(L, c->S, -1));
    }
    lua_settop(L, 2);
  }
  return 0;
}

static int run_hooks(void *ud, moth_tensor *t, void *hooks, moth_tensor **g) {
  mt_lua *S = ud;
  hook_call c = {S, ((mt_hooks *)hooks)->ref, g};
  lua_State *L = S->L;
  (void)t;
  if (!lua_checkstack(L, 8)) return mt_fail(S->rt, MT_ERROR, "stack overflow in a hook");
  lua_pushcfunction(L, run_protected);
  lua_pushlightuserdata(L, &c);
  int failed = lua_pcall(L, 1, 0, 0);
  if (S->L != L) mt_lua_switch(L, S); /* a hook resumed a coroutine */
  return failed ? mt_error_keep(L, S) : MT_OK;
}

void mt_autograd_attach(mt_lua *S) {
  S->rt->run_hooks = run_hooks;
  S->rt->free_hooks = free_hooks;
  S->rt->hooks_ud = S;
}

void mt_autograd_detach(mt_lua *S) {
  moth_runtime *rt = S->rt;
  rt->run_hooks = NULL;
  rt->free_hooks = free_hooks_late;
  rt->hooks_ud = rt;
  while (S->dead) {
    mt_hooks *h = S->dead;
    S->dead = h->next;
    mt_record_free(&rt->alloc, h, sizeof *h);
  }
}

/* ---- register_hook ---- */

/* Where the hooks of t are kept: in its leaf record, or in the node that made it. */
static void **hook_slot(mt_lua *S, moth_tensor *t) {
  mt_node *n = t->node;
  if (!n) {
    mt_leaf *leaf = mt_tensor_leaf(t);
    return leaf ? &leaf->hooks : NULL;
  }
  if (!n->hooks) {
    n->hooks = mt_record_new(&S->rt->alloc, (size_t)n->nout * sizeof *n->hooks);
    if (n->hooks) memset(n->hooks, 0, (size_t)n->nout * sizeof *n->hooks);
  }
  return n->hooks ? &n->hooks[t->out] : NULL;
}

static const char key_removable; /* registry: metatable of what register_hook returns */

/* handle:remove(): {list of hooks, place in it}. */
static int remove_hook(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (lua_rawgeti(L, 1, 1) == LUA_TTABLE && lua_rawgeti(L, 1, 2) == LUA_TNUMBER) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, -3, lua_tointeger(L, -2));
  }
  return 0;
}

int mt_autograd_register_hook(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 2);
  luaL_checkstack(L, 8, NULL);
  moth_tensor *t = mt_handle_check(L, S, 1, "self", "register_hook");
  if (lua_type(L, 2) != LUA_TFUNCTION)
    return mt_error_raise(L, S, mt_error_arg(L, S, 2, "hook", "register_hook", "a function"));
  if (!mt_tensor_needs_grad(t))
    return mt_error_throw(L, "register_hook: the tensor does not require a gradient");
  lua_createtable(L, 1, 0); /* 3: the list of a first hook */
  lua_pushvalue(L, 3);
  mt_hooks *fresh = mt_hooks_new(L, S);
  t = mt_handle_tensor(L, S, 1); /* Lua memory was allocated: a finalizer may have freed it */
  void **slot = fresh && t ? hook_slot(S, t) : NULL;
  if (!slot) {
    if (fresh) mt_hooks_free(S, fresh);
    return mt_error_throw(L, t ? "not enough memory" : "register_hook: the tensor was freed");
  }
  if (*slot) {
    mt_hooks_free(S, fresh);
    lua_rawgeti(L, LUA_REGISTRYINDEX, ((mt_hooks *)*slot)->ref);
    lua_replace(L, 3);
  } else {
    *slot = fresh;
  }
  lua_Integer place = (lua_Integer)lua_rawlen(L, 3) + 1;
  lua_pushvalue(L, 2);
  lua_rawseti(L, 3, place);
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, 3);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, place);
  lua_rawseti(L, -2, 2);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_removable);
  lua_setmetatable(L, -2);
  return 1;
}

int mt_autograd_retain_grad(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  moth_tensor *t = mt_handle_check(L, S, 1, "self", "retain_grad");
  if (!mt_tensor_needs_grad(t))
    return mt_error_throw(L, "retain_grad: the tensor does not require a gradient");
  if (!t->node) return 0; /* leaves keep theirs anyway */
  int status = mt_tape_retain(t);
  return status ? mt_error_raise(L, S, status) : 0;
}

/* ---- backward and grad ---- */

/* Arguments of a walk, with their tensors retained, in one record. */
typedef struct job {
  mt_lua *S;
  mt_backward_args a;
  moth_tensor **t; /* roots, gradients, inputs, results */
  size_t bytes;
  int nroots, ninputs;
} job;

static int job_new(job *j, mt_lua *S, int nroots, int ninputs) {
  memset(j, 0, sizeof *j);
  j->S = S;
  j->nroots = nroots;
  j->ninputs = ninputs;
  size_t n = 2 * (size_t)(nroots + ninputs);
  j->bytes = (n ? n : 1) * sizeof *j->t;
  j->t = mt_record_new(&S->rt->alloc, j->bytes);
  if (!j->t) return mt_fail(S->rt, MT_NOMEM, "out of memory for a list of tensors");
  memset(j->t, 0, j->bytes);
  j->a.nroots = nroots;
  j->a.ninputs = ninputs;
  j->a.root = j->t;
  j->a.grad = j->t + nroots;
  j->a.input = j->t + 2 * nroots;
  j->a.result = j->t + 2 * nroots + ninputs;
  return MT_OK;
}

static void job_free(job *j) {
  if (!j->t) return;
  for (int i = 0; i < 2 * (j->nroots + j->ninputs); i++) mt_tensor_release(j->t[i]);
  mt_record_free(&j->S->rt->alloc, j->t, j->bytes);
  j->t = NULL;
}

static int job_run(job *j, lua_State *L) {
  mt_lua *S = j->S;
  bool drop = S->drop_saved;
  S->pending = false;
  S->drop_saved = !j->a.retain_graph;
  int status = mt_tape_backward(S->rt, &j->a);
  S->drop_saved = drop;
  if (S->L != L) mt_lua_switch(L, S);
  return status;
}

/* How many tensors the value at idx stands for: one, or those of a list; -1: something else. */
static int count(lua_State *L, mt_lua *S, int idx) {
  if (mt_handle_at(L, S, idx)) return 1;
  return lua_type(L, idx) == LUA_TTABLE ? (int)lua_rawlen(L, idx) : -1;
}

/* Retains the n tensors at idx into out; `holes`: false and nil are allowed. */
static int take(lua_State *L, mt_lua *S, int idx, const char *name, const char *func, int n,
                bool holes, moth_tensor **out) {
  bool list = lua_type(L, idx) == LUA_TTABLE;
  for (int i = 0; i < n; i++) {
    if (list) lua_rawgeti(L, idx, i + 1);
    int at = list ? lua_gettop(L) : idx;
    moth_tensor *t = mt_handle_tensor(L, S, at);
    if (t) {
      out[i] = mt_tensor_retain(t);
    } else if (!holes || lua_toboolean(L, at)) {
      return mt_error_arg(L, S, at, name, func, "tensor or list of tensors");
    }
    if (list) lua_pop(L, 1);
  }
  return MT_OK;
}

typedef struct options {
  int gradients; /* stack index of the gradients, 0: none */
  bool retain, retain_given, create, unused;
} options;

/* The keyword table at idx; what it says of gradients is pushed. */
static int read_options(lua_State *L, mt_lua *S, int idx, const char *func, options *o) {
  if (lua_isnoneornil(L, idx)) return MT_OK;
  if (lua_type(L, idx) != LUA_TTABLE)
    return mt_error_arg(L, S, idx, "options", func, "a table of options");
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    bool on = lua_toboolean(L, -1);
    if (strcmp(key, "retain_graph") == 0) {
      o->retain = on;
      o->retain_given = true;
    } else if (strcmp(key, "create_graph") == 0) {
      o->create = on;
    } else if (strcmp(key, "allow_unused") == 0) {
      o->unused = on;
    } else if (strcmp(key, "gradient") == 0 || strcmp(key, "grad_outputs") == 0 ||
               strcmp(key, "grad_tensors") == 0) {
      lua_pushvalue(L, -1); /* under the key, where lua_next finds it undisturbed */
      lua_insert(L, -3);
      o->gradients = lua_gettop(L) - 2;
    } else {
      return mt_fail(S->rt, MT_ERROR,
                     "%s has no argument '%.60s' (there are: gradient, grad_outputs, retain_graph, "
                     "create_graph, allow_unused)",
                     func, key);
    }
    lua_pop(L, 1);
  }
  return MT_OK;
}

static void set_flags(job *j, const options *o) {
  j->a.create_graph = o->create;
  j->a.retain_graph = o->retain_given ? o->retain : o->create;
  j->a.allow_unused = o->unused;
}

/* Roots at 1, gradients at o->gradients. */
static int start(job *j, lua_State *L, mt_lua *S, const options *o, const char *func, int ninputs) {
  int n = count(L, S, 1);
  if (n < 0) return mt_error_arg(L, S, 1, "outputs", func, "tensor or list of tensors");
  int status = job_new(j, S, n, ninputs);
  if (status) return status;
  set_flags(j, o);
  status = take(L, S, 1, "outputs", func, n, false, j->t);
  if (status || !o->gradients || !lua_toboolean(L, o->gradients)) return status;
  if (count(L, S, o->gradients) > n || count(L, S, o->gradients) < 0)
    return mt_error_arg(L, S, o->gradients, "gradient", func, "one tensor for each output");
  return take(L, S, o->gradients, "gradient", func, n, true, j->t + n);
}

/* x:backward(gradient, retain_graph, create_graph), or with a table of options in any place. */
int mt_autograd_backward(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  options o = {0};
  job j = {0};
  int status = MT_OK, top = lua_gettop(L);
  luaL_checkstack(L, 10, NULL);
  mt_handle_check(L, S, 1, "self", "backward");
  bool keywords = top > 1 && mt_read_is_keywords(L, top);
  int last = top - keywords;
  if (last >= 2) o.gradients = 2;
  if (last >= 3 && !lua_isnil(L, 3)) {
    o.retain = lua_toboolean(L, 3);
    o.retain_given = true;
  }
  if (last >= 4) o.create = lua_toboolean(L, 4);
  if (keywords) status = read_options(L, S, top, "backward", &o);
  if (!status) status = start(&j, L, S, &o, "backward", 0);
  if (!status) status = job_run(&j, L);
  job_free(&j);
  return status ? mt_error_raise(L, S, status) : 0;
}

/* moth.autograd.backward(tensors, gradients, {...}) */
static int backward_all(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  options o = {0};
  job j = {0};
  lua_settop(L, 3);
  luaL_checkstack(L, 10, NULL);
  bool keywords = mt_read_is_keywords(L, 2);
  o.gradients = keywords ? 0 : 2;
  int status = read_options(L, S, keywords ? 2 : 3, "backward", &o);
  if (!status) status = start(&j, L, S, &o, "backward", 0);
  if (!status) status = job_run(&j, L);
  job_free(&j);
  return status ? mt_error_raise(L, S, status) : 0;
}

static int push_gradients(lua_State *L) {
  job *j = lua_touserdata(L, 1);
  lua_createtable(L, j->ninputs, 0);
  for (int i = 0; i < j->ninputs; i++) {
    moth_tensor **slot = &j->a.result[i];
    if (*slot) {
      mt_handle *h = mt_handle_new(L, j->S);
      mt_handle_fill(j->S, h, *slot);
      *slot = NULL;
    } else {
      lua_pushboolean(L, 0); /* unused: a list has no holes */
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* moth.autograd.grad(outputs, inputs, {grad_outputs=, retain_graph=, create_graph=, allow_unused=})
 * gives a list of gradients; a single tensor as inputs gives a single gradient. */
static int grad(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  options o = {0};
  job j = {0};
  lua_settop(L, 3);
  luaL_checkstack(L, 10, NULL);
  bool single = mt_handle_at(L, S, 2) != NULL;
  int n = count(L, S, 2);
  if (n < 0)
    return mt_error_raise(L, S,
                          mt_error_arg(L, S, 2, "inputs", "grad", "tensor or list of tensors"));
  int status = read_options(L, S, 3, "grad", &o);
  if (!status) status = start(&j, L, S, &o, "grad", n);
  if (!status) status = take(L, S, 2, "inputs", "grad", n, false, j.t + 2 * j.nroots);
  if (!status && n > 0) status = job_run(&j, L);
  if (status) {
    job_free(&j);
    return mt_error_raise(L, S, status);
  }
  lua_pushcfunction(L, push_gradients);
  lua_pushlightuserdata(L, &j);
  int failed = lua_pcall(L, 1, 1, 0);
  job_free(&j);
  if (failed) return lua_error(L);
  if (single && lua_rawgeti(L, -1, 1) == LUA_TBOOLEAN) lua_pushnil(L);
  return 1;
}

/* ---- modes ---- */

static const char key_guard; /* registry: metatable of guards */

typedef struct guard {
  bool was, open;
} guard;

static int close_guard(lua_State *L) {
  guard *g = lua_touserdata(L, 1);
  mt_lua *S = mt_lua_of(L);
  if (g && lua_rawlen(L, 1) == sizeof *g && g->open) {
    g->open = false;
    moth_set_grad_enabled(S->rt, g->was);
  }
  return 0;
}

/* enter(on): switches and returns what switches back when it is closed. */
static int enter(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  bool on = lua_toboolean(L, 1);
  guard *g = lua_newuserdatauv(L, sizeof *g, 0);
  g->open = false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_guard);
  lua_setmetatable(L, -2);
  g->was = moth_set_grad_enabled(S->rt, on);
  g->open = true;
  return 1;
}

static int is_grad_enabled(lua_State *L) {
  lua_pushboolean(L, mt_lua_of(L)->rt->grad_enabled);
  return 1;
}

static int set_detect_anomaly(lua_State *L) {
  mt_lua_of(L)->rt->anomaly = lua_toboolean(L, 1);
  return 0;
}
static int is_anomaly_enabled(lua_State *L) {
  lua_pushboolean(L, mt_lua_of(L)->rt->anomaly);
  return 1;
}

/* In Lua because only there a variable can be closed while f keeps its traceback and may yield. */
static const char modes[] =
    "local enter = ...\n"
    "local function mode(on)\n"
    "  return function(f, ...)\n"
    "    if f == nil then return enter(on) end\n"
    "    local _ <close> = enter(on)\n"
    "    return f(...)\n"
    "  end\n"
    "end\n"
    "return mode(false), mode(true)\n";

static const mt_luafn rows[] = {
    {"set_grad_enabled", enter, "set_grad_enabled(bool on) -> guard",
     "Switches the recording of operations. The guard, kept in a <close> variable, switches back."},
    {"is_grad_enabled", is_grad_enabled, "is_grad_enabled() -> bool",
     "Whether operations are recorded."},
    {"no_grad", NULL, "no_grad(function? f=nil, ...) -> any",
     "Calls f(...) without recording. Without f: a guard for a variable, which records again when "
     "it "
     "is closed: local _ <close> = moth.no_grad()."},
    {"enable_grad", NULL, "enable_grad(function? f=nil, ...) -> any",
     "The opposite of no_grad, for use inside of it."},
    {NULL, NULL, NULL, NULL}};

static const mt_luafn autograd_rows[] = {
    {"backward", backward_all, "backward(tensor[] tensors, tensor[]? gradients=nil)",
     "Backward from several tensors at once."},
    {"grad", grad, "grad(tensor[] outputs, tensor[] inputs) -> tensor[]",
     "The gradients of outputs with respect to inputs, without touching any grad field. Options: "
     "grad_outputs, retain_graph, create_graph, allow_unused (false stands for an unused input)."},
    {"Function", mt_function_new, "Function(str name) -> class",
     "A class of operations with forward(ctx, ...) and backward(ctx, ...) written in Lua; "
     "apply(...) calls it."},
    {"set_detect_anomaly", set_detect_anomaly, "set_detect_anomaly(bool on)",
     "Backward then stops at the first NaN and names the operation and the line that recorded it."},
    {"is_anomaly_enabled", is_anomaly_enabled, "is_anomaly_enabled() -> bool",
     "Whether set_detect_anomaly is on."},
    {NULL, NULL, NULL, NULL}};

static void make_metatable(lua_State *L, const void *key, const char *field, lua_CFunction f,
                           bool index) {
  lua_createtable(L, 0, 2);
  if (index) {
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, f);
    lua_setfield(L, -2, field);
    lua_setfield(L, -2, "__index");
  } else {
    lua_pushcfunction(L, f);
    lua_setfield(L, -2, field);
  }
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void mt_autograd_open(lua_State *L, mt_lua *S) {
  (void)S;
  int module = lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  make_metatable(L, &key_guard, "__close", close_guard, false);
  make_metatable(L, &key_removable, "remove", remove_hook, true);
  mt_help_setfuncs(L, rows, "moth.");
  if (luaL_loadbufferx(L, modes, sizeof modes - 1, "=moth/modes", "t") != LUA_OK) lua_error(L);
  lua_pushcfunction(L, enter);
  lua_call(L, 1, 2);
  lua_setfield(L, module, "enable_grad");
  lua_setfield(L, module, "no_grad");
  lua_newtable(L);
  mt_help_setfuncs(L, autograd_rows, "moth.autograd.");
  lua_setfield(L, module, "autograd");
  lua_settop(L, module);
}
