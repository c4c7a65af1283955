/* source.c - see source.h.
 *
 * The source is the embedded standard library's own copy or the file that the chunk names. A file
 * is read into memory of Lua's, so that no C resource is held when an allocation raises. */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"

enum {
  MAX_SOURCE = 1 << 20
};

static long file_size(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return -1;
  long size = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
  fclose(f);
  return size;
}

/* Pushes a block with the file's text (zero-terminated), or nil; returns the text. */
static const char *push_file(lua_State *L, const char *path) {
  long size = file_size(path);
  if (size < 0 || size > MAX_SOURCE) {
    lua_pushnil(L);
    return NULL;
  }
  char *text = lua_newuserdatauv(L, (size_t)size + 1, 0);
  FILE *f = fopen(path, "rb");
  size_t got = f ? fread(text, 1, (size_t)size, f) : 0;
  if (f) fclose(f);
  text[got] = 0;
  return text;
}

/* Start of the given line (from 1), NULL when the text is shorter. */
static const char *line_at(const char *text, int line) {
  while (text && --line > 0) {
    text = strchr(text, '\n');
    if (text) text++;
  }
  return text;
}

static const char *line_before(const char *text, const char *line) {
  if (line <= text) return NULL;
  const char *p = line - 1;
  while (p > text && p[-1] != '\n') p--;
  return p;
}

/* The text of a comment line behind its dashes, NULL when it is none. */
static const char *comment_text(const char *line) {
  line += strspn(line, " \t");
  if (line[0] != '-' || line[1] != '-') return NULL;
  line += strspn(line, "-");
  return *line == ' ' ? line + 1 : line;
}

/* "@param x T what" becomes "  x T what"; other annotations but @return are for editors only. */
static void add_line(luaL_Buffer *b, const char *s) {
  size_t len = strcspn(s, "\r\n");
  if (strncmp(s, "@param ", 7) == 0) {
    luaL_addstring(b, "    ");
    s += 7, len -= 7;
  } else if (strncmp(s, "@return ", 8) == 0) {
    luaL_addstring(b, "    -> ");
    s += 8, len -= 8;
  } else if (*s == '@') {
    return;
  } else {
    luaL_addstring(b, "  ");
  }
  luaL_addlstring(b, s, len);
  luaL_addchar(b, '\n');
}

/* Pushes the comment lines that end in front of `end`. */
static void push_comment(lua_State *L, const char *text, const char *end) {
  const char *begin = end, *p;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  while (begin && (p = line_before(text, begin)) != NULL && comment_text(p)) begin = p;
  for (p = begin; p && p < end; p = strchr(p, '\n') + 1) add_line(&b, comment_text(p));
  luaL_pushresult(&b);
}

/* The embedded text of "nn/init.lua", or that of the directory which replaces the library. */
static const char *push_library(lua_State *L, const char *path) {
  const char *dir = getenv("MOTH_STDLIB");
  if (dir && *dir) {
    lua_pushfstring(L, "%s/%s", dir, path);
    const char *text = push_file(L, lua_tostring(L, -1));
    lua_remove(L, -2);
    return text;
  }
  lua_pushnil(L);
  for (const struct mt_stdlib_file *f = mt_stdlib; f->name; f++)
    if (strcmp(f->path, path) == 0) return f->source;
  return NULL;
}

/* The source of the Lua function at idx, NULL if it is not known; pushes what keeps it. */
static const char *push_source(lua_State *L, int idx, int *line) {
  static const char library[] = "=moth/";
  lua_Debug ar;
  lua_pushvalue(L, idx);
  lua_getinfo(L, ">S", &ar);
  *line = ar.linedefined;
  if (ar.source[0] == '@') return push_file(L, ar.source + 1);
  if (strncmp(ar.source, library, sizeof(library) - 1) == 0)
    return push_library(L, ar.source + sizeof(library) - 1);
  lua_pushnil(L);
  return NULL;
}

void mt_source_push_comment(lua_State *L, int idx) {
  int line;
  const char *text = push_source(L, idx, &line);
  push_comment(L, text, line_at(text, line));
  lua_remove(L, -2);
}

void mt_source_push_declaration(lua_State *L, int idx, const char *name) {
  int line;
  const char *text = push_source(L, idx, &line), *at = NULL;
  lua_pushfstring(L, "(\"%s\"", name);
  if (text) at = strstr(text, lua_tostring(L, -1));
  while (at && at > text && at[-1] != '\n') at--;
  push_comment(L, text, at);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

void mt_source_push_header(lua_State *L, const char *module) {
  const char *text = NULL, *end;
  int top = lua_gettop(L);
  for (const struct mt_stdlib_file *f = mt_stdlib; f->name && !text; f++)
    if (strcmp(f->name, module) == 0) text = push_library(L, f->path);
  for (end = text; end && comment_text(end);) {
    end = strchr(end, '\n');
    if (end) end++;
  }
  push_comment(L, text, end);
  lua_copy(L, -1, top + 1);
  lua_settop(L, top + 1);
}
