/* SPDX-License-Identifier: MIT */

/* A server that ends at once sends all its clients to the next one in the same
 * moment, cuts off answers, and loses the jobs whose time has not come.
 *
 * On SIGTERM its idle connections go, spread over 5 s: a walk starts each timer
 * again with a random time. 20,000 connections are some 450 in 100 ms at most.
 * While a request is in flight its connection has no idle timer, so the walk
 * passes it over, and it goes after the answer; the request's own timer (see
 * http-timeouts) ends the wait. A job is taken out of its wheel with the time
 * that it had left, and could be written to a file. */

#include <signal.h>

#include "recipe.h"

#define IDLE_MS 60000
#define WINDOW_MS 5000

typedef struct connection_s {
  uvwheel_timer_t idle; /* on `wheel`; jobs are on another one */
} connection_t;

static uvwheel_t jobs;
static connection_t *busy;
static int drains;
static crowd_t closed;

static void
close_connection(uvwheel_timer_t *idle)
{
  add_to_crowd(&closed, 100);
  uvwheel_timer_close(idle);
  free(idle->data);
}

static void
end_request(connection_t *connection)
{
  if (drains)
    close_connection(&connection->idle);
  else
    uvwheel_timer_start(&connection->idle, close_connection, IDLE_MS, 0);
}

static void
leave_soon(uvwheel_timer_t *timer, void *arg)
{
  (void)arg;
  uvwheel_timer_start(timer, close_connection, random_below(WINDOW_MS), 0);
}

static void
save_job(uvwheel_timer_t *timer, void *stream)
{
  fprintf(stream, "left: %s, due in %" PRIu64 " ms\n", (char *)timer->data,
          uvwheel_timer_get_due_in(timer));
  uvwheel_timer_close(timer);
}

static void
on_terminate(uv_signal_t *handle, int number)
{
  (void)number;
  uv_close((uv_handle_t *)handle, NULL); /* and your listener */
  drains = 1;
  uvwheel_walk(&wheel, leave_soon, NULL);
  uvwheel_walk(&jobs, save_job, stdout);
}

static void
on_job(uvwheel_timer_t *timer)
{
  say(timer->data, "done");
}

/* ---- In place of peers and an operator ----------------------------------- */

static void
open_connection(void)
{
  busy = allocate(sizeof(*busy));
  busy->idle.data = busy;
  uvwheel_timer_init(&wheel, &busy->idle);
  uvwheel_timer_start(&busy->idle, close_connection, IDLE_MS, 0);
}

static void
on_answer(uv_timer_t *timer)
{
  printf("answered, %" PRIu64 " idle\n", uvwheel_count(&wheel));
  end_request(busy);
  uv_close((uv_handle_t *)timer, NULL);
}

int
main(void)
{
  static char certificate[] = "renew the certificate";
  uvwheel_timer_t job = {.data = certificate};
  uv_signal_t terminate;
  uv_timer_t answer;

  begin(&(uvwheel_options_t){.tick_ms = 10});
  if (uvwheel_init(&loop, &jobs, NULL) != 0 ||
      uv_signal_init(&loop, &terminate) != 0 ||
      uv_signal_start(&terminate, on_terminate, SIGTERM) != 0 ||
      uv_timer_init(&loop, &answer) != 0)
    return EXIT_FAILURE;
  uvwheel_timer_init(&jobs, &job);
  uvwheel_timer_start(&job, on_job, 24 * 60 * 60 * 1000, 0);
  for (int i = 0; i <= 20000; i++)
    open_connection();
  uvwheel_timer_stop(&busy->idle); /* as a request begins */
  uv_timer_start(&answer, on_answer, 2 * WINDOW_MS, 0);
  uv_kill(uv_os_getpid(), SIGTERM);
  uv_run(&loop, UV_RUN_DEFAULT); /* until the last connection has gone */
  say("server", "ended");
  printf("%u in 100 ms at most\n", closed.most);
  uvwheel_close(&jobs, NULL);
  return end();
}
