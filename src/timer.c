/* SPDX-License-Identifier: MIT */

/* The binding's timers. Start, stop, again and refresh handle the usual case in
 * one run of code without a call, and leave the others to a slow function. The
 * fewer instructions they have, the more cold timers the processor works on at
 * a time. */

#include "timer.h"

#include "turn.h"
#include "wheel.h"

/* uvwheel_timer_t.timeout while there is no repeat. */
#define NO_REPEAT UINT64_MAX

/* The wheel that this thread used last, as uvwheel_timer_t.home has it; at
 * first a value that no timer has. */
static THREAD_LOCAL uint64_t recent_home = 1;

/* Is the timer's home that wheel, with these flags? If so, *wheel is the wheel.
 * A usual active timer has no flags, so one comparison shows that it is active,
 * and on which wheel.
 *
 * The gain is speculation. The timer may have to come from memory; the
 * processor predicts the comparison and goes on with this wheel, where
 * everything would otherwise wait for the timer. Starts of cold timers take
 * half the time, refreshes three quarters. CONCEAL keeps the compiler from
 * loading the wheel from the timer. */
static inline bool
is_recent(const uvwheel_timer_t *timer, uint64_t flags, uvwheel_t **wheel)
{
  uint64_t recent = recent_home;
  uintptr_t guess = (uintptr_t)recent;
  bool is_it;

  CONCEAL(guess);
  *wheel = (uvwheel_t *)guess;
  is_it = timer->home == recent + flags;
  if (is_it)
    uvwheel__expect_thread(*wheel, timer);
  return is_it;
}

static uvwheel_t *
home_of(const uvwheel_timer_t *timer)
{
  return (uvwheel_t *)(uintptr_t)(timer->home & ~HOME_FLAGS);
}

/* The wheel of a timer that is used, noted because the next timer is likely to
 * have the same. */
static uvwheel_t *
wheel_of(const uvwheel_timer_t *timer)
{
  uvwheel_t *wheel = home_of(timer);

  uvwheel__expect_thread(wheel, timer);
  recent_home = (uintptr_t)wheel;
  return wheel;
}

static bool
is_initialised(const uvwheel_timer_t *timer)
{
  return timer != NULL && home_of(timer) != NULL;
}

static bool
is_active(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) && !(timer->home & HOME_IDLE);
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
  if (((timer->home & HOME_UNREF) | wheel->unrefd) == 0)
    return;
  if (timer->home & HOME_UNREF)
    wheel->unrefd += (uint64_t)(int64_t)change;
  uvwheel__update_ref(wheel);
}

/* An idle timer becomes active. */
static NOINLINE void
activate(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  timer->home &= ~HOME_IDLE;
  if (uvwheel__core_insert(&wheel->core, &timer->entry, due_ms))
    uvwheel__arm(wheel);
  count_ref(wheel, timer, 1);
}

/* When a repeating timer that fires in a turn up to limit_ms is due again: at
 * the first time of the beat that is not before the last tick of that turn. A
 * later time, such as the loop's time now, would halve the rate of a beat in
 * phase with the ticks. */
static uint64_t
next_due_ms(const uvwheel_t *wheel, const uvwheel_timer_t *timer,
            uint64_t limit_ms)
{
  uint64_t missed = timer->home & HOME_MISSED, repeat = timer->interval;
  uint64_t next_ms = add_ms(timer->entry.due_ms, repeat);
  uint64_t tick_ms = limit_ms - limit_ms % wheel->core.tick_ms;

  if (missed == UVWHEEL_MISSED_DELAY)
    return add_ms(reported_now(wheel), repeat);
  if (missed == UVWHEEL_MISSED_BURST || next_ms >= tick_ms)
    return next_ms;
  return add_ms(tick_ms, (repeat - (tick_ms - next_ms) % repeat) % repeat);
}

void
uvwheel__fire(uvwheel_t *wheel, uvwheel_entry_t *entry, uint64_t limit_ms)
{
  uvwheel_timer_t *timer = CONTAINER_OF(entry, uvwheel_timer_t, entry);

  timer->home |= HOME_IDLE;
  count_ref(wheel, timer, -1);
  if (repeats(timer))
    activate(wheel, timer, next_due_ms(wheel, timer, limit_ms));
  timer->cb(timer);
}

/* ---- Functions ---------------------------------------------------------- */

int
uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  if (!is_wheel(wheel) || timer == NULL)
    return UV_EINVAL;
  uvwheel__expect_idle(timer);
  uvwheel__entry_init(&timer->entry);
  timer->home = (uintptr_t)wheel | HOME_IDLE;
  timer->interval = 0;
  timer->timeout = NO_REPEAT;
  timer->cb = NULL;
  return 0;
}

/* Changes when an active timer is due. */
static void
postpone(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (uvwheel__core_postpone(&wheel->core, &timer->entry, due_ms))
    uvwheel__arm(wheel);
}

/* The usual refresh of an active timer, or restart: it is due later than
 * before. Not if the due time overflows, or if the loop's clock has stepped
 * back to before what the wheel's was set back. */
static inline bool
postpone_by(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t delay_ms)
{
  uint64_t due_ms = now_of(wheel) + delay_ms;

  return LIKELY(due_ms >= delay_ms && (int64_t)due_ms >= 0) &&
         postpone_in_place(&timer->entry, due_ms);
}

static inline void
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

/* What a start leaves behind. */
static inline void
set_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
          uint64_t repeat)
{
  timer->cb = cb;
  timer->interval = timeout;
  timer->timeout = NO_REPEAT;
  set_repeat(timer, repeat);
}

static NOINLINE int
start_slow(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
           uint64_t repeat)
{
  uvwheel_t *wheel;
  uint64_t due_ms;

  if (!is_initialised(timer))
    return UV_EINVAL;
  wheel = wheel_of(timer);
  if (is_closing(wheel))
    return UV_EINVAL;
  follow_clock(wheel);
  if (!is_active(timer) && wheel->core.inserted >= wheel->core.allowed)
    return UV_ENOBUFS;
  set_start(timer, cb, timeout, repeat);
  due_ms = add_ms(now_of(wheel), timeout);
  if (!is_active(timer))
    activate(wheel, timer, due_ms);
  else
    postpone(wheel, timer, due_ms);
  return 0;
}

/* The usual start of an idle timer, which changes nothing for the loop and the
 * driver. */
static inline int
start_idle(uvwheel_t *wheel, uvwheel_timer_t *timer, uvwheel_timer_cb cb,
           uint64_t timeout, uint64_t repeat)
{
  uvwheel_slot_t *slot;
  uint64_t due_ms;

  if (is_closing(wheel))
    return start_slow(timer, cb, timeout, repeat);
  due_ms = now_of(wheel) + timeout;
  if (UNLIKELY(due_ms < timeout))
    return start_slow(timer, cb, timeout, repeat);
  slot = find_slot_fast(&wheel->core, due_ms);
  if (slot == NULL)
    return start_slow(timer, cb, timeout, repeat);
  timer->entry.due_ms = due_ms;
  timer->home = (uintptr_t)wheel;
  set_start(timer, cb, timeout, repeat);
  insert_fast(&wheel->core, slot, &timer->entry);
  return 0;
}

/* The usual restart of an active one. */
static inline int
start_active(uvwheel_t *wheel, uvwheel_timer_t *timer, uvwheel_timer_cb cb,
             uint64_t timeout, uint64_t repeat)
{
  if (is_closing(wheel) || is_fifo(&wheel->core) ||
      !postpone_by(wheel, timer, timeout))
    return start_slow(timer, cb, timeout, repeat);
  set_start(timer, cb, timeout, repeat);
  return 0;
}

int
uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                    uint64_t timeout, uint64_t repeat)
{
  uvwheel_t *wheel;

  if (timer == NULL || cb == NULL)
    return UV_EINVAL;
  if (is_recent(timer, HOME_IDLE, &wheel))
    return start_idle(wheel, timer, cb, timeout, repeat);
  if (is_recent(timer, 0, &wheel))
    return start_active(wheel, timer, cb, timeout, repeat);
  return start_slow(timer, cb, timeout, repeat);
}

static NOINLINE int
stop_slow(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || timer->home == 0)
    return UV_EINVAL;
  if (!is_active(timer))
    return 0;
  wheel = wheel_of(timer);
  uvwheel__core_remove(&wheel->core, &timer->entry);
  timer->home |= HOME_IDLE;
  count_ref(wheel, timer, -1);
  if (uvwheel__core_count(&wheel->core) == 0)
    uvwheel__disarm(wheel);
  return 0;
}

int
uvwheel_timer_stop(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || !is_recent(timer, 0, &wheel) || wheel->unrefd != 0 ||
      !remove_fast(&wheel->core, &timer->entry))
    return stop_slow(timer);
  timer->home = (uintptr_t)wheel | HOME_IDLE;
  return 0;
}

/* A closed timer has no wheel, like one that was never initialised. By the flag
 * uvwheel_timer_stop finds it idle. */
void
uvwheel_timer_close(uvwheel_timer_t *timer)
{
  if (uvwheel_timer_stop(timer) == 0)
    timer->home = HOME_IDLE;
}

static NOINLINE int
again_slow(uvwheel_timer_t *timer)
{
  uint64_t timeout;
  int error;

  if (!is_initialised(timer) || timer->cb == NULL)
    return UV_EINVAL;
  if (!repeats(timer))
    return 0;
  timeout = timer->timeout;
  error = start_slow(timer, timer->cb, timer->interval, timer->interval);
  timer->timeout = timeout;
  return error;
}

int
uvwheel_timer_again(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || !is_recent(timer, 0, &wheel) || !repeats(timer) ||
      is_closing(wheel) || is_fifo(&wheel->core) ||
      !postpone_by(wheel, timer, timer->interval))
    return again_slow(timer);
  return 0;
}

static NOINLINE int
refresh_slow(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;
  uint64_t due_ms;

  if (!is_active(timer))
    return UV_EINVAL;
  wheel = wheel_of(timer);
  follow_clock(wheel);
  due_ms = add_ms(now_of(wheel), timer->interval);
  if (!postpone_in_place(&timer->entry, due_ms))
    postpone(wheel, timer, due_ms);
  return 0;
}

int
uvwheel_timer_refresh(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL || !is_recent(timer, 0, &wheel) ||
      !postpone_by(wheel, timer, timer->interval))
    return refresh_slow(timer);
  return 0;
}

/* ---- Queries ------------------------------------------------------------ */

/* Is the timer initialised, and this its wheel's thread? */
static bool
is_known(const uvwheel_timer_t *timer)
{
  if (!is_initialised(timer))
    return false;
  uvwheel__expect_thread(home_of(timer), timer);
  return true;
}

int
uvwheel_timer_is_active(const uvwheel_timer_t *timer)
{
  if (!is_active(timer))
    return 0; /* and then there may be no wheel any more */
  uvwheel__expect_thread(home_of(timer), timer);
  return 1;
}

uvwheel_t *
uvwheel_timer_get_wheel(const uvwheel_timer_t *timer)
{
  return is_known(timer) ? home_of(timer) : NULL;
}

uint64_t
uvwheel_timer_get_due_in(const uvwheel_timer_t *timer)
{
  uint64_t now_ms;

  if (!is_active(timer))
    return 0;
  now_ms = reported_now(wheel_of(timer));
  return timer->entry.due_ms > now_ms ? timer->entry.due_ms - now_ms : 0;
}

uint64_t
uvwheel_timer_get_rounds(const uvwheel_timer_t *timer)
{
  const uvwheel_t *wheel;

  if (!is_active(timer))
    return 0;
  wheel = wheel_of(timer);
  return rounds_of(&wheel->core, &timer->entry, reported_now(wheel));
}

void
uvwheel_timer_set_repeat(uvwheel_timer_t *timer, uint64_t repeat)
{
  if (is_known(timer))
    set_repeat(timer, repeat);
}

uint64_t
uvwheel_timer_get_repeat(const uvwheel_timer_t *timer)
{
  return is_known(timer) && repeats(timer) ? timer->interval : 0;
}

int
uvwheel_timer_set_missed(uvwheel_timer_t *timer, uvwheel_missed_t missed)
{
  if (!is_known(timer) || (unsigned)missed > UVWHEEL_MISSED_BURST)
    return UV_EINVAL;
  timer->home = (timer->home & ~HOME_MISSED) | (uint64_t)missed;
  return 0;
}

static void
set_timer_unref(uvwheel_timer_t *timer, uint64_t unref)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || (timer->home & HOME_UNREF) == unref)
    return;
  wheel = wheel_of(timer);
  timer->home ^= HOME_UNREF;
  if (!is_active(timer))
    return;
  wheel->unrefd += unref ? 1 : (uint64_t)-1;
  uvwheel__update_ref(wheel);
}

void
uvwheel_timer_ref(uvwheel_timer_t *timer)
{
  set_timer_unref(timer, 0);
}

void
uvwheel_timer_unref(uvwheel_timer_t *timer)
{
  set_timer_unref(timer, HOME_UNREF);
}

int
uvwheel_timer_has_ref(const uvwheel_timer_t *timer)
{
  return is_known(timer) && !(timer->home & HOME_UNREF);
}
