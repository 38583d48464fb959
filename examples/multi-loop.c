/* SPDX-License-Identifier: MIT */

/* An echo server on several threads that share nothing.
 *
 * Each thread has a loop, a wheel and a listening socket of its own, see
 * multi-worker.c. The sockets listen on one port (SO_REUSEPORT), and the kernel
 * deals the connections among them: nothing is locked or handed over, and a
 * connection's timer lives where its socket lives. One thing crosses threads:
 * the main thread, which only waits for a signal, asks the others to stop, by
 * uv_async_send(). Figures are printed by the thread whose they are, and added
 * up when all threads have ended.
 *
 * How such a server says what happens to it, and what it costs, is shown by
 * idle-server.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <getopt.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "common/cli.h"
#include "multi-worker.h"

#define MAX_THREADS 1024
#define DESCRIPTORS_PER_THREAD 8 /* its loop and its listening socket */
#define DESCRIPTORS_OF_ALL 16

const char *const program = "multi-loop";

typedef struct server_s {
  unsigned threads;
  uint16_t port;
  int quiet;
  worker_options_t options;
  worker_t *workers;
} server_t;

static const char help[] =
    "Usage: multi-loop [OPTION]...\n"
    "An echo server on several threads, each with a loop and a wheel of its\n"
    "own, that closes connections on which nothing happens.\n"
    "\n"
    "  --threads N      how many (one for each processor)\n"
    "  --port PORT      listen on this port, 0: on any free one (7007)\n"
    "  --timeout MS     close a connection after this idle time (5000)\n"
    "  --tick MS        resolution of the wheels (100)\n"
    "  --slots N        slots of each wheel (512)\n"
    "  --stats SECONDS  each thread prints its figures so often (never)\n"
    "  --quiet          print only where it listens, and errors\n"
    "  --help           show this\n"
    "\n"
    "Stop it with Ctrl-C or SIGTERM.\n";

/* ---- Start and stop ----------------------------------------------------- */

/* Turns port 0 into a free one, and fails if the port is in use: sockets that
 * share a port would share it with a second server of this kind, too. */
static int
claim_port(struct sockaddr *address)
{
  socklen_t size = sizeof(struct sockaddr_in);
  int on = 1, error = 0;
  int claim = socket(address->sa_family, SOCK_STREAM, 0);

  if (claim < 0 ||
      setsockopt(claim, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(claim, address, size) != 0 ||
      getsockname(claim, address, &size) != 0)
    error = uv_translate_sys_error(errno);
  if (claim >= 0)
    close(claim);
  return error;
}

/* All is made before the first thread starts: when something is missing the
 * program can simply end. */
static void
start(server_t *server)
{
  struct sockaddr_storage address;
  char text[ADDRESS_TEXT_SIZE];

  parse_address(DEFAULT_HOST, server->port, &address);
  format_address(&address, text);
  int error = claim_port((struct sockaddr *)&address);
  for (unsigned i = 0; i < server->threads && error == 0; i++)
    error = worker_open(&server->workers[i], i + 1, &server->options,
                        (struct sockaddr *)&address);
  for (unsigned i = 0; i < server->threads && error == 0; i++)
    error = worker_start(&server->workers[i]);
  if (error != 0) {
    complain("cannot listen on %s with %u threads: %s", text, server->threads,
             error == UV_ENOPROTOOPT ? "this system has no SO_REUSEPORT"
                                     : uv_strerror(error));
    exit(EXIT_FAILURE);
  }
  format_address(&address, text);
  announce("listening on %s, threads: %u\n", text, server->threads);
}

/* Newcomers may come to all threads at once, one each. */
static void
share_descriptors(server_t *server)
{
  unsigned needed =
      DESCRIPTORS_OF_ALL + server->threads * DESCRIPTORS_PER_THREAD;
  uint64_t limit = raise_descriptor_limit();

  if (limit < needed) {
    complain("%u threads need %u descriptors, but the limit is %" PRIu64
             " (ulimit -n)",
             server->threads, needed, limit);
    exit(EXIT_FAILURE);
  }
  server->options.descriptors = limit - server->threads;
}

static void
add_figures(figures_t *sum, const figures_t *figures)
{
  sum->open += figures->open;
  sum->accepted += figures->accepted;
  sum->turned_away += figures->turned_away;
  sum->messages += figures->messages;
  sum->idle_closes += figures->idle_closes;
  sum->cpu_s += figures->cpu_s;
}

/* Returns the exit status. */
static int
stop(server_t *server)
{
  figures_t sum = {.open = 0};
  int status = EXIT_SUCCESS;

  for (unsigned i = 0; i < server->threads; i++)
    worker_stop(&server->workers[i]);
  for (unsigned i = 0; i < server->threads; i++) {
    worker_t *worker = &server->workers[i];
    if (worker_join(worker) != 0) {
      complain("thread %u left handles open", worker->number);
      status = EXIT_FAILURE;
    }
    if (!server->quiet)
      print_figures("summary thread", worker->number, &worker->figures);
    add_figures(&sum, &worker->figures);
  }
  if (!server->quiet)
    print_figures("summary threads", server->threads, &sum);
  return status;
}

/* ---- Command line ------------------------------------------------------- */

enum {
  OPTION_THREADS = 1,
  OPTION_PORT,
  OPTION_TIMEOUT,
  OPTION_TICK,
  OPTION_SLOTS,
  OPTION_STATS,
  OPTION_QUIET,
  OPTION_HELP
};

static const struct option names[] = {
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"port", required_argument, NULL, OPTION_PORT},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"tick", required_argument, NULL, OPTION_TICK},
    {"slots", required_argument, NULL, OPTION_SLOTS},
    {"stats", required_argument, NULL, OPTION_STATS},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static void
set_option(server_t *server, int option, const char *text)
{
  worker_options_t *options = &server->options;

  switch (option) {
  case OPTION_THREADS:
    server->threads = (unsigned)parse_number("threads", text, 1, MAX_THREADS);
    break;
  case OPTION_PORT:
    server->port = (uint16_t)parse_number("port", text, 0, UINT16_MAX);
    break;
  case OPTION_TIMEOUT:
    options->timeout_ms = parse_number("timeout", text, 1, MAX_TIMEOUT_MS);
    break;
  case OPTION_TICK:
    options->wheel.tick_ms = parse_number("tick", text, 1, UVWHEEL_MAX_TICK_MS);
    break;
  case OPTION_SLOTS:
    options->wheel.slots =
        (uint32_t)parse_number("slots", text, 1, UVWHEEL_MAX_SLOTS);
    break;
  case OPTION_STATS:
    options->stats_seconds = parse_number("stats", text, 1, MAX_SECONDS);
    break;
  case OPTION_QUIET:
    server->quiet = 1;
    break;
  case OPTION_HELP:
    show_help(help);
  default:
    exit(EXIT_USAGE); /* getopt_long has complained */
  }
}

int
main(int argc, char **argv)
{
  server_t server = {
      .threads = uv_available_parallelism(),
      .port = DEFAULT_PORT,
      .options = {.timeout_ms = DEFAULT_TIMEOUT_MS},
  };
  sigset_t signals;
  int option, number;

  drop_path_of_program(argv);
  while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
    set_option(&server, option, optarg);
  if (optind < argc)
    usage_error("unexpected argument '%s'", argv[optind]);
  server.workers = calloc(server.threads, sizeof(*server.workers));
  if (server.workers == NULL) {
    complain("out of memory");
    return EXIT_FAILURE;
  }
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  share_descriptors(&server);
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, NULL); /* in all threads to be, too */
  start(&server);
  sigwait(&signals, &number);
  int status = stop(&server);
  free(server.workers);
  return status;
}
