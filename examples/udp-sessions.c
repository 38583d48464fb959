/* SPDX-License-Identifier: MIT */

/* A UDP server that keeps a session for each peer, on one socket and one loop:
 * the shape of QUIC, DTLS, games, NAT and VoIP.
 *
 * A peer's first datagram makes a session, each later one refreshes it, and
 * when none has come for the timeout it is removed. (A question does neither.)
 * udp-protocol.h describes the answers. UDP peers do not say goodbye: without a
 * timer per peer such a server would fill up with dead ones, and no descriptor
 * limit would stop it. So it shows:
 * - a limit on sessions: beyond it datagrams of new peers, but no questions,
 *   are dropped and counted
 * - what a mass of sessions that end at about the same time does to the loop:
 *   its longest iteration is among the figures
 * - SIGINT and SIGTERM: every handle is closed, and uv_loop_close() confirms it
 *
 * To compare, --timer uv and chance give each session a uv_timer_t. A server of
 * your own needs no such choice: only the calls for the wheel.
 *
 * Datagrams are read up to 20 at a time where the system can (recvmmsg).
 */

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "common/server.h"
#include "udp/udp-protocol.h"
#include "udp/udp-table.h"

#define BATCH 20           /* datagrams, as many as libuv reads at once */
#define DATAGRAM_MAX 65536 /* libuv wants so much room for each         */
#define MIN_DESCRIPTORS 16

/* The most that Linux gives any user by default. */
#define RECEIVE_BUFFER (4 << 20)

const char *const program = "udp-sessions";

typedef struct server_s server_t;

/* Counted in the same way for each kind of timer: nothing here comes from the
 * wheel. */
typedef struct figures_s {
  uint64_t sessions;  /* now                                          */
  uint64_t peak;      /* the most that there were at once             */
  uint64_t created;   /* by a first datagram                          */
  uint64_t refreshes; /* by a later one                               */
  uint64_t questions; /* datagrams that only asked                    */
  uint64_t refused;   /* first datagrams that no session was made for */
  uint64_t unsent;    /* answers that the kernel did not take         */
  uint64_t expired;
} figures_t;

typedef struct lazy_timer_s {
  uv_timer_t uv;
  uint64_t due_ms;
} lazy_timer_t;

typedef struct session_s {
  udp_peer_t peer; /* makes it an item of the table */
  server_t *server;
  uint64_t datagrams; /* that have come from the peer */
  int is_last_chance; /* see on_lazy_timer */
  /* The last member: no more of it is allocated than is used. */
  union {
    uvwheel_timer_t wheel;
    uv_timer_t uv;
    lazy_timer_t lazy;
  } idle;
} session_t;

struct server_s {
  uv_loop_t loop;
  uv_udp_t socket;
  end_signals_t signals;
  uvwheel_t wheel;
  int has_wheel;      /* or sessions have a uv_timer_t each */
  int gives_chances;  /* --timer chance */
  udp_peer_t *table;  /* the sessions                       */
  size_t timer_bytes; /* of one                             */
  figures_t figures;
  uint64_t first_rss_kib; /* resident memory before the first session */
  iterations_t iterations;
  int is_batch_dated; /* see date_batch */
  int stopping;
  int status; /* the exit status to be */
  server_options_t options;

  char read_buffer[BATCH * DATAGRAM_MAX];
};

/* ---- Figures ------------------------------------------------------------ */

/* The bytes by which a session made the process grow, when there were most. */
static uint64_t session_rss(const server_t *server, const usage_t *usage) {
  if (server->figures.peak == 0 || usage->max_rss_kib < server->first_rss_kib)
    return 0;
  return (usage->max_rss_kib - server->first_rss_kib) * 1024 /
         server->figures.peak;
}

static void print_figures(const server_t *server) {
  const figures_t *figures = &server->figures;
  usage_t usage = usage_of_process();

  printf("summary timer=%s sessions=%" PRIu64 " peak=%" PRIu64
         " created=%" PRIu64 " refreshes=%" PRIu64 " questions=%" PRIu64
         " refused=%" PRIu64 " unsent=%" PRIu64 " expired=%" PRIu64,
         server->options.timer, figures->sessions, figures->peak,
         figures->created, figures->refreshes, figures->questions,
         figures->refused, figures->unsent, figures->expired);
  printf(" longest_iteration_ms=%.1f cpu_s=%.3f timer_bytes=%zu"
         " session_rss=%" PRIu64 " rss_kib=%" PRIu64 " max_rss_kib=%" PRIu64
         "\n",
         (double)server->iterations.longest_ns / 1e6, usage.cpu_s,
         server->timer_bytes, session_rss(server, &usage), usage.rss_kib,
         usage.max_rss_kib);
  fflush(stdout);
}

/* ---- A session's timer -------------------------------------------------- */

static void on_idle(session_t *session);

static void on_wheel_timer(uvwheel_timer_t *timer) {
  on_idle(timer->data);
}

static void on_uv_timer(uv_timer_t *timer) {
  on_idle(timer->data);
}

/* A timer with a second chance is lazy: a refresh only stores when it is due,
 * and it starts again for what is left. When it expires it waits a little
 * longer, once. Data that waited in the socket while the loop was held up is
 * read in that time. */
static void on_lazy_timer(uv_timer_t *timer) {
  session_t *session = timer->data;
  uint64_t now_ms = uv_now(timer->loop);
  int is_due = session->idle.lazy.due_ms <= now_ms;

  if (is_due && session->is_last_chance) {
    on_idle(session);
    return;
  }
  session->is_last_chance = is_due;
  uv_timer_start(timer, on_lazy_timer,
                 is_due ? CHANCE_MS : session->idle.lazy.due_ms - now_ms, 0);
}

static void on_uv_timer_closed(uv_handle_t *timer) {
  free(timer->data);
}

static void refresh_timer(session_t *session) {
  const server_t *server = session->server;

  if (server->has_wheel)
    uvwheel_timer_refresh(&session->idle.wheel);
  else if (server->gives_chances)
    session->idle.lazy.due_ms =
        uv_now(&server->loop) + server->options.timeout_ms + 1;
  else
    uv_timer_again(&session->idle.uv);
}

/* The clock of libuv drops fractions of a millisecond, so that a uv_timer_t
 * may fire up to 1 ms early (libuv#4773): to promise "never early", as the
 * wheel does, takes one millisecond more. */
static void start_timer(server_t *server, session_t *session) {
  uint64_t timeout_ms = server->options.timeout_ms;

  if (server->has_wheel) {
    uvwheel_timer_init(&server->wheel, &session->idle.wheel);
    session->idle.wheel.data = session;
    uvwheel_timer_expect(&session->idle.wheel, on_wheel_timer, timeout_ms);
  } else {
    uv_timer_init(&server->loop, &session->idle.uv);
    session->idle.uv.data = session;
    uv_timer_start(&session->idle.uv,
                   server->gives_chances ? on_lazy_timer : on_uv_timer,
                   timeout_ms + 1, timeout_ms + 1);
    if (server->gives_chances)
      refresh_timer(session);
  }
}

/* Once its timer is closed a session is mere memory: at once with the wheel,
 * and with libuv when it says so. */
static void free_session(session_t *session) {
  if (session->server->has_wheel) {
    uvwheel_timer_close(&session->idle.wheel);
    free(session);
  } else {
    uv_close((uv_handle_t *)&session->idle.uv, on_uv_timer_closed);
  }
}

/* ---- A session's life -------------------------------------------------- */

static void remove_session(session_t *session) {
  server_t *server = session->server;

  udp_remove(&server->table, &session->peer);
  server->figures.sessions--;
  free_session(session);
}

static void on_idle(session_t *session) {
  session->server->figures.expired++;
  remove_session(session);
}

/* Returns the session, or NULL if the server can have no more of them. */
static session_t *make_session(server_t *server, const udp_key_t *key) {
  uint64_t most = server->options.most_peers;
  session_t *session = NULL;

  if (most == 0 || server->figures.sessions < most)
    session = malloc(offsetof(session_t, idle) + server->timer_bytes);
  if (session == NULL)
    return NULL;
  session->peer.key = *key;
  session->server = server;
  session->datagrams = 0;
  session->is_last_chance = 0;
  if (udp_add(&server->table, &session->peer) != 0) {
    free(session);
    return NULL;
  }
  start_timer(server, session);
  server->figures.created++;
  server->figures.sessions++;
  if (server->figures.peak < server->figures.sessions)
    server->figures.peak = server->figures.sessions;
  return session;
}

/* For each datagram that does not only ask. */
static session_t *touch_session(server_t *server, session_t *session,
                                const udp_key_t *key) {
  if (session != NULL) {
    server->figures.refreshes++;
    refresh_timer(session);
  } else {
    session = make_session(server, key);
  }
  if (session == NULL)
    server->figures.refused++;
  else
    session->datagrams++;
  return session;
}

/* ---- Datagrams --------------------------------------------------------- */

static void stop(server_t *server);

static void on_read_wanted(uv_handle_t *socket, size_t suggested,
                           uv_buf_t *buffer) {
  server_t *server = socket->data;

  (void)suggested;
  server->is_batch_dated = 0;
  *buffer = uv_buf_init(server->read_buffer, sizeof(server->read_buffer));
}

/* All of a batch had come when its first datagram is seen: from then on, not
 * from the beginning of the iteration, their timers have to count. */
static void date_batch(server_t *server) {
  if (!server->is_batch_dated)
    uv_update_time(&server->loop);
  server->is_batch_dated = 1;
}

/* An answer that the kernel does not take is lost, like others on the way: the
 * peer will ask again. */
static void answer(server_t *server, const uv_buf_t *datagram,
                   const struct sockaddr *peer, uint64_t count) {
  char head[UDP_COUNT_SIZE];
  uv_buf_t parts[] = {uv_buf_init(head, (unsigned)udp_write_count(head, count)),
                      *datagram};

  if (uv_udp_try_send(&server->socket, parts, 2, peer) < 0)
    server->figures.unsent++;
}

static void take_datagram(server_t *server, const uv_buf_t *datagram,
                          const struct sockaddr *peer) {
  udp_key_t key = udp_key(peer);
  session_t *session = (session_t *)udp_find(server->table, &key);

  date_batch(server);
  if (datagram->len > 0 && datagram->base[0] == UDP_QUESTION) {
    server->figures.questions++;
  } else {
    session = touch_session(server, session, &key);
    if (session == NULL)
      return;
  }
  answer(server, datagram, peer, session != NULL ? session->datagrams : 0);
}

/* Called for each datagram of a batch, then with no peer at its end. */
static void on_datagram(uv_udp_t *socket, ssize_t length,
                        const uv_buf_t *buffer, const struct sockaddr *peer,
                        unsigned flags) {
  server_t *server = socket->data;

  (void)flags;
  if (length < 0) {
    complain("%s", uv_strerror((int)length));
    server->status = EXIT_FAILURE;
    stop(server);
  } else if (peer != NULL) {
    uv_buf_t datagram = uv_buf_init(buffer->base, (unsigned)length);
    take_datagram(server, &datagram, peer);
  }
}

/* ---- Stop -------------------------------------------------------------- */

static void stop(server_t *server) {
  if (server->stopping)
    return;
  server->stopping = 1;
  if (server->status == EXIT_SUCCESS)
    print_figures(server);
  for (udp_peer_t *peer = server->table, *next; peer != NULL; peer = next) {
    next = peer->hh.next;
    remove_session((session_t *)peer);
  }
  if (server->has_wheel)
    uvwheel_close(&server->wheel, NULL);
  iterations_stop(&server->iterations);
  uv_close((uv_handle_t *)&server->socket, NULL);
  close_end_signals(&server->signals);
}

static void on_signal(uv_signal_t *signal, int number) {
  (void)number;
  stop(signal->data);
}

/* ---- Start ------------------------------------------------------------- */

static int start_listening(server_t *server) {
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
  /* Datagrams that come while the loop is busy wait there. Should the system
   * refuse, the socket keeps its buffer. */
  uv_recv_buffer_size((uv_handle_t *)&server->socket, &bytes);
  /* Port 0 has become a real one. */
  uv_udp_getsockname(&server->socket, (struct sockaddr *)&address, &size);
  format_address(&address, text);
  announce("listening on %s\n", text);
  return 0;
}

/* Its wheel exists if this returns 0. */
static int start(server_t *server) {
  uv_loop_t *loop = &server->loop;

  open_loop(loop, &server->signals, on_signal, server);
  uv_udp_init_ex(loop, &server->socket, AF_UNSPEC | UV_UDP_RECVMMSG);
  server->socket.data = server;
  server->timer_bytes = server->has_wheel       ? sizeof(uvwheel_timer_t)
                        : server->gives_chances ? sizeof(lazy_timer_t)
                                                : sizeof(uv_timer_t);
  server->first_rss_kib = usage_of_process().rss_kib;
  int error = server->has_wheel
                  ? uvwheel_init(loop, &server->wheel, &server->options.wheel)
                  : 0;
  iterations_start(&server->iterations, loop);
  if (error == 0)
    return start_listening(server);
  complain("cannot make the wheel: %s", uv_strerror(error));
  return error;
}

static int run(server_t *server) {
  if (start(server) != 0) {
    server->status = EXIT_FAILURE;
    stop(server);
  }
  run_to_end(&server->loop);
  return server->status;
}

int main(int argc, char **argv) {
  static server_t server;

  parse_options(argc, argv, UDP_SESSIONS, &server.options);
  server.has_wheel = strcmp(server.options.timer, "wheel") == 0;
  server.gives_chances = strcmp(server.options.timer, "chance") == 0;
  if (!server.has_wheel && !server.gives_chances &&
      strcmp(server.options.timer, "uv") != 0)
    usage_error("--timer takes wheel, uv or chance, not '%s'",
                server.options.timer);
  need_descriptors(MIN_DESCRIPTORS);
  return run(&server);
}
