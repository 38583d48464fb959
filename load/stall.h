/* SPDX-License-Identifier: MIT */

/* A time in which the server is deaf while the peers speak on: SIGSTOP freezes
 * it until SIGCONT, as a paused machine or a swap storm would; at SIGUSR1
 * idle-server --block blocks itself. */

#ifndef LOAD_STALL_H
#define LOAD_STALL_H

#include <stdint.h>

#include <sys/types.h>

#include "judge.h"
#include "options.h"

typedef struct stall_s {
  pid_t pid; /* the server */
  int signal;
  uint64_t wait_ns; /* it begins that long after all run */
  judge_t *judge;   /* which knows how long it is       */
} stall_t;

void stall_init(stall_t *stall, judge_t *judge, const options_t *options);

/* To be called from time to time while all run, since running_ns. Returns 0, or
 * an errno if the server cannot be signalled. */
int stall_pace(stall_t *stall, uint64_t running_ns, uint64_t now_ns);

/* Is the server deaf now? */
int stall_is_on(const stall_t *stall);

/* Ends it, if it is on. */
void stall_end(stall_t *stall);

#endif /* LOAD_STALL_H */
