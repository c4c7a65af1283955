/* io.c - files of tensors for scripts.
 *
 * What a call gathers (names, tensors, texts) belongs to a bundle inside a userdata with a __gc, so
 * that an error on the way, in a script's __pairs or for lack of memory, leaks nothing. */
#include "io.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../runtime/io/idx.h"
#include "../runtime/io/safetensors.h"
#include "help.h"
#include "library.h"
#include "read.h"

static const char bundle_type[] = "moth.bundle";

static int collect_bundle(lua_State *L) {
  mt_bundle *b = lua_touserdata(L, 1);
  if (b && b->rt) mt_bundle_free(b);
  return 0;
}

static mt_bundle *new_bundle(lua_State *L, mt_lua *S) {
  mt_bundle *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (mt_bundle){.rt = S->rt};
  if (luaL_newmetatable(L, bundle_type)) {
    lua_pushcfunction(L, collect_bundle);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return b;
}

/* ---- arguments ---- */

static const char *check_path(lua_State *L, mt_lua *S, int idx, const char *func) {
  size_t n;
  if (lua_type(L, idx) != LUA_TSTRING)
    mt_error_raise(L, S, mt_error_arg(L, S, idx, "path", func, "a file name"));
  const char *path = lua_tolstring(L, idx, &n);
  if (strlen(path) != n) mt_error_throw(L, "bad argument 'path' to %s: a zero byte in it", func);
  return path;
}

typedef void (*visitor)(lua_State *L, mt_lua *S, mt_bundle *b);

/* Calls `visit` with each key and value on top of the stack, as pairs() would. */
static void each_pair(lua_State *L, mt_lua *S, int table, mt_bundle *b, visitor visit) {
  if (luaL_getmetafield(L, table, "__pairs") == LUA_TNIL) {
    lua_pushnil(L);
    while (lua_next(L, table)) {
      visit(L, S, b);
      lua_pop(L, 1);
    }
    return;
  }
  lua_pushvalue(L, table);
  lua_call(L, 1, 3);
  int iterate = lua_gettop(L) - 2;
  for (;;) {
    lua_pushvalue(L, iterate);
    lua_pushvalue(L, iterate + 1);
    lua_pushvalue(L, iterate + 2);
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) break;
    visit(L, S, b);
    lua_pop(L, 1);
    lua_replace(L, iterate + 2);
  }
  lua_settop(L, iterate - 1);
}

static const char *check_key(lua_State *L, int idx, const char *what) {
  size_t n;
  if (lua_type(L, idx) != LUA_TSTRING)
    mt_error_throw(L, "bad argument '%s' to save: expected names as keys, got a %s", what,
                   luaL_typename(L, idx));
  const char *key = lua_tolstring(L, idx, &n);
  if (strlen(key) != n)
    mt_error_throw(L, "bad argument '%s' to save: a zero byte in the name '%s'", what, key);
  return key;
}

static void take_tensor(lua_State *L, mt_lua *S, mt_bundle *b) {
  const char *name = check_key(L, -2, "tensors");
  moth_tensor *t = mt_handle_tensor(L, S, -1);
  if (!t)
    mt_error_throw(L, "bad argument 'tensors' to save: expected a tensor at '%s', got %s", name,
                   mt_error_type(L, S, -1));
  int status = mt_bundle_add(b, name, t);
  if (status) mt_error_raise(L, S, status);
}

static void take_note(lua_State *L, mt_lua *S, mt_bundle *b) {
  size_t n;
  const char *key = check_key(L, -2, "metadata");
  int type = lua_type(L, -1);
  if (type != LUA_TSTRING && type != LUA_TNUMBER)
    mt_error_throw(L, "bad argument 'metadata' to save: expected text at '%s', got a %s", key,
                   luaL_typename(L, -1));
  lua_pushvalue(L, -1); /* tostring on a copy: the table keeps its number */
  const char *text = lua_tolstring(L, -1, &n);
  if (strlen(text) != n)
    mt_error_throw(L, "bad argument 'metadata' to save: a zero byte in the text at '%s'", key);
  int status = mt_bundle_note(b, key, text);
  if (status) mt_error_raise(L, S, status);
  lua_pop(L, 1);
}

static void read_options(lua_State *L, mt_lua *S, int idx, mt_bundle *b) {
  if (lua_isnil(L, idx)) return;
  if (lua_type(L, idx) != LUA_TTABLE)
    mt_error_raise(L, S, mt_error_arg(L, S, idx, "options", "save", "a table of options"));
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "metadata") != 0)
      mt_error_throw(L, "save has no such argument (there are: metadata)");
    if (lua_type(L, -1) != LUA_TTABLE)
      mt_error_raise(L, S, mt_error_arg(L, S, lua_gettop(L), "metadata", "save", "a table"));
    each_pair(L, S, lua_gettop(L), b, take_note);
    lua_pop(L, 1);
  }
}

/* A plain table has no order of its own: sorted, the same tensors give the same bytes. */
static int compare_names(const void *a, const void *b) {
  return strcmp(((const mt_named *)a)->name, ((const mt_named *)b)->name);
}

static int compare_notes(const void *a, const void *b) {
  return strcmp(((const mt_note *)a)->key, ((const mt_note *)b)->key);
}

/* ---- functions ---- */

static int save(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 3);
  if (lua_type(L, 1) != LUA_TTABLE)
    return mt_error_raise(L, S,
                          mt_error_arg(L, S, 1, "tensors", "save", "a table of named tensors"));
  const char *path = check_path(L, S, 2, "save");
  mt_bundle *b = new_bundle(L, S);
  bool ordered = luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL;
  lua_settop(L, 4);
  each_pair(L, S, 1, b, take_tensor);
  read_options(L, S, 3, b);
  if (!ordered && b->nitem > 1) qsort(b->item, b->nitem, sizeof *b->item, compare_names);
  if (b->nnote > 1) qsort(b->note, b->nnote, sizeof *b->note, compare_notes);
  int status = mt_safetensors_save(b, path);
  mt_bundle_free(b);
  return status ? mt_error_raise(L, S, status) : 0;
}

/* A table that keeps the file's order, when the standard library has one. */
static void push_table(lua_State *L) {
  if (!mt_library_has(L, "moth.ordered")) {
    lua_newtable(L);
    return;
  }
  mt_library_require(L, "moth.ordered");
  lua_getfield(L, -1, "new");
  lua_remove(L, -2);
  lua_call(L, 0, 1);
}

static int load(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_settop(L, 1);
  const char *path = check_path(L, S, 1, "load");
  mt_bundle *b = new_bundle(L, S);
  push_table(L);
  int status = mt_safetensors_load(b, path);
  if (status) return mt_error_raise(L, S, status);
  for (size_t i = 0; i < b->nitem; i++) {
    mt_handle *h = mt_handle_new(L, S);
    mt_handle_fill(S, h, mt_tensor_retain(b->item[i].t));
    lua_setfield(L, 3, b->item[i].name);
  }
  lua_newtable(L);
  for (size_t i = 0; i < b->nnote; i++) {
    lua_pushstring(L, b->note[i].value);
    lua_setfield(L, -2, b->note[i].key);
  }
  mt_bundle_free(b);
  return 2;
}

static int read_idx(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  moth_tensor *t;
  lua_settop(L, 1);
  const char *path = check_path(L, S, 1, "read_idx");
  mt_handle *h = mt_handle_new(L, S);
  int status = mt_idx_read(&t, S->rt, path);
  if (status) return mt_error_raise(L, S, status);
  mt_handle_fill(S, h, t);
  return 1;
}

static int is_terminal(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  int64_t fd;
  if (!mt_read_int(L, 1, &fd) || fd < 0 || fd > 65535)
    return mt_error_raise(L, S, mt_error_arg(L, S, 1, "fd", "isatty", "a file descriptor"));
  lua_pushboolean(L, isatty((int)fd));
  return 1;
}

static int exists(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  lua_pushboolean(L, access(check_path(L, S, 1, "exists"), F_OK) == 0);
  return 1;
}

static int wall_clock(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (lua_Number)t.tv_sec + (lua_Number)t.tv_nsec * 1e-9);
  return 1;
}

static const mt_luafn functions[] = {
    {"save", save, "save(table tensors, str path, *, table? metadata=nil)",
     "Writes named tensors, such as a state dict, to a safetensors file. The file appears whole or "
     "not at all. metadata: texts by name."},
    {"load", load, "load(str path) -> table tensors, table metadata",
     "The named tensors of a safetensors file, in the file's order, and its texts."},
    {NULL, NULL, NULL, NULL}};

static const mt_luafn io_functions[] = {
    {"read_idx", read_idx, "read_idx(str path) -> tensor",
     "The tensor of an IDX file (MNIST and its relatives), plain or gzipped."},
    {"isatty", is_terminal, "isatty(int fd) -> bool",
     "Whether a file descriptor is a terminal: 0 input, 1 output, 2 errors."},
    {"exists", exists, "exists(str path) -> bool", "Whether there is a file of that name."},
    {"clock", wall_clock, "clock() -> float", "Seconds of a clock that never goes back."},
    {NULL, NULL, NULL, NULL}};

void mt_io_open(lua_State *L, mt_lua *S) {
  (void)S;
  mt_help_setfuncs(L, functions, "moth.");
  lua_newtable(L);
  mt_help_setfuncs(L, io_functions, "moth.io.");
  lua_setfield(L, -2, "io");
}
