/* test_repl.c - the prompt, driven through a pseudo-terminal as a person drives it.
 *
 * The program under test is $MOTH or build/moth. What is expected never occurs in what is typed, so
 * the terminal's echo cannot pass for an answer. */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

Suite *repl_suite(void);

enum {
  SECONDS = 20
};

typedef struct terminal {
  pid_t pid;
  int fd;
  size_t n, seen; /* bytes in out; those before `seen` were matched */
  char out[1 << 16];
} terminal;

static char history[64];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_child(const char *slave) {
  const char *moth = getenv("MOTH") ? getenv("MOTH") : "build/moth";
  setsid();
  int fd = open(slave, O_RDWR);
  ioctl(fd, TIOCSCTTY, 0);
  for (int i = 0; i < 3; i++) dup2(fd, i);
  setenv("TERM", "vt100", 1);
  setenv("MOTH_HISTORY", history, 1);
  execl(moth, "moth", (char *)NULL);
  _exit(127);
}

static void start(terminal *t) {
  memset(t, 0, sizeof(*t));
  t->fd = posix_openpt(O_RDWR | O_NOCTTY);
  ck_assert_int_ge(t->fd, 0);
  ck_assert_int_eq(grantpt(t->fd), 0);
  ck_assert_int_eq(unlockpt(t->fd), 0);
  const char *slave = ptsname(t->fd);
  t->pid = fork();
  if (t->pid == 0) run_child(slave);
  ck_assert_int_gt(t->pid, 0);
}

/* Reads what comes within the time; false at the end. */
static int more(terminal *t, double seconds) {
  struct pollfd p = {t->fd, POLLIN, 0};
  if (seconds <= 0 || poll(&p, 1, (int)(seconds * 1000) + 1) <= 0) return 0;
  ck_assert_uint_lt(t->n, sizeof(t->out) - 1);
  ssize_t got = read(t->fd, t->out + t->n, sizeof(t->out) - 1 - t->n);
  if (got <= 0) return 0;
  t->n += (size_t)got;
  t->out[t->n] = 0;
  return 1;
}

/* Waits for text behind what was matched before. */
static void expect(terminal *t, const char *text) {
  double end = now() + SECONDS;
  for (;;) {
    const char *at = strstr(t->out + t->seen, text);
    if (at) {
      t->seen = (size_t)(at - t->out) + strlen(text);
      return;
    }
    if (!more(t, end - now())) break;
  }
  kill(t->pid, SIGKILL);
  ck_abort_msg("expected \"%s\" behind: %s", text, t->out + t->seen);
}

static void type(terminal *t, const char *keys) {
  ck_assert_int_eq(write(t->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Waits until the line editor has the terminal, which takes Ctrl-D for itself before that. */
static void await_editor(terminal *t) {
  struct termios mode;
  double end = now() + SECONDS;
  expect(t, "> ");
  while (tcgetattr(t->fd, &mode) == 0 && (mode.c_lflag & ICANON) && now() < end) more(t, 0.01);
}

/* Ctrl-D at the next prompt; returns the exit status. */
static int leave(terminal *t) {
  int status = 0;
  await_editor(t);
  double end = now() + SECONDS;
  type(t, "\4");
  while (waitpid(t->pid, &status, WNOHANG) == 0) {
    if (now() > end) kill(t->pid, SIGKILL);
    more(t, 0.05);
  }
  close(t->fd);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_history(void) {
  strcpy(history, "/tmp/moth_history_XXXXXX");
  int fd = mkstemp(history);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

static void drop_history(void) { unlink(history); }

static terminal term; /* one per forked test */

START_TEST(expressions_are_shown_and_kept) {
  terminal *t = &term;
  start(t);
  expect(t, "> ");
  type(t, "6 * 7\n");
  expect(t, "\n42\r\n");
  type(t, "_ + 1\n");
  expect(t, "\n43\r\n");
  type(t, "= 3 * 5, 'a' .. 'b'\n");
  expect(t, "\n15\tab\r\n");
  type(t, "{b = 2, a = {1, 2}}\n");
  expect(t, "{a = {1, 2}, b = 2}");
  type(t, "moth.ones(2)\n");
  expect(t, "tensor([1., 1.]");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST

START_TEST(incomplete_chunks_continue) {
  terminal *t = &term;
  start(t);
  type(t, "for i = 1, 2 do\n");
  expect(t, ">> ");
  type(t, "print(i * 111)\nend\n");
  expect(t, "\n111\r\n");
  expect(t, "222\r\n");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST

START_TEST(errors_keep_the_session) {
  terminal *t = &term;
  start(t);
  type(t, "x = 5\n");
  type(t, "error('bo' .. 'om')\n");
  expect(t, "boom");
  type(t, "x x\n");
  expect(t, "syntax error");
  type(t, "moth.ones(2, 3) + moth.ones(4)\n");
  expect(t, "(2, 3)");
  type(t, "x * 11\n");
  expect(t, "\n55\r\n");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST

static const char *const endless[] = {
    "while true do end\n",
    "while true do pcall(function() while true do end end) end\n",
    "local a = moth.ones(100); while true do a = a * 1 end\n",
    "coroutine.wrap(function() local a = moth.ones(9); while true do pcall(moth.add, a, a) end "
    "end)()\n",
    "coroutine.wrap(function() while true do end end)()\n",
    "coroutine.resume(coroutine.create(function() coroutine.wrap(function() while true do end "
    "end)() "
    "end))\n",
    "local a = moth.ones(512, 512); while true do a = a:matmul(a) end\n",
};

START_TEST(interrupt_returns_to_the_prompt) {
  terminal *t = &term;
  start(t);
  type(t, "x = 5\n");
  expect(t, "> ");
  type(t, endless[_i]);
  for (double end = now() + 0.4; now() < end;) more(t, end - now());
  double pressed = now();
  type(t, "\3");
  expect(t, "interrupted");
  expect(t, "> ");
  ck_assert_double_lt(now() - pressed, 1);
  type(t, "x * 11 + moth.ones(2):sum():item()\n");
  expect(t, "\n57.0\r\n");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST

START_TEST(interrupt_at_the_prompt_drops_the_line) {
  terminal *t = &term;
  start(t);
  expect(t, "> ");
  type(t, "garbage");
  expect(t, "garbage");
  type(t, "\3");
  expect(t, "> ");
  type(t, "for i = 1, 2 do\n");
  expect(t, ">> ");
  type(t, "\3");
  type(t, "6 * 7\n");
  expect(t, "\n42\r\n");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST

#if __has_include(<editline/readline.h>) /* as the Makefile decides */
START_TEST(tab_completes_names) {
  terminal *t = &term;
  start(t);
  type(t, "moth.linspac\t(1, 3, 3)\n");
  expect(t, "tensor([1., 2., 3.]");
  type(t, "some_tensor = moth.ones(4)\n");
  type(t, "some_te\t:resha\t(2, 2)\n");
  expect(t, "size=(2, 2)");
  type(t, "string.form\t('%d-%d', 12, 34)\n");
  expect(t, "\n12-34\r\n");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST

START_TEST(history_survives_the_session) {
  terminal *t = &term;
  start(t);
  type(t, "11 * 11\n");
  expect(t, "\n121\r\n");
  ck_assert_int_eq(leave(t), 0);
  start(t);
  expect(t, "> ");
  type(t, "\x1b[A\n");
  expect(t, "\n121\r\n");
  ck_assert_int_eq(leave(t), 0);
}
END_TEST
#endif

Suite *repl_suite(void) {
  Suite *s = suite_create("repl");
  TCase *t = tcase_create("repl");
  tcase_set_timeout(t, 60);
  tcase_add_checked_fixture(t, make_history, drop_history);
  tcase_add_test(t, expressions_are_shown_and_kept);
  tcase_add_test(t, incomplete_chunks_continue);
  tcase_add_test(t, errors_keep_the_session);
  tcase_add_loop_test(t, interrupt_returns_to_the_prompt, 0,
                      (int)(sizeof(endless) / sizeof(endless[0])));
  tcase_add_test(t, interrupt_at_the_prompt_drops_the_line);
#if __has_include(<editline/readline.h>)
  tcase_add_test(t, tab_completes_names);
  tcase_add_test(t, history_survives_the_session);
#endif
  suite_add_tcase(s, t);
  return s;
}
