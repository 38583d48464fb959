/* SPDX-License-Identifier: MIT */

/* The command lines of idle-load and udp-load. */

#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include <stdint.h>

/* Each has an address of its own, see udp-peers.h. */
#define PEERS_MAX 16000000

enum { IDLE_LOAD = 1, UDP_LOAD = 2 };

typedef struct options_s {
  uint16_t port;
  uint64_t count; /* of connections, or of peers */
  uint64_t chatty_percent;
  uint64_t timeout_ms; /* 0: the server has none */
  uint64_t tick_ms;
  uint64_t interval_ms; /* of udp-load: 0, as fast as the server answers */
  uint64_t duration_s;
  int churns;       /* chats end; idle-load alone */
  int are_together; /* the silent ones speak at the same time */
  uint64_t stall_s; /* 0: none */
  uint64_t pid;     /* of the server, for that */
  int stalls_by_usr1;
  uint64_t patience_ms;
  uint64_t seed;
} options_t;

/* Fills *options for one of them, or ends the program after a complaint or
 * --help. */
void parse_options(int argc, char **argv, unsigned load, options_t *options);

#endif /* LOAD_OPTIONS_H */
