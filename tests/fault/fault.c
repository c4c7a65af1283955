/* fault.c - every allocation fails once.
 *
 * A state is opened with an allocator that refuses the n-th request, n = 1, 2, 3 ..., and runs a
 * script. Whatever n is: opening fails, or the script ends with an error, or it manages without;
 * nothing crashes, and at the end every byte has been given back. Built with -DMT_NOPOOL, so that
 * requests are not served from blocks kept for later.
 *
 * usage: fault SCRIPT [first] [last]. Opening a state takes tens of thousands of requests that are
 * all alike; from the first few hundred on, steps are taken (a prime, other phases each time). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "moth_lua.h"

typedef struct faults {
  long count, fail_at; /* requests so far; which one is refused */
  long blocks;         /* alive */
  long long bytes;
  int refused;
} faults;

static void *allocate(void *ud, void *ptr, size_t osize, size_t nsize) {
  faults *f = ud;
  if (nsize == 0) {
    if (ptr) {
      f->blocks--;
      f->bytes -= (long long)osize;
    }
    free(ptr);
    return NULL;
  }
  /* Lua relies on shrinking; only what needs more memory can fail. */
  if ((!ptr || nsize > osize) && ++f->count == f->fail_at) {
    f->refused++;
    return NULL;
  }
  void *p = realloc(ptr, nsize);
  if (!p) return NULL;
  if (!ptr) f->blocks++;
  f->bytes += (long long)nsize - (ptr ? (long long)osize : 0);
  return p;
}

/* Runs the script once; `opened` tells at which request the state stood open. Returns 0 when it
 * went well, 1 after an error, 2 when the state could not be opened. */
static int run(faults *f, const char *script, long *opened, char *message, size_t size) {
  moth_options options = {.alloc = allocate, .alloc_ud = f, .threads = 1};
  lua_State *L = moth_lua_open(&options);
  message[0] = 0;
  if (!L) return 2;
  if (opened) *opened = f->count;
  int status = luaL_loadfile(L, script);
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  if (status != LUA_OK) {
    const char *text = lua_tostring(L, -1);
    snprintf(message, size, "%s", text ? text : "?");
  }
  moth_lua_close(L);
  return status != LUA_OK;
}

static int check_one(const char *script, long n, int *bad) {
  char message[400];
  faults f = {.fail_at = n};
  int result = run(&f, script, NULL, message, sizeof message);
  if (f.blocks != 0 || f.bytes != 0) {
    printf("request %ld refused: %ld blocks, %lld bytes are left (%s)\n", n, f.blocks, f.bytes,
           message);
    ++*bad;
  }
  if (result == 1 && !strstr(message, "memory")) {
    printf("request %ld refused: the error does not say so: %s\n", n, message);
    ++*bad;
  }
  return f.refused > 0;
}

int main(int argc, char **argv) {
  char message[400];
  faults f = {0};
  long opened = 0;
  int bad = 0, tried = 0;
  if (argc < 2) return 2;
  if (run(&f, argv[1], &opened, message, sizeof message) != 0) {
    printf("without any fault: %s\n", message);
    return 1;
  }
  if (f.blocks != 0 || f.bytes != 0) {
    printf("without any fault: %ld blocks, %lld bytes are left\n", f.blocks, f.bytes);
    return 1;
  }
  long total = f.count, first = argc > 2 ? atol(argv[2]) : 1,
       last = argc > 3 ? atol(argv[3]) : total;
  printf("%ld requests, %ld of them to open the state\n", total, opened);
  for (long n = first; n <= last; n++, tried++) {
    if (argc < 3 && n > 300 && n < opened - 50) n += 96 + n % 7;
    if (argc < 3 && n > opened + 4000) n += 30 + n % 5;
    check_one(argv[1], n, &bad);
  }
  printf("%d passed, %d failed\n", tried - bad, bad);
  return bad ? 1 : 0;
}
