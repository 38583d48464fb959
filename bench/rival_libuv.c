/* SPDX-License-Identifier: MIT */

#include "bench.h"
#include "libuv_loop.h"

static void on_timeout(uv_timer_t *timer) {
  bench_fired++;
  if (bench_rearm_ms != NULL)
    uv_timer_start(timer, on_timeout, bench_next_rearm_ms(), 0);
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

static void count_active(uv_handle_t *handle, void *unused) {
  (void)unused;
  bench_fired += (uint64_t)uv_is_active(handle);
}

static void walk(void) {
  uv_walk(&bench_loop, count_active, NULL);
}

static void release(void) {
  libuv_close_handles(&bench_loop);
}

static const struct operations operations = {
    LIBUV_CAN,      .timer_bytes = sizeof(uv_timer_t),
    .walk = walk,   .release = release,
    .again = again,
};

const struct rival rival_libuv = {
    "libuv uv_timer_t", TRAIT_LOOP | TRAIT_TIMEOUTS | TRAIT_WALK | TRAIT_SERVER,
    libuv_loop_open, &operations};
