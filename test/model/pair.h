/* SPDX-License-Identifier: MIT */

/* A wheel without a loop, and its model. Each function does the same to both,
 * and they must agree. Random games and small worlds use the same functions. */

#ifndef PAIR_H
#define PAIR_H

#include "core_support.h"
#include "model.h"

typedef struct pair_s {
  core_t core;
  uint64_t now_ms;
  model_t model;
  item_t *items[MODEL_TIMERS]; /* NULL: there is none; then it is not active */
} pair_t;

/* No wheel may be open in the pair. The model's capacity is the caller's. */
void pair_open(pair_t *pair, const shape_t *shape);
void pair_close(pair_t *pair);

/* All that must hold after each operation. */
void pair_verify(const pair_t *pair);

/* The item is idle, or is taken out first. */
void pair_insert(pair_t *pair, unsigned index, uint64_t due_ms);

/* The item is active. */
void pair_postpone(pair_t *pair, unsigned index, uint64_t due_ms);
void pair_remove(pair_t *pair, unsigned index);

/* Returns the entry that expired, or NULL. */
item_t *pair_expire(pair_t *pair, uint64_t now_ms, uint64_t *budget);

void pair_draw(pair_t *pair, uint64_t count);

/* Returns NULL when the draw is over. */
item_t *pair_take_drawn(pair_t *pair);

/* Walks over all entries. `step` is called after each of them, unless it is
 * NULL. */
void pair_walk(pair_t *pair, void (*step)(pair_t *pair, item_t *item));

#endif /* PAIR_H */
