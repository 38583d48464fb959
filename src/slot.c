/* SPDX-License-Identifier: MIT */

/* A slot: small when sparse, wide when full.
 *
 * One long list is a chain of cache misses, each of which has to end before the
 * next begins. So a slot has several lists, its lanes, which are drained side
 * by side, so that their misses overlap. Expiry of a timer among a million took
 * 63 ns with 4 lanes, 40 with 8, 24 with 16 and 22 with 32; a lane costs 16
 * bytes per slot.
 *
 * Entries are dealt to the lanes in runs, and a lane is initialised when its
 * first run begins: a slot with few entries uses few lanes. In a FIFO wheel the
 * order matters more: there one lane takes all entries, and the one before it
 * what a pass puts back (see wheel.c). */

#include "slot.h"

#include <errno.h>
#include <stdlib.h>

/* How many entries a lane gets before the next lane's turn: few at first (with
 * 16 a wheel of 1 ms, whose slots are sparse, expires at half the speed), and
 * one more each time that all lanes have had their turn. */
#define RUN 4
#define MOST_RUN (1u << 15)

/* The lane that takes all entries of a FIFO slot. */
#define FIFO_LANE 1

int
uvwheel__allocate_slots(uvwheel_core_t *core)
{
  uint64_t count = core->slot_mask + 1;
  uint64_t words = (count + 63) / 64;
  uint64_t size = sizeof(uvwheel_slot_t) * count +
                  sizeof(uint64_t) * (words + (words + 63) / 64);

  if (size > SIZE_MAX)
    return ENOMEM;
  core->slots = calloc(1, (size_t)size);
  if (core->slots == NULL)
    return ENOMEM;
  core->occupied = (uint64_t *)(core->slots + count);
  core->words = core->occupied + words;
  return 0;
}

/* ---- Lanes -------------------------------------------------------------- */

static void
turn_to_lane(uvwheel_slot_t *slot, uint64_t lane, unsigned run)
{
  uvwheel_link_t *head = &slot->lanes[lane];

  slot->filling = (uint16_t)((char *)head - (char *)slot);
  slot->run = (uint16_t)run;
  slot->left = (uint16_t)run;
  if (lane >= slot->used)
    slot->used = (uint16_t)(lane + 1);
  if (head->next == NULL)
    list_init(head);
}

static void
occupy(uvwheel_core_t *core, uvwheel_slot_t *slot)
{
  uint64_t number = (uint64_t)(slot - core->slots);

  core->occupied[number / 64] |= UINT64_C(1) << (number % 64);
  core->words[number / 4096] |= UINT64_C(1) << (number / 64 % 64);
  slot->left = slot->run;
}

void
uvwheel__end_run(uvwheel_core_t *core, uvwheel_slot_t *slot)
{
  uint64_t lane = (uint64_t)(lane_of(slot) - slot->lanes);

  if (!is_occupied(core, (uint64_t)(slot - core->slots))) {
    occupy(core, slot);
    slot->left--;
  } else if (is_fifo(core)) {
    turn_to_lane(slot, FIFO_LANE, MOST_RUN);
  } else if (lane < UVWHEEL_LANES - 1) {
    turn_to_lane(slot, lane + 1, slot->run);
  } else {
    turn_to_lane(slot, 0, slot->run < MOST_RUN ? slot->run + 1u : MOST_RUN);
  }
}

/* ---- Slots that are occupied -------------------------------------------- */

void
uvwheel__claim(uvwheel_core_t *core, uint64_t tick)
{
  uint64_t number = tick & core->slot_mask;
  uvwheel_slot_t *slot = &core->slots[number];

  if (!is_prepared(slot))
    uvwheel__vacate(core, number);
  slot->nearest = tick;
  if (!is_occupied(core, number))
    occupy(core, slot);
}

void
uvwheel__vacate(uvwheel_core_t *core, uint64_t number)
{
  uvwheel_slot_t *slot = &core->slots[number];

  core->occupied[number / 64] &= ~(UINT64_C(1) << (number % 64));
  if (core->occupied[number / 64] == 0)
    core->words[number / 4096] &= ~(UINT64_C(1) << (number / 64 % 64));
  slot->nearest = NEVER;
  slot->used = 0;
  turn_to_lane(slot, 0, RUN);
  if (is_fifo(core))
    turn_to_lane(slot, FIFO_LANE, MOST_RUN);
  slot->left = 1;
}

/* The first bit that is set from `from` to before `end`; `end` if there is
 * none. */
static uint64_t
next_bit(const uint64_t *words, uint64_t from, uint64_t end)
{
  while (from < end) {
    uint64_t bits = words[from / 64] >> (from % 64);
    if (bits != 0)
      return from + lowest_bit(bits);
    from = (from / 64 + 1) * 64;
  }
  return end;
}

uint64_t
uvwheel__next_occupied(const uvwheel_core_t *core, uint64_t number)
{
  uint64_t slots = core->slot_mask + 1, words = (slots + 63) / 64;
  uint64_t word = number / 64, end = 64 * (word + 1), found;

  if (end > slots)
    end = slots;
  found = next_bit(core->occupied, number, end);
  if (found < end || end == slots)
    return found;
  word = next_bit(core->words, word + 1, words);
  return word < words ? next_bit(core->occupied, 64 * word, slots) : slots;
}

/* Prefetches the entries that the hand will look at first. Those in a slot of a
 * 1 ms wheel are cold, and too few for the misses of its lanes to overlap. */
static void
fetch_ends(const uvwheel_slot_t *slot)
{
  uint64_t i;

  for (i = 0; i < slot->used; i++) {
    PREFETCH(slot->lanes[i].next);
    PREFETCH(slot->lanes[i].prev);
  }
}

/* Goes through the slots in the order in which the hand meets them, so the
 * first whose nearest tick lies within this round has the earliest. */
uint64_t
uvwheel__find_next_tick(uvwheel_core_t *core)
{
  uint64_t first = core->hand + 1;
  uint64_t start = first & core->slot_mask;
  uint64_t begin = start, end = core->slot_mask + 1;
  uint64_t earliest = NEVER;
  int half;

  for (half = 0; half < 2; half++) {
    uint64_t number = uvwheel__next_occupied(core, begin);
    for (; number < end; number = uvwheel__next_occupied(core, number + 1)) {
      const uvwheel_slot_t *slot = &core->slots[number];
      if (are_empty(slot->lanes, slot->used)) {
        uvwheel__vacate(core, number);
      } else if (slot->nearest - first <= core->slot_mask) {
        fetch_ends(slot);
        return slot->nearest;
      } else if (slot->nearest < earliest) {
        earliest = slot->nearest;
      }
    }
    begin = 0;
    end = start;
  }
  return earliest;
}
