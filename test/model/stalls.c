/* SPDX-License-Identifier: MIT */

#include "stalls.h"

#include "p6.h"

uint64_t stalls_give_ms(const stalls_t *stalls, unsigned n) {
  return with_grace(stalls->together_ms[n]);
}

uint64_t stalls_give_until_ms(const stalls_t *stalls) {
  return stalls->until_ms + stalls_give_ms(stalls, stalls->chain);
}

bool stall_goes_on(const stalls_t *stalls) {
  return stalls->chain != 0 && !stalls->has_polled &&
         stalls->put_back == stalls->put_back_before;
}

uint64_t note_stall(stalls_t *stalls, const uvwheel_stats_t *stats,
                    uint64_t until_ms) {
  uint64_t late_ms = stats->stall_sum_ms - stalls->sum_ms, *together_ms;
  bool is_another = late_ms != 0 && !stall_goes_on(stalls);

  require(stats->stalls == stalls->count + is_another);
  if (late_ms == 0)
    return 0;
  if (is_another && (stalls->chain == MOST_STALLS ||
                     until_ms - late_ms >= stalls_give_until_ms(stalls)))
    stalls->chain = 0;
  stalls->chain += is_another;
  together_ms = &stalls->together_ms[stalls->chain];
  if (is_another)
    together_ms[0] = together_ms[-1];
  together_ms[0] += late_ms;
  stalls->count = stats->stalls;
  stalls->sum_ms = stats->stall_sum_ms;
  stalls->longest_ms =
      max_of(stalls->longest_ms, together_ms[0] - together_ms[-1]);
  require(stats->stall_max_ms == stalls->longest_ms);
  stalls->until_ms = until_ms;
  stalls->put_back_before = stalls->put_back;
  stalls->has_polled = false;
  return late_ms;
}

uint64_t put_back_to_ms(const stalls_t *stalls, const silence_t *silence,
                        uint64_t due_ms) {
  uint64_t more_ms;

  if (silence->given >= stalls->chain ||
      excess(due_ms, silence->wait_ms) >= stalls->until_ms)
    return 0;
  more_ms = stalls_give_ms(stalls, stalls->chain) -
            stalls_give_ms(stalls, silence->given);
  return min_of(add_saturated(due_ms, more_ms),
                add_saturated(stalls->until_ms, silence->wait_ms));
}
