/* SPDX-License-Identifier: MIT */

/* The command lines of the servers. */

#ifndef EXAMPLES_SERVER_OPTIONS_H
#define EXAMPLES_SERVER_OPTIONS_H

#include <stdint.h>

#include <uvwheel.h>

#define NO_HTTP UINT32_MAX

enum { IDLE_SERVER = 1, UDP_SESSIONS = 2, MULTI_LOOP = 4 };

typedef struct server_options_s {
  uint32_t threads; /* of multi-loop */
  const char *host;
  uint16_t port;
  uint64_t timeout_ms;
  const char *timer;   /* what watches idle time: "wheel" or a rival */
  uint64_t most_peers; /* at once, or 0 */
  int sheds;           /* when full, the idlest make room */
  uvwheel_options_t wheel;
  const char *http_host;
  uint32_t http_port;     /* of the live page, or NO_HTTP */
  uint64_t stats_seconds; /* 0: never */
  uint64_t block_seconds; /* 0: never */
} server_options_t;

/* Fills *options for one of them, or ends the program after a complaint or
 * --help. */
void parse_options(int argc, char **argv, unsigned server,
                   server_options_t *options);

#endif /* EXAMPLES_SERVER_OPTIONS_H */
