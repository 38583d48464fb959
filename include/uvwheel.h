/* SPDX-License-Identifier: MIT */

/* uvwheel: a timing wheel for libuv loops.
 *
 * A server that restarts a uv_timer_t for each packet pays heap operations.
 * With a uvwheel_timer_t it pays a short call and, mostly, one store:
 *
 *   uvwheel_t wheel;                                  one per loop
 *   uvwheel_init(loop, &wheel, NULL);
 *
 *   struct connection {                               one per connection
 *     uv_tcp_t tcp;
 *     uvwheel_timer_t idle;
 *   };
 *   uvwheel_timer_init(&wheel, &connection->idle);
 *   uvwheel_timer_expect(&connection->idle, on_idle, 30000);
 *   uvwheel_timer_refresh(&connection->idle);         at each packet
 *   uvwheel_timer_close(&connection->idle);           no close callback
 *
 * Rules for every function, unless its comment says otherwise:
 *
 * - Times are milliseconds of uv_now(), the time that the loop has cached.
 *   After slow work call uv_update_time() before you start a timer.
 * - A function that can fail returns 0 or a negative UV_E* code. One that fails
 *   changes nothing, except an init: what that leaves counts as all zeros. A
 *   NULL wheel or timer, or one that is all zeros, is UV_EINVAL; functions that
 *   return no error code ignore such a call and return 0 or NULL. From its
 *   close callback on, a wheel counts as all zeros.
 * - Every function may be called inside any callback, on any timer of the
 *   wheel. Do not run the loop inside a callback. A callback must return: a
 *   longjmp or a C++ exception out of one is undefined.
 * - Every function except uvwheel_post belongs to the loop's thread. While the
 *   loop does not run, other threads may call them, one after the other, with a
 *   mutex or a join between them. At any time any thread may stop, close or
 *   free a timer of its own that is not active.
 * - Of the library's own code only uvwheel_init allocates, only uvwheel_print
 *   prints, and nothing aborts. But built with -Dchecks=true it reports misuse
 *   and likely mistakes on stderr, and aborts. That may run in production:
 *   README.md has its cost. Its uvwheel_timer_init and uvwheel_post may look at
 *   uninitialised memory, so valgrind and MemorySanitizer may report them.
 * - An active timer must not be moved in memory, as realloc does.
 * - A call costs O(1).
 *
 * Promises about time, but for uvwheel_fire_soonest and wheels whose handles
 * others have closed. A timer is due at uv_now() + timeout. It fires in a turn:
 * one run of callbacks after a poll of the loop.
 *
 * - P1. Never early. A timer fires at the first multiple of tick_ms strictly
 *   after its due time, or later (P2). So the full timeout has passed since the
 *   update of uv_now(), which rounds down. (On Linux with CONFIG_HZ=1000
 *   libuv's clock may lag by 1 ms; there timers fire 1 ms later.)
 * - P2. A timer fires at most one tick (and that 1 ms) after its due time, plus
 *   what would delay a uv_timer_t, a few iterations, the turns before its own
 *   (P8), and the wait of P6. A put-back moves the due time.
 * - P3. A timeout of 0 fires at the next tick, never in the turn that runs.
 * - P4. Ticks fire in order. Timers of two wheels, or of a wheel and of libuv,
 *   have no order, nor have those of one tick without UVWHEEL_FIFO.
 * - P5. Any timeout is legal. A due time beyond UINT64_MAX is never reached. (A
 *   checks build takes 2^63 ms or more for a mistake, except UINT64_MAX.)
 * - P6. Heard first. A due timer fires after a poll that has left nothing to be
 *   heard: no descriptor is ready or waits to be registered, and the mailbox is
 *   empty. Without such a poll it waits for about q, a quarter of a tick (25
 *   to 250 ms), and any poll. Slow callbacks may begin this wait anew, once.
 *   A stall: the wheel runs more than stall_ms late, whatever the cause: slow
 *   callbacks, a stopped process, a late uv_run. Peers may have gone unheard.
 *   So a timer that measures silence is put back: when it expires, it becomes
 *   due later.
 *   - uvwheel_timer_expect and uvwheel_timer_refresh speak of a peer: the timer
 *     measures its silence until it fires, is stopped or started.
 *     uvwheel_timer_start makes an appointment, which is not put back: a stall
 *     delays it about as it delays a uv_timer_t. Expect and refresh what peers
 *     send; start what you send, deadlines and leases.
 *   - If the wheel ran S late, a timer is mostly put back by S + min(S, 1 s),
 *     once, unless it was refreshed since. Stalls close to each other add up,
 *     to a limit. No put-back makes a timer due later than a refresh at the end
 *     of the last stall would.
 *   The rule, its figures, and which blocks go unnoticed: docs/how-it-works.md;
 *   systems: docs/platforms.md.
 * - P7. By default a repeat keeps its beat. One that fires more than stall_ms +
 *   q (P6), and P1's 1 ms, after its tick, by uv_hrtime(), begins a new one.
 *   Two calls are at least repeat - stall_ms - q - tick_ms apart, by uv_now().
 * - P8. A wheel has at most one turn per poll; turn_budget and turn_ms end it.
 * - P9. No idle wake-ups. An empty wheel arms no timer. Others wake the loop
 *   only at ticks that were given a timer, and for check-ins, to notice stalls:
 *   half-way to a far tick, and so on. A check-in ends UV_RUN_ONCE. A loop
 *   that only wheels wake mostly has none. A turn on time mostly adds no poll.
 * - P10. A wheel does not age: for years of uptime a call costs about the same.
 *
 * Each 1.x keeps the names, the sizes of the structs, the errors, P1 to P5 and
 * P7 to P10 (P2 and P7 with the wait of its own P6). Of P6 it keeps that what
 * came in is read first, that a start is an appointment, and that a timer which
 * measures silence is put back. The figures of P6 and P9 may change: how long
 * the wait is, what is a stall, what stalls give, when the wheel checks in. */

#ifndef UVWHEEL_H
#define UVWHEEL_H

#include <stdint.h>
#include <stdio.h>

#include <uv.h>

/* The version of this header; the library that runs may have another one. */
#define UVWHEEL_VERSION_MAJOR 1
#define UVWHEEL_VERSION_MINOR 0
#define UVWHEEL_VERSION_PATCH 0
#define UVWHEEL_VERSION_IS_RELEASE 0
#define UVWHEEL_VERSION_SUFFIX "dev" /* "" in a release */

/* One number to compare, laid out like libuv's UV_VERSION_HEX. */
#define UVWHEEL_VERSION_HEX                                       \
  ((UVWHEEL_VERSION_MAJOR << 16) | (UVWHEEL_VERSION_MINOR << 8) | \
   UVWHEEL_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* On Windows a program that uses the DLL may define UVWHEEL_USING_SHARED, which
 * saves a jump per call. */
#ifndef UVWHEEL_EXTERN
#if defined(_WIN32) && defined(UVWHEEL_BUILDING_SHARED)
#define UVWHEEL_EXTERN __declspec(dllexport)
#elif defined(_WIN32) && defined(UVWHEEL_USING_SHARED)
#define UVWHEEL_EXTERN __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define UVWHEEL_EXTERN __attribute__((visibility("default")))
#else
#define UVWHEEL_EXTERN
#endif
#endif

typedef struct uvwheel_s uvwheel_t;
typedef struct uvwheel_timer_s uvwheel_timer_t;
typedef struct uvwheel_post_s uvwheel_post_t;

/* A timer fired. Without a repeat it is not active by now, and may be freed
 * here; a repeating one is active again. A callback that resumes the reading of
 * another peer has to refresh that peer's timer, or this turn may fire it. */
typedef void (*uvwheel_timer_cb)(uvwheel_timer_t *timer);

/* The wheel is closed. Its memory may be reused from here on. */
typedef void (*uvwheel_close_cb)(uvwheel_t *wheel);

/* One active timer of a walk. */
typedef void (*uvwheel_walk_cb)(uvwheel_timer_t *timer, void *arg);

/* A flag, the limits and the defaults of the options. */
#define UVWHEEL_FIFO 1u
#define UVWHEEL_MAX_TICK_MS 86400000u /* one day */
#define UVWHEEL_MAX_SLOTS 65536u
#define UVWHEEL_DEFAULT_TICK_MS 100
#define UVWHEEL_DEFAULT_SLOTS 512 /* with the default tick */
#define UVWHEEL_DEFAULT_TURN_BUDGET 10000
#define UVWHEEL_DEFAULT_TURN_MS 5
#define UVWHEEL_DEFAULT_STALL_MS 250

/* How a wheel is made. All zeros means all defaults. */
typedef struct uvwheel_options_s {
  /* The resolution in ms (P2), at most UVWHEEL_MAX_TICK_MS; 0 means 100. */
  uint64_t tick_ms;
  /* At most UVWHEEL_MAX_SLOTS, rounded up to a power of two. 0: as many as make
   * a round (tick_ms * slots) of 51.2 s or more, but 512 to 16,384. Choose so
   * many that a round is some ticks longer than most timeouts. A timer that
   * waits for longer may be examined in vain once per round. On 64-bit systems
   * a slot takes 256 bytes: 16,384 (0 with ticks up to 6 ms) take 4 MiB. */
  uint32_t slots;
  /* About how many timers a turn fires or examines before the loop polls again.
   * 0 means 10000, UINT32_MAX in effect no limit. */
  uint32_t turn_budget;
  /* How many timers may be active at once, else UV_ENOBUFS. 0: no limit. */
  uint64_t max_timers;
  /* 0 or UVWHEEL_FIFO: timers of one tick fire in the order in which they were
   * started. One that was refreshed or put back may be anywhere in its tick.
   * With tick_ms = 1 all other one-shot timers have libuv's order.
   * A mass expiry may take 5 times as long. */
  uint32_t flags;
  /* For how many ms the callbacks of a turn may run before the loop polls
   * again. 0 means 5, UINT32_MAX means no limit. The clock is read after up to
   * 16 callbacks, so a turn may take longer. */
  uint32_t turn_ms;
  /* How many ms late the wheel may run before that is a stall (P6). 0 means
   * 250. Choose at most a quarter of the shortest timeout of a peer, and more
   * than the period of a loop that is run by hand. UINT32_MAX means never: no
   * timer is put back, and repeats keep their beat. */
  uint32_t stall_ms;
  /* Room to grow; must be zero. */
  uint32_t reserved[7];
} uvwheel_options_t;

/* What a repeat does about missed times; see uvwheel_timer_set_missed. */
typedef enum uvwheel_missed_e {
  UVWHEEL_MISSED_SKIP,  /* drops them and keeps the beat */
  UVWHEEL_MISSED_DELAY, /* begins a new beat             */
  UVWHEEL_MISSED_BURST  /* has a callback for each       */
} uvwheel_missed_t;

/* private: a place in a list of the wheel */
typedef struct uvwheel_link_s {
  struct uvwheel_link_s *prev, *next;
} uvwheel_link_t;

/* private: what a timer is to the wheel's core */
typedef struct uvwheel_entry_s {
  uvwheel_link_t link;
  uint64_t due_ms;
} uvwheel_entry_t;

/* A timer. Embed it in the object that it belongs to. */
struct uvwheel_timer_s {
  /* private */
  uvwheel_entry_t entry;
  uint64_t wheel_and_flags;
  uint64_t interval;
  uint64_t saved_timeout;
  uvwheel_timer_cb cb;
  /* public: belongs to the user; the library never touches it */
  void *data;
};

/* A wheel. Do not copy or move it from its init until its close callback. */
struct uvwheel_s {
  void *data; /* public: belongs to the user */
  /* private */
  struct uvwheel_state_s *state;
};

/* Lateness is the time from a timer's due time to its callback, by uv_now(),
 * less the lag of P1. lateness[b] counts timers that were 2^(b-1) to 2^b - 1 ms
 * late, the last bucket also later ones; lateness[0] stays 0. */
#define UVWHEEL_LATENESS_BUCKETS 24

/* The state of a wheel, and counts since its init; see uvwheel_get_stats. */
typedef struct uvwheel_stats_s {
  uint64_t active;  /* timers that are active now                            */
  uint64_t started; /* starts, no restarts; each firing of a repeat is one   */
  uint64_t stopped; /* active timers that were stopped, by close too         */
  uint64_t fired;   /* callbacks called                                      */
  uint64_t rescheduled;   /* postponed timers that the hand moved            */
  uint64_t examined;      /* timers that the hand examined                   */
  uint64_t turns;         /* turns that found a due timer, or were cut       */
  uint64_t turns_cut;     /* turns that ended early, mostly by their limits  */
  uint64_t turns_overrun; /* turns that took more than twice turn_ms         */
  uint64_t turn_max_us;   /* the longest turn, batch of posts or fire_soonest */
  uint64_t overdue_ms;    /* the age of the oldest unfinished tick, or 0     */
  uint64_t fired_soonest; /* callbacks called by uvwheel_fire_soonest        */
  uint64_t stalls;        /* runs of the wheel that were stalls (P6)         */
  uint64_t stall_max_ms;  /* the longest stall                               */
  uint64_t stall_sum_ms;  /* all stalls together                             */
  uint64_t put_back;      /* times that a timer was put back after a stall   */
  uint64_t lateness_max_ms; /* the largest                                   */
  uint64_t lateness_sum_ms; /* the sum for all timers in lateness            */
  uint64_t lateness[UVWHEEL_LATENESS_BUCKETS]; /* without fired_soonest      */
  uint64_t reserved[7];                        /* room to grow               */
} uvwheel_stats_t;

/* ---- The wheel ---------------------------------------------------------- */

/* Makes a wheel for the loop, in uninitialised memory. options may be NULL.
 * This adds handles to the loop (a timer, an idle, a check; in a checks build a
 * prepare). A loop may have tens of wheels; each may look at all others after a
 * poll. An init of an open wheel is undefined.
 *
 * Errors: UV_EINVAL (NULL loop or wheel; an option out of range), UV_ENOMEM, an
 * error of uv_mutex_init, UV_ENOTSUP (this libuv has moved private fields or,
 * on Windows, is older than 1.44.2: docs/platforms.md).
 * Cost: one allocation, which includes the slots, and a uv_walk. */
UVWHEEL_EXTERN int uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
                                const uvwheel_options_t *options);

/* Closes the wheel and its active timers (uvwheel_timer_close), calls no timer
 * callback any more (not even the rest of the turn that is running) and calls
 * cb, which may be NULL, from the loop once the wheel's memory may be reused.
 * From cb on, a timer of the wheel that is not closed may only be freed,
 * initialised again, stopped, closed, or asked whether it is active. A second
 * close is ignored.
 *
 * A program that closes all handles in uv_walk should call this before it, and
 * skip the wheel's (uvwheel_owns_handle). If others have closed handles of the
 * wheel, this still calls cb, maybe at once, and frees the memory, unless they
 * close all handles again before cb.
 * Cost: O(active timers + slots), all of it in this call: a million timers may
 * take tens of ms. */
UVWHEEL_EXTERN void uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb);

/* 1 from uvwheel_close until the close callback. It may be 1, too, if other
 * code has closed handles of the wheel. While it is 1, no timer fires, and a
 * start is UV_EINVAL. */
UVWHEEL_EXTERN int uvwheel_is_closing(const uvwheel_t *wheel);

/* 1 for a handle that a wheel of this copy of the library has added to its
 * loop, else 0. */
UVWHEEL_EXTERN int uvwheel_owns_handle(const uv_handle_t *handle);

/* The loop given to uvwheel_init. */
UVWHEEL_EXTERN uv_loop_t *uvwheel_get_loop(const uvwheel_t *wheel);

/* The number of active timers. */
UVWHEEL_EXTERN uint64_t uvwheel_count(const uvwheel_t *wheel);

/* Calls cb once for each active timer, in no particular order. One that cb
 * starts, restarts or makes due earlier before its visit may be left out. A
 * walk inside a walk of its wheel does nothing.
 * Cost: O(active timers + slots). */
UVWHEEL_EXTERN void uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb,
                                 void *arg);

/* Fires up to `count` active timers now, before their time: the timers due
 * soonest (in any order within a tick). If all timers of the wheel have one
 * timeout, these are mostly the idlest: so a server without a descriptor,
 * memory or place left makes room. Timers with a shorter timeout may go first:
 * those, and timers that must not come early, belong on another wheel. A read
 * callback should stop the timer of its own connection before it calls this,
 * and expect the peer again afterwards.
 *
 * Returns the number of timers fired. That may be less than `count`, as when
 * fewer are active, or some are never due, or a callback closes or walks the
 * wheel, or stops, restarts or refreshes a chosen timer. On a wheel that is
 * closing, is walked, or runs this call already, it does nothing and returns 0.
 * turn_budget and turn_ms do not limit it. A repeat goes on as after a turn.
 * Cost: mostly O(count), and the callbacks. Timers on the way that were
 * refreshed, or wait for a later round, are examined, too. */
UVWHEEL_EXTERN uint64_t uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count);

/* uvwheel_unref lets the loop end although timers of the wheel are active or
 * its mailbox is open; uvwheel_ref undoes that. Both are idempotent. */
UVWHEEL_EXTERN void uvwheel_ref(uvwheel_t *wheel);
UVWHEEL_EXTERN void uvwheel_unref(uvwheel_t *wheel);

/* 0 if the wheel is NULL, all zeros or unref'd, else 1. */
UVWHEEL_EXTERN int uvwheel_has_ref(const uvwheel_t *wheel);

/* Fills *stats; with zeros if the wheel is NULL or all zeros. */
UVWHEEL_EXTERN void uvwheel_get_stats(const uvwheel_t *wheel,
                                      uvwheel_stats_t *stats);

/* Fills *options with the options of the wheel. Options that were 0 have their
 * default, and slots is rounded up. Errors: UV_EINVAL. */
UVWHEEL_EXTERN int uvwheel_get_options(const uvwheel_t *wheel,
                                       uvwheel_options_t *options);

/* The number of timers in the slot, without those that the hand, a walk or
 * uvwheel_fire_soonest has taken out; 0 if there is no such slot. Tick t
 * belongs to slot t % slots, and the current tick is uv_now() / tick_ms.
 * Cost: O(timers in it). */
UVWHEEL_EXTERN uint64_t uvwheel_count_slot(const uvwheel_t *wheel,
                                           uint64_t slot);

/* Writes a page for a human: tick, slots, counts, how many timers in slots
 * expect a peer, how late timers fired, and stalls.
 * Cost: O(active timers + slots), and the output. */
UVWHEEL_EXTERN void uvwheel_print(const uvwheel_t *wheel, FILE *stream);

/* ---- Timers ------------------------------------------------------------- */

/* Makes a timer of the wheel, in uninitialised memory. It is not active: the
 * memory of such a timer may be freed or reused. An init of an active timer is
 * undefined. Errors: UV_EINVAL (also: the wheel is closing). */
UVWHEEL_EXTERN int uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer);

/* Starts the timer, an appointment (P6): cb is called when timeout ms have
 * passed since uv_now(). If repeat is not 0 it is called again each repeat ms
 * (see uvwheel_timer_set_missed). An active timer is restarted. A timeout of 0
 * does not mean never (P3). Timeouts are unsigned: clamp a difference that may
 * be negative.
 *
 * Errors: UV_EINVAL (also: cb is NULL, the timer is closed, the wheel is
 * closing), UV_ENOBUFS (max_timers are active, and this one is not). After the
 * wheel's close callback, a start of a timer that is not closed is undefined.
 * If another callback may come that late, such as that of a write, close the
 * timer.
 * Cost: O(1). A restart with the same or a later due time mostly takes as long
 * as a few refreshes. If the timer becomes the first due, add a
 * uv_timer_start. */
UVWHEEL_EXTERN int uvwheel_timer_start(uvwheel_timer_t *timer,
                                       uvwheel_timer_cb cb, uint64_t timeout,
                                       uint64_t repeat);

/* Expects a peer to be heard: cb is called when no refresh has come for timeout
 * ms, after a stall maybe later (P6). This is a start without a repeat, and
 * then a refresh, in one call. In the timer's own callback it gives the peer
 * more time. Without refreshes it limits how long a peer may take, such as for
 * the head of a request.
 * Errors, cost: as uvwheel_timer_start. */
UVWHEEL_EXTERN int uvwheel_timer_expect(uvwheel_timer_t *timer,
                                        uvwheel_timer_cb cb, uint64_t timeout);

/* Stops the timer: its callback is not called any more, not even if it was due
 * and waiting for its turn. The timer may be freed when this returns. Returns 0
 * for a timer that is not active, or closed. Errors: UV_EINVAL.
 * Cost: O(1). The stop of the last active timer adds a uv_timer_stop, and
 * clears the slots that held timers. */
UVWHEEL_EXTERN int uvwheel_timer_stop(uvwheel_timer_t *timer);

/* Stops the timer for good, as uv_close does, but waits for nothing: it may be
 * freed when this returns. Until it is initialised again, no call starts it
 * (UV_EINVAL). Before you free a connection, close its timer instead of
 * stopping it: then a late callback cannot start it. Cost: as for a stop. */
UVWHEEL_EXTERN void uvwheel_timer_close(uvwheel_timer_t *timer);

/* Starts the timer again with its repeat as the timeout. An active timer stays
 * what it is (P6); if it measures silence, this counts as a refresh. One that
 * is not active becomes an appointment. Without a repeat this does nothing. A
 * repeat needs no call to go on.
 * Errors: UV_EINVAL (also: never started, closed; with a repeat, the wheel is
 * closing), UV_ENOBUFS. Cost: as uvwheel_timer_start. */
UVWHEEL_EXTERN int uvwheel_timer_again(uvwheel_timer_t *timer);

/* Says that the peer of an active timer was heard, so that the timer measures
 * silence (P6). Sets the due time to uv_now() + its interval: the repeat or,
 * without one, the timeout of the last start or expect. (Started with 10 s and
 * a repeat of 1 s, the timer is then due in 1 s.)
 * Errors: UV_EINVAL (also: not active, closed). In its own callback a timer
 * without a repeat is not active: to give its peer more time, expect it again.
 * The loop of an active timer must not be closed.
 * Cost: mostly one store; a stop and a start if that makes it due earlier. */
UVWHEEL_EXTERN int uvwheel_timer_refresh(uvwheel_timer_t *timer);

/* 1 from start until stop or, without a repeat, until the callback. */
UVWHEEL_EXTERN int uvwheel_timer_is_active(const uvwheel_timer_t *timer);

/* The ms from uv_now() until the timer is due; 0 if it is due or not active. If
 * the wheel is closing it means nothing. */
UVWHEEL_EXTERN uint64_t uvwheel_timer_get_due_in(const uvwheel_timer_t *timer);

/* How many rounds the timer has to go, from uv_now() to its tick. 0 in the last
 * round, or if it is not active. If the wheel is closing it means nothing. */
UVWHEEL_EXTERN uint64_t uvwheel_timer_get_rounds(const uvwheel_timer_t *timer);

/* The wheel of the timer; NULL if the timer is closed. */
UVWHEEL_EXTERN uvwheel_t *uvwheel_timer_get_wheel(const uvwheel_timer_t *timer);

/* Sets the repeat in ms, 0 for none. The due time changes when the timer next
 * fires, is refreshed, or is started by uvwheel_timer_again. This moves the
 * time at which its peer counts as heard (P6), to the due time less the new
 * interval. */
UVWHEEL_EXTERN void uvwheel_timer_set_repeat(uvwheel_timer_t *timer,
                                             uint64_t repeat);

/* The repeat in ms, 0 for none. */
UVWHEEL_EXTERN uint64_t uvwheel_timer_get_repeat(const uvwheel_timer_t *timer);

/* Chooses how the timer makes up for repeats that a late loop missed. The beat
 * of a timer is the time at which it was due first, plus any number of repeats.
 * Each start, again, refresh and put-back begins a new one; after
 * uvwheel_timer_set_repeat it goes on with the new repeat.
 *
 * - UVWHEEL_MISSED_SKIP, the default: drops missed times of the beat, so that a
 *   turn calls the timer at most once. In a late loop the next turn may follow
 *   at once. A call too late begins a new beat (P7).
 * - UVWHEEL_MISSED_DELAY, libuv's rule: the next callback is due a repeat after
 *   uv_now() at this one. The timer drifts by its lateness; a repeat that is a
 *   multiple of tick_ms takes on average at least a tick longer.
 * - UVWHEEL_MISSED_BURST: has a callback for each time of the beat, even if
 *   that is past.
 *
 * The choice holds until the next one or the next init. In the timer's callback
 * it comes too late for the next due time.
 * Errors: UV_EINVAL (also: not one of the three, closed). */
UVWHEEL_EXTERN int uvwheel_timer_set_missed(uvwheel_timer_t *timer,
                                            uvwheel_missed_t missed);

/* An unref'd timer does not keep the loop alive; uvwheel_timer_ref undoes that.
 * Both are idempotent. */
UVWHEEL_EXTERN void uvwheel_timer_ref(uvwheel_timer_t *timer);
UVWHEEL_EXTERN void uvwheel_timer_unref(uvwheel_timer_t *timer);

/* 0 if the timer is unref'd or has no wheel, else 1. */
UVWHEEL_EXTERN int uvwheel_timer_has_ref(const uvwheel_timer_t *timer);

/* ---- From other threads ------------------------------------------------- */

/* Other threads reach the timers of a wheel through its mailbox: they post a
 * request, whose callback the loop runs. It may do what a timer's callback may.
 *
 *   uvwheel_open_mailbox(&wheel);                 once, on the loop's thread
 *
 *   uvwheel_post(&wheel, &job->post, on_posted);  on any thread
 *
 * Requests are called back in the order in which they were queued. After
 * turn_budget of them, or turn_ms, the loop polls before the next one.
 *
 * - A request is the library's from a call that returned 0 until its callback,
 *   in which it may be posted again or freed.
 * - A timer is the loop's. A thread that is done with one posts a request, in
 *   whose callback it is stopped and freed, whatever the status. If that post
 *   is refused (UV_ECANCELED) and no callback uses the timer, it may be freed.
 * - uvwheel_close calls back the requests that are still queued with
 *   UV_ECANCELED, right before its own callback. Posts are refused until that
 *   callback returns: it may join the threads that post. No thread may be in a
 *   post after that.
 * - What the rules at the top do not allow another thread is undefined. A
 *   checks build reports most such calls while the loop polls.
 * - Do not fork while requests wait or threads post: the child may not wake. */

/* A request is called back. status is 0, or UV_ECANCELED if the wheel was
 * closed before. */
typedef void (*uvwheel_post_cb)(uvwheel_post_t *post, int status);

/* A request. Embed it in the object that posts it. It needs no initialising. */
struct uvwheel_post_s {
  void *data; /* public: belongs to the user */
  /* private */
  uvwheel_post_t *next;
  uvwheel_post_cb cb;
  void *reserved[2];
};

/* Opens the wheel's mailbox, before other threads post. Like any uv_async_t it
 * keeps the loop alive, unless the wheel is unref'd. uvwheel_close closes it.
 * Errors: UV_EINVAL (also: the wheel is closing), UV_EALREADY (it was opened),
 * an error of uv_async_init. Cost: that of uv_async_init. */
UVWHEEL_EXTERN int uvwheel_open_mailbox(uvwheel_t *wheel);

/* Has the loop call cb. Any thread may call this; a signal handler may not
 * (there use a uv_async_t).
 * Errors: UV_EINVAL (a NULL, or the mailbox was never opened), UV_ECANCELED
 * (uvwheel_close has closed it, or the wheel is all zeros). Cost: a mutex and a
 * uv_async_send. */
UVWHEEL_EXTERN int uvwheel_post(uvwheel_t *wheel, uvwheel_post_t *post,
                                uvwheel_post_cb cb);

/* ---- Version ------------------------------------------------------------ */

/* The version of the library that runs, laid out as UVWHEEL_VERSION_HEX, and as
 * text, such as "1.0.0", or "1.0.0-dev" before that release. Any thread. */
UVWHEEL_EXTERN unsigned uvwheel_version(void);
UVWHEEL_EXTERN const char *uvwheel_version_string(void);

#ifdef __cplusplus
}
#endif

#endif /* UVWHEEL_H */
