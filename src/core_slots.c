/* SPDX-License-Identifier: MIT */

/* A slot: small when sparse, wide when full.
 *
 * One long list is a chain of cache misses, each of which has to end before the
 * next begins. So a slot has several lists, its lanes, which are drained side
 * by side, so that their misses overlap. Expiry of a timer among a million took
 * 63 ns with 4 lanes, 40 with 8, 24 with 16 and 22 with 32; a lane costs 16
 * bytes per slot.
 *
 * A lane gets SHARE entries before the next lane, and is initialised then: a
 * slot with few entries uses few lanes. In a FIFO wheel, where the order
 * matters more, one lane takes all entries. */

#include "core.h"

/* ---- Slots that are occupied -------------------------------------------- */

void uvwheel__core_plan_pass(core_t *core, uint64_t tick) {
  uint64_t slot_index = tick & core->slot_mask, word = slot_index / 64;
  slot_t *slot = &core->slots[slot_index];

  MUST_HOLD(tick >= core->hand && !has_pass_by(slot, tick));
  if (tick < core->soonest[word])
    core->soonest[word] = tick;
  core->occupied[word] |= UINT64_C(1) << (slot_index % 64);
  if (slot->next_pass == 0) {
    core->slots_in_use++;
    slot->lanes_used = FIRST_LANE;
    open_lane(core, slot, FIRST_LANE);
  }
  slot->next_pass = tick;
}

void uvwheel__core_vacate(core_t *core, uint64_t slot_index) {
  uint64_t word = slot_index / 64;

  MUST_HOLD(core->slots[slot_index].next_pass != 0);
  core->occupied[word] &= ~(UINT64_C(1) << (slot_index % 64));
  if (core->occupied[word] == 0)
    core->soonest[word] = NEVER;
  core->slots[slot_index].next_pass = 0;
  core->slots_in_use--;
}

/* ---- The next tick ------------------------------------------------------ */

/* Raises a word's bound to the first tick at which one of its slots wants a
 * pass, if the bound is within this round. The word's bits are rotated into the
 * order in which the hand meets the slots, from `first` on. In that order the
 * first slot whose pass is within the round has the earliest of the word. */
static NOINLINE void search_word(core_t *core, uint64_t word, uint64_t first) {
  uint64_t bits = core->occupied[word], soonest = NEVER;
  uint64_t round_end = core->hand + core->slot_mask + 1;

  bits = bits >> first | bits << (-first % 64);
  if (core->soonest[word] > round_end)
    return;
  for (; bits != 0 && soonest > round_end; bits &= bits - 1) {
    uint64_t slot_index = 64 * word + (first + lowest_bit(bits)) % 64;
    slot_t *slot = &core->slots[slot_index];
    if (are_empty(slot->lanes, lane_at(slot, slot->lanes_used)))
      uvwheel__core_vacate(core, slot_index);
    else
      soonest = min_of(soonest, slot->next_pass);
  }
  core->soonest[word] = soonest;
}

/* The words are searched in the order of the hand, until one has a pass in this
 * round; a word whose bound is beyond `next` is not. The hand's own word comes
 * first: some of its slots are the last of the round. */
uint64_t uvwheel__core_find_next_tick(core_t *core) {
  const uint64_t mask = core->slot_mask, *soonest = core->soonest;
  uint64_t tick = core->hand + 1, first = (tick & mask) / 64, word = first;
  uint64_t next = NEVER;

  do {
    if (UNLIKELY(soonest[word] < next)) {
      uint64_t bit = word == first ? tick & mask & 63 : 0;
      search_word(core, word, bit);
      next = min_of(next, soonest[word]);
      if (soonest[word] - tick <= (word == first ? 63 - bit : mask))
        break;
    }
    word = (word + 1) & (mask / 64);
  } while (word != first);
  MUST_HOLD(next > core->hand);
  return next;
}

/* ---- Counting ----------------------------------------------------------- */

uint64_t uvwheel__core_count_slot(const core_t *core, uint64_t slot_index,
                                  uint64_t now_ms, uint64_t *later,
                                  uint64_t *most_rounds) {
  slot_t *slot = &core->slots[slot_index];
  uvwheel_link_t *lane, *link;
  uint64_t count = 0;

  MUST_HOLD(slot_index <= core->slot_mask);
  if (slot->next_pass == 0)
    return 0;
  for (lane = slot->lanes; lane != lane_at(slot, slot->lanes_used); lane++)
    for (link = lane->next; link != lane; link = link->next) {
      uint64_t rounds = rounds_of(core, entry_of(link), now_ms);
      count++;
      *later += rounds > 0;
      *most_rounds = max_of(*most_rounds, rounds);
    }
  return count;
}
