/* SPDX-License-Identifier: MIT */

#include "bench.h"
#include "libuv_loop.h"

static uint64_t timeout;
static uint64_t repeat;

static void
on_timeout(uv_timer_t *timer)
{
  bench_fired++;
  if (bench_rearm_ms != NULL)
    uv_timer_start(timer, on_timeout, bench_next_rearm_ms(), 0);
}

static void
init_one(void *timer)
{
  uv_timer_init(&bench_loop, timer);
}

static void
start_one(void *timer)
{
  uv_timer_start(timer, on_timeout, timeout, repeat);
}

static void
refresh_one(void *timer)
{
  uv_timer_start(timer, on_timeout, BENCH_TIMEOUT_MS, 0);
}

static void
again_one(void *timer)
{
  uv_timer_again(timer);
}

static void
stop_one(void *timer)
{
  uv_timer_stop(timer);
}

static void
release_one(void *timer)
{
  uv_close(timer, NULL);
}

BENCH_OPERATIONS
BENCH_OPERATION(again)

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  timeout = timeout_ms;
  repeat = repeat_ms;
}

static void
release(const uint32_t *order, size_t count)
{
  bench_each(order, count, release_one);
  libuv_loop_turn();
}

static const struct operations operations = {
    .timer_bytes = sizeof(uv_timer_t),
    .close = libuv_loop_close,
    .set_times = set_times,
    .init = init,
    .start = start,
    .refresh = refresh,
    .again = again,
    .stop = stop,
    .stop_start = stop_start,
    .release = release,
    .advance = libuv_loop_advance,
    .turn = libuv_loop_turn,
    .run = libuv_loop_run,
};

const struct peer peer_libuv = {
    .name = "libuv uv_timer_t",
    .traits = TRAIT_BASIC | TRAIT_BURST | TRAIT_IDLE | TRAIT_MILLION |
              TRAIT_DAY | TRAIT_HUGE | TRAIT_TIMEOUTS | TRAIT_RESTART |
              TRAIT_TAIL,
    .open = libuv_loop_open,
    .can = &operations,
};
