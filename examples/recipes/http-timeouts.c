/* SPDX-License-Identifier: MIT */

/* An idle timeout alone lets a client that sends a byte now and then keep its
 * connection for ever. A limit for the whole request ends downloads. The
 * timeouts of an HTTP server, on one connection:
 *
 *   the head of a request within 10 s     `stage`, which no byte refreshes. A
 *                                         TLS handshake is such a stage, too
 *   a body of 500 bytes/s at least        `stage` again, which looks each 5 s
 *                                         at what has come since the last look
 *   the request within 60 s               `request`, until the answer begins
 *   an answer that is taken as fast       `stage` again: what has been
 *                                         acknowledged (see progress)
 *   a stream with nothing to say          `stage` again sends a heartbeat: the
 *                                         next look finds who is gone
 *   5 s between requests (keep-alive)     `idle`
 *   1 s after UV_EOF                      `request` again. Most who end what
 *                                         they send are gone. An answer that
 *                                         has begun goes on
 *
 * The stages of a request never come at the same time: one timer serves them,
 * and is started anew with another callback. (Stop it while you do not read,
 * and begin a period when you read again.) The idle timers have a wheel of
 * their own: uvwheel_fire_soonest must not cut off requests.
 *
 * The network is left out: a timer brings what a client sends and takes. Time
 * runs ten times as fast. */

#include "recipe.h"

#define SECOND 100 /* ms; in your server 1000 */
#define HEAD_TIMEOUT (10 * SECOND)
#define REQUEST_TIMEOUT (60 * SECOND)
#define KEEP_ALIVE (5 * SECOND)
#define EOF_TIMEOUT (1 * SECOND)
#define PERIOD (5 * SECOND)
#define LEAST_RATE 500 /* bytes in a SECOND */
#define HEAD_LENGTH 46
#define HEARTBEAT 3 /* bytes */

enum { HEAD, BODY, WORK, ANSWER, IDLE, STAGES };

typedef struct connection_s {
  const char *name;
  size_t speed[STAGES]; /* what the client sends or takes each second */
  size_t body, answer;  /* how long they are, if there are any */
  int is_stream;
  unsigned seconds;                /* since it came */
  unsigned asks_again, ends, dies; /* in these seconds */
  int at;                          /* a stage */
  uvwheel_timer_t client;
  size_t left;      /* of the head, the body or the answer */
  size_t left_then; /* at the last look */
  size_t moved;     /* since then */
  uint64_t looked_ms;
  uvwheel_timer_t stage, request; /* on `wheel` */
  uvwheel_timer_t idle;           /* on `idles` */
} connection_t;

static uvwheel_t idles;

/* A real one is freed here and now: its timers are closed. */
static void close_connection(connection_t *connection, const char *reason) {
  say(connection->name, reason);
  uvwheel_timer_close(&connection->stage);
  uvwheel_timer_close(&connection->request);
  uvwheel_timer_close(&connection->idle);
  uvwheel_timer_close(&connection->client);
}

static void on_timeout(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  close_connection(connection, timer == &connection->idle ? "closed, idle"
                               : timer == &connection->stage
                                   ? "closed, the head took too long"
                                   : "closed, the request took too long");
}

static void on_look(uvwheel_timer_t *timer);

/* A start for each period, no repeat. A repeat keeps its beat: after a late
 * call the next period would be short, and cut off a client that is fast
 * enough. */
static void begin_period(connection_t *connection) {
  connection->left_then = connection->left;
  connection->moved = 0;
  connection->looked_ms = uv_now(&loop);
  uvwheel_timer_start(&connection->stage, on_look, PERIOD, 0);
}

/* What was not there at the last look is not missed. */
static void on_look(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;
  uint64_t passed_ms = uv_now(&loop) - connection->looked_ms;

  if (connection->moved < connection->left_then &&
      connection->moved < passed_ms * LEAST_RATE / SECOND) {
    close_connection(connection, "closed, too slow");
    return;
  }
  if (connection->left == 0) /* a stream */
    connection->left = HEARTBEAT;
  begin_period(connection);
}

/* At accept, and with the first byte of each later request. */
static void begin_request(connection_t *connection) {
  connection->at = HEAD;
  connection->left = HEAD_LENGTH;
  uvwheel_timer_stop(&connection->idle);
  uvwheel_timer_start(&connection->stage, on_timeout, HEAD_TIMEOUT, 0);
  uvwheel_timer_start(&connection->request, on_timeout, REQUEST_TIMEOUT, 0);
}

/* The hand-over: from here on the look at the stage is the only limit. */
static void begin_answer(connection_t *connection) {
  connection->at = ANSWER;
  connection->left = connection->answer;
  uvwheel_timer_stop(&connection->request);
  begin_period(connection);
}

/* Your read callback, your parser, and what progress counts. */
static void move(connection_t *connection, size_t length) {
  connection->left -= length;
  connection->moved += length;
  if (connection->left != 0)
    return;
  if (connection->at == HEAD && connection->body != 0) {
    connection->at = BODY;
    connection->left = connection->body;
    begin_period(connection);
  } else if (connection->at != ANSWER) {
    connection->at = WORK;
    uvwheel_timer_stop(&connection->stage);
    if (connection->answer != 0)
      begin_answer(connection);
  } else if (!connection->is_stream) {
    connection->at = IDLE;
    uvwheel_timer_stop(&connection->stage);
    uvwheel_timer_start(&connection->idle, on_timeout, KEEP_ALIVE, 0);
    say(connection->name, "answered");
  }
}

/* UV_EOF */
static void on_end(connection_t *connection) {
  if (connection->at == WORK)
    uvwheel_timer_start(&connection->request, on_timeout, EOF_TIMEOUT, 0);
  else if (connection->at != ANSWER)
    close_connection(connection, "closed, the client has ended");
}

/* ---- The clients --------------------------------------------------------- */

static void on_client(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;
  unsigned second = ++connection->seconds;

  if (connection->at == IDLE && second == connection->asks_again)
    begin_request(connection);
  size_t length = connection->speed[connection->at];
  if (length > connection->left)
    length = connection->left;
  if (length != 0)
    move(connection, length);
  if (second == connection->dies)
    uvwheel_timer_stop(timer);
  if (second == connection->ends)
    on_end(connection);
}

static void open_connection(connection_t *connection) {
  uvwheel_timer_init(&wheel, &connection->stage);
  uvwheel_timer_init(&wheel, &connection->request);
  uvwheel_timer_init(&idles, &connection->idle);
  uvwheel_timer_init(&wheel, &connection->client);
  connection->stage.data = connection->request.data = connection;
  connection->idle.data = connection->client.data = connection;
  begin_request(connection);
  uvwheel_timer_start(&connection->client, on_client, SECOND, SECOND);
}

int main(void) {
  static connection_t clients[] = {
      {.name = "slow head", .speed = {1}},
      {"slow body", {23, 100}, .body = 60000},
      {"long body", {46, 800}, .body = 60000},
      {"good", {46, 20000, 0, 20000}, 60000, 20000, .asks_again = 8},
      {"download", {46, 0, 0, 800}, .answer = 60000},
      {"stuck", {46, 0, 0, 100}, .answer = 60000},
      {"stream", {46, 0, 0, 50}, .answer = 100, .is_stream = 1, .dies = 33},
      {"gone", {46}, .ends = 3},
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
