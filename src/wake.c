/* SPDX-License-Identifier: MIT */

/* What wakes the loop, and stalls.
 *
 * The driver, a uv_timer_t, is due at the next tick at which something may be
 * due. In a spell (turn.c) an idle handle keeps polls from waiting instead.
 *
 * A stall is noticed because the wheel is looked at late: by the driver, by the
 * check if the driver is due or a spell goes on, or at the end of a turn. Three
 * times are kept: its end, how far it puts timers back, and how long it counts.
 *
 * A stall may end before the next tick if that is far away. So in a loop that
 * polls meanwhile the driver is armed for a look half-way, and half-way again:
 *
 *   poll returns          look       look  look tick
 *   |----------------------|----------|-----|----|
 *
 * A stall that ends before a look, or soon after it, has left half of the way
 * that it began in; any other is noticed. A loop that only sleeps has no looks:
 * if no poll has returned meanwhile, the driver is armed for the tick. */

#include "binding.h"

/* A timer is put back by the stall and by as much again, at most this: longer
 * than the time that most peers leave between two datagrams. */
#define MAX_GRACE_MS 1000

/* ---- Stalls -------------------------------------------------------------- */

/* While a stall still gives time, timers that it has put back are waiting: then
 * a lesser one does not take its place. */
void uvwheel__look(uvwheel_state_t *state, uint64_t now_ms, uint64_t late_ms) {
  uvwheel_stats_t *stats = &state->core.stats;
  wake_t *wake = &state->wake;
  uint64_t back_ms;

  wake->awaited_ms = now_ms;
  if (LIKELY(late_ms <= state->stall_ms) || state->core.active == 0)
    return;
  back_ms = add_ms(late_ms, min_of(late_ms, MAX_GRACE_MS));
  MUST_HOLD(back_ms > late_ms);
  stats->stalls++;
  stats->stall_sum_ms += late_ms;
  stats->stall_max_ms = max_of(stats->stall_max_ms, late_ms);
  wake->stalled_until_ms = now_ms;
  if (back_ms > wake->put_back_ms || now_ms >= wake->gives_until_ms) {
    wake->put_back_ms = back_ms;
    wake->gives_until_ms = add_ms(now_ms, back_ms);
  }
}

/* ---- The driver ---------------------------------------------------------- */

/* How far the wheel's next tick is away. */
static uint64_t way_to_tick(const uvwheel_state_t *state) {
  return excess(uvwheel__core_next_ms(&state->core),
                without_lag(state, loop_now(state)));
}

static void start_driver(uvwheel_state_t *state, bool may_look_in) {
  uint64_t way_ms = way_to_tick(state);
  bool looks_in = may_look_in && way_ms / 2 > state->stall_ms;
  uint64_t delay_ms = looks_in ? way_ms / 2 : way_ms;

  MUST_HOLD(!is_closing(state) && state->core.active != 0);
  state->wake.phase = looks_in ? ARMED_FOR_LOOK : ARMED_FOR_TICK;
  state->wake.has_polled = false;
  state->wake.awaited_ms = add_ms(loop_now(state), delay_ms);
  (void)uv_timer_start(&state->wake.driver, state->wake.driver.timer_cb,
                       delay_ms, 0);
}

/* Moves the driver to an earlier time. If each start could move it to a later
 * one, an overdue driver would never be called. A look that would come later
 * than half-way to the new tick is moved to half-way. */
void uvwheel__arm(uvwheel_state_t *state) {
  uint64_t latest_ms;

  if (is_closing(state)) /* then there may be no loop */
    return;
  latest_ms =
      way_to_tick(state) / (state->wake.phase == ARMED_FOR_LOOK ? 2 : 1);
  if (state->core.active == 0)
    uvwheel__disarm(state);
  else if (state->wake.phase == DISARMED ||
           (state->wake.phase != IN_SPELL &&
            add_ms(loop_now(state), latest_ms) < state->wake.awaited_ms))
    start_driver(state, state->wake.phase == ARMED_FOR_LOOK);
}

void uvwheel__rearm(uvwheel_state_t *state) {
  if (is_closing(state))
    return;
  if (state->core.active == 0) {
    uvwheel__disarm(state);
    return;
  }
  (void)uv_idle_stop(&state->wake.idle);
  MUST_HOLD(!needs_turn_by(state, loop_now(state)));
  start_driver(state, state->wake.has_polled);
}

void uvwheel__look_in(uvwheel_state_t *state) {
  state->wake.has_polled = true;
  if (state->wake.phase == ARMED_FOR_TICK &&
      way_to_tick(state) / 2 > state->stall_ms)
    start_driver(state, true);
}

void uvwheel__let_others_first(uvwheel_state_t *state) {
  MUST_HOLD(state->wake.awaited_ms <= loop_now(state));
  (void)uv_timer_start(&state->wake.driver, state->wake.driver.timer_cb, 0, 0);
}

void uvwheel__disarm(uvwheel_state_t *state) {
  state->wake.phase = DISARMED;
  state->wake.awaited_ms = NEVER;
  (void)uv_timer_stop(&state->wake.driver);
  (void)uv_idle_stop(&state->wake.idle);
}

/* ---- Spells -------------------------------------------------------------- */

void uvwheel__begin_spell(uvwheel_state_t *state) {
  if (IS_CLOSING(state->wake.idle)) { /* uv_idle_start would start it */
    uvwheel__abandon(state);
    return;
  }
  MUST_HOLD(state->core.active != 0);
  state->wake.phase = IN_SPELL;
  (void)uv_timer_stop(&state->wake.driver);
  (void)uv_idle_start(&state->wake.idle, uvwheel__on_idle);
}

void uvwheel__abandon(uvwheel_state_t *state) {
  (void)uv_idle_stop(&state->wake.idle);
  if (!is_closing(state))
    uv_close((uv_handle_t *)&state->wake.driver, NULL);
}

/* An active idle handle keeps polls from waiting, and the loop alive as the
 * driver does. If others have closed the check, nothing else ends the spell. */
void uvwheel__on_idle(uv_idle_t *idle) {
  uvwheel_state_t *state = CONTAINER_OF(idle, uvwheel_state_t, wake.idle);

  if (IS_CLOSING(state->turn.check))
    uvwheel__abandon(state);
}

/* ---- Who keeps the loop alive -------------------------------------------- */

/* An unref'd wheel keeps no loop alive, nor does one whose timers all are. */
static void apply_refs(uvwheel_state_t *state) {
  bool ref = !state->wake.is_unref;
  uint64_t unref_timers = state->wake.unref_timers;
  bool driven =
      ref && (unref_timers == 0 || unref_timers != state->core.active);

  MUST_HOLD(unref_timers <= state->core.active);
  (driven ? uv_ref : uv_unref)((uv_handle_t *)&state->wake.driver);
  (driven ? uv_ref : uv_unref)((uv_handle_t *)&state->wake.idle);
  if (IS_OPENED(state->mailbox.async))
    (ref ? uv_ref : uv_unref)((uv_handle_t *)&state->mailbox.async);
}

void uvwheel__count_unref(uvwheel_state_t *state, int change) {
  state->wake.unref_timers += (uint64_t)(int64_t)change;
  apply_refs(state);
}

void uvwheel__set_unref(uvwheel_state_t *state, bool is_unref) {
  state->wake.is_unref = is_unref;
  apply_refs(state);
}
