/* SPDX-License-Identifier: MIT */

/* broken_invariants: each invariant that src/wheel.c numbers is broken on
 * purpose, and is what the check reports. */

#include <stdlib.h>
#include <string.h>

#include "core_support.h"
#include "invariants.h"
#include "suite.h"

#define TICK_MS 10
#define SLOTS 8
#define COUNT 12

static uvwheel_core_t core;
static item_t items[COUNT];

/* Of a pass for tick 1, which is cut, entries were handed out, looked at and
 * not. In slot 2 are entries for tick 2 and two of a round later. */
static void
open_example(uint32_t flags)
{
  const shape_t shape = {TICK_MS, SLOTS, flags};
  uint64_t budget = 4;
  size_t i;

  open_core(&core, &shape);
  for (i = 0; i < COUNT; i++)
    insert(&core, &items[i].entry,
           i < 6 ? 5 + i % 2 * TICK_MS * SLOTS : 15 + i / 10 * TICK_MS * SLOTS);
  ck_assert_ptr_nonnull(expire_within(&core, TICK_MS, &budget));
}

/* A field of some struct, the value that it gets, and what is reported. */
typedef struct damage_s {
  enum { OF_CORE, OF_SLOT_2, OF_SLOT_3, OF_WORD, OF_BOUND, OF_ITEM_7 } owner;
  size_t offset;
  size_t size;
  uint64_t value;
  const char *reported;
} damage_t;

#define FIELD(type, field) offsetof(type, field), sizeof((type *)0)->field
#define CORE(field) OF_CORE, FIELD(uvwheel_core_t, field)
#define SLOT_2(field) OF_SLOT_2, FIELD(uvwheel_slot_t, field)
#define SLOT_3(field) OF_SLOT_3, FIELD(uvwheel_slot_t, field)
#define ITEM_7(field) OF_ITEM_7, FIELD(uvwheel_entry_t, field)

static const damage_t damages[] = {
    {ITEM_7(link.next), 0, "I1:"},
    {ITEM_7(link.prev), 0, "I1:"},
    {CORE(due.prev), 0, "I1:"},
    {CORE(drawn.next), 0, "I1:"},
    {CORE(unvisited.next), 0, "I1:"},
    {CORE(pending[5].prev), 0, "I1:"},
    {SLOT_3(next_pass), 3, "I2: a slot has a next pass"},
    {SLOT_2(next_pass), 0, "I2: a slot has a next pass"},
    {OF_BOUND, 0, 8, 3, "I2: a word's bound"},
    {SLOT_2(next_pass), 2 + SLOTS, "I3: no entry"},
    {SLOT_2(next_pass), 3, "I3: the next pass"},
    {CORE(hand), 2, "I3: the next pass"},
    {ITEM_7(due_ms), 2, "I3: no entry"},
    {CORE(next_tick), 3, "I4: the next tick is not after any next"},
    {CORE(next_tick), UINT64_MAX, "I4: the next tick is not after any next"},
    {CORE(next_tick), 0, "I4: the next tick is not before the hand"},
    {CORE(next_tick), 2, "I5: nothing is pending"},
    {CORE(pass_ms), 7, "I5: in a pass the hand"},
    {OF_WORD, 0, 8, 0, "I6:"},
    {CORE(capacity), COUNT + 1, "I6:"},
    {CORE(inserted), COUNT - 1, "I6:"},
    {SLOT_2(filling), 8, "I7: a lane that is used is being filled"},
    {SLOT_2(filling), 9, "I7: a lane that is used is being filled"},
    {SLOT_2(end), offsetof(uvwheel_slot_t, lanes[1]),
     "I7: a lane that is used is being filled"},
    {SLOT_2(end), offsetof(uvwheel_slot_t, lanes[UVWHEEL_LANES + 1]),
     "I7: a lane that is used"},
    {CORE(pass_lanes), 0, "I7: the entries of a pass are in its first lanes"},
};

static void
do_damage(const damage_t *damage)
{
  void *const owners[] = {&core,         &core.slots[2], &core.slots[3],
                          core.occupied, core.soonest,   &items[7].entry};
  char *field = (char *)owners[damage->owner] + damage->offset;
  uint16_t value_16 = (uint16_t)damage->value;
  uint32_t value_32 = (uint32_t)damage->value;

  memcpy(field,
         damage->size == 2   ? (const void *)&value_16
         : damage->size == 4 ? (const void *)&value_32
                             : &damage->value,
         damage->size);
}

/* The check reports what is expected, in lines that are finished, and counts
 * them. */
static void
expect_reported(const char *expected)
{
  char *text = NULL;
  size_t size = 0, i;
  FILE *stream = open_memstream(&text, &size);
  int broken, lines = 0;

  ck_assert_ptr_nonnull(stream);
  broken = broken_invariants(&core, stream);
  fclose(stream);
  for (i = 0; i < size; i++)
    lines += text[i] == '\n';
  ck_assert_int_eq(lines, broken);
  ck_assert_msg(strstr(text, expected) != NULL, "%s", text);
  ck_assert_int_eq(broken_invariants(&core, NULL), broken);
  ck_assert_int_eq(broken > 0, *expected != '\0');
  free(text);
}

START_TEST(a_broken_invariant_is_reported_by_its_number)
{
  open_example(0);
  do_damage(&damages[_i]);
  expect_reported(damages[_i].reported);
  uvwheel__core_destroy(&core);
}
END_TEST

START_TEST(a_whole_wheel_has_nothing_to_report)
{
  open_example(slot_kinds[_i].flags);
  expect_reported("");
  close_core(&core);
}
END_TEST

START_TEST(a_next_tick_of_an_empty_wheel_is_reported)
{
  open_core(&core, &shapes[_i]);
  core.next_tick = 5;
  expect_reported("I4: there is no next tick");
  uvwheel__core_destroy(&core);
}
END_TEST

START_TEST(entries_beside_the_lanes_of_a_slot_are_reported)
{
  open_example(0);
  core.slots[2].filling = offsetof(uvwheel_slot_t, lanes);
  core.slots[2].end = offsetof(uvwheel_slot_t, lanes[1]);
  expect_reported("I7: lanes that are not used have no entries");
  uvwheel__core_destroy(&core);
}
END_TEST

START_TEST(a_fifo_slot_with_two_lanes_is_reported)
{
  open_example(UVWHEEL_FIFO);
  core.slots[2].end = offsetof(uvwheel_slot_t, lanes[2]);
  expect_reported("I7: a lane that is used is being filled");
  uvwheel__core_destroy(&core);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      EACH(a_broken_invariant_is_reported_by_its_number, damages),
      EACH(a_whole_wheel_has_nothing_to_report, slot_kinds),
      {a_next_tick_of_an_empty_wheel_is_reported, 0, shape_count},
      TEST(entries_beside_the_lanes_of_a_slot_are_reported),
      TEST(a_fifo_slot_with_two_lanes_is_reported),
  };

  return run_tests("wheel check", NULL, NULL, tests, LENGTH(tests));
}
