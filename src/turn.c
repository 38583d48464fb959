/* SPDX-License-Identifier: MIT */

/* Turns: due timers fire, or are put back (stall.c). listen.c says when. */

#include "binding.h"

/* ---- Batches ------------------------------------------------------------- */

/* A read of the clock takes about 25 ns, as long as a quick callback and its
 * expiry. So the clock is read less often while callbacks are quick. */
#define MAX_UNREAD 16

void uvwheel__begin_batch(batch_t *batch) {
  uint64_t now_ns = uv_hrtime();

  *batch = (batch_t){.begin_ns = now_ns, .read_ns = now_ns, .read_every = 1};
}

bool uvwheel__read_clock(uvwheel_state_t *state, batch_t *batch) {
  uint64_t now_ns = uv_hrtime();

  state->stats.turn_max_us =
      max_of(state->stats.turn_max_us, excess(now_ns, batch->begin_ns) / 1000);
  if (now_ns - batch->read_ns > state->turn_ns / 8)
    batch->read_every = 1;
  else if (batch->read_every < MAX_UNREAD)
    batch->read_every *= 2;
  batch->read_ns = now_ns;
  batch->unread = 0;
  return state->turn_ns != NEVER && now_ns - batch->begin_ns >= state->turn_ns;
}

/* ---- Firing -------------------------------------------------------------- */

/* Starts a firing timer again. With SKIP it is due at the next time of its beat
 * that is not before the last tick by limit_ms: with ticks of 100 ms, a beat of
 * 700, 800, 900 ... goes on at 1000 after a turn up to 1020. (The first from
 * 1020 on is 1100: that would skip a call.) But if it fires more than
 * stall_ms + busy_wait after its own tick, the next call might follow at once:
 * so a new beat begins right before the current tick. */
static NOINLINE void start_repeat(uvwheel_state_t *state,
                                  uvwheel_timer_t *timer, uint64_t limit_ms) {
  uint64_t missed = timer->wheel_and_flags & TIMER_MISSED, now_ms;
  uint64_t due_ms = timer->entry.due_ms, repeat = timer->interval;
  uint64_t next_ms = add_ms(due_ms, repeat), tick_ms = state->core.tick_ms;
  uint64_t own_tick_ms = due_ms - due_ms % tick_ms + tick_ms;
  uint64_t last_tick_ms = limit_ms - limit_ms % tick_ms;

  if (missed == UVWHEEL_MISSED_DELAY) {
    next_ms = add_ms(loop_now(state), repeat);
  } else if (missed == UVWHEEL_MISSED_SKIP) {
    now_ms = without_lag(state, uv_hrtime() / NS_PER_MS);
    if (excess(now_ms, own_tick_ms) >
        add_ms(state->stall_after, state->busy_wait))
      next_ms = add_ms(now_ms - now_ms % tick_ms - 1, repeat);
    else if (next_ms < last_tick_ms) /* by whole repeats, rounded up */
      next_ms += (last_tick_ms - next_ms + repeat - 1) / repeat * repeat;
  }
  if (!uvwheel__core_insert(&state->core, &timer->entry, next_ms))
    (void)uvwheel__core_put(&state->core, &timer->entry);
}

/* Fires a timer that was taken out of the core. limit_ms: see start_repeat. */
static void fire(uvwheel_state_t *state, uvwheel_timer_t *timer,
                 uint64_t limit_ms) {
  MUST_HOLD(timer->cb != NULL && (timer->wheel_and_flags & TIMER_IDLE) == 0);
  if (repeats(timer)) {
    timer->wheel_and_flags |= TIMER_APPOINTMENT;
    start_repeat(state, timer, limit_ms);
  } else {
    timer->wheel_and_flags |= TIMER_IDLE | TIMER_APPOINTMENT;
    count_active(state, timer, -1);
  }
  CALL_BACK(timer);
}

static void count_lateness(uvwheel_stats_t *stats, uint64_t late_by) {
  stats->lateness[min_of(bit_width(late_by), UVWHEEL_LATENESS_BUCKETS - 1)]++;
  stats->lateness_sum_ms += late_by;
  stats->lateness_max_ms = max_of(stats->lateness_max_ms, late_by);
}

/* ---- Turns --------------------------------------------------------------- */

bool uvwheel__run_turn(uvwheel_state_t *state, uint64_t until_ms,
                       uint64_t budget) {
  uint64_t began_ms = loop_now(state), found = 0, left = budget;
  uint64_t limit_ms = without_lag(state, until_ms);
  uvwheel_entry_t *entry;
  bool is_cut;
  batch_t batch;

  if (!needs_turn_by(state, until_ms))
    return needs_turn_by(state, began_ms);
  uvwheel__begin_batch(&batch);
  while (!is_closing(state) && until_ms <= loop_now(state)) {
    entry = uvwheel__core_find_due(&state->core, limit_ms, CHUNK, &left);
    if (entry == NULL)
      break;
    found++;
    left--;
    MUST_HOLD(entry->due_ms < limit_ms);
    if (LIKELY(!waited_in_stall(state, timer_of(entry))) ||
        !uvwheel__try_put_back(state, timer_of(entry))) {
      count_lateness(&state->stats,
                     without_lag(state, loop_now(state)) - entry->due_ms);
      uvwheel__core_hand_out(&state->core, entry);
      fire(state, timer_of(entry), limit_ms);
    }
    if (count_callback(state, &batch))
      left = 0; /* find_due then returns NULL, but may begin a pass */
  }
  /* Callbacks, put-backs or vain examinations may follow the last read. */
  if (batch.unread != 0 || left != budget - found)
    (void)uvwheel__read_clock(state, &batch);
  state->stats.turns_overrun +=
      excess(batch.read_ns, batch.begin_ns) / 2 > state->turn_ns;
  is_cut = needs_turn_by(state, until_ms);
  state->stats.turns_cut += is_cut;
  state->stats.turns += is_cut || found != 0;
  return excess(batch.read_ns / NS_PER_MS, began_ms) > state->stall_after ||
         needs_turn_by(state, loop_now(state));
}

/* ---- Before their time --------------------------------------------------- */

uint64_t uvwheel_fire_soonest(uvwheel_t *wheel, uint64_t count) {
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
    fire(state, timer_of(entry), loop_now(state));
  }
  state->is_firing_soonest = false;
  (void)uvwheel__read_clock(state, &batch);
  uvwheel__arm(state);
  return fired;
}
