/* SPDX-License-Identifier: MIT */

/* The loads: their verdicts on good servers, on servers in trouble, and on
 * servers that break one promise each. The test itself is the worst of these.
 */

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define MESSAGE_MAX 64

/* A server, and the load that goes with it. */
typedef struct pair_s {
  const char *server;
  const char *load;
} pair_t;

static const pair_t tcp = {"IDLE_SERVER", "IDLE_LOAD"};
static const pair_t loops = {"MULTI_LOOP", "IDLE_LOAD"};
static const pair_t udp = {"UDP_SESSIONS", "UDP_LOAD"};

static result_t result;

/* Without uthash or Linux there is no UDP. */
static int
is_built(const pair_t *pair)
{
  return getenv(pair->server) != NULL && getenv(pair->load) != NULL;
}

static program_t
start_server_of(const pair_t *pair, const char *options, uint16_t *port)
{
  return start_listening(pair->server, text_of("--port 0 %s", options), port);
}

static program_t
start_load_of(const pair_t *pair, uint16_t port, const char *options)
{
  return start_program(pair->load, text_of("--port %u %s", port, options));
}

/* It runs: all connections are there, all peers have said hello. */
static void
await_running(const program_t *load)
{
  char line[256];

  read_line(load->err, line, sizeof(line));
  ck_assert_msg(strncmp(line, "running:", 8) == 0, "%s", line);
}

static void
assert_good(void)
{
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "wrong"), 0);
}

static void
assert_broken(const char *promise)
{
  ck_assert_msg(strstr(result.err, promise) != NULL, "no '%s' in '%s%s'",
                promise, result.err, result.out);
  ck_assert_int_eq(result.status, 1);
}

/* The last thing that it said is why it gives no verdict. */
static void
assert_no_verdict(const char *reason)
{
  const char *last = text_of("%s: no verdict\n", reason);
  size_t length = strlen(result.err);

  ck_assert_uint_ge(length, strlen(last));
  ck_assert_str_eq(result.err + length - strlen(last), last);
  ck_assert_ptr_null(strstr(result.err, "broken"));
  ck_assert_str_eq(result.out, "");
  ck_assert_int_eq(result.status, 1);
}

/* ---- Real servers ------------------------------------------------------- */

#define TCP_LOAD "--connections 200 --timeout "
#define UDP_LOAD "--peers 2000 --timeout "
static const struct {
  const pair_t *pair;
  const char *server_options;
  const char *load_options;
  uint64_t on_time;
  const char *server_says[4];
} good[] = {
    {&tcp,
     "--timer wheel --timeout 1500",
     TCP_LOAD "1500 --duration 2",
     100,
     {" accepted=202 ", " idle_closes=100 "}}, /* with two probes */
    {&tcp,
     "--timer wheel --timeout 800 --tick 10",
     TCP_LOAD "800 --tick 10 --duration 1 --chatty 0",
     200,
     {" accepted=202 ", " idle_closes=200 "}},
    {&tcp,
     "--timer wheel --timeout 800 --slots 1",
     TCP_LOAD "800 --duration 2 --chatty 100",
     0,
     {" accepted=202 ", " idle_closes=0 "}},
    {&tcp,
     "--timer uv --timeout 1500",
     TCP_LOAD "1500 --tick 1 --duration 2",
     100,
     {" accepted=202 ", " idle_closes=100 "}},
    {&tcp,
     "--timer none",
     TCP_LOAD "0 --duration 1",
     0,
     {" accepted=202 ", " idle_closes=0 "}},
    {&tcp,
     "--timeout 1000 --tick 5000",
     TCP_LOAD "1000 --tick 10000 --chatty 0 --together --duration 1",
     200,
     {" accepted=202 ", " idle_closes=200 "}},
    {&loops,
     "--threads 3 --timeout 1000",
     TCP_LOAD "1000 --duration 3",
     100,
     {"=3 open=0 accepted=202 ", " idle_closes=100 "}},
    {&udp,
     "--timer wheel --timeout 1500",
     UDP_LOAD "1500 --duration 2",
     1000,
     {" created=2000 ", " peak=2000 ", " expired=1600 expired_early=0 "}},
    {&udp,
     "--timer wheel --timeout 800 --slots 1",
     UDP_LOAD "800 --duration 2 --chatty 100 --interval 200",
     0,
     {" created=2000 ", " sessions=2000 ", " expired=0 "}},
    {&udp,
     "--timer uv --timeout 1500",
     UDP_LOAD "1500 --tick 1 --duration 2 --chatty 60",
     800,
     {" created=2000 ", " sessions=1200 ", " expired=800 expired_early=0 "}},
};
#define GOOD ((int)(sizeof(good) / sizeof(good[0])))

START_TEST(a_good_server_has_kept_every_promise)
{
  uint16_t port;

  if (!is_built(good[_i].pair))
    return;
  program_t server =
      start_server_of(good[_i].pair, good[_i].server_options, &port);
  program_t load = start_load_of(good[_i].pair, port, good[_i].load_options);
  finish(&load, &result);
  assert_good();
  ck_assert_uint_eq(number_of(result.out, "on_time"), good[_i].on_time);
  ck_assert_uint_ge(number_of(result.out, "echoes"), 200);
  stop_well(&server, SIGTERM, &result);
  assert_has(result.out, good[_i].server_says);
}
END_TEST

START_TEST(connections_that_come_and_go_are_judged)
{
  static const pair_t *const pairs[] = {&tcp, &loops};
  uint16_t port;
  program_t server = start_server_of(pairs[_i], "--timeout 500", &port);
  program_t load =
      start_load_of(pairs[_i], port, TCP_LOAD "500 --duration 3 --churn");

  finish(&load, &result);
  assert_good();
  ck_assert_uint_gt(number_of(result.out, "on_time"), 100);
  stop_well(&server, SIGTERM, &result);
  ck_assert_uint_gt(number_of(result.out, "accepted"), 400);
}
END_TEST

#define CLOSED "a connection in use was closed"
static const struct {
  const pair_t *pair;
  const char *server_options;
  const char *load_options;
  const char *promise;
} mismatch[] = {
    {&tcp, "--timeout 200", "--timeout 60000 --chatty 0",
     "a connection was closed before its timeout"},
    {&tcp, "--timeout 200", "--timeout 60000 --chatty 100 --interval 15000",
     CLOSED},
    {&tcp, "--timeout 200", "--timeout 0", CLOSED},
    {&tcp, "--timeout 4000", "--timeout 500 --chatty 0 --tick 1",
     "an idle connection was closed too late"},
    {&tcp, "--timer none", "--timeout 500 --chatty 0 --patience 500",
     "an idle connection was never closed"},
    {&tcp, "--timer none", "--timeout 500 --churn --patience 500",
     "an idle connection was never closed"},
    {&udp, "--timeout 300", "--timeout 1000 --chatty 0",
     "a connection was closed before its timeout"},
    {&udp, "--timeout 100 --tick 10",
     "--timeout 4000 --chatty 100 --interval 500 --duration 2", CLOSED},
    {&udp, "--timeout 100 --tick 10",
     "--timeout 0 --chatty 100 --interval 500 --duration 2", CLOSED},
    {&udp, "--timeout 4000", "--timeout 500 --chatty 0 --tick 1",
     "an idle connection was closed too late"},
    {&udp, "--timeout 600000", "--timeout 500 --chatty 0 --patience 500",
     "an idle connection was never closed"},
    {&udp, "--sessions 10", "--timeout 0 --chatty 0 --patience 500",
     "an echo did not come back"},
};
#define MISMATCH ((int)(sizeof(mismatch) / sizeof(mismatch[0])))

START_TEST(a_server_unlike_the_one_expected_breaks_a_promise)
{
  const pair_t *pair = mismatch[_i].pair;
  uint16_t port;

  if (!is_built(pair))
    return;
  program_t server = start_server_of(pair, mismatch[_i].server_options, &port);
  program_t load =
      start_load_of(pair, port,
                    text_of("%s 20 --duration 1 %s",
                            pair == &udp ? "--peers" : "--connections",
                            mismatch[_i].load_options));
  finish(&load, &result);
  assert_broken(mismatch[_i].promise);
  stop_well(&server, SIGTERM, &result);
}
END_TEST

/* ---- Servers in trouble ------------------------------------------------- */

#define STALLED_TCP "--connections 100 --timeout 1000 --duration 1 "
#define STALLED_UDP \
  "--peers 600 --chatty 75 --timeout 1000 --interval 200 --duration 1 "
static const struct {
  const pair_t *pair;
  const char *server_options;
  const char *load_options;
} stalls[] = {
    {&tcp, "", STALLED_TCP},
    {&tcp, "--block 2", STALLED_TCP "--by-usr1"},
    {&udp, "", STALLED_UDP},
};

/* With libuv's timers as well, else the test could not fail. */
START_TEST(a_stall_closes_no_peer_of_a_wheel_but_those_of_libuv_timers)
{
  const pair_t *pair = stalls[_i / 2].pair;
  const char *kind = _i % 2 == 0 ? "wheel" : "uv";
  uint16_t port;

  if (!is_built(pair))
    return;
  program_t server =
      start_server_of(pair,
                      text_of("--timeout 1000 --timer %s %s", kind,
                              stalls[_i / 2].server_options),
                      &port);
  program_t load = start_load_of(pair, port,
                                 text_of("--pid %d --stall 2 %s", server.pid,
                                         stalls[_i / 2].load_options));
  finish(&load, &result);
  if (_i % 2 == 0) {
    assert_good();
    ck_assert_uint_gt(number_of(result.out, "on_time"), 0);
  } else {
    assert_broken("a connection was closed for a stall");
  }
  stop_well(&server, SIGTERM, &result);
}
END_TEST

START_TEST(a_load_that_is_interrupted_thaws_the_server)
{
  int status;
  uint16_t port;
  program_t server = start_server_of(&tcp, "--timeout 1000", &port);
  program_t load = start_load_of(
      &tcp, port, text_of(STALLED_TCP "--stall 60 --pid %d", server.pid));

  do
    ck_assert_int_eq(waitpid(server.pid, &status, WUNTRACED), server.pid);
  while (!WIFSTOPPED(status));
  stop(&load, SIGINT, &result);
  assert_no_verdict("interrupted");
  assert_echo(connect_to(port));
  stop_well(&server, SIGTERM, &result);
}
END_TEST

START_TEST(a_server_that_cannot_be_signalled_is_not_judged)
{
  uint16_t port;
  program_t server = start_server_of(&tcp, "--timeout 1000", &port);
  program_t load =
      start_load_of(&tcp, port, STALLED_TCP "--stall 1 --pid 2147483647");

  finish(&load, &result);
  assert_no_verdict("cannot signal the server");
  stop_well(&server, SIGTERM, &result);
}
END_TEST

static program_t
flood(const char *server_options)
{
  uint16_t port;
  program_t server = start_server_of(&tcp, server_options, &port);
  program_t load =
      start_load_of(&tcp, port,
                    "--timeout 10000 --connections 10 --chatty 100 "
                    "--flood 60 --newcomers 20 --duration 2");

  finish(&load, &result);
  ck_assert_uint_eq(number_of(result.out, "newcomers"), 20);
  return server;
}

START_TEST(a_full_server_that_sheds_serves_newcomers)
{
  program_t server =
      flood("--timeout 10000 --max-connections 60 --when-full shed");

  assert_good();
  ck_assert_uint_eq(number_of(result.out, "served"), 20);
  stop_well(&server, SIGTERM, &result);
  ck_assert_uint_gt(number_of(result.out, "shed"), 0);
  ck_assert_uint_eq(number_of(result.out, "turned_away"), 0);
}
END_TEST

START_TEST(a_full_server_that_refuses_does_not_and_the_load_finds_it)
{
  program_t server = flood("--timeout 600000 --max-connections 60");

  assert_broken("a newcomer was not served");
  ck_assert_uint_eq(number_of(result.out, "served"), 0);
  stop(&server, SIGTERM, &result);
  ck_assert_uint_ge(number_of(result.out, "turned_away"), 20);
}
END_TEST

/* ---- The test as a bad TCP server --------------------------------------- */

/* Accepts the probe and one connection, and reads its first message. */
static const struct {
  const char *promise;
  int wrong_bytes;
  int more_bytes;
  int is_closed;
} bad[] = {
    {"an echo differs from what was sent", .wrong_bytes = 1},
    {"an echo differs from what was sent", .more_bytes = 1},
    {CLOSED, .is_closed = 1},
    {"an echo did not come back", .is_closed = 1},
};

START_TEST(a_bad_echo_is_found)
{
  char message[MESSAGE_MAX + 1];
  ssize_t length;
  uint16_t port;
  int listener = listen_on(&port);
  program_t load =
      start_load_of(&tcp, port, "--connections 1 --chatty 100 --duration 1");
  int probe = accept_from(listener), connection = accept_from(listener);

  length = recv(connection, message, MESSAGE_MAX, 0);
  ck_assert_int_gt(length, 0);
  message[length - 1] = (char)(message[length - 1] ^ bad[_i].wrong_bytes);
  if (bad[_i].is_closed)
    close(connection);
  else
    send_all(connection, message, (size_t)(length + bad[_i].more_bytes));
  /* The probe is served well until the load is done. */
  while ((length = recv(probe, message, sizeof(message), 0)) > 0)
    send_all(probe, message, (size_t)length);
  finish(&load, &result);
  assert_broken(bad[_i].promise);
}
END_TEST

/* It even closes the probe, time and again. */
START_TEST(a_server_that_closes_all_at_once_is_found)
{
  uint16_t port;
  int listener = listen_on(&port);
  program_t load =
      start_load_of(&tcp, port, "--connections 1 --chatty 100 --duration 1");
  struct pollfd awaited[] = {{.fd = listener, .events = POLLIN},
                             {.fd = load.out, .events = POLLIN}};

  while (poll(awaited, 2, -1) > 0 && awaited[1].revents == 0)
    close(accept_from(listener));
  finish(&load, &result);
  assert_broken(CLOSED);
}
END_TEST

/* ---- The test as a bad UDP server --------------------------------------- */

/* What is wrong about the answers. */
typedef enum {
  NOTHING,
  WRONG_TEXT, /* from here on of the second answer */
  WRONG_PEER,
  WRONG_COUNT,
  SENT_TWICE,
  COUNT_OF_ONE, /* from here on of all answers */
  NO_ANSWER,
  NO_SESSION
} lie_t;

#define CHATTY "--peers 1 --chatty 100 --timeout 0 --duration 1"
#define SILENT "--peers 1 --chatty 0 --timeout 500 --duration 0"
#define HASTY " --patience 500"
static const struct {
  lie_t lie;
  const char *load;
  const char *promise;
} lies[] = {
    {WRONG_TEXT, CHATTY, "an echo differs from what was sent"},
    {WRONG_PEER, CHATTY, "an echo differs from what was sent"},
    {WRONG_COUNT, CHATTY, "an echo differs from what was sent"},
    {SENT_TWICE, CHATTY, "an echo differs from what was sent"},
    {COUNT_OF_ONE, CHATTY, CLOSED},
    {NO_ANSWER, CHATTY HASTY, "an echo did not come back"},
    {NO_SESSION, SILENT, "a connection was closed before its timeout"},
    {COUNT_OF_ONE, SILENT HASTY, "an idle connection was never closed"},
};
#define LIES ((int)(sizeof(lies) / sizeof(lies[0])))

/* Answers the next datagram, the number of which it is given. */
static void
answer_one(int socket, lie_t lie, unsigned number)
{
  char text[MESSAGE_MAX], answer[2 * MESSAGE_MAX];
  unsigned count = number + (lie == WRONG_COUNT && number == 2);
  struct sockaddr_in peer;
  socklen_t size = sizeof(peer);
  ssize_t length =
      recvfrom(socket, text, sizeof(text), 0, (struct sockaddr *)&peer, &size);

  ck_assert_int_gt(length, 0);
  if (number == 2 && (lie == WRONG_TEXT || lie == WRONG_PEER))
    text[lie == WRONG_PEER ? 1 : length - 1] ^= 1;
  if (lie == COUNT_OF_ONE)
    count = 1;
  if (lie == NO_SESSION && text[0] == '?')
    count = 0;
  int head = snprintf(answer, sizeof(answer), "%u ", count);
  memcpy(answer + head, text, (size_t)length);
  for (int i = 0; i < (lie == SENT_TWICE && number == 2) + (lie != NO_ANSWER);
       i++)
    sendto(socket, answer, (size_t)(head + length), 0, (struct sockaddr *)&peer,
           size);
}

/* Until the load prints its verdict. */
static void
lie_to(const program_t *load, int socket, lie_t lie)
{
  struct pollfd both[] = {{.fd = socket, .events = POLLIN},
                          {.fd = load->out, .events = POLLIN}};

  for (unsigned number = 1; both[1].revents == 0; number++) {
    ck_assert_int_gt(poll(both, 2, -1), 0);
    if (both[0].revents != 0)
      answer_one(socket, lie, number);
  }
  finish(load, &result);
}

START_TEST(a_liar_is_found)
{
  uint16_t port;
  int socket = hear_on(&port);

  if (!is_built(&udp))
    return;
  program_t load = start_load_of(&udp, port, lies[_i].load);
  lie_to(&load, socket, lies[_i].lie);
  assert_broken(lies[_i].promise);
}
END_TEST

/* Who is not the server cannot answer for it. */
START_TEST(a_stranger_is_ignored)
{
  uint16_t port, strange_port;
  int server = hear_on(&port), stranger = hear_on(&strange_port);
  struct sockaddr_in peer;
  socklen_t size = sizeof(peer);
  char byte;

  if (!is_built(&udp))
    return;
  program_t load = start_load_of(&udp, port, CHATTY);
  ck_assert_int_eq(
      recvfrom(server, &byte, 1, MSG_PEEK, (struct sockaddr *)&peer, &size), 1);
  ck_assert_int_eq(
      sendto(stranger, "9 lies", 6, 0, (struct sockaddr *)&peer, size), 6);
  lie_to(&load, server, NOTHING);
  assert_good();
}
END_TEST

/* ---- No verdict --------------------------------------------------------- */

START_TEST(no_server_is_one_line)
{
  uint16_t port = closed_port(_i == 0 ? SOCK_STREAM : SOCK_DGRAM);
  const pair_t *pair = _i == 0 ? &tcp : &udp;

  if (!is_built(pair))
    return;
  program_t load = start_load_of(pair, port, "");
  finish(&load, &result);
  assert_complaint(&result, 1,
                   _i == 0 ? "connection refused"
                           : "nobody listens there: no verdict");
  ck_assert_str_eq(result.out, "");
}
END_TEST

#define GONE_TCP "idle-load: the server is gone"
#define GONE_UDP "udp-load: nobody listens there"
static const struct {
  const pair_t *pair;
  int signal;
  const char *load;
  const char *reason;
} gone[] = {
    {&tcp, SIGTERM, "--connections 200", GONE_TCP},
    {&tcp, SIGKILL, "--connections 200", GONE_TCP},
    {&tcp, SIGKILL, "--connections 200 --timeout 0", GONE_TCP},
    {&tcp, SIGTERM, "--connections 200 --churn", GONE_TCP},
    {&loops, SIGINT, "--connections 200 --interval 1", GONE_TCP},
    {&udp, SIGTERM, "--peers 1000", GONE_UDP},
    {&udp, SIGKILL, "--peers 1000", GONE_UDP},
};
#define GONE ((int)(sizeof(gone) / sizeof(gone[0])))

START_TEST(a_server_gone_half_way_is_not_judged)
{
  uint16_t port;

  if (!is_built(gone[_i].pair))
    return;
  program_t server = start_server_of(gone[_i].pair, "", &port);
  program_t load = start_load_of(gone[_i].pair, port, gone[_i].load);
  await_running(&load);
  stop(&server, gone[_i].signal, &result);
  ck_assert_str_eq(result.err, "");
  finish(&load, &result);
  assert_no_verdict(gone[_i].reason);
}
END_TEST

static const struct {
  const pair_t *pair;
  const char *load;
  const char *peers; /* what the server's figures call them */
} lasting[] = {
    {&tcp, "--connections 100", "open"},
    {&udp, "--peers 1000", "sessions"},
};

START_TEST(an_interrupted_load_gives_no_verdict)
{
  static const int signals[] = {SIGINT, SIGTERM};
  const pair_t *pair = lasting[_i / 2].pair;
  uint16_t port;

  if (!is_built(pair))
    return;
  program_t server = start_server_of(pair, "", &port);
  program_t load = start_load_of(pair, port, lasting[_i / 2].load);
  await_running(&load);
  stop(&load, signals[_i % 2], &result);
  assert_no_verdict("interrupted");
  stop_well(&server, SIGTERM, &result);
}
END_TEST

/* The server closes all connections meanwhile, rightly. */
START_TEST(a_load_that_was_stopped_accuses_no_server)
{
  const pair_t *pair = lasting[_i].pair;
  char line[512];
  uint16_t port;

  if (!is_built(pair))
    return;
  program_t server = start_server_of(pair, "--timeout 600 --stats 1", &port);
  program_t load = start_load_of(
      pair, port, text_of("--timeout 600 --duration 2 %s", lasting[_i].load));
  await_running(&load);
  ck_assert_int_eq(kill(load.pid, SIGSTOP), 0);
  do
    read_line(server.out, line, sizeof(line));
  while (number_of(line, lasting[_i].peers) != 0);
  ck_assert_int_eq(kill(load.pid, SIGCONT), 0);
  finish(&load, &result);
  assert_good();
  ck_assert_ptr_null(strstr(result.err, "broken"));
  stop_well(&server, SIGTERM, &result);
}
END_TEST

static TCase *
verdicts_tcase(void)
{
  TCase *tcase = tcase_create("load verdicts");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, a_good_server_has_kept_every_promise, 0, GOOD);
  tcase_add_loop_test(tcase, connections_that_come_and_go_are_judged, 0, 2);
  tcase_add_loop_test(tcase, no_server_is_one_line, 0, 2);
  tcase_add_loop_test(tcase, a_server_gone_half_way_is_not_judged, 0, GONE);
  tcase_add_loop_test(tcase, an_interrupted_load_gives_no_verdict, 0, 4);
  return tcase;
}

static TCase *
promises_tcase(void)
{
  TCase *tcase = tcase_create("load promises");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, a_server_unlike_the_one_expected_breaks_a_promise,
                      0, MISMATCH);
  tcase_add_loop_test(tcase, a_bad_echo_is_found, 0, 4);
  tcase_add_test(tcase, a_server_that_closes_all_at_once_is_found);
  tcase_add_loop_test(tcase, a_liar_is_found, 0, LIES);
  tcase_add_test(tcase, a_stranger_is_ignored);
  return tcase;
}

static TCase *
trouble_tcase(void)
{
  TCase *tcase = tcase_create("load trouble");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(
      tcase, a_stall_closes_no_peer_of_a_wheel_but_those_of_libuv_timers, 0, 6);
  tcase_add_test(tcase, a_load_that_is_interrupted_thaws_the_server);
  tcase_add_test(tcase, a_server_that_cannot_be_signalled_is_not_judged);
  tcase_add_test(tcase, a_full_server_that_sheds_serves_newcomers);
  tcase_add_test(tcase,
                 a_full_server_that_refuses_does_not_and_the_load_finds_it);
  tcase_add_loop_test(tcase, a_load_that_was_stopped_accuses_no_server, 0, 2);
  return tcase;
}

int
main(void)
{
  Suite *suite = suite_create("loads");

  suite_add_tcase(suite, verdicts_tcase());
  suite_add_tcase(suite, promises_tcase());
  suite_add_tcase(suite, trouble_tcase());
  return run_suite(suite);
}
