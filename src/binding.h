/* SPDX-License-Identifier: MIT */

/* The binding: a core on a libuv loop. Its files are layers, in the order of
 * meson.build. */

#ifndef UVWHEEL_BINDING_H
#define UVWHEEL_BINDING_H

#include "uvwheel.h"

#include "core.h"

#define NS_PER_MS UINT64_C(1000000)
#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- The state of a wheel ------------------------------------------------ */

/* A struct belongs to the file of its name; test/layers lists who else writes
 * to it. Fields that end in _ms here are times of the clock that uv_now() and
 * uv_hrtime() share. A time in the past that never was is 0, one in the future
 * that never comes is NEVER. */

typedef enum phase_e {
  DISARMED,           /* the wheel is empty                                  */
  ARMED_FOR_TICK,     /* the driver was armed for a tick                     */
  ARMED_FOR_CHECK_IN, /* it was armed for an earlier time, to notice stalls  */
  IN_SPELL            /* the check runs the turns; see listen.c              */
} phase_t;

#define MAX_CHAIN 6 /* the most stalls in a chain; 7 marks an appointment */

/* The last stall, and those that it follows: a chain. */
typedef struct stall_s {
  uint64_t chain; /* how many stalls it counts                               */
  uint64_t ended_ms[MAX_CHAIN + 1]; /* when its nth was noticed; [0]: 0      */
  uint64_t gave[MAX_CHAIN + 1]; /* ms that its first n give together; [0]: 0 */
} stall_t;

typedef struct wake_s {
  uv_timer_t driver; /* wakes the loop, and runs turns outside spells        */
  uv_idle_t idle;    /* active in a spell: polls do not wait                 */
  phase_t phase;     /* not uv_is_active: libuv 1.48 stops due timers early  */
  bool others_wake;  /* since start_driver a poll seemed to end for no wheel  */
  uint64_t run_by_ms; /* a run after this is late: when the driver is due;    */
                      /* ran_ms until it is armed (spells); NEVER: DISARMED   */
  uint64_t ran_ms;    /* when uvwheel__note_run was called last               */
  uint64_t unref_timers; /* active, but do not keep the loop alive           */
} wake_t;

typedef struct listen_s {
  uv_check_t check;       /* called after a poll                             */
  uint64_t quiet_ms;      /* when prepare_turn found the loop quiet, or 0    */
  uint64_t budget;        /* what move_refreshed has left of turn_budget     */
  uint64_t wait_began_ms; /* since when the timers of a spell wait           */
  bool wait_began_anew;   /* once; false again if quiet, or in a new spell    */
  uint64_t turned_ms;     /* a spell's next turn goes up to this at most     */
  uint64_t busy_ms;       /* uv_now() at the last ask; 0 if it was the answer */
  uint64_t busy_polls;    /* asks in that millisecond, skipped ones, too     */
#ifdef UVWHEEL_CHECKS
  uv_prepare_t prepare; /* tells when a poll begins                          */
  const char *poller;   /* uvwheel__this_thread of the one that polls        */
#endif
} listen_t;

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
  uvwheel_options_t options;
  uint64_t most_active; /* options.max_timers; UINT64_MAX: no limit          */
  uint64_t lag;         /* the ms by which the loop's clock may lag: 0 or 1   */
  uint64_t stall_after; /* options.stall_ms, or NEVER                        */
  uint64_t turn_ns;     /* options.turn_ms in ns, or NEVER                   */
  uint64_t busy_wait;   /* ms that a tick waits at least, if never quiet     */

  uvwheel_stats_t stats; /* the core has its own                             */
  core_t core;
  stall_t stall;
  wake_t wake;
  listen_t listen;
  mailbox_t mailbox;

  bool is_firing_soonest; /* uvwheel_fire_soonest calls back; turn.c's       */
  /* uvwheel.c's. */
  uvwheel_link_t wheels_of_loop; /* a circular list without a head           */
  bool is_unref;        /* does not keep the loop alive                      */
  bool is_walking;      /* uvwheel_walk calls back                           */
  bool is_close_called; /* posts are refused                                 */
  uvwheel_close_cb close_cb;
  unsigned closing_handles; /* whose close uvwheel_close awaits              */
  uv_idle_t close_watch; /* waits for handles that others close              */
} uvwheel_state_t;

/* libuv's own values of uv_handle_t.flags */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u
#define IS_OPENED(handle) ((handle).type != UV_UNKNOWN_HANDLE)
#define IS_CLOSING(handle) \
  (((handle).flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED)) != 0)

/* Starts and refreshes read private fields of libuv, which uvwheel_init tests:
 * with calls of uv_now and uv_is_closing a refresh of a cold timer takes 1.4
 * times as long, a start 1.2 times. */
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

/* NULL for a wheel that is all zeros, or whose close is finished. */
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
static inline uint64_t add_ms(uint64_t now_ms, uint64_t delay) {
  uint64_t sum_ms = now_ms + delay;

  return LIKELY(sum_ms >= delay) ? sum_ms : UINT64_MAX;
}

/* A timer due before this has had its whole timeout by `ms` (P1). */
static inline uint64_t without_lag(const uvwheel_state_t *state, uint64_t ms) {
  return excess(ms, state->lag);
}

/* Has a tick at which timers may fire come by then? False if closing. */
static inline bool needs_turn_by(const uvwheel_state_t *state, uint64_t ms) {
  return !is_closing(state) &&
         uvwheel__core_next_ms(&state->core) <= without_lag(state, ms);
}

/* ---- Stalls (stall.c) --------------------------------------------------- */

/* The wheel runs now, late by late_by: that is a stall. */
void uvwheel__note_stall(uvwheel_state_t *state, uint64_t now_ms,
                         uint64_t late_by);
/* Puts an expired timer back, if the rule says so. Returns whether it did.
 * Requires: waited_in_stall. */
bool uvwheel__try_put_back(uvwheel_state_t *state, uvwheel_timer_t *timer);

/* When a timer's peer counts as heard. A put-back makes that later, too. */
static inline uint64_t heard_ms(const uvwheel_timer_t *timer) {
  return excess(timer->entry.due_ms, timer->interval);
}

/* Does a timer's peer count as heard before the last stall was noticed? */
static inline bool waited_in_stall(const uvwheel_state_t *state,
                                   const uvwheel_timer_t *timer) {
  return heard_ms(timer) < state->stall.ended_ms[state->stall.chain];
}

/* ---- What wakes the loop (wake.c) ---------------------------------------- */

/* The wheel runs now. If it is late by more than stall_after: a stall. */
void uvwheel__note_run(uvwheel_state_t *state, uint64_t now_ms);
/* The next tick may be earlier than before: makes the driver due in time for
 * it, unless a spell goes on. Disarms an empty wheel. */
void uvwheel__arm(uvwheel_state_t *state);
/* The wheel has run: begins or continues a spell, or arms the driver, or
 * disarms an empty wheel. Requires: is_in_spell, or !needs_turn_by(now). */
void uvwheel__go_on(uvwheel_state_t *state, bool is_in_spell);
/* After a poll, if the driver is not due: may arm it for a check-in. */
void uvwheel__plan_check_in(uvwheel_state_t *state);
/* Stops the driver and the idle handle. */
void uvwheel__disarm(uvwheel_state_t *state);
/* Others have closed handles of the wheel: closes the driver (is_closing). */
void uvwheel__abandon(uvwheel_state_t *state);
/* The callback of idle. */
void uvwheel__on_idle(uv_idle_t *idle);
/* Sets whether the wheel's handles keep the loop alive: timers have become
 * active or idle, is_unref has changed, or the mailbox was opened. */
void uvwheel__update_refs(uvwheel_state_t *state);
/* Adds `change` to unref_timers, then does the same. */
void uvwheel__count_unref(uvwheel_state_t *state, int change);

/* ---- Timers (timer.c) ---------------------------------------------------- */

/* uvwheel_timer_t.wheel_and_flags is the address of the wheel's state, and
 * flags in bits in which that has zeros, as uvwheel_init aligns it:
 *
 *   63 ...                         7      6 5 4       3      2     1 0
 *   |  address of the state        | stalls given | idle | unref | missed |
 *
 * "Stalls given" is how many stalls the chain had when the timer was put back
 * last; a refresh clears it, a new chain does not. All three bits: an
 * appointment. A usual active timer measures silence, and has no flags. An idle
 * timer is an appointment, but a closed one has the idle flag alone. */
#define TIMER_MISSED UINT64_C(3)
#define TIMER_UNREF UINT64_C(4)
#define TIMER_IDLE UINT64_C(8)
#define STALL_GIVEN UINT64_C(16)
#define TIMER_KIND (7 * STALL_GIVEN) /* the bits of "stalls given" */
#define TIMER_APPOINTMENT TIMER_KIND
#define TIMER_SILENCE UINT64_C(0) /* it measures silence, was given nothing */
#define TIMER_FLAGS (TIMER_MISSED | TIMER_UNREF | TIMER_IDLE | TIMER_KIND)

static inline uvwheel_timer_t *timer_of(uvwheel_entry_t *entry) {
  return CONTAINER_OF(entry, uvwheel_timer_t, entry);
}

static inline uvwheel_state_t *state_of(const uvwheel_timer_t *timer) {
  return (uvwheel_state_t *)(uintptr_t)(timer->wheel_and_flags & ~TIMER_FLAGS);
}

static inline bool is_appointment(const uvwheel_timer_t *timer) {
  return (timer->wheel_and_flags & TIMER_KIND) == TIMER_APPOINTMENT;
}

/* A refresh adds uvwheel_timer_t.interval to the time: the repeat or, without
 * one, the timeout. (To choose between two fields would take 0.3 ns more.)
 * uvwheel_timer_t.saved_timeout: the timeout if it repeats, else NO_REPEAT. */
#define NO_REPEAT UINT64_MAX

static inline bool repeats(const uvwheel_timer_t *timer) {
  return timer->saved_timeout != NO_REPEAT;
}

/* A timer has become active (1) or idle (-1). While unref'd timers are active,
 * the first and the last other timer may change the driver's reference. */
static inline void count_active(uvwheel_state_t *state,
                                const uvwheel_timer_t *timer, int change) {
  uint64_t unref_timers = state->wake.unref_timers;

  if ((timer->wheel_and_flags & TIMER_UNREF) != 0)
    uvwheel__count_unref(state, change);
  else if (unref_timers != 0 && state->core.active - unref_timers <= 1)
    uvwheel__update_refs(state);
}

/* ---- Turns (turn.c) ------------------------------------------------------ */

/* A batch: callbacks of the wheel that run one after the other. */
typedef struct batch_s {
  uint64_t begin_ns;
  uint64_t read_ns;    /* when the clock was read last */
  uint64_t unread;     /* callbacks, put-backs since   */
  uint64_t read_every; /* how many until it is read    */
} batch_t;

void uvwheel__begin_batch(batch_t *batch);
/* Updates turn_max_us, so call it at the end, too. Returns: is turn_ms over? */
bool uvwheel__read_clock(uvwheel_state_t *state, batch_t *batch);

/* One more callback or put-back. Is turn_ms over, as far as is known? */
static inline bool count_callback(uvwheel_state_t *state, batch_t *batch) {
  return ++batch->unread >= batch->read_every &&
         uvwheel__read_clock(state, batch);
}

/* Runs a turn: fires, or puts back, timers whose tick came by until_ms. It ends
 * if uv_now() steps back to before until_ms (P1). Returns whether a tick still
 * waits, or the turn may have been a stall: then, if a timer is active, a spell
 * has to follow. */
bool uvwheel__run_turn(uvwheel_state_t *state, uint64_t until_ms,
                       uint64_t budget);

/* ---- Listening (listen.c) ------------------------------------------------ */

/* The least busy_wait. Meanwhile a loop may read a few thousand datagrams. */
#define MIN_WAIT 25

/* Callbacks: the driver is due; a poll has returned, or begins. */
void uvwheel__on_driver(uv_timer_t *driver);
void uvwheel__on_check(uv_check_t *check);
#ifdef UVWHEEL_CHECKS
void uvwheel__on_prepare(uv_prepare_t *prepare);
#endif

/* ---- The mailbox (mailbox.c) --------------------------------------------- */

/* Calls back the queued requests with UV_ECANCELED. */
void uvwheel__cancel_posts(uvwheel_state_t *state);
/* The callback of async: requests may wait. */
void uvwheel__on_post(uv_async_t *async);

#endif /* UVWHEEL_BINDING_H */
