/* SPDX-License-Identifier: MIT */

/* The timeouts of h2o 2.2: a list for each duration. Later versions have a
 * wheel, which no package offers yet. */

#define H2O_USE_LIBUV 0

#include "bench.h"

#include <h2o.h>

static h2o_loop_t *loop;
static h2o_timeout_t idle;  /* all of BENCH_TIMEOUT_MS */
static h2o_timeout_t other; /* of one other duration   */
static int has_other;
static h2o_timeout_t *timeout;

static void
on_timeout(h2o_timeout_entry_t *timer)
{
  (void)timer;
  bench_fired++;
}

static void
init_one(void *memory)
{
  h2o_timeout_entry_t *timer = memory;

  memset(timer, 0, sizeof(*timer));
  timer->cb = on_timeout;
}

static void
start_one(void *timer)
{
  h2o_timeout_link(loop, timeout, timer);
}

static void
refresh_one(void *timer)
{
  h2o_timeout_unlink(timer);
  h2o_timeout_link(loop, &idle, timer);
}

static void
stop_one(void *timer)
{
  h2o_timeout_unlink(timer);
}

BENCH_OPERATIONS

static void
set_times(uint64_t timeout_ms, uint64_t repeat_ms)
{
  (void)repeat_ms;
  timeout = &idle;
  if (timeout_ms == BENCH_TIMEOUT_MS)
    return;
  timeout = &other;
  if (!has_other)
    h2o_timeout_init(loop, &other, timeout_ms);
  else if (other.timeout != timeout_ms)
    bench_die("h2o: more than two durations");
  has_other = 1;
}

static void
open_loop(void)
{
  loop = h2o_evloop_create();
  h2o_timeout_init(loop, &idle, BENCH_TIMEOUT_MS);
  has_other = 0;
}

static void
close_loop(void)
{
  h2o_timeout_dispose(loop, &idle);
  if (has_other)
    h2o_timeout_dispose(loop, &other);
  h2o_evloop_destroy(loop);
}

static void
iterate(void)
{
  h2o_evloop_run(loop, 0);
}

static void
run(uint64_t ms)
{
  uint64_t end;

  iterate();
  end = h2o_now(loop) + ms;
  while (h2o_now(loop) < end)
    h2o_evloop_run(loop, (int32_t)(end - h2o_now(loop)));
}

static const struct operations operations = {
    BENCH_CAN,           .timer_bytes = sizeof(h2o_timeout_entry_t),
    .close = close_loop, .set_times = set_times,
    .release = stop,     .advance = iterate,
    .iterate = iterate,  .run = run,
};

const struct rival rival_h2o = {"h2o timeouts", TRAIT_LOOP, open_loop,
                                &operations};
