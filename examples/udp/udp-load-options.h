/* SPDX-License-Identifier: MIT */

/* The command line of udp-load. */

#ifndef EXAMPLES_UDP_LOAD_OPTIONS_H
#define EXAMPLES_UDP_LOAD_OPTIONS_H

#include <stdint.h>

#include <netinet/in.h>

typedef struct options_s {
  const char *host;
  uint16_t port;
  struct sockaddr_in server; /* what host and port mean */
  uint32_t peers;
  uint32_t chatty_percent;
  uint64_t timeout_ms;
  uint64_t tick_ms;
  uint64_t interval_ms;
  uint64_t duration_s;
  uint64_t patience_ms;
  uint64_t seed;
} options_t;

/* Sets all of them, from the command line or to their defaults. Ends the
 * program when the command line is wrong, or asks for help. */
void parse_options(options_t *options, int argc, char **argv);

#endif /* EXAMPLES_UDP_LOAD_OPTIONS_H */
