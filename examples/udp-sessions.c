/* SPDX-License-Identifier: MIT */

/* A UDP server that keeps a session for each peer, on one socket and one loop:
 * the shape of QUIC, DTLS, games, NAT and VoIP.
 *
 * A peer's first datagram makes a session, each later one refreshes it, and
 * when none has come for the timeout it is removed. udp-protocol.h describes
 * the answers. UDP peers do not say goodbye: without a timer per peer such a
 * server would fill up with dead ones, and no descriptor limit would stop it.
 * So it shows:
 * - a limit on sessions: beyond it max_timers of the wheel refuses the next
 *   one, and its datagram is dropped and counted; or, if the server sheds, the
 *   sessions that were idle longest make room for it
 * - what a mass of sessions that end at about the same time does to the loop:
 *   its longest turn is among the figures
 * - SIGINT and SIGTERM: every handle is closed, and uv_loop_close() confirms it
 *
 * Datagrams are read and answered up to 20 at a time where the system can
 * (recvmmsg, sendmmsg).
 */

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "common/idle-timer.h"
#include "common/server-options.h"
#include "udp/udp-answers.h"
#include "udp/udp-figures.h"
#include "udp/udp-protocol.h"
#include "udp/udp-table.h"

#define DATAGRAM_MAX 65536 /* libuv wants so much room for each */
#define MIN_DESCRIPTORS 16

/* The most that Linux gives any user by default. */
#define RECEIVE_BUFFER (4 << 20)

const char *const program = "udp-sessions";

typedef struct server_s {
  uv_loop_t loop;
  uv_udp_t socket;
  end_signals_t signals;
  uv_timer_t stats_timer;
  idle_t idle;
  udp_table_t table;
  udp_answers_t answers; /* to the batch that is being read */
  udp_figures_t figures;
  uint64_t now_ns; /* since the batch was read; 0: not read yet */
  int stopping;
  int status; /* the exit status to be */
  server_options_t options;

  char read_buffer[UDP_BATCH * DATAGRAM_MAX];
} server_t;

/* ---- A session's life -------------------------------------------------- */

static session_t *
session_of(idle_timer_t *timer)
{
  return (session_t *)((char *)timer - offsetof(session_t, idle));
}

static void
on_timer_released(idle_timer_t *timer)
{
  free(session_of(timer));
}

static void
remove_session(server_t *server, session_t *session)
{
  udp_table_remove(&server->table, session);
  server->figures.sessions--;
  server->idle.kind->stop(&session->idle);
  server->idle.kind->release(&server->idle, &session->idle);
}

static void
on_idle(idle_timer_t *timer)
{
  session_t *session = session_of(timer);
  server_t *server = session->owner;

  if (server->idle.is_shedding)
    server->figures.shed++;
  else
    udp_figures_expired(&server->figures, uv_hrtime() - session->seen_ns,
                        server->idle.timeout_ms * 1000000);
  remove_session(server, session);
}

/* Returns the session, or NULL if the server can have no more of them. */
static session_t *
make_session(server_t *server, const peer_key_t *key)
{
  session_t *session = malloc(server->figures.bytes);

  if (session == NULL)
    return NULL;
  session->key = *key;
  session->owner = server;
  session->datagrams = 0;
  if (idle_start(&server->idle, &session->idle) != 0) {
    free(session);
    return NULL;
  }
  if (udp_table_add(&server->table, session) != 0) {
    server->idle.kind->stop(&session->idle);
    server->idle.kind->release(&server->idle, &session->idle);
    return NULL;
  }
  udp_figures_created(&server->figures);
  return session;
}

/* What a datagram does, unless it only asks. */
static session_t *
touch_session(server_t *server, session_t *session, const peer_key_t *key)
{
  if (session != NULL) {
    server->figures.refreshes++;
    server->idle.kind->refresh(&session->idle);
  } else {
    session = make_session(server, key);
  }
  if (session == NULL) {
    server->figures.refused++;
  } else {
    session->seen_ns = server->now_ns;
    session->datagrams++;
  }
  return session;
}

/* ---- Datagrams --------------------------------------------------------- */

static void stop(server_t *server);

static void
fail(server_t *server, const char *reason)
{
  complain("%s", reason);
  server->status = EXIT_FAILURE;
  stop(server);
}

static void
on_read_wanted(uv_handle_t *socket, size_t suggested, uv_buf_t *buffer)
{
  server_t *server = socket->data;

  (void)suggested;
  server->now_ns = 0;
  *buffer = uv_buf_init(server->read_buffer, sizeof(server->read_buffer));
}

/* All of a batch had come when its first datagram is seen: from then on, not
 * from the beginning of the loop's turn, their timers have to count. */
static void
date_batch(server_t *server)
{
  if (server->now_ns != 0)
    return;
  uv_update_time(&server->loop);
  server->now_ns = uv_hrtime();
}

static void
take_datagram(server_t *server, const uv_buf_t *datagram,
              const struct sockaddr *peer)
{
  peer_key_t key = udp_key(peer);
  session_t *session = udp_table_find(&server->table, &key);

  if (datagram->len > 0 && datagram->base[0] == UDP_QUESTION) {
    server->figures.questions++;
  } else {
    session = touch_session(server, session, &key);
    if (session == NULL)
      return;
  }
  udp_answer(&server->answers, peer, session != NULL ? session->datagrams : 0,
             datagram);
}

/* Called for each datagram of a batch, then with no peer at its end. What the
 * kernel does not take of the answers is lost like others on the way: the peer
 * will ask again. */
static void
on_datagram(uv_udp_t *socket, ssize_t length, const uv_buf_t *buffer,
            const struct sockaddr *peer, unsigned flags)
{
  server_t *server = socket->data;

  if (length < 0) {
    fail(server, uv_strerror((int)length));
    return;
  }
  if (peer != NULL) {
    uv_buf_t datagram = uv_buf_init(buffer->base, (unsigned)length);
    date_batch(server);
    take_datagram(server, &datagram, peer);
  }
  if (peer == NULL || !(flags & UV_UDP_MMSG_CHUNK))
    server->figures.unsent += udp_answers_send(&server->answers, socket);
}

/* ---- Stop -------------------------------------------------------------- */

static void
stop(server_t *server)
{
  session_t *session;

  if (server->stopping)
    return;
  server->stopping = 1;
  if (!server->options.quiet && server->status == EXIT_SUCCESS)
    udp_figures_print(&server->figures, "summary");
  while ((session = udp_table_first(&server->table)) != NULL)
    remove_session(server, session);
  udp_table_close(&server->table);
  server->idle.kind->close(&server->idle);
  udp_figures_stop(&server->figures);
  uv_close((uv_handle_t *)&server->socket, NULL);
  close_end_signals(&server->signals);
  uv_close((uv_handle_t *)&server->stats_timer, NULL);
}

static void
on_signal(uv_signal_t *signal, int number)
{
  (void)number;
  stop(signal->data);
}

static void
on_stats_timer(uv_timer_t *timer)
{
  server_t *server = timer->data;

  udp_figures_print(&server->figures, "stats");
}

/* ---- Start ------------------------------------------------------------- */

static int
start_listening(server_t *server)
{
  struct sockaddr_storage address;
  char text[ADDRESS_TEXT_SIZE];
  int size = sizeof(address), bytes = RECEIVE_BUFFER;

  parse_address(server->options.host, server->options.port, &address);
  format_address(&address, text);
  int error = uv_udp_bind(&server->socket, (struct sockaddr *)&address, 0);
  if (error == 0)
    error = uv_udp_recv_start(&server->socket, on_read_wanted, on_datagram);
  if (error != 0) {
    complain("cannot listen on %s: %s", text, uv_strerror(error));
    return error;
  }
  /* What comes while the loop is busy waits there. Should the system refuse,
   * the socket keeps what it has. */
  uv_recv_buffer_size((uv_handle_t *)&server->socket, &bytes);
  /* Port 0 has become a real one. */
  uv_udp_getsockname(&server->socket, (struct sockaddr *)&address, &size);
  format_address(&address, text);
  announce("listening on %s\n", text);
  return 0;
}

static void
init_handles(server_t *server)
{
  uv_loop_t *loop = &server->loop;

  open_loop(loop, &server->signals, on_signal, server);
  uv_udp_init_ex(loop, &server->socket, AF_UNSPEC | UV_UDP_RECVMMSG);
  uv_timer_init(loop, &server->stats_timer);
  server->socket.data = server;
  server->stats_timer.data = server;
  server->idle.loop = loop;
  server->idle.on_idle = on_idle;
  server->idle.on_released = on_timer_released;
  server->figures.timer = server->idle.kind->name;
  server->figures.timer_bytes = server->idle.kind->timer_bytes;
  server->figures.bytes =
      offsetof(session_t, idle) + server->idle.kind->timer_bytes;
  udp_figures_start(&server->figures, loop);
}

static int
start(server_t *server)
{
  int error = server->idle.kind->open(&server->idle, &server->options.wheel);

  if (error == 0)
    error = udp_table_open(&server->table);
  if (error != 0) {
    complain("cannot start: %s", uv_strerror(error));
    return error;
  }
  if (server->options.stats_seconds != 0)
    uv_timer_start(&server->stats_timer, on_stats_timer,
                   server->options.stats_seconds * 1000,
                   server->options.stats_seconds * 1000);
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
  return server->status;
}

int
main(int argc, char **argv)
{
  static server_t server;

  parse_options(argc, argv, UDP_SESSIONS, &server.options);
  server.idle.kind = server.options.kind;
  server.idle.sheds = server.options.sheds;
  server.idle.timeout_ms = server.options.timeout_ms;
  need_descriptors(MIN_DESCRIPTORS);
  return run(&server);
}
