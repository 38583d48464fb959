/* SPDX-License-Identifier: MIT */

/* Closing a wheel: by uvwheel_close from everywhere, and by others, who close
 * handles of it. test_posts.c has what becomes of requests. */

#include <stdlib.h>

#include "support.h"

/* ---- By uvwheel_close ---------------------------------------------------- */

/* After close nothing can be armed, and queries still answer. */
static void expect_closed_for_business(test_timer_t *timer) {
  ck_assert_int_eq(uvwheel_timer_start(&timer->base, on_test_timer, 1, 0),
                   UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_expect(&timer->base, on_test_timer, 1),
                   UV_EINVAL);
  uvwheel_timer_set_repeat(&timer->base, 5);
  ck_assert_int_lt(uvwheel_timer_again(&timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_stop(&timer->base), 0);
  ck_assert_int_eq(uvwheel_timer_refresh(&timer->base), UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_is_active(&timer->base), 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timer->base), 0);
}

/* libuv#2416, netty#366. */
START_TEST(close_stops_all_timers_and_calls_back_once) {
  static test_timer_t timers[50];
  size_t i;

  open_wheel(10, 8);
  for (i = 0; i < LENGTH(timers); i++)
    begin_test_timer(&timers[i], i * 10, i % 2 * 10);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_int_eq(uvwheel_is_closing(&wheel), 1);
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
  for (i = 0; i < LENGTH(timers); i++) /* there is no wheel any more */
    expect_closed_for_business(&timers[i]);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(fired_in_all, 0);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

#define CROWD 100000u

static uvwheel_timer_t crowd[CROWD];
static unsigned crowd_fired, close_at;

static void close_in_crowd(uvwheel_timer_t *timer) {
  (void)timer;
  if (++crowd_fired == close_at)
    uvwheel_close(&wheel, on_wheel_closed);
}

static void start_crowd(uvwheel_t *on) {
  unsigned errors = 0, i;

  for (i = 0; i < CROWD; i++) {
    errors += uvwheel_timer_is_active(&crowd[i]) != 0;
    errors += uvwheel_timer_init(on, &crowd[i]) != 0;
    errors += uvwheel_timer_start(&crowd[i], close_in_crowd, 5 + i % 2, 0) != 0;
  }
  ck_assert_uint_eq(errors, 0);
  ck_assert_uint_eq(uvwheel_count(on), CROWD);
}

/* In which callback the wheel is closed; 0: outside. */
static const unsigned crowd_closes[] = {0, 1, CROWD / 2, CROWD};

/* Scenario 19. libuv#2416, netty#366; netty (source), folly's
 * DeleteWheelInTimeout: the batch ends at once. */
START_TEST(a_crowd_is_silenced_by_close_and_can_be_started_on_another_wheel) {
  static uvwheel_t another;

  open_wheel(10, 8);
  ck_assert_int_eq(uvwheel_init(&loop, &another, NULL), 0);
  start_crowd(&wheel);
  crowd_fired = 0;
  close_at = crowd_closes[_i];
  if (close_at == 0)
    uvwheel_close(&wheel, on_wheel_closed);
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(crowd_fired, close_at);
  ck_assert_int_eq(uvwheel_timer_stop(crowd), 0);
  uvwheel_timer_close(crowd);
  ck_assert_int_eq(uvwheel_timer_stop(crowd), 0);
  start_crowd(&another);
  crowd_fired = close_at = 0;
  run_for(1000);
  ck_assert_uint_eq(crowd_fired, CROWD);
  ck_assert_uint_eq(wheels_closed, 1);
  uvwheel_close(&another, NULL);
}
END_TEST

/* ---- Closed by others ---------------------------------------------------- */

/* Programs that close every handle that uv_walk finds, or some of them. Which
 * ones: a bit for each, in the order of the walk. */
#define MOST_HANDLES (WHEEL_HANDLES + 1)
#define ALL_HANDLES ((1u << MOST_HANDLES) - 1)

static uv_handle_t *handles[6];
static unsigned closing_set;
static unsigned fired_before;

static void close_set(test_timer_t *timer) {
  unsigned i;

  (void)timer;
  for (i = 0; i < MOST_HANDLES; i++)
    if ((closing_set & 1u << i) && !uv_is_closing(handles[i]))
      uv_close(handles[i], NULL);
  fired_before = fired_in_all;
}

static void let_it_wait(test_timer_t *timer) {
  test_timer_start(timer, 1000, 0);
  run_for(10);
  close_set(timer);
}

static void let_it_be_overdue(test_timer_t *timer) {
  test_timer_start(timer, 1000, 0);
  virtual_time_advance_ms(1200);
  close_set(timer);
}

/* Another timer is due at the same tick. */
static void let_it_close(test_timer_t *timer) {
  static test_timer_t other;

  timer->then = close_set;
  test_timer_start(timer, 1000, 0);
  begin_test_timer(&other, 1000, 0);
  run_for(1100);
  timer->then = NULL;
}

static void post_again(uvwheel_post_t *post, int status) {
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(uvwheel_post(&wheel, post, ignore_post), 0);
}

/* A request that waits keeps the loop from being quiet. */
static void let_it_listen(test_timer_t *timer) {
  static uvwheel_post_t post;

  test_timer_start(timer, 1000, 0);
  virtual_time_advance_ms(1200);
  ck_assert_int_eq(uvwheel_post(&wheel, &post, post_again), 0);
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(timer->fired, 0);
  close_set(timer);
  virtual_time_advance_ms(1); /* so that the loop is asked again */
}

/* When the handles are closed. */
static void (*const moments[])(test_timer_t *) = {
    close_set, let_it_wait, let_it_be_overdue, let_it_close, let_it_listen};

/* Nothing that libuv still has is the wheel's. */
static void forget_closed(uvwheel_t *closed) {
  on_wheel_closed(closed);
  ck_assert_uint_eq(handle_count(), 0);
  forget_wheel();
}

static void expect_no_spinning(void) {
  uint64_t polls = virtual_time_polls();

  run_for(100000);
  ck_assert_uint_le(virtual_time_polls() - polls, 30);
}

static void open_and_close_set(test_timer_t *timers, size_t count, unsigned set,
                               int moment) {
  open_wheel(10, 64);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_uint_eq(list_handles(handles, MOST_HANDLES), MOST_HANDLES);
  test_timer_init_all(timers, count);
  wheels_closed = 0;
  closing_set = set;
  moments[moment](&timers[0]);
}

static void close_by_owner(void) {
  uvwheel_close(&wheel, forget_closed);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
}

static void close_in_walk(uvwheel_timer_t *timer, void *unused) {
  (void)timer, (void)unused;
  uvwheel_close(&wheel, forget_closed);
}

START_TEST(a_wheel_whose_handles_others_have_closed_is_closing) {
  static test_timer_t timers[2];

  open_and_close_set(timers, LENGTH(timers), ALL_HANDLES, _i);
  ck_assert_int_eq(uvwheel_is_closing(&wheel), 1);
  expect_closed_for_business(&timers[1]);
  run_for(2000);
  ck_assert_uint_eq(fired_in_all, fired_before);
  expect_closed_for_business(&timers[1]);
  uvwheel_ref(&wheel);
  uvwheel_unref(&wheel);
  uvwheel_timer_unref(&timers[0].base);
  uvwheel_walk(&wheel, close_in_walk, NULL);
  if (wheels_closed == 0) /* no timer was left */
    close_by_owner();
}
END_TEST

/* Scenario 36. A timer that can be started fires, unless the wheel is found to
 * be closing meanwhile; and no loop polls again and again. While the wheel
 * listens, its idle handle and its check (2 and 4) notice each other's close;
 * if both are closed, nothing does. */
START_TEST(some_handles_that_others_close_leave_a_loop_that_sleeps) {
  static test_timer_t timers[2];
  unsigned set;
  int error;

  for (set = 1; set <= ALL_HANDLES; set++) {
    open_and_close_set(timers, LENGTH(timers), set, _i);
    expect_no_spinning();
    error = uvwheel_timer_start(&timers[1].base, on_test_timer, 1000, 0);
    timers[1].due_ms = uv_now(&loop) + 1000;
    ck_assert_int_eq(error, uvwheel_is_closing(&wheel) ? UV_EINVAL : 0);
    expect_no_spinning();
    if (moments[_i] == let_it_listen)
      ck_assert_int_eq(uvwheel_is_closing(&wheel),
                       (set & 1) != 0 || (set & 6) == 2 || (set & 6) == 4);
    else
      ck_assert(uvwheel_is_closing(&wheel) || timers[1].fired == 1);
    close_by_owner();
    /* Right after others' closes, which are under way then. */
    open_and_close_set(timers, LENGTH(timers), set, _i);
    fired_before = fired_in_all;
    close_by_owner();
    ck_assert_uint_eq(fired_in_all, fired_before);
    expect_no_spinning();
  }
  rewind_clock();
}
END_TEST

static test_timer_t closers[2];

/* The one that fires first closes the set. */
static void begin_closers(unsigned set) {
  size_t i;

  (void)list_handles(handles, WHEEL_HANDLES);
  closing_set = set;
  for (i = 0; i < LENGTH(closers); i++) {
    begin_test_timer(&closers[i], 100, 0);
    closers[i].then = close_set;
  }
}

static void close_check(uv_prepare_t *prepare) {
  if (!uv_is_closing(handles[1]))
    return;
  uv_close(handles[2], NULL);
  (void)uv_prepare_stop(prepare);
}

/* A turn is cut after the callback that closes the idle handle. The check is
 * closed before it could see that. */
START_TEST(an_idle_handle_that_others_close_is_not_started) {
  static uv_prepare_t prepare;

  open_wheel_with(&(uvwheel_options_t){.turn_budget = 1});
  begin_closers(2);
  begin_prepare(&prepare, close_check);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 1);
  ck_assert_int_eq(uv_loop_alive(&loop), 0);
}
END_TEST

/* In a turn, which no limit has cut; or early, to make room. */
START_TEST(no_timer_fires_once_others_have_closed_the_driver) {
  open_wheel(10, 64);
  begin_closers(1);
  closers[0].may_be_early = closers[1].may_be_early = _i == 1;
  if (_i == 1)
    ck_assert_uint_eq(uvwheel_fire_soonest(&wheel, 2), 1);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 1);
  ck_assert_uint_eq(stats_of_wheel().turns, 1 - (uint64_t)_i);
  ck_assert_uint_eq(stats_of_wheel().turns_cut, 0);
}
END_TEST

/* The walk finds them all closing. In some cases others closed the check. */
START_TEST(a_foreign_close_after_close_is_what_uv_is_closing_says) {
  static test_timer_t timers[2];

  open_and_close_set(timers, LENGTH(timers), _i % 2 ? 8 : 0, _i / 2);
  uvwheel_close(&wheel, forget_closed);
  ck_assert_uint_eq(close_all_handles(), MOST_HANDLES);
  run_for(100);
  ck_assert_uint_eq(wheels_closed, 1);
}
END_TEST

static void close_any(uv_handle_t *handle, void *unused) {
  (void)unused;
  uv_close(handle, NULL);
}

/* Its slots leak, by contract; here they are freed for the leak checker. */
START_TEST(a_wheel_that_was_never_closed_can_be_left_without_its_loop) {
  uv_loop_t *own = malloc(sizeof *own);
  static uvwheel_timer_t timer;
  uvwheel_stats_t stats;

  ck_assert_ptr_nonnull(own);
  ck_assert_int_eq(uv_loop_init(own), 0);
  ck_assert_int_eq(uvwheel_init(own, &wheel, NULL), 0);
  begin_timer(&timer, count_timer, 1000, 0);
  uv_walk(own, close_any, NULL);
  uv_run(own, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(own), 0);
  free(own); /* the address sanitizer would report a read of it */
  ck_assert_int_eq(uvwheel_timer_start(&timer, count_timer, 1, 0), UV_EINVAL);
  uvwheel_get_stats(&wheel, &stats);
  (void)uvwheel_timer_get_due_in(&timer);
  ck_assert_int_eq(uvwheel_timer_stop(&timer), 0);
  uvwheel_close(&wheel, NULL);
}
END_TEST

/* ---- Whose handle is it? ------------------------------------------------- */

static void count_if_owned(uv_handle_t *handle, void *count) {
  *(unsigned *)count += uvwheel_owns_handle(handle) != 0;
}

static unsigned count_owned(void) {
  unsigned count = 0;

  uv_walk(&loop, count_if_owned, &count);
  return count;
}

/* A server whose walk freed every timer that it met freed the inside of a wheel
 * (ecewo). */
START_TEST(a_wheel_s_handles_are_distinguished_from_others) {
  static uv_timer_t timer;
  static uv_idle_t idle;
  static uv_check_t check;
  static uv_prepare_t prepare;
  static uv_async_t async;
  static uv_tcp_t tcp;
  uv_handle_t *others[] = {(uv_handle_t *)&timer, (uv_handle_t *)&idle,
                           (uv_handle_t *)&check, (uv_handle_t *)&prepare,
                           (uv_handle_t *)&async, (uv_handle_t *)&tcp};
  size_t i;

  ck_assert_int_eq(uvwheel_owns_handle(NULL), 0);
  open_wheel(10, 64);
  (void)list_handles(handles, WHEEL_HANDLES);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_int_eq(uv_timer_init(&loop, &timer), 0);
  ck_assert_int_eq(uv_idle_init(&loop, &idle), 0);
  ck_assert_int_eq(uv_check_init(&loop, &check), 0);
  ck_assert_int_eq(uv_prepare_init(&loop, &prepare), 0);
  ck_assert_int_eq(uv_async_init(&loop, &async, NULL), 0);
  ck_assert_int_eq(uv_tcp_init(&loop, &tcp), 0);
  ck_assert_uint_eq(count_owned(), MOST_HANDLES);
  for (i = 0; i < LENGTH(others); i++)
    ck_assert_int_eq(uvwheel_owns_handle(others[i]), 0);
  uv_close(handles[2], NULL); /* one more has to wait */
  uvwheel_close(&wheel, NULL);
  ck_assert_uint_eq(count_owned(), MOST_HANDLES);
  uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_uint_eq(count_owned(), 1);
  run_for(1);
  ck_assert_uint_eq(handle_count(), LENGTH(others));
  forget_wheel();
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(close_stops_all_timers_and_calls_back_once),
      EACH(a_crowd_is_silenced_by_close_and_can_be_started_on_another_wheel,
           crowd_closes),
      EACH(a_wheel_whose_handles_others_have_closed_is_closing, moments),
      EACH(some_handles_that_others_close_leave_a_loop_that_sleeps, moments),
      TEST(an_idle_handle_that_others_close_is_not_started),
      {no_timer_fires_once_others_have_closed_the_driver, 0, 2},
      {a_foreign_close_after_close_is_what_uv_is_closing_says, 2, 6},
      TEST(a_wheel_that_was_never_closed_can_be_left_without_its_loop),
      TEST(a_wheel_s_handles_are_distinguished_from_others),
  };

  return run_loop_tests("close", tests, LENGTH(tests));
}
