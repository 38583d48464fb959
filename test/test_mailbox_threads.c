/* SPDX-License-Identifier: MIT */

/* Threads that post into the mailbox of one loop, in real time: above all for
 * the thread sanitizer. */

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "suite.h"
#include "uvwheel.h"

#define SENDERS 4
#define POSTS 5000 /* of each sender */
#define TIMERS 50  /* of each sender */

/* What is freed as soon as the wheel is closed. The thread sanitizer watches
 * the first KiB of a block that is freed: the mailbox has to be in it. */
typedef struct office_s {
  uvwheel_mailbox_t mailbox;
  uvwheel_t wheel;
} office_t;

typedef struct sender_s {
  uv_thread_t thread;
  office_t *office;
  uvwheel_timer_t timers[TIMERS];
  uvwheel_post_t posts[POSTS];
  unsigned posted;    /* the thread's: how many were queued      */
  unsigned completed; /* the loop's: how many have come back     */
  unsigned canceled;  /* the loop's: how many of them in the end */
  unsigned errors;    /* the loop's */
} sender_t;

static uv_loop_t loop;
static sender_t senders[SENDERS];
static unsigned completed_in_all;
static unsigned close_after; /* so many; 0: all */
static unsigned offices_closed;

static void
join_and_free(uvwheel_t *wheel)
{
  size_t i;

  for (i = 0; i < SENDERS; i++)
    ck_assert_int_eq(uv_thread_join(&senders[i].thread), 0);
  offices_closed++;
  free(wheel->data);
}

static void
on_timer(uvwheel_timer_t *timer)
{
  ++*(unsigned *)timer->data;
}

/* Those of one thread come back in their order. */
static void
on_completed(uvwheel_post_t *post, int status)
{
  sender_t *sender = post->data;

  sender->errors += post != &sender->posts[sender->completed];
  sender->completed++;
  if (status == UV_ECANCELED)
    sender->canceled++;
  else
    sender->errors += sender->canceled != 0 || status != 0;
  if (++completed_in_all == close_after)
    uvwheel_close(&sender->office->wheel, join_and_free);
}

/* Starts, refreshes and stops each timer, and starts it again. */
static int
post_one(sender_t *sender, unsigned i)
{
  uvwheel_post_t *post = &sender->posts[i];
  uvwheel_mailbox_t *mailbox = &sender->office->mailbox;
  uvwheel_timer_t *timer = &sender->timers[i / 3 % TIMERS];

  post->data = sender;
  if (i % 3 == 0)
    return uvwheel_post_start(post, mailbox, timer, on_timer, 60000, 0,
                              on_completed);
  if (i % 3 == 1)
    return uvwheel_post_refresh(post, mailbox, timer, on_completed);
  return uvwheel_post_stop(post, mailbox, timer, on_completed);
}

static void
run_sender(void *arg)
{
  sender_t *sender = arg;

  while (sender->posted < POSTS && post_one(sender, sender->posted) == 0)
    sender->posted++;
}

static office_t *
open_office(void)
{
  office_t *office = malloc(sizeof *office);

  ck_assert_ptr_nonnull(office);
  ck_assert_int_eq(uvwheel_init(&loop, &office->wheel, NULL), 0);
  office->wheel.data = office;
  ck_assert_int_eq(uvwheel_mailbox_init(&office->wheel, &office->mailbox), 0);
  return office;
}

static void
start_senders(office_t *office)
{
  size_t i, j;

  for (i = 0; i < SENDERS; i++) {
    sender_t *sender = &senders[i];
    sender->office = office;
    for (j = 0; j < TIMERS; j++) {
      ck_assert_int_eq(uvwheel_timer_init(&office->wheel, &sender->timers[j]),
                       0);
    }
    ck_assert_int_eq(uv_thread_create(&sender->thread, run_sender, sender), 0);
  }
}

/* All of them; or the wheel is closed while the threads still post, and freed
 * when they have noticed. */
START_TEST(requests_of_several_threads_are_completed_once_and_in_order)
{
  const unsigned closes_after[] = {SENDERS * POSTS, 1, 100,
                                   SENDERS * POSTS / 2};
  unsigned posted = 0;
  size_t i;

  close_after = closes_after[_i];
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  start_senders(open_office());
  ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  ck_assert_uint_eq(offices_closed, 1);
  for (i = 0; i < SENDERS; i++) {
    ck_assert_uint_eq(senders[i].completed, senders[i].posted);
    ck_assert_uint_eq(senders[i].errors, 0);
    posted += senders[i].posted;
  }
  ck_assert_uint_eq(completed_in_all, posted);
  ck_assert_uint_ge(posted, close_after);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

/* ---- The last request closes ----------------------------------------------
 */

#define ROUNDS 1000

static struct {
  uv_sem_t ready, back;
  office_t *office; /* NULL: no more */
  uvwheel_timer_t timer;
  uvwheel_post_t post;
} last;

static void
free_office(uvwheel_t *wheel)
{
  offices_closed++;
  free(wheel->data);
}

static void
on_last(uvwheel_post_t *post, int status)
{
  ck_assert_int_eq(status, 0);
  uvwheel_close(post->data, free_office);
}

static void
post_last(void *arg)
{
  (void)arg;
  for (uv_sem_wait(&last.ready); last.office != NULL;
       uv_sem_wait(&last.ready)) {
    last.post.data = &last.office->wheel;
    if (uvwheel_post_stop(&last.post, &last.office->mailbox, &last.timer,
                          on_last) != 0)
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

  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(uv_sem_init(&last.ready, 0), 0);
  ck_assert_int_eq(uv_sem_init(&last.back, 0), 0);
  ck_assert_int_eq(uv_thread_create(&thread, post_last, NULL), 0);
  for (i = 0; i < ROUNDS; i++) {
    last.office = open_office();
    ck_assert_int_eq(uvwheel_timer_init(&last.office->wheel, &last.timer), 0);
    uv_sem_post(&last.ready);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_uint_eq(offices_closed, i + 1);
    uv_sem_wait(&last.back);
  }
  last.office = NULL;
  uv_sem_post(&last.ready);
  ck_assert_int_eq(uv_thread_join(&thread), 0);
  uv_sem_destroy(&last.ready);
  uv_sem_destroy(&last.back);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("mailbox: threads");
  TCase *tcase = tcase_create("threads");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(
      tcase, requests_of_several_threads_are_completed_once_and_in_order, 0, 4);
  tcase_add_test(tcase,
                 the_request_whose_callback_closes_the_wheel_may_be_the_last);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
