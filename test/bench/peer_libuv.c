/* SPDX-License-Identifier: MIT */

#include "bench.h"
#include "libuv_loop.h"

static uint64_t timeout;

static void
on_timeout(uv_timer_t *timer)
{
  bench_fired++;
  if (bench_rearm_ms != 0)
    uv_timer_start(timer, on_timeout, bench_rearm_ms, 0);
}

static void
init_one(void *timer)
{
  uv_timer_init(&bench_loop, timer);
}

static void
start_one(void *timer)
{
  uv_timer_start(timer, on_timeout, timeout, 0);
}

static void
refresh_one(void *timer)
{
  uv_timer_start(timer, on_timeout, BENCH_TIMEOUT_MS, 0);
}

static void
restart_one(void *timer)
{
  uv_timer_start(timer, on_timeout, BENCH_TIMEOUT_MS, BENCH_TIMEOUT_MS);
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

static void
init(const uint32_t *order, size_t count)
{
  bench_each(order, count, init_one);
}

static void
start(const uint32_t *order, size_t count, uint64_t timeout_ms)
{
  timeout = timeout_ms;
  bench_each(order, count, start_one);
}

static void
refresh(const uint32_t *order, size_t count)
{
  bench_each(order, count, refresh_one);
}

static void
restart(const uint32_t *order, size_t count)
{
  bench_each(order, count, restart_one);
}

static void
again(const uint32_t *order, size_t count)
{
  bench_each(order, count, again_one);
}

static void
stop(const uint32_t *order, size_t count)
{
  bench_each(order, count, stop_one);
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
    .init = init,
    .start = start,
    .refresh = refresh,
    .restart = restart,
    .again = again,
    .stop = stop,
    .release = release,
    .advance = libuv_loop_advance,
    .turn = libuv_loop_turn,
    .run = libuv_loop_run,
};

const struct peer peer_libuv = {
    .name = "libuv uv_timer_t",
    .traits = TRAIT_BASIC | TRAIT_BURST | TRAIT_IDLE | TRAIT_MILLION |
              TRAIT_DAY | TRAIT_HUGE,
    .open = libuv_loop_open,
    .can = &operations,
};
