/* SPDX-License-Identifier: MIT */

/* Another libuv, or one that fails: the linker puts the functions with __wrap_
 * in the place of those that the library calls. */

#include "allocations.h"
#include "binding.h"
#include "idle_peers.h"

#include <errno.h>
#include <poll.h>

/* What is different. */
typedef enum difference_e {
  NOTHING,
  TIME,
  BACKEND,
  CLOSING_FLAG,
  CLOSED_FLAG,
  NO_MUTEX,
  NO_ASYNC,
  POLL_FAILS,
  POLL_REFUSES
} difference_t;

static difference_t difference;
static unsigned mutexes_destroyed, driver_starts;
static uint64_t frees;

uint64_t __wrap_uv_now(const uv_loop_t *loop);
int __wrap_uv_backend_fd(const uv_loop_t *loop);
int __wrap_uv_is_closing(const uv_handle_t *handle);
int __wrap_uv_mutex_init(uv_mutex_t *mutex);
int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb cb);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout,
                          uint64_t repeat);
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout,
                          uint64_t repeat);
void __wrap_uv_mutex_destroy(uv_mutex_t *mutex);
void __wrap_free(void *block);
void __real_free(void *block);
int __wrap_poll(struct pollfd *descriptors, nfds_t count, int timeout_ms);
int __real_uv_mutex_init(uv_mutex_t *mutex);
void __real_uv_mutex_destroy(uv_mutex_t *mutex);
int __real_poll(struct pollfd *descriptors, nfds_t count, int timeout_ms);
int __real_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb cb);

uint64_t __wrap_uv_now(const uv_loop_t *on) {
  return difference == TIME ? on->time / 1000 : on->time;
}

int __wrap_uv_backend_fd(const uv_loop_t *of) {
  return difference == BACKEND ? -1 : of->backend_fd;
}

int __wrap_uv_is_closing(const uv_handle_t *handle) {
  unsigned closing = difference == CLOSING_FLAG ? 4 : UV__HANDLE_CLOSING;
  unsigned closed = difference == CLOSED_FLAG ? 4 : UV__HANDLE_CLOSED;

  return (handle->flags & (closing | closed)) != 0;
}

void __wrap_free(void *block) {
  frees += block != NULL;
  __real_free(block);
}

int __wrap_uv_mutex_init(uv_mutex_t *mutex) {
  return difference == NO_MUTEX ? UV_ENOMEM : __real_uv_mutex_init(mutex);
}

int __wrap_uv_async_init(uv_loop_t *in, uv_async_t *async, uv_async_cb cb) {
  return difference == NO_ASYNC ? UV_EMFILE
                                : __real_uv_async_init(in, async, cb);
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout,
                          uint64_t repeat) {
  driver_starts += uvwheel_owns_handle((uv_handle_t *)timer) != 0;
  return __real_uv_timer_start(timer, cb, timeout, repeat);
}

void __wrap_uv_mutex_destroy(uv_mutex_t *mutex) {
  mutexes_destroyed++;
  __real_uv_mutex_destroy(mutex);
}

/* The process may open no descriptor (RLIMIT_NOFILE) or a seccomp filter is in
 * force; or poll(2) refuses the backend. */
int __wrap_poll(struct pollfd *descriptors, nfds_t count, int timeout_ms) {
  if (difference == POLL_REFUSES) {
    descriptors->revents = POLLNVAL;
    return 1;
  }
  if (difference != POLL_FAILS)
    return __real_poll(descriptors, count, timeout_ms);
  errno = EINVAL;
  return -1;
}

static const difference_t unknown_fields[] = {TIME, BACKEND, CLOSING_FLAG,
                                              CLOSED_FLAG};

/* libuv#4797: the time in another unit. */
START_TEST(a_libuv_whose_fields_hold_something_else_is_refused) {
  static test_timer_t timer;

  difference = unknown_fields[_i];
  expect_init_fails(&loop, NULL, UV_ENOTSUP);
  difference = NOTHING;
  open_wheel(100, 8);
  test_timer_init(&timer);
  expect_punctual(&timer, 1000);
}
END_TEST

static void expect_none_destroyed(uvwheel_t *closed) {
  (void)closed;
  ck_assert_uint_eq(mutexes_destroyed, 0);
}

/* A thread may be in a post until the close callback has joined it. */
START_TEST(a_wheel_or_a_mailbox_that_cannot_be_made_leaves_nothing) {
  uint64_t blocks;

  mutexes_destroyed = 0;
  difference = NO_MUTEX;
  expect_init_fails(&loop, NULL, UV_ENOMEM);
  blocks = allocations() - frees;
  (void)uvwheel_init(&loop, &wheel, NULL);
  blocks -= allocations() - frees;
  ck_assert_uint_eq(blocks, 0);
  difference = NOTHING;
  open_wheel(100, 8);
  difference = NO_ASYNC;
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), UV_EMFILE);
  difference = NOTHING;
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  uvwheel_close(&wheel, expect_none_destroyed);
  run_for(0);
  ck_assert_uint_eq(mutexes_destroyed, 1);
}
END_TEST

/* Why nothing tells whether a descriptor is ready. */
static const difference_t silences[] = {BACKEND, POLL_FAILS, POLL_REFUSES};

/* Two polls read the datagrams, four the requests. */
static const peers_options_t in_parts[] = {
    {.carrier = BY_UDP, .count = 40, .timeout_ms = 2000},
    {.carrier = BY_POST,
     .count = 10,
     .timeout_ms = 2000,
     .hearing_ns = 2000000},
};

/* P6, P9. Scenario 50. As on Windows, and where libuv uses poll(2): what came
 * before one whole poll counts as heard, if no request waits. An idle loop
 * stays idle, but for a poll more in each turn. */
START_TEST(a_loop_that_cannot_be_asked_is_quiet_after_a_whole_poll) {
  static test_timer_t timer;
  uint64_t polls, turns, at_ms;

  open_wheel(100, 512);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  difference = silences[_i % (int)LENGTH(silences)];
  begin_test_timer(&timer, 100, 100);
  polls = virtual_time_polls();
  run_for(10000);
  turns = stats_of_wheel().turns;
  ck_assert_uint_ge(timer.fired, 99);
  ck_assert_uint_le(turns, 100);
  ck_assert_uint_le(virtual_time_polls() - polls, 3 * turns + 5);
  test_timer_stop(&timer);
  peers_open(&in_parts[_i / (int)LENGTH(silences)]);
  at_ms = fires_at(uv_now(&loop) + 2000);
  peers_speak_at(at_ms);
  run_until(at_ms + 2000 - 1);
  ck_assert_uint_eq(peers_closed(), 0);
  peers_close();
  difference = NOTHING;
}
END_TEST

#define WHEELS 10

static void do_nothing(uv_idle_t *idle) {
  virtual_time_advance_ns(100000);
  if (idle->data != NULL)
    uv_close(idle->data, NULL);
  idle->data = NULL;
}

/* P9. Scenario 57. Beside an idle handle, which closes another handle in each
 * iteration if _i. */
START_TEST(ten_wheels_do_not_start_each_other_s_drivers) {
  static uvwheel_t wheels[WHEELS];
  static uvwheel_timer_t timers[WHEELS];
  static uv_idle_t idle, closed;
  uint64_t polls = virtual_time_polls();
  unsigned fired = 0, i;

  for (i = 0; i < WHEELS; i++) {
    ck_assert_int_eq(uvwheel_init(&loop, &wheels[i], NULL), 0);
    ck_assert_int_eq(uvwheel_timer_init(&wheels[i], &timers[i]), 0);
    timers[i].data = &fired;
    ck_assert_int_eq(
        uvwheel_timer_start(&timers[i], count_timer, 1000, 1000 * (i + 1)), 0);
  }
  ck_assert_int_eq(uv_idle_init(&loop, &idle), 0);
  ck_assert_int_eq(uv_idle_start(&idle, do_nothing), 0);
  driver_starts = 0;
  while (virtual_time_polls() - polls < 100000) {
    if (_i == 1 && idle.data == NULL) {
      ck_assert_int_eq(uv_idle_init(&loop, &closed), 0);
      idle.data = &closed;
    }
    uv_run(&loop, UV_RUN_NOWAIT);
  }
  ck_assert_uint_ge(fired, WHEELS + 9);
  ck_assert_uint_le(driver_starts, 10 * fired);
  for (i = 0; i < WHEELS; i++)
    uvwheel_close(&wheels[i], NULL);
}
END_TEST

/* P9. The start of the timer is one more, and run_for has a poll. */
START_TEST(a_tick_on_time_starts_the_driver_once_and_takes_a_poll) {
  uint64_t polls = virtual_time_polls();
  static test_timer_t timer;

  open_wheel(10, 64);
  driver_starts = 0;
  begin_test_timer(&timer, 100, 100);
  run_for(5000);
  ck_assert_uint_ge(timer.fired, 49);
  ck_assert_uint_le(driver_starts, timer.fired + 1);
  ck_assert_uint_le(virtual_time_polls() - polls, timer.fired + 2);
}
END_TEST

static test_timer_t slow, last;

/* The wheel is empty meanwhile, and its new timer arms the driver. */
static void restart_the_last_and_block(test_timer_t *timer) {
  (void)timer;
  test_timer_stop(&last);
  test_timer_start(&last, 1500, 0);
  advance_loop_ms(1000);
}

static void verify_before_poll(uv_prepare_t *prepare) {
  *(bool *)prepare->data |= uv_backend_timeout(&loop) == 0;
  verify_wheel();
}

/* P6. Else the driver would begin the wait of the spell anew. */
START_TEST(the_driver_is_not_due_in_a_spell) {
  static uv_prepare_t prepare;
  bool has_seen_spell = false;

  open_wheel(10, 8);
  begin_test_timer(&slow, 100, 0);
  begin_test_timer(&last, 5000, 0);
  slow.then = restart_the_last_and_block;
  prepare.data = &has_seen_spell;
  begin_prepare(&prepare, verify_before_poll);
  run_for(2000);
  ck_assert(has_seen_spell);
  ck_assert_uint_eq(slow.fired + last.fired, 2);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_libuv_whose_fields_hold_something_else_is_refused, unknown_fields),
      TEST(a_wheel_or_a_mailbox_that_cannot_be_made_leaves_nothing),
      TEST(the_driver_is_not_due_in_a_spell),
      TEST(a_tick_on_time_starts_the_driver_once_and_takes_a_poll),
      {ten_wheels_do_not_start_each_other_s_drivers, 0, 2},
      {a_loop_that_cannot_be_asked_is_quiet_after_a_whole_poll, 0,
       LENGTH(in_parts) * LENGTH(silences)},
  };

  return run_loop_tests("libuv", tests, LENGTH(tests));
}
