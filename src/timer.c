/* SPDX-License-Identifier: MIT */

/* The binding's timers. The usual start, stop and refresh are each one run of
 * code without a call: with cold timers they cost the less the fewer
 * instructions they have, because the processor works on as many at a time as
 * fit its window. */

#include "uvwheel.h"

#include "binding.h"

/* Flags in uvwheel_timer_t.home: an uvwheel_missed_t, and more. A usual timer
 * has none of them while it is active, so that one look at one word tells that
 * it is, and of which wheel. The binding never asks uvwheel_entry_is_active. */
#define TIMER_MISSED UINT64_C(3)
#define TIMER_UNREF UINT64_C(4)
#define TIMER_IDLE HOME_IDLE

/* uvwheel_timer_t.timeout while there is no repeat. */
#define NO_REPEAT UINT64_MAX

/* The wheel that this thread used last, as uvwheel_timer_t.home has it; at
 * first a value that no timer has. */
static _Thread_local INITIAL_EXEC uint64_t recent_home = 1;

/* Whether a timer's home is that wheel, with these flags. If so, *wheel is it.
 *
 * The point is what the processor makes of it. The timer may have to come from
 * memory; the processor guesses how the comparison ends and goes on with the
 * wheel it has at hand, where otherwise all that follows would have to wait
 * for the timer. Starts of cold timers take half the time by it, refreshes
 * three quarters. OPAQUE keeps the compiler from seeing that the wheel could
 * be had from the timer as well. */
static inline bool
is_recent(uint64_t home, uint64_t flags, uvwheel_t **wheel)
{
  uint64_t recent = recent_home;
  uintptr_t guess = (uintptr_t)recent;

  OPAQUE(guess);
  *wheel = (uvwheel_t *)guess;
  return home == (recent | flags);
}

/* The wheel of a timer that is being used. */
static inline uvwheel_t *
wheel_of(const uvwheel_timer_t *timer)
{
  uint64_t home = timer->home & ~HOME_FLAGS;
  uvwheel_t *wheel;

  uvwheel__check_thread((uvwheel_t *)(uintptr_t)home, timer);
  if (LIKELY(is_recent(home, 0, &wheel)))
    return wheel;
  recent_home = home;
  return (uvwheel_t *)(uintptr_t)home;
}

static bool
is_initialised(const uvwheel_timer_t *timer)
{
  return timer != NULL && timer->home > TIMER_MISSED;
}

static bool
is_active(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) && !(timer->home & TIMER_IDLE);
}

static bool
repeats(const uvwheel_timer_t *timer)
{
  return timer->timeout != NO_REPEAT;
}

/* ---- Becoming active and idle ------------------------------------------- */

/* A timer has become active (change is 1) or idle (-1): that may change who
 * keeps the loop alive. */
static inline void
count_ref(uvwheel_t *wheel, const uvwheel_timer_t *timer, int change)
{
  if (((timer->home & TIMER_UNREF) | wheel->unrefd) == 0)
    return;
  if (timer->home & TIMER_UNREF)
    wheel->unrefd += (uint64_t)(int64_t)change;
  uvwheel__update_ref(wheel);
}

/* An idle timer becomes active. Returns 0. */
static NOINLINE int
activate(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  timer->home &= ~TIMER_IDLE;
  if (uvwheel_core_insert(&wheel->core, &timer->entry, due_ms))
    uvwheel__arm(wheel);
  count_ref(wheel, timer, 1);
  return 0;
}

void
uvwheel__make_idle(uvwheel_t *wheel, uvwheel_entry_t *entry)
{
  uvwheel_core_remove(&wheel->core, entry);
  CONTAINER_OF(entry, uvwheel_timer_t, entry)->home |= TIMER_IDLE;
}

static void
count_lateness(uvwheel_t *wheel, uint64_t late_ms)
{
  unsigned bucket = bit_width(late_ms);

  if (bucket >= UVWHEEL_LATENESS_BUCKETS)
    bucket = UVWHEEL_LATENESS_BUCKETS - 1;
  wheel->stats.lateness[bucket]++;
  if (late_ms > wheel->stats.lateness_max_ms)
    wheel->stats.lateness_max_ms = late_ms;
}

/* When a repeating timer that fires now is due again. */
static uint64_t
next_due_ms(const uvwheel_timer_t *timer, uint64_t now_ms)
{
  uint64_t missed = timer->home & TIMER_MISSED;
  uint64_t due_ms = timer->entry.due_ms;

  if (missed == UVWHEEL_MISSED_DELAY)
    due_ms = now_ms;
  else if (missed == UVWHEEL_MISSED_SKIP)
    due_ms = now_ms - (now_ms - due_ms) % timer->interval;
  return add_ms(due_ms, timer->interval);
}

void
uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry)
{
  uvwheel_timer_t *timer = CONTAINER_OF(entry, uvwheel_timer_t, entry);
  uint64_t now_ms = now_of(wheel);

  count_lateness(wheel, now_ms - timer->entry.due_ms);
  timer->home |= TIMER_IDLE;
  count_ref(wheel, timer, -1);
  if (repeats(timer))
    activate(wheel, timer, next_due_ms(timer, now_ms));
  timer->cb(timer);
}

/* ---- Functions ---------------------------------------------------------- */

int
uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  if (wheel == NULL || wheel->loop == NULL || timer == NULL)
    return UV_EINVAL;
  uvwheel__check_idle(timer);
  uvwheel_entry_init(&timer->entry);
  timer->home = (uintptr_t)wheel | TIMER_IDLE;
  timer->interval = 0;
  timer->timeout = NO_REPEAT;
  timer->cb = NULL;
  return 0;
}

/* Changes when an active timer is due, if that cannot be done in place.
 * Returns 0. */
static NOINLINE int
requeue(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (uvwheel_core_postpone(&wheel->core, &timer->entry, due_ms))
    uvwheel__arm(wheel);
  return 0;
}

/* Makes the timer active and due at a time. With UVWHEEL_FIFO a restart goes
 * to the end of its tick's queue at once, as it does in libuv. */
static inline int
restart(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (!is_active(timer))
    return activate(wheel, timer, due_ms);
  if (!is_fifo(&wheel->core) && postpone_in_place(&timer->entry, due_ms))
    return 0;
  return requeue(wheel, timer, due_ms);
}

static bool
is_full(const uvwheel_t *wheel)
{
  return wheel->core.count >= wheel->max_timers;
}

static void
set_repeat(uvwheel_timer_t *timer, uint64_t repeat)
{
  uint64_t timeout = repeats(timer) ? timer->timeout : timer->interval;

  if (repeat != 0) {
    timer->interval = repeat;
    timer->timeout = timeout != NO_REPEAT ? timeout : NO_REPEAT - 1;
  } else {
    timer->interval = timeout;
    timer->timeout = NO_REPEAT;
  }
}

/* The usual start, which is that of an idle one-shot timer. False if it is not,
 * and then nothing is done. */
static inline bool
start_usual(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout)
{
  uvwheel_t *wheel;

  if (timer == NULL || cb == NULL ||
      !is_recent(timer->home, TIMER_IDLE, &wheel) || is_closing(wheel) ||
      wheel->core.count >= wheel->usual_max)
    return false;
  uvwheel__check_thread(wheel, timer);
  if (!insert_beside(&wheel->core, &timer->entry,
                     add_ms(now_of(wheel), timeout)))
    return false;
  timer->home = (uintptr_t)wheel;
  timer->cb = cb;
  timer->interval = timeout;
  timer->timeout = NO_REPEAT;
  return true;
}

/* Any other one. */
static NOINLINE int
start(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
      uint64_t repeat)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || cb == NULL)
    return UV_EINVAL;
  wheel = wheel_of(timer);
  if (is_closing(wheel))
    return UV_EINVAL;
  if (!is_active(timer) && is_full(wheel))
    return UV_ENOBUFS;
  timer->cb = cb;
  timer->interval = timeout;
  timer->timeout = NO_REPEAT;
  set_repeat(timer, repeat);
  return restart(wheel, timer, add_ms(now_of(wheel), timeout));
}

int
uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                    uint64_t timeout, uint64_t repeat)
{
  if (repeat == 0 && start_usual(timer, cb, timeout))
    return 0;
  return start(timer, cb, timeout, repeat);
}

/* The usual stop, which is that of one among other active timers. False if it
 * is not, and then nothing is done. */
static inline bool
stop_usual(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || !is_recent(timer->home, 0, &wheel) || wheel->unrefd != 0)
    return false;
  uvwheel__check_thread(wheel, timer);
  if (!remove_from_others(&wheel->core, &timer->entry))
    return false;
  timer->home = (uintptr_t)wheel | TIMER_IDLE;
  return true;
}

/* Any other one. */
static NOINLINE int
stop(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer))
    return UV_EINVAL;
  if (!is_active(timer))
    return 0;
  wheel = wheel_of(timer);
  uvwheel__make_idle(wheel, &timer->entry);
  count_ref(wheel, timer, -1);
  if (wheel->core.count == 0)
    (void)uv_timer_stop(&wheel->driver);
  return 0;
}

int
uvwheel_timer_stop(uvwheel_timer_t *timer)
{
  return stop_usual(timer) ? 0 : stop(timer);
}

int
uvwheel_timer_again(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || timer->cb == NULL)
    return UV_EINVAL;
  if (!repeats(timer))
    return 0;
  wheel = wheel_of(timer);
  if (is_closing(wheel))
    return UV_EINVAL;
  if (!is_active(timer) && is_full(wheel))
    return UV_ENOBUFS;
  return restart(wheel, timer, add_ms(now_of(wheel), timer->interval));
}

/* The usual refresh, which makes a timer due later. False if it is not, and
 * then nothing is done. */
static inline bool
refresh_usual(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;
  uint64_t due_ms;

  if (timer == NULL || !is_recent(timer->home, 0, &wheel))
    return false;
  uvwheel__check_thread(wheel, timer);
  due_ms = now_of(wheel) + timer->interval;
  return LIKELY(due_ms >= timer->interval) &&
         postpone_in_place(&timer->entry, due_ms);
}

/* Any other one. */
static NOINLINE int
refresh(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;
  uint64_t due_ms;

  if (!is_active(timer))
    return UV_EINVAL;
  wheel = wheel_of(timer);
  due_ms = add_ms(now_of(wheel), timer->interval);
  if (postpone_in_place(&timer->entry, due_ms))
    return 0;
  return requeue(wheel, timer, due_ms);
}

int
uvwheel_timer_refresh(uvwheel_timer_t *timer)
{
  return refresh_usual(timer) ? 0 : refresh(timer);
}

int
uvwheel_timer_is_active(const uvwheel_timer_t *timer)
{
  return is_active(timer);
}

uint64_t
uvwheel_timer_get_due_in(const uvwheel_timer_t *timer)
{
  uint64_t now_ms;

  if (!is_active(timer))
    return 0;
  now_ms = now_of(wheel_of(timer));
  return timer->entry.due_ms > now_ms ? timer->entry.due_ms - now_ms : 0;
}

void
uvwheel_timer_set_repeat(uvwheel_timer_t *timer, uint64_t repeat)
{
  if (!is_initialised(timer))
    return;
  uvwheel__check_thread(wheel_of(timer), timer);
  set_repeat(timer, repeat);
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
  uvwheel__check_thread(wheel_of(timer), timer);
  timer->home = (timer->home & ~TIMER_MISSED) | (uint64_t)missed;
  return 0;
}

static void
set_unref(uvwheel_timer_t *timer, uint64_t unref)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || (timer->home & TIMER_UNREF) == unref)
    return;
  wheel = wheel_of(timer);
  timer->home ^= TIMER_UNREF;
  if (!is_active(timer))
    return;
  wheel->unrefd += unref ? 1 : (uint64_t)-1;
  uvwheel__update_ref(wheel);
}

void
uvwheel_timer_ref(uvwheel_timer_t *timer)
{
  set_unref(timer, 0);
}

void
uvwheel_timer_unref(uvwheel_timer_t *timer)
{
  set_unref(timer, TIMER_UNREF);
}

int
uvwheel_timer_has_ref(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) && !(timer->home & TIMER_UNREF);
}
