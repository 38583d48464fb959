/* SPDX-License-Identifier: MIT */

/* Peers that speak to the loop over real sockets, each with an idle timeout on
 * the wheel and, if wished, a uv_timer_t beside it that each word starts. They
 * speak at their own times, even when the loop is blocked. */

#ifndef IDLE_PEERS_H
#define IDLE_PEERS_H

#include "support.h"

#define NEVER UINT64_MAX

/* How the words of a peer reach the loop. */
typedef enum carrier_e {
  BY_PIPE, /* a stream socket for each                       */
  BY_UDP,  /* 200 peers send to each socket of the loop      */
  BY_POST, /* the mailbox of the wheel, which has to be open */
} carrier_t;

/* What a word does to the timer on the wheel. */
typedef enum hearing_e {
  REFRESHES,
  EXPECTS,
  CALLS_AGAIN, /* the timer repeats */
  STARTS,
  STOPS_AND_STARTS,
  STAMPS, /* nothing; the callback of the timer looks at a stamp */
} hearing_t;

typedef struct peers_options_s {
  carrier_t carrier;
  unsigned count;
  uint64_t timeout_ms;
  uint64_t every_ms; /* how often each speaks; 0: when peers_speak_at says so */
  uint64_t first_ms; /* after which they do so first; 0: after every_ms       */
  uint64_t spread_ms;  /* so much later than the peer before it              */
  bool is_half_silent; /* every second one never speaks */
  size_t bytes; /* of what a peer says at a time; 0: one                 */
  uint64_t hearing_ns;  /* what the callback that hears one takes  */
  bool is_after_signal; /* a signal arrives before each time that they speak */
  hearing_t hearing;
  bool is_unheard;   /* the timers are started at first, not expected */
  bool has_uv_timer; /* each has one beside it */
} peers_options_t;

typedef struct peer_s {
  uvwheel_timer_t idle;
  uvwheel_post_t post;
  uv_pipe_t pipe;
  uv_timer_t uv_timer;
  int fd;             /* its own end                                     */
  uint64_t next_ms;   /* when it speaks next                             */
  uint64_t spoken_ms; /* when it spoke last, by its own clock            */
  uint64_t heard_ms;  /* when the loop heard it last                     */
  size_t received;    /* bytes of what it is saying                      */
  uint64_t closed_ms; /* when it was found to be idle; NEVER: it was not */
  bool is_cut_off;    /* it had spoken within its timeout then           */
  bool is_uv_closed;  /* by its uv_timer_t                               */
} peer_t;

extern peer_t *peers;

/* Opens them on the wheel; all their timers begin now. */
void peers_open(const peers_options_t *options);
void peers_close(void);

/* All of them but the silent ones speak at that time as well. */
void peers_speak_at(uint64_t at_ms);

/* What they say from now on is lost, up to and with that time. */
void peers_lose_words_until(uint64_t last_ms);

/* Every second one never speaks from now on. */
void peers_fall_silent(void);

/* Those that were closed, and of these: those that had spoken within their
 * timeout, by their own clock. */
unsigned peers_closed(void);
unsigned peers_cut_off(void);

/* Those that speak and were closed: by the wheel, or by their uv_timer_t. */
unsigned live_peers_closed(bool by_uv_timer);

/* The silent half was closed, each in that range of time. */
void expect_silent_peers_closed(const char *name, uint64_t from_ms,
                                uint64_t until_ms);

/* ---- What holds the loop ------------------------------------------------- */

typedef enum hold_e {
  FROZEN_BETWEEN_ITERATIONS,
  FROZEN_IN_POLL,
  HELD_BY_UV_TIMER,
  HELD_BY_WHEEL_TIMER,
  HELD_BY_READ_BEFORE_PEERS, /* in one poll with what they say at that time, */
  HELD_BY_READ_AFTER_PEERS,  /* and called before or after those             */
  HELD_BY_CLOSE,
  HELD_BY_PREPARE,
  HELD_BY_CHECK,
  HELD_BY_IDLE,
} hold_t;

/* Each way to hold the loop; but for a frozen process with and without an
 * update of the loop's time. */
typedef struct way_to_hold_s {
  const char *name;
  hold_t hold;
  bool update;
} way_to_hold_t;

#define WAYS_TO_HOLD 18
extern const way_to_hold_t ways_to_hold[WAYS_TO_HOLD];

/* The loop will be held from one time to another; if a callback does that, it
 * ends with uv_update_time if `update`. Runs the loop until then
 * if it is frozen between iterations. */
void hold_loop(hold_t hold, uint64_t from_ms, uint64_t until_ms, bool update);

/* After hold_loop: another one holds the loop in the same pass, for as long. */
void hold_loop_twice(hold_t other);

/* The loop is held between iterations, and what peers say meanwhile is lost,
 * unless they speak by pipes. */
void freeze_loop(uint64_t ms);

/* The time, which the loop may not know yet. */
uint64_t clock_now_ms(void);

/* Opens two sockets. 300 KB that the second sends may wait in the first. */
void open_wide_pair(int fds[2]);

/* Runs the loop until that time. */
void run_until(uint64_t ms);

#endif /* IDLE_PEERS_H */
