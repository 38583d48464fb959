/* SPDX-License-Identifier: MIT */

#include "live-metrics.h"

#include <inttypes.h>

/* OpenMetrics wants all samples of a metric in one place: each metric goes
 * through the wheels. */
typedef struct page_s {
  FILE *stream;
  const live_view_t *views;
  size_t count;
} page_t;

static void
put_head(const page_t *page, const char *name, const char *type, int is_time,
         const char *help, const char *worry)
{
  const char *unit = is_time ? "_seconds" : "";

  fprintf(page->stream, "# TYPE uvwheel_%s%s %s\n", name, unit, type);
  if (is_time)
    fprintf(page->stream, "# UNIT uvwheel_%s_seconds seconds\n", name);
  fprintf(page->stream, "# HELP uvwheel_%s%s %s%s%s\n", name, unit, help,
          worry != NULL ? " " : "", worry != NULL ? worry : "");
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

  put_head(page, figure->name, is_counter ? "counter" : "gauge",
           figure->unit != LIVE_ONE, figure->help, figure->worry);
  for (size_t i = 0; i < page->count; i++)
    put_sample(page, figure->name, is_counter ? "_total" : "", &page->views[i],
               live_figure_of(figure, &page->views[i].shown.snapshot),
               figure->unit);
}

/* ---- Lateness ----------------------------------------------------------- */

/* Lateness is counted in whole milliseconds: what is late by less than 2^b ms
 * is late by 2^b - 1 at most. */
static void
put_histogram(const page_t *page, const char *name, const live_view_t *view,
              const uint64_t *buckets, uint64_t sum_ms)
{
  uint64_t count = 0;

  for (unsigned b = 0; b < UVWHEEL_LATENESS_BUCKETS; b++) {
    count += buckets[b];
    fprintf(page->stream, "uvwheel_%s_seconds_bucket{wheel=\"%s\",le=\"", name,
            view->wheel.name);
    if (b == 0)
      fputs("0.0", page->stream);
    else if (b < UVWHEEL_LATENESS_BUCKETS - 1)
      put_value(page, (UINT64_C(1) << b) - 1, LIVE_MS);
    else
      fputs("+Inf", page->stream);
    fprintf(page->stream, "\"} %" PRIu64 "\n", count);
  }
  fprintf(page->stream, "uvwheel_%s_seconds_count{wheel=\"%s\"} %" PRIu64 "\n",
          name, view->wheel.name, count);
  put_sample(page, name, "_sum", view, sum_ms, LIVE_MS);
}

static void
put_lateness(const page_t *page)
{
  put_head(page, "due_lateness", "histogram", 1,
           "How long after they were due timers fired: what peers see.",
           "Bad when 99 % take over two ticks and 100 ms.");
  for (size_t i = 0; i < page->count; i++) {
    const uvwheel_stats_t *stats = &page->views[i].shown.snapshot.stats;
    put_histogram(page, "due_lateness", &page->views[i], stats->due_lateness,
                  stats->due_lateness_sum_ms);
  }
  put_head(page, "lateness", "histogram", 1,
           "How long after their tick timers fired: the part of the lateness "
           "that the loop has caused.",
           NULL);
  for (size_t i = 0; i < page->count; i++) {
    const uvwheel_stats_t *stats = &page->views[i].shown.snapshot.stats;
    put_histogram(page, "lateness", &page->views[i], stats->lateness,
                  stats->lateness_sum_ms);
  }
}

/* ---- How the wheels were made ------------------------------------------- */

/* The tick is a number as well: rules compare lateness with it. */
static void
put_options(const page_t *page)
{
  put_head(page, "wheel", "info", 0, "How the wheel was made.", NULL);
  for (size_t i = 0; i < page->count; i++) {
    const live_view_t *view = &page->views[i];
    const uvwheel_options_t *options = &view->shown.snapshot.options;
    fprintf(page->stream,
            "uvwheel_wheel_info{wheel=\"%s\",version=\"%s\",tick_ms=\"%" PRIu64
            "\",slots=\"%" PRIu32 "\"} 1\n",
            view->wheel.name, uvwheel_version_string(), options->tick_ms,
            options->slots);
  }
  put_head(page, "tick", "gauge", 1, "The resolution of the wheel.", NULL);
  for (size_t i = 0; i < page->count; i++)
    put_sample(page, "tick", "", &page->views[i],
               page->views[i].shown.snapshot.options.tick_ms, LIVE_MS);
}

void
live_metrics_write(FILE *stream, const live_wheels_t *wheels)
{
  const page_t page = {stream, wheels->views, wheels->count};

  put_options(&page);
  for (size_t i = 0; i < live_figure_count; i++)
    put_figure(&page, &live_figures[i]);
  put_lateness(&page);
  fputs("# EOF\n", stream);
}
