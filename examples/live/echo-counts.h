/* SPDX-License-Identifier: MIT */

/* What /metrics tells of echo.c. */

#ifndef EXAMPLES_ECHO_COUNTS_H
#define EXAMPLES_ECHO_COUNTS_H

#include <stddef.h>

#include "../echo.h"
#include "live-figures.h"

#define COUNT(field) offsetof(echo_figures_t, field), LIVE_COUNTER
#define HELP_TURNED_AWAY                                                 \
  "Newcomers that were turned away, for want of descriptors, memory or " \
  "places; accept: errors of the system, not newcomers.",                \
      "Bad when it grows: the server had no room for newcomers."
#define HELP_CLOSED                                                     \
  "Connections that the server closed because they were idle, or idle " \
  "longest, to make room (shed).",                                      \
      NULL

static const live_count_t echo_counts[] = {
    {offsetof(echo_figures_t, open), LIVE_GAUGE, "open", NULL,
     "Connections that are open now.", NULL},
    {COUNT(accepted), "accepted", NULL,
     "Connections that were accepted and not turned away.", NULL},
    {COUNT(turned_away[ECHO_NO_DESCRIPTOR]), "turned_away", "descriptors",
     HELP_TURNED_AWAY},
    {COUNT(turned_away[ECHO_NO_MEMORY]), "turned_away", "memory",
     HELP_TURNED_AWAY},
    {COUNT(turned_away[ECHO_FULL]), "turned_away", "full", HELP_TURNED_AWAY},
    {COUNT(turned_away[ECHO_NOT_ACCEPTED]), "turned_away", "accept",
     HELP_TURNED_AWAY},
    {COUNT(idle_closes), "closed", "idle", HELP_CLOSED},
    {COUNT(shed), "closed", "shed", HELP_CLOSED},
};

#endif /* EXAMPLES_ECHO_COUNTS_H */
