/* SPDX-License-Identifier: MIT */

/* Peers on real pipes, each with an idle timeout, whose chatty half goes on
 * speaking whether the loop listens or not; and the ways in which it may be
 * kept from listening. */

#ifndef PEERS_H
#define PEERS_H

#include "support.h"

#define PEERS 40u
#define SPEAK_MS 500 /* how often the chatty half speaks */
#define IDLE_MS UINT64_C(3000)

typedef struct peer_s {
  uv_pipe_t pipe;
  uvwheel_timer_t idle;
  int fd;            /* the peer's own end                      */
  uint64_t speak_ms; /* when it speaks next; UINT64_MAX: never  */
  uint64_t heard_ms; /* loop time when it was heard last        */
  uint64_t fired_ms; /* loop time when it was found to be idle  */
  unsigned fired;
} peer_t;

extern peer_t peers[PEERS];

/* Opens them on the wheel, one by one over half of IDLE_MS. Every other one is
 * chatty. What a lossy one says while the loop is deaf does not arrive. */
void peers_open(bool lossy);
bool peer_is_chatty(const peer_t *peer);
void peers_close(void);

/* How the loop is kept from listening. */
typedef enum deaf_e {
  FROZEN_BETWEEN_ITERATIONS,
  FROZEN_IN_POLL,
  BLOCKED_IN_CALLBACK_OF_THE_WHEEL,
  BLOCKED_IN_READ_CALLBACK,
  BLOCKED_IN_TIMER_CALLBACK,
  DEAF_WAYS
} deaf_t;

/* Has the loop stand still for so long, in that way. If the callback that
 * blocks it is told to, it calls uv_update_time at its end. */
void be_deaf(deaf_t way, uint64_t ms, bool update);

#endif /* PEERS_H */
