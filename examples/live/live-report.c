/* SPDX-License-Identifier: MIT */

#include "live-wheels.h"

#include <inttypes.h>
#include <string.h>

/* A name, which the program has given. */
static void put_quoted(FILE *stream, const char *text) {
  fprintf(stream, "\"%s\"", text);
}

/* ---- Frames for the page ------------------------------------------------ */

#define LATE_WORRY \
  "Bad when 1 % take over two ticks and 100 ms: the loop was busy."

static const live_figure_t lateness = {.place = LIVE_LATENESS,
                                       .type = LIVE_GAUGE,
                                       .unit = LIVE_MS,
                                       .name = "lateness",
                                       .worry = LATE_WORRY};

/* As the page names it. */
static void put_key(FILE *stream, const live_figure_t *figure,
                    const char *suffix) {
  char name[128];

  snprintf(name, sizeof(name), "%s%s%s%s", figure->name,
           figure->reason != NULL ? ": " : "",
           figure->reason != NULL ? figure->reason : "", suffix);
  put_quoted(stream, name);
}

static void put_row(FILE *stream, const live_figure_t *figure) {
  static const char *const places[] = {"nowhere", "tile",   "first",
                                       "health",  "server", "lateness"};

  fputs("{\"name\":", stream);
  put_key(stream, figure, "");
  fprintf(stream,
          ",\"place\":\"%s\",\"help\":\"%s\",\"worry\":\"%s\",\"counts\":%s,"
          "\"unit\":%d}",
          places[figure->place], figure->help != NULL ? figure->help : "",
          figure->worry != NULL ? figure->worry : "",
          figure->type == LIVE_COUNTER ? "true" : "false", (int)figure->unit);
}

/* The table of all that the page is told of. */
static void put_table(FILE *stream, const live_wheel_t *wheel) {
  const live_figure_t *figure;

  fputs(",\"figures\":[", stream);
  put_row(stream, &lateness);
  for (size_t i = 0; (figure = live_figure(wheel, i)) != NULL; i++) {
    fputs(",", stream);
    put_row(stream, figure);
  }
  fputs("]", stream);
}

static void put_number(FILE *stream, const char *key, uint64_t number) {
  fprintf(stream, ",\"%s\":%" PRIu64, key, number);
}

static void put_numbers(FILE *stream, const char *key, const uint64_t *numbers,
                        size_t count) {
  fprintf(stream, ",\"%s\":[", key);
  for (size_t i = 0; i < count; i++)
    fprintf(stream, "%s%" PRIu64, i == 0 ? "" : ",", numbers[i]);
  fputs("]", stream);
}

/* The number at this offset in the view of each wheel. */
static void put_of_all(FILE *stream, const live_figure_t *figure,
                       const char *suffix, const live_wheels_t *wheels,
                       size_t offset) {
  fputs(",", stream);
  put_key(stream, figure, suffix);
  fputs(":[", stream);
  for (size_t k = 0; k < wheels->count; k++) {
    const char *view = (const char *)&wheels->views[k];
    fprintf(stream, "%s%" PRIu64, k == 0 ? "" : ",",
            *(const uint64_t *)(view + offset));
  }
  fputs("]", stream);
}

#define IN_VIEW(field) offsetof(live_view_t, field)

static void put_figures(FILE *stream, const live_wheels_t *wheels) {
  static const live_figure_t stall = {.name = "stall_ms"};
  const live_figure_t *figure;

  fputs(",\"all\":{\"name\":[", stream);
  for (size_t k = 0; k < wheels->count; k++) {
    fputs(k == 0 ? "" : ",", stream);
    put_quoted(stream, wheels->views[k].wheel.name);
  }
  fputs("]", stream);
  for (size_t i = 0; (figure = live_figure(&wheels->views->wheel, i)); i++) {
    put_of_all(stream, figure, "", wheels,
               IN_VIEW(shown.snapshot) + live_offset(i));
    if (figure->worry != NULL)
      put_of_all(stream, figure, "_bad", wheels,
                 IN_VIEW(judged.bad_ms) + i * sizeof(uint64_t));
    if (figure->worry != NULL && figure->type == LIVE_GAUGE)
      put_of_all(stream, figure, "_worst", wheels,
                 IN_VIEW(judged.worst) + i * sizeof(uint64_t));
  }
  put_of_all(stream, &lateness, "_bad", wheels, IN_VIEW(judged.late_ms));
  put_of_all(stream, &stall, "", wheels, IN_VIEW(judged.stall_ms));
  fputs("}", stream);
}

void live_frame_write(FILE *stream, const live_wheels_t *wheels, size_t chosen,
                      const live_facts_t *facts) {
  const live_look_t *look = &wheels->views[chosen].shown;
  const live_snapshot_t *snapshot = &look->snapshot;
  const live_picture_t *picture = &look->picture;

  fprintf(stream, "{\"wheel\":%zu", chosen);
  put_number(stream, "now_ms", snapshot->now_ms);
  put_number(stream, "tick_ms", snapshot->options.tick_ms);
  put_number(stream, "slots", snapshot->options.slots);
  put_number(stream, "timeout_ms", facts->timeout_ms);
  put_number(stream, "page_ms", facts->page_ms);
  put_number(stream, "uptime_ms", facts->uptime_ms);
  put_table(stream, &wheels->views[0].wheel);
  put_figures(stream, wheels);
  put_numbers(stream, "lateness", snapshot->stats.lateness,
              UVWHEEL_LATENESS_BUCKETS);
  put_numbers(stream, "cells", picture->cells, picture->cell_count);
  fputs("}\n", stream);
}

/* ---- Metrics for Prometheus --------------------------------------------- */

/* A time in seconds, without the rounding of a double. */
static void put_value(FILE *stream, uint64_t number, live_unit_t unit) {
  if (unit == LIVE_ONE)
    fprintf(stream, "%" PRIu64, number);
  else
    fprintf(stream, "%" PRIu64 ".%0*" PRIu64, number / unit,
            unit == LIVE_MS ? 3 : 6, number % unit);
}

static void put_head(FILE *stream, const char *name, const char *type,
                     const char *help, const char *worry) {
  fprintf(stream, "# HELP uvwheel_%s %s%s%s\n", name, help,
          worry != NULL ? " " : "", worry != NULL ? worry : "");
  fprintf(stream, "# TYPE uvwheel_%s %s\n", name, type);
}

/* The name of a metric, and the first of its labels. */
static void put_name(FILE *stream, const char *name, const live_view_t *view) {
  fprintf(stream, "uvwheel_%s{wheel=", name);
  put_quoted(stream, view->wheel.name);
}

static void put_sample(FILE *stream, const char *name, const live_view_t *view,
                       const char *reason, uint64_t number, live_unit_t unit) {
  put_name(stream, name, view);
  if (reason != NULL) {
    fputs(",reason=", stream);
    put_quoted(stream, reason);
  }
  fputs("} ", stream);
  put_value(stream, number, unit);
  fputc('\n', stream);
}

/* The format wants all samples of a metric in one place, so each metric goes
 * through the wheels that have it. Without a head it goes on with the metric
 * before. */
static void put_figure(FILE *stream, const live_wheels_t *wheels, size_t i,
                       bool has_head) {
  const live_figure_t *figure = live_figure(&wheels->views->wheel, i);
  int is_counter = figure->type == LIVE_COUNTER;
  char name[64];

  snprintf(name, sizeof(name), "%s%s%s%s",
           figure->place == LIVE_SERVER ? "server_" : "", figure->name,
           figure->unit != LIVE_ONE ? "_seconds" : "",
           is_counter ? "_total" : "");
  if (has_head)
    put_head(stream, name, is_counter ? "counter" : "gauge", figure->help,
             figure->worry);
  for (size_t k = 0; k < wheels->count; k++) {
    const live_view_t *view = &wheels->views[k];
    const char *snapshot = (const char *)&view->shown.snapshot;
    if (live_figure(&view->wheel, i) != NULL)
      put_sample(stream, name, view, figure->reason,
                 *(const uint64_t *)(snapshot + live_offset(i)), figure->unit);
  }
}

/* Lateness is counted in whole milliseconds: what is late by less than 2^b ms
 * is late by 2^b - 1 at most. */
static void put_histogram(FILE *stream, const live_view_t *view) {
  const uvwheel_stats_t *stats = &view->shown.snapshot.stats;
  uint64_t count = 0;

  for (unsigned b = 0; b < UVWHEEL_LATENESS_BUCKETS; b++) {
    count += stats->lateness[b];
    put_name(stream, "lateness_seconds_bucket", view);
    fputs(",le=\"", stream);
    if (b == 0)
      fputs("0.0", stream);
    else if (b < UVWHEEL_LATENESS_BUCKETS - 1)
      put_value(stream, (UINT64_C(1) << b) - 1, LIVE_MS);
    else
      fputs("+Inf", stream);
    fprintf(stream, "\"} %" PRIu64 "\n", count);
  }
  put_sample(stream, "lateness_seconds_count", view, NULL, count, LIVE_ONE);
  put_sample(stream, "lateness_seconds_sum", view, NULL, stats->lateness_sum_ms,
             LIVE_MS);
}

static void put_lateness(FILE *stream, const live_wheels_t *wheels) {
  put_head(stream, "lateness_seconds", "histogram",
           "The time from a timer's due time to its callback.", LATE_WORRY);
  for (size_t i = 0; i < wheels->count; i++)
    put_histogram(stream, &wheels->views[i]);
}

static void put_options(FILE *stream, const live_wheels_t *wheels) {
  put_head(stream, "wheel_info", "gauge", "The options of the wheel.", NULL);
  for (size_t i = 0; i < wheels->count; i++) {
    const live_view_t *view = &wheels->views[i];
    const uvwheel_options_t *made = &view->shown.snapshot.options;
    put_name(stream, "wheel_info", view);
    fprintf(stream,
            ",version=\"%s\",tick_ms=\"%" PRIu64 "\",slots=\"%" PRIu32
            "\"} 1\n",
            uvwheel_version_string(), made->tick_ms, made->slots);
  }
}

void live_metrics_write(FILE *stream, const live_wheels_t *wheels) {
  const char *before = "";
  const live_figure_t *figure;

  put_options(stream, wheels);
  for (size_t i = 0; (figure = live_figure(&wheels->views->wheel, i)); i++) {
    put_figure(stream, wheels, i, strcmp(before, figure->name) != 0);
    before = figure->name;
  }
  put_lateness(stream, wheels);
}
