/* SPDX-License-Identifier: MIT */

/* A million peers for udp-sessions, and a judge of it from outside.
 *
 * First each peer says hello. Then the silent ones say nothing more; the
 * chatty ones go on, one after the other in a mixed order, as fast as the
 * server answers. The work is divided:
 *
 *   udp-peers   what a peer says, repeats, and takes for a right answer
 *   this file   who speaks next, how many at once, and whose session is watched
 *   judge       were the server's promises kept?
 *
 * The pace. No more datagrams are in flight than certainly fit into the
 * socket's buffers, so that normally none is lost: each answer makes room for
 * the next one. What is lost all the same is said again after half a second.
 *
 * The verdict. A UDP peer is not told that its session is gone, but it may ask,
 * and its question refreshes nothing. So a sample of the silent peers asks
 * every 10 ms from shortly before the timeout until the answer is that there is
 * no session. judge.h judges that moment like the close of a connection. Each
 * answer to a chatty peer has its session's count, and so shows that the
 * session is still there. */

#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier,cert-dcl*) */

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "../../examples/common/cli.h"
#include "udp-peers.h"

#define MIN_DESCRIPTORS 16
#define WATCHED_MAX 1000
#define EARLIER_NS (100 * NS_PER_MS) /* before the timeout they first ask */
#define STRIDE UINT64_C(2654435761)  /* a prime above PEERS_MAX            */
#define BATCHES_AT_ONCE 8            /* before the timer is looked after  */

const char *const program = "udp-load";

typedef struct load_s {
  options_t options;
  struct sockaddr_in server;
  uv_loop_t loop;
  uv_poll_t poll;
  uv_timer_t pace;
  end_signals_t signals;
  peers_t peers;
  peer_t *watched[WATCHED_MAX]; /* those that the server may still know */
  uint32_t watched_count;
  judge_t judge;

  uint32_t greeted; /* how many have said hello, in their order         */
  int has_greeted;  /* the last that spoke said hello                   */
  uint32_t chatty;  /* how many are chatty                              */
  uint32_t next;    /* which of them speaks next                        */

  uint64_t begun_ns;
  uint64_t running_ns;  /* since when all have said hello, or 0  */
  uint64_t draining_ns; /* since when nothing more is said, or 0 */
  uint64_t greetings;   /* answers until running_ns              */
  uint64_t answers;     /* and until draining_ns                 */
  int failed;
} load_t;

/* ---- The end ------------------------------------------------------------ */

static void close_everything(load_t *load) {
  judge_end_stall(&load->judge);
  uv_close((uv_handle_t *)&load->poll, NULL);
  uv_close((uv_handle_t *)&load->pace, NULL);
  close_end_signals(&load->signals);
}

static void give_up(load_t *load, const char *what) {
  complain("%s: no verdict", what);
  load->failed = 1;
  close_everything(load);
}

/* Takes what a function that uses the network has returned. */
static void check(load_t *load, int error) {
  if (error == -ECONNREFUSED && !load->failed)
    give_up(load, "nobody listens there");
}

/* ---- Pace --------------------------------------------------------------- */

/* The first ones are chatty: so many of them have said hello. */
static uint32_t joined(const load_t *load) {
  return load->greeted < load->chatty ? load->greeted : load->chatty;
}

/* Real peers do not speak in the order in which they came: once all are there,
 * a prime stride visits each of them once. */
static peer_t *chatty_peer(const load_t *load, uint64_t index) {
  if (load->running_ns != 0)
    index = index * STRIDE % load->chatty;
  return &load->peers.all[index];
}

/* Is it time for a chatty peer to speak? While others still say hello, it does
 * so just often enough. */
static int may_chat(const load_t *load, const peer_t *peer, uint64_t now_ns) {
  uint64_t silence_ns = now_ns - peer->said_ns;

  if (load->running_ns != 0)
    return silence_ns >= load->options.interval_ms * NS_PER_MS;
  return load->judge.timeout_ns != 0 &&
         silence_ns >= load->judge.timeout_ns / 4;
}

/* The chatty peer that speaks next, or NULL. Those that still wait for an
 * answer are passed over: they are few. */
static peer_t *next_to_chat(load_t *load, uint64_t now_ns) {
  for (uint32_t n = joined(load); n > 0; n--) {
    peer_t *peer = chatty_peer(load, load->next);
    if (peer->waiting == 0 && !may_chat(load, peer, now_ns))
      return NULL;
    load->next = (load->next + 1) % joined(load);
    if (peer->waiting == 0)
      return peer;
  }
  return NULL;
}

static peer_t *next_to_greet(load_t *load) {
  return load->greeted < load->peers.total ? &load->peers.all[load->greeted++]
                                           : NULL;
}

/* If this machine or the server is slow, a peer may be unable to chat for so
 * long that its session ends, which says nothing about timers. With --stall it
 * is enough that it spoke. */
static void excuse_if_late(load_t *load, peer_t *peer, uint64_t now_ns) {
  uint64_t timeout_ns = load->judge.timeout_ns;
  uint64_t spoke_ns =
      load->options.stall_s != 0 ? peer->tried_ns : peer->heard_ns;

  if (timeout_ns != 0 && peer->counted != 0 &&
      now_ns - spoke_ns >= timeout_ns / 2)
    peer->counted = 0;
}

/* A peer that says hello and one that chats alternate: on a slow machine the
 * latter, which have to keep their sessions, would leave no room for the rest.
 */
static peer_t *next_to_speak(load_t *load, uint64_t now_ns) {
  peer_t *peer = load->has_greeted ? NULL : next_to_greet(load);

  load->has_greeted = peer != NULL;
  if (peer != NULL)
    return peer;
  peer = next_to_chat(load, now_ns);
  if (peer == NULL)
    return next_to_greet(load);
  excuse_if_late(load, peer, now_ns);
  return peer;
}

/* Is there room for one more on the way? During a stall all speak on, and much
 * is lost. */
static int has_room(const load_t *load) {
  return load->peers.waiting_count < load->peers.room ||
         judge_stalls(&load->judge);
}

/* Lets as many speak as there is room for. */
static int speak(load_t *load) {
  uint64_t now_ns = uv_hrtime();
  int error = 0;

  while (error == 0 && load->draining_ns == 0 && has_room(load)) {
    peer_t *peer = next_to_speak(load, now_ns);
    if (peer == NULL)
      break;
    error = peers_say(&load->peers, peer, UDP_TRAFFIC, now_ns);
  }
  return error != 0 ? error : peers_flush(&load->peers);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
  load_t *load = poll->data;
  int received = UDP_BATCH;

  (void)status; /* an error shows when the socket is read */
  (void)events;
  for (int i = 0; i < BATCHES_AT_ONCE && received == UDP_BATCH; i++)
    received = peers_listen(&load->peers);
  check(load, received < 0 ? received : speak(load));
}

/* ---- Watch -------------------------------------------------------------- */

/* A sample of the silent ones, spread evenly over them. */
static void choose_watched(load_t *load) {
  uint64_t silent = load->peers.total - load->chatty;

  if (load->options.timeout_ms != 0)
    load->watched_count = silent < WATCHED_MAX ? (uint32_t)silent : WATCHED_MAX;
  for (uint64_t i = 0; i < load->watched_count; i++)
    load->watched[i] =
        &load->peers.all[load->chatty + i * silent / load->watched_count];
}

/* The last one takes the place of the one that is gone. */
static void forget(load_t *load, uint32_t index) {
  load->watched_count--;
  load->watched[index] = load->watched[load->watched_count];
}

/* Asks for those whose time has come. Returns 0, or a negative error. */
static int ask_watched(load_t *load, uint64_t now_ns) {
  judge_t *judge = &load->judge;
  uint64_t overdue_ns =
      judge->timeout_ns + judge_allowed_ns(judge) + load->peers.patience_ns;
  int error = 0;

  for (uint32_t i = 0; i < load->watched_count && error == 0; i++) {
    peer_t *peer = load->watched[i];
    uint64_t idle_ns = now_ns - peer->heard_ns;
    if (peer->said_ns == 0 || peer->waiting != 0)
      continue;
    if (peer->heard_ns == 0) {
      forget(load, i--); /* its hello was lost */
    } else if (idle_ns + EARLIER_NS < judge->timeout_ns) {
      continue;
    } else if (idle_ns > overdue_ns) {
      judge->missing++;
      forget(load, i--);
    } else {
      error = peers_say(&load->peers, peer, UDP_QUESTION, now_ns);
    }
  }
  return error;
}

static void on_told(void *arg, peer_t *peer, uint64_t count, uint64_t now_ns) {
  load_t *load = arg;
  uint32_t i = 0;

  if (count != 0)
    return;
  while (load->watched[i] != peer)
    i++;
  judge_closed(&load->judge, 0, 0, peer->heard_ns, now_ns);
  forget(load, i);
}

/* ---- Phases ------------------------------------------------------------- */

static void begin_to_run(load_t *load, uint64_t now_ns) {
  load->running_ns = now_ns;
  fprintf(stderr, "running: %" PRIu32 " peers, %" PRIu32 " chatty\n",
          load->peers.total, load->chatty);
  load->greetings = load->judge.echoes;
  load->next = 0;
}

/* So many lost answers are no accident: the server has stopped, or wants no
 * more sessions. */
static int is_hopeless(const load_t *load) {
  return load->judge.lost >= load->peers.room;
}

static void change_phase(load_t *load, uint64_t now_ns) {
  uint64_t duration_ns = load->options.duration_s * NS_PER_S;

  if (load->running_ns == 0 &&
      (load->greeted == load->peers.total || is_hopeless(load)))
    begin_to_run(load, now_ns);
  if (load->draining_ns == 0 &&
      (is_hopeless(load) ||
       (load->running_ns != 0 && now_ns - load->running_ns >= duration_ns &&
        load->watched_count == 0))) {
    load->draining_ns = now_ns;
    load->answers = load->judge.echoes;
  }
  if (load->draining_ns != 0 && load->peers.waiting_count == 0)
    close_everything(load);
}

static void on_pace(uv_timer_t *timer) {
  load_t *load = timer->data;
  uint64_t now_ns = judge_awake(&load->judge);
  int error = peers_retry(&load->peers, now_ns);
  if (error == 0 && load->draining_ns == 0)
    error = ask_watched(load, now_ns);
  check(load, error != 0 ? error : speak(load));
  if (load->failed)
    return;
  change_phase(load, now_ns);
  if (load->running_ns != 0 && load->draining_ns == 0 &&
      judge_stall(&load->judge, load->running_ns, now_ns) != 0)
    give_up(load, "the server cannot be signalled");
}

static void on_signal(uv_signal_t *signal, int number) {
  load_t *load = signal->data;

  (void)number;
  if (!load->failed)
    give_up(load, "interrupted");
}

/* ---- Start -------------------------------------------------------------- */

static void start(load_t *load) {
  open_loop(&load->loop, &load->signals, on_signal, load);
  uv_poll_init(&load->loop, &load->poll, load->peers.descriptor);
  uv_timer_init(&load->loop, &load->pace);
  load->poll.data = load;
  load->pace.data = load;
  uv_poll_start(&load->poll, UV_READABLE, on_readable);
  uv_timer_start(&load->pace, on_pace, PACE_MS, PACE_MS);
  load->begun_ns = judge_awake(&load->judge);
}

/* ---- Report ------------------------------------------------------------- */

static double rate(uint64_t count, uint64_t duration_ns) {
  return (double)count * (double)NS_PER_S / (double)(duration_ns + 1);
}

static int report(load_t *load) {
  const peers_t *peers = &load->peers;
  double hellos = rate(load->greetings, load->running_ns - load->begun_ns);
  double chats = rate(load->answers - load->greetings,
                      load->draining_ns - load->running_ns);

  printf("traffic peers=%" PRIu32 " chatty=%" PRIu32
         " hellos_per_s=%.0f chats_per_s=%.0f retries=%" PRIu64 "\n",
         peers->total, load->chatty, hellos, chats, peers->retries);
  return judge_report(&load->judge);
}

/* Returns 0, or a negative error. */
static int open_all(load_t *load) {
  const options_t *options = &load->options;

  load->peers.judge = &load->judge;
  load->peers.patience_ns = options->patience_ms * NS_PER_MS;
  load->peers.on_told = on_told;
  load->peers.arg = load;
  load->chatty = (uint32_t)(options->count * options->chatty_percent / 100);
  judge_init(&load->judge, options);
  load->judge.is_never_quiet = 1;
  return peers_open(&load->peers, (uint32_t)options->count, &load->server);
}

static int run(load_t *load) {
  int error = open_all(load);

  if (error != 0) {
    complain("cannot start: %s", uv_strerror(error));
    return EXIT_FAILURE;
  }
  choose_watched(load);
  start(load);
  run_to_end(&load->loop);
  if (!load->failed)
    load->failed = report(load) != 0;
  peers_close(&load->peers);
  return load->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  static load_t load;

  parse_options(argc, argv, UDP_LOAD, &load.options);
  uv_ip4_addr(DEFAULT_HOST, load.options.port, &load.server);
  need_descriptors(MIN_DESCRIPTORS);
  return run(&load);
}
