/* SPDX-License-Identifier: MIT */

#include "live-frame.h"

#include <inttypes.h>

void
live_frame_write_figures(FILE *stream)
{
  static const char *const places[] = {"nowhere", "tile", "health"};

  for (size_t i = 0; i < live_figure_count; i++) {
    const live_figure_t *figure = &live_figures[i];
    fprintf(
        stream,
        "%s{\"name\":\"%s\",\"title\":\"%s\",\"help\":\"%s\",\"worry\":"
        "\"%s\",\"place\":\"%s\",\"counts\":%s,\"unit\":%d,\"limit\":%" PRIu64
        "}",
        i == 0 ? "[" : ",", figure->name, figure->title, figure->help,
        figure->worry != NULL ? figure->worry : "", places[figure->place],
        figure->type == LIVE_COUNTER ? "true" : "false", (int)figure->unit,
        figure->limit);
  }
  fputs("]", stream);
}

static void
put_number(FILE *stream, const char *name, uint64_t number)
{
  fprintf(stream, ",\"%s\":%" PRIu64, name, number);
}

static void
put_numbers(FILE *stream, const char *name, const uint64_t *numbers,
            size_t count)
{
  fprintf(stream, ",\"%s\":[", name);
  for (size_t i = 0; i < count; i++)
    fprintf(stream, "%s%" PRIu64, i == 0 ? "" : ",", numbers[i]);
  fputs("]", stream);
}

/* Each has a list, of all wheels. */
static void
put_figures(FILE *stream, const live_wheels_t *wheels)
{
  fputs(",\"names\":[", stream);
  for (size_t k = 0; k < wheels->count; k++)
    fprintf(stream, "%s\"%s\"", k == 0 ? "" : ",", wheels->views[k].wheel.name);
  fputs("]", stream);
  for (size_t i = 0; i < live_figure_count; i++) {
    fprintf(stream, ",\"%s\":[", live_figures[i].name);
    for (size_t k = 0; k < wheels->count; k++)
      fprintf(
          stream, "%s%" PRIu64, k == 0 ? "" : ",",
          live_figure_of(&live_figures[i], &wheels->views[k].shown.snapshot));
    fputs("]", stream);
  }
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
  put_number(stream, "loop_ms", snapshot->loop_ms);
  put_number(stream, "tick_ms", snapshot->options.tick_ms);
  put_number(stream, "slots", snapshot->options.slots);
  put_number(stream, "timeout_ms", facts->timeout_ms);
  put_number(stream, "viewers", facts->viewers);
  put_number(stream, "age_ms", live_picture_age_ms(picture));
  put_number(stream, "walked", picture->rounds.walked);
  put_number(stream, "later", picture->rounds.later);
  put_number(stream, "most_rounds", picture->rounds.most);
  put_figures(stream, wheels);
  put_numbers(stream, "due_lateness", snapshot->stats.due_lateness,
              UVWHEEL_LATENESS_BUCKETS);
  put_numbers(stream, "lateness", snapshot->stats.lateness,
              UVWHEEL_LATENESS_BUCKETS);
  put_numbers(stream, "cells", picture->cells, picture->cell_count);
  fputs("}", stream);
}
