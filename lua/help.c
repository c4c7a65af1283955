/* help.c - help(): the usage and help that rows and sources carry, as text.
 *
 * What is known about a function stands beside it: in an operation's row, in the mt_luafn of a
 * function written by hand, or in the comment above a Lua function. Nothing is listed here. A value
 * is found again by comparing it with what the modules hold, so help(x.sum), help(moth.sum) and
 * help "sum" say the same. Text goes through the global `print`, where hosts redirect it. */
#include "help.h"

#include <stdio.h>
#include <string.h>

#include "complete.h"
#include "describe.h"
#include "library.h"
#include "print.h"

static const char rows_key = 0; /* registry: list of rows; row -> where, function -> row */

/* ---- rows of hand-written functions ---- */

static void push_rows(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &rows_key) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &rows_key);
}

void mt_help_setfuncs(lua_State *L, const mt_luafn *rows, const char *where) {
  luaL_checkstack(L, 4, "help");
  push_rows(L);
  for (const mt_luafn *r = rows; r->name; r++) {
    if (r->fn) {
      lua_pushcfunction(L, r->fn);
      lua_pushvalue(L, -1);
      lua_setfield(L, -4, r->name);
      lua_pushlightuserdata(L, (void *)(uintptr_t)r);
      lua_rawset(L, -3);
    }
    lua_pushstring(L, where);
    lua_rawsetp(L, -2, r);
    lua_pushlightuserdata(L, (void *)(uintptr_t)r);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  lua_pop(L, 1);
}

/* Row number i of the table of rows on top of the stack, NULL behind the last. */
static const mt_luafn *row_at(lua_State *L, lua_Integer i) {
  lua_rawgeti(L, -1, i);
  const mt_luafn *r = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return r;
}

static const mt_luafn *row_by_name(lua_State *L, const char *name) {
  const mt_luafn *r = NULL;
  push_rows(L);
  for (lua_Integer i = 1; (r = row_at(L, i)) != NULL; i++) {
    if (strcmp(r->name, name) == 0) break;
  }
  lua_pop(L, 1);
  return r;
}

static const mt_luafn *row_by_value(lua_State *L, int idx) {
  push_rows(L);
  lua_pushvalue(L, idx);
  lua_rawget(L, -2);
  const mt_luafn *r = lua_islightuserdata(L, -1) ? lua_touserdata(L, -1) : NULL;
  lua_pop(L, 2);
  return r;
}

/* ---- text ---- */

/* Fills lines up to MT_HELP_LINE columns, each indented; keeps paragraphs (an empty line). */
static void add_wrapped(luaL_Buffer *b, const char *s, int indent) {
  int column = 0;
  while (*s) {
    size_t word = strcspn(s, " \n");
    if (word > 0 && column > 0 && column + 1 + (int)word > MT_HELP_LINE) {
      luaL_addchar(b, '\n');
      column = 0;
    }
    if (word > 0 && column == 0) {
      for (; column < indent; column++) luaL_addchar(b, ' ');
    } else if (word > 0) {
      luaL_addchar(b, ' ');
      column++;
    }
    luaL_addlstring(b, s, word);
    column += (int)word;
    s += word;
    if (*s == '\n') {
      luaL_addchar(b, '\n');
      column = 0;
    }
    if (*s) s++;
  }
  if (column > 0) luaL_addchar(b, '\n');
}

static void add_form(luaL_Buffer *b, const char *before, const char *name, const char *after,
                     const char *comment) {
  luaL_addstring(b, before);
  luaL_addstring(b, name);
  luaL_addstring(b, after);
  luaL_addstring(b, comment);
  luaL_addchar(b, '\n');
}

static bool has_function(const mt_opinfo *op) {
  return (op->row->flags & (MT_NOFUNC | MT_HIDDEN)) == 0;
}

/* A hidden operation that is known as a method, such as x:normal_: "normal_(mean=0.0, ...)". */
static void add_method_usage(luaL_Buffer *b, const mt_opinfo *op, const char *name) {
  const char *open = strchr(op->row->schema, '('), *comma = strchr(open, ',');
  const char *close = strchr(open, ')');
  const char *rest = comma && comma < close ? comma + 2 : close;
  luaL_addstring(b, "x:");
  luaL_addstring(b, name);
  add_form(b, "(", rest, "", "");
}

/* `name` is what the function at hand is called, NULL: not known. */
static void push_op(lua_State *L, const mt_opinfo *op, const char *name) {
  unsigned flags = op->row->flags;
  const char *arguments = op->narg > 1 ? "(...)" : "()";
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  if (flags & MT_NOFUNC) { /* only the in-place form exists */
    char twin[sizeof(op->name) + 1];
    snprintf(twin, sizeof(twin), "%s_", op->name);
    add_method_usage(&b, op, twin);
  } else if ((flags & MT_HIDDEN) && name && name[0] != '_') {
    add_method_usage(&b, op, name);
  } else {
    add_form(&b, "moth.", flags & MT_HIDDEN ? "_C." : "", op->row->schema, "");
    if (flags & MT_METHOD)
      add_form(&b, "x:", op->name, arguments, "    the same as a method of its first tensor");
    if (flags & MT_INPLACE) {
      luaL_addstring(&b, "x:");
      luaL_addstring(&b, op->name);
      add_form(&b, "_", arguments, "", "   in place: writes to its first tensor");
    }
  }
  luaL_addchar(&b, '\n');
  add_wrapped(&b, op->row->help, 2);
  if (op->row->onnx) add_form(&b, "  ONNX: ", op->row->onnx, "", "");
  luaL_pushresult(&b);
}

/* Methods list their first argument; a caller writes it in front: "x:size(dim? dim=nil)". */
static void add_row_usage(luaL_Buffer *b, const mt_luafn *r, const char *where) {
  static const char self[] = "tensor self";
  const char *open = strchr(r->schema, '(');
  bool method = strcmp(where, "tensor:") == 0;
  luaL_addstring(b, method ? "x:" : where);
  if (method && open && strncmp(open + 1, self, sizeof(self) - 1) == 0) {
    luaL_addlstring(b, r->schema, (size_t)(open + 1 - r->schema));
    open += sizeof(self);
    luaL_addstring(b, open + strspn(open, ", "));
  } else {
    luaL_addstring(b, r->schema);
  }
  luaL_addstring(b, "\n\n");
}

static void push_row(lua_State *L, const mt_luafn *r) {
  push_rows(L);
  lua_rawgetp(L, -1, r);
  const char *where = lua_tostring(L, -1);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  add_row_usage(&b, r, where ? where : "");
  add_wrapped(&b, r->help, 2);
  luaL_pushresult(&b);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* help() without arguments: what there is, by family. */
static void push_overview(lua_State *L) {
  static const char head[] =
      "Moth " MOTH_VERSION
      ": tensors with automatic differentiation, in Lua.\n\n"
      "  help(moth.sum)  help \"sum\"    usage and meaning of a function or method\n"
      "  help(moth.nn)                 what a module holds\n"
      "  x:<TAB>  moth.nn.<TAB>        completion at the prompt\n\n"
      "Indices start at 1, ranges are inclusive: x[{2, {1, 3}}] is row 2, columns 1 to 3.\n"
      "Operations, by family:\n";
  luaL_Buffer b;
  const mt_family *family = NULL;
  int column = 0;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, head);
  for (int i = 0; i < mt_op_count(); i++) {
    const mt_opinfo *op = mt_op_at(i);
    if (op->row->flags & MT_HIDDEN) continue;
    bool other = op->family != family;
    if (other || column + (int)strlen(op->name) + 1 > MT_HELP_LINE) {
      luaL_addchar(&b, '\n');
      column = 0;
    }
    if (other) {
      luaL_addstring(&b, op->family->name);
      luaL_addstring(&b, ":\n");
    }
    luaL_addstring(&b, column == 0 ? "  " : " ");
    luaL_addstring(&b, op->name);
    column += (column == 0 ? 2 : 1) + (int)strlen(op->name);
    family = op->family;
  }
  luaL_addchar(&b, '\n');
  luaL_pushresult(&b);
}

/* ---- finding what a value or a name means ---- */

/* The operation called `name`, or whose in-place form is. */
static const mt_opinfo *op_by_name(const char *name) {
  char base[40];
  const mt_opinfo *op = mt_op_find(name);
  size_t len = strlen(name);
  if (op || len < 2 || len >= sizeof(base) || name[len - 1] != '_') return op;
  memcpy(base, name, len - 1);
  base[len - 1] = 0;
  op = mt_op_find(base);
  return op && (op->row->flags & MT_INPLACE) ? op : NULL;
}

static void push_module(lua_State *L, const char *name) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}

void mt_help_push_methods(lua_State *L) {
  push_module(L, "moth");
  for (const char *const *name = (const char *const[]){"_C", "methods", NULL}; *name; name++) {
    if (!lua_istable(L, -1)) return;
    lua_getfield(L, -1, *name);
    lua_remove(L, -2);
  }
}

/* The operation behind a function of bind.c, which keeps it as its first upvalue. */
static const mt_opinfo *op_by_value(lua_State *L, int idx) {
  const mt_opinfo *op = NULL, *first = mt_op_at(0);
  if (!lua_iscfunction(L, idx) || !lua_getupvalue(L, idx, 1)) return NULL;
  if (lua_islightuserdata(L, -1)) op = lua_touserdata(L, -1);
  lua_pop(L, 1);
  for (int i = 0; op && i < mt_op_count(); i++)
    if (op == first + i) return op;
  return NULL;
}

/* Pushes the key under which moth, the methods or moth._C hold the function at idx. */
static bool push_name_of(lua_State *L, int idx) {
  int top = lua_gettop(L);
  bool found = false;
  push_module(L, "moth");
  if (lua_istable(L, -1)) lua_getfield(L, -1, "_C");
  mt_help_push_methods(L);
  for (int i = lua_gettop(L); i > top && !found; i--)
    found = lua_istable(L, i) && mt_describe_key(L, i, idx);
  if (found) lua_copy(L, -1, top + 1);
  lua_settop(L, found ? top + 1 : top);
  return found;
}

static void push_function_help(lua_State *L, int idx, const char *name) {
  const mt_luafn *row = row_by_value(L, idx);
  const mt_opinfo *op = op_by_value(L, idx);
  int top = lua_gettop(L);
  if (!row && push_name_of(L, idx)) {
    name = lua_tostring(L, -1);
    row = row_by_name(L, name);
  }
  if (row) {
    push_row(L, row);
  } else if (op) {
    push_op(L, op, name);
  } else {
    mt_describe_function(L, idx, name);
  }
  lua_copy(L, -1, top + 1);
  lua_settop(L, top + 1);
}

/* Pushes the help of the value at the absolute index idx, known as `name` (or NULL). */
static void push_value_help(lua_State *L, int idx, const char *name) {
  if (lua_type(L, idx) == LUA_TFUNCTION) {
    push_function_help(L, idx, name);
  } else if (mt_handle_at(L, mt_lua_of(L), idx)) {
    mt_help_push_methods(L);
    mt_describe_fields(L, lua_gettop(L), "A tensor. Its methods (help \"NAME\" explains one):\n");
    lua_remove(L, -2);
  } else if (lua_type(L, idx) == LUA_TTABLE) {
    mt_describe_table(L, idx, name);
  } else {
    lua_pushfstring(L, "a %s\n", luaL_typename(L, idx));
  }
}

/* Walks "nn.Linear" from the module moth (which loads moth.nn when needed) or from the globals. */
static bool push_path(lua_State *L, const char *path, bool globals) {
  int top = lua_gettop(L);
  bool walked = *path != 0;
  if (globals) {
    lua_pushglobaltable(L);
  } else {
    push_module(L, "moth");
  }
  while (*path) {
    size_t len = strcspn(path, ".:");
    if (!lua_istable(L, -1)) break;
    lua_pushlstring(L, path, len);
    lua_gettable(L, -2);
    path += len;
    if (*path) path++;
    if (lua_isnil(L, -1)) break;
  }
  lua_copy(L, -1, top + 1);
  lua_settop(L, top + 1);
  if (walked && !*path && !lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

static bool push_method(lua_State *L, const char *name) {
  int top = lua_gettop(L);
  mt_help_push_methods(L);
  if (lua_istable(L, -1) && lua_getfield(L, -1, name) != LUA_TNIL) {
    lua_remove(L, -2);
    return true;
  }
  lua_settop(L, top);
  return false;
}

static bool mentions(const mt_opinfo *op, const char *word) {
  return strstr(op->name, word) || strstr(op->row->help, word);
}

/* Nothing has that name: what mentions it? */
static void push_similar(lua_State *L, const char *word) {
  lua_Integer n = 0;
  lua_newtable(L);
  int list = lua_gettop(L);
  for (int i = 0; i < mt_op_count() && *word; i++) {
    const mt_opinfo *op = mt_op_at(i);
    if ((op->row->flags & MT_HIDDEN) || !mentions(op, word)) continue;
    lua_pushstring(L, op->name);
    lua_rawseti(L, list, ++n);
  }
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "nothing is called \"");
  luaL_addstring(&b, word);
  luaL_addstring(&b, n ? "\"; these mention it:\n" : "\"; help() lists what there is");
  if (n) mt_describe_names(L, &b, list, 2);
  luaL_pushresult(&b);
  lua_remove(L, list);
}

static void push_name_help(lua_State *L, const char *name) {
  const char *plain = strncmp(name, "moth.", 5) == 0 ? name + 5 : name;
  const char *colon = strrchr(plain, ':');
  if (colon) plain = colon + 1;
  if (strncmp(plain, "Tensor.", 7) == 0) plain += 7;
  const mt_luafn *row = row_by_name(L, plain);
  const mt_opinfo *op = op_by_name(plain);
  if (row) {
    push_row(L, row);
  } else if (op) {
    push_op(L, op, plain);
  } else if (push_method(L, plain) || push_path(L, plain, false) || push_path(L, name, true)) {
    push_value_help(L, lua_gettop(L), name);
    lua_remove(L, -2);
  } else {
    push_similar(L, plain);
  }
}

/* ---- Lua functions ---- */

static void push_help(lua_State *L) {
  bool overview = lua_gettop(L) == 0;
  lua_settop(L, 1);
  mt_library_extend(L); /* methods written in Lua are methods, too */
  if (overview) {
    push_overview(L);
  } else if (lua_isnil(L, 1)) {
    lua_pushliteral(
        L, "nil: nothing has that name; help \"WORD\" searches, help() lists what there is");
  } else if (lua_type(L, 1) == LUA_TSTRING) {
    push_name_help(L, lua_tostring(L, 1));
  } else {
    push_value_help(L, 1, NULL);
  }
}

static int help(lua_State *L) {
  push_help(L);
  size_t len;
  const char *s = lua_tolstring(L, -1, &len);
  while (len > 0 && s[len - 1] == '\n') len--;
  if (lua_getglobal(L, "print") != LUA_TFUNCTION) return 0;
  lua_pushlstring(L, s, len);
  lua_call(L, 1, 0);
  return 0;
}

static void set_string(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static void set_flag(lua_State *L, const char *key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

/* What tests are derived from: the sample, the dtypes, and how the row computes. */
static void set_traits(lua_State *L, const mt_op *row) {
  if (row->sample) set_string(L, "sample", row->sample);
  set_string(L, "kind", row->view ? "view" : row->compose ? "compose" : "kernel");
  set_flag(L, "backward", row->backward != NULL);
  set_flag(L, "random", (row->flags & MT_RANDOM) != 0);
  set_flag(L, "nograd", (row->flags & MT_NOGRAD) != 0);
  lua_createtable(L, 0, MT_NDTYPES);
  for (int d = 0; d < MT_NDTYPES; d++)
    if (row->types.allow & 1u << d) set_flag(L, mt_dtypes[d].name, true);
  lua_setfield(L, -2, "dtypes");
}

/* A hidden operation may be a method under another name: record.method_name. */
static void set_method_name(lua_State *L, const mt_opinfo *op) {
  mt_help_push_methods(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (op_by_value(L, lua_gettop(L)) == op) {
      lua_pushvalue(L, -2);
      lua_setfield(L, -5, "method_name");
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* moth._C.docs(): { ops = {{name, family, schema, help, ...}}, functions = {{...}} } */
static int docs(lua_State *L) {
  lua_createtable(L, 0, 2);
  lua_createtable(L, mt_op_count(), 0);
  for (int i = 0; i < mt_op_count(); i++) {
    const mt_opinfo *op = mt_op_at(i);
    lua_createtable(L, 0, 15);
    set_string(L, "name", op->name);
    set_string(L, "family", op->family->name);
    set_string(L, "schema", op->row->schema);
    set_string(L, "help", op->row->help);
    if (op->row->onnx) set_string(L, "onnx", op->row->onnx);
    set_flag(L, "func", has_function(op));
    set_flag(L, "method", (op->row->flags & (MT_METHOD | MT_NOFUNC)) == MT_METHOD);
    set_flag(L, "inplace", (op->row->flags & MT_INPLACE) != 0);
    set_flag(L, "hidden", (op->row->flags & MT_HIDDEN) != 0);
    set_traits(L, op->row);
    if (op->row->flags & MT_HIDDEN) set_method_name(L, op);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "ops");
  lua_newtable(L);
  push_rows(L);
  const mt_luafn *r;
  for (lua_Integer i = 1; (r = row_at(L, i)) != NULL; i++) {
    lua_createtable(L, 0, 4);
    set_string(L, "name", r->name);
    set_string(L, "schema", r->schema);
    set_string(L, "help", r->help);
    lua_rawgetp(L, -2, r);
    lua_setfield(L, -2, "where");
    lua_rawseti(L, -3, i);
  }
  lua_pop(L, 1);
  lua_setfield(L, -2, "functions");
  return 1;
}

static const mt_luafn functions[] = {
    {"help", help, "help(any? what=nil)",
     "Prints what is known about a function, a method, a module or a class; `what` is the value "
     "itself "
     "or its name. Without arguments: what there is."},
    {"inspect", mt_print_inspect_fn, "inspect(any value) -> str",
     "The text that the prompt shows for a value: tables with sorted keys, cut when long, folded "
     "when "
     "deep."},
    {"set_printoptions", mt_print_set_options,
     "set_printoptions(*, int? precision=nil, int? threshold=nil, int? edgeitems=nil, int? "
     "linewidth=nil, any? sci_mode=nil)",
     "How tensors print: digits behind the point (4), how many elements are printed in full "
     "(1000), how "
     "many at each end otherwise (3), columns of a line (80), and whether numbers are scientific "
     "(true, false, or \"auto\")."},
    {NULL, NULL, NULL, NULL}};

void mt_help_open(lua_State *L, mt_lua *S) {
  (void)S;
  mt_help_setfuncs(L, functions, "moth.");
  if (lua_getfield(L, -1, "_C") == LUA_TTABLE) {
    lua_pushcfunction(L, docs);
    lua_setfield(L, -2, "docs");
    lua_pushcfunction(L, mt_complete_fn);
    lua_setfield(L, -2, "complete");
  }
  lua_pop(L, 1);
}
