/* SPDX-License-Identifier: MIT */

/* The wheel: a hashed timing wheel that knows no event loop and no clock.
 * wheel.c explains it.
 *
 * All times are milliseconds of one clock that the caller chooses. It stays
 * below 2^63 (292 million years); due times may be anything. The caller knows
 * which entries are active. */

#ifndef UVWHEEL_CORE_H
#define UVWHEEL_CORE_H

#include "list.h"
#include "portable.h"

/* No tick, and the last tick that an entry waits for. */
#define NEVER UINT64_MAX
#define LAST_TICK (UINT64_MAX - 1)

/* A FIFO wheel has slots of one lane. */
static inline bool
is_fifo(const uvwheel_core_t *core)
{
  return core->lanes_end == offsetof(uvwheel_slot_t, lanes[1]);
}

/* Is a pass going on? Until it ends, next_tick stays at the hand (I4). */
static inline bool
is_passing(const uvwheel_core_t *core)
{
  return core->next_tick == core->hand;
}

/* ---- Ticks -------------------------------------------------------------- */

#define RECIPROCAL(tick_ms) (UINT64_MAX / (tick_ms))
#define RECIPROCAL_MS(tick_ms) ((UINT64_C(1) << 63) / (tick_ms))

/* The first tick after a time. With a division a warm start takes 19 ns instead
 * of 13. So it multiplies by a reciprocal, except for times from reciprocal_ms
 * on: in 3 million years with the default tick, in 3 years with ticks of a day.
 *
 * The reciprocal is (2^64 - e) / tick_ms with an e from 1 to tick_ms, and the
 * factor, ms + 1, is at most 2^64 / tick_ms. So the product, divided by 2^64,
 * is less than (ms + 1) / tick_ms, but not less than ms / tick_ms. Its whole
 * part is the quotient. (After Granlund and Montgomery, "Division by invariant
 * integers using multiplication", 1994.) */
static inline uint64_t
tick_after(const uvwheel_core_t *core, uint64_t ms)
{
  uint64_t tick;

#ifdef HAS_WIDE
  if (LIKELY(ms < core->reciprocal_ms))
    return (uint64_t)(((wide_t)(ms + 1) * core->reciprocal) >> 64) + 1;
#endif
  tick = ms / core->tick_ms;
  return tick < LAST_TICK ? tick + 1 : LAST_TICK;
}

/* The last tick that is not after a time. */
static inline uint64_t
tick_at(const uvwheel_core_t *core, uint64_t ms)
{
  return tick_after(core, ms) - 1;
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

/* ---- Slots (slot.c) ----------------------------------------------------- */

static inline uvwheel_slot_t *
slot_of(const uvwheel_core_t *core, uint64_t tick)
{
  return &core->slots[tick & core->slot_mask];
}

static inline bool
is_occupied(const uvwheel_core_t *core, uint64_t number)
{
  return (core->occupied[number / 64] >> (number % 64)) & 1;
}

/* Allocates the slots and their bits as one block, whose pages stay untouched
 * until a slot is used. Returns 0 or an error of <errno.h>. */
int uvwheel__allocate_slots(uvwheel_core_t *core);

/* Plans the next pass of a slot at one of its ticks (I2, I3). None was planned,
 * or it was later. */
void uvwheel__plan_pass(uvwheel_core_t *core, uint64_t tick);

/* Marks an empty slot as not occupied. */
void uvwheel__vacate(uvwheel_core_t *core, uint64_t number);

/* The first occupied slot from one on; the number of slots if there is none. */
uint64_t uvwheel__next_occupied(const uvwheel_core_t *core, uint64_t number);

/* A tick after the hand, before which no slot wants a pass; the exact one if it
 * is within a round. Vacates slots that removes have emptied. */
uint64_t uvwheel__find_next_tick(uvwheel_core_t *core);

/* Returns how many entries wait in a slot. Adds to *later how many of them are
 * due in later rounds than this one, and raises *most_rounds to the most rounds
 * that any of them has to go. */
uint64_t uvwheel__count_slot(const uvwheel_core_t *core, uint64_t number,
                             uint64_t now_ms, uint64_t *later,
                             uint64_t *most_rounds);

/* The lane of a slot at an offset in bytes. */
static inline uvwheel_link_t *
lane_at(uvwheel_slot_t *slot, uint32_t offset)
{
  return (uvwheel_link_t *)(void *)((char *)slot + offset);
}

/* Are the lanes of a slot empty? */
static inline bool
is_empty(uvwheel_slot_t *slot)
{
  return are_empty(slot->lanes, lane_at(slot, slot->end));
}

/* How many entries a lane gets before the next one. With 1 a slot of 15 entries
 * has 15 lanes, and a wheel of 1 ms, whose slots are sparse, has a cold line
 * for each entry. With 16 such a wheel expires at half the speed. */
#define SHARE 4

#define FIRST_LANE ((uint32_t)offsetof(uvwheel_slot_t, lanes))

/* Gives a lane its share; one that was not in use is initialised. */
static inline void
fill_lane(uvwheel_slot_t *slot, uint32_t lane)
{
  slot->filling = lane;
  slot->left = SHARE;
  if (lane == slot->end) {
    list_init(lane_at(slot, lane));
    slot->end += sizeof *slot->lanes;
  }
}

static inline void
fill_next_lane(const uvwheel_core_t *core, uvwheel_slot_t *slot)
{
  uint32_t next = slot->filling + (uint32_t)sizeof *slot->lanes;

  fill_lane(slot, next != core->lanes_end ? next : FIRST_LANE);
}

/* Appends an entry to a slot whose next pass is not after the entry's tick. */
static inline void
append_to_slot(uvwheel_core_t *core, uvwheel_slot_t *slot,
               uvwheel_entry_t *entry)
{
  append(lane_at(slot, slot->filling), &entry->link);
  if (--slot->left == 0)
    fill_next_lane(core, slot);
}

/* ---- The wheel (wheel.c) ------------------------------------------------ */

/* Makes a wheel in uninitialised memory. Returns 0, or EINVAL (an argument out
 * of range) or ENOMEM of <errno.h>, and then the memory is as it was. */
int uvwheel__core_init(uvwheel_core_t *core, uint64_t tick_ms, uint32_t slots,
                       uint32_t flags);

/* Frees the slots. Entries still in the wheel are not touched. */
void uvwheel__core_destroy(uvwheel_core_t *core);

/* How many entries are active. */
static inline uint64_t
uvwheel__core_count(const uvwheel_core_t *core)
{
  return core->inserted - (core->insert_limit - core->capacity);
}

/* Are as many active as may be? */
static inline bool
uvwheel__core_is_full(const uvwheel_core_t *core)
{
  return core->inserted == core->insert_limit;
}

/* When uvwheel__core_expire should be called next; UINT64_MAX: never. It may
 * turn out that nothing expires then (entries were removed or postponed), but
 * nothing ever expires earlier. */
static inline uint64_t
uvwheel__core_next_ms(const uvwheel_core_t *core)
{
  /* The reciprocal is UINT64_MAX / tick_ms. */
  return core->next_tick <= core->reciprocal ? core->next_tick * core->tick_ms
                                             : UINT64_MAX;
}

/* Puts an entry that is on no list into the slot of its tick, if a pass of the
 * slot is planned by then. Returns whether it is. */
static inline bool
put_if_planned(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t tick)
{
  uvwheel_slot_t *slot = slot_of(core, tick);

  /* If none is planned, next_pass - 1 is the largest number. */
  if (UNLIKELY(slot->next_pass - 1 >= tick))
    return false;
  append_to_slot(core, slot, entry);
  return true;
}

/* Plans the pass and puts the entry there. Returns whether
 * uvwheel__core_next_ms may have become earlier by this. */
bool uvwheel__plan_and_put(uvwheel_core_t *core, uvwheel_entry_t *entry);

/* Puts an entry that is not active into the wheel, due at due_ms. Returns false
 * if uvwheel__plan_and_put has to follow. (It does not call that, so that the
 * usual start of a timer needs no stack.) */
static inline bool
uvwheel__core_insert(uvwheel_core_t *core, uvwheel_entry_t *entry,
                     uint64_t due_ms)
{
  MISUSE_IF(entry->link.next != POISON, entry, "inserted twice");
  entry->due_ms = due_ms;
  core->inserted++;
  return put_if_planned(core, entry, tick_after(core, due_ms));
}

/* The last entry has left the wheel: there is nothing to wake up for. */
void uvwheel__core_became_empty(uvwheel_core_t *core);

/* Takes an active entry out of the wheel. Returns false if it was the last one:
 * then uvwheel__core_became_empty has to follow. A slot that becomes empty is
 * not vacated: if it were, a stop would take 12 ns instead of 3. It writes to
 * one counter: with two a stop of a million would take 32.7 ns, not 31.3. */
static inline bool
uvwheel__core_remove(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  MISUSE_IF_OVERWRITTEN(entry);
  unlink_one(&entry->link);
  poison(entry);
  core->insert_limit++;
  return LIKELY(uvwheel__core_count(core) != 0);
}

/* Moves an active entry to the slot of the tick after due_ms. Returns whether
 * uvwheel__core_next_ms may have become earlier by this. An entry that becomes
 * due later need not be moved: a store to its due_ms is enough. */
bool uvwheel__core_move(uvwheel_core_t *core, uvwheel_entry_t *entry,
                        uint64_t due_ms);

/* Moves the hand on, at most to now_ms, and hands out one entry that expires by
 * then; call it until it returns NULL. The entry is no longer active. Between
 * two calls the caller may do anything with the wheel. A clock that steps back
 * is followed: nothing expires early.
 *
 * Every entry that is handed out takes one from *budget, and so does every
 * other entry that the hand looks at. When that is 0 the call returns NULL; if
 * something is left, uvwheel__core_next_ms is not after now_ms. */
uvwheel_entry_t *uvwheel__core_expire(uvwheel_core_t *core, uint64_t now_ms,
                                      uint64_t *budget);

/* Draws up to `count` active entries, those that are due soonest (to the tick;
 * a postponed one counts with its new due time), and returns how many. They
 * stay active until uvwheel__core_take_drawn hands them out, one by one, NULL
 * at the end. It leaves out entries that were removed or moved to an earlier
 * time meanwhile, or are now due later than all that were drawn. Must not be
 * called before all that an earlier call has drawn was handed out. */
uint64_t uvwheel__core_draw(uvwheel_core_t *core, uint64_t count);
uvwheel_entry_t *uvwheel__core_take_drawn(uvwheel_core_t *core);

/* A walk over all active entries: begin, then next until it returns NULL.
 * Between the steps the caller may do anything but begin another walk. Every
 * entry that is active throughout is visited exactly once. */
void uvwheel__core_walk_begin(uvwheel_core_t *core);
uvwheel_entry_t *uvwheel__core_walk_next(uvwheel_core_t *core);

/* Some active entry; NULL if there is none. To empty a wheel, remove the entry
 * and call this again. Cost: O(slots in use) for the first call. */
uvwheel_entry_t *uvwheel__core_any(uvwheel_core_t *core);

#endif /* UVWHEEL_CORE_H */
