/* SPDX-License-Identifier: MIT */

/* "From other threads" in the header, as the loop sees it, in virtual time.
 * test_posts_threads.c has the threads. */

#include <poll.h>

#include "allocations.h"
#include "echo_pair.h"
#include "support.h"

static const uvwheel_options_t fine = {.tick_ms = 10, .slots = 8};

#define REQUESTS 8

typedef struct request_s request_t;

struct request_s {
  uvwheel_post_t post;
  test_timer_t *timer; /* what its callback starts, for 50 ms; NULL: nothing */
  unsigned called;
  unsigned place; /* among all that were called back, from 0 on */
  int status;
  void (*then)(request_t *); /* what the callback does; NULL for nothing */
};

static request_t requests[REQUESTS];
static test_timer_t timers[REQUESTS];
static unsigned called_in_all;

static void
open_mailbox(const uvwheel_options_t *options)
{
  memset(requests, 0, sizeof requests);
  called_in_all = 0;
  open_wheel_with(options);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  test_timer_init_all(timers, REQUESTS);
}

static void
on_request(uvwheel_post_t *post, int status)
{
  request_t *request = post->data;

  ck_assert_ptr_eq(post, &request->post);
  if (request->timer != NULL) {
    ck_assert_int_eq(
        uvwheel_timer_start(&request->timer->base, on_test_timer, 50, 0),
        status == 0 ? 0 : UV_EINVAL);
    request->timer->due_ms = uvwheel_now(&wheel) + 50;
  }
  request->place = called_in_all++;
  request->called++;
  request->status = status;
  if (request->then != NULL)
    request->then(request);
}

/* In memory full of garbage. */
static void
send_request(request_t *request, test_timer_t *timer)
{
  request->timer = timer;
  memset(&request->post, 0xA5, sizeof request->post);
  request->post.data = request;
  ck_assert_int_eq(uvwheel_post(&wheel, &request->post, on_request), 0);
}

static void
send_all(void)
{
  size_t i;

  for (i = 0; i < REQUESTS; i++)
    send_request(&requests[i], &timers[i]);
}

static void
expect_called(const request_t *request, int status, unsigned place)
{
  ck_assert_uint_eq(request->called, 1);
  ck_assert_int_eq(request->status, status);
  ck_assert_uint_eq(request->place, place);
}

/* What is queued is called back, while no time passes. */
static void
iterate(void)
{
  uv_run(&loop, UV_RUN_NOWAIT);
  verify_wheel();
}

/* ---- One request --------------------------------------------------------- */

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
  iterate();
  ck_assert_uint_eq(called_in_all, 0);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES + 1);
}
END_TEST

/* ---- Many requests ------------------------------------------------------- */

static void
count_called(uvwheel_post_t *post, int status)
{
  (void)post, (void)status;
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
  else if (request == &requests[1])
    virtual_time_advance_ms(1000);
}

/* Even with no limit on a turn. */
START_TEST(what_is_posted_in_a_request_s_callback_follows_in_the_next_turn)
{
  unsigned i;

  open_mailbox(
      &(uvwheel_options_t){.turn_budget = UINT32_MAX, .turn_ms = UINT32_MAX});
  for (i = 0; i < 2; i++) {
    requests[i].then = send_again;
    send_request(&requests[i], &timers[i]);
  }
  for (i = 1; i <= 20; i++) {
    iterate();
    ck_assert_uint_eq(called_in_all, 2 * i);
    ck_assert_uint_eq(requests[0].place, 2 * i - 2);
    ck_assert_uint_eq(requests[1].place, 2 * i - 1);
  }
  iterate();
  ck_assert_uint_eq(called_in_all, 40);
  ck_assert_uint_eq(stats_of_wheel().stalls, 1);
  ck_assert_uint_ge(stats_of_wheel().turn_max_us, 1000000);
}
END_TEST

/* At most three a turn, and sockets are served in between. test_turns.c has the
 * time that they take. */
START_TEST(a_turn_keeps_to_its_budget)
{
  static echo_t echo;
  unsigned i;

  open_mailbox(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 3});
  echo_open(&echo, &loop);
  send_all();
  echo_ping(&echo);
  iterate();
  ck_assert_uint_eq(called_in_all, 3);
  iterate();
  ck_assert_uint_eq(called_in_all, 6);
  ck_assert_uint_eq(echo.pongs, 1);
  iterate();
  for (i = 0; i < REQUESTS; i++)
    expect_called(&requests[i], 0, i);
  echo_close(&echo);
}
END_TEST

/* ---- Closed -------------------------------------------------------------- */

static void
on_closed_with_all_called(uvwheel_t *closed)
{
  on_wheel_closed(closed);
  ck_assert_uint_eq(called_in_all, REQUESTS);
  forget_wheel();
}

static void
close_in_callback(request_t *request)
{
  (void)request;
  uvwheel_close(&wheel, on_closed_with_all_called);
  ck_assert_int_eq(post_in_vain(&wheel, on_request), UV_ECANCELED);
}

/* A turn calls back five. For the rest nothing sends to the closing handle. */
START_TEST(close_in_a_request_s_callback_cancels_those_after_it)
{
  struct pollfd backend = {.fd = uv_backend_fd(&loop), .events = POLLIN};
  int i;

  open_mailbox(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 5});
  send_all();
  requests[_i].then = close_in_callback;
  while (wheels_closed == 0)
    (void)uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_int_eq(poll(&backend, 1, 0), 0);
  ck_assert_uint_eq(wheels_closed, 1);
  for (i = 0; i < REQUESTS; i++)
    expect_called(&requests[i], i <= _i ? 0 : UV_ECANCELED, (unsigned)i);
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      TEST(bad_input_is_refused_and_changes_nothing),
      TEST(requests_allocate_nothing),
      TEST(what_is_posted_in_a_request_s_callback_follows_in_the_next_turn),
      TEST(a_turn_keeps_to_its_budget),
      {close_in_a_request_s_callback_cancels_those_after_it, 0, REQUESTS},
  };

  return run_loop_tests("posts", tests, LENGTH(tests));
}
