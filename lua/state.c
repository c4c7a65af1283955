/* state.c - the record of a Lua state and its allocator. See state.h. */
#include "state.h"

#include <lauxlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "autograd.h"
#include "error.h"
#include "handle.h"
#include "pace.h"

/* Registry keys; their values are never looked at, so they are no state. */
static const char key_state, key_thread, key_sentinel;

/* ---- the allocator ----
 * Nothing below calls Lua, but for lua_sethook, which is made for signal handlers: an interrupted
 * script that calls no operation is stopped at its next allocation. */

static void *own_alloc(mt_lua *S, void *ptr, size_t osize, size_t nsize) {
  mt_alloc *a = &S->rt->alloc;
#ifdef MT_NOPOOL
  return a->fn(a->ud, ptr, ptr ? osize : 0, nsize);
#else
  const size_t largest = MT_NCLASS * 32;
  if (!ptr) return nsize ? mt_record_new(a, nsize) : NULL;
  if (nsize == 0) {
    mt_record_free(a, ptr, osize);
    return NULL;
  }
  if (osize > largest && nsize > largest) return a->fn(a->ud, ptr, osize, nsize);
  if (osize <= largest && nsize && (osize + 31) / 32 == (nsize + 31) / 32) return ptr;
  return mt_record_grow(a, ptr, osize, nsize);
#endif
}

void *mt_lua_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  mt_lua *S = ud;
  if (nsize == 0) {
    if (ptr && osize == S->block) mt_handle_sweep(S, ptr);
  } else if (!ptr) {
    if (MT_UNLIKELY(S->fail_once)) {
      S->fail_once = false;
      return NULL;
    }
    if (MT_UNLIKELY(S->rt->interrupted) && S->main) {
      lua_sethook(S->main, mt_error_hook, LUA_MASKCOUNT, 1);
      lua_sethook(S->L, mt_error_hook, LUA_MASKCOUNT, 1);
    }
  }
  if (S->own) {
    void *p = own_alloc(S, ptr, osize, nsize);
    if (!ptr && osize == LUA_TUSERDATA) S->probe = p, S->probe_size = nsize;
    return p;
  }
  void *p = S->next(S->next_ud, ptr, osize, nsize);
  if (!ptr && osize == LUA_TUSERDATA) S->probe = p, S->probe_size = nsize;
  if (MT_UNLIKELY(nsize == 0 && ptr == S->last_block)) { /* lua_close is done */
    moth_runtime *rt = S->rt;
    mt_lua_detach(S);
    mt_lua_unref(S, rt);
    moth_close(rt);
  }
  return p;
}

/* ---- the record ---- */

/* Unguessable for scripts; only the marks of handles depend on it. */
static uint64_t new_secret(const void *address) {
  uint64_t secret = 0;
  struct timespec now;
  if (getentropy(&secret, sizeof secret) != 0) {
    clock_gettime(CLOCK_REALTIME, &now);
    secret = ((uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)address) *
             0x9e3779b97f4a7c15u;
  }
  return secret | 1; /* a cleared mark never fits an aligned address */
}

static void script_position(void *ud, char *buf, size_t size) {
  mt_lua *S = ud;
  mt_error_where(S->L, buf, size);
}

mt_lua *mt_lua_create(moth_runtime *rt) {
  mt_lua *S = mt_record_new(&rt->alloc, sizeof *S);
  if (!S) return NULL;
  memset(S, 0, sizeof *S);
  S->rt = rt;
  S->refs = 1;
  S->secret = new_secret(S);
  mt_pace_init(S);
  rt->reclaim = mt_lua_reclaim;
  rt->reclaim_ud = S;
  rt->where = script_position;
  rt->where_ud = S;
  mt_autograd_attach(S);
  return S;
}

void mt_lua_unref(mt_lua *S, moth_runtime *rt) {
  if (--S->refs == 0) mt_record_free(&rt->alloc, S, sizeof *S);
}

void mt_lua_detach(mt_lua *S) {
  moth_runtime *rt = S->rt;
  S->closed = true;
  S->L = S->main = NULL;
  rt->reclaim = NULL;
  rt->where = NULL;
  mt_autograd_detach(S);
}

/* Where a userdata's payload lies in its block is Lua's private matter: measured, not computed. */
static void probe_handle(lua_State *L, mt_lua *S) {
  mt_handle *h = lua_newuserdatauv(L, sizeof *h, 0);
  memset(h, 0, sizeof *h);
  S->payload = (size_t)((char *)h - (char *)S->probe);
  S->block = S->probe_size;
  lua_pop(L, 1);
}

void mt_lua_setup(lua_State *L, mt_lua *S) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  S->main = lua_tothread(L, -1);
  lua_pop(L, 1);
  lua_pushthread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_thread);
  S->L = L;
  lua_pushlightuserdata(L, S);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
  if (!S->finalizers) probe_handle(L, S);
}

void mt_lua_switch(lua_State *L, mt_lua *S) {
  luaL_checkstack(L, 1, NULL);
  lua_pushthread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_thread); /* the key exists: allocates nothing */
  S->L = L;
}

mt_lua *mt_lua_find(lua_State *L) {
  void *ud;
  if (lua_getallocf(L, &ud) == mt_lua_alloc) return ud;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state);
  mt_lua *S = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return S;
}

mt_lua *mt_lua_need(lua_State *L) {
  mt_lua *S = mt_lua_find(L);
  if (!S) luaL_error(L, "moth is not loaded in this Lua state, or was closed");
  if (!S->finalizers && !mt_lua_check_alloc(L, S)) mt_handle_use_finalizers(L);
  return S;
}

/* ---- foreign states ---- */

/* A state whose allocator may not be wrapped: the record ends with this object, which is older than
 * all handles and hence finalised after them. */
static int sentinel_gc(lua_State *L) {
  mt_lua **box = lua_touserdata(L, 1);
  mt_lua *S = box ? *box : NULL;
  if (!S) return 0;
  *box = NULL;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
  moth_runtime *rt = S->rt;
  mt_lua_detach(S);
  mt_lua_unref(S, rt);
  moth_close(rt);
  return 0;
}

static mt_lua **make_sentinel(lua_State *L) {
  mt_lua **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, sentinel_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushboolean(L, 0); /* scripts cannot reach it through getmetatable */
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_sentinel);
  return box;
}

mt_lua *mt_lua_attach(lua_State *L) {
  mt_lua **box = NULL;
  lua_getfield(L, LUA_REGISTRYINDEX, "moth.handles");
  bool finalizers = lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "finalizer") == 0;
  lua_pop(L, 1);
  if (finalizers) box = make_sentinel(L);
  moth_runtime *rt = moth_open(NULL);
  mt_lua *S = rt ? mt_lua_create(rt) : NULL;
  if (!S) {
    moth_close(rt);
    luaL_error(L, "not enough memory for a runtime");
  }
  if (finalizers) {
    S->finalizers = true;
    *box = S;
  } else {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    S->last_block = (char *)lua_tothread(L, -1) - LUA_EXTRASPACE;
    lua_pop(L, 1);
    S->next = lua_getallocf(L, &S->next_ud);
    lua_setallocf(L, mt_lua_alloc, S);
  }
  mt_lua_setup(L, S);
  return S;
}

bool mt_lua_check_alloc(lua_State *L, mt_lua *S) {
  void *ud;
  if (S->finalizers || lua_getallocf(L, &ud) == mt_lua_alloc) return true;
  S->finalizers = true;
  lua_warning(L, "moth: the state's allocator was replaced; tensors get finalizers from now on", 0);
  return false;
}

/* ---- collecting in the middle of an operation ---- */

static int allocate(lua_State *L) {
  lua_newuserdatauv(L, 1, 0);
  return 0;
}

/* Lua answers a failed allocation with an emergency collection, in which it runs no finalizers. The
 * allocator refuses one request to bring that about. The main thread always exists. */
bool mt_lua_reclaim(void *ud) {
  mt_lua *S = ud;
  void *aud;
  if (S->closed || !S->main || lua_getallocf(S->main, &aud) != mt_lua_alloc) return false;
  lua_State *L = S->main;
  if (!lua_checkstack(L, 3)) return false;
  int64_t before = S->rt->alloc.mem.live;
  lua_pushcfunction(L, allocate);
  S->fail_once = true;
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  S->fail_once = false;
  return S->rt->alloc.mem.live < before;
}
