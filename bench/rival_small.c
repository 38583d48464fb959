/* SPDX-License-Identifier: MIT */

/* "Fifty lines of a lazy wheel", compiled into the program: a slot per tick, a
 * list per slot. Traffic stores the new due time; the timer moves when the hand
 * comes to its old slot. All refreshes have the same timeout. There are no
 * checks: a refresh of a timer that is not active is lost. */

#include "bench.h"
#include "libuv_loop.h"
#include "list.h"

#define TICK_MS 100u
#define SLOTS 1024u /* a round is longer than the timeout */

static struct timer slots[SLOTS];
static uint64_t hand; /* the last tick that was looked at */
static uv_timer_t ticker;

static void put(struct timer *timer, uint64_t due_ms) {
  timer->ms = due_ms;
  append(&slots[(due_ms / TICK_MS + 1) % SLOTS], timer);
}

static void start_one(void *timer) {
  put(timer, uv_now(&bench_loop) + libuv_timeout_ms);
}

static void refresh_one(void *memory) {
  struct timer *timer = memory;

  timer->ms = uv_now(&bench_loop) + BENCH_TIMEOUT_MS;
}

BENCH_OPERATIONS

/* The slot's timers go to a list of their own first: a callback may stop any of
 * them, and one that waits for a later round goes back into the slot. */
static void look_at(struct timer *slot, uint64_t now_ms) {
  struct timer list = *slot;

  if (slot->next == slot)
    return;
  list.prev->next = list.next->prev = &list;
  init_one(slot);
  while (list.next != &list) {
    struct timer *timer = list.next;

    stop_one(timer);
    if (timer->ms >= now_ms) {
      put(timer, timer->ms);
      continue;
    }
    bench_fired++;
    if (bench_rearm_ms != 0)
      put(timer, now_ms + bench_rearm_ms);
  }
}

static void on_tick(uv_timer_t *handle) {
  uint64_t now_ms = uv_now(handle->loop);

  while (hand < now_ms / TICK_MS)
    look_at(&slots[++hand % SLOTS], now_ms);
}

static void open_wheel(void) {
  libuv_loop_open();
  for (size_t i = 0; i < SLOTS; i++)
    init_one(&slots[i]);
  hand = uv_now(&bench_loop) / TICK_MS;
  uv_timer_init(&bench_loop, &ticker);
  uv_timer_start(&ticker, on_tick, TICK_MS, TICK_MS);
}

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(struct timer)};

const struct rival rival_small = {"50-line wheel",
                                  TRAIT_TIMEOUTS | TRAIT_CHOICE, open_wheel,
                                  &operations, BENCH_LINE};
