/* SPDX-License-Identifier: MIT */

#include "workloads.h"

#include <malloc.h>

#define RAMP_MS 10000u    /* time that passes while all are started once */
#define REFRESH_MS 10000u /* mean time between two refreshes of a timer  */
#define TICK_MS 100u

/* Few timers are used again and again, on the same loop, until there is
 * something to measure. */
#define ENOUGH_TIMERS 200000u
#define ENOUGH_REPETITIONS 500u
#define ENOUGH_NS 300000000u

const struct row_info bench_rows[ROW_COUNT] = {
    [ROW_REFRESH] = {"refresh random", "ns"},
    [ROW_START] = {"start shuffled", "ns"},
    [ROW_EXPECT] = {"expect shuffled", "ns"},
    [ROW_STOP] = {"stop shuffled", "ns"},
    [ROW_EXPIRE] = {"expire", "ns"},
    [ROW_BYTES] = {"memory per timer", "bytes"},
    [ROW_STEADY] = {"steady server", "ns"},
    [ROW_CLOSE] = {"close", "ns"},
    [ROW_SOONEST] = {"fire_soonest", "ns"},
    [ROW_BURST] = {"longest iteration", "ms"},
    [ROW_NOTHING_DUE] = {"nothing due", "ns"},
    [ROW_ONE_DUE] = {"one due", "ns"},
    [ROW_ONE_DUE_FAR] = {"one due beside far ones", "ns"},
    [ROW_MESSAGE] = {"message without timers", "us"},
    [ROW_ADDED] = {"timer per message", "us"},
};

void add_result(struct result *result, enum row row, double total,
                double count) {
  result->total[row] += total;
  result->count[row] += count;
}

static void open_empty(const struct rival *rival) {
  bench_fired = 0;
  bench_rearm_ms = 0;
  arena_place(rival->offset);
  rival->open();
}

void open_rival(const struct rival *rival, const struct orders *orders) {
  open_empty(rival);
  rival->can->init(orders->ordered, orders->n);
}

void expect_fired(const struct rival *rival, size_t count) {
  if (bench_fired != count)
    bench_die("%s: %zu timers were to fire, %llu did", rival->name, count,
              (unsigned long long)bench_fired);
}

void close_rival(const struct rival *rival) {
  if (rival->can->release != NULL)
    rival->can->release();
  rival->can->close();
}

/* Does a workload that handles n timers each time run again? */
static int goes_on(size_t n, size_t done, uint64_t since_ns) {
  if (done == 0)
    return 1;
  return done * n < ENOUGH_TIMERS && done < ENOUGH_REPETITIONS &&
         clock_cpu_ns() - since_ns < ENOUGH_NS;
}

/* ---- The operations, one by one ---------------------------------------- */

/* An operation on every timer of the order while span_ms pass; at least a batch
 * between two looks at the clock. Returns the CPU time in ns. */
static double go_through(operation_fn operate, void (*after_batch)(void),
                         const uint32_t *order, size_t count, size_t batch,
                         uint64_t span_ms) {
  uint64_t begin = clock_cpu_ns();

  if (batch > count)
    batch = count;
  for (size_t i = 0; i < count; i += batch) {
    operate(order + i, count - i < batch ? count - i : batch);
    clock_move_ms(span_ms * batch / count);
    after_batch();
  }
  return (double)(clock_cpu_ns() - begin);
}

static void nothing(const uint32_t *order, size_t count) {
  (void)order, (void)count;
}

/* Between two looks at the clock a server handles the traffic of 10 ms, or of
 * 100 connections if that is more. */
static size_t batch_of(size_t count) {
  return count / 1000 > 100 ? count / 1000 : 100;
}

/* The time of the looks at the clock alone is subtracted. Afterwards the loop
 * runs once, so that the next operation finds it up to date. */
static void measure(const struct rival *rival, struct result *result,
                    enum row row, operation_fn operate, const uint32_t *order,
                    size_t count, size_t batch) {
  void (*advance)(void) = rival->can->advance;
  double rest = go_through(nothing, advance, order, count, batch, 0);
  double ns = go_through(operate, advance, order, count, batch, REFRESH_MS);

  add_result(result, row, ns - rest, (double)count);
  rival->can->iterate();
}

/* Timers are started with a look at the clock at each millisecond at which
 * there is one to start, since it matters how many of them share a slot. */
static size_t starts_batch(size_t count) {
  return count > RAMP_MS ? count / RAMP_MS : 1;
}

static double allocated(void) {
  struct mallinfo2 info = mallinfo2();

  return (double)info.uordblks + (double)info.hblkhd;
}

/* In a server with traffic, the order in which timers are due has nothing to
 * do with the order in which they were started: the due times are random
 * within 10 s. Where all timers must have the same timeout they remain as they
 * were started. Only those seconds are measured, and the tick before them. */
static void expire_all(const struct rival *rival, const struct orders *orders,
                       struct result *result) {
  size_t n = orders->n;
  uint64_t seed = 362436069;
  uint64_t begin;

  bench_fired = 0;
  if ((rival->traits & TRAIT_TIMEOUTS) != 0) {
    rival->can->stop(orders->ordered, n);
    for (size_t i = 0; i < n; i++) {
      rival->can->set_times(BENCH_TIMEOUT_MS - random_below(&seed, RAMP_MS), 0);
      rival->can->start(orders->shuffled[1] + i, 1);
    }
  }
  rival->can->run(BENCH_TIMEOUT_MS - RAMP_MS - TICK_MS);
  begin = clock_cpu_ns();
  rival->can->run(RAMP_MS + 1000 + 2 * TICK_MS);
  add_result(result, ROW_EXPIRE, (double)(clock_cpu_ns() - begin), (double)n);
  expect_fired(rival, n);
}

/* Every operation once; all timers are idle before and afterwards. */
static void operate_once(const struct rival *rival, const struct orders *orders,
                         struct result *result) {
  const struct operations *can = rival->can;
  size_t n = orders->n;

  can->set_times(BENCH_TIMEOUT_MS, 0);
  measure(rival, result, ROW_START, can->start, orders->shuffled[1], n,
          starts_batch(n));
  if (bench_wanted(ROW_REFRESH)) {
    can->refresh(orders->shuffled[1], n); /* the first one is not measured */
    measure(rival, result, ROW_REFRESH, can->refresh, orders->random, n,
            batch_of(n));
  }
  measure(rival, result, ROW_STOP, can->stop, orders->shuffled[0], n,
          batch_of(n));
  if (can->expect != NULL && bench_wanted(ROW_EXPECT)) {
    measure(rival, result, ROW_EXPECT, can->expect, orders->shuffled[1], n,
            starts_batch(n));
    can->stop(orders->ordered, n);
  }
  if (!bench_wanted(ROW_EXPIRE))
    return;
  go_through(can->start, can->advance, orders->shuffled[1], n, starts_batch(n),
             RAMP_MS);
  expire_all(rival, orders, result);
}

static void weigh(const struct rival *rival, const struct orders *orders,
                  struct result *result) {
  double empty;

  open_empty(rival);
  empty = allocated();
  rival->can->init(orders->ordered, orders->n);
  rival->can->set_times(BENCH_TIMEOUT_MS, 0);
  rival->can->start(orders->ordered, orders->n);
  add_result(result, ROW_BYTES,
             (double)rival->can->timer_bytes * (double)orders->n + allocated() -
                 empty,
             (double)orders->n);
  close_rival(rival);
}

void workload_operations(const struct rival *rival, const struct orders *orders,
                         struct result *result) {
  uint64_t begin = clock_cpu_ns();

  if (bench_wanted(ROW_BYTES))
    weigh(rival, orders, result);
  open_rival(rival, orders);
  for (size_t done = 0; goes_on(orders->n, done, begin); done++)
    operate_once(rival, orders, result);
  close_rival(rival);
}

/* What one call does to all timers, which were started in random order: it
 * closes them, or fires the first since all of them, due at one tick, were
 * refreshed. */
static void measure_call(const struct rival *rival, const struct orders *orders,
                         void (*call)(void), struct result *result,
                         enum row row) {
  const struct operations *can = rival->can;
  size_t n = orders->n;
  uint64_t begin;

  if (call == NULL || !bench_wanted(row))
    return;
  open_rival(rival, orders);
  can->set_times(BENCH_TIMEOUT_MS, 0);
  go_through(can->start, can->advance, orders->shuffled[0], n, starts_batch(n),
             row == ROW_SOONEST ? 0 : RAMP_MS);
  if (row == ROW_SOONEST) {
    clock_move_ms(REFRESH_MS);
    can->advance();
    can->refresh(orders->shuffled[1], n);
  }
  begin = clock_cpu_ns();
  call();
  add_result(result, row, (double)(clock_cpu_ns() - begin), (double)n);
  close_rival(rival);
}

void workload_all(const struct rival *rival, const struct orders *orders,
                  struct result *result) {
  const struct operations *can = rival->can;
  uint64_t begin = clock_cpu_ns();

  for (size_t done = 0; goes_on(orders->n, done, begin); done++) {
    measure_call(rival, orders, can->release, result, ROW_CLOSE);
    measure_call(rival, orders, can->fire_soonest, result, ROW_SOONEST);
  }
}

/* ---- Servers ----------------------------------------------------------- */

/* Connections come for 50 s and from then on have traffic every 10 s, some
 * sooner, some later, never later than 20 s. It is measured once each timer
 * should have fired, and the hand of a wheel has moved it instead. */
void workload_steady(const struct rival *rival, const struct orders *orders,
                     struct result *result) {
  const struct operations *can = rival->can;
  size_t n = orders->n;
  uint64_t begin;

  open_rival(rival, orders);
  can->set_times(BENCH_TIMEOUT_MS, 0);
  go_through(can->start, can->iterate, orders->shuffled[1], n, batch_of(n),
             BENCH_TIMEOUT_MS - REFRESH_MS);
  for (size_t i = 0; i < BENCH_TIMEOUT_MS / REFRESH_MS; i++)
    go_through(can->refresh, can->iterate, orders->shuffled[i % 2], n,
               batch_of(n), REFRESH_MS);
  begin = clock_cpu_ns();
  for (size_t done = 0; done % 2 == 1 || goes_on(n, done, begin); done++)
    add_result(result, ROW_STEADY,
               go_through(can->refresh, can->iterate,
                          orders->shuffled[done % 2], n, batch_of(n),
                          REFRESH_MS),
               (double)n);
  expect_fired(rival, 0);
  close_rival(rival);
}
