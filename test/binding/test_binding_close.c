/* SPDX-License-Identifier: MIT */

/* Closing a wheel: from everywhere, by itself and by others. */

#include "support.h"

#include <stdlib.h>

static void
close_in_callback(test_timer_t *timer)
{
  (void)timer;
  uvwheel_close(&wheel, on_wheel_closed);
}

/* After close nothing can be armed, and queries still answer. */
static void
expect_closed_for_business(test_timer_t *timer)
{
  ck_assert_int_eq(uvwheel_is_closing(&wheel), 1);
  ck_assert_int_eq(uvwheel_timer_start(&timer->base, on_test_timer, 1, 0),
                   UV_EINVAL);
  uvwheel_timer_set_repeat(&timer->base, 5);
  ck_assert_int_lt(uvwheel_timer_again(&timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_stop(&timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer->base), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer->base), 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base), 0);
}

START_TEST(close_stops_all_timers_and_calls_back_once)
{
  static test_timer_t timers[50];
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], i * 10, i % 2 * 10);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_uint_eq(wheels_closed, 0);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  for (i = 0; i < LENGTH(timers); i++)
    expect_closed_for_business(&timers[i]);
  uvwheel_close(&wheel, on_wheel_closed);
  uvwheel_close(&wheel, NULL);
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
  uvwheel_close(&wheel, on_wheel_closed);
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(fired_in_all, 0);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

static void
poison_wheel(uvwheel_t *closed)
{
  on_wheel_closed(closed);
  forget_wheel();
}

START_TEST(the_wheel_s_memory_may_be_reused_in_the_close_callback)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, 10, 0);
  uvwheel_close(&wheel, poison_wheel);
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

static void
open_again(uvwheel_t *closed)
{
  on_wheel_closed(closed);
  open_wheel(100, 16);
}

/* Timers need no close at all. */
START_TEST(timers_can_be_used_again_on_another_wheel)
{
  static test_timer_t timer;

  open_wheel(10, 8);
  test_timer_init(&timer);
  test_timer_start(&timer, 10, 0);
  uvwheel_close(&wheel, open_again);
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(timer.fired, 0);
  test_timer_init(&timer);
  expect_punctual(&timer, 777);
}
END_TEST

START_TEST(a_wheel_can_be_closed_without_a_callback_and_without_timers)
{
  open_wheel(10, 8);
  uvwheel_close(&wheel, NULL);
  run_for(10);
  ck_assert_int_eq(uvwheel_is_closing(&wheel), 1);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

/* netty (source), folly's DeleteWheelInTimeout. The nth callback of a batch
 * closes; no other runs. */
START_TEST(close_in_a_callback_ends_the_batch_at_once)
{
  static test_timer_t timers[20];
  static uvwheel_timer_t idle;
  bool at_first_tick = _i < 10;
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, LENGTH(timers));
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &idle), 0);
  for (i = 0; i < LENGTH(timers); i++)
    test_timer_start(&timers[i], 5 + i / 10 * 20, i % 2 ? 30 : 0);
  timers[_i].then = close_in_callback;
  virtual_time_advance_ms(100); /* both ticks are due */
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_ge(fired_in_all, at_first_tick ? 1 : 11);
  ck_assert_uint_le(fired_in_all, at_first_tick ? 10 : 20);
  ck_assert_uint_eq(timers[_i].fired, 1);
  for (i = 0; i < LENGTH(timers); i++)
    expect_closed_for_business(&timers[i]);
  ck_assert_int_eq(uvwheel_timer_stop(&idle), 0);
}
END_TEST

/* On a wheel of their own, the nth due n * step_ms after the first. */
static void
start_all(test_timer_t *timers, size_t count, uint64_t first_ms,
          uint64_t step_ms)
{
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, count);
  for (i = 0; i < count; i++)
    test_timer_start(&timers[i], first_ms + i * step_ms, 0);
}

static void
close_wheel_and_note(test_timer_t *timer)
{
  close_in_callback(timer);
  *(unsigned *)timer->arg = fired_in_all;
}

START_TEST(no_callback_runs_after_the_one_that_closed)
{
  static test_timer_t timers[20];
  static unsigned fired_then;

  start_all(timers, LENGTH(timers), 5, 0);
  timers[_i].then = close_wheel_and_note;
  timers[_i].arg = &fired_then;
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, fired_then);
  ck_assert_uint_ge(fired_then, 1);
}
END_TEST

static void
close_in_walk(uvwheel_timer_t *timer, void *visits)
{
  (void)timer;
  ++*(unsigned *)visits;
  uvwheel_close(&wheel, on_wheel_closed);
}

START_TEST(close_in_a_walk_ends_the_walk)
{
  static test_timer_t timers[20];
  unsigned visits = 0;

  start_all(timers, LENGTH(timers), 0, 7);
  uvwheel_walk(&wheel, close_in_walk, &visits);
  ck_assert_uint_eq(visits, 1);
  uvwheel_walk(&wheel, close_in_walk, &visits);
  ck_assert_uint_eq(visits, 1);
  run_for(100);
  ck_assert_uint_eq(wheels_closed, 1);
  uvwheel_walk(&wheel, close_in_walk, &visits);
  ck_assert_uint_eq(visits, 1);
}
END_TEST

static void
close_and_finish_in_walk(uvwheel_timer_t *timer, void *visits)
{
  close_in_walk(timer, visits);
  run_for(10);
}

/* Running the loop in a walk is forbidden, but survived. */
START_TEST(a_close_that_is_finished_in_a_walk_waits_for_its_end)
{
  static test_timer_t timers[5];
  unsigned visits = 0;

  start_all(timers, LENGTH(timers), 0, 7);
  uvwheel_walk(&wheel, close_and_finish_in_walk, &visits);
  ck_assert_uint_eq(visits, 1);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

static void
walk_and_close(test_timer_t *timer)
{
  uvwheel_walk(&wheel, close_in_walk, timer->arg);
}

START_TEST(close_in_a_walk_in_a_callback_ends_both)
{
  static test_timer_t timers[20];
  unsigned visits = 0;
  size_t i;

  start_all(timers, LENGTH(timers), 5, 0);
  for (i = 0; i < LENGTH(timers); i++) {
    timers[i].then = walk_and_close;
    timers[i].arg = &visits;
  }
  run_for(100);
  ck_assert_uint_eq(visits, 1);
  ck_assert_uint_eq(fired_in_all, 1);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

/* ---- Closed by others ---------------------------------------------------- */

static void
start_crowd(test_timer_t *timers, size_t count)
{
  size_t i;

  open_wheel(10, 8);
  test_timer_init_all(timers, count);
  for (i = 0; i < count; i++)
    test_timer_start(&timers[i], 5, i % 2 * 20);
}

static void
close_handles(test_timer_t *timer)
{
  (void)timer;
  ck_assert_uint_eq(close_all_handles(), WHEEL_HANDLES);
}

/* What follows happens while the driver's close is under way, or after it. */
static const struct {
  const char *name;
  uint64_t run_ms;
} closes[] = {{"under way", 0}, {"finished", 100}};

/* Programs that close every handle that uv_walk finds. */
START_TEST(a_foreign_close_stops_the_wheel)
{
  static test_timer_t timers[10];
  size_t i;

  start_crowd(timers, LENGTH(timers));
  close_handles(NULL);
  if (closes[_i].run_ms > 0)
    run_for(closes[_i].run_ms);
  require_in(closes[_i].name, uvwheel_is_closing(&wheel));
  require_in(closes[_i].name,
             uvwheel_timer_start(&timers[0].base, on_test_timer, 1, 0) ==
                 UV_EINVAL);
  require_in(closes[_i].name,
             uvwheel_timer_again(&timers[1].base) == UV_EINVAL);
  ck_assert_uint_eq(uvwheel_count(&wheel), LENGTH(timers));
  for (i = 0; i < 3; i++)
    test_timer_stop(&timers[i]);
  uvwheel_ref(&wheel);
  uvwheel_unref(&wheel);
  uvwheel_timer_unref(&timers[4].base);
  run_for(1000);
  require_in(closes[_i].name, fired_in_all == 0);
  require_in(closes[_i].name, handle_count() == 0);
  require_in(closes[_i].name, uvwheel_count(&wheel) == LENGTH(timers) - 3);
}
END_TEST

START_TEST(close_after_a_foreign_close_under_way_calls_back_when_it_is_finished)
{
  static test_timer_t timers[10];

  start_crowd(timers, LENGTH(timers));
  close_handles(NULL);
  uvwheel_close(&wheel, poison_wheel);
  ck_assert_uint_eq(wheels_closed, 0);
  expect_closed_for_business(&timers[0]);
  run_for(100);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

static const struct {
  const char *name;
  uvwheel_close_cb cb;
  unsigned called;
} close_callbacks[] = {{"no callback", NULL, 0},
                       {"a callback", on_wheel_closed, 1}};

START_TEST(close_after_a_foreign_close_that_is_finished_calls_back_at_once)
{
  static test_timer_t timers[10];
  unsigned called = close_callbacks[_i].called;

  start_crowd(timers, LENGTH(timers));
  close_handles(NULL);
  run_for(100);
  uvwheel_close(&wheel, close_callbacks[_i].cb);
  require_in(close_callbacks[_i].name, wheels_closed == called);
  expect_closed_for_business(&timers[0]);
  uvwheel_close(&wheel, on_wheel_closed);
  require_in(close_callbacks[_i].name, wheels_closed == called);
  run_for(100);
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

START_TEST(a_foreign_close_after_close_is_what_uv_is_closing_says)
{
  static test_timer_t timers[10];

  start_crowd(timers, LENGTH(timers));
  uvwheel_close(&wheel, on_wheel_closed);
  /* The walk visits the handle and sees that it is closing already. */
  close_handles(NULL);
  run_for(100);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(close_all_handles(), 0);
}
END_TEST

static unsigned foreign_closes;

static void
on_foreign_close(uv_handle_t *handle)
{
  ck_assert_int_eq(uv_handle_get_type(handle), UV_TIMER);
  foreign_closes++;
}

static void
close_with_callback(uv_handle_t *handle, void *found)
{
  if (uv_handle_get_type(handle) != UV_TIMER || !uv_is_active(handle))
    return;
  *(uv_handle_t **)found = handle;
  uv_close(handle, on_foreign_close);
}

START_TEST(the_callback_of_a_foreign_close_is_called_all_the_same)
{
  static test_timer_t timers[10];
  uv_handle_t *found = NULL;

  start_crowd(timers, LENGTH(timers));
  uv_walk(&loop, close_with_callback, &found);
  ck_assert_ptr_nonnull(found);
  uvwheel_close(&wheel, on_wheel_closed);
  run_for(100);
  ck_assert_uint_eq(foreign_closes, 1);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

/* Nothing fires after the callback that closes all handles. */
START_TEST(a_foreign_close_in_a_callback_ends_the_batch)
{
  static test_timer_t timers[10];
  size_t i;

  start_crowd(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    timers[i].then = close_handles;
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 1);
  ck_assert_uint_eq(handle_count(), 0);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

static void
close_handles_then_wheel(test_timer_t *timer)
{
  close_handles(timer);
  uvwheel_close(&wheel, poison_wheel);
}

START_TEST(a_wheel_survives_both_closes_in_one_callback)
{
  static test_timer_t timers[10];
  size_t i;

  start_crowd(timers, LENGTH(timers));
  for (i = 0; i < LENGTH(timers); i++)
    timers[i].then = close_handles_then_wheel;
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 1);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

START_TEST(a_wheel_that_was_never_closed_can_be_left)
{
  static test_timer_t timers[10];

  start_crowd(timers, LENGTH(timers));
  close_handles(NULL);
  run_for(100);
  /* Its slots leak, by contract; here they are freed for the leak checker. */
  uvwheel__core_destroy(&wheel.core);
  forget_wheel();
}
END_TEST

static void
count_timer(uvwheel_timer_t *timer, void *count)
{
  (void)timer;
  ++*(unsigned *)count;
}

static void
close_any(uv_handle_t *handle, void *unused)
{
  (void)unused;
  uv_close(handle, NULL);
}

START_TEST(a_wheel_that_others_closed_does_without_its_loop)
{
  uv_loop_t *own = malloc(sizeof *own);
  static uvwheel_timer_t timer;
  static uvwheel_t left; /* a build with checks remembers it */
  uvwheel_stats_t stats;
  unsigned count = 0;

  ck_assert_ptr_nonnull(own);
  ck_assert_int_eq(uv_loop_init(own), 0);
  ck_assert_int_eq(uvwheel_init(own, &left, NULL), 0);
  ck_assert_int_eq(uvwheel_timer_init(&left, &timer), 0);
  ck_assert_int_eq(uvwheel_timer_start(&timer, on_test_timer, 1000, 0), 0);
  uv_walk(own, close_any, NULL);
  uv_run(own, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(own), 0);
  free(own); /* the address sanitizer would report a read of it */
  ck_assert_int_eq(uvwheel_timer_start(&timer, on_test_timer, 2000, 0),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_start(&timer, on_test_timer, 1, 0), UV_EINVAL);
  ck_assert_uint_eq(uvwheel_now(&left), 0);
  uvwheel_get_stats(&left, &stats);
  ck_assert_uint_eq(stats.active, 1);
  (void)uvwheel_timer_get_due_in(&timer);
  (void)uvwheel_timer_get_rounds(&timer);
  uvwheel_walk(&left, count_timer, &count);
  ck_assert_uint_eq(count, 1);
  ck_assert_int_eq(uvwheel_timer_stop(&timer), 0);
  uvwheel__core_destroy(&left.core);
}
END_TEST

START_TEST(a_closed_wheel_does_without_its_loop)
{
  uv_loop_t *own = malloc(sizeof *own);
  uvwheel_stats_t stats;
  uvwheel_t closed;

  ck_assert_ptr_nonnull(own);
  ck_assert_int_eq(uv_loop_init(own), 0);
  ck_assert_int_eq(uvwheel_init(own, &closed, NULL), 0);
  uvwheel_close(&closed, NULL);
  uv_run(own, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(own), 0);
  free(own);
  uvwheel_get_stats(&closed, &stats);
  ck_assert_uint_eq(stats.active, 0);
  ck_assert_uint_eq(uvwheel_now(&closed), 0);
  uvwheel_unref(&closed);
  ck_assert_uint_eq(uvwheel_fire_soonest(&closed, 1), 0);
  ck_assert_int_eq(uvwheel_open_mailbox(&closed), UV_EINVAL);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("binding: close");
  TCase *own = loop_tcase(suite, "by uvwheel_close");
  TCase *foreign = loop_tcase(suite, "by others");

  tcase_add_test(own, close_stops_all_timers_and_calls_back_once);
  tcase_add_test(own, the_wheel_s_memory_may_be_reused_in_the_close_callback);
  tcase_add_test(own, timers_can_be_used_again_on_another_wheel);
  tcase_add_test(own,
                 a_wheel_can_be_closed_without_a_callback_and_without_timers);
  tcase_add_loop_test(own, close_in_a_callback_ends_the_batch_at_once, 0, 20);
  tcase_add_loop_test(own, no_callback_runs_after_the_one_that_closed, 0, 20);
  tcase_add_test(own, close_in_a_walk_ends_the_walk);
  tcase_add_test(own, a_close_that_is_finished_in_a_walk_waits_for_its_end);
  tcase_add_test(own, close_in_a_walk_in_a_callback_ends_both);
  tcase_add_loop_test(foreign, a_foreign_close_stops_the_wheel, 0,
                      LENGTH(closes));
  tcase_add_test(
      foreign,
      close_after_a_foreign_close_under_way_calls_back_when_it_is_finished);
  tcase_add_loop_test(
      foreign, close_after_a_foreign_close_that_is_finished_calls_back_at_once,
      0, LENGTH(close_callbacks));
  tcase_add_test(foreign,
                 a_foreign_close_after_close_is_what_uv_is_closing_says);
  tcase_add_test(foreign,
                 the_callback_of_a_foreign_close_is_called_all_the_same);
  tcase_add_test(foreign, a_foreign_close_in_a_callback_ends_the_batch);
  tcase_add_test(foreign, a_wheel_survives_both_closes_in_one_callback);
  tcase_add_test(foreign, a_wheel_that_was_never_closed_can_be_left);
  tcase_add_test(foreign, a_wheel_that_others_closed_does_without_its_loop);
  tcase_add_test(own, a_closed_wheel_does_without_its_loop);
  return run_suite(suite);
}
