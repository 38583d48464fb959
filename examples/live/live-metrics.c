/* SPDX-License-Identifier: MIT */

#include "live-metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include "live-writer.h"

enum metric_type { GAUGE, COUNTER };

/* What a number of the statistics is a part of; 1 means it is a count. */
enum metric_unit { ONE = 1, MS = 1000, US = 1000000 };

static const struct metric {
  size_t offset; /* in uvwheel_stats_t */
  const char *name;
  enum metric_type type;
  enum metric_unit unit;
  const char *help;
} metrics[] = {
#define STAT(field) offsetof(uvwheel_stats_t, field)
    {STAT(active), "timers", GAUGE, ONE, "Timers that are active."},
    {STAT(started), "started", COUNTER, ONE,
     "Timers that were started, or armed themselves again."},
    {STAT(stopped), "stopped", COUNTER, ONE, "Timers that were stopped."},
    {STAT(fired), "fired", COUNTER, ONE, "Timers whose callback was called."},
    {STAT(fired_early), "fired_early", COUNTER, ONE,
     "Timers that fired before their time, to make room."},
    {STAT(looked), "looked", COUNTER, ONE, "Timers that the hand looked at."},
    {STAT(moved), "moved", COUNTER, ONE,
     "Timers that the hand found refreshed and moved on."},
    {STAT(turns), "turns", COUNTER, ONE, "Times the loop woke the wheel."},
    {STAT(turns_cut), "turns_cut", COUNTER, ONE,
     "Turns that left something to the next one."},
    {STAT(turn_max_us), "turn_max", GAUGE, US, "The longest turn."},
    {STAT(backlog_ms), "backlog", GAUGE, MS,
     "For how long the oldest unfinished tick has been waiting."},
    {STAT(lateness_max_ms), "lateness_max", GAUGE, MS,
     "The latest that a timer fired after its tick."},
    {STAT(stalls), "stalls", COUNTER, ONE,
     "Turns that found that the loop was deaf."},
    {STAT(stall_max_ms), "stall_max", GAUGE, MS, "The longest stall."},
    {STAT(deaf_ms), "deaf", COUNTER, MS,
     "Time by which the clock of the wheel was set back."},
#undef STAT
};

static void
put_head(live_writer_t *writer, const char *name, const char *type, int is_time,
         const char *help)
{
  const char *unit = is_time ? "_seconds" : "";

  live_put(writer, "# TYPE uvwheel_%s%s %s\n", name, unit, type);
  if (is_time)
    live_put(writer, "# UNIT uvwheel_%s_seconds seconds\n", name);
  live_put(writer, "# HELP uvwheel_%s%s %s\n", name, unit, help);
}

/* As seconds, without the rounding of a double. */
static void
put_time(live_writer_t *writer, uint64_t time, enum metric_unit unit)
{
  live_put(writer, "%" PRIu64 ".%0*" PRIu64, time / unit, unit == MS ? 3 : 6,
           time % unit);
}

static void
put_metric(live_writer_t *writer, const struct metric *metric, uint64_t number)
{
  int is_time = metric->unit != ONE;

  put_head(writer, metric->name, metric->type == GAUGE ? "gauge" : "counter",
           is_time, metric->help);
  live_put(writer, "uvwheel_%s%s%s ", metric->name, is_time ? "_seconds" : "",
           metric->type == COUNTER ? "_total" : "");
  if (is_time)
    put_time(writer, number, metric->unit);
  else
    live_put(writer, "%" PRIu64, number);
  live_put(writer, "\n");
}

/* Lateness is counted in whole milliseconds: what is late by less than 2^b ms
 * is late by 2^b - 1 at most. Its sum is not known. */
static void
put_lateness(live_writer_t *writer, const uint64_t *lateness)
{
  uint64_t sum = 0;

  put_head(writer, "lateness", "histogram", 1,
           "How long after their tick timers fired.");
  for (unsigned b = 0; b < UVWHEEL_LATENESS_BUCKETS; b++) {
    sum += lateness[b];
    live_put(writer, "uvwheel_lateness_seconds_bucket{le=\"");
    if (b == 0)
      live_put(writer, "0.0");
    else if (b < UVWHEEL_LATENESS_BUCKETS - 1)
      put_time(writer, (UINT64_C(1) << b) - 1, MS);
    else
      live_put(writer, "+Inf");
    live_put(writer, "\"} %" PRIu64 "\n", sum);
  }
}

size_t
live_metrics_write(const uvwheel_stats_t *stats, char *text)
{
  live_writer_t writer = {.text = text, .size = LIVE_MAX_METRICS};

  for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
    put_metric(&writer, &metrics[i],
               *(const uint64_t *)((const char *)stats + metrics[i].offset));
  put_lateness(&writer, stats->lateness);
  live_put(&writer, "# EOF\n");
  return writer.length;
}
