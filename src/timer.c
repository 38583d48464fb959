/* SPDX-License-Identifier: MIT */

/* The binding's timers. Start, stop and refresh run their usual case without a
 * call: few instructions let the processor work on several cold timers. */

#include "binding.h"

/* ---- The wheel of a timer ----------------------------------------------- */

/* The state of the wheel that this thread used last; 1, which no timer has. */
static THREAD_LOCAL uint64_t recent_state = 1;

static uvwheel_state_t *state_of(const uvwheel_timer_t *timer) {
  return (uvwheel_state_t *)(uintptr_t)(timer->wheel_and_flags & ~TIMER_FLAGS);
}

#ifdef UVWHEEL_CHECKS
/* Each thread has its own variable, at another address. */
const void *uvwheel__this_thread(void) {
  return &recent_state;
}

static inline bool is_other_thread(const uvwheel_state_t *state) {
  return state->turn.poller != NULL && state->turn.poller != &recent_state;
}
#else
#define is_other_thread(state) false
#endif

/* Is the timer's wheel the recent one, and does the timer have these flags? If
 * so, *state is the state of the wheel. A usual active timer has no flags, so
 * one comparison shows that it is active, and on which wheel.
 *
 * The gain is speculation. The timer may have to come from memory; the
 * processor predicts the comparison and goes on with the recent wheel, where
 * everything would otherwise wait for the timer. A start of a cold timer takes
 * 23 ns instead of 60. CONCEAL: the state must not be loaded from the timer. */
static inline bool guess_state(const uvwheel_timer_t *timer, uint64_t flags,
                               uvwheel_state_t **state) {
  uint64_t recent = recent_state;
  uintptr_t guess = (uintptr_t)recent;

  CONCEAL(guess);
  *state = (uvwheel_state_t *)guess;
  return LIKELY(timer->wheel_and_flags == recent + flags) &&
         !is_other_thread(*state);
}

/* Returns the state of an initialised timer's wheel, and remembers it: the next
 * timer is likely to have the same wheel. */
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

static inline void set_timeout(uvwheel_timer_t *timer, uint64_t timeout) {
  timer->interval = timeout;
  timer->timeout = NO_REPEAT;
}

static void set_times(uvwheel_timer_t *timer, uint64_t timeout,
                      uint64_t repeat) {
  timer->wheel_and_flags &= ~TIMER_FIRST;
  set_timeout(timer, timeout);
  if (repeat != 0) {
    timer->interval = repeat;
    timer->timeout = min_of(timeout, NO_REPEAT - 1);
    if (timeout != repeat)
      timer->wheel_and_flags |= TIMER_FIRST;
  }
}

/* ---- Becoming active and idle ------------------------------------------- */

/* The usual cases call this only at their end, so that they need no stack. */
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

/* The unusual cases: the due time is earlier than before, or past UINT64_MAX,
 * or a timer of a FIFO wheel goes to the end of the queue. */
static NOINLINE int move(uvwheel_state_t *state, uvwheel_timer_t *timer,
                         uint64_t delay_ms) {
  uint64_t due_ms = add_ms(loop_now(state), delay_ms);

  if (due_ms == UINT64_MAX) /* never reached, wherever the timer waits */
    timer->entry.due_ms = due_ms;
  else if (uvwheel__core_move(&state->core, &timer->entry, due_ms))
    uvwheel__arm(state);
  return 0;
}

/* An active timer is due at another time, which is usually not earlier. */
static inline int postpone(uvwheel_state_t *state, uvwheel_timer_t *timer,
                           uint64_t delay_ms) {
  uint64_t due_ms;

  if (UNLIKELY(ADD_OVERFLOWS(loop_now(state), delay_ms, &due_ms) ||
               due_ms < timer->entry.due_ms))
    return move(state, timer, delay_ms);
  timer->entry.due_ms = due_ms;
  return 0;
}

/* Can a start be done by postpone()? Not in a FIFO wheel, where a start puts
 * the timer at the end of the queue. */
static inline bool can_postpone(const uvwheel_timer_t *timer,
                                uvwheel_state_t **state) {
  return guess_state(timer, 0, state) && !is_closing(*state) &&
         !is_fifo(&(*state)->core);
}

#ifdef UVWHEEL_CHECKS
static THREAD_LOCAL const uvwheel_timer_t *called_back; /* its callback runs */

void uvwheel__set_called_back(const uvwheel_timer_t *timer) {
  called_back = timer;
}
#endif

/* ---- Functions ---------------------------------------------------------- */

int uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer) {
  if (get_state(wheel) == NULL || timer == NULL)
    return UV_EINVAL;
  /* The memory may hold anything, but hardly an active timer of this wheel to
   * which its neighbours are linked. */
  MISUSE_IF(state_of(timer) == wheel->state && is_active(timer) &&
                is_linked(&timer->entry.link),
            "timer", timer, "initialised while active");
  poison(&timer->entry);
  timer->wheel_and_flags = (uintptr_t)wheel->state | TIMER_IDLE;
  timer->cb = NULL;
  set_times(timer, 0, 0);
  SET_CALLED_BACK(NULL); /* the memory may be that timer's */
  return 0;
}

/* Starts or restarts any timer. */
static NOINLINE int start_any(uvwheel_timer_t *timer, uint64_t delay_ms) {
  uvwheel_state_t *state;
  bool was_active = is_active(timer);

  if (!is_initialised(timer) || is_closing(state_of(timer)))
    return UV_EINVAL;
  state = remember_state(timer);
  if (!was_active && state->core.active >= state->max_timers)
    return UV_ENOBUFS;
  timer->wheel_and_flags &= ~(TIMER_IDLE | TIMER_WAIT);
  if (was_active)
    return (is_fifo(&state->core) ? move : postpone)(state, timer, delay_ms);
  (void)insert(state, timer, add_ms(loop_now(state), delay_ms));
  update_unref(state, timer, 1);
  return 0;
}

static NOINLINE int start_slow(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                               uint64_t timeout, uint64_t repeat) {
  int error = start_any(timer, timeout);

  if (error != 0)
    return error;
  timer->cb = cb;
  set_times(timer, timeout, repeat);
  return 0;
}

int uvwheel_timer_start(uvwheel_timer_t *timer, uvwheel_timer_cb cb,
                        uint64_t timeout, uint64_t repeat) {
  uvwheel_state_t *state;
  uint64_t due_ms;

  if (timer == NULL || cb == NULL)
    return UV_EINVAL;
  MISUSE_IF(
      timeout >> 63 != 0 && timeout != UINT64_MAX, "timer", timer,
      "started with a timeout of 2^63 ms or more: a negative difference?");
  if (LIKELY(repeat == 0) && guess_state(timer, TIMER_IDLE, &state) &&
      !is_closing(state) && !ADD_OVERFLOWS(loop_now(state), timeout, &due_ms) &&
      state->core.active < state->max_timers &&
      LIKELY(state->wake.unref_timers == 0)) {
    timer->wheel_and_flags = (uintptr_t)state;
    timer->cb = cb;
    set_timeout(timer, timeout);
    return insert(state, timer, due_ms);
  }
  if (repeat == 0 && can_postpone(timer, &state)) {
    timer->cb = cb;
    set_timeout(timer, timeout);
    return postpone(state, timer, timeout);
  }
  return start_slow(timer, cb, timeout, repeat);
}

static NOINLINE int stop_last(uvwheel_state_t *state) {
  uvwheel__core_vacate_all(&state->core);
  uvwheel__disarm(state);
  return 0;
}

static NOINLINE int stop_slow(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || timer->wheel_and_flags == 0)
    return UV_EINVAL;
  if (!is_active(timer))
    return 0; /* and there may be no wheel any more */
  state = remember_state(timer);
  timer->wheel_and_flags |= TIMER_IDLE;
  if (!uvwheel__core_remove(&state->core, &timer->entry))
    (void)stop_last(state);
  update_unref(state, timer, -1);
  return 0;
}

int uvwheel_timer_stop(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || !guess_state(timer, 0, &state) ||
      state->wake.unref_timers != 0)
    return stop_slow(timer);
  timer->wheel_and_flags = (uintptr_t)state | TIMER_IDLE;
  if (UNLIKELY(!uvwheel__core_remove(&state->core, &timer->entry)))
    return stop_last(state);
  return 0;
}

/* The idle flag lets a closed timer, which has no wheel, be stopped again. */
void uvwheel_timer_close(uvwheel_timer_t *timer) {
  if (uvwheel_timer_stop(timer) == 0)
    timer->wheel_and_flags = TIMER_IDLE;
}

int uvwheel_timer_again(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer != NULL && repeats(timer) && can_postpone(timer, &state))
    return postpone(state, timer, timer->interval);
  if (!is_initialised(timer) || timer->cb == NULL)
    return UV_EINVAL;
  return repeats(timer) ? start_any(timer, timer->interval) : 0;
}

static NOINLINE int refresh_slow(uvwheel_timer_t *timer) {
  MISUSE_IF(timer != NULL && timer == called_back && !is_active(timer), "timer",
            timer,
            "refreshed in its own callback, where it is not active: start it");
  if (!is_active(timer))
    return UV_EINVAL;
  timer->wheel_and_flags &= ~TIMER_WAIT;
  return postpone(remember_state(timer), timer, timer->interval);
}

int uvwheel_timer_refresh(uvwheel_timer_t *timer) {
  uvwheel_state_t *state;

  if (timer == NULL || !guess_state(timer, 0, &state))
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
  bool is_first;

  if (!is_initialised(timer))
    return;
  is_first = !repeats(timer) || (timer->wheel_and_flags & TIMER_FIRST) != 0;
  set_times(timer, repeats(timer) ? timer->timeout : timer->interval, repeat);
  if (!is_first)
    timer->wheel_and_flags &= ~TIMER_FIRST;
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
    uvwheel__count_unref(state_of(timer), unref ? 1 : -1);
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

/* ---- Misuse ------------------------------------------------------------- */

#ifdef UVWHEEL_CHECKS

#include <inttypes.h>
#include <stdlib.h>

void uvwheel__check_thread(const uvwheel_state_t *state,
                           const uvwheel_timer_t *timer) {
  static const char what[] = "used by another thread while its loop polls";

  if (!is_other_thread(state) || is_closing(state))
    return;
  MISUSE_IF(timer != NULL, "timer", timer, what);
  fprintf(stderr, "uvwheel: wheel %p: %s\n", (const void *)state->wheel, what);
  abort();
}

void uvwheel__misuse(const char *kind, const void *object, uintptr_t callback,
                     const char *what) {
  fprintf(stderr, "uvwheel: %s %p, callback 0x%" PRIxPTR ": %s\n", kind, object,
          callback, what);
  abort();
}

/* The memory may even be gone: so the place is printed before it is read. */
void uvwheel__overwritten(const core_t *core, const uvwheel_link_t *link) {
  const uvwheel_state_t *state = CONTAINER_OF(core, uvwheel_state_t, core);
  uvwheel_timer_t *timer = timer_of(entry_of((uvwheel_link_t *)link));

  fprintf(stderr, "uvwheel: timer %p, ", (void *)timer);
  if (state_of(timer) == state)
    fprintf(stderr, "callback 0x%" PRIxPTR, (uintptr_t)timer->cb);
  else
    fprintf(stderr, "whose memory holds no timer of this wheel");
  fprintf(stderr,
          ": its links were overwritten, or it was freed while active\n");
  abort();
}

#endif
