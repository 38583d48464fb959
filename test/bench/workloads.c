/* SPDX-License-Identifier: MIT */

#include "workloads.h"

#include "clock.h"

#include <malloc.h>
#include <stdlib.h>

#define RAMP_MS 10000u    /* time that goes by while all are started once   */
#define REFRESH_MS 10000u /* mean time between two refreshes of a timer     */
#define IDLE_MS 10000u    /* how long an idle loop is watched               */
#define DAY_MS 86400000u
#define HOUR_MS 3600000u
#define TRAFFIC 10000u /* short timers beside those that are a day away  */
#define TRAFFIC_MS 10000u

const struct row_info bench_rows[ROW_COUNT] = {
    [ROW_START_ORDERED] = {"start in memory order", "ns"},
    [ROW_START_SHUFFLED] = {"start shuffled", "ns"},
    [ROW_REFRESH_RANDOM] = {"refresh random", "ns"},
    [ROW_REFRESH_HOT] = {"refresh hot", "ns"},
    [ROW_RESTART_SHUFFLED] = {"restart shuffled", "ns"},
    [ROW_AGAIN_RANDOM] = {"again random", "ns"},
    [ROW_STOP_SHUFFLED] = {"stop shuffled", "ns"},
    [ROW_EXPIRE] = {"expire", "ns"},
    [ROW_STEADY] = {"steady server", "ns"},
    [ROW_DEPENDENT] = {"dependent read", "ns"},
    [ROW_BYTES] = {"memory per timer", "bytes"},
    [ROW_EMPTY_BYTES] = {"memory when empty", "bytes"},
    [ROW_BURST_TURN] = {"longest turn", "ms"},
    [ROW_BURST_TOTAL] = {"all due at once", "ms"},
    [ROW_IDLE] = {"idle for 10 s", "ms"},
    [ROW_MILLION_INIT] = {"ten million init", "s"},
    [ROW_MILLION_DISPATCH] = {"ten million dispatch", "s"},
    [ROW_MILLION_STOP] = {"ten million stop", "s"},
    [ROW_DAY_ALONE] = {"a day away", "ms"},
    [ROW_DAY_TRAFFIC] = {"a day away with traffic", "ms"},
};

static void
add(struct result *result, enum row row, double total, double count)
{
  result->total[row] += total;
  result->count[row] += count;
}

/* ---- The operations, one by one ---------------------------------------- */

/* Between two looks at the clock a server handles the traffic of 10 ms, or of
 * 100 connections if that is more. */
static size_t
batch_of(size_t n)
{
  return n / 1000 > 100 ? n / 1000 : 100;
}

typedef void (*operation)(const uint32_t *order, size_t count);

/* One operation on every timer of the order while span_ms go by. Returns the
 * CPU time in ns. */
static double
sweep(operation operate, void (*after_batch)(void), const uint32_t *order,
      size_t n, uint64_t span_ms)
{
  size_t batch = batch_of(n);
  uint64_t begin = clock_cpu_ns();

  for (size_t i = 0; i < n; i += batch) {
    operate(order + i, n - i < batch ? n - i : batch);
    clock_move_ms(span_ms * batch / n);
    after_batch();
  }
  return (double)(clock_cpu_ns() - begin);
}

/* start has one argument more than the rest. */
static const struct peer *starting;

static void
start_for_idle(const uint32_t *order, size_t count)
{
  starting->can->start(order, count, BENCH_TIMEOUT_MS);
}

static double
sweep_start(const struct peer *peer, void (*after_batch)(void),
            const uint32_t *order, size_t n, uint64_t span_ms)
{
  starting = peer;
  return sweep(start_for_idle, after_batch, order, n, span_ms);
}

static void
open_peer(const struct peer *peer, const struct orders *orders)
{
  bench_fired = 0;
  bench_rearm_ms = 0;
  peer->open();
  peer->can->init(orders->ordered, orders->n);
}

static void
close_peer(const struct peer *peer, const struct orders *orders)
{
  peer->can->stop(orders->ordered, orders->n);
  peer->can->release(orders->ordered, orders->n);
  peer->can->close();
}

static double
allocated(void)
{
  struct mallinfo2 info = mallinfo2();

  return (double)info.uordblks + (double)info.hblkhd;
}

/* In a server with traffic, the order in which timers are due has nothing to
 * do with the order in which they were started: the due times are random
 * within 10 s. Where all timers must have the same timeout they remain as
 * `start shuffled` has left them. */
static void
expire_all(const struct peer *peer, const struct orders *orders,
           struct result *result)
{
  size_t n = orders->n;
  uint64_t seed = 362436069;
  uint64_t begin;

  bench_fired = 0;
  if ((peer->traits & TRAIT_ONE_TIMEOUT) == 0) {
    peer->can->stop(orders->ordered, n);
    for (size_t i = 0; i < n; i++)
      peer->can->start(orders->shuffled[1] + i, 1,
                       BENCH_TIMEOUT_MS - random_below(&seed, RAMP_MS));
  }
  begin = clock_cpu_ns();
  peer->can->run(BENCH_TIMEOUT_MS + 1000);
  add(result, ROW_EXPIRE, (double)(clock_cpu_ns() - begin), (double)n);
  if (bench_fired != n)
    bench_die("%s: %zu timers were to expire, %llu did", peer->name, n,
              (unsigned long long)bench_fired);
}

static void
refresh_all(const struct peer *peer, const struct orders *orders,
            struct result *result)
{
  size_t n = orders->n;

  add(result, ROW_REFRESH_RANDOM,
      sweep(peer->can->refresh, peer->can->advance, orders->random, n,
            REFRESH_MS),
      (double)n);
  add(result, ROW_REFRESH_HOT,
      sweep(peer->can->refresh, peer->can->advance, orders->hot, n, REFRESH_MS),
      (double)n);
  if (peer->can->restart == NULL)
    return;
  add(result, ROW_RESTART_SHUFFLED,
      sweep(peer->can->restart, peer->can->advance, orders->shuffled[1], n,
            REFRESH_MS),
      (double)n);
  add(result, ROW_AGAIN_RANDOM,
      sweep(peer->can->again, peer->can->advance, orders->random, n,
            REFRESH_MS),
      (double)n);
}

void
workload_operations(const struct peer *peer, const struct orders *orders,
                    struct result *result)
{
  size_t n = orders->n;
  double before = allocated();
  double empty;

  open_peer(peer, orders);
  empty = allocated();
  add(result, ROW_EMPTY_BYTES, empty - before, 1);
  add(result, ROW_START_ORDERED,
      sweep_start(peer, peer->can->advance, orders->ordered, n, RAMP_MS),
      (double)n);
  add(result, ROW_BYTES,
      (double)peer->can->timer_bytes * (double)n + allocated() - empty,
      (double)n);
  refresh_all(peer, orders, result);
  add(result, ROW_STOP_SHUFFLED,
      sweep(peer->can->stop, peer->can->advance, orders->shuffled[0], n,
            RAMP_MS),
      (double)n);
  if (bench_wanted(ROW_START_SHUFFLED) || bench_wanted(ROW_EXPIRE))
    add(result, ROW_START_SHUFFLED,
        sweep_start(peer, peer->can->advance, orders->shuffled[1], n, RAMP_MS),
        (double)n);
  peer->can->turn();
  if (bench_wanted(ROW_EXPIRE) && peer->can->run != NULL)
    expire_all(peer, orders, result);
  close_peer(peer, orders);
}

/* ---- A server ---------------------------------------------------------- */

/* Connections come for 50 s and from then on have traffic every 10 s, some
 * sooner, some later, never later than 20 s. */
void
workload_steady(const struct peer *peer, const struct orders *orders,
                struct result *result)
{
  size_t n = orders->n;
  double ns;

  open_peer(peer, orders);
  sweep_start(peer, peer->can->turn, orders->ordered, n,
              BENCH_TIMEOUT_MS - REFRESH_MS);
  sweep(peer->can->refresh, peer->can->turn, orders->shuffled[0], n,
        REFRESH_MS);
  ns = sweep(peer->can->refresh, peer->can->turn, orders->shuffled[1], n,
             REFRESH_MS);
  ns += sweep(peer->can->refresh, peer->can->turn, orders->shuffled[0], n,
              REFRESH_MS);
  add(result, ROW_STEADY, ns, 2 * (double)n);
  if (bench_fired != 0)
    bench_die("%s: a timer with traffic fired", peer->name);
  close_peer(peer, orders);
}

/* Nothing but timers that are at least 60 s away, for 10 s of real time. */
void
workload_idle(const struct peer *peer, const struct orders *orders,
              struct result *result)
{
  uint64_t begin;

  clock_be_real(1);
  open_peer(peer, orders);
  peer->can->start(orders->shuffled[0], orders->n, BENCH_TIMEOUT_MS);
  peer->can->turn();
  begin = clock_cpu_ns();
  peer->can->run(IDLE_MS);
  add(result, ROW_IDLE, (double)(clock_cpu_ns() - begin) / 1e6, 1);
  close_peer(peer, orders);
  clock_be_real(0);
}

/* All are due at the same time, and the loop comes to know it. Each of its
 * turns takes 1 ms of virtual time. */
void
workload_burst(const struct peer *peer, const struct orders *orders,
               struct result *result)
{
  double longest = 0;
  double total = 0;

  open_peer(peer, orders);
  peer->can->start(orders->shuffled[0], orders->n, BENCH_TIMEOUT_MS);
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
  add(result, ROW_BURST_TURN, longest, 1);
  add(result, ROW_BURST_TOTAL, total, 1);
  close_peer(peer, orders);
}

/* libuv's benchmark of the same name: timers lie side by side, and every
 * thousand of them are due 1 ms later than those before. */
void
workload_million(const struct peer *peer, const struct orders *orders,
                 struct result *result)
{
  struct arena arena = bench_arena;
  size_t n = orders->n;
  uint64_t timeout_ms = 0;
  uint64_t times[4];

  bench_arena.stride = (peer->can->timer_bytes + 7) / 8 * 8;
  bench_rearm_ms = 0;
  peer->open();
  times[0] = clock_cpu_ns();
  peer->can->init(orders->ordered, n);
  for (size_t i = 0; i < n; i += 1000)
    peer->can->start(orders->ordered + i, n - i < 1000 ? n - i : 1000,
                     ++timeout_ms);
  times[1] = clock_cpu_ns();
  peer->can->run(timeout_ms + 1000);
  times[2] = clock_cpu_ns();
  peer->can->release(orders->ordered, n);
  peer->can->close();
  times[3] = clock_cpu_ns();
  for (int i = 0; i < 3; i++)
    add(result, (enum row)(ROW_MILLION_INIT + i),
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
    peer->can->start(orders->shuffled[0] + i, n - i < step ? n - i : step,
                     DAY_MS + i * 100000 / n);
  for (size_t i = 0; i < traffic; i += 10)
    peer->can->start(orders->shuffled[0] + i, 10, i * TRAFFIC_MS / TRAFFIC);
  bench_rearm_ms = TRAFFIC_MS;
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
  add(result, ROW_DAY_ALONE, an_hour(peer, orders, 0), 1);
  add(result, ROW_DAY_TRAFFIC, an_hour(peer, orders, TRAFFIC), 1);
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
  add(result, ROW_DEPENDENT, (double)(clock_cpu_ns() - begin), (double)n);
  if (at != order[0])
    bench_die("%s: the circle is broken", peer->name);
}
