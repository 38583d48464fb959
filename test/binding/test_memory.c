/* SPDX-License-Identifier: MIT */

/* The binding and the heap: one allocation in init, none ever after. */

#include <stdlib.h>

#include "allocations.h"
#include "support.h"

START_TEST(without_memory_for_the_slots_the_loop_is_left_as_it_was) {
  int error;

  memset(&wheel, 0xA5, sizeof wheel);
  allocations_fail(true);
  error = uvwheel_init(&loop, &wheel, NULL);
  allocations_fail(false);
  ck_assert_int_eq(error, UV_ENOMEM);
  ck_assert_ptr_null(wheel.state);
  ck_assert_uint_eq(handle_count(), 0);
  ck_assert_int_eq(uv_loop_alive(&loop), 0);
}
END_TEST

static uvwheel_timer_t timers[300];

static void keep_busy(uvwheel_timer_t *timer) {
  fired_in_all++;
  (void)uvwheel_timer_start(timer, keep_busy, fired_in_all % 700,
                            fired_in_all % 3 * 50);
}

static void visit(uvwheel_timer_t *timer, void *arg) {
  (void)arg;
  uvwheel_timer_unref(timer);
  uvwheel_timer_ref(timer);
}

/* run_for without its assertions, for these allocate. */
static void pass_time(void) {
  int i;

  for (i = 0; i < 20; i++) {
    virtual_time_advance_ms(10);
    run_turn();
  }
}

static void use_everything(void) {
  uvwheel_stats_t stats;
  size_t i, times;

  for (times = 0; times < 20; times++) {
    for (i = 0; i < LENGTH(timers); i++)
      (void)uvwheel_timer_start(&timers[i], keep_busy, i * times, i % 2 * 40);
    for (i = 0; i < LENGTH(timers); i += 2)
      (void)uvwheel_timer_refresh(&timers[i]);
    for (i = 0; i < LENGTH(timers); i += 3)
      (void)uvwheel_timer_again(&timers[i]);
    for (i = 0; i < LENGTH(timers); i += 5)
      (void)uvwheel_timer_stop(&timers[i]);
    uvwheel_walk(&wheel, visit, NULL);
    uvwheel_get_stats(&wheel, &stats);
    pass_time();
  }
}

START_TEST(init_allocates_once_and_no_operation_after_it) {
  const uvwheel_options_t options = {
      .tick_ms = 10, .slots = 16, .turn_budget = 20, .flags = (uint32_t)_i};
  uint64_t before = allocations(), during;
  int error = uvwheel_init(&loop, &wheel, &options);
  size_t i;

  during = allocations();
  ck_assert_int_eq(error, 0);
  ck_assert_uint_eq(during - before, 1);
  allocations_fail(true);
  during = allocations();
  for (i = 0; i < LENGTH(timers); i++)
    (void)uvwheel_timer_init(&wheel, &timers[i]);
  use_everything();
  uvwheel_close(&wheel, NULL);
  pass_time();
  during = allocations() - during;
  allocations_fail(false);
  ck_assert_uint_eq(during, 0);
  ck_assert_uint_gt(fired_in_all, 500);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

/* Scenario 13. libuv#2072, node#20298. */
START_TEST(a_million_refreshes_leave_one_timer_and_allocate_nothing) {
  uint64_t before;
  uvwheel_stats_t stats;
  int i, errors = 0;

  open_wheel(100, 64);
  begin_timer(&timers[0], keep_busy, 60000, 0);
  before = allocations();
  for (i = 0; i < 1000000; i++)
    errors += uvwheel_timer_refresh(&timers[0]) != 0;
  ck_assert_uint_eq(allocations(), before);
  ck_assert_int_eq(errors, 0);
  ck_assert_uint_eq(uvwheel_count(&wheel), 1);
  stats = stats_of_wheel();
  ck_assert_uint_eq(stats.active, 1);
  ck_assert_uint_eq(stats.started, 1);
  ck_assert_uint_eq(stats.stopped, 0);
  ck_assert_uint_eq(stats.rescheduled, 0);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(without_memory_for_the_slots_the_loop_is_left_as_it_was),
      {init_allocates_once_and_no_operation_after_it, 0, 2},
      TEST(a_million_refreshes_leave_one_timer_and_allocate_nothing),
  };

  return run_loop_tests("memory", tests, LENGTH(tests));
}
