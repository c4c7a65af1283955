/* test_lua.c - Moth in Lua states, from C: own and foreign states, threads, interruption, memory
 * that runs out at any allocation, closing with everything alive.
 *
 * Allocators here count: a state that was closed must have given everything back. */
#include <check.h>
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "moth_lua.h"

Suite *lua_suite(void);

/* ---- an allocator that counts, and fails when told ---- */

typedef struct memory {
  long blocks, requests;
  long fail_at; /* the request that fails and all after it, 0: none */
} memory;

static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize) {
  memory *m = ud;
  (void)osize;
  if (nsize == 0) {
    if (ptr) m->blocks--;
    free(ptr);
    return NULL;
  }
  m->requests++;
  if (m->fail_at && m->requests >= m->fail_at) return NULL;
  void *p = realloc(ptr, nsize);
  if (p && !ptr) m->blocks++;
  return p;
}

static lua_State *own_state(memory *m) {
  moth_options options = {.alloc = allocate, .alloc_ud = m, .threads = 1};
  return moth_lua_open(&options);
}

static void run(lua_State *L, const char *code) {
  if (luaL_dostring(L, code) != LUA_OK) ck_abort_msg("%s", lua_tostring(L, -1));
}

static const char *error_of(lua_State *L, const char *code) {
  ck_assert_int_ne(luaL_dostring(L, code), LUA_OK);
  const char *text = lua_tostring(L, -1);
  return text ? text : "(no string)";
}

/* What a state may hold when it is closed. */
static const char live_script[] =
    "local moth = require 'moth'\n"
    "local F = moth.autograd.Function 'F'\n"
    "function F.forward(ctx, x) local y = x * 2; ctx:save_for_backward(x, y); return y end\n"
    "function F.backward(ctx, g) return g * ctx.saved_tensors[1] end\n"
    "x = moth.ones(3, {requires_grad = true})\n"
    "y = F.apply(x * 2) + 1\n"
    "y:register_hook(function(g) return g * x end)\n"
    "x:register_hook(function(g) last = g end)\n"
    "z = y:sum()\n"
    "z:backward(nil, true)\n"
    "big = moth.zeros(100000)\n"
    "co = coroutine.create(function() local t = y * 2; coroutine.yield(t); return t end)\n"
    "coroutine.resume(co)\n"
    "obj = setmetatable({}, {__gc = function() seen = (y + big[{{1, 3}}]):sum():item() end})\n";

/* ---- tests ---- */

START_TEST(own_state_gives_everything_back) {
  memory m = {0};
  lua_State *L = own_state(&m);
  ck_assert_ptr_nonnull(L);
  run(L, live_script);
  moth_lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

START_TEST(foreign_state_gives_everything_back) {
  memory m = {0};
  lua_State *L = lua_newstate(allocate, &m);
  luaL_openlibs(L);
  ck_assert_ptr_null(moth_lua_runtime(L));
  luaL_requiref(L, "moth", luaopen_moth, 0);
  lua_pop(L, 1);
  run(L, live_script);
  run(L, "assert(require 'moth'.gc().mode == 'incremental')");
  lua_gc(L, LUA_GCGEN, 0, 0);
  run(L,
      "local moth = require 'moth' for i = 1, 200000 do local _ = moth.zeros(64) end\n"
      "assert(moth.gc{mode = 'generational'}.mode == 'generational')");
  lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

START_TEST(module_can_be_opened_from_a_coroutine) {
  memory m = {0};
  lua_State *L = lua_newstate(allocate, &m);
  luaL_openlibs(L);
  lua_pushcfunction(L, luaopen_moth);
  lua_setglobal(L, "open");
  run(L,
      "local co = coroutine.create(open); local _, m = coroutine.resume(co)\n"
      "package.loaded.moth = m; assert(open() == m); co = nil; collectgarbage()\n"
      "x = m.ones(3) + 1");
  lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

START_TEST(host_that_keeps_its_allocator_gets_finalizers) {
  memory m = {0};
  lua_State *L = lua_newstate(allocate, &m);
  luaL_openlibs(L);
  lua_pushliteral(L, "finalizer");
  lua_setfield(L, LUA_REGISTRYINDEX, "moth.handles");
  luaL_requiref(L, "moth", luaopen_moth, 0);
  void *ud;
  ck_assert_ptr_eq(lua_getallocf(L, &ud), allocate);
  ck_assert_ptr_eq(ud, &m);
  run(L, live_script);
  run(L,
      "local moth = require 'moth'; assert(moth.gc().handles == 'finalizer')\n"
      "for i = 1, 20000 do local _ = moth.zeros(1000) end\n"
      "late = setmetatable({}, {__gc = function() pcall(moth.ones, 3) end})");
  lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

START_TEST(host_that_replaces_the_allocator_is_noticed) {
  memory m = {0};
  lua_State *L = lua_newstate(allocate, &m);
  luaL_openlibs(L);
  luaL_requiref(L, "moth", luaopen_moth, 0);
  lua_setglobal(L, "moth");
  run(L, "x = moth.ones(3)");
  lua_setallocf(L, allocate, &m); /* without ours in between: the record stays behind */
  run(L,
      "for i = 1, 20000 do local _ = x + moth.zeros(3) end\n"
      "assert(moth.gc().handles == 'finalizer')\n"
      "collectgarbage() assert(moth.gc().alive < 100)");
  lua_close(L);
  ck_assert_int_eq(m.blocks, 0); /* of Lua's own */
}
END_TEST

START_TEST(tensors_go_in_and_out) {
  memory m = {0};
  lua_State *L = own_state(&m);
  moth_runtime *rt = moth_lua_runtime(L);
  moth_tensor *t, *back;
  int64_t size[2] = {2, 3};
  ck_assert_int_eq(moth_empty(&t, rt, MOTH_F32, 2, size), MOTH_OK);
  for (int i = 0; i < 6; i++) ((float *)moth_tensor_data(t))[i] = (float)i;
  moth_lua_push(L, t);
  moth_release(t);
  lua_setglobal(L, "t");
  run(L, "u = t + 1; assert(u[{2, 3}]:item() == 6)");
  lua_getglobal(L, "u");
  back = moth_lua_to(L, -1);
  ck_assert_ptr_nonnull(back);
  ck_assert_ptr_eq(moth_lua_check(L, -1), back);
  moth_retain(back);
  lua_pushnumber(L, 1);
  ck_assert_ptr_null(moth_lua_to(L, -1));
  ck_assert_ptr_null(moth_lua_to(L, 100));
  run(L, "u:free()");
  ck_assert_ptr_null(moth_lua_to(L, -2));
  moth_lua_close(L); /* what the host retained stays */
  ck_assert(((float *)moth_tensor_data(back))[5] == 6);
  moth_release(back);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

START_TEST(graph_that_outlives_its_state_says_so) {
  memory m = {0};
  lua_State *L = own_state(&m);
  run(L, live_script);
  lua_getglobal(L, "z");
  moth_tensor *z = moth_lua_to(L, -1);
  moth_retain(z);
  moth_lua_close(L);
  ck_assert_int_ne(moth_backward(z, NULL, true, false), MOTH_OK);
  moth_release(z);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

/* ---- interruption ---- */

typedef struct stopper {
  lua_State *L;
  moth_runtime *rt;
  int delay; /* microseconds */
} stopper;

static void *stop_runtime(void *arg) {
  stopper *s = arg;
  usleep((unsigned)s->delay);
  moth_interrupt(s->rt);
  return NULL;
}

static void interrupted(const char *code, bool hook) {
  memory m = {0};
  lua_State *L = own_state(&m);
  stopper s = {L, moth_lua_runtime(L), 50000};
  pthread_t thread;
  lua_pushstring(L, code);
  if (hook) {
    moth_lua_interrupt(L);
  } else {
    pthread_create(&thread, NULL, stop_runtime, &s);
  }
  const char *text = error_of(L, code);
  ck_assert_msg(strstr(text, "interrupted") != NULL, "%s", text);
  if (!hook) pthread_join(thread, NULL);
  ck_assert_int_ne(luaL_dostring(L, "return require 'moth'.ones(2)"), LUA_OK);
  moth_lua_resume(L);
  run(L, "local moth = require 'moth'; assert((moth.ones(2) + 1):sum():item() == 4)");
  run(L, "local n = 0; for i = 1, 100000 do n = n + 1 end; assert(n == 100000)");
  moth_lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}

START_TEST(interrupt_stops_operations) {
  interrupted("local moth = require 'moth'; local x = moth.ones(10); while true do x = x + 1 end",
              false);
}
END_TEST

START_TEST(interrupt_is_not_swallowed_by_pcall) {
  interrupted(
      "local moth = require 'moth'; local x = moth.ones(10)\n"
      "while true do pcall(function() while true do x = x + 1 end end) end",
      false);
}
END_TEST

START_TEST(interrupt_stops_a_coroutine_that_catches_everything) {
  interrupted(
      "local moth = require 'moth'; local x = moth.ones(10)\n"
      "coroutine.wrap(function()\n"
      "  while true do pcall(function() while true do x = x + 1 end end) end\n"
      "end)()",
      false);
}
END_TEST

START_TEST(hook_stops_a_loop_without_operations) {
  interrupted("while true do end", true);
  interrupted("while true do pcall(function() while true do end end) end", true);
}
END_TEST

START_TEST(allocation_stops_a_loop_without_operations) {
  interrupted("while true do local t = {} end", false);
}
END_TEST

/* ---- threads ---- */

static const char work[] =
    "local moth = require 'moth'\n"
    "moth.manual_seed(3)\n"
    "local w = moth.ones(8, {requires_grad = true})\n"
    "for i = 1, 200 do\n"
    "  local loss = ((w * 2 - 1) * w):sum()\n"
    "  loss:backward()\n"
    "  moth.no_grad(function() w:sub_(w.grad * 0.01) end)\n"
    "  w.grad = nil\n"
    "  pcall(function() return w[100] end)\n"
    "end\n"
    "return w[1]:item()";

static void *many_states(void *arg) {
  double *out = arg;
  for (int i = 0; i < 12; i++) {
    memory m = {0};
    lua_State *L = own_state(&m);
    if (!L || luaL_dostring(L, work) != LUA_OK) return NULL;
    *out = lua_tonumber(L, -1);
    moth_lua_close(L);
    if (m.blocks != 0) return NULL;
  }
  return out;
}

START_TEST(states_on_threads_agree) {
  enum {
    N = 8
  };
  pthread_t thread[N];
  double result[N];
  for (int i = 0; i < N; i++) pthread_create(&thread[i], NULL, many_states, &result[i]);
  for (int i = 0; i < N; i++) {
    void *ok;
    pthread_join(thread[i], &ok);
    ck_assert_ptr_nonnull(ok);
    ck_assert(result[i] == result[0]);
  }
}
END_TEST

/* ---- memory that runs out ---- */

START_TEST(every_failing_allocation_leaves_nothing_behind) {
  memory m = {0};
  lua_State *L = own_state(&m);
  run(L, live_script);
  long total = m.requests;
  moth_lua_close(L);
  for (long at = 1; at <= total; at += at < 400 ? 1 : 1 + total / 300) {
    memory f = {.fail_at = at};
    L = own_state(&f);
    if (L) {
      luaL_loadstring(L, live_script);
      lua_pcall(L, 0, 0, 0);
      f.fail_at = 0;
      run(L, "local moth = require 'moth'; assert((moth.ones(2) + 1):sum():item() == 4)");
      moth_lua_close(L);
    }
    ck_assert_msg(f.blocks == 0, "%ld blocks are left when request %ld fails", f.blocks, at);
  }
}
END_TEST

START_TEST(limit_is_kept_by_collecting) {
  memory m = {0};
  moth_options options = {.alloc = allocate, .alloc_ud = &m, .memory_limit = 1 << 20};
  lua_State *L = moth_lua_open(&options);
  run(L,
      "local moth = require 'moth'\n"
      "collectgarbage 'stop'\n"
      "for i = 1, 1000 do local _ = moth.zeros(20000) end\n"
      "local ok, e = pcall(moth.zeros, 1 << 20)\n"
      "assert(not ok and e:find 'out of memory' and e:find '1048576', e)\n"
      "assert(moth.memory_stats().live < 1 << 20)");
  /* in the middle of a backward, where nothing can be repeated as a whole */
  run(L,
      "local moth = require 'moth'\n"
      "local x = moth.ones(20000, {requires_grad = true})\n"
      "for i = 1, 50 do\n"
      "  local _ = moth.zeros(20000); _ = moth.zeros(20000); _ = moth.zeros(20000)\n"
      "  local y = ((x * 2) * x):sum(); y:backward(); x.grad = nil\n"
      "end");
  moth_lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

START_TEST(step_collects_for_a_host) {
  memory m = {0};
  lua_State *L = own_state(&m);
  run(L, "local moth = require 'moth' for i = 1, 100 do local _ = moth.zeros(100) end");
  while (!moth_lua_step(L, 100)) {
  }
  run(L, "assert(require 'moth'.gc().alive < 10)");
  moth_lua_close(L);
  ck_assert_int_eq(m.blocks, 0);
}
END_TEST

Suite *lua_suite(void) {
  Suite *s = suite_create("lua");
  TCase *t = tcase_create("states");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, own_state_gives_everything_back);
  tcase_add_test(t, foreign_state_gives_everything_back);
  tcase_add_test(t, module_can_be_opened_from_a_coroutine);
  tcase_add_test(t, host_that_keeps_its_allocator_gets_finalizers);
  tcase_add_test(t, host_that_replaces_the_allocator_is_noticed);
  tcase_add_test(t, tensors_go_in_and_out);
  tcase_add_test(t, graph_that_outlives_its_state_says_so);
  tcase_add_test(t, interrupt_stops_operations);
  tcase_add_test(t, interrupt_is_not_swallowed_by_pcall);
  tcase_add_test(t, interrupt_stops_a_coroutine_that_catches_everything);
  tcase_add_test(t, hook_stops_a_loop_without_operations);
  tcase_add_test(t, allocation_stops_a_loop_without_operations);
  tcase_add_test(t, states_on_threads_agree);
  tcase_add_test(t, every_failing_allocation_leaves_nothing_behind);
  tcase_add_test(t, limit_is_kept_by_collecting);
  tcase_add_test(t, step_collects_for_a_host);
  suite_add_tcase(s, t);
  return s;
}
