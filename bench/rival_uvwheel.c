/* SPDX-License-Identifier: MIT */

#include "bench.h"

#include <uvwheel.h>

static uvwheel_t wheel;

static void on_timeout(uvwheel_timer_t *timer) {
  bench_fire(timer);
  if (bench_rearm_ms != 0)
    uvwheel_timer_start(timer, on_timeout, bench_rearm_ms, 0);
}

static void init_one(void *timer) {
  uvwheel_timer_init(&wheel, timer);
}

static void start_one(void *timer) {
  uvwheel_timer_start(timer, on_timeout, libuv_timeout_ms, libuv_repeat_ms);
}

static void refresh_one(void *timer) {
  uvwheel_timer_refresh(timer);
}

static void expect_one(void *timer) {
  uvwheel_timer_expect(timer, on_timeout, libuv_timeout_ms);
}

static void again_one(void *timer) {
  uvwheel_timer_again(timer);
}

static void stop_one(void *timer) {
  uvwheel_timer_stop(timer);
}

BENCH_OPERATIONS
BENCH_OPERATION(expect)
BENCH_OPERATION(again)

static void open_with(const uvwheel_options_t *options) {
  libuv_loop_open();
  if (uvwheel_init(&bench_loop, &wheel, options) != 0)
    bench_die("uvwheel: no wheel");
}

static void open_default(void) {
  open_with(NULL);
}

static void open_fifo(void) {
  open_with(&(uvwheel_options_t){.flags = UVWHEEL_FIFO});
}

static void open_fine(void) {
  open_with(&(uvwheel_options_t){.tick_ms = 1, .slots = 16384});
}

static void fire_soonest(void) {
  uvwheel_fire_soonest(&wheel, 1);
}

static void close_wheel(void) {
  uvwheel_close(&wheel, NULL);
  libuv_loop_iterate();
}

static const struct operations operations = {
    LIBUV_CAN,
    .timer_bytes = sizeof(uvwheel_timer_t),
    .release = close_wheel,
    .expect = expect,
    .again = again,
    .fire_soonest = fire_soonest,
};

const struct rival rival_uvwheel = {"uvwheel", TRAIT_TIMEOUTS | TRAIT_CHOICE,
                                    open_default, &operations, BENCH_LINE};
const struct rival rival_uvwheel_across = {"across two lines", TRAIT_TIMEOUTS,
                                           open_default, &operations,
                                           BENCH_ACROSS};
const struct rival rival_uvwheel_fifo = {"FIFO", TRAIT_TIMEOUTS, open_fifo,
                                         &operations, BENCH_LINE};
const struct rival rival_uvwheel_fine = {"1 ms x 16384", TRAIT_TIMEOUTS,
                                         open_fine, &operations, BENCH_LINE};
