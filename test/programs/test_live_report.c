/* SPDX-License-Identifier: MIT */

/* What the live page and Prometheus are sent of wheels; browser/served.py has
 * others judge the formats. */

#include <check.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <uvwheel.h>

#include "live/live-wheels.h"
#include "suite.h"

#define WHEELS 3

static live_view_t views[WHEELS] = {
    {.wheel.name = "1"}, {.wheel.name = "2"}, {.wheel.name = "3"}};
static live_wheels_t wheels = {.views = views, .count = WHEELS};
static char text[131072];

static void write_metrics(void) {
  FILE *stream = fmemopen(text, sizeof(text), "w");

  live_metrics_write(stream, &wheels);
  fclose(stream);
}

static void write_frame(size_t chosen) {
  static const live_facts_t facts = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
  FILE *stream = fmemopen(text, sizeof(text), "w");

  live_frame_write(stream, &wheels, chosen, &facts);
  fclose(stream);
}

static void assert_text(const char *wanted) {
  ck_assert_msg(strstr(text, wanted) != NULL, "no '%s' in\n%s", wanted, text);
}

static void assert_line(const char *line) {
  char pattern[256];

  snprintf(pattern, sizeof(pattern), "\n%s\n", line);
  assert_text(pattern);
}

/* ---- Trouble ------------------------------------------------------------ */

#define IN_SNAPSHOT(field) offsetof(live_snapshot_t, field)

static const struct {
  size_t offset;
  uint64_t before;
  uint64_t good;
  uint64_t bad;
} limits[] = {
    {IN_SNAPSHOT(unanswered_ms), 5000, 1000, 1001},
    {IN_SNAPSHOT(stats.overdue_ms), 1001, 1000, 1001},
    {IN_SNAPSHOT(stats.stalls), 7, 7, 8},
    {IN_SNAPSHOT(stats.fired_soonest), 7, 7, 8},
    {IN_SNAPSHOT(stats.turns_cut), 100, 120, 121},
    {IN_SNAPSHOT(examined_too_early), 5, 2000005, 2000006},
    {IN_SNAPSHOT(stats.turns_overrun), 7, 9, 10},
};

static size_t index_of(size_t offset) {
  size_t i = 0;

  while (live_figures[i].offset != offset)
    i++;
  return i;
}

/* Two seconds pass, in which one figure changes. Says when it was bad. */
static uint64_t judge_at_77(size_t offset, uint64_t before, uint64_t number) {
  live_judged_t judged = {.last.now_ms = 1000};
  live_snapshot_t now = {.now_ms = 3000};

  memcpy((char *)&judged.last + offset, &before, sizeof(before));
  memcpy((char *)&now + offset, &number, sizeof(number));
  live_judge(&judged, &views[0].wheel, &now, 77);
  return judged.bad_ms[index_of(offset)];
}

START_TEST(a_figure_is_bad_beyond_its_limit) {
  size_t offset = limits[_i].offset;
  uint64_t before = limits[_i].before;

  ck_assert_uint_eq(judge_at_77(offset, before, limits[_i].good), 0);
  ck_assert_uint_eq(judge_at_77(offset, before, limits[_i].bad), 77);
}
END_TEST

/* After a freeze a timer is overdue until it has fired. */
START_TEST(a_time_is_bad_if_it_stays_beyond_its_limit) {
  ck_assert_uint_eq(judge_at_77(IN_SNAPSHOT(stats.overdue_ms), 1000, 9000), 0);
  ck_assert_uint_eq(judge_at_77(IN_SNAPSHOT(unanswered_ms), 0, 9000), 0);
}
END_TEST

/* For as long as the page tells of it. */
START_TEST(the_worst_of_a_trouble_is_remembered) {
  static const struct {
    uint64_t page_ms, unanswered_ms, worst_ms, bad_ms;
  } rows[] = {
      {1000, 1001, 0, 0},           {2000, 3000, 3000, 2000},
      {3000, 2000, 3000, 3000},     {4000, 0, 3000, 3000},
      {302000, 1001, 3000, 3000},   {303000, 1001, 3000, 303000},
      {603001, 1001, 1001, 603001},
  };
  static live_judged_t judged;

  for (size_t i = 0; i < LENGTH(rows); i++) {
    live_snapshot_t now = {.unanswered_ms = rows[i].unanswered_ms};
    size_t figure = index_of(IN_SNAPSHOT(unanswered_ms));
    live_judge(&judged, &views[0].wheel, &now, rows[i].page_ms);
    ck_assert_uint_eq(judged.worst[figure], rows[i].worst_ms);
    ck_assert_uint_eq(judged.bad_ms[figure], rows[i].bad_ms);
  }
}
END_TEST

START_TEST(timers_are_late_when_one_in_a_hundred_is) {
  live_judged_t judged = {.last.stats.lateness[10] = 900};
  live_snapshot_t now = {.options.tick_ms = 100, .stats.lateness[10] = 900};

  now.stats.lateness[9] = 1000; /* up to 511 ms, or 256 */
  live_judge(&judged, &views[0].wheel, &now, 1);
  now.stats.lateness[7] = 99;
  now.stats.lateness[10]++;
  live_judge(&judged, &views[0].wheel, &now, 2);
  ck_assert_uint_eq(judged.late_ms, 0);
  now.stats.lateness[7] += 98;
  now.stats.lateness[10]++;
  live_judge(&judged, &views[0].wheel, &now, 3);
  ck_assert_uint_eq(judged.late_ms, 3);
}
END_TEST

/* ---- Metrics ------------------------------------------------------------ */

static void fill_wheels(void) {
  uvwheel_stats_t *stats = &views[1].shown.snapshot.stats;

  for (unsigned i = 0; i < WHEELS; i++) {
    views[i].shown.snapshot.stats.fired = 10 + i;
    views[i].shown.snapshot.stats.turn_max_us = 1500000 + i;
    views[i].shown.snapshot.options.tick_ms = 100;
    views[i].shown.snapshot.options.slots = 512;
    views[i].shown.snapshot.options.max_timers = 1000;
  }
  stats->lateness[0] = 5;
  stats->lateness[1] = 1;
  stats->lateness[10] = 2;
  stats->lateness[23] = 1;
  stats->lateness_sum_ms = 5001235;
}

START_TEST(each_wheel_has_samples_under_its_name) {
  static const char *const lines[] = {
      "uvwheel_fired_total{wheel=\"1\"} 10",
      "uvwheel_fired_total{wheel=\"3\"} 12",
      "uvwheel_turn_max_seconds{wheel=\"3\"} 1.500002",
      "uvwheel_tick_seconds{wheel=\"2\"} 0.100",
      "uvwheel_max_timers{wheel=\"2\"} 1000",
      "# TYPE uvwheel_fired_total counter",
      "# TYPE uvwheel_tick_seconds gauge",
      "# TYPE uvwheel_wheel_info gauge",
      "# TYPE uvwheel_lateness_seconds histogram",
      "uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"0.0\"} 5",
      "uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"0.001\"} 6",
      "uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"0.511\"} 6",
      "uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"1.023\"} 8",
      "uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"4194.303\"} 8",
      "uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"+Inf\"} 9",
      "uvwheel_lateness_seconds_count{wheel=\"2\"} 9",
      "uvwheel_lateness_seconds_sum{wheel=\"2\"} 5001.235",
  };
  char info[128];

  fill_wheels();
  write_metrics();
  (void)snprintf(info, sizeof info,
                 "uvwheel_wheel_info{wheel=\"1\",version=\"%s\","
                 "tick_ms=\"100\",slots=\"512\"} 1",
                 uvwheel_version_string());
  assert_line(info);
  for (size_t i = 0; i < LENGTH(lines); i++)
    assert_line(lines[i]);
}
END_TEST

/* ---- What a server counts itself ---------------------------------------- */

START_TEST(what_a_server_counts_has_the_names_and_reasons_that_it_gives) {
  static const live_figure_t counts[] = {
      {8, LIVE_SERVER, LIVE_GAUGE, LIVE_ONE, "open", "Open now.", NULL, 0,
       NULL},
      {16, LIVE_SERVER, LIVE_COUNTER, LIVE_ONE, "closed", "Closed.",
       "Bad when it grows: x.", 0, "idle"},
      {0, LIVE_SERVER, LIVE_COUNTER, LIVE_ONE, "closed", NULL, "Bad.", 0,
       "shed"},
  };
  static const uint64_t numbers[WHEELS][3] = {
      {11, 12, 13}, {21, 22, 23}, {31, 32, 33}};
  static const uint64_t refreshes;

  for (unsigned i = 0; i < WHEELS; i++) {
    live_wheel_t wheel = {.name = views[i].wheel.name,
                          .wheel = NULL,
                          .refreshes = &refreshes,
                          .server = numbers[i],
                          .counts = counts,
                          .count_count = LENGTH(counts)};
    views[i].wheel = wheel;
    live_counts_take(&views[i].shown.snapshot, &wheel);
  }
  write_metrics();
  assert_text("# HELP uvwheel_server_open Open now.\n"
              "# TYPE uvwheel_server_open gauge\n"
              "uvwheel_server_open{wheel=\"1\"} 12\n");
  assert_text(
      "# HELP uvwheel_server_closed_total Closed. Bad when it grows: x.\n"
      "# TYPE uvwheel_server_closed_total counter\n"
      "uvwheel_server_closed_total{wheel=\"1\",reason=\"idle\"} 13\n"
      "uvwheel_server_closed_total{wheel=\"2\",reason=\"idle\"} 23\n"
      "uvwheel_server_closed_total{wheel=\"3\",reason=\"idle\"} 33\n"
      "uvwheel_server_closed_total{wheel=\"1\",reason=\"shed\"} 11\n");
  views[1].judged.bad_ms[LIVE_FIGURES + 1] = 77;
  write_frame(0);
  assert_text("{\"name\":\"closed: idle\",\"place\":\"server\",");
  assert_text(",\"closed: idle\":[13,23,33],\"closed: idle_bad\":[0,77,0],");
  assert_text(",\"closed: shed_bad\":[0,0,0],");
  assert_text(",\"open\":[12,22,32],");
}
END_TEST

/* ---- Frames ------------------------------------------------------------- */

START_TEST(a_frame_has_figures_of_all_wheels_and_slots_of_one) {
  for (unsigned i = 0; i < WHEELS; i++) {
    views[i].shown.snapshot.stats.active = 10 + i;
    views[i].judged.stall_ms = 20 + i;
    views[i].shown.picture.cell_count = 2;
    views[i].shown.picture.cells[1] = 100 + i;
  }
  write_frame(1);
  ck_assert_int_eq(strncmp(text, "{\"wheel\":1,", 11), 0);
  assert_text(",\"all\":{\"name\":[\"1\",\"2\",\"3\"],");
  assert_text(",\"active\":[10,11,12],");
  assert_text(",\"overdue_bad\":[0,0,0],");
  assert_text(",\"stall_ms\":[20,21,22]},");
  assert_text(",\"cells\":[0,101]}\n");
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      EACH(a_figure_is_bad_beyond_its_limit, limits),
      TEST(a_time_is_bad_if_it_stays_beyond_its_limit),
      TEST(the_worst_of_a_trouble_is_remembered),
      TEST(timers_are_late_when_one_in_a_hundred_is),
      TEST(each_wheel_has_samples_under_its_name),
      TEST(what_a_server_counts_has_the_names_and_reasons_that_it_gives),
      TEST(a_frame_has_figures_of_all_wheels_and_slots_of_one),
  };

  return run_tests("live report", NULL, NULL, tests, LENGTH(tests));
}
