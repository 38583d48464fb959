/* SPDX-License-Identifier: MIT */

/* Another libuv, or one that fails: the linker puts the functions with __wrap_
 * in the place of those that the library calls. */

#include "binding.h"
#include "support.h"

/* What is different. */
static enum {
  NOTHING,
  TIME,
  BACKEND,
  CLOSING_FLAGS,
  NO_MUTEX,
  NO_ASYNC
} difference;

uint64_t __wrap_uv_now(const uv_loop_t *loop);
int __wrap_uv_backend_fd(const uv_loop_t *loop);
int __wrap_uv_is_closing(const uv_handle_t *handle);
int __wrap_uv_mutex_init(uv_mutex_t *mutex);
int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb cb);
int __real_uv_mutex_init(uv_mutex_t *mutex);
int __real_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb cb);

uint64_t
__wrap_uv_now(const uv_loop_t *on)
{
  return difference == TIME ? on->time / 1000 : on->time;
}

int
__wrap_uv_backend_fd(const uv_loop_t *of)
{
  return difference == BACKEND ? -1 : of->backend_fd;
}

int
__wrap_uv_is_closing(const uv_handle_t *handle)
{
  unsigned flags = UV__HANDLE_CLOSING | UV__HANDLE_CLOSED;

  return (handle->flags & (difference == CLOSING_FLAGS ? 4 : flags)) != 0;
}

int
__wrap_uv_mutex_init(uv_mutex_t *mutex)
{
  return difference == NO_MUTEX ? UV_ENOMEM : __real_uv_mutex_init(mutex);
}

int
__wrap_uv_async_init(uv_loop_t *in, uv_async_t *async, uv_async_cb cb)
{
  return difference == NO_ASYNC ? UV_EMFILE
                                : __real_uv_async_init(in, async, cb);
}

static const int unknown_fields[] = {TIME, BACKEND, CLOSING_FLAGS};

START_TEST(a_libuv_whose_fields_hold_something_else_is_refused)
{
  static uvwheel_t before;
  static test_timer_t timer;

  memset(&wheel, 0xA5, sizeof wheel);
  before = wheel;
  difference = unknown_fields[_i];
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, NULL), UV_ENOTSUP);
  difference = NOTHING;
  ck_assert_mem_eq(&wheel, &before, sizeof wheel);
  ck_assert_uint_eq(handle_count(), 0);
  open_wheel(100, 8);
  test_timer_init(&timer);
  expect_punctual(&timer, 1000);
}
END_TEST

START_TEST(a_mailbox_that_cannot_be_opened_leaves_nothing)
{
  open_wheel(100, 8);
  difference = NO_MUTEX;
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), UV_ENOMEM);
  difference = NO_ASYNC;
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), UV_EMFILE);
  difference = NOTHING;
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
}
END_TEST

/* As on Windows, and where libuv uses poll(2). */
START_TEST(a_loop_that_cannot_be_asked_has_its_timers)
{
  static test_timer_t timer;

  open_wheel(100, 8);
  test_timer_init(&timer);
  difference = BACKEND;
  test_timer_start(&timer, 1000, 0);
  run_for(2000);
  difference = NOTHING;
  ck_assert_uint_eq(timer.fired, 1);
  ck_assert_uint_eq(timer.fired_ms, fires_at(timer.due_ms));
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(a_libuv_whose_fields_hold_something_else_is_refused, unknown_fields),
      TEST(a_mailbox_that_cannot_be_opened_leaves_nothing),
      TEST(a_loop_that_cannot_be_asked_has_its_timers),
  };

  return run_loop_tests("libuv", tests, LENGTH(tests));
}
