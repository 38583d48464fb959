/* SPDX-License-Identifier: MIT */

/* The wheel.
 *
 *              slot 0     1     2     3        4 ... 511        512 slots,
 *             +-------+-----+-----+-------+-----+-----+         the default
 *   occupied  |   1   |  0  |  0  |   1   |  0  | ... |  a bit each
 *   nearest   | 512   |  -  |  -  | 1027  |  -  | ... |  a tick each
 *   lane      |   1   |  -  |  -  |  48   |  -  | ... |  the one to fill next
 *             +-------+-----+-----+-------+-----+-----+
 *   lanes       15 circular lists each
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
 * pass: each entry of the slot is due, or has been postponed and moves to the
 * slot of its new tick, or stays for a later round.
 *
 *   pass:   lanes of the slot  ->  pending  ->  due, handed out one by one
 *                                           ->  the lanes of another slot
 *                                           ->  staying  ->  back to the slot
 *
 * All lists belong to the wheel, so that an entry can be removed wherever it
 * is. Ticks at which no slot wants a pass are skipped, however many. The hand
 * can also run ahead of the clock, to draw those that are due soonest; then it
 * goes back to where the clock is.
 *
 * A remove is nothing but an unlink: nobody asks whether the slot is empty now.
 * A slot that the hand, or its search for the next tick, finds empty is vacated
 * then.
 *
 * What holds whenever no function of this file is running (uvwheel_core_check
 * tests it):
 *
 *   I1  The lists are circular, and links agree in both directions.
 *   I2  A slot that has an entry is occupied. (One that is occupied may have
 *       none, or the place of a walk.) The words of occupied bits before
 *       first_word and after last_word are 0. Slots that are not occupied have
 *       NEVER as their nearest tick.
 *   I3  The nearest tick of an occupied slot is one of its own ticks, after the
 *       hand, and no entry of the slot is due at an earlier tick. (None needs
 *       to be due at it, either: it may have been postponed or removed since.)
 *   I4  next_tick is after the hand or, in a pass, at it. It is not after the
 *       nearest tick of any slot nor, in a pass, after that of the pass. It is
 *       NEVER exactly if the wheel is empty, and anything if all that is left
 *       is drawn.
 *   I5  Outside a pass nothing is pending, staying or due.
 *   I6  inserted + most - allowed is the number of entries on all lists.
 *   I7  The entries of an occupied slot are in its first lanes, those up to the
 *       one that is being filled or, once it had all of them filled, in any. In
 *       a FIFO wheel the lanes, one after the other, are in order.
 *
 * Costs: insert, remove and expire are O(1) and touch two, three and two
 * entries; postpone to a later time is one store. An entry that waits for r
 * rounds is looked at r times at worst, once for each round in which another
 * entry of its slot was due. The search for the next useful tick looks at the
 * occupied slots ahead of the hand: one or two when the wheel is busy, all of
 * them, once per wake-up, when all entries are more than a round away.
 *
 * Why a slot has lanes stands in slot.c. Tried and dropped:
 *
 *   rounds counted down in the entry    writes to each entry in each round
 *   the place of an entry stored in it  8 bytes, to save a multiplication
 *   singly linked heads (8 bytes each)  no append, so no FIFO order
 *   the lane from a hash of the address no faster, and lanes of unequal length
 *   lanes in turn, not in runs          a slot with 15 entries has 15 lanes
 *   a slot vacated by its last remove   a stop looked for its slot, and whether
 *                                       that is empty: 12 ns where it takes 3
 *   all that is due moved before any    a million due at once stall the loop; a
 *     callback                          chunk at a time is in the cache still
 *   unlinking what a pass moves         writes to cold neighbours; see `lane`
 *   a hierarchy of wheels               moves each entry several times
 */

#include "uvwheel/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "core.h"

/* Entries that are due later than this are never due, and not drawn either. */
#define LAST_MS ((UINT64_C(1) << 63) - 1)

/* How many entries are looked at before those of them that are due are handed
 * out: few enough (16 KiB of entries) to be in the first cache level still. */
#define CHUNK 256

/* How many of each lane of a FIFO wheel are fetched before they are looked at:
 * 15,360 in all, which is 1 MB and fits the second cache level. */
#define FETCHED 1024

/* ---- Making and unmaking ------------------------------------------------ */

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
  made.fast_ms = RECIPROCAL_LIMIT(tick_ms);
  made.slot_mask = (UINT64_C(1) << bit_width(slots - 1)) - 1;
  made.fifo = flags & UVWHEEL_FIFO;
  made.most = UNLIMITED;
  made.allowed = UNLIMITED;
  made.next_tick = NEVER;
  made.first_word = made.slot_mask / 64;
  error = uvwheel__allocate_slots(&made);
  if (error != 0)
    return error;
  *core = made;
  list_init(&core->due);
  list_init(&core->drawn);
  for (i = 0; i < UVWHEEL_LANES; i++) {
    list_init(&core->pending[i]);
    list_init(&core->staying[i]);
  }
  return 0;
}

void
uvwheel_core_destroy(uvwheel_core_t *core)
{
  free(core->slots);
  core->slots = NULL;
}

/* ---- Operations on entries ---------------------------------------------- */

void
uvwheel_entry_init(uvwheel_entry_t *entry)
{
  set_idle(entry);
}

/* With the last entry all leaves that the wheel would wake up for. */
static NOINLINE void
remove_last(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  uint64_t end = 64 * core->last_word + 64, slot;

  unlink_one(&entry->link);
  core->allowed++;
  for (slot = next_occupied(core, 64 * core->first_word, end); slot < end;
       slot = next_occupied(core, slot + 1, end))
    uvwheel__vacate(core, slot);
  core->first_word = core->slot_mask / 64;
  core->last_word = 0;
  core->passing = false;
  core->next_tick = NEVER;
}

/* Puts the entry into the slot of its tick, and tells whether the wheel has to
 * wake up earlier for it. */
static bool
put(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t tick)
{
  uvwheel_slot_t *slot = slot_of(core, tick);

  if (!is_claimed(slot, tick))
    uvwheel__claim(core, tick);
  append(lane_of(slot), &entry->link);
  count_dealt(core, slot);
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
  /* Its tick has been passed: it is that of the pass that is going on; or the
   * caller's clock stepped back, or the caller comes late with it. Then the
   * hand goes back to before it. */
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
uvwheel_core_insert(uvwheel_core_t *core, uvwheel_entry_t *entry,
                    uint64_t due_ms)
{
  MISUSE_IF(uvwheel_entry_is_active(entry), core, entry, "inserted twice");
  core->inserted++;
  return queue(core, entry, due_ms);
}

void
uvwheel_core_remove(uvwheel_core_t *core, uvwheel_entry_t *entry)
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
uvwheel_core_postpone(uvwheel_core_t *core, uvwheel_entry_t *entry,
                      uint64_t due_ms)
{
  if (!is_fifo(core) && postpone_in_place(entry, due_ms))
    return 0;
  return requeue(core, entry, due_ms);
}

/* ---- The pass ----------------------------------------------------------- */

/* Takes the lanes of a slot over as the pending ones; false if they are empty.
 * What comes next at both ends of each is fetched: a short lane is here then.
 */
static bool
take_lanes(uvwheel_core_t *core, uint64_t number)
{
  uvwheel_slot_t *slot = &core->slots[number];
  uvwheel_link_t *lanes = slot->lanes;
  uint64_t count = uvwheel__lane_count(slot), i;
  bool any = false;

  for (i = 0; i < count; i++) {
    if (list_is_empty(&lanes[i]))
      continue;
    MISUSE_IF_OVERWRITTEN(core, lanes[i].next);
    MISUSE_IF_OVERWRITTEN(core, lanes[i].prev);
    PREFETCH(lanes[i].next->next);
    PREFETCH(lanes[i].prev->prev);
    splice_after(&core->pending[i], &lanes[i]);
    any = true;
  }
  core->pass_lanes = count;
  core->pass_run = slot->run;
  uvwheel__vacate(core, number);
  return any;
}

/* In a FIFO wheel the lanes are worked off one after the other, each a chain of
 * cache misses. So what begins them is fetched side by side. */
static void
fetch_lanes(uvwheel_core_t *core)
{
  const volatile uvwheel_link_t *at[UVWHEEL_LANES]; /* or it reads nothing */
  uint64_t steps = core->pass_run < FETCHED ? core->pass_run : FETCHED;
  uint64_t i;

  for (i = 0; i < core->pass_lanes; i++)
    at[i] = &core->pending[i];
  for (; steps > 0; steps--)
    for (i = 0; i < core->pass_lanes; i++)
      at[i] = at[i]->next;
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
    uint64_t slot = core->next_tick & core->slot_mask;
    core->hand = core->next_tick;
    if (nearest_of(&core->slots[slot]) == core->hand &&
        take_lanes(core, slot)) {
      core->pass_tick = core->hand;
      core->pass_ms = core->hand * core->tick_ms;
      core->pass_nearest = NEVER;
      core->passing = true;
      if (is_fifo(core) && core->pass_lanes > 1)
        fetch_lanes(core);
      return true;
    }
    core->next_tick = uvwheel__find_next_tick(core);
  }
  if (now_tick > core->hand)
    core->hand = now_tick;
  return false;
}

/* Of a pending lane: the links up to `kept` were looked at and stay, those from
 * `ahead` on were not looked at, and those in between (x) have been put
 * elsewhere, though the lane still leads through them. The gap is closed when
 * the next one stays, so that nobody writes to neighbours that are cold in the
 * cache. With the fourth one just looked at:
 *
 *   before   head - a - x - x - d - e - f      d stays:
 *                   kept        ahead
 *
 *   after    head - a - d - e - f
 *                       kept
 *                           ahead
 */
struct lane {
  uvwheel_link_t *kept;
  uvwheel_link_t *ahead;
  uvwheel_link_t *behind; /* the last one looked at; to notice misuse */
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
    put(core, entry, tick);
    core->counters.moved++;
    return;
  }
  if (lane->kept->next != &entry->link)
    join(lane->kept, &entry->link);
  lane->kept = &entry->link;
  if (tick < core->pass_nearest)
    core->pass_nearest = tick;
}

/* Looks at the next entry of a lane. */
static inline void
sort_next(uvwheel_core_t *core, struct lane *lane)
{
  uvwheel_link_t *link = lane->ahead;

  MISUSE_IF(link->prev != lane->behind, core, entry_of(link), OVERWRITTEN);
  lane->behind = link;
  lane->ahead = link->next;
  PREFETCH(lane->ahead);
  sort_entry(core, lane, entry_of(link));
}

/* Looks at entries of the pending lanes: one of each in turn, so that the cache
 * misses of one lane pass while the others are worked on; or, as the order of a
 * FIFO wheel is, one lane after the other. Returns how many. */
static uint64_t
sort_lanes(uvwheel_core_t *core, struct lane *lanes, uint64_t limit)
{
  uint64_t count = core->pass_lanes, looked = 0, before, i;
  bool fifo = is_fifo(core);

  do {
    before = looked;
    for (i = 0; i < count; i++)
      while (lanes[i].ahead != &core->pending[i] && looked < limit) {
        sort_next(core, &lanes[i]);
        looked++;
        if (!fifo)
          break;
      }
  } while (looked != before);
  return looked;
}

/* Goes on with the pass by one chunk, at most the budget. No callback runs
 * meanwhile, so the places in the lanes can be kept in variables. */
static void
sort_chunk(uvwheel_core_t *core, uint64_t *budget)
{
  struct lane lanes[UVWHEEL_LANES];
  uint64_t looked, i;

  for (i = 0; i < core->pass_lanes; i++) {
    lanes[i].kept = &core->pending[i];
    lanes[i].ahead = core->pending[i].next;
    lanes[i].behind = &core->pending[i];
  }
  looked = sort_lanes(core, lanes, *budget < CHUNK ? *budget : CHUNK);
  for (i = 0; i < core->pass_lanes; i++) {
    uvwheel_link_t *head = &core->pending[i], *stay = &core->staying[i];
    if (lanes[i].kept != head) {
      join(stay->prev, head->next);
      join(lanes[i].kept, stay);
    }
    join(head, lanes[i].ahead);
  }
  *budget -= looked;
  core->counters.looked += looked;
}

/* Puts entries of a pass back into a lane of its slot, before those that have
 * been put there meanwhile: the order of a lane is that of starts. Lanes of a
 * FIFO wheel may have been joined since. None is due before the tick. */
static void
put_back(uvwheel_core_t *core, uint64_t lane, uvwheel_link_t *list,
         uint64_t tick)
{
  uvwheel_slot_t *slot = slot_of(core, tick);

  if (list_is_empty(list))
    return;
  if (!is_claimed(slot, tick))
    uvwheel__claim(core, tick);
  if (is_fifo(core))
    lane = lane * core->pass_run / slot->run;
  splice_after(&slot->lanes[lane], list);
}

static void
end_pass(uvwheel_core_t *core)
{
  uint64_t i;

  for (i = core->pass_lanes; i-- > 0;)
    put_back(core, i, &core->staying[i], core->pass_nearest);
  core->passing = false;
}

/* The clock stepped back in the middle of a pass, or the hand ran ahead of it:
 * its tick, or one for which an entry was inserted meanwhile, is yet to come.
 */
static void
give_up_pass(uvwheel_core_t *core)
{
  uint64_t i;

  if (core->hand >= core->pass_tick)
    core->hand = core->pass_tick - 1;
  for (i = core->pass_lanes; i-- > 0;) {
    put_back(core, i, &core->pending[i], core->pass_tick);
    put_back(core, i, &core->staying[i], core->pass_tick);
  }
  put_back(core, 0, &core->due, core->pass_tick);
  core->passing = false;
}

/* The first of those that the pass found due and that were not postponed since.
 */
static uvwheel_entry_t *
first_due(uvwheel_core_t *core)
{
  while (!list_is_empty(&core->due)) {
    uvwheel_entry_t *entry = entry_of(core->due.next);
    if (entry->due_ms < core->pass_ms)
      return entry;
    requeue(core, entry, entry->due_ms);
    core->counters.moved++;
  }
  return NULL;
}

/* Turns the hand until an entry is due by now, which is still active then. */
static uvwheel_entry_t *
find_due(uvwheel_core_t *core, uint64_t now_ms, uint64_t *budget)
{
  if (UNLIKELY(core->passing &&
               (now_ms < core->pass_ms || core->hand < core->pass_tick)))
    give_up_pass(core);
  for (;;) {
    uvwheel_entry_t *entry = first_due(core);
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
uvwheel_core_expire(uvwheel_core_t *core, uint64_t now_ms, uint64_t *budget)
{
  uvwheel_entry_t *entry = find_due(core, now_ms, budget);

  if (entry != NULL) {
    core->counters.expired++;
    uvwheel_core_remove(core, entry);
  }
  return entry;
}

/* ---- Before their time -------------------------------------------------- */

uint64_t
uvwheel_core_draw(uvwheel_core_t *core, uint64_t now_ms, uint64_t count)
{
  uint64_t budget = UINT64_MAX, drawn = 0, now_tick = tick_at(core, now_ms);
  uvwheel_entry_t *entry;

  if (list_is_empty(&core->drawn))
    core->drawn_ms = 0;
  while (drawn < count && (entry = find_due(core, LAST_MS, &budget)) != NULL) {
    unlink_one(&entry->link);
    append(&core->drawn, &entry->link);
    if (core->pass_ms > core->drawn_ms)
      core->drawn_ms = core->pass_ms;
    drawn++;
  }
  if (core->passing && core->pass_ms > now_ms)
    give_up_pass(core);
  if (core->hand > now_tick)
    core->hand = now_tick;
  return drawn;
}

uvwheel_entry_t *
uvwheel_core_take_drawn(uvwheel_core_t *core)
{
  while (!list_is_empty(&core->drawn)) {
    uvwheel_entry_t *entry = entry_of(core->drawn.next);
    if (entry->due_ms < core->drawn_ms) {
      core->counters.drawn++;
      uvwheel_core_remove(core, entry);
      return entry;
    }
    requeue(core, entry, entry->due_ms);
  }
  return NULL;
}

uint64_t
uvwheel_core_next_ms(const uvwheel_core_t *core)
{
  uint64_t tick = core->next_tick;

  /* The reciprocal is UINT64_MAX / tick_ms. */
  if (tick > LAST_HAND || tick > core->reciprocal)
    return UINT64_MAX;
  return tick * core->tick_ms;
}
