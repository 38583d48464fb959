/* SPDX-License-Identifier: MIT */

#include "core_support.h"
#include "invariants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const shape_t shapes[SHAPES] = {
    {1, 1, 0},   {1, 2, 0},   {1, 4, UVWHEEL_FIFO},   {1, 64, 0},
    {1, 128, 0}, {3, 1, 0},   {3, 2, UVWHEEL_FIFO},   {3, 8, 0},
    {100, 1, 0}, {100, 4, 0}, {100, 8, UVWHEEL_FIFO}, {100, 16, 0},
};

const slot_kind_t slot_kinds[SLOT_KINDS] = {{"lanes", 0},
                                            {"FIFO", UVWHEEL_FIFO}};

void contradict(const char *file, int line, const char *name,
                const char *condition) {
  fprintf(stderr, "%s:%d: %s%s%s is not true\n", file, line, name,
          *name == '\0' ? "" : ": ", condition);
  abort();
}

uint64_t tick_ms_after(uint64_t tick_ms, uint64_t due_ms) {
  uint64_t tick = due_ms / tick_ms;

  return tick < UINT64_MAX / tick_ms ? (tick + 1) * tick_ms : UINT64_MAX;
}

uint64_t add_saturated(uint64_t time_ms, uint64_t delay_ms) {
  return delay_ms > UINT64_MAX - time_ms ? UINT64_MAX : time_ms + delay_ms;
}

void open_core(core_t *core, const shape_t *shape) {
  size_t size = uvwheel__core_size(shape->tick_ms, shape->slots, shape->flags);
  void *slots = calloc(1, size);

  require(size != 0 && slots != NULL);
  memset(core, 0xA5, sizeof *core);
  uvwheel__core_init(core, shape->tick_ms, shape->slots, shape->flags, slots);
  verify(core);
  require(uvwheel__core_next_ms(core) == UINT64_MAX);
}

void free_core(core_t *core) {
  free(core->slots);
}

void close_core(core_t *core) {
  uvwheel_entry_t *entry;

  uvwheel__core_walk_begin(core);
  while ((entry = uvwheel__core_walk_next(core)) != NULL)
    remove_entry(core, entry);
  require(core->active == 0);
  require(uvwheel__core_next_ms(core) == UINT64_MAX);
  free_core(core);
}

void verify(const core_t *core) {
  require(broken_invariants(core, stderr) == 0);
}

/* Insert and postpone return whether the wheel may have to wake up earlier. */
static void expect_told(const core_t *core, bool earlier, uint64_t before_ms) {
  uint64_t next_ms = uvwheel__core_next_ms(core);

  require(next_ms == before_ms || (next_ms < before_ms && earlier));
}

bool put(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms) {
  poison(entry);
  return !uvwheel__core_insert(core, entry, due_ms) &&
         uvwheel__core_put(core, entry);
}

void insert(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms) {
  const core_t before = *core;
  uint64_t before_ms = uvwheel__core_next_ms(core);

  memset(entry, 0xA5, sizeof *entry);
  expect_told(core, put(core, entry, due_ms), before_ms);
  require(is_active(entry) && entry->due_ms == due_ms);
  require(core->active == before.active + 1);
  require(core->stats.started == before.stats.started + 1);
  verify(core);
}

/* An entry that is due later stays where it is. One that is due earlier is
 * moved. */
void postpone(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms) {
  if (due_ms < entry->due_ms) {
    move(core, entry, due_ms);
    return;
  }
  entry->due_ms = due_ms;
  verify(core);
}

void move(core_t *core, uvwheel_entry_t *entry, uint64_t due_ms) {
  uint64_t before_ms = uvwheel__core_next_ms(core);
  uint64_t count = core->active;

  expect_told(core, uvwheel__core_move(core, entry, due_ms), before_ms);
  require(is_active(entry) && entry->due_ms == due_ms);
  require(core->active == count);
  verify(core);
}

/* One entry, or none if it is NULL, has left the wheel. */
static void expect_left(const core_t *core, uvwheel_entry_t *entry,
                        const core_t *before) {
  uint64_t left = entry != NULL;

  if (entry != NULL)
    entry->link.next = NULL;
  require(core->active + left == before->active);
  require(core->stats.started == before->stats.started);
  if (core->active == 0)
    require(uvwheel__core_next_ms(core) == UINT64_MAX);
  verify(core);
}

void remove_entry(core_t *core, uvwheel_entry_t *entry) {
  const core_t before = *core;

  uvwheel__core_remove(core, entry);
  expect_left(core, entry, &before);
  require(core->stats.fired == before.stats.fired);
  require(core->stats.fired_soonest == before.stats.fired_soonest);
}

/* If the clock has stepped back, a pass goes on at a time to come. */
uvwheel_entry_t *take_due(core_t *core, uint64_t now_ms, uint64_t *budget) {
  uvwheel_entry_t *entry =
      uvwheel__core_next_ms(core) <= now_ms
          ? uvwheel__core_find_due(core, now_ms, CHUNK, budget)
          : NULL;

  if (entry == NULL)
    return NULL;
  (*budget)--;
  uvwheel__core_hand_out(core, entry);
  return entry;
}

/* Nothing is handed out early, and the caller is told if something is left. */
uvwheel_entry_t *expire_within(core_t *core, uint64_t now_ms,
                               uint64_t *budget) {
  const core_t before = *core;
  uint64_t budget_before = *budget;
  uvwheel_entry_t *entry = take_due(core, now_ms, budget);
  uint64_t next_ms = uvwheel__core_next_ms(core), expired = entry != NULL;

  expect_left(core, entry, &before);
  require(*budget + expired <= budget_before);
  require(core->stats.fired == before.stats.fired + expired);
  require(core->stats.fired_soonest == before.stats.fired_soonest);
  if (entry != NULL)
    require(tick_ms_after(core->tick_ms, entry->due_ms) <= now_ms);
  else if (*budget > 0)
    require(next_ms > now_ms || next_ms == UINT64_MAX);
  return entry;
}

uvwheel_entry_t *expire(core_t *core, uint64_t now_ms) {
  uint64_t budget = UINT64_MAX;

  return expire_within(core, now_ms, &budget);
}

uint64_t draw(core_t *core, uint64_t count) {
  const core_t before = *core;
  const uvwheel_link_t *link;
  uint64_t drawn = 0;

  uvwheel__core_draw(core, count);
  for (link = core->drawn.next; link != &core->drawn; link = link->next)
    drawn++;
  expect_left(core, NULL, &before);
  require(drawn <= count && drawn <= core->active && core->pass_lanes == 0);
  return drawn;
}

uvwheel_entry_t *take_drawn(core_t *core) {
  const core_t before = *core;
  uvwheel_entry_t *entry = uvwheel__core_take_drawn(core);

  expect_left(core, entry, &before);
  require(core->stats.fired_soonest - before.stats.fired_soonest ==
          (entry != NULL));
  return entry;
}

void walk_begin(core_t *core) {
  const core_t before = *core;

  uvwheel__core_walk_begin(core);
  expect_left(core, NULL, &before);
}

uvwheel_entry_t *walk_next(core_t *core) {
  const core_t before = *core;
  uvwheel_entry_t *entry = uvwheel__core_walk_next(core);

  expect_left(core, NULL, &before);
  return entry;
}

void expect_none(core_t *core, uint64_t now_ms) {
  require(expire(core, now_ms) == NULL);
}

void expect_only(core_t *core, uint64_t now_ms, const uvwheel_entry_t *entry) {
  require(expire(core, now_ms) == entry);
  expect_none(core, now_ms);
}

uint64_t drain(core_t *core, uint64_t now_ms) {
  uint64_t expired = 0;

  while (expire(core, now_ms) != NULL)
    expired++;
  return expired;
}

size_t boundary_delays(const shape_t *shape, unsigned rounds,
                       uint64_t *delays) {
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
  require(count <= MAX_DELAYS);
  return count;
}

uint64_t slot_count(const core_t *core, uint64_t number) {
  return uvwheel__core_visit_slot(core, number, NULL, NULL);
}
