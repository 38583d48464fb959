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
 * first run begins: a slot with few entries uses few lanes. A slot is claimed
 * by an entry that is due before all that it has, and vacated when the hand
 * finds it empty. wheel.c has the drawing and the invariants. */

#include "uvwheel/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "core.h"

/* What a lane gets before the next one has its turn: few entries as long as
 * there are lanes that have none (with 16 a wheel of 1 ms, whose slots are
 * sparse, expires at half the speed), and one more after each round of the
 * lanes, to take turns less often. In a FIFO wheel, where lanes are joined
 * after a round, it is twice as many. */
#define RUN 4
#define MOST_RUN (1u << 15)

int
uvwheel__allocate_slots(uvwheel_core_t *core)
{
  uint64_t count = core->slot_mask + 1;
  uint64_t slots_size = sizeof(uvwheel_slot_t) * count;
  uint64_t size = slots_size + sizeof(uint64_t) * ((count + 63) / 64);

  if (size > SIZE_MAX)
    return ENOMEM;
  core->slots = calloc(1, (size_t)size);
  if (core->slots == NULL)
    return ENOMEM;
  core->occupied = (uint64_t *)(core->slots + count);
  return 0;
}

static void
turn_to_lane(uvwheel_slot_t *slot, uint64_t lane, unsigned run)
{
  uvwheel_link_t *head = &slot->lanes[lane];

  slot->lane = (uint32_t)((char *)head - (char *)slot);
  slot->run = (uint16_t)run;
  slot->left = (uint16_t)run;
  if (head->next == NULL)
    list_init(head);
}

/* Joins each two lanes of a FIFO slot, so that the upper half is free:
 *
 *   before   0: a b   1: c d   2: e f   3: g h
 *   after    0: a b c d   1: e f g h   2:   3:
 */
static void
join_lanes(uvwheel_link_t *lanes)
{
  unsigned i;

  for (i = 1; i < UVWHEEL_LANES; i++)
    splice_after(lanes[i / 2].prev, &lanes[i]);
}

static uint64_t
lane_number(const uvwheel_slot_t *slot)
{
  return (slot->lane - offsetof(uvwheel_slot_t, lanes)) /
         sizeof(uvwheel_link_t);
}

int
uvwheel__turn_to_next_lane(uvwheel_core_t *core, uvwheel_slot_t *slot)
{
  uint64_t lane = lane_number(slot);
  unsigned run = slot->run;

  if (lane < UVWHEEL_LANES - 1) {
    lane++;
  } else if (!is_fifo(core)) {
    lane = 0;
    run += run < MOST_RUN;
  } else if (run < MOST_RUN && core->cursor == NULL) { /* else a walk is lost */
    join_lanes(slot->lanes);
    lane = (UVWHEEL_LANES + 1) / 2;
    run *= 2;
  }
  turn_to_lane(slot, lane, run);
  return 0;
}

uint64_t
uvwheel__lane_count(const uvwheel_slot_t *slot)
{
  return slot->run != RUN ? UVWHEEL_LANES : lane_number(slot) + 1;
}

void
uvwheel__claim(uvwheel_core_t *core, uint64_t tick)
{
  uint64_t number = tick & core->slot_mask, word = number / 64;
  uvwheel_slot_t *slot = &core->slots[number];

  if (slot->minus_nearest == 0) {
    core->occupied[word] |= UINT64_C(1) << (number % 64);
    if (word < core->first_word)
      core->first_word = word;
    if (word > core->last_word)
      core->last_word = word;
    /* What stays of a pass comes back before what is put there meanwhile. */
    if (!core->passing || slot != slot_of(core, core->pass_tick))
      turn_to_lane(slot, 0, RUN);
  }
  slot->minus_nearest = 0 - tick;
}

void
uvwheel__vacate(uvwheel_core_t *core, uint64_t slot)
{
  core->occupied[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
  core->slots[slot].minus_nearest = 0;
}

/* The hand will want these entries first. What a slot of a 1 ms wheel has is
 * cold, and too little for the misses of its lanes to overlap. */
static void
fetch_ends(const uvwheel_slot_t *slot)
{
  uint64_t count = uvwheel__lane_count(slot), i;

  for (i = 0; i < count; i++) {
    PREFETCH(slot->lanes[i].next);
    PREFETCH(slot->lanes[i].prev);
  }
}

uint64_t
uvwheel__find_next_tick(uvwheel_core_t *core)
{
  uint64_t first = core->hand + 1;
  uint64_t start = first & core->slot_mask;
  uint64_t slots = core->slot_mask + 1;
  uint64_t earliest = NEVER;
  uint64_t begin = start, end = slots;
  int half;

  for (half = 0; half < 2; half++) {
    uint64_t slot = next_occupied(core, begin, end);
    for (; slot < end; slot = next_occupied(core, slot + 1, end)) {
      const uvwheel_slot_t *it = &core->slots[slot];
      uint64_t nearest = nearest_of(it);
      if (are_empty(it->lanes, uvwheel__lane_count(it))) {
        uvwheel__vacate(core, slot);
      } else if (nearest - first <= core->slot_mask) {
        fetch_ends(it);
        return nearest;
      } else if (nearest < earliest) {
        earliest = nearest;
      }
    }
    begin = 0;
    end = start;
  }
  return earliest;
}
