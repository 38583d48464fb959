/* SPDX-License-Identifier: MIT */

/* An idle timeout alone lets a client that sends a byte now and then keep its
 * connection for ever. The timeouts of an HTTP server, on one connection:
 *
 *   the head of a request within 10 s     `stage`, which no byte refreshes. A
 *                                         TLS handshake is such a stage, too
 *   a body of 500 bytes/s at least        `stage` again, which looks each 5 s
 *                                         at what has come since the last look
 *   the whole request within 60 s         `request`, from beginning to end
 *   5 s between requests (keep-alive)     `idle`
 *
 * The head and the body of a request never come at the same time: one timer
 * serves both, and is started anew with another callback. The idle timers have
 * a wheel of their own: uvwheel_fire_soonest must not cut off requests.
 *
 * Four clients: one is slow with the head, one with the body, one makes two
 * requests and stays, and one takes too long in all. The network is left out: a
 * timer brings what a client sends. The server blocks its loop for 2.4 s, and
 * stops reading for 7 s, and closes nobody for that. Time runs ten times as
 * fast. */

#include "recipe.h"

#define SECOND 100 /* ms; in your server 1000 */
#define HEAD_TIMEOUT (10 * SECOND)
#define REQUEST_TIMEOUT (60 * SECOND)
#define KEEP_ALIVE (5 * SECOND)
#define RATE_PERIOD (5 * SECOND)
#define LEAST_RATE 500 /* bytes in a SECOND */
#define HEAD_LENGTH 46
#define BODY_LENGTH 60000

typedef struct connection_s {
  const char *name;
  size_t head_left, body_left;
  size_t body_in_period;
  uint64_t period_began_ms;
  uvwheel_timer_t stage, request; /* on `wheel` */
  uvwheel_timer_t idle;           /* on `idles` */
  uvwheel_timer_t client;
  size_t head_step, body_step; /* what the client sends each second */
  unsigned requests;           /* that the client still makes */
  unsigned pause;              /* seconds before the next one */
  unsigned seconds;            /* since it came */
  int is_unread;               /* after uv_read_stop */
} connection_t;

static uvwheel_t idles;

/* Its timers are closed, so the connection is freed here and now. */
static void
close_connection(connection_t *connection, const char *reason)
{
  say(connection->name, reason);
  uvwheel_timer_close(&connection->stage);
  uvwheel_timer_close(&connection->request);
  uvwheel_timer_close(&connection->idle);
  uvwheel_timer_close(&connection->client);
  free(connection);
}

static void
on_timeout(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;

  close_connection(connection, timer == &connection->idle ? "closed, idle"
                               : timer == &connection->stage
                                   ? "closed, the head took too long"
                                   : "closed, the request took too long");
}

static void on_period(uvwheel_timer_t *timer);

/* A start for each period, no repeat. A repeat keeps its beat: after a late
 * call the next period would be short, and cut off a client that is fast
 * enough. */
static void
begin_period(connection_t *connection)
{
  connection->body_in_period = 0;
  connection->period_began_ms = uvwheel_now(&wheel);
  uvwheel_timer_start(&connection->stage, on_period, RATE_PERIOD, 0);
}

/* The wheel's clock leaves out the time that it has forgiven. */
static void
on_period(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;
  uint64_t passed_ms = uvwheel_now(&wheel) - connection->period_began_ms;

  if (connection->body_in_period < passed_ms * LEAST_RATE / SECOND) {
    close_connection(connection, "closed, the body is too slow");
    return; /* the connection is freed */
  }
  begin_period(connection);
}

/* At accept, and with the first byte of each later request. */
static void
begin_request(connection_t *connection)
{
  uvwheel_timer_stop(&connection->idle);
  uvwheel_timer_start(&connection->stage, on_timeout, HEAD_TIMEOUT, 0);
  uvwheel_timer_start(&connection->request, on_timeout, REQUEST_TIMEOUT, 0);
}

static void
end_request(connection_t *connection)
{
  say(connection->name, "answered");
  connection->head_left = HEAD_LENGTH; /* of the next one */
  uvwheel_timer_stop(&connection->stage);
  uvwheel_timer_stop(&connection->request);
  uvwheel_timer_start(&connection->idle, on_timeout, KEEP_ALIVE, 0);
}

/* Your read callback and your parser. */
static void
receive(connection_t *connection, size_t length)
{
  if (uvwheel_timer_is_active(&connection->idle))
    begin_request(connection);
  if (connection->head_left != 0) {
    connection->head_left -= length;
    if (connection->head_left == 0) {
      connection->body_left = BODY_LENGTH;
      begin_period(connection);
    }
    return;
  }
  connection->body_in_period += length;
  connection->body_left -= length;
  if (connection->body_left == 0)
    end_request(connection);
}

/* ---- The clients, and what holds up the server -------------------------- */

static void
on_client(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;
  int in_head = connection->head_left != 0;
  size_t left = in_head ? connection->head_left : connection->body_left;
  size_t step = in_head ? connection->head_step : connection->body_step;

  switch (++connection->seconds) { /* the last client sees the troubles */
  case 22: /* it blocks its loop, then reads what has come meanwhile */
    uv_sleep(24 * SECOND / 10);
    receive(connection, 3 * step);
    connection->pause = 1;
    return;
  case 30: /* it stops reading; no pause may be longer than `request` */
    connection->is_unread = 1;
    uvwheel_timer_stop(&connection->stage);
    break;
  case 37: /* in a head this would start `stage` with on_timeout */
    connection->is_unread = 0;
    begin_period(connection);
    break;
  }
  if (connection->requests == 0 || connection->is_unread ||
      connection->pause-- > 0)
    return;
  connection->pause = 0;
  receive(connection, left < step ? left : step);
  if (in_head || connection->body_left > 0)
    return;
  connection->requests--;
  connection->pause = 3;
}

static void
open_connection(const connection_t *client)
{
  connection_t *connection = allocate(sizeof(*connection));

  *connection = *client;
  connection->head_left = HEAD_LENGTH;
  uvwheel_timer_init(&wheel, &connection->stage);
  uvwheel_timer_init(&wheel, &connection->request);
  uvwheel_timer_init(&idles, &connection->idle);
  uvwheel_timer_init(&wheel, &connection->client);
  connection->stage.data = connection->request.data = connection;
  connection->idle.data = connection->client.data = connection;
  begin_request(connection);
  uvwheel_timer_start(&connection->client, on_client, SECOND, SECOND);
}

int
main(void)
{
  static const connection_t clients[] = {
      {.name = "slow head", .head_step = 1, .requests = 1},
      {.name = "slow body", .head_step = 40, .body_step = 100, .requests = 1},
      {.name = "good", .head_step = 40, .body_step = 20000, .requests = 2},
      {.name = "long body", .head_step = 40, .body_step = 800, .requests = 1},
  };
  uvwheel_options_t options = {.tick_ms = 10};

  begin(&options);
  if (uvwheel_init(&loop, &idles, &options) != 0)
    return EXIT_FAILURE;
  for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
    open_connection(&clients[i]);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  uvwheel_close(&idles, NULL);
  return end();
}
