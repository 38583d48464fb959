/* SPDX-License-Identifier: MIT */

/* Keep-alive: ping a peer that has been quiet for long, and close it if it does
 * not answer.
 *
 * One timer does both. It first waits for the peer to fall quiet; whatever
 * arrives refreshes it, so a busy peer is never pinged. When it fires, a ping
 * goes out and the timer waits for the answer. Anything that arrives is as good
 * an answer as a pong: the timer then waits for quiet again.
 *
 * The peer here says something at 600 ms, answers two pings, and dies. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvwheel.h>

#define QUIET_MS 1000 /* then comes a ping               */
#define PONG_MS 300   /* how long its answer may take */

typedef struct connection_s {
  uvwheel_timer_t alive;
  int is_pinged;
} connection_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static uint64_t start_ms;

static connection_t connection;

static void
say(const char *what)
{
  printf("%4" PRIu64 " ms: %s\n", uv_now(&loop) - start_ms, what);
}

static void send_ping(void);

static void
on_alive(uvwheel_timer_t *timer)
{
  if (connection.is_pinged) {
    say("no answer, the peer is dead");
    return; /* close and free the connection here */
  }
  say("quiet, ping");
  connection.is_pinged = 1;
  uvwheel_timer_start(timer, on_alive, PONG_MS, 0);
  send_ping();
}

/* Your read callback. After a ping a refresh alone would wait for PONG_MS
 * again, because the timer was started with it. */
static void
receive(const char *what)
{
  say(what);
  if (connection.is_pinged) {
    connection.is_pinged = 0;
    uvwheel_timer_start(&connection.alive, on_alive, QUIET_MS, 0);
  } else {
    uvwheel_timer_refresh(&connection.alive);
  }
}

/* ---- The peer, in place of a network ------------------------------------- */

static uvwheel_timer_t delay;
static int pongs = 2; /* that it will send before it dies */

static void
on_message(uvwheel_timer_t *timer)
{
  (void)timer;
  receive("message");
}

static void
on_pong(uvwheel_timer_t *timer)
{
  (void)timer;
  receive("pong");
}

static void
send_ping(void)
{
  if (pongs-- > 0)
    uvwheel_timer_start(&delay, on_pong, 50, 0);
}

int
main(void)
{
  uvwheel_options_t options = {.tick_ms = 10};

  if (uv_loop_init(&loop) != 0 || uvwheel_init(&loop, &wheel, &options) != 0)
    return EXIT_FAILURE;
  start_ms = uv_now(&loop);
  uvwheel_timer_init(&wheel, &connection.alive);
  uvwheel_timer_start(&connection.alive, on_alive, QUIET_MS, 0);
  uvwheel_timer_init(&wheel, &delay);
  uvwheel_timer_start(&delay, on_message, 600, 0);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  uvwheel_close(&wheel, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  return uv_loop_close(&loop) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
