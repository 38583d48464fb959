/* SPDX-License-Identifier: MIT */

/* Others may close some of the wheel's handles, each alone or several, at any
 * moment (scenario 36): the loop does not spin, no timer waits for ever, and
 * uvwheel_close does what it always does. */

#include "support.h"

#define TICK_MS 10
#define MOST_HANDLES (WHEEL_HANDLES + 1)

/* ---- What is closed, and when -------------------------------------------- */

static uv_handle_t *handles[MOST_HANDLES];
static unsigned handles_found;
static unsigned closing_set; /* a bit for each of the handles */
static bool is_set_closed, has_closed_wheel;
static unsigned fired_before;

static void
close_set(void)
{
  unsigned i;

  if (is_set_closed)
    return;
  is_set_closed = true;
  for (i = 0; i < handles_found; i++)
    if (closing_set & 1u << i)
      uv_close(handles[i], NULL);
  has_closed_wheel = uvwheel_is_closing(&wheel);
  fired_before = fired_in_all;
}

static void
close_set_in_callback(test_timer_t *timer)
{
  (void)timer;
  close_set();
}

/* Closes the set once a timer is due and its turn has not come. */
static void
close_set_if_due(uv_prepare_t *prepare)
{
  test_timer_t *timer = prepare->data;

  if (timer->fired == 0 && uvwheel_timer_get_due_in(&timer->base) == 0)
    close_set();
}

typedef enum moment_e {
  BEFORE_THE_FIRST_START,
  WHILE_A_TIMER_WAITS,
  WHEN_A_TIMER_IS_OVERDUE,
  BEFORE_A_POLL,
  IN_A_CALLBACK,
  MOMENTS
} moment_t;

static uv_prepare_t before_poll;

/* Runs the loop until the set is closed. */
static void
close_at(moment_t moment, test_timer_t *timer)
{
  if (moment != BEFORE_THE_FIRST_START)
    test_timer_start(timer, 1000, 0);
  timer->then = moment == IN_A_CALLBACK ? close_set_in_callback : NULL;
  before_poll.data = timer;
  if (moment == BEFORE_A_POLL)
    ck_assert_int_eq(uv_prepare_start(&before_poll, close_set_if_due), 0);
  else if (moment == IN_A_CALLBACK)
    run_for(1100);
  else if (moment == WHEN_A_TIMER_IS_OVERDUE)
    virtual_time_advance_ms(1200);
  else
    run_for(10);
  if (moment == BEFORE_A_POLL)
    run_for(1100);
  else if (moment != IN_A_CALLBACK)
    close_set();
  ck_assert(is_set_closed);
  uv_close((uv_handle_t *)&before_poll, NULL);
}

/* ---- What holds then ------------------------------------------------------
 */

static void
expect_no_spinning(void)
{
  uint64_t polls = virtual_time_polls();

  run_for(100000);
  ck_assert_uint_le(virtual_time_polls() - polls, 30);
}

static void
expect_fired_or_closing(const test_timer_t *timer)
{
  ck_assert_msg(uvwheel_is_closing(&wheel) || timer->fired == 1, "set %#x",
                closing_set);
  ck_assert_msg(!has_closed_wheel || fired_in_all == fired_before, "set %#x",
                closing_set);
}

/* A timer that can be started fires, unless the wheel is closed meanwhile. */
static void
expect_no_endless_wait(test_timer_t *timer)
{
  int error = uvwheel_timer_start(&timer->base, on_test_timer, 1000, 0);

  ck_assert(error == 0 || error == UV_EINVAL);
  ck_assert_int_eq(error == UV_EINVAL, uvwheel_is_closing(&wheel));
  timer->due_ms = uvwheel_now(&wheel) + 1000;
  expect_no_spinning();
  expect_fired_or_closing(timer);
}

static void
open_wheel_with_handles(test_timer_t *timers, size_t count)
{
  open_wheel(TICK_MS, 64);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  handles_found = list_handles(handles, MOST_HANDLES);
  ck_assert_uint_ge(handles_found, 2);
  ck_assert_uint_le(handles_found, MOST_HANDLES);
  ck_assert_int_eq(uv_prepare_init(&loop, &before_poll), 0);
  test_timer_init_all(timers, count);
  wheels_closed = 0;
  is_set_closed = false;
}

/* By others, and by the wheel's owner. */
static void
close_the_rest(bool by_others)
{
  if (by_others) {
    close_all_handles();
    run_for(10);
    ck_assert_uint_eq(handle_count(), 0);
  }
  uvwheel_close(&wheel, on_wheel_closed);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(handle_count(), 0);
  forget_wheel();
}

START_TEST(some_handles_that_others_close_leave_a_loop_that_sleeps)
{
  moment_t moment = (moment_t)_i;
  static test_timer_t timers[2];
  unsigned by_others;

  for (closing_set = 1; closing_set < 1u << MOST_HANDLES; closing_set++)
    for (by_others = 0; by_others < 2; by_others++) {
      open_wheel_with_handles(timers, LENGTH(timers));
      close_at(moment, &timers[0]);
      expect_no_spinning();
      if (moment != BEFORE_THE_FIRST_START)
        expect_fired_or_closing(&timers[0]);
      expect_no_endless_wait(&timers[1]);
      close_the_rest(by_others);
    }
  rewind_clock();
}
END_TEST

/* Without a wait. */
START_TEST(the_wheel_can_be_closed_right_after_some_of_its_handles)
{
  moment_t moment = (moment_t)_i;
  static test_timer_t timer;
  unsigned fired;

  for (closing_set = 1; closing_set < 1u << MOST_HANDLES; closing_set++) {
    open_wheel_with_handles(&timer, 1);
    close_at(moment, &timer);
    fired = fired_in_all;
    uvwheel_close(&wheel, on_wheel_closed);
    expect_no_spinning();
    ck_assert_uint_eq(wheels_closed, 1);
    ck_assert_uint_eq(fired_in_all, fired);
    ck_assert_uint_eq(handle_count(), 0);
    forget_wheel();
  }
  rewind_clock();
}
END_TEST

/* Nothing but the wheel keeps this loop alive: it ends. */
START_TEST(a_loop_ends_although_others_close_some_handles)
{
  static test_timer_t timer;

  for (closing_set = 1; closing_set < 1u << MOST_HANDLES; closing_set++) {
    open_wheel(TICK_MS, 64);
    handles_found = list_handles(handles, MOST_HANDLES);
    is_set_closed = false;
    wheels_closed = 0;
    test_timer_init(&timer);
    test_timer_start(&timer, 1000, 0);
    close_set();
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    expect_fired_or_closing(&timer);
    close_the_rest(false);
  }
  rewind_clock();
}
END_TEST

/* ---- Whose handle is it? ------------------------------------------------- */

static void
count_if_owned(uv_handle_t *handle, void *count)
{
  *(unsigned *)count += uvwheel_owns_handle(handle) != 0;
}

static unsigned
count_owned(void)
{
  unsigned count = 0;

  uv_walk(&loop, count_if_owned, &count);
  return count;
}

/* A server whose walk freed every timer that it met freed the inside of a wheel
 * (ecewo). */
START_TEST(a_wheel_s_handles_are_distinguished_from_others)
{
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
  open_wheel(TICK_MS, 64);
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
  uvwheel_close(&wheel, NULL);
  ck_assert_uint_eq(count_owned(), MOST_HANDLES);
  for (i = 0; i < LENGTH(others); i++)
    uv_close(others[i], NULL);
  run_for(1);
  ck_assert_uint_eq(handle_count(), 0);
  forget_wheel();
}
END_TEST

/* A closing wheel waits for what others have closed, with one more handle. */
START_TEST(the_handle_that_awaits_others_closes_is_the_wheel_s)
{
  open_wheel(TICK_MS, 64);
  close_all_handles();
  uvwheel_close(&wheel, NULL);
  ck_assert_uint_eq(count_owned(), WHEEL_HANDLES + 1);
  run_for(1);
  ck_assert_uint_eq(handle_count(), 0);
  forget_wheel();
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("handles");
  TCase *whose = loop_tcase(suite, "whose they are");
  TCase *some = loop_tcase(suite, "some are closed");

  tcase_add_loop_test(some,
                      some_handles_that_others_close_leave_a_loop_that_sleeps,
                      0, MOMENTS);
  tcase_add_loop_test(some,
                      the_wheel_can_be_closed_right_after_some_of_its_handles,
                      0, MOMENTS);
  tcase_add_test(some, a_loop_ends_although_others_close_some_handles);
  tcase_add_test(whose, a_wheel_s_handles_are_distinguished_from_others);
  tcase_add_test(whose, the_handle_that_awaits_others_closes_is_the_wheel_s);
  return run_suite(suite);
}
