/* SPDX-License-Identifier: MIT */

/* The soak script, for seconds, on a good server and on bad ones. */

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"
#include "suite.h"

static result_t result;

/* The programs of a directory, and "minutes" of one second. */
static void
soak_options(char line[512], const char *built, const char *more)
{
  snprintf(line, 512,
           "--build %s --minute 1 --timeout 800 --connections 100 %s", built,
           more);
}

static void
true_programs(char line[512], const char *more)
{
  soak_options(line, getenv("BUILT"), more);
}

START_TEST(a_short_soak_prints_its_minutes_and_passes)
{
  char line[512];

  true_programs(line, "6");
  run_program("SOAK", line, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_str_eq(result.err, "");
  ck_assert_ptr_nonnull(strstr(result.out, "\n     6 "));
  ck_assert_ptr_nonnull(strstr(result.out, "none wrong, none left.\n"));
  ck_assert_ptr_nonnull(strstr(result.out, " KiB after minute 2, "));
  ck_assert_ptr_nonnull(strstr(result.out, " KiB at the end: not growing.\n"));
}
END_TEST

START_TEST(one_minute_is_said_to_be_too_short_to_see_memory_grow)
{
  char line[512];

  true_programs(line, "1");
  run_program("SOAK", line, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_ptr_nonnull(strstr(result.out, "none wrong, none left.\n"));
  ck_assert_ptr_nonnull(strstr(result.out, "does not tell whether it grows"));
  ck_assert_ptr_null(strstr(result.out, "not growing"));
}
END_TEST

/* A server that needs memory for all connections it ever had. */
#define LEAK \
  "s/ accepted=\\([0-9]*\\)\\(.* rss_kib=\\)[0-9]*/ accepted=\\1\\2\\100/"

static const struct {
  const char *minutes;
  const char *options; /* of the server              */
  const char *lie;     /* about it, in sed's language */
  const char *complaint;
} bad[] = {
    {"4", "--timeout 400", "", "a connection was closed before its timeout"},
    {"4", "--timeout 2000", "", "an idle connection was closed too late"},
    {"2", "", LEAK, "the server's memory grew from"},
    {"6", "", LEAK, "the server's memory grew from"},
    {"1", "", "s/ active=[0-9]*/ active=7/", "has 0 connections and 7 timers"},
};
#define BAD ((int)(sizeof(bad) / sizeof(bad[0])))

START_TEST(a_bad_server_fails_with_one_line)
{
  char line[512];

  setenv("options", bad[_i].options, 1);
  setenv("lie", bad[_i].lie, 1);
  soak_options(line, getenv("LIAR"), bad[_i].minutes);
  run_program("SOAK", line, &result);
  assert_complaint(&result, 1, bad[_i].complaint);
}
END_TEST

/* finish() returns only when no process holds its stdout or stderr any more. */
START_TEST(a_terminated_soak_leaves_nothing_running)
{
  static const int signals[] = {SIGINT, SIGTERM};
  char line[512];

  true_programs(line, "60");
  program_t soak = start_program("SOAK", line);
  for (int i = 0; i < 3; i++) /* the heading, and two minutes */
    read_line(soak.out, line, sizeof(line));
  stop(&soak, signals[_i], &result);
  ck_assert_int_eq(result.status, 128 + signals[_i]);
}
END_TEST

static const struct {
  int status;
  const char *command_line;
  const char *complaint;
} wrong[] = {
    {2, "", "how many minutes?"},
    {2, "--bogus", "unknown option '--bogus'"},
    {2, "--minute", "--minute takes a value"},
    {2, "--minute 61 1", "--minute takes a number from 1 to 60, not '61'"},
    {2, "--connections none 1", "--connections takes a number"},
    {2, "0", "MINUTES takes a number from 1"},
    {2, "--minute 1 --timeout 1001 1", "a minute must not be shorter"},
    {1, "--build /nowhere 1", "there is no /nowhere/examples/idle-server"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(bad_input_is_one_line)
{
  run_program("SOAK", wrong[_i].command_line, &result);
  assert_complaint(&result, wrong[_i].status, wrong[_i].complaint);
  ck_assert_str_eq(result.out, "");
}
END_TEST

START_TEST(help_names_every_option)
{
  static const char *const names[] = {"--connections", "--timeout", "--minute",
                                      "--build", "--help"};

  assert_help("SOAK", names, sizeof(names) / sizeof(names[0]));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("soak");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, a_short_soak_prints_its_minutes_and_passes);
  tcase_add_test(tcase, one_minute_is_said_to_be_too_short_to_see_memory_grow);
  tcase_add_loop_test(tcase, a_bad_server_fails_with_one_line, 0, BAD);
  tcase_add_loop_test(tcase, a_terminated_soak_leaves_nothing_running, 0, 2);
  tcase_add_loop_test(tcase, bad_input_is_one_line, 0, WRONG);
  tcase_add_test(tcase, help_names_every_option);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
