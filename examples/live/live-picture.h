/* SPDX-License-Identifier: MIT */

/* How many timers the slots of a wheel hold, for the live page.
 *
 * The timers of a slot have to be counted one by one, in cold memory. Some
 * thousands take no time; a million would stall the loop. So the slots are
 * counted in small steps, which never take more than their share of the time.
 * A count that the page shows may then be some seconds old, and the page says
 * so.
 */

#ifndef EXAMPLES_LIVE_PICTURE_H
#define EXAMPLES_LIVE_PICTURE_H

#include <stdint.h>

#include <uvwheel.h>

#define LIVE_INTERVAL_MS 250
#define LIVE_SHARE 100     /* one part in so many of the time */
#define LIVE_MAX_CELLS 512 /* more slots are shown in groups  */

typedef struct live_picture_s {
  uvwheel_t *wheel;
  uint64_t cell_count;
  uint64_t slots_per_cell;
  uint64_t cells[LIVE_MAX_CELLS]; /* timers in each, when last counted */
  uint64_t next_cell;             /* to count                          */
  uint64_t counted_ns;            /* when the last step was taken      */
  int64_t allowance_ns;           /* for the next step                 */
  uint64_t first_ns;              /* when the first cell was counted   */
  uint64_t all_ns;                /* how long all cells took last time */
} live_picture_t;

/* Begins anew, with nothing counted. */
void live_picture_begin(live_picture_t *picture, uvwheel_t *wheel);

/* Takes the next step. */
void live_picture_count(live_picture_t *picture);

/* How old the oldest count is, at most. */
uint64_t live_picture_age_ms(const live_picture_t *picture);

#endif /* EXAMPLES_LIVE_PICTURE_H */
