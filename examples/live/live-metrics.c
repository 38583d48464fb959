/* SPDX-License-Identifier: MIT */

#include "live-report.h"

#include <inttypes.h>
#include <string.h>

/* Both formats want all samples of a metric in one place: each metric goes
 * through the wheels. */
typedef struct page_s {
  FILE *stream;
  const live_view_t *views;
  size_t count;
  bool is_open_metrics;
} page_t;

/* Prometheus' own format calls a counter and an info by the names of their
 * samples, and knows neither an info nor units. */
static void
put_head(const page_t *page, const char *name, const char *type, int is_time,
         const char *suffix, const char *help, const char *worry)
{
  bool is_info = strcmp(type, "info") == 0;
  char full[64];

  snprintf(full, sizeof(full), "uvwheel_%s%s%s", name,
           is_time ? "_seconds" : "", page->is_open_metrics ? "" : suffix);
  fprintf(page->stream, "# HELP %s %s%s%s\n", full, help,
          worry != NULL ? " " : "", worry != NULL ? worry : "");
  fprintf(page->stream, "# TYPE %s %s\n", full,
          is_info && !page->is_open_metrics ? "gauge" : type);
  if (is_time && page->is_open_metrics)
    fprintf(page->stream, "# UNIT %s seconds\n", full);
}

/* As seconds, without the rounding of a double. */
static void
put_value(const page_t *page, uint64_t number, live_unit_t unit)
{
  if (unit == LIVE_ONE)
    fprintf(page->stream, "%" PRIu64, number);
  else
    fprintf(page->stream, "%" PRIu64 ".%0*" PRIu64, number / unit,
            unit == LIVE_MS ? 3 : 6, number % unit);
}

static void
put_sample(const page_t *page, const char *name, const char *suffix,
           const live_view_t *view, uint64_t number, live_unit_t unit)
{
  fprintf(page->stream, "uvwheel_%s%s%s{wheel=\"%s\"} ", name,
          unit != LIVE_ONE ? "_seconds" : "", suffix, view->wheel.name);
  put_value(page, number, unit);
  fputc('\n', page->stream);
}

static void
put_figure(const page_t *page, const live_figure_t *figure)
{
  int is_counter = figure->type == LIVE_COUNTER;
  const char *suffix = is_counter ? "_total" : "";

  put_head(page, figure->name, is_counter ? "counter" : "gauge",
           figure->unit != LIVE_ONE, suffix, figure->help, figure->worry);
  for (size_t i = 0; i < page->count; i++)
    put_sample(page, figure->name, suffix, &page->views[i],
               live_figure_of(figure, &page->views[i].shown.snapshot),
               figure->unit);
}

/* ---- Lateness ----------------------------------------------------------- */

/* Lateness is counted in whole milliseconds: what is late by less than 2^b ms
 * is late by 2^b - 1 at most. */
static void
put_histogram(const page_t *page, const live_view_t *view)
{
  const uvwheel_stats_t *stats = &view->shown.snapshot.stats;
  uint64_t count = 0;

  for (unsigned b = 0; b < UVWHEEL_LATENESS_BUCKETS; b++) {
    count += stats->lateness[b];
    fprintf(page->stream, "uvwheel_lateness_seconds_bucket{wheel=\"%s\",le=\"",
            view->wheel.name);
    if (b == 0)
      fputs("0.0", page->stream);
    else if (b < UVWHEEL_LATENESS_BUCKETS - 1)
      put_value(page, (UINT64_C(1) << b) - 1, LIVE_MS);
    else
      fputs("+Inf", page->stream);
    fprintf(page->stream, "\"} %" PRIu64 "\n", count);
  }
  put_sample(page, "lateness_seconds", "_count", view, count, LIVE_ONE);
  put_sample(page, "lateness", "_sum", view, stats->lateness_sum_ms, LIVE_MS);
}

static void
put_lateness(const page_t *page)
{
  put_head(page, "lateness", "histogram", 1, "",
           "The time from a timer's due time to its callback.",
           "Bad when 1 % take over two ticks and 100 ms.");
  for (size_t i = 0; i < page->count; i++)
    put_histogram(page, &page->views[i]);
}

/* ---- How the wheels were made ------------------------------------------- */

/* What rules compare figures with is a number. */
static void
put_options(const page_t *page)
{
  put_head(page, "wheel", "info", 0, "_info", "The options of the wheel.",
           NULL);
  for (size_t i = 0; i < page->count; i++) {
    const live_view_t *view = &page->views[i];
    const uvwheel_options_t *options = &view->shown.snapshot.options;
    fprintf(page->stream,
            "uvwheel_wheel_info{wheel=\"%s\",version=\"%s\",tick_ms=\"%" PRIu64
            "\",slots=\"%" PRIu32 "\"} 1\n",
            view->wheel.name, uvwheel_version_string(), options->tick_ms,
            options->slots);
  }
  put_head(page, "tick", "gauge", 1, "", "The resolution of the wheel.", NULL);
  for (size_t i = 0; i < page->count; i++)
    put_sample(page, "tick", "", &page->views[i],
               page->views[i].shown.snapshot.options.tick_ms, LIVE_MS);
  put_head(page, "max_timers", "gauge", 0, "",
           "How many timers may be active; 0: there is no limit.", NULL);
  for (size_t i = 0; i < page->count; i++)
    put_sample(page, "max_timers", "", &page->views[i],
               page->views[i].shown.snapshot.options.max_timers, LIVE_ONE);
}

void
live_metrics_write(FILE *stream, const live_wheels_t *wheels,
                   bool is_open_metrics)
{
  const page_t page = {stream, wheels->views, wheels->count, is_open_metrics};

  put_options(&page);
  for (size_t i = 0; i < LIVE_FIGURES; i++)
    put_figure(&page, &live_figures[i]);
  put_lateness(&page);
  if (is_open_metrics)
    fputs("# EOF\n", stream);
}
