/* state.h - what the binding knows of one Lua state: runtime, allocator, collector counters.
 *
 * One mt_lua per Lua universe (main thread and coroutines). It is the `ud` of the state's
 * allocator, so mt_lua_of finds it without a table access; the registry keeps it for the case that
 * a host put its own allocator in front.
 *
 * The allocator is what tells us that a handle died: handles have no __gc (see handle.h). It
 * never calls Lua. In a state of moth_lua_open memory comes from the runtime's record pools; in a
 * foreign state the host's allocator is called for everything.
 *
 * Invariant: between two calls of binding functions S->pending is false and no C code holds a
 * tensor that only Lua keeps alive. */
#ifndef MT_LUA_STATE_H
#define MT_LUA_STATE_H

#include <lua.h>

#include "../runtime/tensor.h"

/* Constants and counters of the collector's pacing; pace.c explains them. Times in seconds. */
typedef struct mt_pace {
  int64_t debt, limit; /* collect when debt > limit; limit is derived from the rest */
  int64_t a, a0, amax; /* bytes of new tensors between minor collections: now, least, most */
  int64_t per_handle, floor;
  double r, f, m;
  int64_t big[2], top[2]; /* two windows each, turned by full collections or 64 minor ones */
  int64_t young_big[2];   /* largest new storage, in windows of 4 minor collections */
  int64_t held_full;      /* rt->held after the last full collection */
  int64_t handles;        /* alive, and dead ones not swept yet */
  double last_end, minor[3], full_time, full_end, longest_minor, longest_full, total;
  int64_t nminor, nfull;
  int calm, turn;            /* minor collections since a full one; since the windows turned */
  bool generational, chosen; /* the collector's mode as probed, or as set by moth.gc */
} mt_pace;

struct mt_hooks; /* autograd.c: Lua functions that the graph refers to */

typedef struct mt_lua {
  moth_runtime *rt;
  lua_State *main;
  lua_State *L; /* the thread that called a binding function last; the registry keeps it */
  lua_State *running; /* own state: the coroutine that was resumed last and still runs, or NULL */
  int refs;     /* 1 for the state, 1 for each graph node that calls Lua */
  bool own;     /* made by moth_lua_open */
  bool closed;
  bool finalizers; /* handles get a __gc: the allocator could not be wrapped */
  bool fail_once;  /* the allocator refuses the next request: forces an emergency collection */
  bool drop_saved; /* the backward under way will not be repeated */
  bool pending;    /* a Lua error value waits in the registry to be raised again */
  uint64_t secret; /* in the marks of handles, so that no script can forge one */
  size_t block, payload; /* size of a handle's block, distance from it to the payload */
  void *probe;           /* block of the last userdata, while probing */
  size_t probe_size;
  lua_Alloc next; /* foreign state: the host's allocator */
  void *next_ud;
  void *last_block;      /* foreign state: what lua_close frees last */
  struct mt_hooks *dead; /* references to drop as soon as Lua may be called */
  mt_pace pace;
} mt_lua;

/* NULL when Moth is not loaded in this state. */
mt_lua *mt_lua_find(lua_State *L);
/* The same, but raises. */
mt_lua *mt_lua_need(lua_State *L);
void *mt_lua_alloc(void *ud, void *ptr, size_t osize, size_t nsize);

/* The record of a state in which Moth is loaded. */
static inline mt_lua *mt_lua_of(lua_State *L) {
  void *ud;
  return lua_getallocf(L, &ud) == mt_lua_alloc ? (mt_lua *)ud : mt_lua_need(L);
}

/* Remembers the running thread; called when it is not the one of the last call. */
void mt_lua_switch(lua_State *L, mt_lua *S);

/* Makes the record of a state of our own, before the state. NULL: no memory. */
mt_lua *mt_lua_create(moth_runtime *rt);
/* Learns block size and payload offset of handles and fills the registry; the state is open. Can
 * raise. */
void mt_lua_setup(lua_State *L, mt_lua *S);
/* Ends Lua's part: no callback of the runtime reaches Lua any more. */
void mt_lua_detach(mt_lua *S);
/* Makes the record of a foreign state and wraps its allocator. Can raise. */
mt_lua *mt_lua_attach(lua_State *L);
/* Drops a reference; the last one frees the record (not the runtime). */
void mt_lua_unref(mt_lua *S, moth_runtime *rt);
/* Whether the allocator is still ours; if a host replaced it, handles get finalizers from now on.
 */
bool mt_lua_check_alloc(lua_State *L, mt_lua *S);
/* A full collection in which no finalizer and no other Lua code runs: allowed in the middle of an
 * operation. For rt->reclaim. */
bool mt_lua_reclaim(void *ud);

#endif
