/* SPDX-License-Identifier: MIT */

#include "invariants.h"

#include <inttypes.h>

struct check {
  const core_t *core;
  FILE *stream;
  int broken;
};

static void expect(struct check *check, bool condition, const char *invariant,
                   uint64_t where) {
  if (condition)
    return;
  check->broken++;
  if (check->stream != NULL)
    fprintf(check->stream, "uvwheel: broken at list or slot %" PRIu64 ": %s\n",
            where, invariant);
}

/* I1 of one list, and I3: none of its entries is due before the tick. Returns
 * the number of entries. */
static uint64_t check_list(struct check *check, const uvwheel_link_t *head,
                           uint64_t where, uint64_t tick) {
  const uvwheel_link_t *link = head;
  uint64_t count = 0;

  for (;;) {
    const uvwheel_link_t *next = link->next;
    if (next == NULL || next->prev != link) {
      expect(check, false, "I1: links agree in both directions", where);
      return count;
    }
    if (next == head)
      return count;
    link = next;
    count++;
    expect(check,
           tick_after(check->core, ((const uvwheel_entry_t *)link)->due_ms) >=
               tick,
           "I3: no entry is due before its slot's next pass", where);
  }
}

/* How many lanes lie before an offset in bytes into a slot. */
static uint64_t lanes_before(uint64_t offset) {
  return (offset - offsetof(slot_t, lanes)) / sizeof(uvwheel_link_t);
}

/* The lane that is being filled is in use, and a FIFO slot uses one. */
static bool fills_a_lane(const core_t *core, const slot_t *slot) {
  const uint64_t first = offsetof(slot_t, lanes);
  const uint64_t size = sizeof(uvwheel_link_t);

  return slot->lane >= first && slot->lane < slot->lanes_used &&
         slot->lanes_used <= core->lanes_end &&
         (slot->lane - first) % size == 0 &&
         (slot->lanes_used - first) % size == 0;
}

static uint64_t check_lanes(struct check *check, uint64_t number) {
  const slot_t *slot = &check->core->slots[number];
  uint64_t used = lanes_before(slot->lanes_used), count = 0, i;

  if (!fills_a_lane(check->core, slot)) {
    expect(check, false, "I7: a lane that is used is being filled", number);
    return 0;
  }
  for (i = 0; i < used; i++)
    count += check_list(check, &slot->lanes[i], number, slot->next_pass);
  for (; i < MAX_LANES; i++)
    expect(check,
           slot->lanes[i].next == NULL ||
               check_list(check, &slot->lanes[i], number, 0) == 0,
           "I7: lanes that are not used have no entries", number);
  return count;
}

static uint64_t check_slot(struct check *check, uint64_t number) {
  const core_t *core = check->core;
  uint64_t next_pass = core->slots[number].next_pass;

  expect(check,
         (core->occupied[number / 64] >> number % 64 & 1) == (next_pass != 0),
         "I2: a slot has a next pass exactly if it is occupied", number);
  if (next_pass == 0)
    return 0;
  expect(check, core->bounds[number / 64] <= next_pass,
         "I2: a word's bound is not after the next pass of its slots", number);
  expect(check,
         (next_pass & core->slot_mask) == number && next_pass > core->hand,
         "I3: the next pass is one of the slot's, after the hand", number);
  expect(check, core->next_tick <= next_pass,
         "I4: the next tick is not after any next pass", number);
  return check_lanes(check, number);
}

static uint64_t check_pass(struct check *check) {
  const core_t *core = check->core;
  uint64_t kept_tick = slot_of(core, core->hand)->next_pass, i;
  uint64_t count = check_list(check, &core->due, 0, 0) +
                   check_list(check, &core->kept, 0, kept_tick);

  for (i = 0; i < MAX_LANES; i++) {
    uint64_t entries = check_list(check, &core->pending[i], i, 0);
    count += entries;
    expect(check, i < core->pass_lanes || entries == 0,
           "I7: the entries of a pass are in its first lanes", i);
  }
  expect(check, core->pass_lanes != 0 || count == 0,
         "I5: nothing is pending, due or kept outside a pass", 0);
  expect(check, core->pass_lanes == 0 || core->next_tick == core->hand,
         "I4: in a pass the next tick is at the hand", 0);
  return count;
}

int broken_invariants(const core_t *core, FILE *stream) {
  struct check check = {core, stream, 0};
  uint64_t aside = check_list(&check, &core->drawn, 0, 0);
  uint64_t passed = check_pass(&check), in_slots = 0, number;

  for (number = 0; number < MAX_LANES; number++)
    aside += check_list(&check, &core->unvisited[number], number, 0);
  /* Not in words without a slot in use, as large wheels have many. */
  for (number = 0; number <= core->slot_mask; number++)
    if (core->occupied[number / 64] != 0)
      in_slots += check_slot(&check, number);
  expect(&check, core->pass_lanes != 0 || core->next_tick > core->hand,
         "I4: outside a pass the next tick is after the hand", 0);
  expect(&check, core->active == aside + passed + in_slots,
         "I6: each entry is counted once", 0);
  expect(&check, core->next_tick != NEVER || in_slots == 0,
         "I4: there is a next tick if a slot has an entry", 0);
  expect(&check, core->next_tick == NEVER || core->active != 0,
         "I4: there is no next tick if the wheel is empty", 0);
  return check.broken;
}
