/* SPDX-License-Identifier: MIT */

/* What a -Dchecks=true build adds: misuse is reported in one line on stderr,
 * with the timer and its callback, and ends the program. RIOT#4841, h2o#3243,
 * h2o#2149, tokio#515. */

#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "binding.h"
#include "support.h"

#define TICK_MS 10
#define TIMEOUT_MS 123

static test_timer_t first, second;

/* In a child process: does it with stderr in the pipe. */
static void
misuse_in_child(void (*misuse)(void), int fd)
{
  const struct rlimit none = {0, 0};

  setrlimit(RLIMIT_CORE, &none);
  dup2(fd, STDERR_FILENO);
  misuse();
  _exit(EXIT_SUCCESS);
}

/* The misuse aborts with one line, which begins so and tells the reason. */
static void
expect_abort_with(const char *begin, void (*misuse)(void), const char *why)
{
  char message[1024] = "";
  ssize_t length = 0, more;
  int fds[2], status;
  pid_t child;

  ck_assert_int_eq(pipe(fds), 0);
  child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0)
    misuse_in_child(misuse, fds[1]);
  close(fds[1]);
  while ((more = read(fds[0], message + length,
                      sizeof message - 1 - (size_t)length)) > 0)
    length += more;
  close(fds[0]);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                "status %d, said: %s", status, message);
  ck_assert_msg(strstr(message, begin) == message, "said: %s", message);
  ck_assert_msg(strstr(message, why) != NULL, "said: %s", message);
  ck_assert_ptr_eq(strchr(message, '\n'), message + length - 1);
}

static void
expect_abort(void (*misuse)(void), const char *why)
{
  expect_abort_with("uvwheel: ", misuse, why);
}

/* The line names the first timer and its callback. */
static void
expect_abort_of_first(void (*misuse)(void), const char *why)
{
  char begin[128];

  snprintf(begin, sizeof begin, "uvwheel: timer %p, callback 0x%" PRIxPTR ": ",
           (void *)&first, (uintptr_t)on_test_timer);
  expect_abort_with(begin, misuse, why);
}

static void
start_two(void)
{
  open_wheel(TICK_MS, 8);
  begin_test_timer(&first, TIMEOUT_MS, 500);
  begin_test_timer(&second, TIMEOUT_MS + 1, 0);
}

static void
init_again(void)
{
  (void)uvwheel_timer_init(&wheel, &first.base);
}

START_TEST(init_of_an_active_timer_is_reported)
{
  start_two();
  expect_abort_of_first(init_again, "initialised while active");
}
END_TEST

START_TEST(init_of_idle_timers_and_of_garbage_is_fine)
{
  start_two();
  test_timer_stop(&first);
  init_again();
  memset(&first.base, 0xFF, sizeof first.base);
  init_again();
  first.base = second.base; /* looks active, and is a mere copy */
  init_again();
  test_timer_start(&first, 5, 0);
}
END_TEST

static void
refresh_itself(test_timer_t *timer)
{
  (void)uvwheel_timer_refresh(&timer->base);
}

static void
fire_and_refresh(void)
{
  first.then = refresh_itself;
  uvwheel_timer_set_repeat(&first.base, 0);
  run_for(2 * TIMEOUT_MS);
}

START_TEST(a_refresh_in_its_own_callback_is_reported)
{
  start_two();
  expect_abort_of_first(fire_and_refresh, "refreshed in its own callback");
}
END_TEST

/* ---- Links --------------------------------------------------------------- */

/* A link is broken, and then something is done. Those of a pass stand behind
 * the first two; a pass could go on with them, and would mend the outer ones.
 */
static test_timer_t third, last;

static void
stop(void)
{
  (void)uvwheel_timer_stop(&second.base);
}

static void
restart_earlier(void)
{
  (void)uvwheel_timer_start(&second.base, on_test_timer, 1, 0);
}

static void
pass(void)
{
  run_for(2 * TIMEOUT_MS);
}

static void
walk(void)
{
  core_t *core = &wheel.state->core;

  uvwheel__core_walk_begin(core);
  while (uvwheel__core_walk_next(core) != NULL)
    ;
}

#define LINK(timer) (&(timer).base.entry.link)

static const struct {
  void (*act)(void);
  uvwheel_link_t **broken;
  uvwheel_link_t *link;
} breaks[] = {
    {stop, &LINK(third)->prev, LINK(first)},
    {stop, &LINK(first)->next, LINK(third)},
    {restart_earlier, &LINK(first)->next, LINK(third)},
    {pass, &LINK(first)->prev, LINK(second)},
    {pass, &LINK(third)->prev, LINK(first)},
    {pass, &LINK(last)->next, LINK(second)},
    {walk, &LINK(second)->prev, LINK(third)},
};

static int row;

static void
break_and_act(void)
{
  *breaks[row].broken = breaks[row].link;
  breaks[row].act();
}

START_TEST(a_corrupted_link_is_reported)
{
  row = _i;
  start_two();
  begin_test_timer(&third, TIMEOUT_MS, 0);
  begin_test_timer(&last, TIMEOUT_MS, 0);
  expect_abort(break_and_act, "links were overwritten");
}
END_TEST

static void
insert_again(void)
{
  (void)uvwheel__core_insert(&wheel.state->core, &first.base.entry, 5);
}

START_TEST(an_entry_that_is_inserted_twice_is_reported)
{
  start_two();
  expect_abort_of_first(insert_again, "inserted twice");
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      TEST(init_of_an_active_timer_is_reported),
      TEST(init_of_idle_timers_and_of_garbage_is_fine),
      TEST(a_refresh_in_its_own_callback_is_reported),
      EACH(a_corrupted_link_is_reported, breaks),
      TEST(an_entry_that_is_inserted_twice_is_reported),
  };

  return run_loop_tests("checks", tests, LENGTH(tests));
}
