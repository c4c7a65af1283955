/* main.c - the interpreter: `moth [options] [script [args]]`.
 *
 * The options are lua's. A script gets its arguments in `arg` and `...`; `moth` and `help` are
 * globals. An error ends the program with a traceback on stderr and status 1, Ctrl-C with status
 * 130. Without arguments a terminal gets the prompt (repl.c), anything else is run as a program.
 *
 * This is the only file of the project that handles signals: the library leaves them to its host.
 * The handler asks the running script to stop; the default action comes back for a second Ctrl-C,
 * so a script that does not stop can always be ended. */
#include "main.h"

#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../kernels/kernel.h"

/* A signal handler has no other way to find them. */
static lua_State *volatile running;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig) {
  interrupted = 1;
  if (!running) return; /* at the prompt: its read ends with EINTR */
  signal(sig, SIG_DFL);
  moth_lua_interrupt(running);
}

static void watch(void) {
  struct sigaction sa;
  memset(&sa, 0, sizeof(sa));
  sa.sa_handler = on_interrupt; /* no SA_RESTART: reading a line must end */
  sigaction(SIGINT, &sa, NULL);
}

bool mt_main_interrupted(void) { return interrupted != 0; }

void mt_main_forget(void) {
  interrupted = 0;
  watch();
}

static int add_traceback(lua_State *L) {
  const char *msg = lua_tostring(L, 1);
  if (!msg) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) return 1;
    msg = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  }
  luaL_traceback(L, L, msg, 1);
  return 1;
}

int mt_main_call(lua_State *L, int narg, int nres) {
  int base = lua_gettop(L) - narg;
  lua_pushcfunction(L, add_traceback);
  lua_insert(L, base);
  mt_main_forget();
  running = L;
  int status = lua_pcall(L, narg, nres, base);
  running = NULL;
  if (interrupted) moth_lua_resume(L);
  watch();
  lua_remove(L, base);
  return status;
}

void mt_main_report(lua_State *L) {
  const char *msg = lua_tostring(L, -1);
  fflush(stdout);
  fprintf(stderr, "moth: %s\n", msg ? msg : "(error without a message)");
  fflush(stderr);
  lua_pop(L, 1);
}

void mt_main_version(lua_State *L) {
  printf("Moth %s  (%s.%s, %s, %d threads)\n", MOTH_VERSION, LUA_VERSION, LUA_VERSION_RELEASE,
         mt_isa_name(mt_isa_choose()), moth_threads(moth_lua_runtime(L)));
}

static int usage(FILE *f) {
  fputs(
      "usage: moth [options] [script [args]]\n"
      "  -e CODE   run CODE\n"
      "  -l MOD    require MOD into a global of that name (-l NAME=MOD: another name)\n"
      "  -i        prompt after the script\n"
      "  -v        version\n"
      "  -h        this text\n"
      "  -         run a program from standard input\n"
      "  --        end of options\n"
      "Without arguments: the prompt on a terminal, otherwise a program from standard input.\n",
      f);
  return f == stderr ? 1 : 0;
}

/* ---- running things: true when all went well ---- */

static bool finish(lua_State *L, int status) {
  if (status == LUA_OK) return true;
  mt_main_report(L);
  return false;
}

static bool run_code(lua_State *L, const char *code) {
  int status = luaL_loadbuffer(L, code, strlen(code), "=(command line)");
  return finish(L, status == LUA_OK ? mt_main_call(L, 0, 0) : status);
}

static bool run_module(lua_State *L, const char *spec) {
  const char *eq = strchr(spec, '='), *module = eq ? eq + 1 : spec;
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  int status = mt_main_call(L, 1, 1);
  if (status != LUA_OK) return finish(L, status);
  lua_pushlstring(L, spec, eq ? (size_t)(eq - spec) : strlen(spec));
  lua_insert(L, -2);
  lua_pushglobaltable(L);
  lua_insert(L, -3);
  lua_settable(L, -3);
  lua_pop(L, 1);
  return true;
}

/* `name` NULL: standard input. The arguments are those behind argv[first]. */
static bool run_script(lua_State *L, const char *name, int argc, char **argv, int first) {
  int status = luaL_loadfile(L, name), narg = 0;
  if (status == LUA_OK) {
    luaL_checkstack(L, argc - first + 3, "too many arguments");
    for (int i = first + 1; i < argc; i++, narg++) lua_pushstring(L, argv[i]);
    status = mt_main_call(L, narg, 0);
  }
  return finish(L, status);
}

/* ---- the command line ---- */

typedef struct command {
  int script; /* position in argv, argc: none */
  bool interactive, version, code;
} command;

/* Whether argv[i] is an option that takes a word, and which: the rest of it or the next one. */
static const char *option_word(char **argv, int argc, int *i) {
  if (argv[*i][2]) return argv[*i] + 2;
  return *i + 1 < argc ? argv[++*i] : NULL;
}

/* Returns what is wrong, or NULL. */
static const char *read_options(command *c, int argc, char **argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
    if (strcmp(argv[i], "--") == 0) {
      i++;
      break;
    }
    char o = argv[i][1];
    if (o == 'e' || o == 'l') {
      c->code |= o == 'e';
      if (!option_word(argv, argc, &i)) return "an option needs a word behind it";
    } else if (argv[i][2] || !strchr("ivh", o)) {
      return argv[i];
    }
    c->interactive |= o == 'i';
    c->version |= o == 'v' || o == 'i';
    if (o == 'h') return "";
  }
  c->script = i;
  return NULL;
}

static bool run_options(lua_State *L, int script, int argc, char **argv) {
  for (int i = 1; i < script; i++) {
    char o = argv[i][1];
    if (o != 'e' && o != 'l') continue;
    const char *word = option_word(argv, argc, &i);
    if (!(o == 'e' ? run_code(L, word) : run_module(L, word))) return false;
  }
  return true;
}

/* arg[0] is the script, options lie before it. */
static void set_arg(lua_State *L, int argc, char **argv, int script) {
  if (script == argc) script = 0;
  lua_createtable(L, argc - script, script + 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

static void set_globals(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moth");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "help");
  lua_setglobal(L, "help");
  lua_setglobal(L, "moth");
}

static bool run(lua_State *L, const command *c, int argc, char **argv) {
  if (!run_options(L, c->script, argc, argv)) return false;
  if (c->script < argc) {
    const char *name = argv[c->script];
    if (strcmp(name, "-") == 0 && strcmp(argv[c->script - 1], "--") != 0) name = NULL;
    bool ok = run_script(L, name, argc, argv, c->script);
    if (!ok && !c->interactive) return false;
  }
  if (c->interactive) {
    mt_repl_run(L);
  } else if (c->script == argc && !c->code && !c->version) {
    if (!isatty(STDIN_FILENO)) return run_script(L, NULL, argc, argv, argc);
    mt_main_version(L);
    mt_repl_run(L);
  }
  return true;
}

typedef struct task {
  const command *c;
  int argc;
  char **argv;
  bool ok;
} task;

static int protected_main(lua_State *L) {
  task *t = lua_touserdata(L, 1);
  set_globals(L);
  set_arg(L, t->argc, t->argv, t->c->script);
  if (t->c->version) mt_main_version(L);
  t->ok = run(L, t->c, t->argc, t->argv);
  return 0;
}

int main(int argc, char **argv) {
  command c = {0};
  const char *wrong = read_options(&c, argc, argv);
  if (wrong) {
    if (*wrong) fprintf(stderr, "moth: wrong option: %s\n", wrong);
    return usage(*wrong ? stderr : stdout);
  }
  signal(SIGPIPE, SIG_DFL); /* `moth ... | head` ends quietly even if a parent ignored it */
  lua_State *L = moth_lua_open(NULL);
  if (!L) {
    fputs("moth: not enough memory\n", stderr);
    return 1;
  }
  task t = {&c, argc, argv, false};
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, &t);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) mt_main_report(L);
  moth_lua_close(L);
  if (t.ok) return 0;
  return interrupted ? 130 : 1;
}
