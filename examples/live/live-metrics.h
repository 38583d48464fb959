/* SPDX-License-Identifier: MIT */

/* The statistics of a wheel for Prometheus and what else reads the OpenMetrics
 * text format. */

#ifndef EXAMPLES_LIVE_METRICS_H
#define EXAMPLES_LIVE_METRICS_H

#include <stddef.h>

#include <uvwheel.h>

#define LIVE_METRICS_TYPE \
  "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define LIVE_MAX_METRICS 8192

/* Writes all of them, at most LIVE_MAX_METRICS bytes. Returns the length. */
size_t live_metrics_write(const uvwheel_stats_t *stats, char *text);

#endif /* EXAMPLES_LIVE_METRICS_H */
