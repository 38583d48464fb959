/* SPDX-License-Identifier: MIT */

/* The live page in virtual time: what browsers, and peers that are none, get to
 * see, and what its patience ends. The peers are sockets of the test. The loop
 * never sleeps here, and the clock only moves where the test says so.
 * test_servers.py and browser/live.py have pages of real servers. */

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "live/live.h"
#include "suite.h"
#include "virtual_time.h"

#define TICK_MS 100 /* the default */
#define HOST "Host: localhost\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

const char *const program = "live";

static uv_loop_t loop;
static page_t page;
static uvwheel_t *const wheel = &page.wheel;
static uint16_t port;

/* ---- Help --------------------------------------------------------------- */

static void iterate(void) {
  uv_run(&loop, UV_RUN_NOWAIT);
}

/* What peers have sent may take a moment of real time to arrive. */
#define iterate_until(condition) \
  do                             \
    iterate();                   \
  while (!(condition))

/* In ticks, so that no timer is late. A loop that has something to do at once
 * must not sleep. What is due fires in the second iteration: since 1.45 libuv
 * runs its timers after the poll. */
static void pass(uint64_t ms) {
  for (; ms > 0; ms -= TICK_MS) {
    iterate();
    virtual_time_advance_ms(TICK_MS);
    iterate();
    iterate();
  }
}

static uvwheel_stats_t stats(void) {
  uvwheel_stats_t found;

  uvwheel_get_stats(wheel, &found);
  return found;
}

/* Each has a timer on the wheel. */
static uint64_t connections(void) {
  return stats().active;
}

static void send_all(int peer, const char *text, size_t length) {
  ck_assert_int_eq(send(peer, text, length, MSG_NOSIGNAL), (ssize_t)length);
}

static int connect_to_page(void) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int peer = socket(AF_INET, SOCK_STREAM, 0);

  ck_assert_int_eq(connect(peer, (struct sockaddr *)&address, sizeof(address)),
                   0);
  return peer;
}

static int ask_page(const char *request) {
  int peer = connect_to_page();

  send_all(peer, request, strlen(request));
  return peer;
}

static char taken[1 << 20]; /* last, of any peer */

/* Takes what has come, behind what has come before. Says whether the other side
 * has closed. */
static bool take(int peer, size_t *length) {
  ssize_t more;

  while ((more = recv(peer, taken + *length, sizeof(taken) - 1 - *length,
                      MSG_DONTWAIT)) > 0)
    *length += (size_t)more;
  taken[*length] = '\0';
  ck_assert(more == 0 || errno == EAGAIN);
  return more == 0;
}

/* Reads to the end, and returns how many bytes came. */
static size_t take_all(int peer) {
  size_t length = 0;

  iterate_until(take(peer, &length));
  return length;
}

/* Reads the answer to its end, and returns its status. */
static unsigned long read_answer(int peer) {
  static const char version[] = "HTTP/1.1 ";

  take_all(peer);
  close(peer);
  ck_assert_msg(strncmp(taken, version, strlen(version)) == 0, "%s", taken);
  return strtoul(taken + strlen(version), NULL, 10);
}

/* The body of that answer, which must be as long as it says. */
static const char *body_of_answer(void) {
  const char *body = strstr(taken, "\r\n\r\n");
  const char *length = strstr(taken, "Content-Length: ");

  ck_assert_ptr_nonnull(body);
  ck_assert_ptr_nonnull(length);
  ck_assert_uint_eq(strtoul(length + 16, NULL, 10), strlen(body + 4));
  return body + 4;
}

/* Of all descriptors one listens. */
static uint16_t find_port(void) {
  struct sockaddr_in address;
  socklen_t size = sizeof(address);
  int listens = 0;

  for (int listener = 0; listens == 0; listener++) {
    socklen_t int_size = sizeof(listens);
    ck_assert_int_lt(listener, 1000);
    getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_size);
    getsockname(listener, (struct sockaddr *)&address, &size);
  }
  return ntohs(address.sin_port);
}

static void start(void) {
  static const uint64_t refreshes;
  static const live_wheel_t shown = {
      .name = "one", .wheel = &page.wheel, .refreshes = &refreshes};
  static const server_options_t options = {.http_host = DEFAULT_HOST};

  virtual_time_set_ns(UINT64_C(1000000000));
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  page = (page_t){.live = NULL};
  ck_assert_int_eq(page_start(&page, &loop, &options, &shown, 1), 0);
  port = find_port();
}

static void stop_all(void) {
  page_stop(&page);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
  page_free(&page);
}

/* ---- Requests ----------------------------------------------------------- */

START_TEST(the_page_is_served_and_may_load_nothing_else) {
  ck_assert_uint_eq(read_answer(ask_page(GET("/"))), 200);
  ck_assert_ptr_nonnull(strstr(taken, "Content-Type: text/html"));
  ck_assert_ptr_nonnull(strstr(taken, "Cache-Control: no-store"));
  ck_assert_ptr_nonnull(strstr(taken,
                               "Content-Security-Policy: default-src 'none'; "
                               "script-src 'sha256-"));
  const char *body = body_of_answer();
  ck_assert_int_eq(strncmp(body, "<!doctype html>", 15), 0);
  ck_assert_str_eq(body + strlen(body) - 8, "</html>\n");
}
END_TEST

#define SIXTEEN(text)                                                        \
  text text text text text text text text text text text text text text text \
      text
#define LETTERS_256 SIXTEEN("abcdefghijklmnop")

static const struct {
  const char *request;
  unsigned long status;
} requests[] = {
    {GET("/nothing"), 404},
    {GET("/frame/"), 404},
    {GET("/frame?wheel=1"), 404},
    {GET("/frame?wheel=-1"), 404},
    {GET("/<script>"), 404},
    {GET("//"), 404},
    {GET("/" LETTERS_256), 404},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx", 405},
    {"DELETE /frame HTTP/1.1\r\n" HOST "\r\n", 405},
    {"CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n", 405},
    {"GET / HTTP/1.0\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: " LETTERS_256 "\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: localhost.example.org\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: LOCALHOST:1234\r\n\r\n", 200},
    {"GET / HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n", 200},
    {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200},
    {GET("/?x=y"), 200},
    {GET("/frame?wheel=0"), 200},
    {GET("/metrics"), 200}, /* browser/served.py reads them */
    {"HEAD / HTTP/1.1\r\n" HOST "\r\n", 200},
    {"HEAD /frame HTTP/1.1\r\n" HOST "\r\n", 200},
};

START_TEST(requests_get_their_answer_and_an_error_has_nothing_of_theirs) {
  unsigned long status = read_answer(ask_page(requests[_i].request));

  ck_assert_uint_eq(status, requests[_i].status);
  if (strncmp(requests[_i].request, "HEAD", 4) == 0)
    ck_assert_str_eq(strstr(taken, "\r\n\r\n"), "\r\n\r\n");
  if (status == 200)
    return;
  ck_assert_ptr_nonnull(strstr(taken, "Content-Type: text/plain"));
  ck_assert_ptr_null(strpbrk(body_of_answer(), "<>\r\n"));
  ck_assert_int_eq(strstr(taken, "\r\nAllow: GET, HEAD\r\n") != NULL,
                   status == 405);
}
END_TEST

/* ---- Patience ----------------------------------------------------------- */

static const char *const too_little[] = {
    "", /* browsers open such ones in advance */
    "GET / HT",
};

START_TEST(patience_ends_at_its_tick) {
  int peer = ask_page(too_little[_i]);

  iterate_until(connections() == 1);
  pass(LIVE_PATIENCE_MS);
  ck_assert_uint_eq(stats().fired, 0);
  pass(TICK_MS);
  ck_assert_uint_eq(stats().fired, 1);
  ck_assert_uint_eq(take_all(peer), 0);
}
END_TEST

START_TEST(a_request_that_comes_byte_by_byte_has_no_more_time) {
  int peer = connect_to_page();

  iterate_until(connections() == 1);
  for (int i = 0; i < 5; i++) {
    send_all(peer, &GET("/")[i], 1);
    pass(LIVE_PATIENCE_MS / 5);
  }
  pass(TICK_MS);
  ck_assert_uint_eq(take_all(peer), 0);
}
END_TEST

START_TEST(newcomers_wait_while_all_connections_are_taken) {
  size_t length = 0;
  int peers[LIVE_MAX_CONNECTIONS];

  for (uint64_t i = 0; i < LIVE_MAX_CONNECTIONS; i++) {
    peers[i] = connect_to_page();
    iterate_until(connections() > i);
  }
  int waiting[] = {ask_page(GET("/")), ask_page(GET("/"))};
  for (int i = 0; i < 100; i++)
    iterate();
  ck_assert(!take(waiting[0], &length));
  ck_assert_uint_eq(length, 0);
  close(peers[0]);
  for (int i = 0; i < 2; i++)
    ck_assert_uint_gt(take_all(waiting[i]), 0);
  iterate_until(connections() == LIVE_MAX_CONNECTIONS - 1);
  ck_assert_uint_eq(stats().fired, 0);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      TEST(the_page_is_served_and_may_load_nothing_else),
      EACH(requests_get_their_answer_and_an_error_has_nothing_of_theirs,
           requests),
      {patience_ends_at_its_tick, 0, 2},
      TEST(a_request_that_comes_byte_by_byte_has_no_more_time),
      TEST(newcomers_wait_while_all_connections_are_taken),
  };

  return run_tests("live", start, stop_all, tests, LENGTH(tests));
}
