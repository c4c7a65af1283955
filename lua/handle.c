/* handle.c - see handle.h. */
#include "handle.h"

#include <lauxlib.h>

#include "error.h"
#include "pace.h"

const char mt_handle_key = 0;

void mt_handle_push_metatable(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &mt_handle_key); }

static mt_handle *new_block(lua_State *L, mt_lua *S) {
  mt_handle *h = lua_newuserdatauv(L, sizeof *h, 0);
  h->t = NULL;
  h->mark = mt_handle_mark(S, h);
  return h;
}

mt_handle *mt_handle_new(lua_State *L, mt_lua *S) {
  mt_handle *h = new_block(L, S);
  mt_handle_push_metatable(L);
  lua_setmetatable(L, -2);
  return h;
}

mt_handle *mt_handle_new_with(lua_State *L, mt_lua *S, int mt) {
  mt_handle *h = new_block(L, S);
  lua_pushvalue(L, mt);
  lua_setmetatable(L, -2);
  return h;
}

void mt_handle_fill(mt_lua *S, mt_handle *h, moth_tensor *t) {
  mt_pace *p = &S->pace;
  mt_storage *s = t->storage;
  h->t = t;
  p->handles++;
  p->debt += p->per_handle;
  if (s->handles++ == 0) {
    int64_t bytes = (int64_t)s->bytes;
    S->rt->held += bytes;
    p->debt += bytes;
    if (bytes > p->young_big[0]) {
      p->young_big[0] = bytes;
      mt_pace_limit(S);
    }
  }
}

void mt_handle_empty(mt_lua *S, mt_handle *h) {
  moth_tensor *t = h->t;
  if (!t) return;
  mt_storage *s = t->storage;
  h->t = NULL;
  S->pace.handles--;
  if (--s->handles == 0) S->rt->held -= (int64_t)s->bytes;
  mt_tensor_release(t);
}

void mt_handle_sweep(mt_lua *S, void *block) {
  mt_handle *h = (mt_handle *)(void *)((char *)block + S->payload);
  if (h->mark != mt_handle_mark(S, h)) return;
  h->mark = 0; /* recycled memory keeps old contents */
  mt_handle_empty(S, h);
}

moth_tensor *mt_handle_check(lua_State *L, mt_lua *S, int idx, const char *name, const char *func) {
  mt_handle *h = mt_handle_at(L, S, idx);
  if (h && h->t) return h->t;
  if (h) mt_error_throw(L, "bad argument '%s' to %s: the tensor was freed", name, func);
  mt_error_throw(L, "bad argument '%s' to %s: expected tensor, got %s", name, func,
                 mt_error_type(L, S, idx));
  return NULL;
}

static int new_protected(lua_State *L) {
  mt_handle_new(L, mt_lua_of(L));
  return 1;
}

void mt_handle_push(lua_State *L, mt_lua *S, moth_tensor *t) {
  mt_handle *h = NULL;
  bool room = lua_checkstack(L, 4);
  if (room) {
    lua_pushcfunction(L, new_protected);
    if (lua_pcall(L, 0, 1, 0) == LUA_OK) h = mt_handle_at(L, S, -1);
  }
  if (h) {
    mt_handle_fill(S, h, t);
    return;
  }
  mt_tensor_release(t);
  if (room) lua_error(L);
  luaL_error(L, "stack overflow");
}
