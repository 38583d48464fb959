/* SPDX-License-Identifier: MIT */

/* What a wheel shows: the statistics, its options, its slots, and the page for
 * the operator. netty#65, netty#14959, camunda#61288. */

#include <stdlib.h>

#include "support.h"

START_TEST(each_thing_that_happens_is_counted_once) {
  static test_timer_t timers[4];
  uvwheel_stats_t stats, zero = {0};

  open_wheel(10, 8);
  stats = stats_of_wheel();
  ck_assert_mem_eq(&stats, &zero, sizeof stats);
  begin_test_timer(&timers[0], 5, 0);    /* fires                  */
  begin_test_timer(&timers[1], 5, 0);    /* is stopped             */
  begin_test_timer(&timers[2], 50, 500); /* fires and arms itself  */
  begin_test_timer(&timers[3], 25, 0);   /* is refreshed and moved */
  test_timer_stop(&timers[1]);
  run_for(20);
  test_timer_refresh(&timers[3]);
  test_timer_start(&timers[3], 60, 0);
  run_for(50);
  stats = stats_of_wheel();
  ck_assert_uint_eq(stats.active, 2);
  ck_assert_uint_eq(stats.started, 5);
  ck_assert_uint_eq(stats.stopped, 1);
  ck_assert_uint_eq(stats.fired, 2);
  ck_assert_uint_eq(stats.rescheduled, 1);
  ck_assert_uint_eq(stats.examined, 3);
  ck_assert_uint_eq(stats.turns, 2);
  ck_assert_uint_eq(stats.turns_cut, 0);
  ck_assert_uint_eq(stats.overdue_ms, 0);
  uvwheel_close(&wheel, NULL);
  ck_assert_uint_eq(stats_of_wheel().active, 0);
  ck_assert_uint_eq(stats_of_wheel().stopped, 3);
}
END_TEST

START_TEST(a_wheel_reports_the_options_that_it_was_made_with) {
  uvwheel_options_t options, given = {.tick_ms = 7,
                                      .slots = 5,
                                      .turn_budget = UINT32_MAX,
                                      .max_timers = 9,
                                      .flags = UVWHEEL_FIFO,
                                      .turn_ms = 3,
                                      .stall_ms = UINT32_MAX};

  open_wheel_with(&given);
  ck_assert_int_eq(uvwheel_get_options(&wheel, &options), 0);
  given.slots = 8;
  ck_assert_mem_eq(&options, &given, sizeof given);
  ck_assert_int_eq(uvwheel_get_options(NULL, &options), UV_EINVAL);
  ck_assert_int_eq(uvwheel_get_options(&wheel, NULL), UV_EINVAL);
}
END_TEST

START_TEST(a_slot_is_counted_and_others_are_empty) {
  static test_timer_t timers[3];
  uint64_t slot, tick;

  open_wheel(10, 64);
  begin_test_timer(&timers[0], 25, 0);
  begin_test_timer(&timers[1], 25, 0);
  begin_test_timer(&timers[2], 25 + 640, 0);
  tick = tick_ms_after(10, uv_now(&loop) + 25) / 10;
  for (slot = 0; slot <= 64; slot++)
    ck_assert_uint_eq(uvwheel_count_slot(&wheel, slot),
                      slot == tick % 64 ? 3 : 0);
  ck_assert_uint_eq(uvwheel_count_slot(NULL, 0), 0);
  uvwheel_close(&wheel, on_wheel_closed);
  run_for(0);
  ck_assert_uint_eq(uvwheel_count_slot(&wheel, tick % 64), 0);
}
END_TEST

/* ---- Lateness ------------------------------------------------------------ */

/* From the due time on, at ticks of 1 ms: 1 ms more than from the tick. */
START_TEST(lateness_is_counted_in_powers_of_two) {
  static const uint64_t late_ms[] = {1,   2,   3,    4,      7,       8,      9,
                                     511, 512, 1023, 524288, 1048576, 8388608};
  static const unsigned buckets[] = {1, 2,  2,  3,  3,  4, 4,
                                     9, 10, 10, 20, 21, 23};
  uint64_t expected[UVWHEEL_LATENESS_BUCKETS] = {0}, sum_ms = 0;
  static test_timer_t timer;
  uvwheel_stats_t stats;
  size_t i;

  open_wheel_without_stalls(1, 8);
  test_timer_init(&timer);
  for (i = 0; i < LENGTH(late_ms); i++) {
    uv_update_time(&loop);
    test_timer_start(&timer, 5, 0);
    virtual_time_advance_ms(5 + late_ms[i]);
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

/* ---- The page ------------------------------------------------------------ */

static char *page(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);

  ck_assert_ptr_nonnull(stream);
  uvwheel_print(&wheel, stream);
  fclose(stream);
  return text;
}

static void expect_on_page(const char *fragment) {
  char *text = page();

  ck_assert_msg(strstr(text, fragment) != NULL, "no \"%s\" in:\n%s", fragment,
                text);
  free(text);
}

START_TEST(the_page_shows_configuration_counts_and_lateness) {
  static test_timer_t timers[5];
  size_t i;

  open_wheel(10, 8);
  expect_on_page("8 slots x 10 ms = 0.1 s a round\nnow       tick 100003,");
  expect_on_page("0 active");
  for (i = 0; i < 5; i++)
    begin_test_timer(&timers[i], i * 30, 0);
  expect_on_page("5 active, 5 started, 0 stopped, 0 fired");
  run_for(50);
  test_timer_stop(&timers[4]);
  expect_on_page("2 active, 5 started, 1 stopped, 2 fired");
  expect_on_page("ms on average");
}
END_TEST

/* A walk takes the timers out of their slots for a while. */
static void print_in_a_walk(uvwheel_timer_t *timer, void *unused) {
  (void)timer, (void)unused;
  expect_on_page("overdue by 60 ms\ntimers    10 active");
}

/* cats-effect#1731: one sees that there are too few slots. */
START_TEST(the_page_shows_in_which_round_timers_are_due) {
  static test_timer_t timers[10];
  size_t i;

  open_wheel(10, 8);
  expect_on_page("rounds    0 timers are due in later ones, "
                 "at most 0 ahead\n");
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], i * 40, 0);
  expect_on_page("rounds    8 timers are due in later ones, "
                 "at most 4 ahead\n");
  advance_loop_ms(63);
  uvwheel_walk(&wheel, print_in_a_walk, NULL);
  run_for(137);
  expect_on_page("rounds    3 timers are due in later ones, "
                 "at most 2 ahead\n");
  ck_assert_uint_eq(stats_of_wheel().rescheduled, 0);
}
END_TEST

/* From the next tick on: a full slot, and a slot with one timer. */
START_TEST(the_page_shows_which_slots_are_full) {
  static test_timer_t timers[21];
  size_t i;

  open_wheel(10, 4);
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], i == 0 ? 20 : 0, 0);
  expect_on_page("slots     |@ . |\n");
}
END_TEST

START_TEST(the_page_shows_trouble_and_how_many_timers_expect_a_peer) {
  static test_timer_t timers[3];
  size_t i;

  open_wheel(10, 8);
  expect_on_page("trouble   0 stalls, the longest 0 ms; 0 timers put back, "
                 "0 fired soonest\n");
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], 3 + 100 * i, 0); /* due at ..40 */
  expect_on_page("peers     0 timers in slots expect one, 3 do not\n");
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_expect(&timers[i], 3 + 100 * i);
  virtual_time_advance_ms(13 + 400);
  run_for(0);
  expect_on_page("peers     3 timers in slots expect one, 0 do not\n");
  timers[0].may_be_early = true;
  ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 1), 1);
  expect_on_page("trouble   1 stalls, the longest 400 ms; 3 timers put back, "
                 "1 fired soonest\n");
  run_for(2000); /* until 103 ms after the stall at ..450 */
  expect_on_page("lateness  7.0 ms on average, latest 7 ms\n");
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(each_thing_that_happens_is_counted_once),
      TEST(a_wheel_reports_the_options_that_it_was_made_with),
      TEST(a_slot_is_counted_and_others_are_empty),
      TEST(lateness_is_counted_in_powers_of_two),
      TEST(the_page_shows_configuration_counts_and_lateness),
      TEST(the_page_shows_in_which_round_timers_are_due),
      TEST(the_page_shows_which_slots_are_full),
      TEST(the_page_shows_trouble_and_how_many_timers_expect_a_peer),
  };

  return run_loop_tests("stats", tests, LENGTH(tests));
}
