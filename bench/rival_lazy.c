/* SPDX-License-Identifier: MIT */

/* A lazy uv_timer_t per connection: a packet only stores when the connection is
 * due, and the callback starts the timer again for what is left. The program
 * compiles that into itself; the timer is libuv's. */

#include "bench.h"

struct timer {
  uv_timer_t uv;
  uint64_t due_ms;
};

static void on_timeout(uv_timer_t *handle) {
  struct timer *timer = (struct timer *)handle;
  uint64_t now_ms = uv_now(&bench_loop);

  if (timer->due_ms > now_ms) {
    uv_timer_start(handle, on_timeout, timer->due_ms - now_ms, 0);
    return;
  }
  bench_fire(timer);
  if (bench_rearm_ms != 0) {
    timer->due_ms = now_ms + bench_rearm_ms;
    uv_timer_start(handle, on_timeout, timer->due_ms - now_ms, 0);
  }
}

static void init_one(void *timer) {
  uv_timer_init(&bench_loop, timer);
}

static void start_one(void *memory) {
  struct timer *timer = memory;

  timer->due_ms = uv_now(&bench_loop) + libuv_timeout_ms;
  uv_timer_start(&timer->uv, on_timeout, libuv_timeout_ms, 0);
}

static void refresh_one(void *memory) {
  struct timer *timer = memory;

  timer->due_ms = uv_now(&bench_loop) + BENCH_TIMEOUT_MS;
}

static void stop_one(void *timer) {
  uv_timer_stop(timer);
}

BENCH_OPERATIONS

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(struct timer), .release = libuv_release};

const struct rival rival_lazy = {"lazy uv_timer_t",
                                 TRAIT_TIMEOUTS | TRAIT_CHOICE, libuv_loop_open,
                                 &operations, BENCH_LINE};
