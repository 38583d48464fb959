/* SPDX-License-Identifier: MIT */

/* What /metrics tells of http-server.c. */

#ifndef EXAMPLES_HTTP_COUNTS_H
#define EXAMPLES_HTTP_COUNTS_H

#include <stddef.h>

#include "server-counts.h"

/* The stages of a connection, which is read from REST on. From ANSWER on they
 * are also why it is closed: it was too slow. */
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

typedef struct http_figures_s {
  uint64_t open, accepted, closed[REASONS], lines_lost, refreshes;
} http_figures_t;

enum { HTTP_COUNTS = 3 + REASONS - ANSWER };

/* They are the server's: one of its wheels has them. */
static inline void http_count(live_figure_t rows[HTTP_COUNTS]) {
#define IN_FIGURES(field) offsetof(http_figures_t, field)
  *rows++ = (live_figure_t)COUNT_OPEN(IN_FIGURES(open));
  *rows++ = (live_figure_t)COUNT_ACCEPTED(IN_FIGURES(accepted));
  *rows++ = (live_figure_t)COUNT_LINES_LOST(IN_FIGURES(lines_lost));
  for (size_t i = ANSWER; i < REASONS; i++) {
    size_t offset = IN_FIGURES(closed) + i * sizeof(uint64_t);
    const char *name = http_reasons[i];
    if (i < NO_DESCRIPTOR)
      *rows++ = (live_figure_t)COUNT_CLOSED(
          offset, "Connections that the server closed.", name);
    else
      *rows++ = (live_figure_t)COUNT_TURNED_AWAY(offset, name);
  }
}

#endif /* EXAMPLES_HTTP_COUNTS_H */
