/* SPDX-License-Identifier: MIT */

/* What burnt the users of other timers: each test names the issue of another
 * project that it comes from. The model plays more: see
 * test/model/play_timers.c. */

#include <stdlib.h>

#include "support.h"

#define TICK_MS 10
#define SLOTS 8
#define ROUND_MS (TICK_MS * SLOTS)

#define HOUR_MS UINT64_C(3600000)

/* Scenario 12. haproxy#2704, h2o source. Repeats, too, fire once when the clock
 * leaps ahead, and not at all when it steps back. */
START_TEST(a_clock_that_leaps_by_hours_fires_what_is_due_once) {
  static const int64_t leaps_h[] = {8, -1, 3, -2, 8, -5, 100, -99};
  static const uint64_t every_ms[] = {20, 1000, 60000, HOUR_MS};
  static test_timer_t once[40], beats[LENGTH(every_ms)], timer;
  uint64_t latest_ms = 0;
  unsigned fired[LENGTH(every_ms)];
  size_t i, which;

  open_wheel_without_stalls(TICK_MS, SLOTS);
  test_timer_init(&timer);
  run_for(10 * HOUR_MS);
  for (i = 0; i < LENGTH(once); i++)
    begin_test_timer(&once[i], i * HOUR_MS / 2 + 17, 0);
  for (i = 0; i < LENGTH(beats); i++)
    begin_test_timer(&beats[i], every_ms[i], every_ms[i]);
  for (which = 0; which < LENGTH(leaps_h); which++) {
    expect_punctual(&timer, 2 * ROUND_MS);
    for (i = 0; i < LENGTH(beats); i++)
      fired[i] = beats[i].fired;
    virtual_time_set_ns(virtual_time_ns() +
                        (uint64_t)leaps_h[which] * HOUR_MS * 1000000);
    run_turn();
    for (i = 0; i < LENGTH(beats); i++)
      ck_assert_msg(beats[i].fired - fired[i] == (leaps_h[which] > 0),
                    "leap %d, beat %d", (int)which, (int)i);
    latest_ms = max_of(latest_ms, uv_now(&loop));
    for (i = 0; i < LENGTH(once); i++)
      ck_assert_msg(once[i].fired == (fires_at(once[i].due_ms) <= latest_ms),
                    "leap %d, timer %d", (int)which, (int)i);
  }
  rewind_clock();
}
END_TEST

/* ---- Beside other work --------------------------------------------------- */

#define RESTARTS 500

static uint64_t polls_before;

/* Each callback comes after another poll, which reads what is ready. A slow
 * callback blocks the loop for longer than a tick. */
static void block_and_restart(test_timer_t *timer) {
  const uint64_t *block_ms = timer->arg;

  ck_assert_uint_gt(virtual_time_polls(), polls_before);
  polls_before = virtual_time_polls();
  virtual_time_advance_ms(*block_ms);
  if (timer->fired < RESTARTS)
    test_timer_start(timer, 0, 0);
}

static const struct {
  const char *name;
  uint64_t tick_ms;
  uint64_t block_ms;
} restarts[] = {
    {"in no time, fine ticks", 1, 0},
    {"in a tick, fine ticks", 1, 1},
    {"in 10 ticks, fine ticks", 1, TICK_MS},
    {"in 50 ticks, fine ticks", 1, 5 * TICK_MS},
    {"in no time", TICK_MS, 0},
    {"in less than a tick", TICK_MS, 1},
    {"in a tick", TICK_MS, TICK_MS},
    {"in 5 ticks", TICK_MS, 5 * TICK_MS},
};

/* P3. Scenario 6. libuv#4245, #4250. */
START_TEST(a_callback_that_restarts_itself_at_0_for_ever_leaves_io_alone) {
  uint64_t block_ms = restarts[_i].block_ms;
  static test_timer_t timer;

  open_wheel(restarts[_i].tick_ms, 8);
  polls_before = virtual_time_polls();
  begin_test_timer(&timer, 0, 0);
  timer.then = block_and_restart;
  timer.arg = &block_ms;
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  require_in(restarts[_i].name, timer.fired == RESTARTS);
}
END_TEST

static test_timer_t crowd[100];

static void start_another(uv_prepare_t *prepare) {
  static size_t next;

  (void)prepare;
  virtual_time_advance_ms(1);
  test_timer_start(&crowd[next], next % 3 * 1000, 0);
  next++;
}

/* Scenario 15. bun#33359. In each iteration another timer is started. */
START_TEST(starts_in_every_iteration_do_not_starve_an_overdue_timer) {
  static uv_prepare_t prepare;
  static test_timer_t timer;

  open_wheel(TICK_MS, 8);
  test_timer_init_all(crowd, LENGTH(crowd));
  begin_prepare(&prepare, start_another);
  begin_test_timer(&timer, 50, 0);
  while (uv_now(&loop) < START_MS + 70)
    uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_le(timer.fired_ms, fires_at(timer.due_ms) + 2);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(a_clock_that_leaps_by_hours_fires_what_is_due_once),
      EACH(a_callback_that_restarts_itself_at_0_for_ever_leaves_io_alone,
           restarts),
      TEST(starts_in_every_iteration_do_not_starve_an_overdue_timer),
  };

  return run_loop_tests("others_bugs", tests, LENGTH(tests));
}
