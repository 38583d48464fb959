/* SPDX-License-Identifier: MIT */

/* Bytes that wait in a socket which libuv does not watch at the moment: a
 * callback has started a watcher, and libuv registers it only when it polls
 * next. Until then no poll reports the bytes, and poll(2) on the loop's
 * descriptor does not, either. A timer that is due waits for them (P6).
 * Scenario 40. */

#include "idle_peers.h"

#include <netinet/in.h>
#include <sys/socket.h>
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

static uint64_t
ring(void)
{
  if (clock_now_ms() < ring_at_ms)
    return ring_at_ms * 1000000;
  if (before_ring != NULL)
    before_ring();
  ck_assert_int_eq(write(bell_fds[1], "x", 1), 1);
  return NEVER;
}

static void
on_bell(uv_poll_t *poll, int status, int events)
{
  char byte;

  (void)poll, (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(bell_fds[0], &byte, 1), 1);
  on_ring();
}

static void
open_bell(void)
{
  before_ring = NULL;
  ck_assert_int_eq(pipe(bell_fds), 0);
  ck_assert_int_eq(uv_poll_init(&loop, &bell, bell_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&bell, UV_READABLE, on_bell), 0);
}

static void
ring_at(uint64_t ms, void (*act)(void))
{
  ring_at_ms = ms;
  on_ring = act;
  virtual_time_set_world(ring);
}

static void
close_bell(void)
{
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

static void
cut_off(uvwheel_timer_t *timer)
{
  (void)timer;
  ck_abort_msg("a peer is cut off whose bytes wait");
}

/* Starts its own watcher anew, which takes it out of the backend until the next
 * poll. */
static void
read_piece(uv_poll_t *poll, int status, int events)
{
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

static void
send_message(void)
{
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

static void
take_time(void)
{
  virtual_time_advance_ms(take_ms);
}

/* Opens a socket whose peer is closed at a tick. Returns that time. */
static uint64_t
open_idle(uint64_t tick_ms)
{
  open_wheel(tick_ms, 64);
  open_bell();
  open_wide_pair(message_fds);
  begin_timer(&idle, cut_off, 2000, 0);
  return fires_at(uv_now(&loop) + 2000);
}

static void
close_idle(uv_handle_t *watcher)
{
  uv_close(watcher, NULL);
  close_bell();
  close(message_fds[1]);
  close_and_forget_wheel();
}

/* P6. Scenario 40. */
START_TEST(a_message_is_read_by_a_watcher_that_is_started_anew_for_each_piece)
{
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

static void
allocate(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
  static char bytes[64];

  (void)handle, (void)size;
  *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void
stop_its_timer(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  (void)buffer;
  ck_assert_int_ge(length, 0);
  if (length > 0)
    ck_assert_int_eq(uvwheel_timer_stop(stream->data), 0);
}

static void
read_paused(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  unread -= (size_t)length;
  if (unread == 0)
    stop_its_timer(stream, length, buffer);
}

static void
open_paused(void)
{
  static const char message[PAUSED_BYTES];

  ck_assert_int_eq(uv_pipe_init(&loop, &paused, 0), 0);
  ck_assert_int_eq(uv_pipe_open(&paused, message_fds[0]), 0);
  ck_assert_int_eq(write(message_fds[1], message, PAUSED_BYTES), PAUSED_BYTES);
  unread = PAUSED_BYTES;
  paused.data = &idle;
}

static void
resume(void)
{
  ck_assert_int_eq(uv_read_start((uv_stream_t *)&paused, allocate, read_paused),
                   0);
}

static void
resume_late(void)
{
  resume();
  virtual_time_advance_ms(50);
}

static void
resume_late_and_update(void)
{
  resume_late();
  uv_update_time(&loop);
}

/* Between the check and the driver: a check that is called after the wheel's, a
 * close callback, and a uv_timer_t that was due before the driver. */
static uv_check_t later_check;
static uv_idle_t closed_handle;
static uv_timer_t resumer;
static bool resumes_in_check;

static void
on_later_check(uv_check_t *check)
{
  (void)check;
  if (resumes_in_check)
    resume();
  resumes_in_check = false;
}

static void
resume_in_check(void)
{
  resumes_in_check = true;
}

static void
on_closed(uv_handle_t *handle)
{
  (void)handle;
  resume();
}

static void
resume_in_close(void)
{
  ck_assert_int_eq(uv_idle_init(&loop, &closed_handle), 0);
  uv_close((uv_handle_t *)&closed_handle, on_closed);
}

static void
on_resumer(uv_timer_t *timer)
{
  (void)timer;
  resume();
}

static void
resume_in_timer(void)
{
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

static void
hold_40_ms(uv_timer_t *timer)
{
  advance_loop_ms(40);
  uv_close((uv_handle_t *)timer, NULL);
}

/* P6. Scenario 40. */
START_TEST(reading_that_is_resumed_in_the_poll_before_the_turn_comes_first)
{
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

static void
resume_by_itself(uvwheel_timer_t *timer)
{
  (void)timer;
  resume();
}

static void
resume_next_poll(uvwheel_timer_t *timer)
{
  (void)timer;
  on_ring = resume;
  ck_assert_int_eq(write(bell_fds[1], "x", 1), 1);
}

static void
take_5_ms(uvwheel_timer_t *timer)
{
  (void)timer;
  virtual_time_advance_ms(5);
}

static const uvwheel_timer_cb resumers[] = {resume_by_itself, resume_next_poll};

/* P6. A turn that was cut resumes reading, at once or after 60 quiet ms. */
START_TEST(reading_that_is_resumed_in_a_cut_turn_comes_first)
{
  uvwheel_timer_t slow[12], resuming;
  size_t i;

  open_wheel_with(&(uvwheel_options_t){
      .tick_ms = 10, .flags = UVWHEEL_FIFO, .turn_budget = 1});
  open_bell();
  open_wide_pair(message_fds);
  for (i = 0; i < (_i < 2 ? 0 : LENGTH(slow)); i++)
    begin_timer(&slow[i], take_5_ms, 2000, 0);
  begin_timer(&resuming, resumers[_i % 2], 2000, 0);
  begin_timer(&idle, cut_off, 2000, 0);
  open_paused();
  run_for(3000);
  ck_assert_int_eq(uvwheel_timer_is_active(&idle), 0);
  close_idle((uv_handle_t *)&paused);
}
END_TEST

/* ---- A clock that steps back --------------------------------------------- */

static void
stop_idle(uv_poll_t *poll, int status, int events)
{
  char byte;

  (void)poll, (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(message_fds[0], &byte, 1), 1);
  ck_assert_int_eq(uvwheel_timer_stop(&idle), 0);
}

static test_timer_t first;
static uvwheel_timer_t distant;
static uint64_t steps_to_ms;

/* How long after its start a timer of 100 ms fires. */
static uint64_t
fires_after_ms(void)
{
  return fires_at(uvwheel_now(&wheel) + 100) - uvwheel_now(&wheel);
}

/* Another timer starts, its peer speaks, and it is due before the next poll. */
static void
step_back_and_speak(uv_timer_t *timer)
{
  (void)timer;
  step_back_loop_ms(clock_now_ms() - steps_to_ms);
  ck_assert_int_eq(uvwheel_timer_start(&idle, cut_off, 100, 0), 0);
  ck_assert_int_eq(write(message_fds[1], "x", 1), 1);
  advance_loop_ms(fires_after_ms());
}

static void
stop_first(uv_timer_t *timer)
{
  (void)timer;
  ck_assert_int_eq(uvwheel_timer_stop(&first.base), 0);
}

/* The clock steps back to before_ms before the start of a timer: once that is
 * not active any more, or in a uv_timer_t between the check and the driver. A
 * timer that is late fires in a spell, with libuv before 1.45. */
static const struct {
  uv_timer_cb between;
  bool is_late;
  uint64_t before_ms;
} steps[] = {
    {step_back_and_speak, false, 5000},
    {NULL, false, 5000},
    {NULL, false, 0},
    {NULL, true, 0},
    {stop_first, false, 0},
};

/* P6. With libuv before 1.45 the driver is called before any check. */
START_TEST(a_step_back_that_no_check_has_seen_leaves_nothing_unheard)
{
  size_t step = (size_t)_i % LENGTH(steps);

  (void)open_idle(ticks_ms[(size_t)_i / LENGTH(steps)]);
  ck_assert_int_eq(uv_poll_init(&loop, &reader, message_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&reader, UV_READABLE, stop_idle), 0);
  ck_assert_int_eq(uvwheel_timer_stop(&idle), 0);
  steps_to_ms = clock_now_ms() - steps[step].before_ms;
  begin_test_timer(&first, 100, 0);
  if (steps[step].between != stop_first) /* else the wheel becomes empty */
    begin_timer(&distant, cut_off, 3600000, 0);
  if (steps[step].between != NULL)
    begin_uv_timer(&resumer, steps[step].between, fires_after_ms(), 0);
  if (steps[step].is_late)
    advance_loop_ms(fires_after_ms());
  while (uvwheel_timer_is_active(&first.base))
    uv_run(&loop, UV_RUN_ONCE);
  if (steps[step].between != step_back_and_speak)
    step_back_and_speak(NULL);
  run_for(100);
  ck_assert_int_eq(uvwheel_timer_is_active(&idle), 0);
  close_idle((uv_handle_t *)&reader);
  close(message_fds[0]);
  rewind_clock();
}
END_TEST

/* ---- All are stopped in a cut turn --------------------------------------- */

static uvwheel_timer_t due[3];

/* The time of the loop is old: what begins now is overdue soon. And its peer
 * speaks at once. */
static void
stop_all_and_begin(uvwheel_timer_t *unused)
{
  size_t i;

  (void)unused;
  for (i = 0; i < LENGTH(due); i++)
    (void)uvwheel_timer_stop(&due[i]);
  virtual_time_advance_ms(2);
  begin_timer(&idle, cut_off, 0, 0);
  virtual_time_advance_ms(100);
  ck_assert_int_eq(write(message_fds[1], "x", 1), 1);
}

static void
stop_all_and_begin_in_io(void)
{
  stop_all_and_begin(NULL);
}

/* In the poll after the turn. */
static void
have_all_stopped_in_io(uvwheel_timer_t *unused)
{
  (void)unused;
  on_ring = stop_all_and_begin_in_io;
  ck_assert_int_eq(write(bell_fds[1], "x", 1), 1);
}

static const uvwheel_timer_cb stoppers[] = {stop_all_and_begin,
                                            have_all_stopped_in_io};

/* P6. Scenario 43. */
START_TEST(timers_that_begin_when_a_cut_turn_was_emptied_have_their_peers_heard)
{
  size_t i;

  open_wheel_with(&(uvwheel_options_t){.tick_ms = 10, .turn_budget = 1});
  open_bell();
  open_wide_pair(message_fds);
  ck_assert_int_eq(uv_poll_init(&loop, &reader, message_fds[0]), 0);
  ck_assert_int_eq(uv_poll_start(&reader, UV_READABLE, stop_idle), 0);
  for (i = 0; i < LENGTH(due); i++)
    begin_timer(&due[i], stoppers[_i], 50, 0);
  run_for(1000);
  ck_assert_uint_eq(stats_of_wheel().fired, 1);
  ck_assert_uint_eq(uvwheel_count(&wheel), 0);
  close_idle((uv_handle_t *)&reader);
  close(message_fds[0]);
}
END_TEST

/* ---- A connection that is accepted --------------------------------------- */

#define CLIENTS 20

static uv_tcp_t listener;
static struct sockaddr_in address;
static struct client {
  uv_tcp_t tcp;
  uvwheel_timer_t idle;
  int fd;
} clients[CLIENTS];
static unsigned connected, accepted;

/* It has spoken before it is accepted. */
static void
connect_client(void)
{
  struct client *client = &clients[connected++];

  client->fd = socket(AF_INET, SOCK_STREAM, 0);
  ck_assert_int_eq(
      connect(client->fd, (struct sockaddr *)&address, sizeof address), 0);
  ck_assert_int_eq(send(client->fd, "x", 1, 0), 1);
}

/* With so short a timeout that it is over when the other callback returns. */
static void
on_connection(uv_stream_t *stream, int status)
{
  struct client *client = &clients[accepted++];

  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(uv_tcp_init(&loop, &client->tcp), 0);
  ck_assert_int_eq(uv_accept(stream, (uv_stream_t *)&client->tcp), 0);
  client->tcp.data = &client->idle;
  begin_timer(&client->idle, cut_off, 20, 0);
  ck_assert_int_eq(
      uv_read_start((uv_stream_t *)&client->tcp, allocate, stop_its_timer), 0);
}

static void
open_listener(void)
{
  int length = sizeof address;

  connected = accepted = 0;
  ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &address), 0);
  ck_assert_int_eq(uv_tcp_init(&loop, &listener), 0);
  ck_assert_int_eq(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0), 0);
  ck_assert_int_eq(
      uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &length), 0);
  ck_assert_int_eq(uv_listen((uv_stream_t *)&listener, CLIENTS, on_connection),
                   0);
}

static void
close_listener(void)
{
  unsigned i;

  uv_close((uv_handle_t *)&listener, NULL);
  for (i = 0; i < accepted; i++) {
    ck_assert_int_eq(uvwheel_timer_is_active(&clients[i].idle), 0);
    uv_close((uv_handle_t *)&clients[i].tcp, NULL);
  }
  for (i = 0; i < connected; i++)
    close(clients[i].fd);
}

static bool updates;

/* And the next one connects, for the poll after this one. */
static void
take_50_ms_and_go_on(void)
{
  virtual_time_advance_ms(50);
  if (connected < CLIENTS) {
    connect_client();
    ck_assert_int_eq(write(bell_fds[1], "x", 1), 1);
  }
  if (updates)
    uv_update_time(&loop);
}

/* P6. Scenario 40. One is accepted in each poll, before the callback of the
 * same poll that takes 50 ms. */
START_TEST(a_connection_that_was_just_accepted_is_read_before_its_timer_fires)
{
  int i;

  for (i = 0; i < 2; i++) {
    updates = i > 0;
    open_wheel(ticks_ms[_i], 64);
    open_bell();
    open_listener();
    before_ring = connect_client;
    ring_at(clock_now_ms() + 100, take_50_ms_and_go_on);
    run_for(5000);
    ck_assert_uint_eq(accepted, CLIENTS);
    close_listener();
    close_bell();
    close_and_forget_wheel();
  }
}
END_TEST

int
main(void)
{
  const loop_test_t tests[] = {
      {a_message_is_read_by_a_watcher_that_is_started_anew_for_each_piece, 0,
       LENGTH(ticks_ms) * LENGTH(arrivals)},
      {reading_that_is_resumed_in_the_poll_before_the_turn_comes_first, 0,
       LENGTH(ticks_ms) * LENGTH(resumptions)},
      {reading_that_is_resumed_in_a_cut_turn_comes_first, 0, 4},
      {a_step_back_that_no_check_has_seen_leaves_nothing_unheard, 0,
       LENGTH(ticks_ms) * LENGTH(steps)},
      EACH(timers_that_begin_when_a_cut_turn_was_emptied_have_their_peers_heard,
           stoppers),
      EACH(a_connection_that_was_just_accepted_is_read_before_its_timer_fires,
           ticks_ms),
  };

  return run_loop_tests("watchers", tests, LENGTH(tests));
}
