/* SPDX-License-Identifier: MIT */

/* The structs of the wheel that a uvwheel_t and its timers embed. Programs
 * include <uvwheel.h>; nothing here is for them. */

#ifndef UVWHEEL_WHEEL_H
#define UVWHEEL_WHEEL_H

#include <stdint.h>

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
  uint64_t expired;     /* entries handed out by uvwheel__core_expire         */
  uint64_t drawn;       /* entries handed out by uvwheel__core_take_drawn     */
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

#ifdef __cplusplus
}
#endif

#endif /* UVWHEEL_WHEEL_H */
