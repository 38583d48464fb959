/* SPDX-License-Identifier: MIT */

#include "judge.h"

#include <inttypes.h>

#include "../../examples/common/cli.h"
#include "../../examples/common/options.h"

#define BOTH (IDLE_LOAD | UDP_LOAD)
#define NUMBER(field, min, max) OPTION_NUMBER(options_t, field, min, max)

static const option_row_t rows[] = {
    {BOTH, "port", "PORT", "the server's port (7007)",
     NUMBER(port, 1, UINT16_MAX)},
    {IDLE_LOAD, "connections", "N", "how many to open (10000)",
     NUMBER(count, 1, 1000000)},
    {UDP_LOAD, "peers", "N", "how many peers there are (1000000)",
     NUMBER(count, 1, PEERS_MAX)},
    {BOTH, "chatty", "PERCENT",
     "how many of them never fall silent (50; udp-load: 20)",
     NUMBER(chatty_percent, 0, 100)},
    {BOTH, "timeout", "MS", "the server's timeout, 0 if it has none (5000)",
     NUMBER(timeout_ms, 0, MAX_TIMEOUT_MS)},
    {BOTH, "tick", "MS", "the server's resolution (100)",
     NUMBER(tick_ms, 1, MAX_TIMEOUT_MS)},
    {BOTH, "interval", "MS",
     "average time between two messages of a chatty one (0: a\n"
     "sixth of the timeout, at most 1000; of udp-load the least\n"
     "time, 0: as fast as the server answers)",
     NUMBER(interval_ms, 0, MAX_TIMEOUT_MS)},
    {IDLE_LOAD, "first", "MS",
     "how long after it connects a chatty one speaks (0)",
     NUMBER(first_ms, 0, MAX_TIMEOUT_MS)},
    {BOTH, "duration", "S", "chat for at least so many seconds (10)",
     NUMBER(duration_s, 0, MAX_SECONDS)},
    {IDLE_LOAD, "together", NULL,
     "all silent connections send their message at once",
     OPTION_FIELD(options_t, are_together)},
    {BOTH, "stall", "S",
     "block the server for so many seconds, while the chatty\n"
     "ones keep sending (never)",
     NUMBER(stall_s, 1, MAX_SECONDS)},
    {BOTH, "pid", "PID", "the process that --stall blocks",
     NUMBER(pid, 2, INT32_MAX)},
    {IDLE_LOAD, "by-usr1", NULL,
     "block an idle-server --block S by SIGUSR1, instead of by\n"
     "SIGSTOP and SIGCONT",
     OPTION_FIELD(options_t, stalls_by_usr1)},
    {BOTH, "patience", "MS",
     "wait so long for an answer, or for a close that is\n"
     "overdue (5000)",
     NUMBER(patience_ms, 1, MAX_TIMEOUT_MS)},
};

static const char *description_of(unsigned load) {
  if (load == UDP_LOAD)
    return "Plays very many peers of udp-sessions on this machine, each with\n"
           "an address of its own, and judges the server: did it remove idle\n"
           "sessions in time, and no others, and was every answer right?\n";
  return "Opens many connections to an idle-server and judges it: did it\n"
         "close idle connections in time, and no others, and did every echo\n"
         "come back?\n";
}

/* A peer that chats too seldom is idle. A pause is at most 1.5 intervals long,
 * and the 10 ms that pass between two looks at a connection. */
static void check_interval(const options_t *options) {
  uint64_t timeout_ms = options->timeout_ms;

  if (timeout_ms != 0 && timeout_ms < 100)
    usage_error("--timeout must be 0 or at least 100");
  if (timeout_ms != 0 && options->chatty_percent != 0 &&
      options->interval_ms > timeout_ms / 4)
    usage_error("--interval must be at most a quarter of --timeout (%" PRIu64
                "): chatty peers would be idle",
                timeout_ms);
}

/* Whoever is wrongly closed is so when the stall ends, and what is idle then
 * needs a timeout more to be closed. */
static void check_stall(options_t *options) {
  uint64_t needed_s = options->stall_s + (2 * options->timeout_ms + 999) / 1000;

  if ((options->stall_s != 0) != (options->pid != 0))
    usage_error("--stall and --pid go together");
  if (options->stall_s == 0)
    return;
  if (options->timeout_ms == 0)
    usage_error("--stall goes with a --timeout");
  if (options->duration_s < needed_s)
    options->duration_s = needed_s;
  options->patience_ms += options->stall_s * 1000;
}

void parse_options(int argc, char **argv, unsigned load, options_t *options) {
  command_line_t line = {
      .program = load,
      .description = description_of(load),
      .ending =
          "Exit status: 0 the server kept every promise, 1 it did not, or\n"
          "could not be judged, 2 wrong usage.\n",
      .rows = rows,
      .count = sizeof(rows) / sizeof(rows[0]),
  };

  *options = (options_t){
      .port = DEFAULT_PORT,
      .count = load == UDP_LOAD ? 1000000 : 10000,
      .chatty_percent = load == UDP_LOAD ? 20 : 50,
      .timeout_ms = DEFAULT_TIMEOUT_MS,
      .tick_ms = 100,
      .duration_s = 10,
      .patience_ms = 5000,
  };
  parse_command_line(argc, argv, &line, options);
  if (load == IDLE_LOAD && options->interval_ms == 0)
    options->interval_ms =
        options->timeout_ms == 0 || options->timeout_ms > 6000
            ? 1000
            : options->timeout_ms / 6;
  check_interval(options);
  check_stall(options);
}
