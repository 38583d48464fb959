/* SPDX-License-Identifier: MIT */

/* What /metrics tells of echo.c. */

#ifndef EXAMPLES_ECHO_COUNTS_H
#define EXAMPLES_ECHO_COUNTS_H

#include <stddef.h>

#include "../echo.h"
#include "live-figures.h"

#define FIGURE(field, type) \
  offsetof(echo_figures_t, field), LIVE_SERVER, type, LIVE_ONE
#define TURNED_AWAY(reason)                                                  \
  FIGURE(turned_away[reason], LIVE_COUNTER), "turned_away",                  \
      "Newcomers that were turned away, for want of descriptors, memory or " \
      "places; accept: errors of the system, not newcomers.",                \
      "Bad when it grows: the server had no room for newcomers.", 0
#define CLOSED(reason)                                                      \
  FIGURE(reason, LIVE_COUNTER), "closed",                                   \
      "Connections that the server closed because they were idle, or idle " \
      "longest, to make room (shed).",                                      \
      NULL, 0

static const live_figure_t echo_counts[] = {
    {FIGURE(open, LIVE_GAUGE), "open", "Connections that are open now.", NULL,
     0, NULL},
    {FIGURE(accepted, LIVE_COUNTER), "accepted",
     "Connections that were accepted and not turned away.", NULL, 0, NULL},
    {TURNED_AWAY(ECHO_NO_DESCRIPTOR), "descriptors"},
    {TURNED_AWAY(ECHO_NO_MEMORY), "memory"},
    {TURNED_AWAY(ECHO_FULL), "full"},
    {TURNED_AWAY(ECHO_NOT_ACCEPTED), "accept"},
    {CLOSED(idle_closes), "idle"},
    {CLOSED(shed), "shed"},
};

static inline live_wheel_t echo_shown(const char *name, echo_t *echo) {
  return (live_wheel_t){
      .name = name,
      .wheel = &echo->wheel,
      .refreshes = &echo->figures.refreshes,
      .server = &echo->figures,
      .counts = echo_counts,
      .count_count = sizeof(echo_counts) / sizeof(echo_counts[0]),
  };
}

/* Where it sheds. What the server counts is told with the other wheel. */
static inline live_wheel_t newcomers_shown(echo_t *echo) {
  static const echo_figures_t none;
  live_wheel_t shown = echo_shown("newcomers", echo);

  shown.wheel = &echo->newcomers;
  shown.refreshes = &none.refreshes;
  shown.server = &none;
  return shown;
}

#endif /* EXAMPLES_ECHO_COUNTS_H */
