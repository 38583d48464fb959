/* SPDX-License-Identifier: MIT */

/* An HTTP server, in which the timeouts of a connection meet.
 *
 * A connection has one active timer, on one of two wheels. Those on `places`
 * fire before their time if a newcomer needs a place, the soonest due first:
 * silent newcomers and first heads (10 s), first bodies (30 s), then the idlest
 * (75 s). A peer that has sent a whole request is on `busy` in the next ones.
 *
 * SIGTERM: no new connections. A request that has begun is answered, with
 * "Connection: close". Who is at rest goes within 5 s, all others after 30 s or
 * at a second SIGTERM.
 *
 * /bytes/N is N bytes, 64 MB at most; /work/S takes S seconds; /events is a
 * stream that only beats. */

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "common/server.h"
#include "live/live.h"

/* llhttp took the place of http_parser, and has the same callbacks. */
#ifdef HAS_LLHTTP
#include <llhttp.h>
typedef llhttp_t http_parser;
typedef llhttp_settings_t http_parser_settings;
#define http_should_keep_alive llhttp_should_keep_alive
#define http_parser_init(parser, type) llhttp_init(parser, type, &settings)
#define parses(parser, bytes, length) \
  (llhttp_execute(parser, bytes, length) == HPE_OK)
#else
#include <http_parser.h>
#define parses(parser, bytes, length) \
  (http_parser_execute(parser, &settings, bytes, length) == (length))
#endif

/* The stages of a connection; from REST on, why it is closed. */
enum { WORK, EVENTS, REST, HEAD, BODY, ANSWER, END, SHED, DRAINED, FULL, GONE };
#define REASONS (GONE + 1)

/* What waits for the peer is refreshed: a stall of the server, in which nobody
 * was heard, puts it back. Deadlines, and what the server does itself, are only
 * started: they come when they are due. */
static const struct {
  const char *name;
  uint64_t limit_s;
  int is_refreshed;
} stages[REASONS] = {
    [WORK] = {"", 0, 0},          /* the time that the answer takes */
    [EVENTS] = {"", 15, 0},       /* from one heartbeat to the next */
    [REST] = {"idle", 75, 1},     /* between requests */
    [HEAD] = {"head", 10, 0},     /* also from accept to the first byte */
    [BODY] = {"body", 30, 1},     /* without a byte; see check_rate */
    [ANSWER] = {"stuck", 150, 1}, /* see has_moved */
    [END] = {"done", 5, 1},       /* after the last answer */
    [SHED] = {"shed", 0, 0},      [DRAINED] = {"drained", 0, 0},
    [FULL] = {"full", 0, 0},      [GONE] = {"gone", 0, 0},
};

#define BODY_RATE 500 /* bytes in a second, measured in BODY_PERIOD seconds */
#define BODY_PERIOD 10
#define DRAIN_WINDOW 5
#define DRAIN_LIMIT 30

const char *const program = "http-server";

typedef struct connection_s {
  uv_tcp_t tcp;
  uvwheel_timer_t timer; /* on one of two wheels, see enter */
  int stage;
  char peer[ADDRESS_TEXT_SIZE];
  uv_os_fd_t descriptor;
  http_parser parser;
  char target[64];
  uint64_t requests; /* that came as a whole   */
  int keeps;         /* there may be more      */
  uint64_t received; /* of a body, in a period */
  uint64_t period_ms;
  uv_write_t write; /* one at a time */
  char head[256];   /* of the answer */
  uint64_t written; /* to libuv, ever */
  uint64_t taken;   /* of that, by the peer, at the last look */
  unsigned quiet_beats;
} connection_t;

static struct {
  server_options_t options;
  uv_loop_t loop;
  end_signals_t signals;
  uv_tcp_t listener;
  uvwheel_t places, busy;
  page_t page;
  uint64_t descriptor_limit;
  uint64_t open, refreshes, closed[2][REASONS]; /* on each wheel */
  int closes_for; /* SHED or DRAINED, while timers fire for that */
  int drains;
  uvwheel_timer_t limit;
} server;

static char read_buffer[65536], zeros[64 << 20]; /* zeros use no memory */

#define SECONDS(count) ((count)*server.options.second_ms)

static void stop(void);
static void on_due(uvwheel_timer_t *timer);
static void read_on(connection_t *connection);

static void on_closed(uv_handle_t *tcp) {
  free(tcp); /* the connection: tcp is its first member */
}

static void close_connection(connection_t *connection, int reason) {
  if (uv_is_closing((uv_handle_t *)&connection->tcp))
    return;
  server.closed[uvwheel_timer_get_wheel(&connection->timer) == &server.busy]
               [reason]++;
  announce("%s closed: %s, %" PRIu64 " requests\n", connection->peer,
           stages[reason].name, connection->requests);
  uvwheel_timer_close(&connection->timer);
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
  if (--server.open == 0 && server.drains)
    stop();
}

/* Moves the timer to its wheel. A refresh right after the start puts the first
 * silence back, too. */
static void enter_for(connection_t *connection, int stage, uint64_t limit_s) {
  int is_first = connection->requests == 0 && stage <= BODY;

  connection->stage = stage;
  uvwheel_timer_close(&connection->timer);
  uvwheel_timer_init(stage == REST || is_first ? &server.places : &server.busy,
                     &connection->timer);
  uvwheel_timer_start(&connection->timer, on_due, SECONDS(limit_s),
                      stage == EVENTS ? SECONDS(limit_s) : 0);
  if (stages[stage].is_refreshed)
    uvwheel_timer_refresh(&connection->timer);
}

static void enter(connection_t *connection, int stage) {
  enter_for(connection, stage, stages[stage].limit_s);
}

/* ---- Answers ------------------------------------------------------------- */

/* Has the peer taken something since the last look? What it acknowledges moves
 * in steps: its kernel takes 128 KB in its place, and reports nothing until
 * most of that is read. So a peer that reads 1 KB/s stands still for 128 s. The
 * buffer of one that was fast has 1.4 MB or more: at 10 KB/s that is 140 s. */
static int has_moved(connection_t *connection) {
  uint64_t before = connection->taken;

  connection->taken =
      connection->written - count_untaken((uv_stream_t *)&connection->tcp);
  return connection->taken != before;
}

/* The last answer is followed by a shutdown: a close could be a reset, which
 * would destroy the answer. */
static void on_written(uv_write_t *request, int status) {
  connection_t *connection = (connection_t *)request->handle;

  if (status == UV_ECANCELED || connection->stage == EVENTS)
    return;
  if (!connection->keeps)
    shutdown(connection->descriptor, SHUT_WR);
  enter(connection, connection->keeps ? REST : END);
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
                   const char *text, uint64_t length) {
  int is_head = connection->parser.method == HTTP_HEAD;
  size_t bytes = length < sizeof(zeros) ? (size_t)length : sizeof(zeros);

  connection->keeps &= !server.drains;
  int head =
      snprintf(connection->head, sizeof(connection->head),
               "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: %s\r\n\r\n%s",
               status, strlen(text) + bytes,
               connection->keeps ? "keep-alive" : "close", is_head ? "" : text);
  enter(connection, ANSWER);
  write_out(connection, head, is_head ? 0 : bytes);
}

static void serve(connection_t *connection) {
  if (strncmp(connection->target, "/work/", 6) == 0) {
    enter_for(connection, WORK, strtoull(connection->target + 6, NULL, 10));
  } else if (strncmp(connection->target, "/bytes/", 7) == 0) {
    answer(connection, "200 OK", "",
           strtoull(connection->target + 7, NULL, 10));
  } else if (strcmp(connection->target, "/events") == 0) {
    connection->keeps = 0;
    int head = sprintf(connection->head,
                       "HTTP/1.1 200 OK\r\nConnection: close"
                       "\r\nContent-Type: text/event-stream\r\n\r\n");
    enter(connection, EVENTS);
    write_out(connection, head, 0);
    read_on(connection);
  } else {
    answer(connection, "200 OK", "hello\n", 0);
  }
}

/* Sends a comment: proxies close a stream that is silent. A peer is given up
 * after ten beats, not after a time: in a stall there are none. */
static void beat(connection_t *connection) {
  int moves = has_moved(connection);
  int is_taken = connection->taken == connection->written;

  if (moves || is_taken)
    connection->quiet_beats = 0;
  else if (++connection->quiet_beats == 10)
    close_connection(connection, ANSWER);
  if (is_taken)
    write_out(connection, sprintf(connection->head, ":\n\n"), 0);
}

/* A peer at rest may still take its answer, which the kernel has. In its own
 * callback a one-shot timer is idle: it takes a start, no refresh. */
static void on_quiet(connection_t *connection) {
  int moves = has_moved(connection), was_answer = connection->stage == ANSWER;
  int is_taken = connection->taken == connection->written;
  int is_last = !connection->keeps || server.drains;

  if (!is_taken && (moves || !was_answer))
    enter(connection, ANSWER);
  else if (!is_taken)
    close_connection(connection, ANSWER);
  else if (was_answer && !is_last)
    enter(connection, REST);
  else if (is_last)
    close_connection(connection, connection->keeps ? DRAINED : END);
  else
    close_connection(connection, connection->requests == 0 ? HEAD : REST);
}

/* The callback of all timers of connections. */
static void on_due(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  if (server.closes_for != 0)
    close_connection(connection, server.closes_for);
  else if (connection->stage == HEAD || connection->stage == BODY)
    close_connection(connection, connection->stage);
  else if (connection->stage == WORK)
    answer(connection, "200 OK", "worked\n", 0);
  else if (connection->stage == EVENTS)
    beat(connection);
  else
    on_quiet(connection);
}

/* ---- Requests ------------------------------------------------------------ */

static int on_message_begin(http_parser *parser) {
  connection_t *connection = parser->data;

  if (connection->stage == WORK)
    return -1; /* see on_read */
  connection->target[0] = '\0';
  enter(connection, HEAD);
  return 0;
}

static int on_url(http_parser *parser, const char *at, size_t length) {
  char *target = ((connection_t *)parser->data)->target;
  size_t had = strlen(target);

  snprintf(target + had, sizeof(((connection_t *)0)->target) - had, "%.*s",
           (int)length, at);
  return 0;
}

static int on_headers_complete(http_parser *parser) {
  connection_t *connection = parser->data;

  connection->received = 0;
  connection->period_ms = uv_now(&server.loop);
  enter(connection, BODY);
  return 0;
}

static int on_message_complete(http_parser *parser) {
  connection_t *connection = parser->data;

  connection->stage = WORK; /* see serve */
  connection->requests++;
  connection->keeps = http_should_keep_alive(parser);
  return 0;
}

static const http_parser_settings settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_headers_complete = on_headers_complete,
    .on_message_complete = on_message_complete,
};

/* The rate is looked at when something has come: then all that waited in the
 * socket while the server was blocked is counted. */
static void check_rate(connection_t *connection, uint64_t length) {
  uint64_t passed_ms = uv_now(&server.loop) - connection->period_ms;

  server.refreshes++;
  uvwheel_timer_refresh(&connection->timer);
  connection->received += length;
  if (passed_ms < SECONDS(BODY_PERIOD))
    return;
  if (SECONDS(connection->received) < passed_ms * BODY_RATE)
    close_connection(connection, BODY);
  connection->received = 0;
  connection->period_ms += passed_ms;
}

/* Nothing is read while a request is answered. So a peer that has ended what it
 * sends gets its answer. One that sends the next request without waiting gets
 * the first answer, and is told that it was the last. */
static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buf) {
  connection_t *connection = (connection_t *)stream;

  if (length < 0)
    close_connection(connection, connection->stage == END ? END : GONE);
  if (length <= 0 || !connection->keeps)
    return;
  int is_good = parses(&connection->parser, buf->base, (size_t)length);
  connection->keeps &= is_good;
  if (connection->stage == WORK || !is_good)
    uv_read_stop(stream);
  if (connection->stage == WORK)
    serve(connection);
  else if (!is_good)
    answer(connection, "400 Bad Request", "", 0);
  else if (connection->stage == BODY)
    check_rate(connection, (uint64_t)length);
}

static void on_alloc(uv_handle_t *tcp, size_t suggested, uv_buf_t *buf) {
  (void)tcp, (void)suggested;
  *buf = uv_buf_init(read_buffer, sizeof(read_buffer));
}

static void read_on(connection_t *connection) {
  if (uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) != 0)
    close_connection(connection, GONE);
}

static void close_soonest(uvwheel_t *wheel, uint64_t count, int reason) {
  server.closes_for = reason;
  uvwheel_fire_soonest(wheel, count);
  server.closes_for = 0;
}

static void on_connection(uv_stream_t *listener, int status) {
  connection_t *connection = calloc(1, sizeof(*connection));
  uv_tcp_t *tcp = (uv_tcp_t *)connection;
  struct sockaddr_storage peer = {0};

  if (connection == NULL)
    abort(); /* echo.c shows how to go on */
  if (server.open++ >= server.options.most_peers)
    close_soonest(&server.places, 1 + server.open / 1024, SHED);
  /* libuv accepts whole bursts in one iteration: without this the time of the
   * last one would begin before it came. */
  uv_update_time(&server.loop);
  uv_tcp_init(&server.loop, tcp);
  http_parser_init(&connection->parser, HTTP_REQUEST);
  connection->parser.data = connection->timer.data = connection;
  connection->keeps = 1;
  enter_for(connection, REST, stages[HEAD].limit_s);
  if (status == 0)
    status = uv_accept(listener, (uv_stream_t *)tcp);
  uv_tcp_getpeername(tcp, (struct sockaddr *)&peer, &(int){sizeof(peer)});
  format_address(&peer, connection->peer);
  uv_fileno((uv_handle_t *)tcp, &connection->descriptor);
  if (status != 0 || server.open > server.options.most_peers ||
      is_spare_descriptor(connection->descriptor, server.descriptor_limit))
    close_connection(connection, FULL);
  else
    read_on(connection);
}

/* ---- The end ------------------------------------------------------------- */

static void stop(void) {
  if (!server.drains)
    uv_close((uv_handle_t *)&server.listener, NULL);
  close_end_signals(&server.signals);
  page_stop(&server.page);
  uvwheel_close(&server.places, NULL);
  uvwheel_close(&server.busy, NULL);
}

static void on_limit(uvwheel_timer_t *timer) {
  uvwheel_timer_close(timer); /* or it would be fired, too */
  if (server.open == 0)
    stop();
  close_soonest(&server.places, UINT64_MAX, DRAINED);
  close_soonest(&server.busy, UINT64_MAX, DRAINED); /* the last one: stop */
}

/* At random, so that its clients do not come to the next server all at once. */
static void leave_soon(uvwheel_timer_t *timer, void *arg) {
  connection_t *connection = timer->data;
  uint64_t window_ms = SECONDS(DRAIN_WINDOW);

  (void)arg;
  if (connection->stage == REST)
    uvwheel_timer_start(timer, on_due, (uint64_t)random() % window_ms, 0);
}

static void on_signal(uv_signal_t *signal, int number) {
  unsigned seed = 0;

  (void)signal, (void)number;
  announce("ends with %" PRIu64 " connections\n", server.open);
  if (server.drains || server.open == 0) {
    on_limit(&server.limit);
    return;
  }
  server.drains = 1;
  uv_close((uv_handle_t *)&server.listener, NULL);
  uv_random(NULL, NULL, &seed, sizeof(seed), 0, NULL); /* a system call */
  srandom(seed);
  uvwheel_walk(&server.places, leave_soon, NULL);
  uvwheel_timer_init(&server.busy, &server.limit);
  uvwheel_timer_unref(&server.limit);
  uvwheel_timer_start(&server.limit, on_limit, SECONDS(DRAIN_LIMIT), 0);
}

static int start_page(void) {
  static const live_figure_t closed = {.place = LIVE_SERVER,
                                       .type = LIVE_COUNTER,
                                       .unit = LIVE_ONE,
                                       .name = "closed",
                                       .help = "Connections closed."};
  static live_figure_t rows[REASONS];
  const live_wheel_t shown[] = {
      {"places", &server.places, &server.refreshes, server.closed[0],
       rows + REST, REASONS - REST},
      {"busy", &server.busy, &server.refreshes, server.closed[1], rows + REST,
       REASONS - REST},
  };

  for (size_t i = REST; i < REASONS; i++) {
    rows[i] = closed;
    rows[i].offset = i * sizeof(uint64_t);
    rows[i].reason = stages[i].name;
  }
  return page_start(&server.page, &server.loop, &server.options, shown, 2);
}

int main(int argc, char **argv) {
  server_options_t *options = &server.options;
  char text[ADDRESS_TEXT_SIZE];
  int error;

  parse_options(argc, argv, HTTP_SERVER, options);
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  server.descriptor_limit = need_descriptors(32);
  options->timeout_ms = SECONDS(stages[REST].limit_s);
  options->wheel.tick_ms = 1 + SECONDS(1) / 11;
  open_loop(&server.loop, &server.signals, on_signal, NULL);
  options->most_peers =
      most_connections(options->most_peers, server.descriptor_limit);
  uv_tcp_init(&server.loop, &server.listener);
  if ((error = uvwheel_init(&server.loop, &server.places, &options->wheel)) ||
      (error = uvwheel_init(&server.loop, &server.busy, &options->wheel)))
    complain("cannot make the wheels: %s", uv_strerror(error));
  else
    error = listen_at(&server.listener, options->host, options->port, 4096,
                      on_connection, text);
  if (error == 0 && options->http_port != NO_HTTP)
    error = start_page();
  if (error == 0)
    announce("listening on %s\n", text);
  else
    stop();
  run_to_end(&server.loop);
  page_free(&server.page);
  return error == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
