/* SPDX-License-Identifier: MIT */

/* Shared by timer.c (timers), turn.c (wakes the loop and fires), stall.c (time
 * in which the loop is blocked), mailbox.c (requests of other threads),
 * uvwheel.c (init, close, walk) and print.c (reports). */

#ifndef UVWHEEL_BINDING_H
#define UVWHEEL_BINDING_H

#include "uvwheel.h"

#include "core.h"

/* ---- The wheel ---------------------------------------------------------- */

/* uvwheel_t.flags */
#define CLOSING 1u       /* uvwheel_close was called        */
#define UNREF 2u         /* uvwheel_unref was called        */
#define SPELL 4u         /* polls do not wait, see turn.c   */
#define FIRES_SOONEST 8u /* uvwheel_fire_soonest calls back */
#define WALKS 16u        /* uvwheel_walk calls back         */

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* libuv's own, in every 1.x: uv_handle_t.flags */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u

/* Every start and refresh reads the loop's time and whether the driver is
 * closing, from fields that uv.h declares as private, though with a fixed
 * place: with calls to uv_now and uv_is_closing a refresh takes 27 ns instead
 * of 19, a start 56 instead of 47 (random timers of a million). uvwheel_init
 * compares the fields with the calls. */
static inline uint64_t
loop_now(const uvwheel_t *wheel)
{
  return wheel->loop->time;
}

/* The wheel is closing once its driver is, whoever closes that. */
static inline bool
is_closing(const uvwheel_t *wheel)
{
  return wheel->driver.flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED);
}

/* Is this an initialised wheel? */
static inline bool
is_wheel(const uvwheel_t *wheel)
{
  return wheel != NULL && wheel->loop != NULL;
}

/* The same, and its close is not finished. */
static inline bool
is_open(const uvwheel_t *wheel)
{
  return is_wheel(wheel) && wheel->core.slots != NULL;
}

/* ---- The wheel's clock -------------------------------------------------- */

/* The wheel's clock; 0 while the loop's clock has stepped back too far. */
static inline uint64_t
wheel_now(const uvwheel_t *wheel)
{
  uint64_t loop_ms = loop_now(wheel), back_ms = wheel->set_back_ms;

  return LIKELY(loop_ms > back_ms) ? loop_ms - back_ms : 0;
}

/* The same for queries: 0 once the wheel is closing, as then there may be no
 * loop. */
static inline uint64_t
public_now(const uvwheel_t *wheel)
{
  return is_closing(wheel) ? 0 : wheel_now(wheel);
}

/* A time of the loop on the wheel's clock, minus lag_ms: a timer that is due
 * before it has waited for its whole timeout. */
static inline uint64_t
to_wheel_ms(const uvwheel_t *wheel, uint64_t loop_ms)
{
  uint64_t behind_ms = wheel->set_back_ms + wheel->lag_ms;

  return loop_ms > behind_ms ? loop_ms - behind_ms : 0;
}

/* Due times saturate: UINT64_MAX is never reached. */
static inline uint64_t
add_ms(uint64_t now_ms, uint64_t delay_ms)
{
  uint64_t sum_ms = now_ms + delay_ms;

  return LIKELY(sum_ms >= delay_ms) ? sum_ms : UINT64_MAX;
}

/* ---- Timers (timer.c) --------------------------------------------------- */

/* uvwheel_timer_t.wheel_and_flags is the wheel's address, and four flags in
 * bits in which a wheel's address has zeros, as malloc aligns:
 *
 *   63 ...                                 4    3      2     1 0
 *   |  address of the uvwheel_t            | idle | unref | missed |
 *
 * Where malloc aligns to 8 bytes, addresses have 32 bits, and the idle flag
 * stands above them. A closed timer has the idle flag alone. */
#define TIMER_MISSED UINT64_C(3)
#define TIMER_UNREF UINT64_C(4)
#define TIMER_IDLE (sizeof(void *) == 8 ? UINT64_C(8) : UINT64_C(1) << 32)
#define TIMER_FLAGS (TIMER_MISSED | TIMER_UNREF | TIMER_IDLE)

static inline uvwheel_timer_t *
timer_of(uvwheel_entry_t *entry)
{
  return CONTAINER_OF(entry, uvwheel_timer_t, entry);
}

/* The wheel has just handed out a timer's entry, in a turn that fires the
 * timers that are due by limit_ms: starts it again if it repeats, and calls its
 * callback. */
void uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry, uint64_t limit_ms);

/* ---- Turns (turn.c) ----------------------------------------------------- */

/* Adds the wheel's handles to the loop. */
void uvwheel__init_turns(uvwheel_t *wheel);

/* Arms the driver for the wheel's next tick, unless it is armed for that or an
 * earlier time. Disarms it if the wheel is empty. */
void uvwheel__arm(uvwheel_t *wheel);

/* Nothing wakes the loop for the wheel any more, and polls wait again. */
void uvwheel__disarm(uvwheel_t *wheel);

/* The loop's clock has stepped back. */
void uvwheel__clock_stepped_back(uvwheel_t *wheel);

/* Sets whether the wheel's handles keep the loop alive. */
void uvwheel__update_refs(uvwheel_t *wheel);

/* ---- Batches (turn.c) --------------------------------------------------- */

/* A batch: callbacks of the wheel that run one after the other. is_over tells a
 * turn and the mailbox that turn_ms is over. */
typedef struct batch_s {
  uint64_t begin_ns;
  uint64_t read_ns;    /* when the clock was read last     */
  uint64_t unread;     /* callbacks since                  */
  uint64_t blocked_ms; /* of the wheel, before the batch   */
  bool is_over;
} batch_t;

void uvwheel__begin_batch(uvwheel_t *wheel, batch_t *batch);

/* One more callback has run. Notes whether the batch is over. */
void uvwheel__check_time(uvwheel_t *wheel, batch_t *batch);

void uvwheel__end_batch(uvwheel_t *wheel, const batch_t *batch);

/* ---- Closing (uvwheel.c) ------------------------------------------------ */

/* The callback of close_watch, by which uvwheel_owns_handle knows it. */
void uvwheel__on_close_watch(uv_idle_t *close_watch);

/* ---- Stalls (stall.c) --------------------------------------------------- */

void uvwheel__init_stalls(uvwheel_t *wheel);

/* Adds to blocked_ms the time since the last call, without the time in which
 * the loop polled or slept. Sets counted_ms to the time now. */
void uvwheel__add_blocked(uvwheel_t *wheel);

/* The same, after callbacks of the wheel, which do not block the loop. Their
 * time does not count: blocked_ms had this value before them. */
void uvwheel__excuse_blocked(uvwheel_t *wheel, uint64_t blocked_ms);

/* The loop has polled: adds the time before. Counts a stall if the loop was
 * blocked for too long, and sets the wheel's clock back, unless the allowance
 * is used up. */
void uvwheel__judge_blocked(uvwheel_t *wheel);

/* How much time may be forgiven now, in ms. */
uint64_t uvwheel__get_allowance(const uvwheel_t *wheel);

/* The check returns to libuv, which reads the clock before it polls again. */
void uvwheel__end_check(uvwheel_t *wheel);

/* ---- The mailbox (mailbox.c) -------------------------------------------- */

/* Is no request queued? */
bool uvwheel__is_mailbox_empty(uvwheel_t *wheel);

/* Refuses posts from now on. */
void uvwheel__close_mailbox(uvwheel_t *wheel);

/* Calls back the queued requests with UV_ECANCELED, and undoes
 * uvwheel_open_mailbox. */
void uvwheel__destroy_mailbox(uvwheel_t *wheel);

/* The callback of its uv_async_t, by which uvwheel_owns_handle knows it. */
void uvwheel__on_wake(uv_async_t *async);

#endif /* UVWHEEL_BINDING_H */
