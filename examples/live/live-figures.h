/* SPDX-License-Identifier: MIT */

/* The figures that the live page and /metrics report, of wheels in one table
 * and of a server in its own: both go through them, and so do their tests. To
 * report one more, add a row.
 *
 * A figure of a wheel has one name everywhere, mostly the field of
 * uvwheel_stats_t without its unit. Frames have it as it is, the page as words,
 * metrics between "uvwheel_" and the unit. */

#ifndef EXAMPLES_LIVE_FIGURES_H
#define EXAMPLES_LIVE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uvwheel.h>

/* A maximum since the start is a gauge that is never bad: once it is high it
 * says nothing new. A count does. */
typedef enum { LIVE_GAUGE, LIVE_COUNTER } live_type_t;

/* Where the page shows a figure; /metrics has all of them. Of what a server
 * counts itself a gauge is a tile. The others, and those that are shown
 * nowhere, are in the verdict if they are bad. */
typedef enum {
  LIVE_NOWHERE,
  LIVE_TILE,
  LIVE_FIRST,
  LIVE_HEALTH,
  LIVE_SERVER,
  LIVE_LATENESS
} live_place_t;

/* A number is so many parts of a second; LIVE_ONE: it is a count. */
typedef enum { LIVE_ONE = 1, LIVE_MS = 1000, LIVE_US = 1000000 } live_unit_t;

/* A uint64_t. One of a server's is uvwheel_server_NAME in /metrics. Those of
 * one name, with reasons, follow each other; the first has the help of all. */
typedef struct live_figure_s {
  size_t offset; /* in live_snapshot_t, or in live_wheel_t's server */
  live_place_t place;
  live_type_t type;
  live_unit_t unit;
  const char *name;
  const char *help;   /* what it is, without ", \ or a newline     */
  const char *worry;  /* "Bad when ...", or NULL: never            */
  uint64_t limit;     /* bad is more, for a counter its growth in a second */
  const char *reason; /* a label, or NULL: there is none */
} live_figure_t;

#define LIVE_FIGURES 22

extern const live_figure_t live_figures[LIVE_FIGURES];

#define LIVE_MAX_COUNTS 16
#define LIVE_ALL (LIVE_FIGURES + LIVE_MAX_COUNTS)

/* A wheel to report. */
typedef struct live_wheel_s {
  const char *name;
  uvwheel_t *wheel;
  const uint64_t *refreshes; /* the server's own count: see live_figures */

  /* Read on the wheel's loop. May be NULL and 0. The table has to be the same
   * for all wheels, or that of the first one alone. */
  const void *server;
  const live_figure_t *counts;
  size_t count_count; /* at most LIVE_MAX_COUNTS */
} live_wheel_t;

/* All that is known of a wheel at one moment. */
typedef struct live_snapshot_s {
  uint64_t unanswered_ms; /* for the page to set */
  uint64_t now_ms;        /* by the clock of the wheel's loop */
  uint64_t refreshed;
  uint64_t examined_too_early;
  uint64_t counts[LIVE_MAX_COUNTS];
  uvwheel_options_t options;
  uvwheel_stats_t stats;
} live_snapshot_t;

/* The server's own numbers alone. */
void live_counts_take(live_snapshot_t *snapshot, const live_wheel_t *wheel);

/* All, on the thread of the wheel's loop. */
void live_snapshot_take(live_snapshot_t *snapshot, const live_wheel_t *wheel);

/* All figures: those of a wheel, then its server's own. NULL: no more. */
const live_figure_t *live_figure(const live_wheel_t *wheel, size_t i);

/* Where such a figure is in a snapshot. */
size_t live_offset(size_t i);

/* ---- Trouble ------------------------------------------------------------ */

#define LIVE_JUDGE_MS 1000
#define LIVE_RECENT_MS 300000 /* so long the page tells of trouble */

/* When a wheel was last in trouble, by the page's clock; 0: never. The server
 * judges each wheel once a second, whether or not somebody looks: so a page
 * that is opened after a stall tells of it. */
typedef struct live_judged_s {
  live_snapshot_t last; /* that was judged */
  uint64_t bad_ms[LIVE_ALL];
  uint64_t worst[LIVE_ALL]; /* of a gauge, in this trouble */
  uint64_t late_ms;         /* when timers fired late      */
  uint64_t stall_ms;        /* how long the last stall was */
} live_judged_t;

void live_judge(live_judged_t *judged, const live_wheel_t *wheel,
                const live_snapshot_t *now, uint64_t page_ms);

#endif /* EXAMPLES_LIVE_FIGURES_H */
