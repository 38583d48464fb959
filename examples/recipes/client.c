/* SPDX-License-Identifier: MIT */

/* A client library has a timer for all that it does. When its program blocks
 * the loop, the library must not give up a server whose answer waits, and must
 * not send late.
 *
 * So it expects what the server sends: the address, the connection, a pong, an
 * answer, which each piece refreshes. It starts what it does itself:
 * - the next attempt, after a random pause (see retry)
 * - a copy of a request that takes long, to another server
 * - the deadline of the caller, which no piece refreshes
 * - a ping when nothing else was sent: with a repeat, and `again` at each send
 * - the close of a connection that is idle in the pool: before the server
 *   closes it, as the next request would meet that close on its way
 *
 * The program gets no answer when it connects first. Its first request is
 * answered piece by piece, without end, and the second one only by the other
 * server. Then the connection is idle. */

#include "recipe.h"

#define ANSWER_MS 100 /* until the server must have sent something */
#define PAUSE_MS 100  /* at most */
#define COPY_MS 60
#define DEADLINE_MS 300
#define PING_MS 400  /* less than the server takes for silence */
#define IDLE_MS 1000 /* less than the server's idle timeout */

typedef void (*step_cb)(void);

static uvwheel_timer_t answer, attempt, copy, deadline, ping, idle, network;
static step_cb next; /* when something has come */

/* In place of the network: it comes after so many ms; 0: never. */
static void on_network(uvwheel_timer_t *timer) {
  (void)timer;
  say("server", "answer");
  next();
}

static void send_out(const char *what, uint64_t answer_ms, step_cb then) {
  say("client", what);
  uvwheel_timer_again(&ping); /* does nothing before its start */
  next = then;
  uvwheel_timer_stop(&network);
  if (answer_ms != 0)
    uvwheel_timer_start(&network, on_network, answer_ms, answer_ms);
}

/* ---- Address and connection ---------------------------------------------- */

static void connect_server(void);

static void on_attempt(uvwheel_timer_t *timer) {
  (void)timer;
  connect_server();
}

static void on_no_answer(uvwheel_timer_t *timer) {
  (void)timer;
  say("server", "no answer");
  uvwheel_timer_start(&attempt, on_attempt, random_below(PAUSE_MS), 0);
}

static void ask(const char *what, uint64_t answer_ms, step_cb then) {
  uvwheel_timer_expect(&answer, on_no_answer, ANSWER_MS);
  send_out(what, answer_ms, then);
}

static void on_connected(void);

static void connect_server(void) {
  static unsigned attempts;

  ask("connect", attempts++ == 0 ? 0 : 20, on_connected);
}

/* ---- Pings and the pool -------------------------------------------------- */

static void on_pong(void) {
  uvwheel_timer_stop(&network);
  uvwheel_timer_stop(&answer);
}

static void on_ping(uvwheel_timer_t *timer) {
  (void)timer;
  ask("ping", 10, on_pong);
}

static void on_idle(uvwheel_timer_t *timer) {
  (void)timer;
  say("client", "close");
  uvwheel_close(&wheel, NULL);
}

/* ---- Requests ------------------------------------------------------------ */

static void on_answered(void) {
  uvwheel_timer_stop(&network);
  uvwheel_timer_stop(&answer);
  uvwheel_timer_stop(&copy);
  uvwheel_timer_stop(&deadline);
  uvwheel_timer_start(&idle, on_idle, IDLE_MS, 0);
}

static void on_copy(uvwheel_timer_t *timer) {
  (void)timer;
  send_out("copy to the other server", 20, on_answered);
}

static void on_deadline(uvwheel_timer_t *timer);

static void request(uint64_t answer_ms, step_cb then) {
  uvwheel_timer_stop(&idle);
  uvwheel_timer_start(&copy, on_copy, COPY_MS, 0);
  uvwheel_timer_start(&deadline, on_deadline, DEADLINE_MS, 0);
  ask("request", answer_ms, then);
}

static void on_deadline(uvwheel_timer_t *timer) {
  (void)timer;
  say("caller", "too late");
  request(0, on_answered);
}

static void on_piece(void) {
  uvwheel_timer_stop(&copy);
  uvwheel_timer_refresh(&answer);
}

static void on_connected(void) {
  uvwheel_timer_start(&ping, on_ping, PING_MS, PING_MS);
  request(50, on_piece);
}

int main(void) {
  uvwheel_timer_t *const timers[] = {&answer, &attempt, &copy,   &deadline,
                                     &ping,   &idle,    &network};

  begin(&(uvwheel_options_t){.tick_ms = 10});
  for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
    uvwheel_timer_init(&wheel, timers[i]);
  ask("resolve", 10, connect_server);
  uv_run(&loop, UV_RUN_DEFAULT); /* until no timer is active */
  return end();
}
