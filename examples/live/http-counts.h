/* SPDX-License-Identifier: MIT */

/* What /metrics tells of http-server.c. */

#ifndef EXAMPLES_HTTP_COUNTS_H
#define EXAMPLES_HTTP_COUNTS_H

#include <stddef.h>

#include "server-counts.h"

/* The stages of a connection, which is read in EVENTS and from REST on. From
 * ANSWER on they are also why it is closed: too slow or, in END and BAD, done.
 */
enum { WORK, EVENTS, ANSWER, REST, HEAD, BODY, END, BAD, STAGES };

/* Other reasons. The last four: why a newcomer is turned away. */
enum { SHED = STAGES, DRAINED, GONE, NO_DESCRIPTOR, NO_MEMORY, NO_PLACE };
enum { NOT_ACCEPTED = NO_PLACE + 1, REASONS };

static const char *const http_reasons[REASONS] = {
    [ANSWER] = "stuck",
    [REST] = "idle",
    [HEAD] = "head",
    [BODY] = "body",
    [END] = "done",
    [BAD] = "bad",
    [SHED] = "shed",
    [DRAINED] = "drained",
    [GONE] = "gone",
    [NO_DESCRIPTOR] = "descriptors",
    [NO_MEMORY] = "memory",
    [NO_PLACE] = "full",
    [NOT_ACCEPTED] = "accept",
};

/* The wheels of its timers. The first one has the figures, which are of all. */
enum { PLACES, BUSY, NEWCOMERS, WHEELS };

typedef struct http_figures_s {
  uint64_t open, accepted, closed[REASONS], lines_lost, refreshes[WHEELS];
} http_figures_t;

static inline void http_show(live_wheel_t shown[WHEELS], uvwheel_t *wheels,
                             const http_figures_t *figures) {
#define IN_FIGURES(field) offsetof(http_figures_t, field)
  enum { COUNTS = 3 + REASONS - ANSWER };
  static const char *const names[] = {"places", "busy", "newcomers"};
  static live_figure_t rows[COUNTS] = {
      COUNT_OPEN(IN_FIGURES(open)),
      COUNT_ACCEPTED(IN_FIGURES(accepted)),
      COUNT_LINES_LOST(IN_FIGURES(lines_lost)),
  };

  for (size_t i = ANSWER; i < REASONS; i++) {
    size_t offset = IN_FIGURES(closed) + i * sizeof(uint64_t);
    const char *help = "Connections that the server closed.";
    rows[COUNTS - REASONS + i] =
        i < NO_DESCRIPTOR
            ? (live_figure_t)COUNT_CLOSED(offset, help, http_reasons[i])
            : (live_figure_t)COUNT_TURNED_AWAY(offset, http_reasons[i]);
  }
  for (int i = 0; i < WHEELS; i++)
    shown[i] = (live_wheel_t){names[i], &wheels[i], &figures->refreshes[i],
                              figures,  rows,       i == PLACES ? COUNTS : 0};
}

#endif /* EXAMPLES_HTTP_COUNTS_H */
