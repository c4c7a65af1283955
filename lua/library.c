/* library.c - see library.h. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key_extended; /* registry: true when moth.tensor was loaded */

static const char *directory(void) {
  const char *dir = getenv("MOTH_STDLIB");
  return dir && dir[0] ? dir : NULL;
}

static const struct mt_stdlib_file *find(const char *name) {
  for (const struct mt_stdlib_file *f = mt_stdlib; f->name; f++)
    if (strcmp(f->name, name) == 0) return f;
  return NULL;
}

/* ---- files, for those who work on the library ---- */

/* "moth.nn" to "DIR/nn" .. tail. */
static void push_path(lua_State *L, const char *dir, const char *name, const char *tail) {
  luaL_gsub(L, name + 5, ".", "/");
  lua_pushfstring(L, "%s/%s%s", dir, lua_tostring(L, -1), tail);
  lua_remove(L, -2);
}

static bool readable(const char *path) {
  FILE *f = fopen(path, "r");
  if (f) fclose(f);
  return f != NULL;
}

/* Pushes the path of the module's file; false, and nothing pushed, if there is none. */
static bool push_file(lua_State *L, const char *dir, const char *name) {
  static const char *const tails[] = {".lua", "/init.lua"};
  for (int i = 0; i < 2; i++) {
    push_path(L, dir, name, tails[i]);
    if (readable(lua_tostring(L, -1))) return true;
    lua_pop(L, 1);
  }
  return false;
}

/* The file's size, negative if it cannot be read. */
static long file_size(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return -1;
  long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  fclose(f);
  return size;
}

/* Compiles the file whose path is on top under the library's name for it. Lua may throw only while
 * no FILE is open. */
static int load_file(lua_State *L, const char *dir) {
  const char *path = lua_tostring(L, -1);
  long size = file_size(path);
  if (size < 0) return luaL_error(L, "cannot read %s", path);
  char *source = lua_newuserdatauv(L, (size_t)size + 1, 0);
  lua_pushfstring(L, "=moth/%s", path + strlen(dir) + 1);
  FILE *f = fopen(path, "rb");
  size_t got = f ? fread(source, 1, (size_t)size, f) : 0;
  if (f) fclose(f);
  return luaL_loadbufferx(L, source, got, lua_tostring(L, -1), "t");
}

/* ---- loading ---- */

bool mt_library_has(lua_State *L, const char *name) {
  const char *dir = directory();
  if (strncmp(name, "moth.", 5) != 0) return false;
  if (!dir) return find(name) != NULL;
  if (!push_file(L, dir, name)) return false;
  lua_pop(L, 1);
  return true;
}

static int searcher(lua_State *L) {
  const char *name = luaL_checkstring(L, 1), *dir = directory();
  int status;
  if (strncmp(name, "moth.", 5) != 0) return 0;
  if (dir) {
    if (!push_file(L, dir, name)) {
      lua_pushfstring(L, "no module '%s' in %s", name, dir);
      return 1;
    }
    status = load_file(L, dir);
  } else {
    const struct mt_stdlib_file *f = find(name);
    if (!f) {
      lua_pushfstring(L, "no module '%s' in the standard library", name);
      return 1;
    }
    lua_pushfstring(L, "=moth/%s", f->path);
    status = luaL_loadbufferx(L, f->source, f->size, lua_tostring(L, -1), "t");
  }
  if (status != LUA_OK) return lua_error(L);
  lua_pushstring(L, name);
  return 2;
}

void mt_library_require(lua_State *L, const char *name) {
  luaL_checkstack(L, 4, NULL);
  lua_getglobal(L, "require");
  if (lua_isnil(L, -1)) { /* a sandbox without require: loaded by hand, and remembered */
    lua_pop(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, name) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_pushcfunction(L, searcher);
      lua_pushstring(L, name);
      lua_call(L, 1, 1);
      lua_pushstring(L, name);
      lua_call(L, 1, 1);
      lua_pushvalue(L, -1);
      lua_setfield(L, -3, name);
    }
    lua_remove(L, -2);
    return;
  }
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

bool mt_library_extend(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_extended);
  bool done = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (done) return false;
  lua_pushboolean(L, 1); /* first: the module itself looks up names */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_extended);
  if (!mt_library_has(L, "moth.tensor")) return false;
  mt_library_require(L, "moth.tensor");
  lua_pop(L, 1);
  return true;
}

/* moth.NAME that is not there yet: a module, or a function written in Lua. */
static int missing(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  lua_pushfstring(L, "moth.%s", lua_tostring(L, 2));
  if (mt_library_has(L, lua_tostring(L, -1))) {
    mt_library_require(L, lua_tostring(L, -1));
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
  }
  if (!mt_library_extend(L)) return 0;
  lua_pushvalue(L, 2);
  lua_rawget(L, 1);
  return 1;
}

/* moth.autograd.NAME that is written in Lua. */
static int missing_autograd(lua_State *L) {
  lua_settop(L, 2);
  mt_library_require(L, "moth.autograd");
  lua_settop(L, 2);
  lua_rawget(L, 1);
  return 1;
}

static void add_searcher(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "package") != LUA_TTABLE) return;
  if (lua_getfield(L, -1, "searchers") != LUA_TTABLE) return;
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  for (; n >= 2; n--) { /* behind package.preload, in front of the files */
    lua_rawgeti(L, -1, n);
    lua_rawseti(L, -2, n + 1);
  }
  lua_pushcfunction(L, searcher);
  lua_rawseti(L, -2, 2);
}

void mt_library_open(lua_State *L) {
  luaL_checkstack(L, 6, NULL);
  int module = lua_gettop(L);
  add_searcher(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, missing);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, module);
  if (lua_getfield(L, module, "autograd") == LUA_TTABLE) {
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, missing_autograd);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
  }
  lua_settop(L, module);
}
