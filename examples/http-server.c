/* SPDX-License-Identifier: MIT */

/* An HTTP server, in which the timeouts of a connection meet.
 *
 * A connection has one active timer, on one of three wheels. If a newcomer
 * needs a place, timers of the first two fire before their time: see make_room.
 * - newcomers: who has sent no request yet, neither whole nor senseless
 * - places: who has, and has its last answer, is at rest or sends a head
 * - busy: who has, and is answered or sends a body
 *
 * SIGTERM: no new connections. A request that has begun is answered; heads that
 * are written from then on say "Connection: close". Who is at rest, then or
 * later, goes within 5 s; all others within 30 s, or at a second SIGTERM.
 *
 * /bytes/N is N bytes, 64 MB at most; /work/S takes S seconds, 60 at most;
 * /events is a stream that only beats. */

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "common/server.h"
#include "http/request.h"
#include "live/http-counts.h"
#include "live/live.h"

/* What the peer has to do is expected: a stall of the server, in which nobody
 * was heard, puts it back. That holds for a head as well, although no packet
 * refreshes it. What the server does itself is started: it comes when due. */
static const struct {
  uint64_t limit_s;
  int expects;
  int wheel; /* after the first request */
} stages[STAGES] = {
    [WORK] = {0, 0, BUSY},     /* the time that the answer takes */
    [EVENTS] = {15, 0, BUSY},  /* from one heartbeat to the next */
    [ANSWER] = {150, 1, BUSY}, /* see has_moved */
    [REST] = {75, 1, PLACES},  /* between requests */
    [HEAD] = {10, 1, PLACES},  /* the first one from accept on */
    [BODY] = {10, 1, BUSY},    /* without a byte, BODY_LOOKS times */
    [END] = {5, 1, PLACES},    /* after the last answer */
    [BAD] = {5, 1, PLACES},    /* the same, to what made no sense */
};

#define BODY_RATE 500 /* bytes in a second, measured in BODY_PERIOD seconds */
#define BODY_PERIOD 10
#define BODY_LOOKS 3
#define LONGEST_WORK 60
#define DRAIN_WINDOW 5
#define DRAIN_LIMIT 30

const char *const program = "http-server";

typedef struct connection_s {
  uv_tcp_t tcp;
  uvwheel_timer_t timer; /* see enter_for */
  int stage;
  int last_stage; /* after the last answer */
  char peer[ADDRESS_TEXT_SIZE];
  uv_os_fd_t descriptor;
  request_t request;
  uint64_t received;  /* of a body, in a period */
  uint64_t period_ms; /* when that began */
  uv_write_t write;   /* one at a time */
  char head[256];     /* of the answer */
  uint64_t written;   /* to libuv, ever */
  uint64_t taken;     /* of that, by the peer, at the last look */
  unsigned quiet;     /* looks in this stage that found nothing new */
} connection_t;

static struct {
  server_options_t options;
  uv_loop_t loop;
  end_signals_t signals;
  uv_tcp_t listener;
  uvwheel_t wheels[WHEELS];
  page_t page;
  uint64_t descriptor_limit;
  http_figures_t figures;
  connection_t *next; /* NULL: there is no memory */
  int is_newcomer_waiting;
  int closes_for; /* SHED or DRAINED, while timers fire for that */
  int drains;
  uvwheel_timer_t limit;
} server;

static char read_buffer[65536], zeros[64 << 20]; /* zeros use no memory */

#define SECONDS(count) ((count)*server.options.second_ms)
#define LOG(...) (server.figures.lines_lost = log_line(__VA_ARGS__))

static void stop(void);
static void accept_next(void);
static void on_due(uvwheel_timer_t *timer);
static void follow(connection_t *connection);
static void read_on(connection_t *connection);

static void on_closed(uv_handle_t *tcp) {
  connection_t *connection = (connection_t *)tcp; /* tcp is its first member */

  request_free(&connection->request);
  free(server.next);
  server.next = connection;
  if (server.is_newcomer_waiting &&
      !uv_is_closing((uv_handle_t *)&server.listener))
    accept_next();
}

static void close_connection(connection_t *connection, int reason) {
  if (uv_is_closing((uv_handle_t *)&connection->tcp))
    return;
  server.figures.closed[reason]++;
  LOG("%s closed: %s, %" PRIu64 " requests\n", connection->peer,
      http_reasons[reason], connection->request.whole);
  uvwheel_timer_close(&connection->timer);
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
  if (--server.figures.open == 0 && server.drains)
    stop();
}

static void enter_for(connection_t *connection, int stage, uint64_t limit_s) {
  uvwheel_timer_t *timer = &connection->timer;
  int is_first =
      connection->request.whole == 0 && stage >= REST && stage <= BODY;
  uvwheel_t *wheel = &server.wheels[is_first ? NEWCOMERS : stages[stage].wheel];
  uint64_t limit_ms = SECONDS(limit_s);

  connection->stage = stage;
  connection->quiet = 0;
  connection->received = 0;
  if (uvwheel_timer_get_wheel(timer) != wheel) {
    uvwheel_timer_close(timer);
    uvwheel_timer_init(wheel, timer);
  }
  if (stages[stage].expects)
    uvwheel_timer_expect(timer, on_due, limit_ms);
  else
    uvwheel_timer_start(timer, on_due, limit_ms,
                        stage == EVENTS ? limit_ms : 0);
}

static void enter(connection_t *connection, int stage) {
  enter_for(connection, stage, stages[stage].limit_s);
}

/* ---- Answers ------------------------------------------------------------- */

/* Has the peer taken something since the last look? What it acknowledges moves
 * in steps: its kernel takes 128 KB and reports nothing until most of that is
 * read, at 1 KB/s for 128 s. The buffer of a peer that was fast has 1.4 MB,
 * with Linux 6.18 3 MB: at 20 KB/s that is 150 s. */
static int has_moved(connection_t *connection) {
  uint64_t before = connection->taken;

  connection->taken =
      connection->written - count_untaken((uv_stream_t *)&connection->tcp);
  return connection->taken != before;
}

/* The last answer is followed by a shutdown: a close could be a reset, which
 * would destroy the answer. The peer may stay nevertheless: not for long. */
static void on_written(uv_write_t *request, int status) {
  connection_t *connection = (connection_t *)request->handle;

  if (status != 0)
    close_connection(connection, GONE);
  if (status != 0 || connection->stage == EVENTS)
    return;
  connection->request.keeps &= !server.drains;
  if (!connection->request.keeps)
    shutdown(connection->descriptor, SHUT_WR);
  enter(connection, connection->request.keeps ? REST : connection->last_stage);
  if (connection->request.keeps) {
    request_next(&connection->request);
    follow(connection);
  }
  if (connection->stage >= REST)
    read_on(connection);
}

static void write_out(connection_t *connection, int head, size_t length) {
  uv_buf_t buffers[] = {uv_buf_init(connection->head, (unsigned)head),
                        uv_buf_init(zeros, (unsigned)length)};

  connection->written += buffers[0].len + length;
  if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, buffers, 2,
               on_written) != 0)
    close_connection(connection, GONE);
}

/* With a text, or with so many bytes. */
static void answer(connection_t *connection, const char *status,
                   const char *text, size_t bytes) {
  int is_head = connection->request.is_head;

  connection->request.keeps &= !server.drains;
  int head = snprintf(
      connection->head, sizeof(connection->head),
      "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n%s", status,
      strlen(text) + bytes, connection->request.keeps ? "keep-alive" : "close",
      is_head ? "" : text);
  enter(connection, ANSWER);
  write_out(connection, head, is_head ? 0 : bytes);
}

static void answer_events(connection_t *connection) {
  int is_stream = !connection->request.is_head;

  connection->request.keeps = 0;
  enter(connection, is_stream ? EVENTS : ANSWER);
  write_out(connection,
            sprintf(connection->head,
                    "HTTP/1.1 200 OK\r\nConnection: close"
                    "\r\nContent-Type: text/event-stream\r\n\r\n"),
            0);
  if (is_stream)
    read_on(connection);
}

static void serve(connection_t *connection) {
  const request_t *request = &connection->request;
  uint64_t number;

  if (request->part == REQUEST_SENSELESS)
    answer(connection, "400 Bad Request", "", 0);
  else if (request_asks(request, "/work/", LONGEST_WORK, &number))
    enter_for(connection, WORK, number);
  else if (request_asks(request, "/bytes/", sizeof(zeros), &number))
    answer(connection, "200 OK", "", number);
  else if (request_asks(request, "/events", 0, &number))
    answer_events(connection);
  else
    answer(connection, "200 OK", "hello\n", 0);
}

/* Sends a comment: proxies close a stream that is silent. A peer is given up
 * after ten beats, not after a time: in a stall there are none. */
static void beat(connection_t *connection) {
  int moves = has_moved(connection);
  int is_taken = connection->taken == connection->written;

  if (moves || is_taken)
    connection->quiet = 0;
  else if (++connection->quiet == 10)
    close_connection(connection, ANSWER);
  if (is_taken)
    write_out(connection, sprintf(connection->head, ":\n\n"), 0);
}

/* A peer at rest may still take its answer, which the kernel has. */
static void on_quiet(connection_t *connection) {
  int moves = has_moved(connection), was_answer = connection->stage == ANSWER;
  int is_taken = connection->taken == connection->written;

  if (!is_taken && (moves || !was_answer))
    enter(connection, ANSWER);
  else if (!is_taken)
    close_connection(connection, ANSWER);
  else if (!connection->request.keeps)
    close_connection(connection, connection->last_stage);
  else if (server.drains)
    close_connection(connection, DRAINED);
  else if (was_answer)
    enter(connection, REST);
  else
    close_connection(connection, connection->request.whole == 0 ? HEAD : REST);
}

/* Of all connections. A body is looked at three times: a first one must not be
 * due later than other newcomers, who would be shed for it. */
static void on_due(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;
  int stage = connection->stage;

  if (server.closes_for != 0)
    close_connection(connection, server.closes_for);
  else if (stage == BODY && ++connection->quiet < BODY_LOOKS)
    uvwheel_timer_expect(timer, on_due, SECONDS(stages[BODY].limit_s));
  else if (stage == HEAD || stage == BODY)
    close_connection(connection, stage);
  else if (stage == WORK)
    answer(connection, "200 OK", "worked\n", 0);
  else if (stage == EVENTS)
    beat(connection);
  else
    on_quiet(connection);
}

/* ---- Requests ------------------------------------------------------------ */

/* A period begins with its first byte: a body may begin after a pause. Its rate
 * is looked at when something has come: then all that waited in the socket
 * while the server was blocked is counted. */
static void check_rate(connection_t *connection) {
  int wheel = connection->request.whole == 0 ? NEWCOMERS : BUSY;
  uint64_t now_ms = uv_now(&server.loop);

  server.figures.refreshes[wheel]++;
  connection->quiet = 0;
  uvwheel_timer_refresh(&connection->timer);
  if (connection->received == 0)
    connection->period_ms = now_ms;
  connection->received += connection->request.came;
  uint64_t passed_ms = now_ms - connection->period_ms;
  if (passed_ms < SECONDS(BODY_PERIOD))
    return;
  if (SECONDS(connection->received) < passed_ms * BODY_RATE)
    close_connection(connection, BODY);
  connection->received = 0;
}

/* A peer that takes nothing would get a part of it: that is the end. */
static void send_continue(connection_t *connection) {
  char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  uv_buf_t buffer = uv_buf_init(text, sizeof(text) - 1);

  connection->request.waits = 0;
  connection->written += buffer.len;
  if (uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1) !=
      (int)buffer.len)
    close_connection(connection, GONE);
}

/* However much of a request has come, the timer moves once. A first head has
 * what is left of its newcomer's time. */
static void follow(connection_t *connection) {
  const request_t *request = &connection->request;

  if (request->part >= REQUEST_WHOLE) {
    uv_read_stop((uv_stream_t *)&connection->tcp);
    connection->last_stage = request->part == REQUEST_WHOLE ? END : BAD;
    serve(connection);
    return;
  }
  int stage = REST + (int)request->part; /* or HEAD, or BODY */
  if (stage == HEAD && connection->request.whole == 0)
    connection->stage = HEAD;
  else if (stage != connection->stage)
    enter(connection, stage);
  if (request->came != 0)
    check_rate(connection);
  if (request->waits && stage == BODY)
    send_continue(connection);
}

/* Nothing is read while a request is answered, but /events. So a peer that has
 * ended what it sends gets its answer. */
static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buf) {
  connection_t *connection = (connection_t *)stream;

  if (length < 0)
    close_connection(connection,
                     connection->stage >= END ? connection->stage : GONE);
  else if (length > 0 && connection->request.keeps) {
    request_parse(&connection->request, buf->base, (size_t)length);
    follow(connection);
  }
}

static void on_alloc(uv_handle_t *tcp, size_t suggested, uv_buf_t *buf) {
  (void)tcp, (void)suggested;
  *buf = uv_buf_init(read_buffer, sizeof(read_buffer));
}

static void read_on(connection_t *connection) {
  if (uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) != 0)
    close_connection(connection, GONE);
}

/* ---- Newcomers ----------------------------------------------------------- */

static uint64_t close_soonest(int wheel, uint64_t count, int reason) {
  server.closes_for = reason;
  uint64_t closed = uvwheel_fire_soonest(&server.wheels[wheel], count);
  server.closes_for = 0;
  return closed;
}

/* Newcomers have little time, so they are due before those at rest, who are the
 * idlest. If both were on one wheel, newcomers would push out each other before
 * they could say a word. They do so only while they have more than an eighth of
 * the places, which is a flood, or if nobody is at rest. */
static void make_room(void) {
  uint64_t most = server.options.most_peers / 8;
  int is_flood = uvwheel_count(&server.wheels[NEWCOMERS]) > most;
  uint64_t count = 1 + server.figures.open / 1024;

  if (close_soonest(is_flood ? NEWCOMERS : PLACES, count, SHED) == 0)
    close_soonest(is_flood ? PLACES : NEWCOMERS, count, SHED);
}

/* Returns 0, or why it is turned away. */
static int accept_on(connection_t *connection) {
  uv_tcp_t *tcp = &connection->tcp;
  struct sockaddr_storage peer = {0};

  *connection = (connection_t){.timer.data = connection};
  request_init(&connection->request);
  uv_tcp_init(&server.loop, tcp);
  if (uv_accept((uv_stream_t *)&server.listener, (uv_stream_t *)tcp) != 0)
    return NOT_ACCEPTED;
  uv_tcp_getpeername(tcp, (struct sockaddr *)&peer, &(int){sizeof(peer)});
  format_address(&peer, connection->peer);
  uv_fileno((uv_handle_t *)tcp, &connection->descriptor);
  if (server.next == NULL)
    return NO_MEMORY;
  if (server.figures.open > server.options.most_peers)
    return NO_PLACE;
  return is_spare_descriptor(connection->descriptor, server.descriptor_limit)
             ? NO_DESCRIPTOR
             : 0;
}

/* There is always memory to turn a newcomer away. While it is used for that the
 * next one waits: libuv asks for no more until uv_accept is called. */
static void accept_next(void) {
  connection_t *connection = server.next;

  server.is_newcomer_waiting = connection == NULL;
  if (connection == NULL)
    return;
  server.next = malloc(sizeof(*connection));
  if (server.figures.open++ >= server.options.most_peers || server.next == NULL)
    make_room();
  /* libuv before 1.45 accepts whole bursts in one iteration: without this the
   * time of the last one would begin before it came. */
  uv_update_time(&server.loop);
  int reason = accept_on(connection);
  if (reason == 0) {
    server.figures.accepted++;
    enter_for(connection, REST, stages[HEAD].limit_s);
    read_on(connection);
  } else {
    close_connection(connection, reason);
  }
}

static void on_connection(uv_stream_t *listener, int status) {
  (void)listener;
  if (status == 0)
    accept_next();
  else
    server.figures.closed[NOT_ACCEPTED]++;
}

/* ---- The end ------------------------------------------------------------- */

static void stop(void) {
  if (!server.drains)
    uv_close((uv_handle_t *)&server.listener, NULL);
  close_end_signals(&server.signals);
  page_stop(&server.page);
  for (int i = 0; i < WHEELS; i++)
    uvwheel_close(&server.wheels[i], NULL);
}

static void on_limit(uvwheel_timer_t *timer) {
  uvwheel_timer_close(timer); /* or it would be fired, too */
  if (server.figures.open == 0)
    stop();
  for (int i = 0; i < WHEELS; i++)
    close_soonest(i, UINT64_MAX, DRAINED); /* the last one: stop */
}

/* At random, so that its clients do not come to the next server all at once. */
static void leave_soon(uvwheel_timer_t *timer, void *arg) {
  uint64_t number = 0;

  (void)arg;
  uv_random(NULL, NULL, &number, sizeof(number), 0, NULL); /* a system call */
  if (((connection_t *)timer->data)->stage == REST)
    uvwheel_timer_start(timer, on_due, number % SECONDS(DRAIN_WINDOW), 0);
}

static void on_signal(uv_signal_t *signal, int number) {
  (void)signal, (void)number;
  LOG("ends with %" PRIu64 " connections\n", server.figures.open);
  if (server.drains || server.figures.open == 0) {
    on_limit(&server.limit);
    return;
  }
  server.drains = 1;
  uv_close((uv_handle_t *)&server.listener, NULL);
  for (int i = 0; i < WHEELS; i++)
    uvwheel_walk(&server.wheels[i], leave_soon, NULL);
  uvwheel_timer_init(&server.wheels[BUSY], &server.limit);
  uvwheel_timer_unref(&server.limit);
  uvwheel_timer_start(&server.limit, on_limit, SECONDS(DRAIN_LIMIT), 0);
}

/* Those of one tick are shed in any order: that of newcomers is short. */
static int make_wheels(void) {
  uvwheel_options_t *made = &server.options.wheel;
  int error = 0;

  for (int i = 0; i < WHEELS && error == 0; i++) {
    made->tick_ms = 1 + SECONDS(1) / (i == NEWCOMERS ? 101 : 11);
    error = uvwheel_init(&server.loop, &server.wheels[i], made);
  }
  if (error == 0 && (server.next = malloc(sizeof(*server.next))) == NULL)
    error = UV_ENOMEM;
  if (error != 0)
    complain("cannot make the wheels: %s", uv_strerror(error));
  return error;
}

int main(int argc, char **argv) {
  server_options_t *options = &server.options;
  char text[ADDRESS_TEXT_SIZE];
  live_wheel_t shown[WHEELS];

  parse_options(argc, argv, HTTP_SERVER, options);
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  server.descriptor_limit = need_descriptors(32);
  options->timeout_ms = SECONDS(stages[REST].limit_s);
  open_loop(&server.loop, &server.signals, on_signal, NULL);
  options->most_peers =
      most_connections(options->most_peers, server.descriptor_limit);
  uv_tcp_init(&server.loop, &server.listener);
  http_show(shown, server.wheels, &server.figures);
  int error = make_wheels();
  if (error == 0)
    error = listen_at(&server.listener, options->host, options->port, 4096,
                      on_connection, text);
  if (error == 0 && options->http_port != NO_HTTP)
    error = page_start(&server.page, &server.loop, options, shown, WHEELS);
  if (error == 0)
    LOG("listening on %s\n", text);
  else
    stop();
  run_to_end(&server.loop);
  page_free(&server.page);
  free(server.next);
  return error == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
