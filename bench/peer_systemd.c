/* SPDX-License-Identifier: MIT */

/* systemd's event loop. Its timers are objects of its own, and each iteration
 * calls the callback of one of them. */

#include "bench.h"

#include "clock.h"

#include <systemd/sd-event.h>
#include <time.h>

#define US_PER_MS 1000u
#define ACCURACY_US 1u /* 0 would be a quarter of a second */

static sd_event *loop;
static uint64_t timeout_us;

static uint64_t
now_us(void)
{
  uint64_t now;

  sd_event_now(loop, CLOCK_MONOTONIC, &now);
  return now;
}

static void
start_for(sd_event_source *timer, uint64_t us)
{
  sd_event_source_set_time(timer, now_us() + us);
  sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static int
on_timeout(sd_event_source *timer, uint64_t due_us, void *data)
{
  (void)due_us;
  (void)data;
  bench_fired++;
  if (bench_rearm_ms != NULL)
    start_for(timer, bench_next_rearm_ms() * US_PER_MS);
  return 0;
}

static void
init_one(void *memory)
{
  sd_event_source **timer = memory;

  if (sd_event_add_time(loop, timer, CLOCK_MONOTONIC, 0, ACCURACY_US,
                        on_timeout, NULL) < 0 ||
      sd_event_source_set_enabled(*timer, SD_EVENT_OFF) < 0)
    bench_die("systemd: no timer");
}

static void
start_one(void *memory)
{
  sd_event_source **timer = memory;

  start_for(*timer, timeout_us);
}

static void
refresh_one(void *memory)
{
  sd_event_source **timer = memory;

  sd_event_source_set_time(*timer, now_us() + BENCH_TIMEOUT_MS * US_PER_MS);
}

static void
stop_one(void *memory)
{
  sd_event_source **timer = memory;

  sd_event_source_set_enabled(*timer, SD_EVENT_OFF);
}

static void
release_one(void *memory)
{
  sd_event_source **timer = memory;

  sd_event_source_unref(*timer);
}

BENCH_OPERATIONS
BENCH_OPERATION(release)

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  (void)repeat_ms;
  timeout_us = timeout_ms * US_PER_MS;
}

static void
open_loop(void)
{
  clock_offer_timerfd(1);
  if (sd_event_new(&loop) < 0)
    bench_die("systemd: no loop");
}

static void
close_loop(void)
{
  sd_event_unref(loop);
  clock_offer_timerfd(0);
}

static void
turn(void)
{
  while (sd_event_run(loop, 0) > 0)
    continue;
}

static void
run(uint64_t ms)
{
  uint64_t end_us;

  turn();
  end_us = now_us() + ms * US_PER_MS;
  while (now_us() < end_us)
    sd_event_run(loop, end_us - now_us());
}

static const struct operations operations = {
    .timer_bytes = sizeof(sd_event_source *),
    .close = close_loop,
    .set_times = set_times,
    .init = init,
    .start = start,
    .refresh = refresh,
    .stop = stop,
    .stop_start = stop_start,
    .release = release,
    .advance = turn,
    .turn = turn,
    .run = run,
};

const struct peer peer_systemd = {
    .name = "systemd sd-event",
    .traits = TRAIT_BASIC | TRAIT_TIMEOUTS,
    .open = open_loop,
    .can = &operations,
};
