/* SPDX-License-Identifier: MIT */

/* Loops that are late and yet listen: they are slow, not deaf. Timers expire at
 * their pace. */

#include <stdlib.h>

#include "support.h"

#define TICK_MS 10

/* libuv tells of so many sockets in one poll. */
#define HEARD_BY_A_POLL 49152u

#define SLOW_TIMERS 1000

typedef struct slow_s {
  uvwheel_timer_t timer;
  uint64_t due_ms; /* loop time */
} slow_t;

static slow_t slow[SLOW_TIMERS];
static uint64_t slow_late_ms; /* the most */

static void
on_slow(uvwheel_timer_t *timer)
{
  uint64_t late_ms = uv_now(&loop) - ((slow_t *)timer)->due_ms;

  slow_late_ms = late_ms > slow_late_ms ? late_ms : slow_late_ms;
}

/* Starts timers that are due one after the other, for half a minute. */
static void
start_slow(uint64_t spacing_ms)
{
  size_t i, count = (size_t)(30000 / spacing_ms);

  for (i = 0; i < count; i++) {
    uint64_t timeout = i * spacing_ms;
    slow[i].due_ms = uv_now(&loop) + timeout;
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &slow[i].timer), 0);
    ck_assert_int_eq(uvwheel_timer_start(&slow[i].timer, on_slow, timeout, 0),
                     0);
  }
  slow_late_ms = 0;
}

static const uint64_t periods_ms[] = {100, 251,  300,  360,  400,  500, 700,
                                      900, 1000, 1100, 1250, 1500, 4000};
static const uint64_t spacings_ms[] = {30, 100, 270, 1000, 3700};

/* A program that does other things and runs its loop at times, or one whose
 * loop is so busy that it comes late at each iteration. One stall is found at
 * most; from then on timers come with the loop. */
START_TEST(a_loop_that_is_late_at_each_turn_expires_at_its_pace)
{
  uint64_t period_ms = periods_ms[_i / 5], turns;

  open_wheel(TICK_MS, 64);
  start_slow(spacings_ms[_i % 5]);
  for (turns = 0; uvwheel_count(&wheel) > 0; turns++) {
    ck_assert_uint_le(turns * period_ms, 60000);
    virtual_time_advance_ms(period_ms);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  ck_assert_uint_le(stats_of_wheel().stalls, 1);
  ck_assert_uint_le(stats_of_wheel().stall_max_ms, period_ms);
  ck_assert_uint_le(slow_late_ms,
                    stats_of_wheel().deaf_ms + period_ms + TICK_MS);
}
END_TEST

static void
run_slowly(uint64_t period_ms, unsigned times)
{
  while (times-- > 0) {
    virtual_time_advance_ms(period_ms);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
}

static void
take_2_ms(void)
{
  virtual_time_advance_ms(2);
  uv_update_time(&loop);
}

static void
on_busy_timer(uvwheel_timer_t *timer)
{
  (void)timer;
  take_2_ms();
}

static void
on_busy_uv_timer(uv_timer_t *timer)
{
  (void)timer;
  take_2_ms();
}

static void
on_half_a_second(uv_check_t *check)
{
  (void)check;
  virtual_time_advance_ms(500);
}

/* With libuv before 1.48 what moves the loop's time in its pass over the timers
 * makes the wheel's next turn due in the same pass: that it is on time tells
 * nothing of the loop. */
START_TEST(a_slow_loop_is_not_quick_because_a_callback_moved_its_time)
{
  static uvwheel_timer_t busy;
  static uvwheel_t other;
  static uv_timer_t busy_uv;
  static uv_check_t slow_check;
  const uvwheel_options_t options = {.tick_ms = 1, .stall_ms = UINT32_MAX};
  const uint64_t repeat_ms = 100 * (1 + (uint64_t)_i / 2);
  uint64_t end_ms = uv_now(&loop) + 600000;

  open_wheel(100, 512);
  ck_assert_int_eq(uvwheel_init(&loop, &other, &options), 0);
  uvwheel_timer_init(&wheel, &slow[0].timer);
  uvwheel_timer_init(&other, &busy);
  uv_timer_init(&loop, &busy_uv);
  uv_check_init(&loop, &slow_check);
  uvwheel_timer_start(&slow[0].timer, on_slow, repeat_ms, repeat_ms);
  if (_i % 2 != 0)
    uv_timer_start(&busy_uv, on_busy_uv_timer, 1000, 1000);
  else
    uvwheel_timer_start(&busy, on_busy_timer, 1000, 1000);
  uv_check_start(&slow_check, on_half_a_second);
  while (uv_now(&loop) < end_ms)
    uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_le(stats_of_wheel().stalls, 1);
  uvwheel_close(&other, NULL);
  uv_close((uv_handle_t *)&busy_uv, NULL);
  uv_close((uv_handle_t *)&slow_check, NULL);
}
END_TEST

START_TEST(a_loop_that_was_slow_and_is_quick_again_finds_the_next_stall)
{
  open_wheel(TICK_MS, 64);
  start_slow(100);
  run_slowly(700, 10);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  run_for(250);
  virtual_time_advance_ms(700);
  run_for(0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 2);
  run_slowly(700, 20);
  ck_assert_uint_eq(stats_of_wheel().stalls, 2);
}
END_TEST

/* Before the loop was on time. */
START_TEST(a_second_stall_right_after_the_first_is_the_loop_s_pace)
{
  static probe_t probe;

  open_wheel(TICK_MS, 64);
  probe_init(&probe);
  probe_start(&probe, 100, 0);
  virtual_time_advance_ms(5000);
  run_for(0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  run_for(500); /* half of what was given to those who were not heard */
  virtual_time_advance_ms(5000);
  run_for(0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(probe.fired, 1);
  probe_start(&probe, 100, 0);
  virtual_time_advance_ms(5000);
  run_for(0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 2);
}
END_TEST

static void
take_3_ms(probe_t *probe)
{
  virtual_time_advance_ms(3);
  if (probe->arg != NULL)
    uv_update_time(&loop);
}

START_TEST(a_mass_expiry_that_its_limits_cut_is_no_stall)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .turn_budget = _i & 1 ? 10 : 0,
                                     .turn_ms = _i & 2 ? UINT32_MAX : 0,
                                     .flags = _i & 4 ? UVWHEEL_FIFO : 0};
  static probe_t probes[1000];
  size_t i;

  if ((_i & 3) == 2)
    return; /* no limit */
  open_wheel_with(&options);
  probe_init_all(probes, LENGTH(probes));
  for (i = 0; i < LENGTH(probes); i++) {
    probes[i].then = take_3_ms;
    probes[i].arg = _i & 8 ? probes : NULL;
    probe_start(&probes[i], 100 + i % 20, 0);
  }
  run_for(5000);
  ck_assert_uint_eq(fired_in_all, LENGTH(probes));
  ck_assert_uint_gt(stats_of_wheel().lateness_max_ms, 2500);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

static void
count_timer(uvwheel_timer_t *timer)
{
  ++*(unsigned *)timer->data;
}

/* A poll tells of so many sockets, and no more have been heard. */
START_TEST(with_more_timers_than_a_poll_hears_more_stalls_in_a_row_count)
{
  static const unsigned counts[] = {HEARD_BY_A_POLL - 1, HEARD_BY_A_POLL + 1,
                                    2 * HEARD_BY_A_POLL + 1};
  uvwheel_timer_t *timers = calloc(counts[_i], sizeof *timers);
  unsigned fired = 0, i, errors = 0; /* fired is what count_timer counts */

  ck_assert_ptr_nonnull(timers);
  open_wheel(TICK_MS, 64);
  for (i = 0; i < counts[_i]; i++) {
    errors += uvwheel_timer_init(&wheel, &timers[i]) != 0;
    timers[i].data = &fired;
    errors += uvwheel_timer_start(&timers[i], count_timer, 1000, 0) != 0;
  }
  ck_assert_uint_eq(errors, 0);
  for (i = 0; stats_of_wheel().fired == 0; i++) {
    virtual_time_advance_ms(3000);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  ck_assert_uint_eq(stats_of_wheel().stalls, 1 + (unsigned)_i);
  ck_assert_uint_eq(i, 2 + (unsigned)_i);
  uvwheel_close(&wheel, NULL);
  free(timers);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("slow loops");
  TCase *late = loop_tcase(suite, "always late");

  tcase_add_loop_test(late,
                      a_loop_that_is_late_at_each_turn_expires_at_its_pace, 0,
                      (int)(LENGTH(periods_ms) * LENGTH(spacings_ms)));
  tcase_add_loop_test(
      late, a_slow_loop_is_not_quick_because_a_callback_moved_its_time, 0, 20);
  tcase_add_test(late,
                 a_loop_that_was_slow_and_is_quick_again_finds_the_next_stall);
  tcase_add_test(late, a_second_stall_right_after_the_first_is_the_loop_s_pace);
  tcase_add_loop_test(late, a_mass_expiry_that_its_limits_cut_is_no_stall, 0,
                      16);
  tcase_add_loop_test(
      late, with_more_timers_than_a_poll_hears_more_stalls_in_a_row_count, 0,
      3);
  return run_suite(suite);
}
