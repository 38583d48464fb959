/* SPDX-License-Identifier: MIT */

/* Turns: the check listens, the driver fires.
 *
 * When a timer is due, bytes of its peer may still wait in a socket. So what
 * may fire depends on one time: every byte that arrived before heard_loop_ms
 * was read.
 *
 *   on time:    poll --> check: is the loop quiet? --> driver fires
 *                        Then heard_loop_ms becomes the loop's time.
 *
 *   otherwise:  driver --> poll that does not wait --> check listens and fires
 *                            ^                            |
 *                            '--- something is due still -'
 *
 * After each poll the check (a uv_check_t) is called. If something is due, it
 * asks whether the loop is quiet: no descriptor is ready, none waits to be
 * registered, and no request is queued. Then heard_loop_ms is the loop's time,
 * which is when the poll returned. Once nothing is due it becomes 0: the clock
 * may step back, and reach that time a second time, unnoticed.
 *
 * The driver (a uv_timer_t) fires the timers that are due by heard_loop_ms. It
 * is due at the time of the wheel's next tick. The check moves it to the
 * present, behind all timers of the loop that are due by then. Their callbacks,
 * or those of another check, may resume the reading of a socket in which bytes
 * have waited for long. Then nothing counts as heard any more, unless a spell
 * has waited long enough.
 *
 * If something is due that was not heard, or if a turn was cut by its limits, a
 * spell begins: the idle handle keeps polls from waiting, and the checks listen
 * and fire until nothing is due. They fire only timers that were due at the
 * check before (checked_loop_ms): libuv has run its own timers up to that time.
 *
 * Timers must also fire in a loop that always has I/O ready. There a timer
 * waits until two polls and a quarter of a tick have passed since it was due.
 * The wait of a spell begins when a check first finds that the loop is not
 * quiet. Its limit moves with the clock: a timer that becomes due meanwhile
 * waits as long. If callbacks that follow a check, such as timers of the loop,
 * take longer than MIN_WAIT_MS, the wait begins anew, once in a spell. */

#include "binding.h"

#ifndef _WIN32
#include <poll.h>
#endif

/* Bounds of the wait in a loop that is never quiet, a quarter of a tick. In 25
 * ms a loop reads a few thousand datagrams; 250 ms are little beside the
 * timeouts of a wheel whose ticks are seconds long. */
#define MIN_WAIT_MS 25
#define MAX_WAIT_MS 250

/* ---- What may fire ------------------------------------------------------- */

static bool
is_due_by(const uvwheel_state_t *state, uint64_t loop_ms)
{
  return uvwheel__core_next_ms(&state->core) <= to_wheel_ms(state, loop_ms);
}

/* Bytes may have waited for long in a socket whose reading a callback has just
 * resumed. libuv registers the socket before its next poll, which reads some of
 * them. */
static void
forget_if_watcher_waits(uvwheel_state_t *state)
{
  if (is_watcher_waiting(state))
    state->heard_loop_ms = 0;
}

/* ---- Firing -------------------------------------------------------------- */

static void
count_lateness(uvwheel_stats_t *stats, uint64_t late_ms)
{
  stats->lateness[min_of(bit_width(late_ms), UVWHEEL_LATENESS_BUCKETS - 1)]++;
  stats->lateness_sum_ms += late_ms;
  stats->lateness_max_ms = max_of(stats->lateness_max_ms, late_ms);
}

/* Fires the timers that are due by a time of the loop, if any. Returns whether
 * any timer is due afterwards; false if the wheel is closing. */
static bool
run_turn(uvwheel_state_t *state, uint64_t until_loop_ms)
{
  uint64_t budget = state->options.turn_budget;
  batch_t batch;

  if (!is_due_by(state, until_loop_ms))
    return is_due_by(state, loop_now(state));
  state->core.stats.turns++;
  uvwheel__begin_batch(&batch);
  while (!is_closing(state)) {
    uint64_t limit_ms = to_wheel_ms(state, until_loop_ms);
    uvwheel_entry_t *entry =
        uvwheel__core_expire(&state->core, limit_ms, &budget);
    if (entry == NULL)
      break;
    count_lateness(&state->core.stats,
                   to_wheel_ms(state, loop_now(state)) - entry->due_ms);
    uvwheel__fire(state, entry, limit_ms);
    if (count_callback(state, &batch))
      budget = 0;
  }
  (void)uvwheel__read_clock(state, &batch);
  if (is_closing(state) || !is_due_by(state, loop_now(state)))
    return false;
  state->core.stats.turns_cut += is_due_by(state, until_loop_ms);
  return true;
}

/* ---- Listening ----------------------------------------------------------- */

/* Returns the loop's time if no descriptor is ready, and none waits to be
 * registered; else 0. Where nobody tells (Windows, AIX, a poll(2) that fails),
 * bytes that came before the spell's last check count as heard. poll(2) only
 * looks: epoll_wait would take edge-triggered events away from libuv. */
static uint64_t
ask_backend(const uvwheel_state_t *state)
{
#ifdef _WIN32
  return state->checked_loop_ms;
#else
  struct pollfd backend = {.fd = uv_backend_fd(state->loop), .events = POLLIN};
  int count;

  if (is_watcher_waiting(state))
    return 0;
  count = backend.fd < 0 ? -1 : poll(&backend, 1, 0);
  if (count == 0)
    return loop_now(state);
  return count > 0 && (backend.revents & POLLIN) ? 0 : state->checked_loop_ms;
#endif
}

/* Returns the answer of the backend, or 0 while requests wait that the loop has
 * taken. (If others have closed the mailbox, these wait for uvwheel_close. For
 * a request that is not taken yet the mailbox's own descriptor is ready.)
 *
 * A loop that was not quiet is asked again after its 2nd, 4th, 8th ... poll in
 * the same millisecond. Ten wheels that ask after each poll beside a descriptor
 * that is always ready leave a loop 88,000 iterations per second of 726,000. */
static uint64_t
ask_if_quiet(uvwheel_state_t *state)
{
  uint64_t now_loop_ms = loop_now(state), heard_loop_ms;

  state->busy_polls =
      state->busy_loop_ms == now_loop_ms ? state->busy_polls + 1 : 1;
  if ((state->busy_polls & (state->busy_polls - 1)) != 0)
    return 0;
  heard_loop_ms =
      state->taken == NULL || IS_CLOSING(state->async) ? ask_backend(state) : 0;
  state->busy_loop_ms = heard_loop_ms == now_loop_ms ? 0 : now_loop_ms;
  return heard_loop_ms;
}

/* The loop's time up to which a spell has waited long enough; 0: not yet. */
static uint64_t
waited_until(const uvwheel_state_t *state)
{
  uint64_t now_loop_ms = state->counted_loop_ms;
  uint64_t wait_ms =
      min_of(max_of(state->core.tick_ms / 4, MIN_WAIT_MS), MAX_WAIT_MS);

  if (excess(now_loop_ms, state->wait_began_loop_ms) < wait_ms)
    return 0;
  return min_of(now_loop_ms - wait_ms, state->checked_before_loop_ms);
}

/* ---- Spells -------------------------------------------------------------- */

static void
begin_spell(uvwheel_state_t *state)
{
  if (IS_CLOSING(state->idle)) { /* uv_idle_start would start it all the same */
    uvwheel__abandon(state);
    return;
  }
  state->armed_for_loop_ms = 0; /* no poll sleeps */
  (void)uv_timer_stop(&state->driver);
  (void)uv_idle_start(&state->idle, uvwheel__on_idle);
  state->wait_began_loop_ms = NEVER;
  state->wait_began_anew = false;
  /* libuv has run its timers up to here. */
  state->checked_loop_ms = loop_now(state);
}

/* The next poll of a spell has returned. */
static void
continue_spell(uvwheel_state_t *state)
{
  uint64_t quiet_loop_ms;
  bool is_due;

  if (state->wait_began_loop_ms != NEVER && !state->wait_began_anew &&
      loop_now(state) > state->checked_loop_ms + MIN_WAIT_MS) {
    state->wait_began_loop_ms = loop_now(state);
    state->wait_began_anew = true;
  }
  forget_if_watcher_waits(state);
  quiet_loop_ms = ask_if_quiet(state);
  state->heard_loop_ms =
      max_of(state->heard_loop_ms, max_of(quiet_loop_ms, waited_until(state)));
  if (quiet_loop_ms == 0 && state->wait_began_loop_ms == NEVER)
    state->wait_began_loop_ms = loop_now(state);
  is_due =
      run_turn(state, min_of(state->heard_loop_ms, state->checked_loop_ms));
  uvwheel__add_blocked(state);
  state->checked_before_loop_ms = state->checked_loop_ms;
  state->checked_loop_ms = state->counted_loop_ms;
  if (is_due)
    return;
  uvwheel__disarm(state);
  uvwheel__arm(state);
}

/* ---- What follows a turn ------------------------------------------------- */

/* Linux's coarse clock is at most this far behind. */
#define CLOCK_STEP_MS 10

/* Does libuv call callbacks before it polls or returns: of timers that are due
 * within some time, of idle handles, of handles that close? The timeout is also
 * 0 in a loop that was stopped or is not alive: there none follow, uv_run
 * returns. Without anything to wait for the timeout is -1, which the cast makes
 * the largest number. */
static bool
do_callbacks_follow(const uvwheel_state_t *state, uint64_t within_ms)
{
  return (uint64_t)uv_backend_timeout(state->loop) <= within_ms &&
         state->loop->stop_flag == 0 && uv_loop_alive(state->loop);
}

/* The check returns to libuv: the loop may sleep until the driver is due. It
 * may not if callbacks follow, the driver's or others': then moves the driver,
 * so that libuv calls it at once and behind the others. Reads the exact clock
 * only if something is due, or will be within a step of the coarse one. */
static void
end_check(uvwheel_state_t *state)
{
  uint64_t now_loop_ms = state->counted_loop_ms;
  uint64_t behind_ms = now_loop_ms - loop_now(state);
  bool is_due = state->armed_for_loop_ms <= now_loop_ms;

  state->sleep_until_loop_ms = state->armed_for_loop_ms;
  if (state->core.active == 0 || state->armed_for_loop_ms == 0 ||
      (!is_due && !do_callbacks_follow(state, behind_ms + CLOCK_STEP_MS)))
    return;
  if (state->lag_ms == 0) /* else libuv reads the coarse clock, too */
    now_loop_ms = max_of(now_loop_ms, uv_hrtime() / 1000000);
  behind_ms = now_loop_ms - loop_now(state);
  if (is_due || do_callbacks_follow(state, behind_ms)) {
    uvwheel__start_driver(state, behind_ms);
    state->sleep_until_loop_ms = 0;
  }
}

/* ---- The handles --------------------------------------------------------- */

/* libuv calls the prepare handle first that was started last. It would also
 * start a handle that is closing. */
static void
restart_sleep_end(uvwheel_state_t *state)
{
  if (state->sleep_end.type == UV_UNKNOWN_HANDLE ||
      IS_CLOSING(state->sleep_end))
    return;
  (void)uv_prepare_stop(&state->sleep_end);
  (void)uv_prepare_start(&state->sleep_end, uvwheel__on_sleep_end);
}

void
uvwheel__on_driver(uv_timer_t *driver)
{
  uvwheel_state_t *state = CONTAINER_OF(driver, uvwheel_state_t, driver);
  bool is_due;

  forget_if_watcher_waits(state);
  is_due = run_turn(state, state->heard_loop_ms);
  uvwheel__add_blocked(state);
  /* Not before the turn: while the driver counts as armed, no start in a
   * callback arms it, unless the wheel was empty meanwhile. */
  state->armed_for_loop_ms = NEVER;
  if (is_due) {
    begin_spell(state);
  } else {
    state->heard_loop_ms = 0;
    uvwheel__arm(state);
  }
  /* The loop may sleep until the driver is due; for ever if the wheel is empty.
   * It may not sleep if callbacks follow. While a watcher waits to be
   * registered, uv_backend_timeout is 0 whether callbacks follow or not. Then
   * the loop may sleep. */
  state->sleep_until_loop_ms = state->armed_for_loop_ms;
  if (state->core.active != 0 && !is_watcher_waiting(state) &&
      do_callbacks_follow(state, 0))
    state->sleep_until_loop_ms = 0;
  restart_sleep_end(state);
}

/* A poll begins, and may sleep until the driver is due. libuv computes the
 * timeout of the poll from its cached time: if the clock is ahead of that, the
 * poll ends later by as much. */
void
uvwheel__on_prepare(uv_prepare_t *prepare)
{
  uvwheel_state_t *state = CONTAINER_OF(prepare, uvwheel_state_t, prepare);

  forget_if_watcher_waits(state);
  uvwheel__add_blocked(state);
  state->sleep_until_loop_ms = add_ms(state->armed_for_loop_ms,
                                      state->counted_loop_ms - loop_now(state));
}

/* After each poll. */
void
uvwheel__on_check(uv_check_t *check)
{
  uvwheel_state_t *state = CONTAINER_OF(check, uvwheel_state_t, check);

  if (is_closing(state) || IS_CLOSING(state->prepare) ||
      IS_CLOSING(state->sleep_end) || IS_CLOSING(state->idle)) {
    uvwheel__abandon(state);
    return;
  }
  uvwheel__end_poll(state);
  if (state->armed_for_loop_ms == 0)
    continue_spell(state);
  else if (state->armed_for_loop_ms <= loop_now(state))
    state->heard_loop_ms = max_of(state->heard_loop_ms, ask_if_quiet(state));
  end_check(state);
  restart_sleep_end(state);
}

/* ---- Before their time --------------------------------------------------- */

uint64_t
uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count)
{
  uvwheel_state_t *state = get_state(wheel);
  uvwheel_entry_t *entry;
  uint64_t fired = 0;
  batch_t batch;

  if (state == NULL || is_closing(state) || state->is_walking ||
      state->is_firing_soonest)
    return 0;
  uvwheel__begin_batch(&batch);
  state->is_firing_soonest = true;
  uvwheel__core_draw(&state->core, count);
  while (!is_closing(state) &&
         (entry = uvwheel__core_take_drawn(&state->core)) != NULL) {
    fired++;
    uvwheel__fire(state, entry, wheel_now(state));
  }
  state->is_firing_soonest = false;
  (void)uvwheel__read_clock(state, &batch);
  uvwheel__arm(state);
  return fired;
}
