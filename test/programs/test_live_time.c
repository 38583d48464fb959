/* SPDX-License-Identifier: MIT */

/* The live page in virtual time: what its patience ends, and when frames are
 * made. The peers are sockets of the test. The loop never sleeps here, and the
 * clock only moves where the test says so. */

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
static live_t *live;
static uint16_t port;

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

/* What is due fires in the second turn: since 1.45 libuv runs its timers after
 * the poll. */
static void
pass(uint64_t ms)
{
  virtual_time_advance_ms(ms);
  turn();
  turn();
}

static uvwheel_stats_t
stats(void)
{
  uvwheel_stats_t found;

  uvwheel_get_stats(&wheel, &found);
  return found;
}

/* Each has a timer on the wheel. */
static uint64_t
connections(void)
{
  return stats().active;
}

static int
ask(const char *request)
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

/* Of all descriptors one listens. */
static uint16_t
find_port(void)
{
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

static void
start(void)
{
  static const uint64_t refreshes;
  static const live_wheel_t shown = {"one", &wheel, &refreshes};
  live_options_t options = {
      .wheel = &wheel,
      .shown = &shown,
      .shown_count = 1,
      .descriptor_limit = UINT64_MAX,
      .host = DEFAULT_HOST,
  };

  virtual_time_set_ns(UINT64_C(1000000000));
  ck_assert_int_eq(uv_loop_init(&loop), 0);
  ck_assert_int_eq(uvwheel_init(&loop, &wheel, NULL), 0);
  ck_assert_int_eq(live_start(&options, &live), 0);
  port = find_port();
}

static void
stop_all(void)
{
  live_stop(live);
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  ck_assert_int_eq(uv_loop_close(&loop), 0);
  live_free(live);
}

/* ---- Patience ----------------------------------------------------------- */

static const char *const too_little[] = {
    "", /* browsers open such ones in advance */
    "GET / HT",
};

START_TEST(patience_ends_at_its_tick)
{
  int peer = ask(too_little[_i]);

  turn_until(connections() == 1);
  pass(LIVE_PATIENCE_MS);
  ck_assert_uint_eq(stats().fired, 0);
  pass(TICK_MS);
  ck_assert_uint_eq(stats().fired, 1);
  ck_assert_uint_eq(take_all(peer), 0);
}
END_TEST

START_TEST(a_request_that_comes_byte_by_byte_has_no_more_time)
{
  int peer = connect_to(port);

  turn_until(connections() == 1);
  for (int i = 0; i < 5; i++) {
    send_all(peer, &REQUEST("/")[i], 1);
    pass(LIVE_PATIENCE_MS / 5);
  }
  pass(TICK_MS);
  ck_assert_uint_eq(take_all(peer), 0);
}
END_TEST

START_TEST(newcomers_wait_while_all_connections_are_taken)
{
  size_t length = 0;
  int peers[LIVE_MAX_CONNECTIONS];

  for (uint64_t i = 0; i < LIVE_MAX_CONNECTIONS; i++) {
    peers[i] = connect_to(port);
    turn_until(connections() > i);
  }
  int waiting[] = {ask(REQUEST("/")), ask(REQUEST("/"))};
  for (int i = 0; i < 100; i++)
    turn();
  ck_assert(!take(waiting[0], &length));
  ck_assert_uint_eq(length, 0);
  close(peers[0]);
  for (int i = 0; i < 2; i++)
    ck_assert_uint_gt(take_all(waiting[i]), 0);
  turn_until(connections() == LIVE_MAX_CONNECTIONS - 1);
  ck_assert_uint_eq(stats().fired, 0);
}
END_TEST

/* ---- Frames ------------------------------------------------------------- */

/* The head of the answer, or a frame: something. */
static void
await_something(int viewer)
{
  size_t length = 0;

  turn_until(take(viewer, &length) || length > 0);
  ck_assert_uint_gt(length, 0);
}

START_TEST(frames_are_made_only_while_there_are_viewers)
{
  for (int round = 0; round < 2; round++) {
    int viewers[] = {ask(REQUEST("/events")), ask(REQUEST("/events"))};
    for (int i = 0; i < 2; i++)
      await_something(viewers[i]);
    close(viewers[0]);
    do {
      pass(LIVE_INTERVAL_MS);
      await_something(viewers[1]);
    } while (connections() != 1);
    close(viewers[1]);
    while (connections() != 0)
      pass(LIVE_INTERVAL_MS);
    pass(LIVE_PATIENCE_MS);
    pass(LIVE_PATIENCE_MS);
    ck_assert_int_eq(uv_backend_timeout(&loop), LIVE_JUDGE_MS);
  }
  ck_assert_uint_eq(stats().fired, 0); /* that they left was noticed before */
}
END_TEST

static void
on_due(uvwheel_timer_t *timer)
{
  (void)timer;
}

/* The page is opened 40 s after the stall. An empty wheel finds none. */
START_TEST(a_frame_tells_of_an_earlier_stall)
{
  static uvwheel_timer_t timer;
  char figures[128], times[128]; /* of the JSON */
  uint64_t began_ms = uv_now(&loop);

  ck_assert_int_eq(uvwheel_timer_init(&wheel, &timer), 0);
  ck_assert_int_eq(
      uvwheel_timer_start(&timer, on_due, LIVE_JUDGE_MS, LIVE_JUDGE_MS), 0);
  pass(LIVE_JUDGE_MS + 16000);
  if (uv_version() < 0x012d00) /* it judged before the poll */
    pass(LIVE_JUDGE_MS);
  uint64_t found_ms = uv_now(&loop);
  for (int i = 0; i < 40; i++)
    pass(LIVE_JUDGE_MS);
  ck_assert_uint_eq(stats().stalls, 1);
  snprintf(
      figures, sizeof(figures),
      "\"stalls\":[1],\"stalls_bad\":[%" PRIu64 "],\"stall_max\":", found_ms);
  int viewer = ask(REQUEST("/events"));
  do {
    pass(LIVE_INTERVAL_MS);
    snprintf(times, sizeof(times),
             "\"page_ms\":%" PRIu64 ",\"uptime_ms\":%" PRIu64 ",",
             uv_now(&loop), uv_now(&loop) - began_ms);
    await_something(viewer);
  } while (strstr(taken, times) == NULL);
  ck_assert_ptr_nonnull(strstr(taken, figures));
  snprintf(times, sizeof(times), "\"stall_ms\":[%" PRIu64 "]",
           stats().stall_sum_ms);
  ck_assert_ptr_nonnull(strstr(taken, times));
  ck_assert_uint_ge(stats().stall_sum_ms, 16000 - TICK_MS);
}
END_TEST

START_TEST(a_hundred_viewers_get_the_same_frame)
{
  char times[64];
  int viewers[100];

  for (uint64_t i = 0; i < 100; i++) {
    viewers[i] = ask(REQUEST("/events"));
    await_something(viewers[i]);
  }
  pass(LIVE_INTERVAL_MS);
  snprintf(times, sizeof(times), "\"viewers\":100,\"page_ms\":%" PRIu64 ",",
           uv_now(&loop));
  for (int i = 0; i < 100; i++)
    do
      await_something(viewers[i]);
    while (strstr(taken, times) == NULL);
}
END_TEST

START_TEST(a_viewer_that_does_not_read_is_dropped_alone)
{
  int least = 1;
  int idle = ask(REQUEST("/events"));
  int viewer = ask(REQUEST("/events"));

  setsockopt(idle, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least));
  turn_until(connections() == 2);
  for (int frames = 0; connections() == 2; frames++) {
    ck_assert_int_lt(frames, 200); /* few of them are kept for it */
    await_something(viewer);
    pass(LIVE_INTERVAL_MS);
  }
  ck_assert_uint_eq(stats().fired, 1);
  await_something(viewer);
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {patience_ends_at_its_tick, 0, 2},
      TEST(a_request_that_comes_byte_by_byte_has_no_more_time),
      TEST(newcomers_wait_while_all_connections_are_taken),
      TEST(frames_are_made_only_while_there_are_viewers),
      TEST(a_frame_tells_of_an_earlier_stall),
      TEST(a_hundred_viewers_get_the_same_frame),
      TEST(a_viewer_that_does_not_read_is_dropped_alone),
  };

  return run_tests("live page in virtual time", start, stop_all, tests,
                   sizeof tests / sizeof *tests);
}
