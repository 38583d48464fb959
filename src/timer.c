/* SPDX-License-Identifier: MIT */

/* The binding's timers. Start, stop, again and refresh run their usual case
 * without a call. The fewer instructions they have, the more cold timers the
 * processor works on at a time. */

#include "binding.h"

/* ---- The wheel of a timer ----------------------------------------------- */

/* The wheel that this thread used last; at first a value that no timer has. */
static THREAD_LOCAL uint64_t recent_wheel = 1;

static uvwheel_t *
home_of(const uvwheel_timer_t *timer)
{
  return (uvwheel_t *)(uintptr_t)(timer->home & ~HOME_FLAGS);
}

static NOINLINE uvwheel_t *
note_wheel(const uvwheel_timer_t *timer)
{
  uvwheel_t *wheel = home_of(timer);

  if (wheel != NULL)
    recent_wheel = (uintptr_t)wheel;
  return wheel;
}

/* The wheel of a timer; NULL if it was never initialised, or closed.
 *
 * The next timer is likely to have the same wheel as the last one. The gain is
 * speculation. The timer may have to come from memory; the processor predicts
 * the comparison and goes on with the recent wheel, where everything would
 * otherwise wait for the timer. A start of a cold timer takes 23 ns instead of
 * 60. CONCEAL keeps the compiler from loading the wheel from the timer. */
static inline uvwheel_t *
wheel_of(const uvwheel_timer_t *timer)
{
  uint64_t recent = recent_wheel;
  uintptr_t guess = (uintptr_t)recent;

  CONCEAL(guess);
  if (LIKELY((timer->home & ~HOME_FLAGS) == recent))
    return (uvwheel_t *)guess;
  return note_wheel(timer);
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

/* ---- Becoming active and idle ------------------------------------------- */

/* The number of active timers has changed, by change if the timer is unref'd:
 * that may change who keeps the loop alive. */
static NOINLINE void
update_refs(uvwheel_t *wheel, const uvwheel_timer_t *timer, int change)
{
  if (timer->home & HOME_UNREF)
    wheel->unrefd += (uint64_t)(int64_t)change;
  uvwheel__update_refs(wheel);
}

static inline bool
are_refs_affected(const uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  return UNLIKELY(((timer->home & HOME_UNREF) | wheel->unrefd) != 0);
}

/* Starts or restarts a timer. All that gives a timer a new time, except a
 * refresh and a repeat, comes here. */
static inline int
set_due(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t delay_ms)
{
  uvwheel_core_t *core = &wheel->core;
  uint64_t due_ms;
  bool is_sooner;

  if (is_closing(wheel)) /* then there may be no loop */
    return UV_EINVAL;
  due_ms = add_ms(wheel_now(wheel), delay_ms);
  if (LIKELY(timer->home & HOME_IDLE)) {
    if (UNLIKELY(uvwheel__core_count(core) >= core->capacity))
      return UV_ENOBUFS;
    timer->home &= ~HOME_IDLE;
    is_sooner = uvwheel__core_insert(core, &timer->entry, due_ms);
    if (are_refs_affected(wheel, timer))
      update_refs(wheel, timer, 1);
  } else if (UNLIKELY(is_fifo(core))) {
    is_sooner = uvwheel__core_move(core, &timer->entry, due_ms);
  } else {
    is_sooner = uvwheel__core_postpone(core, &timer->entry, due_ms);
  }
  if (UNLIKELY(is_sooner))
    uvwheel__arm(wheel);
  return 0;
}

/* When a repeating timer that fires in a turn up to limit_ms is due again: at
 * the first time of the beat that is not before the last tick of that turn. A
 * later time, such as the loop's time now, would halve the rate of a beat in
 * phase with the ticks. */
static uint64_t
next_due_ms(const uvwheel_t *wheel, const uvwheel_timer_t *timer,
            uint64_t limit_ms)
{
  uint64_t missed = timer->home & HOME_MISSED, repeat = timer->repeat;
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

  if (timer->repeat != 0) {
    if (uvwheel__core_insert(&wheel->core, entry,
                             next_due_ms(wheel, timer, limit_ms)))
      uvwheel__arm(wheel);
  } else {
    timer->home |= HOME_IDLE;
    if (are_refs_affected(wheel, timer))
      update_refs(wheel, timer, -1);
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
  MISUSE_IF((timer->home & ~(HOME_MISSED | HOME_UNREF)) == (uintptr_t)wheel &&
                is_linked(&timer->entry.link),
            &timer->entry, "initialised while active");
  poison(&timer->entry);
  timer->home = (uintptr_t)wheel | HOME_IDLE;
  timer->timeout = 0;
  timer->repeat = 0;
  timer->cb = NULL;
  return 0;
}

int
uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                    uint64_t timeout, uint64_t repeat)
{
  uvwheel_t *wheel;
  int error;

  if (timer == NULL || cb == NULL)
    return UV_EINVAL;
  wheel = wheel_of(timer);
  if (UNLIKELY(wheel == NULL))
    return UV_EINVAL;
  error = set_due(wheel, timer, timeout);
  if (LIKELY(error == 0)) {
    timer->cb = cb;
    timer->timeout = timeout;
    timer->repeat = repeat;
  }
  return error;
}

int
uvwheel_timer_stop(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL)
    return UV_EINVAL;
  wheel = wheel_of(timer);
  if (timer->home & HOME_IDLE)
    return 0; /* and then there may be no wheel any more */
  if (UNLIKELY(wheel == NULL))
    return UV_EINVAL;
  uvwheel__core_remove(&wheel->core, &timer->entry);
  timer->home |= HOME_IDLE;
  if (are_refs_affected(wheel, timer))
    update_refs(wheel, timer, -1);
  if (UNLIKELY(uvwheel__core_count(&wheel->core) == 0))
    uvwheel__disarm(wheel);
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

int
uvwheel_timer_again(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (timer == NULL)
    return UV_EINVAL;
  wheel = wheel_of(timer);
  if (UNLIKELY(wheel == NULL || timer->cb == NULL))
    return UV_EINVAL;
  if (timer->repeat == 0)
    return 0;
  return set_due(wheel, timer, timer->repeat);
}

int
uvwheel_timer_refresh(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;
  uint64_t delay_ms;

  if (timer == NULL)
    return UV_EINVAL;
  wheel = wheel_of(timer);
  if (UNLIKELY(wheel == NULL || (timer->home & HOME_IDLE)))
    return UV_EINVAL;
  delay_ms = timer->repeat != 0 ? timer->repeat : timer->timeout;
  if (UNLIKELY(uvwheel__core_postpone(&wheel->core, &timer->entry,
                                      add_ms(wheel_now(wheel), delay_ms))))
    uvwheel__arm(wheel);
  return 0;
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
  return timer != NULL ? home_of(timer) : NULL;
}

uint64_t
uvwheel_timer_get_due_in(const uvwheel_timer_t *timer)
{
  uint64_t now_ms;

  if (!is_active(timer))
    return 0;
  now_ms = public_now(home_of(timer));
  return timer->entry.due_ms > now_ms ? timer->entry.due_ms - now_ms : 0;
}

uint64_t
uvwheel_timer_get_rounds(const uvwheel_timer_t *timer)
{
  const uvwheel_t *wheel;

  if (!is_active(timer))
    return 0;
  wheel = home_of(timer);
  return rounds_of(&wheel->core, &timer->entry, public_now(wheel));
}

void
uvwheel_timer_set_repeat(uvwheel_timer_t *timer, uint64_t repeat)
{
  if (is_initialised(timer))
    timer->repeat = repeat;
}

uint64_t
uvwheel_timer_get_repeat(const uvwheel_timer_t *timer)
{
  return is_initialised(timer) ? timer->repeat : 0;
}

int
uvwheel_timer_set_missed(uvwheel_timer_t *timer, uvwheel_missed_t missed)
{
  if (!is_initialised(timer) || (unsigned)missed > UVWHEEL_MISSED_BURST)
    return UV_EINVAL;
  timer->home = (timer->home & ~HOME_MISSED) | (uint64_t)missed;
  return 0;
}

static void
set_timer_unref(uvwheel_timer_t *timer, uint64_t unref)
{
  if (!is_initialised(timer) || (timer->home & HOME_UNREF) == unref)
    return;
  if (is_active(timer)) {
    uvwheel_t *wheel = home_of(timer);
    wheel->unrefd += unref ? 1 : (uint64_t)-1;
    uvwheel__update_refs(wheel);
  }
  timer->home ^= HOME_UNREF;
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
  return is_initialised(timer) && !(timer->home & HOME_UNREF);
}
