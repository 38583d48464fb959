/* SPDX-License-Identifier: MIT */

/* examples/demo and test/soak, for seconds, on programs that are built already:
 * on good ones, and on bad ones. */

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"
#include "suite.h"

static result_t result;

/* ---- What they print ---------------------------------------------------- */

#define SHORT_MINUTES "--minute 1 --timeout 800 --connections 100"
static const struct {
  const char *script, *options, *says[16];
  unsigned descriptors; /* they raise no limit, but make do */
  int needs_udp;
} tables[] = {
    {"DEMO", "--connections 100 --timeout 600",
     .says = {"connections", "messages echoed", "timer refreshes", "on time",
              "lateness", "wrong closes", "CPU", "bytes per timer",
              "uv_timer_t", "no timeouts\n"}},
    {"DEMO",
     "--timeout 600",
     {"100 connections instead of 10000", "no timeouts\n"},
     .descriptors = 132},
    {"DEMO",
     "--million --connections 1000 --timeout 1000",
     {"uv_timer_t          uvwheel\n",
      "sessions at once                                  1,000            "
      "1,000",
      "sessions made per second", "datagrams answered per second",
      "CPU time of the server",
      "its timer                                   152 bytes         64 bytes",
      "memory of the server",
      "sessions expired                                    800              "
      "800",
      "before their timeout                                0                0",
      "lateness: median", "99 % below", "max", "longest iteration of the loop"},
     .needs_udp = 1},
    {"DEMO",
     "--trouble --connections 100",
     {"uv_timer_t  2nd chance     uvwheel\n",
      "frozen for 5 s, 50 keep sending: closed",
      "blocked for 4 s, 15 keep sending: closed",
      "UDP, frozen for 4 s, 15 keep sending: lost",
      "100 expire at once: longest iteration", "full: served of 1 newcomers"},
     .needs_udp = 1},
    {"SOAK", SHORT_MINUTES " 3",
     .says = {"\n     3 ", "none wrong, none left.\n", " KiB after minute 1, ",
              " KiB at the end: not growing.\n"}},
    {"SOAK", SHORT_MINUTES " 1",
     .says = {"none wrong, none left.\n", "does not tell whether it grows"}},
};
#define DEMOS 4

static const char *
in_build(const char *options)
{
  return text_of("--build %s %s", getenv("BUILT"), options);
}

START_TEST(a_small_run_prints_its_table)
{
  if (tables[_i].needs_udp && !is_built("UDP_LOAD"))
    return;
  descriptor_limit = tables[_i].descriptors;
  run_program(tables[_i].script, in_build(tables[_i].options), &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  assert_has(result.out, tables[_i].says);
  for (const char *row = result.out; *row != '\0';) {
    size_t length = strcspn(row, "\n");
    ck_assert_msg(length <= 110, "too long: %s", row);
    row += length + (row[length] == '\n');
  }
}
END_TEST

/* ---- Bad servers -------------------------------------------------------- */

/* A server that needs memory for all connections it ever had. */
#define LEAK \
  "s/ accepted=\\([0-9]*\\)\\(.* rss_kib=\\)[0-9]*/ accepted=\\1\\2\\100/"

static const struct {
  const char *minutes;
  const char *options; /* of the server              */
  const char *lie;     /* about it, in sed's language */
  const char *complaint;
} bad[] = {
    /* With uv_timer_t, which knows no stall. */
    {"1", "--timeout 400 --timer uv", "",
     "a connection was closed before its timeout"},
    {"1", "--timeout 3000", "", "an idle connection was closed too late"},
    {"2", "", LEAK, "the server's memory grew from"},
    {"1", "", "s/ active=[0-9]*/ active=7/", "has 0 connections and 7 timers"},
};

START_TEST(a_bad_server_fails_a_soak_with_one_line)
{
  setenv("options", bad[_i].options, 1);
  setenv("lie", bad[_i].lie, 1);
  run_program("SOAK",
              text_of("--build %s " SHORT_MINUTES " %s", getenv("LIAR"),
                      bad[_i].minutes),
              &result);
  int is_judged = strstr(result.out, "lateness was not judged") == NULL;
  if (is_judged || strstr(bad[_i].complaint, "late") == NULL)
    assert_complaint(&result, 1, bad[_i].complaint);
}
END_TEST

/* ---- Their end ---------------------------------------------------------- */

/* Each is stopped under load: when the load says that it runs, and when one
 * minute is over. */
static const struct {
  const char *script;
  const char *options;
  int signal;
  int lines_out, lines_err;
} stopped[] = {
    {"DEMO", "--connections 100", SIGINT, 0, 1},
    {"DEMO", "--connections 100", SIGTERM, 0, 1},
    {"SOAK", SHORT_MINUTES " 60", SIGINT, 2, 0},
    {"SOAK", SHORT_MINUTES " 60", SIGTERM, 2, 0},
};

/* finish() returns only when no process holds its stdout or stderr any more: so
 * nothing that it has started is left. */
START_TEST(a_script_that_is_stopped_leaves_nothing_running)
{
  char line[512];
  program_t script =
      start_program(stopped[_i].script, in_build(stopped[_i].options));

  for (int i = 0; i < stopped[_i].lines_out; i++)
    read_line(script.out, line, sizeof(line));
  for (int i = 0; i < stopped[_i].lines_err; i++)
    read_line(script.err, line, sizeof(line));
  stop(&script, stopped[_i].signal, &result);
  ck_assert_int_eq(result.status, 128 + stopped[_i].signal);
}
END_TEST

int
main(void)
{
  const loop_test_t demo[] = {
      {a_small_run_prints_its_table, 0, DEMOS},
      {a_script_that_is_stopped_leaves_nothing_running, 0, 2},
  };
  const loop_test_t soak[] = {
      {a_small_run_prints_its_table, DEMOS, LENGTH(tables)},
      EACH(a_bad_server_fails_a_soak_with_one_line, bad),
      {a_script_that_is_stopped_leaves_nothing_running, 2, 4},
  };

  return run_tests("demo", NULL, NULL, demo, LENGTH(demo)) |
         run_tests("soak", NULL, NULL, soak, LENGTH(soak));
}
