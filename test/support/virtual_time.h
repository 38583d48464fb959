/* SPDX-License-Identifier: MIT */

/* Virtual time for libuv loops: a program that links virtual_time.c has a
 * monotonic clock that stands still until a test moves it, and loops that never
 * sleep. A poll that finds no I/O and has a timeout moves the clock on by that
 * timeout and returns at once; I/O that is ready is always served first. A poll
 * that would sleep for ever fails the test, and so does a loop that polls
 * 50,000 times while the clock stands still. uv_sleep moves the clock, too
 * (not on Windows).
 *
 * It works by symbol interposition: clock_gettime, clock_getres, poll,
 * nanosleep, epoll_wait and epoll_pwait are defined here, in the executable,
 * whose symbols win over the C library's for a shared and for a static libuv
 * alike. On the BSDs it is kevent instead of epoll; on macOS that and the Mach
 * clock, for a static libuv; on Windows the performance counter and
 * GetQueuedCompletionStatusEx, likewise. */

#ifndef VIRTUAL_TIME_H
#define VIRTUAL_TIME_H

#include <stdint.h>

/* Sets the clock; also back. */
void virtual_time_set_ns(uint64_t now_ns);

uint64_t virtual_time_ns(void);

void virtual_time_advance_ns(uint64_t step_ns);
void virtual_time_advance_ms(uint64_t step_ms);

/* Makes CLOCK_MONOTONIC_COARSE move by such steps, counted from when the clock
 * was set; at first they are of 4 ms. libuv reads that clock for its loops if
 * its steps are of 1 ms or less, which it finds out when the program first asks
 * for the time. */
void virtual_time_set_coarse_step_ns(uint64_t step_ns);

/* Makes each read of the clock take that long. */
void virtual_time_set_read_ns(uint64_t read_ns);

/* Makes each sleep take that much longer than the loop asked for. */
void virtual_time_oversleep_ns(uint64_t extra_ns);

/* The rest of the world, which does not wait for the loop. `act` does what is
 * to be done by now, and returns the time of its next act, UINT64_MAX for
 * never. It acts at its times while the clock moves on, and what it does to the
 * loop's descriptors wakes up a loop that sleeps. NULL, as at first: there is
 * none. */
void virtual_time_set_world(uint64_t (*act)(void));

/* Polls so far, and sleeps in them: each act of the world ends one. */
uint64_t virtual_time_polls(void);
uint64_t virtual_time_sleeps(void);

/* Calls of poll(2) so far, on Linux alone; elsewhere 0. */
uint64_t virtual_time_peeks(void);

#endif /* VIRTUAL_TIME_H */
