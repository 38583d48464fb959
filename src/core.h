/* SPDX-License-Identifier: MIT */

/* What wheel.c and walk.c share: how lists, ticks and slots are read. wheel.c
 * explains the whole. */

#ifndef UVWHEEL_CORE_H
#define UVWHEEL_CORE_H

#include <stdbool.h>

#include "portable.h"
#include "uvwheel/wheel.h"

#define NEVER UINT64_MAX
#define LAST_TICK (UINT64_MAX - 1)

/* ---- Checks: what a -Dchecks=true build adds ----------------------------- */

#ifdef UVWHEEL_CHECKS

_Noreturn void uvwheel__misuse(const uvwheel_core_t *core,
                               const uvwheel_entry_t *entry, const char *what);

#define CHECK(condition, core, entry, what) \
  ((condition) ? (void)0 : uvwheel__misuse(core, entry, what))

/* What the link of an idle entry holds, so that its use shows. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

#else

#define CHECK(condition, core, entry, what) ((void)0)
#define POISON NULL

#endif

/* ---- Lists: circular, with the head as one of the links ----------------- */

static inline void
join(uvwheel_link_t *left, uvwheel_link_t *right)
{
  left->next = right;
  right->prev = left;
}

static inline void
list_init(uvwheel_link_t *head)
{
  join(head, head);
}

static inline bool
list_is_empty(const uvwheel_link_t *head)
{
  return head->next == head;
}

static inline void
insert_between(uvwheel_link_t *left, uvwheel_link_t *link,
               uvwheel_link_t *right)
{
  join(left, link);
  join(link, right);
}

static inline void
append(uvwheel_link_t *head, uvwheel_link_t *link)
{
  insert_between(head->prev, link, head);
}

/* Puts the links from first to last, cut out of another list, between left
 * and what follows it. */
static inline void
splice_after(uvwheel_link_t *left, uvwheel_link_t *first, uvwheel_link_t *last)
{
  join(last, left->next);
  join(left, first);
}

/* The link is an entry's first member. */
static inline uvwheel_entry_t *
entry_of(uvwheel_link_t *link)
{
  return (uvwheel_entry_t *)link;
}

/* ---- Ticks --------------------------------------------------------------- */

/* The first tick after a time. Times within 49 days of the hand are told by a
 * multiplication (a start costs 2 to 10 ns less by it, depending on the
 * processor's divider). */
static inline uint64_t
tick_after(const uvwheel_core_t *core, uint64_t ms)
{
  uint64_t ahead_ms = ms - core->hand_ms;
  uint64_t tick;

  if (ahead_ms <= UINT32_MAX)
    tick = core->hand + multiply_shift_63(core->reciprocal, (uint32_t)ahead_ms);
  else
    tick = ms / core->tick_ms;
  return tick < LAST_TICK ? tick + 1 : LAST_TICK;
}

/* ---- Slots --------------------------------------------------------------- */

static inline unsigned
lane_count(const uvwheel_core_t *core)
{
  return 1u << core->lane_shift;
}

static inline uvwheel_link_t *
lanes_of(const uvwheel_core_t *core, uint64_t slot)
{
  return core->lanes + (slot << core->lane_shift);
}

static inline bool
is_occupied(const uvwheel_core_t *core, uint64_t slot)
{
  return (core->occupied[slot / 64] >> (slot % 64)) & 1;
}

/* The first occupied slot from one to before another; the latter if none. */
static inline uint64_t
next_occupied(const uvwheel_core_t *core, uint64_t from, uint64_t end)
{
  while (from < end) {
    uint64_t bits = core->occupied[from / 64] >> (from % 64);
    if (bits != 0) {
      from += lowest_bit(bits);
      break;
    }
    from = (from / 64 + 1) * 64;
  }
  return from < end ? from : end;
}

void uvwheel__take_off(uvwheel_core_t *core, uvwheel_link_t *link);

#endif /* UVWHEEL_CORE_H */
