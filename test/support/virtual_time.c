/* SPDX-License-Identifier: MIT */

#include "virtual_time.h"

#include <check.h>

#define NS_PER_MS 1000000u
#define NS_PER_S 1000000000u

static uint64_t clock_ns;
static uint64_t coarse_step_ns = 4 * NS_PER_MS;
static uint64_t set_ns;
static uint64_t oversleep_ns;
static uint64_t polls;
static uint64_t sleeps;

void
virtual_time_set_ns(uint64_t now_ns)
{
  set_ns = clock_ns = now_ns;
}

uint64_t
virtual_time_ns(void)
{
  return clock_ns;
}

void
virtual_time_advance_ns(uint64_t step_ns)
{
  clock_ns += step_ns;
}

void
virtual_time_advance_ms(uint64_t step_ms)
{
  clock_ns += step_ms * NS_PER_MS;
}

void
virtual_time_step_back_ms(uint64_t step_ms)
{
  clock_ns -= step_ms * NS_PER_MS;
}

void
virtual_time_set_coarse_step_ns(uint64_t step_ns)
{
  coarse_step_ns = step_ns;
}

void
virtual_time_oversleep_ns(uint64_t extra_ns)
{
  oversleep_ns = extra_ns;
}

uint64_t
virtual_time_polls(void)
{
  return polls;
}

uint64_t
virtual_time_sleeps(void)
{
  return sleeps;
}

/* A poll found no I/O: sleeps so long instead. */
static void
sleep_ns(uint64_t timeout_ns)
{
  sleeps++;
  clock_ns += timeout_ns + oversleep_ns;
}

#ifdef _WIN32

#include <windows.h>

typedef BOOL(WINAPI *dequeue_t)(HANDLE, LPOVERLAPPED_ENTRY, ULONG, PULONG,
                                DWORD, BOOL);

static BOOL WINAPI
query_frequency(LARGE_INTEGER *frequency)
{
  frequency->QuadPart = NS_PER_S;
  return TRUE;
}

static BOOL WINAPI
query_counter(LARGE_INTEGER *counter)
{
  counter->QuadPart = (LONGLONG)clock_ns;
  return TRUE;
}

static BOOL WINAPI
dequeue(HANDLE port, LPOVERLAPPED_ENTRY entries, ULONG room, PULONG count,
        DWORD timeout_ms, BOOL alertable)
{
  dequeue_t real = (dequeue_t)(void (*)(void))GetProcAddress(
      GetModuleHandleA("kernel32.dll"), "GetQueuedCompletionStatusEx");

  polls++;
  if (real(port, entries, room, count, 0, alertable))
    return TRUE;
  if (GetLastError() != WAIT_TIMEOUT || timeout_ms == 0)
    return FALSE;
  if (timeout_ms == INFINITE)
    ck_abort_msg("the loop would sleep for ever");
  sleep_ns((uint64_t)timeout_ms * NS_PER_MS);
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

#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec
timespec_of(uint64_t ns)
{
  struct timespec time = {.tv_sec = (time_t)(ns / NS_PER_S),
                          .tv_nsec = (long)(ns % NS_PER_S)};

  return time;
}

int
clock_gettime(clockid_t id, struct timespec *now)
{
  if (id == CLOCK_MONOTONIC)
    *now = timespec_of(clock_ns);
  else if (id == CLOCK_MONOTONIC_COARSE)
    *now = timespec_of(clock_ns - (clock_ns - set_ns) % coarse_step_ns);
  else
    return (int)syscall(SYS_clock_gettime, id, now);
  return 0;
}

int
clock_getres(clockid_t id, struct timespec *step)
{
  if (id != CLOCK_MONOTONIC_COARSE)
    return (int)syscall(SYS_clock_getres, id, step);
  *step = timespec_of(coarse_step_ns);
  return 0;
}

int
epoll_pwait(int epoll_fd, struct epoll_event *events, int max_events,
            int timeout_ms, const sigset_t *mask)
{
  /* The kernel's signal set has one bit per signal, glibc's is longer. */
  int ready = (int)syscall(SYS_epoll_pwait, epoll_fd, events, max_events, 0,
                           mask, (size_t)_NSIG / 8);

  polls++;
  if (ready != 0 || timeout_ms == 0)
    return ready;
  if (timeout_ms < 0)
    ck_abort_msg("the loop would sleep for ever");
  sleep_ns((uint64_t)timeout_ms * NS_PER_MS);
  return 0;
}

int
epoll_wait(int epoll_fd, struct epoll_event *events, int max_events,
           int timeout_ms)
{
  return epoll_pwait(epoll_fd, events, max_events, timeout_ms, NULL);
}

#else

#include <dlfcn.h>
#include <stddef.h>
#include <sys/event.h>
#include <time.h>

typedef int (*kevent_t)(int, const struct kevent *, int, struct kevent *, int,
                        const struct timespec *);

int
kevent(int kqueue_fd, const struct kevent *changes, int change_count,
       struct kevent *events, int max_events, const struct timespec *timeout)
{
  static const struct timespec at_once;
  kevent_t real = (kevent_t)dlsym(RTLD_NEXT, "kevent");
  int ready =
      real(kqueue_fd, changes, change_count, events, max_events, &at_once);

  if (max_events == 0) /* not a poll */
    return ready;
  polls++;
  if (ready != 0)
    return ready;
  if (timeout == NULL)
    ck_abort_msg("the loop would sleep for ever");
  if (timeout->tv_sec != 0 || timeout->tv_nsec != 0)
    sleep_ns((uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec);
  return 0;
}

#ifdef __APPLE__

#include <mach/mach_time.h>

uint64_t
mach_continuous_time(void)
{
  return clock_ns;
}

kern_return_t
mach_timebase_info(mach_timebase_info_t info)
{
  info->numer = info->denom = 1;
  return KERN_SUCCESS;
}

#else

typedef int (*clock_gettime_t)(clockid_t, struct timespec *);

int
clock_gettime(clockid_t id, struct timespec *now)
{
  clock_gettime_t real = (clock_gettime_t)dlsym(RTLD_NEXT, "clock_gettime");

  if (id != CLOCK_MONOTONIC)
    return real(id, now);
  now->tv_sec = (time_t)(clock_ns / NS_PER_S);
  now->tv_nsec = (long)(clock_ns % NS_PER_S);
  return 0;
}

#endif
#endif
