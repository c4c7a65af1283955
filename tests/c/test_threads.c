/* test_threads.c - several Lua states in one process, each on a thread of its own.
 *
 * The threads do the same with the same seed, so they must come to the same numbers; the thread
 * sanitizer sees what they share. */
#include <check.h>
#include <lauxlib.h>
#include <pthread.h>
#include <stdlib.h>

#include "../../lua/moth_lua.h"

Suite *threads_suite(void);

enum {
  THREADS = 8,
  ROUNDS = 25
};

static const char script[] =
    "local moth = require 'moth'\n"
    "moth.manual_seed(3)\n"
    "local x, y = moth.randn(16, 8), moth.randn(16, 1)\n"
    "local w = (moth.randn(8, 4) * 0.3):requires_grad_()\n"
    "local v = (moth.randn(4, 1) * 0.3):requires_grad_()\n"
    "local loss\n"
    "for i = 1, 30 do\n"
    "  pcall(function() return x[{ 1, 2, 3 }] end)\n"
    "  pcall(moth.add, x, 'x')\n"
    "  local d = x:matmul(w):tanh():matmul(v) - y\n"
    "  loss = (d * d):mean()\n"
    "  loss:backward()\n"
    "  moth.no_grad(function()\n"
    "    for _, p in ipairs { w, v } do p:sub_(p.grad * 0.1); p.grad = nil end\n"
    "  end)\n"
    "end\n"
    "return loss:item()\n";

/* The loss, NaN when something failed. */
static double run_state(int threads) {
  double loss = 0.0 / 0.0;
  moth_options options = {.threads = threads};
  lua_State *L = moth_lua_open(&options);
  if (!L) return loss;
  if (luaL_loadstring(L, script) == LUA_OK && lua_pcall(L, 0, 1, 0) == LUA_OK)
    loss = lua_tonumber(L, -1);
  moth_lua_close(L);
  return loss;
}

static void *train(void *arg) {
  double *loss = arg;
  *loss = run_state(2);
  return NULL;
}

static void *open_and_close(void *arg) {
  int *opened = arg;
  for (int i = 0; i < ROUNDS; i++) {
    lua_State *L = moth_lua_open(NULL);
    if (!L) continue;
    if (luaL_dostring(L, "return require('moth').ones(3):sum():item()") == LUA_OK &&
        lua_tonumber(L, -1) == 3)
      ++*opened;
    moth_lua_close(L);
  }
  return NULL;
}

START_TEST(same_numbers_in_every_thread) {
  pthread_t thread[THREADS];
  double loss[THREADS];
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, train, &loss[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  double alone = run_state(1);
  ck_assert(alone == alone);
  for (int i = 0; i < THREADS; i++) ck_assert_double_eq(loss[i], alone);
}
END_TEST

START_TEST(states_come_and_go) {
  pthread_t thread[THREADS];
  int opened[THREADS] = {0};
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&thread[i], NULL, open_and_close, &opened[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS; i++) ck_assert_int_eq(opened[i], ROUNDS);
}
END_TEST

Suite *threads_suite(void) {
  Suite *s = suite_create("threads");
  TCase *t = tcase_create("threads");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, same_numbers_in_every_thread);
  tcase_add_test(t, states_come_and_go);
  suite_add_tcase(s, t);
  return s;
}
