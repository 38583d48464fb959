/* SPDX-License-Identifier: MIT */

/* No timer library: traffic writes a time stamp into its connection, and one
 * uv_timer_t looks at all connections once a second. The stamp is the due time,
 * so that connections may have different timeouts; they end up to a second
 * late. The connections are one array; or they were allocated one by one, and a
 * list links them, whose order has nothing to do with that of the addresses. */

#include "bench.h"
#include "libuv_loop.h"
#include "memory.h"

#define PERIOD_MS 1000u
#define NEVER UINT64_MAX

struct stamp {
  uint64_t due_ms;
  struct stamp *next; /* of the list */
};

static uv_timer_t period;
static size_t connections;
static uint64_t seed = 521288629;

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

/* A new one follows one of the list that was drawn. */
static void init_one(void *timer) {
  struct stamp *stamp = timer;

  stop_one(stamp);
  stamp->next = NULL;
  if (connections > 0) {
    struct stamp *before = stamp_at(random_below(&seed, connections));

    stamp->next = before->next;
    before->next = stamp;
  }
  connections++;
}

BENCH_OPERATIONS

static void look_at(struct stamp *stamp, uint64_t now_ms) {
  if (stamp->due_ms > now_ms)
    return;
  bench_fired++;
  stamp->due_ms = NEVER;
}

static void sweep_array(uv_timer_t *timer) {
  uint64_t now_ms = uv_now(timer->loop);

  for (size_t i = 0; i < connections; i++)
    look_at(stamp_at(i), now_ms);
}

static void sweep_list(uv_timer_t *timer) {
  uint64_t now_ms = uv_now(timer->loop);
  struct stamp *next = connections > 0 ? stamp_at(0) : NULL;

  for (; next != NULL; next = next->next)
    look_at(next, now_ms);
}

static void open_with(uv_timer_cb sweep) {
  libuv_loop_open();
  connections = 0;
  uv_timer_init(&bench_loop, &period);
  uv_timer_start(&period, sweep, PERIOD_MS, PERIOD_MS);
}

static void open_array(void) {
  open_with(sweep_array);
}

static void open_list(void) {
  open_with(sweep_list);
}

static const struct operations array_can = {LIBUV_CAN,
                                            .timer_bytes = sizeof(uint64_t)};
static const struct operations list_can = {LIBUV_CAN,
                                           .timer_bytes = sizeof(struct stamp)};

const struct rival rival_sweep_array = {
    "stamp + sweep", TRAIT_LOOP | TRAIT_SERVER, open_array, &array_can};
const struct rival rival_sweep_list = {"stamp + sweep of a list", TRAIT_LOOP,
                                       open_list, &list_can};
