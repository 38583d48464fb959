/* SPDX-License-Identifier: MIT */

/* One operation on 10,000 timers, for test/bench/callgrind, which counts the
 * instructions inside `measured`. */

#include "bench.h"

#include "clock.h"
#include "memory.h"

#include <stdio.h>
#include <string.h>

#define TIMERS 10000u

static const struct peer *peers[] = {&peer_floor_by_call, &peer_uvwheel,
                                     &peer_libuv};

static const struct peer *peer;
static struct orders orders;

static void
start(const uint32_t *order, size_t count)
{
  peer->can->start(order, count, BENCH_TIMEOUT_MS);
}

static void
expire(const uint32_t *order, size_t count)
{
  (void)order;
  (void)count;
  if (peer->can->run != NULL)
    peer->can->run(BENCH_TIMEOUT_MS + 1000);
}

/* Named on the command line of callgrind. */
__attribute__((noinline)) static void
measured(void (*operate)(const uint32_t *order, size_t count),
         const uint32_t *order)
{
  operate(order, TIMERS);
}

/* Connections come for 10 s, as in the benchmark. */
static void
start_all(void)
{
  for (size_t i = 0; i < TIMERS; i += 100) {
    start(orders.shuffled[1] + i, 100);
    clock_move_ms(100);
    peer->can->advance();
  }
}

static void
operate(const char *name)
{
  if (strcmp(name, "start") == 0) {
    measured(start, orders.shuffled[0]);
    return;
  }
  start_all();
  if (strcmp(name, "refresh") == 0)
    measured(peer->can->refresh, orders.random);
  else if (strcmp(name, "stop") == 0)
    measured(peer->can->stop, orders.shuffled[0]);
  else if (strcmp(name, "expire") == 0)
    measured(expire, orders.ordered);
  else
    bench_die("%s: not start, refresh, stop or expire", name);
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
