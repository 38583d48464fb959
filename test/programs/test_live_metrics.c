/* SPDX-License-Identifier: MIT */

/* What Prometheus reads of a wheel's statistics; browser/served.py has
 * others judge the format. */

#include <check.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <uvwheel.h>

#include "live/live-metrics.h"
#include "suite.h"

static char text[LIVE_MAX_METRICS];

static void
assert_line(const char *line)
{
  char pattern[256];

  snprintf(pattern, sizeof(pattern), "\n%s\n", line);
  ck_assert_msg(strstr(text, pattern) != NULL, "no '%s' in\n%s", line, text);
}

/* Each field has a number of its own, 1000 and more: a time of so many
 * milliseconds or microseconds is a number with a point. */
START_TEST(all_statistics_are_there)
{
  union {
    uvwheel_stats_t stats;
    uint64_t numbers[sizeof(uvwheel_stats_t) / sizeof(uint64_t)];
  } all = {0};
  const size_t first = offsetof(uvwheel_stats_t, lateness) / sizeof(uint64_t);

  for (size_t i = 0; i < offsetof(uvwheel_stats_t, reserved) / 8; i++)
    all.numbers[i] = 1000 + i;
  live_metrics_write(&all.stats, text);
  for (size_t i = 0; i < offsetof(uvwheel_stats_t, reserved) / 8; i++) {
    char count[32], ms[32], us[32];
    if (i >= first && i < first + UVWHEEL_LATENESS_BUCKETS)
      continue;
    snprintf(count, sizeof(count), " %" PRIu64 "\n", all.numbers[i]);
    snprintf(ms, sizeof(ms), " 1.%03zu\n", i);
    snprintf(us, sizeof(us), " 0.%06" PRIu64 "\n", all.numbers[i]);
    ck_assert_msg(strstr(text, count) != NULL || strstr(text, ms) != NULL ||
                      strstr(text, us) != NULL,
                  "field %zu is missing", i);
  }
}
END_TEST

START_TEST(lateness_is_a_histogram_in_seconds)
{
  uvwheel_stats_t stats = {
      .lateness = {[0] = 5, [1] = 1, [10] = 2, [23] = 1},
      .lateness_max_ms = 5000000,
  };

  live_metrics_write(&stats, text);
  assert_line("# TYPE uvwheel_lateness_seconds histogram");
  assert_line("uvwheel_lateness_seconds_bucket{le=\"0.0\"} 5");
  assert_line("uvwheel_lateness_seconds_bucket{le=\"0.001\"} 6");
  assert_line("uvwheel_lateness_seconds_bucket{le=\"0.511\"} 6");
  assert_line("uvwheel_lateness_seconds_bucket{le=\"1.023\"} 8");
  assert_line("uvwheel_lateness_seconds_bucket{le=\"4194.303\"} 8");
  assert_line("uvwheel_lateness_seconds_bucket{le=\"+Inf\"} 9");
  assert_line("uvwheel_lateness_max_seconds 5000.000");
}
END_TEST

START_TEST(the_largest_numbers_fit)
{
  uvwheel_stats_t stats;

  memset(&stats, 0xff, sizeof(stats));
  memset(stats.lateness, 0, sizeof(stats.lateness));
  stats.lateness[0] = UINT64_MAX;
  size_t length = live_metrics_write(&stats, text);
  ck_assert_uint_eq(length, strlen(text));
  ck_assert_uint_lt(length, sizeof(text));
  assert_line("uvwheel_deaf_seconds_total 18446744073709551.615");
  ck_assert_str_eq(text + length - 6, "# EOF\n");
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("live metrics");
  TCase *tcase = tcase_create("text");

  tcase_add_test(tcase, all_statistics_are_there);
  tcase_add_test(tcase, lateness_is_a_histogram_in_seconds);
  tcase_add_test(tcase, the_largest_numbers_fit);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
