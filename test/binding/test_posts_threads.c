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
#define POSTS 5000 /* of each thread */
#define TIMERS 50  /* of each thread */

typedef struct sender_s {
  uvwheel_t *wheel;
  uvwheel_timer_t timers[TIMERS];
  uvwheel_post_t posts[POSTS];
  unsigned posted;   /* the thread's: how many were queued      */
  unsigned called;   /* the loop's: how many were called back   */
  unsigned canceled; /* the loop's: how many of them in the end */
  unsigned errors;   /* the loop's */
} sender_t;

static uv_loop_t loop;
static uv_thread_t threads[THREADS];
static sender_t senders[THREADS];
static unsigned called_in_all;
static unsigned close_after; /* that many; 0: all */
static unsigned wheels_closed;

/* The next test in the same process would find what one leaves behind. */
static void
setup(void)
{
  memset(senders, 0, sizeof senders);
  called_in_all = 0;
  wheels_closed = 0;
  ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void
teardown(void)
{
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* It is freed as soon as it is closed. */
static uvwheel_t *
open_wheel(void)
{
  uvwheel_t *wheel = malloc(sizeof *wheel);

  ck_assert_ptr_nonnull(wheel);
  ck_assert_int_eq(uvwheel_init(&loop, wheel, NULL), 0);
  ck_assert_int_eq(uvwheel_open_mailbox(wheel), 0);
  return wheel;
}

static void
free_wheel(uvwheel_t *wheel)
{
  wheels_closed++;
  free(wheel);
}

static void
on_timer(uvwheel_timer_t *timer)
{
  (void)timer;
}

/* ---- All requests come back -----------------------------------------------
 */

static void
join_threads(void)
{
  size_t i;

  for (i = 0; i < THREADS; i++)
    ck_assert_int_eq(uv_thread_join(&threads[i]), 0);
}

/* Starts, refreshes and stops each timer, and starts it again. */
static int
use_timer(sender_t *sender, unsigned i)
{
  uvwheel_timer_t *timer = &sender->timers[i / 3 % TIMERS];

  if (i % 3 == 0)
    return uvwheel_timer_start(timer, on_timer, 60000, 0);
  if (i % 3 == 1)
    return uvwheel_timer_refresh(timer);
  return uvwheel_timer_stop(timer);
}

/* Those of one thread come back in their order. */
static void
on_called(uvwheel_post_t *post, int status)
{
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
  join_threads();
}

static void
run_sender(void *arg)
{
  sender_t *sender = arg;

  while (sender->posted < POSTS) {
    uvwheel_post_t *post = &sender->posts[sender->posted];
    post->data = sender;
    if (uvwheel_post(sender->wheel, post, on_called) != 0)
      break;
    sender->posted++;
  }
}

static void
start_senders(uvwheel_t *wheel)
{
  size_t i, j;

  for (i = 0; i < THREADS; i++) {
    sender_t *sender = &senders[i];
    sender->wheel = wheel;
    for (j = 0; j < TIMERS; j++)
      ck_assert_int_eq(uvwheel_timer_init(wheel, &sender->timers[j]), 0);
    ck_assert_int_eq(uv_thread_create(&threads[i], run_sender, sender), 0);
  }
}

/* All of them; or the wheel is closed while the threads still post, and freed
 * when they have noticed. */
START_TEST(requests_of_several_threads_are_called_back_once_and_in_order)
{
  const unsigned closes_after[] = {THREADS * POSTS, 1, 100,
                                   THREADS * POSTS / 2};
  unsigned posted = 0;
  size_t i;

  close_after = closes_after[_i];
  start_senders(open_wheel());
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(wheels_closed, 1);
  for (i = 0; i < THREADS; i++) {
    ck_assert_uint_eq(senders[i].called, senders[i].posted);
    ck_assert_uint_eq(senders[i].errors, 0);
    posted += senders[i].posted;
  }
  ck_assert_uint_eq(called_in_all, posted);
  ck_assert_uint_ge(posted, close_after);
}
END_TEST

/* ---- A thread that is refused ---------------------------------------------
 */

#define REFUSALS 300 /* of each thread */
#define MOST_QUEUED 1000

typedef struct worker_s {
  uvwheel_t *wheel;
  uvwheel_timer_t *timer;
  uv_sem_t room; /* for that many requests more */
} worker_t;

static worker_t workers[THREADS];

/* A thread that waits for room has to be refused, too. */
static void
on_work(uvwheel_post_t *post, int status)
{
  worker_t *worker = post->data;
  size_t i;

  free(post);
  uv_sem_post(&worker->room);
  if (status != 0 || ++called_in_all != close_after)
    return;
  uvwheel_close(worker->wheel, free_wheel);
  for (i = 0; i < THREADS; i++)
    uv_sem_post(&workers[i].room);
  join_threads();
}

/* The timer is the loop's until a post is refused. */
static void
run_worker(void *arg)
{
  worker_t *worker = arg;
  uvwheel_post_t *post;

  do {
    uv_sem_wait(&worker->room);
    post = malloc(sizeof *post);
    if (post == NULL)
      abort();
    post->data = worker;
  } while (uvwheel_post(worker->wheel, post, on_work) == 0);
  free(post);
  free(worker->timer);
}

static void
start_worker(worker_t *worker, uvwheel_t *wheel, uv_thread_t *thread)
{
  worker->wheel = wheel;
  worker->timer = malloc(sizeof *worker->timer);
  ck_assert_ptr_nonnull(worker->timer);
  ck_assert_int_eq(uvwheel_timer_init(wheel, worker->timer), 0);
  ck_assert_int_eq(uvwheel_timer_start(worker->timer, on_timer, 60000, 0), 0);
  ck_assert_int_eq(uv_sem_init(&worker->room, MOST_QUEUED), 0);
  ck_assert_int_eq(uv_thread_create(thread, run_worker, worker), 0);
}

/* Most threads are posting then. */
START_TEST(a_thread_whose_post_is_refused_may_free_its_timer)
{
  unsigned i, j;

  for (i = 0; i < REFUSALS; i++) {
    uvwheel_t *wheel = open_wheel();
    called_in_all = 0;
    close_after = 1 + i;
    for (j = 0; j < THREADS; j++)
      start_worker(&workers[j], wheel, &threads[j]);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_uint_eq(wheels_closed, i + 1);
    for (j = 0; j < THREADS; j++)
      uv_sem_destroy(&workers[j].room);
  }
}
END_TEST

/* ---- The last request closes ----------------------------------------------
 */

#define ROUNDS 1000

static struct {
  uv_sem_t ready, back;
  uvwheel_t *wheel; /* NULL: no more */
  uvwheel_post_t post;
} last;

static void
on_last(uvwheel_post_t *post, int status)
{
  ck_assert_int_eq(status, 0);
  uvwheel_close(post->data, free_wheel);
}

static void
post_last(void *arg)
{
  (void)arg;
  for (uv_sem_wait(&last.ready); last.wheel != NULL; uv_sem_wait(&last.ready)) {
    last.post.data = last.wheel;
    if (uvwheel_post(last.wheel, &last.post, on_last) != 0)
      abort();
    uv_sem_post(&last.back);
  }
}

/* The call may still be on its way back then, and must not touch what is freed.
 */
START_TEST(the_request_whose_callback_closes_the_wheel_may_be_the_last)
{
  uv_thread_t thread;
  unsigned i;

  ck_assert_int_eq(uv_sem_init(&last.ready, 0), 0);
  ck_assert_int_eq(uv_sem_init(&last.back, 0), 0);
  ck_assert_int_eq(uv_thread_create(&thread, post_last, NULL), 0);
  for (i = 0; i < ROUNDS; i++) {
    last.wheel = open_wheel();
    uv_sem_post(&last.ready);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_uint_eq(wheels_closed, i + 1);
    uv_sem_wait(&last.back);
  }
  last.wheel = NULL;
  uv_sem_post(&last.ready);
  ck_assert_int_eq(uv_thread_join(&thread), 0);
  uv_sem_destroy(&last.ready);
  uv_sem_destroy(&last.back);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {requests_of_several_threads_are_called_back_once_and_in_order, 0, 4},
      TEST(a_thread_whose_post_is_refused_may_free_its_timer),
      TEST(the_request_whose_callback_closes_the_wheel_may_be_the_last),
  };

  return run_tests("posts: threads", setup, teardown, tests,
                   sizeof tests / sizeof *tests);
}
