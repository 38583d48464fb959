/* SPDX-License-Identifier: MIT */

/* Timers, as those that fire them see them. */

#ifndef UVWHEEL_TIMER_H
#define UVWHEEL_TIMER_H

#include "loop.h"

/* uvwheel_timer_t.home is the wheel's address, and four flags in bits in which
 * a wheel's address has zeros, as malloc aligns:
 *
 *   63 ...                                 4    3      2     1 0
 *   |  address of the uvwheel_t            | idle | unref | missed |
 *
 * Where malloc aligns to 8 bytes, addresses have 32 bits, and the idle flag
 * stands above them. A closed timer has the idle flag alone. */
#define HOME_MISSED UINT64_C(3)
#define HOME_UNREF UINT64_C(4)
#define HOME_IDLE (sizeof(void *) == 8 ? UINT64_C(8) : UINT64_C(1) << 32)
#define HOME_FLAGS (HOME_MISSED | HOME_UNREF | HOME_IDLE)

/* The wheel has just handed out a timer's entry, in a turn that fires what is
 * due by limit_ms: arms it again if it repeats, and calls its callback. */
void uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry, uint64_t limit_ms);

#endif /* UVWHEEL_TIMER_H */
