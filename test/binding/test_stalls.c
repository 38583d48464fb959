/* SPDX-License-Identifier: MIT */

/* What a stall is, and how it sets the clock of the wheel back (P6).
 * test_heard.c shows the use of that, test_allowance.c its limit. */

#include "p6.h"
#include "support.h"

#define TICK_MS 10

static void
open_wheel_with_stalls(uint32_t stall_ms)
{
  const uvwheel_options_t options = {
      .tick_ms = TICK_MS, .slots = 64, .stall_ms = stall_ms};

  open_wheel_with(&options);
}

/* Runs what the loop would do now: a turn takes one or two iterations after the
 * one in which the driver is called. (On Windows a poll that does not wait
 * leaves the loop's time as it was.) */
static void
run_now(void)
{
  unsigned i;

  for (i = 0; i < 4; i++) {
    uv_update_time(&loop);
    uv_run(&loop, UV_RUN_NOWAIT);
  }
}

/* Starts the timer, and has the loop come late to its tick by that much. */
static void
come_late_by(test_timer_t *timer, uint64_t late_ms)
{
  uint64_t tick_ms, at_ms;

  uv_update_time(&loop);
  test_timer_start(timer, 100, 0);
  tick_ms = tick_ms_after(TICK_MS, timer->due_ms);
  at_ms = tick_ms + late_ms + stats_of_wheel().set_back_ms;
  virtual_time_advance_ms(at_ms - virtual_time_ns() / 1000000);
  run_now();
}

/* ---- What is a stall ----------------------------------------------------- */

static const struct {
  uint32_t option;
  uint64_t stall_ms;
} thresholds[] = {
    {0, 250}, {1, 1}, {2, 2}, {250, 250}, {251, 251}, {5000, 5000},
};

/* P6 */
START_TEST(a_loop_that_is_late_by_more_than_stall_ms_has_stalled)
{
  uint64_t stall_ms = thresholds[_i].stall_ms;
  static test_timer_t timer;

  open_wheel_with_stalls(thresholds[_i].option);
  test_timer_init(&timer);
  come_late_by(&timer, stall_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  ck_assert_uint_eq(stats_of_wheel().set_back_ms, 0);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(timer.fired_ms, fires_at(timer.due_ms) + stall_ms);
  come_late_by(&timer, stall_ms + 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(stats_of_wheel().stall_max_ms, stall_ms + 1);
  ck_assert_uint_eq(timer.fired, 1);
  run_for(2 * stall_ms + 1000);
  ck_assert_uint_eq(timer.fired, 2);
}
END_TEST

static uv_async_t io;
static uint64_t io_blocks_ms;

static void
on_io(uv_async_t *async)
{
  if (uvwheel_timer_is_active(async->data))
    test_timer_stop(async->data);
  else if (async->data != NULL)
    test_timer_start(async->data, 300, 0);
  virtual_time_advance_ms(io_blocks_ms);
}

/* In the next poll, which does not sleep then. */
static void
let_io_block(uint64_t ms)
{
  io_blocks_ms = ms;
  ck_assert_int_eq(uv_async_send(&io), 0);
}

/* The next poll starts the timer, or stops it. */
static void
block_1_s(test_timer_t *timer)
{
  io.data = timer;
  let_io_block(0);
  virtual_time_advance_ms(1000);
}

static void
block_1_s_too(uv_timer_t *unused)
{
  (void)unused;
  block_1_s(io.data);
}

/* P6 */
START_TEST(a_wheel_without_timers_has_no_stalls)
{
  static test_timer_t timer;
  static uv_timer_t blocker;

  open_wheel_with_stalls(0);
  begin_test_timer(&timer, 100, 0);
  test_timer_stop(&timer);
  virtual_time_advance_ms(9000);
  ck_assert_int_eq(uv_async_init(&loop, &io, on_io), 0);
  let_io_block(9000);
  run_for(100);
  test_timer_start(&timer, 100, 0);
  timer.then = block_1_s;
  run_for(200);
  begin_uv_timer(&blocker, block_1_s_too, 0, 0);
  run_for(50);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  let_io_block(0);
  run_for(50);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
  ck_assert_uint_eq(uvwheel_now(&wheel), uv_now(&loop));
}
END_TEST

static void
take_3_ms(test_timer_t *timer)
{
  virtual_time_advance_ms(3);
  if (timer->arg != NULL)
    uv_update_time(&loop);
}

/* Then the poll sleeps for longer, if the loop's time is old. */
static void
fire_soonest(uv_prepare_t *prepare)
{
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 50), 50);
  uv_prepare_stop(prepare);
}

static const struct {
  uint32_t turn_budget;
  uint32_t turn_ms;
  uint32_t flags;
  bool update;
  bool stalls;
} limits[] = {
    {0, 0, 0, false, false},
    {10, UINT32_MAX, 0, false, false},
    {10, 0, 0, true, false},
    {0, 0, UVWHEEL_FIFO, true, false},
    {10, 0, UVWHEEL_FIFO, false, false},
    {0, UINT32_MAX, 0, true, true},
};

/* P6. Scenario 23. A turn without limits takes so long that it is one. Some
 * timers fire before a poll. */
START_TEST(a_mass_expiry_is_no_stall_if_limits_cut_it)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS,
                                     .turn_budget = limits[_i].turn_budget,
                                     .turn_ms = limits[_i].turn_ms,
                                     .flags = limits[_i].flags};
  static test_timer_t timers[1000];
  static uv_prepare_t prepare;
  size_t i;

  open_wheel_with(&options);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++) {
    timers[i].then = take_3_ms;
    timers[i].arg = limits[_i].update ? timers : NULL;
    timers[i].may_be_early = true;
    test_timer_start(&timers[i], 300 + i % 20, 0);
  }
  begin_prepare(&prepare, fire_soonest);
  run_for(5000);
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
  ck_assert_uint_gt(stats_of_wheel().lateness_max_ms, 20);
  ck_assert_int_eq(stats_of_wheel().stalls > 0, limits[_i].stalls);
  ck_assert_uint_ge(stats_of_wheel().turn_max_us, 50 * 3000); /* the soonest */
}
END_TEST

/* ---- What it does to the clock ------------------------------------------- */

static const uint64_t lates_ms[] = {251, 252, 999, 1000, 1001, 9000, 86400000};

/* P6 */
START_TEST(a_stall_sets_the_clock_back_by_itself_and_at_most_a_second_more)
{
  uint64_t late_ms = lates_ms[_i], back_ms = with_grace(late_ms), tick_ms;
  static test_timer_t timer, distant;

  open_wheel_with_stalls(0);
  test_timer_init(&timer);
  begin_test_timer(&distant, 100000000, 0);
  come_late_by(&timer, late_ms);
  tick_ms = tick_ms_after(TICK_MS, timer.due_ms);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_eq(stats_of_wheel().stall_max_ms, late_ms);
  ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, late_ms);
  ck_assert_uint_eq(stats_of_wheel().set_back_ms, back_ms);
  ck_assert_uint_eq(uvwheel_now(&wheel), uv_now(&loop) - back_ms);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&distant.base),
                    distant.due_ms - uvwheel_now(&wheel));
  ck_assert_uint_eq(stats_of_wheel().fired, 0);
  ck_assert_uint_eq(stats_of_wheel().overdue_ms, 0);
  verify_wheel();
  run_for(back_ms - late_ms - 1);
  ck_assert_uint_eq(timer.fired, 0);
  run_for(1);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(timer.fired_ms, tick_ms);
  rewind_clock();
}
END_TEST

/* P6. The longest is reported, and the sum of all. */
START_TEST(stalls_add_up)
{
  static const uint64_t lengths_ms[] = {300, 5000, 800, 4999};
  uint64_t sum_ms = 0, back_ms = 0;
  static test_timer_t timer;
  size_t i;

  open_wheel_with_stalls(0);
  test_timer_init(&timer);
  for (i = 0; i < LENGTH(lengths_ms); i++) {
    come_late_by(&timer, lengths_ms[i]);
    sum_ms += lengths_ms[i];
    back_ms += with_grace(lengths_ms[i]);
    ck_assert_uint_eq(stats_of_wheel().stalls, i + 1);
    ck_assert_uint_eq(stats_of_wheel().stall_sum_ms, sum_ms);
    ck_assert_uint_eq(stats_of_wheel().set_back_ms, back_ms);
    run_for(2000);
    ck_assert_uint_eq(timer.fired, i + 1);
  }
  ck_assert_uint_eq(stats_of_wheel().stall_max_ms, 5000);
  expect_punctual(&timer, 777);
}
END_TEST

/* P6. In the first seconds after a machine was started. */
START_TEST(the_clock_is_not_set_back_to_before_zero)
{
  static test_timer_t timer, second;

  set_clock_ms(40);
  open_wheel_with_stalls(0);
  test_timer_init(&timer);
  test_timer_init(&second);
  come_late_by(&timer, 900); /* at 40 + 100 + 10 + 900 */
  ck_assert_uint_eq(uvwheel_now(&wheel), 0);
  ck_assert_uint_eq(stats_of_wheel().set_back_ms, uv_now(&loop));
  test_timer_start(&second, 0, 0);
  run_for(TICK_MS);
  ck_assert_uint_eq(second.fired_ms, TICK_MS);
  run_for(100);
  ck_assert_uint_eq(timer.fired, 0);
  run_for(40);
  ck_assert_uint_eq(timer.fired_ms, 150);
  expect_punctual(&timer, 1234);
  rewind_clock();
}
END_TEST

/* ---- Before the wheel finds it ------------------------------------------- */

static test_timer_t waiting, other;

static void
take_2_s(test_timer_t *timer)
{
  timer->then = NULL;
  virtual_time_advance_ms(2000);
}

static void
start_an_earlier_one(void)
{
  uv_update_time(&loop);
  test_timer_start(&other, 0, 0);
}

static void
start_the_one_that_waits(void)
{
  uv_update_time(&loop);
  test_timer_start(&waiting, 5000, 0);
}

static void
ignore(uvwheel_timer_t *timer, void *arg)
{
  (void)timer, (void)arg;
}

static void
walk_in_uv_timer(uv_timer_t *timer)
{
  (void)timer;
  uvwheel_walk(&wheel, ignore, NULL);
}

/* libuv since 1.48 first gathers all timers that are due, which makes them
 * inactive, and then calls them. The callback of another one must not arm the
 * driver anew, which would hide how late it is. */
static void
let_a_uv_timer_be_due(void)
{
  static uv_timer_t timer;

  begin_uv_timer(&timer, walk_in_uv_timer, 1, 0);
}

static void (*const acts[])(void) = {
    start_an_earlier_one, start_the_one_that_waits, let_a_uv_timer_be_due};

/* P6. Nor does a callback that took long and left the wheel empty. */
START_TEST(nothing_that_is_done_before_the_turn_hides_a_stall)
{
  open_wheel_with_stalls(0);
  test_timer_init(&waiting);
  test_timer_init(&other);
  other.then = take_2_s;
  test_timer_start(&other, 10, 0);
  run_for(3000);
  test_timer_start(&waiting, 100, 0);
  virtual_time_advance_ms(9000);
  acts[_i]();
  run_now();
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_ge(stats_of_wheel().stall_max_ms, 9000 - 110);
  ck_assert_uint_eq(fired_in_all, 1);
  run_for(20000);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
}
END_TEST

/* ---- In two parts -------------------------------------------------------- */

static void
block_249_ms(uv_timer_t *timer)
{
  virtual_time_advance_ms(249);
  if (timer->data != NULL)
    uv_update_time(&loop);
}

/* P6. Scenario 41. Timers of libuv that are due at one moment are called in the
 * order of their starts: one blocks before the wheel's, the other after it. */
START_TEST(a_stall_around_the_call_of_the_wheel_s_timer_is_one)
{
  static test_timer_t timer, next;
  static uv_timer_t before, after;

  open_wheel(1, 64);
  test_timer_init(&timer);
  begin_test_timer(&next, 100, 0);
  begin_uv_timer(&before, block_249_ms, 100, 0);
  before.data = _i & 1 ? &timer : NULL;
  test_timer_start(&timer, 99, 0);
  begin_uv_timer(&after, block_249_ms, 100, 0);
  after.data = _i & 2 ? &timer : NULL;
  run_for(2000);
  ck_assert_uint_eq(fired_in_all, 2);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_ge(stats_of_wheel().stall_max_ms, 2 * 249 - 1);
  ck_assert_uint_le(stats_of_wheel().stall_max_ms, 2 * 249 + 1);
}
END_TEST

/* P6. The wheel is not empty while it fires. */
START_TEST(a_repeat_that_is_alone_on_its_wheel_has_stalls)
{
  static uv_timer_t blocker;

  open_wheel_with_stalls(100);
  test_timer_init(&waiting);
  begin_uv_timer(&blocker, block_249_ms, 103, 0); /* before that tick */
  blocker.data = &blocker;
  test_timer_start(&waiting, 100, 1000);
  run_for(1000);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
}
END_TEST

static void
work_1_s(test_timer_t *timer)
{
  virtual_time_advance_ms(1000);
  uv_update_time(&loop);
  test_timer_start(timer, 100, 0);
}

/* P6. No other timer waits for it. */
START_TEST(a_job_that_starts_itself_again_is_no_stall)
{
  open_wheel_with_stalls(0);
  test_timer_init(&waiting);
  waiting.then = work_1_s;
  test_timer_start(&waiting, 100, 0);
  run_for(20000);
  ck_assert_uint_ge(waiting.fired, 17);
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(a_loop_that_is_late_by_more_than_stall_ms_has_stalled, thresholds),
      TEST(a_wheel_without_timers_has_no_stalls),
      EACH(a_mass_expiry_is_no_stall_if_limits_cut_it, limits),
      EACH(a_stall_sets_the_clock_back_by_itself_and_at_most_a_second_more,
           lates_ms),
      TEST(stalls_add_up),
      TEST(the_clock_is_not_set_back_to_before_zero),
      EACH(nothing_that_is_done_before_the_turn_hides_a_stall, acts),
      {a_stall_around_the_call_of_the_wheel_s_timer_is_one, 0, 4},
      TEST(a_repeat_that_is_alone_on_its_wheel_has_stalls),
      TEST(a_job_that_starts_itself_again_is_no_stall),
  };

  return run_loop_tests("stalls", tests, LENGTH(tests));
}
