/* SPDX-License-Identifier: MIT */

/* What the binding knows of the wheel's loop, and the wheel's clock. */

#ifndef UVWHEEL_LOOP_H
#define UVWHEEL_LOOP_H

#include "uvwheel.h"

#include <stdbool.h>
#include <stddef.h>

#include "misuse.h"

/* uvwheel_t.flags */
#define CLOSING 1u     /* uvwheel_close was called        */
#define UNREF 2u       /* uvwheel_unref was called        */
#define HAS_MAILBOX 4u /* uvwheel_open_mailbox was called */
/* The driver was started, and not called since. libuv does not say: since 1.48
 * a timer that is due in the same pass as another one is inactive already. */
#define ARMED 8u
/* Timers are due, and the wheel waits until the loop has polled. */
#define POLLING 16u
#define FIRES_SOONEST 32u /* uvwheel_fire_soonest calls back */

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Every start and refresh reads the loop's time and whether the driver is
 * closing, from fields that uv.h declares as private, though with a fixed
 * place: with calls to uv_now and uv_is_closing a refresh takes 27 ns instead
 * of 19, a start 56 instead of 47 (random timers of a million). uvwheel_init
 * compares the fields with the calls, and -Dprivate_fields=false builds with
 * the calls. */
#ifndef UVWHEEL_PUBLIC_CALLS

/* libuv's own, in every 1.x: uv_handle_t.flags */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u

static inline uint64_t
loop_now(const uvwheel_t *wheel)
{
  return wheel->loop->time;
}

static inline bool
is_closing(const uvwheel_t *wheel)
{
  return wheel->driver.flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED);
}

#else

static inline uint64_t
loop_now(const uvwheel_t *wheel)
{
  return uv_now(wheel->loop);
}

static inline bool
is_closing(const uvwheel_t *wheel)
{
  return uv_is_closing((const uv_handle_t *)&wheel->driver);
}

#endif

/* Is this an initialised wheel? Then this has to be its loop's thread. */
static inline bool
is_wheel(const uvwheel_t *wheel)
{
  if (wheel == NULL || wheel->loop == NULL)
    return false;
  uvwheel__expect_thread(wheel, NULL);
  return true;
}

/* The same, and it still has its slots: its close is not finished. */
static inline bool
has_slots(const uvwheel_t *wheel)
{
  return is_wheel(wheel) && wheel->core.slots != NULL;
}

/* The wheel's clock. */
static inline uint64_t
now_of(const uvwheel_t *wheel)
{
  return loop_now(wheel) - wheel->set_back_ms;
}

/* The same for queries: 0 if the loop's clock has stepped back too far, and
 * once the wheel is closing, as then there may be no loop. */
static inline uint64_t
reported_now(const uvwheel_t *wheel)
{
  if (is_closing(wheel) || loop_now(wheel) < wheel->set_back_ms)
    return 0;
  return now_of(wheel);
}

/* Keeps the wheel's clock from wrapping below zero: if the loop's clock has
 * stepped back that far, the wheel's begins again at zero. */
static inline void
follow_clock(uvwheel_t *wheel)
{
  if (loop_now(wheel) < wheel->set_back_ms)
    wheel->set_back_ms = loop_now(wheel);
}

/* Converts a time of the loop to the wheel's clock, less what the loop's clock
 * may be behind a stopwatch: timers that are due before have waited for their
 * whole timeout. */
static inline uint64_t
passed_by(const uvwheel_t *wheel, uint64_t loop_ms)
{
  uint64_t behind_ms = wheel->set_back_ms + wheel->lag_ms;

  return loop_ms > behind_ms ? loop_ms - behind_ms : 0;
}

/* Due times saturate: UINT64_MAX is never reached. */
static inline uint64_t
add_ms(uint64_t now_ms, uint64_t delay_ms)
{
  return delay_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + delay_ms;
}

#endif /* UVWHEEL_LOOP_H */
