/* SPDX-License-Identifier: MIT */

/* An echo server that closes idle connections.
 *
 * echo.c is the server: how it uses uvwheel, and stays up. This file adds
 * figures, the live page, an end by SIGINT or SIGTERM that closes every handle,
 * as uv_loop_close() confirms, and, to compare, the same server with other
 * timers (--timer, rivals/).
 */

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>
#include <uvwheel.h>

#include "common/cli.h"
#include "common/server.h"
#include "echo.h"
#include "live/echo-counts.h"
#include "live/live.h"
#include "rivals/rivals.h"

#define BACKLOG 4096
#define MIN_DESCRIPTORS 32

const char *const program = "idle-server";

typedef struct server_s {
  uv_loop_t loop;
  end_signals_t signals;
  uv_signal_t block;
  iterations_t iterations;
  echo_t echo;
  uvwheel_stats_t stats; /* of its wheel, which has none once it is closed */
  const rival_t *calls;  /* those of echo.h, or of a rival */
  page_t page;
  int status; /* the exit status to be */
  server_options_t options;
} server_t;

static const rival_t wheel_calls = {"wheel", sizeof(uvwheel_timer_t), echo_init,
                                    echo_on_connection, echo_stop};

/* ---- Figures ----------------------------------------------------------- */

static void print_figures(const server_t *server) {
  const rival_t *calls = server->calls;
  usage_t usage = usage_of_process();
  char text[ECHO_TEXT_SIZE], wheel[WHEEL_TEXT_SIZE] = "";

  echo_format(&server->echo.figures, text);
  if (calls == &wheel_calls)
    wheel_format(&server->stats, wheel);
  printf("summary timer=%s %s timer_bytes=%zu cpu_s=%.3f rss_kib=%" PRIu64
         " max_rss_kib=%" PRIu64 " longest_iteration_ms=%.1f%s\n",
         calls->name, text, calls->timer_bytes, usage.cpu_s, usage.rss_kib,
         usage.max_rss_kib, (double)server->iterations.longest_ns / 1e6, wheel);
  fflush(stdout);
}

/* ---- Stop ------------------------------------------------------------- */

static void stop(server_t *server) {
  close_end_signals(&server->signals);
  uv_close((uv_handle_t *)&server->block, NULL);
  iterations_stop(&server->iterations);
  page_stop(&server->page);
  uvwheel_get_stats(&server->echo.wheel, &server->stats);
  server->calls->stop(&server->echo);
}

static void on_signal(uv_signal_t *signal, int number) {
  (void)number;
  stop(signal->data);
}

/* ---- Start ------------------------------------------------------------- */

static int start_listening(server_t *server) {
  char text[ADDRESS_TEXT_SIZE];
  int error = listen_at(&server->echo.listener, server->options.host,
                        server->options.port, BACKLOG,
                        server->calls->on_connection, text);

  if (error == 0)
    announce("listening on %s\n", text);
  return error;
}

static int start_page(server_t *server) {
  const live_wheel_t shown[] = {echo_shown("idle", &server->echo),
                                newcomers_shown(&server->echo)};

  return page_start(&server->page, &server->loop, &server->options, shown,
                    server->echo.sheds ? 2 : 1);
}

static const rival_t *calls_of(const char *timer) {
  static const rival_t *const all[] = {&wheel_calls, &rival_uv, &rival_chance,
                                       &rival_none};

  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    if (strcmp(timer, all[i]->name) == 0)
      return all[i];
  usage_error("--timer takes wheel, uv, chance or none, not '%s'", timer);
}

static int start(server_t *server) {
  uv_loop_t *loop = &server->loop;

  open_loop(loop, &server->signals, on_signal, server);
  block_start(&server->block, loop, &server->options);
  int error =
      server->calls->init(&server->echo, loop, AF_UNSPEC, &server->options);
  iterations_start(&server->iterations, loop);
  if (error != 0)
    complain("cannot make the wheel: %s", uv_strerror(error));
  else
    error = start_listening(server);
  if (error == 0 && server->options.http_port != NO_HTTP)
    error = start_page(server);
  return error;
}

static int run(server_t *server) {
  if (start(server) != 0) {
    server->status = EXIT_FAILURE;
    stop(server);
  }
  run_to_end(&server->loop);
  page_free(&server->page);
  if (server->status == EXIT_SUCCESS)
    print_figures(server);
  return server->status;
}

int main(int argc, char **argv) {
  static server_t server;

  parse_options(argc, argv, IDLE_SERVER, &server.options);
  server.calls = calls_of(server.options.timer);
  signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error, not the end */
  server.echo.descriptor_limit = need_descriptors(MIN_DESCRIPTORS);
  return run(&server);
}
