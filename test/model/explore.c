/* SPDX-License-Identifier: MIT */

/* Explores small worlds, breadth first, one after the other, each until it has
 * no new states, or
 *
 *   --depth N    all sequences of N moves have been played,
 *   --states N   it has N states,
 *   --seconds N  its share of that time is used up; 60 by default.
 *
 * A state is stored as the move that led there from another one, 16 bytes. To
 * explore it, its moves are made again from the beginning. From time to time
 * two states of one key are checked to be the same: they must go on alike. */

#include "explore.h"
#include "cpu_time.h"
#include "play.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_MEMORIES 8
#define MAX_MOVES 200
#define MAX_MEMORY_BYTES 16384
#define DEEPEST 1000
#define SAMPLED 1000 /* one transition in so many is looked at closely */
#define NOWHERE UINT32_MAX
#define MAX_STATES (1u << 29) /* whose numbers can be doubled twice */

static const world_t worlds[] = {
    {&core_layer, 2, {1, 1, 0}, 0},  {&core_layer, 2, {1, 1, UVWHEEL_FIFO}, 0},
    {&core_layer, 2, {2, 2, 0}, 0},  {&core_layer, 2, {2, 2, UVWHEEL_FIFO}, 0},
    {&core_layer, 3, {1, 1, 0}, 0},  {&core_layer, 3, {1, 1, UVWHEEL_FIFO}, 0},
    {&core_layer, 3, {1, 2, 0}, 0},  {&core_layer, 3, {1, 2, UVWHEEL_FIFO}, 0},
    {&peers_layer, 3, {2, 1, 0}, 0}, {&peers_layer, 3, {2, 2, UVWHEEL_FIFO}, 0},
    {&peers_layer, 3, {2, 2, 0}, 1}, {&peers_layer, 3, {2, 1, UVWHEEL_FIFO}, 1},
    {&peers_layer, 3, {2, 1, 0}, 2},
};

typedef struct limits_s {
  uint64_t depth;
  uint64_t states;
  uint64_t seconds;
} limits_t;

/* ---- What can be done in a world ----------------------------------------- */

typedef struct memory_s {
  void *at;
  size_t size;
} memory_t;

typedef struct move_s {
  const char *name;
  make_t make;
  unsigned timer;
  uint64_t ms;
} move_t;

static memory_t memories[MAX_MEMORIES];
static unsigned memory_count;
static move_t moves[MAX_MOVES];
static unsigned move_count;

typedef unsigned char snapshot_t[MAX_MEMORY_BYTES];

void add_memory(void *memory, size_t size) {
  require(memory_count < MAX_MEMORIES);
  memories[memory_count].at = memory;
  memories[memory_count].size = size;
  memory_count++;
}

void add_move(const char *name, make_t make, unsigned timer, uint64_t ms) {
  require(move_count < MAX_MOVES);
  moves[move_count].name = name;
  moves[move_count].make = make;
  moves[move_count].timer = timer;
  moves[move_count].ms = ms;
  move_count++;
}

/* Everything lies where it lay, so that pointers are right again. */
static void save(snapshot_t snapshot) {
  size_t used = 0;
  unsigned i;

  for (i = 0; i < memory_count; i++) {
    require(used + memories[i].size <= MAX_MEMORY_BYTES);
    memcpy(snapshot + used, memories[i].at, memories[i].size);
    used += memories[i].size;
  }
}

static void restore(const snapshot_t snapshot) {
  size_t used = 0;
  unsigned i;

  for (i = 0; i < memory_count; i++) {
    memcpy(memories[i].at, snapshot + used, memories[i].size);
    used += memories[i].size;
  }
}

/* ---- The states ---------------------------------------------------------- */

typedef struct state_s {
  uint64_t key;
  uint32_t from; /* the state in which the move was made */
  uint32_t move;
} state_t;

static state_t *states;
static uint32_t state_count;
static uint32_t room; /* for that many states, a power of two */

/* A hash table with twice as many places: numbers of states, or NOWHERE. Those
 * of the libraries keep 30 bytes and more for what are 8 here. */
static uint32_t *places;

static uint32_t *place_of(uint64_t key) {
  uint32_t mask = 2 * room - 1, place = (uint32_t)(key >> 32) & mask;

  while (places[place] != NOWHERE && states[places[place]].key != key)
    place = (place + 1) & mask;
  return &places[place];
}

static void make_room(uint32_t wanted) {
  uint32_t i;

  room = wanted;
  states = realloc(states, room * sizeof *states);
  free(places);
  places = malloc(2 * (size_t)room * sizeof *places);
  require(states != NULL && places != NULL);
  memset(places, 0xFF, 2 * (size_t)room * sizeof *places);
  for (i = 0; i < state_count; i++)
    *place_of(states[i].key) = i;
}

/* Keeps the state, if it is a new one. Returns it, or the one that it is. */
static uint32_t keep(uint64_t key, uint32_t from, uint32_t move) {
  uint32_t *place = place_of(key);

  if (*place != NOWHERE)
    return *place;
  *place = state_count;
  states[state_count].key = key;
  states[state_count].from = from;
  states[state_count].move = move;
  if (++state_count == room)
    make_room(2 * room);
  return state_count - 1;
}

/* ---- Exploring ----------------------------------------------------------- */

static const world_t *world;

/* The moves made since the world began: the shortest way to where it is. */
static uint32_t way[DEEPEST + 2];
static unsigned way_length;

/* Makes a move after the first moves of the way. */
static bool make_after(unsigned length, uint32_t move) {
  way[length] = move;
  way_length = length + 1;
  return moves[move].make(moves[move].timer, moves[move].ms);
}

static void set_way_to(uint32_t state) {
  unsigned i;

  way_length = 0;
  for (i = state; states[i].from != NOWHERE; i = states[i].from)
    way_length++;
  require(way_length <= DEEPEST);
  for (i = way_length; i > 0; state = states[state].from)
    way[--i] = states[state].move;
}

static void tell_world(FILE *stream) {
  fprintf(stream, "%-7s %u timers, %" PRIu32 " slot%s of %" PRIu64 " ms%s",
          world->layer->name, world->timers, world->shape.slots,
          world->shape.slots > 1 ? "s" : "", world->shape.tick_ms,
          world->shape.flags & UVWHEEL_FIFO ? ", FIFO" : "");
  if (world->variant != 0)
    fprintf(stream, ", variant %u", world->variant);
}

static void tell_move(const move_t *move) {
  fprintf(stderr, "  %s", move->name);
  if (move->ms == MOST)
    fprintf(stderr, "(%u, most)\n", move->timer);
  else
    fprintf(stderr, "(%u, %" PRId64 ")\n", move->timer, (int64_t)move->ms);
}

/* How what went wrong came about. */
static void tell_way(void) {
  unsigned i;

  if (world == NULL)
    return;
  tell_world(stderr);
  fprintf(stderr, ":\n");
  for (i = 0; i < way_length; i++)
    tell_move(&moves[way[i]]);
}

/* The same moves lead to the same state. */
static void go_to(uint32_t state, const snapshot_t begin) {
  unsigned length, i;

  set_way_to(state);
  length = way_length;
  restore(begin);
  way_length = 0;
  for (i = 0; i < length; i++)
    (void)make_after(i, way[i]);
  require(world->layer->key() == states[state].key);
}

/* All that the moves lead to, whichever of the timers has which number. */
static uint64_t sum_up(const snapshot_t here) {
  unsigned length = way_length;
  uint64_t sum = 0;
  uint32_t i;

  for (i = 0; i < move_count; i++) {
    if (make_after(length, i))
      sum += mix(1, world->layer->key());
    restore(here);
  }
  way_length = length;
  return sum;
}

/* The world, to which another way leads than to the state of the same key, goes
 * on as that state does. */
static void expect_same(uint32_t state, const snapshot_t begin) {
  static snapshot_t here;
  static uint32_t way_here[LENGTH(way)];
  unsigned length = way_length;
  uint64_t sum;
  bool is_same;

  save(here);
  sum = sum_up(here);
  memcpy(way_here, way, sizeof way);
  go_to(state, begin);
  save(here);
  is_same = sum_up(here) == sum;
  if (!is_same) {
    fprintf(stderr, "two ways to one key, which do not go on alike:\n");
    tell_way();
  }
  memcpy(way, way_here, sizeof way);
  way_length = length;
  require(is_same);
}

/* Makes all moves. Returns how many were possible. */
static uint64_t go_on(uint32_t from, const snapshot_t here,
                      const snapshot_t begin) {
  static uint64_t made_in_all;
  uint64_t before = made_in_all;
  unsigned length = way_length;
  uint32_t move;

  for (move = 0; move < move_count; move++) {
    uint32_t known = state_count, state;
    if (!make_after(length, move))
      continue;
    world->layer->verify();
    state = keep(world->layer->key(), from, move);
    if (++made_in_all % SAMPLED == 0 && state < known)
      expect_same(state, begin);
    restore(here);
  }
  return made_in_all - before;
}

typedef struct found_s {
  uint64_t states;
  uint64_t transitions;
  uint64_t depth; /* all sequences of that many moves were played */
  bool complete;  /* and there is nothing new in longer ones    */
} found_t;

static bool is_enough(const limits_t *limits, uint64_t depth, time_t end) {
  return depth >= limits->depth || state_count >= limits->states ||
         (end != 0 && time(NULL) >= end);
}

static void explore(const limits_t *limits, time_t end, found_t *found) {
  static snapshot_t begin, here;
  uint32_t level_end = 1, state;

  memset(found, 0, sizeof *found);
  save(begin);
  state_count = 0;
  make_room(1024);
  (void)keep(world->layer->key(), NOWHERE, 0);
  for (state = 0; state < state_count; state++) {
    if (state == level_end) {
      found->depth++;
      level_end = state_count;
    }
    if (is_enough(limits, found->depth, end))
      break;
    limit_cpu_time();
    go_to(state, begin);
    save(here);
    found->transitions += go_on(state, here, begin);
  }
  found->complete = state == state_count;
  found->states = state_count;
}

/* ---- The program --------------------------------------------------------- */

static void tell_found(const found_t *found) {
  printf("%10" PRIu64 " states %12" PRIu64 " transitions", found->states,
         found->transitions);
  if (found->complete)
    printf(", all there are\n");
  else if (found->depth == 0)
    printf(", not played\n");
  else
    printf(", all of %" PRIu64 " moves\n", found->depth);
  fflush(stdout);
}

static void explore_all(const limits_t *limits) {
  time_t begin = time(NULL);
  found_t found, sum = {0, 0, 0, false};
  unsigned not_played = 0, i;

  for (i = 0; i < LENGTH(worlds); i++) {
    time_t now = time(NULL), end = 0;
    if (limits->seconds != 0) {
      time_t left = begin + (time_t)limits->seconds - now;
      end = now + left / (time_t)(LENGTH(worlds) - i);
    }
    world = &worlds[i];
    memory_count = 0;
    move_count = 0;
    way_length = 0;
    world->layer->open(world);
    tell_world(stdout);
    explore(limits, end, &found);
    world->layer->close();
    tell_found(&found);
    sum.states += found.states;
    sum.transitions += found.transitions;
    not_played += found.transitions == 0;
  }
  printf("as the model says: %" PRIu64 " states, %" PRIu64 " transitions",
         sum.states, sum.transitions);
  if (not_played > 0)
    printf("; %u worlds not played", not_played);
  printf("\n");
}

static bool parse_limit(const char *text, uint64_t *value) {
  return parse_number(text, value) && *value > 0;
}

static bool parse_options(int argc, char **argv, limits_t *limits) {
  int i;

  for (i = 1; i + 1 < argc; i += 2)
    if (!(strcmp(argv[i], "--depth") == 0 &&
          parse_limit(argv[i + 1], &limits->depth)) &&
        !(strcmp(argv[i], "--states") == 0 &&
          parse_limit(argv[i + 1], &limits->states)) &&
        !(strcmp(argv[i], "--seconds") == 0 &&
          parse_limit(argv[i + 1], &limits->seconds)))
      return false;
  return i == argc;
}

int main(int argc, char **argv) {
  limits_t limits = {DEEPEST, MAX_STATES, 0};

  if (!parse_options(argc, argv, &limits)) {
    fprintf(stderr, "usage: %s [--depth N] [--states N] [--seconds N]\n",
            argv[0]);
    return 2;
  }
  if (argc == 1)
    limits.seconds = 60;
  tell_at_the_end(tell_way);
  explore_all(&limits);
  free(states);
  free(places);
  return 0;
}
