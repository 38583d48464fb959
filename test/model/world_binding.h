/* SPDX-License-Identifier: MIT */

/* A wheel in a small world on a real loop in virtual time, and what is known of
 * it. world_binding.c has the moves, verify_world.c what must hold after them.
 */

#ifndef WORLD_BINDING_H
#define WORLD_BINDING_H

#include "binding.h"
#include "explore.h"

#define NS_PER_MS 1000000u

/* What callbacks do. */
typedef enum reaction_e {
  NOTHING,
  RESTART_SELF,   /* at once                                               */
  STOP_OTHERS,    /*                                                       */
  REFRESH_OTHERS, /*                                                       */
  START_IDLE,     /* all that are, for a tick, if there is room             */
  FIRE_SOONEST,   /* one more, in which callbacks do nothing               */
  BLOCK,          /* for more than a tick, and the loop sees it            */
  BLOCK_UNSEEN,   /* for longer than a turn, and the loop does not know yet */
  SET_CLOCK_BACK, /* by a round, and the loop sees it                      */
  REACTIONS
} reaction_t;

typedef struct armed_s {
  bool started; /* ever */
  uint64_t timeout;
  uint64_t repeat;
} armed_t;

typedef struct game_s {
  uv_loop_t loop;
  uvwheel_t wheel;
  uvwheel_timer_t timers[MOST_TIMERS];
  uvwheel_timer_t spare; /* one more, never started */
  armed_t armed[MOST_TIMERS];
  uint64_t round_ms;
  uint64_t max_timers;
  uvwheel_missed_t missed; /* of all timers */
  uint64_t clock_ns;
  uint64_t moved_ms;      /* by so much turns had moved the loop's time */
  uint64_t rewound_to_ms; /* the clock was set back; it had been this   */
  drawing_t drawing;
  reaction_t reaction;
  bool in_turn;
  bool in_stall; /* nothing may fire */
  uint64_t fired_in_move;
  uint64_t fired;
  uint64_t fired_early;
  uint64_t stopped;
  uint64_t lateness_max_ms;
  model_t model; /* the last one, as most of it is not used */
} world_game_t;

extern world_game_t game;

/* By so much turns have moved the loop's time on this thread, in all moves that
 * were ever made. */
extern uint64_t moved_ms;

/* ---- Times --------------------------------------------------------------- */

static inline uint64_t
clock_ms(void)
{
  return game.clock_ns / NS_PER_MS;
}

static inline uint64_t
loop_ms(void)
{
  return uv_now(&game.loop);
}

/* By the wheel's clock. */
static inline uint64_t
after(uint64_t delay_ms)
{
  return add_saturated(uvwheel_now(&game.wheel), delay_ms);
}

/* Timers expire up to this time. */
static inline uint64_t
passed(void)
{
  return after(0) - game.wheel.lag_ms;
}

/* Has the clock been set back, and not come to where it was? */
static inline bool
is_rewound(void)
{
  return loop_ms() < game.rewound_to_ms;
}

/* ---- verify_world.c ------------------------------------------------------ */

void verify_world(void);

/* All that makes a difference to how a timer goes on, but when it is due. */
uint64_t key_of_timer(unsigned index);

uint64_t key_of_world(void);

#endif /* WORLD_BINDING_H */
