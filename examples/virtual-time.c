/* SPDX-License-Identifier: MIT */

/* Time under a test's control, for Linux: copy this file and link it with the
 * test of your server, and an hour's timeout passes in less than a millisecond.
 *
 * The clock stands still while callbacks run. When the loop would sleep until a
 * timer is due, the clock moves on by that time instead; what is ready to be
 * read comes first. That holds for the timers of a wheel and for uv_timer_t,
 * and for libuv as a shared or a static library. uv_sleep moves the clock, too:
 * so a test blocks the loop. Peers belong into the same program, on the same
 * loop. Other processes live in real time, and so does what libuv does in
 * threads: files, DNS, uv_queue_work. While such work is under way, the clock
 * may move on by hours. A thread that sleeps moves it, too. */

#include <signal.h>
#include <time.h>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

static long long now_ns = NS_PER_S;

/* libuv reads the coarse clock for its loops where that is exact enough. */
int clock_gettime(clockid_t id, struct timespec *now) {
  if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
    return (int)syscall(SYS_clock_gettime, id, now);
  now->tv_sec = (time_t)(now_ns / NS_PER_S);
  now->tv_nsec = (long)(now_ns % NS_PER_S);
  return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
  (void)left;
  now_ns += time->tv_sec * NS_PER_S + time->tv_nsec;
  return 0;
}

/* Without a timer the loop waits for real. */
int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout_ms,
                const sigset_t *mask) {
  int count = (int)syscall(SYS_epoll_pwait, epoll, events, most,
                           timeout_ms < 0 ? -1 : 0, mask, (size_t)_NSIG / 8);

  if (count == 0)
    now_ns += timeout_ms * (NS_PER_S / 1000);
  return count;
}

int epoll_wait(int epoll, struct epoll_event *events, int most,
               int timeout_ms) {
  return epoll_pwait(epoll, events, most, timeout_ms, NULL);
}
