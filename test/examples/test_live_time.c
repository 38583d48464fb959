/* SPDX-License-Identifier: MIT */

/* The server of the live page in virtual time: what its patience ends, and when
 * frames are made. The peers are sockets of the test. The loop never sleeps
 * here, and the clock only moves where the test says so. */

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "live/http-server.h"
#include "live/live-picture.h"
#include "live/live.h"
#include "programs.h"
#include "suite.h"
#include "virtual_time.h"

#define TICK_MS 100 /* the default */
#define REQUEST(path) "GET " path " HTTP/1.1\r\nHost: localhost\r\n\r\n"

const char *const program = "live";

static uv_loop_t loop;
static uvwheel_t wheel;

/* ---- Help --------------------------------------------------------------- */

static void
turn(void)
{
  uv_run(&loop, UV_RUN_NOWAIT);
}

/* What peers have sent may take a moment of real time to arrive. */
#define turn_until(condition) \
  do                          \
    turn();                   \
  while (!(condition))

static void
pass(uint64_t ms)
{
  virtual_time_advance_ms(ms);
  turn();
}

static uint64_t
fired(void)
{
  uvwheel_stats_t stats;

  uvwheel_get_stats(&wheel, &stats);
  return stats.fired;
}

static int
ask(uint16_t port, const char *request)
{
  int peer = connect_to(port);

  send_all(peer, request, strlen(request));
  return peer;
}

static char taken[65536]; /* last, of any peer */

/* Takes what has come. Says whether the other side has closed. */
static bool
take(int peer, size_t *length)
{
  ssize_t more;

  while ((more = recv(peer, taken, sizeof(taken) - 1, MSG_DONTWAIT)) > 0) {
    taken[more] = '\0';
    *length += (size_t)more;
  }
  ck_assert(more == 0 || errno == EAGAIN);
  return more == 0;
}

/* Reads to the end, and returns how many bytes came. */
static size_t
take_all(int peer)
{
  size_t length = 0;

  turn_until(take(peer, &length));
  return length;
}

static void
make_loop(void)
{
  virtual_time_set_ns(UINT64_C(1000000000));
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, NULL), 0);
}

static void
end_loop(void)
{
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* ---- Patience ----------------------------------------------------------- */

static http_server_t server;
static uint16_t port;
static char body[64 << 20]; /* more than any socket's buffers hold */

static void
answer_much(http_connection_t *connection)
{
  http_answer(connection, "text/plain", body, sizeof(body));
}

static void
start_server_here(void)
{
  make_loop();
  server = (http_server_t){
      .loop = &loop,
      .wheel = &wheel,
      .on_request = answer_much,
      .fields = "",
      .descriptor_limit = UINT64_MAX,
  };
  ck_assert_int_eq(http_server_start(&server, DEFAULT_HOST, 0), 0);
  port = (uint16_t)strtoul(strchr(server.address, ':') + 1, NULL, 10);
}

static void
stop_server_here(void)
{
  http_server_stop(&server);
  end_loop();
}

static bool
is_free(int connection)
{
  return server.connections[connection].state == HTTP_FREE;
}

START_TEST(who_stops_to_send_gets_the_whole_answer_and_is_closed_at_once)
{
  http_connection_t *connection = &server.connections[0];
  int peer = ask(port, REQUEST("/"));

  shutdown(peer, SHUT_WR);
  turn_until(connection->is_peer_done);
  ck_assert_uint_gt(
      uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp), 0);
  ck_assert_uint_eq(take_all(peer), strlen(connection->head) + sizeof(body));
  turn_until(is_free(0));
  ck_assert_uint_eq(fired(), 0);
}
END_TEST

START_TEST(who_leaves_before_the_answer_is_sent_is_closed_at_once)
{
  int peer = ask(port, REQUEST("/"));

  turn_until(server.connections[0].state == HTTP_ANSWERING);
  reset(peer);
  turn_until(is_free(0));
  ck_assert_uint_eq(fired(), 0);
}
END_TEST

static const struct {
  const char *request;
  enum http_state state; /* in which it stays */
  bool is_answered;
} slow[] = {
    {"", HTTP_READING, false}, /* browsers open such ones in advance */
    {"GET / HT", HTTP_READING, true},
    {REQUEST("/"), HTTP_ANSWERING, true}, /* and takes no more of it */
};
#define SLOW ((int)(sizeof(slow) / sizeof(slow[0])))

START_TEST(patience_ends_at_its_tick)
{
  size_t length = 0;
  int peer = ask(port, slow[_i].request);

  turn_until(server.connections[0].state == slow[_i].state);
  pass(HTTP_PATIENCE_MS);
  ck_assert_uint_eq(fired(), 0);
  pass(TICK_MS);
  ck_assert_uint_eq(fired(), 1);
  if (slow[_i].state == HTTP_READING && slow[_i].is_answered)
    turn_until(take(peer, &length)); /* 408 */
  else
    turn_until(is_free(0));
}
END_TEST

START_TEST(who_does_not_close_after_the_answer_is_closed)
{
  int peer = ask(port, "nonsense\r\n\r\n");

  ck_assert_uint_gt(take_all(peer), 0);
  ck_assert_int_eq(server.connections[0].state, HTTP_ANSWERING);
  pass(HTTP_PATIENCE_MS + TICK_MS);
  turn_until(is_free(0));
  ck_assert_uint_eq(fired(), 1);
}
END_TEST

START_TEST(who_was_answered_408_and_does_not_close_is_closed)
{
  int peer = ask(port, "GET / HT");

  turn_until(server.connections[0].request.is_begun);
  pass(HTTP_PATIENCE_MS + TICK_MS);
  ck_assert_uint_gt(take_all(peer), 0);
  pass(HTTP_PATIENCE_MS + TICK_MS);
  turn_until(is_free(0));
  ck_assert_uint_eq(fired(), 2);
}
END_TEST

START_TEST(newcomers_wait_while_all_connections_are_taken)
{
  size_t length = 0;

  for (int i = 0; i < HTTP_MAX_CONNECTIONS; i++) {
    connect_to(port);
    turn_until(!is_free(i));
  }
  int waiting[] = {ask(port, "?\r\n\r\n"), ask(port, "?\r\n\r\n")};
  turn_until(server.is_full);
  ck_assert(!take(waiting[0], &length));
  pass(HTTP_PATIENCE_MS + TICK_MS);
  for (int i = 0; i < 2; i++)
    ck_assert_uint_gt(take_all(waiting[i]), 0);
  ck_assert_uint_eq(fired(), HTTP_MAX_CONNECTIONS);
}
END_TEST

/* ---- Frames ------------------------------------------------------------- */

static live_t *live;

static void
find_listener(uv_handle_t *handle, void *found)
{
  if (uv_handle_get_type(handle) == UV_TCP)
    *(uv_handle_t **)found = handle;
}

static void
start_live_here(void)
{
  static const uint64_t refreshes;
  live_options_t options = {
      .wheel = &wheel,
      .refreshes = &refreshes,
      .descriptor_limit = UINT64_MAX,
      .host = DEFAULT_HOST,
  };
  struct sockaddr_in address;
  int size = sizeof(address);
  uv_tcp_t *listener = NULL;

  make_loop();
  ck_assert_int_eq(live_start(&options, &live), 0);
  uv_walk(&loop, find_listener, (void *)&listener);
  uv_tcp_getsockname(listener, (struct sockaddr *)&address, &size);
  port = ntohs(address.sin_port);
}

static void
stop_live_here(void)
{
  live_stop(live);
  end_loop();
  live_free(live);
}

typedef struct census_s {
  int sockets;
  int timers; /* that are active */
} census_t;

static void
count_handle(uv_handle_t *handle, void *arg)
{
  census_t *census = arg;
  uv_handle_type type = uv_handle_get_type(handle);

  census->sockets += type == UV_TCP;
  census->timers += type == UV_TIMER && uv_is_active(handle);
}

static census_t
census(void)
{
  census_t found = {0};

  uv_walk(&loop, count_handle, &found);
  return found;
}

/* The head of the answer, or a frame: something. */
static void
await_something(int viewer)
{
  size_t length = 0;

  turn_until(take(viewer, &length) || length > 0);
  ck_assert_uint_gt(length, 0);
}

START_TEST(frames_are_made_while_somebody_looks_and_no_longer)
{
  ck_assert_int_eq(census().timers, 0);
  for (int round = 0; round < 2; round++) {
    int viewers[] = {ask(port, REQUEST("/events")),
                     ask(port, REQUEST("/events"))};
    for (int i = 0; i < 2; i++)
      await_something(viewers[i]);
    close(viewers[0]);
    turn_until(census().sockets == 2); /* the listener and a viewer */
    for (int i = 0; i < 10; i++) {
      pass(LIVE_INTERVAL_MS);
      await_something(viewers[1]);
    }
    close(viewers[1]);
    turn_until(census().sockets == 1);
    pass(2 * HTTP_PATIENCE_MS);
    ck_assert_int_eq(census().timers, 0);
  }
}
END_TEST

static void
on_due(uvwheel_timer_t *timer)
{
  (void)timer;
}

/* The wheel's clock, which a stall sets back, is the one that frames tell. An
 * empty wheel finds none, and whether it is depends on libuv's order. */
START_TEST(a_frame_tells_of_a_stall)
{
  static uvwheel_timer_t timer;
  uvwheel_stats_t stats;
  char figures[128], now[64];
  int viewer = ask(port, REQUEST("/events"));

  await_something(viewer);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &timer), 0);
  ck_assert_int_eq(
      uvwheel_timer_start(&timer, on_due, HTTP_PATIENCE_MS, HTTP_PATIENCE_MS),
      0);
  pass(HTTP_PATIENCE_MS + 3000);
  uvwheel_get_stats(&wheel, &stats);
  ck_assert_uint_eq(stats.stalls, 1);
  ck_assert_uint_lt(uvwheel_now(&wheel), uv_now(&loop) - 3000);
  snprintf(figures, sizeof(figures),
           "\"stalls\":1,\"stall_max_ms\":%" PRIu64 ",\"deaf_ms\":%" PRIu64 ",",
           stats.stall_max_ms, stats.deaf_ms);
  do {
    pass(LIVE_INTERVAL_MS);
    snprintf(now, sizeof(now), "{\"now_ms\":%" PRIu64 ",", uvwheel_now(&wheel));
    await_something(viewer);
  } while (strstr(taken, now) == NULL || strstr(taken, figures) == NULL);
}
END_TEST

START_TEST(a_viewer_that_does_not_read_is_dropped_alone)
{
  int least = 1;
  int deaf = ask(port, REQUEST("/events"));
  int viewer = ask(port, REQUEST("/events"));

  setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
  turn_until(census().sockets == 3);
  while (census().sockets == 3) {
    await_something(viewer);
    pass(LIVE_INTERVAL_MS);
  }
  ck_assert_uint_eq(fired(), 1);
  await_something(viewer);
}
END_TEST

int
main(void)
{
  Suite *suite = suite_create("live page in virtual time");
  TCase *patience = tcase_create("patience");
  TCase *frames = tcase_create("frames");

  tcase_add_checked_fixture(patience, start_server_here, stop_server_here);
  tcase_add_test(patience,
                 who_stops_to_send_gets_the_whole_answer_and_is_closed_at_once);
  tcase_add_test(patience,
                 who_leaves_before_the_answer_is_sent_is_closed_at_once);
  tcase_add_loop_test(patience, patience_ends_at_its_tick, 0, SLOW);
  tcase_add_test(patience, who_does_not_close_after_the_answer_is_closed);
  tcase_add_test(patience, who_was_answered_408_and_does_not_close_is_closed);
  tcase_add_test(patience, newcomers_wait_while_all_connections_are_taken);
  suite_add_tcase(suite, patience);
  tcase_add_checked_fixture(frames, start_live_here, stop_live_here);
  tcase_add_test(frames, frames_are_made_while_somebody_looks_and_no_longer);
  tcase_add_test(frames, a_frame_tells_of_a_stall);
  tcase_add_test(frames, a_viewer_that_does_not_read_is_dropped_alone);
  suite_add_tcase(suite, frames);
  return run_suite(suite);
}
