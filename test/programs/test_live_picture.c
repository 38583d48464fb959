/* SPDX-License-Identifier: MIT */

/* What the live page knows of the slots, and that finding out takes no more
 * than its share of the time: here each look at the clock takes as long as the
 * test says. */

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

#include <uv.h>
#include <uvwheel.h>

#include "live/live-picture.h"
#include "suite.h"

#define SLOTS 1024
#define TIMERS 100
#define MS 1000000

uint64_t __wrap_uv_hrtime(void);

static uint64_t clock_ns;
static uint64_t cell_ns; /* how long it takes to count one */

static uv_loop_t loop;
static uvwheel_t wheel;
static uvwheel_timer_t timers[TIMERS];
static live_picture_t picture;

uint64_t
__wrap_uv_hrtime(void)
{
  clock_ns += cell_ns;
  return clock_ns;
}

static void
never(uvwheel_timer_t *timer)
{
  (void)timer;
  ck_abort_msg("fired");
}

static void
setup(void)
{
  uvwheel_options_t options = {.slots = SLOTS};

  clock_ns = 0;
  cell_ns = 0;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, &options), 0);
  for (unsigned i = 0; i < TIMERS; i++) {
    ck_assert_int_eq(uvwheel_timer_init(&wheel, &timers[i]), 0);
    ck_assert_int_eq(uvwheel_timer_start(&timers[i], never, 1000 * i, 0), 0);
  }
  live_picture_begin(&picture, &wheel);
}

static void
teardown(void)
{
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static uint64_t
counted_timers(void)
{
  uint64_t sum = 0;

  for (size_t i = 0; i < LIVE_MAX_CELLS; i++)
    sum += picture.cells[i];
  return sum;
}

/* The next step, and how long it takes. */
static uint64_t
step_ns(void)
{
  clock_ns += (uint64_t)LIVE_INTERVAL_MS * MS;
  uint64_t before_ns = clock_ns;
  live_picture_count(&picture);
  return clock_ns - before_ns;
}

START_TEST(a_cheap_count_is_made_in_one_step)
{
  ck_assert_uint_eq(picture.cell_count, LIVE_MAX_CELLS);
  ck_assert_uint_eq(picture.slots_per_cell, SLOTS / LIVE_MAX_CELLS);
  step_ns();
  ck_assert_uint_eq(counted_timers(), TIMERS);
  ck_assert_uint_eq(picture.next_cell, 0);
  uvwheel_timer_stop(&timers[7]);
  step_ns();
  ck_assert_uint_eq(counted_timers(), TIMERS - 1);
}
END_TEST

START_TEST(an_expensive_count_takes_its_share_of_the_time_and_no_more)
{
  const uint64_t cost_ns = (uint64_t)LIVE_MAX_CELLS * MS;
  uint64_t begin_ns = clock_ns;

  cell_ns = MS;
  do
    ck_assert_uint_le(step_ns(), 5 * MS);
  while (picture.next_cell != 0);
  ck_assert_uint_eq(counted_timers(), TIMERS);
  ck_assert_uint_ge(clock_ns - begin_ns, cost_ns * LIVE_SHARE * 98 / 100);
  ck_assert_uint_le(clock_ns - begin_ns, cost_ns * LIVE_SHARE * 102 / 100);
}
END_TEST

START_TEST(a_cell_that_took_long_is_made_up_for)
{
  cell_ns = 1000 * MS;
  step_ns();
  ck_assert_uint_eq(picture.next_cell, 1);
  cell_ns = 0;
  uint64_t end_ns = clock_ns + (uint64_t)(LIVE_SHARE - 2) * 1000 * MS;
  while (clock_ns < end_ns)
    step_ns();
  ck_assert_uint_eq(picture.next_cell, 1);
  end_ns += (uint64_t)3 * 1000 * MS;
  while (clock_ns < end_ns)
    step_ns();
  ck_assert_uint_eq(counted_timers(), TIMERS);
}
END_TEST

START_TEST(rounds_are_counted_with_the_slots)
{
  const uint64_t round_ms = (uint64_t)SLOTS * UVWHEEL_DEFAULT_TICK_MS;

  step_ns();
  ck_assert_uint_eq(picture.rounds.walked, TIMERS);
  ck_assert_uint_eq(picture.rounds.later, 0);
  ck_assert_uint_eq(picture.rounds.most, 0);
  for (unsigned i = 1; i <= 3; i++)
    uvwheel_timer_start(&timers[i], never, i * round_ms + 1000, 0);
  step_ns();
  ck_assert_uint_eq(picture.rounds.walked, TIMERS);
  ck_assert_uint_eq(picture.rounds.later, 3);
  ck_assert_uint_eq(picture.rounds.most, 3);
}
END_TEST

START_TEST(rounds_of_very_many_timers_are_not_counted)
{
  static uvwheel_timer_t crowd[LIVE_MAX_WALK - TIMERS + 1];

  for (size_t i = 0; i < sizeof(crowd) / sizeof(crowd[0]); i++) {
    uvwheel_timer_init(&wheel, &crowd[i]);
    uvwheel_timer_start(&crowd[i], never, 1000, 0);
  }
  step_ns();
  ck_assert_uint_eq(picture.rounds.walked, 0);
  ck_assert_uint_eq(counted_timers(), LIVE_MAX_WALK + 1);
  uvwheel_timer_stop(&crowd[0]);
  step_ns();
  ck_assert_uint_eq(picture.rounds.walked, LIVE_MAX_WALK);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("live picture");
  TCase *tcase = tcase_create("steps");

  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, a_cheap_count_is_made_in_one_step);
  tcase_add_test(tcase,
                 an_expensive_count_takes_its_share_of_the_time_and_no_more);
  tcase_add_test(tcase, a_cell_that_took_long_is_made_up_for);
  tcase_add_test(tcase, rounds_are_counted_with_the_slots);
  tcase_add_test(tcase, rounds_of_very_many_timers_are_not_counted);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
