/* SPDX-License-Identifier: MIT */

/* The workloads at the edges: nothing to do, everything at once, one at a time,
 * and far away. */

#include "workloads.h"

#define ITERATIONS 10000u   /* how many are measured                   */
#define PERIOD_MS 100u      /* between those that fire: a wheel's tick */
#define FAR_ITERATIONS 500u /* the same beside far timers              */
#define FAR_MS 3600000u

/* Starts timers that are idle. */
static void start(const struct rival *rival, const uint32_t *order,
                  size_t count, uint64_t timeout_ms) {
  rival->can->set_times(timeout_ms, 0);
  rival->can->start(order, count);
}

/* All are due at the same time. Each iteration of the loop takes 1 ms of
 * virtual time. */
void workload_burst(const struct rival *rival, const struct orders *orders,
                    struct result *result) {
  double longest = 0;

  open_rival(rival, orders);
  start(rival, orders->shuffled[0], orders->n, BENCH_TIMEOUT_MS);
  clock_move_ms(BENCH_TIMEOUT_MS + 1000);
  while (bench_fired < orders->n) {
    uint64_t begin = clock_cpu_ns();
    double ms;

    rival->can->iterate();
    clock_move_ms(1);
    ms = (double)(clock_cpu_ns() - begin) / 1e6;
    if (ms > longest)
      longest = ms;
  }
  add_result(result, ROW_BURST, longest, 1);
  close_rival(rival);
}

/* ---- One iteration of the loop ------------------------------------------- */

/* Starts timers of one to two hours, each at a time of its own. */
static void start_far(const struct rival *rival, const uint32_t *order,
                      size_t count) {
  for (size_t i = 0; i < count; i++)
    start(rival, order + i, 1, FAR_MS + i * FAR_MS / count);
}

/* Iterations in which nothing is due, 1 ms apart. */
static void measure_nothing_due(const struct rival *rival,
                                struct result *result) {
  uint64_t begin;

  rival->can->iterate();
  begin = clock_cpu_ns();
  for (size_t i = 0; i < ITERATIONS; i++) {
    clock_move_ms(1);
    rival->can->iterate();
  }
  add_result(result, ROW_NOTHING_DUE, (double)(clock_cpu_ns() - begin),
             ITERATIONS);
}

/* The loop sleeps until a timer fires, which starts anew. */
static void measure_one_due(const struct rival *rival, struct result *result,
                            const uint32_t *timer) {
  uint64_t begin;

  bench_rearm_ms = PERIOD_MS;
  start(rival, timer, 1, PERIOD_MS);
  rival->can->run(10 * PERIOD_MS);
  bench_fired = 0;
  begin = clock_cpu_ns();
  rival->can->run(ITERATIONS * PERIOD_MS);
  add_result(result, ROW_ONE_DUE, (double)(clock_cpu_ns() - begin),
             (double)bench_fired);
  rival->can->stop(timer, 1);
  bench_rearm_ms = 0;
}

/* A timer is started and fires; then the loop looks for the next one, which is
 * far away. */
static void measure_one_due_far(const struct rival *rival,
                                struct result *result, const uint32_t *timer) {
  uint64_t begin = clock_cpu_ns();

  for (size_t i = 0; i < FAR_ITERATIONS; i++) {
    start(rival, timer, 1, PERIOD_MS);
    rival->can->run(2 * PERIOD_MS);
  }
  add_result(result, ROW_ONE_DUE_FAR, (double)(clock_cpu_ns() - begin),
             FAR_ITERATIONS);
}

/* One iteration of the loop, while all timers are pending and none is due;
 * while only one is pending, and due; and while all others are far away. */
void workload_iterations(const struct rival *rival, const struct orders *orders,
                         struct result *result) {
  const uint32_t *order = orders->shuffled[0];

  open_rival(rival, orders);
  start(rival, order, orders->n, BENCH_TIMEOUT_MS);
  measure_nothing_due(rival, result);
  rival->can->stop(order, orders->n);
  if ((rival->traits & TRAIT_TIMEOUTS) != 0) {
    measure_one_due(rival, result, order);
    start_far(rival, order + 1, orders->n - 1);
    measure_one_due_far(rival, result, order);
  }
  close_rival(rival);
}
