/* SPDX-License-Identifier: MIT */

/* A peer that has died without a word is never noticed unless it is pinged, and
 * one that only answers pings is kept for ever.
 *
 * The timer `alive` first waits for the peer to fall quiet; whatever arrives
 * refreshes it, so a busy peer is never pinged. When it fires, a ping goes out
 * and it waits for the answer. The timer `use` is refreshed by what the peer
 * wants, not by its pongs. The first ping comes at a random time: after a mass
 * reconnect all pings would be in step for days, here 3,000 in 100 ms instead
 * of some 70.
 *
 * 3,000 peers connect at once and answer pings. One answers the first ping by a
 * message and the next one by a pong, and dies. */

#include "recipe.h"

#define PEERS 3000
#define QUIET_MS 6000   /* then comes a ping                */
#define PONG_MS 300     /* how long its answer may take     */
#define UNUSED_MS 15000 /* how long a peer may want nothing */

typedef struct connection_s {
  uvwheel_timer_t alive, use;
  int is_pinged;
  uvwheel_timer_t network; /* in its place */
} connection_t;

static connection_t connections[PEERS], *watched = &connections[PEERS - 1];
static unsigned answers = 2; /* that it will give */
static unsigned unused;      /* how many peers were closed for that */
static crowd_t pings;

static void tell(const connection_t *connection, const char *what) {
  if (connection == watched)
    say("peer", what);
}

static void close_connection(connection_t *connection) {
  uvwheel_timer_close(&connection->alive);
  uvwheel_timer_close(&connection->use);
  uvwheel_timer_close(&connection->network);
}

static void on_unused(uvwheel_timer_t *timer) {
  unused++;
  close_connection(timer->data);
}

static void send_ping(connection_t *connection);

/* Each start has QUIET_MS as its repeat: that is what a refresh waits for. */
static void on_alive(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  if (connection->is_pinged) {
    tell(connection, "no answer, dead");
    close_connection(connection);
    return;
  }
  tell(connection, "quiet, ping");
  connection->is_pinged = 1;
  uvwheel_timer_start(timer, on_alive, PONG_MS, QUIET_MS);
  send_ping(connection);
}

/* Your read callback. Anything is as good an answer as a pong. */
static void receive(connection_t *connection, int is_pong) {
  tell(connection, is_pong ? "pong" : "message");
  connection->is_pinged = 0;
  uvwheel_timer_refresh(&connection->alive);
  if (!is_pong)
    uvwheel_timer_refresh(&connection->use);
}

static void open_connection(connection_t *connection) {
  connection->alive.data = connection->use.data = connection->network.data =
      connection;
  uvwheel_timer_init(&wheel, &connection->alive);
  uvwheel_timer_init(&wheel, &connection->use);
  uvwheel_timer_init(&wheel, &connection->network);
  uvwheel_timer_start(&connection->alive, on_alive, random_below(QUIET_MS),
                      QUIET_MS);
  uvwheel_timer_start(&connection->use, on_unused, UNUSED_MS, 0);
}

/* ---- The peers, in place of a network ------------------------------------ */

static void on_answer(uvwheel_timer_t *timer) {
  receive(timer->data, timer->data != watched || answers == 0);
}

static void send_ping(connection_t *connection) {
  add_to_crowd(&pings, 100);
  if (connection != watched || answers-- > 0)
    uvwheel_timer_start(&connection->network, on_answer, 50, 0);
}

int main(void) {
  begin(&(uvwheel_options_t){.tick_ms = 10});
  for (int i = 0; i < PEERS; i++)
    open_connection(&connections[i]);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  printf("%u pings in 100 ms at most, %u unused\n", pings.most, unused);
  return end();
}
