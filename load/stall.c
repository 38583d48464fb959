/* SPDX-License-Identifier: MIT */

#include "stall.h"

#include <errno.h>
#include <signal.h>

#include <uv.h>

/* It begins when the silent ones are silent, and their timers wait. */
void
stall_init(stall_t *stall, judge_t *judge, const options_t *options)
{
  *stall = (stall_t){
      .pid = (pid_t)options->pid,
      .signal = options->stalls_by_usr1 ? SIGUSR1 : SIGSTOP,
      .wait_ns = options->timeout_ms * NS_PER_MS / 2,
      .judge = judge,
  };
  judge->stall_ns = options->stall_s * NS_PER_S;
}

int
stall_is_on(const stall_t *stall)
{
  return stall->judge->deaf_from_ns != 0 && stall->judge->deaf_to_ns == 0;
}

int
stall_pace(stall_t *stall, uint64_t running_ns, uint64_t now_ns)
{
  judge_t *judge = stall->judge;

  if (judge->stall_ns == 0 || judge->deaf_to_ns != 0)
    return 0;
  if (judge->deaf_from_ns == 0) {
    if (now_ns - running_ns < stall->wait_ns)
      return 0;
    judge->deaf_from_ns = now_ns;
    return kill(stall->pid, stall->signal) == 0 ? 0 : errno;
  }
  if (now_ns - judge->deaf_from_ns >= judge->stall_ns)
    stall_end(stall);
  return 0;
}

void
stall_end(stall_t *stall)
{
  if (!stall_is_on(stall))
    return;
  stall->judge->deaf_to_ns = uv_hrtime();
  if (stall->signal == SIGSTOP)
    kill(stall->pid, SIGCONT);
}
