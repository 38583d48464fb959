/* SPDX-License-Identifier: MIT */

/* What the worlds of both layers share: keys of what is in a wheel and in the
 * model. */

#include "explore.h"

void add_slots(const core_t *core) {
  const char *end = (const char *)(core->bounds + core->slot_mask / 64 + 1);

  add_memory(core->slots, (size_t)(end - (const char *)core->slots));
}

typedef uint64_t (*key_of_entry_t)(const uvwheel_entry_t *entry);

/* The entries in their places. */
static uint64_t key_of_list(const uvwheel_link_t *head, uint64_t now_ms,
                            key_of_entry_t key_of_entry) {
  uvwheel_link_t *link;
  uint64_t key = 1;

  for (link = head->next; link != head; link = link->next) {
    key = mix(key, seen_from(now_ms, entry_of(link)->due_ms));
    key = mix(key, key_of_entry(entry_of(link)));
  }
  return key;
}

static uint64_t key_of_slot(const core_t *core, uint64_t number,
                            uint64_t now_ms, key_of_entry_t key_of_entry) {
  const slot_t *slot = &core->slots[number];
  const char *end = (const char *)slot + slot->lanes_used;
  const uvwheel_link_t *lane;
  uint64_t key = 0;

  if (core->slots[number].next_pass == 0)
    return 0;
  key = mix(key, seen_from(now_ms / core->tick_ms, slot->next_pass));
  key = mix(key, slot->lane);
  key = mix(key, slot->share_left);
  for (lane = slot->lanes; (const char *)lane < end; lane++)
    key = mix(key, key_of_list(lane, now_ms, key_of_entry));
  return key;
}

static uint64_t key_of_pass(const core_t *core, uint64_t now_ms,
                            key_of_entry_t key_of_entry) {
  uint64_t key = mix(1, seen_from(now_ms / core->tick_ms, core->hand)), i;

  if (core->pass_lanes == 0)
    return 0;
  key = mix(key, key_of_list(&core->due, now_ms, key_of_entry));
  key = mix(key, key_of_list(&core->kept, now_ms, key_of_entry));
  for (i = 0; i < core->pass_lanes; i++)
    key = mix(key, key_of_list(&core->pending[i], now_ms, key_of_entry));
  return key;
}

uint64_t key_of_core(const core_t *core, uint64_t now_ms,
                     key_of_entry_t key_of_entry) {
  uint64_t now_tick = now_ms / core->tick_ms, slots = core->slot_mask + 1, i;
  uint64_t key = mix(0, now_ms % (slots * core->tick_ms));

  key = mix(key, seen_from(now_tick, core->hand));
  key = mix(key, seen_from(now_tick, core->next_tick));
  key = mix(key, key_of_pass(core, now_ms, key_of_entry));
  key = mix(key, key_of_list(&core->drawn, now_ms, key_of_entry));
  if (!list_is_empty(&core->drawn))
    key = mix(key, seen_from(now_ms, core->drawn_ms));
  for (i = 0; i < slots; i++) {
    key = mix(key, key_of_slot(core, i, now_ms, key_of_entry));
    if (i % 64 == 0 && core->occupied[i / 64] != 0)
      key = mix(key, seen_from(now_tick, core->bounds[i / 64]));
  }
  return key;
}

/* Places in a queue are compared, and with nothing but each other. */
uint64_t key_of_timer(const model_t *model, unsigned index) {
  const model_timer_t *timer = &model->timers[index];
  uint64_t place = 1;
  unsigned i;

  if (!model->fifo || timer->place == 0)
    return mix(0, timer->draw);
  for (i = 0; i < model->capacity; i++)
    place += model->timers[i].active && model->timers[i].place < timer->place;
  return mix(place, timer->draw);
}
