/* SPDX-License-Identifier: MIT */

/* "From other threads" in the header, as the loop sees it. test_posts_threads.c
 * has the threads, test_turns.c the time that requests take, and the model
 * plays their order and their turns (test/model/play_posts.c). */

#include <poll.h>

#include "allocations.h"
#include "support.h"

#define REQUESTS 8

static struct {
  uvwheel_post_t post;
  unsigned called;
  unsigned place; /* among all that were called back, from 0 on */
  int status;
} requests[REQUESTS];

static unsigned called_in_all, close_at;
static uvwheel_post_t garbage;
static test_timer_t timer;

/* Posts a request in memory full of garbage, which stays as it is. */
static int post_in_vain(uvwheel_t *to, uvwheel_post_cb cb) {
  uvwheel_post_t post, before;
  int error;

  memset(&post, 0xA5, sizeof post);
  before = post;
  error = uvwheel_post(to, &post, cb);
  ck_assert_mem_eq(&post, &before, sizeof post);
  return error;
}

START_TEST(bad_input_is_refused_and_changes_nothing) {
  static uvwheel_t zeros;

  open_wheel(10, 8);
  ck_assert_int_eq(post_in_vain(&wheel, ignore_post), UV_EINVAL);
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  ck_assert_int_eq(uvwheel_open_mailbox(NULL), UV_EINVAL);
  ck_assert_int_eq(uvwheel_open_mailbox(&zeros), UV_EINVAL);
  ck_assert_int_eq(post_in_vain(NULL, ignore_post), UV_EINVAL);
  ck_assert_int_eq(post_in_vain(&wheel, NULL), UV_EINVAL);
  ck_assert_int_eq(uvwheel_post(&wheel, NULL, ignore_post), UV_EINVAL);
  ck_assert_uint_eq(handle_count(), WHEEL_HANDLES + 1);
}
END_TEST

static void on_wheel_closed_last(uvwheel_t *closed) {
  on_wheel_closed(closed);
  ck_assert_uint_eq(called_in_all, REQUESTS);
  forget_wheel();
}

static void on_request(uvwheel_post_t *post, int status) {
  size_t i = *(const size_t *)post->data;

  *post = garbage; /* it is the test's again */
  requests[i].called++;
  requests[i].status = status;
  requests[i].place = called_in_all++;
  ck_assert_int_eq(uvwheel_timer_start(&timer.base, on_test_timer, 50, 0),
                   status == 0 ? 0 : UV_EINVAL);
  if (requests[i].place != close_at)
    return;
  uvwheel_close(&wheel, on_wheel_closed_last);
  ck_assert_int_eq(post_in_vain(&wheel, on_request), UV_ECANCELED);
}

/* A turn calls back five. For the rest nothing sends to the closing handle. */
START_TEST(close_in_a_request_s_callback_cancels_those_after_it) {
  struct pollfd backend = {.fd = uv_backend_fd(&loop), .events = POLLIN};
  static size_t numbers[REQUESTS];
  uint64_t before;
  size_t i;

  called_in_all = 0;
  close_at = (unsigned)_i;
  memset(&garbage, 0xA5, sizeof garbage);
  open_wheel_with(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 5});
  ck_assert_int_eq(uvwheel_open_mailbox(&wheel), 0);
  test_timer_init(&timer);
  before = allocations();
  for (i = 0; i < REQUESTS; i++) {
    requests[i].post = garbage;
    numbers[i] = i;
    requests[i].post.data = &numbers[i];
    requests[i].called = 0;
    require(uvwheel_post(&wheel, &requests[i].post, on_request) == 0);
  }
  ck_assert_uint_eq(allocations(), before);
  while (wheels_closed == 0)
    (void)uv_run(&loop, UV_RUN_NOWAIT);
  ck_assert_int_eq(poll(&backend, 1, 0), 0);
  ck_assert_uint_eq(wheels_closed, 1);
  for (i = 0; i < REQUESTS; i++) {
    ck_assert_uint_eq(requests[i].called, 1);
    ck_assert_uint_eq(requests[i].place, i);
    ck_assert_int_eq(requests[i].status, i <= close_at ? 0 : UV_ECANCELED);
    ck_assert_mem_eq(&requests[i].post, &garbage, sizeof garbage);
  }
  run_for(1000);
  ck_assert_uint_eq(fired_in_all, 0);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(bad_input_is_refused_and_changes_nothing),
      {close_in_a_request_s_callback_cancels_those_after_it, 0, REQUESTS},
  };

  return run_loop_tests("posts", tests, LENGTH(tests));
}
