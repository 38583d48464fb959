/* SPDX-License-Identifier: MIT */

/* Turns: what wakes the loop for a wheel and fires its timers. turn.c explains
 * them. */

#ifndef UVWHEEL_TURN_H
#define UVWHEEL_TURN_H

#include "loop.h"

/* Adds the wheel's handles to the loop: the driver, which wakes it; one that
 * keeps polls from waiting; and one that is called after each poll. */
void uvwheel__init_turns(uvwheel_t *wheel);

/* Arms the driver for the wheel's next tick, unless it is armed for that or an
 * earlier time, or the wheel is polling already. Disarms it if the wheel is
 * empty. */
void uvwheel__arm(uvwheel_t *wheel);

/* Nothing wakes the loop for the wheel any more, and polls wait again. */
void uvwheel__disarm(uvwheel_t *wheel);

/* Sets whether the wheel's handles keep the loop alive. */
void uvwheel__update_ref(uvwheel_t *wheel);

/* The handles' callbacks, by which uvwheel_owns_handle knows them. */
void uvwheel__on_due(uv_timer_t *driver);
void uvwheel__on_no_wait(uv_idle_t *no_wait);
void uvwheel__on_after_poll(uv_check_t *after_poll);

#endif /* UVWHEEL_TURN_H */
