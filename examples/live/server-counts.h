/* SPDX-License-Identifier: MIT */

/* Rows of what servers of connections count alike, for the tables of their own
 * numbers. Each takes the offset of its number. */

#ifndef EXAMPLES_SERVER_COUNTS_H
#define EXAMPLES_SERVER_COUNTS_H

#include "live-figures.h"

#define COUNT_OPEN(offset)                               \
  {                                                      \
    (offset), LIVE_SERVER, LIVE_GAUGE, LIVE_ONE, "open", \
        "Connections that are open now.", NULL, 0, NULL  \
  }
#define COUNT_ACCEPTED(offset)                                               \
  {                                                                          \
    (offset), LIVE_SERVER, LIVE_COUNTER, LIVE_ONE, "accepted",               \
        "Connections that were accepted and not turned away.", NULL, 0, NULL \
  }
#define COUNT_TURNED_AWAY(offset, reason)                                   \
  {                                                                         \
    (offset), LIVE_SERVER, LIVE_COUNTER, LIVE_ONE, "turned_away",           \
        "Newcomers that were turned away, for want of descriptors, memory " \
        "or places; accept: errors of the system, not newcomers.",          \
        "Bad when it grows: the server had no room for newcomers.", 0,      \
        (reason)                                                            \
  }
#define COUNT_LINES_LOST(offset)                                              \
  {                                                                           \
    (offset), LIVE_SERVER, LIVE_COUNTER, LIVE_ONE, "lines_lost",              \
        "Lines of the log that were lost: its reader did not read.", NULL, 0, \
        NULL                                                                  \
  }
#define COUNT_CLOSED(offset, help, reason)                                    \
  {                                                                           \
    (offset), LIVE_SERVER, LIVE_COUNTER, LIVE_ONE, "closed", (help), NULL, 0, \
        (reason)                                                              \
  }

#endif /* EXAMPLES_SERVER_COUNTS_H */
