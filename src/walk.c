/* SPDX-License-Identifier: MIT */

/* What looks at all entries of a wheel: walks, counts and the check of the
 * invariants that wheel.c numbers. */

#include "uvwheel/wheel.h"

#include <inttypes.h>

#include "core.h"

/* ---- Walking ------------------------------------------------------------ */

/* The lists of a wheel are numbered: the pending lanes, the staying lanes, the
 * due list, then the lanes of each slot. */
#define FIRST_STAYING_LIST UVWHEEL_LANES
#define DUE_LIST (2 * UVWHEEL_LANES)
#define FIRST_SLOT_LIST (DUE_LIST + 1)

static uvwheel_link_t *
list_at(uvwheel_core_t *core, uint64_t list)
{
  if (list < FIRST_STAYING_LIST)
    return &core->pending[list];
  if (list < DUE_LIST)
    return &core->staying[list - FIRST_STAYING_LIST];
  if (list == DUE_LIST)
    return &core->due;
  return &core->lanes[list - FIRST_SLOT_LIST];
}

/* The list after one, passing over slots that are empty; false if none. */
static bool
next_list(const uvwheel_core_t *core, uint64_t *list)
{
  uint64_t lane, slot;

  (*list)++;
  if (*list < FIRST_SLOT_LIST)
    return true;
  lane = *list - FIRST_SLOT_LIST;
  slot = lane / UVWHEEL_LANES;
  if (lane % UVWHEEL_LANES == lane_count(core)) /* a FIFO wheel has but one */
    slot++;
  slot = next_occupied(core, slot, core->slot_mask + 1);
  if (slot != lane / UVWHEEL_LANES)
    *list = FIRST_SLOT_LIST + slot * UVWHEEL_LANES;
  return slot <= core->slot_mask;
}

/* Lists hold the places of walks beside the entries. */
static bool
is_place_of_a_walk(const uvwheel_core_t *core, const uvwheel_link_t *link)
{
  const uvwheel_cursor_t *cursor;

  for (cursor = core->cursor; cursor != NULL; cursor = cursor->outer)
    if (link == &cursor->here || link == &cursor->end)
      return true;
  return false;
}

static void
walk_list(uvwheel_core_t *core, uvwheel_cursor_t *cursor)
{
  uvwheel_link_t *head = list_at(core, cursor->list);

  insert_between(head, &cursor->here, head->next);
  append(head, &cursor->end);
}

void
uvwheel_core_walk_begin(uvwheel_core_t *core, uvwheel_cursor_t *cursor)
{
  cursor->outer = core->cursor;
  cursor->list = 0;
  core->cursor = cursor;
  walk_list(core, cursor);
}

uvwheel_entry_t *
uvwheel_core_walk_next(uvwheel_core_t *core, uvwheel_cursor_t *cursor)
{
  for (;;) {
    uvwheel_link_t *link = cursor->here.next;
    uvwheel__take_off(core, &cursor->here);
    if (link != &cursor->end) {
      insert_between(link, &cursor->here, link->next);
      if (!is_place_of_a_walk(core, link))
        return entry_of(link);
      continue;
    }
    uvwheel__take_off(core, &cursor->end);
    if (!next_list(core, &cursor->list)) {
      core->cursor = cursor->outer;
      return NULL;
    }
    walk_list(core, cursor);
  }
}

uint64_t
uvwheel_core_slot_count(const uvwheel_core_t *core, uint64_t slot)
{
  const uvwheel_link_t *lanes = lanes_of(core, slot), *link;
  uint64_t count = 0;
  unsigned i;

  if (!is_occupied(core, slot))
    return 0;
  for (i = 0; i < lane_count(core); i++)
    for (link = lanes[i].next; link != &lanes[i]; link = link->next)
      count += !is_place_of_a_walk(core, link);
  return count;
}

/* ---- Checking ----------------------------------------------------------- */

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
  const uvwheel_link_t *head = list_at((uvwheel_core_t *)core, list);
  const uvwheel_link_t *link = head;
  uint64_t count = 0;

  do {
    const uvwheel_link_t *next = link->next;
    if (next == NULL || next->prev != link) {
      expect(check, false, "I1: links agree in both directions", list);
      return count;
    }
    link = next;
    if (link == head || is_place_of_a_walk(core, link))
      continue;
    count++;
    expect(check,
           tick_after(core, ((const uvwheel_entry_t *)link)->due_ms) >= tick,
           "I3: no entry is due before its slot's nearest tick", list);
  } while (link != head);
  return count;
}

static uint64_t
check_slot(struct check *check, uint64_t slot)
{
  const uvwheel_core_t *core = check->core;
  uint64_t nearest = core->nearest[slot], count = 0;
  uint64_t first_list = FIRST_SLOT_LIST + slot * UVWHEEL_LANES;
  unsigned i;

  for (i = 0; i < lane_count(core); i++)
    count += check_list(check, first_list + i, nearest);
  expect(check, count > 0 || core->cursor != NULL,
         "I2: an occupied slot has an entry", slot);
  expect(check,
         ((nearest & core->slot_mask) == slot && nearest > core->hand) ||
             (nearest == NEVER && count == 0),
         "I3: the nearest tick is one of the slot's, after the hand", slot);
  expect(check, core->next_tick <= nearest,
         "I4: the next tick is not after any slot's nearest", slot);
  return count;
}

static uint64_t
check_own_lists(struct check *check)
{
  const uvwheel_core_t *core = check->core;
  uint64_t count = check_list(check, DUE_LIST, 0);
  unsigned i;

  for (i = 0; i < UVWHEEL_LANES; i++)
    count += check_list(check, i, 0) +
             check_list(check, FIRST_STAYING_LIST + i, core->pass_nearest);
  expect(check, core->passing || count == 0,
         "I5: nothing is pending, staying or due outside a pass", 0);
  return count;
}

int
uvwheel_core_check(const uvwheel_core_t *core, FILE *stream)
{
  struct check check = {core, stream, 0};
  uint64_t slots = core->slot_mask + 1, slot;
  uint64_t count = check_own_lists(&check);

  for (slot = 0; slot < slots; slot++)
    if (is_occupied(core, slot))
      count += check_slot(&check, slot);
    else
      expect(&check, core->nearest[slot] == NEVER,
             "I2: an empty slot has no nearest tick", slot);
  expect(&check, core->count == count, "I6: each entry is counted once", 0);
  expect(&check, (core->next_tick == NEVER) == (core->count == 0),
         "I4: there is a next tick unless the wheel is empty", 0);
  expect(&check, !core->passing || core->next_tick <= core->pass_tick,
         "I4: the next tick is not after that of an unfinished pass", 0);
  return check.broken;
}
