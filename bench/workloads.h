/* SPDX-License-Identifier: MIT */

/* The workloads, the same code for every rival. */

#ifndef BENCH_WORKLOADS_H
#define BENCH_WORKLOADS_H

#include "bench.h"

#include <stddef.h>
#include <stdint.h>

/* The kinds of results. */
enum row {
  ROW_START,
  ROW_EXPECT,
  ROW_REFRESH,
  ROW_STOP,
  ROW_EXPIRE,
  ROW_BYTES,
  ROW_STEADY,
  ROW_CLOSE,
  ROW_SOONEST,
  ROW_BURST,
  ROW_NOTHING_DUE,
  ROW_ONE_DUE,
  ROW_ONE_DUE_FAR,
  ROW_MESSAGE,
  ROW_ADDED,
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
void close_rival(const struct rival *rival);

/* Ends the program unless bench_fired is that count. */
void expect_fired(const struct rival *rival, size_t count);

/* Each runs one workload and adds to the result. */
typedef void workload_fn(const struct rival *rival, const struct orders *orders,
                         struct result *result);
workload_fn workload_operations;
workload_fn workload_steady;
workload_fn workload_all;
workload_fn workload_burst;
workload_fn workload_iterations;
workload_fn workload_messages;

#endif /* BENCH_WORKLOADS_H */
