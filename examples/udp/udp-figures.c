/* SPDX-License-Identifier: MIT */

#include "udp-figures.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- Sessions ----------------------------------------------------------- */

void
udp_figures_created(udp_figures_t *figures)
{
  figures->created++;
  figures->sessions++;
  if (figures->peak < figures->sessions)
    figures->peak = figures->sessions;
}

void
udp_figures_expired(udp_figures_t *figures, uint64_t idle_ns,
                    uint64_t timeout_ns)
{
  figures->expired++;
  if (idle_ns < timeout_ns) {
    figures->early++;
    return;
  }
  uint64_t late_ns = idle_ns - timeout_ns;
  uint64_t step = late_ns / LATENESS_STEP_NS;
  if (figures->lateness_max_ns < late_ns)
    figures->lateness_max_ns = late_ns;
  figures->lateness[step < LATENESS_STEPS ? step : LATENESS_STEPS - 1]++;
}

/* ---- Report ------------------------------------------------------------- */

static double
ms(uint64_t ns)
{
  return (double)ns / 1e6;
}

/* How late at most was this share of the sessions that expired? */
static double
lateness_ms(const udp_figures_t *figures, unsigned percent)
{
  uint64_t all = figures->expired - figures->early;
  uint64_t seen = 0;

  for (unsigned step = 0; step < LATENESS_STEPS - 1; step++) {
    seen += figures->lateness[step];
    if (seen * 100 >= all * percent) {
      uint64_t end_ns = (step + 1) * LATENESS_STEP_NS;
      return ms(end_ns < figures->lateness_max_ns ? end_ns
                                                  : figures->lateness_max_ns);
    }
  }
  return ms(figures->lateness_max_ns);
}

/* What a session has made the process grow by, when there were most. */
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
         " unsent=%" PRIu64 " expired=%" PRIu64 " expired_early=%" PRIu64,
         title, figures->timer, figures->sessions, figures->peak,
         figures->created, figures->refreshes, figures->questions,
         figures->refused, figures->unsent, figures->expired, figures->early);
  printf(" lateness_p50_ms=%.1f lateness_p99_ms=%.1f lateness_max_ms=%.1f"
         " longest_iteration_ms=%.1f cpu_s=%.3f",
         lateness_ms(figures, 50), lateness_ms(figures, 99),
         ms(figures->lateness_max_ns), ms(figures->iterations.longest_ns),
         usage.cpu_s);
  printf(" timer_bytes=%zu session_bytes=%zu session_rss=%" PRIu64
         " rss_kib=%" PRIu64 " max_rss_kib=%" PRIu64 "\n",
         figures->timer_bytes, figures->session_bytes,
         session_rss(figures, &usage), usage.rss_kib, usage.max_rss_kib);
  fflush(stdout);
}
