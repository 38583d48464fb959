/* SPDX-License-Identifier: MIT */

/* The binding: a core on a libuv loop. Its files are layers. Each calls only
 * those before it: clock.c, wake.c, timer.c, mailbox.c, turn.c, uvwheel.c,
 * stats.c. */

#ifndef UVWHEEL_BINDING_H
#define UVWHEEL_BINDING_H

#include "uvwheel.h"

#include "core.h"

#define CONTAINER_OF(pointer, type, member) \
  ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- The state of a wheel ------------------------------------------------ */

typedef struct uvwheel_state_s uvwheel_state_t;

/* All of a wheel but its data. The core's slots follow in the same block of
 * memory. Times that end in _loop_ms are times of the loop's clock, all others
 * are times of the wheel's. */
struct uvwheel_state_s {
  /* Set at init. */
  uv_loop_t *loop;
  uvwheel_t *wheel;
  void *memory; /* what the state and the slots were allocated as            */
  uint64_t lag_ms; /* by how much uv_now() may be behind real time           */
  uvwheel_options_t options;

  core_t core;
  bool is_unref;          /* uvwheel_unref was called                        */
  bool is_walking;        /* uvwheel_walk calls back                         */
  bool is_firing_soonest; /* uvwheel_fire_soonest calls back                 */
  uint64_t unrefd; /* active timers that do not keep the loop alive          */

  /* The clock's (clock.c): changed by polls, turns, and starts. */
  uint64_t set_back_ms;     /* by how much it is behind the loop's           */
  uint64_t counted_loop_ms; /* the clock, when blocked_ms was counted last   */
  uint64_t blocked_ms;      /* how long the loop was blocked since it polled */
  uint64_t sleep_until_loop_ms; /* until when the loop may sleep             */
  uint64_t full_loop_ms;        /* when the allowance was or will be full    */

  /* What wakes the loop (wake.c). */
  uv_timer_t driver;          /* fires the timers that are due               */
  uv_idle_t idle;             /* active in a spell: polls do not wait        */
  uint64_t armed_for_loop_ms; /* when the driver is due; 0: a spell goes on;
                                 NEVER: not started since its last call.
                                 uv_is_active cannot tell: since libuv 1.48 a
                                 timer is inactive once libuv finds it due   */

  /* The turn's (turn.c): changed by checks and the driver. A clock that steps
   * back resets three of the times. */
  uv_prepare_t prepare;     /* tells when a poll begins                      */
  uv_prepare_t sleep_end;   /* called before other prepare handles           */
  uv_check_t check;         /* listens after each poll                       */
  uint64_t heard_loop_ms;   /* every byte that arrived before was read, or
                               had its wait (P6); 0: nothing was heard       */
  uint64_t checked_loop_ms; /* when the last check of the spell has ended, or
                               the spell has begun                           */
  uint64_t checked_before_loop_ms; /* when the check before has ended        */
  uint64_t wait_began_loop_ms; /* when the wait of the spell began, or NEVER */
  bool wait_began_anew;  /* once in the spell, after slow callbacks. Without
                            that 680 of 1,000 peers whose datagrams wait are
                            closed when a uv_timer_t blocks for 40 ms      */
  uint64_t busy_loop_ms; /* when the loop was found not quiet              */
  uint64_t busy_polls;   /* polls in that millisecond                      */

  /* The mailbox's (mailbox.c). */
  uv_async_t async;
  uvwheel_post_t *taken;  /* requests that the loop has taken                */
  uv_mutex_t mutex;       /* guards the next three                           */
  uvwheel_post_t *posted; /* requests that threads have queued               */
  uvwheel_post_t **posted_end;
  bool is_close_called; /* posts are refused. Only the loop changes it       */
  bool has_mailbox;     /* does not change once threads may post             */

  /* The close's (uvwheel.c). */
  uvwheel_close_cb close_cb;
  unsigned open_handles; /* whose close uvwheel_close awaits                 */
  uv_idle_t close_watch; /* waits for handles that others close              */
};

/* libuv's own, in every 1.x: uv_handle_t.flags */
#define UV__HANDLE_CLOSING 1u
#define UV__HANDLE_CLOSED 2u
#define IS_CLOSING(handle) \
  (((handle).flags & (UV__HANDLE_CLOSING | UV__HANDLE_CLOSED)) != 0)

/* Every start and refresh reads the loop's time and whether the driver is
 * closing, from fields that uv.h declares as private, though with a fixed
 * place: with calls to uv_now and uv_is_closing a refresh takes 27 ns instead
 * of 19, a start 56 instead of 47 (random timers of a million). uvwheel_init
 * compares the fields with the calls. */
static inline uint64_t
loop_now(const uvwheel_state_t *state)
{
  return state->loop->time;
}

/* The wheel is closing once its driver is, whoever closes that. */
static inline bool
is_closing(const uvwheel_state_t *state)
{
  return IS_CLOSING(state->driver);
}

/* NULL for a wheel that was not initialised, or whose close is finished. */
static inline uvwheel_state_t *
get_state(const uvwheel_t *wheel)
{
  return wheel != NULL ? wheel->state : NULL;
}

/* Does a descriptor wait for the next poll, which registers it? */
static inline bool
is_watcher_waiting(const uvwheel_state_t *state)
{
#ifdef _WIN32
  (void)state;
  return false;
#else
  const void *queue = &state->loop->watcher_queue;

  /* A queue is empty if its first link points to itself. */
  return *(const void *const *)queue != queue;
#endif
}

/* ---- The clock (clock.c) ------------------------------------------------- */

/* The wheel's clock; 0 once the wheel is closing, as then there may be no loop,
 * and while the loop's clock has stepped back too far. */
static inline uint64_t
wheel_now(const uvwheel_state_t *state)
{
  return is_closing(state) ? 0 : excess(loop_now(state), state->set_back_ms);
}

/* A time of the loop on the wheel's clock, minus lag_ms: a timer that is due
 * before it has waited for its whole timeout. 0 if the time lies ahead: the
 * loop's clock has stepped back, and bytes that arrive from now on have not
 * been read. */
static inline uint64_t
to_wheel_ms(const uvwheel_state_t *state, uint64_t loop_ms)
{
  return loop_ms <= loop_now(state)
             ? excess(loop_ms, state->set_back_ms + state->lag_ms)
             : 0;
}

/* Due times saturate: UINT64_MAX is never reached. */
static inline uint64_t
add_ms(uint64_t now_ms, uint64_t delay_ms)
{
  uint64_t sum_ms = now_ms + delay_ms;

  return LIKELY(sum_ms >= delay_ms) ? sum_ms : UINT64_MAX;
}

/* The time now, by the clock that the loop reads. (uv_now is older: the end of
 * the last poll, or a later uv_update_time.) */
uint64_t uvwheel__clock_ms(const uvwheel_state_t *state);
/* The loop's clock is behind what it was: all times of the loop that are kept
 * are older than the step, and will come again. */
void uvwheel__step_back(uvwheel_state_t *state, uint64_t by_ms);
/* Counts the time up to now as blocked, except what lies before both the loop's
 * time and sleep_until_loop_ms: that counts as sleep. */
void uvwheel__add_blocked(uvwheel_state_t *state);
/* The callback of sleep_end: the loop does not sleep any more. */
void uvwheel__on_sleep_end(uv_prepare_t *sleep_end);
/* The first timer of an empty wheel starts: what has blocked the loop before
 * the loop's time does not count. What did since then does: the timer's due
 * time counts from there. */
void uvwheel__forget_blocked(uvwheel_state_t *state);
/* A poll has returned. Counts a stall if the loop was blocked for too long, and
 * sets the wheel's clock back, unless the allowance is used up. */
void uvwheel__end_poll(uvwheel_state_t *state);
/* How much time may be forgiven now, in ms. */
uint64_t uvwheel__get_allowance(const uvwheel_state_t *state);

/* A batch: callbacks of the wheel that run one after the other. */
typedef struct batch_s {
  uint64_t begin_ns;
  uint64_t read_ns;    /* when the clock was read last */
  uint64_t unread;     /* callbacks since              */
  uint64_t read_every; /* callbacks until it is read   */
} batch_t;

void uvwheel__begin_batch(batch_t *batch);
/* Updates turn_max_us: call it at the end, too. Returns whether turn_ms is
 * over. */
bool uvwheel__read_clock(uvwheel_state_t *state, batch_t *batch);

/* One more callback has run. Is turn_ms over, as far as is known? */
static inline bool
count_callback(uvwheel_state_t *state, batch_t *batch)
{
  return ++batch->unread >= batch->read_every &&
         uvwheel__read_clock(state, batch);
}

/* ---- What wakes the loop (wake.c) ---------------------------------------- */

/* Arms the driver for so many ms from the loop's time. */
void uvwheel__start_driver(uvwheel_state_t *state, uint64_t delay_ms);
/* Arms the driver for the wheel's next tick, unless it is armed for that or an
 * earlier time. Disarms it if the wheel is empty. */
void uvwheel__arm(uvwheel_state_t *state);
/* Nothing wakes the loop for the wheel any more, and polls wait again: the loop
 * may sleep for ever. What was heard up to now does not count for later timers.
 */
void uvwheel__disarm(uvwheel_state_t *state);
/* Others have closed some of the wheel's handles. Closes the driver, and with
 * it the wheel, and lets polls wait again. */
void uvwheel__abandon(uvwheel_state_t *state);
/* Sets whether the wheel's handles keep the loop alive. */
void uvwheel__update_refs(uvwheel_state_t *state);
/* The callback of idle: a spell goes on. */
void uvwheel__on_idle(uv_idle_t *idle);

/* ---- Timers (timer.c) ---------------------------------------------------- */

/* uvwheel_timer_t.wheel_and_flags is the address of the wheel's state, and four
 * flags in bits in which that has zeros, as uvwheel_init aligns it:
 *
 *   63 ...                                 4    3      2     1 0
 *   |  address of the state                | idle | unref | missed |
 *
 * A closed timer has the idle flag alone. */
#define TIMER_MISSED UINT64_C(3)
#define TIMER_UNREF UINT64_C(4)
#define TIMER_IDLE UINT64_C(8)
#define TIMER_FLAGS (TIMER_MISSED | TIMER_UNREF | TIMER_IDLE)

static inline uvwheel_timer_t *
timer_of(uvwheel_entry_t *entry)
{
  return CONTAINER_OF(entry, uvwheel_timer_t, entry);
}

/* The core has just handed out a timer's entry, in a turn that fires the timers
 * that are due by limit_ms: starts the timer again if it repeats, and calls its
 * callback. */
void uvwheel__fire(uvwheel_state_t *state, uvwheel_entry_t *entry,
                   uint64_t limit_ms);

/* ---- The mailbox (mailbox.c) --------------------------------------------- */

/* Calls back the queued requests with UV_ECANCELED. */
void uvwheel__cancel_posts(uvwheel_state_t *state);
/* The callback of async: threads have posted requests, or some are left. */
void uvwheel__on_post(uv_async_t *async);

/* ---- Turns (turn.c) ------------------------------------------------------ */

/* The callbacks of the handles of the same names. */
void uvwheel__on_driver(uv_timer_t *driver);
void uvwheel__on_prepare(uv_prepare_t *prepare);
void uvwheel__on_check(uv_check_t *check);

#endif /* UVWHEEL_BINDING_H */
