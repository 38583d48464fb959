/* SPDX-License-Identifier: MIT */

/* uvwheel-try: a program does the same whoever serves its timers, the report
 * counts the calls that it made, and however it ends there is a report. */

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "programs.h"
#include "suite.h"

static const char *const ways[] = {"uv", "wheel"};
static const char *const rows[] = {"init", "start", "again",
                                   "stop", "fire",  "close"};
static result_t result;
static char directory[256];

/* `--with WAY OPTION... SUBJECT HOW`, with what was built. */
static const char *
command(const char *way, const char *options, const char *how)
{
  return text_of("--build %s --with %s %s %s %s", getenv("BUILT"), way, options,
                 getenv("TRY_SUBJECT"), how);
}

/* How many calls a report has in each row. It never timed more. */
static void
read_calls(const char *report, unsigned long *calls)
{
  for (size_t i = 0; i < 6; i++) {
    const char *start = text_of("\n%s ", rows[i]);
    const char *found = strstr(report, start);
    char *end;

    ck_assert_msg(found != NULL, "no row '%s' in\n%s", rows[i], report);
    calls[i] = strtoul(found + strlen(start), &end, 10);
    ck_assert_uint_le(strtoul(end, NULL, 10), calls[i]);
  }
}

/* ---- The same as without ------------------------------------------------ */

/* Scenario 46 is one of the calls. The subject forks. The child does all once;
 * the parent has done so three times before, and does once more. */
START_TEST(a_program_does_and_counts_the_same_whoever_serves_its_timers)
{
  unsigned long of_child[2][6], of_parent[6];
  static result_t alone;
  const char *second;

  run_program("TRY_SUBJECT", "", &alone);
  ck_assert_int_eq(alone.status, 0);
  for (int way = 0; way < 2; way++) {
    run_program("TRY", command(ways[way], "", ""), &result);
    ck_assert_int_eq(result.status, 0);
    /* Both are too long for a message of check. */
    ck_assert_msg(strcmp(result.out, alone.out) == 0, "the output differs");
    second = strstr(result.err + 1, "uvwheel-try: ");
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(strstr(second + 1, "uvwheel-try: "));
    read_calls(second, of_parent);
    read_calls(result.err, of_child[way]);
    for (int i = 0; i < 6; i++)
      ck_assert_uint_eq(of_parent[i], 4 * of_child[way][i]);
  }
  for (int i = 0; i < 6; i++)
    ck_assert_uint_eq(of_child[0][i], of_child[1][i]);
}
END_TEST

/* ---- Reports ------------------------------------------------------------ */

/* A run of the subject with each: a part of the report, and its calls. */
static const struct {
  const char *how;
  int status;
  const char *says;
  unsigned long calls[6]; /* as in rows */
} runs[] = {
    /* an exit in a callback, with active timers */
    {"leave", 3, " at most, 2 now", {2, 2, 0, 0, 1, 0}},
    /* a return from main, when their memory is gone */
    {"return", 0, " at most, 2 now", {2, 2, 0, 0, 0, 0}},
    {"0", 0, "no timer of libuv was seen", {0}},
    /* fifty loops, one after the other: an active timer is closed, and one that
     * is overdue is stopped twice and closed */
    {"50 i0 i1 s0:60000 s1:0 x1 x1 c0 c1 r",
     0,
     "loops: 50;",
     {100, 100, 0, 100, 0, 100}},
    /* two packets stop the timer and start it, another finds it active */
    {"1 i0 s0:60000 x0 s0:60000 x0 s0:60000 s0:60000 c0 r",
     0,
     "\nrestart 3 starts",
     {1, 4, 0, 2, 0, 1}},
};

START_TEST(a_report_says_what_the_program_did)
{
  for (int way = 0; way < 2; way++) {
    unsigned long calls[6] = {0};

    run_program("TRY", command(ways[way], "", runs[_i].how), &result);
    ck_assert_int_eq(result.status, runs[_i].status);
    ck_assert_msg(strstr(result.err, runs[_i].says) != NULL, "no '%s' in\n%s",
                  runs[_i].says, result.err);
    if (runs[_i].calls[0] != 0)
      read_calls(result.err, calls);
    ck_assert_mem_eq(calls, runs[_i].calls, sizeof(calls));
  }
}
END_TEST

/* A timer that is overdue when the loop was blocked, and one that is started
 * after that: a stall puts the first one back, by default as in the library. */
START_TEST(the_wheel_has_the_default_for_stalls)
{
  static const struct {
    const char *way, *options;
    int is_put_back;
  } cases[] = {{"uv", "", 0}, {"wheel", "", 1}, {"wheel", "--stall never", 0}};

  for (size_t i = 0; i < LENGTH(cases); i++) {
    run_program("TRY",
                command(cases[i].way, cases[i].options,
                        "1 i2 i3 s2:400 b0:1000 s3:100 r"),
                &result);
    const char *first = strstr(result.out, "timer ");
    ck_assert_ptr_nonnull(first);
    ck_assert_int_eq(first[6], cases[i].is_put_back ? '3' : '2');
  }
}
END_TEST

/* ---- Signals ------------------------------------------------------------ */

/* Starts a subject that does not end by itself, and waits until it runs. */
static program_t
start_waiting(const char *way, const char *options, const char *how)
{
  program_t program = start_program("TRY", command(way, options, how));
  char line[80];

  read_line(program.out, line, sizeof(line));
  ck_assert_str_eq(line, "ready");
  return program;
}

/* Programs with timers, and one without. */
static const struct {
  const char *how, *way, *first, *last;
} signalled[] = {
    {"wait", "uv", "timers by uv", "next "},
    {"wait", "wheel", "timers by wheel", " for slots, "},
    {"idle", "uv", "no timer of libuv was seen", "linked statically"},
};

START_TEST(a_signal_asks_for_a_report_and_another_ends_with_one)
{
  program_t program = start_waiting(signalled[_i].way, "", signalled[_i].how);
  unsigned long calls[6];

  ck_assert_int_eq(kill(program.pid, SIGUSR2), 0);
  await_line(program.err, signalled[_i].first);
  await_line(program.err, signalled[_i].last);
  stop(&program, SIGTERM, &result);
  ck_assert_int_eq(result.status, 128 + SIGTERM);
  if (strcmp(signalled[_i].how, "wait") == 0)
    read_calls(strstr(result.err, signalled[_i].first), calls);
}
END_TEST

/* ---- Files -------------------------------------------------------------- */

static const char *
path_of(const char *name)
{
  return text_of("%s/%s", directory, name);
}

static void
make_directory(void)
{
  const char *parent = getenv("TMPDIR");

  snprintf(directory, sizeof(directory), "%s/try-XXXXXX",
           parent ? parent : "/tmp");
  ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void
remove_directory(void)
{
  ck_assert_int_eq(system(text_of("rm -r %s", directory)), 0);
}

/* Returns "" while there is none. */
static const char *
report_in(const char *name)
{
  static char report[OUTPUT_SIZE];
  int file = open(path_of(name), O_RDONLY);

  report[0] = '\0';
  if (file >= 0)
    read_all(file, report);
  return report;
}

/* Ends that leave no time to report: by a signal that cannot be handled, and by
 * one that the program handles and raises again. */
static const struct {
  const char *how;
  int signal;
} ends[] = {{"wait", SIGKILL}, {"raise", SIGTERM}};

/* The subject prints a line each time that its timer fires. */
START_TEST(a_file_is_kept_fresh_until_any_end)
{
  char line[80];

  for (int way = 0; way < 2; way++) {
    const char *options = text_of("--output %s", path_of(ways[way]));
    unsigned long calls[6] = {0};

    program_t program = start_waiting(ways[way], options, ends[_i].how);
    while (calls[4] < 2) {
      read_line(program.out, line, sizeof(line));
      ck_assert_str_eq(line, "fired");
      /* The first file may be from before the first timer. */
      if (strstr(report_in(ways[way]), "\ninit ") != NULL)
        read_calls(report_in(ways[way]), calls);
    }
    stop(&program, ends[_i].signal, &result);
    ck_assert_int_eq(result.status, 128 + ends[_i].signal);
    ck_assert_str_eq(result.err, "");
    read_calls(report_in(ways[way]), calls);
    ck_assert_uint_ge(calls[4], 2);
  }
}
END_TEST

static void
compare(const char *one, const char *other)
{
  run_program("TRY", text_of("--compare %s %s", path_of(one), path_of(other)),
              &result);
}

START_TEST(two_reports_are_compared_in_either_order)
{
  for (int i = 0; i < 2; i++) {
    const char *options = text_of("--tick 7 --output %s", path_of(ways[i]));
    run_program("TRY", command(ways[i], options, "leave"), &result);
    ck_assert_str_eq(result.err, "");
  }
  ck_assert_ptr_nonnull(strstr(report_in("wheel"), " 2097152 for slots"));
  ck_assert_ptr_nonnull(strstr(report_in("wheel"), "active: 2 at most"));
  ck_assert_ptr_nonnull(strstr(report_in("uv"), " ms on average, "));
  for (int i = 0; i < 2; i++) {
    compare(ways[i], ways[!i]);
    ck_assert_int_eq(result.status, 0);
    ck_assert_ptr_nonnull(
        strstr(result.out, "bytes   of timers              304         128\n"));
    ck_assert_ptr_nonnull(
        strstr(result.out, "        of slots                 0     2097152\n"));
  }
  compare("uv", "uv");
  assert_complaint(&result, 1, "both reports are with uv");
}
END_TEST

static void
write_report(const char *way, const char *fire, const char *all,
             const char *wall, const char *late)
{
  FILE *file = fopen(path_of(way), "w");

  ck_assert_ptr_nonnull(file);
  fprintf(file,
          "uvwheel-try: x, process 1: timers by %s (libuv 1)\n"
          "fire 1000 1000 %s 1\nall %s\ncpu 300 ms in %s ms; 1 %% of that\n"
          "late %s ms at most for 99 of 100 timers\n",
          way, fire, all, wall, late);
  fclose(file);
}

START_TEST(a_comparison_says_in_words_who_waits_longer)
{
  write_report("uv", "150", "5", "1000.0", "0.100 ms on average, 0.400");
  write_report("wheel", "1500", "6", "1600.0", "1.100 ms on average, 9.400");
  compare("uv", "wheel");
  for (char *end = result.out; (end = strchr(end, '\n')) != NULL;)
    *end = ' ';
  ck_assert_ptr_nonnull(strstr(result.out, "fires 1.0 ms later on average"));
  ck_assert_ptr_nonnull(strstr(result.out, "at most 9.4 ms with the wheel"));
  ck_assert_ptr_nonnull(strstr(result.out, "took 1.6 s instead of 1.0 s"));
  ck_assert_ptr_nonnull(strstr(result.out, "1.50 ms in all instead of 0.15"));
  ck_assert_ptr_nonnull(strstr(result.out, "Try --tick 100"));

  /* Firing got worse, but all together better. */
  write_report("wheel", "1500", "4", "1000.0", "0.100 ms on average, 0.400");
  compare("uv", "wheel");
  ck_assert_ptr_null(strstr(result.out, "Later"));
  ck_assert_ptr_null(strstr(result.out, "Longer"));
  ck_assert_ptr_null(strstr(result.out, "--tick"));
}
END_TEST

/* ---- What cannot work --------------------------------------------------- */

/* The last ones need root; in the very last one root has built it. */
static const struct {
  const char *line; /* of a shell */
  int status;
  const char *says;
} told[] = {
    {"$TRY --build $BUILT --output $D/no/uv true", 2, "cannot write to /"},
    {"ln -s ${TRY%/tools/*} \"$D/a b\"; \"$D/a b/tools/uvwheel-try\" true", 1,
     "the loader takes no path with a blank"},
    {"printf '\\177ELF' >$D/x; chmod +x $D/x; $TRY --build $BUILT $D/x; exit 9",
     9, "x is linked statically"},
    {"cp /bin/true $D/x; chown 1 $D/x; chmod u+s $D/x;"
     "chmod 755 $D; $TRY --build $BUILT $D/x",
     0, "x has more rights than its caller"},
    {"b=$D/build/demo/tools/try; mkdir -p $D/test $b; chmod 755 $D;"
     "cp -r ${TRY%/*} $D; cp -r ${TRY%/tools/*}/test/tools $D/test; "
     "touch $b/libuvwheel-try.so;"
     "setpriv --reuid 1 --clear-groups $D/tools/uvwheel-try echo >&2",
     0, ""},
};
#define ROOT_TOLD 3

START_TEST(what_cannot_work_is_told_before_it_runs)
{
  setenv("D", directory, 1);
  setenv("LINE", told[_i].line, 1);
  setenv("SHELL", "/bin/sh", 1);
  run_program("SHELL", "-c eval\t\"$LINE\"", &result);
  ck_assert_msg(strstr(result.err, told[_i].says) != NULL, "%s", result.err);
  ck_assert_ptr_null(strstr(result.err, "Building"));
  ck_assert_int_eq(result.status, told[_i].status);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      TEST(a_program_does_and_counts_the_same_whoever_serves_its_timers),
      EACH(a_report_says_what_the_program_did, runs),
      TEST(the_wheel_has_the_default_for_stalls),
      EACH(a_signal_asks_for_a_report_and_another_ends_with_one, signalled),
      EACH(a_file_is_kept_fresh_until_any_end, ends),
      TEST(two_reports_are_compared_in_either_order),
      TEST(a_comparison_says_in_words_who_waits_longer),
      {what_cannot_work_is_told_before_it_runs, 0,
       geteuid() == 0 ? (int)LENGTH(told) : ROOT_TOLD},
  };

  return run_tests("try", make_directory, remove_directory, tests,
                   LENGTH(tests));
}
