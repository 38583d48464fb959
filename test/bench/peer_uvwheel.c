/* SPDX-License-Identifier: MIT */

#include "bench.h"
#include "libuv_loop.h"

#include <uvwheel.h>

static uvwheel_t wheel;
static uint64_t timeout;

static void
on_timeout(uvwheel_timer_t *timer)
{
  bench_fired++;
  if (bench_rearm_ms != 0)
    uvwheel_timer_start(timer, on_timeout, bench_rearm_ms, 0);
}

static void
init_one(void *timer)
{
  uvwheel_timer_init(&wheel, timer);
}

static void
start_one(void *timer)
{
  uvwheel_timer_start(timer, on_timeout, timeout, 0);
}

static void
refresh_one(void *timer)
{
  uvwheel_timer_refresh(timer);
}

static void
restart_one(void *timer)
{
  uvwheel_timer_start(timer, on_timeout, BENCH_TIMEOUT_MS, BENCH_TIMEOUT_MS);
}

static void
again_one(void *timer)
{
  uvwheel_timer_again(timer);
}

static void
stop_one(void *timer)
{
  uvwheel_timer_stop(timer);
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
open_with(const uvwheel_options_t *options)
{
  libuv_loop_open();
  if (uvwheel_init(&bench_loop, &wheel, options) != 0)
    bench_die("uvwheel: no wheel");
}

static void
open_default(void)
{
  open_with(NULL);
}

static void
open_fifo(void)
{
  open_with(&(uvwheel_options_t){.flags = UVWHEEL_FIFO});
}

static void
open_unlimited(void)
{
  open_with(&(uvwheel_options_t){.turn_budget = UINT32_MAX});
}

static void
open_fine(void)
{
  open_with(&(uvwheel_options_t){.tick_ms = 1, .slots = 16384});
}

static void
open_day(void)
{
  open_with(&(uvwheel_options_t){.tick_ms = 1000, .slots = 131072});
}

static void
close_wheel(void)
{
  uvwheel_close(&wheel, NULL);
  libuv_loop_close();
}

static const struct operations operations = {
    .timer_bytes = sizeof(uvwheel_timer_t),
    .close = close_wheel,
    .init = init,
    .start = start,
    .refresh = refresh,
    .restart = restart,
    .again = again,
    .stop = stop,
    .release = stop,
    .advance = libuv_loop_advance,
    .turn = libuv_loop_turn,
    .run = libuv_loop_run,
};

const struct peer peer_uvwheel = {
    .name = "uvwheel",
    .traits = TRAIT_BASIC | TRAIT_BURST | TRAIT_IDLE | TRAIT_MILLION |
              TRAIT_DAY | TRAIT_HUGE,
    .open = open_default,
    .can = &operations,
};

const struct peer peer_uvwheel_fifo = {
    .name = "uvwheel FIFO",
    .traits = TRAIT_BASIC | TRAIT_BURST,
    .open = open_fifo,
    .can = &operations,
};

const struct peer peer_uvwheel_unlimited = {
    .name = "uvwheel no budget",
    .traits = TRAIT_BURST,
    .open = open_unlimited,
    .can = &operations,
};

const struct peer peer_uvwheel_fine = {
    .name = "uvwheel 1 ms x 16384",
    .traits = TRAIT_MILLION | TRAIT_HUGE,
    .open = open_fine,
    .can = &operations,
};

const struct peer peer_uvwheel_day = {
    .name = "uvwheel 1 s x 131072",
    .traits = TRAIT_DAY,
    .open = open_day,
    .can = &operations,
};
