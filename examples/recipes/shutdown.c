/* SPDX-License-Identifier: MIT */

/* A graceful end that prints what was still to be done.
 *
 * On SIGTERM nothing new is begun, but what was promised must not be lost: the
 * jobs whose time has not come are taken out of the wheel, with the time that
 * they had left, and could be written to a file or handed to another process.
 * uvwheel_walk visits every active timer, whatever it is for; its callback may
 * stop and free timers. A wheel for jobs alone, beside the one for connections,
 * keeps such walks short and their callback simple.
 *
 * Then everything is closed in the usual order: the wheel, the other handles,
 * and the loop, which confirms that nothing was forgotten. */

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

typedef struct job_s {
  uvwheel_timer_t timer;
  const char *name;
} job_t;

static uv_loop_t loop;
static uvwheel_t jobs;
static uv_signal_t terminate;
static uv_timer_t somebody;

static void
on_job(uvwheel_timer_t *timer)
{
  job_t *job = timer->data;

  printf("done: %s\n", job->name);
  free(job);
}

static void
add_job(const char *name, uint64_t delay_ms)
{
  job_t *job = malloc(sizeof(*job));

  if (job == NULL)
    abort();
  job->name = name;
  job->timer.data = job;
  uvwheel_timer_init(&jobs, &job->timer);
  uvwheel_timer_start(&job->timer, on_job, delay_ms, 0);
}

static void
save_job(uvwheel_timer_t *timer, void *stream)
{
  job_t *job = timer->data;

  fprintf(stream, "left: %s, due in %" PRIu64 " ms\n", job->name,
          uvwheel_timer_get_due_in(timer));
  uvwheel_timer_close(timer);
  free(job);
}

static void
on_closed(uvwheel_t *wheel)
{
  (void)wheel;
  printf("closed\n");
}

static void
on_terminate(uv_signal_t *handle, int number)
{
  (void)number;
  printf("told to end, with %" PRIu64 " jobs left\n", uvwheel_count(&jobs));
  uvwheel_walk(&jobs, save_job, stdout);
  uvwheel_close(&jobs, on_closed);
  uv_close((uv_handle_t *)handle, NULL);
  uv_close((uv_handle_t *)&somebody, NULL);
}

/* In place of an operator who types kill, which works as well. It is no job, so
 * it has no place in their wheel. */
static void
on_somebody(uv_timer_t *timer)
{
  (void)timer;
  uv_kill(uv_os_getpid(), SIGTERM);
}

int
main(void)
{
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &jobs, &options) != 0 ||
      uv_signal_init(&loop, &terminate) != 0 ||
      uv_signal_start(&terminate, on_terminate, SIGTERM) != 0 ||
      uv_timer_init(&loop, &somebody) != 0)
    return EXIT_FAILURE;
  add_job("send the welcome mail", 300);
  add_job("remind of the meeting", 60 * 60 * 1000);
  add_job("delete the old files", 500);
  add_job("renew the certificate", 24 * 60 * 60 * 1000);
  uv_timer_start(&somebody, on_somebody, 1000, 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
