/* SPDX-License-Identifier: MIT */

/* The reports of the wheels: to the live page frames of JSON; to Prometheus
 * metrics in its text format, with each wheel's name as a label.
 * uvwheel.rules.yml has alert rules for them, uvwheel.dashboard.json shows them
 * in Grafana. */

#ifndef EXAMPLES_LIVE_REPORT_H
#define EXAMPLES_LIVE_REPORT_H

#include <stdio.h>

#include "live-wheels.h"

/* The facts that the wheels do not know. */
typedef struct live_facts_s {
  uint64_t timeout_ms;
  uint64_t page_ms; /* the page's clock, by which wheels are judged */
  uint64_t uptime_ms;
} live_facts_t;

void live_frame_write(FILE *stream, const live_wheels_t *wheels, size_t chosen,
                      const live_facts_t *facts);

#define LIVE_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void live_metrics_write(FILE *stream, const live_wheels_t *wheels);

#endif /* EXAMPLES_LIVE_REPORT_H */
