/* SPDX-License-Identifier: MIT */

#include "stalls.h"

#include "p6.h"

uint64_t stalls_give_until_ms(const stalls_t *stalls) {
  return stalls->until_ms + stalls->run_gives_ms;
}

uint64_t note_stall(stalls_t *stalls, const uvwheel_stats_t *stats,
                    uint64_t until_ms, uint64_t tick_ms) {
  uint64_t late_ms = stats->stall_sum_ms - stalls->sum_ms;

  require(stats->stalls == stalls->count + (late_ms != 0));
  if (late_ms == 0)
    return 0;
  require(until_ms - late_ms >= stalls->until_ms || stalls->is_unclear);
  if (until_ms - late_ms >= stalls_give_until_ms(stalls)) {
    stalls->run = 0;
    stalls->run_gives_ms = 0;
    stalls->is_behind = stalls->is_unclear = false;
    stalls->adds_up = true;
  }
  stalls->count++;
  stalls->sum_ms += late_ms;
  stalls->longest_ms = max_of(stalls->longest_ms, late_ms);
  require(stats->stall_max_ms == stalls->longest_ms);
  stalls->until_ms = until_ms;
  stalls->gives_ms = with_grace(late_ms);
  stalls->run++;
  stalls->run_gives_ms += stalls->gives_ms;
  if (stalls->run < MOST_STALLS)
    stalls->fifth_ms = until_ms;
  else if (stalls->run > MOST_STALLS)
    stalls->adds_up &= tick_ms <= stalls->fifth_ms;
  return late_ms;
}

/* If the clock has stepped back, the last stall ends in the future. */
silence_t begin_silence(const stalls_t *stalls, uint64_t now_ms,
                        uint64_t wait_ms) {
  uint64_t over_ms = add_saturated(now_ms, wait_ms);

  return (silence_t){.is_measured = true,
                     .is_unclear = now_ms < stalls->until_ms,
                     .heard_ms = now_ms,
                     .over_ms = over_ms,
                     .least_ms = over_ms};
}

/* Takes the place of the one that gave least. */
static void note_gift(silence_t *silence, uint64_t gift_ms) {
  uint64_t *given_ms = silence->given_ms;
  unsigned i;

  if (gift_ms <= given_ms[0])
    return;
  for (i = 0; i + 1 < MOST_STALLS && given_ms[i + 1] < gift_ms; i++)
    given_ms[i] = given_ms[i + 1];
  given_ms[i] = gift_ms;
}

/* When a new run begins, or a seventh stall that does not add up, what those
 * before have not given is lost, and a timer that they have put back need not
 * be given anything more. Nor need one that was put back for six. */
void note_silence(silence_t *silence, const stalls_t *stalls, uint64_t due_ms,
                  uint64_t wait_ms) {
  bool is_anew = stalls->run == 1 || !stalls->adds_up;

  if (!silence->is_measured || silence->heard_ms >= stalls->until_ms)
    return;
  note_gift(silence, stalls->gives_ms);
  silence->is_unclear |= stalls->is_unclear;
  silence->has_no_end |= stalls->is_behind && stalls->run > MOST_STALLS;
  if (is_anew)
    silence->least_ms = due_ms;
  if (silence->put_back_in >= (is_anew ? 1 : MOST_STALLS))
    silence->is_spent = true;
  if (!silence->is_spent)
    silence->least_ms =
        min_of(add_saturated(silence->least_ms, stalls->gives_ms),
               add_saturated(stalls->until_ms, wait_ms));
}

void verify_put_back(silence_t *silence, stalls_t *stalls, uint64_t due_ms,
                     uint64_t later_ms, uint64_t wait_ms) {
  uint64_t most_ms = silence->over_ms;
  unsigned i;

  require(silence->is_measured);
  for (i = 0; i < MOST_STALLS; i++)
    most_ms = add_saturated(most_ms, silence->given_ms[i]);
  require(later_ms > due_ms);
  require(later_ms <= most_ms || silence->is_unclear || silence->has_no_end);
  require(later_ms <= add_saturated(stalls->until_ms, wait_ms));
  silence->put_back_in = stalls->run;
  stalls->put_back++;
}

void verify_silence_over(const silence_t *silence, uint64_t due_ms) {
  require(!silence->is_measured || silence->is_unclear ||
          due_ms >= silence->least_ms);
}
