/* SPDX-License-Identifier: MIT */

/* Stalls: which timers are put back, and by how much. The rule stands in
 * docs/how-it-works.md ("A stall puts a timer back"). A stall joins the chain,
 * of n stalls, if it begins before ended_ms[n] + gave[n]:
 *
 *   n            0    1             2             3 = chain
 *   the stall         1.0 to 1.4 s  2.1 to 4.1 s  6.8 to 7.1 s
 *   gave[n], ms  0    800           3,800         4,400: sums of rule 2
 *
 * Then a timer heard at 1 s may get 4,400 ms, one heard at 2 s 3,600, one put
 * back at 4.1 s 600 more; none more than a refresh at 7.1 s would give it. */

#include "binding.h"

/* Rule 5: the sixth becomes the first. */
static void forget_first_five(stall_t *stall) {
  stall->gave[1] = stall->gave[MAX_CHAIN] - stall->gave[MAX_CHAIN - 1];
  stall->ended_ms[1] = stall->ended_ms[MAX_CHAIN];
  stall->chain = 1;
}

void uvwheel__note_stall(uvwheel_state_t *state, uint64_t now_ms,
                         uint64_t late_by) {
  uvwheel_stats_t *stats = &state->stats;
  stall_t *stall = &state->stall;
  uint64_t began_ms = excess(now_ms, late_by);

  if (began_ms >=
      add_ms(stall->ended_ms[stall->chain], stall->gave[stall->chain]))
    stall->chain = 0; /* a new chain */
  else if (stall->chain == MAX_CHAIN &&
           !needs_turn_by(state, stall->ended_ms[MAX_CHAIN - 1]))
    forget_first_five(stall);
  if (stall->chain != MAX_CHAIN) { /* else this stall lengthens the sixth */
    stall->gave[stall->chain + 1] = stall->gave[stall->chain];
    stall->chain++;
  }
  stall->gave[stall->chain] += late_by + min_of(late_by, 1000);
  stall->ended_ms[stall->chain] = now_ms;
  stats->stalls++;
  stats->stall_sum_ms += late_by;
  stats->stall_max_ms = max_of(stats->stall_max_ms, late_by);
}

bool uvwheel__try_put_back(uvwheel_state_t *state, uvwheel_timer_t *timer) {
  const stall_t *stall = &state->stall;
  uint64_t given = (timer->wheel_and_flags & TIMER_KIND) / STALL_GIVEN;
  uint64_t due_ms = timer->entry.due_ms, chain = stall->chain, later_ms;

  MUST_HOLD(waited_in_stall(state, timer));
  if (given >= chain) /* always so for an appointment */
    return false;
  while (stall->ended_ms[given + 1] <= heard_ms(timer))
    given++; /* the peer counts as heard after that stall (not the last) */
  later_ms = min_of(add_ms(due_ms, stall->gave[chain] - stall->gave[given]),
                    add_ms(stall->ended_ms[chain], timer->interval));
  MUST_HOLD(later_ms > due_ms);
  timer->wheel_and_flags &= ~TIMER_KIND;
  timer->wheel_and_flags |= chain * STALL_GIVEN;
  (void)uvwheel__core_move(&state->core, &timer->entry, later_ms);
  state->stats.put_back++;
  return true;
}
