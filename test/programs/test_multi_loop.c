/* SPDX-License-Identifier: MIT */

/* multi-loop: several loops behind one port, and their end. */

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define CONNECTIONS 200
#define NO_IDLE_TIME "--timeout 600000 "

static result_t result;

static program_t
start_loops(const char *options, uint16_t *port)
{
  char line[256];

  snprintf(line, sizeof(line), "--port 0 %s", options);
  return start_listening("MULTI_LOOP", line, port);
}

/* The end of a server that did nothing wrong. */
static void
stop_well(const program_t *server, int signal)
{
  stop(server, signal, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
}

/* Of one thread's summary, or of all threads. */
static uint64_t
summary(const char *whose, unsigned number, const char *key)
{
  char title[64];

  snprintf(title, sizeof(title), "summary %s=%u ", whose, number);
  const char *line = strstr(result.out, title);
  ck_assert_msg(line != NULL, "no '%s' in '%s'", title, result.out);
  return number_of(line, key);
}

/* ---- Service ------------------------------------------------------------ */

/* By chance one of four threads gets nothing in one of 10^24 runs. */
START_TEST(connections_are_spread_over_the_threads)
{
  static const unsigned threads[] = {1, 4};
  char options[64];
  uint16_t port;
  uint64_t accepted = 0;

  snprintf(options, sizeof(options), NO_IDLE_TIME "--threads %u", threads[_i]);
  program_t server = start_loops(options, &port);
  for (int i = 0; i < CONNECTIONS; i++)
    assert_echo(connect_to(port));
  stop_well(&server, SIGTERM);
  for (unsigned thread = 1; thread <= threads[_i]; thread++) {
    ck_assert_uint_gt(summary("thread", thread, "accepted"), 0);
    ck_assert_uint_eq(summary("thread", thread, "open"), 0);
    accepted += summary("thread", thread, "accepted");
  }
  ck_assert_uint_eq(accepted, CONNECTIONS);
  ck_assert_uint_eq(summary("threads", threads[_i], "accepted"), CONNECTIONS);
  ck_assert_uint_eq(summary("threads", threads[_i], "refreshes"),
                    2 * CONNECTIONS); /* a read and a write each */
}
END_TEST

START_TEST(silent_connections_are_closed_but_not_early)
{
  int connections[CONNECTIONS];
  int64_t begin_ns[CONNECTIONS];
  uint16_t port;
  program_t server =
      start_loops("--threads 3 --timeout 300 --tick 10 --slots 16", &port);

  for (int i = 0; i < CONNECTIONS; i++) {
    begin_ns[i] = now_ns();
    connections[i] = connect_to(port);
  }
  for (int i = 0; i < CONNECTIONS; i++) {
    ck_assert_uint_eq(read_to_end(connections[i]), 0);
    ck_assert_int_ge(now_ns() - begin_ns[i], 300 * INT64_C(1000000));
  }
  stop_well(&server, SIGTERM);
  ck_assert_uint_eq(summary("threads", 3, "idle_closes"), CONNECTIONS);
}
END_TEST

static const char *const loads[] = {"", "--churn 1"};

START_TEST(idle_load_finds_every_promise_kept)
{
  char options[128];
  uint16_t port;
  program_t server = start_loops("--threads 3 --timeout 1000", &port);

  snprintf(options, sizeof(options),
           "--connections 200 --timeout 1000 --duration 3 %s", loads[_i]);
  program_t load = start_load(port, options);
  finish(&load, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_gt(number_of(result.out, "echoes"), CONNECTIONS);
  stop_well(&server, SIGTERM);
  ck_assert_uint_gt(summary("threads", 3, "accepted"), CONNECTIONS);
}
END_TEST

START_TEST(a_peer_that_reads_late_gets_every_byte)
{
  uint16_t port;
  program_t server = start_loops(NO_IDLE_TIME "--threads 2", &port);
  int connection = connect_to(port);

  size_t taken = send_until_stuck(connection);
  for (int i = 0; i < 20; i++) /* some of them in the same thread */
    assert_echo(connect_to(port));
  shutdown(connection, SHUT_WR);
  ck_assert_uint_eq(read_to_end(connection), taken);
  stop_well(&server, SIGTERM);
}
END_TEST

START_TEST(peers_that_vanish_do_no_harm)
{
  uint16_t port;
  program_t server = start_loops(NO_IDLE_TIME "--threads 2", &port);

  for (int i = 0; i < CONNECTIONS; i++) {
    int connection = connect_to(port);
    if (i % 2 == 0)
      assert_echo(connection);
    if (i % 50 == 0)
      send_until_stuck(connection);
    reset(connection);
  }
  assert_echo(connect_to(port));
  stop_well(&server, SIGTERM);
  ck_assert_uint_eq(summary("threads", 2, "open"), 0);
}
END_TEST

static bool
is_served(int connection)
{
  char byte = 'x';

  return send(connection, &byte, 1, MSG_NOSIGNAL) == 1 &&
         recv(connection, &byte, 1, 0) == 1;
}

START_TEST(out_of_descriptors_it_turns_newcomers_away)
{
  int connections[CONNECTIONS];
  unsigned served = 0;
  uint16_t port;

  descriptor_limit = 56;
  program_t server = start_loops(NO_IDLE_TIME "--threads 2", &port);
  while (served < CONNECTIONS &&
         is_served(connections[served] = connect_to(port)))
    served++;
  ck_assert_uint_lt(served, CONNECTIONS);
  ck_assert(is_served(connections[0]));
  stop(&server, SIGTERM, &result);
  assert_complaint(&result, 0, "out of descriptors with");
  ck_assert_uint_eq(summary("threads", 2, "accepted"), served);
  ck_assert_uint_eq(summary("threads", 2, "turned_away"), 1);
}
END_TEST

/* ---- Its end ------------------------------------------------------------ */

static const int signals[] = {SIGINT, SIGTERM};

START_TEST(a_signal_closes_everything)
{
  int connections[CONNECTIONS];
  uint16_t port;
  program_t server = start_loops(NO_IDLE_TIME "--threads 4", &port);

  for (int i = 0; i < CONNECTIONS; i++) {
    connections[i] = connect_to(port);
    assert_echo(connections[i]);
  }
  send_until_stuck(connections[0]);
  stop_well(&server, signals[_i]);
  ck_assert_uint_eq(summary("threads", 4, "open"), 0);
  for (int i = 1; i < CONNECTIONS; i++)
    ck_assert_uint_eq(read_to_end(connections[i]), 0);
}
END_TEST

START_TEST(a_signal_under_load_ends_all_threads)
{
  char line[256];
  uint16_t port;
  program_t server = start_loops("--threads 3", &port);
  program_t load = start_load(port, "--connections 200 --interval 1");

  read_line(load.err, line, sizeof(line));
  ck_assert_msg(strncmp(line, "running:", 8) == 0, "%s", line);
  stop_well(&server, signals[_i]);
  finish(&load, &result);
  ck_assert_msg(strstr(result.err, "the server is gone: no verdict") != NULL,
                "%s", result.err);
}
END_TEST

/* ---- The page ----------------------------------------------------------- */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

static uint16_t
read_page_port(const program_t *server)
{
  char line[256];
  const char *port;

  read_line(server->out, line, sizeof(line));
  ck_assert_msg(strncmp(line, "live page: http://", 18) == 0, "%s", line);
  port = strrchr(line, ':');
  return (uint16_t)strtoul(port + 1, NULL, 10);
}

/* Reads lines until one begins like that. */
static void
await_line(int connection, const char *beginning)
{
  static char line[65536];

  do
    read_line(connection, line, sizeof(line));
  while (strncmp(line, beginning, strlen(beginning)) != 0);
}

START_TEST(each_wheel_can_be_watched)
{
  static const char *const requests[] = {
      GET("/events?wheel=0"), GET("/events?wheel=1"), GET("/events?wheel=2")};
  char beginning[32];
  uint16_t port;
  program_t server = start_loops(NO_IDLE_TIME "--threads 3 --http 0", &port);
  uint16_t page_port = read_page_port(&server);

  assert_echo(connect_to(port));
  for (int i = 0; i < 3; i++) {
    int viewer = connect_to(page_port);
    send_all(viewer, requests[i], strlen(requests[i]));
    snprintf(beginning, sizeof(beginning), "data: {\"wheel\":%d,", i);
    await_line(viewer, beginning);
  }
  stop_well(&server, SIGTERM);
}
END_TEST

START_TEST(scrapes_and_signals_may_meet)
{
  uint16_t port;
  program_t server = start_loops("--threads 3 --http 0", &port);
  uint16_t page_port = read_page_port(&server);

  for (int i = 0; i < 100; i++)
    send_all(connect_to(page_port), GET("/metrics"), strlen(GET("/metrics")));
  stop_well(&server, SIGTERM);
}
END_TEST

/* ---- What it prints ----------------------------------------------------- */

START_TEST(each_thread_prints_its_figures_while_it_runs)
{
  char line[256];
  uint16_t port;
  uint64_t open[3] = {0};
  bool has_printed[3] = {false};
  program_t server = start_loops(NO_IDLE_TIME "--threads 2 --stats 1", &port);

  assert_echo(connect_to(port));
  while (!has_printed[1] || !has_printed[2] || open[1] + open[2] == 0) {
    read_line(server.out, line, sizeof(line));
    ck_assert_msg(strncmp(line, "stats thread=", 13) == 0, "%s", line);
    uint64_t thread = number_of(line, "thread");
    ck_assert(thread == 1 || thread == 2);
    has_printed[thread] = true;
    open[thread] = number_of(line, "open");
  }
  ck_assert_uint_eq(open[1] + open[2], 1);
  stop_well(&server, SIGTERM);
}
END_TEST

START_TEST(quiet_prints_where_it_listens_and_no_more)
{
  uint16_t port;
  program_t server = start_loops("--quiet", &port);

  assert_echo(connect_to(port));
  stop_well(&server, SIGTERM);
  ck_assert_str_eq(result.out, "");
}
END_TEST

/* ---- What it refuses ---------------------------------------------------- */

/* Also by a server that would share it. */
START_TEST(a_port_in_use_is_one_line_and_status_1)
{
  static const char *const servers[] = {"IDLE_SERVER", "MULTI_LOOP"};
  char options[64];
  uint16_t port;
  program_t server =
      start_listening(servers[_i], "--port 0 " NO_IDLE_TIME, &port);

  snprintf(options, sizeof(options), "--port %u --threads 3", port);
  run_program("MULTI_LOOP", options, &result);
  assert_complaint(&result, 1, "address already in use");
  ck_assert_str_eq(result.out, "");
  assert_echo(connect_to(port));
  stop_well(&server, SIGTERM);
}
END_TEST

START_TEST(too_few_descriptors_are_one_line_and_status_1)
{
  descriptor_limit = 31;
  run_program("MULTI_LOOP", "--port 0 --threads 2", &result);
  assert_complaint(&result, 1, "31 descriptors (ulimit -n) are too few");
  ck_assert_str_eq(result.out, "");
}
END_TEST

static const struct {
  const char *command_line;
  const char *complaint;
} wrong[] = {
    {"--bogus", "unrecognized option '--bogus'"},
    {"--threads", "requires an argument"},
    {"--threads 0", "--threads takes a number from 1 to 1024"},
    {"--threads two", "not 'two'"},
    {"--port 65536", "--port takes a number from 0 to 65535"},
    {"--timeout 0", "--timeout takes a number from 1"},
    {"--tick 86400001", "--tick takes a number from 1 to 86400000"},
    {"--slots 16777217", "--slots takes a number from 1 to 16777216"},
    {"--stats 0", "--stats takes a number from 1"},
    {"stray", "unexpected argument 'stray'"},
    {"--threads 65 --http 0", "--http shows at most 64 threads"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(wrong_usage_is_one_line_and_status_2)
{
  assert_wrong_usage("MULTI_LOOP", wrong[_i].command_line, wrong[_i].complaint);
}
END_TEST

START_TEST(it_ends_if_it_cannot_print_where_it_listens)
{
  assert_ends_unheard("MULTI_LOOP", "--port 0");
}
END_TEST

START_TEST(help_names_every_option)
{
  static const char *const names[] = {
      "--threads", "--port", "--timeout",   "--tick",  "--slots",
      "--stats",   "--http", "--http-host", "--quiet", "--help"};

  assert_help("MULTI_LOOP", names, sizeof(names) / sizeof(names[0]));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("multi-loop");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, connections_are_spread_over_the_threads, 0, 2);
  tcase_add_test(tcase, silent_connections_are_closed_but_not_early);
  tcase_add_loop_test(tcase, idle_load_finds_every_promise_kept, 0, 2);
  tcase_add_test(tcase, a_peer_that_reads_late_gets_every_byte);
  tcase_add_test(tcase, peers_that_vanish_do_no_harm);
  tcase_add_test(tcase, out_of_descriptors_it_turns_newcomers_away);
  tcase_add_loop_test(tcase, a_signal_closes_everything, 0, 2);
  tcase_add_loop_test(tcase, a_signal_under_load_ends_all_threads, 0, 2);
  if (strcmp(getenv("HAS_PAGE"), "yes") == 0) {
    tcase_add_test(tcase, each_wheel_can_be_watched);
    tcase_add_test(tcase, scrapes_and_signals_may_meet);
  }
  tcase_add_test(tcase, each_thread_prints_its_figures_while_it_runs);
  tcase_add_test(tcase, quiet_prints_where_it_listens_and_no_more);
  tcase_add_loop_test(tcase, a_port_in_use_is_one_line_and_status_1, 0, 2);
  tcase_add_test(tcase, too_few_descriptors_are_one_line_and_status_1);
  tcase_add_loop_test(tcase, wrong_usage_is_one_line_and_status_2, 0, WRONG);
  tcase_add_test(tcase, it_ends_if_it_cannot_print_where_it_listens);
  tcase_add_test(tcase, help_names_every_option);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
