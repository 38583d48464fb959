/* SPDX-License-Identifier: MIT */

#include "bench.h"

#include <uv.h>

static uv_loop_t loop;
static uint64_t timeout;

static void
on_timeout(uv_timer_t *timer)
{
  bench_fired++;
  if (bench_rearm_ms != 0)
    uv_timer_start(timer, on_timeout, bench_rearm_ms, 0);
}

static void
on_end(uv_timer_t *timer)
{
  uv_stop(timer->loop);
  uv_close((uv_handle_t *)timer, NULL);
}

static void
init_one(void *timer)
{
  uv_timer_init(&loop, timer);
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
  uv_run(&loop, UV_RUN_NOWAIT);
}

static void
open_loop(void)
{
  if (uv_loop_init(&loop) != 0)
    bench_die("libuv: no loop");
}

static void
close_loop(void)
{
  if (uv_loop_close(&loop) != 0)
    bench_die("libuv: the loop has handles left");
}

static void
advance(void)
{
  uv_update_time(&loop);
}

static void
turn(void)
{
  uv_run(&loop, UV_RUN_NOWAIT);
}

static void
run(uint64_t ms)
{
  static uv_timer_t end;

  uv_timer_init(&loop, &end);
  uv_timer_start(&end, on_end, ms, 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_run(&loop, UV_RUN_NOWAIT);
}

const struct peer peer_libuv = {
    .name = "libuv uv_timer_t",
    .timer_bytes = sizeof(uv_timer_t),
    .traits = TRAIT_BASIC | TRAIT_BURST | TRAIT_IDLE | TRAIT_MILLION |
              TRAIT_DAY | TRAIT_HUGE,
    .open = open_loop,
    .close = close_loop,
    .init = init,
    .start = start,
    .refresh = refresh,
    .restart = restart,
    .again = again,
    .stop = stop,
    .release = release,
    .advance = advance,
    .turn = turn,
    .run = run,
};
