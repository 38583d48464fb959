/* SPDX-License-Identifier: MIT */

/* The core: the wheel itself.
 *
 *              slot 0     1     2     3        4 ... 511        512 slots,
 *             +-------+-----+-----+-------+-----+-----+         the default
 *   occupied  |   1   |  0  |  0  |   1   |  0  | ... |  a bit each
 *   next_pass |  512  |  -  |  -  | 1027  |  -  | ... |  a tick each
 *             +-------+-----+-----+-------+-----+-----+
 *   lanes       up to 15 circular lists each
 *               |                   |
 *             lane 0: e e e e     lane 0: e e e
 *             lane 1: e
 *                              ^
 *                              hand: slots are passed up to tick 2
 *
 *   tick   a multiple of tick_ms: tick k happens at time k * tick_ms
 *   due    an entry is due at due_ms and expires at the first tick after that
 *   slot   a place for the entries of the ticks k, k + slots ...
 *   lane   one of the lists of a slot
 *   hand   slots are passed up to this tick; a draw may move it ahead of time
 *   round  one revolution of the hand around all slots
 *   pass   examines the entries of the slot that the hand has come to
 *   draw   to take the entries that are due soonest out before their time
 *
 * One wheel suits idle timeouts. A server refreshes timers at each packet, and
 * few expire: so a refresh is mostly one store. Its timeouts are alike: a round
 * can be longer than most, so an entry is examined about once per timeout. A
 * silent connection may be closed after 60.0 or 60.1 s: a tick needs no order.
 *
 * An entry that is due at due_ms waits for the tick that tick_after returns,
 * and belongs to slot tick % slots. How many rounds it has to go is not
 * stored; rounds_of computes it.
 *
 * A refresh to a later due time changes nothing else. So an entry may be in a
 * slot that the hand reaches before the entry's tick, but not after it. When
 * the hand comes to the tick of a slot's next pass, it takes the lanes of the
 * slot, which is empty then, and examines the entries. An entry that is not due
 * goes into the slot of its tick: the same if it only waits for a later round.
 *
 *   pass:   lanes of the slot  ->  pending  ->  due, handed out one by one
 *                                           ->  the slot of its tick
 *
 * An entry is on one of the wheel's own lists until it is handed out: so a
 * remove is an unlink. A slot that becomes empty may stay occupied.
 *
 * A slot of a FIFO wheel has one lane. A pass keeps the entries that stay in
 * the slot, and puts them back before what was inserted meanwhile.
 *
 * A walk vacates all slots. Their lanes become unvisited ones, which it takes
 * entries from in turn, so that their cache misses overlap. It puts an entry
 * back into its slot, then returns it. It begins at the end of each lane and
 * puts entries in front of their slots: so FIFO slots keep their order.
 *
 * A pass is given up when an entry is put at an earlier tick, after a draw, and
 * before a walk.
 *
 * The invariants between calls (insert and put are one), which tests check:
 *
 *   I1  The lists are circular, and links agree in both directions.
 *   I2  A slot that has an entry is occupied. A slot that is not occupied has
 *       no next pass. No slot of a word of the occupied bits has a next pass
 *       before the word's bound.
 *   I3  The next pass of an occupied slot is at one of its own ticks, after the
 *       hand, and no entry of the slot is due at an earlier tick. (Maybe none
 *       is due at it, either: entries may have been postponed or removed.)
 *   I4  next_tick is after the hand; in a pass it equals the hand. It is not
 *       after the next pass of any slot, and NEVER if the wheel is empty.
 *   I5  Outside a pass nothing is pending, due or kept. In a pass the hand is
 *       at its tick, and nothing that is due at that tick waits in its slot.
 *       Kept entries are due at the tick of their slot's next pass or later.
 *   I6  All lists together have as many entries as are active.
 *   I7  The entries of an occupied slot are in the lanes that it uses, which
 *       are its first lanes. The pending entries are in the first pass_lanes.
 *
 * A remove (but for the last) is O(1), as insert and expire mostly are. The
 * search for the next tick looks at few slots when the wheel is busy; it can
 * skip 64 slots at a time. A draw is mostly O(count); it also examines entries
 * on the way that were postponed or wait for a later round.
 *
 * Tried and dropped:
 *
 *   rounds counted down in the entry    writes to entries in each round
 *   the slot of an entry stored in it   8 bytes, to save a multiplication
 *   entries of a later round set aside  rules for the pass, and lanes that
 *                                         decay over days
 *   2^20 slots                          16,384 words of bits to search
 *   a hierarchy of wheels               moves entries several times */

#include "core.h"

/* The clock's last time. Entries due later are not drawn. */
#define LAST_MS ((UINT64_C(1) << 63) - 1)

/* ---- Making ------------------------------------------------------------- */

size_t uvwheel__core_size(uint64_t tick_ms, uint32_t slots, uint32_t flags) {
  if (tick_ms == 0 || tick_ms > UVWHEEL_MAX_TICK_MS || slots == 0 ||
      slots > UVWHEEL_MAX_SLOTS || (flags & ~UVWHEEL_FIFO) != 0)
    return 0;
  return slots * sizeof(slot_t) + (slots + 63) / 64 * 2 * sizeof(uint64_t);
}

void uvwheel__core_init(core_t *core, uint64_t tick_ms, uint32_t slots,
                        uint32_t flags, void *memory) {
  uint64_t words = (slots + 63) / 64, i;

  MUST_HOLD(uvwheel__core_size(tick_ms, slots, flags) != 0);
  MUST_HOLD((slots & (slots - 1)) == 0);
  MUST_HOLD((uintptr_t)memory % sizeof(uint64_t) == 0);
  *core =
      (core_t){.tick_ms = tick_ms,
               .reciprocal = UINT64_MAX / tick_ms,
               .reciprocal_ms = (UINT64_C(1) << 63) / tick_ms,
               .slot_mask = slots - 1,
               .lanes_end = (flags & UVWHEEL_FIFO) ? offsetof(slot_t, lanes[1])
                                                   : sizeof(slot_t),
               .slots = memory,
               .next_tick = NEVER};
  core->occupied = (uint64_t *)(core->slots + slots);
  core->bounds = core->occupied + words;
  for (i = 0; i < words; i++)
    core->bounds[i] = NEVER;
  for (i = 0; i < MAX_LANES; i++) {
    list_init(&core->pending[i]);
    list_init(&core->unvisited[i]);
  }
  list_init(&core->due);
  list_init(&core->kept);
  list_init(&core->drawn);
}

/* ---- Slots --------------------------------------------------------------- */

/* One long list is a chain of cache misses, each of which has to end before the
 * next begins. So a slot has several lists, its lanes, which are drained side
 * by side, so that their misses overlap. Expiry of a timer among a million took
 * 63 ns with 4 lanes, 40 with 8, 24 with 16 and 22 with 32. (On 64-bit systems
 * a lane takes 16 bytes per slot, 15 and the other fields take 256.) */

/* Plans the next pass of a slot at one of its ticks (I2, I3).
 * Requires: the slot's next pass, if any, is planned for a later tick.
 * Ensures: the slot is occupied, and its first lane is in use. */
static NOINLINE void plan_pass(core_t *core, uint64_t tick) {
  uint64_t slot_index = tick & core->slot_mask, word = slot_index / 64;
  slot_t *slot = &core->slots[slot_index];

  MUST_HOLD(tick >= core->hand && !has_pass_by(slot, tick));
  if (tick < core->bounds[word])
    core->bounds[word] = tick;
  core->occupied[word] |= UINT64_C(1) << (slot_index % 64);
  if (slot->next_pass == 0) {
    core->slots_in_use++;
    slot->lanes_used = FIRST_LANE;
    open_lane(core, slot, FIRST_LANE);
  }
  slot->next_pass = tick;
}

/* Marks a slot as not occupied.
 * Requires: it is occupied, and has no entry. */
static NOINLINE void vacate(core_t *core, uint64_t slot_index) {
  uint64_t word = slot_index / 64;

  MUST_HOLD(core->slots[slot_index].next_pass != 0);
  core->occupied[word] &= ~(UINT64_C(1) << (slot_index % 64));
  if (core->occupied[word] == 0)
    core->bounds[word] = NEVER;
  core->slots[slot_index].next_pass = 0;
  core->slots_in_use--;
}

/* ---- The next tick ------------------------------------------------------ */

/* Sets the bound of a word to the tick of the first pass of its slots, unless
 * the bound is more than a round away. The bits are rotated into the order in
 * which the hand meets the slots, from `bit` on: in that order the first slot
 * whose pass is within the round has the earliest of the word. */
static NOINLINE void search_word(core_t *core, uint64_t word, uint64_t bit) {
  uint64_t bits = core->occupied[word], soonest = NEVER;
  uint64_t round_end = core->hand + core->slot_mask + 1;

  bits = bits >> bit | bits << (-bit % 64);
  if (core->bounds[word] > round_end)
    return;
  for (; bits != 0 && soonest > round_end; bits &= bits - 1) {
    uint64_t slot_index = 64 * word + (bit + lowest_bit(bits)) % 64;
    slot_t *slot = &core->slots[slot_index];
    if (are_empty(slot->lanes, lane_at(slot, slot->lanes_used)))
      vacate(core, slot_index);
    else
      soonest = min_of(soonest, slot->next_pass);
  }
  core->bounds[word] = soonest;
}

/* Returns the tick of the next pass, or NEVER; if that pass is not within a
 * round, maybe an earlier tick after the hand. Vacates slots it finds empty.
 * The hand meets the slots of `first` from `bit` on, then the other words, then
 * the slots below `bit`. So the first pass found in this round is the next one,
 * unless it is in `first` below `bit`, which the hand meets last. */
static NOINLINE uint64_t find_next_tick(core_t *core) {
  const uint64_t mask = core->slot_mask, *bounds = core->bounds;
  uint64_t tick = core->hand + 1, first = (tick & mask) / 64, word = first;
  uint64_t next = NEVER;

  do {
    if (UNLIKELY(bounds[word] < next)) {
      uint64_t bit = word == first ? tick & mask & 63 : 0;
      search_word(core, word, bit);
      next = min_of(next, bounds[word]);
      if (bounds[word] - tick <= (word == first ? 63 - bit : mask))
        break;
    }
    word = (word + 1) & (mask / 64);
  } while (word != first);
  MUST_HOLD(next > core->hand);
  return next;
}

/* ---- Looking into a slot ------------------------------------------------ */

uint64_t uvwheel__core_visit_slot(const core_t *core, uint64_t slot_index,
                                  core_visit_t visit, void *arg) {
  slot_t *slot = &core->slots[slot_index];
  uvwheel_link_t *lane, *link;
  uint64_t count = 0;

  MUST_HOLD(slot_index <= core->slot_mask);
  if (slot->next_pass == 0)
    return 0;
  for (lane = slot->lanes; lane != lane_at(slot, slot->lanes_used); lane++)
    for (link = lane->next; link != lane; link = link->next) {
      count++;
      if (visit != NULL)
        visit(entry_of(link), arg);
    }
  return count;
}

/* ---- Operations on entries ---------------------------------------------- */

/* What is in a slot goes to the ends of unvisited lanes. slot_index spreads
 * slots of one lane over them. */
static void take_unvisited(core_t *core, uint64_t slot_index) {
  slot_t *slot = &core->slots[slot_index];
  uvwheel_link_t *lane = slot->lanes;

  for (; lane != lane_at(slot, slot->lanes_used); lane++) {
    check_linked(core, lane);
    splice_after(core->unvisited[slot_index++ % MAX_LANES].prev, lane);
  }
}

/* Usually few slots are in use, near the next tick. */
void uvwheel__core_vacate_all(core_t *core) {
  uint64_t word = (core->next_tick & core->slot_mask) / 64;

  MUST_HOLD(are_empty(core->pending, core->pending + MAX_LANES));
  MUST_HOLD(list_is_empty(&core->due) && list_is_empty(&core->kept));
  for (; core->slots_in_use > 0; word = (word + 1) & (core->slot_mask / 64))
    while (core->occupied[word] != 0) {
      uint64_t slot_index = 64 * word + lowest_bit(core->occupied[word]);
      if (core->active != 0)
        take_unvisited(core, slot_index);
      vacate(core, slot_index);
    }
  core->pass_lanes = 0;
  if (core->active == 0) /* in a walk it stays, maybe too early */
    core->next_tick = NEVER;
}

NOINLINE bool uvwheel__core_move(core_t *core, uvwheel_entry_t *entry,
                                 uint64_t due_ms) {
  check_linked(core, &entry->link);
  unlink_one(&entry->link);
  entry->due_ms = due_ms;
  return uvwheel__core_put(core, entry);
}

/* ---- The pass ----------------------------------------------------------- */

/* Moves the hand, up to now, to the next tick at which a slot wants a pass, and
 * takes its lanes. Returns whether there is one. */
static NOINLINE bool begin_pass(core_t *core, uint64_t now_ms) {
  uint64_t end_tick = tick_after(core, now_ms), i;

  MUST_HOLD(core->pass_lanes == 0);
  for (; core->next_tick < end_tick; core->next_tick = find_next_tick(core)) {
    slot_t *slot = slot_of(core, core->next_tick);
    MUST_HOLD(core->next_tick > core->hand);
    core->hand = core->next_tick;
    if (slot->next_pass != core->hand)
      continue;
    core->pass_lanes =
        (uint64_t)(lane_at(slot, slot->lanes_used) - slot->lanes);
    for (i = 0; i < core->pass_lanes; i++) {
      check_linked(core, &slot->lanes[i]);
      splice_after(&core->pending[i], &slot->lanes[i]);
    }
    vacate(core, core->hand & core->slot_mask);
    return true;
  }
  return false;
}

/* Is an entry due in a pass of that time? Appends it to another list, without
 * an unlink. (The usual put is inlined: in a server most were refreshed.) */
static inline bool examine(core_t *core, uvwheel_entry_t *entry,
                           uint64_t pass_ms) {
  uint64_t tick;
  slot_t *slot;
  bool stays;

  if (entry->due_ms < pass_ms) {
    append(&core->due, &entry->link);
    return true;
  }
  tick = tick_after(core, entry->due_ms);
  slot = slot_of(core, tick);
  stays = ((tick ^ core->hand) & core->slot_mask) == 0;
  core->stats.rescheduled += !stays;
  if (UNLIKELY(stays && is_fifo(core))) {
    if (!has_pass_by(slot, tick))
      plan_pass(core, tick);
    append(&core->kept, &entry->link);
  } else if (LIKELY(has_pass_by(slot, tick))) {
    append_to_slot(core, slot, entry);
  } else {
    (void)uvwheel__core_put(core, entry);
  }
  return false;
}

/* Examines the next entries of the pass: one of each lane, again and again,
 * so that the lanes' cache misses overlap. (Without the prefetch an expiry
 * takes a fifth longer.) They leave their lanes together, at the end: an
 * unlink of each would write to neighbours that are cold. */
static NOINLINE void examine_chunk(core_t *core, uint64_t most,
                                   uint64_t *budget) {
  uint64_t pass_ms = hand_ms(core), lanes = core->pass_lanes;
  uint64_t examined = 0, moved = 0, examined_before, i;
  uvwheel_link_t *ahead[MAX_LANES]; /* the next entry of each lane */

  for (i = 0; i < lanes; i++) {
    check_next(core, &core->pending[i]);
    ahead[i] = core->pending[i].next;
  }
  do {
    examined_before = examined;
    for (i = 0; i < lanes && examined < most; i++) {
      uvwheel_link_t *link = ahead[i];
      if (link == &core->pending[i])
        continue;
      check_next(core, link);
      ahead[i] = link->next;
      PREFETCH(ahead[i]);
      moved += !examine(core, entry_of(link), pass_ms);
      examined++;
    }
  } while (examined != examined_before);
  for (i = 0; i < lanes; i++)
    join(&core->pending[i], ahead[i]);
  MUST_HOLD(examined <= most && moved <= *budget);
  core->stats.examined += examined;
  *budget -= moved;
}

/* Ends a pass without due or pending entries. Returns whether one goes on. */
static NOINLINE bool end_pass_if_over(core_t *core) {
  if (core->pass_lanes != 0 && list_is_empty(&core->due) &&
      are_empty(core->pending, &core->pending[core->pass_lanes])) {
    splice_after(&slot_of(core, core->hand)->lanes[0], &core->kept);
    core->pass_lanes = 0;
    core->next_tick = find_next_tick(core);
  }
  return core->pass_lanes != 0;
}

/* If a pass goes on, puts what is left of it in front of the slot's lanes, and
 * the hand back to the tick before. The slot may have got entries for a later
 * round meanwhile, and may use fewer lanes than the pass has. Pending lists go
 * one lane further: else draws of a few would leave the lanes uneven.
 * A FIFO slot gets what was due, then kept, then not yet examined. */
static NOINLINE void give_up_pass(core_t *core) {
  slot_t *slot = slot_of(core, core->hand);
  uint64_t i;

  if (!end_pass_if_over(core))
    return;
  plan_pass(core, core->hand);
  while (lane_at(slot, slot->lanes_used) - slot->lanes < (int)core->pass_lanes)
    open_lane(core, slot, slot->lanes_used);
  for (i = 0; i < core->pass_lanes; i++)
    splice_after(&slot->lanes[(i + 1) % core->pass_lanes], &core->pending[i]);
  splice_after(&slot->lanes[0], &core->kept);
  splice_after(&slot->lanes[0], &core->due);
  MUST_HOLD(are_empty(core->pending, core->pending + MAX_LANES));
  core->pass_lanes = 0;
  core->hand--;
}

bool uvwheel__core_put(core_t *core, uvwheel_entry_t *entry) {
  uint64_t tick = tick_after(core, entry->due_ms);
  slot_t *slot = slot_of(core, tick);

  MUST_HOLD(core->active != 0);
  if (LIKELY(has_pass_by(slot, tick))) {
    append_to_slot(core, slot, entry);
    return false;
  }
  /* The tick may have come: a repeat catches up, a put-back stays in its tick,
   * a draw has moved the hand ahead, or the clock has stepped back. A pass of
   * that tick examines the entry, too. Else the hand goes back. */
  if (UNLIKELY(tick <= core->hand)) {
    if (core->pass_lanes != 0 && tick == core->hand) {
      append(&core->pending[core->pass_lanes - 1], &entry->link);
      return false;
    }
    give_up_pass(core);
    core->hand = tick - 1;
  }
  plan_pass(core, tick);
  append_to_slot(core, slot, entry);
  if (tick >= core->next_tick)
    return false;
  core->next_tick = tick;
  return true;
}

/* (The larger functions that this calls are not inlined: else a call that finds
 * an entry at once saves more registers.) */
uvwheel_entry_t *uvwheel__core_find_due(core_t *core, uint64_t now_ms,
                                        uint64_t most, uint64_t *budget) {
  MUST_HOLD(core->pass_lanes == 0 || hand_ms(core) <= now_ms);
  for (;;) {
    while (!list_is_empty(&core->due)) {
      uvwheel_entry_t *entry = entry_of(core->due.next);
      check_next(core, &core->due);
      if (*budget == 0)
        return NULL;
      if (entry->due_ms < hand_ms(core))
        return entry;
      /* It was postponed after it was found due. */
      (void)uvwheel__core_move(core, entry, entry->due_ms);
      core->stats.rescheduled++;
      (*budget)--;
    }
    if (!end_pass_if_over(core) && !begin_pass(core, now_ms))
      return NULL;
    if (*budget == 0)
      return NULL;
    examine_chunk(core, min_of(most, *budget), budget);
    if (most < CHUNK)
      most *= 2;
  }
}

/* ---- Before their time -------------------------------------------------- */

void uvwheel__core_draw(core_t *core, uint64_t count) {
  uint64_t unlimited = UINT64_MAX;

  MUST_HOLD(list_is_empty(&core->drawn));
  for (; count > 0; count--) {
    uvwheel_entry_t *entry =
        uvwheel__core_find_due(core, LAST_MS, count, &unlimited);
    if (entry == NULL)
      break;
    unlink_one(&entry->link);
    append(&core->drawn, &entry->link);
    core->drawn_ms = hand_ms(core);
  }
  give_up_pass(core);
  MUST_HOLD(core->pass_lanes == 0);
}

uvwheel_entry_t *uvwheel__core_take_drawn(core_t *core) {
  while (!list_is_empty(&core->drawn)) {
    uvwheel_entry_t *entry = entry_of(core->drawn.next);
    check_next(core, &core->drawn);
    if (entry->due_ms < core->drawn_ms) {
      core->stats.fired_soonest++;
      uvwheel__core_hand_out(core, entry);
      return entry;
    }
    (void)uvwheel__core_move(core, entry, entry->due_ms);
  }
  return NULL;
}

/* ---- All entries -------------------------------------------------------- */

/* Moves an entry to where uvwheel__core_put puts it, but to the front of that
 * list. (Put appends it: so the link behind it is the head.) */
static void put_first(core_t *core, uvwheel_entry_t *entry) {
  uvwheel_link_t *head;

  unlink_one(&entry->link);
  (void)uvwheel__core_put(core, entry);
  head = entry->link.next;
  unlink_one(&entry->link);
  append(head->next, &entry->link);
}

void uvwheel__core_walk_begin(core_t *core) {
  give_up_pass(core);
  while (!list_is_empty(&core->drawn))
    put_first(core, entry_of(core->drawn.prev));
  MUST_HOLD(core->pass_lanes == 0);
  uvwheel__core_vacate_all(core);
  core->walk_lane = 0;
}

uvwheel_entry_t *uvwheel__core_walk_next(core_t *core) {
  uint64_t i;

  for (i = 0; i < MAX_LANES; i++) {
    uvwheel_link_t *lane = &core->unvisited[core->walk_lane++ % MAX_LANES];
    uvwheel_link_t *link = lane->prev;
    if (link == lane)
      continue;
    check_linked(core, lane);
    check_linked(core, link);
    PREFETCH(link->prev->prev); /* the lane's next unlink may write to it */
    put_first(core, entry_of(link));
    return entry_of(link);
  }
  MUST_HOLD(are_empty(core->unvisited, core->unvisited + MAX_LANES));
  return NULL;
}
