/* SPDX-License-Identifier: MIT */

/* libevent twice: its heap, and its common timeouts, one queue per duration
 * for programs that know their durations beforehand. Outside of its callbacks
 * libevent reads the clock at each event_add; in virtual time that is a call
 * of a few instructions. */

#include "bench.h"

#include <event2/event.h>
#include <event2/event_struct.h>

static struct event_base *base;
static struct timeval idle_time = {BENCH_TIMEOUT_MS / 1000, 0};
static const struct timeval *idle_timeout; /* a common timeout, or idle_time */
static struct timeval other_time;
static const struct timeval *timeout;

static const struct timeval *
set_time(struct timeval *time, uint64_t ms)
{
  time->tv_sec = (time_t)(ms / 1000);
  time->tv_usec = (suseconds_t)(ms % 1000) * 1000;
  return time;
}

static void
on_timeout(evutil_socket_t fd, short events, void *timer)
{
  struct timeval rearm;

  (void)fd, (void)events;
  bench_fired++;
  if (bench_rearm_ms != NULL)
    event_add(timer, set_time(&rearm, bench_next_rearm_ms()));
}

static void
init_one(void *timer)
{
  event_assign(timer, base, -1, 0, on_timeout, timer);
}

static void
start_one(void *timer)
{
  event_add(timer, timeout);
}

static void
refresh_one(void *timer)
{
  event_add(timer, idle_timeout);
}

static void
stop_one(void *timer)
{
  event_del(timer);
}

BENCH_OPERATIONS

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  (void)repeat_ms;
  timeout = timeout_ms == BENCH_TIMEOUT_MS ? idle_timeout
                                           : set_time(&other_time, timeout_ms);
}

static void
open_heap(void)
{
  base = event_base_new();
  if (base == NULL)
    bench_die("libevent: no event base");
  idle_timeout = &idle_time;
}

static void
open_common(void)
{
  open_heap();
  idle_timeout = event_base_init_common_timeout(base, &idle_time);
  if (idle_timeout == NULL)
    bench_die("libevent: no common timeout");
}

static void
close_base(void)
{
  event_base_free(base);
}

static void
nothing(void)
{
}

static void
iterate(void)
{
  event_base_loop(base, EVLOOP_NONBLOCK);
}

static void
run(uint64_t ms)
{
  struct timeval end;

  event_base_loopexit(base, set_time(&end, ms));
  event_base_dispatch(base);
}

static const struct operations operations = {
    BENCH_CAN,           .timer_bytes = sizeof(struct event),
    .close = close_base, .set_times = set_times,
    .release = stop,     .advance = nothing,
    .iterate = iterate,  .run = run,
};

const struct rival rival_libevent = {
    "libevent evtimer", TRAIT_TIMEOUTS | TRAIT_LOOP, open_heap, &operations};
const struct rival rival_libevent_common = {
    "libevent common timeout", TRAIT_LOOP, open_common, &operations};
