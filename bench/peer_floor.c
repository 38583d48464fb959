/* SPDX-License-Identifier: MIT */

/* The floor: no timer at all, each operation is the one thing that it cannot
 * do without, reading and writing one cache line of the connection. */

#include "bench.h"

static void
touch(void *timer)
{
  uint64_t *word = timer;

  ++*word;
}

static void
touch_each(const uint32_t *order, size_t count)
{
  bench_each(order, count, touch);
}

static void
call_each(const uint32_t *order, size_t count)
{
  bench_each(order, count, floor_touch);
}

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  (void)timeout_ms;
  (void)repeat_ms;
}

static void
nothing(void)
{
}

static const struct operations operations = {
    .timer_bytes = sizeof(uint64_t),
    .close = nothing,
    .set_times = set_times,
    .init = touch_each,
    .start = touch_each,
    .refresh = touch_each,
    .stop = touch_each,
    .stop_start = touch_each,
    .release = touch_each,
    .advance = nothing,
    .turn = nothing,
};

static const struct operations operations_by_call = {
    .timer_bytes = sizeof(uint64_t),
    .close = nothing,
    .set_times = set_times,
    .init = touch_each,
    .start = call_each,
    .refresh = call_each,
    .stop = call_each,
    .stop_start = call_each,
    .release = touch_each,
    .advance = nothing,
    .turn = nothing,
};

const struct peer peer_floor = {
    .name = "floor",
    .traits = TRAIT_BASIC | TRAIT_FLOOR | TRAIT_HUGE,
    .open = nothing,
    .can = &operations,
};

const struct peer peer_floor_by_call = {
    .name = "floor by call",
    .traits = TRAIT_BASIC | TRAIT_HUGE | TRAIT_TAIL,
    .open = nothing,
    .can = &operations_by_call,
};
