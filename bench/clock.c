/* SPDX-License-Identifier: MIT */

#include "bench.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u

static uint64_t clock_ns = 1000u * (uint64_t)NS_PER_S;

void clock_move_ms(uint64_t step_ms) {
  clock_ns += step_ms * NS_PER_MS;
}

static uint64_t ask_kernel(clockid_t id) {
  struct timespec now;

  syscall(SYS_clock_gettime, id, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_cpu_ns(void) {
  return ask_kernel(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_real_ns(void) {
  return ask_kernel(CLOCK_MONOTONIC);
}

int clock_gettime(clockid_t id, struct timespec *now) {
  if (id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID)
    return (int)syscall(SYS_clock_gettime, id, now);
  now->tv_sec = (time_t)(clock_ns / NS_PER_S);
  now->tv_nsec = (long)(clock_ns % NS_PER_S);
  return 0;
}

/* In virtual time, too, each poll is a system call, which costs what it does in
 * a server; but it does not wait. */
int epoll_pwait(int epoll_fd, struct epoll_event *events, int max_events,
                int timeout_ms, const sigset_t *mask) {
  int ready;

  /* The kernel's signal set has one bit per signal. */
  ready = (int)syscall(SYS_epoll_pwait, epoll_fd, events, max_events, 0, mask,
                       (size_t)_NSIG / 8);
  if (ready != 0)
    return ready;
  if (timeout_ms < 0)
    bench_die("a loop would sleep for ever");
  clock_move_ms((uint64_t)timeout_ms);
  return ready;
}

int epoll_wait(int epoll_fd, struct epoll_event *events, int max_events,
               int timeout_ms) {
  return epoll_pwait(epoll_fd, events, max_events, timeout_ms, NULL);
}
