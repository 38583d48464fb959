/* SPDX-License-Identifier: MIT */

/* What /metrics tells of echo.c. */

#ifndef EXAMPLES_ECHO_COUNTS_H
#define EXAMPLES_ECHO_COUNTS_H

#include <stddef.h>

#include "../echo.h"
#include "server-counts.h"

#define IN_FIGURES(field) offsetof(echo_figures_t, field)
#define TURNED_AWAY(why, reason) \
  COUNT_TURNED_AWAY(IN_FIGURES(turned_away[why]), reason)
#define CLOSED(field, reason)                                                \
  COUNT_CLOSED(IN_FIGURES(field),                                            \
               "Connections that the server closed because they were idle, " \
               "or idle longest, to make room (shed).",                      \
               reason)

static const live_figure_t echo_counts[] = {
    COUNT_OPEN(IN_FIGURES(open)),
    COUNT_ACCEPTED(IN_FIGURES(accepted)),
    TURNED_AWAY(ECHO_NO_DESCRIPTOR, "descriptors"),
    TURNED_AWAY(ECHO_NO_MEMORY, "memory"),
    TURNED_AWAY(ECHO_FULL, "full"),
    TURNED_AWAY(ECHO_NOT_ACCEPTED, "accept"),
    CLOSED(idle_closes, "idle"),
    CLOSED(shed, "shed"),
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
