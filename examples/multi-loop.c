/* SPDX-License-Identifier: MIT */

/* An echo server on several threads that share nothing.
 *
 * Each thread has a loop, a wheel and a listening socket of its own, and runs
 * the server of echo.c on them. The sockets listen on one port (SO_REUSEPORT),
 * and the kernel deals the connections among them: nothing is locked or handed
 * over, and a connection's timer lives where its socket lives. Two things cross
 * threads. The main thread, whose loop waits for a signal, asks the others to
 * stop, by uv_async_send(). With --http, its page asks their wheels for figures
 * through their mailboxes. The figures of all threads are printed, and added
 * up, when the threads have ended.
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
#include "common/server.h"
#include "echo.h"
#include "live/echo-counts.h"
#include "live/live.h"

#define BACKLOG 4096
#define DESCRIPTORS_PER_THREAD 8 /* its loop and its listening socket */
#define DESCRIPTORS_OF_ALL 32

const char *const program = "multi-loop";

/* While the thread runs all of this is its own, but "stop", the name and the
 * wheel's mailbox. */
typedef struct worker_s {
  unsigned number;
  char name[16]; /* the same, as text */
  uv_thread_t thread;
  uv_loop_t loop;
  uv_async_t stop;
  uv_signal_t block;
  echo_t echo;
  uvwheel_stats_t stats; /* of its wheel, which has none once it is closed */
  double cpu_s;
  int error; /* of closing the loop */
} worker_t;

typedef struct server_s {
  server_options_t options;
  worker_t *workers;
  uv_loop_t loop; /* of the main thread: it serves the page alone */
  end_signals_t signals;
  page_t page;
} server_t;

/* ---- Figures ------------------------------------------------------------ */

static void print_figures(const char *title, unsigned number,
                          const echo_figures_t *figures, double cpu_s,
                          const uvwheel_stats_t *stats) {
  char text[ECHO_TEXT_SIZE], wheel[WHEEL_TEXT_SIZE] = "";

  echo_format(figures, text);
  if (stats != NULL)
    wheel_format(stats, wheel);
  printf("%s=%u %s cpu_s=%.3f%s\n", title, number, text, cpu_s, wheel);
  fflush(stdout);
}

static double cpu_s_of_thread(void) {
  struct timespec cpu;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
}

/* ---- A thread ----------------------------------------------------------- */

static void run(void *data) {
  worker_t *worker = data;

  uv_run(&worker->loop, UV_RUN_DEFAULT); /* until all is closed */
  worker->cpu_s = cpu_s_of_thread();
  worker->error = uv_loop_close(&worker->loop);
}

static void on_stop(uv_async_t *stop) {
  worker_t *worker = stop->data;

  uvwheel_get_stats(&worker->echo.wheel, &worker->stats);
  uv_close((uv_handle_t *)stop, NULL);
  uv_close((uv_handle_t *)&worker->block, NULL);
  echo_stop(&worker->echo);
}

/* Sockets can share a port if each has this option before it is bound. */
static int share_port(const uv_tcp_t *listener) {
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
static int open_worker(worker_t *worker, unsigned number,
                       server_options_t *options, uint64_t descriptor_limit,
                       const struct sockaddr *address) {
  uv_loop_t *loop = &worker->loop;
  uv_tcp_t *listener = &worker->echo.listener;
  int error;

  worker->number = number;
  snprintf(worker->name, sizeof(worker->name), "%u", number);
  worker->echo.descriptor_limit = descriptor_limit;
  if ((error = uv_loop_init(loop)) != 0 ||
      (error = uv_async_init(loop, &worker->stop, on_stop)) != 0 ||
      (error = echo_init(&worker->echo, loop, address->sa_family, options)) !=
          0 ||
      (error = share_port(listener)) != 0 ||
      (error = uv_tcp_bind(listener, address, 0)) != 0)
    return error;
  worker->stop.data = worker;
  block_start(&worker->block, loop, options);
  return uv_listen((uv_stream_t *)listener, BACKLOG, echo_on_connection);
}

/* ---- Start -------------------------------------------------------------- */

/* Turns port 0 into a free one, and fails if the port is in use: sockets that
 * share a port would share it with a second server of this kind, too. */
static int claim_port(struct sockaddr *address) {
  socklen_t size = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : sizeof(struct sockaddr_in);
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

/* The wheels get their mailboxes: no thread may run yet. */
static int start_page(server_t *server) {
  live_wheel_t shown[LIVE_MAX_WHEELS];

  for (unsigned i = 0; i < server->options.threads; i++)
    shown[i] = echo_shown(server->workers[i].name, &server->workers[i].echo);
  return page_start(&server->page, &server->loop, &server->options, shown,
                    server->options.threads);
}

/* Newcomers may come to all threads at once: one descriptor for each is kept.
 * Threads that shed make room before the descriptors of all are used up. When
 * something is missing the program can simply end: all is made before the first
 * thread starts. */
static void start(server_t *server) {
  unsigned threads = server->options.threads;
  uint64_t needed = DESCRIPTORS_OF_ALL + threads * DESCRIPTORS_PER_THREAD;
  uint64_t limit = need_descriptors(needed);
  uint64_t share = 1 + (limit - needed) / threads;
  uint64_t *most = &server->options.most_peers;
  struct sockaddr_storage address;
  char text[ADDRESS_TEXT_SIZE];

  if (server->options.sheds && (*most == 0 || *most > share))
    *most = share;
  parse_address(server->options.host, server->options.port, &address);
  format_address(&address, text);
  int error = claim_port((struct sockaddr *)&address);
  for (unsigned i = 0; i < threads && error == 0; i++)
    error = open_worker(&server->workers[i], i + 1, &server->options,
                        limit - threads, (struct sockaddr *)&address);
  if (error == 0) {
    format_address(&address, text);
    announce("listening on %s, threads: %u\n", text, threads);
    if (server->options.http_port != NO_HTTP && start_page(server) != 0)
      exit(EXIT_FAILURE);
  }
  for (unsigned i = 0; i < threads && error == 0; i++)
    error =
        uv_thread_create(&server->workers[i].thread, run, &server->workers[i]);
  if (error != 0) {
    complain("cannot listen on %s with %u threads: %s", text, threads,
             uv_strerror(error));
    exit(EXIT_FAILURE);
  }
}

/* ---- Stop --------------------------------------------------------------- */

/* The page goes first: nothing posts to the other wheels after that. */
static void on_signal(uv_signal_t *signal, int number) {
  server_t *server = signal->data;

  (void)number;
  close_end_signals(&server->signals);
  page_stop(&server->page);
}

static void add_figures(echo_figures_t *sum, const echo_figures_t *figures) {
  for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
    ((uint64_t *)sum)[i] += ((const uint64_t *)figures)[i];
}

/* Returns the exit status. */
static int stop(server_t *server) {
  static echo_figures_t sum; /* all zeros */
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
    print_figures("summary thread", worker->number, &worker->echo.figures,
                  worker->cpu_s, &worker->stats);
    add_figures(&sum, &worker->echo.figures);
    cpu_s += worker->cpu_s;
  }
  print_figures("summary threads", server->options.threads, &sum, cpu_s, NULL);
  return status;
}

int main(int argc, char **argv) {
  static server_t server;

  parse_options(argc, argv, MULTI_LOOP, &server.options);
  if (server.options.http_port != NO_HTTP &&
      server.options.threads > LIVE_MAX_WHEELS)
    usage_error("--http shows at most %d threads", LIVE_MAX_WHEELS);
  server.workers = calloc(server.options.threads, sizeof(*server.workers));
  if (server.workers == NULL) {
    complain("out of memory");
    return EXIT_FAILURE;
  }
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  open_loop(&server.loop, &server.signals, on_signal, &server);
  start(&server);
  run_to_end(&server.loop);
  int status = stop(&server);
  page_free(&server.page);
  free(server.workers);
  return status;
}
