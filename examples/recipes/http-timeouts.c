/* SPDX-License-Identifier: MIT */

/* The timeouts of an HTTP server, on one connection:
 *
 *   the head of a request within 10 s     `stage`, never refreshed: a client
 *                                         that sends a byte a second gains
 *                                         nothing
 *   a body of 500 bytes/s at least        `stage` again, as a repeat that looks
 *                                         at what has come in the last 5 s
 *   the whole request within 60 s         `request`, from beginning to end
 *   5 s between requests (keep-alive)     `idle`
 *
 * The head and the body of a request never come at the same time: one timer
 * serves both, and is started anew with another callback. Two wheels: a full
 * server sheds the connections of `idles` with uvwheel_fire_soonest, and must
 * not cut off requests, whose timers are on `deadlines`.
 *
 * Four clients: one is slow with the head, one with the body, one takes too
 * long in all, and one makes two requests and stays. The network is left out:
 * a timer brings what a client sends. Time runs ten times as fast. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvwheel.h>

#define SECOND 100 /* ms; in your server 1000 */
#define HEAD_TIMEOUT (10 * SECOND)
#define REQUEST_TIMEOUT (60 * SECOND)
#define KEEP_ALIVE (5 * SECOND)
#define RATE_PERIOD (5 * SECOND)
#define LEAST_IN_PERIOD (5 * 500)

typedef struct connection_s {
  const char *name;
  char head[256];
  size_t head_length;
  size_t body_left;
  size_t body_in_period;
  uvwheel_timer_t stage, request; /* on deadlines */
  uvwheel_timer_t idle;           /* on idles */
  uvwheel_timer_t client;
  size_t head_step, body_step; /* what the client sends each second */
  size_t sent;
  unsigned requests; /* that the client still makes */
  unsigned pause;    /* seconds before the next one */
} connection_t;

static uv_loop_t loop;
static uvwheel_t deadlines, idles;
static uint64_t start_ms;

static void
say(const connection_t *connection, const char *what)
{
  printf("%5" PRIu64 " ms: %s: %s\n", uv_now(&loop) - start_ms,
         connection->name, what);
}

/* Once its timers are closed the connection may be freed, here and now. */
static void
close_connection(connection_t *connection, const char *reason)
{
  say(connection, reason);
  uvwheel_timer_close(&connection->stage);
  uvwheel_timer_close(&connection->request);
  uvwheel_timer_close(&connection->idle);
  uvwheel_timer_close(&connection->client);
}

static void
on_late_head(uvwheel_timer_t *timer)
{
  close_connection(timer->data, "closed, the head took too long");
}

static void
on_late_request(uvwheel_timer_t *timer)
{
  close_connection(timer->data, "closed, the request took too long");
}

static void
on_idle(uvwheel_timer_t *timer)
{
  close_connection(timer->data, "closed, idle");
}

static void
on_period(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;

  if (connection->body_in_period < LEAST_IN_PERIOD)
    close_connection(connection, "closed, the body is too slow");
  connection->body_in_period = 0;
}

/* At accept, and with the first byte of each later request. */
static void
begin_request(connection_t *connection)
{
  connection->head_length = 0;
  uvwheel_timer_stop(&connection->idle);
  uvwheel_timer_start(&connection->stage, on_late_head, HEAD_TIMEOUT, 0);
  uvwheel_timer_start(&connection->request, on_late_request, REQUEST_TIMEOUT,
                      0);
}

static void
end_request(connection_t *connection)
{
  say(connection, "answered");
  uvwheel_timer_stop(&connection->stage);
  uvwheel_timer_stop(&connection->request);
  uvwheel_timer_start(&connection->idle, on_idle, KEEP_ALIVE, 0);
}

static void
end_head(connection_t *connection)
{
  const char *length = strstr(connection->head, "Content-Length: ");

  connection->body_left = length != NULL ? strtoul(length + 16, NULL, 10) : 0;
  connection->body_in_period = 0;
  if (connection->body_left == 0)
    end_request(connection);
  else
    uvwheel_timer_start(&connection->stage, on_period, RATE_PERIOD,
                        RATE_PERIOD);
}

/* Your read callback. Here no chunk contains both the end of a head
 * and the start of a body. */
static void
receive(connection_t *connection, const char *bytes, size_t length)
{
  if (uvwheel_timer_is_active(&connection->idle))
    begin_request(connection);
  if (connection->body_left != 0) {
    connection->body_in_period += length;
    connection->body_left -= length;
    if (connection->body_left == 0)
      end_request(connection);
    return;
  }
  memcpy(connection->head + connection->head_length, bytes, length);
  connection->head_length += length;
  connection->head[connection->head_length] = '\0';
  if (strstr(connection->head, "\r\n\r\n") != NULL)
    end_head(connection);
}

/* ---- The clients -------------------------------------------------------- */

static const char head[] = "PUT / HTTP/1.1\r\nContent-Length: 60000\r\n\r\n";

static void
on_client(uvwheel_timer_t *timer)
{
  static const char body[60000];
  connection_t *connection = timer->data;
  size_t left = sizeof(head) - 1 - connection->sent;

  if (connection->requests == 0 || connection->pause-- > 0)
    return;
  connection->pause = 0;
  if (left > 0) {
    size_t length = left < connection->head_step ? left : connection->head_step;
    receive(connection, head + connection->sent, length);
    connection->sent += length;
    return;
  }
  receive(connection, body, connection->body_step);
  if (connection->body_left > 0)
    return;
  connection->requests--;
  connection->sent = 0;
  connection->pause = 3;
}

static void
open_connection(connection_t *connection)
{
  uvwheel_timer_init(&deadlines, &connection->stage);
  uvwheel_timer_init(&deadlines, &connection->request);
  uvwheel_timer_init(&idles, &connection->idle);
  uvwheel_timer_init(&deadlines, &connection->client);
  connection->stage.data = connection->request.data = connection;
  connection->idle.data = connection->client.data = connection;
  begin_request(connection);
  uvwheel_timer_start(&connection->client, on_client, SECOND, SECOND);
}

int
main(void)
{
  static connection_t connections[] = {
      {.name = "slow head", .head_step = 1, .requests = 1},
      {.name = "slow body", .head_step = 40, .body_step = 100, .requests = 1},
      {.name = "long body", .head_step = 40, .body_step = 800, .requests = 1},
      {.name = "good", .head_step = 40, .body_step = 20000, .requests = 2},
  };
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 ||
      uvwheel_init(&loop, &deadlines, &options) != 0 ||
      uvwheel_init(&loop, &idles, &options) != 0)
    return EXIT_FAILURE;
  start_ms = uv_now(&loop);
  for (size_t i = 0; i < sizeof(connections) / sizeof(connections[0]); i++)
    open_connection(&connections[i]);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  uvwheel_close(&deadlines, NULL);
  uvwheel_close(&idles, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
