/* SPDX-License-Identifier: MIT */

/* The wheel on a fake clock: what happens between the calls of one turn, when
 * a budget cuts a pass, and in which order entries expire. */

#include <stdbool.h>
#include <string.h>

#include "core_support.h"
#include "suite.h"

#define TICK_MS 10
#define SLOTS 4
#define ROUND_MS (TICK_MS * SLOTS)

static const shape_t lanes = {TICK_MS, SLOTS, 0};
static const shape_t fifo = {TICK_MS, SLOTS, UVWHEEL_FIFO};

/* Spends a budget at now_ms. Returns how many entries expired, marking them
 * as seen. */
static unsigned
turn(uvwheel_core_t *core, uint64_t now_ms, uint64_t budget)
{
  uvwheel_entry_t *entry;
  unsigned expired = 0;

  while ((entry = expire_within(core, now_ms, &budget)) != NULL) {
    ((item_t *)entry)->seen++;
    expired++;
  }
  return expired;
}

/* ---- Budget -------------------------------------------------------------- */

#define MANY 600 /* more than the wheel looks at in one go */

static const uint64_t budgets[] = {1, 2, 7, 8, 9, 100, 255, 256, 257, 599};

static void
spend(uint64_t budget, const shape_t *shape)
{
  static item_t items[MANY];
  uvwheel_core_t core;
  unsigned expired = 0, turns = 0;
  size_t i;

  open_core(&core, shape);
  memset(items, 0, sizeof items);
  for (i = 0; i < MANY; i++)
    insert(&core, &items[i].entry, 5);
  ck_assert_uint_eq(turn(&core, 10, 0), 0);
  for (; expired < MANY; turns++) {
    unsigned now = turn(&core, 10, budget);
    ck_assert_uint_eq(now, budget < MANY - expired ? budget : MANY - expired);
    expired += now;
    ck_assert_int_eq(uvwheel__core_next_ms(&core) <= 10, expired < MANY);
  }
  ck_assert_uint_eq(turns, (MANY + budget - 1) / budget);
  for (i = 0; i < MANY; i++)
    ck_assert_uint_eq(items[i].seen, 1);
  ck_assert_uint_eq(core.counters.examined, MANY);
  close_core(&core);
}

/* P8 */
START_TEST(a_budget_bounds_what_one_turn_hands_out)
{
  spend(budgets[_i], &lanes);
  spend(budgets[_i], &fifo);
}
END_TEST

/* ---- Operations in the middle of a pass ---------------------------------- */

/* One slot with entries of each kind: due now, rounds to go, postponed into
 * another slot, postponed within the slot. */
#define KINDS 4
#define CROWD (3 * KINDS)

static void
fill_slot(uvwheel_core_t *core, item_t *items)
{
  static const uint64_t moved_to[KINDS] = {0, 0, 15, 5 + 2 * ROUND_MS};
  size_t i;

  for (i = 0; i < CROWD; i++) {
    memset(&items[i], 0, sizeof items[i]);
    insert(core, &items[i].entry, i % KINDS == 1 ? 5 + ROUND_MS : 5);
    if (moved_to[i % KINDS] != 0)
      postpone(core, &items[i].entry, moved_to[i % KINDS]);
  }
}

static void
act(uvwheel_core_t *core, item_t *item, const entry_action_t *action)
{
  if (is_active(&item->entry))
    action->act(core, &item->entry);
  else
    insert(core, &item->entry, 25);
}

/* Each entry meets the action at each point of a pass that each budget cuts
 * differently, and between the calls of one turn; all of them must still expire
 * exactly. muduo#668 and its kin. */
static void
act_in_a_pass(const entry_action_t *action, const shape_t *shape)
{
  size_t budget, i, before, done;
  item_t items[CROWD];
  uvwheel_core_t core;

  for (budget = 0; budget <= CROWD; budget++)
    for (i = 0; i < CROWD; i++)
      for (before = 0; before <= CROWD / (budget + 1); before++) {
        open_core(&core, shape);
        fill_slot(&core, items);
        for (done = 0; done < before; done++)
          if (budget > 0)
            turn(&core, 10, budget);
          else
            (void)expire(&core, 10);
        act(&core, &items[i], action);
        run_out(&core, items, CROWD, 10);
        close_core(&core);
      }
}

START_TEST(any_operation_in_the_middle_of_a_pass_is_honoured)
{
  act_in_a_pass(&entry_actions[_i], &lanes);
  act_in_a_pass(&entry_actions[_i], &fifo);
}
END_TEST

/* ModernUO#705. */
START_TEST(an_entry_put_back_during_its_turn_waits_for_its_next_tick)
{
  static const uint64_t delays[] = {0,           1,
                                    TICK_MS - 1, TICK_MS,
                                    TICK_MS + 1, ROUND_MS - TICK_MS,
                                    ROUND_MS,    ROUND_MS + 1,
                                    2 * ROUND_MS};
  uint64_t now_ms = 10 + (uint64_t)_i, due_ms;
  item_t items[2];
  uvwheel_core_t core;
  size_t i;

  for (i = 0; i < LENGTH(delays); i++) {
    open_core(&core, &lanes);
    insert(&core, &items[0].entry, 5);
    insert(&core, &items[1].entry, 5);
    ck_assert_ptr_eq(expire(&core, now_ms), &items[0].entry);
    due_ms = now_ms + delays[i];
    insert(&core, &items[0].entry, due_ms);
    expect_only(&core, now_ms, &items[1].entry);
    expect_none(&core, tick_ms_after(TICK_MS, due_ms) - 1);
    expect_only(&core, tick_ms_after(TICK_MS, due_ms), &items[0].entry);
    close_core(&core);
  }
}
END_TEST

/* P1. What is due at the time of a tick expires at the next one, wherever the
 * wheel comes to know of it: at the look, after it was found due, and when it
 * was drawn. */
START_TEST(an_entry_that_is_due_at_the_tick_itself_waits_for_the_next_one)
{
  item_t items[3];
  uvwheel_core_t core;

  open_core(&core, &(shape_t){TICK_MS, SLOTS, slot_kinds[_i].flags});
  insert(&core, &items[0].entry, 9);
  insert(&core, &items[1].entry, 9);
  insert(&core, &items[2].entry, 9);
  postpone(&core, &items[0].entry, 10);
  ck_assert_ptr_eq(expire(&core, 10), &items[1].entry);
  postpone(&core, &items[2].entry, 10);
  expect_none(&core, 19);
  ck_assert_uint_eq(draw(&core, 19, 2), 2);
  postpone(&core, &items[0].entry, 20);
  postpone(&core, &items[2].entry, 19);
  ck_assert_ptr_eq(take_drawn(&core), &items[2].entry);
  ck_assert_ptr_null(take_drawn(&core));
  expect_none(&core, 29);
  expect_only(&core, 30, &items[0].entry);
  close_core(&core);
}
END_TEST

/* RussellLuo/timingwheel#45, on the wheel alone. */
START_TEST(short_timers_started_while_catching_up_do_not_extend_the_turn)
{
  item_t item;
  uvwheel_core_t core;
  uint64_t now_ms = 100 * ROUND_MS;
  unsigned i;

  open_core(&core, &lanes);
  insert(&core, &item.entry, 5);
  for (i = 0; i < 10; i++) {
    ck_assert_ptr_eq(expire(&core, now_ms), &item.entry);
    insert(&core, &item.entry, now_ms);
    expect_none(&core, now_ms);
    now_ms += 100 * ROUND_MS;
  }
  close_core(&core);
}
END_TEST

/* ---- Order --------------------------------------------------------------- */

/* Expires all at now_ms, which must come in the order of the array. */
static void
expect_order(uvwheel_core_t *core, uint64_t now_ms, item_t **order,
             size_t count)
{
  size_t i;

  for (i = 0; i < count; i++)
    ck_assert_ptr_eq(expire(core, now_ms), &order[i]->entry);
  expect_none(core, now_ms);
}

/* P4 */
START_TEST(fifo_entries_of_one_tick_expire_in_the_order_of_insertion)
{
  item_t items[50], *order[LENGTH(items)];
  uvwheel_core_t core;
  size_t i;

  open_core(&core, &fifo);
  for (i = 0; i < LENGTH(items); i++) {
    order[i] = &items[i];
    /* Within the tick the due time does not matter. */
    insert(&core, &items[i].entry, 100 + i * 7 % TICK_MS);
  }
  expect_order(&core, 110, order, LENGTH(items));
  close_core(&core);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("wheel turns");
  TCase *turns = tcase_create("turns");

  tcase_add_loop_test(turns, a_budget_bounds_what_one_turn_hands_out, 0,
                      (int)LENGTH(budgets));
  tcase_add_loop_test(turns, any_operation_in_the_middle_of_a_pass_is_honoured,
                      0, ENTRY_ACTIONS);
  tcase_add_loop_test(turns,
                      an_entry_put_back_during_its_turn_waits_for_its_next_tick,
                      0, TICK_MS);
  tcase_add_loop_test(
      turns, an_entry_that_is_due_at_the_tick_itself_waits_for_the_next_one, 0,
      SLOT_KINDS);
  tcase_add_test(turns,
                 short_timers_started_while_catching_up_do_not_extend_the_turn);
  tcase_add_test(turns,
                 fifo_entries_of_one_tick_expire_in_the_order_of_insertion);
  tcase_set_timeout(turns, 60);
  suite_add_tcase(suite, turns);
  return run_suite(suite);
}
