/* SPDX-License-Identifier: MIT */

/* Bytes that wait in a socket which libuv does not watch at the moment: a
 * callback has started a watcher, and libuv registers it only when it polls
 * next. Until then no poll reports the bytes, and poll(2) on the loop's
 * descriptor does not, either. A timer that is due waits for them (P6).
 * Scenario 40. */

#include "idle_peers.h"

#include <unistd.h>

static const uint64_t ticks_ms[] = {1, 10, 100, 1000};

/* ---- Another callback of the same poll ----------------------------------- */

/* It is called when the world has written a byte, at the time that it is asked
 * for, in one poll with what else is ready then. */
static uv_poll_t bell;
static int bell_fds[2];
static uint64_t ring_at_ms;
static void (*on_ring)(void);
static void (*before_ring)(void); /* in the world; NULL: nothing */

static uint64_t ring(void) {
  if (clock_now_ms() < ring_at_ms)
    return ring_at_ms * 1000000;
  if (before_ring != NULL)
    before_ring();
  ck_assert_int_eq(write(bell_fds[1], "x", 1), 1);
  return NEVER;
}

static void on_bell(uv_poll_t *poll, int status, int events) {
  char byte;

  (void)poll, (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(bell_fds[0], &byte, 1), 1);
  on_ring();
}

static void open_bell(void) {
  before_ring = NULL;
  ck_assert_int_eq(pipe(bell_fds), 0);
  ck_assert_int_eq(uv_poll_init(&loop, &bell, bell_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&bell, UV_READABLE, on_bell), 0);
}

static void ring_at(uint64_t ms, void (*act)(void)) {
  ring_at_ms = ms;
  on_ring = act;
  virtual_time_set_world(ring);
}

static void close_bell(void) {
  virtual_time_set_world(NULL);
  uv_close((uv_handle_t *)&bell, NULL);
  run_for(1);
  close(bell_fds[0]);
  close(bell_fds[1]);
}

/* ---- A message that is read in pieces ------------------------------------ */

#define PIECE 4096
#define PIECES 75 /* 300 KB */

static uv_poll_t reader;
static int message_fds[2];
static uvwheel_timer_t idle;
static unsigned pieces_read;

static void cut_off(uvwheel_timer_t *timer) {
  (void)timer;
  ck_abort_msg("a peer is cut off whose bytes wait");
}

/* Starts its own watcher anew, which takes it out of the backend until the next
 * poll. */
static void read_piece(uv_poll_t *poll, int status, int events) {
  static char piece[PIECE];

  (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(message_fds[0], piece, PIECE), PIECE);
  virtual_time_advance_ns(100000);
  ck_assert_int_eq(uv_poll_stop(poll), 0);
  if (++pieces_read == PIECES)
    ck_assert_int_eq(uvwheel_timer_stop(&idle), 0);
  else
    ck_assert_int_eq(uv_poll_start(poll, UV_READABLE, read_piece), 0);
}

static void send_message(void) {
  static const char message[PIECE * PIECES];

  ck_assert_int_eq(write(message_fds[1], message, sizeof message),
                   sizeof message);
}

/* When the message arrives, by the tick at which its peer would be closed; and
 * what another callback of the loop takes then. */
static const struct {
  uint64_t before_tick_ms;
  uint64_t take_ms;
} arrivals[] = {{1, 0}, {5, 0}, {7, 0}, {1, 50}, {10, 50}, {45, 50}};

static uint64_t take_ms;

static void take_time(void) {
  virtual_time_advance_ms(take_ms);
}

/* Opens a socket whose peer is closed at a tick. Returns that time. */
static uint64_t open_idle(uint64_t tick_ms) {
  open_wheel(tick_ms, 64);
  open_bell();
  open_wide_pair(message_fds);
  begin_timer(&idle, cut_off, 2000, 0);
  return fires_at(uv_now(&loop) + 2000);
}

static void close_idle(uv_handle_t *watcher) {
  uv_close(watcher, NULL);
  close_bell();
  close(message_fds[1]);
  close_and_forget_wheel();
}

/* P6. Scenario 40. */
START_TEST(a_message_is_read_by_a_watcher_that_is_started_anew_for_each_piece) {
  size_t which = (size_t)_i % LENGTH(arrivals);
  uint64_t at_ms = open_idle(ticks_ms[(size_t)_i / LENGTH(arrivals)]) -
                   arrivals[which].before_tick_ms;

  pieces_read = 0;
  ck_assert_int_eq(uv_poll_init(&loop, &reader, message_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&reader, UV_READABLE, read_piece), 0);
  before_ring = send_message;
  take_ms = arrivals[which].take_ms;
  ring_at(at_ms, take_time);
  run_until(at_ms + 1000);
  ck_assert_uint_eq(pieces_read, PIECES);
  close_idle((uv_handle_t *)&reader);
  close(message_fds[0]);
}
END_TEST

/* ---- Reading that is resumed --------------------------------------------- */

/* A poll reads 32 buffers of 64 bytes. */
#define PAUSED_BYTES 6400

static uv_pipe_t paused;
static size_t unread;

static void allocate(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
  static char bytes[64];

  (void)handle, (void)size;
  *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void stop_its_timer(uv_stream_t *stream, ssize_t length,
                           const uv_buf_t *buffer) {
  (void)buffer;
  ck_assert_int_ge(length, 0);
  if (length > 0)
    ck_assert_int_eq(uvwheel_timer_stop(stream->data), 0);
}

static void read_paused(uv_stream_t *stream, ssize_t length,
                        const uv_buf_t *buffer) {
  unread -= (size_t)length;
  if (unread == 0)
    stop_its_timer(stream, length, buffer);
}

static void open_paused(void) {
  static const char message[PAUSED_BYTES];

  ck_assert_int_eq(uv_pipe_init(&loop, &paused, 0), 0);
  ck_assert_int_eq(uv_pipe_open(&paused, message_fds[0]), 0);
  ck_assert_int_eq(write(message_fds[1], message, PAUSED_BYTES), PAUSED_BYTES);
  unread = PAUSED_BYTES;
  paused.data = &idle;
}

static void resume(void) {
  ck_assert_int_eq(uv_read_start((uv_stream_t *)&paused, allocate, read_paused),
                   0);
}

static void resume_late(void) {
  resume();
  virtual_time_advance_ms(50);
}

static void resume_late_and_update(void) {
  resume_late();
  uv_update_time(&loop);
}

/* Between the check and the driver: a check that is called after the wheel's, a
 * close callback, and a uv_timer_t that was due before the driver. */
static uv_check_t later_check;
static uv_idle_t closed_handle;
static uv_timer_t resumer;
static bool resumes_in_check;

static void on_later_check(uv_check_t *check) {
  (void)check;
  if (resumes_in_check)
    resume();
  resumes_in_check = false;
}

static void resume_in_check(void) {
  resumes_in_check = true;
}

static void on_closed(uv_handle_t *handle) {
  (void)handle;
  resume();
}

static void resume_in_close(void) {
  ck_assert_int_eq(uv_idle_init(&loop, &closed_handle), 0);
  uv_close((uv_handle_t *)&closed_handle, on_closed);
}

static void on_resumer(uv_timer_t *timer) {
  (void)timer;
  resume();
}

static void resume_in_timer(void) {
  ck_assert_int_eq(uv_timer_start(&resumer, on_resumer, 0, 0), 0);
  advance_loop_ms(20);
}

/* When that is, before the tick. Either some last beyond the tick, or a
 * uv_timer_t holds the loop from 20 ms before the tick to 20 ms after it. */
static const struct {
  uint64_t before_tick_ms;
  void (*act)(void);
  bool is_held;
} resumptions[] = {
    {0, resume, false},           {1, resume, false},
    {10, resume_late, false},     {10, resume_late_and_update, false},
    {10, resume, true},           {0, resume, true},
    {0, resume_in_check, false},  {0, resume_in_close, false},
    {10, resume_in_timer, false},
};

static void hold_40_ms(uv_timer_t *timer) {
  advance_loop_ms(40);
  uv_close((uv_handle_t *)timer, NULL);
}

/* P6. Scenario 40. A connection that was just accepted is such a pipe, too. */
START_TEST(reading_that_is_resumed_in_the_poll_before_the_turn_comes_first) {
  static uv_timer_t holder;
  size_t which = (size_t)_i % LENGTH(resumptions);
  uint64_t fires_ms, at_ms;

  /* The check that is started first is called last. */
  ck_assert_int_eq(uv_check_init(&loop, &later_check), 0);
  ck_assert_int_eq(uv_check_start(&later_check, on_later_check), 0);
  ck_assert_int_eq(uv_timer_init(&loop, &resumer), 0);
  fires_ms = open_idle(ticks_ms[(size_t)_i / LENGTH(resumptions)]);
  at_ms = fires_ms - resumptions[which].before_tick_ms;
  open_paused();
  ring_at(at_ms, resumptions[which].act);
  if (resumptions[which].is_held)
    begin_uv_timer(&holder, hold_40_ms, fires_ms - 20 - uv_now(&loop), 0);
  run_until(at_ms + 1000);
  ck_assert_int_eq(uvwheel_timer_is_active(&idle), 0);
  uv_close((uv_handle_t *)&later_check, NULL);
  uv_close((uv_handle_t *)&resumer, NULL);
  close_idle((uv_handle_t *)&paused);
}
END_TEST

/* ---- Due after the check, or in a cut turn ------------------------------- */

static void stop_idle(uv_poll_t *poll, int status, int events) {
  char byte;

  (void)poll, (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(message_fds[0], &byte, 1), 1);
  ck_assert_int_eq(uvwheel_timer_stop(&idle), 0);
}

/* Its peer speaks before it is due, between the check and the driver. */
static void let_peer_speak(uv_timer_t *timer) {
  (void)timer;
  ck_assert_int_eq(write(message_fds[1], "x", 1), 1);
  advance_loop_ms(30);
}

/* P6. What was heard when another timer was due does not cover its bytes. */
START_TEST(a_timer_that_is_due_after_the_check_waits_for_its_peer) {
  static test_timer_t first;

  (void)open_idle(10);
  ck_assert_int_eq(uv_poll_init(&loop, &reader, message_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&reader, UV_READABLE, stop_idle), 0);
  begin_uv_timer(&resumer, let_peer_speak,
                 fires_at(uv_now(&loop) + 100) - uv_now(&loop), 0);
  begin_test_timer(&first, 100, 0);
  ck_assert_int_eq(uvwheel_timer_start(&idle, cut_off, 110, 0), 0);
  run_for(1000);
  ck_assert_uint_eq(first.fired, 1);
  ck_assert_int_eq(uvwheel_timer_is_active(&idle), 0);
  close_idle((uv_handle_t *)&reader);
  close(message_fds[0]);
}
END_TEST

static uvwheel_timer_t due[3];

/* The time of the loop is old: what begins now is overdue soon. And its peer
 * speaks at once. */
static void stop_all_and_begin(void) {
  size_t i;

  for (i = 0; i < LENGTH(due); i++)
    (void)uvwheel_timer_stop(&due[i]);
  virtual_time_advance_ms(2);
  begin_timer(&idle, cut_off, 0, 0);
  virtual_time_advance_ms(100);
  ck_assert_int_eq(write(message_fds[1], "x", 1), 1);
}

/* In the poll after the turn. */
static void have_all_stopped_in_io(uvwheel_timer_t *unused) {
  (void)unused;
  on_ring = stop_all_and_begin;
  ck_assert_int_eq(write(bell_fds[1], "x", 1), 1);
}

/* P6. Scenario 43. */
START_TEST(
    timers_that_begin_when_a_cut_turn_was_emptied_have_their_peers_heard) {
  size_t i;

  open_wheel_with(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 1});
  open_bell();
  open_wide_pair(message_fds);
  ck_assert_int_eq(uv_poll_init(&loop, &reader, message_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&reader, UV_READABLE, stop_idle), 0);
  for (i = 0; i < LENGTH(due); i++)
    begin_timer(&due[i], have_all_stopped_in_io, 50, 0);
  run_for(1000);
  ck_assert_uint_eq(stats_of_wheel().fired, 1);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  close_idle((uv_handle_t *)&reader);
  close(message_fds[0]);
}
END_TEST

int main(void) {
  const loop_test_t tests[] = {
      {a_message_is_read_by_a_watcher_that_is_started_anew_for_each_piece, 0,
       LENGTH(ticks_ms) * LENGTH(arrivals)},
      {reading_that_is_resumed_in_the_poll_before_the_turn_comes_first, 0,
       LENGTH(ticks_ms) * LENGTH(resumptions)},
      TEST(a_timer_that_is_due_after_the_check_waits_for_its_peer),
      TEST(
          timers_that_begin_when_a_cut_turn_was_emptied_have_their_peers_heard),
  };

  return run_loop_tests("watchers", tests, LENGTH(tests));
}
