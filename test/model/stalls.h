/* SPDX-License-Identifier: MIT */

/* What stalls may do to the timers that measure silence (P6), for an observer
 * outside of the wheel. He sees that a stall was noticed, when, and how long it
 * was. Between two bounds the wheel may put a timer back as it likes: a live
 * peer is not closed, and a silent one goes. */

#ifndef STALLS_H
#define STALLS_H

#include "core_support.h"
#include "uvwheel.h"

/* So many add up. */
#define MOST_STALLS 6

typedef struct stalls_s {
  /* What the wheel has told of them. */
  uint64_t count;
  uint64_t sum_ms;
  uint64_t longest_ms;
  uint64_t put_back; /* timers                                              */
  /* The last one. */
  uint64_t until_ms;
  uint64_t gives_ms;
  /* A run: stalls that follow each other, the last one at their end. */
  unsigned run;
  uint64_t run_gives_ms;
  uint64_t fifth_ms; /* when its fifth ended                                 */
  bool adds_up; /* six at most; or a timer was due by then, and still waits  */
  bool is_behind;  /* in the run, a timer that is due may have had to wait   */
  bool is_unclear; /* in the run, the clock went back                       */
} stalls_t;

/* The time is over that the run gives: a stall that begins later begins a new
 * run. */
uint64_t stalls_give_until_ms(const stalls_t *stalls);

/* If the wheel tells of another stall, it ended at until_ms, and no timer that
 * waits has an earlier tick than tick_ms. Returns the length of the stall. */
uint64_t note_stall(stalls_t *stalls, const uvwheel_stats_t *stats,
                    uint64_t until_ms, uint64_t tick_ms);

/* The silence that an active timer measures. */
typedef struct silence_s {
  bool is_measured; /* or the timer is an appointment                       */
  bool is_unclear;  /* since when it lasts, or what stalls give             */
  bool has_no_end;  /* stalls may give more than six do                     */
  unsigned put_back_in; /* after so many of its run; 0: it was not          */
  bool is_spent; /* after that other stalls need not give anything          */
  uint64_t heard_ms;
  uint64_t over_ms;               /* without stalls                          */
  uint64_t least_ms;              /* the timer is due no sooner              */
  uint64_t given_ms[MOST_STALLS]; /* by those that gave most, in order       */
} silence_t;

/* The peer is heard now, or expected from now on. */
silence_t begin_silence(const stalls_t *stalls, uint64_t now_ms,
                        uint64_t wait_ms);

/* A stall was noticed while the timer was due then. A refresh would make it due
 * in wait_ms. */
void note_silence(silence_t *silence, const stalls_t *stalls, uint64_t due_ms,
                  uint64_t wait_ms);

/* A timer that was due is put back. */
void verify_put_back(silence_t *silence, stalls_t *stalls, uint64_t due_ms,
                     uint64_t later_ms, uint64_t wait_ms);

/* A timer fires that was due then. */
void verify_silence_over(const silence_t *silence, uint64_t due_ms);

#endif /* STALLS_H */
