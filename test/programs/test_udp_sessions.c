/* SPDX-License-Identifier: MIT */

/* udp-sessions: what a single peer sees of it, and how it ends. */

#include <check.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"
#include "suite.h"

#define PEERS 50
#define NO_IDLE_TIME "--timeout 600000 "

static const char *const kinds[] = {"wheel", "uv"};
#define KINDS 2

static program_t server;
static uint16_t port;
static result_t result;

/* A server with this kind of timer. */
static void
start_kind(int kind, const char *options)
{
  server = start_listening(
      "UDP_SESSIONS", text_of("--port 0 --timer %s %s", kinds[kind], options),
      &port);
}

/* It must end well, and have made that many sessions, each of which is alive or
 * has expired: which of the two depends on the machine if the timeout is short.
 */
static void
assert_sound(uint64_t created)
{
  stop_well(&server, SIGTERM, &result);
  ck_assert_uint_eq(number_of(result.out, "created"), created);
  ck_assert_uint_eq(created - number_of(result.out, "expired"),
                    number_of(result.out, "sessions"));
  ck_assert_uint_eq(number_of(result.out, "unsent"), 0);
}

/* Sends a datagram and returns the count in its answer, which must repeat it.
 */
static uint64_t
say(int peer, const void *bytes, size_t length)
{
  static char answer[65536];
  char *end;

  send_all(peer, bytes, length);
  ssize_t received = receive(peer, answer, sizeof(answer) - 1);
  ck_assert_int_gt(received, 0);
  answer[received] = '\0';
  uint64_t count = strtoull(answer, &end, 10);
  ck_assert_int_eq(*end, ' ');
  ck_assert_int_eq(received, end + 1 - answer + (ssize_t)length);
  ck_assert_mem_eq(end + 1, bytes, length);
  return count;
}

static uint64_t
ask(int peer)
{
  return say(peer, "?", 1);
}

/* ---- A session's life --------------------------------------------------- */

START_TEST(garbage_is_counted_and_comes_back_byte_for_byte)
{
  static unsigned char bytes[60000];
  static const size_t lengths[] = {1, 0, 1000, 60000, 17};
  start_kind(_i, NO_IDLE_TIME);
  int peer = speak_to(port);

  for (size_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (unsigned char)(i * i + i / 256);
  for (size_t i = 0; i < LENGTH(lengths); i++)
    ck_assert_uint_eq(say(peer, bytes, lengths[i]), i + 1);
  assert_sound(1);
  ck_assert_uint_eq(number_of(result.out, "refreshes"), 4);
}
END_TEST

START_TEST(each_address_and_port_is_a_session_of_its_own)
{
  struct sockaddr_in other = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
  socklen_t size = sizeof(other);
  start_kind(_i, NO_IDLE_TIME);
  int one = speak_to(port), two = speak_to(port);
  int three = socket(AF_INET, SOCK_DGRAM, 0);

  ck_assert_uint_eq(say(one, "one", 3), 1);
  ck_assert_uint_eq(say(two, "two", 3), 1);
  ck_assert_uint_eq(say(one, "one", 3), 2);
  /* The port of the second one, at another address. */
  struct sockaddr_in address;
  getsockname(two, (struct sockaddr *)&address, &size);
  other.sin_port = address.sin_port;
  ck_assert_int_eq(bind(three, (struct sockaddr *)&other, size), 0);
  getpeername(two, (struct sockaddr *)&address, &size);
  ck_assert_int_eq(connect(three, (struct sockaddr *)&address, size), 0);
  ck_assert_uint_eq(say(three, "three", 5), 1);
  assert_sound(3);
}
END_TEST

START_TEST(a_question_makes_no_session)
{
  start_kind(_i, NO_IDLE_TIME);
  int peer = speak_to(port);

  ck_assert_uint_eq(ask(peer), 0);
  ck_assert_uint_eq(say(peer, "?what", 5), 0);
  assert_sound(0);
  ck_assert_uint_eq(number_of(result.out, "questions"), 2);
}
END_TEST

/* ---- Limits ------------------------------------------------------------- */

START_TEST(over_the_limit_a_datagram_is_refused_and_counted)
{
  start_kind(_i, NO_IDLE_TIME "--sessions 2");
  int one = speak_to(port), two = speak_to(port), three = speak_to(port);

  say(one, "one", 3);
  say(two, "two", 3);
  send_all(three, "three", 5);
  ck_assert_uint_eq(ask(three), 0); /* no other answer came before */
  ck_assert_uint_eq(say(one, "one", 3), 2);
  ck_assert_uint_eq(say(two, "two", 3), 2);
  assert_sound(2);
  ck_assert_uint_eq(number_of(result.out, "refused"), 1);
}
END_TEST

/* Asking does not keep it alive. */
START_TEST(the_end_of_a_session_makes_room_for_another)
{
  start_kind(_i, "--timeout 300 --tick 10 --sessions 1");
  int one = speak_to(port), two = speak_to(port);

  say(one, "one", 3);
  while (ask(one) != 0)
    continue;
  ck_assert_uint_eq(say(two, "two", 3), 1);
  assert_sound(2);
  ck_assert_uint_eq(number_of(result.out, "refused"), 0);
}
END_TEST

START_TEST(many_sessions_need_few_descriptors)
{
  descriptor_limit = 16;
  start_kind(_i, NO_IDLE_TIME);
  for (int i = 0; i < PEERS; i++) {
    int peer = speak_to(port);
    ck_assert_uint_eq(say(peer, "hello", 5), 1);
  }
  assert_sound(PEERS);
  ck_assert_uint_eq(number_of(result.out, "peak"), PEERS);
}
END_TEST

/* ---- Where it listens, and how it ends ---------------------------------- */

START_TEST(it_serves_ipv6_as_well)
{
  char line[256];
  struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                 .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int peer = socket(AF_INET6, SOCK_DGRAM, 0);

  /* The machine may have no IPv6 at all. */
  if (bind(peer, (struct sockaddr *)&address, sizeof(address)) != 0)
    return;
  server = start_program("UDP_SESSIONS", "--port 0 --bind ::1");
  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, "listening on [::1]:", 19) == 0, "%s", line);
  address.sin6_port = htons((uint16_t)strtoul(line + 19, NULL, 10));
  ck_assert_int_eq(connect(peer, (struct sockaddr *)&address, sizeof(address)),
                   0);
  ck_assert_uint_eq(say(peer, "one", 3), 1);
  ck_assert_uint_eq(say(peer, "two", 3), 2);
  assert_sound(1);
}
END_TEST

START_TEST(a_signal_closes_everything)
{
  static const int signals[] = {SIGINT, SIGTERM};
  start_kind(_i / 2, NO_IDLE_TIME);

  for (int i = 0; i < PEERS; i++)
    say(speak_to(port), "hello", 5);
  stop_well(&server, signals[_i % 2], &result);
  ck_assert_uint_eq(number_of(result.out, "sessions"), PEERS);
}
END_TEST

START_TEST(figures_come_while_it_runs)
{
  static const char *const keys[] = {" longest_iteration_ms=", " cpu_s=",
                                     " rss_kib=", " timer_bytes=64 ", NULL};
  char line[512];
  start_kind(0, NO_IDLE_TIME "--stats 1 --slots 64");

  say(speak_to(port), "hello", 5);
  do {
    read_line(server.out, line, sizeof(line));
    ck_assert_msg(strncmp(line, "stats timer=wheel ", 18) == 0, "%s", line);
  } while (number_of(line, "sessions") == 0);
  assert_has(line, keys);
  assert_sound(1);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {garbage_is_counted_and_comes_back_byte_for_byte, 0, KINDS},
      {each_address_and_port_is_a_session_of_its_own, 0, KINDS},
      {a_question_makes_no_session, 0, KINDS},
      {over_the_limit_a_datagram_is_refused_and_counted, 0, KINDS},
      {the_end_of_a_session_makes_room_for_another, 0, KINDS},
      {many_sessions_need_few_descriptors, 0, KINDS},
      TEST(it_serves_ipv6_as_well),
      {a_signal_closes_everything, 0, 2 * KINDS},
      TEST(figures_come_while_it_runs),
  };

  return run_tests("udp-sessions", NULL, NULL, tests, LENGTH(tests));
}
