/* SPDX-License-Identifier: MIT */

/* The driver: the uv_timer_t that wakes the loop for a wheel, and what keeps
 * the loop alive. */

#ifndef UVWHEEL_DRIVER_H
#define UVWHEEL_DRIVER_H

#include "loop.h"

/* Adds the driver and the handle that keeps polls from waiting to the loop. */
void uvwheel__init_driver(uvwheel_t *wheel);

/* Arms the driver for the wheel's next tick, unless it is armed for that or an
 * earlier time, a batch is running, or the wheel is polling already. */
void uvwheel__arm(uvwheel_t *wheel);

/* Ends polling, and arms the driver unless the wheel is empty. */
void uvwheel__rearm(uvwheel_t *wheel);

/* The wheel is empty: nothing wakes the loop for it. */
void uvwheel__disarm(uvwheel_t *wheel);

/* Others have closed some of the wheel's handles. Closes the driver, and with
 * it the wheel, and lets polls wait again. */
void uvwheel__abandon(uvwheel_t *wheel);

/* Sets whether the wheel's handles keep the loop alive. */
void uvwheel__update_ref(uvwheel_t *wheel);

/* The callbacks of the two handles, by which uvwheel_owns_handle knows them. */
void uvwheel__on_due(uv_timer_t *driver);
void uvwheel__on_no_wait(uv_idle_t *no_wait);

#endif /* UVWHEEL_DRIVER_H */
