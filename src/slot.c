/* SPDX-License-Identifier: MIT */

/* A slot: small when sparse, wide when full.
 *
 * One long list is a chain of cache misses, each of which has to end before the
 * next begins. So a slot has several lists, its lanes, which are drained side
 * by side, so that their misses overlap. Expiry of a timer among a million took
 * 63 ns with 4 lanes, 40 with 8, 24 with 16 and 22 with 32; a lane costs 16
 * bytes per slot.
 *
 * A lane gets SHARE entries before the next one, and is initialised then: a
 * slot with few entries uses few lanes. In a FIFO wheel, where the order
 * matters more, one lane takes all entries. */

#include <errno.h>
#include <stdlib.h>

#include "core.h"

int
uvwheel__allocate_slots(uvwheel_core_t *core)
{
  uint64_t count = core->slot_mask + 1;
  uint64_t words = (count + 63) / 64;
  uint64_t size = sizeof(uvwheel_slot_t) * count + 2 * sizeof(uint64_t) * words;

  core->slots = calloc(1, (size_t)size);
  if (core->slots == NULL)
    return ENOMEM;
  core->occupied = (uint64_t *)(core->slots + count);
  core->soonest = core->occupied + words;
  return 0;
}

/* ---- Slots that are occupied -------------------------------------------- */

void
uvwheel__plan_pass(uvwheel_core_t *core, uint64_t tick)
{
  uint64_t number = tick & core->slot_mask, word = number / 64;
  uvwheel_slot_t *slot = &core->slots[number];

  if (core->occupied[word] == 0 || tick < core->soonest[word])
    core->soonest[word] = tick;
  core->occupied[word] |= UINT64_C(1) << (number % 64);
  if (slot->next_pass == 0) {
    core->slots_in_use++;
    slot->end = FIRST_LANE;
    fill_lane(slot, FIRST_LANE);
  }
  slot->next_pass = tick;
}

void
uvwheel__vacate(uvwheel_core_t *core, uint64_t number)
{
  core->occupied[number / 64] &= ~(UINT64_C(1) << (number % 64));
  core->slots[number].next_pass = 0;
  core->slots_in_use--;
}

uint64_t
uvwheel__next_occupied(const uvwheel_core_t *core, uint64_t number)
{
  while (number <= core->slot_mask) {
    uint64_t bits = core->occupied[number / 64] >> (number % 64);
    if (bits != 0)
      return number + lowest_bit(bits);
    number = (number / 64 + 1) * 64;
  }
  return core->slot_mask + 1;
}

/* ---- The next tick ------------------------------------------------------ */

/* Looks at the slots of some of a word's bits until one wants a pass by `end`.
 * Returns the first tick at which one of them wants a pass. A look through the
 * whole word makes its bound exact. */
static uint64_t
find_in_word(uvwheel_core_t *core, uint64_t word, uint64_t bits, uint64_t end)
{
  bool is_whole = bits == core->occupied[word];
  uint64_t soonest = NEVER;

  for (; bits != 0; bits &= bits - 1) {
    uint64_t number = 64 * word + lowest_bit(bits);
    uvwheel_slot_t *slot = &core->slots[number];
    if (is_empty(slot))
      uvwheel__vacate(core, number);
    else if (slot->next_pass <= end)
      return slot->next_pass;
    else if (slot->next_pass < soonest)
      soonest = slot->next_pass;
  }
  if (is_whole)
    core->soonest[word] = soonest;
  return soonest;
}

/* Goes through the slots in the order in which the hand meets them, so the
 * first whose next pass is within this round has the earliest. A word that
 * has none, by its bound, is not looked into. The word that the hand is in
 * comes first and, for the end of the round, last. */
uint64_t
uvwheel__find_next_tick(uvwheel_core_t *core)
{
  uint64_t words = (core->slot_mask + 64) / 64;
  uint64_t first = (core->hand + 1) & core->slot_mask;
  uint64_t end = core->hand + core->slot_mask + 1; /* of the round */
  uint64_t next = NEVER, i;

  for (i = 0; i <= words; i++) {
    uint64_t word = (first / 64 + i) & (words - 1), tick;
    uint64_t bits = core->occupied[word];
    if (i == 0)
      bits &= UINT64_MAX << (first % 64);
    if (bits == 0)
      continue;
    tick = core->soonest[word];
    if (tick <= end)
      tick = find_in_word(core, word, bits, end);
    if (tick <= end)
      return tick;
    if (tick < next)
      next = tick;
  }
  return next;
}

/* ---- Counting ----------------------------------------------------------- */

uint64_t
uvwheel__count_slot(const uvwheel_core_t *core, uint64_t number,
                    uint64_t now_ms, uint64_t *later, uint64_t *most_rounds)
{
  uvwheel_slot_t *slot = &core->slots[number];
  uvwheel_link_t *lane, *link;
  uint64_t count = 0;

  if (!is_occupied(core, number))
    return 0;
  for (lane = slot->lanes; lane != lane_at(slot, slot->end); lane++)
    for (link = lane->next; link != lane; link = link->next) {
      uint64_t rounds = rounds_of(core, entry_of(link), now_ms);
      count++;
      *later += rounds > 0;
      *most_rounds = rounds > *most_rounds ? rounds : *most_rounds;
    }
  return count;
}
