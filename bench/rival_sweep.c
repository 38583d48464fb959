/* SPDX-License-Identifier: MIT */

/* No timer library: traffic writes a time stamp into its connection, and one
 * uv_timer_t looks at all connections, which are one array, once a second. The
 * stamp is the due time, so that connections may have different timeouts; they
 * end up to a second late. */

#include "bench.h"
#include "libuv_loop.h"

#define PERIOD_MS 1000u
#define NEVER UINT64_MAX

struct stamp {
  uint64_t due_ms;
};

static uv_timer_t period;
static size_t connections;

static struct stamp *stamp_at(size_t i) {
  return (struct stamp *)(bench_arena.base + i * bench_arena.stride);
}

static void start_one(void *timer) {
  struct stamp *stamp = timer;

  stamp->due_ms = uv_now(&bench_loop) + libuv_timeout_ms;
}

static void refresh_one(void *timer) {
  struct stamp *stamp = timer;

  stamp->due_ms = uv_now(&bench_loop) + BENCH_TIMEOUT_MS;
}

static void stop_one(void *timer) {
  struct stamp *stamp = timer;

  stamp->due_ms = NEVER;
}

static void init_one(void *timer) {
  stop_one(timer);
  connections++;
}

BENCH_OPERATIONS

static void sweep(uv_timer_t *timer) {
  uint64_t now_ms = uv_now(timer->loop);

  for (size_t i = 0; i < connections; i++) {
    struct stamp *stamp = stamp_at(i);
    if (stamp->due_ms > now_ms)
      continue;
    bench_fired++;
    stop_one(stamp);
  }
}

static void open_stamps(void) {
  libuv_loop_open();
  connections = 0;
  uv_timer_init(&bench_loop, &period);
  uv_timer_start(&period, sweep, PERIOD_MS, PERIOD_MS);
}

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(struct stamp)};

const struct rival rival_sweep = {"stamp + sweep", TRAIT_CHOICE, open_stamps,
                                  &operations, BENCH_LINE};
