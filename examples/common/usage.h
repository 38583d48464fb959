/* SPDX-License-Identifier: MIT */

/* What this process has used so far, and for how long a loop left its sockets
 * alone. An iteration of the loop is what it does between two polls, once the
 * first one's I/O is handled: it calls timers, and closes what they wanted
 * closed. It is measured in CPU time, without waiting and other processes. */

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
