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

/* Six entries in slot 2, two of them a round later; six of a pass that is cut,
 * with one due and handed out, some looked at and some not. */
static void
open_example(uint32_t flags)
{
  const shape_t shape = {TICK_MS, SLOTS, flags};
  uint64_t budget = 3;
  size_t i;

  open_core(&core, &shape);
  for (i = 0; i < COUNT; i++)
    insert(&core, &items[i].entry,
           i < 6 ? 5 + i % 2 * TICK_MS * SLOTS : 15 + i / 10 * TICK_MS * SLOTS);
  ck_assert_ptr_nonnull(uvwheel__core_expire(&core, TICK_MS, &budget));
  verify(&core);
}

static uvwheel_link_t *
link_in_slot(void)
{
  return &items[7].entry.link;
}

static void
break_next(void)
{
  link_in_slot()->next = NULL;
}

static void
break_prev(void)
{
  link_in_slot()->next->prev = &items[11].entry.link;
}

static void
break_due_list(void)
{
  core.due.prev = &items[11].entry.link;
}

static void
break_pending_list(void)
{
  core.pending[5].prev = &items[11].entry.link;
}

static void
lose_entry(void)
{
  uvwheel_link_t *link = link_in_slot();

  link->prev->next = link->next;
  link->next->prev = link->prev;
}

static void
hide_slot(void)
{
  core.occupied[0] &= ~UINT64_C(4);
}

static void
keep_nearest_of_an_empty_slot(void)
{
  core.slots[3].nearest = 3 + SLOTS;
}

static void
let_nearest_be_too_late(void)
{
  core.slots[2].nearest += SLOTS;
}

static void
let_nearest_be_of_another_slot(void)
{
  core.slots[2].nearest++;
}

static void
let_nearest_be_past(void)
{
  core.hand = core.slots[2].nearest;
}

static void
make_entry_due_earlier(void)
{
  items[7].entry.due_ms = 2;
}

static void
make_entry_put_back_due_earlier(void)
{
  items[1].entry.due_ms = 2;
}

static void
let_next_tick_be_too_late(void)
{
  core.next_tick = core.slots[2].nearest + 1;
}

static void
let_next_tick_be_past(void)
{
  core.next_tick = core.hand;
}

static void
forget_pass(void)
{
  core.passing = 0;
}

static void
count_one_too_many(void)
{
  core.inserted++;
}

static void
count_one_too_few(void)
{
  core.inserted--;
}

static void
forget_word(void)
{
  core.words[0] = 0;
}

static void
fill_no_lane(void)
{
  core.slots[2].filling = 8;
}

static void
use_no_lane(void)
{
  core.slots[2].used = 0;
}

static void
use_too_many_lanes(void)
{
  core.slots[2].used = UVWHEEL_LANES + 1;
}

/* The five entries of slot 2 are in its first lane, and the second one. */
static void
use_fewer_lanes(void)
{
  core.slots[2].filling = offsetof(uvwheel_slot_t, lanes);
  core.slots[2].used = 1;
}

static void
take_fewer_lanes(void)
{
  core.pass_lanes = 0;
}

static const struct {
  void (*damage)(void);
  const char *invariant;
} damages[] = {
    {break_next, "I1:"},
    {break_prev, "I1:"},
    {break_due_list, "I1:"},
    {break_pending_list, "I1:"},
    {keep_nearest_of_an_empty_slot, "I2: a slot has a nearest tick"},
    {forget_word, "I2: a word of occupied bits"},
    {let_nearest_be_too_late, "I3: no entry"},
    {let_nearest_be_of_another_slot, "I3: the nearest tick"},
    {let_nearest_be_past, "I3: the nearest tick"},
    {make_entry_due_earlier, "I3: no entry"},
    {make_entry_put_back_due_earlier, "I3: no entry"},
    {let_next_tick_be_too_late, "I4: the next tick is not after any slot"},
    {let_next_tick_be_past, "I4: the next tick is after the hand"},
    {forget_pass, "I5:"},
    {lose_entry, "I6:"},
    {hide_slot, "I6:"},
    {count_one_too_many, "I6:"},
    {count_one_too_few, "I6:"},
    {fill_no_lane, "I7: a lane that is used is being filled"},
    {use_no_lane, "I7: a lane that is used is being filled"},
    {use_too_many_lanes, "I7: a lane that is used is being filled"},
    {use_fewer_lanes, "I7: lanes that are not used have no entries"},
    {take_fewer_lanes, "I7: the entries of a pass are in its first lanes"},
};

/* The lines of a text; each of them must be finished. */
static int
count_lines(const char *text)
{
  int lines = 0;

  for (; *text != '\0'; text++)
    lines += *text == '\n';
  return lines;
}

START_TEST(a_broken_invariant_is_reported_by_its_number)
{
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  int broken;

  ck_assert_ptr_nonnull(stream);
  open_example(0);
  damages[_i].damage();
  broken = broken_invariants(&core, stream);
  fclose(stream);
  ck_assert_int_gt(broken, 0);
  ck_assert_int_eq(count_lines(text), broken);
  ck_assert_msg(strstr(text, damages[_i].invariant) != NULL, "%s", text);
  ck_assert_int_eq(broken_invariants(&core, NULL), broken);
  free(text);
  uvwheel__core_destroy(&core);
}
END_TEST

START_TEST(a_whole_wheel_has_nothing_to_report)
{
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);

  ck_assert_ptr_nonnull(stream);
  open_example(slot_kinds[_i].flags);
  require_in(slot_kinds[_i].name, broken_invariants(&core, stream) == 0);
  require_in(slot_kinds[_i].name, broken_invariants(&core, NULL) == 0);
  fclose(stream);
  ck_assert_str_eq(text, "");
  free(text);
  close_core(&core);
}
END_TEST

START_TEST(a_next_tick_of_an_empty_wheel_is_reported)
{
  open_core(&core, &shapes[_i]);
  core.next_tick = 5;
  ck_assert_int_gt(broken_invariants(&core, NULL), 0);
  uvwheel__core_destroy(&core);
}
END_TEST

START_TEST(a_wheel_that_forgets_its_next_tick_is_reported)
{
  open_core(&core, &shapes[_i]);
  insert(&core, &items[0].entry, 100 * TICK_MS);
  core.next_tick = UINT64_MAX;
  ck_assert_int_gt(broken_invariants(&core, NULL), 0);
  uvwheel__core_destroy(&core);
}
END_TEST

/* Its first lane is for what a pass puts back. */
START_TEST(a_fifo_slot_that_fills_its_first_lane_is_reported)
{
  open_example(UVWHEEL_FIFO);
  core.slots[2].filling = offsetof(uvwheel_slot_t, lanes);
  ck_assert_int_gt(broken_invariants(&core, NULL), 0);
  uvwheel__core_destroy(&core);
}
END_TEST

START_TEST(a_fifo_slot_with_more_than_two_lanes_is_reported)
{
  open_example(UVWHEEL_FIFO);
  core.slots[2].lanes[2].next = core.slots[2].lanes[2].prev =
      &core.slots[2].lanes[2];
  core.slots[2].used = 3;
  ck_assert_int_gt(broken_invariants(&core, NULL), 0);
  uvwheel__core_destroy(&core);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("wheel check");
  TCase *check = tcase_create("check");

  tcase_add_loop_test(check, a_broken_invariant_is_reported_by_its_number, 0,
                      LENGTH(damages));
  tcase_add_loop_test(check, a_whole_wheel_has_nothing_to_report, 0,
                      SLOT_KINDS);
  tcase_add_loop_test(check, a_next_tick_of_an_empty_wheel_is_reported, 0,
                      shape_count);
  tcase_add_loop_test(check, a_wheel_that_forgets_its_next_tick_is_reported, 0,
                      shape_count);
  tcase_add_test(check, a_fifo_slot_that_fills_its_first_lane_is_reported);
  tcase_add_test(check, a_fifo_slot_with_more_than_two_lanes_is_reported);
  suite_add_tcase(suite, check);
  return run_suite(suite);
}
