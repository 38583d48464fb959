/* SPDX-License-Identifier: MIT */

/* Operations on the wheel alone, on a clock of its own. */

#include "play.h"

#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define DEEPEST 3

static bytes_t bytes;
static pair_t pair;
static uint64_t slots;
static uint64_t turn_budget;
static unsigned depth; /* of operations between the steps of others */

static void operate(void);

/* Between two steps of a turn, a draw or a walk, as in callbacks of a loop. */
static void operate_between(void) {
  while (depth < DEEPEST && pick(&bytes, 3) == 1)
    operate();
}

/* ---- Operations on entries ----------------------------------------------- */

static uint64_t take_delay(void) {
  return take_delay_ms(&bytes, pair.model.tick_ms, slots);
}

static uint64_t before_now(uint64_t delay_ms) {
  return delay_ms < pair.now_ms ? pair.now_ms - delay_ms : 0;
}

static uint64_t take_due_ms(void) {
  uint64_t delay_ms = take_delay();

  if (pick(&bytes, 8) != 0)
    return add_saturated(pair.now_ms, delay_ms);
  return before_now(delay_ms);
}

/* Items are allocated one by one, so that a use after free shows. */
static void put_in(unsigned index, uint64_t due_ms) {
  if (pair.items[index] == NULL) {
    pair.items[index] = malloc(sizeof(item_t));
    require(pair.items[index] != NULL);
    pair.items[index]->index = index;
  }
  pair_insert(&pair, index, due_ms);
}

static unsigned pick_index(void) {
  return (unsigned)take(&bytes, 2) % pair.model.capacity;
}

static void insert_one(void) {
  unsigned index = pick_index();

  put_in(index, take_due_ms());
}

/* Many at one time: more than one turn, or one chunk of it, can handle. */
static void insert_many(void) {
  uint64_t due_ms = take_due_ms();
  unsigned i, stride = 1 + pick(&bytes, 3);

  for (i = 0; i < pair.model.capacity; i += stride)
    if (!pair.model.timers[i].active)
      put_in(i, due_ms);
}

static void postpone_one(void) {
  unsigned index = pick_index();
  uint64_t due_ms = take_due_ms();

  if (pair.model.timers[index].active)
    pair_postpone(&pair, index, due_ms);
}

static void remove_one(void) {
  unsigned index = pick_index();

  if (pair.model.timers[index].active)
    pair_remove(&pair, index);
}

static void free_item(unsigned index) {
  item_t *item = pair.items[index];

  if (item == NULL)
    return;
  if (pair.model.timers[index].active)
    pair_remove(&pair, index);
  memset(item, 0x5A, sizeof *item);
  free(item);
  pair.items[index] = NULL;
}

static void free_one(void) {
  free_item(pick_index());
}

/* ---- The clock and its turns --------------------------------------------- */

static void set_clock(uint64_t now_ms) {
  pair.now_ms = now_ms < CLOCK_END_MS ? now_ms : CLOCK_END_MS - 1;
}

static void advance(void) {
  set_clock(add_saturated(pair.now_ms, take_delay()));
}

static void step_back(void) {
  set_clock(before_now(take_delay()));
}

/* Sometimes the turn is left before its end. */
static void turn(uint64_t budget) {
  uint64_t now_ms = pair.now_ms;
  bool hasty = pick(&bytes, 8) == 1;

  if (pair.model.walking || pair.model.drawing)
    return;
  while (pair_expire(&pair, now_ms, &budget) != NULL) {
    operate_between();
    if (hasty && pick(&bytes, 4) == 1)
      return;
  }
}

static void turn_now(void) {
  turn(turn_budget);
}

static void turn_without_budget(void) {
  turn(0);
}

static void turn_at_next(void) {
  uint64_t next_ms = uvwheel__core_next_ms(&pair.core);

  if (next_ms > pair.now_ms)
    set_clock(next_ms);
  turn(turn_budget);
}

static void turn_soon(void) {
  advance();
  turn(turn_budget);
}

/* ---- Draws and walks ----------------------------------------------------- */

static void draw_some(void) {
  uint64_t count = pick(&bytes, 4) == 1 ? UINT64_MAX : take(&bytes, 1);

  if (pair.model.walking || pair.model.drawing)
    return;
  pair_draw(&pair, count);
  while (pair_take_drawn(&pair) != NULL)
    operate_between();
}

static void step(pair_t *unused, item_t *item) {
  (void)unused, (void)item;
  operate_between();
}

static void walk(void) {
  if (!pair.model.walking)
    pair_walk(&pair, step);
}

/* ---- A game -------------------------------------------------------------- */

static void (*const operations[])(void) = {
    insert_one,   insert_one,   insert_one,  postpone_one, postpone_one,
    postpone_one, turn_now,     turn_now,    turn_soon,    turn_soon,
    turn_soon,    free_one,     turn_soon,   remove_one,   turn_at_next,
    walk,         advance,      insert_many, step_back,    turn_at_next,
    insert_one,   postpone_one, turn_soon,   turn_at_next, turn_without_budget,
    draw_some,    draw_some,
};

static void operate(void) {
  depth++;
  operations[pick(&bytes, LENGTH(operations))]();
  depth--;
  pair_verify(&pair);
}

static void begin(const uint8_t *data, size_t size) {
  shape_t shape;

  memset(&pair, 0, sizeof pair);
  bytes.next = data;
  bytes.end = data + size;
  shape.tick_ms = take_tick_ms(&bytes);
  shape.slots = UINT32_C(1) << pick(&bytes, 14);
  shape.flags = pick(&bytes, 2) ? UVWHEEL_FIFO : 0;
  slots = shape.slots;
  pair_open(&pair, &shape);
  pair.model.capacity = take_capacity(&bytes);
  turn_budget = take_budget(&bytes);
  set_clock(take_delay());
}

/* Nothing was lost: each wake-up finds all that is due then. */
static void run_to_the_end(void) {
  uint64_t next_ms;

  while ((next_ms = uvwheel__core_next_ms(&pair.core)) < CLOCK_END_MS) {
    uint64_t budget = UINT64_MAX;
    while (pair_expire(&pair, next_ms, &budget) != NULL)
      ;
  }
}

void play(const uint8_t *data, size_t size) {
  unsigned i;

  begin(data, size);
  while (has_bytes(&bytes))
    operate();
  run_to_the_end();
  for (i = 0; i < pair.model.capacity; i++)
    free_item(i);
  pair_close(&pair);
}
