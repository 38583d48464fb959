/* SPDX-License-Identifier: MIT */

/* The binding: drives a wheel from a libuv loop.
 *
 * One uv_timer_t, the driver, is armed for the next tick at which the wheel
 * has something to look at, and not armed at all when the wheel is empty. What
 * happens inside a turn (the driver's callback) arms nothing: the turn does
 * that once, at its end. */

#include "uvwheel.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "checks.h"
#include "core.h"

/* uvwheel_t.flags */
#define CLOSING 1u /* uvwheel_close was called */
#define UNREF 2u   /* uvwheel_unref was called */
#define IN_TURN 4u /* the driver's callback is running */

/* The lowest bits of uvwheel_timer_t.home */
#define TIMER_UNREF ((uintptr_t)1)
#define TIMER_REPEATS ((uintptr_t)2)
#define TIMER_FLAGS (TIMER_UNREF | TIMER_REPEATS)

/* libuv's own, in every 1.x: uv_handle_t.flags. */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static uv_handle_t *
driver_of(const uvwheel_t *wheel)
{
  return (uv_handle_t *)&wheel->driver;
}

/* The wheel that this thread used last, as uvwheel_timer_t.home has it; at
 * first a value that no timer has. */
static _Thread_local INITIAL_EXEC uintptr_t recent_home = 1;

/* Whether the timer belongs to that wheel, as is usual. If so, *wheel is it.
 * The point is what the processor makes of it. The timer may
 * have to come from memory; the processor guesses how the comparison ends and
 * goes on with the wheel it has at hand, where otherwise all that follows
 * would have to wait for the timer. Starts of cold timers take half the time
 * by it, refreshes three quarters. OPAQUE keeps the compiler from seeing that
 * the wheel could be had from the timer as well. */
static inline bool
is_usual(const uvwheel_timer_t *timer, uvwheel_t **wheel)
{
  uintptr_t recent = recent_home, guess = recent;

  OPAQUE(guess);
  *wheel = (uvwheel_t *)guess;
  return (timer->home & ~TIMER_FLAGS) == recent;
}

static inline uvwheel_t *
wheel_of(const uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (LIKELY(is_usual(timer, &wheel)))
    return wheel;
  recent_home = timer->home & ~TIMER_FLAGS;
  return (uvwheel_t *)recent_home;
}

static bool
is_initialised(const uvwheel_timer_t *timer)
{
  return timer != NULL && timer->home > TIMER_FLAGS;
}

static bool
is_active(const uvwheel_timer_t *timer)
{
  return timer != NULL && uvwheel_entry_is_active(&timer->entry);
}

/* The two things that every start and refresh asks libuv. They are read from
 * fields that uv.h declares as private, though with a fixed place, because the
 * calls to uv_now and uv_is_closing would cost a refresh XXX of its time. */
static uint64_t
now_of(const uvwheel_t *wheel)
{
  return wheel->loop->time;
}

static bool
is_closing(const uvwheel_t *wheel)
{
  return wheel->driver.flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED);
}

/* Due times saturate: UINT64_MAX is never reached. */
static uint64_t
add(uint64_t now_ms, uint64_t delay_ms)
{
  return delay_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + delay_ms;
}

/* ---- The driver -----------------------------------------------------------
 */

static void on_turn(uv_timer_t *driver);

/* Arms the driver for the next tick of interest. What a turn left over because
 * its budget was used up waits for a poll: libuv before 1.48 would run a timer
 * that is re-armed at 0 in its own callback again in the same pass. */
static void
arm(uvwheel_t *wheel)
{
  uint64_t now_ms = now_of(wheel);
  uint64_t next_ms = uvwheel_core_next_ms(&wheel->core);
  uint64_t delay_ms = uv_version() < 0x013000 ? 1 : 0;

  if (wheel->flags & IN_TURN)
    return;
  if (next_ms > now_ms)
    delay_ms = next_ms - now_ms;
  (void)uv_timer_start(&wheel->driver, on_turn, delay_ms, 0);
}

/* The driver keeps the loop alive unless the wheel or all its timers are
 * unref'd. */
static void
update_ref(uvwheel_t *wheel)
{
  if ((wheel->flags & UNREF) ||
      (wheel->unrefd != 0 && wheel->unrefd == wheel->core.count))
    uv_unref(driver_of(wheel));
  else
    uv_ref(driver_of(wheel));
}

/* Whether a timer that becomes active or idle changes who keeps the loop
 * alive. */
static bool
concerns_ref(const uvwheel_t *wheel, const uvwheel_timer_t *timer)
{
  return ((timer->home & TIMER_UNREF) | wheel->unrefd) != 0;
}

/* A timer has become active (change is 1) or idle (-1). */
static NOINLINE void
count_ref(uvwheel_t *wheel, const uvwheel_timer_t *timer, int change)
{
  if (timer->home & TIMER_UNREF)
    wheel->unrefd += (uint64_t)(int64_t)change;
  update_ref(wheel);
}

/* What enter and leave do when it is not the common case. Kept apart, so that
 * the common case is one run of code without a call. */
static NOINLINE int
enter_slowly(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms,
             bool inserted)
{
  if (!inserted && uvwheel_core_insert(&wheel->core, &timer->entry, due_ms))
    arm(wheel);
  if (concerns_ref(wheel, timer))
    count_ref(wheel, timer, 1);
  return 0;
}

static NOINLINE int
leave_slowly(uvwheel_t *wheel, uvwheel_timer_t *timer, bool removed)
{
  if (!removed)
    uvwheel_core_remove(&wheel->core, &timer->entry);
  if (concerns_ref(wheel, timer))
    count_ref(wheel, timer, -1);
  if (wheel->core.count == 0)
    (void)uv_timer_stop(&wheel->driver);
  return 0;
}

/* An idle timer becomes active. Returns 0. */
static inline int
enter(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  bool inserted = insert_beside(&wheel->core, &timer->entry, due_ms);

  if (UNLIKELY(!inserted || concerns_ref(wheel, timer)))
    return enter_slowly(wheel, timer, due_ms, inserted);
  return 0;
}

/* An active timer becomes idle. Returns 0. */
static inline int
leave(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  bool removed = remove_from_others(&wheel->core, &timer->entry);

  if (UNLIKELY(!removed || concerns_ref(wheel, timer)))
    return leave_slowly(wheel, timer, removed);
  return 0;
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

/* The timer's entry has just left the wheel. */
static void
fire(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  uint64_t now_ms = now_of(wheel);

  count_lateness(wheel, now_ms - timer->entry.due_ms);
  if (concerns_ref(wheel, timer))
    count_ref(wheel, timer, -1);
  if (timer->home & TIMER_REPEATS)
    enter(wheel, timer, add(now_ms, timer->interval));
  timer->cb(timer);
}

static void
on_turn(uv_timer_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);
  uint64_t now_ms = now_of(wheel);
  uint64_t budget = wheel->turn_budget;
  uvwheel_entry_t *entry;

  uvwheel__adopt_thread(wheel);
  wheel->stats.turns++;
  wheel->flags |= IN_TURN;
  /* A walk whose callback runs the loop has its places in the lists. */
  while (wheel->core.cursor == NULL && !is_closing(wheel) &&
         (entry = uvwheel_core_expire(&wheel->core, now_ms, &budget)) != NULL)
    fire(wheel, CONTAINER_OF(entry, uvwheel_timer_t, entry));
  wheel->flags &= ~IN_TURN;
  if (uvwheel_core_next_ms(&wheel->core) <= now_ms)
    wheel->stats.turns_cut++;
  if (wheel->core.count != 0)
    arm(wheel);
}

/* ---- The wheel ------------------------------------------------------------
 */

static bool
is_zero(const uint32_t *words, size_t count)
{
  while (count > 0 && words[count - 1] == 0)
    count--;
  return count == 0;
}

int
uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
             const uvwheel_options_t *options)
{
  uvwheel_options_t chosen = {0};
  int error;

  if (loop == NULL || wheel == NULL)
    return UV_EINVAL;
  if (options != NULL)
    chosen = *options;
  if (!is_zero(chosen.reserved, sizeof chosen.reserved / sizeof(uint32_t)))
    return UV_EINVAL;
  error = uvwheel_core_init(
      &wheel->core,
      chosen.tick_ms != 0 ? chosen.tick_ms : UVWHEEL_DEFAULT_TICK_MS,
      chosen.slots != 0 ? chosen.slots : UVWHEEL_DEFAULT_SLOTS, chosen.flags);
  if (error != 0)
    return uv_translate_sys_error(error);
  (void)uv_timer_init(loop, &wheel->driver);
  wheel->driver.data = NULL;
  wheel->loop = loop;
  wheel->close_cb = NULL;
  wheel->driver_close_cb = NULL;
  wheel->turn_budget = chosen.turn_budget != 0 ? chosen.turn_budget
                                               : UVWHEEL_DEFAULT_TURN_BUDGET;
  if (wheel->turn_budget == UINT32_MAX)
    wheel->turn_budget = UINT64_MAX;
  wheel->max_timers = chosen.max_timers != 0 ? chosen.max_timers : UINT64_MAX;
  wheel->unrefd = 0;
  wheel->flags = 0;
  wheel->has_thread = 0;
  memset(&wheel->stats, 0, sizeof wheel->stats);
  return 0;
}

static bool
driver_is_closed(const uvwheel_t *wheel)
{
  return wheel->driver.flags & UV__HANDLE_CLOSED;
}

/* libuv does not refer to the wheel any more. Should a walk do so, this is
 * called again when that is over. */
static void
finish_close(uvwheel_t *wheel)
{
  if (wheel->core.cursor != NULL)
    return;
  uvwheel_core_destroy(&wheel->core);
  if (wheel->close_cb != NULL)
    wheel->close_cb(wheel);
}

static void
on_driver_closed(uv_handle_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);

  if (wheel->driver_close_cb != NULL)
    wheel->driver_close_cb(driver);
  finish_close(wheel);
}

static void
stop_all(uvwheel_t *wheel)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  uvwheel_core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel_core_walk_next(&wheel->core, &cursor)) != NULL)
    uvwheel_core_remove(&wheel->core, entry);
  wheel->unrefd = 0;
}

void
uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb)
{
  if (wheel == NULL || wheel->loop == NULL || (wheel->flags & CLOSING))
    return;
  uvwheel__check_thread(wheel, NULL);
  wheel->flags |= CLOSING;
  wheel->close_cb = cb;
  stop_all(wheel);
  if (!is_closing(wheel)) {
    uv_close(driver_of(wheel), on_driver_closed);
  } else if (!driver_is_closed(wheel)) {
    wheel->driver_close_cb = wheel->driver.close_cb;
    wheel->driver.close_cb = on_driver_closed;
  } else {
    finish_close(wheel);
  }
}

int
uvwheel_is_closing(const uvwheel_t *wheel)
{
  return wheel != NULL && is_closing(wheel);
}

uv_loop_t *
uvwheel_get_loop(const uvwheel_t *wheel)
{
  return wheel == NULL ? NULL : wheel->loop;
}

uint64_t
uvwheel_count(const uvwheel_t *wheel)
{
  return wheel == NULL ? 0 : wheel->core.count;
}

void
uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb, void *arg)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  if (wheel == NULL || wheel->loop == NULL || cb == NULL)
    return;
  uvwheel__check_thread(wheel, NULL);
  if (wheel->core.memory == NULL)
    return;
  uvwheel_core_walk_begin(&wheel->core, &cursor);
  while ((entry = uvwheel_core_walk_next(&wheel->core, &cursor)) != NULL)
    cb(CONTAINER_OF(entry, uvwheel_timer_t, entry), arg);
  if ((wheel->flags & CLOSING) && driver_is_closed(wheel))
    finish_close(wheel);
}

void
uvwheel_ref(uvwheel_t *wheel)
{
  if (wheel == NULL || wheel->loop == NULL)
    return;
  uvwheel__check_thread(wheel, NULL);
  wheel->flags &= ~(uint64_t)UNREF;
  update_ref(wheel);
}

void
uvwheel_unref(uvwheel_t *wheel)
{
  if (wheel == NULL || wheel->loop == NULL)
    return;
  uvwheel__check_thread(wheel, NULL);
  wheel->flags |= UNREF;
  update_ref(wheel);
}

int
uvwheel_has_ref(const uvwheel_t *wheel)
{
  return wheel != NULL && !(wheel->flags & UNREF);
}

/* ---- Timers ---------------------------------------------------------------
 */

int
uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer)
{
  if (wheel == NULL || wheel->loop == NULL || timer == NULL)
    return UV_EINVAL;
  uvwheel__check_idle(wheel, timer);
  uvwheel_entry_init(&timer->entry);
  timer->home = (uintptr_t)wheel;
  timer->interval = 0;
  timer->timeout = 0;
  timer->cb = NULL;
  return 0;
}

/* Changes when an active timer is due, if that cannot be done in place.
 * Returns 0. */
static NOINLINE int
move(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (uvwheel_core_postpone(&wheel->core, &timer->entry, due_ms))
    arm(wheel);
  return 0;
}

/* Makes the timer active and due at a time. With UVWHEEL_FIFO a restart goes
 * to the end of its tick's queue at once, as it does in libuv. */
static inline int
restart(uvwheel_t *wheel, uvwheel_timer_t *timer, uint64_t due_ms)
{
  if (!is_active(timer))
    return enter(wheel, timer, due_ms);
  if (wheel->core.lane_mask != 0 && postpone_in_place(&timer->entry, due_ms))
    return 0;
  return move(wheel, timer, due_ms);
}

static bool
is_full(const uvwheel_t *wheel)
{
  return wheel->core.count >= wheel->max_timers;
}

static void
set_repeat(uvwheel_timer_t *timer, uint64_t repeat)
{
  if (repeat != 0) {
    timer->home |= TIMER_REPEATS;
    timer->interval = repeat;
  } else {
    timer->home &= ~TIMER_REPEATS;
    timer->interval = timer->timeout;
  }
}

/* A start that is not the usual one. */
static NOINLINE int
start(uvwheel_timer_t *timer, uvwheel_timer_cb cb, uint64_t timeout,
      uint64_t repeat)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || cb == NULL)
    return UV_EINVAL;
  wheel = wheel_of(timer);
  uvwheel__check_thread(wheel, timer);
  if (is_closing(wheel))
    return UV_EINVAL;
  if (!is_active(timer) && is_full(wheel))
    return UV_ENOBUFS;
  timer->cb = cb;
  timer->timeout = timeout;
  set_repeat(timer, repeat);
  return restart(wheel, timer, add(now_of(wheel), timeout));
}

int
uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                    uint64_t timeout, uint64_t repeat)
{
  uvwheel_t *wheel;

  if (timer == NULL || cb == NULL || !is_usual(timer, &wheel) ||
      is_closing(wheel) || is_active(timer) || is_full(wheel) ||
      ((timer->home & TIMER_UNREF) | wheel->unrefd | repeat) != 0 ||
      !insert_beside(&wheel->core, &timer->entry, add(now_of(wheel), timeout)))
    return start(timer, cb, timeout, repeat);
  uvwheel__check_thread(wheel, timer);
  timer->home = (uintptr_t)wheel;
  timer->cb = cb;
  timer->timeout = timeout;
  timer->interval = timeout;
  return 0;
}

int
uvwheel_timer_stop(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer))
    return UV_EINVAL;
  if (!is_active(timer))
    return 0;
  wheel = wheel_of(timer);
  uvwheel__check_thread(wheel, timer);
  return leave(wheel, timer);
}

int
uvwheel_timer_again(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || timer->cb == NULL)
    return UV_EINVAL;
  if (!(timer->home & TIMER_REPEATS))
    return 0;
  wheel = wheel_of(timer);
  uvwheel__check_thread(wheel, timer);
  if (is_closing(wheel))
    return UV_EINVAL;
  if (!is_active(timer) && is_full(wheel))
    return UV_ENOBUFS;
  return restart(wheel, timer, add(now_of(wheel), timer->interval));
}

int
uvwheel_timer_refresh(uvwheel_timer_t *timer)
{
  uvwheel_t *wheel;
  uint64_t due_ms;

  if (!is_active(timer))
    return UV_EINVAL;
  wheel = wheel_of(timer);
  uvwheel__check_thread(wheel, timer);
  due_ms = add(now_of(wheel), timer->interval);
  if (postpone_in_place(&timer->entry, due_ms))
    return 0;
  return move(wheel, timer, due_ms);
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
  if (is_initialised(timer))
    set_repeat(timer, repeat);
}

uint64_t
uvwheel_timer_get_repeat(const uvwheel_timer_t *timer)
{
  bool repeats = timer != NULL && (timer->home & TIMER_REPEATS);

  return repeats ? timer->interval : 0;
}

static void
set_unref(uvwheel_timer_t *timer, uintptr_t unref)
{
  uvwheel_t *wheel;

  if (!is_initialised(timer) || (timer->home & TIMER_UNREF) == unref)
    return;
  timer->home ^= TIMER_UNREF;
  if (!is_active(timer))
    return;
  wheel = wheel_of(timer);
  uvwheel__check_thread(wheel, timer);
  wheel->unrefd += unref ? 1 : (uint64_t)-1;
  update_ref(wheel);
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
