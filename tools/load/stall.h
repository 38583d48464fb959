/* SPDX-License-Identifier: MIT */

/* A time in which the server is blocked while the peers speak on: SIGSTOP
 * freezes it until SIGCONT, as a paused machine or a swap storm would; at
 * SIGUSR1 idle-server --block blocks itself. */

#ifndef LOAD_STALL_H
#define LOAD_STALL_H

#include <stdint.h>

#include "judge.h"
#include "options.h"

/* To be called from time to time while all run, since running_ns. Returns 0, or
 * an errno if the server cannot be signalled. */
int stall_pace(judge_t *judge, const options_t *options, uint64_t running_ns,
               uint64_t now_ns);

/* Is the server blocked now? */
int stall_is_on(const judge_t *judge);

/* Ends it, if it is on. */
void stall_end(judge_t *judge, const options_t *options);

#endif /* LOAD_STALL_H */
