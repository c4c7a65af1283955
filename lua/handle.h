/* handle.h - a tensor as a Lua value.
 *
 * A handle is a small full userdata that owns one reference to a tensor. It has no __gc: objects
 * with finalizers die in two collections and ruin the pacing. Instead the state's allocator
 * recognises the block of a dying handle by its size and by a mark which depends on the address
 * and on a secret of the state, and releases the tensor there. The same mark is the type check: it
 * needs no metatable, holds against debug.setmetatable, and no script can forge it.
 *
 * How a binding function stays safe, whatever collects or throws:
 *     mt_lua *S = mt_lua_enter(L);          paces the collector; may run script finalizers
 *     mt_handle *h = mt_handle_new(L, S);   empty; may throw, holds nothing yet
 *     moth_tensor *x = mt_handle_check(L, S, 1, "x", "flip");      from here on no call that
 * allocates int status = ...;                     errors are values if (status) return
 * mt_error_raise(L, S, status); mt_handle_fill(S, h, y);              takes the reference
 *
 * Invariant: a handle that is filled counts once in its storage's `handles`. */
#ifndef MT_LUA_HANDLE_H
#define MT_LUA_HANDLE_H

#include "state.h"

typedef struct mt_handle {
  moth_tensor *t; /* NULL: nothing yet, or freed */
  uint64_t mark;
} mt_handle;

static inline uint64_t mt_handle_mark(const mt_lua *S, const mt_handle *h) {
  return S->secret ^ (uint64_t)(uintptr_t)h;
}

/* The handle at idx, NULL if the value is none. Never raises. */
static inline mt_handle *mt_handle_at(lua_State *L, const mt_lua *S, int idx) {
  mt_handle *h = lua_touserdata(L, idx);
  if (!h || lua_rawlen(L, idx) != sizeof *h || h->mark != mt_handle_mark(S, h)) return NULL;
  return h;
}
/* The tensor at idx, borrowed; NULL if there is none or it was freed. Never raises. */
static inline moth_tensor *mt_handle_tensor(lua_State *L, const mt_lua *S, int idx) {
  mt_handle *h = mt_handle_at(L, S, idx);
  return h ? h->t : NULL;
}
/* The tensor at idx; raises "bad argument 'NAME' to FUNC: expected tensor, got ...", or says that
 * it was freed. */
moth_tensor *mt_handle_check(lua_State *L, mt_lua *S, int idx, const char *name, const char *func);

/* Pushes an empty handle. Can raise. */
mt_handle *mt_handle_new(lua_State *L, mt_lua *S);
/* The same with the metatable at `mt` (an upvalue): the fast path. */
mt_handle *mt_handle_new_with(lua_State *L, mt_lua *S, int mt);
/* Puts t into an empty handle; takes the reference. Does not call Lua. */
void mt_handle_fill(mt_lua *S, mt_handle *h, moth_tensor *t);
/* Releases the tensor: t:free(), __close, __gc. Does not call Lua. */
void mt_handle_empty(mt_lua *S, mt_handle *h);
/* Called by the allocator for each block of a handle's size that is freed. */
void mt_handle_sweep(mt_lua *S, void *block);

/* Pushes t; takes the reference. On a memory error the reference is given back, then it raises. */
void mt_handle_push(lua_State *L, mt_lua *S, moth_tensor *t);

/* The metatable of tensors and its method table, in the registry. */
void mt_handle_push_metatable(lua_State *L);
extern const char mt_handle_key; /* its registry key */
/* From now on new handles get a __gc: for hosts that own the allocator. Never raises (but for
 * memory). */
void mt_handle_use_finalizers(lua_State *L);

#endif
