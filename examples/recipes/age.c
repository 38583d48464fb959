/* SPDX-License-Identifier: MIT */

/* Connections that began together end together: 5,000 that came back in the
 * same second after a crash do so again an hour later, and each hour.
 *
 * So a connection lives for an hour, give or take a random tenth: at most some
 * 500 end in a minute. It is asked to go (by GOAWAY or "Connection: close"),
 * and closed if it has not gone after a time of grace. One timer does both. It
 * is started, so no stall puts it back.
 *
 * The program does it both ways. Half of the peers go when they are asked. Time
 * runs a thousand times as fast: each way takes some 4 s. */

#include "recipe.h"

#define SECOND 1 /* ms; in your server 1000 */
#define AGE (3600 * SECOND)
#define GRACE (30 * SECOND)
#define CONNECTIONS 5000

typedef struct connection_s {
  uvwheel_timer_t age;
  int goes; /* when it is asked */
} connection_t;

static unsigned went, closed;
static crowd_t asked;

static void close_connection(connection_t *connection) {
  uvwheel_timer_close(&connection->age);
  free(connection);
}

static void on_grace_over(uvwheel_timer_t *timer) {
  closed++;
  close_connection(timer->data);
}

static void on_age(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  add_to_crowd(&asked, 60 * SECOND);
  uvwheel_timer_start(timer, on_grace_over, GRACE, 0);
  if (connection->goes) { /* a real one: once it has its last answer */
    went++;
    close_connection(connection);
  }
}

static void open_connection(uint64_t spread_ms, int goes) {
  connection_t *connection = allocate(sizeof(*connection));

  connection->goes = goes;
  connection->age.data = connection;
  uvwheel_timer_init(&wheel, &connection->age);
  uvwheel_timer_start(&connection->age, on_age,
                      AGE - spread_ms + random_below(2 * spread_ms + 1), 0);
}

static void run(const char *name, uint64_t spread_ms) {
  went = closed = asked.most = 0;
  for (int i = 0; i < CONNECTIONS; i++)
    open_connection(spread_ms, i % 2);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  printf("%s: %u in a minute at most, %u went, %u were closed\n", name,
         asked.most, went, closed);
}

int main(void) {
  begin(&(uvwheel_options_t){.tick_ms = SECOND});
  run("together", 0);
  run("spread", AGE / 10);
  return end();
}
