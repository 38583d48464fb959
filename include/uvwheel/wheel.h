/* SPDX-License-Identifier: MIT */

/* The structs that a uvwheel_t and its timers embed. All of their fields are
 * private; programs include <uvwheel.h>. src/wheel.c explains them. */

#ifndef UVWHEEL_WHEEL_H
#define UVWHEEL_WHEEL_H

#include <stdint.h>

#define UVWHEEL_MAX_TICK_MS 86400000u /* one day */
#define UVWHEEL_MAX_SLOTS (1u << 20)  /* 1,048,576 */

/* The most lanes of a slot. src/slot.c says why there are several. */
#define UVWHEEL_LANES 15

/* Timers of one tick fire in the order in which they were started. */
#define UVWHEEL_FIFO 1u

typedef struct uvwheel_link_s uvwheel_link_t;
typedef struct uvwheel_entry_s uvwheel_entry_t;
typedef struct uvwheel_slot_s uvwheel_slot_t;
typedef struct uvwheel_core_s uvwheel_core_t;

/* A place in a circular list. */
struct uvwheel_link_s {
  uvwheel_link_t *prev; /* the neighbours, */
  uvwheel_link_t *next; /* or the head     */
};

/* An entry waits in a wheel. */
struct uvwheel_entry_s {
  uvwheel_link_t link; /* on a list of the wheel while the entry is active */
  uint64_t due_ms;     /* meaningless unless active                        */
};

/* A slot. */
struct uvwheel_slot_s {
  uint64_t next_pass; /* the tick at which the hand looks at the entries;
                         0: never, the slot is not occupied                */
  uint32_t filling; /* the lane that gets the next entry, in bytes from here */
  uint16_t end;     /* behind the last lane in use, in bytes from here       */
  uint16_t left;    /* how many entries the lane gets before the next one    */
  uvwheel_link_t lanes[UVWHEEL_LANES]; /* initialised when first filled      */
};

/* Counts since the wheel was made. */
typedef struct uvwheel_counters_s {
  uint64_t expired;     /* entries handed out because they were due */
  uint64_t drawn;       /* entries handed out before they were due  */
  uint64_t examined;    /* entries that the hand looked at          */
  uint64_t rescheduled; /* of those: moved after a refresh          */
} uvwheel_counters_t;

/* A wheel. */
struct uvwheel_core_s {
  uint64_t hand;          /* the last tick that was passed                */
  uint64_t next_tick;     /* when the hand has to move; UINT64_MAX: never */
  uint64_t capacity;      /* entries that may be active at once           */
  uint64_t inserted;      /* entries that were inserted so far            */
  uint64_t insert_limit;  /* what that is when the wheel is full: the
                             capacity and the entries that have left      */
  uint64_t tick_ms;       /* the resolution                               */
  uint64_t reciprocal;    /* of tick_ms, to divide by a multiplication    */
  uint64_t reciprocal_ms; /* times below this are divided that way        */
  uint64_t slot_mask;     /* slots - 1, and slots are a power of two      */
  uint64_t lanes_end; /* behind the last lane of a slot, in bytes from there */
  uvwheel_slot_t *slots;
  uint64_t slots_in_use;
  uint64_t *occupied; /* a bit for each slot                                */
  uint64_t *soonest;  /* for each word of those bits: no slot in it has a
                         next pass before this tick                         */
  uvwheel_counters_t counters;
  uint64_t pass_ms;     /* the time of the pass that is going on,             */
  uint64_t pass_lanes;  /* and how many lanes it has                          */
  uint64_t drawn_ms;    /* the drawn entries are due before this              */
  uvwheel_link_t due;   /* found due, not yet handed out                      */
  uvwheel_link_t drawn; /* to be handed out before their time                 */
  uvwheel_link_t unvisited_drawn; /* a walk has yet to visit these, and then  */
  uvwheel_link_t unvisited;       /* these                                    */
  uvwheel_link_t visited;         /* it has visited these                     */
  uvwheel_link_t pending[UVWHEEL_LANES]; /* not yet looked at                 */
};

#endif /* UVWHEEL_WHEEL_H */
