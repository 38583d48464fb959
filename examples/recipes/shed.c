/* SPDX-License-Identifier: MIT */

/* A few hundred peers that connect and say nothing shut everybody out of a full
 * server. So it makes room: the connections that were idle longest go first.
 *
 * uvwheel_fire_soonest calls the callbacks of the timers that are due soonest,
 * which close their connections as always. Due soonest is the idlest only where
 * all have one timeout. A newcomer has less time until its first whole request
 * (or its login). That is expected, too, but no byte refreshes it. On one wheel
 * with the others a newcomer would be due before all that are at rest: a full
 * server would close each newcomer for the next one. So newcomers are on a
 * wheel of their own. They are shed only when they hold more than an eighth of
 * the places: a flood of silent ones pushes out itself.
 *
 * In a read callback the connection in hand may be the idlest: so it has no
 * active timer when something makes room. Timers that must not come early, as
 * of retries, belong on another wheel.
 *
 * The server is full of peers at rest. Newcomers come every 100 ms: first 8
 * that make their request when the next one has come, then 20 that never send a
 * whole one. */

#include "recipe.h"

#define PLACES 16
#define IDLE_MS 60000
#define FIRST_MS 5000
#define HONEST 8
#define SILENT 20

typedef struct connection_s {
  uvwheel_timer_t idle;
} connection_t;

static uvwheel_t newcomers;
static connection_t *last; /* that has come */
static unsigned served, closed_newcomers, closed_at_rest;

/* A real one closes its socket, which gives the descriptor back at once, and is
 * freed in the close callback. */
static void on_idle(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  if (uvwheel_timer_get_wheel(timer) == &newcomers)
    closed_newcomers++;
  else
    closed_at_rest++;
  if (connection == last)
    last = NULL;
  uvwheel_timer_close(timer);
  free(connection);
}

/* Also before what else takes a place, such as a connection to another server.
 * More than one may go at once, for the next newcomers: see echo.c. */
static void make_room(void) {
  uint64_t count = uvwheel_count(&newcomers);

  if (count + uvwheel_count(&wheel) >= PLACES)
    uvwheel_fire_soonest(count > PLACES / 8 ? &newcomers : &wheel, 1);
}

static connection_t *welcome(void) {
  connection_t *connection = allocate(sizeof(*connection));

  make_room();
  connection->idle.data = connection;
  uvwheel_timer_init(&newcomers, &connection->idle);
  uvwheel_timer_expect(&connection->idle, on_idle, FIRST_MS);
  return connection;
}

/* Your read callback for a whole request. */
static void on_request(connection_t *connection) {
  uvwheel_timer_stop(&connection->idle);
  served++;
  make_room();
  uvwheel_timer_init(&wheel, &connection->idle);
  uvwheel_timer_expect(&connection->idle, on_idle, IDLE_MS);
}

/* The same for less than a whole one. */
static void on_bytes(connection_t *connection) {
  if (uvwheel_timer_get_wheel(&connection->idle) != &newcomers)
    uvwheel_timer_refresh(&connection->idle);
}

static void tell(const char *who) {
  printf("%s: %u served, closed: %u newcomers, %u at rest\n", who, served,
         closed_newcomers, closed_at_rest);
  served = closed_newcomers = closed_at_rest = 0;
}

/* In place of the network. */
static void on_network(uv_timer_t *timer) {
  static unsigned count;
  connection_t *newest = count < HONEST + SILENT ? welcome() : NULL;

  if (count <= HONEST && last != NULL)
    on_request(last);
  else if (last != NULL)
    on_bytes(last);
  last = newest;
  if (count == HONEST)
    tell("who ask");
  if (count++ == HONEST + SILENT) {
    tell("who say nothing");
    uv_close((uv_handle_t *)timer, NULL);
    uvwheel_fire_soonest(&newcomers, UINT64_MAX); /* all */
    uvwheel_fire_soonest(&wheel, UINT64_MAX);
    uvwheel_close(&newcomers, NULL);
  }
}

int main(void) {
  uv_timer_t network;

  begin(&(uvwheel_options_t){.tick_ms = 10});
  if (uv_timer_init(&loop, &network) != 0 ||
      uvwheel_init(&loop, &newcomers, NULL) != 0)
    return EXIT_FAILURE;
  for (unsigned i = 0; i < PLACES; i++)
    on_request(welcome());
  tell("at rest");
  uv_timer_start(&network, on_network, 100, 100);
  uv_run(&loop, UV_RUN_DEFAULT);
  return end();
}
