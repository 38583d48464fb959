/* SPDX-License-Identifier: MIT */

/* The wheel on a fake clock: how many entries and slots it looks at, at first
 * and after thousands of rounds. */

#include <string.h>

#include "core_support.h"
#include "suite.h"

#define TICK_MS 10
#define SLOTS 4
#define ROUND_MS (TICK_MS * SLOTS)
#define CROWD 1200u

static core_t core;
static item_t crowd[CROWD];
static int life; /* the row of the table */

static void open_crowd(uint32_t flags) {
  open_core(&core, &(shape_t){TICK_MS, SLOTS, flags});
  memset(crowd, 0, sizeof crowd);
}

static uint64_t lanes_in_use(const slot_t *slot) {
  return (slot->lanes_used - offsetof(slot_t, lanes)) / sizeof *slot->lanes;
}

static uint64_t longest_of(const uvwheel_link_t *lanes, uint64_t count) {
  uint64_t longest = 0, length, i;
  const uvwheel_link_t *link;

  for (i = 0; i < count; i++) {
    length = 0;
    for (link = lanes[i].next; link != &lanes[i]; link = link->next)
      length++;
    longest = max_of(longest, length);
  }
  return longest;
}

static uint64_t longest_lane(const slot_t *slot) {
  return slot->next_pass != 0 ? longest_of(slot->lanes, lanes_in_use(slot)) : 0;
}

/* Lanes that are not used are not in memory. Those that are used are as long as
 * each other. */
START_TEST(few_entries_use_few_lanes_and_many_use_all) {
  unsigned i;

  open_crowd(0);
  for (i = 0; i < 3; i++)
    insert(&core, &crowd[i].entry, 5);
  ck_assert_uint_eq(lanes_in_use(&core.slots[1]), 1);
  for (; i < CROWD; i++)
    insert(&core, &crowd[i].entry, 5);
  ck_assert_uint_eq(lanes_in_use(&core.slots[1]), MAX_LANES);
  ck_assert_uint_eq(longest_lane(&core.slots[1]), CROWD / MAX_LANES);
  ck_assert_uint_eq(drain(&core, 10), CROWD);
  insert(&core, &crowd[0].entry, 5 + ROUND_MS);
  ck_assert_uint_eq(lanes_in_use(&core.slots[1]), 1);
  close_core(&core);
}
END_TEST

/* ---- A wheel does not age ------------------------------------------------ */

/* Within a round, and over several: those that restart themselves come to the
 * slot of the pass that is going on. Some entries are postponed and drawn at
 * each tick. */
static const struct {
  const char *name;
  uint32_t flags;
  uint64_t timeout_ms;
  unsigned postponed;
  unsigned drawn;
} lives[] = {
    {"within a round", 0, ROUND_MS - TICK_MS, 0, 0},
    {"3 rounds", 0, 3 * ROUND_MS, 0, 0},
    {"over 5 rounds", 0, 5 * ROUND_MS + TICK_MS, 0, 0},
    {"FIFO, within a round", UVWHEEL_FIFO, ROUND_MS - TICK_MS, 0, 0},
    {"FIFO, 3 rounds", UVWHEEL_FIFO, 3 * ROUND_MS, 0, 0},
    {"FIFO, over 5 rounds", UVWHEEL_FIFO, 5 * ROUND_MS + TICK_MS, 0, 0},
    {"postponed", 0, 3 * ROUND_MS, 20, 0},
    {"drawn", 0, 3 * ROUND_MS, 0, 5},
};

static void start_again(uvwheel_entry_t *entry, uint64_t now_ms) {
  uint64_t late_ms = ((item_t *)entry)->index % 7 == 0 ? TICK_MS : 0;

  (void)put(&core, entry, now_ms + lives[life].timeout_ms - 1 + late_ms);
}

static void live_a_tick(uint64_t now_ms) {
  uint64_t budget = UINT64_MAX;
  uvwheel_entry_t *entry;
  unsigned i;

  for (i = 0; i < lives[life].postponed; i++) {
    entry = &crowd[(now_ms / TICK_MS * 7 + i * 59) % CROWD].entry;
    entry->due_ms = now_ms + lives[life].timeout_ms + TICK_MS;
  }
  for (i = 0; i < lives[life].drawn; i++) {
    uvwheel__core_draw(&core, 1);
    while ((entry = uvwheel__core_take_drawn(&core)) != NULL)
      start_again(entry, now_ms);
  }
  while ((entry = take_due(&core, now_ms, &budget)) != NULL)
    start_again(entry, now_ms);
}

/* Returns how many entries were looked at for each 100 that were inserted. */
static uint64_t live(uint64_t *now_ms, uint64_t rounds) {
  uint64_t examined = core.stats.examined, started = core.stats.started;
  uint64_t end_ms = *now_ms + rounds * ROUND_MS;

  for (; *now_ms < end_ms; *now_ms += TICK_MS)
    live_a_tick(*now_ms);
  verify(&core);
  return 100 * (core.stats.examined - examined) /
         (core.stats.started - started);
}

static uint64_t longest_of_all(void) {
  uint64_t longest = 0, slot;

  for (slot = 0; slot < SLOTS; slot++)
    longest = max_of(longest, longest_lane(&core.slots[slot]));
  return longest;
}

/* P10. Scenario 32. */
START_TEST(a_slot_is_filled_as_evenly_after_thousands_of_rounds_as_at_first) {
  uint64_t now_ms = 0, looked, longest;
  unsigned i;

  life = _i;
  open_crowd(lives[life].flags);
  for (i = 0; i < CROWD; i++) {
    crowd[i].index = i;
    insert(&core, &crowd[i].entry, i * ROUND_MS / CROWD);
  }
  (void)live(&now_ms, 40);
  looked = live(&now_ms, 40);
  longest = longest_of_all();
  (void)live(&now_ms, 4000);
  require_in(lives[life].name, live(&now_ms, 40) <= looked + looked / 20);
  require_in(lives[life].name, longest_of_all() <= 2 * longest);
  free_core(&core);
}
END_TEST

/* P10. cats-effect#1731. An entry is looked at once in each round that it waits
 * for, no more. */
START_TEST(an_entry_that_waits_for_rounds_is_looked_at_once_in_each) {
  uvwheel_entry_t early;
  uint64_t round;
  unsigned i;

  open_crowd(slot_kinds[_i].flags);
  for (i = 0; i < CROWD; i++)
    insert(&core, &crowd[i].entry, 5 + 50 * ROUND_MS);
  for (round = 0; round < 50; round++) {
    insert(&core, &early, 5 + round * ROUND_MS);
    expect_only(&core, 10 + round * ROUND_MS, &early);
    ck_assert_uint_eq(core.stats.examined, (round + 1) * (CROWD + 1));
  }
  ck_assert_uint_eq(core.stats.rescheduled, 0);
  ck_assert_uint_eq(drain(&core, 10 + 50 * ROUND_MS), CROWD);
  close_core(&core);
}
END_TEST

/* ---- Draws --------------------------------------------------------------- */

/* Draws that take one entry each. */
static void shed(unsigned count) {
  unsigned i;

  for (i = 0; i < count; i++) {
    require(draw(&core, 1) == 1);
    require(take_drawn(&core) != NULL);
    require(take_drawn(&core) == NULL);
  }
}

/* P8. Scenario 53. In the order of their inserts, whatever is due later in the
 * same slot, and whatever is inserted there meanwhile. */
START_TEST(a_fifo_slot_is_looked_at_in_parts_and_keeps_its_order) {
  unsigned expired = 0, i;
  const uvwheel_entry_t *entry;

  open_crowd(UVWHEEL_FIFO);
  for (i = 0; i < CROWD / 2; i++)
    insert(&core, &crowd[i].entry, i % 2 * ROUND_MS + 5);
  while ((entry = expire(&core, TICK_MS)) != NULL) {
    ck_assert_ptr_eq(entry, &crowd[2 * expired].entry);
    if (++expired == 1)
      ck_assert_uint_le(core.stats.examined, CROWD / 4);
    insert(&core, &crowd[CROWD / 2 + expired].entry, ROUND_MS + 5);
  }
  ck_assert_uint_eq(expired, CROWD / 4);
  for (i = 1; i < CROWD / 2; i += 2)
    ck_assert_ptr_eq(expire(&core, TICK_MS + ROUND_MS), &crowd[i].entry);
  for (i = 1; i <= expired; i++)
    ck_assert_ptr_eq(expire(&core, TICK_MS + ROUND_MS),
                     &crowd[CROWD / 2 + i].entry);
  close_core(&core);
}
END_TEST

/* P9, too: a slot that draws have emptied wakes nobody. */
START_TEST(draws_of_one_look_at_one_and_leave_the_lanes_even) {
  uvwheel_entry_t later;
  unsigned i;

  open_crowd(slot_kinds[_i].flags);
  insert(&core, &later, 35);
  for (i = 0; i < CROWD; i++)
    insert(&core, &crowd[i].entry, 15);
  shed(CROWD / 2);
  ck_assert_uint_eq(core.stats.examined, CROWD / 2);
  if (slot_kinds[_i].flags != UVWHEEL_FIFO)
    ck_assert_uint_le(longest_lane(&core.slots[2]), CROWD / 2 / MAX_LANES + 8);
  shed(CROWD / 2);
  ck_assert_uint_eq(uvwheel__core_next_ms(&core), 40);
  close_core(&core);
}
END_TEST

/* ---- Walks --------------------------------------------------------------- */

/* Those of one slot, and those of slots that use one lane each. */
START_TEST(a_walk_takes_entries_from_lanes_that_are_even) {
  const bool one_slot = _i == 0;
  unsigned visited = 0, i;

  open_core(&core, &(shape_t){TICK_MS, one_slot ? SLOTS : 512, 0});
  for (i = 0; i < CROWD; i++)
    insert(&core, &crowd[i].entry, one_slot ? 5 : i % 500 * TICK_MS);
  walk_begin(&core);
  ck_assert_uint_le(longest_of(core.unvisited, MAX_LANES),
                    CROWD / MAX_LANES + CROWD / 100);
  while (walk_next(&core) != NULL)
    visited++;
  ck_assert_uint_eq(visited, CROWD);
  if (one_slot)
    ck_assert_uint_eq(longest_lane(&core.slots[1]), CROWD / MAX_LANES);
  ck_assert_uint_eq(drain(&core, 500 * TICK_MS), CROWD);
  close_core(&core);
}
END_TEST

/* ---- The search for the next tick ---------------------------------------- */

#define MINUTE_MS 60000u
#define TURNS 1000u

/* P10. Scenario 44. A thousand slots have twenty each. The trap, as in the test
 * after this one, is laid after the first of the short one's turns. */
START_TEST(turns_of_a_short_entry_do_not_visit_slots_that_wait_for_a_minute) {
  const shape_t shape = {1, 16384, slot_kinds[_i].flags};
  static uvwheel_entry_t minutes[20000], early;
  uint64_t budget = UINT64_MAX, turn;
  unsigned i;

  open_core(&core, &shape);
  for (i = 0; i < LENGTH(minutes); i++)
    (void)put(&core, &minutes[i], MINUTE_MS + i % TURNS);
  for (turn = 1; turn <= TURNS; turn++) {
    (void)put(&core, &early, turn - 1);
    require(uvwheel__core_next_ms(&core) == turn);
    require(take_due(&core, turn, &budget) == &early);
    require(take_due(&core, turn, &budget) == NULL);
    require(uvwheel__core_next_ms(&core) == MINUTE_MS + 1);
    for (i = 0; turn == 1 && i < TURNS; i++)
      core.slots[(MINUTE_MS + 1 + i) % shape.slots].next_pass = 7;
  }
  ck_assert_uint_eq(core.stats.examined, TURNS);
  ck_assert_uint_eq(core.stats.rescheduled, 0);
  free_core(&core);
}
END_TEST

#define FAR_SLOTS 1024u

/* Behind the first word of 64 slots, the first slot of each word had an entry
 * of this round, and the others have one that is more than a round away. After
 * the first search a trap is laid in the others: they want a look at the next
 * tick, which a search that looks at one of them reports. */
START_TEST(slots_whose_entries_are_more_than_a_round_away_are_not_looked_at) {
  uvwheel_entry_t early, next;
  uint64_t budget = UINT64_MAX;
  unsigned i;

  open_core(&core, &(shape_t){1, FAR_SLOTS, slot_kinds[_i].flags});
  insert(&core, &early, 4);
  insert(&core, &next, FAR_SLOTS + 8);
  for (i = 64; i < FAR_SLOTS; i++)
    insert(&core, &crowd[i].entry, (i % 64 == 0 ? 0 : FAR_SLOTS) + i - 1);
  for (i = 64; i < FAR_SLOTS; i += 64)
    remove_entry(&core, &crowd[i].entry);
  expect_only(&core, 5, &early);
  ck_assert_uint_eq(uvwheel__core_next_ms(&core), FAR_SLOTS + 9);
  insert(&core, &early, 5);
  for (i = 64; i < FAR_SLOTS; i++)
    core.slots[i].next_pass = i % 64 == 0 ? 0 : 7;
  ck_assert_ptr_eq(take_due(&core, 6, &budget), &early);
  ck_assert_ptr_null(take_due(&core, 6, &budget));
  ck_assert_uint_eq(uvwheel__core_next_ms(&core), FAR_SLOTS + 9);
  free_core(&core);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(few_entries_use_few_lanes_and_many_use_all),
      EACH(a_slot_is_filled_as_evenly_after_thousands_of_rounds_as_at_first,
           lives),
      EACH(an_entry_that_waits_for_rounds_is_looked_at_once_in_each,
           slot_kinds),
      TEST(a_fifo_slot_is_looked_at_in_parts_and_keeps_its_order),
      EACH(draws_of_one_look_at_one_and_leave_the_lanes_even, slot_kinds),
      {a_walk_takes_entries_from_lanes_that_are_even, 0, 2},
      EACH(turns_of_a_short_entry_do_not_visit_slots_that_wait_for_a_minute,
           slot_kinds),
      EACH(slots_whose_entries_are_more_than_a_round_away_are_not_looked_at,
           slot_kinds),
  };

  return run_tests("core lanes", NULL, NULL, tests, LENGTH(tests));
}
