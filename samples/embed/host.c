/* host.c - Moth inside a C program: every promise of the two headers, tried once.
 *
 *     cc -Iruntime -Ilua $(pkg-config --cflags lua5.4) samples/embed/host.c build/libmoth.a \
 *        -llua5.4 -ljansson -lz -lm -ldl -pthread -o build/host && build/host
 *
 * It hands a C array to Lua as a tensor and reads the answer where it lies, both without a copy;
 * goes on after a script error, after running out of memory and after an interrupt from another
 * thread; runs two states on two threads; and leaks nothing. Exit status 0 means all of it held. */
#include <lauxlib.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "moth.h"
#include "moth_lua.h"

/* Ends the program with the line and the expression that did not hold. */
#define CHECK(ok)                                                \
  do {                                                           \
    if (!(ok)) {                                                 \
      fprintf(stderr, "host.c:%d: failed: %s\n", __LINE__, #ok); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

/* Runs code in a protected call; the message of an error stays on the stack. */
static int run(lua_State *L, const char *code) {
  int status = luaL_loadstring(L, code);
  return status == LUA_OK ? lua_pcall(L, 0, 0, 0) : status;
}

static void must_run(lua_State *L, const char *code) {
  if (run(L, code) == LUA_OK) return;
  fprintf(stderr, "host.c: %s\n", lua_tostring(L, -1));
  exit(1);
}

/* ---- tensors in and out, nothing copied ---- */

static void count_release(void *ud) { ++*(int *)ud; }

/* What can raise runs protected: memory may end while a handle is made. */
static int push_tensor(lua_State *L) {
  moth_lua_push(L, lua_touserdata(L, 1));
  return 1;
}

static void share_memory(lua_State *L) {
  float samples[6] = {1, 2, 3, 4, 5, 6};
  int64_t size[2] = {2, 3};
  int released = 0;
  moth_tensor *x;
  must_run(L, "function scale(x) x:mul_(10); return x:sum(2) end");

  CHECK(moth_wrap(&x, moth_lua_runtime(L), samples, MOTH_F32, 2, size, NULL, count_release,
                  &released) == MOTH_OK);
  lua_getglobal(L, "scale");
  lua_pushcfunction(L, push_tensor);
  lua_pushlightuserdata(L, x);
  CHECK(lua_pcall(L, 1, 1, 0) == LUA_OK);
  moth_release(x); /* the Lua value keeps it now */
  CHECK(lua_pcall(L, 1, 1, 0) == LUA_OK);

  CHECK(samples[0] == 10 && samples[5] == 60); /* Lua wrote into our array */
  moth_tensor *y = moth_lua_to(L, -1);
  CHECK(y && moth_tensor_ndim(y) == 1 && moth_tensor_sizes(y)[0] == 2);
  const float *sums = moth_tensor_data(y); /* valid while y is on the stack */
  CHECK(sums[0] == 60 && sums[1] == 150);
  lua_pop(L, 1);
  lua_gc(L, LUA_GCCOLLECT, 0);
  CHECK(released == 1); /* nobody uses `samples` any more: it may go */
  puts("memory is shared both ways");
}

/* ---- what goes wrong is a message, and the state goes on ---- */

static void survive_error(lua_State *L) {
  CHECK(run(L, "return moth.zeros(2, 3) + moth.zeros(4)") != LUA_OK);
  printf("an error is a message: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  must_run(L, "assert((moth.ones(2, 3) * 2):sum():item() == 12)");
}

static void survive_memory(lua_State *L) {
  moth_runtime *rt = moth_lua_runtime(L);
  moth_memory_set_limit(rt, 1 << 20);
  CHECK(run(L, "kept = {}; for i = 1, 1000 do kept[i] = moth.zeros(1000) end") != LUA_OK);
  printf("memory ends in a message: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  /* what the script dropped is found before an allocation fails */
  must_run(L, "kept = nil; for i = 1, 1000 do local x = moth.zeros(1000) end");
  moth_memory_set_limit(rt, 0);
}

static void *interrupt_soon(void *rt) {
  struct timespec pause = {0, 50000000};
  nanosleep(&pause, NULL);
  moth_interrupt(rt);
  return NULL;
}

static void survive_interrupt(lua_State *L) {
  moth_runtime *rt = moth_lua_runtime(L);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, interrupt_soon, rt) == 0);
  CHECK(run(L,
            "local x = moth.zeros(100)\n"
            "while true do pcall(function() while true do x = x + 1 end end) end") != LUA_OK);
  pthread_join(thread, NULL);
  printf("an interrupt ends any script: %s\n", lua_tostring(L, -1));
  lua_pop(L, 1);
  moth_lua_resume(L);
  must_run(L, "assert(moth.ones(3):sum():item() == 3)");
}

/* ---- two states on two threads ---- */

static const char training[] =
    "local moth = require 'moth'\n"
    "moth.manual_seed(7)\n"
    "local x, w = moth.randn(64, 3), moth.zeros(3, 1):requires_grad_()\n"
    "local y = x:matmul(moth.tensor{{1.0}, {-2.0}, {0.5}})\n"
    "local loss\n"
    "for step = 1, 100 do\n"
    "  loss = (x:matmul(w) - y):pow(2):mean()\n"
    "  loss:backward()\n"
    "  moth.no_grad(function() w:sub_(w.grad * 0.1) end)\n"
    "  w.grad = nil\n"
    "end\n"
    "return loss:item()\n";

static void *train(void *result) {
  lua_State *L = moth_lua_open(NULL);
  if (!L) return NULL;
  if (luaL_dostring(L, training) == LUA_OK) {
    *(double *)result = lua_tonumber(L, -1);
  } else {
    fprintf(stderr, "host.c: %s\n", lua_tostring(L, -1));
  }
  moth_lua_close(L);
  return NULL;
}

static void train_on_two_threads(void) {
  double loss[2] = {NAN, NAN};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&thread[i], NULL, train, &loss[i]) == 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  CHECK(loss[0] < 1e-3 && loss[0] == loss[1]);
  printf("two states on two threads reach the same loss: %g\n", loss[0]);
}

/* ---- the runtime without Lua ---- */

static void plain_runtime(void) {
  moth_runtime *rt = moth_open(NULL);
  float data[3] = {0, 1, 2};
  int64_t size = 3;
  moth_tensor *x, *y;
  int n = 1;
  CHECK(rt != NULL);
  CHECK(moth_wrap(&x, rt, data, MOTH_F32, 1, &size, NULL, NULL, NULL) == MOTH_OK);
  CHECK(moth_set_requires_grad(x, true) == MOTH_OK);
  CHECK(moth_call(rt, &y, &n, "exp", "t", x) == MOTH_OK && n == 1);
  moth_tensor *sum;
  CHECK(moth_call(rt, &sum, &n, "sum", "t", y) == MOTH_OK);
  CHECK(moth_backward(sum, NULL, false, false) == MOTH_OK);
  const float *grad = moth_tensor_data(moth_grad(x));
  CHECK(fabs(grad[2] - exp(2)) < 1e-5); /* the gradient of exp is exp */
  moth_tensor *none;
  CHECK(moth_call(rt, &none, &n, "no such operation", "t", x) != MOTH_OK);
  printf("its errors are values: %s\n", moth_error(rt));
  moth_release(sum);
  moth_release(y);
  moth_release(x);
  moth_memory memory;
  moth_memory_stats(rt, &memory);
  CHECK(memory.live == 0);
  moth_close(rt);
  puts("the C interface alone computes gradients");
}

int main(void) {
  lua_State *L = moth_lua_open(NULL);
  CHECK(L != NULL);
  must_run(L, "moth = require 'moth'");
  share_memory(L);
  survive_error(L);
  survive_memory(L);
  survive_interrupt(L);
  moth_lua_close(L);
  train_on_two_threads();
  plain_runtime();
  return 0;
}
