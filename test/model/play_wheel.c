/* SPDX-License-Identifier: MIT */

/* Operations on the wheel alone, on a clock of its own. */

#include "play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "invariants.h"
#include "model.h"
#include "wheel.h"

#define DEEPEST 3

/* Allocated one by one, so that a use after free shows. */
typedef struct item_s {
  uvwheel_entry_t entry;
  unsigned index;
} item_t;

typedef struct game_s {
  bytes_t bytes;
  uvwheel_core_t core;
  model_t model;
  item_t *items[MODEL_TIMERS];
  uint64_t slots;
  uint64_t now_ms;
  uint64_t budget;
  uint64_t expired;
  uint64_t drawn;
  uint64_t stopped;
  unsigned depth; /* of operations between the steps of others */
} wheel_game_t;

static void operate(wheel_game_t *game);

/* ---- What must hold after each operation --------------------------------- */

static void
verify(const wheel_game_t *game)
{
  const uvwheel_core_t *core = &game->core;
  uint64_t next_ms = uvwheel__core_next_ms(core);
  unsigned i;

  EXPECT(broken_invariants(core, stderr) == 0);
  EXPECT(uvwheel__core_count(core) == game->model.count);
  EXPECT(core->counters.expired == game->expired);
  EXPECT(core->counters.drawn == game->drawn);
  EXPECT(core->inserted - uvwheel__core_count(core) ==
         game->stopped + game->expired + game->drawn);
  EXPECT(next_ms <= model_earliest_ms(&game->model));
  EXPECT(next_ms == UINT64_MAX || game->model.count > 0);
  for (i = 0; i < game->model.capacity; i++) {
    const model_timer_t *timer = &game->model.timers[i];
    const item_t *item = game->items[i];
    if (item == NULL) {
      EXPECT(!timer->active);
      continue;
    }
    EXPECT((uvwheel__entry_is_active(&item->entry) != 0) == timer->active);
    EXPECT(!timer->active || item->entry.due_ms == timer->due_ms);
  }
}

/* The wheel returns whether it has to be called earlier. */
static void
expect_told(const wheel_game_t *game, int earlier, uint64_t before_ms)
{
  uint64_t next_ms = uvwheel__core_next_ms(&game->core);

  EXPECT(next_ms <= before_ms);
  if (next_ms != UINT64_MAX)
    EXPECT((earlier != 0) == (next_ms < before_ms));
}

/* ---- Operations on entries ----------------------------------------------- */

static uint64_t
take_due_ms(wheel_game_t *game)
{
  uint64_t delay_ms =
      take_delay_ms(&game->bytes, game->model.tick_ms, game->slots);

  if (pick(&game->bytes, 8) != 0)
    return add_saturated(game->now_ms, delay_ms);
  return delay_ms < game->now_ms ? game->now_ms - delay_ms : 0;
}

static void
take_out(wheel_game_t *game, item_t *item)
{
  uvwheel__core_remove(&game->core, &item->entry);
  game->stopped++;
  model_remove(&game->model, item->index);
}

static void
put_in(wheel_game_t *game, unsigned index, uint64_t due_ms)
{
  item_t *item = game->items[index];
  uint64_t before_ms;
  int earlier;

  if (item == NULL) {
    item = malloc(sizeof *item);
    EXPECT(item != NULL);
    memset(item, 0xA5, sizeof *item);
    uvwheel__entry_init(&item->entry);
    item->index = index;
    game->items[index] = item;
  }
  if (game->model.timers[index].active)
    take_out(game, item);
  before_ms = uvwheel__core_next_ms(&game->core);
  earlier = uvwheel__core_insert(&game->core, &item->entry, due_ms);
  expect_told(game, earlier, before_ms);
  model_put(&game->model, index, due_ms);
}

static unsigned
pick_index(wheel_game_t *game)
{
  return (unsigned)take(&game->bytes, 2) % game->model.capacity;
}

static void
insert(wheel_game_t *game)
{
  unsigned index = pick_index(game);

  put_in(game, index, take_due_ms(game));
}

/* Many at one time: more than one turn, or one chunk of it, can handle. */
static void
insert_many(wheel_game_t *game)
{
  uint64_t due_ms = take_due_ms(game);
  unsigned i, stride = 1 + pick(&game->bytes, 3);

  for (i = 0; i < game->model.capacity; i += stride)
    if (!game->model.timers[i].active)
      put_in(game, i, due_ms);
}

static void
postpone(wheel_game_t *game)
{
  unsigned index = pick_index(game);
  uint64_t before_ms = uvwheel__core_next_ms(&game->core);
  uint64_t due_ms = take_due_ms(game);
  int earlier;

  if (!game->model.timers[index].active)
    return;
  earlier =
      uvwheel__core_postpone(&game->core, &game->items[index]->entry, due_ms);
  expect_told(game, earlier, before_ms);
  if (due_ms >= game->model.timers[index].due_ms && !game->model.fifo)
    model_postpone(&game->model, index, due_ms);
  else
    model_put(&game->model, index, due_ms);
}

static void
remove_one(wheel_game_t *game)
{
  unsigned index = pick_index(game);

  if (game->model.timers[index].active)
    take_out(game, game->items[index]);
}

static void
free_item(wheel_game_t *game, unsigned index)
{
  item_t *item = game->items[index];

  if (item == NULL)
    return;
  if (game->model.timers[index].active)
    take_out(game, item);
  memset(item, 0x5A, sizeof *item);
  free(item);
  game->items[index] = NULL;
}

static void
free_one(wheel_game_t *game)
{
  free_item(game, pick_index(game));
}

/* ---- The clock and its turns --------------------------------------------- */

static void
set_clock(wheel_game_t *game, uint64_t now_ms)
{
  game->now_ms = now_ms < CLOCK_END_MS ? now_ms : CLOCK_END_MS - 1;
}

static void
advance(wheel_game_t *game)
{
  uint64_t delay_ms =
      take_delay_ms(&game->bytes, game->model.tick_ms, game->slots);

  set_clock(game, add_saturated(game->now_ms, delay_ms));
}

static void
step_back(wheel_game_t *game)
{
  uint64_t delay_ms =
      take_delay_ms(&game->bytes, game->model.tick_ms, game->slots);

  set_clock(game, delay_ms < game->now_ms ? game->now_ms - delay_ms : 0);
}

static item_t *
expire_one(wheel_game_t *game, uint64_t now_ms, uint64_t *budget)
{
  const uvwheel_counters_t *counters = &game->core.counters;
  uint64_t left = *budget, looked = counters->examined;
  item_t *item;

  item = (item_t *)uvwheel__core_expire(&game->core, now_ms, budget);
  EXPECT(*budget <= left && counters->examined - looked == left - *budget);
  if (item != NULL) {
    EXPECT(game->items[item->index] == item);
    model_expire(&game->model, item->index, now_ms);
    game->expired++;
  } else if (*budget > 0) {
    uint64_t next_ms = uvwheel__core_next_ms(&game->core);
    EXPECT(model_earliest_ms(&game->model) > now_ms);
    EXPECT(next_ms > now_ms);
  }
  verify(game);
  return item;
}

/* Each slot counts its entries, and in the middle of a pass there are others.
 */
static void
count_slots(const wheel_game_t *game)
{
  uint64_t slots = game->core.slot_mask + 1, slot, count = 0;

  for (slot = 0; slot < slots; slot++)
    count += uvwheel__core_slot_count(&game->core, slot);
  EXPECT(count == uvwheel__core_count(&game->core) ||
         (game->core.passing && count < uvwheel__core_count(&game->core)));
}

/* Operations run between the calls, as in the callbacks of a loop; sometimes
 * the turn is left before its end. */
static void
turn(wheel_game_t *game, uint64_t budget)
{
  uint64_t now_ms = game->now_ms;
  bool hasty = pick(&game->bytes, 8) == 1;

  if (game->model.walk != NULL || game->model.drawing)
    return;
  while (expire_one(game, now_ms, &budget) != NULL) {
    while (game->depth < DEEPEST && pick(&game->bytes, 3) == 1)
      operate(game);
    if (hasty && pick(&game->bytes, 4) == 1)
      return;
  }
  count_slots(game);
}

static void
turn_now(wheel_game_t *game)
{
  turn(game, game->budget);
}

static void
turn_without_budget(wheel_game_t *game)
{
  turn(game, 0);
}

static void
turn_at_next(wheel_game_t *game)
{
  uint64_t next_ms = uvwheel__core_next_ms(&game->core);

  if (next_ms > game->now_ms)
    set_clock(game, next_ms);
  turn(game, game->budget);
}

static void
turn_soon(wheel_game_t *game)
{
  advance(game);
  turn(game, game->budget);
}

/* ---- Before their time --------------------------------------------------- */

static uint64_t
take_count(wheel_game_t *game)
{
  return pick(&game->bytes, 4) == 1 ? UINT64_MAX : take(&game->bytes, 1);
}

static void
draw(wheel_game_t *game)
{
  uint64_t count = take_count(game), expected, drawn;
  item_t *item;

  if (game->model.walk != NULL || game->model.drawing)
    return;
  expected = model_draw(&game->model, count);
  drawn = uvwheel__core_draw(&game->core, game->now_ms, count);
  EXPECT(drawn == expected);
  EXPECT(!game->core.passing || game->core.pass_ms <= game->now_ms);
  verify(game);
  while ((item = (item_t *)uvwheel__core_take_drawn(&game->core)) != NULL) {
    EXPECT(game->items[item->index] == item);
    model_take_drawn(&game->model, item->index);
    game->drawn++;
    verify(game);
    while (game->depth < DEEPEST && pick(&game->bytes, 3) == 1)
      operate(game);
  }
  model_end_draw(&game->model, false);
  count_slots(game);
}

/* ---- Walks --------------------------------------------------------------- */

static void
walk(wheel_game_t *game)
{
  model_walk_t visits;
  uvwheel_cursor_t cursor;
  item_t *item;

  model_walk_begin(&game->model, &visits);
  uvwheel__core_walk_begin(&game->core, &cursor);
  verify(game);
  while ((item = (item_t *)uvwheel__core_walk_next(&game->core, &cursor)) !=
         NULL) {
    verify(game);
    model_walk_visit(&game->model, &visits, item->index);
    while (game->depth < DEEPEST && pick(&game->bytes, 3) == 1)
      operate(game);
  }
  model_walk_end(&game->model, &visits);
}

/* ---- A game -------------------------------------------------------------- */

static void (*const operations[])(wheel_game_t *game) = {
    insert,    insert,   insert,      postpone,     postpone,
    postpone,  turn_now, turn_now,    turn_soon,    turn_soon,
    turn_soon, free_one, turn_soon,   remove_one,   turn_at_next,
    walk,      advance,  insert_many, step_back,    turn_at_next,
    insert,    postpone, turn_soon,   turn_at_next, turn_without_budget,
    draw,      draw,
};

static void
operate(wheel_game_t *game)
{
  unsigned count = sizeof operations / sizeof *operations;

  game->depth++;
  operations[pick(&game->bytes, count)](game);
  game->depth--;
  verify(game);
}

static void
open_wheel(wheel_game_t *game)
{
  uint64_t tick_ms = take_tick_ms(&game->bytes);
  uint32_t slots = take_slots(&game->bytes);
  bool fifo = pick(&game->bytes, 2);

  memset(&game->core, 0xA5, sizeof game->core);
  EXPECT(uvwheel__core_init(&game->core, tick_ms, slots,
                            fifo ? UVWHEEL_FIFO : 0) == 0);
  game->slots = slots;
  game->model.tick_ms = tick_ms;
  game->model.fifo = fifo;
  game->model.capacity = take_capacity(&game->bytes);
  game->budget = take_budget(&game->bytes);
  set_clock(game, take_delay_ms(&game->bytes, tick_ms, slots));
}

/* Nothing was lost: each wake-up finds what is due then, and only that. */
static void
run_out(wheel_game_t *game)
{
  unsigned wakes;

  for (wakes = 0; wakes < 2 * MODEL_TIMERS && game->model.count > 0; wakes++) {
    uint64_t next_ms = uvwheel__core_next_ms(&game->core);
    uint64_t budget = UINT64_MAX;
    if (next_ms >= CLOCK_END_MS)
      break;
    while (expire_one(game, next_ms, &budget) != NULL)
      ;
  }
}

void
play(const uint8_t *data, size_t size)
{
  static wheel_game_t game;
  unsigned i;

  memset(&game, 0, sizeof game);
  game.bytes.next = data;
  game.bytes.end = data + size;
  open_wheel(&game);
  verify(&game);
  while (has_bytes(&game.bytes))
    operate(&game);
  run_out(&game);
  for (i = 0; i < game.model.capacity; i++)
    free_item(&game, i);
  verify(&game);
  EXPECT(uvwheel__core_next_ms(&game.core) == UINT64_MAX);
  uvwheel__core_destroy(&game.core);
}
