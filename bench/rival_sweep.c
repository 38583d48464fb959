/* SPDX-License-Identifier: MIT */

/* No timer library: traffic writes a time stamp into its connection, and one
 * uv_timer_t looks at all connections once a second. The stamp is the due time,
 * so that connections may have different timeouts; they end up to a second
 * late.
 *
 * It finds the connections in three ways: they are one array; or they were
 * allocated one by one, and a table has their addresses, or a list links them.
 * The order of the table and of the list has nothing to do with that of the
 * addresses. */

#include "bench.h"
#include "libuv_loop.h"
#include "memory.h"

#define PERIOD_MS 1000u
#define NEVER UINT64_MAX

struct stamp {
  uint64_t due_ms;
  struct stamp *next; /* of the list */
};

static struct stamp *table[BENCH_MOST_TIMERS];
static uv_timer_t period;
static size_t connections;
static uint64_t seed = 521288629;

static struct stamp *
stamp_at(size_t i)
{
  return (struct stamp *)(bench_arena.base + i * bench_arena.stride);
}

static void
stamp_for(struct stamp *stamp, uint64_t ms)
{
  stamp->due_ms = uv_now(&bench_loop) + ms;
}

static void
start_one(void *timer)
{
  stamp_for(timer, libuv_timeout_ms);
}

static void
refresh_one(void *timer)
{
  stamp_for(timer, BENCH_TIMEOUT_MS);
}

static void
stop_one(void *timer)
{
  struct stamp *stamp = timer;

  stamp->due_ms = NEVER;
}

/* A new one goes to the end of the table, and changes places with one that was
 * drawn; in the list it follows one that was drawn. */
static void
init_one(void *timer)
{
  struct stamp *stamp = timer;
  size_t drawn = random_below(&seed, connections + 1);

  stop_one(stamp);
  table[connections] = table[drawn];
  table[drawn] = stamp;
  stamp->next = NULL;
  if (connections > 0) {
    struct stamp *before = stamp_at(drawn % connections);

    stamp->next = before->next;
    before->next = stamp;
  }
  connections++;
}

BENCH_OPERATIONS

static void
look_at(struct stamp *stamp, uint64_t now_ms)
{
  if (stamp->due_ms > now_ms)
    return;
  bench_fired++;
  stamp->due_ms =
      bench_rearm_ms != NULL ? now_ms + bench_next_rearm_ms() : NEVER;
}

static void
sweep_array(uv_timer_t *timer)
{
  uint64_t now_ms = uv_now(timer->loop);

  for (size_t i = 0; i < connections; i++)
    look_at(stamp_at(i), now_ms);
}

static void
sweep_table(uv_timer_t *timer)
{
  uint64_t now_ms = uv_now(timer->loop);

  for (size_t i = 0; i < connections; i++)
    look_at(table[i], now_ms);
}

static void
sweep_list(uv_timer_t *timer)
{
  uint64_t now_ms = uv_now(timer->loop);
  struct stamp *next = connections > 0 ? stamp_at(0) : NULL;

  for (; next != NULL; next = next->next)
    look_at(next, now_ms);
}

static void
open_with(uv_timer_cb sweep)
{
  libuv_loop_open();
  connections = 0;
  uv_timer_init(&bench_loop, &period);
  uv_timer_start(&period, sweep, PERIOD_MS, PERIOD_MS);
}

static void
open_array(void)
{
  open_with(sweep_array);
}

static void
open_table(void)
{
  open_with(sweep_table);
}

static void
open_list(void)
{
  open_with(sweep_list);
}

static void
close_loop(void)
{
  uv_close((uv_handle_t *)&period, NULL);
  libuv_loop_close();
}

static const struct operations array_can = {
    LIBUV_CAN,
    .timer_bytes = sizeof(uint64_t),
    .close = close_loop,
    .release = stop,
};
static const struct operations linked_can = {
    LIBUV_CAN,
    .timer_bytes = sizeof(uint64_t) + sizeof(struct stamp *),
    .close = close_loop,
    .release = stop,
};

#define TRAITS (TRAIT_LOOP | TRAIT_HUGE)

const struct rival rival_sweep_array = {"sweep of an array", TRAITS, open_array,
                                        &array_can};
const struct rival rival_sweep_table = {"sweep of a table", TRAITS, open_table,
                                        &linked_can};
const struct rival rival_sweep_list = {"sweep of a list", TRAITS, open_list,
                                       &linked_can};
