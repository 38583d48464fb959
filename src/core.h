/* SPDX-License-Identifier: MIT */

/* The inside of the wheel: how lists, ticks and slots are read, and the usual
 * cases of the operations, which the binding uses inline. wheel.c explains the
 * whole. */

#ifndef UVWHEEL_CORE_H
#define UVWHEEL_CORE_H

#include <stdbool.h>

#include "portable.h"
#include "uvwheel/wheel.h"

/* No tick, also the nearest one of a slot that is empty; the last tick that an
 * entry waits for; and the last one that the hand goes to. */
#define NEVER UINT64_MAX
#define LAST_TICK (UINT64_MAX - 1)
#define LAST_HAND (UINT64_C(1) << 63)

/* ---- Checks: what a -Dchecks=true build adds ---------------------------- */

#ifdef UVWHEEL_CHECKS

_Noreturn void uvwheel__misuse(const uvwheel_core_t *core,
                               const uvwheel_entry_t *entry, const char *what);

#define CHECK(condition, core, entry, what) \
  ((condition) ? (void)0 : uvwheel__misuse(core, entry, what))

#define OVERWRITTEN "its links were overwritten, or it was freed while active"

/* What the link of an idle entry holds, so that its use shows. */
#define POISON ((uvwheel_link_t *)(uintptr_t)0xdeadbeef)

#else

#define CHECK(condition, core, entry, what) ((void)(core))

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

static inline void
set_idle(uvwheel_entry_t *entry)
{
  entry->link.next = NULL;
#ifdef UVWHEEL_CHECKS
  entry->link.prev = POISON;
#endif
}

/* Changes the due time of an active entry the cheap way: the entry stays where
 * it is and the hand moves it when it comes by. Only possible if the new time
 * is not earlier. */
static inline bool
postpone_in_place(uvwheel_entry_t *entry, uint64_t due_ms)
{
  if (due_ms < entry->due_ms)
    return false;
  entry->due_ms = due_ms;
  return true;
}

/* ---- Ticks -------------------------------------------------------------- */

/* tick_after for times from near_ms on: in 3 million years with the default
 * tick, in 3 years with ticks of a day. */
uint64_t uvwheel__far_tick_after(const uvwheel_core_t *core, uint64_t ms);

/* The first tick after a time: ms / tick_ms + 1, by a multiplication, because
 * a division is what some processors are slowest at. */
static inline uint64_t
tick_after(const uvwheel_core_t *core, uint64_t ms)
{
  if (UNLIKELY(ms >= core->near_ms))
    return uvwheel__far_tick_after(core, ms);
  return divide(ms, core->tick_ms, core->reciprocal) + 1;
}

/* ---- Slots -------------------------------------------------------------- */

static inline uint64_t
lane_count(const uvwheel_core_t *core)
{
  return core->lane_mask + 1;
}

static inline bool
is_fifo(const uvwheel_core_t *core)
{
  return core->lane_mask == 0;
}

static inline uvwheel_link_t *
lanes_of(const uvwheel_core_t *core, uint64_t slot)
{
  return core->lanes + slot * UVWHEEL_LANES;
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

/* Whether the slot of a tick has an entry that is due no later, so that one
 * more changes nothing about the slot or the wheel (I3, I4). */
static inline bool
is_claimed(const uvwheel_core_t *core, uint64_t tick)
{
  return LIKELY(tick >= core->nearest[tick & core->slot_mask]);
}

/* Puts the entry into the slot of the tick at which it is due, which must be
 * claimed. Entries are dealt to the lanes in turn. */
static inline void
place_beside(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t tick)
{
  uint64_t lane = core->counters.placed++ & core->lane_mask;

  append(&lanes_of(core, tick & core->slot_mask)[lane], &entry->link);
}

/* ---- Operations --------------------------------------------------------- */

/* Takes a link off its list, unless it is the last one there. */
static inline bool
take_from_others(uvwheel_core_t *core, uvwheel_link_t *link)
{
  uvwheel_link_t *prev = link->prev, *next = link->next;

  CHECK(prev->next == link && next->prev == link, core, entry_of(link),
        OVERWRITTEN);
  if (UNLIKELY(prev == next))
    return false;
  join(prev, next);
  return true;
}

/* The common case of uvwheel_core_insert. False if it is not, and then nothing
 * is done. timer.c says why it is inline. */
static inline bool
insert_beside(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms)
{
  uint64_t tick;

  CHECK(!uvwheel_entry_is_active(entry), core, entry, "inserted twice");
  if (UNLIKELY(due_ms >= core->near_ms))
    return false;
  /* An idle entry's due time means nothing, so it may be set before the last
   * check; then the register is free. */
  entry->due_ms = due_ms;
  tick = tick_after(core, due_ms);
  if (!is_claimed(core, tick))
    return false;
  core->count++;
  place_beside(core, entry, tick);
  return true;
}

/* The common case of uvwheel_core_remove: neither the last entry of its list
 * nor of the wheel. Here it is stores that count: they wait in a queue for the
 * neighbours to come from memory. With one more of them, a counter, a remove
 * among a million takes 36 ns instead of 30. So the entry is not marked as
 * idle: the binding has a mark of its own. */
static inline bool
remove_from_others(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  if (UNLIKELY(core->count == 1) || !take_from_others(core, &entry->link))
    return false;
#ifdef UVWHEEL_CHECKS
  set_idle(entry);
#endif
  core->count--;
  return true;
}

void uvwheel__take_off(uvwheel_core_t *core, uvwheel_link_t *link);

#endif /* UVWHEEL_CORE_H */
