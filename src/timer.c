/* SPDX-License-Identifier: MIT */

/* The binding's timers. Start, stop and refresh have a usual case of few
 * instructions, which lets the processor work on several cold timers. */

#include "binding.h"

/* ---- The wheel of a timer ----------------------------------------------- */

/* The state that this thread has remembered last; at first 1, which none is. */
static THREAD_LOCAL uint64_t recent_state = 1;

/* Is the timer's wheel the recent one, and do its flags equal `flags`, but for
 * the ignored ones? If so, *state is the wheel's. One comparison shows both.
 *
 * The gain is speculation. The timer may have to come from memory; the
 * processor predicts the comparison and goes on with the recent wheel. If it
 * waited for the timer, a start of a cold timer would take 2.6 times as long.
 * CONCEAL: do not load the state from the timer. */
static inline bool guess_state(const uvwheel_timer_t *timer, uint64_t flags,
                               uint64_t ignored, uvwheel_state_t **state) {
  uint64_t recent = recent_state;
  uintptr_t guess = (uintptr_t)recent;

  CONCEAL(guess);
  *state = (uvwheel_state_t *)guess;
  return LIKELY((timer->wheel_and_flags & ~ignored) == recent + flags) &&
         !IS_OTHER_THREAD(*state);
}

/* Returns the state of an initialised timer's wheel, and remembers it for the
 * next timer. */
static uvwheel_state_t *remember_state(const uvwheel_timer_t *timer) {
  uvwheel_state_t *state = state_of(timer);

  uvwheel__check_thread(state, timer);
  recent_state = (uintptr_t)state;
  return state;
}

static bool is_initialised(const uvwheel_timer_t *timer) {
  return timer != NULL && state_of(timer) != NULL;
}

static bool is_active(const uvwheel_timer_t *timer) {
  return is_initialised(timer) && !(timer->wheel_and_flags & TIMER_IDLE);
}

static void check_zeros(const uvwheel_timer_t *timer) {
  MISUSE_IF(timer != NULL && timer->wheel_and_flags == 0, "timer", timer,
            "used although it is all zeros: no init, or one that failed");
  (void)timer;
}

/* kind: TIMER_APPOINTMENT or TIMER_SILENCE. */
static inline void set_kind(uvwheel_timer_t *timer, uint64_t kind) {
  timer->wheel_and_flags = (timer->wheel_and_flags & ~TIMER_KIND) | kind;
}

static inline void set_times(uvwheel_timer_t *timer, uint64_t timeout,
                             uint64_t repeat) {
  timer->interval = repeat != 0 ? repeat : timeout;
  timer->saved_timeout =
      repeat != 0 ? min_of(timeout, NO_REPEAT - 1) : NO_REPEAT;
}

/* ---- Becoming active and idle ------------------------------------------- */

/* The usual cases call this at their end, so that they need no stack. */
static NOINLINE int insert_slow(uvwheel_state_t *state,
                                uvwheel_timer_t *timer) {
  if (uvwheel__core_put(&state->core, &timer->entry))
    uvwheel__arm(state);
  return 0;
}

static inline int insert(uvwheel_state_t *state, uvwheel_timer_t *timer,
                         uint64_t due_ms) {
  if (LIKELY(uvwheel__core_insert(&state->core, &timer->entry, due_ms)))
    return 0;
  return insert_slow(state, timer);
}

/* The unusual cases: the due time is earlier than before, or a timer of a FIFO
 * wheel is restarted. */
static NOINLINE int move(uvwheel_state_t *state, uvwheel_timer_t *timer,
                         uint64_t delay) {
  if (uvwheel__core_move(&state->core, &timer->entry,
                         add_ms(loop_now(state), delay)))
    uvwheel__arm(state);
  return 0;
}

/* An active timer is due at another time, usually not an earlier one. */
static inline int postpone(uvwheel_state_t *state, uvwheel_timer_t *timer,
                           uint64_t delay) {
  uint64_t due_ms = add_ms(loop_now(state), delay);

  if (UNLIKELY(due_ms < timer->entry.due_ms))
    return move(state, timer, delay);
  timer->entry.due_ms = due_ms;
  return 0;
}

/* May insert() start the timer? It is idle, has no other flag but its kind, and
 * is of the recent wheel, which is open and not full. No handle's reference
 * changes: no timer is active, or one with a reference is. */
static inline bool can_insert(const uvwheel_timer_t *timer,
                              uvwheel_state_t **state) {
  return guess_state(timer, TIMER_IDLE + TIMER_APPOINTMENT, 0, state) &&
         !is_closing(*state) && (*state)->core.active < (*state)->most_active &&
         LIKELY((*state)->core.active != (*state)->wake.unref_timers ||
                (*state)->core.active == 0);
}

/* May postpone() restart the timer? It is active, has no flag but its kind, and
 * is of the recent wheel, which is open and not FIFO (there it goes last). */
static inline bool can_postpone(const uvwheel_timer_t *timer,
                                uvwheel_state_t **state) {
  return guess_state(timer, 0, TIMER_KIND, state) && !is_closing(*state) &&
         !is_fifo(&(*state)->core);
}

/* ---- Functions ---------------------------------------------------------- */

int uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer) {
  if (timer == NULL)
    return UV_EINVAL;
  if (get_state(wheel) == NULL || is_closing(wheel->state)) {
    timer->wheel_and_flags = 0; /* then it counts as all zeros */
    return UV_EINVAL;
  }
  check_aligned(timer);
  /* The memory may hold anything, but hardly an active timer of this wheel to
   * which its neighbours are linked. */
  MISUSE_IF(state_of(timer) == wheel->state && is_active(timer) &&
                is_linked(&timer->entry.link),
            "timer", timer, "initialised while active");
  poison(&timer->entry);
  timer->wheel_and_flags =
      (uintptr_t)wheel->state | TIMER_IDLE | TIMER_APPOINTMENT;
  timer->cb = NULL;
  set_times(timer, 0, 0);
  return 0;
}

/* delay: the timeout or, for uvwheel_timer_again, the repeat. */
static NOINLINE int start_slow(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                               uint64_t timeout, uint64_t repeat, uint64_t kind,
                               uint64_t delay) {
  uvwheel_state_t *state;
  bool was_active = is_active(timer);

  check_zeros(timer);
  if (!is_initialised(timer) || is_closing(state_of(timer)))
    return UV_EINVAL;
  state = remember_state(timer);
  if (!was_active && state->core.active >= state->most_active)
    return UV_ENOBUFS;
  timer->wheel_and_flags &= ~TIMER_IDLE;
  set_kind(timer, kind);
  timer->cb = cb;
  set_times(timer, timeout, repeat);
  if (was_active)
    return (is_fifo(&state->core) ? move : postpone)(state, timer, delay);
  (void)insert(state, timer, add_ms(loop_now(state), delay));
  count_active(state, timer, 1);
  return 0;
}

static inline int start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                        uint64_t timeout, uint64_t repeat, uint64_t kind) {
  uvwheel_state_t *state;

  if (timer == NULL || cb == NULL)
    return UV_EINVAL;
  MISUSE_IF(
      timeout >> 63 != 0 && timeout != UINT64_MAX, "timer", timer,
      "started with a timeout of 2^63 ms or more: a negative difference?");
  if (LIKELY(repeat == 0) && can_insert(timer, &state)) {
    /* Becomes active and `kind`: the guess has shown its flags. */
    timer->wheel_and_flags -= TIMER_IDLE + TIMER_APPOINTMENT - kind;
    timer->cb = cb;
    set_times(timer, timeout, 0);
    return insert(state, timer, add_ms(loop_now(state), timeout));
  }
  if (repeat == 0 && can_postpone(timer, &state)) {
    set_kind(timer, kind);
    timer->cb = cb;
    set_times(timer, timeout, 0);
    return postpone(state, timer, timeout);
  }
  return start_slow(timer, cb, timeout, repeat, kind, timeout);
}

int uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                        uint64_t timeout, uint64_t repeat) {
  return start(timer, cb, timeout, repeat, TIMER_APPOINTMENT);
}

int uvwheel_timer_expect(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                         uint64_t timeout) {
  return start(timer, cb, timeout, 0, TIMER_SILENCE);
}

static NOINLINE int stop_slow(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || timer->wheel_and_flags == 0)
    return UV_EINVAL;
  if (!is_active(timer))
    return 0; /* and there may be no wheel any more */
  state = remember_state(timer);
  timer->wheel_and_flags |= TIMER_IDLE | TIMER_APPOINTMENT;
  uvwheel__core_remove(&state->core, &timer->entry);
  if (state->core.active == 0)
    uvwheel__disarm(state);
  count_active(state, timer, -1);
  return 0;
}

/* Usually another timer with a reference is active: then no handle changes. */
int uvwheel_timer_stop(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || !guess_state(timer, 0, TIMER_KIND, &state) ||
      UNLIKELY(state->core.active - 1 == state->wake.unref_timers))
    return stop_slow(timer);
  timer->wheel_and_flags |= TIMER_IDLE | TIMER_APPOINTMENT;
  uvwheel__core_remove_one(&state->core, &timer->entry);
  MUST_HOLD(state->core.active > state->wake.unref_timers);
  return 0;
}

/* The idle flag lets a closed timer, which has no wheel, be stopped again. */
void uvwheel_timer_close(uvwheel_timer_t *timer) {
  if (uvwheel_timer_stop(timer) == 0)
    timer->wheel_and_flags = TIMER_IDLE;
}

static NOINLINE int again_slow(uvwheel_timer_t *timer) {
  check_zeros(timer);
  if (!is_initialised(timer) || timer->cb == NULL)
    return UV_EINVAL;
  if (!repeats(timer))
    return 0;
  return start_slow(timer, timer->cb, timer->saved_timeout, timer->interval,
                    is_appointment(timer) ? TIMER_APPOINTMENT : TIMER_SILENCE,
                    timer->interval);
}

int uvwheel_timer_again(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || !can_postpone(timer, &state) || !repeats(timer))
    return again_slow(timer);
  if (!is_appointment(timer))
    set_kind(timer, TIMER_SILENCE);
  return postpone(state, timer, timer->interval);
}

static NOINLINE int refresh_slow(uvwheel_timer_t *timer) {
  check_zeros(timer);
  if (!is_active(timer)) {
    MISUSE_IF(
        timer != NULL && timer == uvwheel__called_back && timer->cb != NULL,
        "timer", timer,
        "refreshed in its own callback, where it is not active: expect it");
    return UV_EINVAL;
  }
  set_kind(timer, TIMER_SILENCE);
  return postpone(remember_state(timer), timer, timer->interval);
}

int uvwheel_timer_refresh(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || !guess_state(timer, 0, 0, &state))
    return refresh_slow(timer);
  return postpone(state, timer, timer->interval);
}

/* ---- Queries and settings ----------------------------------------------- */

int uvwheel_timer_is_active(const uvwheel_timer_t *timer) {
  return is_active(timer);
}

uvwheel_t *uvwheel_timer_get_wheel(const uvwheel_timer_t *timer) {
  return is_initialised(timer) ? state_of(timer)->wheel : NULL;
}

uint64_t uvwheel_timer_get_due_in(const uvwheel_timer_t *timer) {
  if (!is_active(timer))
    return 0;
  return excess(timer->entry.due_ms, now_or_0(state_of(timer)));
}

uint64_t uvwheel_timer_get_rounds(const uvwheel_timer_t *timer) {
  if (!is_active(timer))
    return 0;
  return rounds_of(&state_of(timer)->core, &timer->entry,
                   now_or_0(state_of(timer)));
}

void uvwheel_timer_set_repeat(uvwheel_timer_t *timer, uint64_t repeat) {
  if (is_initialised(timer))
    set_times(timer, repeats(timer) ? timer->saved_timeout : timer->interval,
              repeat);
}

uint64_t uvwheel_timer_get_repeat(const uvwheel_timer_t *timer) {
  return is_initialised(timer) && repeats(timer) ? timer->interval : 0;
}

int uvwheel_timer_set_missed(uvwheel_timer_t *timer, uvwheel_missed_t missed) {
  if (!is_initialised(timer) || (unsigned)missed > UVWHEEL_MISSED_BURST)
    return UV_EINVAL;
  timer->wheel_and_flags =
      (timer->wheel_and_flags & ~TIMER_MISSED) | (uint64_t)missed;
  return 0;
}

static void set_timer_unref(uvwheel_timer_t *timer, uint64_t unref) {
  if (!is_initialised(timer) || (timer->wheel_and_flags & TIMER_UNREF) == unref)
    return;
  timer->wheel_and_flags ^= TIMER_UNREF;
  if (is_active(timer))
    uvwheel__count_unref(remember_state(timer), unref ? 1 : -1);
}

void uvwheel_timer_ref(uvwheel_timer_t *timer) {
  set_timer_unref(timer, 0);
}

void uvwheel_timer_unref(uvwheel_timer_t *timer) {
  set_timer_unref(timer, TIMER_UNREF);
}

int uvwheel_timer_has_ref(const uvwheel_timer_t *timer) {
  return is_initialised(timer) && !(timer->wheel_and_flags & TIMER_UNREF);
}
