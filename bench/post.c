/* SPDX-License-Identifier: MIT */

/* The cost of a timer that another thread has started: the thread posts a
 * million requests as fast as it can, and the loop, which starts a timer for
 * each, takes them. Beside it the same starts on the loop's own thread. Real
 * time, and the CPU time of both threads; with fewer than two idle cores the
 * former says more about the machine.
 *
 * usage: post REPETITIONS; CSV with the columns of bench.c, on stdout */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include <uvwheel.h>

#define REQUESTS 1000000u

typedef struct job_s {
  uvwheel_timer_t timer;
  uvwheel_post_t post;
} job_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static job_t *jobs;
static unsigned started;

static void
on_timeout(uvwheel_timer_t *timer)
{
  (void)timer;
}

static void
start(job_t *job)
{
  uvwheel_timer_start(&job->timer, on_timeout, 60000, 0);
  if (++started == REQUESTS)
    uv_stop(&loop);
}

static void
on_posted(uvwheel_post_t *post, int status)
{
  (void)status;
  start(post->data);
}

static void
start_all(void *arg)
{
  (void)arg;
  for (unsigned i = 0; i < REQUESTS; i++)
    start(&jobs[i]);
}

static void
post_all(void *arg)
{
  (void)arg;
  for (unsigned i = 0; i < REQUESTS; i++)
    uvwheel_post(&wheel, &jobs[i].post, on_posted);
}

static void
post_and_take(void *arg)
{
  uv_thread_t thread;

  (void)arg;
  if (uv_thread_create(&thread, post_all, NULL) != 0)
    abort();
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_thread_join(&thread);
}

static uint64_t
cpu_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
measure(const char *name, uv_thread_cb way, unsigned long repetition)
{
  uint64_t real_ns, used_ns;

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, NULL) != 0 ||
      uvwheel_open_mailbox(&wheel) != 0)
    abort();
  started = 0;
  for (unsigned i = 0; i < REQUESTS; i++) {
    uvwheel_timer_init(&wheel, &jobs[i].timer);
    jobs[i].post.data = &jobs[i];
  }
  real_ns = uv_hrtime();
  used_ns = cpu_ns();
  way(NULL);
  printf("uvwheel,%s,%u,%lu,%.4g,ns\n", name, REQUESTS, repetition,
         (double)(cpu_ns() - used_ns) / REQUESTS);
  printf("uvwheel,%s: real time,%u,%lu,%.4g,ns\n", name, REQUESTS, repetition,
         (double)(uv_hrtime() - real_ns) / REQUESTS);
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
}

int
main(int argc, char **argv)
{
  unsigned long repetitions = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;

  jobs = malloc(REQUESTS * sizeof *jobs);
  if (jobs == NULL)
    abort();
  for (unsigned long i = 1; i <= repetitions; i++) {
    measure("start on the loop's thread", start_all, i);
    measure("start by a post", post_and_take, i);
  }
  free(jobs);
  return 0;
}
