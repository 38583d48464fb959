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
  uint64_t count = core->slot_mask + 1, slot;
  uint64_t lanes_size = sizeof(uvwheel_link_t) * count * UVWHEEL_LANES;
  uint64_t slots_size = sizeof(uvwheel_slot_t) * count;
  uint64_t bits_size = sizeof(uint64_t) * ((count + 63) / 64);
  uint64_t size = lanes_size + slots_size + bits_size;

  if (size > SIZE_MAX)
    return ENOMEM;
  core->lanes = calloc(1, (size_t)size);
  if (core->lanes == NULL)
    return ENOMEM;
  core->slots = (uvwheel_slot_t *)(core->lanes + count * UVWHEEL_LANES);
  core->occupied = (uint64_t *)(core->slots + count);
  for (slot = 0; slot < count; slot++)
    core->slots[slot].nearest = NEVER;
  return 0;
}

static void
turn_to_lane(uvwheel_core_t *core, uvwheel_slot_t *slot, uint64_t lane,
             unsigned run)
{
  uvwheel_link_t *head = &core->lanes[lane];

  slot->lane = (uint32_t)(lane * sizeof *head);
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

int
uvwheel__turn_to_next_lane(uvwheel_core_t *core, uvwheel_slot_t *slot)
{
  uint64_t lane = slot->lane / sizeof(uvwheel_link_t);
  uint64_t first = lane - lane % UVWHEEL_LANES;
  unsigned run = slot->run;

  if (lane != first + UVWHEEL_LANES - 1) {
    lane++;
  } else if (!is_fifo(core)) {
    lane = first;
    run += run < MOST_RUN;
  } else if (run < MOST_RUN && core->cursor == NULL) { /* else a walk is lost */
    join_lanes(&core->lanes[first]);
    lane = first + UVWHEEL_LANES / 2;
    run *= 2;
  }
  turn_to_lane(core, slot, lane, run);
  return 0;
}

uint64_t
uvwheel__lane_count(const uvwheel_core_t *core, uint64_t slot)
{
  const uvwheel_slot_t *it = &core->slots[slot];

  return it->run != RUN ? UVWHEEL_LANES
                        : it->lane / sizeof(uvwheel_link_t) % UVWHEEL_LANES + 1;
}

void
uvwheel__claim(uvwheel_core_t *core, uint64_t tick)
{
  uint64_t slot = tick & core->slot_mask;

  if (!is_occupied(core, slot)) {
    core->occupied[slot / 64] |= UINT64_C(1) << (slot % 64);
    if (slot / 64 < core->first_word)
      core->first_word = slot / 64;
    if (slot / 64 > core->last_word)
      core->last_word = slot / 64;
    /* What stays of a pass comes back before what is put there meanwhile. */
    if (!core->passing || slot != (core->pass_tick & core->slot_mask))
      turn_to_lane(core, &core->slots[slot], slot * UVWHEEL_LANES, RUN);
  }
  core->slots[slot].nearest = tick;
}

void
uvwheel__vacate(uvwheel_core_t *core, uint64_t slot)
{
  core->occupied[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
  core->slots[slot].nearest = NEVER;
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
      uint64_t nearest = core->slots[slot].nearest;
      if (are_empty(lanes_of(core, slot), uvwheel__lane_count(core, slot)))
        uvwheel__vacate(core, slot);
      else if (nearest - first <= core->slot_mask)
        return nearest;
      else if (nearest < earliest)
        earliest = nearest;
    }
    begin = 0;
    end = start;
  }
  return earliest;
}
