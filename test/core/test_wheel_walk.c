/* SPDX-License-Identifier: MIT */

/* Walks over the wheel: each entry once, whatever happens between the steps.
 */

#include <stdbool.h>
#include <string.h>

#include "core_support.h"
#include "suite.h"

#define TICK_MS 10
#define SLOTS 8
#define COUNT 24

static item_t items[COUNT];

/* A wheel with entries on all kinds of lists: in slots, and of a pass that a
 * budget cut, some looked at, some not; 23 of the 24 are left. */
static void
open_crowded(uvwheel_core_t *core, uint32_t flags)
{
  const shape_t shape = {TICK_MS, SLOTS, flags};
  uint64_t budget = 7;
  size_t i;

  memset(items, 0, sizeof items);
  open_core(core, &shape);
  for (i = 0; i < COUNT; i++)
    insert(core, &items[i].entry, i < 16 ? i % 2 * TICK_MS * SLOTS : i * 9);
  ck_assert_ptr_nonnull(uvwheel__core_expire(core, TICK_MS, &budget));
  verify(core);
}

static item_t *
step(uvwheel_core_t *core, uvwheel_cursor_t *cursor)
{
  item_t *item = (item_t *)uvwheel__core_walk_next(core, cursor);

  verify(core);
  return item;
}

static unsigned
walk(uvwheel_core_t *core)
{
  uvwheel_cursor_t cursor;
  unsigned visits = 0;

  uvwheel__core_walk_begin(core, &cursor);
  while (step(core, &cursor) != NULL)
    visits++;
  return visits;
}

START_TEST(a_walk_visits_each_entry_once)
{
  uvwheel_core_t core;
  uvwheel_cursor_t cursor;
  item_t *item;
  size_t i;

  open_crowded(&core, slot_kinds[_i].flags);
  uvwheel__core_walk_begin(&core, &cursor);
  verify(&core);
  while ((item = step(&core, &cursor)) != NULL)
    item->seen++;
  for (i = 0; i < COUNT; i++)
    require_in(slot_kinds[_i].name,
               items[i].seen ==
                   (unsigned)uvwheel__entry_is_active(&items[i].entry));
  ck_assert_uint_eq(walk(&core), uvwheel__core_count(&core));
  close_core(&core);
}
END_TEST

START_TEST(a_walk_over_an_empty_wheel_visits_nothing)
{
  uvwheel_core_t core;

  open_core(&core, &shapes[_i]);
  ck_assert_uint_eq(walk(&core), 0);
  close_core(&core);
}
END_TEST

static void
remove_if_active(uvwheel_core_t *core, item_t *item)
{
  if (uvwheel__entry_is_active(&item->entry))
    remove_entry(core, &item->entry);
}

static void
restart(uvwheel_core_t *core, item_t *item)
{
  if (!uvwheel__entry_is_active(&item->entry))
    return;
  remove_entry(core, &item->entry);
  insert(core, &item->entry, TICK_MS * 3);
}

static void
postpone_by_rounds(uvwheel_core_t *core, item_t *item)
{
  if (uvwheel__entry_is_active(&item->entry))
    postpone(core, &item->entry, item->entry.due_ms + 100);
}

static void
pull_in(uvwheel_core_t *core, item_t *item)
{
  if (uvwheel__entry_is_active(&item->entry))
    postpone(core, &item->entry, 0);
}

static void
walk_all(uvwheel_core_t *core, item_t *item)
{
  (void)item;
  ck_assert_uint_eq(walk(core), uvwheel__core_count(core));
}

static void
walk_and_remove(uvwheel_core_t *core, item_t *item)
{
  uvwheel_cursor_t cursor;
  item_t *inner;

  uvwheel__core_walk_begin(core, &cursor);
  while ((inner = step(core, &cursor)) != NULL)
    if (inner == item)
      remove_entry(core, &item->entry);
}

/* What a step may do to another entry. */
typedef void (*action_t)(uvwheel_core_t *core, item_t *item);

static const action_t actions[] = {remove_if_active,   restart,
                                   postpone_by_rounds, pull_in,
                                   walk_all,           walk_and_remove};

/* At the nth step something is done to an entry; the others are visited
 * exactly once all the same. */
static void
check_disturbed_walk(uint32_t flags, size_t nth, size_t victim, action_t action)
{
  bool in_place = action == postpone_by_rounds && flags != UVWHEEL_FIFO;
  bool undisturbed = in_place || action == walk_all;
  uvwheel_core_t core;
  uvwheel_cursor_t cursor;
  item_t *item;
  size_t i, steps = 0;

  open_crowded(&core, flags);
  for (i = 0; i < COUNT; i++)
    if (!uvwheel__entry_is_active(&items[i].entry))
      items[i].seen = 1;
  uvwheel__core_walk_begin(&core, &cursor);
  while ((item = step(&core, &cursor)) != NULL) {
    item->seen++;
    if (steps++ == nth)
      action(&core, &items[victim]);
  }
  for (i = 0; i < COUNT; i++)
    if (i != victim || undisturbed)
      ck_assert_uint_eq(items[i].seen, 1);
  ck_assert_uint_eq(walk(&core), uvwheel__core_count(&core));
  run_out(&core, items, COUNT, TICK_MS);
  close_core(&core);
}

START_TEST(a_walk_survives_any_operation_on_any_entry_at_any_step)
{
  size_t nth, victim;

  for (nth = 0; nth < COUNT; nth++)
    for (victim = 0; victim < COUNT; victim++) {
      check_disturbed_walk(0, nth, victim, actions[_i]);
      check_disturbed_walk(UVWHEEL_FIFO, nth, victim, actions[_i]);
    }
}
END_TEST

START_TEST(a_removed_entry_is_not_visited_any_more)
{
  uvwheel_core_t core;
  uvwheel_cursor_t cursor;
  item_t *item;
  size_t i;
  unsigned visits = 0;

  open_crowded(&core, slot_kinds[_i].flags);
  uvwheel__core_walk_begin(&core, &cursor);
  while ((item = step(&core, &cursor)) != NULL) {
    visits++;
    for (i = 0; i < COUNT; i++)
      if (&items[i] != item && uvwheel__entry_is_active(&items[i].entry))
        remove_entry(&core, &items[i].entry);
  }
  require_in(slot_kinds[_i].name, visits == 1);
  close_core(&core);
}
END_TEST

START_TEST(a_walk_that_starts_entries_at_each_step_comes_to_an_end)
{
  static item_t more[COUNT * SLOTS * SLOTS];
  uvwheel_core_t core;
  uvwheel_cursor_t cursor;
  size_t used = 0;

  open_crowded(&core, slot_kinds[_i].flags);
  uvwheel__core_walk_begin(&core, &cursor);
  while (step(&core, &cursor) != NULL) {
    require_in(slot_kinds[_i].name, used < LENGTH(more));
    insert(&core, &more[used].entry, used * TICK_MS);
    used++;
  }
  ck_assert_uint_eq(walk(&core), uvwheel__core_count(&core));
  close_core(&core);
}
END_TEST

/* Each step of a walk makes a walk, each step of which makes another one. */
START_TEST(walks_can_be_nested)
{
  uvwheel_core_t core;
  uvwheel_cursor_t outer, inner;
  item_t *item;
  uint64_t visits = 0, count;

  open_crowded(&core, slot_kinds[_i].flags);
  uvwheel__core_walk_begin(&core, &outer);
  while (step(&core, &outer) != NULL) {
    uvwheel__core_walk_begin(&core, &inner);
    while ((item = step(&core, &inner)) != NULL) {
      item->seen++;
      visits += walk(&core);
    }
  }
  count = uvwheel__core_count(&core);
  require_in(slot_kinds[_i].name, visits == count * count * count);
  ck_assert_uint_eq(count, COUNT - 1);
  close_core(&core);
}
END_TEST

START_TEST(counting_a_slot_during_a_walk_counts_entries_alone)
{
  const shape_t shape = {TICK_MS, 1, 0};
  uvwheel_core_t core;
  uvwheel_cursor_t outer, inner;
  size_t i;

  open_core(&core, &shape);
  for (i = 0; i < COUNT; i++)
    insert(&core, &items[i].entry, i);
  uvwheel__core_walk_begin(&core, &outer);
  while (step(&core, &outer) != NULL) {
    ck_assert_uint_eq(uvwheel__core_slot_count(&core, 0), COUNT);
    uvwheel__core_walk_begin(&core, &inner);
    while (step(&core, &inner) != NULL)
      ck_assert_uint_eq(uvwheel__core_slot_count(&core, 0), COUNT);
  }
  close_core(&core);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("wheel walks");
  TCase *walks = tcase_create("walks");

  tcase_add_loop_test(walks, a_walk_visits_each_entry_once, 0, SLOT_KINDS);
  tcase_add_loop_test(walks, a_walk_over_an_empty_wheel_visits_nothing, 0,
                      shape_count);
  tcase_add_loop_test(walks,
                      a_walk_survives_any_operation_on_any_entry_at_any_step, 0,
                      (int)LENGTH(actions));
  tcase_add_loop_test(walks, a_removed_entry_is_not_visited_any_more, 0,
                      SLOT_KINDS);
  tcase_add_loop_test(walks,
                      a_walk_that_starts_entries_at_each_step_comes_to_an_end,
                      0, SLOT_KINDS);
  tcase_add_loop_test(walks, walks_can_be_nested, 0, SLOT_KINDS);
  tcase_add_test(walks, counting_a_slot_during_a_walk_counts_entries_alone);
  tcase_set_timeout(walks, 60);
  suite_add_tcase(suite, walks);
  return run_suite(suite);
}
