/* SPDX-License-Identifier: MIT */

/* What an expert names first: a list of the connections, in the order of their
 * last activity. Traffic moves its connection to the end, so the first one is
 * always the next to time out, and one uv_timer_t waits for it, and for a tick
 * more. All timers of the list have the same timeout; each other timeout needs
 * another list. */

#include "bench.h"
#include "list.h"

#define TICK_MS 100u
#define BUDGET 10000u /* connections that end in one iteration */

static struct timer list;
static uv_timer_t waker;
static int is_armed;

static void put_last(struct timer *timer) {
  timer->ms = uv_now(&bench_loop);
  append(&list, timer);
}

static void on_timer(uv_timer_t *handle);

/* As a wheel, it ends those together that are due within a tick. */
static void wait_for_first(uint64_t now_ms) {
  uv_timer_start(&waker, on_timer,
                 list.next->ms + BENCH_TIMEOUT_MS + TICK_MS - now_ms, 0);
}

static void on_timer(uv_timer_t *handle) {
  uint64_t now_ms = uv_now(handle->loop);
  unsigned left = BUDGET;

  while (list.next != &list && list.next->ms + BENCH_TIMEOUT_MS <= now_ms) {
    struct timer *timer = list.next;

    stop_one(timer);
    bench_fire(timer);
    if (--left == 0) {
      uv_timer_start(handle, on_timer, 1, 0);
      return;
    }
  }
  is_armed = list.next != &list;
  if (is_armed)
    wait_for_first(now_ms);
}

static void start_one(void *timer) {
  put_last(timer);
  if (!is_armed)
    wait_for_first(uv_now(&bench_loop));
  is_armed = 1;
}

static void refresh_one(void *timer) {
  take_out(timer);
  put_last(timer);
}

BENCH_OPERATIONS

static void open_list(void) {
  libuv_loop_open();
  uv_timer_init(&bench_loop, &waker);
  is_armed = 0;
  init_one(&list);
}

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(struct timer)};

const struct rival rival_list = {"LRU list", TRAIT_CHOICE, open_list,
                                 &operations, BENCH_LINE};
