/* SPDX-License-Identifier: MIT */

/* A full server makes room: the connections that were idle longest go first.
 *
 * This server has PLACES for connections, as others have descriptors or memory.
 * When they are taken it would have to turn newcomers away until a peer times
 * out, and a few hundred peers that connect and say nothing would shut
 * everybody out. uvwheel_fire_soonest calls the callbacks of the timers that
 * are due soonest, which close their connections as always. It is time for that
 * when a start fails at max_timers.
 *
 * Timers that must not fire early, such as those of retries or reports, belong
 * on another wheel. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

#define PLACES 4
#define AT_ONCE 2 /* more than one, for the next newcomers */
#define IDLE_MS 60000

typedef struct connection_s {
  const char *name;
  uvwheel_timer_t idle;
} connection_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;

static void
say(const char *name, const char *what)
{
  printf("%4" PRIu64 " ms: %s: %s\n", uv_now(&loop) - start_ms, name, what);
}

/* A real one closes its socket here, which gives the descriptor back at once.
 */
static void
on_idle(uvwheel_timer_t *timer)
{
  connection_t *connection = timer->data;

  say(connection->name, "closed");
  free(connection);
}

static connection_t *
welcome(const char *name)
{
  connection_t *connection = malloc(sizeof(*connection));

  if (connection == NULL)
    abort();
  connection->name = name;
  uvwheel_timer_init(&wheel, &connection->idle);
  connection->idle.data = connection;
  if (uvwheel_timer_start(&connection->idle, on_idle, IDLE_MS, 0) != 0) {
    uvwheel_fire_soonest(&wheel, AT_ONCE);
    uvwheel_timer_start(&connection->idle, on_idle, IDLE_MS, 0);
  }
  say(name, "welcome");
  return connection;
}

/* The network's part: every 100 ms a new peer comes, and before that the first
 * one speaks. The others say nothing. */
static void
on_newcomer(uvwheel_timer_t *timer)
{
  static const char *const names[] = {"busy", "ann",  "ben", "cat",
                                      "dan",  "emil", "fay", "gus"};
  static size_t count;
  static connection_t *busy;

  if (busy == NULL)
    busy = welcome(names[count++]);
  uvwheel_timer_refresh(&busy->idle);
  (void)welcome(names[count++]);
  if (count == sizeof(names) / sizeof(names[0]))
    uvwheel_timer_stop(timer);
}

int
main(void)
{
  uvwheel_t others;
  uvwheel_timer_t newcomers;
  uvwheel_options_t options = {.tick_ms = 10, .max_timers = PLACES};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0)
    return EXIT_FAILURE;
  options.max_timers = 0;
  if (uvwheel_init(&loop, &others, &options) != 0)
    return EXIT_FAILURE;
  start_ms = uv_now(&loop);
  uvwheel_timer_init(&others, &newcomers);
  uvwheel_timer_start(&newcomers, on_newcomer, 100, 100);
  while (uvwheel_timer_is_active(&newcomers))
    uv_run(&loop, UV_RUN_ONCE);
  printf("%" PRIu64 " left\n", uvwheel_count(&wheel));
  uvwheel_fire_soonest(&wheel, UINT64_MAX); /* all */
  uvwheel_close(&wheel, NULL);
  uvwheel_close(&others, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
