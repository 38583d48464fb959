/* SPDX-License-Identifier: MIT */

#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <getopt.h>

#include "../../examples/common/cli.h"

static const char idle_load_help[] =
    "Usage: idle-load [OPTION]...\n"
    "Opens many connections to an idle-server and judges it: were idle\n"
    "connections closed in time, was no other closed, did every echo come "
    "back?\n"
    "\n"
    "  --host HOST      where the server listens (127.0.0.1)\n"
    "  --port PORT      and on which port (7007)\n"
    "  --connections N  how many to open (10000)\n"
    "  --chatty PERCENT how many of them never fall silent (50)\n"
    "  --timeout MS     the server's timeout, 0 if it has none (5000)\n"
    "  --tick MS        the server's resolution (100)\n"
    "  --interval MS    average time between two messages of a chatty\n"
    "                   connection (a sixth of the timeout, at most 1000)\n"
    "  --duration S     chat at least so many seconds (10)\n"
    "  --churn S        connections also leave, reset, vanish and are "
    "replaced,\n"
    "                   and every S seconds are judged for themselves (never)\n"
    "  --patience MS    wait so long for an answer, or for an end that is\n"
    "                   overdue (5000)\n"
    "  --seed N         of the random numbers (1)\n"
    "  --help           show this\n"
    "\n"
    "Exit status: 0 every promise was kept, 1 not so, or the server could\n"
    "not be judged, 2 wrong usage.\n";

static const char udp_load_help[] =
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
  OPTION_COUNT,
  OPTION_CHATTY,
  OPTION_TIMEOUT,
  OPTION_TICK,
  OPTION_INTERVAL,
  OPTION_DURATION,
  OPTION_CHURN,
  OPTION_PATIENCE,
  OPTION_SEED,
  OPTION_HELP
};

/* Both understand these. */
#define COMMON_OPTIONS                                        \
  {"host", required_argument, NULL, OPTION_HOST},             \
      {"port", required_argument, NULL, OPTION_PORT},         \
      {"chatty", required_argument, NULL, OPTION_CHATTY},     \
      {"timeout", required_argument, NULL, OPTION_TIMEOUT},   \
      {"tick", required_argument, NULL, OPTION_TICK},         \
      {"interval", required_argument, NULL, OPTION_INTERVAL}, \
      {"duration", required_argument, NULL, OPTION_DURATION}, \
      {"patience", required_argument, NULL, OPTION_PATIENCE}, \
      {"seed", required_argument, NULL, OPTION_SEED},         \
  {                                                           \
    "help", no_argument, NULL, OPTION_HELP                    \
  }

static const struct option idle_load_options[] = {
    {"connections", required_argument, NULL, OPTION_COUNT},
    {"churn", required_argument, NULL, OPTION_CHURN},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

static const struct option udp_load_options[] = {
    {"peers", required_argument, NULL, OPTION_COUNT},
    COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

struct command_line_s {
  const char *help;
  const struct option *options;
  const char *count_name;
  uint64_t default_count;
  uint64_t max_count;
  uint64_t default_chatty_percent;
  uint64_t min_interval_ms; /* without any, one that suits is chosen */
};

const command_line_t idle_load_command_line = {
    .help = idle_load_help,
    .options = idle_load_options,
    .count_name = "connections",
    .default_count = 10000,
    .max_count = 1000000,
    .default_chatty_percent = 50,
    .min_interval_ms = 1,
};
const command_line_t udp_load_command_line = {
    .help = udp_load_help,
    .options = udp_load_options,
    .count_name = "peers",
    .default_count = 1000000,
    .max_count = PEERS_MAX,
    .default_chatty_percent = 20,
    .min_interval_ms = 0,
};

static void
set_option(options_t *options, const command_line_t *command_line, int option,
           const char *text)
{
  switch (option) {
  case OPTION_HOST:
    options->host = text;
    break;
  case OPTION_PORT:
    options->port = (uint16_t)parse_number("port", text, 1, UINT16_MAX);
    break;
  case OPTION_COUNT:
    options->count = parse_number(command_line->count_name, text, 1,
                                  command_line->max_count);
    break;
  case OPTION_CHATTY:
    options->chatty_percent = parse_number("chatty", text, 0, 100);
    break;
  case OPTION_TIMEOUT:
    options->timeout_ms = parse_number("timeout", text, 0, MAX_TIMEOUT_MS);
    break;
  case OPTION_TICK:
    options->tick_ms = parse_number("tick", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_INTERVAL:
    options->interval_ms = parse_number(
        "interval", text, command_line->min_interval_ms, MAX_TIMEOUT_MS);
    break;
  case OPTION_DURATION:
    options->duration_s = parse_number("duration", text, 0, MAX_SECONDS);
    break;
  case OPTION_CHURN:
    options->churn_s = parse_number("churn", text, 1, MAX_SECONDS);
    break;
  case OPTION_PATIENCE:
    options->patience_ms = parse_number("patience", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_SEED:
    options->seed = parse_number("seed", text, 0, UINT64_MAX);
    break;
  default:
    exit(EXIT_USAGE); /* getopt_long has complained */
  }
}

/* Who chats too seldom is idle. A pause is at most 1.5 intervals long, and the
 * 10 ms that pass between two looks at a connection. */
static void
complete_interval(options_t *options, uint64_t min_interval_ms)
{
  uint64_t timeout_ms = options->timeout_ms;

  if (timeout_ms != 0 && timeout_ms < 100)
    usage_error("--timeout must be 0 or at least 100");
  if (options->interval_ms < min_interval_ms)
    options->interval_ms =
        timeout_ms == 0 || timeout_ms > 6000 ? 1000 : timeout_ms / 6;
  if (timeout_ms != 0 && options->chatty_percent != 0 &&
      options->interval_ms > timeout_ms / 4)
    usage_error("--interval must be at most a quarter of --timeout (%" PRIu64
                "): who chats would be idle",
                timeout_ms);
}

/* A judge who begins anew knows what happened at most one period ago. */
static void
check_churn(const options_t *options)
{
  if (options->churn_s != 0 && (options->timeout_ms == 0 ||
                                options->churn_s * 1000 < options->timeout_ms))
    usage_error("--churn must be at least --timeout, and that not 0");
}

void
parse_options(int argc, char **argv, const command_line_t *command_line,
              options_t *options)
{
  int option;

  *options = (options_t){
      .host = DEFAULT_HOST,
      .port = DEFAULT_PORT,
      .count = command_line->default_count,
      .chatty_percent = command_line->default_chatty_percent,
      .timeout_ms = DEFAULT_TIMEOUT_MS,
      .tick_ms = 100,
      .duration_s = 10,
      .patience_ms = 5000,
      .seed = 1,
  };
  drop_path_of_program(argv);
  while ((option = getopt_long(argc, argv, "", command_line->options, NULL)) !=
         -1) {
    if (option == OPTION_HELP)
      show_help(command_line->help);
    set_option(options, command_line, option, optarg);
  }
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
  complete_interval(options, command_line->min_interval_ms);
  check_churn(options);
}
