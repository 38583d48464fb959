/* SPDX-License-Identifier: MIT */

/* Listening: when the wheel runs, and why not yet.
 *
 * When a timer is due, bytes of its peer may still wait in a socket. So the
 * check (a uv_check_t) asks after a poll whether the loop is quiet (P6). One
 * iteration of libuv; * is where it moves uv_now() on Unix:
 *
 *   before 1.45                   from 1.45 on
 *   * timers, DRIVER              (* UV_RUN_DEFAULT begins with the timers)
 *     idle, prepare handles         idle, prepare handles
 *     poll, *, its callbacks        poll, *, its callbacks
 *     CHECK among the checks        CHECK among the checks
 *     closes                        closes
 *   (* UV_RUN_ONCE: the timers)   * timers, DRIVER (from 1.48 on, each once)
 *
 * Three functions run the wheel:
 *
 *                    called by               turn up to   if a tick waits then
 *   prepare_turn     CHECK, driver is due    no turn      the DRIVER is next
 *   on_driver        DRIVER                  quiet_ms     a spell begins
 *   continue_spell   CHECK of a spell        see below    the spell goes on
 *
 * If none waits, they mostly arm the driver.
 *
 * A check of a spell looks back at the check before it (the first one, at the
 * driver: there turned_ms = ran_ms):
 *
 *   LAST CHECK   turn | libuv's timers, idle, prepare | poll | reads | CHECK
 *   ran_ms       turned_ms                               polled_ms   now_ms
 *   1000         1003                                    1004        1008
 *
 * A timer may expire if its tick came by turned_ms (1003), so that libuv's
 * earlier timers mostly come first and a whole poll has followed, and if
 * - the loop is quiet, or
 * - busy_wait ms have passed since its tick and since wait_began_ms: when the
 *   spell or a new wait began, or the loop was quiet last.
 *
 * From ran_ms (or a later wait_began_ms) to polled_ms the loop may not have
 * listened. If that is more than MIN_WAIT, the wait begins anew, once: else a
 * uv_timer_t that blocks for 40 ms may use it up while bytes wait. */

#include "binding.h"

#ifndef _WIN32
#include <poll.h>
#endif

/* The most timers that move_refreshed examines. If others are left, or one is
 * due, the check has to ask whether the loop is quiet. */
#define MAX_EXAMINED 256

/* ---- Is the loop quiet? -------------------------------------------------- */

/* Returns 0 if it finds a descriptor ready or waiting to be registered, else
 * the loop's time; unknown_ms if nothing tells (Windows, posix-poll, errors).
 * poll(2) takes no event: epoll_wait would take edge-triggered ones away. */
static uint64_t ask_backend(const uvwheel_state_t *state, uint64_t unknown_ms) {
#ifdef _WIN32
  (void)state;
  return unknown_ms;
#else
  struct pollfd backend = {.fd = uv_backend_fd(state->loop), .events = POLLIN};
  int count;

  if (is_watcher_waiting(state))
    return 0;
  count = backend.fd < 0 ? -1 : poll(&backend, 1, 0);
  if (count == 0)
    return loop_now(state);
  return count > 0 && (backend.revents & POLLIN) ? 0 : unknown_ms;
#endif
}

/* Returns the answer of the backend, or 0 while requests wait that the loop has
 * taken. (If others have closed the mailbox, these wait for uvwheel_close. For
 * a request that is not taken yet the loop's async descriptor is ready.)
 *
 * A loop that was not quiet is asked again after its 2nd, 4th, 8th ... poll in
 * the same millisecond. Ten wheels that ask after each poll beside a descriptor
 * that is always ready cut a loop from 726,000 iterations/s to 88,000. */
static uint64_t ask_quiet_ms(uvwheel_state_t *state, uint64_t unknown_ms) {
  listen_t *listen = &state->listen;
  uint64_t now_ms = loop_now(state), quiet_ms = 0;

  listen->busy_polls = listen->busy_ms == now_ms ? listen->busy_polls + 1 : 1;
  if ((listen->busy_polls & (listen->busy_polls - 1)) != 0) /* no power of 2 */
    return 0;
  if (state->mailbox.taken == NULL || IS_CLOSING(state->mailbox.async))
    quiet_ms = ask_backend(state, unknown_ms);
  listen->busy_ms = quiet_ms == now_ms ? 0 : now_ms;
  return quiet_ms;
}

/* ---- Spells -------------------------------------------------------------- */

static void begin_wait(listen_t *listen, uint64_t now_ms, bool anew) {
  listen->wait_began_ms = now_ms;
  listen->wait_began_anew = anew;
}

/* Returns a time: timers fire whose tick came by then. 0: none fires. */
static uint64_t listen_in_spell(uvwheel_state_t *state, uint64_t now_ms) {
  listen_t *listen = &state->listen;

  if (ask_quiet_ms(state, listen->turned_ms) != 0) {
    begin_wait(listen, now_ms, false);
    return listen->turned_ms;
  }
  if (now_ms < listen->wait_began_ms + state->busy_wait)
    return 0;
  return min_of(listen->turned_ms, now_ms - state->busy_wait);
}

/* Inlined, this slows the check. */
static NOINLINE void continue_spell(uvwheel_state_t *state) {
  listen_t *listen = &state->listen;
  uint64_t deaf_since_ms = max_of(state->wake.ran_ms, listen->wait_began_ms);
  uint64_t polled_ms = loop_now(state), now_ms, until_ms;

  if (!listen->wait_began_anew && polled_ms > deaf_since_ms + MIN_WAIT)
    begin_wait(listen, polled_ms, true);
  uv_update_time(state->loop); /* as libuv does before it calls timers */
  now_ms = loop_now(state);
  /* Both may be after now_ms, if the clock stepped back or is coarse. */
  listen->wait_began_ms = min_of(listen->wait_began_ms, now_ms);
  listen->turned_ms = min_of(listen->turned_ms, now_ms);
  uvwheel__note_run(state, now_ms);
  until_ms = listen_in_spell(state, now_ms);
  uvwheel__go_on(
      state, uvwheel__run_turn(state, until_ms, state->options.turn_budget));
  listen->turned_ms = uv_hrtime() / NS_PER_MS;
}

/* ---- The driver is due --------------------------------------------------- */

/* Examines up to MAX_EXAMINED timers of slots whose pass has come, and moves
 * those that are not due. Returns whether a tick still waits. */
static bool move_refreshed(uvwheel_state_t *state) {
  uint64_t now_ms = loop_now(state);
  uint64_t left = min_of(state->options.turn_budget, MAX_EXAMINED);

  if (!needs_turn_by(state, now_ms))
    return false;
  state->listen.budget = state->options.turn_budget - left;
  (void)uvwheel__core_find_due(&state->core, without_lag(state, now_ms), CHUNK,
                               &left);
  state->listen.budget += left;
  return needs_turn_by(state, now_ms);
}

/* The driver is due: called next if a tick still waits, else armed anew. */
static NOINLINE void prepare_turn(uvwheel_state_t *state) {
  uint64_t now_ms = loop_now(state);
  bool is_driver_late = now_ms != state->wake.run_by_ms;

  MUST_HOLD(state->wake.phase != DISARMED);
  uvwheel__note_run(state, now_ms);
  if (!move_refreshed(state)) {
    uvwheel__go_on(state, false);
    return;
  }
  state->listen.quiet_ms = ask_quiet_ms(state, 0);
  if (is_driver_late) /* moves it behind the loop's due timers */
    (void)uv_timer_start(&state->wake.driver, uvwheel__on_driver, 0, 0);
}

/* If the loop was not quiet, or a callback has resumed the reading of a socket
 * since, what is due waits for a spell. */
void uvwheel__on_driver(uv_timer_t *driver) {
  uvwheel_state_t *state = CONTAINER_OF(driver, uvwheel_state_t, wake.driver);
  listen_t *listen = &state->listen;
  uint64_t quiet_ms = is_watcher_waiting(state) ? 0 : listen->quiet_ms;
  uint64_t now_ms = loop_now(state);
  bool in_spell;

  MUST_HOLD(state->wake.phase != DISARMED && state->wake.phase != IN_SPELL);
  listen->quiet_ms = 0;
  uvwheel__note_run(state, now_ms);
  in_spell = quiet_ms != 0 ? uvwheel__run_turn(state, quiet_ms, listen->budget)
                           : move_refreshed(state);
  if (in_spell) {
    begin_wait(listen, uv_hrtime() / NS_PER_MS, false);
    listen->turned_ms = now_ms; /* libuv's later timers may follow the poll */
  }
  uvwheel__go_on(state, in_spell);
}

/* ---- After each poll ----------------------------------------------------- */

void uvwheel__on_check(uv_check_t *check) {
  uvwheel_state_t *state = CONTAINER_OF(check, uvwheel_state_t, listen.check);

#ifdef UVWHEEL_CHECKS
  state->listen.poller = NULL;
#endif
  state->listen.quiet_ms = 0; /* what an earlier check found is too old */
  if (is_closing(state) || IS_CLOSING(state->wake.idle))
    uvwheel__abandon(state);
  else if (state->wake.phase == IN_SPELL)
    continue_spell(state);
  else if (state->wake.run_by_ms <= max_of(loop_now(state), state->wake.ran_ms))
    prepare_turn(state); /* ran_ms: stays due if the clock steps back */
  else
    uvwheel__plan_check_in(state);
}

#ifdef UVWHEEL_CHECKS
void uvwheel__on_prepare(uv_prepare_t *prepare) {
  uvwheel_state_t *state =
      CONTAINER_OF(prepare, uvwheel_state_t, listen.prepare);

  if (!IS_CLOSING(state->listen.check))
    state->listen.poller = &uvwheel__this_thread;
}
#endif
