/* SPDX-License-Identifier: MIT */

/* The workloads at the edges: nothing to do, everything at once, far away, and
 * what memory allows. */

#include "workloads.h"

#include "clock.h"

#define IDLE_MS 10000u /* how long an idle loop is watched */
#define DAY_MS 86400000u
#define HOUR_MS 3600000u
#define TRAFFIC 10000u /* short timers beside those that are a day away */
#define TRAFFIC_MS 10000u

/* Starts timers that are idle. */
static void
start(const struct peer *peer, const uint32_t *order, size_t count,
      uint64_t timeout_ms)
{
  peer->can->set_times(timeout_ms, 0);
  peer->can->start(order, count);
}

/* Nothing but timers that are at least 60 s away, for 10 s of real time. */
void
workload_idle(const struct peer *peer, const struct orders *orders,
              struct result *result)
{
  uint64_t begin;

  clock_be_real(1);
  open_peer(peer, orders);
  start(peer, orders->shuffled[0], orders->n, BENCH_TIMEOUT_MS);
  peer->can->turn();
  begin = clock_cpu_ns();
  peer->can->run(IDLE_MS);
  add_result(result, ROW_IDLE, (double)(clock_cpu_ns() - begin) / 1e6, 1);
  close_peer(peer, orders);
  clock_be_real(0);
}

/* All are due at the same time. Each turn of the loop takes 1 ms of virtual
 * time. */
void
workload_burst(const struct peer *peer, const struct orders *orders,
               struct result *result)
{
  double longest = 0;
  double total = 0;

  open_peer(peer, orders);
  start(peer, orders->shuffled[0], orders->n, BENCH_TIMEOUT_MS);
  clock_move_ms(BENCH_TIMEOUT_MS + 1000);
  while (bench_fired < orders->n) {
    uint64_t begin = clock_cpu_ns();
    double ms;

    peer->can->turn();
    clock_move_ms(1);
    ms = (double)(clock_cpu_ns() - begin) / 1e6;
    total += ms;
    if (ms > longest)
      longest = ms;
  }
  add_result(result, ROW_BURST_TURN, longest, 1);
  add_result(result, ROW_BURST_TOTAL, total, 1);
  close_peer(peer, orders);
}

/* libuv's benchmark of the same name: timers lie side by side, and each
 * thousand of them is due 1 ms later than the one before. */
void
workload_million(const struct peer *peer, const struct orders *orders,
                 struct result *result)
{
  struct arena arena = bench_arena;
  size_t n = orders->n;
  uint64_t timeout_ms = 0;
  uint64_t times[4];

  bench_arena.stride = (peer->can->timer_bytes + 7) / 8 * 8;
  bench_rearm_ms = NULL;
  peer->open();
  times[0] = clock_cpu_ns();
  peer->can->init(orders->ordered, n);
  for (size_t i = 0; i < n; i += 1000)
    start(peer, orders->ordered + i, n - i < 1000 ? n - i : 1000, ++timeout_ms);
  times[1] = clock_cpu_ns();
  peer->can->run(timeout_ms + 1000);
  times[2] = clock_cpu_ns();
  peer->can->release(orders->ordered, n);
  peer->can->close();
  times[3] = clock_cpu_ns();
  for (int i = 0; i < 3; i++)
    add_result(result, (enum row)(ROW_MILLION_INIT + i),
               (double)(times[i + 1] - times[i]) / 1e9, 1);
  bench_arena = arena;
}

/* Nearly all timers are a day away; once alone, once beside 10,000 that fire
 * every 10 s, so that the loop has something to do at every tick. */
static double
an_hour(const struct peer *peer, const struct orders *orders, size_t traffic)
{
  size_t n = orders->n;
  size_t step = n / 1000;
  uint64_t begin;
  double ms;

  open_peer(peer, orders);
  for (size_t i = traffic; i < n; i += step)
    start(peer, orders->shuffled[0] + i, n - i < step ? n - i : step,
          DAY_MS + i * 100000 / n);
  for (size_t i = 0; i < traffic; i += 10)
    start(peer, orders->shuffled[0] + i, 10, i * TRAFFIC_MS / TRAFFIC);
  rearm_always(TRAFFIC_MS);
  peer->can->run(TRAFFIC_MS);
  begin = clock_cpu_ns();
  peer->can->run(HOUR_MS);
  ms = (double)(clock_cpu_ns() - begin) / 1e6;
  close_peer(peer, orders);
  return ms;
}

void
workload_day(const struct peer *peer, const struct orders *orders,
             struct result *result)
{
  add_result(result, ROW_DAY_ALONE, an_hour(peer, orders, 0), 1);
  add_result(result, ROW_DAY_TRAFFIC, an_hour(peer, orders, TRAFFIC), 1);
}

/* ---- What memory allows ------------------------------------------------ */

/* Each connection names the next one to read, in one big random circle. */
void
workload_dependent(const struct peer *peer, const struct orders *orders,
                   struct result *result)
{
  const uint32_t *order = orders->shuffled[0];
  size_t n = orders->n;
  size_t at = order[0];
  uint64_t begin;

  for (size_t i = 0; i < n; i++)
    *(volatile uint64_t *)(bench_arena.base + order[i] * bench_arena.stride) =
        order[(i + 1) % n];
  begin = clock_cpu_ns();
  for (size_t i = 0; i < n; i++)
    at = *(volatile uint64_t *)(bench_arena.base + at * bench_arena.stride);
  add_result(result, ROW_DEPENDENT, (double)(clock_cpu_ns() - begin),
             (double)n);
  if (at != order[0])
    bench_die("%s: the circle is broken", peer->name);
}
