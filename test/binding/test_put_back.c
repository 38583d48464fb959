/* SPDX-License-Identifier: MIT */

/* What a stall does (P6): a timer that was waiting when the stall was noticed
 * is put back, once, when it expires. test_stalls.c has what a stall is,
 * test_heard.c and test_busy.c what that is for. */

#include <stdlib.h>

#include "p6.h"
#include "support.h"

#define TICK_MS 10

static void open_wheel_with_budget(uint32_t turn_budget) {
  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = TICK_MS, .slots = 64, .turn_budget = turn_budget});
}

/* Late to the tick of that due time. */
static void stall_at(uint64_t due_ms, uint64_t late_ms) {
  uint64_t stalls = stats_of_wheel().stalls;

  come_late(due_ms, late_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, stalls + 1);
}

/* The timer fires at the tick after that, not before. */
static void expect_fires_at(test_timer_t *timer, uint64_t due_ms) {
  unsigned fired = timer->fired;

  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base),
                    excess(due_ms, uv_now(&loop)));
  run_for(fires_at(due_ms) - uv_now(&loop) - 1);
  ck_assert_uint_eq(timer->fired, fired);
  run_for(1);
  ck_assert_uint_eq(timer->fired, fired + 1);
  ck_assert_uint_eq(timer->fired_ms, fires_at(due_ms));
}

/* ---- How far ------------------------------------------------------------- */

/* All are due 3 ms before a tick. A wait that began when the stall ends would
 * end after the stall, the wait, and these 3 ms. */
static const struct {
  uint64_t timeout;
  uint64_t repeat; /* at the start, and afterwards */
  uint64_t repeat_then;
  uint64_t late_ms;
  uint64_t back_ms;
} backs[] = {
    {5000, 0, 0, 251, 2 * 251},
    {5000, 0, 0, 999, 2 * 999},
    {5000, 0, 0, 1001, 1001 + 1000},
    {5000, 0, 0, 9000, 9000 + 1000},
    {5000, 0, 0, 86400000, 86400000 + 1000},
    {100, 0, 0, 300, 300 + 100 + 3},
    {100, 0, 0, 9000, 9000 + 100 + 3},
    {5000, 20000, 20000, 300, 2 * 300},
    /* In its first wait, which lasts for the timeout. */
    {60000, 100, 100, 9000, 9000 + 1000},
    {60000, 100, 200, 9000, 9000 + 1000},
    {60000, 0, 100, 9000, 9000 + 1000},
    {100, 20000, 0, 9000, 9000 + 100 + 3},
    {0, 60000, 60000, 9000, 9000 + 3},
};

/* P6. It is the only timer, and the next one to wake the loop up. */
START_TEST(a_timer_is_put_back_by_the_stall_and_at_most_a_second) {
  static test_timer_t timer;
  uint64_t due_ms;

  open_wheel_with_budget(0);
  begin_test_timer(&timer, backs[_i].timeout, backs[_i].repeat);
  if (backs[_i].repeat_then != backs[_i].repeat)
    uvwheel_timer_set_repeat(&timer.base, backs[_i].repeat_then);
  due_ms = timer.due_ms;
  stall_at(due_ms, backs[_i].late_ms);
  ck_assert_uint_eq(stats_of_wheel().stall_max_ms, backs[_i].late_ms);
  ck_assert_uint_eq(stats_of_wheel().put_back, 1);
  ck_assert_uint_eq(stats_of_wheel().fired, 0);
  ck_assert_uint_eq(stats_of_wheel().started, 1);
  ck_assert_uint_eq(stats_of_wheel().rescheduled, 0);
  expect_fires_at(&timer, due_ms + backs[_i].back_ms);
  ck_assert_uint_le(stats_of_wheel().lateness_max_ms, TICK_MS);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base),
                   backs[_i].repeat_then != 0);
  rewind_clock();
}
END_TEST

/* After a stall of 10 s another one, noticed so much later. */
static const struct {
  uint64_t later_ms;
  uint64_t late_ms;
  uint64_t back_ms;
} seconds[] = {
    {900, 400, 11000},
    {10990, 400, 11000},
    {11010, 400, 2 * 400},
    {13000, 12000, 12000 + 1000},
};

/* P6. What the first one gives counts until it is over. */
START_TEST(of_two_stalls_the_longer_one_counts) {
  static test_timer_t first, second, timer;
  uint64_t due_ms;

  set_clock_ms(START_MS / TICK_MS * TICK_MS);
  open_wheel_with_budget(0);
  begin_test_timer(&timer, 60000, 0);
  due_ms = timer.due_ms;
  begin_test_timer(&first, 5000, 0);
  stall_at(first.due_ms, 10000);
  test_timer_stop(&first);
  begin_test_timer(&second, seconds[_i].later_ms - seconds[_i].late_ms - 1, 0);
  stall_at(second.due_ms, seconds[_i].late_ms);
  run_for(due_ms + TICK_MS - uv_now(&loop));
  ck_assert_uint_eq(second.fired, 1);
  expect_fires_at(&timer, due_ms + seconds[_i].back_ms);
}
END_TEST

/* ---- Once ---------------------------------------------------------------- */

static void leave(test_timer_t *timer) {
  timer->due_ms = uv_now(&loop) + uvwheel_timer_get_due_in(&timer->base);
}

static void start(test_timer_t *timer) {
  test_timer_start(timer, 5000, 5000);
}

static void (*const acts[])(test_timer_t *) = {leave, start, test_timer_refresh,
                                               test_timer_again};

/* P6. The second stall ends within what the first one gave. */
START_TEST(a_timer_is_put_back_once_until_it_starts_anew_or_fires) {
  bool is_new = acts[_i] != leave;
  static test_timer_t timer;

  open_wheel_with_budget(0);
  begin_test_timer(&timer, 5000, 5000);
  stall_at(timer.due_ms, 9000);
  ck_assert_uint_eq(timer.fired, 0);
  acts[_i](&timer);
  stall_at(timer.due_ms, 9000);
  ck_assert_uint_eq(timer.fired, !is_new);
  ck_assert_uint_eq(stats_of_wheel().put_back, 1 + is_new);
  if (!is_new)
    return;
  leave(&timer);
  stall_at(timer.due_ms, 9000);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(stats_of_wheel().put_back, 2);
}
END_TEST

/* P6. In the very millisecond in which the stall is noticed, and later. */
START_TEST(a_timer_that_begins_after_the_stall_is_not_put_back) {
  static test_timer_t before, after, later;

  open_wheel_with_budget(0);
  begin_test_timer(&before, 5000, 0);
  stall_at(before.due_ms, 9000);
  begin_test_timer(&after, 0, 60000);
  expect_fires_at(&after, after.due_ms);
  test_timer_init(&later);
  expect_punctual(&later, 300);
  ck_assert_uint_eq(before.fired, 0);
  ck_assert_uint_eq(stats_of_wheel().put_back, 1);
}
END_TEST

static test_timer_t stale;

static void block_and_start(uv_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(10000);
  test_timer_start(&stale, 5000, 0);
}

/* P6. With the loop's time of before the block, of which half is late. (On
 * Windows one more poll would see that old time, too.) */
START_TEST(a_timer_that_begins_with_an_old_time_is_put_back) {
  static uv_timer_t blocker;
  uint64_t late_ms;

  open_wheel_with_budget(0);
  test_timer_init(&stale);
  begin_uv_timer(&blocker, block_and_start, 100, 0);
  uv_run(&loop, UV_RUN_ONCE);
  run_for(1);
  late_ms = START_MS + 100 + 10000 - fires_at(stale.due_ms);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, late_ms);
  expect_fires_at(&stale, stale.due_ms + late_ms + MAX_GRACE_MS);
}
END_TEST

/* ---- Repeats ------------------------------------------------------------- */

#define KINDS (UVWHEEL_MISSED_BURST + 1)

static const struct {
  uint64_t repeat;
  uint64_t late_ms;
  uint64_t back_ms;
} repeats[] = {{20000, 300, 2 * 300}, {100, 60000, 60000 + 100 + 10}};

/* P6, P7. In its second wait, though its repeat is set again. Not even one that
 * bursts has callbacks for the time of the stall. */
START_TEST(a_stall_puts_back_the_beat_of_a_repeat) {
  uvwheel_missed_t missed = (uvwheel_missed_t)(_i % KINDS);
  uint64_t repeat = repeats[_i / KINDS].repeat, due_ms;
  static test_timer_t timer;

  set_clock_ms(START_MS / TICK_MS * TICK_MS);
  open_wheel_with_budget(0);
  begin_test_timer(&timer, 0, repeat);
  run_for(TICK_MS);
  uvwheel_timer_set_repeat(&timer.base, repeat);
  ck_assert_int_eq(uvwheel_timer_set_missed(&timer.base, missed), 0);
  due_ms = timer.due_ms + repeats[_i / KINDS].back_ms;
  stall_at(timer.due_ms, repeats[_i / KINDS].late_ms);
  expect_fires_at(&timer, due_ms);
  due_ms = missed == UVWHEEL_MISSED_DELAY ? timer.fired_ms : due_ms;
  expect_fires_at(&timer, due_ms + repeat);
  ck_assert_uint_eq(stats_of_wheel().put_back, 1);
}
END_TEST

/* ---- Many ---------------------------------------------------------------- */

#define MANY 100000u

static const struct {
  uint32_t turn_budget;
  uint64_t read_ns; /* what it takes to read the clock */
  uint64_t most;    /* that are put back in a turn     */
} cuts[] = {
    {1000, 0, 1000},
#ifdef __linux__ /* elsewhere virtual time takes none */
    {UINT32_MAX, 1000000, UVWHEEL_DEFAULT_TURN_MS * 16},
#endif
};

/* P6, P8. What is left shows as overdue. */
START_TEST(put_backs_are_cut_by_the_limits_of_a_turn) {
  uint64_t put_back = 0, before;
  unsigned fired = 0, turns;
  uvwheel_timer_t *many;

  open_wheel_with_budget(cuts[_i].turn_budget);
  many = begin_timers(MANY, count_timer, 5000, 0, &fired);
  virtual_time_advance_ms(9000);
  virtual_time_set_read_ns(cuts[_i].read_ns);
  for (turns = 0; put_back < MANY; turns++) {
    before = put_back;
    uv_run(&loop, UV_RUN_NOWAIT);
    put_back = stats_of_wheel().put_back;
    ck_assert_uint_le(put_back - before, cuts[_i].most);
    ck_assert(put_back > before || turns < 3);
    ck_assert(stats_of_wheel().overdue_ms > 3000 || put_back == MANY);
  }
  virtual_time_set_read_ns(0);
  ck_assert_uint_eq(fired, 0);
  ck_assert_uint_eq(stats_of_wheel().started, MANY);
  run_for(20000);
  ck_assert_uint_eq(fired, MANY);
  uvwheel_close(&wheel, NULL);
  free(many);
}
END_TEST

/* ---- Stalls of the wheel's own ------------------------------------------- */

static uint64_t work_ms;

static void work(test_timer_t *unused) {
  (void)unused;
  virtual_time_advance_ms(work_ms);
}

static void work_and_update(test_timer_t *unused) {
  work(unused);
  uv_update_time(&loop);
}

static void (*const works[])(test_timer_t *) = {work, work_and_update};

/* P6. Scenario 59. The first one is a stall, for which the others wait. */
START_TEST(slow_callbacks_are_called_one_after_the_other) {
  static test_timer_t timers[100];
  uint64_t sleeps;
  size_t i;

  work_ms = 300;
  open_wheel_with_budget(0);
  for (i = 0; i < LENGTH(timers); i++) {
    begin_test_timer(&timers[i], 5000, 0);
    timers[i].then = works[_i];
  }
  sleeps = virtual_time_sleeps();
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  ck_assert_uint_le(virtual_time_sleeps() - sleeps, 2);
  ck_assert_uint_le(uv_now(&loop), START_MS + 5000 + 100 * work_ms + 1000);
}
END_TEST

static void work_and_start(test_timer_t *timer) {
  works[timer->fired % 2](timer);
  test_timer_start(timer, 100, 0);
}

/* P6. Every second time it starts with the loop's time of before the work. */
START_TEST(work_in_slices_goes_on) {
  static test_timer_t timer;

  work_ms = 1000;
  open_wheel_with_budget(0);
  begin_test_timer(&timer, 100, 0);
  timer.then = work_and_start;
  run_for(100 * (work_ms + 100 + TICK_MS));
  ck_assert_uint_ge(timer.fired, 95);
  test_timer_stop(&timer);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_timer_is_put_back_by_the_stall_and_at_most_a_second, backs),
      EACH(of_two_stalls_the_longer_one_counts, seconds),
      EACH(a_timer_is_put_back_once_until_it_starts_anew_or_fires, acts),
      TEST(a_timer_that_begins_after_the_stall_is_not_put_back),
      TEST(a_timer_that_begins_with_an_old_time_is_put_back),
      {a_stall_puts_back_the_beat_of_a_repeat, 0, KINDS * LENGTH(repeats)},
      EACH(put_backs_are_cut_by_the_limits_of_a_turn, cuts),
      EACH(slow_callbacks_are_called_one_after_the_other, works),
      TEST(work_in_slices_goes_on),
  };

  return run_loop_tests("put_back", tests, LENGTH(tests));
}
