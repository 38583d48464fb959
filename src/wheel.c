/* SPDX-License-Identifier: MIT */

/* The wheel.
 *
 *              slot 0     1     2     3        4 ... 511        512 slots,
 *             +-------+-----+-----+-------+-----+-----+         the default
 *   occupied  |   1   |  0  |  0  |   1   |  0  | ... |  a bit each
 *   nearest   |  512  |  -  |  -  | 1027  |  -  | ... |  a tick each
 *             +-------+-----+-----+-------+-----+-----+
 *   lanes       up to 15 circular lists each
 *               |                   |
 *             lane 0: e e e e     lane 0: e e e
 *             lane 1: e
 *                           ^
 *                           hand: the last tick that was passed, here 2
 *
 * An entry that is due at due_ms waits for tick due_ms / tick_ms + 1, in slot
 * tick % slots. At now_ms it has (tick - 1 - now_ms / tick_ms) / slots rounds
 * to go; nothing is stored or counted down for that, because the due time tells
 * it.
 *
 * A refresh changes the due time and nothing else. So an entry may stand in a
 * slot that the hand reaches before the entry is due, never in one that it
 * reaches after. When the hand comes to a slot at its nearest tick it makes a
 * pass: it takes the lanes of the slot, which is empty then, and looks at each
 * entry. Either the entry is due, or it is put where an insert would put it:
 * into the slot of its tick, which is the same slot if it waits for a later
 * round.
 *
 *   pass:   lanes of the slot  ->  pending  ->  due, handed out one by one
 *                                           ->  the slot of its tick
 *
 * All lists belong to the wheel, so that an entry can be removed wherever it
 * is. Ticks at which no slot wants a pass are skipped, however many. The hand
 * can also run ahead of the clock, to draw those that are due soonest; then it
 * goes back to where the clock is.
 *
 * In a FIFO wheel the lanes of a slot are in order, one after the other. All
 * entries go to lane 1, except those that a pass puts back into its own slot:
 * they go to lane 0, and so come before those that were inserted during the
 * pass. The next pass takes lane 0 first.
 *
 * A pass is given up when the clock steps back behind it, when an entry of an
 * earlier tick was inserted, and when the hand ran ahead. Then the slot gets
 * back what is due, what was put back, what is pending and what was inserted
 * meanwhile, in this order. (Where the order does not matter, what is pending
 * comes first, so that the next pass goes on where this one stopped.)
 *
 * A remove is nothing but an unlink. A slot that is empty then is vacated when
 * the hand, or its search for the next tick, comes to it, and all of them when
 * the last entry leaves the wheel.
 *
 * What holds whenever no function of this file is running (broken_invariants
 * tests it):
 *
 *   I1  The lists are circular, and links agree in both directions.
 *   I2  A slot that has an entry is occupied. (One that is occupied may have
 *       none, or the place of a walk.) A slot that is not occupied has no
 *       nearest tick. A word of the occupied bits has its own bit exactly if it
 *       is not 0.
 *   I3  The nearest tick of an occupied slot is one of its own ticks, after the
 *       hand, and no entry of the slot is due at an earlier tick. (None needs
 *       to be due at it, either: it may have been postponed or removed since.)
 *   I4  next_tick is after the hand, and not after the nearest tick of any
 *       slot. It is NEVER if the wheel is empty, and only then, unless a pass
 *       is going on or all that is left is drawn.
 *   I5  Outside a pass nothing is pending or due. In a pass nothing that is due
 *       at its tick waits in its slot, unless the hand is before that tick.
 *   I6  inserted + most - allowed is the number of entries on all lists.
 *   I7  The entries of an occupied slot are in the lanes that it uses, which
 *       are its first ones; those of a pass are in its first pass_lanes. A FIFO
 *       slot uses two lanes and fills the second one. What the first one has
 *       was put back by a pass: it was due at a tick of that slot then.
 *
 * Costs: insert, remove and expire are O(1) and touch two, three and two
 * entries; postpone to a later time is one store. An entry that waits for r
 * rounds is looked at r times at worst, once for each round in which another
 * entry of its slot was due. The search for the next useful tick looks at the
 * occupied slots ahead of the hand: one or two when the wheel is busy, all of
 * them, once per wake-up, when all entries are more than a round away. To find
 * them it goes through at most slots / 4096 + 2 words.
 *
 * Tried and dropped:
 *
 *   rounds counted down in the entry    writes to each entry in each round
 *   the place of an entry stored in it  8 bytes, to save a multiplication
 *   lanes in turn, not in runs          a slot with 15 entries has 15 lanes
 *   what stays for a later round kept   rules for the pass, and lanes that
 *     aside, and its lanes with it        decay over days
 *   a slot vacated by its last remove   a stop takes 12 ns instead of 3
 *   unlinking what a pass takes         writes to neighbours that are cold
 *   a hierarchy of wheels               moves each entry several times
 */

#include "uvwheel/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "wheel.h"

/* Entries that are due later than this are never due, and not drawn either. */
#define LAST_MS ((UINT64_C(1) << 63) - 1)

/* How many entries are looked at before those of them that are due are handed
 * out: few enough (16 KiB of entries) to be in the first cache level still. */
#define CHUNK 256

/* ---- Making and unmaking ------------------------------------------------ */

int
uvwheel__core_init(uvwheel_core_t *core, uint64_t tick_ms, uint32_t slots,
                   uint32_t flags)
{
  uvwheel_core_t made = {0};
  unsigned i;
  int error;

  if (tick_ms == 0 || tick_ms > UVWHEEL_MAX_TICK_MS || slots == 0 ||
      slots > UVWHEEL_MAX_SLOTS || (flags & ~UVWHEEL_FIFO) != 0)
    return EINVAL;
  made.tick_ms = tick_ms;
  made.reciprocal = RECIPROCAL(tick_ms);
  made.divided_ms = RECIPROCAL_LIMIT(tick_ms);
  made.usual_ms = made.divided_ms;
  made.slot_mask = (UINT64_C(1) << bit_width(slots - 1)) - 1;
  made.fifo = flags & UVWHEEL_FIFO;
  made.most = UNLIMITED;
  made.allowed = UNLIMITED;
  made.next_tick = NEVER;
  error = uvwheel__allocate_slots(&made);
  if (error != 0)
    return error;
  *core = made;
  list_init(&core->due);
  list_init(&core->drawn);
  for (i = 0; i < UVWHEEL_LANES; i++)
    list_init(&core->pending[i]);
  return 0;
}

void
uvwheel__core_destroy(uvwheel_core_t *core)
{
  free(core->slots);
  core->slots = NULL;
}

/* ---- Operations on entries ---------------------------------------------- */

void
uvwheel__entry_init(uvwheel_entry_t *entry)
{
  set_idle(entry);
}

/* Without entries there is nothing to wake up for: all slots are vacated. */
static NOINLINE void
remove_last(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  uint64_t number = 0;

  unlink_one(&entry->link);
  core->allowed++;
  while ((number = uvwheel__next_occupied(core, number)) <= core->slot_mask)
    uvwheel__vacate(core, number);
  core->passing = false;
  core->next_tick = NEVER;
}

/* The slot of a tick, claimed for it. */
static uvwheel_slot_t *
claim_slot_of(uvwheel_core_t *core, uint64_t tick)
{
  uvwheel_slot_t *slot = slot_of(core, tick);

  if (!is_claimed(slot, tick) || !is_prepared(slot))
    uvwheel__claim(core, tick);
  return slot;
}

/* Puts the entry into the slot of its tick. Returns whether the wheel has to
 * wake up earlier for it. */
static bool
put(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t tick)
{
  deal(core, claim_slot_of(core, tick), entry);
  if (tick >= core->next_tick)
    return false;
  core->next_tick = tick;
  return true;
}

/* Puts an entry that is on no list where it belongs. */
static bool
queue(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms)
{
  uint64_t tick = tick_after(core, due_ms);

  entry->due_ms = due_ms;
  /* The tick has been passed. Either it is that of the present pass; or the
   * clock has stepped back, or the insert is late: then the hand goes back to
   * before the tick. */
  if (UNLIKELY(tick <= core->hand)) {
    if (core->passing && tick == core->pass_tick) {
      append(&core->pending[core->pass_lanes - 1], &entry->link);
      return false;
    }
    core->hand = tick - 1;
  }
  return put(core, entry, tick);
}

int
uvwheel__core_insert(uvwheel_core_t *core, uvwheel_entry_t *entry,
                     uint64_t due_ms)
{
  MISUSE_IF(uvwheel__entry_is_active(entry), core, entry, "inserted twice");
  core->inserted++;
  return queue(core, entry, due_ms);
}

void
uvwheel__core_remove(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  if (!remove_fast(core, entry))
    remove_last(core, entry);
  set_idle(entry);
}

/* Moves an active entry to where it belongs now. */
static bool
requeue(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms)
{
  MISUSE_IF_OVERWRITTEN(core, &entry->link);
  unlink_one(&entry->link);
  return queue(core, entry, due_ms);
}

int
uvwheel__core_postpone(uvwheel_core_t *core, uvwheel_entry_t *entry,
                       uint64_t due_ms)
{
  if (!is_fifo(core) && postpone_in_place(entry, due_ms))
    return 0;
  return requeue(core, entry, due_ms);
}

/* ---- The pass ----------------------------------------------------------- */

/* Moves the lanes of a slot to the pending ones, and vacates it; false if they
 * are empty. Prefetches the second entry from each end, which is all that a
 * short lane has. */
static bool
take_lanes(uvwheel_core_t *core, uint64_t number)
{
  uvwheel_link_t *lanes = core->slots[number].lanes;
  bool any = false;
  uint64_t i;

  core->pass_lanes = core->slots[number].used;
  for (i = 0; i < core->pass_lanes; i++) {
    if (list_is_empty(&lanes[i]))
      continue;
    MISUSE_IF(lanes[i].next->prev != &lanes[i], core, entry_of(lanes[i].next),
              OVERWRITTEN);
    MISUSE_IF(lanes[i].prev->next != &lanes[i], core, entry_of(lanes[i].prev),
              OVERWRITTEN);
    PREFETCH(lanes[i].next->next);
    PREFETCH(lanes[i].prev->prev);
    splice_after(&core->pending[i], &lanes[i]);
    any = true;
  }
  uvwheel__vacate(core, number);
  return any;
}

/* Turns the hand to the next tick at which a slot wants a pass, if that is not
 * after now. */
static bool
begin_pass(uvwheel_core_t *core, uint64_t now_ms)
{
  uint64_t now_tick = tick_at(core, now_ms);

  if (now_tick > LAST_HAND)
    now_tick = LAST_HAND;
  while (core->next_tick <= now_tick) {
    uint64_t number = core->next_tick & core->slot_mask;
    core->hand = core->next_tick;
    if (core->slots[number].nearest == core->hand && take_lanes(core, number)) {
      core->pass_tick = core->hand;
      core->pass_ms = core->hand * core->tick_ms;
      core->passing = true;
      core->next_tick = core->hand + 1;
      return true;
    }
    core->next_tick = uvwheel__find_next_tick(core);
  }
  if (now_tick > core->hand)
    core->hand = now_tick;
  return false;
}

/* Looks at one entry, which is on no list any more. */
static void
sort_entry(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  uvwheel_slot_t *slot;
  bool stays;

  if (entry->due_ms < core->pass_ms) {
    append(&core->due, &entry->link);
    return;
  }
  slot = claim_slot_of(core, tick_after(core, entry->due_ms));
  stays = slot == slot_of(core, core->pass_tick);
  core->counters.rescheduled += !stays;
  if (stays && is_fifo(core))
    append(&slot->lanes[0], &entry->link);
  else
    deal(core, slot, entry);
}

/* Looks at the next chunk of the pass, within the budget: at one entry of each
 * lane in turn, so that the lanes' cache misses overlap; or, in a FIFO wheel,
 * at one lane after the other. What was looked at leaves its lane at once, at
 * the end: an unlink of each would write to neighbours that are cold in the
 * cache. */
static void
sort_chunk(uvwheel_core_t *core, uint64_t *budget)
{
  uint64_t limit = *budget < CHUNK ? *budget : CHUNK, left = limit, before, i;
  uint64_t lanes = core->pass_lanes;
  uvwheel_link_t *behind[UVWHEEL_LANES]; /* what was looked at last, */
  uvwheel_link_t *ahead[UVWHEEL_LANES];  /* and what comes next      */

  for (i = 0; i < lanes; i++) {
    behind[i] = &core->pending[i];
    ahead[i] = core->pending[i].next;
  }
  do {
    before = left;
    for (i = 0; i < lanes; i++)
      while (left > 0 && ahead[i] != &core->pending[i]) {
        uvwheel_link_t *link = ahead[i];
        MISUSE_IF(link->prev != behind[i], core, entry_of(link), OVERWRITTEN);
        behind[i] = link;
        ahead[i] = link->next;
        PREFETCH(ahead[i]);
        sort_entry(core, entry_of(link));
        left--;
        if (!is_fifo(core))
          break;
      }
  } while (left != before);
  for (i = 0; i < lanes; i++)
    join(&core->pending[i], ahead[i]);
  *budget -= limit - left;
  core->counters.examined += limit - left;
}

static void
end_pass(uvwheel_core_t *core)
{
  core->passing = false;
  core->next_tick = uvwheel__find_next_tick(core);
}

/* Returns what is left of a pass to its slot, as its tick, or an earlier one,
 * is yet to come. Except in a FIFO wheel each lane goes to the next one: passes
 * that are given up again and again, as by draws of a few entries, put entries
 * into the first lanes, which would become longer than the others. */
static void
give_up_pass(uvwheel_core_t *core)
{
  uvwheel_slot_t *slot = claim_slot_of(core, core->pass_tick);
  uint64_t i;

  for (i = 0; i < core->pass_lanes; i++)
    if (is_fifo(core))
      splice_after(slot->lanes[0].prev, &core->pending[i]);
    else
      splice_after(&slot->lanes[(i + 1) % core->pass_lanes], &core->pending[i]);
  splice_after(&slot->lanes[0], &core->due);
  if (slot->used < core->pass_lanes)
    slot->used = (uint16_t)core->pass_lanes;
  if (core->hand >= core->pass_tick)
    core->hand = core->pass_tick - 1;
  if (core->next_tick > core->pass_tick)
    core->next_tick = core->pass_tick;
  core->passing = false;
}

/* Of those that the pass found due: moves the first ones, if they were
 * postponed since, to where they belong, and returns the first that is due
 * still. */
static uvwheel_entry_t *
requeue_until_due(uvwheel_core_t *core)
{
  while (!list_is_empty(&core->due)) {
    uvwheel_entry_t *entry = entry_of(core->due.next);
    if (entry->due_ms < core->pass_ms)
      return entry;
    requeue(core, entry, entry->due_ms);
    core->counters.rescheduled++;
  }
  return NULL;
}

/* Turns the hand until an entry is found that is due by now. It stays active.
 */
static uvwheel_entry_t *
find_due(uvwheel_core_t *core, uint64_t now_ms, uint64_t *budget)
{
  if (UNLIKELY(core->passing &&
               (now_ms < core->pass_ms || core->hand < core->pass_tick)))
    give_up_pass(core);
  for (;;) {
    uvwheel_entry_t *entry = requeue_until_due(core);
    if (entry != NULL)
      return entry;
    if (core->passing && are_empty(core->pending, core->pass_lanes))
      end_pass(core);
    if (!core->passing && !begin_pass(core, now_ms))
      return NULL;
    if (*budget == 0)
      return NULL;
    sort_chunk(core, budget);
  }
}

uvwheel_entry_t *
uvwheel__core_expire(uvwheel_core_t *core, uint64_t now_ms, uint64_t *budget)
{
  uvwheel_entry_t *entry = find_due(core, now_ms, budget);

  if (entry != NULL) {
    core->counters.expired++;
    uvwheel__core_remove(core, entry);
  }
  return entry;
}

/* ---- Before their time -------------------------------------------------- */

uint64_t
uvwheel__core_draw(uvwheel_core_t *core, uint64_t now_ms, uint64_t count)
{
  uint64_t try = count, budget = try, drawn = 0, now_tick;
  uvwheel_entry_t *entry;

  /* Few are wanted, and many may be in the way. */
  while (drawn < count) {
    entry = find_due(core, LAST_MS, &budget);
    if (entry != NULL) {
      unlink_one(&entry->link);
      append(&core->drawn, &entry->link);
      core->drawn_ms = core->pass_ms;
      drawn++;
      budget = try = count - drawn;
    } else if (budget == 0) {
      budget = try *= 2;
    } else {
      break;
    }
  }
  if (core->passing && core->pass_ms > now_ms)
    give_up_pass(core);
  now_tick = tick_at(core, now_ms);
  if (core->hand > now_tick)
    core->hand = now_tick;
  return drawn;
}

uvwheel_entry_t *
uvwheel__core_take_drawn(uvwheel_core_t *core)
{
  while (!list_is_empty(&core->drawn)) {
    uvwheel_entry_t *entry = entry_of(core->drawn.next);
    if (entry->due_ms < core->drawn_ms) {
      core->counters.drawn++;
      uvwheel__core_remove(core, entry);
      return entry;
    }
    requeue(core, entry, entry->due_ms);
  }
  return NULL;
}

uint64_t
uvwheel__core_next_ms(const uvwheel_core_t *core)
{
  uint64_t tick = core->next_tick;

  if (core->passing && core->pass_tick < tick)
    tick = core->pass_tick;
  /* The reciprocal is UINT64_MAX / tick_ms. */
  if (tick > LAST_HAND || tick > core->reciprocal)
    return UINT64_MAX;
  return tick * core->tick_ms;
}
