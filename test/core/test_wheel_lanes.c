/* SPDX-License-Identifier: MIT */

/* The wheel on a fake clock: slots with so many entries that lanes take turns
 * and, in a FIFO wheel, are joined. */

#include <stdlib.h>
#include <string.h>

#include "core_support.h"
#include "suite.h"

#define TICK_MS 10
#define SLOTS 4
#define ROUND_MS (TICK_MS * SLOTS)

static const shape_t lanes = {TICK_MS, SLOTS, 0};
static const shape_t fifo = {TICK_MS, SLOTS, UVWHEEL_FIFO};

static void
insert_all(uvwheel_core_t *core, item_t *items, size_t count, uint64_t due_ms)
{
  size_t i;

  for (i = 0; i < count; i++)
    (void)uvwheel_core_insert(core, &items[i].entry, due_ms);
  verify(core);
}

/* ---- Lanes in use -------------------------------------------------------- */

static unsigned
lanes_in_use(const uvwheel_slot_t *slot)
{
  unsigned count = 0, i;

  for (i = 0; i < UVWHEEL_LANES; i++)
    count += slot->lanes[i].next != NULL;
  return count;
}

/* What is not used is not in memory, and what is used is drained side by side.
 */
START_TEST(few_entries_use_few_lanes_and_many_use_all)
{
  static item_t items[20 * UVWHEEL_LANES];
  uvwheel_core_t core;

  open_core(&core, _i ? &fifo : &lanes);
  ck_assert_uint_eq(lanes_in_use(&core.slots[1]), 0);
  insert_all(&core, items, 3, 5);
  ck_assert_uint_eq(lanes_in_use(&core.slots[1]), 1);
  insert_all(&core, items + 3, LENGTH(items) - 3, 5);
  ck_assert_uint_eq(lanes_in_use(&core.slots[1]), UVWHEEL_LANES);
  ck_assert_uint_eq(lanes_in_use(&core.slots[2]), 0);
  ck_assert_uint_eq(drain(&core, 10), LENGTH(items));
  close_core(&core);
}
END_TEST

/* ---- Order in joined lanes ----------------------------------------------- */

#define OLD 52 /* they fill most lanes, but not all */
#define MOST_NEW 300

/* The budget of the pass, how many come in the middle of it (a few join lanes,
 * more join them several times), and what else happens then. */
static const uint64_t budgets[] = {0, 1, 4, 5, 26, OLD - 1, OLD, OLD + 1};
static const size_t new_counts[] = {0, 8, 70, MOST_NEW};
enum { NOTHING, LATE, EARLIER, STEP_BACK, EVENTS };

/* A pass over entries of this round and of the next one. Then new ones come for
 * the next one, and all of them have to expire in order. */
static void
play_pass(uint64_t budget, size_t new_count, int event)
{
  static item_t crowd[OLD + MOST_NEW];
  uvwheel_entry_t other, *expired;
  uvwheel_core_t core;
  size_t next = 0, i;

  open_core(&core, &fifo);
  /* What the wheel did before must not matter. */
  insert_all(&core, crowd, OLD + MOST_NEW, 5);
  ck_assert_uint_eq(drain(&core, 10), OLD + MOST_NEW);

  for (i = 0; i < OLD; i++)
    insert_all(&core, &crowd[i], 1, i % 2 ? 15 + ROUND_MS : 15);
  for (; (expired = uvwheel_core_expire(&core, 20, &budget)) != NULL; next += 2)
    ck_assert_ptr_eq(expired, &crowd[next].entry);
  insert_all(&core, crowd + OLD, new_count, 15 + ROUND_MS);
  if (event == LATE || event == EARLIER)
    insert(&core, &other, event == LATE ? 15 : 5);
  if (event == STEP_BACK)
    expect_none(&core, 19);
  if (event == EARLIER)
    ck_assert_ptr_eq(expire(&core, 20), &other);
  for (; next < OLD; next += 2)
    ck_assert_ptr_eq(expire(&core, 20), &crowd[next].entry);
  if (event == LATE)
    ck_assert_ptr_eq(expire(&core, 20), &other);
  expect_none(&core, 20);

  for (i = 1; i < OLD; i += 2)
    ck_assert_ptr_eq(expire(&core, 20 + ROUND_MS), &crowd[i].entry);
  for (i = OLD; i < OLD + new_count; i++)
    ck_assert_ptr_eq(expire(&core, 20 + ROUND_MS), &crowd[i].entry);
  expect_none(&core, 20 + ROUND_MS);
  close_core(&core);
}

START_TEST(a_pass_keeps_the_order_of_a_slot_whose_lanes_are_joined_meanwhile)
{
  size_t count;
  int event;

  for (count = 0; count < LENGTH(new_counts); count++)
    for (event = 0; event < EVENTS; event++)
      play_pass(budgets[_i], new_counts[count], event);
}
END_TEST

START_TEST(half_a_million_fifo_entries_of_one_tick_stay_in_order)
{
  size_t count = (UVWHEEL_LANES + 1) << 15, i;
  item_t *items = calloc(count, sizeof *items);
  uint64_t budget = UINT64_MAX;
  uvwheel_entry_t first;
  uvwheel_core_t core;

  ck_assert_ptr_nonnull(items);
  open_core(&core, &fifo);
  insert(&core, &first, 5);
  insert_all(&core, items, count, 5 + ROUND_MS);
  expect_only(&core, 10, &first); /* the others are put back */
  for (i = 0; i < count; i++)
    require(uvwheel_core_expire(&core, 10 + ROUND_MS, &budget) ==
            &items[i].entry);
  close_core(&core);
  free(items);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("wheel lanes");
  TCase *tcase = tcase_create("lanes");

  tcase_add_loop_test(tcase, few_entries_use_few_lanes_and_many_use_all, 0, 2);
  tcase_add_loop_test(
      tcase, a_pass_keeps_the_order_of_a_slot_whose_lanes_are_joined_meanwhile,
      0, (int)LENGTH(budgets));
  tcase_add_test(tcase, half_a_million_fifo_entries_of_one_tick_stay_in_order);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
