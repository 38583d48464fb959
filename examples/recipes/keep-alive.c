/* SPDX-License-Identifier: MIT */

/* To a server that pushes, a peer that has died without a word seems alive
 * unless it is pinged. One that only answers pings would be kept for ever.
 *
 * The timer `alive` first waits for the peer to fall quiet; whatever arrives
 * starts it anew, so after its first message a busy peer is not pinged. It is
 * started: the server sends the ping, and a client leaves if none comes in
 * time. Then `alive` expects the answer. A ping waits behind a large message
 * until the peer has taken that: a slow peer answers late, and is alive. So the
 * callback asks first what has been taken. The timer `use` expects what the
 * peer wants: its pongs do not refresh that. The first ping comes at a random
 * time: after a mass reconnect all pings would be in step for days, here 3,000
 * in 100 ms instead of some 70.
 *
 * 3,000 peers connect at once and answer pings. One answers the first ping by a
 * message and the next one by a pong, and dies. One takes 16 s for a message,
 * and can answer no ping before. */

#include "recipe.h"

#define PEERS 3000
#define QUIET_MS 6000   /* then comes a ping                         */
#define PONG_MS 300     /* how long its answer may take              */
#define TAKE_MS 1000    /* how long a step may take; see echo.c      */
#define UNUSED_MS 15000 /* how long a peer may want and take nothing */
#define PING 2          /* bytes */
#define MESSAGE (32 * STEP)
#define STEP 100000 /* that a peer takes each 500 ms */

typedef struct connection_s {
  const char *name; /* if it is watched */
  uvwheel_timer_t alive, use;
  size_t written;          /* what libuv was given */
  size_t ping_at;          /* how much of that was before the ping */
  size_t taken;            /* how much of it the peer had at the last look */
  uvwheel_timer_t network; /* in its place */
  size_t untaken;          /* what it holds */
} connection_t;

static connection_t connections[PEERS];
static connection_t *mortal = &connections[0], *reader = &connections[1];
static unsigned answers = 2; /* that the mortal will give */
static unsigned unused;      /* how many peers were closed for that */
static crowd_t pings;

static void tell(const connection_t *connection, const char *what) {
  if (connection->name != NULL)
    say(connection->name, what);
}

/* A real one asks libuv and the kernel: see count_untaken in common/server.c.
 */
static size_t count_taken(const connection_t *connection) {
  return connection->written - connection->untaken;
}

static void close_connection(connection_t *connection) {
  uvwheel_timer_close(&connection->alive);
  uvwheel_timer_close(&connection->use);
  uvwheel_timer_close(&connection->network);
}

/* Whether what the peer still takes has stuck is for `alive` to say. */
static void on_unused(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  if (count_taken(connection) < connection->written) {
    uvwheel_timer_expect(timer, on_unused, UNUSED_MS);
    return;
  }
  tell(connection, "unused");
  unused++;
  close_connection(connection);
}

/* Dead, unless the ping was still behind other bytes and the peer took some. */
static void on_no_answer(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;
  size_t before = connection->taken;

  connection->taken = count_taken(connection);
  if (before < connection->ping_at && before < connection->taken) {
    uvwheel_timer_expect(timer, on_no_answer, TAKE_MS);
    return;
  }
  tell(connection, "no answer, dead");
  close_connection(connection);
}

static void send_bytes(connection_t *connection, size_t length);

static void on_quiet(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  tell(connection, "quiet, ping");
  add_to_crowd(&pings, 100);
  connection->ping_at = connection->written;
  connection->taken = count_taken(connection);
  send_bytes(connection, PING);
  uvwheel_timer_expect(timer, on_no_answer,
                       connection->taken < connection->ping_at ? TAKE_MS
                                                               : PONG_MS);
}

/* Your read callback. Anything is as good an answer as a pong. */
static void receive(connection_t *connection, int is_pong) {
  tell(connection, is_pong ? "pong" : "message");
  uvwheel_timer_start(&connection->alive, on_quiet, QUIET_MS, 0);
  if (!is_pong)
    uvwheel_timer_refresh(&connection->use);
}

static void open_connection(connection_t *connection) {
  connection->alive.data = connection->use.data = connection->network.data =
      connection;
  uvwheel_timer_init(&wheel, &connection->alive);
  uvwheel_timer_init(&wheel, &connection->use);
  uvwheel_timer_init(&wheel, &connection->network);
  uvwheel_timer_start(&connection->alive, on_quiet, random_below(QUIET_MS), 0);
  uvwheel_timer_expect(&connection->use, on_unused, UNUSED_MS);
}

/* ---- The peers, in place of a network ------------------------------------ */

static void on_network(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  if (connection->untaken > STEP) {
    connection->untaken -= STEP;
    uvwheel_timer_start(timer, on_network, 500, 0);
    return;
  }
  connection->untaken = 0;
  receive(connection, connection != mortal || answers == 0);
}

static void send_bytes(connection_t *connection, size_t length) {
  connection->written += length;
  connection->untaken += length;
  if (uvwheel_timer_is_active(&connection->network))
    return; /* it still takes what came before */
  if (connection != mortal || answers-- > 0)
    uvwheel_timer_start(&connection->network, on_network, 50, 0);
}

int main(void) {
  begin(&(uvwheel_options_t){.tick_ms = 10});
  mortal->name = "mortal";
  reader->name = "reader";
  for (int i = 0; i < PEERS; i++)
    open_connection(&connections[i]);
  send_bytes(reader, MESSAGE);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  printf("%u pings in 100 ms at most, %u unused\n", pings.most, unused);
  return end();
}
