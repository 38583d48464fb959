/* SPDX-License-Identifier: MIT */

/* Repeats: they keep their beat and their rate (P7), and what becomes of times
 * that a late loop missed (tokio#3574, libuv#1142, the misfire instructions of
 * XXL-JOB). */

#include "p6.h"
#include "support.h"

/* ---- Rates --------------------------------------------------------------- */

static uint64_t busy_ns; /* what each callback of the test's handle takes */
static bool is_updating;

static void be_busy(void) {
  virtual_time_advance_ns(busy_ns);
  if (is_updating)
    uv_update_time(&loop);
}

static void take_busy_ns(test_timer_t *timer) {
  (void)timer;
  be_busy();
}

static void on_other(uv_timer_t *timer) {
  (void)timer;
  be_busy();
}

/* What takes so long: a uv_timer_t, or the callback itself. On a wheel with
 * stalls each slow callback would be one. */
static const struct {
  uint64_t tick_ms;
  uint64_t repeat;
  uint64_t every_ms; /* 0: the callback itself */
  uint64_t takes_ms;
  bool update;
} rates[] = {
    {100, 1000, 0, 300, false},   {100, 1000, 0, 300, true},
    {100, 1000, 0, 800, false},   {100, 1000, 0, 800, true},
    {1, 1000, 0, 800, true},      {10, 100, 0, 50, false},
    {10, 100, 0, 50, true},       {100, 100, 100, 2, false},
    {100, 100, 100, 2, true},     {10, 100, 100, 2, false},
    {10, 100, 100, 2, true},      {10, 100, 3, 2, false},
    {10, 100, 3, 2, true},        {100, 100, 3, 2, false},
    {100, 100, 3, 2, true},       {1, 100, 10, 2, false},
    {100, 1000, 1000, 200, true}, {10, 250, 90, 30, false},
};

/* P7. Scenario 30. Both begin at one time, so that the beat is in phase with
 * the ticks; beside a quick timer, by which the loop is often on time. */
START_TEST(a_repeat_keeps_its_rate) {
  uint64_t repeat = rates[_i].repeat, every_ms = rates[_i].every_ms;
  static test_timer_t timer, quick;
  static uv_timer_t other;

  set_clock_ms(START_MS / 1000 * 1000);
  open_wheel_with(
      &(uvwheel_options_t){.tick_ms = rates[_i].tick_ms,
                           .slots = 512,
                           .stall_ms = every_ms != 0 ? 0 : UINT32_MAX});
  busy_ns = rates[_i].takes_ms * 1000000;
  is_updating = rates[_i].update;
  test_timer_init(&timer);
  if (every_ms != 0)
    begin_uv_timer(&other, on_other, every_ms, every_ms);
  else
    timer.then = take_busy_ns;
  begin_test_timer(&quick, 50, 50);
  test_timer_start(&timer, repeat, repeat);
  run_for(600 * repeat + 2 * repeat / 3);
  ck_assert_uint_ge(timer.fired, 598);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

/* ---- Times that are missed ---------------------------------------------- */

typedef struct repeater_s {
  uvwheel_timer_t timer;
  unsigned fired;
} repeater_t;

static void on_repeat(uvwheel_timer_t *timer) {
  ((repeater_t *)timer)->fired++;
}

/* Due in 50 ms and then after every repeat. */
static void start(repeater_t *repeater, uvwheel_missed_t missed,
                  uint64_t repeat) {
  repeater->fired = 0;
  begin_timer(&repeater->timer, on_repeat, 50, repeat);
  ck_assert_int_eq(uvwheel_timer_set_missed(&repeater->timer, missed), 0);
}

static void expect_due_in(const repeater_t *repeater, uint64_t ms) {
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&repeater->timer), ms);
}

/* The loop is busy for that long, then comes to its timers. */
static void be_late(uint64_t ms) {
  virtual_time_advance_ms(ms);
  run_for(0);
}

/* With the loop 390 ms late, the times 50, 150, 250 and 350 are past. */
static const struct {
  uvwheel_missed_t missed;
  unsigned at_once; /* callbacks when the loop comes to it */
  uint64_t due_in;  /* after them                          */
} choices[] = {
    {UVWHEEL_MISSED_DELAY, 1, 100},
    {UVWHEEL_MISSED_SKIP, 1, 60}, /* from here on: on the beat */
    {UVWHEEL_MISSED_BURST, 4, 60},
};

START_TEST(a_late_repeat_does_as_its_choice_says) {
  static repeater_t repeater;

  open_wheel_without_stalls(10, 8);
  start(&repeater, choices[_i].missed, 100);
  be_late(390);
  ck_assert_uint_eq(repeater.fired, choices[_i].at_once);
  expect_due_in(&repeater, choices[_i].due_in);
  run_for(choices[_i].due_in);
  ck_assert_uint_eq(repeater.fired, choices[_i].at_once);
  run_for(10);
  ck_assert_uint_eq(repeater.fired, choices[_i].at_once + 1);
}
END_TEST

/* How late a repeat of 10 s fires, from its own tick on, and when it is due
 * again: on its beat, which is at the tick before, or a repeat after the tick
 * that has passed last. */
static const struct {
  uint32_t stall_ms;
  uint64_t late_ms;
  uint64_t due_in_ms;
} lates[] = {
    {0, 0, 10000 - 100},      {0, 275, 10000 - 100 - 275},
    {0, 276, 10000 - 1 - 76}, {0, 1000, 10000 - 1},
    {0, 60000, 10000 - 1},    {5000, 5000, 10000 - 100 - 5000},
    {5000, 5300, 10000 - 1},  {UINT32_MAX, 25000, 5000 - 100},
};

/* P7. Scenario 25. In a loop that is never quiet the wait of 25 ms may come on
 * top. */
START_TEST(a_repeat_that_is_late_by_more_than_stall_ms_begins_a_new_beat) {
  static test_timer_t timer;

  set_clock_ms(START_MS / 1000 * 1000);
  open_wheel_with(&(uvwheel_options_t){.stall_ms = lates[_i].stall_ms});
  begin_test_timer(&timer, 10000 - 100, 10000);
  come_late(timer.due_ms, lates[_i].late_ms);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer.base), lates[_i].due_in_ms);
}
END_TEST

static unsigned uv_fired;

static void count_uv_timer(uv_timer_t *timer) {
  (void)timer;
  uv_fired++;
}

static const struct {
  uint64_t repeat;
  uint64_t every_ms; /* the loop is run */
} by_hand[] = {{10000, 1000}, {10000, 400}, {5000, 1000}, {1000, 1000}};

/* P7. It comes as often as a uv_timer_t beside it. */
START_TEST(a_repeat_of_a_loop_that_is_run_by_hand_keeps_its_rate) {
  uint64_t repeat = by_hand[_i].repeat, most_ms = repeat, i;
  static test_timer_t timer;
  static uv_timer_t uv_timer;

  most_ms += (RUNS_PER_TURN - 1) * by_hand[_i].every_ms;
  uv_fired = 0;
  open_wheel(0, 0);
  begin_test_timer(&timer, repeat, repeat);
  begin_uv_timer(&uv_timer, count_uv_timer, repeat, repeat);
  for (i = 0; i < 200 * repeat / by_hand[_i].every_ms; i++) {
    virtual_time_advance_ms(by_hand[_i].every_ms);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  ck_assert_uint_ge((timer.fired + 1) * most_ms, uv_fired * repeat);
}
END_TEST

/* ---- The beat ------------------------------------------------------------ */

/* Each callback is one examination, though its timer is due again in the same
 * pass: the pass does not examine again what else it has found. */
START_TEST(many_bursts_inside_a_tick_are_examined_once_each) {
  static repeater_t bursts[1000];
  uvwheel_stats_t stats;
  size_t i;

  open_wheel_with(
      &(uvwheel_options_t){.turn_budget = UINT32_MAX, .flags = (uint32_t)_i});
  for (i = 0; i < LENGTH(bursts); i++)
    start(&bursts[i], UVWHEEL_MISSED_BURST, 10);
  run_for(1000);
  stats = stats_of_wheel();
  ck_assert_uint_ge(stats.fired, 80 * LENGTH(bursts));
  ck_assert_uint_le(stats.examined, stats.fired + LENGTH(bursts));
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_repeat_keeps_its_rate, rates),
      EACH(a_late_repeat_does_as_its_choice_says, choices),
      EACH(a_repeat_that_is_late_by_more_than_stall_ms_begins_a_new_beat,
           lates),
      EACH(a_repeat_of_a_loop_that_is_run_by_hand_keeps_its_rate, by_hand),
      {many_bursts_inside_a_tick_are_examined_once_each, 0, 2},
  };

  return run_loop_tests("repeats", tests, LENGTH(tests));
}
