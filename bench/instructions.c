/* SPDX-License-Identifier: MIT */

/* One operation on some timers, for bench/callgrind, which counts the
 * instructions inside `measured`. Prints how often it was done. */

#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS 1000u
#define PERIOD_MS 100u /* between two timers that fire: a wheel's tick */
#define WEEK_MS (7 * 24 * 3600000u)

static const struct rival *rivals[] = {&rival_uvwheel, &rival_uvwheel_fine,
                                       &rival_lazy, &rival_libuv};

static const struct operations *can;
static struct orders orders;

/* ---- What is counted ----------------------------------------------------- */

static void expire(const uint32_t *order, size_t count) {
  (void)order, (void)count;
  can->run(WEEK_MS + 1000);
}

/* Iterations of the loop in which nothing is due. */
static void iterate(const uint32_t *order, size_t count) {
  (void)order;
  for (size_t i = 0; i < count; i++) {
    clock_move_ms(1);
    can->iterate();
  }
}

/* Iterations of the loop in which a timer fires that starts anew. */
static void fire(const uint32_t *order, size_t count) {
  (void)order;
  can->run(count * PERIOD_MS);
}

/* The command line of callgrind names it, with what the compiler appends. */
__attribute__((noinline)) static void
measured(operation_fn operate, const uint32_t *order, size_t count) {
  operate(order, count);
}

static void can_or_die(operation_fn operation) {
  if (operation == NULL)
    bench_die("the rival cannot");
}

/* ---- Before it ----------------------------------------------------------- */

/* Connections come for 10 s, as in the benchmark. */
static void start_over_10_s(uint64_t repeat_ms) {
  size_t batch = orders.n / 100;

  can->set_times(BENCH_TIMEOUT_MS, repeat_ms);
  for (size_t i = 0; i + batch <= orders.n; i += batch) {
    can->start(orders.shuffled[1] + i, batch);
    clock_move_ms(100);
    can->advance();
  }
}

static void start_all(void) {
  start_over_10_s(0);
}

/* What a server's timers are most of the time: refreshed before. */
static void start_and_refresh(void) {
  start_all();
  can->refresh(orders.shuffled[0], orders.n);
}

static void start_repeating(void) {
  can_or_die(can->again);
  start_over_10_s(BENCH_TIMEOUT_MS);
  can->again(orders.shuffled[0], orders.n);
}

static void start_week(void) {
  uint64_t seed = 362436069;

  for (size_t i = 0; i < orders.n; i++) {
    can->set_times(1 + random_below(&seed, WEEK_MS), 0);
    can->start(orders.ordered + i, 1);
  }
}

/* The first one, which will start again and again. */
static void start_one(void) {
  bench_rearm_ms = PERIOD_MS;
  can->set_times(PERIOD_MS, 0);
  can->start(orders.ordered, 1);
  fire(NULL, 10);
}

/* ---- The operations ------------------------------------------------------ */

static void operate(const char *name) {
  const struct {
    const char *name;
    void (*before)(void);
    operation_fn operate;
    const uint32_t *order;
    size_t count;
  } operations[] = {
      {"start", NULL, can->start, orders.shuffled[0], orders.n},
      {"expect", NULL, can->expect, orders.shuffled[0], orders.n},
      {"refresh", start_and_refresh, can->refresh, orders.random, orders.n},
      {"restart", start_all, can->start, orders.random, orders.n},
      {"again", start_repeating, can->again, orders.random, orders.n},
      {"stop", start_all, can->stop, orders.shuffled[0], orders.n},
      {"expire", start_all, expire, NULL, orders.n},
      {"iteration", start_all, iterate, NULL, ITERATIONS},
      {"fire-one", start_one, fire, NULL, ITERATIONS},
      {"week", start_week, expire, NULL, orders.n},
  };

  can->set_times(BENCH_TIMEOUT_MS, 0);
  for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
    if (strcmp(operations[i].name, name) == 0) {
      can_or_die(operations[i].operate);
      if (operations[i].before != NULL)
        operations[i].before();
      measured(operations[i].operate, operations[i].order, operations[i].count);
      printf("%zu\n", operations[i].count);
      return;
    }
  bench_die("%s: no such operation", name);
}

int main(int argc, char **argv) {
  const struct rival *rival = NULL;
  size_t n;

  if (argc != 4)
    bench_die("usage: instructions RIVAL OPERATION TIMERS");
  for (size_t i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++)
    if (strcmp(rivals[i]->name, argv[1]) == 0)
      rival = rivals[i];
  if (rival == NULL)
    bench_die("%s: no such rival", argv[1]);
  n = strtoul(argv[3], NULL, 10);
  arena_make(n);
  orders_make(&orders, n);
  arena_place(rival->offset);
  rival->open();
  can = rival->can;
  can->init(orders.ordered, n);
  operate(argv[2]);
  orders_free(&orders);
  return 0;
}
