/* SPDX-License-Identifier: MIT */

/* What a small world of peers promises, and its key. */

#include "invariants.h"
#include "virtual_time.h"
#include "world_peers.h"

#include <stdio.h>

/* ---- Stalls -------------------------------------------------------------- */

static void watch_put_back(deadline_t *deadline) {
  uint64_t due_ms = deadline->timer.entry.due_ms;

  if (due_ms == deadline->due_ms)
    return;
  verify_put_back(&deadline->silence, &peers_world.stalls, deadline->due_ms,
                  due_ms, deadline->wait_ms);
  deadline->due_ms = due_ms;
}

/* Between two times at which this is called the loop is held once at most. */
static void watch_stall(const uvwheel_stats_t *stats) {
  const stall_t *stall = insides_of(&peers_world.wheel).stall;
  uint64_t until_ms = stall->ended_ms[stall->chain];
  uint64_t late_ms =
      note_stall(&peers_world.stalls, stats, until_ms, UINT64_MAX);
  unsigned i;

  if (late_ms == 0)
    return;
  peers_world.stalls.is_behind = true; /* if the loop is never quiet */
  require(late_ms > STALL_MS);
  require(late_ms <= peers_clock_ms() - peers_world.checked_before_ms);
  require(until_ms <= virtual_time_ns() / 1000000);
  for (i = 0; i < DEADLINES; i++)
    note_silence(&deadline_at(i)->silence, &peers_world.stalls,
                 deadline_at(i)->due_ms, deadline_at(i)->wait_ms);
}

/* The wheel notices a stall before a turn; that of a turn at the next check. */
void watch_stalls(void) {
  uvwheel_stats_t stats;
  unsigned i;

  uvwheel_get_stats(&peers_world.wheel, &stats);
  if (!peers_world.in_turn)
    watch_stall(&stats);
  for (i = 0; i < DEADLINES; i++)
    if (uvwheel_timer_is_active(&deadline_at(i)->timer))
      watch_put_back(deadline_at(i));
  watch_stall(&stats);
}

void end_turn(void) {
  watch_stalls();
  peers_world.in_turn = false;
}

/* ---- In a callback ------------------------------------------------------- */

static uint64_t tick_after_ms(const deadline_t *deadline) {
  return (deadline->due_ms / TICK_MS + 1) * TICK_MS;
}

/* In a loop that is never quiet, since the spell has begun or later. */
static bool has_waited(const deadline_t *deadline) {
  uint64_t from_ms = max_of(tick_after_ms(deadline), peers_world.spell_from_ms);

  return virtual_time_ns() / 1000000 >= from_ms + MIN_WAIT_MS;
}

void verify_time(deadline_t *deadline) {
  watch_stalls();
  watch_put_back(deadline);
  peers_world.in_turn = true;
  verify_silence_over(&deadline->silence, deadline->due_ms);
  require(peers_world.unheard_ms == UINT64_MAX || has_waited(deadline));
  require(uv_now(&peers_world.loop) > tick_after_ms(deadline));
}

void verify_silence(const peer_t *peer) {
  uint64_t checked_ms = peers_world.checked_ms;

  require(peer->waits == 0 || peer->spoken_ms >= checked_ms ||
          peer->spoken_ms >= peer->known_ms + peer->timeout_ms ||
          has_waited(&peer->idle));
  require(checked_ms >= peer->known_ms + peer->timeout_ms);
  if (peer->waits == 0)
    require(checked_ms + STALL_MS + TICK_MS >=
            peer->spoken_ms + peer->timeout_ms / 2);
}

/* ---- After an iteration -------------------------------------------------- */

static bool is_noisy(void) {
  return peers_world.peers[0].waits > 0 || peers_world.peers[1].waits > 0;
}

/* Since when it has been due for its tick; 0: it is not. */
static uint64_t overdue_from_ms(const deadline_t *deadline) {
  uint64_t now_ms = uv_now(&peers_world.loop) - LAG_MS;
  uint64_t tick_ms = tick_after_ms(deadline);

  return uvwheel_timer_is_active(&deadline->timer) && tick_ms <= now_ms
             ? tick_ms
             : 0;
}

void note_checked(void) {
  unsigned i;

  end_turn();
  peers_world.is_any_due = false;
  for (i = 0; i < DEADLINES; i++)
    peers_world.is_any_due |= overdue_from_ms(deadline_at(i)) != 0;
}

/* The peer was overdue when the iteration began, and still is. That may happen
 * once. It may last longer while words wait, and until the next millisecond: in
 * a millisecond the wheel asks only after the 1st, 2nd, 4th, 8th ... poll. The
 * wait may begin anew, once. */
static void expect_fired(peer_t *peer, uint64_t from_ms, bool was_noisy) {
  uint64_t wait_ms = insides_of(&peers_world.wheel).wait_began_anew
                         ? 2 * MIN_WAIT_MS + NOISE_MS
                         : MIN_WAIT_MS;
  bool may_wait = was_noisy
                      ? peers_world.noisy_ms < wait_ms
                      : peers_world.noisy_at_ms == uv_now(&peers_world.loop);

  if (from_ms == 0 || overdue_from_ms(&peer->idle) != from_ms || may_wait)
    peer->overdue = 0;
  else
    peer->overdue++;
  require(peer->overdue <= 1);
}

/* Has the check of this iteration listened? Then whoever spoke before the poll
 * returned had been heard. */
static void expect_listened(uint64_t quiet_before_ms) {
  uint64_t quiet_ms = insides_of(&peers_world.wheel).quiet_ms;

  if (quiet_ms == quiet_before_ms || quiet_ms == 0)
    return;
  require(quiet_ms <= peers_world.checked_ms);
  require(quiet_ms <= peers_world.unheard_ms);
}

void begin_iteration(iteration_t *iteration) {
  unsigned i;

  uvwheel_get_stats(&peers_world.wheel, &iteration->stats);
  iteration->began_ms = peers_clock_ms();
  iteration->quiet_ms = insides_of(&peers_world.wheel).quiet_ms;
  iteration->was_noisy = is_noisy();
  iteration->was_in_spell = insides_of(&peers_world.wheel).phase == IN_SPELL;
  if (!iteration->was_in_spell)
    peers_world.spell_from_ms = peers_clock_ms();
  for (i = 0; i < PEERS; i++)
    iteration->overdue_from_ms[i] = overdue_from_ms(deadline_at(i));
}

void verify_iteration(const iteration_t *iteration) {
  uint64_t now_ms = uv_now(&peers_world.loop);
  bool was_noisy = iteration->was_noisy || is_noisy();
  uvwheel_stats_t stats;
  bool is_done; /* nothing has kept what was due from firing */
  unsigned i;

  end_turn();
  expect_listened(iteration->quiet_ms);
  uvwheel_get_stats(&peers_world.wheel, &stats);
  is_done = stats.stall_sum_ms == iteration->stats.stall_sum_ms &&
            stats.turns_cut == iteration->stats.turns_cut;
  if (was_noisy)
    peers_world.noisy_at_ms = now_ms;
  if (!is_noisy() || !iteration->was_in_spell || !peers_world.is_any_due)
    peers_world.noisy_ms = 0;
  else
    peers_world.noisy_ms += peers_clock_ms() - iteration->began_ms;
  for (i = 0; i < PEERS; i++)
    expect_fired(&peers_world.peers[i],
                 is_done ? iteration->overdue_from_ms[i] : 0, was_noisy);
}

/* ---- What holds at any time ---------------------------------------------- */

void verify_peers(void) {
  uint64_t now_ms = uv_now(&peers_world.loop);
  uvwheel_stats_t stats;
  unsigned i, active = 0;

  for (i = 0; i < DEADLINES; i++) {
    const deadline_t *deadline = deadline_at(i);
    if (!uvwheel_timer_is_active(&deadline->timer))
      continue;
    active++;
    require(uvwheel_timer_get_due_in(&deadline->timer) ==
            excess(deadline->due_ms, now_ms));
  }
  uvwheel_get_stats(&peers_world.wheel, &stats);
  require(stats.put_back == peers_world.stalls.put_back);
  require(broken_wheel_invariants(&peers_world.wheel, stderr) == 0);
  require(uvwheel_count(&peers_world.wheel) == active);
}

/* ---- The key ------------------------------------------------------------- */

/* May the timer be put back by stalls that are known? Their number comes with
 * them. */
static bool is_in_stalls(const deadline_t *deadline) {
  return uvwheel_timer_is_active(&deadline->timer) &&
         deadline->silence.is_measured &&
         deadline->silence.heard_ms < peers_world.stalls.until_ms;
}

static uint64_t key_of_silence(const deadline_t *deadline, uint64_t key) {
  const silence_t *silence = &deadline->silence;
  uint64_t now_ms = uv_now(&peers_world.loop);
  unsigned i;

  key = mix(key, deadline->timer.wheel_and_flags & TIMER_KIND);
  key = mix(key, deadline->wait_ms);
  key = mix(key, silence->heard_ms - now_ms);
  key = mix(key, silence->least_ms - now_ms);
  for (i = 0; i < MOST_STALLS; i++)
    key = mix(key, silence->given_ms[i]);
  key = mix(key, silence->put_back_in);
  return mix(key, silence->is_spent);
}

static uint64_t key_of_entry(const uvwheel_entry_t *entry) {
  const uvwheel_timer_t *timer = CONTAINER_OF(entry, uvwheel_timer_t, entry);
  const deadline_t *deadline = CONTAINER_OF(timer, deadline_t, timer);
  uint64_t key = timer == &peers_world.request.timer
                     ? PEERS
                     : (uint64_t)((peer_t *)timer->data - peers_world.peers);

  key = mix(2, key);
  return is_in_stalls(deadline) ? key_of_silence(deadline, key)
                                : mix(key, deadline->silence.is_measured);
}

static uint64_t key_of_peer(const peer_t *peer) {
  uint64_t longest_ms = peer->timeout_ms + STALL_MS;
  uint64_t key = mix(3, uvwheel_timer_is_active(&peer->idle.timer) != 0);

  key = mix(key, peer->waits);
  key = mix(key, min_of(peers_clock_ms() - peer->spoken_ms, longest_ms));
  key = mix(key, min_of(peers_clock_ms() - peer->known_ms, longest_ms));
  return mix(key, peer->overdue);
}

/* A time of the loop's clock as seen from now. Times long ago are alike. */
static uint64_t key_of_time(uint64_t ms) {
  uint64_t now_ms = uv_now(&peers_world.loop);

  return ms + 2 * SLEEP_MS > now_ms && ms < MOST ? ms - now_ms : MOST;
}

/* Stalls are over once no timer can be put back by them, and another one does
 * not follow. It would not begin before next_ms. */
static uint64_t key_of_stalls(uint64_t next_ms) {
  const stalls_t *stalls = &peers_world.stalls;
  const stall_t *stall = insides_of(&peers_world.wheel).stall;
  uint64_t now_ms = uv_now(&peers_world.loop), key = 5;
  uint64_t gives_until_ms =
      stall->ended_ms[stall->chain] + stall->gave[stall->chain];
  uint64_t end_ms = max_of(gives_until_ms, stalls_give_until_ms(stalls));
  bool may_count = end_ms > now_ms || end_ms > next_ms;
  unsigned i;

  for (i = 0; i < DEADLINES; i++)
    may_count |= is_in_stalls(deadline_at(i));
  if (!may_count)
    return 0;
  for (i = 1; i <= stall->chain; i++) {
    key = mix(key, stall->gave[i] - stall->gave[i - 1]);
    key = mix(key, stall->ended_ms[i] - now_ms);
  }
  key = mix(key, gives_until_ms - now_ms);
  key = mix(key, stalls->run_gives_ms);
  return mix(key, min_of(stalls->run, MOST_STALLS + 1));
}

static uint64_t key_of_wheel(void) {
  const insides_t insides = insides_of(&peers_world.wheel);
  uint64_t now_ms = uv_now(&peers_world.loop), key = mix(4, insides.phase);

  key = mix(key, insides.others_wake);
  key = mix(key, key_of_time(insides.run_by_ms));
  key = mix(key, insides.ran_ms >= now_ms ? insides.ran_ms - now_ms : MOST);
  key = mix(key, uv_is_active((const uv_handle_t *)insides.driver)
                     ? key_of_time(insides.driver->timeout)
                     : MOST);
  key = mix(key, key_of_stalls(insides.run_by_ms));
  key = mix(key, key_of_time(insides.quiet_ms));
  key = mix(key, insides.budget);
  key = mix(key, key_of_time(insides.busy_ms));
  key = mix(key, insides.busy_polls);
  if (insides.phase != IN_SPELL)
    return key;
  key = mix(key, key_of_time(insides.ran_ms));
  key = mix(key, key_of_time(insides.wait_began_ms));
  key = mix(key, key_of_time(peers_world.spell_from_ms));
  return mix(key, insides.wait_began_anew);
}

uint64_t key_of_peers(void) {
  uint64_t now_ms = uv_now(&peers_world.loop);
  uint64_t key =
      key_of_core(insides_of(&peers_world.wheel).core, now_ms, key_of_entry);
  unsigned i;

  for (i = 0; i < PEERS; i++)
    key = mix(key, key_of_peer(&peers_world.peers[i]));
  key = mix(key, key_of_wheel());
  key = mix(key, peers_clock_ms() - now_ms);
  key = mix(key, min_of(peers_world.noisy_ms, 2 * MIN_WAIT_MS + NOISE_MS));
  key = mix(key, key_of_time(peers_world.noisy_at_ms));
  return mix(key, key_of_time(peers_world.checked_ms));
}
