/* SPDX-License-Identifier: MIT */

/* The binding's timers. Start, stop and refresh run their usual case without a
 * call. The fewer instructions they have, the more cold timers the processor
 * works on at a time. */

#include "binding.h"

/* ---- The wheel of a timer ----------------------------------------------- */

/* The wheel that this thread used last, as uvwheel_timer_t.wheel_and_flags has
 * it; at first a value that no timer has. */
static THREAD_LOCAL uint64_t recent_wheel = 1;

static uvwheel_t *
wheel_of(const uvwheel_timer_t *timer)
{
  return (uvwheel_t *)(uintptr_t)(timer->wheel_and_flags & ~TIMER_FLAGS);
}

/* Is the timer's wheel that one, with these flags? If so, *wheel is the wheel.
 * A usual active timer has no flags, so one comparison shows that it is active,
 * and on which wheel.
 *
 * The gain is speculation. The timer may have to come from memory; the
 * processor predicts the comparison and goes on with this wheel, where
 * everything would otherwise wait for the timer. A start of a cold timer takes
 * 23 ns instead of 60. CONCEAL keeps the compiler from loading the wheel from
 * the timer. */
static inline bool
guess_wheel(const uvwheel_timer_t *timer, uint64_t flags, uvwheel_t **wheel)
{
  uint64_t recent = recent_wheel;
  uintptr_t guess = (uintptr_t)recent;

  CONCEAL(guess);
  *wheel = (uvwheel_t *)guess;
  return LIKELY(timer->wheel_and_flags == recent + flags);
}

/* The wheel of an initialised timer, noted because the next timer is likely to
 * have the same. */
static uvwheel_t *
use_wheel(const uvwheel_timer_t *timer)
{
  uvwheel_t *wheel = wheel_of(timer);

  recent_wheel = (uintptr_t)wheel;
  return wheel;
}

static bool
is_initialised(const uvwheel_timer_t *timer)
{
  return timer != NULL && wheel_of(timer) != NULL;
}

static bool
is_active(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) && !(timer->wheel_and_flags & TIMER_IDLE);
}

/* uvwheel_timer_t.timeout of a timer without a repeat. */
#define NO_REPEAT UINT64_MAX

static inline bool
repeats(const uvwheel_timer_t *timer)
{
  return timer->timeout != NO_REPEAT;
}

/* Notes the timeout and the repeat of a start. */
static inline void
set_times(uvwheel_timer_t *timer, uint64_t timeout, uint64_t repeat)
{
  timer->interval = timeout;
  timer->timeout = NO_REPEAT;
  if (repeat != 0) {
    timer->interval = repeat;
    timer->timeout = timeout != NO_REPEAT ? timeout : NO_REPEAT - 1;
  }
}

static inline uint64_t
due_after(uvwheel_t *wheel, uint64_t delay_ms)
{
  if (UNLIKELY(loop_now(wheel) < wheel->set_back_ms))
    uvwheel__clock_stepped_back(wheel);
  return add_ms(wheel_now(wheel), delay_ms);
}

/* Sets *due_ms to the same, in two instructions. Returns false if it cannot. */
static inline bool
add_to_now(const uvwheel_t *wheel, uint64_t delay_ms, uint64_t *due_ms)
{
  return !SUBTRACT_OVERFLOWS(loop_now(wheel), wheel->set_back_ms, due_ms) &&
         !ADD_OVERFLOWS(*due_ms, delay_ms, due_ms);
}

/* ---- Becoming active and idle ------------------------------------------- */

/* A timer has become active (change is 1) or idle (-1): that may change who
 * keeps the loop alive. */
static inline void
update_unrefd(uvwheel_t *wheel, const uvwheel_timer_t *timer, int change)
{
  if (((timer->wheel_and_flags & TIMER_UNREF) | wheel->unrefd) == 0)
    return;
  if (timer->wheel_and_flags & TIMER_UNREF)
    wheel->unrefd += (uint64_t)(int64_t)change;
  uvwheel__update_refs(wheel);
}

/* The usual cases call this only at their end, so that they need no stack. */
static NOINLINE int
plan_and_put(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  if (uvwheel__plan_and_put(&wheel->core, &timer->entry))
    uvwheel__arm(wheel);
  return 0;
}

static inline int
insert(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (LIKELY(uvwheel__core_insert(&wheel->core, &timer->entry, due_ms)))
    return 0;
  return plan_and_put(wheel, timer);
}

static int
move(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (uvwheel__core_move(&wheel->core, &timer->entry, due_ms))
    uvwheel__arm(wheel);
  return 0;
}

/* The unusual cases of a new due time: it is earlier, or was not computed. */
static NOINLINE int
postpone_slow(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t delay_ms)
{
  uint64_t due_ms = due_after(wheel, delay_ms);

  if (due_ms < timer->entry.due_ms)
    return move(wheel, timer, due_ms);
  timer->entry.due_ms = due_ms;
  return 0;
}

/* An active timer is due at another time, which is usually not earlier. */
static inline int
postpone(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t delay_ms)
{
  uint64_t due_ms;

  if (UNLIKELY(!add_to_now(wheel, delay_ms, &due_ms) ||
               due_ms < timer->entry.due_ms))
    return postpone_slow(wheel, timer, delay_ms);
  timer->entry.due_ms = due_ms;
  return 0;
}

/* May postpone start the timer again? Not in a FIFO wheel, where that puts the
 * timer at the end of the queue. */
static inline bool
can_postpone(const uvwheel_timer_t *timer, uvwheel_t **wheel)
{
  return guess_wheel(timer, 0, wheel) && !is_closing(*wheel) &&
         !is_fifo(&(*wheel)->core);
}

/* When a repeating timer that fires in a turn up to limit_ms is due again: at
 * the first time of the beat that is not before the last tick of that turn. A
 * later time, such as the loop's time now, would halve the rate of a beat in
 * phase with the ticks. */
static uint64_t
next_due_ms(const uvwheel_t *wheel, const uvwheel_timer_t *timer,
            uint64_t limit_ms)
{
  uint64_t missed = timer->wheel_and_flags & TIMER_MISSED,
           repeat = timer->interval;
  uint64_t next_ms = add_ms(timer->entry.due_ms, repeat);
  uint64_t tick_ms = limit_ms - limit_ms % wheel->core.tick_ms;

  if (missed == UVWHEEL_MISSED_DELAY)
    return add_ms(wheel_now(wheel), repeat);
  if (missed == UVWHEEL_MISSED_BURST || next_ms >= tick_ms)
    return next_ms;
  return add_ms(tick_ms, (repeat - (tick_ms - next_ms) % repeat) % repeat);
}

void
uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry, uint64_t limit_ms)
{
  uvwheel_timer_t *timer = timer_of(entry);

  if (repeats(timer)) {
    (void)insert(wheel, timer, next_due_ms(wheel, timer, limit_ms));
  } else {
    timer->wheel_and_flags |= TIMER_IDLE;
    update_unrefd(wheel, timer, -1);
  }
  timer->cb(timer);
}

/* ---- Functions ---------------------------------------------------------- */

int
uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  if (!is_wheel(wheel) || timer == NULL)
    return UV_EINVAL;
  /* The memory may hold anything, but hardly an active timer of this wheel to
   * which its neighbours are linked. */
  MISUSE_IF((timer->wheel_and_flags & ~(TIMER_MISSED | TIMER_UNREF)) ==
                    (uintptr_t)wheel &&
                is_linked(&timer->entry.link),
            &timer->entry, "initialised while active");
  poison(&timer->entry);
  timer->wheel_and_flags = (uintptr_t)wheel | TIMER_IDLE;
  timer->cb = NULL;
  set_times(timer, 0, 0);
  return 0;
}

/* Starts or restarts any timer. */
static NOINLINE int
set_due(uvwheel_timer_t *timer, uint64_t delay_ms)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || is_closing(wheel_of(timer)))
    return UV_EINVAL;
  wheel = use_wheel(timer);
  if (is_active(timer)) /* in a FIFO wheel it goes to the end of the queue */
    return is_fifo(&wheel->core)
               ? move(wheel, timer, due_after(wheel, delay_ms))
               : postpone(wheel, timer, delay_ms);
  if (uvwheel__core_is_full(&wheel->core))
    return UV_ENOBUFS;
  timer->wheel_and_flags &= ~TIMER_IDLE;
  (void)insert(wheel, timer, due_after(wheel, delay_ms));
  update_unrefd(wheel, timer, 1);
  return 0;
}

static NOINLINE int
start_slow(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
           uint64_t repeat)
{
  int error = set_due(timer, timeout);

  if (error == 0) {
    timer->cb = cb;
    set_times(timer, timeout, repeat);
  }
  return error;
}

int
uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                    uint64_t timeout, uint64_t repeat)
{
  uvwheel_t *wheel;
  uint64_t due_ms;

  if (timer == NULL || cb == NULL)
    return UV_EINVAL;
  if (guess_wheel(timer, TIMER_IDLE, &wheel) && !is_closing(wheel) &&
      add_to_now(wheel, timeout, &due_ms) &&
      due_ms < wheel->core.reciprocal_ms &&
      !uvwheel__core_is_full(&wheel->core) && LIKELY(wheel->unrefd == 0)) {
    timer->wheel_and_flags = (uintptr_t)wheel;
    timer->cb = cb;
    set_times(timer, timeout, repeat);
    return insert(wheel, timer, due_ms);
  }
  if (can_postpone(timer, &wheel)) {
    timer->cb = cb;
    set_times(timer, timeout, repeat);
    return postpone(wheel, timer, timeout);
  }
  return start_slow(timer, cb, timeout, repeat);
}

static NOINLINE int
stop_last(uvwheel_t *wheel)
{
  uvwheel__core_became_empty(&wheel->core);
  uvwheel__disarm(wheel);
  return 0;
}

static NOINLINE int
stop_slow(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || timer->wheel_and_flags == 0)
    return UV_EINVAL;
  if (!is_active(timer))
    return 0; /* and there may be no wheel any more */
  wheel = use_wheel(timer);
  timer->wheel_and_flags |= TIMER_IDLE;
  if (!uvwheel__core_remove(&wheel->core, &timer->entry))
    (void)stop_last(wheel);
  update_unrefd(wheel, timer, -1);
  return 0;
}

int
uvwheel_timer_stop(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || !guess_wheel(timer, 0, &wheel) || wheel->unrefd != 0)
    return stop_slow(timer);
  timer->wheel_and_flags = (uintptr_t)wheel | TIMER_IDLE;
  if (UNLIKELY(!uvwheel__core_remove(&wheel->core, &timer->entry)))
    return stop_last(wheel);
  return 0;
}

/* A closed timer has no wheel, like one that was never initialised. By the flag
 * uvwheel_timer_stop finds it idle. */
void
uvwheel_timer_close(uvwheel_timer_t *timer)
{
  if (uvwheel_timer_stop(timer) == 0)
    timer->wheel_and_flags = TIMER_IDLE;
}

int
uvwheel_timer_again(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer != NULL && repeats(timer) && can_postpone(timer, &wheel))
    return postpone(wheel, timer, timer->interval);
  if (!is_initialised(timer) || timer->cb == NULL)
    return UV_EINVAL;
  return repeats(timer) ? set_due(timer, timer->interval) : 0;
}

static NOINLINE int
refresh_slow(uvwheel_timer_t *timer)
{
  if (!is_active(timer))
    return UV_EINVAL;
  return postpone(use_wheel(timer), timer, timer->interval);
}

int
uvwheel_timer_refresh(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || !guess_wheel(timer, 0, &wheel))
    return refresh_slow(timer);
  return postpone(wheel, timer, timer->interval);
}

/* ---- Queries ------------------------------------------------------------ */

int
uvwheel_timer_is_active(const uvwheel_timer_t *timer)
{
  return is_active(timer);
}

uvwheel_t *
uvwheel_timer_get_wheel(const uvwheel_timer_t *timer)
{
  return timer != NULL ? wheel_of(timer) : NULL;
}

uint64_t
uvwheel_timer_get_due_in(const uvwheel_timer_t *timer)
{
  uint64_t now_ms;

  if (!is_active(timer))
    return 0;
  now_ms = public_now(wheel_of(timer));
  return timer->entry.due_ms > now_ms ? timer->entry.due_ms - now_ms : 0;
}

uint64_t
uvwheel_timer_get_rounds(const uvwheel_timer_t *timer)
{
  const uvwheel_t *wheel;

  if (!is_active(timer))
    return 0;
  wheel = wheel_of(timer);
  return rounds_of(&wheel->core, &timer->entry, public_now(wheel));
}

void
uvwheel_timer_set_repeat(uvwheel_timer_t *timer, uint64_t repeat)
{
  if (is_initialised(timer))
    set_times(timer, repeats(timer) ? timer->timeout : timer->interval, repeat);
}

uint64_t
uvwheel_timer_get_repeat(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) && repeats(timer) ? timer->interval : 0;
}

int
uvwheel_timer_set_missed(uvwheel_timer_t *timer, uvwheel_missed_t missed)
{
  if (!is_initialised(timer) || (unsigned)missed > UVWHEEL_MISSED_BURST)
    return UV_EINVAL;
  timer->wheel_and_flags =
      (timer->wheel_and_flags & ~TIMER_MISSED) | (uint64_t)missed;
  return 0;
}

static void
set_timer_unref(uvwheel_timer_t *timer, uint64_t unref)
{
  if (!is_initialised(timer) || (timer->wheel_and_flags & TIMER_UNREF) == unref)
    return;
  if (is_active(timer)) {
    uvwheel_t *wheel = wheel_of(timer);
    wheel->unrefd += unref ? 1 : (uint64_t)-1;
    uvwheel__update_refs(wheel);
  }
  timer->wheel_and_flags ^= TIMER_UNREF;
}

void
uvwheel_timer_ref(uvwheel_timer_t *timer)
{
  set_timer_unref(timer, 0);
}

void
uvwheel_timer_unref(uvwheel_timer_t *timer)
{
  set_timer_unref(timer, TIMER_UNREF);
}

int
uvwheel_timer_has_ref(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) && !(timer->wheel_and_flags & TIMER_UNREF);
}

/* ---- Misuse ------------------------------------------------------------- */

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdlib.h>

void
uvwheel__misuse(const uvwheel_entry_t *entry, const char *what)
{
  const uvwheel_timer_t *timer =
      CONTAINER_OF((uvwheel_entry_t *)(uintptr_t)entry, uvwheel_timer_t, entry);

  fprintf(stderr, "uvwheel: timer %p, callback 0x%" PRIxPTR ": %s\n",
          (const void *)timer, (uintptr_t)timer->cb, what);
  abort();
}

#endif
