/* SPDX-License-Identifier: MIT */

/* What uvwheel.c (the wheel and its driver), timer.c and mailbox.c share, and
 * what they ask of checks.c. */

#ifndef UVWHEEL_BINDING_H
#define UVWHEEL_BINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "core.h"
#include "uvwheel.h"

/* uvwheel_t.flags */
#define CLOSING 1u /* uvwheel_close was called */
#define UNREF 2u   /* uvwheel_unref was called */
#define IN_TURN 4u /* the driver's callback is running */

/* libuv's own, in every 1.x: uv_handle_t.flags. */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u

/* uvwheel_timer_t.home is the wheel's address, and four bits in which a wheel's
 * address has zeros, as malloc aligns. Where it does so to 8 bytes, addresses
 * have 32 bits, and one flag stands above them. */
#define HOME_IDLE (sizeof(void *) == 8 ? UINT64_C(8) : UINT64_C(1) << 32)
#define HOME_FLAGS (UINT64_C(7) | HOME_IDLE)

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* The two things that every start and refresh asks libuv. They are read from
 * fields that uv.h declares as private, though with a fixed place: with calls
 * to uv_now and uv_is_closing a refresh takes 27 ns instead of 19, a start 56
 * instead of 47 (random ones of a million). */
static inline uint64_t
now_of(const uvwheel_t *wheel)
{
  return wheel->loop->time;
}

static inline bool
is_closing(const uvwheel_t *wheel)
{
  return wheel->driver.flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED);
}

/* Due times saturate: UINT64_MAX is never reached. */
static inline uint64_t
add_ms(uint64_t now_ms, uint64_t delay_ms)
{
  return delay_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + delay_ms;
}

/* Arms the driver for the next tick of interest, unless in a turn. */
void uvwheel__arm(uvwheel_t *wheel);

/* Decides anew whether the driver and the mailbox keep the loop alive. */
void uvwheel__update_ref(uvwheel_t *wheel);

/* Takes the entry of an active timer out of the wheel. */
void uvwheel__make_idle(uvwheel_t *wheel, uvwheel_entry_t *entry);

/* A timer's entry has just been handed out by the wheel: counts how late it is,
 * arms it again if it repeats, and calls its callback. */
void uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry);

/* From now on nobody posts any more. */
void uvwheel__mailbox_close(uvwheel_mailbox_t *mailbox);

/* Completes what was never carried out. */
void uvwheel__mailbox_cancel(uvwheel_mailbox_t *mailbox);

/* ---- Checks: what a -Dchecks=true build adds ---------------------------- */

#ifdef UVWHEEL_CHECKS

/* The loop runs on this thread. */
void uvwheel__adopt_thread(uvwheel_t *wheel);

/* Aborts unless the wheel is used on the thread on which its loop runs or,
 * before the loop has run, on the one that used it first. */
void uvwheel__check_thread(uvwheel_t *wheel, const uvwheel_timer_t *timer);

/* Aborts if the memory holds an active timer of any wheel. */
void uvwheel__check_idle(const uvwheel_timer_t *timer);

/* The wheel was initialised; aborts if it had not been closed. It is closed. */
void uvwheel__check_in(uvwheel_t *wheel);
void uvwheel__check_out(uvwheel_t *wheel);

/* Aborts if the request is queued; from now on it is. It is not any more. */
void uvwheel__check_queued(const uvwheel_mailbox_t *mailbox,
                           uvwheel_post_t *post);
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

#endif /* UVWHEEL_BINDING_H */
