/* SPDX-License-Identifier: MIT */

/* What /metrics tells of echo.c. */

#ifndef EXAMPLES_ECHO_COUNTS_H
#define EXAMPLES_ECHO_COUNTS_H

#include <stddef.h>

#include "../echo.h"
#include "live-figures.h"

#define TURNED_AWAY(why) offsetof(echo_figures_t, turned_away[why])

static const live_count_t echo_counts[] = {
    {offsetof(echo_figures_t, open), LIVE_GAUGE, "open", NULL,
     "Connections that are open now."},
    {offsetof(echo_figures_t, accepted), LIVE_COUNTER, "accepted", NULL,
     "Connections that were accepted and have been served."},
    {TURNED_AWAY(ECHO_NO_DESCRIPTOR), LIVE_COUNTER, "turned_away",
     "descriptors",
     "Newcomers that were turned away, for lack of descriptors, memory or a "
     "place; accept: errors of the system, not newcomers."},
    {TURNED_AWAY(ECHO_NO_MEMORY), LIVE_COUNTER, "turned_away", "memory", NULL},
    {TURNED_AWAY(ECHO_FULL), LIVE_COUNTER, "turned_away", "full", NULL},
    {TURNED_AWAY(ECHO_NOT_ACCEPTED), LIVE_COUNTER, "turned_away", "accept",
     NULL},
    {offsetof(echo_figures_t, idle_closes), LIVE_COUNTER, "closed", "idle",
     "Connections that the server closed because they were idle, or idle "
     "longest, to make room (shed)."},
    {offsetof(echo_figures_t, shed), LIVE_COUNTER, "closed", "shed", NULL},
};

#endif /* EXAMPLES_ECHO_COUNTS_H */
