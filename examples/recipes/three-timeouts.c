/* SPDX-License-Identifier: MIT */

/* Three timeouts on one connection, with two timers.
 *
 * A server closes a peer whose handshake takes too long, a peer that then falls
 * silent, and a peer that stays too long, however busy it is. The first two
 * timeouts never wait at the same time: one timer serves both, started anew
 * with another callback after the handshake. Only that one is refreshed; the
 * other runs from beginning to end.
 *
 * Three peers: one says nothing, one says a word, which is the handshake, and
 * one never stops talking. The network is left out: a timer makes the words. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

#define HANDSHAKE_MS 500
#define IDLE_MS 1000
#define LIFETIME_MS 3000
#define WORD_MS 200 /* between two words of a peer */

typedef struct connection_s {
  const char *name;
  unsigned words; /* that the peer has still to say */
  int is_known;
  uvwheel_timer_t silence; /* for the handshake, then for idle times */
  uvwheel_timer_t lifetime, peer;
} connection_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;

/* Its timers closed, the connection may be freed here and now. */
static void
close_connection(connection_t *connection, const char *reason)
{
  printf("%4" PRIu64 " ms: %s: closed, %s\n", uv_now(&loop) - start_ms,
         connection->name, reason);
  uvwheel_timer_close(&connection->silence);
  uvwheel_timer_close(&connection->lifetime);
  uvwheel_timer_close(&connection->peer);
}

static void
on_no_handshake(uvwheel_timer_t *timer)
{
  close_connection(timer->data, "no handshake");
}

static void
on_idle(uvwheel_timer_t *timer)
{
  close_connection(timer->data, "idle");
}

static void
on_lifetime(uvwheel_timer_t *timer)
{
  close_connection(timer->data, "too old");
}

/* What your read callback does. */
static void
receive(connection_t *connection)
{
  if (connection->is_known)
    uvwheel_timer_refresh(&connection->silence);
  else
    uvwheel_timer_start(&connection->silence, on_idle, IDLE_MS, 0);
  connection->is_known = 1;
}

static void
on_peer(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;

  if (connection->words == 0)
    return;
  connection->words--;
  receive(connection);
}

static void
open_connection(connection_t *connection)
{
  connection->silence.data = connection;
  connection->lifetime.data = connection;
  connection->peer.data = connection;
  uvwheel_timer_init(&wheel, &connection->silence);
  uvwheel_timer_init(&wheel, &connection->lifetime);
  uvwheel_timer_init(&wheel, &connection->peer);
  uvwheel_timer_start(&connection->silence, on_no_handshake, HANDSHAKE_MS, 0);
  uvwheel_timer_start(&connection->lifetime, on_lifetime, LIFETIME_MS, 0);
  uvwheel_timer_start(&connection->peer, on_peer, WORD_MS, WORD_MS);
}

int
main(void)
{
  connection_t connections[] = {{.name = "mute"},
                                {.name = "shy", .words = 1},
                                {.name = "chatty", .words = 1000}};
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0)
    return EXIT_FAILURE;
  start_ms = uv_now(&loop);
  for (int i = 0; i < 3; i++)
    open_connection(&connections[i]);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
