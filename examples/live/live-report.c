/* SPDX-License-Identifier: MIT */

#include "live-wheels.h"

#include <inttypes.h>
#include <string.h>

/* A name, in quotation marks. JSON and Prometheus both know these escapes. */
static void put_quoted(FILE *stream, const char *text) {
  fputc('"', stream);
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\')
      fputc('\\', stream);
    fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
  }
  fputc('"', stream);
}

/* ---- Frames for the page ------------------------------------------------ */

#define LATE_WORRY \
  "Bad when 1 % take over two ticks and 100 ms: the loop was busy."

/* The rest of a row, after its name. */
static void put_row(FILE *stream, const char *place, const char *help,
                    const char *worry, bool counts, live_unit_t unit) {
  fprintf(stream,
          ",\"place\":\"%s\",\"help\":\"%s\",\"worry\":\"%s\",\"counts\":%s,"
          "\"unit\":%d}",
          place, help, worry != NULL ? worry : "", counts ? "true" : "false",
          (int)unit);
}

/* As the page names it. */
static void put_count_name(FILE *stream, const live_count_t *count,
                           const char *suffix) {
  char name[128];

  snprintf(name, sizeof(name), "%s%s%s%s", count->name,
           count->reason != NULL ? ": " : "",
           count->reason != NULL ? count->reason : "", suffix);
  put_quoted(stream, name);
}

/* The table of all that the page is told of. */
static void put_table(FILE *stream, const live_wheel_t *wheel) {
  static const char *const places[] = {"nowhere", "tile", "first", "health"};

  fputs(",\"figures\":[{\"name\":\"lateness\"", stream);
  put_row(stream, "lateness", "", LATE_WORRY, false, LIVE_MS);
  for (size_t i = 0; i < LIVE_FIGURES; i++) {
    const live_figure_t *figure = &live_figures[i];
    fprintf(stream, ",{\"name\":\"%s\"", figure->name);
    put_row(stream, places[figure->place], figure->help, figure->worry,
            figure->type == LIVE_COUNTER, figure->unit);
  }
  for (size_t i = 0; i < wheel->count_count; i++) {
    const live_count_t *count = &wheel->counts[i];
    if (count->worry == NULL)
      continue;
    fputs(",{\"name\":", stream);
    put_count_name(stream, count, "");
    put_row(stream, "server", "", count->worry, true, LIVE_ONE);
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
static void put_list(FILE *stream, const live_wheels_t *wheels, size_t offset) {
  fputs(":[", stream);
  for (size_t k = 0; k < wheels->count; k++) {
    const char *view = (const char *)&wheels->views[k];
    fprintf(stream, "%s%" PRIu64, k == 0 ? "" : ",",
            *(const uint64_t *)(view + offset));
  }
  fputs("]", stream);
}

static void put_of_all(FILE *stream, const char *key, const char *suffix,
                       const live_wheels_t *wheels, size_t offset) {
  fprintf(stream, ",\"%s%s\"", key, suffix);
  put_list(stream, wheels, offset);
}

#define IN_VIEW(field) offsetof(live_view_t, field)

/* When those grew that should not. */
static void put_bad_counts(FILE *stream, const live_wheels_t *wheels) {
  const live_wheel_t *wheel = &wheels->views[0].wheel;

  for (size_t i = 0; i < wheel->count_count; i++) {
    if (wheel->counts[i].worry == NULL)
      continue;
    fputs(",", stream);
    put_count_name(stream, &wheel->counts[i], "_bad");
    put_list(stream, wheels, IN_VIEW(judged.count_ms) + i * sizeof(uint64_t));
  }
}

static void put_figures(FILE *stream, const live_wheels_t *wheels) {
  fputs(",\"all\":{\"name\":[", stream);
  for (size_t k = 0; k < wheels->count; k++) {
    fputs(k == 0 ? "" : ",", stream);
    put_quoted(stream, wheels->views[k].wheel.name);
  }
  fputs("]", stream);
  for (size_t i = 0; i < LIVE_FIGURES; i++) {
    const live_figure_t *figure = &live_figures[i];
    put_of_all(stream, figure->name, "", wheels,
               IN_VIEW(shown.snapshot) + figure->offset);
    if (figure->worry != NULL)
      put_of_all(stream, figure->name, "_bad", wheels,
                 IN_VIEW(judged.bad_ms) + i * sizeof(uint64_t));
    if (figure->worry != NULL && figure->type == LIVE_GAUGE)
      put_of_all(stream, figure->name, "_worst", wheels,
                 IN_VIEW(judged.worst) + i * sizeof(uint64_t));
  }
  put_bad_counts(stream, wheels);
  put_of_all(stream, "lateness", "_bad", wheels, IN_VIEW(judged.late_ms));
  put_of_all(stream, "stall_ms", "", wheels, IN_VIEW(judged.stall_ms));
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
  put_number(stream, "age_ms", live_picture_age_ms(picture));
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
 * through the wheels. Without a help it goes on with the metric before. */
static void put_figure(FILE *stream, const live_wheels_t *wheels,
                       const char *prefix, const live_figure_t *figure,
                       const char *reason) {
  int is_counter = figure->type == LIVE_COUNTER;
  char name[64];

  snprintf(name, sizeof(name), "%s%s%s%s", prefix, figure->name,
           figure->unit != LIVE_ONE ? "_seconds" : "",
           is_counter ? "_total" : "");
  if (figure->help != NULL)
    put_head(stream, name, is_counter ? "counter" : "gauge", figure->help,
             figure->worry);
  for (size_t i = 0; i < wheels->count; i++) {
    const live_view_t *view = &wheels->views[i];
    put_sample(stream, name, view, reason,
               live_figure_of(figure, &view->shown.snapshot), figure->unit);
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
  for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
    put_figure(stream, wheels, "", &options[i], NULL);
}

/* The rows of a name have one head. */
static void put_counts(FILE *stream, const live_wheels_t *wheels) {
  const live_wheel_t *wheel = &wheels->views[0].wheel;
  const char *before = "";

  for (size_t i = 0; i < wheel->count_count; i++) {
    const live_count_t *count = &wheel->counts[i];
    const live_figure_t figure = {
        .offset = offsetof(live_snapshot_t, counts) + i * sizeof(uint64_t),
        .type = count->type,
        .unit = LIVE_ONE,
        .name = count->name,
        .help = strcmp(before, count->name) != 0 ? count->help : NULL,
        .worry = count->worry,
    };
    put_figure(stream, wheels, "server_", &figure, count->reason);
    before = count->name;
  }
}

void live_metrics_write(FILE *stream, const live_wheels_t *wheels) {
  put_options(stream, wheels);
  for (size_t i = 0; i < LIVE_FIGURES; i++)
    put_figure(stream, wheels, "", &live_figures[i], NULL);
  put_lateness(stream, wheels);
  put_counts(stream, wheels);
}
