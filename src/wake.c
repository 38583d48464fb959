/* SPDX-License-Identifier: MIT */

/* What wakes the loop for the wheel: the driver, a uv_timer_t that is due at
 * the next tick at which something is due; and in a spell (turn.c) an idle
 * handle, which keeps polls from waiting. */

#include "binding.h"

/* They are started once, so that libuv and uvwheel_owns_handle know their
 * callbacks. */
void
uvwheel__init_wake(uvwheel_state_t *state, uv_timer_cb on_driver)
{
  state->armed_for_loop_ms = NOT_ARMED;
  (void)uv_timer_init(state->loop, &state->driver);
  (void)uv_timer_start(&state->driver, on_driver, 0, 0);
  (void)uv_timer_stop(&state->driver);
  (void)uv_idle_init(state->loop, &state->idle);
  (void)uv_idle_start(&state->idle, uvwheel__on_idle);
  (void)uv_idle_stop(&state->idle);
}

/* The loop may not sleep for longer from now on. An empty wheel, whose driver
 * is not armed, may sleep for ever; its first start ends that. */
void
uvwheel__start_driver(uvwheel_state_t *state, uint64_t delay_ms)
{
  uint64_t due_loop_ms = add_ms(loop_now(state), delay_ms);

  if (state->armed_for_loop_ms == NOT_ARMED)
    state->sleep_until_loop_ms = NOT_ARMED;
  uvwheel__limit_sleep(state, due_loop_ms);
  state->armed_for_loop_ms = due_loop_ms;
  (void)uv_timer_start(&state->driver, state->driver.timer_cb, delay_ms, 0);
}

void
uvwheel__disarm(uvwheel_state_t *state)
{
  state->armed_for_loop_ms = NOT_ARMED;
  (void)uv_timer_stop(&state->driver);
  (void)uv_idle_stop(&state->idle);
}

/* Never makes a wake-up later: starts could starve a driver that is overdue. */
static void
arm_at_next_tick(uvwheel_state_t *state)
{
  uint64_t now_ms = to_wheel_ms(state, loop_now(state));
  uint64_t next_ms = uvwheel__core_next_ms(&state->core);
  uint64_t delay_ms = next_ms > now_ms ? next_ms - now_ms : 0;

  if (state->armed_for_loop_ms == NOT_ARMED ||
      add_ms(loop_now(state), delay_ms) < state->armed_for_loop_ms)
    uvwheel__start_driver(state, delay_ms);
}

void
uvwheel__arm(uvwheel_state_t *state)
{
  if (is_closing(state)) /* then there may be no loop */
    return;
  if (state->core.active == 0)
    uvwheel__disarm(state);
  else
    arm_at_next_tick(state);
}

void
uvwheel__keep_awake(uvwheel_state_t *state)
{
  uvwheel__disarm(state);
  state->armed_for_loop_ms = 0; /* no poll sleeps */
  (void)uv_idle_start(&state->idle, uvwheel__on_idle);
}

void
uvwheel__abandon(uvwheel_state_t *state)
{
  (void)uv_idle_stop(&state->idle);
  if (!is_closing(state))
    uv_close((uv_handle_t *)&state->driver, NULL);
}

/* While the idle handle is active, polls do not wait. It keeps the loop alive
 * as the driver does. */
void
uvwheel__on_idle(uv_idle_t *idle)
{
  uvwheel_state_t *state = CONTAINER_OF(idle, uvwheel_state_t, idle);

  if (IS_CLOSING(state->check))
    uvwheel__abandon(state);
}

/* ---- Who keeps the loop alive -------------------------------------------- */

static void
set_ref(uv_handle_t *handle, bool ref)
{
  if (ref)
    uv_ref(handle);
  else
    uv_unref(handle);
}

/* An unref'd wheel keeps no loop alive, nor does a wheel whose timers are all
 * unref'd. */
void
uvwheel__update_refs(uvwheel_state_t *state)
{
  bool ref = !(state->flags & UNREF);
  bool driven =
      ref && (state->unrefd == 0 || state->unrefd != state->core.active);

  MUST_HOLD(state->unrefd <= state->core.active);
  set_ref((uv_handle_t *)&state->driver, driven);
  set_ref((uv_handle_t *)&state->idle, driven);
  if (state->has_mailbox)
    set_ref((uv_handle_t *)&state->async, ref);
}
