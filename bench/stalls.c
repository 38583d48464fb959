/* SPDX-License-Identifier: MIT */

/* Which peers does a server close that is blocked again and again, as by slow
 * reads? It has 200 connections with a timeout of 3 s. Half of the peers live:
 * they send a byte each second. What they send while it is blocked waits in
 * their sockets, or is lost. The others send nothing. Five minutes pass in
 * virtual time (examples/virtual-time.c), so that each run prints the same: the
 * first table of README.md. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uvwheel.h>

#define PEERS 200 /* the first half lives */
#define TIMEOUT_MS 3000
#define TICK_MS 100
#define END_MS 300000

typedef struct peer_s {
  uv_poll_t socket;
  int ends[2]; /* the server's and the peer's */
  uint64_t next_send_ms;
  uint64_t heard_ms;
  uint64_t closed_ms; /* 0: it is not */
  int has_chance;
  uv_timer_t uv_timer;
  uvwheel_timer_t timer;
} peer_t;

/* The server is blocked again and again, for so long, so many ms apart. Is what
 * peers send meanwhile lost? */
typedef struct trouble_s {
  const char *name;
  uint64_t apart_ms, blocked_ms;
  int is_lost;
} trouble_t;

/* A way to find silent peers: what it does when a peer is accepted and heard,
 * and at each tick; NULL: nothing. */
typedef struct rule_s {
  void (*accept)(peer_t *peer);
  void (*hear)(peer_t *peer);
  void (*tick)(int is_late);
} rule_t;

static uv_loop_t loop;
static uvwheel_t wheel;
static peer_t peers[PEERS];
static const rule_t *rule;
static const trouble_t *trouble;
static uv_async_t blocker;
static uint64_t ticked_ms, block_at_ms;

static void close_peer(peer_t *peer) {
  peer->closed_ms = uv_now(&loop);
  uv_poll_stop(&peer->socket);
}

/* ---- A uv_timer_t for each ----------------------------------------------- */

static void on_uv_timer(uv_timer_t *timer) {
  uv_timer_stop(timer);
  close_peer(timer->data);
}

static void start_uv_timer(peer_t *peer) {
  uv_timer_start(&peer->uv_timer, on_uv_timer, TIMEOUT_MS, TIMEOUT_MS);
}

static void restart_uv_timer(peer_t *peer) {
  uv_timer_again(&peer->uv_timer);
}

/* ---- A stamp, and a uv_timer_t that waits for 100 ms more, once ---------- */

static void stamp(peer_t *peer) {
  peer->heard_ms = uv_now(&loop);
  peer->has_chance = 0;
}

static void on_lazy_timer(uv_timer_t *timer) {
  peer_t *peer = timer->data;
  uint64_t silent_ms = uv_now(&loop) - peer->heard_ms;

  if (silent_ms < TIMEOUT_MS) {
    uv_timer_start(timer, on_lazy_timer, TIMEOUT_MS - silent_ms, 0);
  } else if (!peer->has_chance) {
    peer->has_chance = 1;
    uv_timer_start(timer, on_lazy_timer, TICK_MS, 0);
  } else {
    close_peer(peer);
  }
}

static void start_lazy_timer(peer_t *peer) {
  uv_timer_start(&peer->uv_timer, on_lazy_timer, TIMEOUT_MS, 0);
}

/* ---- A stamp, and a sweep at each tick ----------------------------------- */

static void close_silent(void) {
  for (peer_t *peer = peers; peer < peers + PEERS; peer++)
    if (peer->closed_ms == 0 && uv_now(&loop) - peer->heard_ms >= TIMEOUT_MS)
      close_peer(peer);
}

/* A tick that comes late closes nobody. */
static void skip_late_tick(int is_late) {
  if (!is_late)
    close_silent();
}

/* After a tick that comes late all peers have another timeout. */
static void forgive_all(int is_late) {
  for (peer_t *peer = peers; is_late && peer < peers + PEERS; peer++)
    peer->heard_ms = uv_now(&loop);
  close_silent();
}

/* ---- uvwheel ------------------------------------------------------------- */

static void on_idle(uvwheel_timer_t *timer) {
  close_peer(timer->data);
}

static void expect_peer(peer_t *peer) {
  uvwheel_timer_expect(&peer->timer, on_idle, TIMEOUT_MS);
}

static void refresh_peer(peer_t *peer) {
  uvwheel_timer_refresh(&peer->timer);
}

/* ---- The server and its peers -------------------------------------------- */

static void on_readable(uv_poll_t *socket, int status, int events) {
  peer_t *peer = socket->data;
  char bytes[64];

  (void)status, (void)events;
  if (read(peer->ends[0], bytes, sizeof bytes) > 0)
    rule->hear(peer);
}

static void on_tick(uv_timer_t *timer) {
  int is_late = uv_now(timer->loop) - ticked_ms > 2 * TICK_MS;

  ticked_ms = uv_now(timer->loop);
  if (rule->tick != NULL)
    rule->tick(is_late);
}

/* The live peers send what they have to by now. */
static void send_due(int is_lost) {
  for (peer_t *peer = peers; peer < peers + PEERS / 2; peer++)
    for (; peer->next_send_ms <= uv_hrtime() / 1000000;
         peer->next_send_ms += 1000)
      if (peer->closed_ms == 0 && !is_lost)
        (void)send(peer->ends[1], "x", 1, MSG_DONTWAIT);
}

static void on_send(uv_timer_t *timer) {
  send_due(0);
  if (uv_now(timer->loop) >= block_at_ms)
    uv_async_send(&blocker);
}

/* The loop's poll calls it, as it calls a read callback. */
static void on_block(uv_async_t *async) {
  uv_sleep((unsigned)trouble->blocked_ms);
  send_due(trouble->is_lost);
  block_at_ms = uv_now(async->loop) + trouble->blocked_ms + trouble->apart_ms;
}

static void accept_peer(peer_t *peer, uint64_t first_send_ms) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, peer->ends) != 0)
    exit(1);
  peer->heard_ms = uv_now(&loop);
  peer->next_send_ms = first_send_ms;
  uv_poll_init(&loop, &peer->socket, peer->ends[0]);
  uv_timer_init(&loop, &peer->uv_timer);
  uvwheel_timer_init(&wheel, &peer->timer);
  peer->socket.data = peer->uv_timer.data = peer->timer.data = peer;
  uv_poll_start(&peer->socket, UV_READABLE, on_readable);
  if (rule->accept != NULL)
    rule->accept(peer);
}

static void close_handle(uv_handle_t *handle, void *arg) {
  (void)arg;
  if (!uvwheel_owns_handle(handle))
    uv_close(handle, NULL);
}

/* Prints how many live peers were closed, and when the last silent one was. */
static void print_closed(uint64_t began_ms) {
  unsigned lost = 0, gone = 0;
  uint64_t last_ms = 0;

  for (const peer_t *peer = peers; peer < peers + PEERS; peer++) {
    if (peer < peers + PEERS / 2) {
      lost += peer->closed_ms != 0;
      continue;
    }
    gone += peer->closed_ms != 0;
    last_ms = peer->closed_ms > last_ms ? peer->closed_ms : last_ms;
  }
  if (gone == PEERS / 2)
    printf(" %u / %.1f |", lost, (double)(last_ms - began_ms) / 1000);
  else
    printf(" %u / never |", lost);
}

static void start_timer(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout,
                        uint64_t repeat) {
  uv_timer_init(&loop, timer);
  uv_timer_start(timer, cb, timeout, repeat);
}

static void play(void) {
  uvwheel_options_t options = {.tick_ms = TICK_MS};
  uv_timer_t sender, ticker;

  uv_loop_init(&loop);
  uvwheel_init(&loop, &wheel, &options);
  memset(peers, 0, sizeof peers);
  uint64_t began_ms = ticked_ms = uv_now(&loop);
  for (unsigned i = 0; i < PEERS; i++)
    accept_peer(&peers[i], began_ms + i * 10);
  block_at_ms = began_ms + 1000;
  uv_async_init(&loop, &blocker, on_block);
  start_timer(&sender, on_send, 0, 10);
  start_timer(&ticker, on_tick, TICK_MS, TICK_MS);
  while (uv_now(&loop) - began_ms < END_MS)
    uv_run(&loop, UV_RUN_ONCE);
  print_closed(began_ms);
  uvwheel_close(&wheel, NULL);
  uv_walk(&loop, close_handle, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
  for (unsigned i = 0; i < PEERS; i++) {
    close(peers[i].ends[0]);
    close(peers[i].ends[1]);
  }
}

int main(void) {
  static const trouble_t troubles[] = {
      {"blocked for 0.4 s of each second", 600, 400, 0},
      {"blocked for 4 s of each 6", 2000, 4000, 0},
      {"the same, and packets are lost", 2000, 4000, 1},
      {"2.5 s of each 4.5, packets are lost", 2000, 2500, 1},
      {"20 s of each 80, packets are lost", 60000, 20000, 1}};
  /* As the columns of the table: uv_timer_t, second chance, a late tick closes
   * nobody, a late tick forgives all, uvwheel. */
  static const rule_t rules[] = {{start_uv_timer, restart_uv_timer, NULL},
                                 {start_lazy_timer, stamp, NULL},
                                 {NULL, stamp, skip_late_tick},
                                 {NULL, stamp, forgive_all},
                                 {expect_peer, refresh_peer, NULL}};

  for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++) {
    trouble = &troubles[i];
    printf("| %s |", trouble->name);
    for (rule = rules; rule < rules + sizeof rules / sizeof *rules; rule++)
      play();
    printf("\n");
  }
  return 0;
}
