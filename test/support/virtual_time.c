/* SPDX-License-Identifier: MIT */

#include "virtual_time.h"

#include <check.h>
#include <stdbool.h>

#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u
#define MOST_SPINS 50000u

static uint64_t clock_ns;
static uint64_t coarse_step_ns = 4 * NS_PER_MS;
static uint64_t set_ns;
static uint64_t read_ns;
static uint64_t oversleep_ns;
static uint64_t (*act_in_world)(void);
static uint64_t act_ns = UINT64_MAX; /* when the world wants to act next */
static uint64_t polls;
static uint64_t sleeps;
static uint64_t peeks;

void virtual_time_set_ns(uint64_t now_ns) {
  set_ns = clock_ns = now_ns;
}

uint64_t virtual_time_ns(void) {
  return clock_ns;
}

/* Moves the clock to the next time at which the world wants to act, at most to
 * end_ns. Returns whether it has acted. */
static bool move_clock(uint64_t end_ns) {
  if (act_ns > end_ns) {
    clock_ns = end_ns;
    return false;
  }
  clock_ns = act_ns > clock_ns ? act_ns : clock_ns;
  act_ns = act_in_world();
  if (act_ns <= clock_ns)
    ck_abort_msg("the world would act for ever");
  return true;
}

void virtual_time_advance_ns(uint64_t step_ns) {
  uint64_t end_ns = clock_ns + step_ns;

  while (move_clock(end_ns))
    continue;
}

void virtual_time_advance_ms(uint64_t step_ms) {
  virtual_time_advance_ns(step_ms * NS_PER_MS);
}

void virtual_time_set_world(uint64_t (*act)(void)) {
  act_in_world = act;
  act_ns = act != NULL ? act() : UINT64_MAX;
}

void virtual_time_set_coarse_step_ns(uint64_t step_ns) {
  coarse_step_ns = step_ns;
}

void virtual_time_set_read_ns(uint64_t taken_ns) {
  read_ns = taken_ns;
}

void virtual_time_oversleep_ns(uint64_t extra_ns) {
  oversleep_ns = extra_ns;
}

/* A loop polls. One that does so for ever without time passing hangs. */
static void count_poll(void) {
  static uint64_t last_ns, spins;

  polls++;
  spins = clock_ns == last_ns ? spins + 1 : 0;
  last_ns = clock_ns;
  if (spins == MOST_SPINS)
    ck_abort_msg("the loop spins for ever");
}

uint64_t virtual_time_polls(void) {
  return polls;
}

uint64_t virtual_time_sleeps(void) {
  return sleeps;
}

uint64_t virtual_time_peeks(void) {
  return peeks;
}

/* A poll found no I/O: sleeps until then instead. Returns whether the world
 * woke it up; a loop that oversleeps was frozen, and its time is over. */
static bool sleep_until(uint64_t end_ns) {
  sleeps++;
  if (oversleep_ns == 0)
    return move_clock(end_ns);
  virtual_time_advance_ns(end_ns - clock_ns + oversleep_ns);
  return false;
}

#ifdef _WIN32

#include <windows.h>

typedef BOOL(WINAPI *dequeue_t)(HANDLE, LPOVERLAPPED_ENTRY, ULONG, PULONG,
                                DWORD, BOOL);

static BOOL WINAPI query_frequency(LARGE_INTEGER *frequency) {
  frequency->QuadPart = NS_PER_S;
  return TRUE;
}

static BOOL WINAPI query_counter(LARGE_INTEGER *counter) {
  counter->QuadPart = (LONGLONG)clock_ns;
  return TRUE;
}

static BOOL WINAPI dequeue(HANDLE port, LPOVERLAPPED_ENTRY entries, ULONG room,
                           PULONG count, DWORD timeout_ms, BOOL alertable) {
  dequeue_t real = (dequeue_t)(void (*)(void))GetProcAddress(
      GetModuleHandleA("kernel32.dll"), "GetQueuedCompletionStatusEx");

  count_poll();
  if (real(port, entries, room, count, 0, alertable))
    return TRUE;
  if (GetLastError() != WAIT_TIMEOUT || timeout_ms == 0)
    return FALSE;
  if (timeout_ms == INFINITE)
    ck_abort_msg("the loop would sleep for ever");
  (void)sleep_until(clock_ns + (uint64_t)timeout_ms * NS_PER_MS);
  SetLastError(WAIT_TIMEOUT);
  return FALSE;
}

/* The linker has these before it comes to look for them in the import library
 * of the system. */
extern BOOL(WINAPI *__imp_QueryPerformanceFrequency)(LARGE_INTEGER *);
extern BOOL(WINAPI *__imp_QueryPerformanceCounter)(LARGE_INTEGER *);
extern dequeue_t __imp_GetQueuedCompletionStatusEx;

BOOL(WINAPI *__imp_QueryPerformanceFrequency)
(LARGE_INTEGER *) = query_frequency;
BOOL(WINAPI *__imp_QueryPerformanceCounter)(LARGE_INTEGER *) = query_counter;
dequeue_t __imp_GetQueuedCompletionStatusEx = dequeue;

#elif defined(__linux__)

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec timespec_of(uint64_t ns) {
  struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_S),
                          .tv_nsec = (long)(ns % NS_PER_S)};

  return time;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  if (id == CLOCK_MONOTONIC)
    *now = timespec_of(clock_ns += read_ns);
  else if (id == CLOCK_MONOTONIC_COARSE)
    *now = timespec_of(clock_ns - (clock_ns - set_ns) % coarse_step_ns);
  else
    return (int)syscall(SYS_clock_gettime, id, now);
  return 0;
}

int clock_getres(clockid_t id, struct timespec *step) {
  if (id != CLOCK_MONOTONIC_COARSE)
    return (int)syscall(SYS_clock_getres, id, step);
  *step = timespec_of(coarse_step_ns);
  return 0;
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms) {
  /* As the kernel has it, also where time_t is wider. */
  long timeout[2] = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};

  peeks++;
  return (int)syscall(SYS_ppoll, descriptors, count,
                      timeout_ms < 0 ? NULL : timeout, NULL, (size_t)0);
}

int epoll_pwait(int epoll_fd, struct epoll_event *events, int max_events,
                int timeout_ms, const sigset_t *mask) {
  uint64_t end_ns = clock_ns + (uint64_t)timeout_ms * NS_PER_MS;
  int ready;

  count_poll();
  do {
    /* The kernel's signal set has one bit per signal, glibc's is longer. */
    ready = (int)syscall(SYS_epoll_pwait, epoll_fd, events, max_events, 0, mask,
                         (size_t)_NSIG / 8);
    if (ready != 0 || timeout_ms == 0)
      return ready;
    if (timeout_ms < 0)
      ck_abort_msg("the loop would sleep for ever");
  } while (sleep_until(end_ns));
  return 0;
}

int epoll_wait(int epoll_fd, struct epoll_event *events, int max_events,
               int timeout_ms) {
  return epoll_pwait(epoll_fd, events, max_events, timeout_ms, NULL);
}

#else

#include <dlfcn.h>
#include <stddef.h>
#include <sys/event.h>
#include <time.h>

typedef int (*kevent_t)(int, const struct kevent *, int, struct kevent *, int,
                        const struct timespec *);

int kevent(int kqueue_fd, const struct kevent *changes, int change_count,
           struct kevent *events, int max_events,
           const struct timespec *timeout) {
  static const struct timespec at_once;
  kevent_t real = (kevent_t)dlsym(RTLD_NEXT, "kevent");
  uint64_t end_ns = clock_ns;
  int ready;

  if (max_events == 0) /* not a poll */
    return real(kqueue_fd, changes, change_count, events, 0, timeout);
  count_poll();
  if (timeout != NULL)
    end_ns += (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
  do {
    ready =
        real(kqueue_fd, changes, change_count, events, max_events, &at_once);
    change_count = 0;
    if (ready != 0 || (timeout != NULL && end_ns == clock_ns))
      return ready;
    if (timeout == NULL)
      ck_abort_msg("the loop would sleep for ever");
  } while (sleep_until(end_ns));
  return 0;
}

#ifdef __APPLE__

#include <mach/mach_time.h>

uint64_t mach_continuous_time(void) {
  return clock_ns;
}

kern_return_t mach_timebase_info(mach_timebase_info_t info) {
  info->numer = info->denom = 1;
  return KERN_SUCCESS;
}

#else

typedef int (*clock_gettime_t)(clockid_t, struct timespec *);

int clock_gettime(clockid_t id, struct timespec *now) {
  clock_gettime_t real = (clock_gettime_t)dlsym(RTLD_NEXT, "clock_gettime");

  if (id != CLOCK_MONOTONIC)
    return real(id, now);
  now->tv_sec = (time_t)(clock_ns / NS_PER_S);
  now->tv_nsec = (long)(clock_ns % NS_PER_S);
  return 0;
}

#endif
#endif

#ifndef _WIN32

/* uv_sleep calls this: a callback that blocks its loop. */
int nanosleep(const struct timespec *time, struct timespec *left) {
  (void)left;
  virtual_time_advance_ns((uint64_t)time->tv_sec * NS_PER_S +
                          (uint64_t)time->tv_nsec);
  return 0;
}

#endif
