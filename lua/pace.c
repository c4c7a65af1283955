/* pace.c - see pace.h. The policy, with constants found by measuring:
 *
 *   debt   bytes of storages that got their first handle since the last collection, 512 a handle
 *   held   bytes of storages that have a handle; live: all bytes of elements in use
 *   big    largest storage lately, young_big: very lately
 *   top    highest live lately, growth of held not counted
 *
 * When debt > max(a, r*top, 1.5*young_big): a minor collection (a generational step). When then
 * held has grown by more than max(floor, f*top)*m (and 2*big) since the last full collection: a
 * full one, because tensors that survived two minor collections are old and only that frees them.
 * If it freed little, the growth was real: m doubles. If it freed much, tensors die just after they
 * became old: a doubles, up to a limit. Two gates keep the share of time bounded when the Lua heap
 * is big and collections are dear.
 *
 * In a host's incremental state only full collections do something certain, so they are asked for
 * at a larger debt. Steps use a large argument: in generational mode a step of 0 resets Lua's own
 * threshold, and Lua's tables would never be collected. */
#include "pace.h"

#include <lauxlib.h>
#include <string.h>
#include <time.h>

#include "autograd.h"
#include "bind.h"

#define KB ((int64_t)1 << 10)
#define MB ((int64_t)1 << 20)
#define STEP (1 << 20)
#define YOUNG_WINDOW 4 /* minor collections */
#define WINDOW 64
#define DEAR 20e-6      /* seconds: minor collections below are not gated */
#define MINOR_SHARE 0.1 /* of the time, when they are dear */
#define FULL_SHARE 20.0 /* a full one may cost 1/20 of the time */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t top_of(const mt_pace *p) { return max64(p->top[0], p->top[1]); }
static int64_t young_big_of(const mt_pace *p) { return max64(p->young_big[0], p->young_big[1]); }
static int64_t big_of(const mt_pace *p) {
  return max64(young_big_of(p), max64(p->big[0], p->big[1]));
}

void mt_pace_limit(mt_lua *S) {
  mt_pace *p = &S->pace;
  int64_t big = young_big_of(p), top = top_of(p);
  if (p->generational) {
    p->limit = max64(max64(p->a, (int64_t)(p->r * (double)top)), big + big / 2);
  } else {
    p->limit = max64(max64(64 * p->a0, top / 2), big + big / 2);
  }
}

void mt_pace_init(mt_lua *S) {
  mt_pace *p = &S->pace;
  memset(p, 0, sizeof *p);
  p->a = p->a0 = 256 * KB;
  p->amax = MB;
  p->per_handle = 512;
  p->floor = 4 * MB;
  p->r = p->f = 0.05;
  p->m = 1;
  mt_pace_limit(S);
}

/* ---- the collector's mode ---- */

/* One step of size 0; whether an unreachable object in a weak table is gone after it and no cycle
 * was finished. */
static bool young_died(lua_State *L) {
  lua_createtable(L, 0, 0);
  lua_rawseti(L, -2, 1);
  int finished = lua_gc(L, LUA_GCSTEP, 0);
  bool gone = lua_rawgeti(L, -1, 1) == LUA_TNIL;
  lua_pop(L, 1);
  return gone && finished == 0;
}

/* Asks without changing anything. In generational mode each step answers yes, but for the first
 * ones after a big structure was built, which are full collections; in incremental mode one step
 * can, never two in a row. */
static int probe_mode(lua_State *L) {
  int yes = 0;
  lua_createtable(L, 1, 0);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  for (int i = 0; i < 6 && yes < 2; i++) yes = young_died(L) ? yes + 1 : 0;
  lua_pushboolean(L, yes == 2);
  return 1;
}

static void find_mode(lua_State *L, mt_lua *S) {
  mt_pace *p = &S->pace;
  if (p->chosen || lua_gc(L, LUA_GCISRUNNING) <= 0 || !lua_checkstack(L, 3)) return;
  lua_pushcfunction(L, probe_mode);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK) p->generational = lua_toboolean(L, -1);
  lua_pop(L, 1);
  mt_pace_limit(S);
}

void mt_pace_start(lua_State *L, mt_lua *S) {
  if (S->own) {
    lua_gc(L, LUA_GCGEN, 0, 0);
    S->pace.generational = true;
    mt_pace_limit(S);
  } else {
    find_mode(L, S);
  }
}

/* ---- collections ---- */

/* Forgets what was long ago, so that one large tensor does not loosen the bounds for ever. */
static void turn_windows(mt_pace *p) {
  p->big[1] = p->big[0];
  p->big[0] = young_big_of(p);
  p->top[1] = p->top[0];
  p->top[0] = 0;
  p->turn = 0;
}

static void turn_young(mt_pace *p) {
  p->big[0] = max64(p->big[0], p->young_big[0]);
  p->young_big[1] = p->young_big[0];
  p->young_big[0] = 0;
}

static void sample_top(mt_lua *S) {
  mt_pace *p = &S->pace;
  int64_t grown = S->rt->held - p->held_full;
  p->top[0] = max64(p->top[0], S->rt->alloc.mem.live - max64(0, grown));
}

static double minor(lua_State *L, mt_lua *S, double start) {
  mt_pace *p = &S->pace;
  lua_gc(L, LUA_GCSTEP, STEP);
  double end = now(), took = end - start;
  p->minor[2] = p->minor[1];
  p->minor[1] = p->minor[0];
  p->minor[0] = took;
  p->nminor++;
  p->total += took;
  if (took > p->longest_minor) p->longest_minor = took;
  if (++p->turn % YOUNG_WINDOW == 0) turn_young(p);
  if (p->turn >= WINDOW) turn_windows(p);
  sample_top(S);
  return end;
}

static double full(lua_State *L, mt_lua *S, double start) {
  mt_pace *p = &S->pace;
  lua_gc(L, LUA_GCCOLLECT);
  double end = now(), took = end - start;
  p->nfull++;
  p->total += took;
  p->full_time = took;
  p->full_end = end;
  if (took > p->longest_full) p->longest_full = took;
  p->held_full = S->rt->held;
  turn_young(p);
  turn_windows(p);
  sample_top(S);
  return end;
}

/* Gate 1: minor collections that are dear must leave most of the time to the script. */
static bool minor_too_soon(const mt_pace *p, double start) {
  double cheapest = p->minor[0];
  for (int i = 1; i < 3; i++)
    if (p->minor[i] < cheapest) cheapest = p->minor[i];
  if (cheapest <= DEAR || p->debt > max64(64 * MB, top_of(p))) return false;
  return cheapest > MINOR_SHARE * (start - p->last_end);
}

/* Gate 2: the same for full ones. */
static bool full_too_soon(const mt_pace *p, double start, int64_t grown) {
  return start - p->full_end < FULL_SHARE * p->full_time && grown <= max64(256 * MB, top_of(p));
}

static void after_full(mt_lua *S, int64_t before, int64_t grown) {
  mt_pace *p = &S->pace;
  if (before - S->rt->held < grown / 2) {
    p->m = p->m < 4 ? 2 * p->m : 8;
  } else {
    p->m = 1;
    p->a = p->a < p->amax / 2 ? 2 * p->a : p->amax;
  }
  p->calm = 0;
}

static void collect_generational(lua_State *L, mt_lua *S) {
  mt_pace *p = &S->pace;
  double start = now();
  if (minor_too_soon(p, start)) {
    p->limit = p->debt + p->a / 4; /* look at the clock again a little later */
    return;
  }
  double end = minor(L, S, start);
  int64_t held = S->rt->held, grown = held - p->held_full;
  double slack = (double)max64(p->floor, (int64_t)(p->f * (double)top_of(p))) * p->m;
  if ((double)grown > slack && grown > 2 * big_of(p) && !full_too_soon(p, end, grown)) {
    end = full(L, S, end);
    after_full(S, held, grown);
  } else if (++p->calm >= 1000) {
    p->calm = 0;
    p->a = max64(p->a / 2, p->a0);
  }
  p->last_end = end;
  p->debt = 0;
  mt_pace_limit(S);
}

static void collect_incremental(lua_State *L, mt_lua *S) {
  mt_pace *p = &S->pace;
  double start = now();
  if (full_too_soon(p, start, p->debt)) {
    p->limit = p->debt + p->a / 4;
    return;
  }
  p->last_end = full(L, S, start);
  p->debt = 0;
  mt_pace_limit(S);
}

void mt_pace_collect(lua_State *L, mt_lua *S) {
  mt_pace *p = &S->pace;
  if (lua_gc(L, LUA_GCISRUNNING) <= 0) { /* stopped by the script, or inside a finalizer */
    p->limit = p->debt + p->a;
    return;
  }
  mt_autograd_drain(L, S);
  if ((p->nminor + p->nfull) % 1000 == 999) find_mode(L, S);
  if (p->generational) {
    collect_generational(L, S);
  } else {
    collect_incremental(L, S);
  }
}

void mt_pace_full(lua_State *L, mt_lua *S) {
  mt_pace *p = &S->pace;
  mt_autograd_drain(L, S);
  p->last_end = full(L, S, now());
  p->debt = 0;
  mt_pace_limit(S);
}

bool moth_lua_step(lua_State *L, int microseconds) {
  mt_lua *S = mt_lua_of(L);
  double end = now() + 1e-6 * microseconds;
  bool done = false;
  mt_autograd_drain(L, S);
  if (S->pace.generational) {
    S->pace.last_end = minor(L, S, now());
    done = true;
  } else {
    do done = lua_gc(L, LUA_GCSTEP, 0) != 0;
    while (!done && now() < end);
  }
  if (done) S->pace.debt = 0;
  mt_pace_limit(S);
  return done;
}

/* ---- moth.gc ---- */

static void set_bytes(lua_State *L, const char *name, int64_t *out) {
  if (lua_getfield(L, 1, name) != LUA_TNIL) {
    if (lua_type(L, -1) != LUA_TNUMBER || lua_tonumber(L, -1) < 1 || lua_tonumber(L, -1) > 1e15)
      mt_error_throw(L, "bad argument '%s' to gc: expected a number of bytes", name);
    *out = (int64_t)lua_tonumber(L, -1);
  }
  lua_pop(L, 1);
}

static void set_share(lua_State *L, const char *name, double *out) {
  if (lua_getfield(L, 1, name) != LUA_TNIL) {
    double v = lua_tonumber(L, -1);
    if (lua_type(L, -1) != LUA_TNUMBER || !(v > 0 && v <= 10))
      mt_error_throw(L, "bad argument '%s' to gc: expected a share above 0", name);
    *out = v;
  }
  lua_pop(L, 1);
}

static void set_mode(lua_State *L, mt_lua *S) {
  if (lua_getfield(L, 1, "mode") != LUA_TNIL) {
    const char *mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    bool generational = strcmp(mode, "generational") == 0;
    if (!generational && strcmp(mode, "incremental") != 0)
      mt_error_throw(L, "bad argument 'mode' to gc: expected 'generational' or 'incremental'");
    if (generational) {
      lua_gc(L, LUA_GCGEN, 0, 0);
    } else {
      lua_gc(L, LUA_GCINC, 0, 0, 0);
    }
    S->pace.generational = generational;
    S->pace.chosen = true;
  }
  lua_pop(L, 1);
  if (lua_getfield(L, 1, "handles") != LUA_TNIL) {
    if (lua_type(L, -1) != LUA_TSTRING || strcmp(lua_tostring(L, -1), "finalizer") != 0)
      mt_error_throw(L, "bad argument 'handles' to gc: expected 'finalizer'");
    S->finalizers = true;
    mt_handle_use_finalizers(L);
  }
  lua_pop(L, 1);
}

static void field(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}
static void count(lua_State *L, const char *name, int64_t value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, name);
}

static int report(lua_State *L, mt_lua *S) {
  mt_pace *p = &S->pace;
  lua_createtable(L, 0, 20);
  lua_pushstring(L, p->generational ? "generational" : "incremental");
  lua_setfield(L, -2, "mode");
  lua_pushstring(L, S->finalizers ? "finalizer" : "allocator");
  lua_setfield(L, -2, "handles");
  count(L, "alive", p->handles);
  count(L, "debt", p->debt);
  count(L, "limit", p->limit);
  count(L, "held", S->rt->held);
  count(L, "live", S->rt->alloc.mem.live);
  count(L, "top", top_of(p));
  count(L, "big", big_of(p));
  count(L, "minor", p->nminor);
  count(L, "full", p->nfull);
  count(L, "young", p->a);
  count(L, "per_handle", p->per_handle);
  count(L, "floor", p->floor);
  field(L, "minor_share", p->r);
  field(L, "full_share", p->f);
  field(L, "seconds", p->total);
  field(L, "longest_minor", p->longest_minor);
  field(L, "longest_full", p->longest_full);
  return 1;
}

/* moth.gc{young=, young_max=, per_handle=, floor=, minor_share=, full_share=, mode=, handles=}
 * sets constants; both forms report them with counters and pauses in seconds. */
int mt_pace_gc(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_pace *p = &S->pace;
  lua_settop(L, 1);
  if (lua_istable(L, 1)) {
    set_bytes(L, "young", &p->a0);
    set_bytes(L, "young_max", &p->amax);
    set_bytes(L, "per_handle", &p->per_handle);
    set_bytes(L, "floor", &p->floor);
    set_share(L, "minor_share", &p->r);
    set_share(L, "full_share", &p->f);
    set_mode(L, S);
    p->amax = max64(p->amax, p->a0);
    p->a = p->a0;
    mt_pace_limit(S);
  } else if (!lua_isnil(L, 1)) {
    mt_error_throw(L, "bad argument #1 to gc: expected a table, got %s", luaL_typename(L, 1));
  }
  return report(L, S);
}
