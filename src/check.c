/* SPDX-License-Identifier: MIT */

/* The check of the invariants that wheel.c numbers. */

#include "uvwheel/wheel.h"

#include <inttypes.h>

#include "core.h"

struct check {
  const uvwheel_core_t *core;
  FILE *stream;
  int broken;
};

static void
expect(struct check *check, bool condition, const char *invariant,
       uint64_t where)
{
  if (condition)
    return;
  check->broken++;
  if (check->stream != NULL)
    fprintf(check->stream, "uvwheel: broken at list or slot %" PRIu64 ": %s\n",
            where, invariant);
}

/* I1 of one list, and what its entries have to keep: none of them is due
 * before the tick. Returns the number of entries. */
static uint64_t
check_list(struct check *check, uint64_t list, uint64_t tick)
{
  const uvwheel_core_t *core = check->core;
  uvwheel_link_t *head = uvwheel__list_at((uvwheel_core_t *)core, list);
  uvwheel_link_t *link = head;
  uint64_t count = 0;

  do {
    uvwheel_link_t *next = link->next;
    if (next == NULL || next->prev != link) {
      expect(check, false, "I1: links agree in both directions", list);
      return count;
    }
    link = next;
    if (link == head || uvwheel__is_place_of_a_walk(core, link))
      continue;
    count++;
    expect(check, tick_after(core, entry_of(link)->due_ms) >= tick,
           "I3: no entry is due before its slot's nearest tick", list);
  } while (link != head);
  return count;
}

static uint64_t
check_lanes(struct check *check, uint64_t slot)
{
  const uvwheel_slot_t *it = &check->core->slots[slot];
  uint64_t first = FIRST_SLOT_LIST + slot * UVWHEEL_LANES, count = 0, i;
  uint64_t lane = it->lane - (uint64_t)offsetof(uvwheel_slot_t, lanes);

  if (lane >= sizeof it->lanes || lane % sizeof *it->lanes != 0) {
    expect(check, false, "I7: the lane that is being filled is one", slot);
    return 0;
  }
  for (i = 0; i < uvwheel__lane_count(it); i++)
    count += check_list(check, first + i, nearest_of(it));
  return count;
}

static uint64_t
check_slot(struct check *check, uint64_t slot)
{
  const uvwheel_core_t *core = check->core;
  uint64_t nearest = nearest_of(&core->slots[slot]), word = slot / 64;

  if (!is_occupied(core, slot)) {
    expect(check, nearest == NEVER,
           "I2: a slot that is not occupied has no nearest tick", slot);
    return 0;
  }
  expect(check, word >= core->first_word && word <= core->last_word,
         "I2: occupied bits are in the words in use", slot);
  expect(check, (nearest & core->slot_mask) == slot && nearest > core->hand,
         "I3: the nearest tick is one of the slot's, after the hand", slot);
  expect(check, core->next_tick <= nearest,
         "I4: the next tick is not after any slot's nearest", slot);
  return check_lanes(check, slot);
}

static uint64_t
check_pass(struct check *check)
{
  const uvwheel_core_t *core = check->core;
  uint64_t count = check_list(check, DUE_LIST, 0);
  unsigned i;

  for (i = 0; i < UVWHEEL_LANES; i++)
    count += check_list(check, i, 0) +
             check_list(check, FIRST_STAYING_LIST + i, core->pass_nearest);
  expect(check, core->passing || count == 0,
         "I5: nothing is pending, staying or due outside a pass", 0);
  expect(check, !core->passing || core->next_tick <= core->pass_tick,
         "I4: the next tick is not after that of an unfinished pass", 0);
  return count;
}

int
uvwheel_core_check(const uvwheel_core_t *core, FILE *stream)
{
  struct check check = {core, stream, 0};
  uint64_t drawn = check_list(&check, DRAWN_LIST, 0), slot;
  uint64_t count = drawn + check_pass(&check);

  for (slot = 0; slot <= core->slot_mask; slot++)
    count += check_slot(&check, slot);
  expect(&check, core->next_tick >= core->hand + !core->passing,
         "I4: the next tick is not before the hand", 0);
  expect(&check, uvwheel_core_count(core) == count,
         "I6: each entry is counted once", 0);
  expect(&check,
         (core->next_tick == NEVER) == (count == 0) ||
             (drawn > 0 && count == drawn),
         "I4: there is a next tick unless the wheel is empty", 0);
  return check.broken;
}
