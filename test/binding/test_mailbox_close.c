/* SPDX-License-Identifier: MIT */

/* What becomes of a mailbox and its requests when the wheel is closed: by
 * uvwheel_close, from everywhere, and by others. */

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "portable.h"
#include "requests.h"

#define COUNT 8

static test_timer_t timers[COUNT];

static void
queue_requests(uint32_t turn_budget)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = turn_budget};

  open_mailbox(&options);
  test_timer_init_all(timers, COUNT);
  send_all(requests, timers, COUNT);
}

/* Those from there on were canceled, those before were not; all in order. */
static void
expect_canceled_from(unsigned first)
{
  unsigned i;

  for (i = 0; i < COUNT; i++)
    expect_called(&requests[i], i < first ? 0 : UV_ECANCELED, i);
}

/* Every post is refused, and leaves its request as it is. */
static void
expect_refusal(void)
{
  uvwheel_post_t post, before;
  unsigned called = called_in_all;

  memset(&post, 0xA5, sizeof post);
  before = post;
  ck_assert_int_eq(uvwheel_post(&wheel, &post, on_request), UV_ECANCELED);
  ck_assert_mem_eq(&post, &before, sizeof post);
  ck_assert_uint_eq(called_in_all, called);
}

static void
on_closed_with_all_called(uvwheel_t *closed)
{
  on_wheel_closed(closed);
  ck_assert_uint_eq(called_in_all, COUNT);
  expect_refusal();
  forget_wheel();
}

static void
close_in_callback(request_t *request)
{
  (void)request;
  uvwheel_close(&wheel, on_closed_with_all_called);
}

static void
close_handles(request_t *request)
{
  (void)request;
  ck_assert_uint_eq(close_all_handles(), WHEEL_HANDLES + 1);
}

static void
close_both(request_t *request)
{
  close_handles(request);
  close_in_callback(request);
}

/* ---- By uvwheel_close -----------------------------------------------------
 */

START_TEST(close_cancels_what_is_queued_from_the_loop)
{
  queue_requests(0);
  close_in_callback(NULL);
  ck_assert_uint_eq(called_in_all, 0);
  expect_refusal();
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), UV_EINVAL);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from(0);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 0);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

START_TEST(close_with_nothing_queued_closes_the_mailbox)
{
  open_mailbox(NULL);
  uvwheel_close(&wheel, on_wheel_closed);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(handle_count(), 0);
}
END_TEST

/* In a turn whose budget is enough for five. */
static void
close_in_nth(int n, void (*close)(request_t *))
{
  queue_requests(5);
  requests[n].then = close;
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from((unsigned)n + 1);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 0);
}

START_TEST(close_in_a_request_s_callback_cancels_those_after_it)
{
  close_in_nth(_i, close_in_callback);
}
END_TEST

static void
send_all_and_close(test_timer_t *timer)
{
  (void)timer;
  send_all(requests, timers, COUNT);
  close_in_callback(NULL);
}

START_TEST(close_in_a_timer_s_callback_cancels_what_it_posted)
{
  open_mailbox(NULL);
  test_timer_init_all(timers, COUNT);
  timers[0].then = send_all_and_close;
  test_timer_start(&timers[0], 50, 0);
  run_for(1000);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from(0);
  ck_assert_uint_eq(fired_in_all, 1);
}
END_TEST

static void
never_visited(uvwheel_timer_t *timer, void *arg)
{
  (void)timer;
  (void)arg;
  ck_abort_msg("a closed wheel has no active timers");
}

/* The wheel still answers, and its close is not finished a second time. */
static void
use_closed_wheel(request_t *request)
{
  ck_assert_uint_eq(wheels_closed, 0);
  expect_refusal();
  ck_assert_int_eq(request->started, UV_EINVAL);
  ck_assert_int_eq(uvwheel_timer_stop(&request->timer->base), 0);
  uvwheel_walk(&wheel, never_visited, NULL);
  uvwheel_close(&wheel, NULL);
  uvwheel_unref(&wheel);
  memset(request->timer, 0xA5, sizeof *request->timer);
  memset(&request->post, 0xA5, sizeof request->post);
}

START_TEST(a_canceled_request_s_callback_may_use_the_wheel)
{
  unsigned i;

  queue_requests(0);
  for (i = 0; i < COUNT; i++)
    requests[i].then = use_closed_wheel;
  close_in_callback(NULL);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from(0);
}
END_TEST

#define CLOSED 1 /* as mailbox.c has it */

static uintptr_t waker_is_done;

/* The thread has posted and is about to wake the loop, which here it does only
 * when the wheel is being closed. */
static void
be_a_waker(void *arg)
{
  (void)arg;
  while (ATOMIC_LOAD(&wheel.newest) != CLOSED)
    uv_sleep(0);
  ATOMIC_ADD(&waker_is_done, 1);
  ATOMIC_ADD(&wheel.wakers, (uintptr_t)-1);
}

START_TEST(close_waits_for_threads_that_are_about_to_wake_the_loop)
{
  uv_thread_t thread;

  queue_requests(0);
  waker_is_done = 0;
  ATOMIC_ADD(&wheel.wakers, 1);
  ck_assert_int_eq(uv_thread_create(&thread, be_a_waker, NULL), 0);
  close_in_callback(NULL);
  ck_assert_uint_eq(ATOMIC_LOAD(&waker_is_done), 1);
  ck_assert_int_eq(uv_thread_join(&thread), 0);
  run_for(10);
  expect_canceled_from(0);
}
END_TEST

static void *page;

/* The request's memory is written to for the first time. */
static void
close_in_between(int signal_number)
{
  signal(signal_number, SIG_DFL);
  (void)mprotect(page, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
  uvwheel_close(&wheel, on_wheel_closed);
}

/* Memory that cannot be written to shows when a post has found the mailbox open
 * and goes on to the request: at that moment the mailbox is closed. */
START_TEST(a_post_that_is_overtaken_by_close_leaves_the_request_as_it_was)
{
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  uvwheel_post_t *post, before;

  open_mailbox(NULL);
  page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
              -1, 0);
  ck_assert_ptr_ne(page, MAP_FAILED);
  post = memset(page, 0xA5, sizeof *post);
  post->queued = 0;
  before = *post;
  ck_assert_int_eq(mprotect(page, size, PROT_READ), 0);
  ck_assert(signal(SIGSEGV, close_in_between) != SIG_ERR);
  ck_assert_int_eq(uvwheel_post(&wheel, post, on_request), UV_ECANCELED);
  ck_assert_int_eq(uvwheel_is_closing(&wheel), 1);
  ck_assert_mem_eq(post, &before, sizeof before);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  ck_assert_uint_eq(called_in_all, 0);
  ck_assert_int_eq(munmap(page, size), 0);
}
END_TEST

/* ---- By others ------------------------------------------------------------
 */

/* Which uvwheel_close, for which requests wait, finds under way, or after it.
 */
static const struct {
  const char *name;
  uint64_t run_ms;
  unsigned told; /* wheels closed as soon as uvwheel_close returns */
} closes[] = {{"under way", 0, 0}, {"finished", 10, 1}};

static void
foreign_close(int number)
{
  close_handles(NULL);
  if (closes[number].run_ms > 0)
    run_for(closes[number].run_ms);
}

/* Programs that close every handle that uv_walk finds. */
START_TEST(after_a_foreign_close_requests_wait_for_uvwheel_close)
{
  queue_requests(0);
  foreign_close(_i);
  require_in(closes[_i].name, called_in_all == 0);
  uvwheel_ref(&wheel);
  close_in_callback(NULL);
  require_in(closes[_i].name, wheels_closed == closes[_i].told);
  run_for(10);
  require_in(closes[_i].name, wheels_closed == 1);
  expect_canceled_from(0);
}
END_TEST

/* Into an empty mailbox, so that the post wakes a handle that is closed. */
START_TEST(what_is_posted_after_a_foreign_close_waits_for_uvwheel_close)
{
  open_mailbox(NULL);
  test_timer_init_all(timers, COUNT);
  foreign_close(_i);
  send_all(requests, timers, COUNT);
  run_for(10);
  require_in(closes[_i].name, called_in_all == 0);
  close_in_callback(NULL);
  require_in(closes[_i].name, wheels_closed == 1);
  expect_canceled_from(0);
}
END_TEST

START_TEST(a_foreign_close_in_a_request_s_callback_ends_the_turn)
{
  unsigned n = (unsigned)_i;

  queue_requests(5);
  requests[n].then = close_handles;
  run_for(100);
  ck_assert_uint_eq(called_in_all, n + 1);
  ck_assert_uint_eq(fired_in_all, 0);
  close_in_callback(NULL);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from(n + 1);
}
END_TEST

START_TEST(a_mailbox_survives_both_closes_in_a_request_s_callback)
{
  close_in_nth(_i, close_both);
}
END_TEST

static unsigned foreign_closes;

static void
on_foreign_close(uv_handle_t *handle)
{
  (void)handle;
  foreign_closes++;
}

/* One of the two handles alone, which the walk finds by its type. */
static void
close_of_type(uv_handle_t *handle, void *type)
{
  bool is_mine = handle == (uv_handle_t *)&wheel.driver ||
                 handle == (uv_handle_t *)&wheel.async;

  if (is_mine && uv_handle_get_type(handle) == *(uv_handle_type *)type)
    uv_close(handle, on_foreign_close);
}

static void
queue_and_close_one(uv_handle_type type)
{
  queue_requests(0);
  foreign_closes = 0;
  uv_walk(&loop, close_of_type, &type);
}

static void
close_after_one(void)
{
  close_in_callback(NULL);
  ck_assert_uint_eq(wheels_closed, 0);
  run_for(10);
  ck_assert_uint_eq(foreign_closes, 1);
  ck_assert_uint_eq(wheels_closed, 1);
}

START_TEST(a_foreign_close_of_the_driver_alone_starts_no_timers)
{
  unsigned i;

  queue_and_close_one(UV_TIMER);
  run_for(10);
  for (i = 0; i < COUNT; i++) {
    expect_called(&requests[i], 0, i);
    ck_assert_int_eq(requests[i].started, UV_EINVAL);
  }
  close_after_one();
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

START_TEST(close_during_a_foreign_close_of_the_driver_cancels_requests)
{
  queue_and_close_one(UV_TIMER);
  close_after_one();
  ck_assert_uint_eq(fired_in_all, 0);
  expect_canceled_from(0);
}
END_TEST

START_TEST(a_foreign_close_of_the_mailbox_s_handle_alone_leaves_the_wheel)
{
  static test_timer_t timer;

  queue_and_close_one(UV_ASYNC);
  test_timer_init(&timer);
  expect_punctual(&timer, 100);
  ck_assert_uint_eq(called_in_all, 0);
  close_after_one();
  expect_canceled_from(0);
}
END_TEST

START_TEST(close_during_a_foreign_close_of_the_mailbox_cancels_requests)
{
  queue_and_close_one(UV_ASYNC);
  close_after_one();
  expect_canceled_from(0);
}
END_TEST

START_TEST(a_foreign_close_after_close_finds_all_closing)
{
  queue_requests(0);
  close_in_callback(NULL);
  close_handles(NULL);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from(0);
}
END_TEST

START_TEST(a_mailbox_of_a_wheel_that_was_never_closed_can_be_left)
{
  queue_requests(0);
  close_handles(NULL);
  run_for(100);
  ck_assert_uint_eq(called_in_all, 0);
  /* Its slots leak, by contract; here they are freed for the leak checker. */
  uvwheel__core_destroy(&wheel.core);
  forget_wheel();
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("mailbox: close");
  TCase *own = requests_tcase(suite, "by uvwheel_close");
  TCase *foreign = requests_tcase(suite, "by others");

  tcase_add_test(own, close_cancels_what_is_queued_from_the_loop);
  tcase_add_test(own, close_with_nothing_queued_closes_the_mailbox);
  tcase_add_loop_test(own, close_in_a_request_s_callback_cancels_those_after_it,
                      0, COUNT);
  tcase_add_test(own, close_in_a_timer_s_callback_cancels_what_it_posted);
  tcase_add_test(own, a_canceled_request_s_callback_may_use_the_wheel);
  tcase_add_test(
      own, a_post_that_is_overtaken_by_close_leaves_the_request_as_it_was);
  tcase_add_test(own, close_waits_for_threads_that_are_about_to_wake_the_loop);
  tcase_add_loop_test(foreign,
                      after_a_foreign_close_requests_wait_for_uvwheel_close, 0,
                      LENGTH(closes));
  tcase_add_loop_test(
      foreign, what_is_posted_after_a_foreign_close_waits_for_uvwheel_close, 0,
      LENGTH(closes));
  tcase_add_loop_test(
      foreign, a_foreign_close_in_a_request_s_callback_ends_the_turn, 0, COUNT);
  tcase_add_loop_test(foreign,
                      a_mailbox_survives_both_closes_in_a_request_s_callback, 0,
                      COUNT);
  tcase_add_test(foreign, a_foreign_close_of_the_driver_alone_starts_no_timers);
  tcase_add_test(foreign,
                 close_during_a_foreign_close_of_the_driver_cancels_requests);
  tcase_add_test(
      foreign, a_foreign_close_of_the_mailbox_s_handle_alone_leaves_the_wheel);
  tcase_add_test(foreign,
                 close_during_a_foreign_close_of_the_mailbox_cancels_requests);
  tcase_add_test(foreign, a_foreign_close_after_close_finds_all_closing);
  tcase_add_test(foreign,
                 a_mailbox_of_a_wheel_that_was_never_closed_can_be_left);
  return run_suite(suite);
}
