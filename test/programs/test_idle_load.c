/* SPDX-License-Identifier: MIT */

/* idle-load: its verdicts on good servers, and on servers that break one
 * promise each. The test itself is the worst of these servers. */

#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define MESSAGE_MAX 64

static result_t result;

static void
assert_broken(const char *promise)
{
  ck_assert_msg(strstr(result.err, promise) != NULL, "no '%s' in '%s'", promise,
                result.err);
  ck_assert_int_eq(result.status, 1);
}

/* ---- Good servers ------------------------------------------------------- */

static const struct {
  const char *server;
  const char *load;
  uint64_t on_time;
} good[] = {
    {"--timer wheel --timeout 1500", "--timeout 1500 --duration 2", 100},
    {"--timer wheel --timeout 800 --tick 10 --budget 50",
     "--timeout 800 --tick 10 --duration 1 --chatty 0", 200},
    {"--timer wheel --timeout 800 --slots 1",
     "--timeout 800 --duration 2 --chatty 100", 0},
    {"--timer uv --timeout 1500", "--timeout 1500 --tick 1 --duration 2", 100},
    {"--timer sweep --timeout 1500", "--timeout 1500 --tick 1000 --duration 2",
     100},
    {"--timer none", "--timeout 0 --duration 1", 0},
};
#define GOOD ((int)(sizeof(good) / sizeof(good[0])))

START_TEST(a_good_server_has_kept_every_promise)
{
  char options[128];
  uint16_t port;
  program_t server = start_server(good[_i].server, &port);

  snprintf(options, sizeof(options), "--connections 200 %s", good[_i].load);
  program_t load = start_load(port, options);
  finish(&load, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "on_time"), good[_i].on_time);
  ck_assert_uint_ge(number_of(result.out, "echoes"), 200);
  stop(&server, SIGTERM, &result);
  ck_assert_uint_eq(number_of(result.out, "accepted"), 200 + 2); /* probes */
  ck_assert_uint_eq(number_of(result.out, "idle_closes"), good[_i].on_time);
}
END_TEST

/* Each period has a verdict of its own, and the rest has one. */
START_TEST(connections_that_come_and_go_are_judged_in_periods)
{
  uint16_t port;
  unsigned verdicts = 0;
  program_t server = start_server("--timeout 500", &port);
  program_t load = start_load(
      port, "--connections 100 --timeout 500 --duration 4 --churn 1");

  finish(&load, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  for (const char *at = result.out; (at = strstr(at, "result ")) != NULL; at++)
    verdicts++;
  ck_assert_uint_ge(verdicts, 5);
  stop(&server, SIGTERM, &result);
  ck_assert_uint_gt(number_of(result.out, "accepted"), 200);
  ck_assert_uint_eq(number_of(result.out, "active"), 0);
}
END_TEST

/* ---- Real servers with the wrong timeout -------------------------------- */

static const struct {
  const char *server;
  const char *load;
  const char *promise;
} mismatch[] = {
    {"--timeout 200", "--timeout 60000 --chatty 0",
     "a connection was closed before its timeout"},
    {"--timeout 200", "--timeout 60000 --chatty 100 --interval 15000",
     "a connection in use was closed"},
    {"--timeout 200", "--timeout 0", "a connection in use was closed"},
    {"--timeout 4000", "--timeout 500 --chatty 0 --tick 1",
     "an idle connection was closed too late"},
    {"--timer none", "--timeout 500 --chatty 0 --patience 500",
     "an idle connection was never closed"},
    {"--timer none", "--timeout 500 --churn 1 --patience 500",
     "an idle connection was never closed"},
};
#define MISMATCH ((int)(sizeof(mismatch) / sizeof(mismatch[0])))

START_TEST(a_server_with_another_timeout_breaks_a_promise)
{
  char options[128];
  uint16_t port;
  program_t server = start_server(mismatch[_i].server, &port);

  snprintf(options, sizeof(options), "--connections 20 --duration 1 %s",
           mismatch[_i].load);
  program_t load = start_load(port, options);
  finish(&load, &result);
  assert_broken(mismatch[_i].promise);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* ---- The test as a bad server ------------------------------------------- */

typedef struct bad_server_s {
  program_t load;
  int probe;
  int connection; /* the one that is judged */
  char message[MESSAGE_MAX + 1];
  size_t length;
} bad_server_t;

/* Accepts the probe and one connection, and reads its first message. */
static bad_server_t
start_one(void)
{
  uint16_t port;
  int listener = listen_on(&port);
  bad_server_t bad = {
      .load = start_load(port, "--connections 1 --chatty 100 --duration 1"),
  };

  bad.probe = accept_from(listener);
  bad.connection = accept_from(listener);
  ssize_t received = recv(bad.connection, bad.message, MESSAGE_MAX, 0);
  ck_assert_int_gt(received, 0);
  bad.length = (size_t)received;
  return bad;
}

/* Serves the probe well until the load is done. */
static void
finish_one(const bad_server_t *bad)
{
  char message[MESSAGE_MAX];
  ssize_t length;

  while ((length = recv(bad->probe, message, sizeof(message), 0)) > 0)
    send_all(bad->probe, message, (size_t)length);
  finish(&bad->load, &result);
}

START_TEST(a_wrong_byte_in_an_echo_is_found)
{
  bad_server_t bad = start_one();

  bad.message[bad.length - 1] ^= 1;
  send_all(bad.connection, bad.message, bad.length);
  finish_one(&bad);
  assert_broken("an echo differs from what was sent");
}
END_TEST

START_TEST(a_byte_too_many_is_found)
{
  bad_server_t bad = start_one();

  send_all(bad.connection, bad.message, bad.length + 1);
  finish_one(&bad);
  assert_broken("an echo differs from what was sent");
}
END_TEST

START_TEST(a_message_swallowed_is_found)
{
  bad_server_t bad = start_one();

  close(bad.connection);
  finish_one(&bad);
  assert_broken("a connection in use was closed");
  assert_broken("an echo did not come back");
}
END_TEST

/* It even closes the probe, time and again. */
START_TEST(a_server_that_closes_all_at_once_is_found)
{
  uint16_t port;
  int listener = listen_on(&port);
  program_t load =
      start_load(port, "--connections 1 --chatty 100 --duration 1");
  struct pollfd awaited[] = {{.fd = listener, .events = POLLIN},
                             {.fd = load.out, .events = POLLIN}};

  while (poll(awaited, 2, -1) > 0 && awaited[1].revents == 0)
    close(accept_from(listener));
  finish(&load, &result);
  assert_broken("a connection in use was closed");
}
END_TEST

/* ---- No verdict --------------------------------------------------------- */

START_TEST(no_server_is_one_line)
{
  uint16_t port;

  close(listen_on(&port)); /* now nobody listens there */
  program_t load = start_load(port, "");
  finish(&load, &result);
  assert_complaint(&result, 1, "connection refused");
  ck_assert_str_eq(result.out, "");
}
END_TEST

static const struct {
  int signal;
  const char *load;
} gone[] = {
    {SIGTERM, ""},
    {SIGKILL, ""},
    {SIGKILL, "--timeout 0"},
    {SIGTERM, "--churn 5"},
};
#define GONE ((int)(sizeof(gone) / sizeof(gone[0])))

/* Its first figures come long before its first timeout. */
START_TEST(a_server_gone_half_way_is_not_judged)
{
  char options[128], line[512];
  uint16_t port;
  program_t server = start_server("--stats 1", &port);

  snprintf(options, sizeof(options), "--connections 200 %s", gone[_i].load);
  program_t load = start_load(port, options);
  do
    read_line(server.out, line, sizeof(line));
  while (number_of(line, "accepted") < 201);
  stop(&server, gone[_i].signal, &result);
  finish(&load, &result);
  assert_no_verdict(&result, "idle-load: the server is gone");
}
END_TEST

START_TEST(too_few_descriptors_names_how_many_would_do)
{
  descriptor_limit = 64;
  run_program("IDLE_LOAD", "--connections 1000", &result);
  assert_complaint(&result, 1, "at most 48 connections are possible");
}
END_TEST

START_TEST(an_interrupted_load_gives_no_verdict)
{
  static const int signals[] = {SIGINT, SIGTERM};
  char line[256];
  uint16_t port;
  program_t server = start_server("", &port);
  program_t load = start_load(port, "--connections 100");

  read_line(load.err, line, sizeof(line));
  stop(&load, signals[_i], &result);
  assert_no_verdict(&result, "interrupted");
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* The server closes all connections meanwhile, rightly. */
START_TEST(a_load_that_was_stopped_accuses_no_server)
{
  char line[256];
  uint16_t port;
  program_t server = start_server("--timeout 600", &port);
  program_t load =
      start_load(port, "--connections 100 --timeout 600 --duration 2");

  read_line(load.err, line, sizeof(line));
  ck_assert_int_eq(kill(load.pid, SIGSTOP), 0);
  sleep(1); /* real time has to pass: the server's timeout */
  ck_assert_int_eq(kill(load.pid, SIGCONT), 0);
  finish(&load, &result);
  ck_assert_msg(strstr(result.err, "could not be judged") != NULL, "%s",
                result.err);
  ck_assert_msg(strstr(result.err, "broken") == NULL, "%s", result.err);
  ck_assert_int_eq(result.status, 0);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* ---- Command line ------------------------------------------------------- */

static const struct {
  const char *command_line;
  const char *complaint;
} wrong[] = {
    {"--bogus", "unrecognized option '--bogus'"},
    {"--connections", "requires an argument"},
    {"--connections 0", "--connections takes a number from 1"},
    {"--connections ten", "not 'ten'"},
    {"--port 0", "--port takes a number from 1 to 65535"},
    {"--chatty 101", "--chatty takes a number from 0 to 100"},
    {"--timeout -5", "--timeout takes a number"},
    {"--timeout 99", "--timeout must be 0 or at least 100"},
    {"--tick 0", "--tick takes a number from 1"},
    {"--interval 0", "--interval takes a number from 1"},
    {"--interval 1300", "--interval must be at most a quarter of --timeout"},
    {"--duration 1h", "--duration takes a number"},
    {"--patience 0", "--patience takes a number from 1"},
    {"--churn 0", "--churn takes a number from 1"},
    {"--churn 4", "--churn must be at least --timeout"},
    {"--churn 1 --timeout 0", "--churn must be at least --timeout"},
    {"--seed 18446744073709551616", "--seed takes a number"},
    {"--host no.such.host.invalid", "no such host"},
    {"--stall 1", "--stall and --pid go together"},
    {"--pid 7", "--stall and --pid go together"},
    {"--stall 1 --pid 1", "--pid takes a number from 2"},
    {"--stall-by cont", "--stall-by takes stop, usr1 or usr2, not 'cont'"},
    {"--stall 1 --pid 7 --timeout 0", "--stall goes with a --timeout"},
    {"--flood 10", "--flood goes with --chatty 100"},
    {"--flood 10 --chatty 100 --churn 5", "--flood goes with --chatty 100"},
    {"stray", "unexpected argument 'stray'"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(wrong_usage_is_one_line_and_status_2)
{
  assert_wrong_usage("IDLE_LOAD", wrong[_i].command_line, wrong[_i].complaint);
}
END_TEST

START_TEST(help_names_every_option)
{
  static const char *const names[] = {
      "--host",     "--port",      "--connections", "--chatty", "--timeout",
      "--tick",     "--interval",  "--duration",    "--seed",   "--churn",
      "--patience", "--help",      "--stall",       "--pid",    "--stall-by",
      "--flood",    "--newcomers", "--together"};

  assert_help("IDLE_LOAD", names, sizeof(names) / sizeof(names[0]));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("idle-load");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, a_good_server_has_kept_every_promise, 0, GOOD);
  tcase_add_test(tcase, connections_that_come_and_go_are_judged_in_periods);
  tcase_add_loop_test(tcase, a_server_with_another_timeout_breaks_a_promise, 0,
                      MISMATCH);
  tcase_add_test(tcase, a_wrong_byte_in_an_echo_is_found);
  tcase_add_test(tcase, a_byte_too_many_is_found);
  tcase_add_test(tcase, a_message_swallowed_is_found);
  tcase_add_test(tcase, a_server_that_closes_all_at_once_is_found);
  tcase_add_test(tcase, no_server_is_one_line);
  tcase_add_loop_test(tcase, a_server_gone_half_way_is_not_judged, 0, GONE);
  tcase_add_test(tcase, too_few_descriptors_names_how_many_would_do);
  tcase_add_loop_test(tcase, an_interrupted_load_gives_no_verdict, 0, 2);
  tcase_add_test(tcase, a_load_that_was_stopped_accuses_no_server);
  tcase_add_loop_test(tcase, wrong_usage_is_one_line_and_status_2, 0, WRONG);
  tcase_add_test(tcase, help_names_every_option);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
