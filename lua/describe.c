/* describe.c - see describe.h.
 *
 * Conventions of the standard library that are used here, all optional: declared arguments
 * (moth.args) are an upvalue `sig` of a function or a field `signature` or `_sig` of a class and
 * turn into text by tostring; a class has a __name, and the line that declares it says ("NAME". */
#include "describe.h"

#include <string.h>

#include "source.h"

/* ---- lists of names ---- */

/* Adds the strings of the sorted list at idx as filled lines. */
void mt_describe_names(lua_State *L, luaL_Buffer *b, int idx, int indent) {
  int column = 0;
  lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, idx, i);
    int len = (int)lua_rawlen(L, -1);
    lua_pop(L, 1);
    if (column > 0 && column + len + 1 > MT_HELP_LINE) {
      luaL_addchar(b, '\n');
      column = 0;
    }
    for (int k = column == 0 ? indent : 1; k > 0; k--, column++) luaL_addchar(b, ' ');
    lua_rawgeti(L, idx, i);
    luaL_addvalue(b);
    column += len;
  }
  luaL_addchar(b, '\n');
}

static void sort_list(lua_State *L, int idx) {
  lua_getglobal(L, "table");
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "sort");
    lua_pushvalue(L, idx);
    lua_call(L, 1, 0);
  }
  lua_pop(L, 1);
}

/* Pushes the sorted list of the string keys of the table at idx that do not start with '_'. */
static void push_fields(lua_State *L, int idx) {
  idx = lua_absindex(L, idx);
  lua_newtable(L);
  lua_Integer n = 0;
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING && lua_tostring(L, -1)[0] != '_') {
      lua_pushvalue(L, -1);
      lua_rawseti(L, -3, ++n);
    }
  }
  sort_list(L, lua_gettop(L));
}

void mt_describe_fields(lua_State *L, int idx, const char *head) {
  push_fields(L, idx);
  int list = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, head);
  mt_describe_names(L, &b, list, 2);
  luaL_pushresult(&b);
  lua_remove(L, list);
}

/* Pushes the name under which the table at `in` holds the value at idx, or nothing. */
bool mt_describe_key(lua_State *L, int in, int idx) {
  in = lua_absindex(L, in);
  lua_pushnil(L);
  while (lua_next(L, in)) {
    bool same = lua_type(L, -2) == LUA_TSTRING && lua_rawequal(L, -1, idx);
    lua_pop(L, 1);
    if (same) return true;
  }
  return false;
}

/* ---- functions ---- */

/* Adds the parameters of the Lua function at idx, "(a, b, ...)". */
static void add_parameters(luaL_Buffer *b, lua_State *L, int idx, const lua_Debug *ar) {
  luaL_addchar(b, '(');
  for (int i = 1; i <= ar->nparams; i++) {
    lua_pushvalue(L, idx);
    const char *param = lua_getlocal(L, NULL, i);
    lua_pop(L, 1);
    luaL_addstring(b, i > 1 ? ", " : "");
    luaL_addstring(b, param ? param : "?");
  }
  if (ar->isvararg) luaL_addstring(b, ar->nparams ? ", ..." : "...");
  luaL_addstring(b, ")\n\n");
}

/* Pushes "NAME(arguments)" and the comment at stack index `comment`; `sig` is the index of declared
 * arguments (moth.args), whose text says them. */
static void push_declared(lua_State *L, const char *name, int sig, int comment) {
  luaL_tolstring(L, sig, NULL);
  lua_pushfstring(L, "%s(%s)\n\n%s", name, lua_tostring(L, -1), lua_tostring(L, comment));
  lua_remove(L, -2);
}

/* Pushes upvalue `sig` of a function whose arguments are declared with moth.args, or nothing. */
static bool push_signature(lua_State *L, int idx) {
  const char *name;
  for (int i = 1; (name = lua_getupvalue(L, idx, i)) != NULL; i++) {
    if (strcmp(name, "sig") == 0 && luaL_getmetafield(L, -1, "__tostring") != LUA_TNIL) {
      lua_pop(L, 1);
      return true;
    }
    lua_pop(L, 1);
  }
  return false;
}

/* A Lua function's signature and the comment above it; `name` may be NULL. */
void mt_describe_function(lua_State *L, int idx, const char *name) {
  lua_Debug ar;
  int top = lua_gettop(L);
  lua_pushvalue(L, idx);
  lua_getinfo(L, ">Su", &ar);
  if (ar.what[0] == 'C') {
    lua_pushfstring(L, "%s: a C function without help\n", name ? name : "function");
    return;
  }
  if (push_signature(L, idx)) {
    lua_getfield(L, -1, "name");
    mt_source_push_declaration(L, idx, lua_isstring(L, -1) ? lua_tostring(L, -1) : "");
    push_declared(L, name ? name : luaL_tolstring(L, -2, NULL), top + 1, top + 3);
  } else {
    luaL_Buffer b;
    mt_source_push_comment(L, idx);
    luaL_buffinit(L, &b);
    luaL_addstring(&b, name ? name : "function");
    add_parameters(&b, L, idx, &ar);
    lua_pushvalue(L, top + 1);
    luaL_addvalue(&b);
    luaL_pushresult(&b);
  }
  lua_copy(L, -1, top + 1);
  lua_settop(L, top + 1);
}

/* ---- classes: tables with a __name, whose declaration says ("NAME" ---- */

static bool push_class_name(lua_State *L, int idx) {
  lua_pushliteral(L, "__name");
  if (lua_rawget(L, idx) == LUA_TSTRING) return true;
  lua_pop(L, 1);
  return false;
}

/* Pushes the comment of the class at idx: some method lies in the file that declares it. */
static void push_class_comment(lua_State *L, int idx, const char *name) {
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    if (lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
      mt_source_push_declaration(L, lua_gettop(L), name);
      if (lua_rawlen(L, -1) > 0) {
        lua_replace(L, -3);
        lua_pop(L, 1);
        return;
      }
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pushliteral(L, "");
}

/* The class at idx; its __name is on top of the stack. */
static void push_class(lua_State *L, int idx, const char *known_as) {
  static const char *const fields[] = {"signature", "_sig", "init"};
  int top = lua_gettop(L), type = LUA_TNIL;
  const char *name = lua_tostring(L, top);
  push_class_comment(L, idx, name);
  if (!known_as) known_as = name;
  for (int i = 0; i < 3 && type == LUA_TNIL; i++) {
    lua_settop(L, top + 1);
    lua_pushstring(L, fields[i]);
    type = lua_rawget(L, idx);
  }
  if (type == LUA_TTABLE) {
    push_declared(L, known_as, top + 2, top + 1);
  } else if (type == LUA_TFUNCTION && !lua_iscfunction(L, -1)) {
    mt_describe_function(L, top + 2, known_as);
  } else {
    lua_pushfstring(L, "%s()\n\n%s", known_as, lua_tostring(L, top + 1));
  }
  mt_describe_fields(L, idx, "\nFields and methods:\n");
  lua_concat(L, 2);
  lua_copy(L, -1, top);
  lua_settop(L, top);
}

/* ---- modules and other tables ---- */

/* Pushes the name under which the table at idx is a module of ours. */
static bool push_module_name(lua_State *L, int idx) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool found = mt_describe_key(L, -1, idx);
  if (found && strncmp(lua_tostring(L, -1), "moth", 4) == 0) {
    lua_remove(L, -2);
    return true;
  }
  lua_pop(L, found ? 2 : 1);
  return false;
}

void mt_describe_table(lua_State *L, int idx, const char *name) {
  int top = lua_gettop(L);
  if (push_class_name(L, idx)) {
    push_class(L, idx, name);
    return;
  }
  lua_pushliteral(L, "");
  if (push_module_name(L, idx)) {
    name = lua_tostring(L, -1);
    mt_source_push_header(L, name);
    lua_replace(L, top + 1);
  }
  lua_pushfstring(L, "%s%s%s holds:\n", lua_tostring(L, top + 1),
                  lua_rawlen(L, top + 1) > 0 ? "\n" : "", name ? name : "This table");
  mt_describe_fields(L, idx, lua_tostring(L, -1));
  lua_copy(L, -1, top + 1);
  lua_settop(L, top + 1);
}
