/* SPDX-License-Identifier: MIT */

/* One operation on 10,000 timers, for bench/callgrind, which counts the
 * instructions inside `measured`. */

#include "bench.h"

#include "clock.h"
#include "memory.h"

#include <stdio.h>
#include <string.h>

#define TIMERS 10000u
#define FIRE_MS 100u /* between two timers that fire one by one */
#define FIRE 500u    /* so many, less than a round of the wheel */

static const struct peer *peers[] = {&peer_floor_by_call, &peer_uvwheel,
                                     &peer_libuv};

static const struct peer *peer;
static struct orders orders;

static void
expire(const uint32_t *order, size_t count)
{
  (void)order;
  (void)count;
  if (peer->can->run != NULL)
    peer->can->run(BENCH_TIMEOUT_MS + 1000);
}

/* Turns of the loop that fire one timer each. */
static void
turn_by_turn(const uint32_t *order, size_t count)
{
  (void)order;
  for (size_t i = 0; i < count; i++) {
    clock_move_ms(FIRE_MS);
    peer->can->turn();
  }
}

/* The command line of callgrind names it, with what the compiler appends. */
__attribute__((noinline)) static void
measured(operation_fn operate, const uint32_t *order, size_t count)
{
  if (operate != NULL)
    operate(order, count);
}

static void
measure(operation_fn operate, const uint32_t *order)
{
  measured(operate, order, TIMERS);
}

/* Connections come for 10 s, as in the benchmark. */
static void
start_all(uint64_t repeat_ms)
{
  peer->can->set_times(BENCH_TIMEOUT_MS, repeat_ms);
  for (size_t i = 0; i < TIMERS; i += 100) {
    peer->can->start(orders.shuffled[1] + i, 100);
    clock_move_ms(100);
    peer->can->advance();
  }
}

static void
fire_one_by_one(void)
{
  for (size_t i = 0; i < TIMERS; i += FIRE) {
    for (size_t j = 0; j < FIRE; j++) {
      peer->can->set_times((j + 1) * FIRE_MS - FIRE_MS / 2, 0);
      peer->can->start(orders.shuffled[1] + i + j, 1);
    }
    measured(turn_by_turn, NULL, FIRE);
  }
}

static void
operate(const char *name)
{
  const struct operations *can = peer->can;

  can->set_times(BENCH_TIMEOUT_MS, 0);
  if (strcmp(name, "start") == 0) {
    measure(can->start, orders.shuffled[0]);
  } else if (strcmp(name, "start-repeat") == 0) {
    can->set_times(BENCH_TIMEOUT_MS, BENCH_TIMEOUT_MS);
    measure(can->start, orders.shuffled[0]);
  } else if (strcmp(name, "again") == 0) {
    start_all(BENCH_TIMEOUT_MS);
    measure(can->again, orders.random);
  } else if (strcmp(name, "fire-one") == 0) {
    fire_one_by_one();
  } else {
    start_all(0);
    if (strcmp(name, "refresh") == 0)
      measure(can->refresh, orders.random);
    else if (strcmp(name, "restart") == 0)
      measure(can->start, orders.random);
    else if (strcmp(name, "stop") == 0)
      measure(can->stop, orders.shuffled[0]);
    else if (strcmp(name, "stop-start") == 0)
      measure(can->stop_start, orders.random);
    else if (strcmp(name, "expire") == 0)
      measure(expire, orders.ordered);
    else
      bench_die("%s: no such operation", name);
  }
}

int
main(int argc, char **argv)
{
  if (argc != 3)
    bench_die("usage: instructions PEER OPERATION");
  for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
    if (strcmp(peers[i]->name, argv[1]) == 0)
      peer = peers[i];
  if (peer == NULL)
    bench_die("%s: no such peer", argv[1]);
  arena_make(TIMERS);
  orders_make(&orders, TIMERS);
  peer->open();
  peer->can->init(orders.ordered, TIMERS);
  operate(argv[2]);
  orders_free(&orders);
  return 0;
}
