/* SPDX-License-Identifier: MIT */

#include "echo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

typedef struct connection_s {
  uv_tcp_t tcp; /* its data points to the echo_t */
  uvwheel_timer_t idle;
  size_t untaken; /* at the last look of on_idle; 0 after traffic */
} connection_t;

typedef struct unsent_s {
  uv_write_t request;
  char bytes[];
} unsent_t;

/* ---- A connection's end ------------------------------------------------ */

static connection_t *connection_of(uvwheel_timer_t *timer) {
  return (connection_t *)((char *)timer - offsetof(connection_t, idle));
}

static void on_connection_closed(uv_handle_t *tcp) {
  echo_t *echo = tcp->data;

  echo->figures.open--;
  free(tcp); /* the connection: tcp is its first member */
}

/* A timer needs no close callback. Closed, it refuses to be started again by a
 * write that ends late. */
static void close_connection(connection_t *connection) {
  uv_handle_t *tcp = (uv_handle_t *)&connection->tcp;

  if (uv_is_closing(tcp))
    return;
  uv_close(tcp, on_connection_closed);
  uvwheel_timer_close(&connection->idle);
}

/* A peer that reads slowly is not idle: the connection stays as long as each
 * look finds that the peer has taken something since the look before. It takes
 * in steps of up to 1.4 MB, the room that its kernel announces at once, so the
 * timeout has to be longer than a slow peer needs for one. */
static void on_idle(uvwheel_timer_t *timer) {
  connection_t *connection = connection_of(timer);
  echo_t *echo = connection->tcp.data;
  size_t untaken = count_untaken((uv_stream_t *)&connection->tcp);

  if (untaken != connection->untaken && !echo->is_shedding) {
    connection->untaken = untaken;
    uvwheel_timer_refresh(timer); /* it has a repeat: it is active */
    return;
  }
  if (echo->is_shedding)
    echo->figures.shed++;
  else
    echo->figures.idle_closes++;
  close_connection(connection);
}

/* ---- Echo -------------------------------------------------------------- */

/* Traffic: the idle time begins anew. */
static void refresh(connection_t *connection) {
  echo_t *echo = connection->tcp.data;

  echo->figures.refreshes++;
  connection->untaken = 0;
  if (echo->sheds) /* a newcomer is one no more: see start_timer */
    uvwheel_timer_set_repeat(&connection->idle, echo->timeout_ms);
  uvwheel_timer_refresh(&connection->idle);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk);

static void on_read_wanted(uv_handle_t *tcp, size_t suggested,
                           uv_buf_t *buffer) {
  echo_t *echo = tcp->data;

  (void)suggested;
  *buffer = uv_buf_init(echo->read_buffer, sizeof(echo->read_buffer));
}

static void on_unsent_sent(uv_write_t *request, int status) {
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
 * sent, and reads nothing until then. That is no traffic: a peer that never
 * reads becomes idle. */
static void send_later(connection_t *connection, const char *bytes,
                       size_t length) {
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
static void on_read(uv_stream_t *stream, ssize_t length,
                    const uv_buf_t *chunk) {
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

/* ---- Accept ------------------------------------------------------------ */

/* A full server has many newcomers: one complaint a second is enough. */
static void count_turned_away(echo_t *echo, echo_reason_t reason,
                              const char *text) {
  uint64_t now_ms = uv_now(echo->listener.loop);

  echo->figures.turned_away[reason]++;
  if (now_ms < echo->next_complaint_ms)
    return;
  echo->next_complaint_ms = now_ms + 1000;
  complain("%s with %" PRIu64 " connections: new ones are turned away", text,
           echo->figures.open);
}

static void welcome(echo_t *echo, connection_t *connection) {
  uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
  uv_os_fd_t descriptor;

  if (uv_fileno((uv_handle_t *)stream, &descriptor) == 0 &&
      is_spare_descriptor(descriptor, echo->descriptor_limit)) {
    count_turned_away(echo, ECHO_NO_DESCRIPTOR, "out of descriptors");
    close_connection(connection);
    return;
  }
  echo->figures.accepted++;
  if (uv_read_start(stream, on_read_wanted, on_read) != 0)
    close_connection(connection);
}

static void accept_next(echo_t *echo);

static void on_turned_away(uv_handle_t *tcp) {
  echo_t *echo = tcp->data;

  echo->is_turning_away = 0;
  if (!echo->is_newcomer_waiting ||
      uv_is_closing((uv_handle_t *)&echo->listener))
    return;
  echo->is_newcomer_waiting = 0;
  accept_next(echo);
}

/* There is no place or no memory for a connection, but the server has a handle
 * to accept one with and close it. While that is in use the next one waits:
 * libuv then asks for no more until uv_accept is called. */
static void turn_away(echo_t *echo, echo_reason_t reason, const char *text) {
  echo->is_turning_away = 1;
  count_turned_away(echo, reason, text);
  uv_tcp_init(echo->listener.loop, &echo->unwelcome);
  echo->unwelcome.data = echo;
  uv_accept((uv_stream_t *)&echo->listener, (uv_stream_t *)&echo->unwelcome);
  uv_close((uv_handle_t *)&echo->unwelcome, on_turned_away);
}

/* One in so many is shed at once: the closes of some connections are done
 * together, and none is closed long before its place is needed. */
#define SHED_SHARE 1024

/* Fires the timers of the connections that were idle longest: on_idle closes
 * them. */
static void make_room(echo_t *echo) {
  echo->is_shedding = 1;
  uvwheel_fire_soonest(&echo->wheel,
                       1 + uvwheel_count(&echo->wheel) / SHED_SHARE);
  echo->is_shedding = 0;
}

/* max_timers of the wheel is how many connections there may be. Where newcomers
 * are let in at others' cost, those that say nothing go first: they have a
 * fifth of the time. Here a byte is a whole request. In your server a newcomer
 * is one until its first whole request, or its login (see recipes/shed.c). */
static int start_timer(echo_t *echo, uvwheel_timer_t *timer) {
  uint64_t first_ms = echo->timeout_ms / (echo->sheds ? 5 : 1);
  int error;

  connection_of(timer)->untaken = 0;
  uvwheel_timer_init(&echo->wheel, timer);
  error = uvwheel_timer_start(timer, on_idle, first_ms, first_ms);
  if (error == UV_ENOBUFS && echo->sheds) {
    make_room(echo);
    error = uvwheel_timer_start(timer, on_idle, first_ms, first_ms);
  }
  /* The newcomer was heard just now: a stall does not count as its silence. */
  if (error == 0)
    uvwheel_timer_refresh(timer);
  return error;
}

static void accept_next(echo_t *echo) {
  connection_t *connection = malloc(sizeof(*connection));

  if (connection == NULL) {
    turn_away(echo, ECHO_NO_MEMORY, "out of memory");
    return;
  }
  /* libuv accepts whole bursts in one iteration: without this the idle time of
   * the last one would begin before it came. */
  uv_update_time(echo->listener.loop);
  /* Started before it is accepted, so that close_connection always finds a
   * timer to close. */
  if (start_timer(echo, &connection->idle) != 0) {
    free(connection);
    turn_away(echo, ECHO_FULL, "full");
    return;
  }
  uv_tcp_init(echo->listener.loop, &connection->tcp);
  connection->tcp.data = echo;
  echo->figures.open++;
  if (uv_accept((uv_stream_t *)&echo->listener,
                (uv_stream_t *)&connection->tcp) != 0)
    close_connection(connection);
  else
    welcome(echo, connection);
}

void echo_on_connection(uv_stream_t *listener, int status) {
  echo_t *echo = listener->data;

  if (status != 0)
    count_turned_away(echo, ECHO_NOT_ACCEPTED, uv_strerror(status));
  else if (echo->is_turning_away)
    echo->is_newcomer_waiting = 1;
  else
    accept_next(echo);
}

/* ---- Start and stop ---------------------------------------------------- */

int echo_init(echo_t *echo, uv_loop_t *loop, unsigned family,
              const server_options_t *options) {
  int error = uv_tcp_init_ex(loop, &echo->listener, family);
  uvwheel_options_t wheel = options->wheel;

  wheel.max_timers = options->most_peers;
  echo->sheds = options->sheds;
  /* So that there is always a descriptor for one more. */
  if (echo->sheds)
    wheel.max_timers =
        most_connections(wheel.max_timers, echo->descriptor_limit);
  echo->listener.data = echo;
  echo->timeout_ms = options->timeout_ms;
  return error != 0 ? error : uvwheel_init(loop, &echo->wheel, &wheel);
}

/* The loop has other handles, the wheel's among them. */
static void close_handle(uv_handle_t *handle, void *data) {
  echo_t *echo = data;

  if (uvwheel_owns_handle(handle))
    return;
  if (handle == (uv_handle_t *)&echo->listener)
    uv_close(handle, NULL);
  else if (handle->data == echo && !uv_is_closing(handle))
    close_connection((connection_t *)handle);
}

void echo_stop(echo_t *echo) {
  uv_walk(echo->listener.loop, close_handle, echo);
  uvwheel_close(&echo->wheel, NULL);
}

void echo_format(const echo_figures_t *figures, char text[ECHO_TEXT_SIZE]) {
  uint64_t turned_away = 0;

  for (int i = 0; i < ECHO_REASONS; i++)
    turned_away += figures->turned_away[i];
  snprintf(text, ECHO_TEXT_SIZE,
           "open=%" PRIu64 " accepted=%" PRIu64 " turned_away=%" PRIu64
           " refreshes=%" PRIu64 " idle_closes=%" PRIu64 " shed=%" PRIu64,
           figures->open, figures->accepted, turned_away, figures->refreshes,
           figures->idle_closes, figures->shed);
}
