/* SPDX-License-Identifier: MIT */

/* The core: a hashed timing wheel that knows no event loop and no clock. core.c
 * explains it. Times are milliseconds of one clock of the caller, which stays
 * below 2^63; due times may be anything. The caller knows which entries are
 * active. */

#ifndef UVWHEEL_CORE_H
#define UVWHEEL_CORE_H

#include "misuse.h"

/* No tick or time, and the last tick that an entry waits for. */
#define NEVER UINT64_MAX
#define LAST_TICK (UINT64_MAX - 1)

/* ---- The structures ------------------------------------------------------ */

/* The most lanes of a slot; see core.c. */
#define MAX_LANES 15

/* Places in a slot are counted in bytes from its beginning: with indices of
 * lanes a cold start takes 42 ns instead of 37. */
typedef struct slot_s {
  uint64_t next_pass;  /* when the hand examines its entries: a tick;
                          0: the slot is not occupied                        */
  uint32_t lane;       /* the place of the lane that gets the next entry     */
  uint16_t lanes_used; /* the place behind the last lane in use              */
  uint16_t share_left; /* how many entries the lane gets before the next one */
  uvwheel_link_t lanes[MAX_LANES]; /* initialised by open_lane               */
} slot_t;

typedef struct core_s {
  /* Set at init. */
  uint64_t tick_ms;       /* the resolution                                  */
  uint64_t reciprocal;    /* of tick_ms, to divide by a multiplication       */
  uint64_t reciprocal_ms; /* that is exact for times below this              */
  uint64_t slot_mask;     /* slots - 1, and slots are a power of two         */
  uint64_t lanes_end;     /* the place behind the last lane of a slot        */
  slot_t *slots;
  uint64_t *occupied; /* a bit for each slot                                 */
  uint64_t *bounds;   /* for each word: no slot of it has a pass before this */

  /* Counts. */
  uint64_t active;       /* entries that are in the wheel                    */
  uint64_t slots_in_use; /* occupied ones. Without this count, with 16,384 slots
                            the remove of a lone entry takes 652 ns, not 40   */

  struct {
    uint64_t started, fired, fired_soonest, examined, rescheduled;
  } stats; /* as in uvwheel_stats_t                                          */

  /* Where the hand is, and when it moves. */
  uint64_t hand;      /* slots are passed up to this tick                   */
  uint64_t next_tick; /* when find_due has work; in a pass: hand; NEVER: none */

  /* The pass that goes on. */
  uint64_t pass_lanes; /* how many lanes the pass has; 0: no pass goes on    */
  uvwheel_link_t pending[MAX_LANES]; /* not yet examined                     */
  uvwheel_link_t due;  /* found due, not yet handed out                     */
  uvwheel_link_t kept; /* of a FIFO wheel: they stay in the slot            */

  /* The draw. */
  uvwheel_link_t drawn; /* drawn, not yet handed out                         */
  uint64_t drawn_ms;    /* a drawn entry is handed out if it is due before   */

  /* The walk. */
  uint64_t walk_lane; /* it looks into unvisited[this % MAX_LANES] next      */
  uvwheel_link_t unvisited[MAX_LANES]; /* the walk has yet to visit these     */
} core_t;

/* A FIFO wheel has slots of one lane. */
static inline bool is_fifo(const core_t *core) {
  return core->lanes_end == offsetof(slot_t, lanes[1]);
}

/* ---- Ticks -------------------------------------------------------------- */

/* The first tick after a time, or LAST_TICK. With a division a warm start takes
 * a quarter longer. So the time is multiplied by a reciprocal where it can be.
 *
 * The reciprocal is (2^64 - e) / tick_ms with an e from 1 to tick_ms, and the
 * factor, ms + 1, is at most 2^64 / tick_ms. So the product, divided by 2^64,
 * is less than (ms + 1) / tick_ms, but not less than ms / tick_ms. Its whole
 * part is the quotient. (After Granlund and Montgomery, "Division by invariant
 * integers using multiplication", 1994.) */
static inline uint64_t tick_after(const core_t *core, uint64_t ms) {
  uint64_t tick;

#ifdef HAS_WIDE
  if (LIKELY(ms < core->reciprocal_ms))
    return (uint64_t)(((wide_t)(ms + 1) * core->reciprocal) >> 64) + 1;
#endif
  tick = ms / core->tick_ms;
  return tick < LAST_TICK ? tick + 1 : LAST_TICK;
}

static inline uint64_t hand_ms(const core_t *core) {
  return core->hand * core->tick_ms;
}

/* How many rounds an entry has to go, from now_ms to its tick. */
static inline uint64_t
rounds_of(const core_t *core, const uvwheel_entry_t *entry, uint64_t now_ms) {
  return excess(tick_after(core, entry->due_ms), tick_after(core, now_ms)) /
         (core->slot_mask + 1);
}

/* ---- Slots -------------------------------------------------------------- */

static inline slot_t *slot_of(const core_t *core, uint64_t tick) {
  return &core->slots[tick & core->slot_mask];
}

/* Is a pass of a slot planned for a tick, or for an earlier one? (If the slot
 * has none, next_pass is 0, and next_pass - 1 is the largest number.) */
static inline bool has_pass_by(const slot_t *slot, uint64_t tick) {
  return slot->next_pass - 1 < tick;
}

/* Calls visit, which may be NULL, for each entry that waits in a slot, and
 * returns how many these are. */
typedef void (*core_visit_t)(const uvwheel_entry_t *entry, void *arg);
uint64_t uvwheel__core_visit_slot(const core_t *core, uint64_t slot_index,
                                  core_visit_t visit, void *arg);

static inline uvwheel_link_t *lane_at(slot_t *slot, uint32_t place) {
  return (uvwheel_link_t *)(void *)((char *)slot + place);
}

/* How many entries a lane gets before the next lane. On a wheel of 1 ms the few
 * entries of a slot would touch several of its cache lines with a share of 1.
 * With 16 they would mostly use one lane, and expire more slowly. */
#define SHARE 4
#define FIRST_LANE ((uint32_t)offsetof(slot_t, lanes))

/* The next entries go to the lane; behind the last lane comes the first. */
static inline void open_lane(const core_t *core, slot_t *slot, uint32_t lane) {
  if (lane == core->lanes_end)
    lane = FIRST_LANE;
  slot->lane = lane;
  slot->share_left = SHARE;
  if (lane == slot->lanes_used) {
    list_init(lane_at(slot, lane));
    slot->lanes_used += sizeof *slot->lanes;
  }
}

/* Appends an entry to a slot whose next pass is not after the entry's tick. */
static inline void append_to_slot(core_t *core, slot_t *slot,
                                  uvwheel_entry_t *entry) {
  append(lane_at(slot, slot->lane), &entry->link);
  if (--slot->share_left == 0)
    open_lane(core, slot, slot->lane + (uint32_t)sizeof *slot->lanes);
}

/* ---- The core (core.c) -------------------------------------------------- */

/* How many bytes a core's slots take; 0 if an option is out of range. */
size_t uvwheel__core_size(uint64_t tick_ms, uint32_t slots, uint32_t flags);

/* Makes a core in uninitialised memory.
 * Requires: options in range, slots a power of two, and memory of that size for
 * them, all zeros and aligned to 8 bytes. */
void uvwheel__core_init(core_t *core, uint64_t tick_ms, uint32_t slots,
                        uint32_t flags, void *memory);

/* When uvwheel__core_find_due should be called next, or NEVER. Nothing expires
 * earlier; maybe nothing expires then. */
static inline uint64_t uvwheel__core_next_ms(const core_t *core) {
  /* The reciprocal is UINT64_MAX / tick_ms. */
  return core->next_tick <= core->reciprocal ? core->next_tick * core->tick_ms
                                             : NEVER;
}

/* Puts an entry into the slot of its tick, or, if a pass of that tick goes on,
 * among the entries that it has yet to examine. Returns whether
 * uvwheel__core_next_ms may have become earlier.
 * Requires: the entry counts as active, and is on no list. */
bool uvwheel__core_put(core_t *core, uvwheel_entry_t *entry);

/* Puts an entry into the wheel, due at due_ms. Returns false if the caller has
 * to call uvwheel__core_put next. (It is not called here, so that the usual
 * start of a timer needs no stack.)
 * Requires: the entry is not active.
 * Ensures: it is active until it is handed out or removed. */
static inline bool uvwheel__core_insert(core_t *core, uvwheel_entry_t *entry,
                                        uint64_t due_ms) {
  uint64_t tick = tick_after(core, due_ms);
  slot_t *slot = slot_of(core, tick);

  MISUSE_IF(entry->link.next != POISON, "timer", (uvwheel_timer_t *)entry,
            "inserted twice");
  entry->due_ms = due_ms;
  core->stats.started++;
  core->active++;
  if (UNLIKELY(!has_pass_by(slot, tick)))
    return false;
  append_to_slot(core, slot, entry);
  return true;
}

/* Vacates all slots. After the last remove they are empty; for a walk what is
 * in them goes to the unvisited lanes.
 * Requires: no pass goes on, or no entry is active.
 * Ensures: if no entry is active, uvwheel__core_next_ms is NEVER. */
void uvwheel__core_vacate_all(core_t *core);

/* Takes an entry out of the wheel. A slot that becomes empty is not vacated: if
 * it were, a stop would take 12 ns instead of 3.
 * Requires: it is active, on any list. After the last one, call vacate_all.
 * Ensures: the wheel does not refer to it any more. */
static inline void uvwheel__core_remove_one(core_t *core,
                                            uvwheel_entry_t *entry) {
  check_linked(core, &entry->link);
  unlink_one(&entry->link);
  poison(entry);
  core->active--;
}

static inline void uvwheel__core_remove(core_t *core, uvwheel_entry_t *entry) {
  uvwheel__core_remove_one(core, entry);
  if (UNLIKELY(core->active == 0))
    uvwheel__core_vacate_all(core);
}

/* Takes an entry off its list and puts it, due at due_ms: as uvwheel__core_put,
 * whose result it returns. For a later due_ms a store to the entry is enough.
 * Requires: the entry is active. */
bool uvwheel__core_move(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms);

/* The most entries that an expiry examines at once. When it hands them out,
 * they (16 KiB) are mostly still in the first cache level. In chunks of one, a
 * timer that is put back and expires takes 101 ns instead of 46. */
#define CHUNK 256

/* Moves the hand on, at most to now_ms, and returns an entry that has expired
 * by then; NULL if there is none, or *budget is 0. The entry stays active: the
 * next call may return it again. Each entry that it finds not due takes one
 * from *budget. It examines chunks of up to `most` entries, doubled while
 * `most` is below CHUNK, until one is due: so a draw of one mostly examines few
 * in vain, but is fast where many were postponed.
 * Requires: a pass that goes on is not after now_ms.
 * Ensures, if NULL: uvwheel__core_next_ms is after now_ms, or *budget is 0. */
uvwheel_entry_t *uvwheel__core_find_due(core_t *core, uint64_t now_ms,
                                        uint64_t most, uint64_t *budget);

/* Takes an entry out of the wheel, to be fired.
 * Requires: it is the first that is due or drawn. */
static inline void uvwheel__core_hand_out(core_t *core,
                                          uvwheel_entry_t *entry) {
  MUST_HOLD(core->due.next == &entry->link || core->drawn.next == &entry->link);
  core->stats.fired++;
  uvwheel__core_remove(core, entry);
}

/* Draws up to `count` active entries, those that are due soonest (to the tick;
 * a postponed entry counts with its new due time). They stay active until
 * uvwheel__core_take_drawn hands them out, one by one, NULL at the end. It
 * leaves out entries that meanwhile were removed, moved, or postponed past the
 * last drawn tick. A walk ends a draw.
 * Requires: the last draw has ended.
 * Ensures: no pass goes on. */
void uvwheel__core_draw(core_t *core, uint64_t count);
uvwheel_entry_t *uvwheel__core_take_drawn(core_t *core);

/* A walk over all active entries: begin, then next until it returns NULL.
 * Between the steps do not expire or draw: that may miss entries. A walk
 * inside a walk visits all entries, and then the first one is at its end, too.
 * Ensures: no entry is visited twice, and each that is active throughout is
 * visited, unless it is moved before that. */
void uvwheel__core_walk_begin(core_t *core);
uvwheel_entry_t *uvwheel__core_walk_next(core_t *core);

#endif /* UVWHEEL_CORE_H */
