/* SPDX-License-Identifier: MIT */

/* The TCP servers: what a single peer sees of them, and how they end. */

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define CONNECTIONS 50
#define NS_PER_MS INT64_C(1000000)
#define NEVER_MS 600000

static const struct {
  const char *program;
  const char *options;
  int early_ms; /* libuv's own timers may fire so early */
} servers[] = {
    {"IDLE_SERVER", "--timer none --port 0 --timeout", 0},
    {"IDLE_SERVER", "--timer wheel --tick 10 --port 0 --timeout", 0},
    {"IDLE_SERVER", "--timer uv --port 0 --timeout", 0},
    {"IDLE_SERVER", "--timer sweep --port 0 --timeout", 0},
    {"MULTI_LOOP", "--threads 2 --tick 10 --port 0 --timeout", 0},
    {"MIGRATE_AFTER", "", 0},
    {"MIGRATE_BEFORE", "", 1},
};
/* Ranges of these rows. */
#define WHEEL 1
#define FIRST_WITH_TIMEOUT 1
#define IDLE_SERVERS 4
#define MULTI_LOOP 4
#define OF_ECHO 5 /* those that run echo.c, and print a summary */
#define SERVERS 7

static program_t server;
static int row; /* which it is */
static uint16_t port, page_port;
static result_t result;

static void
start(int which, int timeout_ms, const char *options)
{
  row = which;
  server = start_listening(
      servers[row].program,
      text_of("%s %d %s", servers[row].options, timeout_ms, options), &port);
}

/* It ends well, and has none of that many connections any more. */
static void
assert_ends(int signal, uint64_t accepted)
{
  stop_well(&server, signal, &result);
  if (row >= OF_ECHO)
    return;
  ck_assert_uint_eq(number_of(result.out, "accepted"), accepted);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
}

/* The same for a server that must still serve. */
static void
assert_sound(uint64_t accepted)
{
  assert_echo(connect_to(port));
  assert_ends(SIGTERM, accepted + 1);
}

/* ---- Echo and timeout --------------------------------------------------- */

START_TEST(garbage_is_echoed_byte_for_byte)
{
  static unsigned char bytes[16384];
  start(_i, NEVER_MS, "");
  int connection = connect_to(port);

  for (unsigned part = 0; part < 20; part++) {
    for (size_t i = 0; i < sizeof(bytes); i++)
      bytes[i] = (unsigned char)(i * i + i / 256 + part);
    send_all(connection, bytes, sizeof(bytes));
    expect(connection, bytes, sizeof(bytes));
  }
  assert_sound(1);
}
END_TEST

START_TEST(silent_connections_are_closed_but_not_early)
{
  int connections[CONNECTIONS];
  int64_t begin_ns[CONNECTIONS];
  start(_i, 300, "");

  for (int i = 0; i < CONNECTIONS; i++) {
    begin_ns[i] = now_ns();
    connections[i] = connect_to(port);
  }
  for (int i = 0; i < CONNECTIONS; i++) {
    ck_assert_uint_eq(read_to_end(connections[i]), 0);
    ck_assert_int_ge(now_ns() - begin_ns[i],
                     (300 - servers[_i].early_ms) * NS_PER_MS);
  }
  assert_ends(SIGTERM, CONNECTIONS);
  if (_i < OF_ECHO)
    ck_assert_uint_eq(number_of(result.out, "idle_closes"), CONNECTIONS);
}
END_TEST

static int
is_open(int connection)
{
  char byte;

  return recv(connection, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* The end of another one shows that a timeout has passed. */
START_TEST(traffic_keeps_a_connection_open)
{
  start(_i, 1000, "");
  int busy = connect_to(port), silent = connect_to(port), is_kept = 1;
  int64_t spoke_ns = now_ns();

  while (is_kept && is_open(silent)) {
    int64_t before_ns = spoke_ns;
    spoke_ns = now_ns();
    is_kept = is_echoed(busy);
    /* Unless this test was stopped for a whole timeout. */
    ck_assert(is_kept || now_ns() - before_ns >= 999 * NS_PER_MS);
  }
  assert_ends(SIGTERM, 2);
}
END_TEST

/* ---- Peers that behave badly ------------------------------------------- */

START_TEST(a_peer_that_reads_late_gets_every_byte)
{
  start(_i, NEVER_MS, "");
  int connection = connect_to(port);

  size_t taken = send_until_stuck(connection);
  for (int i = 0; i < 20; i++) /* others are served, by each thread */
    assert_echo(connect_to(port));
  shutdown(connection, SHUT_WR);
  ck_assert_uint_eq(read_to_end(connection), taken);
  assert_sound(21);
}
END_TEST

START_TEST(a_peer_that_never_reads_gets_idle)
{
  static const char bytes[4096];
  start(_i, 1000, "");
  int connection = connect_to(port);

  while (send(connection, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0 ||
         errno == EINTR)
    continue;
  ck_assert(errno == ECONNRESET || errno == EPIPE);
  assert_sound(1);
}
END_TEST

START_TEST(peers_that_vanish_do_no_harm)
{
  start(_i, NEVER_MS, "");

  for (int i = 0; i < CONNECTIONS; i++) {
    int connection = connect_to(port);
    if (i % 3 > 0)
      assert_echo(connection);
    if (_i < OF_ECHO && i % 25 == 0)
      send_until_stuck(connection);
    if (i % 2 == 0)
      reset(connection);
    else
      close(connection);
  }
  assert_sound(CONNECTIONS);
}
END_TEST

/* ---- Descriptors, places and memory used up ----------------------------- */

/* The server turns a newcomer away by closing it. */
static int
is_served(void)
{
  int connection = connect_to(port);
  int served = is_echoed(connection);

  close(connection);
  return served;
}

static void
assert_complained(const char *text)
{
  ck_assert_msg(strstr(result.err, text) != NULL, "%s", result.err);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_gt(number_of(result.out, "turned_away"), 0);
  ck_assert_uint_eq(number_of(result.out, "shed"), 0);
  ck_assert_uint_eq(number_of(result.out, "open"), 0);
}

/* Opens as many as are served, then makes room for one. */
static void
fill_and_recover(int most)
{
  int connections[2 * CONNECTIONS], served = 0;

  while (is_echoed(connections[served] = connect_to(port))) {
    served++;
    ck_assert_int_le(served, most);
  }
  assert_echo(connections[0]);
  for (int i = 1; i <= served; i++)
    close(connections[i]);
  while (!is_served()) /* as soon as it has seen them close */
    continue;
}

START_TEST(out_of_descriptors_it_says_so_and_recovers)
{
  descriptor_limit = 56;
  start(_i, NEVER_MS, "");
  fill_and_recover(CONNECTIONS);
  stop(&server, SIGTERM, &result);
  assert_complained("out of descriptors");
}
END_TEST

START_TEST(full_it_says_so_and_refuses)
{
  const char *one = _i == MULTI_LOOP ? "--threads 1" : "";

  start(_i, NEVER_MS, text_of("--max-connections 3 %s", one));
  fill_and_recover(3);
  stop(&server, SIGTERM, &result);
  assert_complained("full with 3 connections");
}
END_TEST

/* Comes, is served, and says nothing more. */
static int
newcomer(void)
{
  int connection = connect_to(port);

  assert_echo(connection);
  return connection;
}

/* With so many places, it takes several ticks until all are taken anew. */
#define PLACES 100

static const struct {
  int row;
  unsigned descriptors;
  const char *options;
  int newcomers;
} full[] = {
    {WHEEL, 0, "--tick 1 --shed --max-connections 100", 2 * PLACES},
    {WHEEL, 156, "--tick 1 --shed", 2 * 156},
    {MULTI_LOOP, 156, "--tick 1 --shed", 3 * 156},
};

/* Unless a stall puts timers back: those may then be due after newcomers. */
START_TEST(full_it_sheds_the_idlest)
{
  int first[10], is_good = 1;
  char byte;

  descriptor_limit = full[_i].descriptors;
  start(full[_i].row, NEVER_MS, full[_i].options);
  int busy = newcomer();

  for (int i = 0; i < full[_i].newcomers; i++) {
    int connection = connect_to(port);
    is_good &= is_echoed(connection) & is_echoed(busy);
    if (i < 10)
      first[i] = connection;
  }
  for (int i = 0; i < 10; i++)
    is_good &= recv(first[i], &byte, 1, MSG_DONTWAIT) == 0;
  stop_well(&server, SIGTERM, &result);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), 0);
  ck_assert_uint_eq(number_of(result.out, "idle_closes"), 0);
  ck_assert_uint_gt(number_of(result.out, "shed"), PLACES);
  ck_assert(is_good || number_of(result.out, "stalls") != 0);
  if (_i == 0 && is_good)
    ck_assert_uint_eq(number_of(result.out, "shed"), PLACES + 1);
}
END_TEST

/* Places for twice as many: they would be the idlest. */
START_TEST(newcomers_that_say_nothing_push_out_nobody)
{
  int speakers[CONNECTIONS];

  start(WHEEL, NEVER_MS, "--shed --max-connections 100");
  for (int i = 0; i < CONNECTIONS; i++)
    speakers[i] = newcomer();
  for (int i = 0; i < 4 * CONNECTIONS; i++)
    connect_to(port);
  newcomer(); /* those before it have been let in */
  for (int i = 0; i < CONNECTIONS; i++)
    assert_echo(speakers[i]);
  stop_well(&server, SIGTERM, &result);
  ck_assert_uint_ge(number_of(result.out, "shed"), 3 * CONNECTIONS);
}
END_TEST

START_TEST(a_newcomer_that_says_nothing_has_less_time_where_others_are_shed)
{
  start(WHEEL, 10000, "--shed");
  int speaker = newcomer();

  ck_assert_uint_eq(read_to_end(connect_to(port)), 0);
  assert_echo(speaker);
  stop_well(&server, SIGTERM, &result);
}
END_TEST

#define FAILING_CALLS 40 /* see starving.c */

START_TEST(out_of_memory_it_says_so_and_goes_on)
{
  int starved[FAILING_CALLS];
  server =
      start_listening("STARVING_SERVER",
                      text_of("%s %d", servers[_i].options, NEVER_MS), &port);
  int first = newcomer();

  for (int i = 0; i < FAILING_CALLS; i++)
    starved[i] = connect_to(port);
  for (int i = 0; i < FAILING_CALLS; i++)
    ck_assert_uint_eq(read_to_end(starved[i]), 0);
  assert_echo(first);
  assert_echo(connect_to(port));
  stop(&server, SIGTERM, &result);
  assert_complained("out of memory with 1 connections");
  ck_assert_uint_eq(number_of(result.out, "accepted"), 2);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), FAILING_CALLS);
}
END_TEST

/* ---- What it prints, and its end ---------------------------------------- */

START_TEST(figures_come_while_it_runs)
{
  char line[1024];
  start(_i, NEVER_MS, "--stats 1 --slots 64");
  int connection = newcomer();

  do {
    read_line(server.out, line, sizeof(line));
    ck_assert_msg(strncmp(line, "stats ", 6) == 0, "%s", line);
  } while (number_of(line, "open") == 0 || number_of(line, "refreshes") < 2);
  ck_assert_uint_eq(number_of(line, "refreshes"), 2); /* read and written */
  if (_i == WHEEL || _i == MULTI_LOOP)
    ck_assert_uint_eq(number_of(line, "active"), 1);
  close(connection);
  assert_sound(1);
}
END_TEST

START_TEST(a_signal_closes_everything)
{
  static const int signals[] = {SIGINT, SIGTERM};
  int connections[CONNECTIONS];
  start(_i / 2, NEVER_MS, "");

  for (int i = 0; i < CONNECTIONS; i++)
    connections[i] = newcomer();
  send_until_stuck(connections[0]);
  assert_ends(signals[_i % 2], CONNECTIONS);
  for (int i = 1; i < CONNECTIONS; i++)
    ck_assert_uint_eq(read_to_end(connections[i]), 0);
}
END_TEST

/* ---- Several threads ---------------------------------------------------- */

/* By chance one of four threads gets nothing in one of 10^24 runs. */
START_TEST(connections_are_spread_over_the_threads)
{
  static const char *const threads[] = {
      "summary thread=1 ", "summary thread=2 ",  "summary thread=3 ",
      "summary thread=4 ", "summary threads=4 ", NULL};
  start(MULTI_LOOP, NEVER_MS, "--threads 4");

  for (int i = 0; i < 200; i++)
    assert_echo(connect_to(port));
  assert_ends(SIGTERM, 200);
  assert_has(result.out, threads);
  ck_assert_ptr_null(strstr(result.out, " accepted=0 "));
}
END_TEST

/* ---- The live page; more of it in test_live.c --------------------------- */

static void
start_with_page(int which, const char *options)
{
  char line[256];

  start(which, NEVER_MS, text_of("--http 0 %s", options));
  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, "live page: http://", 18) == 0, "%s", line);
  page_port = (uint16_t)strtoul(strrchr(line, ':') + 1, NULL, 10);
}

START_TEST(each_wheel_can_be_watched_until_a_signal_comes)
{
  start_with_page(MULTI_LOOP, "--threads 3");

  for (int i = 0; i < 3; i++)
    await_line(ask_page(page_port, text_of(GET("/frame?wheel=%d"), i)),
               text_of("{\"wheel\":%d,", i));
  for (int i = 0; i < 100; i++)
    ask_page(page_port, GET("/metrics"));
  stop_well(&server, SIGTERM, &result);
}
END_TEST

static const char *const when_full[] = {"", "--shed"};

START_TEST(viewers_take_no_places_of_peers)
{
  int peers[3];
  start_with_page(WHEEL, text_of("--max-connections 3 %s", when_full[_i]));

  for (int i = 0; i < 3; i++)
    connect_to(page_port);
  for (int i = 0; i < 3; i++)
    peers[i] = newcomer();
  await_line(ask_page(page_port, GET("/frame")), "\"active\":[3]");
  for (int i = 0; i < 3; i++)
    assert_echo(peers[i]);
  stop_well(&server, SIGTERM, &result);
}
END_TEST

START_TEST(a_signal_ends_the_page_whatever_its_connections_do)
{
  start_with_page(WHEEL, "");

  connect_to(page_port);
  ask_page(page_port, "GET / HT");
  ask_page(page_port, GET("/"));
  ask_page(page_port, GET("/frame"));
  assert_sound(0);
}
END_TEST

START_TEST(an_address_that_the_page_cannot_have_is_one_line)
{
  const char *other = "--http-host 127.0.0.2";
  start_with_page(WHEEL, other);

  run_program("IDLE_SERVER", text_of("--port 0 --http %u %s", page_port, other),
              &result);
  assert_complaint(&result, 1, "address already in use");
  run_program("IDLE_SERVER", "--port 0 --http 0 --http-host no.host.invalid",
              &result);
  assert_complaint(&result, 2, "no such address");
  stop_well(&server, SIGTERM, &result);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {garbage_is_echoed_byte_for_byte, 0, SERVERS},
      {silent_connections_are_closed_but_not_early, FIRST_WITH_TIMEOUT,
       SERVERS},
      {traffic_keeps_a_connection_open, FIRST_WITH_TIMEOUT, SERVERS},
      {a_peer_that_reads_late_gets_every_byte, 0, OF_ECHO},
      {a_peer_that_never_reads_gets_idle, FIRST_WITH_TIMEOUT, OF_ECHO},
      {peers_that_vanish_do_no_harm, 0, SERVERS},
      {out_of_descriptors_it_says_so_and_recovers, 0, OF_ECHO},
      {full_it_says_so_and_refuses, 0, OF_ECHO},
      EACH(full_it_sheds_the_idlest, full),
      TEST(newcomers_that_say_nothing_push_out_nobody),
      TEST(a_newcomer_that_says_nothing_has_less_time_where_others_are_shed),
      {out_of_memory_it_says_so_and_goes_on, 0, IDLE_SERVERS},
      {figures_come_while_it_runs, 0, OF_ECHO},
      {a_signal_closes_everything, 0, 2 * OF_ECHO},
      TEST(connections_are_spread_over_the_threads),
      TEST(each_wheel_can_be_watched_until_a_signal_comes),
      EACH(viewers_take_no_places_of_peers, when_full),
      TEST(a_signal_ends_the_page_whatever_its_connections_do),
      TEST(an_address_that_the_page_cannot_have_is_one_line),
  };
  size_t count = LENGTH(tests);

  if (strcmp(getenv("HAS_PAGE"), "yes") != 0)
    count -= 4; /* those with a page */
  return run_tests("servers", NULL, NULL, tests, count);
}
