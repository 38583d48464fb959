/* SPDX-License-Identifier: MIT */

/* Small worlds of the wheel alone. Each call of the wheel is a move of its own,
 * so that everything is tried between the calls that make up a turn, as in a
 * loop's callbacks.
 *
 * The worlds are bounded: the clock stays near the last position of the hand
 * and near what waits. */

#include <stdio.h>
#include <string.h>

#include "explore.h"
#include "invariants.h"
#include "slot.h"

#define BEGIN_MS (UINT64_C(1) << 20)

static struct game_s {
  uvwheel_core_t core;
  uvwheel_entry_t entries[MOST_TIMERS];
  uvwheel_entry_t spare;
  drawing_t drawing;
  uint64_t now_ms;
  uint64_t round_ms;
  model_t model; /* the last one, as most of it is not used */
} game;

static unsigned
index_of(const uvwheel_entry_t *entry)
{
  return (unsigned)(entry - game.entries);
}

/* ---- What must hold after each move -------------------------------------- */

static void
verify(void)
{
  uint64_t next_ms = uvwheel__core_next_ms(&game.core);
  unsigned i;

  EXPECT(broken_invariants(&game.core, stderr) == 0);
  EXPECT(uvwheel__core_count(&game.core) == game.model.count);
  EXPECT(game.drawing.going_on || next_ms <= model_earliest_ms(&game.model));
  EXPECT(next_ms == UINT64_MAX || game.model.count > 0);
  for (i = 0; i < game.model.capacity; i++) {
    const model_timer_t *timer = &game.model.timers[i];
    const uvwheel_entry_t *entry = &game.entries[i];
    EXPECT((uvwheel__entry_is_active(entry) != 0) == timer->active);
    EXPECT(!timer->active || entry->due_ms == timer->due_ms);
  }
}

/* The wheel returns whether it has to be called earlier. */
static void
expect_told(int earlier, uint64_t before_ms)
{
  uint64_t next_ms = uvwheel__core_next_ms(&game.core);

  EXPECT(next_ms <= before_ms);
  if (next_ms != UINT64_MAX)
    EXPECT((earlier != 0) == (next_ms < before_ms));
}

/* ---- Entries ------------------------------------------------------------- */

static void
put(unsigned index, uint64_t due_ms)
{
  uint64_t before_ms = uvwheel__core_next_ms(&game.core);

  expect_told(uvwheel__core_insert(&game.core, &game.entries[index], due_ms),
              before_ms);
  model_put(&game.model, index, due_ms);
  drawing_touch(&game.drawing, index, false);
}

static void
take_out(unsigned index)
{
  uvwheel__core_remove(&game.core, &game.entries[index]);
  model_remove(&game.model, index);
  drawing_touch(&game.drawing, index, false);
}

static const uvwheel_slot_t *
slot_at(uint64_t due_ms)
{
  return slot_of(&game.core, tick_after(&game.core, due_ms));
}

static bool
is_in_use(const uvwheel_slot_t *slot)
{
  return is_occupied(&game.core, (uint64_t)(slot - game.core.slots));
}

/* The number of entries that a slot has had makes a difference, so few are put
 * into each; or as many as reach a second lane. */
static bool
is_used_up(uint64_t due_ms)
{
  const uvwheel_slot_t *slot = slot_at(due_ms);
  uint64_t dealt = dealt_into(slot);

  return is_in_use(slot) && dealt > game.model.capacity &&
         (dealt < slot->run || dealt > slot->run + game.model.capacity);
}

static uint64_t
due_after(uint64_t delay_ms)
{
  return delay_ms == MOST ? UINT64_MAX : game.now_ms + delay_ms;
}

/* Idle entries are all alike. */
static bool
insert(unsigned unused, uint64_t delay_ms)
{
  unsigned index = 0;

  (void)unused;
  while (index < game.model.capacity && game.model.timers[index].active)
    index++;
  if (index == game.model.capacity || is_used_up(due_after(delay_ms)))
    return false;
  put(index, due_after(delay_ms));
  return true;
}

/* To a later time it is one store, and the entry stays where it is. */
static bool
postpone(unsigned index, uint64_t delay_ms)
{
  uint64_t due_ms = due_after(delay_ms);
  uint64_t before_ms = uvwheel__core_next_ms(&game.core);
  uvwheel_entry_t *entry = &game.entries[index];
  const uvwheel_link_t before = entry->link;
  bool stays = due_ms >= game.model.timers[index].due_ms && !game.model.fifo;

  if (!game.model.timers[index].active || is_used_up(due_ms))
    return false;
  expect_told(uvwheel__core_postpone(&game.core, entry, due_ms), before_ms);
  if (stays) {
    EXPECT(entry->link.prev == before.prev && entry->link.next == before.next);
    model_postpone(&game.model, index, due_ms);
  } else {
    model_put(&game.model, index, due_ms);
  }
  drawing_touch(&game.drawing, index, stays);
  return true;
}

static bool
remove_one(unsigned index, uint64_t unused)
{
  (void)unused;
  if (!game.model.timers[index].active)
    return false;
  take_out(index);
  return true;
}

/* So many entries have been put into the slot that the next one comes to its
 * second lane. */
static bool
use_lane_up(unsigned unused, uint64_t delay_ms)
{
  uint64_t due_ms = due_after(delay_ms);
  const uvwheel_slot_t *slot = slot_at(due_ms);
  uint64_t dealt = dealt_into(slot), run = slot->run;

  (void)unused;
  if (!is_in_use(slot) || dealt >= run || game.core.passing ||
      game.drawing.going_on)
    return false;
  for (; dealt < run; dealt++) {
    (void)uvwheel__core_insert(&game.core, &game.spare, due_ms);
    uvwheel__core_remove(&game.core, &game.spare);
  }
  EXPECT(dealt_into(slot) == run);
  return true;
}

/* ---- The clock ----------------------------------------------------------- */

static uint64_t
hand_ms(void)
{
  return game.core.hand * game.core.tick_ms;
}

static bool
advance(unsigned unused, uint64_t step_ms)
{
  uint64_t next_ms = uvwheel__core_next_ms(&game.core);

  (void)unused;
  if (game.drawing.going_on || game.now_ms > hand_ms() + game.round_ms ||
      (next_ms < game.now_ms && game.now_ms - next_ms > game.round_ms))
    return false;
  game.now_ms += step_ms;
  return true;
}

static bool
step_back(unsigned unused, uint64_t step_ms)
{
  unsigned i;

  (void)unused;
  if (game.drawing.going_on || hand_ms() > game.now_ms + game.round_ms)
    return false;
  for (i = 0; i < game.model.capacity; i++) {
    const model_timer_t *timer = &game.model.timers[i];
    if (timer->active && timer->due_ms < CLOCK_END_MS &&
        timer->due_ms > game.now_ms + 2 * game.round_ms)
      return false;
  }
  game.now_ms -= step_ms;
  return true;
}

/* ---- Turns --------------------------------------------------------------- */

static bool
expire(unsigned unused, uint64_t budget)
{
  const uvwheel_counters_t *counters = &game.core.counters;
  uint64_t left = budget, looked = counters->examined;
  uvwheel_entry_t *entry;

  (void)unused;
  if (game.drawing.going_on)
    return false;
  entry = uvwheel__core_expire(&game.core, game.now_ms, &left);
  EXPECT(left <= budget && counters->examined - looked == budget - left);
  if (entry != NULL) {
    model_expire(&game.model, index_of(entry), game.now_ms);
  } else if (left > 0) {
    EXPECT(model_earliest_ms(&game.model) > game.now_ms);
    EXPECT(uvwheel__core_next_ms(&game.core) > game.now_ms);
  }
  return true;
}

static bool
draw(unsigned unused, uint64_t count)
{
  (void)unused;
  if (game.drawing.going_on)
    return false;
  drawing_begin(&game.drawing, &game.model, count,
                uvwheel__core_draw(&game.core, game.now_ms, count));
  return true;
}

static bool
take_drawn(unsigned unused, uint64_t no_time)
{
  uvwheel_entry_t *entry;

  (void)unused;
  (void)no_time;
  if (!game.drawing.going_on)
    return false;
  entry = uvwheel__core_take_drawn(&game.core);
  if (entry != NULL)
    drawing_take(&game.drawing, &game.model, index_of(entry));
  else
    drawing_end(&game.drawing);
  return true;
}

/* ---- Walks --------------------------------------------------------------- */

/* Between whose steps there are others. */
static bool
walk(unsigned depth, uint64_t unused)
{
  model_walk_t visits;
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  model_walk_begin(&game.model, &visits);
  uvwheel__core_walk_begin(&game.core, &cursor);
  while ((entry = uvwheel__core_walk_next(&game.core, &cursor)) != NULL) {
    model_walk_visit(&game.model, &visits, index_of(entry));
    EXPECT(broken_invariants(&game.core, stderr) == 0);
    if (depth > 1)
      (void)walk(depth - 1, unused);
  }
  model_walk_end(&game.model, &visits);
  return true;
}

static bool
walk_and_remove(unsigned unused, uint64_t no_time)
{
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;

  (void)unused;
  (void)no_time;
  if (game.model.count == 0)
    return false;
  uvwheel__core_walk_begin(&game.core, &cursor);
  while ((entry = uvwheel__core_walk_next(&game.core, &cursor)) != NULL)
    take_out(index_of(entry));
  EXPECT(game.model.count == 0);
  return true;
}

/* Each one starts itself and the others anew. The walk comes to an end, after
 * it has met each of them. */
static bool
walk_and_insert(unsigned unused, uint64_t delay_ms)
{
  bool met[MOST_TIMERS] = {false};
  uvwheel_cursor_t cursor;
  uvwheel_entry_t *entry;
  unsigned i;

  (void)unused;
  if (game.model.count < 2)
    return false;
  uvwheel__core_walk_begin(&game.core, &cursor);
  while ((entry = uvwheel__core_walk_next(&game.core, &cursor)) != NULL) {
    met[index_of(entry)] = true;
    take_out(index_of(entry));
    put(index_of(entry), game.now_ms + delay_ms);
  }
  for (i = 0; i < game.model.capacity; i++)
    EXPECT(met[i] == game.model.timers[i].active);
  return true;
}

/* ---- The world ----------------------------------------------------------- */

static uint64_t
key_of_entry(const uvwheel_entry_t *entry)
{
  return mix(key_of_place(&game.model, index_of(entry)),
             key_of_drawing(&game.drawing, index_of(entry)));
}

static uint64_t
key(void)
{
  uint64_t value = key_of_core(&game.core, game.now_ms, key_of_entry);

  if (game.drawing.going_on) {
    value = mix(value, game.drawing.exact);
    value = mix(value, game.drawing.least);
    value = mix(value, seen_from(game.now_ms, game.drawing.last_ms));
  }
  return value;
}

/* Where an off-by-one shows. */
static void
add_delays(const char *name, make_t make, unsigned timer)
{
  const uint64_t tick_ms = game.model.tick_ms;
  const uint64_t delays[] = {
      -tick_ms,          0,   1, tick_ms, game.round_ms, game.round_ms + 1,
      2 * game.round_ms, MOST};
  unsigned i;

  for (i = 0; i < LENGTH(delays); i++)
    if (i == 0 || delays[i] != delays[i - 1])
      add_move(name, make, timer, delays[i]);
}

static void
add_moves(void)
{
  const uint64_t tick_ms = game.model.tick_ms, round_ms = game.round_ms;
  const uint64_t steps_ms[] = {1, tick_ms, round_ms, round_ms + 1};
  const uint64_t counts[] = {0, 1, MOST};
  unsigned i;

  add_delays("insert", insert, 0);
  for (i = 0; i < game.model.capacity; i++) {
    add_delays("postpone", postpone, i);
    add_move("remove", remove_one, i, 0);
  }
  for (i = 0; i < LENGTH(counts); i++)
    add_move("expire", expire, 0, counts[i]);
  for (i = 0; i < LENGTH(steps_ms); i++) {
    if (i > 0 && steps_ms[i] == steps_ms[i - 1])
      continue;
    add_move("advance", advance, 0, steps_ms[i]);
    add_move("step_back", step_back, 0, steps_ms[i]);
  }
  for (i = 1; i < LENGTH(counts); i++)
    add_move("draw", draw, 0, counts[i]);
  add_move("take_drawn", take_drawn, 0, 0);
  add_move("use_lane_up", use_lane_up, 0, 0);
  add_move("use_lane_up", use_lane_up, 0, -tick_ms);
  add_move("walk", walk, 2, 0);
  add_move("walk_and_remove", walk_and_remove, 0, 0);
  add_move("walk_and_insert", walk_and_insert, 0, 0);
}

static void
open_core(const world_t *world)
{
  unsigned i;

  memset(&game, 0, sizeof game);
  EXPECT(uvwheel__core_init(&game.core, world->tick_ms, world->slots,
                            world->flags) == 0);
  game.now_ms = BEGIN_MS;
  game.round_ms = world->tick_ms * world->slots;
  game.model.tick_ms = world->tick_ms;
  game.model.fifo = world->flags & UVWHEEL_FIFO;
  game.model.capacity = world->timers;
  (void)expire(0, 0); /* the hand comes to the clock */
  for (i = 0; i < MOST_TIMERS; i++)
    uvwheel__entry_init(&game.entries[i]);
  uvwheel__entry_init(&game.spare);
  add_memory(&game, offsetof(struct game_s, model.timers[MOST_TIMERS]));
  add_slots(&game.core);
  add_moves();
}

static void
close_core(void)
{
  uvwheel__core_destroy(&game.core);
}

const layer_t core_layer = {"core", open_core, close_core, verify, key};
