/* SPDX-License-Identifier: MIT */

/* What an expert names first: a list of the connections, in the order of their
 * last activity. Traffic moves its connection to the end, so the first one is
 * always the next to time out, and one uv_timer_t waits for it, and for a tick
 * more. All timers of
 * the list have the same timeout; each other timeout needs another list. */

#include "bench.h"
#include "libuv_loop.h"

#define TICK_MS 100u

struct item {
  struct item *prev, *next;
  uint64_t stamp_ms;
};

static struct item list;
static uv_timer_t waker;
static int is_armed;

static void take_out(struct item *item) {
  item->prev->next = item->next;
  item->next->prev = item->prev;
}

static void append(struct item *item) {
  item->stamp_ms = uv_now(&bench_loop);
  item->prev = list.prev;
  item->next = &list;
  list.prev->next = item;
  list.prev = item;
}

static void init_one(void *item) {
  struct item *idle = item;

  idle->prev = idle->next = idle;
}

static void stop_one(void *item) {
  take_out(item);
  init_one(item);
}

static void on_timer(uv_timer_t *handle);

/* As a wheel, it ends those together that are due within a tick. */
static void wait_for_first(uint64_t now_ms) {
  uv_timer_start(&waker, on_timer,
                 list.next->stamp_ms + BENCH_TIMEOUT_MS + TICK_MS - now_ms, 0);
}

static void on_timer(uv_timer_t *handle) {
  uint64_t now_ms = uv_now(handle->loop);

  while (list.next != &list &&
         list.next->stamp_ms + BENCH_TIMEOUT_MS <= now_ms) {
    stop_one(list.next);
    bench_fired++;
  }
  is_armed = list.next != &list;
  if (is_armed)
    wait_for_first(now_ms);
}

static void start_one(void *item) {
  append(item);
  if (!is_armed)
    wait_for_first(uv_now(&bench_loop));
  is_armed = 1;
}

static void refresh_one(void *item) {
  take_out(item);
  append(item);
}

BENCH_OPERATIONS

static void open_list(void) {
  libuv_loop_open();
  uv_timer_init(&bench_loop, &waker);
  is_armed = 0;
  init_one(&list);
}

static void walk(void) {
  for (struct item *item = list.next; item != &list; item = item->next)
    bench_fired++;
}

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(struct item), .walk = walk};

const struct rival rival_list = {"LRU list",
                                 TRAIT_WALK | TRAIT_CHOICE | TRAIT_QUICK,
                                 open_list, &operations, BENCH_LINE};
