/* SPDX-License-Identifier: MIT */

/* The promises about time with a coarse clock, as on Linux with 1000 timer
 * interrupts per second: it is a millisecond behind a stopwatch, besides the
 * fraction of one that libuv drops. It chooses its clock once per program. */

#include "support.h"

#include <sys/resource.h>

#define NS_PER_MS 1000000u

static const uint64_t ticks_ms[] = {1, 3};

/* Starts the timer at a fresh loop time and runs the loop until it has fired;
 * what runs in an iteration before its poll takes step_ns. Returns the time
 * that passed by uv_hrtime. */
static uint64_t stopwatch_ns(test_timer_t *timer, uint64_t timeout,
                             uint64_t step_ns) {
  unsigned fired = timer->fired;
  uint64_t begin_ns;

  uv_update_time(&loop);
  begin_ns = uv_hrtime();
  test_timer_start(timer, timeout, 0);
  while (timer->fired == fired) {
    virtual_time_advance_ns(step_ns);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  return uv_hrtime() - begin_ns;
}

/* P1. The steps of a real clock take about a millisecond, so each phase of them
 * meets each phase of a millisecond, at the start and at the end. The loop is
 * busy and finds the timer due at once. */
START_TEST(a_stopwatch_never_reads_less_than_the_timeout_by_a_coarse_clock) {
  static test_timer_t timer;
  uint64_t i;

  virtual_time_set_coarse_step_ns(NS_PER_MS * 9 / 10);
  open_wheel(ticks_ms[_i], 8);
  test_timer_init(&timer);
  for (i = 0; i < 2000; i++) {
    uint64_t timeout = i % 13, step_ns = (i % 7 + 1) * 10001;
    virtual_time_advance_ns(i % 101 * 10007);
    require(stopwatch_ns(&timer, timeout, step_ns) >= timeout * NS_PER_MS);
  }
}
END_TEST

/* P1. Not later, and without a wake-up in vain. */
START_TEST(by_a_coarse_clock_timers_fire_a_millisecond_after_their_tick) {
  static test_timer_t timer;
  uint64_t ms;

  virtual_time_set_coarse_step_ns(NS_PER_MS);
  open_wheel(10, 8);
  test_timer_init(&timer);
  for (ms = 0; ms < 200; ms++) {
    test_timer_start(&timer, ms, 0);
    run_for(tick_ms_after(10, timer.due_ms) - uv_now(&loop));
    ck_assert_uint_eq(timer.fired, ms);
    advance_loop_ms(1);
    ck_assert_uint_eq(stats_of_wheel().overdue_ms, 0);
    run_for(0);
    ck_assert_uint_eq(timer.fired, ms + 1);
    ck_assert_uint_eq(stats_of_wheel().turns, ms + 1);
    run_for(ms % 7);
  }
}
END_TEST

static uint64_t polls_until_loop_ends(void) {
  uint64_t polls = virtual_time_polls();

  virtual_time_advance_ns(NS_PER_MS / 7);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  return virtual_time_polls() - polls;
}

/* P9. In each phase of the clock, after a uv_timer_t that takes as long.
 * The sockets are asked once. */
START_TEST(by_a_coarse_clock_a_turn_takes_the_polls_of_a_uv_timer) {
  static uv_timer_t model;
  static test_timer_t timer;
  uint64_t expected = 0, polls = 0, peeks, i;

  virtual_time_set_coarse_step_ns(NS_PER_MS * 9 / 10);
  open_wheel(10, 8);
  test_timer_init(&timer);
  ck_assert_int_eq(uv_timer_init(&loop, &model), 0);
  peeks = virtual_time_peeks();
  for (i = 0; i < 400; i++) {
    ck_assert_int_eq(uv_timer_start(&model, ignore_uv_timer, 100, 0), 0);
    expected += polls_until_loop_ends();
    test_timer_start(&timer, 100, 0);
    polls += polls_until_loop_ends();
  }
  ck_assert_uint_eq(timer.fired, 400);
  ck_assert_uint_le(polls, expected);
  ck_assert_uint_le(virtual_time_peeks() - peeks, 400);
}
END_TEST

/* P6, P8. Where poll(2) fails, what had come before the last turn ended counts
 * as heard; but the loop's clock may be behind that time, as here between its
 * steps, which come at x.9 ms. */
START_TEST(by_a_coarse_clock_no_turn_is_empty_where_poll_fails) {
  static test_timer_t timers[100];
  struct rlimit limit, none;
  unsigned i;

  virtual_time_set_ns(virtual_time_ns() + NS_PER_MS * 9 / 10);
  virtual_time_set_coarse_step_ns(NS_PER_MS);
  virtual_time_advance_ns(NS_PER_MS / 2);
  virtual_time_set_read_ns(200);
  open_wheel_with(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 10});
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], 100, 0);
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = (struct rlimit){0, limit.rlim_max};
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
  run_for(200);
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  virtual_time_set_read_ns(0);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  ck_assert_uint_eq(stats_of_wheel().turns, 10);
  ck_assert_uint_eq(stats_of_wheel().turns_cut, 9);
}
END_TEST

/* P6. The loop's clock is behind the real one by up to stall_ms. At first
 * nothing is ever due. */
START_TEST(the_steps_of_a_clock_are_no_stalls) {
  static test_timer_t timer, never;

  virtual_time_set_coarse_step_ns(NS_PER_MS);
  open_wheel_with(&(uvwheel_options_t){.tick_ms = 10, .stall_ms = 1});
  begin_test_timer(&never, UINT64_MAX, 0);
  run_for(1000);
  begin_test_timer(&timer, 17, 170);
  run_for(100000);
  ck_assert_uint_ge(timer.fired, 580);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

/* P7. It begins a new beat if it is late by more than stall_ms and a wait. */
START_TEST(by_a_coarse_clock_a_repeat_may_be_a_millisecond_later) {
  static test_timer_t timer;

  virtual_time_set_coarse_step_ns(NS_PER_MS);
  open_wheel(100, 0);
  begin_test_timer(&timer, 10000, 10000);
  come_late(timer.due_ms, UVWHEEL_DEFAULT_STALL_MS + 25 + 1);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(timer.due_ms, START_MS + 20000);
}
END_TEST

static void expect_whole_repeat(test_timer_t *timer) {
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base),
                    uvwheel_timer_get_repeat(&timer->base));
}

/* P1, P7. Not a millisecond sooner, by which the clock may lag. */
START_TEST(by_a_coarse_clock_a_delayed_repeat_waits_for_all_of_it) {
  static test_timer_t timer;

  virtual_time_set_coarse_step_ns(NS_PER_MS);
  open_wheel(1, 0);
  test_timer_init(&timer);
  timer.then = expect_whole_repeat;
  ck_assert_int_eq(uvwheel_timer_set_missed(&timer.base, UVWHEEL_MISSED_DELAY),
                   0);
  test_timer_start(&timer, 20, 20);
  run_for(2200);
  ck_assert_uint_eq(timer.fired, 100);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_stopwatch_never_reads_less_than_the_timeout_by_a_coarse_clock,
           ticks_ms),
      TEST(by_a_coarse_clock_timers_fire_a_millisecond_after_their_tick),
      TEST(by_a_coarse_clock_a_turn_takes_the_polls_of_a_uv_timer),
      TEST(by_a_coarse_clock_no_turn_is_empty_where_poll_fails),
      TEST(the_steps_of_a_clock_are_no_stalls),
      TEST(by_a_coarse_clock_a_delayed_repeat_waits_for_all_of_it),
      TEST(by_a_coarse_clock_a_repeat_may_be_a_millisecond_later),
  };

  virtual_time_set_coarse_step_ns(NS_PER_MS);
  return run_loop_tests("time_coarse", tests, LENGTH(tests));
}
