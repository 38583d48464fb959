/* SPDX-License-Identifier: MIT */

/* What must hold for a small world on its loop, and its key. */

#include "world_binding.h"

#include <stdio.h>

static void
verify_timer(unsigned index)
{
  const model_timer_t *model = &game.model.timers[index];
  const uvwheel_timer_t *timer = &game.timers[index];
  uint64_t now_ms = after(0), tick_ms = game.model.tick_ms;
  uint64_t left_ms = model->due_ms > now_ms ? model->due_ms - now_ms : 0;

  EXPECT(uvwheel_timer_is_active(timer) == model->active);
  EXPECT(!model->active || timer->entry.due_ms == model->due_ms);
  EXPECT(uvwheel_timer_get_repeat(timer) == game.armed[index].repeat);
  EXPECT(uvwheel_timer_get_due_in(timer) == (model->active ? left_ms : 0));
  if (model->active && model->due_ms < CLOCK_END_MS)
    EXPECT(uvwheel_timer_get_rounds(timer) ==
           ((now_ms + left_ms) / tick_ms - now_ms / tick_ms) * tick_ms /
               game.round_ms);
}

/* The loop wakes up in time: at the first tick at which something is due; or a
 * millisecond later for what is left over, or when the clock has come to where
 * it has been. */
static void
verify_driver(void)
{
  const uv_timer_t *driver = &game.wheel.driver;
  uint64_t earliest_ms = model_earliest_ms(&game.model);
  uint64_t latest_ms = loop_ms() + 1;

  EXPECT((uv_is_active((const uv_handle_t *)driver) != 0) ==
         (game.model.count > 0));
  if (game.model.count == 0 || earliest_ms == UINT64_MAX)
    return;
  earliest_ms += loop_ms() - passed();
  latest_ms = earliest_ms > latest_ms ? earliest_ms : latest_ms;
  EXPECT(driver->timeout <= latest_ms || driver->timeout <= game.rewound_to_ms);
}

static void
verify_stats(void)
{
  uvwheel_stats_t stats;
  uint64_t sum = 0;
  unsigned i;

  uvwheel_get_stats(&game.wheel, &stats);
  for (i = 0; i < UVWHEEL_LATENESS_BUCKETS; i++)
    sum += stats.lateness[i];
  EXPECT(stats.active == game.model.count);
  EXPECT(stats.fired == game.fired);
  EXPECT(stats.fired_early == game.fired_early);
  EXPECT(stats.stopped == game.stopped);
  EXPECT(stats.started == stats.active + stats.stopped + stats.fired);
  EXPECT(sum == game.fired - game.fired_early);
  EXPECT(stats.lateness_max_ms == game.lateness_max_ms);
}

void
verify_world(void)
{
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    verify_timer(i);
  EXPECT(uvwheel_check(&game.wheel, stderr) == 0);
  EXPECT(uvwheel_count(&game.wheel) == game.model.count);
  verify_stats();
  verify_driver();
}

/* ---- The key ------------------------------------------------------------- */

uint64_t
key_of_timer(unsigned index)
{
  const uvwheel_timer_t *timer = &game.timers[index];
  uint64_t key = mix(1, timer->home & HOME_FLAGS);

  key = mix(key, timer->interval);
  key = mix(key, timer->timeout);
  key = mix(key, timer->cb != NULL);
  key = mix(key, game.armed[index].timeout);
  key = mix(key, game.armed[index].repeat);
  return mix(key, game.model.timers[index].active);
}

static uint64_t
key_of_entry(const uvwheel_entry_t *entry)
{
  const uvwheel_timer_t *timer = CONTAINER_OF(entry, uvwheel_timer_t, entry);
  unsigned index = (unsigned)(timer - game.timers);

  return mix(key_of_timer(index), key_of_place(&game.model, index));
}

static uint64_t
key_of_driver(void)
{
  const uvwheel_t *wheel = &game.wheel;
  bool is_armed = uv_is_active((const uv_handle_t *)&wheel->driver);
  /* By which nobody moved the loop's time but libuv. */
  uint64_t since_turn_ms =
      loop_ms() - wheel->turned_ms - (moved_ms - wheel->moved_ms);
  uint64_t key = mix(0, is_armed);

  if (is_armed) {
    key = mix(key, seen_from(loop_ms(), wheel->driver.timeout));
    key = mix(key, seen_from(loop_ms(), wheel->wake_ms));
  }
  key = mix(key, since_turn_ms + 32 < 64 ? since_turn_ms : 32);
  key = mix(key, wheel->flags);
  key = mix(key, wheel->stalls_in_row);
  key = mix(key, wheel->stalls_in_row != 0 ? wheel->on_time : 0);
  return mix(key, wheel->ask_every);
}

uint64_t
key_of_world(void)
{
  uint64_t value = key_of_core(&game.wheel.core, after(0), key_of_entry);
  uint64_t idle = 0;
  unsigned i;

  for (i = 0; i < game.model.capacity; i++)
    if (!game.model.timers[i].active)
      idle += key_of_timer(i); /* in no order */
  value = mix(value, idle);
  value = mix(value, key_of_driver());
  value = mix(value, clock_ms() - loop_ms());
  if (is_rewound())
    value = mix(value, game.rewound_to_ms - loop_ms());
  return value;
}
