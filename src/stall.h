/* SPDX-License-Identifier: MIT */

/* Stalls: time in which the loop was deaf. */

#ifndef UVWHEEL_STALL_H
#define UVWHEEL_STALL_H

#include "loop.h"

/* The account is full. */
void uvwheel__init_stalls(uvwheel_t *wheel);

/* The time now, on the loop's clock, in ms: read, not what the loop cached, but
 * perhaps some ms old. */
uint64_t uvwheel__read_clock(void);

/* The loop's time up to which it has listened, or is excused. */
uint64_t uvwheel__heard_until(const uvwheel_t *wheel);

/* The wheel's own callbacks have taken that long, which is no stall. */
void uvwheel__excuse(uvwheel_t *wheel, uint64_t took_ms);

/* The loop has not listened between two times of its clock. If that is a stall,
 * the wheel's clock is set back, unless the account is empty. */
void uvwheel__count_deaf(uvwheel_t *wheel, uint64_t from_ms, uint64_t to_ms);

#endif /* UVWHEEL_STALL_H */
