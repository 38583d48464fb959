/* SPDX-License-Identifier: MIT */

/* The workloads, the same code for every rival. bench.c says what they are. */

#ifndef BENCH_WORKLOADS_H
#define BENCH_WORKLOADS_H

#include "bench.h"
#include "memory.h"

#include <stddef.h>
#include <stdint.h>

/* The kinds of results. */
enum row {
  ROW_START_ORDERED,
  ROW_START_SHUFFLED,
  ROW_REFRESH_RANDOM,
  ROW_REFRESH_HOT,
  ROW_RESTART_RANDOM,
  ROW_AGAIN_RANDOM,
  ROW_STOP_SHUFFLED,
  ROW_STOP_START,
  ROW_START_MIXED,
  ROW_STOP_START_MIXED,
  ROW_EXPIRE,
  ROW_BYTES,
  ROW_EMPTY_BYTES,
  ROW_STEADY,
  ROW_REQUEST,
  ROW_CHURN,
  ROW_FIRE,
  ROW_BURST_ITERATION,
  ROW_BURST_TOTAL,
  ROW_IDLE,
  ROW_NOTHING_DUE,
  ROW_ONE_DUE,
  ROW_ONE_DUE_FAR,
  ROW_WEEK,
  ROW_COUNT
};

struct row_info {
  const char *name;
  const char *unit;
};

extern const struct row_info bench_rows[ROW_COUNT];

/* Is the row asked for? */
int bench_wanted(enum row row);

/* Sums of one repetition; a row is reported as total / count. */
struct result {
  double total[ROW_COUNT];
  double count[ROW_COUNT];
};

void add_result(struct result *result, enum row row, double total,
                double count);

/* A loop, its timers initialised; the callbacks have not fired anything. */
void open_rival(const struct rival *rival, const struct orders *orders);
void close_rival(const struct rival *rival, const struct orders *orders);

/* Ends the program unless bench_fired is that count. */
void expect_fired(const struct rival *rival, size_t count);

/* Each runs one workload and adds to the result. */
typedef void workload_fn(const struct rival *rival, const struct orders *orders,
                         struct result *result);
workload_fn workload_operations;
workload_fn workload_steady;
workload_fn workload_request;
workload_fn workload_churn;
workload_fn workload_fire;
workload_fn workload_burst;
workload_fn workload_idle;
workload_fn workload_iterations;
workload_fn workload_week;

#endif /* BENCH_WORKLOADS_H */
