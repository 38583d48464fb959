/* SPDX-License-Identifier: MIT */

/* Ticks, and the slots that wait for them. slot.c says why a slot has lanes,
 * wheel.c has the drawing. */

#ifndef UVWHEEL_SLOT_H
#define UVWHEEL_SLOT_H

#include "list.h"
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

/* The last tick that is not after a time. It multiplies, because some
 * processors are slow at division, except for times from divided_ms on: in 3
 * million years with the default tick, in 3 years with ticks of a day. */
static inline uint64_t
tick_at(const uvwheel_core_t *core, uint64_t ms)
{
  if (UNLIKELY(ms >= core->divided_ms))
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

static inline bool
is_occupied(const uvwheel_core_t *core, uint64_t number)
{
  return (core->occupied[number / 64] >> (number % 64)) & 1;
}

/* Will the hand look at the slot by that tick? */
static inline bool
is_claimed(const uvwheel_slot_t *slot, uint64_t tick)
{
  return LIKELY(slot->nearest <= tick);
}

/* A slot that was never used is all zeros, and no lane is at 0. */
static inline bool
is_prepared(const uvwheel_slot_t *slot)
{
  return LIKELY(slot->filling != 0);
}

/* The lane that is being filled. */
static inline uvwheel_link_t *
lane_of(uvwheel_slot_t *slot)
{
  return (uvwheel_link_t *)(void *)((char *)slot + slot->filling);
}

/* That lane has got its run, or the slot its first entry: turns to the next
 * lane, or marks the slot as occupied. */
void uvwheel__end_run(uvwheel_core_t *core, uvwheel_slot_t *slot);

/* Puts an entry into a slot that is claimed for its tick. */
static inline void
deal(uvwheel_core_t *core, uvwheel_slot_t *slot, uvwheel_entry_t *entry)
{
  append(lane_of(slot), &entry->link);
  if (--slot->left == 0)
    uvwheel__end_run(core, slot);
}

/* Allocates the slots and their bits as one block, whose pages stay untouched
 * until a slot is used. Returns 0 or an error of <errno.h>. */
int uvwheel__allocate_slots(uvwheel_core_t *core);

/* Prepares the slot of a tick for entries that are due at that tick (I2, I3).
 */
void uvwheel__claim(uvwheel_core_t *core, uint64_t tick);

/* Marks an empty slot as not occupied, and prepares it for its next entry: a
 * usual insert claims it by one store, to its nearest tick, and the end of its
 * first run, which is one entry, does the rest. */
void uvwheel__vacate(uvwheel_core_t *core, uint64_t number);

/* The first occupied slot from one on; the number of slots if there is none. */
uint64_t uvwheel__next_occupied(const uvwheel_core_t *core, uint64_t number);

/* The first tick after the hand at which a slot wants a pass. Slots that
 * removes have emptied are vacated, or the loop would wake up for them. */
uint64_t uvwheel__find_next_tick(uvwheel_core_t *core);

#endif /* UVWHEEL_SLOT_H */
