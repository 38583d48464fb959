/* SPDX-License-Identifier: MIT */

/* The binding: a core on a libuv loop. Its files are layers. Each calls only
 * those before it: wake.c, timer.c, turn.c, mailbox.c, uvwheel.c, stats.c. */

#ifndef UVWHEEL_BINDING_H
#define UVWHEEL_BINDING_H

#include "uvwheel.h"

#include "core.h"

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- The state of a wheel ------------------------------------------------ */

/* Each struct belongs to the file of its name: no other file writes to it. All
 * times are times of the loop's clock, uv_now(). */

typedef enum phase_e {
  DISARMED,       /* nothing wakes the loop: the wheel is empty           */
  ARMED_FOR_TICK, /* the driver is due at the wheel's next tick           */
  ARMED_FOR_LOOK, /* the driver is due before that, to notice stalls      */
  IN_SPELL        /* polls do not wait, and the check runs the turns      */
} phase_t;

typedef struct wake_s {
  uv_timer_t driver;   /* calls a turn when timers are due                   */
  uv_idle_t idle;      /* active in a spell: polls do not wait               */
  phase_t phase;       /* uv_is_active cannot tell: since libuv 1.48 a timer
                          is inactive once libuv finds it due                */
  bool has_polled;     /* since the driver was armed                         */
  uint64_t awaited_ms; /* when the driver is due; NEVER if it is not armed;
                          in a spell, when the wheel was looked at last      */
  uint64_t stalled_until_ms; /* when the last stall was noticed; 0: never    */
  uint64_t put_back_ms;      /* by how much a stall puts a timer back        */
  uint64_t gives_until_ms;   /* when the time that it gives is over          */
  uint64_t unref_timers;     /* active, but do not keep the loop alive       */
  bool is_unref;             /* uvwheel_unref was called                     */
} wake_t;

typedef struct turn_s {
  uv_check_t check;           /* listens after each poll                     */
  uint64_t heard_ms;          /* the turn of the driver may fire timers that
                                 are due by then; 0: none. A check sets it   */
  uint64_t budget;            /* what the check has left of that turn's      */
  uint64_t checked_before_ms; /* in a spell: the look before the last one    */
  uint64_t wait_began_ms;     /* when the wait of the spell began, or NEVER  */
  bool wait_began_anew;       /* once in the spell, after slow callbacks     */
  uint64_t busy_ms;           /* when the loop was found not quiet           */
  uint64_t busy_polls;        /* polls in that millisecond                   */
  bool is_firing_soonest;     /* uvwheel_fire_soonest calls back             */
#ifdef UVWHEEL_CHECKS
  uv_prepare_t prepare; /* tells when a poll begins                          */
  const void *poller;   /* the thread that polls, or NULL                    */
#endif
} turn_t;

typedef struct mailbox_s {
  uv_async_t async;       /* all zeros until the mailbox is opened           */
  uvwheel_post_t *taken;  /* requests that the loop has taken                */
  uv_mutex_t mutex;       /* guards the next two, and is_close_called        */
  uvwheel_post_t *posted; /* requests that threads have queued               */
  uvwheel_post_t **posted_end;
} mailbox_t;

/* All of a wheel but its data. The core's slots follow in the same memory. */
typedef struct uvwheel_state_s {
  /* Set at init. */
  uv_loop_t *loop;
  uvwheel_t *wheel;
  void *memory; /* what the state and the slots were allocated as            */
  uint64_t lag_ms; /* by how much uv_now() may be behind real time           */
  uvwheel_options_t options;
  uint64_t max_timers; /* how many may be active; UINT64_MAX: no limit       */
  uint64_t stall_ms;   /* the wheel is looked at later: a stall; or NEVER    */

  core_t core; /* and the statistics that each file counts                   */
  wake_t wake;
  turn_t turn;
  mailbox_t mailbox;

  /* uvwheel.c's. */
  bool is_walking;      /* uvwheel_walk calls back                           */
  bool is_close_called; /* posts are refused; only the loop changes it       */
  uvwheel_close_cb close_cb;
  unsigned open_handles; /* whose close uvwheel_close awaits                 */
  uv_idle_t close_watch; /* waits for handles that others close              */
} uvwheel_state_t;

/* libuv's own, in every 1.x: uv_handle_t.flags */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u
#define IS_OPENED(handle) ((handle).type != UV_UNKNOWN_HANDLE)
#define IS_CLOSING(handle) \
  (((handle).flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED)) != 0)

/* Every start and refresh reads the loop's time and whether the driver is
 * closing, from fields that uv.h declares as private, though with a fixed
 * place: with calls to uv_now and uv_is_closing a refresh takes 27 ns instead
 * of 19, a start 56 instead of 47 (random timers of a million). uvwheel_init
 * compares the fields with the calls. */
static inline uint64_t loop_now(const uvwheel_state_t *state) {
  return state->loop->time;
}

/* The wheel is closing once its driver is, whoever closes that. */
static inline bool is_closing(const uvwheel_state_t *state) {
  return IS_CLOSING(state->wake.driver);
}

/* 0 once the wheel is closing, as then there may be no loop. */
static inline uint64_t now_or_0(const uvwheel_state_t *state) {
  return is_closing(state) ? 0 : loop_now(state);
}

#ifdef UVWHEEL_CHECKS
/* Tells this thread from all others. */
const void *uvwheel__this_thread(void);
/* Reports that another thread than the poller calls, for a timer or NULL. */
void uvwheel__check_thread(const uvwheel_state_t *state,
                           const uvwheel_timer_t *timer);
#else
#define uvwheel__check_thread(state, timer) ((void)0)
#endif

/* NULL for a wheel that was not initialised, or whose close is finished. */
static inline uvwheel_state_t *get_state(const uvwheel_t *wheel) {
  uvwheel_state_t *state = wheel != NULL ? wheel->state : NULL;

  if (state != NULL)
    uvwheel__check_thread(state, NULL);
  return state;
}

/* Does a descriptor wait for the next poll, which registers it? */
static inline bool is_watcher_waiting(const uvwheel_state_t *state) {
#ifdef _WIN32
  (void)state;
  return false;
#else
  const void *queue = &state->loop->watcher_queue;

  /* A queue is empty if its first link points to itself. */
  return *(const void *const *)queue != queue;
#endif
}

/* Due times saturate: UINT64_MAX is never reached. */
static inline uint64_t add_ms(uint64_t now_ms, uint64_t delay_ms) {
  uint64_t sum_ms = now_ms + delay_ms;

  return LIKELY(sum_ms >= delay_ms) ? sum_ms : UINT64_MAX;
}

/* A timer that is due before this has waited for its whole timeout by `ms`. */
static inline uint64_t without_lag(const uvwheel_state_t *state, uint64_t ms) {
  return excess(ms, state->lag_ms);
}

/* Has the wheel to be looked at by then? (A timer may be due; maybe all were
 * refreshed.) Never if it is closing. */
static inline bool needs_turn_by(const uvwheel_state_t *state, uint64_t ms) {
  return !is_closing(state) &&
         uvwheel__core_next_ms(&state->core) <= without_lag(state, ms);
}

/* ---- What wakes the loop, and stalls (wake.c) ---------------------------- */

/* The wheel is looked at now, late by so many ms. Writes a stall down. */
void uvwheel__look(uvwheel_state_t *state, uint64_t now_ms, uint64_t late_ms);
/* A timer was started or moved: arms the driver for the wheel's next tick,
 * unless it is due by then or a spell goes on. Disarms an empty wheel. */
void uvwheel__arm(uvwheel_state_t *state);
/* Nothing is due any more: arms the driver anew, and lets polls wait. */
void uvwheel__rearm(uvwheel_state_t *state);
/* A poll has returned before the driver is due: may arm it for a look. */
void uvwheel__look_in(uvwheel_state_t *state);
/* Lets the loop's other timers that are due run before the driver. */
void uvwheel__let_others_first(uvwheel_state_t *state);
/* Polls do not wait from now on, until uvwheel__rearm. */
void uvwheel__begin_spell(uvwheel_state_t *state);
/* Nothing wakes the loop for the wheel any more, and polls wait again. */
void uvwheel__disarm(uvwheel_state_t *state);
/* Others have closed some of the wheel's handles. Closes the driver, and with
 * it the wheel, and lets polls wait again. */
void uvwheel__abandon(uvwheel_state_t *state);
/* The callback of idle: a spell goes on. */
void uvwheel__on_idle(uv_idle_t *idle);
/* Set whether the wheel's handles keep the loop alive: after uvwheel_ref, or
 * when the mailbox was opened; and when that many more timers are unref'd. */
void uvwheel__set_unref(uvwheel_state_t *state, bool is_unref);
void uvwheel__count_unref(uvwheel_state_t *state, int change);

/* ---- Timers (timer.c) ---------------------------------------------------- */

/* uvwheel_timer_t.wheel_and_flags is the address of the wheel's state, and
 * flags in bits in which that has zeros, as uvwheel_init aligns it:
 *
 *   63 ...                         6     5        4       3      2     1 0
 *   |  address of the state        | first | put back | idle | unref | missed |
 *
 * A timer in its first wait is due a timeout after its start, and repeats after
 * another time. One that was put back after a stall fires when it expires next.
 * Both flags are cleared by a start, a refresh, and when the timer fires. A
 * closed timer has the idle flag alone. */
#define TIMER_MISSED UINT64_C(3)
#define TIMER_UNREF UINT64_C(4)
#define TIMER_IDLE UINT64_C(8)
#define TIMER_PUT_BACK UINT64_C(16)
#define TIMER_FIRST UINT64_C(32)
#define TIMER_WAIT (TIMER_PUT_BACK | TIMER_FIRST)
#define TIMER_FLAGS (TIMER_MISSED | TIMER_UNREF | TIMER_IDLE | TIMER_WAIT)

static inline uvwheel_timer_t *timer_of(uvwheel_entry_t *entry) {
  return CONTAINER_OF(entry, uvwheel_timer_t, entry);
}

/* A refresh adds uvwheel_timer_t.interval to the time: the repeat or, without
 * one, the timeout. (If a refresh had to choose between two fields, it would
 * take 0.3 ns more, 1 ns more if the timer is cold.)
 * uvwheel_timer_t.timeout is the last start's; without a repeat, NO_REPEAT. */
#define NO_REPEAT UINT64_MAX

static inline bool repeats(const uvwheel_timer_t *timer) {
  return timer->timeout != NO_REPEAT;
}

/* Counts a timer that becomes active (1) or idle (-1), if some are unref'd. */
static inline void update_unref(uvwheel_state_t *state,
                                const uvwheel_timer_t *timer, int change) {
  uint64_t unref = timer->wheel_and_flags & TIMER_UNREF;

  if ((unref | state->wake.unref_timers) != 0)
    uvwheel__count_unref(state, unref ? change : 0);
}

#ifdef UVWHEEL_CHECKS
/* Sets the timer whose callback runs; NULL: none does. */
void uvwheel__set_called_back(const uvwheel_timer_t *timer);
#define SET_CALLED_BACK(timer) uvwheel__set_called_back(timer)
#else
#define SET_CALLED_BACK(timer) ((void)0)
#endif

/* ---- Turns (turn.c) ------------------------------------------------------ */

/* Callbacks: the driver is due; a poll has returned, or begins. */
void uvwheel__on_driver(uv_timer_t *driver);
void uvwheel__on_check(uv_check_t *check);
#ifdef UVWHEEL_CHECKS
void uvwheel__on_prepare(uv_prepare_t *prepare);
#endif

/* A batch: callbacks of the wheel that run one after the other. */
typedef struct batch_s {
  uint64_t begin_ns;
  uint64_t read_ns;    /* when the clock was read last */
  uint64_t unread;     /* callbacks since              */
  uint64_t read_every; /* callbacks until it is read   */
} batch_t;

void uvwheel__begin_batch(batch_t *batch);
/* Updates turn_max_us, so call it at the end, too. Returns: is turn_ms over? */
bool uvwheel__read_clock(uvwheel_state_t *state, batch_t *batch);

/* One more callback has run. Is turn_ms over, as far as is known? */
static inline bool count_callback(uvwheel_state_t *state, batch_t *batch) {
  return ++batch->unread >= batch->read_every &&
         uvwheel__read_clock(state, batch);
}

/* ---- The mailbox (mailbox.c) --------------------------------------------- */

/* Calls back the queued requests with UV_ECANCELED. */
void uvwheel__cancel_posts(uvwheel_state_t *state);
/* The callback of async: threads have posted requests, or some are left. */
void uvwheel__on_post(uv_async_t *async);

#endif /* UVWHEEL_BINDING_H */
