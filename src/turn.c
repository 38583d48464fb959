/* SPDX-License-Identifier: MIT */

/* Turns: a timer fires only after the loop has heard its peer.
 *
 *   the driver is due:  -->  a poll that does  -->  is anything  --no-->  turn
 *   notes the time           not wait, and          ready?
 *                            its callbacks            |
 *                                 ^------- yes -------'
 *
 * libuv runs its timers before it polls, or long after, so when a timer is due
 * the bytes of its peer may still wait in a socket. Therefore the driver, the
 * uv_timer_t that wakes the loop for the wheel, fires nothing. It notes the
 * loop's time (polled_ms) and makes polls return at once (by a uv_idle_t). The
 * turn runs after the next poll and its callbacks (in a uv_check_t) and fires
 * what was due by polled_ms: each of these peers was silent when that poll
 * began.
 *
 * One poll does not hear everything. libuv reports 1,024 events at a time and
 * reads 32 datagrams of a socket. So the turn waits until the loop is quiet:
 * after a poll no descriptor is ready, and the mailbox is empty. A loop that is
 * never quiet must have its timers as well, so the turn waits until a quarter
 * of a tick has passed, but for at least one more poll.
 *
 * There is one turn per poll. A turn that is cut by its limits goes on after
 * the next poll, up to the same time. */

#include "turn.h"

#include "batch.h"
#include "mailbox.h"
#include "portable.h"
#include "stall.h"
#include "timer.h"
#include "wheel.h"

#ifndef _WIN32
#include <poll.h>
#include <time.h>
#endif

/* Bounds of that quarter of a tick. In 25 ms a loop hears some thousand
 * datagrams; 250 ms are little beside the timeouts of a wheel whose ticks are
 * seconds long. */
#define LEAST_WAIT_MS 25
#define MOST_WAIT_MS 250

/* uvwheel_t.quiet_by_ms before the wait begins. */
#define NO_WAIT UINT64_MAX

/* While the wheel is polling, the driver looks from time to time whether others
 * have closed the two handles that the turn needs. */
#define WATCH_MS 1000

/* ---- The driver --------------------------------------------------------- */

void
uvwheel__disarm(uvwheel_t *wheel)
{
  wheel->flags &= ~(uint64_t)(ARMED | POLLING);
  (void)uv_timer_stop(&wheel->driver);
  (void)uv_idle_stop(&wheel->no_wait);
}

static void
arm_at_next_tick(uvwheel_t *wheel)
{
  uint64_t now_ms = passed_by(wheel, loop_now(wheel));
  uint64_t next_ms = uvwheel__core_next_ms(&wheel->core);
  uint64_t delay_ms = next_ms > now_ms ? next_ms - now_ms : 0;
  uint64_t wake_ms = add_ms(loop_now(wheel), delay_ms);

  /* Never push back a wake-up that is overdue. */
  if ((wheel->flags & ARMED) && wake_ms >= wheel->armed_for_ms)
    return;
  wheel->flags |= ARMED;
  wheel->armed_for_ms = wake_ms;
  (void)uv_timer_start(&wheel->driver, uvwheel__on_due, delay_ms, WATCH_MS);
}

void
uvwheel__arm(uvwheel_t *wheel)
{
  if (is_closing(wheel)) /* then there may be no loop */
    return;
  if (uvwheel__core_count(&wheel->core) == 0)
    uvwheel__disarm(wheel);
  else if (!(wheel->flags & POLLING))
    arm_at_next_tick(wheel);
}

/* Others have closed some of the wheel's handles. Closes the driver, and with
 * it the wheel, and lets polls wait again. */
static void
abandon(uvwheel_t *wheel)
{
  (void)uv_idle_stop(&wheel->no_wait);
  if (!is_closing(wheel))
    uv_close((uv_handle_t *)&wheel->driver, NULL);
}

static bool
is_sibling_closing(const uvwheel_t *wheel)
{
  return uv_is_closing((const uv_handle_t *)&wheel->no_wait) ||
         uv_is_closing((const uv_handle_t *)&wheel->after_poll);
}

/* While it is active, polls do not wait. It keeps the loop alive as the driver
 * does. */
void
uvwheel__on_no_wait(uv_idle_t *no_wait)
{
  uvwheel_t *wheel = CONTAINER_OF(no_wait, uvwheel_t, no_wait);

  if (is_closing(wheel) || is_sibling_closing(wheel))
    abandon(wheel);
}

/* Makes the loop poll before anything fires. */
void
uvwheel__on_due(uv_timer_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);
  uint64_t heard_ms = heard_until(wheel);

  wheel->flags &= ~(uint64_t)ARMED;
  if (is_sibling_closing(wheel)) {
    abandon(wheel);
    return;
  }
  /* A walk whose callback runs the loop has its places in the lists. At its end
   * it arms the driver. */
  if (wheel->core.cursor != NULL || (wheel->flags & POLLING))
    return;
  wheel->flags |= POLLING;
  wheel->heard_ms = heard_ms;
  wheel->polled_ms = loop_now(wheel);
  wheel->quiet_by_ms = NO_WAIT;
  (void)uv_idle_start(&wheel->no_wait, uvwheel__on_no_wait);
}

/* ---- Quiet -------------------------------------------------------------- */

static uint64_t
longest_wait_ms(const uvwheel_t *wheel)
{
  uint64_t quarter_ms = wheel->core.tick_ms / 4;

  if (quarter_ms < LEAST_WAIT_MS)
    return LEAST_WAIT_MS;
  return quarter_ms < MOST_WAIT_MS ? quarter_ms : MOST_WAIT_MS;
}

/* Is nothing left that waits to be heard? poll(2) only looks: epoll_wait would
 * take edge-triggered events away from libuv. Windows has no descriptor that
 * says so for its sockets. */
static bool
is_quiet(const uvwheel_t *wheel)
{
#ifndef _WIN32
  struct pollfd backend = {.fd = uv_backend_fd(wheel->loop), .events = POLLIN};

  if (poll(&backend, 1, 0) == 1 && (backend.revents & POLLIN))
    return false;
#endif
  return uvwheel__is_mailbox_empty(wheel);
}

/* May the turn run after this poll? */
static bool
is_wait_over(const uvwheel_t *wheel, uint64_t now_ms)
{
  return now_ms >= wheel->quiet_by_ms || is_quiet(wheel);
}

/* The wait begins when the first poll returns, because the loop heard nothing
 * before. At least one more poll follows, however long the callbacks of this
 * one have taken. */
static void
wait_for_quiet(uvwheel_t *wheel)
{
  if (wheel->quiet_by_ms == NO_WAIT)
    wheel->quiet_by_ms = loop_now(wheel) + longest_wait_ms(wheel);
}

/* ---- Firing ------------------------------------------------------------- */

static void
count_in(uint64_t *buckets, uint64_t *sum_ms, uint64_t *max_ms,
         uint64_t late_ms)
{
  unsigned bucket = bit_width(late_ms);

  if (bucket >= UVWHEEL_LATENESS_BUCKETS)
    bucket = UVWHEEL_LATENESS_BUCKETS - 1;
  buckets[bucket]++;
  *sum_ms += late_ms;
  if (late_ms > *max_ms)
    *max_ms = late_ms;
}

/* From the tick, and from the due time: the one is the wheel's doing or the
 * loop's, the other is what a peer sees. */
static void
count_lateness(uvwheel_stats_t *stats, uint64_t late_ms, uint64_t due_late_ms)
{
  count_in(stats->lateness, &stats->lateness_sum_ms, &stats->lateness_max_ms,
           late_ms);
  count_in(stats->due_lateness, &stats->due_lateness_sum_ms,
           &stats->due_lateness_max_ms, due_late_ms);
}

/* The time on the wheel's clock up to which the turn fires. A callback may find
 * that the loop's clock has stepped back, and then nothing may fire early. */
static uint64_t
limit_of(const uvwheel_t *wheel)
{
  uint64_t now_ms = loop_now(wheel);

  return passed_by(wheel,
                   now_ms < wheel->polled_ms ? now_ms : wheel->polled_ms);
}

static void
fire(uvwheel_t *wheel, uvwheel_entry_t *entry, uint64_t limit_ms)
{
  /* All entries of a pass are due at its tick. */
  uint64_t now_ms = passed_by(wheel, loop_now(wheel));
  uint64_t late_ms = now_ms - wheel->core.pass_ms;

  count_lateness(&wheel->stats, late_ms, now_ms - entry->due_ms);
  uvwheel__fire(wheel, entry, limit_ms);
}

static void
run_turn(uvwheel_t *wheel)
{
  uvwheel_core_t *core = &wheel->core;
  uint64_t budget = wheel->turn_budget;
  batch_t batch;

  wheel->stats.wakeups++;
  uvwheel__begin_batch(wheel, &batch);
  while (!batch.is_over && !is_closing(wheel)) {
    uint64_t limit_ms = limit_of(wheel);
    uvwheel_entry_t *entry = uvwheel__core_expire(core, limit_ms, &budget);
    if (entry == NULL)
      break;
    fire(wheel, entry, limit_ms);
    uvwheel__count_callback(wheel, &batch);
  }
  uvwheel__end_batch(wheel, &batch);
}

static bool
is_due(const uvwheel_t *wheel)
{
  return uvwheel__core_next_ms(&wheel->core) <= limit_of(wheel);
}

/* ---- After a poll ------------------------------------------------------- */

/* The time now on the loop's clock, which has cached when the poll returned. On
 * Linux the coarse clock is exact enough, and takes a fifth of the time. */
static uint64_t
read_clock(const uvwheel_t *wheel)
{
  uint64_t now_ms;
#ifdef __linux__
  struct timespec now = {0, 0};

  (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
#else
  now_ms = uv_hrtime() / 1000000;
#endif
  return now_ms > loop_now(wheel) ? now_ms : loop_now(wheel);
}

/* What is due fires now, or after another poll. */
static void
try_turn(uvwheel_t *wheel, uint64_t now_ms)
{
  if (loop_now(wheel) < wheel->polled_ms) { /* the clock has stepped back */
    wheel->polled_ms = loop_now(wheel);
    wheel->quiet_by_ms = NO_WAIT;
  }
  /* A walk whose callback runs the loop has its places in the lists. */
  if (wheel->core.cursor == NULL && is_due(wheel)) {
    if (!is_wait_over(wheel, now_ms)) {
      wait_for_quiet(wheel);
      return;
    }
    wheel->quiet_by_ms = 0; /* what this turn leaves has been heard */
    run_turn(wheel);
    if (is_closing(wheel))
      return;
    if (is_due(wheel)) {
      wheel->stats.wakeups_cut++;
      return;
    }
  }
  uvwheel__disarm(wheel);
  uvwheel__arm(wheel);
}

static void
after_poll(uvwheel_t *wheel)
{
  uint64_t heard_ms, now_ms;

  /* On Windows a poll that does not wait leaves the loop's time alone. */
#ifdef _WIN32
  uv_update_time(wheel->loop);
#endif
  follow_clock(wheel);
  heard_ms = heard_until(wheel);
  now_ms = read_clock(wheel);
  wheel->heard_ms = now_ms;
  if (UNLIKELY(now_ms > heard_ms && now_ms - heard_ms > wheel->stall_ms))
    uvwheel__count_stall(wheel, now_ms - heard_ms);
  if (wheel->flags & POLLING)
    try_turn(wheel, now_ms);
}

void
uvwheel__on_after_poll(uv_check_t *handle)
{
  uvwheel_t *wheel = CONTAINER_OF(handle, uvwheel_t, after_poll);

  if (uvwheel__core_count(&wheel->core) != 0)
    after_poll(wheel);
  uvwheel__leave_loop(wheel);
}

/* ---- Before their time -------------------------------------------------- */

/* Calls back what was drawn. */
static uint64_t
fire_drawn(uvwheel_t *wheel)
{
  uvwheel_entry_t *entry;
  uint64_t fired = 0;

  while (!is_closing(wheel) &&
         (entry = uvwheel__core_take_drawn(&wheel->core)) != NULL) {
    fired++;
    uvwheel__fire(wheel, entry, reported_now(wheel));
  }
  return fired;
}

uint64_t
uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count)
{
  uint64_t fired;
  batch_t batch;

  if (!is_wheel(wheel) || is_closing(wheel) || wheel->core.cursor != NULL ||
      (wheel->flags & FIRES_SOONEST))
    return 0;
  follow_clock(wheel);
  uvwheel__begin_batch(wheel, &batch);
  wheel->flags |= FIRES_SOONEST;
  (void)uvwheel__core_draw(&wheel->core, passed_by(wheel, loop_now(wheel)),
                           count);
  fired = fire_drawn(wheel);
  wheel->flags &= ~(uint64_t)FIRES_SOONEST;
  uvwheel__end_batch(wheel, &batch);
  uvwheel__arm(wheel);
  return fired;
}

/* ---- The handles -------------------------------------------------------- */

/* They are started once, so that libuv and uvwheel_owns_handle know their
 * callbacks. */
void
uvwheel__init_turns(uvwheel_t *wheel)
{
  (void)uv_timer_init(wheel->loop, &wheel->driver);
  (void)uv_timer_start(&wheel->driver, uvwheel__on_due, 0, 0);
  (void)uv_timer_stop(&wheel->driver);
  (void)uv_idle_init(wheel->loop, &wheel->no_wait);
  (void)uv_idle_start(&wheel->no_wait, uvwheel__on_no_wait);
  (void)uv_idle_stop(&wheel->no_wait);
  (void)uv_check_init(wheel->loop, &wheel->after_poll);
  (void)uv_check_start(&wheel->after_poll, uvwheel__on_after_poll);
  uv_unref((uv_handle_t *)&wheel->after_poll);
}

static void
set_ref(uv_handle_t *handle, bool ref)
{
  if (ref)
    uv_ref(handle);
  else
    uv_unref(handle);
}

/* An unref'd wheel keeps no loop alive, nor does one whose timers are all
 * unref'd. */
void
uvwheel__update_ref(uvwheel_t *wheel)
{
  bool ref = !(wheel->flags & UNREF);
  bool driven = ref && (wheel->unrefd == 0 ||
                        wheel->unrefd != uvwheel__core_count(&wheel->core));

  /* While timers are unref'd each start has to come here. */
  wheel->core.usual_ms = wheel->unrefd == 0 ? wheel->core.divided_ms : 0;
  set_ref((uv_handle_t *)&wheel->driver, driven);
  set_ref((uv_handle_t *)&wheel->no_wait, driven);
  if (wheel->flags & HAS_MAILBOX)
    set_ref((uv_handle_t *)&wheel->async, ref);
}
