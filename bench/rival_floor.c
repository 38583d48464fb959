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
  (void)timeout_ms, (void)repeat_ms;
}

static void
nothing(void)
{
}

#define FLOOR(EACH)                                                            \
  {                                                                            \
    .timer_bytes = sizeof(uint64_t), .close = nothing, .set_times = set_times, \
    .init = touch_each, .start = EACH, .refresh = EACH, .stop = EACH,          \
    .stop_start = EACH, .release = touch_each, .advance = nothing,             \
    .iterate = nothing,                                                        \
  }

static const struct operations operations = FLOOR(touch_each);
static const struct operations operations_by_call = FLOOR(call_each);

const struct rival rival_floor = {"floor", TRAIT_HUGE | TRAIT_TIMEOUTS, nothing,
                                  &operations};
const struct rival rival_floor_by_call = {
    "floor by call", TRAIT_HUGE | TRAIT_TIMEOUTS, nothing, &operations_by_call};
