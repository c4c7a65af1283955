/* inspect.c - values as a person wants to read them at the prompt.
 *
 * A table is printed on one line when it fits, otherwise one item a line (numbers fill lines).
 * Keys are sorted, long tables are cut, deep ones are folded, and a table inside itself is said to
 * be so; therefore the text is bounded whatever the value. Objects with __tostring speak for
 * themselves; tensors inside tables are described, not listed. Addresses are never shown.
 *
 * Each item is rendered once, bottom-up, and a table decides from the length of its items. */
#include "print.h"

#include <stdio.h>
#include <string.h>

enum {
  WIDTH = 80,
  DEEP = 5,
  ITEMS = 100,
  TEXT = 10000
};

typedef struct inspector {
  lua_State *L;
  int path; /* stack index of a table whose keys are the tables under way */
} inspector;

static void push_value(inspector *p, int idx, int depth, int indent);

static bool is_name(const char *s, size_t len) {
  static const char *const reserved[] = {"and",   "break", "do",       "else", "elseif", "end",
                                         "false", "for",   "function", "goto", "if",     "in",
                                         "local", "nil",   "not",      "or",   "repeat", "return",
                                         "then",  "true",  "until",    "while"};
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  if (len == 0 || strspn(s, letters) != len || (s[0] >= '0' && s[0] <= '9')) return false;
  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
    if (strcmp(s, reserved[i]) == 0) return false;
  }
  return true;
}

static void push_quoted(lua_State *L, const char *s, size_t len) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '"');
  for (size_t i = 0; i < len && i < TEXT; i++) {
    unsigned char c = (unsigned char)s[i];
    char hex[8];
    if (c == '\n') {
      luaL_addstring(&b, "\\n");
    } else if (c == '"' || c == '\\') {
      luaL_addchar(&b, '\\');
      luaL_addchar(&b, (char)c);
    } else if (c < 32 || c == 127) {
      snprintf(hex, sizeof(hex), "\\x%02X", c);
      luaL_addstring(&b, hex);
    } else {
      luaL_addchar(&b, (char)c);
    }
  }
  luaL_addstring(&b, len > TEXT ? "\"..." : "\"");
  luaL_pushresult(&b);
}

static void push_function(lua_State *L, int idx) {
  lua_Debug ar;
  lua_pushvalue(L, idx);
  lua_getinfo(L, ">S", &ar);
  if (ar.what[0] == 'C') {
    lua_pushliteral(L, "<function>");
  } else {
    lua_pushfstring(L, "<function %s:%d>", ar.short_src, ar.linedefined);
  }
}

/* Everything but plain tables. */
static void push_simple(lua_State *L, int idx, int depth) {
  size_t len;
  const char *s;
  const moth_tensor *t = mt_handle_tensor(L, mt_lua_of(L), idx);
  if (t && depth > 0 && moth_tensor_ndim(t) > 0) {
    mt_print_brief(L, t);
    return;
  }
  switch (lua_type(L, idx)) {
    case LUA_TSTRING:
      s = lua_tolstring(L, idx, &len);
      push_quoted(L, s, len);
      return;
    case LUA_TFUNCTION:
      push_function(L, idx);
      return;
    case LUA_TTHREAD:
      lua_pushliteral(L, "<coroutine>");
      return;
    case LUA_TUSERDATA:
    case LUA_TLIGHTUSERDATA:
      if (luaL_getmetafield(L, idx, "__tostring") == LUA_TNIL) {
        if (luaL_getmetafield(L, idx, "__name") == LUA_TSTRING) {
          lua_pushfstring(L, "<%s>", lua_tostring(L, -1));
        } else {
          lua_pushliteral(L, "<userdata>");
        }
        return;
      }
      lua_pop(L, 1);
  }
  luaL_tolstring(L, idx, NULL);
}

/* Numbers by value, then strings, then the rest by type: `a < b`. Both are on the stack. */
static bool key_before(lua_State *L, int a, int b) {
  int ta = lua_type(L, a), tb = lua_type(L, b);
  if (ta != tb) {
    int ra = ta == LUA_TNUMBER ? 0 : ta == LUA_TSTRING ? 1 : 2 + ta;
    int rb = tb == LUA_TNUMBER ? 0 : tb == LUA_TSTRING ? 1 : 2 + tb;
    return ra < rb;
  }
  if (ta == LUA_TNUMBER) return lua_compare(L, a, b, LUA_OPLT);
  if (ta == LUA_TSTRING) return strcmp(lua_tostring(L, a), lua_tostring(L, b)) < 0;
  if (ta == LUA_TBOOLEAN) return lua_toboolean(L, a) < lua_toboolean(L, b);
  return false; /* no order among tables, functions ... */
}

static bool before_at(lua_State *L, int list, lua_Integer i, lua_Integer j) {
  lua_rawgeti(L, list, i);
  lua_rawgeti(L, list, j);
  bool r = key_before(L, lua_gettop(L) - 1, lua_gettop(L));
  lua_pop(L, 2);
  return r;
}

/* Heap sort of the list at `list`: no recursion, no comparison that could raise. */
static void sift(lua_State *L, int list, lua_Integer i, lua_Integer n) {
  for (;;) {
    lua_Integer big = i;
    for (lua_Integer c = 2 * i; c <= 2 * i + 1 && c <= n; c++) {
      if (before_at(L, list, big, c)) big = c;
    }
    if (big == i) return;
    lua_rawgeti(L, list, i);
    lua_rawgeti(L, list, big);
    lua_rawseti(L, list, i);
    lua_rawseti(L, list, big);
    i = big;
  }
}

static void sort_keys(lua_State *L, int list, lua_Integer n) {
  for (lua_Integer i = n / 2; i >= 1; i--) sift(L, list, i, n);
  for (lua_Integer last = n; last > 1; last--) {
    lua_rawgeti(L, list, 1);
    lua_rawgeti(L, list, last);
    lua_rawseti(L, list, 1);
    lua_rawseti(L, list, last);
    sift(L, list, 1, last - 1);
  }
}

/* Pushes the sorted list of keys that are not positions 1..n; returns how many. */
static lua_Integer push_keys(lua_State *L, int idx, lua_Integer n) {
  lua_Integer count = 0;
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, idx)) {
    lua_pop(L, 1);
    int isint = 0;
    lua_Integer k = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &isint) : 0;
    if (isint && k >= 1 && k <= n) continue;
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, ++count);
  }
  sort_keys(L, list, count);
  return count;
}

/* Replaces the key on top by "key = ". */
static void name_key(inspector *p, int depth) {
  lua_State *L = p->L;
  size_t len;
  const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
  if (s && is_name(s, len)) {
    lua_pushfstring(L, "%s = ", s);
  } else {
    if (lua_type(L, -1) == LUA_TTABLE) {
      lua_pushliteral(L, "<table>");
    } else {
      push_simple(L, lua_gettop(L), depth + 1);
    }
    lua_pushfstring(L, "[%s] = ", lua_tostring(L, -1));
    lua_remove(L, -2);
  }
  lua_remove(L, -2);
}

typedef struct items {
  int list;      /* stack index of the list of texts */
  lua_Integer n; /* how many */
  size_t total;  /* their length together */
  bool lines;    /* some text has several lines */
  bool words;    /* some text is not a number or boolean */
} items;

static void add_item(lua_State *L, items *it) {
  size_t len;
  const char *s = lua_tolstring(L, -1, &len);
  it->total += len + 2;
  if (memchr(s, '\n', len)) it->lines = true;
  lua_rawseti(L, it->list, ++it->n);
}

static void add_more(lua_State *L, items *it, lua_Integer more) {
  lua_pushfstring(L, "... (%I more)", (LUAI_UACINT)more);
  add_item(L, it);
}

static void gather_list(inspector *p, int idx, lua_Integer n, int depth, int indent, items *it) {
  lua_State *L = p->L;
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > ITEMS) {
      add_more(L, it, n - ITEMS);
      return;
    }
    lua_rawgeti(L, idx, i);
    int type = lua_type(L, -1);
    if (type != LUA_TNUMBER && type != LUA_TBOOLEAN) it->words = true;
    push_value(p, lua_gettop(L), depth + 1, indent + 2);
    lua_remove(L, -2);
    add_item(L, it);
  }
}

static void gather_keys(inspector *p, int idx, lua_Integer n, int depth, int indent, items *it) {
  lua_State *L = p->L;
  lua_Integer count = push_keys(L, idx, n);
  int keys = lua_gettop(L);
  for (lua_Integer i = 1; i <= count; i++) {
    it->words = true;
    if (i > ITEMS) {
      add_more(L, it, count - ITEMS);
      break;
    }
    lua_rawgeti(L, keys, i);
    lua_pushvalue(L, -1);
    lua_rawget(L, idx);
    push_value(p, lua_gettop(L), depth + 1, indent + 2);
    lua_remove(L, -2);
    lua_insert(L, -2);
    name_key(p, depth);
    lua_insert(L, -2);
    lua_concat(L, 2);
    add_item(L, it);
  }
  lua_pop(L, 1);
}

static void add_newline(luaL_Buffer *b, int indent) {
  luaL_addchar(b, '\n');
  for (int i = 0; i < indent; i++) luaL_addchar(b, ' ');
}

static size_t item_length(lua_State *L, const items *it, lua_Integer i) {
  lua_rawgeti(L, it->list, i);
  size_t len = lua_rawlen(L, -1);
  lua_pop(L, 1);
  return len;
}

/* Joins the items; numbers fill lines, other things get one each when one line is not enough. */
static void push_joined(lua_State *L, const items *it, int indent) {
  bool flat = !it->lines && it->total + (size_t)indent <= WIDTH;
  size_t column = WIDTH;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '{');
  for (lua_Integer i = 1; i <= it->n; i++) {
    size_t len = item_length(L, it, i);
    bool wrap = !flat && (it->words || column + len + 2 > WIDTH);
    if (wrap) {
      add_newline(&b, indent + 2);
      column = (size_t)indent + 2;
    } else if (i > 1) {
      luaL_addchar(&b, ' ');
    }
    lua_rawgeti(L, it->list, i);
    luaL_addvalue(&b);
    if (i < it->n) luaL_addchar(&b, ',');
    column += len + 2;
  }
  if (!flat) add_newline(&b, indent);
  luaL_addchar(&b, '}');
  luaL_pushresult(&b);
}

static void push_table(inspector *p, int idx, int depth, int indent) {
  lua_State *L = p->L;
  lua_pushvalue(L, idx);
  if (lua_rawget(L, p->path) != LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushliteral(L, "<this table again>");
    return;
  }
  lua_pop(L, 1);
  if (depth >= DEEP) {
    lua_pushliteral(L, "{...}");
    return;
  }
  luaL_checkstack(L, 24, "value nested too deeply");
  lua_pushvalue(L, idx);
  lua_pushboolean(L, 1);
  lua_rawset(L, p->path);
  lua_newtable(L);
  items it = {.list = lua_gettop(L)};
  lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
  gather_list(p, idx, n, depth, indent, &it);
  gather_keys(p, idx, n, depth, indent, &it);
  push_joined(L, &it, indent);
  lua_remove(L, it.list);
  lua_pushvalue(L, idx);
  lua_pushnil(L);
  lua_rawset(L, p->path);
}

/* Pushes the text of the value at the absolute index idx. */
static void push_value(inspector *p, int idx, int depth, int indent) {
  lua_State *L = p->L;
  if (lua_type(L, idx) != LUA_TTABLE) {
    push_simple(L, idx, depth);
  } else if (luaL_getmetafield(L, idx, "__tostring") != LUA_TNIL) {
    lua_pop(L, 1);
    luaL_tolstring(L, idx, NULL);
  } else {
    push_table(p, idx, depth, indent);
  }
}

void mt_print_inspect(lua_State *L, int idx) {
  inspector p = {L, 0};
  idx = lua_absindex(L, idx);
  luaL_checkstack(L, 24, "inspect");
  lua_newtable(L);
  p.path = lua_gettop(L);
  push_value(&p, idx, 0, 0);
  lua_remove(L, p.path);
}
