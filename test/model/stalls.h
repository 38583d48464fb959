/* SPDX-License-Identifier: MIT */

/* What stalls give to the timers that measure silence (P6). */

#ifndef STALLS_H
#define STALLS_H

#include "core_support.h"
#include "uvwheel.h"

/* So many that follow each other add up. */
#define MOST_STALLS 3

typedef struct stalls_s {
  uint64_t count; /* what the wheel has told of them */
  uint64_t sum_ms;
  uint64_t longest_ms;
  uint64_t put_back; /* timers                                          */
  unsigned chain; /* the last one is the n-th of those that follow each other */
  uint64_t together_ms[MOST_STALLS + 1]; /* the first n of these            */
  uint64_t until_ms;                     /* the end of the last one         */
  uint64_t put_back_before;              /* timers, when it was noticed     */
  bool has_polled;                       /* a poll has begun since          */
} stalls_t;

/* By how much the first n put a timer back. */
uint64_t stalls_give_ms(const stalls_t *stalls, unsigned n);

/* A stall that begins before this follows the last one. */
uint64_t stalls_give_until_ms(const stalls_t *stalls);

/* Would one that is noticed now be a part of the last one? */
bool stall_goes_on(const stalls_t *stalls);

/* If the wheel tells of another one, it ended then. Returns its length. */
uint64_t note_stall(stalls_t *stalls, const uvwheel_stats_t *stats,
                    uint64_t until_ms);

/* A timer measures silence, or is an appointment. */
typedef struct silence_s {
  uint64_t wait_ms; /* what a refresh adds to the time */
  unsigned given; /* for so many stalls it was put back since it was refreshed;
                     MOST_STALLS: it was started, or has fired, since */
} silence_t;

/* To when the stalls put such a timer back as it expires; 0 if they do not. */
uint64_t put_back_to_ms(const stalls_t *stalls, const silence_t *silence,
                        uint64_t due_ms);

#endif /* STALLS_H */
