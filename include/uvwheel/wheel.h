/* SPDX-License-Identifier: MIT */

/* The wheel: a hashed timing wheel that knows no event loop and no clock.
 *
 * Servers include <uvwheel.h>, which drives this wheel from a libuv loop. This
 * layer is for programs without a libuv loop: simulators, fuzzers, other loops.
 * The time is an argument, nothing is ever called back, and the same calls
 * always give the same result.
 *
 *   uvwheel_core_t core;
 *   uvwheel_core_init(&core, 100, 512, 0);
 *   uvwheel_core_insert(&core, &connection->entry, now_ms + 60000);
 *   ...
 *   uint64_t budget = 10000;
 *   while ((entry = uvwheel_core_expire(&core, now_ms, &budget)) != NULL)
 *     close_connection(entry);
 *   sleep_until(uvwheel_core_next_ms(&core));
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
 * uvwheel_core_init allocates. Pointers must not be NULL.
 *
 * This layer is not yet stable: later 0.x versions may change uvwheel_core_*
 * and uvwheel_entry_*. */

#ifndef UVWHEEL_WHEEL_H
#define UVWHEEL_WHEEL_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On Windows a program that uses the DLL may define UVWHEEL_USING_SHARED, which
 * saves a jump per call, as USING_UV_SHARED does for libuv. */
#ifndef UVWHEEL_EXTERN
#if defined(_WIN32) && defined(UVWHEEL_BUILDING_SHARED)
#define UVWHEEL_EXTERN __declspec(dllexport)
#elif defined(_WIN32) && defined(UVWHEEL_USING_SHARED)
#define UVWHEEL_EXTERN __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define UVWHEEL_EXTERN __attribute__((visibility("default")))
#else
#define UVWHEEL_EXTERN
#endif
#endif

#define UVWHEEL_MAX_TICK_MS 86400000u /* one day */
#define UVWHEEL_MAX_SLOTS (1u << 24)  /* 16,777,216 */

/* The most lanes of a slot. src/slot.c says why there are several. */
#define UVWHEEL_LANES 15

/* Entries of one tick expire in the order in which they were put there. */
#define UVWHEEL_FIFO 1u

typedef struct uvwheel_link_s uvwheel_link_t;
typedef struct uvwheel_entry_s uvwheel_entry_t;
typedef struct uvwheel_slot_s uvwheel_slot_t;
typedef struct uvwheel_cursor_s uvwheel_cursor_t;
typedef struct uvwheel_core_s uvwheel_core_t;

/* A place in a circular list. */
struct uvwheel_link_s {
  uvwheel_link_t *prev; /* the neighbours, */
  uvwheel_link_t *next; /* or the head     */
};

/* What waits in a wheel. Embed it in what it belongs to. All of it is
 * read-only for the user. */
struct uvwheel_entry_s {
  uvwheel_link_t link; /* on one of the wheel's lists, if active. Else next is
                          NULL, except in a timer, which has a flag          */
  uint64_t due_ms;     /* meaningless unless active                          */
};

/* How far a walk over all entries has come. All of it is private. */
struct uvwheel_cursor_s {
  /* private */
  uvwheel_link_t here;     /* on a list, before the next entry to visit */
  uvwheel_link_t end;      /* on the same list: what comes after was added
                              since the walk came to this list            */
  uint64_t list;           /* the list, as src/walk.h numbers them         */
  uvwheel_cursor_t *outer; /* the walk inside whose step this one began    */
};

/* What a wheel has done since it was made. */
typedef struct uvwheel_counters_s {
  uint64_t expired;     /* entries handed out by uvwheel_core_expire         */
  uint64_t drawn;       /* entries handed out by uvwheel_core_take_drawn     */
  uint64_t rescheduled; /* entries that the hand found postponed, and moved  */
  uint64_t examined;    /* entries looked at by the hand                     */
} uvwheel_counters_t;

/* A slot. All of it is private. */
struct uvwheel_slot_s {
  /* private */
  uint64_t nearest; /* the tick at which the hand has to look at the slot;
                       UINT64_MAX: none, it is not occupied                */
  uint16_t filling; /* where the lane is that is being filled, in bytes from
                       here; 0: the slot was never used                    */
  uint16_t left;    /* how many entries more that lane gets in this run    */
  uint16_t run;     /* how many each lane gets before the next one's turn  */
  uint16_t used;    /* how many lanes may have entries: the first ones     */
  uvwheel_link_t lanes[UVWHEEL_LANES]; /* initialised when first filled    */
};

/* A wheel. All of it is private; src/wheel.c has a drawing and what holds. */
struct uvwheel_core_s {
  /* private */
  uint64_t hand;       /* the last tick that was passed                      */
  uint64_t next_tick;  /* when the hand has to move; UINT64_MAX: never       */
  uint64_t inserted;   /* entries that were put into the wheel               */
  uint64_t allowed;    /* how many may have been: `most` more than are gone  */
  uint64_t most;       /* entries that may be active at once                 */
  uint64_t tick_ms;    /* the resolution                                     */
  uint64_t reciprocal; /* of tick_ms, so that a division is a multiplication */
  uint64_t divided_ms; /* times below this are divided that way              */
  uint64_t usual_ms;   /* what is due before this may be inserted inline     */
  uint64_t slot_mask;  /* slots - 1, and slots are a power of two            */
  uint64_t fifo;       /* 1: the order within a tick matters                 */
  uvwheel_slot_t *slots;
  uint64_t *occupied; /* a bit for each slot                           */
  uint64_t *words;    /* a bit for each word of those that is not 0    */
  uvwheel_counters_t counters;
  uvwheel_cursor_t *cursor; /* the innermost walk that is going on          */
  uint64_t passing;         /* 1: a pass is going on. Then:                 */
  uint64_t pass_tick;       /* the tick that it is for,                     */
  uint64_t pass_ms;         /* its time,                                    */
  uint64_t pass_lanes;      /* and how many lanes it has                    */
  uint64_t drawn_ms;        /* those on the drawn list are due before this  */
  uvwheel_link_t due;       /* found due, not yet handed out                */
  uvwheel_link_t drawn;     /* to be handed out before their time           */
  uvwheel_link_t pending[UVWHEEL_LANES]; /* not yet looked at                */
};

/* Makes a wheel in uninitialised memory.
 *
 * tick_ms: the resolution, 1 to UVWHEEL_MAX_TICK_MS. slots: 1 to
 * UVWHEEL_MAX_SLOTS, rounded up to a power of two. flags: 0 or UVWHEEL_FIFO.
 *
 * Returns 0, or EINVAL (an argument out of range) or ENOMEM of <errno.h>, and
 * then the memory is as it was.
 * Cost: one allocation of about 256 bytes per slot, which are written as
 * the slot fills. */
UVWHEEL_EXTERN int uvwheel_core_init(uvwheel_core_t *core, uint64_t tick_ms,
                                     uint32_t slots, uint32_t flags);

/* Frees what uvwheel_core_init allocated. Entries still in the wheel are not
 * touched. Cost: one free. */
UVWHEEL_EXTERN void uvwheel_core_destroy(uvwheel_core_t *core);

/* Makes an entry in uninitialised memory. It is not active. */
UVWHEEL_EXTERN void uvwheel_entry_init(uvwheel_entry_t *entry);

/* Is the entry in a wheel? */
static inline int
uvwheel_entry_is_active(const uvwheel_entry_t *entry)
{
  return entry->link.next != NULL;
}

/* Puts an entry that is not active into the wheel, due at due_ms. Any value is
 * legal; an entry whose tick is past expires at the next uvwheel_core_expire.
 *
 * Returns non-zero when uvwheel_core_next_ms became earlier by this.
 * Cost: O(1), touches the entry, its slot and one entry of that slot. */
UVWHEEL_EXTERN int uvwheel_core_insert(uvwheel_core_t *core,
                                       uvwheel_entry_t *entry, uint64_t due_ms);

/* Takes an active entry out of the wheel. Its memory may be freed at once.
 * Cost: O(1), touches the entry and its two neighbours; of the last entry also
 * each slot that entries were put into since the hand passed it last. */
UVWHEEL_EXTERN void uvwheel_core_remove(uvwheel_core_t *core,
                                        uvwheel_entry_t *entry);

/* Changes when an active entry is due. With UVWHEEL_FIFO it goes to the end of
 * its tick's queue.
 *
 * Returns non-zero when uvwheel_core_next_ms became earlier by this.
 * Cost: one store when due_ms is not before the present due time: the hand
 * moves the entry when it finds it. Else, and with UVWHEEL_FIFO, that of a
 * remove and an insert. */
UVWHEEL_EXTERN int uvwheel_core_postpone(uvwheel_core_t *core,
                                         uvwheel_entry_t *entry,
                                         uint64_t due_ms);

/* Turns the hand to now_ms and hands out one entry that expires by then; call
 * it until it returns NULL. The entry is no longer active and the wheel has
 * forgotten it. Between two calls the caller may do anything with the wheel.
 *
 * Every entry that the hand looks at takes one from *budget. When that is 0 and
 * all that was found due has been handed out, the call returns NULL; if
 * something is left, uvwheel_core_next_ms is not after now_ms, and a later call
 * goes on from there. Ticks are handed out in order; those at which nothing is
 * due cost nothing. A clock that steps back is followed: nothing expires early.
 * Must not be called during a walk.
 * Cost: O(1) per entry looked at, plus the search for the next useful tick once
 * per pass: usually a few slots, at worst each slot in use and slots / 4096
 * words. */
UVWHEEL_EXTERN uvwheel_entry_t *
uvwheel_core_expire(uvwheel_core_t *core, uint64_t now_ms, uint64_t *budget);

/* Draws up to `count` active entries, those that are due soonest (to the tick;
 * a postponed one counts by its last due time), however far away that is, and
 * returns how many. They stay active until uvwheel_core_take_drawn hands them
 * out, one by one, NULL at the end; call that right away, to its end. It leaves
 * out those that were removed meanwhile, or are now due later than all that
 * were drawn. What was not drawn keeps its due time. now_ms is the clock.
 * Must not be called during a walk, nor before all that an earlier call has
 * drawn was handed out.
 * Cost: O(count), plus a look at each entry on the way that was postponed or
 * waits for a later round; calls that follow go on behind those. */
UVWHEEL_EXTERN uint64_t uvwheel_core_draw(uvwheel_core_t *core, uint64_t now_ms,
                                          uint64_t count);
UVWHEEL_EXTERN uvwheel_entry_t *uvwheel_core_take_drawn(uvwheel_core_t *core);

/* How many entries are active. Cost: O(1). */
static inline uint64_t
uvwheel_core_count(const uvwheel_core_t *core)
{
  return core->inserted + core->most - core->allowed;
}

/* When uvwheel_core_expire should be called next. It may turn out that nothing
 * expires then (entries were removed or postponed meanwhile), but nothing ever
 * expires earlier. UINT64_MAX when the wheel is empty. Cost: O(1). */
UVWHEEL_EXTERN uint64_t uvwheel_core_next_ms(const uvwheel_core_t *core);

/* A walk over all active entries, in no particular order:
 *
 *   uvwheel_cursor_t cursor;
 *   uvwheel_core_walk_begin(&core, &cursor);
 *   while ((entry = uvwheel_core_walk_next(&core, &cursor)) != NULL)
 *     ...
 *
 * Between the steps any entry may be inserted, removed, freed and postponed,
 * and further walks may be made from begin to end. Every entry that is active
 * throughout is visited exactly once, unless it is inserted anew or made due
 * earlier (with UVWHEEL_FIFO: postponed at all): then it may be visited again,
 * or not at all. A walk must be gone through to its NULL.
 * Cost: O(entries + slots in use + slots / 4096). */
UVWHEEL_EXTERN void uvwheel_core_walk_begin(uvwheel_core_t *core,
                                            uvwheel_cursor_t *cursor);
UVWHEEL_EXTERN uvwheel_entry_t *
uvwheel_core_walk_next(uvwheel_core_t *core, uvwheel_cursor_t *cursor);

/* How many entries wait in a slot, 0 to slots - 1. Those of a pass that was
 * cut short by its budget count for no slot. Cost: O(entries in it). */
UVWHEEL_EXTERN uint64_t uvwheel_core_slot_count(const uvwheel_core_t *core,
                                                uint64_t slot);

/* Tests every invariant that src/wheel.c numbers. Returns how many were found
 * broken, each of them told in one line on the stream unless that is NULL.
 * Cost: O(entries + slots). */
UVWHEEL_EXTERN int uvwheel_core_check(const uvwheel_core_t *core, FILE *stream);

#ifdef __cplusplus
}
#endif

#endif /* UVWHEEL_WHEEL_H */
