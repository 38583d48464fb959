/* SPDX-License-Identifier: MIT */

#include "stall.h"

#include <errno.h>
#include <signal.h>

#include <uv.h>

int
stall_is_on(const judge_t *judge)
{
  return judge->blocked_from_ns != 0 && judge->blocked_to_ns == 0;
}

/* It begins when the silent ones are silent, and their timers wait. */
int
stall_pace(judge_t *judge, const options_t *options, uint64_t running_ns,
           uint64_t now_ns)
{
  int number = options->stalls_by_usr1 ? SIGUSR1 : SIGSTOP;

  if (judge->stall_ns == 0 || judge->blocked_to_ns != 0)
    return 0;
  if (judge->blocked_from_ns == 0) {
    if (now_ns - running_ns < judge->timeout_ns / 2)
      return 0;
    judge->blocked_from_ns = now_ns;
    return kill((pid_t)options->pid, number) == 0 ? 0 : errno;
  }
  if (now_ns - judge->blocked_from_ns >= judge->stall_ns)
    stall_end(judge, options);
  return 0;
}

void
stall_end(judge_t *judge, const options_t *options)
{
  if (!stall_is_on(judge))
    return;
  judge->blocked_to_ns = uv_hrtime();
  if (!options->stalls_by_usr1)
    kill((pid_t)options->pid, SIGCONT);
}
