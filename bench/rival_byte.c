/* SPDX-License-Identifier: MIT */

/* No links: a table has one byte per connection, the second in which it is due,
 * and once a second memchr looks for those that are due. A connection knows its
 * place in the table. All refreshes have the same timeout, which is less than
 * SECONDS, and a connection ends up to a second late. */

#include "bench.h"

#include <string.h>

#define SECONDS 250u
#define BUDGET 10000u /* connections that end in one iteration */

static unsigned char table[BENCH_MOST_TIMERS]; /* 0: none */
static size_t connections;
static uint64_t swept; /* the last second that memchr has looked for */
static uv_timer_t sweeper;

static unsigned char byte_of(uint64_t second) {
  return (unsigned char)(1 + second % SECONDS);
}

static void set(const uint32_t *place, uint64_t timeout_ms) {
  table[*place] = byte_of((uv_now(&bench_loop) + timeout_ms + 999) / 1000);
}

static void start_one(void *timer) {
  set(timer, libuv_timeout_ms);
}

static void refresh_one(void *timer) {
  set(timer, BENCH_TIMEOUT_MS);
}

static void stop_one(void *timer) {
  table[*(uint32_t *)timer] = 0;
}

static void init_one(void *timer) {
  size_t place =
      (size_t)((char *)timer - bench_arena.base) / bench_arena.stride;

  *(uint32_t *)timer = (uint32_t)place;
  table[place] = 0;
  if (connections <= place)
    connections = place + 1;
}

BENCH_OPERATIONS

/* Returns how much of the budget is left. */
static unsigned sweep(unsigned char due, unsigned left) {
  unsigned char *end = table + connections;
  unsigned char *at = table;

  while (left > 0 && (at = memchr(at, due, (size_t)(end - at))) != NULL) {
    *at = 0;
    bench_fire(bench_arena.base + (size_t)(at - table) * bench_arena.stride);
    left--;
  }
  return left;
}

static void on_second(uv_timer_t *timer) {
  uint64_t now_ms = uv_now(timer->loop);
  unsigned left = BUDGET;

  while (swept < now_ms / 1000 && (left = sweep(byte_of(swept + 1), left)) > 0)
    swept++;
  uv_timer_start(timer, on_second, left > 0 ? 1000 - now_ms % 1000 : 1, 0);
}

static void open_table(void) {
  libuv_loop_open();
  connections = 0;
  swept = uv_now(&bench_loop) / 1000;
  uv_timer_init(&bench_loop, &sweeper);
  on_second(&sweeper);
}

static const struct operations operations = {
    LIBUV_CAN, .timer_bytes = sizeof(uint32_t) + sizeof(table[0])};

const struct rival rival_byte = {"byte + memchr", TRAIT_CHOICE, open_table,
                                 &operations, BENCH_LINE};
