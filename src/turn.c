/* SPDX-License-Identifier: MIT */

/* Turns: the check listens, the driver fires.
 *
 * When a timer is due, bytes of its peer may still wait in a socket. So the
 * check (a uv_check_t) asks after a poll whether the loop is quiet: no
 * descriptor is ready, none waits to be registered, and no request is queued.
 * Then every byte that arrived before that poll returned was read, and the
 * driver (a uv_timer_t) may fire what is due by that time, heard_ms, or put it
 * back after a stall (wake.c). One iteration of libuv:
 *
 *   before 1.45                 from 1.45 on
 *   DRIVER, other timers        (UV_RUN_DEFAULT begins with the timers)
 *   idle, prepare handles       idle, prepare handles
 *   poll, and its callbacks     poll, and its callbacks
 *   CHECK, other checks         CHECK, other checks
 *   closes                      closes
 *   (UV_RUN_ONCE ends with      DRIVER, other timers (from 1.48 on those that
 *    the timers)                 are due are collected before one is called)
 *
 * The driver is due at the time of the wheel's next tick. If it is late, the
 * check moves it behind all other timers that are due by now. Callbacks may run
 * between the check and the driver. There are two outcomes. Usually they leave
 * the sockets alone. If one resumes the reading of a socket, in which bytes may
 * have waited for long, the driver finds a waiting watcher, and fires nothing.
 *
 * If something is due that was not heard, or if a turn was cut by its limits, a
 * spell begins: polls do not wait, and the checks listen and fire until nothing
 * is due. They fire only timers that were due at the look before: libuv has run
 * its own timers up to that time.
 *
 *   on time:    poll --> check: is the loop quiet? --> driver fires
 *   otherwise:  driver --> poll that does not wait --> check listens and fires
 *                            ^-- something is due still --'
 *
 * Timers must also fire in a loop that always has I/O ready. There a timer
 * waits until two polls and a quarter of a tick have passed since it was due.
 * The wait of a spell begins when a check first finds that the loop is not
 * quiet. Its limit moves with the clock: a timer that becomes due meanwhile
 * waits as long. If callbacks that follow a check, such as timers of the loop,
 * take longer than MIN_WAIT_MS, the wait begins anew, once in a spell. (Else a
 * uv_timer_t that blocks 40 ms gets 680 of 1,000 peers that wait closed.) */

#include "binding.h"

#ifndef _WIN32
#include <poll.h>
#endif

/* Bounds of the wait in a loop that is never quiet, a quarter of a tick. In 25
 * ms a loop reads a few thousand datagrams; 250 ms are little beside the
 * timeouts of a wheel whose ticks are seconds long. */
#define MIN_WAIT_MS 25
#define MAX_WAIT_MS 250

/* How many timers the check looks at before it asks whether the loop is quiet.
 * If all of them were refreshed, as most are, the tick costs no system call. */
#define MAX_LOOKS 256

/* ---- Batches ------------------------------------------------------------- */

/* The most callbacks between two reads of the clock. A read takes some 25 ns,
 * as long as a quick callback and its expiry. */
#define MAX_UNREAD 16

void uvwheel__begin_batch(batch_t *batch) {
  uint64_t now_ns = uv_hrtime();

  *batch = (batch_t){.begin_ns = now_ns, .read_ns = now_ns, .read_every = 1};
}

/* Reads the clock after each slow callback, and from time to time between quick
 * ones, judging by the last callbacks. */
bool uvwheel__read_clock(uvwheel_state_t *state, batch_t *batch) {
  uint64_t turn_ns = state->options.turn_ms * UINT64_C(1000000);
  uint64_t now_ns = uv_hrtime();

  state->core.stats.turn_max_us = max_of(
      state->core.stats.turn_max_us, excess(now_ns, batch->begin_ns) / 1000);
  if (now_ns - batch->read_ns > turn_ns / 8)
    batch->read_every = 1;
  else if (batch->read_every < MAX_UNREAD)
    batch->read_every *= 2;
  batch->read_ns = now_ns;
  batch->unread = 0;
  return state->options.turn_ms != UINT32_MAX &&
         now_ns - batch->begin_ns >= turn_ns;
}

/* ---- Firing -------------------------------------------------------------- */

/* When a repeat that fires in a turn up to limit_ms is due again: at the first
 * time of the beat that is not before the last tick of that turn. A later time,
 * such as now, would halve the rate of a beat in phase with the ticks. */
static uint64_t next_due_ms(const uvwheel_state_t *state,
                            const uvwheel_timer_t *timer, uint64_t limit_ms) {
  uint64_t missed = timer->wheel_and_flags & TIMER_MISSED;
  uint64_t repeat = timer->interval;
  uint64_t next_ms = add_ms(timer->entry.due_ms, repeat);
  uint64_t tick_ms = limit_ms - limit_ms % state->core.tick_ms;

  if (missed == UVWHEEL_MISSED_DELAY)
    return add_ms(loop_now(state), repeat);
  if (missed == UVWHEEL_MISSED_BURST || next_ms >= tick_ms)
    return next_ms;
  return add_ms(tick_ms, (repeat - (tick_ms - next_ms) % repeat) % repeat);
}

/* A stall that has ended before does not put the timer back any more, also if
 * its beat has begun before that. */
static NOINLINE void start_repeat(uvwheel_state_t *state,
                                  uvwheel_timer_t *timer, uint64_t limit_ms) {
  uint64_t due_ms = next_due_ms(state, timer, limit_ms);

  if (excess(due_ms, timer->interval) < state->wake.stalled_until_ms)
    timer->wheel_and_flags |= TIMER_PUT_BACK;
  if (!uvwheel__core_insert(&state->core, &timer->entry, due_ms) &&
      uvwheel__core_put(&state->core, &timer->entry))
    uvwheel__arm(state);
}

/* A turn that fires the timers that are due by limit_ms has taken the timer out
 * of the core: starts it again if it repeats, and calls its callback. */
static void fire(uvwheel_state_t *state, uvwheel_timer_t *timer,
                 uint64_t limit_ms) {
  MUST_HOLD(timer->cb != NULL && (timer->wheel_and_flags & TIMER_IDLE) == 0);
  timer->wheel_and_flags &= ~TIMER_WAIT;
  if (repeats(timer)) {
    start_repeat(state, timer, limit_ms);
  } else {
    timer->wheel_and_flags |= TIMER_IDLE;
    update_unref(state, timer, -1);
  }
  SET_CALLED_BACK(timer);
  timer->cb(timer);
  SET_CALLED_BACK(NULL);
}

static void count_lateness(uvwheel_stats_t *stats, uint64_t late_ms) {
  stats->lateness[min_of(bit_width(late_ms), UVWHEEL_LATENESS_BUCKETS - 1)]++;
  stats->lateness_sum_ms += late_ms;
  stats->lateness_max_ms = max_of(stats->lateness_max_ms, late_ms);
}

/* Puts a timer back that has expired, if it waited when the last stall was
 * noticed and was not put back yet, but to no later than the end of the stall
 * plus what the timer waits for. Returns whether it did. */
static bool put_back(uvwheel_state_t *state, uvwheel_timer_t *timer) {
  uint64_t due_ms = timer->entry.due_ms;
  uint64_t stalled_until_ms = state->wake.stalled_until_ms;
  uint64_t wait_ms =
      (timer->wheel_and_flags & TIMER_FIRST) ? timer->timeout : timer->interval;
  uint64_t later_ms;

  if (LIKELY(excess(due_ms, wait_ms) >= stalled_until_ms) ||
      (timer->wheel_and_flags & TIMER_PUT_BACK) != 0)
    return false;
  later_ms = min_of(add_ms(due_ms, state->wake.put_back_ms),
                    add_ms(stalled_until_ms, wait_ms));
  MUST_HOLD(later_ms > due_ms);
  timer->wheel_and_flags |= TIMER_PUT_BACK;
  (void)uvwheel__core_move(&state->core, &timer->entry, later_ms);
  state->core.stats.put_back++;
  return true;
}

/* A turn that began at began_ms is over. Returns whether it has stalled a loop
 * in which timers wait: then the loop's time is older than awaited_ms. */
static bool end_turn(uvwheel_state_t *state, batch_t *batch,
                     uint64_t began_ms) {
  uint64_t took_ns, late_ms;

  (void)uvwheel__read_clock(state, batch);
  took_ns = excess(batch->read_ns, batch->begin_ns);
  if (state->options.turn_ms != UINT32_MAX &&
      took_ns > 2 * UINT64_C(1000000) * state->options.turn_ms)
    state->core.stats.turns_overrun++;
  if (is_closing(state))
    return false;
  late_ms = max_of(took_ns / 1000000, excess(loop_now(state), began_ms));
  if (LIKELY(late_ms <= state->stall_ms))
    return false;
  uvwheel__look(state, began_ms + late_ms, late_ms);
  return state->core.active != 0;
}

/* Fires the timers that are due by until_ms, if any, or puts them back. Returns
 * whether the next poll must not wait: a timer is due, or the turn has stalled
 * the loop, which would let the poll sleep for as long again. False if the
 * wheel is closing. A clock that steps back ends the turn (P1). */
static bool run_turn(uvwheel_state_t *state, uint64_t until_ms,
                     uint64_t budget) {
  uint64_t began_ms = loop_now(state), found = 0;
  uint64_t limit_ms = without_lag(state, until_ms);
  uvwheel_entry_t *entry;
  bool has_stalled, is_cut;
  batch_t batch;

  if (!needs_turn_by(state, until_ms))
    return needs_turn_by(state, began_ms);
  uvwheel__begin_batch(&batch);
  while (!is_closing(state) && until_ms <= loop_now(state)) {
    entry = uvwheel__core_find_due(&state->core, limit_ms, &budget);
    if (entry == NULL)
      break;
    found++;
    budget--;
    MUST_HOLD(entry->due_ms < limit_ms);
    if (!put_back(state, timer_of(entry))) {
      count_lateness(&state->core.stats,
                     without_lag(state, loop_now(state)) - entry->due_ms);
      uvwheel__core_hand_out(&state->core, entry);
      fire(state, timer_of(entry), limit_ms);
    }
    if (count_callback(state, &batch))
      budget = 0;
  }
  has_stalled = end_turn(state, &batch, began_ms);
  is_cut = needs_turn_by(state, until_ms);
  state->core.stats.turns_cut += is_cut;
  state->core.stats.turns += is_cut || found != 0;
  return has_stalled || needs_turn_by(state, loop_now(state));
}

/* ---- Listening ----------------------------------------------------------- */

/* Returns the loop's time if the loop is quiet but for requests, else 0. Where
 * nobody tells (Windows, AIX, a poll(2) that fails), bytes that came before
 * looked_ms, the spell's last look, count as heard. poll(2) only looks:
 * epoll_wait would take edge-triggered events away from libuv. */
static uint64_t ask_backend(const uvwheel_state_t *state, uint64_t looked_ms) {
#ifdef _WIN32
  (void)state;
  return looked_ms;
#else
  struct pollfd backend = {.fd = uv_backend_fd(state->loop), .events = POLLIN};
  int count;

  if (is_watcher_waiting(state))
    return 0;
  count = backend.fd < 0 ? -1 : poll(&backend, 1, 0);
  if (count == 0)
    return loop_now(state);
  return count > 0 && (backend.revents & POLLIN) ? 0 : looked_ms;
#endif
}

/* Returns the answer of the backend, or 0 while requests wait that the loop has
 * taken. (If others have closed the mailbox, these wait for uvwheel_close. For
 * a request that is not taken yet the mailbox's own descriptor is ready.)
 *
 * A loop that was not quiet is asked again after its 2nd, 4th, 8th ... poll in
 * the same millisecond. Ten wheels that ask after each poll beside a descriptor
 * that is always ready leave a loop 88,000 iterations per second of 726,000. */
static uint64_t ask_if_quiet(uvwheel_state_t *state, uint64_t looked_ms) {
  turn_t *turn = &state->turn;
  uint64_t now_ms = loop_now(state), heard_ms = 0;

  turn->busy_polls = turn->busy_ms == now_ms ? turn->busy_polls + 1 : 1;
  if ((turn->busy_polls & (turn->busy_polls - 1)) != 0)
    return 0;
  if (state->mailbox.taken == NULL || IS_CLOSING(state->mailbox.async))
    heard_ms = ask_backend(state, looked_ms);
  turn->busy_ms = heard_ms == now_ms ? 0 : now_ms;
  return heard_ms;
}

/* The loop's time up to which a spell has waited long enough; 0: not yet. */
static uint64_t waited_until(const uvwheel_state_t *state) {
  uint64_t now_ms = loop_now(state);
  uint64_t wait_ms =
      min_of(max_of(state->core.tick_ms / 4, MIN_WAIT_MS), MAX_WAIT_MS);

  if (excess(now_ms, state->turn.wait_began_ms) < wait_ms)
    return 0;
  return min_of(now_ms - wait_ms, state->turn.checked_before_ms);
}

/* ---- Spells -------------------------------------------------------------- */

/* The next poll of a spell has returned. (Inlined, this slows every check.) */
static NOINLINE void continue_spell(uvwheel_state_t *state) {
  turn_t *turn = &state->turn;
  uint64_t now_ms = loop_now(state), looked_ms = state->wake.awaited_ms;
  uint64_t quiet_ms, until_ms;

  MUST_HOLD(state->core.active != 0);
  uvwheel__look(state, now_ms, excess(now_ms, looked_ms));
  if (turn->wait_began_ms != NEVER && !turn->wait_began_anew &&
      now_ms > looked_ms + MIN_WAIT_MS) {
    turn->wait_began_ms = now_ms;
    turn->wait_began_anew = true;
  }
  quiet_ms = ask_if_quiet(state, looked_ms);
  if (quiet_ms == 0 && turn->wait_began_ms == NEVER)
    turn->wait_began_ms = now_ms;
  until_ms = min_of(max_of(quiet_ms, waited_until(state)), looked_ms);
  turn->checked_before_ms = looked_ms;
  if (run_turn(state, until_ms, state->options.turn_budget))
    uvwheel__begin_spell(state); /* callbacks may have emptied the wheel */
  else
    uvwheel__rearm(state);
}

/* Looks at up to MAX_LOOKS timers that may be due, and moves those that were
 * refreshed. Returns whether any may be due still. */
static bool look_for_due(uvwheel_state_t *state) {
  uint64_t now_ms = loop_now(state);
  uint64_t looks = min_of(state->options.turn_budget, MAX_LOOKS);

  if (!needs_turn_by(state, now_ms))
    return false;
  state->turn.budget = state->options.turn_budget - looks;
  (void)uvwheel__core_find_due(&state->core, without_lag(state, now_ms),
                               &looks);
  state->turn.budget += looks;
  return needs_turn_by(state, now_ms);
}

/* The driver is due: listens if a timer is. */
static NOINLINE void prepare_turn(uvwheel_state_t *state) {
  uint64_t now_ms = loop_now(state);
  uint64_t late_ms = now_ms - state->wake.awaited_ms;

  MUST_HOLD(state->wake.phase != DISARMED && state->core.active != 0);
  uvwheel__look(state, now_ms, late_ms);
  if (!look_for_due(state)) {
    uvwheel__rearm(state);
    return;
  }
  state->turn.heard_ms = ask_if_quiet(state, 0);
  if (late_ms != 0)
    uvwheel__let_others_first(state);
}

/* ---- The handles --------------------------------------------------------- */

/* If nothing was heard, a timer that is due waits for a spell. */
void uvwheel__on_driver(uv_timer_t *driver) {
  uvwheel_state_t *state = CONTAINER_OF(driver, uvwheel_state_t, wake.driver);
  uint64_t heard_ms = is_watcher_waiting(state) ? 0 : state->turn.heard_ms;
  uint64_t now_ms = loop_now(state);

  MUST_HOLD(state->wake.phase != DISARMED && state->wake.phase != IN_SPELL);
  state->turn.heard_ms = 0;
  uvwheel__look(state, now_ms, excess(now_ms, state->wake.awaited_ms));
  if (heard_ms != 0 ? run_turn(state, heard_ms, state->turn.budget)
                    : look_for_due(state)) {
    state->turn.wait_began_ms = NEVER;
    state->turn.wait_began_anew = false;
    uvwheel__begin_spell(state);
  } else {
    uvwheel__rearm(state);
  }
}

void uvwheel__on_check(uv_check_t *check) {
  uvwheel_state_t *state = CONTAINER_OF(check, uvwheel_state_t, turn.check);

#ifdef UVWHEEL_CHECKS
  state->turn.poller = NULL;
#endif
  state->turn.heard_ms = 0;
  if (is_closing(state) || IS_CLOSING(state->wake.idle))
    uvwheel__abandon(state);
  else if (state->wake.phase == IN_SPELL)
    continue_spell(state);
  else if (state->wake.awaited_ms <= loop_now(state))
    prepare_turn(state);
  else
    uvwheel__look_in(state);
}

#ifdef UVWHEEL_CHECKS
void uvwheel__on_prepare(uv_prepare_t *prepare) {
  uvwheel_state_t *state = CONTAINER_OF(prepare, uvwheel_state_t, turn.prepare);

  if (!IS_CLOSING(state->turn.check))
    state->turn.poller = uvwheel__this_thread();
}
#endif

/* ---- Before their time --------------------------------------------------- */

uint64_t uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count) {
  uvwheel_state_t *state = get_state(wheel);
  uvwheel_entry_t *entry;
  uint64_t fired = 0;
  batch_t batch;

  if (state == NULL || is_closing(state) || state->is_walking ||
      state->turn.is_firing_soonest)
    return 0;
  uvwheel__begin_batch(&batch);
  state->turn.is_firing_soonest = true;
  uvwheel__core_draw(&state->core, count);
  while (!is_closing(state) &&
         (entry = uvwheel__core_take_drawn(&state->core)) != NULL) {
    fired++;
    fire(state, timer_of(entry), loop_now(state));
  }
  state->turn.is_firing_soonest = false;
  (void)uvwheel__read_clock(state, &batch);
  uvwheel__arm(state);
  return fired;
}
