/* SPDX-License-Identifier: MIT */

/* A few hundred peers that connect and say nothing shut everybody out of a full
 * server. So it makes room: the connections that were idle longest go first.
 *
 * When a start fails at max_timers (or a descriptor or memory is missing),
 * uvwheel_fire_soonest calls the callbacks of the timers that are due soonest,
 * which close their connections as always. A newcomer would be due last, and
 * silent ones would push out all others. So until its first whole request (or
 * its login) it has only FIRST_MS, and no byte refreshes that: otherwise one
 * byte each would push out all others, too.
 *
 * In a read callback the connection in hand may be the one that is due soonest,
 * even after a refresh: so it has no active timer then. Timers that must not
 * come early, as of retries, belong on another wheel. */

#include "recipe.h"

#define PLACES 4
#define AT_ONCE 2 /* more than one, for the next newcomers */
#define IDLE_MS 60000
#define FIRST_MS 5000 /* less than IDLE_MS by the longest usual silence */

typedef struct connection_s {
  const char *name;
  int is_known; /* by a whole request */
  uvwheel_timer_t idle;
} connection_t;

/* A real one closes its socket, which gives the descriptor back at once, and is
 * freed in the close callback. */
static void on_idle(uvwheel_timer_t *timer) {
  connection_t *connection = timer->data;

  say(connection->name, "closed");
  uvwheel_timer_close(timer); /* it has a repeat: it is active */
  free(connection);
}

/* Makes room first if there is none. Closes the connection if that fails. */
static int begin_idle(connection_t *connection, uint64_t idle_ms) {
  uvwheel_timer_t *idle = &connection->idle;
  int error = await(idle, on_idle, idle_ms);

  if (error == UV_ENOBUFS && uvwheel_fire_soonest(&wheel, AT_ONCE) > 0)
    error = await(idle, on_idle, idle_ms);
  if (error != 0)
    on_idle(idle);
  return error;
}

/* NULL: there is no room. */
static connection_t *welcome(const char *name) {
  connection_t *connection = allocate(sizeof(*connection));

  connection->name = name;
  uvwheel_timer_init(&wheel, &connection->idle);
  connection->idle.data = connection;
  say(name, "welcome");
  return begin_idle(connection, FIRST_MS) == 0 ? connection : NULL;
}

/* Your read callback for a whole request. What the peer wants needs a place,
 * such as a connection to another server. NULL: it does not. */
static void on_request(connection_t *connection, const char *wants) {
  connection->is_known = 1;
  uvwheel_timer_stop(&connection->idle); /* before anything makes room */
  if (wants != NULL)
    (void)welcome(wants);
  say(connection->name, "served");
  (void)begin_idle(connection, IDLE_MS);
}

/* The same for less than a whole one. */
static void on_bytes(connection_t *connection) {
  if (connection->is_known)
    uvwheel_timer_refresh(&connection->idle);
}

/* The network's part: somebody comes every 100 ms. Only ann and dan ask for
 * something; ben begins to. */
static void on_network(uv_timer_t *timer) {
  static const char *const names[] = {"ann",        "ben",  "cat", "dan",
                                      "dan's file", "emil", "fay"};
  static size_t count;
  static connection_t *last;

  if (count == PLACES)
    on_request(last, names[count]); /* when the server is full */
  else
    last = welcome(names[count]);
  if (count == 0)
    on_request(last, NULL);
  else if (count == 1)
    on_bytes(last);
  if (++count == sizeof(names) / sizeof(names[0])) {
    printf("%" PRIu64 " left\n", uvwheel_count(&wheel));
    uv_close((uv_handle_t *)timer, NULL);
    uvwheel_fire_soonest(&wheel, UINT64_MAX); /* all */
  }
}

int main(void) {
  uv_timer_t network;

  begin(&(uvwheel_options_t){.tick_ms = 10, .max_timers = PLACES});
  if (uv_timer_init(&loop, &network) != 0)
    return EXIT_FAILURE;
  uv_timer_start(&network, on_network, 100, 100);
  uv_run(&loop, UV_RUN_DEFAULT);
  return end();
}
