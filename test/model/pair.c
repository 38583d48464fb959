/* SPDX-License-Identifier: MIT */

#include "pair.h"

void pair_open(pair_t *pair, const shape_t *shape) {
  open_core(&pair->core, shape);
  pair->model.tick_ms = shape->tick_ms;
  pair->model.fifo = shape->flags == UVWHEEL_FIFO;
}

void pair_close(pair_t *pair) {
  require(pair->model.count == 0);
  close_core(&pair->core);
}

/* ---- What must hold ------------------------------------------------------ */

/* The wheel wakes up for a tick at which something is due, or was when the
 * wheel last ran: not too late, and not too early. */
static void verify_next(const pair_t *pair) {
  uint64_t next_ms = uvwheel__core_next_ms(&pair->core);

  require(next_ms <= model_earliest_ms(&pair->model) || pair->model.walking);
  if (next_ms < CLOCK_END_MS)
    require(model_has_tick(&pair->model, next_ms, next_ms));
  require(next_ms == UINT64_MAX || pair->model.count > 0);
}

/* Each slot counts its entries. In the middle of a pass or a draw there are
 * others. */
static void verify_slot_counts(const pair_t *pair) {
  const core_t *core = &pair->core;
  uint64_t slot, count = 0;

  for (slot = 0; slot <= core->slot_mask; slot++)
    count += slot_count(core, slot);
  require(count <= core->active);
  require(count == core->active || core->pass_lanes > 0 || pair->model.drawing);
}

void pair_verify(const pair_t *pair) {
  unsigned i;

  verify(&pair->core);
  require(pair->core.active == pair->model.count);
  verify_next(pair);
  for (i = 0; i < pair->model.capacity; i++) {
    const model_timer_t *timer = &pair->model.timers[i];
    const item_t *item = pair->items[i];
    if (item == NULL) {
      require(!timer->active);
      continue;
    }
    require(is_active(&item->entry) == timer->active);
    require(!timer->active || item->entry.due_ms == timer->due_ms);
  }
}

/* ---- Operations ---------------------------------------------------------- */

void pair_insert(pair_t *pair, unsigned index, uint64_t due_ms) {
  if (pair->model.timers[index].active)
    pair_remove(pair, index);
  insert(&pair->core, &pair->items[index]->entry, due_ms);
  model_put(&pair->model, index, due_ms);
}

void pair_postpone(pair_t *pair, unsigned index, uint64_t due_ms) {
  bool stays = due_ms >= pair->model.timers[index].due_ms;

  postpone(&pair->core, &pair->items[index]->entry, due_ms);
  if (stays)
    model_postpone(&pair->model, index, due_ms);
  else
    model_put(&pair->model, index, due_ms);
}

void pair_remove(pair_t *pair, unsigned index) {
  remove_entry(&pair->core, &pair->items[index]->entry);
  model_remove(&pair->model, index);
}

item_t *pair_expire(pair_t *pair, uint64_t now_ms, uint64_t *budget) {
  item_t *item = (item_t *)expire_within(&pair->core, now_ms, budget);

  if (item != NULL) {
    require(pair->items[item->index] == item);
    model_expire(&pair->model, item->index, now_ms);
  } else if (*budget > 0) {
    require(model_earliest_ms(&pair->model) > now_ms);
  }
  pair_verify(pair);
  return item;
}

void pair_draw(pair_t *pair, uint64_t count) {
  uint64_t expected = model_draw(&pair->model, count);

  require(draw(&pair->core, count) == expected);
  pair_verify(pair);
}

item_t *pair_take_drawn(pair_t *pair) {
  item_t *item = (item_t *)take_drawn(&pair->core);

  if (item != NULL) {
    require(pair->items[item->index] == item);
    model_take_drawn(&pair->model, item->index);
  } else {
    model_end_draw(&pair->model, false);
    verify_slot_counts(pair);
  }
  pair_verify(pair);
  return item;
}

void pair_walk(pair_t *pair, void (*step)(pair_t *pair, item_t *item)) {
  item_t *item;

  model_walk_begin(&pair->model);
  walk_begin(&pair->core);
  while ((item = (item_t *)walk_next(&pair->core)) != NULL) {
    require(pair->items[item->index] == item);
    model_walk_visit(&pair->model, item->index);
    if (step != NULL)
      step(pair, item);
  }
  model_walk_end(&pair->model);
  verify_slot_counts(pair);
}
