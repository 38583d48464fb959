/* SPDX-License-Identifier: MIT */

/* What goes through all entries of a wheel: walks and counts. */

#include "walk.h"

#include "wheel.h"

/* ---- Walking ------------------------------------------------------------ */

uvwheel_link_t *
uvwheel__list_at(uvwheel_core_t *core, uint64_t list)
{
  if (list < DUE_LIST)
    return &core->pending[list];
  if (list == DUE_LIST)
    return &core->due;
  if (list == DRAWN_LIST)
    return &core->drawn;
  list -= FIRST_SLOT_LIST;
  return &core->slots[list / UVWHEEL_LANES].lanes[list % UVWHEEL_LANES];
}

bool
uvwheel__next_list(const uvwheel_core_t *core, uint64_t *list)
{
  uint64_t lane, slot;

  (*list)++;
  if (*list < FIRST_SLOT_LIST)
    return true;
  lane = *list - FIRST_SLOT_LIST;
  slot = lane / UVWHEEL_LANES;
  if (lane % UVWHEEL_LANES != 0 && /* else there may be no such slot */
      lane % UVWHEEL_LANES >= core->slots[slot].used)
    slot++;
  slot = uvwheel__next_occupied(core, slot);
  if (slot != lane / UVWHEEL_LANES)
    *list = FIRST_SLOT_LIST + slot * UVWHEEL_LANES;
  return slot <= core->slot_mask;
}

bool
uvwheel__is_place_of_a_walk(const uvwheel_core_t *core,
                            const uvwheel_link_t *link)
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
  uvwheel_link_t *head = uvwheel__list_at(core, cursor->list);

  insert_between(head, &cursor->here, head->next);
  append(head, &cursor->end);
}

void
uvwheel__core_walk_begin(uvwheel_core_t *core, uvwheel_cursor_t *cursor)
{
  cursor->outer = core->cursor;
  cursor->list = 0;
  core->cursor = cursor;
  walk_list(core, cursor);
}

uvwheel_entry_t *
uvwheel__core_walk_next(uvwheel_core_t *core, uvwheel_cursor_t *cursor)
{
  for (;;) {
    uvwheel_link_t *link = cursor->here.next;
    unlink_one(&cursor->here);
    if (link != &cursor->end) {
      insert_between(link, &cursor->here, link->next);
      if (!uvwheel__is_place_of_a_walk(core, link))
        return entry_of(link);
      continue;
    }
    unlink_one(&cursor->end);
    if (!uvwheel__next_list(core, &cursor->list)) {
      core->cursor = cursor->outer;
      return NULL;
    }
    walk_list(core, cursor);
  }
}

/* ---- Counting ----------------------------------------------------------- */

uint64_t
uvwheel__core_slot_count(const uvwheel_core_t *core, uint64_t slot)
{
  uvwheel_slot_t *it = &core->slots[slot];
  uvwheel_link_t *link;
  uint64_t count = 0;
  uint64_t i;

  if (!is_occupied(core, slot))
    return 0;
  for (i = 0; i < it->used; i++)
    for (link = it->lanes[i].next; link != &it->lanes[i]; link = link->next)
      count += !uvwheel__is_place_of_a_walk(core, link);
  return count;
}

uint64_t
uvwheel__count_rounds(const uvwheel_core_t *core, uint64_t now_ms,
                      uint64_t *most)
{
  uint64_t list = 0, later = 0;

  *most = 0;
  do {
    uvwheel_link_t *head = uvwheel__list_at((uvwheel_core_t *)core, list);
    uvwheel_link_t *link;
    for (link = head->next; link != head; link = link->next) {
      uint64_t rounds;
      if (uvwheel__is_place_of_a_walk(core, link))
        continue;
      rounds = rounds_of(core, entry_of(link), now_ms);
      later += rounds > 0;
      *most = rounds > *most ? rounds : *most;
    }
  } while (uvwheel__next_list(core, &list));
  return later;
}
