/* SPDX-License-Identifier: MIT */

#include "usage.h"

#include <stddef.h>
#include <time.h>

#if defined(__APPLE__)
#define MAX_RSS_PER_KIB 1024 /* it counts bytes there */
#else
#define MAX_RSS_PER_KIB 1
#endif

static double
seconds(uv_timeval_t time)
{
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

usage_t
usage_of_process(void)
{
  uv_rusage_t usage = {0};
  size_t rss = 0;

  uv_getrusage(&usage);
  uv_resident_set_memory(&rss);
  return (usage_t){
      .cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
      .rss_kib = rss / 1024,
      .max_rss_kib = usage.ru_maxrss / MAX_RSS_PER_KIB,
  };
}

/* ---- Iterations ---------------------------------------------------------- */

static uint64_t
cpu_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void
on_polled(uv_check_t *after_poll)
{
  iterations_t *iterations = after_poll->data;

  iterations->begun_ns = cpu_ns();
}

static void
on_poll(uv_prepare_t *before_poll)
{
  iterations_t *iterations = before_poll->data;
  uint64_t took_ns = cpu_ns() - iterations->begun_ns;

  if (iterations->longest_ns < took_ns)
    iterations->longest_ns = took_ns;
}

void
iterations_start(iterations_t *iterations, uv_loop_t *loop)
{
  uv_check_init(loop, &iterations->after_poll);
  uv_prepare_init(loop, &iterations->before_poll);
  iterations->after_poll.data = iterations;
  iterations->before_poll.data = iterations;
  iterations->begun_ns = cpu_ns();
  iterations->longest_ns = 0;
  uv_check_start(&iterations->after_poll, on_polled);
  uv_prepare_start(&iterations->before_poll, on_poll);
  uv_unref((uv_handle_t *)&iterations->after_poll);
  uv_unref((uv_handle_t *)&iterations->before_poll);
}

void
iterations_stop(iterations_t *iterations)
{
  uv_close((uv_handle_t *)&iterations->after_poll, NULL);
  uv_close((uv_handle_t *)&iterations->before_poll, NULL);
}
