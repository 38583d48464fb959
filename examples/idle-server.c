/* SPDX-License-Identifier: MIT */

/* An echo server that closes idle connections.
 *
 * It shows how a libuv server uses uvwheel: each connection embeds one timer,
 * starts it when accepted, refreshes it at every read and every completed
 * write, and stops it when closing. The timer itself is in idle-timer.c, since
 * this server can be run without the wheel as well, for comparison.
 *
 * It also shows what a server needs besides to stay up:
 * - a peer that does not read: while bytes wait to be sent to it, nothing more
 *   is read from it, so at most one read buffer is held for each connection
 * - descriptors or memory used up: new connections are turned away, aloud,
 *   until there is some again
 * - SIGINT and SIGTERM: every handle is closed, and uv_loop_close() confirms it
 */

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "common/idle-timer.h"
#include "common/server-options.h"
#include "common/usage.h"
#include "live/live.h"

#define BACKLOG 4096
#define MIN_DESCRIPTORS 32

const char *const program = "idle-server";

typedef struct server_s {
  uv_loop_t loop;
  uv_tcp_t listener;
  end_signals_t signals;
  uv_timer_t stats_timer;
  idle_t idle;
  live_t *live;
  int status; /* the exit status to be */

  server_options_t options;
  uint64_t descriptor_limit;
  uint64_t next_complaint_ms;
  uv_tcp_t unwelcome; /* see turn_away */
  int is_turning_away;
  int is_newcomer_waiting;

  uint64_t open; /* connections whose memory is in use */
  uint64_t accepted;
  uint64_t turned_away;
  uint64_t refreshes;
  uint64_t idle_closes;

  char read_buffer[65536]; /* one is enough: see on_read */
} server_t;

typedef struct connection_s {
  uv_tcp_t tcp; /* its data points to the server */
  /* The last member: no more of it is allocated than its kind uses. */
  idle_timer_t idle;
} connection_t;

typedef struct unsent_s {
  uv_write_t request;
  char bytes[];
} unsent_t;

/* ---- Figures ----------------------------------------------------------- */

static void
print_figures(const server_t *server, const char *title)
{
  usage_t usage = usage_of_process();

  printf("%s timer=%s open=%" PRIu64 " accepted=%" PRIu64
         " turned_away=%" PRIu64 " refreshes=%" PRIu64 " idle_closes=%" PRIu64
         " timer_bytes=%zu cpu_s=%.3f rss_kib=%" PRIu64 " max_rss_kib=%" PRIu64,
         title, server->idle.kind->name, server->open, server->accepted,
         server->turned_away, server->refreshes, server->idle_closes,
         server->idle.kind->timer_bytes, usage.cpu_s, usage.rss_kib,
         usage.max_rss_kib);
  idle_print_stats(&server->idle, stdout);
  putchar('\n');
  fflush(stdout);
}

static void
on_stats_timer(uv_timer_t *timer)
{
  print_figures(timer->data, "stats");
}

/* ---- A connection's end ------------------------------------------------ */

static connection_t *
connection_of(idle_timer_t *timer)
{
  return (connection_t *)((char *)timer - offsetof(connection_t, idle));
}

static void
on_timer_released(idle_timer_t *timer)
{
  free(connection_of(timer));
}

static void
on_connection_closed(uv_handle_t *tcp)
{
  connection_t *connection = (connection_t *)tcp;
  server_t *server = tcp->data;

  server->open--;
  server->idle.kind->release(&server->idle, &connection->idle);
}

static void
close_connection(connection_t *connection)
{
  server_t *server = connection->tcp.data;
  uv_handle_t *tcp = (uv_handle_t *)&connection->tcp;

  if (uv_is_closing(tcp))
    return;
  server->idle.kind->stop(&connection->idle);
  uv_close(tcp, on_connection_closed);
}

static void
on_idle(idle_timer_t *timer)
{
  connection_t *connection = connection_of(timer);
  server_t *server = connection->tcp.data;

  server->idle_closes++;
  close_connection(connection);
}

/* ---- Echo -------------------------------------------------------------- */

/* Traffic: the idle time begins anew. */
static void
refresh(connection_t *connection)
{
  server_t *server = connection->tcp.data;

  server->refreshes++;
  server->idle.kind->refresh(&connection->idle);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk);

static void
on_read_wanted(uv_handle_t *tcp, size_t suggested, uv_buf_t *buffer)
{
  server_t *server = tcp->data;

  (void)suggested;
  *buffer = uv_buf_init(server->read_buffer, sizeof(server->read_buffer));
}

static void
on_unsent_sent(uv_write_t *request, int status)
{
  connection_t *connection = (connection_t *)request->handle;

  free(request->data); /* the request is part of that */
  if (status == UV_ECANCELED)
    return; /* the connection is closing */
  if (status != 0) {
    close_connection(connection);
    return;
  }
  refresh(connection);
  uv_read_start((uv_stream_t *)&connection->tcp, on_read_wanted, on_read);
}

/* The peer reads more slowly than it writes: keeps the bytes until they can be
 * sent, and reads nothing until then. Nor does it count as traffic: who never
 * reads gets idle. */
static void
send_later(connection_t *connection, const char *bytes, size_t length)
{
  unsent_t *unsent = malloc(sizeof(*unsent) + length);

  if (unsent == NULL) {
    complain("out of memory, a connection is closed");
    close_connection(connection);
    return;
  }
  memcpy(unsent->bytes, bytes, length);
  unsent->request.data = unsent;
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  uv_buf_t buffer = uv_buf_init(unsent->bytes, (unsigned)length);
  uv_read_stop(stream);
  if (uv_write(&unsent->request, stream, &buffer, 1, on_unsent_sent) != 0) {
    free(unsent);
    close_connection(connection);
  }
}

/* All connections share one read buffer, because its bytes are sent, or copied
 * by send_later, before this returns. */
static void
on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk)
{
  connection_t *connection = (connection_t *)stream;

  if (length == 0)
    return; /* libuv's word for "try again" */
  if (length < 0) {
    close_connection(connection);
    return;
  }
  refresh(connection);
  uv_buf_t buffer = uv_buf_init(chunk->base, (unsigned)length);
  int sent = uv_try_write(stream, &buffer, 1);
  if (sent == length)
    refresh(connection);
  else if (sent >= 0 || sent == UV_EAGAIN)
    send_later(connection, chunk->base + (sent > 0 ? sent : 0),
               (size_t)(length - (sent > 0 ? sent : 0)));
  else
    close_connection(connection);
}

/* ---- Stop ------------------------------------------------------------- */

/* The signals, the idle timers and the live page close what is theirs. */
static void
close_handle(uv_handle_t *handle, void *data)
{
  server_t *server = data;

  if (uv_is_closing(handle))
    return;
  if (handle == (uv_handle_t *)&server->listener ||
      handle == (uv_handle_t *)&server->stats_timer)
    uv_close(handle, NULL);
  else if (uv_handle_get_type(handle) == UV_TCP)
    close_connection((connection_t *)handle);
}

static void
stop(server_t *server)
{
  close_end_signals(&server->signals);
  live_stop(server->live);
  uv_walk(&server->loop, close_handle, server);
  server->idle.kind->close(&server->idle);
}

static void
on_signal(uv_signal_t *signal, int number)
{
  (void)number;
  stop(signal->data);
}

/* ---- Accept ------------------------------------------------------------ */

/* Full servers meet many newcomers: one complaint a second is enough. */
static void
complain_of_accept(server_t *server, const char *reason)
{
  uint64_t now_ms = uv_now(&server->loop);

  if (now_ms < server->next_complaint_ms)
    return;
  server->next_complaint_ms = now_ms + 1000;
  complain("%s with %" PRIu64 " connections: new ones are turned away", reason,
           server->open);
}

static void
welcome(server_t *server, connection_t *connection)
{
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;

  if (is_spare_descriptor(&connection->tcp, server->descriptor_limit)) {
    server->turned_away++;
    complain_of_accept(server, "out of descriptors");
    close_connection(connection);
    return;
  }
  server->accepted++;
  if (uv_read_start(stream, on_read_wanted, on_read) != 0)
    close_connection(connection);
}

static void accept_next(server_t *server);

static void
on_turned_away(uv_handle_t *tcp)
{
  server_t *server = tcp->data;

  server->is_turning_away = 0;
  if (!server->is_newcomer_waiting ||
      uv_is_closing((uv_handle_t *)&server->listener))
    return;
  server->is_newcomer_waiting = 0;
  accept_next(server);
}

/* There is no memory for a connection, but the server has a handle to accept
 * one with and close it. While that is in use the next one waits: libuv then
 * asks for no more until uv_accept is called. */
static void
turn_away(server_t *server)
{
  server->is_turning_away = 1;
  server->turned_away++;
  complain_of_accept(server, "out of memory");
  uv_tcp_init(&server->loop, &server->unwelcome);
  server->unwelcome.data = server;
  uv_accept((uv_stream_t *)&server->listener,
            (uv_stream_t *)&server->unwelcome);
  uv_close((uv_handle_t *)&server->unwelcome, on_turned_away);
}

static void
accept_next(server_t *server)
{
  connection_t *connection =
      malloc(offsetof(connection_t, idle) + server->idle.kind->timer_bytes);

  if (connection == NULL) {
    turn_away(server);
    return;
  }
  uv_tcp_init(&server->loop, &connection->tcp);
  connection->tcp.data = server;
  server->open++;
  /* libuv accepts whole bursts in one iteration: without this the last of them
   * would be given an idle time that began before it came. */
  uv_update_time(&server->loop);
  /* Started before it is accepted, so that close_connection always finds a
   * timer to release. */
  int started = server->idle.kind->start(&server->idle, &connection->idle);
  int accepted = uv_accept((uv_stream_t *)&server->listener,
                           (uv_stream_t *)&connection->tcp);
  if (started != 0 || accepted != 0)
    close_connection(connection);
  else
    welcome(server, connection);
}

static void
on_connection(uv_stream_t *listener, int status)
{
  server_t *server = listener->data;

  if (status != 0)
    complain_of_accept(server, uv_strerror(status));
  else if (server->is_turning_away)
    server->is_newcomer_waiting = 1;
  else
    accept_next(server);
}

/* ---- Start ------------------------------------------------------------- */

static int
start_listening(server_t *server)
{
  char text[ADDRESS_TEXT_SIZE];
  int error = listen_at(&server->listener, server->options.host,
                        server->options.port, BACKLOG, on_connection, text);

  if (error == 0)
    announce("listening on %s\n", text);
  return error;
}

static int
start_live(server_t *server)
{
  live_options_t options = {
      .wheel = &server->idle.wheel,
      .refreshes = &server->refreshes,
      .timeout_ms = server->idle.timeout_ms,
      .descriptor_limit = server->descriptor_limit,
      .host = server->options.http_host,
      .port = (uint16_t)server->options.http_port,
  };

  return live_start(&options, &server->live);
}

static void
init_handles(server_t *server)
{
  uv_loop_t *loop = &server->loop;

  open_loop(loop, &server->signals, on_signal, server);
  uv_tcp_init(loop, &server->listener);
  uv_timer_init(loop, &server->stats_timer);
  server->listener.data = server;
  server->stats_timer.data = server;
  server->idle.loop = loop;
  server->idle.on_idle = on_idle;
  server->idle.on_released = on_timer_released;
}

static int
start(server_t *server)
{
  int error = server->idle.kind->open(&server->idle, &server->options.wheel);

  if (error != 0) {
    complain("cannot make the wheel: %s", uv_strerror(error));
    return error;
  }
  if (server->options.stats_seconds != 0)
    uv_timer_start(&server->stats_timer, on_stats_timer,
                   server->options.stats_seconds * 1000,
                   server->options.stats_seconds * 1000);
  error = start_listening(server);
  if (error == 0 && server->options.http_port != NO_HTTP)
    error = start_live(server);
  return error;
}

static int
run(server_t *server)
{
  init_handles(server);
  if (start(server) != 0) {
    server->status = EXIT_FAILURE;
    stop(server);
  }
  uv_run(&server->loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&server->loop) != 0) {
    complain("handles were left open:");
    uv_print_all_handles(&server->loop, stderr);
    server->status = EXIT_FAILURE;
  }
  live_free(server->live);
  if (!server->options.quiet && server->status == EXIT_SUCCESS)
    print_figures(server, "summary");
  return server->status;
}

int
main(int argc, char **argv)
{
  static server_t server;

  parse_options(argc, argv, IDLE_SERVER, &server.options);
  server.idle.kind = server.options.kind;
  server.idle.timeout_ms = server.options.timeout_ms;
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  server.descriptor_limit = need_descriptors(MIN_DESCRIPTORS);
  return run(&server);
}
