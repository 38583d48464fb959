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
 * - descriptors used up: new connections are turned away, aloud, until
 *   descriptors are free again
 * - SIGINT and SIGTERM: every handle is closed, and uv_loop_close() confirms it
 */

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>
#include <sys/resource.h>
#include <uv.h>
#include <uvwheel.h>

#include "cli.h"
#include "idle-timer.h"

#define BACKLOG 4096
#define SPARE_DESCRIPTORS 8 /* kept for all that is not a connection */
#define MIN_DESCRIPTORS 32

const char *const program = "idle-server";

typedef struct server_s {
  uv_loop_t loop;
  uv_tcp_t listener;
  uv_signal_t interrupt;
  uv_signal_t terminate;
  uv_timer_t stats_timer;
  idle_t idle;
  int status; /* the exit status to be */

  const char *host;
  uint16_t port;
  uvwheel_options_t wheel_options;
  uint64_t stats_seconds;
  int quiet;

  uint64_t descriptor_limit;
  uint64_t next_complaint_ms;

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

static const char help[] =
    "Usage: idle-server [OPTION]...\n"
    "An echo server that closes connections on which nothing happens.\n"
    "\n"
    "  --bind ADDRESS   listen on this address (127.0.0.1)\n"
    "  --port PORT      listen on this port, 0: on any free one (7007)\n"
    "  --timeout MS     close a connection after this idle time (5000)\n"
    "  --timer KIND     how idle time is watched (wheel):\n"
    "                     wheel  one uvwheel_timer_t for each connection\n"
    "                     uv     one uv_timer_t for each connection\n"
    "                     none   not at all\n"
    "  --tick MS        resolution of the wheel (100)\n"
    "  --slots N        slots of the wheel (512)\n"
    "  --budget N       timers handled per loop iteration (10000)\n"
    "  --stats SECONDS  print a line of figures so often (never)\n"
    "  --quiet          print only where it listens, and errors\n"
    "  --help           show this\n"
    "\n"
    "Stop it with Ctrl-C or SIGTERM.\n";

/* ---- Figures ----------------------------------------------------------- */

static double
seconds(struct timeval time)
{
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void
print_figures(const server_t *server, const char *title)
{
  struct rusage usage;
  size_t rss = 0;

  getrusage(RUSAGE_SELF, &usage);
  uv_resident_set_memory(&rss);
  printf("%s timer=%s open=%" PRIu64 " accepted=%" PRIu64
         " turned_away=%" PRIu64 " refreshes=%" PRIu64 " idle_closes=%" PRIu64
         " timer_bytes=%zu cpu_s=%.3f rss_kib=%zu max_rss_kib=%ld",
         title, server->idle.kind->name, server->open, server->accepted,
         server->turned_away, server->refreshes, server->idle_closes,
         server->idle.kind->timer_bytes,
         seconds(usage.ru_utime) + seconds(usage.ru_stime), rss / 1024,
         usage.ru_maxrss);
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

/* Everything that was opened is closed here, except what belongs to the idle
 * timers: they close it themselves. */
static void
close_handle(uv_handle_t *handle, void *data)
{
  server_t *server = data;

  if (uv_is_closing(handle))
    return;
  if (handle == (uv_handle_t *)&server->listener ||
      handle == (uv_handle_t *)&server->interrupt ||
      handle == (uv_handle_t *)&server->terminate ||
      handle == (uv_handle_t *)&server->stats_timer)
    uv_close(handle, NULL);
  else if (uv_handle_get_type(handle) == UV_TCP)
    close_connection((connection_t *)handle);
}

static void
stop(server_t *server)
{
  uv_walk(&server->loop, close_handle, server);
  server->idle.kind->close(&server->idle);
}

static void
fail(server_t *server, const char *reason)
{
  complain("%s", reason);
  server->status = EXIT_FAILURE;
  stop(server);
}

static void
on_signal(uv_signal_t *signal, int number)
{
  (void)number;
  stop(signal->data);
}

/* ---- Accept ------------------------------------------------------------ */

/* Descriptors are about to run out when a new one has a high number: the
 * kernel always gives the lowest that is free. Waiting for accept() to fail
 * would not do: libuv answers that by closing the newcomers silently. */
static int
is_beyond_limit(const server_t *server, const connection_t *connection)
{
  uv_os_fd_t descriptor;

  return uv_fileno((const uv_handle_t *)&connection->tcp, &descriptor) == 0 &&
         (uint64_t)descriptor + SPARE_DESCRIPTORS >= server->descriptor_limit;
}

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

  if (is_beyond_limit(server, connection)) {
    server->turned_away++;
    complain_of_accept(server, "out of descriptors");
    close_connection(connection);
    return;
  }
  server->accepted++;
  if (uv_read_start(stream, on_read_wanted, on_read) != 0)
    close_connection(connection);
}

static void
on_connection(uv_stream_t *listener, int status)
{
  server_t *server = listener->data;

  if (status != 0) {
    complain_of_accept(server, uv_strerror(status));
    return;
  }
  connection_t *connection =
      malloc(offsetof(connection_t, idle) + server->idle.kind->timer_bytes);
  if (connection == NULL) {
    fail(server, "out of memory");
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
  int accepted = uv_accept(listener, (uv_stream_t *)&connection->tcp);
  if (started != 0 || accepted != 0)
    close_connection(connection);
  else
    welcome(server, connection);
}

/* ---- Start ------------------------------------------------------------- */

static int
start_listening(server_t *server)
{
  struct sockaddr_storage address;
  char text[ADDRESS_TEXT_SIZE];
  int size = sizeof(address);

  parse_address(server->host, server->port, &address);
  format_address(&address, text);
  int error = uv_tcp_bind(&server->listener, (struct sockaddr *)&address, 0);
  if (error == 0)
    error = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
  if (error != 0) {
    complain("cannot listen on %s: %s", text, uv_strerror(error));
    return error;
  }
  /* Port 0 has become a real one. */
  uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &size);
  format_address(&address, text);
  printf("listening on %s\n", text);
  fflush(stdout);
  return 0;
}

static void
init_handles(server_t *server)
{
  uv_loop_t *loop = &server->loop;

  uv_loop_init(loop);
  uv_tcp_init(loop, &server->listener);
  uv_signal_init(loop, &server->interrupt);
  uv_signal_init(loop, &server->terminate);
  uv_timer_init(loop, &server->stats_timer);
  server->listener.data = server;
  server->interrupt.data = server;
  server->terminate.data = server;
  server->stats_timer.data = server;
  server->idle.loop = loop;
  server->idle.on_idle = on_idle;
  server->idle.on_released = on_timer_released;
}

static int
start(server_t *server)
{
  int error = server->idle.kind->open(&server->idle, &server->wheel_options);

  if (error != 0) {
    complain("cannot make the wheel: %s", uv_strerror(error));
    return error;
  }
  uv_signal_start(&server->interrupt, on_signal, SIGINT);
  uv_signal_start(&server->terminate, on_signal, SIGTERM);
  if (server->stats_seconds != 0)
    uv_timer_start(&server->stats_timer, on_stats_timer,
                   server->stats_seconds * 1000, server->stats_seconds * 1000);
  return start_listening(server);
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
  if (!server->quiet && server->status == EXIT_SUCCESS)
    print_figures(server, "summary");
  return server->status;
}

/* ---- Command line ------------------------------------------------------ */

enum {
  OPTION_BIND = 1,
  OPTION_PORT,
  OPTION_TIMEOUT,
  OPTION_TIMER,
  OPTION_TICK,
  OPTION_SLOTS,
  OPTION_BUDGET,
  OPTION_STATS,
  OPTION_QUIET,
  OPTION_HELP
};

static const struct option options[] = {
    {"bind", required_argument, NULL, OPTION_BIND},
    {"port", required_argument, NULL, OPTION_PORT},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"timer", required_argument, NULL, OPTION_TIMER},
    {"tick", required_argument, NULL, OPTION_TICK},
    {"slots", required_argument, NULL, OPTION_SLOTS},
    {"budget", required_argument, NULL, OPTION_BUDGET},
    {"stats", required_argument, NULL, OPTION_STATS},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static void
set_kind(server_t *server, const char *name)
{
  server->idle.kind = idle_kind(name);
  if (server->idle.kind == NULL)
    usage_error("--timer takes wheel, uv or none, not '%s'", name);
}

static void
set_option(server_t *server, int option, const char *text)
{
  uvwheel_options_t *wheel = &server->wheel_options;

  switch (option) {
  case OPTION_BIND:
    server->host = text;
    break;
  case OPTION_PORT:
    server->port = (uint16_t)parse_number("port", text, 0, UINT16_MAX);
    break;
  case OPTION_TIMEOUT:
    server->idle.timeout_ms = parse_number("timeout", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_TIMER:
    set_kind(server, text);
    break;
  case OPTION_TICK:
    wheel->tick_ms = parse_number("tick", text, 1, UVWHEEL_MAX_TICK_MS);
    break;
  case OPTION_SLOTS:
    wheel->slots = (uint32_t)parse_number("slots", text, 1, UVWHEEL_MAX_SLOTS);
    break;
  case OPTION_BUDGET:
    wheel->turn_budget = (uint32_t)parse_number("budget", text, 1, UINT32_MAX);
    break;
  case OPTION_STATS:
    server->stats_seconds = parse_number("stats", text, 1, MAX_SECONDS);
    break;
  case OPTION_QUIET:
    server->quiet = 1;
    break;
  case OPTION_HELP:
    fputs(help, stdout);
    exit(EXIT_SUCCESS);
  default:
    exit(EXIT_USAGE); /* getopt_long has complained */
  }
}

int
main(int argc, char **argv)
{
  static server_t server = {
      .host = DEFAULT_HOST,
      .port = DEFAULT_PORT,
      .idle = {.timeout_ms = DEFAULT_TIMEOUT_MS},
  };
  int option;

  server.idle.kind = idle_kind("wheel");
  drop_path_of_program(argv);
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
    set_option(&server, option, optarg);
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  server.descriptor_limit = raise_descriptor_limit();
  if (server.descriptor_limit < MIN_DESCRIPTORS) {
    complain("%" PRIu64 " descriptors (ulimit -n) are too few, %d are needed",
             server.descriptor_limit, MIN_DESCRIPTORS);
    return EXIT_FAILURE;
  }
  return run(&server);
}
