/* SPDX-License-Identifier: MIT */

/* The CPU time and memory of this process, and for how long a loop left its
 * sockets alone. An iteration of the loop begins when the I/O of a poll is
 * handled, and ends with the next poll: the loop calls timers, and closes the
 * handles that they wanted closed. It is measured in CPU time, without waiting
 * and other processes. */

#ifndef EXAMPLES_USAGE_H
#define EXAMPLES_USAGE_H

#include <stdint.h>

#include <uv.h>

typedef struct usage_s {
  double cpu_s;         /* of all threads, in the kernel as well */
  uint64_t rss_kib;     /* resident memory                       */
  uint64_t max_rss_kib; /* the most that there was               */
} usage_t;

usage_t usage_of_process(void);

typedef struct iterations_s {
  uv_check_t after_poll;
  uv_prepare_t before_poll;
  uint64_t begun_ns; /* CPU time */
  uint64_t longest_ns;
} iterations_t;

/* Begins to measure, and stops it: the handles are then closed. They do not
 * keep the loop alive. */
void iterations_start(iterations_t *iterations, uv_loop_t *loop);
void iterations_stop(iterations_t *iterations);

#endif /* EXAMPLES_USAGE_H */
