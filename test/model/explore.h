/* SPDX-License-Identifier: MIT */

/* Small worlds, explored: from a new wheel, every possible move is made in
 * every state that is reached, and each time the wheel must agree with the
 * model. Two states are the same if all that decides their future is the same;
 * only one of them is explored further.
 *
 * world_core.c has the worlds of the wheel alone, world_peers.c those of a
 * wheel and its peers on a real loop in virtual time. */

#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core_support.h"
#include "model.h"

#define MAX_TIMERS 3

typedef struct world_s world_t;

/* A move. What it does with the two numbers is its own business. */
typedef bool (*make_t)(unsigned timer, uint64_t ms);

/* As a number of a move: the most there is, of whatever it is. Those above it
 * are negative. */
#define MOST ((UINT64_C(1) << 63) - 1)

/* A kind of world. */
typedef struct layer_s {
  const char *name;
  /* Makes the wheel, and names all memory that a move may change and all moves
   * there are. */
  void (*open)(const world_t *world);
  void (*close)(void);
  /* What must hold after each move. */
  void (*verify)(void);
  /* All that decides how the world goes on, as one number. */
  uint64_t (*key)(void);
} layer_t;

struct world_s {
  const layer_t *layer;
  unsigned timers;
  shape_t shape;
  unsigned variant; /* what else makes a difference to the layer */
};

extern const layer_t core_layer;
extern const layer_t peers_layer;

/* ---- For the layers ------------------------------------------------------ */

/* The memory is part of the world's state. */
void add_memory(void *memory, size_t size);

/* What a wheel has allocated is. */
void add_slots(const core_t *core);

/* `make` returns false if the move is not possible now; then it has done
 * nothing. */
void add_move(const char *name, make_t make, unsigned timer, uint64_t ms);

/* A key is mixed from values, whose order and number count. */
static inline uint64_t mix(uint64_t key, uint64_t value) {
  key = key * UINT64_C(0xd6e8feb86659fd93) ^ value;
  key += UINT64_C(0x9e3779b97f4a7c15);
  key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  return key ^ (key >> 27);
}

/* The key of a wheel at a time. What it has in common with one of a round later
 * is the same; entries have no names, but a key of what belongs to them. */
uint64_t key_of_core(const core_t *core, uint64_t now_ms,
                     uint64_t (*key_of_entry)(const uvwheel_entry_t *entry));

/* A time, or a tick, as it is seen from another one, if it will ever come. */
static inline uint64_t seen_from(uint64_t now, uint64_t then) {
  return then < MOST / 2 ? then - now : MOST;
}

/* What the model knows about an active timer: its place in its tick, and what a
 * draw makes of it. */
uint64_t key_of_timer(const model_t *model, unsigned index);

#endif /* EXPLORE_H */
