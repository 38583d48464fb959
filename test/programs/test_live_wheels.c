/* SPDX-License-Identifier: MIT */

/* How the live page learns of wheels on other loops. The other loop is one of
 * this thread: while it is not run it is blocked. */

#include <check.h>
#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

#include "live/live-wheels.h"
#include "suite.h"

#define MS UINT64_C(1000000)

uint64_t __wrap_uv_hrtime(void);

static uint64_t clock_ns;

static uv_loop_t loops[2];
static uvwheel_t made[2];
static uvwheel_timer_t timers[2];
static uint64_t refreshes[2];
static live_wheels_t wheels;

static const live_wheel_t shown[] = {{"here", &made[0], &refreshes[0]},
                                     {"there", &made[1], &refreshes[1]}};

uint64_t
__wrap_uv_hrtime(void)
{
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
  clock_ns = 1;
  for (int i = 0; i < 2; i++) {
    refreshes[i] = 0;
    ck_assert_int_eq(uv_loop_init(&loops[i]), 0);
    ck_assert_int_eq(uvwheel_init(&loops[i], &made[i], NULL), 0);
    ck_assert_int_eq(uvwheel_timer_init(&made[i], &timers[i]), 0);
    ck_assert_int_eq(uvwheel_timer_start(&timers[i], never, 3600000, 0), 0);
  }
  ck_assert_int_eq(live_wheels_init(&wheels, shown, 2, &loops[0]), 0);
}

static void
teardown(void)
{
  for (int i = 0; i < 2; i++) {
    uvwheel_close(&made[i], NULL);
    uv_run(&loops[i], UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loops[i]), 0);
  }
  live_wheels_free(&wheels);
}

static void
answer(void)
{
  uv_run(&loops[1], UV_RUN_NOWAIT);
}

static const live_snapshot_t *
of(int wheel)
{
  return &wheels.views[wheel].shown.snapshot;
}

static uint64_t
counted_timers(int wheel)
{
  uint64_t sum = 0;

  for (size_t i = 0; i < LIVE_MAX_CELLS; i++)
    sum += wheels.views[wheel].shown.picture.cells[i];
  return sum;
}

START_TEST(a_wheel_of_this_loop_is_read_at_once)
{
  refreshes[0] = 5;
  live_wheels_ask(&wheels, true);
  ck_assert(!live_wheels_collect(&wheels)); /* the other one is asked */
  ck_assert_uint_eq(of(0)->stats.active, 1);
  ck_assert_uint_eq(of(0)->refreshed, 5);
  ck_assert_uint_eq(counted_timers(0), 1);
  ck_assert_uint_eq(of(1)->now_ms, 0);
}
END_TEST

START_TEST(a_wheel_of_another_loop_answers_when_that_runs)
{
  live_wheels_ask(&wheels, true);
  refreshes[1] = 7;
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, 1);
  ck_assert_uint_eq(of(1)->refreshed, 7);
  ck_assert_uint_eq(counted_timers(1), 1);
}
END_TEST

START_TEST(slots_are_counted_only_on_demand)
{
  live_wheels_ask(&wheels, false);
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, 1);
  ck_assert_uint_eq(counted_timers(0) + counted_timers(1), 0);
}
END_TEST

START_TEST(an_answer_that_was_not_collected_is_not_lost)
{
  live_wheels_ask(&wheels, false);
  answer();
  uvwheel_timer_stop(&timers[1]);
  live_wheels_ask(&wheels, false);
  ck_assert(!live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, 1);
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, 0);
}
END_TEST

START_TEST(a_blocked_loop_keeps_its_last_figures_and_is_reported)
{
  live_wheels_ask(&wheels, true);
  answer();
  live_wheels_collect(&wheels);
  for (uint64_t i = 0; i < 4; i++) {
    live_wheels_ask(&wheels, true);
    live_wheels_collect(&wheels);
    ck_assert_uint_eq(of(0)->unanswered_ms, 0);
    ck_assert_uint_eq(of(1)->unanswered_ms, i * 250);
    ck_assert_uint_eq(of(1)->stats.active, 1);
    clock_ns += 250 * MS;
  }
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->unanswered_ms, 0);
}
END_TEST

START_TEST(a_closed_wheel_is_never_asked_again)
{
  live_wheels_ask(&wheels, true);
  uvwheel_close(&made[1], NULL);
  answer();
  for (int i = 0; i < 3; i++) {
    live_wheels_ask(&wheels, true);
    answer();
    ck_assert(!live_wheels_collect(&wheels));
  }
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("live wheels");
  TCase *tcase = tcase_create("loops");

  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, a_wheel_of_this_loop_is_read_at_once);
  tcase_add_test(tcase, a_wheel_of_another_loop_answers_when_that_runs);
  tcase_add_test(tcase, slots_are_counted_only_on_demand);
  tcase_add_test(tcase, an_answer_that_was_not_collected_is_not_lost);
  tcase_add_test(tcase, a_blocked_loop_keeps_its_last_figures_and_is_reported);
  tcase_add_test(tcase, a_closed_wheel_is_never_asked_again);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
