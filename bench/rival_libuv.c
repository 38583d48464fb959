/* SPDX-License-Identifier: MIT */

#include "bench.h"

static void on_timeout(uv_timer_t *timer) {
  bench_fire(timer);
  if (bench_rearm_ms != 0)
    uv_timer_start(timer, on_timeout, bench_rearm_ms, 0);
}

static void init_one(void *timer) {
  uv_timer_init(&bench_loop, timer);
}

static void start_one(void *timer) {
  uv_timer_start(timer, on_timeout, libuv_timeout_ms, libuv_repeat_ms);
}

static void refresh_one(void *timer) {
  uv_timer_start(timer, on_timeout, BENCH_TIMEOUT_MS, 0);
}

static void again_one(void *timer) {
  uv_timer_again(timer);
}

static void stop_one(void *timer) {
  uv_timer_stop(timer);
}

BENCH_OPERATIONS
BENCH_OPERATION(again)

static const struct operations operations = {
    LIBUV_CAN,
    .timer_bytes = sizeof(uv_timer_t),
    .again = again,
    .release = libuv_release,
};

const struct rival rival_libuv = {"uv_timer_t", TRAIT_TIMEOUTS | TRAIT_CHOICE,
                                  libuv_loop_open, &operations, BENCH_LINE};
