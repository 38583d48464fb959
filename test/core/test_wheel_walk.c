/* SPDX-License-Identifier: MIT */

/* Walks over the wheel: each entry once, whatever happens between the steps.
 */

#include <string.h>

#include "core_support.h"
#include "suite.h"

#define TICK_MS 10
#define SLOTS 8
#define COUNT 24

static uvwheel_core_t core;
static item_t items[COUNT];

/* A wheel with entries on all kinds of lists: in slots, and of a pass that a
 * budget cut, some looked at, some not; 23 of the 24 are left. */
static void
open_crowded(uint32_t flags)
{
  const shape_t shape = {TICK_MS, SLOTS, flags};
  uint64_t budget = 10;
  size_t i;

  memset(items, 0, sizeof items);
  open_core(&core, &shape);
  for (i = 0; i < COUNT; i++)
    insert(&core, &items[i].entry, i < 16 ? i % 2 * TICK_MS * SLOTS : i * 9);
  ck_assert_ptr_nonnull(expire_within(&core, TICK_MS, &budget));
}

static item_t *
step(void)
{
  item_t *item = (item_t *)walk_next(&core);

  if (item != NULL)
    item->seen++;
  return item;
}

static unsigned
walk(void)
{
  unsigned visits = 0;

  walk_begin(&core);
  while (step() != NULL)
    visits++;
  return visits;
}

START_TEST(a_walk_visits_each_entry_once)
{
  size_t i;

  open_crowded(slot_kinds[_i].flags);
  ck_assert_uint_eq(walk(), COUNT - 1);
  for (i = 0; i < COUNT; i++)
    require_in(slot_kinds[_i].name,
               items[i].seen == is_active(&items[i].entry));
  ck_assert_uint_eq(walk(), COUNT - 1);
  close_core(&core);
}
END_TEST

START_TEST(a_walk_over_an_empty_wheel_visits_nothing)
{
  open_core(&core, &shapes[_i]);
  ck_assert_uint_eq(walk(), 0);
  close_core(&core);
}
END_TEST

/* At the nth step something is done to an entry; the others are visited exactly
 * once all the same, and all expire in their time. */
static void
check_disturbed_walk(uint32_t flags, size_t nth, size_t victim,
                     const entry_action_t *action)
{
  uvwheel_entry_t *entry = &items[victim].entry;
  const uvwheel_link_t *next;
  bool is_in_place = false;
  size_t i, steps = 0;

  open_crowded(flags);
  walk_begin(&core);
  while (step() != NULL)
    if (steps++ == nth && is_active(entry)) {
      next = entry->link.next;
      action->act(&core, entry);
      is_in_place = entry->link.next == next;
    }
  for (i = 0; i < COUNT; i++)
    if (i != victim || is_in_place)
      require_in(action->name, items[i].seen == is_active(&items[i].entry));
  ck_assert_uint_eq(walk(), uvwheel__core_count(&core));
  run_out(&core, items, COUNT, TICK_MS);
  close_core(&core);
}

START_TEST(a_walk_survives_any_operation_on_any_entry_at_any_step)
{
  size_t nth, victim;

  for (nth = 0; nth < COUNT; nth++)
    for (victim = 0; victim < COUNT; victim++) {
      check_disturbed_walk(0, nth, victim, &entry_actions[_i]);
      check_disturbed_walk(UVWHEEL_FIFO, nth, victim, &entry_actions[_i]);
    }
}
END_TEST

START_TEST(a_removed_entry_is_not_visited_any_more)
{
  item_t *item;
  size_t i;
  unsigned visits = 0;

  open_crowded(slot_kinds[_i].flags);
  walk_begin(&core);
  while ((item = step()) != NULL) {
    visits++;
    for (i = 0; i < COUNT; i++)
      if (&items[i] != item && is_active(&items[i].entry))
        remove_entry(&core, &items[i].entry);
  }
  require_in(slot_kinds[_i].name, visits == 1);
  close_core(&core);
}
END_TEST

START_TEST(a_walk_that_starts_entries_at_each_step_comes_to_an_end)
{
  static item_t more[COUNT * SLOTS * SLOTS];
  size_t used = 0;

  open_crowded(slot_kinds[_i].flags);
  walk_begin(&core);
  while (step() != NULL) {
    require_in(slot_kinds[_i].name, used < LENGTH(more));
    insert(&core, &more[used].entry, used * TICK_MS);
    used++;
  }
  ck_assert_uint_eq(walk(), uvwheel__core_count(&core));
  close_core(&core);
}
END_TEST

START_TEST(entries_that_are_drawn_are_visited_and_stay_drawn)
{
  unsigned taken = 0;

  open_crowded(slot_kinds[_i].flags);
  ck_assert_uint_eq(draw(&core, TICK_MS, 5), 5);
  ck_assert_uint_eq(walk(), COUNT - 1);
  while (take_drawn(&core) != NULL)
    taken++;
  ck_assert_uint_eq(taken, 5);
  run_out(&core, items, COUNT, TICK_MS);
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
                      ENTRY_ACTIONS);
  tcase_add_loop_test(walks, a_removed_entry_is_not_visited_any_more, 0,
                      SLOT_KINDS);
  tcase_add_loop_test(walks,
                      a_walk_that_starts_entries_at_each_step_comes_to_an_end,
                      0, SLOT_KINDS);
  tcase_add_loop_test(walks, entries_that_are_drawn_are_visited_and_stay_drawn,
                      0, SLOT_KINDS);
  tcase_set_timeout(walks, 60);
  suite_add_tcase(suite, walks);
  return run_suite(suite);
}
