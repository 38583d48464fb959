/* SPDX-License-Identifier: MIT */

#include "peers.h"

#include <sys/socket.h>
#include <unistd.h>

/* How often what peers say meanwhile is written to their sockets. */
#define MOUTH_MS 20

peer_t peers[PEERS];

static uv_timer_t mouth;
static uv_timer_t blocker;
static uvwheel_timer_t blocker_of_the_wheel;
static bool is_lossy;
static uint64_t written_ms;
static bool is_next_read_blocked;
static uint64_t block_ms;
static bool is_block_updated;

static uint64_t
real_now(void)
{
  return virtual_time_ns() / 1000000;
}

bool
peer_is_chatty(const peer_t *peer)
{
  return (peer - peers) % 2 == 0;
}

/* What was said since the last time; all at once if the loop was deaf. */
static void
write_what_was_said(void)
{
  uint64_t now_ms = real_now();
  bool is_lost = is_lossy && now_ms - written_ms > 5 * MOUTH_MS;
  peer_t *peer;

  for (peer = peers; peer < peers + PEERS; peer++)
    for (; peer->speak_ms <= now_ms; peer->speak_ms += SPEAK_MS)
      if (!is_lost)
        ck_assert_int_eq(write(peer->fd, "x", 1), 1);
  written_ms = now_ms;
}

static void
on_mouth(uv_timer_t *timer)
{
  (void)timer;
  virtual_time_oversleep_ns(0);
  write_what_was_said();
}

static void
block(void)
{
  virtual_time_advance_ms(block_ms);
  write_what_was_said();
  if (is_block_updated)
    uv_update_time(&loop);
}

static void
on_blocker(uv_timer_t *timer)
{
  (void)timer;
  block();
}

static void
on_blocker_of_the_wheel(uvwheel_timer_t *timer)
{
  (void)timer;
  block();
}

static void
allocate(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
  static char bytes[65536];

  (void)handle;
  (void)size;
  *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void
on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
  peer_t *peer = stream->data;

  (void)buffer;
  ck_assert_int_ge(length, 0); /* 0: try again */
  if (is_next_read_blocked) {
    is_next_read_blocked = false;
    block();
  }
  if (uvwheel_timer_is_active(&peer->idle))
    ck_assert_int_eq(uvwheel_timer_refresh(&peer->idle), 0);
  peer->heard_ms = uv_now(&loop);
}

static void
on_idle(uvwheel_timer_t *timer)
{
  peer_t *peer = timer->data;

  peer->fired++;
  peer->fired_ms = uv_now(&loop);
}

static void
peer_open(peer_t *peer)
{
  int fds[2];

  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  ck_assert_int_eq(uv_pipe_init(&loop, &peer->pipe, 0), 0);
  ck_assert_int_eq(uv_pipe_open(&peer->pipe, fds[0]), 0);
  peer->pipe.data = peer;
  peer->idle.data = peer;
  peer->fd = fds[1];
  ck_assert_int_eq(uv_read_start((uv_stream_t *)&peer->pipe, allocate, on_read),
                   0);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &peer->idle), 0);
  ck_assert_int_eq(uvwheel_timer_start(&peer->idle, on_idle, IDLE_MS, 0), 0);
  peer->heard_ms = uv_now(&loop);
  /* Several at a time, so that they are heard by the same poll. */
  peer->speak_ms =
      peer_is_chatty(peer) ? uv_now(&loop) / 100 * 100 + SPEAK_MS : UINT64_MAX;
}

void
peers_open(bool lossy)
{
  size_t i;

  memset(peers, 0, sizeof peers);
  for (i = 0; i < PEERS; i++)
    peers[i].speak_ms = UINT64_MAX;
  is_lossy = lossy;
  written_ms = real_now();
  is_next_read_blocked = false;
  ck_assert_int_eq(uv_timer_init(&loop, &blocker), 0);
  ck_assert_int_eq(uvwheel_timer_init(&wheel, &blocker_of_the_wheel), 0);
  ck_assert_int_eq(uv_timer_init(&loop, &mouth), 0);
  ck_assert_int_eq(uv_timer_start(&mouth, on_mouth, MOUTH_MS, MOUTH_MS), 0);
  for (i = 0; i < PEERS; i++) {
    peer_open(&peers[i]);
    run_for(IDLE_MS / 2 / PEERS);
  }
}

void
peers_close(void)
{
  size_t i;

  for (i = 0; i < PEERS; i++) {
    uv_close((uv_handle_t *)&peers[i].pipe, NULL);
    close(peers[i].fd);
  }
  uv_close((uv_handle_t *)&mouth, NULL);
  uv_close((uv_handle_t *)&blocker, NULL);
}

void
be_deaf(deaf_t way, uint64_t ms, bool update)
{
  block_ms = ms;
  is_block_updated = update;
  switch (way) {
  case FROZEN_IN_POLL:
    virtual_time_oversleep_ns(ms * 1000000);
    break;
  case BLOCKED_IN_CALLBACK_OF_THE_WHEEL:
    ck_assert_int_eq(uvwheel_timer_start(&blocker_of_the_wheel,
                                         on_blocker_of_the_wheel, 0, 0),
                     0);
    break;
  case BLOCKED_IN_READ_CALLBACK:
    is_next_read_blocked = true;
    break;
  case BLOCKED_IN_TIMER_CALLBACK:
    ck_assert_int_eq(uv_timer_start(&blocker, on_blocker, 0, 0), 0);
    break;
  default:
    block();
  }
}
