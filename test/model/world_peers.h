/* SPDX-License-Identifier: MIT */

/* A small world of peers: world_peers.c has its moves, verify_peers.c what must
 * hold after them, and its key. */

#ifndef WORLD_PEERS_H
#define WORLD_PEERS_H

#include <uv.h>

#include "explore.h"
#include "insides.h"
#include "p6.h"
#include "stalls.h"

#define PEERS 2
#define BEGIN_MS (UINT64_C(1) << 20)
#define TICK_MS 2
#define LAG_MS 1 /* the step of the clock that the loop reads */
#define STALL_MS 3
#define SHORT_MS 2  /* no stall                          */
#define LONG_MS 12  /* a stall                           */
#define NOISE_MS 30 /* longer than the wait of a loop that is never quiet */
#define SLEEP_MS 40 /* a stall that is longer than a timeout */

/* A timer, and what is known of it. */
typedef struct deadline_s {
  uvwheel_timer_t timer;
  uint64_t due_ms;
  uint64_t wait_ms; /* what a refresh adds to the time */
  silence_t silence;
} deadline_t;

typedef struct peer_s {
  uv_poll_t socket;
  deadline_t idle;
  uint64_t timeout_ms;
  unsigned waits; /* for so many polls its word waits to be heard   */
  uint64_t spoken_ms;
  uint64_t known_ms; /* the same, or the loop's time when it was heard */
  unsigned overdue;  /* iterations in which it could have fired        */
} peer_t;

/* What an iteration does beside hearing the peers. */
typedef enum holding_e {
  NO_HOLD,
  BEFORE_PEERS,       /* a read callback that is called before theirs   */
  BEFORE_PEERS_SPEAK, /* and at its end the first peer speaks once more */
  AFTER_PEERS,
  IN_UV_TIMER,
  IN_WHEEL_TIMER, /* the request, if it is due */
  IN_SLEEP,       /* the process is frozen     */
} holding_t;

/* What the callback of a peer's timer does. */
typedef enum reaction_e {
  NO_REACTION,
  COME_AGAIN,   /* the peer does, at once         */
  CLOSE_OTHER,  /* it closes the other's timer    */
  REQUEST,      /* it starts the request          */
  FIRE_SOONEST, /* it fires one more              */
  REACTIONS
} reaction_t;

typedef struct peers_world_s {
  uv_loop_t loop;
  uvwheel_t wheel;
  uv_check_t after_poll, checked;
  uv_poll_t holder;
  uv_timer_t alarm;
  deadline_t request;
  peer_t peers[PEERS];
  uint64_t clock_ns;
  uint64_t noisy_ms; /* of a spell: as long no iteration ended quiet    */
  bool is_any_due;   /* after the check of the wheel; or the spell was over */
  uint64_t spell_from_ms; /* when the iteration began in which it began   */
  uint64_t noisy_at_ms;   /* the loop's time when there was noise last       */
  stalls_t stalls;
  bool in_turn; /* since a timer has fired; the turn may be over           */
  /* of the iteration that is under way */
  holding_t hold;
  uint64_t hold_ms;
  bool is_updating;
  reaction_t reaction;
  bool is_drawing;            /* uvwheel_fire_soonest is under way */
  uint64_t checked_ms;        /* the loop's time after the last poll */
  uint64_t checked_before_ms; /* and after the one before                  */
  uint64_t unheard_ms; /* when the first peer had spoken that waited then  */
} peers_world_t;

extern peers_world_t peers_world;

/* Those of the peers, and the request. */
#define DEADLINES (PEERS + 1)

static inline deadline_t *deadline_at(unsigned index) {
  return index < PEERS ? &peers_world.peers[index].idle : &peers_world.request;
}

/* ---- Times --------------------------------------------------------------- */

static inline uint64_t peers_clock_ms(void) {
  return peers_world.clock_ns / 1000000;
}

/* ---- verify_peers.c ------------------------------------------------------ */

/* Stalls were noticed and timers put back, if the wheel says so. */
void watch_stalls(void);

/* The same; and the turn that fired timers is over. */
void end_turn(void);

/* The check of the wheel is over. */
void note_checked(void);

/* A timer fires in its time. */
void verify_time(deadline_t *deadline);

/* A peer's does: all that the peer has said up to the last poll was heard, and
 * the peer was silent since. */
void verify_silence(const peer_t *peer);

/* What is known before an iteration. */
typedef struct iteration_s {
  uvwheel_stats_t stats;
  uint64_t began_ms;
  uint64_t quiet_ms;
  bool was_noisy;
  bool was_in_spell;
  uint64_t overdue_from_ms[PEERS];
} iteration_t;

void begin_iteration(iteration_t *iteration);

/* It has fired what is due, or put it back. */
void verify_iteration(const iteration_t *iteration);

void verify_peers(void);

uint64_t key_of_peers(void);

#endif /* WORLD_PEERS_H */
