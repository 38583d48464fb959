/* SPDX-License-Identifier: MIT */

/* What goes wrong around a wheel: processes that fork, clocks that leap, and
 * callbacks that block. */

#include "support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOUR_MS INT64_C(3600000)

/* ---- Fork ---------------------------------------------------------------- */

static void
stop_the_loop(test_timer_t *timer)
{
  (void)timer;
  uv_stop(&loop);
}

static void
close_any(uv_handle_t *handle, void *arg)
{
  (void)arg;
  if (!uv_is_closing(handle))
    uv_close(handle, NULL);
}

_Noreturn static void
end_of_child(void)
{
  uvwheel_close(&wheel, NULL);
  uv_walk(&loop, close_any, NULL);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
  _exit(0);
}

static test_timer_t forked[30];

static void
start_forked(void)
{
  const uvwheel_options_t options = {
      .tick_ms = 10, .slots = 8, .turn_budget = 7};
  size_t i;

  open_wheel_with(&options);
  test_timer_init_all(forked, LENGTH(forked));
  for (i = 0; i < LENGTH(forked); i++)
    test_timer_start(&forked[i], i < 20 ? 5 : 100, 0);
}

static void
fork_and_go_on(void)
{
  pid_t pid = fork();
  int status;
  size_t i;

  ck_assert_int_ge(pid, 0);
  if (pid == 0)
    ck_assert_int_eq(uv_loop_fork(&loop), 0);
  run_for(1000);
  for (i = 0; i < LENGTH(forked); i++)
    ck_assert_uint_eq(forked[i].fired, 1);
  expect_punctual(&forked[0], 50);
  if (pid == 0)
    end_of_child();
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
}

START_TEST(after_a_fork_parent_and_child_both_go_on)
{
  start_forked();
  fork_and_go_on();
}
END_TEST

START_TEST(after_a_fork_in_the_middle_of_a_batch_both_go_on)
{
  size_t i;

  start_forked();
  for (i = 0; i < LENGTH(forked); i++)
    forked[i].then = stop_the_loop;
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_uint_eq(fired_in_all, 7);
  for (i = 0; i < LENGTH(forked); i++)
    forked[i].then = NULL;
  fork_and_go_on();
}
END_TEST

/* ---- Many wheels --------------------------------------------------------- */

#define WHEELS 1000

typedef struct station_s {
  uvwheel_t wheel;
  uvwheel_timer_t timer;
  uint64_t fires_ms;
  unsigned fired;
} station_t;

static station_t stations[WHEELS];

static void
on_station(uvwheel_timer_t *timer)
{
  station_t *station = timer->data;

  station->fired++;
  ck_assert_uint_eq(uv_now(&loop), station->fires_ms);
}

static void
start_station(size_t i)
{
  station_t *station = &stations[i];
  uint64_t timeout = i * 7 % 1000;

  station->fires_ms =
      tick_ms_after(station->wheel.core.tick_ms, uv_now(&loop) + timeout);
  ck_assert_int_eq(uvwheel_timer_start(&station->timer, on_station, timeout, 0),
                   0);
}

START_TEST(a_thousand_wheels_share_a_loop)
{
  size_t i;

  for (i = 0; i < WHEELS; i++) {
    const uvwheel_options_t options = {.tick_ms = 1 + i % 50,
                                       .slots = 1 + (uint32_t)i % 8};
    station_t *station = &stations[i];
    ck_assert_int_eq(uvwheel_init(&loop, &station->wheel, &options), 0);
    ck_assert_int_eq(uvwheel_timer_init(&station->wheel, &station->timer), 0);
    station->timer.data = station;
    start_station(i);
  }
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES * WHEELS);
  run_for(1100);
  for (i = 0; i < WHEELS; i++) {
    ck_assert_uint_eq(stations[i].fired, 1);
    start_station(i);
    if (i % 2)
      uvwheel_close(&stations[i].wheel, NULL);
  }
  run_for(1100);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES * WHEELS / 2);
  for (i = 0; i < WHEELS; i++) {
    ck_assert_uint_eq(stations[i].fired, i % 2 ? 1 : 2);
    uvwheel_close(&stations[i].wheel, NULL);
  }
}
END_TEST

/* ---- Time ---------------------------------------------------------------- */

#define TICK_MS 10
#define SLOTS 8
#define ROUND_MS (TICK_MS * SLOTS)

#define BLOCKERS 40

static uint64_t unblocked_ms;

static void
block(test_timer_t *timer)
{
  virtual_time_advance_ms(10 * ROUND_MS);
  unblocked_ms = virtual_time_ns() / 1000000;
  if (timer->arg != NULL)
    uv_update_time(&loop);
}

static void
block_in(int number, bool updates)
{
  static test_timer_t timers[BLOCKERS];
  test_timer_t *blocker = &timers[number];
  uint64_t blocked_ms, late_ms;
  size_t i;

  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], i / 2 * (ROUND_MS - 3), 0);
  blocker->then = block;
  blocker->arg = updates ? blocker : NULL;
  blocked_ms = tick_ms_after(TICK_MS, blocker->due_ms);
  run_for(10000);
  late_ms = unblocked_ms + ROUND_MS;
  for (i = 0; i < LENGTH(timers); i++) {
    uint64_t tick_ms = tick_ms_after(TICK_MS, timers[i].due_ms);
    ck_assert_uint_eq(timers[i].fired, 1);
    if (tick_ms < blocked_ms || tick_ms > late_ms)
      ck_assert_uint_eq(timers[i].fired_ms, tick_ms);
    else
      ck_assert_uint_le(timers[i].fired_ms, late_ms);
  }
}

/* Each timer in turn. libuv goes on with the time it knows, and sleeps until
 * what was to come next, here a round: that lateness is the loop's own. */
START_TEST(a_callback_that_blocks_for_ten_rounds_delays_and_loses_nothing)
{
  block_in(_i, false);
}
END_TEST

START_TEST(a_callback_that_blocks_and_updates_the_time_loses_nothing)
{
  block_in(_i, true);
}
END_TEST

START_TEST(nothing_happens_when_the_ticks_need_33_bits)
{
  static const uint64_t ticks_ms[] = {1, 7, 100};
  const uint64_t tick_ms = ticks_ms[_i];
  const uint64_t overflow_ms = ((uint64_t)UINT32_MAX + 1) * tick_ms;
  static test_timer_t early, at, late, timer;

  open_wheel(tick_ms, SLOTS);
  test_timer_init(&early);
  test_timer_init(&at);
  test_timer_init(&late);
  test_timer_init(&timer);
  test_timer_start(&early, overflow_ms - tick_ms - START_MS, 0);
  test_timer_start(&at, overflow_ms - START_MS, 0);
  test_timer_start(&late, overflow_ms + tick_ms - START_MS, 0);
  run_for(overflow_ms - 20 * tick_ms - START_MS);
  while (uv_now(&loop) < overflow_ms + 20 * tick_ms)
    expect_punctual(&timer, uv_now(&loop) % (2 * ROUND_MS));
  ck_assert_uint_eq(early.fired_ms, overflow_ms);
  ck_assert_uint_eq(at.fired_ms, overflow_ms + tick_ms);
  ck_assert_uint_eq(late.fired_ms, overflow_ms + 2 * tick_ms);
  rewind_clock();
}
END_TEST

/* haproxy#2704: a clock that steps back by hours and leaps ahead by more. */
START_TEST(a_clock_that_leaps_to_and_fro_fires_each_timer_once)
{
  static const int64_t leaps_ms[] = {-HOUR_MS,     3 * HOUR_MS,  -2 * HOUR_MS,
                                     8 * HOUR_MS,  -5 * HOUR_MS, 100 * HOUR_MS,
                                     -99 * HOUR_MS};
  static test_timer_t timers[40], timer;
  uint64_t latest_ms = 0;
  size_t i, leap;

  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init_all(timers, LENGTH(timers));
  test_timer_init(&timer);
  run_for(10 * HOUR_MS);
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], (uint64_t)i * HOUR_MS / 2 + 17, 0);
  for (leap = 0; leap < LENGTH(leaps_ms); leap++) {
    virtual_time_advance_ms((uint64_t)leaps_ms[leap]);
    run_for(100);
    if (latest_ms < uv_now(&loop))
      latest_ms = uv_now(&loop);
    for (i = 0; i < LENGTH(timers); i++)
      ck_assert_uint_eq(timers[i].fired,
                        tick_ms_after(TICK_MS, timers[i].due_ms) <= latest_ms);
    expect_punctual(&timer, 2 * ROUND_MS);
  }
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  rewind_clock();
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("faults");
  TCase *processes = loop_tcase(suite, "processes and wheels");
  TCase *time = loop_tcase(suite, "time");

  tcase_add_test(processes, after_a_fork_parent_and_child_both_go_on);
  tcase_add_test(processes, after_a_fork_in_the_middle_of_a_batch_both_go_on);
  tcase_add_test(processes, a_thousand_wheels_share_a_loop);
  tcase_add_loop_test(
      time, a_callback_that_blocks_for_ten_rounds_delays_and_loses_nothing, 0,
      BLOCKERS);
  tcase_add_loop_test(time,
                      a_callback_that_blocks_and_updates_the_time_loses_nothing,
                      0, BLOCKERS);
  tcase_add_loop_test(time, nothing_happens_when_the_ticks_need_33_bits, 0, 3);
  tcase_add_test(time, a_clock_that_leaps_to_and_fro_fires_each_timer_once);
  return run_suite(suite);
}
