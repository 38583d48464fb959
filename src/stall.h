/* SPDX-License-Identifier: MIT */

/* Stalls: time in which the loop was deaf. stall.c says what becomes of it. */

#ifndef UVWHEEL_STALL_H
#define UVWHEEL_STALL_H

#include "loop.h"

/* The account is full. */
void uvwheel__init_stalls(uvwheel_t *wheel);

/* The loop's time up to which it has listened or slept, or is excused. A poll
 * may sleep until the driver is due, but not while the wheel is polling. Beside
 * that, time passes in callbacks or while the process is frozen. */
static inline uint64_t
heard_until(const uvwheel_t *wheel)
{
  uint64_t slept_ms = loop_now(wheel);

  if (wheel->flags & POLLING)
    return wheel->heard_ms;
  if ((wheel->flags & ARMED) && wheel->armed_for_ms < slept_ms)
    slept_ms = wheel->armed_for_ms;
  return slept_ms > wheel->heard_ms ? slept_ms : wheel->heard_ms;
}

/* The loop was deaf for longer than stall_ms. Sets the wheel's clock back,
 * unless the account is empty. */
void uvwheel__count_stall(uvwheel_t *wheel, uint64_t deaf_ms);

#endif /* UVWHEEL_STALL_H */
