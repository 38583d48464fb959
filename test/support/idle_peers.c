/* SPDX-License-Identifier: MIT */

#include "idle_peers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* How many small datagrams the kernel keeps for a socket. */
#define PEERS_OF_A_SOCKET 200u
#define SOCKETS 10u

#define NS_PER_MS UINT64_C(1000000)

peer_t *peers;

static peers_options_t options;
static uint64_t speak_at_ms;
static uint64_t lost_until_ms;
static uint64_t silent_from_ms; /* every second one */
static uv_udp_t servers[SOCKETS];
static int clients[SOCKETS];
static uv_signal_t on_usr1;

/* The other end of a pipe whose read callback holds the loop. */
static uv_pipe_t holding_pipe;
static int holding_fd;
static uv_timer_t holding_timer;
static uvwheel_timer_t holding_wheel_timer;
static uv_prepare_t holding_prepare;
static uv_check_t holding_check, holding_closing;
static uv_idle_t holding_idle;
static hold_t hold, other_hold; /* the same: there is no other */
static uint64_t hold_from_ms, hold_until_ms, hold_ms;
static bool is_hold_updating;

uint64_t clock_now_ms(void) {
  return virtual_time_ns() / NS_PER_MS;
}

void run_until(uint64_t ms) {
  require(ms >= clock_now_ms());
  run_for(ms - clock_now_ms());
}

/* ---- What peers say ------------------------------------------------------ */

static void on_word(uvwheel_post_t *post, int status);

static bool is_silent(const peer_t *peer) {
  return (peer - peers) % 2 != 0 &&
         (options.is_half_silent || clock_now_ms() > silent_from_ms);
}

static void send_word(peer_t *peer) {
  static const char words[300 * 1024];
  size_t bytes = options.bytes;
  unsigned index = (unsigned)(peer - peers);

  if (options.carrier == BY_PIPE)
    require(write(peer->fd, words, bytes) == (ssize_t)bytes);
  else if (options.carrier == BY_UDP)
    require(send(peer->fd, &index, sizeof index, 0) == sizeof index);
  else
    require(uvwheel_post(&wheel, &peer->post, on_word) == 0);
}

static void speak(peer_t *peer) {
  peer->spoken_ms = clock_now_ms();
  if (clock_now_ms() > lost_until_ms)
    send_word(peer);
}

static void let_hold(hold_t which) {
  if ((hold == which || other_hold == which) && hold_from_ms == clock_now_ms())
    ck_assert_int_eq(write(holding_fd, "x", 1), 1);
}

/* When the earliest of them wants to speak, or the holding byte is sent. */
static uint64_t next_act_ms(void) {
  uint64_t now_ms = clock_now_ms(), next_ms = NEVER;
  unsigned i;

  for (i = 0; options.every_ms != 0 && i < options.count; i++)
    next_ms = min_of(next_ms, peers[i].next_ms);
  if (speak_at_ms > now_ms)
    next_ms = min_of(next_ms, speak_at_ms);
  if (hold_from_ms > now_ms)
    next_ms = min_of(next_ms, hold_from_ms);
  return next_ms;
}

static uint64_t act(void) {
  uint64_t now_ms = clock_now_ms(), next_ms;
  unsigned i;

  let_hold(HELD_BY_READ_BEFORE_PEERS);
  if (options.is_after_signal && speak_at_ms == now_ms)
    ck_assert_int_eq(raise(SIGUSR1), 0);
  for (i = 0; i < options.count; i++) {
    if ((speak_at_ms == now_ms || peers[i].next_ms <= now_ms) &&
        !is_silent(&peers[i]))
      speak(&peers[i]);
    while (peers[i].next_ms <= now_ms)
      peers[i].next_ms += options.every_ms;
  }
  let_hold(HELD_BY_READ_AFTER_PEERS);
  next_ms = next_act_ms();
  return next_ms == NEVER ? NEVER : next_ms * NS_PER_MS;
}

void peers_speak_at(uint64_t at_ms) {
  ck_assert_uint_gt(at_ms, clock_now_ms());
  speak_at_ms = at_ms;
  virtual_time_set_world(act);
}

void peers_lose_words_until(uint64_t last_ms) {
  lost_until_ms = last_ms;
}

void peers_fall_silent(void) {
  silent_from_ms = clock_now_ms();
}

void freeze_loop(uint64_t ms) {
  peers_lose_words_until(options.carrier == BY_PIPE ? 0 : clock_now_ms() + ms);
  virtual_time_advance_ms(ms);
}

/* ---- The loop hears them ------------------------------------------------- */

static void allocate(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
  static char bytes[1024];

  (void)handle, (void)size;
  *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void on_idle(uvwheel_timer_t *timer);
static void on_uv_idle(uv_timer_t *timer);

static void start_idle(peer_t *peer, uint64_t timeout_ms) {
  uint64_t repeat_ms = options.hearing == CALLS_AGAIN ? timeout_ms : 0;

  require(uvwheel_timer_start(&peer->idle, on_idle, timeout_ms, repeat_ms) ==
          0);
}

static void expect_idle(peer_t *peer) {
  require(uvwheel_timer_expect(&peer->idle, on_idle, options.timeout_ms) == 0);
}

/* When the peer is accepted. */
static void begin_idle(peer_t *peer) {
  if (options.hearing <= EXPECTS && !options.is_unheard) {
    expect_idle(peer);
    return;
  }
  start_idle(peer, options.timeout_ms);
  if (options.hearing == CALLS_AGAIN && !options.is_unheard)
    require(uvwheel_timer_refresh(&peer->idle) == 0);
}

static void hear(peer_t *peer) {
  virtual_time_advance_ns(options.hearing_ns);
  peer->heard_ms = uv_now(&loop);
  if (options.has_uv_timer)
    (void)uv_timer_start(&peer->uv_timer, on_uv_idle, options.timeout_ms, 0);
  if (!uvwheel_timer_is_active(&peer->idle))
    return;
  if (options.hearing == REFRESHES)
    require(uvwheel_timer_refresh(&peer->idle) == 0);
  if (options.hearing == EXPECTS)
    expect_idle(peer);
  if (options.hearing == CALLS_AGAIN)
    require(uvwheel_timer_again(&peer->idle) == 0);
  if (options.hearing == STOPS_AND_STARTS)
    require(uvwheel_timer_stop(&peer->idle) == 0);
  if (options.hearing == STARTS || options.hearing == STOPS_AND_STARTS)
    start_idle(peer, options.timeout_ms);
}

static void on_read(uv_stream_t *stream, ssize_t length,
                    const uv_buf_t *buffer) {
  peer_t *peer = stream->data;

  (void)buffer;
  require(length >= 0); /* 0: try again */
  peer->received += (size_t)length;
  for (; peer->received >= options.bytes; peer->received -= options.bytes)
    hear(peer);
}

static void on_datagram(uv_udp_t *server, ssize_t length,
                        const uv_buf_t *buffer, const struct sockaddr *from,
                        unsigned flags) {
  unsigned index;

  (void)server, (void)flags;
  if (length == 0 && from == NULL)
    return; /* there is no more */
  require(length == sizeof index);
  memcpy(&index, buffer->base, sizeof index);
  hear(&peers[index]);
}

static void on_word(uvwheel_post_t *post, int status) {
  if (status == 0)
    hear((peer_t *)post->data);
}

static void on_idle(uvwheel_timer_t *timer) {
  peer_t *peer = timer->data;
  uint64_t silent_ms = uv_now(&loop) - peer->heard_ms;

  require(peer->closed_ms == NEVER);
  if (options.hearing == STAMPS && silent_ms < options.timeout_ms) {
    start_idle(peer, options.timeout_ms - silent_ms);
    return;
  }
  (void)uvwheel_timer_stop(timer);
  peer->closed_ms = clock_now_ms();
  peer->is_cut_off = peer->closed_ms < peer->spoken_ms + options.timeout_ms;
}

static void on_uv_idle(uv_timer_t *timer) {
  ((peer_t *)timer->data)->is_uv_closed = true;
}

/* ---- Opening and closing them -------------------------------------------- */

void open_wide_pair(int fds[2]) {
  const int room = 600 * 1024; /* Linux may allow two thirds of that */

  require(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  require(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
  require(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
}

static void open_pipe(uv_pipe_t *pipe, int *fd, uv_read_cb cb) {
  int fds[2];

  open_wide_pair(fds);
  require(fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0);
  require(uv_pipe_init(&loop, pipe, 0) == 0);
  require(uv_pipe_open(pipe, fds[0]) == 0);
  require(uv_read_start((uv_stream_t *)pipe, allocate, cb) == 0);
  *fd = fds[1];
}

/* Each socket of the loop has one to which its peers write. */
static void open_socket(unsigned index) {
  uv_udp_t *server = &servers[index];
  struct sockaddr_in ipv4;
  struct sockaddr *address = (struct sockaddr *)&ipv4;
  int length = sizeof ipv4, client = socket(AF_INET, SOCK_DGRAM, 0);

  ck_assert_int_eq(uv_ip4_addr("127.0.0.1", 0, &ipv4), 0);
  ck_assert_int_eq(uv_udp_init(&loop, server), 0);
  ck_assert_int_eq(uv_udp_bind(server, address, 0), 0);
  ck_assert_int_eq(uv_udp_getsockname(server, address, &length), 0);
  ck_assert_int_eq(uv_udp_recv_start(server, allocate, on_datagram), 0);
  ck_assert_int_eq(fcntl(client, F_SETFL, O_NONBLOCK), 0);
  ck_assert_int_eq(connect(client, address, (socklen_t)length), 0);
  clients[index] = client;
}

static void open_peer(unsigned index) {
  peer_t *peer = &peers[index];
  unsigned socket_index = index / PEERS_OF_A_SOCKET;

  if (options.carrier == BY_PIPE)
    open_pipe(&peer->pipe, &peer->fd, on_read);
  else if (options.carrier == BY_UDP && index % PEERS_OF_A_SOCKET == 0)
    open_socket(socket_index);
  if (options.carrier == BY_UDP)
    peer->fd = clients[socket_index];
  peer->pipe.data = peer->post.data = peer->idle.data = peer;
  peer->uv_timer.data = peer;
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &peer->idle), 0);
  begin_idle(peer);
  if (options.has_uv_timer)
    begin_uv_timer(&peer->uv_timer, on_uv_idle, options.timeout_ms, 0);
  peer->spoken_ms = peer->heard_ms = clock_now_ms();
  peer->closed_ms = NEVER;
  peer->next_ms =
      options.every_ms != 0 && !is_silent(peer)
          ? clock_now_ms() + options.first_ms + index * options.spread_ms
          : NEVER;
}

static void ignore_signal(uv_signal_t *handle, int number) {
  (void)handle, (void)number;
}

static void on_holding_read(uv_stream_t *stream, ssize_t length,
                            const uv_buf_t *buffer);

/* As many descriptors as there may be. */
static void allow_descriptors(void) {
  struct rlimit limit;

  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void peers_open(const peers_options_t *wanted) {
  unsigned i;

  options = *wanted;
  options.bytes = options.bytes != 0 ? options.bytes : 1;
  if (options.first_ms == 0)
    options.first_ms = options.every_ms;
  speak_at_ms = hold_from_ms = lost_until_ms = 0;
  silent_from_ms = NEVER;
  ck_assert_uint_le(options.count, SOCKETS * PEERS_OF_A_SOCKET *
                                       (options.carrier == BY_UDP ? 1 : 100));
  allow_descriptors();
  ck_assert_int_eq(uv_signal_init(&loop, &on_usr1), 0);
  if (options.is_after_signal)
    ck_assert_int_eq(uv_signal_start(&on_usr1, ignore_signal, SIGUSR1), 0);
  ck_assert_int_eq(uv_timer_init(&loop, &holding_timer), 0);
  ck_assert_int_eq(uv_prepare_init(&loop, &holding_prepare), 0);
  ck_assert_int_eq(uv_check_init(&loop, &holding_check), 0);
  ck_assert_int_eq(uv_check_init(&loop, &holding_closing), 0);
  ck_assert_int_eq(uv_idle_init(&loop, &holding_idle), 0);
  open_pipe(&holding_pipe, &holding_fd, on_holding_read);
  peers = calloc(options.count, sizeof *peers);
  ck_assert_ptr_nonnull(peers);
  for (i = 0; i < options.count; i++)
    open_peer(i);
  virtual_time_set_world(act);
}

void peers_close(void) {
  unsigned i;

  virtual_time_set_world(NULL);
  for (i = 0; i < options.count; i++) {
    (void)uvwheel_timer_stop(&peers[i].idle);
    if (options.has_uv_timer)
      uv_close((uv_handle_t *)&peers[i].uv_timer, NULL);
    if (options.carrier == BY_PIPE) {
      uv_close((uv_handle_t *)&peers[i].pipe, NULL);
      close(peers[i].fd);
    } else if (options.carrier == BY_UDP && i % PEERS_OF_A_SOCKET == 0) {
      uv_close((uv_handle_t *)&servers[i / PEERS_OF_A_SOCKET], NULL);
      close(peers[i].fd);
    }
  }
  uv_close((uv_handle_t *)&on_usr1, NULL);
  uv_close((uv_handle_t *)&holding_timer, NULL);
  uv_close((uv_handle_t *)&holding_prepare, NULL);
  uv_close((uv_handle_t *)&holding_check, NULL);
  uv_close((uv_handle_t *)&holding_closing, NULL);
  uv_close((uv_handle_t *)&holding_idle, NULL);
  uv_close((uv_handle_t *)&holding_pipe, NULL);
  close(holding_fd);
  (void)uvwheel_timer_stop(&holding_wheel_timer);
  run_for(1); /* until they are closed, and posts called back */
  free(peers);
}

/* ---- What became of them ------------------------------------------------- */

unsigned peers_closed(void) {
  unsigned closed = 0, i;

  for (i = 0; i < options.count; i++)
    closed += peers[i].closed_ms != NEVER;
  return closed;
}

unsigned live_peers_closed(bool by_uv_timer) {
  unsigned closed = 0, i;

  for (i = 0; i < options.count; i++)
    if (!is_silent(&peers[i]))
      closed +=
          by_uv_timer ? peers[i].is_uv_closed : peers[i].closed_ms != NEVER;
  return closed;
}

unsigned peers_cut_off(void) {
  unsigned cut_off = 0, i;

  for (i = 0; i < options.count; i++)
    cut_off += peers[i].is_cut_off;
  return cut_off;
}

void expect_silent_peers_closed(const char *name, uint64_t from_ms,
                                uint64_t until_ms) {
  const peer_t *peer;

  for (peer = peers; peer < peers + options.count; peer++)
    require_in(name, !is_silent(peer) || (peer->closed_ms >= from_ms &&
                                          peer->closed_ms <= until_ms));
}

/* ---- What holds the loop ------------------------------------------------- */

const way_to_hold_t ways_to_hold[WAYS_TO_HOLD] = {
    {"frozen between iterations", FROZEN_BETWEEN_ITERATIONS, false},
    {"frozen in a poll", FROZEN_IN_POLL, false},
    {"a uv_timer_t", HELD_BY_UV_TIMER, false},
    {"a uv_timer_t, updating", HELD_BY_UV_TIMER, true},
    {"a timer of the wheel", HELD_BY_WHEEL_TIMER, false},
    {"a timer of the wheel, updating", HELD_BY_WHEEL_TIMER, true},
    {"a close callback", HELD_BY_CLOSE, false},
    {"a close callback, updating", HELD_BY_CLOSE, true},
    {"a prepare callback", HELD_BY_PREPARE, false},
    {"a prepare callback, updating", HELD_BY_PREPARE, true},
    {"a check callback", HELD_BY_CHECK, false},
    {"a check callback, updating", HELD_BY_CHECK, true},
    {"a read before the peers'", HELD_BY_READ_BEFORE_PEERS, false},
    {"a read before the peers', updating", HELD_BY_READ_BEFORE_PEERS, true},
    {"an idle callback", HELD_BY_IDLE, false},
    {"an idle callback, updating", HELD_BY_IDLE, true},
    {"a read after the peers'", HELD_BY_READ_AFTER_PEERS, false},
    {"a read after the peers', updating", HELD_BY_READ_AFTER_PEERS, true},
};

static void stand_still(void) {
  virtual_time_advance_ms(hold_until_ms - clock_now_ms());
  hold_until_ms += hold_ms;
  if (is_hold_updating)
    uv_update_time(&loop);
}

static void on_holding_read(uv_stream_t *stream, ssize_t length,
                            const uv_buf_t *buffer) {
  (void)stream, (void)buffer;
  ck_assert_int_ge(length, 0);
  if (length > 0)
    stand_still();
}

static void on_holding_wheel_timer(uvwheel_timer_t *timer) {
  (void)timer;
  stand_still();
}

static void on_thawed(uv_timer_t *timer) {
  (void)timer;
  virtual_time_oversleep_ns(0);
}

static void on_holding_prepare(uv_prepare_t *prepare) {
  uv_prepare_stop(prepare);
  stand_still();
}

static void on_holding_check(uv_check_t *check) {
  uv_check_stop(check);
  stand_still();
}

static void on_holding_close(uv_handle_t *check) {
  stand_still();
  ck_assert_int_eq(uv_check_init(&loop, (uv_check_t *)check), 0);
}

static void on_holding_idle(uv_idle_t *idle) {
  uv_idle_stop(idle);
  stand_still();
}

static void begin_hold(hold_t way) {
  if (way == HELD_BY_UV_TIMER) {
    stand_still();
  } else if (way == HELD_BY_CLOSE) {
    uv_close((uv_handle_t *)&holding_closing, on_holding_close);
  } else if (way == HELD_BY_PREPARE) {
    (void)uv_prepare_start(&holding_prepare, on_holding_prepare);
  } else if (way == HELD_BY_IDLE) {
    (void)uv_idle_start(&holding_idle, on_holding_idle);
  } else if (way == HELD_BY_CHECK) {
    (void)uv_check_start(&holding_check, on_holding_check);
    (void)uv_timer_start(&holding_timer, ignore_uv_timer, 1,
                         0); /* ends the poll */
  } else if (way == FROZEN_IN_POLL) {
    virtual_time_oversleep_ns((hold_until_ms - clock_now_ms() - 1) * NS_PER_MS);
    (void)uv_timer_start(&holding_timer, on_thawed, 1, 0);
  }
}

static void on_holding_timer(uv_timer_t *timer) {
  (void)timer;
  begin_hold(hold);
  if (other_hold != hold)
    begin_hold(other_hold);
}

static void begin_holding_wheel_timer(uint64_t delay_ms) {
  begin_timer(&holding_wheel_timer, on_holding_wheel_timer, delay_ms, 0);
}

void hold_loop(hold_t way, uint64_t from_ms, uint64_t until_ms, bool update) {
  uint64_t delay_ms = from_ms - clock_now_ms();

  hold = other_hold = way;
  hold_ms = until_ms - from_ms;
  hold_from_ms = from_ms;
  hold_until_ms = until_ms;
  is_hold_updating = update;
  virtual_time_set_world(act);
  uv_update_time(&loop);
  if (way == HELD_BY_WHEEL_TIMER)
    begin_holding_wheel_timer(delay_ms);
  else if (way != FROZEN_BETWEEN_ITERATIONS &&
           way != HELD_BY_READ_BEFORE_PEERS && way != HELD_BY_READ_AFTER_PEERS)
    ck_assert_int_eq(
        uv_timer_start(&holding_timer, on_holding_timer, delay_ms, 0), 0);
  if (way == FROZEN_BETWEEN_ITERATIONS) {
    run_until(from_ms);
    virtual_time_advance_ms(until_ms - from_ms);
  }
}

void hold_loop_twice(hold_t other) {
  uint64_t delay_ms = hold_from_ms - clock_now_ms();

  other_hold = other;
  virtual_time_set_world(act);
  if (other == HELD_BY_WHEEL_TIMER)
    begin_holding_wheel_timer(delay_ms - 1); /* at a tick: due right before */
  (void)uv_timer_start(&holding_timer, on_holding_timer, delay_ms, 0);
}
