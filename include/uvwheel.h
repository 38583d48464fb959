/* SPDX-License-Identifier: MIT */

/* uvwheel: a timing wheel for libuv loops.
 *
 * A server that keeps one uv_timer_t per connection for its idle timeout pays
 * a heap operation for every packet. With one uvwheel_timer_t per connection
 * it pays one store:
 *
 *   uvwheel_t wheel;                                  one per loop
 *   uvwheel_init(loop, &wheel, NULL);
 *
 *   struct connection {                               one per connection
 *     uv_tcp_t tcp;
 *     uvwheel_timer_t idle;
 *   };
 *   uvwheel_timer_init(&wheel, &connection->idle);
 *   uvwheel_timer_start(&connection->idle, on_idle, 30000, 0);
 *   uvwheel_timer_refresh(&connection->idle);         at each packet
 *   uvwheel_timer_stop(&connection->idle);            then free at once
 *
 * Rules that hold for every function, unless it says otherwise:
 *
 * - Times are milliseconds of the wheel's clock, uvwheel_now(): the loop's
 *   clock, uv_now(), less the time in which the loop was deaf (below). Like all
 *   of libuv, the functions read the time that the loop cached when its
 *   iteration began; after work that took long, call uv_update_time() before
 *   you start a timer.
 * - Functions that can fail return 0 or a negative UV_E* code, and change
 *   nothing when they fail. A NULL wheel or timer, and a timer that is all
 *   zeros, is UV_EINVAL where the function returns an error code; the others
 *   then do nothing and return 0 or NULL.
 * - All of them may be called inside any callback, on any timer of the wheel.
 *   The loop must not be run in a callback, as in all of libuv. A callback must
 *   return: a longjmp or a C++ exception out of one stops the wheel for good.
 * - All of them belong to the loop's thread, as libuv's own do, except
 *   uvwheel_post, which is for any thread. While the loop is not running they
 *   may be called on another thread, one at a time: to prepare a wheel before,
 *   or to close it after.
 * - None of them allocates, except uvwheel_init. None prints or aborts, except
 *   uvwheel_print and uvwheel_check, and a library that was built with
 *   -Dchecks=true: that one reports misuse (using a wheel from a second
 *   thread, initialising an active timer or a wheel that is not closed, links
 *   that were overwritten) on stderr and calls abort().
 * - A call costs O(1).
 *
 * Promises about time, for a timer that is due at due = uvwheel_now() +
 * timeout:
 *
 * - Never early: it fires at the first multiple of tick_ms that is after due,
 *   not at it. The loop's clock drops fractions of a millisecond; by going to
 *   the next tick a stopwatch never reads less than the timeout. (Where the
 *   loop's clock is itself a millisecond behind, on Linux with 1000 timer
 *   interrupts per second, timers fire a millisecond after that tick.)
 * - Late by at most one tick, plus what the loop itself was late, plus the
 *   turns over which turn_budget and turn_ms spread a mass expiry.
 * - Time in which the loop was deaf does not count. When the loop comes more
 *   than stall_ms too late to the wheel's turn, because the process was frozen
 *   or a callback took long, nobody was listened to: peers may have spoken, and
 *   an idle timeout has not found them silent. Then the wheel fires nothing and
 *   sets its clock back by that time and by as much again, at most a second, in
 *   which those who spoke are heard. Due times are times of this clock: all
 *   timers fire later by what was set back, and one that was started or
 *   refreshed between the stall and the turn that found it, by up to as much
 *   again. A loop that is late at each turn is not deaf but slow: after a
 *   stall the next one counts only once three turns in a row were on time, or
 *   the wheel was empty, and timers fire at the loop's pace. (With more timers
 *   than 49,152, which is what one poll hears, a stall more in a row may count
 *   for each 49,152.) What the wheel goes by is for when its turn was armed:
 *   one with few timers, which sleeps until a tick, does not notice a stall
 *   that began long before and ends less than stall_ms after it.
 * - Timers of one tick fire in no particular order, unless UVWHEEL_FIFO.
 * - A due time that would exceed UINT64_MAX becomes UINT64_MAX and is never
 *   reached.
 */

#ifndef UVWHEEL_H
#define UVWHEEL_H

#include <stdint.h>
#include <stdio.h>

#include <uv.h>

#include "uvwheel/version.h"
#include "uvwheel/wheel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvwheel_s uvwheel_t;             /* one per uv_loop_t  */
typedef struct uvwheel_timer_s uvwheel_timer_t; /* one per connection */
typedef struct uvwheel_post_s uvwheel_post_t;   /* one per request    */

/* A timer fired. A one-shot timer is no longer active here, one with a repeat
 * is already active again. The timer may be stopped, started and freed here,
 * and so may every other; after the return it is not touched. */
typedef void (*uvwheel_timer_cb)(uvwheel_timer_t *timer);

/* The wheel is closed and its memory may be reused, also here. */
typedef void (*uvwheel_close_cb)(uvwheel_t *wheel);

/* One active timer of a walk. */
typedef void (*uvwheel_walk_cb)(uvwheel_timer_t *timer, void *arg);

/* As malloc aligns; see uvwheel_timer_t.home. */
#if defined(__GNUC__)
#define UVWHEEL_ALIGNED __attribute__((aligned(2 * sizeof(void *))))
#elif defined(_WIN64)
#define UVWHEEL_ALIGNED __declspec(align(16))
#elif defined(_WIN32)
#define UVWHEEL_ALIGNED __declspec(align(8))
#elif defined(__cplusplus)
#define UVWHEEL_ALIGNED alignas(2 * sizeof(void *))
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define UVWHEEL_ALIGNED _Alignas(2 * sizeof(void *))
#else
#define UVWHEEL_ALIGNED
#endif

/* What an option that is 0 means. */
#define UVWHEEL_DEFAULT_TICK_MS 100
#define UVWHEEL_DEFAULT_SLOTS 512 /* with the default tick */
#define UVWHEEL_DEFAULT_TURN_BUDGET 10000
#define UVWHEEL_DEFAULT_TURN_MS 5
#define UVWHEEL_DEFAULT_STALL_MS 250

/* How a wheel is made. All zeros means all defaults. */
typedef struct uvwheel_options_s {
  /* The resolution in ms, at most UVWHEEL_MAX_TICK_MS; 0 means 100. Timers are
   * late by up to one tick. A tick costs nothing when nothing is due at it. */
  uint64_t tick_ms;
  /* At most UVWHEEL_MAX_SLOTS, rounded up to a power of two; 0 means as many as
   * make a round, tick_ms * slots, of at least 51.2 s, but at least 512 and at
   * most 16,384. Best when a round is longer than most timeouts: timers that
   * wait for more than one are looked at once in each round in which something
   * else of their slot is due. 256 bytes each, written as it fills. */
  uint32_t slots;
  /* How many timers are handled (fired, moved or only looked at) in one loop
   * iteration before the loop serves I/O and the rest waits for the next one; 0
   * means 10000, UINT32_MAX means no limit. With libuv before 1.48 an iteration
   * that has leftovers waits for up to 1 ms: do not make it very small. As many
   * requests of the mailbox may be carried out beside that. */
  uint32_t turn_budget;
  /* How many timers may be active at once; starting one more is UV_ENOBUFS.
   * 0 means no limit. */
  uint64_t max_timers;
  /* 0 or UVWHEEL_FIFO: timers of one tick fire in the order in which they were
   * put there. With tick_ms = 1 that is libuv's own order for timers that are
   * never refreshed. Mass expiry gets several times slower by it. */
  uint32_t flags;
  /* For how many ms the callbacks of one loop iteration may run before the loop
   * serves I/O and the rest waits; 0 means 5, UINT32_MAX means no limit. Those
   * of the mailbox may take as long beside that. The clock is asked after at
   * most 16 callbacks, after each one if they are slow. */
  uint32_t turn_ms;
  /* A turn that comes later than by so many ms finds that the loop was deaf,
   * see above; 0 means 250. UINT32_MAX means never: for timers that must follow
   * the world's clock, such as heartbeats to others. */
  uint32_t stall_ms;
  /* Room to grow; must be zero. */
  uint32_t reserved[7];
} uvwheel_options_t;

/* What a repeating timer does about the times that it missed because the loop
 * was late; see uvwheel_timer_set_missed. */
typedef enum uvwheel_missed_e {
  UVWHEEL_MISSED_SKIP,  /* they are dropped, and the beat is kept        */
  UVWHEEL_MISSED_DELAY, /* the next one is a repeat after this callback  */
  UVWHEEL_MISSED_BURST  /* they are made up for, one callback after the
                           other, and the beat is kept                   */
} uvwheel_missed_t;

/* A timer. Embed it in what it belongs to. */
struct uvwheel_timer_s {
  /* private */
  uvwheel_entry_t entry;
  uint64_t home;     /* the wheel's address, and flags                      */
  uint64_t interval; /* what a refresh adds: the repeat, else the timeout   */
  uint64_t timeout;  /* of the last start; UINT64_MAX: there is no repeat  */
  uvwheel_timer_cb cb;
  /* public: belongs to the user, never read or written here */
  void *data;
};

/* Lateness is the time from the tick at which a timer should have fired to its
 * callback, counted in powers of two: bucket 0 counts timers that were on time,
 * bucket b those that were late by 2^(b-1) ms or more and less than 2^b, the
 * last one also everything later. */
#define UVWHEEL_LATENESS_BUCKETS 24

/* What a wheel is doing and has done; see uvwheel_get_stats. */
typedef struct uvwheel_stats_s {
  uint64_t active;  /* timers that are active now                            */
  uint64_t started; /* times a timer that was not active was started, or a
                       repeating one armed itself again                      */
  uint64_t stopped; /* times an active timer was stopped, also by close      */
  uint64_t fired;   /* callbacks called                                      */
  uint64_t moved;   /* timers that the hand found refreshed and moved on     */
  uint64_t looked;  /* timers that the hand looked at                        */
  uint64_t turns;   /* times the loop woke the wheel                         */
  uint64_t turns_cut;  /* turns that ended, with something left to do, because
                          turn_budget or turn_ms was used up                 */
  uint64_t backlog_ms; /* for how long the oldest tick that the hand has not
                          finished has been waiting; 0: nothing is waiting   */
  uint64_t lateness_max_ms; /* the latest that any timer fired               */
  uint64_t lateness[UVWHEEL_LATENESS_BUCKETS]; /* timers that were that late */
  uint64_t fired_early;  /* of those fired: by uvwheel_fire_soonest, whose
                            lateness is not counted                          */
  uint64_t stalls;       /* turns that found that the loop was deaf          */
  uint64_t stall_max_ms; /* the latest of them                               */
  uint64_t deaf_ms;      /* all stalls together                              */
  uint64_t turn_max_us;  /* the longest turn, of the mailbox, too            */
  uint64_t set_back_ms;  /* what the wheel's clock was set back              */
  uint64_t reserved[7];  /* room to grow                                     */
} uvwheel_stats_t;

/* A wheel. Embed it, or allocate it, beside the loop. */
struct uvwheel_s {
  /* public: belongs to the user, never read or written here */
  UVWHEEL_ALIGNED void *data;
  /* private */
  uv_loop_t *loop;
  uint64_t set_back_ms; /* what the wheel's clock is behind the loop's      */
  uvwheel_core_t core;
  uv_timer_t driver;
  uint64_t unrefd; /* active timers that do not keep the loop alive       */
  uint64_t flags;
  uint64_t turn_budget;
  uint64_t turn_ns;
  uint64_t stall_ms;
  uint64_t lag_ms;     /* what the loop's clock is behind a stopwatch   */
  uint64_t read_every; /* callbacks until the clock is read              */
  /* these are times of the loop's clock */
  uint64_t wake_ms;       /* for which the driver is armed                  */
  uint64_t heard_ms;      /* up to which the loop has listened              */
  uint64_t polled_ms;     /* up to which the turn that is waiting fires     */
  uint64_t waited_ms;     /* for how long it has waited for quiet           */
  int64_t account_ms;     /* how much time may still be forgiven, and when  */
  uint64_t account_at_ms; /* that was reckoned                              */
  uv_idle_t no_wait;      /* active: polls do not wait                      */
  uv_check_t after_poll;  /* fires what is due                              */
  uvwheel_stats_t stats;
  uv_async_t async;      /* the mailbox, if it is open                    */
  uvwheel_post_t *first; /* what the loop has taken, in order             */
  uvwheel_post_t **end;  /* where the next one will be linked             */
  uintptr_t newest;      /* what threads have posted since; atomic        */
  uintptr_t wakers;      /* threads that may wake the loop now; atomic    */
  uvwheel_close_cb close_cb;
  uint64_t open_handles; /* whose close uvwheel_close awaits              */
  uv_prepare_t closer;   /* for waiting until others' closes are finished */
  uv_thread_t thread;    /* these three are for a -Dchecks=true build     */
  uint64_t thread_use;
  uvwheel_t *next;
  uint64_t reserved[8]; /* room to grow                                  */
};

/* ---- The wheel ---------------------------------------------------------- */

/* Makes a wheel for the loop, in uninitialised memory. options may be NULL. As
 * libuv's own inits it adds a handle to the loop, which must not be running on
 * another thread.
 *
 * Errors: UV_EINVAL (NULL loop or wheel; a wheel that is not aligned to two
 * pointers, as malloc's memory is; an option out of range), UV_ENOMEM,
 * UV_ENOTSUP (this libuv keeps its private fields otherwise than all that are
 * known; a library built with -Dprivate_fields=false does not read them); then
 * wheel and loop are as they were. Cost: one allocation, 256 bytes per slot,
 * and one uv_timer_init. A loop may have any number of wheels; one is the usual
 * number. */
UVWHEEL_EXTERN int uvwheel_init(uv_loop_t *loop, uvwheel_t *wheel,
                                const uvwheel_options_t *options);

/* Closes the wheel: stops all its timers, calls no timer callback any more
 * (not even the rest of a batch in whose middle this is called) and calls cb,
 * which may be NULL, from the loop once the wheel's memory may be reused. From
 * then on each of its timers has to be initialised before it is used again; to
 * stop one, or to ask whether it is active, is harmless. A second call is
 * ignored.
 *
 * Should somebody else have closed the wheel's handles already (programs that
 * close every handle that they meet in uv_walk do; the wheel has a uv_timer_t,
 * and a uv_async_t if its mailbox is open), this still frees what the wheel has
 * allocated. cb is then called from the loop when their closes are finished,
 * or, if they are finished already, before uvwheel_close returns (or the walk
 * in which that was called). With a library that was built with
 * -Dprivate_fields=false the loop must not be closed before, nor may this be
 * called in a callback of uv_walk then.
 * Cost: O(active timers + slots / 64). */
UVWHEEL_EXTERN void uvwheel_close(uvwheel_t *wheel, uvwheel_close_cb cb);

/* Is the wheel closed or closing, by uvwheel_close or because its uv_timer_t
 * was closed? Then no timer can be started. */
UVWHEEL_EXTERN int uvwheel_is_closing(const uvwheel_t *wheel);

/* 1 for a handle that a wheel has added to its loop, 0 for all others and NULL.
 * A program that closes or frees every handle that it meets in uv_walk has to
 * pass these over. Any wheel, closed ones until their callback. */
UVWHEEL_EXTERN int uvwheel_owns_handle(const uv_handle_t *handle);

/* The loop given to uvwheel_init. */
UVWHEEL_EXTERN uv_loop_t *uvwheel_get_loop(const uvwheel_t *wheel);

/* The wheel's clock in ms: uv_now() less the time in which the loop was deaf.
 * It may step back, by what a stall was long and at most a second more. 0 if
 * the wheel is NULL. */
UVWHEEL_EXTERN uint64_t uvwheel_now(const uvwheel_t *wheel);

/* The number of active timers. */
UVWHEEL_EXTERN uint64_t uvwheel_count(const uvwheel_t *wheel);

/* Calls cb for each active timer, in no particular order. In cb any timer may
 * be started, stopped, refreshed and freed, further walks made, and the wheel
 * closed. A timer that is active all the while is visited exactly once, unless
 * it is started anew or refreshed to be due earlier: then the walk may meet it
 * in its new place, or not.
 * Cost: O(active timers + slots / 64). */
UVWHEEL_EXTERN void uvwheel_walk(uvwheel_t *wheel, uvwheel_walk_cb cb,
                                 void *arg);

/* Fires up to `count` active timers now, before their time: those that are due
 * soonest, to the tick; a refreshed one counts by its last due time. On a wheel
 * of idle timeouts these are the idlest: so a server that has no descriptor, no
 * memory or no place left makes room. All others keep their due time. Timers
 * that must not come early belong on another wheel.
 *
 * Returns how many callbacks it has called, each of another timer: count, if so
 * many were active and no callback stopped, restarted or refreshed one of them,
 * or closed the wheel. (Timers that are never due, from 2^63 ms on, do not
 * fire.) Any callback may call it, but in that of uvwheel_walk it
 * fires nothing. turn_budget and turn_ms do not limit it. A repeating timer
 * keeps its beat.
 * Cost: O(count + what the hand looks at on its way there), and the callbacks.
 */
UVWHEEL_EXTERN uint64_t uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count);

/* uvwheel_unref lets the loop end although timers of this wheel are active or
 * its mailbox is open; uvwheel_ref takes that back. Both are idempotent. */
UVWHEEL_EXTERN void uvwheel_ref(uvwheel_t *wheel);
UVWHEEL_EXTERN void uvwheel_unref(uvwheel_t *wheel);

/* 1 unless uvwheel_unref was called. */
UVWHEEL_EXTERN int uvwheel_has_ref(const uvwheel_t *wheel);

/* Fills *stats, all zeros if the wheel is NULL. */
UVWHEEL_EXTERN void uvwheel_get_stats(const uvwheel_t *wheel,
                                      uvwheel_stats_t *stats);

/* Fills *options with what the wheel was made with: defaults by their values,
 * slots rounded up. Errors: UV_EINVAL. */
UVWHEEL_EXTERN int uvwheel_get_options(const uvwheel_t *wheel,
                                       uvwheel_options_t *options);

/* How many timers wait in a slot, 0 to slots - 1; 0 for any other slot. Those
 * of a turn that was cut by its budget count for no slot. Tick t belongs to
 * slot t % slots, and the hand is at tick uvwheel_now() / tick_ms.
 * Cost: O(timers in it). */
UVWHEEL_EXTERN uint64_t uvwheel_slot_count(const uvwheel_t *wheel,
                                           uint64_t slot);

/* Writes a page for a human: configuration, hand, counts, in which round
 * timers are due, how full the slots are as seen from the hand, how late timers
 * fired, and in which trouble the loop was.
 * Cost: O(active timers + slots), and the output. */
UVWHEEL_EXTERN void uvwheel_print(const uvwheel_t *wheel, FILE *stream);

/* Tests all that must be true inside a wheel. Returns 0, or UV_EINVAL (NULL
 * wheel, or one that is closed), or UV_EFAULT when something is broken, which
 * is then told on the stream unless that is NULL.
 * Cost: O(active timers + slots). */
UVWHEEL_EXTERN int uvwheel_check(const uvwheel_t *wheel, FILE *stream);

/* ---- Timers ------------------------------------------------------------- */

/* Makes a timer of the wheel, in uninitialised memory. It is not active; while
 * it is not active its memory may simply be freed or reused.
 * Errors: UV_EINVAL. */
UVWHEEL_EXTERN int uvwheel_timer_init(uvwheel_t *wheel, uvwheel_timer_t *timer);

/* Starts the timer: cb is called once timeout ms have passed since
 * uvwheel_now() and, if repeat is not 0, then again and again, at the times
 * that are any number of repeats after that; uvwheel_timer_set_missed says what
 * becomes of those that are missed. A timeout of 0 means the next tick, never
 * the dispatch that is going on. An active timer is restarted.
 *
 * Errors: UV_EINVAL (also: cb is NULL, the wheel is closing), UV_ENOBUFS (the
 * wheel has max_timers active ones already; a restart is always possible).
 * Cost: O(1); a restart that is not due earlier than before costs as little as
 * a refresh. When it is the earliest of the wheel, also one uv_timer_start. */
UVWHEEL_EXTERN int uvwheel_timer_start(uvwheel_timer_t *timer,
                                       uvwheel_timer_cb cb, uint64_t timeout,
                                       uint64_t repeat);

/* Stops the timer: its callback is not called any more, also if it was due and
 * waiting for its turn. 0 also when it is not active. The timer may be freed
 * as soon as this returns.
 * Errors: UV_EINVAL. Cost: O(1); when it was the wheel's last one, also
 * O(slots / 64) and one uv_timer_stop. */
UVWHEEL_EXTERN int uvwheel_timer_stop(uvwheel_timer_t *timer);

/* Starts the timer anew with its repeat as the timeout, active or not; without
 * a repeat it does nothing and returns 0, as uv_timer_again does.
 * Errors: UV_EINVAL (also: never started, the wheel is closing), UV_ENOBUFS.
 * Cost: as uvwheel_timer_start. */
UVWHEEL_EXTERN int uvwheel_timer_again(uvwheel_timer_t *timer);

/* Pushes the due time of an active timer out to uvwheel_now() + its interval:
 * its repeat if it has one, else the timeout it was last started with.
 * Errors: UV_EINVAL (also: not active).
 * Cost: one store. The timer is moved later, when the hand comes to where it
 * was. Only when it becomes due earlier than before (its repeat is shorter than
 * the timeout it was started with, or has been shortened) this costs as much as
 * a stop and a start. */
UVWHEEL_EXTERN int uvwheel_timer_refresh(uvwheel_timer_t *timer);

/* 1 from start to stop or, without a repeat, to the callback. */
UVWHEEL_EXTERN int uvwheel_timer_is_active(const uvwheel_timer_t *timer);

/* The ms from uvwheel_now() until the timer is due; 0 if it is due or not
 * active. It fires at the first tick after that. */
UVWHEEL_EXTERN uint64_t uvwheel_timer_get_due_in(const uvwheel_timer_t *timer);

/* How many rounds the timer still has to go: how many times the hand will pass
 * its slot in vain before it comes to the tick at which the timer is due. 0 if
 * that is in this round, or the timer is not active. */
UVWHEEL_EXTERN uint64_t uvwheel_timer_get_rounds(const uvwheel_timer_t *timer);

/* The wheel of the timer, as in a callback of libuv one writes timer->loop;
 * NULL if the timer is NULL or was never initialised. */
UVWHEEL_EXTERN uvwheel_t *uvwheel_timer_get_wheel(const uvwheel_timer_t *timer);

/* Sets the repeat in ms, 0 for none. It counts from the next time the timer is
 * armed: by firing, again or refresh; when it is due now does not change. */
UVWHEEL_EXTERN void uvwheel_timer_set_repeat(uvwheel_timer_t *timer,
                                             uint64_t repeat);

/* The repeat in ms, 0 for none. */
UVWHEEL_EXTERN uint64_t uvwheel_timer_get_repeat(const uvwheel_timer_t *timer);

/* Says what becomes of the repeats that a late loop missed. The beat is the
 * time at which the timer was due first, plus any number of repeats; each
 * start, again and refresh begins a new one.
 *
 * UVWHEEL_MISSED_SKIP, the default: the next callback is due at the first time
 * of the beat that is not before uvwheel_now(). So a repeat of any length has
 * its rate, at most one callback per tick.
 * UVWHEEL_MISSED_DELAY is libuv's rule: it is due a repeat after this callback,
 * so that the timer drifts by as much as it is late; a repeat that is a
 * multiple of tick_ms takes a tick longer each time. UVWHEEL_MISSED_BURST: it
 * is due at the next time of the beat, also when that is past: the callback
 * then runs again at once, within the turn's limits, until it has run as often
 * as the beat says; also several times per tick, if the repeat is shorter than
 * that. What is due later waits meanwhile: after eight hours a repeat of 10 ms
 * has 2.9 million callbacks to make up for (if stall_ms lets the time count),
 * and one that takes longer than its repeat never catches up.
 *
 * It holds until it is set anew or the timer is initialised again. When it is
 * set in the timer's own callback, the next time has been chosen already; after
 * uvwheel_timer_set_repeat the beat goes on from there with the new repeat.
 * Errors: UV_EINVAL (also: not one of the three). */
UVWHEEL_EXTERN int uvwheel_timer_set_missed(uvwheel_timer_t *timer,
                                            uvwheel_missed_t missed);

/* An unref'd timer does not keep the loop alive, active or not; ref takes that
 * back. Both are idempotent. While all active timers of a wheel are unref'd
 * the loop may end, unless an open mailbox keeps it alive. */
UVWHEEL_EXTERN void uvwheel_timer_ref(uvwheel_timer_t *timer);
UVWHEEL_EXTERN void uvwheel_timer_unref(uvwheel_timer_t *timer);

/* 1 unless uvwheel_timer_unref was called. */
UVWHEEL_EXTERN int uvwheel_timer_has_ref(const uvwheel_timer_t *timer);

/* ---- From other threads ------------------------------------------------- */

/* How other threads reach the timers of a wheel: they post a request, and the
 * loop calls them back, where all is allowed that is allowed in a timer's
 * callback: start, refresh, stop, close.
 *
 *   uvwheel_open_mailbox(&wheel);                 once, on the loop's thread
 *
 *   uvwheel_post(&wheel, &job->post, on_posted);  on any thread
 *
 * Requests are called back in the order in which they were queued, those of one
 * thread in the order of its calls. An iteration of the loop calls those that
 * it finds, at most turn_budget of them and for turn_ms at most; the rest
 * follows in the next ones, with I/O in between.
 *
 * Who owns what:
 *
 * - A request is the library's from a call that returned 0 until its callback,
 *   in which it may be posted again or freed. A call that failed has not
 *   touched it.
 * - A timer is the loop's. A thread that is done with one posts a request in
 *   whose callback it is stopped and freed, whatever the status is. When that
 *   post is refused (UV_ECANCELED), uvwheel_close has stopped the timer and the
 *   loop does not touch it any more: the thread may free it at once.
 * - The wheel must stay until no thread posts any more. That is for the program
 *   to know: it joins its threads, or has their last requests called back,
 *   before it reuses the wheel's memory. In uvwheel_close's callback threads
 * may still post, and are refused. (A call that is still on its way back when
 * its request is called back is waited for.)
 *
 * uvwheel_close calls back what is still queued with UV_ECANCELED, in order:
 * from the loop, right before uvwheel_close's own callback, and like that one
 * before uvwheel_close returns only if others had closed all handles of the
 * wheel. If others close the wheel's uv_async_t, requests wait for
 * uvwheel_close; and when the loop itself is closed nobody may post any more.
 * Fork while nothing is queued and nobody posts, or the child's mailbox may
 * wait for a wake-up that the parent got.
 */

/* A request is called back on the loop's thread. status is 0, or UV_ECANCELED:
 * the wheel was closed before, which stopped its timers. */
typedef void (*uvwheel_post_cb)(uvwheel_post_t *post, int status);

/* A request. Embed it in what posts it; it needs no initialising. */
struct uvwheel_post_s {
  /* public: belongs to the user, never read or written here */
  void *data;
  /* private */
  uvwheel_post_t *next;
  uvwheel_post_cb cb;
  uintptr_t queued; /* for a -Dchecks=true build */
  void *reserved[2];
};

/* Opens the wheel's mailbox, before other threads post. Like any uv_async_t it
 * keeps the loop alive, unless the wheel is unref'd. It is closed by
 * uvwheel_close.
 *
 * Errors: UV_EINVAL (also: the wheel is closing), UV_EALREADY (it is open),
 * those of uv_async_init. Cost: one uv_async_init. */
UVWHEEL_EXTERN int uvwheel_open_mailbox(uvwheel_t *wheel);

/* Has the loop call cb. Any thread, also the loop's, inside any callback.
 *
 * Errors: UV_EINVAL (a NULL, or the mailbox was never opened), UV_ECANCELED
 * (uvwheel_close was called); then nothing is queued, cb is not called and the
 * request is as it was. Cost: one compare-and-swap, and one more for each
 * thread that came in between; when nothing was queued, also one uv_async_send.
 */
UVWHEEL_EXTERN int uvwheel_post(uvwheel_t *wheel, uvwheel_post_t *post,
                                uvwheel_post_cb cb);

/* ---- Version ------------------------------------------------------------ */

/* The version of the library that runs, like uv_version(): compare it with
 * UVWHEEL_VERSION_HEX of the header. Any thread. */
UVWHEEL_EXTERN unsigned uvwheel_version(void);

/* The version of the library that runs as text, "0.1.0". Any thread. */
UVWHEEL_EXTERN const char *uvwheel_version_string(void);

#ifdef __cplusplus
}
#endif

#endif /* UVWHEEL_H */
