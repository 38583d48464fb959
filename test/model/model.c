/* SPDX-License-Identifier: MIT */

#include "model.h"

#include "play.h"

uint64_t
model_tick_ms(const model_t *model, uint64_t due_ms)
{
  uint64_t tick_ms;

  if (due_ms >= CLOCK_END_MS)
    return UINT64_MAX;
  tick_ms = (due_ms / model->tick_ms + 1) * model->tick_ms;
  return tick_ms < CLOCK_END_MS ? tick_ms : UINT64_MAX;
}

uint64_t
model_earliest_ms(const model_t *model)
{
  uint64_t earliest_ms = UINT64_MAX;
  unsigned i;

  for (i = 0; i < model->capacity; i++)
    if (model->timers[i].active && model->timers[i].due_ms < earliest_ms)
      earliest_ms = model->timers[i].due_ms;
  return model_tick_ms(model, earliest_ms);
}

static void
excuse_from_walks(model_t *model, unsigned index)
{
  model_walk_t *walk;

  for (walk = model->walk; walk != NULL; walk = walk->outer)
    walk->must_visit[index] = false;
}

void
model_put(model_t *model, unsigned index, uint64_t due_ms)
{
  model_timer_t *timer = &model->timers[index];

  model->count += !timer->active;
  timer->active = true;
  timer->due_ms = due_ms;
  timer->place = ++model->places;
  excuse_from_walks(model, index);
}

void
model_postpone(model_t *model, unsigned index, uint64_t due_ms)
{
  EXPECT(due_ms >= model->timers[index].due_ms);
  model->timers[index].due_ms = due_ms;
  model->timers[index].place = 0;
}

void
model_remove(model_t *model, unsigned index)
{
  EXPECT(model->timers[index].active);
  model->timers[index].active = false;
  model->count--;
  excuse_from_walks(model, index);
}

void
model_turn(model_t *model, uint64_t now_ms)
{
  unsigned i;

  for (i = 0; i < model->capacity && now_ms < model->reached_ms; i++)
    if (model_tick_ms(model, model->timers[i].due_ms) <= model->reached_ms)
      model->timers[i].place = 0;
  model->reached_ms = now_ms;
}

static void
expect_not_before(const model_t *model, const model_timer_t *timer,
                  const model_timer_t *other)
{
  uint64_t tick_ms = model_tick_ms(model, timer->due_ms);
  uint64_t other_ms = model_tick_ms(model, other->due_ms);

  EXPECT(other_ms >= tick_ms);
  if (model->fifo && other_ms == tick_ms && other->place != 0)
    EXPECT(other->place > timer->place);
}

void
model_expire(model_t *model, unsigned index, uint64_t now_ms)
{
  const model_timer_t *timer = &model->timers[index];
  unsigned i;

  model_remove(model, index);
  EXPECT(model_tick_ms(model, timer->due_ms) <= now_ms);
  for (i = 0; i < model->capacity; i++)
    if (model->timers[i].active)
      expect_not_before(model, timer, &model->timers[i]);
}

void
model_walk_begin(model_t *model, model_walk_t *walk)
{
  unsigned i;

  walk->outer = model->walk;
  for (i = 0; i < model->capacity; i++) {
    walk->must_visit[i] = model->timers[i].active;
    walk->visits[i] = 0;
  }
  model->walk = walk;
}

void
model_walk_visit(model_t *model, model_walk_t *walk, unsigned index)
{
  EXPECT(model->walk == walk);
  EXPECT(model->timers[index].active);
  walk->visits[index]++;
}

void
model_walk_end(model_t *model, model_walk_t *walk)
{
  unsigned i;

  EXPECT(model->walk == walk);
  model->walk = walk->outer;
  for (i = 0; i < model->capacity; i++)
    EXPECT(!walk->must_visit[i] || walk->visits[i] == 1);
}
