/* SPDX-License-Identifier: MIT */

/* uvwheel-try: a program does the same whoever serves its timers, and however
 * it ends there is a report. */

#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "programs.h"
#include "suite.h"

static result_t result;

/* `try OPTION... SUBJECT HOW`, with what was built. */
static const char *
command(const char *options, const char *how)
{
  static char line[1024];

  snprintf(line, sizeof(line), "--build %s %s %s %s", getenv("BUILT"), options,
           getenv("TRY_SUBJECT"), how);
  return line;
}

static void
run_try(const char *options, const char *how)
{
  run_program("TRY", command(options, how), &result);
}

static unsigned
occurrences(const char *text, const char *part)
{
  unsigned count = 0;

  while ((text = strstr(text, part)) != NULL) {
    text += strlen(part);
    count++;
  }
  return count;
}

/* How many calls the last report has in a row. */
static unsigned long
calls_of(const char *report, const char *row)
{
  const char *next, *found = NULL;
  char start[16];

  snprintf(start, sizeof(start), "\n%s ", row);
  for (next = report; (next = strstr(next, start)) != NULL; next++)
    found = next + strlen(start);
  ck_assert_msg(found != NULL, "no row '%s' in\n%s", row, report);
  return strtoul(found, NULL, 10);
}

/* ---- The same as without ------------------------------------------------ */

static void
assert_same_output(const char *options, const char *kind)
{
  static result_t alone;

  run_program("TRY_SUBJECT", "", &alone);
  run_try(options, "");
  ck_assert_int_eq(alone.status, 0);
  ck_assert_int_eq(result.status, 0);
  /* Both are too long for a message of check. */
  ck_assert_msg(strcmp(result.out, alone.out) == 0, "the output differs");
  ck_assert_ptr_nonnull(strstr(result.err, kind));
}

START_TEST(a_program_does_the_same_while_its_timers_are_measured)
{
  assert_same_output("--with uv", "timers by uv");
}
END_TEST

START_TEST(a_program_does_the_same_when_a_wheel_serves_its_timers)
{
  assert_same_output("--with wheel", "timers by wheel");
}
END_TEST

START_TEST(a_tick_of_the_wheel_can_be_chosen)
{
  run_try("--with wheel --tick 7 --stall 100", "leave");
  ck_assert_int_eq(result.status, 3);
  ck_assert_ptr_nonnull(strstr(result.err, " x 7 ms"));
}
END_TEST

START_TEST(both_ways_count_the_same_calls)
{
  static const char *const rows[] = {"init", "start", "again", "fire"};
  unsigned long counts[4];

  run_try("--with uv", "");
  for (size_t i = 0; i < 4; i++) {
    counts[i] = calls_of(result.err, rows[i]);
    ck_assert_uint_gt(counts[i], 0);
  }
  run_try("--with wheel", "");
  for (size_t i = 0; i < 4; i++)
    ck_assert_uint_eq(calls_of(result.err, rows[i]), counts[i]);
}
END_TEST

/* ---- Reports ------------------------------------------------------------ */

START_TEST(a_forked_child_reports_its_own_calls)
{
  unsigned long of_child, of_parent;
  char *last;

  run_try("--with uv", "");
  ck_assert_uint_eq(occurrences(result.err, "uvwheel-try: "), 2);
  last = strstr(result.err + 1, "uvwheel-try: ");
  of_parent = calls_of(last, "init");
  *last = '\0';
  of_child = calls_of(result.err, "init");
  /* The child does all once; the parent three times before and once after. */
  ck_assert_uint_gt(of_child, 0);
  ck_assert_uint_eq(of_parent, 4 * of_child);
}
END_TEST

START_TEST(a_program_without_timers_is_reported)
{
  char line[512];

  snprintf(line, sizeof(line), "--build %s true", getenv("BUILT"));
  run_program("TRY", line, &result);
  ck_assert_int_eq(result.status, 0);
  ck_assert_ptr_nonnull(strstr(result.err, "no timer of libuv was seen"));
}
END_TEST

START_TEST(an_exit_in_a_callback_is_reported_with_the_wheel_as_it_is)
{
  run_try("--with wheel", "leave");
  ck_assert_int_eq(result.status, 3);
  ck_assert_ptr_nonnull(strstr(result.err, " average, 2 now"));
  ck_assert_ptr_nonnull(strstr(result.err, "lateness"));
}
END_TEST

START_TEST(a_return_from_main_survives_timers_whose_memory_is_gone)
{
  run_try("--with wheel", "return");
  ck_assert_int_eq(result.status, 0);
  ck_assert_ptr_nonnull(strstr(result.err, " average, 2 now"));
}
END_TEST

/* Starts one that does not end by itself, and waits until its loop runs. */
static program_t
start_waiting(const char *options)
{
  program_t program = start_program("TRY", command(options, "wait"));
  char line[80];

  read_line(program.out, line, sizeof(line));
  ck_assert_str_eq(line, "ready");
  return program;
}

static void
terminate(const char *options)
{
  program_t program = start_waiting(options);

  stop(&program, SIGTERM, &result);
  ck_assert_int_eq(result.status, 128 + SIGTERM);
  ck_assert_uint_eq(occurrences(result.err, "uvwheel-try: "), 1);
  ck_assert_uint_gt(calls_of(result.err, "fire"), 0);
}

START_TEST(a_signal_that_ends_the_program_is_reported)
{
  terminate("--with uv");
  ck_assert_ptr_null(strstr(result.err, "lateness"));
  terminate("--with wheel");
  ck_assert_ptr_nonnull(strstr(result.err, "lateness"));
}
END_TEST

START_TEST(the_page_of_a_wheel_is_written_on_a_signal)
{
  program_t program = start_waiting("--with wheel");
  char line[256];

  ck_assert_int_eq(kill(program.pid, SIGUSR2), 0);
  do
    read_line(program.err, line, sizeof(line));
  while (strstr(line, "trouble") == NULL && line[0] != '\0');
  ck_assert_ptr_nonnull(strstr(line, "trouble"));
  stop(&program, SIGTERM, &result);
}
END_TEST

START_TEST(a_report_so_far_is_written_on_a_signal)
{
  program_t program = start_waiting("--with uv");
  char line[256];

  ck_assert_int_eq(kill(program.pid, SIGUSR2), 0);
  read_line(program.err, line, sizeof(line));
  ck_assert_ptr_nonnull(strstr(line, "timers by uv"));
  stop(&program, SIGTERM, &result);
  ck_assert_uint_eq(occurrences(result.err, "timers by uv"), 1);
}
END_TEST

/* ---- Two reports -------------------------------------------------------- */

#define PATH_SIZE 512

/* Where the system wants temporary files. */
static void
make_directory(char *directory)
{
  const char *parent = getenv("TMPDIR");

  snprintf(directory, PATH_SIZE, "%s/try-XXXXXX", parent ? parent : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void
remove_report(const char *directory, const char *name)
{
  char path[PATH_SIZE + 8];

  snprintf(path, sizeof(path), "%s/%s", directory, name);
  ck_assert_int_eq(unlink(path), 0);
}

static void
compare(const char *directory, const char *one, const char *other)
{
  char line[2 * PATH_SIZE + 32];

  snprintf(line, sizeof(line), "--compare %s/%s %s/%s", directory, one,
           directory, other);
  run_program("TRY", line, &result);
}

START_TEST(two_reports_are_compared_in_either_order)
{
  static const char *const names[] = {"uv", "wheel"};
  char directory[PATH_SIZE], options[PATH_SIZE + 32];

  make_directory(directory);
  for (int i = 0; i < 2; i++) {
    snprintf(options, sizeof(options), "--with %s --output %s/%s", names[i],
             directory, names[i]);
    run_try(options, "leave");
    ck_assert_str_eq(result.err, "");
  }
  for (int i = 0; i < 2; i++) {
    compare(directory, names[i], names[!i]);
    ck_assert_int_eq(result.status, 0);
    ck_assert_ptr_nonnull(
        strstr(result.out, "init    calls                    2           2\n"));
    ck_assert_ptr_nonnull(
        strstr(result.out, "bytes   of timers              304         128\n"));
    ck_assert_ptr_nonnull(
        strstr(result.out, "        of slots                 0     4194304\n"));
  }
  compare(directory, "uv", "uv");
  assert_complaint(&result, 1, "both reports are with uv");
  remove_report(directory, "uv");
  remove_report(directory, "wheel");
  ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

START_TEST(wrong_usage_is_one_line)
{
  assert_wrong_usage("TRY", "--with sundial true", "--with takes uv or wheel");
  assert_wrong_usage("TRY", "--with uv", "no command is given");
  assert_wrong_usage("TRY", "--tick 0 true", "--tick takes a number");
  assert_wrong_usage("TRY", "--tick", "--tick takes a value");
  assert_wrong_usage("TRY", "--compare one", "--compare takes two files");
  assert_wrong_usage("TRY", "--wheel true", "unknown option '--wheel'");
}
END_TEST

START_TEST(help_names_the_options)
{
  static const char *const names[] = {"--with uv", "--with wheel", "--tick",
                                      "--stall",   "--output",     "--compare"};

  assert_help("TRY", names, sizeof(names) / sizeof(*names));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("try");
  TCase *tcase = tcase_create("try");

  suite_add_tcase(suite, tcase);
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, a_program_does_the_same_while_its_timers_are_measured);
  tcase_add_test(tcase, a_program_does_the_same_when_a_wheel_serves_its_timers);
  tcase_add_test(tcase, a_tick_of_the_wheel_can_be_chosen);
  tcase_add_test(tcase, both_ways_count_the_same_calls);
  tcase_add_test(tcase, a_forked_child_reports_its_own_calls);
  tcase_add_test(tcase, a_program_without_timers_is_reported);
  tcase_add_test(tcase,
                 an_exit_in_a_callback_is_reported_with_the_wheel_as_it_is);
  tcase_add_test(tcase,
                 a_return_from_main_survives_timers_whose_memory_is_gone);
  tcase_add_test(tcase, a_signal_that_ends_the_program_is_reported);
  tcase_add_test(tcase, the_page_of_a_wheel_is_written_on_a_signal);
  tcase_add_test(tcase, a_report_so_far_is_written_on_a_signal);
  tcase_add_test(tcase, two_reports_are_compared_in_either_order);
  tcase_add_test(tcase, wrong_usage_is_one_line);
  tcase_add_test(tcase, help_names_the_options);
  return run_suite(suite);
}
