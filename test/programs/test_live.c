/* SPDX-License-Identifier: MIT */

/* idle-server --http: what browsers, and peers that are none, get to see. */

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include "live_client.h"
#include "suite.h"

#define NO_IDLE_TIME "--timeout 600000 "

/* The limit of examples/live/live.h. */
#define MAX_VIEWERS 128

/* ---- Requests ----------------------------------------------------------- */

START_TEST(the_page_is_served_and_may_load_nothing_else)
{
  start_live("");

  ck_assert_uint_eq(read_answer(ask(GET("/"))), 200);
  ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/html"));
  ck_assert_ptr_nonnull(strstr(answer, "Cache-Control: no-store"));
  ck_assert_ptr_nonnull(strstr(answer,
                               "Content-Security-Policy: default-src 'none'; "
                               "script-src 'sha256-"));
  const char *body = body_of_answer();
  ck_assert_int_eq(strncmp(body, "<!doctype html>", 15), 0);
  ck_assert_str_eq(body + strlen(body) - 8, "</html>\n");
}
END_TEST

START_TEST(head_gets_the_head_alone)
{
  static const char *const heads[] = {
      "HEAD / HTTP/1.1\r\n" HOST "\r\n",
      "HEAD /events HTTP/1.1\r\n" HOST "\r\n",
  };

  start_live("");

  for (int i = 0; i < 2; i++) {
    ck_assert_uint_eq(read_answer(ask(heads[i])), 200);
    ck_assert_str_eq(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
  }
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
    {GET("/events/"), 404},
    {GET("/events?wheel=1"), 404},
    {GET("/events?wheel=-1"), 404},
    {GET("/<script>"), 404},
    {GET("//"), 404},
    {GET("/" LETTERS_256), 404},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx", 405},
    {"DELETE /events HTTP/1.1\r\n" HOST "\r\n", 405},
    {"CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n", 405},
    {"GET / HTTP/1.0\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: " LETTERS_256 "\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: localhost.example.org\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: LOCALHOST:1234\r\n\r\n", 200},
    {"GET / HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n", 200},
    {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200},
    {GET("/?x=y"), 200},
};
#define REQUESTS ((int)(sizeof(requests) / sizeof(requests[0])))

START_TEST(bad_requests_get_an_error_and_nothing_of_theirs_back)
{
  start_live("");

  for (int i = 0; i < REQUESTS; i++) {
    unsigned long status = read_answer(ask(requests[i].request));
    ck_assert_msg(status == requests[i].status, "%d: %lu", i, status);
    if (status == 200)
      continue;
    ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/plain"));
    ck_assert_ptr_null(strpbrk(body_of_answer(), "<>\r\n"));
    ck_assert_int_eq(strstr(answer, "\r\nAllow: GET, HEAD\r\n") != NULL,
                     status == 405);
  }
}
END_TEST

START_TEST(a_header_without_end_is_refused)
{
  static const char field[] = "X: " LETTERS_256 "\r\n";

  start_live("");
  int connection = ask("GET / HTTP/1.1\r\n" HOST);
  size_t sent = 0;
  ssize_t more;

  while ((more = send(connection, field, strlen(field), MSG_NOSIGNAL)) > 0) {
    sent += (size_t)more;
    ck_assert_uint_lt(sent, 64u << 20);
  }
  ck_assert(errno == EPIPE || errno == ECONNRESET);
  end_live();
  ck_assert_uint_eq(number_of(result.out, "fired"), 0); /* not by patience */
}
END_TEST

START_TEST(a_request_may_come_byte_by_byte_and_end_with_a_shutdown)
{
  static const char request[] = GET("/");

  start_live("");
  int connection = connect_to(http_port);

  for (size_t i = 0; i < strlen(request); i++)
    send_all(connection, request + i, 1);
  shutdown(connection, SHUT_WR);
  ck_assert_uint_eq(read_answer(connection), 200);
  body_of_answer();
}
END_TEST

/* ---- Metrics; more of them in test_live_report.c, browser/served.py ------ */

START_TEST(metrics_are_those_of_this_moment)
{
  start_live(NO_IDLE_TIME);
  assert_echo(connect_to(port));
  ck_assert_uint_eq(read_answer(ask(GET("/metrics"))), 200);
  ck_assert_ptr_nonnull(strstr(answer,
                               "\r\nContent-Type: text/plain; version=0.0.4; "
                               "charset=utf-8\r\n"));
  ck_assert_ptr_nonnull(
      strstr(body_of_answer(), "\nuvwheel_active{wheel=\"idle\"} 1\n"));
}
END_TEST

/* ---- Frames ------------------------------------------------------------- */

START_TEST(frames_show_what_the_wheel_holds)
{
  start_live(NO_IDLE_TIME "--tick 10 --slots 200");
  int viewer = view();

  read_frame(viewer);
  uint64_t first_ms = figure("now_ms");
  ck_assert_uint_eq(figure("tick_ms"), 10);
  ck_assert_uint_eq(figure("slots"), 256);
  ck_assert_uint_eq(figure("timeout_ms"), 600000);
  ck_assert_uint_eq(figure("viewers"), 1);
  ck_assert_uint_eq(figure("active"), 0);
  for (int i = 0; i < 3; i++)
    assert_echo(connect_to(port));
  await_figure(viewer, "refreshed", 6);
  ck_assert_uint_eq(figure("active"), 3);
  ck_assert_uint_eq(await_cells(viewer, 3), 256);
  ck_assert_uint_gt(figure("now_ms"), first_ms);
}
END_TEST

START_TEST(one_viewer_too_many_is_refused)
{
  int viewers[MAX_VIEWERS];

  start_live(NO_IDLE_TIME);

  for (int i = 0; i < MAX_VIEWERS; i++)
    viewers[i] = view();
  ck_assert_uint_eq(read_answer(ask(GET("/events"))), 503);
  ck_assert_ptr_nonnull(strstr(answer, "\r\nRetry-After: "));
  ck_assert_uint_eq(read_answer(ask(GET("/"))), 200);
  close(viewers[0]);
  /* The others may have been sent this number while viewers were still coming.
   * The last one has not. */
  await_figure(viewers[MAX_VIEWERS - 1], "viewers", MAX_VIEWERS - 1);
  view();
}
END_TEST

START_TEST(a_viewer_that_talks_is_not_listened_to)
{
  start_live(NO_IDLE_TIME);
  int viewer = view();

  send_until_stuck(viewer);
  for (int i = 0; i < 3; i++)
    read_frame(viewer);
}
END_TEST

START_TEST(the_last_descriptors_are_kept)
{
  unsigned long status;

  descriptor_limit = 64;

  start_live(NO_IDLE_TIME);
  while ((status = read_answer(ask(GET("/")))) == 200)
    view();
  ck_assert_uint_eq(status, 503);
  ck_assert_ptr_nonnull(strstr(answer, "\r\nRetry-After: "));
}
END_TEST

static const char *const when_full[] = {"", "--shed"};

START_TEST(viewers_take_no_places_of_peers)
{
  enum { PLACES = 3 };
  char options[96];
  int viewers[PLACES], peers[PLACES];

  snprintf(options, sizeof(options), NO_IDLE_TIME "--max-connections %d %s",
           PLACES, when_full[_i]);

  start_live(options);
  for (int i = 0; i < PLACES; i++)
    viewers[i] = view();
  for (int i = 0; i < PLACES; i++) {
    peers[i] = connect_to(port);
    assert_echo(peers[i]);
  }
  for (int i = 0; i < PLACES; i++) {
    await_figure(viewers[i], "active", PLACES);
    assert_echo(peers[i]);
  }
}
END_TEST

START_TEST(viewers_come_and_go)
{
  start_live(NO_IDLE_TIME);

  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < MAX_VIEWERS / 2; i++) {
      reset(view());
      reset(connect_to(http_port));
    }
    int viewer = view();
    await_figure(viewer, "viewers", 1);
    reset(viewer);
  }
}
END_TEST

/* ---- Its end ------------------------------------------------------------ */

START_TEST(sigterm_ends_it_whatever_its_connections_do)
{
  int viewers[10];

  start_live(NO_IDLE_TIME);

  for (int i = 0; i < 10; i++)
    viewers[i] = view();
  connect_to(http_port);
  ask("GET / HT");
  ask(GET("/"));
  ask(GET("/events"));
  assert_echo(connect_to(port));
  read_frame(viewers[9]);
  end_live();
  ck_assert_uint_eq(number_of(result.out, "active"), 0);
  for (int i = 0; i < 10; i++)
    read_to_end(viewers[i]);
}
END_TEST

/* ---- Start -------------------------------------------------------------- */

static const struct {
  const char *command_line;
  int status;
  const char *complaint;
} wrong[] = {
    {"--port 0 --http 65536", 2, "--http takes a number from 0 to 65535"},
    {"--port 0 --http 0 --http-host no.such.host.invalid", 2, "no such host"},
    {"--port 0 --http 0 --timer uv", 2,
     "--http shows the wheel, there is none with --timer uv"},
    {"--timer none --http 0", 2, "there is none with --timer none"},
};
#define WRONG ((int)(sizeof(wrong) / sizeof(wrong[0])))

START_TEST(impossible_options_are_one_line)
{
  run_program("IDLE_SERVER", wrong[_i].command_line, &result);
  assert_complaint(&result, wrong[_i].status, wrong[_i].complaint);
}
END_TEST

START_TEST(a_port_in_use_is_one_line_and_status_1)
{
  char options[64];

  start_live("");

  snprintf(options, sizeof(options), "--port 0 --http %u", http_port);
  run_program("IDLE_SERVER", options, &result);
  assert_complaint(&result, 1, "address already in use");
}
END_TEST

START_TEST(another_address_may_be_chosen)
{
  char line[256];

  server = start_server("--http 0 --http-host 127.0.0.2", &port);
  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, "live page: http://127.0.0.2:", 28) == 0, "%s",
                line);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      TEST(the_page_is_served_and_may_load_nothing_else),
      TEST(head_gets_the_head_alone),
      TEST(bad_requests_get_an_error_and_nothing_of_theirs_back),
      TEST(a_header_without_end_is_refused),
      TEST(a_request_may_come_byte_by_byte_and_end_with_a_shutdown),
      TEST(metrics_are_those_of_this_moment),
      TEST(frames_show_what_the_wheel_holds),
      TEST(one_viewer_too_many_is_refused),
      TEST(a_viewer_that_talks_is_not_listened_to),
      TEST(the_last_descriptors_are_kept),
      {viewers_take_no_places_of_peers, 0, 2},
      TEST(viewers_come_and_go),
      TEST(sigterm_ends_it_whatever_its_connections_do),
      {impossible_options_are_one_line, 0, WRONG},
      TEST(a_port_in_use_is_one_line_and_status_1),
      TEST(another_address_may_be_chosen),
  };

  return run_tests("live", NULL, end_live, tests, sizeof tests / sizeof *tests);
}
