/* SPDX-License-Identifier: MIT */

/* The operations of the core, each followed by all that must hold after
 * it. The tests of the core, the random games and the small worlds use the same
 * ones. */

#ifndef CORE_SUPPORT_H
#define CORE_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core.h"
#include "length.h"

/* For conditions that are checked millions of times, inside a suite of check
 * and outside. Each assertion of check is a system call, as it writes to a file
 * how far the test has come; these are none. */
#define require(condition) require_in("", condition)

/* In a loop test over a table: the failure names the case. */
#define require_in(name, condition) \
  ((condition) ? (void)0 : contradict(__FILE__, __LINE__, name, #condition))

/* Reports the condition, which is not true, and aborts. */
_Noreturn void contradict(const char *file, int line, const char *name,
                          const char *condition);

/* The wheels that test_core goes through. */
typedef struct shape_s {
  uint64_t tick_ms;
  uint32_t slots;
  uint32_t flags;
} shape_t;

#define SHAPES 12
extern const shape_t shapes[SHAPES];

/* The two kinds of slot. */
typedef struct slot_kind_s {
  const char *name;
  uint32_t flags;
} slot_kind_t;

#define SLOT_KINDS 2
extern const slot_kind_t slot_kinds[SLOT_KINDS];

/* The time of the first tick after due_ms; UINT64_MAX if there is none. */
uint64_t tick_ms_after(uint64_t tick_ms, uint64_t due_ms);

/* UINT64_MAX if the sum is beyond it. */
uint64_t add_saturated(uint64_t time_ms, uint64_t delay_ms);

/* An entry whose memory is zero is not active, and neither is one that has left
 * the wheel by one of the operations below. */
static inline bool is_active(const uvwheel_entry_t *entry) {
  return entry->link.next != NULL;
}

void open_core(core_t *core, const shape_t *shape);

/* Takes out the entries that are left, and frees the slots. */
void close_core(core_t *core);

/* Frees the slots alone. */
void free_core(core_t *core);

/* Every invariant holds, and the counters add up. */
void verify(const core_t *core);

/* Puts an entry that is not active into the wheel. Returns whether the wheel
 * may have to wake up earlier. */
bool put(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms);

/* The operations of the same names, verified. An entry must not be active for
 * insert. */
void insert(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms);
void postpone(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms);
void move(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms);
void remove_entry(core_t *core, uvwheel_entry_t *entry);
uvwheel_entry_t *expire_within(core_t *core, uint64_t now_ms, uint64_t *budget);
uint64_t draw(core_t *core, uint64_t count);
uvwheel_entry_t *take_drawn(core_t *core);
void walk_begin(core_t *core);
uvwheel_entry_t *walk_next(core_t *core);

/* The entry that expires at now_ms leaves the wheel, as one that fires. */
uvwheel_entry_t *take_due(core_t *core, uint64_t now_ms, uint64_t *budget);

/* expire_within without a limit. */
uvwheel_entry_t *expire(core_t *core, uint64_t now_ms);

/* Nothing expires at now_ms. */
void expect_none(core_t *core, uint64_t now_ms);

/* The entry expires at now_ms, and nothing after it. */
void expect_only(core_t *core, uint64_t now_ms, const uvwheel_entry_t *entry);

/* How many entries expire at now_ms. */
uint64_t drain(core_t *core, uint64_t now_ms);

/* ---- Many entries -------------------------------------------------------- */

typedef struct item_s {
  uvwheel_entry_t entry;
  unsigned index; /* for the test that numbers its items       */
  unsigned seen;  /* for the test that counts what it meets    */
} item_t;

/* Delays at which an off-by-one shows: a millisecond before, at and after
 * nothing, one tick, and all slots but one, in each of the first rounds.
 * Returns how many. */
#define MAX_DELAYS 40
size_t boundary_delays(const shape_t *shape, unsigned rounds, uint64_t *delays);

/* How many entries wait in a slot. */
uint64_t slot_count(const core_t *core, uint64_t number);

#endif /* CORE_SUPPORT_H */
