/* SPDX-License-Identifier: MIT */

/* Small worlds of the wheel alone. Each call of the wheel is a move of its own,
 * so that everything is tried between the calls that make up a turn, as in a
 * loop's callbacks. Entries of one slot and of different rounds come in each
 * order of insertion (scenario 7; netty#12886, #12888, #13018).
 *
 * The worlds are bounded: the clock stays near the last position of the hand
 * and near what waits. */

#include <string.h>

#include "explore.h"
#include "pair.h"

#define BEGIN_MS (UINT64_C(1) << 20)

static pair_t pair;
static item_t items[MAX_TIMERS];
static uvwheel_entry_t spare;
static uint64_t round_ms;

/* ---- Entries ------------------------------------------------------------- */

static uint64_t due_after(uint64_t delay_ms) {
  return delay_ms == MOST ? UINT64_MAX : pair.now_ms + delay_ms;
}

/* The slot for what is due then; NULL if it is not occupied. */
static const slot_t *slot_at(uint64_t due_ms) {
  slot_t *slot = slot_of(&pair.core, tick_after(&pair.core, due_ms));

  return slot->next_pass != 0 ? slot : NULL;
}

/* How many entries a slot has had makes a difference, so worlds end where the
 * third lane begins. */
static bool is_used_up(uint64_t due_ms) {
  const slot_t *slot = slot_at(due_ms);

  return slot != NULL && slot->lane >= offsetof(slot_t, lanes[2]);
}

/* Idle entries are all alike. */
static bool insert_one(unsigned unused, uint64_t delay_ms) {
  unsigned index = 0;

  (void)unused;
  while (index < pair.model.capacity && pair.model.timers[index].active)
    index++;
  if (index == pair.model.capacity || is_used_up(due_after(delay_ms)))
    return false;
  pair_insert(&pair, index, due_after(delay_ms));
  return true;
}

static bool postpone_one(unsigned index, uint64_t delay_ms) {
  if (!pair.model.timers[index].active || is_used_up(due_after(delay_ms)))
    return false;
  pair_postpone(&pair, index, due_after(delay_ms));
  return true;
}

static bool remove_one(unsigned index, uint64_t unused) {
  (void)unused;
  if (!pair.model.timers[index].active)
    return false;
  pair_remove(&pair, index);
  return true;
}

/* So many entries have been put into the slot that the next one comes to its
 * second lane. */
static bool use_lane_up(unsigned unused, uint64_t delay_ms) {
  uint64_t due_ms = due_after(delay_ms);
  const slot_t *slot = slot_at(due_ms);

  (void)unused;
  if (slot == NULL || slot->lane != offsetof(slot_t, lanes[0]) ||
      pair.model.fifo || pair.core.pass_lanes != 0 || pair.model.drawing)
    return false;
  while (slot->lane == offsetof(slot_t, lanes[0])) {
    insert(&pair.core, &spare, due_ms);
    remove_entry(&pair.core, &spare);
  }
  model_remember_tick(&pair.model, due_ms);
  return true;
}

/* ---- The clock ----------------------------------------------------------- */

static bool advance(unsigned unused, uint64_t step_ms) {
  uint64_t next_ms = uvwheel__core_next_ms(&pair.core);

  (void)unused;
  if (pair.model.drawing || pair.now_ms > hand_ms(&pair.core) + round_ms ||
      (next_ms < pair.now_ms && pair.now_ms - next_ms > round_ms))
    return false;
  pair.now_ms += step_ms;
  return true;
}

/* ---- Turns, draws and walks ---------------------------------------------- */

static bool expire_one(unsigned unused, uint64_t budget) {
  (void)unused;
  if (pair.model.drawing)
    return false;
  (void)pair_expire(&pair, pair.now_ms, &budget);
  return true;
}

static bool draw_some(unsigned unused, uint64_t count) {
  (void)unused;
  if (pair.model.drawing)
    return false;
  pair_draw(&pair, count);
  return true;
}

static bool take_one(unsigned unused, uint64_t no_time) {
  (void)unused, (void)no_time;
  if (!pair.model.drawing)
    return false;
  (void)pair_take_drawn(&pair);
  return true;
}

static uint64_t restarted_ms;

static void remove_visited(pair_t *unused, item_t *item) {
  (void)unused;
  pair_remove(&pair, item->index);
}

static void restart_visited(pair_t *unused, item_t *item) {
  (void)unused;
  pair_insert(&pair, item->index, restarted_ms);
}

/* What is done with each entry. */
enum { LEAVE, REMOVE, RESTART };

/* If each one starts itself anew, the walk comes to an end, after it has met
 * each of them. */
static bool walk(unsigned what, uint64_t delay_ms) {
  void (*const steps[])(pair_t *, item_t *) = {NULL, remove_visited,
                                               restart_visited};
  unsigned i;

  if (pair.model.count < what)
    return false;
  restarted_ms = pair.now_ms + delay_ms;
  pair_walk(&pair, steps[what]);
  require(what != REMOVE || pair.model.count == 0);
  for (i = 0; what == RESTART && i < pair.model.capacity; i++)
    require((pair.model.timers[i].visits > 0) == pair.model.timers[i].active);
  return true;
}

/* ---- The world ----------------------------------------------------------- */

static void verify_pair(void) {
  pair_verify(&pair);
}

static uint64_t key_of_entry(const uvwheel_entry_t *entry) {
  return key_of_timer(&pair.model, ((const item_t *)entry)->index);
}

static uint64_t key(void) {
  const model_t *model = &pair.model;
  uint64_t value = key_of_core(&pair.core, pair.now_ms, key_of_entry);
  uint64_t gone = model->taken + model->disturbed;

  if (!model->drawing || model->drawn == 0)
    return mix(value, model->drawing);
  value = mix(value, model->disturbed == 0);
  value = mix(value, model->drawn > gone ? model->drawn - gone : 0);
  return mix(value, seen_from(pair.now_ms, model->latest_ms));
}

/* Where an off-by-one shows. */
static void add_delays(const char *name, make_t make, unsigned timer) {
  const uint64_t tick_ms = pair.model.tick_ms;
  const uint64_t delays[] = {
      -tick_ms, 0, 1, tick_ms, round_ms, round_ms + 1, 2 * round_ms, MOST};
  unsigned i;

  for (i = 0; i < LENGTH(delays); i++)
    if (i == 0 || delays[i] != delays[i - 1])
      add_move(name, make, timer, delays[i]);
}

static void add_moves(void) {
  const uint64_t tick_ms = pair.model.tick_ms;
  const uint64_t steps_ms[] = {1, tick_ms, round_ms, round_ms + 1};
  const uint64_t counts[] = {0, 1, MOST};
  unsigned i;

  add_delays("insert", insert_one, 0);
  for (i = 0; i < pair.model.capacity; i++) {
    add_delays("postpone", postpone_one, i);
    add_move("remove", remove_one, i, 0);
  }
  for (i = 0; i < LENGTH(counts); i++)
    add_move("expire", expire_one, 0, counts[i]);
  for (i = 0; i < LENGTH(steps_ms); i++)
    if (i == 0 || steps_ms[i] != steps_ms[i - 1])
      add_move("advance", advance, 0, steps_ms[i]);
  for (i = 1; i < LENGTH(counts); i++)
    add_move("draw", draw_some, 0, counts[i]);
  add_move("take_drawn", take_one, 0, 0);
  add_move("use_lane_up", use_lane_up, 0, 0);
  add_move("use_lane_up", use_lane_up, 0, -tick_ms);
  add_move("walk", walk, LEAVE, 0);
  add_move("walk_and_remove", walk, REMOVE, 0);
  add_move("walk_and_insert", walk, RESTART, 0);
}

static void open_world(const world_t *world) {
  unsigned i;

  memset(&pair, 0, sizeof pair);
  pair_open(&pair, &world->shape);
  pair.now_ms = BEGIN_MS;
  pair.model.capacity = world->timers;
  round_ms = world->shape.tick_ms * world->shape.slots;
  pair.core.hand = BEGIN_MS / world->shape.tick_ms;
  for (i = 0; i < MAX_TIMERS; i++) {
    pair.items[i] = &items[i];
    items[i].index = i;
    items[i].entry.link.next = NULL;
  }
  add_memory(&pair, offsetof(pair_t, model.timers[MAX_TIMERS]));
  add_memory(items, sizeof items);
  add_slots(&pair.core);
  add_moves();
}

static void close_world(void) {
  free_core(&pair.core);
}

const layer_t core_layer = {"core", open_world, close_world, verify_pair, key};
