/* SPDX-License-Identifier: MIT */

#include "usage.h"

#include <stddef.h>

#include <uv.h>

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
