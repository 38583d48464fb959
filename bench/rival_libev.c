/* SPDX-License-Identifier: MIT */

#include "bench.h"

/* Without this ev.h makes its timers bigger and breaks strict aliasing. */
#define EV_COMPAT3 0
#include <ev.h>

static struct ev_loop *loop;
static double timeout;

static void on_timeout(struct ev_loop *of, ev_timer *timer, int events) {
  (void)events;
  bench_fired++;
  if (bench_rearm_ms != NULL) {
    ev_timer_set(timer, (double)bench_next_rearm_ms() / 1000, 0);
    ev_timer_start(of, timer);
  }
}

static void on_end(struct ev_loop *of, ev_timer *timer, int events) {
  (void)timer, (void)events;
  ev_break(of, EVBREAK_ALL);
}

static void init_one(void *memory) {
  ev_timer *timer = memory;

  ev_timer_init(timer, on_timeout, 0, 0);
}

static void start_one(void *memory) {
  ev_timer *timer = memory;

  ev_timer_set(timer, timeout, 0);
  ev_timer_start(loop, timer);
}

/* ev_timer_again takes the timer's repeat, and moves it inside the heap. */
static void refresh_one(void *memory) {
  ev_timer *timer = memory;

  timer->repeat = BENCH_TIMEOUT_MS / 1000;
  ev_timer_again(loop, timer);
}

static void stop_one(void *memory) {
  ev_timer_stop(loop, memory);
}

BENCH_OPERATIONS

static void set_times(uint64_t timeout_ms, uint64_t repeat_ms) {
  (void)repeat_ms;
  timeout = (double)timeout_ms / 1000;
}

static void open_loop(void) {
  loop = ev_loop_new(EVBACKEND_EPOLL);
  if (loop == NULL)
    bench_die("libev: no loop");
}

static void close_loop(void) {
  ev_loop_destroy(loop);
}

static void advance(void) {
  ev_now_update(loop);
}

static void iterate(void) {
  ev_run(loop, EVRUN_NOWAIT);
}

static void run(uint64_t ms) {
  ev_timer end;

  ev_timer_init(&end, on_end, (double)ms / 1000, 0);
  ev_timer_start(loop, &end);
  ev_run(loop, 0);
}

static const struct operations operations = {
    BENCH_CAN,           .timer_bytes = sizeof(ev_timer),
    .close = close_loop, .set_times = set_times,
    .advance = advance,  .iterate = iterate,
    .run = run,
};

const struct rival rival_libev = {"libev ev_timer", TRAIT_LOOP | TRAIT_TIMEOUTS,
                                  open_loop, &operations};
