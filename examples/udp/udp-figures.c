/* SPDX-License-Identifier: MIT */

#include "udp-figures.h"

#include <inttypes.h>
#include <stdio.h>

void
udp_figures_created(udp_figures_t *figures)
{
  figures->created++;
  figures->sessions++;
  if (figures->peak < figures->sessions)
    figures->peak = figures->sessions;
}

/* The bytes by which a session made the process grow, when there were most. */
static uint64_t
session_rss(const udp_figures_t *figures, const usage_t *usage)
{
  if (figures->peak == 0 || usage->max_rss_kib < figures->first_rss_kib)
    return 0;
  return (usage->max_rss_kib - figures->first_rss_kib) * 1024 / figures->peak;
}

void
udp_figures_print(const udp_figures_t *figures, const char *title)
{
  usage_t usage = usage_of_process();

  printf("%s timer=%s sessions=%" PRIu64 " peak=%" PRIu64 " created=%" PRIu64
         " refreshes=%" PRIu64 " questions=%" PRIu64 " refused=%" PRIu64
         " unsent=%" PRIu64 " expired=%" PRIu64,
         title, figures->timer, figures->sessions, figures->peak,
         figures->created, figures->refreshes, figures->questions,
         figures->refused, figures->unsent, figures->expired);
  printf(" longest_iteration_ms=%.1f cpu_s=%.3f timer_bytes=%zu"
         " session_rss=%" PRIu64 " rss_kib=%" PRIu64 " max_rss_kib=%" PRIu64
         "\n",
         (double)figures->iterations.longest_ns / 1e6, usage.cpu_s,
         figures->timer_bytes, session_rss(figures, &usage), usage.rss_kib,
         usage.max_rss_kib);
  fflush(stdout);
}
