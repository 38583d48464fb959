/* SPDX-License-Identifier: MIT */

#include "live-wheels.h"

#include <inttypes.h>

/* A time in seconds, without the rounding of a double. */
static void
put_value(FILE *stream, uint64_t number, live_unit_t unit)
{
  if (unit == LIVE_ONE)
    fprintf(stream, "%" PRIu64, number);
  else
    fprintf(stream, "%" PRIu64 ".%0*" PRIu64, number / unit,
            unit == LIVE_MS ? 3 : 6, number % unit);
}

static void
put_head(FILE *stream, const char *name, const char *type, const char *help,
         const char *worry)
{
  fprintf(stream, "# HELP uvwheel_%s %s%s%s\n", name, help,
          worry != NULL ? " " : "", worry != NULL ? worry : "");
  fprintf(stream, "# TYPE uvwheel_%s %s\n", name, type);
}

static void
put_sample(FILE *stream, const char *name, const live_view_t *view,
           uint64_t number, live_unit_t unit)
{
  fprintf(stream, "uvwheel_%s{wheel=\"%s\"} ", name, view->wheel.name);
  put_value(stream, number, unit);
  fputc('\n', stream);
}

/* The format wants all samples of a metric in one place, so each metric goes
 * through the wheels. */
static void
put_figure(FILE *stream, const live_wheels_t *wheels,
           const live_figure_t *figure)
{
  int is_counter = figure->type == LIVE_COUNTER;
  char name[64];

  snprintf(name, sizeof(name), "%s%s%s", figure->name,
           figure->unit != LIVE_ONE ? "_seconds" : "",
           is_counter ? "_total" : "");
  put_head(stream, name, is_counter ? "counter" : "gauge", figure->help,
           figure->worry);
  for (size_t i = 0; i < wheels->count; i++) {
    const live_view_t *view = &wheels->views[i];
    put_sample(stream, name, view,
               live_figure_of(figure, &view->shown.snapshot), figure->unit);
  }
}

/* ---- Lateness ----------------------------------------------------------- */

/* Lateness is counted in whole milliseconds: what is late by less than 2^b ms
 * is late by 2^b - 1 at most. */
static void
put_histogram(FILE *stream, const live_view_t *view)
{
  const uvwheel_stats_t *stats = &view->shown.snapshot.stats;
  uint64_t count = 0;

  for (unsigned b = 0; b < UVWHEEL_LATENESS_BUCKETS; b++) {
    count += stats->lateness[b];
    fprintf(stream, "uvwheel_lateness_seconds_bucket{wheel=\"%s\",le=\"",
            view->wheel.name);
    if (b == 0)
      fputs("0.0", stream);
    else if (b < UVWHEEL_LATENESS_BUCKETS - 1)
      put_value(stream, (UINT64_C(1) << b) - 1, LIVE_MS);
    else
      fputs("+Inf", stream);
    fprintf(stream, "\"} %" PRIu64 "\n", count);
  }
  put_sample(stream, "lateness_seconds_count", view, count, LIVE_ONE);
  put_sample(stream, "lateness_seconds_sum", view, stats->lateness_sum_ms,
             LIVE_MS);
}

static void
put_lateness(FILE *stream, const live_wheels_t *wheels)
{
  put_head(stream, "lateness_seconds", "histogram",
           "The time from a timer's due time to its callback.",
           "Bad when 1 % take over two ticks and 100 ms.");
  for (size_t i = 0; i < wheels->count; i++)
    put_histogram(stream, &wheels->views[i]);
}

/* ---- How the wheels were made ------------------------------------------- */

/* Rules compare figures with these, so they are samples and no labels. */
static const live_figure_t options[] = {
    {.offset = offsetof(live_snapshot_t, options.tick_ms),
     .type = LIVE_GAUGE,
     .unit = LIVE_MS,
     .name = "tick",
     .help = "The resolution of the wheel."},
    {.offset = offsetof(live_snapshot_t, options.max_timers),
     .type = LIVE_GAUGE,
     .unit = LIVE_ONE,
     .name = "max_timers",
     .help = "How many timers may be active; 0: there is no limit."},
};

static void
put_options(FILE *stream, const live_wheels_t *wheels)
{
  put_head(stream, "wheel_info", "gauge", "The options of the wheel.", NULL);
  for (size_t i = 0; i < wheels->count; i++) {
    const live_view_t *view = &wheels->views[i];
    const uvwheel_options_t *made = &view->shown.snapshot.options;
    fprintf(stream,
            "uvwheel_wheel_info{wheel=\"%s\",version=\"%s\",tick_ms=\"%" PRIu64
            "\",slots=\"%" PRIu32 "\"} 1\n",
            view->wheel.name, uvwheel_version_string(), made->tick_ms,
            made->slots);
  }
  for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
    put_figure(stream, wheels, &options[i]);
}

void
live_metrics_write(FILE *stream, const live_wheels_t *wheels)
{
  put_options(stream, wheels);
  for (size_t i = 0; i < LIVE_FIGURES; i++)
    put_figure(stream, wheels, &live_figures[i]);
  put_lateness(stream, wheels);
}
