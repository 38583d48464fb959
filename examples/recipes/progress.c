/* SPDX-License-Identifier: MIT */

/* An idle timeout that only reads refresh cuts off the peer that takes a large
 * answer slowly, and the peer whose bytes the server itself does not read.
 *
 * So on_idle asks first whether the peer has taken anything since it asked
 * last, and whether it is the server that does not read. A stuck peer is closed
 * after one to two timeouts. (What it sends refreshes the timer only while
 * nothing is left to be written, or a stuck peer that talks would stay.)
 *
 * The kernel takes up to 4 MB in place of the peer. So what counts is what the
 * peer has acknowledged. Where the kernel does not tell that, its buffer is
 * made small. Progress comes in steps: the timeout has to be longer than a slow
 * peer needs for a third of the buffer.
 *
 * One peer takes its 4 MB slowly, one stops in the middle, one takes nothing of
 * what is pushed to it, and one is not read for 1.5 s. */

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/sockios.h>
#endif

#include "recipe.h"

#define IDLE_MS 500
#define ANSWER (4 << 20)
#define MESSAGE 20000 /* that the server pushes each 100 ms */
#define STEP 100000   /* that a peer takes in that time */

typedef struct connection_s {
  const char *name;
  uv_tcp_t stream;
  uvwheel_timer_t idle;
  uv_write_t request;
  size_t written; /* what libuv was given */
  size_t moved;   /* what of that had gone at the last look */
  int is_unread;  /* from uv_read_stop to uv_read_start */
  int is_pushed_to;
  uvwheel_timer_t step;
  int peer, steps; /* its end of the connection, and how often it reads */
} connection_t;

static char bytes[ANSWER];

static size_t count_unacknowledged(uv_tcp_t *tcp) {
  size_t count = uv_stream_get_write_queue_size((uv_stream_t *)tcp);
#ifdef SIOCOUTQ
  uv_os_fd_t descriptor;
  int in_kernel;

  if (uv_fileno((uv_handle_t *)tcp, &descriptor) == 0 &&
      ioctl(descriptor, SIOCOUTQ, &in_kernel) == 0)
    count += (size_t)in_kernel;
#endif
  return count;
}

/* In its own callback a one-shot timer is idle: it takes a start, no refresh.
 */
static void on_idle(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;
  size_t left = count_unacknowledged(&connection->stream);
  size_t moved = connection->written - left;

  if (moved != connection->moved || (connection->is_unread && left == 0)) {
    connection->moved = moved;
    uvwheel_timer_start(timer, on_idle, IDLE_MS, 0);
    return;
  }
  say(connection->name, left == 0 ? "closed, idle" : "closed, stuck");
  uvwheel_timer_close(&connection->idle);
  uvwheel_timer_close(&connection->step);
  uv_close((uv_handle_t *)&connection->stream, NULL); /* then free it */
  close(connection->peer);
}

/* At accept. */
static void begin_idle(connection_t *connection) {
#ifndef SIOCOUTQ
  uv_send_buffer_size((uv_handle_t *)&connection->stream, &(int){65536});
#endif
  uvwheel_timer_init(&wheel, &connection->idle);
  connection->idle.data = connection;
  uvwheel_timer_start(&connection->idle, on_idle, IDLE_MS, 0);
}

/* ---- The peers ----------------------------------------------------------- */

static void on_step(uvwheel_timer_t *timer) {
  static char taken[STEP];
  connection_t *connection = timer->data;
  uv_buf_t message = uv_buf_init(bytes, MESSAGE);

  if (connection->is_pushed_to) {
    int sent = uv_try_write((uv_stream_t *)&connection->stream, &message, 1);
    connection->written += sent > 0 ? (size_t)sent : 0;
  } else if (connection->steps-- > 0) {
    (void)recv(connection->peer, taken, sizeof(taken), MSG_DONTWAIT);
  } else {
    connection->is_unread = 0;
  }
}

static void open_connection(connection_t *connection) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  uv_buf_t answer = uv_buf_init(bytes, (unsigned)connection->written);

  connection->peer = socket(AF_INET, SOCK_STREAM, 0);
  connection->step.data = connection;
  if (bind(listener, (struct sockaddr *)&address, size) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
      connect(connection->peer, (struct sockaddr *)&address, size) != 0 ||
      uv_tcp_init(&loop, &connection->stream) != 0 ||
      uv_tcp_open(&connection->stream, accept(listener, NULL, NULL)) != 0)
    abort();
  close(listener);
  begin_idle(connection);
  uvwheel_timer_init(&wheel, &connection->step);
  uvwheel_timer_start(&connection->step, on_step, 100, 100);
  uv_write(&connection->request, (uv_stream_t *)&connection->stream, &answer, 1,
           NULL);
}

int main(void) {
  static connection_t connections[] = {
      {.name = "slow", .written = ANSWER, .steps = 100},
      {.name = "stuck", .written = ANSWER, .steps = 7},
      {.name = "dead", .is_pushed_to = 1},
      {.name = "unread", .is_unread = 1, .steps = 15},
  };

  begin(&(uvwheel_options_t){.tick_ms = 10});
  for (size_t i = 0; i < sizeof(connections) / sizeof(connections[0]); i++)
    open_connection(&connections[i]);
  uv_run(&loop, UV_RUN_DEFAULT); /* until all are closed */
  return end();
}
