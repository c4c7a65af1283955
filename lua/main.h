/* main.h - what the interpreter's two files share. */
#ifndef MT_LUA_MAIN_H
#define MT_LUA_MAIN_H

#include "moth_lua.h"

/* Calls the function below `narg` arguments with a traceback on errors; Ctrl-C stops it. Returns a
 * Lua status; the results or the message are on the stack. */
int mt_main_call(lua_State *L, int narg, int nres);
/* Whether Ctrl-C was pressed since the last mt_main_call began or mt_main_forget. */
bool mt_main_interrupted(void);
void mt_main_forget(void);
/* Writes the error message on top of the stack to stderr and pops it. */
void mt_main_report(lua_State *L);
/* "Moth 0.1.0  (Lua 5.4.4, x86-64 v3, 2 threads)" */
void mt_main_version(lua_State *L);

/* The prompt; returns at the end of input (repl.c). */
void mt_repl_run(lua_State *L);

#endif
