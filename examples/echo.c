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
  int is_newcomer; /* its timer is on the wheel of newcomers */
  size_t untaken;  /* at the last look of on_idle; 0 after traffic */
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
 * in steps of up to 3 MB, the room that its kernel announces at once, so the
 * timeout has to be longer than a slow peer needs for one. */
static void on_idle(uvwheel_timer_t *timer) {
  connection_t *connection = connection_of(timer);
  echo_t *echo = connection->tcp.data;
  size_t untaken = count_untaken((uv_stream_t *)&connection->tcp);

  if (untaken != connection->untaken && !echo->is_shedding) {
    connection->untaken = untaken;
    uvwheel_timer_expect(timer, on_idle, echo->timeout_ms);
    return;
  }
  if (echo->is_shedding)
    echo->figures.shed++;
  else
    echo->figures.idle_closes++;
  close_connection(connection);
}

/* ---- Echo -------------------------------------------------------------- */

static void begin_idle_time(connection_t *connection, uvwheel_t *wheel,
                            uint64_t timeout_ms) {
  uvwheel_timer_init(wheel, &connection->idle);
  uvwheel_timer_expect(&connection->idle, on_idle, timeout_ms);
}

/* Traffic: the idle time begins anew. A newcomer is one no more: here a byte is
 * a whole request. In your server a newcomer is one until its first whole
 * request, or its login (see recipes/shed.c). */
static void refresh(connection_t *connection) {
  echo_t *echo = connection->tcp.data;

  echo->figures.refreshes++;
  connection->untaken = 0;
  if (connection->is_newcomer) {
    connection->is_newcomer = 0;
    uvwheel_timer_stop(&connection->idle); /* to move it to another wheel */
    begin_idle_time(connection, &echo->wheel, echo->timeout_ms);
  } else {
    uvwheel_timer_refresh(&connection->idle);
  }
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

/* Newcomers that hold more places than this share are no longer spared. */
#define NEWCOMERS_SHARE 8

static uint64_t count_places(const echo_t *echo) {
  return uvwheel_count(&echo->newcomers) + uvwheel_count(&echo->wheel);
}

/* Fires the timers of the connections that were idle longest: on_idle closes
 * them. Due soonest is the idlest only among those with one timeout, so
 * newcomers, which have less time, are on a wheel of their own. Otherwise a
 * full server would close each newcomer for the next one. Only where newcomers
 * are so many that they push out others are they shed themselves. */
static void make_room(echo_t *echo) {
  uint64_t count = 1 + count_places(echo) / SHED_SHARE;
  int are_many =
      uvwheel_count(&echo->newcomers) > echo->most_places / NEWCOMERS_SHARE;

  echo->is_shedding = 1;
  uvwheel_fire_soonest(are_many ? &echo->newcomers : &echo->wheel, count);
  echo->is_shedding = 0;
}

static int has_place(echo_t *echo) {
  if (echo->most_places == 0 || count_places(echo) < echo->most_places)
    return 1;
  if (echo->sheds)
    make_room(echo);
  return echo->sheds;
}

/* Where others are shed for newcomers, those have a fifth of the time. */
static void welcome_timer(echo_t *echo, connection_t *connection) {
  connection->untaken = 0;
  connection->is_newcomer = echo->sheds;
  if (echo->sheds)
    begin_idle_time(connection, &echo->newcomers, echo->timeout_ms / 5);
  else
    begin_idle_time(connection, &echo->wheel, echo->timeout_ms);
}

static void accept_next(echo_t *echo) {
  connection_t *connection;

  if (!has_place(echo)) {
    turn_away(echo, ECHO_FULL, "full");
    return;
  }
  connection = malloc(sizeof(*connection));
  if (connection == NULL) {
    turn_away(echo, ECHO_NO_MEMORY, "out of memory");
    return;
  }
  /* libuv before 1.45 accepts whole bursts in one iteration: without this the
   * idle time of the last one would begin before it came. */
  uv_update_time(echo->listener.loop);
  /* Started before it is accepted, so that close_connection always finds a
   * timer to close. */
  welcome_timer(echo, connection);
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

  echo->listener.data = echo;
  echo->timeout_ms = options->timeout_ms;
  echo->sheds = options->sheds;
  echo->most_places = options->most_peers;
  /* So that there is always a descriptor for one more. */
  if (echo->sheds)
    echo->most_places =
        most_connections(options->most_peers, echo->descriptor_limit);
  if (error == 0 && echo->sheds)
    error = uvwheel_init(loop, &echo->newcomers, &options->wheel);
  return error != 0 ? error : uvwheel_init(loop, &echo->wheel, &options->wheel);
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
  uvwheel_close(&echo->newcomers, NULL);
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
