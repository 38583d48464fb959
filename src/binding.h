/* SPDX-License-Identifier: MIT */

/* What uvwheel.c, turn.c, timer.c, mailbox.c and inspect.c share, what they
 * know of libuv, and what they ask of misuse.c. */

#ifndef UVWHEEL_BINDING_H
#define UVWHEEL_BINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "uvwheel.h"

/* uvwheel_t.flags */
#define CLOSING 1u     /* uvwheel_close was called                       */
#define UNREF 2u       /* uvwheel_unref was called                       */
#define IN_TURN 4u     /* callbacks run; who calls them arms the driver  */
#define HAS_MAILBOX 8u /* uvwheel_open_mailbox was called                */
/* The driver was started, and not called since. libuv does not say: since 1.48
 * a timer that is due in the same pass as another one is inactive already. */
#define ARMED 16u
#define FIRES_SOONEST 64u /* uvwheel_fire_soonest calls back */

/* uvwheel_timer_t.home is the wheel's address, and four flags in bits in which
 * a wheel's address has zeros, as malloc aligns:
 *
 *   63 ...                                 4    3      2     1 0
 *   |  address of the uvwheel_t            | idle | unref | missed |
 *
 * Where malloc aligns to 8 bytes, addresses have 32 bits, and the idle flag
 * stands above them. */
#define HOME_MISSED UINT64_C(3)
#define HOME_UNREF UINT64_C(4)
#define HOME_IDLE (sizeof(void *) == 8 ? UINT64_C(8) : UINT64_C(1) << 32)
#define HOME_FLAGS (HOME_MISSED | HOME_UNREF | HOME_IDLE)

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- What is asked of libuv --------------------------------------------- */

/* Every start and refresh asks for the loop's time and whether the driver is
 * closing. They are read from fields that uv.h declares as private, though with
 * a fixed place: with calls to uv_now and uv_is_closing a refresh takes 27 ns
 * instead of 19, a start 56 instead of 47 (random ones of a million).
 * uvwheel_init compares, and -Dprivate_fields=false builds with the calls. */
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

/* Is the close of a handle finished? */
static inline bool
is_closed(const uv_handle_t *handle)
{
  return handle->flags & UV__HANDLE_CLOSED;
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

/* Then the loop does not know it any more, as long as there is a loop. */
bool uvwheel__is_closed(const uv_handle_t *handle);
#define is_closed(handle) uvwheel__is_closed(handle)

#endif

/* The wheel's clock. */
static inline uint64_t
now_of(const uvwheel_t *wheel)
{
  return loop_now(wheel) - wheel->set_back_ms;
}

/* The time on that clock that has passed for sure by a stopwatch, too: timers
 * expire up to it. */
static inline uint64_t
passed_ms(const uvwheel_t *wheel)
{
  uint64_t now_ms = now_of(wheel);

  return now_ms > wheel->lag_ms ? now_ms - wheel->lag_ms : 0;
}

/* Due times saturate: UINT64_MAX is never reached. */
static inline uint64_t
add_ms(uint64_t now_ms, uint64_t delay_ms)
{
  return delay_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + delay_ms;
}

/* ---- What is shared ----------------------------------------------------- */

/* Arms the driver for the next tick of interest, unless in a turn. */
void uvwheel__arm(uvwheel_t *wheel);

/* The wheel is empty. */
void uvwheel__disarm(uvwheel_t *wheel);

/* Decides anew whether the driver and the mailbox keep the loop alive. */
void uvwheel__update_ref(uvwheel_t *wheel);

/* The wheel has just handed out a timer's entry: arms it again if it repeats,
 * and calls its callback. */
void uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry);

/* Callbacks that run in a row, and for how long they may. */
typedef struct turn_s {
  uint64_t begin_ns;
  uint64_t asked_ns; /* when the clock was asked last */
  uint64_t unasked;  /* callbacks since               */
  uint64_t took_us;  /* known at its end              */
  bool is_over;
} turn_t;

void uvwheel__begin_turn(uvwheel_t *wheel, turn_t *turn);

/* One callback more has run. */
void uvwheel__count_callback(uvwheel_t *wheel, turn_t *turn);

void uvwheel__end_turn(uvwheel_t *wheel, turn_t *turn);

void uvwheel__init_mailbox(uvwheel_t *wheel);

/* From now on posts are refused. */
void uvwheel__close_mailbox(uvwheel_t *wheel);

/* Calls back what was posted before. */
void uvwheel__cancel_posts(uvwheel_t *wheel);

/* ---- Misuse: what a -Dchecks=true build notices ------------------------- */

#ifdef UVWHEEL_CHECKS

/* The loop runs on this thread. */
void uvwheel__adopt_thread(uvwheel_t *wheel);

/* Aborts if the loop runs on another thread. */
void uvwheel__expect_thread(const uvwheel_t *wheel,
                            const uvwheel_timer_t *timer);

/* Aborts if the memory holds an active timer of any wheel. */
void uvwheel__expect_idle(const uvwheel_timer_t *timer);

/* The wheel was initialised; aborts if it had not been closed. It is closed. */
void uvwheel__register(uvwheel_t *wheel);
void uvwheel__unregister(uvwheel_t *wheel);

/* Aborts if the request is queued; from now on it is. It is not any more. */
void uvwheel__register_post(const uvwheel_t *wheel, uvwheel_post_t *post);
void uvwheel__unregister_post(uvwheel_post_t *post);

#else

#define uvwheel__adopt_thread(wheel) ((void)0)
#define uvwheel__expect_thread(wheel, timer) ((void)0)
#define uvwheel__expect_idle(timer) ((void)0)
#define uvwheel__register(wheel) ((void)0)
#define uvwheel__unregister(wheel) ((void)0)
#define uvwheel__register_post(wheel, post) ((void)0)
#define uvwheel__unregister_post(post) ((void)0)

#endif

#endif /* UVWHEEL_BINDING_H */
