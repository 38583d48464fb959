/* SPDX-License-Identifier: MIT */

#include "server-options.h"

#include <string.h>

#include <unistd.h>

#include "cli.h"
#include "options.h"

#define MAX_THREADS 1024

#define TEXT(field) OPTION_FIELD(server_options_t, field)
#define NUMBER(field, min, max) OPTION_NUMBER(server_options_t, field, min, max)

enum {
  SINGLE = IDLE_SERVER | UDP_SESSIONS, /* those with one thread */
  TCP = IDLE_SERVER | MULTI_LOOP,
  ALL = SINGLE | MULTI_LOOP
};

static const option_row_t rows[] = {
    {MULTI_LOOP, "threads", "N", "how many threads (one for each processor)",
     NUMBER(threads, 1, MAX_THREADS)},
    {SINGLE, "bind", "ADDRESS", "listen on this address (127.0.0.1)",
     TEXT(host)},
    {ALL, "port", "PORT", "listen on this port, 0: on any free one (7007)",
     NUMBER(port, 0, UINT16_MAX)},
    {TCP, "timeout", "MS", "close a connection after this idle time (5000)",
     NUMBER(timeout_ms, 1, MAX_TIMEOUT_MS)},
    {UDP_SESSIONS, "timeout", "MS",
     "remove a session after this idle time (5000)",
     NUMBER(timeout_ms, 1, MAX_TIMEOUT_MS)},
    {UDP_SESSIONS, "sessions", "N", "most sessions at once, 0: no limit (0)",
     NUMBER(most_peers, 0, UINT64_MAX)},
    {IDLE_SERVER, "max-connections", "N",
     "most connections at once, 0: as many as there are\n"
     "descriptors (0)",
     NUMBER(most_peers, 0, UINT64_MAX)},
    {IDLE_SERVER, "when-full", "WHAT",
     "when there are so many (refuse):\n"
     "  refuse  turn newcomers away\n"
     "  shed    close the idlest connections;\n"
     "          only with --timer wheel",
     TEXT(when_full)},
    {IDLE_SERVER, "timer", "KIND",
     "how to watch idle time (wheel):\n"
     "  wheel  by one uvwheel_timer_t for each peer\n"
     "  uv     by one uv_timer_t for each peer\n"
     "  sweep  by one uv_timer_t that looks at all peers each\n"
     "         second\n"
     "  none   not at all",
     TEXT(timer)},
    {UDP_SESSIONS, "timer", "KIND",
     "wheel: a session has a uvwheel_timer_t; uv: a uv_timer_t\n"
     "(wheel)",
     TEXT(timer)},
    {ALL, "tick", "MS", "resolution of a wheel (100)",
     NUMBER(wheel.tick_ms, 1, UVWHEEL_MAX_TICK_MS)},
    {ALL, "slots", "N", "slots of a wheel (512, more for a shorter tick)",
     NUMBER(wheel.slots, 1, UVWHEEL_MAX_SLOTS)},
    {TCP, "http", "PORT",
     "show the wheels, live, to browsers at this port, and to\n"
     "Prometheus at /metrics; 0: at any free one (no page)",
     NUMBER(http_port, 0, UINT16_MAX)},
    {TCP, "http-host", "ADDRESS",
     "listen for browsers on this address (127.0.0.1)", TEXT(http_host)},
    {ALL, "stats", "SECONDS", "print figures every so many seconds (never)",
     NUMBER(stats_seconds, 1, MAX_SECONDS)},
    {IDLE_SERVER, "block", "SECONDS",
     "for tests: at SIGUSR1 block the loop for so many seconds,\n"
     "then call uv_update_time",
     NUMBER(block_seconds, 1, MAX_SECONDS)},
};

static const char *
description_of(unsigned server)
{
  if (server == UDP_SESSIONS)
    return "A UDP server with a session for each peer. It answers each "
           "datagram "
           "with the\n"
           "number of its session's datagrams, then the datagram itself. To a "
           "datagram that\n"
           "begins with a question mark it answers with the number alone.\n";
  if (server == MULTI_LOOP)
    return "An echo server that closes idle connections. It has several "
           "threads, each with\n"
           "a loop and a wheel of its own.\n";
  return "An echo server that closes idle connections.\n";
}

void
parse_options(int argc, char **argv, unsigned server, server_options_t *options)
{
  command_line_t line = {
      .program = server,
      .usage = "[OPTION]...",
      .description = description_of(server),
      .ending = "Stop it with Ctrl-C or SIGTERM.\n",
      .rows = rows,
      .count = sizeof(rows) / sizeof(rows[0]),
  };

  *options = (server_options_t){
      .threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
      .host = DEFAULT_HOST,
      .port = DEFAULT_PORT,
      .timeout_ms = DEFAULT_TIMEOUT_MS,
      .timer = "wheel",
      .when_full = "refuse",
      .http_host = DEFAULT_HOST,
      .http_port = NO_HTTP,
  };
  parse_command_line(argc, argv, &line, options);
  int sheds = strcmp(options->when_full, "shed") == 0;
  if (!sheds && strcmp(options->when_full, "refuse") != 0)
    usage_error("--when-full takes refuse or shed, not '%s'",
                options->when_full);
  if (strcmp(options->timer, "wheel") == 0)
    return;
  if (options->http_port != NO_HTTP)
    usage_error("--http shows the wheel, there is none with --timer %s",
                options->timer);
  if (sheds)
    usage_error("--when-full shed needs --timer wheel");
}
