/* SPDX-License-Identifier: MIT */

/* An idle timeout that only reads refresh cuts off the peer that takes a large
 * answer slowly, and the peer whose bytes the server itself does not read.
 *
 * So on_idle asks first whether the answer has moved since it asked last, and
 * whether it is the server that does not read. A peer that is stuck is closed
 * after one to two timeouts. (What a peer sends refreshes the timer only while
 * nothing is left to be written, or a stuck peer that talks would stay.)
 *
 * One peer takes its 4 MB slowly, one stops in the middle, and one is not read
 * for 3 s. */

#include <sys/socket.h>
#include <unistd.h>

#include "recipe.h"

#define IDLE_MS 1000
#define ANSWER (4 << 20)
#define STEP 100000 /* bytes that a peer takes in 100 ms */

typedef struct connection_s {
  const char *name;
  uv_pipe_t stream;
  uvwheel_timer_t idle;
  uv_write_t request;
  size_t written; /* what uv_write was given */
  size_t moved;   /* and what of that had gone at the last look */
  int is_unread;  /* from uv_read_stop to uv_read_start */
  uvwheel_timer_t step;
  int peer, steps; /* its end of the sockets, and how often it reads */
} connection_t;

static void
on_closed(uv_handle_t *handle)
{
  free(handle->data);
}

/* In its own callback a one-shot timer is idle: it takes a start, no refresh.
 */
static void
on_idle(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;
  size_t left =
      uv_stream_get_write_queue_size((uv_stream_t *)&connection->stream);
  size_t moved = connection->written - left;

  if (moved != connection->moved || (connection->is_unread && left == 0)) {
    connection->moved = moved;
    uvwheel_timer_start(timer, on_idle, IDLE_MS, 0);
    return;
  }
  say(connection->name, left == 0 ? "closed, idle" : "closed, stuck");
  uvwheel_timer_close(&connection->idle);
  uvwheel_timer_close(&connection->step);
  uv_close((uv_handle_t *)&connection->stream, on_closed);
  close(connection->peer);
}

/* ---- The peers ----------------------------------------------------------- */

static void
on_step(uvwheel_timer_t *timer)
{
  static char bytes[STEP];
  connection_t *connection = timer->data;

  if (connection->steps-- > 0)
    (void)recv(connection->peer, bytes, sizeof(bytes), MSG_DONTWAIT);
  else
    connection->is_unread = 0;
}

static void
open_connection(const char *name, size_t answer, int steps)
{
  static char bytes[ANSWER];
  connection_t *connection = allocate(sizeof(*connection));
  uv_buf_t buffer = uv_buf_init(bytes, (unsigned)answer);
  int ends[2];

  *connection = (connection_t){.name = name,
                               .written = answer,
                               .is_unread = answer == 0,
                               .steps = steps};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 ||
      uv_pipe_init(&loop, &connection->stream, 0) != 0 ||
      uv_pipe_open(&connection->stream, ends[0]) != 0)
    abort();
  connection->peer = ends[1];
  connection->stream.data = connection->idle.data = connection->step.data =
      connection;
  uvwheel_timer_init(&wheel, &connection->idle);
  uvwheel_timer_init(&wheel, &connection->step);
  uvwheel_timer_start(&connection->idle, on_idle, IDLE_MS, 0);
  uvwheel_timer_start(&connection->step, on_step, 100, 100);
  if (answer != 0 &&
      uv_write(&connection->request, (uv_stream_t *)&connection->stream,
               &buffer, 1, NULL) != 0)
    abort();
}

int
main(void)
{
  begin(&(uvwheel_options_t){.tick_ms = 10});
  open_connection("slow", ANSWER, 100);
  open_connection("stuck", ANSWER, 15);
  open_connection("unread", 0, 30);
  uv_run(&loop, UV_RUN_DEFAULT); /* until all are closed */
  return end();
}
