/* SPDX-License-Identifier: MIT */

/* What the binding asks of a -Dchecks=true build; nothing in others. */

#ifndef UVWHEEL_CHECKS_H
#define UVWHEEL_CHECKS_H

#include "uvwheel.h"

#ifdef UVWHEEL_CHECKS

/* The loop runs on this thread. */
void uvwheel__adopt_thread(uvwheel_t *wheel);

/* Aborts unless the wheel is used on the thread on which its loop runs or,
 * before the loop has run, on the one that used it first. */
void uvwheel__check_thread(uvwheel_t *wheel, const uvwheel_timer_t *timer);

/* Aborts if the memory holds an active timer of any wheel. */
void uvwheel__check_idle(const uvwheel_timer_t *timer);

/* The wheel was initialised; it is closed. */
void uvwheel__check_in(uvwheel_t *wheel);
void uvwheel__check_out(uvwheel_t *wheel);

/* Aborts if the request is queued; from now on it is. */
void uvwheel__check_queued(const uvwheel_mailbox_t *mailbox,
                           uvwheel_post_t *post);

/* It is not any more. */
void uvwheel__check_unqueued(uvwheel_post_t *post);

#else

#define uvwheel__adopt_thread(wheel) ((void)0)
#define uvwheel__check_thread(wheel, timer) ((void)0)
#define uvwheel__check_idle(timer) ((void)0)
#define uvwheel__check_in(wheel) ((void)0)
#define uvwheel__check_out(wheel) ((void)0)
#define uvwheel__check_queued(mailbox, post) ((void)0)
#define uvwheel__check_unqueued(post) ((void)0)

#endif

#endif /* UVWHEEL_CHECKS_H */
