/* SPDX-License-Identifier: MIT */

/* An echo server on several threads that share nothing.
 *
 * Each thread has a loop, a wheel and a listening socket of its own, and runs
 * the server of echo.c on them. The sockets listen on one port (SO_REUSEPORT),
 * and the kernel deals the connections among them: nothing is locked or handed
 * over, and a connection's timer lives where its socket lives. One thing
 * crosses threads: the main thread, which only waits for a signal, asks the
 * others to stop, by uv_async_send(). Figures are printed by the thread whose
 * they are, and added up when all threads have ended.
 */

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "common/cli.h"
#include "common/server-options.h"
#include "echo.h"

#define BACKLOG 4096
#define DESCRIPTORS_PER_THREAD 8 /* its loop and its listening socket */
#define DESCRIPTORS_OF_ALL 16

#ifndef SO_REUSEPORT
#define SO_REUSEPORT (-1) /* setsockopt() will refuse it */
#endif

const char *const program = "multi-loop";

/* While the thread runs all of this is its own, but "stop". */
typedef struct worker_s {
  unsigned number;
  uv_thread_t thread;
  uv_loop_t loop;
  uv_async_t stop;
  uv_timer_t stats_timer;
  echo_t echo;
  double cpu_s;
  int error; /* of closing the loop */
} worker_t;

typedef struct server_s {
  server_options_t options;
  worker_t *workers;
} server_t;

/* ---- Figures ------------------------------------------------------------ */

/* In one call, so that lines of several threads do not mix. */
static void
print_figures(const char *title, unsigned number, const echo_figures_t *figures,
              double cpu_s)
{
  char text[ECHO_TEXT_SIZE];

  echo_format(figures, text);
  printf("%s=%u %s cpu_s=%.3f\n", title, number, text, cpu_s);
  fflush(stdout);
}

static void
measure_cpu(worker_t *worker)
{
  struct timespec cpu;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  worker->cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
}

static void
on_stats_timer(uv_timer_t *timer)
{
  worker_t *worker = timer->data;

  measure_cpu(worker);
  print_figures("stats thread", worker->number, &worker->echo.figures,
                worker->cpu_s);
}

/* ---- A thread ----------------------------------------------------------- */

static void
run(void *data)
{
  worker_t *worker = data;

  uv_run(&worker->loop, UV_RUN_DEFAULT); /* until all is closed */
  measure_cpu(worker);
  worker->error = uv_loop_close(&worker->loop);
}

static void
on_stop(uv_async_t *stop)
{
  worker_t *worker = stop->data;

  uv_close((uv_handle_t *)stop, NULL);
  uv_close((uv_handle_t *)&worker->stats_timer, NULL);
  echo_stop(&worker->echo);
}

/* Sockets can share a port if each asked for it before it was bound. */
static int
share_port(const uv_tcp_t *listener)
{
  uv_os_fd_t descriptor;
  int on = 1;
  int error = uv_fileno((const uv_handle_t *)listener, &descriptor);

  if (error == 0 &&
      setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0)
    error = uv_translate_sys_error(errno);
  return error;
}

/* Makes all that the thread needs, and listens. Returns 0 or a UV_E* code; the
 * caller should then end the program. */
static int
open_worker(worker_t *worker, unsigned number, const server_options_t *options,
            uint64_t descriptor_limit, const struct sockaddr *address)
{
  uv_loop_t *loop = &worker->loop;
  uv_tcp_t *listener = &worker->echo.listener;
  uint64_t period_ms = options->stats_seconds * 1000;
  int error;

  worker->number = number;
  worker->echo.descriptor_limit = descriptor_limit;
  if ((error = uv_loop_init(loop)) != 0 ||
      (error = uv_async_init(loop, &worker->stop, on_stop)) != 0 ||
      (error = uv_timer_init(loop, &worker->stats_timer)) != 0 ||
      (error = echo_init(&worker->echo, loop, address->sa_family, options)) !=
          0 ||
      (error = share_port(listener)) != 0 ||
      (error = uv_tcp_bind(listener, address, 0)) != 0)
    return error;
  worker->stop.data = worker->stats_timer.data = worker;
  if (period_ms != 0)
    uv_timer_start(&worker->stats_timer, on_stats_timer, period_ms, period_ms);
  return uv_listen((uv_stream_t *)listener, BACKLOG, echo_on_connection);
}

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
 * program can simply end. Newcomers may come to all threads at once: one
 * descriptor for each is kept. */
static void
start(server_t *server)
{
  unsigned threads = server->options.threads;
  uint64_t limit =
      need_descriptors(DESCRIPTORS_OF_ALL + threads * DESCRIPTORS_PER_THREAD);
  struct sockaddr_storage address;
  char text[ADDRESS_TEXT_SIZE];

  parse_address(server->options.host, server->options.port, &address);
  format_address(&address, text);
  int error = claim_port((struct sockaddr *)&address);
  for (unsigned i = 0; i < threads && error == 0; i++)
    error = open_worker(&server->workers[i], i + 1, &server->options,
                        limit - threads, (struct sockaddr *)&address);
  for (unsigned i = 0; i < threads && error == 0; i++)
    error =
        uv_thread_create(&server->workers[i].thread, run, &server->workers[i]);
  if (error != 0) {
    complain("cannot listen on %s with %u threads: %s", text, threads,
             error == UV_ENOPROTOOPT ? "this system has no SO_REUSEPORT"
                                     : uv_strerror(error));
    exit(EXIT_FAILURE);
  }
  format_address(&address, text);
  announce("listening on %s, threads: %u\n", text, threads);
}

static void
add_figures(echo_figures_t *sum, const echo_figures_t *figures)
{
  sum->open += figures->open;
  sum->accepted += figures->accepted;
  sum->turned_away += figures->turned_away;
  sum->refreshes += figures->refreshes;
  sum->idle_closes += figures->idle_closes;
}

/* Returns the exit status. */
static int
stop(server_t *server)
{
  echo_figures_t sum = {.open = 0};
  double cpu_s = 0;
  int status = EXIT_SUCCESS;

  for (unsigned i = 0; i < server->options.threads; i++)
    uv_async_send(&server->workers[i].stop);
  for (unsigned i = 0; i < server->options.threads; i++) {
    worker_t *worker = &server->workers[i];
    uv_thread_join(&worker->thread);
    if (worker->error != 0) {
      complain("thread %u left handles open", worker->number);
      status = EXIT_FAILURE;
    }
    if (!server->options.quiet)
      print_figures("summary thread", worker->number, &worker->echo.figures,
                    worker->cpu_s);
    add_figures(&sum, &worker->echo.figures);
    cpu_s += worker->cpu_s;
  }
  if (!server->options.quiet)
    print_figures("summary threads", server->options.threads, &sum, cpu_s);
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
