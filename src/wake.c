/* SPDX-License-Identifier: MIT */

/* What wakes the loop.
 *
 * The driver, a uv_timer_t, is armed for the next tick at which something may
 * be due, or for a check-in before it. In a spell (listen.c) it is stopped, and
 * an idle handle keeps polls from waiting.
 *
 *   DISARMED -> ARMED_..   a start; any phase -> DISARMED: no timer is active
 *   ARMED_FOR_TICK <-> ARMED_FOR_CHECK_IN   start_driver chooses
 *   ARMED_.. -> IN_SPELL   a timer may still be due, or the turn may be a stall
 *   IN_SPELL -> ARMED_..   neither is so */

#include "binding.h"

/* ---- The driver ---------------------------------------------------------- */

void uvwheel__note_run(uvwheel_state_t *state, uint64_t now_ms) {
  uint64_t late_by = excess(now_ms, state->wake.run_by_ms);

  MUST_HOLD(state->core.active != 0);
  state->wake.ran_ms = now_ms;
  state->wake.run_by_ms = now_ms;
  if (UNLIKELY(late_by > state->stall_after))
    uvwheel__note_stall(state, now_ms, late_by);
}

/* In how many ms a turn for the wheel's next tick may run; 0: now. */
static uint64_t way_to_tick(const uvwheel_state_t *state) {
  return excess(uvwheel__core_next_ms(&state->core),
                without_lag(state, loop_now(state)));
}

/* Arms the driver for the tick or, if that is far and may_check_in, half-way to
 * it. While a stall gives time, a far tick has check-ins anyway, maybe closer:
 * the next stall begins at run_by_ms even if its block began earlier, so a late
 * run_by_ms may miss the chain. (A clock step back may wrap since_stall.) */
static void start_driver(uvwheel_state_t *state, bool may_check_in) {
  const stall_t *stall = &state->stall;
  wake_t *wake = &state->wake;
  uint64_t since_stall = loop_now(state) - stall->ended_ms[stall->chain];
  uint64_t way = way_to_tick(state), delay = way;

  MUST_HOLD(!is_closing(state) && state->core.active != 0);
  if (way / 2 > state->stall_after) {
    if (since_stall < stall->gave[stall->chain])
      delay = min_of(way / 2, max_of(2 * state->stall_after, since_stall / 2));
    else if (may_check_in)
      delay = way / 2;
  }
  wake->phase = delay != way ? ARMED_FOR_CHECK_IN : ARMED_FOR_TICK;
  wake->others_wake = false;
  wake->run_by_ms = add_ms(loop_now(state), delay);
  (void)uv_timer_start(&wake->driver, wake->driver.timer_cb, delay, 0);
}

/* Starts the driver anew if it is due after the next tick or, as a check-in,
 * after half of the way to it. An overdue one stays, or it might never run. */
void uvwheel__arm(uvwheel_state_t *state) {
  bool checks_in = state->wake.phase == ARMED_FOR_CHECK_IN;

  if (is_closing(state)) /* then there may be no loop */
    return;
  if (state->core.active == 0)
    uvwheel__disarm(state);
  else if (state->wake.phase == DISARMED ||
           (state->wake.phase != IN_SPELL &&
            add_ms(loop_now(state), way_to_tick(state) / (checks_in ? 2 : 1)) <
                state->wake.run_by_ms))
    start_driver(state, checks_in);
}

void uvwheel__go_on(uvwheel_state_t *state, bool is_in_spell) {
  if (is_closing(state))
    return;
  if (state->core.active == 0) {
    uvwheel__disarm(state);
  } else if (!is_in_spell) {
    MUST_HOLD(way_to_tick(state) != 0); /* or the driver runs for ever */
    if (state->wake.phase == IN_SPELL)
      (void)uv_idle_stop(&state->wake.idle);
    start_driver(state, state->wake.others_wake);
  } else if (IS_CLOSING(state->wake.idle)) { /* uv_idle_start would start it */
    uvwheel__abandon(state);
  } else {
    state->wake.phase = IN_SPELL;
    state->wake.run_by_ms = state->wake.ran_ms;
    (void)uv_timer_stop(&state->wake.driver);
    (void)uv_idle_start(&state->wake.idle, uvwheel__on_idle);
  }
}

/* Has an open wheel of the loop run in this millisecond, or is it to run? */
static bool has_wheel_woken(const uvwheel_state_t *state) {
  const uvwheel_link_t *link = &state->wheels_of_loop;
  uint64_t now_ms = loop_now(state);

  do {
    const wake_t *wake =
        &CONTAINER_OF(link, uvwheel_state_t, wheels_of_loop)->wake;
    if ((wake->run_by_ms <= now_ms || wake->ran_ms == now_ms) &&
        !IS_CLOSING(wake->driver))
      return true;
    link = link->next;
  } while (link != &state->wheels_of_loop);
  return false;
}

void uvwheel__plan_check_in(uvwheel_state_t *state) {
  if (!state->wake.others_wake)
    state->wake.others_wake = !has_wheel_woken(state);
  if (state->wake.others_wake && state->wake.phase == ARMED_FOR_TICK &&
      way_to_tick(state) / 2 > state->stall_after)
    start_driver(state, true);
}

void uvwheel__disarm(uvwheel_state_t *state) {
  state->wake.phase = DISARMED;
  state->wake.run_by_ms = NEVER;
  (void)uv_timer_stop(&state->wake.driver);
  (void)uv_idle_stop(&state->wake.idle);
}

void uvwheel__abandon(uvwheel_state_t *state) {
  (void)uv_idle_stop(&state->wake.idle);
  if (!is_closing(state))
    uv_close((uv_handle_t *)&state->wake.driver, NULL);
}

/* If others have closed the check, no check ends the spell. */
void uvwheel__on_idle(uv_idle_t *idle) {
  uvwheel_state_t *state = CONTAINER_OF(idle, uvwheel_state_t, wake.idle);

  if (IS_CLOSING(state->listen.check))
    uvwheel__abandon(state);
}

/* ---- Who keeps the loop alive -------------------------------------------- */

void uvwheel__update_refs(uvwheel_state_t *state) {
  uint64_t unref_timers = state->wake.unref_timers;
  bool ref = !state->is_unref;
  bool driven =
      ref && (unref_timers == 0 || unref_timers != state->core.active);

  MUST_HOLD(unref_timers <= state->core.active);
  (driven ? uv_ref : uv_unref)((uv_handle_t *)&state->wake.driver);
  (driven ? uv_ref : uv_unref)((uv_handle_t *)&state->wake.idle);
  if (IS_OPENED(state->mailbox.async))
    (ref ? uv_ref : uv_unref)((uv_handle_t *)&state->mailbox.async);
}

void uvwheel__count_unref(uvwheel_state_t *state, int change) {
  state->wake.unref_timers += (uint64_t)change;
  uvwheel__update_refs(state);
}
