/* SPDX-License-Identifier: MIT */

/* The mailbox as its loop sees it, in virtual time; test_mailbox_threads.c has
 * the threads. */

#include <stdlib.h>
#include <sys/resource.h>

#include "allocations.h"
#include "echo_pair.h"
#include "requests.h"

static const uvwheel_options_t fine = {.tick_ms = 10, .slots = 8};

static test_timer_t timers[REQUESTS];

static void
open_with_timers(const uvwheel_options_t *options)
{
  open_mailbox(options);
  test_timer_init_all(timers, REQUESTS);
}

/* What is queued is called back, while no time passes. */
static void
turn(void)
{
  uv_run(&loop, UV_RUN_NOWAIT);
  verify_wheel();
}

/* ---- One request ----------------------------------------------------------
 */

static void
refresh_timer(request_t *request)
{
  (void)request;
  test_timer_refresh(&timers[0]);
}

static void
stop_timer(request_t *request)
{
  (void)request;
  test_timer_stop(&timers[0]);
}

START_TEST(a_request_s_callback_starts_refreshes_and_stops_timers)
{
  open_with_timers(&fine);
  send_request(&requests[0], &timers[0]);
  ck_assert_int_eq(uvwheel_timer_is_active(&timers[0].base), 0);
  turn();
  expect_called(&requests[0], 0, 0);
  ck_assert_int_eq(requests[0].started, 0);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timers[0].base), 50);
  virtual_time_advance_ms(30);
  requests[1].then = refresh_timer;
  send_request(&requests[1], NULL);
  turn();
  expect_called(&requests[1], 0, 1);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timers[0].base), 50);
  requests[2].then = stop_timer;
  send_request(&requests[2], NULL);
  turn();
  expect_called(&requests[2], 0, 2);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

START_TEST(a_timeout_counts_from_when_the_request_is_called_back)
{
  open_with_timers(&fine);
  send_request(&requests[0], &timers[0]);
  virtual_time_advance_ms(1000);
  turn();
  ck_assert_uint_eq(uv_now(&loop), START_MS + 1000);
  ck_assert_uint_eq(uvwheel_timer_get_due_in(&timers[0].base), 50);
  run_for(49);
  ck_assert_uint_eq(fired_in_all, 0);
  run_for(12);
  ck_assert_uint_eq(fired_in_all, 1);
}
END_TEST

typedef struct job_s {
  request_t request;
  test_timer_t timer;
} job_t;

static void
stop_and_free(request_t *request)
{
  job_t *job = (job_t *)request;

  test_timer_stop(&job->timer);
  free(job);
}

START_TEST(a_request_may_be_freed_in_its_callback_and_a_timer_with_it)
{
  job_t *job = calloc(1, sizeof *job);

  open_with_timers(&fine);
  test_timer_init(&job->timer);
  test_timer_start(&job->timer, 50, 0);
  job->request.then = stop_and_free;
  send_request(&job->request, NULL);
  turn();
  ck_assert_uint_eq(called_in_all, 1);
  run_for(100);
}
END_TEST

/* Posts a request in memory full of garbage, which stays as it is. */
static int
post_in_vain(uvwheel_t *to, uvwheel_post_cb cb)
{
  uvwheel_post_t post, before;
  int error;

  memset(&post, 0xA5, sizeof post);
  before = post;
  error = uvwheel_post(to, &post, cb);
  ck_assert_mem_eq(&post, &before, sizeof post);
  return error;
}

START_TEST(bad_input_is_refused_and_changes_nothing)
{
  static uvwheel_t zeros;

  open_mailbox(&fine);
  ck_assert_int_eq(uvwheel_open_mailbox(NULL), UV_EINVAL);
  ck_assert_int_eq(uvwheel_open_mailbox(&zeros), UV_EINVAL);
  ck_assert_int_eq(post_in_vain(NULL, on_request), UV_EINVAL);
  ck_assert_int_eq(post_in_vain(&wheel, NULL), UV_EINVAL);
  ck_assert_int_eq(uvwheel_post(&wheel, NULL, on_request), UV_EINVAL);
  turn();
  ck_assert_uint_eq(called_in_all, 0);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES + 1);
}
END_TEST

START_TEST(a_wheel_s_mailbox_is_opened_once_before_anybody_posts)
{
  open_wheel(10, 8);
  ck_assert_int_eq(post_in_vain(&wheel, on_request), UV_EINVAL);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES + 1);
  send_request(&requests[0], NULL);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), UV_EALREADY);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES + 1);
  turn();
  expect_called(&requests[0], 0, 0);
}
END_TEST

/* libuv makes a loop's wake-up descriptor with the loop, and anew if it is
 * gone. */
START_TEST(a_mailbox_that_libuv_refuses_is_not_open)
{
  struct rlimit before, none;
  int fd = loop.async_io_watcher.fd;

  open_wheel(10, 8);
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = 0;
  loop.async_io_watcher.fd = -1;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), UV_EMFILE);
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
  loop.async_io_watcher.fd = fd;
  ck_assert_int_eq(post_in_vain(&wheel, on_request), UV_EINVAL);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES + 1);
}
END_TEST

/* ---- Many requests --------------------------------------------------------
 */

START_TEST(requests_are_called_back_in_their_order)
{
  unsigned i;

  open_with_timers(&fine);
  send_all(requests, timers, REQUESTS);
  turn();
  for (i = 0; i < REQUESTS; i++)
    expect_called(&requests[i], 0, i);
}
END_TEST

static void
count_called(uvwheel_post_t *post, int status)
{
  (void)post;
  (void)status;
  called_in_all++;
}

/* Without any of check's assertions in between, which allocate. */
START_TEST(requests_allocate_nothing)
{
  static uvwheel_post_t posts[REQUESTS];
  uint64_t before, after;
  size_t i;

  open_mailbox(&fine);
  before = allocations();
  for (i = 0; i < REQUESTS; i++)
    (void)uvwheel_post(&wheel, &posts[i], count_called);
  uv_run(&loop, UV_RUN_NOWAIT);
  after = allocations();
  ck_assert_uint_eq(after, before);
  ck_assert_uint_eq(called_in_all, REQUESTS);
}
END_TEST

static void
send_again(request_t *request)
{
  if (request->called < 20)
    send_request(request, request->timer);
}

/* Even with no limit on a turn. */
START_TEST(what_is_posted_in_a_request_s_callback_follows_in_the_next_turn)
{
  const uvwheel_options_t options = {.turn_budget = UINT32_MAX};
  unsigned i;

  open_with_timers(&options);
  for (i = 0; i < 2; i++) {
    requests[i].then = send_again;
    send_request(&requests[i], &timers[i]);
  }
  for (i = 1; i <= 20; i++) {
    turn();
    ck_assert_uint_eq(called_in_all, 2 * i);
    ck_assert_uint_eq(requests[0].place, 2 * i - 2);
    ck_assert_uint_eq(requests[1].place, 2 * i - 1);
  }
  turn();
  ck_assert_uint_eq(called_in_all, 40);
}
END_TEST

static void
send_first(test_timer_t *timer)
{
  send_request(&requests[0], timer + 1);
}

START_TEST(a_timer_s_callback_may_post)
{
  open_with_timers(&fine);
  timers[0].then = send_first;
  test_timer_start(&timers[0], 50, 0);
  run_for(100);
  expect_called(&requests[0], 0, 0);
  ck_assert_int_eq(uvwheel_timer_is_active(&timers[1].base), 1);
}
END_TEST

/* At most three a turn, the rest in order, before what is posted meanwhile; and
 * sockets are served in between. */
START_TEST(a_turn_keeps_to_its_budget)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = 3};
  static echo_t echo;
  unsigned i;

  open_with_timers(&options);
  echo_open(&echo, &loop);
  send_all(requests, timers, 8);
  echo_ping(&echo);
  turn();
  ck_assert_uint_eq(called_in_all, 3);
  send_all(&requests[8], &timers[8], 2);
  turn();
  ck_assert_uint_eq(called_in_all, 6);
  ck_assert_uint_eq(echo.pongs, 1);
  turn();
  ck_assert_uint_eq(called_in_all, 9);
  turn();
  for (i = 0; i < REQUESTS; i++)
    expect_called(&requests[i], 0, i);
  echo_close(&echo);
}
END_TEST

static void
take_a_while(request_t *request)
{
  (void)request;
  virtual_time_advance_ms(2);
}

/* Each of them takes 2 ms, and a turn ends after 5; the turn of the timers
 * comes on top. */
START_TEST(a_turn_keeps_to_its_time)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_ms = 5};
  static echo_t echo;
  unsigned i;

  open_with_timers(&options);
  echo_open(&echo, &loop);
  for (i = 0; i < 8; i++) {
    requests[i].then = take_a_while;
    send_request(&requests[i], NULL);
  }
  echo_ping(&echo);
  turn();
  ck_assert_uint_eq(called_in_all, 3);
  turn();
  ck_assert_uint_eq(called_in_all, 6);
  ck_assert_uint_eq(echo.pongs, 1);
  turn();
  ck_assert_uint_eq(called_in_all, 8);
  ck_assert_uint_eq(stats_of_wheel().wakeup_max_us, 6000);
  echo_close(&echo);
}
END_TEST

START_TEST(a_budget_that_is_just_enough_needs_no_other_turn)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = 3};
  uint64_t sleeps;

  open_with_timers(&options);
  send_all(requests, timers, 3);
  turn();
  ck_assert_uint_eq(called_in_all, 3);
  sleeps = virtual_time_sleeps();
  run_for(5);
  ck_assert_uint_eq(virtual_time_sleeps(), sleeps + 1);
}
END_TEST

/* ---- What keeps the loop alive --------------------------------------------
 */

START_TEST(a_mailbox_keeps_the_loop_alive_unless_the_wheel_is_unref_d)
{
  open_mailbox(&fine);
  ck_assert(uv_loop_alive(&loop));
  uvwheel_unref(&wheel);
  ck_assert(!uv_loop_alive(&loop));
  uvwheel_ref(&wheel);
  ck_assert(uv_loop_alive(&loop));
  uvwheel_unref(&wheel);
}
END_TEST

START_TEST(a_mailbox_of_an_unref_d_wheel_keeps_no_loop_alive)
{
  open_wheel(10, 8);
  uvwheel_unref(&wheel);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert(!uv_loop_alive(&loop));
  test_timer_init_all(timers, 1);
  send_request(&requests[0], &timers[0]);
  run_for(1);
  expect_called(&requests[0], 0, 0);
  ck_assert(!uv_loop_alive(&loop));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("mailbox");
  TCase *one = requests_tcase(suite, "one request");
  TCase *many = requests_tcase(suite, "many requests");
  TCase *alive = requests_tcase(suite, "what keeps the loop alive");

  tcase_add_test(one, a_request_s_callback_starts_refreshes_and_stops_timers);
  tcase_add_test(one, a_timeout_counts_from_when_the_request_is_called_back);
  tcase_add_test(one,
                 a_request_may_be_freed_in_its_callback_and_a_timer_with_it);
  tcase_add_test(one, bad_input_is_refused_and_changes_nothing);
  tcase_add_test(one, a_wheel_s_mailbox_is_opened_once_before_anybody_posts);
  tcase_add_test(one, a_mailbox_that_libuv_refuses_is_not_open);
  tcase_add_test(many, requests_are_called_back_in_their_order);
  tcase_add_test(many, requests_allocate_nothing);
  tcase_add_test(
      many, what_is_posted_in_a_request_s_callback_follows_in_the_next_turn);
  tcase_add_test(many, a_timer_s_callback_may_post);
  tcase_add_test(many, a_turn_keeps_to_its_budget);
  tcase_add_test(many, a_turn_keeps_to_its_time);
  tcase_add_test(many, a_budget_that_is_just_enough_needs_no_other_turn);
  tcase_add_test(alive,
                 a_mailbox_keeps_the_loop_alive_unless_the_wheel_is_unref_d);
  tcase_add_test(alive, a_mailbox_of_an_unref_d_wheel_keeps_no_loop_alive);
  return run_suite(suite);
}
