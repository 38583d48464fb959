/* SPDX-License-Identifier: MIT */

#include "multi-worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/cli.h"

#define BACKLOG 4096

#ifndef SO_REUSEPORT
#define SO_REUSEPORT (-1) /* setsockopt() will refuse it */
#endif

typedef struct connection_s {
  uv_tcp_t tcp; /* its data points to the worker */
  uvwheel_timer_t idle;
  uv_write_t write;
  char bytes[1024]; /* read, and not yet sent */
} connection_t;

/* ---- Figures ------------------------------------------------------------ */

/* In one call, so that lines of several threads do not mix. */
void
print_figures(const char *title, unsigned number, const figures_t *figures)
{
  printf("%s=%u open=%" PRIu64 " accepted=%" PRIu64 " turned_away=%" PRIu64
         " messages=%" PRIu64 " idle_closes=%" PRIu64 " cpu_s=%.3f\n",
         title, number, figures->open, figures->accepted, figures->turned_away,
         figures->messages, figures->idle_closes, figures->cpu_s);
  fflush(stdout);
}

static void
measure_cpu(worker_t *worker)
{
  struct timespec cpu;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  worker->figures.cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
}

static void
on_stats_timer(uv_timer_t *timer)
{
  worker_t *worker = timer->data;

  measure_cpu(worker);
  print_figures("stats thread", worker->number, &worker->figures);
}

/* ---- Connections -------------------------------------------------------- */

static void
on_connection_closed(uv_handle_t *tcp)
{
  worker_t *worker = tcp->data;

  worker->figures.open--;
  free(tcp); /* the connection, its first member */
}

static void
close_connection(connection_t *connection)
{
  uv_handle_t *tcp = (uv_handle_t *)&connection->tcp;

  if (uv_is_closing(tcp))
    return;
  uvwheel_timer_stop(&connection->idle);
  uv_close(tcp, on_connection_closed);
}

static void
on_idle(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;
  worker_t *worker = connection->tcp.data;

  worker->figures.idle_closes++;
  close_connection(connection);
}

static void
on_read_wanted(uv_handle_t *tcp, size_t suggested, uv_buf_t *buffer)
{
  connection_t *connection = (connection_t *)tcp;

  (void)suggested;
  *buffer = uv_buf_init(connection->bytes, sizeof(connection->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk);

static void
on_written(uv_write_t *write, int status)
{
  connection_t *connection = (connection_t *)write->handle;

  if (status == 0) {
    uvwheel_timer_refresh(&connection->idle);
    status = uv_read_start(write->handle, on_read_wanted, on_read);
  }
  if (status != 0)
    close_connection(connection);
}

/* What cannot be sent at once stays in the connection's buffer, and nothing
 * more is read until it is sent. */
static void
on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk)
{
  connection_t *connection = (connection_t *)stream;
  worker_t *worker = stream->data;

  if (length < 0)
    close_connection(connection);
  if (length <= 0) /* 0 is libuv's word for "try again" */
    return;
  uvwheel_timer_refresh(&connection->idle);
  worker->figures.messages++;
  uv_buf_t rest = uv_buf_init(chunk->base, (unsigned)length);
  int sent = uv_try_write(stream, &rest, 1);
  if (sent == length)
    return;
  if (sent > 0)
    rest = uv_buf_init(rest.base + sent, (unsigned)(length - sent));
  uv_read_stop(stream);
  if (uv_write(&connection->write, stream, &rest, 1, on_written) != 0)
    close_connection(connection);
}

static void
on_connection(uv_stream_t *listener, int status)
{
  worker_t *worker = listener->data;
  connection_t *connection = malloc(sizeof(*connection));

  if (connection == NULL) {
    complain("out of memory");
    exit(EXIT_FAILURE);
  }
  uv_tcp_init(&worker->loop, &connection->tcp);
  connection->tcp.data = worker;
  uvwheel_timer_init(&worker->wheel, &connection->idle);
  connection->idle.data = connection;
  worker->figures.open++;
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  uv_update_time(&worker->loop); /* the last of a burst may come late */
  if (status != 0 || uv_accept(listener, stream) != 0 ||
      is_spare_descriptor(&connection->tcp, worker->descriptors) ||
      uvwheel_timer_start(&connection->idle, on_idle,
                          worker->options->timeout_ms, 0) ||
      uv_read_start(stream, on_read_wanted, on_read) != 0) {
    worker->figures.turned_away++;
    close_connection(connection);
    return;
  }
  worker->figures.accepted++;
}

/* ---- The thread --------------------------------------------------------- */

static void
run(void *data)
{
  worker_t *worker = data;

  uv_run(&worker->loop, UV_RUN_DEFAULT); /* until all is closed */
  measure_cpu(worker);
  worker->error = uv_loop_close(&worker->loop);
}

int
worker_start(worker_t *worker)
{
  return uv_thread_create(&worker->thread, run, worker);
}

int
worker_join(worker_t *worker)
{
  uv_thread_join(&worker->thread);
  return worker->error;
}

void
worker_stop(worker_t *worker)
{
  uv_async_send(&worker->stop);
}

static void
close_handle(uv_handle_t *handle, void *data)
{
  worker_t *worker = data;

  if (handle == (uv_handle_t *)&worker->listener ||
      handle == (uv_handle_t *)&worker->stop ||
      handle == (uv_handle_t *)&worker->stats_timer)
    uv_close(handle, NULL);
  else if (uv_handle_get_type(handle) == UV_TCP)
    close_connection((connection_t *)handle);
}

/* In the thread, which worker_stop is not. */
static void
on_stop(uv_async_t *stop)
{
  worker_t *worker = stop->data;

  uv_walk(&worker->loop, close_handle, worker);
  uvwheel_close(&worker->wheel, NULL);
}

/* Sockets can share a port if each asked for it before it was bound. */
static int
share_port(const uv_tcp_t *listener)
{
  uv_os_fd_t descriptor;
  int on = 1;
  int error = uv_fileno((const uv_handle_t *)listener, &descriptor);

  if (error == 0 &&
      setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
    error = uv_translate_sys_error(errno);
  return error;
}

int
worker_open(worker_t *worker, unsigned number, uint64_t descriptors,
            const server_options_t *options, const struct sockaddr *address)
{
  uv_loop_t *loop = &worker->loop;
  uv_tcp_t *listener = &worker->listener;
  uint64_t period_ms = options->stats_seconds * 1000;
  int error;

  worker->number = number;
  worker->descriptors = descriptors;
  worker->options = options;
  if ((error = uv_loop_init(loop)) != 0 ||
      (error = uvwheel_init(loop, &worker->wheel, &options->wheel)) != 0 ||
      (error = uv_async_init(loop, &worker->stop, on_stop)) != 0 ||
      (error = uv_timer_init(loop, &worker->stats_timer)) != 0 ||
      (error = uv_tcp_init_ex(loop, listener, address->sa_family)) != 0 ||
      (error = share_port(listener)) != 0 ||
      (error = uv_tcp_bind(listener, address, 0)) != 0)
    return error;
  worker->stop.data = worker->stats_timer.data = listener->data = worker;
  if (period_ms != 0)
    uv_timer_start(&worker->stats_timer, on_stats_timer, period_ms, period_ms);
  return uv_listen((uv_stream_t *)listener, BACKLOG, on_connection);
}
