/* SPDX-License-Identifier: MIT */

/* Turns: the check listens, the driver fires.
 *
 * When a timer is due, bytes of its peer may still wait in a socket. So one
 * time decides what may fire: quiet_ms. Whoever spoke up to then was heard.
 *
 *   on time:    poll --> check: is the loop quiet? --> driver fires
 *                        Then quiet_ms = now.
 *
 *   otherwise:  driver --> poll that does not wait --> check listens and fires
 *                            ^                            |
 *                            '--- something is due still -'
 *
 * The check (a uv_check_t) is called after each poll. If something is due that
 * quiet_ms does not cover yet, it asks whether the loop is quiet: no descriptor
 * is ready, none waits to be registered, and the mailbox is empty. Then
 * quiet_ms is the loop's time, which is when the poll returned.
 *
 * The driver (a uv_timer_t) fires the timers that are due by quiet_ms. It is
 * due at the time of the wheel's next tick; if the poll returned later than
 * that, the check moves it to the loop's time. So all timers of the loop that
 * were due before run before it.
 *
 * If something is due that was not heard, or a turn was cut by its limits, a
 * spell begins: the idle handle keeps polls from waiting, and the checks listen
 * and fire until nothing is due. They fire no timer that is due after the last
 * check (polled_ms), because timers of the loop may be due before it.
 *
 * A loop that is never quiet must have its timers, too. Once a spell has polled
 * for a quarter of a tick, the wheel fires timers that were due a quarter of a
 * tick ago and before the last check but one: since then the loop has polled
 * twice, and for that long. The limit moves with the clock. If timers of the
 * loop block it for longer than MIN_WAIT_MS, the wait begins anew, once in a
 * spell. */

#include "binding.h"

#ifndef _WIN32
#include <poll.h>
#endif

/* Bounds of that quarter of a tick. In 25 ms a loop reads a few thousand
 * datagrams; 250 ms are little beside the timeouts of a wheel whose ticks are
 * seconds long. */
#define MIN_WAIT_MS 25
#define MAX_WAIT_MS 250

/* A loop that was not quiet is asked again after a millisecond or so many
 * polls. Beside a descriptor that is always ready ten wheels that ask after
 * each poll leave a loop 88,000 iterations per second of 726,000. */
#define MAX_UNASKED 1000

static void on_driver(uv_timer_t *driver);
static void on_idle(uv_idle_t *idle);

/* ---- Arming ------------------------------------------------------------- */

/* The driver was not started since its last call. uv_is_active cannot tell:
 * since libuv 1.48 a timer is inactive once libuv has found it due. */
#define NOT_ARMED UINT64_MAX

static void
start_driver(uvwheel_t *wheel, uint64_t delay_ms)
{
  wheel->armed_for_ms = add_ms(loop_now(wheel), delay_ms);
  (void)uv_timer_start(&wheel->driver, on_driver, delay_ms, 0);
}

void
uvwheel__disarm(uvwheel_t *wheel)
{
  wheel->flags &= ~(uint64_t)SPELL;
  wheel->armed_for_ms = NOT_ARMED;
  (void)uv_timer_stop(&wheel->driver);
  (void)uv_idle_stop(&wheel->idle);
}

/* Never makes a wake-up later: starts could starve one that is overdue. */
static void
arm_at_next_tick(uvwheel_t *wheel)
{
  uint64_t now_ms = to_wheel_ms(wheel, loop_now(wheel));
  uint64_t next_ms = uvwheel__core_next_ms(&wheel->core);
  uint64_t delay_ms = next_ms > now_ms ? next_ms - now_ms : 0;

  if (wheel->armed_for_ms == NOT_ARMED ||
      add_ms(loop_now(wheel), delay_ms) < wheel->armed_for_ms)
    start_driver(wheel, delay_ms);
}

/* Others have closed some of the wheel's handles. Closes the driver, and with
 * it the wheel, and lets polls wait again. */
static void
abandon(uvwheel_t *wheel)
{
  (void)uv_idle_stop(&wheel->idle);
  if (!is_closing(wheel))
    uv_close((uv_handle_t *)&wheel->driver, NULL);
}

void
uvwheel__arm(uvwheel_t *wheel)
{
  if (is_closing(wheel)) /* then there may be no loop */
    return;
  if (uvwheel__core_count(&wheel->core) == 0)
    uvwheel__disarm(wheel);
  else if (!(wheel->flags & SPELL))
    arm_at_next_tick(wheel);
}

/* Converts a time of the loop to the time of the wheel up to which timers may
 * fire. 0 if the loop's clock has stepped back below it: then it tells nothing
 * of the bytes that came since. */
static uint64_t
limit_by(const uvwheel_t *wheel, uint64_t loop_ms)
{
  return loop_ms <= loop_now(wheel) ? to_wheel_ms(wheel, loop_ms) : 0;
}

static bool
is_due_by(const uvwheel_t *wheel, uint64_t loop_ms)
{
  return uvwheel__core_next_ms(&wheel->core) <= limit_by(wheel, loop_ms);
}

static void
begin_spell(uvwheel_t *wheel)
{
  if (uv_is_closing((uv_handle_t *)&wheel->idle)) { /* libuv would start it */
    abandon(wheel);
    return;
  }
  uvwheel__disarm(wheel);
  wheel->flags |= SPELL;
  wheel->armed_for_ms = 0; /* no poll sleeps */
  wheel->wait_began_ms = UINT64_MAX;
  wheel->wait_began_anew = 0;
  wheel->polled_ms = loop_now(wheel); /* libuv now runs timers due by then */
  (void)uv_idle_start(&wheel->idle, on_idle);
}

/* While it is active, polls do not wait. It keeps the loop alive as the driver
 * does. */
static void
on_idle(uv_idle_t *idle)
{
  uvwheel_t *wheel = CONTAINER_OF(idle, uvwheel_t, idle);

  if (uv_is_closing((uv_handle_t *)&wheel->check))
    abandon(wheel);
}

/* ---- Batches ------------------------------------------------------------ */

/* The most callbacks between two reads of the clock. A read takes some 25 ns,
 * as long as a quick callback and its expiry. */
#define MAX_UNREAD 16

/* A clock that a test has set back counts as one that stands still. */
static uint64_t
ns_between(uint64_t then_ns, uint64_t now_ns)
{
  return now_ns > then_ns ? now_ns - then_ns : 0;
}

void
uvwheel__begin_batch(uvwheel_t *wheel, batch_t *batch)
{
  uvwheel__add_blocked(wheel);
  batch->blocked_ms = wheel->blocked_ms;
  batch->begin_ns = uv_hrtime();
  batch->read_ns = batch->begin_ns;
  batch->unread = 0;
  batch->is_over = false;
}

/* Reads the clock after each slow callback, and from time to time between quick
 * ones, judging by the last ones. */
void
uvwheel__check_time(uvwheel_t *wheel, batch_t *batch)
{
  uint64_t turn_ns = wheel->options.turn_ms * UINT64_C(1000000), now_ns;

  if (++batch->unread < wheel->read_every)
    return;
  now_ns = uv_hrtime();
  if (ns_between(batch->read_ns, now_ns) > turn_ns / 8)
    wheel->read_every = 1;
  else if (wheel->read_every < MAX_UNREAD)
    wheel->read_every *= 2;
  batch->read_ns = now_ns;
  batch->unread = 0;
  batch->is_over = wheel->options.turn_ms != UINT32_MAX &&
                   ns_between(batch->begin_ns, now_ns) >= turn_ns;
}

void
uvwheel__end_batch(uvwheel_t *wheel, const batch_t *batch)
{
  uint64_t took_us = ns_between(batch->begin_ns, uv_hrtime()) / 1000;

  if (took_us > wheel->stats.turn_max_us)
    wheel->stats.turn_max_us = took_us;
  uvwheel__excuse_blocked(wheel, batch->blocked_ms);
}

/* ---- Firing ------------------------------------------------------------- */

static void
count_lateness(uvwheel_stats_t *stats, uint64_t late_ms)
{
  unsigned bucket = bit_width(late_ms);

  if (bucket >= UVWHEEL_LATENESS_BUCKETS)
    bucket = UVWHEEL_LATENESS_BUCKETS - 1;
  stats->lateness[bucket]++;
  stats->lateness_sum_ms += late_ms;
  if (late_ms > stats->lateness_max_ms)
    stats->lateness_max_ms = late_ms;
}

/* Fires the timers that are due by a time of the loop, if any. Returns whether
 * others are due. */
static bool
run_turn(uvwheel_t *wheel, uint64_t until_ms)
{
  uint64_t budget = wheel->options.turn_budget;
  batch_t batch;

  if (!is_due_by(wheel, until_ms)) {
    uvwheel__add_blocked(wheel); /* by armed_for_ms, which changes now */
    return is_due_by(wheel, loop_now(wheel));
  }
  wheel->stats.turns++;
  uvwheel__begin_batch(wheel, &batch);
  while (!is_closing(wheel)) {
    uint64_t limit_ms = limit_by(wheel, until_ms);
    uvwheel_entry_t *entry =
        uvwheel__core_expire(&wheel->core, limit_ms, &budget);
    if (entry == NULL)
      break;
    count_lateness(&wheel->stats,
                   to_wheel_ms(wheel, loop_now(wheel)) - entry->due_ms);
    uvwheel__fire(wheel, entry, limit_ms);
    uvwheel__check_time(wheel, &batch);
    if (batch.is_over)
      budget = 0;
  }
  uvwheel__end_batch(wheel, &batch);
  if (is_closing(wheel) || !is_due_by(wheel, loop_now(wheel)))
    return false;
  wheel->stats.turns_cut += is_due_by(wheel, until_ms);
  return true;
}

static void
on_driver(uv_timer_t *driver)
{
  uvwheel_t *wheel = CONTAINER_OF(driver, uvwheel_t, driver);
  bool is_due = run_turn(wheel, wheel->quiet_ms);

  /* Not before the turn: while the driver counts as armed, no start in a
   * callback arms it. */
  wheel->armed_for_ms = NOT_ARMED;
  if (is_due)
    begin_spell(wheel);
  else
    uvwheel__arm(wheel);
}

/* ---- Listening ---------------------------------------------------------- */

/* Is no descriptor ready, and does none wait to be registered? -1 if libuv does
 * not tell, as on Windows. poll(2) only looks: epoll_wait would take
 * edge-triggered events away from libuv. The events that libuv counts do not
 * tell, because it drops those of paused descriptors. */
static int
are_descriptors_quiet(const uvwheel_t *wheel)
{
#ifdef _WIN32
  (void)wheel;
  return -1;
#else
  const void *queue = &wheel->loop->watcher_queue;
  struct pollfd backend = {.fd = uv_backend_fd(wheel->loop), .events = POLLIN};

  if (backend.fd < 0)
    return -1;
  /* A queue is empty if its first link points to itself. */
  return *(const void *const *)queue == queue && poll(&backend, 1, 0) == 0;
#endif
}

/* Asks whether the loop is quiet, unless it was not a moment ago. Returns the
 * loop's time if it is, else 0. If libuv does not tell, returns the time of the
 * spell's last check: bytes that came before that count as heard. */
static uint64_t
ask(uvwheel_t *wheel)
{
  uint64_t now_ms = loop_now(wheel), quiet_ms = 0;
  int are_quiet;

  if (now_ms == wheel->ready_ms && ++wheel->unasked < MAX_UNASKED)
    return 0;
  are_quiet = are_descriptors_quiet(wheel);
  if (are_quiet != 0 && uvwheel__is_mailbox_empty(wheel))
    quiet_ms = are_quiet > 0 ? now_ms : wheel->polled_ms;
  wheel->ready_ms = are_quiet == 0 ? now_ms : UINT64_MAX;
  wheel->unasked = 0;
  return quiet_ms;
}

/* The loop's time up to which a spell has waited long enough; 0: not yet. */
static uint64_t
waited_for_ms(const uvwheel_t *wheel)
{
  uint64_t wait_ms = wheel->core.tick_ms / 4, quiet_ms;

  if (wait_ms < MIN_WAIT_MS)
    wait_ms = MIN_WAIT_MS;
  else if (wait_ms > MAX_WAIT_MS)
    wait_ms = MAX_WAIT_MS;
  if (wheel->counted_ms - wheel->wait_began_ms < wait_ms)
    return 0;
  quiet_ms = wheel->counted_ms - wait_ms;
  return quiet_ms < wheel->polled_before_ms ? quiet_ms
                                            : wheel->polled_before_ms;
}

/* The driver's time has come. If timers are due that quiet_ms does not cover,
 * asks whether the loop is quiet. If it is not, quiet_ms is waited_ms. */
static void
update_quiet(uvwheel_t *wheel, uint64_t waited_ms)
{
  uint64_t quiet_ms;

  if (is_due_by(wheel, wheel->quiet_ms))
    return;
  quiet_ms = ask(wheel);
  wheel->quiet_ms = quiet_ms > waited_ms ? quiet_ms : waited_ms;
}

/* The next poll of a spell has returned: fires what was heard, and ends the
 * spell once nothing is due. */
static void
go_on(uvwheel_t *wheel)
{
  uint64_t until_ms = wheel->quiet_ms;

  if (until_ms > wheel->polled_ms)
    until_ms = wheel->polled_ms;
  if (run_turn(wheel, until_ms))
    return;
  uvwheel__disarm(wheel);
  uvwheel__arm(wheel);
}

void
uvwheel__clock_stepped_back(uvwheel_t *wheel)
{
  if (loop_now(wheel) < wheel->set_back_ms)
    wheel->set_back_ms = loop_now(wheel);
  wheel->quiet_ms = wheel->polled_ms = wheel->polled_before_ms = 0;
  wheel->wait_began_ms = UINT64_MAX;
}

/* The next poll of a spell has returned. */
static void
continue_spell(uvwheel_t *wheel)
{
  uint64_t now_ms = loop_now(wheel);

  if (uv_is_closing((uv_handle_t *)&wheel->idle)) {
    abandon(wheel);
    return;
  }
  if (wheel->wait_began_ms == UINT64_MAX) {
    wheel->wait_began_ms = now_ms;
  } else if (now_ms > wheel->polled_ms + MIN_WAIT_MS &&
             !wheel->wait_began_anew) {
    wheel->wait_began_ms = now_ms;
    wheel->wait_began_anew = 1;
  }
  update_quiet(wheel, waited_for_ms(wheel));
  go_on(wheel);
  wheel->polled_before_ms = wheel->polled_ms;
  wheel->polled_ms = wheel->counted_ms;
}

/* After each poll. */
static void
on_check(uv_check_t *check)
{
  uvwheel_t *wheel = CONTAINER_OF(check, uvwheel_t, check);
  uint64_t now_ms = loop_now(wheel);

  uvwheel__judge_blocked(wheel);
  if (wheel->flags & SPELL) {
    continue_spell(wheel);
  } else if (wheel->armed_for_ms <= now_ms) {
    update_quiet(wheel, 0);
    /* The driver runs behind all timers of the loop that are due. */
    if (wheel->armed_for_ms < now_ms)
      start_driver(wheel, 0);
  }
  uvwheel__end_check(wheel);
}

/* ---- Before their time -------------------------------------------------- */

uint64_t
uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count)
{
  uvwheel_entry_t *entry;
  uint64_t fired = 0;
  batch_t batch;

  if (!is_wheel(wheel) || is_closing(wheel) ||
      (wheel->flags & (WALKS | FIRES_SOONEST)))
    return 0;
  uvwheel__begin_batch(wheel, &batch);
  wheel->flags |= FIRES_SOONEST;
  (void)uvwheel__core_draw(&wheel->core, count);
  while (!is_closing(wheel) &&
         (entry = uvwheel__core_take_drawn(&wheel->core)) != NULL) {
    fired++;
    uvwheel__fire(wheel, entry, wheel_now(wheel));
  }
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
  wheel->armed_for_ms = NOT_ARMED;
  (void)uv_timer_init(wheel->loop, &wheel->driver);
  (void)uv_timer_start(&wheel->driver, on_driver, 0, 0);
  (void)uv_timer_stop(&wheel->driver);
  (void)uv_idle_init(wheel->loop, &wheel->idle);
  (void)uv_idle_start(&wheel->idle, on_idle);
  (void)uv_idle_stop(&wheel->idle);
  (void)uv_check_init(wheel->loop, &wheel->check);
  (void)uv_check_start(&wheel->check, on_check);
  uv_unref((uv_handle_t *)&wheel->check);
}

/* Compares callbacks, not data: libuv sets the callback, but a program may
 * leave data uninitialised. */
int
uvwheel_owns_handle(const uv_handle_t *handle)
{
  if (handle == NULL)
    return 0;
  switch (handle->type) {
  case UV_TIMER:
    return ((const uv_timer_t *)handle)->timer_cb == on_driver;
  case UV_IDLE:
    return ((const uv_idle_t *)handle)->idle_cb == on_idle ||
           ((const uv_idle_t *)handle)->idle_cb == uvwheel__on_close_watch;
  case UV_CHECK:
    return ((const uv_check_t *)handle)->check_cb == on_check;
  case UV_ASYNC:
    return ((const uv_async_t *)handle)->async_cb == uvwheel__on_wake;
  default:
    return 0;
  }
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
uvwheel__update_refs(uvwheel_t *wheel)
{
  bool ref = !(wheel->flags & UNREF);
  bool driven = ref && (wheel->unrefd == 0 ||
                        wheel->unrefd != uvwheel__core_count(&wheel->core));

  set_ref((uv_handle_t *)&wheel->driver, driven);
  set_ref((uv_handle_t *)&wheel->idle, driven);
  if (wheel->has_mailbox)
    set_ref((uv_handle_t *)&wheel->async, ref);
}
