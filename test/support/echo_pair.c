/* SPDX-License-Identifier: MIT */

#include "echo_pair.h"

#include <check.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_server(uv_poll_t *poll, int status, int events) {
  const echo_t *echo = poll->data;
  char byte;

  (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(echo->fds[0], &byte, 1), 1);
  ck_assert_int_eq(write(echo->fds[0], &byte, 1), 1);
}

static void on_client(uv_poll_t *poll, int status, int events) {
  echo_t *echo = poll->data;
  char byte;

  (void)events;
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(read(echo->fds[1], &byte, 1), 1);
  echo->pongs++;
}

static void poll_open(uv_loop_t *on, uv_poll_t *poll, echo_t *echo, int fd,
                      uv_poll_cb cb) {
  ck_assert_int_eq(uv_poll_init(on, poll, fd), 0);
  poll->data = echo;
  ck_assert_int_eq(uv_poll_start(poll, UV_READABLE, cb), 0);
  uv_unref((uv_handle_t *)poll);
}

void echo_open(echo_t *echo, uv_loop_t *on) {
  echo->pings = 0;
  echo->pongs = 0;
  ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, echo->fds), 0);
  poll_open(on, &echo->server, echo, echo->fds[0], on_server);
  poll_open(on, &echo->client, echo, echo->fds[1], on_client);
}

void echo_ping(echo_t *echo) {
  ck_assert_int_eq(write(echo->fds[1], "x", 1), 1);
  echo->pings++;
}

static void on_closed(uv_handle_t *handle) {
  const echo_t *echo = handle->data;

  close(handle == (const uv_handle_t *)&echo->server ? echo->fds[0]
                                                     : echo->fds[1]);
}

void echo_close(echo_t *echo) {
  uv_close((uv_handle_t *)&echo->server, on_closed);
  uv_close((uv_handle_t *)&echo->client, on_closed);
}
