/* SPDX-License-Identifier: MIT */

#include "model.h"

#include <stdlib.h>

#include "core_support.h"

uint64_t model_tick_ms(const model_t *model, uint64_t due_ms) {
  uint64_t tick_ms;

  if (due_ms >= CLOCK_END_MS)
    return UINT64_MAX;
  tick_ms = (due_ms / model->tick_ms + 1) * model->tick_ms;
  return tick_ms < CLOCK_END_MS ? tick_ms : UINT64_MAX;
}

uint64_t model_earliest_ms(const model_t *model) {
  uint64_t earliest_ms = UINT64_MAX;
  unsigned i;

  for (i = 0; i < model->capacity; i++) {
    const model_timer_t *timer = &model->timers[i];
    if (timer->active && timer->draw == KEPT && timer->due_ms < earliest_ms)
      earliest_ms = timer->due_ms;
  }
  return model_tick_ms(model, earliest_ms);
}

/* ---- Ticks --------------------------------------------------------------- */

bool model_has_tick(const model_t *model, uint64_t from_ms, uint64_t to_ms) {
  unsigned i;

  if (model->ticks > MODEL_TICKS)
    return true;
  for (i = 0; i < model->ticks; i++)
    if (model->ticks_ms[i] >= from_ms && model->ticks_ms[i] <= to_ms)
      return true;
  return false;
}

void model_remember_tick(model_t *model, uint64_t due_ms) {
  uint64_t tick_ms = model_tick_ms(model, due_ms);

  if (tick_ms == UINT64_MAX || model_has_tick(model, tick_ms, tick_ms))
    return;
  if (model->ticks < MODEL_TICKS)
    model->ticks_ms[model->ticks] = tick_ms;
  model->ticks++;
}

void model_forget_ticks(model_t *model, uint64_t by_ms) {
  unsigned kept = 0, i;

  if (model->ticks > MODEL_TICKS)
    return;
  for (i = 0; i < model->ticks; i++)
    if (model->ticks_ms[i] > by_ms)
      model->ticks_ms[kept++] = model->ticks_ms[i];
  model->ticks = kept;
}

/* ---- Timers -------------------------------------------------------------- */

/* Whoever moves a drawn timer takes it away from the draw. */
static void excuse_from_draw(model_t *model, unsigned index) {
  model->disturbed += model->timers[index].draw != KEPT;
  model->timers[index].draw = KEPT;
}

void model_put(model_t *model, unsigned index, uint64_t due_ms) {
  model_timer_t *timer = &model->timers[index];

  model->count += !timer->active;
  timer->active = true;
  timer->due_ms = due_ms;
  timer->place = ++model->places;
  timer->must_visit = false;
  excuse_from_draw(model, index);
  model_remember_tick(model, due_ms);
}

void model_postpone(model_t *model, unsigned index, uint64_t due_ms) {
  require(due_ms >= model->timers[index].due_ms);
  model->disturbed += model->timers[index].draw != KEPT;
  model->timers[index].due_ms = due_ms;
  model->timers[index].place = 0;
  model_remember_tick(model, due_ms);
}

void model_remove(model_t *model, unsigned index) {
  require(model->timers[index].active);
  model->timers[index].active = false;
  model->timers[index].must_visit = false;
  model->count--;
  if (model->count == 0)
    model->ticks = 0;
  excuse_from_draw(model, index);
}

static void expect_not_before(const model_t *model, const model_timer_t *timer,
                              const model_timer_t *other) {
  uint64_t tick_ms = model_tick_ms(model, timer->due_ms);
  uint64_t other_ms = model_tick_ms(model, other->due_ms);

  require(other_ms >= tick_ms);
  if (model->fifo && other_ms == tick_ms && other->place != 0)
    require(other->place > timer->place);
}

void model_expire(model_t *model, unsigned index, uint64_t now_ms) {
  const model_timer_t *timer = &model->timers[index];
  unsigned i;

  model_remove(model, index);
  require(model_tick_ms(model, timer->due_ms) <= now_ms);
  for (i = 0; i < model->capacity; i++)
    if (model->timers[i].active)
      expect_not_before(model, timer, &model->timers[i]);
}

/* ---- Draws --------------------------------------------------------------- */

static int compare_times(const void *left, const void *right) {
  uint64_t left_ms = *(const uint64_t *)left;
  uint64_t right_ms = *(const uint64_t *)right;

  return (left_ms > right_ms) - (left_ms < right_ms);
}

/* The ticks of all timers that come to theirs, in order. */
static unsigned sort_ticks(const model_t *model, uint64_t *ticks_ms) {
  unsigned count = 0, i;

  for (i = 0; i < model->capacity; i++) {
    uint64_t tick_ms = model_tick_ms(model, model->timers[i].due_ms);
    if (model->timers[i].active && tick_ms != UINT64_MAX)
      ticks_ms[count++] = tick_ms;
  }
  qsort(ticks_ms, count, sizeof *ticks_ms, compare_times);
  return count;
}

uint64_t model_draw(model_t *model, uint64_t count) {
  uint64_t ticks_ms[MODEL_TIMERS];
  unsigned known = sort_ticks(model, ticks_ms), i;

  model->drawing = true;
  model->drawn = min_of(count, known);
  model->taken = 0;
  model->disturbed = 0;
  model->latest_ms = model->drawn != 0 ? ticks_ms[model->drawn - 1] : 0;
  for (i = 0; i < model->capacity; i++) {
    model_timer_t *timer = &model->timers[i];
    uint64_t tick_ms = model_tick_ms(model, timer->due_ms);
    if (!timer->active || tick_ms > model->latest_ms)
      timer->draw = KEPT;
    else
      timer->draw = tick_ms < model->latest_ms ? DRAWN : MAYBE;
  }
  return model->drawn;
}

void model_take_drawn(model_t *model, unsigned index) {
  model_timer_t *timer = &model->timers[index];
  unsigned i;

  require(model->drawing && timer->draw != KEPT);
  require(model_tick_ms(model, timer->due_ms) <= model->latest_ms);
  timer->draw = KEPT;
  model->taken++;
  model_remove(model, index);
  for (i = 0; i < model->capacity && model->disturbed == 0; i++)
    if (model->timers[i].draw != KEPT)
      expect_not_before(model, timer, &model->timers[i]);
}

void model_end_draw(model_t *model, bool broken_off) {
  unsigned i;

  require(model->taken <= model->drawn);
  require(broken_off || model->taken + model->disturbed >= model->drawn);
  for (i = 0; i < model->capacity; i++) {
    model_timer_t *timer = &model->timers[i];
    require(broken_off || timer->draw != DRAWN ||
            model_tick_ms(model, timer->due_ms) > model->latest_ms);
    timer->draw = KEPT;
  }
  model->drawing = false;
}

/* ---- Walks --------------------------------------------------------------- */

/* A walk ends a draw. */
void model_walk_begin(model_t *model) {
  unsigned i;

  require(!model->walking);
  model->walking = true;
  model->drawn = model->taken = model->disturbed = 0;
  for (i = 0; i < model->capacity; i++) {
    model->timers[i].draw = KEPT;
    model->timers[i].must_visit = model->timers[i].active;
    model->timers[i].visits = 0;
  }
}

void model_walk_visit(model_t *model, unsigned index) {
  require(model->walking);
  require(model->timers[index].active);
  model->timers[index].visits++;
}

void model_walk_end(model_t *model) {
  unsigned i;

  model->walking = false;
  for (i = 0; i < model->capacity; i++)
    require(!model->timers[i].must_visit || model->timers[i].visits == 1);
}
