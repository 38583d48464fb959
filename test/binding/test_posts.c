/* SPDX-License-Identifier: MIT */

/* "From other threads" in the header, as the loop sees it, in virtual time.
 * test_posts_threads.c has the threads. */

#include "allocations.h"
#include "echo_pair.h"
#include "support.h"

static const uvwheel_options_t fine = {.tick_ms = 10, .slots = 8};

#define REQUESTS 8

typedef struct request_s request_t;

struct request_s {
  uvwheel_post_t post;
  test_timer_t *timer; /* what its callback starts, for 50 ms; NULL: nothing */
  int started;         /* what that start returned                         */
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
    request->started =
        uvwheel_timer_start(&request->timer->base, on_test_timer, 50, 0);
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
turn(void)
{
  uv_run(&loop, UV_RUN_NOWAIT);
  verify_wheel();
}

/* ---- One request ----------------------------------------------------------
 */

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

/* ---- Many requests --------------------------------------------------------
 */

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
  else
    virtual_time_advance_ms(1000); /* which is no stall, as in a timer's */
}

/* Even with no limit on a turn. */
START_TEST(what_is_posted_in_a_request_s_callback_follows_in_the_next_turn)
{
  const uvwheel_options_t options = {.turn_budget = UINT32_MAX,
                                     .turn_ms = UINT32_MAX};
  unsigned i;

  open_mailbox(&options);
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
  ck_assert_uint_eq(stats_of_wheel().stalls, 0);
}
END_TEST

/* At most three a turn, and sockets are served in between. test_turns.c has the
 * time that they take. */
START_TEST(a_turn_keeps_to_its_budget)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = 3};
  static echo_t echo;
  unsigned i;

  open_mailbox(&options);
  echo_open(&echo, &loop);
  send_all();
  echo_ping(&echo);
  turn();
  ck_assert_uint_eq(called_in_all, 3);
  turn();
  ck_assert_uint_eq(called_in_all, 6);
  ck_assert_uint_eq(echo.pongs, 1);
  turn();
  for (i = 0; i < REQUESTS; i++)
    expect_called(&requests[i], 0, i);
  echo_close(&echo);
}
END_TEST

/* ---- What keeps the loop alive ------------------------------------------- */

START_TEST(a_mailbox_keeps_the_loop_alive_unless_the_wheel_is_unref_d)
{
  open_mailbox(&fine);
  ck_assert(uv_loop_alive(&loop));
  uvwheel_unref(&wheel);
  ck_assert(!uv_loop_alive(&loop));
  uvwheel_ref(&wheel);
  ck_assert(uv_loop_alive(&loop));
  uvwheel_unref(&wheel);
  send_request(&requests[0], &timers[0]);
  run_for(1);
  expect_called(&requests[0], 0, 0);
  ck_assert(!uv_loop_alive(&loop));
}
END_TEST

/* ---- Closed by uvwheel_close --------------------------------------------- */

static void
queue_requests(uint32_t turn_budget)
{
  const uvwheel_options_t options = {.tick_ms = 10, .turn_budget = turn_budget};

  open_mailbox(&options);
  send_all();
}

/* Those from there on were canceled, those before were not; all in order. */
static void
expect_canceled_from(unsigned first)
{
  unsigned i;

  for (i = 0; i < REQUESTS; i++)
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
  ck_assert_uint_eq(called_in_all, REQUESTS);
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
  for (i = 0; i < REQUESTS; i++)
    requests[i].then = use_closed_wheel;
  close_in_callback(NULL);
  run_for(10);
  ck_assert_uint_eq(wheels_closed, 1);
  expect_canceled_from(0);
}
END_TEST

/* ---- Closed by others ---------------------------------------------------- */

/* Which uvwheel_close, for which requests wait, finds under way or finished. */
static const struct {
  const char *name;
  uint64_t run_ms;
} closes[] = {{"under way", 0}, {"finished", 10}};

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
  run_for(10);
  require_in(closes[_i].name, wheels_closed == 1);
  expect_canceled_from(0);
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
      TEST(a_mailbox_keeps_the_loop_alive_unless_the_wheel_is_unref_d),
      {close_in_a_request_s_callback_cancels_those_after_it, 0, REQUESTS},
      TEST(a_canceled_request_s_callback_may_use_the_wheel),
      EACH(after_a_foreign_close_requests_wait_for_uvwheel_close, closes),
  };

  return run_loop_tests("posts", tests, LENGTH(tests));
}
