/* SPDX-License-Identifier: MIT */

/* What a small world of peers promises, and its key. */

#include "invariants.h"
#include "world_peers.h"

#include <stdio.h>

/* While the clock steps back and a callback updates the loop's time, nothing
 * tells when a poll was. */
void
verify_silence(const peer_t *peer)
{
  uint64_t checked_ms = peers_world.checked_ms;

  if (peers_world.has_stepped_back)
    return;
  require(peer->waits == 0 || peer->spoken_ms >= checked_ms ||
          peer->spoken_ms >= peer->known_ms + peer->timeout_ms);
  require(checked_ms >= peer->known_ms + peer->timeout_ms);
  if (!peers_world.has_unforgiven && peer->waits == 0)
    require(checked_ms + STALL_MS >= peer->spoken_ms + peer->timeout_ms);
}

/* ---- After an iteration -------------------------------------------------- */

static bool
is_noisy(void)
{
  return peers_world.peers[0].waits > 0 || peers_world.peers[1].waits > 0;
}

/* Since when it has been due for its tick; 0: it is not. */
static uint64_t
overdue_from_ms(const peer_t *peer)
{
  uint64_t now_ms = uvwheel_now(&peers_world.wheel) - LAG_MS;
  uint64_t tick_ms = (peer->idle.due_ms / TICK_MS + 1) * TICK_MS;

  return uvwheel_timer_is_active(&peer->idle.timer) && tick_ms <= now_ms
             ? tick_ms
             : 0;
}

/* The peer was overdue when the iteration began, and still is. That may happen
 * once. It may last longer while words wait, and until the next millisecond: in
 * a millisecond the wheel asks only after the 1st, 2nd, 4th, 8th ... poll. */
static void
expect_fired(peer_t *peer, uint64_t from_ms, bool was_noisy)
{
  bool may_wait = was_noisy
                      ? peers_world.noisy_ms <= MIN_WAIT_MS + 2 * LONG_MS
                      : peers_world.noisy_at_ms == uv_now(&peers_world.loop);

  if (from_ms == 0 || overdue_from_ms(peer) != from_ms || may_wait)
    peer->overdue = 0;
  else
    peer->overdue++;
  require(peer->overdue <= 1);
}

/* Stalls are forgiven once. Returns whether there was none, and the turn was
 * not cut by its limits, so that all that was due has fired. */
static bool
expect_forgiven(const uvwheel_stats_t *before)
{
  uint64_t forgiven_ms, stalled_ms;
  uvwheel_stats_t after;

  uvwheel_get_stats(&peers_world.wheel, &after);
  forgiven_ms = after.set_back_ms - before->set_back_ms;
  stalled_ms = after.stall_sum_ms - before->stall_sum_ms;
  require(stalled_ms <= peers_world.held_ms);
  require(forgiven_ms <= peers_world.grace_ms);
  require(forgiven_ms == 0 || stalled_ms > STALL_MS);
  if (stalled_ms > 0 && forgiven_ms == 0)
    peers_world.has_unforgiven = true;
  /* What its callbacks and, since libuv 1.45, timers after them have held up.
   */
  peers_world.held_ms -= peers_world.held_then_ms;
  peers_world.grace_ms = with_grace(peers_world.held_ms);
  return forgiven_ms == 0 && after.turns_cut == before->turns_cut;
}

/* Has the check of this iteration set heard_ms? Then whoever spoke before that
 * time had been heard: a word takes two polls at most. */
static void
expect_listened(uint64_t heard_before_ms)
{
  uint64_t heard_ms =
      peers_world.wheel.state->heard_loop_ms + peers_world.ahead_ms;
  bool was_quiet = peers_world.unheard_ms == UINT64_MAX;
  unsigned i;

  /* Also if the clock has stepped back; an empty wheel does not see it. */
  if (uvwheel_count(&peers_world.wheel) > 0)
    require(heard_ms <= peers_world.clock_then_ms);
  if (peers_world.wheel.state->heard_loop_ms == heard_before_ms)
    return;
  for (i = 0; i < DEADLINES; i++)
    deadline_at(i)->is_after_heard = deadline_at(i)->is_after_poll;
  if (peers_world.has_stepped_back)
    return;
  require(heard_ms <= peers_world.checked_ms);
  require(heard_ms <= peers_world.unheard_ms);
  require(was_quiet || heard_ms <= peers_world.checked_before_ms);
  require(was_quiet || heard_ms + MIN_WAIT_MS <= peers_world.clock_then_ms);
}

void
begin_iteration(iteration_t *iteration)
{
  unsigned i;

  uvwheel_get_stats(&peers_world.wheel, &iteration->stats);
  iteration->began_ms = peers_clock_ms();
  iteration->heard_ms = peers_world.wheel.state->heard_loop_ms;
  iteration->was_noisy = is_noisy();
  for (i = 0; i < PEERS; i++)
    iteration->overdue_from_ms[i] = overdue_from_ms(&peers_world.peers[i]);
}

void
verify_iteration(const iteration_t *iteration)
{
  bool is_done = expect_forgiven(&iteration->stats);
  uint64_t now_ms = uv_now(&peers_world.loop);
  bool was_noisy = iteration->was_noisy || is_noisy();
  unsigned i;

  expect_listened(iteration->heard_ms);
  /* Until the clock is where it was, the driver may wait for that. */
  if (now_ms < peers_world.latest_ms || peers_world.has_stepped_back)
    is_done = false;
  else
    peers_world.latest_ms = now_ms;
  if (was_noisy) {
    peers_world.noisy_ms += peers_clock_ms() - iteration->began_ms;
    peers_world.noisy_at_ms = now_ms;
  } else {
    peers_world.noisy_ms = 0;
  }
  for (i = 0; i < PEERS; i++)
    expect_fired(&peers_world.peers[i],
                 is_done ? iteration->overdue_from_ms[i] : 0, was_noisy);
}

/* ---- What holds at any time ---------------------------------------------- */

/* What begins after the check that has set heard_ms is due after that time.
 * (The wheel fires nothing before its tick, which is after its due time.) */
static void
verify_deadline(const deadline_t *deadline, uint64_t heard_ms)
{
  uint64_t now_ms = uvwheel_now(&peers_world.wheel), due_ms = deadline->due_ms;

  if (!uvwheel_timer_is_active(&deadline->timer))
    return;
  require(uvwheel_timer_get_due_in(&deadline->timer) ==
          (due_ms > now_ms ? due_ms - now_ms : 0));
  require(!deadline->is_after_heard || due_ms >= heard_ms);
}

void
verify_peers(void)
{
  uint64_t most_ms = ALLOWANCE_MS + with_grace(SLEEP_MS), heard_ms;
  uvwheel_stats_t stats;
  unsigned i, active = 0;

  uvwheel_get_stats(&peers_world.wheel, &stats);
  require(stats.set_back_ms <= most_ms + (real_ms() - BEGIN_MS) / INFLOW);
  require(uvwheel_now(&peers_world.wheel) ==
          uv_now(&peers_world.loop) - stats.set_back_ms);
  /* By the wheel's clock; a loop whose clock is behind it takes its own. */
  heard_ms =
      min_of(peers_world.wheel.state->heard_loop_ms, uv_now(&peers_world.loop));
  heard_ms -= min_of(heard_ms, stats.set_back_ms);
  for (i = 0; i < DEADLINES; i++) {
    active += uvwheel_timer_is_active(&deadline_at(i)->timer) != 0;
    verify_deadline(deadline_at(i), heard_ms);
  }
  require(broken_wheel_invariants(&peers_world.wheel, stderr) == 0);
  require(uvwheel_count(&peers_world.wheel) == active);
}

/* ---- The key ------------------------------------------------------------- */

static uint64_t
key_of_entry(const uvwheel_entry_t *entry)
{
  const uvwheel_timer_t *timer = CONTAINER_OF(entry, uvwheel_timer_t, entry);

  return mix(2, timer == &peers_world.request.timer
                    ? PEERS
                    : (uint64_t)((peer_t *)timer->data - peers_world.peers));
}

static uint64_t
key_of_peer(const peer_t *peer)
{
  uint64_t longest_ms = peer->timeout_ms + STALL_MS;
  uint64_t key = mix(3, uvwheel_timer_is_active(&peer->idle.timer) != 0);

  key = mix(key, peer->waits);
  key = mix(key, min_of(real_ms() - peer->spoken_ms, longest_ms));
  key = mix(key, min_of(real_ms() - peer->known_ms, longest_ms));
  return mix(key, peer->overdue);
}

/* A time of the loop's clock as seen from now. Times long ago are alike. */
static uint64_t
key_of_time(uint64_t ms)
{
  uint64_t now_ms = uv_now(&peers_world.loop);

  return ms + 4 * LONG_MS > now_ms && ms < MOST ? ms - now_ms : MOST;
}

static uint64_t
key_of_wheel(void)
{
  const uvwheel_state_t *state = peers_world.wheel.state;
  uint64_t key = mix(4, state->blocked_ms);

  key = mix(key, key_of_time(state->busy_loop_ms));
  key = mix(key, state->busy_polls);
  key = mix(key, key_of_time(state->counted_loop_ms));
  key = mix(key, key_of_time(state->sleep_until_loop_ms));
  key = mix(key, key_of_time(state->heard_loop_ms));
  key = mix(key, key_of_time(state->armed_for_loop_ms));
  key = mix(key, key_of_time(state->checked_before_loop_ms));
  if (state->armed_for_loop_ms == 0) {
    key = mix(key, key_of_time(state->checked_loop_ms));
    key = mix(key, key_of_time(state->wait_began_loop_ms));
    key = mix(key, state->wait_began_anew);
  }
  return mix(key, excess(state->full_loop_ms, uv_now(&peers_world.loop)));
}

uint64_t
key_of_peers(void)
{
  uint64_t key = key_of_core(&peers_world.wheel.state->core,
                             uvwheel_now(&peers_world.wheel), key_of_entry);
  unsigned i;

  for (i = 0; i < PEERS; i++)
    key = mix(key, key_of_peer(&peers_world.peers[i]));
  for (i = 0; i < DEADLINES; i++)
    key = mix(key, deadline_at(i)->is_after_heard &&
                       uvwheel_timer_is_active(&deadline_at(i)->timer));
  key = mix(key, key_of_wheel());
  key = mix(key, peers_clock_ms() - uv_now(&peers_world.loop));
  key = mix(key, peers_world.held_ms);
  key = mix(key, peers_world.grace_ms);
  key = mix(key, min_of(peers_world.noisy_ms, MIN_WAIT_MS + 2 * LONG_MS + 1));
  key = mix(key, key_of_time(peers_world.noisy_at_ms));
  key = mix(key, peers_world.has_stepped_back);
  key = mix(key, key_of_time(peers_world.checked_ms - peers_world.ahead_ms));
  key = mix(key, peers_world.latest_ms - uv_now(&peers_world.loop));
  return mix(key, peers_world.has_unforgiven);
}
