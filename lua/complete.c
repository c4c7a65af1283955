/* complete.c - completion of globals, fields and methods.
 *
 * The path in front of the last '.' or ':' is followed by raw accesses and through __index
 * tables, never through metamethods, so completing runs no code of the script's. Names that start
 * with
 * '_' are offered only when asked for. Behind ':' only what can be called is offered. */
#include "complete.h"

#include <string.h>

#include "help.h"
#include "library.h"

static const char *const keywords[] = {
    "and",   "break", "do",  "else", "elseif", "end",    "false", "for",  "function", "if",   "in",
    "local", "nil",   "not", "or",   "repeat", "return", "then",  "true", "until",    "while"};

enum {
  CHAIN = 16
}; /* inheritance deeper than this is a loop */

/* Replaces the value on top by what it is indexed with when it lacks a key: its methods. */
static bool next_index(lua_State *L) {
  if (mt_handle_at(L, mt_lua_of(L), -1)) {
    mt_help_push_methods(L);
  } else {
    if (!lua_getmetatable(L, -1)) return false;
    lua_pushliteral(L, "__index");
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  lua_remove(L, -2);
  return lua_istable(L, -1);
}

/* Whether the table on top is the module moth itself. */
static bool is_moth(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "moth");
  bool same = lua_rawequal(L, -1, -3);
  lua_pop(L, 2);
  return same;
}

/* Replaces the module moth on top by moth.NAME, which is loaded when it is used. */
static bool step_library(lua_State *L, const char *name, size_t len) {
  if (!is_moth(L)) return false;
  lua_pushlstring(L, name, len);
  lua_pushfstring(L, "moth.%s", lua_tostring(L, -1));
  bool found = mt_library_has(L, lua_tostring(L, -1));
  if (found) {
    mt_library_require(L, lua_tostring(L, -1));
    lua_replace(L, -4);
  }
  lua_pop(L, 2);
  return found;
}

static void add_library(lua_State *L, int names, const char *head, const char *prefix) {
  for (const struct mt_stdlib_file *f = mt_stdlib; f->name; f++) {
    const char *name = f->name + 5; /* behind "moth." */
    if (strchr(name, '.') || strncmp(name, prefix, strlen(prefix)) != 0) continue;
    lua_pushfstring(L, "%s%s", head, name);
    lua_pushboolean(L, 1);
    lua_rawset(L, names);
  }
}

/* Replaces the value on top by its field `name`, without metamethods. */
static bool step(lua_State *L, const char *name, size_t len) {
  for (int i = 0; i < CHAIN; i++) {
    if (lua_istable(L, -1)) {
      lua_pushlstring(L, name, len);
      if (lua_rawget(L, -2) != LUA_TNIL) {
        lua_remove(L, -2);
        return true;
      }
      lua_pop(L, 1);
      if (step_library(L, name, len)) return true;
    }
    if (!next_index(L)) return false;
  }
  return false;
}

static bool is_callable(lua_State *L) {
  if (lua_isfunction(L, -1)) return true;
  if (luaL_getmetafield(L, -1, "__call") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return true;
}

/* Adds the keys of the table on top that start with the prefix: names[prefix .. key] = true. */
static void add_keys(lua_State *L, int names, const char *head, const char *prefix, bool call) {
  size_t len = strlen(prefix);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    bool fits = !call || is_callable(L);
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    const char *key = lua_tostring(L, -1);
    if (strncmp(key, prefix, len) != 0 || (key[0] == '_' && prefix[0] != '_')) continue;
    if (!fits) continue;
    lua_pushfstring(L, "%s%s", head, key);
    lua_pushboolean(L, 1);
    lua_rawset(L, names);
  }
}

static void add_keywords(lua_State *L, int names, const char *prefix) {
  for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++) {
    if (strncmp(keywords[i], prefix, strlen(prefix)) != 0) continue;
    lua_pushboolean(L, 1);
    lua_setfield(L, names, keywords[i]);
  }
}

/* The text is head .. prefix; pushes what head names, or returns false. */
static bool push_owner(lua_State *L, const char *text, const char *prefix) {
  lua_pushglobaltable(L);
  while (text < prefix) {
    size_t len = strcspn(text, ".:");
    if (!step(L, text, len)) return false;
    text += len + 1;
  }
  return true;
}

static int sorted(lua_State *L, int names) {
  lua_Integer n = 0;
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, names)) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, ++n);
  }
  lua_getglobal(L, "table");
  lua_getfield(L, -1, "sort");
  lua_pushvalue(L, list);
  lua_call(L, 1, 0);
  lua_settop(L, list);
  return 1;
}

int mt_complete_fn(lua_State *L) {
  const char *text = luaL_checkstring(L, 1), *prefix = text + strlen(text);
  while (prefix > text && prefix[-1] != '.' && prefix[-1] != ':') prefix--;
  bool call = prefix > text && prefix[-1] == ':';
  lua_pushlstring(L, text, (size_t)(prefix - text));
  const char *head = lua_tostring(L, -1);
  lua_newtable(L);
  int names = lua_gettop(L);
  mt_library_extend(L); /* methods written in Lua are methods, too */
  if (push_owner(L, text, prefix)) {
    if (lua_istable(L, -1) && is_moth(L)) add_library(L, names, head, prefix);
    for (int i = 0; i < CHAIN; i++) {
      if (lua_istable(L, -1)) add_keys(L, names, head, prefix, call);
      if (!next_index(L)) break;
    }
    if (prefix == text && *prefix) add_keywords(L, names, prefix);
  }
  lua_settop(L, names);
  return sorted(L, names);
}
