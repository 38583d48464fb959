/* SPDX-License-Identifier: MIT */

/* What the live page knows of wheels. The other loop is one of this thread:
 * while it is not run it is blocked. Counting slots takes no more than its
 * share of the time: here each look at the clock takes as long as the test
 * says. */

#include <check.h>
#include <stdint.h>

#include <uv.h>
#include <uvwheel.h>

#include "live/live-wheels.h"
#include "suite.h"

#define SLOTS 1024
#define TIMERS 100
#define MS 1000000

uint64_t __wrap_uv_hrtime(void);

static uint64_t clock_ns;
static uint64_t look_ns; /* how long one at the clock takes */

static uv_loop_t loops[2];
static uvwheel_t made[2];
static uvwheel_timer_t timers[2][TIMERS];
static uint64_t refreshes[2];
static live_wheels_t wheels;
static live_picture_t picture; /* of the first */

static const live_wheel_t shown[] = {
    {.name = "here", .wheel = &made[0], .refreshes = &refreshes[0]},
    {.name = "there", .wheel = &made[1], .refreshes = &refreshes[1]}};

uint64_t __wrap_uv_hrtime(void) {
  clock_ns += look_ns;
  return clock_ns;
}

static void never(uvwheel_timer_t *timer) {
  (void)timer;
  ck_abort_msg("fired");
}

static void setup(void) {
  uvwheel_options_t options = {.slots = SLOTS};

  clock_ns = 1;
  look_ns = 0;
  for (int i = 0; i < 2; i++) {
    refreshes[i] = 0;
    ck_assert_int_eq(uv_loop_init(&loops[i]), 0);
    ck_assert_int_eq(uvwheel_init(&loops[i], &made[i], &options), 0);
    for (unsigned k = 0; k < TIMERS; k++) {
      uvwheel_timer_init(&made[i], &timers[i][k]);
      uvwheel_timer_start(&timers[i][k], never, 1000 * (k + 1), 0);
    }
  }
  ck_assert_int_eq(live_wheels_init(&wheels, shown, 2, &loops[0]), 0);
  live_picture_begin(&picture, &made[0]);
}

static void teardown(void) {
  for (int i = 0; i < 2; i++) {
    uvwheel_close(&made[i], NULL);
    uv_run(&loops[i], UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loops[i]), 0);
  }
  live_wheels_free(&wheels);
}

static void answer(void) {
  uv_run(&loops[1], UV_RUN_NOWAIT);
}

static const live_snapshot_t *of(int wheel) {
  return &wheels.views[wheel].shown.snapshot;
}

static uint64_t timers_in(const live_picture_t *of) {
  uint64_t sum = 0;

  for (size_t i = 0; i < LIVE_MAX_CELLS; i++)
    sum += of->cells[i];
  return sum;
}

static uint64_t counted_timers(int wheel) {
  return timers_in(&wheels.views[wheel].shown.picture);
}

/* ---- Wheels ------------------------------------------------------------- */

START_TEST(a_wheel_of_this_loop_is_read_at_once) {
  refreshes[0] = refreshes[1] = 5;
  live_wheels_ask(&wheels, true);
  ck_assert(!live_wheels_collect(&wheels)); /* the other one is asked */
  ck_assert_uint_eq(of(0)->stats.active, TIMERS);
  ck_assert_uint_eq(of(0)->refreshed, 5);
  ck_assert_uint_eq(counted_timers(0), TIMERS);
  ck_assert_uint_eq(of(1)->refreshed, 0);
  ck_assert_uint_eq(of(1)->stats.active, TIMERS); /* read at init */
}
END_TEST

START_TEST(a_wheel_of_another_loop_answers_when_that_runs) {
  live_wheels_ask(&wheels, true);
  refreshes[1] = 7;
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, TIMERS);
  ck_assert_uint_eq(of(1)->refreshed, 7);
  ck_assert_uint_eq(counted_timers(1), TIMERS);
}
END_TEST

START_TEST(an_answer_that_was_not_collected_is_not_lost) {
  live_wheels_ask(&wheels, false); /* to count no slots */
  answer();
  uvwheel_timer_stop(&timers[1][0]);
  live_wheels_ask(&wheels, false);
  ck_assert(!live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, TIMERS);
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->stats.active, TIMERS - 1);
  ck_assert_uint_eq(counted_timers(0) + counted_timers(1), 0);
}
END_TEST

START_TEST(a_blocked_loop_keeps_its_last_figures_and_is_reported) {
  live_wheels_ask(&wheels, true);
  answer();
  live_wheels_collect(&wheels);
  for (uint64_t i = 0; i < 4; i++) {
    live_wheels_ask(&wheels, true);
    live_wheels_collect(&wheels);
    ck_assert_uint_eq(of(0)->unanswered_ms, 0);
    ck_assert_uint_eq(of(1)->unanswered_ms, i * 250);
    ck_assert_uint_eq(of(1)->stats.active, TIMERS);
    clock_ns += 250 * MS;
  }
  answer();
  ck_assert(live_wheels_collect(&wheels));
  ck_assert_uint_eq(of(1)->unanswered_ms, 0);
}
END_TEST

START_TEST(a_closed_wheel_is_never_asked_again) {
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

/* ---- Slots ------------------------------------------------------------- */

/* The next step, and how long it takes. */
static uint64_t step_ns(void) {
  clock_ns += (uint64_t)LIVE_INTERVAL_MS * MS;
  uint64_t before_ns = clock_ns;
  live_picture_count(&picture);
  return clock_ns - before_ns;
}

START_TEST(an_expensive_count_takes_its_share_of_the_time_and_no_more) {
  const uint64_t cost_ns = (uint64_t)LIVE_MAX_CELLS * MS;
  uint64_t begin_ns = clock_ns;

  ck_assert_uint_eq(picture.slots_per_cell, SLOTS / LIVE_MAX_CELLS);
  look_ns = MS;
  do
    ck_assert_uint_le(step_ns(), 5 * MS);
  while (picture.next_cell != 0);
  ck_assert_uint_eq(timers_in(&picture), TIMERS);
  ck_assert_uint_ge(clock_ns - begin_ns, cost_ns * LIVE_SHARE * 98 / 100);
  ck_assert_uint_le(clock_ns - begin_ns, cost_ns * LIVE_SHARE * 102 / 100);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(a_wheel_of_this_loop_is_read_at_once),
      TEST(a_wheel_of_another_loop_answers_when_that_runs),
      TEST(an_answer_that_was_not_collected_is_not_lost),
      TEST(a_blocked_loop_keeps_its_last_figures_and_is_reported),
      TEST(a_closed_wheel_is_never_asked_again),
      TEST(an_expensive_count_takes_its_share_of_the_time_and_no_more),
  };

  return run_tests("live wheels", setup, teardown, tests, LENGTH(tests));
}
