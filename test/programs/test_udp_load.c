/* SPDX-License-Identifier: MIT */

/* udp-load: its verdicts on good servers, and on servers that break one
 * promise each. The test itself is the worst of these servers. */

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define DATAGRAM_MAX 64

static result_t result;

static program_t
start_peers(uint16_t port, const char *options)
{
  char line[256];

  snprintf(line, sizeof(line), "--port %u %s", port, options);
  return start_program("UDP_LOAD", line);
}

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
  uint64_t seen; /* the sample of sessions that were seen to end */
  uint64_t expired;
} good[] = {
    {"--timer wheel --timeout 1500", "--timeout 1500 --duration 2", 1000, 1600},
    {"--timer wheel --timeout 800 --tick 10 --budget 500",
     "--timeout 800 --tick 10 --duration 1 --chatty 0", 1000, 2000},
    {"--timer wheel --timeout 800 --slots 1",
     "--timeout 800 --duration 2 --chatty 100 --interval 200", 0, 0},
    {"--timer uv --timeout 1500",
     "--timeout 1500 --tick 1 --duration 2 --chatty 60", 800, 800},
    {"--timer none", "--timeout 0 --duration 1", 0, 0},
};
#define GOOD ((int)(sizeof(good) / sizeof(good[0])))

START_TEST(a_good_server_has_kept_every_promise)
{
  char options[128];
  uint16_t port;
  program_t server = start_sessions(good[_i].server, &port);

  snprintf(options, sizeof(options), "--peers 2000 %s", good[_i].load);
  program_t load = start_peers(port, options);
  finish(&load, &result);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "on_time"), good[_i].seen);
  uint64_t echoes = number_of(result.out, "echoes");
  uint64_t repeated = number_of(result.out, "repeated");
  stop(&server, SIGTERM, &result);
  ck_assert_uint_eq(number_of(result.out, "created"), 2000);
  ck_assert_uint_eq(number_of(result.out, "peak"), 2000);
  ck_assert_uint_eq(number_of(result.out, "expired"), good[_i].expired);
  ck_assert_uint_eq(number_of(result.out, "expired_early"), 0);
  ck_assert_uint_eq(number_of(result.out, "sessions"), 2000 - good[_i].expired);
  ck_assert_uint_eq(number_of(result.out, "created") +
                        number_of(result.out, "refreshes") +
                        number_of(result.out, "questions"),
                    echoes + repeated);
}
END_TEST

/* ---- Real servers that are not what the load was told -------------------- */

static const struct {
  const char *server;
  const char *load;
  const char *promise;
} mismatch[] = {
    {"--timeout 300", "--timeout 1000 --chatty 0",
     "a connection was closed before its timeout"},
    {"--timeout 100 --tick 10",
     "--timeout 4000 --chatty 100 --interval 500 --duration 2",
     "a connection in use was closed"},
    {"--timeout 100 --tick 10",
     "--timeout 0 --chatty 100 --interval 500 --duration 2",
     "a connection in use was closed"},
    {"--timeout 4000", "--timeout 500 --chatty 0 --tick 1",
     "an idle connection was closed too late"},
    {"--timer none", "--timeout 500 --chatty 0 --patience 500",
     "an idle connection was never closed"},
    {"--sessions 10", "--timeout 0 --chatty 0 --patience 500",
     "an echo did not come back"},
};
#define MISMATCH ((int)(sizeof(mismatch) / sizeof(mismatch[0])))

START_TEST(a_server_unlike_the_one_expected_breaks_a_promise)
{
  char options[128];
  uint16_t port;
  program_t server = start_sessions(mismatch[_i].server, &port);

  snprintf(options, sizeof(options), "--peers 20 --duration 1 %s",
           mismatch[_i].load);
  program_t load = start_peers(port, options);
  finish(&load, &result);
  assert_broken(mismatch[_i].promise);
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* ---- The test as a bad server ------------------------------------------- */

/* Makes a wrong answer out of the right one. It says how many datagrams there
 * were so far, this one included, which has the length given and begins at
 * text. Returns how often to send it. */
typedef int (*lie_t)(char *text, size_t length, uint64_t *count);

static int
garble_it(char *text, size_t length, uint64_t *count)
{
  text[length - 1] = (char)(text[length - 1] ^ (*count == 2));
  return 1;
}

static int
give_it_to_another(char *text, size_t length, uint64_t *count)
{
  (void)length;
  text[1] = (char)(text[1] ^ (*count == 2));
  return 1;
}

static int
count_too_much(char *text, size_t length, uint64_t *count)
{
  (void)text;
  (void)length;
  *count += *count == 2;
  return 1;
}

static int
send_it_twice(char *text, size_t length, uint64_t *count)
{
  (void)text;
  (void)length;
  return *count == 2 ? 2 : 1;
}

static int
forget_the_session(char *text, size_t length, uint64_t *count)
{
  (void)text;
  (void)length;
  *count = 1;
  return 1;
}

static int
swallow_it(char *text, size_t length, uint64_t *count)
{
  (void)text;
  (void)length;
  (void)count;
  return 0;
}

static int
know_nothing(char *text, size_t length, uint64_t *count)
{
  (void)length;
  if (text[0] == '?')
    *count = 0;
  return 1;
}

static int
deny_nothing(char *text, size_t length, uint64_t *count)
{
  (void)text;
  (void)length;
  *count = 1;
  return 1;
}

#define CHATTY "--peers 1 --chatty 100 --timeout 0 --duration 1"
#define SILENT "--peers 1 --chatty 0 --timeout 500 --duration 0"
#define HASTY " --patience 500"
static const struct {
  lie_t lie;
  const char *load;
  const char *promise;
} lies[] = {
    {garble_it, CHATTY, "an echo differs from what was sent"},
    {give_it_to_another, CHATTY, "an echo differs from what was sent"},
    {count_too_much, CHATTY, "an echo differs from what was sent"},
    {send_it_twice, CHATTY, "an echo differs from what was sent"},
    {forget_the_session, CHATTY, "a connection in use was closed"},
    {swallow_it, CHATTY HASTY, "an echo did not come back"},
    {know_nothing, SILENT, "a connection was closed before its timeout"},
    {deny_nothing, SILENT HASTY, "an idle connection was never closed"},
};
#define LIES ((int)(sizeof(lies) / sizeof(lies[0])))

static void
answer_one(int socket, lie_t lie, uint64_t count)
{
  char datagram[DATAGRAM_MAX], answer[2 * DATAGRAM_MAX];
  struct sockaddr_in peer;
  socklen_t size = sizeof(peer);
  ssize_t length = recvfrom(socket, datagram, sizeof(datagram), 0,
                            (struct sockaddr *)&peer, &size);

  ck_assert_int_gt(length, 0);
  int times = lie(datagram, (size_t)length, &count);
  int head = snprintf(answer, sizeof(answer), "%u ", (unsigned)count);
  memcpy(answer + head, datagram, (size_t)length);
  while (times-- > 0)
    sendto(socket, answer, (size_t)(head + length), 0, (struct sockaddr *)&peer,
           size);
}

/* Until the load prints its verdict. */
static void
lie_to(const program_t *load, int socket, lie_t lie)
{
  struct pollfd both[] = {{.fd = socket, .events = POLLIN},
                          {.fd = load->out, .events = POLLIN}};

  for (uint64_t count = 1; both[1].revents == 0; count++) {
    ck_assert_int_gt(poll(both, 2, -1), 0);
    if (both[0].revents != 0)
      answer_one(socket, lie, count);
  }
  finish(load, &result);
}

START_TEST(a_liar_is_found)
{
  uint16_t port;
  int socket = hear_on(&port);
  program_t load = start_peers(port, lies[_i].load);

  lie_to(&load, socket, lies[_i].lie);
  assert_broken(lies[_i].promise);
}
END_TEST

/* The session of 500 ms ends a tick and 150 ms late. */
static int
forget_it_late(char *text, size_t length, uint64_t *count)
{
  static uint64_t spoken_ms;
  struct timespec now;

  (void)length;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t now_ms =
      (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  if (text[0] == '!')
    spoken_ms = now_ms;
  *count = now_ms - spoken_ms < 1650;
  return 1;
}

START_TEST(a_loop_that_is_never_quiet_may_take_a_quarter_of_a_tick_more)
{
  uint16_t port;
  int socket = hear_on(&port);
  program_t load = start_peers(port, SILENT " --tick 1000");

  lie_to(&load, socket, forget_it_late);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
  ck_assert_uint_eq(number_of(result.out, "on_time"), 1);
}
END_TEST

/* Who is not the server cannot answer for it. */
START_TEST(a_stranger_is_ignored)
{
  uint16_t port, strange_port;
  int server = hear_on(&port), stranger = hear_on(&strange_port);
  program_t load = start_peers(port, CHATTY);
  struct sockaddr_in peer;
  socklen_t size = sizeof(peer);
  char byte;

  ck_assert_int_eq(
      recvfrom(server, &byte, 1, MSG_PEEK, (struct sockaddr *)&peer, &size), 1);
  ck_assert_int_eq(
      sendto(stranger, "9 lies", 6, 0, (struct sockaddr *)&peer, size), 6);
  lie_to(&load, server, know_nothing);
  ck_assert_msg(result.status == 0, "%s%s", result.err, result.out);
}
END_TEST

/* More peers than can wait for their answers at once, each of which has to
 * speak again before the others' have come. */
START_TEST(a_slow_server_is_greeted_by_all)
{
  uint16_t port;
  int socket = hear_on(&port);
  program_t load =
      start_peers(port, "--peers 2000 --chatty 100 --timeout 100 --duration 0");
  struct pollfd both[] = {{.fd = socket, .events = POLLIN},
                          {.fd = load.out, .events = POLLIN}};

  for (unsigned answers = 0; both[1].revents == 0; answers++) {
    if (answers % 256 == 255)
      usleep(50000); /* so slow it is */
    ck_assert_int_gt(poll(both, 2, -1), 0);
    if (both[0].revents != 0)
      answer_one(socket, deny_nothing, 1);
  }
  finish(&load, &result);
  ck_assert_uint_eq(number_of(result.out, "peers"), 2000);
}
END_TEST

/* ---- No verdict --------------------------------------------------------- */

START_TEST(no_server_is_one_line)
{
  uint16_t port;

  close(hear_on(&port)); /* now nobody listens there */
  program_t load = start_peers(port, "");
  finish(&load, &result);
  assert_complaint(&result, 1, "nobody listens there: no verdict");
  ck_assert_str_eq(result.out, "");
}
END_TEST

START_TEST(a_server_gone_half_way_is_not_judged)
{
  static const int signals[] = {SIGTERM, SIGKILL};
  char line[512];
  uint16_t port;
  program_t server = start_sessions("--stats 1", &port);
  program_t load = start_peers(port, "--peers 1000");

  do
    read_line(server.out, line, sizeof(line));
  while (number_of(line, "sessions") < 1000);
  stop(&server, signals[_i], &result);
  finish(&load, &result);
  assert_no_verdict(&result, "nobody listens there");
}
END_TEST

START_TEST(too_few_descriptors_are_one_line)
{
  descriptor_limit = 15;
  run_program("UDP_LOAD", "", &result);
  assert_complaint(&result, 1, "15 descriptors (ulimit -n) are too few");
}
END_TEST

START_TEST(an_interrupted_load_gives_no_verdict)
{
  static const int signals[] = {SIGINT, SIGTERM};
  char line[256];
  uint16_t port;
  program_t server = start_sessions("", &port);
  program_t load = start_peers(port, "--peers 1000");

  read_line(load.err, line, sizeof(line));
  ck_assert_msg(strncmp(line, "running:", 8) == 0, "%s", line);
  stop(&load, signals[_i], &result);
  assert_no_verdict(&result, "interrupted");
  stop(&server, SIGTERM, &result);
  ck_assert_int_eq(result.status, 0);
}
END_TEST

/* The server ends all sessions meanwhile, rightly. */
START_TEST(a_load_that_was_stopped_accuses_no_server)
{
  char line[256];
  uint16_t port;
  program_t server = start_sessions("--timeout 600", &port);
  program_t load = start_peers(port, "--peers 1000 --timeout 600 --duration 2");

  read_line(load.err, line, sizeof(line));
  ck_assert_int_eq(kill(load.pid, SIGSTOP), 0);
  sleep(1); /* real time has to pass: the server's timeout */
  ck_assert_int_eq(kill(load.pid, SIGCONT), 0);
  finish(&load, &result);
  ck_assert_msg(strstr(result.err, "broken") == NULL, "%s", result.err);
  ck_assert_int_eq(result.status, 0);
  ck_assert_uint_gt(number_of(result.out, "neglected"), 0);
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
    {"--peers", "requires an argument"},
    {"--peers 0", "--peers takes a number from 1"},
    {"--peers 16000001", "--peers takes a number from 1 to 16000000"},
    {"--port 0", "--port takes a number from 1 to 65535"},
    {"--chatty 101", "--chatty takes a number from 0 to 100"},
    {"--timeout -5", "--timeout takes a number"},
    {"--timeout 99", "--timeout must be 0 or at least 100"},
    {"--tick 0", "--tick takes a number from 1"},
    {"--interval 1300", "--interval must be at most a quarter of --timeout"},
    {"--duration 1h", "--duration takes a number"},
    {"--patience 0", "--patience takes a number from 1"},
    {"--seed 18446744073709551616", "--seed takes a number"},
    {"--host no.such.host.invalid", "no such host"},
    {"--host 192.0.2.1", "--host takes an address in 127.0.0.0/8"},
    {"--host ::1", "--host takes an address in 127.0.0.0/8"},
    {"--stall 1", "--stall and --pid go together"},
    {"--pid 7", "--stall and --pid go together"},
    {"--stall 1 --pid 1", "--pid takes a number from 2"},
    {"--stall-by cont", "--stall-by takes stop, usr1 or usr2, not 'cont'"},
    {"--stall 1 --pid 7 --timeout 0", "--stall goes with a --timeout"},
    {"stray", "unexpected argument 'stray'"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(wrong_usage_is_one_line_and_status_2)
{
  assert_wrong_usage("UDP_LOAD", wrong[_i].command_line, wrong[_i].complaint);
}
END_TEST

START_TEST(help_names_every_option)
{
  static const char *const names[] = {
      "--host", "--port",     "--peers",    "--chatty",   "--timeout",
      "--tick", "--interval", "--duration", "--patience", "--seed",
      "--help", "--stall",    "--pid",      "--stall-by"};

  assert_help("UDP_LOAD", names, sizeof(names) / sizeof(names[0]));
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("udp-load");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_loop_test(tcase, a_good_server_has_kept_every_promise, 0, GOOD);
  tcase_add_loop_test(tcase, a_server_unlike_the_one_expected_breaks_a_promise,
                      0, MISMATCH);
  tcase_add_loop_test(tcase, a_liar_is_found, 0, LIES);
  tcase_add_test(tcase,
                 a_loop_that_is_never_quiet_may_take_a_quarter_of_a_tick_more);
  tcase_add_test(tcase, a_stranger_is_ignored);
  tcase_add_test(tcase, a_slow_server_is_greeted_by_all);
  tcase_add_test(tcase, no_server_is_one_line);
  tcase_add_loop_test(tcase, a_server_gone_half_way_is_not_judged, 0, 2);
  tcase_add_test(tcase, too_few_descriptors_are_one_line);
  tcase_add_loop_test(tcase, an_interrupted_load_gives_no_verdict, 0, 2);
  tcase_add_test(tcase, a_load_that_was_stopped_accuses_no_server);
  tcase_add_loop_test(tcase, wrong_usage_is_one_line_and_status_2, 0, WRONG);
  tcase_add_test(tcase, help_names_every_option);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
