/* SPDX-License-Identifier: MIT */

/* Which connections are closed next? The ten that have been idle longest,
 * listed without firing their timers.
 *
 * uvwheel_fire_soonest would close them. Listing them takes a walk over all
 * timers, with ten places that keep the soonest in order: a timer that is due
 * later than the last of the ten costs one comparison. 100,000 timers take some
 * 20 ms, a million some 200: do this for an operator, not for each request.
 *
 * A thousand connections come, one each millisecond; the even ones then speak.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

#define CONNECTIONS 1000
#define IDLE_MS 60000
#define PLACES 10

typedef struct connection_s {
  unsigned number;
  uvwheel_timer_t idle;
} connection_t;

typedef struct idlest_s {
  size_t count;
  struct {
    uint64_t due_in_ms;
    const connection_t *connection;
  } places[PLACES]; /* the soonest first */
} idlest_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static connection_t connections[CONNECTIONS];

/* Insertion sort, in which what is pushed out of the last place is dropped. */
static void
take_place(uvwheel_timer_t *timer, void *arg)
{
  uint64_t due_in_ms = uvwheel_timer_get_due_in(timer);
  idlest_t *idlest = arg;
  size_t i = idlest->count;

  if (i == PLACES && due_in_ms >= idlest->places[i - 1].due_in_ms)
    return;
  if (i == PLACES)
    i--;
  else
    idlest->count++;
  for (; i > 0 && idlest->places[i - 1].due_in_ms > due_in_ms; i--)
    idlest->places[i] = idlest->places[i - 1];
  idlest->places[i].due_in_ms = due_in_ms;
  idlest->places[i].connection = timer->data;
}

/* Your server does this at a signal, or when its page is asked. */
static void
print_idlest(void)
{
  idlest_t idlest = {.count = 0};

  uvwheel_walk(&wheel, take_place, &idlest);
  for (size_t i = 0; i < idlest.count; i++)
    printf("%u: idle for %" PRIu64 " ms, closed in %" PRIu64 " ms\n",
           idlest.places[i].connection->number,
           IDLE_MS - idlest.places[i].due_in_ms, idlest.places[i].due_in_ms);
}

static void
on_idle(uvwheel_timer_t *timer)
{
  const connection_t *connection = timer->data;

  printf("%u: closed\n", connection->number);
}

/* The network's part. */
static void
on_newcomer(uv_timer_t *timer)
{
  static unsigned count;
  connection_t *connection = &connections[count];

  connection->number = count++;
  uvwheel_timer_init(&wheel, &connection->idle);
  connection->idle.data = connection;
  uvwheel_timer_start(&connection->idle, on_idle, IDLE_MS, 0);
  if (count < CONNECTIONS)
    return;
  uv_close((uv_handle_t *)timer, NULL);
  for (unsigned i = 0; i < CONNECTIONS; i += 2)
    uvwheel_timer_refresh(&connections[i].idle);
  print_idlest();
  printf("%" PRIu64 " connections are open\n", uvwheel_count(&wheel));
  uvwheel_close(&wheel, NULL);
}

int
main(void)
{
  uv_timer_t newcomers;

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, NULL) != 0)
    return EXIT_FAILURE;
  uv_timer_init(&loop, &newcomers);
  uv_timer_start(&newcomers, on_newcomer, 1, 1);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
