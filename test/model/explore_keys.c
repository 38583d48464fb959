/* SPDX-License-Identifier: MIT */

/* What the worlds of both layers share: keys of what is in a wheel and in the
 * model, and what must hold for timers that are drawn before their time. */

#include <string.h>

#include "explore.h"
#include "slot.h"
#include "walk.h"

void
add_slots(const uvwheel_core_t *core)
{
  const char *end = (const char *)(core->words + core->slot_mask / 4096 + 1);

  add_memory(core->slots, (size_t)(end - (const char *)core->slots));
}

/* ---- Keys ---------------------------------------------------------------- */

uint64_t
dealt_into(const uvwheel_slot_t *slot)
{
  uint64_t lane = (slot->filling - (uint64_t)offsetof(uvwheel_slot_t, lanes)) /
                  sizeof(uvwheel_link_t);

  return lane * slot->run + slot->run - slot->left;
}

/* How many entries were put into a slot decides about the next one's lane, and
 * about how many lanes are looked at. */
static uint64_t
key_of_slot(const uvwheel_core_t *core, uint64_t slot, uint64_t now_tick)
{
  const uvwheel_slot_t *it = &core->slots[slot];

  if (!is_occupied(core, slot))
    return 0;
  return mix(mix(mix(dealt_into(it), it->run), it->used),
             seen_from(now_tick, it->nearest));
}

static uint64_t
key_of_pass(const uvwheel_core_t *core, uint64_t now_tick)
{
  uint64_t key = mix(0, core->passing);

  if (!core->passing)
    return key;
  key = mix(key, seen_from(now_tick, core->pass_tick));
  return mix(key, core->pass_lanes);
}

/* The entries with their places. */
static uint64_t
key_of_lists(const uvwheel_core_t *core, uint64_t now_ms,
             uint64_t (*key_of_entry)(const uvwheel_entry_t *entry))
{
  uint64_t key = 0, list = 0;

  do {
    uvwheel_link_t *head = uvwheel__list_at((uvwheel_core_t *)core, list);
    uvwheel_link_t *link;
    for (link = head->next; link != head; link = link->next) {
      key = mix(key, list);
      key = mix(key, seen_from(now_ms, entry_of(link)->due_ms));
      key = mix(key, key_of_entry(entry_of(link)));
    }
  } while (uvwheel__next_list(core, &list));
  return key;
}

uint64_t
key_of_core(const uvwheel_core_t *core, uint64_t now_ms,
            uint64_t (*key_of_entry)(const uvwheel_entry_t *entry))
{
  uint64_t now_tick = now_ms / core->tick_ms, slots = core->slot_mask + 1, i;
  uint64_t key = mix(0, now_ms % (slots * core->tick_ms));

  key = mix(key, seen_from(now_tick, core->hand));
  key = mix(key, seen_from(now_tick, core->next_tick));
  key = mix(key, key_of_pass(core, now_tick));
  key = mix(
      key, list_is_empty(&core->drawn) ? 0 : seen_from(now_ms, core->drawn_ms));
  for (i = 0; i < slots; i++)
    key = mix(key, key_of_slot(core, i, now_tick));
  return mix(key, key_of_lists(core, now_ms, key_of_entry));
}

/* Places in a queue are compared, and with nothing but each other. */
uint64_t
key_of_place(const model_t *model, unsigned index)
{
  const model_timer_t *timer = &model->timers[index];
  uint64_t place = 1;
  unsigned i;

  if (!model->fifo || timer->place == 0)
    return 0;
  for (i = 0; i < model->capacity; i++)
    place += model->timers[i].active && model->timers[i].place < timer->place;
  return place;
}

uint64_t
key_of_drawing(const drawing_t *drawing, unsigned index)
{
  if (!drawing->going_on)
    return 0;
  return 1u + 2u * drawing->may[index] + 4u * drawing->must[index];
}

/* ---- Those that are due soonest ------------------------------------------ */

static uint64_t
tick_ms_of(const model_t *model, unsigned index)
{
  const model_timer_t *timer = &model->timers[index];

  return timer->active ? model_tick_ms(model, timer->due_ms) : UINT64_MAX;
}

/* How many timers have a tick that comes, up to that time. */
static unsigned
count_due(const model_t *model, uint64_t last_ms)
{
  unsigned count = 0, i;

  for (i = 0; i < model->capacity; i++)
    count += tick_ms_of(model, i) <= last_ms;
  return count;
}

/* The time of the tick up to which that many will be due. */
static uint64_t
tick_ms_up_to(const model_t *model, unsigned count)
{
  uint64_t last_ms = UINT64_MAX;
  unsigned i;

  for (i = 0; i < model->capacity; i++) {
    uint64_t tick_ms = tick_ms_of(model, i);
    if (tick_ms < last_ms && count_due(model, tick_ms) >= count)
      last_ms = tick_ms;
  }
  return last_ms;
}

void
drawing_begin(drawing_t *drawing, const model_t *model, uint64_t count,
              uint64_t drawn)
{
  unsigned due = count_due(model, UINT64_MAX - 1), i;

  EXPECT(drawn == (count < due ? count : due));
  memset(drawing, 0, sizeof *drawing);
  drawing->going_on = true;
  drawing->exact = true;
  drawing->least = (unsigned)drawn;
  drawing->last_ms = tick_ms_up_to(model, drawing->least);
  for (i = 0; i < model->capacity && drawn > 0; i++) {
    uint64_t tick_ms = tick_ms_of(model, i);
    drawing->may[i] = tick_ms <= drawing->last_ms && tick_ms < UINT64_MAX;
    drawing->must[i] = tick_ms < drawing->last_ms;
  }
}

void
drawing_touch(drawing_t *drawing, unsigned index, bool stays)
{
  if (!drawing->going_on)
    return;
  drawing->exact = false;
  drawing->least -= drawing->may[index] && drawing->least > 0;
  drawing->must[index] = false;
  drawing->may[index] = drawing->may[index] && stays;
}

void
drawing_take(drawing_t *drawing, model_t *model, unsigned index)
{
  EXPECT(drawing->may[index]);
  EXPECT(tick_ms_of(model, index) <= drawing->last_ms);
  EXPECT(!drawing->exact || drawing->least > 0);
  if (drawing->exact)
    model_expire(model, index, UINT64_MAX);
  else
    model_remove(model, index);
  drawing->least -= drawing->least > 0;
  drawing->may[index] = false;
  drawing->must[index] = false;
}

void
drawing_end(drawing_t *drawing)
{
  unsigned i;

  EXPECT(drawing->least == 0);
  for (i = 0; i < MOST_TIMERS; i++)
    EXPECT(!drawing->must[i]);
  drawing->going_on = false;
}
