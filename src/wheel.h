/* SPDX-License-Identifier: MIT */

/* The wheel: a hashed timing wheel that knows no event loop and no clock.
 *
 * Servers include <uvwheel.h>, which drives this wheel from a libuv loop. This
 * layer is for programs without a libuv loop: simulators, fuzzers, other loops.
 * The time is an argument, nothing is ever called back, and the same calls
 * always give the same result.
 *
 *   uvwheel_core_t core;
 *   uvwheel__core_init(&core, 100, 512, 0);
 *   uvwheel__core_insert(&core, &connection->entry, now_ms + 60000);
 *   ...
 *   uint64_t budget = 10000;
 *   while ((entry = uvwheel__core_expire(&core, now_ms, &budget)) != NULL)
 *     close_connection(entry);
 *   sleep_until(uvwheel__core_next_ms(&core));
 *
 * Words used here and in the source:
 *
 *   tick    a multiple of tick_ms: tick k happens at time k * tick_ms
 *   due     an entry is due at due_ms and expires at the first tick AFTER that
 *   slot    where the entries of the ticks k, k + slots, k + 2 * slots ... wait
 *   lane    one of the lists of a slot, over which its entries are dealt
 *   run     how many entries a lane gets before the next lane's turn
 *   hand    the tick that the wheel has reached
 *   pass    what the hand does to a slot: it looks at each entry, and either
 *           hands it out or puts it into the slot of its tick
 *   round   one revolution of the hand around all slots; an entry has
 *           (its tick - 1 - now_ms / tick_ms) / slots rounds to go, which is
 *           how many times the hand will pass its slot before it expires
 *   draw    to take the entries that are due soonest out of the wheel, before
 *           their time
 *
 * And in the binding, which drives the wheel:
 *
 *   driver  the uv_timer_t that wakes the loop for the wheel
 *   quiet   no descriptor of the loop is ready, and the mailbox is empty
 *   turn    what fires the timers that are due, after a poll
 *   batch   callbacks one after the other, up to the limits of a turn
 *   stall   others have held up the loop for longer than stall_ms
 *   beat    the times at which a repeating timer is due
 *   home    the wheel of a timer, with some flags
 *
 * All times are milliseconds of one clock that the caller chooses; it stays
 * below 2^63 (292 million years), due times may be anything. No call takes a
 * lock: one wheel belongs to one thread at a time. No call after
 * uvwheel__core_init allocates. Pointers must not be NULL.
 *
 * This layer is not yet stable: later 0.x versions may change uvwheel_core_*
 * and uvwheel_entry_*. */

#ifndef UVWHEEL_OPERATIONS_H
#define UVWHEEL_OPERATIONS_H

#include "misuse.h"
#include "slot.h"

/* Makes a wheel in uninitialised memory.
 *
 * tick_ms: the resolution, 1 to UVWHEEL_MAX_TICK_MS. slots: 1 to
 * UVWHEEL_MAX_SLOTS, rounded up to a power of two. flags: 0 or UVWHEEL_FIFO.
 *
 * Returns 0, or EINVAL (an argument out of range) or ENOMEM of <errno.h>, and
 * then the memory is as it was.
 * Cost: one allocation of about 256 bytes per slot, which are written as
 * the slot fills. */
int uvwheel__core_init(uvwheel_core_t *core, uint64_t tick_ms, uint32_t slots,
                       uint32_t flags);

/* Frees what uvwheel__core_init allocated. Entries still in the wheel are not
 * touched. Cost: one free. */
void uvwheel__core_destroy(uvwheel_core_t *core);

/* Makes an entry in uninitialised memory. It is not active. */
void uvwheel__entry_init(uvwheel_entry_t *entry);

/* Is the entry in a wheel? */
static inline int
uvwheel__entry_is_active(const uvwheel_entry_t *entry)
{
  return entry->link.next != NULL;
}

/* Puts an entry that is not active into the wheel, due at due_ms. Any value is
 * legal; an entry whose tick is past expires at the next uvwheel__core_expire.
 *
 * Returns non-zero when uvwheel__core_next_ms became earlier by this.
 * Cost: O(1), touches the entry, its slot and one entry of that slot. */
int uvwheel__core_insert(uvwheel_core_t *core, uvwheel_entry_t *entry,
                         uint64_t due_ms);

/* Takes an active entry out of the wheel. Its memory may be freed at once.
 * Cost: O(1), touches the entry and its two neighbours; of the last entry also
 * each slot that entries were put into since the hand passed it last. */
void uvwheel__core_remove(uvwheel_core_t *core, uvwheel_entry_t *entry);

/* Changes when an active entry is due. With UVWHEEL_FIFO it goes to the end of
 * its tick's queue.
 *
 * Returns non-zero when uvwheel__core_next_ms became earlier by this.
 * Cost: one store when due_ms is not before the present due time: the hand
 * moves the entry when it finds it. Else, and with UVWHEEL_FIFO, that of a
 * remove and an insert. */
int uvwheel__core_postpone(uvwheel_core_t *core, uvwheel_entry_t *entry,
                           uint64_t due_ms);

/* Turns the hand to now_ms and hands out one entry that expires by then; call
 * it until it returns NULL. The entry is no longer active and the wheel has
 * forgotten it. Between two calls the caller may do anything with the wheel.
 *
 * Every entry that the hand looks at takes one from *budget. When that is 0 and
 * all that was found due has been handed out, the call returns NULL; if
 * something is left, uvwheel__core_next_ms is not after now_ms, and a later
 * call goes on from there. Ticks are handed out in order; those at which
 * nothing is due cost nothing. A clock that steps back is followed: nothing
 * expires early. Must not be called during a walk. Cost: O(1) per entry looked
 * at, plus the search for the next useful tick once per pass: usually a few
 * slots, at worst each slot in use and slots / 4096 words. */
uvwheel_entry_t *uvwheel__core_expire(uvwheel_core_t *core, uint64_t now_ms,
                                      uint64_t *budget);

/* Draws up to `count` active entries, those that are due soonest (to the tick;
 * a postponed one counts by its last due time), however far away that is, and
 * returns how many. They stay active until uvwheel__core_take_drawn hands them
 * out, one by one, NULL at the end; call that right away, to its end. It leaves
 * out those that were removed meanwhile, or are now due later than all that
 * were drawn. What was not drawn keeps its due time. now_ms is the clock.
 * Must not be called during a walk, nor before all that an earlier call has
 * drawn was handed out.
 * Cost: O(count), plus a look at each entry on the way that was postponed or
 * waits for a later round; calls that follow go on behind those. */
uint64_t uvwheel__core_draw(uvwheel_core_t *core, uint64_t now_ms,
                            uint64_t count);
uvwheel_entry_t *uvwheel__core_take_drawn(uvwheel_core_t *core);

/* How many entries are active. Cost: O(1). */
static inline uint64_t
uvwheel__core_count(const uvwheel_core_t *core)
{
  return core->inserted + core->most - core->allowed;
}

/* When uvwheel__core_expire should be called next. It may turn out that nothing
 * expires then (entries were removed or postponed meanwhile), but nothing ever
 * expires earlier. UINT64_MAX when the wheel is empty. Cost: O(1). */
uint64_t uvwheel__core_next_ms(const uvwheel_core_t *core);

/* A walk over all active entries, in no particular order:
 *
 *   uvwheel_cursor_t cursor;
 *   uvwheel__core_walk_begin(&core, &cursor);
 *   while ((entry = uvwheel__core_walk_next(&core, &cursor)) != NULL)
 *     ...
 *
 * Between the steps any entry may be inserted, removed, freed and postponed,
 * and further walks may be made from begin to end. Every entry that is active
 * throughout is visited exactly once, unless it is inserted anew or made due
 * earlier (with UVWHEEL_FIFO: postponed at all): then it may be visited again,
 * or not at all. A walk must be gone through to its NULL.
 * Cost: O(entries + slots in use + slots / 4096). */
void uvwheel__core_walk_begin(uvwheel_core_t *core, uvwheel_cursor_t *cursor);
uvwheel_entry_t *uvwheel__core_walk_next(uvwheel_core_t *core,
                                         uvwheel_cursor_t *cursor);

/* How many entries wait in a slot, 0 to slots - 1. Those of a pass that was
 * cut short by its budget count for no slot. Cost: O(entries in it). */
uint64_t uvwheel__core_slot_count(const uvwheel_core_t *core, uint64_t slot);

/* ---- The usual cases, inline ------ */

/* No limit to how many entries may be active. */
#define UNLIMITED (UINT64_C(1) << 63)

static inline void
set_idle(uvwheel_entry_t *entry)
{
  entry->link.next = NULL;
#ifdef UVWHEEL_CHECKS
  entry->link.prev = POISON;
#endif
}

/* The usual insert has two steps. The first finds the slot. It returns NULL,
 * and has changed nothing, unless there is room, the wheel wakes up by the tick
 * of the entry (I4), and the slot is claimed for that tick or can be by one
 * store. */
static inline uvwheel_slot_t *
find_slot_fast(uvwheel_core_t *core, uint64_t due_ms)
{
  uvwheel_slot_t *slot;
  uint64_t tick;

  if (UNLIKELY(due_ms >= core->usual_ms))
    return NULL;
  tick = divide(due_ms, core->tick_ms, core->reciprocal) + 1;
  slot = slot_of(core, tick);
  if (UNLIKELY(core->inserted >= core->allowed))
    return NULL;
  if (!is_claimed(slot, tick)) {
    if (tick < core->next_tick)
      return NULL;
    slot->nearest = tick;
  }
  return is_prepared(slot) ? slot : NULL;
}

/* The second puts the entry there. Its due time is set. */
static inline void
insert_fast(uvwheel_core_t *core, uvwheel_slot_t *slot, uvwheel_entry_t *entry)
{
  core->inserted++;
  deal(core, slot, entry);
}

/* The usual case of uvwheel__core_remove: not the wheel's last entry. Stores
 * are what costs here, as they wait for the neighbours to come from memory.
 * With one more, to a counter, a remove among a million takes 36 ns instead
 * of 30. So the entry is not marked as idle (the binding has a mark of its
 * own), and a slot that is empty now is not vacated (I2). */
static inline bool
remove_fast(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  if (UNLIKELY(uvwheel__core_count(core) == 1))
    return false;
  MISUSE_IF_OVERWRITTEN(core, &entry->link);
  unlink_one(&entry->link);
#ifdef UVWHEEL_CHECKS
  set_idle(entry);
#endif
  core->allowed++;
  return true;
}

/* The usual case of uvwheel__core_postpone: the new time is not earlier. */
static inline bool
postpone_in_place(uvwheel_entry_t *entry, uint64_t due_ms)
{
  if (due_ms < entry->due_ms)
    return false;
  entry->due_ms = due_ms;
  return true;
}

#endif /* UVWHEEL_OPERATIONS_H */
