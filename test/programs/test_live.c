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

#include "programs.h"
#include "suite.h"

#define NO_IDLE_TIME "--timeout 600000 "
#define HOST "Host: localhost\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

/* The limit of examples/live/live.h. */
#define MAX_VIEWERS 128

#define FRAME_SIZE 16384
#define ANSWER_SIZE 65536

static result_t result;
static char answer[ANSWER_SIZE];
static char frame[FRAME_SIZE];

/* ---- Help --------------------------------------------------------------- */

static program_t
start_live(const char *options, uint16_t *port, uint16_t *http_port)
{
  static const char page[] = "live page: http://127.0.0.1:";
  char line[256];

  snprintf(line, sizeof(line), "--http 0 %s", options);
  program_t server = start_server(line, port);
  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, page, strlen(page)) == 0, "%s", line);
  *http_port = (uint16_t)strtoul(line + strlen(page), NULL, 10);
  return server;
}

/* Whatever happened before: no error, no handle left open. */
static void
assert_good_end(const program_t *server)
{
  stop(server, SIGTERM, &result);
  ck_assert_str_eq(result.err, "");
  ck_assert_int_eq(result.status, 0);
}

static int
ask(uint16_t port, const char *request)
{
  int connection = connect_to(port);

  send_all(connection, request, strlen(request));
  return connection;
}

/* Reads the answer to its end, returns its status and leaves it in answer. */
static unsigned long
read_answer(int connection)
{
  static const char version[] = "HTTP/1.1 ";
  size_t length = 0;
  ssize_t more;

  while ((more = recv(connection, answer + length, ANSWER_SIZE - 1 - length,
                      0)) > 0)
    length += (size_t)more;
  ck_assert_int_eq(more, 0);
  answer[length] = '\0';
  close(connection);
  ck_assert_msg(strncmp(answer, version, strlen(version)) == 0, "%s", answer);
  return strtoul(answer + strlen(version), NULL, 10);
}

/* The body of what is in answer, which must be as long as it says. */
static const char *
body_of_answer(void)
{
  const char *body = strstr(answer, "\r\n\r\n");
  const char *length = strstr(answer, "Content-Length: ");

  ck_assert_ptr_nonnull(body);
  ck_assert_ptr_nonnull(length);
  ck_assert_uint_eq(strtoul(length + 16, NULL, 10), strlen(body + 4));
  return body + 4;
}

/* Begins to watch; returns the connection, on which frames come next, after the
 * table of figures. */
static int
view(uint16_t http_port)
{
  char line[1024];
  int viewer = ask(http_port, GET("/events"));

  read_line(viewer, line, sizeof(line));
  ck_assert_str_eq(line, "HTTP/1.1 200 OK\r");
  while (strcmp(line, "\r") != 0)
    read_line(viewer, line, sizeof(line));
  read_line(viewer, line, sizeof(line));
  ck_assert_str_eq(line, "event: figures");
  read_line(viewer, frame, sizeof(frame));
  ck_assert_msg(strncmp(frame, "data: [{\"name\":\"", 16) == 0, "%s", frame);
  read_line(viewer, line, sizeof(line));
  ck_assert_str_eq(line, "");
  return viewer;
}

static void
read_frame(int viewer)
{
  char blank[8];

  read_line(viewer, frame, sizeof(frame));
  ck_assert_msg(strncmp(frame, "data: {", 7) == 0, "%s", frame);
  read_line(viewer, blank, sizeof(blank));
  ck_assert_str_eq(blank, "");
}

/* What follows the key in the last frame. */
static const char *
value_of(const char *key)
{
  char pattern[64];

  snprintf(pattern, sizeof(pattern), "\"%s\":", key);
  const char *found = strstr(frame, pattern);
  ck_assert_msg(found != NULL, "no %s in %s", pattern, frame);
  return found + strlen(pattern);
}

/* Of the only wheel, where there is one number for each. */
static uint64_t
figure(const char *key)
{
  const char *value = value_of(key);

  return strtoull(value + (*value == '['), NULL, 10);
}

/* The sum of a list in the last frame, and how many numbers it has. */
static uint64_t
sum_of(const char *key, size_t *count)
{
  char *at = (char *)(uintptr_t)value_of(key);
  uint64_t sum = 0;

  *count = 0;
  ck_assert_int_eq(*at, '[');
  while (*at != ']') {
    sum += strtoull(at + 1, &at, 10);
    ck_assert(*at == ',' || *at == ']');
    ++*count;
  }
  return sum;
}

/* Reads frames until one has this number. */
static void
await_figure(int viewer, const char *key, uint64_t number)
{
  do
    read_frame(viewer);
  while (figure(key) != number);
}

/* The slots are counted in steps: reads frames until so many timers were found
 * in them. Returns how many cells show them. */
static size_t
await_cells(int viewer, uint64_t timers)
{
  size_t count;

  while (sum_of("cells", &count) != timers)
    read_frame(viewer);
  return count;
}

/* ---- Requests ----------------------------------------------------------- */

START_TEST(the_page_is_served_and_may_load_nothing_else)
{
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);

  ck_assert_uint_eq(read_answer(ask(http_port, GET("/"))), 200);
  ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/html"));
  ck_assert_ptr_nonnull(strstr(answer, "Cache-Control: no-store"));
  ck_assert_ptr_nonnull(strstr(answer,
                               "Content-Security-Policy: default-src 'none'; "
                               "script-src 'sha256-"));
  const char *body = body_of_answer();
  ck_assert_int_eq(strncmp(body, "<!doctype html>", 15), 0);
  ck_assert_str_eq(body + strlen(body) - 8, "</html>\n");
  assert_good_end(&server);
}
END_TEST

START_TEST(head_gets_the_head_alone)
{
  static const char *const requests[] = {
      "HEAD / HTTP/1.1\r\n" HOST "\r\n",
      "HEAD /events HTTP/1.1\r\n" HOST "\r\n",
  };
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);

  ck_assert_uint_eq(read_answer(ask(http_port, requests[_i])), 200);
  ck_assert_str_eq(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
  assert_good_end(&server);
}
END_TEST

#define SIXTEEN(text)                                                        \
  text text text text text text text text text text text text text text text \
      text
#define LETTERS_256 SIXTEEN("abcdefghijklmnop")

static const struct {
  const char *request;
  unsigned long status;
} bad[] = {
    {GET("/nothing"), 404},
    {GET("/events/"), 404},
    {GET("/events?wheel=1"), 404},
    {GET("/events?wheel=-1"), 404},
    {GET("/<script>"), 404},
    {GET("//"), 404},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx", 405},
    {"DELETE /events HTTP/1.1\r\n" HOST "\r\n", 405},
    {"CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n", 405},
    {GET("/" LETTERS_256), 404},
    {"GET / HTTP/1.0\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: " LETTERS_256 "\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 403},
    {"GET / HTTP/1.1\r\nHost: localhost.example.org\r\n\r\n", 403},
};
#define BAD ((int)(sizeof(bad) / sizeof(bad[0])))

START_TEST(bad_requests_get_an_error_and_nothing_of_theirs_back)
{
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);

  ck_assert_uint_eq(read_answer(ask(http_port, bad[_i].request)),
                    bad[_i].status);
  ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/plain"));
  ck_assert_ptr_null(strpbrk(body_of_answer(), "<>\r\n"));
  if (bad[_i].status == 405)
    ck_assert_ptr_nonnull(strstr(answer, "\r\nAllow: GET, HEAD\r\n"));
  ck_assert_uint_eq(read_answer(ask(http_port, GET("/"))), 200);
  assert_good_end(&server);
}
END_TEST

START_TEST(a_header_without_end_is_refused)
{
  static const char field[] = "X: " LETTERS_256 "\r\n";
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);
  int connection = ask(http_port, "GET / HTTP/1.1\r\n" HOST);
  size_t sent = 0;
  ssize_t more;

  while ((more = send(connection, field, strlen(field), MSG_NOSIGNAL)) > 0) {
    sent += (size_t)more;
    ck_assert_uint_lt(sent, 64u << 20);
  }
  ck_assert(errno == EPIPE || errno == ECONNRESET);
  assert_good_end(&server);
  ck_assert_uint_eq(number_of(result.out, "fired"), 0); /* not by patience */
}
END_TEST

START_TEST(names_of_this_machine_are_served)
{
  static const char *const requests[] = {
      "GET / HTTP/1.1\r\nHost: LOCALHOST:1234\r\n\r\n",
      "GET / HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
      "GET /?x=y HTTP/1.1\r\n" HOST "\r\n",
  };
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);

  ck_assert_uint_eq(read_answer(ask(http_port, requests[_i])), 200);
  assert_good_end(&server);
}
END_TEST

START_TEST(a_request_may_come_byte_by_byte)
{
  static const char request[] = GET("/");
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);
  int connection = connect_to(http_port);

  for (size_t i = 0; i < strlen(request); i++)
    send_all(connection, request + i, 1);
  ck_assert_uint_eq(read_answer(connection), 200);
  assert_good_end(&server);
}
END_TEST

START_TEST(who_stops_to_send_still_gets_the_answer)
{
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);
  int connection = ask(http_port, GET("/"));

  shutdown(connection, SHUT_WR);
  ck_assert_uint_eq(read_answer(connection), 200);
  body_of_answer();
  assert_good_end(&server);
}
END_TEST

/* ---- Metrics; more of them in test_live_report.c ------------------------- */

/* What a sample is in the last answer. */
static uint64_t
sample(const char *name)
{
  char pattern[96];

  snprintf(pattern, sizeof(pattern), "\n%s{wheel=\"idle\"} ", name);
  const char *found = strstr(answer, pattern);
  ck_assert_msg(found != NULL, "no %s in %s", name, answer);
  return strtoull(found + strlen(pattern), NULL, 10);
}

START_TEST(metrics_tell_what_has_happened)
{
  uint16_t port, http_port;
  program_t server = start_live("--timeout 300 --tick 10", &port, &http_port);

  for (int i = 0; i < 3; i++)
    read_to_end(connect_to(port)); /* times out */
  close(connect_to(port));
  connect_to(port);
  do
    ck_assert_uint_eq(read_answer(ask(http_port, GET("/metrics"))), 200);
  while (sample("uvwheel_started_total") < 5);
  ck_assert_ptr_nonnull(
      strstr(answer, "\r\nContent-Type: application/openmetrics-text; "
                     "version=1.0.0; charset=utf-8\r\n"));
  ck_assert_str_eq(body_of_answer() + strlen(body_of_answer()) - 6, "# EOF\n");
  ck_assert_uint_eq(sample("uvwheel_started_total"),
                    sample("uvwheel_timers") + sample("uvwheel_fired_total") +
                        sample("uvwheel_stopped_total"));
  ck_assert_uint_eq(sample("uvwheel_lateness_seconds_count"),
                    sample("uvwheel_fired_total"));
  assert_good_end(&server);
}
END_TEST

/* ---- Frames ------------------------------------------------------------- */

START_TEST(frames_tell_what_the_wheel_holds)
{
  uint16_t port, http_port;
  program_t server =
      start_live(NO_IDLE_TIME "--tick 10 --slots 200", &port, &http_port);
  int viewer = view(http_port);

  read_frame(viewer);
  uint64_t first_ms = figure("now_ms");
  ck_assert_uint_eq(figure("tick_ms"), 10);
  ck_assert_uint_eq(figure("slots"), 256);
  ck_assert_uint_eq(figure("timeout_ms"), 600000);
  ck_assert_uint_eq(figure("viewers"), 1);
  ck_assert_uint_eq(figure("timers"), 0);
  for (int i = 0; i < 3; i++)
    assert_echo(connect_to(port));
  await_figure(viewer, "refreshed", 6);
  ck_assert_uint_eq(figure("timers"), 3);
  ck_assert_uint_eq(await_cells(viewer, 3), 256);
  ck_assert_uint_gt(figure("now_ms"), first_ms);
  assert_good_end(&server);
}
END_TEST

START_TEST(frames_tell_what_has_fired)
{
  size_t count;
  uint16_t port, http_port;
  program_t server = start_live("--timeout 300 --tick 10", &port, &http_port);
  int viewer = view(http_port);

  for (int i = 0; i < 3; i++)
    connect_to(port);
  await_figure(viewer, "fired", 3);
  ck_assert_uint_eq(figure("timers"), 0);
  ck_assert_uint_eq(sum_of("lateness", &count), 3);
  ck_assert_uint_eq(count, 24);
  assert_good_end(&server);
}
END_TEST

START_TEST(many_slots_are_shown_in_groups)
{
  uint16_t port, http_port;
  program_t server = start_live("--slots 4096", &port, &http_port);
  int viewer = view(http_port);

  assert_echo(connect_to(port));
  await_figure(viewer, "timers", 1);
  ck_assert_uint_eq(figure("slots"), 4096);
  ck_assert_uint_eq(await_cells(viewer, 1), 512);
  assert_good_end(&server);
}
END_TEST

START_TEST(a_hundred_viewers_get_the_same_frame)
{
  int viewers[100];
  uint16_t port, http_port;
  program_t server = start_live(NO_IDLE_TIME, &port, &http_port);

  for (int i = 0; i < 100; i++)
    viewers[i] = view(http_port);
  await_figure(viewers[99], "viewers", 100);
  uint64_t now_ms = figure("now_ms");
  for (int i = 0; i < 99; i++)
    await_figure(viewers[i], "now_ms", now_ms);
  assert_good_end(&server);
}
END_TEST

START_TEST(one_viewer_too_many_is_told_so)
{
  int viewers[MAX_VIEWERS];
  uint16_t port, http_port;
  program_t server = start_live(NO_IDLE_TIME, &port, &http_port);

  for (int i = 0; i < MAX_VIEWERS; i++)
    viewers[i] = view(http_port);
  ck_assert_uint_eq(read_answer(ask(http_port, GET("/events"))), 503);
  ck_assert_ptr_nonnull(strstr(answer, "\r\nRetry-After: "));
  ck_assert_uint_eq(read_answer(ask(http_port, GET("/"))), 200);
  close(viewers[0]);
  await_figure(viewers[1], "viewers", MAX_VIEWERS - 1);
  view(http_port);
  assert_good_end(&server);
}
END_TEST

START_TEST(a_viewer_that_talks_is_not_listened_to)
{
  uint16_t port, http_port;
  program_t server = start_live(NO_IDLE_TIME, &port, &http_port);
  int viewer = view(http_port);

  send_until_stuck(viewer);
  for (int i = 0; i < 3; i++)
    read_frame(viewer);
  assert_good_end(&server);
}
END_TEST

START_TEST(the_last_descriptors_are_kept)
{
  unsigned long status;
  uint16_t port, http_port;

  descriptor_limit = 64;
  program_t server = start_live(NO_IDLE_TIME, &port, &http_port);
  while ((status = read_answer(ask(http_port, GET("/")))) == 200)
    view(http_port);
  ck_assert_uint_eq(status, 503);
  ck_assert_ptr_nonnull(strstr(answer, "\r\nRetry-After: "));
  assert_good_end(&server);
}
END_TEST

static const char *const when_full[] = {"refuse", "shed"};

START_TEST(viewers_take_no_places_of_peers)
{
  enum { PLACES = 3 };
  char options[96];
  int viewers[PLACES], peers[PLACES];
  uint16_t port, http_port;

  snprintf(options, sizeof(options),
           NO_IDLE_TIME "--max-connections %d --when-full %s", PLACES,
           when_full[_i]);
  program_t server = start_live(options, &port, &http_port);
  for (int i = 0; i < PLACES; i++)
    viewers[i] = view(http_port);
  for (int i = 0; i < PLACES; i++) {
    peers[i] = connect_to(port);
    assert_echo(peers[i]);
  }
  for (int i = 0; i < PLACES; i++) {
    await_figure(viewers[i], "timers", PLACES);
    assert_echo(peers[i]);
  }
  assert_good_end(&server);
}
END_TEST

START_TEST(viewers_come_and_go)
{
  uint16_t port, http_port;
  program_t server = start_live(NO_IDLE_TIME, &port, &http_port);

  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < MAX_VIEWERS / 2; i++) {
      reset(view(http_port));
      reset(connect_to(http_port));
    }
    int viewer = view(http_port);
    await_figure(viewer, "viewers", 1);
    reset(viewer);
  }
  assert_good_end(&server);
}
END_TEST

/* ---- Its end ------------------------------------------------------------ */

START_TEST(sigterm_ends_it_whatever_its_connections_do)
{
  int viewers[10];
  uint16_t port, http_port;
  program_t server = start_live(NO_IDLE_TIME, &port, &http_port);

  for (int i = 0; i < 10; i++)
    viewers[i] = view(http_port);
  connect_to(http_port);
  ask(http_port, "GET / HT");
  ask(http_port, GET("/"));
  ask(http_port, GET("/events"));
  assert_echo(connect_to(port));
  read_frame(viewers[9]);
  assert_good_end(&server);
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

START_TEST(what_cannot_be_is_one_line)
{
  run_program("IDLE_SERVER", wrong[_i].command_line, &result);
  assert_complaint(&result, wrong[_i].status, wrong[_i].complaint);
}
END_TEST

START_TEST(a_port_in_use_is_one_line_and_status_1)
{
  char options[64];
  uint16_t port, http_port;
  program_t server = start_live("", &port, &http_port);

  snprintf(options, sizeof(options), "--port 0 --http %u", http_port);
  run_program("IDLE_SERVER", options, &result);
  assert_complaint(&result, 1, "address already in use");
  assert_good_end(&server);
}
END_TEST

START_TEST(another_address_may_be_chosen)
{
  char line[256];
  uint16_t port;
  program_t server =
      start_server("--http 0 --http-host 127.0.0.2 --quiet", &port);

  read_line(server.out, line, sizeof(line));
  ck_assert_msg(strncmp(line, "live page: http://127.0.0.2:", 28) == 0, "%s",
                line);
  assert_good_end(&server);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("live");
  TCase *tcase = tcase_create("end to end");

  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, the_page_is_served_and_may_load_nothing_else);
  tcase_add_loop_test(tcase, head_gets_the_head_alone, 0, 2);
  tcase_add_loop_test(
      tcase, bad_requests_get_an_error_and_nothing_of_theirs_back, 0, BAD);
  tcase_add_test(tcase, a_header_without_end_is_refused);
  tcase_add_loop_test(tcase, names_of_this_machine_are_served, 0, 4);
  tcase_add_test(tcase, a_request_may_come_byte_by_byte);
  tcase_add_test(tcase, who_stops_to_send_still_gets_the_answer);
  tcase_add_test(tcase, metrics_tell_what_has_happened);
  tcase_add_test(tcase, frames_tell_what_the_wheel_holds);
  tcase_add_test(tcase, frames_tell_what_has_fired);
  tcase_add_test(tcase, many_slots_are_shown_in_groups);
  tcase_add_test(tcase, a_hundred_viewers_get_the_same_frame);
  tcase_add_test(tcase, one_viewer_too_many_is_told_so);
  tcase_add_test(tcase, a_viewer_that_talks_is_not_listened_to);
  tcase_add_test(tcase, the_last_descriptors_are_kept);
  tcase_add_loop_test(tcase, viewers_take_no_places_of_peers, 0, 2);
  tcase_add_test(tcase, viewers_come_and_go);
  tcase_add_test(tcase, sigterm_ends_it_whatever_its_connections_do);
  tcase_add_loop_test(tcase, what_cannot_be_is_one_line, 0, WRONG);
  tcase_add_test(tcase, a_port_in_use_is_one_line_and_status_1);
  tcase_add_test(tcase, another_address_may_be_chosen);
  suite_add_tcase(suite, tcase);
  return run_suite(suite);
}
