/* SPDX-License-Identifier: MIT */

/* Slow work that begins when a timer fires, on a thread of its own.
 *
 * A callback that computes for a second makes all other timers of the loop a
 * second late, and all its connections wait. uv_queue_work does such work on
 * another thread, and calls back on the loop's thread when it is done. Mind
 * that:
 *
 * - The work touches neither timers nor anything else of the loop, which belong
 *   to the loop's thread. (If it must: uvwheel_post.)
 * - The timer has no repeat. It is started again when the work is done, so that
 *   work that takes longer than the interval does not pile up.
 * - What the work uses has to stay until its callback on the loop; a stopped
 *   timer does not end work that has begun.
 *
 * To show that the loop goes on, the work here waits until another timer has
 * fired three times. Done in the callback, it would wait for ever. */

#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

#define INTERVAL_MS 100
#define OTHER_MS 20
#define FIRINGS 3 /* of the other timer: how long the work takes */
#define JOBS 3

typedef struct job_s {
  uvwheel_timer_t timer;
  uv_work_t work;
  unsigned done; /* how often */
} job_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uvwheel_timer_t other;
static unsigned fired; /* the other timer, since the work began */
static uv_sem_t has_fired;

static void
on_other(uvwheel_timer_t *timer)
{
  (void)timer;
  fired++;
  uv_sem_post(&has_fired);
}

/* On another thread. */
static void
work(uv_work_t *request)
{
  (void)request;
  for (int i = 0; i < FIRINGS; i++)
    uv_sem_wait(&has_fired);
}

static void on_timer(uvwheel_timer_t *timer);

/* On the loop's thread again. */
static void
on_work_done(uv_work_t *request, int status)
{
  job_t *job = request->data;

  (void)status; /* UV_ECANCELED after uv_cancel */
  job->done++;
  printf("work %u done, the other timer fired %u times meanwhile\n", job->done,
         fired);
  if (job->done < JOBS)
    uvwheel_timer_start(&job->timer, on_timer, INTERVAL_MS, 0);
  else
    uvwheel_timer_stop(&other);
}

static void
on_timer(uvwheel_timer_t *timer)
{
  job_t *job = timer->data;

  fired = 0;
  while (uv_sem_trywait(&has_fired) == 0) /* earlier ones do not count */
    continue;
  job->work.data = job;
  if (uv_queue_work(&loop, &job->work, work, on_work_done) != 0)
    abort();
  printf("work %u begins\n", job->done + 1);
}

int
main(void)
{
  job_t job = {.timer.data = &job};
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0 ||
      uv_sem_init(&has_fired, 0) != 0)
    return EXIT_FAILURE;
  uvwheel_timer_init(&wheel, &other);
  uvwheel_timer_start(&other, on_other, OTHER_MS, OTHER_MS);
  uvwheel_timer_init(&wheel, &job.timer);
  uvwheel_timer_start(&job.timer, on_timer, INTERVAL_MS, 0);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active, no work done */
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_sem_destroy(&has_fired);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
