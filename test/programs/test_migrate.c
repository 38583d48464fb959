/* SPDX-License-Identifier: MIT */

/* The server of docs/migrating.md, before and after: the same to its peers. */

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

static const char *const servers[] = {"MIGRATE_BEFORE", "MIGRATE_AFTER"};
#define SERVERS 2

#define NEVER "600000"

static result_t result;

/* It ends well: uv_loop_close found nothing left. */
static void
assert_ends(const program_t *server)
{
  stop(server, SIGTERM, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
}

START_TEST(it_echoes_to_many_and_ends_with_them_connected)
{
  uint16_t port;
  program_t server = start_listening(servers[_i], NEVER, &port);

  for (int i = 0; i < 100; i++)
    assert_echo(connect_to(port));
  assert_ends(&server);
}
END_TEST

START_TEST(peers_that_go_do_no_harm)
{
  uint16_t port;
  program_t server = start_listening(servers[_i], NEVER, &port);

  for (int i = 0; i < 100; i++) {
    int connection = connect_to(port);
    if (i % 3 > 0)
      assert_echo(connection);
    if (i % 2 == 0)
      reset(connection);
    else
      close(connection);
  }
  assert_echo(connect_to(port));
  assert_ends(&server);
}
END_TEST

/* libuv's own timers may fire up to a millisecond early. */
START_TEST(a_silent_connection_is_closed_but_not_early)
{
  uint16_t port;
  program_t server = start_listening(servers[_i], "300", &port);
  int64_t begin_ns = now_ns();

  ck_assert_uint_eq(read_to_end(connect_to(port)), 0);
  ck_assert_int_ge(now_ns() - begin_ns, 299000000);
  assert_ends(&server);
}
END_TEST

static int
is_open(int connection)
{
  char byte;

  return recv(connection, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

START_TEST(traffic_keeps_a_connection_open)
{
  uint16_t port;
  program_t server = start_listening(servers[_i], "1000", &port);
  int busy = connect_to(port), silent = connect_to(port);

  while (is_open(silent))
    assert_echo(busy);
  assert_echo(busy);
  assert_ends(&server);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
  static const char *const lines[] = {"", "0", "-5", "5x", "x", "5 5"};

  for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    run_program(servers[_i], lines[i], &result);
    assert_complaint(&result, 2, "usage: ");
  }
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("migrate");
  TCase *tcase = tcase_create("migrate");

  suite_add_tcase(suite, tcase);
  tcase_set_timeout(tcase, 30);
  tcase_add_loop_test(tcase, it_echoes_to_many_and_ends_with_them_connected, 0,
                      SERVERS);
  tcase_add_loop_test(tcase, peers_that_go_do_no_harm, 0, SERVERS);
  tcase_add_loop_test(tcase, a_silent_connection_is_closed_but_not_early, 0,
                      SERVERS);
  tcase_add_loop_test(tcase, traffic_keeps_a_connection_open, 0, SERVERS);
  tcase_add_loop_test(tcase, bad_arguments_are_refused, 0, SERVERS);
  return run_suite(suite);
}
