/* SPDX-License-Identifier: MIT */

#include "invariants.h"

#include <inttypes.h>

#include "slot.h"
#include "walk.h"
#include "wheel.h"

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

/* The lane that is being filled is one of the slot's and, of a FIFO slot, the
 * second of two. */
static bool
fills_a_lane(const uvwheel_core_t *core, const uvwheel_slot_t *slot)
{
  uint64_t at = slot->filling - (uint64_t)offsetof(uvwheel_slot_t, lanes);
  uint64_t lane = at / sizeof *slot->lanes;

  return at % sizeof *slot->lanes == 0 && slot->used <= UVWHEEL_LANES &&
         lane < slot->used &&
         (!is_fifo(core) || (slot->used == 2 && lane == 1));
}

static uint64_t
check_lanes(struct check *check, uint64_t number)
{
  const uvwheel_slot_t *slot = &check->core->slots[number];
  uint64_t first = FIRST_SLOT_LIST + number * UVWHEEL_LANES, count = 0, i;

  if (!fills_a_lane(check->core, slot)) {
    expect(check, false, "I7: a lane that is used is being filled", number);
    return 0;
  }
  for (i = 0; i < slot->used; i++)
    count += check_list(check, first + i, slot->nearest);
  for (; i < UVWHEEL_LANES; i++)
    expect(check,
           slot->lanes[i].next == NULL || check_list(check, first + i, 0) == 0,
           "I7: lanes that are not used have no entries", number);
  return count;
}

static void
check_bits(struct check *check, uint64_t number)
{
  const uvwheel_core_t *core = check->core;
  uint64_t nearest = core->slots[number].nearest, word = number / 64;

  expect(check, is_occupied(core, number) == (nearest != 0 && nearest != NEVER),
         "I2: a slot has a nearest tick exactly if it is occupied", number);
  expect(check,
         (core->occupied[word] != 0) ==
             ((core->words[word / 64] >> word % 64) & 1),
         "I2: a word of occupied bits has a bit exactly if it is not 0", word);
}

static uint64_t
check_slot(struct check *check, uint64_t number)
{
  const uvwheel_core_t *core = check->core;
  uint64_t nearest = core->slots[number].nearest;

  check_bits(check, number);
  if (!is_occupied(core, number))
    return 0;
  expect(check, (nearest & core->slot_mask) == number && nearest > core->hand,
         "I3: the nearest tick is one of the slot's, after the hand", number);
  expect(check, core->next_tick <= nearest,
         "I4: the next tick is not after any slot's nearest", number);
  return check_lanes(check, number);
}

static uint64_t
check_pass(struct check *check)
{
  const uvwheel_core_t *core = check->core;
  uint64_t count = check_list(check, DUE_LIST, 0), lanes;
  unsigned i;

  for (i = 0; i < UVWHEEL_LANES; i++) {
    lanes = check_list(check, i, 0);
    count += lanes;
    expect(check, i < core->pass_lanes || lanes == 0,
           "I7: the entries of a pass are in its first lanes", i);
  }
  expect(check, core->passing || count == 0,
         "I5: nothing is pending or due outside a pass", 0);
  return count;
}

int
broken_invariants(const uvwheel_core_t *core, FILE *stream)
{
  struct check check = {core, stream, 0};
  uint64_t drawn = check_list(&check, DRAWN_LIST, 0), number;
  uint64_t count = drawn + check_pass(&check);

  for (number = 0; number <= core->slot_mask; number++)
    count += check_slot(&check, number);
  expect(&check, core->next_tick > core->hand,
         "I4: the next tick is after the hand", 0);
  expect(&check, uvwheel__core_count(core) == count,
         "I6: each entry is counted once", 0);
  expect(&check,
         (core->next_tick == NEVER) == (count == 0) || core->passing ||
             (drawn > 0 && count == drawn),
         "I4: there is a next tick unless the wheel is empty", 0);
  return check.broken;
}
