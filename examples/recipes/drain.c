/* SPDX-License-Identifier: MIT */

/* A server that ends at once sends all its clients to the next one in the same
 * moment, and cuts off answers. One that waits until its clients are idle never
 * ends.
 *
 * On SIGTERM its connections go, spread over 5 s: a walk starts each timer
 * again with a random time, and nothing refreshes it any more. 20,000
 * connections are some 450 in 100 ms at most. The walk passes over answers in
 * flight: their last write closes the connection. (Jobs that outlive the server
 * are on another wheel, and on disk: see deadlines.)
 *
 * Half of the peers speak each second. 200 get an answer that takes 10 s: half
 * of these ask before SIGTERM, half right after it. */

#include <signal.h>

#include "recipe.h"

#define IDLE_MS 60000
#define WINDOW_MS 5000
#define CONNECTIONS 20000
#define ANSWERS 200

typedef struct connection_s {
  uvwheel_timer_t idle;
  unsigned writes; /* that have not ended */
} connection_t;

static connection_t connections[CONNECTIONS];
static int drains;
static crowd_t closed;

static void on_idle(uvwheel_timer_t *timer) {
  add_to_crowd(&closed, 100);
  uvwheel_timer_close(timer);
}

/* Your read callback. An answer that moves refreshes as before: see progress.
 */
static void receive(connection_t *connection) {
  if (!drains)
    uvwheel_timer_refresh(&connection->idle);
}

/* Also if the connection was about to leave. */
static void begin_answer(connection_t *connection) {
  connection->writes++;
  uvwheel_timer_start(&connection->idle, on_idle, IDLE_MS, 0);
}

static void on_written(connection_t *connection) {
  if (--connection->writes == 0 && drains)
    on_idle(&connection->idle);
}

static void leave_soon(uvwheel_timer_t *timer, void *arg) {
  connection_t *connection = timer->data;

  (void)arg;
  if (connection->writes == 0)
    uvwheel_timer_start(timer, on_idle, random_below(WINDOW_MS), 0);
}

static void on_terminate(uv_signal_t *handle, int number) {
  (void)number;
  uv_close((uv_handle_t *)handle, NULL); /* and your listener */
  drains = 1;
  uvwheel_walk(&wheel, leave_soon, NULL);
}

/* ---- In place of peers and an operator ----------------------------------- */

static void on_second(uv_timer_t *timer) {
  static unsigned seconds;

  for (size_t i = ANSWERS / 2; i < ANSWERS && seconds == 0; i++)
    begin_answer(&connections[i]); /* right after the walk */
  for (size_t i = 0; i < CONNECTIONS / 2; i++)
    receive(&connections[i]);
  for (size_t i = 0; i < ANSWERS; i++)
    uvwheel_timer_refresh(&connections[i].idle);
  if (seconds++ < 10)
    return;
  printf("%" PRIu64 " left with an answer\n", uvwheel_count(&wheel));
  for (size_t i = 0; i < ANSWERS; i++)
    on_written(&connections[i]);
  uv_close((uv_handle_t *)timer, NULL);
}

int main(void) {
  uv_signal_t terminate;
  uv_timer_t network;

  begin(&(uvwheel_options_t){.tick_ms = 10});
  if (uv_signal_init(&loop, &terminate) != 0 ||
      uv_signal_start(&terminate, on_terminate, SIGTERM) != 0 ||
      uv_timer_init(&loop, &network) != 0)
    return EXIT_FAILURE;
  for (size_t i = 0; i < CONNECTIONS; i++) {
    connections[i].idle.data = &connections[i];
    uvwheel_timer_init(&wheel, &connections[i].idle);
    uvwheel_timer_start(&connections[i].idle, on_idle, IDLE_MS, 0);
    if (i < ANSWERS / 2)
      begin_answer(&connections[i]);
  }
  uv_timer_start(&network, on_second, 1, 1000);
  uv_kill(uv_os_getpid(), SIGTERM);
  uv_run(&loop, UV_RUN_DEFAULT); /* until the last connection has gone */
  say("server", "ended");
  printf("%u in 100 ms at most\n", closed.most);
  return end();
}
