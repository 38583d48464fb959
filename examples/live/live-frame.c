/* SPDX-License-Identifier: MIT */

#include "live-wheels.h"

#include <inttypes.h>

/* The table of figures. */
static void
put_table(FILE *stream)
{
  static const char *const places[] = {"nowhere", "tile", "first", "health"};

  for (size_t i = 0; i < LIVE_FIGURES; i++) {
    const live_figure_t *figure = &live_figures[i];
    fprintf(stream,
            "%s{\"name\":\"%s\",\"help\":\"%s\",\"worry\":\"%s\",\"place\":"
            "\"%s\",\"counts\":%s,\"unit\":%d}",
            i == 0 ? ",\"figures\":[" : ",", figure->name, figure->help,
            figure->worry != NULL ? figure->worry : "", places[figure->place],
            figure->type == LIVE_COUNTER ? "true" : "false", (int)figure->unit);
  }
  fputs("]", stream);
}

static void
put_number(FILE *stream, const char *key, uint64_t number)
{
  fprintf(stream, ",\"%s\":%" PRIu64, key, number);
}

static void
put_numbers(FILE *stream, const char *key, const uint64_t *numbers,
            size_t count)
{
  fprintf(stream, ",\"%s\":[", key);
  for (size_t i = 0; i < count; i++)
    fprintf(stream, "%s%" PRIu64, i == 0 ? "" : ",", numbers[i]);
  fputs("]", stream);
}

/* The number at this offset in the view of each wheel. */
static void
put_of_all(FILE *stream, const char *key, const char *suffix,
           const live_wheels_t *wheels, size_t offset)
{
  fprintf(stream, ",\"%s%s\":[", key, suffix);
  for (size_t k = 0; k < wheels->count; k++) {
    const char *view = (const char *)&wheels->views[k];
    fprintf(stream, "%s%" PRIu64, k == 0 ? "" : ",",
            *(const uint64_t *)(view + offset));
  }
  fputs("]", stream);
}

#define IN_VIEW(field) offsetof(live_view_t, field)

static void
put_figures(FILE *stream, const live_wheels_t *wheels)
{
  fputs(",\"all\":{\"name\":[", stream);
  for (size_t k = 0; k < wheels->count; k++)
    fprintf(stream, "%s\"%s\"", k == 0 ? "" : ",", wheels->views[k].wheel.name);
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
  put_of_all(stream, "lateness", "_bad", wheels, IN_VIEW(judged.late_ms));
  put_of_all(stream, "stall_ms", "", wheels, IN_VIEW(judged.stall_ms));
  fputs("}", stream);
}

void
live_frame_write(FILE *stream, const live_wheels_t *wheels, size_t chosen,
                 const live_facts_t *facts)
{
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
  put_table(stream);
  put_figures(stream, wheels);
  put_numbers(stream, "lateness", snapshot->stats.lateness,
              UVWHEEL_LATENESS_BUCKETS);
  put_numbers(stream, "cells", picture->cells, picture->cell_count);
  fputs("}\n", stream);
}
