/* SPDX-License-Identifier: MIT */

#include "udp-load-options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>

#include "../common/cli.h"
#include "../load/load-judge.h"
#include "udp-wire.h"

static const char help[] =
    "Usage: udp-load [OPTION]...\n"
    "Plays very many peers of udp-sessions on this machine, each with an\n"
    "address of its own, and judges the server: were idle sessions removed in\n"
    "time, was no other removed, did every answer come and say the right "
    "thing?\n"
    "\n"
    "  --host HOST      where the server listens, in 127.0.0.0/8 (127.0.0.1)\n"
    "  --port PORT      and on which port (7007)\n"
    "  --peers N        how many peers there are (1000000)\n"
    "  --chatty PERCENT how many of them never fall silent (20)\n"
    "  --timeout MS     the server's timeout, 0 if it has none (5000)\n"
    "  --tick MS        the server's resolution (100)\n"
    "  --interval MS    least time between two datagrams of a chatty peer (0:\n"
    "                   as fast as the server answers)\n"
    "  --duration S     chat at least so many seconds (10)\n"
    "  --patience MS    wait so long for an answer, or for an end that is\n"
    "                   overdue (5000)\n"
    "  --seed N         of the random numbers (1)\n"
    "  --help           show this\n"
    "\n"
    "Exit status: 0 every promise was kept, 1 not so, or the server could\n"
    "not be judged, 2 wrong usage.\n";

enum {
  OPTION_HOST = 1,
  OPTION_PORT,
  OPTION_PEERS,
  OPTION_CHATTY,
  OPTION_TIMEOUT,
  OPTION_TICK,
  OPTION_INTERVAL,
  OPTION_DURATION,
  OPTION_PATIENCE,
  OPTION_SEED,
  OPTION_HELP
};

static const struct option long_options[] = {
    {"host", required_argument, NULL, OPTION_HOST},
    {"port", required_argument, NULL, OPTION_PORT},
    {"peers", required_argument, NULL, OPTION_PEERS},
    {"chatty", required_argument, NULL, OPTION_CHATTY},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"tick", required_argument, NULL, OPTION_TICK},
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"patience", required_argument, NULL, OPTION_PATIENCE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static void
set_option(options_t *options, int option, const char *text)
{
  switch (option) {
  case OPTION_HOST:
    options->host = text;
    break;
  case OPTION_PORT:
    options->port = (uint16_t)parse_number("port", text, 1, UINT16_MAX);
    break;
  case OPTION_PEERS:
    options->peers = (uint32_t)parse_number("peers", text, 1, WIRE_PEERS_MAX);
    break;
  case OPTION_CHATTY:
    options->chatty_percent = (uint32_t)parse_number("chatty", text, 0, 100);
    break;
  case OPTION_TIMEOUT:
    options->timeout_ms = parse_number("timeout", text, 0, MAX_TIMEOUT_MS);
    break;
  case OPTION_TICK:
    options->tick_ms = parse_number("tick", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_INTERVAL:
    options->interval_ms = parse_number("interval", text, 0, MAX_TIMEOUT_MS);
    break;
  case OPTION_DURATION:
    options->duration_s = parse_number("duration", text, 0, MAX_SECONDS);
    break;
  case OPTION_PATIENCE:
    options->patience_ms = parse_number("patience", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_SEED:
    options->seed = parse_number("seed", text, 0, UINT64_MAX);
    break;
  case OPTION_HELP:
    show_help(help);
  default:
    exit(EXIT_USAGE); /* getopt_long has complained */
  }
}

/* The peers have loopback addresses, so they reach nothing else. */
static void
find_server(options_t *options)
{
  struct sockaddr_storage address;

  parse_address(options->host, options->port, &address);
  memcpy(&options->server, &address, sizeof(options->server));
  if (address.ss_family != AF_INET ||
      ntohl(options->server.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
    usage_error("--host takes an address in 127.0.0.0/8, not '%s'",
                options->host);
}

void
parse_options(options_t *options, int argc, char **argv)
{
  int option;

  *options = (options_t){.host = DEFAULT_HOST,
                         .port = DEFAULT_PORT,
                         .peers = 1000000,
                         .chatty_percent = 20,
                         .timeout_ms = DEFAULT_TIMEOUT_MS,
                         .tick_ms = 100,
                         .duration_s = 10,
                         .patience_ms = DEFAULT_PATIENCE_MS,
                         .seed = 1};
  drop_path_of_program(argv);
  while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
    set_option(options, option, optarg);
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
  if (options->timeout_ms != 0 && options->timeout_ms < 100)
    usage_error("--timeout must be 0 or at least 100");
  if (options->timeout_ms != 0 &&
      options->interval_ms > options->timeout_ms / 4)
    usage_error("--interval must be at most a quarter of --timeout: chatty "
                "peers would be idle");
  find_server(options);
}
