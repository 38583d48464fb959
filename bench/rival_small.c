/* SPDX-License-Identifier: MIT */

/* "Fifty lines of a lazy wheel", compiled into the program: a slot per tick, a
 * list per slot. Traffic stores the new due time; the timer moves when the hand
 * comes to its old slot. All refreshes have the same timeout. There are no
 * checks: a refresh of a timer that is not active is lost. */

#include "bench.h"
#include "list.h"

#define TICK_MS 100u
#define SLOTS 1024u   /* a round is longer than the timeout       */
#define BUDGET 10000u /* timers that fire in one iteration        */

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

/* Returns whether it came to the end of the slot within the budget. What is put
 * back into the slot, for a later round, goes behind that end. */
static int look_at(struct timer *slot, uint64_t now_ms, unsigned *left) {
  struct timer end;

  append(slot, &end);
  while (slot->next != &end && *left > 0) {
    struct timer *timer = slot->next;

    stop_one(timer);
    if (timer->ms >= now_ms) {
      put(timer, timer->ms);
      continue;
    }
    bench_fire(timer);
    --*left;
    if (bench_rearm_ms != 0)
      put(timer, now_ms + bench_rearm_ms);
  }
  take_out(&end);
  return *left > 0;
}

static void on_tick(uv_timer_t *handle) {
  uint64_t now_ms = uv_now(handle->loop);
  unsigned left = BUDGET;

  while (hand < now_ms / TICK_MS &&
         look_at(&slots[(hand + 1) % SLOTS], now_ms, &left))
    hand++;
  uv_timer_start(handle, on_tick, left > 0 ? TICK_MS - now_ms % TICK_MS : 1, 0);
}

static void open_wheel(void) {
  libuv_loop_open();
  for (size_t i = 0; i < SLOTS; i++)
    init_one(&slots[i]);
  hand = uv_now(&bench_loop) / TICK_MS;
  uv_timer_init(&bench_loop, &ticker);
  on_tick(&ticker);
}

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(struct timer)};

const struct rival rival_small = {"50-line wheel",
                                  TRAIT_TIMEOUTS | TRAIT_CHOICE, open_wheel,
                                  &operations, BENCH_LINE};
