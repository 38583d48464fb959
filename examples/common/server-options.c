/* SPDX-License-Identifier: MIT */

#include "server-options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <getopt.h>

#include "cli.h"

static const char idle_server_help[] =
    "Usage: idle-server [OPTION]...\n"
    "An echo server that closes connections on which nothing happens.\n"
    "\n"
    "  --bind ADDRESS   listen on this address (127.0.0.1)\n"
    "  --port PORT      listen on this port, 0: on any free one (7007)\n"
    "  --timeout MS     close a connection after this idle time (5000)\n"
    "  --timer KIND     how idle time is watched (wheel):\n"
    "                     wheel  one uvwheel_timer_t for each connection\n"
    "                     uv     one uv_timer_t for each connection\n"
    "                     none   not at all\n"
    "  --tick MS        resolution of the wheel (100)\n"
    "  --slots N        slots of the wheel (512)\n"
    "  --budget N       timers handled per loop iteration (10000)\n"
    "  --http PORT      show the wheel, live, to browsers at this port, 0: at "
    "any\n"
    "                   free one (not at all)\n"
    "  --http-host ADDRESS\n"
    "                   listen for browsers on this address (127.0.0.1)\n"
    "  --stats SECONDS  print a line of figures so often (never)\n"
    "  --quiet          print only where it listens, and errors\n"
    "  --help           show this\n"
    "\n"
    "Stop it with Ctrl-C or SIGTERM.\n";

static const char udp_sessions_help[] =
    "Usage: udp-sessions [OPTION]...\n"
    "A UDP server with a session for each peer, which answers each datagram\n"
    "with the number of its session's datagrams and the datagram itself. What\n"
    "begins with a question mark only asks for that number.\n"
    "\n"
    "  --bind ADDRESS   listen on this address (127.0.0.1)\n"
    "  --port PORT      listen on this port, 0: on any free one (7007)\n"
    "  --timeout MS     remove a session after this idle time (5000)\n"
    "  --sessions N     no more sessions at once, 0: no limit (0)\n"
    "  --timer KIND     how idle time is watched (wheel):\n"
    "                     wheel  one uvwheel_timer_t for each session\n"
    "                     uv     one uv_timer_t for each session\n"
    "                     none   not at all\n"
    "  --tick MS        resolution of the wheel (100)\n"
    "  --slots N        slots of the wheel (512)\n"
    "  --budget N       timers handled per loop iteration (10000)\n"
    "  --stats SECONDS  print a line of figures so often (never)\n"
    "  --quiet          print only where it listens, and errors\n"
    "  --help           show this\n"
    "\n"
    "Stop it with Ctrl-C or SIGTERM.\n";

enum {
  OPTION_BIND = 1,
  OPTION_PORT,
  OPTION_TIMEOUT,
  OPTION_SESSIONS,
  OPTION_TIMER,
  OPTION_TICK,
  OPTION_SLOTS,
  OPTION_BUDGET,
  OPTION_HTTP,
  OPTION_HTTP_HOST,
  OPTION_STATS,
  OPTION_QUIET,
  OPTION_HELP
};

/* Both understand these. */
#define COMMON_OPTIONS                                      \
  {"bind", required_argument, NULL, OPTION_BIND},           \
      {"port", required_argument, NULL, OPTION_PORT},       \
      {"timeout", required_argument, NULL, OPTION_TIMEOUT}, \
      {"timer", required_argument, NULL, OPTION_TIMER},     \
      {"tick", required_argument, NULL, OPTION_TICK},       \
      {"slots", required_argument, NULL, OPTION_SLOTS},     \
      {"budget", required_argument, NULL, OPTION_BUDGET},   \
      {"stats", required_argument, NULL, OPTION_STATS},     \
      {"quiet", no_argument, NULL, OPTION_QUIET},           \
  {                                                         \
    "help", no_argument, NULL, OPTION_HELP                  \
  }

static const struct option idle_server_options[] = {
    {"http", required_argument, NULL, OPTION_HTTP},
    {"http-host", required_argument, NULL, OPTION_HTTP_HOST},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

static const struct option udp_sessions_options[] = {
    {"sessions", required_argument, NULL, OPTION_SESSIONS},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

struct command_line_s {
  const char *help;
  const struct option *options;
};

const command_line_t idle_server_command_line = {idle_server_help,
                                                 idle_server_options};
const command_line_t udp_sessions_command_line = {udp_sessions_help,
                                                  udp_sessions_options};

static const idle_kind_t *
parse_kind(const char *name)
{
  const idle_kind_t *kind = idle_kind(name);

  if (kind == NULL)
    usage_error("--timer takes wheel, uv or none, not '%s'", name);
  return kind;
}

static void
set_wheel_option(uvwheel_options_t *wheel, int option, const char *text)
{
  switch (option) {
  case OPTION_SESSIONS:
    wheel->max_timers = parse_number("sessions", text, 0, UINT64_MAX);
    break;
  case OPTION_TICK:
    wheel->tick_ms = parse_number("tick", text, 1, UVWHEEL_MAX_TICK_MS);
    break;
  case OPTION_SLOTS:
    wheel->slots = (uint32_t)parse_number("slots", text, 1, UVWHEEL_MAX_SLOTS);
    break;
  default:
    wheel->turn_budget = (uint32_t)parse_number("budget", text, 1, UINT32_MAX);
  }
}

static void
set_option(server_options_t *options, int option, const char *text)
{
  switch (option) {
  case OPTION_BIND:
    options->host = text;
    break;
  case OPTION_PORT:
    options->port = (uint16_t)parse_number("port", text, 0, UINT16_MAX);
    break;
  case OPTION_TIMEOUT:
    options->timeout_ms = parse_number("timeout", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_TIMER:
    options->kind = parse_kind(text);
    break;
  case OPTION_SESSIONS:
  case OPTION_TICK:
  case OPTION_SLOTS:
  case OPTION_BUDGET:
    set_wheel_option(&options->wheel, option, text);
    break;
  case OPTION_HTTP:
    options->has_http = 1;
    options->http_port = (uint16_t)parse_number("http", text, 0, UINT16_MAX);
    break;
  case OPTION_HTTP_HOST:
    options->http_host = text;
    break;
  case OPTION_STATS:
    options->stats_seconds = parse_number("stats", text, 1, MAX_SECONDS);
    break;
  case OPTION_QUIET:
    options->quiet = 1;
    break;
  default:
    exit(EXIT_USAGE); /* getopt_long has complained */
  }
}

void
parse_options(int argc, char **argv, const command_line_t *command_line,
              server_options_t *options)
{
  int option;

  *options = (server_options_t){
      .host = DEFAULT_HOST,
      .port = DEFAULT_PORT,
      .timeout_ms = DEFAULT_TIMEOUT_MS,
      .kind = idle_kind("wheel"),
      .http_host = DEFAULT_HOST,
  };
  while ((option = getopt_long(argc, argv, "", command_line->options, NULL)) !=
         -1) {
    if (option == OPTION_HELP)
      show_help(command_line->help);
    set_option(options, option, optarg);
  }
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
  if (options->has_http && strcmp(options->kind->name, "wheel") != 0)
    usage_error("--http shows the wheel, there is none with --timer %s",
                options->kind->name);
}
