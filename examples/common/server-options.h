/* SPDX-License-Identifier: MIT */

/* The command lines of idle-server and udp-sessions. */

#ifndef EXAMPLES_SERVER_OPTIONS_H
#define EXAMPLES_SERVER_OPTIONS_H

#include <stdint.h>

#include <uvwheel.h>

#include "idle-timer.h"

typedef struct server_options_s {
  const char *host;
  uint16_t port;
  uint64_t timeout_ms;
  const idle_kind_t *kind;
  uvwheel_options_t wheel; /* its max_timers is the limit on sessions */
  int has_http;            /* the live page is wanted */
  const char *http_host;
  uint16_t http_port;
  uint64_t stats_seconds; /* 0: never */
  int quiet;
} server_options_t;

/* What one of them understands. */
typedef struct command_line_s command_line_t;
extern const command_line_t idle_server_command_line;
extern const command_line_t udp_sessions_command_line;

/* Fills *options, or ends the program after a complaint or --help. */
void parse_options(int argc, char **argv, const command_line_t *command_line,
                   server_options_t *options);

#endif /* EXAMPLES_SERVER_OPTIONS_H */
