/* SPDX-License-Identifier: MIT */

/* The figures of P6, with which tests and models judge the library. */

#ifndef P6_H
#define P6_H

#include <stdint.h>

/* Stalls put a timer back by themselves and by as much again, but no more than
 * this. */
#define MAX_GRACE_MS 1000

/* So many stalls that follow each other add up. */
#define MAX_STALLS 6

/* Bounds of the quarter of a tick for which a due timer waits at least while
 * I/O is always ready. */
#define MIN_WAIT_MS 25
#define MAX_WAIT_MS 250

/* In how many runs of a loop a due timer fires. On Windows, where no loop can
 * be asked whether it is quiet, the timer waits for one more. */
#ifdef _WIN32
#define RUNS_PER_TURN 2
#else
#define RUNS_PER_TURN 1
#endif

static inline uint64_t busy_wait_ms(uint64_t tick_ms) {
  uint64_t wait_ms = tick_ms / 4 > MIN_WAIT_MS ? tick_ms / 4 : MIN_WAIT_MS;

  return wait_ms < MAX_WAIT_MS ? wait_ms : MAX_WAIT_MS;
}

static inline uint64_t with_grace(uint64_t stall_ms) {
  return stall_ms + (stall_ms < MAX_GRACE_MS ? stall_ms : MAX_GRACE_MS);
}

#endif /* P6_H */
