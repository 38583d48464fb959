/* SPDX-License-Identifier: MIT */

#include "bench.h"
#include "libuv_loop.h"

#include <uvwheel.h>

static uvwheel_t wheel;
static uint64_t timeout;
static uint64_t repeat;

static void
on_timeout(uvwheel_timer_t *timer)
{
  bench_fired++;
  if (bench_rearm_ms != NULL)
    uvwheel_timer_start(timer, on_timeout, bench_next_rearm_ms(), 0);
}

static void
init_one(void *timer)
{
  uvwheel_timer_init(&wheel, timer);
}

static void
start_one(void *timer)
{
  uvwheel_timer_start(timer, on_timeout, timeout, repeat);
}

static void
refresh_one(void *timer)
{
  uvwheel_timer_refresh(timer);
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

BENCH_OPERATIONS
BENCH_OPERATION(again)

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  timeout = timeout_ms;
  repeat = repeat_ms;
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
    .set_times = set_times,
    .init = init,
    .start = start,
    .refresh = refresh,
    .again = again,
    .stop = stop,
    .stop_start = stop_start,
    .release = stop,
    .advance = libuv_loop_advance,
    .turn = libuv_loop_turn,
    .run = libuv_loop_run,
};

const struct peer peer_uvwheel = {
    .name = "uvwheel",
    .traits = TRAIT_BASIC | TRAIT_BURST | TRAIT_IDLE | TRAIT_MILLION |
              TRAIT_DAY | TRAIT_HUGE | TRAIT_TIMEOUTS | TRAIT_RESTART |
              TRAIT_TAIL,
    .open = open_default,
    .can = &operations,
};

const struct peer peer_uvwheel_fifo = {
    .name = "uvwheel FIFO",
    .traits = TRAIT_BASIC | TRAIT_BURST | TRAIT_TIMEOUTS | TRAIT_RESTART,
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
    .traits = TRAIT_BASIC | TRAIT_MILLION | TRAIT_HUGE | TRAIT_TIMEOUTS |
              TRAIT_RESTART | TRAIT_TAIL,
    .open = open_fine,
    .can = &operations,
};

const struct peer peer_uvwheel_day = {
    .name = "uvwheel 1 s x 131072",
    .traits = TRAIT_DAY,
    .open = open_day,
    .can = &operations,
};
