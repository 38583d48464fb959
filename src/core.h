/* SPDX-License-Identifier: MIT */

/* The inside of the wheel, as far as the binding looks into it: ticks, slots,
 * and the usual cases of the operations, which it uses inline. wheel.c explains
 * the whole. */

#ifndef UVWHEEL_CORE_H
#define UVWHEEL_CORE_H

#include "list.h"
#include "misuse.h"
#include "portable.h"

/* No tick, also the nearest one of a slot that is empty; the last tick that an
 * entry waits for; and the last one that the hand goes to. */
#define NEVER UINT64_MAX
#define LAST_TICK (UINT64_MAX - 1)
#define LAST_HAND (UINT64_C(1) << 63)

/* No limit to how many entries may be active. */
#define UNLIMITED (UINT64_C(1) << 63)

/* The entry is the link's only user that begins with it. */
static inline uvwheel_entry_t *
entry_of(uvwheel_link_t *link)
{
  return (uvwheel_entry_t *)link;
}

static inline void
set_idle(uvwheel_entry_t *entry)
{
  entry->link.next = NULL;
#ifdef UVWHEEL_CHECKS
  entry->link.prev = POISON;
#endif
}

static inline bool
is_fifo(const uvwheel_core_t *core)
{
  return core->fifo;
}

/* ---- Ticks -------------------------------------------------------------- */

/* The tick at a time or, between two, the one before it. By a multiplication,
 * because a division is what some processors are slowest at; but not for times
 * from fast_ms on: in 3 million years with the default tick, in 3 years with
 * ticks of a day. */
static inline uint64_t
tick_at(const uvwheel_core_t *core, uint64_t ms)
{
  if (UNLIKELY(ms >= core->fast_ms))
    return ms / core->tick_ms;
  return divide(ms, core->tick_ms, core->reciprocal);
}

/* The first tick after a time. */
static inline uint64_t
tick_after(const uvwheel_core_t *core, uint64_t ms)
{
  uint64_t tick = tick_at(core, ms);

  return UNLIKELY(tick >= LAST_TICK) ? LAST_TICK : tick + 1;
}

/* How many times the hand will pass an entry's slot before it comes to the tick
 * at which the entry is due. */
static inline uint64_t
rounds_of(const uvwheel_core_t *core, const uvwheel_entry_t *entry,
          uint64_t now_ms)
{
  uint64_t tick = tick_after(core, entry->due_ms);
  uint64_t now_tick = tick_at(core, now_ms);

  return tick > now_tick ? (tick - 1 - now_tick) / (core->slot_mask + 1) : 0;
}

/* ---- Slots -------------------------------------------------------------- */

static inline uvwheel_slot_t *
slot_of(const uvwheel_core_t *core, uint64_t tick)
{
  return &core->slots[tick & core->slot_mask];
}

/* Kept negative, so that the zeros of calloc mean none, and that a carry tells
 * whether a tick is at or after it. */
static inline uint64_t
nearest_of(const uvwheel_slot_t *slot)
{
  return slot->minus_nearest != 0 ? 0 - slot->minus_nearest : NEVER;
}

static inline bool
is_claimed(const uvwheel_slot_t *slot, uint64_t tick)
{
  return LIKELY(tick + slot->minus_nearest < tick);
}

static inline bool
is_occupied(const uvwheel_core_t *core, uint64_t slot)
{
  return (core->occupied[slot / 64] >> (slot % 64)) & 1;
}

/* The first occupied slot from one to before another; the latter if none. */
static inline uint64_t
next_occupied(const uvwheel_core_t *core, uint64_t from, uint64_t end)
{
  while (from < end) {
    uint64_t bits = core->occupied[from / 64] >> (from % 64);
    if (bits != 0) {
      from += lowest_bit(bits);
      break;
    }
    from = (from / 64 + 1) * 64;
  }
  return from < end ? from : end;
}

/* The lane that is being filled. */
static inline uvwheel_link_t *
lane_of(uvwheel_slot_t *slot)
{
  return (uvwheel_link_t *)(void *)((char *)slot + slot->lane);
}

/* One block holds the lanes, the slots and the occupied bits. calloc gives it
 * as untouched zero pages, and the lanes remain so until used. */
int uvwheel__allocate_slots(uvwheel_core_t *core);

/* Makes the slot of a tick take an entry that is due at it (I2, I3). */
void uvwheel__claim(uvwheel_core_t *core, uint64_t tick);

/* The slot of that number is empty. */
void uvwheel__vacate(uvwheel_core_t *core, uint64_t slot);

/* The lane of a slot is full for now: the next one has its turn. Returns 0. */
int uvwheel__turn_to_next_lane(uvwheel_core_t *core, uvwheel_slot_t *slot);

/* How many of its lanes a slot uses (I7). */
uint64_t uvwheel__lane_count(const uvwheel_slot_t *slot);

/* The first tick after the hand at which a slot wants a pass. Slots are asked
 * in the order in which the hand meets them, so the first whose nearest tick
 * lies within this round has it. Those that removes have emptied are vacated,
 * or the loop would wake up for them. */
uint64_t uvwheel__find_next_tick(uvwheel_core_t *core);

/* Whether insert_fast may succeed at all. */
static inline void
uvwheel__allow_fast(uvwheel_core_t *core, bool allow)
{
  core->fast_ms = allow ? RECIPROCAL_LIMIT(core->tick_ms) : 0;
}

/* ---- Operations --------------------------------------------------------- */

/* The usual case of uvwheel_core_insert: there is room, and the slot has, or
 * had, something due no later, so that one more changes nothing about the slot
 * or the wheel (I3, I4); or it may claim the slot, for a tick that is after the
 * one that the wheel waits for. NULL if it is not, and then nothing is done.
 * Else the slot, to which count_dealt has to be applied; so a caller can do
 * that last, as a jump. timer.c says why it is inline. */
static inline uvwheel_slot_t *
insert_fast(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms,
            bool may_claim)
{
  uvwheel_slot_t *slot;
  uint64_t tick;

  if (UNLIKELY(due_ms >= core->fast_ms || core->inserted >= core->allowed))
    return NULL;
  /* An idle entry's due time means nothing, so it may be set before the last
   * check; then the register is free. */
  entry->due_ms = due_ms;
  tick = divide(due_ms, core->tick_ms, core->reciprocal) + 1;
  slot = slot_of(core, tick);
  if (!is_claimed(slot, tick)) {
    if (!may_claim || tick <= core->next_tick)
      return NULL;
    uvwheel__claim(core, tick);
  }
  core->inserted++;
  append(lane_of(slot), &entry->link);
  return slot;
}

/* An entry more was put into the slot. Returns 0. */
static inline int
count_dealt(uvwheel_core_t *core, uvwheel_slot_t *slot)
{
  return --slot->left != 0 ? 0 : uvwheel__turn_to_next_lane(core, slot);
}

/* The usual case of uvwheel_core_remove, which is not the wheel's last entry.
 * Here it is stores that count: they wait in a queue for the neighbours to come
 * from memory. With one more of them, a counter, a remove among a million takes
 * 36 ns instead of 30. So the entry is not marked as idle: the binding has a
 * mark of its own. Nor does anybody ask whether its slot is empty now (I2). */
static inline bool
remove_fast(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  if (UNLIKELY(uvwheel_core_count(core) == 1))
    return false;
  MISUSE_IF_OVERWRITTEN(core, &entry->link);
  unlink_one(&entry->link);
#ifdef UVWHEEL_CHECKS
  set_idle(entry);
#endif
  core->allowed++;
  return true;
}

/* The usual case of uvwheel_core_postpone: the new time is not earlier. */
static inline bool
postpone_in_place(uvwheel_entry_t *entry, uint64_t due_ms)
{
  if (due_ms < entry->due_ms)
    return false;
  entry->due_ms = due_ms;
  return true;
}

/* ---- What looks at all entries ------------------------------------------ */

/* The lists of a wheel are numbered: the pending lanes, the staying lanes, the
 * due list, the drawn list, then the lanes of each slot. */
#define FIRST_STAYING_LIST UVWHEEL_LANES
#define DUE_LIST (2 * UVWHEEL_LANES)
#define DRAWN_LIST (DUE_LIST + 1)
#define FIRST_SLOT_LIST (DUE_LIST + 2)

uvwheel_link_t *uvwheel__list_at(uvwheel_core_t *core, uint64_t list);

/* The list after one, passing over slots that are not occupied; false if none.
 */
bool uvwheel__next_list(const uvwheel_core_t *core, uint64_t *list);

/* Lists hold the places of walks beside the entries. */
bool uvwheel__is_place_of_a_walk(const uvwheel_core_t *core,
                                 const uvwheel_link_t *link);

/* How many entries are due in later rounds than this one, and the most rounds
 * that any of them has to go. */
uint64_t uvwheel__count_rounds(const uvwheel_core_t *core, uint64_t now_ms,
                               uint64_t *most);

#endif /* UVWHEEL_CORE_H */
