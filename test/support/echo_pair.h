/* SPDX-License-Identifier: MIT */

/* I/O of the test's loop: a socket that echoes, and its peer. An echo takes
 * the loop two polls. */

#ifndef ECHO_PAIR_H
#define ECHO_PAIR_H

#include <uv.h>

typedef struct echo_s {
  uv_poll_t server;
  uv_poll_t client;
  int fds[2];
  unsigned pings; /* bytes sent     */
  unsigned pongs; /* bytes returned */
} echo_t;

/* Both ends are unref'd: they keep no loop alive. */
void echo_open(echo_t *echo, uv_loop_t *on);
void echo_ping(echo_t *echo);
void echo_close(echo_t *echo);

#endif /* ECHO_PAIR_H */
