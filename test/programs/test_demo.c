/* SPDX-License-Identifier: MIT */

/* The demo script, on programs that are built already. */

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"
#include "suite.h"

static result_t result;

/* --build, the directory, and these options. */
static void
demo_options(char line[512], const char *options)
{
  snprintf(line, 512, "--build %s %s", getenv("BUILT"), options);
}

/* It must end well, with a table that has these rows and fits the page. */
static void
assert_table(const char *options, const char *const rows[], size_t count)
{
  char line[512];

  demo_options(line, options);
  run_program("DEMO", line, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  for (size_t i = 0; i < count; i++)
    ck_assert_msg(strstr(result.out, rows[i]) != NULL, "%s", rows[i]);
  for (char *row = result.out; row != NULL && *row != '\0';) {
    size_t length = strcspn(row, "\n");
    ck_assert_msg(length <= 80, "too long: %s", row);
    row += length + (row[length] == '\n');
  }
}

START_TEST(a_small_demo_prints_its_table)
{
  static const char *const rows[] = {
      "connections",   "messages echoed", "timer refreshes",
      "on time",       "lateness",        "wrong closes",
      "CPU",           "bytes per timer", "uv_timer_t",
      "no timeouts\n",
  };
  assert_table("--connections 100 --timeout 600", rows,
               sizeof(rows) / sizeof(rows[0]));
}
END_TEST

START_TEST(a_small_million_prints_its_table)
{
  static const char *const rows[] = {
      "uv_timer_t          uvwheel\n",
      "sessions at once                                  1,000            "
      "1,000",
      "sessions made per second",
      "datagrams answered per second",
      "CPU time of the server",
      "its timer                                   152 bytes         64 bytes",
      "memory of the server",
      "sessions expired                                    800              "
      "800",
      "before their timeout                                0                0",
      "lateness: median",
      "99 % below",
      "max",
      "longest turn of the loop",
  };

  assert_table("--million --sessions 1000 --timeout 1000", rows,
               sizeof(rows) / sizeof(rows[0]));
}
END_TEST

/* With so few connections, what counts is that all rows are there. */
START_TEST(a_small_trouble_prints_its_table)
{
  static const char *const rows[] = {
      "uv_timer_t      uvwheel\n",
      "frozen for 5 s, 50 speak on: closed",
      "blocked for 4 s, 15 speak on: closed",
      "UDP, frozen for 4 s, 15 speak on: lost",
      "100 expire at once: longest turn",
      "full: served of 1 newcomers",
  };

  assert_table("--trouble --connections 100", rows,
               sizeof(rows) / sizeof(rows[0]));
}
END_TEST

/* It raises no limit that it was given, but makes do. */
START_TEST(few_descriptors_mean_fewer_connections)
{
  char line[512];

  descriptor_limit = 132;
  demo_options(line, "--timeout 600");
  run_program("DEMO", line, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_ptr_nonnull(strstr(result.out, "100 connections instead of 10000"));
}
END_TEST

/* finish() returns only when no process holds the demo's stdout or stderr any
 * more: so nothing that it started is left. */
static void
stop_half_way(int signal, int status)
{
  char line[512];

  demo_options(line, "--connections 100");
  program_t demo = start_program("DEMO", line);
  read_line(demo.err, line, sizeof(line));
  ck_assert_msg(strncmp(line, "running:", 8) == 0, "%s", line);
  stop(&demo, signal, &result);
  ck_assert_int_eq(result.status, status);
}

START_TEST(an_interrupted_demo_leaves_nothing_running)
{
  stop_half_way(SIGINT, 130);
}
END_TEST

START_TEST(a_terminated_demo_leaves_nothing_running)
{
  stop_half_way(SIGTERM, 143);
}
END_TEST

static const struct {
  int status;
  const char *command_line;
  const char *complaint;
} wrong[] = {
    {2, "--bogus", "unknown option '--bogus'"},
    {2, "stray", "unknown option 'stray'"},
    {2, "--connections", "--connections takes a value"},
    {2, "--connections 0", "--connections takes a number from 1"},
    {2, "--connections many", "not 'many'"},
    {2, "--connections 99999999999999999999", "takes a number"},
    {2, "--timeout 1.5", "--timeout takes a number"},
    {2, "--million --sessions 16000001", "--sessions takes a number"},
    {2, "--sessions 10", "--sessions goes with --million"},
    {2, "--million --connections 10", "--connections does not go with"},
    {2, "--trouble --million", "--trouble goes without --million"},
    {2, "--trouble --timeout 1000", "--trouble goes without --million"},
    {1, "--build /nowhere", "there is no /nowhere/examples/idle-server"},
    {1, "--million --build /nowhere",
     "there is no /nowhere/examples/udp-sessions"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(bad_input_is_one_line)
{
  run_program("DEMO", wrong[_i].command_line, &result);
  assert_complaint(&result, wrong[_i].status, wrong[_i].complaint);
  ck_assert_str_eq(result.out, "");
}
END_TEST

START_TEST(help_names_every_option)
{
  static const char *const names[] = {
      "--connections", "--million", "--sessions", "--timeout",
      "--build",       "--help",    "--trouble"};

  assert_help("DEMO", names, sizeof(names) / sizeof(names[0]));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("demo");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, a_small_demo_prints_its_table);
  if (getenv("UDP_LOAD") != NULL) /* they could be built */
    tcase_add_test(tcase, a_small_million_prints_its_table);
  if (getenv("UDP_LOAD") != NULL)
    tcase_add_test(tcase, a_small_trouble_prints_its_table);
  tcase_add_test(tcase, few_descriptors_mean_fewer_connections);
  tcase_add_test(tcase, an_interrupted_demo_leaves_nothing_running);
  tcase_add_test(tcase, a_terminated_demo_leaves_nothing_running);
  tcase_add_loop_test(tcase, bad_input_is_one_line, 0, WRONG);
  tcase_add_test(tcase, help_names_every_option);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
