/* SPDX-License-Identifier: MIT */

/* The figures of wheels for Prometheus, and whatever else reads the OpenMetrics
 * text format. uvwheel.rules.yml has alert rules for them. */

#ifndef EXAMPLES_LIVE_METRICS_H
#define EXAMPLES_LIVE_METRICS_H

#include <stdio.h>

#include "live-wheels.h"

#define LIVE_METRICS_TYPE \
  "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* All figures of all wheels, each with the wheel's name as its label. */
void live_metrics_write(FILE *stream, const live_wheels_t *wheels);

#endif /* EXAMPLES_LIVE_METRICS_H */
