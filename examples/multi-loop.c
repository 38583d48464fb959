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

#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "common/cli.h"
#include "multi-worker.h"

#define DESCRIPTORS_PER_THREAD 8 /* its loop and its listening socket */
#define DESCRIPTORS_OF_ALL 16

const char *const program = "multi-loop";

typedef struct server_s {
  uint64_t descriptors; /* more are not used for connections */
  server_options_t options;
  worker_t *workers;
} server_t;

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

  parse_address(server->options.host, server->options.port, &address);
  format_address(&address, text);
  int error = claim_port((struct sockaddr *)&address);
  for (unsigned i = 0; i < server->options.threads && error == 0; i++)
    error = worker_open(&server->workers[i], i + 1, server->descriptors,
                        &server->options, (struct sockaddr *)&address);
  for (unsigned i = 0; i < server->options.threads && error == 0; i++)
    error = worker_start(&server->workers[i]);
  if (error != 0) {
    complain("cannot listen on %s with %u threads: %s", text,
             server->options.threads,
             error == UV_ENOPROTOOPT ? "this system has no SO_REUSEPORT"
                                     : uv_strerror(error));
    exit(EXIT_FAILURE);
  }
  format_address(&address, text);
  announce("listening on %s, threads: %u\n", text, server->options.threads);
}

/* Newcomers may come to all threads at once, one each. */
static void
share_descriptors(server_t *server)
{
  unsigned needed =
      DESCRIPTORS_OF_ALL + server->options.threads * DESCRIPTORS_PER_THREAD;

  server->descriptors = need_descriptors(needed) - server->options.threads;
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

  for (unsigned i = 0; i < server->options.threads; i++)
    worker_stop(&server->workers[i]);
  for (unsigned i = 0; i < server->options.threads; i++) {
    worker_t *worker = &server->workers[i];
    if (worker_join(worker) != 0) {
      complain("thread %u left handles open", worker->number);
      status = EXIT_FAILURE;
    }
    if (!server->options.quiet)
      print_figures("summary thread", worker->number, &worker->figures);
    add_figures(&sum, &worker->figures);
  }
  if (!server->options.quiet)
    print_figures("summary threads", server->options.threads, &sum);
  return status;
}

int
main(int argc, char **argv)
{
  server_t server;
  sigset_t signals;
  int number;

  parse_options(argc, argv, MULTI_LOOP, &server.options);
  server.workers = calloc(server.options.threads, sizeof(*server.workers));
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
