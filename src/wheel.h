/* SPDX-License-Identifier: MIT */

/* The wheel: a hashed timing wheel that knows no event loop and no clock. The
 * time is an argument, nothing is called back, and the same calls always give
 * the same result.
 *
 *   uvwheel__core_init(&core, 100, 512, 0);
 *   uvwheel__core_insert(&core, &connection->entry, now_ms + 60000);
 *   ...
 *   uint64_t budget = 10000;
 *   while ((entry = uvwheel__core_expire(&core, now_ms, &budget)) != NULL)
 *     close_connection(entry);
 *   sleep_until(uvwheel__core_next_ms(&core));
 *
 * All times are milliseconds of one clock that the caller chooses. It stays
 * below 2^63 (292 million years); due times may be anything. A wheel belongs to
 * one thread at a time. No call after uvwheel__core_init allocates. The caller
 * knows which entries are active. wheel.c explains the words. */

#ifndef UVWHEEL_CORE_H
#define UVWHEEL_CORE_H

#include "checks.h"
#include "portable.h"

/* No tick; the last tick that an entry waits for; and the last one that the
 * hand goes to. */
#define NEVER UINT64_MAX
#define LAST_TICK (UINT64_MAX - 1)
#define LAST_HAND (UINT64_C(1) << 63)

static inline bool
is_fifo(const uvwheel_core_t *core)
{
  return core->fifo;
}

/* ---- Ticks -------------------------------------------------------------- */

/* The last tick that is not after a time. It multiplies, because with a
 * division a start takes 19 ns instead of 13; except for times from
 * reciprocal_ms on: in 3 million years with the default tick, in 3 years with
 * ticks of a day. */
static inline uint64_t
tick_at(const uvwheel_core_t *core, uint64_t ms)
{
  if (UNLIKELY(ms >= core->reciprocal_ms))
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

/* Will the hand look at the slot by that tick? (0, for never, becomes the
 * largest number.) */
static inline bool
is_claimed(const uvwheel_slot_t *slot, uint64_t tick)
{
  return slot->nearest - 1 < tick;
}

/* Allocates the slots and their bits as one block, whose pages stay untouched
 * until a slot is used. Returns 0 or an error of <errno.h>. */
int uvwheel__allocate_slots(uvwheel_core_t *core);

/* Has the hand look at the slot of a tick at that tick (I2, I3). The slot was
 * not claimed for it. */
void uvwheel__claim(uvwheel_core_t *core, uint64_t tick);

/* Marks an empty slot as not occupied. */
void uvwheel__vacate(uvwheel_core_t *core, uint64_t number);

/* Vacates all slots, which are empty. */
void uvwheel__vacate_all(uvwheel_core_t *core);

/* The lane that is filled has got its share: goes on with the next one. */
void uvwheel__next_lane(uvwheel_core_t *core, uvwheel_slot_t *slot);

/* The first occupied slot from one on; the number of slots if there is none. */
uint64_t uvwheel__next_occupied(const uvwheel_core_t *core, uint64_t number);

/* A tick after the hand, before which no slot wants a pass. If one wants a pass
 * within a round, it is the exact tick. Vacates slots that removes have
 * emptied, or the loop would wake up for them. */
uint64_t uvwheel__find_next_tick(uvwheel_core_t *core);

/* How many entries wait in a slot, 0 to slots - 1. Entries of a pass that was
 * cut short by its budget are in no slot. Cost: O(entries in it). */
uint64_t uvwheel__slot_count(const uvwheel_core_t *core, uint64_t number);

/* How many entries in slots are due in later rounds than this one, and the most
 * rounds that any of them has to go. Cost: O(entries + slots in use). */
uint64_t uvwheel__count_later(const uvwheel_core_t *core, uint64_t now_ms,
                              uint64_t *most);

/* Appends an entry to a slot that is claimed for its tick. */
static inline void
append_to_slot(uvwheel_core_t *core, uvwheel_slot_t *slot,
               uvwheel_entry_t *entry)
{
  append((uvwheel_link_t *)(void *)((char *)slot + slot->filling),
         &entry->link);
  if (--slot->left == 0)
    uvwheel__next_lane(core, slot);
}

/* ---- The wheel (wheel.c) ------------------------------------------------ */

/* Makes a wheel in uninitialised memory.
 *
 * tick_ms: the resolution, 1 to UVWHEEL_MAX_TICK_MS. slots: 1 to
 * UVWHEEL_MAX_SLOTS, rounded up to a power of two. flags: 0 or UVWHEEL_FIFO.
 *
 * Returns 0, or EINVAL (an argument out of range) or ENOMEM of <errno.h>, and
 * then the memory is as it was. Cost: one allocation of about 256 bytes per
 * slot, which are written as the slot fills. */
int uvwheel__core_init(uvwheel_core_t *core, uint64_t tick_ms, uint32_t slots,
                       uint32_t flags);

/* Frees the slots. Entries still in the wheel are not touched. */
void uvwheel__core_destroy(uvwheel_core_t *core);

/* How many entries are active. */
static inline uint64_t
uvwheel__core_count(const uvwheel_core_t *core)
{
  return core->counters.inserted - core->counters.removed;
}

/* When uvwheel__core_expire should be called next. It may turn out that nothing
 * expires then (entries were removed or postponed meanwhile), but nothing ever
 * expires earlier. UINT64_MAX when the wheel is empty. Cost: O(1). */
uint64_t uvwheel__core_next_ms(const uvwheel_core_t *core);

/* Puts an entry that is on no list into the slot of its tick, for which the
 * slot was not claimed. Returns as uvwheel__core_insert. */
bool uvwheel__put_and_claim(uvwheel_core_t *core, uvwheel_entry_t *entry,
                            uint64_t tick);

/* Puts an entry that is on no list into the slot of its tick. Returns as
 * uvwheel__core_insert. */
static inline bool
put_into_slot(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  uint64_t tick = tick_after(core, entry->due_ms);
  uvwheel_slot_t *slot = slot_of(core, tick);

  if (UNLIKELY(!is_claimed(slot, tick)))
    return uvwheel__put_and_claim(core, entry, tick);
  append_to_slot(core, slot, entry);
  return false;
}

/* Puts an entry that is not active into the wheel, due at due_ms. Any value is
 * legal; an entry whose tick is past expires at the next uvwheel__core_expire.
 *
 * Returns whether uvwheel__core_next_ms may have become earlier by this.
 * Cost: O(1), touches the entry, its slot and one entry of that slot. */
static inline bool
uvwheel__core_insert(uvwheel_core_t *core, uvwheel_entry_t *entry,
                     uint64_t due_ms)
{
  MISUSE_IF(entry->link.next != POISON, entry, "inserted twice");
  entry->due_ms = due_ms;
  core->counters.inserted++;
  return put_into_slot(core, entry);
}

/* The last entry has left the wheel. */
void uvwheel__core_became_empty(uvwheel_core_t *core);

/* Takes an active entry out of the wheel. Its memory may be freed at once.
 * Cost: O(1), touches the entry and its two neighbours; of the last entry also
 * each slot that entries were put into since the hand passed it last.
 *
 * A slot that becomes empty is not vacated: if it were, a stop would take 12 ns
 * instead of 3. */
static inline void
uvwheel__core_remove(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  MISUSE_IF_OVERWRITTEN(entry);
  unlink_one(&entry->link);
  poison(entry);
  core->counters.removed++;
  if (UNLIKELY(uvwheel__core_count(core) == 0))
    uvwheel__core_became_empty(core);
}

/* Moves an active entry to the slot of the tick at which it is due now; with
 * UVWHEEL_FIFO, to the end of that tick's queue. Returns as
 * uvwheel__core_insert. Cost: a remove and an insert. */
bool uvwheel__core_move(uvwheel_core_t *core, uvwheel_entry_t *entry,
                        uint64_t due_ms);

/* Changes when an active entry is due. Returns as uvwheel__core_insert.
 * Cost: one store when due_ms is not before the present due time: the hand
 * moves the entry when it finds it. Otherwise that of uvwheel__core_move. */
static inline bool
uvwheel__core_postpone(uvwheel_core_t *core, uvwheel_entry_t *entry,
                       uint64_t due_ms)
{
  if (UNLIKELY(due_ms < entry->due_ms))
    return uvwheel__core_move(core, entry, due_ms);
  entry->due_ms = due_ms;
  return false;
}

/* Moves the hand to now_ms and hands out one entry that expires by then; call
 * it until it returns NULL. The entry is no longer active and the wheel has
 * forgotten it. Between two calls the caller may do anything with the wheel.
 *
 * Every entry that is handed out takes one from *budget, and so does every
 * other entry that the hand looks at. When that is 0 the call returns NULL; if
 * something is left, uvwheel__core_next_ms is not after now_ms, and a later
 * call goes on from there. Ticks are handed out in order; those at which
 * nothing is due cost nothing. A clock that steps back is followed: nothing
 * expires early.
 * Cost: O(1) per entry looked at, plus the search for the next useful tick once
 * per pass. With UVWHEEL_FIFO a pass begins with a look at the whole slot. */
uvwheel_entry_t *uvwheel__core_expire(uvwheel_core_t *core, uint64_t now_ms,
                                      uint64_t *budget);

/* Draws up to `count` active entries, those that are due soonest (to the tick;
 * a postponed one counts with its new due time), however far away that is, and
 * returns how many. They stay active until uvwheel__core_take_drawn hands them
 * out, one by one, NULL at the end; call that right away, to its end. It leaves
 * out entries that were removed or moved to an earlier time meanwhile, or are
 * now due later than all that were drawn. Entries that were not drawn keep
 * their due time. now_ms is the clock. Must not be called before all that an
 * earlier call has drawn was handed out.
 * Cost: O(count), plus a look at each entry on the way that was postponed or
 * waits for a later round. Calls that follow go on behind those, but with
 * UVWHEEL_FIFO look at them again. */
uint64_t uvwheel__core_draw(uvwheel_core_t *core, uint64_t now_ms,
                            uint64_t count);
uvwheel_entry_t *uvwheel__core_take_drawn(uvwheel_core_t *core);

/* A walk over all active entries, in no particular order:
 *
 *   uvwheel__core_walk_begin(&core);
 *   while ((entry = uvwheel__core_walk_next(&core)) != NULL)
 *     ...
 *
 * Between the steps the caller may do anything with the wheel, except begin
 * another walk. Every entry that is active throughout is visited exactly once.
 * An entry that is inserted anew may be visited or not.
 * Cost: O(entries + slots in use): each entry is put into its slot anew. */
void uvwheel__core_walk_begin(uvwheel_core_t *core);
uvwheel_entry_t *uvwheel__core_walk_next(uvwheel_core_t *core);

/* Some active entry; NULL if there is none. To empty a wheel, remove the entry
 * and call this again. Cost: O(slots in use) for the first call. */
uvwheel_entry_t *uvwheel__core_any(uvwheel_core_t *core);

#endif /* UVWHEEL_CORE_H */
