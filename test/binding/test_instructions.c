/* SPDX-License-Identifier: MIT */

/* How many instructions a call takes depends on the compiler. But on a timer of
 * the wheel that the thread used last it takes fewer than on another's. */

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* On each wheel one is active, one is idle, and one more is active. */
static uvwheel_timer_t timers[2][3];

static int start(uvwheel_timer_t *timer) {
  return uvwheel_timer_start(timer, on_test_timer, 1000, 0);
}

static int expect(uvwheel_timer_t *timer) {
  return uvwheel_timer_expect(timer, on_test_timer, 1000);
}

static int start_repeating(uvwheel_timer_t *timer) {
  return uvwheel_timer_start(timer, on_test_timer, 1000, 1000);
}

static int (*const calls[])(uvwheel_timer_t *) = {
    uvwheel_timer_refresh, uvwheel_timer_again, uvwheel_timer_stop, expect,
    start};

/* Is it usually called on an idle timer? */
static bool is_start(int (*call)(uvwheel_timer_t *)) {
  return call == start || call == expect;
}

/* Makes a call in a child that stops after each instruction, as for a debugger.
 * Returns 0 where the system cannot do that, as in an emulator. */
static uint64_t count_instructions(int (*call)(uvwheel_timer_t *),
                                   uvwheel_timer_t *timer) {
  uint64_t count = 0;
  int status = 0;
  pid_t child = fork();

  ck_assert_int_ge(child, 0);
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
      (void)raise(SIGSTOP);
    _exit(call(timer) != 0);
  }
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    count++;
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) {
      (void)kill(child, SIGKILL);
      return 0;
    }
  }
  ck_assert_int_eq(status, 0);
  return count;
}

static int do_nothing(uvwheel_timer_t *timer) {
  (void)timer;
  return 0;
}

/* Without what the child itself takes. */
static uint64_t instructions_of(int (*call)(uvwheel_timer_t *),
                                uvwheel_timer_t *timer) {
  return count_instructions(call, timer) -
         count_instructions(do_nothing, timer);
}

START_TEST(a_call_on_the_wheel_used_last_takes_fewer_instructions) {
  static uvwheel_t wheels[2];
  uint64_t on_last, on_other;
  int i, j;

  for (i = 0; i < 2; i++) {
    ck_assert_int_eq(uvwheel_init(&loop, &wheels[i], NULL), 0);
    for (j = 0; j < 3; j++)
      ck_assert_int_eq(uvwheel_timer_init(&wheels[i], &timers[i][j]), 0);
    ck_assert_int_eq(start_repeating(&timers[i][0]), 0);
    /* The first refresh after a start takes some more. */
    ck_assert_int_eq(uvwheel_timer_refresh(&timers[i][0]), 0);
    ck_assert_int_eq(start_repeating(&timers[i][2]), 0);
  }
  for (i = 0; i < (int)LENGTH(calls); i++)
    for (j = 0; j <= is_start(calls[i]); j++) {
      on_last = count_instructions(calls[i], &timers[1][j]);
      on_other = count_instructions(calls[i], &timers[0][j]);
      require(on_last == 0 || on_last < on_other);
    }
  for (i = 0; i < 2; i++)
    uvwheel_close(&wheels[i], NULL);
  run_for(0);
}
END_TEST

/* Scenario 73. Beside an unref'd timer each call takes a fifth more at most. */
START_TEST(a_timer_that_is_unref_d_makes_the_calls_of_others_hardly_dearer) {
  static uvwheel_timer_t unref_d;
  uint64_t without[LENGTH(calls)], beside;
  size_t i;

  open_wheel(0, 0);
  for (i = 0; i < 3; i++)
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &timers[0][i]), 0);
  ck_assert_int_eq(start(&timers[0][0]), 0);
  ck_assert_int_eq(start(&timers[0][2]), 0);
  for (i = 0; i < LENGTH(calls); i++)
    without[i] = instructions_of(calls[i], &timers[0][is_start(calls[i])]);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &unref_d), 0);
  uvwheel_timer_unref(&unref_d);
  ck_assert_int_eq(uvwheel_timer_start(&unref_d, on_test_timer, 5000, 0), 0);
  for (i = 0; i < LENGTH(calls); i++) {
    beside = instructions_of(calls[i], &timers[0][is_start(calls[i])]);
    require(5 * beside <= 6 * without[i]);
  }
}
END_TEST

START_TEST(a_start_after_a_stop_takes_no_more_than_the_first_one) {
  uvwheel_timer_t *timer = &timers[0][0], *other = &timers[0][1];
  uint64_t first;
  int i;

  open_wheel(0, 0);
  for (i = 0; i < 3; i++)
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &timers[0][i]), 0);
  first = count_instructions(start_repeating, other); /* an unusual one */
  ck_assert_int_eq(start(timer), 0);
  ck_assert_int_eq(uvwheel_timer_stop(timer), 0);
  require(first == 0 || count_instructions(start, other) < first);
  require(10 * instructions_of(expect, other) <=
          11 * instructions_of(start, other));
  if (_i == 0) /* or the stop is an unusual one */
    ck_assert_int_eq(start(&timers[0][2]), 0);
  ck_assert_int_eq(start(timer), 0);
  ck_assert_int_eq(uvwheel_timer_refresh(timer), 0);
  ck_assert_int_eq(uvwheel_timer_stop(timer), 0);
  ck_assert_uint_eq(count_instructions(start, timer),
                    count_instructions(start, other));
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(a_call_on_the_wheel_used_last_takes_fewer_instructions),
      TEST(a_timer_that_is_unref_d_makes_the_calls_of_others_hardly_dearer),
      {a_start_after_a_stop_takes_no_more_than_the_first_one, 0, 2}};

  return run_loop_tests("instructions", tests, LENGTH(tests));
}
