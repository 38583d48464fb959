/* SPDX-License-Identifier: MIT */

/* The wheel.
 *
 *              slot 0     1     2     3        4 ... 511        512 slots,
 *             +-------+-----+-----+-------+-----+-----+         the default
 *   occupied  |   1   |  0  |  0  |   1   |  0  | ... |  a bit each
 *   nearest   | 512   |  -  |  -  | 1027  |  -  | ... |  a tick each
 *             +-------+-----+-----+-------+-----+-----+
 *   lanes       16 circular lists each
 *               |                   |
 *             lane 0: e e e       lane 0: e e
 *             lane 1: e e         lane 1: e
 *               ...                 ...
 *                           ^
 *                           hand: the last tick that was passed, here 2
 *
 * An entry that is due at due_ms waits for tick due_ms / tick_ms + 1, in slot
 * tick % slots. It has (tick - hand) / slots rounds to go; nothing is stored or
 * counted down for that, because the due time tells it.
 *
 * A refresh changes the due time and nothing else. So an entry may stand in a
 * slot that the hand reaches before the entry is due, never in one that it
 * reaches after. When the hand comes to a slot at its nearest tick it makes a
 * pass: each entry of the slot is due, or has been postponed and moves to the
 * slot of its new tick, or stays for a later round.
 *
 *   pass:   lanes of the slot  ->  pending  ->  due, handed out one by one
 *                                           ->  the lanes of another slot
 *                                           ->  staying  ->  back to the slot
 *
 * All lists belong to the wheel, so that an entry can be removed wherever it
 * is. Ticks at which no slot wants a pass are skipped, however many.
 *
 * What holds whenever no function of this file is running (uvwheel_core_check
 * tests it):
 *
 *   I1  The lists are circular, and links agree in both directions.
 *   I2  A slot is occupied exactly if an entry, or the place of a walk, is in
 *       one of its lanes. The lanes of other slots have no meaning; nobody
 *       has to initialise them. Their nearest tick is NEVER.
 *   I3  The nearest tick of a slot is one of its own ticks, after the hand, and
 *       no entry of the slot is due at an earlier tick. (None needs to be due
 *       at it, either: it may have been postponed or removed since.)
 *   I4  next_tick is not after the nearest tick of any slot nor, in a pass,
 *       after that of the pass. It is NEVER exactly if the wheel is empty.
 *   I5  Outside a pass nothing is pending, staying or due.
 *   I6  count is the number of entries on all lists.
 *
 * Costs: insert, remove and expire are O(1) and touch two, three and two
 * entries; postpone to a later time is one store. An entry that waits for r
 * rounds is looked at r times at worst, once for each round in which another
 * entry of its slot was due. The search for the next useful tick looks at the
 * occupied slots ahead of the hand: one or two when the wheel is busy, all of
 * them, once per wake-up, when all entries are more than a round away.
 *
 * Why lanes: one long list is a chain of cache misses, each of which has to end
 * before the next begins. Lanes are drained side by side, so that their misses
 * overlap. Expiry of a timer among a million took 63 ns with 4 lanes, 40 with
 * 8, 24 with 16 and 22 with 32; a lane costs 16 bytes per slot.
 *
 * Tried and dropped:
 *
 *   rounds counted down in the entry    writes to each entry in each round
 *   the place of an entry stored in it  8 bytes, to save a multiplication
 *   singly linked heads (8 bytes each)  no append, so no FIFO order
 *   the lane from a hash of the address no faster, and lanes of unequal length
 *   all that is due moved before any    a million due at once stall the loop; a
 *     callback                          chunk at a time is in the cache still
 *   unlinking what a pass moves         writes to cold neighbours; see `lane`
 *   a hierarchy of wheels               moves each entry several times
 */

#include "uvwheel/wheel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

/* How many entries are looked at before those of them that are due are handed
 * out: few enough (16 KiB of entries) to be in the first cache level still. */
#define CHUNK 256

/* ---- Ticks -------------------------------------------------------------- */

uint64_t
uvwheel__far_tick_after(const uvwheel_core_t *core, uint64_t ms)
{
  uint64_t tick = ms / core->tick_ms;

  return tick < LAST_TICK ? tick + 1 : LAST_TICK;
}

/* ---- Slots -------------------------------------------------------------- */

/* Makes the slot ready to take an entry that is due at the tick (I2, I3). */
static void
claim(uvwheel_core_t *core, uint64_t slot, uint64_t tick)
{
  uvwheel_link_t *lanes = lanes_of(core, slot);
  unsigned i;

  if (!is_occupied(core, slot)) {
    core->occupied[slot / 64] |= UINT64_C(1) << (slot % 64);
    for (i = 0; i < UVWHEEL_LANES; i++)
      list_init(&lanes[i]);
  }
  core->nearest[slot] = tick;
}

static void
vacate(uvwheel_core_t *core, uint64_t slot)
{
  core->occupied[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
  core->nearest[slot] = NEVER;
}

static bool
are_empty(const uvwheel_core_t *core, const uvwheel_link_t *lanes)
{
  unsigned i;

  for (i = 0; i < lane_count(core); i++)
    if (!list_is_empty(&lanes[i]))
      return false;
  return true;
}

/* Takes a link off its list. If that was the last one of its slot, the slot is
 * empty now (I2), so that nobody wakes up for it. */
void
uvwheel__take_off(uvwheel_core_t *core, uvwheel_link_t *link)
{
  uvwheel_link_t *head = link->next;
  uint64_t offset, slot;

  if (take_from_others(core, link))
    return;
  list_init(head);
  /* As numbers, because the heads of the wheel's own lists are no part of
   * this array. */
  offset = (uint64_t)((uintptr_t)head - (uintptr_t)core->lanes);
  slot = offset / (sizeof *head * UVWHEEL_LANES);
  if (slot <= core->slot_mask && are_empty(core, lanes_of(core, slot)))
    vacate(core, slot);
}

/* Puts the entry into the slot of the tick at which it is due, and tells
 * whether the wheel has to wake up earlier for it. */
static bool
place(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t tick)
{
  if (!is_claimed(core, tick))
    claim(core, tick & core->slot_mask, tick);
  place_beside(core, entry, tick);
  if (tick >= core->next_tick)
    return false;
  core->next_tick = tick;
  return true;
}

/* The first tick after the hand at which a slot wants a pass. Slots are asked
 * in the order in which the hand meets them, so the first whose nearest tick
 * lies within this round has it. */
static uint64_t
find_next_tick(const uvwheel_core_t *core)
{
  uint64_t first = core->hand + 1;
  uint64_t start = first & core->slot_mask;
  uint64_t slots = core->slot_mask + 1;
  uint64_t earliest = NEVER;
  uint64_t begin = start, end = slots;
  int half;

  for (half = 0; half < 2; half++) {
    uint64_t slot = next_occupied(core, begin, end);
    for (; slot < end; slot = next_occupied(core, slot + 1, end)) {
      uint64_t nearest = core->nearest[slot];
      if (nearest - first <= core->slot_mask)
        return nearest;
      if (nearest < earliest)
        earliest = nearest;
    }
    begin = 0;
    end = start;
  }
  return earliest;
}

/* ---- Making and unmaking ------------------------------------------------ */

/* One block holds the lanes, the nearest ticks and the occupied bits. calloc
 * gives it as untouched zero pages, and the lanes remain so until used (I2). */
static int
allocate_slots(uvwheel_core_t *core)
{
  uint64_t slots = core->slot_mask + 1;
  uint64_t lanes_size = sizeof(uvwheel_link_t) * slots * UVWHEEL_LANES;
  uint64_t nearest_size = sizeof(uint64_t) * slots;
  uint64_t bits_size = sizeof(uint64_t) * ((slots + 63) / 64);
  uint64_t size = lanes_size + nearest_size + bits_size;

  if (size > SIZE_MAX)
    return ENOMEM;
  core->lanes = calloc(1, (size_t)size);
  if (core->lanes == NULL)
    return ENOMEM;
  core->nearest = (uint64_t *)(core->lanes + slots * UVWHEEL_LANES);
  core->occupied = core->nearest + slots;
  memset(core->nearest, 0xff, (size_t)nearest_size); /* NEVER */
  return 0;
}

int
uvwheel_core_init(uvwheel_core_t *core, uint64_t tick_ms, uint32_t slots,
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
  made.near_ms = RECIPROCAL_LIMIT(tick_ms);
  made.slot_mask = (UINT64_C(1) << bit_width(slots - 1)) - 1;
  made.lane_mask = (flags & UVWHEEL_FIFO) ? 0 : UVWHEEL_LANES - 1;
  made.next_tick = NEVER;
  error = allocate_slots(&made);
  if (error != 0)
    return error;
  *core = made;
  list_init(&core->due);
  for (i = 0; i < UVWHEEL_LANES; i++) {
    list_init(&core->pending[i]);
    list_init(&core->staying[i]);
  }
  return 0;
}

void
uvwheel_core_destroy(uvwheel_core_t *core)
{
  free(core->lanes);
  core->lanes = NULL;
}

/* ---- Operations on entries ---------------------------------------------- */

void
uvwheel_entry_init(uvwheel_entry_t *entry)
{
  set_idle(entry);
}

/* The last entry has left. Slots that walks have their places in look occupied
 * still: their nearest ticks must not stand in the way of the next start. */
static void
become_empty(uvwheel_core_t *core)
{
  uint64_t slots = core->slot_mask + 1, slot;

  core->passing = false;
  core->next_tick = NEVER;
  if (core->cursor == NULL)
    return;
  for (slot = next_occupied(core, 0, slots); slot < slots;
       slot = next_occupied(core, slot + 1, slots))
    core->nearest[slot] = NEVER;
}

/* Puts an entry that is on no list where it belongs. */
static inline bool
enter(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms)
{
  uint64_t tick = tick_after(core, due_ms);

  entry->due_ms = due_ms;
  /* Due before the hand: in the pass that is going on; or else the caller's
   * clock stepped back, or he is late. */
  if (UNLIKELY(tick <= core->hand)) {
    if (core->passing && tick == core->pass_tick) {
      append(&core->pending[core->counters.placed++ & core->lane_mask],
             &entry->link);
      return false;
    }
    core->hand = tick - 1;
  }
  return place(core, entry, tick);
}

int
uvwheel_core_insert(uvwheel_core_t *core, uvwheel_entry_t *entry,
                    uint64_t due_ms)
{
  if (insert_beside(core, entry, due_ms))
    return 0;
  core->count++;
  return enter(core, entry, due_ms);
}

void
uvwheel_core_remove(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  uvwheel__take_off(core, &entry->link);
  set_idle(entry);
  core->count--;
  if (core->count == 0)
    become_empty(core);
}

int
uvwheel_core_postpone(uvwheel_core_t *core, uvwheel_entry_t *entry,
                      uint64_t due_ms)
{
  if (!is_fifo(core) && postpone_in_place(entry, due_ms))
    return 0;
  core->counters.requeued++;
  uvwheel__take_off(core, &entry->link);
  return enter(core, entry, due_ms);
}

/* ---- The pass ----------------------------------------------------------- */

/* Puts all entries of one list in front of those of another one. */
static void
take_over(uvwheel_core_t *core, uvwheel_link_t *to, uvwheel_link_t *from)
{
  CHECK(from->next->prev == from, core, entry_of(from->next), OVERWRITTEN);
  CHECK(from->prev->next == from, core, entry_of(from->prev), OVERWRITTEN);
  splice_after(to, from->next, from->prev);
}

/* Turns the hand to the next tick at which a slot wants a pass, if that is not
 * after now, and takes that slot's lanes over as the pending ones. */
static bool
begin_pass(uvwheel_core_t *core, uint64_t now_ms)
{
  uint64_t now_tick = now_ms / core->tick_ms;

  if (now_tick > LAST_HAND)
    now_tick = LAST_HAND;
  while (core->next_tick <= now_tick) {
    uint64_t slot = core->next_tick & core->slot_mask;
    core->hand = core->next_tick;
    if (core->nearest[slot] == core->hand) {
      uvwheel_link_t *lanes = lanes_of(core, slot);
      unsigned i;
      for (i = 0; i < lane_count(core); i++)
        if (!list_is_empty(&lanes[i]))
          take_over(core, &core->pending[i], &lanes[i]);
      vacate(core, slot);
      core->pass_tick = core->hand;
      core->pass_ms = core->hand * core->tick_ms;
      core->pass_nearest = NEVER;
      core->passing = true;
      return true;
    }
    core->next_tick = find_next_tick(core);
  }
  if (now_tick > core->hand)
    core->hand = now_tick;
  return false;
}

/* Of a pending lane: the links up to `kept` were looked at and stay in their
 * slot, those from `ahead` on were not looked at. What was between the two has
 * been put elsewhere, and the gap is closed only when the next link stays:
 * an entry's neighbours, cold in the cache, are not written for it. */
struct lane {
  uvwheel_link_t *kept;
  uvwheel_link_t *ahead;
  uvwheel_link_t *behind; /* the last one looked at; for a checks build */
};

/* Looks at one entry: it is due, or moves to another slot, or stays. */
static void
sort_entry(uvwheel_core_t *core, struct lane *lane, uvwheel_entry_t *entry)
{
  uint64_t tick;

  if (entry->due_ms < core->pass_ms) {
    append(&core->due, &entry->link);
    return;
  }
  tick = tick_after(core, entry->due_ms);
  if (((tick ^ core->pass_tick) & core->slot_mask) != 0) {
    place(core, entry, tick);
    core->counters.moved++;
    return;
  }
  if (lane->kept->next != &entry->link)
    join(lane->kept, &entry->link);
  lane->kept = &entry->link;
  if (tick < core->pass_nearest)
    core->pass_nearest = tick;
}

/* Looks at entries of the pending lanes in turn, so that the cache misses of
 * one lane pass while the others are worked on. Returns how many. */
static uint64_t
sort_lanes(uvwheel_core_t *core, struct lane *lanes, uint64_t limit)
{
  uint64_t count = lane_count(core), looked = 0, before, i;

  do {
    before = looked;
    for (i = 0; i < count && looked < limit; i++) {
      uvwheel_link_t *link = lanes[i].ahead;
      if (link == &core->pending[i])
        continue;
      CHECK(link->prev == lanes[i].behind, core, entry_of(link), OVERWRITTEN);
      lanes[i].behind = link;
      lanes[i].ahead = link->next;
      PREFETCH(lanes[i].ahead);
      sort_entry(core, &lanes[i], entry_of(link));
      looked++;
    }
  } while (looked < limit && looked != before);
  return looked;
}

/* Goes on with the pass by one chunk, at most the budget. No callback runs
 * meanwhile, so the places in the lanes can be kept in variables. */
static void
sort_chunk(uvwheel_core_t *core, uint64_t *budget)
{
  struct lane lanes[UVWHEEL_LANES];
  uint64_t count = lane_count(core), looked, i;

  for (i = 0; i < count; i++) {
    lanes[i].kept = &core->pending[i];
    lanes[i].ahead = core->pending[i].next;
    lanes[i].behind = &core->pending[i];
  }
  looked = sort_lanes(core, lanes, *budget < CHUNK ? *budget : CHUNK);
  for (i = 0; i < count; i++) {
    uvwheel_link_t *head = &core->pending[i], *first = head->next;
    if (lanes[i].kept != head)
      splice_after(core->staying[i].prev, first, lanes[i].kept);
    join(head, lanes[i].ahead);
  }
  *budget -= looked;
  core->counters.looked += looked;
}

/* Puts the entries of a pass back into a lane of its slot, before those that
 * have been started into it meanwhile: the order of a lane is that of starts.
 * None of them is due before the tick. */
static void
give_back(uvwheel_core_t *core, unsigned lane, uvwheel_link_t *list,
          uint64_t tick)
{
  uint64_t slot = core->pass_tick & core->slot_mask;

  if (list_is_empty(list))
    return;
  if (tick < core->nearest[slot])
    claim(core, slot, tick);
  take_over(core, &lanes_of(core, slot)[lane], list);
  list_init(list);
}

static void
end_pass(uvwheel_core_t *core)
{
  unsigned i;

  for (i = 0; i < lane_count(core); i++)
    give_back(core, i, &core->staying[i], core->pass_nearest);
  core->passing = false;
}

/* The clock stepped back in the middle of a pass: its tick, or one for which
 * an entry was inserted meanwhile, is yet to come. */
static void
give_up_pass(uvwheel_core_t *core)
{
  unsigned i;

  if (core->hand >= core->pass_tick)
    core->hand = core->pass_tick - 1;
  for (i = 0; i < lane_count(core); i++) {
    give_back(core, i, &core->pending[i], core->pass_tick);
    give_back(core, i, &core->staying[i], core->pass_tick);
  }
  give_back(core, 0, &core->due, core->pass_tick);
  core->passing = false;
}

/* Hands out what the pass found due, unless it was postponed since. */
static uvwheel_entry_t *
take_due(uvwheel_core_t *core)
{
  while (!list_is_empty(&core->due)) {
    uvwheel_entry_t *entry = entry_of(core->due.next);
    if (entry->due_ms < core->pass_ms) {
      core->counters.expired++;
      uvwheel_core_remove(core, entry);
      return entry;
    }
    uvwheel__take_off(core, &entry->link);
    place(core, entry, tick_after(core, entry->due_ms));
    core->counters.moved++;
  }
  return NULL;
}

uvwheel_entry_t *
uvwheel_core_expire(uvwheel_core_t *core, uint64_t now_ms, uint64_t *budget)
{
  if (UNLIKELY(core->passing &&
               (now_ms < core->pass_ms || core->hand < core->pass_tick)))
    give_up_pass(core);
  for (;;) {
    uvwheel_entry_t *entry = take_due(core);
    if (entry != NULL)
      return entry;
    if (core->passing && are_empty(core, core->pending))
      end_pass(core);
    if (!core->passing && !begin_pass(core, now_ms))
      return NULL;
    if (*budget == 0)
      return NULL;
    sort_chunk(core, budget);
  }
}

uint64_t
uvwheel_core_next_ms(const uvwheel_core_t *core)
{
  uint64_t tick = core->next_tick;
  bool is_reached = tick <= LAST_HAND && tick <= UINT64_MAX / core->tick_ms;

  return is_reached ? tick * core->tick_ms : UINT64_MAX;
}
