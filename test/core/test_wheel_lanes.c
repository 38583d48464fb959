/* SPDX-License-Identifier: MIT */

/* The wheel on a fake clock: slots with so many entries that lanes take turns,
 * the order of a FIFO wheel, and wheels that have turned for long. */

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
    (void)uvwheel__core_insert(core, &items[i].entry, due_ms);
  verify(core);
}

/* ---- Lanes in use -------------------------------------------------------- */

static unsigned
length_of(const uvwheel_link_t *lane)
{
  const uvwheel_link_t *link;
  unsigned length = 0;

  if (lane->next != NULL)
    for (link = lane->next; link != lane; link = link->next)
      length++;
  return length;
}

static unsigned
lanes_in_use(const uvwheel_slot_t *slot)
{
  unsigned count = 0, i;

  for (i = 0; i < UVWHEEL_LANES; i++)
    count += slot->lanes[i].next != NULL;
  return count;
}

static unsigned
longest_lane(const uvwheel_slot_t *slot)
{
  unsigned longest = 0, i;

  for (i = 0; i < UVWHEEL_LANES; i++) {
    unsigned length = length_of(&slot->lanes[i]);
    longest = length > longest ? length : longest;
  }
  return longest;
}

/* Unused lanes are not in memory, and used ones are drained side by side. */
START_TEST(few_entries_use_few_lanes_and_many_use_all)
{
  static item_t items[20 * UVWHEEL_LANES];
  uvwheel_core_t core;

  open_core(&core, &lanes);
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

/* ---- Order --------------------------------------------------------------- */

#define OLD 52
#define MOST_NEW 300

/* The budget of the pass, how many come in the middle of it, and what else
 * happens then. */
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
  for (; (expired = uvwheel__core_expire(&core, 20, &budget)) != NULL;
       next += 2)
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

/* P4 */
START_TEST(fifo_entries_of_the_next_round_keep_their_order_in_a_cut_pass)
{
  size_t count;
  int event;

  for (count = 0; count < LENGTH(new_counts); count++)
    for (event = 0; event < EVENTS; event++)
      play_pass(budgets[_i], new_counts[count], event);
}
END_TEST

/* A pass is cut by its budget, the clock steps back, and more entries come for
 * its tick: before the wheel has noticed, and after. */
static void
play_stall(size_t old_count, size_t before, size_t after, uint64_t budget)
{
  static item_t crowd[OLD + MOST_NEW];
  uvwheel_entry_t *expired;
  uvwheel_core_t core;
  size_t next = 0;

  open_core(&core, &fifo);
  insert_all(&core, crowd, old_count, 15);
  while ((expired = uvwheel__core_expire(&core, 20, &budget)) != NULL)
    ck_assert_ptr_eq(expired, &crowd[next++].entry);
  insert_all(&core, crowd + old_count, before, 15);
  expect_none(&core, 15);
  insert_all(&core, crowd + old_count + before, after, 15);
  for (; next < old_count + before + after; next++)
    ck_assert_ptr_eq(expire(&core, 20), &crowd[next].entry);
  expect_none(&core, 20);
  close_core(&core);
}

/* P4 */
START_TEST(fifo_entries_of_a_pass_that_a_stall_cuts_keep_their_order)
{
  static const size_t old_counts[] = {1, 4, 60, 61, 64, 100, 130, 250};
  static const size_t counts[] = {0, 1, 2, 5, 40};
  size_t before, after;

  for (before = 0; before < LENGTH(counts); before++)
    for (after = 0; after < LENGTH(counts); after++) {
      play_stall(old_counts[_i], counts[before], counts[after], 1);
      play_stall(old_counts[_i], counts[before], counts[after], 30);
    }
}
END_TEST

/* P4 */
START_TEST(half_a_million_fifo_entries_of_one_tick_stay_in_order)
{
  size_t count = 500000, i;
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
    require(uvwheel__core_expire(&core, 10 + ROUND_MS, &budget) ==
            &items[i].entry);
  close_core(&core);
  free(items);
}
END_TEST

/* ---- A wheel does not age ------------------------------------------------ */

#define CROWD 1200u

static const shape_t kinds[] = {{TICK_MS, SLOTS, 0},
                                {TICK_MS, SLOTS, UVWHEEL_FIFO}};
static item_t crowd[CROWD];

static void
open_crowd(uvwheel_core_t *core, const shape_t *shape)
{
  open_core(core, shape);
  memset(crowd, 0, sizeof crowd);
}

/* Within a round, and over several: those that restart themselves come to the
 * slot of the pass that is going on. */
static const struct {
  const char *name;
  shape_t shape;
  uint64_t timeout_ms;
} lives[] = {
    {"within a round", {TICK_MS, SLOTS, 0}, ROUND_MS - TICK_MS},
    {"3 rounds", {TICK_MS, SLOTS, 0}, 3 * ROUND_MS},
    {"over 5 rounds", {TICK_MS, SLOTS, 0}, 5 * ROUND_MS + TICK_MS},
    {"FIFO, within a round",
     {TICK_MS, SLOTS, UVWHEEL_FIFO},
     ROUND_MS - TICK_MS},
    {"FIFO, 3 rounds", {TICK_MS, SLOTS, UVWHEEL_FIFO}, 3 * ROUND_MS},
    {"FIFO, over 5 rounds",
     {TICK_MS, SLOTS, UVWHEEL_FIFO},
     5 * ROUND_MS + TICK_MS},
};

/* When an entry that expires now is due again. */
static uint64_t
next_due_ms(size_t index, uint64_t now_ms, uint64_t timeout_ms)
{
  return now_ms + timeout_ms - 1 + (index % 7 == 0 ? TICK_MS : 0);
}

/* Turns the wheel for that many rounds, in which all that expires is started
 * anew. Returns how many entries were looked at for each 100 that expired. */
static uint64_t
live(uvwheel_core_t *core, uint64_t *now_ms, uint64_t rounds,
     uint64_t timeout_ms)
{
  uvwheel_counters_t before = core->counters;
  uint64_t end_ms = *now_ms + rounds * ROUND_MS, budget = UINT64_MAX;
  uvwheel_entry_t *entry;

  for (; *now_ms < end_ms; *now_ms += TICK_MS)
    while ((entry = uvwheel__core_expire(core, *now_ms, &budget)) != NULL)
      (void)uvwheel__core_insert(
          core, entry,
          next_due_ms((size_t)((item_t *)entry - crowd), *now_ms, timeout_ms));
  verify(core);
  return 100 * (core->counters.examined - before.examined) /
         (core->counters.expired - before.expired);
}

static unsigned
longest_of_all(const uvwheel_core_t *core)
{
  unsigned longest = 0, slot;

  for (slot = 0; slot < SLOTS; slot++)
    if (longest_lane(&core->slots[slot]) > longest)
      longest = longest_lane(&core->slots[slot]);
  return longest;
}

/* P10 */
START_TEST(a_slot_is_dealt_as_evenly_after_thousands_of_rounds_as_at_first)
{
  uint64_t timeout_ms = lives[_i].timeout_ms, now_ms = 0, looked;
  unsigned longest;
  uvwheel_core_t core;
  size_t i;

  open_crowd(&core, &lives[_i].shape);
  for (i = 0; i < CROWD; i++)
    insert_all(&core, &crowd[i], 1, i * ROUND_MS / CROWD);
  (void)live(&core, &now_ms, 40, timeout_ms);
  looked = live(&core, &now_ms, 40, timeout_ms);
  longest = longest_of_all(&core);
  (void)live(&core, &now_ms, 4000, timeout_ms);
  require_in(lives[_i].name,
             live(&core, &now_ms, 40, timeout_ms) <= looked + looked / 20);
  require_in(lives[_i].name, longest_of_all(&core) <= 2 * longest);
  close_core(&core);
}
END_TEST

/* P10. An entry is looked at once in each round that it waits for, no more. */
START_TEST(an_entry_that_waits_for_rounds_is_looked_at_once_in_each)
{
  uvwheel_entry_t near;
  uvwheel_core_t core;
  uint64_t round;

  open_crowd(&core, &kinds[_i]);
  insert_all(&core, crowd, CROWD, 5 + 50 * ROUND_MS);
  for (round = 0; round < 50; round++) {
    insert(&core, &near, 5 + round * ROUND_MS);
    expect_only(&core, 10 + round * ROUND_MS, &near);
    ck_assert_uint_eq(core.counters.examined, (round + 1) * (CROWD + 1));
  }
  ck_assert_uint_eq(core.counters.rescheduled, 0);
  ck_assert_uint_eq(drain(&core, 10 + 50 * ROUND_MS), CROWD);
  close_core(&core);
}
END_TEST

/* Draws that take one entry each. */
static void
shed(uvwheel_core_t *core, unsigned count)
{
  unsigned i;

  for (i = 0; i < count; i++) {
    require(uvwheel__core_draw(core, 0, 1) == 1);
    require(uvwheel__core_take_drawn(core) != NULL);
    require(uvwheel__core_take_drawn(core) == NULL);
  }
  verify(core);
}

START_TEST(draws_of_one_look_at_one_and_leave_the_lanes_even)
{
  uvwheel_core_t core;

  open_crowd(&core, &kinds[_i]);
  insert_all(&core, crowd, CROWD, 15);
  shed(&core, CROWD / 2);
  ck_assert_uint_eq(core.counters.examined, CROWD / 2);
  if (kinds[_i].flags != UVWHEEL_FIFO)
    ck_assert_uint_le(longest_lane(&core.slots[2]),
                      CROWD / 2 / UVWHEEL_LANES + 8);
  ck_assert_uint_eq(drain(&core, 20), CROWD / 2);
  close_core(&core);
}
END_TEST

/* One in ten is due in this round: each draw goes on where the one before has
 * stopped, so that all are found in little more than one pass. */
START_TEST(draws_beside_the_next_round_do_not_look_at_the_same_again)
{
  uvwheel_core_t core;
  unsigned i;

  open_crowd(&core, &lanes);
  for (i = 0; i < CROWD; i++)
    insert_all(&core, &crowd[i], 1, i % 10 == 7 ? 15 : 15 + ROUND_MS);
  shed(&core, CROWD / 10);
  ck_assert_uint_le(core.counters.examined, CROWD + CROWD / 4);
  ck_assert_uint_le(longest_lane(&core.slots[2]), CROWD / 10);
  ck_assert_uint_eq(drain(&core, 20 + ROUND_MS), CROWD - CROWD / 10);
  close_core(&core);
}
END_TEST

/* A million slots, and what there is to find at the far end of them. */
START_TEST(the_next_tick_is_found_in_the_largest_wheels)
{
  static const uint64_t ticks[] = {1,    63,   64,      65,      4095,   4096,
                                   4097, 8191, 1 << 19, 1048574, 1048575};
  const shape_t shape = {1, 1 << 20, 0};
  uvwheel_entry_t near, far;
  uvwheel_core_t core;
  size_t i, j;

  /* Without a check of all invariants each time. */
  ck_assert_int_eq(
      uvwheel__core_init(&core, shape.tick_ms, shape.slots, shape.flags), 0);
  uvwheel__entry_init(&near);
  uvwheel__entry_init(&far);
  for (i = 0; i < LENGTH(ticks); i++)
    for (j = i + 1; j < LENGTH(ticks); j++) {
      uint64_t begin_ms = (i * LENGTH(ticks) + j + 1) * 12345678;
      uint64_t budget = UINT64_MAX;
      ck_assert_ptr_null(uvwheel__core_expire(&core, begin_ms, &budget));
      (void)uvwheel__core_insert(&core, &far, begin_ms + ticks[j] - 1);
      (void)uvwheel__core_insert(&core, &near, begin_ms + ticks[i] - 1);
      ck_assert_ptr_eq(
          uvwheel__core_expire(&core, begin_ms + ticks[i], &budget), &near);
      ck_assert_ptr_null(
          uvwheel__core_expire(&core, begin_ms + ticks[i], &budget));
      ck_assert_uint_eq(uvwheel__core_next_ms(&core), begin_ms + ticks[j]);
      uvwheel__core_remove(&core, &far);
      ck_assert_uint_eq(uvwheel__core_next_ms(&core), UINT64_MAX);
    }
  uvwheel__core_destroy(&core);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("wheel lanes");
  TCase *tcase = tcase_create("lanes");

  tcase_add_test(tcase, few_entries_use_few_lanes_and_many_use_all);
  tcase_add_loop_test(
      tcase, fifo_entries_of_the_next_round_keep_their_order_in_a_cut_pass, 0,
      (int)LENGTH(budgets));
  tcase_add_loop_test(
      tcase, fifo_entries_of_a_pass_that_a_stall_cuts_keep_their_order, 0, 8);
  tcase_add_test(tcase, half_a_million_fifo_entries_of_one_tick_stay_in_order);
  tcase_add_loop_test(
      tcase, a_slot_is_dealt_as_evenly_after_thousands_of_rounds_as_at_first, 0,
      (int)LENGTH(lives));
  tcase_add_loop_test(tcase,
                      an_entry_that_waits_for_rounds_is_looked_at_once_in_each,
                      0, (int)LENGTH(kinds));
  tcase_add_loop_test(tcase, draws_of_one_look_at_one_and_leave_the_lanes_even,
                      0, (int)LENGTH(kinds));
  tcase_add_test(tcase,
                 draws_beside_the_next_round_do_not_look_at_the_same_again);
  tcase_add_test(tcase, the_next_tick_is_found_in_the_largest_wheels);
  tcase_set_timeout(tcase, 60);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
