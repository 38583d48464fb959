/* SPDX-License-Identifier: MIT */

#include "bench.h"
#include "libuv_loop.h"

#include <uvwheel.h>

static uvwheel_t wheel;

static void on_timeout(uvwheel_timer_t *timer) {
  bench_fired++;
  if (bench_rearm_ms != NULL)
    uvwheel_timer_start(timer, on_timeout, bench_next_rearm_ms(), 0);
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

static void again_one(void *timer) {
  uvwheel_timer_again(timer);
}

static void stop_one(void *timer) {
  uvwheel_timer_stop(timer);
}

static void unref_one(void *timer) {
  uvwheel_timer_unref(timer);
}

BENCH_OPERATIONS
BENCH_OPERATION(again)
BENCH_OPERATION(unref)

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

static void open_largest(void) {
  open_with(&(uvwheel_options_t){.tick_ms = 1, .slots = UVWHEEL_MAX_SLOTS});
}

static void fire_soonest(void) {
  uvwheel_fire_soonest(&wheel, 1);
}

static void count_one(uvwheel_timer_t *timer, void *unused) {
  (void)timer, (void)unused;
  bench_fired++;
}

static void walk(void) {
  uvwheel_walk(&wheel, count_one, NULL);
}

static void close_wheel(void) {
  uvwheel_close(&wheel, NULL);
  libuv_loop_iterate();
}

static const struct operations operations = {
    LIBUV_CAN,
    .timer_bytes = sizeof(uvwheel_timer_t),
    .walk = walk,
    .release = close_wheel,
    .again = again,
    .unref = unref,
    .fire_soonest = fire_soonest,
};

#define TRAITS (TRAIT_TIMEOUTS | TRAIT_WALK)

const struct rival rival_uvwheel = {"uvwheel",
                                    TRAITS | TRAIT_CHOICE | TRAIT_QUICK,
                                    open_default, &operations, BENCH_LINE};
const struct rival rival_uvwheel_across = {
    "across two lines", TRAITS, open_default, &operations, BENCH_ACROSS};
const struct rival rival_uvwheel_fifo = {"FIFO", TRAITS, open_fifo, &operations,
                                         BENCH_LINE};
const struct rival rival_uvwheel_fine = {"1 ms x 16384", TRAITS, open_fine,
                                         &operations, BENCH_LINE};
const struct rival rival_uvwheel_largest = {
    "1 ms x 65536", TRAITS, open_largest, &operations, BENCH_LINE};
