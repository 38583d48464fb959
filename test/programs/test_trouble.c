/* SPDX-License-Identifier: MIT */

/* The servers in trouble, and what their loads say about it: a server that was
 * deaf for a while has closed no peer that spoke meanwhile. */

#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>

#include "programs.h"
#include "suite.h"

static result_t result;

/* ---- Stalls -------------------------------------------------------------- */

typedef struct stalled_s {
  const char *server, *server_options, *load, *load_options;
} stalled_t;

#define TCP_OPTIONS "--connections 100 --timeout 1000 --duration 1 "
#define UDP_OPTIONS \
  "--peers 600 --chatty 75 --timeout 1000 --interval 200 --duration 1 "

/* Starts the server, and has the load stall it. */
static program_t
stall(const stalled_t *run, const char *kind)
{
  char options[256];
  uint16_t port;

  snprintf(options, sizeof(options), "--port 0 --timeout 1000 --timer %s %s",
           kind, run->server_options);
  program_t server = start_listening(run->server, options, &port);
  snprintf(options, sizeof(options), "--port %u --pid %d --stall 2 %s", port,
           (int)server.pid, run->load_options);
  run_program(run->load, options, &result);
  return server;
}

static const stalled_t stalls[] = {
    {"IDLE_SERVER", "", "IDLE_LOAD", TCP_OPTIONS},
    {"IDLE_SERVER", "--block 2", "IDLE_LOAD", TCP_OPTIONS "--stall-by usr1"},
    {"IDLE_SERVER", "--block 2", "IDLE_LOAD", TCP_OPTIONS "--stall-by usr2"},
    {"UDP_SESSIONS", "", "UDP_LOAD", UDP_OPTIONS},
};

/* Without uthash there are no UDP sessions. */
static int
stall_count(void)
{
  int all = (int)(sizeof(stalls) / sizeof(stalls[0]));

  return getenv("UDP_LOAD") != NULL ? all : all - 1;
}

START_TEST(a_wheel_closes_no_peer_for_a_stall)
{
  program_t server = stall(&stalls[_i], "wheel");

  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "wrong"), 0);
  ck_assert_uint_gt(number_of(result.out, "on_time"), 0);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* Else the test above could not fail. */
START_TEST(a_libuv_timer_does_and_the_load_finds_it)
{
  program_t server = stall(&stalls[_i], "uv");

  ck_assert_msg(strstr(result.err, "a connection was closed for a stall") !=
                    NULL,
                "%s%s", result.err, result.out);
  ck_assert_int_eq(result.status, 1);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

START_TEST(a_load_that_is_interrupted_thaws_the_server)
{
  char options[256];
  int status;
  uint16_t port;
  program_t server = start_server("--timeout 1000", &port);

  snprintf(options, sizeof(options), TCP_OPTIONS "--stall 60 --pid %d",
           (int)server.pid);
  program_t load = start_load(port, options);
  do
    ck_assert_int_eq(waitpid(server.pid, &status, WUNTRACED), server.pid);
  while (!WIFSTOPPED(status));
  stop(&load, SIGINT, &result);
  assert_no_verdict(&result, "interrupted");
  assert_echo(connect_to(port));
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

START_TEST(a_server_that_cannot_be_signalled_is_not_judged)
{
  uint16_t port;
  program_t server = start_server("--timeout 1000", &port);
  program_t load = start_load(port, TCP_OPTIONS "--stall 1 --pid 2147483647");

  finish(&load, &result);
  assert_no_verdict(&result, "cannot signal the server");
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* ---- Floods -------------------------------------------------------------- */

static program_t
flood(const char *server_options)
{
  uint16_t port;
  program_t server = start_server(server_options, &port);
  program_t load =
      start_load(port, "--timeout 10000 --connections 10 --chatty 100 "
                       "--flood 60 --newcomers 20 --duration 2");

  finish(&load, &result);
  ck_assert_uint_eq(number_of(result.out, "newcomers"), 20);
  return server;
}

START_TEST(a_full_server_that_sheds_serves_newcomers)
{
  program_t server =
      flood("--timeout 10000 --max-connections 60 --when-full shed");

  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "served"), 20);
  ck_assert_uint_eq(number_of(result.out, "wrong"), 0);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_gt(number_of(result.out, "shed"), 0);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), 0);
}
END_TEST

START_TEST(a_full_server_that_refuses_does_not_and_the_load_finds_it)
{
  program_t server = flood("--timeout 600000 --max-connections 60");

  ck_assert_msg(strstr(result.err, "a newcomer was not served") != NULL, "%s%s",
                result.err, result.out);
  ck_assert_int_eq(result.status, 1);
  ck_assert_uint_eq(number_of(result.out, "served"), 0);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_ge(number_of(result.out, "turned_away"), 20);
}
END_TEST

/* ---- Mass expiry --------------------------------------------------------- */

START_TEST(silent_ones_that_spoke_together_expire_together)
{
  uint16_t port;
  program_t server = start_server("--timeout 1000 --tick 5000", &port);
  program_t load =
      start_load(port, "--timeout 1000 --tick 10000 --chatty 0 --together "
                       "--connections 500 --duration 1");

  finish(&load, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "on_time"), 500);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_eq(number_of(result.out, "idle_closes"), 500);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("trouble");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, a_wheel_closes_no_peer_for_a_stall, 0,
                      stall_count());
  tcase_add_loop_test(tcase, a_libuv_timer_does_and_the_load_finds_it, 0,
                      stall_count());
  tcase_add_test(tcase, a_load_that_is_interrupted_thaws_the_server);
  tcase_add_test(tcase, a_server_that_cannot_be_signalled_is_not_judged);
  tcase_add_test(tcase, a_full_server_that_sheds_serves_newcomers);
  tcase_add_test(tcase,
                 a_full_server_that_refuses_does_not_and_the_load_finds_it);
  tcase_add_test(tcase, silent_ones_that_spoke_together_expire_together);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
