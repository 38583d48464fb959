/* SPDX-License-Identifier: MIT */

/* Threads that post into the mailbox of one loop, in real time: above all for
 * the thread sanitizer. */

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "suite.h"
#include "uvwheel.h"

#define THREADS 4
#define POSTS 5000 /* of each thread, at most */
#define TIMERS 50  /* of each thread */
#define CLOSES 300
#define LASTS 1000

typedef struct sender_s {
  uvwheel_t *wheel;
  uvwheel_timer_t *timers; /* the loop's, until a post is refused */
  uvwheel_post_t posts[POSTS];
  unsigned posted;   /* the thread's: how many were queued      */
  unsigned called;   /* the loop's: how many were called back   */
  unsigned canceled; /* the loop's: how many of them in the end */
  unsigned errors;   /* the loop's */
} sender_t;

static uv_loop_t loop;
static uv_thread_t threads[THREADS];
static sender_t senders[THREADS];
static unsigned posts_of_each;
static unsigned called_in_all;
static unsigned close_after; /* that many were called back */
static unsigned wheels_closed;

/* The next test in the same process would find what one leaves behind. */
static void setup(void) {
  wheels_closed = 0;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void teardown(void) {
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* It is freed as soon as it is closed. */
static uvwheel_t *open_wheel(void) {
  uvwheel_t *wheel = malloc(sizeof *wheel);

  ck_assert_ptr_nonnull(wheel);
  ck_assert_int_eq(uvwheel_init(&loop, wheel, NULL), 0);
  ck_assert_int_eq(uvwheel_open_mailbox(wheel), 0);
  return wheel;
}

static void free_wheel(uvwheel_t *wheel) {
  wheels_closed++;
  free(wheel);
}

static void on_timer(uvwheel_timer_t *timer) {
  (void)timer;
}

/* ---- All requests come back ---------------------------------------------- */

static void join_threads(void) {
  size_t i;

  for (i = 0; i < THREADS; i++)
    ck_assert_int_eq(uv_thread_join(&threads[i]), 0);
}

/* Starts, refreshes and stops each timer, and starts it again. */
static int use_timer(sender_t *sender, unsigned i) {
  uvwheel_timer_t *timer = &sender->timers[i / 3 % TIMERS];

  if (i % 3 == 0)
    return uvwheel_timer_start(timer, on_timer, 60000, 0);
  if (i % 3 == 1)
    return uvwheel_timer_refresh(timer);
  return uvwheel_timer_stop(timer);
}

/* Those of one thread come back in their order. */
static void on_called(uvwheel_post_t *post, int status) {
  sender_t *sender = post->data;

  sender->errors += post != &sender->posts[sender->called];
  if (status == UV_ECANCELED)
    sender->canceled++;
  else
    sender->errors += sender->canceled != 0 || status != 0 ||
                      use_timer(sender, sender->called) != 0;
  sender->called++;
  if (++called_in_all != close_after)
    return;
  /* From then on threads are refused, and end before the wheel is closed. */
  uvwheel_close(sender->wheel, free_wheel);
  if (close_after != THREADS * posts_of_each)
    join_threads();
}

/* Posts until it is refused, or has posted all. */
static void run_sender(void *arg) {
  sender_t *sender = arg;

  while (sender->posted < posts_of_each) {
    uvwheel_post_t *post = &sender->posts[sender->posted];
    post->data = sender;
    if (uvwheel_post(sender->wheel, post, on_called) != 0) {
      free(sender->timers);
      sender->timers = NULL;
      return;
    }
    sender->posted++;
  }
}

static void start_sender(sender_t *sender, uvwheel_t *wheel,
                         uv_thread_t *thread) {
  size_t i;

  memset(sender, 0, sizeof *sender);
  sender->wheel = wheel;
  sender->timers = malloc(TIMERS * sizeof *sender->timers);
  ck_assert_ptr_nonnull(sender->timers);
  for (i = 0; i < TIMERS; i++) {
    ck_assert_int_eq(uvwheel_timer_init(wheel, &sender->timers[i]), 0);
    ck_assert_int_eq(
        uvwheel_timer_start(&sender->timers[i], on_timer, 60000, 0), 0);
  }
  ck_assert_int_eq(uv_thread_create(thread, run_sender, sender), 0);
}

/* The wheel is closed after so many requests, and freed when the threads have
 * noticed, each of which frees its timers then. */
static void close_after_requests(unsigned each, unsigned count) {
  uvwheel_t *wheel = open_wheel();
  unsigned posted = 0;
  size_t i;

  called_in_all = 0;
  posts_of_each = each;
  close_after = count;
  for (i = 0; i < THREADS; i++)
    start_sender(&senders[i], wheel, &threads[i]);
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  if (count == THREADS * each)
    join_threads();
  for (i = 0; i < THREADS; i++) {
    ck_assert_uint_eq(senders[i].called, senders[i].posted);
    ck_assert_uint_eq(senders[i].errors, 0);
    posted += senders[i].posted;
    free(senders[i].timers);
  }
  ck_assert_uint_eq(called_in_all, posted);
  ck_assert_uint_ge(posted, close_after);
}

START_TEST(requests_of_several_threads_are_called_back_once_and_in_order) {
  close_after_requests(POSTS, THREADS * POSTS);
  close_after_requests(POSTS, THREADS * POSTS / 2);
  ck_assert_uint_eq(wheels_closed, 2);
}
END_TEST

/* Most threads are posting then. */
START_TEST(a_thread_whose_post_is_refused_may_free_its_timers) {
  unsigned count;

  for (count = 1; count <= CLOSES; count++) {
    close_after_requests(POSTS, count);
    ck_assert_uint_eq(wheels_closed, count);
  }
}
END_TEST

/* Calls may still be on their way back, and must not touch what is freed. */
START_TEST(the_request_whose_callback_closes_the_wheel_may_be_the_last) {
  unsigned i;

  for (i = 0; i < LASTS; i++)
    close_after_requests(1, THREADS);
  ck_assert_uint_eq(wheels_closed, LASTS);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(requests_of_several_threads_are_called_back_once_and_in_order),
      TEST(a_thread_whose_post_is_refused_may_free_its_timers),
      TEST(the_request_whose_callback_closes_the_wheel_may_be_the_last),
  };

  return run_tests("posts: threads", setup, teardown, tests, LENGTH(tests));
}
