/* SPDX-License-Identifier: MIT */

/* Turns: what fires the timers of a wheel. turn.c explains them. */

#ifndef UVWHEEL_TURN_H
#define UVWHEEL_TURN_H

#include "loop.h"

/* Adds the handle that is called after each poll to the loop. */
void uvwheel__init_turns(uvwheel_t *wheel);

/* That handle's callback, by which uvwheel_owns_handle knows it. */
void uvwheel__on_after_poll(uv_check_t *after_poll);

#endif /* UVWHEEL_TURN_H */
