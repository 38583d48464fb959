/* SPDX-License-Identifier: MIT */

/* An echo server that closes idle connections, with one uvwheel_timer_t for
 * each. docs/migrating.md shows what it was with a uv_timer_t. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>
#include <uvwheel.h>

typedef struct connection_s {
  uv_tcp_t tcp;
  uvwheel_timer_t idle;
} connection_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uv_tcp_t listener;
static uv_signal_t terminate;
static uint64_t idle_ms;

static void on_closed(uv_handle_t *handle) {
  free(handle->data);
}

static void close_connection(connection_t *connection) {
  if (uv_is_closing((uv_handle_t *)&connection->tcp))
    return;
  uvwheel_timer_close(&connection->idle);
  uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static void on_idle(uvwheel_timer_t *timer) {
  close_connection(timer->data);
}

static void on_buffer(uv_handle_t *tcp, size_t size, uv_buf_t *buffer) {
  static char bytes[65536]; /* for all: sent before the next read */

  (void)tcp, (void)size;
  *buffer = uv_buf_init(bytes, sizeof(bytes));
}

static void on_read(uv_stream_t *tcp, ssize_t length, const uv_buf_t *buffer) {
  connection_t *connection = tcp->data;
  uv_buf_t answer = uv_buf_init(buffer->base, (unsigned)length);

  if (length == 0)
    return;
  uvwheel_timer_refresh(&connection->idle);
  /* A peer that does not take its answer at once is not waited for. */
  if (length < 0 || uv_try_write(tcp, &answer, 1) != length)
    close_connection(connection);
}

static void on_connection(uv_stream_t *stream, int status) {
  connection_t *connection;

  if (status != 0)
    return;
  connection = malloc(sizeof(*connection));
  if (connection == NULL)
    abort();
  connection->tcp.data = connection;
  connection->idle.data = connection;
  uv_tcp_init(&loop, &connection->tcp);
  uv_update_time(&loop); /* others may have been accepted before */
  uvwheel_timer_init(&wheel, &connection->idle);
  uvwheel_timer_expect(&connection->idle, on_idle, idle_ms);
  if (uv_accept(stream, (uv_stream_t *)&connection->tcp) != 0 ||
      uv_read_start((uv_stream_t *)&connection->tcp, on_buffer, on_read) != 0)
    close_connection(connection);
}

static void close_handle(uv_handle_t *handle, void *arg) {
  (void)arg;
  if (uv_handle_get_type(handle) == UV_TIMER || uv_is_closing(handle))
    return; /* timers are closed elsewhere */
  if (handle->data != NULL)
    close_connection(handle->data);
  else
    uv_close(handle, NULL);
}

static void on_terminate(uv_signal_t *handle, int number) {
  (void)handle, (void)number;
  uvwheel_close(&wheel, NULL);
  uv_walk(&loop, close_handle, NULL);
}

static int start(void) {
  struct sockaddr_in address;
  int length = sizeof(address);

  signal(SIGPIPE, SIG_IGN);
  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, NULL) != 0)
    return -1;
  if (uv_signal_init(&loop, &terminate) != 0 ||
      uv_signal_start(&terminate, on_terminate, SIGTERM) != 0 ||
      uv_tcp_init(&loop, &listener) != 0 ||
      uv_ip4_addr("127.0.0.1", 0, &address) != 0 ||
      uv_tcp_bind(&listener, (struct sockaddr *)&address, 0) != 0 ||
      uv_listen((uv_stream_t *)&listener, 128, on_connection) != 0 ||
      uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &length) != 0)
    return -1;
  printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
  return fflush(stdout);
}

int main(int argc, char **argv) {
  char *end = NULL;
  long argument = argc == 2 ? strtol(argv[1], &end, 10) : 0;

  if (argument <= 0 || *end != '\0') {
    fprintf(stderr, "usage: %s IDLE_MILLISECONDS\n", argv[0]);
    return 2;
  }
  idle_ms = (uint64_t)argument;
  if (start() != 0) {
    fprintf(stderr, "%s: cannot listen\n", argv[0]);
    return EXIT_FAILURE;
  }
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
