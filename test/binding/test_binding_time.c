/* SPDX-License-Identifier: MIT */

/* The promises about time, on a loop in virtual time. */

#include "support.h"

#define NS_PER_MS 1000000u

/* ---- When a timer fires -------------------------------------------------- */

static const uint64_t ticks_ms[] = {1, 3, 10, 100};

/* P1. From each phase of the tick; with 4 slots the timeouts cross many rounds.
 */
START_TEST(a_timer_fires_exactly_at_the_first_tick_after_it_is_due)
{
  static const uint64_t timeouts[] = {0,   1,   2,   3,   9,   10,  11,  12,
                                      39,  40,  41,  99,  100, 101, 299, 300,
                                      301, 399, 400, 401, 799, 800, 801, 5000};
  static test_timer_t timer;
  uint64_t phase;
  size_t i;

  open_wheel(ticks_ms[_i], 4);
  test_timer_init(&timer);
  for (phase = 0; phase < ticks_ms[_i]; phase += 1 + ticks_ms[_i] / 12)
    for (i = 0; i < LENGTH(timeouts); i++) {
      run_for(1);
      expect_punctual(&timer, timeouts[i]);
    }
}
END_TEST

/* P1 */
START_TEST(timers_of_all_timeouts_fire_at_their_ticks_side_by_side)
{
  static test_timer_t timers[1000];
  uint64_t last_ms = 0;
  size_t i;

  open_wheel(ticks_ms[_i], 16);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i * 7 % LENGTH(timers)], i, 0);
  run_for(2000);
  for (i = 0; i < LENGTH(timers); i++) {
    ck_assert_uint_eq(timers[i * 7 % LENGTH(timers)].fired, 1);
    ck_assert_uint_eq(timers[i * 7 % LENGTH(timers)].fired_ms,
                      tick_ms_after(ticks_ms[_i], START_MS + i));
    ck_assert_uint_ge(timers[i * 7 % LENGTH(timers)].fired_ms, last_ms);
    last_ms = timers[i * 7 % LENGTH(timers)].fired_ms;
  }
}
END_TEST

/* P1. libuv#4773 and its kin: the loop's clock drops fractions of a
 * millisecond, a stopwatch does not. */
START_TEST(a_stopwatch_never_reads_less_than_the_timeout)
{
  static test_timer_t timer;
  uint64_t sub_ms, step, timeout;

  open_wheel(ticks_ms[_i], 8);
  test_timer_init(&timer);
  for (timeout = 0; timeout < 12; timeout++)
    for (sub_ms = 0; sub_ms < 10; sub_ms++)
      for (step = 1; step < 10; step += 2) {
        virtual_time_set_ns(virtual_time_ns() / NS_PER_MS * NS_PER_MS +
                            NS_PER_MS + sub_ms * 100000);
        ck_assert_uint_ge(
            stopwatch_ns(&timer, timeout, step * 100000, UV_RUN_ONCE),
            timeout * NS_PER_MS);
      }
}
END_TEST

/* P2 */
START_TEST(a_loop_that_oversleeps_adds_its_lateness_and_no_more)
{
  static test_timer_t timer;
  uint64_t tick_ms;

  open_wheel(10, 8);
  test_timer_init(&timer);
  tick_ms = tick_ms_after(10, START_MS + 500);
  test_timer_start(&timer, 500, 0);
  virtual_time_oversleep_ns(7 * NS_PER_MS);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  virtual_time_oversleep_ns(0);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_ge(timer.fired_ms, tick_ms);
  ck_assert_uint_le(timer.fired_ms, tick_ms + 7);
}
END_TEST

/* As with libuv, timeouts count from the time that the loop cached. */
START_TEST(a_stale_loop_time_is_the_caller_s_to_update)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  virtual_time_advance_ms(200);
  test_timer_start(&timer, 100, 0);
  ck_assert_uint_eq(timer.due_ms, START_MS + 100);
  run_turn();
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(timer.fired_ms, START_MS + 200);
  virtual_time_advance_ms(200);
  uv_update_time(&loop);
  expect_punctual(&timer, 500);
}
END_TEST

START_TEST(due_in_counts_down_to_the_due_time)
{
  static test_timer_t timer;
  uint64_t ms;

  open_wheel(100, 8);
  test_timer_init(&timer);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer.base), 0);
  test_timer_start(&timer, 50, 0);
  for (ms = 0; ms < 60; ms++) {
    ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer.base),
                      ms < 50 ? 50 - ms : 0);
    virtual_time_advance_ms(1);
    uv_update_time(&loop);
  }
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), 1);
}
END_TEST

/* ---- Repeat -------------------------------------------------------------- */

/* P7. Even one that is shorter than a tick. on_test_timer checks it as well.
 */
START_TEST(a_repeat_keeps_its_beat)
{
  static test_timer_t timer;
  unsigned i;

  open_wheel(10, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, 25, (uint64_t)_i);
  for (i = 0; i < 20; i++) {
    uint64_t fires_ms = tick_ms_after(10, timer.due_ms);
    run_for(fires_ms - uv_now(&loop) - 1);
    ck_assert_uint_eq(timer.fired, i);
    run_for(1);
    ck_assert_uint_eq(timer.fired, i + 1);
  }
}
END_TEST

static void
drop_repeat(test_timer_t *timer)
{
  uvwheel_timer_set_repeat(&timer->base, 0);
}

/* As with libuv, the timer is armed already, for the last time. */
START_TEST(a_repeat_dropped_in_the_callback_fires_once_more)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  timer.then = drop_repeat;
  test_timer_start(&timer, 25, 25);
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 2);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer.base), 0);
}
END_TEST

static void
stop_itself(test_timer_t *timer)
{
  test_timer_stop(timer);
}

START_TEST(a_repeating_timer_can_stop_itself)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  timer.then = stop_itself;
  test_timer_start(&timer, 25, 25);
  run_for(1000);
  ck_assert_uint_eq(timer.fired, 1);
}
END_TEST

/* ---- Waking up ----------------------------------------------------------- */

static uint64_t
sleeps_during(uint64_t ms)
{
  uint64_t before = virtual_time_sleeps();

  run_for(ms);
  return virtual_time_sleeps() - before;
}

/* P9. pulsar#6414, bun#9286. The last sleep is run_for's. */
START_TEST(an_empty_wheel_never_wakes_up)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  ck_assert_uint_eq(sleeps_during(100000), 1);
  test_timer_start(&timer, 5000, 0);
  test_timer_stop(&timer);
  ck_assert_uint_eq(sleeps_during(100000), 1);
  ck_assert_uint_eq(stats_of_wheel().wakeups, 0);
}
END_TEST

/* P9 */
START_TEST(an_entry_a_day_away_wakes_the_loop_once)
{
  const uint64_t day_ms = 24 * 3600 * 1000;
  /* On 32 bits libuv itself sleeps for half an hour at most. */
  const uint64_t sleeps = sizeof(void *) < 8 ? 49 : 1;
  static test_timer_t timer;

  open_wheel(100, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, day_ms, 0);
  ck_assert_uint_le(sleeps_during(day_ms - 1000), sleeps);
  ck_assert_uint_eq(stats_of_wheel().wakeups, 0);
  ck_assert_uint_le(sleeps_during(2000), 2);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(stats_of_wheel().wakeups, 1);
  rewind_clock();
}
END_TEST

/* P9 */
START_TEST(the_hand_goes_from_one_useful_tick_to_the_next)
{
  static test_timer_t timers[10];
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], i * 12345, 0);
  ck_assert_uint_le(sleeps_during(10 * 12345), LENGTH(timers) + 1);
  ck_assert_uint_eq(stats_of_wheel().wakeups, LENGTH(timers));
  ck_assert_uint_eq(fired_in_all, LENGTH(timers));
}
END_TEST

START_TEST(a_refreshed_timer_wakes_the_loop_once_per_timeout)
{
  static test_timer_t timer;
  uint64_t ms;

  open_wheel(10, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, 1000, 0);
  for (ms = 0; ms < 100000; ms += 100) {
    run_for(100);
    test_timer_refresh(&timer);
  }
  ck_assert_uint_eq(timer.fired, 0);
  ck_assert_uint_le(stats_of_wheel().wakeups, 110);
  ck_assert_uint_le(stats_of_wheel().examined, 110);
}
END_TEST

START_TEST(an_earlier_start_pulls_the_wake_up_in)
{
  static test_timer_t distant, sooner;

  open_wheel(10, 8);
  test_timer_init(&distant);
  test_timer_init(&sooner);
  test_timer_start(&distant, 100000, 0);
  expect_punctual(&sooner, 50);
  test_timer_start(&distant, 60, 0); /* a restart, too */
  run_for(200);
  ck_assert_uint_eq(distant.fired_ms, tick_ms_after(10, distant.fired_ms - 10));
  ck_assert_uint_eq(distant.fired, 1);
}
END_TEST

static void
start_its_peer(test_timer_t *timer)
{
  test_timer_start(timer->arg, 0, 0);
}

START_TEST(a_timer_started_in_a_callback_wakes_the_loop_in_time)
{
  static test_timer_t first, second, distant;

  open_wheel(10, 8);
  test_timer_init(&first);
  test_timer_init(&second);
  test_timer_init(&distant);
  test_timer_start(&distant, 100000, 0);
  first.then = start_its_peer;
  first.arg = &second;
  test_timer_start(&first, 55, 0);
  run_for(200);
  ck_assert_uint_eq(second.fired, 1);
  ck_assert_uint_eq(second.fired_ms, first.fired_ms + 10);
}
END_TEST

/* ---- Budget -------------------------------------------------------------- */

static unsigned iterations, fired_before, most_in_one;

static void
on_iteration(uv_check_t *check)
{
  (void)check;
  iterations++;
  if (fired_in_all - fired_before > most_in_one)
    most_in_one = fired_in_all - fired_before;
  fired_before = fired_in_all;
}

static const uint32_t budgets[] = {1, 7, 50, 99, 100, UINT32_MAX};

/* What one iteration may handle, for 100 timers that are due at once. */
static void
spend(uint32_t budget, uint32_t flags)
{
  static test_timer_t timers[100];
  static uv_check_t check;
  const uvwheel_options_t options = {
      .tick_ms = 10, .turn_budget = budget, .flags = flags};
  uint64_t turns = 100 / options.turn_budget + (100 % options.turn_budget != 0);
  size_t i;

  iterations = fired_before = most_in_one = 0;
  open_wheel_with(&options);
  test_timer_init_all(timers, LENGTH(timers));
  ck_assert_int_eq(uv_check_init(&loop, &check), 0);
  ck_assert_int_eq(uv_check_start(&check, on_iteration), 0);
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 50, 0);
  run_for(500);
  for (i = 0; i < LENGTH(timers); i++)
    ck_assert_uint_eq(timers[i].fired, 1);
  ck_assert_uint_le(most_in_one, options.turn_budget);
  ck_assert_uint_ge(iterations, turns);
  ck_assert_uint_eq(stats_of_wheel().wakeups, turns);
  ck_assert_uint_eq(stats_of_wheel().wakeups_cut, turns - 1);
  if (options.turn_budget == UINT32_MAX)
    ck_assert_uint_eq(most_in_one, 100);
  uv_close((uv_handle_t *)&check, NULL);
}

/* P8 */
START_TEST(a_budget_bounds_the_callbacks_of_an_iteration)
{
  spend(budgets[_i], 0);
}
END_TEST

/* P8 */
START_TEST(a_budget_bounds_the_callbacks_of_a_fifo_wheel)
{
  spend(budgets[_i], UVWHEEL_FIFO);
}
END_TEST

START_TEST(a_backlog_shows_until_it_is_gone)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = 10};
  static test_timer_t timers[25];
  size_t i;

  open_wheel_with(&options);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 3, 0); /* due at ..40, fires at ..50 */
  ck_assert_uint_eq(stats_of_wheel().overdue_ms, 0);
  virtual_time_advance_ms(113);
  uv_update_time(&loop);
  ck_assert_uint_eq(stats_of_wheel().overdue_ms, 100);
  run_turn();
  ck_assert_uint_eq(fired_in_all, 10);
  ck_assert_uint_ge(stats_of_wheel().overdue_ms, 100);
  run_for(10);
  ck_assert_uint_eq(fired_in_all, 25);
  ck_assert_uint_eq(stats_of_wheel().overdue_ms, 0);
  ck_assert_uint_eq(stats_of_wheel().wakeups_cut, 2);
}
END_TEST

/* ---- Order --------------------------------------------------------------- */

static unsigned order[100], order_length;
static unsigned model_order[100], model_order_length;

static void
note_order(test_timer_t *timer)
{
  order[order_length++] = *(unsigned *)timer->arg;
}

static void
note_model_order(uv_timer_t *model)
{
  model_order[model_order_length++] = *(unsigned *)model->data;
}

/* P4. Timers never refreshed, with UVWHEEL_FIFO and tick_ms = 1. */
START_TEST(fifo_with_a_tick_of_1_ms_is_libuv_s_own_order)
{
  const uvwheel_options_t options = {
      .tick_ms = 1, .slots = 4, .flags = UVWHEEL_FIFO};
  static test_timer_t timers[100];
  static uv_timer_t models[100];
  static unsigned numbers[100];
  unsigned i;

  order_length = 0;
  open_wheel_with(&options);
  test_timer_init_all(timers, 100);
  for (i = 0; i < 100; i++) {
    uint64_t timeout = i * 37 % 11;
    numbers[i] = i;
    timers[i].then = note_order;
    timers[i].arg = &numbers[i];
    test_timer_start(&timers[i], timeout, 0);
    ck_assert_int_eq(uv_timer_init(&loop, &models[i]), 0);
    models[i].data = &numbers[i];
    ck_assert_int_eq(uv_timer_start(&models[i], note_model_order, timeout, 0),
                     0);
    if (i % 3 == 0) { /* restarts go to the end of the queue */
      test_timer_start(&timers[i / 2], timeout, 0);
      uv_timer_start(&models[i / 2], note_model_order, timeout, 0);
    }
  }
  run_for(50);
  ck_assert_uint_eq(order_length, 100);
  ck_assert_uint_eq(model_order_length, 100);
  ck_assert_mem_eq(order, model_order, sizeof order);
  for (i = 0; i < 100; i++)
    uv_close((uv_handle_t *)&models[i], NULL);
}
END_TEST

/* P4 */
START_TEST(ticks_fire_in_order_after_a_stall)
{
  static test_timer_t timers[100];
  static unsigned numbers[100];
  unsigned i;

  order_length = 0;
  open_wheel_without_stalls(10, 4);
  test_timer_init_all(timers, 100);
  for (i = 0; i < 100; i++) {
    unsigned timeout = i * 37 % 100 * 10;
    numbers[i] = timeout;
    timers[i].then = note_order;
    timers[i].arg = &numbers[i];
    test_timer_start(&timers[i], timeout, 0);
  }
  virtual_time_advance_ms(5000);
  run_for(0);
  ck_assert_uint_eq(order_length, 100);
  for (i = 0; i < 100; i++)
    ck_assert_uint_eq(order[i], i * 10);
}
END_TEST

/* ---- Lateness ------------------------------------------------------------ */

/* From the tick after the due time on. */
START_TEST(lateness_is_counted_in_powers_of_two)
{
  static const uint64_t late_ms[] = {
      0, 1, 2, 3, 4, 7, 8, 9, 511, 512, 1023, 524288, 1048576, 8388608};
  static const unsigned buckets[] = {0, 1, 2,  2,  3,  3,  4,
                                     4, 9, 10, 10, 20, 21, 23};
  static test_timer_t timer;
  uvwheel_stats_t stats;
  uint64_t expected[UVWHEEL_LATENESS_BUCKETS] = {0}, sum_ms = 0;
  size_t i;

  open_wheel_without_stalls(1, 8);
  test_timer_init(&timer);
  for (i = 0; i < LENGTH(late_ms); i++) {
    uv_update_time(&loop);
    test_timer_start(&timer, 5, 0);
    virtual_time_advance_ms(6 + late_ms[i]);
    run_for(0);
    ck_assert_uint_eq(timer.fired, i + 1);
    expected[buckets[i]]++;
    stats = stats_of_wheel();
    ck_assert_mem_eq(stats.lateness, expected, sizeof expected);
    ck_assert_uint_eq(stats.lateness_max_ms, late_ms[i]);
    ck_assert_uint_eq(stats.lateness_sum_ms, sum_ms += late_ms[i]);
  }
  test_timer_start(&timer, 5, 0);
  virtual_time_advance_ms(UINT64_C(1) << 33);
  run_for(0);
  ck_assert_uint_eq(stats_of_wheel().lateness[UVWHEEL_LATENESS_BUCKETS - 1], 2);
  rewind_clock();
}
END_TEST

/* With a tick of 8 ms, due times from 1 to 8 ms before it. */
START_TEST(lateness_is_counted_from_the_due_time_as_well)
{
  static test_timer_t timers[8];
  uvwheel_stats_t stats;
  uint64_t i, sum_ms = 0;

  open_wheel_without_stalls(8, 8);
  for (i = 0; i < LENGTH(timers); i++) {
    test_timer_init(&timers[i]);
    test_timer_start(&timers[i], 8 - uvwheel_now(&wheel) % 8 + i, 0);
  }
  virtual_time_advance_ms(2 * 8 - uvwheel_now(&wheel) % 8);
  run_for(0);
  for (i = 0; i < LENGTH(timers); i++)
    sum_ms += 8 - i;
  stats = stats_of_wheel();
  ck_assert_uint_eq(stats.lateness[0], LENGTH(timers));
  ck_assert_uint_eq(stats.lateness_sum_ms, 0);
  ck_assert_uint_eq(stats.due_lateness[0], 0);
  ck_assert_uint_eq(stats.due_lateness[1], 1); /* 1 ms      */
  ck_assert_uint_eq(stats.due_lateness[2], 2); /* 2 to 3 ms */
  ck_assert_uint_eq(stats.due_lateness[3], 4); /* 4 to 7 ms */
  ck_assert_uint_eq(stats.due_lateness[4], 1); /* 8 ms      */
  ck_assert_uint_eq(stats.due_lateness_sum_ms, sum_ms);
  ck_assert_uint_eq(stats.due_lateness_max_ms, 8);
}
END_TEST

static void
add_promise_tests(TCase *tcase)
{
  int ticks = LENGTH(ticks_ms);

  tcase_add_loop_test(
      tcase, a_timer_fires_exactly_at_the_first_tick_after_it_is_due, 0, ticks);
  tcase_add_loop_test(
      tcase, timers_of_all_timeouts_fire_at_their_ticks_side_by_side, 0, ticks);
  tcase_add_loop_test(tcase, a_stopwatch_never_reads_less_than_the_timeout, 0,
                      ticks);
  tcase_add_test(tcase, a_loop_that_oversleeps_adds_its_lateness_and_no_more);
  tcase_add_test(tcase, a_stale_loop_time_is_the_caller_s_to_update);
  tcase_add_test(tcase, due_in_counts_down_to_the_due_time);
  tcase_add_loop_test(tcase, a_repeat_keeps_its_beat, 1, 90);
  tcase_add_test(tcase, a_repeat_dropped_in_the_callback_fires_once_more);
  tcase_add_test(tcase, a_repeating_timer_can_stop_itself);
}

int
main(void)
{
  Suite *suite = suite_create("binding: time");
  TCase *waking = loop_tcase(suite, "waking up");
  TCase *turns = loop_tcase(suite, "turns");

  add_promise_tests(loop_tcase(suite, "promises"));
  tcase_add_test(waking, an_empty_wheel_never_wakes_up);
  tcase_add_test(waking, an_entry_a_day_away_wakes_the_loop_once);
  tcase_add_test(waking, the_hand_goes_from_one_useful_tick_to_the_next);
  tcase_add_test(waking, a_refreshed_timer_wakes_the_loop_once_per_timeout);
  tcase_add_test(waking, an_earlier_start_pulls_the_wake_up_in);
  tcase_add_test(waking, a_timer_started_in_a_callback_wakes_the_loop_in_time);
  tcase_add_loop_test(turns, a_budget_bounds_the_callbacks_of_an_iteration, 0,
                      LENGTH(budgets));
  tcase_add_loop_test(turns, a_budget_bounds_the_callbacks_of_a_fifo_wheel, 0,
                      LENGTH(budgets));
  tcase_add_test(turns, a_backlog_shows_until_it_is_gone);
  tcase_add_test(turns, fifo_with_a_tick_of_1_ms_is_libuv_s_own_order);
  tcase_add_test(turns, ticks_fire_in_order_after_a_stall);
  tcase_add_test(turns, lateness_is_counted_in_powers_of_two);
  tcase_add_test(turns, lateness_is_counted_from_the_due_time_as_well);
  return run_suite(suite);
}
