/* SPDX-License-Identifier: MIT */

/* The loads: their verdicts on good servers, on servers in trouble, and on
 * servers that break one promise each. The test itself is the worst of these.
 */

#include <check.h>
#include <errno.h>
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

/* What a load says when all connections are there, all peers have said hello.
 */
#define RUNNING "running:"

/* A server, and the load that goes with it. */
typedef struct pair_s {
  const char *server;
  const char *load;
  const char *count;  /* the option that says how many peers there are */
  const char *made;   /* what the server's figures call those that came */
  const char *closed; /* and those that were idle                       */
} pair_t;

static const pair_t tcp = {"IDLE_SERVER", "IDLE_LOAD", "--connections",
                           "accepted", "idle_closes"};
static const pair_t loops = {"MULTI_LOOP", "IDLE_LOAD", "--connections",
                             "accepted", "idle_closes"};
static const pair_t udp = {"UDP_SESSIONS", "UDP_LOAD", "--peers", "created",
                           "expired"};

static const pair_t *pair = &tcp; /* unless another one is chosen */
static program_t server, load;
static uint16_t port;
static result_t result;

/* Says whether it is built. Without uthash or Linux there is no UDP. */
static int
choose(const pair_t *chosen)
{
  pair = chosen;
  return is_built(pair->server) && is_built(pair->load);
}

static void
start_server(const char *options)
{
  server =
      start_listening(pair->server, text_of("--port 0 %s", options), &port);
}

static void
start_load(int count, const char *options)
{
  load = start_program(pair->load, text_of("--port %u %s %d %s", port,
                                           pair->count, count, options));
}

/* Lets them meet until the load has its verdict. */
static void
meet(const char *server_options, int count, const char *load_options)
{
  start_server(server_options);
  start_load(count, load_options);
  finish(&load, &result);
}

/* Unless the machine lagged. */
static int
is_lateness_judged(void)
{
  int is_judged = number_of(result.out, "lateness_judged") != 0;

  ck_assert(is_judged || number_of(result.out, "lag_ms") > 100);
  return is_judged;
}

static void
assert_good(void)
{
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "wrong"), 0);
  const char *verdict =
      is_lateness_judged() ? "kept every promise\n" : "lateness is not judged";
  ck_assert_msg(strstr(result.err, verdict) != NULL, "%s", result.err);
}

static void
assert_broken(const char *promise)
{
  ck_assert_msg(strstr(result.err, promise) != NULL, "no '%s' in '%s%s'",
                promise, result.err, result.out);
  ck_assert_int_eq(result.status, 1);
}

static void
assert_no_verdict(const char *reason)
{
  const char *last = text_of("%s: no verdict\n", reason);

  ck_assert_msg(strstr(result.err, last) != NULL, "%s", result.err);
  ck_assert_ptr_null(strstr(result.err, "broken"));
  ck_assert_str_eq(result.out, "");
  ck_assert_int_eq(result.status, 1);
}

/* ---- Real servers ------------------------------------------------------- */

static const struct {
  const pair_t *pair;
  int count;
  const char *server;
  const char *load;
  uint64_t on_time;
  uint64_t closed;
} good[] = {
    {&tcp, 200, "--timer wheel --timeout 1500", "--timeout 1500 --duration 2",
     100, 100},
    {&tcp, 200, "--timer wheel --timeout 800 --tick 10",
     "--timeout 800 --tick 10 --duration 1 --chatty 0", 200, 200},
    {&tcp, 200, "--timer wheel --timeout 800 --slots 1",
     "--timeout 800 --duration 2 --chatty 100", 0, 0},
    {&tcp, 200, "--timer uv --timeout 1500",
     "--timeout 1500 --tick 1 --duration 2", 100, 100},
    {&tcp, 200, "--timer sweep --timeout 1500",
     "--timeout 1500 --tick 1000 --duration 2", 100, 100},
    {&tcp, 200, "--timer none", "--timeout 0 --duration 1", 0, 0},
    {&tcp, 200, "--timeout 800 --tick 5000",
     "--timeout 800 --tick 9999 --chatty 0 --together --duration 1", 200, 200},
    {&loops, 200, "--threads 3 --timeout 1000", "--timeout 1000 --duration 3",
     100, 100},
    {&udp, 2000, "--timer wheel --timeout 1500", "--timeout 1500 --duration 2",
     1000, 1600},
    {&udp, 2000, "--timer wheel --timeout 1500 --slots 1",
     "--timeout 1500 --duration 2 --chatty 100 --interval 200", 0, 0},
    {&udp, 2000, "--timer uv --timeout 1500",
     "--timeout 1500 --tick 1 --duration 2 --chatty 60", 800, 800},
};

/* Of a TCP server idle-load has two connections more, its probes. If the
 * machine is frozen there may be more: a probe that was closed connects again,
 * and a UDP peer that was silent for the timeout begins a new session. */
START_TEST(a_good_server_has_kept_every_promise)
{
  if (!choose(good[_i].pair))
    return;
  meet(good[_i].server, good[_i].count, good[_i].load);
  assert_good();
  int is_judged = is_lateness_judged();
  int is_starved = number_of(result.out, "starved") != 0;
  if (is_judged)
    ck_assert_uint_eq(number_of(result.out, "on_time"), good[_i].on_time);
  ck_assert_uint_ge(number_of(result.out, "echoes"), 200);
  stop_well(&server, SIGTERM, &result);
  uint64_t made = (uint64_t)good[_i].count + (pair == &udp ? 0 : 2);
  ck_assert_uint_ge(number_of(result.out, pair->made), made);
  if (!is_judged || is_starved)
    return;
  ck_assert_uint_eq(number_of(result.out, pair->made), made);
  ck_assert_uint_eq(number_of(result.out, pair->closed), good[_i].closed);
}
END_TEST

#define CLOSED "a connection in use was closed"
#define EARLY "a connection was closed before its timeout"
#define LATE "an idle connection was closed too late"
#define MISSING "an idle connection was never closed"
#define LOST "an echo did not come back"
#define GARBLED "an echo differs from what was sent"
static const struct {
  const pair_t *pair;
  const char *promise;
  const char *server;
  const char *load;
} mismatch[] = {
    {&tcp, LATE, "--timeout 4000", "--timeout 500 --chatty 0 --tick 1"},
    {&udp, LATE, "--timeout 4000", "--timeout 500 --chatty 0 --tick 1"},
    {&udp, EARLY, "--timeout 300", "--timeout 1000 --chatty 0"},
    {&tcp, EARLY, "--timeout 200", "--timeout 60000 --chatty 0"},
    {&tcp, CLOSED, "--timeout 200",
     "--timeout 60000 --chatty 100 --interval 15000 --duration 3"},
    {&tcp, CLOSED, "--timeout 200", "--timeout 0 --duration 3"},
    {&tcp, MISSING, "--timer none", "--timeout 500 --chatty 0 --patience 500"},
    {&udp, CLOSED, "--timeout 100 --tick 10",
     "--timeout 4000 --chatty 100 --interval 500 --duration 2"},
    {&udp, MISSING, "--timeout 600000",
     "--timeout 500 --chatty 0 --patience 500"},
    {&udp, LOST, "--sessions 10", "--timeout 0 --chatty 0 --patience 500"},
};
#define SEEN_IN_TIME 3 /* first rows: or not, if the machine lags */

START_TEST(a_server_unlike_the_one_expected_breaks_a_promise)
{
  if (!choose(mismatch[_i].pair))
    return;
  meet(mismatch[_i].server, 20, text_of("--duration 1 %s", mismatch[_i].load));
  if (_i >= SEEN_IN_TIME || is_lateness_judged())
    assert_broken(mismatch[_i].promise);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* ---- Servers in trouble ------------------------------------------------- */

#define STALLED "--timeout 1000 --duration 1 "
static const struct {
  const pair_t *pair;
  int count;
  const char *server;
  const char *load;
} stalls[] = {
    {&tcp, 100, "", STALLED},
    {&tcp, 100, "--block 2", STALLED "--by-usr1"},
    {&udp, 600, "", STALLED "--chatty 75 --interval 200"},
};

static const char *const kinds[] = {"wheel", "chance", "uv"};

/* With libuv's timers as well, else the test could not fail. On a busy machine
 * a second chance loses some peers, too. */
START_TEST(a_stall_closes_no_peer_of_a_wheel_but_those_of_libuv_timers)
{
  int row = _i / 3;
  const char *kind = kinds[_i % 3];

  if (!choose(stalls[row].pair))
    return;
  start_server(
      text_of("--timeout 1000 --timer %s %s", kind, stalls[row].server));
  start_load(stalls[row].count,
             text_of("--pid %d --stall 2 %s", server.pid, stalls[row].load));
  finish(&load, &result);
  ck_assert(!is_lateness_judged());
  if (strcmp(kind, "wheel") == 0)
    assert_good();
  else if (strcmp(kind, "uv") == 0 && number_of(result.out, "delay_ms") <= 100)
    assert_broken("a peer that spoke got no answer, and was closed");
  stop_well(&server, SIGTERM, &result);
  ck_assert_uint_gt(number_of(result.out, pair->closed), 0);
  if (pair == &tcp && strcmp(kind, "wheel") == 0)
    ck_assert_uint_gt(number_of(result.out, "put_back"), 0);
}
END_TEST

START_TEST(a_load_that_is_interrupted_thaws_the_server)
{
  int status;

  start_server("--timeout 1000");
  start_load(100, text_of(STALLED "--stall 60 --pid %d", server.pid));
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
  meet("--timeout 1000", 100, STALLED "--stall 1 --pid 2147483647");
  assert_no_verdict("cannot signal the server");
  stop_well(&server, SIGTERM, &result);
}
END_TEST

/* ---- The test as a bad TCP server --------------------------------------- */

static const struct {
  const char *promise;
  int wrong_bytes;
  int more_bytes;
  int is_closed;
} bad[] = {
    {GARBLED, .wrong_bytes = 1},
    {GARBLED, .more_bytes = 1},
    {CLOSED, .is_closed = 1},
    {LOST, .is_closed = 1},
};

START_TEST(a_bad_echo_is_found)
{
  char message[MESSAGE_MAX + 1];
  ssize_t length;
  int listener = listen_on(&port);
  start_load(1, "--chatty 100 --duration 1");
  int probe = accept_from(listener), connection = accept_from(listener);

  length = receive(connection, message, MESSAGE_MAX);
  ck_assert_int_gt(length, 0);
  message[length - 1] = (char)(message[length - 1] ^ bad[_i].wrong_bytes);
  if (bad[_i].is_closed)
    close(connection);
  else
    send_all(connection, message, (size_t)(length + bad[_i].more_bytes));
  /* The probe is served well until the load is done. */
  while ((length = receive(probe, message, sizeof(message))) > 0)
    send_all(probe, message, (size_t)length);
  finish(&load, &result);
  assert_broken(bad[_i].promise);
}
END_TEST

/* It even closes the probe, time and again. */
START_TEST(a_server_that_closes_all_at_once_is_found)
{
  int listener = listen_on(&port);
  start_load(1, "--chatty 100 --duration 1");
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
  WRONG_TEXT, /* all of them of the second answer */
  WRONG_PEER,
  WRONG_COUNT,
  SENT_TWICE,
  LIES
} lie_t;

#define CHATTY "--chatty 100 --timeout 0 --duration 1"

/* Who sent the next datagram. The test may be stopped meanwhile. */
static struct sockaddr_in
peer_of_next(int socket)
{
  struct sockaddr_in peer;
  socklen_t size = sizeof(peer);
  char byte;

  while (recvfrom(socket, &byte, 1, MSG_PEEK, (struct sockaddr *)&peer,
                  &size) != 1)
    ck_assert_int_eq(errno, EINTR);
  return peer;
}

/* Answers the next datagram, the number of which it is given. */
static void
answer_one(int socket, lie_t lie, unsigned number)
{
  char text[MESSAGE_MAX], answer[2 * MESSAGE_MAX];
  unsigned count = number + (lie == WRONG_COUNT && number == 2);
  struct sockaddr_in peer = peer_of_next(socket);
  ssize_t length = receive(socket, text, sizeof(text));

  ck_assert_int_gt(length, 0);
  if (number == 2 && (lie == WRONG_TEXT || lie == WRONG_PEER))
    text[lie == WRONG_PEER ? 1 : length - 1] ^= 1;
  int head = snprintf(answer, sizeof(answer), "%u ", count);
  memcpy(answer + head, text, (size_t)length);
  for (int i = 0; i <= (lie == SENT_TWICE && number == 2); i++)
    sendto(socket, answer, (size_t)(head + length), 0, (struct sockaddr *)&peer,
           sizeof(peer));
}

/* Until the load prints its verdict. */
static void
lie_to(int socket, lie_t lie)
{
  struct pollfd both[] = {{.fd = socket, .events = POLLIN},
                          {.fd = load.out, .events = POLLIN}};

  for (unsigned number = 1; both[1].revents == 0; number++) {
    ck_assert_int_gt(poll(both, 2, -1), 0);
    if (both[0].revents != 0)
      answer_one(socket, lie, number);
  }
  finish(&load, &result);
}

START_TEST(a_liar_is_found)
{
  int socket = hear_on(&port);

  if (!choose(&udp))
    return;
  start_load(1, CHATTY);
  lie_to(socket, (lie_t)_i);
  assert_broken(GARBLED);
}
END_TEST

/* Who is not the server cannot answer for it. */
START_TEST(a_stranger_is_ignored)
{
  uint16_t strange_port;
  int hearer = hear_on(&port), stranger = hear_on(&strange_port);

  if (!choose(&udp))
    return;
  start_load(1, CHATTY);
  struct sockaddr_in peer = peer_of_next(hearer);
  ck_assert_int_eq(
      sendto(stranger, "9 lies", 6, 0, (struct sockaddr *)&peer, sizeof(peer)),
      6);
  lie_to(hearer, NOTHING);
  assert_good();
}
END_TEST

/* ---- No verdict --------------------------------------------------------- */

START_TEST(no_server_is_no_verdict)
{
  port = closed_port(SOCK_STREAM);
  start_load(10, "");
  finish(&load, &result);
  assert_complaint(&result, 1, "connection refused");
  if (!choose(&udp))
    return;
  port = closed_port(SOCK_DGRAM);
  start_load(10, "");
  finish(&load, &result);
  assert_no_verdict("nobody listens there");
}
END_TEST

/* Because the load was interrupted, or the server is gone. */
static const struct {
  const pair_t *pair;
  int interrupts_load;
  int signal;
  const char *load;
  const char *reason;
} ends[] = {
    {&tcp, 0, SIGTERM, "", "the server is gone"},
    {&tcp, 0, SIGKILL, "--timeout 0", "the server is gone"},
    {&loops, 0, SIGINT, "--interval 1", "the server is gone"},
    {&udp, 0, SIGTERM, "", "nobody listens there"},
    {&udp, 0, SIGKILL, "", "nobody listens there"},
    {&tcp, 1, SIGINT, "", "interrupted"},
    {&tcp, 1, SIGTERM, "", "interrupted"},
    {&udp, 1, SIGINT, "", "interrupted"},
    {&udp, 1, SIGTERM, "", "interrupted"},
};

START_TEST(an_end_half_way_gives_no_verdict)
{
  if (!choose(ends[_i].pair))
    return;
  start_server("");
  start_load(200, ends[_i].load);
  await_line(load.err, RUNNING);
  if (ends[_i].interrupts_load) {
    stop(&load, ends[_i].signal, &result);
    assert_no_verdict(ends[_i].reason);
    stop_well(&server, SIGTERM, &result);
  } else {
    stop(&server, ends[_i].signal, &result);
    ck_assert_str_eq(result.err, "");
    finish(&load, &result);
    assert_no_verdict(ends[_i].reason);
  }
}
END_TEST

/* The load is not told of it, or could not speak, so that the server closed all
 * connections, rightly. */
START_TEST(a_server_or_a_load_that_was_stopped_is_no_fault)
{
  if (!choose(_i % 2 == 0 ? &tcp : &udp))
    return;
  start_server("--timeout 600");
  start_load(200, "--timeout 600 --duration 2");
  pid_t stopped = _i < 2 ? server.pid : load.pid;
  await_line(load.err, RUNNING);
  ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
  poll(NULL, 0, 1000);
  ck_assert_int_eq(kill(stopped, SIGCONT), 0);
  finish(&load, &result);
  assert_good();
  ck_assert(!is_lateness_judged());
  stop_well(&server, SIGTERM, &result);
}
END_TEST

int
main(void)
{
  const loop_test_t verdicts[] = {
      EACH(a_good_server_has_kept_every_promise, good),
      TEST(no_server_is_no_verdict),
      EACH(an_end_half_way_gives_no_verdict, ends),
  };
  const loop_test_t promises[] = {
      EACH(a_server_unlike_the_one_expected_breaks_a_promise, mismatch),
      EACH(a_bad_echo_is_found, bad),
      TEST(a_server_that_closes_all_at_once_is_found),
      {a_liar_is_found, WRONG_TEXT, LIES},
      TEST(a_stranger_is_ignored),
  };
  const loop_test_t trouble[] = {
      {a_stall_closes_no_peer_of_a_wheel_but_those_of_libuv_timers, 0, 9},
      TEST(a_load_that_is_interrupted_thaws_the_server),
      TEST(a_server_that_cannot_be_signalled_is_not_judged),
      {a_server_or_a_load_that_was_stopped_is_no_fault, 0, 4},
  };

  return run_tests("load verdicts", NULL, NULL, verdicts, LENGTH(verdicts)) |
         run_tests("load promises", NULL, NULL, promises, LENGTH(promises)) |
         run_tests("load trouble", NULL, NULL, trouble, LENGTH(trouble));
}
