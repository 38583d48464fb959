/* SPDX-License-Identifier: MIT */

/* The wheel's clock, and stalls: time in which the loop was blocked does not
 * count (P6).
 *
 * A turn never fires a timer whose peer has bytes waiting in its socket. But
 * datagrams are lost while nobody reads them; and in a poll in which one
 * callback blocks, later callbacks refresh their timers with a time that is too
 * old. So after a stall of S ms the wheel's clock is set back by S, and by a
 * grace of min(S, 1000) ms, in which peers may send again. Due times are times
 * of that clock: no timer is touched.
 *
 * The loop is blocked between two polls, while callbacks run, whoever they
 * belong to, or the process is frozen. This file counts that time, and the
 * check judges what was counted since the check before:
 *
 *      poll     |  callbacks of the poll  |  other callbacks  |     poll
 *   ... sleep   |                         |                   |  sleep ...
 *       uv_now() is read                check              prepare
 *
 * A poll counts as sleep until it returns, or until the driver is due if that
 * is earlier. A program that drives the loop by hand may sleep between two
 * runs, which looks like callbacks between the check and the prepare. So the
 * check asks libuv before it returns whether callbacks follow, such as those of
 * timers that are due. If so, the driver is called behind them, and what
 * follows the driver may be sleep. Otherwise the loop may sleep until the
 * driver is due.
 *
 * Without a limit one client that blocks the loop again and again would keep
 * every silent peer connected. So there is an allowance, from which the time
 * that is set back is taken. A stall is forgiven only while some is left. */

#include "binding.h"

#ifdef __linux__
#include <time.h>
#endif

/* The allowance, at first and at most: ten stalls of 5 s in a row. The debt has
 * the same limit: a suspension of eight hours is forgiven whole, and then no
 * stall is forgiven for 16 minutes. */
#define ALLOWANCE_MS 60000

/* The part of the loop's time that flows into the allowance: once that is used
 * up, the wheel's clock runs at 15/16 of the loop's pace at least. */
#define INFLOW 16
#define FILL_MS (ALLOWANCE_MS * INFLOW) /* from empty to full */

/* Longer than the time that most peers leave between two datagrams. */
#define MAX_GRACE_MS 1000

void
uvwheel__step_back(uvwheel_state_t *state, uint64_t by_ms)
{
  state->full_loop_ms = excess(state->full_loop_ms, by_ms);
  if (loop_now(state) < state->set_back_ms)
    state->set_back_ms = loop_now(state);
  state->heard_loop_ms = 0;
  state->checked_loop_ms = 0;
  state->wait_began_loop_ms = NEVER;
}

/* ---- How long the loop was blocked --------------------------------------- */

/* On Linux the coarse clock is exact enough for stalls of hundreds of ms, and
 * takes a fifth of the time of uv_hrtime. */
uint64_t
uvwheel__clock_ms(const uvwheel_state_t *state)
{
  uint64_t now_ms;
#ifdef __linux__
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
#else
  now_ms = uv_hrtime() / 1000000;
#endif
  return max_of(now_ms, loop_now(state));
}

/* Time before both woke_loop_ms and sleep_until_loop_ms counts as sleep. */
static void
count_up_to(uvwheel_state_t *state, uint64_t now_loop_ms, uint64_t woke_loop_ms)
{
  uint64_t from_loop_ms = max_of(
      state->counted_loop_ms, min_of(woke_loop_ms, state->sleep_until_loop_ms));

  state->counted_loop_ms = now_loop_ms;
  if (now_loop_ms >= from_loop_ms)
    state->blocked_ms += now_loop_ms - from_loop_ms;
  else
    uvwheel__step_back(state, from_loop_ms - now_loop_ms);
}

void
uvwheel__add_blocked(uvwheel_state_t *state)
{
  uint64_t now_loop_ms = uvwheel__clock_ms(state);

  count_up_to(state, now_loop_ms, loop_now(state));
}

/* Called before others' prepare callbacks, which may block the loop. libuv
 * before 1.45 updates uv_now when a run begins, which tells when a program that
 * drives the loop by hand has stopped sleeping. Later ones do not in
 * UV_RUN_ONCE and UV_RUN_NOWAIT: there this handle tells. An empty wheel
 * forgets first: its next timer counts from before the sleep. */
void
uvwheel__on_sleep_end(uv_prepare_t *sleep_end)
{
  uvwheel_state_t *state = CONTAINER_OF(sleep_end, uvwheel_state_t, sleep_end);
  uint64_t now_loop_ms = uvwheel__clock_ms(state);

  if (state->core.active == 0)
    uvwheel__forget_blocked(state);
  count_up_to(state, now_loop_ms, now_loop_ms);
  state->sleep_until_loop_ms = 0;
}

void
uvwheel__forget_blocked(uvwheel_state_t *state)
{
  uint64_t since_ms = excess(state->counted_loop_ms, loop_now(state));

  state->blocked_ms = min_of(state->blocked_ms, since_ms);
  state->counted_loop_ms = max_of(state->counted_loop_ms, loop_now(state));
}

/* ---- Stalls -------------------------------------------------------------- */

/* The allowance is kept as the time at which it is full. To take from it makes
 * that time later. The allowance is empty while that is FILL_MS ahead, and in
 * debt while that is further ahead. */
uint64_t
uvwheel__get_allowance(const uvwheel_state_t *state)
{
  if (is_closing(state)) /* then there may be no loop */
    return 0;
  return excess(FILL_MS, excess(state->full_loop_ms, loop_now(state))) / INFLOW;
}

static NOINLINE void
count_stall(uvwheel_state_t *state, uint64_t stall_ms)
{
  uint64_t back_ms = stall_ms + min_of(stall_ms, MAX_GRACE_MS);
  uint64_t until_full_ms = excess(state->full_loop_ms, loop_now(state));
  uvwheel_stats_t *stats = &state->core.stats;

  stats->stalls++;
  stats->stall_sum_ms += stall_ms;
  stats->stall_max_ms = max_of(stats->stall_max_ms, stall_ms);
  if (until_full_ms > FILL_MS) {
    stats->stalls_unforgiven++;
    return;
  }
  back_ms = min_of(back_ms, wheel_now(state));
  state->set_back_ms += back_ms;
  until_full_ms += INFLOW * back_ms;
  until_full_ms = min_of(until_full_ms, 2 * FILL_MS); /* a minute of debt */
  state->full_loop_ms = loop_now(state) + until_full_ms;
}

void
uvwheel__end_poll(uvwheel_state_t *state)
{
  uint64_t stall_ms;

  uvwheel__add_blocked(state);
  stall_ms = state->core.active != 0 ? state->blocked_ms : 0;
  state->blocked_ms = 0;
  state->sleep_until_loop_ms = 0; /* until the check ends */
  if (UNLIKELY(stall_ms > state->options.stall_ms) &&
      state->options.stall_ms != UINT32_MAX)
    count_stall(state, stall_ms);
}

/* ---- Batches ------------------------------------------------------------- */

/* The most callbacks between two reads of the clock. A read takes some 25 ns,
 * as long as a quick callback and its expiry. */
#define MAX_UNREAD 16

void
uvwheel__begin_batch(batch_t *batch)
{
  uint64_t now_ns = uv_hrtime();

  *batch = (batch_t){.begin_ns = now_ns, .read_ns = now_ns, .read_every = 1};
}

/* Reads the clock after each slow callback, and from time to time between quick
 * ones, judging by the last callbacks. A clock that has stepped back behind the
 * begin of the turn ends it: the difference wraps. */
bool
uvwheel__read_clock(uvwheel_state_t *state, batch_t *batch)
{
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
