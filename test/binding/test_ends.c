/* SPDX-License-Identifier: MIT */

/* Wheels and loops that are closed at odd moments: in the callbacks of other
 * handles, and too early. */

#include <signal.h>
#include <unistd.h>

#include "support.h"

#define TICK_MS 10

/* ---- Closed in any callback ---------------------------------------------- */

#define CROWD 20

static unsigned fired_before_close;

static union {
  uv_handle_t handle;
  uv_async_t async;
  uv_check_t check;
  uv_idle_t idle;
  uv_poll_t poll;
  uv_prepare_t prepare;
  uv_signal_t signal;
  uv_timer_t timer;
} here;

static uvwheel_t other_wheel;
static uvwheel_timer_t other_timer;

static void
close_in_callback(void)
{
  fired_before_close = fired_in_all;
  uvwheel_close(&wheel, on_wheel_closed);
}

/* In the last callback of this handle. */
static void
close_wheel_in(uv_handle_t *handle)
{
  close_in_callback();
  uv_close(handle, NULL);
}

static void
on_async(uv_async_t *async)
{
  close_wheel_in((uv_handle_t *)async);
}

static void
in_async(void)
{
  ck_assert_int_eq(uv_async_init(&loop, &here.async, on_async), 0);
  ck_assert_int_eq(uv_async_send(&here.async), 0);
}

static void
on_check(uv_check_t *check)
{
  close_wheel_in((uv_handle_t *)check);
}

static void
in_check(void)
{
  ck_assert_int_eq(uv_check_init(&loop, &here.check), 0);
  ck_assert_int_eq(uv_check_start(&here.check, on_check), 0);
}

static void
on_idle(uv_idle_t *idle)
{
  close_wheel_in((uv_handle_t *)idle);
}

static void
in_idle(void)
{
  ck_assert_int_eq(uv_idle_init(&loop, &here.idle), 0);
  ck_assert_int_eq(uv_idle_start(&here.idle, on_idle), 0);
}

static void
on_prepare(uv_prepare_t *prepare)
{
  close_wheel_in((uv_handle_t *)prepare);
}

static void
in_prepare(void)
{
  ck_assert_int_eq(uv_prepare_init(&loop, &here.prepare), 0);
  ck_assert_int_eq(uv_prepare_start(&here.prepare, on_prepare), 0);
}

static void
on_end_of_pipe(uv_poll_t *poll, int status, int events)
{
  uv_os_fd_t end;

  ck_assert_int_eq(status, 0);
  ck_assert_int_ne(events, 0);
  ck_assert_int_eq(uv_fileno((uv_handle_t *)poll, &end), 0);
  close_wheel_in((uv_handle_t *)poll);
  close(end);
}

static void
in_io(void)
{
  int ends[2];

  ck_assert_int_eq(pipe(ends), 0);
  close(ends[1]);
  ck_assert_int_eq(uv_poll_init(&loop, &here.poll, ends[0]), 0);
  ck_assert_int_eq(
      uv_poll_start(&here.poll, UV_READABLE | UV_DISCONNECT, on_end_of_pipe),
      0);
}

static void
on_signal(uv_signal_t *signal, int number)
{
  ck_assert_int_eq(number, SIGUSR1);
  close_wheel_in((uv_handle_t *)signal);
}

static void
in_signal(void)
{
  ck_assert_int_eq(uv_signal_init(&loop, &here.signal), 0);
  ck_assert_int_eq(uv_signal_start(&here.signal, on_signal, SIGUSR1), 0);
  ck_assert_int_eq(raise(SIGUSR1), 0);
}

static void
on_timer(uv_timer_t *timer)
{
  close_wheel_in((uv_handle_t *)timer);
}

static void
in_timer(void)
{
  ck_assert_int_eq(uv_timer_init(&loop, &here.timer), 0);
  ck_assert_int_eq(uv_timer_start(&here.timer, on_timer, 0, 0), 0);
}

static void
on_handle_closed(uv_handle_t *handle)
{
  (void)handle;
  close_in_callback();
}

static void
in_close(void)
{
  ck_assert_int_eq(uv_timer_init(&loop, &here.timer), 0);
  uv_close(&here.handle, on_handle_closed);
}

static void
on_handle(uv_handle_t *handle, void *arg)
{
  (void)handle;
  (void)arg;
  if (!uvwheel_is_closing(&wheel))
    close_in_callback();
}

static void
in_walk_of_the_loop(void)
{
  uv_walk(&loop, on_handle, NULL);
}

static void
on_other_timer(uvwheel_timer_t *timer)
{
  (void)timer;
  close_in_callback();
  uvwheel_close(&other_wheel, NULL);
}

static void
in_timer_of_another_wheel(void)
{
  const uvwheel_options_t options = {.tick_ms = 1};

  ck_assert_int_eq(uvwheel_init(&loop, &other_wheel, &options), 0);
  ck_assert_int_eq(uvwheel_timer_init(&other_wheel, &other_timer), 0);
  ck_assert_int_eq(uvwheel_timer_start(&other_timer, on_other_timer, 0, 0), 0);
  virtual_time_advance_ms(1); /* or libuv since 1.48 runs the batch before it */
}

static void
on_other_closed(uvwheel_t *closed)
{
  ck_assert_ptr_eq(closed, &other_wheel);
  close_in_callback();
}

static void
in_close_of_another_wheel(void)
{
  ck_assert_int_eq(uvwheel_init(&loop, &other_wheel, NULL), 0);
  uvwheel_close(&other_wheel, on_other_closed);
}

static const struct {
  const char *name;
  void (*close)(void);
} places[] = {
    {"async", in_async},
    {"check", in_check},
    {"idle", in_idle},
    {"prepare", in_prepare},
    {"io", in_io},
    {"signal", in_signal},
    {"timer", in_timer},
    {"close", in_close},
    {"walk of the loop", in_walk_of_the_loop},
    {"timer of another wheel", in_timer_of_another_wheel},
    {"close of another wheel", in_close_of_another_wheel},
};

static test_timer_t silenced[CROWD];

static void
start_crowd(uint64_t timeout)
{
  const uvwheel_options_t options = {.tick_ms = TICK_MS, .turn_budget = 5};
  size_t i;

  open_wheel_with(&options);
  test_timer_init_all(silenced, CROWD);
  for (i = 0; i < CROWD; i++)
    test_timer_start(&silenced[i], timeout, i % 3 ? 0 : 20);
}

static void
close_in(int place)
{
  const char *name = places[place].name;
  size_t i;

  places[place].close();
  run_for(1000);
  require_in(name, wheels_closed == 1);
  require_in(name, fired_before_close < CROWD);
  require_in(name, fired_in_all == fired_before_close);
  require_in(name, handle_count() == 0);
  for (i = 0; i < CROWD; i++)
    require_in(name, !uvwheel_timer_is_active(&silenced[i].base));
}

START_TEST(a_wheel_can_be_closed_in_any_callback)
{
  start_crowd(500);
  close_in(_i);
}
END_TEST

/* With a batch under way that the budget has cut. */
START_TEST(a_wheel_can_be_closed_in_any_callback_between_turns)
{
  start_crowd(5);
  virtual_time_advance_ms(50);
  run_turn();
  ck_assert_uint_eq(fired_in_all, 5);
  close_in(_i);
}
END_TEST

/* ---- The loop closed too early ------------------------------------------- */

static void
count_timer(uvwheel_timer_t *timer)
{
  ++*(unsigned *)timer->data;
}

START_TEST(a_loop_closed_too_early_is_busy_and_goes_on)
{
  uv_loop_t early;
  unsigned fired = 0;
  uvwheel_timer_t timer;

  ck_assert_int_eq(uv_loop_init(&early), 0);
  ck_assert_int_eq(uvwheel_init(&early, &wheel, NULL), 0);
  ck_assert_int_eq(uv_loop_close(&early), UV_EBUSY);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &timer), 0);
  timer.data = &fired;
  ck_assert_int_eq(uvwheel_timer_start(&timer, count_timer, 50, 0), 0);
  ck_assert_int_eq(uv_loop_close(&early), UV_EBUSY);
  ck_assert_int_eq(uv_run(&early, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(fired, 1);
  ck_assert_int_eq(uv_loop_close(&early), UV_EBUSY);
  uvwheel_close(&wheel, on_wheel_closed);
  ck_assert_int_eq(uv_loop_close(&early), UV_EBUSY);
  ck_assert_int_eq(uv_run(&early, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_int_eq(uv_loop_close(&early), 0);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("ends");
  TCase *ends = loop_tcase(suite, "ends");

  tcase_add_loop_test(ends, a_wheel_can_be_closed_in_any_callback, 0,
                      LENGTH(places));
  tcase_add_loop_test(ends, a_wheel_can_be_closed_in_any_callback_between_turns,
                      0, LENGTH(places));
  tcase_add_test(ends, a_loop_closed_too_early_is_busy_and_goes_on);
  return run_suite(suite);
}
