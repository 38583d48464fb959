/* SPDX-License-Identifier: MIT */

#include "core_support.h"
#include "invariants.h"

#include <stdio.h>
#include <string.h>

const shape_t shapes[] = {
    {1, 1, 0},   {1, 2, 0},   {1, 4, UVWHEEL_FIFO},   {1, 64, 0},
    {1, 128, 0}, {3, 1, 0},   {3, 2, UVWHEEL_FIFO},   {3, 8, 0},
    {100, 1, 0}, {100, 4, 0}, {100, 8, UVWHEEL_FIFO}, {100, 16, 0},
};
const int shape_count = LENGTH(shapes);

const slot_kind_t slot_kinds[SLOT_KINDS] = {{"lanes", 0},
                                            {"FIFO", UVWHEEL_FIFO}};

uint64_t
tick_ms_after(uint64_t tick_ms, uint64_t due_ms)
{
  uint64_t tick = due_ms / tick_ms;

  return tick < UINT64_MAX / tick_ms ? (tick + 1) * tick_ms : UINT64_MAX;
}

void
open_core(uvwheel_core_t *core, const shape_t *shape)
{
  memset(core, 0xA5, sizeof *core);
  ck_assert_int_eq(
      uvwheel__core_init(core, shape->tick_ms, shape->slots, shape->flags), 0);
  verify(core);
  ck_assert_uint_eq(uvwheel__core_next_ms(core), UINT64_MAX);
}

void
close_core(uvwheel_core_t *core)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  uvwheel__core_walk_begin(core, &cursor);
  while ((entry = uvwheel__core_walk_next(core, &cursor)) != NULL)
    remove_entry(core, entry);
  ck_assert_uint_eq(uvwheel__core_count(core), 0);
  ck_assert_uint_eq(uvwheel__core_next_ms(core), UINT64_MAX);
  uvwheel__core_destroy(core);
}

void
verify(const uvwheel_core_t *core)
{
  require(broken_invariants(core, stderr) == 0);
}

/* Insert and postpone return whether the wheel has to wake up earlier. */
static void
expect_told(const uvwheel_core_t *core, int earlier, uint64_t before_ms)
{
  uint64_t next_ms = uvwheel__core_next_ms(core);

  require(next_ms <= before_ms);
  if (next_ms != UINT64_MAX)
    require((earlier != 0) == (next_ms < before_ms));
}

void
insert(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms)
{
  uint64_t count = uvwheel__core_count(core), inserted = core->inserted;
  uint64_t before_ms = uvwheel__core_next_ms(core);
  int earlier;

  memset(entry, 0xA5, sizeof *entry);
  uvwheel__entry_init(entry);
  require(!uvwheel__entry_is_active(entry));
  earlier = uvwheel__core_insert(core, entry, due_ms);
  require(uvwheel__entry_is_active(entry));
  require(entry->due_ms == due_ms);
  expect_told(core, earlier, before_ms);
  require(uvwheel__core_count(core) == count + 1);
  require(core->inserted == inserted + 1);
  verify(core);
}

void
postpone(uvwheel_core_t *core, uvwheel_entry_t *entry, uint64_t due_ms)
{
  uint64_t count = uvwheel__core_count(core);
  uint64_t before_ms = uvwheel__core_next_ms(core);
  int earlier = uvwheel__core_postpone(core, entry, due_ms);

  require(uvwheel__entry_is_active(entry));
  require(entry->due_ms == due_ms);
  expect_told(core, earlier, before_ms);
  require(uvwheel__core_count(core) == count);
  verify(core);
}

void
remove_entry(uvwheel_core_t *core, uvwheel_entry_t *entry)
{
  uint64_t count = uvwheel__core_count(core), inserted = core->inserted;

  uvwheel__core_remove(core, entry);
  require(!uvwheel__entry_is_active(entry));
  require(uvwheel__core_count(core) == count - 1);
  require(core->inserted == inserted);
  if (uvwheel__core_count(core) == 0)
    require(uvwheel__core_next_ms(core) == UINT64_MAX);
  verify(core);
}

static void
expect_nothing_waits(const uvwheel_core_t *core, uint64_t now_ms)
{
  uint64_t next_ms = uvwheel__core_next_ms(core);

  require(next_ms > now_ms || next_ms == UINT64_MAX);
}

uvwheel_entry_t *
expire(uvwheel_core_t *core, uint64_t now_ms)
{
  uint64_t count = uvwheel__core_count(core), expired = core->counters.expired;
  uint64_t budget = UINT64_MAX;
  uvwheel_entry_t *entry = uvwheel__core_expire(core, now_ms, &budget);

  verify(core);
  if (entry == NULL) {
    expect_nothing_waits(core, now_ms);
    return NULL;
  }
  require(!uvwheel__entry_is_active(entry));
  require(uvwheel__core_count(core) == count - 1);
  require(core->counters.expired == expired + 1);
  /* Never early: the tick at which it expires has come. */
  require(tick_ms_after(core->tick_ms, entry->due_ms) <= now_ms);
  return entry;
}

void
expect_none(uvwheel_core_t *core, uint64_t now_ms)
{
  require(expire(core, now_ms) == NULL);
}

void
expect_only(uvwheel_core_t *core, uint64_t now_ms, const uvwheel_entry_t *entry)
{
  require(expire(core, now_ms) == entry);
  expect_none(core, now_ms);
}

uint64_t
drain(uvwheel_core_t *core, uint64_t now_ms)
{
  uint64_t expired = 0;

  while (expire(core, now_ms) != NULL)
    expired++;
  return expired;
}

/* When the first of the items that are active has to expire. */
static uint64_t
earliest_ms(const uvwheel_core_t *core, const item_t *items, size_t count)
{
  uint64_t earliest = UINT64_MAX;
  size_t i;

  for (i = 0; i < count; i++)
    if (uvwheel__entry_is_active(&items[i].entry)) {
      uint64_t tick_ms = tick_ms_after(core->tick_ms, items[i].entry.due_ms);
      if (tick_ms < earliest)
        earliest = tick_ms;
    }
  return earliest;
}

unsigned
run_out(uvwheel_core_t *core, const item_t *items, size_t count,
        uint64_t now_ms)
{
  const uvwheel_entry_t *entry;
  unsigned wakes = 0;

  drain(core, now_ms);
  while (uvwheel__core_count(core) > 0) {
    uint64_t next_ms = uvwheel__core_next_ms(core);
    /* Never late: the wheel wakes up no later than its first entry wants. */
    require(next_ms <= earliest_ms(core, items, count));
    require(next_ms > now_ms);
    now_ms = next_ms;
    wakes++;
    while ((entry = expire(core, now_ms)) != NULL)
      require(tick_ms_after(core->tick_ms, entry->due_ms) == now_ms);
  }
  return wakes;
}

size_t
boundary_delays(const shape_t *shape, unsigned rounds, uint64_t *delays)
{
  uint64_t tick_ms = shape->tick_ms, round_ms = tick_ms * shape->slots;
  uint64_t edges[] = {0, tick_ms, round_ms - tick_ms};
  size_t count = 0, edge;
  unsigned round;

  for (round = 0; round < rounds; round++)
    for (edge = 0; edge < LENGTH(edges); edge++) {
      uint64_t delay_ms = round * round_ms + edges[edge];
      if (delay_ms > 0)
        delays[count++] = delay_ms - 1;
      delays[count++] = delay_ms;
      delays[count++] = delay_ms + 1;
    }
  ck_assert_uint_le(count, MAX_DELAYS);
  return count;
}
