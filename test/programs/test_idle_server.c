/* SPDX-License-Identifier: MIT */

/* idle-server: what a single peer sees of it, and how it ends. */

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define CONNECTIONS 50
#define NO_IDLE_TIME "--timeout 600000 "

static const char *const kinds[] = {"--timer wheel", "--timer uv",
                                    "--timer sweep", "--timer none"};
#define KINDS 4
#define KINDS_WITH_TIMEOUT 3

static result_t result;

/* A server with this kind of timer. */
static program_t
start_kind(int kind, const char *options, uint16_t *port)
{
  char line[256];

  snprintf(line, sizeof(line), "%s %s", options, kinds[kind]);
  return start_server(line, port);
}

/* It must still serve, and end well, having accepted that many. */
static void
assert_sound(const program_t *server, uint16_t port, uint64_t accepted)
{
  assert_echo(connect_to(port));
  stop(server, SIGTERM, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_eq(number_of(result.out, "accepted"), accepted + 1);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
}

/* ---- Echo and timeout --------------------------------------------------- */

START_TEST(garbage_is_echoed_byte_for_byte)
{
  static unsigned char bytes[16384];
  uint16_t port;
  program_t server = start_kind(_i, NO_IDLE_TIME, &port);
  int connection = connect_to(port);

  for (unsigned round = 0; round < 20; round++) {
    for (size_t i = 0; i < sizeof(bytes); i++)
      bytes[i] = (unsigned char)(i * i + i / 256 + round);
    send_all(connection, bytes, sizeof(bytes));
    expect(connection, bytes, sizeof(bytes));
  }
  assert_sound(&server, port, 1);
}
END_TEST

START_TEST(a_silent_connection_is_closed_but_not_early)
{
  uint16_t port;
  program_t server = start_kind(_i, "--timeout 300 --tick 10", &port);
  int64_t begin_ns = now_ns();

  ck_assert_uint_eq(read_to_end(connect_to(port)), 0);
  ck_assert_int_ge(now_ns() - begin_ns, 300 * INT64_C(1000000));
  stop(&server, SIGTERM, &result);
  ck_assert_uint_eq(number_of(result.out, "idle_closes"), 1);
}
END_TEST

START_TEST(without_a_timer_a_silent_connection_stays)
{
  struct timeval patience = {.tv_usec = 300000};
  char byte;
  uint16_t port;
  program_t server = start_server("--timer none --timeout 1", &port);
  int connection = connect_to(port);

  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ck_assert_int_eq(recv(connection, &byte, 1, 0), -1);
  ck_assert_int_eq(errno, EAGAIN);
  assert_sound(&server, port, 1);
}
END_TEST

/* ---- Peers that behave badly ------------------------------------------- */

START_TEST(a_peer_that_reads_late_gets_every_byte)
{
  uint16_t port;
  program_t server = start_kind(_i, NO_IDLE_TIME, &port);
  int connection = connect_to(port);

  size_t taken = send_until_stuck(connection);
  assert_echo(connect_to(port)); /* others are served meanwhile */
  shutdown(connection, SHUT_WR);
  ck_assert_uint_eq(read_to_end(connection), taken);
  assert_sound(&server, port, 2);
}
END_TEST

START_TEST(a_peer_that_never_reads_gets_idle)
{
  char byte = 0;
  uint16_t port;
  program_t server = start_kind(_i, "--timeout 1000", &port);
  int connection = connect_to(port);

  send_until_stuck(connection);
  while (send(connection, &byte, 1, MSG_NOSIGNAL) == 1 || errno == EAGAIN)
    continue;
  ck_assert(errno == ECONNRESET || errno == EPIPE);
  assert_sound(&server, port, 1);
}
END_TEST

START_TEST(peers_that_vanish_do_no_harm)
{
  uint16_t port;
  program_t server = start_kind(_i, NO_IDLE_TIME, &port);

  for (int i = 0; i < CONNECTIONS; i++) {
    int connection = connect_to(port);
    if (i % 2 == 0)
      assert_echo(connection);
    if (i % 25 == 0)
      send_until_stuck(connection);
    reset(connection);
  }
  assert_sound(&server, port, CONNECTIONS);
}
END_TEST

START_TEST(a_client_killed_half_way_does_no_harm)
{
  char line[256];
  uint16_t port;
  program_t server = start_kind(_i, NO_IDLE_TIME, &port);
  program_t load =
      start_load(port, "--connections 200 --timeout 0 --duration 60");

  read_line(load.err, line, sizeof(line));
  ck_assert_msg(strncmp(line, "running:", 8) == 0, "%s", line);
  stop(&load, SIGKILL, &result);
  assert_sound(&server, port, 201); /* with its probe */
}
END_TEST

/* ---- Descriptors used up ------------------------------------------------ */

/* Says whether the server echoes on a new connection; a server that turns it
 * away closes it. */
static int
is_served(uint16_t port)
{
  char byte = 'x';
  int connection = connect_to(port);
  int served = send(connection, &byte, 1, MSG_NOSIGNAL) == 1 &&
               recv(connection, &byte, 1, 0) == 1;

  close(connection);
  return served;
}

START_TEST(out_of_descriptors_it_says_so_and_recovers)
{
  int connections[CONNECTIONS];
  uint16_t port;

  descriptor_limit = 56;
  program_t server = start_kind(_i, NO_IDLE_TIME, &port);
  for (int i = 0; i < CONNECTIONS; i++)
    connections[i] = connect_to(port);
  ck_assert(!is_served(port));
  assert_echo(connections[0]);
  for (int i = 0; i < CONNECTIONS; i++)
    close(connections[i]);
  while (!is_served(port)) /* as soon as it has seen them close */
    continue;
  stop(&server, SIGTERM, &result);
  ck_assert_msg(strstr(result.err, "out of descriptors") != NULL, "%s",
                result.err);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_gt(number_of(result.out, "turned_away"), 0);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
}
END_TEST

START_TEST(too_few_descriptors_are_one_line)
{
  descriptor_limit = 31;
  run_program("IDLE_SERVER", "--port 0", &result);
  assert_complaint(&result, 1, "31 descriptors (ulimit -n) are too few");
}
END_TEST

/* ---- Places used up ----------------------------------------------------- */

START_TEST(full_it_says_so_and_refuses)
{
  int connections[3];
  uint16_t port;
  program_t server = start_kind(_i, NO_IDLE_TIME "--max-connections 3", &port);

  for (int i = 0; i < 3; i++)
    assert_echo(connections[i] = connect_to(port));
  ck_assert(!is_served(port));
  assert_echo(connections[0]);
  close(connections[2]);
  while (!is_served(port)) /* as soon as it has seen it close */
    continue;
  stop(&server, SIGTERM, &result);
  ck_assert_msg(strstr(result.err, "full with 3 connections") != NULL, "%s",
                result.err);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_gt(number_of(result.out, "turned_away"), 0);
  ck_assert_uint_eq(number_of(result.out, "shed"), 0);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
}
END_TEST

/* Comes, is served, and says nothing more. */
static int
newcomer(uint16_t port)
{
  int connection = connect_to(port);

  assert_echo(connection);
  return connection;
}

/* With this many places, a round of newcomers takes several ticks. */
#define PLACES 100

START_TEST(full_it_sheds_the_idlest)
{
  int first[10];
  uint16_t port;
  program_t server = start_server(
      NO_IDLE_TIME "--tick 1 --max-connections 100 --when-full shed", &port);
  int busy = newcomer(port);

  for (int i = 0; i < 2 * PLACES; i++) {
    int connection = newcomer(port);
    if (i < 10)
      first[i] = connection;
    assert_echo(busy);
  }
  for (int i = 0; i < 10; i++)
    ck_assert_uint_eq(read_to_end(first[i]), 0);
  stop(&server, SIGTERM, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), 0);
  ck_assert_uint_eq(number_of(result.out, "shed"), PLACES + 1);
  ck_assert_uint_eq(number_of(result.out, "fired"), PLACES + 1);
  ck_assert_uint_eq(number_of(result.out, "idle_closes"), 0);
}
END_TEST

START_TEST(out_of_descriptors_it_sheds)
{
  uint16_t port;

  descriptor_limit = 156;
  program_t server =
      start_server(NO_IDLE_TIME "--tick 1 --when-full shed", &port);
  int busy = newcomer(port);
  descriptor_limit = 0;
  for (int i = 0; i < 2 * 156; i++) {
    newcomer(port);
    assert_echo(busy);
  }
  stop(&server, SIGTERM, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), 0);
  ck_assert_uint_gt(number_of(result.out, "shed"), 156);
}
END_TEST

/* ---- Memory used up ----------------------------------------------------- */

#define FAILING_CALLS 40 /* see starving.c */

START_TEST(out_of_memory_it_says_so_and_goes_on)
{
  char options[128];
  int starved[FAILING_CALLS];
  uint16_t port;

  snprintf(options, sizeof(options), "--port 0 " NO_IDLE_TIME "%s", kinds[_i]);
  program_t server = start_listening("STARVING_SERVER", options, &port);
  int first = connect_to(port);
  assert_echo(first);
  for (int i = 0; i < FAILING_CALLS; i++)
    starved[i] = connect_to(port);
  for (int i = 0; i < FAILING_CALLS; i++)
    ck_assert_uint_eq(read_to_end(starved[i]), 0);
  assert_echo(first);
  assert_echo(connect_to(port));
  stop(&server, SIGTERM, &result);
  ck_assert_msg(strstr(result.err, "out of memory with 1 connections") != NULL,
                "%s", result.err);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_eq(number_of(result.out, "accepted"), 2);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), FAILING_CALLS);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
}
END_TEST

/* ---- Its end ------------------------------------------------------------ */

static void
stop_with_connections_open(int kind, int signal)
{
  uint16_t port;
  program_t server = start_kind(kind, NO_IDLE_TIME, &port);
  int connections[CONNECTIONS];

  for (int i = 0; i < CONNECTIONS; i++) {
    connections[i] = connect_to(port);
    assert_echo(connections[i]);
  }
  send_until_stuck(connections[0]);
  stop(&server, signal, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_eq(number_of(result.out, "accepted"), CONNECTIONS);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
  for (int i = 1; i < CONNECTIONS; i++)
    ck_assert_uint_eq(read_to_end(connections[i]), 0);
}

START_TEST(sigterm_closes_everything)
{
  stop_with_connections_open(_i, SIGTERM);
}
END_TEST

START_TEST(sigint_closes_everything)
{
  stop_with_connections_open(_i, SIGINT);
}
END_TEST

/* ---- Command line ------------------------------------------------------- */

static const struct {
  const char *command_line;
  const char *complaint;
} wrong[] = {
    {"--bogus", "unrecognized option '--bogus'"},
    {"--port", "requires an argument"},
    {"--port 65536", "--port takes a number from 0 to 65535"},
    {"--port -1", "--port takes a number"},
    {"--timeout 0", "--timeout takes a number from 1"},
    {"--timeout 5s", "not '5s'"},
    {"--timeout 99999999999999999999", "--timeout takes a number"},
    {"--tick 86400001", "--tick takes a number from 1 to 86400000"},
    {"--slots 16777217", "--slots takes a number from 1 to 16777216"},
    {"--budget 0", "--budget takes a number from 1"},
    {"--stats 0", "--stats takes a number from 1"},
    {"--max-connections many", "--max-connections takes a number"},
    {"--when-full drop", "--when-full takes refuse or shed, not 'drop'"},
    {"--when-full shed --timer uv", "--when-full shed needs the wheel"},
    {"--timer heap", "--timer takes wheel, uv, sweep or none, not 'heap'"},
    {"--bind no.such.host.invalid", "no such host"},
    {"stray", "unexpected argument 'stray'"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(wrong_usage_is_one_line_and_status_2)
{
  assert_wrong_usage("IDLE_SERVER", wrong[_i].command_line,
                     wrong[_i].complaint);
}
END_TEST

START_TEST(a_port_in_use_is_one_line_and_status_1)
{
  char options[64];
  uint16_t port;
  program_t server = start_kind(_i, NO_IDLE_TIME, &port);

  snprintf(options, sizeof(options), "--port %u %s", port, kinds[_i]);
  run_program("IDLE_SERVER", options, &result);
  assert_complaint(&result, 1, "address already in use");
  assert_sound(&server, port, 0);
}
END_TEST

START_TEST(without_libmicrohttpd_it_says_so)
{
  run_program("PLAIN_SERVER", "--port 0 --http 0", &result);
  assert_complaint(&result, 1, "built without libmicrohttpd: --http is not");
  run_program("PLAIN_SERVER", "--port 0 --timer uv --http 0", &result);
  assert_complaint(&result, 2, "--http shows the wheel");
}
END_TEST

START_TEST(it_ends_if_it_cannot_print_where_it_listens)
{
  assert_ends_unheard("IDLE_SERVER", "--port 0");
}
END_TEST

START_TEST(help_names_every_option)
{
  static const char *const names[] = {"--bind",
                                      "--port",
                                      "--timeout",
                                      "--timer",
                                      "--tick",
                                      "--slots",
                                      "--budget",
                                      "--http",
                                      "--http-host",
                                      "--stats",
                                      "--quiet",
                                      "--help",
                                      "--max-connections",
                                      "--when-full",
                                      "--block"};

  assert_help("IDLE_SERVER", names, sizeof(names) / sizeof(names[0]));
}
END_TEST

START_TEST(stats_come_while_it_runs)
{
  char line[512];
  uint16_t port;
  program_t server =
      start_server(NO_IDLE_TIME "--stats 1 --slots 64 --budget 7", &port);
  int connection = connect_to(port);

  assert_echo(connection);
  do {
    read_line(server.out, line, sizeof(line));
    ck_assert_msg(strncmp(line, "stats timer=wheel ", 18) == 0, "%s", line);
  } while (number_of(line, "refreshes") < 2);
  ck_assert_uint_eq(number_of(line, "open"), 1);
  ck_assert_uint_eq(number_of(line, "active"), 1);
  assert_sound(&server, port, 1);
}
END_TEST

START_TEST(quiet_prints_where_it_listens_and_no_more)
{
  uint16_t port;
  program_t server = start_server("--quiet", &port);

  assert_echo(connect_to(port));
  stop(&server, SIGTERM, &result);
  ck_assert_str_eq(result.out, "");
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("idle-server");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, garbage_is_echoed_byte_for_byte, 0, KINDS);
  tcase_add_loop_test(tcase, a_silent_connection_is_closed_but_not_early, 0,
                      KINDS_WITH_TIMEOUT);
  tcase_add_test(tcase, without_a_timer_a_silent_connection_stays);
  tcase_add_loop_test(tcase, a_peer_that_reads_late_gets_every_byte, 0, KINDS);
  tcase_add_loop_test(tcase, a_peer_that_never_reads_gets_idle, 0,
                      KINDS_WITH_TIMEOUT);
  tcase_add_loop_test(tcase, peers_that_vanish_do_no_harm, 0, KINDS);
  tcase_add_loop_test(tcase, a_client_killed_half_way_does_no_harm, 0, KINDS);
  tcase_add_loop_test(tcase, out_of_descriptors_it_says_so_and_recovers, 0,
                      KINDS);
  tcase_add_loop_test(tcase, full_it_says_so_and_refuses, 0, KINDS);
  tcase_add_test(tcase, full_it_sheds_the_idlest);
  tcase_add_test(tcase, out_of_descriptors_it_sheds);
  tcase_add_loop_test(tcase, out_of_memory_it_says_so_and_goes_on, 0, KINDS);
  tcase_add_test(tcase, without_libmicrohttpd_it_says_so);
  tcase_add_test(tcase, too_few_descriptors_are_one_line);
  tcase_add_loop_test(tcase, sigterm_closes_everything, 0, KINDS);
  tcase_add_loop_test(tcase, sigint_closes_everything, 0, KINDS);
  tcase_add_loop_test(tcase, wrong_usage_is_one_line_and_status_2, 0, WRONG);
  tcase_add_loop_test(tcase, a_port_in_use_is_one_line_and_status_1, 0, KINDS);
  tcase_add_test(tcase, it_ends_if_it_cannot_print_where_it_listens);
  tcase_add_test(tcase, help_names_every_option);
  tcase_add_test(tcase, stats_come_while_it_runs);
  tcase_add_test(tcase, quiet_prints_where_it_listens_and_no_more);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
