/* SPDX-License-Identifier: MIT */

/* What wakes the loop for the wheel: the driver, a uv_timer_t that is due at
 * the next tick at which something is due; and in a spell (turn.c) an idle
 * handle, which keeps polls from waiting. */

#include "binding.h"

/* Shortens the sleep that clock.c allows, but not to less than until now. */
void
uvwheel__start_driver(uvwheel_state_t *state, uint64_t delay_ms)
{
  uint64_t due_loop_ms = add_ms(loop_now(state), delay_ms);

  if (due_loop_ms < state->sleep_until_loop_ms)
    state->sleep_until_loop_ms =
        min_of(state->sleep_until_loop_ms,
               max_of(due_loop_ms, uvwheel__clock_ms(state)));
  state->armed_for_loop_ms = due_loop_ms;
  (void)uv_timer_start(&state->driver, state->driver.timer_cb, delay_ms, 0);
}

void
uvwheel__disarm(uvwheel_state_t *state)
{
  state->armed_for_loop_ms = NEVER;
  state->sleep_until_loop_ms = NEVER;
  state->heard_loop_ms = 0;
  (void)uv_timer_stop(&state->driver);
  (void)uv_idle_stop(&state->idle);
}

/* Moves the driver to an earlier time only. If each start could move it to a
 * later one, an overdue driver would never be called. */
void
uvwheel__arm(uvwheel_state_t *state)
{
  uint64_t delay_ms;

  if (is_closing(state)) /* then there may be no loop */
    return;
  delay_ms = excess(uvwheel__core_next_ms(&state->core),
                    to_wheel_ms(state, loop_now(state)));
  if (state->core.active == 0)
    uvwheel__disarm(state);
  else if (state->armed_for_loop_ms == NEVER ||
           add_ms(loop_now(state), delay_ms) < state->armed_for_loop_ms)
    uvwheel__start_driver(state, delay_ms);
}

void
uvwheel__abandon(uvwheel_state_t *state)
{
  (void)uv_idle_stop(&state->idle);
  if (!is_closing(state))
    uv_close((uv_handle_t *)&state->driver, NULL);
}

/* An active idle handle keeps polls from waiting, and the loop alive as the
 * driver does. If others have closed the check, nothing else ends the spell. */
void
uvwheel__on_idle(uv_idle_t *idle)
{
  uvwheel_state_t *state = CONTAINER_OF(idle, uvwheel_state_t, idle);

  if (IS_CLOSING(state->check))
    uvwheel__abandon(state);
}

/* ---- Who keeps the loop alive -------------------------------------------- */

/* An unref'd wheel keeps no loop alive, nor does a wheel whose timers are all
 * unref'd. */
void
uvwheel__update_refs(uvwheel_state_t *state)
{
  bool ref = !state->is_unref;
  bool driven =
      ref && (state->unrefd == 0 || state->unrefd != state->core.active);

  MUST_HOLD(state->unrefd <= state->core.active);
  (driven ? uv_ref : uv_unref)((uv_handle_t *)&state->driver);
  (driven ? uv_ref : uv_unref)((uv_handle_t *)&state->idle);
  if (state->has_mailbox)
    (ref ? uv_ref : uv_unref)((uv_handle_t *)&state->async);
}
