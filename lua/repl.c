/* repl.c - the prompt: read, run, show.
 *
 * An expression is shown as inspect.c prints it and kept in `_`; anything else is a statement. A
 * chunk that ends too early goes on at a second prompt. Errors and Ctrl-C lose the chunk under way
 * and nothing else. With libedit lines are edited, kept in a bounded history file and completed
 * with TAB; without it, or when standard input is no terminal, lines are read as they come.
 *
 * History: $MOTH_HISTORY, $XDG_STATE_HOME/moth_history or ~/.moth_history; an empty $MOTH_HISTORY
 * means none. */
#include "main.h"

#include <errno.h>
#include <lauxlib.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "complete.h"
#include "print.h"

#ifdef MOTH_EDITLINE
#include <editline/readline.h>
#endif

enum {
  HISTORY = 1000,
  MAX_PATH = 1024
};

static const char first_prompt[] = "> ", more_prompt[] = ">> ";

/* ---- lines ---- */

/* A line in malloc'd memory without its end; NULL at the end of input or after Ctrl-C. */
static char *read_plain(const char *prompt) {
  char *line = NULL;
  size_t room = 0;
  fputs(prompt, stdout);
  fflush(stdout);
  ssize_t n = getline(&line, &room, stdin);
  if (n < 0) {
    clearerr(stdin);
    free(line);
    return NULL;
  }
  if (n > 0 && line[n - 1] == '\n') line[n - 1] = 0;
  return line;
}

#ifdef MOTH_EDITLINE

/* libedit calls back without an argument of ours. */
static lua_State *completing;

static char *copy(const char *s) {
  size_t n = strlen(s) + 1;
  char *p = malloc(n);
  return p ? memcpy(p, s, n) : NULL;
}

/* What all names of the list on top begin with. */
static char *common_prefix(lua_State *L, lua_Integer n) {
  lua_rawgeti(L, -1, 1);
  char *p = copy(lua_tostring(L, -1));
  lua_pop(L, 1);
  for (lua_Integer i = 2; i <= n && p; i++) {
    lua_rawgeti(L, -1, i);
    const char *s = lua_tostring(L, -1);
    size_t k = 0;
    while (p[k] && p[k] == s[k]) k++;
    p[k] = 0;
    lua_pop(L, 1);
  }
  return p;
}

/* The array that readline wants: the common beginning, the candidates, NULL. */
static char **matches(lua_State *L) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  char **list = n > 0 ? calloc((size_t)n + 2, sizeof(*list)) : NULL;
  if (!list) return NULL;
  list[0] = common_prefix(L, n);
  for (lua_Integer i = 1; i <= n && n > 1; i++) {
    lua_rawgeti(L, -1, i);
    list[i] = copy(lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  return list;
}

static char **complete(const char *text, int start, int end) {
  lua_State *L = completing;
  char **list = NULL;
  (void)start, (void)end;
  rl_attempted_completion_over = 1; /* no file names */
  lua_pushcfunction(L, mt_complete_fn);
  lua_pushstring(L, text);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) list = matches(L);
  lua_pop(L, 1);
  return list;
}

/* Waits for input; false after Ctrl-C. The signal is held back except while ppoll waits, so one
 * that comes just before it is not lost. */
static bool wait_for_input(int fd) {
  struct pollfd p = {fd, POLLIN, 0};
  sigset_t hold, before;
  int ready = 0;
  sigemptyset(&hold);
  sigaddset(&hold, SIGINT);
  pthread_sigmask(SIG_BLOCK, &hold, &before);
  while (ready <= 0 && !mt_main_interrupted()) {
    ready = ppoll(&p, 1, NULL, &before);
    if (ready < 0 && errno != EINTR) break; /* reading will say what is wrong */
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return !mt_main_interrupted();
}

/* One character for libedit, -1 at the end of input and after Ctrl-C. */
static int read_key(FILE *in) {
  mbstate_t state;
  wchar_t c;
  memset(&state, 0, sizeof(state));
  for (;;) {
    char byte;
    if (!wait_for_input(fileno(in)) || read(fileno(in), &byte, 1) != 1) return -1;
    size_t n = mbrtowc(&c, &byte, 1, &state);
    if (n == (size_t)-1) return (unsigned char)byte;
    if (n != (size_t)-2) return (int)c;
  }
}

static const char *history_file(char *buf, size_t room) {
  const char *own = getenv("MOTH_HISTORY"), *state = getenv("XDG_STATE_HOME");
  const char *home = getenv("HOME");
  int n = -1;
  if (own) {
    n = snprintf(buf, room, "%s", own);
  } else if (state && *state) {
    n = snprintf(buf, room, "%s/moth_history", state);
  } else if (home && *home) {
    n = snprintf(buf, room, "%s/.moth_history", home);
  }
  return n > 0 && (size_t)n < room ? buf : NULL;
}

static void start_editing(lua_State *L) {
  char path[MAX_PATH];
  completing = L;
  setlocale(LC_CTYPE, ""); /* what keys mean; Lua and numbers do not depend on it */
  rl_getc_function = read_key;
  rl_readline_name = "moth";
  rl_completer_word_break_characters = " \t\n()[]{}+-*/%^#=<>~;,\"'&|!";
  rl_attempted_completion_function = complete;
  rl_completion_append_character = '\0';
  using_history();
  stifle_history(HISTORY);
  if (history_file(path, sizeof(path))) read_history(path);
}

static void stop_editing(void) {
  char path[MAX_PATH];
  if (!history_file(path, sizeof(path))) return;
  mode_t mask = umask(077); /* what was typed is nobody else's business */
  write_history(path);
  umask(mask);
}

static void remember(const char *line) {
  HIST_ENTRY *last = history_length > 0 ? history_get(history_base + history_length - 1) : NULL;
  if (*line && !(last && strcmp(last->line, line) == 0)) add_history(line);
}

static char *read_line(const char *prompt, bool edit) {
  if (!edit) return read_plain(prompt);
  char *line = readline(prompt);
  if (line) remember(line);
  return line;
}

#else

static void start_editing(lua_State *L) {
  (void)L;
  puts("(built without libedit: no history, no completion)");
}

static void stop_editing(void) {}

static char *read_line(const char *prompt, bool edit) {
  (void)edit;
  return read_plain(prompt);
}

#endif

/* ---- chunks ---- */

typedef enum outcome {
  READY,
  WRONG,
  ENDED,
  CANCELLED
} outcome;

/* Pushes a line as a string. */
static outcome push_line(lua_State *L, const char *prompt, bool edit) {
  luaL_checkstack(L, 8, "prompt");
  mt_main_forget();
  char *line = read_line(prompt, edit);
  if (!line) {
    putchar('\n');
    return mt_main_interrupted() ? CANCELLED : ENDED;
  }
  lua_pushstring(L, line); /* a memory error here leaks one line */
  free(line);
  return READY;
}

static bool is_incomplete(lua_State *L, int status) {
  static const char mark[] = "<eof>";
  size_t len;
  if (status != LUA_ERRSYNTAX) return false;
  const char *msg = lua_tolstring(L, -1, &len);
  return len >= sizeof(mark) - 1 && strcmp(msg + len - (sizeof(mark) - 1), mark) == 0;
}

static int load(lua_State *L, const char *code, size_t len) {
  return luaL_loadbufferx(L, code, len, "=prompt", "t");
}

/* Tries the text on top as an expression: leaves a function above it, or nothing. */
static bool load_expression(lua_State *L) {
  const char *text = lua_tostring(L, -1);
  if (*text == '=') text++;
  lua_pushfstring(L, "return %s", text);
  size_t len;
  const char *code = lua_tolstring(L, -1, &len);
  int status = load(L, code, len);
  lua_remove(L, -2);
  if (status == LUA_OK) return true;
  lua_pop(L, 1);
  return false;
}

/* Reads a chunk; on READY its function is on the stack, on WRONG a message, otherwise nothing. */
static outcome read_chunk(lua_State *L, bool edit) {
  outcome got = push_line(L, first_prompt, edit);
  if (got != READY) return got;
  while (!load_expression(L)) {
    size_t len;
    const char *code = lua_tolstring(L, -1, &len);
    int status = load(L, code, len);
    if (!is_incomplete(L, status)) {
      lua_remove(L, -2);
      return status == LUA_OK ? READY : WRONG;
    }
    lua_pop(L, 1);
    lua_pushliteral(L, "\n");
    got = push_line(L, more_prompt, edit);
    if (got != READY) {
      lua_pop(L, 2);
      return got == ENDED ? CANCELLED : got;
    }
    if (mt_main_interrupted()) { /* Ctrl-C just before the line: it begins a new chunk */
      lua_replace(L, -3);
      lua_pop(L, 1);
    } else {
      lua_concat(L, 3);
    }
  }
  lua_remove(L, -2);
  return READY;
}

/* ---- values ---- */

static int inspect(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_settop(L, 1);
  } else {
    mt_print_inspect(L, 1);
  }
  return 1;
}

/* Shows the values above `base` and removes them; the first becomes `_`. */
static void show(lua_State *L, int base) {
  int n = lua_gettop(L) - base;
  bool several_lines = false;
  if (n == 0) return;
  lua_pushvalue(L, base + 1);
  lua_setglobal(L, "_");
  for (int i = 1; i <= n; i++) {
    lua_pushcfunction(L, inspect);
    lua_pushvalue(L, base + i);
    if (mt_main_call(L, 1, 1) != LUA_OK) {
      mt_main_report(L);
      lua_settop(L, base);
      return;
    }
    lua_replace(L, base + i);
    if (strchr(lua_tostring(L, base + i), '\n')) several_lines = true;
  }
  for (int i = 1; i <= n; i++) {
    size_t len;
    const char *s = lua_tolstring(L, base + i, &len);
    fwrite(s, 1, len, stdout);
    fputs(i == n || several_lines ? "\n" : "\t", stdout);
  }
  fflush(stdout);
  lua_settop(L, base);
}

static void run_chunk(lua_State *L) {
  int base = lua_gettop(L) - 1;
  if (mt_main_call(L, 0, LUA_MULTRET) != LUA_OK) {
    if (mt_main_interrupted()) fputc('\n', stderr); /* the terminal wrote ^C */
    mt_main_report(L);
  } else {
    show(L, base);
  }
  fflush(stdout);
  lua_settop(L, base);
}

void mt_repl_run(lua_State *L) {
  bool edit = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  int base = lua_gettop(L);
  if (edit) start_editing(L);
  for (;;) {
    outcome got = read_chunk(L, edit);
    if (got == ENDED) break;
    if (got == WRONG) mt_main_report(L);
    if (got == READY) run_chunk(L);
    lua_settop(L, base);
  }
  if (edit) stop_editing();
}
