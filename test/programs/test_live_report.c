/* SPDX-License-Identifier: MIT */

/* What the live page and Prometheus are sent of wheels; browser/served.py has
 * others judge the formats. */

#include <check.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <uvwheel.h>

#include "live/live-frame.h"
#include "live/live-metrics.h"
#include "suite.h"

#define WHEELS 3
#define FIELDS (sizeof(uvwheel_stats_t) / sizeof(uint64_t))
#define FIELD_OF(field) (offsetof(uvwheel_stats_t, field) / sizeof(uint64_t))

static live_view_t views[WHEELS];
static live_wheels_t wheels = {views, WHEELS};
static char text[LIVE_FRAME_SIZE(WHEELS) + 65536];

static void
setup(void)
{
  static const char *const names[] = {"1", "2", "3"};

  for (int i = 0; i < WHEELS; i++)
    views[i].wheel.name = names[i];
}

static size_t
write_metrics(void)
{
  FILE *stream = fmemopen(text, sizeof(text), "w");

  live_metrics_write(stream, &wheels);
  fclose(stream);
  return strlen(text);
}

static size_t
write_frame(size_t chosen)
{
  static const live_facts_t facts = {UINT64_MAX, UINT64_MAX};
  FILE *stream = fmemopen(text, sizeof(text), "w");

  live_frame_write(stream, &wheels, chosen, &facts);
  fclose(stream);
  return strlen(text);
}

static void
assert_text(const char *wanted)
{
  ck_assert_msg(strstr(text, wanted) != NULL, "no '%s' in\n%s", wanted, text);
}

static void
assert_line(const char *line)
{
  char pattern[256];

  snprintf(pattern, sizeof(pattern), "\n%s\n", line);
  assert_text(pattern);
}

/* ---- The table ---------------------------------------------------------- */

static int
is_in_a_histogram(size_t field)
{
  return (field >= FIELD_OF(lateness) &&
          field < FIELD_OF(lateness) + UVWHEEL_LATENESS_BUCKETS) ||
         (field >= FIELD_OF(due_lateness) &&
          field < FIELD_OF(due_lateness) + UVWHEEL_LATENESS_BUCKETS) ||
         field == FIELD_OF(lateness_sum_ms) ||
         field == FIELD_OF(due_lateness_sum_ms);
}

START_TEST(each_statistic_is_a_figure_once)
{
  for (size_t field = 0; field < FIELD_OF(reserved); field++) {
    int rows = 0;
    for (size_t i = 0; i < live_figure_count; i++)
      rows += live_figures[i].offset ==
              offsetof(live_snapshot_t, stats) + field * sizeof(uint64_t);
    ck_assert_msg(rows == !is_in_a_histogram(field), "field %zu: %d rows",
                  field, rows);
  }
}
END_TEST

/* They stand in JSON strings and in help lines as they are. */
START_TEST(the_table_needs_no_escapes)
{
  for (size_t i = 0; i < live_figure_count; i++) {
    const live_figure_t *figure = &live_figures[i];
    ck_assert_ptr_null(strpbrk(figure->title, "\"\\\n"));
    ck_assert_ptr_null(strpbrk(figure->help, "\"\\\n"));
    ck_assert_int_eq(figure->help[strlen(figure->help) - 1], '.');
    if (figure->worry == NULL)
      continue;
    ck_assert_ptr_null(strpbrk(figure->worry, "\"\\\n"));
    ck_assert_int_eq(strncmp(figure->worry, "Bad when ", 9), 0);
  }
}
END_TEST

START_TEST(the_table_fits_into_an_event)
{
  FILE *stream = fmemopen(text, sizeof(text), "w");

  live_frame_write_figures(stream);
  ck_assert_int_lt(ftell(stream), LIVE_FRAME_SIZE(1) - 64);
  fclose(stream);
}
END_TEST

/* ---- Metrics ------------------------------------------------------------ */

START_TEST(each_wheel_has_a_sample_under_its_name)
{
  for (unsigned i = 0; i < WHEELS; i++) {
    views[i].shown.snapshot.stats.fired = 10 + i;
    views[i].shown.snapshot.stats.wakeup_max_us = 1500000 + i;
    views[i].shown.snapshot.options.tick_ms = 100;
    views[i].shown.snapshot.options.slots = 512;
  }
  write_metrics();
  assert_line("# TYPE uvwheel_fired counter");
  assert_text("\nuvwheel_fired_total{wheel=\"1\"} 10\n"
              "uvwheel_fired_total{wheel=\"2\"} 11\n"
              "uvwheel_fired_total{wheel=\"3\"} 12\n");
  assert_line("uvwheel_turn_max_seconds{wheel=\"3\"} 1.500002");
  assert_line("uvwheel_tick_seconds{wheel=\"2\"} 0.100");
  assert_line("uvwheel_wheel_info{wheel=\"1\",version=\"0.1.0\","
              "tick_ms=\"100\",slots=\"512\"} 1");
  ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
}
END_TEST

START_TEST(lateness_is_two_histograms_in_seconds)
{
  uvwheel_stats_t *stats = &views[1].shown.snapshot.stats;

  stats->lateness[0] = 5;
  stats->lateness[1] = 1;
  stats->lateness[10] = 2;
  stats->lateness[23] = 1;
  stats->lateness_sum_ms = 5001235;
  stats->due_lateness[7] = 9;
  stats->due_lateness_sum_ms = 810;
  write_metrics();
  assert_line("# TYPE uvwheel_lateness_seconds histogram");
  assert_line("uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"0.0\"} 5");
  assert_line("uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"0.001\"} 6");
  assert_line("uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"0.511\"} 6");
  assert_line("uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"1.023\"} 8");
  assert_line("uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"4194.303\"} 8");
  assert_line("uvwheel_lateness_seconds_bucket{wheel=\"2\",le=\"+Inf\"} 9");
  assert_line("uvwheel_lateness_seconds_count{wheel=\"2\"} 9");
  assert_line("uvwheel_lateness_seconds_sum{wheel=\"2\"} 5001.235");
  assert_line("# TYPE uvwheel_due_lateness_seconds histogram");
  assert_line(
      "uvwheel_due_lateness_seconds_bucket{wheel=\"2\",le=\"0.063\"} 0");
  assert_line(
      "uvwheel_due_lateness_seconds_bucket{wheel=\"2\",le=\"0.127\"} 9");
  assert_line("uvwheel_due_lateness_seconds_sum{wheel=\"2\"} 0.810");
}
END_TEST

/* ---- Frames ------------------------------------------------------------- */

START_TEST(a_frame_has_figures_of_all_wheels_and_slots_of_one)
{
  for (unsigned i = 0; i < WHEELS; i++) {
    views[i].shown.snapshot.stats.active = 10 + i;
    views[i].shown.picture.cell_count = 2;
    views[i].shown.picture.cells[1] = 100 + i;
  }
  write_frame(1);
  ck_assert_int_eq(strncmp(text, "{\"wheel\":1,", 11), 0);
  assert_text(",\"names\":[\"1\",\"2\",\"3\"],");
  assert_text(",\"timers\":[10,11,12],");
  assert_text(",\"cells\":[0,101]}");
}
END_TEST

START_TEST(the_largest_numbers_fit)
{
  for (int i = 0; i < WHEELS; i++) {
    memset(&views[i].shown, 0xff, sizeof(views[i].shown));
    views[i].shown.picture.cell_count = LIVE_MAX_CELLS;
  }
  ck_assert_uint_lt(write_frame(2), LIVE_FRAME_SIZE(WHEELS) - 64);
  ck_assert_str_eq(text + strlen(text) - 3, "5]}");
  write_metrics();
  assert_line("uvwheel_deaf_seconds_total{wheel=\"1\"} 18446744073709551.615");
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("live report");
  TCase *tcase = tcase_create("text");

  tcase_add_checked_fixture(tcase, setup, NULL);
  tcase_add_test(tcase, each_statistic_is_a_figure_once);
  tcase_add_test(tcase, the_table_needs_no_escapes);
  tcase_add_test(tcase, the_table_fits_into_an_event);
  tcase_add_test(tcase, each_wheel_has_a_sample_under_its_name);
  tcase_add_test(tcase, lateness_is_two_histograms_in_seconds);
  tcase_add_test(tcase, a_frame_has_figures_of_all_wheels_and_slots_of_one);
  tcase_add_test(tcase, the_largest_numbers_fit);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
