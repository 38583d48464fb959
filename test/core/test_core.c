/* SPDX-License-Identifier: MIT */

/* The wheel on a fake clock: when entries expire, from every position of the
 * hand. test/model runs random operations against a model (scenario 21). */

#include <stdlib.h>
#include <string.h>

#include "core_support.h"
#include "suite.h"

#define ROUNDS 4

/* ---- One entry ----------------------------------------------------------- */

static void expire_alone(core_t *core, const shape_t *shape,
                         uint64_t start_ms) {
  uint64_t delays[MAX_DELAYS], now_ms = start_ms;
  size_t i, count = boundary_delays(shape, ROUNDS, delays);
  uvwheel_entry_t entry;

  for (i = 0; i < count; i++) {
    uint64_t tick_ms = tick_ms_after(shape->tick_ms, now_ms + delays[i]);
    insert(core, &entry, now_ms + delays[i]);
    ck_assert_uint_eq(uvwheel__core_next_ms(core), tick_ms);
    expect_none(core, now_ms);
    ck_assert_uint_eq(uvwheel__core_next_ms(core), tick_ms);
    expect_none(core, tick_ms - 1);
    ck_assert_uint_eq(uvwheel__core_next_ms(core), tick_ms);
    expect_only(core, tick_ms, &entry);
    ck_assert_uint_eq(uvwheel__core_next_ms(core), UINT64_MAX);
    /* The next one starts from the same position of the hand. */
    now_ms += ROUNDS * shape->slots * shape->tick_ms;
    now_ms += shape->slots * shape->tick_ms;
    expect_none(core, now_ms);
  }
  ck_assert_uint_eq(core->stats.examined, count);
  ck_assert_uint_eq(core->stats.rescheduled, 0);
}

/* In a new wheel whose hand stands at each position of two rounds (at most 40),
 * and with times at the start and at the end of a tick. */
static void at_every_hand(const shape_t *shape) {
  uint64_t phases[] = {0, shape->tick_ms - 1};
  uint64_t hand, hands = 2 * shape->slots + 1;
  size_t phase, phase_count = shape->tick_ms == 1 ? 1 : 2;

  for (hand = 0; hand < hands; hand += 1 + hands / 40)
    for (phase = 0; phase < phase_count; phase++) {
      uint64_t now_ms = hand * shape->tick_ms + phases[phase];
      core_t core;
      open_core(&core, shape);
      expect_none(&core, now_ms);
      expire_alone(&core, shape, now_ms);
      close_core(&core);
    }
}

/* P1 */
START_TEST(an_entry_expires_exactly_at_the_first_tick_after_it_is_due) {
  at_every_hand(&shapes[_i]);
}
END_TEST

/* ---- Large times --------------------------------------------------------- */

/* P5. Around powers of two, and around the ticks before them. A wheel that is
 * empty in between must not remember an old time: RussellLuo/timingwheel#45. */
START_TEST(any_due_time_is_legal_and_the_last_ones_are_never_reached) {
  bool is_empty = _i >= SHAPES;
  uvwheel_entry_t never, never_too, entry;
  core_t core;
  uint64_t due_ms, tick_ms;
  unsigned bit, i;

  open_core(&core, &shapes[_i % SHAPES]);
  insert(&core, &never, UINT64_MAX);
  if (is_empty)
    remove_entry(&core, &never);
  for (bit = 8; bit < 63; bit++)
    for (i = 0; i < 6; i++) {
      due_ms = UINT64_C(1) << bit;
      due_ms -= i < 3 ? due_ms % core.tick_ms : 0;
      due_ms += i % 3 - 1;
      tick_ms = tick_ms_after(core.tick_ms, due_ms);
      insert(&core, &entry, due_ms);
      ck_assert_uint_eq(uvwheel__core_next_ms(&core), tick_ms);
      expect_none(&core, tick_ms - 1);
      expect_only(&core, tick_ms, &entry);
    }
  insert(&core, &never_too, UINT64_MAX);
  expect_none(&core, INT64_MAX);
  ck_assert(is_active(&never_too) && is_active(&never) != is_empty);
  close_core(&core);
}
END_TEST

/* ---- Turns --------------------------------------------------------------- */

#define TICK_MS 10
#define SLOTS 4

/* Spends a budget at now_ms. Returns how many entries expired, marking them
 * as seen. */
static unsigned turn(core_t *core, uint64_t now_ms, uint64_t budget) {
  uvwheel_entry_t *entry;
  unsigned expired = 0;

  while ((entry = expire_within(core, now_ms, &budget)) != NULL) {
    ((item_t *)entry)->seen++;
    expired++;
  }
  return expired;
}

#define MANY 600 /* more than the wheel looks at in one go */

static const uint64_t budgets[] = {1, 2, 7, 8, 9, 100, 255, 256, 257, 599};

/* P8 */
START_TEST(a_budget_bounds_what_one_turn_hands_out) {
  const shape_t shape = {TICK_MS, SLOTS, slot_kinds[_i % SLOT_KINDS].flags};
  uint64_t budget = budgets[_i / SLOT_KINDS];
  static item_t items[MANY];
  uvwheel_entry_t later;
  core_t core;
  unsigned expired = 0, turns = 0;
  size_t i;

  open_core(&core, &shape);
  memset(items, 0, sizeof items);
  insert(&core, &later, 15);
  for (i = 0; i < MANY; i++)
    insert(&core, &items[i].entry, 5);
  ck_assert_uint_eq(turn(&core, 10, 0), 0);
  for (; expired < MANY; turns++) {
    unsigned now = turn(&core, 10, budget);
    ck_assert_uint_eq(now, min_of(budget, MANY - expired));
    expired += now;
    ck_assert_int_eq(uvwheel__core_next_ms(&core) <= 10, expired < MANY);
  }
  ck_assert_uint_eq(turns, (MANY + budget - 1) / budget);
  for (i = 0; i < MANY; i++)
    ck_assert_uint_eq(items[i].seen, 1);
  ck_assert_uint_eq(core.stats.examined, MANY);
  close_core(&core);
}
END_TEST

/* P8. Postponed ones take from it, too, whether they were found due or not. */
START_TEST(a_budget_bounds_what_one_turn_moves) {
  static item_t items[MANY];
  core_t core;
  unsigned i;

  open_core(&core, &(shape_t){TICK_MS, SLOTS, slot_kinds[_i].flags});
  for (i = 0; i < MANY; i++)
    insert(&core, &items[i].entry, 5);
  ck_assert_ptr_nonnull(expire(&core, 10));
  for (i = 0; i < MANY; i++)
    items[i].entry.due_ms = 15;
  ck_assert_uint_eq(turn(&core, 10, 400), 0);
  ck_assert_uint_eq(core.stats.rescheduled, 400);
  close_core(&core);
}
END_TEST

/* ---- Order --------------------------------------------------------------- */

static void visit(core_t *core, unsigned count) {
  for (; count > 0; count--)
    ck_assert_ptr_nonnull(walk_next(core));
}

/* P4. A draw is under way when a walk begins, which is left for another one;
 * meanwhile others are inserted. */
START_TEST(fifo_entries_keep_their_order_in_walks) {
  static item_t items[MANY];
  core_t core;
  unsigned i, half = MANY / 2;

  open_core(&core, &(shape_t){TICK_MS, SLOTS, UVWHEEL_FIFO});
  for (i = 0; i < half; i++)
    insert(&core, &items[i].entry, 105);
  ck_assert_uint_eq(draw(&core, 3), 3);
  walk_begin(&core);
  visit(&core, half / 2);
  for (; i < MANY - 1; i++)
    insert(&core, &items[i].entry, 105);
  walk_begin(&core);
  visit(&core, MANY - 2);
  insert(&core, &items[i].entry, 105);
  visit(&core, 1);
  ck_assert_ptr_null(walk_next(&core));
  for (i = 0; i < MANY; i++)
    ck_assert_ptr_eq(expire(&core, 110), &items[i].entry);
  close_core(&core);
}
END_TEST

/* P4. A late insert gives up a pass that has kept an entry of a later round,
 * and has not come to the next one. */
START_TEST(fifo_entries_keep_their_order_where_a_pass_is_given_up) {
  const uint64_t round_ms = SLOTS * TICK_MS;
  uvwheel_entry_t due, items[2], late;
  uint64_t budget = 2;
  core_t core;

  open_core(&core, &(shape_t){TICK_MS, SLOTS, UVWHEEL_FIFO});
  insert(&core, &due, 15);
  insert(&core, &items[0], 15 + round_ms);
  insert(&core, &items[1], 15 + round_ms);
  ck_assert_ptr_eq(expire_within(&core, 20, &budget), &due);
  insert(&core, &late, 5);
  expect_only(&core, 20, &late);
  ck_assert_ptr_eq(expire(&core, 20 + round_ms), &items[0]);
  expect_only(&core, 20 + round_ms, &items[1]);
  close_core(&core);
}
END_TEST

/* ---- Making a wheel ------------------------------------------------------ */

START_TEST(the_largest_tick_and_the_most_slots_work) {
  const shape_t shape = {UVWHEEL_MAX_TICK_MS, UVWHEEL_MAX_SLOTS, UVWHEEL_FIFO};
  const uint64_t day_ms = UVWHEEL_MAX_TICK_MS;
  uvwheel_entry_t entry;
  core_t core;

  open_core(&core, &shape);
  ck_assert_uint_gt(core.reciprocal_ms, 3 * 365 * day_ms); /* no division */
  insert(&core, &entry, day_ms * UVWHEEL_MAX_SLOTS);
  ck_assert_uint_eq(slot_count(&core, 1), 1);
  expect_none(&core, day_ms * (UVWHEEL_MAX_SLOTS + 1) - 1);
  expect_only(&core, day_ms * (UVWHEEL_MAX_SLOTS + 1), &entry);
  insert(&core, &entry, day_ms * (UINT64_C(2) * UVWHEEL_MAX_SLOTS - 1) - 1);
  ck_assert_uint_eq(slot_count(&core, UVWHEEL_MAX_SLOTS - 1), 1);
  close_core(&core);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(an_entry_expires_exactly_at_the_first_tick_after_it_is_due, shapes),
      {any_due_time_is_legal_and_the_last_ones_are_never_reached, 0,
       2 * SHAPES},
      {a_budget_bounds_what_one_turn_hands_out, 0,
       SLOT_KINDS * LENGTH(budgets)},
      EACH(a_budget_bounds_what_one_turn_moves, slot_kinds),
      TEST(fifo_entries_keep_their_order_in_walks),
      TEST(fifo_entries_keep_their_order_where_a_pass_is_given_up),
      TEST(the_largest_tick_and_the_most_slots_work),
  };

  return run_tests("core", NULL, NULL, tests, LENGTH(tests));
}
